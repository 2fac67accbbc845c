"""By how much works slow each other (`--beside`): p5bench and PyTorch alternately on the GPUs of this host.

    python3 compare_beside.py [--rounds N] [--size MIB] [--beside WORK...] [--library DIR] [--environment FILE] [--out DIR]
    python3 compare_beside.py --search [--size MIB] [--rounds N] [--channels N...] [--environment FILE]

An all_reduce in float32 beside each WORK: gemm (bf16 products of 8192), d2h (copies of 64 MiB to the host) or
all_gather:MIB. PyTorch measures with streams and events: each work runs without pauses for 0.6 s or 200 operations, alone
and beside the other one, and what it takes behind the first third is its time. All operations are launched before the
first one starts: launches that wait for a full queue would stop those of the other work too. Prints a table of the
medians over the rounds, in us, and by how much the slowdowns differ. --library is put before LD_LIBRARY_PATH for p5bench, so that both use PyTorch's NCCL.

With --search PyTorch alone measures the time until the same operations of all_reduce and products are done that start
together, some 100 ms of each, by number of channels (NCCL's maxCTAs; 0: its own) and by NCCL_PROTO. With --environment
(an nccl.env of `p5bench tune`) both forms measure with that file too. Measures; judges nothing. NCCL_NVLS_ENABLE=0 is
set in every child."""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
BUILD = pathlib.Path(os.environ.get("P5BENCH_BUILD") or SOURCE / "build" / "release")
RANKS = int(os.environ.get("P5BENCH_RANKS", "2"))
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", NCCL_NVLS_ENABLE="0")
# PyTorch uses many streams. Two of them on one of the 8 queues of a device would wait for each other.
TORCH = {"CUDA_DEVICE_MAX_CONNECTIONS": "32"}
CHANNELS = (0, 2, 4, 8, 12, 16, 20, 24, 32)  # 0: NCCL's own number
PROTOCOLS = ("", "Simple", "LL128")
SAMPLE_MS, SAMPLES = 100, 5

