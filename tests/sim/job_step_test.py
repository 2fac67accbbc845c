"""A job's step replayed on the simulator (--job): times that follow from its operations and gaps, comparisons, faults,
refusals."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from job_files import operation, write_job  # noqa: E402
from program import Folder, main, read_report  # noqa: E402

SIM = ["--backend", "sim", "--platform", "p5.48xlarge", "--seed", "1"]
MIB = 1 << 20
ALONE = ["--collectives", "all_reduce", "--sizes", "256MiB"]


class JobStep(Folder):
    def job(self, operations, ranks=8, name="step.json", **more):
        return write_job(self.folder / name, ranks, operations, **more)

    def measured(self, *arguments, command="run", exits=14, name="out"):
        done = self.run_it(command, *SIM, *arguments, "--out", name)
        self.assertEqual(done.returncode, exits, done.stderr + done.stdout)
        return read_report(self.folder / name / "latest" / "report.json"), done.stdout

    def step_us(self, *arguments, **how):
        report, _ = self.measured(*arguments, **how)
        (m,) = report["measurements"]
        self.assertEqual((m["case"]["collective"], m["outcome"], m["latency"]), ("job_step", "measured", None))
        return m["throughput"]["median_us"]

    def test_a_step_takes_as_long_as_its_operations_and_gaps(self):
        alone, _ = self.measured(*ALONE, exits=0)
        (one,) = [m["throughput"]["median_us"] for m in alone["measurements"] if m["case"]["group"] == "world"]
        job = self.job([operation("all_reduce", 256 * MIB, 8, "world", gap_us=500)] * 10)
        report, printed = self.measured("--job", job, name="step")
        (m,) = report["measurements"]
        self.assertAlmostEqual(m["throughput"]["median_us"] / (10 * (one + 500)), 1, delta=0.02)
        self.assertEqual((m["case"]["job"]["name"], m["wrong_elements"], m["verdict"]["grade"]), ("step", 0, "unknown"))
        self.assertEqual(report["suspects"], [])
        self.assertRegex(printed, r"job_step step: [\d.]+ ms a step \(95 %")

    def test_groups_that_act_at_once_take_the_time_of_one_and_ranks_wait_for_their_groups(self):
        pairs = [[0, 1], [2, 3], [4, 5], [6, 7]]
        at_once = self.step_us("--job", self.job([operation("all_gather", 64 * MIB, 2, pairs)]), name="at-once")
        one = self.step_us("--job", self.job([operation("all_gather", 64 * MIB, 2, pairs[:1])]), name="one")
        chain = self.step_us("--job", self.job([operation("all_gather", 64 * MIB, 2, [[i, i + 1]]) for i in range(7)]), name="chain")
        apart = self.step_us("--job", self.job([operation("all_gather", 64 * MIB, 2, [pair]) for pair in pairs]), name="apart")
        self.assertAlmostEqual(at_once / one, 1, delta=0.05)
        self.assertAlmostEqual(chain / one, 7, delta=0.3)
        self.assertAlmostEqual(apart / one, 1, delta=0.05)

    def test_products_in_the_gaps_take_as_long_and_run_beside_what_the_job_computed_beside(self):
        one = self.step_us("--job", self.job([operation("all_reduce", 256 * MIB, 8, "world")]), name="one")
        beside = [operation("all_reduce", 256 * MIB, 8, "world", gap_us=500, fastest_us=one, computed_us=computed)
                  for computed in (3 * one, 0, 0.4 * one)]
        job = self.job(beside * 3)
        waits, _ = self.measured("--job", job, name="waits")
        computes, printed = self.measured("--job", job, "--gaps", "gemm:1024", name="computes")
        (first,), (second,) = waits["measurements"], computes["measurements"]
        self.assertAlmostEqual(first["throughput"]["median_us"] / (9 * (one + 500)), 1, delta=0.02)
        # In each third: a gap, products beside the first operation and behind it, and in the gap that follows them; then
        # the second operation, a gap, the third one, which products do not outlast.
        self.assertAlmostEqual(second["throughput"]["median_us"] / (3 * (500 + 3 * one + 500 + one + 500 + one)), 1, delta=0.02)
        # Kernels that were slower beside the operation than alone count as long as alone: here nothing slows products.
        job = self.job([operation("all_reduce", 256 * MIB, 8, "world", gap_us=500, fastest_us=one, computed_us=one, computed_alone_us=0.7 * one)] * 2,
                       name="slowed.json", step_us=2 * one + 1500)
        slowed, printed_of_it = self.measured("--job", job, "--gaps", "gemm:1024", name="slowed")
        self.assertAlmostEqual(slowed["measurements"][0]["throughput"]["median_us"] / (500 + 0.7 * one + 500 + one), 1, delta=0.02)
        self.assertEqual(slowed["measurements"][0]["case"]["job"]["recorded_us"], round(2 * one + 1500, 3))
        self.assertRegex(printed_of_it, r"ms a step \(95 %.*\), recorded [\d.]+\n")
        self.assertEqual((first["case"]["job"].get("gaps"), second["case"]["job"]["gaps"]), (None, "gemm:1024,1024,bf16"))
        self.assertNotEqual(first["case"]["job"]["digest"], second["case"]["job"]["digest"])
        self.assertIn("job_step step with gemm:1024,1024,bf16 in its gaps: ", printed)
        self.assertEqual(self.run_it("compare", "waits/latest", "computes/latest").returncode, 2)
        self.assertEqual(self.run_it("compare", "computes/latest", "computes/latest").returncode, 0)
        report, _ = self.measured("--job", self.job([operation("all_reduce", MIB, 8, "world", gap_us=500)]), "--gaps", "gemm", name="unknown")
        self.assertIn("no record says whether the GPUs computed beside operations; matrix products fill the gaps only", report["run"]["remarks"])

    def test_ab_finds_what_a_slow_part_costs_the_step(self):
        job = self.job([operation("all_reduce", 256 * MIB, 16, "world", gap_us=100),
                        operation("all_gather", 64 * MIB, 8, "node"), operation("reduce_scatter", 64 * MIB, 2, "rail")], ranks=16)
        arguments = ["--nodes", "2", "--job", job, "--launches", "7"]
        slow, printed = self.measured(*arguments, "--b", "P5BENCH_SIM_FAULT=nic:n0r0:0.5", command="ab", exits=10)
        self.assertRegex(printed, r"\nREGRESSION: step of step [\d.]+ ms instead of [\d.]+ ms \(\+[\d.]+ % to \+[\d.]+ %\)\n")
        self.assertEqual({m["case"]["arm"] for m in slow["measurements"]}, {"a", "b"})
        same, printed = self.measured(*arguments, "--b", "P5BENCH_SIM_FAULT=gpu:n0g0:1", command="ab", exits=0, name="same")
        self.assertRegex(printed, r"\nNO REGRESSION: step of step [\d.]+ ms instead of [\d.]+ ms \(\S+ % to \S+ %\)\n")

    def test_runs_of_the_same_step_are_compared_and_others_are_not(self):
        first = [operation("all_reduce", 256 * MIB, 8, "world")]
        self.measured("--job", self.job(first), "--launches", "3", name="a")
        self.measured("--job", self.job(first), "--launches", "3", "--fault", "gpu:n0g3:0.5", name="b")
        self.measured("--job", self.job(first * 2), "--launches", "3", name="c")
        slower = self.run_it("compare", "a/latest", "b/latest")
        self.assertEqual(slower.returncode, 10, slower.stdout + slower.stderr)
        self.assertIn("job_step step", slower.stdout)
        other = self.run_it("compare", "a/latest", "c/latest")
        self.assertEqual(other.returncode, 2, other.stdout)
        self.assertIn("no case in common", other.stderr)

    def test_wrong_data_is_named_with_its_operation_and_a_silent_part_ends_the_step(self):
        job = self.job([operation("all_reduce", 256 * MIB, 8, "world"), operation("all_gather", 64 * MIB, 2, [[2, 3]])])
        wrong, _ = self.measured("--job", job, "--fault", "gpu:n0g3:1:lies", exits=11)
        (m,) = wrong["measurements"]
        self.assertGreaterEqual(m["wrong_elements"], 2)
        self.assertIn("all_reduce", m["verdict"]["because"])
        silent, _ = self.measured("--job", job, "--fault", "gpu:n0g3:0", exits=12, name="silent")
        self.assertEqual([m["outcome"] for m in silent["measurements"]], ["failed"])

    def test_every_format_has_it(self):
        self.measured("--job", self.job([operation("broadcast", 8, 8, "world", root=3), operation("p2p", 1000, 2, [[5, 1]])]),
                      "--format", "json,html,csv,junit,markdown,prometheus,gbench")
        files = list((self.folder / "out" / "latest").glob("report.*"))
        self.assertGreaterEqual(len(files), 6, files)
        for file in files:
            self.assertRegex(file.read_text(), r"job\\?_step", file)

    def test_a_type_is_refused_where_all_are_recorded(self):
        for command in ("run", "plan"):
            job = self.job([operation("all_reduce", 256 * MIB, 8, "world"), operation("all_gather", MIB, 8, "world")])
            done = self.run_it(command, *SIM, "--job", job, "--type", "bfloat16", "--out", "out")
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("the types of all its operations are recorded; leave --type out", done.stderr)
        some = self.job([operation("all_reduce", 256 * MIB, 8, "world", type=None), operation("all_gather", MIB, 8, "world")])
        self.assertEqual(self.run_it("plan", *SIM, "--job", some, "--type", "bfloat16").returncode, 0)

    def test_a_step_that_does_not_fit_the_memory_is_refused(self):
        job = self.job([operation("all_reduce", 48 << 30, 8, "world")])
        for command in ("run", "plan"):
            done = self.run_it(command, *SIM, "--job", job, "--out", "out")
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn("needs 96.0 GiB of buffers per rank", done.stderr)

    def test_plan_counts_it(self):
        done = self.run_it("plan", *SIM, "--job", self.job([operation("all_reduce", 256 * MIB, 8, "world", gap_us=1e5)] * 20))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("job_step step", done.stdout)

    def test_plan_predicts_it_by_the_limit_of_each_operation(self):
        # Exchanges between nodes have a quarter of the rate at which rings pass all ranks.
        two = ["--nodes", "2", "--job", self.job([operation("all_to_all", 1024 * MIB, 16, "world")] * 4, ranks=16)]
        (planned,) = json.loads(self.run_it("plan", *SIM, *two, "--format", "json").stdout)["operations"]
        usual_steps = 20
        self.assertAlmostEqual(planned["predicted_s"] / (usual_steps * self.step_us(*two) * 1e-6), 1, delta=0.3)

    def test_what_cannot_be_replayed_is_refused_with_the_operation_and_the_remedy(self):
        good = operation("all_reduce", MIB, 8, "world")
        for operations, ranks, words in (
                ([good], 16, "16 ranks and this run 8"), ([], 8, "no operations"),
                ([good, operation("all_reduce", MIB, 8, "world", gap_us=2**62)], 8, "/operations/1/gap_us has to be a number from 0 to"),
                ([good, operation("all_reduce", MIB, 8, [])], 8, "operation 2"),
                ([operation("all_reduce", MIB, 4, "world")], 8, "the job's groups have 4 ranks"),
                ([operation("p2p", MIB, 3, [[0, 1, 2]])], 8, "between 2 ranks"),
                ([operation("communicator", 0, 8, "world")], 8, "communicator"),
                ([good, operation("dispatch", MIB, 8, "world")], 8, "operation 2 of its step, dispatch of world: a job has no such operation"),
                ([good, operation("hypercube", MIB, 3, [[0, 1, 2]])], 8, "groups of 1, 2, 4, 8, ... ranks, and these have 3"),
                ([operation("all_reduce", MIB, 8, "rack")], 8, "rack")):
            with self.subTest(words):
                done = self.run_it("run", *SIM, "--job", self.job(operations, ranks=ranks))
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(words, done.stderr)
                self.assertIn("step.json", done.stderr)
                self.assertFalse((self.folder / "p5bench-out").exists())

    def test_files_and_options_that_do_not_fit_are_refused(self):
        job = self.job([operation("all_reduce", MIB, 8, "world")])
        (self.folder / "broken.json").write_text(json.dumps({"schema": "p5bench.job/1", "ranks": "eight"}))
        (self.folder / "cut.json").write_text(job.read_text()[:40])
        for arguments, words in ((["--job", "broken.json"], "/ranks"), (["--job", "cut.json"], "import job"),
                                 (["--job", "missing.json"], "missing.json"), (["--job", "."], "--job"),
                                 (["--job", job, "--collectives", "all_reduce"], "--collectives"),
                                 (["--job", job, "--sizes", "8"], "--sizes"), (["--job", job, "--beside", "d2h"], "--beside"),
                                 (["--job", job, "--group", "node"], "--group"), (["--gaps", "gemm"], "add --job FILE"),
                                 (["--job", job, "--gaps", "d2h"], "Known: wait, gemm"), (["--job", job, "--gaps", "gemm:7"], "multiple of 16"), (["--collectives", "job_step"], "--job FILE")):
            with self.subTest(words):
                done = self.run_it("run", *SIM, *arguments)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertIn(words, done.stderr)
        for backend in ("mpi", "ofi"):
            done = self.run_it("run", "--backend", backend, "--job", job)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn("replays no jobs", done.stderr)


if __name__ == "__main__":
    main()
