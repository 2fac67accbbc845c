"""The backend ofi on SIMULATED EFA devices: a stand-in for libfabric's provider (standin/provider.cpp) under the real
libfabric and the real worker, on hosts that are namespaces and whose kernels show such devices. Rates are scaled down."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "hosts"))
import unittest  # noqa: E402
import unittest.mock  # noqa: E402

from hosts import what_is_missing  # noqa: E402
from hosts_test import BUILD, HAVE_OFI, PROGRAM, OnHosts  # noqa: E402

NIGHTLY = bool(os.environ.get("P5BENCH_NIGHTLY"))
HERE = pathlib.Path(__file__).resolve().parent
DRIVER = BUILD / "tests" / "fakes" / "driver"  # a libcuda.so.1 whose 8 GPUs are simulated
STANDIN = pathlib.Path(os.environ.get("P5BENCH_STANDIN", BUILD / "tests" / "standin"))
TREE = "/tmp/efa"
COUNTERS = ("tx_bytes", "rx_bytes", "send_bytes", "recv_bytes", "rdma_read_bytes", "rdma_read_resp_bytes", "rdma_write_bytes", "rdma_write_recv_bytes")
# The library here may be older than the version from which devices of p5 read by themselves, and cannot be asked for it.
WITH_RDMA = {"P5BENCH_STANDIN_API": "1.17"}


def probe(variables, limit=60):
    """What the probe for libfabric says, and how."""
    environment = {"PATH": os.environ["PATH"], "FI_PROVIDER_PATH": str(STANDIN), **variables}
    told = subprocess.run([BUILD / "p5bench-probe-libfabric"], env=environment, capture_output=True, text=True, timeout=limit)
    return json.loads(told.stdout)


def make_tree(folder, domains, seen=TREE):
    """The files by which a kernel shows these devices; `seen`: the path of the folder on the host."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "drivers" / "efa").mkdir(parents=True)
    (folder / "class" / "infiniband").mkdir(parents=True)
    for domain in domains:
        device = folder / "devices" / domain["pci"]
        device.mkdir(parents=True)
        (device / "driver").symlink_to(f"{seen}/drivers/efa")
        (device / "vendor").write_text("0x1d0f\n")
        here = folder / "class" / "infiniband" / domain["nic"]
        port = here / "ports" / "1"
        (port / "hw_counters").mkdir(parents=True)
        (here / "device").symlink_to(f"{seen}/devices/{domain['pci']}")
        (here / "node_type").write_text("4: Unspecified\n")
        (port / "state").write_text("4: ACTIVE\n")
        (port / "link_layer").write_text("Unspecified\n")
        (port / "rate").write_text(f"{domain['rate_gb_per_s'] * 8:.0f} Gb/sec (4X EDR)\n")
        for counter in COUNTERS:
            (port / "hw_counters" / counter).write_text("0\n")


