"""Launches and arms with real workers on the fakes: fresh processes in each launch, the operator's variables in every
arm, an arm's variables in that arm alone; a worker or a whole arm that fails affects no other figures."""

import collections
import json
import os
import pathlib
import shutil
import signal
import time
import unittest

from jobs import PATIENCE_S, UNJUDGED, Job
from workers import BUILD, FAKES, built_with, skip_unless_built

NIGHTLY = bool(os.environ.get("P5BENCH_NIGHTLY"))
# Times of 1 ms converge soon; those of the fakes alone vary with the load of this machine.
STEADY = "slow:rank=1:us=1000"
FEW_SAMPLES = {"P5BENCH_MOST_SAMPLES": "6"}


class Launches(Job):
    def start(self, *arguments, sizes="64,1KiB", before=(), **variables):
        return self.start_command(
            ["mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none", *before, str(BUILD / "p5bench"), *arguments, "--backend", "nccl", "--sizes", sizes,
             "--collectives", "all_reduce", "--seed", "4", "--out", str(self.folder / "out")],
            {"P5BENCH_FAKE": STEADY, **FEW_SAMPLES, **variables})

    def journal(self):
        try:
            return [json.loads(line) for line in (self.folder / "out" / "latest" / "measurements.jsonl").read_text().splitlines(keepends=True) if line.endswith("\n")]
        except OSError:
            return []

    def wait_for_lines(self, process, count):
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end and process.poll() is None and len(self.journal()) < count:
            time.sleep(0.005)
        self.assertGreaterEqual(len(self.journal()), count)

    def arms(self):
        return {arm["name"]: arm for arm in self.report()["arms"]}


class OfCommunicators(Launches):
    MODEL = "init=60000,first=30000,capture=300000,destroy=2000,bytes=4194304"

    def start(self, *arguments, **variables):
        return self.start_command(
            ["mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none", str(BUILD / "p5bench"), *arguments, "--backend", "nccl",
             "--collectives", "communicator", *(() if "--seed" in arguments else ("--seed", "4")), "--out", str(self.folder / "out")],
            {"P5BENCH_FAKE_COMMUNICATOR": self.MODEL, "P5BENCH_FAKE_MEMORY": str(128 << 20), **variables})

    def test_all_steps_that_the_library_has_are_measured(self):
        code, output = self.run_it("--tuning=off")
        self.assertEqual(code, UNJUDGED, output)
        steps = {(m["case"]["pattern"], m["case"]["bytes"]): m for m in self.report()["measurements"]}
        lacks = {step: m["because"] for (step, _), m in steps.items() if m["outcome"] != "measured"}
        self.assertLessEqual({m["outcome"] for m in steps.values()}, {"measured", "skipped"})
        # The fakes have shrink and grow if they are built with NCCL 2.27 or later.
        self.assertEqual(set(lacks) - {"revoke"}, set() if built_with()["NCCL"] >= (2, 27) else {"shrink", "grow"}, output)
        for step, because in lacks.items():
            self.assertRegex(because, f"^NCCL [0-9.]+ has no ncclComm{step.capitalize()}$")
        least = {"init": 60e3, "first": 30e3, "init_again": 60e3, "grow": 60e3, "split": 60e3, "split_first": 30e3, "shrink": 60e3, "destroy": 2e3}
        for (step, _), m in steps.items():
            self.assertIsNone(m["throughput"])
            if m["outcome"] == "measured":
                self.assertGreaterEqual(m["latency"]["min_us"], least.get(step, 0), step)
                self.assertEqual(m["latency"]["samples"] == 1, step in ("init", "first"), step)
        costs = steps["init", 0]["communicator_costs"]
        self.assertEqual(costs["gpu_memory_bytes"], 4 << 20)
        self.assertAlmostEqual(costs["init_bootstrap_s"], 0.06)
        self.assertEqual(steps["split", 0]["communicator_costs"]["gpu_memory_bytes"], 4 << 20)
        self.assertEqual(steps["split_first", 8]["selection"]["source"], "nccl log")
        self.assertIn("Communicators: joining ", output.replace("\n  ", " "))
        capture, = [m for (step, _), m in steps.items() if step == "capture"]
        self.assertLess(capture["latency"]["median_us"], 300e3, "the first capture on a communicator was measured")

    @unittest.skipUnless(NIGHTLY, "nightly: the simulator's communicators stand for it")
    def test_an_arm_that_waits_a_fifth_longer_to_join_is_found_in_nine_of_ten(self):
        """The fake waits to make a communicator: 100 ms, or 120 ms, at the start of a launch and again within it. Weekly ten times."""
        runs = 10 if os.environ.get("P5BENCH_WEEKLY") else 1
        found, answers = 0, []
        for run in range(runs):
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            code, output = self.run_it("ab", "--b", "P5BENCH_FAKE_COMMUNICATOR=init=120000", "--seed", str(run),
                                       P5BENCH_FAKE_COMMUNICATOR="init=100000", P5BENCH_MOST_SAMPLES="6")
            comparison = json.loads((self.folder / "out" / "latest" / "comparison.json").read_text())
            slower = {row["collective"] for row in comparison["bands"] if row["answer"] == "regression"}
            answers.append((code, sorted(slower)))
            found += code == 10 and bool(slower & {"communicator init", "communicator init_again"})
        self.assertGreaterEqual(found, 0.9 * runs, answers)


