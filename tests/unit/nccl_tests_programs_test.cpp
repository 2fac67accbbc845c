// Several programs of nccl-tests in one log, and the commands that a report gives for them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "bench/base/input.hpp"
#include "bench/base/units.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/nccl_tests.hpp"
#include "reports/writer.hpp"
#include "tests/unit/nccl_tests_import.hpp"

namespace p5::reports::nccl_tests {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// An all_reduce of two ranks on each host, of 1 and 2 MiB.
struct ProgramInLog {
  std::vector<std::string> hosts{"a"};
  double us = 100;                       // of 1 MiB; twice that of 2 MiB
  int wrong = 0;                         // elements of 1 MiB out of place
  std::string options = {}, lines = {};  // behind the head, and below it
  int process = 1;
  std::string name = "all_reduce_perf";
};

std::string text_of_program(const ProgramInLog& program) {
  std::string text = fmt::format(
      "# Collective test starting: {}\n"
      "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
      "validation: 1 graph: 0{}\n{}# Using devices\n",
      program.name, program.options, program.lines);
  const auto ranks = static_cast<int>(2 * program.hosts.size());
  for (int rank = 0; rank < ranks; ++rank)
    text += fmt::format("#  Rank {:2} Group  0 Pid {:6} on {:>10} device {:2} [0000:{:02}:00] NVIDIA H200\n", rank,
                        program.process, program.hosts[static_cast<std::size_t>(rank / 2)], rank % 2, rank % 2);
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n";
  for (const std::uint64_t size : {MiB(1).count, MiB(2).count}) {
    const double us = program.us * static_cast<double>(size) / static_cast<double>(MiB(1).count),
                 algbw = static_cast<double>(size) / (us * 1e3);
    const std::string figures = fmt::format("{:.2f} {:.2f} {:.2f}", us, algbw, algbw * 2 * (ranks - 1) / ranks);
    text += fmt::format("{} {} float sum -1 {} {} {} 0\n", size, size / 4, figures,
                        size == MiB(1).count ? program.wrong : 0, figures);
  }
  return text + fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : 1\n#\n", program.wrong,
                            program.wrong > 0 ? "FAILED" : "OK");
}

std::vector<std::string> names_of_hosts(const Report& report) {
  std::vector<std::string> names;
  for (const topo::Host& host : report.topology.hosts) names.push_back(host.name);
  return names;
}

// `for host in a b; do ssh $host all_reduce_perf -g 2; done`
TEST(NcclTestsPrograms, of_several_hosts_condemn_none_of_them_and_are_told_of) {
  const std::string good = text_of_program({}), bad = text_of_program({.hosts = {"b"}, .us = 200, .wrong = 7});
  const Report report = import(good + bad, "", "lab").report;
  EXPECT_THAT(names_of_hosts(report), ElementsAre("a", "b"));
  EXPECT_THAT(report.topology.host_of_rank, ElementsAre(0, 0));
  EXPECT_EQ(report.exit_code, ExitCode::wrong_data);
  EXPECT_EQ(report.decision.word, "REJECT");
  EXPECT_THAT(report.decision.parts, IsEmpty());
  EXPECT_THAT(report.run.remarks, Contains("wrong data: it is in the tables of b"));
  EXPECT_THAT(report.run.remarks, Contains(HasSubstr("tables of 2 ranks on 1 node are of other hosts (a; b) and ")));
  EXPECT_EQ(names_of_hosts(report_from_json(parse_json(render_json(report)))), names_of_hosts(report));
  const Report one = import(text_of_program({}) + text_of_program({.wrong = 7, .process = 2}), "", "lab").report;
  EXPECT_THAT(one.decision.parts, ElementsAre("a"));
  EXPECT_THAT(one.run.remarks, Not(Contains(HasSubstr("other hosts"))));
  EXPECT_THAT(one.run.remarks, Not(Contains(HasSubstr("in the tables of"))));
}

