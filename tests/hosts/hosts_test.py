"""p5bench over several hosts like real ones: with bridges for containers, without a common file system, healthy and
with one of them dying. No option names an interface, neither for mpirun nor for p5bench. hosts.py describes the
hosts."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from job_files import operation, write_job  # noqa: E402
from hosts import Hosts, command_of, wait_for, what_is_missing

import jsonschema

SOURCE = pathlib.Path(os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
BUILD = pathlib.Path(os.environ.get("P5BENCH_BUILD") or SOURCE / "build" / "test")
PROGRAM = BUILD / "p5bench"
FAKES = BUILD / "tests" / "fakes"
OUT = "/tmp/out"  # each host has its own
GPUS = {"LD_LIBRARY_PATH": str(FAKES), "P5BENCH_FAKE_GPUS": "2", "P5BENCH_FAKE_FABRIC": "/tmp/fabric",
        "P5BENCH_MOST_SAMPLES": "6", "P5BENCH_FAKE_MEMORY": str(8 << 20)}
UNJUDGED = 14  # the exit code of a run on the fakes, whose figures have no bars
HAVE_GPUS = all(path.exists() for path in (BUILD / "p5bench-worker-nccl", FAKES / "libnccl.so.2"))
HAVE_OFI = (BUILD / "p5bench-worker-ofi").exists()
# Generous, for slow machines: nothing here judges time.
PATIENCE_S = 500
NIGHTLY = bool(os.environ.get("P5BENCH_NIGHTLY"))


# Measured once: larger than what is repeated, and than TCP sends at once, so that MPI uses all the connections that it made.
ONCE = "1100KiB"


def run_of(seconds, sizes=ONCE):
    return ["run", "--backend", "mpi", "--collectives", "all_reduce", "--sizes", sizes, "--budget", f"{seconds}s"]


# Each is measured once, so that the first case is finished soon, and the last long afterwards.
ONE_BY_ONE = ",".join(f"{1025 + i}KiB" for i in range(200))


class OnHosts(unittest.TestCase):
    """Common parts of tests on hosts; they use the hosts made last."""

    def enter(self, manager):
        entered = manager.__enter__()
        self.addCleanup(manager.__exit__, None, None, None)
        return entered

    def make(self, count, shared=(), **how):
        self.hosts = self.enter(Hosts(count, shared=(SOURCE, BUILD, *shared), **how))
        self.log = pathlib.Path(self.enter(tempfile.TemporaryDirectory())) / "printed"

    def start(self, ranks_per_host, arguments, options=(), program=PROGRAM, **variables):
        return self.hosts.start_mpirun(ranks_per_host, [str(program), *arguments, "--out", OUT], self.log, options, **variables)

    def printed(self):
        return self.log.read_text(errors="replace")[-4000:]

    def wait_for_end(self, run):
        try:
            return run.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.fail(f"mpirun does not end; left: {self.hosts.all_processes()}\n{self.printed()}")

    def assert_none_left(self):
        wait_for(lambda: not self.hosts.all_processes(), PATIENCE_S)
        self.assertEqual(self.hosts.all_processes(), {}, "the run left processes")

    def out_of(self, host):
        return self.hosts.files(host) / pathlib.Path(OUT).relative_to("/tmp")

    def file(self, name):
        """The file of the only run; rank 0 writes it, on the first host."""
        found = [path for path in self.out_of("h1").rglob(name) if "latest" not in path.parts]
        self.assertLessEqual(len(found), 1)
        return found[0] if found else None

    def report(self):
        path = self.file("report.json")
        self.assertIsNotNone(path, f"no report\n{self.printed()}")
        latest = {link.resolve() for link in self.out_of("h1").rglob("latest")}
        self.assertEqual(latest, {path.parent.resolve()}, "latest does not point to the run")
        report = json.loads(path.read_text())
        jsonschema.validate(report, json.loads((SOURCE / "reports/schema/report.schema.json").read_text()))
        return report

    def whole_run(self, ranks_per_host, arguments, options=(), **variables):
        """The report of a run that has to end well."""
        status = self.wait_for_end(self.start(ranks_per_host, arguments, options, **variables))
        self.assertEqual(status, UNJUDGED if "LD_LIBRARY_PATH" in variables else 0, self.printed())
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"]), ("complete", status))
        self.assertEqual(report["run"]["nodes"], len(self.hosts.names))
        # Cases that a slow machine's budget does not reach are skipped.
        self.assertLessEqual({entry["outcome"] for entry in report["measurements"]}, {"measured", "skipped"})
        self.assertEqual([finding for finding in report["findings"] if finding["id"].startswith("fabric.")], [])
        return report

    def findings(self, report):
        return [finding["id"] for finding in report["findings"]]


class ThreeHosts(OnHosts):
    def setUp(self):
        self.make(3)

    def test_the_hosts_have_names_and_files_of_their_own(self):
        script = 'hostname >/tmp/name; touch "/dev/shm/$(hostname)"; cat /tmp/name; ls /dev/shm | grep "^h"; ip -4 -br address show docker0'
        self.assertEqual(self.wait_for_end(self.hosts.start_mpirun(1, ["sh", "-c", script], self.log)), 0, self.printed())
        words = self.printed().split()
        self.assertEqual(sorted(word for word in words if word.startswith("h")), ["h1", "h1", "h2", "h2", "h3", "h3"])
        self.assertEqual(words.count("172.17.0.1/16"), 3)

    def test_the_report_names_the_three_hosts(self):
        report = self.whole_run(2, run_of(60), P5BENCH_MOST_SAMPLES="6")
        self.assertEqual(report["run"]["ranks"], 6)
        self.assertEqual([host["name"] for host in report["topology"]["hosts"]], ["h1", "h2", "h3"])
        self.assertEqual(report["topology"]["host_of_rank"], [0, 0, 1, 1, 2, 2])
        self.assertEqual(report["context"]["env.OMPI_MCA_btl_tcp_if_include"], "net0")
        for host in ("h2", "h3"):
            self.assertFalse(self.out_of(host).exists(), f"{host} has files of a report")

    def test_ranks_that_may_open_too_few_files_for_their_connections_are_refused(self):
        for host in ("h1", "h2") if NIGHTLY else ("h2",):
            with self.subTest(host=host):
                few = f'if [ "$(hostname)" = {host} ]; then ulimit -n 80; fi; exec "$@"'
                program = ["bash", "-c", few, "bash", str(PROGRAM), *run_of(4), "--out", OUT]
                run = self.hosts.start_mpirun(2, program, self.log)
                self.assertEqual(self.wait_for_end(run), 13, self.printed())
                self.assert_none_left()
                self.assertIn("may open 80 files (ulimit -Hn), and the connections to 4 ranks", self.printed())

    @unittest.skipUnless(HAVE_OFI, "needs libfabric's headers to be built")
    def test_messages_over_libfabric_go_from_host_to_host(self):
        report = self.whole_run(1, ["--backend", "ofi", "--collectives", "send_recv", "--sizes", "8,64KiB"], FI_PROVIDER="tcp")
        self.assertEqual([entry["case"]["nodes"] for entry in report["measurements"]], [3, 3])
        self.assertEqual(report["context"]["nics"], "net0")

    def test_a_traffic_file_is_needed_on_the_first_host_only(self):
        (self.hosts.files("h1") / "t.csv").write_text("0,8KiB,0\n0,0,4KiB\n1KiB,0,0\n")
        report = self.whole_run(1, ["--backend", "mpi", "--collectives", "all_to_allv", "--traffic", "/tmp/t.csv"])
        self.assertEqual([entry["case"]["bytes"] for entry in report["measurements"]], [8192])
        self.assertEqual(report["traffic"][0]["matrix"], [[0, 1, 0], [0, 0, 0.5], [0.125, 0, 0]])

    def a_case_is_finished(self):
        journal = self.file("measurements.jsonl")
        return journal is not None and b"\n" in journal.read_bytes()

    def assert_a_partial_report_stays_when_killed(self, command):
        run = self.start(2, run_of(300, ONE_BY_ONE))
        begun = wait_for(lambda: self.a_case_is_finished() or run.poll() is not None, PATIENCE_S)
        self.assertTrue(begun and run.poll() is None, f"the run did not get going\n{self.printed()}")
        victims = [pid for pid in self.hosts.processes("h3") if command_of(pid) == command]
        self.assertTrue(victims, f"no {command} on h3: {self.hosts.all_processes()}")
        os.kill(victims[0], signal.SIGKILL)
        self.assertNotEqual(self.wait_for_end(run), 0, self.printed())
        self.assert_none_left()
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"]), ("partial", 12))
        self.assertTrue(any(entry["outcome"] == "measured" for entry in report["measurements"]), "what was measured is lost")

    @unittest.skipUnless(NIGHTLY, "nightly: by day ranks are killed on one host (ranks/failing_ranks_test.py)")
    def test_a_partial_report_stays_when_a_rank_is_killed(self):
        self.assert_a_partial_report_stays_when_killed("p5bench")

    def test_a_partial_report_stays_when_a_host_is_lost(self):
        self.assert_a_partial_report_stays_when_killed("orted")


class Links(OnHosts):
    """A failure of one host's network in the middle of a run; MPI's data goes over net1, mpirun's own over net0."""

    OPTIONS = ("--mca", "btl_tcp_if_include", "net1", "--mca", "oob_tcp_if_include", "net0")

    def begun(self, seconds):
        self.make(3, networks=2)
        run = self.start(2, [*run_of(seconds, ONE_BY_ONE), "--timeout", "15s"], self.OPTIONS)
        self.assertTrue(wait_for(lambda: run.poll() is not None or self.cases(), PATIENCE_S) and run.poll() is None, self.printed())
        return run

    def cases(self):
        journal = self.file("measurements.jsonl")
        return [json.loads(line) for line in journal.read_text().splitlines(keepends=True) if line.endswith("\n")] if journal else []

    def test_a_cable_that_is_taken_out_ends_the_run_with_what_was_measured(self):
        run = self.begun(300)
        self.hosts.cut("h3", 1)
        self.assertEqual(self.wait_for_end(run), 12, self.printed())
        self.assert_none_left()
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"]), ("partial", 12))
        self.assertRegex(report["run"]["ended_by"], "no progress in .* of all_reduce .* within")
        measured = [entry["case"]["bytes"] for entry in report["measurements"] if entry["outcome"] == "measured"]
        self.assertEqual(measured, [entry["case"]["bytes"] for entry in self.cases() if entry["outcome"] == "measured"])
        self.assertTrue(measured, self.cases())

    def test_a_network_that_becomes_slow_is_waited_for(self):
        run = self.begun(20)
        self.hosts.slow("h3", 1)
        self.assertEqual(self.wait_for_end(run), 0, self.printed())
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"]), ("complete", 0))
        self.assertLessEqual({entry["outcome"] for entry in report["measurements"]}, {"measured", "skipped"})


