"""p5bench and nccl-tests alternately on the GPUs of this host:
python3 compare_nccl_tests.py FOLDER-OF-ITS-PROGRAMS [ROUNDS [COLLECTIVE...]], by default all_reduce and all_gather.
Prints a table of the medians over the rounds. Measures; judges nothing."""

import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
BUILD = pathlib.Path(os.environ.get("P5BENCH_BUILD") or SOURCE / "build" / "release")
RANKS = int(os.environ.get("P5BENCH_RANKS", "4"))
COLLECTIVES = sys.argv[3:] or ("all_reduce", "all_gather")
PROGRAMS = {"all_to_all": "alltoall", "all_to_allv": "alltoallv", "send_recv": "sendrecv"}  # called otherwise there
MPIRUN = ["mpirun", "--allow-run-as-root", "-np", str(RANKS), "--bind-to", "none"]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode not in (0, 14):  # 14: p5bench could judge none of its figures
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def nccl_tests(folder, collective, first, last, operations, cycles):
    """Microseconds out of place by size, the slowest rank's (-a 3), with this many operations a burst; the median of
    this many bursts. One burst of an operation that takes as long as its launch may be off by a tenth."""
    out = run(MPIRUN + [str(folder / f"{PROGRAMS.get(collective, collective)}_perf"), "-b", str(first), "-e", str(last), "-f", "2", "-g", "1", "-a", "3",
                        "-n", str(operations), "-N", str(cycles)])
    times = {}
    for row in (line.split() for line in out.splitlines()):
        if len(row) > 8 and row[0].isdigit() and int(row[0]) > 0:
            wanted = 1 << (int(row[0]) - 1).bit_length()  # nccl-tests rounds the parts of a message down to 16 bytes
            times.setdefault((collective, wanted), []).append(float(row[5]))
    return {key: statistics.median(each) for key, each in times.items()}


def p5bench():
    with tempfile.TemporaryDirectory() as folder:
        run(MPIRUN + [str(BUILD / "p5bench"), "--collectives", ",".join(COLLECTIVES), "--tuning=off", "--quiet", "--budget", "60s", "--out", folder])
        report = json.loads((pathlib.Path(folder) / "latest" / "report.json").read_text())
    return {(m["case"]["collective"], m["case"]["bytes"]): m["throughput"] for m in report["measurements"] if m["throughput"]}


def bursts(sizes):
    """(first, last, operations, bursts) of the runs of nccl-tests that have p5bench's bursts: {bytes: operations}."""
    def kind(size):
        return sizes[size], 15 if size <= 65536 else 5
    for (operations, cycles), group in itertools.groupby(sorted(sizes), kind):
        group = list(group)
        yield group[0], group[-1], operations, cycles


def main():
    folder, rounds = pathlib.Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    theirs, ours, burst = {}, {}, {}
    for _ in range(rounds):
        for key, throughput in p5bench().items():
            ours.setdefault(key, []).append(throughput["median_us"])
            burst[key] = throughput["operations_per_sample"]
        for collective in COLLECTIVES:
            for first, last, operations, cycles in bursts({key[1]: k for key, k in burst.items() if key[0] == collective}):
                for key, time in nccl_tests(folder, collective, first, last, operations, cycles).items():
                    theirs.setdefault(key, []).append(time)
    print("| collective | bytes | burst | nccl-tests us | p5bench us | ratio | difference us |\n|---|---|---|---|---|---|---|")
    small = {c: [] for c in COLLECTIVES}
    for key in sorted(set(theirs) & set(ours)):
        a, b = statistics.median(theirs[key]), statistics.median(ours[key])
        print(f"| {key[0]} | {key[1]} | {burst[key]} | {a:.2f} | {b:.2f} | {b / a:.3f} | {b - a:+.2f} |")
        if key[1] <= 65536:
            small[key[0]].append(math.log(b / a))
    for collective, logs in small.items():
        print(f"{collective}, up to 64 KiB: geometric mean of the ratios {math.exp(statistics.mean(logs)):.4f}")


main()
