"""p5bench check with real workers on the fakes, most of it without a launcher: one process starts a supervisor for each
GPU. Its lines, its exit codes, and that no process is left whatever hangs."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from jobs import PATIENCE_S, Job
from workers import BUILD, FAKES, fake_cublaslt, skip_unless_built

# The longer one suffices for a healthy node on a busy machine; the shorter one is for processes that hang.
LONG, SHORT = "150s", "24s"
# Small buffers, because the figures do not matter here.
MEMORY = str(8 << 20)
NIGHTLY = bool(os.environ.get("P5BENCH_NIGHTLY"))


def wait_for(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


class Checks(Job):
    def start(self, *arguments, ranks=None, gpus=3, faults="", limit=LONG, program=BUILD / "p5bench", before=(), **variables):
        """A variable that is None is not set."""
        launcher = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none"] if ranks else []
        given = {"LD_LIBRARY_PATH": f"{FAKES}:{FAKES / 'nvml'}", "AWS_EC2_METADATA_DISABLED": "true", "P5BENCH_FAKE_GPUS": str(gpus),
                 "P5BENCH_FAKE_MEMORY": MEMORY, "P5BENCH_FAKE_NVML": faults, "P5BENCH_MOST_SAMPLES": "6", **variables}
        self.variables = {name: value for name, value in given.items() if value is not None}
        return self.start_command([*launcher, str(program), *before, "check", "--limit", limit, *arguments], self.variables)

    def on_hosts_of_two(self):
        """A program whose ranks are on pretended hosts of two GPUs each."""
        wrapper = self.folder / "on_hosts"
        wrapper.write_text("#!/bin/sh\nhost=$((OMPI_COMM_WORLD_RANK / 2))\n"
                           "export NCCL_HOSTID=node$host CUDA_VISIBLE_DEVICES=$((2 * host)),$((2 * host + 1))\n"
                           f"exec {BUILD / 'p5bench'} \"$@\"\n")
        wrapper.chmod(0o755)
        return wrapper

    def processes(self):
        """All processes of this test, whatever their names."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if state not in "ZX" and self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def supervisors(self):
        return [pid for pid in self.processes() if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "p5bench"]

    def end(self, process):
        output, _ = process.communicate(timeout=PATIENCE_S)
        wait_for(lambda: not self.processes())
        self.assertEqual(self.processes(), [], output)
        self.assertEqual([each for each in os.listdir("/dev/shm") if each.startswith("nccl-")], [])
        return process.returncode, output

    def check(self, *arguments, **how):
        return self.end(self.start(*arguments, **how))


