"""The schema of report.json: the example reports keep to it, and what a report must never hold breaks it."""

import copy
import json
import os
import pathlib
import sys
import unittest

import jsonschema

SOURCE = pathlib.Path(os.environ["P5BENCH_SOURCE"])
EXAMPLES = SOURCE / "tests" / "fixtures" / "reports"
sys.path.insert(0, str(EXAMPLES))
import make_examples  # noqa: E402


def refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


class Schema(unittest.TestCase):
    def setUp(self):
        schema = json.loads((SOURCE / "reports/schema/report.schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        self.validator = jsonschema.Draft202012Validator(schema)
        self.report = make_examples.simulated()

    def assert_refused(self, change):
        report = copy.deepcopy(self.report)
        change(report)
        self.assertFalse(self.validator.is_valid(report))

    def test_examples_are_what_their_script_writes(self):
        for name, make in make_examples.EXAMPLES.items():
            self.assertEqual((EXAMPLES / name).read_text(), make_examples.text_of(make()), name)

    def test_examples_are_valid(self):
        for name in make_examples.EXAMPLES:
            report = json.loads((EXAMPLES / name).read_text(), parse_constant=refuse_constant)
            problems = [f"{error.json_path}: {error.message}" for error in self.validator.iter_errors(report)]
            self.assertEqual(problems, [], name)

    def test_every_field_is_required(self):
        for key in self.report:
            self.assert_refused(lambda report: report.pop(key))
        for key in self.report["measurements"][0]:
            self.assert_refused(lambda report: report["measurements"][0].pop(key))
        for part in ("case", "throughput", "latency", "verdict"):
            for key in self.report["measurements"][0][part]:
                self.assert_refused(lambda report: report["measurements"][0][part].pop(key))

    def test_unknown_fields_are_refused(self):
        def add(*path):
            def change(report):
                for step in path:
                    report = report[step]
                report["surprise"] = 1
            return change
        for path in ((), ("run",), ("topology",), ("topology", "hosts", 0), ("topology", "hosts", 0, "nics", 0),
                     ("limits", 0), ("findings", 0), ("findings", 0, "subject"), ("suspects", 0), ("measurements", 0),
                     ("measurements", 0, "case"), ("measurements", 0, "throughput"), ("measurements", 0, "latency"),
                     ("measurements", 0, "verdict")):
            self.assert_refused(add(*path))

    def test_numbers_are_never_strings_and_never_missing(self):
        for value in ("12.5", None, True, -1):
            self.assert_refused(lambda report: report["measurements"][0]["throughput"].update(median_us=value))
        self.assert_refused(lambda report: report["measurements"][0]["case"].update(bytes=8.5))
        self.assert_refused(lambda report: report["run"].update(wall_s="366"))

    def test_names_are_from_their_lists(self):
        self.assert_refused(lambda report: report.update(status="done"))
        self.assert_refused(lambda report: report.update(exit_code=1))
        self.assert_refused(lambda report: report["measurements"][0].update(outcome="good"))
        self.assert_refused(lambda report: report["measurements"][0]["verdict"].update(grade="fine"))
        self.assert_refused(lambda report: report["measurements"][0]["case"].update(pattern="sideways"))
        self.assert_refused(lambda report: report["findings"][0].update(about="weather"))

    def test_faulty_is_the_machine_and_no_measurement(self):
        self.report["grade"] = "faulty"
        self.assertEqual([error.message for error in self.validator.iter_errors(self.report)], [])
        self.assert_refused(lambda report: report["measurements"][0]["verdict"].update(grade="faulty"))

    def test_tuning_is_null_or_whole(self):
        self.report["tuning"] = make_examples.tuning()
        self.assertEqual([error.message for error in self.validator.iter_errors(self.report)], [])
        for key in self.report["tuning"]:
            self.assert_refused(lambda report: report["tuning"].pop(key))
        for part in ("stages", "cells", "failures", "arms", "ways", "rows", "confirmations"):
            for key in self.report["tuning"][part][0]:
                self.assert_refused(lambda report: report["tuning"][part][0].pop(key))
            self.assert_refused(lambda report: report["tuning"][part][0].update(surprise=1))
        for setting in ("ring", "ring/ll/", "ring/ll/-1", "ring/ll/1/2/3", "square/ll", 7):
            self.assert_refused(lambda report: report["tuning"]["rows"][0].update(setting=setting))
        for outcome in ("good", None):
            self.assert_refused(lambda report: report["tuning"].update(outcome=outcome))

    def test_a_pair_is_two_ranks_and_a_time(self):
        for pair in ([0, 1], [0, 1, 2.0, 3], [0, 1, None], [-1, 0, 2.0], [0.5, 1, 2.0]):
            self.assert_refused(lambda report: report["measurements"][0]["pairs"].append(pair))


if __name__ == "__main__":
    unittest.main()
