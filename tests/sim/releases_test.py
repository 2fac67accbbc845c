"""This program reads the files of earlier releases with the same verdicts and figures, and none of their names has
changed. Each kind of JSON that this program writes has a schema."""

import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import job_traces  # noqa: E402
from program import Folder, PROGRAM, SOURCE, main, read_report, read_schema, refuse_constant, validator  # noqa: E402
sys.path.insert(0, str(SOURCE / "tests/fixtures/reports/releases"))
import make  # noqa: E402

RELEASES = sorted(path.parent for path in make.HERE.glob("*/expected.json"))
REPORTS = ("healthy", "slow", "baseline")
GOOD, SLOW = 0, 10
LARGEST_FIXTURE = 100_000


def kinds(value, place=""):
    """The places of a value and their contents; items of a list share one place. Keys that are data are no places."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield f"{place}/{name}", type(member).__name__
            if name not in ("context", "settings", "versions", "placement", "hwloc_xml"):
                yield from kinds(member, f"{place}/{name}")
    elif isinstance(value, list):
        for item in value:
            yield from kinds(item, f"{place}/-")


def loosely(found):
    """Place to kinds; integers are numbers."""
    places = {}
    for place, kind in found:
        places.setdefault(place, set()).add("float" if kind == "int" else kind)
    return places


class Releases(Folder):
    def each(self):
        self.assertGreater(len(RELEASES), 0)
        for folder in RELEASES:
            yield folder, json.loads((folder / "expected.json").read_text())

    def good(self, *arguments, code=GOOD):
        done = self.run_it(*arguments)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stderr}")
        return done.stdout

    def assert_nothing_lost(self, old, new):
        """Every place of the old file is in the new one, with the same kind of value; null matches any kind."""
        was, now = loosely(kinds(old)), loosely(kinds(new))
        self.assertEqual(sorted(set(was) - set(now)), [])
        for place, what in was.items():
            if "NoneType" not in what | now[place]:
                self.assertLessEqual(what, now[place], place)

    def test_fixtures_say_which_release_wrote_them_and_are_small(self):
        for folder, _ in self.each():
            for name in REPORTS:
                report = json.loads((folder / name / "report.json").read_text())
                self.assertEqual((report["schema"], report["run"]["version"]), ("p5bench.report/1", folder.name))
            self.assertEqual(json.loads((folder / "comparison.json").read_text())["version"], folder.name)
            self.assertEqual(json.loads((folder / "recording.json").read_text())["version"], folder.name)
            for file in folder.rglob("*"):
                self.assertLess(file.stat().st_size, LARGEST_FIXTURE, file)

    def test_reports_give_the_verdict_and_figures_they_gave_then(self):
        for folder, expected in self.each():
            for name in REPORTS:
                out = self.folder / folder.name / name
                self.good("report", folder / name, "--format", "json", "--out", out)
                written = read_report(out / "report.json")
                found = make.key_figures(written)
                figures, wanted = found.pop("all_reduce_4GiB"), expected[name].pop("all_reduce_4GiB")
                self.assertEqual(found, expected[name])
                for key in ("busbw_gb_per_s", "fraction_of_limit"):
                    self.assertAlmostEqual(figures.pop(key) / wanted.pop(key), 1, delta=1e-6, msg=key)
                self.assertEqual(figures, wanted)
                self.assert_nothing_lost(json.loads((folder / name / "report.json").read_text()), written)
                self.assertIn(name == "slow", (False, "n1r2" in self.good("report", folder / name, "--as", "console")))

    def test_reports_are_shown_in_every_format(self):
        formats = [line.split()[0] for line in self.good("list", "formats").splitlines()]
        self.assertGreater(len(formats), 6)
        for folder, _ in self.each():
            for name in REPORTS:
                for shape in formats:
                    self.assertGreater(len(self.good("report", folder / name, "--as", shape)), 100, shape)

    def test_comparing_answers_what_it_answered_then(self):
        for folder, expected in self.each():
            out = self.folder / folder.name
            code = expected["comparison"]["exit_code"]
            self.good("compare", folder / "healthy", folder / "slow", "--format", "json", "--out", out, code=code)
            now = json.loads((out / "comparison.json").read_text())
            found = make.key_answers(now)
            ratios, wanted = found.pop("ratios"), expected["comparison"].pop("ratios")
            self.assertEqual(found, expected["comparison"])
            self.assertEqual(set(ratios), set(wanted))
            for row, ratio in wanted.items():
                self.assertAlmostEqual(ratios[row] / ratio, 1, delta=1e-6, msg=row)
            self.assert_nothing_lost(json.loads((folder / "comparison.json").read_text()), now)

    def test_baselines_are_read_and_made_and_histories_drawn(self):
        for folder, _ in self.each():
            base, name = folder / "baseline", folder.name
            self.good("report", folder / "healthy", "--baseline", base, "--format", "json", "--out", f"judged-{name}")
            self.good("report", folder / "slow", "--baseline", base, "--format", "json", "--out", f"bad-{name}", code=SLOW)
            self.good(*make.SIM, "--collectives", "all_reduce", "--launches", 3, "--baseline", base, "--out", f"new-{name}")
            self.good("baseline", folder / "healthy", "--out", f"made-{name}", "--cluster", "lab")
            made = read_report(self.folder / f"made-{name}/baselines/lab/report.json")
            self.assertEqual(len(made["measurements"][0]["launches_us"]), 3)
            history = self.folder / f"history-{name}"
            for place, which in (("1", "healthy"), ("2", "slow")):
                shutil.copytree(folder / which, history / place)
            self.good("compare", "--history", history, "--format", "json", "--out", f"trend-{name}", code=SLOW)
            trend = json.loads((self.folder / f"trend-{name}/comparison.json").read_text())["trend"]
            self.assertEqual([p["software"] for p in trend["points"]], [f"p5bench {name}"] * 2)
            self.assertTrue(any(ratio and ratio > 1.2 for ratio in trend["points"][1]["ratios"]))

    def test_a_history_of_older_reports_has_what_it_had(self):
        for folder, _ in self.each():
            work = self.folder / folder.name
            now = json.loads(make.compare_history(PROGRAM, folder / "healthy/report.json", work).read_text())
            self.assert_nothing_lost(json.loads((folder / "history.json").read_text()), now)
            self.assertEqual(len(now["trend"]["changes"]), 2)
            for change in now["trend"]["changes"]:
                self.assertEqual((change["first"], [each["name"] for each in change["differences"]]), (8, ["nccl"]))

    def test_topologies_are_read_and_nothing_of_them_is_lost(self):
        for folder, _ in self.each():
            for file in ("healthy/topology.json", "recording.json", "slow/report.json"):
                text = self.good("topo", "--load", folder / file)
                self.assertIn("2 hosts, platform p4d.24xlarge", text, file)
            self.good("topo", "--load", folder / "recording.json", "--record", f"again-{folder.name}.json")
            self.assert_nothing_lost(json.loads((folder / "recording.json").read_text()),
                                     json.loads((self.folder / f"again-{folder.name}.json").read_text()))

    def test_journals_have_what_they_had(self):
        self.good(*make.SIM, "--collectives", "all_reduce", "--launches", 3, "--out", "new")
        line = (self.folder / "new/lab/latest/measurements.jsonl").read_text().splitlines()
        for folder, _ in self.each():
            old = (folder / "healthy/measurements.jsonl").read_text().splitlines()
            self.assert_nothing_lost([json.loads(each) for each in old], [json.loads(each) for each in line])


class Schemas(Folder):
    # The kind of a file by its name; a file without a row here is an unexpected one.
    KINDS = {"report.json": "report", "comparison.json": "comparison", "measurements.jsonl": "journal",
             "topology.json": "topology", "recording.json": "topology", "shown.json": "topology", "checked.json": "report",
             "report.gbench.json": "gbench", "explained.json": "explanation", "planned.json": "plan",
             "job.json": "job"}

    def test_all_json_that_is_written_has_a_schema_and_keeps_to_it(self):
        sim = [each for each in make.SIM if each not in ("--format", "json")]
        self.run_it(*sim, "--collectives", "p2p,all_reduce", "--launches", 2, "--out", "a", *make.FAULT,
                    "--format", "json,gbench,html,csv,prometheus,markdown,junit,nccl-tests")
        self.run_it(*sim, "--collectives", "all_reduce", "--out", "b", "--format", "json,gbench")
        # In the same second the same figures would be a copy.
        self.run_it(*sim, "--collectives", "all_reduce,all_gather", "--out", "b", "--format", "json")
        self.run_it("compare", "b", "a/lab/latest", "--format", "json", "--out", "compared")
        self.run_it("compare", "--history", "b", "--format", "json", "--out", "trend")
        self.run_it("baseline", "b", "--out", "made", "--cluster", "lab")
        self.run_it("ab", *make.MACHINE, "--b", "P5BENCH_SIM_FAULT=nic:n1r2:0.5", "--sizes", "8", "--launches", 2, "--out", "ab",
                    "--format", "json", "--quiet")
        self.run_it("import", "nccl-tests", SOURCE / "tests/fixtures/nccl-tests/2.19.6-reduce_scatter-alltoall-broadcast.txt",
                    "--out", "imported")
        machine = SOURCE / "tests/fixtures/machines/p4d.24xlarge.json"
        self.run_it("topo", "--load", machine, "--record", "recording.json")
        for name, command in (("shown", ["topo", "--load", machine]), ("checked", ["check", *make.MACHINE]), ("planned", ["plan", *make.MACHINE])):
            (self.folder / f"{name}.json").write_text(self.run_it(*command, "--format", "json").stdout)
        (self.folder / "explained.json").write_text(
            self.run_it("explain", SOURCE / "tests/fixtures/nccl-log/lines.txt", "--format", "json").stdout)
        traces = job_traces.write(job_traces.data_parallel(4), "recorder", self.folder / "traces", 3)
        self.run_it("import", "job", traces, "--out", "job")
        found = {}
        for path in sorted(self.folder.rglob("*.json*")):
            if path.is_relative_to(traces) or path.is_symlink() or "latest" in path.relative_to(self.folder).parts:
                continue
            self.assertIn(path.name, self.KINDS, path)
            kind = self.KINDS[path.name]
            texts = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
            check = validator(kind)
            for text in texts:
                value = json.loads(text, parse_constant=refuse_constant)
                self.assertEqual([f"{e.json_path}: {e.message}" for e in check.iter_errors(value)][:3], [], path)
            found.setdefault(path.name, []).append(path)
        self.assertEqual(set(found), set(self.KINDS))
        self.assertEqual([len(found[name]) for name in ("report.json", "comparison.json")], [6, 3], found)

    def test_the_journals_fields_are_those_of_a_measurement(self):
        # The baseline is known before the journal is written; the other four are for --resume.
        of_a_report = set(read_schema("report")["$defs"]["measurement"]["properties"]) - {"baseline"}
        of_a_line = {"group_samples_us", "silent_groups", "finished_groups", "wrong_groups"}
        self.assertEqual(set(read_schema("journal")["properties"]), of_a_report | of_a_line)

    def test_schemas_are_listed_and_say_their_version(self):
        names = {path.name.removesuffix(".schema.json") for path in (SOURCE / "reports/schema").glob("*.json")}
        self.assertEqual(names, set(self.KINDS.values()))
        for name, version in (("report", "p5bench.report/1"), ("comparison", "p5bench.compare/1"), ("topology", "p5bench.topology/1"), ("plan", "p5bench.plan/1")):
            self.assertEqual(read_schema(name)["title"], version)


if __name__ == "__main__":
    main()
