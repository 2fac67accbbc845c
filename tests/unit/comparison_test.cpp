// Answers of comparisons: slower, not slower, or inconclusive with the launches needed; and refusals.
#include "reports/compare/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "comparison_sides.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/writer.hpp"

namespace p5::reports {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// One size, for tests that do not depend on figures.
SideRecipe small() {
  SideRecipe recipe;
  recipe.collectives = {&all_reduce};
  recipe.from = MiB(64);
  recipe.to = MiB(64);
  return recipe;
}

TEST(Compare, names_the_band_that_got_slower_and_no_other) {
  const Comparison c = compare(make_up_side("BASE", {}, 1), make_up_side("NEW", slower_from(MiB(64), 1.1), 2));
  EXPECT_EQ(c.answer, Answer::regression);
  EXPECT_EQ(c.exit_code, ExitCode::slow);
  for (const BandRow& row : c.bands)
    EXPECT_EQ(row.answer, row.threshold.band == "bandwidth" ? Answer::regression : Answer::no_regression)
        << row.because;
  EXPECT_FALSE(c.screening);
  EXPECT_NEAR(row_of(c, "all_reduce", "bandwidth").time.ratio, 1.1, 0.02);
}

TEST(Compare, calls_the_same_twice_no_regression) {
  const Side side = make_up_side("BASE", {}, 1);
  const Comparison c = compare(side, side);
  EXPECT_EQ(c.answer, Answer::no_regression);
  EXPECT_EQ(c.exit_code, ExitCode::ok);
  for (const BandRow& row : c.bands) {
    EXPECT_EQ(row.time.ratio, 1);
    EXPECT_GT(row.time.p, 0.4);
  }
}

TEST(Compare, calls_faster_no_regression) {
  const Comparison c = compare(make_up_side("BASE", {}, 1), make_up_side("NEW", slower_from({1}, 0.8), 2));
  EXPECT_EQ(c.answer, Answer::no_regression);
  EXPECT_THAT(row_of(c, "all_gather", "mid").because, HasSubstr("faster"));
}

TEST(Compare, gives_the_same_twice) {
  const Side base = make_up_side("BASE", {}, 1), fresh = make_up_side("NEW", slower_from(MiB(64), 1.02), 2);
  EXPECT_EQ(render_json(compare(base, fresh)), render_json(compare(base, fresh)));
}

TEST(Compare, says_how_many_launches_would_tell) {
  SideRecipe noisy, noisy_and_slower = slower_from(MiB(64), 1.03);
  noisy.noise.large = noisy_and_slower.noise.large = 0.03;
  const Comparison c = compare(make_up_side("BASE", noisy, 1), make_up_side("NEW", noisy_and_slower, 2));
  const BandRow& row = row_of(c, "all_reduce", "bandwidth");
  EXPECT_EQ(row.answer, Answer::inconclusive);
  EXPECT_EQ(c.exit_code, ExitCode::inconclusive);
  ASSERT_TRUE(row.launches_needed);
  EXPECT_GT(*row.launches_needed, 7);
}

// Five nights and one, each of seven launches, with levels that differ by 1 to 3 %.
Side nights(const std::string& name, const std::vector<double>& levels, int launches, std::uint64_t seed) {
  SideRecipe recipe = small();
  recipe.runs = static_cast<int>(levels.size());
  recipe.launches = launches * recipe.runs;
  recipe.slowdown = [=](const Case&, int launch) { return levels[static_cast<std::size_t>(launch / launches)]; };
  return make_up_side(name, recipe, seed);
}

TEST(Compare, says_how_many_runs_would_tell_where_no_number_of_launches_does) {
  for (const int launches : {7, 100}) {
    const Comparison c =
        compare(nights("BASE", {1, 1.012, 0.99, 1.005, 0.985}, launches, 1), nights("NEW", {1.022}, launches, 2));
    const BandRow& row = c.bands.front();
    EXPECT_EQ(row.answer, Answer::inconclusive) << row.because;
    EXPECT_FALSE(row.launches_needed);
    ASSERT_TRUE(row.runs_needed) << row.because;
    EXPECT_THAT(*row.runs_needed, testing::AllOf(testing::Ge(3), testing::Le(20)));
    const std::string runs = std::to_string(*row.runs_needed);
    EXPECT_THAT(c.headline, HasSubstr("about " + runs + " runs per side would settle it"));
    EXPECT_THAT(row.because, HasSubstr("about " + runs + " runs per side would decide, and no number of launches"));
    EXPECT_THAT(render_console(c), HasSubstr("inconclusive (" + runs + " runs)"));
    EXPECT_THAT(render_json(c), HasSubstr("\"runs_needed\":"));
  }
}

TEST(Compare, names_no_number_of_launches_where_times_are_rounded_by_more_than_matters) {
  Side base = make_up_side("BASE", small(), 1), fresh = make_up_side("NEW", small(), 2);
  for (Launch& launch : fresh.observations[0].throughput) launch.rounding_s = 0.05 * launch.median_s;
  const Comparison c = compare(base, fresh);
  const BandRow& row = c.bands.front();
  EXPECT_EQ(row.answer, Answer::inconclusive);
  EXPECT_FALSE(row.launches_needed || row.runs_needed);
  EXPECT_THAT(row.because, HasSubstr("times rounded by up to 5 % do not decide"));
  EXPECT_THAT(c.headline, HasSubstr("more launches alone would not settle all of them"));
}

TEST(Compare, screens_single_launches_and_says_so) {
  SideRecipe once, slower = slower_from(MiB(64), 1.3);
  once.launches = slower.launches = 1;
  const Comparison c = compare(make_up_side("BASE", once, 1), make_up_side("NEW", slower, 2));
  EXPECT_TRUE(c.screening);
  EXPECT_THAT(c.headline, HasSubstr("screening"));
  EXPECT_EQ(row_of(c, "all_reduce", "bandwidth").answer, Answer::regression);
  EXPECT_FALSE(row_of(c, "all_reduce", "bandwidth").spread);
}

TEST(Compare, does_not_prove_three_percent_with_single_launches) {
  SideRecipe once, slower = slower_from(MiB(64), 1.03);
  once.launches = slower.launches = 1;
  const Comparison c = compare(make_up_side("BASE", once, 1), make_up_side("NEW", slower, 2));
  EXPECT_NE(row_of(c, "all_reduce", "bandwidth").answer, Answer::no_regression);
}

TEST(Compare, learns_of_one_new_launch_from_many_of_base) {
  SideRecipe many, once = slower_from(MiB(64), 1.1);
  many.launches = 10;
  once.launches = 1;
  const Comparison c = compare(make_up_side("BASE", many, 1), make_up_side("NEW", once, 2));
  EXPECT_TRUE(row_of(c, "all_reduce", "bandwidth").screening);
  EXPECT_EQ(row_of(c, "all_reduce", "bandwidth").answer, Answer::regression);
  EXPECT_EQ(row_of(c, "all_reduce", "mid").answer, Answer::no_regression);
}

TEST(Compare, counts_a_rise_in_spread_although_the_medians_stand) {
  SideRecipe wide;
  wide.wider = 4;
  const Comparison c = compare(make_up_side("BASE", {}, 1), make_up_side("NEW", wide, 2));
  EXPECT_EQ(c.exit_code, ExitCode::slow);
  for (const BandRow& row : c.bands) {
    EXPECT_TRUE(row.spread_rose) << row.because;
    EXPECT_NEAR(row.spread->ratio, 4, 0.6);
  }
}

TEST(Compare, counts_it_although_the_medians_stand_where_more_samples_are_slow) {
  for (const int launches : {1, 7}) {
    SideRecipe before, after;
    before.launches = after.launches = launches;
    after.noise.outliers = 0.15;
    const Comparison c = compare(make_up_side("BASE", before, 1), make_up_side("NEW", after, 2));
    EXPECT_EQ(c.exit_code, ExitCode::slow) << launches;
    const BandRow& row = row_of(c, "all_reduce", "bandwidth");
    EXPECT_TRUE(row.mean_rose) << launches << row.because;
    EXPECT_FALSE(row.time_rose) << launches << row.because;
    EXPECT_NEAR(row.mean->ratio, 1.05, 0.03);
    EXPECT_THAT(c.headline, HasSubstr(" slow samples +"));
  }
}

// Runs of seven launches of equal medians, whose samples spread by these shares of the median.
Side of_spreads(const std::string& name, const std::vector<double>& of_runs) {
  Side side = make_up_side(name, small(), 1);
  std::vector<Launch>& launches = side.observations[0].throughput;
  launches.clear();
  for (std::size_t run = 0; run < of_runs.size(); ++run)
    for (int i = 0; i < 7; ++i) {
      Launch& launch = launches.emplace_back();
      launch.number = static_cast<int>(launches.size()) - 1;
      launch.run = static_cast<int>(run);
      launch.median_s = 1e-3;
      const double distance = of_runs[run] * (1 + 0.01 * (i - 3)) / standard_deviation_per_mad;
      for (int sample = 0; sample < 24; ++sample)
        launch.samples_s.push_back(1e-3 * (1 + (sample % 2 == 0 ? distance : -distance)));
    }
  return side;
}

// 28 of the 35 launches of BASE are below all of NEW, which is like one of five earlier runs.
TEST(Compare, allows_for_runs_that_differ_in_their_spread) {
  const Comparison unlike =
      compare(of_spreads("BASE", {0.004, 0.005, 0.006, 0.007, 0.015}), of_spreads("NEW", {0.015}));
  ASSERT_EQ(unlike.bands.size(), 1u);
  EXPECT_NEAR(unlike.bands[0].spread->ratio, 2.5, 0.1);
  EXPECT_FALSE(unlike.bands[0].spread_rose) << unlike.bands[0].because;
  EXPECT_NE(unlike.answer, Answer::regression);
  const Comparison alike = compare(of_spreads("BASE", std::vector<double>(5, 0.006)), of_spreads("NEW", {0.015}));
  EXPECT_TRUE(alike.bands.at(0).spread_rose) << alike.bands[0].because;
  EXPECT_EQ(alike.exit_code, ExitCode::slow);
}

TEST(Compare, does_not_mind_a_spread_that_nobody_notices) {
  SideRecipe quiet, less_quiet;
  quiet.noise.samples = less_quiet.noise.samples = 0.001;
  less_quiet.wider = 4;
  for (const BandRow& row : compare(make_up_side("BASE", quiet, 1), make_up_side("NEW", less_quiet, 2)).bands)
    EXPECT_FALSE(row.spread_rose) << row.because;
}

TEST(Compare, decides_small_messages_by_latency_and_allows_them_half_a_microsecond) {
  const Comparison c = compare(make_up_side("BASE", {}, 1), make_up_side("NEW", {}, 2));
  // At 12 us the threshold is 5 %. Throughput has no row.
  const BandRow& row = row_of(c, "all_reduce", "latency", Quantity::latency);
  EXPECT_EQ(row.quantity, Quantity::latency);
  EXPECT_NEAR(row.threshold.matters, 0.05, 0.001);
  EXPECT_EQ(std::ranges::count_if(c.bands, [](const BandRow& each) { return each.threshold.band == "latency"; }), 2);
  SideRecipe tiny;
  tiny.to = KiB(1);
  const Comparison seen = compare(make_up_side("BASE", tiny, 1), make_up_side("NEW", tiny, 2));
  EXPECT_TRUE(
      std::ranges::any_of(seen.sizes, [](const SizeRow& each) { return each.quantity == Quantity::throughput; }));
  EXPECT_DOUBLE_EQ(row_of(c, "all_reduce", "mid").threshold.matters, 0.05);
}

TEST(Compare, marks_where_a_single_size_got_slower) {
  SideRecipe recipe;
  recipe.launches = 10;
  SideRecipe slower = recipe;
  slower.slowdown = [](const Case& c, int) { return c.bytes == MiB(32) && c.collective == &all_reduce ? 1.2 : 1; };
  const Comparison c = compare(make_up_side("BASE", recipe, 1), make_up_side("NEW", slower, 2));
  for (const SizeRow& row : c.sizes)
    EXPECT_EQ(row.marked, row.measured_case.bytes == MiB(32) && row.measured_case.collective == &all_reduce);
  EXPECT_THAT(c.headline, HasSubstr("1 single size is slower"));
}

// Samples that wander, as beside another tenant's traffic, tell less than as many that do not.
TEST(Compare, widens_intervals_where_neighbouring_samples_are_alike) {
  const auto missed = [](double likeness) {
    SideRecipe recipe;
    recipe.noise.likeness = likeness;
    recipe.noise.outliers = 0;
    recipe.samples = 60;
    std::mt19937_64 random(1);
    int count = 0;
    for (int i = 0; i < 200; ++i) {
      const std::vector<Launch> base{launch_of(0, 1e-3, recipe, random)}, fresh{launch_of(0, 1e-3, recipe, random)};
      const std::vector<Sides> cells{{base, fresh}};
      const Interval interval = resample(cells, {.draws_launches = false}).overall;
      count += interval.low > 0 || interval.high < 0;
    }
    return count;
  };
  EXPECT_LE(missed(0), 20);
  EXPECT_LE(missed(0.8), 40) << "of 200; the true ratio is 1";
}

// As where time was over before the largest sizes of the last launches.
Side without_last_launches(Side side, Bytes from, std::size_t kept) {
  for (Observation& each : side.observations)
    if (each.measured_case.bytes >= from) each.throughput.resize(kept);
  return side;
}

TEST(Compare, judges_sizes_apart_that_other_launches_measured) {
  const auto compared = [](std::size_t base, std::size_t fresh) {
    return compare(without_last_launches(make_up_side("BASE", {}, 1), GiB(2), base),
                   without_last_launches(make_up_side("NEW", slower_from(GiB(2), 1.3), 2), GiB(2), fresh));
  };
  for (const auto& [base, fresh] : {std::pair(6, 6), std::pair(4, 3), std::pair(7, 1)}) {
    const Comparison c = compared(static_cast<std::size_t>(base), static_cast<std::size_t>(fresh));
    EXPECT_EQ(c.exit_code, ExitCode::slow) << c.headline;
    EXPECT_THAT(c.headline, HasSubstr("all_reduce (2 GiB, 4 GiB) >= 64 MiB +")) << "as in all formats";
    EXPECT_THAT(render_console(c), HasSubstr("all_reduce (2 GiB, 4 GiB) "));
    EXPECT_THAT(render_markdown(c), HasSubstr("all\\_reduce (2 GiB, 4 GiB)"));
    EXPECT_THAT(render_junit(c), HasSubstr("classname=\"all_reduce (2 GiB, 4 GiB)\""));
    EXPECT_THAT(c.remarks,
                Contains("4 sizes were measured in other launches than most of their band: they are judged apart"));
    EXPECT_EQ(row_of(c, "all_reduce", "bandwidth").answer, Answer::regression) << "the row of two sizes comes first";
    const auto rest = std::ranges::find_if(c.bands, [](const BandRow& row) {
      return row.collective == "all_reduce" && row.threshold.band == "bandwidth" && row.only.empty();
    });
    EXPECT_EQ(rest->answer, Answer::no_regression);
    EXPECT_EQ(rest->sizes, 5);
    EXPECT_EQ(rest->base_launches, 7);
  }
  EXPECT_THAT(compare(make_up_side("BASE", {}, 1), make_up_side("NEW", {}, 2)).bands,
              testing::Each(Field(&BandRow::only, IsEmpty())));
}

TEST(Compare, names_in_the_headline_what_got_slower_and_puts_it_first) {
  const Comparison c = compare(make_up_side("BASE", {}, 1), make_up_side("NEW", slower_from(MiB(64), 1.1), 2));
  const std::string row = "all_(reduce|gather) >= 64 MiB \\+(9\\.[0-9]|1[01]) %";
  EXPECT_THAT(c.headline, testing::MatchesRegex("REGRESSION: " + row + ", " + row));
  for (std::size_t i = 0; i < c.bands.size(); ++i) EXPECT_EQ(c.bands[i].answer == Answer::regression, i < 2);
  EXPECT_GE(c.bands[0].time.ratio, c.bands[1].time.ratio);
  const Comparison all = compare(make_up_side("BASE", {}, 1), make_up_side("NEW", slower_from({1}, 1.3), 2));
  EXPECT_THAT(all.headline, HasSubstr(" more bands"));
  EXPECT_LE(all.headline.size(), 120u);
}

Suspect nic(const std::string& name, const std::string& host) {
  return {
      .kind = "nic", .name = name, .host = host, .instance = "", .confidence = 0.9, .evidence = "slow", .action = ""};
}

TEST(Compare, says_what_only_new_accuses_although_no_figure_is_worse) {
  const Side base = make_up_side("BASE", small(), 1);
  Side fresh = make_up_side("NEW", small(), 2);
  EXPECT_EQ(compare(base, fresh).exit_code, ExitCode::ok);
  fresh.reports[0].suspects = {nic("n1r5", "b")};
  const Comparison c = compare(base, fresh);
  EXPECT_EQ(c.answer, Answer::regression);
  EXPECT_EQ(c.exit_code, ExitCode::slow);
  EXPECT_EQ(c.headline, "REGRESSION: NEW suspects NIC n1r5; no slower in 1 band");
  EXPECT_EQ(c.bands[0].answer, Answer::no_regression);
  for (const std::string& text : {render_console(c), render_markdown(c), render_junit(c)})
    EXPECT_THAT(text, HasSubstr("NEW suspects NIC n1r5"));
  EXPECT_THAT(render_junit(c), HasSubstr("failures=\"2\" errors=\"0\""));
}

TEST(Compare, does_not_repeat_what_base_accused_also_where_hosts_are_in_another_order) {
  Side base = make_up_side("BASE", small(), 1), fresh = make_up_side("NEW", small(), 2);
  base.reports[0].suspects = {nic("n1r5", "b")};
  fresh.reports[0].suspects = {nic("n0r5", "b")};
  EXPECT_THAT(compare(base, fresh).new_suspects, IsEmpty());
  fresh.reports[0].suspects = {nic("n1r5", "c")};
  EXPECT_THAT(compare(base, fresh).new_suspects, testing::SizeIs(1)) << "another host";
  fresh.reports[0].suspects = {nic("n1r6", "b")};
  EXPECT_THAT(compare(base, fresh).new_suspects, testing::SizeIs(1)) << "another NIC";
}

TEST(Compare, takes_what_most_runs_of_base_told_for_what_base_is_like) {
  Side base = make_up_side("BASE", small(), 1), fresh = make_up_side("NEW", small(), 2);
  const topo::Finding lost{"gpu.lost", topo::Severity::error, {"h", "", {}, {}}, "it is gone",
                           "",         topo::About::hardware};
  base.reports.resize(9, base.reports[0]);
  fresh.reports[0].suspects = {nic("n1r5", "b")};
  fresh.reports[0].findings = {lost};
  for (const std::size_t telling : {0, 2, 4, 5, 9}) {
    SCOPED_TRACE(telling);
    const bool news = telling < 5;
    for (std::size_t i = 0; i < telling; ++i) {
      base.reports[i].suspects = {nic("n1r5", "b")};
      base.reports[i].findings = {lost};
    }
    const Comparison c = compare(base, fresh), in_history = compare(base, fresh, {.history = true});
    EXPECT_EQ(c.new_suspects.size(), news ? 1u : 0u);
    EXPECT_EQ(c.bad_ends.size(), news ? 1u : 0u);
    EXPECT_EQ(c.exit_code == ExitCode::slow, news) << c.headline;
    EXPECT_EQ(in_history.exit_code, ExitCode::slow);
    EXPECT_THAT(in_history.headline,
                testing::StartsWith(news ? "REGRESSION: NEW found gpu.lost on h; NEW suspects NIC n1r5"
                                         : "AS BAD AS BEFORE: NEW found gpu.lost on h; NEW suspects"));
  }
}

TEST(Compare, names_faults_of_both_sides_and_takes_those_of_other_machines_for_news) {
  Side base = make_up_side("BASE", small(), 1), fresh = make_up_side("NEW", small(), 2);
  const auto lost = [](const std::string& host, const std::string& instance, const std::vector<std::string>& hosts) {
    topo::Finding finding;
    finding.id = "gpu.lost";
    finding.severity = topo::Severity::error;
    finding.subject.host = host;
    finding.subject.instance = instance;
    finding.evidence = "it is gone";
    finding.about = topo::About::hardware;
    finding.hosts = hosts;
    return finding;
  };
  const auto code_of = [&](const topo::Finding& before, const topo::Finding& now) {
    base.reports[0].findings = {before};
    fresh.reports[0].findings = {now};
    return compare(base, fresh).exit_code;
  };
  EXPECT_EQ(code_of(lost("w", "i-a", {}), lost("w", "i-a", {})), ExitCode::ok);
  EXPECT_THAT(compare(base, fresh).remarks,
              Contains("BASE and NEW both found gpu.lost on w: a fault that both have is no regression"));
  EXPECT_EQ(code_of(lost("w", "i-a", {}), lost("w", "", {})), ExitCode::ok);
  EXPECT_EQ(code_of(lost("w", "i-a", {}), lost("w", "i-b", {})), ExitCode::slow);
  EXPECT_EQ(code_of(lost("", "", {"n0", "n1"}), lost("", "", {"n1", "n0"})), ExitCode::ok);
  EXPECT_EQ(code_of(lost("", "", {"n0", "n1"}), lost("", "", {"n2", "n3"})), ExitCode::slow);
}

topo::Topology hosts_with(const std::vector<std::pair<std::string, std::string>>& names_and_instances) {
  topo::Topology topology;
  for (const auto& [name, instance] : names_and_instances) {
    topo::Host& host = topology.hosts.emplace_back();
    host.name = name;
    host.instance = instance;
  }
  return topology;
}

// Pods get other names each night, and a container may hide the instance.
TEST(Compare, knows_a_part_by_its_instance_where_both_sides_know_it_and_else_by_its_host) {
  using Hosts = std::vector<std::pair<std::string, std::string>>;
  Side base = make_up_side("BASE", small(), 1), fresh = make_up_side("NEW", small(), 2);
  const auto set = [](Report& report, const Hosts& hosts, const std::string& kind, const std::string& name) {
    report.topology = hosts_with(hosts);
    Suspect suspect = nic(name, hosts[1].first);
    suspect.kind = kind;
    suspect.instance = hosts[1].second;
    report.suspects = {suspect};
    OpenQuestion question;
    question.candidates = {kind + " " + name, "node n0"};
    report.open_questions = {question};
    topo::Finding finding{"nic.down", topo::Severity::error, {"", "", {}, {}}, "it is down", "", topo::About::fabric};
    finding.hosts = {hosts[0].first, hosts[1].first};
    topo::Finding lost = finding;
    lost.hosts.clear();
    lost.subject = {hosts[1].first, hosts[1].second, {}, {}};
    report.findings = {finding, lost};
  };
  for (const auto& [kind, name] : {std::pair("nic", "n1r5"), std::pair("link", "n1-n0"), std::pair("node", "n1")})
    for (const auto& [before, now, same] :
         {std::tuple(Hosts{{"a", ""}, {"b", ""}}, Hosts{{"a", "i-a"}, {"b", "i-b"}}, true),
          std::tuple(Hosts{{"a", "i-a"}, {"b", "i-b"}}, Hosts{{"a", ""}, {"b", ""}}, true),
          std::tuple(Hosts{{"a", "i-a"}, {"b", "i-b"}}, Hosts{{"c", "i-a"}, {"d", "i-b"}}, true),
          std::tuple(Hosts{{"a", "i-a"}, {"b", "i-b"}}, Hosts{{"a", "i-a"}, {"b", "i-c"}}, false),
          std::tuple(Hosts{{"a", ""}, {"b", ""}}, Hosts{{"a", ""}, {"c", ""}}, false)}) {
      SCOPED_TRACE(std::string(kind) + " on " + now[1].first + " " + now[1].second);
      set(base.reports[0], before, kind, name);
      set(fresh.reports[0], now, kind, name);
      const Comparison c = compare(base, fresh);
      EXPECT_EQ(c.exit_code == ExitCode::ok, same) << c.headline;
      EXPECT_EQ(c.new_suspects.empty(), same);
      EXPECT_EQ(c.bad_ends.size(), same ? 0u : 3u) << "two findings and a question";
    }
  set(base.reports[0], {{"a", "i-a"}, {"b", "i-b"}}, "link", "n0-n1");
  set(fresh.reports[0], {{"d", "i-b"}, {"c", "i-a"}}, "link", "n0-n1");
  EXPECT_THAT(compare(base, fresh).new_suspects, IsEmpty()) << "in another order";
  const Hosts four{{"a", ""}, {"b", ""}, {"c", ""}, {"d", ""}}, reordered{{"c", ""}, {"d", ""}, {"a", ""}, {"b", ""}};
  set(base.reports[0], four, "link", "n0,n1-n2,n3");
  set(fresh.reports[0], reordered, "link", "n0,n1-n2,n3");
  EXPECT_THAT(compare(base, fresh).new_suspects, IsEmpty()) << "the same sets";
  set(fresh.reports[0], four, "link", "n0,n2-n1,n3");
  EXPECT_THAT(compare(base, fresh).new_suspects, testing::SizeIs(1)) << "other sets of the same hosts";
  set(fresh.reports[0], four, "link", "n0,n1-n2,n9");
  EXPECT_THAT(compare(base, fresh).new_suspects, testing::SizeIs(1)) << "a node that the run does not have";
  set(base.reports[0], {{"a", "i-a"}, {"b", "i-a"}}, "nic", "n1r5");
  set(fresh.reports[0], {{"b", "i-a"}, {"a", "i-a"}}, "nic", "n1r5");
  EXPECT_THAT(compare(base, fresh).new_suspects, testing::SizeIs(1)) << "of another pod on the instance";
}

TEST(Compare, takes_a_warning_of_base_for_less_than_an_error_of_new) {
  Side base = make_up_side("BASE", small(), 1), fresh = make_up_side("NEW", small(), 2);
  const topo::Finding broken{"gpu.slow_alone",     topo::Severity::error, {"h", "", {}, {}}, "90 % less", "",
                             topo::About::hardware};
  fresh.reports[0].findings = {broken};
  for (const topo::Severity severity : {topo::Severity::error, topo::Severity::warning, topo::Severity::info}) {
    base.reports[0].findings = {broken};
    base.reports[0].findings[0].severity = severity;
    const bool as_before = severity == topo::Severity::error;
    const Comparison c = compare(base, fresh), in_history = compare(base, fresh, {.history = true});
    EXPECT_EQ(c.exit_code, as_before ? ExitCode::ok : ExitCode::slow) << c.headline;
    EXPECT_THAT(in_history.headline, testing::StartsWith(as_before ? "AS BAD AS BEFORE: NEW found gpu.slow_alone on h"
                                                                   : "REGRESSION: NEW found gpu.slow_alone on h"));
  }
  base.reports[0].findings[0].severity = topo::Severity::error;
  base.reports[0].findings[0].about.reset();
  EXPECT_EQ(compare(base, fresh).exit_code, ExitCode::ok) << "an older version does not say what it is about";
  fresh.reports[0].findings[0].subject.xid = 79;
  EXPECT_EQ(compare(base, fresh).exit_code, ExitCode::ok) << "nor which Xid it was";
  base.reports[0].findings[0].subject.xid = 48;
  EXPECT_EQ(compare(base, fresh).exit_code, ExitCode::slow) << "another Xid";
}

Suspect of_fault(Suspect suspect, const std::string& fault) {
  suspect.fault = fault;
  return suspect;
}

TEST(Compare, takes_a_slow_part_of_base_for_less_than_one_that_is_silent_or_corrupts_data) {
  Side base = make_up_side("BASE", small(), 1), fresh = make_up_side("NEW", small(), 2);
  const auto news = [&](const std::string& before, const std::string& now) {
    base.reports[0].suspects = {of_fault(nic("n1r5", "b"), before)};
    fresh.reports[0].suspects = {of_fault(nic("n1r5", "b"), now)};
    return !compare(base, fresh).new_suspects.empty();
  };
  EXPECT_FALSE(news("slow", "slow"));
  EXPECT_FALSE(news("silent", "silent"));
  EXPECT_FALSE(news("silent", "slow"));
  EXPECT_TRUE(news("slow", "silent"));
  EXPECT_TRUE(news("slow", "wrong"));
  EXPECT_TRUE(news("silent", "wrong"));
}

TEST(Compare, takes_slow_samples_in_most_runs_of_base_for_what_base_is_like) {
  Side base = make_up_side("BASE", small(), 1), fresh = make_up_side("NEW", small(), 2);
  fresh.sources = {"first", "second"};
  fresh.observations[0].mean_fractions = {{0, std::nullopt}, {1, 0.6}};
  for (const std::size_t unsteady : {0, 1, 4, 5, 9}) {
    SCOPED_TRACE(unsteady);
    const bool news = unsteady < 5;
    for (std::size_t i = 0; i < 9; ++i)
      base.observations[0].mean_fractions[i] = i < unsteady ? std::optional(0.7) : std::nullopt;
    const Comparison c = compare(base, fresh), in_history = compare(base, fresh, {.history = true});
    EXPECT_EQ(c.exit_code == ExitCode::slow, news) << c.headline;
    EXPECT_EQ(c.bad_ends.size(), news ? 1u : 0u);
    EXPECT_EQ(in_history.exit_code, ExitCode::slow);
    ASSERT_EQ(in_history.bad_ends.size(), 1u);
    EXPECT_EQ(in_history.bad_ends[0].source, "second");
    EXPECT_THAT(in_history.headline, testing::StartsWith(std::string(news ? "REGRESSION" : "AS BAD AS BEFORE") +
                                                         ": NEW found slow samples that a median hides; "));
  }
}

TEST(Compare, takes_slow_samples_for_no_regression_where_the_case_took_as_long_before) {
  Side base = make_up_side("BASE", small(), 1), fresh = make_up_side("NEW", small(), 2);
  const double mean = *summarize(fresh.observations[0].throughput[0].samples_s).trimmed_mean;
  // The mean of NEW is 2 % slower than that of BASE, and below a bar that BASE's is above, or was not held against.
  fresh.observations[0].mean_fractions = {{0, 0.648}};
  fresh.observations[0].mean_times_s = {{0, 1.02 * mean}};
  base.observations[0].mean_fractions = {{0, std::nullopt}};
  const Comparison c = compare(base, fresh), in_history = compare(base, fresh, {.history = true});
  EXPECT_EQ(c.exit_code, ExitCode::ok) << c.headline;
  EXPECT_THAT(c.remarks,
              Contains("NEW found slow samples that a median hides: all_reduce 64 MiB float32 sum reaches 65 "
                       "% of its limit on average, and takes no longer than in BASE, which is no regression"));
  EXPECT_THAT(in_history.headline, testing::StartsWith("AS BAD AS BEFORE: NEW found slow samples"));
  fresh.observations[0].mean_times_s = {{0, 1.2 * mean}};
  EXPECT_EQ(compare(base, fresh).exit_code, ExitCode::slow);
  // Slow in its median, and without samples.
  for (Launch& launch : base.observations[0].throughput) launch.median_s *= 5, launch.samples_s.clear();
  EXPECT_EQ(compare(base, fresh).exit_code, ExitCode::ok);
  base.observations[0].throughput.clear();
  base.observations[0].trouble = "it hung";
  EXPECT_EQ(compare(base, fresh).exit_code, ExitCode::slow);
}

TEST(Compare, of_a_run_that_did_not_finish_never_says_that_all_is_well) {
  const Side base = make_up_side("BASE", small(), 1);
  Side fresh = make_up_side("NEW", small(), 2);
  fresh.reports[0].status = "partial";
  fresh.reports[0].run.ended_by = "ended by SIGTERM while measuring";
  const Comparison c = compare(base, fresh);
  EXPECT_EQ(c.answer, Answer::inconclusive);
  EXPECT_EQ(c.exit_code, ExitCode::unfinished);
  EXPECT_THAT(c.headline, testing::StartsWith("NEW DID NOT FINISH (ended by SIGTERM while measuring); "));
  fresh.reports[0].exit_code = ExitCode::wrong_data;
  EXPECT_EQ(compare(base, fresh).exit_code, ExitCode::wrong_data);
  EXPECT_THAT(compare(base, fresh).headline, testing::StartsWith("WRONG DATA in NEW; NEW DID NOT FINISH"));
  fresh.observations.clear();  // the run was killed before the first case
  EXPECT_EQ(compare(base, fresh).answer, Answer::inconclusive);
  EXPECT_EQ(compare(base, fresh).exit_code, ExitCode::wrong_data);
}

TEST(Compare, stays_within_120_columns) {
  SideRecipe many, slower = slower_from({1}, 1.3);
  many.collectives = slower.collectives = {&all_reduce, &all_gather, &reduce_scatter};
  many.launches = slower.launches = 1;
  Side base = make_up_side("BASE", many, 1), fresh = make_up_side("NEW", slower, 2);
  for (Side* side : {&base, &fresh})
    for (Observation& each : side->observations) {
      each.measured_case.group = "stride:16";
      each.measured_case.calls.registration = "symmetric";
      each.measured_case.in_place = true;
    }
  base.reports[0].context["env.NCCL_TOPO_FILE"] = std::string(100, 'a') + " " + std::string(100, 'b');
  fresh.reports[0].suspects = {nic("n1r5", "b")};
  fresh.reports[0].suspects[0].evidence = std::string(70, 'x') + " " + std::string(70, 'y') + " \u00e4";
  const std::vector<std::string> lines = split(render_console(compare(base, fresh)), '\n');
  EXPECT_GT(lines.size(), 30u);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 120u) << line;
}

