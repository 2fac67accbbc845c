"""`p5bench compare`: two runs, sets of them, and runs of several launches; what it says, and what it refuses.

Runs of several launches are made here from one simulated run: each launch is that run with times scaled by a seeded
random factor.
"""

import copy
import json
import pathlib
import random
import sys

import jsonschema

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, SOURCE, main, refuse_constant  # noqa: E402

SIM = ["--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4", "--collectives", "all_reduce,all_gather",
       "--factor", "16", "--quiet"]
GOOD, USAGE, SLOW, WRONG, INCONCLUSIVE = 0, 2, 10, 11, 14


def schema(name):
    return json.loads((SOURCE / "reports/schema" / name).read_text())


def comparison_schema():
    """With the definition of a case that it refers to in the report's schema."""
    comparison, report = schema("comparison.schema.json"), schema("report.schema.json")
    comparison["$defs"] = {**report["$defs"], **comparison["$defs"], "case": report["$defs"]["case"]}
    return jsonschema.Draft202012Validator(comparison)


def scaled(series, factor):
    if series:
        for key in ("median_us", "min_us", "max_us", "p95_us", "p99_us"):
            series[key] = series[key] and series[key] * factor
        for key in ("ci95_us", "samples_us"):
            if series.get(key):
                series[key] = [value * factor for value in series[key]]


