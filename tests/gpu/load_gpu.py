"""Each GPU of this host under load, again and again: what repeats of `p5bench check` say of its rates and of what is left.

  python3 load_gpu.py [--out DIR] [--repeats N] [--burn TIME]

Runs the check N times (20 unless given) on all GPUs: prints for each GPU and part the median rate alone and under load
and the median share, by how much the repeats differ, the largest deviation of a share from the other GPUs' median (what
the tolerances of reports/local_tolerances.cpp are for), the findings about GPUs, and the seconds of a check. Then, with
--burn, one burn of that time and its table. Ends with 1 if a GPU was named. P5BENCH_BUILD is the folder with p5bench
(an installed bin will do), P5BENCH_MPIRUN another launcher. Needs only Python's standard library."""

import argparse
import collections
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import time

SOURCE = pathlib.Path(os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
BUILD = pathlib.Path(os.environ.get("P5BENCH_BUILD") or SOURCE / "build" / "release")
LAUNCHER = shlex.split(os.environ.get("P5BENCH_MPIRUN", ""))
PATIENCE_S = 120
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
ABOUT_GPUS = ("gpu.slow_alone", "gpu.slow_under_load", "gpu.corrupt", "gpu.check_failed")


def check(*arguments, patience=PATIENCE_S):
    line = [*LAUNCHER, str(BUILD / "p5bench"), "check", *arguments]
    start = time.monotonic()
    done = subprocess.run(line, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=patience)
    return done.returncode, done.stdout, time.monotonic() - start


def spread(values):
    return 100 * (max(values) - min(values)) / statistics.median(values)


def repeated(repeats, out):
    """True if no GPU was named."""
    figures, worst, seconds, named = collections.defaultdict(list), collections.defaultdict(float), [], []
    for number in range(repeats):
        code, printed, took = check("--format", "json")
        (out / f"check-{number}.txt").write_text(printed)
        seconds.append(took)
        if "{" not in printed:
            sys.exit(f"check {number} ended with {code}:\n{printed}")
        report = json.loads(printed[printed.index("{"):printed.rindex("}") + 1])
        ranks = report.get("local_checks", [])
        for rank, of_rank in enumerate(ranks):
            for name, value in of_rank.items():
                if name.startswith("load_") or name.endswith("_tflop_per_s"):
                    figures[name, rank].append(value)
                others = [each[name] for at, each in enumerate(ranks) if at != rank and name in each]
                if name.endswith("_share") and others:
                    worst[name] = max(worst[name], 1 - value / statistics.median(others))
        named += [f"check {number}: {f['severity']} {f['id']}: {f['evidence']}" for f in report["findings"] if f["id"] in ABOUT_GPUS]
        if code:
            named.append(f"check {number} ended with {code}")
    for (name, rank), values in sorted(figures.items()):
        print(f"{name} rank {rank}: {statistics.median(values):.4g} in {len(values)} checks, differ by {spread(values):.1f} %")
    for name, most in sorted(worst.items()):
        print(f"{name}: at most {100 * most:.2f} % below the median of the other GPUs")
    print(f"a check takes {statistics.median(seconds):.1f} s, at most {max(seconds):.1f} s")
    if not any(name.startswith("load_") for name, _ in figures):
        named.append("no check measured a load")
    print("\n".join(named) if named else "no GPU was named")
    return not named


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=pathlib.Path, default=pathlib.Path("load-out"))
    arguments.add_argument("--repeats", type=int, default=20)
    arguments.add_argument("--burn", help="seconds, such as 60s")
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sound = repeated(options.repeats, options.out)
    if options.burn:
        code, printed, took = check("--burn", options.burn, patience=3600)
        print(f"burn: exit code {code}, {took:.0f} s\n{printed}")
        sound = sound and code == 0
    sys.exit(0 if sound else 1)


main()
