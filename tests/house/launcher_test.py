"""scripts/lib/launcher.sh: signals to a script that starts ranks reach them, and their exit code is the script's.
scripts/quickstart: how many ranks it starts, with which arguments."""

import fcntl
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, PROGRAM, SOURCE, main  # noqa: E402

SCRIPT = f"""set -euo pipefail
. '{SOURCE}/scripts/lib/launcher.sh'
status=0
run_ranks "$@" || status=$?
echo "the ranks ended with $status"
exit "$status"
"""
RANKS = """trap 'echo ends early; exit 12' TERM INT
echo begins
while :; do sleep 0.05; done
"""


class Launcher(Folder):
    def begin(self, **how):
        (self.folder / "script").write_text(SCRIPT)
        (self.folder / "ranks").write_text(RANKS)
        return subprocess.Popen(["bash", "script", "bash", "ranks"], cwd=self.folder, env=self.environment(), **how)

    def test_a_signal_to_the_script_ends_the_ranks_which_write_what_they_have(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            script = self.begin(stdout=subprocess.PIPE, text=True)
            self.assertEqual(script.stdout.readline(), "begins\n")
            script.send_signal(number)
            self.assertEqual(script.communicate(timeout=60)[0], "ends early\nthe ranks ended with 12\n")
            self.assertEqual(script.returncode, 12)

    def test_so_does_a_key_on_the_terminal(self):
        terminal, end = pty.openpty()
        self.addCleanup(os.close, terminal)
        script = self.begin(stdin=end, stdout=end, stderr=end, preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)))
        os.close(end)
        said = b""
        while b"begins" not in said:
            said += os.read(terminal, 1000)
        os.write(terminal, b"\x03")
        self.assertEqual(script.wait(timeout=60), 12)

    def test_exit_codes_are_kept(self):
        (self.folder / "script").write_text(SCRIPT)
        for code in (0, 10, 143):
            done = self.run_it("-c", f"exit {code}", program=("bash", "script", "bash"))
            self.assertEqual((done.returncode, done.stdout), (code, f"the ranks ended with {code}\n"))


class Quickstart(Folder):
    """On stand-ins for the build and for programs of the machine. Answers about p5bench's options are its own."""

    def setUp(self):
        super().setUp()
        shutil.copytree(SOURCE / "scripts", self.folder / "scripts")
        (self.folder / "scripts/lib/packages.sh").write_text("build_packages='' installed_packages=''\nensure_packages() { :; }\n")
        self.built = self.folder / "build/quickstart"
        for folder in (self.folder / "bin", self.built):
            folder.mkdir(parents=True)
        (self.built / "build.ninja").touch()
        (self.built / "p5bench").symlink_to(PROGRAM)
        (self.built / "p5bench-worker-nccl").symlink_to("/bin/true")
        self.stand_in("cmake", "")
        self.stand_in("mpirun", '[ "$1" = --version ] || printf "%s\\n" "$@"')

    def stand_in(self, name, text):
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def started(self, *arguments, **variables):
        """The number of ranks, and p5bench's arguments."""
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        done = self.run_it(*arguments, program=(self.folder / "scripts/quickstart",), variables={"PATH": path, **variables})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        words = done.stdout.splitlines()
        self.assertEqual(words[:1] + words[2:3], ["-np", str(self.built / "p5bench")])
        return int(words[1]), words[3:]

    def test_a_budget_is_added_only_where_the_command_has_one(self):
        for words in ([], ["--collectives", "p2p"], ["run"], ["tune"], ["ab", "--b", "NCCL_ALGO=Ring"], ["--out", "check"]):
            self.assertEqual(self.started(*words)[1], [*words, "--budget", "30s"])
        for words in (["check"], ["--quiet", "check"], ["list", "platforms"], ["topo"], ["explain", "log"], ["compare", "a", "b"], ["--version"],
                      ["--budget", "5s"], ["--budget=5s"]):
            self.assertEqual(self.started(*words)[1], words)

    def test_fewer_than_four_gpus_get_a_rank_each(self):
        gpus = 'for i in $(seq 0 $((GPUS - 1))); do echo "GPU $i: Fake (UUID: GPU-$i)"; echo "  MIG 1g.10gb Device 0: (UUID: MIG-$i)"; done'
        self.stand_in("nvidia-smi", gpus)
        for number, arguments, ranks in ((1, [], 1), (2, [], 2), (3, ["--backend", "nccl"], 3), (4, [], 4), (8, [], 4), (0, [], 4),
                                         (2, ["--backend=mpi"], 4), (2, ["--backend", "sim"], 4)):
            self.assertEqual(self.started(*arguments, GPUS=str(number))[0], ranks, (number, arguments))
        self.assertEqual(self.started(GPUS="2", P5BENCH_RANKS="8")[0], 8)
        self.stand_in("nvidia-smi", "exit 9")
        self.assertEqual(self.started()[0], 4)
        self.stand_in("nvidia-smi", gpus)
        (self.built / "p5bench-worker-nccl").unlink()
        self.assertEqual(self.started(GPUS="2")[0], 4)


if __name__ == "__main__":
    main()
