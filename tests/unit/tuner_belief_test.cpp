// When a winner is believed, and how believed cells become rows.
#include "tests/unit/tuner_setting.hpp"
#include "tuner/belief.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tuner/rows.hpp"

namespace p5::tuner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void add_blocks(Record& record, Visit visit, int count, double standard,
                const std::vector<std::pair<std::string, double>>& settings) {
  for (int i = 0; i < count; ++i) {
    Block block{visit, visit == Visit::repeat ? 3 : 0, {{}}, {{Trial::Outcome::measured, standard * wobble(i), {}}}};
    for (const auto& [text, seconds] : settings) {
      block.candidates.push_back({setting(text)});
      block.trials.push_back({Trial::Outcome::measured, seconds * wobble(i + 1), {}});
    }
    record.blocks.push_back(block);
  }
}

// A cell in which `text` took `raced` and `repeated` times what the default did.
Record record(std::uint64_t bytes, const std::string& text, double raced, double repeated, int repeats = 16) {
  Record result{{"all_reduce", bytes, bytes}, {}, setting(text), {}};
  add_blocks(result, Visit::baseline, 6, 1e-5, {});
  add_blocks(result, Visit::race, 5, 1e-5, {{text, 1e-5 * raced}});
  add_blocks(result, Visit::repeat, repeats, 1e-5, {{text, 1e-5 * repeated}});
  return result;
}

CellVerdict verdict_of(const Record& cell) {
  SearchResult result;
  result.records = {cell};
  return judge(result, {})[0];
}

TEST(Belief, holds_what_gained_twice) {
  const CellVerdict verdict = verdict_of(record(8, "ring/ll", 0.8, 0.9));
  EXPECT_TRUE(verdict.believed) << verdict.because;
  ASSERT_TRUE(verdict.gain);
  EXPECT_NEAR(verdict.gain->share, 0.1, 0.005);
  ASSERT_TRUE(verdict.gain->interval);
  EXPECT_LT(verdict.gain->interval->low, 0.1);
  EXPECT_GT(verdict.gain->interval->high, 0.1);
}

TEST(Belief, needs_three_percent_both_times) {
  EXPECT_FALSE(verdict_of(record(8, "ring/ll", 0.975, 0.8)).believed);
  const CellVerdict verdict = verdict_of(record(8, "ring/ll", 0.8, 0.975));
  EXPECT_FALSE(verdict.believed);
  EXPECT_THAT(verdict.because, HasSubstr("when repeated"));
}

TEST(Belief, does_not_mind_what_slows_the_default_and_the_winner_alike) {
  Record cell = record(8, "ring/ll", 0.93, 0.93);
  add_blocks(cell, Visit::race, 5, 1.4e-5, {{"ring/ll", 1.4 * 0.93e-5}});
  EXPECT_TRUE(verdict_of(cell).believed) << verdict_of(cell).because;
}

TEST(Belief, needs_three_standard_errors_of_the_gain) {
  Record cell{{"all_reduce", 8, 8}, {}, setting("ring/ll"), {}};
  add_blocks(cell, Visit::race, 5, 1e-5, {{"ring/ll", 0.93e-5}});
  add_blocks(cell, Visit::repeat, 8, 1e-5, {{"ring/ll", 0.83e-5}});
  EXPECT_TRUE(verdict_of(cell).believed) << verdict_of(cell).because;
  add_blocks(cell, Visit::repeat, 8, 1e-5, {{"ring/ll", 1.03e-5}});  // half of the time it loses
  const CellVerdict verdict = verdict_of(cell);
  EXPECT_FALSE(verdict.believed);
  EXPECT_THAT(verdict.because, HasSubstr("noise"));
}

TEST(Belief, needs_intervals_apart) {
  Record cell{{"all_reduce", 8, 8}, {}, setting("ring/ll"), {}};
  add_blocks(cell, Visit::race, 5, 1e-5, {{"ring/ll", 0.9e-5}});
  for (int i = 0; i < 16; ++i) {  // always 5 % faster, but the default itself varies by 30 % from block to block
    const double standard = 1e-5 * (0.85 + 0.1 * (i % 4));
    cell.blocks.push_back(
        {Visit::repeat,
         3,
         {{}, {setting("ring/ll")}},
         {{Trial::Outcome::measured, standard, {}}, {Trial::Outcome::measured, 0.95 * standard, {}}}});
  }
  const CellVerdict verdict = verdict_of(cell);
  EXPECT_FALSE(verdict.believed);
  EXPECT_THAT(verdict.because, HasSubstr("overlap"));
}

