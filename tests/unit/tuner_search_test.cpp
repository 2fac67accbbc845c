// The search: candidates within the limits of NCCL and the operator, failures, time.
#include "tests/unit/tuner_setting.hpp"
#include "tuner/search.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "bench/base/statistics.hpp"

namespace p5::tuner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

SizePoint point(std::uint64_t bytes, std::string collective = "all_reduce") { return {std::move(collective), bytes}; }

std::vector<std::string> texts(const std::vector<CostEntry>& offers) {
  std::vector<std::string> result;
  for (const CostEntry& each : offers) result.push_back(to_text(each.setting));
  return result;
}

const std::vector<CostEntry> three{{setting("ring/simple"), 30}, {setting("ring/ll"), 10}, {setting("tree/ll128"), 20}};

TEST(Candidates, are_those_that_nccl_predicts_within_eight_times_the_fastest) {
  const std::vector<CostEntry> offers{{setting("ring/simple"), 80}, {setting("ring/ll"), 10}, {setting("tree/ll"), 81}};
  EXPECT_THAT(texts(prune_cost_entries(point(8), offers, {}, {})), ElementsAre("ring/ll", "ring/simple"));
}

TEST(Candidates, never_are_what_nccl_marks_impossible) {
  const std::vector<CostEntry> offers{{setting("ring/ll128"), -1}, {setting("ring/ll"), 10}};
  EXPECT_THAT(texts(prune_cost_entries(point(8), offers, {}, {})), ElementsAre("ring/ll"));
}

TEST(Candidates, have_channels_where_each_has_8_KiB) {
  EXPECT_THAT(channel_counts(point((32 << 10) - 1), {}, {}), IsEmpty());
  EXPECT_THAT(channel_counts(point(32 << 10), {}, {}), ElementsAre(4));
  EXPECT_THAT(channel_counts(point(256 << 10), {}, {}), ElementsAre(4, 8, 16, 24, 32));
}

TEST(Candidates, are_bound_by_the_operators_variables) {
  EXPECT_THAT(texts(prune_cost_entries(point(8), three, {}, constraints_of({{"NCCL_ALGO", "^tree"}}))),
              ElementsAre("ring/ll", "ring/simple"));
  EXPECT_THAT(texts(prune_cost_entries(point(8), three, {}, constraints_of({{"NCCL_PROTO", "LL128,Simple"}}))),
              ElementsAre("tree/ll128", "ring/simple"));
  EXPECT_THAT(
      channel_counts(point(1 << 20), {}, constraints_of({{"NCCL_MAX_NCHANNELS", "16"}, {"NCCL_MIN_CTAS", "8"}})),
      ElementsAre(8, 16));
}

TEST(Constraints, read_masks_of_single_functions) {
  const Constraints c = constraints_of({{"NCCL_ALGO", "ring;allreduce:^tree,nvls"}});
  EXPECT_FALSE(c.allows(Function::all_reduce, setting("tree/ll")));
  EXPECT_FALSE(c.allows(Function::all_reduce, setting("nvls/simple")));
  EXPECT_TRUE(c.allows(Function::all_reduce, setting("nvls_tree/simple")));
  EXPECT_TRUE(c.allows(Function::all_reduce, setting("ring/ll")));
  EXPECT_FALSE(c.allows(Function::all_gather, setting("pat/simple")));
  const Constraints one = constraints_of({{"NCCL_PROTO", "allreduce:ll"}});
  EXPECT_FALSE(one.allows(Function::all_reduce, setting("ring/simple")));
  EXPECT_TRUE(one.allows(Function::all_gather, setting("ring/simple"))) << "no entry names it";
}

TEST(Constraints, forbid_everything_where_the_mask_is_not_understood) {
  for (const char* text : {"rings", "allreduce:ring;tree", "sum:ring", "", "ring,", "ring tree"}) {
    const Constraints c = constraints_of({{"NCCL_ALGO", text}});
    EXPECT_FALSE(c.allows(Function::all_reduce, setting("ring/ll"))) << text;
    ASSERT_EQ(c.remarks.size(), 1u) << text;
    EXPECT_THAT(c.remarks[0], HasSubstr("NCCL_ALGO"));
  }
}

