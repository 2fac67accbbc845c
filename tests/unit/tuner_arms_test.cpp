// Knobs as data, and the descent over environments.
#include "tests/unit/tuner_setting.hpp"
#include "tuner/arms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/base/embedded.hpp"
#include "bench/base/error.hpp"

namespace p5::tuner {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;

template <class Act>
std::string refusal(Act act) {
  try {
    act();
  } catch (const UsageError& problem) {
    return problem.what();
  }
  return "";
}

constexpr const char* good =
    R"([{"name": "NCCL_X", "since": "2.17", "step": 3, "values": ["1", "2"], "default": "1", "summary": "s",
  "platforms": [], "least_nodes": 1, "transport": "any", "collectives": [], "risk": "r", "source": "s"}])";

std::string with(const std::string& what, const std::string& instead) {
  std::string text = good;
  text.replace(text.find(what), what.size(), instead);
  return text;
}

TEST(Knobs, of_the_program_are_readable) {
  ASSERT_GE(knobs().size(), 10u);
  std::set<std::string> names;
  for (const Knob& knob : knobs()) {
    EXPECT_TRUE(names.insert(knob.name).second) << knob.name << " is there twice";
    EXPECT_TRUE(is_tuning_variable(knob.name)) << knob.name;
    EXPECT_TRUE(is_variable_name(knob.name)) << knob.name;
    EXPECT_TRUE(knob.since.empty() || parse_nccl_version(knob.since) > 0) << knob.name;
    EXPECT_FALSE(values_to_try(knob).empty()) << knob.name;
  }
  for (const embedded::File& file : embedded::knob_files())
    for (const auto& entry : nlohmann::json::parse(file.text))
      EXPECT_EQ(entry.size(), entry.contains("beside") ? 13u : 12u) << entry << " has a field that nothing reads";
}

TEST(Knobs, are_refused_by_file_name_and_field) {
  EXPECT_EQ(parse_knobs("a.json", good).size(), 1u);
  const auto refused = [](const std::string& text) { return refusal([&] { parse_knobs("a.json", text); }); };
  EXPECT_THAT(refused("{"), HasSubstr("a.json"));
  EXPECT_THAT(refused("{}"), HasSubstr("list"));
  EXPECT_THAT(refused(with("\"risk\"", "\"risks\"")), HasSubstr("/0/risk is missing"));
  EXPECT_THAT(refused(with("\"any\"", "\"nvl\"")), HasSubstr("nvls"));
  EXPECT_THAT(refused(with("[\"1\", \"2\"]", "[1, 2]")), HasSubstr("/0/values/0"));
  EXPECT_THAT(refused(with("\"step\": 3", "\"step\": 7")), HasSubstr("/0/step"));
}

TEST(Knobs, apply_by_version_nodes_platform_and_transport) {
  Knob knob = parse_knobs("a.json", good)[0];
  KnobScope place;
  place.platform = "p5.48xlarge";
  place.nodes = 2;
  place.nccl_version = 22803;
  EXPECT_TRUE(applies(knob, place));
  knob.since = "2.28.7";
  EXPECT_FALSE(applies(knob, place));
  knob.since = "";
  place.nccl_version = 0;
  EXPECT_TRUE(applies(knob, place));
  knob.least_nodes = 3;
  EXPECT_FALSE(applies(knob, place));
  knob.least_nodes = 1;
  knob.platforms = {"p5en", "p6"};
  EXPECT_FALSE(applies(knob, place));
  knob.platforms = {"p5"};
  EXPECT_TRUE(applies(knob, place));
  knob.transport = "nvls";
  EXPECT_FALSE(applies(knob, place));
  place.nvls = true;
  EXPECT_TRUE(applies(knob, place));
  knob.collectives = {"p2p"};
  EXPECT_TRUE(applies(knob, place));
  place.collectives = {"all_reduce"};
  EXPECT_FALSE(applies(knob, place));
  knob.collectives = {};
  knob.beside = true;
  EXPECT_FALSE(applies(knob, place));
  place.beside = true;
  EXPECT_TRUE(applies(knob, place));
}

