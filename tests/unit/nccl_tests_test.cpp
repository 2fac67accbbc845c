// Output of all versions of nccl-tests becomes a report; incomplete or foreign text is refused by line.
#include "reports/nccl_tests.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "bench/base/error.hpp"
#include "bench/model/traffic.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/findings.hpp"
#include "reports/writer.hpp"
#include "tests/unit/nccl_tests_import.hpp"

namespace p5::reports::nccl_tests {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string recorded(const std::string& name) {
  const auto folder = std::filesystem::path(P5BENCH_SOURCE_FOLDER) / "tests/fixtures/nccl-tests";
  std::ostringstream text;
  text << std::ifstream(folder / name).rdbuf();
  EXPECT_FALSE(text.str().empty()) << folder / name;
  return text.str();
}

// Written by hand in the columns of version 2.0: redop only for reductions, the largest deviation as error.
const std::string all_gather_2_0 = R"($ ./build/all_gather_perf -b 32M -e 64M -f 2 -g 2
# nThread 1 nGpus 2 minBytes 33554432 maxBytes 67108864 step: 2(factor) warmup iters: 5 iters: 20 validation: 1 
#
# Using devices
#   Rank  0 Pid   1320 on  ip-10-0-0-1 device  0 [0x00] Tesla V100-SXM2-16GB
#   Rank  1 Pid   1320 on  ip-10-0-0-1 device  1 [0x00] Tesla V100-SXM2-16GB
#
#                                             out-of-place                       in-place          
#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)             (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
    33554432       4194304   float    817.8   41.03   20.51  0e+00    785.1   42.74   21.37  0e+00
    67108864       8388608   float   1568.3   42.79   21.40  0e+00   1560.9   42.99   21.50  0e+00
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 21.195 
#
)";

// 2.10: redop has a column, which alltoall leaves empty.
const std::string alltoall_2_10 = R"(# alltoall_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1048576 step: 1048576(bytes) warmup iters: 5 iters: 20 validation: 1 
#
# Using devices
#   Rank  0 Pid 1821213 on node-a device  0 [0x00] NVIDIA A100-SXM4-40GB
#   Rank  1 Pid 1821214 on node-b device  0 [0x00] NVIDIA A100-SXM4-40GB
#
#                                                       out-of-place                       in-place          
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
     1048576        131072     float            162.1    6.47    3.23  0e+00    162.0    6.47    3.24    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 3.235 
#
)";

// 2.13 to 2.19: redop and root always, a count of wrong elements.
std::string all_reduce_2_13(const std::string& times = "1400.0", const std::string& wrong = "0") {
  const double algbw = 268435456 / (std::stod(times) * 1e3);
  return R"(# nThread 1 nGpus 1 minBytes 268435456 maxBytes 268435456 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 2 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1887 on   worker-0 device  0 [0x8d] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1888 on   worker-0 device  1 [0x91] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid   1885 on   worker-1 device  0 [0x8d] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid   1886 on   worker-1 device  1 [0x91] NVIDIA H100 80GB HBM3
NCCL version 2.18.3+cuda12.2
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
worker-0:1887:1950 [0] NCCL INFO comm 0x55 rank 0 nranks 4 - Init COMPLETE
   268435456      67108864     float     sum      -1   )" +
         times + fmt::format("  {:.2f}  {:.2f}      ", algbw, 1.5 * algbw) + wrong +
         R"(    1410.0  190.38  285.57      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 286.59 
#
)";
}

const std::string program = "mpirun -np 4 ./build/all_reduce_perf -b 256M -e 256M\n";

std::string prefixed(const std::string& text, const std::string& prefix) {
  std::istringstream lines(text);
  std::string all, line;
  while (std::getline(lines, line)) all += prefix + line + "\n";
  return all;
}

TEST(NcclTests, of_version_2_0_are_read) {
  const Report report = import(all_gather_2_0, "", "lab").report;
  ASSERT_EQ(report.results.size(), 4u);
  const Measurement& m = report.results[3].measurement;
  EXPECT_EQ(m.measured_case.collective, &all_gather);
  EXPECT_EQ(m.measured_case.bytes, MiB(64));
  EXPECT_EQ(m.measured_case.bytes_per_rank, MiB(32));
  EXPECT_TRUE(m.measured_case.in_place);
  EXPECT_FALSE(m.measured_case.op);
  EXPECT_FALSE(m.measured_case.root);
  EXPECT_EQ(m.measured_case.ranks, 2);
  EXPECT_EQ(m.measured_case.nodes, 1);
  EXPECT_NEAR(m.throughput->summary.median, 1560.9e-6, 1e-12);
  EXPECT_FALSE(m.throughput->summary.interval);
  EXPECT_EQ(m.throughput->operations_per_sample, 20);
  EXPECT_FALSE(m.latency);
  EXPECT_NEAR(bus_bandwidth(m.measured_case, {m.throughput->summary.median}).count, 21.50, 0.01);
  EXPECT_EQ(report.provenance, "imported");
  EXPECT_EQ(report.topology.hosts.at(0).gpu_devices.at(1).name, "Tesla V100-SXM2-16GB");
  EXPECT_THAT(report.run.remarks, Contains(HasSubstr("wrong elements were not counted")));
}

TEST(NcclTests, with_an_empty_redop_are_read_and_an_operation_that_is_none_is_left_out) {
  const Report report = import(alltoall_2_10, "", "lab").report;
  ASSERT_EQ(report.results.size(), 1u);
  EXPECT_EQ(report.results[0].measurement.measured_case.collective->name, "all_to_all");
  EXPECT_EQ(report.results[0].measurement.measured_case.nodes, 2);
}

// nccl-tests runs them in place too, and never checks the data there: without a check (-c 0) nothing else tells.
TEST(NcclTests, of_operations_without_an_in_place_form_have_no_rows_in_place) {
  for (const char* const name : {"alltoall", "sendrecv", "hypercube"})
    for (const char* const checked : {"0e+00", "  N/A"}) {
      std::string table = alltoall_2_10;
      table.replace(table.find("alltoall"), 8, name);
      table.replace(table.find("0e+00"), 5, checked);
      const Report report = import(table, "", "lab").report;
      ASSERT_EQ(report.results.size(), 1u) << name << checked;
      EXPECT_FALSE(report.results[0].measurement.measured_case.in_place);
    }
}

TEST(NcclTests, of_version_2_13_are_read) {
  const Report report = import(program + all_reduce_2_13(), "", "lab").report;
  ASSERT_EQ(report.results.size(), 2u);
  const Measurement& m = report.results[0].measurement;
  EXPECT_EQ(m.measured_case.op, ReduceOp::sum);
  EXPECT_EQ(m.measured_case.nodes, 2);
  EXPECT_EQ(m.throughput->operations_per_sample, 40);
  EXPECT_EQ(report.context.at("nccl"), "2.18.3+cuda12.2");
  EXPECT_EQ(report.exit_code, ExitCode::ok);
}

TEST(NcclTests, count_wrong_elements) {
  const Report report = import(program + all_reduce_2_13("1400.0", "7"), "", "lab").report;
  EXPECT_EQ(report.results[0].measurement.wrong_elements, 7u);
  EXPECT_EQ(report.results[0].verdict.grade, Grade::wrong);
  EXPECT_EQ(report.exit_code, ExitCode::wrong_data);
}

TEST(NcclTests, out_of_bounds_without_a_count_is_a_finding) {
  std::string text = all_gather_2_0;
  text.replace(text.find("0 OK"), 4, "3 FAILED");
  const Report report = import(text, "", "lab").report;
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].id, "import.out_of_bounds");
  EXPECT_EQ(std::ranges::count(finding_kinds(), report.findings[0].id, &topo::FindingKind::id), 1);
  EXPECT_EQ(report.exit_code, ExitCode::wrong_data);
}

TEST(NcclTests, out_of_bounds_is_said_and_graded_as_wrong_data) {
  for (const char* footer : {"3 FAILED", "3 OK", "FAILED"}) {
    std::string text = all_gather_2_0;
    text.replace(text.find("0 OK"), 4, footer);
    const Report report = import(text, "", "lab").report;
    EXPECT_EQ(report.grade, Grade::wrong) << footer;
    EXPECT_EQ(report.exit_code, ExitCode::wrong_data) << footer;
    EXPECT_THAT(report.run.remarks.front(), HasSubstr("wrong data: nccl-tests says 'Out of bounds values : "))
        << footer;
    EXPECT_EQ(report_from_json(to_json(report)).grade, Grade::wrong) << footer;
  }
}

TEST(NcclTests, are_read_behind_what_launchers_print) {
  const std::string whole = program + all_reduce_2_13();
  const nlohmann::json plain = to_json(import(whole, "", "lab").report).at("measurements");
  for (const char* prefix : {"[1,0]<stdout>:", "[1,0]<stdout>: ", "0: ", " 0: ", "[0] ",
                             "worker-0: ", "2026-11-20T10:00:00.123456789Z ", "2026-11-20 10:00:00.1 [1,0]<stdout>:"})
    EXPECT_EQ(to_json(import(prefixed(whole, prefix), "", "lab").report).at("measurements"), plain) << prefix;
}

TEST(NcclTests, recorded_on_four_gpus_are_read) {
  const Imported imported = import(recorded("2.19.6-reduce_scatter-alltoall-broadcast.txt"), "", "h200");
  const Report& report = imported.report;
  EXPECT_EQ(report.run.ranks, 4);
  EXPECT_EQ(report.context.at("nccl-tests"), "2.19.6");
  EXPECT_EQ(report.context.at("nccl"), "2.28.3");
  // 27 sizes of at least 4 bytes per rank: from 64 B for the first two, in place for one, from 8 B for broadcast.
  int of_reduce_scatter = 0, of_all_to_all = 0, of_broadcast = 0;
  for (const Result& result : report.results) {
    const Measurement& m = result.measurement;
    of_reduce_scatter += m.measured_case.collective == &reduce_scatter;
    of_all_to_all += m.measured_case.collective->name == "all_to_all";
    of_broadcast += m.measured_case.collective->name == "broadcast";
    if (m.measured_case.collective->name == "broadcast") {
      EXPECT_EQ(m.measured_case.root, 0);
    }
  }
  EXPECT_EQ(of_reduce_scatter, 2 * 27);
  EXPECT_EQ(of_all_to_all, 27);
  EXPECT_EQ(of_broadcast, 2 * 30);
  EXPECT_THAT(report.run.remarks, Contains(HasSubstr("0 B were left out")));
  EXPECT_EQ(imported.journal.size(), report.results.size());
}

