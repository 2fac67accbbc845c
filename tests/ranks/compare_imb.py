"""p5bench's mpi backend and the Intel MPI Benchmarks alternately on this host, two ranks:
python3 compare_imb.py PATH-TO-IMB-MPI1 [ROUNDS]. Prints a table of medians over the rounds, of p5bench's medians and of the
means of its samples, since IMB prints means. Interrupted, it prints what it has. Measures; judges nothing."""

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
PARTNERS = {"one_way": ["Uniband"], "both_ways": ["Biband", "Sendrecv"], "ping_pong": ["PingPong"], "all_reduce": ["Allreduce"],
            "all_gather": ["Allgather"]}


def run(command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout


def imb(program, benchmark, bytes_, slots, window):
    """Microseconds of one message or operation. IMB moves through as many buffers as p5bench does."""
    repetitions = max(16, 1600 * 2**20 // bytes_ // window)
    apart = f"{slots * bytes_ / 2**21:g},4096" if slots > 1 else "-1"  # IMB spreads over twice that "cache"
    power = str(bytes_.bit_length() - 1)
    out = run(MPIRUN + [program, benchmark, "-npmin", "2", "-sync", os.environ.get("IMB_SYNC", "on"), "-iter_policy", "off",
                        "-iter", f"{repetitions},200000,{min(repetitions, 50)}", "-off_cache", apart, "-data_type", "float",
                        "-red_data_type", "float", "-window_size", str(window), "-msglog", f"{power}:{power}"])
    row = next(line.split() for line in out.splitlines() if line.split()[:1] == [str(bytes_)])
    if benchmark in ("Uniband", "Biband"):  # messages in a second, of both directions together
        return (2e6 if benchmark == "Biband" else 1e6) / float(row[3])
    return float(row[2 if benchmark == "PingPong" else 3])  # t_max: the slowest rank's, as p5bench's


def theirs(program, what, benchmark, mebibytes, burst):
    rank_part = 2 if what == "all_gather" else 1  # IMB counts one rank's bytes, p5bench the whole
    moved = 1.5 if what == "all_gather" else 2  # input and output together, in messages
    slots = max(1, int(POOL / (moved * mebibytes)))
    # Uniband and Biband have a buffer for each message of a window, and use them again in the next.
    window = slots if benchmark in ("Uniband", "Biband") else min(slots, burst)
    return imb(program, benchmark, mebibytes * 2**20 // rank_part, slots, window)


def ours(mebibytes):
    with tempfile.TemporaryDirectory() as folder:
        run(MPIRUN + [str(BUILD / "p5bench"), "--backend", "mpi", "--sizes", f"{mebibytes}MiB", "--quiet", "--budget", "20s", "--out", folder])
        journal = (pathlib.Path(folder) / "latest" / "measurements.jsonl").read_text()
    cases = [json.loads(line) for line in journal.splitlines()]
    return {m["case"]["pattern"] or m["case"]["collective"]: m["throughput"] for m in cases if m["throughput"]}


def main():
    program, rounds = str(pathlib.Path(sys.argv[1]).resolve()), int(sys.argv[2]) if len(sys.argv) > 2 else 7
    ours_by, means_by, theirs_by, burst = {}, {}, {}, {}

    def measure(mebibytes):
        for what, throughput in ours(mebibytes).items():
            ours_by.setdefault((what, mebibytes), []).append(throughput["median_us"])
            means_by.setdefault((what, mebibytes), []).append(statistics.mean(throughput["samples_us"]))
            burst[what, mebibytes] = throughput["operations_per_sample"]
            for benchmark in PARTNERS[what]:
                time = theirs(program, what, benchmark, mebibytes, throughput["operations_per_sample"])
                theirs_by.setdefault((what, benchmark, mebibytes), []).append(time)

    try:
        for done in range(rounds):
            for mebibytes in MEBIBYTES:
                measure(mebibytes)
    except KeyboardInterrupt:
        print(f"interrupted after {done} of {rounds} alternations", file=sys.stderr)
    print("| case | MiB | k | p5bench, us | IMB | IMB, us | p5bench / IMB | of means |\n|---|---|---|---|---|---|---|---|")
    for what, benchmarks in PARTNERS.items():
        for benchmark in benchmarks:
            for mebibytes in (size for size in MEBIBYTES if (what, benchmark, size) in theirs_by):
                a, b = ours_by[what, mebibytes], theirs_by[what, benchmark, mebibytes]
                text = lambda v: f"{statistics.median(v):.0f} ({min(v):.0f} to {max(v):.0f})"
                ratio, of_means = (statistics.median(mine) / statistics.median(b) for mine in (a, means_by[what, mebibytes]))
                print(f"| {what} | {mebibytes} | {burst[what, mebibytes]} | {text(a)} | {benchmark} | {text(b)} | {ratio:.3f} | {of_means:.3f} |")


main()
