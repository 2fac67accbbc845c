"""Renders the example reports as HTML and reads in headless Chromium what the page then shows."""

import base64
import html
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import jsonschema

SOURCE = pathlib.Path(os.environ["P5BENCH_SOURCE"])
PROGRAM = pathlib.Path(os.environ["P5BENCH_BUILD"]) / "p5bench"
EXAMPLES = SOURCE / "tests" / "fixtures" / "reports"
NIGHTLY = bool(os.environ.get("P5BENCH_NIGHTLY"))
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
sys.path.insert(0, str(EXAMPLES))
import make_examples  # noqa: E402


def render(report, folder):
    """The page that the program makes of a report."""
    subprocess.run([PROGRAM, "report", report, "--format", "html", "--out", folder], check=True, timeout=60)
    return pathlib.Path(folder) / "report.html"


def chromium(page, *options, fragment="", real_time=False):
    """Standard output of headless Chromium that opens the page from its file, without a network. The page's timers run on
    virtual time of 5 s, or in real time until the load event where the page holds that event back until it is ready."""
    clock = [] if real_time else ["--virtual-time-budget=5000"]
    with tempfile.TemporaryDirectory() as profile:
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                   "--no-first-run", "--disable-extensions", "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--run-all-compositor-stages-before-draw",
                   f"--user-data-dir={profile}", *clock, *options, page.as_uri() + fragment]
        # Headless Chromium hangs at its start now and then: its processes are ended, and it is started once more.
        for last in (False, True):
            browser = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                printed = browser.communicate(timeout=90)[0].decode()
                break
            except subprocess.TimeoutExpired:
                os.killpg(browser.pid, signal.SIGKILL)
                browser.communicate()
                if last:
                    raise
        if browser.returncode != 0:
            raise subprocess.CalledProcessError(browser.returncode, command, printed)
        return printed


# Opens all that is folded.
OPENER = """<script>
document.addEventListener("DOMContentLoaded", () => {
  for (let depth = 0; depth < 3; depth++) document.querySelectorAll("details").forEach(open_fold);
});
</script></body>"""


def with_script(page, script, name):
    """A copy of the page beside it, with one script more."""
    copy = page.with_name(name)
    copy.write_text(page.read_text().replace("</body>", script))
    return copy


def opened(page):
    """What the page holds when all of it is opened."""
    return Dom(chromium(with_script(page, OPENER, "opened.html"), "--dump-dom"))


# Keeps what the page is before all that is folded is opened.
FOLDED_AND_OPENED = """<script>
addEventListener("load", () => setTimeout(() => {
  const folded = new TextEncoder().encode(document.documentElement.outerHTML);
  for (let depth = 0; depth < 3; depth++) document.querySelectorAll("details").forEach(open_fold);
  document.documentElement.dataset.folded = btoa(Array.from(folded, (byte) => String.fromCharCode(byte)).join(""));
}, 500));
</script></body>"""


def folded_and_opened(page):
    """What the page holds at first and when all of it is opened, of one start of Chromium."""
    dumped = chromium(with_script(page, FOLDED_AND_OPENED, "both.html"), "--dump-dom")
    folded = re.search(r' data-folded="([^"]*)"', dumped)
    return Dom(base64.b64decode(folded.group(1)).decode()), Dom(dumped.replace(folded.group(0), ""))


# Actions of a reader: keys on a curve and on a matrix, another size, and two clicks on the head of the busbw column.
READER = """<script>
document.addEventListener("DOMContentLoaded", () => {
  const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", {key, cancelable: true}));
  const chart = document.querySelector(".chart"), matrix = document.querySelector(".matrix");
  press(chart, "Home");
  const size_read = () => document.querySelector("#curve .readout strong").textContent;
  for (let step = 0; step < 40 && size_read() !== "512 MiB"; step++) press(chart, "ArrowRight");
  const select = document.querySelector("#pairs [aria-label='Message size']");
  select.value = "0";
  select.dispatchEvent(new Event("change"));
  matrix.dispatchEvent(new FocusEvent("focus"));
  for (let step = 0; step < 12; step++) press(matrix, "ArrowRight");
  open_fold(document.getElementById("measurements"));
  const head = [...document.querySelectorAll("#measurements th button")].find((b) => b.textContent.startsWith("busbw"));
  head.click();
  head.click();
});
</script></body>"""


# The sizes and limits of each series of the first curve, as JSON in an element at the end.
SERIES = """<script>
addEventListener("load", () => {
  const report = JSON.parse(document.getElementById("report-data").textContent);
  report.published = [];
  const pre = document.createElement("pre");
  pre.id = "probe";
  pre.textContent = JSON.stringify(main_operation(operations_of(report)).plots[0].series.map(({label, points}) =>
    [label, points.map((p) => [p.x, p.limit])]));
  document.body.append(pre);
});
</script></body>"""


class Dom:
    """What the page is after its script ran, as text to search in."""

    def __init__(self, dumped):
        # The script and the embedded report hold all words too: only what is drawn counts.
        self.markup = re.sub(r"<(script|style)\b.*?</\1>", "", dumped, flags=re.S)
        self.text = html.unescape(re.sub(r"<[^>]*>", " ", self.markup))
        self.text = re.sub(r"\s+", " ", self.text)
        self.title = html.unescape(re.search(r"<title>(.*?)</title>", dumped, re.S).group(1))

    def count(self, tag, css_class):
        return len(re.findall(rf'<{tag}\b[^>]*class="(?:[^"]* )?{css_class}(?: [^"]*)?"', self.markup))


