"""Launches and arms on the simulator, which defines the speed of an arm: results of N launches, the answers of ab about
equal arms and a slower one, and its files."""

import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, main, read_report  # noqa: E402

SIM = ["--backend", "sim", "--platform", "p5.48xlarge"]
FEW = ["--sizes", "64,4MiB,1GiB"]
# It changes nothing on hosts that share no NVLinks.
SAME = "NCCL_MNNVL_ENABLE=0"


class Arms(Folder):
    def ab(self, a, b, *arguments, exits, name="out"):
        done = self.run_it("ab", "--a", a, "--b", b, *SIM, *arguments, "--out", name)
        self.assertEqual(done.returncode, exits, done.stderr + done.stdout)
        folder = self.folder / name / "latest"
        report = read_report(folder / "report.json")
        self.assertEqual((report["status"], report["exit_code"], report["provenance"]), ("complete", exits, "simulated"))
        return report, json.loads((folder / "comparison.json").read_text()), done.stdout

    def test_an_empty_value_removes_the_fault(self):
        done = self.run_it("ab", "--a", "P5BENCH_SIM_FAULT=", "--b", "P5BENCH_SIM_FAULT=gpu:n0g3:0.9", *SIM, *FEW, "--seed", "1",
                           "--quiet")
        self.assertEqual(done.returncode, 10, done.stderr)

    def test_the_defaults_are_seven_launches_of_two_collectives(self):
        report, comparison, printed = self.ab("", SAME, "--seed", "1", exits=0)
        self.assertEqual({m["case"]["collective"] for m in report["measurements"]}, {"all_reduce", "all_gather"})
        self.assertEqual((min(m["case"]["bytes"] for m in report["measurements"]), max(m["case"]["bytes"] for m in report["measurements"])),
                         (16, 1 << 30))
        self.assertEqual({(m["case"]["arm"], len(m["launches_us"])) for m in report["measurements"]}, {("a", 7), ("b", 7)})
        self.assertEqual({m["verdict"]["grade"] for m in report["measurements"]}, {"unknown"}, "arms are judged against each other alone")
        self.assertEqual({(row["base_launches"], row["new_launches"], row["answer"]) for row in comparison["bands"]}, {(7, 7, "no regression")})
        self.assertIn("SIMULATED", printed)
        self.assertEqual(report["decision"]["word"], "ACCEPT")
        self.assertRegex(report["decision"]["sentence"], r"^ACCEPT: arm b is no slower than arm a in \d bands(; .*)?, SIMULATED$")
        self.assertIn("arm a: nothing set; 7 launches", printed)
        self.assertEqual(printed.splitlines()[0], report["decision"]["sentence"])
        self.assertLess(report["run"]["budget_s"], 181)

    def test_arms_that_are_alike_are_not_called_different(self):
        for seed in range(10):
            self.ab("", SAME, "--seed", seed, *FEW, exits=0, name=f"alike-{seed}")

    def test_a_variable_that_is_set_outside_too_makes_no_other_arm(self):
        for a, b, exits, says in (("", SAME, 2, "both arms get the same variables (NCCL_MNNVL_ENABLE: set outside"), (SAME, "", 2, "set outside"),
                                  ("", "NCCL_MNNVL_ENABLE=", 0, ""), ("", "NCCL_MNNVL_ENABLE=1", 0, "")):
            with self.subTest(a=a, b=b):
                done = self.run_it("ab", "--a", a, "--b", b, *SIM, *FEW, "--seed", "1", "--quiet", "--out", f"{a}{b}",
                                   variables={"NCCL_MNNVL_ENABLE": "0"})
                self.assertEqual(done.returncode, exits, done.stderr)
                self.assertIn(says, done.stderr)
                self.assertEqual((self.folder / f"{a}{b}").exists(), exits == 0)

    def test_a_slower_arm_is_a_regression_of_its_size_and_bands(self):
        report, comparison, printed = self.ab("", "P5BENCH_SIM_FAULT=gpu:n0g3:0.9", "--seed", "1", *FEW, exits=10)
        self.assertEqual(comparison["answer"], "regression")
        rows = {(row["collective"], row["quantity"], row["band"]): row for row in comparison["bands"]}
        for collective in ("all_reduce", "all_gather"):
            row = rows[collective, "throughput", "bandwidth"]
            self.assertEqual(row["answer"], "regression")
            # 1 GiB at nine tenths of the rate, and an unchanged latency.
            self.assertAlmostEqual(row["time"]["ratio"], 1 / 0.9, delta=0.02)
            self.assertEqual(rows[collective, "latency", "latency"]["answer"], "no regression")
        self.assertIn("P5BENCH_SIM_FAULT", printed)
        settings = {m["case"]["arm"]: m["case"]["settings"] for m in report["measurements"]}
        self.assertEqual(settings, {"a": {}, "b": {"P5BENCH_SIM_FAULT": "gpu:n0g3:0.9"}})
        # The opposite order makes it faster.
        _, comparison, _ = self.ab("P5BENCH_SIM_FAULT=gpu:n0g3:0.9", "", "--seed", "1", *FEW, exits=0, name="faster")
        self.assertEqual(comparison["answer"], "no regression")

    def test_an_arm_whose_communicators_take_longer_is_named_in_nine_of_ten(self):
        wanted, found = 9, 0
        for seed in range(10):
            done = self.run_it("ab", "--b", "P5BENCH_SIM_FAULT=gpu:n0g3:0.8333:communicators", *SIM, "--collectives", "communicator",
                               "--seed", seed, "--out", f"slower-{seed}")
            comparison = json.loads((self.folder / f"slower-{seed}" / "latest" / "comparison.json").read_text())
            slower = {row["collective"] for row in comparison["bands"] if row["answer"] == "regression"}
            found += done.returncode == 10 and {"communicator init", "communicator split"} <= slower
        self.assertGreaterEqual(found, wanted)

    def test_equal_communicators_are_not_called_different(self):
        report, comparison, _ = self.ab("", SAME, *SIM, "--collectives", "communicator", "--seed", "1", exits=0)
        self.assertEqual({row["band"] for row in comparison["bands"]}, {"steps"})
        joined = [m for m in report["measurements"] if m["case"]["pattern"] == "init"]
        self.assertEqual([len(m["latency_launches_us"]) for m in joined], [7, 7])
        self.assertTrue(all(m["throughput"] is None and m["communicator_costs"]["gpu_memory_bytes"] > 0 for m in joined))

    def test_an_arm_may_have_several_faults(self):
        report, _, _ = self.ab("", "P5BENCH_SIM_FAULT=gpu:n0g3:0.5,gpu:n0g4:0.25", "--seed", "1", *FEW, exits=10)
        largest = {m["case"]["arm"]: m["throughput"]["busbw_gb_per_s"] for m in report["measurements"]
                   if (m["case"]["collective"], m["case"]["bytes"]) == ("all_reduce", 1 << 30)}
        self.assertAlmostEqual(largest["a"] / largest["b"], 4, delta=0.1)

    def test_an_arm_given_in_several_texts_has_the_variables_of_all(self):
        report, _, _ = self.ab("", "P5BENCH_SIM_FAULT=gpu:n0g3:0.9", "--b", "NCCL_MNNVL_ENABLE=0", "--seed", "1", *FEW, exits=10)
        self.assertEqual([arm["settings"] for arm in report["arms"]], [{}, {"NCCL_MNNVL_ENABLE": "0", "P5BENCH_SIM_FAULT": "gpu:n0g3:0.9"}])

    def test_wrong_data_of_an_arm_is_wrong_data(self):
        report, comparison, _ = self.ab("", "P5BENCH_SIM_FAULT=gpu:n0g3:1:lies", "--seed", "1", *FEW, exits=11)
        self.assertTrue(all((m["wrong_elements"] > 0) == (m["case"]["arm"] == "b") for m in report["measurements"]))
        self.assertTrue(comparison["troubles"])
        _, comparison, printed = self.ab("P5BENCH_SIM_FAULT=gpu:n0g3:1:lies", "P5BENCH_SIM_FAULT=gpu:n0g3:1", "--seed", "1", *FEW, exits=11,
                                         name="a")
        self.assertIn("WRONG DATA", comparison["headline"])
        self.assertIn(comparison["headline"], printed)

    def test_an_arm_whose_cases_all_fail_ends_unfinished_with_the_others_figures(self):
        done = self.run_it("ab", "--b", "P5BENCH_SIM_FAULT=gpu:n0g3:0", *SIM, *FEW, "--out", "out")
        self.assertEqual(done.returncode, 12, done.stdout)
        report = self.report()
        self.assertEqual({(m["case"]["arm"], m["outcome"]) for m in report["measurements"]}, {("a", "measured"), ("b", "failed")})
        self.assertIn("in launches 1, 2 of 7", report["measurements"][-1]["because"] + report["measurements"][0]["because"])
        self.assertRegex(report["decision"]["sentence"], "6 of 12 measurements failed, all of arm b: ")
        self.assertRegex(done.stdout, r"FAILED in \d+ cases of NEW: in launches 1, 2 of 7: .*no progress")

    def test_failures_of_the_first_arm_end_everything_with_the_same_code(self):
        for other in ("gpu:n0g3:1", "nic:n0r0:0.5"):
            with self.subTest(other):
                done = self.run_it("ab", "--a", "P5BENCH_SIM_FAULT=gpu:n0g3:0", "--b", f"P5BENCH_SIM_FAULT={other}", *SIM, *FEW,
                                   "--out", f"out-{other[:3]}", "--format", "json,junit,console")
                self.assertEqual(done.returncode, 12, done.stdout)
                folder = self.folder / f"out-{other[:3]}" / "latest"
                comparison, report = (json.loads((folder / name).read_text()) for name in ("comparison.json", "report.json"))
                self.assertEqual((comparison["exit_code"], report["exit_code"]), (12, 12))
                self.assertRegex(comparison["headline"], r"FAILED in \d+ cases? of BASE")
                self.assertIn(comparison["headline"], done.stdout)
                self.assertIn('name="exit code" value="12"', (folder / "comparison.xml").read_text())

    def test_the_first_line_is_the_decision_and_the_second_the_answer_when_quiet(self):
        done = self.run_it("ab", "--b", "P5BENCH_SIM_FAULT=gpu:n0g3:0.9", *SIM, *FEW, "--seed", "1", "--quiet")
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 3, lines)
        self.assertRegex(lines[0], "^REJECT: arm b is slower than arm a: .*, SIMULATED$")
        self.assertTrue(lines[1].startswith("REGRESSION"), lines)

    def test_the_same_seed_gives_the_same_figures(self):
        def figures(name):
            report, _, _ = self.ab("", "P5BENCH_SIM_FAULT=gpu:n0g3:0.9", "--seed", "3", *FEW, exits=10, name=name)
            return [(m["case"], m["launches_us"]) for m in report["measurements"]]
        self.assertEqual(figures("first"), figures("second"))


