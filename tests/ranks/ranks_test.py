"""p5bench under mpirun on this host: every collective, type and reduction verified for several numbers of ranks, the
recorded values, and the state after something ends the run."""

import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import FEW_SAMPLES, Folder, NIGHTLY, PATIENCE_S, PROGRAM, collectives, main, mpirun, read_report, wait_for  # noqa: E402

# Long enough that it has to be ended from outside.
ENDLESS = ["--budget", "10min", "--max", "1MiB", "--collectives", "all_reduce,all_gather", "--type", "all", "--op", "all",
           "--factor", "2", "--quiet", "--out", "out"]


REDUCE = ("all_reduce", "reduce_scatter", "reduce")
IN_PLACE = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter")


class Verified(Folder):
    def measure(self, ranks, *arguments):
        budget, patience = ("300s", 400) if NIGHTLY else ("150s", PATIENCE_S)
        done = self.run_it("--quiet", "--budget", budget, "--out", "out", *arguments, ranks=ranks, patience=patience,
                           variables=FEW_SAMPLES)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        report = read_report(self.folder / "out" / "latest" / "report.json")
        self.assertEqual((report["status"], report["exit_code"], report["run"]["ranks"]), ("complete", 0, ranks))
        for measurement in report["measurements"]:
            self.assertEqual((measurement["outcome"], measurement["wrong_elements"], measurement["because"]),
                             ("measured", 0, ""), measurement["case"])
        return report

    def assert_types_and_ops_are_right(self, ranks, *arguments, types="all", ops="all", sizes="1000", names=None):
        """The last rank is the root."""
        if NIGHTLY:
            types = ops = "all"
        names = names or collectives(ranks)
        report = self.measure(ranks, "--type", types, "--op", ops, "--sizes", sizes, "--root", ranks - 1,
                              "--collectives", ",".join(names), *arguments)
        number_of_types = 12 if types == "all" else len(types.split(","))
        number_of_ops = 6 if ops == "all" else len(ops.split(","))
        cases = {(m["case"]["collective"], m["case"]["type"], m["case"]["op"]) for m in report["measurements"]}
        in_place = {m["case"]["in_place"] for m in report["measurements"]}
        for collective in names:
            left_out = collective == "p2p" and ranks < 2 or in_place == {True} and collective not in IN_PLACE
            self.assertEqual(len([case for case in cases if case[0] == collective]),
                             0 if left_out else number_of_types * (number_of_ops if collective in REDUCE else 1), collective)
        return report

    def test_one_rank(self):
        self.assert_types_and_ops_are_right(1, types="uint8,int64,float16,float32,float8_e4m3")
        self.assertTrue(any("p2p: left out" in remark for remark in self.report()["run"]["remarks"]))

    def test_two_ranks(self):
        self.assert_types_and_ops_are_right(2, sizes="64KiB" if NIGHTLY else "1000", ops="min,avg")

    def test_three_ranks(self):
        self.assert_types_and_ops_are_right(3, types="uint8,float16,bfloat16,float64")

    def test_four_ranks(self):
        self.assert_types_and_ops_are_right(4, types="int8,bfloat16", ops="sum,max,mulsum")

    def test_seven_ranks(self):
        self.assert_types_and_ops_are_right(7, types="float64", ops="avg")

    @unittest.skipUnless(NIGHTLY, "nightly: four and seven stand for them")
    def test_five_and_six_ranks(self):
        for ranks in (5, 6):
            self.measure(ranks, "--collectives", ",".join(collectives()), "--sizes", "1000", "--root", 3)

    def test_in_place(self):
        report = self.assert_types_and_ops_are_right(3, "--in-place", types="int32,float16,float32", ops="sum,mulsum", names=IN_PLACE)
        self.assertEqual({m["case"]["in_place"] for m in report["measurements"]}, {True})

    def test_in_place_measures_pairs_out_of_place(self):
        report = self.measure(2, "--in-place", "--sizes", "8")
        self.assertTrue(any("p2p: measured out of place" in each for each in report["run"]["remarks"]))
        self.assertEqual({(m["case"]["collective"] == "p2p", m["case"]["in_place"]) for m in report["measurements"]},
                         {(True, False), (False, True)})

    @unittest.skipUnless(NIGHTLY, "nightly: the last rank, and all roots in one case, stand for them")
    def test_every_root(self):
        for root in range(4):
            for more in ([], ["--in-place"]):
                report = self.measure(4, "--collectives", "broadcast,reduce", "--sizes", "40000", "--root", root, *more)
                self.assertEqual({m["case"]["root"] for m in report["measurements"]}, {root})

    def test_unaligned_buffers(self):
        report = self.assert_types_and_ops_are_right(3, "--unalign", 1, types="int8,float16,float64", ops="sum", names=REDUCE)
        self.assertEqual({m["case"]["unalign"] for m in report["measurements"]}, {1})

    def test_all_roots_in_one_case(self):
        report = self.measure(3, "--collectives", "broadcast,reduce,gather,scatter", "--sizes", "4000", "--root", "all")
        for measurement in report["measurements"]:
            self.assertEqual([each["root"] for each in measurement["roots"]], [0, 1, 2])
            self.assertIn(measurement["slowest_root"], (0, 1, 2))

    def test_large_messages_take_other_ways(self):
        names = ",".join(collectives() if NIGHTLY else ("all_reduce", "all_gather", "reduce_scatter", "broadcast"))
        size = "8MiB" if NIGHTLY else "1100KiB"  # above 1 MiB, and so measured once
        self.measure(3, "--collectives", names, "--sizes", size, "--root", 1)
        if NIGHTLY:
            self.measure(3, "--collectives", ",".join(IN_PLACE), "--sizes", size, "--root", 1, "--in-place")

    def test_a_scheduler_with_an_odd_name_does_not_say_where_the_run_goes(self):
        quick = ["--collectives", "all_reduce", "--sizes", "8", "--backend", "mpi", "--quiet", "--out", "out"]
        for name, kept in (("../../x", "hosts-1n"), ("a\n\x1bb", "hosts-1n"), ("lab-1", "lab-1")):
            with self.subTest(name=name):
                done = self.run_it(*quick, variables={"SLURM_CLUSTER_NAME": name})
                self.assertEqual(done.returncode, 0, done.stderr)
                report = read_report(self.folder / "out" / "latest" / "report.json")
                self.assertEqual(report["run"]["cluster"], kept)
                self.assertTrue((self.folder / "out" / kept / "latest" / "report.json").exists())
                about = [remark for remark in report["run"]["remarks"] if "SLURM_CLUSTER_NAME" in remark]
                self.assertEqual(len(about), 0 if kept == name else 1, about)
                for remark in about:
                    self.assertIn("--cluster", remark)
                    self.assertTrue(remark.isprintable(), remark)

    def test_groups_of_a_node(self):
        self.measure(4, "--group", "node", "--sizes", "8,64KiB", *([] if NIGHTLY else ["--collectives", "all_reduce"]))

    def test_groups_by_stride(self):
        report = self.measure(4, "--group", "stride:2", "--sizes", "8,64KiB" if NIGHTLY else "64KiB")
        for measurement in report["measurements"]:
            self.assertEqual(measurement["case"]["ranks"], 2)

    def test_groups_of_different_sizes(self):
        names = ",".join(collectives() if NIGHTLY else ("p2p", "all_gather", "reduce"))
        self.measure(7, "--group", "stride:3", "--collectives", names, "--sizes", "8,999" if NIGHTLY else "999", "--root", 1)

    def test_pairs_of_all_ranks(self):
        report = self.measure(4, "--collectives", "p2p", "--sizes", "8")
        for measurement in report["measurements"]:
            one_way = measurement["case"]["pattern"] == "one_way"
            self.assertEqual([pair[:2] for pair in measurement["pairs"]],
                             [[a, b] for a in range(4) for b in range(4) if (a != b if one_way else a < b)])
            slowest = max(measurement["pairs"], key=lambda pair: pair[2])
            self.assertEqual(measurement["slowest_pair"], slowest[:2])
            self.assertEqual(measurement["throughput"]["median_us"], slowest[2])

    def test_sizes_are_rounded_up_to_an_element_per_rank(self):
        report = self.measure(4, "--collectives", "all_gather", "--sizes", "8,12,16,17,1001")
        self.assertEqual(sorted((m["case"]["bytes"], m["case"]["bytes_per_rank"]) for m in report["measurements"]),
                         [(16, 4), (32, 8), (1008, 252)])

    def test_odd_sizes(self):
        report = self.measure(3, "--sizes", "1,7,4097,65535", "--type", "int8,float64", "--collectives",
                              ",".join(collectives()) if NIGHTLY else "all_reduce,all_gather")
        sizes = {m["case"]["bytes"] for m in report["measurements"]
                 if (m["case"]["collective"], m["case"]["type"]) == ("all_reduce", "int8")}
        self.assertEqual(sizes, {1, 7, 4097, 65535})

    def test_sizes_per_rank(self):
        report = self.measure(3, "--per-rank", "--collectives", "all_gather,all_reduce,reduce_scatter,all_to_all,broadcast",
                              "--sizes", "1KiB")
        self.assertEqual({(m["case"]["collective"], m["case"]["bytes"], m["case"]["bytes_per_rank"])
                          for m in report["measurements"]},
                         {("all_gather", 3072, 1024), ("all_reduce", 1024, 1024), ("reduce_scatter", 3072, 1024),
                          ("all_to_all", 3072, 1024), ("broadcast", 1024, 1024)})

    def test_bandwidths_are_those_of_nccl_tests(self):
        factors = {"p2p": 1, "all_reduce": 2 * 2 / 3, "all_gather": 2 / 3}
        if NIGHTLY:
            factors |= {"reduce_scatter": 2 / 3, "all_to_all": 2 / 3, "all_to_allv": 2 / 3, "gather": 2 / 3, "scatter": 2 / 3,
                        "broadcast": 1, "reduce": 1, "send_recv": 1}
        names = collectives() if NIGHTLY else factors
        report = self.measure(3, "--sizes", "64KiB", "--type", "int8", "--collectives", ",".join(names))
        self.assertEqual({m["case"]["collective"] for m in report["measurements"]}, set(factors))
        for measurement in report["measurements"]:
            series, case = measurement["throughput"], measurement["case"]
            self.assertAlmostEqual(series["algbw_gb_per_s"], case["bytes"] / series["median_us"] * 1e-3, 6)
            self.assertAlmostEqual(series["busbw_gb_per_s"] / series["algbw_gb_per_s"],
                                   factors[case["collective"]], 6)

    def test_traffic_of_a_file_moves_its_bytes(self):
        (self.folder / "moe.csv").write_text("0,4KiB,0\n1024,0,12\n8,2048,0\n")
        report = self.measure(3, "--collectives", "all_to_allv", "--traffic", "moe.csv")
        self.assertEqual({m["case"]["bytes"] for m in report["measurements"]}, {6144})
        self.assertEqual([[round(6144 * share) for share in row] for row in report["traffic"][0]["matrix"]],
                         [[0, 4096, 0], [1024, 0, 12], [8, 2048, 0]])
        self.assertTrue(all(m["case"]["traffic"].startswith("moe.csv ") for m in report["measurements"]))

    def test_traffic_of_generators(self):
        for traffic in ("zipf:1.1", "k-hot:2", "ragged", "burst", "expert:16,8,2") if NIGHTLY else ("expert:16,8,2",):
            report = self.measure(4, "--collectives", "all_to_allv", "--traffic", traffic, "--sizes", "8,1000,64KiB",
                                  "--type", "int8,float64")
            self.assertEqual({m["case"]["traffic"] for m in report["measurements"]}, {traffic})
            self.assertEqual(report["traffic"][0]["name"], traffic)

    def test_tokens_go_to_their_experts_and_come_back(self):
        every = ((2, "expert:20,8,3", 24), (3, "expert:33,9,4@2", 7), (4, "expert:5,64,8", 1000))
        for ranks, traffic, hidden in every if NIGHTLY else every[:2]:
            tokens = int(traffic.split(":")[1].split(",")[0])
            report = self.measure(ranks, "--collectives", "dispatch,combine", "--traffic", traffic, "--hidden", hidden,
                                  "--type", "bfloat16,float8_e4m3,int32")
            cases = [m["case"] for m in report["measurements"]]
            # Sums of two ranks' values fit four bits, those of three do not.
            element = {"bfloat16": 2, "float8_e4m3": 1, "int32": 4}
            wanted = {(name, of) for name in ("dispatch", "combine") for of in element}
            self.assertEqual({(case["collective"], case["type"]) for case in cases},
                             wanted - ({("combine", "float8_e4m3")} if ranks > 2 else set()))
            described = {(case["traffic"], case["tokens"], case["hidden"]) for case in cases}
            self.assertEqual(described, {(traffic, tokens, hidden)})
            busiest = {case["bytes"] / element[case["type"]] / hidden for case in cases}
            self.assertEqual(len(busiest), 1)
            self.assertTrue(tokens <= busiest.pop() <= ranks * tokens)
            self.assertTrue(all("latency" in m for m in report["measurements"]))

    def test_tokens_of_decode_and_prefill_by_default(self):
        report = self.measure(3, "--collectives", "dispatch,combine", "--hidden", 3)
        cases = [m["case"] for m in report["measurements"]]
        self.assertEqual({(case["collective"], case["traffic"], case["type"]) for case in cases},
                         {(name, f"expert:{tokens},258,8", "bfloat16")
                          for name in ("dispatch", "combine") for tokens in (128, 4096)})
        report = self.measure(2, "--collectives", "dispatch,all_reduce", "--sizes", "1KiB", "--type", "int8")
        cases = [m["case"] for m in report["measurements"]]
        self.assertEqual({case["tokens"] for case in cases if case["collective"] == "dispatch"}, {128, 4096})
        report = self.measure(1, "--collectives", "dispatch,all_reduce", "--sizes", "8")
        self.assertTrue(any("dispatch: left out, it needs groups of two" in each for each in report["run"]["remarks"]))


