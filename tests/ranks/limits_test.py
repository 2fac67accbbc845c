"""p5bench under low limits of a scheduler, a container or a login: it completes its run, or ends with the right exit
code and a message that names the limit and the remedy."""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, NIGHTLY, PROGRAM, main, mpirun, read_report, tonight  # noqa: E402

SIM = ["--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "2", "--sizes", "8,512MiB", "--quiet"]
MPI = ["--backend", "mpi", "--collectives", "all_reduce", "--sizes", "8,4KiB", "--quiet"]

# Commands of a shell before it becomes the program.
HARMLESS = [
    "ulimit -n 64", "ulimit -v 2097152", "ulimit -l 0", "ulimit -s 512", "ulimit -s 80", "unset HOME", "export HOME=/nowhere",
    "export LC_ALL=C", "export LC_ALL=xx_YY.nonsense LANG=zz", "export LC_ALL=de_DE.UTF-8", "export TZ=:/nowhere/odd+99",
    "umask 077", "umask 777", "export PATH=", "unset PATH", "export TMPDIR=/nowhere", "export TERM=nonsense COLUMNS=-1",
    "exec <&-", "unset $(env | sed -nE 's/^([A-Z_a-z]+)=.*/\\1/p' | grep -vE '^(OMPI_|PMIX_|P5BENCH_TEST_MARK)')",
]
# The expected message, with the exit code.
TOO_LITTLE = [
    ("ulimit -f 1", 13, ["report.json", "ulimit -f", "--out"]),
    ("mkdir gone && cd gone && rmdir ../gone", 2, ["--out"]),
]
# mpirun itself needs these, so they are limited for its ranks only.
OF_RANKS_ALONE = ("PATH", "TMPDIR", "unset $(", "umask 777", "ulimit -s 80")
BY_DAY = ("ulimit -n 64", "umask 777")


def tight(tightening):
    return ["/bin/bash", "-c", f'{tightening}; exec "$@"', "bash"]


class Tight(Folder):
    def measure(self, tightening, ranks=None, prefix=(), **how):
        """Runs in a folder that is emptied first."""
        for path in self.files("report.json"):
            path.unlink()
        out = ["--out", "out"]
        if ranks is None:
            command = [*prefix, *tight(tightening), PROGRAM, *SIM, *out]
        elif any(word in tightening for word in OF_RANKS_ALONE):
            command = [*prefix, *mpirun(ranks), *tight(tightening), PROGRAM, *MPI, *out]
        else:
            command = [*prefix, *tight(tightening), *mpirun(ranks), PROGRAM, *MPI, *out]
        return self.run_it(program=command, **how)

    def assert_complete(self, done, ranks):
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        report = read_report(self.folder / "out" / "latest" / "report.json")
        self.assertEqual((report["status"], report["exit_code"], report["run"]["ranks"]), ("complete", 0, ranks))
        self.assertEqual({m["outcome"] for m in report["measurements"]}, {"measured"})

    def assert_says(self, done, code, words):
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertNotIn("terminate called", done.stderr)
        self.assert_none_left()


class Alone(Tight):
    def test_the_report_tells_the_end_that_the_process_has_wherever_memory_ends(self):
        """Limits of memory below what a run takes, in steps: a code of ours and no core dump, and report.json, where
        there is one, agrees with it."""
        codes = set()
        for kibibytes in tonight(range(8000, 60000, 500)) if NIGHTLY else range(8000, 60000, 4000):
            done = self.measure(f"ulimit -d {kibibytes}")
            if done.returncode == 127 or "loading shared libraries" in done.stderr:
                continue
            self.assertIn(done.returncode, (0, 2, 12, 13), done.stderr)
            codes.add(done.returncode)
            for path in self.files("report.json"):
                report = read_report(path)
                if report["status"] == "complete":
                    self.assertEqual(report["exit_code"], done.returncode, f"{kibibytes}: {done.stderr}")
                else:
                    self.assertNotEqual(done.returncode, 0)
        self.assertIn(0, codes)

    def test_it_does_its_work(self):
        for tightening in HARMLESS:
            with self.subTest(tightening):
                self.assert_complete(self.measure(tightening), 16)

    def test_it_says_what_is_missing(self):
        for tightening, code, words in TOO_LITTLE:
            with self.subTest(tightening):
                self.assert_says(self.measure(tightening), code, words)

    def test_a_folder_that_is_gone_matters_to_relative_paths_alone(self):
        done = self.run_it(*SIM, "--out", self.folder / "out",
                           program=(*tight("mkdir gone && cd gone && rmdir ../gone"), PROGRAM))
        self.assert_complete(done, 16)

    def test_another_user_may_have_few_threads(self):
        if os.getuid() != 0:
            self.skipTest("needs root, to become a user without processes")
        user = 54321
        if subprocess.run([PROGRAM, "--version"], user=user, group=user, extra_groups=[], capture_output=True).returncode != 0:
            self.skipTest("needs programs that other users may read")
        os.chown(self.folder, user, user)
        for count in range(1, 9):
            with self.subTest(count):
                done = self.measure(f"ulimit -u {count}", user=user, group=user, extra_groups=[])
                if done.returncode == 0:
                    break
                self.assert_says(done, 13, ["ulimit -u"])
        else:
            self.fail("eight are not enough")
        self.assertGreater(count, 1)


class Ranks(Tight):
    def test_they_do_their_work(self):
        for tightening in HARMLESS if NIGHTLY else BY_DAY:
            with self.subTest(tightening):
                self.assert_complete(self.measure(tightening, ranks=2), 2)

    def test_memory_that_ends_somewhere_ends_the_job_in_good_order(self):
        """Limits from too low for any program to high enough; MPI has messages and codes of its own."""
        for kibibytes in range(50_000, 400_001, 25_000) if NIGHTLY else (150_000, 250_000):
            with self.subTest(kibibytes):
                done = self.run_it(*MPI, "--out", "out", ranks=2, program=(*tight(f"ulimit -v {kibibytes}"), PROGRAM))
                self.assertNotIn("bad_alloc", done.stderr)
                self.assertNotIn("terminate called", done.stderr)
                if "p5bench: " in done.stderr:
                    self.assertIn(done.returncode, (12, 13), done.stderr)
                    self.assertIn("ulimit -v", done.stderr)
                self.assert_none_left()

    @unittest.skipUnless(NIGHTLY, "nightly: three runs")
    def test_they_do_without_shared_memory(self):
        namespace = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o "$0" none /dev/shm && exec "$@"']
        if subprocess.run([*namespace, "ro", "true"], capture_output=True).returncode != 0:
            self.skipTest("needs the right to mount")
        for option in ("ro", "size=4k", "size=1m"):
            with self.subTest(option):
                self.assert_complete(self.measure("true", ranks=2, prefix=(*namespace, option)), 2)


if __name__ == "__main__":
    main()
