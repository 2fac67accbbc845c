// Confirmation: results of the files alone in fresh processes that split or drop a row.
#include "tuner/confirm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tuner_setting.hpp"

namespace p5::tuner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double default_s = 100e-6;

// One launch for each factor of the default's time.
std::vector<Launch> launches(const std::vector<double>& factors, double seconds = default_s) {
  std::vector<Launch> all;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    Launch& launch = all.emplace_back();
    launch.number = static_cast<int>(i);
    for (int k = 0; k < 8; ++k) launch.samples_s.push_back(factors[i] * seconds * wobble(k));
    launch.median_s = median(launch.samples_s);
  }
  return all;
}

// Processes of the default differ a little, as real ones do.
Confirmation size(std::uint64_t bytes, const std::vector<double>& tuned, double seconds = default_s) {
  std::vector<double> standard;
  for (std::size_t i = 0; i < tuned.size(); ++i) standard.push_back(i % 2 == 0 ? 1.002 : 0.998);
  return {.function = Function::all_reduce,
          .bytes = bytes,
          .device = {launches(standard, seconds), launches(tuned, seconds)}};
}

Confirmation launched(Confirmation one, const std::vector<double>& standard, const std::vector<double>& tuned) {
  one.throughput = {launches(standard), launches(tuned)};
  return one;
}

Table table(std::uint64_t from, std::uint64_t to) {
  return {22803, 8, 1, {{Function::all_reduce, from, to, setting("ring/ll"), 1}}};
}

std::vector<std::string> ranges(const Confirmed& confirmed) {
  std::vector<std::string> texts;
  for (const Row& row : confirmed.table.rows) texts.push_back(std::to_string(row.from) + "-" + std::to_string(row.to));
  return texts;
}

const std::vector<double> faster{0.9, 0.901}, alike{1, 1.001};

TEST(Confirmation, keeps_what_is_faster_again) {
  const std::vector<Confirmation> all{size(8, faster), size(16, faster), size(32, faster)};
  const Confirmed confirmed = confirm(table(8, 32), all);
  EXPECT_THAT(ranges(confirmed), ElementsAre("8-32"));
  EXPECT_THAT(confirmed.dropped, IsEmpty());
  EXPECT_FALSE(confirmed.undecided);
  EXPECT_EQ(confirmed.table.nccl_version, 22803);
  EXPECT_NEAR(confirmed.table.rows[0].microseconds, 90, 1);
  const std::vector<ConfirmedSizePoint> size_points = confirmed_size_points(table(8, 32), confirmed.table, all);
  ASSERT_EQ(size_points.size(), 3u);
  EXPECT_EQ(size_points[0].verdict, "faster");
  EXPECT_NEAR(size_points[0].gain->share, 0.1, 0.01);
  EXPECT_LT(size_points[0].gain->interval.low, 0.1);
  EXPECT_GT(size_points[0].gain->interval.high, 0.1);
}

TEST(Confirmation, splits_a_row_where_it_loses) {
  const std::vector<Confirmation> all{size(8, faster), size(16, faster), size(24, {1.02, 1.02}), size(32, faster),
                                      size(64, faster)};
  const Confirmed confirmed = confirm(table(8, 64), all);
  EXPECT_THAT(ranges(confirmed), ElementsAre("8-16", "32-64"));
  ASSERT_EQ(confirmed.dropped.size(), 1u);
  EXPECT_THAT(confirmed.dropped[0], HasSubstr("lost 2.0 % at 24 B"));
  EXPECT_EQ(confirmed_size_points(table(8, 64), confirmed.table, all)[2].verdict,
            "the default: ring/ll did not hold up");
}

TEST(Confirmation, tolerates_a_fifth_of_a_microsecond) {
  const auto with = [](double seconds) {
    return ranges(confirm(table(8, 32), {size(8, faster), size(16, {1.015, 1.015}, seconds), size(32, faster)}));
  };
  EXPECT_THAT(with(10e-6), ElementsAre("8-32"));
  EXPECT_THAT(with(100e-6), ElementsAre("8-8", "32-32"));
}

TEST(Confirmation, drops_a_row_that_saves_too_little) {
  const Confirmed confirmed = confirm(table(8, 8), {size(8, {0.99, 0.99})});
  EXPECT_THAT(ranges(confirmed), IsEmpty());
  EXPECT_THAT(confirmed.dropped[0], HasSubstr("saved 1.0 % in fresh processes"));
}