TEST(Constraints, leave_channels_to_nccl_where_the_limit_is_not_understood) {
  const Constraints c = constraints_of({{"NCCL_MAX_CTAS", "many"}, {"NCCL_MAX_NCHANNELS", "16"}});
  EXPECT_THAT(channel_counts(point(1 << 20), {}, c), IsEmpty());
  EXPECT_TRUE(c.allows(Function::all_reduce, setting("ring/ll")));
  EXPECT_FALSE(c.allows(Function::all_reduce, setting("ring/ll/4")));
}

TEST(Constraints, know_NVLS_switched_off) {
  const Constraints c = constraints_of({{"NCCL_NVLS_ENABLE", "0"}});
  EXPECT_FALSE(c.allows(Function::all_reduce, setting("nvls/simple")));
  EXPECT_FALSE(c.allows(Function::all_reduce, setting("nvls_tree/simple")));
  EXPECT_TRUE(constraints_of({{"NCCL_NVLS_ENABLE", "2"}}).allows(Function::all_reduce, setting("nvls/simple")));
}

TEST(Constraints, are_the_variables_that_change_figures) {
  const Constraints c = constraints_of({{"NCCL_BUFFSIZE", "1"},
                                        {"FI_PROVIDER", "efa"},
                                        {"OFI_NCCL_PROTOCOL", "RDMA"},
                                        {"NCCL_DEBUG", "INFO"},
                                        {"NCCL_DEBUG_FILE", "/x"},
                                        {"PATH", "/bin"}});
  EXPECT_THAT(c.operator_variables, ElementsAre("FI_PROVIDER", "NCCL_BUFFSIZE", "OFI_NCCL_PROTOCOL"));
}

// A machine on which a setting takes a fixed multiple of the default, with a little noise, and that can fail.
struct Machine {
  std::map<std::string, double> factor{};  // 1 where absent
  std::map<std::string, Trial> bad{};
  std::map<std::string, double> throughput_factor{};  // the factor where launches count; `factor` where absent
  double seconds = 1e-5, spent = 0, budget = 1e9;
  std::map<std::uint64_t, double> times_as_long{};  // by bytes; 1 where absent
  std::vector<std::vector<Candidate>> blocks{};
  std::vector<SizePoint> size_points{};
  std::mt19937_64 random{7};

  double noise() { return 1 + 0.004 * (static_cast<double>(random() >> 11) * 0x1p-53 - 0.5); }

  Trial trial(const Candidate& candidate, Stage stage) {
    const std::string text = to_text(candidate);
    if (bad.contains(text)) return bad.at(text);
    const auto& factors = stage == Stage::bound && throughput_factor.contains(text) ? throughput_factor : factor;
    const double time = seconds * (factors.contains(text) ? factors.at(text) : 1) * noise();
    spent += time;
    return {.time = {time}};
  }

  MeasureBlock measure() {
    return [this, first = seconds](const SizePoint& where, const std::vector<Candidate>& candidates, Stage stage) {
      blocks.push_back(candidates);
      size_points.push_back(where);
      std::vector<Trial> trials;
      seconds = first * (times_as_long.contains(where.bytes) ? times_as_long.at(where.bytes) : 1);
      for (const Candidate& each : candidates) trials.push_back(trial(each, stage));
      return trials;
    };
  }
  TimeLeft left() {
    return [this] { return budget - spent; };
  }
  int times_measured(const std::string& text) const {
    int count = 0;
    for (const auto& block : blocks)
      count += static_cast<int>(std::ranges::count(block, text, [](const Candidate& c) { return to_text(c); }));
    return count;
  }
};

SearchResult run(Machine& machine, const std::vector<Task>& tasks, const SearchRules& rules = {}) {
  return search(tasks, rules, {}, machine.measure(), machine.left());
}

TEST(Search, measures_the_default_in_every_block_and_each_candidate_once) {
  Machine machine{.factor = {{"tree/ll128", 0.8}}};
  run(machine, {{point(1 << 20), three}});
  ASSERT_GT(machine.blocks.size(), 10u);
  for (const auto& block : machine.blocks) {
    EXPECT_EQ(std::ranges::count(block, Candidate{}), 1);
    for (const Candidate& each : block) EXPECT_EQ(std::ranges::count(block, each), 1);
  }
}

