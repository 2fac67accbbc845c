"""The tuner plugin under the fake NCCL: inside the real worker, forced from outside; and as a library with a table."""

import pathlib
import re
import signal
import socket
import tempfile
import unittest

from workers import BUILD, FAKES, Workers, case, skip_unless_built

LIBRARY = BUILD / "libnccl-tuner-p5bench.so"
CHAINED = BUILD / "tests" / "tuner" / "libchained_tuner.so"
INSIDE = {"NCCL_TUNER_PLUGIN": "STATIC_PLUGIN"}
COLUMNS = "function,from,to,algorithm,protocol,channels,chunk,microseconds"
ALL_REDUCE = ["tree/ll", "tree/ll128", "tree/simple", "ring/ll", "ring/ll128", "ring/simple"]
OWN = "ring/ll"  # the fake's own choice for small operations of two ranks
SHORT = {"all_reduce": "AllReduce", "all_gather": "AllGather"}


def settings(offers):
    return [each["setting"] for each in offers]


def chosen(offers):
    return [each["setting"] for each in offers if each["chosen"]]


def wrong(verifications):
    return [each["wrong_elements"] for each in verifications]


def selected(workers):
    selection = workers.good("selection")[0]["selection"]
    return f"{selection['algorithm']}/{selection['protocol']}"


def fingerprint(data):
    """FNV-1a, as fingerprint() in tuner/table.hpp computes it."""
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return f"{value:016x}"


class Log:
    """NCCL's debug log of all ranks together."""

    def __init__(self, folder):
        self.path = pathlib.Path(folder) / "log"
        self.environment = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "TUNING", "NCCL_DEBUG_FILE": str(self.path)}

    def text(self):
        return self.path.read_text() if self.path.exists() else ""

    def warnings(self):
        return [line for line in self.text().splitlines() if "NCCL WARN" in line]

    def choices(self, collective, size):
        """algorithm/protocol of all calls so far, in order."""
        found = re.findall(rf"{SHORT[collective]}: {size} Bytes -> Algo (\w+) proto (\w+)", self.text())
        return [f"{algorithm}/{protocol}".lower() for algorithm, protocol in found]


class Offers(unittest.TestCase):
    def test_the_first_rank_tells_what_nccl_offers_and_what_it_takes(self):
        for version in (3, 4, 5, 6, 7):
            with self.subTest(version=version), \
                    Workers(3, environment={**INSIDE, "P5BENCH_FAKE_TUNER_VERSION": str(version)}) as workers:
                workers.open(case("all_reduce", 1 << 20, 3))
                offers = [reply["cost_table"] for reply in workers.good("cost_table")]
                self.assertEqual(settings(offers[0]), ALL_REDUCE)
                self.assertEqual(offers[1:], [[], []])
                self.assertTrue(all(each["microseconds"] > 0 for each in offers[0]))
                cheapest = min(offers[0], key=lambda each: each["microseconds"])
                self.assertEqual(chosen(offers[0]), [cheapest["setting"]])
                workers.good("warm_up", operations=1)
                self.assertEqual(selected(workers), cheapest["setting"])
                workers.good("close")
                workers.open(case("all_gather", 10, 3))
                self.assertEqual(settings(workers.good("cost_table")[0]["cost_table"]), ALL_REDUCE[3:])

    def test_with_groups_each_groups_first_rank_tells(self):
        with Workers(4, environment=INSIDE) as workers:
            workers.open(case("all_reduce", 10, 2), [[0, 1], [2, 3]])
            offers = [settings(reply["cost_table"]) for reply in workers.good("cost_table")]
            self.assertEqual(offers, [ALL_REDUCE, [], ALL_REDUCE, []])

    def test_without_the_variable_the_plugin_is_not_there(self):
        # A library without a tuner: NCCL must not use the program's symbols instead.
        for name in (None, "none", "", "libm.so.6"):
            environment = {} if name is None else {"NCCL_TUNER_PLUGIN": name}
            with self.subTest(environment=environment), Workers(2, environment=environment) as workers:
                workers.open(case("all_reduce", 10, 2))
                self.assertEqual([reply["cost_table"] for reply in workers.good("cost_table")], [[], []])
                for reply in workers.ask("warm_up", operations=1, setting="ring/ll"):
                    self.assertIn("has not loaded", reply["error"])

    def test_messages_have_none(self):
        with Workers(2, environment=INSIDE) as workers:
            workers.open(case("p2p", 10, 2, pattern="one_way"))
            self.assertEqual([reply["cost_table"] for reply in workers.good("cost_table")], [[], []])
            for reply in workers.ask("warm_up", operations=1, setting="ring/ll"):
                self.assertIn("NCCL does not call the tuner plugin for this case", reply["error"])

    def test_with_a_chain_what_is_chosen_is_the_chained_tuners_choice(self):
        with Workers(2, environment={**INSIDE, "P5BENCH_TUNER_CHAIN": str(CHAINED)}) as workers:
            workers.open(case("all_reduce", 10, 2))
            offers = workers.good("cost_table")[0]["cost_table"]
            self.assertEqual(chosen(offers), ["tree/simple/3"])  # with its channels
            # NCCL's choice, before the tuner is queried
            self.assertGreater(min(each["microseconds"] for each in offers), 0)


