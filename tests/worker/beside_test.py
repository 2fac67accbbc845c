"""Work beside a case with real workers on the fakes: each work on its own stream and communicator, all data verified,
and what fails is named."""

import os
import time
import unittest

from jobs import PATIENCE_S, UNJUDGED, Job
from workers import BUILD, Workers, case, fake_cublaslt, skip_unless_built

NIGHTLY = bool(os.environ.get("P5BENCH_NIGHTLY"))
PRODUCTS = {"P5BENCH_FAKE_CUBLASLT": fake_cublaslt(), "P5BENCH_FAKE_PRODUCT_US": "2000",
            "P5BENCH_FAKE_MEMORY": str(256 << 20)}
GEMM, COPY, GATHER = "gemm:256,128,bf16", "d2h", "all_gather@node:4KiB"
WORKS = [GEMM, COPY, GATHER]


class Beside(unittest.TestCase):
    def start(self, fault="", **variables):
        workers = Workers(2, fault, environment={**PRODUCTS, **variables})
        self.addCleanup(workers.__exit__)
        return workers

    def open(self, workers, works, gathering=(0, 1)):
        """An all_reduce beside these works; of the all_gather the ranks that gather."""
        ranks = len(gathering)
        for rank, worker in enumerate(workers.all):
            gather = {"groups": "node", "bytes": 4096, "case": case("all_gather", 1024 // ranks, ranks),
                      "group": list(gathering) if rank in gathering else None}
            beside = [gather if work == GATHER else {"work": work} for work in works]
            worker.send("open", case=case("all_reduce", 1000, 2), round=0, group=[0, 1], form="job", alone=True, pauses=False,
                        memory=200 << 20, beside=beside)
        return [worker.receive() for worker in workers.all]

    def test_each_work_has_an_end_and_right_results(self):
        workers = self.start()
        for each in range(2):  # the second case has the communicators of the first
            self.assertEqual([reply["slots"] for reply in self.open(workers, WORKS)], [20, 20])
            workers.good("warm_up", operations=1)
            for operations in ([50, 3, 1, 70], [0, 0, 0, 2], [1, 0, 1, 0], [50, 3, 1, 70]):
                for reply in workers.good("sample_concurrently", operations=operations, samples=2, poison_last=True, steady=False):
                    for sample in reply["seconds"]:
                        self.assertEqual([time is not None and time > 0 for time in sample], [count > 0 for count in operations])
                        if operations[1]:
                            self.assertGreaterEqual(sample[1], operations[1] * 2e-3)
            self.assertEqual([v["wrong_elements"] for v in workers.good("verify")], [0, 0])
            workers.good("close")

    def test_a_rank_that_takes_no_part_has_no_time(self):
        workers = self.start()
        self.open(workers, [GATHER], gathering=(1,))
        workers.good("warm_up", operations=1)
        replies = workers.good("sample_concurrently", operations=[2, 2], samples=1, poison_last=True, steady=False)
        self.assertEqual([[time is not None for time in reply["seconds"][0]] for reply in replies], [[True, False], [True, True]])
        self.assertEqual([v["wrong_elements"] for v in workers.good("verify")], [0, 0])

    def test_wrong_data_is_found_in_each_kind_of_work_and_named(self):
        for work, how in ((GATHER, {"fault": "wrong:rank=1:operation=1+:function=AllGather:what=bit"}),
                          (GEMM, {"P5BENCH_FAKE_PRODUCTS": "wrong:gpu=1:product=3"}),
                          (COPY, {"P5BENCH_FAKE_COPIES": f"wrong:gpu=1:bytes={64 << 20}"})):
            with self.subTest(work):
                workers = self.start(**how)
                self.open(workers, WORKS)
                workers.good("warm_up", operations=1)
                workers.good("sample_concurrently", operations=[2, 2, 1, 2], samples=1, poison_last=True, steady=False)
                verifications = workers.good("verify")
                self.assertEqual([v["wrong_elements"] > 0 for v in verifications], [False, True])
                self.assertEqual((verifications[1]["first"]["work"], verifications[1]["first"]["rank"]), (work, 1))

    def test_results_that_nothing_wrote_are_wrong(self):
        workers = self.start("wrong:rank=1:operation=1+:function=AllGather:what=nothing")
        self.open(workers, [GATHER])
        workers.good("warm_up", operations=1)
        workers.good("sample_concurrently", operations=[1, 3], samples=1, poison_last=True, steady=False)
        self.assertEqual([v["wrong_elements"] for v in workers.good("verify")], [0, 3 * 1024])

    def test_a_work_that_fails_names_itself(self):
        workers = self.start("async:rank=1:operation=1+:function=AllGather")
        self.open(workers, WORKS)
        for worker in workers.all:
            worker.send("warm_up", operations=1)
        self.assertIn(f"NCCL, while {GATHER} ran", workers.all[1].receive()["error"])
        workers = self.start(P5BENCH_FAKE_MEMORY=str(32 << 20))
        self.assertTrue(all(reply["error"].startswith("d2h: cudaMalloc") for reply in self.open(workers, [COPY])))

    def test_a_work_that_hangs_is_named_when_its_worker_gives_up(self):
        workers = self.start("hang:rank=1:operation=3+:function=AllGather")
        self.open(workers, [GATHER])
        for worker in workers.all:
            worker.send("warm_up", operations=1)
        end = time.monotonic() + PATIENCE_S
        while min(worker.completed() for worker in workers.all) == 0 and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.2)
        for worker in workers.all:
            worker.give_up()
        for worker in workers.all:
            reply = worker.receive()
            self.assertEqual((reply["waits_for"], reply["at_rest"]), (f"unfinished: {GATHER}", True), reply)

    def test_without_a_library_for_products_the_case_says_so(self):
        workers = self.start(P5BENCH_FAKE_CUBLASLT="")
        for reply in self.open(workers, [GEMM]):
            self.assertRegex(reply["unavailable"], "^gemm:256,128,bf16: .*cublasLt")
        for reply in workers.ask("warm_up", operations=1):
            self.assertRegex(reply["error"], "^the case cannot be measured: gemm:256,128,bf16: .*cublasLt")
        workers.good("close")
        self.assertEqual([reply["unavailable"] for reply in self.open(workers, [COPY])], ["", ""])
        workers.good("warm_up", operations=1)


