"""A job's step (--job) with real workers on the fakes: operations of several groups in their order, with gaps and
verified data; `ab` and `tune` judge by its time. Times on the fakes mean nothing, so what a test compares is far apart."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from job_files import operation, write_job  # noqa: E402
from jobs import UNJUDGED, Job  # noqa: E402
from planted import FASTEST, SLOWED  # noqa: E402
from workers import BUILD, fake_cublaslt, skip_unless_built  # noqa: E402

NIGHTLY = bool(os.environ.get("P5BENCH_NIGHTLY"))
KIB = 1 << 10
PRODUCTS = {"P5BENCH_FAKE_CUBLASLT": fake_cublaslt(), "P5BENCH_FAKE_MEMORY": str(16 << 20)}
PAIRS = [[0, 1], [2, 3]]
STEP = [operation("all_reduce", 64 * KIB, 4, "world", gap_us=2000), operation("all_gather", 4 * KIB, 2, PAIRS, gap_us=3000),
        operation("p2p", 1000, 2, [[2, 1]]), operation("reduce_scatter", 4 * KIB, 2, [[0, 2]], type="bfloat16", op="avg"),
        operation("broadcast", 512, 4, "world", root=2), operation("all_gather", 4 * KIB, 2, PAIRS)]


class JobStep(Job):
    def start(self, command, operations, *arguments, ranks=4, before=(), **variables):
        job = write_job(self.folder / "step.json", ranks, operations)
        return self.start_command(
            ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", *before, str(BUILD / "p5bench"), command, "--job", str(job),
             "--backend", "nccl", "--seed", "4", "--out", str(self.folder / "out"), *arguments],
            {"P5BENCH_MOST_SAMPLES": "6", **variables})

    def step_of(self, report, arm="default"):
        (m,) = [m for m in report["measurements"] if m["case"]["arm"] == arm]
        self.assertEqual((m["case"]["collective"], m["outcome"], m["wrong_elements"]), ("job_step", "measured", 0), m["because"])
        return m["throughput"]["median_us"]

    def test_all_operations_are_performed_with_their_gaps_and_right_results(self):
        code, output = self.run_it("run", STEP)
        self.assertEqual(code, UNJUDGED, output)
        self.assertGreaterEqual(self.step_of(self.report()), 5000)

    def test_products_fill_the_gaps_and_run_beside_operations(self):
        operations = [{**each, "fastest_us": 4000, "computed_us": 4000} if each["collective"] == "broadcast" else each for each in STEP]
        code, output = self.run_it("run", operations, "--gaps", "gemm:64", P5BENCH_FAKE_PRODUCT_US="700", **PRODUCTS)
        self.assertEqual(code, UNJUDGED, output)
        self.assertGreaterEqual(self.step_of(self.report()), 9000)
        self.assertIn("with gemm:64,64,bf16 in its gaps", output)
        code, output = self.run_it("run", operations, "--gaps", "gemm:64", P5BENCH_FAKE_PRODUCT_US="700",
                                   P5BENCH_FAKE_PRODUCTS="wrong:gpu=1:product=30", **PRODUCTS)
        self.assertEqual(code, 11, output)
        (m,) = self.report()["measurements"]
        self.assertIn("gemm:64,64,bf16", m["verdict"]["because"])
        # No gap is long enough for a product.
        code, output = self.run_it("run", operations, "--gaps", "gemm:64", P5BENCH_FAKE_PRODUCT_US="20000", **PRODUCTS)
        self.assertEqual(code, UNJUDGED, output)
        self.step_of(self.report())

    def test_wrong_data_of_each_operation_is_found_and_named(self):
        every = (("AllGather", "all_gather@2 groups of 2 ranks"), ("Broadcast", "broadcast:512"), ("ReduceScatter", "reduce_scatter@2 ranks"))
        for function, name in every if NIGHTLY else every[:2]:
            with self.subTest(function):
                code, output = self.run_it("run", STEP, P5BENCH_FAKE=f"wrong:rank=2:operation=1+:function={function}:what=element")
                self.assertEqual(code, 11, output)
                (m,) = self.report()["measurements"]
                self.assertIn(name, m["verdict"]["because"])

    def test_an_operation_that_hangs_ends_the_case_and_is_named(self):
        code, output = self.run_it("run", STEP, "--timeout", "3s", P5BENCH_FAKE="hang:rank=1:operation=1+:function=AllGather")
        self.assertEqual(code, 12, output)
        (m,) = self.report()["measurements"]
        self.assertEqual(m["outcome"], "failed")

    def test_ab_finds_a_step_that_takes_longer(self):
        slow = "slow:rank=0:us=20000:function=AllGather:variable=SLOW"
        code, output = self.run_it("ab", STEP, "--b", "SLOW=1", "--launches", "5", "--budget", "60s", P5BENCH_FAKE=slow)
        self.assertEqual(code, 10, output)
        report = self.report()
        self.assertGreaterEqual(self.step_of(report, "b") - self.step_of(report, "a"), 20000)
        self.assertIn("job_step step", output)

    def test_tuning_keeps_what_shortens_the_step(self):
        operations = [operation("all_reduce", 64 * KIB, 2, "world")] * 4
        code, output = self.run_it("tune", operations, "--tuning=quick", ranks=2, **SLOWED, P5BENCH_QUICK_LIMIT="60s")
        self.assertEqual(code, 0, output)
        tuning = self.report()["tuning"]
        self.assertEqual(tuning["outcome"], "settings", output)
        self.assertEqual({row["setting"].split("/")[:2] == FASTEST.split("/") for row in tuning["rows"]}, {True}, tuning["rows"])
        self.assertGreater(tuning["step"]["ci95_share"][0], 0)
        self.assertGreaterEqual(tuning["step"]["default_us"], 4 * 12000)  # what is planted, or more
        self.assertIn("The step of step, replayed in fresh processes", (self.folder / "out" / "latest" / "nccl.env").read_text())
        self.assertIn("a step of the job:", output)

    @unittest.skipUnless(NIGHTLY, "nightly: by day a step that gets shorter is confirmed in the same way")
    def test_settings_that_do_not_shorten_the_step_are_not_set(self):
        # With the files each all_reduce is faster by 10 ms, and an operation of other groups, which is not searched, slower by more.
        operations = [*(operation("all_reduce", size, 4, "world") for size in (64 * KIB, 1024 * KIB)), operation("broadcast", 512, 2, PAIRS, root=0)]
        costs = "slow:rank=0:us=40000:function=Broadcast:variable=NCCL_TUNER_CONFIG_FILE"
        code, output = self.run_it("tune", operations, "--tuning=quick", P5BENCH_QUICK_LIMIT="60s",
                                   **{**SLOWED, "P5BENCH_FAKE": f"{costs},{SLOWED['P5BENCH_FAKE']}"})
        self.assertEqual(code, 0, output)
        tuning = self.report()["tuning"]
        self.assertEqual((tuning["outcome"], tuning["rows"], tuning["environment"]), ("nothing", [], {}), output)
        self.assertIn("The step of step takes", tuning["because"])
        self.assertEqual([c for c in tuning["confirmations"] if c["setting"]], [])
        self.assertTrue(any(c["verdict"].endswith("but it is not set") for c in tuning["confirmations"]), tuning["confirmations"])

    def test_on_several_hosts_groups_are_those_of_this_run(self):
        wrapper = self.folder / "host"
        wrapper.write_text('#!/bin/sh\nexport NCCL_HOSTID=node$((OMPI_COMM_WORLD_RANK / 2))\nexec "$@"\n')
        wrapper.chmod(0o755)
        operations = [operation("all_gather", 4 * KIB, 2, "node"), operation("all_reduce", 4 * KIB, 2, "rail")]
        code, output = self.run_it("run", operations, before=[str(wrapper)])
        self.assertEqual(code, UNJUDGED, output)
        report = self.report()
        self.step_of(report)
        self.assertEqual(report["measurements"][0]["case"]["nodes"], 2)


if __name__ == "__main__":
    skip_unless_built()
    unittest.main(verbosity=2)