class Launches(Folder):
    def launches(self, count, *arguments, name="out"):
        done = self.run_it(*SIM, "--launches", count, "--seed", "1", "--quiet", *FEW, *arguments, "--out", name)
        self.assertIn(done.returncode, (0, 14), done.stderr)  # 14: too small to be judged
        folder = self.folder / name / "latest"
        report = read_report(folder / "report.json")
        # What is measured beside the plan, to find parts, belongs to no launch.
        report["measurements"] = [m for m in report["measurements"] if m["case"]["group"] != "node_half"]
        return report, [json.loads(line) for line in (folder / "measurements.jsonl").read_text().splitlines()]

    def test_each_launch_is_in_the_journal_and_their_medians_in_the_report(self):
        report, journal = self.launches(7)
        self.assertEqual(report["run"]["launches"], 7)
        for m in report["measurements"]:
            lines = [line for line in journal if line["case"] == m["case"]]
            self.assertEqual([line["launch"] for line in lines], list(range(7)))
            self.assertEqual(m["launches_us"], [line["throughput"]["median_us"] for line in lines])
            self.assertEqual(m["throughput"]["median_us"], statistics.median(m["launches_us"]))
            low, high = m["throughput"]["ci95_us"]
            self.assertTrue(min(m["launches_us"]) <= low < m["throughput"]["median_us"] < high <= max(m["launches_us"]))
            self.assertEqual(m["throughput"]["samples"], sum(line["throughput"]["samples"] for line in lines))

    def test_a_soak_goes_on_with_launches_until_its_time_is_over(self):
        done = self.run_it(*SIM, "--soak", "3s", "--budget", "1s", "--seed", "1", "--quiet", *FEW, "--out", "soak")
        self.assertEqual(done.returncode, 0, done.stderr)
        report = read_report(self.folder / "soak" / "latest" / "report.json")
        journal = [json.loads(line) for line in (self.folder / "soak" / "latest" / "measurements.jsonl").read_text().splitlines()]
        launches = report["run"]["launches"]
        self.assertGreater(launches, 2)
        self.assertEqual(sorted({line["launch"] for line in journal}), list(range(launches)))
        for m in report["measurements"]:
            lines = [line for line in journal if line["case"] == m["case"] and line["outcome"] == "measured"]
            self.assertGreaterEqual(len(lines), launches - 1)
            self.assertEqual(m["launches_us"], [line["throughput"]["median_us"] for line in lines])
        self.assertEqual([f["id"] for f in report["findings"] if f["id"] == "run.slow_launch"], [])

    def test_launches_differ_by_the_size_that_the_model_states(self):
        report, _ = self.launches(200, "--collectives", "all_reduce")
        for m in report["measurements"]:
            times = m["launches_us"]
            # 0.3 % between launches, and almost nothing between medians of samples; 200 launches show it to a tenth.
            self.assertAlmostEqual(statistics.stdev(times) / statistics.mean(times), 0.003, delta=0.0008)

    def test_the_order_of_cases_differs_from_launch_to_launch(self):
        _, journal = self.launches(3, "--sizes", "8,64,512,4KiB,32KiB,256KiB,2MiB,16MiB")
        orders = [[(line["case"]["collective"], line["case"]["pattern"], line["case"]["bytes"]) for line in journal if line["launch"] == launch]
                  for launch in range(3)]
        self.assertEqual(len({tuple(order) for order in orders}), 3)
        self.assertEqual(len({tuple(sorted(map(str, order))) for order in orders}), 1)

    def test_pairs_have_their_median_over_launches(self):
        report, journal = self.launches(3, "--collectives", "p2p")
        m = next(m for m in report["measurements"] if m["case"]["pattern"] == "one_way")
        lines = [line for line in journal if line["case"] == m["case"]]
        for index, (source, destination, median) in enumerate(m["pairs"]):
            of_launches = [line["pairs"][index] for line in lines]
            self.assertEqual({tuple(pair[:2]) for pair in of_launches}, {(source, destination)})
            self.assertAlmostEqual(median, statistics.median(pair[2] for pair in of_launches), places=6)

    def test_one_launch_has_no_number(self):
        report, journal = self.launches(1)
        self.assertEqual({line["launch"] for line in journal}, {None})
        self.assertEqual({len(m["launches_us"]) for m in report["measurements"]}, {1})

    def test_verdicts_are_given_on_the_launches_together(self):
        report, _ = self.launches(3, "--sizes", "4GiB")
        self.assertEqual({m["verdict"]["grade"] for m in report["measurements"]}, {"ok"})


if __name__ == "__main__":
    main()
