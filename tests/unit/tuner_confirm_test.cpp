// What breaks a row afterwards: the files alone in fresh processes, against the default.
#include "tuner/confirm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tuner_setting.hpp"

namespace p5::tuner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Confirmation size(std::uint64_t bytes, double first, double second, double standard = 100e-6) {
  const auto samples = [](double seconds) {
    std::vector<double> all;
    for (int i = 0; i < 8; ++i) all.push_back(seconds * wobble(i));
    return all;
  };
  return {Function::all_reduce,
          bytes,
          {samples(standard), samples(standard)},
          {samples(first * standard), samples(second * standard)},
          {}};
}

Table table(std::uint64_t from, std::uint64_t to) {
  return {22803, 8, 1, {{Function::all_reduce, from, to, setting("ring/ll"), 1}}};
}

std::vector<std::string> ranges(const Confirmed& confirmed) {
  std::vector<std::string> texts;
  for (const Row& row : confirmed.table.rows) texts.push_back(std::to_string(row.from) + "-" + std::to_string(row.to));
  return texts;
}

TEST(Confirmation, keeps_what_is_faster_again) {
  const Confirmed confirmed = confirm(table(8, 32), {size(8, 0.9, 0.9), size(16, 0.9, 0.9), size(32, 0.9, 0.9)});
  EXPECT_THAT(ranges(confirmed), ElementsAre("8-32"));
  EXPECT_THAT(confirmed.dropped, IsEmpty());
  EXPECT_EQ(confirmed.table.nccl_version, 22803);
  EXPECT_NEAR(confirmed.table.rows[0].microseconds, 90, 1);
  ASSERT_EQ(confirmed.cells.size(), 3u);
  EXPECT_EQ(confirmed.cells[0].verdict, "faster");
  EXPECT_NEAR(confirmed.cells[0].gain->share, 0.1, 0.01);
}

TEST(Confirmation, splits_a_row_where_it_loses) {
  const Confirmed confirmed = confirm(table(8, 64), {size(8, 0.9, 0.9), size(16, 0.9, 0.9), size(24, 1.02, 1.02),
                                                     size(32, 0.9, 0.9), size(64, 0.9, 0.9)});
  EXPECT_THAT(ranges(confirmed), ElementsAre("8-16", "32-64"));
  ASSERT_EQ(confirmed.dropped.size(), 1u);
  EXPECT_THAT(confirmed.dropped[0], HasSubstr("lost 2.0 % at 24 B"));
  EXPECT_EQ(confirmed.cells[2].verdict, "the default: ring/ll did not hold up");
}

TEST(Confirmation, tolerates_a_fifth_of_a_microsecond) {
  const auto with = [](double standard) {
    return ranges(confirm(table(8, 32), {size(8, 0.9, 0.9), size(16, 1.015, 1.015, standard), size(32, 0.9, 0.9)}));
  };
  EXPECT_THAT(with(10e-6), ElementsAre("8-32"));
  EXPECT_THAT(with(100e-6), ElementsAre("8-8", "32-32"));
}

TEST(Confirmation, drops_a_row_that_was_faster_only_once) {
  EXPECT_THAT(ranges(confirm(table(8, 8), {size(8, 0.9, 1.01)})), IsEmpty());
}

TEST(Confirmation, drops_a_row_that_saves_nothing_any_more) {
  const Confirmed confirmed = confirm(table(8, 8), {size(8, 0.99, 0.99)});
  EXPECT_THAT(ranges(confirmed), IsEmpty());
  EXPECT_THAT(confirmed.dropped[0], HasSubstr("saved nothing"));
}

TEST(Confirmation, asks_for_more_than_processes_differ_by) {
  Confirmation one = size(8, 0.95, 0.95);
  EXPECT_THAT(ranges(confirm(table(8, 8), {one})), ElementsAre("8-8"));
  for (double& seconds : one.standard[1]) seconds *= 1.06;  // the default itself differs by 6 % from process to process
  for (double& seconds : one.tuned[1]) seconds *= 1.06;
  const Confirmed confirmed = confirm(table(8, 8), {one});
  EXPECT_THAT(ranges(confirmed), IsEmpty());
  EXPECT_THAT(confirmed.dropped[0], HasSubstr("among themselves"));
}

// Times of a size in each of several processes of the default and with the files.
Confirmation in_processes(const std::vector<double>& standard, const std::vector<double>& tuned) {
  Confirmation all = size(8, 1, 1);
  all.standard.clear(), all.tuned.clear();
  for (const double each : standard) all.standard.push_back(size(8, each, 1).tuned[0]);
  for (const double each : tuned) all.tuned.push_back(size(8, each, 1).tuned[0]);
  return all;
}

