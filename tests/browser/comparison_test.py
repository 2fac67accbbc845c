"""Renders a comparison as HTML and reads in headless Chromium what the page then shows."""

import copy
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from page_test import CHROMIUM, DARK, Dom, OPENER, PROBE, PROGRAM, chromium, make_examples, opened, probe, with_script  # noqa: E402

# How well the text of each step of change can be read, as the contrast that WCAG defines.
CONTRASTS = """<script>addEventListener("load", () => setTimeout(() => {
  const context = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const luminance = (colour) => {
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const linear = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const seen = {};
  for (const name of ["same", "some-faster", "much-faster", "some-slower", "much-slower", "far-slower"]) {
    const shown = document.body.appendChild(document.createElement("span"));
    shown.className = `shift ${name}`;
    const {color, backgroundColor} = getComputedStyle(shown), [low, high] = [luminance(color), luminance(backgroundColor)].sort((a, b) => a - b);
    seen[name] = (high + 0.05) / (low + 0.05);
  }
  const pre = document.createElement("pre");
  pre.id = "probe";
  pre.textContent = JSON.stringify(seen);
  document.body.append(pre);
}, 200));</script></body>"""


def slower(report, from_bytes, factor):
    """The same report with longer times, each of one launch."""
    report = copy.deepcopy(report)
    for m in report["measurements"]:
        series = m["throughput"]
        m["latency_launches_us"] = [m["latency"]["median_us"]] if m["latency"] else []
        if series and m["case"]["bytes"] >= from_bytes:
            for key in ("median_us", "min_us", "max_us"):
                series[key] *= factor
            for key in ("algbw_gb_per_s", "busbw_gb_per_s"):
                series[key] = series[key] and series[key] / factor
            if m["verdict"]["fraction_of_limit"]:
                m["verdict"]["fraction_of_limit"] /= factor
            series["ci95_us"] = [value * factor for value in series["ci95_us"]]
            m["launches_us"] = [series["median_us"]]
    return report


class ComparisonPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name)
        base = slower(make_examples.simulated(), 0, 1)
        base["context"]["nccl"] = "2.27.7"
        fresh = slower(base, 64 << 20, 1.5)
        fresh["context"]["nccl"] = make_examples.HOSTILE_NAME
        base["suspects"] = []
        (folder / "base.json").write_text(json.dumps(base))
        (folder / "new.json").write_text(json.dumps(fresh))
        done = subprocess.run([PROGRAM, "compare", folder / "base.json", folder / "new.json", "--format", "html", "--out",
                               folder], timeout=60)
        assert done.returncode == 10, done
        cls.page = folder / "comparison.html"
        cls.first = Dom(chromium(cls.page, "--dump-dom"))
        cls.dom = opened(cls.page)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_is_drawn_without_an_error(self):
        for dom in (self.first, self.dom):
            self.assertEqual(dom.count("p", "alert"), dom.markup.count("<noscript>"), dom.text[:500])

    def test_what_got_slower_comes_first_with_its_sizes_and_the_rest_is_folded(self):
        figures = re.findall(r"<figcaption>([^<]*)</figcaption>.*?</figure>", self.first.markup, re.S)
        self.assertTrue(figures and all("throughput" in name for name in figures), figures)
        self.assertNotIn("\u2713 NO REGRESSION", self.first.text)
        self.assertIn("\u2713 NO REGRESSION", self.dom.text)
        self.assertEqual((self.first.count("svg", "forest"), self.dom.count("svg", "forest")), (0, 1))
        first = re.search(r"<figure>.*?</figure>", self.first.markup, re.S).group(0)
        self.assertIn("far-slower", first)
        self.assertRegex(first, r'<th scope="row">\d+ (?:MiB|GiB)</th>')
        self.assertIn("Other differences: nccl: 2.27.7", self.first.text)
        header = re.search(r"<header.*?</header>", self.first.markup, re.S).group(0)
        self.assertRegex(header, r"NEW suspects nic</span>n1r5")
        self.assertIn("Do: Take n1 out of the job", header)

    def test_nothing_reaches_out_of_its_card_at_any_width_and_both_themes_can_be_read(self):
        page = with_script(self.page, OPENER, "all.html")
        for width in (380, 1280):
            for options in ((), (DARK,)):
                seen = probe(page, width, *options)
                self.assertEqual((seen["width"], seen["dark"]), (width, bool(options)))
                self.assertEqual((seen["cut"], max(seen["wide"], 0)), ([], 0), (width, options))
        for options in ((), (DARK,)):
            seen = probe(self.page, 1280, *options, script=CONTRASTS)
            self.assertEqual(len(seen), 6)
            self.assertGreater(min(seen.values()), 4.5, (options, seen))

    def test_says_the_answer_first(self):
        self.assertIn("REGRESSION", re.search(r"<h1.*?</h1>", self.dom.markup, re.S).group(0))
        self.assertTrue(self.dom.title.startswith("REGRESSION"))
        self.assertIn("SIMULATED All figures come from a model", self.dom.text)

    def test_names_bands_by_what_they_mean_the_answer_first(self):
        self.assertIn("large messages (from 64 MiB)", self.dom.text)
        self.assertIn("small messages (up to 64 KiB)", self.dom.text)
        self.assertNotRegex(self.dom.text, r"throughput,? bandwidth|latency,? latency|throughput,? mid\b")
        self.assertRegex(self.dom.markup, r'<th scope="col">Answer</th><th scope="col">Collective</th>')

    def test_shows_every_band_and_size(self):
        rows = len(re.findall(r'<g class="(?:ok|slow|unknown)">', self.dom.markup))
        self.assertGreater(rows, 5)
        in_the_headline, slower = 1, self.dom.markup.count('<g class="slow">')  # each as a figure and in the table
        self.assertEqual(self.dom.text.count("\u25bc REGRESSION"), in_the_headline + 2 * slower)
        self.assertIn("+50.0 %", self.dom.text)
        self.assertGreater(self.dom.count("td", "far-slower"), 3)

    def test_leaves_hostile_text_text(self):
        self.assertIn(make_examples.HOSTILE_NAME, self.dom.text)
        self.assertNotIn(make_examples.HOSTILE_NAME, self.page.read_text())

    def test_asks_nothing_of_a_network(self):
        drawn = self.page.read_text().replace("http://www.w3.org/2000/svg", "")
        self.assertIn("default-src 'none'", drawn)
        self.assertNotRegex(drawn, r"https?://|\bsrc=|@import|url\((?!#)")