TEST(Confirmation, trusts_no_size_between_where_one_lost_that_the_search_did_not_measure) {
  const auto held_out = [](std::uint64_t bytes, const std::vector<double>& tuned) {
    Confirmation one = size(bytes, tuned);
    one.held_out = true;
    return one;
  };
  const std::vector<double> slower{1.05, 1.051};
  std::vector<Confirmation> all;
  for (std::uint64_t bytes = 8; bytes <= 256; bytes *= 2) all.push_back(size(bytes, faster));
  all.push_back(held_out(24, slower));
  all.push_back(held_out(96, faster));
  EXPECT_THAT(ranges(confirm(table(8, 256), all)), ElementsAre("8-8", "16-16", "32-32", "64-128", "256-256"));
  all[6] = held_out(24, faster);
  EXPECT_THAT(ranges(confirm(table(8, 256), all)), ElementsAre("8-256"));
  // A setting that loses in a range of sizes loses there.
  all[6] = held_out(24, slower);
  all[1] = size(16, slower);
  EXPECT_THAT(ranges(confirm(table(8, 256), all)), ElementsAre("8-8", "32-256"));
}

TEST(Confirmation, asks_for_more_than_processes_differ_by) {
  EXPECT_THAT(ranges(confirm(table(8, 8), {size(8, {0.95, 0.951})})), ElementsAre("8-8"));
  // Neighbours differ by 6 % from process to process, with files or without.
  std::vector<Confirmation> restless{size(8, {0.95, 0.951})};
  for (std::uint64_t bytes = 16; bytes <= 1024; bytes *= 2) {
    restless.push_back(size(bytes, {1.06, 1}));
    restless.back().device.standard = launches({1, 1.06});
  }
  const Confirmed confirmed = confirm(table(8, 8), restless);
  EXPECT_THAT(ranges(confirmed), IsEmpty());
  EXPECT_THAT(confirmed.dropped[0], HasSubstr("too little, or chance"));
  EXPECT_TRUE(confirmed.undecided) << "more processes would tell";
}

TEST(Confirmation, says_whether_more_processes_would_tell) {
  const auto in = [](std::size_t processes, double gain) {
    Confirmation one = size(8, std::vector<double>(processes, 1));
    std::vector<double> standard, tuned;
    for (std::size_t i = 0; i < processes; ++i) {
      standard.push_back(i % 2 == 0 ? 1 : 1.06);
      tuned.push_back((1 - gain) * (i % 2 == 0 ? 1 : 1.06));
    }
    one.device = {launches(standard), launches(tuned)};
    return confirm(table(8, 8), {one});
  };
  EXPECT_THAT(ranges(in(2, 0.08)), IsEmpty());
  EXPECT_TRUE(in(2, 0.08).undecided);
  EXPECT_THAT(ranges(in(10, 0.15)), ElementsAre("8-8"));
  EXPECT_FALSE(in(10, 0.15).undecided);
  EXPECT_FALSE(confirm(table(8, 8), {size(8, {1.05, 1.05})}).undecided) << "it loses";
  EXPECT_FALSE(confirm(table(8, 8), {size(8, alike)}).undecided) << "nothing to gain";
}

TEST(Confirmation, asks_more_of_one_among_many) {
  // The files gain 3 %, where processes differ by 0.6 %.
  const std::vector<double> little{0.967, 0.973};
  Confirmation one = size(8, little);
  one.device.standard = launches({1.004, 0.996});
  EXPECT_THAT(ranges(confirm(table(8, 8), {one})), ElementsAre("8-8"));
  Table many{22803, 8, 1, {}};
  std::vector<Confirmation> all;
  for (std::uint64_t bytes = 8; bytes < std::uint64_t{8} << 30; bytes *= 2) {
    many.rows.push_back({Function::all_reduce, bytes, bytes, setting("ring/ll"), 1});
    all.push_back(bytes == 8 ? one : size(bytes, {1.004, 0.996}));
  }
  EXPECT_THAT(ranges(confirm(many, all)), IsEmpty());
}

TEST(Confirmation, drops_what_was_not_measured) {
  const Confirmed confirmed =
      confirm(table(8, 32), {size(8, faster), {.function = Function::all_reduce, .bytes = 32, .device = {}}});
  EXPECT_THAT(ranges(confirmed), ElementsAre("8-8"));
  EXPECT_THAT(confirmed.dropped[0], HasSubstr("was not measured at 32 B"));
  EXPECT_THAT(ranges(confirm(table(8, 32), {})), IsEmpty());
}

// Three rows: 8 to 32 bytes with ring/ll, 64 with ring/ll/16 and 128 with tree/ll. It fails at 16 bytes.
Confirmed failed_at_16(Trial::Outcome outcome) {
  Table three = table(8, 32);
  three.rows.push_back({Function::all_reduce, 64, 64, setting("ring/ll/16"), 1});
  three.rows.push_back({Function::all_reduce, 128, 128, setting("tree/ll"), 1});
  Confirmation bad = size(16, faster);
  bad.failure = "3 wrong elements";
  bad.outcome = outcome;
  return confirm(three, {size(8, faster), bad, size(32, faster), size(64, faster), size(128, faster)});
}

