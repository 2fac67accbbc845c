"""p5bench over several real hosts, whole and with one of them dying. See hosts.py for what the hosts are."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from hosts import Hosts, command_of, wait_for, what_is_missing

try:
    import jsonschema
except ImportError:
    jsonschema = None

SOURCE = pathlib.Path(os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
PROGRAM = pathlib.Path(os.environ.get("P5BENCH_BUILD") or SOURCE / "build" / "test") / "p5bench"
# Generous, for slow machines: nothing here judges time.
PATIENCE_S = 120


def run_of(seconds):
    return ["run", "--backend", "mpi", "--collectives", "all_reduce", "--min", "8", "--max", "1MiB", "--budget", f"{seconds}s"]


class ThreeHosts(unittest.TestCase):
    def setUp(self):
        self.hosts = self.enter(Hosts(3))
        self.out = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))
        self.log = self.out / "printed"

    def enter(self, manager):
        entered = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return entered

    def start(self, arguments):
        return self.hosts.start_mpirun(2, [str(PROGRAM), *arguments, "--out", str(self.out)], self.log)

    def test_the_hosts_have_names_of_their_own(self):
        self.assertEqual(self.wait_for_end(self.hosts.start_mpirun(2, ["hostname"], self.log)), 0, self.printed())
        self.assertEqual(sorted(self.printed().split()), ["h1", "h1", "h2", "h2", "h3", "h3"])

    def printed(self):
        return self.log.read_text(errors="replace")[-4000:]

    def wait_for_end(self, run):
        try:
            return run.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.fail(f"mpirun does not end; left: {self.hosts.all_processes()}\n{self.printed()}")

    def file(self, name):
        """The file of the only run under the out folder."""
        found = [path for path in self.out.rglob(name) if "latest" not in path.parts]
        self.assertLessEqual(len(found), 1)
        return found[0] if found else None

    def report(self):
        path = self.file("report.json")
        self.assertIsNotNone(path, f"no report\n{self.printed()}")
        latest = {link.resolve() for link in self.out.rglob("latest")}
        self.assertEqual(latest, {path.parent.resolve()}, "latest does not point to the run")
        report = json.loads(path.read_text())
        jsonschema.validate(report, json.loads((SOURCE / "reports/schema/report.schema.json").read_text()))
        return report

    def test_the_report_names_the_three_hosts(self):
        status = self.wait_for_end(self.start(run_of(4)))
        self.assertEqual(status, 0, self.printed())
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"]), ("complete", 0))
        self.assertEqual((report["run"]["nodes"], report["run"]["ranks"]), (3, 6))
        self.assertEqual([host["name"] for host in report["topology"]["hosts"]], ["h1", "h2", "h3"])
        self.assertEqual(report["topology"]["host_of_rank"], [0, 0, 1, 1, 2, 2])

    @unittest.skipUnless(PROGRAM.with_name("p5bench-worker-ofi").exists(), "needs libfabric's headers to be built")
    def test_messages_over_libfabric_go_from_host_to_host(self):
        program = ["env", "FI_PROVIDER=tcp", str(PROGRAM), "--backend", "ofi", "--collectives", "send_recv", "--sizes", "8,64KiB", "--out", str(self.out)]
        status = self.wait_for_end(self.hosts.start_mpirun(1, program, self.log))
        self.assertEqual(status, 0, self.printed())
        report = self.report()
        self.assertEqual([(m["outcome"], m["wrong_elements"], m["case"]["nodes"]) for m in report["measurements"]],
                         [("measured", 0, 3)] * 2)
        self.assertEqual(report["context"]["nics"], "net0")

    def a_case_is_finished(self):
        journal = self.file("measurements.jsonl")
        return journal is not None and b"\n" in journal.read_bytes()

    def assert_a_partial_report_stays_when_killed(self, command):
        run = self.start(run_of(300))
        begun = wait_for(lambda: self.a_case_is_finished() or run.poll() is not None, PATIENCE_S)
        self.assertTrue(begun and run.poll() is None, f"the run did not get going\n{self.printed()}")
        victims = [pid for pid in self.hosts.processes("h3") if command_of(pid) == command]
        self.assertTrue(victims, f"no {command} on h3: {self.hosts.all_processes()}")
        os.kill(victims[0], signal.SIGKILL)
        self.assertNotEqual(self.wait_for_end(run), 0, self.printed())
        wait_for(lambda: not self.hosts.all_processes(), PATIENCE_S)
        self.assertEqual(self.hosts.all_processes(), {}, "the run left processes")
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"]), ("partial", 12))
        self.assertTrue(any(entry["outcome"] == "measured" for entry in report["measurements"]), "what was measured is lost")

    def test_a_partial_report_stays_when_a_rank_is_killed(self):
        self.assert_a_partial_report_stays_when_killed("p5bench")

    def test_a_partial_report_stays_when_a_host_is_lost(self):
        self.assert_a_partial_report_stays_when_killed("orted")


if __name__ == "__main__":
    missing = what_is_missing() or ("Python's jsonschema" if jsonschema is None else None)
    if missing:
        print(f"left out: needs {missing}")
        sys.exit(77)
    # A test that is ended from outside takes its hosts away too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