class Settings(unittest.TestCase):
    def test_each_that_is_offered_runs_right(self):
        for version in (3, 4, 5, 6, 7):
            environment = {**INSIDE, "P5BENCH_FAKE_TUNER_VERSION": str(version)}
            with self.subTest(version=version), Workers(2, environment=environment) as workers:
                for in_place in (False, True):
                    for setting in ALL_REDUCE:
                        verifications, _ = workers.measure(case("all_reduce", 1000, 2, in_place=in_place),
                                                           setting=setting)
                        self.assertEqual(wrong(verifications), [0, 0])

    def test_moving_through_settings_on_one_case(self):
        with Workers(2, environment=INSIDE) as workers:
            workers.open(case("all_reduce", 1 << 20, 2))
            own = chosen(workers.good("cost_table")[0]["cost_table"])[0]
            for setting in [*ALL_REDUCE, "", "ring/simple/8"]:
                workers.good("warm_up", operations=1, setting=setting)
                workers.good("sample", quantity="throughput", operations=2, samples=2, poison_last=True,
                             setting=setting)
                self.assertEqual(selected(workers), "/".join((setting or own).split("/")[:2]))
            self.assertEqual(workers.good("selection")[0]["selection"]["channels"], 8)
            self.assertEqual(wrong(workers.good("verify")), [0, 0])

    def test_only_the_cases_own_operations_are_forced(self):
        with tempfile.TemporaryDirectory() as folder:
            log = Log(folder)
            with Workers(2, environment={**INSIDE, **log.environment}) as workers:
                verifications, _ = workers.measure(case("all_gather", 100, 2), setting="ring/ll128")
                self.assertEqual(wrong(verifications), [0, 0])
                self.assertEqual(set(log.choices("all_gather", 400)), {"ring/ll128"})
                self.assertEqual(len(set(log.choices("all_reduce", 4))), 1)
                self.assertNotEqual(set(log.choices("all_reduce", 4)), {"ring/ll128"})
                workers.measure(case("all_gather", 100, 2))
                self.assertEqual(log.choices("all_gather", 400)[-1], "ring/ll")

    def test_what_nccl_does_not_offer_is_an_error_that_says_what_it_offers(self):
        for setting in ("nvls/simple", "pat/simple", "tree/ll"):
            with self.subTest(setting=setting), Workers(2, environment=INSIDE) as workers:
                workers.open(case("all_gather", 10, 2))
                for reply in workers.ask("warm_up", operations=1, setting=setting):
                    self.assertIn(f"{setting} cannot be forced", reply["error"])
                    self.assertIn("offers only ring/ll, ring/ll128, ring/simple", reply["error"])
                    self.assertFalse(reply["elsewhere"])

    def test_text_that_is_no_setting_is_an_error(self):
        with Workers(1, environment=INSIDE) as workers:
            workers.open(case("all_reduce", 10, 1))
            self.assertIn("no setting such as", workers.ask("warm_up", operations=1,
                                                            setting="ring/fast")[0]["error"])

    def test_the_oldest_interface_can_be_forced_where_that_is_certain(self):
        with Workers(2, environment={**INSIDE, "P5BENCH_FAKE_TUNER_VERSION": "2"}) as workers:
            workers.open(case("all_reduce", 10, 2))
            self.assertEqual(workers.good("cost_table")[0]["cost_table"], [])  # the plugin does not get it
            workers.good("warm_up", operations=1, setting="ring/simple")
            self.assertEqual(selected(workers), "ring/simple")
            self.assertIn("cannot be forced", workers.ask("warm_up", operations=1,
                                                          setting="ring/ll128")[0]["error"])

    def test_chunks_are_forced_from_version_6_on(self):
        for version in ("6", "7"):
            with self.subTest(version=version), tempfile.TemporaryDirectory() as folder:
                log = Log(folder)
                environment = {**INSIDE, **log.environment, "P5BENCH_FAKE_TUNER_VERSION": version}
                with Workers(2, environment=environment) as workers:
                    workers.measure(case("all_reduce", 100, 2), setting="ring/simple/2/262144")
                    text = log.text()
                    self.assertRegex(text, r"chunks of 262144 bytes\n.*AllReduce: 400 Bytes -> Algo RING proto SIMPLE")
                    self.assertRegex(text, r"chunks of 131072 bytes\n.*AllReduce: 4 Bytes")

    def test_groups_are_forced_as_the_job_is(self):
        with Workers(4, environment=INSIDE) as workers:
            verifications, _ = workers.measure(case("all_reduce", 100, 2), [[[0, 1], [2, 3]], [[0, 2], [1, 3]]],
                                               setting="ring/simple")
            self.assertEqual(wrong(verifications), [0] * 8)


