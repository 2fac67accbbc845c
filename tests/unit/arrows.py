"""Fails on every #include between components that the architecture does not allow."""

import os
import pathlib
import re
import tempfile
import unittest

COMPONENTS = ("bench", "topo", "tuner", "reports", "scripts", "tests")
CODE = ("bench", "topo", "tuner", "reports")
SUFFIXES = {".cpp", ".hpp", ".cc", ".h", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# Components that each component may use besides itself. A component is a folder with all below it that has no row of its own.
MAY_USE = {
    "bench/base": (),
    "bench/model": ("bench/base",),
    "bench/measure": ("bench/base", "bench/model"),
    "bench/control": ("bench/base", "bench/model"),
    # The mpi backend measures the MPI that the control plane uses, and reports its errors in the same way.
    "bench/backends": ("bench/base", "bench/model", "bench/control"),
    "bench/job": ("bench/base", "bench/model"),
    "topo": ("bench/base",),
    "tuner": ("bench/base", "bench/model", "bench/measure", "topo"),
    # The worker's own tuner is controlled by the session.
    "tuner/plugin": ("bench/base", "bench/backends", "tuner"),
    "reports": ("bench/base", "bench/model", "bench/measure", "topo"),
    "bench/app": ("bench/base", "bench/model", "bench/measure", "bench/control", "bench/backends", "bench/job", "topo",
                  "tuner", "reports"),
}


def component_of(path):
    """The component of a path from the root; None outside of all."""
    folder = path
    while "/" in folder:
        folder = folder.rsplit("/", 1)[0]
        if folder in MAY_USE:
            return folder
    return None


def broken_rule(user, used):
    """The rule that `user` including `used` breaks, or None. Both are paths from the root of the tree."""
    if user.startswith("tests/"):
        return None
    if used.split("/")[0] in ("tests", "scripts"):
        return "the program uses nothing of tests and scripts"
    component, other = component_of(user), component_of(used)
    for path, found in ((user, component), (used, other)):
        if found is None:
            return f"{path} is in no component: {', '.join(MAY_USE)}"
    if component == other or other in MAY_USE[component]:
        return None
    return f"of the other components {component} uses " + (f"only {', '.join(MAY_USE[component])}" if MAY_USE[component] else "none")


def target_of(root, user, name):
    """The path from the root that an include means, or None for headers from outside."""
    for start in (user.parent, root):
        candidate = pathlib.Path(os.path.normpath(start / name))
        if candidate.is_file() and candidate.is_relative_to(root):
            return candidate.relative_to(root).as_posix()
    # A file that does not exist yet, or is generated: its name alone determines the component.
    name = os.path.normpath(name)
    return name if name.split("/")[0] in COMPONENTS and "/" in name else None


def wrong_arrows(root):
    """One line for each wrong arrow below `root`: file:line, the arrow, the rule."""
    root = pathlib.Path(root).resolve()
    found = []
    for component in CODE + ("tests",):
        for path in sorted((root / component).rglob("*")):
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
    """The check itself, on small trees made for this test."""

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
        for user, used in (("bench/app/main.cpp", "reports/report.hpp"), ("bench/app/main.cpp", "bench/app/run/a.hpp"),
                           ("bench/app/run/run.cpp", "tuner/race.hpp"), ("bench/measure/a.cpp", "bench/model/case.hpp"),
                           ("topo/limits.cpp", "bench/base/units.hpp"), ("topo/checks/nic.cpp", "topo/finding.hpp"),
                           ("reports/html.cpp", "topo/topology.hpp"), ("reports/compare/a.cpp", "reports/report.hpp"),
                           ("bench/model/collectives.cpp", "bench/base/names.hpp"),
                           ("bench/backends/nccl/a.cu", "bench/model/case.hpp"), ("tuner/plugin/a.cpp", "tuner/a.hpp"),
                           ("tests/unit/a_test.cpp", "bench/app/run/run.hpp")):
            with self.subTest(user=user, used=used):
                self.assertEqual(self.arrows_of({user: f'#include "{used}"\n', used: ""}), [])

    def test_wrong_arrows_are_caught(self):
        for user, used in (("bench/measure/runner.cpp", "topo/topology.hpp"),
                           ("bench/backends/sim.cpp", "reports/report.hpp"), ("bench/model/plan.hpp", "tuner/race.hpp"),
                           ("bench/base/units.cpp", "bench/model/a.hpp"), ("bench/model/a.cpp", "bench/measure/a.hpp"),
                           ("bench/measure/a.cpp", "bench/backends/a.hpp"), ("bench/control/a.cpp", "bench/app/a.hpp"),
                           ("topo/limits.cpp", "bench/model/case.hpp"), ("topo/limits.cpp", "reports/report.hpp"),
                           ("reports/json.cpp", "tuner/race.hpp"), ("tuner/race.cpp", "reports/report.hpp"),
                           ("tuner/race.cpp", "tuner/plugin/a.hpp"), ("bench/model/plan.cpp", "bench/app/run/run.hpp"),
                           ("reports/json.cpp", "bench/app/run/run.hpp"), ("topo/limits.cpp", "tests/fakes/world.hpp"),
                           ("bench/new.cpp", "bench/base/units.hpp")):
            with self.subTest(user=user, used=used):
                self.assert_caught(user, used)

    def test_other_spellings_are_caught(self):
        for include in ('"../../topo/topology.hpp"', "<topo/topology.hpp>", ' "bench/../topo/topology.hpp"'):
            with self.subTest(include=include):
                self.assert_caught("bench/measure/runner.cpp", "topo/topology.hpp", include)

    def test_a_header_that_does_not_exist_yet_is_caught(self):
        self.assertEqual(len(self.arrows_of({"bench/model/a.cpp": '#  include "topo/planned.hpp"\n'})), 1)

    def test_headers_from_outside_pass(self):
        self.assertEqual(self.arrows_of({"topo/a.cpp": "#include <hwloc.h>\n#include <nlohmann/json.hpp>\n"}), [])


if __name__ == "__main__":
    unittest.main()
