"""`p5bench compare`, `baseline` and `import`: two runs, sets of them, and runs of several launches; their answers and
their refusals.

Runs of several launches are made here from one simulated run: each launch is that run with times scaled by a seeded
random factor.
"""

import copy
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import BUILD, Folder, PROGRAM, SOURCE, main, read_report, refuse_constant, validator  # noqa: E402

SIM = ["--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4", "--collectives", "all_reduce,all_gather",
       "--factor", "16", "--quiet"]
PAIRS = ["--collectives", "p2p,all_reduce", "--min", "2GiB", "--max", "2GiB"]
GOOD, USAGE, SLOW, WRONG, UNFINISHED, INCONCLUSIVE = 0, 2, 10, 11, 12, 14
COMPARISON = validator("comparison")


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
        self.assertIn(done.returncode, (GOOD, SLOW, WRONG, 14), done.stderr)  # 14: nothing was judged
        return self.folder / name / "latest"

    def compare(self, *arguments):
        """The exit code and, if it was written, the comparison."""
        done = self.run_it("compare", *arguments, "--format", "json", "--out", "compared")
        if done.returncode == USAGE:
            return USAGE, done.stderr
        text = (self.folder / "compared/comparison.json").read_text()
        comparison = json.loads(text, parse_constant=refuse_constant)
        problems = [f"{error.json_path}: {error.message}" for error in COMPARISON.iter_errors(comparison)]
        self.assertEqual(problems, [])
        self.assertEqual(comparison["exit_code"], done.returncode)
        return done.returncode, comparison

    def test_slow_samples_that_a_median_hides_are_a_regression(self):
        size = ("--min", "1GiB", "--max", "1GiB")
        good, bad = self.simulate("good", *size), self.simulate("bad", *size, "--fault", "node:n1:0.1:30%", seed=2)
        done = self.run_it("compare", good, bad, "--seed", "1", "--quiet")
        self.assertEqual(done.returncode, SLOW, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^REGRESSION.*NEW found slow samples that a median hides")
        done = self.run_it("compare", bad, bad, "--seed", "1", "--quiet")  # as before
        self.assertNotEqual(done.returncode, SLOW, done.stdout)
        done = self.run_it("ab", *SIM, *size, "--b", "P5BENCH_SIM_FAULT=node:n1:0.1:30%", "--seed", "3", "--launches", "7")
        self.assertEqual(done.returncode, SLOW, done.stdout)

    def test_slow_samples_where_all_were_slow_before_are_no_regression(self):
        size = ("--min", "1GiB", "--max", "1GiB")
        worse = self.simulate("worse", *size, "--fault", "node:n1:0.2")
        better = self.simulate("better", *size, "--fault", "node:n1:0.2:30%", seed=2)
        code, comparison = self.compare(worse, better)
        self.assertEqual(code, GOOD, comparison["headline"])
        remarks = [each for each in comparison["remarks"] if each.startswith("NEW found slow samples that a median hides")]
        self.assertEqual(len(remarks), 1, comparison["remarks"])
        self.assertEqual(self.compare(better, worse)[0], SLOW)

    def launch(self, run, name, count=7, slower=lambda case: 1.0, scatter=0.005, seed=1):
        """A run of `count` launches, in the format of `run --launches`."""
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
        # Single runs are launches that differ; in this order the difference is just large enough for an answer.
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
        self.assertEqual(code, GOOD)  # a faster run is no regression

    def test_the_headline_names_what_only_the_new_run_accuses_and_is_the_same_everywhere(self):
        a, b = self.simulate("a", *PAIRS), self.simulate("b", *PAIRS, "--fault", "nic:n1r5:0.5")
        code, comparison = self.compare(a, b)
        self.assertEqual((code, [suspect["name"] for suspect in comparison["new_suspects"]]), (SLOW, ["n1r5"]))
        headline = comparison["headline"]
        self.assertRegex(headline, r"^REGRESSION: \S.* >= 64 MiB \+\d+ %.*; NEW suspects NIC n1r5 \(screening\)$")
        for more in ([], ["--format", "json,console", "--out", "q"]):
            quiet = self.run_it("compare", a, b, "--quiet", *more)
            self.assertEqual((quiet.returncode, quiet.stdout), (SLOW, headline + ", SIMULATED\n"))
        self.assertEqual(self.run_it("compare", a, b).stdout.splitlines()[-1], headline)
        self.run_it("compare", a, b, "--format", "junit,markdown", "--out", "all")
        suite = xml.etree.ElementTree.parse(self.folder / "all/comparison.xml").getroot()[0]
        self.assertEqual([case.get("name") for case in suite.findall("testcase[@classname='suspect']")], ["NIC n1r5"])
        self.assertIn(headline, suite.findtext("system-out"))
        self.assertIn("NEW suspects NIC n1r5", (self.folder / "all/comparison.md").read_text().splitlines()[0])
        self.assertEqual(self.compare(b, b)[1]["new_suspects"], [])
        # A part can be suspected although no row is slower.
        report = json.loads((a / "report.json").read_text())
        report["suspects"] = json.loads((b / "report.json").read_text())["suspects"]
        report["exit_code"], report["grade"] = SLOW, "slow"
        del report["decision"]
        (self.folder / "accusing.json").write_text(json.dumps(report))
        code, comparison = self.compare(a, "accusing.json")
        self.assertEqual((code, comparison["answer"]), (SLOW, "regression"))
        self.assertRegex(comparison["headline"], r"^REGRESSION: NEW suspects NIC n1r5; no slower in \d bands")

    def test_a_journal_of_another_run_is_refused(self):
        a, b = self.simulate("a"), self.simulate("b", "--fault", "node:n0:0.9", "--fault", "node:n1:0.9")
        mixed = self.folder / "mixed"
        shutil.copytree(a.resolve(), mixed)
        shutil.copy(b / "report.json", mixed)
        lines = [json.loads(line) for line in (a / "measurements.jsonl").read_text().splitlines()]
        for what, change in (("wrong", {"wrong_elements": 3}), ("failed", {"outcome": "failed", "because": "it hung"})):
            folder = self.folder / what
            shutil.copytree(a.resolve(), folder)
            (folder / "measurements.jsonl").write_text("".join(json.dumps(line | (change if i == 3 else {})) + "\n" for i, line in enumerate(lines)))
        for folder in ("mixed", "wrong", "failed"):
            with self.subTest(folder):
                code, said = self.compare(a, folder)
                self.assertEqual(code, USAGE)
                self.assertIn("are not of the same run", said)
                self.assertIn(f"{folder}/measurements.jsonl", said)

    def test_what_the_new_run_skipped_is_named_and_a_whole_row_of_it_is_no_answer(self):
        a = self.simulate("a")
        report = json.loads((a / "report.json").read_text())

        def skip(which, name):
            changed = copy.deepcopy(report)
            for m in changed["measurements"]:
                if which(m["case"]):
                    m |= {"outcome": "skipped", "because": "budget", "throughput": None, "latency": None, "launches_us": [],
                          "latency_launches_us": [], "slowest_rank": None, "selection": None}
            (self.folder / name).write_text(json.dumps(changed))
            return name
        largest = max(m["case"]["bytes"] for m in report["measurements"])
        code, comparison = self.compare(a, skip(lambda case: case["collective"] == "all_gather" and case["group"] == "world", "all.json"))
        self.assertEqual((code, comparison["answer"]), (INCONCLUSIVE, "inconclusive"))
        self.assertRegex(comparison["headline"], "^INCONCLUSIVE: NEW skipped all of all_gather")
        self.assertTrue(any("NEW skipped it: budget" in each for each in comparison["only_in_base"]), comparison["only_in_base"])
        code, comparison = self.compare(a, skip(lambda case: case["collective"] == "all_gather" and case["bytes"] == largest, "some.json"))
        self.assertEqual(code, GOOD)
        self.assertIn("of BASE not in NEW", comparison["headline"])
        code, comparison = self.compare("all.json", a)
        self.assertEqual(code, GOOD)
        self.assertTrue(any("BASE skipped it" in each for each in comparison["only_in_new"]))

    def test_a_side_that_skipped_everything_is_no_answer(self):
        a = self.simulate("a", *PAIRS)
        report = json.loads((a / "report.json").read_text())
        for m in report["measurements"]:
            m |= {"outcome": "skipped", "because": "budget", "throughput": None, "latency": None, "launches_us": [],
                  "latency_launches_us": [], "slowest_rank": None, "selection": None}
            m["verdict"] |= {"grade": "unknown", "fraction_of_limit": None}
        report |= {"exit_code": INCONCLUSIVE, "grade": "unknown", "decision": None}
        (self.folder / "empty").mkdir()
        (self.folder / "empty/report.json").write_text(json.dumps(report))
        history = self.folder / "history"
        shutil.copytree(a.resolve(), history / "1")
        shutil.copytree(self.folder / "empty", history / "2")
        for arguments, side in (((a, "empty"), "NEW"), (("empty", a), "BASE"), (("--history", history), "NEW")):
            with self.subTest(arguments):
                code, comparison = self.compare(*arguments)
                self.assertEqual((code, comparison["answer"]), (INCONCLUSIVE, "inconclusive"))
                self.assertIn(f"{side} skipped all of its cases (budget)", comparison["headline"])
                for form in ("console", "markdown,junit"):
                    self.assertEqual(self.run_it("compare", *arguments, "--format", form, "--out", "forms").returncode, INCONCLUSIVE)
        done = self.run_it("report", "empty", "--baseline", a)
        self.assertEqual(done.returncode, INCONCLUSIVE, done.stderr)
        for command in (("baseline", "empty", "--out", "out"), (*SIM, *PAIRS, "--out", "new", "--baseline", "empty")):
            done = self.run_it(*command)
            self.assertEqual(done.returncode, USAGE, done.stdout)
            self.assertIn("nothing was measured in it", done.stderr)

    def test_copies_of_a_run_count_once(self):
        a, b = self.simulate("a"), self.simulate("b", "--fault", "nic:n1r5:0.9", seed=2)
        for name, run in (("base", a), ("new", b)):
            for i in range(7):
                shutil.copytree(run.resolve(), self.folder / name / str(i))
        once, copies = self.compare(a, b)[1], self.compare("base", "new")[1]
        self.assertEqual(copies["answer"], once["answer"])
        self.assertTrue(copies["screening"])
        self.assertEqual({row["new_launches"] for row in copies["bands"]}, {1})
        self.assertTrue(any("is a copy of" in remark for remark in copies["remarks"]), copies["remarks"])

    def test_a_report_that_is_rendered_into_a_folder_of_runs_hides_none_of_them(self):
        runs = [self.simulate("runs", "--launches", "3", seed=seed).resolve() for seed in (1, 2)]
        fresh = self.simulate("new", seed=3)
        once = self.compare("runs", fresh)[1]
        for run in runs:  # also the first by name, whose copy has no samples
            done = self.run_it("report", run, "--format", "json", "--out", "runs")
            self.assertEqual(done.returncode, GOOD, done.stderr)
            comparison = self.compare("runs", fresh)[1]
            self.assertEqual(comparison["bands"], once["bands"])
            self.assertEqual({row["base_launches"] for row in comparison["bands"]}, {6})
            self.assertTrue(any("runs/report.json does not count: it is a copy of" in remark for remark in comparison["remarks"]), comparison["remarks"])

    def test_a_folder_of_one_run_is_rendered_as_often_as_asked(self):
        """The copy that the command leaves there is no second run."""
        run = self.simulate("one").resolve()
        for _ in range(2):
            done = self.run_it("report", "one", "--format", "json", "--out", "one")
            self.assertEqual(done.returncode, GOOD, done.stderr)
        self.simulate("one", seed=2)
        done = self.run_it("report", "one")
        self.assertEqual(done.returncode, USAGE, done.stdout)
        self.assertIn("'one' holds 2 runs", done.stderr)
        shutil.rmtree(run)
        done = self.run_it("report", "one", "--as", "json")
        self.assertEqual(json.loads(done.stdout)["run"]["seed"], 2)

    def test_a_rejected_run_is_no_baseline(self):
        rejected = self.simulate("rejected", *PAIRS, "--fault", "nic:n1r5:0.5")
        done = self.run_it("baseline", rejected, "--cluster", "lab")
        self.assertEqual(done.returncode, USAGE, done.stdout)
        done = self.run_it(*SIM, *PAIRS, "--out", "new", "--baseline", rejected)
        self.assertEqual(done.returncode, USAGE, done.stdout)
        self.assertIn("no run of it is of a healthy machine", done.stderr)
        self.assertFalse((self.folder / "new").exists())
        # Of several runs the healthy ones are the baseline.
        healthy = self.simulate("healthy", *PAIRS)
        for name, run in (("healthy", healthy), ("rejected", rejected)):
            shutil.copytree(run.resolve(), self.folder / "both" / name)
        done = self.run_it(*SIM, *PAIRS, "--out", "new", "--baseline", "both")
        self.assertEqual(done.returncode, GOOD, done.stderr + done.stdout)

    def test_a_report_that_contradicts_itself_is_refused(self):
        a, b = self.simulate("a", *PAIRS), self.simulate("b", *PAIRS, "--fault", "nic:n1r5:0.5")
        good, bad = (json.loads((run / "report.json").read_text()) for run in (a, b))
        wrong = copy.deepcopy(good)
        wrong["measurements"][0]["wrong_elements"] = 5
        for name, report in (("suspects", good | {"suspects": bad["suspects"]}), ("accepted", bad | {"decision": good["decision"]}),
                             ("code", bad | {"exit_code": 0, "decision": good["decision"]}), ("partial", good | {"status": "partial"}), ("wrong", wrong),
                             ("grade of none", good | {"grade": "wrong"}), ("failed", good | {"grade": "failed"}), ("grade", bad | {"grade": "ok"}),
                             ("nothing", good | {"measurements": [], "grade": "unknown"}), ("usage", bad | {"exit_code": USAGE}),
                             ("slow", {key: value for key, value in (bad | {"exit_code": 0, "grade": "ok", "suspects": []}).items() if key != "decision"})):
            (self.folder / "edited.json").write_text(json.dumps(report))
            for command in (("report", "edited.json"), ("compare", a, "edited.json")):
                with self.subTest(name, command=command[0]):
                    done = self.run_it(*command)
                    self.assertEqual(done.returncode, USAGE, done.stdout)
                    self.assertIn("contradicts itself", done.stderr)
                    self.assertIn("edited.json", done.stderr)

    def test_a_report_whose_numbers_differ_is_refused(self):
        run = self.simulate("a", *PAIRS)
        good = json.loads((run / "report.json").read_text())
        ok = next(m["verdict"] for m in good["measurements"] if m["verdict"]["grade"] == "ok")
        far_below = {"fraction_of_limit": 0.1, "limit_gb_per_s": ok["limit_gb_per_s"] * ok["fraction_of_limit"] / 0.1}
        unjudged = {**ok, "grade": "unknown", "because": "not judged: edited", "limit_gb_per_s": None, "fraction_of_limit": None}
        edits = (
            ("the run has 16 ranks, and its topology 32 ranks", lambda report: report["run"].update(ranks=16)),
            ("the run has 2 nodes, and its topology 4 hosts", lambda report: report["run"].update(nodes=2)),
            ("the run has 32 ranks, and its topology 31 ranks", lambda report: report["topology"]["host_of_rank"].pop()),
            ("names rank 32, and the run has 32 ranks", lambda report: report["measurements"][0].update(slowest_rank=32)),
            ("is of 64 ranks on", lambda report: (report["measurements"][0]["case"].update(ranks=64),
                                                  report["measurements"][0]["throughput"].pop("busbw_gb_per_s"),
                                                  report["measurements"][0].update(verdict=unjudged))),
            ("by the message and its median time", lambda report: report["measurements"][0]["case"].update(ranks=64)),
            ("by the message and its median time", lambda report: report["measurements"][-1]["throughput"].update(algbw_gb_per_s=9999.0)),
            ("busbw_gb_per_s is 9999, but", lambda report: report["measurements"][-1]["throughput"].update(busbw_gb_per_s=9999.0)),
            ("us at least", lambda report: report["measurements"][-1]["throughput"].update(min_us=1e9)),
            ("but ok begins at", lambda report: next(m["verdict"] for m in report["measurements"] if m["verdict"]["grade"] == "ok").update(far_below)),
            ("fraction_of_limit is 0.1, but", lambda report: report["measurements"][0]["verdict"].update(fraction_of_limit=0.1)),
        )
        for why, edit in edits:
            report = copy.deepcopy(good)
            edit(report)
            (self.folder / "edited.json").write_text(json.dumps(report))
            for command in (("report", "edited.json"), ("compare", run, "edited.json")):
                with self.subTest(why, command=command[0]):
                    done = self.run_it(*command)
                    self.assertEqual(done.returncode, USAGE, done.stdout)
                    self.assertIn(why, done.stderr)
                    self.assertIn("edited.json", done.stderr)

    def test_wrong_data_that_is_new_ends_with_11(self):
        a, b = self.simulate("a"), self.simulate("b", "--fault", "gpu:n0g0:1:lies", seed=2)
        code, comparison = self.compare(a, b)
        self.assertEqual(code, WRONG)
        self.assertTrue(all(trouble["wrong_data"] for trouble in comparison["troubles"]))
        code, comparison = self.compare(b, b)  # wrong data cannot be a baseline
        self.assertEqual(code, WRONG)
        self.assertTrue(all(trouble["in_base"] for trouble in comparison["troubles"]))
        self.assertTrue(comparison["headline"].startswith("WRONG DATA in "), comparison["headline"])
        self.assertEqual([end["exit_code"] for end in comparison["bad_ends"]], [WRONG])
        code, comparison = self.compare(b, a)  # a mended case that has no baseline
        self.assertEqual(code, WRONG)
        self.assertRegex(comparison["headline"], r"^WRONG DATA in \d+ cases? of BASE; ")

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

    def test_a_run_that_is_compared_with_itself_is_said_to_be(self):
        a, b = self.simulate("a"), self.simulate("b", seed=2)
        shutil.copytree(a.resolve(), self.folder / "copy")
        for one, other, said in ((a, a, True), (a, a / "report.json", True), (a, "copy", True), (a, b, False)):
            _, comparison = self.compare(one, other)
            self.assertEqual(any("same run is on both sides" in remark for remark in comparison["remarks"]), said)
            self.assertEqual(self.run_it("compare", one, other, "--quiet").stdout,
                             comparison["headline"] + " (the same run is on both sides)" * said + ", SIMULATED\n")

    def test_the_console_says_it_in_a_sentence(self):
        a, b = self.simulate("a"), self.simulate("b", "--fault", "nic:n1r5:0.5")
        done = self.run_it("compare", a, b)
        self.assertEqual(done.returncode, SLOW)
        self.assertRegex(done.stdout.splitlines()[-1], r"^REGRESSION: all_.* >= 64 MiB \+\d+ %, all_.* and \d more bands")
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 120)
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

    def test_every_format_tells_the_same(self):
        a, b = self.simulate("a"), self.simulate("b", "--fault", "nic:n1r5:0.5")
        done = self.run_it("compare", a, b, "--format", "json,html,markdown,junit", "--out", "all")
        self.assertEqual(done.returncode, SLOW, done.stderr)
        out = self.folder / "all"
        self.assertEqual(sorted(path.name for path in out.iterdir()),
                         ["comparison.html", "comparison.json", "comparison.md", "comparison.xml"])
        comparison = json.loads((out / "comparison.json").read_text())
        answers = [row["answer"] for row in comparison["bands"]]
        suite = xml.etree.ElementTree.parse(out / "comparison.xml").getroot()[0]
        failures = 1 + answers.count("regression") + len(comparison["new_suspects"])
        self.assertEqual(suite.get("tests"), str(1 + len(answers) + len(comparison["new_suspects"])))
        self.assertEqual(suite.get("failures"), str(failures))
        self.assertEqual(len(suite.findall("testcase/failure")), failures)
        self.assertIn(comparison["headline"], suite.findtext("system-out"))
        markdown = (out / "comparison.md").read_text()
        self.assertGreaterEqual(answers.count("regression"), 4)
        self.assertEqual(sorted(answers, key=["regression", "inconclusive", "no regression"].index), answers)
        self.assertIn("## REGRESSION: all", markdown)
        self.assertEqual(markdown.count("**regression**"), answers.count("regression"))
        page = (out / "comparison.html").read_text()
        self.assertIn("p5bench.compare/1", page)
        self.assertNotIn("{{", page)

    def test_an_answer_that_cannot_be_saved_is_printed_with_its_code(self):
        sides = [self.simulate(name, *more) for name, more in
                 (("a", []), ("b", []), ("wrong", ["--fault", "gpu:n1g3:0.7:lies"]), ("slow", ["--fault", "nic:n1r5:0.5"]))]
        for fresh, code, says in ((sides[1], 13, "NO REGRESSION"), (sides[2], 11, "WRONG DATA"), (sides[3], 13, "REGRESSION")):
            for more in (["--quiet"], []):
                full = {"LD_PRELOAD": str(BUILD / "tests/failing_files.so"), "P5BENCH_FAIL_BELOW": str(self.folder / "to"), "P5BENCH_FAIL_WITH": "ENOSPC",
                        "P5BENCH_FAIL_ON": "write"}
                done = self.run_it("compare", sides[0], fresh, "--format", "console,json", "--out", "to", *more, variables=full)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(says, done.stdout)
                self.assertIn("Make room", done.stderr)
            for formats in ("html,console", "html"):
                done = self.run_it("report", fresh, "--baseline", sides[0], "--format", formats, "--out", "to", variables=full)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(says, done.stdout.splitlines()[-1])
                self.assertIn("Make room", done.stderr)

    def test_a_fault_that_both_sides_have_is_said(self):
        sides = [self.simulate(name, "--collectives", "p2p,all_reduce", "--fault", "nic:n1r5:0.5", seed=seed) for name, seed in (("a", 1), ("b", 2))]
        done = self.run_it("compare", *sides)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("BASE and NEW both suspect NIC n1r5: a fault that both have is no regression", " ".join(done.stdout.split()))

    def test_a_run_can_be_read_by_google_benchmarks_scripts(self):
        run = self.simulate("a", "--format", "gbench", "--launches", "3")
        written = json.loads((run / "report.gbench.json").read_text(), parse_constant=refuse_constant)
        report = read_report(run / "report.json")
        for row in written["benchmarks"]:
            self.assertEqual(row["run_type"], "iteration")
            self.assertEqual(row["time_unit"], "us")
            # NICs are measured one by one after the launches
            self.assertEqual(row["repetitions"], 1 if "/nic" in row["name"] else 3)
            self.assertGreater(row["real_time"], 0)
        largest = max(m["throughput"]["median_us"] for m in report["measurements"] if m["throughput"])
        self.assertGreater(max(row["real_time"] for row in written["benchmarks"]), 0.9 * largest)
        names = {row["name"] for row in written["benchmarks"]}
        self.assertEqual(len(written["benchmarks"]), 3 * len(names))
        # Rails are measured for the plan, and to find a slow part.
        run = self.simulate("rails", "--format", "gbench", "--collectives", "p2p,all_reduce", "--group", "rail", "--min", "128MiB", "--max", "128MiB")
        names = [row["name"] for row in json.loads((run / "report.gbench.json").read_text())["benchmarks"]]
        self.assertGreater(sum("group:rail" in name for name in names), 1, names)
        self.assertEqual(len(names), len(set(names)))
        # Figures of other traffic are none of the same operation.
        run = self.simulate("traffic", "--format", "gbench,csv", "--collectives", "all_to_allv", "--traffic", "zipf:1.2", "--min", "1MiB", "--max", "1MiB")
        for row in json.loads((run / "report.gbench.json").read_text())["benchmarks"]:
            self.assertIn("/traffic:zipf:1.2/", row["name"])
        self.assertIn(",zipf:1.2,", (run / "report.csv").read_text())
        metrics = self.run_it("report", str(run), "--as", "prometheus").stdout
        self.assertIn('traffic="zipf:1.2"', metrics)

    def test_launches_of_a_run_are_launches_of_its_comparison(self):
        a, b = self.simulate("a", "--launches", "7"), self.simulate("b", "--launches", "7", seed=2)
        code, comparison = self.compare(a, b)
        self.assertEqual(code, GOOD)
        self.assertFalse(comparison["screening"])
        self.assertTrue(all(row["base_launches"] == 7 for row in comparison["bands"]))

    def test_a_baseline_leaves_out_the_run_that_is_off_and_grades_later_ones(self):
        run = self.simulate("run")
        for i in range(6):
            slower = (lambda case: 1.2) if i == 3 else (lambda case: 1.0)
            self.launch(run, f"day{i}", count=2, slower=slower, seed=i)
        done = self.run_it("baseline", *[f"day{i}" for i in range(6)], "--out", "out", "--cluster", "lab")
        self.assertEqual(done.returncode, GOOD, done.stderr)
        baseline = self.folder / "out/baselines/lab"
        report = read_report(baseline / "report.json")
        self.assertTrue(any("left out" in remark and "day3" in remark for remark in report["run"]["remarks"]))
        self.assertTrue(all(len(m["launches_us"]) == 10 for m in report["measurements"]))
        self.assertEqual(self.compare(baseline, "day3")[0], SLOW)
        self.assertEqual(self.compare(baseline, "day4")[0], GOOD)
        again = self.run_it("baseline", "day0", "--out", "out", "--cluster", "lab")
        self.assertEqual(again.returncode, USAGE)
        self.assertIn("there already", again.stderr)

    def test_a_baseline_is_not_written_where_a_report_points(self):
        self.simulate("run")
        path = self.folder / "run/latest/report.json"
        report = json.loads(path.read_text())
        for cluster, shown in (("../../x", "../../x"), (str(self.folder / "x"), str(self.folder / "x")), ("", ""),
                               ("latest", "latest"), ("a\nb", "a\\x0ab"), ("a\0b", "a\\x00b")):
            with self.subTest(cluster=cluster):
                report["run"]["cluster"] = cluster
                path.write_text(json.dumps(report))
                before = self.listing()
                done = self.run_it("baseline", "run", "--out", "out")
                self.assertEqual(done.returncode, USAGE, done.stderr)
                for word in ("run.cluster", "run/", f"'{shown}'", "--cluster"):
                    self.assertIn(word, done.stderr)
                self.assertEqual(self.listing(), before)
        named = self.run_it("baseline", "run", "--out", "out", "--cluster", "lab")
        self.assertEqual(named.returncode, GOOD, named.stderr)
        self.assertTrue((self.folder / "out/baselines/lab/report.json").exists())

    def test_a_run_is_compared_with_its_baseline(self):
        self.simulate("healthy")
        self.simulate("healthy", seed=2)
        slow = self.run_it(*SIM, "--out", "new", "--fault", "nic:n1r5:0.5", "--baseline", "healthy")
        self.assertEqual(slow.returncode, SLOW, slow.stderr)
        self.assertIn("REGRESSION", slow.stdout)
        latest = self.folder / "new/latest"
        self.assertEqual(json.loads((latest / "comparison.json").read_text())["answer"], "regression")
        self.assertEqual(read_report(latest / "report.json")["exit_code"], SLOW)
        rendered = self.run_it("report", latest / "report.json", "--baseline", "healthy")
        self.assertEqual(rendered.returncode, SLOW, rendered.stderr)
        before = self.listing()
        for options, word in ((["--baseline", "missing"], "'missing'"),
                              (["--baseline", "healthy", "--platform", "p5en.48xlarge"], "p5en.48xlarge")):
            refused = self.run_it(*SIM, "--out", "other", *options)
            self.assertEqual(refused.returncode, USAGE)
            self.assertIn(word, refused.stderr)
            self.assertEqual(self.listing(), before)

    def test_a_report_that_is_compared_later_says_what_the_run_would_have_said(self):
        how = ["--collectives", "all_gather", "--min", "4GiB", "--max", "4GiB", "--launches", "7", "--tuning", "off"]
        self.simulate("base", *how)
        slow = ["--fault", "node:n1:0.9"]
        late = self.simulate("late", *how, *slow, seed=2)
        self.assertEqual(read_report(late / "report.json")["exit_code"], GOOD)
        done = self.run_it(*SIM, *how, *slow, "--seed", "2", "--out", "now", "--baseline", "base")
        self.assertEqual(done.returncode, SLOW, done.stderr + done.stdout)
        done = self.run_it("report", late, "--baseline", "base", "--format", "json,junit,prometheus,markdown", "--out", "told")
        self.assertEqual(done.returncode, SLOW, done.stderr)
        told, now = (read_report(path / "report.json") for path in (self.folder / "told", self.folder / "now/latest"))
        self.assertEqual((told["exit_code"], told["decision"]), (now["exit_code"], now["decision"]))
        self.assertEqual(told["decision"]["word"], "REJECT")
        self.assertIn('<property name="exit code" value="10"/>', (self.folder / "told/report.xml").read_text())
        self.assertRegex((self.folder / "told/report.prom").read_text(), r"(?m)^p5bench_exit_code\{[^}]*\} 10$")
        self.assertTrue((self.folder / "told/report.md").read_text().startswith("## REJECT"))
        again = self.run_it("report", self.folder / "now/latest", "--baseline", late, "--format", "json", "--out", "again")
        self.assertIn(again.returncode, (GOOD, INCONCLUSIVE), again.stderr)
        self.assertNotEqual(read_report(self.folder / "again/report.json")["decision"]["word"], "REJECT")

    def test_a_folder_as_a_baseline_leaves_out_runs_on_other_nodes(self):
        for nodes, seed in ((4, 1), (4, 2), (3, 3)):
            self.simulate("all", "--cluster", "lab", "--nodes", nodes, seed=seed)
        done = self.run_it(*SIM, "--cluster", "lab", "--out", "new", "--seed", "4", "--baseline", "all")
        self.assertIn(done.returncode, (GOOD, INCONCLUSIVE), done.stderr)
        comparison = json.loads((self.folder / "new/latest/comparison.json").read_text())
        self.assertEqual({row["base_launches"] for row in comparison["bands"]}, {2})
        left_out = [remark for remark in comparison["remarks"] if "is left out: it is of other hardware (" in remark]
        self.assertEqual(len(left_out), 1, comparison["remarks"])
        self.assertIn("nodes: 3, here 4", left_out[0])

    def test_a_run_is_not_compared_with_itself_as_a_part_of_its_baseline(self):
        self.simulate("two")
        newest = self.simulate("two", seed=2)
        for baseline, launches, told in (("two", 1, "is left out: its launches are those that are compared"),
                                         (newest, 1, "The same run is on both sides: ")):
            with self.subTest(baseline):
                done = self.run_it("report", newest / "report.json", "--baseline", baseline, "--format", "json", "--out", "told")
                self.assertIn(done.returncode, (GOOD, INCONCLUSIVE), done.stderr)
                comparison = json.loads((self.folder / "told/comparison.json").read_text())
                self.assertEqual({row["base_launches"] for row in comparison["bands"]}, {launches})
                self.assertEqual(len([remark for remark in comparison["remarks"] if told in remark]), 1, comparison["remarks"])
        self.assertEqual(self.run_it("baseline", "two", "--out", "made", "--cluster", "lab").returncode, GOOD)
        made = self.folder / "made/baselines/lab"
        self.assertEqual(len(read_report(made / "report.json")["run"]["held"]), 2)
        done = self.run_it("report", newest / "report.json", "--baseline", made, "--format", "json", "--out", "held")
        self.assertIn(done.returncode, (GOOD, INCONCLUSIVE), done.stderr)
        comparison = json.loads((self.folder / "held/comparison.json").read_text())
        self.assertEqual({row["base_launches"] for row in comparison["bands"]}, {1})
        self.assertTrue(any("is without 1 of its 2 runs" in remark for remark in comparison["remarks"]), comparison["remarks"])
        _, comparison = self.compare(made, newest)
        self.assertTrue(any("The same run is on both sides" in remark for remark in comparison["remarks"]), comparison["remarks"])

    def remarks_of_baseline(self, run, base):
        done = self.run_it("report", run, "--baseline", base, "--format", "json", "--out", "compared")
        self.assertIn(done.returncode, (GOOD, INCONCLUSIVE), done.stderr)
        return json.loads((self.folder / "compared/comparison.json").read_text())["remarks"]

    def test_a_baseline_in_a_folder_of_runs_is_not_one_more_run(self):
        how = ["--collectives", "all_gather", "--min", "4GiB", "--max", "4GiB", "--tuning", "off", "--launches", "3"]
        self.simulate("old", *how)
        fresh = self.simulate("new", *how, seed=2)
        made = self.run_it("baseline", "old", "--out", "old")
        self.assertEqual(made.returncode, GOOD, made.stderr)
        for base in ("old", "old/baselines"):
            _, comparison = self.compare(base, fresh)
            self.assertEqual({row["base_launches"] for row in comparison["bands"]}, {3}, base)
        _, comparison = self.compare(fresh, "old")
        self.assertEqual({row["new_launches"] for row in comparison["bands"]}, {3})
        alone = self.run_it("compare", "--history", "old")
        self.assertEqual(alone.returncode, USAGE, alone.stdout)
        self.assertIn("holds one run", alone.stderr)
        self.assertEqual(self.run_it("report", "old").returncode, GOOD)
        self.assertTrue(any("since the folder has runs" in remark for remark in self.remarks_of_baseline(fresh, "old")))
        self.simulate("bad", *how, "--fault", "node:n1:0.5")
        self.assertEqual(self.run_it("baseline", "old", "--out", "bad").returncode, GOOD)
        self.assertTrue(any("the runs of bad are left out" in remark for remark in self.remarks_of_baseline(fresh, "bad")))

    def test_a_history_shows_how_runs_went_and_compares_the_newest(self):
        run = self.simulate("run")
        (self.folder / "history").mkdir()
        for i in range(4):
            day = self.launch(run, f"history/day{i}", count=3, slower=lambda case: 1.2 if i == 3 else 1.0, seed=i)
            report = json.loads((day / "report.json").read_text())
            report["run"]["started"] = f"2026-11-{20 + i}T00:00:00Z"
            (day / "report.json").write_text(json.dumps(report))
        code, comparison = self.compare("--history", "history")
        self.assertEqual(code, SLOW)
        points = comparison["trend"]["points"]
        self.assertEqual([point["started"][8:10] for point in points], ["20", "21", "22", "23"])
        self.assertTrue(all(ratio > 1.1 for ratio in points[3]["ratios"]), points[3])
        self.assertEqual(comparison["bands"][0]["base_launches"], 9)
        self.assertEqual(self.run_it("compare", "--history", run).returncode, USAGE)  # one run is no history

    def test_a_history_leaves_out_runs_of_other_hardware(self):
        run = self.simulate("run", "--collectives", "all_reduce", "--factor", "64")
        (self.folder / "history").mkdir()
        for i in range(4):
            path = self.launch(run, f"history/day{i}", count=3, seed=i) / "report.json"
            report = json.loads(path.read_text())
            report["run"]["started"] = f"2026-11-{20 + i}T00:00:00Z"
            if i == 1:
                report["topology"]["platform"] = "p5en.48xlarge"
            path.write_text(json.dumps(report))
        code, comparison = self.compare("--history", "history")
        self.assertNotEqual(code, USAGE, comparison)
        self.assertEqual(len(comparison["trend"]["points"]), 3)
        self.assertTrue(any("day1/report.json is left out: it is of other hardware (platform: p5en.48xlarge" in remark
                            for remark in comparison["remarks"]), comparison["remarks"])
        self.assertEqual(len(self.compare("--history", "history", "--across-hardware")[1]["trend"]["points"]), 4)

    def test_a_copy_of_the_newest_run_changes_no_answer_of_a_history(self):
        run = self.simulate("run")
        (self.folder / "history").mkdir()
        for i in range(2):
            self.launch(run, f"history/day{i}", count=1, slower=lambda case: 1.2 if i == 1 else 1.0, seed=i)
        code, once = self.compare("--history", "history")
        self.assertEqual(code, SLOW)
        shutil.copytree(self.folder / "history/day1", self.folder / "history/day1-copy")
        again, comparison = self.compare("--history", "history")
        self.assertEqual((again, comparison["bands"]), (code, once["bands"]))
        self.assertIn("history/day1-copy/report.json is left out: it is a copy of history/day1/report.json", comparison["remarks"])

    def history(self, days, slower_from, factor=1.12, versions=("2.27.7", "2.28.3"), scatter=0.005):
        """One run each day of all_reduce, slower from 64 MiB on and with another NCCL and driver from a certain day
        on."""
        run = self.simulate("run", "--collectives", "all_reduce", "--factor", "64")
        (self.folder / "history").mkdir()
        for i in range(days):
            late = i >= slower_from
            day = self.launch(run, f"history/day{i:02}", count=1, scatter=scatter, seed=i,
                              slower=lambda case: factor if late and case["bytes"] >= 64 << 20 else 1.0)
            report = json.loads((day / "report.json").read_text())
            report["run"]["started"] = f"2026-{10 + i // 28}-{1 + i % 28:02}T06:00:00Z"
            report["context"]["nccl"] = versions[late]
            for host in report["topology"]["hosts"]:
                host["versions"] = {"aws-ofi-nccl": "1.17.1" if late else "1.16.2"}
            (day / "report.json").write_text(json.dumps(report))

    def test_a_history_names_when_the_level_changed_and_what_else_did(self):
        self.history(25, 18)
        _, comparison = self.compare("--history", "history", "--across-hardware")
        trend = comparison["trend"]
        self.assertEqual([trend["rows"][each["row"]] for each in trend["changes"]], ["all_reduce, throughput, bandwidth"])
        change = trend["changes"][0]
        self.assertEqual((change["before"], change["first"], change["runs_before"], change["runs_after"]), (17, 18, 18, 7))
        self.assertAlmostEqual(change["ratio"], 1.12, delta=0.015)
        self.assertLess(change["p_adjusted"], 0.05)
        differing = {(each["name"], each["base"], each["new"]) for each in change["differences"]}
        self.assertEqual(differing, {("nccl", "2.27.7", "2.28.3"), ("aws-ofi-nccl", "1.16.2", "1.17.1")})
        self.assertEqual([i for i, point in enumerate(trend["points"]) if point["differences"]], [18])
        levels = [(each["first"], each["last"]) for each in trend["levels"] if each["row"] == change["row"]]
        self.assertEqual(levels, [(0, 17), (18, 24)])
        self.assertEqual(trend["short_rows"], 0)
        again = self.compare("--history", "history", "--across-hardware")[1]["trend"]
        self.assertEqual(again, trend)
        shown = self.run_it("compare", "--history", "history", "--format", "console,markdown", "--out", "shown").stdout
        self.assertRegex(shown, r"(?m)^  2026-10-19T06:00:00Z +all_reduce, throughput, large +\+1[123]\.\d % +18, 7 .*the newest run: \+1[123]\.\d %$")
        self.assertRegex(shown, r"(?m)^  Changed with run 19: aws-ofi-nccl: 1\.16\.2 -> 1\.17\.1; nccl: 2\.27\.7 -> 2\.28\.3$")
        self.assertLessEqual(max(map(len, shown.splitlines())), 120)
        markdown = (self.folder / "shown/comparison.md").read_text()
        self.assertRegex(markdown, r"(?m)^\| 2026-10-19T06:00:00Z \| all\\_reduce, throughput, large \| \+1[123]\.\d % \| 18, 7 \|")

    def test_a_history_whose_newest_run_is_on_a_slower_level_is_a_regression(self):
        self.history(18, 10, factor=1.11)
        code, comparison = self.compare("--history", "history", "--across-hardware")
        self.assertEqual((code, comparison["answer"]), (SLOW, "regression"))
        self.assertRegex(comparison["headline"], r"^REGRESSION: all_reduce >= 64 MiB \+1[012] % since 2026-10-11")
        row = comparison["bands"][0]
        self.assertAlmostEqual(comparison["trend"]["changes"][row["change"]]["still"], 1.11, delta=0.02)
        newest = self.folder / "history/day17/report.json"
        report = json.loads(newest.read_text())
        report["status"], report["exit_code"], report["run"]["ended_by"] = "partial", 12, "ended by SIGTERM while measuring"
        newest.write_text(json.dumps(report))
        code, comparison = self.compare("--history", "history", "--across-hardware")
        self.assertEqual(code, 12)
        self.assertTrue(comparison["headline"].startswith("NEW DID NOT FINISH (ended by SIGTERM while measuring); REGRESSION: "))

    def test_a_history_in_which_nothing_changed_says_so_and_a_short_one_that_it_cannot_tell(self):
        self.history(25, 25)
        _, comparison = self.compare("--history", "history")
        self.assertEqual((comparison["trend"]["changes"], comparison["trend"]["short_rows"]), ([], 0))
        self.assertIn("Changes of level: none found in 3 rows of 25 runs.",
                      self.run_it("compare", "--history", "history").stdout)
        for i in range(5, 25):
            shutil.rmtree(self.folder / f"history/day{i:02}")
        _, comparison = self.compare("--history", "history")
        self.assertEqual((comparison["trend"]["levels"], comparison["trend"]["short_rows"]), ([], 3))
        self.assertIn("5 runs are too few to tell", self.run_it("compare", "--history", "history").stdout)

    def test_runs_of_one_second_are_ordered_by_their_folders(self):
        run = self.simulate("run")
        (self.folder / "history").mkdir()
        stamps = [f"20261120T000000Z{end}" for end in ("", "-2", "-3", "-4", "-5", "-6", "-7", "-8", "-9", "-10")]
        for i, stamp in enumerate(stamps):
            self.launch(run, f"history/{stamp}", count=1, slower=lambda case: 1.2 if i == 9 else 1.0, seed=i)
        code, comparison = self.compare("--history", "history")
        sources = [point["source"].split("/")[1] for point in comparison["trend"]["points"]]
        self.assertEqual(sources, stamps)
        self.assertEqual(comparison["new"]["sources"], [f"history/{stamps[-1]}/report.json"])

    def test_a_link_to_another_run_than_the_newest_by_its_start_is_told(self):
        run = self.simulate("run", "--collectives", "all_reduce")
        (self.folder / "history").mkdir()
        for i, stamp in enumerate(("20261118T000000Z", "20261119T000000Z", "20200101T000000Z")):
            path = self.launch(run, f"history/{stamp}", count=1, seed=i) / "report.json"
            report = json.loads(path.read_text())
            report["run"]["started"] = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}T00:00:00Z"
            path.write_text(json.dumps(report))
        latest = self.folder / "history" / "latest"
        for target, told in (("20200101T000000Z", 1), ("20261119T000000Z", 0), ("gone", 0)):
            latest.unlink(missing_ok=True)
            latest.symlink_to(target)
            _, comparison = self.compare("--history", "history")
            self.assertEqual(comparison["new"]["sources"], ["history/20261119T000000Z/report.json"])
            remarks = [remark for remark in comparison["remarks"] if "`latest` leads to history/20200101T000000Z" in remark]
            self.assertEqual(len(remarks), told, comparison["remarks"])

    def test_of_a_long_history_the_newest_runs_are_read(self):
        run = self.simulate("run", "--collectives", "all_reduce")
        text = (run / "report.json").read_text()
        for i in range(203):
            day = self.folder / "history" / f"20260101T{i:06d}Z"
            day.mkdir(parents=True)
            (day / "measurements.jsonl").hardlink_to((run / "measurements.jsonl").resolve())
            started = f"2026-01-01T{i // 60:02}:{i % 60:02}:00Z"  # a copy would be left out
            (day / "report.json").write_text(re.sub(r'("started": )"[^"]*"', rf'\1"{started}"', text))
        # The oldest report cannot even be parsed.
        (self.folder / "history/20260101T000000Z/report.json").unlink()
        (self.folder / "history/20260101T000000Z/report.json").write_text("no JSON")
        code, comparison = self.compare("--history", "history")
        self.assertEqual(code, GOOD)
        self.assertEqual(len(comparison["trend"]["points"]), 200)
        self.assertTrue(any("Of 203 runs the newest 200" in remark for remark in comparison["remarks"]))

    def test_a_history_reads_on_where_one_of_the_newest_runs_is_left_out(self):
        run = self.simulate("run", "--collectives", "all_reduce")
        (self.folder / "history").mkdir()
        for i in range(5):
            path = self.launch(run, f"history/2026112{i}T000000Z", count=1, seed=i) / "report.json"
            report = json.loads(path.read_text())
            report["run"]["started"] = f"2026-11-2{i}T00:00:00Z"
            if i == 3:
                report["topology"]["platform"] = "p5en.48xlarge"
            path.write_text(json.dumps(report))
        # More than is read of a history beyond two runs; the last line is like one that was cut off.
        os.truncate(self.folder / "history/20261124T000000Z/measurements.jsonl", 257 << 20)
        code, comparison = self.compare("--history", "history")
        self.assertNotEqual(code, USAGE, comparison)
        self.assertEqual([point["started"][:10] for point in comparison["trend"]["points"]], ["2026-11-22", "2026-11-24"])
        self.assertTrue(any("Of 5 runs the newest 3" in remark for remark in comparison["remarks"]), comparison["remarks"])

    def test_a_report_has_a_line_for_each_measurement_host_limit_and_gpu(self):
        lines = (self.simulate("run") / "report.json").read_text().splitlines()
        report = json.loads("\n".join(lines))
        parts = sum(map(len, (report["measurements"], report["topology"]["hosts"], report["limits"], report["local_checks"],
                              report["compute_checks"])))
        self.assertEqual(report["run"]["nodes"], 4)
        self.assertTrue(parts < len(lines) < parts + 100, len(lines))

    def test_imports_of_equal_bandwidth_and_rounded_times_are_no_regression(self):
        for name, time in (("a", "1.6e+07"), ("b", "1.7e+07")):
            (self.folder / f"{name}.txt").write_text(
                "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 iters: 20 agg iters: 1\n"
                + "".join(f"#  Rank  {i} Group  0 Pid   410{i} on  host-a device  {i} [0000:{i}0:00] NVIDIA H100\n" for i in range(4))
                + "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
                + f"17179869184 4294967296 float sum -1 {time} 1.04 1.56 0 {time} 1.04 1.56 0\n"
                + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.56\n")
            self.assertEqual(self.run_it("import", "nccl-tests", f"{name}.txt", "--out", "out").returncode, GOOD)
        code, comparison = self.compare("out/imported/a", "out/imported/b")
        self.assertEqual((code, comparison["answer"]), (GOOD, "no regression"))
        series = read_report(self.folder / "out/imported/a/report.json")["measurements"][0]["throughput"]
        self.assertAlmostEqual(series["median_us"], 17179869184 * 1.5 / 1.56e3, delta=1)
        self.assertAlmostEqual(series["rounding_us"], series["median_us"] * 0.005 / 1.56, delta=1)

    def test_a_history_of_imports_that_do_not_say_when_they_were_started_is_refused(self):
        for name, time in (("before", 100), ("after", 130)):
            (self.folder / f"{name}.log").write_text("".join(
                "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 iters: 20 agg iters: 1\n"
                + "".join(f"#  Rank  {i} Group  0 Pid   {program}{i} on  host-a device  {i} [0000:{i}0:00] NVIDIA H100\n" for i in range(4))
                + "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
                + "16777216 4194304 float sum -1 {0:.2f} {1:.2f} {2:.2f} 0 {0:.2f} {1:.2f} {2:.2f} 0\n".format(
                    time + program / 100, 16777.216 / (time + program / 100), 1.5 * 16777.216 / (time + program / 100))
                + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1\n" for program in range(7)))
            self.assertEqual(self.run_it("import", "nccl-tests", f"{name}.log", "--out", "undated").returncode, GOOD)
        code, problem = self.compare("--history", "undated/imported")
        self.assertEqual(code, USAGE)
        self.assertRegex(problem, r"does not say when it was started, .* --base and --new, .*--started TIME")
        for name, day in (("before", 20), ("after", 21)):
            done = self.run_it("import", "nccl-tests", f"{name}.log", "--out", "dated", "--started", f"2026-11-{day}T00:00:00Z")
            self.assertEqual(done.returncode, GOOD, done.stderr)
        code, comparison = self.compare("--history", "dated/imported")
        self.assertEqual((code, comparison["answer"]), (SLOW, "regression"))
        self.assertEqual(comparison["new"]["sources"], ["dated/imported/after/report.json"])
        self.assertEqual([each for each in comparison["differences"] if each["name"] == "nccl-tests.started"], [])
        self.assertEqual(self.run_it("import", "nccl-tests", "after.log", "--out", "dated", "--started", "2026-11-21T05:00:00Z").returncode, GOOD)
        self.assertEqual(self.compare("--history", "dated/imported")[0], SLOW, "the log that is imported again is the same run")
        self.assertEqual(self.run_it("import", "nccl-tests", "before.log", "--out", "dated", "--cluster", "undated").returncode, GOOD)
        code, comparison = self.compare("--history", "dated")
        self.assertEqual((code, comparison["answer"]), (SLOW, "regression"))
        self.assertTrue(any("is left out: it does not say when it was started" in remark for remark in comparison["remarks"]))
        self.assertEqual(self.run_it("import", "nccl-tests", "after.log", "--started", "today").returncode, USAGE)

    def test_imports_of_simulated_tables_say_so_and_compare_across_backends_only(self):
        run = self.simulate("run", "--collectives", "all_reduce", "--tuning", "off")
        (self.folder / "table.txt").write_text(self.run_it("report", str(run), "--as", "nccl-tests").stdout)
        self.assertEqual(self.run_it("import", "nccl-tests", "table.txt", "--out", "out").returncode, GOOD)
        remarks = read_report(self.folder / "out/imported/table/report.json")["run"]["remarks"]
        self.assertEqual(remarks, ["SIMULATED: the figures are of p5bench's simulator", "a table of p5bench's: times are the slowest rank's"])
        code, problem = self.compare(str(run), "out/imported/table")
        self.assertEqual(code, USAGE)
        self.assertRegex(problem, "no case in common: .* in other backends.*: give --across-hardware")
        code, comparison = self.compare(str(run), "out/imported/table", "--across-hardware")
        self.assertEqual((code, comparison["answer"]), (GOOD, "no regression"))
        self.assertIn("out/imported/table: SIMULATED: the figures are of p5bench's simulator", comparison["remarks"])
        # As if nccl-tests had printed it.
        path = self.folder / "out/imported/table/report.json"
        path.write_text(path.read_text().replace("a table of p5bench's: times are the slowest rank's",
                                                 "times are nccl-tests' means over ranks unless it ran with -a 3, not the slowest rank's"))
        _, comparison = self.compare(str(run), "out/imported/table", "--across-hardware")
        self.assertTrue([each for each in comparison["remarks"] if each.startswith("NEW has imports, whose times are nccl-tests' means")], comparison)
        _, comparison = self.compare("out/imported/table", "out/imported/table")
        self.assertFalse([each for each in comparison["remarks"] if "has imports" in each], comparison)

    def test_what_nccl_tests_left_is_read_from_stdin(self):
        log = SOURCE / "tests/fixtures/nccl-tests/2.19.6-reduce_scatter-alltoall-broadcast.txt"
        with open(log) as given:
            done = subprocess.run([PROGRAM, "import", "nccl-tests", "-", "--out", "out"], cwd=self.folder, env=self.environment(), stdin=given,
                                  text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, GOOD, done.stderr)
        self.assertEqual(self.run_it("import", "nccl-tests", log, "--out", "out").returncode, GOOD)
        told, wanted = (read_report(self.folder / "out/imported" / name / "report.json") for name in ("stdin", log.stem))
        self.assertEqual(told["measurements"], wanted["measurements"])
        done = self.run_it("import", "nccl-tests", "-", "--out", "out")
        self.assertIn("'stdin': ", done.stderr)

    def test_what_nccl_tests_left_becomes_a_report_that_can_be_compared(self):
        log = SOURCE / "tests/fixtures/nccl-tests/2.19.6-reduce_scatter-alltoall-broadcast.txt"
        done = self.run_it("import", "nccl-tests", log, "--out", "out")
        self.assertEqual(done.returncode, GOOD, done.stderr)
        folder = self.folder / "out/imported" / log.stem
        report = read_report(folder / "report.json")
        self.assertEqual(report["provenance"], "imported")
        self.assertEqual(self.compare(folder, folder)[1]["provenance"], "imported")
        again = self.run_it("import", "nccl-tests", log, "--out", "out")
        self.assertEqual(again.returncode, GOOD, again.stderr)
        self.assertEqual(read_report(self.folder / "out/imported" / f"{log.stem}-2" / "report.json")["measurements"],
                         report["measurements"])
        (self.folder / "...txt").write_text(log.read_text())
        odd = self.run_it("import", "nccl-tests", "...txt", "--out", "odd")
        self.assertEqual(odd.returncode, GOOD, odd.stderr)
        self.assertTrue((self.folder / "odd/imported/log/report.json").exists())
        whole = log.read_text()
        cut = whole[:whole.index("Out of bounds") - 1000]
        (self.folder / "cut.txt").write_text(cut)
        done = self.run_it("import", "nccl-tests", "cut.txt", "--out", "cut")
        self.assertEqual(done.returncode, UNFINISHED, done.stderr)
        self.assertIn("no '# Avg bus bandwidth'", done.stdout)
        self.assertEqual(read_report(self.folder / "cut/imported/cut/report.json")["status"], "partial")
        (self.folder / "head.txt").write_text(whole[:whole.index("Using devices")])
        before = self.listing()
        for arguments, words in [(["nccl-tests", "head.txt"], ["'head.txt'", "nothing"]),
                                 (["nccl-tests", log, "--ranks", "8", "--hosts", "1"], ["4 ranks on 1 hosts"]),
                                 (["nccl-tests", log, "--ranks", "8"], ["--ranks", "--hosts"]),
                                 (["nccl-tests", log, "--ranks", "2", "--hosts", "3"], ["--ranks 2", "--hosts 3"]),
                                 (["nccl-tests", "missing"], ["'missing'"]),
                                 (["ncl-tests", log], ["'ncl-tests'", "'nccl-tests'"]),
                                 (["nccl-tests", log, "--collective", "allreduce"], ["'all_reduce'"])]:
            done = self.run_it("import", *arguments, "--out", "new")
            self.assertEqual(done.returncode, USAGE, arguments)
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertEqual(self.listing(), before)

    def test_tables_without_ranks_and_with_wrong_data(self):
        table = ("# nThread 1 nGpus 1 minBytes 4096 maxBytes 4096 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1\n"
                 "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
                 "4096 1024 float none -1 10.00 0.41 0.41 5 11.00 0.37 0.37 0\n# Avg bus bandwidth    : 0.4\n")
        (self.folder / "table.txt").write_text(table)
        arguments = ["import", "nccl-tests", "table.txt", "--collective", "sendrecv_perf"]
        done = self.run_it(*arguments)
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("--hosts", done.stderr)
        done = self.run_it(*arguments, "--ranks", "4", "--hosts", "2", "--out", "out")
        self.assertEqual(done.returncode, WRONG, done.stderr)
        self.assertIn("send_recv out of place has wrong elements at 1 size: 5 of 4 KiB", done.stdout)
        case = read_report(self.folder / "out/imported/table/report.json")["measurements"][0]["case"]
        self.assertEqual((case["collective"], case["ranks"], case["nodes"]), ("send_recv", 4, 2))


if __name__ == "__main__":
    main()