TEST(Search, orders_blocks_at_random_and_alike_for_one_seed) {
  Machine first, second, third;
  run(first, {{point(8), three}});
  run(second, {{point(8), three}});
  SearchRules other;
  other.seed = 2;
  run(third, {{point(8), three}}, other);
  EXPECT_EQ(first.blocks, second.blocks);
  EXPECT_NE(first.blocks, third.blocks);
  std::vector<std::size_t> places;  // of the default
  for (const auto& block : first.blocks)
    if (block.size() == 4)
      places.push_back(static_cast<std::size_t>(std::ranges::find(block, Candidate{}) - block.begin()));
  ASSERT_GE(places.size(), 3u);
  EXPECT_NE(std::ranges::count(places, places[0]), static_cast<std::ptrdiff_t>(places.size()));
}

TEST(Search, finds_the_fastest) {
  Machine machine{.factor = {{"tree/ll128", 0.8}, {"ring/simple", 0.9}}};
  const SearchResult result = run(machine, {{point(8), three}, {point(16), three}});
  for (const Record& record : result.records) {
    ASSERT_TRUE(record.winner);
    EXPECT_EQ(to_text(*record.winner), "tree/ll128");
    EXPECT_NEAR(median_gain(record, *record.winner).value(), 0.2, 0.01);
    EXPECT_EQ(record.because, "");
  }
}

TEST(Race, goes_on_only_where_more_blocks_could_change_something) {
  const auto found = [](double gain, double error) { return Estimate{setting("tree/ll128"), gain, error}; };
  EXPECT_TRUE(is_decided({found(0.05, 0.005)}, {}));
  EXPECT_FALSE(is_decided({found(0.05, 0.015)}, {})) << "it may gain too little";
  EXPECT_TRUE(is_decided({found(0.03, 0.003)}, {})) << "so little hangs on it";
  EXPECT_FALSE(is_decided({found(0.08, 0.01), found(0.07, 0.02)}, {})) << "which one is not known";
  EXPECT_TRUE(is_decided({found(0.08, 0.001), found(0.075, 0.001)}, {})) << "one is as good as the other";
}

TEST(Search, takes_nothing_that_is_slower_with_its_launch) {
  Machine machine{.factor = {{"tree/ll128", 0.8}}, .throughput_factor = {{"tree/ll128", 1.1}}};
  const Record record = run(machine, {{point(8), three}}).records[0];
  EXPECT_FALSE(record.winner);
  EXPECT_EQ(record.because, "tree/ll128 takes 10.0 % (give or take 0.1) longer with the time to launch it");
  // Samples with launches are kept separate from those of the device.
  EXPECT_NEAR(median(samples_of(record, {setting("tree/ll128")})), 0.8e-5, 0.01e-5);
  for (const double ratio : log_ratios(record, setting("tree/ll128"))) EXPECT_LT(ratio, 0);
  EXPECT_NEAR(median(samples_of(record, {setting("tree/ll128")}, true)), 1.1e-5, 0.01e-5);
}

TEST(Search, does_not_ask_for_the_launch_of_what_takes_long) {
  Machine machine{.factor = {{"tree/ll128", 0.8}}, .throughput_factor = {{"tree/ll128", 1.5}}, .seconds = 2e-3};
  const Record record = run(machine, {{point(8), three}}).records[0];
  ASSERT_TRUE(record.winner);
  EXPECT_TRUE(samples_of(record, {}, true).empty());
  // A fifth of 1 us is tolerated, as noise of the host.
  machine = {.factor = {{"tree/ll128", 0.8}}, .throughput_factor = {{"tree/ll128", 1.15}}, .seconds = 1e-6};
  EXPECT_TRUE(run(machine, {{point(8), three}}).records[0].winner);
}

TEST(Search, moves_along_the_channels_to_their_minimum) {
  Machine machine{.factor = {{"ring/ll/32", 0.9}, {"ring/ll/24", 0.7}, {"ring/ll/16", 0.8}}};
  const SearchResult result = run(machine, {{point(1 << 20), {{setting("ring/ll"), 10}}}});
  ASSERT_TRUE(result.records[0].winner);
  EXPECT_EQ(to_text(*result.records[0].winner), "ring/ll/24");
  EXPECT_EQ(machine.times_measured("ring/ll/4"), 0) << "the minimum lies elsewhere";
}

TEST(Search, starts_with_the_winner_of_the_smaller_size) {
  Machine machine{.factor = {{"ring/ll/16", 0.7}, {"ring/ll/24", 0.8}}};
  run(machine, {{point(1 << 20), {{setting("ring/ll"), 10}}}, {point(2 << 20), {{setting("ring/ll"), 10}}}});
  const auto race = std::ranges::find_if(machine.blocks, [](const auto& block) { return block.size() > 1; });
  EXPECT_EQ(std::ranges::count(*race, Candidate{setting("ring/ll/16")}), 0);
  for (std::size_t i = 0; i < machine.blocks.size(); ++i)
    if (machine.size_points[i].bytes == 2 << 20 && machine.blocks[i].size() > 1) {
      EXPECT_EQ(std::ranges::count(machine.blocks[i], Candidate{setting("ring/ll/16")}), 1);
      break;
    }
}