TEST(Confirmation, drops_all_rows_of_an_algorithm_and_protocol_that_gave_wrong_data) {
  const Confirmed confirmed = failed_at_16(Trial::Outcome::wrong_data);
  EXPECT_THAT(ranges(confirmed), ElementsAre("128-128"));
  ASSERT_EQ(confirmed.dropped.size(), 2u);
  EXPECT_THAT(confirmed.dropped[1], HasSubstr("ring/ll gave wrong data at all_reduce of 16 B: 3 wrong elements"));
}

TEST(Confirmation, drops_all_of_a_setting_that_failed) {
  const Confirmed confirmed = failed_at_16(Trial::Outcome::failed);
  EXPECT_THAT(ranges(confirmed), ElementsAre("64-64", "128-128"));
  EXPECT_THAT(confirmed.dropped, ElementsAre(HasSubstr("failed at all_reduce of 16 B: 3 wrong elements")));
}

TEST(Confirmation, splits_a_row_where_the_default_failed) {
  Confirmation broken = size(16, faster);
  broken.standard_failure = "hung";
  const std::vector<Confirmation> all{size(8, faster), broken, size(32, faster)};
  const Confirmed confirmed = confirm(table(8, 32), all);
  EXPECT_THAT(ranges(confirmed), ElementsAre("8-8", "32-32"));
  EXPECT_THAT(confirmed.dropped, ElementsAre(HasSubstr("was not compared at 16 B, where the default failed: hung")));
  EXPECT_EQ(confirmed_size_points(table(8, 32), confirmed.table, all)[1].verdict, "failed with the default: hung");
}

TEST(Confirmation, refuses_files_that_harm_what_they_do_not_name) {
  EXPECT_THAT(ranges(confirm(table(8, 8), {size(8, faster), size(64, {1.01, 1.01})})), ElementsAre("8-8"));
  const Confirmed harmed = confirm(table(8, 8), {size(8, faster), size(64, {1.12, 1.12})});
  EXPECT_THAT(ranges(harmed), IsEmpty());
  EXPECT_THAT(harmed.dropped[0], HasSubstr("leave alone"));
  Confirmation failed = size(64, alike);
  failed.failure = "hung";
  EXPECT_THAT(ranges(confirm(table(8, 8), {size(8, faster), failed})), IsEmpty());
}

TEST(Confirmation, does_not_take_unlucky_processes_for_a_cost_of_the_files) {
  const auto with = [](const std::vector<double>& standard, const std::vector<double>& tuned) {
    std::vector<Confirmation> all{size(8, std::vector<double>(standard.size(), 0.9))};
    for (std::uint64_t bytes = 64; bytes < 1 << 20; bytes *= 2)
      all.push_back(launched(size(bytes, std::vector<double>(standard.size(), 1)), standard, tuned));
    return confirm(table(8, 8), all);
  };
  EXPECT_THAT(ranges(with({1, 1.05}, {1.08, 1.08})), ElementsAre("8-8"));
  // Some processes launch a third faster than others.
  EXPECT_THAT(ranges(with({0.7, 0.7}, {1, 1})), ElementsAre("8-8"));
  EXPECT_TRUE(with({0.7, 0.7}, {1, 1}).undecided) << "more of them would tell";
  EXPECT_THAT(ranges(with({1, 1, 1, 1, 1, 1}, {1.12, 1.12, 1.12, 1.12, 1.12, 1.12})), IsEmpty());
}

TEST(Confirmation, shares_its_time) {
  const auto shared = [](double seconds) {
    std::vector<SamplePlan> sizes{{Function::all_reduce, 8, true, 0.001, 0},
                                  {Function::all_reduce, 16, false, 0.01, 0},
                                  {Function::all_reduce, 32, false, 1, 0},
                                  {Function::all_reduce, 64, true, 0.5, 0}};
    allocate_samples(sizes, seconds, 12);
    std::vector<int> samples;
    for (const SamplePlan& size : sizes) samples.push_back(size.samples);
    return samples;
  };
  EXPECT_THAT(shared(100), ElementsAre(12, 12, 12, 12));
  EXPECT_THAT(shared(12.2), ElementsAre(12, 12, 6, 12));
  EXPECT_THAT(shared(7), ElementsAre(12, 12, 4, 5));
  EXPECT_THAT(shared(6.0485), ElementsAre(8, 4, 4, 4));
  EXPECT_THAT(shared(3), ElementsAre(4, 4, 0, 4)) << "outside of rows the longest is left out";
  EXPECT_THAT(shared(0), ElementsAre(4, 0, 0, 4));
}