class Interfaces(OnHosts):
    MPI = ["--backend", "mpi", "--collectives", "all_reduce", "--sizes", ONCE]

    def test_a_bridge_of_a_name_that_nobody_knows_is_no_network(self):
        self.make(2, bridge="mybridge", default_route=False)
        report = self.whole_run(1, self.MPI)
        self.assertEqual(report["context"]["env.OMPI_MCA_btl_tcp_if_include"], "net0")

    def test_data_of_the_mpi_backend_goes_over_all_real_networks(self):
        self.make(2, networks=2)
        report = self.whole_run(1, self.MPI)
        self.assertEqual(report["context"]["env.OMPI_MCA_btl_tcp_if_include"], "net0,net1")

    def test_what_the_operator_wrote_into_a_file_stands(self):
        self.make(2)
        for host in self.hosts.names:
            folder = self.hosts.files(host) / ".openmpi"  # /tmp is the hosts' home folder
            folder.mkdir()
            (folder / "mca-params.conf").write_text("btl_tcp_if_exclude = 127.0.0.0/8,docker0\n")
        self.assertNotIn("env.OMPI_MCA_btl_tcp_if_include", self.whole_run(1, self.MPI)["context"])


@unittest.skipUnless(HAVE_GPUS, "needs CUDA's and NCCL's headers to be built")
class Gpus(OnHosts):
    """Made-up GPUs, whose NCCL chooses interfaces as the real one does."""

    NCCL = ["--backend", "nccl", "--collectives", "all_reduce", "--sizes", "64KiB,1MiB", "--budget", "60s"]

    def test_traffic_by_a_matrix(self):
        self.make(2)
        report = self.whole_run(2, ["--backend", "nccl", "--collectives", "all_to_allv", "--traffic", "expert:64,8,2", "--sizes",
                                    "8,64KiB", "--tuning", "off", "--budget", "60s"], **GPUS)
        self.assertEqual([entry["case"]["traffic"] for entry in report["measurements"]], 2 * ["expert:64,8,2"])
        self.assertEqual([entry["wrong_elements"] for entry in report["measurements"]], [0, 0])

    def test_a_collective_of_each_host_beside_one_of_all(self):
        self.make(2)
        report = self.whole_run(2, ["--backend", "nccl", "--collectives", "all_reduce", "--sizes", "64KiB", "--beside", "all_gather@node:64KiB",
                                    "--budget", "60s"], **GPUS)
        (entry,) = report["measurements"]
        self.assertEqual((entry["outcome"], entry["wrong_elements"]), ("measured", 0), entry)
        self.assertEqual([each["name"] for each in entry["concurrency"]["operations"]], ["all_reduce", "all_gather@node:64KiB"])

    def test_a_step_of_a_job_whose_file_only_the_first_host_has(self):
        self.make(2)
        write_job(self.hosts.files("h1") / "step.json", 4,
                  [operation("all_gather", 4096, 2, "node", gap_us=2000), operation("all_reduce", 4096, 2, "rail"), operation("p2p", 1000, 2, [[3, 0]]),
                   operation("reduce_scatter", 4096, 4, "world")])
        report = self.whole_run(2, ["run", "--backend", "nccl", "--job", "/tmp/step.json", "--budget", "60s"], **GPUS)
        (entry,) = report["measurements"]
        self.assertEqual((entry["case"]["collective"], entry["outcome"], entry["wrong_elements"]), ("job_step", "measured", 0), entry)
        self.assertGreater(entry["throughput"]["median_us"], 2000)

    def test_nccl_is_kept_from_a_bridge_that_it_does_not_know(self):
        self.make(2, bridge="mybridge", networks=2)
        report = self.whole_run(1, [*self.NCCL, "--tuning=off"], **GPUS)
        self.assertEqual(report["context"]["workers.NCCL_SOCKET_IFNAME"], "=net0,net1")
        found = [finding for finding in report["findings"] if finding["id"] == "nccl.interfaces"]
        self.assertEqual(len(found), 1, report["findings"])
        for words in ("h1, h2", "mybridge"):
            self.assertIn(words, found[0]["evidence"])
        self.assertIn("NCCL_SOCKET_IFNAME==net0,net1", found[0]["action"])


