// Simulated clusters with random faults by seed, through all steps that name a part: pairs, single NICs, groups, and
// retests. Counts named faults, faults among candidates of questions, and accused parts without a fault. The tables in
// RESULTS.md are from the nightly run.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "bench/app/machine/backends.hpp"
#include "bench/app/run/phases.hpp"
#include "bench/backends/backends.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/model/plan.hpp"
#include "reports/retests.hpp"
#include "reports/suspects.hpp"
#include "topo/platform.hpp"
#include "topo/topology.hpp"

namespace p5::proving {
namespace {

struct Cluster {
  std::string platform = "p5.48xlarge";
  int nodes = 4;
};

using FaultTexts = std::vector<std::string>;

struct Named {
  std::string name;
  double confidence = 0;
};

struct Outcome {
  std::vector<Named> suspects;
  std::vector<std::vector<Named>> questions;  // candidates of each question
  std::set<std::string> links;                // links between nodes that were paired
};

Options options_of(const Cluster& cluster, const std::vector<std::string>& faults) {
  Options options;
  options.platform = cluster.platform;
  options.nodes = cluster.nodes;
  options.backend = "sim";
  options.faults = faults;
  options.sizes = {MiB(256)};
  return options;
}

Outcome run(const Cluster& cluster, const std::vector<std::string>& faults, std::uint64_t seed) {
  Options options = options_of(cluster, faults);
  options.collectives = {"p2p"};
  const auto job_world = make_solo_control_plane(topo::find_platform(cluster.platform).gpus * cluster.nodes);
  ControlPlane& control = *job_world;
  Machine machine = find_machine(control, options, seed);
  const JobFacts job = job_facts(machine, seed);
  const Plan plan = make_plan(options, job, *machine.backend, machine.backend_name);
  RunnerOptions runner;
  reports::Report report;
  report.topology = machine.topology;
  report.run.backend = machine.backend_name;
  std::vector<Case> known = plan.cases;
  const std::vector<Case> nics = nic_cases(machine.backend_name, job, machine.topology.nics_of_rank, MiB(8));
  known.insert(known.end(), nics.begin(), nics.end());
  const std::vector<Case> groups = group_cases(machine.backend_name, job, MiB(256));
  known.insert(known.end(), groups.begin(), groups.end());
  for (const Measurement& m : measure_beside(control, *machine.backend, known, runner))
    report.results.push_back({m, {}});
  const std::vector<Case> again = cases_again(control, reports::to_retest(report), known, job);
  std::vector<Measurement> measured_again;
  if (!again.empty()) measured_again = measure_beside(control, *machine.backend, again, runner);
  Outcome outcome;
  const reports::Diagnosis found = diagnose(report, measured_again);
  for (const reports::Suspect& suspect : found.suspects)
    outcome.suspects.push_back({suspect.kind + " " + suspect.name, suspect.confidence});
  for (const reports::OpenQuestion& question : found.questions) {
    std::vector<Named>& candidates = outcome.questions.emplace_back();
    for (std::size_t i = 0; i < question.candidates.size(); ++i)
      candidates.push_back({question.candidates[i], question.probabilities[i]});
  }
  for (const Case& c : plan.cases)
    for (const Round& round : *c.rounds)
      for (const Group& pair : round) {
        const auto [low, high] = std::minmax(job.node_of_rank[static_cast<std::size_t>(pair[0])],
                                             job.node_of_rank[static_cast<std::size_t>(pair[1])]);
        outcome.links.insert(fmt::format("link n{}-n{}", low, high));
      }
  return outcome;
}

using Random = std::mt19937_64;
int below(Random& random, int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); }
double uniform(Random& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

// The fault in --fault's syntax, and the part's name in reports.
struct Planted {
  std::string text, name;
  std::string mode;  // always, some, all-rails, at-scale, silent, lies
  int percent = 100;
};

enum class What { gpu, nic, node, link };

std::string place_of(What what, const Cluster& c, Random& random) {
  const topo::Platform& platform = topo::find_platform(c.platform);
  const int node = below(random, c.nodes);
  switch (what) {
    case What::gpu:
      return fmt::format("gpu:n{}g{}", node, below(random, platform.gpus));
    case What::nic:
      return fmt::format("nic:n{}r{}", node, below(random, std::max(platform.nics, 1)));
    case What::node:
      return fmt::format("node:n{}", node);
    case What::link:
      break;
  }
  const int other = (node + 1 + below(random, c.nodes - 1)) % c.nodes;
  return fmt::format("link:n{}-n{}", std::min(node, other), std::max(node, other));
}

// Losses of 10 % to 70 %.
Planted plant(What what, const std::string& mode, const Cluster& c, Random& random) {
  const std::string place = place_of(what, c, random);
  Planted planted{.text = "", .name = place, .mode = mode};
  std::ranges::replace(planted.name, ':', ' ');
  const double left = mode == "silent" ? 0 : 0.3 + 0.6 * uniform(random);
  std::string how = mode;
  if (mode == "some") planted.percent = 1 + below(random, 99), how = fmt::format("{}%", planted.percent);
  if (mode == "silent") how = "always";
  planted.text = fmt::format("{}:{:.3f}:{}", place, left, how);
  return planted;
}

bool is_nightly() { return std::getenv("P5BENCH_NIGHTLY") != nullptr; }

// Clusters of all platforms that have a network of their own and several GPUs in each node.
Cluster draw_cluster(Random& random, int fewest_nodes) {
  std::vector<std::string> names;
  for (const topo::Platform& platform : topo::platforms())
    if (platform.nics > 0 && platform.gpus > 1) names.push_back(platform.name);
  // Large clusters take long.
  const std::vector<int> sizes = is_nightly() ? std::vector{2, 3, 4, 5, 8, 16} : std::vector{2, 3, 4, 5};
  Cluster cluster{names[static_cast<std::size_t>(below(random, static_cast<int>(names.size())))], 0};
  while (cluster.nodes < fewest_nodes)
    cluster.nodes = sizes[static_cast<std::size_t>(below(random, static_cast<int>(sizes.size())))];
  return cluster;
}

// A mode that affects this part.
std::string draw_mode(What what, Random& random) {
  std::vector<std::string> modes{"always", "some", "all-rails", "silent"};
  if (what != What::link) modes.emplace_back("lies");
  if (what == What::gpu || what == What::node) modes.emplace_back("at-scale");
  return modes[static_cast<std::size_t>(below(random, static_cast<int>(modes.size())))];
}

// Two nodes, their link and their only NICs cannot be distinguished.
Planted draw_fault(const Cluster& c, Random& random) {
  int kinds = 4;
  if (c.nodes < 3) kinds = topo::find_platform(c.platform).nics > 1 ? 2 : 1;
  const auto what = static_cast<What>(below(random, kinds));
  return plant(what, draw_mode(what, random), c, random);
}

// If all links of one node of three are slow, so is that node.
bool can_be_told(const Cluster& c, const std::vector<Planted>& two) {
  return c.nodes > 3 || !std::ranges::all_of(two, [](const Planted& each) { return each.name.starts_with("link"); });
}

// Accepts "nic n3r4-7" for nic n3r5 (the NICs beside a GPU that include it), and "rail 2-3" for rail 2 or 3.
bool holds(const std::string& name, const std::string& wanted) {
  if (name == wanted) return true;
  const std::size_t digits = name.find_last_not_of("0123456789-") + 1, dash = name.find('-', digits);
  if (dash == std::string::npos || name.starts_with("link") || name.substr(0, digits) != wanted.substr(0, digits))
    return false;
  const int number = std::stoi(wanted.substr(digits));
  return std::stoi(name.substr(digits)) <= number && number <= std::stoi(name.substr(dash + 1));
}

// True if the part belongs to this node or is a link of it.
bool is_on(const std::string& node, const std::string& part) {
  if (!node.starts_with("node ")) return false;
  const std::string name = node.substr(std::string_view("node ").size());
  const std::string place = part.substr(part.find(' ') + 1);
  const auto begins = [&](const std::string& text) {
    return text.starts_with(name) && (text.size() == name.size() || std::isdigit(text[name.size()]) == 0);
  };
  return begins(place) || (part.starts_with("link") && begins(place.substr(place.find('-') + 1)));
}

struct Counts {
  int runs = 0, faults = 0, named = 0, asked = 0, runs_with_innocents = 0;
  std::vector<std::pair<double, bool>> probabilities;  // stated probability of a part, and whether it was at fault

  void add(const Counts& other) {
    runs += other.runs;
    faults += other.faults;
    named += other.named;
    asked += other.asked;
    runs_with_innocents += other.runs_with_innocents;
    probabilities.insert(probabilities.end(), other.probabilities.begin(), other.probabilities.end());
  }
  double found() const { return faults == 0 ? 1 : static_cast<double>(named + asked) / faults; }
};

// Seconds of a large all-reduce of all ranks.
double time_of_all_reduce(const Cluster& cluster, const std::vector<std::string>& faults, std::uint64_t seed) {
  Options options = options_of(cluster, faults);
  options.collectives = {"all_reduce"};
  const auto job_world = make_solo_control_plane(topo::find_platform(cluster.platform).gpus * cluster.nodes);
  Machine machine = find_machine(*job_world, options, seed);
  const Plan plan = make_plan(options, job_facts(machine, seed), *machine.backend, machine.backend_name);
  double seconds = 0;
  for (const Measurement& m : measure_beside(*job_world, *machine.backend, plan.cases, {}))
    if (m.measured_case.group == "world" && m.throughput) seconds = std::max(seconds, m.throughput->summary.median);
  return seconds;
}

// Where NVLink limits collectives, a link that lacks a tenth of its rate and more slows them by less than that; all
// rails, which it does slow, are slow alike then.
bool costs_jobs_little(const Cluster& cluster, const FaultTexts& faults, std::uint64_t seed) {
  constexpr double little = 0.1;
  return time_of_all_reduce(cluster, faults, seed) * (1 - little) < time_of_all_reduce(cluster, {}, seed);
}

// A fault is found if it is named, if it is a candidate of a question, or if its node is named for another fault and a
// retest without that node is advised. A suspect is innocent if it is neither at fault nor the node of all faults.
Counts count_one(const Cluster& cluster, const std::vector<Planted>& planted, std::uint64_t seed) {
  FaultTexts texts;
  for (const Planted& each : planted) texts.push_back(each.text);
  const Outcome outcome = run(cluster, texts, seed);
  Counts counts;
  counts.runs = 1;
  std::string missed;
  for (const Planted& fault : planted) {
    if (fault.name.starts_with("link") && !outcome.links.contains(fault.name))
      continue;  // not all pairs of many nodes are measured
    ++counts.faults;
    const auto is_it = [&](const Named& each) { return holds(each.name, fault.name); };
    // Named parts that have to be removed before this one can show.
    const bool is_hidden = std::ranges::any_of(planted, [&](const Planted& other) {
      const bool is_named =
          std::ranges::any_of(outcome.suspects, [&](const Named& each) { return each.name == other.name; });
      return other.name != fault.name && is_named && (other.mode == "silent" || is_on(other.name, fault.name));
    });
    const bool asked = is_hidden || std::ranges::any_of(outcome.questions, [&](const std::vector<Named>& each) {
                         return std::ranges::any_of(each, is_it);
                       });
    if (std::ranges::any_of(outcome.suspects, is_it))
      ++counts.named;
    else if (asked)
      ++counts.asked;
    else if (fault.mode == "at-scale" && fault.name.starts_with("link") && costs_jobs_little(cluster, texts, seed))
      --counts.faults;
    else
      missed += " " + fault.name;
  }
  std::string wrong;
  const auto is_guilty = [&](const Named& each) {
    return std::ranges::any_of(planted, [&](const Planted& fault) { return holds(each.name, fault.name); });
  };
  for (const Named& each : outcome.suspects) {
    counts.probabilities.emplace_back(each.confidence, is_guilty(each));
    if (!is_guilty(each)) wrong += " " + each.name;
  }
  for (const std::vector<Named>& question : outcome.questions)
    for (const Named& each : question) counts.probabilities.emplace_back(each.confidence, is_guilty(each));
  counts.runs_with_innocents = wrong.empty() ? 0 : 1;
  if (!missed.empty() || !wrong.empty()) {
    std::string asked;
    for (const std::vector<Named>& question : outcome.questions)
      asked += fmt::format(" [{} or {} others]", question.front().name, question.size() - 1);
    fmt::print("{} x {}, seed {}, {}: missed{}, innocent{}, asked{}\n", cluster.nodes, cluster.platform, seed,
               testing::PrintToString(texts), missed, wrong, asked);
  }
  return counts;
}

// Runs all seeds on all cores.
std::vector<Counts> run_all(int runs, const std::function<Counts(std::uint64_t)>& one) {
  std::vector<Counts> of_seed(static_cast<std::size_t>(runs));
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(std::thread::hardware_concurrency(), 1u); ++i)
    threads.emplace_back([&] {
      for (std::size_t at = next++; at < of_seed.size(); at = next++) of_seed[at] = one(at + 1);
    });
  threads.clear();
  return of_seed;
}

Counts total_of(const std::vector<Counts>& runs) {
  Counts total;
  for (const Counts& each : runs) total.add(each);
  return total;
}

class ProvingGround : public testing::Test {
 public:
  // P5BENCH_UPDATE=1 rewrites the tables.
  static void TearDownTestSuite() {
    if (!std::getenv("P5BENCH_UPDATE") || rows().empty()) return;
    const std::string path = std::string(P5BENCH_SOURCE_FOLDER) + "/reports/RESULTS.md";
    const std::string begin = "<!-- proving ground -->\n", end = "<!-- /proving ground -->";
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    std::string results = text.str();
    const std::size_t from = results.find(begin) + begin.size();
    ASSERT_NE(results.find(end), std::string::npos);
    results.replace(from, results.find(end) - from,
                    "| faults | mode | runs | faults | named | asked about | runs with an innocent part named |\n"
                    "|---|---|---|---|---|---|---|\n" +
                        rows() + "\n" + calibration());
    std::ofstream(path) << results;
  }
  static std::string& rows() {
    static std::string all;
    return all;
  }
  static Counts& all() {
    static Counts counts;
    return counts;
  }

