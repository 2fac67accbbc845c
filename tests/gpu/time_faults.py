"""Time that each fault of workers_test costs alone, on the GPUs of this host: python3 time_faults.py [AT-ONCE]. It is
measured from the fault until mpirun has ended, including the rest of a short plan; AT-ONCE (1) jobs run at the same
time. Prints a table; judges nothing."""

import concurrent.futures
import json
import pathlib
import sys
import tempfile
import time

import workers_test as workers

FAULTS = [(kind, order, number) for order, number in (("join", 1), ("warm_up", 2), ("sample", 2), ("verify", 1))
          for kind in ("kill", "stop", "endless")]
# last, because joining has two minutes; once, it affects no case
FAULTS.sort(key=lambda fault: fault[:2] == ("endless", "join"))


def measure(fault, rank):
    kind, order, number = fault
    with tempfile.TemporaryDirectory(prefix="p5bench-faults-") as folder:
        notes = pathlib.Path(tempfile.mkdtemp(dir=folder))
        job = workers.Job(folder, "--sizes", "64,64KiB,1MiB", "--collectives", "all_reduce,all_gather", "--budget", "400s", "--seed", "5",
                          "--timeout", workers.TIMEOUT, preload=workers.BUILD / "tests" / "gpu" / "misbehave.so",
                          P5BENCH_MISBEHAVE=f"{kind}@{rank}:{order}#{number}", P5BENCH_MISBEHAVE_NOTES=str(notes))
        code, output = job.end(300)
        took = time.time() - (notes / "0").stat().st_mtime if (notes / "0").exists() else None
        cases = [json.loads(line) for line in (job.folder / "latest" / "measurements.jsonl").read_text().splitlines()]
        failed = [m for m in cases if m["outcome"] == "failed"]
        return code, took, len(cases) - len(failed), [(m["failed_rank"], m["failed_in"], m["because"]) for m in failed]


def main():
    at_once = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    print(f"--timeout {workers.TIMEOUT}, {at_once} at once\n| fault | exit | from fault to end, s | measured | failed |\n|---|---|---|---|---|")
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        jobs = [(fault, pool.submit(measure, fault, i % workers.RANKS)) for i, fault in enumerate(FAULTS)]
        for (kind, order, _), job in jobs:
            code, took, measured, failed = job.result()
            print(f"| {kind} in {order} | {code} | {'never fired' if took is None else f'{took:.1f}'} | {measured} | {failed} |", flush=True)


if __name__ == "__main__":
    main()