class Compare(Folder):
    def simulate(self, name, *more, seed=1):
        done = self.run_it(*SIM, "--out", name, "--seed", seed, *more)
        self.assertIn(done.returncode, (GOOD, SLOW, WRONG), done.stderr)
        return self.folder / name / "latest"

    def compare(self, *arguments):
        """The exit code and, where there is one, the comparison."""
        done = self.run_it("compare", *arguments, "--format", "json", "--out", "compared")
        if done.returncode == USAGE:
            return USAGE, done.stderr
        text = (self.folder / "compared/comparison.json").read_text()
        comparison = json.loads(text, parse_constant=refuse_constant)
        problems = [f"{error.json_path}: {error.message}" for error in comparison_schema().iter_errors(comparison)]
        self.assertEqual(problems, [])
        self.assertEqual(comparison["exit_code"], done.returncode)
        return done.returncode, comparison

    def launch(self, run, name, count=7, slower=lambda case: 1.0, scatter=0.005, seed=1):
        """A run of `count` launches, as `run --launches` leaves it."""
        draw = random.Random(seed)
        report = json.loads((run / "report.json").read_text())
        lines = [json.loads(line) for line in (run / "measurements.jsonl").read_text().splitlines()]
        for m in report["measurements"]:
            m["launches_us"], m["latency_launches_us"] = [], []
        places = {json.dumps(m["case"]): m for m in report["measurements"]}
        journal = []
        for launch in range(count):
            common = draw.gauss(0, scatter)
            for line in copy.deepcopy(lines):
                line["launch"] = launch
                factor = (1 + common + draw.gauss(0, scatter / 2)) * slower(line["case"])
                for quantity, key in (("throughput", "launches_us"), ("latency", "latency_launches_us")):
                    scaled(line[quantity], factor)
                    line[key] = [line[quantity]["median_us"]] if line[quantity] else []
                    places[json.dumps(line["case"])][key] += line[key]
                journal.append(line)
        folder = self.folder / name
        folder.mkdir()
        (folder / "report.json").write_text(json.dumps(report))
        (folder / "measurements.jsonl").write_text("".join(json.dumps(line) + "\n" for line in journal))
        return folder

    def test_two_runs_of_the_same_are_no_regression(self):
        # Single runs are launches that differ; in this order by little less than would leave it open.
        a, b = self.simulate("a", seed=2), self.simulate("b")
        code, comparison = self.compare(a, b)
        self.assertEqual((code, comparison["answer"]), (GOOD, "no regression"))
        self.assertTrue(comparison["screening"])
        self.assertEqual(comparison["provenance"], "simulated")

    def test_a_slow_nic_is_a_regression_where_it_shows(self):
        a, b = self.simulate("a"), self.simulate("b", "--fault", "nic:n1r5:0.5")
        code, comparison = self.compare(a, b)
        self.assertEqual((code, comparison["answer"]), (SLOW, "regression"))
        answers = {(row["collective"], row["quantity"], row["band"]): row["answer"] for row in comparison["bands"]}
        self.assertEqual(answers["all_reduce", "throughput", "bandwidth"], "regression")
        self.assertEqual(answers["all_reduce", "latency", "latency"], "no regression")
        code, comparison = self.compare(b, a)
        self.assertEqual(code, GOOD)  # faster is fine

    def test_wrong_data_that_is_new_ends_with_11(self):
        a, b = self.simulate("a"), self.simulate("b", "--fault", "gpu:n0g0:1:lies", seed=2)
        code, comparison = self.compare(a, b)
        self.assertEqual(code, WRONG)
        self.assertTrue(all(trouble["wrong_data"] for trouble in comparison["troubles"]))
        self.assertEqual(self.compare(b, b)[0], GOOD)

    def test_launches_prove_what_single_runs_only_screen(self):
        run = self.simulate("run")
        base = self.launch(run, "base")
        fresh = self.launch(run, "fresh", slower=lambda case: 1.05 if case["bytes"] >= 64 << 20 else 1, seed=2)
        code, comparison = self.compare(base, fresh)
        self.assertEqual(code, SLOW)
        self.assertFalse(comparison["screening"])
        for row in comparison["bands"]:
            self.assertEqual((row["base_launches"], row["new_launches"]), (7, 7))
            self.assertEqual(row["answer"] == "regression", row["band"] == "bandwidth", row)
            self.assertIsNotNone(row["spread"])

    def test_several_single_runs_are_as_many_launches(self):
        run = self.simulate("run")
        for i in range(7):
            self.launch(run, f"base{i}", count=1, seed=i)
            self.launch(run, f"new{i}", count=1, seed=100 + i)
        names = [[f"{side}{i}" for i in range(7)] for side in ("base", "new")]
        code, comparison = self.compare("--base", *names[0], "--new", *names[1])
        self.assertEqual(code, GOOD)
        self.assertFalse(comparison["screening"])
        self.assertEqual(comparison["bands"][0]["new_launches"], 7)
        for side, some in zip(("history_a", "history_b"), names):
            (self.folder / side).mkdir()
            for name in some:
                (self.folder / name).rename(self.folder / side / name)
        self.assertEqual(self.compare("history_a", "history_b")[1]["bands"], comparison["bands"])

    def test_a_noisy_machine_is_inconclusive_and_told_how_many_launches_it_takes(self):
        run = self.simulate("run")
        code, comparison = self.compare(self.launch(run, "base", scatter=0.05),
                                        self.launch(run, "fresh", scatter=0.05, seed=2))
        self.assertEqual((code, comparison["answer"]), (INCONCLUSIVE, "inconclusive"))
        needed = [row["launches_needed"] for row in comparison["bands"] if row["answer"] == "inconclusive"]
        self.assertTrue(all(launches is None or launches > 7 for launches in needed), needed)

    def test_a_journal_that_was_cut_short_is_read_as_far_as_it_goes(self):
        base = self.launch(self.simulate("run"), "base")
        whole = (base / "measurements.jsonl").read_text()
        (base / "measurements.jsonl").write_text(whole[:-40])
        self.assertEqual(self.compare(base, base)[0], GOOD)
        (base / "measurements.jsonl").write_text("x" + whole)
        code, message = self.compare(base, base)
        self.assertEqual(code, USAGE)
        self.assertIn("line 1", message)

    def test_other_hardware_is_refused_unless_asked_for(self):
        a = self.simulate("a")
        b = self.simulate("b", "--platform", "p5en.48xlarge")
        code, message = self.compare(a, b)
        self.assertEqual(code, USAGE)
        for word in ("p5.48xlarge", "p5en.48xlarge", "--across-hardware"):
            self.assertIn(word, message)
        code, comparison = self.compare(a, b, "--across-hardware")
        self.assertIn("hardware", [each["kind"] for each in comparison["differences"]])

    def test_the_console_says_it_in_a_sentence(self):
        a, b = self.simulate("a"), self.simulate("b", "--fault", "nic:n1r5:0.5")
        done = self.run_it("compare", a, b)
        self.assertEqual(done.returncode, SLOW)
        self.assertIn("REGRESSION in 4 of 10 bands", done.stdout.splitlines()[-1])
        self.assertIn("The figures are simulated.", done.stdout)

    def test_bad_input_is_refused_before_anything_is_made(self):
        a = self.simulate("a")
        (self.folder / "empty").mkdir()
        for arguments, words in [([], ["two sides"]), ([a], ["two sides"]), ([a, a, a], ["two sides"]),
                                 (["--base", a], ["two sides"]), ([a, "--new", a], ["two sides"]),
                                 ([a, "missing"], ["'missing'"]), ([a, "empty"], ["'empty'", "report.json"]),
                                 ([a, a, "--new-arm", "b"], ["'b'", "default"]),
                                 ([a, a, "--format", "jsn"], ["'jsn'", "'json'"]),
                                 ([a, a, "--acros-hardware"], ["'--acros-hardware'"])]:
            before = self.listing()
            done = self.run_it("compare", *arguments)
            self.assertEqual(done.returncode, USAGE, arguments)
            for word in words:
                self.assertIn(word, done.stderr, arguments)
            self.assertEqual(self.listing(), before)


if __name__ == "__main__":
    main()
