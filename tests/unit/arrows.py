"""Fails on every #include between rooms (the top folders) that the architecture does not allow."""

import os
import pathlib
import re
import tempfile
import unittest

ROOMS = ("bench", "topo", "tuner", "reports", "scripts", "tests")
CODE = ("bench", "topo", "tuner", "reports")
SUFFIXES = {".cpp", ".hpp", ".cc", ".h", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

TOPO_MAY_USE = {"bench/units.hpp", "bench/error.hpp", "bench/names.hpp", "bench/embedded.hpp"}


def composes(path):
    """The files that put the rooms together."""
    return path == "bench/main.cpp" or path.startswith("bench/commands/")


def broken_rule(user, used):
    """The rule that `user` including `used` breaks, or None. Both are paths from the root of the tree."""
    room, other = user.split("/")[0], used.split("/")[0]
    if room == "tests":
        return None
    if other in ("tests", "scripts"):
        return "the program uses nothing of tests and scripts"
    if composes(user):
        return None
    if used.startswith("bench/commands/"):
        return "only main, commands and tests use bench/commands"
    if room == other:
        return None
    if room == "bench":
        return "bench uses none of topo, tuner and reports, outside main and commands"
    if room == "topo":
        return None if used in TOPO_MAY_USE else "of the other rooms topo uses only " + ", ".join(sorted(TOPO_MAY_USE))
    return None if other in ("bench", "topo") else f"of the other rooms {room} uses only bench and topo"


def target_of(root, user, name):
    """The path from the root that an include means, or None for headers from outside."""
    for start in (user.parent, root):
        candidate = pathlib.Path(os.path.normpath(start / name))
        if candidate.is_file() and candidate.is_relative_to(root):
            return candidate.relative_to(root).as_posix()
    # Not written yet, or generated: the name alone tells the room.
    name = os.path.normpath(name)
    return name if name.split("/")[0] in ROOMS and "/" in name else None


def wrong_arrows(root):
    """One line for each wrong arrow below `root`: file:line, the arrow, the rule."""
    root = pathlib.Path(root).resolve()
    found = []
    for room in CODE + ("tests",):
        for path in sorted((root / room).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            user = path.relative_to(root).as_posix()
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = INCLUDE.match(line)
                used = target_of(root, path, match[2]) if match else None
                rule = broken_rule(user, used) if used else None
                if rule:
                    found.append(f"{user}:{number}: {user} -> {used}: {rule}")
    return found


class Arrows(unittest.TestCase):
    def test_the_tree_has_no_wrong_arrow(self):
        root = os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2]
        self.assertTrue((pathlib.Path(root) / "bench").is_dir(), f"{root} is no checkout")
        found = wrong_arrows(root)
        self.assertEqual(found, [], "\n" + "\n".join(found))


class Check(unittest.TestCase):
    """The check itself, on small trees made for it."""

    def arrows_of(self, files):
        with tempfile.TemporaryDirectory() as root:
            for name, text in files.items():
                path = pathlib.Path(root) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return wrong_arrows(root)

    def assert_caught(self, user, used, include=None):
        found = self.arrows_of({user: f'// first line\n#include {include or chr(34) + used + chr(34)}\n', used: ""})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{user}:2: {user} -> {used}: "), found[0])

    def test_right_arrows_pass(self):
        for user, used in (("bench/main.cpp", "reports/report.hpp"), ("bench/main.cpp", "bench/commands/run.hpp"),
                           ("bench/commands/run.cpp", "tuner/race.hpp"), ("bench/runner.cpp", "bench/case.hpp"),
                           ("topo/limits.cpp", "bench/units.hpp"), ("topo/checks/nic.cpp", "topo/finding.hpp"),
                           ("reports/html.cpp", "topo/topology.hpp"), ("reports/html.cpp", "bench/measurement.hpp"),
                           ("tuner/race.cpp", "bench/runner.hpp"), ("tests/unit/a_test.cpp", "bench/commands/run.hpp")):
            with self.subTest(user=user, used=used):
                self.assertEqual(self.arrows_of({user: f'#include "{used}"\n', used: ""}), [])

    def test_wrong_arrows_are_caught(self):
        for user, used in (("bench/runner.cpp", "topo/topology.hpp"), ("bench/backends/sim.cpp", "reports/report.hpp"),
                           ("bench/plan.hpp", "tuner/race.hpp"), ("topo/limits.cpp", "bench/case.hpp"),
                           ("topo/limits.cpp", "reports/report.hpp"), ("reports/json.cpp", "tuner/race.hpp"),
                           ("tuner/race.cpp", "reports/report.hpp"), ("bench/plan.cpp", "bench/commands/run.hpp"),
                           ("reports/json.cpp", "bench/commands/run.hpp"), ("topo/limits.cpp", "tests/fakes/world.hpp")):
            with self.subTest(user=user, used=used):
                self.assert_caught(user, used)

    def test_other_spellings_are_caught(self):
        for include in ('"../topo/topology.hpp"', "<topo/topology.hpp>", ' "bench/../topo/topology.hpp"'):
            with self.subTest(include=include):
                self.assert_caught("bench/runner.cpp", "topo/topology.hpp", include)

    def test_a_header_that_does_not_exist_yet_is_caught(self):
        self.assertEqual(len(self.arrows_of({"bench/a.cpp": '#  include "topo/planned.hpp"\n'})), 1)

    def test_headers_from_outside_pass(self):
        self.assertEqual(self.arrows_of({"topo/a.cpp": "#include <hwloc.h>\n#include <nlohmann/json.hpp>\n"}), [])


if __name__ == "__main__":
    unittest.main()
