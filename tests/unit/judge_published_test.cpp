// The bars against published figures of healthy machines: a false alarm returns sound capacity, and a bar that accepts
// three quarters of a figure finds nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "published_figures.hpp"
#include "reports/findings.hpp"
#include "reports/judge.hpp"
#include "topo/platform.hpp"

namespace p5::reports {
namespace {

// A healthy figure of a collective with its size, measured with NCCL.
std::vector<topo::Published> make_rows(const topo::Platform& platform) {
  std::vector<topo::Published> rows;
  for (const topo::Published& row : platform.published)
    if (row.healthy && row.busbw && row.bytes) rows.push_back(row);
  return rows;
}

Bytes part_of(const topo::Published& row) {
  return {row.bytes->count / static_cast<std::uint64_t>(row.nodes * row.gpus)};
}

Verdict judged(const topo::Platform& platform, const topo::Published& row, double share = 1) {
  return as_measured(platform, row, share).second;
}

TEST(MayReduceInSwitch, is_true_for_what_nvls_has) {
  const topo::Platform& platform = topo::find_platform("p5e.48xlarge");
  Case c;
  c.collective = &all_reduce;
  c.ranks = 8;
  EXPECT_TRUE(may_reduce_in_switch(platform, c));
  c.op = ReduceOp::avg;
  EXPECT_FALSE(may_reduce_in_switch(platform, c)) << "NCCL multiplies each rank's elements before it adds them";
  c.op = ReduceOp::sum;
  EXPECT_TRUE(may_reduce_in_switch(platform, c));
  EXPECT_FALSE(may_reduce_in_switch(topo::find_platform("p4d.24xlarge"), c));
  c.type = DataType::float8_e4m3;
  EXPECT_FALSE(may_reduce_in_switch(platform, c));
  c.type = DataType::bfloat16;
  c.nodes = topo::few_domains + 1;
  EXPECT_FALSE(may_reduce_in_switch(platform, c));
  c.nodes = 1;
  c.collective = &all_gather;
  EXPECT_FALSE(may_reduce_in_switch(platform, c));
}

TEST(JudgePublished, calls_no_figure_of_a_healthy_machine_slow) {
  int ok = 0;
  for (const topo::Platform& platform : topo::platforms())
    for (const topo::Published& row : make_rows(platform)) {
      const Verdict v = judged(platform, row);
      EXPECT_NE(v.grade, Grade::slow) << published::text_of(platform, row) << ": " << v.because;
      ok += v.grade == Grade::ok;
    }
  EXPECT_GT(ok, 60);
}

TEST(JudgePublished, judges_most_large_messages_and_calls_three_quarters_of_them_slow) {
  int large = 0, ok = 0;
  for (const topo::Platform& platform : topo::platforms())
    for (const topo::Published& row : make_rows(platform)) {
      if (part_of(row) < MiB(64)) continue;
      ++large;
      if (judged(platform, row).grade != Grade::ok) continue;
      ++ok;
      const Verdict v = judged(platform, row, 0.75);
      EXPECT_EQ(v.grade, Grade::slow) << published::text_of(platform, row) << ": " << v.because;
    }
  EXPECT_GE(ok, 0.8 * large) << large;
  EXPECT_GT(large, 40);
}

// The same fraction of a limit proves nothing on a machine without published figures, unless it is lower than any
// healthy machine reached.
TEST(JudgePublished, judges_only_by_the_floor_where_nobody_has_shown_figures) {
  const auto grade = [](const std::string& name, const Collective& collective, int nodes, double share) {
    const topo::Platform& platform = topo::find_platform(name);
    topo::Published row;
    row.collective = collective.name;
    row.nodes = nodes;
    row.gpus = platform.gpus;
    row.bytes = GiB(64);
    row.busbw = GBps{1};
    row.busbw = GBps{share / *judged(platform, row).fraction};
    return judged(platform, row).grade;
  };
  const double above = 0.72, below = 0.5;
  EXPECT_EQ(grade("p5.48xlarge", all_reduce, 4, above), Grade::slow);
  EXPECT_EQ(grade("p6-b200.48xlarge", all_reduce, 4, above), Grade::slow);
  EXPECT_EQ(grade("p6-b300.48xlarge", all_reduce, 8, above), Grade::slow);
  for (const auto& [name, collective, nodes] :
       {std::tuple{"p5.48xlarge", &all_reduce, 3}, std::tuple{"p5.48xlarge", &reduce_scatter, 4},
        std::tuple{"p5e.48xlarge", &all_reduce, 4}, std::tuple{"p6-b200.48xlarge", &all_reduce, 2},
        std::tuple{"p6-b300.48xlarge", &all_reduce, 4}, std::tuple{"p6-b300.48xlarge", &all_reduce, 1},
        std::tuple{"p3dn.24xlarge", &all_gather, 2}, std::tuple{"p5.4xlarge", &all_gather, 8}}) {
    EXPECT_EQ(grade(name, *collective, nodes, above), Grade::unknown) << name << " " << nodes;
    EXPECT_EQ(grade(name, *collective, nodes, below), Grade::slow) << name << " " << nodes;
  }
  EXPECT_EQ(grade("p5.48xlarge", all_reduce, 64, below), Grade::unknown) << "nobody has shown figures of so many nodes";
}

// --- the table in reports/RESULTS.md

struct Tally {
  int figures = 0, ok = 0, large = 0, large_ok = 0;
  std::set<std::string> why;  // reasons why the others are not judged
};

std::string table() {
  std::string text =
      "| platform | collective | nodes | figures | ok | of those from 64 MiB a rank | why others are not judged |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const topo::Platform& platform : topo::platforms()) {
    std::map<std::pair<std::string, int>, Tally> tallies;
    for (const topo::Published& row : make_rows(platform)) {
      const Verdict v = judged(platform, row);
      const bool ok = v.grade == Grade::ok, large = part_of(row) >= MiB(64);
      Tally& tally = tallies[{row.collective, row.nodes}];
      ++tally.figures;
      tally.ok += ok;
      tally.large += large;
      tally.large_ok += ok && large;
      const std::string why = v.because.substr(v.because.find(": ") + 2);
      if (!ok) tally.why.insert(why.size() > 60 ? why.substr(0, 57) + "..." : why);
    }
    for (const auto& [what, tally] : tallies)
      text += fmt::format("| {} | {} | {} | {} | {} | {} of {} | {} |\n", platform.name, what.first, what.second,
                          tally.figures, tally.ok, tally.large_ok, tally.large, fmt::join(tally.why, "; "));
  }
  return text;
}

// P5BENCH_UPDATE=1 rewrites the table.
TEST(JudgePublished, the_table_of_the_results_is_what_the_bars_say) {
  const std::string path = std::string(P5BENCH_SOURCE_FOLDER) + "/reports/RESULTS.md";
  std::ostringstream read;
  read << std::ifstream(path).rdbuf();
  std::string results = read.str();
  const std::string begin = "<!-- judged: P5BENCH_UPDATE=1 unit_tests writes this table -->\n",
                    end = "<!-- /judged -->";
  const std::size_t from = results.find(begin), to = results.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const std::size_t start = from + begin.size();
  if (std::getenv("P5BENCH_UPDATE")) {
    results.replace(start, to - start, table());
    std::ofstream(path) << results;
  }
  EXPECT_EQ(results.substr(start, results.find(end) - start), table());
}

}  // namespace
}  // namespace p5::reports