class Fit(Checks):
    def test_a_node_is_fit_and_nothing_is_left_behind(self):
        before = sorted(os.listdir("."))
        code, output = self.check()
        self.assertEqual(code, 0, output)
        name = os.uname().nodename
        self.assertRegex(output, rf"(?m)^{name}: fit; checked .*3 pairs of ranks, 3 GPUs alone; speed judged in 0 of 3 measurements"
                         r"(; no matrix products on GPU 0, GPU 1, GPU 2: [^;]*)?$")
        self.assertEqual(sorted(os.listdir(".")), before)

    def test_who_wants_a_report_gets_it_in_a_folder_or_printed(self):
        code, output = self.check("--out", str(self.folder / "out"))
        self.assertEqual(code, 0, output)
        report = self.report()
        self.assertEqual((report["status"], report["run"]["ranks"], report["run"]["backend"]), ("complete", 3, "nccl"))
        self.assertEqual([m["outcome"] for m in report["measurements"]], ["measured"] * 3)
        self.assertEqual(len(set(report["topology"]["gpu_of_rank"])), 3)
        self.assertEqual({m["case"]["bytes"] for m in report["measurements"]}, {2 << 20}, "the largest that fits, alone")
        code, output = self.check("--format", "json")
        self.assertEqual((code, json.loads(output[output.index("{"):])["exit_code"]), (0, 0), output)

    def test_a_gpu_that_is_in_use_is_skipped_and_named(self):
        user = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(lambda: (user.kill(), user.wait()))
        code, output = self.check("--out", str(self.folder / "out"), faults=f"busy:gpu=1:processes=1:pid={user.pid}")
        self.assertEqual(code, 0, output)
        self.assertIn(f"  skipped: GPU 1 (in use by pid {user.pid}, sleep)\n", output)
        topology = self.report()["topology"]
        gpus = [gpu["uuid"] for gpu in topology["hosts"][0]["gpu_devices"]]
        self.assertEqual(topology["gpu_of_rank"], [gpus[0], gpus[2]])

    def test_the_server_of_mps_uses_no_gpu_and_its_clients_do(self):
        server = self.folder / "nvidia-cuda-mps-server"
        shutil.copy(shutil.which("sleep"), server)
        users = [subprocess.Popen([program, "1000"]) for program in (str(server), "sleep")]
        for user in users:
            self.addCleanup(lambda user=user: (user.kill(), user.wait()))
        idle = f"busy:gpu=1:processes=1:pid={users[0].pid}"
        code, output = self.check(faults=idle)
        self.assertEqual(code, 0, output)
        self.assertNotIn("skipped: GPU", output)
        client = f"mps:gpu=1:pid={users[1].pid}"
        every = (f"{idle},{client}", f"busy:gpu=1:processes=1:pid={users[1].pid},{client}")
        for faults in every if NIGHTLY else every[:1]:
            code, output = self.check(faults=faults)
            self.assertEqual(code, 0, output)
            self.assertIn(f"  skipped: GPU 1 (in use by pid {users[1].pid}, sleep)\n", output)

    def test_a_node_whose_gpus_are_all_in_use_is_looked_at_and_let_be(self):
        code, output = self.check(faults="busy:processes=2")
        self.assertEqual(code, 0, output)
        self.assertIn("  nothing measured: no GPU is free\n", output)
        self.assertEqual(output.count("skipped: GPU"), 3, output)
        code, output = self.check(faults="busy:processes=2,link-down:gpu=2:count=3")
        self.assertEqual(code, 10, output)
        self.assertIn("NOT FIT: gpu.links GPU 2", output)

    def test_a_gpu_without_free_memory_is_named_and_its_node_is_not_checked(self):
        code, output = self.check(P5BENCH_FAKE_MEMORY="40000")
        self.assertEqual(code, 13, output)
        self.assertRegex(output, rf"(?m)^{os.uname().nodename}: NOT CHECKED$")
        self.assertRegex(output, r"(?m)^  nothing measured: .* GPU 0 \(GPU-.*\) of rank 0 on .*, which has 39.1 KiB of 39.1 KiB free")

    def test_of_one_gpu_there_is_no_pair(self):
        for variables in ({"gpus": 1}, {"gpus": 3, "CUDA_VISIBLE_DEVICES": "2"}):
            code, output = self.check(**variables)
            self.assertEqual(code, 0, output)
            self.assertRegex(output, r": fit; checked software and settings, 1 (of \d )?GPUs? alone")

    def test_the_environment_of_a_prolog_is_enough(self):
        process = subprocess.run(["env", "-i", *(f"{n}={v}" for n, v in {
            "SLURM_JOB_ID": "7", "SLURM_CLUSTER_NAME": "c", "LD_LIBRARY_PATH": f"{FAKES}:{FAKES / 'nvml'}", "P5BENCH_FAKE_GPUS": "2",
            "P5BENCH_FAKE_MEMORY": MEMORY, "P5BENCH_MOST_SAMPLES": "6"}.items()), str(BUILD / "p5bench"), "check", "--limit", LONG], cwd="/",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 0, process.stdout)
        self.assertIn(": fit; ", process.stdout)

    def test_nvml_is_asked_once(self):
        """By one process, besides that which watches the GPUs; under a launcher by the first rank of the host."""
        for how in ({}, {"ranks": 2}, {"ranks": 1}) if NIGHTLY else ({}, {"ranks": 2}):
            log = self.folder / f"nvml-{how.get('ranks', 0)}"
            code, output = self.check(P5BENCH_FAKE_NVML_LOG=str(log), **how)
            self.assertEqual(code, 0, output)
            starts = log.read_text().splitlines()
            self.assertEqual(len([each for each in starts if not each.endswith(" --watch")]), 1, starts)

    def communicators_made(self, **how):
        """Exit code, and how often any rank made a communicator, which the log of this NCCL tells."""
        log = self.folder / "nccl-log"
        log.unlink(missing_ok=True)
        code, output = self.check("--out", str(self.folder / "out"), LD_LIBRARY_PATH=f"{FAKES / 'nccl-fixed-log'}:{FAKES}:{FAKES / 'nvml'}",
                                  NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT", NCCL_DEBUG_FILE=str(log), P5BENCH_FAKE_LOG="made one", **how)
        of_pairs = [len(m["pairs"]) for m in self.report()["measurements"] if m["case"]["collective"] == "p2p"]
        self.assertEqual(len(set(of_pairs)), 2, output)
        return code, log.read_text().count("NCCL INFO made one")

    def test_pairs_of_gpus_that_are_alike_share_the_communicator_of_their_node(self):
        self.assertEqual(self.communicators_made(gpus=4), (0, 4), "the job's")
        self.assertEqual(self.communicators_made(gpus=4, faults="link-down:gpu=1:count=2"), (10, 4 * (1 + 3)), "three rounds of pairs")

    def test_pairs_on_several_hosts_share_those_of_each(self):
        wrapper = self.folder / "on_hosts"
        wrapper.write_text("#!/bin/sh\nhost=$((OMPI_COMM_WORLD_RANK / 4))\n"
                           "export NCCL_HOSTID=node$host CUDA_VISIBLE_DEVICES=$(seq -s , $((4 * host)) $((4 * host + 3)))\n"
                           f"exec {BUILD / 'p5bench'} \"$@\"\n")
        wrapper.chmod(0o755)
        # The job's, those of both nodes, and these again after the operation of all.
        self.assertEqual(self.communicators_made(program=wrapper, ranks=8, gpus=8), (0, 8 * (1 + 2)))

    def test_one_task_of_a_launcher_is_alone(self):
        code, output = self.check(ranks=1)
        self.assertEqual(code, 0, output)
        self.assertIn("3 pairs of ranks", output)

    def test_several_ranks_are_measured_over_mpi(self):
        code, output = self.check(ranks=2)
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r": fit; checked .*1 pair of ranks, 2 of 3 GPUs alone")

    def test_variables_of_ours_that_ranks_have_otherwise_are_those_of_the_first(self):
        """Open MPI passes no variables on to other hosts."""
        for otherwise in ("unset P5BENCH_MOST_SAMPLES", "export P5BENCH_MOST_SAMPLES=0", "export P5BENCH_JOIN_LIMIT=1ms"):
            wrapper = self.folder / "otherwise"
            wrapper.write_text(f"#!/bin/sh\n[ $OMPI_COMM_WORLD_RANK = 0 ] || {otherwise}\nexec {BUILD / 'p5bench'} \"$@\"\n")
            wrapper.chmod(0o755)
            with self.subTest(ranks_have=otherwise):
                code, output = self.check(program=wrapper, ranks=2)
                self.assertEqual(code, 0, output)
                self.assertRegex(output, r": fit; ")
                self.assertNotIn(" failed: ", output)