class Replicated(Launches):
    def test_each_case_is_measured_in_each_launch(self):
        code, output = self.run_it("--launches", "3", "--tuning=off")
        self.assertEqual(code, UNJUDGED, output)
        report, journal = self.report(), self.journal()
        self.assertEqual(report["run"]["launches"], 3)
        self.assertEqual(len(report["measurements"]), 2)
        for m in report["measurements"]:
            lines = [line for line in journal if line["case"] == m["case"]]
            self.assertEqual([line["launch"] for line in lines], [0, 1, 2])
            self.assertEqual(m["launches_us"], [line["throughput"]["median_us"] for line in lines])
            self.assertEqual(m["latency_launches_us"], [line["latency"]["median_us"] for line in lines])
            self.assertEqual(m["throughput"]["median_us"], sorted(m["launches_us"])[1])
            self.assertEqual(m["throughput"]["samples"], sum(len(line["throughput"]["samples_us"]) for line in lines))
            self.assertIsNone(m["throughput"]["ci95_us"], "three launches give no interval")

    def test_a_soak_starts_workers_anew_until_its_time_is_over(self):
        code, output = self.run_it("--soak", "10s", "--budget", "3s", "--tuning=off", sizes="64")
        self.assertEqual(code, UNJUDGED, output)
        report, journal = self.report(), self.journal()
        self.assertGreaterEqual(report["run"]["launches"], 2)
        self.assertEqual([line["launch"] for line in journal], list(range(report["run"]["launches"])))

    def test_a_worker_that_dies_in_the_second_launch_costs_one_case_of_it(self):
        process = self.start("--launches", "3", "--tuning=off", sizes="64,1KiB,4KiB", P5BENCH_MOST_SAMPLES="100")
        self.wait_for_lines(process, 4)
        os.kill(self.workers()[-1], signal.SIGKILL)
        output, _ = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 12, output)
        journal, report = self.journal(), self.report()
        self.assertEqual(report["status"], "complete")
        failed = [line for line in journal if line["outcome"] == "failed"]
        self.assertEqual(len(failed), 1, [line["because"] for line in failed])
        self.assertIn("signal 9", failed[0]["because"])
        self.assertEqual(len(journal), 9)
        whole = [m for m in report["measurements"] if m["outcome"] == "failed"]
        self.assertEqual(len(whole), 1)
        self.assertRegex(whole[0]["because"], rf"^in launch {failed[0]['launch'] + 1} of 3: rank \d in .*signal 9")
        self.assertEqual(sorted(len(m["launches_us"]) for m in report["measurements"]), [2, 3, 3])

    def test_a_signal_leaves_what_the_launches_before_measured(self):
        process = self.start("--launches", "50", "--tuning=off")
        self.wait_for_lines(process, 3)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE_S)
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"]), ("partial", 12), output)
        self.assertEqual(len(report["measurements"]), 2)
        for m in report["measurements"]:
            self.assertGreaterEqual(len(m["launches_us"]), 1)
        self.assertGreaterEqual(sum(len(m["launches_us"]) for m in report["measurements"]), 3)


