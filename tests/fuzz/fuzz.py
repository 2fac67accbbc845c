"""Builds the fuzz targets with clang's sanitizers and lets libFuzzer look for inputs that break them,
P5BENCH_FUZZ_SECONDS (100) each. What it finds lies in build/fuzz/found; it belongs into the corpus once it is mended."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("P5BENCH_SOURCE") or pathlib.Path(__file__).resolve().parents[2])
BUILD = SOURCE / "build" / "fuzz"
CORPUS = SOURCE / "tests" / "fuzz" / "corpus"
SECONDS = int(os.environ.get("P5BENCH_FUZZ_SECONDS", "100"))
# An input takes milliseconds and some MB; what takes a hundred times as much is a finding.
LIMITS = ["-timeout=20", "-rss_limit_mb=3000", "-max_len=200000", "-print_final_stats=0", "-verbosity=0"]


def compiler():
    return shutil.which("clang++-19")


def build(targets):
    flags = {"CMAKE_CXX_COMPILER": compiler(), "P5BENCH_FUZZ": "ON", "P5BENCH_GPU_TESTS": "OFF", "CMAKE_UNITY_BUILD": "ON",
             "CMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit": "ON", "CMAKE_BUILD_TYPE": "RelWithDebInfo",
             "CMAKE_CXX_FLAGS_RELWITHDEBINFO": "-O1 -gline-tables-only"}
    subprocess.run(["cmake", "-S", SOURCE, "-B", BUILD, "-G", "Ninja", *(f"-D{name}={value}" for name, value in flags.items())],
                   check=True)
    subprocess.run(["cmake", "--build", BUILD, "--target", *(f"fuzz_{name}" for name in targets)], check=True)


class Fuzz(unittest.TestCase):
    def test_nothing_breaks_a_target(self):
        if not compiler():
            self.skipTest("needs clang++-19 and its runtime (libclang-rt-19-dev)")
        targets = sorted(path.name for path in CORPUS.iterdir())
        targets = [name for name in targets if name in os.environ.get("P5BENCH_FUZZ_ONLY", " ".join(targets)).split()]
        build(targets)
        found = BUILD / "found"
        found.mkdir(exist_ok=True)
        for name in targets:
            with self.subTest(target=name), tempfile.TemporaryDirectory() as grown:
                command = [BUILD / "tests" / "fuzz" / f"fuzz_{name}", *LIMITS, f"-max_total_time={SECONDS}",
                           f"-artifact_prefix={found}/{name}-", grown, CORPUS / name]
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                      env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0",
                                           "UBSAN_OPTIONS": "print_stacktrace=1"})
                self.assertEqual(done.returncode, 0, done.stdout[-6000:])


if __name__ == "__main__":
    unittest.main(verbosity=2)
