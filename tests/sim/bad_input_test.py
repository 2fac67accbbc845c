"""Mistakes of users: one message that names the culprit and, for names, the nearest valid one; exit code 2; and no file
made, however the program was started."""

import copy
import json
import os
import pathlib
import stat
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, PROGRAM, SOURCE, main, read_report  # noqa: E402

SIM = ["--backend", "sim", "--platform", "p5.48xlarge"]
NOT_SIZES = ["8KBx", "-1", "nan", "1e30", "0", "", "9223372036854775808", "1.5", "8 B", "99999999T"]
NOT_TIMES = ["-1", "nan", "inf", "1e30", "0", "", "10parsecs", "1..5s", "9999999999h"]
NOT_COUNTS = ["-1", "nan", "1e30", "", "2.5", "9223372036854775808", "x"]

# Arguments, and a text that the message has to contain.
UNKNOWN_NAMES = [
    (["--collectives", "allreduce"], ["'allreduce'", "'all_reduce'"]),
    (["--collectives", "p2p,,all_reduce"], ["'p2p,,all_reduce'", "empty"]),
    (["--collectives", ""], ["empty"]),
    ([*SIM, "--collectives", "all_to_allv", "--traffic", "zpif:1.1"], ["'zpif:1.1'", "zipf:A"]),
    (["--type", "flaot32"], ["'flaot32'", "'float32'"]),
    (["--op", "summ"], ["'summ'", "'sum'"]),
    (["--backend", "simm"], ["'simm'", "'sim'"]),
    (["--backend", ""], ["''", "backend"]),
    (["--backend", "sim", "--platform", "p5.48xlrge"], ["'p5.48xlrge'", "'p5.48xlarge'"]),
    (["--format", "jsn"], ["'jsn'", "'json'"]),
    (["list", "platfroms"], ["'platfroms'", "'platforms'"]),
    (["--bugdet", "1s"], ["'--bugdet'", "'--budget'"]),
    (["run", "--bugdet", "1s"], ["'--bugdet'", "'--budget'"]),
    (["rnu"], ["'rnu'", "'run'"]),
    (["--colectives=p2p"], ["--colectives", "'--collectives'"]),
    ([*SIM, "--group", "nod"], ["'nod'", "'node'"]),
    ([*SIM, "--group", "nod", "--collectives", "p2p"], ["'nod'", "'node'"]),
    ([*SIM, "--fault", "nics:n0r0:0.5"], ["'nics'", "'nic'"]),
    (["--backend", "sim", "--platform", "p5.48xl"], ["'p5.48xl'", "mean 'p5.48xlarge'"]),
    (["--backend", "sim", "--platform", "P5.48XLARGE"], ["mean 'p5.48xlarge'"]),
    (["--type", "fp32"], ["mean 'float32'"]),
    (["--type", "all,int8"], ["'all' cannot be combined with names"]),
    (["--op", "ALL"], ["'all' cannot be combined with names, and is written in lower case"]),
    ([*SIM, "--max", "8Ki"], ["mean '8KiB'? Write"]),
    (["help"], ["command 'help'; did you mean '--help'?"]),
    (["--=x"], ["option '--'. Known"]),
    (["--type", "half"], ["mean 'float16'"]),
    (["--op", "mean"], ["mean 'avg'"]),
    (["--collectives", "all"], ["mean 'all_reduce'"]),
    ([*SIM, "--max", "8KIB"], ["'8KIB'", "mean '8KiB'"]),
    ([*SIM, "--max", "8gb"], ["mean '8GB'"]),
    ([*SIM, "--budget", "10m"], ["mean '10min'"]),
    ([*SIM, "--budget", "2hours"], ["mean '2h'"]),
    (["compare", "a", "b", "--new-ram", "x"], ["'--new-ram'", "mean '--new-arm'"]),
    ([*SIM, "--fault", "nic:n0r0:0.5:lie"], ["'lie'", "'lies'"]),
]

# An unset variable leaves this of --out=$OUT; the next word is another option.
EMPTY = [(["--cluster=", "--collectives", "all_reduce"], ["--cluster"]), (["--out="], ["--out"]),
         (["--out=", "somewhere"], ["--out"]), (["--backend="], ["--backend"]), (["--fault="], ["--fault"]),
         (["--baseline="], ["--baseline"]), (["--platform=", "p5.48xlarge"], ["--platform"]), (["--weights="], ["--weights"]), (["--traffic="], ["--traffic"]),
         (["compare", "--history="], ["--history"]), (["compare", "a", "b", "--base-arm="], ["--base-arm"]),
         (["compare", "--base=", "a", "--new", "b"], ["--base"]), (["compare", "", "b"], ["REPORTS"]),
         (["baseline", ""], ["REPORTS"]), (["import", "nccl-tests", ""], ["FILES"]), (["topo", "--load="], ["--load"]),
         (["topo", "--record="], ["--record"]), (["topo", "--rankfile="], ["--rankfile"]), (["list", ""], ["WHAT"])]

# Options, and a command that does not have them.
IGNORED = [(["report", "x", "--fault", "nic:n0r0:0.5"], ["--fault", "report"]), (["compare", "a", "b", "--nodes", "2"], ["--nodes"]),
           (["baseline", "a", "--quiet"], ["--quiet", "baseline"]), (["--budget", "1s", "list", "backends"], ["--budget", "list"]),
           (["baseline", "a", "--format", "json"], ["--format", "baseline"]), (["topo", "--sizes", "8"], ["--sizes", "topo"]),
           (["import", "nccl-tests", "x", "--in-place"], ["--in-place", "import"]),
           (["plan", *SIM, "--baseline", "x"], ["--baseline", "plan"]), (["tune", "--baseline", "x"], ["--baseline", "tune"]),
           (["plan", *SIM, "--keep-table", "x"], ["--keep-table", "plan"]),
           (["ab", "--b", "A=1", "--weights", "x"], ["--weights", "ab"]), (["report", "x", "--resume"], ["--resume", "report"]),
           ([*SIM, "--tuning", "off", "--delivery", "env"], ["--delivery", "--tuning off tunes nothing"]),
           (["run", *SIM, "--tuning", "off", "--weights", "x"], ["--weights", "--tuning off tunes nothing"]),
           (["topo", "--out", "x"], ["--out", "topo"]), (["list", "backends", "--format", "json"], ["--format", "list"])]