TEST(NcclTests, of_graphs_are_cases_of_graphs) {
  for (const Result& result : import(recorded("2.19.6-all_reduce-graph.txt"), "", "h200").report.results)
    EXPECT_TRUE(result.measurement.measured_case.calls.cuda_graph);
}

TEST(NcclTests, more_columns_of_later_versions_are_passed_over) {
  const std::string text = R"(# nccl-tests version 2.19.6 nccl-headers=22803 nccl-library=22803
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0
# Using devices
#  Rank  0 Group  0 Pid   2397 on         vm device  0 [0000:00:06] NVIDIA H200
#  Rank  1 Group  0 Pid   2397 on         vm device  1 [0000:00:07] NVIDIA H200
#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv% 
           8             2     float     sum      -1     7.57    0.00    0.00       0     7.10     8.90     8.90     4.20     7.72    0.00    0.00       0     7.20     9.10     9.10     5.00
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.001 
# Collective test starting: all_gather_perf
# nThread 1 nGpus 2 minBytes 64 maxBytes 64 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0
# Using devices
#  Rank  0 Group  0 Pid   2397 on         vm device  0 [0000:00:06] NVIDIA H200
#  Rank  1 Group  0 Pid   2397 on         vm device  1 [0000:00:07] NVIDIA H200
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong           timestamp
          64            16     float    none      -1     5.00    0.01    0.01       0     5.10    0.01    0.01       0  2026-11-20 10:00:00
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.01 
)";
  const Report report = import(text, "", "lab").report;
  ASSERT_EQ(report.results.size(), 4u);
  EXPECT_NEAR(report.results[1].measurement.throughput->summary.median, 7.72e-6, 1e-12);
  EXPECT_NEAR(report.results[3].measurement.throughput->summary.median, 5.10e-6, 1e-12);
  EXPECT_EQ(report.run.started, "2026-11-20T10:00:00Z") << "of the first row that has it";
}

TEST(NcclTests, of_several_runs_in_one_file_are_as_many_launches) {
  const Imported imported = import(
      program + all_reduce_2_13("1400.0") + program + all_reduce_2_13("1420.0") + program + all_reduce_2_13("1500.0"),
      "", "lab");
  ASSERT_EQ(imported.report.results.size(), 2u);
  const Measurement& m = imported.report.results[0].measurement;
  ASSERT_EQ(m.launches_s.size(), 3u);
  EXPECT_NEAR(m.launches_s[2], 1500e-6, 1e-12);
  EXPECT_NEAR(m.throughput->summary.median, 1420e-6, 1e-12);
  EXPECT_EQ(imported.journal.size(), 6u);
  EXPECT_EQ(imported.journal[2].measurement.launch, 2);
}

TEST(NcclTests, can_be_compared_with_each_other) {
  const reports::Run old_run{"old", import(program + all_reduce_2_13("1400.0"), "", "lab").report, {}};
  const reports::Run new_run{"new", import(program + all_reduce_2_13("1800.0"), "", "lab").report, {}};
  const Comparison c = compare(make_side("BASE", {&old_run, 1}), make_side("NEW", {&new_run, 1}));
  EXPECT_EQ(c.provenance, "imported");
  EXPECT_EQ(c.answer, Answer::regression);
  EXPECT_TRUE(c.screening);
}

// Formats a figure like nccl-tests since 2.17: fewer decimals for larger figures, and two digits from 10 s on.
std::string as_printed(double value) {
  constexpr int width = 7;
  int power = 0;
  for (double limit = 1; value >= limit; limit *= 10) ++power;
  if (power < width - 2) return fmt::format("{:.2f}", value);
  if (power < width - 1) return fmt::format("{:.1f}", value);
  if (power < width + 1) return fmt::format("{:.0f}", value);
  return fmt::format("{:.1e}", value);
}

// An all_reduce of four ranks with a row per size and the given times in microseconds.
std::string table_of_times(const std::vector<std::pair<std::uint64_t, double>>& rows) {
  std::string text =
      program + "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1\n";
  for (int rank = 0; rank < 4; ++rank)
    text += fmt::format("#  Rank  {0} Group  0 Pid   188{0} on   worker-{1} device  {2} [0x8d] NVIDIA H100 80GB HBM3\n",
                        rank, rank / 2, rank % 2);
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n";
  for (const auto& [bytes, us] : rows) {
    const double algbw = static_cast<double>(bytes) / (us * 1e3);
    const std::string half = fmt::format("{} {} {} 0", as_printed(us), as_printed(algbw), as_printed(1.5 * algbw));
    text += fmt::format("{} {} float sum -1 {} {}\n", bytes, bytes / 4, half, half);
  }
  return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1\n";
}

TEST(NcclTests, times_of_two_digits_come_from_the_bandwidth) {
  const Report report = import(table_of_times({{GiB(16).count, 16.49e6}, {MiB(1).count, 100.04}}), "", "lab").report;
  const Series& large = *report.results[0].measurement.throughput;
  EXPECT_NEAR(large.summary.median, 16.49, 0.06) << "not 16.0";
  EXPECT_NEAR(*large.rounding_us, 16.49e6 * 0.005 / 1.5 / 1.04, 1e4) << "of busbw, which has the most digits";
  const Series& small = *report.results[2].measurement.throughput;
  EXPECT_DOUBLE_EQ(small.summary.median, 100.04e-6);
  EXPECT_NEAR(*small.rounding_us, 0.005, 1e-9);
}

TEST(NcclTests, bandwidths_of_hypercube_which_are_of_other_bytes_do_not_give_the_time) {
  std::string text = table_of_times({{GiB(16).count, 16.49e6}});
  text.replace(text.find("all_reduce_perf"), 15, "hypercube_perf");
  text.replace(text.find(" sum "), 5, " none ");
  for (const std::string figure : {" 1.04 ", " 1.56 "})
    for (std::size_t at = 0; (at = text.find(figure, at)) != std::string::npos;)
      text.replace(at, figure.size(), " 2.50 ");
  EXPECT_DOUBLE_EQ(import(text, "", "lab").report.results[0].measurement.throughput->summary.median, 16);
}

TEST(NcclTests, of_which_a_time_contradicts_its_bandwidth_are_refused_by_line) {
  std::string other = program + all_reduce_2_13();
  other.replace(other.find("191.74"), 6, "291.74");
  EXPECT_THAT(problem_of(other), HasSubstr("line 15: 268435456 B in 1400 us are 191.7 GB/s, but its algbw is 291.74"));
  for (const char* unit : {"(ms)", "(s)"}) {
    std::string text = program + all_reduce_2_13();
    text.replace(text.find("(us)"), 4, unit);
    EXPECT_THAT(problem_of(text), HasSubstr(fmt::format("line 13: its figures are in {}", unit)));
  }
  std::string rate = program + all_reduce_2_13();
  rate.replace(rate.find("(GB/s)"), 6, "(GiB/s)");
  EXPECT_THAT(problem_of(rate), HasSubstr("its figures are in (GiB/s)"));
  // Milliseconds where no line has the units.
  std::string text = program + all_reduce_2_13();
  text.erase(text.find("#        (B)"), text.find("worker-0:1887:1950") - text.find("#        (B)"));
  text.replace(text.find("1410.0"), 6, "1.4100");
  EXPECT_THAT(problem_of(text), HasSubstr("its times are in another unit"));
}

// Two runs whose bandwidths differ by at most 0.05 %, so that they round to either side.
TEST(NcclTests, rounding_alone_is_seldom_called_a_difference) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform;
  int regressions = 0, pairs_marked = 0;
  const int pairs = std::getenv("P5BENCH_NIGHTLY") ? 500 : 100;
  for (int i = 0; i < pairs; ++i) {
    std::vector<std::pair<std::uint64_t, double>> base, fresh;
    for (int row = 0; row < 4; ++row) {
      const double us = std::exp(std::log(6e7) * uniform(random));  // 1 us to 60 s
      const double rate = 0.5 + 400 * uniform(random);              // GB/s of a large message
      const auto bytes = std::max<std::uint64_t>(8, static_cast<std::uint64_t>(us * 1e3 * rate) / 4 * 4);
      if (std::ranges::find(base, bytes, &std::pair<std::uint64_t, double>::first) != base.end()) continue;
      base.emplace_back(bytes, us);
      fresh.emplace_back(bytes, us * (1 + 0.001 * (uniform(random) - 0.5)));
    }
    const reports::Run one{"old", import(table_of_times(base), "", "lab").report, {}};
    const reports::Run other{"new", import(table_of_times(fresh), "", "lab").report, {}};
    const Comparison c = compare(make_side("BASE", {&one, 1}), make_side("NEW", {&other, 1}));
    regressions += c.answer == Answer::regression;
    pairs_marked += std::ranges::any_of(c.sizes, &SizeRow::marked);
  }
  RecordProperty("regressions", regressions);
  RecordProperty("marked", pairs_marked);
  EXPECT_LE(regressions, pairs * 5 / 100);
  EXPECT_LE(pairs_marked, pairs * 5 / 100);
}

TEST(NcclTests, where_no_column_has_enough_digits_the_interval_is_as_wide_as_the_rounding) {
  // 1 GiB in 18 and in 22 s: 0.06 and 0.05 GB/s.
  const reports::Run one{"old", import(table_of_times({{GiB(1).count, 17.6e6}}), "", "lab").report, {}};
  const reports::Run other{"new", import(table_of_times({{GiB(1).count, 18.4e6}}), "", "lab").report, {}};
  const Comparison c = compare(make_side("BASE", {&one, 1}), make_side("NEW", {&other, 1}));
  EXPECT_EQ(c.bands.front().answer, Answer::inconclusive) << c.bands.front().because;
  EXPECT_LT(c.bands.front().time.interval.low, 1);
}

TEST(NcclTests, whose_bus_bandwidth_fits_no_number_of_ranks_are_imported_with_a_warning) {
  EXPECT_THAT(import(program + all_reduce_2_13(), "", "lab").report.run.remarks, Not(Contains(HasSubstr("x algbw"))));
  std::string text = program + all_reduce_2_13();
  text.replace(text.find("287.61"), 6, "240.00");
  EXPECT_THAT(import(text, "", "lab").report.run.remarks,
              Contains(HasSubstr("busbw = 1.25 x algbw, but all_reduce of 4 ranks has 1.5")));
  // 1.484 of 4.13 ranks: less than the rounding of the figures is no difference.
  text.replace(text.find("240.00"), 6, "284.54");
  EXPECT_THAT(import(text, "", "lab").report.run.remarks, Contains(HasSubstr("busbw = 1.48 x algbw")));
}