TEST(Knobs, are_not_tried_at_the_value_that_they_have) {
  Knob knob = parse_knobs("a.json", good)[0];
  EXPECT_THAT(values_to_try(knob), ElementsAre("2"));
}

TEST(Knobs, tell_what_may_suffer_by_them) {
  const std::vector<std::string> risks =
      risks_of({{"NCCL_BUFFSIZE", "16777216"}, {"NCCL_P2P_PXN_LEVEL", "0"}, {"NCCL_X", "1"}});
  ASSERT_EQ(risks.size(), 1u);
  EXPECT_THAT(risks[0], HasSubstr("NCCL_BUFFSIZE: memory: of each GPU"));
  EXPECT_TRUE(risks_of({}).empty());
}

TEST(Knobs, know_versions_as_nccl_counts_them) {
  EXPECT_EQ(parse_nccl_version("2.28.3"), 22803);
  EXPECT_EQ(parse_nccl_version("2.17"), 21700);
  EXPECT_EQ(parse_nccl_version("2.8.4"), 2804);
  for (const char* text : {"", "2", "2.x", "2.28.3.1", "2.100", "-2.1", "2.28 "})
    EXPECT_EQ(parse_nccl_version(text), 0) << text;
}

TEST(Weights, are_read_line_by_line) {
  const std::vector<Weight> weights =
      parse_weights("w", "# histogram\n\nall_reduce 64MiB 3.5\nall_gather 8 1 # small\r\n");
  ASSERT_EQ(weights.size(), 2u);
  EXPECT_EQ(weights[0].bytes, 64u << 20);
  EXPECT_DOUBLE_EQ(weights[0].share, 3.5);
  EXPECT_EQ(parse_weights("w", "all_reduce,64MiB,3.5\nall_gather, 8, 1\n").at(1).bytes, 8U);
}

TEST(Weights, are_refused_by_line) {
  const auto refused = [](const char* line) {
    return refusal([&] { parse_weights("w.txt", std::string("all_reduce 8 1\n") + line); });
  };
  for (const char* line : {"all_reduce 8", "all_reduce 8 1 1", "all_redcue 8 1", "all_reduce 8x 1", "all_reduce 8 0",
                           "all_reduce 8 -1", "all_reduce 8 nan", "all_reduce 8 1e999", "all_reduce 8 1x"})
    EXPECT_THAT(refused(line), HasSubstr("w.txt line 2: ")) << line;
  EXPECT_THAT(refused("all_redcue 8 1"), HasSubstr("all_reduce"));
  EXPECT_THAT(refusal([] { parse_weights("w.txt", "# nothing\n"); }), HasSubstr("w.txt"));
  EXPECT_THAT(refusal([] { parse_weights("w\n.txt", "# nothing\n"); }), HasSubstr("w\\x0a.txt"));
  EXPECT_LT(refused(std::string(3000000, 'a').c_str()).size(), 200u);
  const std::string cut("all_reduce 8 1\0", 15);  // a NUL ends a C string
  EXPECT_THAT(refusal([&] { parse_weights("w.txt", cut); }), HasSubstr("'1\\x00' is not a number"));
}

TEST(Weights, go_to_the_nearest_measured_size) {
  const std::vector<SizePoint> size_points{{"all_reduce", 1024}, {"all_reduce", 4096}, {"all_gather", 64}};
  const std::vector<Weight> weights{
      {"all_reduce", 1, 1}, {"all_reduce", 3000, 2}, {"all_reduce", 1 << 30, 4}, {"reduce", 8, 9}};
  std::vector<Weight> unused;
  EXPECT_THAT(weights_for(size_points, weights, &unused), ElementsAre(DoubleEq(1.0 / 9), DoubleEq(6.0 / 9), 0));
  ASSERT_EQ(unused.size(), 1u);
  EXPECT_EQ(unused[0].collective, "reduce");
  EXPECT_THAT(weights_for(size_points, {}), ElementsAre(1, 1, 1));
  for (const double share : {1e308, 1e-308})
    EXPECT_THAT(weights_for(size_points, std::vector<Weight>{{"all_reduce", 1, share}, {"all_reduce", 2, share}}),
                ElementsAre(2, 0, 0));
}

