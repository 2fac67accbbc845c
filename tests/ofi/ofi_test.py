"""The backend ofi: the real worker for libfabric over its TCP and shared-memory providers, on this host's loopback."""

import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import BUILD, FEW_SAMPLES, Folder, NIGHTLY, main, read_report, wait_for  # noqa: E402

WORKER = BUILD / "p5bench-worker-ofi"
LIAR = BUILD / "tests" / "lying_libfabric.so"
WORKER_NAME = WORKER.name[:15]  # as the kernel cuts it
PATTERNS = ["both_ways", "one_way", "ping_pong"]


class Ofi(Folder):
    def arguments(self, *more):
        return ["--backend", "ofi", "--out", self.folder / "out", "--timeout", "20s", *more]

    def measure(self, provider, ranks, *more, code=0, command=(), **variables):
        ended = self.run_it(*command, *self.arguments(*more), ranks=ranks,
                            variables={"FI_PROVIDER": provider, "FI_TCP_IFACE": "lo", **FEW_SAMPLES, **variables}, patience=300)
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return ended

    def report(self):
        return read_report(self.folder / "out" / "latest" / "report.json")

    def check_all_right(self, report, cases):
        self.assertEqual([(m["case"], m["because"]) for m in report["measurements"] if m["outcome"] != "measured"], [])
        self.assertEqual(len(report["measurements"]), cases)
        self.assertEqual(sum(m["wrong_elements"] for m in report["measurements"]), 0)
        for m in report["measurements"]:
            self.assertEqual((m["case"]["backend"], m["verdict"]["grade"]), ("ofi", "unknown"))

    def test_messages_between_pairs_and_around_a_ring_are_right(self):
        for provider, ranks in (("tcp", 2), *((("shm", 2), ("tcp", 3), ("shm", 3), ("tcp", 4)) if NIGHTLY else ())):
            with self.subTest(provider=provider, ranks=ranks):
                sizes = "8,64KiB,1MiB,64MiB" if NIGHTLY and ranks == 2 else "8,64KiB"
                types = "int8,float64,bfloat16" if NIGHTLY and ranks < 4 else "float32"
                self.measure(provider, ranks, "--collectives", "p2p,send_recv", "--sizes", sizes, "--type", types)
                report = self.report()
                self.check_all_right(report, 4 * len(sizes.split(",")) * len(types.split(",")))
                self.assertRegex(report["context"]["libfabric"], rf"^libfabric \d+\.\d+, .*{provider}")
                self.assertTrue(report["context"]["nics"])
                self.assertEqual(sorted({m["case"]["pattern"] for m in report["measurements"] if m["case"]["pattern"]}),
                                 PATTERNS)

    def test_by_default_it_measures_pairs_and_says_what_it_leaves_out(self):
        self.measure("shm", 2, "--min", "64", "--max", "128")
        report = self.report()
        self.check_all_right(report, 3 * 2)
        self.assertEqual({m["case"]["collective"] for m in report["measurements"]}, {"p2p"})
        self.assertRegex(" ".join(report["run"]["remarks"]), "all_reduce: left out.*all_gather: left out")

    def test_changed_data_is_found_at_the_rank_that_gets_it(self):
        self.measure("tcp", 2, "--collectives", "send_recv", "--sizes", "64", code=11,
                     LD_PRELOAD=str(LIAR), P5BENCH_LIAR="1")
        wrong = self.report()["measurements"][0]
        self.assertGreater(wrong["wrong_elements"], 0)
        self.assertEqual((wrong["first_wrong"]["rank"], wrong["first_wrong"]["offset"]), (0, 0))

    def test_shared_memory_that_a_killed_process_of_the_same_id_left_is_passed_over(self):
        stale = {"LD_PRELOAD": str(LIAR), "P5BENCH_STALE_FILES": "3"}
        self.measure("shm", 2, "--sizes", "8", **stale)
        self.check_all_right(self.report(), 3)
        ended = self.measure("shm", 2, "--sizes", "8", code=13, **{**stale, "P5BENCH_STALE_FILES": "1000"})
        self.assertRegex(ended.stderr + ended.stdout, "rank [01]: fi_enable: Device or resource busy")

    def test_a_worker_that_is_killed_costs_one_case(self):
        job = self.start(*self.arguments("--collectives", "p2p", "--min", "8", "--max", "64KiB", "--factor", "4", "--budget", "60s", "--seed", "3"), ranks=2,
                         variables={"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo", "P5BENCH_MOST_SAMPLES": "12"})
        journal = self.folder / "out" / "latest" / "measurements.jsonl"
        self.assertTrue(wait_for(lambda: journal.exists() and journal.read_text().count("\n") > 2), self.printed())
        os.kill(self.processes(WORKER_NAME)[-1], signal.SIGKILL)
        self.assertEqual(job.wait(180), 12, self.printed())
        report = self.report()
        failed = [m for m in report["measurements"] if m["outcome"] == "failed"]
        self.assertEqual(len(failed), 1, [m["because"] for m in failed])
        self.assertIn("ended by signal 9", failed[0]["because"])
        self.assertEqual(report["status"], "complete")
        self.assertEqual(len(report["measurements"]), 3 * 7)
        self.assert_none_left()

    def test_a_rank_that_stands_still_is_named_when_its_step_is_over(self):
        """Within a case nobody waits longer than the step may take, and a while to give up: whatever --budget says."""
        job = self.start("--backend", "ofi", "--out", self.folder / "out", "--timeout", "2s", "--collectives", "p2p", "--sizes", "8,64KiB",
                         "--budget", "20min", "--soak", "10min", ranks=2, variables={"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"})
        journal = self.folder / "out" / "latest" / "measurements.jsonl"
        self.assertTrue(wait_for(lambda: journal.exists() and journal.read_text().count("\n") > 2), self.printed())
        ranks = sorted(self.processes("p5bench"))
        for each in ranks:
            if "OMPI_COMM_WORLD_RANK=1" in pathlib.Path(f"/proc/{each}/environ").read_text(errors="replace").split("\0"):
                os.kill(each, signal.SIGSTOP)
        self.assertEqual(job.wait(250), 12, self.printed())
        report = self.report()
        self.assertEqual(report["status"], "partial")
        # Mostly within a step of 2 s, now and then between two steps.
        self.assertRegex(report["run"]["ended_by"], r"^all others wait for rank 1 on \S+: "
                                                    r"no progress in (\w+ of p2p .* within 17 s|measuring within 40 s)")

    def test_arms_differ_by_provider_and_nothing_goes_around_nics_unless_told_to(self):
        ended = self.run_it("ab", "--a", "FI_PROVIDER=tcp", "--b", "FI_PROVIDER=shm,FI_EFA_ENABLE_SHM_TRANSFER=1", "--launches", "2", "--collectives", "send_recv",
                            "--sizes", "64", *self.arguments(), ranks=2, variables={"FI_TCP_IFACE": "lo"}, patience=300)
        self.assertIn(ended.returncode, (0, 10, 14), ended.stdout + ended.stderr)
        arms = {arm["name"]: arm for arm in self.report()["arms"]}
        self.assertRegex(arms["a"]["context"]["libfabric"], "tcp")
        self.assertRegex(arms["b"]["context"]["libfabric"], "shm")
        self.assertEqual([arms[name]["context"]["env.FI_EFA_ENABLE_SHM_TRANSFER"] for name in ("a", "b")], ["0", "1"])

    def test_what_it_has_not_is_refused(self):
        ended = self.measure("no-such-provider", 2, "--sizes", "8", code=13)
        self.assertRegex(ended.stderr + ended.stdout, "rank [01]: libfabric has no reliable endpoint.*no-such-provider.*fi_info")
        for more, says in ((["--collectives", "all_reduce"], "messages between ranks only"),
                           (["--tuning=quick"], "--backend ofi has none"), (["--cuda-graph"], "--cuda-graph is for the nccl")):
            ended = self.measure("shm", 2, "--sizes", "8", *more, code=2)
            self.assertIn(says, ended.stderr + ended.stdout)


if __name__ == "__main__":
    if not WORKER.exists():
        print(f"skipped: {WORKER.name} was not built: libfabric's headers are missing (libfabric-dev)")
        sys.exit(77)
    main()
