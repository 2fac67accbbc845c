"""What a user may get wrong: one message that names the culprit and, for names, the one that was meant; exit code 2;
and no file made, however the program was started."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import Folder, SOURCE, main  # noqa: E402

SIM = ["--backend", "sim", "--platform", "p5.48xlarge"]
NOT_SIZES = ["8KBx", "-1", "nan", "1e30", "0", "", "9223372036854775808", "1.5", "8 B", "99999999T"]
NOT_TIMES = ["-1", "nan", "inf", "1e30", "0", "", "10parsecs", "1..5s", "9999999999h"]
NOT_COUNTS = ["-1", "nan", "1e30", "", "2.5", "9223372036854775808", "x"]

# Arguments, and what the message has to hold.
UNKNOWN_NAMES = [
    (["--collectives", "allreduce"], ["'allreduce'", "'all_reduce'"]),
    (["--collectives", "p2p,,all_reduce"], ["'p2p,,all_reduce'", "empty"]),
    (["--collectives", ""], ["empty"]),
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
    (["--type", "all,int8"], ["'all' stands alone"]),
    (["--op", "ALL"], ["'all' stands alone, and is written small"]),
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

# What an unset variable leaves of --out=$OUT; the word after it is another option.
EMPTY = [(["--cluster=", "--collectives", "all_reduce"], ["--cluster"]), (["--out="], ["--out"]),
         (["--out=", "somewhere"], ["--out"]), (["--backend="], ["--backend"]), (["--fault="], ["--fault"]),
         (["--baseline="], ["--baseline"]), (["--platform=", "p5.48xlarge"], ["--platform"]), (["--weights="], ["--weights"]),
         (["compare", "--history="], ["--history"]), (["compare", "a", "b", "--base-arm="], ["--base-arm"]),
         (["compare", "--base=", "a", "--new", "b"], ["--base"]), (["compare", "", "b"], ["REPORTS"]),
         (["baseline", ""], ["REPORTS"]), (["import", "nccl-tests", ""], ["LOG"]), (["topo", "--load="], ["--load"]),
         (["topo", "--record="], ["--record"]), (["topo", "--rankfile="], ["--rankfile"]), (["list", ""], ["WHAT"])]

# Options, and a command to which they mean nothing.
IGNORED = [(["report", "x", "--fault", "nic:n0r0:0.5"], ["--fault", "report"]), (["compare", "a", "b", "--nodes", "2"], ["--nodes"]),
           (["compare", "a", "b", "--quiet"], ["--quiet", "compare"]), (["--budget", "1s", "list", "backends"], ["--budget", "list"]),
           (["baseline", "a", "--format", "json"], ["--format", "baseline"]), (["topo", "--sizes", "8"], ["--sizes", "topo"]),
           (["import", "nccl-tests", "x", "--in-place"], ["--in-place", "import"]),
           (["plan", *SIM, "--baseline", "x"], ["--baseline", "plan"]), (["tune", "--baseline", "x"], ["--baseline", "tune"]),
           (["ab", "--b", "A=1", "--weights", "x"], ["--weights", "ab"]), (["report", "x", "--resume"], ["--resume", "report"]),
           (["topo", "--out", "x"], ["--out", "topo"]), (["list", "backends", "--format", "json"], ["--format", "list"])]

NONSENSE = [
    ([""], ["command ''. Known"]),
    (["b"], ["command 'b'. Known"]),
    (["run", "run"], ["'run' is a word too many after run"]),
    (["report", "a", "b"], ["'b' is a word too many after report"]),
    (["list", "backends", "formats"], ["'formats' is a word too many after list"]),
    (["--quiet=yes"], ["--quiet takes no value"]),
    (["--in-place="], ["--in-place takes no value"]),
    ([*SIM, "--max", "7"], ["--max 7 B is below the smallest message", "8 B"]),
    ([*SIM, "--sizes", "8", "--min", "8"], ["--sizes", "--min"]),
    ([*SIM, "--sizes", "8", "--max", "4GiB"], ["--sizes", "--max"]),
    ([*SIM, "--sizes", "8", "--factor", "2"], ["--sizes", "--factor"]),
    ([*SIM, "--soak", "1h", "--launches", "3"], ["--soak", "--launches"]),
    (["ab", *SIM, "--b", "P5BENCH_SIM_FAULT=gpu:n0g0:0.5", "--soak", "1h"], ["--soak", "ab"]),
    (["--backend", "mpi", "--soak", "1h"], ["--soak", "mpi"]),
    ([*SIM, "--nodes", "3", "--collectives", "all_gather,hypercube"], ["hypercube", "1, 2, 4, 8, ... ranks", "24"]),
    ([*SIM, "--soak", "0s"], ["'0s'", "above zero"]),
    ([*SIM, "--resume", "--launches", "3"], ["--resume", "--launches"]),
    ([*SIM, "--resume", "--seed", "3"], ["--resume", "--seed"]),
    (["ab", *SIM, "--b", "P5BENCH_SIM_FAULT=gpu:n0g0:0.5", "--resume"], ["--resume", "ab"]),
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
    ([*SIM, "--collectives", "p2p", "--in-place"], ["--in-place", "p2p"]),
    ([*SIM, "--sizes", "9223372036854775807"], ["9223372036854775807 B"]),
    ([*SIM, "--per-rank", "--sizes", "16384T"], ["16384 TiB a rank for 8 ranks"]),
    ([*SIM, "--sizes", "8", "--max", "64"], ["--sizes", "--max"]),
    ([*SIM, "--sizes", "8", "--factor", "4"], ["--sizes", "--factor"]),
    (["--fault", "nic:n0r0:0.5"], ["--fault", "--backend sim"]),
    (["--nodes", "2"], ["--nodes", "--backend sim"]),
    (["--backend", "sim"], ["--platform"]),
    ([*SIM, "--nodes", "0"], ["'0'"]),
    ([*SIM, "--nodes", "65537"], ["'65537'"]),
    (["ab"], ["--b"]),
    (["ab", "--a", "X=1"], ["--b"]),
    (["ab", "--b", "NCCL_PROTO"], ["--b", "'NCCL_PROTO'", "KEY=VALUE"]),
    (["ab", "--b", "A=1,A=2"], ["--b", "A twice"]),
    (["ab", "--b", "A=1", "--backend", "mpi"], ["ab", "--backend mpi"]),
    (["ab", "--b", "A=1", *SIM], ["A", "P5BENCH_SIM_FAULT"]),
    (["ab", "--b", "P5BENCH_SIM_FAULT=gpu:n0g8:0.5", *SIM], ["P5BENCH_SIM_FAULT", "GPU 8"]),
    (["ab", "--b", "", "--tune=off", *SIM], ["ab", "--tune"]),
    (["run", "--a", "A=1"], ["--a"]),
    (["tune", "--launches", "3"], ["--launches"]),
    (["tune", *SIM], ["tuning", "--backend sim"]),
    (["run", "--tune=full", "--backend", "mpi"], ["tuning", "--backend mpi"]),
    (["--launches", "3", "--backend", "mpi"], ["--launches 3", "mpi", "compare"]),
    ([*SIM, "--launches", "0"], ["--launches", "'0'"]),
    ([*SIM, "--launches", "1001"], ["--launches", "'1001'"]),
    ([*SIM, "--fault", ""], ["--fault"]),
    ([*SIM, "--fault", "nic"], ["nic"]),
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
    ([*SIM, "--fault", "gpu:n0g0:0.5:always:more"], ["5 parts"]),
]


def given(option, text):
    """Behind an equals sign where the text could pass for an option, and apart where it would be none at all."""
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
            if not ranks:  # mpirun has its own to say
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
        self.assertEqual((self.folder / "file").read_text(), "in the way")

    def test_a_report_is_not_rendered_into_a_folder_that_cannot_be_written(self):
        report = str(SOURCE / "tests/fixtures/reports/simulated.json")
        self.assert_refused(["report", report, "--format", "html", "--out", "/proc/p5bench"], ["'/proc/p5bench'"])

    def test_a_second_run_overwrites_nothing(self):
        quick = [*SIM, "--sizes", "8", "--collectives", "all_reduce", "--out", "out", "--cluster", "same"]
        kept = {}
        for _ in range(3):
            done = self.run_it(*quick)
            self.assertEqual(done.returncode, 0, done.stderr)
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


if __name__ == "__main__":
    main()
