"""p5bench's tuner with real workers on the fakes: bad settings never win and affect no others, the operator's variables
are respected, and the files can be loaded. A test that expects a certain winner plants it (support/planted.py); times on
the fakes mean nothing otherwise."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from planted import FASTEST, SLOWED  # noqa: E402
from workers import BUILD, FAKES, built_with, skip_unless_built  # noqa: E402

SCHEMA = pathlib.Path(os.environ["P5BENCH_SOURCE"]) / "reports" / "schema" / "report.schema.json"
NIGHTLY = bool(os.environ.get("P5BENCH_NIGHTLY"))
PER_RANK = "#!/bin/sh\nexport NCCL_TUNER_CONFIG_FILE={}/$OMPI_COMM_WORLD_RANK.csv\nexec \"$@\"\n"


# Rank 1 as on another host: node and file systems of its own.
OTHER_HOST = """#!/bin/sh
export NCCL_HOSTID=node$OMPI_COMM_WORLD_RANK
if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then exec "$@"; fi
exec unshare -m sh -euc '{mounts}
"$@"
find {folder}/tmp -mindepth 1 > {folder}/left
cp -r {folder}/out/. {folder}/other' sh "$@"
"""


class Job(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="p5bench-tuning-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *arguments, before=(), ranks=2, sizes="64KiB,1MiB", program=BUILD / "p5bench", **variables):
        clean = {n: v for n, v in os.environ.items() if not n.startswith(("OMPI_COMM_", "PMIX_", "PMI_", "NCCL_"))}
        clean |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "LD_LIBRARY_PATH": str(FAKES),
                  "TMPDIR": str(self.folder), "OMPI_MCA_mpi_yield_when_idle": "1",
                  # Few buffers are filled, and GPUs are not measured for long.
                  "P5BENCH_FAKE_MEMORY": str(8 << 20), "P5BENCH_MOST_SAMPLES": "6",
                  "P5BENCH_QUICK_LIMIT": "60s"}  # enough to reach all sizes on a busy machine
        timeout = "5s" if "hang" in variables.get("P5BENCH_FAKE", "") else "60s"
        return subprocess.Popen(
            ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", *before, str(program), *arguments, "--backend", "nccl",
             "--sizes", sizes, "--timeout", timeout, "--seed", "4", "--out", str(self.folder / "out")],
            env=clean | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run_it(self, *arguments, **how):
        with self.start(*arguments, **how) as run:
            try:
                printed, _ = run.communicate(timeout=400)
            except subprocess.TimeoutExpired:
                run.kill()
                raise
        return run.returncode, printed

    def check_schema(self, report):
        try:
            import jsonschema
        except ImportError:
            return
        jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(report)


class Ended(Job):
    def test_a_signal_leaves_nothing_of_what_was_being_confirmed(self):
        with self.start("tune", "--tuning=quick", "--collectives", "all_reduce", **SLOWED) as run:
            end = time.monotonic() + 150
            while not (begun := list(self.folder.glob("p5bench-tuner-*/*"))) and run.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
            run.send_signal(signal.SIGTERM)
            printed, _ = run.communicate(timeout=60)
        self.assertTrue(begun, printed)
        self.assertEqual(list(self.folder.glob("p5bench-tuner-*")), [], printed)
        self.assertIn("ended by SIGTERM", printed)


class Tuning(Job):
    def tuning(self, *arguments, **variables):
        code, output = self.run_it("tune", "--tuning=quick", *arguments, **variables)
        latest = self.folder / "out" / "latest"
        report = json.loads((latest / "report.json").read_text())
        self.check_schema(report)
        self.assertEqual(code, 14 if report["tuning"]["outcome"] == "refused" else 0, output)
        self.assertEqual(list(self.folder.glob("p5bench-tuner-*")), [], "the table that was being confirmed is left")
        tuning = report["tuning"]
        self.assertIn(tuning["outcome"], ("settings", "nothing", "refused"))
        for name in tuning["files"]:
            self.assertTrue((latest / name).exists(), name)
        subprocess.run(["bash", "-euc", '. "$0"', str(latest / "nccl.env.sh")], check=True)
        return tuning

    def settings_of(self, tuning):
        return {row["setting"] for row in tuning["rows"]} | {c["winner"] for c in tuning["cells"] if c["believed"]}

    def test_every_size_is_searched_and_judged(self):
        weights = self.folder / "weights"
        weights.write_text("all_reduce 1MiB 3\n")
        names = ("all_reduce", "all_gather") if NIGHTLY else ("all_reduce",)
        tuning = self.tuning("--weights", str(weights), "--collectives", ",".join(names))
        self.assertTrue([remark for remark in tuning["refusals"] if "--weights chooses among variables" in remark], tuning["refusals"])
        self.assertEqual({(c["collective"], c["bytes"]) for c in tuning["cells"]},
                         {(name, size) for name in names for size in (65536, 1 << 20)})
        self.assertTrue(all(c["samples"] > 0 and c["because"] for c in tuning["cells"]))
        self.assertEqual(tuning["failures"], [])

    def test_a_setting_that_gives_wrong_data_is_written_down_and_never_wins(self):
        tuning = self.tuning("--collectives", "all_reduce", sizes="64KiB", P5BENCH_FAKE="wrong:rank=1:operation=1+:what=bit:setting=tree/ll")
        self.assertTrue(tuning["failures"])
        self.assertTrue(all(f["wrong_data"] and f["setting"].split("/")[:2] == ["tree", "ll"] for f in tuning["failures"]), tuning["failures"])
        self.assertFalse([s for s in self.settings_of(tuning) if s.split("/")[:2] == ["tree", "ll"]])

    def test_wrong_data_without_any_setting_is_the_machines_fault(self):
        code, output = self.run_it("tune", "--tuning=quick", P5BENCH_FAKE="wrong:rank=1:operation=1+:what=bit")
        self.assertEqual(code, 11, output)
        tuning = json.loads((self.folder / "out" / "latest" / "report.json").read_text())["tuning"]
        self.assertIn("default", {f["setting"] for f in tuning["failures"] if f["wrong_data"]})
        self.assertEqual(tuning["rows"], [])

    def test_a_failure_without_any_setting_is_the_machines_too(self):
        for operation in ("1+", "17+"):  # of what NCCL is asked for first; of the search
            code, output = self.run_it("tune", "--tuning=quick", "--collectives", "all_reduce",
                                       P5BENCH_FAKE=f"async:rank=1:operation={operation}")
            report = json.loads((self.folder / "out" / "latest" / "report.json").read_text())
            self.check_schema(report)
            self.assertEqual((code, report["exit_code"]), (12, 12), output)
            self.assertEqual(report["tuning"]["outcome"], "refused")
            self.assertIn("and nothing is set on a faulty machine", report["tuning"]["because"])
            self.assertIn("default", {f["setting"] for f in report["tuning"]["failures"]})
            if operation == "1+":
                self.assertEqual(len(report["tuning"]["failures"]), 1, "more failures decide nothing, and each may cost a timeout")
            self.assertRegex(report["decision"]["sentence"], r"^CANNOT TELL: tuning: NCCL's own settings failed at . sizes?, first at rank 1 on ")
            self.assertRegex(output, r"all_reduce (64 KiB|1 MiB) was left out, because it failed with NCCL's own settings: rank 1 in ")
            self.assertIn("if it fails twice at the same rank", report["decision"]["next"][0])
            self.assertNotIn("offers nothing to a tuner", output)

    def test_a_setting_that_crashes_or_hangs_costs_new_workers_and_the_search_goes_on(self):
        for fault in ("crash", "hang") if NIGHTLY else ("hang",):  # by day environments crash
            tuning = self.tuning("--collectives", "all_reduce", P5BENCH_FAKE=f"{fault}:rank=1:operation=1+:setting=tree/ll")
            self.assertTrue(tuning["failures"])
            self.assertTrue(all(f["setting"].startswith("tree/ll") and not f["wrong_data"] for f in tuning["failures"]), tuning["failures"])
            self.assertEqual(len(tuning["cells"]), 2)
            self.assertFalse([s for s in self.settings_of(tuning) if s in ("tree/ll",) or s.startswith("tree/ll/")])

    def test_the_files_name_the_variables_that_jobs_need_and_a_tuning_that_tried_nothing_says_why(self):
        tuning = self.tuning("--collectives", "all_reduce", sizes="64KiB", NCCL_MAX_CTAS="4", TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK="1",
                             P5BENCH_TUNER_REGISTERED="rows", **SLOWED)
        self.assertEqual(tuning["outcome"], "settings")
        self.assertIn("\nP5BENCH_TUNER_REGISTERED=rows\n", (self.folder / "out" / "latest" / "nccl.env").read_text())
        for name in ("nccl.env", "nccl-tuner.csv"):
            self.assertIn("#   jobs with NCCL_MAX_CTAS=4, as it was set here\n", (self.folder / "out" / "latest" / name).read_text())
        self.assertIn("found with NCCL_MAX_CTAS=4 set: jobs that load the settings need the same", tuning["refusals"])
        for arguments, variables, why in ((["--collectives", "p2p"], {}, "NCCL queries no tuner for any of the measured collectives"),
                                          (["--collectives", "all_reduce"], {"NCCL_TUNER_PLUGIN": "/x.so"}, "NCCL_TUNER_PLUGIN is set"),
                                          (["--collectives", "all_reduce"], {"sizes": "512"}, "no settings are searched for 512 B: quick tuning")):
            code, output = self.run_it("tune", "--tuning=quick", *arguments, **variables)
            self.assertEqual(code, 14, output)
            self.assertRegex(output, f"CANNOT TELL: .*nothing was tuned: {why}")
            self.assertIn("# Undecided: ", (self.folder / "out" / "latest" / "nccl.env").read_text())

    def test_sizes_that_do_not_fit_a_gpu_twice_are_left_out(self):
        tuning = self.tuning("--collectives", "all_reduce", sizes="64KiB,2MiB", **SLOWED)  # of 8 MiB
        self.assertEqual({c["bytes"] for c in tuning["cells"]}, {65536})
        self.assertIn("left out of the tuning, where two sets of workers share the devices' memory: all_reduce 2 MiB float32 sum",
                      tuning["refusals"])

    def test_a_tuner_that_is_set_leaves_nothing_to_tune(self):
        for arguments in (["--tuning=full"], ["--tuning=quick", "--delivery", "env"]):
            code, output = self.run_it("tune", *arguments, "--collectives", "all_reduce", NCCL_TUNER_PLUGIN="/x.so")
            self.assertEqual(code, 14, output)
            tuning = json.loads((self.folder / "out" / "latest" / "report.json").read_text())["tuning"]
            self.assertEqual((tuning["outcome"], tuning["arms"], tuning["ways"]), ("refused", [], []))
            self.assertIn("NCCL_TUNER_PLUGIN is set", tuning["because"])
            self.assertIn("unset it to tune, and set P5BENCH_TUNER_CHAIN=/x.so,", tuning["because"])

    def test_without_the_plugins_library_no_settings_for_sizes_are_searched(self):
        there = self.folder / "there"
        there.mkdir()
        for name in ("p5bench", "p5bench-worker-nccl", "p5bench-probe-nvml"):
            shutil.copy(BUILD / name, there)
        code, output = self.run_it("tune", "--tuning=quick", "--collectives", "all_reduce", program=there / "p5bench")
        self.assertEqual(code, 14, output)
        tuning = json.loads((self.folder / "out" / "latest" / "report.json").read_text())["tuning"]
        self.assertEqual((tuning["outcome"], tuning["cells"]), ("refused", []))
        self.assertIn(f"{there}/libnccl-tuner-p5bench.so cannot be read", tuning["because"])

    def test_weights_of_nothing_that_is_measured_choose_no_variables(self):
        weights = self.folder / "weights"
        weights.write_text("reduce_scatter,1MiB,3\n")
        code, output = self.run_it("tune", "--tuning=quick", "--collectives", "all_reduce", "--delivery", "env", "--weights", str(weights))
        self.assertEqual(code, 14, output)
        tuning = json.loads((self.folder / "out" / "latest" / "report.json").read_text())["tuning"]
        self.assertEqual((tuning["outcome"], tuning["arms"]), ("refused", []), "they were said to have failed")
        self.assertIn("no weight counts, so no variables are tried", tuning["refusals"])

    @unittest.skipUnless(NIGHTLY, "nightly: the rules have unit tests")
    def test_what_the_operator_set_is_never_contradicted(self):
        tuning = self.tuning(NCCL_ALGO="ring")
        tried = {c["winner"] for c in tuning["cells"] if c["winner"]}
        self.assertFalse([s for s in tried if not s.startswith("ring/")])
        self.assertFalse([f for f in tuning["failures"] if not f["setting"].startswith("ring/")])

    def test_environments_are_tried_in_workers_of_their_own_and_one_with_which_they_die_fails_alone(self):
        weights = self.folder / "weights"
        weights.write_text("all_reduce 1MiB 3  # most of the traffic\n")
        tuning = self.tuning("--delivery", "env", "--weights", str(weights), P5BENCH_FAKE="crash:rank=1:operation=1+:variable=NCCL_MIN_CTAS")
        self.assertEqual(tuning["cells"], [], "no tuner plugin, so no setting for a size")
        self.assertLessEqual({"NCCL_BUFFSIZE", "NCCL_MIN_CTAS"}, {name for arm in tuning["arms"] for name in arm["environment"]})
        for arm in tuning["arms"]:
            self.assertEqual(arm["speedup"] is None, "NCCL_MIN_CTAS" in arm["environment"], tuning["arms"])
        self.assertEqual(tuning["environment"], next((arm["environment"] for arm in tuning["arms"] if arm["adopted"]), {}))

    @unittest.skipUnless(NIGHTLY, "nightly: the rules have unit tests")
    def test_an_environment_that_the_operator_chose_is_not_tried(self):
        tuning = self.tuning("--delivery", "env", NCCL_BUFFSIZE="1048576")
        self.assertNotIn("NCCL_BUFFSIZE", {name for arm in tuning["arms"] for name in arm["environment"]})

    @unittest.skipUnless(NIGHTLY, "nightly: by day variables are adopted beside products (tuning_beside_test.py)")
    def test_an_environment_that_is_faster_is_adopted_without_a_tuner_plugin(self):
        # The faults take long beside the waiting for a core on a busy machine, which counts in the time with launches.
        code, output = self.run_it("tune", "--tuning=full", "--collectives", "send_recv", sizes="64KiB", P5BENCH_FAKE_CLOCK="100",
                                   P5BENCH_FAKE="slow:rank=0:us=20000:variable=NCCL_MIN_CTAS,slow:rank=0:us=40000")
        self.assertEqual(code, 0, output)
        report = json.loads((self.folder / "out" / "latest" / "report.json").read_text())
        self.assertIn("NCCL_MIN_CTAS", report["tuning"]["environment"], output)
        self.assertIn("NCCL queries no tuner for any of the measured collectives.", report["tuning"]["refusals"])

    def test_ways_of_calling_that_are_no_setting_are_measured(self):
        code, output = self.run_it("tune", "--tuning=full", "--collectives", "send_recv", sizes="64KiB", P5BENCH_FAKE_CLOCK="100")
        self.assertIn(code, (0, 14), output)  # whether variables were faster is chance
        report = json.loads((self.folder / "out" / "latest" / "report.json").read_text())
        self.check_schema(report)
        ways = report["tuning"]["ways"]
        self.assertEqual([way["name"] for way in ways],
                         ["registered buffers", *(["symmetric windows"] if built_with()["NCCL"] >= (2, 27) else []), "CUDA graph"])
        for way in ways:
            self.assertTrue(way["how"])
            self.assertEqual([(size["collective"], size["bytes"]) for size in way["sizes"]], [("send_recv", 65536)])
            self.assertTrue(all(size["gain"] for size in way["sizes"]), way)

    def test_the_table_for_nvidias_example_plugin_covers_every_call(self):
        names = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce") if NIGHTLY else ("all_reduce", "reduce_scatter")
        code, output = self.run_it("tune", "--tuning=quick", "--delivery", "nvidia", "--collectives", ",".join(names), sizes="64KiB")
        self.assertEqual(code, 0, output)
        latest = self.folder / "out" / "latest"
        if not json.loads((latest / "report.json").read_text())["tuning"]["rows"]:  # the fakes' times vary
            self.assertIn("nothing to hand to NCCL's example plugin", output)
            self.assertFalse((latest / "nccl-tuner-example.conf").exists())
            return
        lines = [line.split(",") for line in (latest / "nccl-tuner-example.conf").read_text().splitlines()
                 if line and not line.startswith("#")]
        for name in (each.replace("_", "") for each in names):
            uncovered = 0  # the first size that no line so far covers
            for first, last in sorted((int(line[1]), int(line[2])) for line in lines if line[0] == name):
                self.assertLessEqual(first, uncovered, lines)
                uncovered = max(uncovered, last + 1)
            self.assertEqual(uncovered, 2**64, lines)
        self.assertTrue(all(int(line[5]) > 0 and line[6:8] == ["1", "2"] for line in lines), lines)

    def test_weights_that_cannot_be_read_are_refused_before_anything_runs(self):
        weights = self.folder / "weights"
        every = (("all_reduce 1MiB\n", "weights line 1"), ("allreduce 8 1\n", "all_reduce"), ("", "it is empty"))
        for text, says in every if NIGHTLY else every[:1]:
            weights.write_text(text)
            code, output = self.run_it("run", "--weights", str(weights))
            self.assertEqual(code, 2, output)
            self.assertIn(says, output)
            self.assertFalse((self.folder / "out").exists())

    def test_stale_settings_are_findings(self):
        code, output = self.run_it("run", "--tuning=off", "--budget", "3s", NCCL_PROTO="simple")
        self.assertEqual(code, 14, output)  # nothing on the fakes could be judged
        report = json.loads((self.folder / "out" / "latest" / "report.json").read_text())
        self.check_schema(report)
        self.assertTrue([f for f in report["findings"] if f["id"].startswith("settings.") and "NCCL_PROTO" in f["evidence"]], report["findings"])

    def test_ranks_with_different_files_are_refused_before_anything_runs(self):
        for rank in (0, 1):
            (self.folder / f"{rank}.csv").write_text(f"format,1\nnccl,{rank}\n")
        wrapper = self.folder / "per-rank"
        wrapper.write_text(PER_RANK.format(self.folder))
        wrapper.chmod(0o755)
        code, output = self.run_it("run", "--tuning=off", "--env", "local", before=[str(wrapper)])
        self.assertEqual(code, 13, output)
        self.assertRegex(output, r"rank 1 has other tuning files than rank 0")
        self.assertFalse((self.folder / "out").exists())

    def with_plugin_of_rank_0(self):
        """The plugin, and a program that starts each of two ranks in a folder of its own, of which rank 0's has it."""
        plugin = BUILD / "libnccl-tuner-p5bench.so"
        wrapper = self.folder / "per-rank"
        wrapper.write_text(f'#!/bin/sh\ncd {self.folder}/$OMPI_COMM_WORLD_RANK\nexec "$@"\n')
        wrapper.chmod(0o755)
        for rank in (0, 1):
            (self.folder / str(rank)).mkdir()
        (self.folder / "0" / plugin.name).symlink_to(plugin)
        return plugin, wrapper

    def test_an_arm_with_different_files_is_refused_before_anything_runs(self):
        plugin, wrapper = self.with_plugin_of_rank_0()
        for rank in (0, 1):
            (self.folder / str(rank) / "table.csv").write_text(f"format,1\nnccl,{rank}\n")
        every = (("--b", f"NCCL_TUNER_PLUGIN={plugin},NCCL_TUNER_CONFIG_FILE=table.csv"), ("--a", "NCCL_TUNER_CONFIG_FILE=table.csv"),
                 ("--b", f"NCCL_TUNER_PLUGIN=./{plugin.name}"))
        for arm, variables in every if NIGHTLY else every[:2]:
            with self.subTest(arm=arm, variables=variables):
                code, output = self.run_it("ab", *(("--b", "NCCL_ALGO=ring") if arm == "--a" else ()), arm, variables, before=[str(wrapper)])
                self.assertEqual(code, 13, output)
                self.assertRegex(output, r"rank 1 has other tuning files than rank 0")
                self.assertFalse((self.folder / "out").exists())

    def test_a_chained_tuner_that_another_host_lacks_leaves_out_the_tuning_alone_unless_it_was_asked_for(self):
        plugin, wrapper = self.with_plugin_of_rank_0()
        told = r"rank 1 has other tuning files than rank 0 \(P5BENCH_TUNER_CHAIN=\./libnccl-tuner-p5bench\.so \(not readable\)"
        chain = f"./{plugin.name}"
        code, output = self.run_it("run", "--collectives", "all_reduce", before=[str(wrapper)], P5BENCH_TUNER_CHAIN=chain)
        self.assertEqual(code, 14, output)  # nothing on the fakes could be judged
        report = json.loads((self.folder / "out" / "latest" / "report.json").read_text())
        self.assertEqual([m["outcome"] for m in report["measurements"]], ["measured"] * 2)
        self.assertEqual(report["tuning"]["outcome"], "refused")
        self.assertRegex(report["tuning"]["because"], told)
        code, output = self.run_it("run", "--tuning=quick", "--collectives", "all_reduce", before=[str(wrapper)], P5BENCH_TUNER_CHAIN=chain)
        self.assertEqual(code, 13, output)
        self.assertRegex(output, told)

    def test_ranks_whose_plugin_would_leave_other_calls_to_nccl_are_refused_before_anything_runs(self):
        wrapper = self.folder / "one-rank"
        wrapper.write_text('#!/bin/sh\nif [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then export TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK=1; fi\nexec "$@"\n')
        wrapper.chmod(0o755)
        code, output = self.run_it("run", "--tuning=off", "--env", "local", before=[str(wrapper)],
                                   NCCL_TUNER_PLUGIN=str(BUILD / "libnccl-tuner-p5bench.so"))
        self.assertEqual(code, 13, output)
        self.assertIn("(TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK=1, against no TORCH_NCCL_", output)

    def test_a_file_that_one_rank_alone_names_is_that_of_all_workers_or_of_none(self):
        table = self.folder / "table.csv"
        table.write_text("format,1\nnccl,1\nranks,2\nnodes,1\nfunction,from,to,algorithm,protocol,channels,chunk,microseconds\n")
        wrapper = self.folder / "one-rank"
        for rank in (0, 1):  # launchers pass on no variables that they are not told of
            wrapper.write_text(f'#!/bin/sh\nif [ "$OMPI_COMM_WORLD_RANK" = {rank} ]; then export NCCL_TUNER_CONFIG_FILE={table}; fi\nexec "$@"\n')
            wrapper.chmod(0o755)
            code, output = self.run_it("run", "--tuning=off", "--budget", "3s", before=[str(wrapper)])
            self.assertNotEqual(code, 13, output)
            self.assertNotIn("other tuning files", output)

    def test_workers_that_are_slow_to_come_together_are_searched_like_others(self):
        tuning = self.tuning("--collectives", "all_gather", P5BENCH_FAKE="join-slow:rank=1:us=9000000")
        self.assertEqual([cell["bytes"] for cell in tuning["cells"]], [65536, 1 << 20], tuning)
        # A clock that counted the join as work would leave time for no size; a busy machine may not reach all of them.
        self.assertTrue(any(cell["candidates"] > 0 for cell in tuning["cells"]), tuning["cells"])
        self.assertGreater(tuning["wall_s"], 9)

    def test_a_tuning_that_does_not_fit_the_budget_is_left_out_and_said(self):
        for budget, fault, says in (("10s", "", r"takes some 1[67][.\d]* s"), ("30s", "join-slow:rank=1:us=5000000", "s to join")):
            with self.subTest(budget=budget):
                tuning = self.tuning("--budget", budget, P5BENCH_QUICK_LIMIT="17s", **({"P5BENCH_FAKE": fault} if fault else {}))
                self.assertEqual((tuning["outcome"], tuning["cells"], tuning["rows"]), ("refused", [], []))
                self.assertIn("No time for tuning", tuning["because"])
                self.assertIn("--budget leaves", tuning["because"])
                self.assertRegex(tuning["because"], says)