TEST(Compare, counts_wrong_data_and_failures_whatever_base_had) {
  const Side base = make_up_side("BASE", small(), 1);
  Side fresh = make_up_side("NEW", small(), 2);
  fresh.observations[0].trouble = "the worker crashed";
  EXPECT_EQ(compare(base, fresh).exit_code, ExitCode::unfinished);
  fresh.observations[0].trouble = "3 wrong elements";
  fresh.observations[0].wrong_data = true;
  const Comparison c = compare(base, fresh);
  EXPECT_EQ(c.exit_code, ExitCode::wrong_data);
  EXPECT_EQ(c.headline, "WRONG DATA in 1 case of NEW; no slower in 1 band");
  const Comparison again = compare(fresh, fresh);
  EXPECT_EQ(again.exit_code, ExitCode::wrong_data);
  EXPECT_THAT(again.headline, testing::StartsWith("WRONG DATA in 1 case of NEW, as of NEW; "));
  EXPECT_EQ(compare(fresh, base).exit_code, ExitCode::ok);  // in a history: mended
}

TEST(Compare, excuses_wrong_data_by_no_failure_of_base_and_no_failure_by_its_wrong_data) {
  const auto side = [](const char* name, bool wrong, bool failed) {
    Side made = make_up_side(name, small(), 1);
    made.observations[0].trouble = wrong ? "3 wrong elements" : failed ? "it hung" : "";
    made.observations[0].wrong_data = wrong;
    made.observations[0].failed = failed;
    return made;
  };
  const auto excused = [&](bool base_wrong, bool base_failed, bool wrong) {
    return compare(side("BASE", base_wrong, base_failed), side("NEW", wrong, !wrong)).troubles.at(0).in_base;
  };
  EXPECT_FALSE(excused(false, true, true)) << "a hang for wrong data";
  EXPECT_FALSE(excused(true, false, false)) << "wrong data for a hang";
  EXPECT_TRUE(excused(true, false, true));
  EXPECT_TRUE(excused(false, true, false));
  EXPECT_TRUE(excused(true, true, false)) << "another launch of BASE hung";
}