# One rank of PyTorch: python3 -c PROGRAM RANK RANKS STORE QUESTION; rank 0 prints JSON.
PROGRAM = r"""
import json, math, statistics, sys, torch
import torch.distributed as dist
FLOW_S, MOST = 0.6, 200
rank, ranks, store, question = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
SUMS = int(100 / math.log2(max(ranks, 2)))
torch.cuda.set_device(rank)
device = torch.device("cuda", rank)
dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=ranks)
on_host = dist.new_group(backend="gloo")

def group_of(channels):
    options = dist.ProcessGroupNCCL.Options()
    if channels:
        options.config.min_ctas, options.config.max_ctas = 1, channels
    return dist.new_group(pg_options=options)

size = 8192
operands = [((torch.rand(size, size, device=device) + 1) * (torch.randint(0, 2, (size, size), device=device) * 2 - 1)).to(torch.bfloat16)
            for _ in range(2)]
product = torch.empty(size, size, dtype=torch.bfloat16, device=device)
buffer = torch.rand(question["mib"] << 18, device=device)
aligned = torch.zeros(1, device=device)

def all_reduce(group):
    def operate():
        dist.all_reduce(buffer, group=group)
    return operate

def gemm():
    torch.matmul(operands[0], operands[1].t(), out=product)

def work(name):
    if name == "gemm":
        return gemm
    if name == "d2h":
        source, target = (torch.empty(64 << 20, dtype=torch.uint8, **where) for where in ({"device": device}, {"pin_memory": True}))
        return lambda: target.copy_(source, non_blocking=True)
    mib, group = int(name.split(":")[1]), group_of(0)
    whole = torch.empty(mib << 18, device=device)
    part = torch.empty(whole.numel() // ranks, device=device)
    return lambda: dist.all_gather_into_tensor(whole, part, group=group)

streams = [torch.cuda.Stream() for _ in range(2)]

def start_together(pause):
    dist.barrier(group=on_host)
    begin = torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(streams[0]):
        torch.cuda._sleep(pause)  # for the launches
        dist.all_reduce(aligned)  # all ranks start together
        begin.record()
    streams[1].wait_event(begin)
    return begin

def launch(operations, counts):
    # Ends of each operation in ms behind the start. Both are launched by their share of what is left.
    buffer.uniform_(1, 2).mul_(2.0 ** -100)
    begin, ends, left = start_together(6_000_000 + 100_000 * sum(counts)), ([], []), list(counts)
    while any(left):
        at = max((0, 1), key=lambda each: left[each] / max(counts[each], 1))
        with torch.cuda.stream(streams[at]):
            operations[at]()
            ends[at].append(torch.cuda.Event(enable_timing=True))
            ends[at][-1].record()
            if at == 0 and len(ends[0]) % SUMS == 0:
                buffer.mul_(float(ranks) ** -SUMS)  # sums would overflow
        left[at] -= 1
    torch.cuda.synchronize()
    return [[begin.elapsed_time(end) for end in of] for of in ends]

def slowest(values):
    times = torch.tensor(values, device=device)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return times.tolist()

def without_pauses(operations, one, which):
    # us of an operation while all of `which` run without pauses, behind the first third.
    flow_ms = min(1e3 * FLOW_S, MOST * min(one))
    counts = [max(6, round(flow_ms / one[at])) if at in which else 0 for at in (0, 1)]
    ends = launch(operations, counts)
    until = min(of[-1] for of in ends if of)
    within = [[end for end in of if until / 3 <= end <= until] for of in ends]
    return slowest([1e3 * (of[-1] - of[0]) / (len(of) - 1) if len(of) > 1 else 0.0 for of in within])

def measure(operations):
    launch(operations, [1, 1])  # communicators begin with their first operation
    one = [slowest([launch(operations, [3 * (at == 0), 3 * (at == 1)])[at][-1]])[0] / 3 for at in (0, 1)]
    results = {}
    if question["wanted"] == "slowdowns":
        without_pauses(operations, one, (0, 1))  # warms up
        taken = [[without_pauses(operations, one, which) for which in ((0,), (1,), (0, 1))] for _ in range(3)]
        for at in (0, 1):
            results[f"alone {at}"] = statistics.median(each[at][at] for each in taken)
            results[f"beside {at}"] = statistics.median(each[2][at] for each in taken)
        return results
    fitted = [max(1, round(question["sample_ms"] / each)) for each in one]
    without_pauses(operations, one, (0, 1))
    times = {"together": [], "alone 0": []}
    for _ in range(question["samples"]):
        times["together"].append(1e3 * slowest([max(of[-1] for of in launch(operations, fitted))])[0])
        times["alone 0"].append(1e3 * slowest([launch(operations, [fitted[0], 0])[0][-1] / fitted[0]])[0])
    return {"operations": fitted, **{name: statistics.median(each) for name, each in times.items()}}

results = {}
if question["channels"]:
    for channels in question["channels"]:
        results[channels] = measure([all_reduce(group_of(channels)), gemm])
else:
    group = group_of(0)
    for name in question["works"]:
        results[name] = measure([all_reduce(group), work(name)])
if rank == 0:
    print(json.dumps({"nccl": ".".join(map(str, torch.cuda.nccl.version())), "results": results}), flush=True)
dist.destroy_process_group()
"""


def environment_of(file):
    """The variables that the file sets, as a shell reads it."""
    if not file:
        return {}
    read = subprocess.run(["bash", "-c", 'set -a; . "$1"; env -0', "-", str(file)], env={"PATH": os.environ["PATH"]}, stdout=subprocess.PIPE, text=True, check=True)
    variables = dict(each.split("=", 1) for each in read.stdout.split("\0") if "=" in each)
    return {name: value for name, value in variables.items() if name.startswith(("NCCL_", "P5BENCH_TUNER_", "FI_", "OFI_NCCL_"))}


