"""clang-tidy over production code, with the list of .clang-tidy: it says nothing. P5BENCH_TIDY_ONLY: a part of the paths
of those to look at."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from program import BUILD, SOURCE, main  # noqa: E402

TIDY = shutil.which("clang-tidy-19")
COMPONENTS = ("bench", "topo", "tuner", "reports")
ONLY = os.environ.get("P5BENCH_TIDY_ONLY", "")


class Tidy(unittest.TestCase):
    @unittest.skipUnless(TIDY, "needs clang-tidy-19")
    def test_nothing_is_found_in_production_code(self):
        commands = [each for each in json.loads((BUILD / "compile_commands.json").read_text())
                    if each["file"].endswith(".cpp") and each["file"].startswith(tuple(f"{SOURCE / component}/" for component in COMPONENTS))]
        if not commands:
            self.skipTest("sources of a component are compiled together here")
        with tempfile.TemporaryDirectory() as folder:
            # Without what only the compiler of the build knows.
            for each in commands:
                each["command"] = each["command"].replace("-Wno-maybe-uninitialized", "").replace("-Wno-restrict", "")
            (pathlib.Path(folder) / "compile_commands.json").write_text(json.dumps(commands))
            files = sorted({each["file"] for each in commands if ONLY in each["file"]})

            def look_at(file):
                return subprocess.run([TIDY, "-p", folder, "--quiet", file], text=True, cwd=SOURCE, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=1200)
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
                found = [done.stdout for done in workers.map(look_at, files) if done.returncode != 0]
        self.assertFalse(found, "\n".join(found))
        print(f"{len(files)} sources")


if __name__ == "__main__":
    main()
