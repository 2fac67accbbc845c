"""scripts/slurm/prolog: for which ends of `p5bench check` Slurm drains a node. scripts/slurm/p5bench.sbatch: with which
arguments a requeued job starts, and how a signal of Slurm reaches its ranks. Stand-ins end as they are told."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(os.environ["P5BENCH_SOURCE"]) / "scripts" / "slurm"
PROLOG = SCRIPTS / "prolog"
STAND_IN = """#!/bin/sh
echo "called with $*"
echo "n1: NOT FIT: gpu n0g3"
echo "sees ${CUDA_VISIBLE_DEVICES-all}" > "$0.sees"
echo "not said to anybody" > "$0.called"
exit %d
"""


class Prolog(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="p5bench-prolog-")
        self.addCleanup(folder.cleanup)
        self.program = pathlib.Path(folder.name) / "stand-in"

    def run_with(self, code, is_called=True, **variables):
        self.program.write_text(STAND_IN % code)
        self.program.chmod(0o755)
        # As slurmd starts it: next to no environment, and the root as its folder.
        done = subprocess.run([str(PROLOG)], env={"P5BENCH": str(self.program), "PATH": "/usr/bin:/bin", **variables}, cwd="/", text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        self.assertTrue(pathlib.Path(f"{self.program}.called").exists() or not is_called)
        return done

    def test_it_drains_a_node_that_is_at_fault_and_says_why(self):
        for code in (10, 11, 12):
            done = self.run_with(code)
            self.assertEqual(done.returncode, 1, code)
            self.assertIn(f"ended with {code}\ncalled with check\nn1: NOT FIT: gpu n0g3\n", done.stderr)

    def test_it_drains_none_for_anything_else(self):
        for code in (0, 1, 2, 13, 14, 126, 137):
            done = self.run_with(code)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), code)

    def test_it_looks_at_the_gpus_of_its_job(self):
        for variables, seen in (({"SLURM_JOB_GPUS": "4,5"}, "4,5"), ({}, "all"), ({"SLURM_JOB_GPUS": ""}, "all"),
                                ({"SLURM_JOB_GPUS": "6", "CUDA_VISIBLE_DEVICES": "0"}, "6")):
            self.run_with(0, **variables)
            self.assertEqual(pathlib.Path(f"{self.program}.sees").read_text(), f"sees {seen}\n", variables)

    def test_a_job_without_gpus_leaves_those_of_other_jobs_alone(self):
        folder = self.program.parent
        configuration = folder / "slurm.conf"
        job = {"SLURM_JOB_ID": "7", "SLURM_CONF": str(configuration)}
        for text, included, variables, is_checked in (
                ("GresTypes=gpu,mps\n", "", {}, False), ("  grestypes = shard,gpu\n", "", {"SLURM_JOB_GPUS": ""}, False),
                ("include nodes.conf\n", "GresTypes=gpu\n", {}, False), ("GresTypes=gpu\n", "", {"SLURM_JOB_GPUS": "2"}, True),
                ("GresTypes=gpu\n", "", {"SLURM_JOB_ID": ""}, True), ("#GresTypes=gpu\n", "GresTypes=bandwidth\n", {}, True),
                ("ClusterName=c\n", "", {}, True)):
            configuration.write_text(text)
            (folder / "nodes.conf").write_text(included)
            for trace in ("called", "sees"):
                pathlib.Path(f"{self.program}.{trace}").unlink(missing_ok=True)
            done = self.run_with(10, is_called=is_checked, **{**job, **variables})
            self.assertEqual(pathlib.Path(f"{self.program}.called").exists(), is_checked, (text, included, variables))
            self.assertEqual(done.returncode, 1 if is_checked else 0)

    def test_it_finds_the_program_of_its_installation_without_a_path(self):
        prefix = self.program.parent / "the prefix"
        (prefix / "share/p5bench/slurm").mkdir(parents=True)
        (prefix / "bin").mkdir()
        installed = prefix / "share/p5bench/slurm/prolog"
        shutil.copy(PROLOG, installed)
        link = self.program.parent / "link"
        link.symlink_to(installed)
        alone = self.program.parent / "alone"
        alone.mkdir()
        (self.program.parent / "p5bench").mkdir()  # beside the link, and no program
        shutil.copy(PROLOG, alone)
        for prolog, program in ((installed, prefix / "bin/p5bench"), (link, prefix / "bin/p5bench"), (alone / "prolog", alone / "p5bench")):
            program.write_text(STAND_IN % 10)
            program.chmod(0o755)
            # Slurm's prologs have no PATH: the shell has its own, which has no folder of p5bench.
            done = subprocess.run([str(prolog)], env={"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1", "SLURM_CONF": "/nowhere/slurm.conf"}, cwd="/",
                                  text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("called with check\n", done.stderr)
            program.unlink()

    def test_nor_where_there_is_no_such_program(self):
        done = subprocess.run([str(PROLOG)], env={"P5BENCH": "/nowhere/p5bench", "PATH": "/usr/bin:/bin"}, cwd="/", timeout=60)
        self.assertEqual(done.returncode, 0)


class JobScript(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="p5bench-job-script-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in (("p5bench", "exit 0"), ("srun", '[ "$1" = --mpi=list ] && echo pmix || printf "%s\\n" "$@"')):
            (self.folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (self.folder / name).chmod(0o755)
        for out in ("p5bench-out", "to here"):
            (self.folder / out / "latest").mkdir(parents=True)
            self.interrupt(self.folder / out / "latest")

    def interrupt(self, run, job="77"):
        (run / "report.json").write_text('{\n  "status": "partial",\n  "context": {\n    "env.SLURM_JOB_ID": "%s"\n  }\n}' % job)

    def arguments_of(self, *arguments, restarts="1", exits=0, lines=False):
        environment = {"PATH": f"{self.folder}:/usr/bin:/bin", "SLURM_JOB_NUM_NODES": "2", "SLURM_RESTART_COUNT": restarts,
                       "SLURM_JOB_ID": "77"}
        done = subprocess.run(["bash", str(SCRIPTS / "p5bench.sbatch"), *arguments], env=environment, cwd=self.folder, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, exits)
        words = done.stdout.splitlines()
        if lines:
            return words
        return words[words.index("p5bench") + 1:]

    def test_a_requeued_job_resumes_where_the_command_can(self):
        for arguments in ((), ("--out", "to here"), ("--out=to here", "--max", "1GiB"), ("ab", "--b", "NCCL_ALGO=Ring")):
            self.assertEqual(self.arguments_of(*arguments), [*arguments, "--resume"])
            self.assertEqual(self.arguments_of(*arguments, restarts="0"), [*arguments])
        for arguments in (("tune",), ("tune", "--out", "to here"), ("check", "--limit", "30s"), ("--out", "elsewhere"),
                          ("--soak", "20h"), ("--soak=20h",)):
            self.assertEqual(self.arguments_of(*arguments), [*arguments])

    def test_a_requeued_job_resumes_where_another_job_of_the_folder_has_the_newest_run(self):
        (self.folder / "p5bench-out/latest/report.json").write_text('{"status": "complete"}')
        self.assertEqual(self.arguments_of(), [])
        run = self.folder / "p5bench-out/lab/20261128T120000Z"
        run.mkdir(parents=True)
        for job, ending in (("76", []), ("770", []), ("77", ["--resume"])):
            self.interrupt(run, job)
            self.assertEqual(self.arguments_of(), ending, job)

    def test_a_requeued_job_whose_earlier_run_is_refused_begins_anew(self):
        for code in (2, 12):
            (self.folder / "srun").write_text(f"""#!/bin/sh