def by_torch(variables, **question):
    question = {"sample_ms": SAMPLE_MS, "samples": SAMPLES, "channels": [], "works": [], **question}
    with tempfile.TemporaryDirectory() as folder:
        running = [subprocess.Popen([sys.executable, "-c", PROGRAM, str(rank), str(RANKS), f"{folder}/store", json.dumps(question)],
                                    env={**ENVIRONMENT, **TORCH, **variables, "NCCL_NVLS_ENABLE": "0"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for rank in range(RANKS)]
        try:
            told = [one.communicate(timeout=240) for one in running]
        finally:
            for one in running:
                one.kill()
    for one, (_, complaint) in zip(running, told):
        if one.returncode:
            raise SystemExit(f"PyTorch ended with {one.returncode}:\n{complaint[-3000:]}")
    return json.loads(told[0][0].splitlines()[-1])


def by_p5bench(asked, work, variables):
    with tempfile.TemporaryDirectory() as folder:
        environment = {**ENVIRONMENT, **variables, "NCCL_NVLS_ENABLE": "0"}
        if asked.library:
            environment["LD_LIBRARY_PATH"] = f"{asked.library}:{environment.get('LD_LIBRARY_PATH', '')}"
        line = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "-np", str(RANKS), str(BUILD / "p5bench"), "run", "--collectives", "all_reduce",
                "--sizes", f"{asked.size}MiB", "--beside", work if ":" not in work else work + "MiB", "--tuning=off", "--quiet",
                "--budget", asked.budget, *shlex.split(asked.options), "--out", folder]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=240)
        if done.returncode not in (0, 14):
            raise SystemExit(f"p5bench ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        report = json.loads((pathlib.Path(folder) / "latest" / "report.json").read_text())
    found = next(each["concurrency"] for each in report["measurements"] if each.get("concurrency"))
    return [[its["alone"]["median_us"], its["beside"]["median_us"]] for its in found["operations"]]


def compare(asked, variables):
    rows = {}
    for _ in range(asked.rounds):
        theirs = by_torch(variables, mib=asked.size, works=asked.beside, wanted="slowdowns")
        for work in asked.beside:
            ours = by_p5bench(asked, work, variables)
            for at, (alone, beside) in enumerate(ours):
                row = rows.setdefault((work, at), {"p5bench": [], "PyTorch": []})
                row["p5bench"].append((alone, beside))
                row["PyTorch"].append((theirs["results"][work][f"alone {at}"], theirs["results"][work][f"beside {at}"]))
    print("| operation | beside | p5bench alone, beside us | PyTorch alone, beside us | slowdowns | differ by |\n|---|---|---|---|---|---|")
    for (work, at), row in rows.items():
        medians = {who: [statistics.median(each[i] for each in row[who]) for i in (0, 1)] for who in row}
        slow = {who: each[1] / each[0] for who, each in medians.items()}
        names = ("all_reduce", work) if at == 0 else (work, "all_reduce")
        print(f"| {names[0]} | {names[1]} | {medians['p5bench'][0]:.1f}, {medians['p5bench'][1]:.1f} | {medians['PyTorch'][0]:.1f}, "
              f"{medians['PyTorch'][1]:.1f} | {slow['p5bench']:.3f}, {slow['PyTorch']:.3f} | {100 * (slow['p5bench'] / slow['PyTorch'] - 1):+.1f} % |")
    return {f"{work} {at}": row for (work, at), row in rows.items()}


def search(asked, files):
    arms, results = [({"NCCL_PROTO": each} if each else {}, asked.channels) for each in PROTOCOLS], {}
    if files:
        arms += [(files, [0])]
    for _ in range(asked.rounds):
        for variables, channels in arms:
            name = "files" if files and variables is files else variables.get("NCCL_PROTO", "NCCL's")
            told = by_torch(variables, mib=asked.size, channels=channels, wanted="together")["results"]
            for count, times in told.items():
                results.setdefault((name, int(count)), []).append(times)
    print("| protocol | channels | operations | together us | all_reduce alone us |\n|---|---|---|---|---|")
    for (name, count), times in results.items():
        # Times a pair of operations, since their number in a sample follows from their times alone.
        together = statistics.median(each["together"] / each["operations"][0] for each in times)
        print(f"| {name} | {count or 'own'} | {times[0]['operations']} | {together:.1f} | {statistics.median(each['alone 0'] for each in times):.1f} |")
    return {f"{name} {count}": times for (name, count), times in results.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=512, help="of the all_reduce, in MiB")
    parser.add_argument("--beside", nargs="+", default=["gemm"])
    parser.add_argument("--library", help="folder of PyTorch's NCCL")
    parser.add_argument("--environment", type=pathlib.Path, help="an nccl.env")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--channels", nargs="+", type=int, default=list(CHANNELS))
    parser.add_argument("--budget", default="30s", help="of each of p5bench's runs")
    parser.add_argument("--options", default="", help="further options of p5bench's runs, such as --in-place")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("beside"))
    asked = parser.parse_args()
    files = environment_of(asked.environment)
    asked.out.mkdir(parents=True, exist_ok=True)
    figures = search(asked, files) if asked.search else compare(asked, files)
    (asked.out / ("search.json" if asked.search else "compare.json")).write_text(json.dumps(figures, indent=1))


main()