@unittest.skipUnless(HAVE_GPUS, "needs CUDA's and NCCL's headers to be built")
class GpusMore(OnHosts):
    """Nightly: by day tuning_hosts has hosts without a common file system."""

    def test_a_run_with_tuning_needs_no_common_file_system(self):
        self.make(2)
        report = self.whole_run(2, Gpus.NCCL, **GPUS)
        # It searched all sizes, whatever it finds on a busy machine.
        tuning = report["tuning"]
        self.assertEqual([cell["bytes"] for cell in tuning["cells"]], [64 << 10, 1 << 20])
        self.assertTrue(all(cell["samples"] > 0 for cell in tuning["cells"]), tuning)
        # Control messages use one interface.
        self.assertEqual(report["context"]["env.OMPI_MCA_btl_tcp_if_include"], "net0")

    def test_an_interface_that_the_operator_gave_to_nccl_stands(self):
        self.make(2, bridge="mybridge")
        report = self.whole_run(1, [*Gpus.NCCL, "--tuning=off"], ("-x", "NCCL_SOCKET_IFNAME=net0"), **GPUS)
        self.assertEqual(report["context"]["workers.NCCL_SOCKET_IFNAME"], "net0")
        self.assertNotIn("nccl.interfaces", self.findings(report))


@unittest.skipUnless(HAVE_GPUS, "needs CUDA's and NCCL's headers to be built")
class Checks(OnHosts):
    """A line for each host, over MPI."""

    def check(self, **variables):
        self.make(2)
        variables = {**GPUS, "LD_LIBRARY_PATH": f"{FAKES}:{FAKES / 'nvml'}", "P5BENCH_FAKE_MEMORY": str(8 << 20), **variables}
        status = self.wait_for_end(self.start(2, ["check", "--limit", "150s"], **variables))
        self.assert_none_left()
        return status

    def test_each_host_is_told_of(self):
        self.assertEqual(self.check(), 0, self.printed())
        for host in ("h1", "h2"):
            self.assertRegex(self.printed(), rf"(?m)^{host}: fit; checked .*1 pair of ranks, 2 GPUs alone")
        self.assertEqual(sorted(case["case"]["nodes"] for case in self.report()["measurements"] if case["case"]["collective"] == "all_reduce"), [1, 2])

    def test_the_host_with_wrong_data_is_named_and_no_other(self):
        self.assertEqual(self.check(P5BENCH_FAKE="wrong:host=h2:operation=2+:what=element"), 11, self.printed())
        lines = "\n".join(line for line in self.printed().splitlines() if line.startswith("h"))
        # Copies on the fakes are as fast as the processors that other tests leave them.
        self.assertRegex(lines, r"(?m)^h1: (fit; |NOT FIT: gpu\.slow)")
        self.assertRegex(lines, r"(?m)^h2: NOT FIT: (gpu|node) n1")