class OtherComparisons(unittest.TestCase):
    def compared(self, folder, collectives, *cases):
        """Simulated runs: a folder for each case, named after it."""
        for name, *more in cases:
            subprocess.run([PROGRAM, "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "2", "--quiet", "--tuning", "off", "--min", "64MiB",
                            "--max", "256MiB", "--collectives", *collectives, *more, "--out", folder / name], timeout=60, stdout=subprocess.DEVNULL)

    def page(self, folder, base, fresh):
        subprocess.run([PROGRAM, "compare", base, fresh, "--format", "html", "--out", folder], timeout=60, stdout=subprocess.DEVNULL)
        return opened(folder / "comparison.html")

    def test_sizes_of_traffic_stand_below_its_band(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.compared(folder, ["all_to_allv", "--traffic", "zipf:1.1"], ("a", "--seed", "1"), ("b", "--seed", "2", "--fault", "node:n0:0.5"))  # its ranks receive most
            dom = self.page(folder, folder / "a/latest", folder / "b/latest")
        figure = next(each for each in re.findall(r"<figure>.*?</figure>", dom.markup, re.S) if "all_to_allv zipf:1.1" in each)
        self.assertIn('aria-label="Sizes"', figure)
        self.assertRegex(figure, r'<th scope="row">256 MiB</th>')

    def test_imports_of_simulated_figures_are_said_to_be_simulated(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.compared(folder, ["all_reduce"], ("a", "--seed", "1"), ("b", "--seed", "2"))
            for each in "ab":
                table = subprocess.run([PROGRAM, "report", folder / each / "latest", "--as", "nccl-tests"], timeout=60, capture_output=True, text=True)
                (folder / f"{each}.txt").write_text(table.stdout)
                subprocess.run([PROGRAM, "import", "nccl-tests", folder / f"{each}.txt", "--out", folder], timeout=60, stdout=subprocess.DEVNULL)
            dom = self.page(folder, folder / "imported/a", folder / "imported/b")
        self.assertIn("SIMULATED All figures come from a model", dom.text)
        self.assertNotIn("measured by another program", dom.text)
        self.assertIn("(simulated)", dom.title)

    def test_sizes_of_one_of_several_jobs_stand_below_its_band(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.compared(folder, ["all_reduce"], ("a", "--seed", "1"), ("b", "--seed", "2", "--fault", "node:n0:0.5"))
            subprocess.run([PROGRAM, "--backend", "sim", "--platform", "p5.48xlarge", "--quiet", "--tuning", "off", "--min", "64MiB", "--max", "256MiB",
                            "--collectives", "all_reduce", "--seed", "3", "--nodes", "1", "--out", folder / "one"], timeout=60, stdout=subprocess.DEVNULL)
            tables = {each: subprocess.run([PROGRAM, "report", folder / each / "latest", "--as", "nccl-tests"], timeout=60, capture_output=True, text=True).stdout
                      for each in ("a", "b", "one")}
            for each in "ab":
                (folder / f"{each}.txt").write_text(tables["one"] + tables[each])
                subprocess.run([PROGRAM, "import", "nccl-tests", folder / f"{each}.txt", "--out", folder], timeout=60, stdout=subprocess.DEVNULL)
            dom = self.page(folder, folder / "imported/a", folder / "imported/b")
        figure = next(each for each in re.findall(r"<figure>.*?</figure>", dom.markup, re.S) if "all_reduce, 16 ranks on 2 nodes" in each)
        self.assertIn('aria-label="Sizes"', figure)
        self.assertRegex(figure, r'<th scope="row">256 MiB</th>')


# Reads the last run but one of the first chart with the keyboard.
READER = """<script>
document.addEventListener("DOMContentLoaded", () => {
  const press = (target, key) => target.dispatchEvent(new KeyboardEvent("keydown", {key, cancelable: true}));
  const chart = document.querySelector("svg.trend");
  press(chart, "End");
  press(chart, "ArrowLeft");
});
</script></body>"""
# Says how far anything of the first column of answers lies outside of what is seen of its table.
MEASURE = """<script>
addEventListener("load", () => setTimeout(() => {
  const box = document.querySelector(".answers"), cut = [];
  for (const cell of box.querySelectorAll("tbody th")) {
    const inside = cell.firstElementChild.getBoundingClientRect(), frame = box.getBoundingClientRect();
    cut.push(Math.max(inside.right - Math.min(frame.right, innerWidth), frame.left - inside.left, 0));
  }
  const wide = document.documentElement.scrollWidth - innerWidth;
  document.body.append(`cut=${Math.max(...cut).toFixed(1)} wide=${wide} width=${innerWidth} end`);
}, 200));
</script></body>"""


def history(folder, days=24, slower_from=16):
    """A run a day, slower from 64 MiB on since another NCCL."""
    draw = random.Random(1)
    base = make_examples.simulated()
    base["measurements"] = [m for m in base["measurements"] if m["case"]["collective"] == "all_reduce"]
    for day in range(days):
        late = day >= slower_from
        report = slower(slower(base, 0, draw.gauss(1, 0.005)), 64 << 20, 1.1 if late else 1)
        report["run"]["started"] = f"2026-10-{day + 1:02}T06:00:00Z"
        report["context"]["nccl"] = make_examples.HOSTILE_NAME if late else "2.27.7"
        (folder / f"day{day:02}").mkdir(parents=True)
        (folder / f"day{day:02}/report.json").write_text(json.dumps(report))
    done = subprocess.run([PROGRAM, "compare", "--history", folder, "--format", "html", "--out", folder / "out"],
                          stdout=subprocess.PIPE, timeout=60)
    assert done.returncode in (0, 10, 14), done


class HistoryPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name) / "history"
        history(folder)
        cls.page = folder / "out/comparison.html"
        read = cls.page.with_name("read.html")
        read.write_text(cls.page.read_text().replace("</body>", READER))
        cls.dom = opened(read)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_draws_runs_levels_steps_and_what_changed(self):
        self.assertEqual(self.dom.count("p", "alert"), self.dom.markup.count("<noscript>"), self.dom.text[:500])
        charts = re.findall(r'<svg [^>]*class="trend".*?</svg>', self.dom.markup, re.S)
        self.assertGreater(len(charts), 1)
        for chart in charts:
            self.assertEqual(chart.count('class="run"'), 24)
            self.assertEqual(chart.count('class="changed"'), 1)
            self.assertEqual(chart.count('class="newest"'), 1)
            self.assertRegex(chart, r">newest [+\u2212]\d+\.\d %<")
            self.assertRegex(chart, r">2026-10-\d\d<")
        stepped = [chart for chart in charts if 'class="step slow"' in chart]
        self.assertEqual(stepped, charts[:len(stepped)], "what changed comes first")
        self.assertGreater(len(stepped), 0)
        for chart in stepped:
            self.assertEqual(chart.count('class="level"'), 2)
        beside = re.findall(r'<ul class="changes small">(.*?)</ul>', self.dom.markup, re.S)
        self.assertEqual(len(beside), len(charts))
        self.assertTrue(all("2026-10-17" in text and "nccl: 2.27.7" in text for text in beside))
        steady = charts[len(stepped):]
        self.assertTrue(steady and all(chart.count('class="level"') == 1 for chart in steady))

    def test_the_table_of_changes_and_the_readout_say_when_and_what(self):
        self.assertRegex(self.dom.text, r"slower \+\d+\.\d % 2026-10-17T06:00:00Z all_reduce, throughput, large messages 16, 8")
        self.assertIn(f"nccl: 2.27.7 \u2192 {make_examples.HOSTILE_NAME}", self.dom.text)
        self.assertRegex(self.dom.text, r"2026-10-23T06:00:00Z \+\d")
        self.assertNotIn("<script>document.title", self.page.read_text())

    def test_no_answer_is_cut_off_at_any_width(self):
        # The window is never narrower than 500 px: a frame is.
        measured = self.page.with_name("measured.html")
        measured.write_text(self.page.read_text().replace("</body>", MEASURE))
        for width in (380, 800, 1200, 1900):
            framed = self.page.with_name("framed.html")
            framed.write_text(f"<iframe width={width} height=900 src={measured.name}></iframe><script>addEventListener('load', () => "
                              "setTimeout(() => document.body.append(frames[0].document.body.lastChild.textContent), 1500))</script>")
            dumped = chromium(framed, "--dump-dom", "--window-size=2000,1200", "--allow-file-access-from-files")
            found = re.search(r"cut=([\d.]+) wide=(-?\d+) width=(\d+) end", dumped)
            self.assertTrue(found, dumped[-300:])
            self.assertEqual(int(found[3]), width)
            self.assertEqual((float(found[1]), int(found[2])), (0, 0), width)


if __name__ == "__main__":
    if not os.access(CHROMIUM, os.X_OK):
        print("skipped: chromium is not installed (apt-get install chromium)")
        sys.exit(77)
    unittest.main()
