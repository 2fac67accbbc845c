"""Stands in the place of a worker program, on the socket that its supervisor gave it, with the real worker as its child.
It passes on what both say, until it misbehaves as P5BENCH_MISBEHAVIOUR says, in JSON:

rank, order, nth   of that rank the nth such order, counted from 0 in each process
kind               what happens then, see Proxy
way                "up": to the reply; "down": to the order
once               only in the first process that comes to it
seed               of what is random about it
real               the path of the real worker
acted              a file that is made as it happens
"""

import ctypes
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import time

SOCKET = 3  # of the supervisor, as in bench/backends/protocol.hpp
HEADER = struct.Struct("=4I")
FOR_EVER_S = 3600


class Stream:
    """One side's bytes, as whole messages."""

    def __init__(self, its):
        self.socket = its
        self.bytes = b""

    def messages(self):
        """Those that have come; None once it is closed."""
        piece = self.socket.recv(1 << 16)
        if not piece:
            return None
        self.bytes += piece
        whole = []
        while len(self.bytes) >= HEADER.size:
            end = HEADER.size + HEADER.unpack_from(self.bytes)[3]
            if len(self.bytes) < end:
                break
            whole.append(self.bytes[:end])
            self.bytes = self.bytes[end:]
        return whole


class Proxy:
    """The kinds of misbehaviour: methods that get the message and where it goes, and say what to send on."""

    def __init__(self, plan, supervisor, worker, pid):
        self.plan, self.worker, self.supervisor, self.pid = plan, worker, supervisor, pid
        self.random = random.Random(plan["seed"])
        self.seen = 0
        self.order = ""

    # ---- noise

    def flip(self, message, _):
        changed = bytearray(message)
        for _ in range(self.random.choice([1, 3, 20])):
            changed[self.random.randrange(len(changed))] ^= 1 << self.random.randrange(8)
        return bytes(changed)

    def figures(self, message, _):
        body = message[HEADER.size:].replace(b":0", b":-1e308").replace(b"true", b"null").replace(b"1", b"9")
        return HEADER.pack(*HEADER.unpack_from(message)[:3], len(body)) + body

    def zeros(self, message, _):
        return bytes(len(message))

    def garbage(self, _, __):
        return self.random.randbytes(self.random.randrange(1, 5000))

    def escapes(self, message, _):
        body = json.dumps({"error": "\x1b[2J\x07\x9b31m red \r gone\n"}).encode()
        return HEADER.pack(*HEADER.unpack_from(message)[:3], len(body)) + body

    # ---- too much, too little

    def cut(self, message, _):
        return message[:self.random.randrange(len(message))]

    def drop(self, _, __):
        return b""

    def repeat(self, message, _):
        return 2 * message

    def many(self, message, _):
        return 2000 * message

    # ---- time

    def delay(self, message, _):
        time.sleep(self.random.choice([0.3, 2.5]))
        return message

    def pieces(self, message, to):
        for at in range(0, len(message), 7):
            to.sendall(message[at:at + 7])
            time.sleep(0.001)
        return b""

    def half(self, message, to):
        to.sendall(message[:self.random.choice([1, HEADER.size, len(message) // 2, len(message) - 1])])
        time.sleep(FOR_EVER_S)

    # ---- ends

    def close(self, _, to):
        to.shutdown(socket.SHUT_RDWR)
        time.sleep(2)
        os._exit(0)

    def kill(self, _, __):
        os.kill(self.pid, signal.SIGKILL)
        os._exit(137)

    def stop_worker(self, _, __):
        os.kill(self.pid, signal.SIGSTOP)
        time.sleep(FOR_EVER_S)

    def stop_all(self, message, _):
        os.kill(self.pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        return message

    def stop_supervisor(self, message, _):
        os.kill(os.getppid(), signal.SIGSTOP)
        return message

    # ----

    def is_time(self):
        self.seen += 1
        if self.seen != self.plan["nth"] + 1:
            return False
        try:
            os.close(os.open(self.plan["acted"], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return not self.plan["once"]
        return True

    def pass_on(self, message, way):
        to = self.supervisor if way == "up" else self.worker
        if way == "down":
            self.order = json.loads(message[HEADER.size:])["order"]
        if way == self.plan["way"] and self.order == self.plan["order"] and self.is_time():
            message = getattr(self, self.plan["kind"])(message, to)
        to.sendall(message)

    def run(self):
        ways = {self.supervisor: (Stream(self.supervisor), "down"), self.worker: (Stream(self.worker), "up")}
        while True:
            for each in select.select(list(ways), [], [])[0]:
                stream, way = ways[each]
                messages = stream.messages()
                if messages is None:
                    return
                for message in messages:
                    self.pass_on(message, way)


KINDS = [name for name in vars(Proxy) if not name.startswith("_") and name not in ("is_time", "pass_on", "run")]


def main():
    plan = json.loads(os.environ["P5BENCH_MISBEHAVIOUR"])
    if os.environ.get("OMPI_COMM_WORLD_RANK") != str(plan["rank"]):
        os.execv(plan["real"], [plan["real"]])
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    supervisor = socket.socket(fileno=SOCKET)
    ours, theirs = socket.socketpair()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.dup2(theirs.fileno(), SOCKET)
        # The maker of its socket has to be its parent.
        if os.getppid() == parent:
            os.execv(plan["real"], [plan["real"]])
        os._exit(1)
    theirs.close()
    try:
        Proxy(plan, supervisor, ours, pid).run()
    except OSError:
        pass  # a side has gone: the end, as for a worker
    ours.close()
    supervisor.close()
    os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    main()