ArmSizePoint arm_point(const char* collective, std::uint64_t bytes, double factor) {
  const auto launches = [](double seconds) {
    Launch launch{.number = 0, .median_s = seconds, .samples_s = {}, .interval = {}};
    for (int i = 0; i < 8; ++i) launch.samples_s.push_back(seconds * wobble(i));
    return std::vector<Launch>{launch};
  };
  return {{collective, bytes}, {launches(1e-3), launches(factor * 1e-3)}};
}

TEST(Objective, is_the_weighted_geometric_mean_of_speed_ups) {
  const std::vector<ArmSizePoint> size_points{arm_point("all_reduce", 8, 0.5), arm_point("all_reduce", 8, 2),
                                              arm_point("all_reduce", 8, 0.25)};
  EXPECT_NEAR(objective_of(size_points, std::vector<double>{1, 1, 0})->speedup, 1, 1e-9);
  EXPECT_NEAR(objective_of(size_points, std::vector<double>{3, 1, 0})->speedup, std::sqrt(2), 1e-9);
  const Objective objective = *objective_of(size_points, std::vector<double>{1, 1, 1});
  EXPECT_LT(objective.interval.low, objective.speedup * 0.99) << "one process each: they may differ";
  EXPECT_GT(objective.interval.low, objective.speedup * 0.95);
  EXPECT_FALSE(objective_of(size_points, std::vector<double>{0, 0, 0}));
}

// Runs the descent against a machine on which each assignment has a speedup.
struct Descended {
  std::vector<std::string> tried;
  Arm best;
};
Descended descend(const std::vector<Knob>& some,
                  const std::function<std::optional<Objective>(const Environment&)>& judge,
                  const Environment& operators = {}) {
  KnobScope place;
  place.platform = "p5.48xlarge";
  place.nodes = 4;
  place.nccl_version = 23000;
  place.efa = place.nvls = true;
  const Constraints constraints = constraints_of(operators);
  std::vector<JudgedArm> judged;
  Descended result;
  while (const std::optional<Arm> arm = next_arm(some, place, constraints, judged, {})) {
    result.tried.push_back(arm->name);
    judged.push_back({*arm, judge(arm->environment)});
    if (judged.size() > 100) ADD_FAILURE() << "it does not end";
    if (judged.size() > 100) break;
  }
  result.best = best_arm(some, place, constraints, judged, {});
  return result;
}

Knob knob(const std::string& name, std::vector<std::string> values, int step = 3) {
  Knob result;
  result.name = name;
  result.values = std::move(values);
  result.step = step;
  result.standard = "0";
  return result;
}

Objective sure(double speedup) { return {speedup, Interval{speedup * 0.995, speedup * 1.005}}; }

TEST(Arms, adopt_one_variable_after_the_other) {
  const Descended result = descend({knob("NCCL_A", {"0", "1", "2"}), knob("NCCL_B", {"1"})}, [](const Environment& e) {
    double speedup = 1;
    if (e.contains("NCCL_A")) speedup *= e.at("NCCL_A") == "2" ? 1.2 : 1.1;
    if (e.contains("NCCL_B")) speedup *= 1.05;
    return std::optional(sure(speedup));
  });
  EXPECT_THAT(result.tried, ElementsAre("NCCL_A=1", "NCCL_A=2", "NCCL_A=2,NCCL_B=1"));
  EXPECT_EQ(result.best.name, "NCCL_A=2,NCCL_B=1");
}

