"""p5bench explain: logs as files and on stdin, as text and as JSON."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

import jsonschema

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import PATIENCE_S, PROGRAM, SOURCE, Folder, main  # noqa: E402

LOGS = SOURCE / "tests/fixtures/nccl-log"
SCHEMA = jsonschema.Draft202012Validator(json.loads((SOURCE / "reports/schema/explanation.schema.json").read_text()))


class Explain(Folder):
    def explain(self, *arguments, text=None, code=0):
        if text is not None:
            (self.folder / "stdin").write_text(text)
        with open(self.folder / "stdin" if text is not None else os.devnull) as given:
            done = subprocess.run([PROGRAM, "explain", *map(str, arguments)], cwd=self.folder, env=self.environment(), stdin=given,
                                  text=True, capture_output=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def test_says_what_where_how_often_and_what_to_do(self):
        line = "[pod/train-0] gpu-a:1:2 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-a to 9 bytes"
        (self.folder / "job.out").write_text(f"step 1\n{line}\n{line}\n")
        told = self.explain("job.out")
        self.assertIn("1 error in 3 lines, 2 of NCCL", told)
        self.assertIn("error nccl.shared_memory: /dev/shm is too small", told)
        self.assertIn('job.out:2 and 1 more line, of gpu-a: "Error: failed to extend', told)
        self.assertIn("--shm-size", told)

    def test_recorded_lines_keep_to_the_schema_from_files_and_stdin(self):
        text = (LOGS / "lines.txt").read_text()
        for told in (self.explain(LOGS / "lines.txt", "--format", "json"), self.explain("-", "--json", text=text)):
            value = json.loads(told)
            self.assertEqual([e.message for e in SCHEMA.iter_errors(value)], [])
            self.assertGreater(len(value["findings"]), 40)

    def test_healthy_logs_together_say_nothing_and_end_with_0(self):
        told = self.explain(*sorted((LOGS / "healthy").glob("hgx*.log")), "--platform", "hgx-h100")
        self.assertRegex(told, r"^Nothing found in \d+ lines, \d+ of NCCL; NCCL 2\.22\.3 and 2\.27\.7, hgx-h100")

    def test_a_file_without_a_word_of_nccl_is_told_how_to_get_one(self):
        self.assertIn("NCCL_DEBUG=INFO", self.explain("-", text="hello\n"))
        self.assertEqual(self.explain("-", text="").splitlines()[0], "Nothing found in 0 lines, 0 of NCCL")

    def test_a_warning_that_no_rule_knows_is_shown_and_is_not_nothing(self):
        line = "gpu-a:1:2 [0] c.cc:1 NCCL WARN a warning of a later release\n"
        told = self.explain("-", text=line + line + line.replace("gpu-a", "gpu-b"))
        self.assertEqual(told.splitlines()[0], "3 unknown WARN lines in 3 lines, 3 of NCCL")
        self.assertIn('stdin:1 and 1 more line, of gpu-a: "a warning of a later release"', told)
        self.assertIn("stdin:3, of gpu-b:", told)
        value = json.loads(self.explain("-", "--json", text=line + "Last error:\nwords\n"))
        self.assertEqual([e.message for e in SCHEMA.iter_errors(value)], [])
        self.assertEqual([(each["host"], each["count"]) for each in value["unknown"]], [("gpu-a", 1), (None, 1)])
        quoted = self.explain("-", text="rank-1: Last error:\nrank-1: a failure of a later release\n")
        self.assertIn("a failure of a later release", quoted)
        self.assertIn("no line of NCCL's log", quoted)

    def test_what_cannot_be_read_is_named(self):
        self.assertIn("'absent.log' cannot be read", self.explain("absent.log", code=2))
        self.assertIn("LOG is required", self.explain(code=2))
        self.assertIn("give it once", self.explain("-", "-", text="", code=2))
        self.assertIn("one format", self.explain("-", "--format", "json,console", text="", code=2))
        self.assertIn("one format", self.explain("-", "--format", "html", text="", code=2))


if __name__ == "__main__":
    main()