class Candidates(unittest.TestCase):
    """Properties of a setting that a search has to detect."""

    def test_one_that_gives_wrong_data_is_found_and_others_are_right(self):
        fault = "wrong:rank=1:operation=1+:what=bit:setting=ring/ll128"
        with Workers(2, fault, environment=INSIDE) as workers:
            for setting, right in (("ring/ll128", False), ("ring/simple", True), ("ring/ll128", False)):
                for in_place in (False, True):
                    verifications, _ = workers.measure(case("all_reduce", 1000, 2, in_place=in_place),
                                                       setting=setting)
                    self.assertEqual(wrong(verifications)[0], 0)
                    self.assertEqual(wrong(verifications)[1] == 0, right)

    def test_one_that_is_slow_is_slow(self):
        with Workers(2, "slow:rank=0:us=30000:setting=ring/simple", environment=INSIDE) as workers:
            _, seconds = workers.measure(case("all_reduce", 100, 2), setting="ring/simple")
            self.assertGreaterEqual(min(seconds[0][0] + seconds[1][0]), 0.03)

    def test_one_that_hangs_hangs_and_others_do_not(self):
        fault = "hang:rank=1:operation=1+:setting=tree/simple"
        with Workers(2, fault, environment=INSIDE) as workers:
            self.assertEqual(wrong(workers.measure(case("all_reduce", 100, 2), setting="ring/simple")[0]), [0, 0])
            workers.open(case("all_reduce", 100, 2))
            before = [worker.completed() for worker in workers.all]
            for worker in workers.all:
                worker.send("warm_up", operations=1, setting="tree/simple")
                worker.socket.settimeout(1)
            for worker in workers.all:
                self.assertRaises(TimeoutError, worker.receive)
            self.assertEqual([worker.completed() for worker in workers.all], before)

    def test_one_that_crashes_ends_its_worker(self):
        with Workers(2, "crash:rank=1:operation=1+:setting=tree/simple", environment=INSIDE) as workers:
            workers.open(case("all_reduce", 100, 2))
            workers.good("warm_up", operations=1, setting="ring/simple")
            for worker in workers.all:
                worker.send("warm_up", operations=1, setting="tree/simple")
            self.assertEqual(workers.all[1].process.wait(60), -signal.SIGSEGV)

    def test_a_misspelt_setting_of_a_fault_is_refused(self):
        with Workers(1, "slow:rank=0:us=1:setting=ring/fast", join=False) as workers:
            self.assertIn("P5BENCH_FAKE", workers.join()[0]["error"])


