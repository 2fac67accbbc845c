"""The schema of report.json: the example reports are valid, and reports with forbidden content are not."""

import copy
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema

SOURCE = pathlib.Path(os.environ["P5BENCH_SOURCE"])
BUILD = pathlib.Path(os.environ["P5BENCH_BUILD"])
EXAMPLES = SOURCE / "tests" / "fixtures" / "reports"
sys.path.insert(0, str(EXAMPLES))
import make_examples  # noqa: E402


SCHEMA = json.loads((SOURCE / "reports/schema/report.schema.json").read_text())


def refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def with_memory(keyword):
    """The keyword's check, which skips a part that was found valid before: most parts of a changed report are the same
    objects."""
    check = jsonschema.Draft202012Validator.VALIDATORS[keyword]
    good = {}

    def remembering(validator, value, instance, schema):
        key = id(value), id(instance)
        if key in good:
            return
        errors = list(check(validator, value, instance, schema))
        yield from errors
        if not errors and isinstance(instance, (dict, list)):
            good[key] = instance  # which keeps its id alive
    return remembering


Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator,
                                         {keyword: with_memory(keyword) for keyword in ("properties", "items", "$ref")})


def first_of_each_list(value):
    """Reduces a part of a report so that each kind of item is in it once."""
    return {name: member[:1] if isinstance(member, list) else member for name, member in value.items()}


class Schema(unittest.TestCase):
    def setUp(self):
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        self.validator = jsonschema.Draft202012Validator(SCHEMA)
        self.report = first_of_each_list(make_examples.simulated())

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
        for part in ("suspects", "open_questions"):
            for key in self.report[part][0]:
                self.assert_refused(lambda report: report[part][0].pop(key))
        for key in json.loads((EXAMPLES / "wrong.json").read_text())["gdr"][0]:
            self.assert_refused(lambda report: report.update(gdr=[{"host": "a", "gpu": "b", "nic": "c", "beside": True, "gb_per_s": 1, "slow": False}])
                                or report["gdr"][0].pop(key))
        for key in self.report["decision"]:
            self.assert_refused(lambda report: report["decision"].pop(key))
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
                     ("limits", 0), ("findings", 0), ("findings", 0, "subject"), ("suspects", 0), ("open_questions", 0),
                     ("decision",), ("measurements", 0),
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
        self.assert_refused(lambda report: report["decision"].update(word="MAYBE"))
        self.assert_refused(lambda report: report["decision"].update(sentence=121 * "x"))
        self.assert_refused(lambda report: report["suspects"][0].update(fault="tired"))
        self.assert_refused(lambda report: report["open_questions"][0].update(fault="tired"))

    def test_faulty_is_the_machine_and_no_measurement(self):
        self.report["grade"] = "faulty"
        self.assertEqual([error.message for error in self.validator.iter_errors(self.report)], [])
        self.assert_refused(lambda report: report["measurements"][0]["verdict"].update(grade="faulty"))

    def test_a_finding_may_name_the_hosts_of_which_one_is_at_fault(self):
        self.report["findings"][0]["hosts"] = ["n1", "n2"]
        self.assertEqual([error.message for error in self.validator.iter_errors(self.report)], [])
        self.assert_refused(lambda report: report["findings"][0].update(hosts=[7]))

    def test_tuning_is_null_or_whole(self):
        self.report["tuning"] = first_of_each_list(make_examples.tuning())
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


# Values that a report could hold in place of the right one.
HOSTILE = [-1, 0, 0.5, 1e308, "", "x", None, True, [], {}]
# Properties that are computed again, or determined by `schema` itself.
NOT_READ = re.compile(r"/(algbw_gb_per_s|busbw_gb_per_s)$|^/schema$")
# Strings with a format but no list of values: names of settings.
FORMS = re.compile(r"/(setting|winner)$")
# Relations between places, which a schema does not express.
TOGETHER = re.compile(r"/host_of_rank/|/hosts$|^/exit_code$|^/run/(ranks|nodes)$|/(latency|throughput)/(median|min|max)_us$")


