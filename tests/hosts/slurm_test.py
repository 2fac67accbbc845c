"""p5bench under a real Slurm: slurmctld and a slurmd on each of two hosts (hosts.py), munge between them, PMIx for MPI.
The job script and the prolog are those of scripts/slurm; the prolog calls a stand-in, since no host here has a GPU."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from hosts import ENTER, Hosts, wait_for, what_is_missing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import FEW_SAMPLES, PROGRAM, SOURCE, BUILD, environment, main, read_report  # noqa: E402

SCRIPT = SOURCE / "scripts/slurm/p5bench.sbatch"
SHORT = ["--backend", "mpi", "--collectives", "all_reduce", "--sizes", "8,64KiB", "--budget", "20s", "--out", "/tmp/out"]
# Longer than any test waits; each size is measured once, so that the first is finished soon.
LONG = ["--backend", "mpi", "--collectives", "all_reduce", "--sizes", ",".join(f"{1025 + i}KiB" for i in range(2000)),
        "--budget", "1h", "--out", "/tmp/out"]
PATIENCE_S = 120

# Each host has its own /tmp, which holds all files of the daemons.
CONFIGURATION = """
ClusterName=test
SlurmctldHost=h1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/tmp/munge.socket
CredType=cred/munge
StateSaveLocation=/tmp/state
SlurmdSpoolDir=/tmp/spool
SlurmctldPidFile=/tmp/slurmctld.pid
SlurmdPidFile=/tmp/slurmd.pid
SlurmctldLogFile=/tmp/slurmctld.log
SlurmdLogFile=/tmp/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
MpiDefault=none
ReturnToService=0
KillWait=20
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
PrologFlags=Alloc
Prolog={prolog}
NodeName=h[1-2] CPUs=4 RealMemory=500
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = what_is_missing()
        programs = [name for name in ("munged", "slurmctld", "slurmd", "sbatch", "srun") if not shutil.which(name)]
        if missing or programs:
            raise unittest.SkipTest(f"needs {missing or 'Slurm: ' + ', '.join(programs)}")
        folder = tempfile.TemporaryDirectory(prefix="p5bench-slurm-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.folder.chmod(0o755)
        (cls.folder / "munge.key").write_bytes(os.urandom(128))
        (cls.folder / "munge.key").chmod(0o400)
        prolog = cls.folder / "prolog"
        prolog.write_text(f"#!/bin/sh\nP5BENCH=/tmp/stand-in exec {SOURCE}/scripts/slurm/prolog\n")
        prolog.chmod(0o755)
        cls.configuration = cls.folder / "slurm.conf"
        cls.configuration.write_text(CONFIGURATION.format(prolog=prolog))
        # Nothing here limits jobs; the other plugin needs a file system that these hosts do not have.
        (cls.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        cls.hosts = Hosts(2, shared=(SOURCE, BUILD, cls.folder))
        cls.hosts.__enter__()
        cls.addClassCleanup(cls.hosts.__exit__)
        cls.daemons = []
        cls.addClassCleanup(lambda: [daemon.wait() for daemon in cls.daemons])
        cls.addClassCleanup(lambda: [daemon.kill() for daemon in cls.daemons])
        for name in cls.hosts.names:
            cls.stand_in(name, 0)
            cls.start(name, f"munged --foreground --force --key-file={cls.folder}/munge.key --socket=/tmp/munge.socket "
                            "--pid-file=/tmp/munged.pid --log-file=/tmp/munged.log --seed-file=/tmp/munged.seed")
        for name in cls.hosts.names:
            if not wait_for((cls.hosts.files(name) / "munge.socket").exists, 20):
                raise RuntimeError("munged does not start")
        cls.start("h1", "mkdir -p /tmp/state && exec slurmctld -D")
        for name in cls.hosts.names:
            cls.start(name, "mkdir -p /tmp/spool && exec slurmd -D")
        if not wait_for(lambda: cls.states() == {"h1": "idle", "h2": "idle"}, 15, 0.5):
            raise RuntimeError(f"Slurm does not start: {cls.states()}\n{cls.log('h1', 'slurmctld.log')}{cls.log('h2', 'slurmd.log')}")

    @classmethod
    def variables(cls):
        keepers = " ".join(f"{name}={keeper.pid}" for name, keeper in cls.hosts.keepers.items())
        return environment(P5BENCH_HOSTS=keepers, SLURM_CONF=str(cls.configuration), P5BENCH=str(PROGRAM),
                           P5BENCH_RANKS_PER_NODE="2", HOME="/tmp", TMPDIR="/tmp", **FEW_SAMPLES)

    @classmethod
    def start(cls, name, command):
        cls.daemons.append(subprocess.Popen([str(ENTER), name, command], stdin=subprocess.DEVNULL, env=cls.variables(),
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    @classmethod
    def on(cls, name, *words, patience=PATIENCE_S, **more):
        command = " ".join(f"'{word}'" for word in words)
        return subprocess.run([str(ENTER), name, command], stdin=subprocess.DEVNULL, env={**cls.variables(), **more},
                              capture_output=True, text=True, timeout=patience)

    @classmethod
    def states(cls):
        said = cls.on("h1", "sinfo", "--noheader", "--Node", "--format=%N %T").stdout
        return dict(line.split() for line in said.splitlines())

    @classmethod
    def log(cls, name, file):
        path = cls.hosts.files(name) / file
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""

    @classmethod
    def stand_in(cls, name, code):
        program = cls.hosts.files(name) / "stand-in"
        program.write_text(f"#!/bin/sh\necho 'stand-in of {name}: '\"$*\"\nexit {code}\n")
        program.chmod(0o755)

    def setUp(self):
        for name in self.hosts.names:
            shutil.rmtree(self.hosts.files(name) / "out", ignore_errors=True)

    def submit(self, *arguments, options=(), **more):
        """The job's number, once it was accepted."""
        done = self.on("h1", "sbatch", "--parsable", "--nodes=2", "--output=/tmp/job.log", *options, str(SCRIPT), *arguments, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def state_of(self, job):
        said = self.on("h1", "scontrol", "--oneliner", "show", "job", job).stdout
        return dict(word.split("=", 1) for word in said.split() if "=" in word)

    def end_of(self, job):
        """State and exit code, once it has ended."""
        ended = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        wait_for(lambda: self.state_of(job).get("JobState") in ended, PATIENCE_S, 0.3)
        state = self.state_of(job)
        return state.get("JobState"), state.get("ExitCode")

    def report(self):
        return read_report(self.hosts.files("h1") / "out/latest/report.json")

    def said(self):
        return self.log("h1", "job.log") + self.log("h1", "slurmctld.log")[-1500:]

    def test_the_job_script_measures_all_nodes(self):
        job = self.submit(*SHORT)
        self.assertEqual(self.end_of(job), ("COMPLETED", "0:0"), self.said())
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"]), ("complete", 0))
        self.assertEqual((report["run"]["ranks"], report["run"]["nodes"]), (4, 2))
        self.assertEqual(report["topology"]["host_of_rank"], [0, 0, 1, 1])
        self.assertEqual([host["name"] for host in report["topology"]["hosts"]], ["h1", "h2"])
        self.assertIn("CANNOT TELL: host memory was measured", self.log("h1", "job.log"))

    def test_mpirun_within_a_job_measures_the_same(self):
        job = self.submit(*SHORT, P5BENCH_LAUNCHER="mpirun")
        self.assertEqual(self.end_of(job), ("COMPLETED", "0:0"), self.said())
        report = self.report()
        self.assertEqual((report["run"]["ranks"], report["run"]["nodes"]), (4, 2))
        self.assertEqual(report["topology"]["host_of_rank"], [0, 0, 1, 1])

    def test_the_jobs_exit_code_is_that_of_p5bench(self):
        job = self.submit(*SHORT, "--sizes", "many")
        self.assertEqual(self.end_of(job), ("FAILED", "2:0"), self.said())
        job = self.submit(*SHORT, P5BENCH="/nowhere/p5bench")
        self.assertEqual(self.end_of(job), ("FAILED", "13:0"), self.said())
        self.assertIn("there is no '/nowhere/p5bench' on h1; set P5BENCH", self.log("h1", "job.log"))

    def is_measuring(self):
        journal = self.hosts.files("h1") / "out/latest/measurements.jsonl"
        return journal.exists() and journal.stat().st_size > 0

    def test_a_job_that_is_told_to_end_leaves_what_it_has_and_goes_on_with_it(self):
        job = self.submit(*LONG)
        self.assertTrue(wait_for(self.is_measuring, PATIENCE_S), self.said())
        # Slurm does this a minute before the end (--signal), and at the beginning of a requeue.
        self.assertEqual(self.on("h1", "scontrol", "requeue", job).returncode, 0)
        self.assertTrue(wait_for(lambda: self.state_of(job).get("JobState") == "PENDING", PATIENCE_S), self.said())
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"]), ("partial", 12))
        self.assertIn("SIGTERM", report["run"]["ended_by"])
        self.on("h1", "scontrol", "update", f"JobId={job}", "StartTime=now")
        self.assertTrue(wait_for(lambda: self.state_of(job).get("JobState") == "RUNNING", PATIENCE_S, 0.3), self.said())
        newest = self.hosts.files("h1") / "out/latest/report.json"
        self.assertTrue(wait_for(lambda: "--resume" in json.loads(newest.read_text())["run"]["command"], PATIENCE_S, 0.3), self.said())
        self.on("h1", "scancel", job)
        self.assertEqual(self.end_of(job)[0], "CANCELLED")

    def test_a_minute_before_the_end_the_ranks_of_either_launcher_write_what_they_have(self):
        for launcher, code in (("mpirun", "1:0"), ("srun", "12:0")):  # 1 is mpirun's own
            with self.subTest(launcher):
                self.setUp()
                job = self.submit(*LONG, P5BENCH_LAUNCHER=launcher)
                self.addCleanup(self.on, "h1", "scancel", job)
                self.assertTrue(wait_for(self.is_measuring, PATIENCE_S), self.said())
                # As Slurm does for --signal=B:USR1.
                self.assertEqual(self.on("h1", "scancel", "--batch", "--signal=USR1", job).returncode, 0)
                self.assertEqual(self.end_of(job), ("FAILED", code), self.said())
                report = self.report()
                self.assertEqual((report["status"], report["exit_code"]), ("partial", 12))
                self.assertIn("SIGTERM", report["run"]["ended_by"])

    def test_the_prolog_drains_a_node_that_is_not_fit_and_the_job_waits_for_another(self):
        self.stand_in("h2", 10)
        self.addCleanup(self.stand_in, "h2", 0)
        self.addCleanup(self.on, "h1", "scontrol", "update", "NodeName=h2", "State=RESUME")
        job = self.submit(*SHORT)
        self.addCleanup(self.on, "h1", "scancel", job)
        self.assertTrue(wait_for(lambda: self.states()["h2"].startswith("drain"), PATIENCE_S, 0.3), self.said())
        self.assertFalse(self.states()["h1"].startswith("drain"))
        self.assertTrue(wait_for(lambda: self.state_of(job).get("JobState") == "PENDING", PATIENCE_S, 0.3), self.said())
        self.assertEqual(self.state_of(job)["Restarts"], "1")


if __name__ == "__main__":
    main()
