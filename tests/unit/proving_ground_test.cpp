// Simulated clusters with faults, through all that a run does to name a part: pairs, NICs one by one, what seemed slow
// once more. Counted: parts that are named rightly, wrongly, and not at all. The table of RESULTS.md is of the nightly
// run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "bench/app/machine/backends.hpp"
#include "bench/app/run/parts.hpp"
#include "bench/backends/backends.hpp"
#include "bench/model/plan.hpp"
#include "bench/worlds/worlds.hpp"
#include "reports/suspects.hpp"
#include "topo/platform.hpp"
#include "topo/topology.hpp"

namespace p5::proving {
namespace {

struct Cluster {
  std::string platform = "p5.48xlarge";
  int nodes = 4;
};

// What was looked for and what was named, "nic n1r5".
using Names = std::set<std::string>;

struct Outcome {
  Names named;
  Names links;  // that were looked at
};

Outcome run(const Cluster& cluster, const std::vector<std::string>& faults, std::uint64_t seed) {
  Options options;
  options.platform = cluster.platform;
  options.nodes = cluster.nodes;
  options.backend = "sim";
  options.faults = faults;
  options.collectives = {"p2p"};
  options.sizes = {MiB(256)};
  const auto job_world = make_solo_world(topo::find_platform(cluster.platform).gpus * cluster.nodes);
  World& world = *job_world;
  Machine machine = find_machine(world, options, seed);
  const JobFacts job = job_facts(machine, seed);
  const Plan plan = make_plan(options, job, *machine.backend, machine.backend_name);
  RunnerOptions runner;
  reports::Report report;
  report.topology = machine.topology;
  report.run.backend = machine.backend_name;
  std::vector<Case> known = plan.cases;
  const std::vector<Case> nics = nic_cases(machine.backend_name, job, machine.topology.nics_of_rank, MiB(8), false);
  known.insert(known.end(), nics.begin(), nics.end());
  const std::vector<Case> groups = group_cases(machine.backend_name, job, MiB(256));
  known.insert(known.end(), groups.begin(), groups.end());
  for (const Measurement& m : measure_beside(world, *machine.backend, known, runner)) report.results.push_back({m, {}});
  const std::vector<Case> again = cases_again(world, reports::in_doubt(report), known, job);
  std::vector<Measurement> measured_again;
  if (!again.empty()) measured_again = measure_beside(world, *machine.backend, again, runner);
  Outcome outcome;
  for (const reports::Suspect& suspect : find_suspects(report, measured_again))
    outcome.named.insert(suspect.kind + " " + suspect.name);
  for (const Case& c : plan.cases)
    for (const Round& round : *c.rounds)
      for (const Group& pair : round) {
        const auto [low, high] = std::minmax(job.node_of_rank[static_cast<std::size_t>(pair[0])],
                                             job.node_of_rank[static_cast<std::size_t>(pair[1])]);
        outcome.links.insert(fmt::format("link n{}-n{}", low, high));
      }
  return outcome;
}

struct Counts {
  int there = 0, found = 0, wrong = 0, runs = 0;
};

// A kind of scenario: draws the faults, and says what has to be named for them.
struct Scenario {
  std::string name;
  int from_nodes = 1;  // on fewer nothing can tell
  std::function<Names(const Cluster&, std::mt19937_64&, std::vector<std::string>&)> draw;
  double recall = 0.99;  // at least
};

int below(std::mt19937_64& random, int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); }

// From a loss of 10 % on.
double factor(std::mt19937_64& random) { return 0.3 + 0.6 * static_cast<double>(random() >> 11) * 0x1p-53; }

std::string add(std::vector<std::string>& faults, const std::string& kind, const std::string& name, double left,
                const std::string& mode = "always") {
  faults.push_back(fmt::format("{}:{}:{:.3f}:{}", kind, name, left, mode));
  return kind + " " + name;
}

std::string a_gpu(const Cluster& c, std::mt19937_64& random) {
  return fmt::format("n{}g{}", below(random, c.nodes), below(random, topo::find_platform(c.platform).gpus));
}
std::string a_nic(const Cluster& c, std::mt19937_64& random) {
  return fmt::format("n{}r{}", below(random, c.nodes), below(random, topo::find_platform(c.platform).nics));
}
std::string a_link(const Cluster& c, std::mt19937_64& random) {
  const int one = below(random, c.nodes), other = (one + 1 + below(random, c.nodes - 1)) % c.nodes;
  return fmt::format("n{}-n{}", std::min(one, other), std::max(one, other));
}

using FaultTexts = std::vector<std::string>;

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all{
      {"healthy", 1, [](const Cluster&, std::mt19937_64&, FaultTexts&) { return Names{}; }},
      {"a slow GPU", 1,
       [](const Cluster& c, std::mt19937_64& random, FaultTexts& faults) {
         return Names{add(faults, "gpu", a_gpu(c, random), factor(random))};
       }},
      {"a slow NIC", 2,
       [](const Cluster& c, std::mt19937_64& random, FaultTexts& faults) {
         return Names{add(faults, "nic", a_nic(c, random), factor(random))};
       }},
      {"a slow node", 3,
       [](const Cluster& c, std::mt19937_64& random, FaultTexts& faults) {
         return Names{add(faults, "node", fmt::format("n{}", below(random, c.nodes)), factor(random))};
       }},
      {"a slow link", 3,
       [](const Cluster& c, std::mt19937_64& random, FaultTexts& faults) {
         return Names{add(faults, "link", a_link(c, random), factor(random))};
       }},
      {"a NIC and a GPU", 2,
       [](const Cluster& c, std::mt19937_64& random, FaultTexts& faults) {
         Names names{add(faults, "nic", a_nic(c, random), factor(random))};
         names.insert(add(faults, "gpu", a_gpu(c, random), factor(random)));
         return names;
       }},
      {"two NICs", 2,
       [](const Cluster& c, std::mt19937_64& random, FaultTexts& faults) {
         Names names{add(faults, "nic", a_nic(c, random), factor(random))};
         names.insert(add(faults, "nic", a_nic(c, random), factor(random)));
         return names;
       }},
      {"a NIC under all rails only", 2,
       [](const Cluster& c, std::mt19937_64& random, FaultTexts& faults) {
         return Names{add(faults, "nic", a_nic(c, random), factor(random), "all-rails")};
       }},
      {"a NIC, in 30 % of samples", 3,
       [](const Cluster& c, std::mt19937_64& random, FaultTexts& faults) {
         return Names{add(faults, "nic", a_nic(c, random), factor(random), "30%")};
       },
       0.95},
      {"a GPU, in 30 % of samples", 1,
       [](const Cluster& c, std::mt19937_64& random, FaultTexts& faults) {
         return Names{add(faults, "gpu", a_gpu(c, random), factor(random), "30%")};
       },
       0.95},
      {"a node, at scale only", 4,
       [](const Cluster& c, std::mt19937_64& random, FaultTexts& faults) {
         return Names{add(faults, "node", fmt::format("n{}", below(random, c.nodes)), factor(random), "at-scale")};
       }},
      {"a rail, at scale only", 3,
       [](const Cluster& c, std::mt19937_64& random, FaultTexts& faults) {
         const topo::Platform& p = topo::find_platform(c.platform);
         const int rail = below(random, p.gpus);
         const double left = factor(random);
         for (int node = 0; node < c.nodes; ++node)
           add(faults, "nic", fmt::format("n{}r{}", node, rail * p.nics / p.gpus), left, "at-scale");
         Names names;  // GPUs may share a NIC
         for (int gpu = 0; gpu < p.gpus; ++gpu)
           if (gpu * p.nics / p.gpus == rail * p.nics / p.gpus) names.insert(fmt::format("rail {}", gpu));
         return names;
       }},
      {"all nodes alike", 2,
       [](const Cluster& c, std::mt19937_64& random, FaultTexts& faults) {
         const double left = factor(random);
         for (int node = 0; node < c.nodes; ++node) add(faults, "node", fmt::format("n{}", node), left);
         return Names{};
       }},
  };
  return all;
}