class OnEfa(OnHosts):
    MACHINE, DEVICES, SCALE = "p5.48xlarge", "4", "0.01"
    # Samples end each measurement, and the budget none: how much of it is used depends on the machine.
    ARGUMENTS = ["--backend", "ofi", "--collectives", "p2p", "--budget", "1200s", "--timeout", "60s"]

    def start_with(self, hosts, arguments, ranks=1, shows=True, **variables):
        self.make(hosts, own_kernels=True)
        variables = {"P5BENCH_STANDIN_FABRIC": "/tmp/fabric", "P5BENCH_STANDIN_MACHINE": self.MACHINE,
                     "P5BENCH_STANDIN_DEVICES": self.DEVICES, "P5BENCH_STANDIN_SCALE": self.SCALE, "FI_PROVIDER_PATH": str(STANDIN), "P5BENCH_MOST_SAMPLES": "9",
                     "P5BENCH_REACH_LIMIT": "60s",  # a busy machine may take longer than the 5 s of a real network
                     **WITH_RDMA, **variables}
        with tempfile.TemporaryDirectory() as fabric:
            told = {name: value for name, value in variables.items() if name.startswith("P5BENCH_STANDIN_")}
            self.domains = probe({**told, "P5BENCH_STANDIN_FABRIC": fabric})["domains"]
        faults = [fault.split(":") for fault in variables.get("P5BENCH_STANDIN_FAULT", "").split(";")]
        for host in self.hosts.names:
            absent = {fault[2] for fault in faults if fault[:2] == ["absent", host]}
            make_tree(self.hosts.files(host) / pathlib.Path(TREE).name,
                      [domain for domain in self.domains if not absent & {"*", domain["nic"]}])
        program = [*([str(HERE / "with_efa"), TREE] if shows else []), str(PROGRAM), *arguments, "--out", "/tmp/out"]
        given = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
        return self.hosts.start_mpirun(ranks, program, self.log, given)

    def report_with(self, hosts, arguments, codes=(0, 10, 14), **how):
        """Where nobody is to be named, what else this machine does may make a part look slow all the same (14: that explains it)."""
        self.assertIn(self.wait_for_end(self.start_with(hosts, [*self.ARGUMENTS, *arguments], **how)), codes, self.printed())
        return self.report()

    def of_nics(self, report):
        return sorted((m for m in report["measurements"] if m["case"].get("nic") is not None), key=lambda m: m["case"]["nic"])

    def counted(self, host, nic, counter):
        return int((self.hosts.files(host) / "efa" / "class/infiniband" / nic / "ports/1/hw_counters" / counter).read_text())


class Whole(OnEfa):
    """What moves the data is asked, which needs neither large messages nor rates."""

    DEVICES, SCALE = "2", "0"

    def test_single_nics_write_by_themselves_under_the_names_of_the_kernel(self):
        report = self.report_with(2, ["--sizes", "64KiB"])
        self.assertRegex(report["context"]["libfabric"], r"^libfabric \d+\.\d+, asked for API 1\.1[78], efa$")
        # As the kernel calls them, not as libfabric calls their domains.
        names = [domain["nic"] for domain in self.domains]
        self.assertEqual(names, ["rdmap79s0", "rdmap80s0"])
        self.assertEqual(report["topology"]["nics_of_rank"], [names] * 2)
        nics = self.of_nics(report)
        self.assertEqual([m["case"]["nic"] for m in nics], [0, 1])
        for m in nics:
            self.assertEqual((m["outcome"], m["wrong_elements"], m["case"]["bytes"]), ("measured", 0, 64 << 10))
            self.assertEqual((m["selection"]["algorithm"], m["selection"]["protocol"], m["selection"]["memory"]), ("write", "device write", "host memory"))
            self.assertRegex(m["verdict"]["because"], "host memory, moved by device write")
        self.assertRegex(report["context"]["libfabric.memory"],
                         r"^host memory; no GPU memory \(rank 0 on h1: (there is no libcuda.so.1|cuInit: CUDA_ERROR_NO_DEVICE)")
        self.assertNotIn("gdr", report)
        for host in self.hosts.names:
            for nic in names:
                self.assertGreater(self.counted(host, nic, "rdma_write_recv_bytes"), 0)

    def test_what_processors_copy_is_said_to_be_without_device_rdma(self):
        report = self.report_with(2, ["--sizes", "64KiB"], FI_EFA_USE_DEVICE_RDMA="0")
        for m in self.of_nics(report):
            self.assertEqual(m["selection"]["protocol"], "packets")
            self.assertIn("without device RDMA", m["verdict"]["because"])
        self.assertIn(("settings.device_rdma_off", "error"), {(each["id"], each["severity"]) for each in report["findings"]})

    def test_writes_that_the_kernel_does_not_count_are_not_taken_for_packets(self):
        kept = tuple(name for name in COUNTERS if not name.startswith("rdma_write"))
        with unittest.mock.patch.object(sys.modules[__name__], "COUNTERS", kept):
            report = self.report_with(2, ["--sizes", "64KiB"])
        nics = self.of_nics(report)
        self.assertEqual([m["selection"]["algorithm"] for m in nics], ["write"] * 2)
        for m in nics:
            self.assertEqual(m["selection"].get("protocol", ""), "")
            self.assertNotIn("device RDMA", m["verdict"]["because"])


