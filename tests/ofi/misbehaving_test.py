"""Workers that misbehave: flipped, cut, repeated, late and missing bytes between a supervisor and its worker, workers and
supervisors that are killed or stopped, at each order. Each run ends in its time and with its code, names the rank, and
takes no figure of a worker that is known to be broken. One case is a seed: python3 misbehaving_test.py SEED..."""

import json
import os
import pathlib
import random
import re
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import BUILD, FEW_SAMPLES, Folder, NIGHTLY, main, read_report, tonight  # noqa: E402
from misbehaving_worker import KINDS  # noqa: E402

FAKES = BUILD / "tests" / "fakes"
TIMEOUT_S = 5
# Starting, joining and looking for who does not join have 10 s each at least, whatever --timeout says (bench/measure);
# a supervisor that is stopped between steps is missed after 40 s. Besides, ranks give up and leave.
LONGEST_S = {"joining": 75, "measuring": 45, "stop_supervisor": 75}
JOINING = ("identify", "unique_id", "join")
MEASURING = ("open", "warm_up", "sample", "verify", "selection", "close")
HARMLESS = ("delay", "pieces")
# A figure that is another figure then is one that a worker may send.
MAY_PASS = ("flip", "figures")
NOT_JUDGED = 14


def plan_of(seed):
    """Kinds, orders, ways and ranks in turn, so that few seeds have many of each."""
    its = random.Random(f"misbehaviour {seed}")
    kind = KINDS[seed % len(KINDS)]
    order = its.choice(JOINING if seed // len(KINDS) % 2 == 0 else MEASURING)
    way = "down" if kind in ("flip", "drop", "half", "repeat", "delay", "pieces") and its.random() < 0.3 else "up"
    return {"seed": seed, "kind": kind, "order": order, "nth": its.choice([0, 0, 1, 3]) if order in MEASURING else 0,
            "way": way, "rank": its.choice([0, 1]), "once": its.random() < 0.4}


class Misbehaving(Folder):
    """The real worker for libfabric, two ranks."""

    WORKER = "p5bench-worker-ofi"
    SEEDS = range(100)
    BY_DAY = (2, 11, 12, 15, 21, 22, 28, 41)
    ARGUMENTS = ("--backend", "ofi", "--collectives", "p2p", "--sizes", "8,64KiB")
    VARIABLES = {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo", **FEW_SAMPLES}
    SOUND = 0

    def setUp(self):
        super().setUp()
        if not (BUILD / self.WORKER).exists():
            self.skipTest(f"{self.WORKER} was not built")
        self.programs = self.folder / "programs"
        self.programs.mkdir()
        for each in ("p5bench", "p5bench-probe-libfabric", "p5bench-probe-nvml"):
            shutil.copy(BUILD / each, self.programs)
        source = pathlib.Path(__file__).with_name("misbehaving_worker.py").read_text()
        proxy = self.programs / self.WORKER
        proxy.write_text(f"#!{sys.executable}\n{source}")
        proxy.chmod(0o755)

    def run_with(self, plan):
        acted = self.folder / f"acted-{plan['seed']}"
        out = self.folder / f"out-{plan['seed']}"
        plan = {**plan, "real": str(BUILD / self.WORKER), "acted": str(acted)}
        place = "stop_supervisor" if plan["kind"] == "stop_supervisor" else "joining" if plan["order"] in JOINING else "measuring"
        began = time.monotonic()
        ended = self.run_it(*self.ARGUMENTS, "--budget", "20s", "--timeout", f"{TIMEOUT_S}s", "--quiet", "--out", out, ranks=2,
                            program=[self.programs / "p5bench"], variables={**self.VARIABLES, "P5BENCH_MISBEHAVIOUR": json.dumps(plan)},
                            patience=LONGEST_S[place])
        return ended.returncode, ended.stdout + ended.stderr, acted.exists(), out / "latest" / "report.json", time.monotonic() - began

    def check(self, seed):
        plan = plan_of(seed)
        code, text, acted, report, took = self.run_with(plan)
        told = f"{plan}: {code} after {took:.1f} s, {'acted' if acted else 'not acted'}: {text}"
        print(f"{seed} {plan['kind']} {plan['way']} {plan['order']} {plan['nth']} rank {plan['rank']}{' once' if plan['once'] else ''}: "
              f"{code}, {took:.1f} s{'' if acted else ', not acted'}", flush=True)
        if os.environ.get("P5BENCH_TOLD"):
            print("   ", text.replace("\n", "\n    "), flush=True)
        self.assertFalse([each for each in text if ord(each) < 32 and each not in "\n\t" or 127 <= ord(each) < 160], told)
        self.assert_none_left()
        found = read_report(report) if report.exists() else None
        if not acted or plan["kind"] in HARMLESS:
            self.assertEqual(code, self.SOUND, told)
            return
        self.assertNotIn("ACCEPT", text, told)
        passed = plan["once"] and plan["order"] in JOINING or plan["order"] == "close"
        allowed = {11, 12, 13} | ({self.SOUND} if passed or plan["kind"] in MAY_PASS else set())
        self.assertIn(code, allowed, told)
        if code == self.SOUND:
            return
        words = text + (json.dumps([found["run"], found["findings"], [m["because"] for m in found["measurements"]]]) if found else "")
        if plan["kind"] not in MAY_PASS:
            self.assertIn(f"rank {plan['rank']}", words, told)
        if found:
            self.assertEqual(found["exit_code"] if found["status"] == "complete" else 12, code, told)
            blamed = {rank for m in found["measurements"] for rank in re.findall(r"^rank (\d+)", m["because"])}
            self.assertLessEqual(blamed, {str(plan["rank"])}, told)

    def test_a_worker_that_misbehaves_costs_no_more_than_its_time_and_is_named(self):
        for seed in tonight(self.SEEDS) if NIGHTLY else self.BY_DAY:
            with self.subTest(seed=seed):
                self.check(seed)


class MisbehavingNccl(Misbehaving):
    """The same of the real worker for NCCL on the fakes."""

    WORKER = "p5bench-worker-nccl"
    SEEDS = range(200, 230)
    BY_DAY = (200, 209)
    ARGUMENTS = ("--backend", "nccl", "--tuning=off", "--collectives", "all_reduce,p2p", "--sizes", "64,64KiB")
    VARIABLES = {"LD_LIBRARY_PATH": str(FAKES), "P5BENCH_FAKE_GPUS": "2", **FEW_SAMPLES}
    SOUND = NOT_JUDGED


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        seeds = [int(each) for each in sys.argv[1:]]
        Misbehaving.BY_DAY = [each for each in seeds if each < 200]
        MisbehavingNccl.BY_DAY = [each for each in seeds if each >= 200]
        sys.argv = sys.argv[:1]
    main()
