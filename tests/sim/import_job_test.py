"""p5bench import job: what it finds in traces of jobs whose communication is known, in every format; files that are
broken, hostile or of something else. The traces are made up (support/job_traces.py)."""

import gzip
import json
import pathlib
import subprocess
import sys

import jsonschema

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import job_traces  # noqa: E402
from program import PATIENCE_S, PROGRAM, Folder, main, read_schema  # noqa: E402

SCHEMA = jsonschema.Draft202012Validator(read_schema("job"))
WITH_ALL = ["inspector", "log", "recorder", "profiler"]


class ImportJob(Folder):
    def run_import(self, *arguments, code=0):
        done = subprocess.run([PROGRAM, "import", "job", *map(str, arguments), "--out", self.folder / "out"], cwd=self.folder,
                              env=self.environment(), text=True, capture_output=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if code:
            self.assertFalse((self.folder / "out").exists())
            return done.stderr
        self.written = [pathlib.Path(line) for line in done.stdout.splitlines() if line.startswith(str(self.folder / "out"))]
        found = json.loads(self.written[0].read_text())
        self.assertEqual([error.message for error in SCHEMA.iter_errors(found)], [])
        return found, done.stdout

    def read(self, job, kind, steps=5, arguments=(), **options):
        folder = job_traces.write(job, kind, self.folder / f"{kind}-{len(list(self.folder.iterdir()))}", steps, **options)
        return self.run_import(folder, *arguments)

    def essence(self, found):
        return [(each["collective"], each["bytes"], each["group"] or sorted(each["groups"])) for each in found["operations"]]

    def test_every_format_says_the_same_of_a_job(self):
        wanted = [("all_reduce", 8 << 20, "node")] * 3 + [("all_reduce", 64 << 20, "rail")]
        job = job_traces.tensor_parallel(16, 3)
        for kind in WITH_ALL:
            with self.subTest(kind):
                # PyTorch does not record hosts.
                found, told = self.read(job, kind, arguments=["--hosts", 2])
                self.assertEqual(self.essence(found), wanted)
                self.assertEqual((found["ranks"], found["steps"], found["node_of_rank"]), (16, 5, [0] * 8 + [1] * 8))
                if kind != "log":
                    self.assertAlmostEqual(found["operations"][0]["time_us"], 150, delta=1)
                    self.assertAlmostEqual(found["operations"][0]["gap_us"], 30, delta=1)
                    self.assertAlmostEqual(found["step_us"], 3 * 180 + 910, delta=1)
                    self.assertRegex(told, r"all_reduce +64 MiB +\S+ +rail +1 +0\.900 +66\.7 %")

    def test_sizes_count_what_all_ranks_move(self):
        wanted = [("all_gather", 1024 * 8 * 2, "world"), ("reduce_scatter", 2048 * 8 * 4, "world")] * 2 + [("all_reduce", 4, "world")]
        for kind in WITH_ALL:
            with self.subTest(kind):
                self.assertEqual(self.essence(self.read(job_traces.data_parallel(8), kind)[0]), wanted)

    def test_messages_of_a_pipeline_are_in_the_order_of_its_stages(self):
        wanted = [("p2p", 2 << 20, [[rank, rank + 1]]) for rank in range(3)] + [("all_reduce", 1024, "world")]
        for kind in WITH_ALL:
            with self.subTest(kind):
                self.assertEqual(self.essence(self.read(job_traces.pipeline(4), kind)[0]), wanted)

    def test_uneven_exchanges_become_traffic(self):
        rows = [[128 * (rank + 1) * (to + 1) for to in range(4)] for rank in range(4)]
        for kind in ("log", "profiler"):
            with self.subTest(kind):
                found, _ = self.read(job_traces.experts(4), kind)
                self.assertEqual(self.essence(found), [("all_to_all", 1024, "world"), ("all_to_allv", sum(rows[3]), "world"),
                                                        ("all_reduce", 16384, "world")])
                traffic = next(path for path in self.written if path.name == "traffic-world.csv").read_text()
                self.assertEqual([list(map(int, line.split(","))) for line in traffic.splitlines() if line[0] != "#"], rows)

    def test_the_flight_recorder_does_not_say_who_gets_what(self):
        found, told = self.read(job_traces.experts(4), "recorder")
        self.assertEqual(self.essence(found)[1], ("all_to_allv", 128 * 4 * (1 + 2 + 3 + 4), "world"))
        self.assertIn("there is no traffic file of it", told)

    def test_one_rank_stands_for_others_where_nothing_says_otherwise(self):
        found, told = self.read(job_traces.tensor_parallel(16, 2), "profiler", ranks=[3], arguments=["--hosts", 2])
        self.assertEqual(self.essence(found), [("all_reduce", 8 << 20, "node")] * 2 + [("all_reduce", 64 << 20, "rail")])
        self.assertIn("ranks whose files were not given are taken to do", told)

    def test_older_and_shorter_records(self):
        job = job_traces.tensor_parallel(16, 2)
        for kind, options in (("profiler", {"old": True}), ("profiler", {"kernels": False}), ("recorder", {"timed": False}),
                              ("inspector", {"verbose": False}), ("profiler", {"compressed": True})):
            with self.subTest(kind, **options):
                found, _ = self.read(job, kind, arguments=["--hosts", 2], **options)
                self.assertEqual(self.essence(found), [("all_reduce", 8 << 20, "node")] * 2 + [("all_reduce", 64 << 20, "rail")])

    def test_a_rank_that_was_behind_when_its_record_ended(self):
        folder = job_traces.write(job_traces.tensor_parallel(8, 4), "log", self.folder / "logs", 5)
        path = folder / "trace_rank_5.json"
        path.write_text("".join(path.read_text().splitlines(True)[:-3]))
        found, _ = self.run_import(folder)
        self.assertEqual(found["steps"], 4)
        self.assertEqual(sorted(each["bytes"] for each in found["operations"]), [8 << 20] * 4 + [64 << 20])

    def test_ranks_of_one_output_and_of_a_late_rank(self):
        job = job_traces.tensor_parallel(8, 1)
        lines = "".join("".join(job_traces.inspector(job, rank, 6)) for rank in range(8))
        late = lines.replace('"coll_exec_time_us":150', '"coll_exec_time_us":300', 1 + 6 * 7)  # all ranks but the last one
        (self.folder / "all.json").write_text(late)
        found, told = self.run_import(self.folder / "all.json")
        self.assertAlmostEqual(found["operations"][0]["time_us"], 300, places=3)
        self.assertAlmostEqual(found["operations"][0]["fastest_us"], 150, places=3)
        self.assertRegex(told, r"8 MiB +- +\S+ +1 +0\.300 +\S+ % +50 %")

    def test_weights_are_those_that_tune_takes(self):
        self.read(job_traces.tensor_parallel(16, 3), "inspector")
        weights = next(path for path in self.written if path.name == "weights.txt")
        shares = {line.split()[1]: float(line.split()[2]) for line in weights.read_text().splitlines() if line[0] != "#"}
        self.assertAlmostEqual(shares[str(8 << 20)], 450 / 1350, places=5)
        self.assertAlmostEqual(sum(shares.values()), 1, places=5)

    def test_a_named_machine_has_limits(self):
        _, told = self.read(job_traces.tensor_parallel(16, 3), "inspector", arguments=["--platform", "p5.48xlarge"])
        self.assertRegex(told, r"rail .* % of \w+ \(nic\)")
        self.assertNotIn("unknown", told)

    def test_what_is_refused_names_file_and_place(self):
        good = "".join(job_traces.inspector(job_traces.tensor_parallel(8, 1), 0, 3))
        trace = "".join(job_traces.profiler(job_traces.tensor_parallel(8, 1), 0, 3))
        compressed = gzip.compress(trace.encode())
        for name, content, words in (
                ("cut.json", good[:-30], ["cut.json", "line 7", "no JSON"]),
                ("cut_0.json", trace[:-100], ["cut_0.json", "no JSON"]),
                ("cut_0.json.gz", compressed[:-40], ["compressed data end in the middle"]),
                ("dump_0.pickle", b"\x80\x04\x95\x10\x00", ["pickle", "json.dump"]),
                ("deep_0.json", '{"traceEvents": ' + "[" * 5000, ["nested more than 64"]),
                ("none.txt", "hello\n", ["no communication", "no record of any call"]),
                ("ranks.json", good.replace('"rank":0', '"rank":8', 1), ["line 1", "rank 8"]),
                ("bytes.json", good.replace('"coll_msg_size_bytes":8', '"coll_msg_size_bytes":-8', 1), ["coll_msg_size_bytes"]),
                ("nobody.json", trace.replace('"rank": 0, ', ""), ["does not say of which rank"]),
                ("empty.json", "", ["it is empty"]),
                ("binary", b"\x00\x01\x02", ["no trace that can be read", "NCCL_DEBUG_SUBSYS"])):
            with self.subTest(name):
                path = self.folder / name
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
                told = self.run_import(path, code=2)
                for word in words:
                    self.assertIn(word, told)

    def test_what_does_not_belong_is_refused(self):
        self.assertIn("cannot be read", self.run_import("missing.json", code=2))
        self.assertIn("--ranks", self.run_import("x", "--ranks", 4, code=2))
        (self.folder / "empty").mkdir()
        self.assertIn("holds no file", self.run_import(self.folder / "empty", code=2))


if __name__ == "__main__":
    main()