class Arms(Launches):
    def ab(self, a, b, *arguments, **how):
        return self.run_it("ab", "--a", a, "--b", b, *arguments, **how)

    def test_arms_take_turns_in_fresh_processes_and_are_told_apart(self):
        code, output = self.ab("", "NCCL_MAX_CTAS=8", "--launches", "2", sizes="64")
        self.assertIn(code, (0, 10, 14), output)
        turns = [(line["case"]["arm"], line["launch"]) for line in self.journal()]
        self.assertEqual(list(collections.Counter(turns)), [("a", 0), ("b", 0), ("b", 1), ("a", 1)])
        self.assertEqual([m["case"]["settings"] for m in self.report()["measurements"] if m["case"]["arm"] == "b"],
                         [{"NCCL_MAX_CTAS": "8"}])

    @unittest.skipUnless(NIGHTLY, "nightly: the simulator's arms stand for it")
    def test_a_slower_arm_is_a_regression_beyond_all_noise(self):
        code, output = self.ab(f"P5BENCH_FAKE={STEADY}", "P5BENCH_FAKE=slow:rank=1:us=2500", "--launches", "5", sizes="64")
        self.assertEqual(code, 10, output)
        comparison = json.loads((self.folder / "out" / "latest" / "comparison.json").read_text())
        self.assertEqual(comparison["answer"], "regression")
        row = next(row for row in comparison["bands"] if row["quantity"] == "latency")  # so small ones are decided
        self.assertEqual((row["base_launches"], row["new_launches"]), (5, 5))
        self.assertGreater(row["time"]["ratio"], 1.5)
        self.assertIn({"kind": "environment", "name": "P5BENCH_FAKE", "base": STEADY, "new": "slow:rank=1:us=2500"}, comparison["differences"])

    def test_what_the_operator_set_reaches_both_arms_unless_one_names_it(self):
        code, output = self.ab("", "NCCL_PROTO=,NCCL_X_TOKEN=hunter2,NCCL_ALGO=ring,tree", "--launches", "1", sizes="64",
                               NCCL_NVLS_ENABLE="0", NCCL_PROTO="LL")
        self.assertIn(code, (0, 10, 14), output)
        a, b = (self.arms()[name]["context"] for name in "ab")
        self.assertEqual((a["env.NCCL_NVLS_ENABLE"], b["env.NCCL_NVLS_ENABLE"]), ("0", "0"))
        self.assertEqual((a.get("env.NCCL_PROTO"), b.get("env.NCCL_PROTO")), ("LL", None))
        self.assertEqual((a.get("env.NCCL_ALGO"), b.get("env.NCCL_ALGO")), (None, "ring,tree"))
        self.assertIn("set", b["env.NCCL_X_TOKEN"])
        for path in (self.folder / "out").rglob("*.*"):
            self.assertNotIn("hunter2", path.read_text(errors="replace"), path)

    def test_arms_that_differ_on_one_rank_alone_are_compared(self):
        wrapper = self.folder / "per-rank"
        wrapper.write_text('#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 1 ] || export NCCL_MAX_CTAS=8\nexec "$@"\n')
        wrapper.chmod(0o755)
        for env, exits in (("local", (0, 10, 14)), ("rank0", (2,))):
            code, output = self.ab("", "NCCL_MAX_CTAS=8", "--env", env, "--launches", "1", sizes="64", before=[str(wrapper)])
            self.assertIn(code, exits, output)

    def test_what_nccl_says_of_one_arm_alone_names_the_arm(self):
        """An arm whose ranks share a GPU, one of which NCCL says so, and what NCCL says of both."""
        says = "P5BENCH_FAKE_LOG=P2P is disabled between NVLINK connected GPUs 1 and 0"
        every = (("", "P5BENCH_FAKE_GPUS=1", "nccl.duplicate_gpu", "only in arm b: NCCL's log of rank"),
                 (says, f"{says},NCCL_MAX_CTAS=8", "nccl.p2p_off", "NCCL's log of rank"),
                 (says, "", "nccl.p2p_off", "only in arm a: NCCL's log of rank"))
        for a, b, finding, evidence in every if NIGHTLY else every[:2]:
            with self.subTest(a=a, b=b):
                _, output = self.ab(a, b, "--launches", "1", "--allow-shared-gpu", sizes="64")
                found = {f["id"]: f["evidence"] for f in self.report()["findings"]}
                self.assertIn(finding, found, output)
                self.assertTrue(found[finding].startswith(evidence), found[finding])

    def test_two_libraries_side_by_side(self):
        other = self.folder / "other"
        other.mkdir()
        shutil.copy(FAKES / "libnccl.so.2", other)
        code, output = self.ab("", f"LD_LIBRARY_PATH={other},P5BENCH_FAKE_NCCL_VERSION=21903", "--launches", "1", sizes="64")
        self.assertIn(code, (0, 10, 14), output)
        a, b = (self.arms()[name]["context"] for name in "ab")
        self.assertEqual(pathlib.Path(b["nccl.path"]).resolve(), (other / "libnccl.so.2").resolve())
        self.assertNotEqual(a["nccl.path"], b["nccl.path"])
        self.assertEqual(b["nccl"], "NCCL 2.19.3")
        self.assertNotEqual(a["nccl"], b["nccl"])
        self.assertIn(str(other), b["libraries"])
        self.assertIn("libcudart", b["libraries"], "what the operator's path holds is still found")
        self.assertIn("NCCL 2.19.3", output)
        comparison = json.loads((self.folder / "out" / "latest" / "comparison.json").read_text())
        self.assertIn("NCCL 2.19.3", {each["new"] for each in comparison["differences"] if each["kind"] == "software"})

    def test_an_arm_that_does_not_start_fails_and_the_others_figures_stay(self):
        broken = self.folder / "broken"
        broken.mkdir()
        (broken / "libnccl.so.2").write_text("no library")
        code, output = self.ab("", f"LD_LIBRARY_PATH={broken}", sizes="64")
        self.assertEqual(code, 12, output)
        for m in self.report()["measurements"]:
            failed = m["case"]["arm"] == "b"
            self.assertEqual(m["outcome"], "failed" if failed else "measured")
            self.assertEqual(len(m["launches_us"]), 0 if failed else 1)
        self.assertRegex(self.arms()["b"]["problem"], "^it did not start: rank [01]: ")
        self.assertIn("arm b: it did not start", output)

    def test_a_folder_that_is_not_there_is_refused(self):
        code, output = self.ab("", f"LD_LIBRARY_PATH={self.folder}/nothing")
        self.assertEqual(code, 2, output)
        self.assertRegex(output, r"--b: LD_LIBRARY_PATH: there is no folder '.*/nothing'")
        self.assertFalse((self.folder / "out").exists())


if __name__ == "__main__":
    skip_unless_built()
    unittest.main(verbosity=2)
