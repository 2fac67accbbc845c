"""Complete runs on four SIMULATED p5.48xlarge, healthy ones and ones with faults: hosts that are namespaces, the files of
a recorded machine (morning.py), a stand-in for libfabric's EFA provider (standin/), fakes of CUDA, NVML and NCCL, which
logs what aws-ofi-nccl would. 32 ranks (8 where pairs are measured, and at most 8 by day) and one size: what is asked is
what p5bench names, with which remedy and exit code. P5BENCH_MORNINGS names a file for the rows of the table in
topo/FAILURES.md."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "hosts"))
sys.path.insert(0, str(HERE))

import morning  # noqa: E402
from hosts import ENTER, what_is_missing  # noqa: E402
from hosts_test import BUILD, FAKES, HAVE_GPUS, HAVE_OFI, PATIENCE_S, PROGRAM, OnHosts  # noqa: E402

NIGHTLY = bool(os.environ.get("P5BENCH_NIGHTLY"))
STANDIN = pathlib.Path(os.environ.get("P5BENCH_STANDIN", BUILD / "tests" / "standin"))
TREE, LOG, PROVIDERS = "/tmp/machine", "/tmp/plugin.log", "/tmp/providers"
BUSES = ",".join(gpu["pci"]["address"].split(":")[1] for gpu in morning.recorded_host()["gpu_devices"])
# One host may be in another zone than the others.
START = '[ "$(hostname)" != "$MORNING_ELSEWHERE" ] || export P5BENCH_STANDIN_ZONE=1; exec "$@"'
CASES = ("run", "--collectives", "all_reduce", "--sizes", "64KiB", "--budget", "30s", "--timeout", "120s", "--tuning", "off")
# Single NICs are measured where pairs are.
PAIRS = ("--collectives", "p2p", "--sizes", "1MiB", "--budget", "300s", "--timeout", "120s", "--tuning", "off")
# A message of 1 MiB takes 20 ms, so that other load on this machine hardly matters.
RATES = {"P5BENCH_STANDIN_SCALE": "0.004"}
# Copies on the fakes are as fast as the processors that other tests leave them.
CANNOT_TELL = r"^CANNOT TELL: (a GPU is slow alone[^;]*; )?(some samples are slow|less than 32 MiB per rank: too little to judge bandwidth by|no figures of a healthy)"


class OnMachines(OnHosts):
    def make_machines(self, hosts=4, version="1.17", edit=lambda host: None, where=(), log=None, plugin=True, provider=True):
        """where: the hosts (all if empty) that `edit` changes, whose plugin says `log`, and which have a plugin and libfabric's
        provider only if told so."""
        self.make(hosts, own_kernels=True, bridge="")
        environment = {**os.environ, "P5BENCH_HOSTS": " ".join(f"{name}={keeper.pid}" for name, keeper in self.hosts.keepers.items())}
        servers = []
        for number, name in enumerate(self.hosts.names):
            host, files, here = morning.recorded_host(), self.hosts.files(name), not where or name in where
            if here:
                edit(host)
            morning.make_tree(files / "machine", host, f"i-{number:017x}", plugin or not here)
            lines = log if here and log is not None else morning.plugin_log(version)
            (files / "plugin.log").write_text("".join(line + "\n" for line in lines))
            (files / "providers").mkdir()
            if provider or not here:
                (files / "providers/libefa-fi.so").symlink_to(STANDIN / "libefa-fi.so")
            subprocess.run([ENTER, name, f"{HERE}/morning_host {TREE}"], env=environment, check=True, stdin=subprocess.DEVNULL)
            server = subprocess.Popen([ENTER, name, f"exec {sys.executable} {HERE}/morning.py {TREE}/placement.json"], env=environment,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
            self.addCleanup(self.end, server)
            servers.append(server)
        for server in servers:
            self.assertEqual(server.stdout.readline(), b"ready\n")

    def end(self, server):
        server.kill()
        server.wait()
        server.stdout.close()

    def start_morning(self, variables, arguments, ranks):
        variables = {"LD_LIBRARY_PATH": f"{FAKES}:{FAKES / 'nvml'}", "P5BENCH_FAKE_FABRIC": "/tmp/fabric", "P5BENCH_FAKE_BUSES": BUSES,
                     "P5BENCH_FAKE_GPUS": "8", "P5BENCH_FAKE_MEMORY": str(8 << 20), "P5BENCH_MOST_SAMPLES": "6", "P5BENCH_FAKE_PLUGIN_LOG": LOG,
                     "P5BENCH_FAKE_NVML": f"driver:version={morning.recorded_host()['versions']['nvidia driver']}",
                     "P5BENCH_STANDIN_FABRIC": "/tmp/fabric", "P5BENCH_STANDIN_API": "1.17", "P5BENCH_STANDIN_SCALE": "0",
                     "FI_PROVIDER_PATH": PROVIDERS, "LD_PRELOAD": str(BUILD / "tests/locked_memory.so"), **variables}
        given = [word for name, value in variables.items() for word in ("-x", f"{name}={value}")]
        self.began = time.monotonic()
        program = ["bash", "-c", START, "bash", str(PROGRAM), *arguments, "--out", "/tmp/out"]
        return self.hosts.start_mpirun(ranks, program, self.log, given)

    def seconds_until_told(self, run, wanted):
        """Until the report had the finding or suspect of this name, or until the end."""
        while run.poll() is None and time.monotonic() < self.began + PATIENCE_S and not self.has(wanted):
            time.sleep(0.5)
        return round(time.monotonic() - self.began)

    def has(self, wanted):
        try:
            report = json.loads(self.file("report.json").read_text())
        except (AttributeError, OSError, ValueError):
            return False
        return wanted in [each["id"] for each in report["findings"]] + [each["kind"] for each in report["suspects"]]

    def morning(self, what, wanted, code, variables=(), arguments=CASES, ranks=8, **machines):
        """The findings (id, host) that are errors, and the suspects, of a run that has to end with this code."""
        self.make_machines(**machines)
        run = self.start_morning(dict(variables), arguments, ranks)
        seconds = self.seconds_until_told(run, wanted)
        self.assertEqual(self.wait_for_end(run), code, self.log.read_text(errors="replace"))
        self.verdict = ([line for line in self.log.read_text(errors="replace").splitlines()
                         if line.startswith(("ACCEPT", "REJECT", "CANNOT TELL", "p5bench: "))] or [""])[-1]
        action = ""
        named = []
        if self.file("report.json"):
            report = self.report()
            named = [(each["id"], each["subject"]["host"]) for each in report["findings"] if each["severity"] == "error" or each["id"] == wanted]
            named += [(each["kind"], f"{each['host']} {each['device']}") for each in report["suspects"]]
            action = "".join([each["action"] for each in report["findings"] if each["id"] == wanted][:1])
        if kept := os.environ.get("P5BENCH_MORNINGS"):
            with open(kept, "a") as file:
                file.write(f"| {what} | `{wanted}` | {self.verdict} | {action} | {code} | {seconds} |  {sorted(set(named))}\n")
        return sorted(set(named))


class Healthy(OnMachines):
    def test_nothing_is_named_on_four_healthy_machines(self):
        for version in morning.LOGS if NIGHTLY else ["1.17"]:
            with self.subTest(version=version):
                self.assertEqual(self.morning(f"healthy, aws-ofi-nccl {version}", "none", 14, version=version, ranks=8 if NIGHTLY else 2), [])
                self.assertRegex(self.verdict, CANNOT_TELL)
                self.doCleanups()


def drop_nic(host):
    host["nics"] = [nic for nic in host["nics"] if nic["name"] != "rdmap116s0"]


def drop_nics(host):
    host["nics"] = [nic for nic in host["nics"] if nic["kind"] != "efa"]


def set_old_efa_driver(host):
    host["versions"]["efa driver"] = "2.1.1g"


def close_devices(host):
    for nic in host["nics"]:
        nic["verbs_usable"] = False


def take_huge_pages(host):
    host["limits"] |= {"huge_pages": 0, "huge_pages_free": 0}


def move_zone(host):
    host["placement"]["availability zone"] = "us-east-1b"


def all_take(microseconds):
    """Makes all operations of the fake NCCL take longer, so that other load on this machine hardly matters."""
    return ",".join(f"slow:host={host}:us={microseconds}" for host in ("h1", "h2", "h3", "h4"))


def host_errors(*hosts):
    return ",".join(f"join-error:host={host}" for host in hosts or ("h1", "h2", "h3", "h4"))


class Fabric(OnMachines):
    def test_a_security_group_without_a_rule_to_itself(self):
        few = {} if NIGHTLY else {"hosts": 3, "ranks": 2}
        named = self.morning("security group without a rule to itself", "fabric.silent", 10, **few,
                             variables={"P5BENCH_STANDIN_FAULT": "silent:*:*", "P5BENCH_STANDIN_SILENCE": "1"})
        self.assertEqual(named, [("fabric.silent", "")])

    @unittest.skipUnless(NIGHTLY, "nightly")
    def test_one_silent_nic_of_32(self):
        named = self.morning("one NIC of 32 that is silent", "fabric.nic", 10, variables={"P5BENCH_STANDIN_FAULT": "silent:h3:rdmap116s0"})
        self.assertEqual(named, [("fabric.nic", "h3")])
        self.assertIn("rdmap116s0 of h3", self.verdict)

    @unittest.skipUnless(NIGHTLY, "nightly")
    def test_one_slow_nic_of_32(self):
        named = self.morning("one NIC of 32 that is slow", "nic", 10, arguments=PAIRS, ranks=2,
                             variables={"P5BENCH_STANDIN_FAULT": "slow:h3:rdmap116s0:0.5", **RATES, "P5BENCH_FAKE": all_take("10000")})
        self.assertEqual(named, [("nic", "h3 rdmap116s0")])
        self.assertRegex(self.verdict, r"^REJECT h3: nic n2r\d+ is slow(; a GPU is slow alone on [^;]*)?$")
        # The stand-in's slow NIC sends slowly and receives at the full rate.
        self.assertIn("% of the others' rate when it sends, over", self.report()["suspects"][0]["evidence"])

    @unittest.skipUnless(NIGHTLY, "nightly")
    def test_a_host_in_another_zone(self):
        named = self.morning("one host in another zone", "host.placement", 10, variables={"MORNING_ELSEWHERE": "h3"},
                             where=("h3",), edit=move_zone)
        self.assertEqual(named, [("host.placement", "h3")])


@unittest.skipUnless(NIGHTLY, "nightly")
class Drivers(OnMachines):
    def test_an_old_efa_driver(self):
        named = self.morning("an old EFA driver on one host", "version.old", 14, where=("h2",), edit=set_old_efa_driver)
        self.assertEqual(named, [("version.mixed", "h2"), ("version.old", "h2")])

    def test_an_nvidia_driver_too_old_for_the_package(self):
        named = self.morning("an NVIDIA driver before 580, and a package built with CUDA 13", "none", 13,
                             variables={"P5BENCH_FAKE_DRIVER": "11080", "P5BENCH_FAKE_NVML": "driver:version=470.256.02"})
        self.assertEqual(named, [])
        self.assertRegex(self.verdict, r"the NVIDIA driver here is for CUDA 11\.8: install NVIDIA driver \d+ or later")

    def test_a_driver_that_does_not_work(self):
        self.morning("an NVIDIA driver that is not loaded", "none", 13, variables={"P5BENCH_FAKE_DRIVER": "0", "P5BENCH_FAKE_NVML": "init:error=9"})
        self.assertRegex(self.verdict, "no NVIDIA driver works here .*--backend mpi measures host memory without it")


@unittest.skipUnless(NIGHTLY, "nightly")
class Devices(OnMachines):
    def test_one_of_32_nics_missing(self):
        named = self.morning("31 of 32 NICs on one host", "nic.count", 10, where=("h2",), edit=drop_nic,
                             log=[line.replace("32 nics", "31 nics") for line in morning.plugin_log("1.17")])
        self.assertEqual(named, [("nccl.nic_count", "h2"), ("nic.count", "h2")])

    def test_no_nic_on_a_host(self):
        absent = {"P5BENCH_STANDIN_FAULT": "absent:h3:*"}
        named = self.morning("no NIC on one host", "nic.count", 10, where=("h3",), edit=drop_nics, variables=absent)
        self.assertEqual(named, [("nic.count", "h3")])
        self.doCleanups()
        self.morning("no NIC on one host, `--backend ofi`", "none", 13, where=("h3",), edit=drop_nics, arguments=("--backend", "ofi", *PAIRS), variables=absent)
        self.assertRegex(self.verdict, "no EFA device on h3, though 3 of 4 hosts have some: run without the former")

    def test_a_container_without_devices(self):
        named = self.morning("a container without devices on one host", "nic.unusable", 14, where=("h2",), edit=close_devices, provider=False,
                             log=["WARN NET/OFI OFI fi_getinfo() call failed: No data available", "WARN NET/OFI aws-ofi-nccl initialization failed",
                                  "Using network Socket"])
        self.assertIn(("nic.unusable", "h2"), named)
        self.assertIn(("efa.provider", "h2"), named)
        self.assertEqual({host for _, host in named}, {"h2"})

    def test_the_plugin_missing(self):
        named = self.morning("no plugin on one host", "efa.plugin", 14, where=("h3",), plugin=False, log=["NET/Plugin: Could not find: libnccl-net.so.", "Using network Socket"])
        self.assertEqual(named, [("efa.plugin", "h3"), ("nccl.sockets", "h3")])

    def test_tcp_on_all_hosts(self):
        named = self.morning("libfabric without EFA on all hosts: TCP", "efa.provider", 14, provider=False,
                             log=["NET/OFI Initializing aws-ofi-nccl 1.17.2", "NET/OFI Selected provider is tcp, fabric is 10.55.0.0/24 (found 1 nics)"])
        self.assertLessEqual({("efa.provider", host) for host in self.hosts.names}, set(named))
        self.assertIn("nccl.provider_tcp", [each for each, _ in named])


@unittest.skipUnless(NIGHTLY, "nightly")
class Settings(OnMachines):
    def test_a_static_topology_file(self):
        named = self.morning("aws-ofi-nccl 1.9 and its static topology file, fewer than all GPUs", "nccl.numa_hidden", 13, version="1.9",
                             log=[*morning.plugin_log("1.9"), "WARN graph/xml.h:85 NCCL WARN Attribute arch of node cpu not found"],
                             variables={"P5BENCH_FAKE": host_errors()})
        self.assertIn("nccl.numa_hidden", [each for each, _ in named])

    def test_no_huge_pages(self):
        named = self.morning("no huge pages on one host", "host.huge_pages", 14, where=("h2",), edit=take_huge_pages)
        self.assertEqual(named, [("host.huge_pages", "h2")])

    def test_little_memory_that_may_be_locked(self):
        named = self.morning("memory that may be locked at the kernel's default", "host.memlock", 14, variables={"P5BENCH_LOCKED_HOST": "h4"})
        self.assertEqual(named, [("host.memlock", "h4")])


if __name__ == "__main__":
    missing = what_is_missing() or (None if HAVE_GPUS and HAVE_OFI and STANDIN.exists() else "libfabric's, CUDA's and NCCL's headers to be built")
    if missing:
        print(f"left out: needs {missing}")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main(verbosity=2)