class Unlike(OnEfa):
    """Hosts with differing numbers of NICs."""

    SCALE = "0.002"

    def pairs_of(self, report):
        return {m["case"]["nic"]: {rank for pair in m["pairs"] for rank in pair[:2]} for m in self.of_nics(report) if m["outcome"] == "measured"}

    def test_one_nic_less_on_a_host_is_no_fault_of_its_neighbours_and_hides_none(self):
        report = self.report_with(4, ["--sizes", "1MiB"], (10,), P5BENCH_STANDIN_FAULT="absent:h2:rdmap80s0;slow:h3:rdmap81s0:0.5")
        all_four = ["rdmap79s0", "rdmap80s0", "rdmap81s0", "rdmap82s0"]
        self.assertEqual(report["topology"]["nics_of_rank"], [all_four, ["rdmap79s0", "", "rdmap81s0", "rdmap82s0"], all_four, all_four])
        self.assertEqual(self.pairs_of(report), {0: {0, 1, 2, 3}, 1: {0, 2, 3}, 2: {0, 1, 2, 3}, 3: {0, 1, 2, 3}})
        self.assertEqual([(each["kind"], each["host"], each["device"]) for each in report["suspects"]], [("nic", "h3", "rdmap81s0")])
        self.assertEqual([each["subject"]["host"] for each in report["findings"] if each["subject"]["nic"] or each["id"].startswith("fabric.")], [])

    def test_a_silent_nic_is_named_where_its_partner_lacks_the_like(self):
        # h1 and h2 meet first, and h2 lacks what is silent at h1.
        run = self.start_with(4, [*self.ARGUMENTS, "--sizes", "1MiB"], P5BENCH_REACH_LIMIT="5s",
                              P5BENCH_STANDIN_FAULT="absent:h4:rdmap80s0;silent:h1:rdmap80s0")
        self.assertEqual(self.wait_for_end(run), 10, self.printed())
        found = [(each["id"], each["subject"]["host"], each["subject"]["nic"]) for each in self.report()["findings"] if each["id"].startswith("fabric.")]
        self.assertEqual(found, [("fabric.nic", "h1", "rdmap80s0")])

    def test_8_nics_against_4_meet_in_their_places(self):
        self.DEVICES = "8"
        half = ("rdmap80s0", "rdmap82s0", "rdmap97s0", "rdmap99s0")
        report = self.report_with(3, ["--sizes", "1MiB"], P5BENCH_STANDIN_SCALE="0", P5BENCH_STANDIN_FAULT=";".join(f"absent:h2:{nic}" for nic in half))
        names = report["topology"]["nics_of_rank"]
        self.assertEqual(names[1], ["" if nic in half else nic for nic in names[0]])
        self.assertEqual(self.pairs_of(report), {nic: {0, 2} if name in half else {0, 1, 2} for nic, name in enumerate(names[0])})
        self.assertEqual([each for each in report["findings"] if each["subject"]["nic"] or each["id"].startswith("fabric.")], [])

    def test_a_host_without_any_is_named_and_no_other(self):
        for host in ("h1", "h2"):
            run = self.start_with(3, [*self.ARGUMENTS, "--sizes", "8"], P5BENCH_STANDIN_FAULT=f"absent:{host}:*")
            self.assertEqual(self.wait_for_end(run), 13, self.printed())
            self.assertRegex(self.printed(), f"no EFA device on {host}, though 2 of 3 hosts have some: .*FI_PROVIDER=tcp")
            self.doCleanups()


