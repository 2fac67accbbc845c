// The way from search to confirmed table on simulated machines (fakes/landscape.cpp describes them): the loss against
// full knowledge, the cost, and that nothing is set where nothing is faster.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "tests/fakes/landscape.hpp"
#include "tuner/confirm.hpp"

namespace p5::tuner {
namespace {

using fakes::Landscape;
using fakes::Terrain;

// An exhaustive search would measure each point of the grid with the samples of all three rungs, 5 + 15 + 40.
constexpr int exhaustive_samples = 60;
constexpr int confirming_samples = 8;                 // for one launch
constexpr int least_launches = 2, most_launches = 6;  // for each side, as in a quick tuning with little time

std::vector<Task> tasks_on(const Landscape& land) {
  std::vector<Task> tasks;
  for (const char* collective : {"all_reduce", "all_gather"})
    for (int power = 3; power <= 32; ++power) {
      const std::uint64_t bytes = std::uint64_t{1} << power;
      const SizePoint point{collective, bytes};
      tasks.push_back({point, land.offers(point)});
    }
  return tasks;
}

struct Outcome {
  Table table;
  int samples = 0, exhaustive = 0;
  double regret = 0, regret_of_default = 0;  // means over size points
  double regret_between = 0;                 // at sizes between those that the search measures
  // size points that the table makes slower by more than is tolerated in a loop of launches
  int slower_in_throughput = 0;
  double worst_in_throughput = 0;
};

Launch launch_of(const std::vector<double>& samples) {
  return {.number = 0, .median_s = median(samples), .samples_s = samples, .interval = {}};
}

// Launches A B A B, at the sizes of the search and at sizes between; more of them where that could change the result.
// `work`: other work beside the operations, which are then also measured alone; null: none.
std::vector<Confirmation> alternate(Landscape& land, const Table& table, const std::vector<Task>& tasks,
                                    const fakes::OtherWork* work = nullptr, double alone_loss = 0) {
  std::vector<Confirmation> sizes;
  for (const Task& task : tasks) sizes.push_back({*parse_function(task.point.collective), task.point.bytes, {}});
  for (const HeldOutSize& size : held_out_sizes(table.rows, 4, 32)) sizes.push_back({size.function, size.bytes, {}});
  const auto measure = [&](bool with_files) {
    land.launch();
    for (Confirmation& size : sizes) {
      const Row* row = with_files ? find_row(table, size.function, size.bytes) : nullptr;
      const SizePoint point{std::string(name_of(size.function)), size.bytes};
      const Candidate candidate = row ? Candidate{row->setting} : Candidate{};
      std::vector<double> samples, second;
      for (int i = 0; i < confirming_samples; ++i) {
        samples.push_back(work ? land.sample_beside(*work, point, candidate) : land.sample(point, candidate));
        second.push_back(work ? land.sample(point, candidate) : land.throughput_sample(point, candidate));
      }
      const auto side = with_files ? &BothSides::tuned : &BothSides::standard;
      (size.device.*side).push_back(launch_of(samples));
      ((work ? size.alone : size.throughput).*side).push_back(launch_of(second));
    }
  };
  for (int launch = 0; launch < most_launches; ++launch) {
    if (launch >= least_launches && !confirm(table, sizes, alone_loss).undecided) break;
    for (const bool with_files : {false, true}) measure(with_files);
  }
  return sizes;
}

// The setting of a call with the table, or the default.
Candidate of_table(const Table& table, const SizePoint& point) {
  const Row* row = find_row(table, *parse_function(point.collective), point.bytes);
  return row ? Candidate{row->setting} : Candidate{};
}

// Time lost against the noise-free best of everything that an exhaustive search could have measured.
double regret_of(const Landscape& land, const SizePoint& point, const Candidate& candidate) {
  double best = land.time(point, {});
  for (const Setting& setting : full_grid(point, land.offers(point), CandidateRules{}, {}))
    best = std::min(best, land.time(point, {setting}));
  return land.time(point, candidate) / best - 1;
}

void compare_with_everything(const Landscape& land, const std::vector<Task>& tasks, Outcome& outcome) {
  const double size_points = static_cast<double>(tasks.size());
  for (const Task& task : tasks) {
    outcome.exhaustive +=
        exhaustive_samples * (1 + static_cast<int>(full_grid(task.point, task.offered, CandidateRules{}, {}).size()));
    const Candidate left = of_table(outcome.table, task.point);
    outcome.regret_of_default += regret_of(land, task.point, {}) / size_points;
    outcome.regret += regret_of(land, task.point, left) / size_points;
    const SizePoint between{task.point.collective, task.point.bytes / 2 * 3};
    outcome.regret_between += regret_of(land, between, of_table(outcome.table, between)) / size_points;
    const double launched = land.throughput_time(task.point, {});
    outcome.worst_in_throughput =
        std::max(outcome.worst_in_throughput, land.throughput_time(task.point, left) / launched - 1);
    outcome.slower_in_throughput +=
        land.throughput_time(task.point, left) > launched * (1 + tolerated(launched)) ? 1 : 0;
  }
}

Outcome tune(Terrain terrain, std::uint64_t seed, fakes::Processes processes) {
  Landscape land(terrain, seed, processes);
  const std::vector<Task> tasks = tasks_on(land);
  SearchRules rules;
  rules.seed = seed;
  const MeasureBlock measure = [&](const SizePoint& point, const std::vector<Candidate>& candidates, Stage stage) {
    std::vector<Trial> trials;
    for (const Candidate& each : candidates) {
      const double time = stage == Stage::bound ? land.throughput_sample(point, each) : land.sample(point, each);
      trials.push_back({.time = {time}});
    }
    return trials;
  };
  const SearchResult found = search(tasks, rules, {}, measure, [] { return 1e9; });
  Outcome outcome;
  outcome.samples = found.samples;
  const Table table{22803, 8, 1, make_rows(found)};
  outcome.table = confirm(table, alternate(land, table, tasks)).table;
  compare_with_everything(land, tasks, outcome);
  return outcome;
}

struct Totals {
  std::vector<double> regrets, regrets_of_default, regrets_between;
  std::vector<double> shares;  // as a share of the exhaustive search's samples
  int empty = 0, slower_in_throughput = 0;
  double worst_in_throughput = 0, rows = 0;
};

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

Totals tune_many(Terrain terrain, int count, std::uint64_t first_seed, fakes::Processes processes = {}) {
  Totals totals;
  for (int i = 0; i < count; ++i) {
    const Outcome outcome = tune(terrain, first_seed + static_cast<std::uint64_t>(i), processes);
    totals.regrets.push_back(outcome.regret);
    totals.regrets_of_default.push_back(outcome.regret_of_default);
    totals.regrets_between.push_back(outcome.regret_between);
    totals.rows += static_cast<double>(outcome.table.rows.size()) / count;
    totals.shares.push_back(static_cast<double>(outcome.samples) / outcome.exhaustive);
    totals.empty += outcome.table.rows.empty() ? 1 : 0;
    totals.slower_in_throughput += outcome.slower_in_throughput;
    totals.worst_in_throughput = std::max(totals.worst_in_throughput, outcome.worst_in_throughput);
  }
  return totals;
}

void print(const char* name, const Totals& totals) {
  std::printf(
      "%-11s %3zu landscapes: regret mean %.2f %%, worst %.2f %% (default: %.2f %%); samples %.1f %% of the exhaustive "
      "search, most %.1f %%; "
      "nothing set in %d; sizes slower with their launch %d, by %.1f %% at most; between the sizes %.2f %%; rows "
      "%.1f\n",
      name, totals.regrets.size(), 100 * mean(totals.regrets), 100 * std::ranges::max(totals.regrets),
      100 * mean(totals.regrets_of_default), 100 * mean(totals.shares), 100 * std::ranges::max(totals.shares),
      totals.empty, totals.slower_in_throughput, 100 * totals.worst_in_throughput, 100 * mean(totals.regrets_between),
      totals.rows);
}

// The counts of all cases are in tuner/RESULTS.md; each day a part of them must suffice.
bool nightly() { return std::getenv("P5BENCH_NIGHTLY") != nullptr; }
int times(int all) { return nightly() ? all : all / 20; }
// The least number of landscapes that must pass: 95 % of them at night, and all of the few of a day.
int most_of(int all) { return times(all) * (nightly() ? 95 : 100) / 100; }

class Landscapes : public testing::TestWithParam<std::pair<const char*, Terrain>> {};

TEST_P(Landscapes, lose_one_percent_for_a_tenth_of_the_samples) {
  const auto& [name, terrain] = GetParam();
  const Totals totals = tune_many(terrain, times(70), 1000);
  print(name, totals);
  ASSERT_GT(mean(totals.regrets_of_default), 0.02) << "there is nothing to find";
  EXPECT_LE(mean(totals.regrets), 0.01);
  EXPECT_LE(mean(totals.shares), 0.1);
}

INSTANTIATE_TEST_SUITE_P(Tuner, Landscapes,
                         testing::Values(std::pair("one node", Terrain::one_node),
                                         std::pair("two nodes", Terrain::two_nodes),
                                         std::pair("many nodes", Terrain::many_nodes)),
                         [](const auto& each) {
                           std::string name = each.param.first;
                           std::ranges::replace(name, ' ', '_');
                           return name;
                         });

// More channels gain on the device and lose in a loop where the host launches more slowly than the device works.
TEST(SlowHostLandscapes, lose_nothing_to_launches) {
  const Totals totals = tune_many(Terrain::one_node, times(70), 1000, {.host_us = 10});
  print("slow host", totals);
  EXPECT_LE(totals.slower_in_throughput, times(70) * 60 / 100) << "of 60 sizes each: one in a hundred";
  EXPECT_LE(totals.worst_in_throughput, 0.03);
  EXPECT_LT(mean(totals.regrets), 0.6 * mean(totals.regrets_of_default)) << "what loses nothing is still found";
}

// Two launches of a side often differ in kind where processes are of two kinds.
TEST(SlowHostLandscapes, whose_processes_are_of_two_kinds_are_tuned_all_the_same) {
  const Totals totals = tune_many(Terrain::one_node, times(70), 1000, {.host_us = 10, .lucky = 1.0 / 6});
  print("two kinds", totals);
  EXPECT_LE(totals.empty, times(70) / 10);
  EXPECT_LE(totals.slower_in_throughput, times(70) * 60 / 100);
  EXPECT_LT(mean(totals.regrets), 0.6 * mean(totals.regrets_of_default));
}

TEST(FlatLandscapes, are_left_alone) {
  const Totals totals = tune_many(Terrain::flat, times(100), 5000);
  print("flat", totals);
  EXPECT_GE(totals.empty, most_of(100));
}

// Settings differ by 1.2 % from launch to launch, so in one launch the best of forty is really faster by more than 3 %.
TEST(FlatLandscapes, whose_launches_differ_much_are_left_alone) {
  const Totals totals = tune_many(Terrain::flat, times(100), 7000, {.restless = 3});
  print("restless", totals);
  EXPECT_GE(totals.empty, most_of(100));
}

TEST(FlatLandscapes, whose_default_is_best_keep_it) {
  const Totals totals = tune_many(Terrain::default_best, times(100), 6000);
  print("best", totals);
  EXPECT_GE(totals.empty, most_of(100));
}

// ---- beside other work

constexpr double allowed_alone = 0.02;

SearchRules rules_beside(std::uint64_t seed) {
  SearchRules rules;
  rules.seed = seed;
  rules.beside = BesideRules{.alone_loss = allowed_alone};
  rules.candidates.channels = {channels_beside.begin(), channels_beside.end()};
  rules.channel_steps = 6;
  return rules;
}

SearchResult search_beside(Landscape& land, const fakes::OtherWork& work, const std::vector<Task>& tasks,
                           const SearchRules& rules) {
  const MeasureBlock measure = [&](const SizePoint& point, const std::vector<Candidate>& candidates, Stage stage) {
    std::vector<Trial> trials;
    for (const Candidate& each : candidates)
      trials.push_back(
          {.time = {stage == Stage::bound ? land.sample(point, each) : land.sample_beside(work, point, each)}});
    return trials;
  };
  return search(tasks, rules, {}, measure, [] { return 1e9; });
}

// The fastest beside the work of all settings that keep the bound, without noise.
double best_beside(const Landscape& land, const fakes::OtherWork& work, const Task& task, const SearchRules& rules) {
  double best = land.time_beside(work, task.point, {});
  for (const Setting& setting : full_grid(task.point, task.offered, rules.candidates, {}))
    if (land.time(task.point, {setting}) <= (1 + allowed_alone) * land.time(task.point, {}))
      best = std::min(best, land.time_beside(work, task.point, {setting}));
  return best;
}

std::vector<Task> large_tasks_on(const Landscape& land) {
  std::vector<Task> tasks = tasks_on(land);
  std::erase_if(tasks, [](const Task& task) { return task.point.bytes < 1 << 20; });
  return tasks;
}

// The table that is left after its confirmation.
Table tune_beside(Landscape& land, const fakes::OtherWork& work, const std::vector<Task>& tasks,
                  const SearchResult& found) {
  const Table table{22803, 8, 1, make_rows(found)};
  return confirm(table, alternate(land, table, tasks, &work, allowed_alone), allowed_alone).table;
}

TEST(BesideWorkLandscapes, lose_two_percent_against_everything_and_keep_the_bound_alone) {
  std::vector<double> regrets, confirmed_regrets, regrets_of_default, against_exhaustive;
  double worst_alone = 0;
  int samples = 0, samples_of_exhaustive = 0, far = 0, sizes = 0, over = 0;
  for (int i = 0; i < (nightly() ? 30 : 2); ++i) {  // of both occupancies
    const auto seed = static_cast<std::uint64_t>(9000 + i);
    const fakes::OtherWork work{.occupancy = i % 2 == 0 ? 0.0076 : 0.02};
    Landscape land(Terrain::one_node, seed), again(Terrain::one_node, seed);
    const std::vector<Task> tasks = large_tasks_on(land);
    SearchRules rules = rules_beside(seed);
    const SearchResult found = search_beside(land, work, tasks, rules);
    rules.exhaustive = true;
    const SearchResult all = search_beside(again, work, tasks, rules);
    const Table table = tune_beside(land, work, tasks, found);
    samples += found.samples;
    samples_of_exhaustive += all.samples;
    for (std::size_t at = 0; at < tasks.size(); ++at) {
      const SizePoint& point = tasks[at].point;
      const Candidate winner{found.records[at].winner}, left = of_table(table, point);
      const double best = best_beside(land, work, tasks[at], rules), time = land.time_beside(work, point, winner);
      regrets.push_back(time / best - 1);
      confirmed_regrets.push_back(land.time_beside(work, point, left) / best - 1);
      regrets_of_default.push_back(land.time_beside(work, point, {}) / best - 1);
      against_exhaustive.push_back(time / land.time_beside(work, point, {all.records[at].winner}) - 1);
      const double alone = land.time(point, left) / land.time(point, {}) - 1;
      worst_alone = std::max(worst_alone, alone);
      over += alone > allowed_alone ? 1 : 0;
      far += against_exhaustive.back() > 0.02 ? 1 : 0;
      ++sizes;
    }
  }
  std::printf(
      "beside work: regret of the search mean %.2f %%, worst %.2f %%, confirmed mean %.2f %% (default: %.2f %%); "
      "against the exhaustive search mean %.2f %%, more than 2 %% slower at %d of %d sizes, with %.0f %% of its "
      "samples; confirmed alone slower by %.2f %% at most, by more than allowed at %d\n",
      100 * mean(regrets), 100 * std::ranges::max(regrets), 100 * mean(confirmed_regrets),
      100 * mean(regrets_of_default), 100 * mean(against_exhaustive), far, sizes,
      100.0 * samples / samples_of_exhaustive, 100 * worst_alone, over);
  ASSERT_GT(mean(regrets_of_default), 0.03) << "there is nothing to find";
  EXPECT_LE(mean(regrets), 0.01);
  EXPECT_LE(mean(confirmed_regrets), 0.02);
  EXPECT_LE(mean(against_exhaustive), 0.005);
  EXPECT_LE(far, sizes / 20);
  EXPECT_LE(worst_alone, allowed_alone + 0.005);
  EXPECT_LE(over, sizes / 100);
}

}  // namespace
}  // namespace p5::tuner
