"""Runs a unittest file as a program and prints at its end which of its tests were skipped, and why. To ctest such a
file has passed; scripts/lib/skips.py reads these lines. usage: suite.py FILE [CLASS...]"""

import pathlib
import runpy
import sys
import unittest


class Telling(unittest.TextTestResult):
    def stopTestRun(self):
        super().stopTestRun()
        if self.skipped:
            self.stream.write("\nCTEST_FULL_OUTPUT: this word keeps ctest from cutting off what follows")
        for test, reason in self.skipped:
            self.stream.write(f"\nskipped part: {test.id().replace('__main__.', '')}: {' '.join(reason.split())}\n")


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    sys.path[0] = str(pathlib.Path(sys.argv[0]).resolve().parent)
    unittest.TextTestRunner.resultclass = Telling
    runpy.run_path(sys.argv[0], run_name="__main__")
