"""p5bench and nccl-tests alternately on the GPUs of this host. Measures; judges nothing.

    python3 compare_nccl_tests.py FOLDER-OF-ITS-PROGRAMS [OPTION...]

Prints a table of the medians over the rounds, then the geometric mean of the ratios of each collective's small sizes
and the farthest ratio from 64 MiB on. Up to there both programs take the same operations in a burst, so that their times
compare; above, nccl-tests takes its own 20, because its time of a burst includes the host's wait for the device. With
--cuda-graph a burst of nccl-tests' is ten launches of the graph, for the same reason."""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile

SOURCE = pathlib.Path(os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
BUILD = pathlib.Path(os.environ.get("P5BENCH_BUILD") or SOURCE / "build" / "release")
RANKS = int(os.environ.get("P5BENCH_RANKS", "4"))
PROGRAMS = {"all_to_all": "alltoall", "all_to_allv": "alltoallv", "send_recv": "sendrecv"}  # called otherwise there
TYPES = {"float32": "float", "float16": "half", "bfloat16": "bfloat16", "float64": "double", "float8_e4m3": "f8e4m3",
         "float8_e5m2": "f8e5m2", "int8": "int8", "uint8": "uint8", "int32": "int32", "uint32": "uint32", "int64": "int64", "uint64": "uint64"}
OUT_OF_PLACE_ONLY = ("all_to_all", "all_to_allv", "send_recv")
# The column of nccl-tests' table behind the root's: out of place, in place.
TIME = {False: 1, True: 5}
MPIRUN = ["mpirun", "--allow-run-as-root", "-np", str(RANKS), "--bind-to", "none"]
SMALL, LARGE = 1 << 16, 1 << 26
OPERATIONS_OF_LARGE = 20  # nccl-tests' default
GRAPH_LAUNCHES = 10  # of a burst: with one, nccl-tests' wait for the device is a tenth of what it prints


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="folder of nccl-tests' programs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--collectives", default="all_reduce,all_gather")
    parser.add_argument("--types", default="float32", help="in p5bench's words")
    parser.add_argument("--sizes", help="a list; without it p5bench's own")
    parser.add_argument("--in-place", action="store_true", help="also in place, where a collective has that form")
    parser.add_argument("--cuda-graph", action="store_true")
    parser.add_argument("--op", help="sum, prod, min, max, avg or mulsum")
    parser.add_argument("--aggregate", type=int, help="operations of a group")
    parser.add_argument("--traffic", type=pathlib.Path, help="a matrix of bytes as CSV, for all_to_allv; its sizes are not scaled")
    parser.add_argument("--budget", default="60s", help="of each of p5bench's runs")
    return parser.parse_args()


def run(command, **variables):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **variables})
    if done.returncode not in (0, 14):  # 14: p5bench could judge none of its figures
        raise SystemExit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def nccl_tests(asked, collective, kind, sizes, operations, cycles):
    """Microseconds by (in place, bytes), the slowest rank's (-a 3), with this many operations a burst; the median of
    this many bursts. One burst of an operation that takes as long as its launch may be off by a tenth."""
    factor = sizes[1] // sizes[0] if len(sizes) > 1 else 2
    options = ["-b", str(sizes[0]), "-e", str(sizes[-1]), "-f", str(factor), "-g", "1", "-a", "3", "-c", "0", "-d", TYPES[kind], "-n", str(operations), "-N", str(cycles)]
    options += ["-G", str(GRAPH_LAUNCHES)] if asked.cuda_graph else []
    options += ["-o", asked.op] if asked.op else []
    options += ["-m", str(asked.aggregate)] if asked.aggregate else []
    variables = {}
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as matrix:
        if asked.traffic:
            matrix.write(asked.traffic.read_text().replace(",", " "))
            matrix.flush()
            variables["NCCL_TESTS_ALLTOALLV_MATRIX_FILE"] = matrix.name
        out = run(MPIRUN + [str(asked.folder / f"{PROGRAMS.get(collective, collective)}_perf"), *options], **variables)
    times = {}
    for row in (line.split() for line in out.splitlines()):
        if len(row) > 8 and row[0].isdigit() and int(row[0]) > 0:
            # nccl-tests rounds the parts of a message down to 16 bytes.
            wanted = next((size for size in sizes if size >= int(row[0])), sizes[-1])
            root = 3 if row[3].lstrip("-").isdigit() else 4  # hypercube's table has no column of operations
            for in_place, behind in TIME.items():
                if len(row) > root + behind and row[root + behind] != "N/A":
                    times.setdefault((in_place, wanted), []).append(float(row[root + behind]))
    return {key: statistics.median(each) for key, each in times.items()}


