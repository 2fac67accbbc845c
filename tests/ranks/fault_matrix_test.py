"""Each fault in each phase of a run over MPI: the run ends in time, with the exit code of its report; the report is
valid and has all measurements, and no process or file is left over; --resume continues the ended run.

The phases are the program's own, of which some exist only for GPUs (gpu/workers_test.py). By day some faults meet one
phase each, signals and hanging leaders in ranks_test.py and failing_ranks_test.py, and at night a third of all pairs is tried. Where all are (P5BENCH_NIGHTLY=1 P5BENCH_WEEKLY=1),
P5BENCH_UPDATE=1 writes the table of FAULTS.md, which has to have these rows.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import BUILD, FEW_SAMPLES, NIGHTLY, PROGRAM, SOURCE, WEEKLY, Folder, environment, main, mpirun, read_report, tonight  # noqa: E402

FAILING = BUILD / "tests" / "failing_run"
SIZES = ("8", "1KiB", "64KiB")
OPTIONS = ["--collectives", "all_reduce,broadcast", "--sizes", ",".join(SIZES), "--out", "out"]
CASES = 2 * len(SIZES)
RANKS = 3


def phases_of_run():
    """The phases of a run over MPI, in their order."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*mpirun(RANKS), FAILING, "0", "none", "none", "0", *OPTIONS, "--quiet"], cwd=folder, check=True,
                       env=environment(P5BENCH_PHASES=folder + "/phases"), stdin=subprocess.DEVNULL, timeout=120,
                       stdout=subprocess.DEVNULL)
        return pathlib.Path(folder, "phases").read_text().splitlines()


PHASES = phases_of_run()
MEASURING = PHASES.index("measuring")
TABLE = SOURCE / "tests" / "FAULTS.md"
BEGIN, END = "<!-- matrix: P5BENCH_UPDATE=1 fault_matrix_test.py writes this table, weekly -->", "<!-- end -->"

# Actions at the beginning of a phase: (name, rank, action, variables, requirement).
THROWS = [("a rank throws", 2, "throw", {}), ("the leader throws", 0, "throw", {})]
KILLED = [("a rank is killed", 2, "die", {}), ("the leader is killed", 0, "die", {})]
SILENT = [("a rank hangs", 2, "hang", {}), ("the leader hangs", 0, "hang", {}),
          ("a rank is stopped", 2, "stop", {}), ("the leader is stopped", 0, "stop", {})]
