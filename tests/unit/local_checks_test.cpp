// Which GPU is called slower than the others, each alone.
#include "reports/local_checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/judge.hpp"

namespace p5::reports {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// One host with a GPU for each rank, all of one model.
Report report_of(const std::vector<LocalFigures>& figures) {
  Report report;
  report.local_checks = figures;
  topo::Host& host = report.topology.hosts.emplace_back();
  host.name = "alpha";
  for (std::size_t rank = 0; rank < figures.size(); ++rank) {
    topo::Gpu& gpu = host.gpu_devices.emplace_back();
    gpu.uuid = "GPU-" + std::to_string(rank);
    gpu.name = "NVIDIA H200";
    // Ranks need not use GPUs in NVML's order.
    report.topology.gpu_of_rank.push_back("GPU-" + std::to_string(figures.size() - 1 - rank));
    report.topology.host_of_rank.push_back(0);
  }
  return report;
}

LocalFigures figures(double device_copy, double host_to_device, double launch) {
  return {{"device_copy_gb_per_s", device_copy}, {"host_to_device_gb_per_s", host_to_device}, {"launch_us", launch}};
}

TEST(LocalChecks, name_the_gpu_that_differs_and_what_in) {
  const auto sound = figures(4000, 55, 3.5);
  const std::vector<topo::Finding> found =
      slow_alone(report_of({sound, figures(3700, 27, 3.6), sound, figures(4010, 54, 3.4)}));
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].id, "gpu.slow_alone");
  EXPECT_EQ(found[0].severity, topo::Severity::warning);
  EXPECT_EQ(found[0].about, topo::About::hardware);
  EXPECT_EQ(found[0].subject.host, "alpha");
  EXPECT_EQ(found[0].subject.gpu, 2);
  EXPECT_THAT(found[0].evidence, HasSubstr("rank 1, alone, device copy: 3700 GB/s, the median of the 3 others of its "
                                           "model 4000 (8 % less)"));
  EXPECT_THAT(found[1].evidence, HasSubstr("host to device: 27 GB/s"));
  EXPECT_THAT(found[1].action, HasSubstr("PCIe"));
}

TEST(LocalChecks, tolerate_what_healthy_gpus_differ_by) {
  EXPECT_THAT(slow_alone(report_of({figures(4000, 55, 3.5), figures(3900, 45, 4.9), figures(4050, 57, 3.4)})),
              IsEmpty());
  EXPECT_THAT(slow_alone(report_of({figures(4000, 55, 3.5), figures(4000, 90, 1), figures(4000, 55, 3.5)})), IsEmpty())
      << "better is no fault";
  EXPECT_THAT(slow_alone(report_of({figures(1, 1, 3), figures(1, 1, 3), figures(1, 1, 9)})), SizeIs(1));
}

TEST(LocalChecks, say_nothing_of_two_or_of_other_models) {
  EXPECT_THAT(slow_alone(report_of({figures(4000, 55, 3.5), figures(2000, 20, 9)})), IsEmpty());
  Report mixed = report_of({figures(4000, 55, 3.5), figures(4000, 55, 3.5), figures(2000, 20, 3.5)});
  mixed.topology.hosts[0].gpu_devices[0].name = "NVIDIA A100";
  EXPECT_THAT(slow_alone(mixed), IsEmpty());
}

TEST(LocalChecks, compare_ranks_of_all_hosts_and_those_whose_gpu_is_not_known) {
  Report report = report_of({figures(4000, 55, 3.5), figures(4000, 55, 3.5), figures(2000, 55, 3.5)});
  report.topology.gpu_of_rank.clear();
  const std::vector<topo::Finding> found = slow_alone(report);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].subject.gpu, std::nullopt);
  EXPECT_EQ(found[0].subject.host, "alpha");
}

TEST(LocalChecks, are_summed_up_by_their_ranges) {
  EXPECT_THAT(local_ranges(report_of({figures(4000, 55.04, 3.5), figures(3980, 54.9, 3.6)})),
              ElementsAre("device copy 3980 to 4000 GB/s", "host to device 54.9 to 55.04 GB/s",
                          "launch of an empty kernel 3.5 to 3.6 us"));
  EXPECT_THAT(local_ranges(Report{}), IsEmpty());
}

TEST(LocalChecks, that_failed_leave_a_run_unfinished) {
  Report report;
  EXPECT_EQ(exit_code(report), ExitCode::ok);
  report.findings.push_back({std::string(check_failed), topo::Severity::error, {}, "rank 1: it was ended", ""});
  EXPECT_EQ(exit_code(report), ExitCode::unfinished);
}

}  // namespace
}  // namespace p5::reports
