// Tuning in report.json: unchanged by writing and reading, filled from the tuner's results, and valid by the schema.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/app/tuning/tuning.hpp"
#include "bench/base/error.hpp"
#include "reports/decision.hpp"
#include "reports/judge.hpp"
#include "reports/report.hpp"
#include "reports/writer.hpp"

namespace p5 {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

reports::Tuning everything() {
  reports::TuningGain gain{44.6e-6, 35.7e-6, 0.2, Interval{0.19, 0.21}};
  reports::Tuning tuning;
  tuning.mode = "full";
  tuning.outcome = "settings";
  tuning.because = "the default was 0.1 % slower at the end";
  tuning.seed = ~std::uint64_t{0};
  tuning.wall_s = 12.5;
  tuning.stages = {{"search", 8.25}, {"confirmation", 4}, {"job's step", 2}};
  tuning.processes = 4;
  tuning.nccl_version = 22803;
  tuning.ranks = 8;
  tuning.nodes = 2;
  tuning.drift = 0.001;
  tuning.size_points = {{"all_gather",
                         8388608,
                         8388608,
                         7,
                         150,
                         "ring/ll128/32",
                         true,
                         0.004,
                         gain,
                         "saves 20 %",
                         {{"default", 45.3, 45.9, 30, {}, false}, {"ring/simple", {}, {}, 0, 40.1, true}}},
                        {"p2p", 8, 8, 0, 6, {}, false, {}, {}, "nothing to choose", {}}};
  tuning.failures = {{"all_reduce", 64, "tree/ll128", true, "3 wrong elements"},
                     {"all_reduce", 64, "default", false, "hung"}};
  tuning.arms = {{"NCCL_BUFFSIZE=8388608", {{"NCCL_BUFFSIZE", "8388608"}}, 1.05, Interval{1.04, 1.06}, true},
                 {"NCCL_X=1", {{"NCCL_X", "1"}}, {}, {}, false}};
  tuning.environment = {{"NCCL_BUFFSIZE", "8388608"}};
  tuning.loading = {{"mpirun", ". '/x y/nccl.env.sh' && mpirun ..."}};
  tuning.rows = {{"all_gather", 1 << 20, ~std::uint64_t{0}, "ring/ll128/32/524288", 35.7}};
  tuning.confirmations = {{"all_gather", 8388608, "ring/ll128", gain, gain, "faster"},
                          {"all_gather", 8, {}, {}, {}, "not measured"}};
  tuning.refusals = {"one"};
  tuning.files = {"nccl.env"};
  return tuning;
}

reports::Report report_with(const reports::Tuning& tuning) {
  reports::Report report;
  report.tuning = tuning;
  report.grade = reports::overall(report);
  report.decision = reports::decide(report);
  return report;
}

// The same beside other work.
reports::Tuning everything_beside() {
  reports::Tuning tuning = everything();
  const reports::TuningGain gain{44.6e-6, 45e-6, -0.01, Interval{-0.02, 0}};
  tuning.beside = reports::TuningBeside{{"gemm:8192,8192,bf16", "d2h"}, 0.02};
  tuning.size_points[0].operations = {5, 4, 3};
  tuning.size_points[0].settings[0].alone_us = 40;
  tuning.arms[0].alone_speedup = 0.99;
  tuning.step = gain;
  tuning.confirmations[0].alone_gain = gain;
  reports::TuningCallModeSize size;
  size.collective = "all_gather";
  size.bytes = 8;
  size.gain = size.alone_gain = gain;
  tuning.call_modes = {{"registered buffers", "so", {size}}};
  return tuning;
}

TEST(TuningJson, is_the_same_after_it_was_read_beside_other_work) {
  const json written = reports::to_json(everything_beside());
  EXPECT_EQ(reports::to_json(reports::tuning_from_json(written)), written);
  EXPECT_EQ(written.at("beside").at("works").size(), 2u);
  EXPECT_EQ(written.at("cells").at(0).at("operations"), json({5, 4, 3}));
  EXPECT_TRUE(written.at("confirmations").at(0).contains("alone_gain"));
  EXPECT_FALSE(reports::to_json(everything()).at("confirmations").at(0).contains("alone_gain"));
}

TEST(TuningJson, is_the_same_after_it_was_read) {
  const json written = reports::to_json(everything());
  EXPECT_EQ(reports::to_json(reports::tuning_from_json(written)), written);
  const json whole = reports::to_json(report_with(everything()));
  EXPECT_EQ(whole.at("tuning"), written);
  EXPECT_EQ(reports::to_json(reports::report_from_json(whole)), whole);
}

TEST(TuningOnTheConsole, has_the_interval_of_each_speedup) {
  EXPECT_THAT(reports::render_console(report_with(everything())),
              HasSubstr("NCCL_BUFFSIZE=8388608: 1.050 times as fast (1.040 to 1.060), adopted\n  NCCL_X=1: failed\n"));
}

TEST(TuningOnTheConsole, tells_of_a_step_with_settings_that_are_not_set) {
  reports::Tuning tuning = everything();
  tuning.step = reports::TuningGain{10.2e-3, 10.1e-3, 0.01, Interval{-0.01, 0.03}};
  EXPECT_THAT(reports::render_console(report_with(tuning)),
              HasSubstr("  a step of the job: 10.100 ms, 10.200 ms by default (+1.0 % saved)\n"));
  tuning.outcome = "nothing";
  EXPECT_THAT(reports::render_console(report_with(tuning)),
              HasSubstr("  a step of the job: 10.100 ms with the settings that are not set, 10.200 ms by default"));
}

TEST(TuningJson, is_null_where_nothing_was_tuned) {
  const json whole = reports::to_json(reports::Report{});
  EXPECT_TRUE(whole.at("tuning").is_null());
  EXPECT_FALSE(reports::report_from_json(whole).tuning);
}

TEST(TuningJson, has_no_field_that_may_be_missing) {
  const json whole = reports::to_json(report_with(everything()));
  const auto refused = [&](const json::json_pointer& object, const std::string& field) {
    json broken = whole;
    broken.at(object).erase(field);
    EXPECT_THROW(reports::report_from_json(broken), UsageError) << object << " " << field;
  };
  for (const char* path : {"/tuning", "/tuning/cells/0", "/tuning/cells/0/gain", "/tuning/failures/0", "/tuning/arms/0",
                           "/tuning/rows/0", "/tuning/confirmations/0"})
    for (const auto& [field, value] : whole.at(json::json_pointer(path)).items())
      refused(json::json_pointer(path), field);
}

TEST(TuningJson, refuses_outcomes_that_are_none) {
  json j = reports::to_json(everything());
  j["outcome"] = "splendid";
  EXPECT_THROW(reports::tuning_from_json(j), UsageError);
}

TEST(TuningJson, is_valid_by_the_schema) {
  const std::string python = "'" P5BENCH_PYTHON "'";
  if (std::system((python + " -c 'import jsonschema' 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "Python's jsonschema is not there";
  const auto source = std::filesystem::path(P5BENCH_SOURCE_FOLDER);
  std::string folder = (std::filesystem::temp_directory_path() / "p5bench-unit-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  json tuning = reports::to_json(everything());
  const auto valid = [&] {
    std::ofstream(folder + "/tuning.json") << tuning;
    const std::string command = python +
                                " -c 'import json, jsonschema, sys; schema = json.load(open(sys.argv[1]));"
                                "schema = {\"$defs\": schema[\"$defs\"], \"$ref\": \"#/$defs/tuning\"};"
                                "jsonschema.Draft202012Validator(schema).validate(json.load(open(sys.argv[2])))' '" +
                                (source / "reports/schema/report.schema.json").string() + "' '" + folder +
                                "/tuning.json' 2>" + folder + "/problem";
    return std::system(command.c_str()) == 0;
  };
  EXPECT_TRUE(valid()) << std::ifstream(folder + "/problem").rdbuf();
  tuning = reports::to_json(everything_beside());
  EXPECT_TRUE(valid()) << std::ifstream(folder + "/problem").rdbuf();
  tuning = reports::to_json(everything());
  tuning["cells"][0]["noise"] = "little";
  EXPECT_FALSE(valid());
  tuning = reports::to_json(everything());
  tuning["rows"][0]["setting"] = "ring";
  EXPECT_FALSE(valid());
  tuning = reports::to_json(everything());
  tuning["surprise"] = 1;
  EXPECT_FALSE(valid());
  std::filesystem::remove_all(folder);
}

// ---- from the tuner's values

TuningCourse course() {
  const tuner::Setting ring = *tuner::parse_setting("ring/ll");
  TuningCourse course;
  course.seed = 3;
  tuner::Record record{{"all_reduce", 8}, {}, ring, {}};
  record.blocks.push_back({tuner::Stage::race,
                           {{}, {ring}, {*tuner::parse_setting("tree/ll")}},
                           {{.time = {1e-5}}, {.time = {0.9e-5}}, {.outcome = Trial::Outcome::skipped}}});
  record.offered = {{ring, 12, true}, {*tuner::parse_setting("ring/simple"), 40, false}};
  course.search.records = {record};
  course.search.failures = {{{"all_reduce", 8}, {ring}, Trial::Outcome::wrong_data, "so"}};
  course.remarks = {"a remark"};
  course.dropped = {"a row"};
  const tuner::Gain gain{.standard_s = 1e-5, .tuned_s = 0.9e-5, .share = 0.1, .interval = {0.05, 0.15}};
  course.confirmations = {{tuner::Function::all_reduce, 16, ring, gain, {}, "faster"},
                          {tuner::Function::all_reduce, 8, {}, gain, {}, "the default"}};
  return course;
}

TEST(TuningReport, tells_what_was_tried) {
  const reports::Tuning tuning = tuning_report(course(), {}, {{"nccl.env", ""}});
  ASSERT_EQ(tuning.size_points.size(), 1u);
  EXPECT_EQ(tuning.size_points[0].candidates, 1) << "what was skipped was not tried";
  EXPECT_EQ(tuning.size_points[0].samples, 2);
  EXPECT_EQ(tuning.size_points[0].because, "ring/ll saves 10.0 % in the search; it is not set");
  EXPECT_FALSE(tuning.size_points[0].believed);
  const auto& settings = tuning.size_points[0].settings;
  ASSERT_EQ(settings.size(), 4u) << "the default, two offers, and one that was skipped";
  EXPECT_EQ(settings[0].setting, "default");
  EXPECT_DOUBLE_EQ(settings[0].median_us.value(), 10);
  EXPECT_TRUE(settings[1].chosen);
  EXPECT_DOUBLE_EQ(settings[1].predicted_us.value(), 12);
  EXPECT_EQ(settings[2].samples, 0);
  EXPECT_FALSE(settings[3].predicted_us);
  ASSERT_EQ(tuning.failures.size(), 1u);
  EXPECT_TRUE(tuning.failures[0].wrong_data);
  EXPECT_THAT(tuning.refusals, ElementsAre("a row", "a remark"));
  EXPECT_THAT(tuning.files, ElementsAre("nccl.env"));
  EXPECT_EQ(tuning.confirmations.size(), 2u);
}

TEST(TuningReport, has_times_alone_beside_other_work) {
  TuningCourse some = course();
  tuner::Record& record = some.search.records[0];
  record.operations = {4, 5};
  record.blocks.push_back({tuner::Stage::bound, {{}, {record.winner}}, {{.time = {2e-6}}, {.time = {3e-6}}}});
  some.confirmations[0].alone = some.confirmations[0].gain;
  tuner::TuningResult result;
  result.beside = {"d2h"};
  result.alone_loss = 0.05;
  const reports::Tuning tuning = tuning_report(some, result, {});
  EXPECT_EQ(tuning.beside.value().works, result.beside);
  EXPECT_EQ(tuning.beside->alone_loss, 0.05);
  EXPECT_EQ(tuning.size_points[0].operations, (std::vector<int>{4, 5}));
  const auto& settings = tuning.size_points[0].settings;
  EXPECT_DOUBLE_EQ(settings[1].alone_us.value(), 3);
  EXPECT_FALSE(settings[1].launched_us);
  EXPECT_TRUE(tuning.confirmations[0].alone_gain);
  EXPECT_FALSE(tuning.confirmations[1].alone_gain);
}

TEST(TuningReport, believes_a_winner_that_is_in_the_table) {
  tuner::TuningResult result;
  result.table.rows = {{tuner::Function::all_reduce, 8, 8, *tuner::parse_setting("ring/ll"), 9}};
  const reports::Tuning tuning = tuning_report(course(), result, {});
  EXPECT_TRUE(tuning.size_points[0].believed);
  EXPECT_EQ(tuning.size_points[0].because, "ring/ll saves 10.0 % in the search and was confirmed");
}

TEST(TuningReport, has_the_confirmed_gain_of_adopted_variables) {
  TuningCourse some = course();
  tuner::TuningResult result;
  result.environment = {{"NCCL_X", "1"}};
  some.arms = {{tuner::make_arm({{"NCCL_X", "1"}}), tuner::Objective{1.3, {1.2, 1.4}}, tuner::Objective{1, {1, 1}}}};
  result.environment_speedup = tuner::Objective{1.1, {1.05, 1.15}};
  result.environment_speedup_alone = tuner::Objective{0.99, {0.98, 1}};
  const reports::TuningArm arm = tuning_report(some, result, {}).arms.at(0);
  EXPECT_TRUE(arm.adopted);
  EXPECT_DOUBLE_EQ(arm.speedup.value(), 1.1);
  EXPECT_DOUBLE_EQ(arm.interval.value().high, 1.15);
  EXPECT_DOUBLE_EQ(arm.alone_speedup.value(), 0.99);
}

TEST(TuningReport, tells_apart_settings_nothing_and_refusal) {
  TuningCourse some = course();
  tuner::TuningResult result;
  EXPECT_EQ(tuning_report({}, result, {}).because, "Nothing was tried: no setting applies to what is measured.");
  EXPECT_EQ(tuning_report(some, result, {}).outcome, "nothing");
  some.skipped = true;
  EXPECT_EQ(tuning_report(some, result, {}).outcome, "refused");
  result.environment = {{"NCCL_X", "1"}};
  EXPECT_EQ(tuning_report(some, result, {}).outcome, "settings");
}

// Listed comparisons may never have run: sizes that no time was left for, ways of calling that the library cannot
// perform.
TEST(TuningReport, decides_nothing_by_what_was_not_measured) {
  TuningCourse some;
  some.search.records = {{{"all_reduce", 8}, {}, {}, "no time left to measure it"}};
  some.call_modes = {{tuner::call_modes[0], {{{"all_reduce", 8}, std::nullopt, "libcublasLt.so.12 is not installed"}}}};
  EXPECT_FALSE(is_decided(some));
  tuner::TuningResult result;
  result.no_settings_reason = "gemm:64,64,bf16: libcublasLt.so.12 is not installed.";
  const reports::Tuning tuning = tuning_report(some, result, {});
  EXPECT_EQ(tuning.outcome, "refused");
  EXPECT_EQ(tuning.because, result.no_settings_reason);
  some.call_modes[0].sizes[0].gain = tuner::Gain{.standard_s = 1e-5, .tuned_s = 1e-5, .share = 0, .interval = {-1, 1}};
  EXPECT_TRUE(is_decided(some));
  some.call_modes.clear();
  some.search.records = course().search.records;
  EXPECT_TRUE(is_decided(some));
}

TEST(TuningReport, has_variables_where_sizes_have_no_settings_and_says_why_they_have_none) {
  tuner::TuningResult result;
  result.no_settings_reason = "What was found could not be confirmed.";
  TuningCourse some = course();
  some.skipped = true;
  const tuner::JudgedArm faster{tuner::make_arm({{"NCCL_X", "1"}}), tuner::Objective{1.1, {1.05, 1.15}}};
  choose_variables(some, result, {}, {});
  EXPECT_EQ(tuning_report(some, result, {}).outcome, "refused") << "no variable was faster";
  choose_variables(some, result, faster, {{"all_reduce", 8}});
  const reports::Tuning tuning = tuning_report(some, result, {});
  EXPECT_EQ(tuning.outcome, "settings");
  EXPECT_EQ(tuning.because, "NCCL_X=1 for all sizes.");
  EXPECT_THAT(tuning.refusals, ElementsAre("a row", "a remark", "What was found could not be confirmed."));
  EXPECT_EQ(result.environment_judged_at.size(), 1u);
  EXPECT_TRUE(is_decided(some));
}

// Jobs that load the variables alone would run without the tuner beside which they were faster.
TEST(TuningReport, has_the_tuner_beside_which_variables_were_measured) {
  TuningCourse some = course();
  some.of_default = {{"NCCL_TUNER_PLUGIN", "/opt/tuner.so"}};
  const tuner::JudgedArm faster{tuner::make_arm({{"NCCL_X", "1"}}), tuner::Objective{1.1, {1.05, 1.15}}};
  some.arms = {faster};
  tuner::TuningResult result;
  choose_variables(some, result, {}, {});
  EXPECT_TRUE(result.environment.empty()) << "nothing is set";
  choose_variables(some, result, faster, {});
  EXPECT_EQ(result.environment, (Environment{{"NCCL_TUNER_PLUGIN", "/opt/tuner.so"}, {"NCCL_X", "1"}}));
  const reports::Tuning tuning = tuning_report(some, result, {});
  ASSERT_EQ(tuning.arms.size(), 1u);
  EXPECT_TRUE(tuning.arms[0].adopted);
}

TEST(TuningReport, has_no_variables_together_with_rows) {
  tuner::TuningResult result;
  result.table.rows = {{tuner::Function::all_reduce, 8, 8, *tuner::parse_setting("ring/ll"), 9}};
  TuningCourse some;
  choose_variables(some, result, {tuner::make_arm({{"NCCL_X", "1"}}), tuner::Objective{1.1, {1.05, 1.15}}}, {});
  EXPECT_TRUE(result.environment.empty());
  ASSERT_EQ(some.remarks.size(), 1u);
  EXPECT_THAT(some.remarks[0], testing::HasSubstr("NCCL_X=1 was also faster by itself"));
}

TEST(TuningReport, has_no_settings_where_nccls_own_failed_in_the_tuning) {
  tuner::TuningResult found;
  found.table.rows = {{tuner::Function::all_reduce, 8, 8, *tuner::parse_setting("ring/ll"), 9}};
  found.environment = {{"NCCL_X", "1"}};
  found.gains = gain_lines(course().confirmations);
  TuningCourse some = course();
  tuner::TuningResult result = found;
  set_nothing_on_a_faulty_machine(some, result);
  EXPECT_EQ(tuning_report(some, result, {}).outcome, "settings") << "a setting alone gave wrong data";
  const auto because = [&](Trial::Outcome outcome) {
    some = course();
    some.search.failures.push_back({{"all_reduce", 64 << 10}, {}, outcome, "so"});
    result = found;
    set_nothing_on_a_faulty_machine(some, result);
    const reports::Tuning tuning = tuning_report(some, result, {});
    EXPECT_EQ(tuning.outcome, "refused");
    EXPECT_TRUE(tuning.rows.empty() && tuning.environment.empty() && result.gains.empty());
    EXPECT_EQ(tuning.confirmations.at(0).setting, std::nullopt);
    EXPECT_EQ(tuning.confirmations.at(0).verdict, "faster with ring/ll, but it is not set");
    EXPECT_EQ(tuning.confirmations.at(1).verdict, "the default");
    return tuning.because;
  };
  EXPECT_EQ(because(Trial::Outcome::wrong_data),
            "NCCL's own settings gave wrong data at all_reduce 64 KiB, and nothing is set on a faulty machine.");
  EXPECT_EQ(because(Trial::Outcome::failed),
            "NCCL's own settings failed at all_reduce 64 KiB, and nothing is set on a faulty machine.");
}

TEST(TuningReport, has_a_gain_table_of_what_was_faster) {
  const std::vector<tuner::GainLine> lines = gain_lines(course().confirmations);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].bytes, 16u);
  EXPECT_EQ(lines[0].setting, "ring/ll");
  // Faster over all of its sizes, and at none of them beyond doubt: the sizes are shown with their intervals.
  std::vector<tuner::ConfirmedSizePoint> doubtful = course().confirmations;
  for (tuner::ConfirmedSizePoint& point : doubtful)
    if (point.gain) point.gain->interval.low = -0.01;
  EXPECT_GE(gain_lines(doubtful).size(), 1u);
}

}  // namespace
}  // namespace p5
