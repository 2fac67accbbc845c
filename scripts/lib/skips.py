"""Judges which tests ctest skipped: each needs a line in a list that names it and a reason that it gives itself.
usage: skips.py LIST RESULTS    (RESULTS: what ctest --output-junit wrote)"""

import fnmatch
import pathlib
import sys
import xml.etree.ElementTree

# The message of a test file that ran, but not completely; see tests/support/suite.py.
PART = "skipped part: "


def read_list(path):
    """[(name, reason)]; a name may hold wildcards."""
    lines = [line.strip() for line in pathlib.Path(path).read_text().splitlines()]
    rows = [line.partition(": ") for line in lines if line and not line.startswith("#")]
    wrong = [name for name, _, reason in rows if not reason.strip()]
    if wrong:
        sys.exit(f"{path}: no reason is given for {', '.join(wrong)}")
    return [(name, reason.strip()) for name, _, reason in rows]


def read_skips(path):
    """[(name, message)] of tests that did not run, and of parts of those that did."""
    skips = []
    for test in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        name, output = test.get("name"), test.findtext("system-out") or ""
        if test.find("skipped") is not None or test.get("status") == "disabled":
            skips.append((name, " ".join(output.split())))
        for line in output.splitlines():
            if line.startswith(PART):
                part, _, reason = line.removeprefix(PART).partition(": ")
                skips.append((f"{name}/{part}", reason))
    return skips


def main():
    allowed, skips = read_list(sys.argv[1]), read_skips(sys.argv[2])
    known, unknown = [], []
    for name, said in skips:
        may = any(fnmatch.fnmatchcase(name, pattern) and reason in said for pattern, reason in allowed)
        (known if may else unknown).append(f"  {name}: {said[:300]}")
    if known:
        print(f"skipped, as {sys.argv[1]} lists:", *known, sep="\n")
    if unknown:
        sys.exit("\n".join([f"skipped, and {sys.argv[1]} does not list it with that reason:", *unknown]))


if __name__ == "__main__":
    main()