def embedded_report(page):
    found = re.search(r'<script type="application/json" id="report-data">(.*?)</script>', page, re.S)
    return json.loads(found.group(1))


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.pages, cls.doms, cls.opened = {}, {}, {}
        for name in make_examples.EXAMPLES:
            cls.pages[name] = render(EXAMPLES / name, pathlib.Path(cls.folder.name) / name)
            cls.doms[name], cls.opened[name] = folded_and_opened(cls.pages[name])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def assert_drawn(self, dom):
        """No part of the page complained."""
        self.assertEqual(dom.count("p", "alert"), dom.markup.count("<noscript>"), dom.text[:500])

    def test_draws_every_example_without_an_error(self):
        for name, dom in [*self.doms.items(), *self.opened.items()]:
            with self.subTest(name):
                self.assert_drawn(dom)
                for section in ("problems", "charts", "measurements", "limits", "machine"):
                    self.assertIn(f'id="{section}"', dom.markup)

    def test_says_the_verdict_and_why_first(self):
        words = {"simulated.json": "REJECT n1", "measured.json": "CANNOT TELL", "partial.json": "CANNOT TELL",
                 "empty.json": "CANNOT TELL", "wrong.json": "REJECT "}
        for name, word in words.items():
            with self.subTest(name):
                heading = re.search(r"<h1.*?</h1>", self.doms[name].markup, re.S)
                self.assertIn(word, heading.group(0))
                self.assertTrue(self.doms[name].title.startswith(word))
        self.assertIn("nic n1r5 is slow", re.search(r'<p class="because">(.*?)</p>',
                                                      self.doms["simulated.json"].markup).group(1))

    def test_traffic_is_a_heatmap_with_the_part_that_decides_outlined(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PROGRAM, "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "2", "--seed", "1", "--quiet",
                            "--collectives", "all_to_allv", "--traffic", "k-hot:1", "--sizes", "1GiB", "--out", folder],
                           timeout=60, stdout=subprocess.DEVNULL)
            dom = opened(next(pathlib.Path(folder).glob("*/latest/report.html")))
        self.assert_drawn(dom)
        self.assertEqual(dom.count("rect", "traffic-cell"), 16)  # all ranks send to one
        self.assertEqual(dom.count("rect", "traffic-decides"), 1)
        self.assertRegex(dom.text, r"k-hot:1 of all_to_allv: NICs [^,]*, .* of n\d, receiving, decide")
        self.assertRegex(dom.text, r"sends 1\.07 times and receives 16\.0 times the mean")

    def test_work_beside_an_operation_is_a_table(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PROGRAM, "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "2", "--seed", "1", "--quiet", "--beside", "gemm",
                            "--collectives", "all_reduce", "--in-place", "--sizes", "64MiB,128MiB", "--out", folder], timeout=60, stdout=subprocess.DEVNULL)
            dom = opened(next(pathlib.Path(folder).glob("*/latest/report.html")))
        self.assert_drawn(dom)
        self.assertRegex(dom.text, r"all_reduce, in place 64 MiB [\d.]+ [\d.]+ \+[\d.]+ % \d+ [\d.]+ [\d.]+ \d+ %")
        self.assertIn("beside it: gemm:8192,8192,bf16", dom.text)
        self.assertRegex(dom.text, r"all_reduce 128 MiB 305\.0 N/A N/A NCCL")  # published, and not measured without work

    def test_tokens_have_a_heatmap_for_each_matrix_and_published_figures_of_the_same_machine(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PROGRAM, "--backend", "sim", "--platform", "p6-b200.48xlarge", "--nodes", "2", "--seed", "1", "--quiet",
                            "--collectives", "dispatch,combine", "--out", folder], timeout=60, stdout=subprocess.DEVNULL)
            dom = opened(next(pathlib.Path(folder).glob("*/latest/report.html")))
        self.assert_drawn(dom)
        self.assertEqual(dom.count("svg", "traffic"), 4)
        for words in ("expert:128,256,8 of dispatch", "expert:4096,256,8 of dispatch", "expert:128,256,8 of combine", "128, decode", "4096, prefill",
                      "145.0 µs", "5187 µs", "pplx-garden"):
            self.assertTrue(words in dom.text, words)

    def test_warns_of_what_was_not_really_measured(self):
        self.assertIn("SIMULATED These figures come from a model", self.doms["simulated.json"].text)
        self.assertIn("(simulated)", self.doms["simulated.json"].title)
        self.assertIn("PARTIAL The run did not finish its plan. Ended by: SIGTERM.", self.doms["partial.json"].text)
        self.assertIn("PRETENDED NODES", self.doms["measured.json"].text)
        for banner in ("SIMULATED", "PARTIAL", "PRETENDED"):
            self.assertNotIn(banner, self.doms["wrong.json"].text)

    def test_the_figure_above_a_curve_of_pairs_is_the_consoles(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            done = subprocess.run([PROGRAM, "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4", "--seed", "7", "--tuning", "off", "--fault", "nic:n1r5:0.5",
                                   "--collectives", "p2p", "--out", out], timeout=60, capture_output=True, text=True)
            row = re.search(r"(?m)^p2p one_way other_node +2 .* (\d+ MiB) +([\d.]+) +(\d+) %  slow$", done.stdout)
            text = opened(out / "latest" / "report.html").text
        self.assertRegex(text, rf"{row[1]}: {row[2]}\d* GB/s, {row[3]}\.\d % of the limit, the slowest of \d+ pairs")

    def test_warns_of_imported_figures_that_were_simulated(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            subprocess.run([PROGRAM, "--backend", "sim", "--platform", "p5.48xlarge", "--seed", "1", "--quiet", "--collectives", "all_reduce",
                            "--tuning", "off", "--out", out], timeout=60, stdout=subprocess.DEVNULL)
            table = subprocess.run([PROGRAM, "report", out / "latest", "--as", "nccl-tests"], timeout=60, capture_output=True, text=True).stdout
            (out / "table.txt").write_text(table)
            subprocess.run([PROGRAM, "import", "nccl-tests", out / "table.txt", "--out", out], timeout=60, stdout=subprocess.DEVNULL)
            dom = opened(out / "imported" / "table" / "report.html")
        self.assertIn("No single part is suspected. Pairs of ranks, whose figures tell parts from each other, were not measured.", dom.text)
        for words in ("SIMULATED These figures come from a model", "IMPORTED These figures were read", "Simulated. Median of bursts"):
            self.assertIn(words, dom.text)
        self.assertIn("(simulated)", dom.title)
        self.assertIn("A column's head sorts.", dom.text)
        self.assertNotIn("Times are the slowest rank's.", dom.text, "of an import its remarks say it")
        self.assertIn("Times are the slowest rank's.", self.opened["simulated.json"].text)

    def test_draws_a_line_and_its_interval_for_each_series(self):
        simulated = self.opened["simulated.json"]
        # Bandwidth and latency of three p2p patterns for two kinds of pairs, two kinds of all_reduce (in legends too) and
        # all_gather. Each p2p bandwidth is a curve of one pair, with a legend because the slowest of all pairs is beside it.
        self.assertEqual(simulated.count("svg", "chart"), 16)
        own, in_legends = 18, 4 + 6
        self.assertEqual(simulated.count("path", "line"), own + in_legends + 1)  # and in the legend beside the published
        self.assertEqual(simulated.count("g", "reference"), 2)  # published figures of all_reduce and all_gather
        self.assertEqual(simulated.count("path", "band"), 18)
        self.assertIn("100 %: achievable limit 388.0 GB/s (nic)", self.doms["simulated.json"].text)

    def test_draws_a_cell_for_each_measured_pair(self):
        simulated = self.doms["simulated.json"]
        self.assertEqual(simulated.count("svg", "matrix"), 1)
        self.assertEqual(simulated.count("rect", "cell"), 16 * 15)
        self.assertEqual(simulated.count("rect", "very-slow"), 2 * 8)
        measured = self.doms["measured.json"]
        self.assertEqual(measured.count("rect", "cell"), 12)
        self.assertEqual(measured.count("rect", "very-slow"), 0)

    def test_shows_suspects_and_wrong_elements_with_what_to_do(self):
        self.assertIn("n1r5 (n1)", self.doms["simulated.json"].text)
        self.assertIn("Take n1 out of the job", self.doms["simulated.json"].text)
        self.assertIn("First: rank 2, element 4711: wanted 6, got 5.5.", self.opened["wrong.json"].text)
        self.assertIn("The worker of rank 3 died with signal 11", self.opened["wrong.json"].text)

    def test_shows_the_last_words_of_a_rank_that_failed(self):
        text = self.opened["wrong.json"].text
        self.assertIn("Last 2 lines of rank 3", text)
        self.assertIn("<b>no</b> WARN", text)
        self.assertIn("rank 3 does not respond", text)

    def test_lists_every_measurement(self):
        for name, make in make_examples.EXAMPLES.items():
            self.assertNotIn('<table class="measurements">', self.doms[name].markup)
            table = re.search(r'<table class="measurements">.*?</table>', self.opened[name].markup, re.S)
            rows = table.group(0).count("<tr>") - 1 if table else 0
            self.assertEqual(rows, len(make()["measurements"]), name)

    def test_shows_what_each_gpu_does_alone(self):
        self.assertIn("Each GPU alone", self.opened["wrong.json"].text)
        self.assertIn("2602", self.opened["wrong.json"].text)
        self.assertNotIn("Each GPU alone", self.opened["measured.json"].text)

    def test_shows_each_path_between_nics_and_gpus(self):
        self.assertRegex(self.opened["wrong.json"].text, r"rdmap79s0\s+far\s+6\.06\d*\s+slow")
        self.assertNotIn("NICs from GPU memory", self.opened["measured.json"].text)

    def test_tuned_settings_are_a_curve_beside_the_default(self):
        file = pathlib.Path(self.folder.name) / "tuned.json"
        file.write_text(make_examples.text_of(make_examples.measured() | {"tuning": make_examples.tuning()}))
        page = render(file, pathlib.Path(self.folder.name) / "tuned")
        dom = Dom(chromium(page, "--dump-dom"))
        self.assert_drawn(dom)
        labels = re.findall(r"</svg>([^<]*)</button>", dom.markup)
        self.assertEqual((labels.count("tuned"), labels.count("default, measured beside it")), (1, 1))
        self.assertEqual(dom.count("g", "reference"), 2)
        self.assertNotIn("tuned</button>", self.doms["measured.json"].markup)

    def test_the_gain_of_a_jobs_step_and_the_intervals_of_variables_are_shown(self):
        step = {"default_us": 44600.0, "tuned_us": 44510.8, "share": 0.002, "ci95_share": [-0.001, 0.005]}
        file = pathlib.Path(self.folder.name) / "step.json"
        file.write_text(make_examples.text_of(make_examples.measured() | {"tuning": make_examples.tuning() | {"step": step}}))
        dom = opened(render(file, pathlib.Path(self.folder.name) / "step"))
        self.assert_drawn(dom)
        self.assertIn("A step of the job takes 44.51 ms with everything that is set, and 44.60 ms by default: "
                      "time saved 0.2 % (-0.1 % to 0.5 %).", dom.text)
        taken_back = make_examples.tuning() | {"step": step, "outcome": "nothing", "rows": [], "environment": {}, "loading": []}
        file.write_text(make_examples.text_of(make_examples.measured() | {"tuning": taken_back}))
        self.assertIn("A step of the job takes 44.51 ms with the settings that were found and are not set, and 44.60 ms",
                      opened(render(file, pathlib.Path(self.folder.name) / "step-of-nothing")).text)
        self.assertRegex(dom.text, r"NCCL_BUFFSIZE=8388608 1\.004 0\.9950 to 1\.013 no")

    def test_each_curve_has_a_baseline_of_its_own_by_its_own_limit(self):
        report = make_examples.simulated()
        of_all = [m for m in report["measurements"] if m["case"]["collective"] == "all_reduce" and not m["case"]["in_place"]]
        for m in of_all:
            m["baseline"] = {"latency_us": None, "throughput_us": m["throughput"]["median_us"]}
        of_nodes = [m | {"case": m["case"] | {"group": "node", "ranks": 8, "nodes": 1},
                         "throughput": m["throughput"] | {"busbw_gb_per_s": m["throughput"]["algbw_gb_per_s"] * 2 * 7 / 8},
                         "verdict": m["verdict"] | {"limit_gb_per_s": 370.0, "binding": "nvlink",
                                                    "fraction_of_limit": m["throughput"]["algbw_gb_per_s"] * 2 * 7 / 8 / 370}}
                    for m in of_all[-2:]]
        report["measurements"] = of_all + of_nodes
        file = pathlib.Path(self.folder.name) / "baselines.json"
        file.write_text(make_examples.text_of(report))
        page = with_script(render(file, pathlib.Path(self.folder.name) / "baselines"), SERIES, "series.html")
        dom = Dom(chromium(page, "--dump-dom"))
        self.assert_drawn(dom)
        series = json.loads(html.unescape(re.search(r'<pre id="probe">(.*?)</pre>', dom.markup, re.S).group(1)))
        curves = {label: points for label, points in series if not label.startswith("baseline")}
        self.assertEqual(len(curves), 2)
        self.assertEqual({label: points for label, points in series if label not in curves},
                         {f"baseline, {label}": points for label, points in curves.items()})

    def test_tells_jobs_of_several_sizes_apart(self):
        report = make_examples.simulated()
        of_all = [m for m in report["measurements"] if m["case"]["collective"] == "all_reduce" and not m["case"]["in_place"]]
        report["measurements"] = of_all + [m | {"case": m["case"] | {"nodes": 1}} for m in of_all]
        file = pathlib.Path(self.folder.name) / "jobs.json"
        file.write_text(make_examples.text_of(report))
        page = with_script(render(file, pathlib.Path(self.folder.name) / "jobs"), SERIES, "series.html")
        dom = opened(page)
        self.assert_drawn(dom)
        series = json.loads(html.unescape(re.search(r'<pre id="probe">(.*?)</pre>', dom.markup, re.S).group(1)))
        self.assertEqual(sorted(label for label, _ in series), ["1 node", "2 nodes"])
        for _, points in series:
            self.assertEqual(len(points), len(of_all))
        self.assertRegex(dom.text, r"2 GiB, 16 ranks on (1 node|2 nodes): [\d.]+ GB/s")
        self.assertIn(">Nodes</button>", dom.markup)
        self.assertNotIn(">Ranks</button>", dom.markup)

    def test_keeps_all_digits_of_the_seed(self):
        self.assertIn("18446744073709551615", self.opened["measured.json"].text)

    def test_leaves_a_hostile_name_text(self):
        wrong = self.opened["wrong.json"]
        self.assertIn(make_examples.HOSTILE_NAME, wrong.text)
        self.assertIn("</script><!-- <script> {{data}} \u00e9", wrong.text)
        self.assertEqual(wrong.title, f"REJECT {make_examples.HOSTILE_NAME}: p5.48xlarge-1")
        self.assertNotIn(make_examples.HOSTILE_NAME, self.pages["wrong.json"].read_text())

    def test_says_so_where_nothing_was_measured(self):
        for name in ("partial.json", "empty.json"):
            self.assertIn("Nothing was measured.", self.opened[name].text)
            self.assertEqual(self.doms[name].count("path", "line"), 0)

    def test_embeds_the_whole_report_but_for_what_is_not_known_of_hosts(self):
        def known(value):
            if isinstance(value, dict):
                return {name: known(member) for name, member in value.items() if known(member) not in (None, "", [], {})}
            return [known(member) for member in value] if isinstance(value, list) else value
        schema = json.loads((SOURCE / "reports/schema/report.schema.json").read_text())
        for name in make_examples.EXAMPLES:
            report = embedded_report(self.pages[name].read_text())
            whole = json.loads(subprocess.run([PROGRAM, "report", EXAMPLES / name, "--as", "json"], check=True, timeout=60,
                                              stdout=subprocess.PIPE).stdout)
            self.assertEqual(report["topology"].pop("hosts"), known(whole["topology"]["hosts"]))
            self.assertEqual(len(report["measurements"]), len(whole["measurements"]))
            report["topology"]["hosts"] = whole["topology"]["hosts"]
            jsonschema.Draft202012Validator(schema).validate(report)

    def test_shows_measurements_in_the_same_order_however_they_were_made(self):
        report = json.loads((EXAMPLES / "simulated.json").read_text())
        report["measurements"].reverse()
        path = pathlib.Path(self.folder.name) / "reversed.json"
        path.write_text(json.dumps(report))
        page = render(path, pathlib.Path(self.folder.name) / "reversed").read_text()
        shown = embedded_report(page)["measurements"]
        self.assertEqual(shown, embedded_report(self.pages["simulated.json"].read_text())["measurements"])
        cases = [measurement["case"] for measurement in shown]
        self.assertEqual([c["bytes"] for c in cases if c["collective"] == "all_gather"],
                         sorted(c["bytes"] for c in cases if c["collective"] == "all_gather"))

    def test_asks_nothing_of_a_network(self):
        page = self.pages["simulated.json"].read_text()
        self.assertIn("default-src 'none'", page)
        drawn = page.replace("http://www.w3.org/2000/svg", "")  # a name, which nothing fetches
        self.assertNotRegex(drawn, r"https?://|\bsrc=|@import|url\((?!#)")

    def test_draws_a_large_job_by_node_and_opens_two_of_them_into_ranks(self):
        file = pathlib.Path(self.folder.name) / "large.json"
        file.write_text(make_examples.text_of(make_examples.simulated(nodes=12)))
        page = render(file, pathlib.Path(self.folder.name) / "large")
        dom = Dom(chromium(page, "--dump-dom"))
        self.assert_drawn(dom)
        self.assertEqual(dom.count("rect", "cell"), 12 * 12)
        self.assertRegex(dom.markup, r"<text[^>]*>n11</text>")
        self.assertIn("a click shows them all", dom.text)
        two = Dom(chromium(page, "--dump-dom", fragment="#pairs?pairs.open=1-7"))
        self.assert_drawn(two)
        self.assertEqual(two.count("rect", "cell"), 16 * 15)
        self.assertRegex(two.markup, r"<text[^>]*>n7</text>")

    def test_draws_a_job_of_very_many_nodes_as_one_picture_with_the_slow_ones_on_top(self):
        file = pathlib.Path(self.folder.name) / "huge.json"
        report = make_examples.simulated(nodes=9)
        of_pairs = [m for m in report["measurements"] if m.get("pairs")]
        report["measurements"] = of_pairs[:1]
        nodes = report["run"]["ranks"] = report["run"]["nodes"] = 160
        report["topology"]["host_of_rank"] = list(range(nodes))
        report["topology"]["hosts"] = [report["topology"]["hosts"][0] | {"name": f"n{i}"} for i in range(nodes)]
        pairs = [[a, b, 100.0] for a in range(nodes) for b in range(nodes) if a != b and (a + b) % 3]
        pairs[5][2], pairs[-3][2] = 300.0, 115.0
        of_pairs[0]["pairs"], of_pairs[0]["case"]["pattern"] = pairs, "one_way"
        file.write_text(make_examples.text_of(report))
        page = render(file, pathlib.Path(self.folder.name) / "huge")
        dom = Dom(chromium(with_script(page, PIXELS, "pixels.html"), "--dump-dom"))
        self.assert_drawn(dom)
        self.assertEqual((dom.markup.count("<image "), dom.count("rect", "cell")), (1, 0))
        found = json.loads(html.unescape(re.search(r'<pre id="probe">(.*?)</pre>', dom.markup, re.S).group(1)))
        # Each of the two is enlarged to 6 pixels a side, which others may cover in part.
        self.assertGreaterEqual(found["very-slow"], 18)
        self.assertGreaterEqual(found["slower"], 18)
        self.assertGreater(found["normal"], 1000)

    def test_draws_what_is_wrong_in_the_machine_where_it_sits(self):
        report = make_examples.simulated()
        gpu = {"uuid": "GPU-1", "name": "H100", "architecture": 90, "links": 18, "links_possible": 18, "numa_node": 0,
               "pci": {"address": "0000:53:00.0", "path": ["pci0000:50", "0000:50:00.0"]}}
        host = report["topology"]["hosts"][0]
        host["gpu_devices"] = [gpu, {**gpu, "links": 15}]
        host["nics"][3]["pci"] = gpu["pci"]
        report["grade"] = "faulty"
        report["decision"]["sentence"] = ""  # as in reports from before there was a decision
        report["findings"] = [{"id": "gpu.links", "severity": "error", "about": "fabric", "evidence": "3 links are down", "action": "",
                               "subject": {"host": host["name"], "instance": "", "gpu": 1, "nic": None}}]
        file = pathlib.Path(self.folder.name) / "topology.json"
        file.write_text(make_examples.text_of(report))
        dom = opened(render(file, pathlib.Path(self.folder.name) / "topology"))
        self.assert_drawn(dom)
        self.assertRegex(dom.markup, r'<h1 class="wrong">.*?REJECT n0, n1</h1><p class="because">[^<]*gpu.links \(3 links are down\)')
        self.assertIn('<span class="tag">error: fabric</span>', dom.markup)
        switch = re.search(r'pci0000:50 . 0000:50:00\.0</p><ul class="devices">(.*?)</ul>', dom.markup,
                           re.S).group(1)
        chips = re.findall(r'<li class="device ([^"]*)"', switch)
        self.assertEqual([chip.split() for chip in chips], [["gpu"], ["gpu", "error"], ["nic"]])
        self.assertIn("15 of 18 NVLinks", switch)
        self.assertIn('<span class="trouble">3 links are down</span>', switch)
        # The simulated suspect n1r5 is the sixth NIC of the fabric of the second host.
        bad = re.findall(r'<li class="device nic error"[^>]*><strong>.*?</span>([^<]*)<', dom.markup)
        self.assertEqual(bad, ["rdmap5s0"])
        self.assertIn("1 device in trouble", dom.text)

    def test_marks_the_device_that_a_suspect_names(self):
        report = make_examples.simulated()
        hosts = report["topology"]["hosts"]
        gpu = {"name": "H100", "architecture": 90, "links": 18, "links_possible": 18, "numa_node": 0}
        hosts[0]["gpu_devices"] = [gpu | {"uuid": f"GPU-{i}"} for i in range(8)]
        hosts[1]["nics"] = [nic | {"kind": "ethernet"} for nic in hosts[1]["nics"]]
        report["topology"]["nics_of_rank"] = [[nic["name"] for nic in hosts[rank // 8]["nics"][rank % 8 * 4:rank % 8 * 4 + 4]]
                                              for rank in range(16)]
        nic = report["suspects"][0]
        # The first rank of n0 has the second GPU.
        report["suspects"] = [nic, nic | {"kind": "gpu", "name": "n0g0", "host": "n0", "device": "GPU-1"}]
        file = pathlib.Path(self.folder.name) / "devices.json"
        file.write_text(make_examples.text_of(report))
        dom = opened(render(file, pathlib.Path(self.folder.name) / "devices"))
        self.assert_drawn(dom)
        bad = re.findall(r'<li class="device (?:gpu|nic) error"[^>]*><strong>.*?</span>([^<]*)<', dom.markup)
        self.assertEqual(bad, ["GPU 1", "rdmap5s0"])

    def test_answers_keys_sizes_and_sorting(self):
        page = pathlib.Path(self.folder.name) / "read.html"
        page.write_text(self.pages["simulated.json"].read_text().replace("</body>", READER))
        dom = Dom(chromium(page, "--dump-dom"))
        self.assert_drawn(dom)
        self.assertRegex(dom.text, r"512 MiB [a-z0-9]+, [a-z ]+: \d+\.\d GB/s \(95 %: [\d.]+ to [\d.]+\), [\d.]+ .s, \d\d\.\d % of the limit")
        self.assertRegex(dom.text, r"rank 0 \(n0\) to rank 13 \(n1\): 0\.000\d+ GB/s, [\d.]+ .s, [\d.]+ % of the")
        table = re.search(r'<table class="measurements">.*?</table>', dom.markup, re.S).group(0)
        self.assertIn('aria-sort="descending"', table)
        self.assertIn('<tbody><tr><th scope="row">p2p one_way, same node</th><td class="number" data-value="2147483648">2 GiB</td>', table)

    def test_draws_at_the_width_of_a_phone(self):
        page = self.pages["simulated.json"]
        picture = pathlib.Path(self.folder.name) / "phone.png"
        chromium(page, "--window-size=390,900", f"--screenshot={picture}")
        self.assertEqual(picture.read_bytes()[:4], b"\x89PNG")
        dom = chromium(page, "--window-size=500,900", "--dump-dom")
        widths = [int(width) for width in re.findall(r'class="(?:chart|matrix)"[^>]*viewBox="0 0 (\d+) ', dom)]
        self.assertGreaterEqual(len(widths), 3)
        self.assertLess(max(widths), 500)


# How many pixels of the canvas have each colour of the matrix.
PIXELS = """<script>
const as_picture = HTMLCanvasElement.prototype.toDataURL;
HTMLCanvasElement.prototype.toDataURL = function() {
  const {data} = this.getContext("2d").getImageData(0, 0, this.width, this.height), counts = {};
  const style = getComputedStyle(document.documentElement);
  for (const {name} of HEAT) {
    const value = parseInt(style.getPropertyValue(`--${name}`).trim().slice(1), 16);
    counts[name] = 0;
    for (let i = 0; i < data.length; i += 4) {
      if (data[i] === value >> 16 && data[i + 1] === (value >> 8 & 255) && data[i + 2] === (value & 255)) counts[name]++;
    }
  }
  const pre = document.createElement("pre");
  pre.id = "probe";
  pre.textContent = JSON.stringify(counts);
  document.body.append(pre);
  return as_picture.call(this);
};
</script></body>"""

# Actions of a reader on each control, and their results, as JSON in an element at the end. Files are caught where the
# page would hand them to the browser. An open document in a frame holds the load event back until all is done: a picture
# is drawn by other threads, in real time.
CONTROLS = """<script>
document.addEventListener("DOMContentLoaded", () => {
  const holder = document.createElement("iframe");
  document.body.append(holder);
  holder.contentDocument.open();
  use_controls().finally(() => holder.contentDocument.close());
});
async function use_controls() {
  const files = {}, seen = {};
  window.Blob = class extends Blob { constructor(parts, how) { super(parts, how); this.made_of = parts.join(""); } };
  URL.createObjectURL = (blob) => { files.last = blob; return "blob:none"; };
  HTMLAnchorElement.prototype.click = function() { files[this.download.replace(/.*[.]/, "")] = [this.download, files.last]; };
  const figure = document.querySelector("#curve figure"), chart = figure.querySelector(".chart");
  const tool = (text, of = figure) => [...of.querySelectorAll(".tool")].find((b) => b.textContent === text);
  const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", {key, cancelable: true}));
  const lines = () => chart.querySelectorAll(".line").length, points = () => chart.querySelectorAll(".marker").length;
  const say = (name, value) => { seen[name] = value; };

  say("lines", lines());
  say("points", points());
  figure.querySelector(".toggle").click();
  say("lines without one", lines());
  say("pressed", [...figure.querySelectorAll(".toggle")].map((t) => t.getAttribute("aria-pressed")));
  press(chart, "End");
  press(chart, "+");
  say("points zoomed", points());
  say("whole range offered", !tool("Whole range").hidden);
  say("address", location.hash);
  tool("Whole range").click();
  figure.querySelector(".toggle").click();
  say("points again", points());
  say("address again", location.hash);

  const axis = () => [...chart.querySelectorAll("text")].map((text) => text.textContent).find((text) => /^(share|GB)/.test(text));
  say("axis", axis());
  tool("GB/s").click();
  say("axis of figures", [axis(), location.hash]);
  tool("GB/s").click();
  say("axis again", [axis(), location.hash]);

  const box = chart.getBoundingClientRect();
  const drag = (type, part) => chart.dispatchEvent(new PointerEvent(type,
    {clientX: box.left + part * box.width, clientY: box.top + 50, pointerType: "mouse", button: 0, bubbles: true}));
  drag("pointerdown", 0.3); drag("pointermove", 0.7); drag("pointerup", 0.7);
  say("points drawn across", points());
  press(chart, "Escape");
  tool("Samples").click();
  say("samples", [figure.querySelectorAll(".sample").length, figure.querySelector(".samples-box").textContent]);
  say("address of samples", location.hash);

  const measurements = document.getElementById("measurements");
  say("folded", document.querySelectorAll(".measurements").length);
  open_fold(measurements);
  const filter = document.getElementById("measurements-filter");
  filter.value = "all_reduce  1 GiB";
  filter.dispatchEvent(new Event("input"));
  say("rows", [...document.querySelectorAll(".measurements tbody tr")].filter((r) => !r.hidden).map((r) => r.cells[0].textContent));
  const table = document.querySelector(".measurements").closest(".scroll");
  tool("CSV", table.previousElementSibling).click();
  say("csv of the table", files.csv[1].made_of);
  tool("CSV").click();
  say("csv of the chart", files.csv[1].made_of);
  tool("SVG").click();
  say("svg", [files.svg[0], files.svg[1].made_of]);
  tool("PNG").click();
  while (!files.png) await new Promise((resolve) => setTimeout(resolve, 10));
  say("png", [files.png[0], files.png[1].type, files.png[1].size]);
  const link = document.querySelector("nav a[href='#limits']");
  link.dispatchEvent(new MouseEvent("click", {cancelable: true, bubbles: true}));
  say("address after a section", location.hash);
  history.replaceState(null, "", "#measurements?filter=p2p");
  window.dispatchEvent(new HashChangeEvent("hashchange"));
  say("rows of the link", [...document.querySelectorAll(".measurements tbody tr")].filter((r) => !r.hidden).map((r) => r.cells[0].textContent));
  const pre = document.createElement("pre");
  pre.id = "seen";
  pre.textContent = JSON.stringify(seen);
  document.body.append(pre);
}
</script></body>"""


class Controls(unittest.TestCase):
    """A real report of the simulator with its journal, compared with a baseline; every control is used."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.out = pathlib.Path(cls.folder.name)
        run = [PROGRAM, "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4", "--collectives", "p2p,all_reduce",
               "--sizes", "64KiB,1MiB,16MiB,64MiB,256MiB,1GiB", "--quiet", "--budget", "20s"]
        subprocess.run([*run, "--seed", "1", "--cluster", "base", "--out", cls.out], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
        done = subprocess.run([*run, "--seed", "2", "--cluster", "new", "--out", cls.out, "--fault", "nic:n1r5:0.5",
                               "--baseline", cls.out / "base"], timeout=60, stdout=subprocess.DEVNULL)
        assert done.returncode == 10, done
        cls.page = cls.out / "new" / "latest" / "report.html"
        cls.report = json.loads((cls.page.parent / "report.json").read_text())
        used = cls.out / "used.html"
        used.write_text(cls.page.read_text().replace("</body>", CONTROLS))
        cls.dom = Dom(chromium(used, "--dump-dom", real_time=True))
        found = re.search(r'<pre id="seen">(.*?)</pre>', cls.dom.markup, re.S)
        assert found, cls.dom.text[-500:]
        cls.seen = json.loads(html.unescape(found.group(1)))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_nothing_complains(self):
        self.assertEqual(self.dom.count("p", "alert"), self.dom.markup.count("<noscript>"), self.dom.text[:500])

    def test_shows_what_speaks_against_a_suspect(self):
        dom = self.dom
        self.assertEqual(dom.count("svg", "evidence"), 0)
        dom = opened(self.page)
        self.assertEqual(dom.count("svg", "evidence"), 1)
        self.assertRegex(dom.markup, r'aria-label="Rates with n1r5: median [0-9.]+ % of what is usual; without: (9|10)\d\.\d %"')
        self.assertGreater(dom.count("circle", "with"), 3)
        self.assertGreater(dom.count("rect", "suspect"), 0)
        self.assertIn('<a href="#host-1">In the machine</a>', dom.markup)

    def test_a_curve_is_left_out_by_its_name_and_comes_back(self):
        self.assertEqual(self.seen["lines without one"], self.seen["lines"] - 1)
        self.assertEqual(self.seen["pressed"][0], "false")
        self.assertTrue(all(pressed == "true" for pressed in self.seen["pressed"][1:]))

    def test_zooming_shows_fewer_sizes_and_stands_in_the_address(self):
        self.assertLess(self.seen["points zoomed"], self.seen["points"])
        self.assertTrue(self.seen["whole range offered"])
        self.assertRegex(self.seen["address"], r"zoom=\d+-\d+")
        self.assertRegex(self.seen["address"], r"\.without=0")
        self.assertEqual(self.seen["points again"], self.seen["points"])
        self.assertEqual(self.seen["address again"], "")
        self.assertLess(self.seen["points drawn across"], self.seen["points"])

    def test_a_share_of_the_limit_or_figures_on_a_logarithmic_axis(self):
        figures, address = self.seen["axis of figures"]
        self.assertEqual((self.seen["axis"], figures), ("share of the limit", "GB/s"))
        self.assertTrue(address.endswith("axis=log"), address)
        self.assertEqual(self.seen["axis again"], ["share of the limit", ""])

    def test_what_is_folded_is_drawn_when_it_is_opened_or_named_by_the_address(self):
        self.assertEqual(self.seen["folded"], 0)
        named = Dom(chromium(self.page, "--dump-dom", fragment="#measurements?filter=all_reduce"))
        self.assertRegex(named.text, r"\d+ of \d+ measurements shown")
        host = Dom(chromium(self.page, "--dump-dom", fragment="#host-1"))
        self.assertGreater(host.count("li", "nic"), 0)

    def test_an_address_opens_the_same_view(self):
        again = Dom(chromium(self.page, "--dump-dom", fragment=self.seen["address"]))
        self.assertIn('aria-pressed="false"', again.markup)
        whole = Dom(chromium(self.page, "--dump-dom"))
        self.assertLess(again.count("path", "marker"), whole.count("path", "marker"))
        self.assertEqual(set(self.seen["rows of the link"]), {row for row in self.rows() if row.startswith("p2p")})
        self.assertRegex(self.seen["address after a section"], r"^#limits\?.*filter=all_reduce")
        strange = Dom(chromium(self.page, "--dump-dom", fragment="#nowhere?filter=%3Cb%3E&pairs.pattern=no&pairs.size=7&x=%zz"))
        self.assertEqual(strange.count("p", "alert"), strange.markup.count("<noscript>"))

    def rows(self):
        table = re.search(r'<table class="measurements">.*?</table>', self.dom.markup, re.S).group(0)
        return re.findall(r'<th scope="row">([^<]*)<', table)

    def test_every_sample_is_shown(self):
        dots, words = self.seen["samples"]
        size = int(re.search(r"samples=(\d+)", self.seen["address of samples"]).group(1))
        shown = [m for m in self.report["measurements"] if m["case"]["collective"] == "all_reduce" and
                 m["case"]["bytes"] == size and not m["case"].get("for_parts")]
        self.assertEqual(dots, sum(m["throughput"]["samples"] for m in shown))
        self.assertIn(f"{size >> 20} MiB, times in", words)
        self.assertIn(f"{dots} samples; least", words)

    def test_the_baseline_and_published_figures_are_curves_beside(self):
        self.assertTrue(all("baseline" in m for m in self.report["measurements"] if not m["case"].get("for_parts") and m["case"]["collective"] == "all_reduce"))
        legends = re.findall(r'<ul class="legend">.*?</ul>', self.dom.markup, re.S)
        of_all_reduce = [legend for legend in legends if "published" in legend]
        self.assertEqual(len(of_all_reduce), 1)
        self.assertIn("baseline", of_all_reduce[0])

    def test_rows_are_filtered_and_saved_as_they_are_shown(self):
        self.assertTrue(self.seen["rows"])
        self.assertTrue(all(row.startswith("all_reduce") for row in self.seen["rows"]), self.seen["rows"])
        lines = self.seen["csv of the table"].strip().split("\r\n")
        self.assertEqual(len(lines), 1 + len(self.seen["rows"]))
        self.assertEqual(lines[0].split(",")[:3], ["Operation", "Size", "Verdict"])
        self.assertEqual(lines[1].split(",")[1], "1073741824")

    def test_a_chart_is_saved_with_its_look(self):
        name, text = self.seen["svg"]
        self.assertTrue(name.endswith(".svg"))
        self.assertIn("bus bandwidth", text)
        self.assertRegex(text, r'<path[^>]*class="line"[^>]*style="[^"]*stroke: rgb')
        self.assertTrue(self.seen["png"][0].endswith(".png"))
        self.assertEqual(self.seen["png"][1], "image/png")
        self.assertGreater(self.seen["png"][2], 2000)
        rows = self.seen["csv of the chart"].strip().split("\r\n")
        self.assertEqual(rows[0], "curve,bytes,GB/s,low,high,limit")
        self.assertEqual(len(rows) - 1, self.seen["points"])


# Where what a reader looks for first lies, how large the page is, and how much anything reaches out of its card.
PROBE = """<script>
addEventListener("load", () => setTimeout(() => {
  const box = (selector) => {
    const {top, bottom, left, right} = document.querySelector(selector)?.getBoundingClientRect() ?? {};
    return top === undefined ? null : {top, bottom, left, right};
  };
  const look = getComputedStyle(document.documentElement), cut = [];
  for (const card of document.querySelectorAll(".card, figure, .command, h1, .because, .next, .product")) {
    const frame = card.getBoundingClientRect();
    for (const part of card.querySelectorAll("p, li, svg, svg text, select, h3, code")) {
      if (part.closest(".scroll") || part.closest("pre")) continue;
      const inside = part.getBoundingClientRect();
      if (inside.width > 0 && (inside.right > frame.right + 1 || inside.left < frame.left - 1)) cut.push(part.outerHTML.slice(0, 200));
    }
  }
  const seen = {height: document.documentElement.scrollHeight, wide: document.documentElement.scrollWidth - innerWidth, cut,
    width: innerWidth, elements: document.querySelectorAll("*").length, dark: matchMedia("(prefers-color-scheme: dark)").matches,
    places: Object.fromEntries(["h1", ".because", ".next", ".command button", "#problems .card", "#pairs svg.matrix", "#curve svg.chart"]
      .map((selector) => [selector, box(selector)])),
    colours: Object.fromEntries(["card", "normal", "below", "slower", "slow-pair", "very-slow"]
      .map((name) => [name, look.getPropertyValue(`--${name}`).trim()]))};
  const pre = document.createElement("pre");
  pre.id = "probe";
  pre.textContent = JSON.stringify(seen);
  document.body.append(pre);
}, 300));
</script></body>"""


def probe(page, width, *options, script=PROBE):
    """What the script finds in the page in a window of this width and of 900 pixels. The browser's own window is never
    narrower than 500 pixels: a frame is."""
    probed = with_script(page, script, "probed.html")
    framed = page.with_name("framed.html")
    framed.write_text(f"<iframe style='border:0' width={width} height=900 src={probed.name}></iframe><script>addEventListener('load', () => "
                      "setTimeout(() => document.body.append(frames[0].document.getElementById('probe').cloneNode(true)), 1500))</script>")
    dumped = chromium(framed, "--dump-dom", "--window-size=1600,1200", "--allow-file-access-from-files", *options)
    return json.loads(html.unescape(re.search(r'<pre id="probe">(.*?)</pre>', dumped, re.S).group(1)))


DARK = "--blink-settings=preferredColorScheme=0"
DECISION = {"word": "REJECT", "parts": ["n1"], "sentence": "REJECT n1: NIC n1r5 moves half of what the other NICs of its rail move",
            "next": ["replace the instance of n1", "run again on four hosts"],
            "command": "mpirun -np 24 --hostfile hosts.healthy p5bench"}


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


class FirstScreen(unittest.TestCase):
    """Simulated runs of four and of 64 nodes, as a reader meets them."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.out = pathlib.Path(cls.folder.name)
        cls.slow = cls.run_of("slow", 4, "--fault", "nic:n1r5:0.5", decision=DECISION)
        cls.healthy = cls.run_of("healthy", 4)
        cls.in_themes = {options: probe(cls.slow, 1280, *options) for options in ((), (DARK,))}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def run_of(cls, name, nodes, *options, **changes):
        """The page of a run, whose report has these members."""
        subprocess.run([PROGRAM, "--backend", "sim", "--tune=off", "--platform", "p5.48xlarge", "--nodes", str(nodes), "--seed", "1",
                        "--quiet", "--cluster", name, "--out", cls.out, *options], timeout=120, stdout=subprocess.DEVNULL)
        return cls.changed(cls.out / name / "latest" / "report.json", name, **changes)

    @classmethod
    def changed(cls, file, name, **changes):
        report = json.loads(file.read_text()) | changes
        (cls.out / f"{name}.json").write_text(json.dumps(report))
        return render(cls.out / f"{name}.json", cls.out / f"{name}-page")

    def test_the_head_tells_of_several_launches(self):
        run = json.loads((self.out / "healthy" / "latest" / "report.json").read_text())["run"]
        self.assertEqual(run["launches"], 1)
        page = self.changed(self.out / "healthy" / "latest" / "report.json", "launches", run=run | {"launches": 276})
        self.assertIn("<li>276 launches</li>", chromium(page, "--dump-dom"))

    def test_the_first_screen_has_decision_suspect_pairs_and_curve(self):
        for options, seen in self.in_themes.items():
            self.assertEqual((seen["width"], seen["dark"]), (1280, bool(options)))
            for what, place in seen["places"].items():
                self.assertIsNotNone(place, what)
                self.assertLessEqual(place["bottom"], 900, what)
            self.assertLess(seen["height"], 3000)
            self.assertLess(seen["elements"], 3000)
            self.assertEqual((seen["cut"], max(seen["wide"], 0)), ([], 0))

    def test_on_a_phone_decision_and_suspect_come_first_and_nothing_reaches_out(self):
        for options in ((), (DARK,)) if NIGHTLY else ((),):
            seen = probe(self.slow, 380, *options)
            self.assertEqual(seen["width"], 380)
            self.assertEqual((seen["cut"], seen["wide"]), ([], 0))
            tops = [place["top"] for place in seen["places"].values()]
            self.assertEqual(tops, sorted(tops))
            self.assertLessEqual(seen["places"]["#problems .card"]["bottom"], 900)
            for what in ("#pairs svg.matrix", "#curve svg.chart"):
                self.assertGreater(seen["places"][what]["right"] - seen["places"][what]["left"], 280)

    def test_slow_cells_stand_out_of_the_card_more_than_usual_ones_in_both_themes(self):
        for options, seen in self.in_themes.items():
            colours = seen["colours"]
            steps = [contrast(colours[name], colours["card"]) for name in ("normal", "slower", "slow-pair", "very-slow")]
            self.assertEqual(steps, sorted(steps), options)
            self.assertGreater(steps[-1], 2 * steps[0], options)

    def test_the_decision_is_said_as_the_report_says_it(self):
        dom = Dom(chromium(self.slow, "--dump-dom"))
        heading = re.sub("<[^>]*>", "", re.search(r"<h1.*?</h1>", dom.markup, re.S).group(0))
        self.assertTrue(heading.endswith("REJECT n1"), heading)
        self.assertTrue(dom.title.startswith("REJECT n1: "))
        self.assertIn("NIC n1r5 moves half of what", dom.text)
        self.assertLess(dom.text.index("replace the instance of n1"), dom.text.index("run again on four hosts"))
        every = (("CANNOT TELL", "nothing was judged", "CANNOT TELL"), ("ACCEPT", "ACCEPT: all is sound", "ACCEPT"))
        for word, sentence, title in every if NIGHTLY else every[:1]:
            other = {"word": word, "parts": [], "sentence": sentence, "next": [], "command": ""}
            page = self.changed(self.out / "healthy.json", "other", decision=other)
            dom = Dom(chromium(page, "--dump-dom"))
            self.assertTrue(dom.title.startswith(title + ": "), dom.title)
            self.assertIn(sentence.split(": ")[-1], dom.text)
            self.assertEqual(dom.count("p", "command"), 0)

    def test_the_command_is_copied(self):
        script = """<script>addEventListener("load", async () => {
          let copied = null;
          Object.defineProperty(navigator, "clipboard", {value: {writeText: async (text) => { copied = text; }}});
          document.querySelector(".command button").click();
          await Promise.resolve();
          await Promise.resolve();
          const pre = document.createElement("pre");
          pre.id = "probe";
          pre.textContent = JSON.stringify({copied, said: document.querySelector(".command button").textContent});
          document.body.append(pre);
        });</script></body>"""
        self.assertEqual(probe(self.slow, 1280, script=script), {"copied": DECISION["command"], "said": "Copied"})

    def test_open_questions_name_the_candidates_and_the_next_measurement(self):
        question = {"candidates": ["nic n1r5", "link n0-n1"], "evidence": "both explain the slow pairs", "next": "pairs of n1 and n2",
                    "fault": "silent"}
        dom = Dom(chromium(self.changed(self.out / "slow.json", "asked", suspects=[], open_questions=[question]), "--dump-dom"))
        first = re.search(r'<section id="problems".*?</section>', dom.markup, re.S).group(0)
        for text in ("either nic n1r5 or link n0-n1", "both explain the slow pairs", "pairs of n1 and n2", "open question: silent"):
            self.assertIn(text, first)

    def test_a_healthy_report_speaks_of_no_bars_and_has_one_term_for_what_is_not_judged(self):
        dom, whole = folded_and_opened(self.healthy)
        self.assertNotIn("good from", dom.text)
        self.assertNotIn("launches</li>", dom.markup)
        self.assertIn("not judged", dom.text)
        for text in (dom.text, whole.text):
            self.assertNotRegex(text.replace("unknown to NCCL", ""), r"(?i)\b(unknown|skipped)\b")

    def cells(self, page, pattern="one_way", bytes_=None):
        address = f"#?pairs.pattern={pattern.replace('_', '-')}" + (f"&pairs.size={bytes_}" if bytes_ else "")
        dom = Dom(chromium(page, "--dump-dom", fragment=address))
        return {name: dom.count("rect", name) for name in ("cell", "normal", "slow-pair", "very-slow")}

    def test_a_cluster_that_is_slow_as_a_whole_does_not_look_well(self):
        faults = [part for node in range(4) for part in ("--fault", f"node:n{node}:0.5")]
        all_slow = self.cells(self.run_of("all", 4, *faults))
        self.assertEqual(all_slow["very-slow"] + all_slow["slow-pair"], all_slow["cell"])
        self.assertEqual(all_slow["cell"], 32 * 31)

    def test_a_healthy_cluster_looks_well_at_sizes_that_no_limit_rules(self):
        for size in (8, 1 << 20, None) if NIGHTLY else (8, None):
            healthy = self.cells(self.healthy, bytes_=size)
            self.assertEqual((healthy["very-slow"], healthy["slow-pair"]), (0, 0), size)
            self.assertGreater(healthy["normal"], 0.95 * healthy["cell"], size)

    def test_what_is_expected_of_a_pair_and_what_hosts_are_called(self):
        script = """<script>addEventListener("load", () => {
          const of = (bytes, limit, before) => known_rate({case: {bytes}, verdict: {limit_gb_per_s: limit},
            baseline: before === null ? null : {throughput_us: before}});
          const pre = document.createElement("pre");
          pre.id = "probe";
          pre.textContent = JSON.stringify({limit: of(1 << 28, 44.5, null), small: of(1 << 20, 44.5, null), none: of(1 << 28, null, null),
            before: of(1 << 20, null, 50), names: short_names(["ip-10-1-2-31.ec2.internal", "ip-10-1-2-4.ec2.internal"]),
            whole: short_names(["n0", "n1"]), same: short_names(["a.x", "a.y"])});
          document.body.append(pre);
        });</script></body>"""
        seen = probe(self.slow, 1280, script=script)
        self.assertAlmostEqual(seen["limit"], 0.75 * 44.5)
        self.assertEqual((seen["small"], seen["none"]), (0, 0))
        self.assertAlmostEqual(seen["before"], (1 << 20) / 50 / 1e3)
        self.assertEqual((seen["names"], seen["whole"], seen["same"]), (["31", "4"], ["n0", "n1"], ["a.x", "a.y"]))

    @unittest.skipUnless(NIGHTLY, "nightly: by day a job of 160 nodes is drawn as a picture")
    def test_a_large_job_is_drawn_on_a_canvas_with_few_elements(self):
        page = self.run_of("large", 64, "--fault", "node:n7:0.7", "--sizes", "8,1MiB,1GiB")
        seen = probe(page, 1280)
        self.assertLess(seen["elements"], 3000)
        self.assertLess(seen["height"], 3000)
        dom = Dom(chromium(page, "--dump-dom"))
        self.assertEqual((dom.markup.count("<image "), dom.count("rect", "cell")), (1, 0))
        whole = opened(page)
        self.assertEqual(whole.count("p", "alert"), whole.markup.count("<noscript>"), whole.text[:500])
        self.assertIn("n0 to n63 (64 hosts)", whole.text)


@unittest.skipUnless(NIGHTLY, "nightly: 4,096 ranks take half a minute")
class Large(unittest.TestCase):
    def test_a_page_of_4096_ranks_stays_small_and_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            subprocess.run([PROGRAM, "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "512", "--fault", "nic:n100r5:0.5",
                            "--quiet", "--cluster", "large", "--out", out], timeout=300, stdout=subprocess.DEVNULL)
            run = out / "large" / "latest"
            self.assertLess((run / "report.json").stat().st_size, 20e6)
            self.assertLess((run / "report.html").stat().st_size, 12e6)
            dom = Dom(chromium(run / "report.html", "--dump-dom"))
            self.assertEqual(dom.count("p", "alert"), dom.markup.count("<noscript>"), dom.text[:500])
            self.assertRegex(dom.markup, r'class="matrix" aria-label="Bandwidth of one_way, NIC 1 alone, 1 MiB between nodes')
            self.assertEqual(dom.markup.count('class="cell'), 512)
            self.assertLess(probe(run / "report.html", 1280)["elements"], 5000)
            two = Dom(chromium(run / "report.html", "--dump-dom", fragment="#?pairs.pattern=both-ways&pairs.open=100"))
            self.assertIn("All nodes", two.text)


if __name__ == "__main__":
    if not os.access(CHROMIUM, os.X_OK):
        print("skipped: chromium is not installed (apt-get install chromium)")
        sys.exit(77)
    unittest.main()
