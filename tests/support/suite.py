"""Runs a unittest file as a program and prints at its end which of its tests were skipped, and why. To ctest such a
file has passed; scripts/lib/skips.py reads these lines. Before them it prints the processor time of the tests that took
most, in seconds, their processes included: it depends less on what else runs than their duration. Both times of the
whole file say which share of a core it keeps busy (TENTHS in tests/CMakeLists.txt).

The file has a folder for temporary files of its own (TMPDIR). The mpiruns of files that run at the same time share no
session folder then: Open MPI 4.1 can fail to make one while another mpirun removes it.
usage: suite.py FILE [CLASS...]"""

import os
import pathlib
import runpy
import sys
import tempfile
import time
import unittest


MOST_TIMES = 8
START = time.monotonic()


def processor_s():
    """Of this process and of those that it has waited for."""
    return sum(os.times()[:4])


class Telling(unittest.TextTestResult):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.times = []

    def startTest(self, test):
        super().startTest(test)
        self.begin = processor_s()

    def stopTest(self, test):
        super().stopTest(test)
        self.times.append((processor_s() - self.begin, test.id().replace("__main__.", "")))

    def stopTestRun(self):
        super().stopTestRun()
        self.stream.write(f"\nprocessor time: {processor_s():.1f} s of {time.monotonic() - START:.1f} s\n")
        for seconds, name in sorted(self.times, reverse=True)[:MOST_TIMES]:
            self.stream.write(f"{seconds:7.1f} s  {name}\n")
        if self.skipped:
            self.stream.write("\nCTEST_FULL_OUTPUT: this word keeps ctest from cutting off what follows")
        for test, reason in self.skipped:
            self.stream.write(f"\nskipped part: {test.id().replace('__main__.', '')}: {' '.join(reason.split())}\n")


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    sys.path[0] = str(pathlib.Path(sys.argv[0]).resolve().parent)
    unittest.TextTestRunner.resultclass = Telling
    with tempfile.TemporaryDirectory(prefix="p5-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o1777)  # some tests run programs as another user
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        runpy.run_path(sys.argv[0], run_name="__main__")
