"""A run in each format that other programs read: all of it is there, and no name is taken for markup."""

import csv
import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, SOURCE, main, read_report, validator  # noqa: E402
sys.path.insert(0, str(SOURCE / "tests/fixtures/reports"))
import make_examples  # noqa: E402

SIM = ["--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4", "--seed", "1", "--tuning=off", "--quiet"]
HOSTILE = '=1+1,"<b>x</b>|`y`\\ & \N{RIGHT-TO-LEFT OVERRIDE}\x1b]0;owned\x07\x7f\x9b31m'
# Texts that a format could interpret as markup, or a terminal as a command.
ANYTHING = ["a\ufffeb\uffff\U0001fffe", "C1 \x9b31m DEL \x7f", "\x1b]0;owned\x07", "bidi \u202e\u2066x\u2069", " =1+1", "\t@SUM(1)",
            "\u3000+1", "<img src=x onerror=alert(1)>", "[x](https://evil.example) www.evil.example", "&lt;b&gt; &#x202e;",
            "a`b`|c\\", 'q"uote\'s', "line\nend\r\n", "{{7*7}} $x$ %s ${HOME}"]


class Formats(Folder):
    def rendered(self, suffix, findings=(), **changes):
        """The run's file, written from the report with these members of `run`."""
        self.run_it(*SIM, "--sizes", "8,256MiB,4GiB", "--fault", "nic:n1r5:0.5", "--out", "out")
        path = self.folder / "out" / "latest" / "report.json"
        self.report = read_report(path)
        self.report["run"] |= changes
        self.report["findings"] += findings
        path.write_text(json.dumps(self.report))
        name = {".csv": "csv", ".prom": "prometheus", ".xml": "junit", ".md": "markdown"}[suffix]
        done = self.run_it("report", path, "--format", name, "--out", "rendered")
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / "rendered" / f"report{suffix}"

    def test_what_failed_and_what_is_wrong_stands_in_all_formats(self):
        for fault, grade in (("node:n2:0", "failed"), ("gpu:n1g3:0.7:lies", "wrong")):
            with self.subTest(fault=fault):
                self.run_it(*SIM, "--sizes", "8,256MiB", "--collectives", "p2p,all_reduce", "--fault", fault, "--format", "json,gbench,markdown,junit,nccl-tests",
                            "--out", grade)
                run = self.folder / grade / "latest"
                report = read_report(run / "report.json")
                broken = sum(m["verdict"]["grade"] == grade for m in report["measurements"])
                self.assertGreater(broken, 5)
                written = json.loads((run / "report.gbench.json").read_text())
                self.assertEqual([error.message for error in validator("gbench").iter_errors(written)], [])
                self.assertEqual(written["context"]["p5bench_decision"], report["decision"]["sentence"])
                errors = [row for row in written["benchmarks"] if row.get("error_occurred")]
                self.assertEqual((len(errors), [row for row in errors if "real_time" in row]), (broken, []))
                markdown = (run / "report.md").read_text()
                self.assertIn(f"{broken} of {len(report['measurements'])} measurements failed or have wrong data:\n\n- {grade} ", markdown)
                self.assertIn(f"- and {broken - 5} more\n", markdown)
                self.assertEqual(xml.etree.ElementTree.parse(run / "report.xml").getroot()[0].get("errors"), str(broken))
                if grade == "failed":
                    table, = run.glob("*nccl-tests*")
                    self.assertRegex(table.read_text(), r"(?m)^# all_reduce: \d+ measurements failed and have no row$")

    def test_questions_and_warnings_about_parts_stand_in_junit_with_their_steps(self):
        for arguments, group, name, kind in ((["--nodes", "2", "--fault", "link:n0-n1:0.5"], "open question", "link n0-n1", "failure"),
                                             (["--fault", "gpu:n1g3:0.7:compute"], "finding", "gpu.slow_alone n1", "skipped")):
            self.run_it(*SIM, *arguments, "--format", "json,junit,markdown", "--out", kind)
            run = self.folder / kind / "latest"
            report = read_report(run / "report.json")
            told = (report["open_questions"] or [each for each in report["findings"] if each["id"] == "gpu.slow_alone"])[0]
            case = [case for case in xml.etree.ElementTree.parse(run / "report.xml").getroot().iter("testcase") if case.get("classname") == group][0]
            self.assertIn(name, case.get("name"))
            self.assertEqual((case[0].tag, case[0].get("message")), (kind, f"{told['evidence']}. {told.get('next') or told['action']}"))
            self.assertIn(told["evidence"].split(":")[0], (run / "report.md").read_text().replace("\\", ""))

    def test_a_plan_that_does_not_fit_its_budget_says_what_it_takes(self):
        for budget, fits in (("5s", False), ("1h", True)):
            text = self.run_it("plan", *SIM[:-1], "--budget", budget).stdout
            plan = json.loads(self.run_it("plan", *SIM[:-1], "--budget", budget, "--format", "json").stdout)
            for told in (text, " ".join(plan["remarks"])):
                (self.assertNotRegex if fits else self.assertRegex)(told, r"All of it takes about \d+ (min|s).*longer --budget")

    def test_a_plan_in_json_has_the_figures_of_its_text(self):
        for more in ([], ["--launches", "3"], ["--soak", "2h"], ["--collectives", "all_reduce", "--group", "rail"]):
            arguments = ["plan", *SIM[:-1], "--budget", "20min", *more]
            text, printed = self.run_it(*arguments), self.run_it(*arguments, "--format", "json")
            self.assertEqual((text.returncode, printed.returncode), (0, 0), printed.stderr)
            plan = json.loads(printed.stdout)
            self.assertEqual([error.message for error in validator("plan").iter_errors(plan)], [])
            self.assertEqual((plan["ranks"], plan["nodes"], plan["platform"], plan["backend"]), (32, 4, "p5.48xlarge", "sim"))
            self.assertEqual(plan["cases"], sum(each["cases"] for each in plan["operations"]))
            self.assertIn(f"\n{plan['cases']} cases, buffers of {plan['memory_per_rank'] / 2**30:.3f} GiB per rank", text.stdout)
            for each in plan["operations"]:
                self.assertRegex(text.stdout, rf"(?m)^{re.escape(each['operation'])} +{each['cases']} cases ")
            launch_s = sum(each["predicted_s"] for each in plan["operations"]) + plan["communicators"]["predicted_s"] + plan["fixed_s"]
            expected_s = launch_s * plan["launches"] + plan["gpus_alone_s"] + plan["tuning_s"]
            self.assertAlmostEqual(plan["predicted_s"], plan["time_s"] if plan["soaks"] else min(expected_s, plan["time_s"]), places=6)
            self.assertIn(f"{plan['dollars']['predicted']:.2f} dollars for that, {plan['dollars']['time']:.2f} for the whole", text.stdout)
            self.assertEqual((plan["soaks"], plan["time_s"]), ("--soak" in more, 7200 if "--soak" in more else 1200))

    def test_a_plan_knows_what_eight_gpus_of_a_host_take_besides_the_cases(self):
        """On 8 x H200 CUDA and NCCL took 8 s to start, the GPUs alone 4.2 s, their copies 2.1 s and their load 3.4 s."""
        eight = ["plan", "--backend", "sim", "--platform", "hgx-h200", "--format", "json"]
        plan, untuned = (json.loads(self.run_it(*eight, *more).stdout) for more in ([], ["--tuning", "off"]))
        self.assertGreater(plan["fixed_s"], 8)
        self.assertGreater(plan["gpus_alone_s"], 4.2 + 2.1 + 3.4)
        self.assertGreater(plan["communicators"]["predicted_s"], 0.5 * plan["communicators"]["count"])
        # Five times the workers of a tuning join, one set after the other.
        self.assertGreater(plan["tuning_s"], 5 * 8)
        self.assertEqual(untuned["tuning_s"], 0)
        self.assertEqual([told for told in (plan, untuned) if "Tuning takes this long with --backend nccl" in " ".join(told["remarks"])], [plan])
        full = json.loads(self.run_it(*eight, "--tuning", "full").stdout)
        self.assertGreater(full["tuning_s"], plan["tuning_s"])
        self.assertLess(plan["predicted_s"], plan["time_s"] / 4, "the budget is not what ends such a run")
        host_memory = json.loads(self.run_it("plan", "--backend", "mpi", "--format", "json").stdout)
        self.assertEqual((host_memory["fixed_s"], host_memory["gpus_alone_s"], host_memory["tuning_s"]), (0, 0, 0))

    def test_csv_has_a_row_for_each_measurement(self):
        with open(self.rendered(".csv", cluster=HOSTILE), newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
        self.assertEqual(len(rows), len(self.report["measurements"]))
        self.assertNotIn(None, [key for row in rows for key in row])
        of_csv = sorted((row["collective"], row["pattern"], row["group"], int(row["bytes"]), row["nic"], row["grade"],
                         round(float(row["time_us"]), 1)) for row in rows)
        of_json = sorted((m["case"]["collective"], m["case"]["pattern"] or "", m["case"]["group"], m["case"]["bytes"],
                          str(m["case"].get("nic", "")), m["verdict"]["grade"], round(m["throughput"]["median_us"], 1))
                         for m in self.report["measurements"])
        self.assertEqual([each[:-1] for each in of_csv], [each[:-1] for each in of_json])
        for mine, wanted in zip(of_csv, of_json):
            self.assertAlmostEqual(mine[-1] / wanted[-1], 1, delta=0.001)
        self.assertEqual({row["cluster"][:5] for row in rows}, {"'=1+1"}, "no formula")
        self.assertNotIn("\N{RIGHT-TO-LEFT OVERRIDE}", rows[0]["cluster"])

    def test_prometheus_metrics_keep_to_the_format(self):
        path = self.rendered(".prom", cluster=HOSTILE)
        described, seen, last = set(), set(), None
        for line in path.read_text().splitlines():
            comment = re.fullmatch(r"# (HELP|TYPE) (p5bench_[a-z_]+) (.+)", line)
            if comment:
                if comment[1] == "HELP":
                    self.assertNotIn(comment[2], described, "all of a name stands together")
                    described.add(comment[2])
                    last = comment[2]
                else:
                    self.assertEqual((comment[2], comment[3]), (last, "gauge"))
                continue
            sample = re.fullmatch(r"(p5bench_[a-z_]+)\{((?:[a-z_]+=\"(?:[^\"\\\n]|\\[\"\\n])*\",?)*)\} (\S+)", line)
            self.assertTrue(sample, line)
            self.assertEqual(sample[1], last)
            self.assertNotIn((sample[1], sample[2]), seen, "twice the same")
            seen.add((sample[1], sample[2]))
            self.assertGreaterEqual(float(sample[3]), 0)
        measured = [m for m in self.report["measurements"] if m["outcome"] == "measured"]
        self.assertEqual(sum(name == "p5bench_time_seconds" for name, _ in seen), len(measured))
        text = path.read_text()
        self.assertRegex(text, r'(?m)^p5bench_suspect_confidence_ratio\{.*kind="nic",name="n1r5",host="n1".*\} (0\.99\d*|1)$')
        self.assertRegex(text, r"(?m)^p5bench_exit_code\{.*\} 10$")
        self.assertRegex(text, r'(?m)^p5bench_decision\{.*word="REJECT",parts="n1",sentence="REJECT n1: nic n1r5 is slow, SIMULATED"\} 1$')
        self.assertEqual(len(re.findall(r"(?m)^p5bench_decision\{.*\} 0$", text)), 2)
        self.assertIn('cluster="=1+1,\\"<b>', text)

    def metrics(self):
        """The labels of each metric in the file of a run that has everything, with the values of each label."""
        found = {}
        for line in self.rendered(".prom", findings=make_examples.simulated()["findings"], cluster="lab").read_text().splitlines():
            if line.startswith("#"):
                continue
            name, labels = re.match(r"(\w+)\{(.*)\} ", line).groups()
            for label, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels):
                found.setdefault(name, {}).setdefault(label, set()).add(value)
        return found

    def test_the_dashboard_asks_for_what_is_written(self):
        metrics, board = self.metrics(), json.loads((SOURCE / "reports/grafana/p5bench.json").read_text())
        asked = [(panel["title"], target["expr"], target["legendFormat"])
                 for panel in board["panels"] for target in panel["targets"]]
        asked += [(each["name"], each["query"]["query"], "") for each in board["templating"]["list"]
                  if each["type"] == "query"]
        variables = {each["name"] for each in board["templating"]["list"]}
        used = set()
        for title, query, legend in asked:
            with self.subTest(title):
                names = re.findall(r"\bp5bench_\w+", query)
                self.assertTrue(names)
                used.update(names)
                for name in names:
                    self.assertIn(name, metrics)
                labels = [label for inside in re.findall(r"\{([^{}]*)\}", query)
                          for label in re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', inside)]
                for inside in re.findall(r"\b(?:by|without|on)\s*\(([^()]*)\)", query):
                    labels += [label.strip() for label in inside.split(",")]
                labels += re.findall(r"label_values\(.*, (\w+)\)$", query) + re.findall(r"\{\{(\w+)\}\}", legend)
                self.assertTrue(labels)
                for label in labels:
                    self.assertIn(label, metrics[names[0]])
                # A legend has the labels that remain after summing up.
                for inside in re.findall(r"\bby\s*\(([^()]*)\)", query):
                    left = {label.strip() for label in inside.split(",")}
                    self.assertLessEqual(set(re.findall(r"\{\{(\w+)\}\}", legend)), left)
                self.assertLessEqual(set(re.findall(r"\$(\w+)", query)), variables)
        self.assertIn("warning", metrics["p5bench_findings"]["severity"])
        wanted = {"exit_code", "limit_ratio", "bus_bandwidth_bytes_per_second", "suspect_confidence_ratio", "findings"}
        self.assertLessEqual({f"p5bench_{name}" for name in wanted}, used)

    def test_the_dashboard_has_what_grafana_takes(self):
        board = json.loads((SOURCE / "reports/grafana/p5bench.json").read_text())
        self.assertTrue(board["title"] and board["uid"])
        self.assertGreaterEqual(board["schemaVersion"], 36)
        kinds = {each["name"]: each["type"] for each in board["templating"]["list"]}
        self.assertEqual((kinds["datasource"], kinds["cluster"]), ("datasource", "query"))
        self.assertNotIn("id", board, "Grafana gives one when it is imported")
        ids, taken = set(), set()
        for panel in board["panels"]:
            self.assertNotIn(panel["id"], ids)
            ids.add(panel["id"])
            self.assertTrue(panel["title"] and panel["type"] and panel["targets"] and panel["description"])
            self.assertEqual(panel["datasource"], {"type": "prometheus", "uid": "${datasource}"})
            place = panel["gridPos"]
            self.assertTrue(place["x"] >= 0 and place["w"] > 0 and place["x"] + place["w"] <= 24 and place["h"] > 0, place)
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, f"{panel['title']} lies on another")
            taken |= cells
            references = [target["refId"] for target in panel["targets"]]
            self.assertEqual(len(references), len(set(references)))
        codes = next(panel for panel in board["panels"] if panel["title"] == "Verdict")["fieldConfig"]["defaults"]["mappings"]
        self.assertEqual(set(codes[0]["options"]), {"0", "10", "11", "12", "13", "14"})

    @unittest.skipUnless(shutil.which("promtool"), "needs promtool")
    def test_promtool_has_nothing_to_say_of_them(self):
        done = subprocess.run(["promtool", "check", "metrics"], input=self.rendered(".prom", cluster=HOSTILE).read_text(),
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_others_who_read_nccl_tests_read_it_as_nccl_tests(self):
        """SuperBench's parser: after the line of 'out-of-place' a row for each size, whose values are counted from the
        end."""
        self.run_it(*SIM, "--collectives", "all_reduce,all_gather,reduce_scatter", "--sizes", "8,1MiB,256MiB", "--group", "world",
                    "--out", "out")
        path = self.folder / "out" / "latest"
        lines = self.run_it("report", path, "--as", "nccl-tests").stdout.splitlines()
        found = []
        for heads in [i for i, line in enumerate(lines) if "out-of-place" in line and "in-place" in line]:
            names = lines[heads + 1].lstrip("# ").split()
            self.assertEqual(names, ["size", "count", "type", "redop", "root"] + 2 * ["time", "algbw", "busbw", "#wrong"])
            values = [row.split() for row in itertools.takewhile(lambda line: not line.startswith("#"), lines[heads + 3:])]
            after = lines[heads + 3 + len(values):]
            self.assertEqual(after[0], "# Out of bounds values : 0 OK")
            self.assertEqual({len(row) for row in values}, {len(names)})
            average = float(after[1].removeprefix("# Avg bus bandwidth    : "))
            self.assertAlmostEqual(sum(float(row[-6]) for row in values) / len(values) / average, 1, delta=0.001)
            program = re.findall(r"(\w+)_perf ", "\n".join(lines[:heads]))[-1]
            found += [(program, int(row[0]), int(row[1]), float(row[-8]), float(row[-7]), float(row[-6]), int(row[-5]))
                      for row in values]
        wanted = [(m["case"]["collective"], m["case"]["bytes"], m["throughput"]) for m in read_report(path / "report.json")["measurements"]
                  if m["case"]["group"] == "world"]
        self.assertEqual(sorted((name, size) for name, size, *_ in found), sorted((name, size) for name, size, _ in wanted))
        for name, size, of_json in wanted:
            (row,) = [row for row in found if row[:2] == (name, size)]
            count, time, algbw, busbw, wrong = row[2:]
            self.assertEqual((count, wrong), (size // 4 if name == "all_reduce" else size // 4 // 32, 0))
            self.assertAlmostEqual(time, of_json["median_us"], delta=0.006)
            self.assertAlmostEqual(algbw, of_json["algbw_gb_per_s"], delta=0.006)
            self.assertAlmostEqual(busbw, of_json["busbw_gb_per_s"], delta=0.006)

    def test_nothing_that_a_terminal_obeys_is_in_what_is_printed(self):
        for suffix in (".prom", ".md", ".csv"):
            text = self.rendered(suffix, cluster=HOSTILE).read_text()
            self.assertFalse(set(re.sub(r"\r?\n", "", text)) & {chr(code) for code in (*range(32), 127, *range(128, 160), 0x202e)}, suffix)
            self.assertIn("owned", text)

    def test_a_group_that_is_measured_beside_the_plan_too_is_another_series(self):
        """The rails of a run with --group rail: its own, and those from the search for the slow part."""
        self.run_it(*SIM, "--sizes", "256MiB", "--group", "rail", "--collectives", "p2p,all_reduce", "--out", "out")
        path = self.folder / "out/latest"
        cases = [m["case"] for m in read_report(path / "report.json")["measurements"] if m["case"]["collective"] == "all_reduce"]
        self.assertEqual(sorted((case["group"], bool(case.get("for_parts"))) for case in cases),
                         [("node_half", True), ("rail", False), ("rail", True)])
        series = [line.rsplit(" ", 1)[0] for line in self.run_it("report", path, "--as", "prometheus").stdout.splitlines()
                  if not line.startswith("#")]
        self.assertEqual(sum(each.startswith("p5bench_time_seconds{") and 'group="rail"' in each for each in series), 2)
        self.assertEqual(len(series), len(set(series)))
        rows = list(csv.DictReader(self.run_it("report", path, "--as", "csv").stdout.splitlines()))
        keys = [tuple(row[name] for name in ("collective", "pattern", "pair", "nic", "group", "for_parts", "bytes")) for row in rows]
        self.assertEqual(len(keys), len(set(keys)))

    def hostile_report(self):
        """A report in which each free text is hostile, and the list of these texts."""
        self.run_it(*SIM, "--sizes", "8,256MiB", "--fault", "nic:n1r5:0.5", "--out", "out")
        report = read_report(self.folder / "out/latest/report.json")
        report["findings"] += make_examples.simulated()["findings"]
        report["measurements"] = report["measurements"][:6]
        report["suspects"] = report["suspects"][:2]
        path = self.folder / "report.json"

        def leaves(value, way=()):
            for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
                if isinstance(each, str) and key != "schema":
                    yield value, (*way, key), each
                elif way != ("topology", "hosts") or key == 1:  # a suspected one
                    yield from leaves(each, (*way, key))

        all_of_it, words = list(leaves(report)), itertools.cycle(ANYTHING)
        for at, way, _ in all_of_it:
            at[way[-1]] = next(words)
        # Enumerated values are restored, wherever their name is.
        for _ in range(60):
            path.write_text(json.dumps(report))
            refused = re.search(r"report\.json': (/\S+)", self.run_it("report", path, "--as", "csv").stderr)
            if not refused:
                break
            name = refused[1].rsplit("/", 1)[-1]
            for at, way, before in all_of_it:
                if str(way[-1]) == name or "/" + "/".join(map(str, way)) == refused[1]:
                    at[way[-1]] = before
        return path, sum(at[way[-1]] != before for at, way, before in all_of_it)

    def test_no_text_is_anything_but_text_in_any_format(self):
        path, count = self.hostile_report()
        self.assertGreater(count, 3 * len(ANYTHING), "each of them stands in several fields")
        for name in ("console", "csv", "junit", "markdown", "prometheus", "nccl-tests"):
            with self.subTest(name):
                done = self.run_it("report", path, *([] if name == "console" else ["--as", name]))
                self.assertEqual(done.returncode, 0, done.stderr)
                text = done.stdout
                obeyed = [c for c in text if c not in "\r\n" and (ord(c) < 32 or 0x7f <= ord(c) < 0xa0 or ord(c) in
                          (0x61c, 0x200e, 0x200f, *range(0x202a, 0x202f), *range(0x2066, 0x206a)) or ord(c) & 0xfffe == 0xfffe)]
                self.assertEqual(obeyed, [])
                if name == "junit":
                    xml.etree.ElementTree.fromstring(text)
                if name == "csv":
                    for row in csv.reader(text.splitlines(), strict=True):
                        for cell in row:
                            self.assertFalse(re.match(r"\s*[=+@]|\s*-(?![\d.]+$)", cell), cell)
                if name == "prometheus":
                    series = [line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")]
                    self.assertEqual(len(series), len(set(series)))
                if name == "markdown":
                    text = re.sub(r"(?ms)^```$.*?^```$", "", text)  # where all of it is text
                    self.assertNotIn("```", text)
                    self.assertNotRegex(text, r"(?<!\\)(\[|<img|<b>|&lt;)|[a-z]://|www\.", "a link, an image or an entity")

    def test_junit_fails_for_what_is_slow_and_skips_what_was_not_judged(self):
        suite = xml.etree.ElementTree.parse(self.rendered(".xml", cluster=HOSTILE)).getroot()[0]
        self.assertIn("<b>x</b>", suite.get("name"))
        grades = [m["verdict"]["grade"] for m in self.report["measurements"]]
        self.assertEqual(len(suite.findall("testcase")), len(grades) + 2, "the decision and the suspect")
        self.assertEqual(int(suite.get("failures")), len(suite.findall("testcase/failure")))
        self.assertEqual(int(suite.get("failures")), grades.count("slow") + 2)
        self.assertEqual(int(suite.get("skipped")), grades.count("unknown"))
        self.assertEqual(suite.find("testcase[@classname='suspect']").get("name"), "nic n1r5")
        decision = suite.find("testcase[@classname='decision']/failure")
        self.assertEqual(decision.get("message"), self.report["decision"]["sentence"])

    def test_markdown_says_the_verdict_and_each_operation_once(self):
        text = self.rendered(".md", cluster=HOSTILE).read_text()
        self.assertRegex(text, r"\A## REJECT n1: nic n1r5 is slow, SIMULATED\n")
        operations = {(m["case"]["collective"], m["case"]["pattern"], m["case"]["pair"], m["case"].get("nic"), m["case"]["group"])
                      for m in self.report["measurements"]}
        self.assertEqual(len(re.findall(r"(?m)^\| (?!operation)\w", text)), len(operations))
        self.assertIn(r"\<b\>x\</b\>\|\`y\`", text)

    def test_the_commands_of_the_readme_for_other_programs_print_the_report(self):
        self.rendered(".md")
        commands = re.findall(r"`p5bench (report \S+ [^`]*)`", (SOURCE / "README.md").read_text().partition("## Integration")[2])
        self.assertEqual({command.split()[-1] for command in commands}, {"markdown", "prometheus"})
        for command in commands:
            words = [str(self.folder / "out/latest") if word in ("RUN", "ci/latest") else word for word in command.split()]
            self.assertIn("REJECT n1" if words[-1] == "markdown" else "p5bench_exit_code", self.run_it(*words).stdout, command)


if __name__ == "__main__":
    main()