NONSENSE = [
    (["--backend", "--sizes", "1M", "sim"], ["--backend has no value: '--sizes' stands where it should be"]),
    (["--sizes", "--platform", "p5.48xlarge"], ["--sizes has no value"]),
    (["compare", "a", "b", "--out", "x"], ["--out only in the formats of --format"]),
    (["report", "a", "--out", "x"], ["report writes files into --out only in the formats of --format"]),
    (["topo", *SIM, "--record", "x", "--rankfile", "./x"], ["--rankfile and --record name the same file, 'x'"]),
    ([*SIM, "--collectives", "all_to_allv", "--traffic", "expert:1000000000,8,8"], ["from 1 to 1048576"]),
    ([""], ["command ''. Known"]),
    (["b"], ["command 'b'. Known"]),
    (["run", "run"], ["unexpected argument 'run' after run"]),
    (["report", "a", "b"], ["unexpected argument 'b' after report"]),
    (["list", "backends", "formats"], ["unexpected argument 'formats' after list"]),
    (["--quiet=yes"], ["--quiet takes no value"]),
    (["--in-place="], ["--in-place takes no value"]),
    ([*SIM, "--max", "7"], ["--max 7 B is below the smallest message", "8 B"]),
    ([*SIM, "--sizes", "8", "--min", "8"], ["--sizes", "--min"]),
    ([*SIM, "--sizes", "8", "--max", "4GiB"], ["--sizes", "--max"]),
    ([*SIM, "--sizes", "8", "--factor", "2"], ["--sizes", "--factor"]),
    ([*SIM, "--soak", "1h", "--launches", "3"], ["--soak", "--launches"]),
    ([*SIM, "--sizes", "64GiB"], ["needs 128.0 GiB of buffers per rank", "GiB are free"]),
    (["plan", *SIM, "--sizes", "64GiB"], ["needs 128.0 GiB of buffers per rank"]),
    (["plan", *SIM, "--per-rank", "--sizes", "16GiB"], ["of buffers per rank"]),
    (["check", *SIM, "--format", "prometheus"], ["check writes prometheus into a folder only", "--out"]),
    (["check", *SIM, "--format", "html"], ["check writes html into a folder only"]),
    (["ab", *SIM, "--b", "P5BENCH_SIM_FAULT=gpu:n0g0:0.5", "--soak", "1h"], ["--soak", "ab"]),
    (["--backend", "mpi", "--soak", "1h"], ["--soak", "mpi"]),
    ([*SIM, "--nodes", "3", "--collectives", "all_gather,hypercube"], ["hypercube", "1, 2, 4, 8, ... ranks", "24"]),
    (["tune", "--collectives", "all_reduce,lsa_all_reduce"], ["lsa_all_reduce cannot be tuned", "no setting of NCCL reaches"]),
    (["--backend", "nccl", "--tuning", "quick", "--collectives", "lsa_all_to_all"], ["lsa_all_to_all cannot be tuned"]),
    (["--backend", "nccl", "--collectives", "lsa_all_reduce", "--register", "symmetric"], ["--register is for NCCL's own operations", "lsa_all_reduce"]),
    ([*SIM, "--collectives", "lsa_all_to_all", "--aggregate", "4"], ["lsa_all_to_all cannot be one group"]),
    ([*SIM, "--collectives", "lsa_all_to_all", "--in-place"], ["lsa_all_to_all has no in-place form"]),
    ([*SIM, "--beside", "lsa_all_reduce:1MiB"], ["lsa_all_reduce"]),
    ([*SIM, "--nodes", "2", "--collectives", "lsa_all_reduce"], ["nothing to measure", "within an NVLink domain only; --group node"]),
    ([*SIM, "--soak", "0s"], ["'0s'", "above zero"]),
    (["report", 50000 * "a"], ["46", "bytes left out"]),
    ([*SIM, "--resume", "--soak", "5s"], ["--resume", "--soak"]),
    ([*SIM, "--resume", "--seed", "3"], ["--resume", "--seed"]),
    ([*SIM, "--resume", "--out", "nowhere"], ["--resume", "'nowhere'", "--out"]),
    (["list"], ["list: WHAT", "`p5bench list --help`"]),
    (["report"], ["FILE"]),
    (["--budget"], ["--budget"]),
    (["run", "plan"], ["plan"]),
    (["--out", ""], ["--out"]),
    (["--cluster", "a/b"], ["'a/b'"]),
    *((["--cluster", name], ["--cluster", f"'{shown}'", "digits", "baselines or latest"]) for name, shown in (
        ("..", ".."), ("latest", "latest"), ("baselines", "baselines"), ("a b", "a b"), ("a\nb", "a\\x0ab"),
        ("\x1b[2Jb", "\\x1b[2Jb"), ("a\u202eb", "a\\xe2\\x80\\xaeb"))),
    ([*SIM, "--group", "stride:0"], ["stride:0"]),
    ([*SIM, "--group", "stride:9"], ["stride:9"]),
    ([*SIM, "--group", "stride:"], ["stride:"]),
    ([*SIM, "--group", ""], ["''", "group"]),
    ([*SIM, "--min", "1MiB", "--max", "64KiB"], ["--min", "--max"]),
    ([*SIM, "--min", "8GiB"], ["--min", "4 GiB"]),
    ([*SIM, "--root", "8"], ["--root 8"]),
    ([*SIM, "--collectives", "p2p", "--op", "max"], ["--op", "p2p"]),
    ([*SIM, "--collectives", "dispatch", "--group", "stride:3"], ["--collectives dispatch", "groups of one size"]),
    ([*SIM, "--cta-policy", "zero"], ["--cta-policy is for the nccl backend", "sim has no CTA policies"]),
    (["--backend", "nccl", "--cta-policy", "none"], ["'none'", "efficiency"]),
    (["tune", "--backend", "nccl", "--cta-policy", "zero"], ["--cta-policy zero", "tuner"]),
    (["tune", "--backend", "nccl", "--alone-loss", "3%"], ["--alone-loss", "give --beside WORK"]),
    (["tune", "--backend", "nccl", "--beside", "d2h", "--alone-loss", "much"], ["--alone-loss: 'much' is not a percentage", "2%"]),
    (["tune", "--backend", "nccl", "--beside", "d2h", "--alone-loss", "-1"], ["'-1' is not a percentage"]),
    (["tune", "--backend", "nccl", "--beside", "d2h", "--cuda-graph"], ["--cuda-graph"]),
    (["tune", *SIM, "--beside", "d2h"], ["tuning", "--backend sim"]),
    ([*SIM, "--beside", "d2h", "--alone-loss", "3%"], ["--alone-loss has no meaning for run; it is for tune"]),
    (["--backend", "nccl", "--beside", "d2h", "--tuning", "quick"], ["--beside d2h: a run that measures beside other work tunes nothing", "p5bench tune --beside"]),
    (["tune", "--backend", "nccl", "--cuda-graph"], ["--cuda-graph: tune searches", "ab --b"]),
    (["tune", "--backend", "nccl", "--register", "local"], ["--register: tune searches"]),
    (["tune", "--backend", "nccl", "--type", "float16"], ["--type: tune searches"]),
    (["tune", "--backend", "nccl", "--per-rank"], ["--per-rank: tune searches"]),
    ([*SIM, "--collectives", "dispatch", "--traffic", "zipf:1.1"],
     ["'zipf:1.1'", "dispatch", "expert:TOKENS,EXPERTS,TOP_K"]),
    ([*SIM, "--collectives", "combine", "--traffic", "expert:4,9,2"], ["--traffic", "a multiple of 8"]),
    ([*SIM, "--collectives", "all_reduce", "--hidden", "7168"], ["--hidden", "all_reduce", "tokens"]),
    ([*SIM, "--collectives", "dispatch", "--hidden", "7168", "--sizes", "8"], ["--hidden", "leave one out"]),
    ([*SIM, "--collectives", "dispatch", "--hidden", "0"], ["--hidden", "'0'"]),
    ([*SIM, "--traffic", "ragged"], ["--traffic", "--collectives all_to_allv"]),
    ([*SIM, "--collectives", "all_to_allv", "--traffic", "zipf:nan"], ["--traffic", "'nan'", "zipf:A"]),
    ([*SIM, "--collectives", "all_to_allv", "--traffic", "k-hot:9"], ["--traffic", "k-hot:9", "a group has 8"]),
    ([*SIM, "--collectives", "all_to_allv", "--traffic", "expert:4,9,2"], ["--traffic", "a multiple of 8"]),
    ([*SIM, "--collectives", "all_to_allv", "--traffic", "ragged", "--nodes", "256"], ["--traffic", "at most 1024 ranks", "--group"]),
    ([*SIM, "--collectives", "p2p", "--in-place"], ["--in-place", "p2p"]),
    ([*SIM, "--sizes", "9223372036854775807"], ["9223372036854775807 B"]),
    ([*SIM, "--per-rank", "--sizes", "16384T"], ["16384 TiB a rank for 8 ranks"]),
    ([*SIM, "--sizes", "8", "--max", "64"], ["--sizes", "--max"]),
    ([*SIM, "--sizes", "8", "--factor", "4"], ["--sizes", "--factor"]),
    (["--fault", "nic:n0r0:0.5"], ["--fault", "--backend sim"]),
    (["--nodes", "2"], ["--nodes", "--backend sim"]),
    (["--backend", "mpi", "--memory", "gpu"], ["--memory gpu", "mpi", "--backend ofi"]),
    ([*SIM, "--memory", "host"], ["--memory host", "sim", "--backend ofi"]),
    (["--backend", "sim"], ["--platform"]),
    ([*SIM, "--nodes", "0"], ["'0'"]),
    ([*SIM, "--nodes", "65537"], ["'65537'"]),
    (["ab"], ["--b"]),
    (["ab", "--a", "X=1"], ["--b"]),
    (["ab", "--b", "NCCL_PROTO"], ["--b", "'NCCL_PROTO'", "KEY=VALUE"]),
    (["ab", "--b", "A=1,A=2"], ["--b", "A twice"]),
    (["ab", "--b", "A=1", "--b", "A=2", *SIM], ["--b", "it sets A twice"]),
    (["ab", "--b", "A=1", "--backend", "mpi"], ["ab", "--backend mpi"]),
    (["ab", "--b", "A=1", *SIM], ["A", "P5BENCH_SIM_FAULT"]),
    (["ab", "--b", "P5BENCH_SIM_FAULT=gpu:n0g8:0.5", *SIM], ["P5BENCH_SIM_FAULT", "GPU 8"]),
    (["ab", "--b", "", *SIM], ["both arms get the same variables, so", "--b KEY=VALUE"]),
    (["ab", "--a", "", "--b=", *SIM], ["both arms get the same variables, so"]),
    (["ab", "--b", "P5BENCH_SIM_FAULT=", *SIM], ["both arms get the same variables, so"]),
    (["ab", "--a", "NCCL_MNNVL_ENABLE=0,P5BENCH_SIM_FAULT=", "--b", "NCCL_MNNVL_ENABLE=0", *SIM], ["both arms get the same variables, so"]),
    (["ab", "--b", "P5BENCH_SIM_FAULT=", "--tuning=off", *SIM], ["ab", "--tuning"]),
    (["ab", "--a", "NCCL_MNNVL_ENABLE=0", "--b", "NCCL_MNNVL_ENABLE=0", *SIM], ["both arms get the same variables, so"]),
    (["run", "--a", "A=1"], ["--a"]),
    (["tune", "--launches", "3"], ["--launches"]),
    (["tune", *SIM], ["tuning", "--backend sim"]),
    (["run", "--tuning=full", "--backend", "mpi"], ["tuning", "--backend mpi"]),
    (["--launches", "3", "--backend", "mpi"], ["--launches 3", "mpi", "compare"]),
    ([*SIM, "--launches", "0"], ["--launches", "'0'"]),
    ([*SIM, "--launches", "1001"], ["--launches", "'1001'"]),
    ([*SIM, "--fault", ""], ["--fault"]),
    ([*SIM, "--fault", "nic"], ["nic"]),
    ([*SIM, "--fault", "nic:n0r0:0.5:0%"], ["'0%'", "too rare"]),
    ([*SIM, "--fault", "nic:n0r0:0.5:1e-300%"], ["'1e-300%'", "too rare"]),
    ([*SIM, "--fault", "nic:n1r0:0.5"], ["node 1"]),
    ([*SIM, "--fault", "nic:n0r32:0.5"], ["NIC 32"]),
    ([*SIM, "--fault", "gpu:n0g8:0.5"], ["GPU 8"]),
    ([*SIM, "--fault", "gpu:n0r1:0.5"], ["'r1'"]),
    ([*SIM, "--fault", "gpu:n-1g1:0.5"], ["'-1g1'"]),
    ([*SIM, "--fault", "node:n0x:0.5"], ["'x'"]),
    ([*SIM, "--nodes", "2", "--fault", "link:n0-n0:0.5"], ["n0-n0"]),
    ([*SIM, "--nodes", "2", "--fault", "link:n0-n2:0.5"], ["node 2"]),
    ([*SIM, "--fault", "gpu:n0g0:1.1"], ["'1.1'"]),
    ([*SIM, "--fault", "gpu:n0g0:-0.1"], ["'-0.1'"]),
    ([*SIM, "--fault", "gpu:n0g0:nan"], ["'nan'"]),
    ([*SIM, "--fault", "gpu:n0g0:"], ["''"]),
    ([*SIM, "--fault", "gpu:n0g0:0.5:200%"], ["'200%'"]),
    ([*SIM, "--fault", "gpu:n0g0:0.5:%"], ["''"]),
    ([*SIM, "--fault", "gpu:n0g0:0.5:always:more"], ["3 or 4 parts", "has 5"]),
]