TEST(Confirmation, says_whether_more_processes_would_tell) {
  const Confirmed loud = confirm(table(8, 8), {in_processes({1, 1.06}, {0.92, 0.97})});
  EXPECT_THAT(ranges(loud), IsEmpty());
  EXPECT_TRUE(loud.undecided);
  const std::vector<double> standard{1, 1.06, 1, 1.06, 1, 1.06, 1, 1.06, 1, 1.06};
  const std::vector<double> tuned{0.85, 0.9, 0.85, 0.9, 0.85, 0.9, 0.85, 0.9, 0.85, 0.9};
  const Confirmed settled = confirm(table(8, 8), {in_processes(standard, tuned)});
  EXPECT_THAT(ranges(settled), ElementsAre("8-8"));
  EXPECT_FALSE(settled.undecided);
  EXPECT_FALSE(confirm(table(8, 8), {in_processes({1, 1}, {1.05, 1.05})}).undecided) << "it loses";
  EXPECT_FALSE(confirm(table(8, 8), {in_processes({1, 1}, {1, 1})}).undecided) << "nothing to gain";
}

TEST(Confirmation, excuses_one_unlucky_process_by_what_those_of_the_default_differ) {
  std::vector<double> tuned(12, 0.8), still(12, 1), restless(12, 1);
  for (std::size_t i = 0; i < restless.size(); i += 2) restless[i] = 1.05;
  tuned[3] = 1.06;  // against 1
  const Confirmed unlucky = confirm(table(8, 8), {in_processes(still, tuned)});
  EXPECT_THAT(ranges(unlucky), IsEmpty());
  EXPECT_THAT(unlucky.dropped[0], HasSubstr("lost 6.0 % at 8 B in one process, though 19.9 % faster in all"));
  EXPECT_FALSE(unlucky.undecided) << "no further process makes up for it";
  EXPECT_THAT(ranges(confirm(table(8, 8), {in_processes(restless, tuned)})), ElementsAre("8-8"));
  tuned[3] = 1.12;
  EXPECT_THAT(ranges(confirm(table(8, 8), {in_processes(restless, tuned)})), IsEmpty()) << "a tenth";
}

TEST(Confirmation, wants_four_of_five_repetitions_faster) {
  std::vector<double> standard(12, 1), tuned(12, 0.8);
  for (std::size_t i = 0; i < standard.size(); i += 2) standard[i] = 1.02;
  for (const std::size_t i : {1, 3}) tuned[i] = 1.01;
  EXPECT_THAT(ranges(confirm(table(8, 8), {in_processes(standard, tuned)})), ElementsAre("8-8"));
  tuned[5] = 1.01;
  EXPECT_THAT(ranges(confirm(table(8, 8), {in_processes(standard, tuned)})), IsEmpty());
  EXPECT_THAT(ranges(confirm(table(8, 8), {in_processes({1, 1, 1, 1}, {0.8, 0.8, 0.8, 1.005})})), IsEmpty());
}

TEST(Confirmation, needs_two_processes_of_the_default) {
  Confirmation one = size(8, 0.8, 0.8);
  one.standard.resize(1);
  one.tuned.resize(1);
  EXPECT_THAT(ranges(confirm(table(8, 8), {one})), IsEmpty());
}

TEST(Confirmation, drops_what_failed_or_was_not_measured) {
  Confirmation failed = size(16, 0.9, 0.9);
  failed.failure = "hung";
  const Confirmed confirmed =
      confirm(table(8, 32), {size(8, 0.9, 0.9), failed, {Function::all_reduce, 32, {}, {}, {}}});
  EXPECT_THAT(ranges(confirmed), ElementsAre("8-8"));
  EXPECT_THAT(confirmed.dropped[0], HasSubstr("hung"));
  EXPECT_THAT(ranges(confirm(table(8, 32), {})), IsEmpty());
}

TEST(Confirmation, refuses_files_that_harm_what_they_do_not_name) {
  EXPECT_THAT(ranges(confirm(table(8, 8), {size(8, 0.9, 0.9), size(64, 1.01, 1.01)})), ElementsAre("8-8"));
  const Confirmed harmed = confirm(table(8, 8), {size(8, 0.9, 0.9), size(64, 1.1, 1.1)});
  EXPECT_THAT(ranges(harmed), IsEmpty());
  EXPECT_THAT(harmed.dropped[0], HasSubstr("leave alone"));
  Confirmation failed = size(64, 1, 1);
  failed.failure = "hung";
  EXPECT_THAT(ranges(confirm(table(8, 8), {size(8, 0.9, 0.9), failed})), IsEmpty());
}

