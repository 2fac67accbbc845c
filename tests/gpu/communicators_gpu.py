"""What communicators cost on the GPUs of this host: init, split, first operations, destroy and the other steps.

  python3 communicators_gpu.py [--out DIR] [--repeats N] [--launches N] [--budget TIME] [--libraries DIR DIR]

First N times (3 unless given) the steps in three launches each (or --launches): prints each step's median of every repetition and by
how much they differ, which is meant to be within 5 %. With --libraries, two folders that hold a libnccl.so.2 each (such
as of NCCL 2.28.3 and 2.28.9): `p5bench ab` of the two, with as many launches a side, and its answer for each step. Judges
nothing else; the exit code is 0 unless a run did not end as it should. Needs only Python's standard library.
NCCL_NVLS_ENABLE=0 holds in every child."""

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
PATIENCE_S = 900
# A run of which nothing is judged, and the answers of ab.
ALLOWED = {"run": (0, 14), "ab": (0, 10, 14)}


def p5bench(command, out, *arguments):
    """The folder of the run; ends the program where it did not end as it should."""
    line = [*MPIRUN, str(BUILD / "p5bench"), command, *arguments, "--backend", "nccl", "--collectives", "communicator",
            "--out", str(out)]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", NCCL_NVLS_ENABLE="0")
    done = subprocess.run(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S)
    if done.returncode not in ALLOWED[command]:
        sys.exit(f"{shlex.join(line)} ended with {done.returncode}:\n{done.stdout}")
    return out / "latest", done.stdout


def name_of(case):
    return f"{case['pattern']} {case['bytes']} B" if case["bytes"] else case["pattern"]


def repeated(out, repeats, amount):
    medians, costs = {}, {}
    for number in range(repeats):
        folder, _ = p5bench("run", out / f"run-{number}", *amount, "--tuning", "off")
        for m in json.loads((folder / "report.json").read_text())["measurements"]:
            if m["outcome"] != "measured":
                print(f"{name_of(m['case'])}: {m['outcome']}: {m['because']}", flush=True)
                continue
            medians.setdefault(name_of(m["case"]), []).append(m["latency"]["median_us"] / 1e3)
            costs[name_of(m["case"])] = m.get("communicator_costs", {})
    for step, each in medians.items():
        differ = 100 * (max(each) - min(each)) / statistics.median(each)
        print(f"{step}: {', '.join(f'{ms:.3f}' for ms in each)} ms, differ by {differ:.1f} %; {costs[step]}", flush=True)


def compared(out, old, new, amount):
    folder, printed = p5bench("ab", out / "ab", "--a", f"LD_LIBRARY_PATH={old}", "--b", f"LD_LIBRARY_PATH={new}", *amount)
    report = json.loads((folder / "report.json").read_text())
    print("; ".join(f"{arm['name']}: {arm['context'].get('nccl')}, {arm['launches']} launches" for arm in report["arms"]))
    for row in json.loads((folder / "comparison.json").read_text())["bands"]:
        low, high = row["time"]["ci95"]
        print(f"{row['collective']}: x {row['time']['ratio']:.3f} ({low:.3f} to {high:.3f}): {row['answer']}")
    print(printed.splitlines()[-2] if printed.count("\n") > 1 else printed, flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=pathlib.Path, default=pathlib.Path("communicators-out"))
    arguments.add_argument("--repeats", type=int, default=3)
    arguments.add_argument("--launches", default="3")
    arguments.add_argument("--budget", default="4min", help="of each run")
    arguments.add_argument("--libraries", nargs=2, metavar="DIR")
    options = arguments.parse_args()
    amount = ["--launches", options.launches, "--budget", options.budget]
    repeated(options.out, options.repeats, amount)
    if options.libraries:
        compared(options.out, *options.libraries, amount)


main()