TEST(Compare, tells_of_wrong_data_of_base_where_neither_side_was_found_good) {
  const Side good = make_up_side("NEW", small(), 1);
  Side wrong = make_up_side("BASE", small(), 2);
  wrong.observations[0].trouble = "3 wrong elements";
  wrong.observations[0].wrong_data = true;
  const ComparisonOptions two_runs{.base_counts = true};
  EXPECT_EQ(compare(wrong, good, two_runs).exit_code, ExitCode::ok) << "another launch has its times";
  wrong.observations[0].latency.clear();
  wrong.observations[0].throughput.clear();
  const Comparison c = compare(wrong, good, two_runs);
  EXPECT_EQ(c.exit_code, ExitCode::wrong_data);
  EXPECT_EQ(c.answer, Answer::inconclusive);
  EXPECT_THAT(c.headline, testing::StartsWith("WRONG DATA in 1 case of BASE; "));
  EXPECT_EQ(compare(wrong, good).exit_code == ExitCode::wrong_data, false);
}

TEST(Compare, tells_of_cases_that_failed_in_base) {
  const Side fresh = make_up_side("NEW", {}, 1);
  const auto compared = [&](Bytes from, bool two_sides) {
    Side base = make_up_side("BASE", {}, 1);
    for (Observation& each : base.observations)
      if (each.measured_case.collective == &all_reduce && each.measured_case.bytes >= from) {
        each.latency.clear();
        each.throughput.clear();
        each.trouble = "it hung";
      }
    return compare(base, fresh, {.base_counts = two_sides});
  };
  const Comparison one_size = compared(GiB(4), true);
  EXPECT_EQ(one_size.exit_code, ExitCode::ok) << one_size.headline;
  EXPECT_THAT(one_size.only_in_new, testing::ElementsAre("all_reduce 4 GiB float32 sum (BASE failed it: it hung)"));
  EXPECT_THAT(one_size.remarks, Contains("BASE failed 1 case that NEW measured: it is not compared"));
  const Comparison row = compared(MiB(64), true);
  EXPECT_EQ(row.exit_code, ExitCode::inconclusive);
  EXPECT_THAT(row.headline, testing::StartsWith("INCONCLUSIVE: BASE failed all of all_reduce >= 64 MiB"));
  EXPECT_THAT(row.remarks, Contains("BASE failed 7 cases that NEW measured: they are not compared"));
  EXPECT_EQ(compared(MiB(64), false).exit_code, ExitCode::ok) << "in a history: mended";
}