class Refused(OnEfa):
    def test_where_the_kernel_shows_devices_nothing_else_is_measured_in_their_place(self):
        report = self.wait_for_end(self.start_with(2, [*self.ARGUMENTS, "--sizes", "8"], FI_PROVIDER_PATH="/nowhere"))
        self.assertEqual(report, 13, self.printed())
        self.assertRegex(self.printed(), r"the kernel shows devices of efa, but libfabric .* offers no endpoint on them; .*FI_PROVIDER=tcp")

    def test_peers_that_the_device_does_not_take_are_told_with_both_addresses(self):
        run = self.start_with(2, [*self.ARGUMENTS, "--sizes", "8"], P5BENCH_REACH_LIMIT="off", P5BENCH_STANDIN_ZONE="by-host")
        self.assertNotEqual(self.wait_for_end(run), 0, self.printed())
        self.assertRegex(self.printed() + json.dumps(self.report()),
                         r"fi_av_insert: rdmap79s0 \(fi_addr_efa://\S+\) takes no message to rank [01] \(fi_addr_efa://\S+\); .*availability zone")

    def test_a_silent_nic_is_named_before_anything_is_measured(self):
        run = self.start_with(3, [*self.ARGUMENTS, "--sizes", "1MiB"], P5BENCH_REACH_LIMIT="5s", P5BENCH_STANDIN_FAULT="silent:h2:rdmap82s0")
        self.assertEqual(self.wait_for_end(run), 10, self.printed())
        report = self.report()
        found = [(each["id"], each["subject"]["host"], each["subject"]["nic"]) for each in report["findings"] if each["id"].startswith("fabric.")]
        self.assertEqual(found, [("fabric.nic", "h2", "rdmap82s0")], report["findings"])
        self.assertEqual({m["outcome"] for m in report["measurements"]}, {"skipped"})
        self.assertIn("REJECT h2", self.printed())

    def test_a_variable_that_makes_the_provider_abort_is_told_in_its_words(self):
        run = self.start_with(2, [*self.ARGUMENTS, "--sizes", "8"], FI_EFA_MTU_SIZE="8000")
        self.assertEqual(self.wait_for_end(run), 13, self.printed())
        self.assertRegex(self.printed(), r"ended by signal 6 .*its last lines of output: .*FI_EFA_MTU_SIZE env variable detected")


class OnGpus(OnEfa):
    """On a CUDA driver whose GPUs are simulated: 2 NICs, beside GPUs 0 and 4, which are far from each other."""

    DEVICES = "2"

    def report_on_gpus(self, hosts, *arguments, **how):
        return self.report_with(hosts, ["--sizes", "64KiB", *arguments], **{"LD_LIBRARY_PATH": str(DRIVER), "P5BENCH_STANDIN_SCALE": "0", **how})


class GpuMemory(OnGpus):
    def test_data_lies_in_gpu_memory_and_each_path_is_measured(self):
        report = self.report_on_gpus(2)
        self.assertEqual(report["context"]["libfabric.memory"], "GPU memory")
        for m in self.of_nics(report):
            self.assertEqual((m["outcome"], m["wrong_elements"], m["selection"]["memory"]), ("measured", 0, "GPU memory"))
            self.assertRegex(m["verdict"]["because"], "data in GPU memory, moved by device write")
        pci = [f"0000:{0x53 + 0x11 * gpu:02x}:00.0" for gpu in range(8)]
        nics = [domain["nic"] for domain in self.domains]
        self.assertEqual(sorted((row["host"], row["nic"], row["gpu"], row["beside"]) for row in report["gdr"]),
                         sorted((host, nics[nic], pci[(4 * nic + far) % 8], far == 0) for host in ("h1", "h2") for nic in range(2) for far in (0, 4)))
        self.assertRegex(self.printed(), r"NICs reading GPU memory, each path alone \(never tried on EFA\): beside [0-9.]+ to")