TEST(NcclTestsPrograms, of_other_hosts_than_the_largest_add_theirs) {
  const std::string large = text_of_program({.hosts = {"a", "b"}}), small = text_of_program({.hosts = {"c"}});
  for (const std::string& text : {large + small, small + large}) {
    const Report report = import(text, "", "lab").report;
    EXPECT_THAT(names_of_hosts(report), ElementsAre("a", "b", "c"));
    EXPECT_THAT(report.topology.host_of_rank, ElementsAre(0, 0, 1, 1));
    EXPECT_EQ(report.run.ranks, 4);
    EXPECT_THAT(report.run.remarks, Not(Contains(HasSubstr("other hosts")))) << "the cases are others";
  }
}

TEST(NcclTestsPrograms, on_unaligned_buffers_are_cases_of_their_own) {
  const std::string aligned = text_of_program({.options = " unalign: 0"}),
                    unaligned = text_of_program({.us = 200, .options = " unalign: 3", .process = 2});
  const Report report = import(aligned + unaligned, "", "lab").report;
  ASSERT_EQ(report.results.size(), 8u);
  for (const Result& each : report.results) {
    const Measurement& m = each.measurement;
    ASSERT_EQ(m.launches_s.size(), 1u);
    const double us = m.measured_case.bytes == MiB(1) ? 100 : 200;
    EXPECT_NEAR(m.launches_s[0] * 1e6, m.measured_case.calls.unalign == 3 ? 2 * us : us, 1e-6);
  }
  EXPECT_EQ(
      std::ranges::count_if(report.results, [](const Result& r) { return r.measurement.measured_case.calls.unalign; }),
      4);
}

TEST(NcclTestsPrograms, that_waited_for_each_operation_are_no_launches_of_bursts) {
  const std::string waits = "# Blocking Enabled: wait and barrier after each inner iteration (-m) \n";
  const std::string bursts = text_of_program({}), waiting = text_of_program({.us = 200, .lines = waits, .process = 2});
  const std::string key(blocking_context);
  for (const std::string& text : {bursts + waiting, waiting + bursts}) {
    const Report report = import(text, "", "lab").report;
    ASSERT_EQ(report.results.size(), 4u);
    EXPECT_EQ(report.results[0].measurement.launches_s.size(), 1u);
    EXPECT_NEAR(report.results[0].measurement.throughput->summary.median, 100e-6, 1e-12);
    EXPECT_EQ(report.context.at(key), "no");
    EXPECT_THAT(report.run.remarks,
                Contains(HasSubstr("was left out: its operations were waited for one by one (-z)")));
    EXPECT_EQ(report.exit_code, ExitCode::ok);
  }
  const std::string wrong = text_of_program({.wrong = 7, .lines = waits});
  EXPECT_EQ(import(bursts + wrong, "", "lab").report.exit_code, ExitCode::wrong_data);
  const reports::Run one{"one", import(bursts, "", "lab").report, {}},
      other{"other", import(waiting, "", "lab").report, {}};
  EXPECT_EQ(other.report.context.at(key), "yes");
  EXPECT_THROW(compare(make_side("BASE", {&one, 1}), make_side("NEW", {&other, 1}), {.across_hardware = true}),
               UsageError);
  std::vector<reports::Run> history{other, one, other};
  EXPECT_THAT(leave_out_other_waiting(history), ElementsAre("one is left out: its operations were bursts, and here "
                                                            "they are waited for one by one (-z)"));
  EXPECT_EQ(history.size(), 2u);
  history[0].report.context.erase(key);
  EXPECT_THAT(leave_out_other_waiting(history), IsEmpty()) << "not known is no difference";
  const std::string again = render_nccl_tests(other.report);
  EXPECT_THAT(again, HasSubstr(" -z 1\n"));
  EXPECT_EQ(import(again, "", "lab").report.context.at(key), "yes");
}