TEST(Belief, refuses_a_worse_tail) {
  Record cell = record(8, "ring/ll", 0.8, 0.8, 20);
  EXPECT_TRUE(verdict_of(cell).believed);
  for (std::size_t i = cell.blocks.size() - 5; i < cell.blocks.size(); ++i) cell.blocks[i].trials[1].seconds = 2e-5;
  const CellVerdict verdict = verdict_of(cell);
  EXPECT_FALSE(verdict.believed);
  EXPECT_THAT(verdict.because, HasSubstr("quantile"));
}

TEST(Belief, asks_more_of_one_among_many) {
  // Won 11 of 14 blocks: 2.9 % by chance. Alone that is rare enough, among ten it is not.
  Record weak = record(8, "ring/ll", 0.9, 0.9, 14);
  int changed = 0;
  for (Block& block : weak.blocks)
    if (block.visit == Visit::repeat && changed++ < 3) block.trials[1].seconds = 1.02e-5;
  EXPECT_TRUE(verdict_of(weak).believed) << verdict_of(weak).because;
  SearchResult many;
  many.records.assign(10, weak);
  for (const CellVerdict& verdict : judge(many, {})) {
    EXPECT_FALSE(verdict.believed);
    EXPECT_THAT(verdict.because, HasSubstr("chance among 10"));
  }
}

TEST(Belief, is_for_nothing_that_failed_anywhere) {
  SearchResult result;
  result.records = {record(8, "ring/ll", 0.8, 0.8)};
  result.failures = {{{"all_gather", 64, 64}, {setting("ring/ll")}, Trial::Outcome::wrong_data, "3 elements"}};
  EXPECT_FALSE(judge(result, {})[0].believed);
}

TEST(Belief, is_for_nothing_without_a_repetition) {
  Record cell = record(8, "ring/ll", 0.8, 0.8, 0);
  EXPECT_FALSE(verdict_of(cell).believed);
  cell = record(8, "ring/ll", 0.8, 0.8);
  cell.remark = "no time left to repeat";
  EXPECT_FALSE(verdict_of(cell).believed);
}

TEST(SignTest, is_the_tail_of_fair_tosses) {
  EXPECT_DOUBLE_EQ(sign_test(0, 10), 1);
  EXPECT_DOUBLE_EQ(sign_test(3, 3), 0.125);
  EXPECT_DOUBLE_EQ(sign_test(2, 3), 0.5);
}

TEST(Holm, stops_at_the_first_that_fails) {
  EXPECT_THAT(holm({0.01, 0.04, 0.03}, 0.05), ElementsAre(true, false, false));
  EXPECT_THAT(holm({0.01, 0.02, 0.04}, 0.05), ElementsAre(true, true, true));
  EXPECT_THAT(holm({}, 0.05), IsEmpty());
}

SearchResult drifted(double factor) {
  SearchResult result;
  for (int i = 0; i < 5; ++i) {
    Record cell{{"all_reduce", 8u << i, 8u << i}, {}, {}, {}};
    add_blocks(cell, Visit::baseline, 6, 1e-5, {});
    add_blocks(cell, Visit::repeat, 6, 1e-5 * (i == 0 ? 2 : factor), {});  // one odd cell is no drift
    result.records.push_back(cell);
  }
  return result;
}

TEST(Drift, of_more_than_five_percent_refuses_everything) {
  EXPECT_FALSE(drift_of(drifted(1.04), {}).refused);
  EXPECT_FALSE(drift_of(drifted(0.96), {}).refused);
  const Drift drift = drift_of(drifted(1.07), {});
  EXPECT_TRUE(drift.refused);
  EXPECT_NEAR(drift.share, 0.07, 1e-3);
  EXPECT_THAT(drift.sentence, HasSubstr("7.0 % slower"));
  EXPECT_TRUE(drift_of(drifted(0.93), {}).refused);
}