// `mpirun -np 2 -N 1 all_reduce_perf` on hosts of 8 GPUs.
TEST(Compare, imports_of_some_gpus_of_a_host_with_runs_that_see_all_of_them) {
  Side base = make_up_side("BASE", small(), 1), fresh = make_up_side("NEW", small(), 2);
  for (Side* const side : {&base, &fresh})
    for (Report& report : side->reports) {
      report.topology.hosts.assign(2, {});
      for (topo::Host& host : report.topology.hosts) {
        host.gpu_devices.resize(side == &base ? 8 : 1);
        for (topo::Gpu& gpu : host.gpu_devices) gpu.name = "NVIDIA H100";
      }
      report.provenance = side == &base ? "measured" : "imported";
    }
  EXPECT_EQ(other_hardware(base.reports, fresh.reports), "");
  EXPECT_EQ(other_hardware(fresh.reports, base.reports), "");
  for (Report& report : fresh.reports) report.topology.hosts[0].gpu_devices[0].name = "NVIDIA H200";
  EXPECT_EQ(other_hardware(base.reports, fresh.reports), "GPU: NVIDIA H100 and NVIDIA H100 | NVIDIA H200");
  for (Report& report : fresh.reports) report.provenance = "measured";
  EXPECT_THAT(other_hardware(base.reports, fresh.reports), testing::StartsWith("GPUs: "));
}