TEST(NcclTests, with_a_list_of_ranks_that_is_not_whole_are_refused_with_what_is_missing) {
  const auto without = [](const std::string& first, const std::string& last) {
    std::string text = program + all_reduce_2_13();
    const std::size_t from = text.find("#  Rank  " + first), to = text.find("\n", text.find("#  Rank  " + last));
    return text.replace(from, to - from, "# ...");
  };
  EXPECT_THAT(problem_of(without("1", "2")), HasSubstr("2 of 4 are missing (1, 2)"));
  EXPECT_THAT(problem_of(without("1", "2")), HasSubstr("--ranks 4 --hosts N"));
  EXPECT_THAT(problem_of(without("0", "0")), HasSubstr("1 of 4 is missing (0)"));
  // The figures show ranks beyond the end of the list.
  EXPECT_THAT(problem_of(without("2", "3")), HasSubstr("2 of 4 are missing (2, 3)"));
  std::string gather = all_gather_2_0;
  gather.erase(gather.find("#   Rank  1"), gather.find("\n#\n#  ") - gather.find("#   Rank  1"));
  EXPECT_THAT(problem_of(gather), HasSubstr("1 of 2 is missing (1)")) << "sizes are as many times the elements";
  const Report report = import(without("1", "2"), "", "lab", {.ranks = 4, .hosts = 2}).report;
  EXPECT_EQ(report.run.ranks, 4);
  EXPECT_EQ(report.results.at(0).measurement.measured_case.nodes, 2);
  EXPECT_THAT(problem_of(without("1", "2"), "", {.ranks = 4, .hosts = 1}), HasSubstr("the file lists 2 hosts, not 1"));
}

TEST(NcclTests, are_not_of_another_number_of_ranks_than_they_list) {
  EXPECT_THROW(import(program + all_reduce_2_13(), "", "lab", {.ranks = 8, .hosts = 2}), UsageError);
  EXPECT_NO_THROW(import(program + all_reduce_2_13(), "", "lab", {.ranks = 4, .hosts = 2}));
}

// The program's name is not in a table of before 2.17.
TEST(NcclTests, of_another_collective_than_is_given_are_refused) {
  std::string text = all_reduce_2_13();
  EXPECT_EQ(problem_of(text, "all_reduce"), "imported");
  EXPECT_EQ(problem_of(text, "reduce"),
            "line 11: its figures are those of reduce of no number of ranks, not of 4: check --collective");
  EXPECT_THAT(problem_of(text, "reduce_scatter"), HasSubstr("those of reduce_scatter of no number of ranks, not of 4"));
  std::string bare = text;
  bare.erase(bare.find("#  Rank  0"), bare.find("NCCL version") - bare.find("#  Rank  0"));
  EXPECT_THAT(problem_of(bare, "reduce", {.ranks = 4, .hosts = 2}), HasSubstr("of no number of ranks, not of 4"));
  std::string reduced = text;
  for (const auto& [busbw, algbw] : {std::pair{"287.61", "191.74"}, {"285.57", "190.38"}})
    reduced.replace(reduced.find(busbw), 6, algbw);
  EXPECT_THAT(problem_of(reduced, "all_reduce"), HasSubstr("those of all_reduce of 2 ranks, not of 4"));
  EXPECT_THAT(problem_of(program + reduced), HasSubstr("those of all_reduce of 2 ranks, not of 4"));
  reduced.replace(reduced.find("sum      -1"), 11, "sum       0");
  EXPECT_EQ(problem_of(reduced, "all_reduce"),
            "line 14: all_reduce has no root, and this row has the root 0: it is of another collective");
  EXPECT_EQ(problem_of(reduced, "reduce"), "imported");
  text.replace(text.find(" sum"), 4, "none");
  EXPECT_EQ(problem_of(text, "all_reduce"),
            "line 14: all_reduce takes a reduction, and this row has none: it is of another collective");
  const std::string slow = table_of_times({{KiB(1).count, 20}}).substr(program.size());
  EXPECT_EQ(problem_of(slow, "all_reduce"), "imported");
  EXPECT_THAT(problem_of(slow, "reduce"), HasSubstr("of no number of ranks, not of 4")) << "0.08 GB/s of 0.05";
}

Report of_ours() {
  Report report;
  report.run.version = "1.2.3";
  report.run.ranks = 4;
  report.run.nodes = 2;
  report.context = {
      {"env.NCCL_ALGO", "Ring"}, {"env.FI_PROVIDER", "efa"}, {"env.HOME", "/root"}, {"env.NCCL_X_TOKEN", "set"}};
  report.topology.hosts.resize(2);
  report.topology.hosts[0].name = "a";
  report.topology.hosts[1].name = "b";
  report.topology.host_of_rank = {0, 0, 1, 1};
  for (const Collective* collective : {&all_reduce, &all_gather, &p2p})
    for (const Bytes bytes : {MiB(1), MiB(4), MiB(16)}) {
      Measurement& m = report.results.emplace_back().measurement;
      Case& c = m.measured_case;
      c.backend = "nccl";
      c.collective = collective;
      c.bytes = bytes;
      c.ranks = 4;
      c.nodes = 2;
      c.in_place = collective == &all_gather;
      if (collective->reduces) c.op = ReduceOp::sum;
      m.throughput = Series{};
      m.throughput->summary.median = static_cast<double>(bytes.count) / 1e11;
    }
  return report;
}

// nccl-tests' HyperCubeGetBw gives the bytes that leave a rank as algbw too.
TEST(NcclTests, algbw_of_hypercube_is_its_busbw_and_no_sign_of_other_ranks) {
  std::string text = program + all_reduce_2_13();
  text.replace(text.find("all_reduce_perf"), 15, "hypercube_perf");
  text.replace(text.find("   sum"), 6, "  none");
  const Report report = import(text, "", "lab").report;
  EXPECT_THAT(report.run.remarks, Not(Contains(HasSubstr("its figures are of another number of ranks"))));
  Report ours = of_ours();
  ours.results.resize(1);
  Measurement& m = ours.results.front().measurement;
  m.measured_case.collective = &hypercube;
  m.measured_case.op.reset();
  const double busbw = bus_bandwidth(m.measured_case, {m.throughput->summary.median}).count;
  EXPECT_THAT(render_nccl_tests(ours), HasSubstr(fmt::format(" {:.2f} {:>7.2f} ", busbw, busbw)));
}

TEST(NcclTests, data_that_was_not_checked_stays_so_from_import_to_import) {
  std::string text = program + all_reduce_2_13();
  for (std::size_t at = 0; (at = text.find("      0  ", at)) != std::string::npos;) text.replace(at, 9, "    N/A  ");
  for (std::size_t at = 0; (at = text.find("      0\n", at)) != std::string::npos;) text.replace(at, 8, "    N/A\n");
  const Report report = import(text, "", "lab").report;
  for (const Result& each : report.results) EXPECT_EQ(each.measurement.data_checked, false);
  const std::string again = render_nccl_tests(report);
  EXPECT_THAT(again, AllOf(HasSubstr(" -c 0"), HasSubstr("times are as imported"), Not(HasSubstr(" -a 3 "))));
  EXPECT_THAT(import(again, "", "lab").report.run.remarks, Contains(HasSubstr("not all data was checked")));
}

TEST(NcclTests, tables_of_a_report_stand_under_the_command_that_shows_the_same) {
  const std::string text = render_nccl_tests(of_ours());
  EXPECT_THAT(text,
              HasSubstr("# mpirun -np 4 -N 2 -x 'FI_PROVIDER=efa' -x 'NCCL_ALGO=Ring' all_reduce_perf -b 1048576 -e "
                        "16777216 -f 4 -g 1 -d float -o sum -n 20 -a 3\n"));
  EXPECT_THAT(text, HasSubstr("all_gather_perf -b 1048576"));
  EXPECT_THAT(text, Not(HasSubstr("TOKEN")));
  EXPECT_THAT(text, HasSubstr("# nccl-tests has nothing like: p2p"));
}

TEST(NcclTests, tables_of_a_report_have_the_wrong_data_of_cases_that_failed_in_another_launch_too) {
  Report ours = of_ours();
  for (Result& each : ours.results) each.measurement.outcome = Outcome::failed;
  for (const std::size_t wrong : {0, 1, 3, 4, 5, 6}) ours.results[wrong].measurement.wrong_elements = wrong + 1;
  ours.results[4].measurement.throughput.reset();
  const std::string text = render_nccl_tests(ours);
  EXPECT_THAT(text, HasSubstr("# Out of bounds values : 3 FAILED\n"));
  EXPECT_THAT(text, HasSubstr("# Out of bounds values : 10 FAILED\n"));
  EXPECT_THAT(text, HasSubstr("# all_gather: 1 measurement gave wrong data and has no row\n"));
  EXPECT_THAT(text, HasSubstr("# all_reduce: 1 measurement failed and has no row\n"));
  EXPECT_THAT(text, HasSubstr("# p2p: 2 measurements failed and have no row\n"));
  EXPECT_THAT(text, HasSubstr("# p2p: 1 measurement gave wrong data and has no row\n"));
  EXPECT_EQ(import(text, "", "lab").report.exit_code, ExitCode::wrong_data);
}

TEST(NcclTests, commands_of_a_report_have_the_cta_policy) {
  for (const auto& [policy, option] : {std::pair{"efficiency", " -x 1"}, {"zero", " -x 2"}}) {
    Report ours = of_ours();
    for (Result& each : ours.results) each.measurement.measured_case.calls.cta_policy = policy;
    EXPECT_THAT(render_nccl_tests(ours), HasSubstr(std::string("-n 20 -a 3") + option + "\n"));
  }
}

TEST(NcclTests, tell_device_initiated_operations_from_those_of_the_host) {
  Report ours = of_ours();
  ours.results.front().measurement.measured_case.collective = &lsa_all_reduce;
  const std::string text = render_nccl_tests(ours);
  EXPECT_THAT(text,
              HasSubstr("# nccl-tests has the like with -R 2 -D 1 or 2, whose tables do not say so: lsa_all_reduce\n"));
  EXPECT_THAT(text, Not(HasSubstr("nothing like: lsa")));
}

TEST(NcclTests, have_nothing_like_tokens) {
  Report ours = of_ours();
  Case& c = ours.results.front().measurement.measured_case;
  c.collective = &dispatch;
  c.op = std::nullopt;
  c.shape.traffic = std::make_shared<const MatrixTraffic>(MatrixTraffic{.name = "expert:128,256,8"});
  EXPECT_THAT(render_nccl_tests(ours), HasSubstr("# nccl-tests has nothing like: dispatch expert:128,256,8, p2p\n"));
}

