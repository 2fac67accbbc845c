"""NVLink domains of several hosts (UltraServers), simulated: pairs by kind, limits, and faults named at their level."""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, main, read_report  # noqa: E402

NIGHTLY = bool(os.environ.get("P5BENCH_NIGHTLY"))
PLATFORM = "p6e-gb200.36xlarge"
SIM = ["--backend", "sim", "--platform", PLATFORM, "--sizes", "8,1GiB", "--quiet", "--tuning", "off"]
HEALTHY = (0, 14)  # no figures of healthy UltraServers are known for all that is measured
# Nodes, a fault, and what has to be named: a suspect, or a finding and its host.
FAULTS = [
    (18, "gpu:n3g2:0.8", ("gpu", "n3g2")),
    (18, "node:n5:0.8", ("node", "n5")),
    (36, "domain:d1:0.8", ("domain", "d1")),
    (36, "nic:n20r5:0.5", ("nic", "n20r5")),
    (18, "domain:d0:0.944:plane", ("domain.plane", "")),
    (18, "node:n4:1:clique", ("domain.clique", "n4")),
    (2, "node:n1:1:clique", ("domain.clique", "")),
]


class Simulated(Folder):
    def report_of(self, nodes, *faults, codes=HEALTHY, seed=1):
        options = [word for fault in faults for word in ("--fault", fault)]
        name = "-".join([str(nodes), str(seed), *faults]).replace(":", "_")
        done = self.run_it(*SIM, "--nodes", str(nodes), "--seed", str(seed), *options, "--out", name)
        self.assertIn(done.returncode, codes, done.stdout + done.stderr)
        return read_report(self.folder / name / "latest" / "report.json")

    def accused(self, report):
        """Suspects, and errors of hardware or fabric with their hosts."""
        errors = {(each["id"], each["subject"]["host"]) for each in report["findings"]
                  if each["severity"] == "error" and each["about"] in ("hardware", "fabric")}
        return sorted({(each["kind"], each["name"]) for each in report["suspects"]} | errors)

    def kinds(self, report):
        return {m["case"]["pair"] for m in report["measurements"] if m["case"]["collective"] == "p2p"}


class UltraServers(Simulated):
    def test_one_domain_is_bound_by_nvlinks_alone(self):
        report = self.report_of(18)
        self.assertEqual(self.accused(report), [])
        self.assertEqual(self.kinds(report) - {"other_node"}, {"same_node", "same_domain"})
        for m in report["measurements"]:
            if m["case"]["bytes"] == 1 << 30 and m["case"].get("nic") is None:
                self.assertEqual((m["case"]["domains"], m["case"]["nodes_per_domain"]), (1, m["case"]["nodes"]))
                self.assertEqual(m["verdict"]["binding"], "nvlink", m)

    def test_between_domains_are_nics(self):
        report = self.report_of(20)
        self.assertEqual(self.accused(report), [])
        self.assertEqual(self.kinds(report) - {"other_node"}, {"same_node", "same_domain", "other_domain"})
        world = [m["case"] for m in report["measurements"] if m["case"]["group"] == "world" and m["case"]["collective"] == "all_gather"]
        self.assertEqual({(case["domains"], case["nodes_per_domain"]) for case in world}, {(2, 2)})
        self.assertIn(("all_reduce", "domain", 1), {(m["case"]["collective"], m["case"]["group"], m["case"].get("domains"))
                                                    for m in report["measurements"]})

    def test_gpus_without_a_partner_in_another_domain_are_not_compared_with_those_that_have_one(self):
        """Messages over NICs take from the rate of matrix products: of 19 nodes those of the first and the last have any."""
        for nodes in (19, 24) if NIGHTLY else (19,):
            with self.subTest(nodes):
                report = self.report_of(nodes)
                self.assertEqual([(each["id"], each["evidence"]) for each in report["findings"]], [])
                self.assertNotIn("slow", report["decision"]["sentence"])

    def test_faults_are_named_at_their_level(self):
        # By day simulator_test.py has NICs.
        for nodes, fault, name in FAULTS if NIGHTLY else [each for each in FAULTS if not each[1].startswith("nic")]:
            with self.subTest(fault=fault):
                report = self.report_of(nodes, fault, codes=(10,))
                self.assertEqual(self.accused(report), [name], [each["evidence"] for each in report["suspects"]])

    def test_a_comparison_tells_what_the_domain_is_worth(self):
        done = self.run_it("ab", *SIM[:-2], "--nodes", "4", "--collectives", "all_reduce", "--a", "NCCL_MNNVL_ENABLE=0",
                           "--b", "NCCL_MNNVL_ENABLE=1", "--out", "worth")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        report = read_report(self.folder / "worth" / "latest" / "report.json")
        of_arm = {m["case"]["arm"]: m for m in report["measurements"] if m["case"]["bytes"] == 1 << 30}
        self.assertEqual({arm: m["case"]["domains"] for arm, m in of_arm.items()}, {"a": 4, "b": 1})
        self.assertGreater(of_arm["b"]["throughput"]["busbw_gb_per_s"], 2 * of_arm["a"]["throughput"]["busbw_gb_per_s"])

    def test_a_domain_is_no_part_of_plain_nodes(self):
        for fault in ("domain:d0:0.5", "node:n0:1:clique"):
            done = self.run_it("--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "2", "--fault", fault)
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, "NVLink domain")

    def test_a_link_between_nodes_of_a_domain_is_refused(self):
        done = self.run_it(*SIM, "--nodes", "18", "--fault", "link:n1-n2:0.5")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "switches: domain:dN")


class Rates(Simulated):
    @unittest.skipUnless(NIGHTLY, "weekly: 1,000 healthy runs, and 100 of each fault; a twentieth of them nightly")
    def test_nobody_healthy_is_accused_and_faults_are_named(self):
        share = 1 if os.environ.get("P5BENCH_WEEKLY") else 20
        wrong = {}
        for nodes, runs in ((18, 900), (36, 80), (144, 20)):
            seeds = range(1, runs // share + 1)
            wrong[f"{nodes} healthy of {len(seeds)}"] = [seed for seed in seeds if self.accused(self.report_of(nodes, seed=seed, codes=(0, 10, 14)))]
        for nodes, fault, name in [*FAULTS, (144, "domain:d5:0.8", ("domain", "d5"))]:
            seeds = range(1, max(1, (100 if nodes < 100 else 10) // share) + 1)
            wrong[f"{nodes} {fault} of {len(seeds)}"] = [seed for seed in seeds
                                                         if self.accused(self.report_of(nodes, fault, seed=seed, codes=(0, 10, 14))) != [name]]
        print(json.dumps(wrong))
        for what, seeds in wrong.items():
            self.assertLessEqual(len(seeds), 0 if "healthy" in what or share > 1 else 1, (what, seeds))


if __name__ == "__main__":
    main()