TEST(Compare, refuses_other_hardware_unless_asked) {
  Side base = make_up_side("BASE", small(), 1), fresh = make_up_side("NEW", small(), 2);
  base.reports[0].topology.platform = "p5.48xlarge";
  fresh.reports[0].topology.platform = "p5en.48xlarge";
  for (Observation& each : fresh.observations) each.measured_case.ranks = 16;
  try {
    compare(base, fresh);
    FAIL() << "compared";
  } catch (const UsageError& problem) {
    EXPECT_THAT(problem.what(), HasSubstr("platform: p5.48xlarge and p5en.48xlarge"));
    EXPECT_THAT(problem.what(), HasSubstr("--across-hardware"));
  }
  EXPECT_THAT(compare(base, fresh, {.across_hardware = true}).differences,
              Contains(Field(&Difference::kind, "hardware")));
}

topo::Host host_of_eight_gpus() {
  topo::Host host;
  host.name = "h";
  host.gpu_devices.resize(8);
  for (topo::Gpu& gpu : host.gpu_devices) {
    gpu.name = "H100";
    gpu.links = gpu.links_possible = 18;
  }
  host.nics.resize(4);
  for (topo::Nic& nic : host.nics) {
    nic.kind = "infiniband";
    nic.state = "up";
    nic.rate = GBps{50};
  }
  return host;
}