TEST(NcclTestsPrograms, that_are_left_out_keep_their_wrong_data) {
  const std::string good = text_of_program({}),
                    bad = text_of_program({.hosts = {"b"}, .wrong = 7, .name = "all_reduce_bias_perf"});
  for (const std::string& text : {good + bad, bad + good}) {
    const Report report = import(text, "", "lab").report;
    EXPECT_EQ(report.exit_code, ExitCode::wrong_data);
    ASSERT_EQ(report.findings.size(), 1u);
    EXPECT_EQ(report.findings[0].id, out_of_bounds);
    EXPECT_THAT(report.findings[0].evidence, HasSubstr("7 FAILED' of 'all_reduce_bias_perf'"));
    EXPECT_THAT(report.decision.parts, IsEmpty()) << "the host of the sound table is not condemned";
    EXPECT_THAT(report.run.remarks, Contains("wrong data: it is in the tables of b"));
  }
  std::string without_rows = bad;
  for (std::size_t at = 0; (at = without_rows.find(" float", at)) != std::string::npos; ++at)
    without_rows[at + 1] = '?';
  for (const std::string& text : {bad, without_rows}) {
    const Report alone = import(text, "", "lab").report;
    EXPECT_THAT(alone.results, IsEmpty());
    EXPECT_EQ(alone.exit_code, ExitCode::wrong_data) << "no other table is in the file";
    EXPECT_THAT(alone.run.remarks, Contains(HasSubstr("7 FAILED")));
  }
  std::string died = good + bad.substr(0, bad.find("# Out of bounds"));
  EXPECT_EQ(import(died, "", "lab").report.exit_code, ExitCode::wrong_data);
  died = text_of_program({.wrong = 7});
  died.replace(died.find("float sum"), 9, "other sum");
  died.resize(died.find("# Out of bounds"));
  const Report report = import(died, "", "lab").report;
  EXPECT_EQ(report.exit_code, ExitCode::wrong_data) << "rows of a type that is not known";
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_THAT(report.findings[0].evidence, HasSubstr("nccl-tests counted 7 wrong elements of 'all_reduce_perf'"));
}

TEST(NcclTestsPrograms, of_another_version_of_nccl_are_no_launches_of_the_same_cases) {
  const auto of_version = [](const std::string& code, double us, int process) {
    return "# nccl-tests version 2.17.6 nccl-headers=22704 nccl-library=" + code + "\n" +
           text_of_program({.us = us, .process = process});
  };
  const Report report = import(of_version("22704", 100, 1) + of_version("22807", 200, 2), "", "lab").report;
  EXPECT_NEAR(report.results.at(0).measurement.throughput->summary.median, 100e-6, 1e-12);
  EXPECT_EQ(report.context.at("nccl"), "2.27.4");
  EXPECT_THAT(report.run.remarks,
              Contains(HasSubstr("was left out: it is of NCCL 2.28.7, and those before it of 2.27.4")));
  // The same release, as NCCL and nccl-tests print it.
  std::string by_nccl = text_of_program({.us = 102, .process = 2});
  by_nccl.insert(by_nccl.find("#       size"), "NCCL version 2.27.4+cuda12.9\n");
  const Report same = import(of_version("22704", 100, 1) + by_nccl, "", "lab").report;
  EXPECT_EQ(same.results.at(0).measurement.launches_s.size(), 2u);
  // The table's end is missing, and the next program's version follows.
  const std::string whole = of_version("22704", 100, 1), cut = whole.substr(0, whole.find("# Out of bounds"));
  const Report died = import(cut + of_version("22807", 200, 2), "", "lab").report;
  EXPECT_EQ(died.results.at(0).measurement.launches_s.size(), 1u);
  EXPECT_EQ(died.context.at("nccl"), "2.27.4");
}

// `for algorithm in Ring Tree; do NCCL_ALGO=$algorithm all_reduce_perf; done`: nothing says the settings.
TEST(NcclTestsPrograms, that_are_launches_of_the_same_cases_are_told_with_their_range) {
  const std::string text =
      text_of_program({}) + text_of_program({.us = 150, .process = 2}) + text_of_program({.us = 200, .process = 3});
  EXPECT_THAT(import(text, "", "lab").report.run.remarks,
              Contains(HasSubstr("tables of lines 6, 17, 28 are launches of the same cases: a figure is the median of "
                                 "theirs, which differ most at all_reduce of 1 MiB: 100 to 200 us")));
  EXPECT_THAT(import(text_of_program({}), "", "lab").report.run.remarks, Not(Contains(HasSubstr("launches of"))));
}