TEST(Arms, stay_with_the_default_where_nothing_gains_surely) {
  const std::vector<Knob> one{knob("NCCL_A", {"1"})};
  EXPECT_EQ(descend(one, [](const Environment&) { return std::optional(sure(1.015)); }).best.name, "default");
  EXPECT_EQ(descend(one,
                    [](const Environment&) {
                      return std::optional(Objective{1.1, Interval{0.99, 1.2}});
                    })
                .best.name,
            "default");
  EXPECT_EQ(descend(one, [](const Environment&) { return std::optional<Objective>(); }).best.name, "default");
}

TEST(Arms, that_make_operations_alone_too_slow_are_not_adopted) {
  const std::vector<Knob> one{knob("NCCL_A", {"1", "2"})};
  KnobScope place;
  place.nccl_version = 23000;
  ArmRules rules;
  rules.alone_loss = 0.05;
  const std::vector<JudgedArm> judged{{make_arm({{"NCCL_A", "1"}}), sure(1.3), sure(0.9)},
                                      {make_arm({{"NCCL_A", "2"}}), sure(1.1), sure(0.97)}};
  EXPECT_EQ(best_arm(one, place, {}, judged, rules).name, "NCCL_A=2");
  EXPECT_TRUE(loses_alone(judged[0], rules));
  EXPECT_FALSE(loses_alone(judged[1], rules));
  EXPECT_TRUE(loses_alone({judged[1].arm, sure(1.1), Objective{0.97, Interval{0.94, 1}}}, rules, true))
      << "it may be that slow";
  rules.alone_loss = 0.2;
  EXPECT_EQ(best_arm(one, place, {}, judged, rules).name, "NCCL_A=1");
}

TEST(Arms, are_not_adopted_for_a_reason_with_figures) {
  const ArmRules rules;
  const JudgedArm failed{make_arm({{"A", "1"}}), std::nullopt}, faster{failed.arm, Objective{1.1, {1.05, 1.15}}},
      hardly{failed.arm, Objective{1.018, {0.974, 1.064}}};
  EXPECT_EQ(reason_not_to_adopt(faster, "", "", rules), "");
  EXPECT_EQ(reason_not_to_adopt(failed, "failed in fresh processes: so", "", rules), "failed in fresh processes: so");
  EXPECT_EQ(reason_not_to_adopt(failed, "", "", rules), "was not measured in fresh processes");
  EXPECT_EQ(reason_not_to_adopt(hardly, "", "slows", rules),
            "was 1.018 times as fast in fresh processes (0.974 to 1.064): too little, or chance");
  EXPECT_EQ(reason_not_to_adopt(faster, "", "slows", rules), "slows");
  const JudgedArm slower_alone{failed.arm, faster.objective, Objective{1, {0.97, 1.03}}};
  EXPECT_EQ(reason_not_to_adopt(slower_alone, "", "", rules), "may make operations alone slower by more than 2 %");
}

TEST(Arms, never_touch_what_the_operator_set) {
  const Descended result = descend({knob("NCCL_A", {"1"}), knob("NCCL_B", {"1"})},
                                   [](const Environment&) { return std::optional(sure(2)); }, {{"NCCL_A", "7"}});
  EXPECT_THAT(result.tried, ElementsAre("NCCL_B=1"));
  EXPECT_EQ(result.best.environment.count("NCCL_A"), 0u);
}

TEST(Arms, set_no_numbers_of_channels_against_a_limit_of_the_operators) {
  const std::vector<Knob> some{knob("NCCL_MIN_CTAS", {"16"}), knob("NCCL_MAX_CTAS", {"4"}),
                               knob("NCCL_NVLS_NCHANNELS", {"24"}), knob("NCCL_B", {"1"})};
  const auto tried = [&](const Environment& operators) {
    return descend(
               some, [](const Environment&) { return std::optional(sure(1)); }, operators)
        .tried;
  };
  for (const auto& [name, value] : Environment{{"NCCL_MAX_NCHANNELS", "8"},
                                               {"NCCL_MAX_NRINGS", "8"},
                                               {"NCCL_MIN_CTAS", "16"},
                                               {"NCCL_MIN_NCHANNELS", "many"},
                                               {"NCCL_NVLS_NCHANNELS", "8"}})
    EXPECT_THAT(tried({{name, value}}), ElementsAre("NCCL_B=1")) << name;
  EXPECT_EQ(tried({{"NCCL_BUFFSIZE", "1048576"}}).size(), 4u);
}