TEST(Drift, of_small_messages_leaves_the_large_ones) {
  SearchResult result = drifted(1.2);
  result.records.push_back(record(8 << 20, "ring/ll", 0.8, 0.8));
  result.records.push_back(record(16, "ring/ll", 0.8, 0.8));
  const Drift drift = drift_of(result, {});
  EXPECT_FALSE(drift.refused);
  EXPECT_THAT(drift.sentence, HasSubstr("all_reduce up to 64 KiB was 20.0 % slower"));
  const std::vector<CellVerdict> verdicts = judge(result, {});
  EXPECT_TRUE(verdicts[5].believed) << verdicts[5].because;
  EXPECT_FALSE(verdicts[6].believed);
  EXPECT_THAT(verdicts[6].because, HasSubstr("changed too much"));
}

TEST(Drift, leaves_what_to_search_again) {
  SearchResult result = drifted(1.2);
  std::vector<Task> tasks;
  for (const Record& each : result.records) tasks.push_back({each.cell, {}});
  tasks.push_back({{"all_gather", 8, 8}, {}});
  for (Record& each : result.records) each.seconds = 2;
  const std::vector<Part> parts = restless(tasks, result, drift_of(result, {}));
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].tasks.size(), result.records.size());
  EXPECT_EQ(parts[0].seconds, 2.0 * static_cast<double>(result.records.size()));
  result.samples = 100;
  SearchResult again = drifted(1);
  again.samples = 7;
  again.failures = {{result.records[0].cell, {setting("ring/ll")}, Trial::Outcome::failed, "hung"}};
  again.records.erase(again.records.begin());
  supersede(result, again);
  EXPECT_EQ(result.samples, 107);
  EXPECT_EQ(result.records[0].samples_before, 0) << "it was not searched again";
  EXPECT_EQ(result.records[1].samples_before, 12);
  EXPECT_EQ(result.failures.size(), 1u);
  EXPECT_FALSE(drift_of(result, {}).refused);
}

TEST(Drift, unknown_is_refused) {
  SearchResult result = drifted(1);
  for (Record& cell : result.records) cell.blocks.resize(6);
  EXPECT_TRUE(drift_of(result, {}).refused);
}

// ---- rows

struct Rows : testing::Test {
  SearchResult result;
  std::vector<CellVerdict> verdicts;

  void add(std::uint64_t bytes, const std::vector<std::pair<std::string, double>>& factors, std::string_view winner) {
    Record cell{{"all_reduce", bytes, bytes}, {}, {}, {}};
    std::vector<std::pair<std::string, double>> times;
    for (const auto& [text, factor] : factors) times.emplace_back(text, factor * 1e-5);
    add_blocks(cell, Visit::race, 6, 1e-5, times);
    if (!winner.empty()) cell.winner = setting(winner);
    result.records.push_back(cell);
    CellVerdict verdict;
    verdict.cell = cell.cell;
    verdict.winner = cell.winner;
    verdict.believed = !winner.empty();
    verdicts.push_back(verdict);
  }
  std::vector<std::string> rows(const RowRules& rules = {}) const {
    std::vector<std::string> texts;
    for (const Row& row : rows_of(result, verdicts, rules))
      texts.push_back(std::to_string(row.from) + "-" + std::to_string(row.to) + " " + to_text(row.setting));
    return texts;
  }
};

TEST_F(Rows, span_sizes_that_agree_and_end_at_measured_ones) {
  add(8, {{"ring/ll", 1.1}}, "");
  add(16, {{"ring/ll", 0.8}}, "ring/ll");
  add(32, {{"ring/ll", 0.8}}, "ring/ll");
  add(64, {{"tree/ll", 0.8}}, "tree/ll");
  EXPECT_THAT(rows(), ElementsAre("16-32 ring/ll", "64-64 tree/ll"));
}

TEST_F(Rows, keep_the_incumbent_within_two_percent) {
  add(8, {{"ring/ll", 0.8}}, "ring/ll");
  add(16, {{"ring/ll", 0.81}, {"tree/ll", 0.8}}, "tree/ll");
  add(32, {{"ring/ll", 0.84}, {"tree/ll", 0.8}}, "tree/ll");
  EXPECT_THAT(rows(), ElementsAre("8-16 ring/ll", "32-32 tree/ll"));
}