// Containers may have the same host name everywhere.
TEST(NcclTestsPrograms, of_hosts_that_share_a_name_need_their_number) {
  const std::string text = text_of_program({.hosts = {"worker", "worker"}});
  EXPECT_THAT(problem_of(text), HasSubstr("ranks 0, 2 are all on GPU 0000:00:00 of 'worker'"));
  EXPECT_THAT(problem_of(text), HasSubstr("say --ranks 4 --hosts N"));
  const Report report = import(text, "", "lab", {.ranks = 4, .hosts = 2}).report;
  EXPECT_EQ(report.run.nodes, 2);
  EXPECT_EQ(report.results.at(0).measurement.measured_case.nodes, 2);
  EXPECT_THROW(import(text, "", "lab", {.ranks = 4, .hosts = 1}), UsageError);
  EXPECT_THROW(import(text, "", "lab", {.ranks = 8, .hosts = 2}), UsageError);
  // Versions before 2.14.1 print the bus alone.
  std::string brief = text;
  for (const auto& [address, bus] : {std::pair{"[0000:00:00]", "[0x10]"}, {"[0000:01:00]", "[0x20]"}})
    for (std::size_t at; (at = brief.find(address)) != std::string::npos;) brief.replace(at, 12, bus);
  EXPECT_THAT(problem_of(brief), HasSubstr("ranks 0, 2 are all on GPU 0 [0x10] of 'worker', so several hosts share "
                                           "this name, or several GPUs this bus; say --ranks 4 --hosts N"));
  for (const int hosts : {1, 2})
    EXPECT_EQ(import(brief, "", "lab", {.ranks = 4, .hosts = hosts}).report.run.nodes, hosts);
}

// `srun -l -N 2 all_reduce_perf -g 2`
TEST(NcclTestsPrograms, side_by_side_under_labels_are_tables_of_their_own) {
  const auto lines_in = [](const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t from = 0; from < text.size(); from = text.find('\n', from) + 1)
      lines.push_back(text.substr(from, text.find('\n', from) - from));
    return lines;
  };
  const std::vector<std::string> one = lines_in(text_of_program({.hosts = {"n0"}})),
                                 other = lines_in(text_of_program({.hosts = {"n1"}, .us = 200, .wrong = 7}));
  ASSERT_EQ(one.size(), other.size());
  constexpr std::size_t size_of_head = 6;
  for (const std::string& time : {std::string(), std::string("with times")}) {
    std::string text = "srun: job 7 queued\n";
    int second = 0;
    const auto add = [&](const char* label, const std::string& line) {
      text +=
          fmt::format("{}{} {}\n", label, time.empty() ? "" : fmt::format(" 2026-11-20T10:00:{:02}Z", second++), line);
    };
    for (std::size_t i = 0; i < size_of_head; ++i) add("0:", one[i]);
    for (std::size_t i = 0; i < size_of_head; ++i) add("1:", other[i]);
    for (std::size_t i = size_of_head; i < one.size(); ++i) {
      add("1:", other[i]);
      add("0:", one[i]);
    }
    const Report report = import(text + "srun: done\n", "", "lab").report;
    EXPECT_EQ(report.status, "complete") << text;
    ASSERT_EQ(report.results.size(), 4u);
    const std::vector<double>& launches = report.results[0].measurement.launches_s;
    ASSERT_EQ(launches.size(), 2u);
    EXPECT_NEAR(launches[0], 100e-6, 1e-12);
    EXPECT_NEAR(launches[1], 200e-6, 1e-12);
    EXPECT_THAT(report.run.remarks, Contains("wrong data: it is in the tables of n1"));
  }
}

// Programs that were built without MPI and started as a job of MPI each use all GPUs of the host.
TEST(NcclTestsPrograms, side_by_side_on_the_same_gpus_are_refused) {
  const std::string one = text_of_program({.hosts = {"n0"}});
  std::string text;
  for (std::size_t from = 0; from < one.size(); from = one.find('\n', from) + 1)
    for (const char* const label : {"0: ", "1: "}) text += label + one.substr(from, one.find('\n', from) + 1 - from);
  EXPECT_THAT([&] { import(text, "", "lab"); }, testing::ThrowsMessage<UsageError>(HasSubstr("MPI=1")));
}

