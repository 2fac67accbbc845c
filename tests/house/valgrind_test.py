"""What valgrind's memcheck finds where no GPU is needed: values that were never set, which the sanitizers do not see, besides
what lies beyond its memory and what nobody frees."""

import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import BUILD, Folder, PROGRAM, main  # noqa: E402

PATIENCE_S = 1500
FOUND = 99
MEMCHECK = ["valgrind", "--quiet", f"--error-exitcode={FOUND}", "--leak-check=full", "--errors-for-leak-kinds=definite",
            "--show-leak-kinds=definite", "--num-callers=30"]
SIM = ["--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "2", "--quiet"]
# Tests that are short and use much code: reading, judging, writing, agreeing. Tests that depend on times are left out.
UNITS = ("Agreement.*:AtomicFile.*:Compare.*:DataTypes.*:CollectiveErrors.*:Interfaces.*:Journal*:Judge.*:Settings.*:MakeGroups.*:"
         "McaSettings.*:NcclLog.*:NcclTests*:Parse*:Plan.*:Protocol.*:ReportJson.*:Sittings.*:TopoChecks.*:TopoJson.*:"
         "TopoPci.*:TunerTable.*")


@unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")
class Memcheck(Folder):
    def check(self, *arguments, program=(PROGRAM,), exits=(0,)):
        done = self.run_it(*arguments, program=(*MEMCHECK, *program), patience=PATIENCE_S)
        self.assertNotIn("==", done.stderr)  # memcheck's words, also those of a child
        self.assertIn(done.returncode, exits, done.stderr)
        return done

    def test_a_run_and_what_is_made_of_its_report(self):
        for name, more in (("a", []), ("b", ["--fault", "gpu:n0g1:0.5"])):
            self.check(*SIM, "--sizes", "8,1MiB", "--launches", "2", "--seed", "1", "--out", name, *more, exits=(0, 10))
        reports = [self.folder / name / "latest" / "report.json" for name in ("a", "b")]
        self.check("compare", *reports, "--format", "console,json,html", "--out", "compared", exits=(0, 10, 14))
        self.check("report", reports[1], "--format", "html")
        self.check("report", reports[0], "--format", "gbench")
        self.check("baseline", reports[0], "--out", "baseline")

    def test_what_a_command_line_that_is_wrong_comes_to(self):
        for arguments in (["--sizes", "8KBx"], ["report", "missing"], ["list", "nothing"], ["--fault", "nic:n0r0:0.5"]):
            self.check(*arguments, exits=(2,))

    def test_what_the_machine_is(self):
        self.check("topo")
        self.check("plan", *SIM)
        self.check("list", "findings")

    def test_units(self):
        done = self.check(f"--gtest_filter={UNITS}", program=(BUILD / "tests" / "unit_tests",))
        self.assertIn("[  PASSED  ]", done.stdout)


if __name__ == "__main__":
    main()
