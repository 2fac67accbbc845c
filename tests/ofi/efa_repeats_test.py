"""Each fault many times over, on SIMULATED EFA devices of each instance type (efa_test.py), with data in host
memory, which feeds four NICs of each type: nobody is accused where all is well, and whoever is at fault is named each
time. Nightly.

    P5BENCH_EFA_RUNS=50                     how often (1)
    P5BENCH_EFA_MACHINES=p5.48xlarge,...    of which types (all five)
    P5BENCH_EFA_FAULTS=healthy,slow,...     which (all four)
    P5BENCH_EFA_DEVICES=32                  how many NICs of a node (4)

Prints a line for each type and fault, as tests/RESULTS.md has them: how many runs named the right part and no other, and
how far the rates of single NICs and of all NICs of a node were from the rate that the stand-in gives, in percent."""

import os
import signal
import sys
import unittest

import efa_test
from efa_test import HAVE_OFI, STANDIN, OnEfa
from hosts import what_is_missing

RUNS = int(os.environ.get("P5BENCH_EFA_RUNS", "1"))
DEVICES = int(os.environ.get("P5BENCH_EFA_DEVICES", "4"))
NIGHTLY_OR_ASKED = efa_test.NIGHTLY or "P5BENCH_EFA_RUNS" in os.environ
# GB/s of a NIC, by type.
MACHINES = {"p4d.24xlarge": 12.5, "p5.48xlarge": 12.5, "p5en.48xlarge": 25, "p6-b200.48xlarge": 50, "p6-b300.48xlarge": 50}
FAULTS = ("healthy", "slow", "silent", "lies")
NIC_MB_PER_S = 25  # simulated: a message takes 42 ms, so that scheduling on this machine hardly matters
ALONE, TOGETHER = 0.03, 0.05


def asked(name, everything):
    return os.environ[name].split(",") if name in os.environ else list(everything)


def farthest(rates):
    """Of rates that should be 1, the one that is farthest from it; 1 if there are none."""
    return max(rates, key=lambda rate: abs(rate - 1), default=1)


@unittest.skipUnless(NIGHTLY_OR_ASKED, "nightly, or with P5BENCH_EFA_RUNS")
class Repeats(OnEfa):
    DEVICES = str(DEVICES)

    def run_once(self, machine, fault):
        """The parts that were named, and the rates of NICs alone and of all of a node as shares of what the stand-in gives."""
        self.MACHINE = machine
        self.SCALE = str(NIC_MB_PER_S / 1000 / MACHINES[machine])
        variables = {"P5BENCH_MOST_SAMPLES": "6"}
        # Each NIC has a part of a message of at least 1 MiB.
        arguments = [*self.ARGUMENTS, "--sizes", f"{len(self.nics_of(machine))}MiB"]
        if fault != "healthy":
            nic = self.nics_of(machine)[2]
            variables["P5BENCH_STANDIN_FAULT"] = f"{fault}:h2:{nic}" + (":0.5" if fault == "slow" else "")
        if fault == "silent":
            variables["P5BENCH_REACH_LIMIT"] = "5s"
        try:
            self.wait_for_end(self.start_with(3, arguments, **variables))
            report = self.report()
            named = [(each["kind"], each["host"], each["device"]) for each in report["suspects"]]
            named += [("nic", each["subject"]["host"], each["subject"]["nic"]) for each in report["findings"] if each["id"] == "fabric.nic"]
            measured = [m for m in report["measurements"] if m["outcome"] == "measured" and m["case"]["pattern"] == "one_way"]
            rates = {together: [m["throughput"]["algbw_gb_per_s"] * 1000 / NIC_MB_PER_S / (len(self.domains) if together else 1)
                                for m in measured if (m["case"].get("nic") is None) == together] for together in (False, True)}
            return named, rates[False], rates[True]
        finally:
            self.doCleanups()

    def nics_of(self, machine):
        told = efa_test.probe({"P5BENCH_STANDIN_FABRIC": "/tmp", "P5BENCH_STANDIN_MACHINE": machine, "P5BENCH_STANDIN_DEVICES": self.DEVICES, **efa_test.WITH_RDMA})
        return [domain["nic"] for domain in told["domains"]]

    def test_faults_are_named_and_nothing_else(self):
        for machine in asked("P5BENCH_EFA_MACHINES", MACHINES):
            for fault in asked("P5BENCH_EFA_FAULTS", FAULTS):
                with self.subTest(machine=machine, fault=fault):
                    wanted = [] if fault == "healthy" else [("nic", "h2", self.nics_of(machine)[2])]
                    right, all_alone, all_together, others = 0, [], [], []
                    for run in range(1, RUNS + 1):
                        named, alone, together = self.run_once(machine, fault)
                        right += named == wanted
                        all_alone += alone
                        all_together += together
                        if named != wanted:
                            others.append(named)
                        print(f"{machine}, {fault}, run {run}: {named or 'nobody'}; {right} right so far", flush=True)
                    errors = [f"{(farthest(rates) - 1) * 100:+.1f} %" if fault == "healthy" else "" for rates in (all_alone, all_together)]
                    print(f"| {machine} | {len(self.nics_of(machine))} | {fault} | {right} of {RUNS} | {errors[0]} | {errors[1]} |", flush=True)
                    self.assertEqual(right, RUNS, others)
                    if fault != "healthy":
                        continue
                    self.assertEqual((len(all_alone), len(all_together)), (RUNS * len(self.nics_of(machine)), RUNS))
                    self.assertLess(abs(farthest(all_alone) - 1), ALONE)
                    self.assertLess(abs(farthest(all_together) - 1), TOGETHER)


if __name__ == "__main__":
    missing = what_is_missing() or (None if HAVE_OFI and STANDIN.exists() else "libfabric's headers to be built")
    if missing:
        print(f"left out: needs {missing}")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    unittest.main(verbosity=2)
