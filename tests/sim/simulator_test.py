"""Results of the program on a simulated machine with known properties: healthy, and with one fault of each kind."""

import csv
import json
import pathlib
import re
import resource
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, SANITIZED, main, read_report  # noqa: E402

SIM = ["--backend", "sim", "--platform", "p5.48xlarge", "--seed", "1", "--quiet"]
LARGE = ["--sizes", "8,4GiB"]
# Hypercube is added for powers of two.
GROUPS = "all_reduce,all_gather,reduce_scatter,broadcast,reduce,all_to_all,all_to_allv,gather,scatter,send_recv"


class Simulation(Folder):
    def simulate(self, *arguments, exits=None, name="out"):
        """The report of a run in a folder of its own. The default `exits` are those of a healthy machine, with or
        without bars."""
        done = self.run_it(*SIM, *arguments, "--out", name)
        if exits is None:
            self.assertIn(done.returncode, (0, 14), done.stderr + done.stdout)
        else:
            self.assertEqual(done.returncode, exits, done.stderr + done.stdout)
        report = read_report(self.folder / name / "latest" / "report.json")
        self.assertEqual((report["status"], report["exit_code"]), ("complete", done.returncode))
        self.assertEqual(done.stdout.splitlines()[0], report["decision"]["sentence"])
        return report

    def fault(self, *faults, exits, arguments=("--nodes", "3", *LARGE)):
        """The report with these faults."""
        options = [word for fault in faults for word in ("--fault", fault)]
        return self.simulate(*arguments, *options, exits=exits, name="-".join(faults).replace(":", "_"))


def busbw(measurement):
    return measurement["throughput"]["busbw_gb_per_s"]


def largest(report, collective, pattern=None):
    found = [m for m in report["measurements"]
             if (m["case"]["collective"], m["case"]["pattern"]) == (collective, pattern) and "nic" not in m["case"]]
    return max(found, key=lambda m: (m["case"]["bytes"], m["case"]["pair"] == "other_node", m["case"]["group"] == "world"))


def slow_pairs(report, healthy, pattern="one_way"):
    """Pairs of the largest size that take 5 % longer than in a healthy report."""
    times = {(a, b): us for a, b, us in largest(healthy, "p2p", pattern)["pairs"]}
    return {(a, b) for a, b, us in largest(report, "p2p", pattern)["pairs"] if us > 1.05 * times[a, b]}


def all_pairs_of(report):
    return {(a, b) for a, b, _ in largest(report, "p2p", "one_way")["pairs"]}


