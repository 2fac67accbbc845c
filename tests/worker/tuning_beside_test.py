"""`tune --beside` with real workers on the fakes, whose products take longer the more channels NCCL uses while they run.
What is best beside them is planted on the fake device's clock; the proof runs in fresh processes, on one
host and on two."""

import json
import os
import unittest

from tuning_test import Job
from workers import fake_cublaslt, skip_unless_built

NIGHTLY = bool(os.environ.get("P5BENCH_NIGHTLY"))
GEMM = "gemm:256,128,bf16"
# Each channel under way makes products 12 % longer; operations are as long with 4 channels as with more.
COMPANY = {"P5BENCH_FAKE_CUBLASLT": fake_cublaslt(), "P5BENCH_FAKE_MEMORY": str(32 << 20), "P5BENCH_FAKE_PRODUCT_US": "500",
           "P5BENCH_FAKE_CLOCK": "100", "P5BENCH_FAKE_PRODUCTS": "crowd:gpu=0:percent=12,crowd:gpu=1:percent=12"}
FEW_ARE_SLOW = "slow:rank=0:us=20000:fewer=4,slow:rank=0:us=3000"
# With fewer than 16 channels operations take a third longer alone.
MORE_ARE_FASTER_ALONE = "slow:rank=0:us=4000:fewer=16,slow:rank=0:us=3000"
TOLERANT = ("--alone-loss", "30%")
HOSTS = "#!/bin/sh\nexport NCCL_HOSTID=node$OMPI_COMM_WORLD_RANK\nexec \"$@\"\n"


class Beside(Job):
    def tune(self, *arguments, expected=0, before=(), **variables):
        code, output = self.run_it("tune", "--tuning=quick", "--collectives", "all_gather", "--beside", GEMM, *arguments, before=before,
                                   sizes="1MiB", P5BENCH_QUICK_LIMIT="90s" if NIGHTLY else "30s", **{**COMPANY, **variables})
        self.assertEqual(code, expected, output)
        report = json.loads((self.folder / "out" / "latest" / "report.json").read_text())
        self.check_schema(report)
        return report["tuning"], output

    def written(self, name):
        return (self.folder / "out" / "latest" / name).read_text()

    def assert_takes_4_channels(self, tuning, output):
        self.assertEqual(tuning["outcome"], "settings", output)
        self.assertEqual([row["setting"].split("/")[2] for row in tuning["rows"]], ["4"], output)
        self.assertEqual(tuning["beside"], {"works": [GEMM], "alone_loss": 0.3})
        (confirmed,) = [each for each in tuning["confirmations"] if each["setting"]]
        self.assertGreater(confirmed["gain"]["share"], 0.05, output)
        self.assertGreater(confirmed["alone_gain"]["share"], -0.3, output)
        self.assertIsNone(confirmed["launched_gain"])
        (cell,) = tuning["cells"]
        self.assertEqual(len(cell["operations"]), 2)
        self.assertTrue(any(each["setting"] == cell["winner"] and each["alone_us"] > 0 for each in cell["settings"]), cell)

    def test_the_channels_that_are_best_beside_the_products_are_taken_and_the_files_say_beside_what(self):
        tuning, output = self.tune(*TOLERANT, P5BENCH_FAKE=FEW_ARE_SLOW)
        self.assert_takes_4_channels(tuning, output)
        self.assertIn(f"for operations beside {GEMM}: times are until all of it is done", output)
        self.assertRegex(output, "all_gather 1 MiB: .* less .*; alone ")
        for name in ("nccl.env", "nccl.env.sh", "nccl.conf", "nccl-tuner.csv", "nccl-configmap.yaml"):
            self.assertIn(f"#   operations beside {GEMM}; alone none is slower by more than 30 %\n", self.written(name), name)
        self.assertIn(f"\nP5BENCH_TUNER_BESIDE={GEMM}\n", self.written("nccl.env"))
        self.assertIn("until the operation and the work beside it are done", self.written("nccl.env"))

    @unittest.skipUnless(NIGHTLY, "nightly: tuning_test.py has hosts")
    def test_hosts_of_their_own_have_it_too(self):
        wrapper = self.folder / "per-rank"
        wrapper.write_text(HOSTS)
        wrapper.chmod(0o755)
        tuning, output = self.tune(*TOLERANT, before=[str(wrapper)], P5BENCH_FAKE=FEW_ARE_SLOW)
        self.assertEqual((tuning["ranks"], tuning["nodes"]), (2, 2))
        self.assert_takes_4_channels(tuning, output)

    def test_what_is_too_slow_alone_is_not_taken_unless_the_operator_allows_it(self):
        tuning, output = self.tune(P5BENCH_FAKE=MORE_ARE_FASTER_ALONE)
        self.assertEqual((tuning["outcome"], tuning["rows"]), ("nothing", []), output)
        if not NIGHTLY:
            return  # by day other tests allow a loss
        tuning, output = self.tune("--alone-loss", "60%", P5BENCH_FAKE=MORE_ARE_FASTER_ALONE)
        self.assertEqual(tuning["outcome"], "settings", output)
        self.assertEqual(tuning["beside"]["alone_loss"], 0.6)
        for row in tuning["rows"]:
            self.assertLess(int(row["setting"].split("/")[2]), 16, output)

    def test_wrong_data_beside_the_products_is_never_taken(self):
        tuning, output = self.tune(P5BENCH_FAKE=f"wrong:rank=1:operation=1+:what=bit:setting=ring/ll,{FEW_ARE_SLOW}")
        self.assertTrue(tuning["failures"], output)
        self.assertTrue(all(each["wrong_data"] and each["setting"].startswith("ring/ll") for each in tuning["failures"]), output)
        self.assertFalse([row for row in tuning["rows"] if row["setting"].split("/")[:2] == ["ring", "ll"]], output)

    def test_variables_are_searched_beside_the_products(self):
        tuning, output = self.tune("--delivery", "env", P5BENCH_FAKE="slow:rank=0:us=3000:variable=NCCL_MAX_CTAS,slow:rank=0:us=6000")
        arms = {each["name"]: each for each in tuning["arms"]}
        self.assertIn("NCCL_MAX_CTAS=4", arms, output)
        self.assertGreater(arms["NCCL_MAX_CTAS=4"]["alone_speedup"], 1.2)
        self.assertIn("NCCL_MAX_CTAS", tuning["environment"], output)
        self.assertIn(f"operations beside {GEMM}", self.written("nccl.env"))
        self.assertRegex(self.written("nccl.env"), r"# 1\.\d+ times as fast as the default, until .*; operations alone \d\.\d+ times\.")

    def test_without_cublaslt_nothing_was_tuned_and_that_is_the_reason(self):
        for arguments in ([], ["--delivery", "env"]):
            tuning, output = self.tune(*arguments, expected=14, P5BENCH_FAKE_CUBLASLT="")
            self.assertEqual((tuning["outcome"], tuning["arms"], tuning["failures"]), ("refused", [], []), output)
            self.assertRegex(tuning["because"], f"^{GEMM}: .*cu[bB][lL][aA][sS]Lt")
            self.assertIn("# Undecided: ", self.written("nccl.env"))

    @unittest.skipUnless(NIGHTLY, "nightly: takes half a minute")
    def test_variables_are_taken_where_no_setting_for_sizes_is_confirmed(self):
        # Workers that load the files are slower than those without; faults that come first count.
        slow = [("3000", ":variable=NCCL_MAX_CTAS"), ("20000", ":variable=P5BENCH_TUNER_HASH"), ("2000", ":setting=ring/ll"), ("6000", "")]
        faults = ",".join(f"slow:rank=0:us={us}{where}" for us, where in slow)
        tuning, output = self.tune("--tuning=full", *TOLERANT, P5BENCH_FAKE=faults)
        self.assertIn("did not hold up", json.dumps(tuning["confirmations"]), output)
        self.assertEqual((tuning["outcome"], tuning["rows"]), ("settings", []), output)
        self.assertIn("NCCL_MAX_CTAS", tuning["environment"], output)


