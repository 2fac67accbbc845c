"""p5bench with real workers on the fakes, on four pretended hosts, when ranks do not join: the host is named, the run
ends soon, and its report is complete. NCCL's log works whatever the operator's variables are."""

import os
import signal
import time
import unittest

from jobs import PATIENCE_S, SOURCE, UNJUDGED, Job
from workers import BUILD, skip_unless_built

# The timeout of each join; long enough for a healthy one on a busy machine.
LIMIT = "8s"


class Joins(Job):
    def start(self, *arguments, ranks=4, hosts=True, sizes="64,1KiB,4KiB", collectives="all_reduce", **variables):
        pretend = [str(SOURCE / "tests" / "gpu" / "pretend_nodes"), "1"] if hosts else []
        return self.start_command(
            ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", *pretend, str(BUILD / "p5bench"), "--backend", "nccl", "--tuning=off",
             "--collectives", collectives, "--sizes", sizes, "--budget", "60s", "--seed", "4", "--out", str(self.folder / "out"), *arguments],
            {"P5BENCH_JOIN_LIMIT": LIMIT, "P5BENCH_MOST_SAMPLES": "6", **variables})

    def findings(self, prefix):
        return [finding for finding in self.report()["findings"] if finding["id"].startswith(prefix)]

    def outcomes(self):
        return sorted(m["outcome"] for m in self.report()["measurements"])


class Hosts(Joins):
    def test_a_host_that_never_answers_is_named_and_nothing_else_is_waited_for(self):
        code, output = self.run_it(P5BENCH_FAKE="join-hang:host=node2")
        self.assertEqual(code, 13, output)
        finding, = self.findings("join.")
        self.assertEqual((finding["id"], finding["severity"], finding["subject"]["host"]), ("join.host", "error", "node2"))
        self.assertRegex(finding["evidence"], r"node2 do not join, not even by themselves.*rank 2: no answer .*\(node2, GPU-")
        self.assertIn(f"p5bench: {finding['evidence']}; {finding['action']}", output)
        self.assertEqual(self.outcomes(), ["failed", "skipped", "skipped"])
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"], report["grade"]), ("complete", 13, "failed"))

    def test_a_host_that_does_not_answer_others_is_told_by_its_partners(self):
        code, output = self.run_it(P5BENCH_FAKE="join-hang:host=node1:ranks=2")
        self.assertEqual(code, 13, output)
        finding, = self.findings("join.")
        self.assertEqual((finding["id"], finding["subject"]["host"]), ("join.host", "node1"))
        self.assertIn("though they do by themselves", finding["evidence"])

    def test_what_fails_only_all_together_is_tried_twice_and_no_host_is_blamed(self):
        code, output = self.run_it("--launches", "2", P5BENCH_FAKE="join-crash:host=node3:ranks=3")
        self.assertEqual(code, 13, output)
        finding, = self.findings("join.")
        self.assertEqual((finding["id"], finding["subject"]["host"]), ("join.together", ""))
        self.assertRegex(finding["evidence"], r"rank 3: .* ended by signal 11")

    def test_what_passes_costs_no_case(self):
        code, output = self.run_it(P5BENCH_FAKE=f"join-crash:host=node1:once={self.folder}/once")
        self.assertEqual(code, UNJUDGED, output)
        finding, = self.findings("join.")
        self.assertEqual((finding["id"], finding["severity"]), ("join.again", "warning"))
        self.assertIn("signal 11", finding["evidence"])
        self.assertEqual(self.outcomes(), ["measured"] * 3)

    def test_a_host_that_goes_in_the_middle_leaves_what_was_measured(self):
        sizes = ",".join(f"{2 + i}MiB" for i in range(8))  # each measured once
        process = self.start(sizes=sizes, P5BENCH_MOST_SAMPLES="250", P5BENCH_FAKE=f"slow:rank=0:us=2000,join-crash:host=node3:after={self.folder}/gone")
        journal = self.folder / "out" / "latest" / "measurements.jsonl"
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and not (journal.exists() and "\n" in journal.read_text()):
            time.sleep(0.005)
        (self.folder / "gone").touch()
        for pid in self.workers("node3"):
            os.kill(pid, signal.SIGKILL)
        output, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 12, output)
        finding, = self.findings("join.")
        self.assertEqual((finding["id"], finding["subject"]["host"]), ("join.host", "node3"))
        outcomes = self.outcomes()
        self.assertEqual(set(outcomes), {"failed", "measured", "skipped"})
        self.assertEqual(outcomes.count("failed"), 2, "the case in which it went, and the one that found it gone")