class Groups(Job):
    """Two hosts of two ranks: the communicators of the hosts beside that of the job, in one file."""

    VARIABLES = {**SLOWED, "P5BENCH_FAKE_NCCL_VERSION": "23102", "P5BENCH_FAKE_TUNER_VERSION": "6"}

    def tune(self, *arguments, expected=0):
        wrapper = self.folder / "per-rank"
        wrapper.write_text('#!/bin/sh\nexport NCCL_HOSTID=node$((OMPI_COMM_WORLD_RANK / 2))\nexec "$@"\n')
        wrapper.chmod(0o755)
        code, output = self.run_it("tune", "--tuning=quick", "--collectives", "all_reduce", *arguments,
                                   before=[str(wrapper)], ranks=4, sizes="64KiB", **self.VARIABLES)
        self.assertEqual(code, expected, output)
        if code == 2:
            return output
        report = json.loads((self.folder / "out" / "latest" / "report.json").read_text())
        self.check_schema(report)
        return report["tuning"]

    def written(self, name):
        return (self.folder / "out" / "latest" / name).read_text()

    def test_of_one_host_each_and_the_whole_job_stand_in_one_table_and_in_a_header(self):
        tuning = self.tune("--group", "node")
        self.assertEqual((tuning["outcome"], tuning["ranks"], tuning["nodes"]), ("settings", 2, 1), tuning)
        self.assertEqual({"/".join(row["setting"].split("/")[:2]) for row in tuning["rows"]}, {FASTEST})
        of_host = self.folder / "of-host.csv"
        of_host.write_text(self.written("nccl-tuner.csv"))
        tuning = self.tune("--keep-table", str(of_host), "--delivery=calls")
        self.assertEqual((tuning["outcome"], tuning["ranks"], tuning["nodes"]), ("settings", 4, 2), tuning)
        heads = ("nccl,", "ranks,", "nodes,")
        lines = [line for line in self.written("nccl-tuner.csv").splitlines() if line.startswith(heads)]
        self.assertEqual(lines, ["nccl,23102", "ranks,4", "nodes,2", "nccl,23102", "ranks,2", "nodes,1"])
        header = self.written("nccl-tuned-calls.h")
        for ranks, nodes in ((4, 2), (2, 1)):
            row = rf'{{23102, {ranks}, {nodes}, P5BENCH_ALL_REDUCE, \d+ull, \d+ull, "TREE_LL\+\^TREE_LL128", '
            self.assertRegex(header, row)
        self.assertIn("nccl-tuned-calls.h", tuning["files"])

    def test_that_differ_in_size_have_no_table(self):
        tuning = self.tune("--group", "stride:3", expected=14)
        self.assertEqual((tuning["outcome"], tuning["rows"]), ("refused", []))
        self.assertIn("not all of as many ranks", tuning["because"])
        tuning = self.tune("--group", "stride:3", "--delivery", "env")
        self.assertTrue(tuning["arms"], "variables need no table")

    def test_a_table_to_keep_that_is_none_is_refused_before_anything_runs(self):
        table = self.folder / "table"
        table.write_text("format,1\nnccl,x\n")
        output = self.tune("--keep-table", str(table), expected=2)
        self.assertIn("line 2: nccl is 'x', not a number", output)
        self.assertFalse((self.folder / "out").exists())