def given(option, text):
    """A text that could be an option follows an equals sign; a text that could not is a separate word."""
    return [option, text] if text == "" else [f"{option}={text}"]


class BadInput(Folder):
    def assert_refused(self, arguments, words, ranks=None):
        before = self.listing()
        with self.subTest(arguments=arguments):
            done = self.run_it(*arguments, ranks=ranks)
            self.assertEqual(done.returncode, 2, done.stderr)
            ours = [line for line in done.stderr.splitlines() if line.startswith("p5bench:")]
            self.assertEqual(len(ours), 1, done.stderr)
            if not ranks:
                self.assertEqual(done.stderr.splitlines(), ours)
            for word in words:
                self.assertIn(word, ours[0])
            if not ranks:  # mpirun prints its own message too
                self.assertEqual(done.stdout, "")
            self.assertEqual(self.listing(), before, "something was made")

    def test_sizes_are_refused(self):
        for text in NOT_SIZES:
            for option in ("--min", "--max", "--sizes"):
                self.assert_refused([*SIM, *given(option, text)], [option, f"'{text}'"])
        self.assert_refused([*SIM, "--sizes", "8,8KBx"], ["--sizes", "'8KBx'"])
        self.assert_refused([*SIM, "--sizes", "8,,16"], ["--sizes", "'8,,16'"])

    def test_times_are_refused(self):
        for text in NOT_TIMES:
            for option in ("--budget", "--timeout"):
                self.assert_refused([*SIM, *given(option, text)], [option, f"'{text}'"])

    def test_counts_are_refused(self):
        for text in NOT_COUNTS:
            for option in ("--factor", "--nodes", "--root"):
                self.assert_refused([*SIM, *given(option, text)], [option, f"'{text}'"])
        for text in ("-1", "nan", "", "2.5", "18446744073709551616"):
            self.assert_refused([*SIM, *given("--seed", text)], ["--seed", f"'{text}'"])
        self.assert_refused([*SIM, "--factor", "1"], ["--factor", "'1'"])

    def test_unknown_names_are_refused_with_the_nearest(self):
        for arguments, words in UNKNOWN_NAMES:
            self.assert_refused(arguments, words)

    def test_empty_values_are_refused(self):
        for arguments, words in EMPTY:
            self.assert_refused(arguments, [*words, "'' is empty"])

    def test_options_that_would_be_ignored_are_refused(self):
        for arguments, words in IGNORED:
            self.assert_refused(arguments, words)

    def test_the_help_of_a_command_has_no_option_that_it_refuses(self):
        values = {"--launches": "3", "--soak": "1h", "--tuning": "quick", "--delivery": "env", "--weights": "x", "--keep-table": "x", "--resume": None}
        needed = {"ab": ["--b", "P5BENCH_SIM_FAULT=gpu:n0g0:0.5"]}
        for command in ("run", "tune", "ab", "plan"):
            offered = self.run_it(command, "--help").stdout
            for option, value in values.items():
                done = self.run_it(command, *needed.get(command, []), option, *([value] if value else []), "--backend", "nccl",
                                   "--nodes", "2")
                refused = "--nodes 2 is for --backend sim" not in done.stderr  # what is found last
                self.assertEqual(f"  {option} " in offered or f"  {option}\n" in offered, not refused, f"{command} {option}: {done.stderr}")

    def test_the_help_has_every_mode_of_a_fault(self):
        refused = self.run_it(*SIM, "--fault", "nic:n0r0:0.5:none").stderr
        modes = refused.partition("Known: ")[2].partition(". ")[0].split(", ")
        self.assertGreater(len(modes), 10, refused)
        told = " ".join(self.run_it("run", "--help").stdout.split())
        self.assertEqual([mode for mode in modes if mode not in told.partition("MODE: ")[2]], [])

    def test_the_last_of_an_option_counts_so_that_scripts_have_defaults(self):
        done = self.run_it("plan", *SIM, "--nodes", "2", "--nodes=4")
        self.assertTrue(done.stdout.startswith("32 ranks on 4 nodes"), done.stderr)

    def test_a_folder_of_a_run_stands_for_its_report(self):
        report = SOURCE / "tests/fixtures/reports/simulated.json"
        for name in ("a", "b"):
            (self.folder / "runs" / name).mkdir(parents=True)
            (self.folder / "runs" / name / "report.json").write_bytes(report.read_bytes())
        for name in ("runs/a", "runs/a/report.json"):
            done = self.run_it("report", name)
            self.assertEqual((done.returncode, done.stdout), (0, self.run_it("report", report).stdout), done.stderr)
        self.assert_refused(["report", "runs"], ["'runs' holds 2 runs", "'runs/b'"])

    def test_nonsense_is_refused(self):
        for arguments, words in NONSENSE:
            self.assert_refused(arguments, words)

    def test_reports_that_are_none_are_refused(self):
        whole = (SOURCE / "tests/fixtures/reports/simulated.json").read_text()
        contents = {"empty": "", "text": "no JSON", "list": "[]", "object": "{}", "number": "7", "null": "null",
                    "other": '{"schema": "p5bench.report/999"}', "odd": '{"schema": 1}',
                    "bare": '{"schema": "p5bench.report/1"}', "truncated": whole[:len(whole) // 2],
                    "renamed": whole.replace('"all_gather"', '"all_gathers"'),
                    "types": whole.replace('"wall_s": ', '"wall_s": "x", "wall": '), "deep": "[" * 100000}
        for name, text in contents.items():
            (self.folder / name).write_text(text)
        for name in [*contents, "missing", "."]:
            self.assert_refused(["report", name], [f"'{name}'"])
        self.assert_refused(["report", ""], ["''"])

    def test_an_out_folder_that_cannot_be_written_is_refused_before_measuring(self):
        (self.folder / "file").write_text("in the way")
        (self.folder / "out").mkdir()
        (self.folder / "out" / "named").write_text("in the way")
        for out in ("file", "file/below", "/proc/p5bench", "/sys/p5bench", "/dev/null"):
            self.assert_refused([*SIM, "--out", out], ["--out", f"'{out}"])
        self.assert_refused([*SIM, "--out", "out", "--cluster", "named"], ["--out", "named"])
        self.assert_refused([*SIM, "--out", "/proc/\x1b[2J"], ["--out", "'/proc/\\x1b[2J"])
        self.assertEqual((self.folder / "file").read_text(), "in the way")

    def test_a_report_is_not_rendered_into_a_folder_that_cannot_be_written(self):
        report = str(SOURCE / "tests/fixtures/reports/simulated.json")
        self.assert_refused(["report", report, "--format", "html", "--out", "/proc/p5bench"], ["'/proc/p5bench'"])
        (self.folder / "given").mkdir(0o555)
        done = self.run_it("report", report, "--format", "html", "--out", "given", program=[*without_overriding(), PROGRAM])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("'given' cannot be written: Permission denied", done.stderr)

    def test_a_report_of_another_run_is_not_rendered_into_the_folder_of_a_run(self):
        quick = [*SIM, "--sizes", "8", "--collectives", "all_reduce", "--quiet"]
        for name in ("one", "other"):
            self.run_it(*quick, "--out", name)
        before = {path: path.read_bytes() for path in self.files("*") if path.is_file()}
        for format_ in ("json", "html", "csv,json"):
            self.assert_refused(["report", "other/latest", "--format", format_, "--out", "one/latest"], ["--out", "'one/latest' is the folder of another run"])
        self.assertEqual({path: path.read_bytes() for path in self.files("*") if path.is_file()}, before)
        for report, out in (("one/latest", "one/latest"), ("one", "one/latest/"), ("one/latest/report.json", "new")):
            self.assertEqual(self.run_it("report", report, "--format", "json", "--out", out).returncode, 0)

    def test_a_topology_is_not_replaced_by_what_is_made_of_it(self):
        machine = (SOURCE / "tests/fixtures/machines/p4d.24xlarge.json").read_bytes()
        (self.folder / "machine.json").write_bytes(machine)
        (self.folder / "link").symlink_to("machine.json")
        for name in ("machine.json", "link", self.folder / "machine.json"):
            self.assert_refused(["topo", "--load", "machine.json", "--rankfile", name], ["--rankfile and --load name the same file"])
            self.assert_refused(["topo", "--load", "machine.json", "--record", name], ["--record and --load name the same file"])
        self.assertEqual((self.folder / "machine.json").read_bytes(), machine)

    def test_files_of_a_run_are_not_replaced_by_a_comparison_or_a_topology(self):
        arms = ["ab", *SIM, "--sizes", "8", "--collectives", "all_reduce", "--launches", "2", "--quiet", "--b"]
        for name, fault in (("one", "nic:n0r0:0.5"), ("other", "gpu:n0g0:0.5")):
            self.run_it(*arms, f"P5BENCH_SIM_FAULT={fault}", "--out", name)
        (self.folder / "link").symlink_to("one/latest/report.json")
        before = {path: path.read_bytes() for path in self.files("*") if path.is_file()}
        compare = ["compare", "one/latest", "other/latest", "--new-arm", "b", "--base-arm", "b", "--format"]
        for format_ in ("json", "html", "console,json,html"):
            self.assert_refused([*compare, format_, "--out", "one/latest"], ["--out", "is a file of a run"])
        for load, option, file, why in (("one/latest", "--rankfile", "one/latest/topology.json", "name the same file"),
                                        ("one/latest/report.json", "--record", "link", "name the same file"),
                                        ("other/latest", "--rankfile", "link", "'link' is a file of a run"),
                                        ("other/latest", "--record", "one/latest/topology.json", "is a file of a run")):
            self.assert_refused(["topo", "--load", load, option, file], [option, why])
        self.assertEqual({path: path.read_bytes() for path in self.files("*") if path.is_file()}, before)
        # Other names in the folder are free.
        self.assertEqual(self.run_it("topo", "--load", "one/latest", "--record", "one/latest/again.json").returncode, 0)
        self.assertIn(self.run_it(*compare, "markdown", "--out", "one/latest").returncode, (0, 10, 14))

    def test_a_comparison_beside_a_run_that_has_none_of_its_own_is_replaced_by_the_next_one(self):
        for name in ("one", "other"):
            self.run_it(*SIM, "--sizes", "8", "--collectives", "all_reduce", "--launches", "2", "--quiet", "--out", name)
            time.sleep(1.1)  # the start and the end of a run have whole seconds
        for _ in range(2):
            done = self.run_it("compare", "one/latest", "other/latest", "--format", "json,html", "--out", "one/latest")
            self.assertIn(done.returncode, (0, 10, 14), done.stderr)

    def test_a_second_run_overwrites_nothing(self):
        quick = [*SIM, "--sizes", "8", "--collectives", "all_reduce", "--out", "out", "--cluster", "same"]
        kept = {}
        for _ in range(3):
            done = self.run_it(*quick)
            self.assertEqual(done.returncode, 14 if "sim" in str(done.args) else 0, done.stderr)
            for path, content in kept.items():
                self.assertEqual(path.read_bytes(), content, path)
            kept = {path: path.read_bytes() for path in self.files("report.*")}
        self.assertEqual(len(self.files("report.json")), 3)
        latest = (self.folder / "out" / "latest").resolve()
        self.assertEqual(latest, (self.folder / "out" / "same" / "latest").resolve())
        self.assertIn(latest / "report.json", [path.resolve() for path in kept])

    def test_a_latest_that_is_no_link_is_refused(self):
        (self.folder / "out" / "same" / "latest").mkdir(parents=True)
        done = self.run_it(*SIM, "--sizes", "8", "--out", "out", "--cluster", "same")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("p5bench:"), 1)
        self.assertEqual(self.files("report.json"), [])

    def test_what_is_no_regular_file_is_not_replaced(self):
        """The unwritable file, with each command that writes one; /dev/null as a device of the test's own, where root
        may make one."""
        null = self.folder / "null"
        try:
            os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            null.symlink_to("/dev/null")
        os.mkfifo(self.folder / "pipe")
        (self.folder / "locked").write_text("old")
        (self.folder / "locked").chmod(0o444)
        (self.folder / "link").symlink_to("target")
        (self.folder / "there").write_text("old")
        (self.folder / "to there").symlink_to("there")
        before = null.lstat()
        topo = ["topo", "--load", SOURCE / "tests/fixtures/machines/p4d.24xlarge.json"]
        for option, name in ((option, name) for option in ("--record", "--rankfile") for name in ("locked", "link", "/dev", ".")):
            done = self.run_it(*topo, option, name)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(f"'{name}'", done.stderr)
        self.assertEqual(self.run_it(*topo, "--record", "pipe").returncode, 2)
        for name in ("null", "to there"):
            self.assertEqual(self.run_it(*topo, "--record", name).returncode, 0)
        self.assertEqual((null.lstat().st_mode, null.lstat().st_ino), (before.st_mode, before.st_ino))
        self.assertNotEqual((self.folder / "there").read_text(), "old")
        self.assertEqual((self.folder / "locked").read_text(), "old")
        self.assertTrue(all((self.folder / name).is_symlink() for name in ("link", "to there")))
        self.assertTrue((self.folder / "pipe").is_fifo())
        report = SOURCE / "tests/fixtures/reports/measured.json"
        for format_, name in (("html", "report.html"), ("json", "report.json"), ("markdown", "report.md"), ("csv", "report.csv")):
            out = self.folder / format_
            out.mkdir()
            os.mkfifo(out / name)
            done = self.run_it("report", report, "--format", format_, "--out", format_)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertTrue((out / name).is_fifo())
            (out / name).unlink()
            (out / name).write_text("old")
            (out / name).chmod(0o444)
            self.assertEqual(self.run_it("report", report, "--format", format_, "--out", format_).returncode, 2)
            self.assertEqual((out / name).read_text(), "old")

    def test_variables_of_ours_that_are_wrong_are_refused_before_anything_is_done(self):
        """All commands refuse it alike, however they are started; a variable of an earlier version is ignored."""
        for name, value in (("P5BENCH_PROBE_LIMIT", "abc"), ("P5BENCH_JOIN_LIMIT", "-1s"), ("P5BENCH_REACH_LIMIT", "0"), ("P5BENCH_QUICK_LIMIT", "0s"),
                            ("P5BENCH_MOST_SAMPLES", "6x"), ("P5BENCH_MOST_SAMPLES", "0"), ("P5BENCH_PROBE_LIMIT", "\udce9"), ("P5BENCH_START_LIMIT", "off")):
            for command in (["run", *SIM, "--out", "out"], ["check", "--backend", "nccl"], ["check"], ["topo"], ["--backend", "mpi"]):
                with self.subTest(variable=f"{name}={value!a}", command=command):
                    done = self.run_it(*command, variables={name: value})
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                    self.assertIn(f"{name}: ", done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1)
                    self.assertEqual(self.listing(), [])
        self.assertEqual(self.run_it(*SIM, "--sizes", "8", "--tune=off", variables={"P5BENCH_PROBE_LIMIT": ""}).returncode, 14)

    def test_a_fault_that_a_variable_plants_in_no_arm_is_refused(self):
        for value in ("junk", "nic:n0r0:0.5"):
            for command in (["run"], ["check"], ["plan"], ["ab", "--b", "P5BENCH_SIM_FAULT=gpu:n0g0:0.5"]):
                done = self.run_it(*command, *SIM, variables={"P5BENCH_SIM_FAULT": value})
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(f"P5BENCH_SIM_FAULT='{value}'", done.stderr)
                self.assertIn("--fault", done.stderr)
                self.assertEqual(self.listing(), [])

    def test_variables_in_any_letters_are_recorded_and_passed_on(self):
        latin = "/opt/caf\udce9/\x1b[2J"
        names = ["NCCL_CONF_FILE", "LD_LIBRARY_PATH", "FI_X", "UCX_X", "OMPI_MCA_x_y", "SLURM_CLUSTER_NAME", "OMP_NUM_THREADS",
                 "NCCL_\udce9", "CUDA_VISIBLE_DEVICES"]
        for command in ([*SIM], ["--backend", "mpi"]):
            out = f"out-{len(command)}"
            done = self.run_it(*command, "--sizes", "8", "--collectives", "all_reduce", "--tune=off", "--out", out,
                               variables={name: latin for name in names})
            self.assertEqual(done.returncode, 14 if "sim" in str(done.args) else 0, done.stderr)
            report = read_report(self.folder / out / "latest" / "report.json")
            self.assertEqual(report["context"]["env.NCCL_CONF_FILE"], "/opt/caf\\xe9/\\x1b[2J")
            self.assertIn("env.NCCL_\\xe9", report["context"])
        done = self.run_it("check", *SIM, "--format", "json", variables={name: latin for name in names})
        self.assertEqual(json.loads(done.stdout)["exit_code"], done.returncode, done.stderr)

    def test_a_folder_in_any_letters_is_the_one_that_was_named(self):
        out = os.fsdecode(b"caf\xe9 \"$(x)\"\n'")
        for command in ([*SIM], ["--backend", "mpi"]):
            done = self.run_it(*command, "--sizes", "8", "--collectives", "all_reduce", "--tune=off", "--out", out)
            self.assertEqual(done.returncode, 14 if "sim" in str(done.args) else 0, done.stderr)
            self.assertEqual(os.listdir(os.fsencode(self.folder)), [os.fsencode(out)])
            self.assertEqual(self.run_it("report", (self.folder / out / "latest")).returncode, 0)

    def test_a_folder_in_any_letters_does_not_reach_the_terminal_as_it_is(self):
        out = os.fsdecode(b"a\x1b[31mb\xff\nc")
        report = self.folder / "made" / "latest"
        self.run_it(*SIM, "--sizes", "8,4GiB", "--collectives", "all_reduce", "--quiet", "--out", "made")
        log = SOURCE / "tests/fixtures/nccl-tests/2.19.6-all_reduce-graph.txt"
        for command in (["report", report, "--format", "json"], ["report", report, "--baseline", report, "--format", "html"],
                        ["compare", report, report, "--format", "json"], ["baseline", report], ["import", "nccl-tests", log]):
            done = self.run_it(*command, "--out", out)
            with self.subTest(command=command):
                self.assertIn("a\\x1b[31mb\\xff\\x0ac", done.stdout, done.stderr)
                self.assertNotIn("\x1b", done.stdout + done.stderr)

    def test_the_newest_of_one_second_keeps_the_link(self):
        runs = [self.start(*SIM, "--sizes", "8", "--tune=off", "--quiet", "--out", "out", "--cluster", "c") for _ in range(4)]
        self.assertEqual([run.wait(120) for run in runs], [14] * 4, self.printed())
        def place(folder):
            stamp, _, number = folder.name.partition("-")
            return stamp, int(number or 1)
        newest = max((path.parent for path in self.files("report.json")), key=place)
        self.assertEqual((self.folder / "out/latest").resolve(), newest)
        self.assertEqual((self.folder / "out/c/latest").resolve(), newest)

    def test_many_nodes_are_refused_at_once(self):
        self.assert_refused([*SIM, "--nodes", "65536"], ["--nodes", "'65536'"])


