"""Renders the example reports as HTML and reads in headless Chromium what the page then shows."""

import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import jsonschema

SOURCE = pathlib.Path(os.environ["P5BENCH_SOURCE"])
PROGRAM = pathlib.Path(os.environ["P5BENCH_BUILD"]) / "p5bench"
EXAMPLES = SOURCE / "tests" / "fixtures" / "reports"
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
sys.path.insert(0, str(EXAMPLES))
import make_examples  # noqa: E402


def render(report, folder):
    """The page that the program makes of a report."""
    subprocess.run([PROGRAM, "report", report, "--format", "html", "--out", folder], check=True, timeout=60)
    return pathlib.Path(folder) / "report.html"


def chromium(page, *options, fragment=""):
    """Standard output of headless Chromium that opens the page from its file, without a network."""
    with tempfile.TemporaryDirectory() as profile:
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                   "--hide-scrollbars", "--run-all-compositor-stages-before-draw", "--virtual-time-budget=5000",
                   f"--user-data-dir={profile}", *options, page.as_uri() + fragment]
        done = subprocess.run(command, check=True, timeout=120, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return done.stdout.decode()


# What a reader does: keys on a curve and on a matrix, another size, and two clicks on the head of the busbw column.
READER = """<script>
document.addEventListener("DOMContentLoaded", () => {
  const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", {key, cancelable: true}));
  const chart = document.querySelector(".chart"), matrix = document.querySelector(".matrix");
  press(chart, "End");
  press(chart, "ArrowLeft");
  const select = document.querySelector("#pairs select");
  select.value = "0";
  select.dispatchEvent(new Event("change"));
  matrix.dispatchEvent(new FocusEvent("focus"));
  for (let step = 0; step < 12; step++) press(matrix, "ArrowRight");
  const head = [...document.querySelectorAll("#measurements th button")].find((b) => b.textContent.startsWith("busbw"));
  head.click();
  head.click();
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
        cls.pages, cls.doms = {}, {}
        for name in make_examples.EXAMPLES:
            cls.pages[name] = render(EXAMPLES / name, pathlib.Path(cls.folder.name) / name)
            cls.doms[name] = Dom(chromium(cls.pages[name], "--dump-dom"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def assert_drawn(self, dom):
        """No part of the page complained."""
        self.assertEqual(dom.count("p", "alert"), dom.markup.count("<noscript>"), dom.text[:500])

    def test_draws_every_example_without_an_error(self):
        for name, dom in self.doms.items():
            with self.subTest(name):
                self.assert_drawn(dom)
                for section in ("problems", "charts", "measurements", "limits", "machine"):
                    self.assertIn(f'<section id="{section}"', dom.markup)

    def test_says_the_verdict_and_why_first(self):
        words = {"simulated.json": "SLOW", "measured.json": "OK", "partial.json": "NOT JUDGED",
                 "empty.json": "NOT JUDGED", "wrong.json": "WRONG DATA"}
        for name, word in words.items():
            with self.subTest(name):
                heading = re.search(r"<h1.*?</h1>", self.doms[name].markup, re.S)
                self.assertIn(word, heading.group(0))
                self.assertTrue(self.doms[name].title.startswith(word))
        self.assertIn("nic n1r5 (n1", re.search(r'<p class="because">(.*?)</p>',
                                                      self.doms["simulated.json"].markup).group(1))

    def test_warns_of_what_was_not_really_measured(self):
        self.assertIn("SIMULATED These figures come from a model", self.doms["simulated.json"].text)
        self.assertIn("(simulated)", self.doms["simulated.json"].title)
        self.assertIn("PARTIAL The run did not finish its plan. Ended by: SIGTERM.", self.doms["partial.json"].text)
        self.assertIn("PRETENDED NODES", self.doms["measured.json"].text)
        for banner in ("SIMULATED", "PARTIAL", "PRETENDED"):
            self.assertNotIn(banner, self.doms["wrong.json"].text)

    def test_draws_a_line_and_its_interval_for_each_series(self):
        simulated = self.doms["simulated.json"]
        # Bandwidth and latency of three p2p patterns for two kinds of pairs, two kinds of all_reduce (in legends too) and
        # all_gather.
        self.assertEqual(simulated.count("svg", "chart"), 16)
        own, in_legends = 18, 4
        self.assertEqual(simulated.count("path", "line"), own + in_legends + 1)  # and in the legend beside the published
        self.assertEqual(simulated.count("g", "reference"), 2)  # published figures of all_reduce and all_gather
        self.assertEqual(simulated.count("path", "band"), 18)
        self.assertIn("achievable limit 388.0 GB/s (nic)", simulated.text)

    def test_draws_a_cell_for_each_measured_pair(self):
        simulated = self.doms["simulated.json"]
        self.assertEqual(simulated.count("svg", "matrix"), 3)
        self.assertEqual(simulated.count("rect", "cell"), 3 * 16 * 15)
        self.assertEqual(simulated.count("rect", "very-slow"), 3 * 2 * 8)
        measured = self.doms["measured.json"]
        self.assertEqual(measured.count("rect", "cell"), 12)
        self.assertEqual(measured.count("rect", "very-slow"), 0)

    def test_shows_suspects_and_wrong_elements_with_what_to_do(self):
        self.assertIn("n1r5 (n1)", self.doms["simulated.json"].text)
        self.assertIn("Take n1 out of the job", self.doms["simulated.json"].text)
        self.assertIn("First: rank 2, element 4711: wanted 6, got 5.5.", self.doms["wrong.json"].text)
        self.assertIn("The worker of rank 3 died with signal 11", self.doms["wrong.json"].text)

    def test_shows_the_last_words_of_a_rank_that_failed(self):
        text = self.doms["wrong.json"].text
        self.assertIn("Last 2 lines of rank 3", text)
        self.assertIn("<b>no</b> WARN", text)
        self.assertIn("rank 3 does not respond", text)

    def test_lists_every_measurement(self):
        for name, make in make_examples.EXAMPLES.items():
            table = re.search(r'<table class="measurements">.*?</table>', self.doms[name].markup, re.S)
            rows = table.group(0).count("<tr>") - 1 if table else 0
            self.assertEqual(rows, len(make()["measurements"]), name)

    def test_shows_what_each_gpu_does_alone(self):
        self.assertIn("Each GPU alone", self.doms["wrong.json"].text)
        self.assertIn("2602", self.doms["wrong.json"].text)
        self.assertNotIn("Each GPU alone", self.doms["measured.json"].text)

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

    def test_keeps_all_digits_of_the_seed(self):
        self.assertIn("18446744073709551615", self.doms["measured.json"].text)

    def test_leaves_a_hostile_name_text(self):
        wrong = self.doms["wrong.json"]
        self.assertIn(make_examples.HOSTILE_NAME, wrong.text)
        self.assertIn("</script><!-- <script> {{data}} \u00e9", wrong.text)
        self.assertEqual(wrong.title, "WRONG DATA: p5.48xlarge-1")
        self.assertNotIn(make_examples.HOSTILE_NAME, self.pages["wrong.json"].read_text())

    def test_says_so_where_nothing_was_measured(self):
        for name in ("partial.json", "empty.json"):
            self.assertIn("Nothing was measured.", self.doms[name].text)
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
        self.assertEqual(dom.count("rect", "cell"), 3 * 12 * 12)
        self.assertRegex(dom.markup, r"<text[^>]*>n11</text>")
        self.assertIn("a click shows them all", dom.text)
        opened = Dom(chromium(page, "--dump-dom", fragment="#pairs?pairs.one-way.open=1-7"))
        self.assert_drawn(opened)
        self.assertEqual(opened.count("rect", "cell"), 2 * 12 * 12 + 16 * 15)
        self.assertEqual(opened.text.count("All nodes"), dom.text.count("All nodes"))

    def test_draws_a_job_of_very_many_nodes_as_one_picture_with_the_slow_ones_on_top(self):
        file = pathlib.Path(self.folder.name) / "huge.json"
        report = make_examples.simulated(nodes=9)
        of_pairs = [m for m in report["measurements"] if m.get("pairs")]
        report["measurements"] = of_pairs[:1]
        report["run"]["ranks"], nodes = 160, 160
        report["topology"]["host_of_rank"] = list(range(nodes))
        report["topology"]["hosts"] = [report["topology"]["hosts"][0] | {"name": f"n{i}"} for i in range(nodes)]
        pairs = [[a, b, 100.0] for a in range(nodes) for b in range(nodes) if a != b and (a + b) % 3]
        pairs[5][2], pairs[-3][2] = 300.0, 115.0
        of_pairs[0]["pairs"], of_pairs[0]["case"]["pattern"] = pairs, "one_way"
        file.write_text(make_examples.text_of(report))
        dom = Dom(chromium(render(file, pathlib.Path(self.folder.name) / "huge"), "--dump-dom"))
        self.assert_drawn(dom)
        self.assertEqual(dom.markup.count("<image "), 1)
        self.assertEqual((dom.count("rect", "very-slow"), dom.count("rect", "slower")), (1, 1))

    def test_draws_what_is_wrong_in_the_machine_where_it_sits(self):
        report = make_examples.simulated()
        gpu = {"uuid": "GPU-1", "name": "H100", "architecture": 90, "links": 18, "links_possible": 18, "numa_node": 0,
               "pci": {"address": "0000:53:00.0", "path": ["pci0000:50", "0000:50:00.0"]}}
        host = report["topology"]["hosts"][0]
        host["gpu_devices"] = [gpu, {**gpu, "links": 15}]
        host["nics"][3]["pci"] = gpu["pci"]
        report["grade"] = "faulty"
        report["findings"] = [{"id": "gpu.links", "severity": "error", "about": "fabric", "evidence": "3 links are down", "action": "",
                               "subject": {"host": host["name"], "instance": "", "gpu": 1, "nic": None}}]
        file = pathlib.Path(self.folder.name) / "topology.json"
        file.write_text(make_examples.text_of(report))
        dom = Dom(chromium(render(file, pathlib.Path(self.folder.name) / "topology"), "--dump-dom"))
        self.assert_drawn(dom)
        self.assertRegex(dom.markup, r'<h1 class="faulty">.*?FAULTY</h1>\s*<p class="because">3 links are down\.</p>')
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

    def test_answers_keys_sizes_and_sorting(self):
        page = pathlib.Path(self.folder.name) / "read.html"
        page.write_text(self.pages["simulated.json"].read_text().replace("</body>", READER))
        dom = Dom(chromium(page, "--dump-dom"))
        self.assert_drawn(dom)
        self.assertRegex(dom.text, r"512 MiB 3\d\d\.\d+ GB/s \(95 %: 3[\d.]+ to 3[\d.]+\), \d+ .s, 9\d\.\d % of the limit")
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
        self.assertEqual(len(widths), 16 + 3)
        self.assertLess(max(widths), 500)


# What a reader does with each control, and what came of it, as JSON in an element at the end. Files are caught where the
# page would hand them to the browser.
CONTROLS = """<script>
document.addEventListener("DOMContentLoaded", async () => {
  const files = {}, seen = {}, wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  // What a Blob was made of: its text() comes from another process, whose time the page's clock here does not count.
  window.Blob = class extends Blob { constructor(parts, how) { super(parts, how); this.made_of = parts.join(""); } };
  URL.createObjectURL = (blob) => { files.last = blob; return "blob:none"; };
  HTMLAnchorElement.prototype.click = function() { files[this.download.replace(/.*[.]/, "")] = [this.download, files.last]; };
  const figure = document.querySelector("#charts figure"), chart = figure.querySelector(".chart");
  const tool = (text, of = figure) => [...of.querySelectorAll(".tool")].find((b) => b.textContent === text);
  const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", {key, cancelable: true}));
  const lines = () => chart.querySelectorAll(".line").length, points = () => chart.querySelectorAll(".marker").length;
  const say = (name, value) => { seen[name] = value; };

  say("lines", lines());
  say("points", points());
  const toggle = figure.querySelector(".toggle:last-child") ?? figure.querySelector(".toggle");
  [...figure.querySelectorAll(".toggle")].at(-1).click();
  say("lines without one", lines());
  say("pressed", [...figure.querySelectorAll(".toggle")].map((t) => t.getAttribute("aria-pressed")));
  press(chart, "End");
  press(chart, "+");
  say("points zoomed", points());
  say("whole range offered", !tool("Whole range").hidden);
  say("address", location.hash);
  tool("Whole range").click();
  [...figure.querySelectorAll(".toggle")].at(-1).click();
  say("points again", points());
  say("address again", location.hash);

  const box = chart.getBoundingClientRect();
  const drag = (type, part) => chart.dispatchEvent(new PointerEvent(type,
    {clientX: box.left + part * box.width, clientY: box.top + 50, pointerType: "mouse", button: 0, bubbles: true}));
  drag("pointerdown", 0.3); drag("pointermove", 0.7); drag("pointerup", 0.7);
  say("points drawn across", points());
  press(chart, "Escape");
  tool("Samples").click();
  say("samples", [figure.querySelectorAll(".sample").length, figure.querySelector(".samples-box").textContent]);
  say("address of samples", location.hash);

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
  // Drawn by other threads, whose time the page's clock here does not count: each turn takes a while for certain.
  for (let turn = 0, burnt = 0; turn < 100 && !files.png; turn++) {
    for (let i = 0; i < 3e6; i++) burnt += Math.sqrt(i);
    await wait(10);
  }
  say("png", [files.png?.[0], files.png?.[1].type, files.png?.[1].size]);
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
});
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
        cls.dom = Dom(chromium(used, "--dump-dom"))
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
        self.assertEqual(dom.count("svg", "evidence"), 1)
        self.assertRegex(dom.markup, r'aria-label="Rates with n1r5: median [0-9.]+ % of what is usual; without: (9|10)\d\.\d %"')
        self.assertGreater(dom.count("circle", "with"), 3)
        self.assertGreater(dom.count("rect", "suspect"), 0)
        self.assertIn('<a href="#host-1">In the machine</a>', dom.markup)

    def test_a_curve_is_left_out_by_its_name_and_comes_back(self):
        self.assertEqual(self.seen["lines without one"], self.seen["lines"] - 1)
        self.assertEqual(self.seen["pressed"][-1], "false")
        self.assertTrue(all(pressed == "true" for pressed in self.seen["pressed"][:-1]))

    def test_zooming_shows_fewer_sizes_and_stands_in_the_address(self):
        self.assertLess(self.seen["points zoomed"], self.seen["points"])
        self.assertTrue(self.seen["whole range offered"])
        self.assertRegex(self.seen["address"], r"zoom=\d+-1073741824")
        self.assertIn(".without=1", self.seen["address"])
        self.assertEqual(self.seen["points again"], self.seen["points"])
        self.assertEqual(self.seen["address again"], "")
        self.assertLess(self.seen["points drawn across"], self.seen["points"])

    def test_an_address_opens_the_same_view(self):
        again = Dom(chromium(self.page, "--dump-dom", fragment=self.seen["address"]))
        self.assertIn('aria-pressed="false"', again.markup)
        whole = Dom(chromium(self.page, "--dump-dom"))
        self.assertLess(again.count("path", "marker"), whole.count("path", "marker"))
        self.assertEqual(set(self.seen["rows of the link"]), {row for row in self.rows() if row.startswith("p2p")})
        self.assertRegex(self.seen["address after a section"], r"^#limits\?.*filter=all_reduce")
        strange = Dom(chromium(self.page, "--dump-dom", fragment="#nowhere?filter=%3Cb%3E&pairs.one-way.size=7&x=%zz"))
        self.assertEqual(strange.count("p", "alert"), strange.markup.count("<noscript>"))

    def rows(self):
        table = re.search(r'<table class="measurements">.*?</table>', self.dom.markup, re.S).group(0)
        return re.findall(r'<th scope="row">([^<]*)<', table)

    def test_every_sample_is_shown(self):
        dots, words = self.seen["samples"]
        size = int(re.search(r"samples=(\d+)", self.seen["address of samples"]).group(1))
        first = next(m for m in self.report["measurements"] if m["case"]["pattern"] == "both_ways" and
                     m["case"]["pair"] == "same_node" and m["case"]["bytes"] == size)
        self.assertEqual(dots, first["throughput"]["samples"])
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
        self.assertEqual(rows[0], "curve,bytes,GB/s,low,high")
        self.assertEqual(len(rows) - 1, self.seen["points"])


@unittest.skipUnless(os.environ.get("P5BENCH_NIGHTLY"), "nightly: 4,096 ranks take half a minute")
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
            self.assertTrue(dom.title.startswith("SLOW"))
            self.assertGreater(dom.count("rect", "very-slow"), 0)
            opened = Dom(chromium(run / "report.html", "--dump-dom", fragment="#pairs?pairs.both-ways.open=100"))
            self.assertIn("All nodes", opened.text)


if __name__ == "__main__":
    if not os.access(CHROMIUM, os.X_OK):
        print("skipped: chromium is not installed (apt-get install chromium)")
        sys.exit(77)
    unittest.main()
