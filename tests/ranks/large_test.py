"""Messages of more elements than a 32-bit count holds. Needs about 20 GiB of memory and some minutes."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import FEW_SAMPLES, Folder, collectives, main  # noqa: E402


class Large(Folder):
    def test_messages_of_4_gibibytes_are_verified(self):
        # A report of slow parts does not matter here.
        done = self.run_it("--sizes", "4GiB", "--type", "int8", "--collectives", ",".join(collectives(2)), "--quiet",
                           "--budget", "60min", "--timeout", "10min", "--out", "out", ranks=2, patience=3600,
                           variables=FEW_SAMPLES)
        self.assertIn(done.returncode, (0, 10), done.stderr)
        report = self.report()
        self.assertEqual(len(report["measurements"]), len(collectives(2)) + 2)  # p2p has three patterns
        for measurement in report["measurements"]:
            self.assertEqual((measurement["outcome"], measurement["wrong_elements"]), ("measured", 0),
                             measurement["case"])


if __name__ == "__main__":
    main()
