"""Runs with real workers on the fake CUDA, NCCL and NVML: events that the fake driver reports while cases run are
recorded with these cases."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from workers import BUILD, FAKES, skip_unless_built

# For tests of what is found before the first case, which does not depend on how long cases run.
FEW_SAMPLES = {"P5BENCH_MOST_SAMPLES": "6"}
NIGHTLY = bool(os.environ.get("P5BENCH_NIGHTLY"))
SCHEMA = pathlib.Path(os.environ["P5BENCH_SOURCE"]) / "reports" / "schema" / "report.schema.json"


class Watched(unittest.TestCase):
    def make_folder(self):
        folder = tempfile.TemporaryDirectory(prefix="p5bench-watch-")
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)

    def run_it(self, faults, backend="nccl", budget="6s", launcher=("mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none"),
               folder=None, more=(), **variables):
        folder = folder or self.make_folder()
        clean = {n: v for n, v in os.environ.items() if not n.startswith(("OMPI_COMM_", "PMIX_", "PMI_", "NCCL_"))}
        clean |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                  "LD_LIBRARY_PATH": f"{FAKES}:{FAKES / 'nvml'}", "AWS_EC2_METADATA_DISABLED": "true",
                  "P5BENCH_FAKE_NVML": faults, "P5BENCH_FAKE_GPUS": "4",
                  "OMPI_MCA_mpi_yield_when_idle": "1", **variables}
        done = subprocess.run(
            [*launcher, str(BUILD / "p5bench"), "--backend", backend,
             "--collectives", "all_reduce", "--sizes", "1MiB,4MiB", "--tuning=off", "--budget", budget, "--out", str(folder), *more],
            env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
        report = json.loads((folder / "latest" / "report.json").read_text())
        try:
            import jsonschema
            jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(report)
        except ImportError:
            pass
        return done, report

    def test_a_gpu_that_is_held_back_and_an_xid_are_findings_and_gpus_are_matched_by_uuid(self):
        done, report = self.run_it("throttle:gpu=1:mask=0x40,clock:gpu=1:sm=600,xid:gpu=2:code=79", budget="3s")
        # Xid 79 means that the GPU has fallen off the bus: the grade is "faulty" whatever the figures are.
        self.assertEqual((done.returncode, report["exit_code"], report["grade"]), (10, 10, "faulty"), done.stdout)
        self.assertRegex(done.stdout, r"(?m)^REJECT \S+: gpu\.xid ")
        self.assertRegex(done.stdout, r"(?m)^  faulty gpu\.xid: GPU 2 of ")
        topology = report["topology"]
        host = topology["hosts"][0]
        self.assertEqual(topology["gpu_of_rank"], [gpu["uuid"] for gpu in host["gpu_devices"][:2]])
        by_id = {finding["id"]: finding for finding in report["findings"] if finding["subject"]["gpu"] is not None}
        self.assertEqual(by_id["gpu.held_back"]["subject"]["gpu"], 1)
        self.assertIn("hardware thermal", by_id["gpu.held_back"]["evidence"])
        self.assertIn("600 MHz", by_id["gpu.held_back"]["evidence"])
        self.assertEqual((by_id["gpu.xid"]["subject"]["gpu"], by_id["gpu.xid"]["severity"]), (2, "error"))
        self.assertEqual({finding["about"] for finding in by_id.values()}, {"hardware"})
        for measurement in report["measurements"]:
            self.assertIn("during", measurement)

    def test_a_resumed_run_keeps_findings_and_checks_gpus_even_if_no_case_is_left(self):
        folder = self.make_folder()
        _, report = self.run_it("xid:gpu=1:code=79", folder=folder, **FEW_SAMPLES)
        self.assertEqual({m["outcome"] for m in report["measurements"]}, {"measured"})
        report["status"], report["exit_code"], report["run"]["ended_by"] = "partial", 12, "ended by SIGTERM while finishing"
        for name in ("decision", "local_checks", "compute_checks", "local_activity"):
            report.pop(name, None)
        (folder / "latest" / "report.json").write_text(json.dumps(report))
        done, again = self.run_it("", folder=folder, more=["--resume"], **FEW_SAMPLES)
        self.assertTrue(any("continues the run" in remark for remark in again["run"]["remarks"]), again["run"])
        self.assertIn("gpu.xid", [finding["id"] for finding in again["findings"]])
        self.assertEqual((len(again["local_checks"]), done.returncode), (2, 10), done.stdout)

    def test_warnings_about_hardware_leave_the_verdict_as_it_is(self):
        done, report = self.run_it("throttle:gpu=1:mask=0x40,clock:gpu=1:sm=600", budget="3s")
        self.assertEqual((done.returncode, report["grade"]), (14, "unknown"), done.stdout)
        self.assertIn(("warning", "hardware"), {(each["severity"], each["about"]) for each in report["findings"]})

    def test_a_broken_gpu_makes_the_machine_faulty_whatever_moves_the_data(self):
        done, report = self.run_it("ecc:gpu=3:uncorrected=2", backend="mpi", **FEW_SAMPLES)
        self.assertEqual((done.returncode, report["run"]["backend"], report["grade"]), (10, "mpi", "faulty"), done.stdout)

    def test_one_rank_without_mpirun_among_several_gpus_is_told_how_to_start(self):
        for backend in ("nccl", "mpi") if NIGHTLY else ("nccl",):
            done, report = self.run_it("", backend=backend, launcher=(), **FEW_SAMPLES)
            self.assertEqual(report["run"]["ranks"], 1, done.stdout)
            self.assertRegex(done.stdout, r"(?m)^p5bench: started without mpirun: one rank, and this machine has 4 GPUs; .*mpirun -np 4 p5bench$")
            self.assertEqual([(each["severity"], each["about"]) for each in report["findings"] if each["id"] == "job.without_mpirun"],
                             [("warning", "settings")])
        every = (((), {"CUDA_VISIBLE_DEVICES": "0"}), (("mpirun", "-np", "1"), {}))
        for launcher, variables in every if NIGHTLY else every[:1]:
            done, report = self.run_it("", backend="mpi", launcher=launcher, **FEW_SAMPLES, **variables)
            self.assertNotIn("without mpirun", done.stdout)
            self.assertNotIn("job.without_mpirun", [each["id"] for each in report["findings"]])

    def test_a_driver_that_never_answers_does_not_delay_the_run(self):
        done, report = self.run_it("block:function=nvmlInit_v2", budget="12s", P5BENCH_PROBE_LIMIT="1s")
        self.assertEqual(done.returncode, 14, done.stdout)  # nothing on the fakes could be judged
        self.assertIn("did not answer", report["topology"]["hosts"][0]["gpu_problem"])
        # `during` may still have what NICs report, once a second.
        watched = [m["during"] for m in report["measurements"] if m["during"]]
        self.assertEqual({during["sm_clock_median_mhz"] for during in watched}, {None})
        self.assertEqual({m["outcome"] for m in report["measurements"]}, {"measured"})


if __name__ == "__main__":
    skip_unless_built()
    unittest.main()