@unittest.skipUnless(HAVE_GPUS, "needs CUDA's and NCCL's headers to be built")
class Domains(OnHosts):
    """NVLink domains of two hosts each, as the fakes' NVML tells them."""

    def run_in(self, cliques, codes=(UNJUDGED, 10)):
        """The report of a run on hosts of which each has a number of its cluster and its clique, or None. Busy cores may
        make a part of the fakes slow."""
        self.make(len(cliques))
        faults = [f"clique:host=h{host}:cluster={each[0]}:id={each[1]}" for host, each in enumerate(cliques, 1) if each]
        variables = {"LD_LIBRARY_PATH": f"{FAKES}:{FAKES / 'nvml'}", "P5BENCH_FAKE_GPUS": "1", "P5BENCH_FAKE_NVML": ",".join(faults)}
        run = ["--backend", "nccl", "--collectives", "p2p,all_reduce", "--sizes", "64KiB", "--budget", "60s", "--tuning=off"]
        self.assertIn(self.wait_for_end(self.start(1, run, **{**GPUS, **variables})), codes, self.printed())
        return self.report()

    def spans(self, report, collective):
        return {(m["case"]["pair"], m["case"].get("domains")) for m in report["measurements"] if m["case"]["collective"] == collective}

    def test_hosts_of_two_domains_are_found(self):
        report = self.run_in([(1, 0), (1, 0), (2, 0), (2, 0)])
        self.assertEqual(self.spans(report, "p2p"), {("same_domain", 1), ("other_domain", 2)})
        self.assertIn((None, 2), self.spans(report, "all_reduce"))
        self.assertNotIn("domain.clique", self.findings(report))

    def test_a_host_outside_the_clique_is_named(self):
        report = self.run_in([(1, 0), (1, 0), (1, 7)], codes=[10])
        found = [each for each in report["findings"] if each["id"] == "domain.clique"]
        self.assertEqual([each["subject"]["host"] for each in found], ["h3"])

    def test_hosts_without_a_clique_are_domains_of_their_own(self):
        report = self.run_in([None, None])
        self.assertEqual(self.spans(report, "p2p"), {("other_node", None)})
        self.assertEqual([each for each in self.findings(report) if each.startswith("domain.")], [])