class Unfit(Checks):
    def test_broken_links_condemn_a_node_and_name_the_gpu(self):
        code, output = self.check(faults="link-down:gpu=1:count=2")
        self.assertEqual(code, 10, output)
        self.assertRegex(output, r"(?m)^\S+: NOT FIT: gpu\.links GPU 1$")
        self.assertRegex(output, r"(?m)^  error gpu\.links: .*16 active NVLinks of 18")

    def test_what_is_broken_counts_for_more_than_that_nothing_could_be_measured(self):
        """Failures for which a prolog would start the job: ranks that crash, do not start, or have no GPU to use."""
        every = (
            ("link-down:gpu=1:count=2", {"P5BENCH_FAKE": "join-crash:rank=1"}, "gpu.links GPU 1"),
            ("", {"P5BENCH_FAKE": "join-crash:gpu=1"}, r"join\.gpu GPU 1"),
            ("lost:gpu=0", {"P5BENCH_FAKE": "join-crash:rank=0"}, "gpu.lost GPU 0"),
            ("ecc:gpu=0:uncorrected=2", {"P5BENCH_FAKE": "join-crash:rank=1"}, "gpu.memory_errors GPU 0"))
        for faults, variables, says in every if NIGHTLY else every[:2]:
            with self.subTest(faults):
                code, output = self.check(faults=faults, **variables)
                self.assertEqual(code, 10, output)
                self.assertRegex(output, rf"(?m)^\S+: NOT FIT: .*{says}")

    def test_a_limit_of_processes_is_no_fault_of_a_gpu(self):
        """Limits from too low for any start to high enough: a node that cannot be measured is not condemned."""
        user = 54321
        if os.getuid() != 0 or subprocess.run([str(BUILD / "p5bench"), "--version"], user=user, group=user, extra_groups=[],
                                              capture_output=True).returncode != 0:
            self.skipTest("needs root, to become a user without processes, and programs that other users may read")
        fit = False
        for most in (1, 2, 3, 5, 9, 17, 33, 47, 200) if NIGHTLY else (1, 5, 33, 200):
            with self.subTest(most):
                process = self.start(program="setpriv", before=["--reuid", str(user), "--regid", str(user), "--clear-groups", "prlimit",
                                                                f"--nproc={most}", str(BUILD / "p5bench")], gpus=2)
                code, output = self.end(process)
                fit = fit or code == 0
                self.assertEqual(code, 0 if fit else 13, output)
                self.assertNotIn("NOT FIT", output)
                if not fit:
                    self.assertIn("ulimit -u", output)
        self.assertTrue(fit, "200 are not enough")

    def test_small_stacks_are_no_fault_of_anything(self):
        """No process is left: neither supervisors, nor the probes and workers that they start."""
        for kibibytes in (80, 200) if NIGHTLY else (80,):
            with self.subTest(kibibytes):
                process = self.start(program="bash", before=["-c", f'ulimit -s {kibibytes}; exec "$@"', "bash", str(BUILD / "p5bench")], gpus=2)
                code, output = self.end(process)
                self.assertEqual(code, 0, output)

    def test_gpus_that_failed_alone_once_are_measured_again(self):
        every = (("kill@1:check_locally#1", 0), ("kill@1:check_locally#1,kill@1:check_locally#1", 12))
        for steps, code in every if NIGHTLY else every[1:]:
            with self.subTest(steps):
                notes = tempfile.mkdtemp(dir=self.folder)
                got, output = self.check(LD_PRELOAD=str(BUILD / "tests/gpu/misbehave.so"), P5BENCH_MISBEHAVE=steps, P5BENCH_MISBEHAVE_NOTES=notes)
                self.assertEqual(got, code, output)
                self.assertIn("the check of each GPU alone failed " + ("twice" if code else "once and passed when it was repeated") + ": rank 1: ", output)
                self.assertEqual("gpu.check_failed" in output, code != 0, output)

    def test_gpus_that_failed_alone_and_did_not_pass_then_are_not_called_fit(self):
        notes = tempfile.mkdtemp(dir=self.folder)
        code, output = self.check(LD_PRELOAD=str(BUILD / "tests/gpu/misbehave.so"),
                                  P5BENCH_MISBEHAVE="kill@1:check_locally#1,kill@2:check_locally#1", P5BENCH_MISBEHAVE_NOTES=notes)
        self.assertEqual(code, 12, output)
        self.assertRegex(output, r"(?m)^\S+: NOT FINISHED: ")
        self.assertIn("the check of each GPU alone failed, but not twice at the same rank within the limit: rank 1: ", output)

    def test_of_several_hosts_only_that_of_the_gpu_that_failed_alone_is_not_finished(self):
        notes = tempfile.mkdtemp(dir=self.folder)
        code, output = self.check(program=self.on_hosts_of_two(), ranks=4, gpus=4, LD_PRELOAD=str(BUILD / "tests/gpu/misbehave.so"),
                                  P5BENCH_MISBEHAVE="kill@3:check_locally#1,kill@3:check_locally#1", P5BENCH_MISBEHAVE_NOTES=notes)
        self.assertEqual(code, 12, output)
        self.assertRegex(output, r"(?m)^node1: NOT FINISHED: gpu.check_failed GPU 3$")
        self.assertNotRegex(output, r"(?m)^node0: (NOT FIT|NOT FINISHED|IN DOUBT)")

    def test_of_several_hosts_only_that_of_the_gpu_that_hangs_alone_is_not_finished(self):
        every = [(rank, burn) for rank in (3, 0) for burn in ((), ("--burn", "10s"))]
        for rank, burn in every if NIGHTLY else every[:1]:
            with self.subTest(rank=rank, burn=burn):
                notes = tempfile.mkdtemp(dir=self.folder)
                code, output = self.check(*burn, program=self.on_hosts_of_two(), ranks=4, gpus=4, limit=SHORT,
                                          LD_PRELOAD=str(BUILD / "tests/gpu/misbehave.so"), P5BENCH_MISBEHAVE=f"endless@{rank}:check_locally#1",
                                          P5BENCH_MISBEHAVE_NOTES=notes)
                self.assertEqual(code, 12, output)
                node, other = ("node0", "node1") if rank == 0 else ("node1", "node0")
                self.assertRegex(output, rf"(?m)^{node}: NOT FINISHED: gpu.check_failed GPU {rank}(,.*)?$")
                self.assertNotRegex(output, rf"(?m)^{other}: (NOT FIT|NOT FINISHED|IN DOUBT)")

    @unittest.skipUnless(NIGHTLY, "nightly: by day GPUs hang alone and in operations")
    def test_a_gpu_that_hangs_under_load_when_the_time_ends_is_not_called_fit(self):
        # The wait for the load is longer than the limit.
        code, output = self.check("--timeout", "100s", program=self.on_hosts_of_two(), ranks=4, gpus=4, limit="40s",
                                  LD_PRELOAD=str(BUILD / "tests/gpu/misbehave.so"), P5BENCH_FAKE_CUBLASLT=fake_cublaslt(),
                                  P5BENCH_FAKE_MEMORY=str(32 << 20), P5BENCH_MISBEHAVE="endless@3:sample_concurrently#1",
                                  P5BENCH_MISBEHAVE_NOTES=tempfile.mkdtemp(dir=self.folder))
        if "no answer for" not in output:
            self.skipTest("no time was left for the load")
        self.assertEqual(code, 12, output)
        self.assertRegex(output, r"(?m)^node1: NOT FINISHED: gpu.check_failed GPU 3(,.*)?$")
        self.assertRegex(output, r"rank 3: its check alone was not complete: no answer [^\n]* did not become idle[^\n]*\(node1, ")
        self.assertNotRegex(output, r"(?m)^node0: (NOT FIT|NOT FINISHED|IN DOUBT)")

    def test_gpus_that_failed_alone_on_two_hosts_are_told_each_with_its_own_failure(self):
        notes = tempfile.mkdtemp(dir=self.folder)
        code, output = self.check(program=self.on_hosts_of_two(), ranks=4, gpus=4, LD_PRELOAD=str(BUILD / "tests/gpu/misbehave.so"),
                                  P5BENCH_MISBEHAVE="kill@3:check_locally#1,kill@1:check_locally#1", P5BENCH_MISBEHAVE_NOTES=notes)
        self.assertEqual(code, 12, output)
        for node, rank in ((1, 3), (0, 1)):
            self.assertRegex(output, rf"(?m)^node{node}: NOT FINISHED: gpu.check_failed GPU {rank}$")
            self.assertRegex(output, rf"rank {rank}: its check alone was not complete: its worker [^\n]*\(node{node}, ")

    def test_a_burn_that_does_not_run_leaves_the_node_not_checked(self):
        code, output = self.check("--burn", "60s", gpus=2, P5BENCH_FAKE_CUBLASLT="/nonexistent/libcublasLt.so.13")
        self.assertEqual(code, 14, output)
        self.assertRegex(output, r"(?m)^\S+: NOT CHECKED: no burn on GPU 0, GPU 1: libcublasLt.so.13 is not installed")
        user = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(lambda: (user.kill(), user.wait()))
        code, output = self.check("--burn", "60s", gpus=1, faults=f"busy:gpu=0:processes=1:pid={user.pid}")
        self.assertEqual(code, 14, output)
        self.assertRegex(output, r"(?m)^\S+: NOT CHECKED: no burn on GPU 0 \(in use by")

    def test_a_burn_is_not_repeated(self):
        notes = tempfile.mkdtemp(dir=self.folder)
        code, output = self.check("--burn", "1s", LD_PRELOAD=str(BUILD / "tests/gpu/misbehave.so"),
                                  P5BENCH_MISBEHAVE="kill@1:check_locally#1", P5BENCH_MISBEHAVE_NOTES=notes)
        self.assertEqual(code, 12, output)
        self.assertRegex(output, r"gpu.check_failed: rank 1: ")

    def test_wrong_data_name_the_gpu_that_corrupts_them(self):
        code, output = self.check(P5BENCH_FAKE="wrong:rank=2:operation=2+:what=element")
        self.assertEqual(code, 11, output)
        self.assertRegex(output, r"(?m)^\S+: NOT FIT: gpu n0g2$")

    def test_a_gpu_on_which_workers_do_not_start_leaves_the_preflight(self):
        code, output = self.check(LD_LIBRARY_PATH=str(FAKES / "nvml"), faults="ecc:gpu=0:uncorrected=2")
        self.assertEqual(code, 10, output)
        self.assertIn("NOT FIT: gpu.memory_errors GPU 0", output)

    def test_without_a_gpu_it_says_so(self):
        for variables in ({"gpus": 0}, {"faults": "init:error=9"}, {"LD_LIBRARY_PATH": str(FAKES)}):
            code, output = self.check(**variables)
            self.assertEqual(code, 13, output)
            self.assertRegex(output, r"(?m)^\S+: NOT CHECKED\n  nothing measured: there is no GPU here")
            self.assertIn("--backend mpi, ofi and sim need none", output)