TEST(Compare, takes_a_machine_with_parts_down_or_missing_for_no_other_one) {
  Side base = make_up_side("BASE", small(), 1), fresh = make_up_side("NEW", small(), 2);
  const topo::Host whole = host_of_eight_gpus();
  const auto compared = [&](const topo::Host& before, const topo::Host& now) {
    base.reports[0].topology.hosts = {before};
    fresh.reports[0].topology.hosts = {now};
    return compare(base, fresh);
  };
  topo::Host link_down = whole, nic_down = whole, lost = whole;
  link_down.gpu_devices[3].links = 17;
  nic_down.nics[2].state = "down";
  nic_down.nics[2].rate = GBps{1.25};
  lost.gpu_devices.pop_back();
  for (const auto& [now, name] : {std::pair(&link_down, "NVLinks"), std::pair(&nic_down, "NICs")}) {
    const Comparison c = compared(whole, *now);
    EXPECT_EQ(c.exit_code, ExitCode::ok) << c.headline;
    EXPECT_THAT(c.differences,
                Contains(testing::AllOf(Field(&Difference::kind, "hardware"), Field(&Difference::name, name))));
  }
  EXPECT_THROW(compared(whole, lost), UsageError) << "no finding explains it";
  topo::Finding finding;
  finding.id = "gpu.count";
  finding.severity = topo::Severity::error;
  finding.subject.host = "h";
  finding.evidence = "7 of 8";
  finding.about = topo::About::hardware;
  fresh.reports[0].findings = {finding};
  for (const topo::Host* const now : {&link_down, &nic_down, &lost}) {
    const Comparison c = compared(whole, *now);
    EXPECT_EQ(c.exit_code, ExitCode::slow);
    EXPECT_THAT(c.headline, testing::StartsWith("REGRESSION: NEW found gpu.count on h; "));
    EXPECT_THAT(c.differences, Contains(Field(&Difference::kind, "hardware")));
  }
  std::swap(base.reports, fresh.reports);
  EXPECT_EQ(compared(lost, whole).exit_code, ExitCode::ok) << "mended";
}

