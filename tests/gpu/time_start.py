"""From mpirun to the first worker, to the first measured case and to the end, on the GPUs of this host:
python3 time_start.py [REPETITIONS [ARGUMENTS-OF-P5BENCH...]]. Without arguments the default run without tuning.
The first case stands in the journal when it is verified, so its first sample was taken before. Prints a table; judges nothing."""

import sys
import tempfile
import time

import workers_test as workers


def measure(arguments):
    with tempfile.TemporaryDirectory(prefix="p5bench-start-") as folder:
        began = time.monotonic()
        job = workers.Job(folder, *arguments)
        at = []
        for condition in (lambda: workers.workers_of(job.marker), job.finished_cases):
            job.until(condition, 60)
            at.append(time.monotonic() - began)
        code, output = job.end(200)
        return code, at + [time.monotonic() - began], output


def main():
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    print("| exit | first worker, s | first case, s | end, s |\n|---|---|---|---|")
    for _ in range(repetitions):
        code, at, output = measure(sys.argv[2:])
        print(f"| {code} | {' | '.join(f'{s:.2f}' for s in at)} |", flush=True)
        if code not in (0, 10, 14):
            print(output)


if __name__ == "__main__":
    main()
