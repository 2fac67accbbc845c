"""p5bench ab on the GPUs of this host: it has to find a slower arm, distinguish two libraries, and find no difference
between equal arms.

  python3 ab_gpu.py [--out DIR] [--libraries DIR DIR] [--launches N] [--independent N] [--only CHECK...]

  regression  the default against NCCL_MAX_CTAS=8, which has to cost bandwidth
  libraries   two NCCLs, each by the folder that holds its libnccl.so.2 (with --libraries)
  false       the default against itself, 20 comparisons of 7 against 7 launches; counts the regressions

Prints a line for each check and writes DIR/CHECK.json; exits with 0 when all are as expected. Only Python's standard
library, because GPU hosts may have no other. NCCL_NVLS_ENABLE=0 is set in every child and checked in every arm.

20 independent comparisons would need 280 launches of 2 to 3 s each, a quarter of an hour. By default `false` measures
one pool of launches of two identical arms instead (--launches an arm) and draws 20 times 7 against 7 of them, from
either arm. Each draw compares equals, so that the expected number of false alarms is right; but draws share launches,
so that alarms are correlated and their number varies more than that of 20 independent comparisons. Two alarms of the
pool are therefore weak evidence: --independent 20 takes the time for a certain answer."""

import argparse
import json
import os
import pathlib
import random
import shlex
import subprocess
import sys
import time

SOURCE = pathlib.Path(os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
BUILD = pathlib.Path(os.environ.get("P5BENCH_BUILD") or SOURCE / "build" / "release")
RANKS = os.environ.get("P5BENCH_RANKS", "4")
MPIRUN = shlex.split(os.environ.get("P5BENCH_MPIRUN", f"mpirun --allow-run-as-root --bind-to none -np {RANKS}"))
KEPT = "NCCL_NVLS_ENABLE"
SAME = f"{KEPT}=0"  # as the job has it
ANSWERS = {0: "no regression", 10: "regression", 14: "inconclusive"}
# Two sizes of each band, because a comparison decides on bands. Further options for the first two checks, which
# otherwise run with ab's defaults.
MORE = shlex.split(os.environ.get("P5BENCH_AB", ""))
FEW_SIZES = os.environ.get("P5BENCH_SIZES", "64,4KiB,512KiB,8MiB,128MiB,512MiB")
COMPARISONS, SIDE = 20, 7


def environment():
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **{KEPT: "0"})


def ab(out, a, b, *more):
    """Exit code, seconds, and the folder of the run."""
    command = [*MPIRUN, str(BUILD / "p5bench"), "ab", "--a", a, "--b", b, "--backend", "nccl", "--out", str(out), *more]
    start = time.monotonic()
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    took = time.monotonic() - start
    (out.parent / f"{out.name}.txt").write_text(done.stdout)
    if done.returncode not in ANSWERS:
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout[-4000:]}")
    folder = out / "latest"
    for arm in report_of(folder)["arms"]:
        if arm["context"].get(f"env.{KEPT}") != "0":
            raise SystemExit(f"{KEPT}=0 did not reach arm {arm['name']}: {arm['context']}")
    return done.returncode, took, folder


def report_of(folder):
    return json.loads((folder / "report.json").read_text())


def comparison_of(folder):
    return json.loads((folder / "comparison.json").read_text())


def rows(comparison):
    return [{key: row[key] for key in ("collective", "quantity", "band", "answer", "base_launches", "new_launches")}
            | {"ratio": row["time"]["ratio"], "ci95": row["time"]["ci95"], "p_adjusted": row["time"]["p_adjusted"]}
            for row in comparison["bands"]]


def row_text(row):
    low, high = row["ci95"]
    return f"{row['collective']} {row['band']} {100 * (row['ratio'] - 1):+.1f} % ({100 * (low - 1):+.1f} to {100 * (high - 1):+.1f})"


def launches_of(report):
    return {arm["name"]: arm["launches"] for arm in report["arms"]}


def finish(out, name, good, text, result):
    (out / f"{name}.json").write_text(json.dumps({"check": name, "as_expected": good, "text": text, **result}, indent=1) + "\n")
    print(f"{name}: {'as expected' if good else 'NOT AS EXPECTED'}: {text}", flush=True)
    return good


def check_regression(out, _):
    code, took, folder = ab(out / "regression", "", "NCCL_MAX_CTAS=8", *MORE)
    found = [row for row in rows(comparison_of(folder)) if row["answer"] == "regression" and row["band"] == "bandwidth"]
    launches = launches_of(report_of(folder))
    text = (f"default against NCCL_MAX_CTAS=8: {ANSWERS[code]}; bandwidth: {'; '.join(map(row_text, found)) or 'nothing found'}; "
            f"launches {launches['a']}, {launches['b']}; {took:.0f} s in all")
    good = code == 10 and bool(found) and took < 180
    return finish(out, "regression", good, text, {"exit_code": code, "wall_s": took, "launches": launches, "bands": rows(comparison_of(folder))})


def check_libraries(out, options):
    first, second = (str(pathlib.Path(each).resolve()) for each in options.libraries)
    code, took, folder = ab(out / "libraries", f"LD_LIBRARY_PATH={first}", f"LD_LIBRARY_PATH={second}", *MORE)
    arms = {arm["name"]: arm["context"] for arm in report_of(folder)["arms"]}
    # NCCL's folder may be reached through links.
    right = all(os.path.realpath(arms[name]["nccl.path"]).startswith(os.path.realpath(wanted)) for name, wanted in (("a", first), ("b", second)))
    worst = max(rows(comparison_of(folder)), key=lambda row: row["ratio"])
    text = (f"{arms['a']['nccl']} ({arms['a']['nccl.path']}) against {arms['b']['nccl']} ({arms['b']['nccl.path']}): {ANSWERS[code]}; "
            f"worst band: {row_text(worst)}; {took:.0f} s in all")
    return finish(out, "libraries", right and took < 180, text, {"exit_code": code, "wall_s": took, "arms": arms, "bands": rows(comparison_of(folder))})


