"""Starts p5bench with real workers on the fakes for a test; returns its report, and checks that no worker is left."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest
import uuid

from workers import FAKES

SOURCE = pathlib.Path(os.environ["P5BENCH_SOURCE"])
SCHEMA = SOURCE / "reports" / "schema" / "report.schema.json"
PATIENCE_S = 200
UNJUDGED = 14  # the exit code of a run on the fakes, whose figures have no bars


class Job(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="p5bench-job-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.mark = f"P5BENCH_TEST_MARK={uuid.uuid4().hex}"

    def start_command(self, command, variables):
        clean = {n: v for n, v in os.environ.items() if not n.startswith(("OMPI_COMM_", "PMIX_", "PMI_", "NCCL_"))}
        name, _, value = self.mark.partition("=")
        clean |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "LD_LIBRARY_PATH": str(FAKES),
                  "OMPI_MCA_mpi_yield_when_idle": "1", name: value}
        process = subprocess.Popen(command, env=clean | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.end_what_is_left, process)
        return process

    def end_what_is_left(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()
        for pid in self.workers():
            os.kill(pid, signal.SIGKILL)

    def start(self, *arguments, **how):
        raise NotImplementedError

    def run_it(self, *arguments, **how):
        process = self.start(*arguments, **how)
        output, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(self.workers(), [], "workers are left")
        return process.returncode, output

    def workers(self, host=None):
        """Processes of workers, of one pretended host or of all."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
                if (entry / "comm").read_text().startswith("p5bench-worker-") and self.mark.encode() in variables and (
                        host is None or f"NCCL_HOSTID={host}".encode() in variables):
                    found.append(int(entry.name))
            except OSError:
                continue
        return sorted(found)

    def report(self):
        report = json.loads((self.folder / "out" / "latest" / "report.json").read_text())
        try:
            import jsonschema
        except ImportError:
            return report
        jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(report)
        return report