class Refused(Folder):
    def test_rank_0_alone_speaks_of_bad_input(self):
        # Found before MPI starts; by all ranks; by rank 0 alone, which makes the folder.
        every = (["--sizes", "8KBx"], ["--group", "stride:9"], ["--out", "/proc/p5bench"], ["report", "missing"],
                 ["--collectives", "all_to_allv", "--traffic", "no.csv"], ["--collectives", "allreduce"],
                 ["--fault", "nic:n0r0:0.5"], ["--sizes", "1T"], ["--platform", "p5.48xlrge"], ["--cuda-graph"],
                 ["--register", "local"])
        for arguments in every if NIGHTLY else every[:3]:
            with self.subTest(arguments=arguments):
                done = self.run_it(*arguments, ranks=3)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stderr.count("p5bench: "), 1, done.stderr)
                self.assertEqual(self.listing(), [])

    def test_ranks_with_different_arguments_are_refused(self):
        if self.run_it(":", "-np", "1", "true", program=("true",), ranks=1).returncode:
            self.skipTest("this mpirun starts no two programs in one job")  # that of Debian 13, Open MPI 5.0.7, crashes
        common = ["--collectives", "all_reduce", "--sizes", "8", "--out", "out"]
        simulated = ["--backend", "sim", "--platform", "p5.48xlarge"]
        every = (
            (["--backend", "mpi"], simulated, "rank 1 has '--backend sim --platform p5.48xlarge' where rank 0 has '--backend mpi'"),
            (["--backend", "mpi"], ["--bakend", "mpi"], "rank 1 has '--bakend' where rank 0 has '--backend'"),
            (simulated, ["--backend", "mpi"], "rank 1 has '--backend mpi' where rank 0 has '--backend sim"),
            (["--backend", "mpi"], ["--backend", "mpi", "--quiet"], "rank 1 has '--quiet' where rank 0 has nothing"),
            (["plan"], ["check"], "rank 1 has 'check' where rank 0 has 'plan'"))
        for first, second, told in every if NIGHTLY else every[:2]:
            with self.subTest(first=first, second=second):
                done = self.run_it(*first, *common, ":", "-np", "1", PROGRAM, *second, *common, ranks=1)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stderr.count("p5bench: "), 1, done.stderr)
                self.assertIn(told, done.stderr)
                self.assertEqual(self.listing(), [])
        done = self.run_it("--backend", "mpi", *common, ":", "-np", "1", PROGRAM, "--backend", "mpi", *common, ranks=1)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_ranks_of_another_version_are_refused(self):
        if self.run_it(":", "-np", "1", "true", program=("true",), ranks=1).returncode:
            self.skipTest("this mpirun starts no two programs in one job")
        version = self.run_it("--version").stdout.split()[1]
        other = self.folder / "other"
        other.write_bytes(PROGRAM.read_bytes().replace(f"{version}\0".encode(), f"{version[:-1]}x\0".encode()))
        other.chmod(0o755)
        common = ["--backend", "mpi", "--collectives", "all_reduce", "--sizes", "8", "--out", "out"]
        for first, second in ((PROGRAM, other), (other, PROGRAM)) if NIGHTLY else ((PROGRAM, other),):
            done = self.run_it(*common, ":", "-np", "1", second, *common, ranks=1, program=(first,))
            self.assertEqual(done.returncode, 13, done.stderr)
            self.assertEqual(done.stderr.count("p5bench: "), 1, done.stderr)
            self.assertRegex(done.stderr, rf"rank 1 on \S+ runs p5bench \S+, rank 0 on \S+ p5bench \S+: install the same version")
            self.assertIn(f" {version[:-1]}x", done.stderr)

    def test_help_and_lists_are_printed_once(self):
        for arguments in (["--help"], ["--version"], ["list", "collectives"]) if NIGHTLY else (["list", "collectives"],):
            alone, together = self.run_it(*arguments), self.run_it(*arguments, ranks=3)
            self.assertEqual((together.returncode, together.stdout), (0, alone.stdout))

    # The variables that srun sets for its tasks.
    STEP = {"SLURM_JOBID": "7", "SLURM_JOB_ID": "7", "SLURM_NODELIST": "n1", "SLURM_STEP_ID": "0", "SLURM_STEPID": "0"}

    def test_copies_of_a_job_of_one_rank_are_refused_by_each(self):
        for size, rank, more in (("PMI_SIZE", "PMI_RANK", {}), ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", {}),
                                 ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", self.STEP), ("", "PMIX_RANK", {}),
                                 ("WORLD_SIZE", "RANK", {"LOCAL_RANK": "0"})):
            for number in (0, 1) if size and NIGHTLY else (1,):
                variables = {**more, rank: str(number), **({size: "4"} if size else {})}
                for backend in ([], ["--backend", "sim", "--platform", "p5.48xlarge"]) if NIGHTLY else ([],):
                    with self.subTest(variables=variables, backend=backend):
                        done = self.run_it("--out", "out", *backend, variables=variables)
                        self.assertEqual(done.returncode, 13, done.stderr)
                        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                        for word in ("MPI sees a job of 1", f"rank {number} ({rank})", "srun --mpi=pmix"):
                            self.assertIn(word, done.stderr)
                        self.assertEqual(self.listing(), [])

    def test_one_task_of_srun_needs_no_job(self):
        done = self.run_it("--sizes", "8", "--collectives", "all_reduce", "--backend", "mpi", "--out", "out",
                           variables={**self.STEP, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.report()["run"]["ranks"], 1)

    def test_a_plan_of_this_machine_is_made_alone_and_together(self):
        for ranks in (None, 2) if NIGHTLY else (2,):
            done = self.run_it("plan", "--collectives", "all_reduce", "--sizes", "8", ranks=ranks)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.startswith("2 ranks on 1 node" if ranks else "1 rank on 1 node"), done.stdout)

    def test_what_measures_nothing_does_not_mind_torchrun(self):
        done = self.run_it("list", "backends", variables={"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)


class Recorded(Folder):
    def test_no_secret_is_in_any_file(self):
        secrets = {"NCCL_X_TOKEN": "hunter21", "FI_AUTH_KEY": "hunter22", "OMPI_MCA_oob_password": "hunter23"}
        done = self.run_it("--sizes", "8", "--collectives", "all_reduce", "--backend", "mpi", "--out", "out", ranks=2,
                           variables={**secrets, "NCCL_IB_PKEY": "hunted"})
        self.assertEqual(done.returncode, 0, done.stderr)
        context = self.report()["context"]
        self.assertEqual(context["env.NCCL_IB_PKEY"], "hunted")
        for name in secrets:
            self.assertIn("set", context[f"env.{name}"])
        self.assertEqual([name for name in context if "orte_" in name or "MCA_ess" in name], [])
        for path in self.folder.rglob("*"):
            if path.is_file():
                self.assertNotIn("hunter", path.read_text(errors="replace"), path)
        self.assertNotIn("hunter", done.stdout + done.stderr)


class Ended(Folder):
    """Something ends a run: its report remains, valid and partial, and no process does."""

    # mpirun kills after a second what a signal has not ended, which on busy cores is before the page is written.
    PATIENT = {"OMPI_MCA_odls_base_sigkill_timeout": "5"}

    def begin(self, program=(PROGRAM,), arguments=ENDLESS, variables=None):
        run = self.start(*arguments, ranks=3, program=program, variables=variables)
        begun = wait_for(lambda: self.files("measurements.jsonl") or run.poll() is not None)
        self.assertTrue(begun and run.poll() is None, self.printed())
        return run

    def assert_partial(self, run, *words):
        try:
            self.assertNotEqual(run.wait(PATIENCE_S), 0, self.printed())
        except subprocess.TimeoutExpired:
            self.fail(f"the run does not end: {self.printed()}")
        self.assert_none_left()
        report = self.report()
        self.assertEqual((report["status"], report["exit_code"]), ("partial", 12))
        for word in words:
            self.assertIn(word, report["run"]["ended_by"])
        self.assertTrue(report["run"]["ended"])
        outcomes = [measurement["outcome"] for measurement in report["measurements"]]
        self.assertIn("measured", outcomes)
        self.assertLessEqual(outcomes.count("failed"), 1)
        journal = self.files("measurements.jsonl")[0].read_text().splitlines()
        self.assertEqual([json.loads(line)["outcome"] for line in journal], outcomes)
        self.assertEqual(len(self.files("report.html")), 1)
        self.assertEqual([name for name in self.listing() if "lost-rank" in name], [])
        return report

    def rank(self, number):
        for pid in self.processes():
            if f"OMPI_COMM_WORLD_RANK={number}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                return pid
        self.fail(f"there is no rank {number}")

    def test_by_sigterm_to_mpirun(self):
        run = self.begin(variables=self.PATIENT)
        run.send_signal(signal.SIGTERM)
        self.assert_partial(run, "SIGTERM")

    def test_by_a_signal_and_gone_on_with(self):
        run = self.begin()
        os.kill(self.rank(0), signal.SIGTERM)
        earlier = self.assert_partial(run, "SIGTERM")
        told, = filter(None, (re.match(r"(\d+) of the (\d+) cases of the plan were not measured: \d+ of ", each)
                              for each in earlier["run"]["remarks"]))
        self.assertEqual(int(told[1]) + sum(m["outcome"] == "measured" for m in earlier["measurements"]), int(told[2]))
        folder = (self.folder / "out" / "latest").resolve()
        done = self.run_it("--resume", "--budget", "3s", *ENDLESS[2:], ranks=3)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        report = read_report(self.folder / "out" / "latest" / "report.json")
        self.assertEqual(report["status"], "complete")
        # The resumed run is judged by the limits that it finds itself.
        figures = [[m | {"verdict": None} for m in each["measurements"] if m["outcome"] == "measured"] for each in (earlier, report)]
        self.assertEqual(figures[1][:len(figures[0])], figures[0])
        self.assertGreater(len(report["measurements"]), len(earlier["measurements"]))
        self.assertTrue(any(str(folder) in remark for remark in report["run"]["remarks"]))
        self.assertFalse(any("not measured" in remark for remark in report["run"]["remarks"]))

    @unittest.skipUnless(NIGHTLY, "nightly: mpirun passes on SIGTERM for either")
    def test_by_sigint_to_mpirun(self):
        run = self.begin(variables=self.PATIENT)
        run.send_signal(signal.SIGINT)
        self.assert_partial(run, "ended by SIG")

    @unittest.skipUnless(NIGHTLY, "nightly: SIGTERM stands for it, and sim/console_test.py has SIGHUP")
    def test_by_sighup_to_rank_0(self):
        run = self.begin()
        os.kill(self.rank(0), signal.SIGHUP)
        self.assert_partial(run, "SIGHUP")

    def test_by_a_rank_that_does_not_come_to_start(self):
        done = self.run_it("-c", f'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec sleep 600; fi; exec "{PROGRAM}" "$@"', "sh",
                           *ENDLESS, ranks=2, program=("sh",), variables={"P5BENCH_START_LIMIT": "3s"})
        self.assertEqual(done.returncode, 13, done.stderr)
        self.assertIn("the ranks did not start the job within 3 s (MPI_Init): one of them is stopped or did not start", done.stderr)
        self.assertEqual(self.files("report.json"), [])
        self.assert_none_left()

    def test_by_sigterm_to_another_rank(self):
        run = self.begin(variables=self.PATIENT)
        os.kill(self.rank(2), signal.SIGTERM)
        self.assert_partial(run, "SIGTERM")

    @unittest.skipUnless(NIGHTLY, "nightly: by day failing_ranks_test.py has it")
    def test_by_a_rank_that_is_killed(self):
        run = self.begin(variables=self.PATIENT)
        os.kill(self.rank(1), signal.SIGKILL)
        self.assert_partial(run, "SIGTERM")

    @unittest.skipUnless(NIGHTLY, "nightly: by day failing_ranks_test.py has it")
    def test_by_rank_0_that_is_killed(self):
        run = self.begin()
        os.kill(self.rank(0), signal.SIGKILL)
        run.wait(PATIENCE_S)
        self.assert_none_left()
        report = self.report()  # the last one that it wrote
        self.assertEqual((report["status"], report["exit_code"]), ("partial", 12))


class Terminal(Folder):
    QUICK = ["--budget", "20s", "--sizes", "8,64KiB", "--collectives", "all_reduce", "--out", "out"]

    def printed_on_a_terminal(self, *command, exits=0, variables=None):
        ours, theirs = pty.openpty()
        try:
            run = self.start(*command, stdin=theirs, stdout=theirs, stderr=theirs, program=(), variables=variables)
            os.close(theirs)
            text, end = b"", time.monotonic() + PATIENCE_S
            while time.monotonic() < end:
                try:
                    if select.select([ours], [], [], 0.2)[0]:
                        text += os.read(ours, 65536)
                except OSError:  # the last process that held the terminal is gone
                    break
            self.assertEqual(run.wait(PATIENCE_S), exits, text)
        finally:
            os.close(ours)
        return text.decode(errors="replace")

    def test_progress_is_shown_on_a_terminal(self):
        text = self.printed_on_a_terminal(PROGRAM, "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "4", *self.QUICK, exits=14)
        self.assertIn("\r\033[K", text)
        self.assertIn(" left", text)

    def test_progress_is_shown_on_the_terminal_of_mpirun(self):
        text = self.printed_on_a_terminal(*mpirun(2), PROGRAM, *self.QUICK)
        self.assertIn("\r\033[K", text)

    def test_no_progress_is_shown_when_quiet(self):
        text = self.printed_on_a_terminal(*mpirun(2), PROGRAM, "--quiet", *self.QUICK, variables=FEW_SAMPLES)
        self.assertNotIn("\r\033[K", text)
        self.assertNotIn("busbw", text)
        self.assertIn("Report: ", text)

    def test_what_does_not_measure_needs_no_job_of_this_mpi(self):
        for arguments in (["list", "formats"], ["--help"], ["explain", "/dev/null"], ["--bugdet"]):
            alone, foreign = self.run_it(*arguments), self.run_it(*arguments, variables={"PMIX_RANK": "1"})
            self.assertEqual((foreign.returncode, foreign.stdout, foreign.stderr), (alone.returncode, alone.stdout, alone.stderr))
        self.assertEqual(self.run_it("topo", variables={"PMIX_RANK": "1"}).returncode, 13)

    def test_no_progress_is_shown_elsewhere(self):
        done = self.run_it(*self.QUICK, ranks=2, variables=FEW_SAMPLES)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        self.assertNotIn("\033", done.stdout)
        self.assertIn("GB/s", done.stdout)


if __name__ == "__main__":
    main()
