// The JSON of nccl-tests becomes a report; incomplete or foreign documents are refused by member.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "reports/baseline.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/journal.hpp"
#include "reports/nccl_tests.hpp"
#include "reports/writer.hpp"
#include "tests/unit/in_folder.hpp"
#include "tests/unit/nccl_tests_import.hpp"

namespace p5::reports::nccl_tests {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

// Written by hand in the layout of JSON version 3 (nccl-tests 2.19.6), with -I.
nlohmann::json json_3() {
  return nlohmann::json::parse(R"({"version": 3, "start_time": "2026-11-20 10:00:00",
    "args": ["/opt/nccl-tests/build/all_reduce_perf", "-b", "8", "-e", "8", "-R", "1"],
    "env": ["NCCL_PROTO=Simple", "AWS_SECRET_ACCESS_KEY=very-secret", "NCCL_X_TOKEN=very-secret", "HOME=/root"],
    "nccl_version": 22803,
    "config": {"nthreads": 1, "ngpus": 2, "minimum_bytes": 8, "maximum_bytes": 8, "step_factor": 2, "warmup_iters": 1,
      "iterations": 3, "aggregated_iterations": 1, "validation": 1, "graph": 0, "blocking_collectives": "false",
      "per_iter_timing": "true", "per_iter_skip": 1, "parallel_init": "false",
      "devices": [{"rank": 0, "group": 0, "pid": 1, "hostname": "a", "device": 0, "device_hex": "0000:00:06", "device_info": "NVIDIA H200"},
                  {"rank": 2, "group": 0, "pid": 1, "hostname": "b", "device": 0, "device_hex": "0000:00:06", "device_info": "NVIDIA H200"}]},
    "results": [{"size": 8, "count": 2, "type": "float", "redop": "sum", "root": "    -1",
      "out_of_place": {"time": 7.5, "alg_bw": 0.001, "bus_bw": 0.0016, "nwrong": 0.0},
      "out_of_place_per_iter": {"skipped_iterations": 1, "min_us": 7, "max_us": 9, "avg_us": 8, "p50_us": 8, "p95_us": 9,
        "p99_us": 9, "stdev_us": 1, "cv_pct": 10, "times_us": [20.0, 7.0, 8.0, 9.0]},
      "in_place": {"time": 7.7, "alg_bw": 0.001, "bus_bw": 0.0016, "nwrong": null},
      "actual_iterations": 3, "experiment_name": ""}],
    "out_of_bounds": {"count": 0, "okay": "true"}, "average_bus_bandwidth": {"bandwidth": 0.0016, "okay": "unchecked"},
    "errors": [], "end_time": "2026-11-20 10:00:01"})");
}

// Four ranks on two hosts, seven sizes.
nlohmann::json json_of_sizes() {
  nlohmann::json j = json_3();
  j["args"] = {"/opt/all_reduce_perf", "-b", "1M", "-e", "64M", "-f", "2"};
  j["config"]["ngpus"] = 1;
  j["config"]["minimum_bytes"] = 1 << 20;
  j["config"]["maximum_bytes"] = 1 << 26;
  nlohmann::json device = j["config"]["devices"][0];
  j["config"]["devices"].clear();
  for (int rank = 0; rank < 4; ++rank) {
    device["rank"] = rank;
    device["hostname"] = rank < 2 ? "a" : "b";
    device["device_hex"] = rank % 2 == 0 ? "0000:00:06" : "0000:00:07";
    j["config"]["devices"].push_back(device);
  }
  j["results"].clear();
  for (std::uint64_t size = 1 << 20; size <= 1 << 26; size *= 2) {
    const double us = 20 + static_cast<double>(size) * 1e-5, algbw = static_cast<double>(size) * 1e-3 / us;
    const nlohmann::json half{{"time", us}, {"alg_bw", algbw}, {"bus_bw", 1.5 * algbw}, {"nwrong", 0}};
    j["results"].push_back({{"size", size},
                            {"count", size / 4},
                            {"type", "float"},
                            {"redop", "sum"},
                            {"root", "    -1"},
                            {"out_of_place", half},
                            {"in_place", half}});
  }
  return j;
}

