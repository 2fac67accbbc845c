"""Each fault many times over, on SIMULATED EFA devices of each instance type (efa_test.py), with data in the memory of
SIMULATED GPUs: nobody is accused where all is well, and whoever is at fault is named each time. Nightly.

    P5BENCH_EFA_RUNS=50                     how often (2)
    P5BENCH_EFA_MACHINES=p5.48xlarge,...    of which types (all five)
    P5BENCH_EFA_FAULTS=healthy,slow,...     which (all four)

Prints a line for each type and fault, as bench/RESULTS.md has them."""

import os
import signal
import statistics
import sys
import unittest

import efa_test
from efa_test import DRIVER, HAVE_OFI, STANDIN, OnEfa
from hosts import what_is_missing

RUNS = int(os.environ.get("P5BENCH_EFA_RUNS", "2"))
NIGHTLY_OR_ASKED = efa_test.NIGHTLY or "P5BENCH_EFA_RUNS" in os.environ
# GB/s of a NIC, by type.
MACHINES = {"p4d.24xlarge": 12.5, "p5.48xlarge": 12.5, "p5en.48xlarge": 25, "p6-b200.48xlarge": 50, "p6-b300.48xlarge": 50}
FAULTS = ("healthy", "slow", "silent", "lies")
NIC_MB_PER_S = 25  # simulated: what else this machine does is little beside it
ALONE, TOGETHER = 0.03, 0.05


def asked(name, everything):
    return os.environ[name].split(",") if name in os.environ else list(everything)


@unittest.skipUnless(NIGHTLY_OR_ASKED, "nightly, or with P5BENCH_EFA_RUNS")
class Repeats(OnEfa):
    def run_once(self, machine, fault):
        """The parts that were named, and how far NICs were from the rate that the stand-in gives, alone."""
        self.MACHINE, self.DEVICES = machine, "4"
        self.SCALE = str(NIC_MB_PER_S / 1000 / MACHINES[machine])
        variables = {"LD_LIBRARY_PATH": str(DRIVER)}
        arguments = [*self.ARGUMENTS, "--sizes", "1MiB"]
        if fault != "healthy":
            nic = self.nics_of(machine)[2]
            variables["P5BENCH_STANDIN_FAULT"] = f"{fault}:h2:{nic}" + (":0.5" if fault == "slow" else "")
        if fault == "silent":
            arguments[arguments.index("--timeout") + 1] = "5s"
        try:
            self.wait_for_end(self.start_with(3, arguments, **variables))
            report = self.report()
            named = sorted((each["kind"], each["host"], each["device"]) for each in report["suspects"])
            silent = [m["because"] for m in report["measurements"] if m["outcome"] == "failed"]
            rates = [m["throughput"]["algbw_gb_per_s"] * 1000 / NIC_MB_PER_S for m in self.of_nics(report) if m["outcome"] == "measured"]
            return named, silent, rates
        finally:
            self.doCleanups()

    def nics_of(self, machine):
        told = efa_test.probe({"P5BENCH_STANDIN_FABRIC": "/tmp", "P5BENCH_STANDIN_MACHINE": machine, "P5BENCH_STANDIN_DEVICES": "4", **efa_test.WITH_RDMA})
        return [domain["nic"] for domain in told["domains"]]

    def is_right(self, fault, nic, named, silent):
        if fault == "healthy":
            return not named and not silent
        if fault == "silent" and not named:
            return any(nic in because for because in silent)
        return named == [("nic", "h2", nic)]

    def test_faults_are_named_and_nothing_else(self):
        for machine in asked("P5BENCH_EFA_MACHINES", MACHINES):
            for fault in asked("P5BENCH_EFA_FAULTS", FAULTS):
                with self.subTest(machine=machine, fault=fault):
                    nic = self.nics_of(machine)[2]
                    right, all_rates, others = 0, [], []
                    for _ in range(RUNS):
                        named, silent, rates = self.run_once(machine, fault)
                        right += self.is_right(fault, nic, named, silent)
                        all_rates += rates
                        if not self.is_right(fault, nic, named, silent):
                            others.append((named, silent))
                    worst = min(all_rates, default=0)
                    print(f"| {machine} | {fault} | {right} of {RUNS} | {worst:.3f} | {statistics.median(all_rates or [0]):.3f} |", flush=True)
                    self.assertEqual(right, RUNS, others)
                    if fault == "healthy":
                        self.assertGreater(worst, 1 - ALONE)


if __name__ == "__main__":
    missing = what_is_missing() or (None if HAVE_OFI and STANDIN.exists() else "libfabric's headers to be built")
    if missing:
        print(f"left out: needs {missing}")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main(verbosity=2)
