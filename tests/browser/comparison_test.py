"""Renders a comparison as HTML and reads in headless Chromium what the page then shows."""

import copy
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from page_test import CHROMIUM, Dom, PROGRAM, chromium, make_examples  # noqa: E402


def slower(report, from_bytes, factor):
    """The same report with longer times."""
    report = copy.deepcopy(report)
    for m in report["measurements"]:
        series = m["throughput"]
        if series and m["case"]["bytes"] >= from_bytes:
            for key in ("median_us", "min_us", "max_us"):
                series[key] *= factor
            series["ci95_us"] = [value * factor for value in series["ci95_us"]]
            m["launches_us"] = [series["median_us"]]
    return report


class ComparisonPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.folder.name)
        base = make_examples.simulated()
        base["context"]["nccl"] = "2.27.7"
        fresh = slower(base, 64 << 20, 1.5)
        fresh["context"]["nccl"] = make_examples.HOSTILE_NAME
        (folder / "base.json").write_text(json.dumps(base))
        (folder / "new.json").write_text(json.dumps(fresh))
        done = subprocess.run([PROGRAM, "compare", folder / "base.json", folder / "new.json", "--format", "html", "--out",
                               folder], timeout=60)
        assert done.returncode == 10, done
        cls.page = folder / "comparison.html"
        cls.dom = Dom(chromium(cls.page, "--dump-dom"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_is_drawn_without_an_error(self):
        self.assertEqual(self.dom.count("p", "alert"), self.dom.markup.count("<noscript>"), self.dom.text[:500])

    def test_says_the_answer_first(self):
        self.assertIn("REGRESSION", re.search(r"<h1.*?</h1>", self.dom.markup, re.S).group(0))
        self.assertTrue(self.dom.title.startswith("REGRESSION"))
        self.assertIn("SIMULATED All figures come from a model", self.dom.text)

    def test_shows_every_band_and_size(self):
        rows = len(re.findall(r'<g class="(?:ok|slow|unknown)">', self.dom.markup))
        self.assertGreater(rows, 5)
        in_the_headline = 1
        self.assertEqual(self.dom.text.count("\u25bc REGRESSION"), in_the_headline + self.dom.markup.count('<g class="slow">'))
        self.assertIn("+50.0 %", self.dom.text)
        self.assertGreater(self.dom.count("td", "far-slower"), 3)

    def test_leaves_hostile_text_text(self):
        self.assertIn(make_examples.HOSTILE_NAME, self.dom.text)
        self.assertNotIn(make_examples.HOSTILE_NAME, self.page.read_text())

    def test_asks_nothing_of_a_network(self):
        drawn = self.page.read_text().replace("http://www.w3.org/2000/svg", "")
        self.assertIn("default-src 'none'", drawn)
        self.assertNotRegex(drawn, r"https?://|\bsrc=|@import|url\((?!#)")


if __name__ == "__main__":
    if not os.access(CHROMIUM, os.X_OK):
        print("skipped: chromium is not installed (apt-get install chromium)")
        sys.exit(77)
    unittest.main()
