"""The worker for libfabric, driven over its protocol, on SIMULATED EFA devices: a stand-in for libfabric's provider
(standin/provider.cpp) that moves data as fast as this machine can."""

import os
import pathlib
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "worker"))
from workers import BUILD, Worker, case  # noqa: E402

WORKER = BUILD / "p5bench-worker-ofi"
STANDIN = pathlib.Path(os.environ.get("P5BENCH_STANDIN", BUILD / "tests" / "standin"))
# NicState of standin/wire.hpp.
MOST_UNDER_WAY = struct.Struct("=72xQ")
COUNTED = struct.Struct("=24x6Q")
COUNTERS = ("tx_bytes", "rx_bytes", "send_bytes", "recv_bytes", "rdma_read_bytes", "rdma_read_resp_bytes")
GIVE_UP = 28  # SharedPage::give_up
MIB = 1 << 20


class Workers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, **variables):
        worker = Worker({"P5BENCH_STANDIN_FABRIC": str(self.folder), "P5BENCH_STANDIN_SCALE": "0", "P5BENCH_STANDIN_DEVICES": "4",
                         "FI_PROVIDER_PATH": str(STANDIN), "FI_HMEM": "system", **variables}, program=WORKER)
        self.addCleanup(worker.end)
        return worker

    def identify(self, worker):
        return worker.ask("identify", local_rank=0, local_ranks=1, interfaces=[], provider="efa")

    def joined(self, **variables):
        workers = [self.start(**variables) for _ in range(2)]
        self.identities = [self.identify(worker) for worker in workers]
        ids = [worker.ask("unique_id")["id"] for worker in workers]
        for rank, worker in enumerate(workers):
            worker.send("join", ids=ids, rank=rank, ranks=2)
        for worker in workers:
            self.assertNotIn("error", worker.receive())
        return workers

    def ask(self, workers, name, **order):
        for worker in workers:
            worker.send(name, **order)
        replies = [worker.receive() for worker in workers]
        for reply in replies:
            self.assertNotIn("error", reply)
        return replies

    def move(self, workers, size, operations=None, nic=None, pattern="one_way"):
        """Messages, all of them right; how many a sample may have."""
        its = case("p2p", size // 4, 2, pattern=pattern, nic=nic)
        slots = self.ask(workers, "open", case=its, round=0, group=[0, 1], form="")[0]["slots"]
        self.ask(workers, "warm_up", operations=1)
        request = {"quantity": "throughput", "operations": operations or slots, "samples": 1, "poison_last": True, "setting": ""}
        self.ask(workers, "sample", **request)
        self.assertEqual([reply["wrong_elements"] for reply in self.ask(workers, "verify")], [0, 0])
        self.ask(workers, "close")
        return slots

    def most_under_way(self):
        return [MOST_UNDER_WAY.unpack_from(path.read_bytes())[0] for path in sorted(self.folder.glob("nic-*"))]

    def test_names_are_those_of_devices_and_the_version_that_was_asked_for_is_told(self):
        told = self.identify(self.start())
        self.assertEqual(told["devices"], ["rdmap79s0", "rdmap80s0", "rdmap81s0", "rdmap82s0"])
        self.assertRegex(told["library"], r"^libfabric \d+\.\d+, asked for API 1\.1[78], efa$")

    def test_a_nic_has_32_messages_of_1_mib_under_way_until_the_last_has_begun(self):
        workers = self.joined()
        self.assertEqual(self.move(workers, MIB, nic=2), 128)
        self.assertEqual(self.most_under_way(), [0, 0, 32, 0])
        self.move(workers, MIB, nic=1, pattern="both_ways")
        self.assertEqual(self.most_under_way(), [0, 32, 32, 0])
        self.move(workers, 16 * MIB, operations=5, nic=3)  # more than there are buffers
        self.assertEqual(self.most_under_way(), [0, 32, 32, 2])

    def test_devices_of_p5_read_by_themselves_because_the_version_is_high_enough(self):
        for version, counter in (("1.17", "rdma_read_bytes"), ("99.0", "recv_bytes")):
            with self.subTest(version=version):
                self.move(self.joined(P5BENCH_STANDIN_API=version), MIB, operations=4, nic=0)
                counted = dict(zip(COUNTERS, COUNTED.unpack_from(next(self.folder.glob("nic-*01000000")).read_bytes())))
                self.assertGreaterEqual(counted[counter], 5 * MIB)  # the first to warm up
                self.doCleanups()
                self.setUp()

    def test_messages_are_split_in_parts_that_devices_read_by_themselves(self):
        workers = self.joined()
        self.move(workers, 2 * MIB, operations=1)
        self.assertEqual(self.most_under_way(), [1, 0, 0, 0])
        self.move(workers, 4 * MIB, operations=1)
        self.assertEqual(self.most_under_way(), [1, 1, 1, 1])

    def test_a_provider_that_has_to_be_there_is_not_replaced(self):
        self.assertRegex(self.identify(self.start(FI_PROVIDER_PATH="/nowhere"))["error"], "the kernel shows devices of efa, but libfabric .*fi_info -p efa")
        self.assertIn("tcp", self.identify(self.start(FI_PROVIDER_PATH="/nowhere", FI_PROVIDER="tcp"))["library"])

    def test_what_a_worker_waits_for_is_told_with_the_nic(self):
        first, second = self.joined(P5BENCH_STANDIN_FAULT="silent:*:rdmap81s0")
        its = case("p2p", 2, 2, pattern="one_way", nic=2)
        self.ask([first, second], "open", case=its, round=0, group=[0, 1], form="")
        for worker in (first, second):
            worker.send("warm_up", operations=1)
            struct.pack_into("=I", worker.page, GIVE_UP, 1)
        for worker in (first, second):
            self.assertEqual(worker.receive()["waits_for"], "messages under way: 1 through rdmap81s0")

    def test_a_message_that_fails_is_told_with_the_nic_and_the_words_of_the_provider(self):
        workers = self.joined(P5BENCH_STANDIN_FAULT="silent:*:rdmap80s0", P5BENCH_STANDIN_SILENCE="0.5")
        self.ask(workers, "open", case=case("p2p", 2, 2, pattern="one_way", nic=1), round=0, group=[0, 1], form="")
        for worker in workers:
            worker.send("warm_up", operations=1)
        self.assertRegex(workers[0].receive()["error"], r"a message through rdmap80s0 failed: No route to host \(Unreachable remote - never received a response")

    def test_peers_that_the_device_does_not_take_are_told_with_both_addresses(self):
        here, there = self.start(), self.start(P5BENCH_STANDIN_ZONE="2")
        for worker in (here, there):
            self.identify(worker)
        ids = [worker.ask("unique_id")["id"] for worker in (here, there)]
        self.assertRegex(here.ask("join", ids=ids, rank=0, ranks=2)["error"],
                         r"^fi_av_insert: rdmap79s0 \(fi_addr_efa://\S+\) takes no message to rank 1 \(fi_addr_efa://\S+\); .*availability zone")


if __name__ == "__main__":
    if not WORKER.exists() or not STANDIN.exists():
        print(f"skipped: {WORKER.name} was not built: libfabric's headers are missing (libfabric-dev)")
        sys.exit(77)
    unittest.main(verbosity=2)
