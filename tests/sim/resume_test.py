"""run --resume: the measurements of an ended run are kept, the others are made, and unsuitable runs are refused."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from program import BUILD, PATIENCE_S, PROGRAM, Folder, main, read_report, wait_for  # noqa: E402

PLAN = ["--collectives", "all_reduce,all_gather", "--sizes", "64,4MiB,1GiB"]
SIM = ["--backend", "sim", "--platform", "p5.48xlarge", "--out", "out", "--quiet"]

# Permissions hold for root too.
ANY_USER = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps",
            "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []

FAULT = "P5BENCH_SIM_FAULT=gpu:n0g3:0.9"


def cases(report):
    return sorted(json.dumps(m["case"], sort_keys=True) for m in report["measurements"])


class Resume(Folder):
    def folder_of_run(self):
        return (self.folder / "out" / "latest").resolve()

    def ended(self, kept, ended_by="ended by SIGTERM", how=(), **last):
        """A run that ended after so many lines of its journal; `last` is the outcome of the case that was running. Its
        report was written one line earlier."""
        done = self.run_it(*(how or PLAN), *SIM, "--seed", "7")
        self.assertIn(done.returncode, (0, 10), done.stderr)
        folder = self.folder_of_run()
        whole = read_report(folder / "report.json")
        lines = [json.loads(line) for line in (folder / "measurements.jsonl").read_text().splitlines()]
        half = json.dumps(lines[-1])[:40]
        del lines[kept + (1 if last else 0):]
        lines[0]["wall_s"] = 123.5
        if last:
            lines[kept] |= last | {"latency": None, "throughput": None}
        self.end(folder, lines, ended_by, half)
        return folder, whole

    def end(self, folder, lines, ended_by, half="", exits=12):
        report = read_report(folder / "report.json")
        del report["measurements"][max(0, len(lines) - 1):]
        report["run"]["ended_by"], report["status"], report["exit_code"] = ended_by, "partial", exits
        report.pop("decision", None)
        (folder / "report.json").write_text(json.dumps(report))
        (folder / "measurements.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + "{}\n" + half)

    def resume(self, *arguments, exits=0):
        done = self.run_it(*(arguments or PLAN), *SIM, "--resume")
        self.assertEqual(done.returncode, exits, done.stderr + done.stdout)
        return done

    def assert_continued(self, earlier, results):
        report = read_report(self.folder_of_run() / "report.json")
        remarks = report["run"]["remarks"]
        self.assertTrue(any(str(earlier) in remark and f"; {results} results" in remark for remark in remarks), remarks)
        self.assertEqual((report["status"], len(report["measurements"])), ("complete", 6))

    def refuse(self, *arguments, says):
        before = sorted(self.folder.rglob("*"))
        done = self.resume(*arguments, exits=2)
        for word in says:
            self.assertIn(word, done.stderr)
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_what_was_measured_stands_and_the_rest_is_measured(self):
        earlier, whole = self.ended(2)
        before = (earlier / "report.json").read_text()
        self.resume()
        now = self.folder_of_run()
        self.assertNotEqual(now, earlier)
        self.assertEqual((earlier / "report.json").read_text(), before)
        report = read_report(now / "report.json")
        self.assertEqual((report["status"], report["exit_code"], report["run"]["seed"]), ("complete", 0, 7))
        self.assertEqual(cases(report), cases(whole))
        self.assertEqual({m["outcome"] for m in report["measurements"]}, {"measured"})
        self.assertEqual([m["wall_s"] == 123.5 for m in report["measurements"]], [True] + 5 * [False])
        self.assertTrue(any(str(earlier) in remark and "ended by SIGTERM" in remark and "2 results" in remark
                            for remark in report["run"]["remarks"]), report["run"]["remarks"])
        lines = [json.loads(line) for line in (now / "measurements.jsonl").read_text().splitlines()]
        self.assertEqual(cases({"measurements": lines}), cases(whole))
        self.assertTrue(all(line["throughput"]["samples_us"] for line in lines))

    def test_a_run_that_was_resumed_and_ended_again_goes_on(self):
        self.ended(1)
        self.resume()
        folder = self.folder_of_run()
        lines = [json.loads(line) for line in (folder / "measurements.jsonl").read_text().splitlines()]
        self.end(folder, lines[:3], "ended by SIGINT")
        self.resume()
        report = read_report(self.folder_of_run() / "report.json")
        self.assertEqual((len(report["measurements"]), report["measurements"][0]["wall_s"]), (6, 123.5))
        self.assertTrue(any("; 3 results" in remark for remark in report["run"]["remarks"]))

    def test_a_run_that_measured_all_and_was_ended_before_its_end_goes_on_to_it(self):
        self.ended(6, ended_by="")
        self.resume()
        report = read_report(self.folder_of_run() / "report.json")
        self.assertEqual((report["status"], len(report["measurements"])), ("complete", 6))
        self.refuse(says=["nothing is left to measure"])

    def test_only_who_can_go_on_is_told_to(self):
        """A full disk ends a run, which --resume continues, or a soak, which it refuses."""
        full = {"LD_PRELOAD": str(BUILD / "tests/failing_files.so"), "P5BENCH_FAIL_BELOW": str(self.folder / "out"), "P5BENCH_FAIL_WITH": "ENOSPC",
                "P5BENCH_FAIL_ON": "write", "P5BENCH_FAIL_FROM": "3"}
        for how, told in ((PLAN, True), ([*PLAN, "--soak", "2s"], False)):
            done = self.run_it(*how, *SIM, variables=full)
            self.assertIn(done.returncode, (12, 13), done.stderr)
            self.assertIn("Make room", done.stderr)
            self.assertEqual("--resume" in done.stderr, told, done.stderr)

    def test_a_run_that_kept_nothing_is_not_to_be_gone_on_with(self):
        full = {"LD_PRELOAD": str(BUILD / "tests/failing_files.so"), "P5BENCH_FAIL_BELOW": str(self.folder / "out"), "P5BENCH_FAIL_WITH": "ENOSPC",
                "P5BENCH_FAIL_ON": "write", "P5BENCH_FAIL_FROM": "1"}
        done = self.run_it(*PLAN, *SIM, variables=full)
        self.assertIn(done.returncode, (2, 12, 13), done.stderr)
        self.assertIn("Make room", done.stderr)
        self.assertNotIn("--resume", done.stdout + done.stderr)
        self.assertEqual(self.files("report.json"), [])

    def test_a_run_that_cannot_begin_takes_no_link_from_one_that_did(self):
        self.run_it(*PLAN, *SIM)
        before = (self.folder / "out" / "latest").resolve()
        full = {"LD_PRELOAD": str(BUILD / "tests/failing_files.so"), "P5BENCH_FAIL_BELOW": str(self.folder / "out"), "P5BENCH_FAIL_WITH": "ENOSPC",
                "P5BENCH_FAIL_ON": "write", "P5BENCH_FAIL_FROM": "1"}
        self.assertEqual(self.run_it(*PLAN, *SIM, variables=full).returncode, 13)
        self.assertEqual((self.folder / "out" / "latest").resolve(), before)
        self.assertTrue((before / "report.json").exists())

    def test_a_run_that_cannot_keep_the_earlier_results_takes_no_link_from_them(self):
        full = {"LD_PRELOAD": str(BUILD / "tests/failing_files.so"), "P5BENCH_FAIL_BELOW": str(self.folder / "out"), "P5BENCH_FAIL_WITH": "ENOSPC",
                "P5BENCH_FAIL_ON": "write", "P5BENCH_FAIL_FROM": "2"}
        for how in (PLAN, [*PLAN, "--timeout", "50s"]):
            with self.subTest(how=how):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                earlier, _ = self.ended(2, how=how)
                done = self.run_it(*PLAN, *SIM, "--resume", variables=full)
                self.assertIn(done.returncode, (12, 13), done.stderr)
                self.assertEqual((self.folder / "out" / "latest").resolve(), earlier.resolve())
                self.resume()
                self.assert_continued(earlier, 2)

    def test_measurements_under_other_variables_do_not_mix(self):
        self.ended(2)
        for variables in ({"NCCL_MAX_CTAS": "1"}, {"FI_PROVIDER": "efa"}, {"P5BENCH_TUNER_HASH": "1"},
                          {"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "1"}):
            with self.subTest(variables=variables):
                done = self.run_it(*PLAN, *SIM, "--resume", variables=variables)
                self.assertEqual(done.returncode, 2, done.stderr)
                (name, value), = variables.items()
                self.assertIn(f"it had {name} '', now it is '{value}'", done.stderr)
        self.resume()

    def test_no_node_is_unfit_because_the_report_of_a_check_cannot_be_written(self):
        for first in (5, 9):
            for fault, lines in (([], ["n0: fit", "n1: fit"]), (["--fault", "gpu:n1g3:0.3"], ["n0: fit", "n1: NOT FIT: gpu n1g3"])):
                with self.subTest(first=first, fault=fault):
                    full = {"LD_PRELOAD": str(BUILD / "tests/failing_files.so"), "P5BENCH_FAIL_BELOW": str(self.folder / "out"), "P5BENCH_FAIL_WITH": "ENOSPC",
                            "P5BENCH_FAIL_ON": "write", "P5BENCH_FAIL_FROM": str(first)}
                    done = self.run_it("check", "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "2", *fault, "--out", "out", variables=full)
                    self.assertEqual(done.returncode, 13, done.stdout + done.stderr)
                    self.assertIn("Make room", done.stderr)
                    for line in lines:
                        self.assertRegex(done.stdout, rf"(?m)^{line}\b")

    def test_nobody_is_told_to_go_on_with_a_folder_that_is_gone(self):
        slow = {"LD_PRELOAD": str(BUILD / "tests/failing_files.so"), "P5BENCH_FAIL_BELOW": str(self.folder / "out"), "P5BENCH_FAIL_WITH": "delay:0.3",
                "P5BENCH_FAIL_ON": "write"}
        job = self.start(*PLAN, *SIM, variables=slow)
        self.assertTrue(wait_for(lambda: self.files("measurements.jsonl")), self.printed())
        shutil.rmtree(self.folder / "out")
        self.assertIn(job.wait(PATIENCE_S), (12, 13), self.printed())
        printed = (self.folder / "printed").read_text()
        self.assertIn("Make room", printed)
        self.assertNotIn("--resume", printed)

    def test_a_signal_while_a_file_is_made_leaves_no_part_of_it(self):
        log = self.folder / "log"
        slow = {"LD_PRELOAD": str(BUILD / "tests/failing_files.so"), "P5BENCH_FAIL_BELOW": str(self.folder / "out"), "P5BENCH_FAIL_WITH": "delay:300",
                "P5BENCH_FAIL_ON": "rename", "P5BENCH_FAIL_LOG": str(log)}
        with subprocess.Popen([PROGRAM, *PLAN, *SIM], cwd=self.folder, env=os.environ | slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            self.addCleanup(process.kill)
            while not log.exists() or "rename" not in log.read_text():
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            self.assertNotEqual([path for path in (self.folder / "out").rglob(".p5bench.*")], [])
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertEqual([path for path in (self.folder / "out").rglob(".p5bench.*")], [])

    def full_disk(self, *how, first):
        """A run whose files cannot be written from the `first` write on, which names no host."""
        full = {"LD_PRELOAD": str(BUILD / "tests/failing_files.so"), "P5BENCH_FAIL_BELOW": str(self.folder / "out"), "P5BENCH_FAIL_WITH": "ENOSPC",
                "P5BENCH_FAIL_ON": "write", "P5BENCH_FAIL_FROM": str(first)}
        done = self.run_it(*how, *SIM, "--seed", "7", variables=full)
        self.assertEqual(done.returncode, 12, done.stderr)
        self.assertNotIn("that rank's host", done.stdout + done.stderr)
        return done

    def test_what_a_full_disk_interrupted_is_measured(self):
        done = self.full_disk(*PLAN, first=5)
        self.assertRegex(done.stderr, "(measured until then|result) is printed")
        self.assertRegex(done.stdout, "(?m)^# all_reduce, 8 ranks")
        self.assertNotRegex(done.stdout, r"(?i)\bfailed\b")  # what was measured did not fail
        self.resume(*PLAN)
        report = read_report(self.folder_of_run() / "report.json")
        self.assertEqual({m["outcome"] for m in report["measurements"]}, {"measured"})

    def test_a_journal_that_a_full_disk_refuses_only_on_close_ends_the_run(self):
        full = {"LD_PRELOAD": str(BUILD / "tests/failing_files.so"), "P5BENCH_FAIL_BELOW": str(self.folder / "out"), "P5BENCH_FAIL_WITH": "ENOSPC",
                "P5BENCH_FAIL_ON": "close", "P5BENCH_FAIL_NAME": "measurements.jsonl"}
        done = self.run_it(*PLAN, *SIM, "--seed", "7", variables=full)
        self.assertEqual(done.returncode, 12, done.stderr)
        self.assertIn("Make room", done.stderr)
        self.assertEqual((self.folder_of_run() / "measurements.jsonl").read_text(), "", "no part of a line is left")
        self.resume()
        report = read_report(self.folder_of_run() / "report.json")
        self.assertEqual({m["outcome"] for m in report["measurements"]}, {"measured"})

    def test_a_journal_that_cannot_be_written_costs_no_other_file(self):
        full = {"LD_PRELOAD": str(BUILD / "tests/failing_files.so"), "P5BENCH_FAIL_BELOW": str(self.folder / "out"), "P5BENCH_FAIL_WITH": "EDQUOT",
                "P5BENCH_FAIL_ON": "write", "P5BENCH_FAIL_NAME": "measurements.jsonl"}
        slow = ["--nodes", "4", "--collectives", "p2p", "--sizes", "8,256MiB,1GiB,4GiB", "--tuning", "off", "--fault", "nic:n1r3:0.5"]
        formats = {"report.xml", "report.prom", "report.md", "report.csv"}
        for first in (1, 2, 3, 4):
            with self.subTest(first=first):
                done = self.run_it(*slow, *SIM, "--format", "json,junit,prometheus,markdown,csv", variables=full | {"P5BENCH_FAIL_FROM": str(first)})
                self.assertIn(done.returncode, (10, 12), done.stderr)
                folder = self.folder_of_run()
                report = read_report(folder / "report.json")
                self.assertIn("measurements.jsonl", report["run"]["ended_by"])
                self.assertEqual((report["status"], report["exit_code"]), ("partial", done.returncode))
                self.assertEqual(done.stdout.splitlines()[0], report["decision"]["sentence"])
                left = {path.name for path in folder.iterdir()}
                self.assertGreaterEqual(left, formats)
                self.assertEqual("support.txt" in left, bool(report["suspects"] or report["open_questions"]))

    def test_a_page_that_could_not_be_written_is_written(self):
        """The largest file is the page: what is measured and report.json fit."""
        done = self.run_it(*PLAN, *SIM, "--seed", "7")
        folder = self.folder_of_run()
        report, page = ((folder / name).stat().st_size for name in ("report.json", "report.html"))
        self.assertGreater(page, report + 2048)
        limit = (page - 1024) // 1024
        done = self.run_it(program=["/bin/bash", "-c", f'ulimit -f {limit}; exec "$@"', "bash", PROGRAM, *PLAN, *SIM, "--seed", "7", "--format",
                                    "json,html,junit,prometheus,markdown"])
        self.assertEqual(done.returncode, 12, done.stderr)
        folder = self.folder_of_run()
        left = read_report(folder / "report.json")
        self.assertEqual((left["status"], left["exit_code"]), ("partial", 12))
        self.assertIn("report.html", left["run"]["ended_by"])
        self.assertFalse((folder / "report.html").exists())
        self.assertIn('<property name="exit code" value="12"/>', (folder / "report.xml").read_text())
        self.assertRegex((folder / "report.prom").read_text(), r"(?m)^p5bench_exit_code\{[^}]*\} 12$")
        self.assertTrue((folder / "report.md").read_text().startswith("## CANNOT TELL"))
        self.resume()
        folder = self.folder_of_run()
        self.assertEqual(read_report(folder / "report.json")["status"], "complete")
        self.assertTrue((folder / "report.html").exists())

    def test_a_run_that_ended_after_its_parts_were_measured_goes_on(self):
        """The run ended in its tuning or its last write: NICs alone, rails and halves are not in the plan, and are
        measured again."""
        how = ["--nodes", "4", "--collectives", "p2p,all_reduce", "--sizes", "4MiB"]
        self.assertEqual(self.run_it(*how, *SIM, "--seed", "7").returncode, 14)
        folder = self.folder_of_run()
        whole = read_report(folder / "report.json")
        lines = [json.loads(line) for line in (folder / "measurements.jsonl").read_text().splitlines()]
        beside = {(line["case"]["group"], "nic" in line["case"]) for line in lines if line["case"].get("for_parts")}
        self.assertGreaterEqual(beside, {("rail", False), ("half", False)})
        for ended_by in ("ended by SIGTERM while tuning", ""):
            self.end(folder, lines, ended_by)
            self.resume(*how, exits=14)
            report = read_report(self.folder_of_run() / "report.json")
            self.assertEqual((report["status"], report["exit_code"]), ("complete", 14))
            self.assertEqual(cases(report), cases(whole))
            folder = self.folder_of_run()

    def test_the_parts_at_fault_are_those_that_the_whole_run_names(self):
        """All but the last case of the plan are kept: pairs with wrong data, and pairs that are slow in some samples."""
        def named(folder):
            report = read_report(folder / "report.json")
            return {(each["name"], each["fault"]) for each in report["suspects"]}, (folder / "hosts.healthy").read_text()
        for fault, kind in (("1:lies", "wrong"), ("0.5:20%", "slow")):
            with self.subTest(fault=fault):
                how = ["--nodes", "3", "--collectives", "p2p", "--sizes", "1GiB", "--fault", f"gpu:n1g2:{fault}"]
                whole = self.run_it(*how, *SIM, "--seed", "7")
                folder = self.folder_of_run()
                wanted = named(folder)
                self.assertIn(("n1g2", kind), wanted[0])
                lines = [json.loads(line) for line in (folder / "measurements.jsonl").read_text().splitlines()]
                lines = [line for line in lines if "nic" not in line["case"] and not line["case"].get("for_parts")]
                self.end(folder, lines[:-1], "ended by SIGTERM", exits=11 if kind == "wrong" else 12)
                self.resume(*how, exits=whole.returncode)
                self.assertEqual(named(self.folder_of_run()), wanted)

    def test_works_beside_each_other_keep_their_samples(self):
        how = ["--nodes", "2", "--collectives", "all_reduce", "--sizes", "64MiB,256MiB", "--beside", "gemm", "--launches", "3"]
        self.assertEqual(self.run_it(*how, *SIM, "--seed", "7").returncode, 14)
        folder = self.folder_of_run()
        lines = [json.loads(line) for line in (folder / "measurements.jsonl").read_text().splitlines()]
        self.end(folder, lines[:-1], "ended by SIGTERM")
        self.resume(*how, exits=14)
        folder = self.folder_of_run()
        lines = [json.loads(line) for line in (folder / "measurements.jsonl").read_text().splitlines()]
        for m in read_report(folder / "report.json")["measurements"]:
            its = [line["concurrency"]["together"]["samples_us"] for line in lines if line["case"] == m["case"]]
            self.assertEqual(m["concurrency"]["together"]["samples"], sum(map(len, its)))
        done = self.run_it("report", folder / "report.json")
        self.assertIn(done.returncode, (0, 14), done.stderr)

    def lines_of(self, folder):
        lines = [json.loads(line) for line in (folder / "measurements.jsonl").read_text().splitlines()]
        return {(line["case"]["arm"], line["launch"], line["case"]["collective"], line["case"]["bytes"]): line for line in lines}

    def test_several_launches_go_on_where_they_were(self):
        how = [*PLAN, "--launches", "3"]
        _, whole = self.ended(8, how=how, outcome="failed", because="ended by SIGTERM")
        self.resume(*how)
        now = self.folder_of_run()
        lines = self.lines_of(now)
        self.assertEqual(sorted(lines), sorted((("default", launch, c, b) for launch in range(3)
                                                for c in ("all_reduce", "all_gather") for b in (64, 4 << 20, 1 << 30))))
        self.assertEqual([line["wall_s"] == 123.5 for line in lines.values()], [True] + 17 * [False])
        report = read_report(now / "report.json")
        self.assertEqual(cases(report), cases(whole))
        self.assertEqual({len(m["launches_us"]) for m in report["measurements"]}, {3})
        self.assertEqual({m["outcome"] for m in report["measurements"]}, {"measured"})
        self.refuse(says=["launches", "'3'", "'1'"])

    def test_a_launch_that_is_measured_last_keeps_its_place(self):
        """The run before skipped a case in launch 2; the other commands still know the journal as the report's own."""
        how = [*PLAN, "--launches", "3"]
        self.assertEqual(self.run_it(*how, *SIM, "--seed", "7").returncode, 0)
        folder = self.folder_of_run()
        lines = [json.loads(line) for line in (folder / "measurements.jsonl").read_text().splitlines()]
        skipped = next(line for line in lines if line["launch"] == 1)
        skipped |= {"outcome": "skipped", "because": "budget", "latency": None, "throughput": None}
        self.end(folder, lines, "ended by SIGTERM")
        self.resume(*how)
        now = self.folder_of_run()
        lines, report = self.lines_of(now), read_report(now / "report.json")
        for m in report["measurements"]:
            case = m["case"]
            self.assertEqual(m["launches_us"], [lines["default", launch, case["collective"], case["bytes"]]["throughput"]["median_us"]
                                                for launch in range(3)])
        done = self.run_it("baseline", now)
        self.assertEqual(done.returncode, 0, done.stderr)
        # Older reports list launches in the order in which they were measured.
        for m in report["measurements"]:
            m["launches_us"].reverse()
            m["latency_launches_us"].reverse()
        (now / "report.json").write_text(json.dumps(report))
        done = self.run_it("baseline", now, "--out", "of_older")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_two_arms_go_on_where_they_were(self):
        how = ["ab", "--b", FAULT, "--launches", "4", "--sizes", "64,4MiB",
               "--collectives", "all_reduce"]
        self.ended(9, how=how)
        self.refuse("ab", "--a", FAULT, "--b", "P5BENCH_SIM_FAULT=gpu:n0g4:0.9", *how[3:], says=["arms", FAULT.split("=")[1]])
        done = self.resume(*how, exits=10)
        self.assertIn("REGRESSION", done.stdout)
        folder = self.folder_of_run()
        report = read_report(folder / "report.json")
        self.assertEqual([arm["launches"] for arm in report["arms"]], [4, 4])
        self.assertEqual(sorted(self.lines_of(folder)),
                         sorted((arm, launch, "all_reduce", b) for arm in "ab" for launch in range(4) for b in (64, 4 << 20)))
        self.assertEqual({len(m["launches_us"]) for m in report["measurements"]}, {4})

    def test_without_its_journal_a_run_cannot_be_gone_on_with(self):
        folder, _ = self.ended(2)
        (folder / "measurements.jsonl").unlink()
        self.refuse(says=["measurements.jsonl"])

    def test_a_journal_that_cannot_be_read_is_refused(self):
        earlier, _ = self.ended(2)
        journal = earlier / "measurements.jsonl"
        content = journal.read_text()
        journal.chmod(0)
        done = self.run_it(*SIM, *PLAN, "--resume", program=[*ANY_USER, PROGRAM])
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("measurements.jsonl' cannot be read (Permission denied)", done.stderr)
        for make in (journal.mkdir, lambda: os.mkfifo(journal), lambda: journal.symlink_to(journal)):
            journal.unlink() if not journal.is_dir() else journal.rmdir()
            make()
            self.refuse(says=["measurements.jsonl'"])
        journal.unlink()
        journal.write_text(content)
        self.resume()

    def test_a_case_that_failed_stays_failed(self):
        self.ended(2, outcome="failed", because="rank 3 in sample: it died")
        self.resume(exits=12)
        report = read_report(self.folder_of_run() / "report.json")
        self.assertEqual(sorted(m["outcome"] for m in report["measurements"]), ["failed"] + 5 * ["measured"])
        self.assertIn("it died", [m["because"] for m in report["measurements"]][2])

    def test_a_case_that_hung_stays_failed_and_one_that_a_signal_interrupted_is_measured(self):
        self.ended(2, ended_by="no progress in the sample within 30 s", outcome="failed", because="no progress in the sample within 30 s")
        self.resume(exits=12)
        # A launcher that kills soon after the signal may leave the report of before.
        for ended_by in ("ended by SIGTERM", ""):
            with self.subTest(ended_by=ended_by):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                self.ended(2, ended_by=ended_by, outcome="failed", because="ended by SIGTERM")
                self.resume()
                self.assertEqual({m["outcome"] for m in read_report(self.folder_of_run() / "report.json")["measurements"]}, {"measured"})

    def test_a_run_of_another_job_in_the_same_folder_is_not_continued(self):
        """Another cluster's run began later, and so did a short one of the same cluster."""
        for number, (own, other) in enumerate(((["--cluster", "a"], [*PLAN, "--cluster", "b"]), ([], ["--collectives", "all_reduce", "--sizes", "4MiB"]))):
            with self.subTest(own=own, other=other):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                earlier, _ = self.ended(2, how=[*PLAN, *own])
                self.assertEqual(self.run_it(*other, *SIM).returncode, (0, 14)[number])
                self.assertNotEqual(self.folder_of_run(), earlier)
                self.resume("run", *PLAN, *own, "--budget", "50s")
                report = read_report(self.folder_of_run() / "report.json")
                self.assertTrue(any(str(earlier) in remark and "2 results" in remark for remark in report["run"]["remarks"]), report["run"]["remarks"])
                self.assertEqual(len(report["measurements"]), 6)
        self.refuse(says=["nothing is left to measure"])

    def test_the_interrupted_run_is_continued_and_not_an_older_whole_one_of_the_same_options(self):
        self.assertEqual(self.run_it(*PLAN, *SIM).returncode, 0)
        earlier, _ = self.ended(2, how=[*PLAN, "--timeout", "50s"])
        self.resume()
        report = read_report(self.folder_of_run() / "report.json")
        self.assertTrue(any(str(earlier) in remark and "2 results" in remark for remark in report["run"]["remarks"]), report["run"]["remarks"])

    def ended_in_first_case(self, how=(), by="ended by SIGTERM"):
        return self.ended(0, how=how, ended_by=by, outcome="failed", because=by)[0]

    def ended_in_preflight(self, how=()):
        folder = self.ended_in_first_case(how)
        (folder / "measurements.jsonl").unlink()
        return folder

    def test_a_run_that_ended_before_its_first_result_begins_again_whatever_ran_before(self):
        """The runs before are complete, or of other options, and none has results that this one lacks."""
        other, longer = ["--collectives", "broadcast", "--sizes", "64,1GiB"], [*PLAN, "--timeout", "50s"]
        full_disk = "p5bench: 'measurements.jsonl' cannot be written. Make room, or make the folder writable"
        befores = {
            "complete, other": lambda: self.run_it(*other, *SIM),
            "interrupted, other": lambda: self.ended(1, how=other),
            "complete, same": lambda: self.run_it(*PLAN, *SIM)}
        laters = {
            "preflight": self.ended_in_preflight,
            "first case": self.ended_in_first_case,
            "full disk": lambda: self.ended_in_first_case(by=full_disk),
            "preflight, with a limit": lambda: self.ended_in_preflight(longer)}
        for before, make_before in befores.items():
            for later, make_later in laters.items():
                if later.endswith("limit") and before != "complete, other":
                    continue
                with self.subTest(before=before, later=later):
                    shutil.rmtree(self.folder / "out", ignore_errors=True)
                    make_before()
                    earlier = make_later()
                    self.resume()
                    self.assert_continued(earlier, 0)
                    self.assertEqual(read_report(self.folder_of_run() / "report.json")["run"]["seed"], 7)
        self.ended_in_first_case()
        self.assertEqual(self.run_it(*PLAN, *SIM).returncode, 0)
        self.refuse(says=["nothing is left to measure"])

    def test_a_run_without_results_begins_again_whatever_has_changed_since(self):
        for make in (self.ended_in_preflight, self.ended_in_first_case):
            with self.subTest(make=make):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                earlier = make()
                report = json.loads((earlier / "report.json").read_text())
                report["run"]["version"] = "0.0.9"
                report["context"]["env.NCCL_ALGO"] = "Ring"
                (earlier / "report.json").write_text(json.dumps(report))
                self.resume()
                self.assert_continued(earlier, 0)

    def test_of_other_options_no_run_behind_a_complete_one_is_continued(self):
        self.ended(2, how=[*PLAN, "--timeout", "40s"])
        self.assertEqual(self.run_it(*PLAN, "--timeout", "50s", *SIM).returncode, 0)
        earlier = self.ended_in_preflight([*PLAN, "--timeout", "50s"])
        self.resume()
        self.assert_continued(earlier, 0)

    def test_a_later_run_with_nothing_to_continue_or_of_other_options_does_not_hide_the_interrupted_one(self):
        """Later runs: ended in the preflight, in the first case, a soak, and one of other options."""
        def soak():
            self.assertEqual(self.run_it(*PLAN, "--soak", "2s", *SIM).returncode, 0)
            folder = self.folder_of_run()
            self.end(folder, [json.loads(line) for line in (folder / "measurements.jsonl").read_text().splitlines()[:3]], "ended by SIGTERM")

        for later in (self.ended_in_preflight, self.ended_in_first_case, soak, lambda: self.ended(2, how=[*PLAN[:3], "64,1GiB"])):
            with self.subTest(later=later):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                earlier, _ = self.ended(2)
                later()
                self.assertNotEqual(self.folder_of_run(), earlier)
                self.resume()
                report = read_report(self.folder_of_run() / "report.json")
                self.assertTrue(any(str(earlier) in remark and "2 results" in remark for remark in report["run"]["remarks"]), report["run"]["remarks"])
        shutil.rmtree(self.folder / "out")
        soak()
        self.refuse(says=["there is no run in 'out' to go on with"])

    def test_a_folder_of_another_user_that_latest_leads_to_is_not_needed(self):
        for variables in ({}, {"SLURM_JOB_ID": "77", "SLURM_RESTART_COUNT": "1"}):
            with self.subTest(variables=variables):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                earlier, _ = self.ended(2)
                report = json.loads((earlier / "report.json").read_text())
                report["context"]["env.SLURM_JOB_ID"] = "77"
                (earlier / "report.json").write_text(json.dumps(report))
                self.run_it("--collectives", "all_reduce", "--sizes", "4MiB", *SIM)
                other = self.folder_of_run()
                self.assertNotEqual(other, earlier)
                other.chmod(0)
                self.addCleanup(lambda folder=other: folder.exists() and folder.chmod(0o700))
                done = self.run_it(*PLAN, *SIM, "--resume", program=[*ANY_USER, PROGRAM], variables=variables)
                self.assertEqual(done.returncode, 0, done.stderr)
                remarks = read_report(self.folder_of_run() / "report.json")["run"]["remarks"]
                self.assertTrue(any(str(earlier) in remark and "2 results" in remark for remark in remarks), remarks)
                other.chmod(0o700)
        shutil.rmtree(self.folder / "out")
        self.run_it("--collectives", "all_reduce", "--sizes", "4MiB", *SIM)
        self.folder_of_run().chmod(0)
        done = self.run_it(*PLAN, *SIM, "--resume", program=[*ANY_USER, PROGRAM])
        self.folder_of_run().chmod(0o700)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("cannot be read (Permission denied)", done.stderr)

    def test_a_job_that_slurm_starts_again_continues_its_own_run_alone(self):
        earlier, _ = self.ended(2)
        again = {"SLURM_JOB_ID": "77", "SLURM_RESTART_COUNT": "1"}
        done = self.run_it(*PLAN, *SIM, "--resume", variables=again)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("there is no interrupted run of job 77", done.stderr)
        report = json.loads((earlier / "report.json").read_text())
        report["context"]["env.SLURM_JOB_ID"] = "77"
        (earlier / "report.json").write_text(json.dumps(report))
        done = self.run_it(*PLAN, *SIM, "--resume", variables=again)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_skipped_cases_are_measured(self):
        self.ended(5, ended_by="", outcome="skipped", because="budget")
        self.resume()
        report = read_report(self.folder_of_run() / "report.json")
        self.assertEqual([m["outcome"] for m in report["measurements"]], 6 * ["measured"])

    def test_a_complete_run_has_nothing_left(self):
        self.run_it(*SIM, *PLAN)
        self.refuse(says=["nothing is left to measure"])

    def test_another_plan_or_job_is_refused(self):
        self.ended(6 - 1)
        self.refuse("--collectives", "all_reduce", "--sizes", "64,4MiB,1GiB", says=["all_gather", "not in this plan"])
        self.refuse(*PLAN, "--nodes", "2", says=["cluster", "sim-p5.48xlarge-1n", "sim-p5.48xlarge-2n"])


if __name__ == "__main__":
    main()