TEST(Compare, takes_a_machine_of_which_less_is_known_or_another_driver_tells_for_no_other_one) {
  Side base = make_up_side("BASE", small(), 1), fresh = make_up_side("NEW", small(), 2);
  const std::vector<topo::Host> known(4, host_of_eight_gpus());
  std::vector<topo::Host> without_nvml = known;
  for (topo::Gpu& gpu : without_nvml[2].gpu_devices) gpu.name = "", gpu.links = gpu.links_possible = std::nullopt;
  base.reports[0].topology.hosts = known;
  fresh.reports[0].topology.hosts = without_nvml;
  EXPECT_THAT(compare(base, fresh).differences, Not(Contains(Field(&Difference::kind, "hardware"))));
  std::vector<topo::Host> old_driver = known;
  for (topo::Nic& nic : old_driver[0].nics) nic.kind = "efa", nic.rate = GBps{12.5};
  old_driver.resize(1);
  std::vector<topo::Host> new_driver = old_driver;
  for (topo::Nic& nic : new_driver[0].nics) nic.rate = GBps{25};
  base.reports[0].topology.hosts = old_driver;
  fresh.reports[0].topology.hosts = new_driver;
  EXPECT_THAT(compare(base, fresh).differences,
              Contains(testing::AllOf(Field(&Difference::name, "NICs"), Field(&Difference::base, "4 x efa 100 Gbit/s"),
                                      Field(&Difference::fresh, "4 x efa 200 Gbit/s"))));
  new_driver[0].nics.pop_back();
  fresh.reports[0].topology.hosts = new_driver;
  EXPECT_THROW(compare(base, fresh), UsageError) << "a device less";
}