SIGNALS = [("SIGTERM to a rank", 2, "SIGTERM", {})]
SIGNALS += [(f"{name} to the leader", 0, name, {}) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU")]
DISK = [("disk full", 0, "mark", {"P5BENCH_FAIL_WITH": "ENOSPC"}),
        ("folder removed", 0, "mark", {"P5BENCH_FAIL_WITH": "ENOENT"}),
        ("disk read-only", 0, "mark", {"P5BENCH_FAIL_WITH": "EROFS"})]
SLOW = [("disk answers after 7 s", 0, "mark", {"P5BENCH_FAIL_WITH": "delay:7", "P5BENCH_FAIL_ON": "rename"}),
        ("a rank is 20 s late", 2, "slow", {})]
FAULTS = THROWS + KILLED + SILENT + SIGNALS + DISK + SLOW


def cells():
    """(fault, phase); by day some, in different phases."""
    if NIGHTLY:
        return tonight((fault, phase) for fault in FAULTS for phase in PHASES)
    some = [(THROWS[0], 1), (KILLED[1], 4), (SILENT[0], 7), (SILENT[3], 2), (DISK[0], 5), (SLOW[0], 3)]
    return [(fault, PHASES[at]) for fault, at in some]


def key(measurement):
    return measurement["case"]["collective"], measurement["case"]["bytes"]


def measured(measurements):
    return sorted(key(m) for m in measurements if m["outcome"] == "measured")


class FaultMatrix(Folder):
    def run_with(self, fault, phase):
        name, rank, what, disk = fault
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        mark = self.folder / "mark"
        mark.unlink(missing_ok=True)
        variables = {"P5BENCH_LONGEST_WAIT": "8" if fault in SILENT else "90", "P5BENCH_MARK": str(mark), **FEW_SAMPLES}
        if disk:
            variables |= {"LD_PRELOAD": str(BUILD / "tests" / "failing_files.so"), "P5BENCH_FAIL_RANK": "0",
                          "P5BENCH_FAIL_BELOW": str(self.folder / "out"), "P5BENCH_FAIL_FROM": str(mark), **disk}
        # A hang is detected after a moment; a slow rank takes longer than --timeout without being a hang.
        timeout = "5s" if fault in SILENT or "delay" in str(disk) else "60s"
        budget = "90s" if fault in SLOW else "10s"
        return self.run_it(rank, phase, what, 99, *OPTIONS, "--budget", budget, "--timeout", timeout, ranks=RANKS,
                           program=(FAILING,), variables=variables)

    def check(self, fault, phase, done):
        """Checks every cell, and this fault; returns the cell's text for the table."""
        name, rank, what, disk = fault
        code = done.returncode
        self.assert_none_left()
        if fault not in SILENT or rank != 0:  # a leader that continues takes the others' notes into the report
            self.assertEqual([path for path in self.listing() if "lost-rank" in path], [])
        found = self.files("report.json")
        report = read_report(found[0]) if found else None
        opened = PHASES.index(phase) > PHASES.index("opening the report")
        text = done.stdout + done.stderr
        self.assertEqual(report is not None, opened or report is not None, f"there was one before; {code}: {text}")
        if "the leader is killed" not in name and "the leader is stopped" not in name:  # a stopped one is killed in the end
            self.assertEqual([path for path in self.listing() if "/." in path], [], "half a file is left")
        if report and fault not in DISK and "leader is" not in name:
            if fault not in KILLED:  # by a signal, which launchers report
                self.assertEqual(report["exit_code"], code, done.stderr)
            journal = self.files("measurements.jsonl")
            lines = [json.loads(line) for line in journal[0].read_text().splitlines()] if journal else []
            self.assertEqual(measured(report["measurements"]), measured(lines))

        if fault in THROWS:
            self.assertIn(code, (0, 12))
            self.assertIn("thrown on purpose", str(report) if code == 0 else text)
            if code == 0:
                self.assertIn(phase, str(report["run"]["remarks"]))
        elif fault in KILLED:
            self.assertNotEqual(code, 0)
            if report:
                self.assertEqual((report["status"], report["exit_code"]), ("partial", 12))
        elif fault in SILENT:
            self.assertEqual(code, 12, text)
            self.assertRegex(text, f"no progress in ({phase}|the start of .*B float32)")
            if rank:
                self.assertIn(f"all others wait for rank {rank}", text)
            if what == "hang" and opened:  # the launcher ends the leader together with those that left a message
                self.assertIn("no progress", report["run"]["ended_by"])
            if report:
                self.assertEqual((report["status"], report["exit_code"]), ("partial", 12))
        elif fault in SIGNALS:
            # a run may succeed near its end, or another rank may get the signal before the news of it arrives
            if code == 0:
                self.assertTrue(rank != 0 or PHASES.index(phase) > MEASURING)
                self.assertEqual(report["status"], "complete")
            elif report and rank == 0:
                self.assertEqual((code, report["status"]), (12, "partial"))
                if opened:
                    self.assertIn("SIG", report["run"]["ended_by"])
        elif fault in DISK:
            self.assertEqual(code, 12 if opened else 2, text)
            if opened:
                self.assertEqual(report["exit_code"], code, text)
            self.assertIn("cannot", text)
            self.assertIn("--out", text)
            if PHASES.index(phase) > MEASURING:
                self.assertEqual(code, 12)
                for size in (8, 65536):
                    self.assertRegex(text, rf"(?m)^ *{size} ", "what was measured is not printed")
        else:
            self.assertEqual((code, report["status"]), (0, "complete"), text)
            self.assertEqual(len(measured(report["measurements"])), CASES)
        return f"{code}, {report['status']}" if report else f"{code}, none"

    def check_resume(self, before):
        """Measurements are kept, and so are faults; all other cases are measured now."""
        done = self.run_it(*OPTIONS, "--budget", "60s", "--resume", "--quiet", ranks=RANKS, program=(PROGRAM,),
                           variables=FEW_SAMPLES)
        newest = read_report(self.folder / "out" / "latest" / "report.json")
        self.assertEqual(newest["status"], "complete", done.stderr)
        failed = [m for m in newest["measurements"] if m["outcome"] == "failed"]
        self.assertEqual(done.returncode, 12 if failed else 0, done.stderr)
        self.assertEqual([key(m) for m in failed if m["because"] not in [old["because"] for old in before]], [])
        self.assertEqual(len(measured(newest["measurements"])) + len(failed), CASES)
        kept = {key(m): m for m in before if m["outcome"] == "measured"}
        for m in newest["measurements"]:
            if key(m) in kept:
                self.assertEqual(m["throughput"]["median_us"], kept[key(m)]["throughput"]["median_us"], "measured again")

    def test_each_fault_in_each_phase(self):
        results = {}
        for fault, phase in cells():
            with self.subTest(fault=fault[0], phase=phase):
                results[fault[0], phase] = "failed"
                done = self.run_with(fault, phase)
                results[fault[0], phase] = self.check(fault, phase, done)
                journal = self.files("measurements.jsonl")
                if fault not in DISK and done.returncode != 0 and self.files("report.json"):
                    lines = [json.loads(line) for line in journal[0].read_text().splitlines()] if journal else []
                    self.check_resume(lines)
        if WEEKLY and os.environ.get("P5BENCH_UPDATE"):
            self.write_table(results)

    def test_a_leader_that_is_late_goes_on_within_the_grace_of_the_others(self):
        """It is 20 s late. The others notice after 16 s, and it has 10 s more to continue."""
        done = self.run_it(0, "evaluating the machine", "slow", 99, *OPTIONS, "--budget", "60s", "--timeout", "60s", ranks=RANKS,
                           program=(FAILING,), variables={"P5BENCH_LONGEST_WAIT": "16", **FEW_SAMPLES})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(measured(self.report()["measurements"])), CASES)

    def test_the_table_has_these_rows(self):
        written = TABLE.read_text().split(BEGIN)[1].split(END)[0].strip().splitlines()
        self.assertEqual(written[0], "| as it begins | " + " | ".join(PHASES) + " |")
        self.assertEqual([line.split(" | ")[0].removeprefix("| ") for line in written[2:]], [f[0] for f in FAULTS])
        self.assertNotIn("failed", "".join(written))

    def write_table(self, results):
        lines = ["| as it begins | " + " | ".join(PHASES) + " |", "|---" * (len(PHASES) + 1) + "|"]
        lines += ["| " + " | ".join([fault[0], *(results[fault[0], phase] for phase in PHASES)]) + " |" for fault in FAULTS]
        before, _, rest = TABLE.read_text().partition(BEGIN)
        TABLE.write_text(before + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.partition(END)[2])


if __name__ == "__main__":
    unittest.TestCase.maxDiff = 2000
    main()
