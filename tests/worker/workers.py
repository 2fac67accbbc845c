"""Drives worker programs as a supervisor does: one process for each rank, orders down a socket pair, replies up."""

import fcntl
import functools
import json
import mmap
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys

BUILD = pathlib.Path(os.environ["P5BENCH_BUILD"])
PROGRAM = BUILD / "p5bench-worker-nccl"
FAKES = BUILD / "tests" / "fakes"

MAGIC, VERSION = 0x70356231, 1
HEADER = struct.Struct("=4I")
PATIENCE_S = 60
# Operations that a worker performs while it joins: the all-reduce that connects all ranks.
OPERATIONS_TO_JOIN = 1

BYTES = {"int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "float16": 2, "bfloat16": 2,
         "float32": 4, "float64": 8, "float8_e4m3": 1, "float8_e5m2": 1}


def skip_unless_built():
    """Ends the test program as skipped where the worker or the fakes could not be built."""
    missing = [str(each) for each in (PROGRAM, FAKES / "libnccl.so.2") if not each.exists()]
    if missing:
        print("skipped: the NCCL worker needs CUDA and NCCL to be built; missing: " + ", ".join(missing))
        sys.exit(77)


def fake_cublaslt():
    """The path of the fake cuBLASLt, which has the version of the CUDA that it was built with."""
    return str(next((FAKES / "cublaslt").glob("libcublasLt.so.*"), ""))


@functools.cache
def built_with():
    """The versions of CUDA and NCCL that the worker and the fakes were built with, as (major, minor)."""
    worker = Worker()
    told = worker.ask("identify", local_rank=0)
    worker.end()
    return {"CUDA": version_of(told["runtime"]), "NCCL": version_of(told["library"].removeprefix("NCCL "))}


def version_of(text):
    return tuple(int(part) for part in text.split(".")[:2])


