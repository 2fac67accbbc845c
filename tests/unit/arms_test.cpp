// Properties that all ranks of an arm must share, and the warnings about doubtful arms.
#include "bench/app/run/phases.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "bench/app/run/comparing.hpp"

namespace p5 {
namespace {

Environment rank_with(const std::string& library, const std::string& gpu) {
  return {{"nccl", library}, {"nccl.path", "/opt/" + library}, {"gpu.uuid", gpu}};
}

TEST(ArmsOfRanks, that_loaded_one_library_on_their_gpus_are_measured) {
  Machine machine;
  machine.gpu_of_rank = {"GPU-0", "GPU-1"};
  EXPECT_EQ(launch_mismatch({rank_with("2.28", "GPU-0"), rank_with("2.28", "GPU-1")}, machine), "");
  EXPECT_EQ(launch_mismatch({{{"model", "x"}}}, Machine{}), "")
      << "of what a backend does not tell nothing is held against";
}

TEST(ArmsOfRanks, that_differ_are_refused_by_rank_and_path) {
  Machine machine;
  machine.gpu_of_rank = {"GPU-0", "GPU-1"};
  EXPECT_EQ(launch_mismatch({rank_with("2.28", "GPU-0"), rank_with("2.27", "GPU-1")}, machine),
            "rank 1 loaded 2.27 (/opt/2.27), rank 0 2.28 (/opt/2.28)");
  EXPECT_EQ(launch_mismatch({rank_with("2.28", "GPU-0"), rank_with("2.28", "GPU-0")}, machine),
            "rank 1 is on another GPU (GPU-0) than the job (GPU-1)");
}

reports::Report two_arms() {
  reports::Report report;
  report.status = "complete";
  report.context = {{"env.NCCL_PROTO", "LL"}, {"mpi", "4.1"}};
  for (const char* const name : {"a", "b"}) {
    report.arms.push_back(
        {.name = name, .settings = {}, .context = {{"libraries", "/opt/libnccl.so.2"}}, .problem = {}});
    reports::Result result;
    Measurement& m = result.measurement;
    m.measured_case.collective = &find_collective("all_reduce");
    m.measured_case.arm = name;
    m.measured_case.bytes = MiB(64);
    m.launches_s = {1, 1, 1};
    m.throughput = Series{};
    m.throughput->summary = summarize({1, 1, 1});
    report.results.push_back(result);
  }
  return report;
}

bool differs(const reports::Comparison& comparison, const std::string& name) {
  return std::ranges::any_of(comparison.differences, [&](const auto& each) { return each.name == name; });
}

TEST(ArmComparison, shows_what_each_arm_ran_with) {
  reports::Report report = two_arms();
  report.arms[0].context["env.NCCL_PROTO"] = "LL";
  report.arms[1].settings = {{"NCCL_PROTO", ""}};
  std::string why_not;
  const auto comparison = compare_arms(report, {}, why_not);
  ASSERT_TRUE(comparison) << why_not;
  EXPECT_TRUE(differs(*comparison, "NCCL_PROTO")) << "b removed it, whatever the job has";
  EXPECT_FALSE(differs(*comparison, "mpi"));
}

TEST(ArmComparison, doubts_a_library_path_that_changed_nothing) {
  reports::Report report = two_arms();
  report.arms[1].settings = {{"LD_LIBRARY_PATH", "/opt/other"}};
  std::string why_not;
  const auto doubted = compare_arms(report, {}, why_not);
  ASSERT_TRUE(doubted);
  ASSERT_FALSE(doubted->remarks.empty());
  EXPECT_NE(doubted->remarks.back().find("Arm b names LD_LIBRARY_PATH=/opt/other"), std::string::npos);
  report.arms[1].context["libraries"] = "/opt/other/libnccl.so.2";
  const auto sure = compare_arms(report, {}, why_not);
  for (const std::string& remark : sure->remarks)
    EXPECT_EQ(remark.find("both arms loaded"), std::string::npos) << remark;
}

TEST(ArmComparison, says_why_there_is_none) {
  reports::Report report = two_arms();
  report.results.pop_back();
  std::string why_not;
  EXPECT_FALSE(compare_arms(report, {}, why_not));
  EXPECT_NE(why_not.find("'b'"), std::string::npos) << why_not;
}

TEST(ArmComparison, that_cannot_be_written_is_no_reason_to_lose_the_run) {
  std::string folder = (std::filesystem::temp_directory_path() / "p5bench-unit-XXXXXX").string();
  ASSERT_TRUE(::mkdtemp(folder.data()));
  std::filesystem::create_directory(std::filesystem::path(folder) / "comparison.json");
  const ComparisonOutput compared = compare_own_arms(two_arms(), {}, {}, folder);
  EXPECT_EQ(compared.code, ExitCode::unfinished);
  const std::string says =
      "NO REGRESSION in 1 band (screening)\nThe comparison is not saved: '" + folder + "/comparison.json'";
  EXPECT_NE(compared.text.find(says), std::string::npos) << compared.text;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace p5
