"""p5bench check on simulated nodes: a line for each, the fault and its node, and the exit code."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, main, read_report  # noqa: E402

SIM = ["check", "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4"]


class Check(Folder):
    def check(self, *arguments, exits=0):
        done = self.run_it(*SIM, *arguments)
        self.assertEqual(done.returncode, exits, done.stdout + done.stderr)
        if "--out" not in arguments:
            self.assertEqual(self.listing(), [])
        return done.stdout

    def test_healthy_nodes_are_fit_and_no_file_is_left(self):
        lines = self.check().splitlines()
        self.assertEqual([line.split("; ")[0] for line in lines], [f"n{i}: fit" for i in range(4)])
        for line in lines:
            self.assertIn("32 NICs, 8 GPUs alone and under load; speed judged in 3 of 8 measurements, in none between nodes", line)

    def test_all_formats_accept_healthy_nodes(self):
        report = json.loads(self.check("--format", "json"))
        self.assertEqual(report["decision"]["word"], "ACCEPT", report["decision"])
        self.assertRegex(report["decision"]["sentence"], "^ACCEPT: but .*nothing judged between nodes")

    def test_all_gpus_together_come_first_and_pairs_one_way_last(self):
        self.check("--out", str(self.folder / "out"))
        journal, = self.folder.glob("out/*/2*/measurements.jsonl")
        cases = [json.loads(line)["case"] for line in journal.read_text().splitlines()]
        planned = [(case["collective"], case["pattern"]) for case in cases if case.get("nic") is None]
        self.assertEqual(planned[:4], [("all_reduce", None), ("all_reduce", None), ("p2p", "both_ways"), ("p2p", "one_way")], planned)

    def test_a_slow_gpu_is_named_on_its_node(self):
        lines = self.check("--fault", "gpu:n1g3:0.5", exits=10).splitlines()
        nodes = [line for line in lines if not line.startswith(" ")]
        self.assertEqual([line.split("; ")[0].split(",")[0] for line in nodes], ["n0: fit", "n1: NOT FIT: gpu n1g3", "n2: fit", "n3: fit"])
        self.assertTrue(any(line.startswith("  suspect gpu n1g3 (n1): GPU 3 reaches") for line in lines), lines)

    def test_a_slow_gpu_without_a_switch_is_named_by_its_links(self):
        for fault, exits in (("gpu:n0g2:0.7", 10), ("gpu:n0g5:0.8", 10), (None, 0)):
            done = self.run_it("check", "--backend", "sim", "--platform", "p3dn.24xlarge", *(["--fault", fault] if fault else []))
            self.assertEqual(done.returncode, exits, done.stdout)
            self.assertEqual("NOT FIT: gpu " + fault.split(":")[1] in done.stdout if fault else "NOT FIT" in done.stdout, bool(fault), done.stdout)

    def test_a_slow_nic_is_named_on_its_node(self):
        lines = self.check("--fault", "nic:n2r9:0.5", exits=10).splitlines()
        nodes = [line for line in lines if not line.startswith(" ")]
        self.assertEqual([line.split("; ")[0].split(",")[0] for line in nodes], ["n0: fit", "n1: fit", "n2: NOT FIT: nic n2r9", "n3: fit"])

    def test_a_node_whose_links_are_slow_is_named_without_a_suspect(self):
        printed = self.check("--fault", "node:n2:0.5", "--quiet", exits=10)
        self.assertRegex(printed, r"(?m)^n2: NOT FIT: ")
        self.assertEqual(printed.count(": fit; "), 3, printed)

    def test_a_node_that_is_slow_by_itself_is_rejected_and_the_others_are_not(self):
        for fault in ("node:n2:0.5:at-scale", "gpu:n2g4:0.3:at-scale"):
            printed = self.check("--fault", fault, "--out", fault.replace(":", "_"), exits=10)
            self.assertRegex(printed, r"(?m)^n2: NOT FIT: slow all_reduce$")
            self.assertEqual(printed.count(": fit; "), 3, printed)
            report, = self.folder.glob(fault.replace(":", "_") + "/*/2*/report.json")
            decision = read_report(report)["decision"]
            self.assertRegex(decision["sentence"], r"^REJECT n2: slow without the other nodes \(all_reduce \d+ % of limit\), and no single GPU")
            self.assertIn("n2: check its fabric manager", decision["next"][0])
            self.assertEqual([line.split()[0] for line in (report.parent / "hosts.healthy").read_text().splitlines()], ["n0", "n1", "n3"])

    def test_a_slow_collective_of_all_says_nothing_of_each_node(self):
        for fault in ("nic:n1r3:0.3:at-scale", "link:n0-n1:0.3:at-scale"):
            out = fault.replace(":", "_")
            printed = self.check("--fault", fault, "--out", out, exits=10)
            self.assertEqual(printed.count(": IN DOUBT: slow all_reduce"), 4, printed)
            report, = self.folder.glob(out + "/*/2*/report.json")
            decision = read_report(report)["decision"]
            self.assertRegex(decision["sentence"], r"^REJECT: the cluster is slow \(all_reduce \d+ % of limit\), and no part stands out, SIMULATED$")
            self.assertIn("run p5bench with its default collectives", decision["next"][0])

    def test_a_slow_part_does_not_make_healthy_gpus_seem_slow_under_load(self):
        for platform, fault, node in (("p4de.24xlarge", "gpu:n0g2:0.2", "n0"), ("p4d.24xlarge", "link:n1-n2:0.2", None),
                                      ("p6-b300.48xlarge", "nic:n0r4:0.2", "n0")):
            done = self.run_it("check", "--backend", "sim", "--platform", platform, "--nodes", "4", "--fault", fault)
            self.assertEqual(done.returncode, 10, done.stdout)
            self.assertNotIn("gpu.slow_under_load", done.stdout)

    def test_of_two_nodes_that_exchange_messages_slowly_under_load_none_is_rejected(self):
        done = self.run_it("check", "--backend", "sim", "--platform", "p4d.24xlarge", "--nodes", "2", "--fault", "nic:n0r3:0.2:under-load")
        self.assertEqual(done.returncode, 10, done.stdout)
        for node in ("n0", "n1"):
            self.assertRegex(done.stdout, f"(?m)^{node}: IN DOUBT: gpu.slow_under_load$")

    def test_a_silent_gpu_makes_its_node_unfit_and_leaves_the_others_unfinished(self):
        printed = self.check("--fault", "gpu:n1g3:0", exits=12)
        self.assertRegex(printed, r"(?m)^n1: NOT FIT: gpu n1g3$")
        self.assertNotIn("fit", printed.replace("NOT FIT", ""), "of the others nothing was measured")

    def test_a_gpu_that_does_not_compute_is_not_fit(self):
        for fault, words in (("0:compute", "bf16 matrix products: no figure; median of the 31 others"),
                             ("0.01:compute", "(99 % less)"), ("0:memory", "memory over the median: no figure")):
            printed = self.check("--fault", f"gpu:n1g3:{fault}", exits=10)
            self.assertRegex(printed, r"(?m)^n1: NOT FIT: gpu.slow_alone$")
            self.assertIn(words, printed)
            self.assertEqual(printed.count(": fit; "), 3, printed)
        self.assertIn("  warning gpu.slow_alone: rank 11, alone", self.check("--fault", "gpu:n1g3:0.3:compute"), "others may use it")

    def test_a_burn_of_hours_leaves_time_to_measure_and_ends_with_the_slow_gpu(self):
        for limit in ((), ("--limit", "15s")):
            self.assertEqual(self.check("--burn", "2h", *limit).count(": fit; "), 4)
        printed = self.check("--burn", "2h", "--fault", "gpu:n1g3:0.8:compute", exits=10)
        self.assertRegex(printed, r"(?m)^n1: NOT FIT: gpu.slow_alone$")
        self.assertEqual(printed.count(": fit; "), 3, printed)
        self.assertIn("nic n2r9", self.check("--burn", "2h", "--fault", "nic:n2r9:0.5", exits=10), "NICs are measured after the burn")

    def test_parts_that_slow_only_under_load_are_named_and_not_condemned(self):
        for fault, evidence in (("gpu:n1g3:0.8:under-load", "rank 11, what messages leave of the rate of matrix products: "),
                                ("nic:n2r9:0.8:under-load", "rank 18, what matrix products and links leave of the rate of messages over NICs: ")):
            printed = self.check("--fault", fault)
            self.assertEqual(printed.count(": fit; "), 4, printed)
            named = [line for line in printed.splitlines() if "gpu.slow" in line]
            self.assertTrue(any("warning gpu.slow_under_load: " + evidence in line for line in named), printed)
            self.assertTrue(all(evidence[:8] in line for line in named), printed)
        # Nothing is slow where nothing else runs.
        done = self.run_it("run", "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4", "--sizes", "1GiB", "--tuning=off",
                           "--fault", "gpu:n1g3:0.8:under-load", "--out", "out")
        self.assertEqual(done.returncode, 0, done.stdout)
        report = read_report(self.folder / "out" / "latest" / "report.json")
        self.assertEqual((report["suspects"], {f["id"] for f in report["findings"] if f["severity"] != "info"}), ([], {"gpu.slow_under_load"}))
        self.assertIn("; what messages leave of the rate of matrix products 0.", done.stdout.replace("\n  ", " "))

    def test_all_gpus_of_a_node_that_are_slow_under_load_are_one_finding(self):
        self.run_it("run", "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4", "--seed", "1", "--quiet", "--tuning", "off", "--sizes", "8,1GiB",
                    "--fault", "node:n3:0.5:under-load", "--out", "out")
        report = read_report(self.folder / "out" / "latest" / "report.json")
        found = [f for f in report["findings"] if f["id"] == "gpu.slow_under_load"]
        self.assertEqual({(f["subject"]["host"], f["subject"]["gpu"]) for f in found}, {("n3", None)})
        self.assertLess(len(found), 6)
        for finding in found:
            self.assertRegex(finding["evidence"], r"^all 8 GPUs of n3, .*, their median; median of the others of their model: .* % (less|more)\)$")
        self.assertIn("all GPUs are slow under load on n3", report["decision"]["sentence"])

    def test_a_fault_under_load_is_of_a_part_that_a_rank_uses(self):
        for fault, words in (("link:n0-n1:0.5:under-load", "a fault of a GPU, a NIC or a node"), ("gpu:n0g0:0:under-load", "silent under load")):
            done = self.run_it(*SIM, "--fault", fault)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(words, done.stderr)

    def test_the_least_limit_suffices(self):
        self.assertEqual(self.check("--limit", "15s").count(": fit; "), 4)
        done = self.run_it(*SIM, "--limit", "14s")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("give 15 s or more", done.stderr)

    def test_no_node_is_called_fit_where_the_exit_code_says_that_one_is_not(self):
        for platform in ("gb200-nvl72", "p6e-gb200.36xlarge"):
            done = self.run_it("check", "--backend", "sim", "--platform", platform, "--nodes", "2", "--fault", "node:n0:0.8")
            self.assertEqual(done.returncode, 10, done.stdout)
            self.assertRegex(done.stdout, r"(?m)^n0: NOT FIT: \S+ \w+")
            self.assertNotIn("n0: fit", done.stdout)
            if " or " in done.stdout.splitlines()[0]:
                self.assertIn("  one of ", done.stdout, "why, and what would tell")

    def test_what_could_not_be_printed_is_no_success(self):
        for arguments in ((), ("--format", "json")):
            with open("/dev/full", "w") as full:
                done = self.start(*SIM, *arguments, stdout=full)
                self.assertEqual(done.wait(60), 13)

    def test_a_report_is_written_where_it_is_wanted(self):
        self.assertIn("Report: out/", self.check("--out", "out", "--fault", "gpu:n1g3:0.5", exits=10))
        report = read_report(self.folder / "out" / "latest" / "report.json")
        self.assertEqual((report["status"], report["exit_code"], [each["name"] for each in report["suspects"]]), ("complete", 10, ["n1g3"]))
        self.assertEqual(self.files("report.html"), [])
        self.assertEqual(json.loads(self.check("--out", "other", "--format", "json"))["exit_code"], 0)

    def test_several_formats_are_written_into_a_folder_and_one_is_printed(self):
        self.assertRegex(self.check("--out", "out", "--format", "console,prometheus,junit"), "^n0: fit")
        self.assertEqual([len(self.files(name)) for name in ("report.prom", "report.xml", "report.json")], [1, 1, 1])
        self.assertEqual(json.loads(self.check("--out", "other", "--format", "json,html"))["exit_code"], 0)
        self.assertEqual(len(self.files("report.html")), 1)

    def test_words_that_mean_nothing_to_it_are_refused(self):
        for arguments, words in ((["--tuning=quick"], "--tuning has no meaning for check"), (["--max", "1GiB"], "--max has no meaning for check"),
                                 (["--limit", "0"], "--limit"), (["--format", "console,json"], "check prints one format"),
                                 (["--format", "console,junit"], "check writes junit into a folder only")):
            done = self.run_it(*SIM, *arguments)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    main()
