"""p5bench with its workers for NCCL, on real GPUs, or on the fakes when P5BENCH_FAKES names their folder: right data, and
workers that are killed, stopped or hung in any phase cost one case and nothing else. Standard library only, because GPU
hosts may have no network. Nothing waits without a bound."""

import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

SOURCE = pathlib.Path(os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
BUILD = pathlib.Path(os.environ.get("P5BENCH_BUILD") or SOURCE / "build" / "release")
FAKES = os.environ.get("P5BENCH_FAKES", "")
# True to try all combinations: always on GPUs, which are quick.
ALL = not FAKES or bool(os.environ.get("P5BENCH_NIGHTLY"))
RANKS = int(os.environ.get("P5BENCH_RANKS", "2" if FAKES else "4"))
WORKER = "p5bench-worker-"  # as far as /proc/PID/comm shows names
# Time beyond a deadline, for starting, replacing workers and ending.
GRACE_S = 45
SOUND = (0, 14)  # 14: the exit code for machines without bars, as the fakes are
TIMEOUT = "8s" if FAKES else "5s"  # ranks on the fakes wait for cores
# Data on the fakes are right or wrong whatever the times are.
FEW_SAMPLES = {"P5BENCH_MOST_SAMPLES": "6"} if FAKES else {}
SMALL = "64,4KiB,64KiB" if FAKES else "8,64KiB,1MiB,64MiB"


def environment(**more):
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("OMPI_COMM_", "PMIX_", "PMI_"))}
    if FAKES:
        clean |= {"LD_LIBRARY_PATH": FAKES, "P5BENCH_FAKE_MEMORY": str(32 << 20), "OMPI_MCA_mpi_yield_when_idle": "1"}
    return clean | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} | more


def workers_of(marker):
    """Processes of workers whose environment holds the marker, oldest first."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text().startswith(WORKER) and marker.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return sorted(found)


def supervisor_of(marker, rank):
    """The process of p5bench that is this rank of the job."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            if (folder / "comm").read_text() == "p5bench\n" and marker.encode() in variables and \
                    f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables:
                return int(folder.name)
        except OSError:
            continue
    raise AssertionError(f"no rank {rank} of {marker}")


def used_gpu_memory():
    """MiB, of all GPUs; 0 where it is not known."""
    try:
        out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True,
                             text=True, timeout=60, check=True).stdout
        return 0 if FAKES else sum(int(line) for line in out.split())
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0


class Job:
    """One run of p5bench, which is always ended."""

    def __init__(self, folder, *arguments, ranks=RANKS, preload=None, hosts=False, **variables):
        """`hosts`: each rank is a host of its own for NCCL."""
        self.marker = f"P5BENCH_TEST={os.getpid()}-{time.monotonic_ns()}"
        # A folder of its own, so that another run's journal is never read instead.
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
        name, _, value = self.marker.partition("=")
        self.process = subprocess.Popen(
            ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", *(["-x", f"LD_PRELOAD={preload}"] if preload else []),
             *([str(SOURCE / "tests" / "gpu" / "pretend_nodes"), "1"] if hosts else []), str(BUILD / "p5bench"), "--backend", "nccl", "--tuning=off", "--out", str(self.folder), "--quiet", *arguments],
            env=environment(**{name: value}, **variables), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def until(self, condition, patience):
        end = time.monotonic() + patience
        while time.monotonic() < end and self.process.poll() is None:
            found = condition()
            if found:
                return found
            time.sleep(0.01)
        return condition()

    def finished_cases(self):
        try:
            return (self.folder / "latest" / "measurements.jsonl").read_text().count("\n")
        except OSError:
            return 0

    def end(self, patience):
        try:
            output, _ = self.process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            output, _ = self.process.communicate()
            raise AssertionError(f"still running after {patience} s:\n{output}") from None
        finally:
            end = time.monotonic() + 5  # a process that was killed while its device works takes a moment
            while (left := workers_of(self.marker)) and time.monotonic() < end:
                time.sleep(0.05)
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        if left:
            raise AssertionError(f"workers left: {left}")
        return self.process.returncode, output

    def report(self):
        return json.loads((self.folder / "latest" / "report.json").read_text())


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="p5bench-workers-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.shared = set(pathlib.Path("/dev/shm").glob("nccl-*"))

    def check_one_case_failed(self, job, output, says):
        report = job.report()
        failed = [m for m in report["measurements"] if m["outcome"] == "failed"]
        measured = [m for m in report["measurements"] if m["outcome"] == "measured"]
        self.assertEqual(len(failed), 1, [m["because"] for m in failed] or output)
        self.assertEqual(report["status"], "complete", output)
        self.assertGreater(len(measured), 2)
        self.assertEqual(sum(m["wrong_elements"] for m in measured), 0)
        self.assertRegex(failed[0]["because"], says)
        self.assertIn(failed[0]["failed_in"], ("open", "warm_up", "sample", "verify", "close"))
        self.assertEqual(set(pathlib.Path("/dev/shm").glob("nccl-*")) - self.shared, set())
        return failed[0]


