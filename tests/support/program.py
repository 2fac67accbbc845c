"""Runs p5bench as a user does, alone or under mpirun, and reads its files and output. Nothing here waits without a
bound."""

import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import jsonschema

SOURCE = pathlib.Path(os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
BUILD = pathlib.Path(os.environ.get("P5BENCH_BUILD") or SOURCE / "build" / "dev")
PROGRAM = BUILD / "p5bench"
# Generous, for slow machines: nothing here judges time.
PATIENCE_S = 300
# True to try further combinations, besides the most likely ones to fail.
NIGHTLY = bool(os.environ.get("P5BENCH_NIGHTLY"))
# True to try all of them. A night tries a third of the long lists, another third each night (P5BENCH_NIGHT, a number).
WEEKLY = bool(os.environ.get("P5BENCH_WEEKLY"))
NIGHTS = 3


def tonight(cases):
    """The cases that are tried at night: a third, those of the date unless P5BENCH_NIGHT says which, or weekly all."""
    cases = list(cases)
    if WEEKLY:
        return cases
    night = int(os.environ.get("P5BENCH_NIGHT") or time.time() // 86400) % NIGHTS
    print(f"P5BENCH_NIGHT={night}: {len(cases[night::NIGHTS])} of {len(cases)} cases", flush=True)
    return cases[night::NIGHTS]


# True where a sanitizer is active, as CMakePresets.json sets it.
SANITIZED = "ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ


def read_schema(name):
    return json.loads((SOURCE / f"reports/schema/{name}.schema.json").read_text())


def validator(name):
    """The schema reports/schema/NAME.schema.json, with the definitions of the report's schema that it refers to."""
    schema, report = read_schema(name), read_schema("report")
    text = json.dumps(schema | {"$defs": report["$defs"] | schema.get("$defs", {})})
    schema = json.loads(text.replace('"report.schema.json#/', '"#/'))
    # A definition with the name of one of the report's must be the same.
    schema["$defs"] |= {each: report["$defs"][each] for each, what in schema["$defs"].items()
                        if what == {"$ref": f"#/$defs/{each}"}}
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


SCHEMA = validator("report")

# Variables that a launcher sets: a test that was itself started by one must not look like a rank of it.
LAUNCHERS = ("OMPI_", "PMI_", "PMIX_", "SLURM_", "NCCL_")

# Ranks that wait leave their core to other tests, also where there are enough cores for the job alone.
COURTEOUS = {"OMPI_MCA_mpi_yield_when_idle": "1"}
# Options for tests that do not depend on the number of samples.
FEW_SAMPLES = {"P5BENCH_MOST_SAMPLES": "6"}


def environment(**more):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    return {**clean, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **COURTEOUS, **more}


def mpirun(ranks):
    return ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none"]


TOKENS = ("dispatch", "combine")


def collectives(ranks=3):
    """The names of all that groups of that many ranks can perform with any size and in host memory; tokens have tests of
    their own."""
    listed = subprocess.run([PROGRAM, "list", "collectives"], capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in listed.splitlines()]
    return [name for name in names if name not in TOKENS and not name.startswith("lsa_") and (name != "hypercube" or ranks.bit_count() == 1)]


@functools.cache
def finding_ids():
    listed = subprocess.run([PROGRAM, "list", "findings"], capture_output=True, text=True, check=True, env=environment()).stdout
    return {line.split()[0] for line in listed.splitlines()}


def refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def read_report(path):
    """A report that keeps to the schema."""
    report = json.loads(pathlib.Path(path).read_text(), parse_constant=refuse_constant)
    problems = [f"{error.json_path}: {error.message}" for error in SCHEMA.iter_errors(report)]
    if problems:
        raise AssertionError(f"{path} is not valid: {problems[:5]}")
    unsaid = [finding["id"] for finding in report["findings"] if finding["about"] is None]
    if unsaid:
        raise AssertionError(f"{path} does not say what these findings are about: {unsaid}")
    unlisted = {finding["id"] for finding in report["findings"]} - finding_ids()
    if unlisted:
        raise AssertionError(f"{path} has findings that `p5bench list findings` does not: {unlisted}")
    return report


def wait_for(condition, patience=PATIENCE_S):
    """True where the condition came true in time."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


class Folder(unittest.TestCase):
    """A test in an empty folder of its own, in which the program is started. Its processes carry a mark, by which
    leftover ones are found and others are not counted."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="p5bench-test-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.mark = uuid.uuid4().hex
        self.addCleanup(self.end_what_is_left)

    def environment(self, **more):
        return environment(P5BENCH_TEST_MARK=self.mark, **more)

    def run_it(self, *arguments, ranks=None, program=(PROGRAM,), variables=None, patience=PATIENCE_S, **how):
        """Runs to the end, alone or under mpirun."""
        command = [*(mpirun(ranks) if ranks else []), *map(str, program), *map(str, arguments)]
        try:
            return subprocess.run(command, cwd=self.folder, env=self.environment(**(variables or {})), text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=patience, errors="replace", **how)
        except subprocess.TimeoutExpired as late:
            self.fail(f"{' '.join(command)} does not end: {late.stdout} {late.stderr}")

    def start(self, *arguments, ranks=None, program=(PROGRAM,), variables=None, **how):
        command = [*(mpirun(ranks) if ranks else []), *map(str, program), *map(str, arguments)]
        with open(self.folder / "printed", "wb") as printed:
            how = {"stdin": subprocess.DEVNULL, "stdout": printed, "stderr": subprocess.STDOUT, **how}
            process = subprocess.Popen(command, cwd=self.folder, env=self.environment(**(variables or {})), **how)
        self.addCleanup(process.wait, PATIENCE_S)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def printed(self):
        return (self.folder / "printed").read_text(errors="replace")[-4000:]

    def files(self, name):
        """The files of that name, without those behind the links to the latest run."""
        return sorted(path for path in self.folder.rglob(name) if "latest" not in path.relative_to(self.folder).parts)

    def report(self):
        """Contents of the file in the only run of the folder."""
        found = self.files("report.json")
        self.assertEqual(len(found), 1, found)
        return read_report(found[0])

    def listing(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def processes(self, name="p5bench"):
        """Process ids of this test's running processes called `name` (of all its processes: None)."""
        mark = f"P5BENCH_TEST_MARK={self.mark}".encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if state not in "ZX" and mark in (entry / "environ").read_bytes().split(b"\0"):
                    if name is None or (entry / "comm").read_text().strip() == name:
                        found.append(int(entry.name))
            except OSError:
                pass  # ended while we looked
        return found

    def assert_none_left(self):
        self.assertTrue(wait_for(lambda: not self.processes(None), 20), f"left: {self.processes(None)}")

    def end_what_is_left(self):
        for pid in self.processes(None):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass


def main():
    # A test that is ended from outside cleans up too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main(verbosity=2)
