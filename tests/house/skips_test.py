"""scripts/lib/skips.py over what ctest writes of tests that were skipped in every way in which ours are; and no class of a
test file is left out by all tests of ctest."""

import ast
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["P5BENCH_SOURCE"])
BUILD = pathlib.Path(os.environ["P5BENCH_BUILD"])
SUITE = """
import unittest

class Part(unittest.TestCase):
    def test_runs(self):
        print("word " * 1000)

    @unittest.skip("no wings")
    def test_flies(self):
        pass

    def test_swims(self):
        self.skipTest("no\\n  water")

class Whole(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise unittest.SkipTest("no body")

    def test_lives(self):
        pass

unittest.main()
"""
CTEST = f"""
add_test(runs "true")
add_test(exits "sh" "-c" "echo left out: no thing; exit 77")
add_test(off "true")
add_test(python "{sys.executable}" "{SOURCE}/tests/support/suite.py" "suite.py")
set_tests_properties(exits PROPERTIES SKIP_RETURN_CODE 77)
set_tests_properties(off PROPERTIES DISABLED ON)
"""
SKIPS = ["exits: no thing", "off: Disabled", "python/Part.test_flies: no wings",
         "python/Part.test_swims: no water", "python/setUpClass (Whole): no body"]


class Skips(unittest.TestCase):
    def assert_names(self, line, skip):
        name, _, reason = skip.partition(": ")
        self.assertTrue(line.startswith(f"  {name}: ") and reason in line, line)

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="p5bench-skips-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        (cls.folder / "suite.py").write_text(SUITE)
        (cls.folder / "CTestTestfile.cmake").write_text(CTEST)
        subprocess.run(["ctest", "--output-junit", "results.xml"], cwd=cls.folder, check=True, capture_output=True)

    def judge(self, *lines):
        (self.folder / "skips.txt").write_text("\n".join(lines) + "\n")
        return subprocess.run([sys.executable, SOURCE / "scripts" / "lib" / "skips.py", "skips.txt", "results.xml"],
                              cwd=self.folder, capture_output=True, text=True)

    def test_what_is_listed_is_told_with_its_reason(self):
        done = self.judge("# a comment: with a colon", "", *SKIPS)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        told = done.stdout.splitlines()[1:]
        self.assertEqual(len(told), len(SKIPS))
        for line, skip in zip(told, SKIPS):
            self.assert_names(line, skip)

    def test_what_is_not_listed_is_a_failure_that_names_it_alone(self):
        for missing in SKIPS:
            with self.subTest(missing=missing):
                done = self.judge(*(line for line in SKIPS if line != missing))
                self.assertEqual(done.returncode, 1)
                named, = done.stderr.splitlines()[1:]
                self.assert_names(named, missing)

    def test_a_line_holds_for_its_reason_alone(self):
        done = self.judge(*SKIPS[1:], "exits: no patience")
        self.assertEqual(done.returncode, 1)
        self.assertIn("exits: left out: no thing", done.stderr)

    def test_wildcards_and_lines_for_tests_that_ran(self):
        done = self.judge(*SKIPS[:3], "python/*: no", "runs: no legs", "nobody: no name")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("runs", done.stdout)

    def test_a_line_without_a_reason_is_refused(self):
        for line in ("exits", "exits:", "exits: "):
            self.assertIn("no reason is given for exits", self.judge(*SKIPS, line).stderr, line)

    def test_those_of_google_tests_are_told_alike(self):
        broken = self.folder / "broken"
        broken.mkdir()
        (broken / "yaml.py").write_text("raise ImportError\n")
        told = subprocess.run([BUILD / "tests" / "unit_tests", "--gtest_filter=TuningFiles.for_Kubernetes_hold_every_value_as_it_is"],
                              env={**os.environ, "PYTHONPATH": str(broken)}, capture_output=True, text=True, check=True).stdout
        self.assertIn("CTEST_FULL_OUTPUT", told)
        part, = [line for line in told.splitlines() if line.startswith("skipped part: ")]
        self.assertRegex(part, r"^skipped part: TuningFiles.for_Kubernetes_hold_every_value_as_it_is: .*Python's yaml is not there")


class Parts(unittest.TestCase):
    def test_each_class_of_a_file_that_is_run_in_parts_is_in_one_of_them(self):
        shown = subprocess.run(["ctest", "--show-only=json-v1"], cwd=BUILD, check=True, capture_output=True, text=True).stdout
        parts = {}
        for test in json.loads(shown)["tests"]:
            _, _, rest = "\0".join(test.get("command", [])).partition("/tests/support/suite.py\0")
            if rest:
                file, *classes = rest.split("\0")
                parts.setdefault(file, []).append(classes)
        self.assertTrue(parts)
        for file, classes in parts.items():
            if [] in classes:  # the whole file
                continue
            with_tests = {each.name for each in ast.parse(pathlib.Path(file).read_text()).body if isinstance(each, ast.ClassDef) and
                          any(getattr(member, "name", "").startswith("test_") for member in each.body)}
            self.assertEqual(with_tests - set().union(*classes), set(), f"classes of {file} that no test of ctest runs")


if __name__ == "__main__":
    unittest.main()