  static void tell(const std::string& what, const std::string& mode, const Counts& c) {
    rows() += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", what, mode, c.runs, c.faults, c.named, c.asked,
                          c.runs_with_innocents);
    all().add(c);
  }

  // Rate of faults among parts with a stated probability in this range.
  static std::string calibration() {
    std::string table = "| probability said | parts | at fault |\n|---|---|---|\n";
    const std::array edges{0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 1.01};
    for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
      int count = 0, right = 0;
      for (const auto& [probability, guilty] : all().probabilities)
        if (probability >= edges[i] && probability < edges[i + 1]) ++count, right += guilty ? 1 : 0;
      if (count > 0)
        table += fmt::format("| {:g} to {:g} | {} | {:.0f} % |\n", edges[i], std::min(edges[i + 1], 1.0), count,
                             100.0 * right / count);
    }
    return table;
  }
};

TEST_F(ProvingGround, names_nobody_on_healthy_clusters) {
  const Counts all = total_of(run_all(is_nightly() ? 1000 : 15, [](std::uint64_t seed) {
    Random random(seed * 7919);
    return count_one(draw_cluster(random, 1), {}, seed);
  }));
  tell("none", "", all);
  EXPECT_EQ(all.runs_with_innocents, 0);
}

// Faults that show in under a tenth of the samples are hard to separate from the one slow sample in a hundred on
// healthy parts.
bool is_rare(const Planted& fault) { return fault.mode == "some" && fault.percent < 10; }

