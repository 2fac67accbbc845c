"""scripts/slurm/prolog: for which ends of `p5bench check` Slurm drains a node. A stand-in ends as it is told."""

import os
import pathlib
import subprocess
import tempfile
import unittest

PROLOG = pathlib.Path(os.environ["P5BENCH_SOURCE"]) / "scripts" / "slurm" / "prolog"
STAND_IN = """#!/bin/sh
echo "called with $*"
echo "n1: NOT FIT: gpu n0g3"
echo "not said to anybody" > "$0.called"
exit %d
"""


class Prolog(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="p5bench-prolog-")
        self.addCleanup(folder.cleanup)
        self.program = pathlib.Path(folder.name) / "stand-in"

    def run_with(self, code):
        self.program.write_text(STAND_IN % code)
        self.program.chmod(0o755)
        # As slurmd starts it: next to no environment, and the root as its folder.
        done = subprocess.run([str(PROLOG)], env={"P5BENCH": str(self.program), "PATH": "/usr/bin:/bin"}, cwd="/", text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        self.assertTrue(pathlib.Path(f"{self.program}.called").exists())
        return done

    def test_it_drains_a_node_that_is_at_fault_and_says_why(self):
        for code in (10, 11, 12):
            done = self.run_with(code)
            self.assertEqual(done.returncode, 1, code)
            self.assertIn(f"ended with {code}\ncalled with check\nn1: NOT FIT: gpu n0g3\n", done.stderr)

    def test_it_drains_none_for_anything_else(self):
        for code in (0, 1, 2, 13, 14, 126, 137):
            done = self.run_with(code)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), code)

    def test_nor_where_there_is_no_such_program(self):
        done = subprocess.run([str(PROLOG)], env={"P5BENCH": "/nowhere/p5bench", "PATH": "/usr/bin:/bin"}, cwd="/", timeout=60)
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