class OnTwoNetworks(OnHosts):
    """Control messages use net0, data uses net1, which is disconnected on some hosts."""

    CONTROL = ("--mca", "btl_tcp_if_include", "net0", "--mca", "oob_tcp_if_include", "net0")
    NCCL = (*CONTROL, "-x", "NCCL_SOCKET_IFNAME=net1")
    OFI = (*CONTROL, "-x", "FI_PROVIDER=tcp", "-x", "FI_TCP_IFACE=net1")
    CASES = ["--sizes", "64KiB,1MiB", "--budget", "60s", "--tuning=off"]
    ON_GPUS = ["--backend", "nccl", "--collectives", "all_reduce", *CASES]

    def make_without(self, count, cut, **how):
        self.make(count, networks=2, **how)
        for host in cut:
            self.hosts.cut(host, 1)

    def faulty_run(self, arguments, options, **variables):
        """The only finding about the network of a run that has to end with it, with nothing tried."""
        status = self.wait_for_end(self.start(2, arguments, options, **variables))
        self.assertEqual(status, 10, self.printed())
        self.assert_none_left()
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"], report["grade"]), ("complete", 10, "faulty"))
        self.assertEqual([entry["outcome"] for entry in report["measurements"]], ["skipped", "skipped"])
        finding, = [finding for finding in report["findings"] if finding["id"].startswith("fabric.")]
        self.assertEqual((finding["severity"], finding["about"]), ("error", "fabric"))
        self.assertIn(f"p5bench: {finding['evidence']}; {finding['action']}", self.log.read_text(errors="replace"))
        return finding


