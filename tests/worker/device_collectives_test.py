"""Device-initiated collectives of the real worker on the fakes: host twins of its kernels, over windows that map the
memory of the other ranks' processes."""

import itertools
import os
import pathlib
import time
import unittest

from workers import BYTES, Workers, case, skip_unless_built

OPS = ("sum", "prod", "min", "max", "avg", "mulsum")
BOTH = ("lsa_all_reduce", "lsa_all_to_all")
LARGE = 5_003  # elements; of 64 bits two-shot begins at 32,768, so that larger cases name their bytes
FLAGS, GUARD = 128 << 10, 512  # before the first buffer


def wrong(verifications):
    return [each["wrong_elements"] for each in verifications]


def memory_of(worker):
    """The file of the memory in which the worker's buffers lie: the largest of its device memory."""
    files = [each for each in pathlib.Path(f"/proc/{worker.process.pid}/fd").iterdir()
             if "p5bench-fake-gpu" in os.readlink(each)]
    return max(files, key=lambda each: each.stat().st_size)


class DeviceCollectives(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with Workers(1) as workers:
            if tuple(map(int, workers.identities[0]["library"].removeprefix("NCCL ").split("."))) < (2, 28):
                raise unittest.SkipTest("NCCL's device API is of 2.28")

    def right(self, workers, each, rounds=None, **options):
        verifications, _ = workers.measure(each, rounds, **options)
        with self.subTest(case=each, ranks=workers.ranks):
            self.assertEqual(wrong(verifications), [0] * len(verifications), verifications)

    def test_all_types_and_operations_one_shot_and_two_shot(self):
        for ranks in (1, 2, 3):
            with Workers(ranks) as workers:
                for type_name, op in itertools.product(BYTES, OPS):
                    self.right(workers, case("lsa_all_reduce", 515, ranks, type_name, op))
                    self.right(workers, case("lsa_all_reduce", 515, ranks, type_name, op, in_place=True))
                for type_name in BYTES:
                    self.right(workers, case("lsa_all_to_all", 515, ranks, type_name))
        with Workers(4) as workers:
            for type_name in ("int8", "bfloat16", "float64"):
                elements = (256 << 10) // BYTES[type_name] + 3  # above the largest one-shot
                self.right(workers, case("lsa_all_reduce", elements, 4, type_name), memory=32 << 20)
                self.right(workers, case("lsa_all_to_all", 40_000, 4, type_name), memory=32 << 20)

    def test_selection_says_how(self):
        with Workers(2) as workers:
            for elements, in_place, algorithm in ((8, False, "one_shot"), (8, True, "two_shot"), (66_000, False, "two_shot")):
                workers.open(case("lsa_all_reduce", elements, 2, in_place=in_place))
                workers.good("warm_up", operations=1)
                first, second = [reply["selection"] for reply in workers.good("selection")]
                self.assertEqual((first["algorithm"], first["protocol"], first["source"]), (algorithm, "lsa", "p5bench"))
                self.assertIsNone(second)
                workers.good("close")

    def test_groups_graphs_and_buffers_that_are_not_aligned(self):
        for ranks in (2, 3):
            with Workers(ranks) as workers:
                for collective, unalign in itertools.product(BOTH, (0, 1)):
                    for more in ({"cuda_graph": True}, {"unalign": 3}, {"unalign": 4}):
                        self.right(workers, case(collective, LARGE + unalign, ranks, "int8", **more))
        with Workers(4) as workers:
            for collective in BOTH:
                self.right(workers, case(collective, 1000, 2), [[[0, 1], [2, 3]], [[0, 3], [1, 2]], [[1, 2]]])

    def test_a_wrong_element_is_found_where_it_came(self):
        """An element of rank 1's input is changed after it was filled: the first one of the first block."""
        for collective, finds in (("lsa_all_reduce", [True, True, True]), ("lsa_all_to_all", [True, False, False])):
            with Workers(3) as workers, self.subTest(collective=collective):
                slots = workers.open(case(collective, 300, 3))[0]["slots"]
                workers.good("warm_up", operations=1)
                with open(memory_of(workers.all[1]), "r+b", buffering=0) as memory:
                    at = FLAGS + GUARD
                    changed = os.pread(memory.fileno(), 1, at)[0] ^ 0x40
                    os.pwrite(memory.fileno(), bytes([changed]), at + 0)
                workers.good("sample", quantity="throughput", samples=1, operations=slots, poison_last=True)
                found = workers.good("verify")
                self.assertEqual([each["wrong_elements"] for each in found], [int(each) for each in finds])
                self.assertEqual(found[0]["first"]["offset"], 0 if collective == "lsa_all_reduce" else 300)

    def test_a_rank_that_hangs_holds_no_other(self):
        """The kernels of the others end when their worker gives up, so that they are not taken for what hangs."""
        with Workers(3) as workers:
            workers.open(case("lsa_all_reduce", 300, 3))
            for worker in workers.all[:2]:  # the third one gets no order
                worker.send("warm_up", operations=1)
            time.sleep(0.2)
            for worker in workers.all[:2]:
                worker.give_up()
            for worker in workers.all[:2]:
                reply = worker.receive()
                self.assertEqual((reply["gave_up"], reply["at_rest"]), (True, True), reply)

    def test_it_is_unavailable_with_a_reason_and_nothing_fails(self):
        reasons = (({"P5BENCH_FAKE_NCCL_VERSION": "22703"}, "NCCL's device API is of 2.28; this is NCCL 2.27.3"),
                   ({"P5BENCH_FAKE_NCCL_VERSION": "23007"}, "build it with the NCCL that it runs with"),
                   ({"NCCL_WIN_ENABLE": "0"}, "NCCL has no symmetric memory here"))
        for environment, reason in reasons:
            with Workers(2, environment=environment) as workers, self.subTest(reason=reason):
                for collective in BOTH:
                    for reply in workers.open(case(collective, 300, 2)):
                        self.assertIn(reason, reply["unavailable"])
                    workers.good("close")
                self.right(workers, case("all_reduce", 300, 2))
        with Workers(4, environment=lambda rank: {"NCCL_HOSTID": f"host{rank // 2}"}) as workers:
            for reply in workers.open(case("lsa_all_reduce", 300, 4)):
                self.assertIn("of the 4 ranks of a group only 2 reach each other's memory", reply["unavailable"])
            workers.good("close")
            self.right(workers, case("lsa_all_reduce", 300, 2), [[[0, 1], [2, 3]]])

    def test_settings_cannot_be_forced_and_several_are_no_group(self):
        with Workers(2) as workers:
            workers.open(case("lsa_all_reduce", 300, 2))
            self.assertIn("cannot be forced", workers.ask("warm_up", operations=1, setting="ring/simple")[0]["error"])
        with Workers(2) as workers:
            self.assertIn("cannot be one group", workers.open(case("lsa_all_to_all", 8, 2, aggregate=2))[0]["error"])
            self.assertIn("no in-place form", workers.open(case("lsa_all_to_all", 8, 2, in_place=True))[0]["error"])


if __name__ == "__main__":
    skip_unless_built()
    unittest.main()
