"""Many more ranks than this machine has cores: they are slow, but right."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, main  # noqa: E402

RANKS = 64
PATIENCE_S = 1500


class Load(Folder):
    def test_sixty_four_ranks_on_one_host(self):
        done = self.run_it("--backend", "mpi", "--sizes", "8,1KiB", "--collectives", "all_reduce,all_gather", "--budget",
                           "5min", "--timeout", "300s", "--quiet", "--out", "out", ranks=RANKS, patience=PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assert_none_left()
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"], report["run"]["ranks"]), ("complete", 0, RANKS))
        self.assertEqual({(m["outcome"], m["wrong_elements"]) for m in report["measurements"]}, {("measured", 0)})


if __name__ == "__main__":
    main()