class Problems(Job):
    """A tuning that fails unexpectedly: at the leader alone, which cannot write its result."""

    def run_in_the_way(self, *arguments):
        """A folder takes the place of a file. Workers are slowed down, so that it exists before: the folder of the run is
        made at its start, but a busy disk may write its first report only when tuning has ended."""
        def put_in_the_way():
            while not ended.wait(0.05):
                for folder in (self.folder / "out").glob("*/2*"):
                    return (folder / "nccl.env" / "in the way").mkdir(parents=True, exist_ok=True)
        latest, ended = self.folder / "out" / "latest", threading.Event()
        thread = threading.Thread(target=put_in_the_way)
        thread.start()
        try:
            code, output = self.run_it(*arguments, "--tuning=quick", "--budget", "2min", "--collectives", "all_reduce", sizes="64KiB",
                                       P5BENCH_QUICK_LIMIT="30s", P5BENCH_FAKE="join-slow:rank=1:us=2000000")
        finally:
            ended.set()
            thread.join()
        report = json.loads((latest / "report.json").read_text())
        self.check_schema(report)
        self.assertEqual((report["status"], report["exit_code"], report["run"]["ended_by"]), ("complete", code, ""), output)
        self.assertEqual(report["tuning"]["outcome"], "refused")
        self.assertRegex(report["tuning"]["because"], "^'.*nccl.env' cannot be written: it is a folder; name another file$")
        self.assertIn(report["tuning"]["because"], output)
        return code, report

    def test_do_not_cost_a_run_its_verdict(self):
        code, report = self.run_in_the_way("run")
        self.assertEqual(code, 14)  # nothing on the fakes could be judged
        self.assertEqual([m["outcome"] for m in report["measurements"]], ["measured"])

    def test_are_the_exit_code_where_nothing_but_tuning_was_asked_for(self):
        code, report = self.run_in_the_way("tune")
        self.assertEqual((code, report["measurements"]), (13, []))