class OfAJob(Job):
    def start(self, *arguments, **variables):
        return self.start_command(
            ["mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none", str(BUILD / "p5bench"), "run", "--backend", "nccl", "--collectives",
             "all_reduce", "--sizes", "64KiB", "--beside", GEMM, "--beside", "all_gather:64KiB", "--seed", "4", *arguments,
             "--out", str(self.folder / "out")],
            {**PRODUCTS, "P5BENCH_FAKE_MEMORY": str(32 << 20), "P5BENCH_MOST_SAMPLES": "6", **variables})

    def test_works_are_measured_alone_beside_each_other_and_together(self):
        code, output = self.run_it()
        self.assertEqual(code, UNJUDGED, output)
        (m,) = self.report()["measurements"]
        self.assertEqual((m["outcome"], m["wrong_elements"]), ("measured", 0), output)
        operations = m["concurrency"]["operations"]
        self.assertEqual([each["name"] for each in operations], ["all_reduce", GEMM, "all_gather:64KiB"])
        self.assertEqual({len(each["beside_each"]) for each in operations}, {2})
        self.assertGreaterEqual(operations[1]["alone"]["min_us"], 2000)
        self.assertGreaterEqual(m["concurrency"]["together"]["median_us"], 2000 * operations[1]["operations"])
        self.assertIn("overlap", output)

    def test_wrong_data_of_a_work_ends_the_run_with_11(self):
        code, output = self.run_it(P5BENCH_FAKE_PRODUCTS="wrong:gpu=1:product=3")
        self.assertEqual(code, 11, output)
        self.assertIn(f"rank 1 in {GEMM}", self.report()["measurements"][0]["verdict"]["because"])

    @unittest.skipUnless(NIGHTLY, "nightly: takes a minute; by day a worker names the work")
    def test_a_hanging_work_is_named(self):
        code, output = self.run_it("--timeout", "3s", P5BENCH_FAKE="hang:rank=1:operation=1+:function=AllGather")
        self.assertEqual(code, 12, output)
        self.assertIn("unfinished: all_gather:64KiB", self.report()["measurements"][0]["because"])


if __name__ == "__main__":
    skip_unless_built()
    unittest.main(verbosity=2)
