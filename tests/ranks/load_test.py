"""Many more ranks than this machine has cores: they are slow, but right."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import FEW_SAMPLES, Folder, main  # noqa: E402

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

    def test_communicators_of_sixty_four_ranks_and_how_they_grow(self):
        done = self.run_it("--backend", "mpi", "--collectives", "communicator", "--budget", "5min", "--timeout", "300s",
                           "--out", "out", ranks=RANKS, patience=PATIENCE_S, variables=FEW_SAMPLES)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assert_none_left()
        steps = {(m["case"]["pattern"], m["case"]["ranks"]): m for m in self.report()["measurements"]}
        for ranks in (64, 32, 16, 8, 4, 2):
            for step in ("split", "split_first"):
                self.assertEqual(steps[step, ranks]["outcome"], "measured", steps[step, ranks]["because"])
        self.assertIn("file_descriptors", steps["split", 64]["communicator_costs"])
        self.assertEqual(steps["init_again", 64]["outcome"], "skipped")
        self.assertRegex(" ".join(done.stdout.split()), r"splitting: \S+ ms and \S+ ms more for each rank, from 2 to 64 ranks")


if __name__ == "__main__":
    main()