// "nic n3r4-7": pairs of GPUs tell that it is one of these, no more. Neither found nor wrong.
bool holds_one_of(const std::string& name, const Names& wanted) {
  const std::size_t first = name.find('r'), dash = name.find('-');
  if (!name.starts_with("nic") || first == std::string::npos || dash == std::string::npos) return false;
  for (int nic = std::stoi(name.substr(first + 1)); nic <= std::stoi(name.substr(dash + 1)); ++nic)
    if (wanted.contains(fmt::format("{}r{}", name.substr(0, first), nic))) return true;
  return false;
}

Counts count_one(const Cluster& cluster, const Scenario& scenario, int seed) {
  std::mt19937_64 random(static_cast<std::uint64_t>(seed) * 7919 + static_cast<std::uint64_t>(cluster.nodes));
  std::vector<std::string> faults;
  Names wanted = scenario.draw(cluster, random, faults);
  const auto [got, links] = run(cluster, faults, static_cast<std::uint64_t>(seed));
  // Of many nodes not all links are looked at, as the run's remark says.
  std::erase_if(
      wanted, [&, &seen = links](const std::string& each) { return each.starts_with("link") && !seen.contains(each); });
  Counts counts{.there = static_cast<int>(wanted.size()), .runs = 1};
  for (const std::string& each : wanted) counts.found += static_cast<int>(got.count(each));
  for (const std::string& each : got) counts.wrong += wanted.count(each) || holds_one_of(each, wanted) ? 0 : 1;
  if (got != wanted)
    fmt::print("{} nodes, seed {}: wanted {}, got {}; faults {}\n", cluster.nodes, seed, testing::PrintToString(wanted),
               testing::PrintToString(got), testing::PrintToString(faults));
  return counts;
}