TEST(NcclTests, tables_of_a_report_are_read_like_nccl_tests_own) {
  const Report ours = of_ours();
  const Report read = import(render_nccl_tests(ours), "", "lab").report;
  ASSERT_EQ(read.results.size(), 6u);
  for (std::size_t i = 0; i < read.results.size(); ++i) {
    // Results in reading order, by collective.
    const Measurement& m = read.results[i].measurement;
    const bool gather = m.measured_case.collective == &all_gather;
    EXPECT_EQ(m.measured_case.in_place, gather);
    EXPECT_EQ(m.measured_case.ranks, 4);
    EXPECT_EQ(m.measured_case.nodes, 2);
    EXPECT_NEAR(m.throughput->summary.median, static_cast<double>(m.measured_case.bytes.count) / 1e11, 5e-9);
  }
  EXPECT_THAT(read.run.remarks, Not(Contains(HasSubstr("x algbw"))));
}

// A log of a scaling test has tables of several numbers of ranks.
TEST(NcclTests, of_several_numbers_of_ranks_stay_apart_in_all_tables) {
  Report ours = of_ours();
  ours.provenance = "imported";
  const std::vector<Result> all = ours.results;
  for (Result each : all) {
    Measurement& m = each.measurement;
    m.measured_case.ranks = 2;
    m.measured_case.nodes = 1;
    m.throughput->summary.median *= 2;
    ours.results.push_back(each);
  }
  const std::string text = render_nccl_tests(ours);
  EXPECT_THAT(text, HasSubstr("# mpirun -np 4 -N 2 "));
  EXPECT_THAT(text, HasSubstr("# mpirun -np 2 -N 2 "));
  const Report read = import(text, "", "lab").report;
  EXPECT_EQ(read.run.ranks, 4);
  ASSERT_EQ(read.results.size(), 12u);
  int few = 0;
  for (const Result& each : read.results) {
    const Case& c = each.measurement.measured_case;
    few += c.ranks == 2;
    EXPECT_EQ(c.nodes, c.ranks / 2);
    EXPECT_NEAR(each.measurement.throughput->summary.median, static_cast<double>(c.bytes.count) / 1e11 * 4 / c.ranks,
                5e-9);
  }
  EXPECT_EQ(few, 6);
  std::vector<int> ranks;
  for (const SummaryRow& row : summary_of(ours))
    if (row.operation == "all_reduce") ranks.push_back(row.ranks);
  EXPECT_THAT(ranks, ElementsAre(2, 4));
  const std::string table = render_table(ours);
  EXPECT_THAT(table, HasSubstr("# all_reduce, 2 ranks on 1 node\n"));
  EXPECT_THAT(table, HasSubstr("# all_reduce, 4 ranks on 2 nodes\n"));
  for (Result& each : ours.results)
    if (Case& c = each.measurement.measured_case; c.ranks == 2) c.ranks = 4;
  EXPECT_EQ(summary_of(ours).at(0).operation + "; " + summary_of(ours).at(1).operation, "p2p, 1 node; p2p, 2 nodes");
  for (Result& each : ours.results)
    if (Case& c = each.measurement.measured_case; c.nodes == 1) c.ranks = 16, c.nodes = 8;
  EXPECT_THAT(render_nccl_tests(ours),
              HasSubstr("# all_reduce of 16 ranks on 8 nodes: no table, since the report does not list their hosts\n"));
}

TEST(NcclTests, keep_what_their_figures_are_from_import_to_import) {
  Report means = of_ours(), simulated = of_ours();
  means.provenance = "imported";
  means.run.remarks = {std::string(means_over_ranks)};
  EXPECT_THAT(import(render_nccl_tests(means), "", "lab").report.run.remarks, Contains(means_over_ranks));
  simulated.provenance = "simulated";
  for (int i = 0; i < 3; ++i) {
    simulated = import(render_nccl_tests(simulated), "", "lab").report;
    EXPECT_THAT(simulated.run.remarks,
                testing::IsSupersetOf({std::string(of_simulator), std::string(of_slowest_ranks)}));
    EXPECT_THAT(simulated.run.remarks, Not(Contains(means_over_ranks)));
    EXPECT_THAT(simulated.decision.sentence, testing::EndsWith(", SIMULATED"));
  }
}

TEST(NcclTests, of_several_programs_are_a_report_of_the_largest) {
  Report ours = of_ours();
  const std::string whole = render_nccl_tests(ours);
  for (Result& each : ours.results) {
    each.measurement.measured_case.group = "node";
    each.measurement.measured_case.ranks = 2;
  }
  EXPECT_EQ(import(render_nccl_tests(ours) + whole, "", "lab").report.run.ranks, of_ours().run.ranks);
}

TEST(NcclTests, tables_of_groups_are_read_with_the_ranks_of_a_group) {
  for (const char* const group : {"node", "rail", "stride:2"}) {
    Report ours = of_ours();
    for (Result& each : ours.results) each.measurement.measured_case.group = group;
    for (Result& each : ours.results) each.measurement.measured_case.ranks = 2;
    const std::string text = render_nccl_tests(ours);
    EXPECT_THAT(text, HasSubstr("Rank  1 Group  " + std::string(*group == 'n' ? "0" : "1"))) << group;
    EXPECT_THAT(text, HasSubstr("Rank  2 Group  " + std::string(*group == 'n' ? "1" : "0"))) << group;
    const Report read = import(text, "", "lab").report;
    ASSERT_EQ(read.results.size(), 6u);
    EXPECT_EQ(read.run.ranks, ours.run.ranks) << "those of all groups";
    EXPECT_EQ(read.run.nodes, ours.run.nodes);
    for (const Result& each : read.results) {
      const Case& c = each.measurement.measured_case;
      EXPECT_EQ(c.ranks, 2) << group;
      EXPECT_EQ(c.nodes, *group == 'n' ? 1 : 2) << group;
      EXPECT_EQ(c.group, "split");
    }
    EXPECT_THAT(read.run.remarks, Not(Contains(HasSubstr("x algbw")))) << group;
  }
}

TEST(NcclTests, tables_of_groups_are_of_groups_that_the_run_had) {
  Report ours = of_ours();
  ours.topology.host_of_rank = {0, 1, 0, 1};
  for (const Result& each : import(render_nccl_tests(ours), "", "lab").report.results)
    EXPECT_EQ(each.measurement.measured_case.nodes, 2);
  for (const std::string group : {"node", "rail", "stride:2"}) {
    for (Result& each : ours.results) each.measurement.measured_case.group = group;
    for (Result& each : ours.results) each.measurement.measured_case.ranks = 2;
    const std::string text = render_nccl_tests(ours);
    if (group == "stride:2") {
      EXPECT_THAT(text, HasSubstr("#  Rank  1 Group  1 Pid      0 on          b "));
      continue;
    }
    EXPECT_THAT(text, Not(HasSubstr("mpirun"))) << group;
    EXPECT_THAT(text, HasSubstr("# nccl-tests has nothing like: all_gather group " + group +
                                " of ranks that are not placed host by host, all_reduce group " + group));
  }
}

TEST(NcclTests, of_hosts_with_unequal_numbers_of_ranks_leave_their_places_to_mpirun) {
  Report ours = of_ours();
  ours.topology.host_of_rank = {0, 0, 0, 1};
  EXPECT_THAT(render_nccl_tests(ours), HasSubstr("# mpirun -np 4 -x "));
  for (Result& each : ours.results) each.measurement.measured_case.group = "node";
  for (Result& each : ours.results) each.measurement.measured_case.ranks = 3;
  const Report read = import(render_nccl_tests(ours), "", "lab").report;
  ASSERT_EQ(read.results.size(), 6u);
  for (const Result& each : read.results) {
    EXPECT_EQ(each.measurement.measured_case.ranks, 3);
    EXPECT_EQ(each.measurement.measured_case.nodes, 1);
  }
  ours.topology.host_of_rank = {0, 1, 1, 1};
  EXPECT_THAT(render_nccl_tests(ours), Not(HasSubstr("mpirun")));
}

TEST(NcclTests, that_do_not_say_what_they_are_need_to_be_told) {
  EXPECT_THAT(problem_of(all_reduce_2_13()), HasSubstr("--collective"));
  EXPECT_EQ(import(all_reduce_2_13(), "all_reduce", "lab").report.results.size(), 2u);
  // The previous program's name applies to that program only.
  EXPECT_THAT(problem_of(program + all_reduce_2_13() + all_reduce_2_13()), HasSubstr("--collective"));
}

TEST(NcclTests, that_say_what_they_are_are_not_of_another_collective) {
  const auto problem_as = [](const std::string& text, const std::string& collective) -> std::string {
    try {
      import(text, collective, "lab");
    } catch (const UsageError& problem) {
      return problem.what();
    }
    return "imported";
  };
  EXPECT_THAT(problem_as(program + all_reduce_2_13(), "broadcast"),
              HasSubstr("line 12: the file is of all_reduce_perf, not of broadcast: leave --collective out"));
  EXPECT_EQ(problem_as(program + all_reduce_2_13(), "all_reduce"), "imported");
  EXPECT_EQ(problem_as(program + all_reduce_2_13() + all_reduce_2_13(), "all_reduce"), "imported");
  EXPECT_EQ(problem_as(all_gather_2_0 + all_reduce_2_13(), "all_reduce"), "imported") << "of the second table";
}

TEST(NcclTests, of_which_no_row_is_whole_are_refused_by_line) {
  const std::string whole = program + all_reduce_2_13();
  EXPECT_THAT(problem_of(""), HasSubstr("line 0"));
  EXPECT_THAT(problem_of("hello\nworld\n"), HasSubstr("line 2: nothing in this file looks like"));
  EXPECT_THAT(problem_of(whole.substr(0, whole.find("  191.74"))), HasSubstr("line 15: no whole row"));
  std::string odd = whole;
  odd.replace(odd.find("1400.0"), 6, "14x0.0");
  EXPECT_THAT(problem_of(odd), HasSubstr("line 15: no whole row"));
  std::string host = whole;
  host.replace(host.find("   time"), 7, "cputime");
  EXPECT_THAT(problem_of(host), HasSubstr("line 12: these are times of the host (-C)"));
}

// Three sizes; lines 14 to 16 are the rows.
const std::string three_sizes = R"(# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid    901 on     node-x device  0 [0000:10:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid    902 on     node-x device  1 [0000:20:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid    801 on     node-y device  0 [0000:10:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid    802 on     node-y device  1 [0000:20:00] NVIDIA H100 80GB HBM3
#
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
     1048576        262144     float     sum      -1    95.00   11.04   16.56      0    96.00   10.92   16.38      0
     2097152        524288     float     sum      -1    130.0   16.13   24.20      0    131.0   16.01   24.01      0
     4194304       1048576     float     sum      -1    210.0   19.97   29.96      0    211.0   19.88   29.82      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 20.5 
