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
#include "reports/nodes.hpp"
#include "topo/checks/families.hpp"
#include "topo/platform.hpp"

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

// The node beta is slow, and alpha, whose GPU a program uses.
TEST(ProgramsOnGpu, of_one_host_excuse_no_other_host) {
  Report report;
  report.run.command = {"check"};
  report.topology = topo::synthetic(topo::find_platform("p5.48xlarge"), 3);
  report.topology.hosts[0].name = "alpha";
  report.topology.hosts[1].name = "beta";
  report.topology.host_of_rank.clear();
  for (int rank = 0; rank < 24; ++rank) {
    report.topology.host_of_rank.push_back(rank / 8);
    topo::Gpu& gpu =
        report.topology.hosts[static_cast<std::size_t>(rank / 8)].gpu_devices[static_cast<std::size_t>(rank % 8)];
    gpu.uuid = "GPU-" + std::to_string(rank);
    report.topology.gpu_of_rank.push_back(gpu.uuid);
  }
  Measurement& m = report.results.emplace_back().measurement;
  m.measured_case.backend = "sim";
  m.measured_case.collective = &find_collective("all_gather");
  m.measured_case.group = "node";
  m.measured_case.bytes = GiB(4);
  m.measured_case.ranks = 8;
  m.measured_case.nodes = 1;
  m.throughput = Series{.operations_per_sample = 1, .samples = {}, .summary = {}, .stopped_because = ""};
  m.throughput->summary.median = 0.5;
  for (int node = 0; node < 3; ++node) {
    Group group;
    for (int i = 0; i < 8; ++i) group.push_back(8 * node + i);
    m.groups.push_back({group, {node == 2 ? 1e-2 : 0.5}});
  }
  Suspect alpha, beta;
  alpha.kind = beta.kind = "gpu";
  alpha.name = "n0g3", alpha.host = "alpha";
  beta.name = "n1g3", beta.host = "beta";
  report.suspects = {alpha, beta};
  OpenQuestion both, other;
  both.candidates = {"gpu n0g3", "gpu n1g3"};
  other.candidates = {"gpu n1g3", "gpu n1g4"};
  report.open_questions = {both, other};
  ReportBuilder builder({}, report);
  builder.begin(topo::limits_of(topo::find_platform("p5.48xlarge")), {}, {});
  EXPECT_EQ(builder.report().results[0].verdict.grade, Grade::slow);
  builder.add_programs({{{.uuid = "GPU-5", .of_job = 1, .others = {"pid 11, python"}}}, {}, {}});
  const Report after = builder.report();
  ASSERT_THAT(after.suspects, SizeIs(1));
  EXPECT_EQ(after.suspects[0].name, "n1g3");
  ASSERT_THAT(after.open_questions, SizeIs(1));
  EXPECT_EQ(after.open_questions[0].candidates, other.candidates);
  EXPECT_EQ(after.results[0].verdict.grade, Grade::slow);
  EXPECT_THAT(after.results[0].verdict.not_judged_hosts, ElementsAre("alpha"));
  const std::vector<NodeVerdict> nodes = judge_nodes(after);
  EXPECT_THAT(nodes[0].unfit, IsEmpty());
  EXPECT_THAT(nodes[1].unfit, testing::Contains("slow all_gather"));
  EXPECT_THAT(nodes[2].unfit, IsEmpty());
  const std::string lines = render_nodes(after, false);
  EXPECT_THAT(lines,
              HasSubstr("speed judged in 0 of 1 measurements (other programs use its GPUs)\n  warning gpu.busy: "));
  EXPECT_THAT(lines, HasSubstr("speed judged in 1 of 1 measurements\n"));
}

TEST(ProgramsOnGpu, of_the_job_leave_out_their_host_alone) {
  topo::Topology topology = report_of_two_gpus().topology;
  topology.hosts.push_back(topology.hosts[0]);
  topology.hosts[1].name = "beta";
  topology.hosts[1].gpu_devices[0].uuid = "GPU-c";
  topology.hosts[1].gpu_devices[0].processes = 1;
  topology.hosts[0].gpu_devices[0].processes = 1;
  const std::vector<topo::Finding> findings = topo::busy_gpus(topology);
  EXPECT_THAT(findings, SizeIs(2));
  EXPECT_THAT(without_shared_gpus(topology, {"GPU-c"}, findings).shared_hosts, ElementsAre(1));
  EXPECT_THAT(without_shared_gpus(topology, {"GPU-a", "GPU-b", "GPU-c"}, findings).shared_hosts, ElementsAre(0, 1));
  const Comparability none = without_shared_gpus(topology, {"GPU-b"}, findings);
  EXPECT_THAT(none.shared_hosts, IsEmpty());
  EXPECT_TRUE(none.comparable);
}

}  // namespace
}  // namespace p5::reports
