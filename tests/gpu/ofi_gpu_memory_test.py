#!/usr/bin/env python3
"""The worker for libfabric on the real CUDA driver: data in the memory of GPUs, moved by libfabric's tcp and shm, which do
not reach it, so that it is copied through host memory. Needs a GPU, p5bench-worker-ofi and what it links with.

    P5BENCH_BUILD=build/release LD_LIBRARY_PATH=carry/libfabric/lib python3 tests/gpu/ofi_gpu_memory_test.py

P5BENCH_MPIRUN: how whole runs are started ("mpirun --allow-run-as-root --oversubscribe"); "" leaves them out."""

import glob
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "worker"))
from workers import BUILD, Worker, case  # noqa: E402

PROGRAM = BUILD / "p5bench-worker-ofi"
MPIRUN = os.environ.get("P5BENCH_MPIRUN", "mpirun --allow-run-as-root --oversubscribe --bind-to none")
LIBRARIES = os.environ.get("LD_LIBRARY_PATH", "")
MIB = 1 << 20
COPIED = "GPU memory, copied through host memory"


def gpus():
    """PCI addresses as nvidia-smi tells them, in CUDA's writing."""
    told = subprocess.run(["nvidia-smi", "--query-gpu=pci.bus_id", "--format=csv,noheader"], capture_output=True, text=True, check=True)
    return sorted(line.strip().lower()[-12:] for line in told.stdout.split("\n") if line.strip())


class Pair(unittest.TestCase):
    """Two workers on this host."""

    def join(self, provider, memory, **variables):
        self.workers = [Worker({"LD_LIBRARY_PATH": LIBRARIES, "FI_PROVIDER": provider, **variables}, program=PROGRAM) for _ in range(2)]
        for worker in self.workers:
            self.addCleanup(worker.end)
        identities = [worker.ask("identify", local_rank=rank, local_ranks=2, interfaces=["lo"], provider="", memory=memory)
                      for rank, worker in enumerate(self.workers)]
        for identity in identities:
            self.assertNotIn("error", identity)
        ids = [worker.ask("unique_id")["id"] for worker in self.workers]
        self.ask("join", each=[{"ids": ids, "rank": rank, "ranks": 2} for rank in range(2)])
        return identities

    def ask(self, name, each=({}, {}), **order):
        for worker, its in zip(self.workers, each):
            worker.send(name, **order, **its)
        replies = [worker.receive() for worker in self.workers]
        for reply in replies:
            self.assertNotIn("error", reply)
        return replies

    def move(self, size, pattern):
        """The rate of messages that were all right, in GB/s."""
        self.ask("open", case=case("p2p", size // 4, 2, pattern=pattern, nic=0), round=0, group=[0, 1], form="")
        self.ask("warm_up", operations=1)
        times = self.ask("sample", quantity="throughput", operations=1 if size > 16 * MIB else 4, samples=5, poison_last=True, setting="")
        self.assertEqual([reply["wrong_elements"] for reply in self.ask("verify")], [0, 0])
        self.selection = self.ask("selection")[0]["selection"]
        self.ask("close")
        return size / min(times[0]["seconds"]) / 1e9

    def test_data_of_gpus_is_copied_and_right(self):
        for provider in ("tcp", "shm"):
            with self.subTest(provider=provider):
                identities = self.join(provider, "gpu")
                self.assertEqual({identity["memory"] for identity in identities}, {COPIED})
                self.assertEqual(identities[0]["gpus"], gpus())
                for pattern in ("one_way", "both_ways", "ping_pong"):
                    for size in (64, 1 * MIB, 64 * MIB):
                        rate = self.move(size, pattern)
                        self.assertEqual(self.selection["memory"], COPIED)
                        print(f"{provider} {pattern} {size} B: {rate:.3f} GB/s, {identities[0]['library']}, driver {identities[0]['driver']}", flush=True)
                self.doCleanups()

    def test_auto_says_why_it_is_host_memory(self):
        for provider in ("tcp", "shm"):
            with self.subTest(provider=provider):
                identities = self.join(provider, "auto")
                self.assertEqual({identity["memory"] for identity in identities}, {"host memory"})
                print(f"{provider}: no GPU memory: {identities[0]['why_no_gpu']}", flush=True)
                self.assertRegex(identities[0]["why_no_gpu"], "FI_HMEM|fi_mr_regattr|FI_OPT_CUDA_API_PERMITTED")
                self.move(MIB, "one_way")
                self.doCleanups()

    def test_without_gpus_that_are_visible_it_is_host_memory(self):
        identities = self.join("tcp", "auto", CUDA_VISIBLE_DEVICES="")
        self.assertRegex(identities[0]["why_no_gpu"], "CUDA_ERROR_NO_DEVICE")


@unittest.skipIf(not MPIRUN, "P5BENCH_MPIRUN is empty")
class Run(unittest.TestCase):
    def test_the_report_says_where_data_lay(self):
        for memory, wanted in (("gpu", f"^{COPIED}"), ("host", "^host memory$"), ("auto", r"^host memory; no GPU memory \(rank 0 on ")):
            with self.subTest(memory=memory), tempfile.TemporaryDirectory() as folder:
                command = [*shlex.split(MPIRUN), "-np", "2", "-x", "LD_LIBRARY_PATH", "-x", "FI_PROVIDER=tcp", str(BUILD / "p5bench"), "--backend", "ofi",
                           "--collectives", "p2p", "--sizes", "1MiB", "--budget", "30s", "--memory", memory, "--out", folder]
                done = subprocess.run(command, capture_output=True, text=True, timeout=300)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                report = json.loads(pathlib.Path(glob.glob(f"{folder}/*/latest/report.json")[0]).read_text())
                self.assertRegex(report["context"]["libfabric.memory"], wanted)
                print(f"--memory {memory}: {report['context']['libfabric.memory']}", flush=True)
                for m in report["measurements"]:
                    self.assertEqual((m["outcome"], m["wrong_elements"]), ("measured", 0))
                    self.assertTrue(re.match(wanted.split(";")[0].rstrip("$"), m["selection"]["memory"]), m["selection"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