WHOLE = json.loads((SOURCE / "tests/fixtures/reports/measured.json").read_text())
LINE = {"case": WHOLE["measurements"][0]["case"], "launch": 0, "latency": None,
        "throughput": {"median_us": 1.5, "ci95_us": [1.4, 1.6], "samples_us": [1.4, 1.5, 1.6]}}
LOG = (SOURCE / "tests/fixtures/nccl-tests/2.19.6-all_reduce-graph.txt").read_text()
NCCL_JSON = """{"args": ["all_reduce_perf"], "config": {"nthreads": 1, "ngpus": 1, "iterations": 3,
    "aggregated_iterations": 1, "graph": 0, "blocking_collectives": "false", "devices":
    [{"rank": 0, "group": 0, "hostname": "a", "device_info": "x"}, {"rank": 1, "group": 0, "hostname": "a",
    "device_info": "x"}]}, "results": [{"size": 8, "type": "float", "redop": "sum", "root": "-1", "out_of_place":
    {"time": 7.5, "nwrong": 0}, "in_place": null}], "out_of_bounds": {"okay": "true"}, "env": ["A=B"]}"""
# hwloc 2.9 accepts it and crashes later.
HALF_A_PROCESSOR = """<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x1" allowed_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1"
          allowed_nodeset="0x1" gp_index="1">
    <object type="NUMANode" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="2"
            local_memory="1048576"/>
    <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4"/>
  </object>
</topology>
"""
ESCAPES = "n\x1b[2J\n\u009bX\u202e"