#
)";
const std::string of_nccl = "node-y:801:850 [0] NCCL INFO Channel 00/02 :    0   1   2   3\n";
const std::string failure =
    "node-y: Test NCCL failure common.cu:401 'remote process exited or there was a network error / '\n"
    " .. node-y pid 801: Test failure common.cu:519\n";

std::vector<double> times_of(const Report& report) {
  std::vector<double> times;
  for (const Result& each : report.results)
    times.push_back(std::round(each.measurement.throughput->summary.median * 1e9) / 1e3);
  return times;
}

TEST(NcclTests, in_very_long_lines_are_read_at_their_ends_and_that_is_said) {
  const std::vector<double> plain = times_of(import(three_sizes, "", "lab").report);
  for (const std::string unit : {"x", "ab 12 ", "7 ", "node-y:801:850 [0] NCCL INFO Channel 00/02 : 0 1 "}) {
    std::string dots;
    while (dots.size() < 1'000'000) dots += unit;
    std::string text = three_sizes;
    text.insert(text.find("     2097152"), dots + "\n");
    const Report report = import(text, "", "lab").report;
    EXPECT_EQ(times_of(report), plain) << unit;
    EXPECT_THAT(report.run.remarks, Contains(testing::ContainsRegex("line 15: [0-9]+ characters in its middle")))
        << unit;
  }
  std::string text = three_sizes;
  text.insert(text.find("     2097152"), std::string(1'000'000, '.') + "  ");
  EXPECT_EQ(times_of(import(text, "", "lab").report), plain);
}

// The journal has a line for each launch and case.
TEST(NcclTests, of_many_runs_in_one_file_have_journals_of_their_own_launches) {
  std::string text;
  for (int run = 0; run < 300; ++run)
    text += std::string(three_sizes).replace(three_sizes.find("901"), 3, std::to_string(1000 + run));
  const Imported imported = import(text, "", "lab");
  ASSERT_EQ(imported.journal.size(), 300u * 6);
  std::size_t held = 0;
  for (const Result& line : imported.journal) held += line.measurement.launches_s.capacity();
  EXPECT_LE(held, imported.journal.size() * 4);
}

TEST(NcclTests, of_the_same_run_count_once) {
  const Report report = import(three_sizes + three_sizes + three_sizes, "", "lab").report;
  EXPECT_EQ(report.results[0].measurement.launches_s.size(), 1u);
  EXPECT_THAT(report.run.remarks, Contains("the table of line 31 is a copy of the table of line 12: it counts once"));
  std::string again = three_sizes;
  again.replace(again.find("   901"), 6, "   951");
  EXPECT_EQ(import(three_sizes + again, "", "lab").report.results[0].measurement.launches_s.size(), 2u);
}

// A report's table has each half in a table of its own.
TEST(NcclTests, of_equal_figures_in_place_and_out_of_place_are_no_copies) {
  std::string text = three_sizes;
  for (const auto& [in_place, out_of_place] : {std::pair{"96.00   10.92   16.38", "95.00   11.04   16.56"},
                                               {"131.0   16.01   24.01", "130.0   16.13   24.20"},
                                               {"211.0   19.88   29.82", "210.0   19.97   29.96"}})
    text.replace(text.find(in_place), std::string_view(in_place).size(), out_of_place);
  const Report report = import(text, "", "lab").report;
  ASSERT_EQ(report.results.size(), 6u);
  const Report again = import(render_nccl_tests(report), "", "lab").report;
  EXPECT_EQ(again.results.size(), 6u);
  EXPECT_THAT(again.run.remarks, Not(Contains(HasSubstr("is a copy of"))));
}

TEST(NcclTests, of_a_single_rank_say_that_nothing_communicates) {
  std::string text = three_sizes;
  for (const char* const rank : {"1", "2", "3"})
    text.erase(
        text.find(fmt::format("#  Rank  {}", rank)),
        text.find("\n", text.find(fmt::format("#  Rank  {}", rank))) - text.find(fmt::format("#  Rank  {}", rank)) + 1);
  for (const char* const busbw : {"16.56", "16.38", "24.20", "24.01", "29.96", "29.82"})
    text.replace(text.find(busbw), 5, " 0.00");
  EXPECT_THAT(import(text, "", "lab").report.run.remarks, Contains(HasSubstr("built without MPI=1")));
}

TEST(NcclTests, name_each_row_that_is_lost) {
  const std::string head = three_sizes.substr(0, three_sizes.find("     1048576"));
  const auto read = [&](const std::vector<std::uint64_t>& sizes, const std::string& range) {
    std::string text = head;
    text.replace(text.find("minBytes"), text.find(" warmup") - text.find("minBytes"), range);
    for (const std::uint64_t size : sizes)
      text += fmt::format("{} {} float sum -1 10.00 {:.2f} {:.2f} 0 10.00 {:.2f} {:.2f} 0\n", size, size / 4,
                          static_cast<double>(size) / 1e4, static_cast<double>(size) * 1.5 / 1e4,
                          static_cast<double>(size) / 1e4, static_cast<double>(size) * 1.5 / 1e4);
    return import(text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1\n", "", "lab").report.run.remarks;
  };
  const std::string doubled = "minBytes 9 maxBytes 80 step: 2(factor)", added = "minBytes 9 maxBytes 45 step: 8(bytes)";
  for (const auto& [sizes, range] : {std::pair{std::vector<std::uint64_t>{8, 16, 36, 72}, doubled},
                                     std::pair{std::vector<std::uint64_t>{8, 16, 24, 32, 40}, added}}) {
    EXPECT_THAT(read(sizes, range), Not(Contains(HasSubstr("missing")))) << range;
    for (std::size_t lost = 1; lost < sizes.size(); ++lost) {
      std::vector<std::uint64_t> rest = sizes;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(lost));
      EXPECT_THAT(read(rest, range), Contains(HasSubstr("rows are missing"))) << range << ", " << sizes[lost];
    }
  }
}

TEST(NcclTests, that_missed_the_bandwidth_demanded_of_them_say_so) {
  std::string text = three_sizes;
  text.insert(text.find("\n", text.find("Avg bus")), "FAILED");
  EXPECT_THAT(import(text, "", "lab").report.run.remarks, Contains(HasSubstr("NCCL_TESTS_MIN_BW")));
  EXPECT_THAT(import(three_sizes, "", "lab").report.run.remarks, Not(Contains(HasSubstr("NCCL_TESTS_MIN_BW"))));
}

TEST(NcclTests, of_times_that_no_report_has_are_refused_by_line) {
  for (const char* time : {"0.0000001", "0.00"}) {
    std::string text = three_sizes;
    text.replace(text.find("    95.00"), 9, fmt::format(" {}", time));
    EXPECT_THAT(problem_of(text), HasSubstr("line 14: ")) << time;
  }
}

// No row is lost wherever whole lines of NCCL are printed into the table.
TEST(NcclTests, with_lines_of_nccl_in_them_are_read_as_without) {
  const std::vector<double> plain = times_of(import(three_sizes, "", "lab").report);
  ASSERT_EQ(plain.size(), 6u);
  for (std::size_t at = three_sizes.find("# Using"); at < three_sizes.size(); ++at) {
    const Report report = import(std::string(three_sizes).insert(at, of_nccl + of_nccl), "", "lab").report;
    ASSERT_EQ(times_of(report), plain) << at << three_sizes.substr(at);
    ASSERT_EQ(report.status, "complete");
  }
}

TEST(NcclTests, with_lines_of_nccl_behind_labels_of_their_own_are_read_as_without) {
  std::string text;
  std::istringstream lines(three_sizes);
  for (std::string line; std::getline(lines, line);) text += line + "\nworker-1: " + of_nccl + "worker-2 | " + of_nccl;
  const std::size_t at = text.find("     2097152") + 20;
  text.insert(at, of_nccl + "worker-1: " + of_nccl);
  EXPECT_EQ(times_of(import(text, "", "lab").report), times_of(import(three_sizes, "", "lab").report));
}

TEST(NcclTests, with_other_text_in_a_row_are_joined_or_told_of) {
  const std::vector<double> plain = times_of(import(three_sizes, "", "lab").report);
  const std::size_t begin = three_sizes.find("     2097152"), end = three_sizes.find("     4194304");
  for (std::size_t at = begin + 1; at < end; ++at) {
    const Report report =
        import(std::string(three_sizes).insert(at, "srun: warning: step 17 is slow\n"), "", "lab").report;
    if (times_of(report) == plain) continue;
    EXPECT_THAT(times_of(report), ElementsAre(95, 96, 210, 211)) << at - begin;
    EXPECT_THAT(report.run.remarks, Contains(testing::ContainsRegex("^lines? 15.*no whole row"))) << at - begin;
  }
  std::string text = three_sizes;
  text.replace(begin, end - begin, "something else\n");  // the only trace is the range of sizes in the head
  EXPECT_THAT(import(text, "", "lab").report.run.remarks, Contains(HasSubstr("before line 16 rows are missing")));
}

TEST(NcclTests, that_died_keep_their_rows_and_say_why) {
  const std::string dead = three_sizes.substr(0, three_sizes.find("     4194304")) + failure;
  const Report alone = import(dead, "", "lab").report;
  EXPECT_EQ(alone.results.size(), 4u);
  EXPECT_EQ(alone.exit_code, ExitCode::unfinished);
  EXPECT_EQ(alone.status, "partial");
  EXPECT_THAT(alone.run.ended_by, HasSubstr("node-y: Test NCCL failure common.cu:401 'remote process exited"));
  const Report beside = import(dead + three_sizes, "", "lab").report;
  EXPECT_EQ(beside.results.size(), 6u);
  EXPECT_EQ(beside.exit_code, ExitCode::unfinished);
  EXPECT_THAT(beside.run.remarks, Contains(HasSubstr("remote process exited")));
  const std::string head = three_sizes.substr(0, three_sizes.find("#  Rank"));
  EXPECT_THAT(problem_of(head + failure), HasSubstr("remote process exited"));
  EXPECT_EQ(import(head + failure + three_sizes, "", "lab").report.exit_code, ExitCode::unfinished);
  EXPECT_EQ(import(three_sizes, "", "lab").report.exit_code, ExitCode::ok);
}