std::vector<std::string> remarks_of(const nlohmann::json& j) { return import(j.dump(), "", "lab").report.run.remarks; }

TEST(NcclTestsJson, passes_the_checks_of_a_table) {
  const nlohmann::json whole = json_of_sizes();
  EXPECT_EQ(remarks_of(whole).size(), 1u) << "only what is said of all imports";
  nlohmann::json j = whole;
  for (nlohmann::json& device : j["config"]["devices"]) device["rank"] = 0;
  EXPECT_THAT(problem_of(j.dump()), HasSubstr("/config/devices: there are two ranks 0"));
  j = whole;
  j["config"]["devices"][3]["rank"] = 2;
  EXPECT_THAT(problem_of(j.dump()), HasSubstr("there are two ranks 2"));
  j = whole;
  j["config"]["devices"].erase(3);
  EXPECT_THAT(problem_of(j.dump()),
              HasSubstr("/config/devices: the list of ranks is not whole: 1 of 4 is missing (3)"));
  j = whole;
  j["args"][0] = "/opt/all_gather_perf";
  EXPECT_THAT(problem_of(j.dump()),
              HasSubstr("/results/0: all_gather reduces nothing, and this row has the reduction 'sum'"));
  for (nlohmann::json& row : j["results"]) row["redop"] = "none";
  EXPECT_THAT(remarks_of(j), Contains(HasSubstr("busbw = 1.5 x algbw, but all_gather of 4 ranks has 0.75")));
  j = whole;
  j["results"].erase(3);
  EXPECT_THAT(remarks_of(j), Contains(HasSubstr("before /results/3 rows are missing")));
  j = whole;
  j["results"].erase(6);
  EXPECT_THAT(remarks_of(j), Contains(HasSubstr("the last rows are missing")));
  j = whole;
  j["results"][2]["size"] = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(problem_of(j.dump()),
              HasSubstr("/results/2: 18446744073709551615 B are not the size of 1048576 elements"));
  j = whole;
  j["results"][3]["out_of_place"]["time"] = 1000.0;
  EXPECT_THAT(problem_of(j.dump()),
              HasSubstr("/results/3: 8388608 B in 1000 us are 8.389 GB/s, but its algbw is 80.7"));
  j = whole;
  j["results"][3]["in_place"]["nwrong"] = nullptr;
  EXPECT_THAT(remarks_of(j), Contains(HasSubstr("1 row of /results left out in place")));
  j = whole;
  j["out_of_bounds"]["count"] = 3;  // okay is "true"
  EXPECT_EQ(import(j.dump(), "", "lab").report.exit_code, ExitCode::wrong_data);
  EXPECT_THAT(remarks_of(j).front(), HasSubstr("Out of bounds values : 3 FAILED"));
}

TEST(NcclTestsJson, says_when_it_was_started) {
  nlohmann::json j = json_of_sizes();
  const Report report = import(j.dump(), "", "lab").report;
  EXPECT_EQ(report.run.started, "2026-11-20T10:00:00Z");
  EXPECT_EQ(report.context.at("nccl-tests.started"), "2026-11-20 10:00:00 (local time)");
  j["start_time"] = "this morning";
  EXPECT_EQ(import(j.dump(), "", "lab").report.run.started, "");
}

TEST(NcclTestsJson, of_its_kernels_is_not_of_the_hosts_functions) {
  for (const auto& [kernels, name] : {std::pair{"0", "all_reduce"}, {"1", "lsa_all_reduce"}, {"2", "lsa_all_reduce"}}) {
    nlohmann::json j = json_of_sizes();
    for (const char* each : {"-R", "2", "-D", kernels}) j["args"].push_back(each);
    const Report report = import(j.dump(), "", "lab").report;
    EXPECT_GT(report.results.size(), 6u);
    for (const Result& each : report.results) EXPECT_EQ(each.measurement.measured_case.collective->name, name);
  }
  nlohmann::json j = json_of_sizes();
  j["args"].push_back("--device_implementation=3");  // multicast
  EXPECT_THAT(problem_of(j.dump()), HasSubstr("all_reduce_perf -D 3"));
}