class Healthy(Simulation):
    def assert_reaches_its_limits(self, report, judged):
        for collective, pattern in (("p2p", "one_way"), ("all_reduce", None), ("all_gather", None)):
            top = largest(report, collective, pattern)
            self.assertEqual(top["verdict"]["grade"], "ok" if collective in judged else "unknown", top)
            self.assertGreaterEqual(top["verdict"]["fraction_of_limit"], 0.98, top)
            self.assertLessEqual(top["verdict"]["fraction_of_limit"], 1.02, top)
            limit = [each for each in report["limits"] if each["gb_per_s"] == top["verdict"]["limit_gb_per_s"]]
            self.assertTrue(limit, report["limits"])

    def test_bandwidth_converges_to_the_limit_within_a_node(self):
        self.assert_reaches_its_limits(self.simulate(*LARGE, exits=0), ("p2p", "all_reduce", "all_gather"))

    def test_bandwidth_converges_to_the_limit_between_nodes(self):
        self.assert_reaches_its_limits(self.simulate("--nodes", "4", *LARGE, exits=0), ("all_reduce", "all_gather"))

    def test_other_collectives_reach_what_binds_them(self):
        for nodes, bound in (("1", {}), ("3", {"all_to_all": "nic", "send_recv": "nic"})):
            report = self.simulate("--nodes", nodes, "--sizes", "32GiB", "--collectives", GROUPS, name=f"bound-{nodes}")
            for measurement in report["measurements"]:
                name, verdict = measurement["case"]["collective"], measurement["verdict"]
                with self.subTest(nodes=nodes, collective=name):
                    self.assertAlmostEqual(verdict["fraction_of_limit"], 1, delta=0.02)
                    shown = {"1": {*GROUPS.split(",")} - {"reduce", "all_to_allv", "gather", "scatter"},
                             "3": {"all_gather", "all_to_all"}}  # published for a healthy machine
                    self.assertEqual(verdict["grade"], "ok" if name in shown[nodes] else "unknown", verdict)
                    if name in bound:
                        self.assertEqual(verdict["binding"], bound[name])

    def test_every_matrix_is_described_and_tokens_have_the_latency_of_decode_and_the_bandwidth_of_prefill(self):
        arguments = ("--collectives", "dispatch,combine", "--nodes", "2")
        report = self.simulate(*arguments, "--platform", "p6-b200.48xlarge", name="both-points")
        self.assertEqual([(each["name"], each["collectives"]) for each in report["traffic"]],
                         [(f"expert:{tokens},256,8", [name]) for name in ("dispatch", "combine") for tokens in (128, 4096)])
        sent, back = report["traffic"][0]["matrix"], report["traffic"][2]["matrix"]
        self.assertEqual(back, [list(column) for column in zip(*sent)], "combine is dispatch the other way round")
        self.assertNotEqual(sent, report["traffic"][1]["matrix"])

        def told(name):
            return " ".join(self.run_it("report", f"{name}/latest", "--format", "console").stdout.split())

        text = told("both-points")
        for name, decode, prefill in (("dispatch", "145 us", "2.9 ms"), ("combine", "221 us", "5.19 ms")):
            self.assertRegex(text, rf"tokens, {name} of 7168 bfloat16: decode \(128 tokens\) latency \d+ us \(published: {decode}, pplx-garden [^)]*\)\); "
                                   rf"prefill \(4096 tokens\) [0-9.]+ GB/s in [0-9.]+ ms \(published: {prefill}")
        self.simulate(*arguments, name="elsewhere")
        self.assertIn("decode (128 tokens) latency", told("elsewhere"))
        self.assertNotIn("(published: ", told("elsewhere"), "of another machine")

    def test_tokens_reach_the_limit_of_their_matrix(self):
        report = self.simulate("--nodes", "2", "--collectives", "dispatch,combine", "--hidden", "1000000", "--traffic",
                               "expert:256,32,4", "--type", "bfloat16,float8_e5m2", name="tokens")
        verdicts = {(m["case"]["collective"], m["case"]["type"]): m["verdict"] for m in report["measurements"]}
        self.assertEqual(set(verdicts),
                         {("dispatch", "bfloat16"), ("dispatch", "float8_e5m2"), ("combine", "bfloat16")})
        self.assertTrue(any("combine expert:256,32,4 of float8_e5m2: " in each for each in report["run"]["remarks"]))
        for verdict in verdicts.values():
            self.assertAlmostEqual(verdict["fraction_of_limit"], 1, delta=0.03)
        # What one half receives the other one sends.
        there, back = (verdicts[name, "bfloat16"]["because"] for name in ("dispatch", "combine"))
        swapped = {"sending": "receiving", "receiving": "sending"}
        way = next(each for each in swapped if f", {each}, " in there)
        self.assertEqual(there.replace(f", {way}, ", f", {swapped[way]}, "), back)
        described = {(m["case"]["tokens"], m["case"]["hidden"], m["case"]["traffic"]) for m in report["measurements"]}
        self.assertEqual(described, {(256, 1000000, "expert:256,32,4")})

    def test_traffic_reaches_the_limit_of_its_busiest_part_which_is_named(self):
        wide = ["--nodes", "2", "--sizes", "32GiB", "--collectives", "all_to_allv,all_to_all"]
        limits = {}
        # All 16 ranks send to one, which is busy 8 times as long as the busiest sender: 8 of them come over its NICs.
        for traffic, imbalance, loss in (("uniform", 1, 0), ("k-hot:1", 16, 7 / 8), ("zipf:1.5", None, None),
                                         ("expert:256,32,4", None, None)):
            report = self.simulate(*wide, "--traffic", traffic, name=traffic.replace(":", "-"))
            of = {m["case"]["collective"]: m for m in report["measurements"]}
            verdict = of["all_to_allv"]["verdict"]
            with self.subTest(traffic=traffic):
                self.assertEqual(of["all_to_allv"]["case"]["traffic"], traffic)
                self.assertNotIn("traffic", of["all_to_all"]["case"])
                self.assertAlmostEqual(verdict["fraction_of_limit"], 1, delta=0.03)
                first = report["traffic"][0]["parts"][0]
                self.assertIn(f"busiest: {first['name']}, {'receiving' if first['receives'] else 'sending'}", verdict["because"])
                if imbalance:
                    self.assertAlmostEqual(report["traffic"][0]["received_imbalance"], imbalance, delta=1e-6)
                    self.assertAlmostEqual(report["traffic"][0]["incast_loss"], loss, delta=1e-6)
                limits[traffic] = verdict["limit_gb_per_s"], of["all_to_all"]["verdict"]["limit_gb_per_s"]
        self.assertAlmostEqual(*limits["uniform"], places=3)

    def test_each_platform_is_judged_where_somebody_has_shown_healthy_figures_and_nowhere_else(self):
        platforms = [line.split()[0] for line in self.run_it("list", "platforms").stdout.splitlines()]
        judged = {}
        for platform in platforms:
            for nodes in ("1", "2", "4"):
                done = self.run_it("--backend", "sim", "--platform", platform, "--nodes", nodes, "--sizes",
                                   "8GiB" if platform == "p3dn.24xlarge" else "16GiB",  # of its GPUs' 32 GiB
                                   "--collectives", "all_reduce,all_gather", "--format", "json", "--quiet", "--cluster",
                                   f"{platform}-{nodes}", "--out", "each")
                if "are not known" in done.stderr:
                    continue  # the NICs
                report = read_report(self.folder / "each" / f"{platform}-{nodes}" / "latest" / "report.json")
                grades = {m["case"]["collective"]: m["verdict"]["grade"] for m in report["measurements"]
                          if m["case"]["nodes"] == int(nodes)}
                self.assertLessEqual(set(grades.values()), {"ok", "unknown"}, platform)
                judged[platform, nodes] = {name for name, grade in grades.items() if grade == "ok"}
                self.assertEqual(done.returncode, 0 if judged[platform, nodes] else 14, f"{platform}: {done.stdout}{done.stderr}")
                self.assertNotIn("speed.below_published", [finding["id"] for finding in report["findings"]], platform)
        both = {"all_reduce", "all_gather"}
        expected = {(platform, "1"): both for platform in platforms
                    if platform.startswith(("p5", "hgx-h")) and platform != "p5.4xlarge"}
        expected |= {(platform, "1"): {"all_reduce"} for platform in
                     ("hgx-a100", "p4d.24xlarge", "p4de.24xlarge", "hgx-b200", "p6-b200.48xlarge")}
        expected |= {("p5.48xlarge", "2"): {"all_gather"}, ("p5.48xlarge", "4"): both,
                     ("p4d.24xlarge", "2"): {"all_reduce"}, ("p4de.24xlarge", "2"): {"all_reduce"},
                     ("p5en.48xlarge", "4"): {"all_reduce"}, ("p6-b200.48xlarge", "4"): {"all_reduce"},
                     ("p6-b300.48xlarge", "2"): {"all_reduce"}}
        self.assertEqual({key: names for key, names in judged.items() if names}, expected)

    def test_groups_that_run_at_once_share_the_nics_of_their_nodes(self):
        # Two GPUs of p4d share a NIC, all of p3dn share one, and those of p5 have NICs of their own.
        for platform, group in (("p4d.24xlarge", "rail"), ("p3dn.24xlarge", "rail"), ("p4d.24xlarge", "world"), ("p5.48xlarge", "rail")):
            with self.subTest(platform=platform, group=group):
                report = self.simulate("--platform", platform, "--nodes", "2", "--group", group, "--sizes", "256MiB", "--tune=off",
                                       "--collectives", "all_gather,all_to_all,all_to_allv,send_recv", name=f"{platform}-{group}")
                shares = {m["case"]["collective"]: m["verdict"]["fraction_of_limit"] for m in report["measurements"] if m["case"]["group"] == group}
                self.assertEqual(len(shares), 4)
                for collective, share in shares.items():
                    self.assertTrue(0.85 < share < 1.03, f"{collective}: {share}")

    def test_the_root_may_be_any_rank(self):
        for root in (0, 5, 15):
            report = self.simulate("--nodes", "2", "--sizes", "8", "--collectives", "broadcast,reduce", "--root", root,
                                   name=f"root-{root}")
            self.assertEqual({m["case"]["root"] for m in report["measurements"]}, {root})

    def test_the_slowest_of_all_roots_is_named(self):
        few = ["--sizes", "1GiB", "--collectives", "broadcast,gather,all_reduce", "--root", "all", "--fault", "gpu:n0g3:0.5"]
        report = self.simulate(*few, exits=10, name="all-roots")
        for name in ("broadcast", "gather"):
            measured = largest(report, name)
            times = {each["root"]: each["median_us"] for each in measured["roots"]}
            self.assertEqual((sorted(times), times[measured["slowest_root"]]), (list(range(8)), max(times.values())))
            self.assertEqual(max(times.values()), measured["throughput"]["median_us"])
            self.assertEqual((measured["case"]["every_root"], measured["case"]["root"]), (True, None))
        # The ring of a broadcast leads through all GPUs, whatever its root; the root of a gather receives seven parts.
        self.assertEqual(largest(report, "gather")["slowest_root"], 3)
        self.assertNotIn("roots", largest(report, "all_reduce"))

    def test_a_group_of_operations_has_the_latency_of_one(self):
        few = ["--sizes", "8", "--collectives", "all_reduce,p2p", "--format", "json,csv"]
        one, four = (self.simulate(*few, "--aggregate", count, name=f"groups-{count}") for count in (1, 4))
        alone, together = (largest(report, "all_reduce") for report in (one, four))
        self.assertEqual(("aggregate" in alone["case"], together["case"]["aggregate"]), (False, 4))
        self.assertAlmostEqual(alone["latency"]["median_us"] / together["latency"]["median_us"], 4, delta=0.5)
        self.assertEqual(together["throughput"]["operations_per_sample"] % 4, 0)
        self.assertEqual({m["case"]["pattern"] for m in four["measurements"]} & {"ping_pong"}, set())
        self.assertTrue(any("ping_pong: left out" in remark for remark in four["run"]["remarks"]), four["run"]["remarks"])
        rows = csv.DictReader((self.folder / "groups-4" / "latest" / "report.csv").read_text().splitlines())
        self.assertEqual({row["aggregate"] for row in rows if row["for_parts"] != "1"}, {"4"})

    def test_latency_is_the_machines(self):
        within = largest(self.simulate("--sizes", "8", name="one"), "p2p", "one_way")
        between = largest(self.simulate("--sizes", "8", "--nodes", "2", name="two"), "p2p", "one_way")
        self.assertLess(within["latency"]["median_us"], between["latency"]["median_us"])

    def test_the_same_seed_gives_the_same_report_apart_from_times(self):
        def without_times(report):
            for key in ("started", "ended", "wall_s", "command", "folder"):
                del report["run"][key]
            for measurement in report["measurements"]:
                del measurement["wall_s"]
            return report
        first, second = (without_times(self.simulate("--nodes", "2", name=name)) for name in ("first", "second"))
        self.assertEqual(first, second)
        other = without_times(self.simulate("--nodes", "2", "--seed", "2", name="third"))
        self.assertNotEqual([m["case"] for m in first["measurements"]], [m["case"] for m in other["measurements"]])

    def test_everything_is_marked_simulated(self):
        done = self.run_it(*SIM[:-1], *LARGE, "--out", "out")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(done.stdout.count("SIMULATED"), 2, done.stdout)
        latest = self.folder / "out" / "latest"
        report = read_report(latest / "report.json")
        self.assertEqual(report["provenance"], "simulated")
        self.assertEqual(report["topology"]["provenance"], "synthetic")
        self.assertTrue(report["run"]["cluster"].startswith("sim-"), report["run"]["cluster"])
        self.assertIn('"provenance":"simulated"', (latest / "report.html").read_text())
        again = self.run_it("report", latest / "report.json")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("SIMULATED", again.stdout)

    def test_the_journal_has_a_line_for_each_measurement_with_its_samples(self):
        report = self.simulate("--nodes", "2", *LARGE)
        lines = (self.folder / "out" / "latest" / "measurements.jsonl").read_text().splitlines()
        self.assertEqual([json.loads(line)["case"] for line in lines], [m["case"] for m in report["measurements"]])
        for line in map(json.loads, lines):
            self.assertEqual(len(line["throughput"]["samples_us"]), line["throughput"]["samples"])

    def test_a_report_is_rendered_again_to_the_same_bytes(self):
        self.simulate("--nodes", "2", *LARGE, "--collectives", "p2p,all_reduce")
        report = self.folder / "out" / "latest" / "report.json"
        done = self.run_it("report", report, "--format", "json,html", "--out", "again")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.folder / "again" / "report.json").read_bytes(), report.read_bytes())
        self.assertEqual((self.folder / "again" / "report.html").read_bytes(), report.with_suffix(".html").read_bytes())
        self.assertEqual(self.run_it("report", report, "--as", "html").stdout, report.with_suffix(".html").read_text(), "with the samples")

    def test_a_spent_budget_skips_cases_and_says_so(self):
        report = self.simulate("--nodes", "16", "--budget", "10ms")
        skipped = [m for m in report["measurements"] if m["outcome"] == "skipped"]
        self.assertTrue(skipped)
        for measurement in skipped:
            self.assertEqual(measurement["because"], "budget")
            self.assertEqual(measurement["verdict"]["grade"], "unknown")
            self.assertIsNone(measurement["throughput"])


    def test_a_group_of_one_has_a_time_and_its_report_can_be_read(self):
        for name, arguments in (("p5.48xlarge", ["--group", "stride:8"]), ("p5.4xlarge", ["--nodes", "2", "--group", "node"])):
            done = self.run_it("--backend", "sim", "--platform", name, "--tuning", "off", *arguments, "--collectives",
                               "all_to_allv", "--sizes", "8,1G", "--out", name)
            self.assertEqual(done.returncode, 14, done.stderr)
            report = read_report(self.folder / name / "latest" / "report.json")
            for m in report["measurements"]:
                self.assertGreater(m["throughput"]["median_us"], 0)
            self.assertEqual(self.run_it("report", name).returncode, 0)


