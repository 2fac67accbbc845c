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
MOST_UNDER_WAY = struct.Struct("=88xQ")
FROM_GPU = struct.Struct("=96x16Q")
COUNTED = struct.Struct("=24x8Q")
COUNTERS = ("tx_bytes", "rx_bytes", "send_bytes", "recv_bytes", "rdma_read_bytes", "rdma_read_resp_bytes", "rdma_write_bytes", "rdma_write_recv_bytes")
DRIVER = BUILD / "tests" / "fakes" / "driver"  # a libcuda.so.1 whose GPUs are simulated
GIVE_UP = 28  # SharedPage::give_up
MIB = 1 << 20

# What CUDA says on a machine without a GPU, where its libraries are not installed and where they are.
NO_GPU = r"(there is no libcuda.so.1|cuInit: CUDA_ERROR_NO_DEVICE)"


class Workers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, **variables):
        if variables.pop("gpus", False):
            variables = {"FI_HMEM": "cuda", "LD_LIBRARY_PATH": str(DRIVER), "P5BENCH_STANDIN_API": "1.17", **variables}
        worker = Worker({"P5BENCH_STANDIN_FABRIC": str(self.folder), "P5BENCH_STANDIN_SCALE": "0", "P5BENCH_STANDIN_DEVICES": "4",
                         "FI_PROVIDER_PATH": str(STANDIN), "FI_HMEM": "system", **variables}, program=WORKER)
        self.addCleanup(worker.end)
        return worker

    def identify(self, worker, memory="auto", **more):
        return worker.ask("identify", **{"local_rank": 0, "local_ranks": 1, "interfaces": [], "provider": "efa", "memory": memory, **more})

    def joined(self, memory="auto", devices=("4", "4"), **variables):
        workers = [self.start(**{"P5BENCH_STANDIN_DEVICES": each, **variables}) for each in devices]
        self.identities = [self.identify(worker, memory) for worker in workers]
        self.join(workers)
        return workers

    def join(self, workers):
        ids = [worker.ask("unique_id")["id"] for worker in workers]
        for rank, worker in enumerate(workers):
            worker.send("join", ids=ids, rank=rank, ranks=len(workers))
        for worker in workers:
            self.assertNotIn("error", worker.receive())

    def ask(self, workers, name, **order):
        for worker in workers:
            worker.send(name, **order)
        replies = [worker.receive() for worker in workers]
        for reply in replies:
            self.assertNotIn("error", reply)
        return replies

    def move(self, workers, size, operations=None, nic=None, pattern="one_way", gpu=None):
        """Messages, all of them right; how many a sample may have."""
        its = case("p2p", size // 4, 2, pattern=pattern, nic=nic, gpu=gpu)
        slots = self.open(workers, its)[0]["slots"]
        self.ask(workers, "warm_up", operations=1)
        request = {"quantity": "throughput", "operations": operations or slots, "samples": 1, "poison_last": True, "setting": ""}
        self.ask(workers, "sample", **request)
        self.assertEqual([reply["wrong_elements"] for reply in self.ask(workers, "verify")], [0] * len(workers))
        self.selections = [reply["selection"] for reply in self.ask(workers, "selection")]
        self.ask(workers, "close")
        return slots

    def open(self, workers, its):
        """On all workers, of which the first two are a pair."""
        for rank, worker in enumerate(workers):
            worker.send("open", case=its, round=0, group=[0, 1] if rank < 2 else None, form="")
        replies = [worker.receive() for worker in workers]
        for reply in replies:
            self.assertNotIn("error", reply)
        return replies

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

    def counted(self, nic="01"):
        """At both hosts' NIC of this number; they have the same state file, as both workers run on one host."""
        return dict(zip(COUNTERS, COUNTED.unpack_from(next(self.folder.glob(f"nic-*{nic}000000")).read_bytes())))

    def test_all_queues_have_been_read_before_any_peer_sends(self):
        self.joined()
        listening = []  # Mailbox::listening of standin/wire.hpp, of each endpoint
        for path in self.folder.glob("mailbox-*"):
            with path.open("rb") as mailbox:
                listening.append(struct.unpack("=4xI", mailbox.read(8))[0])
        self.assertEqual(listening, [1] * 8)

    def test_single_nics_write_and_other_messages_are_read(self):
        for machine, nic, counter in (("p5.48xlarge", 0, "rdma_write_recv_bytes"), ("p5.48xlarge", None, "rdma_read_bytes"),
                                      ("p4d.24xlarge", 0, "rdma_read_bytes")):  # whose device cannot write: the peer's reads
            with self.subTest(machine=machine, nic=nic):
                self.move(self.joined(P5BENCH_STANDIN_API="1.17", P5BENCH_STANDIN_MACHINE=machine, P5BENCH_STANDIN_DEVICES="1"), MIB, operations=4, nic=nic)
                self.assertGreaterEqual(self.counted()[counter], 5 * MIB)
                self.assertEqual({each["algorithm"] for each in self.selections}, {"messages" if nic is None else "write"})
                self.doCleanups()
                self.setUp()

    def test_a_worker_without_the_nic_waits_for_the_pair_that_has_it(self):
        # Its open of the case failed on all ranks, and no NIC of that number was measured.
        workers = self.joined(devices=("4", "4", "3"))
        for nic in (3, 0):
            self.move(workers, MIB, operations=4, nic=nic)

    def test_a_nic_that_falsifies_data_writes_it_where_it_belongs(self):
        workers = self.joined(P5BENCH_STANDIN_FAULT="lies:*:rdmap80s0")
        self.ask(workers, "open", case=case("p2p", MIB // 4, 2, pattern="one_way", nic=1), round=0, group=[0, 1], form="")
        self.ask(workers, "warm_up", operations=1)
        self.ask(workers, "sample", quantity="throughput", operations=2, samples=1, poison_last=True, setting="")
        self.assertEqual([reply["wrong_elements"] for reply in self.ask(workers, "verify")], [0, 2])

    def test_data_in_gpu_memory_is_moved_by_nics_alone(self):
        # Processors that touch the fake GPUs' memory die of it.
        workers = self.joined(gpus=True)
        for identity in self.identities:
            self.assertEqual((identity["memory"], identity["why_no_gpu"] if "why_no_gpu" in identity else ""), ("GPU memory", ""))
            self.assertEqual(identity["gpus"][0], "0000:53:00.0")
        for options in ({"nic": 2}, {"nic": 1, "pattern": "both_ways"}, {"nic": 0, "gpu": 5}, {"size": 4 * MIB}, {"pattern": "ping_pong"}):
            with self.subTest(**options):
                self.move(workers, **{"size": MIB, **options})
                self.assertEqual({each["memory"] for each in self.selections}, {"GPU memory"})

    def test_gpus_are_those_beside_the_nics(self):
        # 4 NICs of 8 GPUs: a worker that is alone with them takes every second GPU.
        workers = self.joined(gpus=True)
        for nic in range(4):
            self.move(workers, MIB, operations=2, nic=nic)
            self.move(workers, MIB, operations=4, nic=nic, gpu=3)
            sent = FROM_GPU.unpack_from(next(self.folder.glob(f"nic-*0{nic + 1}000000")).read_bytes())
            self.assertEqual({gpu: count // MIB for gpu, count in enumerate(sent) if count}, {2 * nic: 3, (2 * nic + 3) % 8: 5})  # one to warm up
        # Each of four ranks has two GPUs and a NIC.
        self.assertEqual(self.identify(self.start(gpus=True), local_rank=3, local_ranks=4)["devices"], ["rdmap82s0"])

    NICS = ["rdmap79s0", "rdmap80s0", "rdmap81s0", "rdmap82s0"]

    def lacking(self, *absent, gpus=False, local=()):
        """A worker on a host that lacks some of these four NICs, and its identity."""
        worker = self.start(gpus=gpus, P5BENCH_STANDIN_FAULT=";".join(f"absent:*:{nic}" for nic in absent))
        nics = ["" if nic in absent else nic for nic in self.NICS]
        return worker, self.identify(worker, "gpu" if gpus else "auto", nics=nics, **dict(local))

    def test_a_nic_that_a_host_lacks_moves_no_other_to_its_place(self):
        for absent, devices in ((("rdmap80s0",), ["rdmap79s0", "", "rdmap81s0", "rdmap82s0"]), (("rdmap79s0", "rdmap81s0"), ["", "rdmap80s0", "", "rdmap82s0"])):
            with self.subTest(absent=absent):
                (few, told), whole = self.lacking(*absent), self.start()
                self.assertEqual((told["devices"], told["device_name"]), (devices, ", ".join(filter(None, devices))))
                self.identify(whole, nics=self.NICS)
                self.join([few, whole])
                for nic, name in enumerate(devices):
                    if name:
                        self.move([few, whole], MIB, operations=2, nic=nic)
                self.move([few, whole], 4 * MIB, operations=1)  # in parts through the NICs that both have
                used = {index for index, bytes in enumerate(self.most_under_way()) if bytes}
                self.assertEqual(used, {self.NICS.index(name) for name in devices if name})
                self.doCleanups()
                self.setUp()

    def test_hosts_without_a_nic_in_common_meet_by_their_first_ones(self):
        few, _ = self.lacking("rdmap79s0", "rdmap80s0")
        others, _ = self.lacking("rdmap81s0", "rdmap82s0")
        self.join([few, others])
        self.move([few, others], 4 * MIB, operations=1)
        self.assertEqual(self.most_under_way()[1::2], [0, 0])

    def test_a_rank_without_a_nic_of_its_own_shares_the_nearest(self):
        for absent, rank, shared in (("rdmap80s0", 1, "rdmap79s0"), ("rdmap79s0", 0, "rdmap80s0")):
            told = self.lacking(absent, local={"local_rank": rank, "local_ranks": 4}.items())[1]
            self.assertEqual(told["devices"], [shared])
        self.assertEqual(self.lacking("rdmap79s0", local={"local_rank": 2, "local_ranks": 4}.items())[1]["devices"], ["rdmap81s0"])

    def test_gpus_stay_beside_the_nics_where_one_is_missing(self):
        told = self.lacking("rdmap80s0", gpus=True)[1]
        self.assertEqual([told["gpu_beside"][nic] for nic in (0, 2, 3)], [0, 4, 6])

    def test_each_step_that_says_no_leaves_host_memory_and_is_told(self):
        for variables, why in (({"P5BENCH_STANDIN_GPU": "none"}, r"no endpoint that takes GPU memory \(FI_HMEM\)"),
                               # Below API 1.18 the provider itself says so, when it is asked what it has.
                               ({"P5BENCH_STANDIN_GPU": "copies", "P5BENCH_STANDIN_API": "99.0"}, r"no endpoint that takes GPU memory \(FI_HMEM\)"),
                               ({"P5BENCH_STANDIN_GPU": "copies"}, r"FI_OPT_CUDA_API_PERMITTED=false, no peer-to-peer from rdmap79s0"),
                               ({"P5BENCH_STANDIN_GPU": "refused"}, r"fi_mr_regattr of 1048576 bytes in the memory of GPU 0: Cannot allocate memory"),
                               ({"P5BENCH_FAKE_CUDA_GPUS": "0"}, r"cuInit: CUDA_ERROR_NO_DEVICE"),
                               ({"LD_LIBRARY_PATH": ""}, NO_GPU)):
            with self.subTest(why=why):
                workers = self.joined(gpus=True, **variables)
                for identity in self.identities:
                    self.assertEqual(identity["memory"], "host memory")
                    self.assertRegex(identity["why_no_gpu"], why)
                self.move(workers, MIB, nic=0)
                self.assertEqual({each["memory"] for each in self.selections}, {"host memory"})
                self.doCleanups()
                self.setUp()

    def test_gpu_memory_that_was_asked_for_is_copied_or_missed(self):
        workers = self.joined(memory="gpu", gpus=True, P5BENCH_STANDIN_GPU="none")
        self.assertEqual({identity["memory"] for identity in self.identities}, {"GPU memory, copied through host memory"})
        for options in ({"nic": 2}, {"nic": 1, "pattern": "both_ways"}, {"pattern": "ping_pong"}, {"size": 16 * MIB, "operations": 5}):
            self.move(workers, **{"size": MIB, **options})
        self.assertEqual({each["algorithm"] for each in self.selections}, {"messages"})
        self.assertRegex(self.identify(self.start(), "gpu")["error"], f"no GPU memory: {NO_GPU}")
        self.assertEqual(self.identify(self.start(gpus=True), "host")["memory"], "host memory")

    def test_devices_of_p5_read_by_themselves_because_the_version_is_high_enough(self):
        for version, counter in (("1.17", "rdma_write_recv_bytes"), ("99.0", "recv_bytes")):
            with self.subTest(version=version):
                self.move(self.joined(P5BENCH_STANDIN_API=version), MIB, operations=4, nic=0)
                self.assertGreaterEqual(self.counted()[counter], 5 * MIB)  # the first to warm up
                self.doCleanups()
                self.setUp()

    def test_messages_are_split_in_parts_that_devices_read_by_themselves(self):
        workers = self.joined()
        self.move(workers, 2 * MIB, operations=1)
        self.assertEqual(self.most_under_way(), [1, 0, 0, 0])
        self.move(workers, 4 * MIB, operations=1)
        self.assertEqual(self.most_under_way(), [1, 1, 1, 1])
        self.move(workers, 4 * MIB)
        self.assertEqual(self.most_under_way(), [32, 32, 32, 32], "each NIC has as much under way as alone")

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
        self.assertRegex(workers[1].receive()["error"], r"a message through rdmap80s0 failed: No route to host \(Unreachable remote - never received a response")

    def test_a_peer_that_does_not_answer_stalls_both_ends_alike(self):
        workers = [self.start(P5BENCH_STANDIN_SILENCE="0.5", **faults) for faults in ({}, {"P5BENCH_STANDIN_FAULT": "silent:*:rdmap80s0"})]
        for worker in workers:
            self.identify(worker)
        self.join(workers)
        self.ask(workers, "open", case=case("p2p", MIB // 4, 2, pattern="ping_pong", nic=1), round=0, group=[0, 1], form="")
        for worker in workers:
            worker.send("warm_up", operations=1)
        healthy, silent = workers
        told = healthy.receive()
        self.assertRegex(told["error"], "a message through rdmap80s0 failed: No route to host")
        self.assertTrue(told["elsewhere"], "the fault is not at the end that reports it")
        silent.give_up()
        self.assertTrue(silent.receive()["gave_up"])
        self.assertEqual(healthy.completed(), silent.completed())

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two processor cores")
    def test_a_worker_leaves_the_cores_that_the_launcher_bound_it_to(self):
        own = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, own)
        os.sched_setaffinity(0, {min(own)})
        worker = self.start()
        os.sched_setaffinity(0, own)
        self.assertEqual(len(os.sched_getaffinity(worker.process.pid)), 1)
        self.identify(worker)
        self.assertGreater(len(os.sched_getaffinity(worker.process.pid)), 1)

    def test_only_what_peers_write_to_is_registered_for_their_writes(self):
        workers = self.joined(P5BENCH_STANDIN_WRITABLE=str(MIB))
        for options in ({"nic": None}, {"nic": 1, "pattern": "both_ways"}):
            self.move(workers, 2 * MIB, operations=2, **options)
        self.move(workers, MIB, operations=2, nic=0)
        for worker in workers:
            told = worker.ask("open", case=case("p2p", 2 * MIB // 4, 2, pattern="one_way", nic=0), round=0, group=[0, 1], form="")
            self.assertRegex(told["error"], "fi_mr_regattr: Cannot allocate memory")

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
