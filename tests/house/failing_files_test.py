"""tests/support/failing_files.cpp: which calls fail and how, and which do not; tests of full disks stand on it."""

import errno
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import BUILD, PATIENCE_S, Folder, main  # noqa: E402

KINDS = ["open", "write", "fsync", "rename", "mkdir", "symlink"]
# Each kind once, in that order, and before them what must always work; prints what came of each. Input is the file.
CALLS = """
import os, sys
folder = sys.argv[1]
def say(kind, do):
    try:
        do()
        print(kind, 0)
    except OSError as error:
        print(kind, error.errno)
say("read", lambda: open(f"{folder}/given").close())
say("open", lambda: os.open(f"{folder}/new", os.O_WRONLY | os.O_CREAT))
say("write", lambda: os.write(0, b"word"))
say("fsync", lambda: os.fsync(0))
say("rename", lambda: os.rename(f"{folder}/given", f"{folder}/renamed"))
say("mkdir", lambda: os.mkdir(f"{folder}/folder"))
say("symlink", lambda: os.symlink("given", f"{folder}/link"))
"""


class FailingFiles(Folder):
    def setUp(self):
        super().setUp()
        self.below = self.folder / "below"
        self.below.mkdir()
        self.beside = self.folder / "below-not"
        self.beside.mkdir()

    def variables(self, **wanted):
        named = {f"P5BENCH_FAIL_{name}": str(value) for name, value in wanted.items()}
        return {"LD_PRELOAD": str(BUILD / "tests/failing_files.so"), "P5BENCH_FAIL_BELOW": str(self.below),
                "P5BENCH_FAIL_LOG": str(self.folder / "log"), **named}

    def outcomes(self, folder=None, variables=None, **wanted):
        """What came of the calls, by kind, once the file for them is there."""
        folder = folder or self.below
        (folder / "given").write_text("")
        with open(folder / "given", "r+b") as given:
            calls = self.start("-c", CALLS, folder, program=(sys.executable,), stdin=given,
                               variables={**self.variables(**wanted), **(variables or {})})
        self.assertEqual(calls.wait(PATIENCE_S), 0, self.printed())
        outcomes = {kind: int(number) for kind, number in (line.split() for line in self.printed().splitlines())}
        self.assertEqual(outcomes.pop("read"), 0)
        self.assertEqual(list(outcomes), KINDS)
        return outcomes

    def told(self):
        """The kinds of the calls in the log."""
        log = self.folder / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        self.assertTrue(all(line.split(" ", 1)[1].startswith(f"{self.below}/") for line in lines), lines)
        return [line.split()[0] for line in lines]

    def test_every_kind_of_call_fails_with_the_error_that_is_asked_for(self):
        for name in ("ENOSPC", "EROFS", "EIO", "ENOENT"):
            self.assertEqual(self.outcomes(WITH=name), dict.fromkeys(KINDS, getattr(errno, name)))
        self.assertEqual(self.told(), 4 * KINDS)
        self.assertEqual([path.name for path in self.below.iterdir()], ["given"])

    def test_calls_fail_from_the_wanted_one_on(self):
        self.assertEqual(self.outcomes(WITH="ENOSPC", FROM=4),
                         {**dict.fromkeys(KINDS[:3], 0), **dict.fromkeys(KINDS[3:], errno.ENOSPC)})
        self.assertEqual(self.told(), KINDS[3:])

    def test_only_the_kinds_that_are_named_are_counted_and_fail(self):
        self.assertEqual(self.outcomes(WITH="EIO", ON="mkdir,write", FROM=2),
                         {**dict.fromkeys(KINDS, 0), "mkdir": errno.EIO})

    def test_what_is_not_below_the_folder_works(self):
        self.assertEqual(self.outcomes(folder=self.beside), dict.fromkeys(KINDS, 0))
        self.assertEqual(self.told(), [])

    def test_a_folder_behind_a_link_is_the_same_folder(self):
        (self.folder / "link").symlink_to(self.below)
        self.assertEqual(self.outcomes(folder=self.folder / "link"), dict.fromkeys(KINDS, errno.EIO))

    def test_calls_that_are_delayed_are_done(self):
        self.assertEqual(self.outcomes(WITH="delay:0.01"), dict.fromkeys(KINDS, 0))
        self.assertEqual(self.told(), KINDS)
        self.assertEqual({path.name for path in self.below.iterdir()}, {"folder", "link", "new", "renamed"})
        self.assertEqual((self.below / "renamed").read_text(), "word")

    def test_only_the_rank_that_is_named_fails(self):
        self.assertEqual(self.outcomes(RANK=1, variables={"OMPI_COMM_WORLD_RANK": "1"}), dict.fromkeys(KINDS, errno.EIO))
        for path in self.below.iterdir():
            path.unlink()
        self.assertEqual(self.outcomes(RANK=1, variables={"OMPI_COMM_WORLD_RANK": "0"}), dict.fromkeys(KINDS, 0))

    def test_the_calls_of_a_run_are_seen(self):
        done = self.run_it("--backend", "sim", "--platform", "p5.48xlarge", "--collectives", "all_gather", "--quiet",
                           "--out", self.below / "out", variables=self.variables(WITH="delay:0"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(set(self.told()), {"open", "write", "mkdir", "rename", "fsync", "symlink"})

    def test_a_close_fails_where_it_is_wanted_and_is_done(self):
        close = """
import os, sys
for flags in (os.O_WRONLY | os.O_CREAT, os.O_RDONLY):
    file = os.open(sys.argv[1], flags)
    try:
        os.close(file)
        print(0)
    except OSError as error:
        print(error.errno)
        try:
            os.fstat(file)
        except OSError:
            print("closed")
"""
        for name, said in (("wanted", [str(errno.ENOSPC), "closed", "0"]), ("another", ["0", "0"])):
            done = self.run_it("-c", close, self.below / name, program=(sys.executable,),
                               variables=self.variables(WITH="ENOSPC", ON="close", NAME="wanted"))
            self.assertEqual((done.returncode, done.stdout.split()), (0, said), done.stderr)

    def test_a_slip_ends_the_program(self):
        for wrong in ({"WITH": "ENOSPACE"}, {"WITH": "delay:soon"}, {"ON": "write,shut"}, {"FROM": "x"}):
            done = self.run_it("-c", CALLS, self.below, program=(sys.executable,), variables=self.variables(**wrong))
            self.assertEqual(done.returncode, 99, done.stderr)
            self.assertIn(f"failing_files: P5BENCH_FAIL_{[*wrong][0]} cannot be", done.stderr)


if __name__ == "__main__":
    main()