// A process that was killed may leave a whole table.
TEST(NcclTests, of_which_a_process_was_killed_say_so) {
  const std::string mpirun =
      "mpirun noticed that process rank 1 with PID 901 on node node-x exited on signal 9 (Killed).\n";
  for (const std::string& said :
       {mpirun, std::string("prterun noticed that process rank 1 with PID 901 on node a exited on signal 11.\n"),
        std::string("[node-y:801:0:801] Caught signal 11 (Segmentation fault: address not mapped to object)\n"),
        std::string("[node-y:00801] *** Process received signal ***\n"),
        std::string("srun: error: node-y: task 3: Killed\n"),
        std::string("srun: error: node-y: tasks 2-3: Exited with exit code 1\n"),
        std::string(
            "slurmstepd: error: *** STEP 7.0 ON node-x CANCELLED AT 2026-11-20T10:00:00 DUE TO TIME LIMIT ***\n"),
        std::string("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n")})
    for (const bool within : {false, true}) {
      std::string text = three_sizes;
      text.insert(within ? text.find("     2097152") : text.size(), said);
      const Report report = import(text, "", "lab").report;
      EXPECT_EQ(report.results.size(), 6u) << said;
      EXPECT_EQ(report.status, "partial") << said << within;
      EXPECT_EQ(report.exit_code, ExitCode::unfinished) << said << within;
      EXPECT_THAT(report.run.remarks, Contains(HasSubstr(said.substr(0, 30)))) << within;
    }
  EXPECT_EQ(import(mpirun + three_sizes, "", "lab").report.status, "complete") << "of what ran before";
}

// nccl-tests exits with an error where it says FAILED, behind a whole table, and launchers may end the other processes.
TEST(NcclTests, that_say_failed_did_not_die_because_of_their_exit_code) {
  const std::string exit_code = "srun: error: node-y: tasks 2-3: Exited with exit code 1\n";
  const std::string killed = "srun: error: node-y: task 3: Killed\n";
  const std::string step = "slurmstepd: error: *** STEP 7.0 ON node-x CANCELLED AT 2026-11-20T10:00:00";
  const std::string mpich = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 801 RUNNING AT node-y\n";
  const auto with = [](const std::string& line, const std::string& ending) {
    std::string text = three_sizes;
    return text.insert(text.find('\n', text.find(line)), ending);
  };
  const std::string below = with("# Avg bus bandwidth", " FAILED");
  std::string wrong = three_sizes;
  const std::size_t ok = wrong.find("OK", wrong.find("# Out of bounds"));
  wrong.replace(ok, 2, "FAILED");
  for (const std::string& said :
       {exit_code, exit_code + "srun: Terminating StepId=7.0\n" + step + " ***\n", exit_code + killed,
        step + " ***\n" + killed + exit_code, mpich + "=   EXIT CODE: 1\n", mpich + "=   EXIT STATUS: 1\n"}) {
    for (const bool is_within : {false, true}) {
      std::string text = below;
      text.insert(is_within ? text.find("# Avg bus bandwidth") : text.size(), said);
      const Report report = import(text, "", "lab").report;
      EXPECT_EQ(report.status, "complete") << said << is_within;
      EXPECT_EQ(report.exit_code, ExitCode::ok) << said << is_within;
      EXPECT_THAT(report.run.remarks, Contains(HasSubstr("below what was demanded of it"))) << said;
      EXPECT_THAT(report.run.remarks, Not(Contains(HasSubstr("failed behind")))) << said;
    }
    const Report report = import(wrong + said, "", "lab").report;
    EXPECT_EQ(report.exit_code, ExitCode::wrong_data) << said;
    EXPECT_EQ(report.status, "complete") << said;
  }
  for (const std::string& fault :
       {killed, step + " ***\n", exit_code + step + " DUE TO TIME LIMIT ***\n",
        exit_code + "srun: error: node-x: task 0: Exited with exit code 127\n", mpich + "=   EXIT CODE: 127\n",
        mpich + "=   KILLED BY SIGNAL: 9 (Killed)\n",
        exit_code + "[node-y:801:0:801] Caught signal 11 (Segmentation fault: address not mapped to object)\n"}) {
    const Report report = import(below + fault, "", "lab").report;
    EXPECT_EQ(report.status, "partial") << fault;
    EXPECT_EQ(report.exit_code, ExitCode::unfinished) << fault;
  }
  // The lines of an answer leave place for the fault behind them.
  std::string many;
  for (int i = 0; i < 20; ++i) many += exit_code;
  const Report report =
      import(below + many + "srun: error: node-x: task 0: Exited with exit code 127\n", "", "lab").report;
  EXPECT_THAT(report.run.ended_by, HasSubstr("exit code 127"));
  EXPECT_EQ(import(three_sizes + exit_code, "", "lab").report.status, "partial") << "the table does not say FAILED";
}

TEST(NcclTests, that_are_cut_off_anywhere_keep_their_whole_rows) {
  const std::vector<double> plain = times_of(import(three_sizes, "", "lab").report);
  const std::size_t first_end = three_sizes.find("     2097152") - 1;
  for (std::size_t at = first_end; at < three_sizes.find("# Out of"); ++at) {
    const Report report = import(three_sizes.substr(0, at), "", "lab").report;
    const std::vector<double> times = times_of(report);
    EXPECT_TRUE(std::ranges::equal(times, std::vector(plain.begin(), plain.begin() + std::ssize(times)))) << at;
    EXPECT_EQ(times.size() % 2, 0u);
    if (times.size() < 6) {
      EXPECT_EQ(report.exit_code, ExitCode::unfinished) << at;
    }
  }
}

TEST(NcclTests, are_read_behind_any_prefix_and_in_colours) {
  const std::vector<double> plain = times_of(import(three_sizes, "", "lab").report);
  for (const char* prefix : {"<6>bench/4: ", "job_3|out|", "Mar  9 01:02:03 login1 slurm[99]: ", "{app=\"nccl\"} ",
                             "#1 [2/7] RUN ", "worker>\t", "2026-11-20T10:00:00.123Z stdout F ",
                             "[launcher@rank0 1,0]<stdout>: ", "INFO:bench:", "\x1b[36mweb-1  |\x1b[0m "})
    EXPECT_EQ(times_of(import(prefixed(three_sizes, prefix), "", "lab").report), plain) << prefix;
  std::string counted, docker, carriage, member;
  std::istringstream lines(three_sizes);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    counted += fmt::format("{} 10:{:02}:07,{} - ", 1000 + number, number, 100 + number) + line + "\n";
    docker += nlohmann::json{{"log", line + "\n"}, {"stream", "stdout"}}.dump() + "\n";
    carriage += "\x1b[32m" + line + "\x1b[0m\r\n";
  }
  nlohmann::json events;
  for (std::istringstream again(three_sizes); std::getline(again, member);)
    events["events"].push_back({{"message", member}, {"timestamp", 1772366400}});
  EXPECT_EQ(times_of(import(events.dump(1), "", "lab").report), plain);
  EXPECT_EQ(times_of(import(counted, "", "lab").report), plain);
  EXPECT_EQ(times_of(import(docker, "", "lab").report), plain);
  EXPECT_EQ(times_of(import(carriage, "", "lab").report), plain);
}

// The AWS CLI prints events of CloudWatch as words with tabs between them, times at the end; results of a query have
// the line and its time in the form of the tool.
TEST(NcclTests, are_read_before_the_times_of_events) {
  const auto as_events = [](const std::string& text, const auto& before, const auto& time) {
    std::string events;
    std::istringstream lines(text);
    int number = 0;
    for (std::string line; std::getline(lines, line); ++number)
      events += fmt::format("{}{}\t{}\n", before(number), line, time(number));
    return events;
  };
  const auto nothing = [](int) { return std::string(); };
  const auto of_event = [](int number) { return fmt::format("EVENTS\t{}\t", 1764331200000 + number); };
  const auto in_form = [](const std::string& form) {
    return [form](int number) { return fmt::format(fmt::runtime(form), number); };
  };
  const auto names = [](const Report& report) {
    std::vector<std::string> all;
    for (const topo::Host& host : report.topology.hosts)
      for (const topo::Gpu& gpu : host.gpu_devices) all.push_back(gpu.name);
    return all;
  };
  // The program says FAILED, and its exit code is no fault of its own.
  std::string failed = three_sizes;
  failed.insert(failed.find('\n', failed.find("# Avg bus bandwidth")), " FAILED");
  failed += "srun: error: node-y: tasks 2-3: Exited with exit code 1\n\n";
  const Report plain = import(failed, "", "lab").report;
  EXPECT_THAT(names(plain), Not(IsEmpty()));
  EXPECT_EQ(plain.status, "complete");
  for (const std::string& events : {as_events(failed, of_event, in_form("17643312000{:02}")),
                                    as_events(failed, nothing, in_form("2026-11-28T10:00:{:02}.123Z")),
                                    as_events(failed, nothing, in_form("2026-11-28 10:00:{:02}.123")),
                                    as_events(failed, nothing, in_form("2026-11-28 10:00:{:02},123 UTC")),
                                    as_events(failed, nothing, in_form("11/28/2026, 10:00:{:02} AM")),
                                    as_events(failed, nothing, in_form("Nov 28, 2026 10:00:{:02} PM")),
                                    as_events(failed, nothing, in_form("28/Nov/2026:10:00:{:02} +0000")),
                                    as_events(failed, nothing, in_form("10:00:{:02} PM\tlog-stream/1"))}) {
    const Report report = import(events, "", "lab").report;
    EXPECT_EQ(report.status, plain.status) << events;
    EXPECT_EQ(times_of(report), times_of(plain)) << events;
    EXPECT_EQ(report.run.remarks, plain.run.remarks) << events;
    EXPECT_EQ(names(report), names(plain)) << events;
  }
  // A count of wrong elements may end a row, or the time that -S adds.
  const auto month = in_form("Nov 28, 2026 10:00:{:02} PM");
  const std::string table = all_reduce_2_13();
  std::string last_wrong = table;
  last_wrong.replace(last_wrong.find("0\n", last_wrong.find("285.57")), 1, "7");
  const std::vector<Result> results = import(as_events(last_wrong, nothing, month), "all_reduce", "lab").report.results;
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1].measurement.wrong_elements, 7u);
  std::string stamped = table;
  stamped.insert(stamped.find("\n", stamped.find("#wrong     time") + 20), "           timestamp");
  stamped.insert(stamped.find("\n", stamped.find("285.57")), "  2026-11-20 10:00:00");
  EXPECT_EQ(import(stamped, "all_reduce", "lab").report.run.started, "2026-11-20T10:00:00Z");
  EXPECT_EQ(import(as_events(stamped, nothing, month), "all_reduce", "lab").report.run.started, "2026-11-20T10:00:00Z");
}

