"""The real worker for NCCL on fakes of CUDA and NCCL, several processes at a time, driven over its protocol."""

import itertools
import os
import signal
import subprocess
import sys
import time
import unittest

from workers import (BYTES, COPYING, FAKES, IN_PLACE, OPERATIONS_TO_JOIN, PROGRAM, REDUCING, ROOTED, Worker, Workers,
                     built_with, case, skip_unless_built)

OPS = ("sum", "prod", "min", "max", "avg", "mulsum")
PATTERNS = ("one_way", "both_ways", "ping_pong")


def wrong(verifications):
    return [each["wrong_elements"] for each in verifications]


def library_version(workers):
    return tuple(map(int, workers.identities[0]["library"].removeprefix("NCCL ").split(".")))


def types_of(workers):
    """The types that this NCCL has."""
    return [each for each in BYTES if not each.startswith("float8") or library_version(workers) >= (2, 24)]


def runs(process):
    """True where the process runs; a zombie does not count."""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Protocol(unittest.TestCase):
    def test_says_what_its_device_is(self):
        with Workers(2, join=False) as workers:
            first, second = workers.identities
            self.assertRegex(first["device_uuid"], r"^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
            self.assertNotEqual(first["device_uuid"], second["device_uuid"])
            self.assertRegex(first["pci_address"], r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.0$")
            self.assertRegex(first["library"], r"^NCCL 2\.\d+\.\d+$")
            self.assertIn("libnccl", first["library_path"])
            self.assertGreater(first["total_memory"], 0)
            self.assertLessEqual(first["free_memory"], first["total_memory"])

    def test_ranks_beyond_the_devices_start_again_at_the_first(self):
        with Workers(2, join=False) as workers:
            third = Worker({"P5BENCH_FAKE_GPUS": "2"})
            try:
                self.assertEqual(third.ask("identify", local_rank=2)["device_uuid"],
                                 workers.identities[0]["device_uuid"])
            finally:
                third.end()

    def test_says_what_to_do_where_the_driver_is_too_old_or_does_not_work(self):
        for driver, wanted in (("11080", r"^this p5bench is built with CUDA 1\d\.\d, and the NVIDIA driver here is for CUDA 11\.8: "
                                         r"install NVIDIA driver (525|580) or later$"),
                               ("0", r"^no NVIDIA driver works here \(CUDA finds none\): .*--backend mpi")):
            worker = Worker({"P5BENCH_FAKE_DRIVER": driver})
            try:
                self.assertRegex(worker.ask("identify", local_rank=0)["error"], wanted)
            finally:
                worker.end()

    def test_asks_for_gpus_where_the_driver_works_and_shows_the_process_none(self):
        for variables in ({"P5BENCH_FAKE_GPUS": "0"}, {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}):
            worker = Worker(variables)
            try:
                self.assertRegex(worker.ask("identify", local_rank=0)["error"], r"^CUDA shows this process no GPU, .*--gpus-per-node.*CUDA_VISIBLE_DEVICES")
            finally:
                worker.end()

    def test_says_before_it_joins_that_it_has_no_code_for_its_gpu(self):
        worker = Worker({"P5BENCH_FAKE_NO_CODE": "1"})
        try:
            self.assertRegex(worker.ask("identify", local_rank=0)["error"],
                             r"^this p5bench has no code for GPUs of compute capability 9\.0, .*-D CMAKE_CUDA_ARCHITECTURES=90,")
        finally:
            worker.end()

    def test_tells_the_environment_that_the_library_saw_and_not_what_it_set_itself(self):
        worker = Worker({"NCCL_ALGO": "Ring", "SECRET_TOKEN": "x"})
        try:
            worker.ask("identify", local_rank=0)
            reply = worker.ask("join", ids=[worker.ask("unique_id")["id"]], rank=0, ranks=1)
            self.assertEqual(reply["environment"]["NCCL_ALGO"], "Ring")
            self.assertNotIn("SECRET_TOKEN", reply["environment"])
            self.assertFalse([name for name in reply["environment"] if name.startswith("NCCL_DEBUG")])
        finally:
            worker.end()

    def test_its_standard_output_tells_nccls_choices_of_the_start_and_of_what_is_asked_but_nothing_in_between(self):
        says = "says on joining"
        with Workers(2, environment={"P5BENCH_FAKE_LOG": says}) as workers:
            start = [worker.log() for worker in workers.all]
            self.assertTrue(all(f"NCCL INFO {says}" in log for log in start), start)
            workers.measure(case("all_reduce", 100, 2), operations=4, samples=4)
            since = workers.all[0].log()[len(start[0]):]
            self.assertEqual(since.count("AllReduce: 400 Bytes -> Algo"), 1, since)
            self.assertEqual(workers.all[1].log(), start[1])

    def test_the_operators_own_variables_for_the_log_are_told_and_the_log_is_there_nevertheless(self):
        own = {"NCCL_DEBUG": "warn", "NCCL_DEBUG_SUBSYS": "COLL", "P5BENCH_FAKE_LOG": "says on joining"}
        with Workers(2, environment=own) as workers:
            for worker, reply in zip(workers.all, workers.join_replies):
                told = {name: value for name, value in reply["environment"].items() if name.startswith("NCCL_DEBUG")}
                self.assertEqual(told, {"NCCL_DEBUG": "warn", "NCCL_DEBUG_SUBSYS": "COLL"})
                self.assertIn("NCCL INFO says on joining", worker.log())
            workers.open(case("all_reduce", 100, 2))
            workers.good("warm_up", round=0, operations=1)
            self.assertEqual(workers.good("selection")[0]["selection"]["source"], "nccl log")

    def test_without_a_way_to_switch_the_log_the_start_is_told_and_nothing_of_operations(self):
        old = {"LD_LIBRARY_PATH": f"{FAKES / 'nccl-fixed-log'}:{FAKES}", "P5BENCH_FAKE_LOG": "says on joining"}
        with Workers(2, environment=old) as workers:
            self.assertIn("nccl-fixed-log", workers.identities[0]["library_path"])
            self.assertEqual(wrong(workers.measure(case("all_reduce", 100, 2))[0]), [0, 0])
            for worker in workers.all:
                self.assertIn("NCCL INFO says on joining", worker.log())
                self.assertNotIn("Bytes -> Algo", worker.log())

    def test_what_it_said_stays_when_it_dies_while_joining(self):
        with Workers(2, join=False, environment={"P5BENCH_FAKE_GPUS": "1"}) as workers:
            replies = workers.join()
            self.assertTrue(all("Duplicate GPU detected" in reply["error"] for reply in replies), replies)
            for rank, worker in enumerate(workers.all):
                worker.process.kill()
                worker.process.wait()
                self.assertIn(f"NCCL WARN Duplicate GPU detected : rank {rank} and rank {1 - rank}", worker.log())

    def test_answers_in_the_epoch_of_the_order_and_counts_orders(self):
        worker = Worker()
        try:
            worker.send("identify", epoch=7, local_rank=0)
            worker.receive()
            self.assertEqual(worker.last_epoch, 7)
            self.assertEqual(worker.orders(), 1)
        finally:
            worker.end()

    def test_an_order_that_makes_no_sense_is_an_error_and_the_worker_lives_on(self):
        with Workers(1) as workers:
            self.assertIn("no order", workers.ask("dance")[0]["error"])
            self.assertIn("before it", workers.ask("sample")[0]["error"])
            self.assertIn("error", workers.ask("open")[0])
            self.assertEqual(wrong(workers.measure(case("all_reduce", 4, 1))[0]), [0])

    def test_checks_its_device_alone_once_ranks_are_together(self):
        with Workers(2) as workers:
            for reply in workers.good("check_locally"):
                figures = reply["figures"]
                self.assertEqual(sorted(figures), ["device_copy_gb_per_s", "launch_us", "memory_read_gb_per_s", "slowest_slice_share"])
                self.assertTrue(all(value > 0 for value in figures.values()), figures)
            for reply in workers.good("check_host_copies"):
                self.assertEqual(sorted(reply["figures"]), ["device_to_host_gb_per_s", "host_both_ways_gb_per_s", "host_to_device_gb_per_s"])
                self.assertTrue(all(value > 0 for value in reply["figures"].values()), reply)
            for order in ("check_locally", "check_host_copies"):
                self.assertTrue(all(reply["figures"] for reply in workers.good(order)), "a second time")
        with Workers(2, join=False) as workers:
            for order in ("check_locally", "check_host_copies"):
                self.assertIn("join", workers.all[0].ask(order)["error"])

    def test_signals_that_reach_the_whole_group_do_not_end_it(self):
        with Workers(1) as workers:
            for each in (signal.SIGINT, signal.SIGTERM):
                workers.all[0].process.send_signal(each)
            self.assertEqual(wrong(workers.measure(case("all_reduce", 4, 1))[0]), [0])

    def test_ends_on_quit_and_when_the_connection_closes(self):
        with Workers(2) as workers:
            workers.all[0].send("quit")
            workers.all[1].socket.close()
            self.assertEqual([each.process.wait(30) for each in workers.all], [0, 0])

    def test_started_by_hand_it_says_that_p5bench_starts_it(self):
        done = subprocess.run([PROGRAM], env={**os.environ, "LD_LIBRARY_PATH": str(FAKES)}, capture_output=True,
                              text=True, timeout=30, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 2)
        self.assertIn("start p5bench instead", done.stderr)


class Slots(unittest.TestCase):
    def test_as_many_as_fit_the_memory_at_least_one_at_most_twenty(self):
        with Workers(1) as workers:
            def slots(elements, memory, **more):
                reply = workers.open(case("all_reduce", elements, 1, **more), memory=memory)[0]
                workers.good("close")
                return reply["slots"]
            self.assertEqual(slots(2, 64 << 20), 20)
            self.assertEqual(slots(1 << 20, 20 << 20), 2)  # 4 MiB in, 4 MiB out, guards
            self.assertEqual(slots(1 << 20, 20 << 20, in_place=True), 4)
            self.assertEqual(slots(1 << 20, 1), 1)

    def test_more_operations_than_slots_is_an_error(self):
        with Workers(1) as workers:
            workers.open(case("all_reduce", 1 << 20, 1), memory=20 << 20)
            reply = workers.ask("sample", quantity="throughput", operations=3, samples=1, poison_last=False)[0]
            self.assertIn("3 operations, at most 2", reply["error"])


class Results(unittest.TestCase):
    """Right data passes verification, in each collective, type and operation; odd sizes cross block borders."""

    def all_right(self, workers, each, rounds=None, **options):
        verifications, seconds = workers.measure(each, rounds, **options)
        with self.subTest(case=each, ranks=workers.ranks):
            self.assertEqual(wrong(verifications), [0] * len(verifications), verifications)
        return seconds

    def test_all_types_and_operations(self):
        for ranks in (1, 2, 3, 4):
            with Workers(ranks) as workers:
                types = types_of(workers)
                for type_name, op in itertools.product(types, OPS):
                    for collective in REDUCING:
                        self.all_right(workers, case(collective, 515, ranks, type_name, op, root=ranks - 1))
                for type_name, collective in itertools.product(types, COPYING):
                    self.all_right(workers, case(collective, 515, ranks, type_name, root=ranks - 1))

    def test_a_hypercube_of_powers_of_two(self):
        for ranks in (1, 2, 4):
            with Workers(ranks) as workers:
                for in_place, size in itertools.product((False, True), (1, 515)):
                    self.all_right(workers, case("hypercube", size, ranks, in_place=in_place))
                self.all_right(workers, case("hypercube", 515, ranks, cuda_graph=True))

    def test_in_place(self):
        for ranks in (1, 2, 3):
            with Workers(ranks) as workers:
                for collective, root in itertools.product(IN_PLACE, range(ranks)):
                    if root == 0 or collective in ROOTED:
                        self.all_right(workers, case(collective, 1027, ranks, in_place=True, root=root))

    def test_as_cuda_graphs_and_with_registered_buffers(self):
        ways = [{"cuda_graph": True}, {"register": "local"}, {"register": "symmetric"}, {"register": "symmetric", "cuda_graph": True}]
        for ranks, way in itertools.product((1, 3), ways):
            with Workers(ranks) as workers:
                if way.get("register") == "symmetric" and library_version(workers) < (2, 27):
                    continue  # has no windows
                for collective in (*REDUCING, *COPYING):
                    self.all_right(workers, case(collective, 515, ranks, **way))
                self.all_right(workers, case("all_gather", 515, ranks, in_place=True, **way))
                if ranks == 3:
                    pairs = [[[0, 1]], [[1, 2]], [[2, 0]]]
                    self.all_right(workers, case("p2p", 515, 2, pattern="both_ways", **way), pairs)
                    self.all_right(workers, case("all_reduce", 515, 2, **way), [[[0, 2]]])

    def test_groups_of_operations(self):
        for ranks, aggregate in ((1, 3), (3, 4)):
            with Workers(ranks) as workers:
                for collective, more in itertools.product((*REDUCING, *COPYING), ({}, {"in_place": True}, {"cuda_graph": True})):
                    if not more.get("in_place") or collective in IN_PLACE:
                        self.all_right(workers, case(collective, 515, ranks, aggregate=aggregate, **more), operations=2 * aggregate)
                if ranks == 3:
                    for pattern in ("one_way", "both_ways"):
                        self.all_right(workers, case("p2p", 77, 2, pattern=pattern, aggregate=4), [[[0, 1]], [[2, 1]]], operations=8)

    def test_the_time_of_calls_is_less_than_that_of_operations(self):
        # Calls return before the operations end.
        with Workers(2, "slow:rank=1:us=20000") as workers:
            each = case("all_reduce", 64, 2)
            workers.open(each)
            workers.good("warm_up", operations=1)
            self.assertEqual([reply["seconds"] for reply in workers.good("host_time")], [None, None])
            replies = workers.good("sample", quantity="throughput", samples=1, operations=2, poison_last=False)
            for sampled, told in zip(replies, workers.good("host_time")):
                self.assertGreater(told["seconds"], 0)
                self.assertLess(told["seconds"], sampled["seconds"][0])

    def test_unaligned_buffers(self):
        for type_name, unalign in (("int8", 1), ("bfloat16", 3), ("float64", 63)):
            with Workers(3) as workers:
                for collective, more in itertools.product(("all_reduce", "all_gather", "reduce_scatter", "all_to_all"), ({}, {"in_place": True})):
                    if not more or collective in IN_PLACE:
                        self.all_right(workers, case(collective, 515, 3, type_name, unalign=unalign, **more))
        with Workers(2, f"wrong:rank=1:operation={OPERATIONS_TO_JOIN + 1}+:what=element") as workers:
            self.assertEqual([count > 0 for count in wrong(workers.measure(case("all_reduce", 500, 2, unalign=1))[0])], [False, True])
            self.assertIn("at most 63", workers.open(case("all_reduce", 8, 2, unalign=64))[0]["error"])

    def test_each_operation_of_a_group_is_checked(self):
        # The wrong operation is the third of the last group that was timed, or of the group that is checked in place. An
        # operation that aligns the ranks precedes each sample, and the one that ends the warm-up.
        timed = OPERATIONS_TO_JOIN + 4 + (1 + 4) + 2 * (1 + 4) + 2 * (1 + 8)
        for in_place, number in ((False, timed - 1), (True, timed + 3)):
            with Workers(2, f"wrong:rank=1:operation={number}:what=element") as workers:
                each = case("all_reduce", 500, 2, in_place=in_place, aggregate=4)
                self.assertEqual([count > 0 for count in wrong(workers.measure(each, operations=8)[0])], [False, True], in_place)

    def test_what_cannot_be_one_group_is_refused(self):
        with Workers(2) as workers:
            for each in (case("hypercube", 8, 2, aggregate=2), case("p2p", 8, 2, pattern="ping_pong", aggregate=2),
                         case("all_reduce", 8, 2, aggregate=33)):
                self.assertIn("cannot be one group", workers.open(each)[0]["error"])

    def test_what_has_no_in_place_form_is_refused(self):
        with Workers(2) as workers:
            for collective in ("all_to_all", "all_to_allv", "send_recv"):
                self.assertIn("no in-place form", workers.open(case(collective, 8, 2, in_place=True))[0]["error"])

    def test_traffic_by_a_matrix(self):
        parts = [0, 100, 7, 40, 0, 60, 0, 90, 5]
        for type_name, elements in (("float32", 137), ("int8", 4001), ("float64", 1)):
            alignment = max(1, 16 // BYTES[type_name])
            traffic = {"ranks": 3, "parts": parts, "elements": elements, "alignment": alignment}
            room = elements + 6 * alignment + 3
            of_traffic = {**case("all_to_allv", elements, 3, type_name), "input_elements": room, "output_elements": room,
                          "traffic": traffic}
            with Workers(3) as workers:
                self.all_right(workers, of_traffic)
            with Workers(3, f"wrong:rank=1:operation={OPERATIONS_TO_JOIN + 1}+:what=element") as workers:
                # What rank 1 sends is wrong, to the ranks that it sends anything.
                self.assertEqual([count > 0 for count in wrong(workers.measure(of_traffic)[0])], [True, False, True])

    def test_cta_policies_are_those_of_the_communicators(self):
        of_nccl = {"efficiency": (2, 27), "zero": (2, 28)}
        if built_with()["NCCL"] < of_nccl["efficiency"]:
            for policy in of_nccl:
                with Workers(2) as workers:
                    for reply in workers.open(case("all_reduce", 500, 2, cta_policy=policy), form="groups"):
                        self.assertIn(f"CTA policy {policy} needs a worker that is built with NCCL 2.27 or later", reply["unavailable"])
            return
        for policy, number in (("efficiency", 1), ("zero", 2)):
            if built_with()["NCCL"] < of_nccl[policy]:
                continue
            with Workers(2, environment={"P5BENCH_FAKE_CTA_POLICY": str(number)}) as workers:
                each = case("all_reduce", 500, 2, cta_policy=policy)
                self.all_right(workers, each, [[[0, 1]]], form="groups")
                self.all_right(workers, {**each, "collective": "broadcast"}, [[[0, 1]]], form="")
                other = workers.open(case("all_reduce", 500, 2), [[0, 1]], form="groups")
                self.assertIn("P5BENCH_FAKE_CTA_POLICY", other[0]["error"])
        for policy, version, needed in (("efficiency", "22605", "2.27"), ("zero", "22703", "2.28")):
            with Workers(2, environment={"P5BENCH_FAKE_NCCL_VERSION": version}) as workers:
                has = f"NCCL {version[0]}.{version[1:3]}.{int(version[3:])}"
                for reply in workers.open(case("all_reduce", 500, 2, cta_policy=policy), form="groups"):
                    self.assertEqual(reply["unavailable"], f"CTA policy {policy} needs NCCL {needed}; this is {has}")

    def test_tokens(self):
        for ranks, routing, elements, type_name in (
                (2, "expert:6,4,2", 8, "bfloat16"), (3, "expert:9,6,3@5", 7, "float16"),
                (3, "expert:16,9,2", 24, "float32"), (2, "expert:7,2,1", 16, "float8_e4m3"),
                (3, "expert:4,3,3", 5, "int64")):
            for collective in ("dispatch", "combine"):
                # The busiest rank has at least this number of tokens, so that they have `elements` or fewer.
                tokens = int(routing.split(":")[1].split(",")[0])
                each = {**case(collective, tokens * elements, ranks, type_name), "tokens": routing}
                with self.subTest(collective=collective, routing=routing), Workers(ranks) as workers:
                    if type_name not in types_of(workers):
                        continue
                    self.all_right(workers, each)
                    self.all_right(workers, {**each, "unalign": 1})
                    self.all_right(workers, {**each, "cuda_graph": True})
        for collective in ("dispatch", "combine"):
            each = {**case(collective, 9 * 64, 3, "bfloat16"), "tokens": "expert:9,3,3"}
            with Workers(3, f"wrong:rank=1:operation={OPERATIONS_TO_JOIN + 1}+:what=element") as workers:
                self.assertTrue(any(wrong(workers.measure(each)[0])), collective)
            with Workers(2) as workers:
                for tokens in ("expert:9,3,3", "zipf:1.1", "", None, "expert:9"):
                    self.assertIn("tokens", workers.open({**case(collective, 64, 2), "tokens": tokens})[0]["error"])
                several = {**case(collective, 64, 2, aggregate=2), "tokens": "expert:9,2,1"}
                self.assertIn("cannot be one group", workers.open(several)[0]["error"])

    def test_traffic_that_does_not_fit_its_ranks_is_refused(self):
        with Workers(2) as workers:
            for traffic in ({"ranks": 3, "parts": [1] * 9}, {"ranks": 2, "parts": [1] * 3}, {"ranks": 2, "parts": [1, 0, 0, 1]},
                            {"ranks": 2, "parts": [0, 2**60, 1, 0]}, {"ranks": 2, "parts": [1] * 4, "alignment": 0}):
                of_traffic = {**case("all_to_allv", 8, 2), "traffic": {"elements": 8, "alignment": 4, **traffic}}
                self.assertIn("traffic", workers.open(of_traffic)[0]["error"])

    def test_five_six_and_seven_ranks(self):
        for ranks in (5, 6, 7):
            with Workers(ranks) as workers:
                for collective in (*REDUCING, *COPYING):
                    self.all_right(workers, case(collective, 131, ranks, root=ranks // 2))

    def test_eight_ranks(self):
        with Workers(8) as workers:
            self.all_right(workers, case("all_reduce", 4099, 8, "bfloat16", "avg"))
            self.all_right(workers, case("all_gather", 1, 8, "int8"))

    def test_messages_between_pairs_while_others_pause(self):
        rounds = [[[0, 1]], [[2, 0]], [[1, 2]]]
        with Workers(3) as workers:
            for pattern in PATTERNS:
                seconds = self.all_right(workers, case("p2p", 77, 2, "float16", pattern=pattern), rounds)
                self.assertEqual(seconds[0][2], [None, None])  # rank 2 in the first round
                for each in seconds[0][:2]:
                    self.assertTrue(all(value > 0 for value in each), each)

    def test_groups_work_at_the_same_time_each_on_its_own(self):
        with Workers(4) as workers:
            for collective in (*REDUCING, *COPYING):
                self.all_right(workers, case(collective, 100, 2, root=1), [[[0, 1], [2, 3]], [[0, 2], [1, 3]]])

    def test_groups_of_different_sizes(self):
        with Workers(5) as workers:
            for collective in (*REDUCING, *COPYING):
                self.all_right(workers, case(collective, 100, 3, root=1), [[[0, 1, 2], [3, 4]]])

    def test_a_group_may_leave_ranks_out(self):
        with Workers(3) as workers:
            for collective in ("all_gather", "all_to_all", "send_recv", "broadcast", "reduce"):
                self.all_right(workers, case(collective, 100, 2, root=1), [[[0, 2]]])

    def test_groups_stay_together_until_others_are_formed(self):
        with Workers(4, environment={"NCCL_DEBUG": "INFO"}) as workers:
            opened = lambda form: [self.open_with(worker, rank, form) for rank, worker in enumerate(workers.all)]
            opened("groups")
            self.assertEqual([worker.receive().get("slots", 0) > 0 for worker in workers.all], [True] * 4)
            workers.good("close")
            opened("")  # the same communicators again
            self.assertEqual([worker.receive().get("slots", 0) > 0 for worker in workers.all], [True] * 4)
            workers.good("warm_up", operations=1)
            self.assertEqual(wrong(workers.good("verify")), [0] * 4)

    def test_pairs_in_the_communicators_of_larger_groups(self):
        rounds = [[[5, 1], [4, 0], [3, 2]], [[0, 1], [4, 5], [2, 3]], [[5, 0], [1, 4], [2, 3]]]
        with Workers(6) as workers:
            for communicators in ([[5, 4, 1, 0], [2, 3]], [[0, 1, 2, 3, 4, 5]]):
                for pattern in PATTERNS:
                    self.all_right(workers, case("p2p", 77, 2, "float16", pattern=pattern), rounds, communicators=communicators)

    def open_with(self, worker, rank, form):
        group = [0, 3] if rank in (0, 3) else [1, 2]
        worker.send("open", case=case("p2p", 10, 2, pattern="both_ways"), round=0, group=group, form=form, alone=False,
                    pauses=False)


class Faults(unittest.TestCase):
    def test_wrong_data_is_counted_and_the_first_of_it_shown(self):
        with Workers(2, f"wrong:rank=1:operation={OPERATIONS_TO_JOIN + 1}+:what=element") as workers:
            verifications, _ = workers.measure(case("all_reduce", 1000, 2, "int32"))
            self.assertEqual(verifications[0]["wrong_elements"], 0)
            self.assertGreater(verifications[1]["wrong_elements"], 0)
            first = verifications[1]["first"]
            self.assertEqual(first["rank"], 1)
            self.assertLess(first["offset"], 1000)
            self.assertNotEqual(int(first["wanted"]), int(first["got"]))
            self.assertFalse(first["guard"])

    def test_wrong_data_is_found_in_each_collective_at_the_rank_that_gets_it(self):
        for what in ("element", "bit", "nothing"):
            with Workers(3, f"wrong:rank=1:operation={OPERATIONS_TO_JOIN + 1}+:what={what}") as workers:
                for collective, in_place in itertools.product((*REDUCING, *COPYING), (False, True)):
                    if in_place and collective not in IN_PLACE:
                        continue
                    # A broadcast writes to all ranks but the root, a reduction to the root alone.
                    root = 1 if collective in ("reduce", "scatter") else 2
                    found = wrong(workers.measure(case(collective, 500, 3, in_place=in_place, root=root))[0])
                    # The sent data of send operations is wrong, at each receiver; in place the root's own share is not
                    # moved.
                    kept = not (in_place and what == "nothing")
                    wanted = {"all_to_all": [True] * 3, "all_to_allv": [True, False, True], "scatter": [True, kept, True],
                              "gather": [False, False, True], "send_recv": [False, False, True]}.get(
                        collective, [False, True, False])
                    with self.subTest(what=what, collective=collective, in_place=in_place):
                        self.assertEqual([count > 0 for count in found], wanted)

    def test_a_single_bit_and_data_of_another_operation_are_wrong(self):
        for what in ("bit", "stale", "nothing"):
            with Workers(2, f"wrong:rank=0:operation={OPERATIONS_TO_JOIN + 1}+:what={what}") as workers:
                for in_place in (False, True):
                    verifications, _ = workers.measure(case("all_gather", 500, 2, "float32", in_place=in_place))
                    with self.subTest(what=what, in_place=in_place):
                        self.assertGreater(verifications[0]["wrong_elements"], 0)
                        self.assertEqual(verifications[1]["wrong_elements"], 0)

    def test_an_error_that_nccl_reports_meanwhile_ends_the_wait(self):
        with Workers(2, f"async:rank=1:operation={OPERATIONS_TO_JOIN + 1}") as workers:
            workers.open(case("all_reduce", 100, 2))
            workers.all[1].send("warm_up", operations=1)
            workers.all[0].send("warm_up", operations=1)
            self.assertIn("NCCL, while an operation ran", workers.all[1].receive()["error"])
            self.assertIn("start a new one", workers.all[1].ask("close")["error"])

    def test_memory_that_is_not_there_is_an_error_and_a_smaller_case_works(self):
        with Workers(1) as workers:
            reply = workers.open(case("all_reduce", 1 << 30, 1), memory=8 << 30)[0]
            self.assertIn("bytes", reply["error"])
            self.assertEqual(wrong(workers.measure(case("all_reduce", 100, 1))[0]), [0])

    def test_the_page_shows_how_far_the_device_came_when_the_worker_hangs(self):
        with Workers(2, f"hang:rank=1:operation={OPERATIONS_TO_JOIN + 3}") as workers:
            workers.open(case("all_reduce", 100, 2))
            for worker in workers.all:
                worker.send("warm_up", operations=5)
            until = time.monotonic() + 30
            while workers.all[1].completed() < 2 and time.monotonic() < until:
                time.sleep(0.01)
            self.assertEqual(workers.all[1].completed(), 2)

    def test_memory_beside_the_buffers_that_was_overwritten_is_found(self):
        with Workers(1) as workers:
            # An output that is ten elements shorter than what the operation writes.
            each = {**case("all_reduce", 110, 1, "int32"), "output_elements": 100}
            found = workers.measure(each)[0][0]
            self.assertTrue(found["first"]["guard"])
            self.assertEqual((found["first"]["rank"], found["first"]["offset"]), (0, 400))
            self.assertEqual(found["first"]["wanted"], "guard byte 0xdb")
            self.assertGreater(found["wrong_elements"], 30)  # bytes, a few of which may be right by chance

    def test_a_hanging_worker_ends_when_its_supervisor_is_killed(self):
        script = ("from workers import Workers, case; import time\n"
                  f"jobs = Workers(1, 'hang:rank=0:operation={OPERATIONS_TO_JOIN + 1}')\n"
                  "jobs.open(case('all_reduce', 100, 1)); jobs.all[0].send('warm_up', operations=1)\n"
                  "print(jobs.all[0].process.pid, flush=True); time.sleep(600)")
        supervisor = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                                      cwd=os.path.dirname(os.path.abspath(__file__)))
        with supervisor.stdout:
            worker = int(supervisor.stdout.readline())
        self.assertTrue(runs(worker))
        supervisor.kill()
        supervisor.wait()
        until = time.monotonic() + 30
        while runs(worker) and time.monotonic() < until:
            time.sleep(0.01)
        self.assertFalse(runs(worker))


if __name__ == "__main__":
    skip_unless_built()
    unittest.main(verbosity=2)