// The case of a side on these numbers of ranks, with times that differ from one to the next.
Side on_ranks(const std::string& name, const std::vector<int>& numbers) {
  Side side = make_up_side(name, small(), 1);
  const Observation one = side.observations[0];
  side.observations.clear();
  for (const int ranks : numbers) {
    Observation& each = side.observations.emplace_back(one);
    each.measured_case.ranks = ranks;
    for (std::vector<Launch>* const launches : {&each.latency, &each.throughput})
      for (Launch& launch : *launches) {
        launch.median_s *= ranks;
        for (double& sample : launch.samples_s) sample *= ranks;
      }
  }
  return side;
}

TEST(Compare, across_hardware_pairs_cases_of_as_many_ranks) {
  for (const std::vector<int>& numbers : {std::vector<int>{8, 32}, std::vector<int>{32, 8}}) {
    const Comparison c = compare(on_ranks("BASE", {8, 32}), on_ranks("NEW", numbers), {.across_hardware = true});
    ASSERT_EQ(c.bands.size(), 2u);
    for (const BandRow& row : c.bands) EXPECT_NEAR(row.time.ratio, 1, 1e-9) << row.collective;
    EXPECT_EQ(c.exit_code, ExitCode::ok) << c.headline;
  }
}

TEST(Compare, across_hardware_pairs_no_case_with_one_of_several_others) {
  EXPECT_EQ(compare(on_ranks("BASE", {8}), on_ranks("NEW", {16}), {.across_hardware = true}).bands.size(), 1u);
  const Comparison c = compare(on_ranks("BASE", {8, 32}), on_ranks("NEW", {8, 16}), {.across_hardware = true});
  EXPECT_NEAR(c.bands.at(0).time.ratio, 1, 1e-9);
  EXPECT_EQ(c.only_in_base.size(), 1u);
  EXPECT_EQ(c.only_in_new.size(), 1u);
  EXPECT_THAT(c.remarks, Contains(HasSubstr("1 case of NEW is not compared")));
  try {
    compare(on_ranks("BASE", {8, 32}), on_ranks("NEW", {16}), {.across_hardware = true});
    FAIL() << "compared";
  } catch (const UsageError& problem) {
    EXPECT_THAT(problem.what(), HasSubstr("1 case of NEW is not compared"));
  }
}

// All times of a side may be rounded alike, those of slow samples too.
TEST(Compare, widens_the_interval_of_means_by_rounding) {
  Side side = make_up_side("BASE", small(), 1);
  for (Launch& launch : side.observations[0].throughput) launch.rounding_s = 0.03 * launch.median_s;
  const Comparison c = compare(side, side);
  ASSERT_TRUE(c.bands.at(0).mean);
  EXPECT_LT(c.bands[0].time.interval.low, 1 / 1.05);
  EXPECT_LT(c.bands[0].mean->interval.low, 1 / 1.05);
}

TEST(Compare, lists_what_differs_beside_the_times) {
  Side base = make_up_side("BASE", small(), 1), fresh = make_up_side("NEW", small(), 2);
  base.reports[0].context = {{"nccl", "2.27.7"}, {"env.NCCL_PROTO", "Simple"}, {"env.SLURM_JOB_ID", "1"}};
  fresh.reports[0].context = {{"nccl", "2.28.3"}, {"env.SLURM_JOB_ID", "2"}};
  // Both hosts have the same NCCL installed, which need not be the one that is loaded.
  topo::Host host;
  host.versions = {{"nccl", "2.22.3"}};
  for (Side* const side : {&base, &fresh}) side->reports[0].topology.hosts = {host};
  base.observations[0].selections = {{"ring", "simple", 24, "log"}};
  fresh.observations[0].selections = {{"tree", "simple", 16, "log"}};
  std::vector<std::string> told;
  for (const Difference& each : compare(base, fresh).differences)
    told.push_back(each.kind + " " + each.name + " " + each.base + " " + each.fresh);
  EXPECT_THAT(told, testing::ElementsAre("software nccl 2.27.7 2.28.3", "environment NCCL_PROTO Simple ",
                                         "selection all_reduce 64 MiB float32 sum ring/simple/24 tree/simple/16"));
}

TEST(Compare, says_what_only_one_side_has) {
  SideRecipe more = small();
  more.to = MiB(128);
  const Comparison c = compare(make_up_side("BASE", small(), 1), make_up_side("NEW", more, 2));
  EXPECT_THAT(c.only_in_base, IsEmpty());
  EXPECT_THAT(c.only_in_new, testing::ElementsAre("all_reduce 128 MiB float32 sum"));
}

TEST(Compare, says_what_one_side_has_no_times_of) {
  SideRecipe two = small();
  two.to = MiB(128);
  const Side whole = make_up_side("A", two, 1);
  Side lacking = make_up_side("B", two, 2);
  lacking.observations[1].throughput.clear();
  EXPECT_THAT(compare(whole, lacking).only_in_base, testing::ElementsAre("all_reduce 128 MiB float32 sum"));
  EXPECT_THAT(compare(whole, lacking).headline, HasSubstr("1 case of A not in B"));
  EXPECT_THAT(compare(lacking, whole).only_in_new, testing::ElementsAre("all_reduce 128 MiB float32 sum"));
  lacking.reports[0].exit_code = ExitCode::wrong_data;
  EXPECT_THAT(compare(whole, lacking).only_in_base, IsEmpty()) << "its times are left out, as the exit code tells";
}

TEST(Compare, refuses_sides_without_a_case_in_common) {
  SideRecipe other = small();
  other.collectives = {&all_gather};
  EXPECT_THROW(compare(make_up_side("BASE", small(), 1), make_up_side("NEW", other, 2)), UsageError);
}

}  // namespace
}  // namespace p5::reports