class WithProducts(Checks):
    def products(self, *arguments, faults="", **variables):
        """A check with matrix products, of which the fake cuBLASLt makes some wrong."""
        return self.check(*arguments, P5BENCH_FAKE_CUBLASLT=fake_cublaslt(),
                          P5BENCH_FAKE_PRODUCTS=faults, **{"P5BENCH_FAKE_MEMORY": str(32 << 20), **variables})


class Products(WithProducts):
    def test_matrix_products_are_measured_on_each_gpu(self):
        code, output = self.products("--format", "json", gpus=2)
        self.assertEqual(code, 0, output)
        report = json.loads(output[output.index("{"):])
        for figures, compute in zip(report["local_checks"], report["compute_checks"], strict=True):
            self.assertGreater(figures["bf16_tflop_per_s"], 0)
            self.assertGreater(figures["memory_read_gb_per_s"], 0)
            self.assertEqual((compute["library"], compute["corruption"], compute["not_measured"]), ("cuBLASLt 13.0.0", "", ""))
        self.assertEqual(len({str(compute["digests"]) for compute in report["compute_checks"]}), 1)

    def test_products_that_the_library_lacks_are_left_out_and_told(self):
        code, output = self.products(gpus=2, faults="none:gpu=0:bf16=1,none:gpu=1:fp8=1")
        self.assertEqual(code, 0, output)
        for words in ("matrix products on GPU 0", "matrix products in float8 on GPU 1"):
            self.assertIn(f"; no {words}: cuBLASLt 13.0.0 has none for this GPU (", output)

    def test_a_gpu_that_computes_wrong_is_named_with_product_byte_and_bit(self):
        code, output = self.products(faults="wrong:gpu=1:product=3")
        self.assertEqual(code, 11, output)
        self.assertRegex(output, r"(?m)^\S+: NOT FIT: gpu.corrupt GPU 1$")
        self.assertRegex(output, r"gpu.corrupt: rank 1, alone: bf16 matrix product \d+: bit 5 of the 8 bytes at byte \d+ of the result is [01] ")

    def test_a_gpu_that_was_slow_for_a_moment_is_measured_again(self):
        code, output = self.products("--format", "json", gpus=2, faults="slow:gpu=0:percent=60:until=35", P5BENCH_MOST_SAMPLES=None)
        self.assertEqual(code, 0, output)
        self.assertNotIn("alone, bf16 matrix products", output)

    def test_wrong_products_under_load_name_the_gpu(self):
        """Products that go wrong after those of the check alone."""
        code, output = self.products(gpus=2, faults="brake:gpu=1:wrong=1", P5BENCH_FAKE_PRODUCT_US="4000")
        self.assertEqual(code, 11, output)
        self.assertRegex(output, r"(?m)^\S+: NOT FIT: gpu.corrupt GPU 1$")
        self.assertRegex(output, r"gpu.corrupt: rank 1: bf16 matrix products while messages pass: element \d+ is ")


