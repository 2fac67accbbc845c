"""Work beside a collective on the simulator, whose parts have known rates: figures, files, comparisons, refusals."""

import csv
import json
import pathlib
import sys

import jsonschema

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, main, read_report, validator  # noqa: E402

SIM = ["--backend", "sim", "--platform", "p5.48xlarge", "--seed", "1", "--collectives", "all_reduce", "--sizes", "512MiB"]
SCHEMA = json.loads((pathlib.Path(__file__).resolve().parents[2] / "reports/schema/report.schema.json").read_text())


class Beside(Folder):
    def measured(self, *arguments, command="run", exits=14, name="out"):
        done = self.run_it(command, *SIM, *arguments, "--out", name)
        self.assertEqual(done.returncode, exits, done.stderr + done.stdout)
        report = read_report(self.folder / name / "latest" / "report.json")
        jsonschema.Draft202012Validator(SCHEMA).validate(report)
        return report, done.stdout

    def test_products_and_a_collective_slow_each_other_by_the_processors_that_both_want(self):
        report, printed = self.measured("--beside", "gemm", "--format", "json,csv,html,console")
        (m,) = report["measurements"]
        self.assertEqual(m["case"]["beside"], ["gemm:8192,8192,bf16"])
        self.assertEqual((m["verdict"]["grade"], m["verdict"]["because"]), ("unknown", "not judged: no figure of a healthy machine is known for operations beside gemm:8192,8192,bf16"))
        self.assertEqual(report["provenance"], "simulated")
        # The model's collective takes 24 of 132 processors, a product all of them.
        wanted = 1 + 24 / 132
        for operation in m["concurrency"]["operations"]:
            self.assertAlmostEqual(operation["slowdown"], wanted, delta=0.02)
            self.assertTrue(operation["covered"])
        self.assertEqual(m["throughput"]["median_us"], m["concurrency"]["operations"][0]["beside"]["median_us"])
        self.assertAlmostEqual(m["concurrency"]["overlap"], 1 - 24 / 132, delta=0.1)
        self.assertIn("overlap", printed)
        folder = self.folder / "out" / "latest"
        (row,) = csv.DictReader((folder / "report.csv").read_text().splitlines())
        self.assertEqual(row["beside"], "beside gemm:8192,8192,bf16")
        self.assertAlmostEqual(float(row["slowdown"]), wanted, delta=0.02)
        (line,) = map(json.loads, (folder / "measurements.jsonl").read_text().splitlines())
        self.assertEqual([error.message for error in validator("journal").iter_errors(line)], [])
        for series in (line["concurrency"]["together"], line["concurrency"]["operations"][1]["alone"]):
            self.assertEqual(len(series["samples_us"]), series["samples"])

    def test_two_collectives_on_the_same_links_take_as_long_as_one_after_the_other(self):
        report, _ = self.measured("--beside", "all_reduce:512MiB")
        (m,) = report["measurements"]
        for operation in m["concurrency"]["operations"]:
            self.assertAlmostEqual(operation["slowdown"], 2, delta=0.05)
        self.assertAlmostEqual(m["concurrency"]["overlap"], 0, delta=0.05)

    def test_what_shares_nothing_is_not_slowed(self):
        report, _ = self.measured("--beside", "d2h")
        (m,) = report["measurements"]
        for operation in m["concurrency"]["operations"]:
            self.assertAlmostEqual(operation["slowdown"], 1, delta=0.02)
        self.assertAlmostEqual(m["concurrency"]["overlap"], 1, delta=0.05)

    def test_of_several_works_each_is_measured_beside_each(self):
        report, _ = self.measured("--nodes", "2", "--beside", "gemm", "--beside", "all_gather@node:64MiB")
        (m,) = report["measurements"]
        for operation in m["concurrency"]["operations"]:
            self.assertEqual(len(operation["beside_each"]), 2)
            self.assertGreaterEqual(operation["slowdown"], max(each["slowdown"] for each in operation["beside_each"]) - 0.02)

    def test_it_is_compared_with_the_same_beside_it_alone(self):
        self.measured("--beside", "gemm", "--launches", "3", name="a")
        self.measured("--beside", "gemm", "--launches", "3", name="b")
        self.measured("--beside", "d2h", "--launches", "3", name="c")
        same = self.run_it("compare", "a/latest", "b/latest")
        self.assertIn("all_reduce beside gemm:8192,8192,bf16", same.stdout)
        other = self.run_it("compare", "a/latest", "c/latest")
        self.assertEqual(other.returncode, 2, other.stdout)
        self.assertIn("no case in common", other.stderr)

    def test_wrong_data_of_the_work_beside_is_found_and_told(self):
        report, _ = self.measured("--beside", "all_gather@node:64MiB", "--fault", "gpu:n0g3:1:lies", exits=11)
        (m,) = [each for each in report["measurements"] if "beside" in each["case"]]
        self.assertGreaterEqual(m["wrong_elements"], 2)
        self.assertEqual(m["verdict"]["grade"], "wrong")

    def test_contradictions_are_refused_before_anything_is_made(self):
        for arguments, told in (
                (["--beside", "gem"], "did you mean 'gemm'?"),
                (["--beside", "all_gather"], "has no size"),
                (["--beside", "gemm", "--cuda-graph"], "--cuda-graph"),
                (["--beside", "gemm", "--tuning", "quick"], "p5bench tune --beside"),
                (["--beside", "all_gather@nodes:8"], "--beside all_gather@nodes:8"),
                (5 * ["--beside", "d2h"], "at most 4")):
            with self.subTest(arguments):
                done = self.run_it("run", *SIM, *arguments, "--out", "refused")
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn(told, done.stderr)
                self.assertFalse((self.folder / "refused").exists())
        done = self.run_it("run", "--backend", "ofi", "--beside", "gemm", "--out", "refused")
        self.assertEqual(done.returncode, 2)
        self.assertIn("runs nothing at the same time", done.stderr)

    def test_the_kinds_of_work_are_listed(self):
        listed = self.run_it("list", "beside").stdout.split("\n")
        self.assertEqual([line.split()[0] for line in listed if line], ["gemm[:N,K,type]", "d2h", "COLLECTIVE[@GROUP]:SIZE"])


if __name__ == "__main__":
    main()
