// Programs that come to a job's GPUs while it runs: which of NVML's processes they are, and what they change.
#include "reports/other_programs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/app/run/recorder.hpp"
#include "reports/local_checks.hpp"

namespace p5::reports {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(ProgramsOnGpu, are_told_from_the_jobs_own_workers) {
  const std::map<int, bool> seen{{10, true}, {11, false}};
  const auto is_of_job = [&](int pid) {
    const auto its = seen.find(pid);
    return its == seen.end() ? std::nullopt : std::optional(its->second);
  };
  topo::Gpu gpu;
  gpu.uuid = "GPU-a";
  gpu.processes = 4;
  gpu.used_by = {"pid 10, p5bench-worker-", "pid 11, python", "pid 12"};
  const ProgramsOnGpu found = programs_on(gpu, is_of_job);
  EXPECT_EQ(found.uuid, "GPU-a");
  EXPECT_EQ(found.of_job, 1);
  EXPECT_EQ(found.unknown, 2) << "one that is not seen, and one without a name";
  EXPECT_THAT(found.others, ElementsAre("pid 11, python"));
}

// A host with two GPUs, each with a rank.
Report report_of_two_gpus() {
  Report report;
  topo::Host& host = report.topology.hosts.emplace_back();
  host.name = "alpha";
  for (const char* const uuid : {"GPU-a", "GPU-b"}) {
    topo::Gpu& gpu = host.gpu_devices.emplace_back();
    gpu.uuid = uuid;
    gpu.name = "NVIDIA H200";
    gpu.processes = 0;
    report.topology.gpu_of_rank.emplace_back(uuid);
    report.topology.host_of_rank.push_back(0);
  }
  return report;
}

TEST(ProgramsOnGpu, that_came_are_findings_and_those_of_the_job_are_none) {
  const auto came = [](const ProgramsOnGpu& first) {
    Report report = report_of_two_gpus();
    const std::string evidence = add_programs_that_came(report, {{first, {.uuid = "GPU-b", .of_job = 1}}});
    EXPECT_EQ(report.findings.size(), evidence.empty() ? 0U : 1U);
    EXPECT_EQ(report.topology.hosts[0].gpu_devices[1].processes, 0);
    if (!evidence.empty()) {
      EXPECT_EQ(report.findings.at(0).id, "gpu.busy");
      EXPECT_EQ(report.findings.at(0).subject.gpu, 0);
    }
    return evidence;
  };
  EXPECT_EQ(came({.uuid = "GPU-a", .of_job = 1}), "");
  EXPECT_EQ(came({.uuid = "GPU-a", .unknown = 1}), "") << "the rank's worker, which is not seen";
  EXPECT_EQ(came({.uuid = "GPU-c", .unknown = 3}), "") << "no GPU of a rank";
  EXPECT_EQ(came({.uuid = "GPU-a", .of_job = 1, .unknown = 1}), "1 other program computes on GPU-a (NVIDIA H200)");
  EXPECT_EQ(came({.uuid = "GPU-a", .unknown = 3}), "2 other programs compute on GPU-a (NVIDIA H200)");
  EXPECT_EQ(came({.uuid = "GPU-a", .of_job = 1, .others = {"pid 11, python"}}),
            "1 other program computes on GPU-a (NVIDIA H200): pid 11, python");
  Report before = report_of_two_gpus();
  before.topology.hosts[0].gpu_devices[0].processes = 2;
  EXPECT_EQ(add_programs_that_came(before, {{{.uuid = "GPU-a", .of_job = 1, .others = {"pid 11", "pid 12"}}}}), "");
  EXPECT_THAT(before.findings, IsEmpty()) << "they were there, and told";
}

TEST(ProgramsOnGpu, that_came_withdraw_what_is_slow_and_condemn_no_gpu) {
  Report report = report_of_two_gpus();
  Suspect slow, silent;
  for (Suspect* const each : {&slow, &silent}) each->kind = "nic", each->name = "n0r5", each->host = "alpha";
  slow.fault = "slow";
  silent.fault = "silent";
  report.suspects = {slow, silent};
  const auto after = [&](const std::vector<std::vector<ProgramsOnGpu>>& by_host) {
    ReportBuilder builder({}, report);
    builder.begin({}, {}, {});
    builder.add_programs(by_host);
    builder.add_local_checks(
        {{.figures = {{"burn_last_tflop_per_s", 350}}}, {.figures = {{"burn_last_tflop_per_s", 700}}}});
    return builder.report();
  };
  const Report alone = after({{{.uuid = "GPU-a", .of_job = 1}}});
  EXPECT_THAT(alone.suspects, SizeIs(2));
  ASSERT_THAT(alone.findings, SizeIs(1));
  EXPECT_EQ(alone.findings[0].severity, topo::Severity::error);
  const Report shared = after({{{.uuid = "GPU-a", .of_job = 1, .others = {"pid 11, python"}}}});
  ASSERT_THAT(shared.suspects, SizeIs(1));
  EXPECT_EQ(shared.suspects[0].fault, "silent");
  ASSERT_THAT(shared.findings, SizeIs(2));
  EXPECT_EQ(shared.findings[0].id, "gpu.busy");
  EXPECT_EQ(shared.findings[1].id, slow_alone_id);
  EXPECT_EQ(shared.findings[1].severity, topo::Severity::warning);
  EXPECT_THAT(shared.findings[1].evidence, HasSubstr("; 1 other program computes on it"));
}

}  // namespace
}  // namespace p5::reports