class Workers(Runs):
    def test_all_collectives_types_and_operations_give_right_data(self):
        every, few = ["--type", "all", "--op", "all"], ["--type", "bfloat16,float64", "--op", "prod,max,avg"]
        in_place = ["--in-place", "--collectives", "all_reduce,all_gather"]
        sizes = "1000" if FAKES else "8,64KiB"
        listed = subprocess.run([BUILD / "p5bench", "list", "collectives"], capture_output=True, text=True, check=True).stdout
        names = [line.split()[0] for line in listed.splitlines()]
        if RANKS.bit_count() > 1:
            names.remove("hypercube")
        everything = ["--type", "bfloat16", "--root", str(RANKS - 1), "--collectives", ",".join(names)]
        for more in ([*every], [*every, *in_place], everything) if ALL else (few, [*few, *in_place], everything):
            job = Job(self.folder, "--sizes", sizes, "--budget", "1200s" if FAKES else "200s", *more, **FEW_SAMPLES)
            code, output = job.end(1260 if FAKES else 260)
            self.assertIn(code, SOUND, output)
            report = job.report()
            self.assertEqual(self.bad(report), [])

    @staticmethod
    def bad(report):
        """Results that are wrong or missing, but for what this NCCL does not have."""
        lacks = re.compile(r"device API|symmetric memory")

        def is_lacking(m):
            if m["outcome"] != "skipped":
                return False
            if versions := re.search(r"needs (?:a worker that is built with )?NCCL ([\d.]+)(?: or later)?; "
                                     r"this (?:one is built with|is NCCL) ([\d.]+)$", m["because"]):
                needed, have = ([int(part) for part in version.split(".")] for version in versions.groups())
                return have < needed
            return m["case"]["collective"].startswith("lsa_") and lacks.search(m["because"])

        return [(m["case"], m["first_wrong"], m["because"]) for m in report["measurements"]
                if m["wrong_elements"] or (m["outcome"] != "measured" and not is_lacking(m))]

    def device_initiated(self, *arguments, **variables):
        """A run of them; its exit code, its output and its report."""
        job = Job(self.folder, "--collectives", "lsa_all_reduce,lsa_all_to_all", "--budget", "1200s" if FAKES else "200s",
                  *arguments, **FEW_SAMPLES, **variables)
        code, output = job.end(1260 if FAKES else 260)
        return code, output, job.report()

    def test_device_initiated_collectives_give_right_data(self):
        few, many = ("1000,66000",) * 2 if FAKES else ("8,64KiB,1000003", "8,1000,64KiB,256KiB,1000003,64MiB,1GiB")
        every = [["--type", "all", "--op", "all"], ["--cuda-graph"], ["--unalign", "1", "--type", "int8,bfloat16,float64"],
                 ["--in-place", "--collectives", "lsa_all_reduce", "--type", "int8,bfloat16,float8_e4m3,float64", "--op", "all"]]
        by_day = [["--cuda-graph", "--unalign", "1", "--type", "int8,float64"],
                  ["--in-place", "--collectives", "lsa_all_reduce", "--type", "bfloat16,float8_e4m3", "--op", "all"]]
        for more in every if ALL else by_day:
            code, output, report = self.device_initiated("--sizes", few if "--op" in more else many, *more)
            self.assertIn(code, SOUND, output)
            self.assertEqual(self.bad(report), [])
            for m in report["measurements"]:
                if m["outcome"] == "measured" and m["selection"]:
                    self.assertEqual((m["selection"]["protocol"], m["selection"]["source"]), ("lsa", "p5bench"))

    def test_a_wrong_element_of_a_device_initiated_collective_is_found(self):
        size = 64 << 10
        for collective, offset in (("lsa_all_reduce", 0), ("lsa_all_to_all", size // 4 // RANKS)):
            notes = tempfile.mkdtemp(dir=self.folder)
            code, output, report = self.device_initiated(
                "--collectives", collective, "--sizes", str(size), preload=BUILD / "tests" / "gpu" / "misbehave.so", P5BENCH_SPOIL=str(size),
                P5BENCH_MISBEHAVE="spoil@1:sample#1", P5BENCH_MISBEHAVE_NOTES=notes)
            if report["measurements"][0]["outcome"] == "skipped":
                self.assertEqual(self.bad(report), [])
                continue
            self.assertEqual(os.listdir(notes), ["0"], output)
            self.assertEqual(code, 11, output)
            found = report["measurements"][0]
            self.assertGreater(found["wrong_elements"], 0)
            self.assertEqual((found["first_wrong"]["offset"], found["first_wrong"]["guard"]), (offset, False))

    @unittest.skipUnless(ALL, "nightly: by day workers kill themselves")
    def test_a_worker_killed_from_outside_costs_one_case(self):
        job = Job(self.folder, "--sizes", SMALL, "--budget", "25s" if FAKES else "100s", "--timeout", "5s", "--seed", "7",
                  "--collectives", "all_reduce,all_gather,p2p")
        job.until(lambda: len(workers_of(job.marker)) == RANKS and job.finished_cases() >= 3, 60)
        victim = workers_of(job.marker)[-1]
        os.kill(victim, signal.SIGKILL)
        code, output = job.end(5 + 100 + GRACE_S)
        self.assertEqual(code, 12, output)
        failed = self.check_one_case_failed(job, output, rf"process {victim}\) was ended by signal 9")
        self.assertIsNotNone(failed["failed_rank"])
        self.assertIn("GPU-", failed["because"])

    def misbehave(self, steps, patience, budget="120s" if FAKES else "400s", collectives="all_reduce,all_gather"):
        """One run in which one worker after the other misbehaves (tests/gpu/misbehave.cu): each affects one case."""
        notes = tempfile.mkdtemp(dir=self.folder)
        text = ",".join(f"{kind}@{rank}:{order}#{number}" for kind, rank, order, number, _ in steps)
        memory = used_gpu_memory()
        job = Job(self.folder, "--min", "64", "--max", SMALL.rpartition(",")[2], "--factor", "2", "--budget", budget, "--seed", "5", "--timeout", TIMEOUT,
                  "--collectives", collectives, preload=BUILD / "tests" / "gpu" / "misbehave.so", **FEW_SAMPLES,
                  P5BENCH_MISBEHAVE=text, P5BENCH_MISBEHAVE_NOTES=notes)
        code, output = job.end(patience)
        self.assertEqual(sorted(os.listdir(notes)), sorted(str(i) for i in range(len(steps))), output)
        self.assertEqual(code, 12, output)
        report = job.report()
        self.assertEqual(report["status"], "complete", output)
        journal = [json.loads(line) for line in (job.folder / "latest" / "measurements.jsonl").read_text().splitlines()]
        failed = [m for m in journal if m["outcome"] == "failed"]
        measured = [m for m in journal if m["outcome"] == "measured"]
        self.assertEqual(len(failed), len(steps), [m["because"] for m in failed])
        self.assertEqual(len(measured), len(journal) - len(failed))
        self.assertGreater(len(measured), 2)
        self.assertEqual(sum(m["wrong_elements"] for m in measured), 0)
        says = {"kill": "ended by signal 9", "stop": "stopped by a signal", "endless": "did not become idle"}
        # A case ends with its last repetition, so lines are not in the order of the failures.
        seen = [(m["failed_rank"], m["failed_in"], next((word for word in says.values() if word in m["because"]), m["because"]))
                for m in failed]
        self.assertEqual(sorted(seen), sorted((rank, phase, says[kind]) for kind, rank, _, _, phase in steps))
        for m in failed:
            self.assertRegex(m["because"], r"\(.+, GPU-")
        self.assertEqual(set(pathlib.Path("/dev/shm").glob("nccl-*")) - self.shared, set())
        self.assertLess(abs(used_gpu_memory() - memory), 256, "MiB of GPU memory are left in use")

    def test_a_worker_that_is_killed_stopped_or_hangs_in_any_phase_costs_one_case(self):
        orders = [("warm_up", 2, "warm_up"), ("sample", 2, "sample"), ("verify", 1, "verify")]
        steps = [(kind, *order) for order in orders for kind in ("kill", "stop", "endless")]
        self.misbehave([(kind, i % RANKS, *order) for i, (kind, *order) in enumerate(steps)], 300)

    def test_a_rank_that_hangs_in_a_device_initiated_collective_is_told_from_those_that_wait_for_it(self):
        if self.device_initiated("--sizes", "8")[2]["measurements"][0]["outcome"] == "skipped":
            self.skipTest("this NCCL has no device API")
        kinds, collectives = (("endless", "stop", "kill"), "lsa_all_reduce,lsa_all_to_all") if ALL else (("endless",), "lsa_all_reduce")
        self.misbehave([(kind, RANKS - 1, "sample", 2, "sample") for kind in kinds], 200, collectives=collectives)

    def test_a_gpu_that_fails_alone_is_named_what_was_measured_stays_and_nothing_is_tuned(self):
        ways = {"kill": "ended by signal 9", "endless": "did not become idle"}
        for kind in ways if ALL else ("kill",):
            with self.subTest(kind=kind):
                notes = tempfile.mkdtemp(dir=self.folder)
                job = Job(self.folder, "--sizes", "64", "--collectives", "all_reduce", "--timeout", TIMEOUT, "--tuning=quick",
                          preload=BUILD / "tests" / "gpu" / "misbehave.so",
                          P5BENCH_MISBEHAVE=f"{kind}@1:check_locally#1", P5BENCH_MISBEHAVE_NOTES=notes)
                code, output = job.end(120)
                self.assertEqual(os.listdir(notes), ["0"], output)
                self.assertEqual(code, 12, output)
                report = job.report()
                self.assertEqual([m["outcome"] for m in report["measurements"]], ["measured"])
                self.assertNotIn("local_checks", report)
                found = [f for f in report["findings"] if f["id"] == "gpu.check_failed"]
                self.assertEqual(len(found), 1)
                self.assertRegex(found[0]["evidence"], rf"^rank 1: .*{ways[kind]}.*GPU-")
                self.assertEqual(found[0]["about"], {"kill": "host", "endless": "hardware"}[kind])
                self.assertEqual(report["tuning"]["outcome"], "refused")
                self.assertIn("a GPU failed alone (rank 1: ", report["tuning"]["because"])

    def test_a_worker_that_is_killed_stopped_or_hangs_while_joining_once_costs_no_case(self):
        ways = {"kill": "ended by signal 9", "stop": "stopped by a signal", "endless": 'no answer for .* to "join"'}
        for kind, says in ways.items():
            if kind == "stop" and not ALL:
                continue  # by day workers are stopped in a case
            with self.subTest(kind=kind):
                notes = tempfile.mkdtemp(dir=self.folder)
                job = Job(self.folder, "--sizes", "64,4KiB", "--collectives", "all_reduce", "--timeout", TIMEOUT, "--budget", "60s",
                          preload=BUILD / "tests" / "gpu" / "misbehave.so", P5BENCH_JOIN_LIMIT="15s",
                          P5BENCH_MISBEHAVE=f"{kind}@1:join#1", P5BENCH_MISBEHAVE_NOTES=notes)
                code, output = job.end(60 + GRACE_S)
                self.assertEqual(os.listdir(notes), ["0"], output)
                self.assertIn(code, SOUND, output)
                self.assertEqual([m["outcome"] for m in job.report()["measurements"]], ["measured"] * 2)
                found, = [f for f in job.report()["findings"] if f["id"] == "join.again"]
                self.assertRegex(found["evidence"], rf"{says}.*GPU-")

    def test_two_ranks_on_one_gpu_are_refused(self):
        job = Job(self.folder, "--sizes", "8", ranks=2, CUDA_VISIBLE_DEVICES="0", P5BENCH_FAKE_GPUS="1")
        code, output = job.end(120)
        self.assertEqual(code, 13, output)
        self.assertRegex(output, r"ranks 0 and 1 on .* have the same GPU .*--allow-shared-gpu")

    def test_ranks_that_share_a_gpu_are_not_tuned(self):
        job = Job(self.folder, "--sizes", "64KiB", "--collectives", "all_reduce", "--allow-shared-gpu", "--tuning=quick", "--budget", "20s",
                  ranks=2, hosts=True, CUDA_VISIBLE_DEVICES="0", P5BENCH_FAKE_GPUS="1")
        code, output = job.end(120)
        self.assertIn(code, SOUND, output)
        report = job.report()
        self.assertEqual([m["outcome"] for m in report["measurements"]], ["measured"])
        self.assertEqual(report["tuning"]["outcome"], "refused")
        self.assertIn("2 ranks share a GPU: their times say nothing", report["tuning"]["because"])

    def test_ranks_that_share_a_gpu_and_a_host_are_refused_by_nccl_and_that_is_told_at_once(self):
        job = Job(self.folder, "--sizes", "64KiB", "--allow-shared-gpu", ranks=2, CUDA_VISIBLE_DEVICES="0", P5BENCH_FAKE_GPUS="1")
        code, output = job.end(120)
        self.assertEqual(code, 13, output)
        self.assertRegex(output, "p5bench: .*(Duplicate GPU detected|Multiple Ranks are using the same GPU).*NCCL_HOSTID")

    def test_a_message_beyond_the_device_is_refused(self):
        code, output = Job(self.folder, "--sizes", "1024G", "--collectives", "all_reduce").end(120)
        self.assertEqual(code, 2, output)
        self.assertRegex(output, r"needs .* TiB of buffers per rank")


@unittest.skipUnless(FAKES, "only the fakes log on demand")
class Log(Runs):
    LINE = "P2P is disabled between NVLINK connected GPUs 1 and 0"

    def findings(self, **variables):
        job = Job(self.folder, "--sizes", "64", "--collectives", "all_reduce", "--budget", "5s", P5BENCH_FAKE_LOG=self.LINE, **FEW_SAMPLES, **variables)
        code, output = job.end(60)
        self.assertIn(code, SOUND, output)
        return [each for each in job.report()["findings"] if each["id"].startswith("nccl.")]

    def test_what_the_library_says_while_it_starts_is_a_finding(self):
        finding, = self.findings()
        self.assertEqual((finding["id"], finding["severity"]), ("nccl.p2p_off", "error"))
        self.assertIn(f'log of rank 0 on {finding["subject"]["host"]}: "{self.LINE}"', finding["evidence"])
        self.assertIn(f"and {RANKS - 1} more", finding["evidence"])


@unittest.skipUnless(FAKES, "only the fakes fail on demand")
class Faults(Runs):
    def run_with(self, fault, *arguments, sizes="64,64KiB", budget="60s", patience=120, **variables):
        job = Job(self.folder, "--sizes", sizes, "--collectives", "all_reduce,all_gather", "--budget", budget,
                  "--timeout", TIMEOUT if "hang" in fault else "10min", "--seed", "3", *arguments, P5BENCH_FAKE=fault, **variables)
        code, output = job.end(patience)
        return job, code, output

    def test_wrong_data_is_found_with_rank_offset_wanted_and_got(self):
        every = itertools.product(("element", "bit", "stale", "nothing"), ([], ["--in-place"]))
        for what, place in every if ALL else (("element", []), ("nothing", ["--in-place"])):
            job, code, output = self.run_with(f"wrong:rank=1:operation=1+:what={what}", *place, sizes="8,300000", budget="20s", **FEW_SAMPLES)
            self.assertEqual(code, 11, output)
            for m in job.report()["measurements"]:
                self.assertGreater(m["wrong_elements"], 0, (what, m["case"]))
                self.assertEqual(m["first_wrong"]["rank"], 1)
                self.assertNotEqual(m["first_wrong"]["wanted"], m["first_wrong"]["got"])

    def test_a_hang_leaves_no_process_and_the_log_of_its_rank_and_what_the_library_knows_of_all(self):
        """`serve` replaces NCCL's RAS service."""
        asked = []

        def serve(listener):
            connection, _ = listener.accept()
            with connection, connection.makefile("rw") as stream:
                for reply in ("OK\n", "Job summary\n" + "".join(f"line {i} \x1b[2J\n" for i in range(300))):
                    asked.append(stream.readline().strip())
                    stream.write(reply)
                    stream.flush()

        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=serve, args=(listener,), daemon=True)
            thread.start()
            address = "127.0.0.1:%d" % listener.getsockname()[1]
            job, code, output = self.run_with("hang:rank=1:operation=40", sizes="64", NCCL_RAS_ADDR=address,
                                              P5BENCH_FAKE_LOG="Channel 00/0 : 1[1] -> 0[0]")
            self.assertEqual(code, 12, output)
            thread.join(1)
        self.assertLessEqual({m["outcome"] for m in job.report()["measurements"]}, {"failed", "measured"})
        self.assertEqual(len(asked), 2)
        self.assertEqual(asked[1], "VERBOSE STATUS")
        first = next(m for m in job.report()["measurements"] if "library_status" in m)  # the service answers once
        self.assertEqual(len(first["library_status"]), 200)
        self.assertEqual(first["library_status"][-1], "line 299 ?[2J")
        self.assertTrue(any("Channel 00/0" in line for line in first["worker_log"]), first["worker_log"])
        self.assertLessEqual(len(first["worker_log"]), 200)

    def test_a_crash_names_the_rank(self):
        job, code, output = self.run_with("crash:rank=1:operation=40")
        self.assertEqual(code, 12, output)
        failed = [m for m in job.report()["measurements"] if m["outcome"] == "failed"]
        self.assertTrue(failed)
        self.assertTrue(all(m["failed_rank"] == 1 and "signal" in m["because"] for m in failed), failed)

    def test_an_asynchronous_error_names_the_rank(self):
        job, code, output = self.run_with("async:rank=1:operation=40")
        self.assertEqual(code, 12, output)
        failed = [m for m in job.report()["measurements"] if m["outcome"] == "failed"]
        self.assertTrue(failed and all(m["failed_rank"] == 1 for m in failed), [m["because"] for m in failed])

    def test_a_device_without_memory_names_the_rank(self):
        job, code, output = self.run_with("oom:rank=1")
        self.assertEqual(code, 12, output)
        failed = [m for m in job.report()["measurements"] if m["outcome"] == "failed"]
        self.assertTrue(failed and all(m["failed_rank"] == 1 and "memory" in m["because"] for m in failed), failed)

    def test_a_worker_that_fails_as_it_leaves_a_case_costs_that_case_and_as_it_leaves_the_run_nothing(self):
        every = [("kill", "close", 1), ("stop", "close", 1), ("kill", "quit", 0), ("stop", "quit", 0)]
        for kind, order, lost in every if ALL else every[1:3]:
            with self.subTest(kind=kind, order=order):
                notes = tempfile.mkdtemp(dir=self.folder)
                job = Job(self.folder, "--sizes", "64,4KiB,64KiB", "--collectives", "all_reduce", "--timeout", TIMEOUT, "--budget", "60s", "--cuda-graph", **FEW_SAMPLES,
                          preload=BUILD / "tests" / "gpu" / "misbehave.so",
                          P5BENCH_MISBEHAVE=f"{kind}@1:{order}#1", P5BENCH_MISBEHAVE_NOTES=notes)
                code, output = job.end(60 + GRACE_S)
                self.assertEqual(os.listdir(notes), ["0"], output)
                self.assertEqual(code, 12 if lost else 14, output)  # 64 KiB and less are not judged
                report = job.report()
                self.assertEqual((report["status"], report["exit_code"]), ("complete", code))
                self.assertEqual(sum(m["outcome"] == "failed" for m in report["measurements"]), lost)
                self.assertEqual(sum(m["outcome"] == "measured" for m in report["measurements"]), 3 - lost)

    def test_a_worker_that_does_not_end_when_killed_is_named_with_what_to_do(self):
        # Each is measured once, so that the first is complete when the second fails. A worker that joins late on busy cores
        # would be killed too, and end the run before the first.
        job = Job(self.folder, "--sizes", "1100KiB,1200KiB,1300KiB", "--collectives", "all_reduce", "--timeout", "10s", "--budget", "60s", **FEW_SAMPLES,
                  preload=f"{BUILD / 'tests' / 'unreapable.so'}:{BUILD / 'tests' / 'gpu' / 'misbehave.so'}", P5BENCH_UNREAPABLE_RANK="1",
                  P5BENCH_MISBEHAVE="stop@1:verify#2", P5BENCH_MISBEHAVE_NOTES=tempfile.mkdtemp(dir=self.folder))
        code, output = job.end(60 + GRACE_S)
        self.assertEqual(code, 12, output)
        report = job.report()
        self.assertEqual(report["status"], "complete")
        self.assertIn("measured", [m["outcome"] for m in report["measurements"]])
        self.assertTrue(any("did not end after SIGKILL: the driver holds it; reboot or replace" in m["because"]
                            for m in report["measurements"]), [m["because"] for m in report["measurements"]])

    def test_a_supervisor_that_is_killed_leaves_no_worker_and_all_that_was_measured(self):
        for rank in range(2) if ALL else [0]:
            with self.subTest(rank=rank):
                job = Job(self.folder, "--min", "64", "--max", "64KiB", "--collectives", "all_reduce,all_gather", "--launches", "3",
                          "--budget", "30s", "--seed", "5")
                self.assertTrue(job.until(lambda: job.finished_cases() >= 5, 60))
                os.kill(supervisor_of(job.marker, rank), signal.SIGKILL)
                code, output = job.end(60)
                self.assertNotEqual(code, 0, output)
                lines = (job.folder / "latest" / "measurements.jsonl").read_text().splitlines()
                self.assertGreaterEqual(len(lines), 5)
                report = job.report()
                self.assertEqual((report["status"], report["exit_code"]), ("partial", 12))

    def test_a_supervisor_that_is_killed_takes_along_a_worker_whose_device_hangs(self):
        notes = tempfile.mkdtemp(dir=self.folder)
        job = Job(self.folder, "--sizes", "64,4KiB", "--collectives", "all_reduce", "--timeout", "60s", "--budget", "60s",
                  preload=BUILD / "tests" / "gpu" / "misbehave.so", P5BENCH_MISBEHAVE="endless@1:sample#2", P5BENCH_MISBEHAVE_NOTES=notes)
        self.assertTrue(job.until(lambda: os.listdir(notes), 60))
        os.kill(supervisor_of(job.marker, 1), signal.SIGKILL)
        code, output = job.end(60)
        self.assertNotEqual(code, 0, output)

    def test_a_crash_whenever_ranks_join_ends_the_run(self):
        job, code, output = self.run_with("join-crash:rank=1")
        self.assertEqual(code, 13, output)
        self.assertEqual(sorted(m["outcome"] for m in job.report()["measurements"]), ["failed"] + ["skipped"] * 3)


if __name__ == "__main__":
    if FAKES and not pathlib.Path(FAKES, "libnccl.so.2").exists():
        print(f"left out: no fake NCCL in {FAKES}; they need the headers of CUDA and NCCL")
        raise SystemExit(77)
    if not (BUILD / "p5bench-worker-nccl").exists():
        print(f"left out: no p5bench-worker-nccl in {BUILD}; it needs CUDA and NCCL")
        raise SystemExit(77)
    unittest.main(verbosity=2)