def places(value, at=""):
    """Each kind of place once: the first item of a list."""
    yield at, value
    if isinstance(value, dict):
        for name, member in value.items():
            yield from places(member, f"{at}/{name}")
    elif isinstance(value, list) and value:
        yield from places(value[0], f"{at}/0")


def with_value(value, steps, new):
    if not steps:
        return new
    step = int(steps[0]) if isinstance(value, list) else steps[0]
    result = copy.copy(value)
    result[step] = with_value(value[step], steps[1:], new)
    return result


class ReadingAndSchema(unittest.TestCase):
    """The program reads all that the schema allows, and refuses what it forbids, with the place."""

    def small(self):
        report = make_examples.simulated()
        report["tuning"] = make_examples.tuning()
        pairs = next(m for m in report["measurements"] if m["case"]["pattern"] and m["latency"] and m["throughput"])
        report["measurements"] = [pairs | {
            "launch": 1, "pairs": [[0, 1, pairs["pairs"][0][2]]], "groups": [[0, 2.5]], "failed_in": "open", "failed_rank": 3,
            "latency_launches_us": [2.5], "slowest_rank": 1, "slowest_pair": [0, 1],
            "first_wrong": {"rank": 1, "offset": 7, "wanted": "1", "got": "2", "guard": False},
            "selection": {"algorithm": "ring", "protocol": "ll", "channels": 2, "source": "log"},
            "during": {"seconds": 3, "sm_clock_min_mhz": 1500, "sm_clock_median_mhz": 1600, "temperature_max_c": 60,
                       "power_max_w": 500.5, "notes": ["hot"]}}]
        for part in ("limits", "findings", "suspects", "open_questions"):
            report[part] = report[part][:1]
        report["local_checks"] = [{"device_copy_gb_per_s": 3000.5, "launch_us": 2.5}]
        with tempfile.TemporaryDirectory() as folder:
            recording = pathlib.Path(folder) / "topology.json"
            subprocess.run([BUILD / "p5bench", "topo", "--load", SOURCE / "tests/fixtures/machines/p5.48xlarge.json", "--record",
                            recording], check=True, stdout=subprocess.DEVNULL)
            report["topology"] = json.loads(recording.read_text())["topology"]
        report["topology"]["hosts"] = [{name: part[:1] if name in ("nics", "gpu_devices", "bridges", "numa") else part
                                        for name, part in report["topology"]["hosts"][0].items()}] * 2
        report["topology"]["host_of_rank"] = [0, 1]
        report["run"] |= {"ranks": 2, "nodes": 2}
        return report

    def test_they_agree(self):
        report = self.small()
        validator = Validator(SCHEMA)
        self.assertEqual([error.message for error in validator.iter_errors(report)], [])
        tried = [(place, new, with_value(report, place.split("/")[1:], new)) for place, _ in places(report) if place
                 for new in HOSTILE]
        program = BUILD / "tests" / "read_reports"
        said = subprocess.run([program], input="".join(json.dumps(each) + "\n" for *_, each in tried), text=True,
                              capture_output=True, check=True, timeout=250).stdout.splitlines()
        self.assertEqual(len(said), len(tried))
        problems = []
        for (place, new, changed), answer in zip(tried, said):
            if answer.startswith("broken"):
                problems.append((place, new, answer))
                continue
            if NOT_READ.search(place) or TOGETHER.search(place):
                continue
            allowed = validator.is_valid(changed)
            if allowed and answer != "read" and new != 1e308 and not isinstance(new, str):
                problems.append((place, new, "allowed", answer))
            # Older reports have null or an empty object for fields that they lack.
            lacking = new is None or new == {}
            if not allowed and answer == "read" and not lacking and not (FORMS.search(place) and isinstance(new, str)):
                problems.append((place, new, "forbidden, and read"))
            if not allowed and answer.startswith("refused") and place not in answer and place != "/schema":
                problems.append((place, new, "refused without its place", answer))
        self.assertEqual(problems, [])


if __name__ == "__main__":
    unittest.main()
