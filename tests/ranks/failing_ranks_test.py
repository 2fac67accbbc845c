"""A rank that throws, dies, hangs or gives wrong data in one phase of one case of a real run: all ranks agree on a
clear outcome in bounded time."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import BUILD, NIGHTLY, Folder, main  # noqa: E402

FAILING = BUILD / "tests" / "failing_run"
# Sizes that are measured once, so that cases run one after the other.
OPTIONS = ["--collectives", "all_reduce", "--sizes", "1100KiB,1200KiB,1300KiB,1400KiB", "--seed", "1",
           "--budget", "120s", "--quiet", "--out", "out"]
# Samples end each case, not the budget, so that a busy machine skips none.
FEW_SAMPLES = {"P5BENCH_MOST_SAMPLES": "9"}
# mpirun kills after a second what a signal has not ended, which on busy cores is before the report is written.
PATIENT = {"OMPI_MCA_odls_base_sigkill_timeout": "5"}
CASE = 1  # the second that runs
LATER = ("warm_up", "sample", "verify")
# The first and the last rank are treated differently in places; either may have the fault in any phase. At night both do.
BY_DAY = ((2, "sample"), (0, "verify"))


class FailingRank(Folder):
    def misbehave(self, rank, phase, what):
        for path in self.files("report.json") + self.files("measurements.jsonl"):
            path.unlink()
        # Longer than a busy machine may pause, and longer still where nothing hangs.
        timeout = "6s" if what in ("hang", "stop") else "60s"
        done = self.run_it(rank, phase, what, CASE, *OPTIONS, "--timeout", timeout, ranks=3, program=(FAILING,),
                           variables=FEW_SAMPLES | PATIENT)
        self.assert_none_left()
        self.assertEqual([name for name in self.listing() if "lost-rank" in name], [])
        return done, self.report()

    def assert_the_others_measured(self, report, count):
        outcomes = [measurement["outcome"] for measurement in report["measurements"]]
        self.assertEqual(outcomes, ["measured"] + ["failed"] + ["measured"] * (count - 2))
        return report["measurements"][CASE]

    def assert_ended_early(self, done, report, *words):
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual((report["status"], report["exit_code"], report["grade"]), ("partial", 12, "failed"))
        failed = self.assert_the_others_measured(report, 2)
        for word in words:
            self.assertIn(word, report["run"]["ended_by"])
            self.assertIn(word, failed["because"])
            self.assertIn(word, done.stderr)

    def test_at_the_limit_of_a_check_each_host_has_a_line_and_only_that_of_the_missing_rank_is_not_finished(self):
        on_hosts = self.folder / "on_hosts"
        on_hosts.write_text('#!/bin/sh\nexport NCCL_HOSTID=h$((OMPI_COMM_WORLD_RANK / 2))\nexec "$@"\n')
        on_hosts.chmod(0o755)
        done = self.run_it(3, "finding the machine", "hang", 0, "check", "--backend", "mpi", "--limit", "15s", ranks=4,
                           program=(on_hosts, FAILING))
        self.assertEqual(done.returncode, 12, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "h0: NOT CHECKED\nh1: NOT FINISHED: no answer within 15 s while finding the machine: "
                                      "all others wait for rank 3 on h1\n")
        self.assertNotIn("ended by SIGTERM", done.stderr)

    def test_a_failure_to_open_fails_the_case_alone(self):
        every = ((0, "throw"), (2, "refuse"), (0, "refuse"), (2, "throw"))
        for rank, what in every if NIGHTLY else every[:2]:
            with self.subTest(rank=rank, what=what):
                done, report = self.misbehave(rank, "open", what)
                self.assertEqual(done.returncode, 12, done.stderr)
                self.assertEqual((report["status"], report["exit_code"]), ("complete", 12), report["run"])
                failed = self.assert_the_others_measured(report, 4)
                self.assertEqual((failed["failed_in"], failed["failed_rank"]), ("open", rank))
                reason = {"throw": "thrown on purpose", "refuse": "refused on purpose"}[what]
                self.assertIn(f"rank {rank} in open: {reason}", failed["because"])

    def test_a_failure_later_ends_the_run_with_the_reason(self):
        for rank, phase in [(r, p) for r in (0, 2) for p in LATER] if NIGHTLY else BY_DAY:
            with self.subTest(rank=rank, phase=phase):
                done, report = self.misbehave(rank, phase, "throw")
                self.assert_ended_early(done, report, f"rank {rank} failed in {phase}: thrown on purpose")
                self.assertEqual(done.returncode, 12)

    def test_a_rank_that_dies_leaves_a_partial_report(self):
        for phase in ("open", *LATER) if NIGHTLY else ("sample",):
            with self.subTest(phase=phase):
                done, report = self.misbehave(2, phase, "die")
                self.assert_ended_early(done, report, "SIGTERM")

    def test_a_leader_that_dies_leaves_its_last_report(self):
        for phase in ("open", *LATER) if NIGHTLY else ("verify",):
            with self.subTest(phase=phase):
                done, report = self.misbehave(0, phase, "die")
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual((report["status"], report["exit_code"]), ("partial", 12))
                self.assertEqual(len(self.files("measurements.jsonl")), 1)

    def test_a_rank_that_hangs_ends_the_run_after_the_timeout(self):
        every = ((0, "open"), (2, "sample"), (2, "verify"), (2, "warm_up"), (0, "sample"))
        for rank, phase in every if NIGHTLY else every[:2]:
            with self.subTest(rank=rank, phase=phase):
                done, report = self.misbehave(rank, phase, "hang")
                self.assert_ended_early(done, report, "no progress", phase)
                self.assertEqual(done.returncode, 12)

    def test_a_rank_that_is_stopped_is_named(self):
        done, report = self.misbehave(2, "sample", "stop")
        self.assert_ended_early(done, report, "no progress in ")
        self.assertRegex(report["run"]["ended_by"], r"^rank 2 on \S+: its process \d+ is stopped by a signal: no progress in ")

    @unittest.skipUnless(NIGHTLY, "nightly: takes 20 s")
    def test_a_leader_that_is_stopped_is_not_waited_for(self):
        done, report = self.misbehave(0, "sample", "stop")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual((report["status"], report["exit_code"]), ("partial", 12))

    def test_a_failure_outside_of_all_phases_is_not_waited_for(self):
        done, report = self.misbehave(0, "alone", "throw")
        self.assert_ended_early(done, report, "thrown on purpose")
        self.assertNotIn("no progress", done.stderr)
        self.assertEqual(done.returncode, 12)

    def test_a_rank_that_lies_is_named(self):
        for rank in (0, 2) if NIGHTLY else (2,):
            with self.subTest(rank=rank):
                done, report = self.misbehave(rank, "verify", "lie")
                self.assertEqual(done.returncode, 11)
                self.assertEqual((report["status"], report["grade"]), ("complete", "wrong"))
                wrong = report["measurements"][CASE]
                self.assertEqual(wrong["first_wrong"],
                                 {"rank": rank, "offset": 1, "wanted": "2", "got": "3", "guard": False})
                self.assertEqual([m["wrong_elements"] for m in report["measurements"]], [0, 1, 0, 0])


if __name__ == "__main__":
    main()
