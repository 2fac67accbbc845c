// Simulated clusters of all platforms that are uniformly slow, from measurement to verdict: none passes. Healthy ones
// are not called slow.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "bench/app/machine/backends.hpp"
#include "bench/app/run/phases.hpp"
#include "bench/backends/backends.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/model/plan.hpp"
#include "reports/decision.hpp"
#include "reports/findings.hpp"
#include "reports/judge.hpp"
#include "reports/suspects.hpp"
#include "topo/platform.hpp"

namespace p5::reports {
namespace {

struct Cluster {
  const topo::Platform& platform;
  int nodes;
};

Report run(const Cluster& cluster, const std::vector<std::string>& faults) {
  constexpr std::uint64_t seed = 1;
  Options options;
  options.platform = cluster.platform.name;
  options.nodes = cluster.nodes;
  options.backend = "sim";
  options.faults = faults;
  options.sizes = {GiB(4)};
  const auto control = make_solo_control_plane(cluster.platform.gpus * cluster.nodes);
  const Machine machine = find_machine(*control, options, seed);
  const Plan plan = make_plan(options, job_facts(machine, seed), *machine.backend, machine.backend_name);
  Report report;
  report.status = "complete";
  report.provenance = "simulated";
  report.topology = machine.topology;
  report.limits = topo::limits_of(cluster.platform);
  report.run.backend = machine.backend_name;
  report.run.nodes = cluster.nodes;
  for (const Measurement& m : measure_beside(*control, *machine.backend, plan.cases, RunnerOptions{}))
    report.results.push_back({m, judge(m, report.limits, report.topology, {})});
  Diagnosis found = diagnose(report, {});
  report.suspects = std::move(found.suspects);
  report.open_questions = std::move(found.questions);
  report.findings = below_published(report);
  report.grade = overall(report);
  report.exit_code = exit_code(report, true);
  report.decision = decide(report);
  return report;
}

void for_each_cluster(const std::function<void(const Cluster&)>& action) {
  // By day each platform of one size: the largest costs three times as much as both others.
  const bool nightly = std::getenv("P5BENCH_NIGHTLY") != nullptr;
  int number = 0;
  for (const topo::Platform& platform : topo::platforms()) {
    const int by_day = ++number % 2 == 0 ? 4 : 2;
    for (const int nodes : nightly ? std::vector{2, 4, 8} : std::vector{by_day})
      if (platform.nics > 0) action({platform, nodes});
  }
}

std::string text_of(const Cluster& cluster) { return fmt::format("{} x {}", cluster.nodes, cluster.platform.name); }

// The same fault in each part of the kind.
std::vector<std::string> everywhere(const Cluster& cluster, const std::string& kind, double left) {
  std::vector<std::string> faults;
  for (int node = 0; node < cluster.nodes; ++node) {
    if (kind == "node") faults.push_back(fmt::format("node:n{}:{}", node, left));
    for (int gpu = 0; kind == "gpu" && gpu < cluster.platform.gpus; ++gpu)
      faults.push_back(fmt::format("gpu:n{}g{}:{}", node, gpu, left));
    for (int nic = 0; kind == "nic" && nic < cluster.platform.nics; ++nic)
      faults.push_back(fmt::format("nic:n{}r{}:{}", node, nic, left));
    for (int other = node + 1; kind == "link" && other < cluster.nodes; ++other)
      faults.push_back(fmt::format("link:n{}-n{}:{}", node, other, left));
  }
  return faults;
}

TEST(UniformlySlow, passes_on_no_platform) {
  constexpr double left = 0.6;
  for_each_cluster([](const Cluster& cluster) {
    for (const std::string kind : {"node", "gpu", "nic", "link"}) {
      if (kind == "gpu" && cluster.platform.links_per_gpu == 0) continue;  // a GPU alone has no link to be slow
      const Report report = run(cluster, everywhere(cluster, kind, left));
      EXPECT_NE(report.exit_code, ExitCode::ok) << text_of(cluster) << " " << kind << ": " << report.decision.sentence;
      EXPECT_NE(report.decision.word, accept) << text_of(cluster) << " " << kind;
    }
  });
}

TEST(UniformlySlow, at_half_the_speed_is_rejected_on_every_platform) {
  constexpr double left = 0.5;
  for_each_cluster([](const Cluster& cluster) {
    const Report report = run(cluster, everywhere(cluster, "node", left));
    EXPECT_EQ(report.exit_code, ExitCode::slow) << text_of(cluster) << ": " << report.decision.sentence;
    EXPECT_TRUE(report.suspects.empty()) << text_of(cluster) << ": " << report.decision.sentence;
  });
}

TEST(UniformlySlow, healthy_clusters_are_not_and_get_no_warning) {
  for_each_cluster([](const Cluster& cluster) {
    const Report report = run(cluster, {});
    EXPECT_TRUE(report.grade == Grade::ok || report.grade == Grade::unknown) << text_of(cluster);
    EXPECT_TRUE(report.findings.empty()) << text_of(cluster) << ": " << report.findings.front().evidence;
    EXPECT_EQ(report.exit_code == ExitCode::ok, report.decision.word == accept) << text_of(cluster);
    for (const Result& result : report.results)
      EXPECT_NE(result.verdict.grade, Grade::slow) << text_of(cluster) << ": " << result.verdict.because;
  });
}

}  // namespace
}  // namespace p5::reports