// Hydra puts its prefix before each write of a process.
TEST(NcclTests, are_read_where_the_prefix_stands_in_rows_too) {
  std::string text = prefixed(three_sizes, "[0] ");
  for (const std::string piece : {"    95.00", "    130.0", "  16.01", "0.0   19.97"})
    text.insert(text.find(piece) + (piece[0] == '0' ? 1 : 0), "[0] ");
  EXPECT_EQ(times_of(import(text, "", "lab").report), times_of(import(three_sizes, "", "lab").report));
}

TEST(NcclTests, without_their_head_are_read_where_the_figures_fit) {
  const std::string rows = three_sizes.substr(three_sizes.find("     1048576"));
  const Report report =
      import(rows.substr(0, rows.find("# Out")), "all_reduce", "lab", {.ranks = 4, .hosts = 2}).report;
  EXPECT_EQ(times_of(report), times_of(import(three_sizes, "", "lab").report));
  EXPECT_THAT(report.run.remarks, Contains(HasSubstr("line 1: rows without the head")));
  EXPECT_THAT(problem_of("1048576 262144 float sum -1 95.00 99.04 16.56 0 96.00 10.92 16.38 0\n"),
              HasSubstr("nothing in"));
}

TEST(NcclTests, of_rccl_tests_in_place_only_are_read) {
  const std::string text =
      R"(# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#   Rank  0 Pid   1320 on  amd-0 device  0 [0000:0c:00.0] AMD Instinct MI300X
#   Rank  1 Pid   1321 on  amd-0 device  1 [0000:22:00.0] AMD Instinct MI300X
#
#                                                       in-place          
#       size         count      type   redop    root     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)       
     1048576        262144     float     sum      -1    50.00   20.97   20.97      0
# Errors with asterisks indicate errors that have exceeded the maximum threshold.
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 20.97 
)";
  const Report report = import(text, "all_reduce", "lab").report;
  ASSERT_EQ(report.results.size(), 1u);
  EXPECT_TRUE(report.results[0].measurement.measured_case.in_place);
}

TEST(NcclTests, without_any_row_that_is_known_are_refused_for_that_reason) {
  std::string filtered = three_sizes, unknown = three_sizes;
  for (const std::string size : {"     1048576", "     2097152", "     4194304"}) {
    const std::size_t at = filtered.find(size);
    filtered.erase(at, filtered.find('\n', at) - at + 1);
  }
  EXPECT_EQ(problem_of(filtered),
            "nothing is left to import: the table of line 12 was left out: it has no whole row, which begins with a "
            "size");
  for (std::size_t at = 0; (at = unknown.find("    float", at)) != std::string::npos; ++at)
    unknown.replace(at, 9, "    fp4x2");
  EXPECT_EQ(problem_of(unknown),
            "nothing is left to import: rows of the type 'fp4x2' were left out: p5bench does not know it");
  EXPECT_THAT(import(filtered + three_sizes, "", "lab").report.run.remarks,
              Contains(HasSubstr("the table of line 12 was left out")));
}

TEST(NcclTests, with_wrong_data_say_where_and_how_much) {
  std::string text = three_sizes;
  for (const std::string piece : {"16.56      0", "24.20      0"})
    text.replace(text.find(piece) + piece.size() - 1, 1, piece[0] == '1' ? "7" : "9");
  const Report report = import(text, "", "lab").report;
  EXPECT_EQ(report.run.remarks.at(0),
            "wrong data: all_reduce out of place has wrong elements at 2 sizes: 7 of 1 MiB, 9 of 2 MiB");
  EXPECT_EQ(report.exit_code, ExitCode::wrong_data);
}

// Eight programs of one rank each print different output than one program of eight ranks.
TEST(NcclTests, of_programs_that_know_nothing_of_each_other_are_refused) {
  std::string twice = program + all_reduce_2_13();
  const std::size_t at = twice.find("#  Rank  1");
  twice.replace(at, 10, "#  Rank  0");
  EXPECT_THAT(problem_of(twice), HasSubstr("line 6: there are two ranks 0"));
  EXPECT_THAT(problem_of(twice), HasSubstr("MPI=1"));
}

TEST(NcclTests, without_ranks_need_to_be_told) {
  std::string text = program + all_reduce_2_13();
  for (std::size_t at; (at = text.find("#  Rank")) != std::string::npos;) text.erase(at, text.find('\n', at) - at + 1);
  EXPECT_THAT(problem_of(text), HasSubstr("how many ranks"));
  EXPECT_THAT(problem_of(text), HasSubstr("--ranks 4 --hosts N (the figures are those of all_reduce of 4 ranks)"));
  const Report report = import(text, "", "lab", {.ranks = 4, .hosts = 2}).report;
  ASSERT_EQ(report.results.size(), 2u);
  EXPECT_EQ(report.results[0].measurement.measured_case.ranks, 4);
  EXPECT_EQ(report.run.nodes, 2);
}

std::string without_list(std::string text) {
  for (std::size_t at; (at = text.find("#  Rank")) != std::string::npos;) text.erase(at, text.find('\n', at) - at + 1);
  return text;
}

TEST(NcclTests, of_single_ranks_are_no_figures_of_several) {
  std::string text = three_sizes;
  for (const char* const busbw : {"16.56", "16.38", "24.20", "24.01", "29.96", "29.82"})
    text.replace(text.find(busbw), 5, " 0.00");
  const std::string bare = without_list(text);
  EXPECT_THAT(problem_of(bare, "", {.ranks = 16, .hosts = 2}), HasSubstr("of a single rank, not of 16"));
  EXPECT_THAT(problem_of(bare, "", {.ranks = 16, .hosts = 2}), HasSubstr("MPI=1"));
  EXPECT_THAT(problem_of(bare), HasSubstr("--ranks 1 --hosts N (the figures are those of all_reduce of 1 rank)"));
  EXPECT_EQ(problem_of(bare, "", {.ranks = 1, .hosts = 1}), "imported");
  EXPECT_THAT(problem_of(text), HasSubstr("of a single rank, not of 4")) << "whatever the list says";
  // One bandwidth below 1 GB/s is held against the other, too.
  std::string low = three_sizes;
  low.replace(low.find("29.82"), 5, " 0.90");
  EXPECT_THAT(import(low, "", "lab").report.run.remarks, Contains(HasSubstr("busbw = 0.0453 x algbw")));
}

TEST(NcclTests, of_other_ranks_than_are_given_are_refused) {
  const std::string text = without_list(three_sizes);
  EXPECT_THAT(problem_of(text, "", {.ranks = 8, .hosts = 2}),
              HasSubstr("line 8: its figures are those of all_reduce of 4 ranks, not of 8"));
  EXPECT_EQ(problem_of(text, "", {.ranks = 4, .hosts = 2}), "imported");
  // The sizes of shares show the ranks, whatever the bandwidths.
  std::string gather = all_gather_2_0;
  for (std::size_t at; (at = gather.find("#   Rank")) != std::string::npos;)
    gather.erase(at, gather.find('\n', at) - at + 1);
  EXPECT_THAT(problem_of(gather, "", {.ranks = 8, .hosts = 1}), HasSubstr("of all_gather of 2 ranks, not of 8"));
  // Its two bandwidths are one for any number of ranks, as all_reduce's are for two.
  std::string cube = without_list(program + all_reduce_2_13());
  cube.replace(cube.find("all_reduce_perf"), 15, "hypercube_perf");
  for (const char* const busbw : {"287.61", "285.57"}) cube.replace(cube.find(busbw), 6, "191.74");
  cube.replace(cube.rfind("191.74"), 6, "190.38");
  cube.replace(cube.find("   sum"), 6, "  none");
  EXPECT_EQ(problem_of(cube, "", {.ranks = 4, .hosts = 2}), "imported");
}

template <class Change>
std::string with_lines(const std::string& text, const Change& change) {
  std::istringstream lines(text);
  std::string all, line;
  while (std::getline(lines, line)) all += change(line) + "\n";
  return all;
}

std::string without_line(std::string text, const std::string& words) {
  const std::size_t at = text.find(words), begin = text.rfind('\n', at) + 1;
  return text.erase(begin, text.find('\n', at) + 1 - begin);
}

// Pages that take "#" for a heading leave it out.
TEST(NcclTests, without_number_signs_are_read) {
  const auto without = [](const std::string& line) { return line.starts_with('#') ? line.substr(1) : line; };
  for (const std::string& text : {all_gather_2_0, three_sizes}) {
    const Report plain = import(text, "", "lab").report, bare = import(with_lines(text, without), "", "lab").report;
    EXPECT_EQ(times_of(bare), times_of(plain));
    EXPECT_EQ(bare.run.remarks, plain.run.remarks);
    EXPECT_EQ(bare.run.ranks, plain.run.ranks);
  }
  std::string failed = with_lines(all_gather_2_0, without);
  failed.replace(failed.find("0 OK"), 4, "3 FAILED");
  EXPECT_EQ(import(failed, "", "lab").report.exit_code, ExitCode::wrong_data);
}

TEST(NcclTests, are_named_by_the_line_below_them) {
  const std::string nameless = three_sizes.substr(three_sizes.find('\n') + 1),
                    concluded = "# Collective test concluded: all_reduce_perf\n";
  const std::string without_end = without_line(without_line(nameless, "# Avg bus"), "# Out of bounds");
  for (const std::string& text : {nameless, without_end})
    EXPECT_EQ(import(text + concluded, "", "lab").report.results.size(), 6u);
  std::string traced = nameless;
  traced.insert(traced.find("# Out of bounds"), "+ mpirun ./all_gather_perf -b 8\n");
  EXPECT_EQ(problem_of(traced + concluded), "imported") << "a line of the next command does not end the program";
  EXPECT_THAT(problem_of(nameless + "# Collective test starting: all_gather_perf\n" + concluded),
              HasSubstr("--collective"))
      << "the line is of a program that has begun since";
  EXPECT_EQ(problem_of(three_sizes + "# Collective test concluded: all_gather_perf\n"), "imported");
}

// Before June 2020 the bus bandwidth stood in both columns.
TEST(NcclTests, of_gathers_with_one_bandwidth_in_both_columns_are_read) {
  std::string text = all_gather_2_0;
  for (const auto& [algbw, busbw] :
       {std::pair{"41.03", "20.51"}, {"42.74", "21.37"}, {"42.79", "21.40"}, {"42.99", "21.50"}})
    text.replace(text.find(algbw), 5, busbw);
  const Report report = import(text, "", "lab").report;
  EXPECT_EQ(times_of(report), times_of(import(all_gather_2_0, "", "lab").report));
  EXPECT_THAT(report.run.remarks, Not(Contains(HasSubstr("x algbw"))));
  text.replace(text.find("817.8"), 5, "917.8");
  EXPECT_THAT(problem_of(text), HasSubstr("but its algbw is 20.51: one of them was changed"));
}