class Split(OnEfa):
    def test_messages_are_split_in_parts_that_devices_read(self):
        self.report_with(2, ["--sizes", "2MiB"], P5BENCH_STANDIN_SCALE="0")
        first, last = (self.counted("h1", nic, "rdma_read_bytes") for nic in ("rdmap79s0", "rdmap82s0"))
        self.assertGreater(first, last)  # a message of 2 MiB is too small for four NICs; single NICs move the rest
        self.assertLess(self.counted("h1", "rdmap79s0", "recv_bytes"), 1 << 20)  # what tries whether hosts reach each other

    def test_pairs_within_a_node_are_left_out(self):
        report = self.report_with(2, ["--sizes", "1MiB"], ranks=2, P5BENCH_STANDIN_SCALE="0")
        self.assertEqual({m["case"]["pair"] for m in report["measurements"]}, {"other_node"})
        self.assertRegex(" ".join(report["run"]["remarks"]), "pairs within a node left out: .* no loopback")


class GpuMemoryMore(OnGpus):
    def test_where_one_host_has_none_all_have_host_memory_and_it_is_said(self):
        report = self.report_on_gpus(2, P5BENCH_STANDIN_GPU="copies:h2")
        self.assertRegex(report["context"]["libfabric.memory"], r"^host memory; no GPU memory \(rank 1 on h2: fi_setopt of FI_OPT_CUDA_API_PERMITTED=false, no peer-to-peer from rdmap79s0")
        self.assertEqual({m["selection"]["memory"] for m in self.of_nics(report)}, {"host memory"})
        self.assertNotIn("gdr", report)

    def test_where_nobody_asks_for_it_gpu_memory_is_left_alone(self):
        report = self.report_on_gpus(2, "--memory", "host")
        self.assertEqual(report["context"]["libfabric.memory"], "host memory")
        self.assertEqual({m["selection"]["memory"] for m in self.of_nics(report)}, {"host memory"})

    def test_a_slow_path_between_a_gpu_and_a_nic_is_told(self):
        # A message takes 70 ms: what else goes on here is little beside it.
        report = self.report_on_gpus(2, "--sizes", "256KiB", P5BENCH_STANDIN_SCALE="0.0003", P5BENCH_MOST_SAMPLES="6",
                                     P5BENCH_STANDIN_FAULT="path:h2:rdmap80s0@0:0.25")
        slow = [(row["host"], row["nic"], row["gpu"]) for row in report["gdr"] if row["slow"]]
        self.assertEqual(slow, [("h2", "rdmap80s0", "0000:53:00.0")], report["gdr"])
        finding, = [each for each in report["findings"] if each["id"] == "gdr.slow_path"]
        self.assertEqual((finding["subject"]["host"], finding["subject"]["nic"]), ("h2", "rdmap80s0"))
        self.assertRegex(finding["evidence"], "reads the memory of the GPU 0000:53:00.0 at .*no slower from another GPU")


class SlowStart(OnEfa):
    def test_cuda_is_not_started_and_who_does_not_answer_offers_something_unknown(self):
        # Longer than the probe and the worker may take.
        report = self.report_with(2, ["--sizes", "8"], P5BENCH_STANDIN_START="1000", P5BENCH_PROBE_LIMIT="60s", P5BENCH_JOIN_LIMIT="60s")
        for host in report["topology"]["hosts"]:
            self.assertTrue(host["libfabric"]["answered"], host["libfabric"])
        self.doCleanups()
        report = self.report_with(2, ["--sizes", "8"], P5BENCH_PROBE_LIMIT="1ms")
        self.assertEqual([host["libfabric"]["answered"] for host in report["topology"]["hosts"]], [False, False])
        self.assertNotIn("efa.provider", self.findings(report))