class MoreProducts(WithProducts):
    """Nightly: burns, which take their time, and the same kinds of faults elsewhere; by day the simulator has burns and load."""

    def test_a_gpu_whose_products_differ_from_the_others_is_named(self):
        code, output = self.products(faults="other:gpu=2")
        self.assertEqual(code, 11, output)
        self.assertRegex(output, r"(?m)^\S+: NOT FIT: gpu.corrupt GPU 2$")
        self.assertIn("rank 2: the bits of the bf16 matrix product differ from those of 2 other GPUs of its model", output)

    def test_a_burn_ends_with_a_table(self):
        code, output = self.products("--burn", "3s", faults="slow:gpu=0:percent=60")
        self.assertEqual(code, 10, output)
        self.assertRegex(output, r"(?m)^\S+: NOT FIT: gpu.slow_alone GPU 0$")
        self.assertRegex(output, r"(?m)^ *GPU +first +last +slowest second +spread.* TFLOP/s, bf16$")
        self.assertEqual(len(re.findall(r"(?m)^ *GPU [012]( +\d\S*){4} % ", output)), 3, output)
        self.assertRegex(output, r"gpu.slow_alone: rank 0, alone, bf16 matrix products")

    def test_a_burn_has_a_half_under_load(self):
        code, output = self.products("--burn", "4s", P5BENCH_FAKE_PRODUCT_US="4000")
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"(?m)^ *GPU +products: alone, together +links: alone, together.* held back by +TFLOP/s, GB/s$")
        self.assertEqual(len(re.findall(r"(?m)^ *GPU [012]( +\d\S* +\d\S* +\d\S* %){2} ", output)), 3, output)

    def test_a_gpu_that_computes_wrong_at_the_start_of_a_long_burn_is_named(self):
        """Its rank waits for the others for longer than ranks wait outside of a burn."""
        code, output = self.products("--burn", "80s", limit="20s", faults="wrong:gpu=0:product=3")
        self.assertEqual(code, 11, output)
        self.assertRegex(output, r"(?m)^\S+: NOT FIT: gpu.corrupt GPU 0$")

    def test_a_burn_longer_than_the_limit_ends_with_a_table(self):
        code, output = self.products("--burn", "40s", limit="20s", faults="slow:gpu=0:percent=60")
        self.assertEqual(code, 10, output)
        self.assertRegex(output, r"(?m)^\S+: NOT FIT: gpu.slow_alone GPU 0$")

    def test_a_gpu_that_slows_only_while_messages_pass_is_named(self):
        """Four GPUs, each of which has two others to exchange messages with; a brake on one slows its products by two thirds."""
        quick = {"gpus": 4, "P5BENCH_FAKE_PRODUCT_US": "4000"}
        code, output = self.products("--format", "json", faults="brake:gpu=2:percent=200", **quick)
        self.assertEqual(code, 0, output)
        report = json.loads(output[output.index("{"):])
        for figures in report["local_checks"]:
            for part, unit in (("products", "tflop_per_s"), ("links", "gb_per_s")):
                self.assertGreater(figures[f"load_{part}_alone_{unit}"], 0)
                self.assertGreater(figures[f"load_{part}_{unit}"], 0)
                self.assertGreater(figures[f"load_{part}_share"], 0)
        shares = [figures["load_products_share"] for figures in report["local_checks"]]
        self.assertLess(shares[2], 0.6 * min(shares[:2] + shares[3:]), shares)
        found = [f for f in report["findings"] if f["id"] == "gpu.slow_under_load" and f["subject"].get("gpu") == 2]
        self.assertTrue(any("what messages leave of the rate of matrix products" in f["evidence"] for f in found), report["findings"])
        self.assertEqual(len(report["load_activity"]), 4)

    def test_gpus_of_several_hosts_are_loaded_over_links_and_nics_at_once(self):
        """Three pretended hosts of two GPUs: in each of three cases one of them is idle on its NICs."""
        wrapper = self.folder / "on_hosts"
        wrapper.write_text("#!/bin/sh\nhost=$((OMPI_COMM_WORLD_RANK / 2))\n"
                           "export NCCL_HOSTID=node$host CUDA_VISIBLE_DEVICES=$((2 * host)),$((2 * host + 1))\n"
                           "[ $OMPI_COMM_WORLD_RANK = 3 ] || unset P5BENCH_FAKE_PRODUCTS\n"
                           f"exec {BUILD / 'p5bench'} \"$@\"\n")
        wrapper.chmod(0o755)
        # On a busy machine one work may end before another, which leaves out a figure, and a fake GPU, which computes on
        # the processor, may be slow alone.
        for _ in range(3):
            code, output = self.products("--format", "json", program=wrapper, ranks=6, gpus=6, faults="brake:gpu=1:percent=200",
                                         P5BENCH_FAKE_PRODUCT_US="4000")
            report = json.loads(output[output.index("{"):])
            if code == 0 and all(f"load_{part}_share" in figures for figures in report["local_checks"] for part in ("products", "links", "nics")):
                break
        self.assertEqual(code, 0, output)
        self.assertEqual(len(report["topology"]["hosts"]), 3)
        for figures in report["local_checks"]:
            for part in ("products", "links", "nics"):
                self.assertGreater(figures[f"load_{part}_share"], 0)
        shares = [figures["load_products_share"] for figures in report["local_checks"]]
        self.assertLess(shares[3], 0.6 * min(shares[:3] + shares[4:]), shares)
        found = [f["subject"] for f in report["findings"] if f["id"] == "gpu.slow_under_load" and "rate of matrix products" in f["evidence"]]
        self.assertIn(("node1", 3), [(each["host"], each["gpu"]) for each in found])

    def test_a_single_gpu_is_loaded_by_copies_to_the_host(self):
        code, output = self.products("--format", "json", gpus=1, P5BENCH_FAKE_PRODUCT_US="4000", P5BENCH_FAKE_MEMORY=str(256 << 20))
        self.assertEqual(code, 0, output)
        figures, = json.loads(output[output.index("{"):])["local_checks"]
        self.assertGreater(figures["load_copies_share"], 0)
        self.assertGreater(figures["load_products_share"], 0)
        self.assertNotIn("load_links_share", figures)


