// Answers of comparisons where a side has few launches, where launches have unlike numbers of samples, or none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "comparison_sides.hpp"

namespace p5::reports {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// As after months of nightly runs: among eight rows one launch above 199 others is significant.
TEST(FewLaunches, finds_one_slow_launch_after_more_than_sixty) {
  SideRecipe many, once = slower_from(MiB(64), 1.1);
  many.launches = 199;
  once.launches = 1;
  const Comparison c = compare(make_up_side("BASE", many, 1), make_up_side("NEW", once, 2));
  ASSERT_EQ(c.bands.size(), 8u);
  const BandRow& row = row_of(c, "all_reduce", "bandwidth");
  EXPECT_EQ(row.answer, Answer::regression) << row.because;
  EXPECT_NEAR(row.time.p, 1.0 / 200, 1e-9);
  EXPECT_TRUE(row.screening) << "one launch does not tell how launches differ";
}

// One new launch, or two, may be as much faster than usual as launches differ.
TEST(FewLaunches, seldom_denies_6_percent_by_few_new_launches) {
  for (const int launches : {1, 2}) {
    SideRecipe many;
    many.collectives = {&all_reduce};
    many.from = many.to = MiB(8);
    many.noise.mid = 0.02;
    SideRecipe few = many;
    many.launches = 30;
    few.launches = launches;
    few.slowdown = [](const Case&, int) { return 1.06; };
    int denied = 0;
    for (std::uint64_t seed = 0; seed < 100; ++seed)
      denied += compare(make_up_side("BASE", many, 11000 + 2 * seed), make_up_side("NEW", few, 11001 + 2 * seed))
                    .bands.at(0)
                    .answer == Answer::no_regression;
    RecordProperty("denied_by_" + std::to_string(launches), denied);
    EXPECT_LE(denied, 6) << launches;
  }
}

// With --launches 7 a small size has 7 samples in a launch; a single run has 42, of six repetitions.
TEST(FewSamples, leaves_out_alike_of_launches_of_unlike_numbers_of_samples) {
  SideRecipe seven, once;
  seven.launches = 7;
  seven.samples = 7;
  once.launches = 1;
  once.samples = 42;
  seven.noise.outliers = once.noise.outliers = 0.15;
  const Comparison c = compare(make_up_side("BASE", seven, 1), make_up_side("NEW", once, 2));
  for (const BandRow& row : c.bands) {
    EXPECT_FALSE(row.mean_rose) << row.because;
    ASSERT_TRUE(row.mean);
    EXPECT_NEAR(row.mean->ratio / row.time.ratio, 1, 0.03) << row.collective << " " << row.threshold.band;
  }
}

TEST(FewSamples, judges_slow_samples_without_the_launches_that_have_no_samples) {
  for (const int launches : {1, 8}) {
    SideRecipe before, after;
    before.launches = 8;
    after.launches = launches;
    after.noise.outliers = 0.3;
    Side base = make_up_side("BASE", before, 1);
    for (Observation& each : base.observations)
      for (std::vector<Launch>* const of_quantity : {&each.latency, &each.throughput})
        if (!of_quantity->empty()) of_quantity->at(3).samples_s.clear();
    const Comparison c = compare(base, make_up_side("NEW", after, 2));
    EXPECT_EQ(c.exit_code, ExitCode::slow) << c.headline;
    EXPECT_TRUE(row_of(c, "all_reduce", "bandwidth").mean_rose) << launches;
    EXPECT_EQ(row_of(c, "all_reduce", "bandwidth").base_with_samples, 7);
    EXPECT_EQ(row_of(c, "all_reduce", "bandwidth").spread.has_value(), launches == 8);
    EXPECT_THAT(c.remarks, Contains("1 of the 8 launches of BASE is without six samples of each size (is "
                                    "measurements.jsonl beside the report?): slow samples and spreads are judged "
                                    "without them"));
  }
  Side none = make_up_side("BASE", {}, 1);
  for (Observation& each : none.observations)
    for (std::vector<Launch>* const of_quantity : {&each.latency, &each.throughput})
      for (Launch& launch : *of_quantity) launch.samples_s.clear();
  const Comparison c = compare(none, make_up_side("NEW", {}, 2));
  EXPECT_FALSE(c.bands.at(0).mean);
  EXPECT_THAT(c.remarks, Contains(HasSubstr("7 of the 7 launches of BASE are without six samples")));
  EXPECT_THAT(compare(none, none).remarks, Not(Contains(HasSubstr("six samples")))) << "as of imports";
}

}  // namespace
}  // namespace p5::reports