class Worker:
    """One worker process and our end of its socket pair. Its standard output is a file of ours, which p5bench reads as
    NCCL's log. NCCL_DEBUG_FILE may direct the log to another file."""

    def __init__(self, environment=(), epoch=0, program=PROGRAM):
        self.epoch = epoch
        log = "NCCL_DEBUG_FILE" not in environment
        self.log_file = os.memfd_create("log") if log else None
        if log:
            fcntl.fcntl(self.log_file, fcntl.F_SETFL, os.O_APPEND)
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(PATIENCE_S)
        page = os.memfd_create("page")
        os.ftruncate(page, mmap.PAGESIZE)
        self.page = mmap.mmap(page, mmap.PAGESIZE)
        # High numbers first, so that duplicating one to its place does not overwrite the other.
        high = [fcntl.fcntl(each, fcntl.F_DUPFD, 20) for each in (theirs.fileno(), page)]

        def place_descriptors():
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        variables = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "P5BENCH_"))}
        variables.update({"LD_LIBRARY_PATH": str(FAKES), "P5BENCH_FAKE_MEMORY": str(1 << 30)} | dict(environment))
        self.process = subprocess.Popen([program], env=variables, preexec_fn=place_descriptors, close_fds=False, stdout=self.log_file)
        for each in (*high, page):
            os.close(each)
        theirs.close()

    def send(self, name, epoch=None, **order):
        text = json.dumps({"order": name, **order}).encode()
        self.socket.sendall(HEADER.pack(MAGIC, VERSION, self.epoch if epoch is None else epoch, len(text)) + text)

    def receive(self):
        magic, version, epoch, length = HEADER.unpack(self._read(HEADER.size))
        assert (magic, version) == (MAGIC, VERSION)
        self.last_epoch = epoch
        return json.loads(self._read(length))

    def ask(self, name, **order):
        self.send(name, **order)
        return self.receive()

    def _read(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise ConnectionError("the worker closed the connection")
            data += part
        return data

    def log(self):
        return os.pread(self.log_file, os.fstat(self.log_file).st_size, 0).decode()

    def completed(self):
        return struct.unpack_from("=Q", self.page, 0)[0]

    def orders(self):
        return struct.unpack_from("=Q", self.page, 16)[0]

    def give_up(self):
        """Requests that the worker abort its operations."""
        struct.pack_into("=I", self.page, 28, 1)

    def end(self):
        self.socket.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.page.close()
        if self.log_file is not None:
            os.close(self.log_file)


class Workers:
    """All ranks of a job, after they have joined."""

    def __init__(self, ranks, fault="", join=True, environment=()):
        """`environment`: variables of all ranks, or a function that returns those of a rank."""
        self.ranks = ranks
        of_rank = environment if callable(environment) else lambda rank: environment
        faults = {"P5BENCH_FAKE": fault} if fault else {}
        self.all = [Worker({**faults, **dict(of_rank(rank))}) for rank in range(ranks)]
        self.identities = [self.all[rank].ask("identify", local_rank=rank) for rank in range(ranks)]
        if join:
            self.join_replies = self.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.all:
            worker.end()

    def join(self):
        unique_id = self.all[0].ask("unique_id")["id"]
        for rank, worker in enumerate(self.all):
            worker.send("join", ids=[unique_id], rank=rank, ranks=self.ranks)
        return [worker.receive() for worker in self.all]

    def ask(self, name, **order):
        """Sends the same order to all ranks; returns their replies."""
        for worker in self.all:
            worker.send(name, **order)
        return [worker.receive() for worker in self.all]

    def good(self, name, **order):
        """Sends an order that must not fail on any rank."""
        replies = self.ask(name, **order)
        for rank, reply in enumerate(replies):
            assert reply.get("ok") is True, f"{name} at rank {rank}: {reply}"
        return replies

    def open(self, case, groups=None, number=0, memory=64 << 20, form=None, communicators=None):
        """A round: its groups, by default one of all ranks, its number, and the larger groups whose communicators they
        use, by default their own."""
        everyone = [list(range(self.ranks))]
        groups = everyone if groups is None else groups
        larger = communicators or groups
        form = ("job" if sorted(map(sorted, larger)) == everyone else "groups") if form is None else form
        of_rank = lambda rank, all_groups: next((group for group in all_groups if rank in group), None)
        for rank, worker in enumerate(self.all):
            communicator = {"communicator": of_rank(rank, communicators)} if communicators else {}
            worker.send("open", case=case, round=number, group=of_rank(rank, groups), form=form, alone=len(larger) == 1,
                        pauses=sum(map(len, larger)) < self.ranks, memory=memory, **communicator)
        return [worker.receive() for worker in self.all]

    def measure(self, case, rounds=None, operations=2, samples=2, setting="", **options):
        """A whole case; the verifications of all ranks in all rounds, and the times."""
        verifications, seconds = [], []
        for number, groups in enumerate(rounds or [None]):
            slots = [reply["slots"] for reply in self.open(case, groups, number, **options)]
            assert len(set(slots)) == 1, slots
            most = min(operations, slots[0])
            self.good("warm_up", operations=1, setting=setting)
            for latency in (True, False):
                replies = self.good("sample", quantity="latency" if latency else "throughput", samples=samples, poison_last=True,
                                    operations=1 if latency else most, setting=setting)
                seconds.append([reply["seconds"] for reply in replies])
            verifications += self.good("verify")
            self.good("close")
        return verifications, seconds


REDUCING = ("all_reduce", "reduce_scatter", "reduce")
ROOTED = ("broadcast", "reduce", "gather", "scatter")
COPYING = ("all_gather", "broadcast", "all_to_all", "all_to_allv", "gather", "scatter", "send_recv")  # and hypercube
IN_PLACE = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter")


def case(collective, elements, ranks, type_name="float32", op=None, pattern="", in_place=False, root=0, **more):
    """A case as the protocol writes it; `elements` are those of one rank's share where ranks share the message, else
    all."""
    exchanges = ("all_to_all", "all_to_allv", "lsa_all_to_all")
    inputs = elements * ranks if collective in ("reduce_scatter", *exchanges, "scatter") else elements
    outputs = elements * ranks if collective in ("all_gather", *exchanges, "gather", "hypercube") else elements
    return {"collective": collective, "pattern": pattern, "bytes": max(inputs, outputs) * BYTES[type_name],
            "type": type_name, "op": op if op or collective not in (*REDUCING, "lsa_all_reduce") else "sum",
            "root": root if collective in ROOTED else None, "in_place": in_place, "cuda_graph": False,
            "register": "none", "ranks": ranks, "input_elements": inputs, "output_elements": outputs, **more}