TEST(Confirmation, shares_its_time) {
  const auto shared = [](double seconds) {
    std::vector<Measuring> sizes{{Function::all_reduce, 8, true, 0.001, 0},
                                 {Function::all_reduce, 16, false, 0.01, 0},
                                 {Function::all_reduce, 32, false, 1, 0},
                                 {Function::all_reduce, 64, true, 0.5, 0}};
    share_time(sizes, seconds, 12);
    std::vector<int> samples;
    for (const Measuring& size : sizes) samples.push_back(size.samples);
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
  std::vector<Measuring> sizes{{Function::all_reduce, 8, true, 0.001, 0, 0.004},
                               {Function::all_reduce, 16, true, 0.5, 0, 0.9},
                               {Function::all_reduce, 32, false, 0.1, 0, 0.2}};
  share_time(sizes, 3.2, 12);
  EXPECT_EQ(sizes[1].samples, 4) << "with its preparation it fits";
  EXPECT_EQ(sizes[2].samples, 0);
  share_time(sizes, 1, 12);
  EXPECT_EQ(sizes[1].samples, 4) << "there are 3 seconds in any case";
  sizes[1].preparation = 1.9;
  share_time(sizes, 1, 12);
  EXPECT_EQ(sizes[1].samples, 0);
  EXPECT_EQ(sizes[0].samples, 4);
}

// What launches take in each of two processes of the default and two with the files, at all sizes outside of the row.
Confirmed confirm_launches(double first, double second, double first_with_files, double second_with_files) {
  std::vector<Confirmation> all{size(8, 0.9, 0.9)};
  for (std::uint64_t bytes = 64; bytes < 1 << 20; bytes *= 2) {
    Confirmation& one = all.emplace_back(size(bytes, 1, 1));
    one.launched_standard = {size(8, first, 1).tuned[0], size(8, second, 1).tuned[0]};
    one.launched_tuned = {size(8, first_with_files, 1).tuned[0], size(8, second_with_files, 1).tuned[0]};
  }
  return confirm(table(8, 8), all);
}

TEST(Confirmation, does_not_take_an_unlucky_process_for_a_cost_of_the_files) {
  EXPECT_THAT(ranges(confirm_launches(1, 1.05, 1.08, 1.08)), ElementsAre("8-8"));
  EXPECT_THAT(ranges(confirm_launches(1, 1, 1.08, 1.08)), IsEmpty()) << "the default's processes agree";
}

TEST(Confirmation, excuses_no_loss_of_a_tenth_by_processes_that_differ) {
  EXPECT_THAT(ranges(confirm_launches(1, 1.1, 1.2, 1.3)), IsEmpty());
  EXPECT_TRUE(confirm_launches(1, 1.1, 1.2, 1.3).undecided) << "more processes could put it down to chance";
  EXPECT_FALSE(confirm_launches(1, 1, 1.08, 1.08).undecided);
  EXPECT_THAT(ranges(confirm_launches(1, 1.3, 1.4, 1.2)), IsEmpty());
}

TEST(Confirmation, judges_what_a_launch_costs_apart) {
  const auto launched = [](Confirmation one, double with_files) {
    one.launched_standard = size(8, 1, 1).standard;
    one.launched_tuned = size(8, with_files, with_files).tuned;
    return one;
  };
  const auto kept = [&](double inside, double outside) {
    return ranges(confirm(table(8, 8), {launched(size(8, 0.9, 0.9), inside), launched(size(64, 1, 1), outside)}));
  };
  EXPECT_THAT(kept(1, 1), ElementsAre("8-8"));
  EXPECT_THAT(kept(1.1, 1), IsEmpty());
  EXPECT_THAT(kept(1, 1.1), IsEmpty());
}

TEST(Confirmation, drops_what_only_the_device_gains_when_the_sizes_beside_it_launch_faster) {
  // Processes differ by a twentieth, so that nothing can be told from them alone.
  const auto launched = [](Confirmation one, double with_files) {
    one.launched_standard = {size(8, 0.975, 1).tuned[0], size(8, 1.025, 1).tuned[0]};
    one.launched_tuned = {size(8, 0.975 * with_files, 1).tuned[0], size(8, 1.025 * with_files, 1).tuned[0]};
    return one;
  };
  const auto confirmed = [&](double inside, double outside) {
    return confirm(table(8, 8), {launched(size(8, 0.9, 0.9), inside), launched(size(64, 1, 1), outside),
                                 launched(size(128, 1, 1), outside)});
  };
  EXPECT_THAT(ranges(confirmed(1.03, 1)), IsEmpty());
  EXPECT_TRUE(confirmed(1.03, 1).undecided) << "more processes would tell";
  EXPECT_THAT(ranges(confirmed(1.03, 1.03)), ElementsAre("8-8")) << "it is the processes";
  EXPECT_THAT(ranges(confirmed(1.01, 1)), ElementsAre("8-8")) << "tolerated";
  EXPECT_THAT(ranges(confirmed(0.97, 0.9)), ElementsAre("8-8")) << "it gains with its launch as well";
}

TEST(Confirmation, reaches_with_its_interval_over_all_repetitions) {
  const Gain gain = *confirm(table(8, 8), {size(8, 0.8, 0.9)}).cells[0].gain;
  EXPECT_LE(gain.interval->low, 0.1 + 1e-9);
  EXPECT_GE(gain.interval->high, 0.2 - 1e-9);
}

}  // namespace
}  // namespace p5::tuner