TEST_F(ProvingGround, names_single_faults) {
  std::map<std::string, Counts> of_mode;
  std::mutex mutex;
  run_all(is_nightly() ? 600 : 30, [&](std::uint64_t seed) {
    Random random(seed * 104729);
    const Cluster cluster = draw_cluster(random, 2);
    const Planted fault = draw_fault(cluster, random);
    const Counts counts = count_one(cluster, {fault}, seed);
    const std::scoped_lock lock(mutex);
    of_mode[is_rare(fault)         ? "in less than 10 % of samples"
            : fault.mode == "some" ? "in 10 to 99 % of samples"
                                   : fault.mode]
        .add(counts);
    return counts;
  });
  Counts often;
  for (const auto& [mode, counts] : of_mode) {
    tell("one", mode, counts);
    if (mode != "in less than 10 % of samples") often.add(counts);
  }
  EXPECT_GE(often.found(), 0.99);
  EXPECT_LE(often.runs_with_innocents, 0.005 * often.runs);
}

TEST_F(ProvingGround, names_double_faults_or_asks_about_them) {
  const Counts all = total_of(run_all(is_nightly() ? 400 : 20, [](std::uint64_t seed) {
    Random random(seed * 15485863);
    const Cluster cluster = draw_cluster(random, 3);
    std::vector<Planted> two;
    while (two.size() < 2) {
      Planted fault = draw_fault(cluster, random);
      if (is_rare(fault) || (!two.empty() && two.front().name == fault.name)) continue;
      two.push_back(std::move(fault));
      if (!can_be_told(cluster, two) && two.size() == 2) two.clear();
    }
    return count_one(cluster, two, seed);
  }));
  tell("two", "any but less than 10 % of samples", all);
  EXPECT_GE(all.found(), 0.95);
  EXPECT_LE(all.runs_with_innocents, 0.005 * all.runs);
}