TEST(Search, never_tries_again_what_failed_or_gave_wrong_data) {
  for (const auto outcome : {Trial::Outcome::failed, Trial::Outcome::wrong_data}) {
    Machine machine{.factor = {{"tree/ll128", 0.5}}, .bad = {{"ring/ll", {outcome, {}, "so"}}}};
    const SearchResult result = run(machine, {{point(8), three}, {point(16), three}, {point(8, "all_gather"), three}});
    EXPECT_EQ(machine.times_measured("ring/ll"), 1);
    ASSERT_EQ(result.failures.size(), 1u);
    EXPECT_EQ(result.failures[0].because, "so");
    EXPECT_EQ(result.failures[0].outcome, outcome);
    EXPECT_EQ(to_text(*result.records[0].winner), "tree/ll128") << "the others go on";
  }
}

TEST(Search, takes_no_channels_of_an_algorithm_and_protocol_that_gave_wrong_data) {
  const std::vector<CostEntry> offers{{setting("tree/ll"), 10, true}, {setting("ring/ll128"), 12}};
  const auto found = [&](Trial::Outcome outcome) {
    Machine machine{.factor = {{"ring/ll128", 0.7}}, .bad = {{"ring/ll128/16", {outcome, {}, "so"}}}};
    const SearchResult result = run(machine, {{point(1 << 20), offers}, {point(2 << 20), offers}});
    EXPECT_EQ(machine.times_measured("ring/ll128/16"), 1);
    return std::pair(result.records[0].winner, result.records[1].winner);
  };
  EXPECT_EQ(found(Trial::Outcome::wrong_data), std::pair(std::optional<Setting>(), std::optional<Setting>()));
  const std::optional<Setting> winner = setting("ring/ll128");
  EXPECT_EQ(found(Trial::Outcome::failed), std::pair(winner, winner)) << "a hang is of that setting alone";
}

TEST(Search, leaves_a_cell_whose_default_fails) {
  Machine machine{.bad = {{"default", {Trial::Outcome::failed, {}, "broken"}}}};
  const SearchResult result = run(machine, {{point(8), three}});
  EXPECT_EQ(machine.blocks.size(), 1u);
  EXPECT_THAT(result.records[0].because, HasSubstr("broken"));
}

TEST(Search, takes_no_time_that_is_not_positive) {
  Machine machine{.bad = {{"ring/ll", {Trial::Outcome::measured, {0}, ""}},
                          {"tree/ll128", {Trial::Outcome::measured, {std::nan("")}, ""}}}};
  EXPECT_EQ(run(machine, {{point(8), three}}).failures.size(), 2u);
}

TEST(Search, survives_blocks_that_end_early) {
  int calls = 0;
  const MeasureBlock cut = [&](const SizePoint&, const std::vector<Candidate>& candidates, Stage) {
    ++calls;
    std::vector<Trial> trials;
    if (candidates.size() == 1) trials.push_back({.time = {1e-5}});
    return trials;
  };
  const SearchResult result = search({{point(8), three}}, {}, {}, cut, [] { return 1e9; });
  EXPECT_FALSE(result.records[0].winner);
  EXPECT_LT(calls, 100);
}

TEST(Search, divides_the_time_and_says_what_did_not_fit) {
  Machine machine{.factor = {{"tree/ll128", 0.5}}, .budget = 300 * 1e-5};
  std::vector<Task> tasks;
  for (int power = 3; power < 23; ++power) tasks.push_back({point(std::uint64_t{1} << power), three});
  const SearchResult result = run(machine, tasks);
  EXPECT_LT(machine.spent, 1.1 * machine.budget);
  const auto said = std::ranges::count_if(result.records, [](const Record& record) { return !record.because.empty(); });
  EXPECT_GT(said, 0);
  for (const Record& record : result.records)
    EXPECT_TRUE(!record.blocks.empty() || record.because.find("no time left") == 0) << record.because;
  Machine rich{.factor = {{"tree/ll128", 0.5}}};
  for (const Record& record : run(rich, tasks).records) EXPECT_EQ(record.because, "");
}