class Gpus(Joins):
    def test_ranks_that_share_a_gpu_are_told_once_how_to(self):
        sharing = {"ranks": 4, "hosts": False, "P5BENCH_FAKE_GPUS": "2", "sizes": "8,64,1KiB,64KiB"}
        code, output = self.run_it("--allow-shared-gpu", "--quiet", **sharing)
        self.assertEqual(code, 13, output)
        told, = [line for line in output.splitlines() if line.startswith("p5bench: ")]
        self.assertRegex(told, r"Duplicate GPU detected : rank (0 and rank 2|1 and rank 3) .*; start one rank per GPU; .* NCCL_HOSTID")
        self.assertEqual([f["id"] for f in self.findings("nccl.")], ["nccl.duplicate_gpu"])
        self.assertEqual(self.outcomes(), ["failed"] + ["skipped"] * 3)

    def test_ranks_that_do_not_join_are_not_to_join_in_groups_either(self):
        code, output = self.run_it("--allow-shared-gpu", ranks=6, hosts=False, collectives="p2p,all_reduce", sizes="64", P5BENCH_FAKE_GPUS="3")
        self.assertEqual(code, 13, output)
        self.assertEqual(self.outcomes().count("failed"), 1, "the first case of the plan")
        self.assertEqual({m["case"].get("for_parts") for m in self.report()["measurements"]}, {None})

    def test_ranks_that_share_a_gpu_as_hosts_of_their_own_are_measured(self):
        code, output = self.run_it("--allow-shared-gpu", ranks=2, P5BENCH_FAKE_GPUS="1")
        self.assertEqual(code, UNJUDGED, output)
        self.assertEqual(self.outcomes(), ["measured"] * 3)


class Log(Joins):
    LINE = "P2P is disabled between NVLINK connected GPUs 1 and 0"

    def run_with(self, **variables):
        code, output = self.run_it(ranks=2, hosts=False, sizes="64", P5BENCH_FAKE_LOG=self.LINE, **variables)
        self.assertEqual(code, UNJUDGED, output)
        report = self.report()
        self.assertEqual([f["id"] for f in self.findings("nccl.")], ["nccl.p2p_off"], variables)
        self.assertEqual(report["measurements"][0]["selection"]["source"], "nccl log", variables)
        seen = {name: value for name, value in report["context"].items() if name.startswith("env.NCCL_DEBUG")}
        self.assertEqual(seen, {f"env.{name}": value for name, value in variables.items() if name.startswith("NCCL_")})
        return [line for line in output.splitlines() if "NCCL INFO" in line]

    def test_without_a_wish_nothing_of_it_is_shown(self):
        self.assertEqual(self.run_with(), [])
        self.assertEqual(self.run_with(NCCL_DEBUG="WARN"), [])

    def test_what_the_operator_asked_for_goes_to_standard_output(self):
        lines = self.run_with(NCCL_DEBUG="INFO")
        self.assertEqual(len([line for line in lines if line.endswith(self.LINE)]), 2, lines)
        self.assertFalse([line for line in lines if "Bytes -> Algo" in line], lines)
        lines = self.run_with(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,TUNING")
        self.assertTrue([line for line in lines if "Bytes -> Algo" in line], lines)

    def test_or_to_his_file(self):
        self.assertEqual(self.run_with(NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=f"{self.folder}/log.%p"), [])
        files = list(self.folder.glob("log.*"))
        self.assertEqual(len(files), 2)
        for file in files:
            self.assertIn(f":{file.suffix[1:]} NCCL INFO {self.LINE}\n", file.read_text())

    def test_of_a_failed_join_warnings_are_quoted_and_shown_to_whoever_wants_them(self):
        for variables, shown in (({}, 0), ({"NCCL_DEBUG": "WARN"}, 1)):
            code, output = self.run_it("--allow-shared-gpu", ranks=2, hosts=False, P5BENCH_FAKE_GPUS="1", **variables)
            self.assertEqual(code, 13, output)
            warnings = [line for line in output.splitlines() if "NCCL WARN Duplicate GPU detected : rank 0 and rank 1" in line]
            self.assertEqual(len(warnings), 2 * shown, output)  # the ranks tried to join twice


if __name__ == "__main__":
    skip_unless_built()
    unittest.main(verbosity=2)