// Up to eight nodes each two are a group; of more not every link is used by one.
Cluster draw_small_cluster(Random& random, int fewest_nodes) {
  constexpr int most_nodes = 8;
  Cluster cluster = draw_cluster(random, fewest_nodes);
  while (cluster.nodes > most_nodes) cluster = draw_cluster(random, fewest_nodes);
  return cluster;
}

TEST_F(ProvingGround, names_links_that_are_slow_only_in_collectives) {
  const Counts all = total_of(run_all(is_nightly() ? 300 : 15, [](std::uint64_t seed) {
    Random random(seed * 49979687);
    const Cluster cluster = draw_small_cluster(random, 3);
    return count_one(cluster, {plant(What::link, "at-scale", cluster, random)}, seed);
  }));
  tell("a link", "at-scale", all);
  EXPECT_GE(all.found(), 0.99);
  EXPECT_GE(all.named, 0.95 * all.faults);
  EXPECT_LE(all.runs_with_innocents, 0.005 * all.runs);
}

// Rings of all nodes use the links of neighbours, so that all that spans all nodes is slow alike.
TEST_F(ProvingGround, names_links_of_neighbours_that_are_slow_only_in_collectives) {
  const Counts all = total_of(run_all(is_nightly() ? 200 : 10, [](std::uint64_t seed) {
    Random random(seed * 67867967);
    const Cluster cluster = draw_small_cluster(random, 3);
    const int node = below(random, cluster.nodes - 1);
    const double left = 0.3 + 0.6 * uniform(random);
    return count_one(cluster,
                     {{.text = fmt::format("link:n{}-n{}:{:.3f}:at-scale", node, node + 1, left),
                       .name = fmt::format("link n{}-n{}", node, node + 1),
                       .mode = "at-scale"}},
                     seed);
  }));
  tell("a link of neighbours", "at-scale", all);
  EXPECT_GE(all.found(), 0.99);
  EXPECT_GE(all.named, 0.95 * all.faults);
  EXPECT_LE(all.runs_with_innocents, 0.005 * all.runs);
}

