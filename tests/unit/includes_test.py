"""Each source includes, directly or indirectly, a header for each name that it uses. Where sources of a component are
compiled together (scripts/test does that by day) the compiler does not detect a missing one. This test covers functions
and types of our headers at the beginning of a line, and the names of the standard library below; at night every source
is compiled alone."""

import functools
import os
import pathlib
import re
import tempfile
import unittest

import arrows

ROOT = pathlib.Path(os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
FOLDERS = ("bench", "topo", "tuner", "reports", "tests")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
FUNCTION = re.compile(r"^(?:\[\[\w+\]\] )?(?:[\w:<>,&*]+ )+[&*]?(\w+)\(", re.M)
TYPE = re.compile(r"^(?:struct|class|enum class|enum) (\w+)(?: final)?(?: :[^;{]*)? \{|^using (\w+) =", re.M)
KEYWORDS = {"operator", "if", "while", "for", "switch", "return", "sizeof", "decltype", "requires", "catch"}

# Headers of some names of the standard library that no other header is guaranteed to include.
STANDARD = {
    "algorithm": "any_of all_of none_of clamp count_if find_if max_element min_element minmax_element sort stable_sort "
                 "transform upper_bound lower_bound nth_element inplace_merge adjacent_find is_sorted set_difference",
    "array": "array", "atomic": "atomic", "charconv": "from_chars to_chars", "cmath": "isfinite isnan sqrt pow llround lround",
    "condition_variable": "condition_variable", "csignal": "raise", "deque": "deque", "fstream": "ifstream ofstream",
    "functional": "function", "iomanip": "get_time put_time setprecision setw setfill", "iostream": "cout cerr clog cin",
    "limits": "numeric_limits", "list": "list", "map": "map multimap", "memory": "make_unique make_shared unique_ptr shared_ptr",
    "mutex": "mutex lock_guard unique_lock", "numeric": "accumulate iota gcd partial_sum", "optional": "optional nullopt",
    "random": "mt19937 mt19937_64 normal_distribution uniform_int_distribution", "regex": "regex regex_match regex_search",
    "set": "set multiset", "span": "span", "sstream": "istringstream ostringstream stringstream", "thread": "thread this_thread",
    "tuple": "tuple tie make_tuple", "unordered_map": "unordered_map", "unordered_set": "unordered_set", "variant": "variant visit",
}
POSIX = {"read", "write", "send", "close", "open"}  # as functions
# Names of std::ranges count as names of std. These headers certainly include others of the standard library.
BROUGHT = {"map": {"unordered_map"}, "array": {"span", "tuple", "functional", "ranges"}, "tuple": {"map", "functional", "memory"},
           "optional": set(), "atomic": {"thread"}, "mutex": {"condition_variable"}}


def code_of(text):
    return NOT_CODE.sub(lambda match: '""' if match[0][0] in "\"'R" else " ", text)


class Tree:
    def __init__(self, root):
        self.root = root
        self.files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*"))
                      if path.suffix in (".cpp", ".hpp") and "fixtures" not in path.parts]
        self.code = {path: code_of(path.read_text()) for path in self.files}
        self.homes = {}  # name -> the headers that declare it
        for path in self.files:
            if path.suffix == ".hpp":
                for name in self.declared(path):
                    self.homes.setdefault(name, set()).add(path)

    def declared(self, path):
        """[(name, whether it is a function)]"""
        functions = {(name, True) for name in FUNCTION.findall(self.code[path]) if name not in KEYWORDS}
        return functions | {(a or b, False) for a, b in TYPE.findall(self.code[path])}

    @functools.cache
    def reach(self, path):
        """All headers that a file includes, at any depth: ours and others'."""
        ours, others = {path}, set()
        for quote, name in INCLUDE.findall(path.read_text()):
            target = next((each for each in (self.root / name, path.parent / name) if each in self.code), None)
            if quote == '"' and target and target not in ours:
                below, theirs = self.reach(target)
                ours |= below
                others |= theirs
            elif quote == "<":
                others.add(name)
        return ours, others

    @functools.cache
    def words(self, path):
        return set(re.findall(r"\b\w+\b", self.code[path]))

    def may_use(self, path, header):
        user, used = (str(each.relative_to(self.root)) for each in (path, header))
        if used.startswith("tests/"):
            return header.parent == path.parent
        return user.startswith("tests/") or not arrows.component_of(user) or arrows.broken_rule(user, used) is None

    def missing(self, path):
        """A list of the errors in a source."""
        code, wrong = self.code[path], []
        ours, others = self.reach(path)
        plain = re.sub(r"(?:\.|->|(?:\b\w+)?::)\s*\w+", " ", re.sub(r"\w+::(?=\w+::)|\bp5::(?:\w+::)*", "", code))
        used = set(re.findall(r"\b[A-Za-z_]\w*\b", plain))
        called = set(re.findall(r"\b([A-Za-z_]\w*)\(", plain))
        homes_of = {} if "tests" in path.parts else self.homes  # tests name suites and variables alike
        for (name, function), homes in homes_of.items():
            homes = {each for each in homes if self.may_use(path, each)}
            if not homes or name not in (called if function else used) or homes & ours or name in POSIX:
                continue
            # Other declarations of the name in this file: a function or variable, a parameter, a member.
            own = rf"(?:[\w>\]&*]|\])\s+[&*]?{name}\s*[(;={{,):\[]|\b(?:struct|class|enum|using|enum class|typename)\s+{name}\b|\[{name}[,\]]|, {name}\]"
            if re.search(own, re.sub(r"\b(?:return|case|co_return|else|throw|new|delete)\s", " ; ", code)):
                continue
            # Other forms of declaration; a function may be a member of a class that this source implements.
            if any(name in self.words(header) for header in ours - {path} if not function or header.stem == path.stem):
                continue
            homes_named = ", ".join(sorted(str(each.relative_to(self.root)) for each in homes))
            wrong.append(f"{path.relative_to(self.root)} uses {name} and includes nothing that has it: {homes_named}")
        for header, names in STANDARD.items():
            if header in others or others & BROUGHT.get(header, set()):
                continue
            found = [name for name in names.split() if re.search(rf"\bstd::(?:ranges::)?{name}\b", code)]
            if found:
                wrong.append(f"{path.relative_to(self.root)} uses std::{found[0]} without <{header}>")
        return wrong


class Includes(unittest.TestCase):
    def test_every_source_has_what_it_uses(self):
        tree = Tree(ROOT)
        self.assertGreater(len(tree.files), 100)
        wrong = [each for path in tree.files if path.suffix == ".cpp" for each in tree.missing(path)]
        self.assertFalse(wrong, "\n".join(wrong))

    def test_what_is_missing_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "bench").mkdir()
            (root / "bench/names.hpp").write_text("#pragma once\n#include <string>\nstd::string join(int);\nstruct Named {\n};\n")
            (root / "bench/other.hpp").write_text('#pragma once\n#include "bench/names.hpp"\n')
            for text, found in (('#include "bench/names.hpp"\nauto a = join(1);\n', 0), ('#include "bench/other.hpp"\nNamed a;\n', 0),
                                ("auto a = join(1);\n", 1), ("Named a;\n", 1), ("auto a = text.join(1); // join(1)\n", 0),
                                ("int join(int);\nauto a = join(1);\n", 0), ("auto a = std::get_time(b, c);\n", 1),
                                ("#include <iomanip>\nauto a = std::get_time(b, c);\n", 0)):
                (root / "bench/user.cpp").write_text(text)
                self.assertEqual(len(Tree(root).missing(root / "bench/user.cpp")), found, text)


if __name__ == "__main__":
    unittest.main()
