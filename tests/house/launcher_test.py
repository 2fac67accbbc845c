"""scripts/lib/launcher.sh: signals to a script that starts ranks reach them, and their exit code is the script's."""

import fcntl
import os
import pathlib
import pty
import signal
import subprocess
import sys
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, SOURCE, main  # noqa: E402

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


if __name__ == "__main__":
    main()
