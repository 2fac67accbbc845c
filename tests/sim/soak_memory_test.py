"""The memory of a long run: each launch keeps only what the report has of it."""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, PROGRAM, main  # noqa: E402

# Real ranks take at least 10 s for 241 cases here: an hour, and 24 minutes for each tenth of four.
LAUNCHES = 400
# The median memory, several times, and what samples and groups of ranks add before they are only counted.
MOST_BYTES_A_RESULT = 200


class SoakMemory(Folder):
    def peak_and_results(self, launches):
        """The peak memory in bytes and the number of results, over all launches."""
        out = self.folder / str(launches)
        # One core and one heap: what the C library reserves for other threads is no growth.
        run = subprocess.Popen([PROGRAM, "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "2", "--launches",
                                str(launches), "--budget", "2h", "--seed", "1", "--quiet", "--out", out],
                               env=self.environment(MALLOC_ARENA_MAX="1"), stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(run.returncode, 0)
        report = json.loads((out / "latest" / "report.json").read_text())
        self.assertEqual((report["status"], report["run"]["launches"]), ("complete", launches))
        with open(out / "latest" / "measurements.jsonl") as journal:
            return usage.ru_maxrss * 1024, sum(1 for _ in journal)

    def test_it_grows_with_the_figures_alone(self):
        short, fewer = self.peak_and_results(LAUNCHES // 10)
        long, results = self.peak_and_results(LAUNCHES)
        # The measurements that locate slow parts are made once, however many launches there are.
        self.assertEqual((results - fewer) % (LAUNCHES - LAUNCHES // 10), 0)
        growth = (long - short) / (results - fewer)
        print(f"{fewer} results: {short >> 20} MiB, {results} results: {long >> 20} MiB, {growth:.0f} bytes a result")
        self.assertLess(growth, MOST_BYTES_A_RESULT)


if __name__ == "__main__":
    main()
