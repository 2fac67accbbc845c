"""What `check` says of each GPU alone, on the GPUs of this host, against PyTorch and against faults made on purpose.
python3 compare_products.py [--rounds N] [--out DIR] [--only CHECK...]

  products  bf16 products of 8192 by F.linear on all GPUs at once, then, one GPU after the other as `check` makes them,
            copies of 512 MiB, 16 in a row as nvbandwidth makes them, alternating with `check`
  healthy   20 checks in a row: nobody may be named
  hog       N times a program that multiplies on GPU 1 meanwhile, and N times without: GPU 1 is named, and nobody
  flip      one bit of each product (2^40 operations) of GPU 1 is flipped: exit code 11 with GPU and bit

Needs PyTorch for the first and the third. Prints a line for each check and writes DIR/CHECK.json; 0 when all are as
expected. NCCL_NVLS_ENABLE=0 is set in every child."""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

SOURCE = pathlib.Path(os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
BUILD = pathlib.Path(os.environ.get("P5BENCH_BUILD") or SOURCE / "build" / "release")
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", NCCL_NVLS_ENABLE="0",
                   AWS_EC2_METADATA_DISABLED="true")

# Runs on one GPU; prints TFLOP/s and the rates of copies. The operands are as p5bench's: signs and mantissas at random,
# magnitudes between 1 and 2. `forever` is the hog.
PROGRAM = r"""
import sys, time, torch
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
device, what = torch.device("cuda", int(sys.argv[1])), sys.argv[2]
torch.cuda.set_device(device)
size = 8192
operands = [((torch.rand(size, size, device=device) + 1) * (torch.randint(0, 2, (size, size), device=device) * 2 - 1)).to(torch.bfloat16)
            for _ in range(2)]
def burst(work, count):
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(count):
        work()
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / 1e3 / count
product = lambda: torch.nn.functional.linear(*operands)
def rate(seconds):
    end, times = time.monotonic() + seconds, []
    while time.monotonic() < end:
        times.append(burst(product, 20))
    return 2 * size ** 3 / sorted(times)[len(times) // 2] / 1e12
if what == "forever":
    print("ready", flush=True)
    while True:
        burst(product, 100)
if what == "products":
    rate(0.3)
    print(rate(0.5))
    sys.exit()
count = 512 << 20
there = [torch.empty(count, dtype=torch.uint8, device=device) for _ in range(2)]
host = torch.empty(count, dtype=torch.uint8, pin_memory=True)
def copy(to, source):
    burst(lambda: to.copy_(source, non_blocking=True), 2)
    return count / min(burst(lambda: to.copy_(source, non_blocking=True), 16) for _ in range(3)) / 1e9
print(2 * copy(*there), copy(there[0], host), copy(host, there[0]))
"""


def gpus():
    return len(subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines())


def check(*arguments, **variables):
    """Exit code, the report, and the seconds it took, on all GPUs, also those in use."""
    start = time.monotonic()
    done = subprocess.run(["mpirun", "--allow-run-as-root", "--bind-to", "none", "-np", str(gpus()), str(BUILD / "p5bench"), "check",
                           "--format", "json", "--limit", "60s", *arguments], env=dict(ENVIRONMENT, **variables), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    took = time.monotonic() - start
    try:
        return done.returncode, json.loads(done.stdout[done.stdout.index("{"):done.stdout.rindex("}") + 1]), took
    except ValueError:
        raise SystemExit(f"check ended with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}") from None


def torch_figures():
    """Of each GPU: TFLOP/s, all at the same time; GB/s on the device, to it, from it, one after the other."""
    def start(gpu, what):
        return subprocess.Popen([sys.executable, "-c", PROGRAM, str(gpu), what], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)

    def figures(running):
        return [float(each) for each in running.communicate(timeout=120)[0].split()]
    rates = [figures(each) for each in [start(gpu, "products") for gpu in range(gpus())]]
    return [rates[gpu] + figures(start(gpu, "copies")) for gpu in range(gpus())]


def named(report):
    return sorted({f"{finding['id']} {finding['subject'].get('gpu')}" for finding in report["findings"]
                   if finding["id"] in ("gpu.busy", "gpu.slow_alone", "gpu.slow_under_load", "gpu.corrupt")})


def gpus_of(names):
    return {name.split()[1] for name in names}


def evidence(report):
    return [finding["evidence"] for finding in report["findings"] if finding["id"] in ("gpu.slow_alone", "gpu.slow_under_load")]


def products(rounds):
    names = ("bf16_tflop_per_s", "device_copy_gb_per_s", "host_to_device_gb_per_s", "device_to_host_gb_per_s")
    ours, theirs, shares = [], [], []
    for _ in range(rounds):
        _, report, took = check()
        ours.append([[one[name] for name in names] for one in report["local_checks"]])
        theirs.append(torch_figures())
        shares.append(took)
    rows = {}
    for gpu in range(gpus()):
        for i, name in enumerate(names):
            here, there = (statistics.median(one[gpu][i] for one in side) for side in (ours, theirs))
            rows[f"GPU {gpu} {name}"] = [round(here, 2), round(there, 2), round(here / there, 4)]
    return all(abs(row[2] - 1) <= 0.02 for name, row in rows.items() if "tflop" in name), {"rows": rows, "seconds_of_check": shares,
                                                                                          "ours": ours, "theirs": theirs}


def healthy(rounds):
    results = [check() for _ in range(4 * rounds)]
    found = [named(report) for _, report, _ in results]
    return not any(found), {"named": found, "codes": [code for code, _, _ in results],
                            "figures": [report["local_checks"] for _, report, _ in results]}


def hog(rounds):
    found, why = [], []
    for _ in range(rounds):
        other = subprocess.Popen([sys.executable, "-c", PROGRAM, "1", "forever"], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        try:
            other.stdout.readline()
            with_it = named(check()[1])
        finally:
            other.kill()
            other.wait()
        without = check()[1]
        found.append([with_it, named(without)])
        why += evidence(without)
    return all(gpus_of(with_it) == {"1"} and not without for with_it, without in found), {"named": found, "wrongly": why}


def flip(_rounds):
    folder = BUILD / "tests" / "gpu" / "flip"
    real = os.environ.get("P5BENCH_REAL_CUBLASLT") or "/usr/local/cuda/lib64/libcublasLt.so.13"
    code, report, took = check("--burn", "10s", P5BENCH_REAL_CUBLASLT=real, P5BENCH_FLIP_DEVICE="1", P5BENCH_FLIP_FROM="300",
                               LD_LIBRARY_PATH=f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}")
    text = [finding["evidence"] for finding in report["findings"] if finding["id"] == "gpu.corrupt"]
    return code == 11 and named(report)[:1] == ["gpu.corrupt 1"] and any(re.search("bit 17 ", each) for each in text), {
        "code": code, "evidence": text, "seconds": took}


def main():
    checks = {"products": products, "healthy": healthy, "hog": hog, "flip": flip}
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("products"))
    parser.add_argument("--only", nargs="+", choices=checks, default=list(checks))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    good = True
    for name in options.only:
        right, details = checks[name](options.rounds)
        (options.out / f"{name}.json").write_text(json.dumps(details, indent=1))
        shown = details.get("rows") or {key: value for key, value in details.items() if key != "figures"}
        print(f"{'as expected' if right else 'NOT AS EXPECTED'}: {name}: {json.dumps(shown)}", flush=True)
        good = good and right
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
