"""nccl-tests with the files of a tuning and without, alternately on the GPUs of this host:
python3 compare_tuned.py FOLDER-OF-ITS-PROGRAMS FOLDER-WITH-NCCL.ENV [ROUNDS [COMMAND-BEFORE-EACH-RANK...]].
Prints the medians over the rounds. Measures; judges nothing."""

import math
import os
import pathlib
import statistics
import subprocess
import sys

RANKS = int(os.environ.get("P5BENCH_RANKS", "4"))
COLLECTIVES = ("all_reduce", "all_gather")


def settings(folder):
    lines = (folder / "nccl.env").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def run(folder, collective, variables, before, last):
    command = ["mpirun", "--allow-run-as-root", "-np", str(RANKS), "--bind-to", "none"]
    for variable in variables:
        command += ["-x", variable]
    command += before + [str(folder / f"{collective}_perf"), "-b", "8", "-e", last, "-f", "2", "-g", "1", "-a", "3", "-n", "20", "-N", "3"]
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    times = {}
    for row in (line.split() for line in out.splitlines()):
        if len(row) > 8 and row[0].isdigit() and int(row[0]) > 0:
            if row[8] not in ("0", "N/A"):
                raise SystemExit(f"{collective} of {row[0]} bytes: {row[8]} wrong elements")
            times.setdefault((collective, int(row[0])), []).append(float(row[5]))
    return {key: statistics.median(each) for key, each in times.items()}


def main():
    programs, files = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    rounds, before = int(sys.argv[3]) if len(sys.argv) > 3 else 5, sys.argv[4:]
    tuned = settings(files)
    times = {False: {}, True: {}}
    for turn in range(rounds):
        for collective in COLLECTIVES:
            for with_files in ((False, True), (True, False))[turn % 2]:
                for key, time in run(programs, collective, tuned if with_files else [], before, os.environ.get("P5BENCH_LAST", "1G")).items():
                    times[with_files].setdefault(key, []).append(time)
    print("| collective | bytes | default us | with files us | faster by | difference us |\n|---|---|---|---|---|---|")
    for key in sorted(times[False]):
        a, b = statistics.median(times[False][key]), statistics.median(times[True][key])
        mark = " lost" if b > a * 1.01 and b - a > 0.2 else ""
        print(f"| {key[0]} | {key[1]} | {a:.2f} | {b:.2f} | x{a / b:.3f} | {b - a:+.2f} |{mark}")
    for collective in COLLECTIVES:
        logs = [math.log(statistics.median(times[False][k]) / statistics.median(times[True][k])) for k in times[False] if k[0] == collective and k[1] <= 512 << 10]
        print(f"{collective}, up to 512 KiB: faster by x{math.exp(statistics.mean(logs)):.3f} in the geometric mean")


main()