TEST(Arms, are_twelve_at_most) {
  const Descended result = descend(
      {knob("NCCL_A", {"1", "2", "3", "4", "5", "6", "7"}), knob("NCCL_B", {"1", "2", "3", "4", "5", "6", "7"})},
      [](const Environment& e) { return std::optional(sure(e.contains("NCCL_B") ? 1.5 : 1)); });
  EXPECT_EQ(result.tried.size(), 12u);
  EXPECT_EQ(result.best.environment.count("NCCL_B"), 1u) << "what was found before the end counts";
}

TEST(Arms, leave_the_deepest_knobs) {
  const std::vector<Knob> some{knob("OFI_NCCL_A", {"1"}, 4)};
  const auto any = [](const Environment&) { return std::optional(sure(1)); };
  EXPECT_TRUE(descend(some, any).tried.empty());
  EXPECT_EQ(descend({knob("OFI_NCCL_A", {"1"}, 3)}, any).tried.size(), 1u);
}

// `points` sizes, each measured by the same processes: a process is by its factor slower at all of them.
std::vector<ArmSizePoint> by_processes(int points, const std::vector<double>& standard,
                                       const std::vector<double>& arm) {
  const auto launches = [](const std::vector<double>& factors) {
    std::vector<Launch> all;
    for (const double factor : factors) {
      Launch& launch = all.emplace_back();
      launch.number = static_cast<int>(all.size()) - 1;
      launch.median_s = factor * 1e-5;
      for (int i = 0; i < 8; ++i) launch.samples_s.push_back(launch.median_s * wobble(i));
    }
    return all;
  };
  std::vector<ArmSizePoint> all;
  for (int i = 0; i < points; ++i)
    all.push_back({{"all_gather", std::uint64_t{8} << (i % 7)}, {launches(standard), launches(arm)}});
  return all;
}

Objective objective_over(int points, const std::vector<double>& standard, const std::vector<double>& arm) {
  return *objective_of(by_processes(points, standard, arm), std::vector<double>(static_cast<std::size_t>(points), 1));
}

TEST(Objective, has_an_interval_as_wide_as_processes_differ_however_many_sizes_they_measure) {
  // Both sides are of processes that differ by 5 %, at all sizes alike.
  const Objective chance = objective_over(35, {1.06, 1.01}, {1.02, 0.97});
  EXPECT_NEAR(chance.speedup, 1.04, 0.001);
  EXPECT_LT(chance.interval.low, 0.97);
  EXPECT_GT(chance.interval.high, 1.1);
  const Objective one = objective_over(1, {1.06, 1.01}, {1.02, 0.97});
  EXPECT_GT(std::log(chance.interval.high / chance.interval.low),
            0.95 * std::log(one.interval.high / one.interval.low));
  const Objective alike = objective_over(35, {1.001, 0.999, 1}, {0.97, 0.971, 0.969});
  EXPECT_NEAR(alike.speedup, 1 / 0.97, 1e-9);
  EXPECT_GT(alike.interval.low, 1.015);
  EXPECT_LT(alike.interval.high, 1.05);
  const Objective once = objective_over(35, {1}, {0.97});
  EXPECT_GT(once.interval.low, 1) << "a first look that a confirmation follows";
  EXPECT_LT(once.interval.low, 1.02);
}

