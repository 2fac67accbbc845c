"""Time to make the communicators of a round, to use them first and to close them, on two GPUs of this host:
P5BENCH_BUILD=build/release python3 time_communicators.py. Nodes are pretended (NCCL_HOSTID). The workers inherit NCCL's
variables of this environment. Prints medians and ranges; judges nothing."""

import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "worker"))
from workers import Workers, case  # noqa: E402

ROUNDS = 8
JOBS = [("3 ranks, one pair of a node", "AAB", [[[0, 1]]]),
        ("3 ranks, one pair of two nodes", "AAB", [[[0, 2]]]),
        ("4 ranks, two pairs", "AABB", [[[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 3], [1, 2]]]),
        ("4 ranks, two nodes of two", "AABB", [[[0, 1], [2, 3]]])]


def timed(action):
    start = time.monotonic()
    action()
    return time.monotonic() - start


def opened(workers, each, groups):
    for reply in workers.open(each, groups):
        assert reply.get("ok"), reply


def measure(nodes, rounds):
    kept = {name: value for name, value in os.environ.items() if name.startswith("NCCL_") or name == "LD_LIBRARY_PATH"}
    kept = {"LD_LIBRARY_PATH": "", "NCCL_SOCKET_IFNAME": "lo", **kept}
    times = {"make": [], "first operations": [], "leave": []}
    pair, all_ranks = case("p2p", 1 << 20, 2, pattern="one_way"), case("all_reduce", 8, len(nodes))
    with Workers(len(nodes), environment=lambda rank: {**kept, "NCCL_HOSTID": nodes[rank]}) as workers:
        for number in range(ROUNDS):
            times["make"].append(timed(lambda: opened(workers, pair, rounds[number % len(rounds)])))
            times["first operations"].append(timed(lambda: workers.good("warm_up", operations=1)))
            workers.good("close")
            times["leave"].append(timed(lambda: opened(workers, all_ranks, None)))
            workers.good("close")
    return times


for title, nodes, rounds in JOBS:
    shown = [f"{what} {1e3 * statistics.median(each):.0f} ms ({1e3 * min(each):.0f} to {1e3 * max(each):.0f})"
             for what, each in measure(nodes, rounds).items()]
    print(f"{title}: {'; '.join(shown)}", flush=True)