class Hosts(Job):
    """Two hosts that share no file system, in the newest tuner interface. One setting is made the fastest, because the
    test is about files."""

    def setUp(self):
        super().setUp()
        if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
            self.skipTest("mounting needs root")
        for name in ("out", "tmp", "other"):
            (self.folder / name).mkdir()

    def tune(self, *mounts, expected=0):
        """`mounts`: shell commands of the other host, in place of an `out` and a `tmp` of its own."""
        wrapper = self.folder / "per-rank"
        own = [f"mount -t tmpfs none {self.folder}/{name}" for name in ("out", "tmp")]
        wrapper.write_text(OTHER_HOST.format(folder=self.folder, mounts="\n".join([*own, *mounts])))
        wrapper.chmod(0o755)
        code, output = self.run_it("tune", "--tuning=quick", "--collectives", "all_reduce", before=[str(wrapper)],
                                   sizes="64KiB", **SLOWED, P5BENCH_FAKE_TUNER_VERSION="7", TMPDIR=str(self.folder / "tmp"),
                                   # keeps Open MPI's own files out of this folder: 4 and 5
                                   OMPI_MCA_orte_tmpdir_base=str(self.folder), PRTE_MCA_prte_tmpdir_base=str(self.folder))
        self.assertEqual(code, expected, output)
        report = json.loads((self.folder / "out" / "latest" / "report.json").read_text())
        self.check_schema(report)
        self.assertEqual(list((self.folder / "tmp").glob("p5bench-tuner-*")), [])
        self.assertEqual((self.folder / "left").read_text(), "")
        here = (self.folder / "out" / "latest").resolve()
        return report["tuning"], output, here, self.folder / "other" / here.relative_to(self.folder / "out")

    def assert_settings(self, tuning):
        self.assertEqual(tuning["outcome"], "settings", tuning)
        self.assertEqual({"/".join(row["setting"].split("/")[:2]) for row in tuning["rows"]}, {FASTEST})

    def variables(self, folder):
        return dict(line.split("=", 1) for line in (folder / "nccl.env").read_text().splitlines() if line and line[0] != "#")

    def test_both_have_the_files_before_the_lines_that_load_them_are_printed(self):
        tuning, output, here, there = self.tune()
        self.assert_settings(tuning)
        self.assertIn("nccl-tuner.csv", tuning["files"])
        for name in tuning["files"]:
            self.assertEqual((there / name).read_bytes(), (here / name).read_bytes(), name)
        self.assertEqual([launcher for launcher, _ in tuning["loading"]], ["mpirun", "srun", "torchrun", "docker"])
        self.assertEqual(self.variables(here)["NCCL_TUNER_PLUGIN"], str(BUILD / "libnccl-tuner-p5bench.so"))
        self.assertIn("-x P5BENCH_TUNER_HASH", output)

    def test_a_plugin_that_is_another_there_goes_along_with_the_table(self):
        plugin, other = BUILD / "libnccl-tuner-p5bench.so", self.folder / "other.so"
        other.write_bytes(plugin.read_bytes() + b"another build")
        tuning, _, here, there = self.tune(f"mount --bind {other} {plugin}")
        self.assert_settings(tuning)
        for folder in (here, there):
            self.assertEqual((folder / plugin.name).read_bytes(), plugin.read_bytes())
            self.assertEqual(self.variables(folder)["NCCL_TUNER_PLUGIN"], str(here / plugin.name))

    def test_where_the_folder_cannot_be_written_only_the_line_that_copies_is_printed(self):
        tuning, output, here, there = self.tune(f"mount -o remount,ro {self.folder}/out")
        self.assert_settings(tuning)
        self.assertFalse(there.exists())
        [[launcher, line]] = tuning["loading"]
        self.assertEqual(launcher, "ssh")
        self.assertIn("for host in node1;", line)
        for name in tuning["files"]:
            self.assertIn(f"'{here / name}'", line)
        self.assertTrue([each for each in tuning["refusals"] if "node1: " in each and "copy" in each], tuning["refusals"])
        self.assertIn("with ssh: for host in node1", output)
        self.assertNotIn("with mpirun", output)

    def test_where_nothing_can_be_confirmed_tuning_is_left_out(self):
        tuning, _, here, there = self.tune(f"mount -o remount,ro {self.folder}/tmp", expected=14)
        self.assertEqual((tuning["outcome"], tuning["rows"], tuning["loading"]), ("refused", [], []))
        self.assertIn("node1: ", tuning["because"])
        self.assertIn("TMPDIR", tuning["because"])
        self.assertTrue(tuning["cells"])
        self.assertEqual(self.variables(here), {})
        self.assertFalse(there.exists())


if __name__ == "__main__":
    skip_unless_built()
    unittest.main(verbosity=2)
