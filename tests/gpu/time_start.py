"""Time from mpirun to p5bench, to its workers, to the first sample and to the end, on the GPUs of this host: python3
time_start.py [REPETITIONS [ARGUMENTS-OF-P5BENCH...]]. Without arguments the default run without tuning. Seconds since
mpirun was started; the first sample is when rank 0's worker begins with it. Prints a table; judges nothing."""

import pathlib
import sys
import tempfile
import threading
import time

import workers_test as workers


PROGRAMS = ["p5bench", "p5bench-worker-"]  # the kernel's limit for names


def running(marker):
    """Names of the processes whose environment holds the marker."""
    names = set()
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "comm").read_text().strip()
            if name in PROGRAMS and name not in names and marker.encode() in (folder / "environ").read_bytes():
                names.add(name)
        except OSError:
            continue
    return names


def watch(job, seen):
    while job.process.poll() is None and len(seen) < len(PROGRAMS):
        for name in running(job.marker):
            seen.setdefault(name, time.time())
        time.sleep(0.005)


def measure(arguments):
    with tempfile.TemporaryDirectory(prefix="p5bench-start-") as folder:
        notes = pathlib.Path(tempfile.mkdtemp(dir=folder))
        began = time.time()
        job = workers.Job(folder, *arguments, preload=workers.BUILD / "tests" / "gpu" / "misbehave.so",
                          P5BENCH_MISBEHAVE="note@0:sample#1", P5BENCH_MISBEHAVE_NOTES=str(notes))
        seen = {}
        watcher = threading.Thread(target=watch, args=(job, seen))
        watcher.start()
        code, output = job.end(200)
        ended = time.time()
        watcher.join()
        at = [seen.get(name) for name in PROGRAMS]
        at.append((notes / "0").stat().st_mtime if (notes / "0").exists() else None)
        return code, [None if t is None else t - began for t in [*at, ended]], output


def main():
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print("| exit | p5bench | first worker | first sample | end |\n|---|---|---|---|---|")
    for _ in range(repetitions):
        code, at, output = measure(sys.argv[2:])
        print(f"| {code} | {' | '.join('?' if t is None else f'{t:.2f}' for t in at)} |", flush=True)
        if code not in (0, 10, 14):
            print(output)


if __name__ == "__main__":
    main()