TEST(Objective, has_an_interval_as_wide_as_the_samples_of_a_single_size_scatter) {
  std::vector<ArmSizePoint> one = by_processes(1, {1}, {0.97});
  for (std::vector<Launch>* launches : {&one[0].times.standard, &one[0].times.tuned})
    for (Launch& launch : *launches) {
      launch.samples_s.clear();
      for (int i = 0; i < 8; ++i) launch.samples_s.push_back(launch.median_s * (i < 4 ? 0.7 : 1.3));
    }
  const Objective scattered = *objective_of(one, std::vector<double>{1});
  EXPECT_LT(scattered.interval.low, 0.9);
  EXPECT_GT(scattered.interval.high, 1.1);
}

TEST(Arms, are_undecided_while_more_processes_may_change_it) {
  const ArmRules rules;
  const auto judged = [](double speedup, double low, double high) {
    return JudgedArm{make_arm({{"A", "1"}}), Objective{speedup, {low, high}}};
  };
  EXPECT_FALSE(is_undecided(judged(1.05, 1.02, 1.08), std::nullopt, rules));
  EXPECT_TRUE(is_undecided(judged(1.05, 0.98, 1.12), std::nullopt, rules));
  EXPECT_TRUE(is_undecided(judged(1.015, 1.001, 1.03), std::nullopt, rules));
  EXPECT_FALSE(is_undecided(judged(1.0, 0.99, 1.01), std::nullopt, rules)) << "more processes will not make it gain";
  EXPECT_TRUE(is_undecided(judged(1.05, 1.02, 1.08), SlowerBand{"may", false}, rules));
  EXPECT_FALSE(is_undecided(judged(1.05, 1.02, 1.08), SlowerBand{"makes", true}, rules));
  JudgedArm alone = judged(1.05, 1.02, 1.08);
  alone.alone = Objective{0.99, {0.97, 1.01}};
  EXPECT_TRUE(is_undecided(alone, std::nullopt, rules));
  alone.alone = Objective{0.95, {0.94, 0.96}};
  EXPECT_FALSE(is_undecided(alone, std::nullopt, rules));
  EXPECT_FALSE(is_undecided({alone.arm, std::nullopt}, std::nullopt, rules));
}

TEST(Arms, name_the_band_that_they_make_slower) {
  const std::vector<ArmSizePoint> gains{arm_point("all_reduce", 8, 0.5), arm_point("all_reduce", 1 << 20, 1.005)};
  EXPECT_FALSE(find_slower_band(gains));
  std::vector<ArmSizePoint> loses = gains;
  loses.push_back(arm_point("send_recv", 256 << 20, 1.03));
  EXPECT_EQ(find_slower_band(loses).value().text, "makes send_recv from 64 MiB on 3.0 % slower");
  EXPECT_EQ(find_slower_band(loses, 0.01, " alone").value().text, "makes send_recv from 64 MiB on 3.0 % slower alone");
  EXPECT_TRUE(find_slower_band(loses)->certain);
  EXPECT_FALSE(find_slower_band(loses, 0.04));
  loses.push_back(arm_point("send_recv", 128 << 20, 0.9));
  EXPECT_FALSE(find_slower_band(loses)) << "the band as a whole gains";
}

TEST(Arms, may_make_a_band_slower_where_processes_differ_as_much) {
  const std::vector<ArmSizePoint> chance = by_processes(7, {1.0, 1.05, 1.02}, {1.07, 1.04, 1.09});
  const std::optional<SlowerBand> slower = find_slower_band(chance);
  ASSERT_TRUE(slower);
  EXPECT_FALSE(slower->certain);
  EXPECT_THAT(slower->text, HasSubstr("may make all_gather up to 64 KiB 4.9 % slower (-"));
  EXPECT_THAT(slower->text, HasSubstr("processes differ too much to exclude it"));
  std::vector<ArmSizePoint> both = chance;
  both.push_back(arm_point("send_recv", 256 << 20, 1.03));
  EXPECT_EQ(find_slower_band(both).value().text, "makes send_recv from 64 MiB on 3.0 % slower")
      << "what is certain first";
  EXPECT_TRUE(find_slower_band(by_processes(7, {1.0, 1.01, 1.005}, {1.1, 1.11, 1.105})).value().certain);
}

}  // namespace
}  // namespace p5::tuner