Counts count(const Cluster& cluster, const Scenario& scenario, int runs) {
  std::vector<Counts> of_seed(static_cast<std::size_t>(runs));
  std::atomic<std::size_t> next = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::max(std::thread::hardware_concurrency(), 1u); ++i)
      threads.emplace_back([&] {
        for (std::size_t at = next++; at < of_seed.size(); at = next++)
          of_seed[at] = count_one(cluster, scenario, static_cast<int>(at) + 1);
      });
  }
  Counts all;
  for (const Counts& each : of_seed) {
    all.there += each.there;
    all.found += each.found;
    all.wrong += each.wrong;
    all.runs += each.runs;
  }
  return all;
}

struct Ground {
  Cluster cluster;
  int runs, runs_nightly;
};

void PrintTo(const Ground& ground, std::ostream* out) {
  *out << ground.cluster.nodes << " x " << ground.cluster.platform;
}

class ProvingGround : public testing::TestWithParam<Ground> {
 public:
  // P5BENCH_UPDATE=1 writes the table of all that were counted.
  static void TearDownTestSuite() {
    if (!std::getenv("P5BENCH_UPDATE") || rows().empty()) return;
    const std::string path = std::string(P5BENCH_SOURCE_FOLDER) + "/reports/RESULTS.md";
    const std::string begin = "<!-- proving ground -->\n", end = "<!-- /proving ground -->";
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    std::string results = text.str();
    const std::size_t from = results.find(begin) + begin.size();
    ASSERT_NE(results.find(end), std::string::npos);
    results.replace(
        from, results.find(end) - from,
        "| fault | cluster | runs | faults | named rightly | named wrongly |\n|---|---|---|---|---|---|\n" + rows());
    std::ofstream(path) << results;
  }
  static std::string& rows() {
    static std::string all;
    return all;
  }
};

TEST_P(ProvingGround, names_the_part_that_is_slow) {
  const Ground& ground = GetParam();
  const int runs = std::getenv("P5BENCH_NIGHTLY") ? ground.runs_nightly : ground.runs;
  for (const Scenario& scenario : scenarios()) {
    // With an odd number of nodes one pauses in each round, and the rails are never all used.
    if (scenario.name.find("all rails") != std::string::npos && ground.cluster.nodes % 2 == 1) continue;
    if (runs == 0 || ground.cluster.nodes < scenario.from_nodes) continue;
    const Counts c = count(ground.cluster, scenario, runs);
    rows() += fmt::format("| {} | {} x {} | {} | {} | {} | {} |\n", scenario.name, ground.cluster.nodes,
                          ground.cluster.platform, c.runs, c.there, c.found, c.wrong);
    EXPECT_GE(c.found, scenario.recall * c.there) << scenario.name;
    EXPECT_LE(c.wrong, 0.01 * c.runs) << scenario.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Clusters, ProvingGround,
                         testing::Values(Ground{{"p5.48xlarge", 1}, 3, 20}, Ground{{"p5.48xlarge", 2}, 3, 20},
                                         Ground{{"p5.48xlarge", 3}, 3, 20}, Ground{{"p4d.24xlarge", 3}, 3, 20},
                                         Ground{{"p5en.48xlarge", 4}, 20, 1000}, Ground{{"p5.48xlarge", 16}, 0, 20},
                                         Ground{{"p5.48xlarge", 64}, 0, 5}, Ground{{"p5.48xlarge", 512}, 0, 1}));

}  // namespace
}  // namespace p5::proving
