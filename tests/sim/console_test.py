"""Failures of a run's console: it disappears, it is full, it is closed, its terminal hangs up. The run's files are
complete all the same, and the exit code agrees with them."""

import fcntl
import os
import pathlib
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import BUILD, Folder, PATIENCE_S, PROGRAM, SOURCE, main, read_report, wait_for  # noqa: E402

QUICK = ["--backend", "sim", "--platform", "p5.48xlarge", "--collectives", "all_reduce", "--sizes", "8,1GiB", "--out", "out"]
WRONG = [*QUICK, "--fault", "gpu:n0g0:1:lies"]
ENDLESS = [*QUICK, "--soak", "10min", "--quiet"]
REPORT = str(SOURCE / "tests/fixtures/reports/simulated.json")


def ignore_hangup():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


class Console(Folder):
    def in_shell(self, words, *arguments):
        """Runs a shell command in which {} is the program. Its exit code is printed last on stderr."""
        command = words.replace("{}", f'"{PROGRAM}" "$@"')
        return subprocess.run(["bash", "-c", command, "bash", *arguments], cwd=self.folder, env=self.environment(), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, errors="replace")

    def assert_whole(self, code, said=""):
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"]), ("complete", code), said)
        self.assertTrue(self.files("report.html") and self.files("measurements.jsonl"))

    def test_what_matters_comes_first_and_last_and_no_column_is_empty(self):
        done = self.in_shell("{}", "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4", "--sizes", "8,4GiB", "--out", "out",
                             "--tuning=off", "--fault", "nic:n1r5:0.5", "--table")
        lines = done.stdout.splitlines()
        verdicts = [at for at, line in enumerate(lines) if line.startswith("REJECT n1: nic n1r5 is slow")]
        suspects = [at for at, line in enumerate(lines) if line.startswith("  suspect nic n1r5 (n1")]
        tables = [at for at, line in enumerate(lines) if line.startswith("# ") and " ranks on " in line][1:]
        self.assertEqual((len(verdicts), len(suspects)), (2, 2), done.stdout)
        self.assertLess(max(verdicts[0], suspects[0]), tables[0])
        self.assertGreater(min(verdicts[1], suspects[1]), tables[-1])
        titles = [lines[at] for at in tables]
        self.assertEqual(len(titles), len(set(titles)), "a table for each operation")
        for at in tables:
            rows = [line.split() for line in lines[at + 3:lines.index("", at)]]
            self.assertTrue(rows)
            for column in zip(*rows):
                self.assertNotEqual(set(column), {"N/A"}, lines[at])

    def test_a_run_is_told_in_some_lines_of_a_hundred_columns(self):
        for options, first in (((), "ACCEPT: "), (("--fault", "nic:n1r5:0.5"), "REJECT n1: nic n1r5 is slow"),
                               (("--fault", "node:n0:0.5", "--fault", "node:n1:0.5", "--fault", "node:n2:0.5", "--fault", "node:n3:0.5"),
                                "REJECT: all 4 nodes are equally slow")):
            done = self.in_shell("{}", "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4", "--sizes", "8,4GiB", "--out", "out",
                                 "--tune=off", *options)
            lines = done.stdout.splitlines()
            self.assertTrue(lines[0].startswith(first), done.stdout)
            self.assertEqual(lines[-2], lines[0], "who sees a run end finds it last")
            copied = [line for line in lines if line.startswith("  mpirun ")]
            self.assertEqual(max(len(line) for line in lines[1:-2] if line not in copied) <= 100, True, done.stdout)
            self.assertLessEqual(len(lines), 60, done.stdout)
            rows = lines[next(at for at, line in enumerate(lines) if line.startswith("operation ")) + 1:]
            rows = rows[:next(at for at, line in enumerate(rows) if not re.search(r"  (ok|slow|not judged)$", line))]
            self.assertTrue(6 <= len(rows) <= 16, done.stdout)
            self.assertNotIn("\033", done.stdout)
            self.assertNotRegex(done.stdout, "NOT JUDGED|unknown")

    def on_terminal(self, **variables):
        ours, theirs = os.openpty()
        with subprocess.Popen([PROGRAM, "report", REPORT], cwd=self.folder, env=self.environment(**variables), stdin=subprocess.DEVNULL,
                              stdout=theirs, stderr=subprocess.DEVNULL) as process:
            os.close(theirs)
            said = b""
            while True:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                said += part
            os.close(ours)
            process.wait(timeout=PATIENCE_S)
        return said.decode()

    def test_a_terminal_gets_colours_unless_it_wants_none(self):
        self.assertTrue(self.on_terminal(TERM="xterm").startswith("\033[1;31mREJECT\033[0m n1: "))
        self.assertNotIn("\033", self.on_terminal(TERM="xterm", NO_COLOR="1"))
        self.assertNotIn("\033", self.on_terminal(TERM="dumb"))
        self.assertNotIn("\033", self.run_it("report", REPORT, variables={"TERM": "xterm"}).stdout)

    def test_a_reader_that_leaves_early_takes_nothing_from_a_run(self):
        done = self.in_shell("{} | head -1; exit ${PIPESTATUS[0]}", *WRONG)
        self.assertEqual((done.returncode, done.stderr), (11, ""))
        self.assertEqual(len(done.stdout.splitlines()), 1)
        self.assert_whole(11)

    def test_a_reader_that_left_before_takes_nothing_from_a_run(self):
        done = self.in_shell("{ sleep 0.5; {}; echo $? >code; } | true; exit $(cat code)", *QUICK)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assert_whole(0)

    def test_a_full_console_takes_nothing_from_a_run(self):
        for out, words in (("full", "{} >/dev/full"), ("closed", "{} >&-")):
            with self.subTest(words):
                done = self.in_shell(words, *WRONG, "--out", out)
                self.assertEqual(done.returncode, 11, done.stderr)
                self.assertEqual(done.stderr.count("could not be printed"), 1, done.stderr)
                report = read_report(self.folder / out / "latest" / "report.json")
                self.assertEqual((report["status"], report["exit_code"]), ("complete", 11))

    def test_closed_descriptors_are_not_taken_for_files(self):
        done = self.in_shell("{} <&- >&- 2>&-", *QUICK)
        self.assertEqual(done.returncode, 0)
        self.assert_whole(0)

    def test_closed_descriptors_are_nobodys(self):
        run = self.start("-c", f'exec "{PROGRAM}" "$@" <&- >&- 2>&-', "bash", *ENDLESS, program=("bash",))
        self.assertTrue(wait_for(lambda: self.files("measurements.jsonl") or run.poll() is not None) and run.poll() is None)
        self.assertEqual([os.readlink(f"/proc/{run.pid}/fd/{number}") for number in range(3)], 3 * ["/dev/null"])
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(PATIENCE_S), 12)

    def test_a_console_that_does_not_wait_is_waited_for(self):
        """A terminal that another program made non-blocking; here it accepts a part of the text at a time."""
        wanted = self.run_it("run", "--help").stdout
        ours, theirs = os.pipe()
        fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(theirs, False)
        self.assertGreater(len(wanted), 4096)
        run = self.start("run", "--help", stdout=theirs)
        os.close(theirs)
        self.assertTrue(wait_for(lambda: run.poll() is not None or select.select([ours], [], [], 0)[0]))
        time.sleep(0.2)  # until it is full
        with open(ours) as text:
            self.assertEqual(text.read(), wanted)
        self.assertEqual(run.wait(PATIENCE_S), 0)

    def test_a_result_that_is_lost_is_no_success(self):
        for arguments in (["list", "platforms"], ["--help"], ["report", REPORT], ["plan", *QUICK]):
            with self.subTest(arguments):
                full = self.in_shell("{} >/dev/full", *arguments)
                self.assertEqual(full.returncode, 13, full.stderr)
                self.assertIn("could not be printed: No space left on device", full.stderr)
                self.assertEqual(len(full.stderr.splitlines()), 1)
                left = self.in_shell("{} | head -1; exit ${PIPESTATUS[0]}", *arguments)
                self.assertEqual((left.returncode, left.stderr, len(left.stdout.splitlines())), (0, "", 1))

    def test_a_comparison_that_cannot_be_printed_keeps_its_code(self):
        for out, options in (("a", QUICK), ("b", WRONG)):
            self.assertIn(self.run_it(*options, "--out", out).returncode, (0, 11))
        self.assertEqual(self.in_shell("{} >/dev/full", "compare", "a", "b").returncode, 11)

    def test_a_comparison_whose_text_is_lost_says_that_before_that_something_got_slower(self):
        for out, options in (("a", []), ("b", ["--fault", "gpu:n0g0:0.5"])):
            self.run_it(*QUICK, *options, "--launches", "3", "--out", out)
        self.assertEqual(self.in_shell("{} >/dev/null", "compare", "a", "b").returncode, 10)
        self.assertEqual(self.in_shell("{} >/dev/full", "compare", "a", "b").returncode, 13)


