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


def chromium(page, *options):
    """Standard output of headless Chromium that opens the page from its file, without a network."""
    with tempfile.TemporaryDirectory() as profile:
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                   "--hide-scrollbars", "--run-all-compositor-stages-before-draw", "--virtual-time-budget=5000",
                   f"--user-data-dir={profile}", *options, page.as_uri()]
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
        self.assertEqual(simulated.count("path", "line"), 18 + 4)
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

    def test_embeds_the_whole_report(self):
        schema = json.loads((SOURCE / "reports/schema/report.schema.json").read_text())
        for name, make in make_examples.EXAMPLES.items():
            report = embedded_report(self.pages[name].read_text())
            jsonschema.Draft202012Validator(schema).validate(report)
            self.assertEqual(len(report["measurements"]), len(make()["measurements"]))

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

    def test_draws_a_large_job_as_one_picture_with_node_names(self):
        file = pathlib.Path(self.folder.name) / "large.json"
        file.write_text(make_examples.text_of(make_examples.simulated(nodes=12)))
        dom = Dom(chromium(render(file, pathlib.Path(self.folder.name) / "large"), "--dump-dom"))
        self.assert_drawn(dom)
        self.assertEqual(dom.count("rect", "cell"), 0)
        self.assertEqual(dom.markup.count("<image "), 3)
        self.assertRegex(dom.markup, r"<text[^>]*>n11</text>")

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
        self.assertIn('<tbody><tr><th scope="row">p2p one_way, same node</th><td class="number">2 GiB</td>', table)

    def test_draws_at_the_width_of_a_phone(self):
        page = self.pages["simulated.json"]
        picture = pathlib.Path(self.folder.name) / "phone.png"
        chromium(page, "--window-size=390,900", f"--screenshot={picture}")
        self.assertEqual(picture.read_bytes()[:4], b"\x89PNG")
        dom = chromium(page, "--window-size=500,900", "--dump-dom")
        widths = [int(width) for width in re.findall(r'class="(?:chart|matrix)"[^>]*viewBox="0 0 (\d+) ', dom)]
        self.assertEqual(len(widths), 16 + 3)
        self.assertLess(max(widths), 500)


if __name__ == "__main__":
    if not os.access(CHROMIUM, os.X_OK):
        print("skipped: chromium is not installed (apt-get install chromium)")
        sys.exit(77)
    unittest.main()