TEST(NcclTestsJson, says_in_its_arguments_how_operations_were_called) {
  const auto calls_of = [](const std::vector<std::string>& arguments, int nccl) {
    nlohmann::json j = json_of_sizes();
    for (const std::string& each : arguments) j["args"].push_back(each);
    j["nccl_version"] = nccl;
    return import(j.dump(), "", "lab").report.results.at(0).measurement.measured_case.calls;
  };
  constexpr int older = 22603, newer = 22803;
  EXPECT_EQ(calls_of({}, newer), CallOptions{});
  EXPECT_EQ(calls_of({"-R", "1"}, newer), CallOptions{.registration = "local"});
  EXPECT_EQ(calls_of({"--local_register=2", "-x2"}, newer),
            (CallOptions{.registration = "symmetric", .cta_policy = "zero"}));
  EXPECT_EQ(calls_of({"-R", "2", "-x", "2"}, older), CallOptions{.registration = "local"}) << "as nccl-tests does";
  EXPECT_EQ(calls_of({"-u", "3"}, newer), CallOptions{.unalign = 3});
  EXPECT_EQ(calls_of({"-R", "7", "-x", "-1", "-u", "x"}, newer), CallOptions{});
  EXPECT_EQ(calls_of({"-R", "2", "-D", "1"}, newer), CallOptions{}) << "its buffers are always symmetric";
}

TEST(NcclTestsJson, of_largest_times_over_ranks_is_called_so_from_import_to_import) {
  nlohmann::json j = json_of_sizes();
  EXPECT_THAT(remarks_of(j), ElementsAre(means_over_ranks));
  for (const char* each : {"-a", "3"}) j["args"].push_back(each);
  Report report = import(j.dump(), "", "lab").report;
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(report.run.remarks, Contains(largest_over_ranks));
    EXPECT_THAT(report.run.remarks, testing::Not(Contains(means_over_ranks)));
    const std::string table = render_nccl_tests(report);
    EXPECT_THAT(table, testing::Not(HasSubstr(" of \n"))) << "without a date";
    EXPECT_THAT(table, HasSubstr(" -a 3"));
    report = import(table, "", "lab").report;
  }
}

TEST(NcclTestsJson, that_lacks_what_a_report_needs_is_refused_by_member) {
  const auto without = [](const char* member) {
    nlohmann::json j = json_of_sizes();
    j.erase(member);
    return problem_of(j.dump());
  };
  EXPECT_THAT(without("out_of_bounds"), HasSubstr(": /out_of_bounds is missing"));
  nlohmann::json j = json_of_sizes();
  j["results"][0].erase("root");
  EXPECT_THAT(problem_of(j.dump()), HasSubstr(": /results/0/root is missing"));
  j = json_of_sizes();
  j["config"].erase("devices");
  EXPECT_THAT(problem_of(j.dump()), HasSubstr(": /config/devices is missing"));
  j = json_of_sizes();
  j["config"]["devices"].clear();
  EXPECT_THAT(problem_of(j.dump()), HasSubstr("/config/devices: nothing says how many ranks"));
  j = json_of_sizes();
  j["args"].clear();
  EXPECT_THAT(problem_of(j.dump()), HasSubstr("/args: nothing says which program"));
}

// The output of the import has to be a valid report.
TEST(NcclTestsJson, is_read_or_refused_so_that_the_report_can_be_read) {
  const std::vector<nlohmann::json> values{
      1e-320, 1e-7, 1e-6, 1e15, 1e300, 0, 1, -1, std::uint64_t{1} << 60, ~std::uint64_t{0}, "", "x", "\x01", nullptr};
  const nlohmann::json whole = json_3(), flat = whole.flatten();
  int imported = 0;
  for (const auto& [pointer, old] : flat.items())
    for (const nlohmann::json& value : values) {
      nlohmann::json j = whole;
      j[nlohmann::json::json_pointer(pointer)] = value;
      Report report;
      try {
        report = import(j.dump(), "", "lab").report;
      } catch (const UsageError&) {
        continue;
      }
      ++imported;
      EXPECT_NO_THROW(report_from_json(parse_json(render_json(report)))) << pointer << " " << value;
    }
  EXPECT_GT(imported, 100);
}