class LiveLine(Folder):
    def watch(self, *arguments, columns):
        """The text on stderr of a terminal with so many columns."""
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen([PROGRAM, *arguments], cwd=self.folder, env=self.environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=theirs) as process:
            os.close(theirs)
            said = b""
            while True:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                if not part:
                    break
                said += part
            os.close(ours)
            process.wait(timeout=PATIENCE_S)
        return [line for line in said.decode().split("\r\033[K") if line.strip()]

    # Enough nodes for a run that takes longer than the interval between two progress lines.
    LONG = ["--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "16", "--fault", "node:n3:0.5", "--out", "out"]

    def test_says_the_case_the_time_left_and_the_worst_so_far(self):
        lines = self.watch(*self.LONG, columns=300)
        self.assertRegex(lines[0], r"^ +0 %  1 of \d+, about .* left, ")
        worst = [line.split("worst so far: ")[1] for line in lines if "worst so far: " in line]
        self.assertTrue(worst, lines)
        self.assertRegex(worst[-1], r"^(p2p|all_(reduce|gather)) .* \d+ % of its limit, (slow|ok)$")

    def test_stays_one_line_on_a_narrow_terminal(self):
        lines = self.watch(*self.LONG, columns=40)
        self.assertGreater(len(lines), 1)
        self.assertEqual(max(len(line) for line in lines), 39)


class HangUp(Folder):
    def begin(self, **how):
        run = self.start(*ENDLESS, **how)
        self.assertTrue(wait_for(lambda: self.files("measurements.jsonl") or run.poll() is not None) and run.poll() is None,
                        self.printed())
        return run

    def test_ends_a_run_with_a_report(self):
        run = self.begin()
        run.send_signal(signal.SIGHUP)
        self.assertEqual(run.wait(PATIENCE_S), 12, self.printed())
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"]), ("partial", 12))
        self.assertIn("SIGHUP", report["run"]["ended_by"])
        self.assertTrue(self.files("report.html"))

    def test_of_another_kind_interrupts_one_launch_and_fails_no_measurement(self):
        for name in ("SIGINT", "SIGQUIT", "SIGALRM"):
            with self.subTest(name):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                run = self.begin()
                self.assertTrue(wait_for(lambda: self.files("measurements.jsonl")[0].read_bytes().count(b"\n") > 20), self.printed())
                run.send_signal(getattr(signal, name))
                self.assertEqual(run.wait(PATIENCE_S), 12, self.printed())
                report = self.report()
                self.assertEqual({each["outcome"] for each in report["measurements"]}, {"measured"})
                self.assertTrue(all(len(each["launches_us"]) > 2 for each in report["measurements"]))
                sentence = report["decision"]["sentence"]
                self.assertRegex(sentence, f"^CANNOT TELL: the run did not finish: ended by {name} while .*, SIMULATED$")
                self.assertIn(sentence, self.printed())

    def test_is_nothing_to_a_run_that_was_told_so(self):
        self.outlives_a_hang_up()

    def test_is_nothing_to_such_a_run_where_a_library_takes_the_signal(self):
        self.outlives_a_hang_up(variables={"LD_PRELOAD": str(BUILD / "tests/takes_hangup.so")})

    def outlives_a_hang_up(self, **how):
        run = self.begin(preexec_fn=ignore_hangup, **how)
        run.send_signal(signal.SIGHUP)
        length = self.files("measurements.jsonl")[0].stat().st_size
        self.assertTrue(wait_for(lambda: self.files("measurements.jsonl")[0].stat().st_size > length), self.printed())
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait(PATIENCE_S), 12, self.printed())
        self.assertIn("SIGTERM", self.report()["run"]["ended_by"])


if __name__ == "__main__":
    main()