class Faults(OnEfa):
    # 25 MB/s a NIC, so that what else goes on here is little beside it.
    SCALE = "0.002"

    def suspects(self, report):
        return sorted((each["kind"], each["host"], each["device"]) for each in report["suspects"])

    def test_a_slow_nic_is_named_as_the_kernel_names_it(self):
        report = self.report_with(4, ["--sizes", "1MiB"], (10,), P5BENCH_STANDIN_FAULT="slow:h2:rdmap81s0:0.5")
        self.assertEqual(self.suspects(report), [("nic", "h2", "rdmap81s0")], [each["evidence"] for each in report["suspects"]])
        # Single NICs come before pairs, which take long, and the suspect is told then.
        journal, = self.hosts.files("h1").glob("out/*/2*/measurements.jsonl")
        of_nics = [json.loads(line)["case"].get("nic") is not None for line in journal.read_text().splitlines()]
        self.assertEqual(of_nics, sorted(of_nics, reverse=True))
        self.assertRegex(self.log.read_text(errors="replace"), r"(?s)so far:\s+nic\s+n1r2\s.*REJECT")

    def test_a_part_of_a_host_with_busy_cores_is_measured_again_before_it_is_replaced(self):
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
        try:
            report = self.report_with(4, ["--sizes", "1MiB"], (10,), P5BENCH_STANDIN_FAULT="slow:h2:rdmap81s0:0.5")
        finally:
            for each in others:
                each.kill()
                each.wait()
        self.assertIn("host.cores_busy", self.findings(report))
        suspect, = [each for each in report["suspects"] if each["device"] == "rdmap81s0"]
        self.assertRegex(suspect["action"], r"^first free the cores of its host, .* if it stays slow: replace the instance")

    def test_a_slow_nic_of_two_hosts_with_a_rank_each_is_told_by_other_nics(self):
        # The pair of NICs is one observation; with NICs of other numbers each of the two has partners of its own.
        report = self.report_with(2, ["--sizes", "1MiB"], (10,), P5BENCH_STANDIN_FAULT="slow:h2:rdmap81s0:0.5")
        self.assertEqual(self.suspects(report), [("nic", "h2", "rdmap81s0")], [report["decision"], report["open_questions"]])

    @unittest.skipUnless(NIGHTLY, "nightly: takes 40 s")
    def test_nobody_is_named_where_all_are_alike(self):
        report = self.report_with(4, ["--sizes", "1MiB"], (0,))
        self.assertEqual(self.suspects(report), [])

    @unittest.skipUnless(NIGHTLY, "nightly: takes 40 s")
    def test_a_lying_nic_is_named(self):
        report = self.report_with(4, ["--sizes", "1MiB"], (11,), P5BENCH_STANDIN_SCALE="0.01", P5BENCH_STANDIN_FAULT="lies:h3:rdmap80s0")
        self.assertEqual(self.suspects(report), [("nic", "h3", "rdmap80s0")], [each["evidence"] for each in report["suspects"]])

    @unittest.skipUnless(NIGHTLY, "nightly: takes 40 s")
    def test_a_nic_that_falls_silent_later_is_named(self):
        # A silent round takes 5 s.
        run = self.start_with(3, [*self.ARGUMENTS[:-1], "5s", "--sizes", "1MiB"], P5BENCH_REACH_LIMIT="off", P5BENCH_STANDIN_FAULT="silent:h2:rdmap82s0")
        self.assertIn(self.wait_for_end(run), (10, 12), self.printed())
        report = self.report()
        self.assertEqual(self.suspects(report), [("nic", "h2", "rdmap82s0")], report["decision"])
        # One of the two ranks that use it reports it, and not one that waits for them.
        self.assertTrue(any(re.search(r"messages under way: \d+ through rdmap82s0 \(h", m["because"])
                            for m in report["measurements"] if m["case"].get("nic") == 3), report["measurements"])


if __name__ == "__main__":
    missing = what_is_missing() or (None if HAVE_OFI and STANDIN.exists() else "libfabric's headers to be built")
    if missing:
        print(f"left out: needs {missing}")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main(verbosity=2)