class Silent(Checks):
    def test_a_gpu_that_hangs_is_named_long_before_the_limit(self):
        code, output = self.check("--timeout", "5s", P5BENCH_FAKE="hang:rank=1:operation=9+")
        self.assertEqual(code, 12, output)
        # Both sides of a pair wait for the same time; the faulty GPU is the one that all silent pairs share.
        self.assertRegex(output, r"(?m)^\S+: NOT FIT: gpu n0g1$")

    def test_a_gpu_that_does_not_join_is_named_within_the_limit(self):
        code, output = self.check(limit=SHORT, P5BENCH_FAKE="join-hang:gpu=2")
        self.assertEqual(code, 12, output)
        self.assertRegex(output, r"(?m)^\S+: NOT FIT: join\.gpu GPU 2")
        self.assertRegex(output, r"(?m)^  error join\.gpu: the ranks of GPU 2 do not join, not even by themselves.* no answer for .*GPU-")

    def test_a_driver_that_does_not_answer_is_named(self):
        code, output = self.check(limit=SHORT, faults="block:function=nvmlInit_v2")
        self.assertEqual(code, 12, output)
        self.assertIn("nothing measured: NVML: nvmlInit_v2 did not answer within 6 s", output)

    def test_of_several_hosts_only_that_whose_driver_does_not_answer_is_not_finished(self):
        wrapper = self.folder / "on_hosts"
        wrapper.write_text("#!/bin/sh\nhost=$((OMPI_COMM_WORLD_RANK / 2))\n"
                           "export NCCL_HOSTID=node$host CUDA_VISIBLE_DEVICES=$((2 * host)),$((2 * host + 1))\n"
                           "[ $host = 0 ] || export P5BENCH_FAKE_NVML=block:function=nvmlInit_v2\n"
                           f"exec {BUILD / 'p5bench'} \"$@\"\n")
        wrapper.chmod(0o755)
        code, output = self.check(program=wrapper, ranks=4, gpus=4, P5BENCH_PROBE_LIMIT="2s")
        self.assertEqual(code, 12, output)
        self.assertRegex(output, r"(?m)^node0: fit; ")
        self.assertRegex(output, r"(?m)^node1: NOT FINISHED: NVML: nvmlInit_v2 did not answer within 2 s$")
        self.assertRegex(output, r"(?m)^  error gpu\.nvml: .*check whether nvidia-smi answers there")

    def check_with_worker_of_rank_3(self, does, **how):
        """A check on two pretended hosts; the worker of rank 3 is a script that does this."""
        wrapper = self.folder / "on_hosts"
        there = self.folder / "there"
        there.mkdir()
        for name in ("p5bench", "p5bench-probe-nvml", "p5bench-probe-libfabric"):
            shutil.copy(BUILD / name, there)
        worker = there / "p5bench-worker-nccl"
        worker.write_text(f"#!/bin/sh\n[ -z \"$P5BENCH_TEST_WORKER\" ] || {does}\nexec {BUILD / 'p5bench-worker-nccl'} \"$@\"\n")
        worker.chmod(0o755)
        wrapper.write_text("#!/bin/sh\nhost=$((OMPI_COMM_WORLD_RANK / 2))\n"
                           "export NCCL_HOSTID=node$host CUDA_VISIBLE_DEVICES=$((2 * host)),$((2 * host + 1))\n"
                           "[ $OMPI_COMM_WORLD_RANK != 3 ] || export P5BENCH_TEST_WORKER=1\n"
                           f"exec {there / 'p5bench'} \"$@\"\n")
        wrapper.chmod(0o755)
        code, output = self.check(program=wrapper, ranks=4, gpus=4, **how)
        self.assertEqual(code, 12, output)
        self.assertRegex(output, r"(?m)^node0: NOT CHECKED: no operation was measured there$")
        self.assertRegex(output, r"(?m)^node1: NOT FINISHED: gpu.check_failed$")
        self.assertRegex(output, r"(?m)^  error gpu\.check_failed: rank 3: .*node1")

    def test_a_worker_that_does_not_answer_when_it_starts_is_told_with_its_host(self):
        self.check_with_worker_of_rank_3("exec sleep 1000", limit=SHORT)

    def test_a_worker_that_ends_when_it_starts_is_told_with_its_host(self):
        self.check_with_worker_of_rank_3("kill -SEGV $$")

    def test_a_gpu_that_does_not_answer_the_driver_is_skipped_and_condemned(self):
        code, output = self.check(faults="block:function=nvmlDeviceGetNvLinkState:gpu=1", P5BENCH_PROBE_LIMIT="2s")
        self.assertEqual(code, 10, output)
        self.assertIn("NOT FIT: gpu.lost GPU 1", output)
        self.assertIn("skipped: GPU 1 (nvmlDeviceGetNvLinkState did not answer", output)

    def stopped(self, which, limit=SHORT):
        """A check with a process that stops for ever, from the middle of its cases on."""
        process = self.start("--out", str(self.folder / "out"), limit=limit, P5BENCH_FAKE="slow:rank=0:us=1000")
        report = self.folder / "out" / "latest" / "report.json"
        wait_for(lambda: len(self.workers()) == 3 and report.exists())
        for pid in which(process):
            os.kill(pid, signal.SIGSTOP)
        code, output = self.end(process)
        self.assertEqual(code, 12, output)
        self.assertEqual(self.report()["status"], "partial")
        return output

    def test_a_supervisor_that_stands_still_is_named_at_the_limit(self):
        output = self.stopped(lambda process: [pid for pid in self.supervisors() if pid != process.pid][-1:])
        # Where it stands still while its worker computes, the others' workers notice first.
        self.assertRegex(output, r"NOT FINISHED: .*(no answer within 24 s while .*: all others wait for rank [12] \(GPU-|"
                                 r"all others wait for rank [12] \(GPU-[^)]*\): no progress in .* within 2\d s)")

    def test_of_several_hosts_only_that_of_a_supervisor_that_stands_still_is_not_finished(self):
        process = self.start("--out", str(self.folder / "out"), program=self.on_hosts_of_two(), ranks=4, gpus=4, limit=SHORT,
                             P5BENCH_FAKE="slow:rank=0:us=1000")
        report = self.folder / "out" / "latest" / "report.json"
        wait_for(lambda: len(self.workers()) == 4 and report.exists())
        stopped, = [pid for pid in self.supervisors()
                    if b"OMPI_COMM_WORLD_RANK=3" in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]
        os.kill(stopped, signal.SIGSTOP)
        code, output = self.end(process)
        self.assertEqual(code, 12, output)
        # The watchdog sees that nothing goes on, or the limit of the command comes first.
        cause = "(?:no answer within 24 s while .*: all others wait for rank 3|rank 3 on node1: its process .* is stopped by a signal)"
        self.assertRegex(output, rf"(?m)^node0: NOT CHECKED: {cause}")
        self.assertRegex(output, rf"(?m)^node1: NOT FINISHED: gpu.check_failed GPU 3, {cause}")

    def test_a_supervisor_that_dies_is_named_at_once(self):
        process = self.start()
        wait_for(lambda: len(self.workers()) == 3)
        victim, = [pid for pid in self.supervisors() if pid != process.pid][:1]
        os.kill(victim, signal.SIGKILL)
        code, output = self.end(process)
        self.assertEqual(code, 12, output)
        self.assertRegex(output, rf"rank [12] ended before the job did \(process {victim}, ended by signal 9")

    def test_whatever_ends_it_ends_all_that_it_started(self):
        for number, code in ((signal.SIGTERM, 12), (signal.SIGKILL, -9)):
            process = self.start()
            wait_for(lambda: len(self.workers()) == 3)
            process.send_signal(number)
            self.assertEqual(self.end(process)[0], code)

    def test_under_a_launcher_what_does_not_answer_is_named_too(self):
        code, output = self.check(ranks=2, limit=SHORT, P5BENCH_FAKE="join-hang:gpu=1")
        self.assertEqual(code, 12, output)
        self.assertIn("the ranks of GPU 1 do not join, not even by themselves", output)


if __name__ == "__main__":
    skip_unless_built()
    unittest.main(verbosity=2)
