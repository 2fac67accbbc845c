"""By how much works slow each other (`--beside`): p5bench and PyTorch alternately on the GPUs of this host.

    python3 compare_beside.py [--rounds N] [--size MIB] [--beside WORK...] [--library DIR] [--environment FILE] [--out DIR]
    python3 compare_beside.py --search [--size MIB] [--rounds N] [--environment FILE]

An all_reduce in float32 beside each WORK: gemm (bf16 products of 8192), d2h (copies of 64 MiB to the host) or
all_gather:MIB. PyTorch measures with streams and events, by p5bench's rule: the timed work starts when the other one has
done its first operation and ends before it. Prints a table of the medians over the rounds, in us, and by how much the
slowdowns differ. --library is put before LD_LIBRARY_PATH for p5bench, so that both use PyTorch's NCCL.

With --search PyTorch alone measures the time until the same operations of all_reduce and products are done that start
together, by number of channels (NCCL's maxCTAs) and by NCCL_PROTO. With --environment (an nccl.env of `p5bench tune`) both
forms measure with that file too. Measures; judges nothing. NCCL_NVLS_ENABLE=0 is set in every child."""

import argparse
import json
import os
import pathlib
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
WARM_UP_S, SAMPLE_MS, SAMPLES = 0.7, 20, 9

# One rank of PyTorch: python3 -c PROGRAM RANK RANKS STORE QUESTION; rank 0 prints JSON.
PROGRAM = r"""
import json, statistics, sys, time, torch
import torch.distributed as dist
rank, ranks, store, question = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
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

def sample(operations, counts, late):
    # Ends of each operation in ms behind the start; a late one's start is behind the other's first operation.
    dist.barrier(group=on_host)
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    start, first = torch.cuda.Event(enable_timing=True), torch.cuda.Event()
    with torch.cuda.stream(streams[0]):
        buffer.uniform_()  # sums would overflow
        if operations[1] is gemm:
            for _ in range(20):  # some 30 ms, for the launches, and so that the power limit lowers the clocks as without pauses
                gemm()
        else:
            torch.cuda._sleep(6_000_000)
        dist.all_reduce(aligned)  # all ranks start together
        start.record()
    streams[1].wait_event(start)
    left = list(counts)
    def one(at):
        with torch.cuda.stream(streams[at]):
            operations[at]()
            left[at] -= 1
            if left[at] == 0:
                ends[at].record()
    if late is not None and counts[1 - late]:
        one(1 - late)
        first.record(streams[1 - late])
        streams[late].wait_event(first)
        start = torch.cuda.Event(enable_timing=True)
        start.record(streams[late])
    while any(left):
        one(max((0, 1), key=lambda at: left[at] / max(counts[at], 1)))
    torch.cuda.synchronize()
    return [start.elapsed_time(ends[at]) if counts[at] else 0.0 for at in (0, 1)]

def slowest(values):
    times = torch.tensor(values, device=device)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return times.tolist()

def measure(operations):
    # Operations of a sample's time alone, all without pauses, as p5bench measures.
    sample(operations, [1, 1], None)  # communicators begin with their first operation
    one = [slowest(sample(operations, [3 * (at == 0), 3 * (at == 1)], None))[at] / 3 for at in (0, 1)]
    fitted = [max(1, round(max(question["sample_ms"], 2 * max(one)) / each)) for each in one]
    combinations = {"alone 0": ([fitted[0], 0], None, 0), "alone 1": ([0, fitted[1]], None, 1),
                    "beside 0": ([fitted[0], 4 * fitted[1]], 0, 0), "beside 1": ([4 * fitted[0], fitted[1]], 1, 1),
                    "together": (fitted, None, None)}
    combinations = {name: each for name, each in combinations.items() if name in question["wanted"]}
    end = time.monotonic() + question["warm_up_s"]
    times = {name: [] for name in combinations}
    taken = 0
    while taken < question["samples"]:
        for name, (counts, late, timed) in combinations.items():
            ends = slowest(sample(operations, counts, late))
            times[name].append(1e3 * (max(ends) if timed is None else ends[timed] / counts[timed]))
        warm = slowest([float(time.monotonic() < end)])[0] == 0
        if not warm:
            times = {name: [] for name in combinations}
        taken = taken + 1 if warm else 0
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
    question = {"sample_ms": SAMPLE_MS, "samples": SAMPLES, "warm_up_s": WARM_UP_S, "channels": [], "works": [], **question}
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
                "--budget", asked.budget, "--out", folder]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=240)
        if done.returncode not in (0, 14):
            raise SystemExit(f"p5bench ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        report = json.loads((pathlib.Path(folder) / "latest" / "report.json").read_text())
    found = next(each["concurrency"] for each in report["measurements"] if each.get("concurrency"))
    return [[its["alone"]["median_us"], its["beside"]["median_us"]] for its in found["operations"]]


def compare(asked, variables):
    rows = {}
    for _ in range(asked.rounds):
        theirs = by_torch(variables, mib=asked.size, works=asked.beside, wanted=["alone 0", "alone 1", "beside 0", "beside 1"])
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
    arms, results = [({"NCCL_PROTO": each} if each else {}, list(CHANNELS)) for each in PROTOCOLS], {}
    if files:
        arms += [(files, [0])]
    for _ in range(asked.rounds):
        for variables, channels in arms:
            name = "files" if files and variables is files else variables.get("NCCL_PROTO", "NCCL's")
            told = by_torch(variables, mib=asked.size, channels=channels, wanted=["together", "alone 0"])["results"]
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
    parser.add_argument("--budget", default="30s", help="of each of p5bench's runs")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("beside"))
    asked = parser.parse_args()
    files = environment_of(asked.environment)
    asked.out.mkdir(parents=True, exist_ok=True)
    figures = search(asked, files) if asked.search else compare(asked, files)
    (asked.out / ("search.json" if asked.search else "compare.json")).write_text(json.dumps(figures, indent=1))


main()
