"""A slow part of a real network is named, and no other: hosts with four interfaces each, all of the same rate but for
one or for those of one host. hosts.py describes the hosts."""

import os
import signal
import sys
import unittest

from hosts import what_is_missing
from hosts_test import HAVE_OFI, OnHosts

# Slow enough for other load of this machine to be negligible.
RATE, HALF = "100mbit", "50mbit"
NETWORKS = 4
TIMES = 3 if os.environ.get("P5BENCH_WEEKLY") else 1
# Samples end each measurement, and the budget none: how much of it is used depends on the machine.
OPTIONS = ["--collectives", "p2p", "--budget", "1200s", "--timeout", "60s"]
# MPI spreads a message over all interfaces, and other work of the hosts' processors shows in small ones.
SIZE_AND_SAMPLES = {"ofi": ("512KiB", "9"), "mpi": ("1MiB", "9")}


class SlowPartsOnHosts(OnHosts):
    def suspects(self, backend, slow):
        """The report of a run on four hosts of which these (host, network) have half the rate."""
        self.make(4, networks=NETWORKS, own_kernels=True)
        for host in self.hosts.names:
            for network in range(NETWORKS):
                self.hosts.shape(host, network, HALF if (host, network) in slow else RATE)
        size, samples = SIZE_AND_SAMPLES[backend]
        status = self.wait_for_end(self.start(1, ["--backend", backend, "--sizes", size, *OPTIONS], FI_PROVIDER="tcp",
                                              P5BENCH_MOST_SAMPLES=samples, P5BENCH_REACH_LIMIT="60s"))
        report = self.report()
        self.assertEqual(report["status"], "complete", self.printed())
        self.assertEqual({entry["outcome"] for entry in report["measurements"]}, {"measured"}, self.printed())
        self.assertEqual(status, 10 if report["suspects"] else 0, self.printed())
        return report

    def assert_named(self, backend, slow, *wanted):
        for _ in range(TIMES):
            report = self.suspects(backend, slow)
            named = sorted((each["kind"], each["host"], each["device"]) for each in report["suspects"])
            self.assertEqual(named, sorted(wanted), [each["evidence"] for each in report["suspects"]])
            self.doCleanups()
        return report


class SlowParts(SlowPartsOnHosts):
    @unittest.skipUnless(HAVE_OFI, "needs libfabric's headers to be built")
    def test_an_interface_is_named(self):
        report = self.assert_named("ofi", {("h2", 2)}, ("nic", "h2", "net2"))
        self.assertEqual(report["topology"]["nics_of_rank"], [["net0", "net1", "net2", "net3"]] * 4)
        self.assertEqual(report["suspects"][0]["name"], "n1r2")
        self.assertIn("when measured again", report["suspects"][0]["evidence"])
        self.assertEqual(sorted({entry["case"]["nic"] for entry in report["measurements"] if "nic" in entry["case"]}), [0, 1, 2, 3])

    @unittest.skipUnless(HAVE_OFI, "needs libfabric's headers to be built")
    def test_an_interface_and_a_host_are_both_named(self):
        self.assert_named("ofi", {("h1", 0), *(("h4", network) for network in range(NETWORKS))}, ("nic", "h1", "net0"), ("node", "h4", ""))

    @unittest.skipUnless(HAVE_OFI, "needs libfabric's headers to be built")
    def test_nobody_is_named_where_all_are_alike(self):
        self.assert_named("ofi", set())

    def test_a_host_is_named_over_mpi(self):
        self.assert_named("mpi", {("h3", network) for network in range(NETWORKS)}, ("node", "h3", ""))


if __name__ == "__main__":
    missing = what_is_missing()
    if missing:
        print(f"left out: needs {missing}")
        sys.exit(77)
    # A test that is ended from outside removes its hosts too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main()