def drawn(folder, report, lines, chosen):
    """A run of the chosen launches (arm, number), in the form of a separate one."""
    folder.mkdir(parents=True)
    number_of = {launch: number for number, launch in enumerate(chosen)}
    journal, medians = [], {}
    for line in lines:
        number = number_of.get((line["case"]["arm"], line["launch"]))
        if number is None or line["outcome"] != "measured":
            continue
        case = {**line["case"], "arm": "default", "settings": {}}
        journal.append({**line, "case": case, "launch": number})
        medians.setdefault(json.dumps(case, sort_keys=True), {})[number] = line
    measurements = []
    for m in report["measurements"]:
        case = {**m["case"], "arm": "default", "settings": {}}
        mine = medians.get(json.dumps(case, sort_keys=True))
        if m["case"]["arm"] != "a" or not mine:
            continue
        in_order = [mine[number] for number in sorted(mine)]
        of = {kind: [line[kind]["median_us"] for line in in_order if line[kind]] for kind in ("throughput", "latency")}
        measurements.append({**m, "case": case, "launches_us": of["throughput"], "latency_launches_us": of["latency"]})
    whole = {key: value for key, value in report.items() if key != "arms"} | {"measurements": measurements}
    whole["run"] = {**report["run"], "launches": len(chosen)}
    (folder / "report.json").write_text(json.dumps(whole))
    (folder / "measurements.jsonl").write_text("".join(json.dumps(line) + "\n" for line in sorted(journal, key=lambda line: line["launch"])))


def compare(base, new, out):
    done = subprocess.run([str(BUILD / "p5bench"), "compare", str(base), str(new), "--format", "json", "--out", str(out)], env=environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    if done.returncode not in ANSWERS:
        raise SystemExit(f"compare ended with {done.returncode}: {done.stdout}")
    return done.returncode, json.loads((out / "comparison.json").read_text())


def from_pool(out, options):
    code, took, folder = ab(out / "pool", "", SAME, "--sizes", FEW_SIZES, "--launches", str(options.launches), "--budget", "10min", "--seed", "1")
    report = report_of(folder)
    lines = [json.loads(line) for line in (folder / "measurements.jsonl").read_text().splitlines()]
    pool = [(arm, number) for arm, count in launches_of(report).items() for number in range(count)]
    if len(pool) < 2 * SIDE:
        raise SystemExit(f"the pool has only {len(pool)} launches; raise --launches")
    draw, codes, alarms = random.Random(1), [], []
    for i in range(COMPARISONS):
        chosen = draw.sample(pool, 2 * SIDE)
        here = out / "draws" / str(i)
        drawn(here / "base", report, lines, chosen[:SIDE])
        drawn(here / "new", report, lines, chosen[SIDE:])
        one, comparison = compare(here / "base", here / "new", here)
        codes.append(one)
        alarms += [row for row in rows(comparison) if row["answer"] == "regression"]
    return codes, alarms, f"{len(pool)} launches pooled in {took:.0f} s (as arms: {ANSWERS[code]}), drawn 7 against 7", {"pool": len(pool), "wall_s": took}


def one_by_one(out, options):
    codes, alarms, took = [], [], 0
    for i in range(options.independent):
        code, each, folder = ab(out / f"independent-{i}", "", SAME, "--sizes", FEW_SIZES, "--launches", str(SIDE), "--seed", str(i))
        codes.append(code)
        took += each
        alarms += [row for row in rows(comparison_of(folder)) if row["answer"] == "regression"]
    return codes, alarms, f"{len(codes)} independent runs in {took:.0f} s", {"wall_s": took}


def check_false(out, options):
    codes, alarms, how, result = (one_by_one if options.independent else from_pool)(out, options)
    counts = {answer: codes.count(code) for code, answer in ANSWERS.items()}
    text = (f"default against itself, {how}: {counts['regression']} of {len(codes)} are false alarms"
            f"{' (' + '; '.join(map(row_text, alarms[:4])) + ')' if alarms else ''}, {counts['no regression']} no regression, "
            f"{counts['inconclusive']} inconclusive")
    # One in 20 is expected at 5 %.
    return finish(out, "false", counts["regression"] <= max(1, len(codes) // 20), text, {"counts": counts, "codes": codes, "alarms": alarms, **result})


CHECKS = {"regression": check_regression, "libraries": check_libraries, "false": check_false}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="p5bench-ab-gpu")
    parser.add_argument("--libraries", nargs=2, metavar="DIR")
    parser.add_argument("--launches", type=int, default=20, help="of each arm in the pool")
    parser.add_argument("--independent", type=int, default=0, metavar="N", help="N runs of 7 against 7 instead of the pool")
    parser.add_argument("--only", nargs="+", choices=CHECKS, default=list(CHECKS))
    options = parser.parse_args()
    out = pathlib.Path(options.out) / time.strftime("%Y%m%dT%H%M%S")
    out.mkdir(parents=True)
    good = True
    for name in options.only:
        if name == "libraries" and not options.libraries:
            print("libraries: left out; name two folders with --libraries")
            continue
        good = CHECKS[name](out, options) and good
    print(f"written to {out}")
    sys.exit(0 if good else 1)


main()
