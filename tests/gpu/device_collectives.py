"""Device-initiated collectives on the GPUs of this host, beside NCCL's own and nccl-tests' kernels of the same kind:

  python3 device_collectives.py [--nccl-tests FOLDER-OF-ITS-PROGRAMS] [--rounds N] [--out DIR]

Measures lsa_all_reduce and lsa_all_to_all, and all_reduce and all_to_all over NCCL with plain buffers and with symmetric
windows (--register symmetric), N times in turn (3 unless given); nccl-tests with -R 2 and -D 1 and 2. Prints a table of
the medians, in microseconds of bursts, by size. Every element is verified by p5bench and by nccl-tests. Judges nothing
else; the exit code is 0 unless a run did not end as it should or had wrong data. Needs only Python's standard library.
NCCL_NVLS_ENABLE=0 holds in every child, because none of the kernels here uses multicast."""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys

SOURCE = pathlib.Path(os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
BUILD = pathlib.Path(os.environ.get("P5BENCH_BUILD") or SOURCE / "build" / "release")
RANKS = os.environ.get("P5BENCH_RANKS", "2")
MPIRUN = shlex.split(os.environ.get("P5BENCH_MPIRUN", f"mpirun --allow-run-as-root --bind-to none -np {RANKS}"))
SIZES = os.environ.get("P5BENCH_SIZES", "8,1KiB,16KiB,64KiB,256KiB,512KiB,1MiB,4MiB,16MiB,64MiB,256MiB,1GiB")
PATIENCE_S = 600
COLLECTIVES = {"all_reduce": "all_reduce_perf", "all_to_all": "alltoall_perf"}  # with nccl-tests' programs
SCALE = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def run(line, allowed=(0,)):
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", NCCL_NVLS_ENABLE="0")
    done = subprocess.run(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S)
    if done.returncode not in allowed:
        sys.exit(f"{shlex.join(map(str, line))} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


def bytes_of(text):
    unit = text[-3:]
    return int(text[:-3]) * SCALE[unit] if unit in SCALE else int(text)


def p5bench(out, *arguments):
    """(collective, bytes): (us in a burst, us alone) of a run; ends the program where data were wrong."""
    run([*MPIRUN, str(BUILD / "p5bench"), "--backend", "nccl", "--tuning", "off", "--quiet", "--sizes", SIZES, "--budget", "90s", "--out", str(out),
         *arguments], (0, 14))  # 14: none of the figures could be judged
    times = {}
    for m in json.loads((out / "latest" / "report.json").read_text())["measurements"]:
        if m["outcome"] != "measured" or m["wrong_elements"]:
            sys.exit(f"{m['case']['collective']} {m['case']['bytes']}: {m['outcome']}, {m['because']}, {m['first_wrong']}")
        alone = m["latency"]["median_us"] if m["latency"] else None
        times[m["case"]["collective"], m["case"]["bytes"]] = (m["throughput"]["median_us"], alone)
    return times


def nccl_tests(folder, collective, implementation):
    """The same by nccl-tests: a burst, and blocking operations where p5bench has a latency."""
    times = {}
    for size in SIZES.split(","):
        each = []
        for more in (["-n", "20"], ["-n", "20", "-z", "1"]):
            out = run([*MPIRUN, str(folder / COLLECTIVES[collective]), "-b", str(bytes_of(size)), "-e", str(bytes_of(size)), "-g", "1", "-a", "3", "-N", "5",
                       "-w", "5", "-R", "2", "-D", str(implementation), *more])
            rows = [line.split() for line in out.splitlines()]
            bursts = [float(row[5]) for row in rows if len(row) > 8 and row[0].isdigit()]
            if not bursts:
                break
            each.append(statistics.median(bursts))
        if len(each) == 2:
            times[bytes_of(size)] = tuple(each)
    return times


def median_of(rounds, key):
    """The medians of the bursts and of the latencies of several runs; null where there is none."""
    found = [each[key] for each in rounds if key in each]
    bursts, alone = [burst for burst, _ in found], [latency for _, latency in found if latency is not None]
    return (statistics.median(bursts) if bursts else None, statistics.median(alone) if alone else None)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--nccl-tests", type=pathlib.Path)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--out", type=pathlib.Path, default=pathlib.Path("device-collectives-out"))
    options = arguments.parse_args()
    ways = {"lsa": ["--collectives", "lsa_all_reduce,lsa_all_to_all"], "nccl": ["--collectives", "all_reduce,all_to_all"],
            "windows": ["--collectives", "all_reduce,all_to_all", "--register", "symmetric"]}
    found = {way: [] for way in ways}
    for number in range(options.rounds):
        for way, more in ways.items():
            found[way].append(p5bench(options.out / f"{way}-{number}", *more))
    for collective in COLLECTIVES:
        others = {f"-D {which}": nccl_tests(options.nccl_tests, collective, which) for which in (1, 2)} if options.nccl_tests else {}
        columns = ["lsa", "nccl", "windows", *others]
        print(f"{collective}, {RANKS} ranks: us of an operation in a burst, and alone")
        print(f"{'bytes':>12} " + " ".join(f"{each:>21}" for each in columns))
        for size in map(bytes_of, SIZES.split(",")):
            cells = []
            for column in columns:
                name = f"lsa_{collective}" if column == "lsa" else collective
                burst, alone = others[column].get(size, (None, None)) if column in others else median_of(found[column], (name, size))
                cells.append(" ".join(f"{each:10.2f}" if each is not None else f"{'':>10}" for each in (burst, alone)))
            print(f"{size:>12} " + " ".join(cells), flush=True)


if __name__ == "__main__":
    main()