TEST(NcclTests, without_their_head_are_read_where_the_prefix_stands_in_rows_too) {
  const std::string rows = three_sizes.substr(three_sizes.find("     1048576"));
  const std::string tagged = with_lines(rows.substr(0, rows.find("# Out")), [](std::string row) {
    row.insert(row.find("      0") + 7, "[0]");
    return "[0]" + row.insert(row.find("-1") + 2, "[0]");
  });
  EXPECT_EQ(times_of(import(tagged, "all_reduce", "lab", {.ranks = 4, .hosts = 2}).report),
            times_of(import(three_sizes, "", "lab").report));
}

// Versions up to 2.12 print the largest deviation of a row, and the number of rows behind the table.
TEST(NcclTests, of_which_a_row_deviates_by_more_than_rounding_have_wrong_data) {
  const auto exit_code = [](const std::string& text) { return import(text, "", "lab").report.exit_code; };
  const std::string gather = without_line(all_gather_2_0, "# Out of bounds");
  EXPECT_EQ(exit_code(gather), ExitCode::ok);
  std::string copied = gather;
  copied.replace(copied.find("0e+00"), 5, "1e-06");
  const Report report = import(copied, "", "lab").report;
  EXPECT_EQ(report.exit_code, ExitCode::wrong_data) << "a copy has no rounding";
  EXPECT_THAT(report.run.remarks.front(), HasSubstr("has an error of up to 1e-06 in 1 row of 'all_gather_perf'"));
  std::string sum = without_line(alltoall_2_10, "# Out of bounds");
  sum.replace(sum.find("alltoall_perf"), 13, "all_reduce_perf");
  sum.replace(sum.find("131072"), 6, "262144");
  sum.replace(sum.find("float            162.1    6.47    3.23"), 38, "float     sum    162.1    6.47    6.47");
  sum.replace(sum.find("3.24    N/A"), 11, "6.47  4e-07");
  const auto of = [&](const std::string& table, const std::string& error, const std::string& type) {
    std::string text = table;
    text.replace(text.find("4e-07"), 5, error);
    text.replace(text.find("float     sum"), 5, type);
    if (type == " half") text.replace(text.find("262144"), 6, "524288");
    return exit_code(text);
  };
  for (const auto& [error, type, expected] : {std::tuple{"4e-07", "float", ExitCode::ok},
                                              {"1e-05", "float", ExitCode::ok},
                                              {"7e-03", "float", ExitCode::wrong_data},
                                              {"7e-03", " half", ExitCode::ok},
                                              {"2e-02", " half", ExitCode::wrong_data},
                                              {"1e+00", " half", ExitCode::wrong_data},
                                              {"1e+00", "int32", ExitCode::wrong_data}})
    EXPECT_EQ(of(sum, error, type), expected) << error << type;
  // The verdict of nccl-tests on sums counts, which has a bound for their ranks.
  std::string told = sum;
  told.insert(told.find("# Avg bus"), "# Out of bounds values : 0 OK\n");
  EXPECT_EQ(of(told, "2e-02", " half"), ExitCode::ok);
  told.replace(told.find(" : 0 OK"), 7, " :");
  EXPECT_EQ(of(told, "2e-02", " half"), ExitCode::wrong_data) << "a line that is cut off says nothing";
  copied.insert(copied.find("# Avg bus"), "# Out of bounds values : 0 OK\n");
  EXPECT_EQ(exit_code(copied), ExitCode::wrong_data) << "the bound of nccl-tests is that of sums";
}

// nccl-tests adds in the type itself, so sums of more ranks deviate by more.
TEST(NcclTests, of_many_ranks_deviate_by_more_before_their_data_is_wrong) {
  const auto of = [](int ranks, const char* error) {
    std::string text =
        "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20\n";
    for (int rank = 0; rank < ranks; ++rank)
      text += fmt::format("#   Rank {:2} Pid   {} on  node-{} device  {} [0x1{}] NVIDIA A100-SXM4-40GB\n", rank,
                          1000 + rank, rank / 8, rank % 8, rank % 8);
    const double busbw = 10.49 * 2 * (ranks - 1) / ranks;
    text += fmt::format(
        "#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
        "     1048576        524288  bfloat16     sum   100.0   10.49   {0:.2f}  {1}   100.0   10.49   {0:.2f}  {1}\n"
        "# Avg bus bandwidth    : 20.0\n",
        busbw, error);
    return import(text, "all_reduce", "lab").report.exit_code;
  };
  EXPECT_EQ(of(8, "2e-02"), ExitCode::ok);
  EXPECT_EQ(of(8, "1e-01"), ExitCode::wrong_data);
  EXPECT_EQ(of(16, "2e-01"), ExitCode::ok) << "0.15 is printed so";
  EXPECT_EQ(of(16, "3e-01"), ExitCode::wrong_data);
  EXPECT_EQ(of(64, "4e-01"), ExitCode::ok);
}

std::vector<std::string> names_of_gpus(const Report& report) {
  std::vector<std::string> all;
  for (const topo::Host& host : report.topology.hosts)
    for (const topo::Gpu& gpu : host.gpu_devices) all.push_back(gpu.name);
  return all;
}

TEST(NcclTests, are_read_before_what_a_collector_writes_behind_each_line) {
  std::string failed = three_sizes;
  failed.insert(failed.find('\n', failed.find("# Avg bus bandwidth")), " FAILED");
  failed += "srun: error: node-y: tasks 2-3: Exited with exit code 1\n\n";
  const Report plain = import(failed, "", "lab").report;
  for (const auto& [before, behind] : {std::pair{"17958672000{:02},\"", "\""},
                                       {"  \"", "\","},
                                       {"\"", "\",2026-11-28T12:00:{:02}.5Z"},
                                       {"{{\"log\":{{\"message\":\"", "\"}}}}"},
                                       {"| ", "   |"},
                                       {"", "=20"},
                                       {"", " # 2026-11-28 12:00:{:02}"}}) {
    int number = 0;
    const std::string text = with_lines(failed, [&](const std::string& line) {
      ++number;
      return fmt::format(fmt::runtime(before), number) + line + fmt::format(fmt::runtime(behind), number);
    });
    const Report report = import(text, "", "lab").report;
    EXPECT_EQ(times_of(report), times_of(plain)) << text;
    EXPECT_EQ(names_of_gpus(report), names_of_gpus(plain)) << text;
    EXPECT_EQ(report.status, plain.status) << text;
    EXPECT_EQ(report.run.remarks, plain.run.remarks) << text;
  }
}

TEST(NcclTests, of_which_each_line_is_in_the_file_twice_are_read_once) {
  const auto twice = [](const std::string& line) { return line + "\n" + line; };
  const Report plain = import(three_sizes, "", "lab").report;
  const std::string doubled = with_lines(three_sizes, twice);
  for (const std::string& text : {doubled, doubled.substr(0, doubled.rfind("bandwidth"))}) {
    const Report report = import(text, "", "lab").report;
    EXPECT_EQ(times_of(report), times_of(plain));
    EXPECT_EQ(report.status, "complete");
    EXPECT_EQ(report.results[0].measurement.throughput->summary.samples, 1);
    EXPECT_EQ(report.run.remarks, plain.run.remarks);
  }
  std::string listed = three_sizes;
  listed.insert(listed.find("#  Rank  1"),
                listed.substr(listed.find("#  Rank  0"), listed.find("#  Rank  1") - listed.find("#  Rank  0")));
  EXPECT_THAT(problem_of(listed),
              HasSubstr("line 6: there are two ranks 0: the file has the lines of one process twice"));
}

// A log that is read again from its start, or copied while it is written.
TEST(NcclTests, that_are_the_beginning_of_another_table_count_once) {
  const std::string cut = three_sizes.substr(0, three_sizes.find("     4194304"));
  const auto is_partial = [](const std::string& text) { return import(text, "", "lab").report.status == "partial"; };
  for (const auto& [text, remark] :
       {std::pair{cut + three_sizes, "the table of line 12 is the beginning of the table of line 27: it counts once"},
        {three_sizes + cut, "the table of line 31 is the beginning of the table of line 12: it counts once"}}) {
    const Report report = import(text, "", "lab").report;
    EXPECT_EQ(report.status, "complete");
    EXPECT_EQ(report.exit_code, ExitCode::ok);
    EXPECT_THAT(report.run.remarks, Contains(remark));
    EXPECT_THAT(report.run.remarks, Not(Contains(HasSubstr("no '# Avg bus"))));
    for (const Result& each : report.results) EXPECT_EQ(each.measurement.launches_s.size(), 1u);
  }
  std::string of_others = cut, of_other_figures = cut;
  of_others.replace(of_others.find("   901"), 6, "   951");
  of_other_figures.replace(of_other_figures.find("130.0   16.13   24.20"), 21, "131.0   16.01   24.01");
  for (const std::string& text : {of_others + three_sizes, of_other_figures + three_sizes, cut + failure + three_sizes,
                                  cut + cut, three_sizes.substr(0, three_sizes.find("     1048576")) + three_sizes})
    EXPECT_TRUE(is_partial(text)) << text;
}

TEST(NcclTests, of_which_the_newest_line_comes_first_are_refused) {
  const auto newest_first = [](const std::string& text) {
    std::string all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) all = line + "\n" + all;
    return all;
  };
  for (const std::string& text : {three_sizes, all_gather_2_0, three_sizes + all_gather_2_0, three_sizes + three_sizes})
    for (const char* const collective : {"", "all_reduce"})
      EXPECT_THAT(problem_of(newest_first(text), collective, {.ranks = 4, .hosts = 2}), HasSubstr("in reverse order"));
}

// sendrecv prints an operation, though it reduces nothing.
TEST(NcclTests, with_a_reduction_are_not_of_a_collective_that_has_none) {
  std::string text = three_sizes;
  text.replace(text.find("all_reduce_perf"), 15, "all_gather_perf");
  EXPECT_THAT(problem_of(text), HasSubstr("line 14: all_gather reduces nothing, and this row has the reduction 'sum'"));
  text.replace(text.find("all_gather_perf"), 15, "sendrecv_perf");
  EXPECT_EQ(problem_of(text), "imported");
}

TEST(NcclTests, of_what_is_not_known_are_left_out_and_that_is_said) {
  std::string text = program + all_reduce_2_13();
  text.replace(text.find("float     sum"), 13, "mxfp4     sum");
  EXPECT_THAT(problem_of(text), HasSubstr("rows of the type 'mxfp4' were left out"));
}

}  // namespace
}  // namespace p5::reports::nccl_tests
