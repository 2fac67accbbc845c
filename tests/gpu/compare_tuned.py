"""nccl-tests with the files of a tuning and without, alternately on the GPUs of this host:
python3 compare_tuned.py FOLDER-OF-ITS-PROGRAMS FOLDER-WITH-NCCL.ENV [ROUNDS [COMMAND-BEFORE-EACH-RANK...]].
Prints the medians over the rounds, and of a second arm without them as a control. Interrupted, it prints what it has.
Measures; judges nothing."""

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


# Three arms, of which two are alike: their difference is the normal one between launches.
ARMS = {"default": False, "with files": True, "default again": False}


def slower(before, after):
    return after > before * 1.01 and after - before > 0.2


def main():
    programs, files = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    rounds, before = int(sys.argv[3]) if len(sys.argv) > 3 else 5, sys.argv[4:]
    tuned, arms = settings(files), list(ARMS)
    times = {arm: {} for arm in arms}
    try:
        for turn in range(rounds):
            for collective in COLLECTIVES:
                for place in range(len(arms)):
                    arm = arms[(place + turn) % len(arms)]
                    for key, time in run(programs, collective, tuned if ARMS[arm] else [], before, os.environ.get("P5BENCH_LAST", "1G")).items():
                        times[arm].setdefault(key, []).append(time)
    except KeyboardInterrupt:
        print(f"interrupted after {turn} of {rounds} rounds", file=sys.stderr)
    complete = sorted(set.intersection(*(set(each) for each in times.values())))
    print("| collective | bytes | default us | with files us | default again us | faster by | difference us |\n|---|---|---|---|---|---|---|")
    lost = {"with files": 0, "default again": 0}
    for key in complete:
        a, b, c = (statistics.median(times[arm][key]) for arm in arms)
        for arm, time in (("with files", b), ("default again", c)):
            lost[arm] += slower(a, time)
        print(f"| {key[0]} | {key[1]} | {a:.2f} | {b:.2f} | {c:.2f} | x{a / b:.3f} | {b - a:+.2f} |{' lost' if slower(a, b) else ''}")
    for arm, count in lost.items():
        print(f"{arm}: {count} of {len(complete)} sizes slower than the default by more than 1 % and 0.2 us")
    for collective in COLLECTIVES:
        for arm in arms[1:]:
            logs = [math.log(statistics.median(times["default"][k]) / statistics.median(times[arm][k])) for k in complete
                    if k[0] == collective and k[1] <= 512 << 10]
            if logs:
                print(f"{collective}, up to 512 KiB, {arm}: faster by x{math.exp(statistics.mean(logs)):.3f} in the geometric mean")


main()
