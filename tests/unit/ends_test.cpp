// Exit code, console, JSON, JUnit, Markdown and Prometheus agree on the end of a run or comparison, for all ends alone
// and in pairs.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "bench/base/text.hpp"
#include "report_ends.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/decision.hpp"
#include "reports/judge.hpp"
#include "reports/writer.hpp"

namespace p5::reports {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int launches = 7;

void add_figures(Report& report, const char* collective, double factor) {
  Result& result = add(report, collective, 2, Grade::ok);
  Measurement& m = result.measurement;
  m.measured_case.backend = "nccl";
  m.measured_case.bytes = GiB(1);
  m.measured_case.group = "world";
  if (m.measured_case.collective->pairwise) m.measured_case.pair = "other_node";
  m.throughput = Series{.operations_per_sample = 1, .samples = {}, .summary = {}, .stopped_because = ""};
  for (int i = 0; i < launches; ++i) m.launches_s.push_back(0.003 * factor * (1 + 0.001 * i));
  m.throughput->summary = summarize(m.launches_s);
  result.verdict.fraction = 0.9;
}

// A run of two nodes that ends in these ways.
Report run_with(const std::vector<const End*>& ends, double factor = 1) {
  Report report = two_nodes();
  report.provenance = "measured";
  report.run.backend = "nccl";
  report.run.command = {"--backend", "nccl"};
  report.run.started = "2026-11-20T12:00:00Z";
  report.run.nodes = 2;
  report.run.ranks = 4;
  report.run.launches = launches;
  for (const char* const collective : {"all_reduce", "all_gather", "p2p"}) add_figures(report, collective, factor);
  ExitCode code = ExitCode::ok;
  for (const End* const end : ends) {
    end->leave(report);
    code = worse(code, end->code);
  }
  if (!report.run.ended_by.empty()) report.status = "partial";
  report.grade = overall(report);
  report.exit_code = worse(exit_code(report, true), code);
  report.decision = decide(report);
  return report;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string found_in(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match[1].str() : "not found";
}

bool is_red(const std::string& junit) {
  return found_in(junit, "failures=\"(\\d+)\"") != "0" || found_in(junit, "errors=\"(\\d+)\"") != "0";
}

// Readers take equal names for one test.
void expect_no_name_twice(const std::string& junit) {
  const std::regex name("<testcase classname=\"[^\"]*\" name=\"[^\"]*\"");
  std::set<std::string> names;
  for (std::sregex_iterator at(junit.begin(), junit.end(), name), end; at != end; ++at)
    EXPECT_TRUE(names.insert(at->str()).second) << at->str();
}

template <class Try>
void for_all_pairs_of_ends(const Try& attempt) {
  for (const End& a : all_ends)
    for (const End& b : all_ends) {
      SCOPED_TRACE(fmt::format("{}; {}", a.name, b.name));
      if (&a == &b)
        attempt({&a});
      else
        attempt({&a, &b});
    }
}

void expect_one_answer(const Report& report) {
  const int code = static_cast<int>(report.exit_code);
  const Decision& decision = report.decision;
  SCOPED_TRACE(fmt::format("{}: {}", code, decision.sentence));
  const auto json = nlohmann::json::parse(render_json(report));
  EXPECT_EQ(json.at("exit_code"), code);
  EXPECT_EQ(json.at("decision").at("word"), decision.word);
  EXPECT_EQ(decision.word == accept, code == 0);
  EXPECT_EQ(first_line(render_console(report)), decision.sentence);
  EXPECT_EQ(first_line(render_table(report)), decision.sentence);
  EXPECT_TRUE(first_line(render_markdown(report)).starts_with("## " + decision.word));
  EXPECT_THAT(render_html(report), HasSubstr(decision.word));
  const std::string junit = render_junit(report);
  EXPECT_EQ(found_in(junit, "name=\"exit code\" value=\"(\\d+)\""), std::to_string(code));
  EXPECT_EQ(is_red(junit), code != 0 && code != 14) << junit;
  EXPECT_EQ(found_in(junit, "classname=\"decision\"[^>]*>(<system-out>)") != "not found", code == 0);
  expect_no_name_twice(junit);
  const std::string metrics = render_prometheus(report);
  EXPECT_EQ(found_in(metrics, "p5bench_exit_code\\{[^}]*\\} (\\d+)"), std::to_string(code));
  EXPECT_EQ(found_in(metrics, "p5bench_decision\\{[^}]*word=\"([A-Z ]+)\"[^}]*\\} 1\n"), decision.word);
  const bool wrong =
      std::ranges::any_of(report.results, [](const Result& each) { return each.measurement.wrong_elements > 0; });
  EXPECT_EQ(found_in(metrics, "p5bench_wrong_elements\\{[^}]*\\} ([1-9]\\d*)\n") != "not found", wrong);
  EXPECT_EQ(found_in(render_nccl_tests(report), "(gave wrong data|FAILED)") != "not found", wrong);
}

TEST(Ends, of_a_run_are_said_alike_in_all_formats) {
  for_all_pairs_of_ends([](const std::vector<const End*>& ends) { expect_one_answer(run_with(ends)); });
}

TEST(Ends, with_wrong_data_in_a_launch_and_a_failure_in_another_are_said_alike_in_all_formats) {
  for (const bool has_time : {true, false}) {
    Report report = run_with({});
    Measurement& m = report.results.front().measurement;
    m.wrong_elements = 3;
    m.outcome = Outcome::failed;
    m.because = "in launch 2 of 7: no progress";
    if (!has_time) m.throughput.reset();
    report.results.front().verdict.grade = Grade::wrong;
    report.grade = overall(report);
    report.exit_code = exit_code(report, true);
    report.decision = decide(report);
    EXPECT_EQ(report.exit_code, ExitCode::wrong_data);
    expect_one_answer(report);
  }
}

reports::Run as_run(const std::string& name, Report report) {
  return {.name = name, .report = std::move(report), .journal = {}};
}

void expect_one_answer(const Comparison& c) {
  const int code = static_cast<int>(c.exit_code);
  SCOPED_TRACE(fmt::format("{}: {}", code, c.headline));
  const auto json = nlohmann::json::parse(render_json(c));
  EXPECT_EQ(json.at("exit_code"), code);
  EXPECT_EQ(json.at("headline"), c.headline);
  EXPECT_THAT(render_console(c), HasSubstr(c.headline));
  EXPECT_THAT(render_markdown(c), HasSubstr(c.headline.substr(0, c.headline.find_first_of(">%|_"))));
  const std::string junit = render_junit(c);
  EXPECT_EQ(found_in(junit, "name=\"exit code\" value=\"(\\d+)\""), std::to_string(code));
  EXPECT_EQ(is_red(junit), code != 0 && code != 14) << junit;
  EXPECT_EQ(found_in(junit, "classname=\"answer\"[^>]*>(<system-out>)") != "not found", code == 0);
  expect_no_name_twice(junit);
  static const std::map<int, std::string> words{{0, "NO REGRESSION"},
                                                {10, "REGRESSION|AS BAD AS BEFORE"},
                                                {11, "WRONG DATA"},
                                                {12, "FAILED|FINISH"},
                                                {14, "INCONCLUSIVE"}};
  ASSERT_TRUE(words.contains(code));
  EXPECT_NE(found_in(c.headline, "(" + words.at(code) + ")"), "not found");
}

void expect_no_worse_end_hidden(const Report& fresh, const Comparison& c) {
  if (fresh.exit_code == ExitCode::wrong_data) {
    EXPECT_EQ(c.exit_code, ExitCode::wrong_data) << c.headline;
  }
  if (fresh.exit_code == ExitCode::unfinished || fresh.exit_code == ExitCode::environment) {
    EXPECT_EQ(c.exit_code, ExitCode::unfinished) << c.headline;
  }
}

TEST(Ends, of_a_comparison_are_said_alike_in_all_formats) {
  const std::vector<reports::Run> healthy{as_run("base", run_with({}))};
  for (const double factor : {1.0, 1.3})
    for_all_pairs_of_ends([&](const std::vector<const End*>& ends) {
      const std::vector<reports::Run> fresh{as_run("new", run_with(ends, factor))};
      const Comparison c = compare(make_side("BASE", healthy), make_side("NEW", fresh));
      expect_one_answer(c);
      expect_no_worse_end_hidden(fresh[0].report, c);
    });
}

TEST(Ends, of_a_base_hide_none_of_the_new_run) {
  for_all_pairs_of_ends([&](const std::vector<const End*>& ends) {
    const std::vector<reports::Run> base{as_run("base", run_with({ends.front()}))};
    const std::vector<reports::Run> fresh{as_run("new", run_with({ends.back()}))};
    const Comparison c = compare(make_side("BASE", base), make_side("NEW", fresh));
    expect_one_answer(c);
    expect_no_worse_end_hidden(fresh[0].report, c);
  });
}

TEST(Ends, of_the_newest_run_of_a_history_are_said_alike_in_all_formats) {
  for_all_pairs_of_ends([&](const std::vector<const End*>& ends) {
    std::vector<reports::Run> runs;
    for (int day = 0; day < 5; ++day) runs.push_back(as_run(fmt::format("day{}", day), run_with({})));
    runs.push_back(as_run("newest", run_with(ends)));
    const std::span<const reports::Run> all = runs;
    Comparison c = compare(make_side("BASE", all.first(5)), make_side("NEW", all.last(1)));
    add_trend(c, trend_of(all));
    expect_one_answer(c);
    expect_no_worse_end_hidden(runs.back().report, c);
  });
}

// Some of eight earlier runs ended like the newest, also in other figures: it stands all the same.
TEST(Ends, of_the_newest_run_of_a_history_stand_whatever_earlier_runs_were) {
  for (const End& end : all_ends)
    for (const int like_it : {1, 2, 4, 8})
      for (const double factor : {1.0, 1.3}) {
        SCOPED_TRACE(fmt::format("{}, {} times before, x {}", end.name, like_it, factor));
        std::vector<reports::Run> runs;
        for (int day = 0; day < 8; ++day)
          runs.push_back(as_run(fmt::format("day{}", day), day < like_it ? run_with({&end}, factor) : run_with({})));
        runs.push_back(as_run("newest", run_with({&end}, factor)));
        const std::span<const reports::Run> all = runs;
        Comparison c = compare(make_side("BASE", all.first(8)), make_side("NEW", all.last(1)), {.history = true});
        add_trend(c, trend_of(all));
        expect_one_answer(c);
        const Report& newest = runs.back().report;
        expect_no_worse_end_hidden(newest, c);
        if (!newest.suspects.empty() || !newest.open_questions.empty() ||
            std::ranges::any_of(newest.findings, topo::condemns)) {
          EXPECT_EQ(c.exit_code, newest.exit_code) << c.headline;
          EXPECT_EQ(c.new_suspects.size(), newest.suspects.size());
        }
      }
}

TEST(Ends, with_an_open_question_are_a_regression_unless_base_has_the_same) {
  const auto compared = [](const Report& before, const Report& now, bool history = false) {
    const std::vector<reports::Run> base{as_run("base", before)}, fresh{as_run("new", now)};
    const Comparison c = compare(make_side("BASE", base), make_side("NEW", fresh), {.history = history});
    expect_one_answer(c);
    return c;
  };
  int with_question = 0;
  for (const End& end : all_ends) {
    SCOPED_TRACE(end.name);
    const Report healthy = run_with({}), fresh = run_with({&end});
    if (fresh.open_questions.empty()) continue;
    ++with_question;
    const std::string found = alternatives(fresh.open_questions[0].candidates) + " at fault";
    const Comparison c = compared(healthy, fresh);
    EXPECT_EQ(c.exit_code, ExitCode::slow);
    EXPECT_THAT(c.headline, testing::StartsWith("REGRESSION: NEW found " + found + "; "));
    for (const std::string& text : {render_console(c), render_markdown(c), render_junit(c)})
      EXPECT_THAT(text, HasSubstr(found + ": seen"));
    const Comparison same = compared(fresh, fresh);
    EXPECT_EQ(same.exit_code, ExitCode::ok);
    EXPECT_THAT(same.remarks,
                testing::Contains("BASE and NEW both found " + found + ": a fault that both have is no regression"));
    EXPECT_THAT(compared(fresh, fresh, true).headline, testing::StartsWith("AS BAD AS BEFORE: NEW found " + found));
    Report replaced = fresh;
    replaced.topology.hosts[1].instance = "i-0def";
    EXPECT_EQ(compared(fresh, replaced).exit_code, ExitCode::slow) << "another machine of that name";
  }
  EXPECT_EQ(with_question, 3);
  Report fresh = run_with({&all_ends[5]}), in_other_order = fresh;
  ASSERT_EQ(fresh.open_questions.at(0).host, "n1");
  std::swap(in_other_order.topology.hosts[0], in_other_order.topology.hosts[1]);
  in_other_order.open_questions[0].candidates = {"nic n0r5", "gpu n0g1"};
  EXPECT_EQ(compared(fresh, in_other_order).exit_code, ExitCode::ok);
}

TEST(Ends, of_a_comparison_are_listed_with_their_evidence_for_people) {
  const std::vector<reports::Run> healthy{as_run("base", run_with({}))};
  std::vector<reports::Run> fresh{as_run("new", run_with({})), as_run("other", run_with({}, 1.001))};
  fresh[1].report.run.started = "2026-11-21T12:00:00Z";
  for (const char* const host : {"n0", "n1"})
    fresh[0].report.findings.push_back({"gpu.lost",
                                        topo::Severity::error,
                                        {host, "", {}, {}},
                                        fmt::format("a GPU of {} is gone", host),
                                        "",
                                        topo::About::hardware});
  fresh[1].report.status = "partial";
  fresh[1].report.run.ended_by = "ended by SIGTERM";
  const Comparison c = compare(make_side("BASE", healthy), make_side("NEW", fresh));
  for (const std::string& text : {render_console(c), render_markdown(c)}) {
    EXPECT_THAT(text, HasSubstr("NEW found or ended with:"));
    for (const char* const end : {"new: gpu.lost on n0: a GPU of n0 is gone\n",
                                  "new: gpu.lost on n1: a GPU of n1 is gone\n", "other: ended by SIGTERM\n"})
      EXPECT_THAT(text, HasSubstr(end));
  }
}

TEST(Ends, of_a_side_that_skipped_everything_name_the_reason) {
  const std::vector<reports::Run> whole{as_run("whole", run_with({}))};
  const std::vector<reports::Run> empty{as_run("empty", run_with({&all_ends[1]}))};
  for (const auto& [base, fresh, side] : {std::tuple{&whole, &empty, "NEW"}, std::tuple{&empty, &whole, "BASE"}}) {
    const Comparison c = compare(make_side("BASE", *base), make_side("NEW", *fresh));
    EXPECT_EQ(c.exit_code, ExitCode::inconclusive);
    EXPECT_THAT(c.headline, HasSubstr(fmt::format("{} skipped all of its cases (budget)", side)));
  }
  const Comparison c = compare(make_side("BASE", empty), make_side("NEW", empty));
  EXPECT_THAT(c.headline, HasSubstr("(budget), NEW skipped all"));
}

// Two arms of one run: failures of both arms count.
TEST(Ends, of_arms_are_those_of_the_run) {
  for (const char* const of_a : {"", "wrong", "failed", "skipped"})
    for (const char* const of_b : {"", "wrong", "failed", "skipped"}) {
      SCOPED_TRACE(fmt::format("a: {}; b: {}", of_a, of_b));
      Report report = run_with({});
      report.arms = {{.name = "a", .settings = {}, .context = {}, .problem = {}},
                     {.name = "b", .settings = {}, .context = {}, .problem = {}}};
      const std::vector<Result> results = report.results;
      report.results.clear();
      for (const auto& [arm, trouble] : {std::pair{"a", std::string(of_a)}, std::pair{"b", std::string(of_b)}})
        for (Result result : results) {
          Measurement& m = result.measurement;
          m.measured_case.arm = arm;
          if (trouble == "wrong") {
            m.wrong_elements = 3;
            result.verdict.grade = Grade::wrong;
          } else if (trouble == "failed") {
            m.outcome = Outcome::failed;
            result.verdict.grade = Grade::failed;
          } else if (trouble == "skipped") {
            skip(result);
          }
          report.results.push_back(result);
        }
      report.exit_code = exit_code(report, false);
      report.decision = decide(report);
      const std::vector<reports::Run> runs{as_run("run", report)};
      const Comparison c = compare(make_side("a", runs, "a"), make_side("b", runs, "b"));
      expect_one_answer(c);
      if (*of_b) {
        EXPECT_EQ(c.exit_code == ExitCode::wrong_data, std::string(of_b) == "wrong") << c.headline;
      }
    }
}

}  // namespace
}  // namespace p5::reports