bool are_of_one_rail(const Cluster& c, const std::vector<Planted>& two) {
  const topo::Platform& platform = topo::find_platform(c.platform);
  const auto rail_of = [&](const Planted& nic) {
    const int number = std::stoi(nic.name.substr(nic.name.find('r') + 1));
    return number * platform.gpus / platform.nics;
  };
  return rail_of(two[0]) == rail_of(two[1]);
}

// Two nodes and two rails are slow; which NIC is on which node may stay open. Of three nodes each two are slow then, so
// that the one that loses less may not show, and that it may also be all NICs of a rail.
TEST_F(ProvingGround, accuses_no_third_of_two_nics_that_are_slow_only_in_collectives) {
  for (const bool three_nodes : {true, false}) {
    Counts all;
    for (const Counts& each : run_all(is_nightly() ? 200 : 10, [&](std::uint64_t seed) {
           Random random(seed * 86028121);
           Cluster cluster;
           std::vector<Planted> two;
           while (two.empty() || two[0].name == two[1].name || (three_nodes && are_of_one_rail(cluster, two))) {
             cluster = draw_small_cluster(random, 4);
             if (three_nodes) cluster.nodes = 3;
             two.clear();
             for (int i = 0; i < 2; ++i) two.push_back(plant(What::nic, "at-scale", cluster, random));
           }
           return count_one(cluster, two, seed);
         }))
      all.add(each);
    tell(three_nodes ? "two NICs of three nodes" : "two NICs of more nodes", "at-scale", all);
    EXPECT_GE(all.found(), three_nodes ? 0.5 : 0.95);
    EXPECT_LE(all.runs_with_innocents, 0.005 * all.runs);
  }
}