TEST(Search, leaves_out_what_takes_longest) {
  Machine machine{.factor = {{"tree/ll128", 0.5}}, .budget = 1000 * 1e-5, .times_as_long = {{128, 200}}};
  std::vector<Task> tasks;
  for (const std::uint64_t bytes : {8, 16, 32, 64, 128}) tasks.push_back({point(bytes), three});
  for (const Record& record : run(machine, tasks).records) {
    if (record.point.bytes == 128) {
      EXPECT_THAT(record.because, HasSubstr("no time left to search"));
      EXPECT_EQ(record.blocks.size(), 2u) << "its default alone";
    } else {
      EXPECT_TRUE(record.winner) << record.because;
    }
  }
}

TEST(Search, measures_nothing_without_time) {
  Machine machine{.budget = 0};
  const SearchResult result = run(machine, {{point(8), three}});
  EXPECT_THAT(machine.blocks, IsEmpty());
  EXPECT_THAT(result.records[0].because, HasSubstr("no time left"));
}

TEST(Search, leaves_what_is_hopeless_the_earlier_the_worse_it_is) {
  Machine machine{.factor = {{"ring/simple", 2}, {"tree/ll128", 1.2}, {"ring/ll", 1.02}}};
  run(machine, {{point(8), three}});
  EXPECT_EQ(machine.times_measured("ring/simple"), 1);
  EXPECT_EQ(machine.times_measured("tree/ll128"), 2);
  EXPECT_EQ(machine.times_measured("ring/ll"), 3);
}

TEST(Search, measures_no_longer_than_until_the_choice_is_clear) {
  Machine machine{.factor = {{"tree/ll128", 0.5}, {"ring/ll", 0.955}, {"ring/simple", 2}}};
  SearchRules rules;
  rules.least_gain = 0.04;  // 0.955 gains enough; 0.965 might, until the noise is known
  const SearchResult result = run(machine, {{point(8), three}}, rules);
  EXPECT_EQ(to_text(result.records[0].winner.value()), "tree/ll128");
  EXPECT_LE(samples_of(result.records[0], {setting("tree/ll128")}).size(), 6u);
}

TEST(Search, does_not_measure_what_the_default_does_anyway) {
  const std::vector<CostEntry> offers{{setting("ring/ll"), 10, true}, {setting("ring/simple"), 12}};
  Machine machine{.factor = {{"ring/simple", 2}}};
  run(machine, {{point(8), offers}});
  EXPECT_EQ(machine.times_measured("ring/ll"), 0);
  Machine channels{.factor = {{"ring/simple", 2}, {"ring/ll/32", 0.9}, {"ring/ll/24", 0.7}, {"ring/ll/16", 0.8}}};
  const SearchResult result = run(channels, {{point(1 << 20), offers}});
  EXPECT_EQ(channels.times_measured("ring/ll"), 0);
  EXPECT_EQ(to_text(result.records[0].winner.value()), "ring/ll/24") << "its neighbours are";
  Machine alone{.factor = {{"ring/ll/16", 0.8}}};
  EXPECT_TRUE(run(alone, {{point(1 << 20), {{setting("ring/ll"), 10, true}}}}).records[0].winner);
}

TEST(Search, measures_the_defaults_kind_where_another_tuner_sets_its_channels) {
  Machine machine{.factor = {{"ring/ll", 0.7}}};
  const SearchResult result = run(machine, {{point(8), {{setting("ring/ll/2"), 10, true}}}});
  EXPECT_EQ(to_text(result.records[0].winner.value()), "ring/ll");
}

TEST(Search, can_measure_everything_alike) {
  Machine machine{.factor = {{"ring/ll/16", 0.9}, {"ring/simple", 2}}};
  SearchRules rules;
  rules.exhaustive = true;
  const SearchResult result = run(machine, {{point(1 << 20), three}}, rules);
  EXPECT_EQ(to_text(result.records[0].winner.value()), "ring/ll/16");
  for (const char* text : {"ring/simple", "ring/ll", "ring/ll/4", "tree/ll128/32"})
    EXPECT_EQ(machine.times_measured(text), 20) << text;
}

