"""The names in the last column of the glossary (bench/README.md) are used nowhere in the sources."""

import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh", ".h"}


def never_used(readme):
    """Names of the last column of the glossary's table, with their term."""
    text = readme[readme.index("## Glossary"):]
    text = text[:text.index("\n## ")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {name: row[0] for row in rows[2:] for name in filter(None, re.split(r",\s*", row[2]))}


def uses(text, names):
    """The lines (from 1) that use one of the names as a whole word."""
    pattern = re.compile(r"\b(%s)\b" % "|".join(map(re.escape, names)))
    return [(number, match.group()) for number, line in enumerate(text.splitlines(), 1)
            for match in pattern.finditer(line)]


class Glossary(unittest.TestCase):
    def test_sources_use_the_terms_of_the_glossary(self):
        names = never_used((SOURCE / "bench" / "README.md").read_text())
        self.assertGreater(len(names), 15)
        wrong = [f"{path.relative_to(SOURCE)}:{number}: {name}: the term here is \"{names[name]}\""
                 for component in ("bench", "topo", "tuner", "reports", "tests") for path in sorted((SOURCE / component).rglob("*"))
                 if path.suffix in SUFFIXES for number, name in uses(path.read_text(), names)]
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_a_name_is_found_as_a_whole_word_only(self):
        self.assertEqual(uses("struct Visit;\nVisitor v;\n// a Visit", ["Visit"]), [(1, "Visit"), (3, "Visit")])


if __name__ == "__main__":
    unittest.main()