def changed(value, path, new):
    """The value with another one at a path."""
    value = copy.deepcopy(value)
    at = value
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = new
    return value


def without_overriding():
    """A prefix for a command that root runs too, so that permissions apply to it."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-dac_override,-dac_read_search"]


class BrokenFiles(Folder):
    """Files of users: refused with our own message that names the file, in little memory and time."""

    def assert_refused(self, arguments, words, program=()):
        with self.subTest(arguments=arguments):
            # Less than a careless reader takes, more than the libraries reserve.
            limit = ["prlimit", f"--as={4 << 30}"]
            done = self.run_it(*arguments, program=[*limit, *program, PROGRAM])
            self.assertEqual(done.returncode, 2, done.stderr[-2000:])
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr[-2000:])
            self.assertLess(len(done.stderr), 1500)
            for word in (*words, "p5bench:"):
                self.assertIn(word, done.stderr)
            for foreign in ("json.exception", "filesystem error", "basic_string", "std::"):
                self.assertNotIn(foreign, done.stderr)
            self.assertTrue(done.stderr.strip().isprintable(), repr(done.stderr))

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def test_deep_json_is_refused(self):
        deep = "[" * 100000 + "]" * 100000
        self.write("deep/report.json", json.dumps(WHOLE).replace('"p5bench.report/1"', deep))
        self.write("good/report.json", json.dumps(WHOLE))
        for command in (["report", "deep/report.json"], ["compare", "good", "deep"], ["baseline", "deep"],
                        ["compare", "--history", "deep"], ["report", "good/report.json", "--baseline", "deep"]):
            self.assert_refused(command, ["'deep/report.json'", "nested more than 64 deep", "'schema'"])
        self.write("log.json", NCCL_JSON.replace('["A=B"]', deep))
        self.assert_refused(["import", "nccl-tests", "log.json"], ["'log.json'", "nested", "'env'"])
        self.write("topology", deep)
        self.assert_refused(["topo", "--load", "topology"], ["'topology'", "nested"])

    def test_long_words_of_a_log_are_read(self):
        for word in ("x" * 2_000_000, "[" * 500_000, "a_perf" * 200_000, "0: " * 300_000, "1:" * 300_000):
            self.write("log", word + "\n" + LOG)
            done = self.run_it("import", "nccl-tests", "log", "--cluster", f"c{len(word)}")
            self.assertEqual(done.returncode, 0, done.stderr[-500:])
        self.write("log", LOG.replace("float", "x" * 2_000_000))
        self.assertEqual(self.run_it("import", "nccl-tests", "log", "--cluster", "long").returncode, 2)

    def test_pipes_and_devices_in_a_copy_of_proc_and_sys_are_refused(self):
        core = self.folder / "copy/sys/devices/system/cpu/cpu0/topology"
        core.mkdir(parents=True)
        (self.folder / "copy/proc").mkdir()
        (core / "physical_package_id").symlink_to("nothing")
        self.assertNotEqual(self.run_it("topo", "--load", "copy").returncode, 2, "a link to nothing is no fault")
        for name, make in (("sys/devices/system/cpu/cpu0/topology/core_id", os.mkfifo), ("proc/meminfo", os.mkfifo),
                           ("proc/cpuinfo", lambda path: path.symlink_to("/dev/zero"))):
            path = self.folder / "copy" / name
            make(path)
            self.assert_refused(["topo", "--load", "copy"], [f"'copy/{name}' is no regular file"])
            path.unlink()

    def test_a_line_feed_in_the_name_of_a_file_does_not_reach_the_terminal(self):
        (self.folder / "a\nfolder").mkdir()
        self.write("a\nfile", "{}")
        self.assert_refused(["topo", "--load", "a\nfolder"], ["'a\\x0afolder'"])
        self.assert_refused(["run", "--backend", "sim", "--platform", "p5.48xlarge", "--job", "a\nfile"], ["--job a\\x0afile"])

    def test_files_that_are_none_are_refused(self):
        good = self.write("good/report.json", json.dumps(WHOLE))
        os.mkfifo(self.folder / "pipe")
        (self.folder / "loop").symlink_to("loop")
        with open(self.folder / "large", "wb") as large:
            large.truncate(500_000_000)
        for name, why in (("pipe", "is a pipe"), ("loop", "cannot be read"), ("large", "more than"),
                          ("/dev/zero", "is a device"), ("good", "is a folder")):
            self.assert_refused(["import", "nccl-tests", name], [f"'{name}'", why])
            if name != "good":  # a run's folder is accepted for its report
                for command in (["report", name], ["compare", good, name], ["baseline", name], ["topo", "--load", name],
                                ["report", good, "--baseline", name]):
                    self.assert_refused(command, [f"'{name}'", why])

    def test_histories_that_cannot_be_read_are_refused(self):
        self.write("history/a/report.json", json.dumps(WHOLE))
        self.write("history/b/report.json", json.dumps(WHOLE))
        (self.folder / "history" / "c").mkdir()
        os.mkfifo(self.folder / "history" / "c" / "report.json")
        self.assert_refused(["compare", "--history", "history"], ["history/c/report.json", "is a pipe"])
        (self.folder / "history" / "c" / "report.json").unlink()
        (self.folder / "history" / "c").chmod(0)
        self.assert_refused(["compare", "--history", "history"], ["'history/c'", "cannot be searched"],
                            without_overriding())

    def test_journals_that_cannot_be_read_are_refused(self):
        self.write("run/report.json", json.dumps(WHOLE))
        journal = self.folder / "run" / "measurements.jsonl"
        compare = ["compare", "run", "run/report.json"]
        journal.symlink_to(journal.name)
        self.assert_refused(compare, [f"'run/{journal.name}'", "cannot be read"])
        journal.unlink()
        os.mkfifo(journal)
        self.assert_refused(compare, [f"'run/{journal.name}'", "is a pipe"])
        journal.unlink()
        journal.mkdir()
        self.assert_refused(compare, [f"'run/{journal.name}'", "is a folder"])
        journal.rmdir()
        self.write(f"run/{journal.name}", json.dumps(LINE) + "\n")
        journal.chmod(0)
        self.assert_refused(compare, [f"'run/{journal.name}'", "Permission denied"], without_overriding())

    def test_lines_of_a_journal_that_are_wrong_are_refused(self):
        self.write("run/report.json", json.dumps(WHOLE))
        for path, new, words in (
                (["launch"], 100_000_000, ["launch"]), (["launch"], -1, ["launch"]), (["launch"], "x", ["launch"]),
                (["launch"], 1e300, ["launch"]), (["throughput", "samples_us", 0], -1, ["'-1'"]),
                (["throughput", "median_us"], -1, ["'-1'"]), (["throughput", "median_us"], "x", ["throughput: median_us: "]),
                (["throughput", "samples_us"], 7, ["throughput: samples_us: ", "list of times"]), (["case", "ranks"], -1, ["case: /ranks"]),
                (["case", "collective"], "x" * 100_000, ["/collective"]), (["case"], [], ["object"])):
            self.write("run/measurements.jsonl", json.dumps(changed(LINE, path, new)) + "\n")
            self.assert_refused(["compare", "run", "run"], ["run/measurements.jsonl' line 1", *words])
        for old, new in (('"launch": 0', '"launch": 1e999'), ("1.4,", "1e999,"), ("[1.4, 1.5, 1.6]", "[" * 100_000)):
            self.write("run/measurements.jsonl", json.dumps(LINE).replace(old, new) + "\n")
            self.assert_refused(["compare", "run", "run"], ["run/measurements.jsonl' line 1"])

    def test_values_that_the_schema_forbids_are_refused_by_their_place(self):
        throughput = ["measurements", 0, "throughput"]
        for path, new in (([*throughput, "median_us"], -1), ([*throughput, "median_us"], 0), ([*throughput, "samples"], 1e308),
                          (["run", "ranks"], -1), (["run", "ranks"], 1.5), (["run", "wall_s"], -1), (["status"], "done"),
                          (["run", "launches"], 2_000_000_000), (["exit_code"], 1), (["topology", "host_of_rank", 0], 99),
                          (["measurements", 0, "case", "bytes"], "8"), (["run", "command"], "x"), (["context"], [])):
            self.write("report.json", json.dumps(changed(WHOLE, path, new)))
            place = "/" + "/".join(map(str, path))
            for command in (["report", "report.json"], ["compare", "report.json", "report.json"], ["baseline", "report.json"]):
                self.assert_refused(command, ["'report.json'", place + " "])
        self.write("report.json", json.dumps(changed(WHOLE, ["run", "wall_s"], "X")).replace('"X"', "1e999"))
        self.assert_refused(["report", "report.json"], ["'report.json'", "line 1", "'1e999'"])
        self.write("report.json", json.dumps(changed(WHOLE, ["status"], "x" * 2_000_000)))
        self.assert_refused(["report", "report.json"], ["/status"])

    def test_json_of_nccl_tests_that_is_wrong_is_refused_by_its_place(self):
        whole = json.loads(NCCL_JSON)
        for path, new in ((["config", "ngpus"], 1_000_000_000), (["config", "nthreads"], -1), (["args"], 7), (["env"], [7]),
                          (["config", "devices", 0, "rank"], 1e308), (["results", 0, "out_of_place", "time"], -1),
                          (["results", 0, "size"], -1), (["results", 0, "root"], []), (["out_of_bounds"], None)):
            self.write("log.json", json.dumps(changed(whole, path, new)))
            self.assert_refused(["import", "nccl-tests", "log.json"], ["'log.json'", "/" + "/".join(map(str, path))])
        self.write("log.json", NCCL_JSON.replace("7.5", "1e999"))
        self.assert_refused(["import", "nccl-tests", "log.json"], ["'log.json'", "line", "'1e999'"])

    def test_topologies_that_are_wrong_are_refused(self):
        recorded = json.loads((SOURCE / "tests/fixtures/machines/p4d.24xlarge.json").read_text())
        topology = recorded.get("topology", recorded)
        host = ["hosts", 0]
        for path, new in (([*host, "threads"], -1), ([*host, "name"], 7), ([*host, "gpu_devices", 0, "architecture"], 1e308),
                          ([*host, "gpu_devices", 0, "pci", "path"], ["x"] * 100_000), (["host_of_rank"], [7])):
            self.write("topology.json", json.dumps(changed(topology, path, new)))
            self.assert_refused(["topo", "--load", "topology.json"], ["--load", "'topology.json'", "/" + "/".join(map(str, path))])
        for name, content in (("latin", json.dumps(topology).replace("GPU", "\xe9").encode("latin-1")), ("none", "none"),
                              ("latin.xml", "<?xml version='1.0'?>\n<topology><object type='\xe9'/>".encode("latin-1")),
                              ("half.xml", "<topology>"), ("nothing", ""), ("crashes_hwloc.xml", HALF_A_PROCESSOR)):
            self.write(name, content)
            self.assert_refused(["topo", "--load", name], ["--load", f"'{name}'"])

    def test_names_from_files_do_not_reach_the_terminal_as_they_are(self):
        report = changed(WHOLE, ["run", "cluster"], ESCAPES)
        report["run"]["remarks"] = [ESCAPES]
        report["measurements"][0]["case"]["arm"] = ESCAPES
        report["topology"]["hosts"][0]["name"] = ESCAPES
        report["findings"] = [{"id": ESCAPES, "severity": "error", "about": "host", "evidence": ESCAPES, "action": ESCAPES,
                               "subject": {"host": ESCAPES, "instance": "", "gpu": None, "nic": ESCAPES}}]
        self.write("a/report.json", json.dumps(report))
        report["context"]["nccl"] = ESCAPES
        report["run"]["started"] = "2026-11-28T00:00:00Z"  # a copy of the first would be left out
        self.write("b/report.json", json.dumps(report))
        log = LOG.replace(" on ", " on \x1b[2J", 1).replace("# nThread", "# NCCL version 2\x1b\n# nThread")
        self.write("log", log.replace("float", "\x1bfloat", 1))
        for command in (["report", "a/report.json"], ["compare", "a", "b"], ["compare", "--history", "."],
                        ["topo", "--load", "a/report.json"], ["import", "nccl-tests", "log"]):
            done = self.run_it(*command)
            said = done.stdout + done.stderr
            self.assertTrue(said, command)
            for line in said.splitlines():
                self.assertTrue(line.isprintable(), (command, repr(line)))
            if command not in (["compare", "a", "b"], ["import", "nccl-tests", "log"]):
                self.assertIn("n\\x1b[2J\\x0a\\xc2\\x9bX\\xe2\\x80\\xae", said, command)


if __name__ == "__main__":
    main()