TEST_F(Rows, keep_no_incumbent_that_is_slower_with_its_launch_or_was_not_launched) {
  for (const bool measured : {true, false}) {
    result.records.clear();
    verdicts.clear();
    add(8, {{"ring/ll", 0.8}}, "ring/ll");
    add(16, {{"ring/ll", 0.81}, {"tree/ll", 0.8}}, "tree/ll");
    std::vector<std::pair<std::string, double>> launched{{"tree/ll", 0.9e-5}};
    if (measured) launched.emplace_back("ring/ll", 1.03e-5);
    add_blocks(result.records[1], Visit::launched, 6, 1e-5, launched);
    EXPECT_THAT(rows(), ElementsAre("8-8 ring/ll", "16-16 tree/ll"));
  }
  add_blocks(result.records[1], Visit::launched, 6, 1e-5, {{"tree/ll", 0.9e-5}, {"ring/ll", 1.01e-5}});
  EXPECT_THAT(rows(), ElementsAre("8-16 ring/ll"));
}

TEST_F(Rows, join_a_lonely_size_to_the_next) {
  add(8, {{"ring/ll", 0.8}, {"tree/ll", 0.81}}, "ring/ll");
  add(16, {{"tree/ll", 0.8}}, "tree/ll");
  EXPECT_THAT(rows(), ElementsAre("8-16 tree/ll"));
}

TEST_F(Rows, bridge_a_size_only_where_it_was_measured_and_not_slower) {
  add(8, {{"ring/ll", 0.8}}, "ring/ll");
  add(16, {{"ring/ll", 0.98}}, "");
  add(32, {{"ring/ll", 0.8}}, "ring/ll");
  EXPECT_THAT(rows(), ElementsAre("8-32 ring/ll"));
  result.records[1].blocks.clear();
  EXPECT_THAT(rows(), ElementsAre("8-8 ring/ll", "32-32 ring/ll"));
  result.records.clear(), verdicts.clear();
  add(8, {{"ring/ll", 0.8}}, "ring/ll");
  add(16, {{"ring/ll", 1.01}}, "");
  add(32, {{"ring/ll", 0.8}}, "ring/ll");
  EXPECT_THAT(rows(), ElementsAre("8-8 ring/ll", "32-32 ring/ll"));
}

TEST_F(Rows, of_which_there_are_too_many_keep_those_that_save_most) {
  for (int i = 0; i < 4; ++i) {
    const std::string text = i % 2 == 0 ? "ring/ll" : "tree/ll";
    add(8u << i, {{text, 0.9 - 0.1 * i}}, text);
  }
  RowRules rules;
  rules.most_rows = 2;
  EXPECT_THAT(rows(rules), ElementsAre("32-32 ring/ll", "64-64 tree/ll"));
}

TEST_F(Rows, know_the_time_in_their_middle) {
  add(8, {{"ring/ll", 0.8}}, "ring/ll");
  EXPECT_NEAR(rows_of(result, verdicts, {})[0].microseconds, 8, 0.1);
}

TEST(HeldOutSizes, lie_inside_the_row_and_were_not_searched) {
  const Row row{Function::all_reduce, 1 << 10, 1 << 20, setting("ring/ll"), 1};
  const std::vector<HeldOut> sizes = held_out({row}, 4, 4);
  ASSERT_EQ(sizes.size(), 3u);
  EXPECT_EQ(sizes[0].tuner_bytes, 3u << 9);
  EXPECT_EQ(sizes[1].tuner_bytes, 3u << 18);
  EXPECT_EQ(sizes[2].tuner_bytes / 4 % 2, 1u) << "an odd count";
  for (const HeldOut& size : held_out({row}, 4, 4 * 7)) EXPECT_EQ(size.tuner_bytes % 28, 0u);
  const Row point{Function::all_reduce, 1 << 10, 1 << 10, setting("ring/ll"), 1};
  EXPECT_THAT(held_out({point}, 4, 4), IsEmpty());
}

}  // namespace
}  // namespace p5::tuner