TEST(Confirmation, leaves_out_of_rows_what_takes_longer_than_there_is_time) {
  std::vector<SamplePlan> sizes{{Function::all_reduce, 8, true, 0.001, 0, 0.004},
                                {Function::all_reduce, 16, true, 0.5, 0, 0.9},
                                {Function::all_reduce, 32, false, 0.1, 0, 0.2}};
  allocate_samples(sizes, 3.2, 12);
  EXPECT_EQ(sizes[1].samples, 4) << "with its preparation it fits";
  EXPECT_EQ(sizes[2].samples, 0);
  allocate_samples(sizes, 1, 12);
  EXPECT_EQ(sizes[1].samples, 4) << "there are 3 seconds in any case";
  sizes[1].preparation = 1.9;
  allocate_samples(sizes, 1, 12);
  EXPECT_EQ(sizes[1].samples, 0);
  EXPECT_EQ(sizes[0].samples, 4);
}

TEST(Confirmation, judges_what_a_launch_costs_against_the_sizes_beside) {
  // Processes differ by a twentieth, at all sizes.
  const std::vector<double> processes{0.975, 1.025};
  const auto confirmed = [&](double inside, double outside) {
    const auto at = [&](Confirmation one, double factor) {
      return launched(std::move(one), processes, {factor * processes[1], factor * processes[0]});
    };
    return confirm(table(8, 8),
                   {at(size(8, faster), inside), at(size(64, alike), outside), at(size(128, alike), outside)});
  };
  EXPECT_THAT(ranges(confirmed(1, 1)), ElementsAre("8-8"));
  EXPECT_THAT(ranges(confirmed(1.03, 1)), IsEmpty());
  EXPECT_THAT(confirmed(1.03, 1).dropped[0], HasSubstr("takes 3.0 % longer with the time to launch it"));
  EXPECT_FALSE(confirmed(1.1, 1).undecided) << "that is certain";
  EXPECT_THAT(ranges(confirmed(1.03, 1.03)), ElementsAre("8-8")) << "it is the processes";
  EXPECT_THAT(ranges(confirmed(1.01, 1)), ElementsAre("8-8")) << "tolerated";
}

Confirmation beside(Confirmation one, double alone_factor) {
  one.alone = {launches({1.002, 0.998, 1.001, 0.999}),
               launches({alone_factor, alone_factor * 1.002, alone_factor, alone_factor})};
  return one;
}

const std::vector<double> faster_beside{0.9, 0.901, 0.9, 0.9};

TEST(ConfirmationBesideWork, keeps_what_is_faster_and_hardly_slower_alone) {
  const std::vector<Confirmation> all{beside(size(8, faster_beside), 1.001), beside(size(16, faster_beside), 1.003)};
  EXPECT_THAT(ranges(confirm(table(8, 16), all, 0.02)), ElementsAre("8-16"));
  const std::vector<ConfirmedSizePoint> points = confirmed_size_points(table(8, 16), table(8, 16), all);
  ASSERT_TRUE(points[0].alone);
  EXPECT_NEAR(points[0].alone->share, -0.001, 0.003);
}

TEST(ConfirmationBesideWork, splits_a_row_at_sizes_that_are_too_slow_alone) {
  const std::vector<Confirmation> all{beside(size(8, faster_beside), 1), beside(size(16, faster_beside), 1.1),
                                      beside(size(32, faster_beside), 1)};
  const Confirmed confirmed = confirm(table(8, 32), all, 0.02);
  EXPECT_THAT(ranges(confirmed), ElementsAre("8-8", "32-32"));
  EXPECT_THAT(confirmed.dropped.front(), HasSubstr("slower alone at 16 B, and 2.0 % are allowed"));
  EXPECT_THAT(ranges(confirm(table(8, 32), all, 0.2)), ElementsAre("8-32"));
}

TEST(ConfirmationBesideWork, splits_a_row_where_the_default_failed_alone) {
  std::vector<Confirmation> all{beside(size(8, faster_beside), 1), beside(size(16, faster_beside), 1),
                                beside(size(32, faster_beside), 1)};
  all[1].alone.standard.pop_back();
  all[1].standard_failure = "hung";
  EXPECT_THAT(ranges(confirm(table(8, 32), all, 0.02)), ElementsAre("8-8", "32-32"));
}

TEST(ConfirmationBesideWork, drops_what_may_be_too_slow_alone) {
  Confirmation one = size(8, faster_beside);
  one.alone = {launches({1, 1.03, 0.98, 1.01}), launches({1.0, 1.05, 0.99, 1.04})};
  const Confirmed confirmed = confirm(table(8, 8), {one}, 0.02);
  EXPECT_THAT(ranges(confirmed), IsEmpty());
  EXPECT_TRUE(confirmed.undecided) << "more processes could tell";
}

}  // namespace
}  // namespace p5::tuner
