// Rows from the winners of size points, and the held-out sizes beside them.
#include "tests/unit/tuner_setting.hpp"
#include "tuner/confirm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace p5::tuner {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Rows : testing::Test {
  SearchResult result;

  // A size point in which the winner took 0.8 of the default's time.
  void add(std::uint64_t bytes, std::string_view winner, const char* collective = "all_reduce") {
    Record record{{collective, bytes}, {}, {}, {}};
    if (!winner.empty()) {
      record.winner = setting(winner);
      for (int i = 0; i < 6; ++i)
        record.blocks.push_back({.stage = Stage::race,
                                 .candidates = {{}, {*record.winner}},
                                 .trials = {{.time = {1e-5 * wobble(i)}}, {.time = {0.8e-5 * wobble(i + 1)}}}});
    }
    result.records.push_back(record);
  }
  std::vector<std::string> rows() const {
    std::vector<std::string> texts;
    for (const Row& row : make_rows(result))
      texts.push_back(std::to_string(row.from) + "-" + std::to_string(row.to) + " " + to_text(row.setting));
    return texts;
  }
};

TEST_F(Rows, span_sizes_that_agree_and_end_at_measured_ones) {
  add(8, "");
  add(32, "ring/ll");
  add(16, "ring/ll");
  add(64, "tree/ll");
  add(128, "");
  add(256, "tree/ll");
  EXPECT_THAT(rows(), ElementsAre("16-32 ring/ll", "64-64 tree/ll", "256-256 tree/ll"));
}

TEST_F(Rows, are_of_one_collective) {
  add(8, "ring/ll");
  add(16, "ring/ll", "all_gather");
  EXPECT_EQ(rows().size(), 2u);
}

TEST_F(Rows, are_for_nothing_that_failed_anywhere) {
  add(8, "ring/ll");
  add(16, "tree/ll");
  result.failures = {{{"all_gather", 64}, {setting("ring/ll")}, Trial::Outcome::failed, "hung"}};
  EXPECT_THAT(rows(), ElementsAre("16-16 tree/ll"));
}

TEST_F(Rows, know_the_time_in_their_middle) {
  add(8, "ring/ll");
  EXPECT_NEAR(make_rows(result)[0].microseconds, 8, 0.1);
}

TEST(HeldOutSizes, lie_inside_the_row_and_were_not_searched) {
  const Row row{Function::all_reduce, 1 << 10, 1 << 20, setting("ring/ll"), 1};
  const std::vector<HeldOutSize> sizes = held_out_sizes({row}, 4, 4);
  ASSERT_EQ(sizes.size(), 3u);
  EXPECT_EQ(sizes[0].bytes, 3u << 9);
  EXPECT_EQ(sizes[1].bytes, 3u << 18);
  EXPECT_EQ(sizes[2].bytes / 4 % 2, 1u) << "an odd count";
  for (const HeldOutSize& size : held_out_sizes({row}, 4, 4 * 7)) EXPECT_EQ(size.bytes % 28, 0u);
  const Row point{Function::all_reduce, 1 << 10, 1 << 10, setting("ring/ll"), 1};
  EXPECT_THAT(held_out_sizes({point}, 4, 4), IsEmpty());
}

}  // namespace
}  // namespace p5::tuner