def p5bench(asked, in_place):
    collectives = [each for each in asked.collectives.split(",") if not in_place or each not in OUT_OF_PLACE_ONLY]
    if not collectives:
        return {}
    options = ["--collectives", ",".join(collectives), "--type", asked.types]
    options += ["--in-place"] if in_place else []
    options += ["--cuda-graph"] if asked.cuda_graph else []
    for name in ("sizes", "op", "aggregate", "traffic"):
        if getattr(asked, name):
            options += [f"--{name}", str(getattr(asked, name))]
    with tempfile.TemporaryDirectory() as folder:
        run(MPIRUN + [str(BUILD / "p5bench"), *options, "--tuning=off", "--quiet", "--budget", asked.budget, "--out", folder])
        report = json.loads((pathlib.Path(folder) / "latest" / "report.json").read_text())
    return {(m["case"]["collective"], m["case"]["type"], in_place, m["case"]["bytes"]): m["throughput"]
            for m in report["measurements"] if m["throughput"] and m["case"]["in_place"] == in_place}


def bursts(sizes):
    """(sizes, operations, bursts) of the runs of nccl-tests that have p5bench's bursts: {bytes: operations}. The sizes of
    a run are a geometric series."""
    def kind(size):
        return OPERATIONS_OF_LARGE if size >= LARGE else sizes[size], 15 if size <= SMALL else 5
    group = []
    for size in sorted(sizes):
        series = len(group) < 2 or size * group[0] == group[-1] * group[1]
        if group and (kind(size) != kind(group[0]) or size % group[-1] or not series):
            yield group, *kind(group[0])
            group = []
        group.append(size)
    if group:
        yield group, *kind(group[0])


def main():
    asked = arguments()
    theirs, ours, burst = {}, {}, {}
    ways = (False, True) if asked.in_place else (False,)
    for _ in range(asked.rounds):
        for in_place in ways:
            for key, throughput in p5bench(asked, in_place).items():
                ours.setdefault(key, []).append(throughput["median_us"])
                burst[key] = throughput["operations_per_sample"]
        # Both forms are in one table of nccl-tests: the operations of a burst are those of the form out of place.
        for collective, kind in sorted({key[:2] for key in burst}):
            sizes = {size: k for (c, t, in_place, size), k in burst.items() if (c, t) == (collective, kind) and not in_place}
            for group in bursts(sizes):
                for (in_place, size), time in nccl_tests(asked, collective, kind, *group).items():
                    theirs.setdefault((collective, kind, in_place, size), []).append(time)
    print("| collective | type | form | bytes | burst | nccl-tests us | p5bench us | ratio | difference us |\n|---|---|---|---|---|---|---|---|---|")
    small, large = {}, {}
    for key in sorted(set(theirs) & set(ours)):
        collective, kind, in_place, size = key
        a, b = statistics.median(theirs[key]), statistics.median(ours[key])
        print(f"| {collective} | {kind} | {'in place' if in_place else ''} | {size} | {burst[key]} | {a:.2f} | {b:.2f} | {b / a:.3f} | {b - a:+.2f} |")
        if size <= SMALL:
            small.setdefault(collective, []).append(math.log(b / a))
        if size >= LARGE:
            large.setdefault(collective, []).append(b / a)
    for collective, logs in small.items():
        print(f"{collective}, up to 64 KiB: geometric mean of the ratios {math.exp(statistics.mean(logs)):.4f}")
    for collective, ratios in large.items():
        print(f"{collective}, from 64 MiB on: {len(ratios)} ratios, {min(ratios):.3f} to {max(ratios):.3f}")


main()