// Folders have names of programs too, as /fsx/nccl_perf/build.
TEST(NcclTestsPrograms, are_named_by_their_commands_and_not_by_folders_or_lines_of_nccl) {
  const auto collective_of_first = [](const std::string& text) {
    return import(text, "", "lab").report.results.at(0).measurement.measured_case.collective->name;
  };
  const std::string whole = text_of_program({}), old = whole.substr(whole.find('\n') + 1);
  const std::string command = "+ mpirun -np 2 /fsx/nccl_perf/build/all_reduce_perf -b 1M\n";
  EXPECT_EQ(collective_of_first(command + old), "all_reduce");
  EXPECT_EQ(collective_of_first(command + "logs go to /fsx/my_perf\n" + old), "all_reduce");
  EXPECT_EQ(collective_of_first("OUT=/fsx/my_perf\n" + command + old), "all_reduce");
  std::string with_nccl = whole;
  with_nccl.insert(with_nccl.find("# Using"),
                   "host:1:1 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /fsx/net_perf/p5.xml\n"
                   "host:1:1 [0] NCCL INFO NET/Plugin: found /opt/plugin_perf\n");
  EXPECT_EQ(collective_of_first(with_nccl), "all_reduce");
  EXPECT_THAT(problem_of(command + "+ mpirun -np 2 ./xyz_perf -b 1M\n" + old), HasSubstr("'xyz_perf' was left out"));
  const std::string other = text_of_program({.name = "xyz_perf"});
  EXPECT_THAT(problem_of(other), HasSubstr("'xyz_perf' was left out"));
  const Report named = import(other, "all_reduce", "lab").report;
  EXPECT_EQ(named.results.at(0).measurement.measured_case.collective->name, "all_reduce");
  EXPECT_THAT(named.run.remarks, Contains("'xyz_perf' is read as all_reduce (--collective)"));
}

// A shell's trace, the kernel or another user's command writes into a log at any time.
TEST(NcclTestsPrograms, are_not_renamed_between_their_first_line_and_their_table) {
  const std::string whole = text_of_program({}), stray = "+ mpirun -np 4 ./all_gather_perf -b 8\n";
  for (const char* const before : {"# nThread", "# Using", "#  Rank  1", "#       size", "2097152 524288", "# Avg"}) {
    std::string text = whole;
    text.insert(text.find(before), stray);
    const Report report = import(text + text_of_program({.process = 2, .name = "reduce_perf"}), "", "lab").report;
    ASSERT_EQ(report.results.size(), 8u) << before;
    EXPECT_EQ(report.results.front().measurement.measured_case.collective->name, "all_reduce") << before;
    EXPECT_EQ(report.results.back().measurement.measured_case.collective->name, "reduce") << before;
  }
}

// 8 B times 2^31 twice is 2^65.
TEST(NcclTestsPrograms, of_sizes_far_apart_have_one_range_that_ends) {
  for (const auto& [first, last, range] :
       {std::tuple{Bytes{8}, GiB(16), "-b 8 -e 17179869184 -f 2147483648 "},
        {Bytes{4}, GiB(8), "-b 4 -e 8589934592 -f 2147483648 "},
        {Bytes{8}, Bytes{std::uint64_t{1} << 60}, "-b 8 -e 1152921504606846976 -f 144115188075855872 "}}) {
    Report report;
    report.run.ranks = 2;
    report.run.nodes = 1;
    report.topology.hosts.resize(1);
    report.topology.hosts[0].name = "a";
    report.topology.host_of_rank = {0, 0};
    for (const Bytes bytes : {first, last}) {
      Measurement& m = report.results.emplace_back().measurement;
      m.measured_case.backend = "nccl";
      m.measured_case.collective = &all_reduce;
      m.measured_case.op = ReduceOp::sum;
      m.measured_case.bytes = bytes;
      m.measured_case.ranks = 2;
      m.throughput = Series{};
      m.throughput->summary.median = static_cast<double>(bytes.count) / 1e11;
    }
    EXPECT_THAT(render_nccl_tests(report), HasSubstr(range));
  }
}

}  // namespace
}  // namespace p5::reports::nccl_tests
