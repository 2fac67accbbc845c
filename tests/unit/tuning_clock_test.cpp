// Time of a tuning whose workers join fast or slowly, and the parts that do not fit the budget.
#include "bench/app/tuning/limits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace p5 {
namespace {

using testing::HasSubstr;

struct Hand {
  double now = 0;
  TuningClock clock;
  explicit Hand(double budget) : clock({budget}, [this] { return now; }) {}
  // Workers join.
  void join(double seconds) {
    now += seconds;
    clock.joined({seconds});
  }
};

TEST(TuningClock, counts_joins_that_are_usual_as_work) {
  Hand fast(540);
  fast.join(1.5);
  EXPECT_DOUBLE_EQ(fast.clock.worked(), 1.5);
  EXPECT_DOUBLE_EQ(fast.clock.until({8.5})(), 7);
  fast.now += 3;
  EXPECT_DOUBLE_EQ(fast.clock.until({8.5})(), 4);
}

TEST(TuningClock, slow_starters_have_the_time_of_others) {
  Hand slow(540), usual(540);
  usual.join(2);
  slow.join(15);
  for (Hand* const each : {&slow, &usual}) each->now += 3;
  EXPECT_DOUBLE_EQ(slow.clock.worked(), usual.clock.worked());
  slow.join(15);
  usual.join(2);
  EXPECT_DOUBLE_EQ(slow.clock.until({17})(), usual.clock.until({17})());
  EXPECT_DOUBLE_EQ(slow.clock.budget_left(), 540 - 33) << "joins count against the budget";
}

TEST(TuningClock, ends_with_the_budget_less_what_is_kept) {
  Hand hand(30);
  hand.join(15);
  EXPECT_DOUBLE_EQ(hand.clock.until({100})(), 15);
  EXPECT_DOUBLE_EQ(hand.clock.until({100}, {10})(), 5);
  const TuningLimits quick = limits_of_mode("quick");
  EXPECT_DOUBLE_EQ(hand.clock.confirmation(quick).count, quick.end.count - quick.call_modes_end.count + 4 * 13);
}

TEST(TuningClock, objects_to_what_does_not_fit_the_budget) {
  EXPECT_EQ(Hand(17).clock.objection(), "");
  EXPECT_THAT(Hand(16).clock.objection(), testing::AllOf(HasSubstr("--budget leaves 16 s"), HasSubstr("17 s")));
  EXPECT_THAT(Hand(-5).clock.objection(), HasSubstr("--budget leaves 0"));
  Hand slow(80);
  EXPECT_EQ(slow.clock.objection(), "");
  slow.join(15);
  // 15 s of work in another four joins that each take 13 s more than usual: 67 s, and 65 are left.
  EXPECT_THAT(slow.clock.objection(),
              testing::AllOf(HasSubstr("15 s to join"), HasSubstr("1 min 7 s more"), HasSubstr("leaves 1 min 5 s")));
  Hand late(60);
  late.now = 52.6;  // e.g. for operations that hung
  EXPECT_THAT(late.clock.objection(), HasSubstr("--budget leaves 7.4 s"));
  late.now = 61;
  EXPECT_THAT(late.clock.objection(), HasSubstr("--budget leaves 0"));
  Hand longer(85);
  longer.join(15);
  EXPECT_EQ(longer.clock.objection(), "");
}

TEST(TuningClock, keeps_time_for_two_launches_of_a_jobs_step) {
  Hand hand(100);
  EXPECT_DOUBLE_EQ(hand.clock.budget_left(), 100) << "nothing is kept before its time is known";
  hand.now = 4;  // in which groups are formed and connected, and one sample is taken
  hand.clock.keep_for_step({3}, 0);
  EXPECT_DOUBLE_EQ(hand.clock.worked(), 0) << "its first replay takes no time of the search";
  EXPECT_DOUBLE_EQ(hand.clock.budget_left(), 100 - 4 - 4 * (2 + 7)) << "joins that are usual";
  hand.join(15);
  EXPECT_DOUBLE_EQ(hand.clock.worked(), 2);
  EXPECT_DOUBLE_EQ(hand.clock.budget_left(), 100 - 19 - 4 * (15 + 7));
  EXPECT_DOUBLE_EQ(hand.clock.until({100})(), hand.clock.budget_left());
  EXPECT_DOUBLE_EQ(hand.clock.budget_left_for_step(), 100 - 19);
}

TEST(TuningClock, objects_to_a_step_by_the_time_that_it_took) {
  Hand fits(37), not_quite(36);
  for (Hand* const each : {&fits, &not_quite}) {
    EXPECT_EQ(each->clock.objection(), "") << "the search fits, and the step is not known yet";
    each->clock.keep_for_step({3}, 0);
  }
  EXPECT_EQ(fits.clock.objection(), "");
  EXPECT_THAT(not_quite.clock.objection(),
              testing::AllOf(HasSubstr("37 s, 20 s of it to replay the job's step"), HasSubstr("leaves 36 s")));
}

TEST(TuningClock, a_budget_that_is_shorter_shortens_everything) {
  const TuningLimits full = limits_of_mode("full"), half = scale_limits(full, {full.end.count / 2});
  EXPECT_DOUBLE_EQ(half.end.count, full.end.count / 2);
  EXPECT_DOUBLE_EQ(half.search_end.count, full.search_end.count / 2);
  EXPECT_DOUBLE_EQ(half.burst.count, full.burst.count);
  EXPECT_DOUBLE_EQ(scale_limits(full, {1000}).end.count, full.end.count);
}

TEST(SetAside, is_what_a_tuning_can_use_and_a_quarter_at_most) {
  const double quick = limits_of_mode("quick").end.count, full = limits_of_mode("full").end.count;
  EXPECT_DOUBLE_EQ(reserve_tuning_time("quick", {600}).count, quick);
  EXPECT_DOUBLE_EQ(reserve_tuning_time("full", {600}).count, std::min(full, 150.0));
  EXPECT_DOUBLE_EQ(reserve_tuning_time("quick", {4 * quick}).count, quick);
  EXPECT_DOUBLE_EQ(reserve_tuning_time("quick", {4 * quick - 1}).count, 0) << "it would not fit";
  EXPECT_DOUBLE_EQ(reserve_tuning_time("full", {20}).count, 0);
  EXPECT_DOUBLE_EQ(reserve_tuning_time("quick", {600}, {9}).count, quick + 5 * (9 - 2))
      << "five joins, 7 s longer each";
  EXPECT_DOUBLE_EQ(reserve_tuning_time("quick", {80}, {9}).count, 20);
  EXPECT_DOUBLE_EQ(reserve_tuning_time("quick", {600}, {0}, Seconds{3}).count, quick + 5 * (2 + 3))
      << "the first replay of a job's step, and two launches of both sides";
  EXPECT_DOUBLE_EQ(reserve_tuning_time("quick", {600}, {0}, Seconds{1000}).count, 150);
}

}  // namespace
}  // namespace p5
