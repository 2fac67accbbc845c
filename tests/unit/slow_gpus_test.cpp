// Findings gpu.slow_alone: which slow GPUs are at fault, where a power cap, other programs or the whole host have a
// part in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "reports/local_checks.hpp"

namespace p5::reports {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

constexpr const char* end_of_burn = "burn_last_tflop_per_s";

// The hosts alpha, beta and so on with these figures of their GPUs, in NVML's order.
Report report_of_hosts(const std::string& check, const std::vector<std::vector<double>>& figures) {
  Report report;
  for (const std::vector<double>& of_host : figures) {
    const std::size_t number = report.topology.hosts.size();
    topo::Host& host = report.topology.hosts.emplace_back();
    host.name = std::vector<std::string>{"alpha", "beta", "gamma"}.at(number);
    for (const double figure : of_host) {
      topo::Gpu& gpu = host.gpu_devices.emplace_back();
      gpu.uuid = "GPU-" + std::to_string(report.local_checks.size());
      gpu.name = "NVIDIA H200";
      report.topology.gpu_of_rank.push_back(gpu.uuid);
      report.topology.host_of_rank.push_back(static_cast<int>(number));
      report.local_checks.push_back({{check, figure}});
    }
  }
  return report;
}

TEST(SlowGpus, are_named_one_by_one_where_only_they_are_condemned_on_a_host_that_is_slow) {
  for (const auto& [check, of_host, slow] :
       {std::tuple("bf16_tflop_per_s", 950.0, 150.0), std::tuple(end_of_burn, 950.0, 600.0)}) {
    std::vector<double> beta(8, of_host);
    beta.back() = slow;
    const std::vector<topo::Finding> found = slow_alone(report_of_hosts(check, {std::vector<double>(8, 1000), beta}));
    ASSERT_THAT(found, SizeIs(2)) << check;
    EXPECT_EQ(found[0].severity, topo::Severity::warning);
    EXPECT_TRUE(is_of_all_gpus(found[0]));
    EXPECT_EQ(found[0].subject.gpu, std::nullopt);
    EXPECT_THAT(found[0].evidence, StartsWith("all 7 other GPUs of beta, alone, "));
    EXPECT_THAT(found[0].evidence, HasSubstr(": 950 TFLOP/s, their median; median of the others"));
    EXPECT_EQ(found[1].severity, topo::Severity::error);
    EXPECT_EQ(found[1].subject.host, "beta");
    EXPECT_EQ(found[1].subject.gpu, 7);
    EXPECT_THAT(found[1].evidence, StartsWith("rank 15, alone, "));
  }
}

TEST(SlowGpus, are_named_where_they_are_worse_than_those_of_their_slow_host_too) {
  const std::vector<double> alpha(8, 1000);
  const std::vector<topo::Finding> one =
      slow_alone(report_of_hosts("bf16_tflop_per_s", {alpha, {950, 950, 700, 950, 950, 950, 950, 950}}));
  ASSERT_THAT(one, SizeIs(2));
  EXPECT_THAT(one[0].evidence, StartsWith("all 7 other GPUs of beta, "));
  EXPECT_EQ(one[1].severity, topo::Severity::warning);
  EXPECT_EQ(one[1].subject.gpu, 2);
  const std::vector<topo::Finding> alike =
      slow_alone(report_of_hosts("bf16_tflop_per_s", {alpha, {950, 950, 930, 950, 945, 950, 955, 950}}));
  ASSERT_THAT(alike, SizeIs(1));
  EXPECT_THAT(alike[0].evidence, StartsWith("all 8 GPUs of beta, "));
}

TEST(SlowGpus, are_at_fault_as_far_as_their_power_cap_does_not_explain_it) {
  const auto only_finding = [](const char* check, double slow, double cap) {
    Report report = report_of_hosts(check, {{700, 700, slow}});
    for (topo::Gpu& gpu : report.topology.hosts[0].gpu_devices) gpu.power_cap_w = 700;
    report.topology.hosts[0].gpu_devices[2].power_cap_w = cap;
    const std::vector<topo::Finding> found = slow_alone(report);
    return found.size() == 1 ? found[0] : topo::Finding{};
  };
  for (const char* const check : {"bf16_tflop_per_s", end_of_burn}) {
    const topo::Finding stuck = only_finding(check, 105, 690);
    EXPECT_EQ(stuck.severity, topo::Severity::error) << check;
    EXPECT_THAT(stuck.evidence, EndsWith("(85 % less); with a power cap of 690 W, where the others have 700 W"));
    EXPECT_THAT(stuck.action, StartsWith("compare its clocks")) << "the cap is not what it lacks";
  }
  EXPECT_EQ(only_finding(end_of_burn, 640, 690).severity, topo::Severity::warning) << "8.6 of 9.0 %";
  EXPECT_EQ(only_finding(end_of_burn, 630, 690).severity, topo::Severity::error);
  EXPECT_EQ(only_finding(end_of_burn, 400, 500).severity, topo::Severity::warning) << "42.9 of 46.9 %";
  EXPECT_EQ(only_finding(end_of_burn, 350, 500).severity, topo::Severity::error);
  EXPECT_EQ(only_finding(end_of_burn, 20, 200).severity, topo::Severity::warning) << "next to nothing is left";
}

TEST(SlowGpus, are_at_fault_as_far_as_other_programs_on_them_do_not_explain_it) {
  const auto only_finding = [](const char* check, double slow, int programs) {
    std::vector<double> figures(8, 700);
    figures.back() = slow;
    Report report = report_of_hosts(check, {figures});
    report.topology.hosts[0].gpu_devices[7].processes = programs;
    const std::vector<topo::Finding> found = slow_alone(report);
    return found.size() == 1 ? found[0] : topo::Finding{};
  };
  const topo::Finding shared = only_finding(end_of_burn, 350, 1);
  EXPECT_EQ(shared.severity, topo::Severity::warning);
  EXPECT_THAT(shared.evidence, EndsWith("(50 % less); 1 other program computes on it"));
  EXPECT_THAT(shared.action, StartsWith("run again without other programs on it. Then compare its clocks"));
  EXPECT_EQ(only_finding(end_of_burn, 350, 0).severity, topo::Severity::error);
  EXPECT_EQ(only_finding(end_of_burn, 300, 1).severity, topo::Severity::error) << "57 of 53.5 %";
  EXPECT_EQ(only_finding(end_of_burn, 300, 2).severity, topo::Severity::warning);
  EXPECT_EQ(only_finding("bf16_tflop_per_s", 140, 1).severity, topo::Severity::error) << "80 of 75 %";
  EXPECT_EQ(only_finding("bf16_tflop_per_s", 140, 4).severity, topo::Severity::warning) << "80 of 81.4 %";
  const topo::Finding copies = only_finding("device_copy_gb_per_s", 350, 2);
  EXPECT_THAT(copies.evidence, EndsWith("; 2 other programs compute on it")) << "they slow copies too";
}

}  // namespace
}  // namespace p5::reports