struct Row {
  const char* platform;
  int nodes;
  std::vector<const char*> faults;  // KIND:WHERE:FACTOR[:MODE]
  std::set<std::string> named;      // exactly these
  std::string asked = {};           // or no suspect, and this part among the candidates of a question
};
void PrintTo(const Named& named, std::ostream* out) { *out << fmt::format("{}: {:.3g}", named.name, named.confidence); }
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.nodes << " x " << row.platform << " " << testing::PrintToString(row.faults);
}

class CausesOfSlowness : public testing::TestWithParam<Row> {};

TEST_P(CausesOfSlowness, are_named_and_nothing_else) {
  const Row& row = GetParam();
  for (std::uint64_t seed = 1; seed <= (is_nightly() ? 3u : 1u); ++seed) {
    const Outcome outcome = run({row.platform, row.nodes}, {row.faults.begin(), row.faults.end()}, seed);
    std::set<std::string> names, candidates;
    for (const Named& each : outcome.suspects) names.insert(each.name);
    for (const std::vector<Named>& question : outcome.questions)
      for (const Named& each : question) candidates.insert(each.name);
    if (names.empty() && !row.asked.empty()) {
      EXPECT_TRUE(candidates.contains(row.asked)) << "seed " << seed << ": " << testing::PrintToString(candidates);
    } else {
      EXPECT_EQ(names, row.named) << "seed " << seed << ", asked about " << testing::PrintToString(outcome.questions);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, CausesOfSlowness,
    testing::Values(
        Row{"p5.48xlarge", 4, {"node:n2:0.7:50%"}, {"node n2"}},
        Row{"p4d.24xlarge", 4, {"node:n2:0.7:50%"}, {"node n2"}},
        Row{"p6-b200.48xlarge", 3, {"node:n2:0.7:50%"}, {"node n2"}},
        Row{"p5.48xlarge", 3, {"node:n0:0.5", "node:n2:0.5"}, {"node n0", "node n2"}},
        Row{"p5.48xlarge", 4, {"node:n0:0.5", "node:n1:0.5", "node:n3:0.5"}, {"node n0", "node n1", "node n3"}},
        Row{"p5.48xlarge", 3, {"link:n0-n1:0.5:all-rails"}, {"link n0-n1"}},
        Row{"p5.48xlarge", 3, {"gpu:n1g3:0.5:at-scale"}, {"gpu n1g3"}, "gpu n1g3"},
        Row{"p4d.24xlarge", 4, {"gpu:n1g3:0.5:at-scale"}, {"gpu n1g3"}, "gpu n1g3"},
        Row{"p5.48xlarge", 4, {"nic:n1r5:0.5:at-scale"}, {"nic n1r4-7"}},
        Row{"p5.48xlarge", 4, {"link:n1-n3:0.5:at-scale"}, {"link n1-n3"}},
        Row{"p5.48xlarge", 4, {"link:n0-n1:0.8:at-scale"}, {"link n0-n1"}},
        Row{"p5.48xlarge", 8, {"link:n1-n3:0.5:at-scale"}, {"link n1-n3"}},
        Row{"p5.48xlarge", 4, {"link:n0-n2:0:at-scale"}, {"link n0-n2"}, "link n0-n2"},
        Row{"p5.48xlarge", 4, {"link:n0-n2:0:at-scale"}, {}, "nic n0r0-3"},
        Row{"p4d.24xlarge", 3, {"nic:n0r2:0.6:at-scale", "nic:n1r1:0.6:at-scale"}, {}, "nic n1r1"},
        Row{"p5.48xlarge", 3, {"nic:n0r9:0.5", "nic:n1r9:0.5", "nic:n2r9:0.5"}, {"rail 2"}},
        Row{"p4de.24xlarge", 4, {"nic:n0r2:0.5:at-scale", "nic:n1r1:0.5:at-scale"}, {}, "nic n1r1"},
        Row{"p6-b200.48xlarge", 8, {"nic:n0r2:0.5:at-scale", "nic:n1r1:0.5:at-scale"}, {}, "nic n0r2"},
        Row{"p5.48xlarge", 1, {"gpu:n0g2:0.5:at-scale"}, {"gpu n0g2"}},
        Row{"p5.48xlarge", 1, {"gpu:n0g7:0.8:at-scale", "gpu:n0g2:0.5"}, {"gpu n0g2", "gpu n0g7"}},
        Row{"p3dn.24xlarge", 1, {"gpu:n0g2:0.5:at-scale"}, {}},
        Row{"p5.4xlarge", 4, {"nic:n1r0:0.5:at-scale"}, {}, "nic n1r0"},
        Row{"p5.4xlarge", 5, {"nic:n1r0:0.5:at-scale"}, {}, "nic n1r0"},
        Row{"p5.4xlarge", 6, {"node:n4:0.8:at-scale"}, {}, "node n4"},
        Row{"p5.4xlarge", 8, {"nic:n1r0:0.5:at-scale"}, {}, "nic n1r0"},
        Row{"p5.4xlarge", 16, {"nic:n1r0:0.9:at-scale"}, {}, "nic n1r0"},
        Row{"gb200-nvl72", 4, {"node:n0:0.9"}, {"node n0"}},
        Row{"p3dn.24xlarge", 4, {"gpu:n2g3:0.5"}, {"gpu n2g3"}, "gpu n2g3"},
        Row{"p3dn.24xlarge", 4, {"nic:n2r0:0.5"}, {"nic n2r0"}, "nic n2r0"},
        Row{"p5.4xlarge", 4, {"gpu:n2g0:0.5"}, {"gpu n2g0"}, "gpu n2g0"},
        Row{"p5.48xlarge", 4, {"nic:n2r31:0"}, {"nic n2r31"}}, Row{"p5.48xlarge", 4, {"gpu:n0g0:0"}, {"gpu n0g0"}},
        Row{"p5.48xlarge", 2, {"nic:n1r31:0"}, {"nic n1r31"}}, Row{"p5.48xlarge", 4, {"link:n1-n2:0"}, {"link n1-n2"}},
        Row{"p5.48xlarge", 2, {"gpu:n1g1:0.5:lies"}, {"gpu n1g1"}},
        Row{"p5.48xlarge", 4, {"node:n1:0.7", "nic:n1r9:0.5"}, {"node n1"}},
        Row{"p5.48xlarge", 4, {"nic:n1r9:0.5:all-rails", "gpu:n2g3:0.6"}, {"nic n1r9", "gpu n2g3"}},
        Row{"p5.48xlarge", 4, {"nic:n1r9:0.5:40%", "nic:n3r3:0.6"}, {"nic n1r9", "nic n3r3"}}));

// The times of two thirds of the pairs lie about where times no longer count as fast.
TEST_F(ProvingGround, accuses_hardly_a_link_of_a_nic_of_three_nodes) {
  const int runs = is_nightly() ? 100 : 10;
  int wrong = 0;
  for (int seed = 1; seed <= runs; ++seed) {
    const double left = 0.895 + 0.001 * ((is_nightly() ? seed : 2 * seed) % 20);
    const Outcome outcome =
        run({"p3dn.24xlarge", 3}, {fmt::format("nic:n2r0:{:.3f}", left)}, static_cast<std::uint64_t>(seed));
    for (const Named& each : outcome.suspects) wrong += each.name != "nic n2r0" && each.name != "node n2";
    EXPECT_FALSE(outcome.suspects.empty() && outcome.questions.empty()) << left << ", seed " << seed;
  }
  EXPECT_LE(wrong, 0.01 * runs);
}

// Uniform slowness shows no differences.
TEST_F(ProvingGround, names_nobody_where_all_nodes_are_slow) {
  const Counts all = total_of(run_all(is_nightly() ? 100 : 5, [](std::uint64_t seed) {
    Random random(seed * 32452843);
    const Cluster cluster = draw_cluster(random, 2);
    FaultTexts texts;
    const double left = 0.3 + 0.6 * uniform(random);
    for (int node = 0; node < cluster.nodes; ++node) texts.push_back(fmt::format("node:n{}:{:.3f}", node, left));
    Counts counts;
    counts.runs = 1;
    const Outcome outcome = run(cluster, texts, seed);
    counts.runs_with_innocents = outcome.suspects.empty() ? 0 : 1;
    return counts;
  }));
  tell("all nodes", "always", all);
  EXPECT_EQ(all.runs_with_innocents, 0);
}

}  // namespace
}  // namespace p5::proving