// Beside work 8 channels are best, but alone they take 10 % longer.
Machine beside_work() {
  return {.factor =
              {{"ring/ll/4", 0.9}, {"ring/ll/8", 0.7}, {"ring/ll/12", 0.75}, {"ring/ll/16", 0.8}, {"ring/ll/20", 0.9}},
          .throughput_factor = {{"ring/ll/4", 1.5}, {"ring/ll/8", 1.1}, {"ring/ll/12", 1.05}, {"ring/ll/16", 1.005}},
          .seconds = 2e-3};
}

SearchRules beside_rules(double alone_loss) {
  SearchRules rules;
  rules.beside = BesideRules{.alone_loss = alone_loss};
  rules.candidates.channels = {channels_beside.begin(), channels_beside.end()};
  return rules;
}

TEST(SearchBesideWork, takes_the_best_that_is_not_too_slow_alone) {
  const std::vector<Task> tasks{{point(1 << 24), {{setting("ring/ll"), 10}}}};
  for (const auto& [alone_loss, taken] :
       {std::pair(0.02, "ring/ll/16"), std::pair(0.06, "ring/ll/12"), std::pair(0.2, "ring/ll/8")})
    for (const bool exhaustive : {false, true}) {
      Machine machine = beside_work();
      SearchRules rules = beside_rules(alone_loss);
      rules.exhaustive = exhaustive;
      const Record record = run(machine, tasks, rules).records[0];
      ASSERT_TRUE(record.winner) << record.because;
      EXPECT_EQ(to_text(*record.winner), taken) << alone_loss << (exhaustive ? " exhaustive" : "");
      EXPECT_FALSE(samples_of(record, {record.winner}, true).empty()) << "it was measured alone too";
    }
}

// 4 channels are best beside work, but too slow alone; the best that is not lies among the neighbours of 20.
TEST(SearchBesideWork, looks_for_channels_next_to_the_best_that_is_not_too_slow_alone) {
  Machine machine = beside_work();
  machine.factor = {
      {"ring/ll/4", 0.7}, {"ring/ll/8", 0.72}, {"ring/ll/12", 0.75}, {"ring/ll/16", 0.8}, {"ring/ll/20", 0.9}};
  machine.throughput_factor["ring/ll/2"] = 2;
  const Record record = run(machine, {{point(1 << 24), {{setting("ring/ll"), 10}}}}, beside_rules(0.02)).records[0];
  ASSERT_TRUE(record.winner) << record.because;
  EXPECT_EQ(to_text(*record.winner), "ring/ll/16");
}

TEST(SearchBesideWork, leaves_the_default_where_all_that_gains_is_too_slow_alone) {
  Machine machine = beside_work();
  for (auto& [setting, factor] : machine.throughput_factor) factor = 1.1;
  machine.throughput_factor["ring/ll/20"] = 1.1;
  const Record record = run(machine, {{point(1 << 24), {{setting("ring/ll"), 10}}}}, beside_rules(0.02)).records[0];
  EXPECT_FALSE(record.winner);
}

TEST(SearchBesideWork, finds_few_channels_of_a_kind_that_is_slower_with_its_own) {
  Machine machine{.factor = {{"ring/simple", 1.4}, {"ring/simple/4", 0.7}, {"ring/ll", 0.95}}, .seconds = 2e-3};
  const Record record = run(machine, {{point(1 << 24), three}}, beside_rules(0.02)).records[0];
  ASSERT_TRUE(record.winner);
  EXPECT_EQ(to_text(*record.winner), "ring/simple/4");
}

TEST(Search, leaves_collectives_alone_that_have_no_tuner) {
  Machine machine;
  EXPECT_FALSE(run(machine, {{point(8, "p2p"), three}}).records[0].winner);
  for (const auto& block : machine.blocks) EXPECT_EQ(block.size(), 1u);
}

TEST(Race, prefers_a_neighbours_winner_and_fewer_channels_among_equals) {
  const std::vector<Estimate> equal{{setting("ring/ll/32"), 0.2, 0.001},
                                    {setting("ring/ll/16"), 0.195, 0.001},
                                    {setting("ring/ll/4"), 0.15, 0.001},
                                    {setting("tree/ll"), 0.194, 0.001}};
  EXPECT_EQ(to_text(choose_winner(equal, {}, 0.01)), "ring/ll/16");
  EXPECT_EQ(to_text(choose_winner(equal, setting("tree/ll"), 0.01)), "tree/ll");
  EXPECT_EQ(to_text(choose_winner(equal, setting("ring/ll/4"), 0.01)), "ring/ll/16") << "that one is slower";
}

}  // namespace
}  // namespace p5::tuner