class Kept(Job):
    def test_tables_for_other_company_are_not_put_into_one_file(self):
        head = "# nccl-tuner.csv by p5bench 0.2.0, 2026-11-27T12:00:00Z, cluster lab\n"
        company = f"#   operations beside {GEMM}; alone none is slower by more than 2 %\n"
        table = "format,1\nnccl,22803\nranks,32\nnodes,4\nfunction,from,to,algorithm,protocol,channels,chunk,microseconds\n"
        for text, arguments, told in ((head + company, [], f"found for operations beside {GEMM}, and this tuning is for operations alone"),
                                      (head, ["--beside", GEMM], f"found for operations alone, and this tuning is for operations beside {GEMM}")):
            (self.folder / "kept.csv").write_text(text + table)
            code, output = self.run_it("tune", "--tuning=quick", "--collectives", "all_gather", "--keep-table", str(self.folder / "kept.csv"),
                                       *arguments, sizes="1MiB", **COMPANY)
            self.assertEqual(code, 2, output)
            self.assertIn(told, output)
            self.assertFalse((self.folder / "out").exists())

    def test_tables_for_registered_buffers_and_others_are_not_put_into_one_file(self):
        head = "# nccl-tuner.csv by p5bench 0.2.0, 2026-11-27T12:00:00Z, cluster lab\n"
        table = "format,1\nnccl,22803\nranks,32\nnodes,4\nfunction,from,to,algorithm,protocol,channels,chunk,microseconds\n"
        too, others = "for calls on registered buffers too", "for calls on buffers that are not registered"
        for text, variables, its, ours in ((head + "#   P5BENCH_TUNER_REGISTERED rows\n", {}, too, others),
                                           (head, {"P5BENCH_TUNER_REGISTERED": "rows"}, others, too)):
            (self.folder / "kept.csv").write_text(text + table)
            code, output = self.run_it("tune", "--tuning=quick", "--keep-table", str(self.folder / "kept.csv"), sizes="1MiB", **variables)
            self.assertEqual(code, 2, output)
            self.assertRegex(output, rf"its settings are {its} \(.*\), and this tuning is {ours} \(")


class Loaded(Job):
    def test_a_run_beside_something_else_is_told_what_its_settings_are_for(self):
        file = self.folder / "nccl.conf"
        gather = "all_gather:64KiB"
        file.write_text(f"P5BENCH_TUNER_BESIDE={gather}\n")
        in_variable, in_file = {"P5BENCH_TUNER_BESIDE": gather}, {"NCCL_CONF_FILE": str(file)}
        for arguments, loaded, told in (([], in_file, "not for operations alone"),
                                        (["--beside", gather], {"P5BENCH_TUNER_BESIDE": GEMM}, f"not for operations beside {gather}"),
                                        (["--beside", gather], in_variable, "")):
            _, output = self.run_it("run", "--tuning=off", "--collectives", "all_reduce", "--budget", "3s", *arguments, sizes="64KiB",
                                    **loaded)
            remarks = json.loads((self.folder / "out" / "latest" / "report.json").read_text())["run"]["remarks"]
            found = [each for each in remarks if "P5BENCH_TUNER_BESIDE" in each]
            self.assertEqual(len(found), 1 if told else 0, remarks)
            if told:
                self.assertIn(told, found[0])


if __name__ == "__main__":
    skip_unless_built()
    unittest.main(verbosity=2)
