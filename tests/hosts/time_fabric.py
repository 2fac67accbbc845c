"""Time of the check that hosts reach each other, and time until an unreachable one is named: four hosts, p5bench on
made-up GPUs, seconds after mpirun. Measures and judges nothing. As root:

    P5BENCH_BUILD=$PWD/build/test python3 tests/hosts/time_fabric.py
"""

import time

import hosts_test as on
from hosts import Hosts, wait_for

RUN = ["--backend", "nccl", "--collectives", "all_reduce", "--sizes", "64", "--budget", "5s", "--tuning=off", "--quiet",
       "--out", on.OUT]
REPEATS = 3


def seconds(cut, happened, **variables):
    """Seconds until `happened`, which gets these hosts and the output."""
    with Hosts(4, networks=2, shared=(on.SOURCE, on.BUILD)) as hosts:
        for host in cut:
            hosts.cut(host, 1)
        log = hosts.folder / "printed"
        start = time.monotonic()
        run = hosts.start_mpirun(2, [str(on.PROGRAM), *RUN], log, on.OnTwoNetworks.NCCL, **on.GPUS, **variables)
        wait_for(lambda: happened(hosts, log) or run.poll() is not None, on.PATIENCE_S, 0.01)
        seen = happened(hosts, log)
        taken = time.monotonic() - start
        run.wait()
        return f"{taken:.1f}" if seen else "never"


def looked_around(hosts, _):
    """The file is written right after that."""
    return list(hosts.files("h1").glob("out/*/2*/topology.json"))


def named(_, log):
    return "p5bench: " in log.read_text(errors="replace")


if __name__ == "__main__":
    tried, left_out = [], []
    for _ in range(REPEATS):  # alternately, because of other load of the machine
        tried.append(seconds((), looked_around))
        left_out.append(seconds((), looked_around, P5BENCH_REACH_LIMIT="off"))
    print("all reach each other, looked around after:", ", ".join(tried))
    print("the same with nothing tried:", ", ".join(left_out))
    print("h3 cut, named after:", ", ".join(seconds(["h3"], named) for _ in range(REPEATS)))
    print("all cut, said after:", ", ".join(seconds(["h1", "h2", "h3", "h4"], named) for _ in range(REPEATS)))