class Library(unittest.TestCase):
    """Ranks with only the library and its table, as in an application."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = Log(folder.name)

    def environment(self, rows, version=None, ranks=2, nodes=1, plugin=LIBRARY, **more):
        if version is None:
            with Workers(1, join=False) as workers:
                major, minor, patch = map(int, workers.identities[0]["library"].split()[1].split("."))
                version = major * 10000 + minor * 100 + patch
        table = self.folder / "nccl-tuner.csv"
        table.write_text("\n".join(["# a test", "format,1", f"nccl,{version}", f"ranks,{ranks}", f"nodes,{nodes}",
                                    COLUMNS, *rows]) + "\n")
        return {"NCCL_TUNER_PLUGIN": str(plugin), "NCCL_TUNER_CONFIG_FILE": str(table), **self.log.environment, **more}

    ROWS = ("all_reduce,1000,4000,ring,simple,0,0,10", "all_reduce,4001,8000,tree,ll128,4,262144,20",
            "all_gather,1000,4000,ring,ll128,0,0,10")

    def test_calls_run_as_the_table_says_and_right_in_all_versions(self):
        for version in (2, 3, 4, 5, 6, 7):
            environment = self.environment(self.ROWS, P5BENCH_FAKE_TUNER_VERSION=str(version))
            with self.subTest(version=version), Workers(2, environment=environment) as workers:
                self.log.path.write_text("")
                for elements, collective in ((500, "all_reduce"), (1500, "all_reduce"), (1, "all_reduce"),
                                             (200, "all_gather")):
                    verifications, _ = workers.measure(case(collective, elements, 2))
                    self.assertEqual(wrong(verifications), [0, 0])
                self.assertEqual(set(self.log.choices("all_reduce", 2000)), {"ring/simple"})
                self.assertEqual(set(self.log.choices("all_reduce", 4)), {OWN})  # in no row
                # 1600 bytes of output; the log counts one rank's. Version 2 does not show if LL128 is safe.
                self.assertEqual(set(self.log.choices("all_gather", 800)), {OWN if version == 2 else "ring/ll128"})
                if version > 2:
                    self.assertEqual(set(self.log.choices("all_reduce", 6000)), {"tree/ll128"})
                if version >= 6:
                    self.assertRegex(self.log.text(), r"chunks of 262144 bytes\n.*AllReduce: 6000 Bytes")
                self.assertEqual(self.log.warnings(), [])

    WAYS = (("ring/simple", {}, {}), (OWN, {"register": "local"}, {}), (OWN, {"cuda_graph": True}, {}),
            ("ring/simple", {"cuda_graph": True}, {"NCCL_GRAPH_REGISTER": "0"}))

    def test_rows_are_for_buffers_that_are_not_registered_and_not_for_graphs(self):
        environment = self.environment(self.ROWS)
        for expected, way, more in self.WAYS:
            for version in (3, 5):
                with self.subTest(way=way, more=more, version=version), \
                        Workers(2, environment={**environment, **more, "P5BENCH_FAKE_TUNER_VERSION": str(version)}) as workers:
                    self.log.path.write_text("")
                    verifications, _ = workers.measure(case("all_reduce", 500, 2, **way))
                    self.assertEqual(wrong(verifications), [0, 0])
                    # The last call: of the graph, where there is one.
                    self.assertEqual(self.log.choices("all_reduce", 2000)[-1], expected if version > 3 else "ring/simple")

    def test_the_choice_that_is_told_of_a_case_in_graphs_is_that_of_the_captured_call(self):
        environment = {name: value for name, value in self.environment(self.ROWS).items() if name not in self.log.environment}
        for expected, way, more in self.WAYS:
            with self.subTest(way=way, more=more), Workers(2, environment={**environment, **more}) as workers:
                workers.open(case("all_reduce", 500, 2, **way))
                workers.good("warm_up", operations=1, setting="")
                self.assertEqual(selected(workers), expected)

    def test_found_by_file_name_and_by_suffix(self):
        for name in ("libnccl-tuner-p5bench.so", "p5bench"):
            environment = self.environment(self.ROWS, plugin=name, LD_LIBRARY_PATH=f"{FAKES}:{BUILD}")
            with self.subTest(name=name), Workers(2, environment=environment) as workers:
                self.log.path.write_text("")
                workers.measure(case("all_reduce", 500, 2))
                self.assertEqual(set(self.log.choices("all_reduce", 2000)), {"ring/simple"})

    def test_on_two_nodes_with_a_table_for_two(self):
        environment = self.environment(self.ROWS, nodes=2)
        with Workers(2, environment=lambda rank: {**environment, "NCCL_HOSTID": f"node{rank}"}) as workers:
            workers.measure(case("all_reduce", 500, 2))
            self.assertEqual(set(self.log.choices("all_reduce", 2000)), {"ring/simple"})

    def test_a_table_for_something_else_changes_nothing_and_each_rank_warns_once(self):
        for what, other in (("is for NCCL 0.0.1, this job runs NCCL 2.", {"version": 1}), ("4 ranks on 1 nodes", {"ranks": 4}),
                            ("2 ranks on 2 nodes", {"nodes": 2})):
            with self.subTest(what=what):
                environment = self.environment(self.ROWS, **other)
                self.log.path.write_text("")
                with Workers(2, environment=environment) as workers:
                    self.assertEqual(wrong(workers.measure(case("all_reduce", 500, 2))[0]), [0, 0])
                    self.assertEqual(set(self.log.choices("all_reduce", 2000)), {OWN})
                    self.assertEqual(len(self.log.warnings()), 2, self.log.warnings())
                    self.assertTrue(all(what in line for line in self.log.warnings()), self.log.warnings())

    def test_a_rank_whose_table_is_missing_or_another_does_not_start(self):
        environment = self.environment(self.ROWS)
        table = pathlib.Path(environment["NCCL_TUNER_CONFIG_FILE"])
        other, empty, half = (self.folder / f"{name}.csv" for name in ("other", "empty", "half"))
        other.write_text(table.read_text().replace(",10\n", ",11\n"))
        empty.write_text("")
        half.write_text(table.read_text()[:-5])
        with_hash = {**environment, "P5BENCH_TUNER_HASH": fingerprint(table.read_bytes())}
        for wrong_one, says, common in ((other, fingerprint(other.read_bytes()), with_hash), (empty, "cbf29ce484222325", with_hash),
                                        (self.folder / "missing.csv", "cannot be read", with_hash), (half, "cut off", environment)):
            with self.subTest(table=wrong_one.name):
                self.log.path.write_text("")
                mine = {0: common, 1: {**common, "NCCL_TUNER_CONFIG_FILE": str(wrong_one)}}
                with Workers(2, environment=mine.get, join=False) as workers:
                    unique_id = workers.all[0].ask("unique_id")["id"]
                    for rank, worker in enumerate(workers.all):
                        worker.send("join", ids=[unique_id], rank=rank, ranks=2)
                    self.assertIn("error", workers.all[1].receive())
                [warning] = self.log.warnings()
                for word in (str(wrong_one), says, socket.gethostname(), "unset NCCL_TUNER_PLUGIN"):
                    self.assertIn(word, warning)
        with Workers(2, environment=with_hash) as workers:
            self.assertEqual(wrong(workers.measure(case("all_reduce", 500, 2))[0]), [0, 0])

    def test_each_communicator_gets_the_table_that_is_for_it(self):
        environment = self.environment(self.ROWS, ranks=4)
        table = pathlib.Path(environment["NCCL_TUNER_CONFIG_FILE"])
        job = table.read_text()
        self.environment(["all_reduce,1000,4000,tree,ll128,0,0,10"], ranks=2)
        table.write_text(job + table.read_text())
        with Workers(4, environment=environment) as workers:
            workers.measure(case("all_reduce", 500, 4))
            self.assertEqual(set(self.log.choices("all_reduce", 2000)), {"ring/simple"})
            self.log.path.write_text("")
            self.assertEqual(wrong(workers.measure(case("all_reduce", 500, 2), [[[0, 1], [2, 3]]])[0]), [0] * 4)
            self.assertEqual(set(self.log.choices("all_reduce", 2000)), {"tree/ll128"})
            self.assertEqual(self.log.warnings(), [])

    def test_groups_within_the_job_keep_nccls_choices_without_a_warning(self):
        environment = self.environment(self.ROWS, ranks=4)
        with Workers(4, environment=environment) as workers:
            workers.measure(case("all_reduce", 500, 4))
            self.assertEqual(set(self.log.choices("all_reduce", 2000)), {"ring/simple"})
            self.log.path.write_text("")
            workers.measure(case("all_reduce", 500, 2), [[[0, 1], [2, 3]]])
            self.assertEqual(set(self.log.choices("all_reduce", 2000)), {OWN})
            self.assertEqual(self.log.warnings(), [])


if __name__ == "__main__":
    skip_unless_built()
    unittest.main(verbosity=2)