class Large(Simulation):
    @unittest.skipIf(SANITIZED, "a sanitizer takes memory of its own")
    def test_a_large_cluster_fits_into_a_gibibyte(self):
        report = self.simulate("--nodes", "512", "--collectives", "p2p,all_reduce,all_gather")
        self.assertEqual((report["run"]["ranks"], report["run"]["nodes"]), (4096, 512))
        self.assertEqual(len({m["case"]["bytes"] for m in report["measurements"]
                              if m["case"]["collective"] == "all_reduce"}), 30)
        self.assertTrue(any("drawn with the seed" in remark for remark in report["run"]["remarks"]))
        peak_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(peak_kib, 1 << 20)


class Faulty(Simulation):
    """Three nodes of eight GPUs with a NIC row each; rank 8 n + g is GPU g of node n, and has NICs 4 g to 4 g + 3."""

    def setUp(self):
        super().setUp()
        self.healthy = self.simulate("--nodes", "3", *LARGE, name="healthy")
        self.assert_suspects(self.healthy)
        self.assertFalse((self.folder / "healthy" / "latest" / "support.txt").exists())

    def assert_slow_where(self, report, expected):
        wanted = {pair for pair in all_pairs_of(self.healthy) if expected(*pair)}
        self.assertTrue(wanted)
        self.assertEqual(slow_pairs(report, self.healthy), wanted)

    def assert_suspects(self, report, *names):
        self.assertEqual([f"{suspect['kind']} {suspect['name']}" for suspect in report["suspects"]], list(names))

    def assert_has(self, report, collective, share):
        rate = busbw(largest(report, collective)) / busbw(largest(self.healthy, collective))
        self.assertAlmostEqual(rate, share, delta=0.03)

    def test_a_slow_gpu_shows_in_its_pairs(self):
        report = self.fault("gpu:n1g2:0.25", exits=10)
        self.assertEqual(report["grade"], "slow")
        self.assert_slow_where(report, lambda a, b: 10 in (a, b))
        self.assertIn(10, largest(report, "p2p", "one_way")["slowest_rank"] and
                      largest(report, "p2p", "one_way")["slowest_pair"])
        self.assert_suspects(report, "gpu n1g2")

    def test_a_slow_nic_shows_in_the_pairs_of_its_gpu_between_nodes(self):
        report = self.fault("nic:n1r9:0.5", exits=10)
        self.assert_slow_where(report, lambda a, b: 10 in (a, b) and a // 8 != b // 8)
        self.assert_suspects(report, "nic n1r9")
        self.assertEqual(report["suspects"][0]["device"], report["topology"]["nics_of_rank"][10][1])
        left = self.folder / "nic_n1r9_0.5" / "latest"
        self.assertEqual((left / "hosts.healthy").read_text(), "n0 slots=8\nn2 slots=8\n")
        self.assertIn("nic n1r9 (n1", (left / "support.txt").read_text())
        self.assertIn("REJECT n1: nic n1r9 is slow", self.run_it("report", str(left / "report.json")).stdout)
        self.assert_has(report, "all_gather", 0.5)
        # Three nodes send only sums, 24 / 23 * 2 / 3 of a ring's data, and healthy NICs have room to spare.
        self.assert_has(report, "all_reduce", 0.69)

    def test_nics_of_other_numbers_beside_gpus_of_one_number_are_no_rail(self):
        report = self.fault("nic:n0r4:0.5", "nic:n1r6:0.5", "nic:n2r5:0.6", exits=10)
        self.assertEqual({f"{each['kind']} {each['name']}" for each in report["suspects"]}, {"nic n0r4", "nic n1r6", "nic n2r5"})
        self.assertIn("REJECT n0, n1, n2: ", report["decision"]["sentence"])

    def test_a_check_says_which_sets_of_nodes_reach_each_other_slowly(self):
        halves = [option for a in (0, 1) for b in (2, 3) for option in ("--fault", f"link:n{a}-n{b}:0.7")]
        done = self.run_it("check", "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4", *halves)
        self.assertEqual(done.returncode, 10, done.stdout)
        for node in range(4):
            self.assertIn(f"n{node}: IN DOUBT: link n0,n1-n2,n3", done.stdout)

    def test_a_slow_node_shows_in_all_its_pairs(self):
        report = self.fault("node:n2:0.5", exits=10)
        self.assert_slow_where(report, lambda a, b: 2 in (a // 8, b // 8))
        self.assert_suspects(report, "node n2")
        self.assert_has(report, "all_reduce", 0.5)

    def test_a_slow_link_shows_between_its_two_nodes(self):
        report = self.fault("link:n0-n2:0.5", exits=10)
        self.assert_slow_where(report, lambda a, b: {a // 8, b // 8} == {0, 2})
        self.assert_suspects(report, "link n0-n2")
        self.assertEqual((self.folder / "link_n0-n2_0.5" / "latest" / "hosts.healthy").read_text(), "n0 slots=8\nn1 slots=8\n")

    def test_a_fault_under_full_load_shows_only_there(self):
        report = self.fault("nic:n1r9:0.5:all-rails", exits=10)
        self.assert_has(report, "all_gather", 0.5)
        alone = self.fault("nic:n1r9:0.5:all-rails", "nic:n1r10:1", exits=14,
                           arguments=("--nodes", "3", *LARGE, "--group", "stride:2", "--collectives", "all_gather"))
        self.assertEqual(alone["measurements"][0]["outcome"], "measured")

    def test_what_is_slow_only_where_many_take_part_shows_in_rails_and_halves(self):
        of_a_rail = [f"nic:n{node}r20:0.6:at-scale" for node in range(3)]
        report = self.fault(*of_a_rail, exits=10)
        self.assert_suspects(report, "rail 5")
        self.assertEqual(report["suspects"][0]["host"], "")
        self.assertIn("the GPUs 5 of all nodes reach each other at 60 %", report["suspects"][0]["evidence"])
        folder = self.folder / "-".join(of_a_rail).replace(":", "_") / "latest"
        self.assertFalse((folder / "hosts.healthy").exists())
        again = self.run_it("report", folder, "--as", "console")
        self.assertEqual(again.returncode, 0)
        self.assertIn("suspect rail 5", again.stdout)
        report = self.fault("node:n2:0.6:at-scale", exits=10, arguments=("--nodes", "4", *LARGE))
        self.assert_suspects(report, "node n2")
        self.assertIn("only when many ranks take part", report["suspects"][0]["evidence"])
        self.assertEqual({m["case"].get("group") for m in report["measurements"]} & {"rail", "half"}, {"rail", "half"})

    def test_a_link_that_is_slow_only_in_collectives_is_never_accepted(self):
        for link in ("n1-n3", "n0-n1"):
            report = self.fault(f"link:{link}:0.8:at-scale", exits=10, arguments=("--nodes", "4", *LARGE))
            self.assert_suspects(report, f"link {link}")

    def test_a_rail_is_not_named_for_what_small_messages_hardly_show(self):
        report = self.fault("nic:n0r0:0.5:at-scale", exits=10,
                            arguments=("--platform", "p4d.24xlarge", "--nodes", "4", "--sizes", "1M"))
        self.assert_suspects(report)
        self.assertIn("nic n0r0", report["open_questions"][0]["candidates"])

    def test_a_silence_that_only_collectives_of_two_nodes_show_is_asked_about(self):
        report = self.fault("link:n0-n2:0:at-scale", exits=12, arguments=("--nodes", "4", *LARGE))
        self.assertEqual(report["open_questions"][0]["candidates"][0], "link n0-n2")
        self.assertGreater(len(report["open_questions"][0]["candidates"]), 1)
        self.assertEqual(report["decision"]["word"], "REJECT")

    def test_a_fault_of_some_samples_shows_in_the_upper_quantiles_only(self):
        report = self.fault("node:n1:0.5:20%", exits=10)
        self.assert_suspects(report, "node n1")
        self.assertIn("intermittently", report["suspects"][0]["evidence"])
        hit, whole = largest(report, "all_reduce")["throughput"], largest(self.healthy, "all_reduce")["throughput"]
        self.assertAlmostEqual(hit["median_us"] / whole["median_us"], 1, delta=0.03)
        self.assertGreater(hit["max_us"], 1.8 * whole["median_us"])

    def test_a_silent_part_fails_its_cases_and_no_others(self):
        report = self.fault("gpu:n1g2:0", exits=12)
        self.assertEqual(report["grade"], "failed")
        for measurement in report["measurements"]:
            case = measurement["case"]
            few = case["collective"] == "p2p" and case["bytes"] not in (8, 4 << 30) and case["group"] != "all_rails"
            self.assertEqual(measurement["outcome"], "measured" if few else "failed", measurement["case"])
            if measurement["outcome"] == "failed":
                self.assertIsNone(measurement["failed_rank"], "all ranks of a group stop at the same point")
                self.assertIn("a part on its path is silent", measurement["because"])
                self.assertEqual(measurement["verdict"]["grade"], "failed")

    def test_a_part_that_lies_is_caught_at_every_size_type_and_op(self):
        arguments = ("--nodes", "2", "--collectives", GROUPS + ",hypercube", "--type", "all", "--op", "all", "--factor", "4096",
                     "--root", "10")  # the case that shows wrong data, because a reduction writes to the root alone
        report = self.fault("gpu:n1g2:1:lies", exits=11, arguments=arguments)
        self.assertEqual(report["grade"], "wrong")
        cases = {(m["case"]["collective"], m["case"]["type"], m["case"]["op"]) for m in report["measurements"]}
        self.assertEqual(len(cases), 3 * 12 * 6 + 8 * 12)
        for measurement in report["measurements"]:
            self.assert_caught(measurement)

    def test_device_initiated_collectives_have_the_limits_of_the_others_less_latency_and_faults(self):
        arguments = ("--sizes", "8,1GiB", "--collectives", "all_reduce,all_to_all,lsa_all_reduce,lsa_all_to_all")
        report = self.simulate("--nodes", "1", *arguments, name="device-initiated")
        self.assertEqual(report["provenance"], "simulated")
        of = {(m["case"]["collective"], m["case"]["bytes"]): m for m in report["measurements"]}
        for name in ("all_reduce", "all_to_all"):
            host, device = of[name, 1 << 30], of["lsa_" + name, 1 << 30]
            for of_limit in ("limit_gb_per_s", "binding", "level"):
                self.assertEqual(device["verdict"][of_limit], host["verdict"][of_limit])
            self.assertEqual(device["verdict"]["grade"], "unknown", "nobody has shown such figures")
            small = min(size for collective, size in of if collective == name)
            self.assertLess(of["lsa_" + name, small]["latency"]["median_us"], of[name, small]["latency"]["median_us"] / 2)
        for measurement in self.fault("gpu:n1g2:1:lies", exits=11, arguments=("--nodes", "2", "--group", "node", *arguments))["measurements"]:
            self.assert_caught(measurement)

    def test_a_gpu_that_lies_is_not_to_be_reset_and_used_again(self):
        for nodes in ("1", "2"):
            [suspect] = self.fault("gpu:n0g3:1:lies", exits=11, arguments=("--nodes", nodes, *LARGE))["suspects"]
            self.assertEqual((suspect["name"], suspect["action"]), ("n0g3", "do not use it: replace the instance, and open a case with support.txt"))

    def test_a_lie_is_caught_in_place_and_between_pairs(self):
        for arguments in (("--in-place", "--root", "10", "--collectives", "all_reduce,all_gather,reduce_scatter,broadcast,reduce,gather,hypercube"),
                          ("--collectives", "p2p")):
            report = self.fault("nic:n1r9:1:lies", exits=11, arguments=("--nodes", "2", *LARGE, *arguments))
            for measurement in report["measurements"]:
                if measurement["case"]["nodes"] == 1:
                    self.assertEqual(measurement["wrong_elements"], 0, "no NIC is between ranks of a node")
                elif measurement["case"].get("nic", 1) != 1:  # of GPU 2 the second is NIC 9
                    self.assertEqual(measurement["wrong_elements"], 0, "another NIC")
                # data that the NIC's own rank sends is wrong at the receiver
                elif measurement["case"]["pattern"] == "one_way":
                    self.assertGreater(measurement["wrong_elements"], 0, measurement["case"])
                else:
                    self.assert_caught(measurement)

    def test_a_lie_of_a_rank_that_gets_nothing_shows_at_the_root(self):
        report = self.fault("gpu:n1g2:1:lies", exits=11,
                            arguments=("--nodes", "2", *LARGE, "--collectives", "reduce,gather", "--root", "3"))
        for measurement in report["measurements"]:
            self.assertEqual(measurement["first_wrong"]["rank"], 3)

    def test_faults_slow_down_the_collectives_that_use_the_part(self):
        arguments = ("--nodes", "3", "--sizes", "4GiB", "--collectives", GROUPS, "--root", "10")
        healthy = self.simulate(*arguments, name="healthy-groups")
        # Rank 10, the root, is GPU 2 of node 1. Only ranks 7, 15 and 23 of the ring send to another node: a NIC of GPU
        # 2 is idle there.
        for fault, untouched in (("gpu:n1g2:0.1", ()), ("node:n1:0.1", ()), ("nic:n1r9:0.1", ("send_recv",)),
                                 ("link:n0-n2:0.1", ("gather", "scatter"))):
            report = self.fault(fault, exits=10, arguments=arguments)
            for name in GROUPS.split(","):
                share = busbw(largest(report, name)) / busbw(largest(healthy, name))
                with self.subTest(fault=fault, collective=name):
                    if name in untouched:
                        self.assertAlmostEqual(share, 1, delta=0.03)
                    else:
                        self.assertLess(share, 0.9)

    def assert_caught(self, measurement):
        first = measurement["first_wrong"]
        self.assertGreater(measurement["wrong_elements"], 0, measurement["case"])
        self.assertEqual(measurement["verdict"]["grade"], "wrong")
        self.assertEqual(first["rank"] // 8, 1, measurement["case"])
        self.assertNotEqual(first["wanted"], first["got"])
        self.assertFalse(first["guard"])
        for word in (f"rank {first['rank']}", f"element {first['offset']}", first["wanted"], first["got"]):
            self.assertIn(word, measurement["verdict"]["because"])

    def test_the_worst_grade_decides(self):
        slow, silent, lies = "gpu:n0g1:0.25", "nic:n1r9:0", "gpu:n0g3:1:lies"
        self.assertEqual(self.fault(slow, lies, exits=11)["grade"], "wrong")
        self.assertEqual(self.fault(slow, silent, exits=12)["grade"], "failed")
        # Wrong data within a node is found before silence between nodes fails the run.
        arguments = ("--nodes", "2", *LARGE, "--group", "node")
        self.assertEqual(self.fault(silent, lies, exits=11, arguments=arguments)["grade"], "wrong")
        text = self.run_it("report", self.folder / f"{slow}-{lies}".replace(":", "_") / "latest" / "report.json").stdout
        self.assertRegex(text, re.compile(r"^REJECT n0: gpu n0g3 corrupts data, gpu n0g1 is slow", re.MULTILINE))


    def test_a_gpu_that_is_slow_alone_is_named_whatever_the_decision(self):
        for platform, word in (("p5e.48xlarge", "CANNOT TELL"), ("p5.48xlarge", "ACCEPT")):
            done = self.run_it("--backend", "sim", "--platform", platform, "--nodes", "4", "--fault", "gpu:n1g1:0.3:compute",
                               "--tuning", "off", "--seed", "1", "--out", platform)
            self.assertTrue(done.stdout.startswith(word), done.stdout)
            self.assertIn("a GPU is slow alone on n1", done.stdout.splitlines()[0])

    def test_a_gpu_that_does_not_compute_is_rejected(self):
        for fault in ("0:compute", "0.01:compute", "0:memory"):
            report = self.fault(f"gpu:n1g1:{fault}", exits=10)
            self.assertEqual(report["decision"]["parts"], ["n1"])

    def test_what_the_time_did_not_allow_is_said(self):
        done = self.run_it("--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4", "--budget", "40ms", "--tuning", "off",
                           "--seed", "1", "--out", "out")
        self.assertIn(done.returncode, (0, 10, 14), done.stderr)
        report = read_report(self.folder / "out" / "latest" / "report.json")
        skipped = sum(m["because"] == "budget" for m in report["measurements"])
        if report["decision"]["word"] == "ACCEPT" and skipped:
            self.assertIn(f"but {skipped} of {len(report['measurements'])} measurements skipped for lack of time", done.stdout)


class Floors(Simulation):
    """Parts that are equally slow everywhere, on machines without published figures of healthy ones."""

    def decided(self, platform, nodes, *faults, exits, seed=1):
        options = [word for fault in faults for word in ("--fault", fault)]
        name = "-".join((platform, str(nodes), str(seed), *faults)).replace(":", "_")
        done = self.run_it("--backend", "sim", "--platform", platform, "--nodes", nodes, "--seed", seed, "--tune=off", "--quiet",
                           "--sizes", "8,256MiB,4GiB", *options, "--out", name)
        self.assertEqual(done.returncode, exits, f"{platform} {faults}: {done.stdout}{done.stderr}")
        report = read_report(self.folder / name / "latest" / "report.json")
        self.assertEqual(done.stdout.splitlines()[0], report["decision"]["sentence"])
        self.assertLessEqual(len(report["decision"]["sentence"]), 120)
        return report

    def test_half_of_the_speed_is_slow_without_a_bar(self):
        for platform, nodes, faults in (("p6-b300.48xlarge", 4, [f"node:n{n}:0.5" for n in range(4)]),
                                        ("p6-b200.48xlarge", 2, ["link:n0-n1:0.5"]), ("p3dn.24xlarge", 2, ["nic:n0r0:0.5"])):
            with self.subTest(platform):
                report = self.decided(platform, nodes, *faults, exits=10)
                self.assertEqual((report["grade"], report["decision"]["word"]), ("slow", "REJECT"))
                slow = [m["verdict"] for m in report["measurements"] if m["verdict"]["grade"] == "slow"]
                self.assertTrue(any("on any machine" in verdict["because"] for verdict in slow), slow)

    def test_what_lies_below_published_figures_is_a_warning(self):
        for platform, nodes, faults in (("p4d.24xlarge", 2, ["node:n0:0.85", "node:n1:0.85"]),
                                        ("p6-b200.48xlarge", 2, ["node:n0:0.85", "node:n1:0.85"]),
                                        ("p5.48xlarge", 2, ["link:n0-n1:0.8"])):
            with self.subTest(platform):
                options = [word for fault in faults for word in ("--fault", fault)]
                self.run_it("--backend", "sim", "--platform", platform, "--nodes", nodes, "--seed", "1", "--tune=off", "--quiet",
                            "--sizes", "8,256MiB,4GiB", *options, "--out", platform)
                report = read_report(self.folder / platform / "latest" / "report.json")
                told = [finding for finding in report["findings"] if finding["id"] == "speed.below_published"]
                # A part that is found slow has the stronger finding.
                self.assertEqual(len(told), 0 if report["grade"] == "slow" else 1, report["grade"])
                for finding in told:
                    self.assertEqual(finding["severity"], "warning")

    def test_nodes_that_are_equally_slow_are_said_to_be_with_what_they_have_in_common(self):
        report = self.decided("p5.48xlarge", 4, *[f"node:n{n}:0.5" for n in range(4)], exits=10)
        decision = report["decision"]
        self.assertRegex(decision["sentence"], r"^REJECT: all 4 nodes are equally slow \(.*\): driver, settings or placement, SIMULATED$")
        self.assertEqual((decision["parts"], decision["command"], report["suspects"]), ([], "", []))
        for word in ("driver", "NCCL_", "placement", "plugin"):
            self.assertTrue(any(word in step for step in decision["next"]), decision["next"])

    def test_slowness_that_pairs_do_not_show_is_said_to_be_that_of_collectives(self):
        decision = self.decided("p5.4xlarge", 3, "nic:n1r0:0.5:at-scale", exits=10)["decision"]
        self.assertRegex(decision["sentence"], r"^REJECT: slow only where many ranks take part \(all_\w+ \d+ % of limit, pairs 9\d %\): no part")
        self.assertIn("measure again with one more node, then leave out one node at a time", decision["next"][0])
        for nodes in (4, 8):
            report = self.decided("p5.4xlarge", nodes, "nic:n1r0:0.5:at-scale", exits=10)
            self.assertEqual(report["decision"]["parts"], ["n1"], report["decision"])

    def test_pairs_that_use_no_named_part_and_are_slow_too_are_told(self):
        for nodes, faults, cause in ((2, ("gpu:n0g1:0.7", "link:n0-n1:0.5"), "a node or the link between the two"),
                                     (3, ("gpu:n1g3:0.6", "node:n0:0.4", "node:n1:0.4", "node:n2:0.4"), "driver, settings or placement")):
            decision = self.decided("p5.48xlarge", nodes, *faults, exits=10)["decision"]
            self.assertRegex(decision["sentence"], r"gpu n\dg\d is slow; pairs without it are slow too \(fastest \d+ % of limit\)")
            self.assertTrue(any("slow too" in step and cause in step for step in decision["next"]), decision["next"])
        for faults in (("gpu:n0g1:0.5",), ("nic:n0r3:0.5", "gpu:n1g2:0.5")):
            self.assertNotIn("slow too", json.dumps(self.decided("p5.48xlarge", 2, *faults, exits=10)["decision"]))

    def test_of_two_nodes_only_what_is_slow_is_said_to_be(self):
        for fault, words in (("link:n0-n1:0.5:at-scale", "collectives between n0 and n1 are slow, and no pair of ranks is"),
                             ("link:n0-n1:0.5", "all transfers between n0 and n1 are slow")):
            (question,) = self.decided("p5.48xlarge", 2, fault, exits=10)["open_questions"]
            self.assertTrue(question["evidence"].startswith(words), question)

    def test_small_messages_make_no_fault_intermittent(self):
        done = self.run_it("--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4", "--seed", "51", "--group", "rail", "--tune=off",
                           "--sizes", "8,1KiB,64KiB,256MiB", "--collectives", "all_reduce,p2p", "--fault", "nic:n1r5:0.5", "--fault", "gpu:n2g3:0.6",
                           "--quiet", "--out", "rails")
        self.assertEqual(done.returncode, 10, done.stderr)
        report = read_report(self.folder / "rails" / "latest" / "report.json")
        self.assertEqual({each["name"] for each in report["suspects"]}, {"n1r5", "n2g3"})
        self.assertNotIn("intermittently", json.dumps(report["suspects"]))

    def test_one_node_is_searched_for_what_is_slow_only_in_collectives_and_else_told_what_to_do(self):
        self.assertIn("gpu n0g2 is slow", self.decided("p5.48xlarge", 1, "gpu:n0g2:0.5:at-scale", exits=10)["decision"]["sentence"])
        decision = self.decided("p5.48xlarge", 1, "node:n0:0.5", exits=10)["decision"]
        self.assertIn("no single GPU stands out", decision["sentence"])
        self.assertIn("measure another node of the same kind", decision["next"][0])
        self.assertTrue(any(step.startswith("settings: ") for step in decision["next"]), decision["next"])

    def test_a_node_to_reject_comes_with_the_command_for_the_others(self):
        decision = self.decided("p5.48xlarge", 3, "nic:n1r5:0.5", exits=10)["decision"]
        self.assertEqual((decision["word"], decision["parts"]), ("REJECT", ["n1"]))
        self.assertRegex(decision["command"], r"^mpirun -np 16 --hostfile \S+/2\d+T\d+Z(-\d+)?/hosts\.healthy p5bench --tune=off --quiet "
                                              r"--sizes 8,256MiB,4GiB --out \S+$")

    def test_the_command_for_the_others_names_the_hosts_of_its_own_run_after_those_of_another_cluster_too(self):
        for cluster, node in (("a", 1), ("b", 2)):
            done = self.run_it(*SIM, "--nodes", "3", "--sizes", "8,4GiB", "--tuning", "off", "--fault", f"nic:n{node}r5:0.5",
                               "--cluster", cluster, "--out", "shared")
            self.assertEqual(done.returncode, 10, done.stderr)
        for cluster, node in (("a", 1), ("b", 2)):
            report = read_report(self.folder / "shared" / cluster / "latest" / "report.json")
            words = report["decision"]["command"].split()
            hosts = self.folder / words[words.index("--hostfile") + 1]
            self.assertEqual(hosts.parent.resolve(), (self.folder / "shared" / report["run"]["folder"]).resolve())
            self.assertEqual([line.split()[0] for line in hosts.read_text().splitlines()],
                             [f"n{each}" for each in range(3) if each != node])

    def test_a_healthy_machine_is_accepted_in_one_sentence(self):
        decision = self.decided("p5.48xlarge", 4, exits=0)["decision"]
        self.assertRegex(decision["sentence"], r"^ACCEPT: all_reduce 35\d GB/s \(\d+ % of limit\), all_gather 35\d GB/s "
                                               r"\(\d+ % of limit\), 4 nodes, nothing slow, SIMULATED$")
        self.assertEqual((decision["parts"], decision["next"], decision["command"]), ([], [], ""))

    def test_parts_whose_faults_overlap_accuse_no_others(self):
        for platform, nodes, faults, allowed in (
                ("p3dn.24xlarge", 3, ("nic:n2r0:0.9:20%", "gpu:n2g6:0.95"), {"nic n2r0", "gpu n2g6", "node n2"}),
                ("p6-b200.48xlarge", 3, ("nic:n1r0:0.8:5%", "nic:n1r6:0.8:at-scale"), {"nic n1r0", "nic n1r6"})):
            with self.subTest(platform):
                report = self.decided(platform, nodes, *faults, exits=10)
                self.assertLessEqual({f"{each['kind']} {each['name']}" for each in report["suspects"]}, allowed)
                likeliest = {each["candidates"][0] for each in report["open_questions"]}
                self.assertLessEqual(likeliest, allowed, report["open_questions"])
                self.assertTrue(report["suspects"] or likeliest)

    def test_a_node_slow_under_full_load_is_named_and_none_of_its_links(self):
        for fault, seed in (("node:n4:0.5:all-rails", 2), ("node:n2:0.9:all-rails", 610673)):
            with self.subTest(fault):
                report = self.decided("p5.48xlarge", 8, fault, exits=10, seed=seed)
                self.assertEqual([(each["kind"], each["name"]) for each in report["suspects"]], [("node", fault.split(":")[1])])
                self.assertEqual(report["open_questions"], [])
                retest, = [each for each in report["run"]["remarks"] if "seemed slow and were measured again in" in each]
                self.assertEqual(retest.count("node,"), 1, retest)  # each kind of groups once

    def test_a_nic_slow_or_silent_under_full_load_is_named_of_three_nodes(self):
        for platform, fault, name, code in (("p4d.24xlarge", "nic:n0r1:0.6:all-rails", "n0r1", 10), ("p5.48xlarge", "nic:n1r7:0.5:all-rails", "n1r4-7", 10),
                                            ("p5en.48xlarge", "nic:n1r10:0:all-rails", "n1r10-11", 12)):
            with self.subTest(fault):
                report = self.decided(platform, 3, fault, exits=code)
                self.assertEqual([each["name"] for each in report["suspects"]], [name])
                self.assertEqual(report["open_questions"], [])

    def test_a_rail_is_not_named_for_a_nic_that_faster_links_hide(self):
        # 16 NICs are faster together than a GPU's links, so that groups of whole nodes hardly show one at 90 %.
        report = self.decided("p6-b300.48xlarge", 4, "nic:n1r8:0.9:at-scale", exits=10, seed=709809)
        self.assertEqual(report["suspects"], [])
        question, = report["open_questions"]
        self.assertLessEqual({"rail 4", "nic n1r8-9"}, set(question["candidates"]))

    def test_a_rail_is_not_named_for_a_nic_that_is_hardly_slower(self):
        report = self.decided("p5.48xlarge", 4, "nic:n0r28:0.92:at-scale", exits=10, seed=995572)
        self.assertEqual(report["suspects"], [])
        self.assertLessEqual({"rail 7", "nic n0r28-31"}, set(report["open_questions"][0]["candidates"]))

    def test_two_nodes_without_pairs_are_told_to_measure_them(self):
        for collectives, wanted in ((("--collectives", "all_reduce,all_gather"), "run p5bench with its default collectives"), ((), None)):
            with self.subTest(collectives):
                done = self.run_it("--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "2", "--seed", "1", "--tune=off",
                                   "--fault", "nic:n1r3:0.3", *collectives, "--sizes", "256MiB,4GiB", "--out", f"pairs-{bool(wanted)}")
                self.assertEqual(done.returncode, 10, done.stdout)
                report = read_report(self.folder / f"pairs-{bool(wanted)}" / "latest" / "report.json")
                if wanted:
                    self.assertEqual(report["open_questions"], [])
                    self.assertRegex(report["decision"]["sentence"], "without pairs between nodes no part can be named")
                    self.assertRegex(report["decision"]["next"][0], wanted)
                else:
                    self.assertEqual([each["name"] for each in report["suspects"]], ["n1r3"])

    def test_a_link_that_is_silent_and_lies_is_not_taken_for_two_faults(self):
        report = self.decided("p5e.48xlarge", 8, "link:n2-n5:0:lies", exits=11)
        self.assertEqual([each["name"] for each in report["suspects"]], ["n2-n5"])
        self.assertEqual(report["open_questions"], [])

    def test_an_acceptance_says_that_some_samples_are_slow(self):
        decision = self.decided("p5.48xlarge", 2, "link:n0-n1:0.5:20%", exits=0)["decision"]
        self.assertRegex(decision["sentence"], r"^ACCEPT: but some samples are slow: all_\w+ \d+ GB/s \(9\d % of limit, 8\d % on average\)")

    def test_slowness_of_all_that_comes_now_and_then_is_not_accepted(self):
        self.decided("p5.48xlarge", 2, "node:n0:0.1:20%", "node:n1:0.1:20%", exits=10)
        decision = self.decided("p5.48xlarge", 1, "node:n0:0.02:20%", exits=10)["decision"]
        self.assertRegex(decision["sentence"], r"^REJECT n0: .*\(p2p \d+ % of limit on average, median (9\d|100) %\)")

    def test_what_a_budget_left_out_is_the_reason_where_it_left_out_most(self):
        done = self.run_it("--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4", "--tuning", "off", "--budget", "5ms")
        self.assertEqual(done.returncode, 14, done.stderr)
        self.assertRegex(done.stdout, r"^CANNOT TELL: (nothing was measured: )?\d+ of \d+ measurements skipped for lack of time")
        self.assertIn("a longer --budget", done.stdout)

    def test_what_nobody_can_judge_is_neither_accepted_nor_rejected(self):
        decision = self.decided("p6-b300.48xlarge", 4, exits=14)["decision"]
        self.assertRegex(decision["sentence"], r"^CANNOT TELL: no figures of a healthy p6-b300.48xlarge are known")
        self.assertTrue(any("--baseline" in step for step in decision["next"]))


class Lists(Folder):
    def test_name_each_thing_once(self):
        for what in ("collectives", "platforms", "knobs", "backends", "formats", "findings", "traffic"):
            with self.subTest(what):
                names = [line.split()[0].rstrip(":;") for line in self.run_it("list", what).stdout.splitlines()]
                self.assertGreater(len(names), 2)
                self.assertEqual(sorted(names), sorted(set(names)))


if __name__ == "__main__":
    main()
