// The bars in force against what others have published of healthy machines: a false alarm sends sound capacity back,
// and a bar that lets three quarters of a figure pass finds nothing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "reports/judge.hpp"
#include "topo/platform.hpp"

namespace p5::reports {
namespace {

// Healthy, of a collective in the way of NCCL, with its size.
std::vector<topo::Published> rows_of(const topo::Platform& platform) {
  std::vector<topo::Published> rows;
  for (const topo::Published& row : platform.published)
    if (row.healthy && row.busbw && row.bytes) rows.push_back(row);
  return rows;
}

Bytes part_of(const topo::Published& row) {
  return {row.bytes->count / static_cast<std::uint64_t>(row.nodes * row.gpus)};
}

// As if this share of the figure had been measured. Who does not say which algorithm ran, may have had NVLS on few
// nodes.
Verdict judged(const topo::Platform& platform, const topo::Published& row, double share = 1) {
  const Collective& collective = find_collective(row.collective);
  Measurement m;
  Case& c = m.measured_case;
  c.backend = "nccl";
  c.collective = &collective;
  c.bytes = *row.bytes;
  c.ranks = row.nodes * row.gpus;
  c.nodes = row.nodes;
  const bool nvls = row.algorithm.empty() && platform.nvls && row.collective == "all_reduce" && row.nodes < 4;
  m.selection = Selection{nvls ? "nvls_tree" : row.algorithm, "", 0, ""};
  m.throughput = Series{.operations_per_sample = 1, .samples = {}, .summary = {}, .stopped_because = ""};
  m.throughput->summary.median =
      static_cast<double>(c.bytes.count) * collective.bus_factor(c.ranks) / (share * row.busbw->count * 1e9);
  topo::Topology topology;
  topology.platform = platform.name;
  return judge(m, limits_of(platform), topology, {});
}

std::string text_of(const topo::Platform& platform, const topo::Published& row) {
  return fmt::format("{} {} x {} {} {} {} GB/s {} ({})", platform.name, row.nodes, row.gpus, row.collective,
                     to_text(*row.bytes), row.busbw->count, row.algorithm, row.source);
}

TEST(JudgePublished, calls_no_figure_of_a_healthy_machine_slow) {
  int ok = 0;
  for (const topo::Platform& platform : topo::platforms())
    for (const topo::Published& row : rows_of(platform)) {
      const Verdict v = judged(platform, row);
      EXPECT_NE(v.grade, Grade::slow) << text_of(platform, row) << ": " << v.because;
      ok += v.grade == Grade::ok;
    }
  EXPECT_GT(ok, 60);
}

TEST(JudgePublished, judges_most_large_messages_and_calls_three_quarters_of_them_slow) {
  int large = 0, ok = 0;
  for (const topo::Platform& platform : topo::platforms())
    for (const topo::Published& row : rows_of(platform)) {
      if (part_of(row) < MiB(64)) continue;
      ++large;
      if (judged(platform, row).grade != Grade::ok) continue;
      ++ok;
      const Verdict v = judged(platform, row, 0.75);
      EXPECT_EQ(v.grade, Grade::slow) << text_of(platform, row) << ": " << v.because;
    }
  EXPECT_GE(ok, 0.8 * large) << large;
  EXPECT_GT(large, 40);
}

// The same share of the same limit on a machine that nobody has published figures of is no evidence.
TEST(JudgePublished, judges_nothing_where_nobody_has_shown_figures) {
  const auto grade = [](const std::string& name, const Collective& collective, int nodes) {
    topo::Published row;
    row.collective = collective.name;
    row.nodes = nodes;
    row.bytes = GiB(64);
    row.busbw = GBps{1};
    return judged(topo::find_platform(name), row).grade;
  };
  EXPECT_EQ(grade("p5.48xlarge", all_reduce, 4), Grade::slow);
  EXPECT_EQ(grade("p5.48xlarge", all_reduce, 3), Grade::unknown);
  EXPECT_EQ(grade("p5.48xlarge", all_reduce, 64), Grade::unknown);
  EXPECT_EQ(grade("p5.48xlarge", reduce_scatter, 4), Grade::unknown);
  EXPECT_EQ(grade("p5e.48xlarge", all_reduce, 4), Grade::unknown);
  EXPECT_EQ(grade("p6-b200.48xlarge", all_reduce, 4), Grade::slow);
  EXPECT_EQ(grade("p6-b200.48xlarge", all_reduce, 2), Grade::unknown);
  EXPECT_EQ(grade("p6-b300.48xlarge", all_reduce, 8), Grade::slow);
  EXPECT_EQ(grade("p6-b300.48xlarge", all_reduce, 4), Grade::unknown);
  EXPECT_EQ(grade("p6-b300.48xlarge", all_reduce, 1), Grade::unknown);
}

// --- the table in reports/RESULTS.md

struct Tally {
  int figures = 0, ok = 0, large = 0, large_ok = 0;
  std::set<std::string> why;  // the others are not judged
};

std::string table() {
  std::string text =
      "| platform | collective | nodes | figures | ok | of those from 64 MiB a rank | why others are not judged |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const topo::Platform& platform : topo::platforms()) {
    std::map<std::pair<std::string, int>, Tally> tallies;
    for (const topo::Published& row : rows_of(platform)) {
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

// P5BENCH_UPDATE=1 writes the table anew.
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