TEST(NcclTestsJson, is_read_with_its_iterations) {
  const Imported imported = import(json_3().dump(2), "", "lab");
  const Report& report = imported.report;
  ASSERT_EQ(report.results.size(), 1u);  // unchecked in-place figures are not imported
  const Measurement& m = report.results[0].measurement;
  EXPECT_EQ(m.measured_case.ranks, 4);
  EXPECT_EQ(m.measured_case.nodes, 2);
  EXPECT_NEAR(m.throughput->summary.median, 7.5e-6, 1e-12);
  ASSERT_EQ(imported.journal.size(), 1u);
  EXPECT_THAT(imported.journal[0].measurement.throughput->samples,
              ElementsAre(testing::DoubleNear(7e-6, 1e-12), testing::DoubleNear(8e-6, 1e-12),
                          testing::DoubleNear(9e-6, 1e-12)));
}

class NcclTestsJsonInFolder : public InFolder {};

// nccl-tests' mean is of the host's clock and of all iterations, the times of -I are of the device's.
TEST_F(NcclTestsJsonInFolder, of_which_the_mean_is_beyond_all_iterations_is_compared_and_is_a_baseline) {
  for (const double mean : {6.5, 9.5}) {
    nlohmann::json j = json_3();
    j["results"][0]["out_of_place"]["time"] = mean;
    const Imported imported = import(j.dump(), "", "lab");
    std::ofstream(folder / "report.json") << render_json(imported.report);
    std::ofstream(folder / journal_name) << to_json(imported.journal.at(0), true).dump() << "\n";
    const reports::Run run = read_run(folder.string(), Reading::to_compare);
    const Baseline baseline = make_baseline({&run, 1}, "2026-11-30T00:00:00Z");
    const reports::Run again{.name = "baseline", .report = baseline.report, .journal = baseline.journal};
    for (const reports::Run* const each : {&run, &again}) {
      const Side side = make_side("BASE", {each, 1});
      ASSERT_EQ(side.observations.size(), 1u);
      ASSERT_EQ(side.observations[0].throughput.size(), 1u);
      EXPECT_NEAR(side.observations[0].throughput[0].median_s, mean * 1e-6, 1e-12) << each->name;
      EXPECT_EQ(side.observations[0].throughput[0].samples_s.size(), 3u) << each->name;
    }
  }
}

TEST(NcclTestsJson, keeps_no_secrets) {
  const Report report = import(json_3().dump(), "", "lab").report;
  EXPECT_EQ(report.context.at("env.NCCL_PROTO"), "Simple");
  EXPECT_EQ(to_json(report).dump().find("very-secret"), std::string::npos);
}

TEST(NcclTestsJson, that_is_cut_off_or_foreign_is_refused_by_line) {
  const std::string whole = json_3().dump(2);
  EXPECT_THAT(problem_of(whole.substr(0, whole.size() / 2)), HasSubstr("line "));
  EXPECT_THAT(problem_of("{\"benchmarks\": []}"), HasSubstr("not that of nccl-tests"));
  nlohmann::json without = json_3();
  without["results"][0].erase("size");
  EXPECT_THAT(problem_of(without.dump()), HasSubstr("/results/0/size is missing"));
  nlohmann::json infinite = json_3();
  infinite["results"][0]["root"] = "inf";
  EXPECT_THAT(problem_of(infinite.dump()), HasSubstr("'inf' is no root"));
}

TEST(NcclTestsJson, that_missed_the_bandwidth_demanded_of_it_says_so) {
  nlohmann::json j = json_of_sizes();
  j["average_bus_bandwidth"]["okay"] = "false";
  EXPECT_THAT(remarks_of(j), Contains(HasSubstr("NCCL_TESTS_MIN_BW")));
}

}  // namespace
}  // namespace p5::reports::nccl_tests
