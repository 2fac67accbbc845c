// The journal reader reads only the fields that comparisons need, and refuses files that are no journals.
#include "reports/journal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/base/error.hpp"
#include "comparison_sides.hpp"
#include "tests/unit/in_folder.hpp"

namespace p5::reports {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class Journals : public InFolder {
 protected:
  std::vector<Result> read(const std::string& text) const {
    std::ofstream(folder / "measurements.jsonl", std::ios::binary) << text;
    return read_journal(folder / "measurements.jsonl");
  }
  std::string problem_of(const std::string& text) const {
    try {
      read(text);
    } catch (const UsageError& problem) {
      return problem.what();
    }
    return "read";
  }
};

Result line_of(int launch) {
  Result line;
  Measurement& m = line.measurement;
  m.measured_case = case_of(all_reduce, MiB(1));
  // Text that a careless parser would misread.
  m.measured_case.settings = {{"odd", "\"}],\\{ [\n"}};
  m.because = "a \"quoted\" } ] \\";
  m.launch = launch;
  m.throughput = Series{};
  m.throughput->samples = {1e-3, 2.5e-3, 1.25e-3, 1e-3, 1e-3, 2e-3};
  m.throughput->summary = summarize(m.throughput->samples);
  return line;
}

TEST_F(Journals, are_read_as_they_were_written) {
  const std::vector<Result> lines =
      read(to_json(line_of(0), true).dump() + "\n" + to_json(line_of(3), true).dump() + "\n");
  ASSERT_EQ(lines.size(), 2u);
  const Measurement& m = lines[1].measurement;
  EXPECT_EQ(m.launch, 3);
  EXPECT_EQ(m.measured_case.settings, line_of(3).measurement.measured_case.settings);
  EXPECT_EQ(m.measured_case.op, ReduceOp::sum);
  EXPECT_FALSE(m.latency);
  EXPECT_THAT(m.throughput->samples,
              testing::Pointwise(testing::DoubleNear(1e-15), line_of(3).measurement.throughput->samples));
  EXPECT_NEAR(m.throughput->summary.interval->low, line_of(3).measurement.throughput->summary.interval->low, 1e-15);
}

TEST_F(Journals, keep_the_rounding_of_imported_times) {
  Result line = line_of(0);
  line.measurement.throughput->rounding_us = 2.5;
  reports::Run run{.name = "import", .report = {}, .journal = read(to_json(line, true).dump() + "\n")};
  line.measurement.launches_s = {line.measurement.throughput->summary.median};
  run.report.results = {line};
  const Side side = make_side("NEW", {&run, 1});
  ASSERT_EQ(side.observations.at(0).throughput.size(), 1u);
  EXPECT_EQ(side.observations[0].throughput[0].samples_s.size(), 6u) << "of the journal";
  EXPECT_NEAR(side.observations[0].throughput[0].rounding_s, 2.5e-6, 1e-15);
  std::string odd = to_json(line, true).dump() + "\n";
  odd.replace(odd.find("\"rounding_us\":2.5"), 17, "\"rounding_us\":-25");
  EXPECT_THAT(problem_of(odd), HasSubstr("is no rounding error of a time"));
}

TEST_F(Journals, may_be_written_by_others_with_blanks) {
  std::string text = to_json(line_of(1), true).dump();
  const nlohmann::json parsed = nlohmann::json::parse(text);
  std::string spaced = "{ ";
  for (const auto& [key, value] : parsed.items())
    spaced += (spaced.size() > 2 ? " , " : "") + nlohmann::json(key).dump() + " : " + value.dump();
  spaced += " }";
  const std::size_t list = spaced.find("[1000.0,2500.0");
  ASSERT_NE(list, std::string::npos);
  spaced.replace(list, 14, "[ 1e3 , 2500.0");
  EXPECT_NEAR(read(spaced + "\n").at(0).measurement.throughput->samples[0], 1e-3, 1e-15);
}

TEST_F(Journals, that_end_in_the_middle_lose_the_last_line_alone) {
  const std::string text = to_json(line_of(0), true).dump() + "\n";
  EXPECT_EQ(read(text + text.substr(0, text.size() / 2)).size(), 1u);
  EXPECT_EQ(read("").size(), 0u);
}

TEST_F(Journals, may_have_empty_lines) {
  const std::string text = to_json(line_of(0), true).dump() + "\n";
  EXPECT_EQ(read("\n" + text + " \r\n" + text + "\n\n").size(), 2u);
  EXPECT_THAT(problem_of(text + "\nno JSON\n"), HasSubstr("line 3"));
}

TEST_F(Journals, that_are_none_are_refused_by_line) {
  const std::string good = to_json(line_of(0), true).dump() + "\n";
  EXPECT_THAT(problem_of(good + "no JSON\n" + good), HasSubstr("line 2"));
  EXPECT_THAT(problem_of("{}\n"), HasSubstr("no case"));
  EXPECT_THAT(problem_of(good.substr(0, good.size() - 2) + "\n"), HasSubstr("line 1"));
  EXPECT_THAT(problem_of("{\"case\": {\"collective\": \"allreduce\"}}\n"), HasSubstr("line 1"));
  std::string odd = good;
  odd.replace(odd.find("[1000.0"), 7, "[10x0.0");
  EXPECT_THAT(problem_of(odd), HasSubstr("is no list of times"));
}

TEST_F(Journals, whose_samples_are_not_those_of_their_summary_are_refused_by_line) {
  const nlohmann::json good = to_json(line_of(0), true);
  nlohmann::json slower = good, shifted = good, fewer = good, foreign = good;
  for (nlohmann::json& sample : slower["throughput"]["samples_us"]) sample = 2 * sample.get<double>();
  for (nlohmann::json& sample : shifted["throughput"]["samples_us"]) sample = 1.01 * sample.get<double>();
  fewer["throughput"]["samples_us"].erase(1);  // the largest
  for (const nlohmann::json& line : {slower, shifted, fewer}) {
    EXPECT_THAT(problem_of(good.dump() + "\n" + line.dump() + "\n"),
                AllOf(HasSubstr("line 2"), HasSubstr("throughput: it has samples of"),
                      HasSubstr("but min_us and max_us are 1000 and 2500")));
    EXPECT_THROW(result_from_json(line), UsageError);
  }
  for (const char* const name : {"min_us", "max_us"}) foreign["throughput"].erase(name);
  EXPECT_EQ(problem_of(foreign.dump() + "\n"), "read");
}

TEST(JournalLines, have_what_naming_parts_needs) {
  Result line;
  Measurement& m = line.measurement;
  m.measured_case = case_of(p2p, MiB(1));
  std::vector<float> samples;
  for (int i = 1; i <= 40; ++i) samples.push_back(1e-3f * static_cast<float>(i));
  m.groups = {{{3, 11}, {20e-3}, samples}, {{4, 12}, {1e-3}, {1e-3f}}};
  m.silent_groups = {{5, 13}};
  m.finished_groups = {{6, 14}, {7, 15}};
  m.wrong_groups = {{3, 11}};
  const Measurement pairs = result_from_json(to_json(line, true)).measurement;
  EXPECT_EQ(pairs.silent_groups, m.silent_groups);
  EXPECT_EQ(pairs.finished_groups, m.finished_groups);
  EXPECT_EQ(pairs.wrong_groups, m.wrong_groups);
  ASSERT_EQ(pairs.groups.size(), 2u);
  ASSERT_EQ(pairs.groups[0].samples.size(), 32u);
  EXPECT_FLOAT_EQ(pairs.groups[0].samples[3], 4e-3f);
  EXPECT_FLOAT_EQ(pairs.groups[0].samples[4], 6e-3f) << "each fifth one is left out";
  EXPECT_FLOAT_EQ(pairs.groups[0].samples[31], 39e-3f);
  EXPECT_EQ(pairs.groups[1].samples.size(), 1u);
  m.measured_case = case_of(all_reduce, MiB(1));
  m.groups = {{{0, 1, 2}, {1e-3}, {1e-3f}}, {{3, 4, 5}, {2e-3}, {2e-3f, 3e-3f}}};
  m.silent_groups.clear();
  m.wrong_groups = {{3, 4, 5}};
  const Measurement groups = result_from_json(to_json(line, true)).measurement;
  EXPECT_EQ(groups.groups.at(1).samples.size(), 2u);
  EXPECT_EQ(groups.wrong_groups, (std::vector<Group>{{3}}));
  for (const char* const name : {"group_samples_us", "silent_groups", "finished_groups", "wrong_groups"})
    EXPECT_FALSE(to_json(line, false).contains(name)) << name;
}

TEST(JournalLines, of_earlier_versions_lack_it_and_bad_ones_are_refused) {
  Result line = line_of(0);
  line.measurement.groups = {{{0, 1}, {1e-3}, {1e-3f}}, {{2, 3}, {1e-3}, {1e-3f}}};
  line.measurement.wrong_groups = {{2, 3}};
  const nlohmann::json j = to_json(line, true);
  nlohmann::json old = j;
  for (const char* const name : {"group_samples_us", "wrong_groups"}) EXPECT_EQ(old.erase(name), 1u);
  EXPECT_TRUE(result_from_json(old).measurement.groups.at(1).samples.empty());
  for (const auto& [name, bad] : std::vector<std::pair<const char*, nlohmann::json>>{
           {"wrong_groups", nlohmann::json::array({nlohmann::json::array()})},
           {"wrong_groups", nlohmann::json::array({nlohmann::json::array({-1})})},
           {"group_samples_us", nlohmann::json::array({nlohmann::json::array({1})})},
           {"group_samples_us", nullptr}}) {
    nlohmann::json other = j;
    other[name] = bad;
    EXPECT_THROW(result_from_json(other), UsageError) << bad;
  }
}

TEST(JournalLines, have_all_samples_of_works_beside_each_other) {
  const auto series = [](std::vector<double> samples) {
    Series each;
    each.summary = summarize(samples);
    each.samples = std::move(samples);
    return each;
  };
  Result line = line_of(0);
  Concurrency& concurrency = line.measurement.concurrency.emplace();
  for (const char* const name : {"all_reduce", "d2h", "h2d"})
    concurrency.operations.push_back({.name = name,
                                      .alone = series({1e-3, 2e-3}),
                                      .beside = series({3e-3, 4e-3, 5e-3}),
                                      .beside_each = {{"a", series({6e-3})}, {"b", series({7e-3, 8e-3})}}});
  concurrency.together = series({9e-3});
  const Measurement m = result_from_json(to_json(line, true)).measurement;
  ASSERT_TRUE(m.concurrency);
  const ConcurrentOperation& last = m.concurrency->operations.at(2);
  EXPECT_THAT(last.alone.samples, ElementsAre(testing::DoubleNear(1e-3, 1e-15), testing::DoubleNear(2e-3, 1e-15)));
  EXPECT_EQ(last.beside.samples.size(), 3u);
  EXPECT_EQ(last.beside_each.at(1).times.samples.size(), 2u);
  EXPECT_EQ(m.concurrency->together.samples.size(), 1u);
  EXPECT_TRUE(result_from_json(to_json(line, false)).measurement.concurrency->together.samples.empty());
}

}  // namespace
}  // namespace p5::reports
