"""p5bench's mpi backend and the Intel MPI Benchmarks alternately on this host, two ranks:
python3 compare_imb.py PATH-TO-IMB-MPI1 [ROUNDS]. Prints a table of medians over the rounds. Measures; judges nothing."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
BUILD = pathlib.Path(os.environ.get("P5BENCH_BUILD") or SOURCE / "build" / "release")
MPIRUN = ["mpirun", "-np", "2", "--bind-to", "core"]
MEBIBYTES = (1, 4, 16, 64)
POOL = 32  # MiB of input and output that p5bench's slots fill
BURSTS = 40  # of IMB that a median is taken over; half as many from 32 MiB on
PARTNERS = {"one_way": ["Uniband"], "both_ways": ["Sendrecv", "Biband"], "ping_pong": ["PingPong"], "all_reduce": ["Allreduce"],
            "all_gather": ["Allgather"]}


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout


def imb(program, benchmark, bytes_, slots, operations, *options):
    """The rows that IMB prints for a size. It moves through as many buffers as p5bench does."""
    apart = f"{slots * bytes_ / 2**21:g},4096" if slots > 1 else "-1"  # IMB spreads over twice that "cache"
    out = run(MPIRUN + [program, benchmark, "-npmin", "2", "-sync", "off", "-iter_policy", "off", "-iter", f"{operations},200000,1",
                        "-off_cache", apart, "-data_type", "float", "-red_data_type", "float", "-msglog", "0:26", *options])
    return [line.split() for line in out.splitlines() if line.split()[:1] == [str(bytes_)]]


def of_windows(program, benchmark, bytes_, slots):
    """Microseconds of one message, windows of as many messages as there are slots one after another, their mean: a single
    window of IMB has one buffer."""
    rows = imb(program, benchmark, bytes_, slots, max(16, 1600 * 2**20 // bytes_ // slots), "-window_size", str(slots), "-msgsize", str(bytes_))
    return (2e6 if benchmark == "Biband" else 1e6) / float(rows[0][3])  # messages in a second, of both directions together


def of_bursts(program, benchmark, bytes_, slots, burst):
    """Microseconds of one operation, the median of bursts that each begin with a barrier, as p5bench's do. IMB has a barrier
    before each row only, so it is given the size many times. p5bench goes on through its slots from burst to burst, IMB
    begins anew, so its burst is as long as to touch all of them."""
    sizes = ",".join([str(bytes_)] * (BURSTS if bytes_ < 2**25 else BURSTS // 2))
    rows = imb(program, benchmark, bytes_, slots, slots * -(-burst // slots), "-msgsize", sizes)
    return statistics.median(float(row[2 if benchmark == "PingPong" else 4]) for row in rows)


def theirs(program, what, benchmark, mebibytes, burst):
    rank_part = 2 if what == "all_gather" else 1  # IMB counts one rank's bytes, p5bench the whole
    moved = 1.5 if what == "all_gather" else 2  # input and output together, in messages
    bytes_, slots = mebibytes * 2**20 // rank_part, max(1, int(POOL / (moved * mebibytes)))
    if benchmark in ("Uniband", "Biband"):
        return of_windows(program, benchmark, bytes_, slots)
    return of_bursts(program, benchmark, bytes_, slots, burst)


def ours():
    with tempfile.TemporaryDirectory() as folder:
        sizes = ",".join(f"{each}MiB" for each in MEBIBYTES)
        run(MPIRUN + [str(BUILD / "p5bench"), "--backend", "mpi", "--sizes", sizes, "--quiet", "--budget", "20s", "--out", folder])
        report = json.loads((pathlib.Path(folder) / "latest" / "report.json").read_text())
    return {(m["case"]["pattern"] or m["case"]["collective"], m["case"]["bytes"] // 2**20): m["throughput"] for m in report["measurements"]}


def main():
    program, rounds = str(pathlib.Path(sys.argv[1]).resolve()), int(sys.argv[2]) if len(sys.argv) > 2 else 7
    ours_by, theirs_by, burst = {}, {}, {}
    for _ in range(rounds):
        for (what, mebibytes), throughput in ours().items():
            ours_by.setdefault((what, mebibytes), []).append(throughput["median_us"])
            burst[what, mebibytes] = throughput["operations_per_sample"]
            for benchmark in PARTNERS[what]:
                time = theirs(program, what, benchmark, mebibytes, throughput["operations_per_sample"])
                theirs_by.setdefault((what, benchmark, mebibytes), []).append(time)
    print("| case | MiB | k | p5bench, us | IMB | IMB, us | p5bench / IMB |\n|---|---|---|---|---|---|---|")
    for what, benchmarks in PARTNERS.items():
        for benchmark in benchmarks:
            for mebibytes in MEBIBYTES:
                a, b = ours_by[what, mebibytes], theirs_by[what, benchmark, mebibytes]
                text = lambda v: f"{statistics.median(v):.0f} ({min(v):.0f} to {max(v):.0f})"
                ratio = statistics.median(a) / statistics.median(b)
                print(f"| {what} | {mebibytes} | {burst[what, mebibytes]} | {text(a)} | {benchmark} | {text(b)} | {ratio:.3f} |")


main()