@unittest.skipUnless(HAVE_GPUS and HAVE_OFI, "needs CUDA's, NCCL's and libfabric's headers to be built")
class Fabric(OnTwoNetworks):
    def test_a_host_that_is_cut_from_the_network_of_data_is_named_before_nccl_starts(self):
        self.make_without(4, ["h3"])
        # A rank that joined would not come back.
        finding = self.faulty_run(self.ON_GPUS, self.NCCL, **GPUS, P5BENCH_FAKE="join-hang:host=h1")
        self.assertEqual((finding["id"], finding["subject"]["host"]), ("fabric.unreachable", "h3"))
        self.assertRegex(finding["evidence"], r"^h3 \(net1, 10\.55\.1\.3\) exchanged no message with h\d \(.*\), h\d \(.*\).* 5 s each.*tcp")
        self.assertIn("security group", finding["action"])


@unittest.skipUnless(HAVE_GPUS and HAVE_OFI, "needs CUDA's, NCCL's and libfabric's headers to be built")
class FabricMore(OnTwoNetworks):
    def test_hosts_that_are_all_cut_are_one_finding(self):
        self.make_without(4, ["h1", "h2", "h3", "h4"])
        finding = self.faulty_run(self.ON_GPUS, self.NCCL, **GPUS)
        self.assertEqual((finding["id"], finding["subject"]["host"]), ("fabric.silent", ""))

    def test_messages_over_libfabric_are_tried_in_the_same_way(self):
        self.make_without(3, ["h1"])
        finding = self.faulty_run(["--backend", "ofi", "--collectives", "send_recv", *self.CASES[:-1]], self.OFI)
        self.assertEqual((finding["id"], finding["subject"]["host"]), ("fabric.unreachable", "h1"))

    def test_a_run_goes_on_when_the_network_is_there_again(self):
        self.make_without(2, ["h2"])
        finding = self.faulty_run(self.ON_GPUS, self.NCCL, **GPUS)
        self.assertEqual((finding["id"], finding["subject"]["host"], finding["hosts"]), ("fabric.pair", "", ["h1", "h2"]))
        self.hosts.mend("h2", 1)
        self.assertEqual(self.wait_for_end(self.start(2, [*self.ON_GPUS, "--resume"], self.NCCL, **GPUS)), UNJUDGED, self.printed())

    def test_who_knows_better_measures_all_the_same(self):
        self.make_without(2, ["h2"])
        report = self.whole_run(2, self.ON_GPUS, self.NCCL, **GPUS, P5BENCH_REACH_LIMIT="off")
        self.assertEqual([entry["outcome"] for entry in report["measurements"]], ["measured", "measured"])

    def test_a_worker_that_finds_no_way_is_said_and_costs_nothing_else(self):
        self.make(2, networks=2)
        status = self.wait_for_end(self.start(2, self.ON_GPUS, (*self.NCCL, "-x", "FI_PROVIDER=nosuch"), **GPUS))
        self.assertEqual(status, UNJUDGED, self.printed())
        report = self.report()
        finding, = [finding for finding in report["findings"] if finding["id"].startswith("fabric.")]
        self.assertEqual((finding["id"], finding["severity"]), ("fabric.untried", "warning"))
        self.assertEqual([entry["outcome"] for entry in report["measurements"]], ["measured", "measured"])

    def test_without_a_worker_for_libfabric_it_shows_when_ranks_join(self):
        programs = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))
        for each in BUILD.glob("p5bench*"):
            if each.is_file() and each.name != "p5bench-worker-ofi":
                shutil.copy(each, programs)
        self.make_without(4, ["h3"], shared=[programs])
        run = self.start(2, self.ON_GPUS, self.NCCL, programs / "p5bench", **GPUS, P5BENCH_FAKE="join-hang:host=h3:ranks=3", P5BENCH_JOIN_LIMIT="20s")
        self.assertEqual(self.wait_for_end(run), 13, self.printed())
        found = [(finding["id"], finding["subject"]["host"]) for finding in self.report()["findings"] if finding["severity"] == "error"]
        self.assertEqual(found, [("join.host", "h3")])


class Unreachable(OnHosts):
    """Takes as long as the first message between ranks may: a minute."""

    def test_hosts_that_are_not_heard_of_are_named_with_the_setting_to_give(self):
        self.make(3, networks=2)
        self.hosts.cut("h3", 1)
        run = self.start(2, run_of(4), ("--mca", "btl_tcp_if_include", "net1", "--mca", "oob_tcp_if_include", "net0"))
        self.assertEqual(self.wait_for_end(run), 13, self.printed())
        self.assert_none_left()
        told = [line for line in self.log.read_text(errors="replace").splitlines() if "p5bench: " in line]
        self.assertEqual(len(told), 1, self.printed())
        for words in ("h3 (ranks 4, 5).", "btl_tcp_if_include=net1", "--mca btl_tcp_if_include eth0"):
            self.assertIn(words, told[0])
        self.assertNotIn("h2", told[0])


if __name__ == "__main__":
    missing = what_is_missing()
    if missing:
        print(f"left out: needs {missing}")
        sys.exit(77)
    # A test that is ended from outside removes its hosts too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