if [ "$1" = --mpi=list ]; then echo pmix; exit; fi
echo "$*"
case "$*" in *--resume) exit {code} ;; esac
""")
            starts = self.arguments_of("--min", "8", exits=0 if code == 2 else code, lines=True)
            self.assertEqual([line.split(" p5bench ")[1] for line in starts],
                             ["--min 8 --resume", "--min 8"] if code == 2 else ["--min 8 --resume"])

    def test_the_signal_before_the_end_reaches_the_ranks_of_either_launcher(self):
        # B: to the script alone. mpirun and srun are signalled by the script, srun through Slurm.
        self.assertEqual(re.findall(r"(?m)^#SBATCH --signal=(.*)$", (SCRIPTS / "p5bench.sbatch").read_text()), ["B:USR1@60"])
        ranks = """#!/bin/sh
[ "$1" != --mpi=list ] || { echo pmix; exit; }
trap 'echo ends early; exit 12' TERM
echo $$ > "$0.pid"
echo begins
while :; do sleep 0.05; done
"""
        for name, text in (("srun", ranks), ("mpirun", ranks), ("scancel", '#!/bin/sh\necho "scancel $*"\nkill "$(cat "$0/../srun.pid")"\n')):
            (self.folder / name).write_text(text.replace("$0/..", str(self.folder)))
            (self.folder / name).chmod(0o755)
        for launcher, said in (("mpirun", ""), ("srun", "scancel --signal=TERM 77\n")):
            environment = {"PATH": f"{self.folder}:/usr/bin:/bin", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_ID": "77", "P5BENCH_LAUNCHER": launcher}
            script = subprocess.Popen(["bash", str(SCRIPTS / "p5bench.sbatch")], env=environment, cwd=self.folder, text=True,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
            self.addCleanup(lambda group=script.pid, script=script: script.returncode is None and os.killpg(group, signal.SIGKILL))
            self.assertEqual(script.stdout.readline(), "begins\n")
            script.send_signal(signal.SIGUSR1)
            self.assertEqual(script.communicate(timeout=60)[0], f"{said}ends early\n", launcher)
            self.assertEqual(script.returncode, 12, launcher)


if __name__ == "__main__":
    unittest.main(verbosity=2)
