"""scripts/first-morning, with programs that stand in for mpirun and p5bench: each step is kept, one that fails keeps no
other from running, and no name, address or id of the hosts is in the archive."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, SOURCE, main  # noqa: E402

SCRIPT = SOURCE / "scripts/first-morning"
SECRETS = {
    "instance": "i-0abc1234def567890", "account": "123456789012", "address": "10.1.2.34", "MAC": "0a:1b:2c:3d:4e:5f",
    "registry": "210987654321.dkr.ecr",
    "name": "ip-10-1-2-34.us-west-2.compute.internal", "resource": "sg-0123456789abcdef0", "key": "AKIAABCDEFGHIJKLMNOP",
    "GPU": "GPU-01234567-89ab-cdef-0123-456789abcdef", "GID": "fe80::8c1:2fff:fe34:5678", "host": "worker-17"}
MPIRUN = """#!/bin/bash
# Runs what follows its options once.
while [ $# -gt 0 ]; do
  case $1 in
    --host | --map-by | --bind-to | -x) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
exec "$@"
"""
P5BENCH = """#!/bin/bash
out="" record=""
for argument in "$@"; do
  [ "$before" != --out ] || out=$argument
  [ "$before" != --record ] || record=$argument
  before=$argument
done
echo "on worker-17 with $*: SECRETS"
echo "/sys/class/infiniband/rdmap0/ports/1/hw_counters/rx_bytes 345678901234"
[ -z "$record" ] || echo '{"host": "worker-17", "ids": "SECRETS", "memory_bytes": 150754820096, "sizes": [192265846784, 8]}' > "$record"
[ -z "$out" ] || {
  mkdir -p "$out/worker-17"; ln -s worker-17 "$out/latest"
  echo '{"text": "first\\nSECRETS\\tSECRETS", "rx_bytes":345678901234}' > "$out/worker-17/report.json"
  printf '%s\\n' '{"id":"123456789012","bytes":[345678901234]}' '{"id":"1234' > "$out/worker-17/measurements.jsonl"
  echo '<script>data = {"id":"123456789012","bytes": 345678901234};</script>' > "$out/worker-17/report.html"
}
case "$*" in *"--backend nccl"*) exit 12 ;; esac
"""


class FirstMorning(Folder):
    def program(self, name, text):
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("SECRETS", " ".join(SECRETS.values())))
        path.chmod(0o755)
        return path

    def start(self, *arguments):
        environment = self.environment()
        environment["PATH"] = f"{self.folder / 'bin'}:{environment['PATH']}"
        return subprocess.run([SCRIPT, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True, timeout=120)

    def test_all_steps_are_in_the_archive_and_nothing_that_names_the_hosts(self):
        self.program("mpirun", MPIRUN)
        done = self.start("--hosts", "worker-17,worker-18", "--program", self.program("p5bench", P5BENCH), "--ranks", "1,8")
        self.assertEqual(done.returncode, 0, done.stderr)
        with tarfile.open(self.folder / "first-morning.tar.gz") as archive:
            files = {member.name: archive.extractfile(member).read().decode() for member in archive if member.isfile()}
            self.assertFalse([member.name for member in archive if member.issym()])
        steps = files["first-morning/steps.txt"]
        for name, code in (("libfabric-1", 0), ("libfabric-8", 0), ("nccl", 12), ("nccl.counters-after", 0), ("topology", 0)):
            self.assertRegex(steps, rf"(?m)^{re.escape(name)}: exit code {code} after")
        self.assertIn("--backend ofi", files["first-morning/libfabric-8.txt"])
        self.assertIn("first-morning/runs/nccl/host1/report.json", files)
        self.assertIn('"host": "host1"', files["first-morning/topology.json"])
        for name, text in files.items():
            for kind, secret in SECRETS.items():
                self.assertNotIn(secret, name + text, f"{kind} in {name}")
            if name.endswith(".json"):
                json.loads(text)
        # Counters and sizes of 12 digits are no accounts.
        topology = json.loads(files["first-morning/topology.json"])
        self.assertEqual((topology["memory_bytes"], topology["sizes"]), (150754820096, [192265846784, 8]))
        self.assertIn("/rx_bytes 345678901234\n", files["first-morning/nccl.txt"])
        for name in ("report.json", "report.html", "measurements.jsonl"):
            self.assertIn("345678901234", files[f"first-morning/runs/nccl/host1/{name}"])
        # The same id is the same everywhere, so that files can still be joined.
        ids = [re.search(r"i-0{10,}\d+", text)[0] for name, text in files.items() if name.endswith("report.json")]
        self.assertEqual(len(set(ids)), 1)

    def test_the_names_that_hosts_have_of_themselves_are_in_no_file(self):
        self.program("mpirun", MPIRUN.replace("--host |", "--host) export FIRST=${2%%,*}; shift 2 ;;\n    --map-by |").replace("| --map-by", ""))
        names = 'case $FIRST in 10.0.1.5) echo Acme-train-01 ;; *) echo acme-train-02DOMAIN ;; esac\n'
        self.program("uname", "#!/bin/bash\n" + names.replace("DOMAIN", ""))
        self.program("hostname", "#!/bin/bash\necho 'Warning: added' >&2\n" + names.replace("DOMAIN", ".corp.example"))
        p5bench = P5BENCH.replace("worker-17 with", "acme-train-02.corp.example:17 [0] with").replace("worker-17", "acme-train-01")
        topology = {"topology": {"hosts": [{"host_name": "acme-train-01", "name": "acme-train-01"}, {"host_name": "other-03", "name": "other-03"}]}}
        p5bench = p5bench.replace('{"host":', json.dumps(topology)[:-1] + ', "host":')
        done = self.start("--hosts", "10.0.1.5,10.0.1.6", "--program", self.program("p5bench", p5bench), "--ranks", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        with tarfile.open(self.folder / "first-morning.tar.gz") as archive:
            files = {member.name: archive.extractfile(member).read().decode() for member in archive if member.isfile()}
        for name, text in files.items():
            for secret in ("acme", "corp.example", "other-03", "10.0.1."):
                self.assertNotIn(secret, (name + text).lower(), name)
        self.assertIn("on host2:17 [0] with", files["first-morning/nccl.txt"])
        self.assertIn("first-morning/runs/nccl/host1/report.json", files)
        self.assertEqual(json.loads(files["first-morning/topology.json"])["topology"]["hosts"],
                         [{"host_name": "host1", "name": "host1"}, {"host_name": "host3", "name": "host3"}])

    def test_a_signal_ends_the_step_that_runs_and_keeps_those_before_it(self):
        self.program("mpirun", MPIRUN.replace("exec", "case $* in *fi_info*) echo \"began, of $$\"; exec sleep 300 ;; esac\nexec"))
        environment = self.environment()
        environment["PATH"] = f"{self.folder / 'bin'}:{environment['PATH']}"
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            script = subprocess.Popen([SCRIPT, "--hosts", "worker-17,worker-18", "--program", self.program("p5bench", P5BENCH)],
                                      cwd=self.folder, env=environment | {"TMPDIR": str(self.folder)}, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, start_new_session=True)
            self.addCleanup(script.kill)
            began, late = None, time.monotonic() + 60
            while not began and time.monotonic() < late:
                time.sleep(0.02)
                texts = [file.read_text() for file in self.folder.glob("tmp.*/first-morning/libfabric.txt")]
                began = re.search(r"began, of (\d+)\n", "".join(texts))
            step = int(began[1])
            script.send_signal(signal_number)  # to the script alone; a terminal's Ctrl-C does not reach steps either
            _, stderr = script.communicate(timeout=60)
            self.assertEqual((script.returncode, stderr), (128 + signal_number, "first-morning: ends early; packing what was measured\n"))
            with tarfile.open(self.folder / "first-morning.tar.gz") as archive:
                steps = archive.extractfile("first-morning/steps.txt").read().decode()
            self.assertEqual(re.findall(r"(?m)^(.*): exit code (\d+)", steps), [("names-1", "0"), ("names-2", "0"), ("devices", "0"), ("libfabric", "143")])
            self.assertRaises(ProcessLookupError, os.kill, step, 0)
            self.assertEqual(list(self.folder.glob("tmp.*")), [])

    def test_a_first_host_that_has_no_folder_of_this_one_is_refused_before_anything_runs(self):
        self.program("mpirun", MPIRUN.replace('exec "$@"', 'echo "$*" >> "$0.called"\n[ "$1 $2" != "test -d" ] || exec test -d "/nowhere$3"\nexec "$@"'))
        done = self.start("--hosts", "worker-17,worker-18", "--program", self.program("p5bench", P5BENCH), "--ranks", "1")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, "start this on worker-17, or set TMPDIR to a folder of both\n")
        self.assertEqual(len((self.folder / "bin/mpirun.called").read_text().splitlines()), 1)
        self.assertFalse((self.folder / "first-morning.tar.gz").exists())

    def test_what_is_missing_is_said(self):
        program = self.program("p5bench", P5BENCH)
        for arguments, words in (((), "--hosts"), (("--hosts",), "--hosts"), (("--hosts", "a,b", "--ranks", "x"), "'x'"),
                                 (("--hosts", "a,b", "--program", "/nowhere"), "--program"), (("--hots", "a"), "'--hots'")):
            done = self.start(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(words, done.stderr)
        self.program("mpirun", MPIRUN)
        done = self.start("--hosts", "a,b", "--program", program, "--ranks", "1", "--out", "/nowhere/x.tar.gz")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere/x.tar.gz", done.stderr)


if __name__ == "__main__":
    main()
