// The resource that binds an operation; no published figure of a healthy machine exceeds its limit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "bench/model/collective.hpp"
#include "topo/limits.hpp"

namespace p5::topo {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Limits& parts(const std::string& platform) {
  static std::map<std::string, Limits> of;
  return of.try_emplace(platform, limits_of(find_platform(platform))).first->second;
}

double wire(const std::string& platform, const Operation& operation) {
  const auto limit = limit_of(parts(platform), operation, Level::wire);
  return limit ? limit->rate.count : -1;
}

Limit achievable(const std::string& platform, const Operation& operation) {
  return limit_of(parts(platform), operation, Level::achievable).value_or(Limit{});
}

Operation on_nodes(std::string_view collective, int nodes, bool nvls = false) {
  return {.route = find_collective(collective).route, .ranks = 8 * nodes, .nodes = nodes, .nvls = nvls};
}

TEST(OperationLimits, within_a_node_are_a_gpus_links) {
  for (const char* each : {"p2p", "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all",
                           "gather", "scatter", "send_recv", "hypercube", "lsa_all_reduce", "lsa_all_to_all"}) {
    EXPECT_DOUBLE_EQ(wire("p5.48xlarge", on_nodes(each, 1)), 450) << each;
    EXPECT_DOUBLE_EQ(achievable("p5.48xlarge", on_nodes(each, 1)).rate.count, 370.8) << each;
  }
  // A rank sends all data, of which bus bandwidth counts 7/8.
  EXPECT_DOUBLE_EQ(wire("p5.48xlarge", on_nodes("all_to_allv", 1)), 450 * 7.0 / 8);
}

TEST(OperationLimits, are_known_for_every_collective) {
  for (const Collective* each : collectives())
    for (const int nodes : {1, 2, 8}) EXPECT_GT(wire("p5.48xlarge", on_nodes(each->name, nodes)), 0) << each->name;
}

TEST(OperationLimits, of_nvls_lie_beyond_the_links) {
  EXPECT_DOUBLE_EQ(wire("p5en.48xlarge", on_nodes("all_reduce", 1, true)), 700);
  EXPECT_DOUBLE_EQ(wire("p6-b200.48xlarge", on_nodes("all_reduce", 1, true)), 1400);
  // Four of the eight GPUs: 450 x 2 x 3 / 5.
  EXPECT_DOUBLE_EQ(wire("hgx-h200", {.route = all_reduce.route, .ranks = 4, .nodes = 1, .nvls = true}), 540);
  // Only all_reduce moves less data through a switch that reduces.
  EXPECT_DOUBLE_EQ(wire("p5en.48xlarge", on_nodes("all_gather", 1, true)), 450);
  EXPECT_EQ(wire("p4d.24xlarge", on_nodes("all_reduce", 1, true)), -1);
}

TEST(OperationLimits, between_nodes_are_the_nics_of_a_node) {
  for (const char* each : {"all_gather", "reduce_scatter", "broadcast", "reduce"})
    for (int nodes : {2, 3, 4, 32}) EXPECT_DOUBLE_EQ(wire("p5.48xlarge", on_nodes(each, nodes)), 400) << each << nodes;
  for (int nodes : {4, 32}) EXPECT_DOUBLE_EQ(wire("p5.48xlarge", on_nodes("all_reduce", nodes)), 400);
  EXPECT_EQ(achievable("p5.48xlarge", on_nodes("all_gather", 2)).binding, "nic");
  EXPECT_DOUBLE_EQ(wire("p6-b300.48xlarge", on_nodes("all_reduce", 8)), 800);
}

// Two nodes of p4d: each has to send its sum once, 2 x 15 / 16 of bus bandwidth for one of its NICs' rate.
TEST(OperationLimits, all_reduce_of_two_nodes_needs_less_of_the_nics_than_a_ring) {
  EXPECT_DOUBLE_EQ(wire("p4d.24xlarge", on_nodes("all_reduce", 2)), 50 * 15.0 / 8);
  EXPECT_DOUBLE_EQ(wire("p4d.24xlarge", on_nodes("all_reduce", 3)), 50 * 1.5 * 23 / 24);
  EXPECT_DOUBLE_EQ(wire("p4d.24xlarge", on_nodes("all_reduce", 4)), 50);
  EXPECT_EQ(achievable("p4d.24xlarge", on_nodes("all_reduce", 2)).binding, "nic");
}

TEST(OperationLimits, say_where_all_reduce_cannot_prove_the_nics) {
  const Limit limit = achievable("p5.48xlarge", on_nodes("all_reduce", 2, true));
  EXPECT_EQ(limit.binding, "nvls");
  EXPECT_NEAR(limit.rate.count, 514.5, 0.1);
  EXPECT_THAT(limit.because, AllOf(HasSubstr("does not test"), HasSubstr("667.5")));
  EXPECT_EQ(achievable("p5.48xlarge", on_nodes("all_reduce", 2)).binding, "nvlink");
}

TEST(OperationLimits, of_an_exchange_count_the_blocks_that_leave_a_node) {
  EXPECT_DOUBLE_EQ(wire("p5.48xlarge", on_nodes("all_to_all", 2)), 50 * 15.0 / 8);
  EXPECT_DOUBLE_EQ(wire("p5.48xlarge", on_nodes("all_to_all", 32)), 50 * 255.0 / 248);
  EXPECT_DOUBLE_EQ(wire("p5.48xlarge", on_nodes("hypercube", 2)), 50 * 15.0 / 8);
  // The first rank of a node sends 8 to 15 of its parts 1 to 15 over its NICs: 92 of 120.
  EXPECT_DOUBLE_EQ(wire("p5.48xlarge", on_nodes("all_to_allv", 2)), 50 * (15.0 / 16) / (92.0 / 120));
}

// A root has its own NICs alone: 8 of the 15 parts pass them, 7 its links.
TEST(OperationLimits, of_a_star_are_the_roots_own) {
  for (const char* each : {"gather", "scatter"}) {
    EXPECT_DOUBLE_EQ(wire("p5.48xlarge", on_nodes(each, 2)), 50 * 15.0 / 8) << each;
    EXPECT_DOUBLE_EQ(wire("p4d.24xlarge", on_nodes(each, 2)), 12.5 * 15 / 8) << each;
  }
}

TEST(OperationLimits, of_pairs_and_rails_are_a_gpus_own_nics) {
  EXPECT_DOUBLE_EQ(wire("p4d.24xlarge", {.route = p2p.route, .ranks = 2, .nodes = 2}), 6.25);
  EXPECT_DOUBLE_EQ(wire("p4d.24xlarge", {.route = p2p.route, .ranks = 2, .nodes = 2, .alone = true}), 12.5);
  EXPECT_DOUBLE_EQ(wire("p4d.24xlarge", on_nodes("send_recv", 2)), 12.5);
  // One GPU of each node, all rails at once: with two nodes this measures the NICs, too.
  EXPECT_DOUBLE_EQ(wire("p5.48xlarge", {.route = all_reduce.route, .ranks = 2, .nodes = 2}), 50);
  EXPECT_DOUBLE_EQ(wire("p5.48xlarge", {.route = all_gather.route, .ranks = 8, .nodes = 8}), 50);
}

// Eight ranks on one node and four on another, whose NICs carry all that the eight send and receive.
TEST(OperationLimits, of_nodes_with_different_numbers_of_ranks_are_of_the_one_with_the_fewest) {
  const auto uneven = [](const Collective& collective, std::optional<int> per_domain, bool nvls = false) {
    return Operation{
        .route = collective.route, .ranks = 12, .nodes = 2, .per_domain = per_domain, .nvls = nvls, .at_once = 8};
  };
  EXPECT_DOUBLE_EQ(achievable("p5.48xlarge", uneven(all_gather, 4)).rate.count, 4 * 44.5);
  EXPECT_THAT(achievable("p5.48xlarge", uneven(all_gather, 4)).because,
              HasSubstr("4 GPUs of the node with the fewest ranks"));
  // Eight of the eleven blocks of each of the four ranks leave their node.
  EXPECT_DOUBLE_EQ(achievable("p5.48xlarge", uneven(all_to_all, 4)).rate.count, 44.5 * 11 / 8);
  EXPECT_DOUBLE_EQ(wire("p5.48xlarge", uneven(all_to_allv, 4)), 50 * (11.0 / 12) / (1 - 12.0 / 132));
  EXPECT_DOUBLE_EQ(wire("p5.48xlarge", uneven(all_reduce, 4, true)), 4 * 50 * 2 * 11.0 / 12) << "sums of both nodes";
  EXPECT_DOUBLE_EQ(wire("p4d.24xlarge", uneven(all_to_all, 8)), 6.25 * 11 / 4) << "of the eight, whose GPUs share NICs";
  EXPECT_DOUBLE_EQ(wire("p5.48xlarge", uneven(all_gather, 1)), 50);
  EXPECT_DOUBLE_EQ(wire("p5.48xlarge", uneven(all_gather, {})), 300) << "six on each";
  Limits pairs = parts("p5.48xlarge");
  std::erase_if(pairs, [](const Limit& each) { return each.name == gpu_link; });
  pairs.push_back({std::string(gpu_pair), Level::wire, {75}, "nvlink", "by hand"});
  EXPECT_DOUBLE_EQ(limit_of(pairs, uneven(all_gather, 1), Level::wire).value().rate.count, 50)
      << "the GPU that is alone has no links to others, and needs none";
}

// Eight GPUs of p4d share four NICs of 12.5 GB/s, those of p3dn one.
TEST(OperationLimits, are_the_nics_that_the_ranks_of_a_node_leave_each_other) {
  const auto of = [](const std::string& platform, const Collective& collective, int ranks, int nodes, int at_once) {
    return wire(platform, {.route = collective.route, .ranks = ranks, .nodes = nodes, .at_once = at_once});
  };
  EXPECT_DOUBLE_EQ(of("p4d.24xlarge", all_gather, 4, 4, 1), 12.5) << "one rank on each node";
  EXPECT_DOUBLE_EQ(of("p3dn.24xlarge", all_gather, 4, 4, 1), 12.5);
  EXPECT_DOUBLE_EQ(of("p4d.24xlarge", all_gather, 8, 4, 2), 25);
  EXPECT_DOUBLE_EQ(of("p4d.24xlarge", all_gather, 24, 4, 6), 50) << "all NICs of the node";
  EXPECT_DOUBLE_EQ(of("p4d.24xlarge", all_gather, 4, 4, 8), 6.25) << "rails, all at once";
  EXPECT_DOUBLE_EQ(of("p4d.24xlarge", all_gather, 8, 4, 6), 50.0 / 3) << "three groups at once";
  EXPECT_DOUBLE_EQ(of("p4d.24xlarge", all_gather, 32, 4, 8), 50);
  EXPECT_DOUBLE_EQ(of("p4d.24xlarge", all_to_all, 4, 4, 1), 12.5);
  EXPECT_DOUBLE_EQ(of("p4d.24xlarge", p2p, 2, 2, 1), 12.5);
  EXPECT_DOUBLE_EQ(of("p4d.24xlarge", p2p, 2, 2, 8), 6.25);
  EXPECT_DOUBLE_EQ(of("p4d.24xlarge", send_recv, 16, 2, 1), 12.5) << "ranks in the order of nodes";
  EXPECT_DOUBLE_EQ(of("p4d.24xlarge", send_recv, 16, 2, 4), 12.5);
  EXPECT_DOUBLE_EQ(of("p4d.24xlarge", send_recv, 16, 2, 5), 6.25) << "two share a NIC";
  EXPECT_DOUBLE_EQ(of("p4d.24xlarge", send_recv, 16, 2, 8), 6.25) << "ranks in turns";
  for (const int at_once : {1, 2, 4, 8}) {  // each GPU has NICs of its own
    EXPECT_DOUBLE_EQ(of("p5.48xlarge", all_gather, 4 * at_once, 4, at_once), 50 * at_once);
    EXPECT_DOUBLE_EQ(of("p5.48xlarge", send_recv, 16, 2, at_once), 50);
  }
}

TEST(OperationLimits, are_unknown_where_a_part_is) {
  EXPECT_EQ(wire("p6e-gb200.36xlarge", {.route = all_reduce.route, .ranks = 8, .nodes = 2}), -1);
  EXPECT_EQ(wire("p3dn.24xlarge", on_nodes("p2p", 1)), -1);
  EXPECT_DOUBLE_EQ(wire("p3dn.24xlarge", on_nodes("all_reduce", 1)), 150);
  EXPECT_EQ(wire("p5.4xlarge", on_nodes("all_reduce", 1)), -1);
  EXPECT_EQ(achievable("p5e.48xlarge", on_nodes("all_gather", 4)).rate.count, 0);
}

// --- UltraServers: hosts that share an NVLink domain

Operation in_domains(const Collective& collective, int nodes, int domains, bool nvls = false) {
  return {.route = collective.route, .ranks = 4 * nodes, .nodes = nodes, .domains = domains, .nvls = nvls};
}

TEST(OperationLimits, within_an_nvlink_domain_are_a_gpus_links_on_any_number_of_nodes) {
  for (const Collective* each : {&p2p, &all_reduce, &all_gather, &all_to_all})
    EXPECT_DOUBLE_EQ(wire("p6e-gb200.36xlarge", in_domains(*each, 18, 1)), 900) << each->name;
  EXPECT_DOUBLE_EQ(wire("p6e-gb200.36xlarge", in_domains(all_to_allv, 18, 1)), 900 * 71.0 / 72);
  // In the switch 72 GPUs move 73 shares each, where a ring moves 2 x 71.
  EXPECT_DOUBLE_EQ(wire("p6e-gb200.36xlarge", in_domains(all_reduce, 18, 1, true)), 900 * 2 * 71.0 / 73);
}

// A tray has 4 NICs of 50 GB/s, one beside each GPU; a domain has those of its 18 trays.
TEST(OperationLimits, between_nvlink_domains_are_the_nics_of_all_their_nodes) {
  Limits limits = limits_of(find_platform("gb200-nvl72"));
  for (const auto& [name, rate] : {std::pair(gpu_nics, 50.0), {gpu_nics_alone, 50.0}, {node_nics, 200.0}})
    limits.push_back({std::string(name), Level::wire, {rate}, "nic", "by hand"});
  const auto rate = [&](const Operation& op) { return limit_of(limits, op, Level::wire).value().rate.count; };
  EXPECT_DOUBLE_EQ(rate(in_domains(all_gather, 36, 2)), 900);  // 18 x 200 GB/s are more than a GPU's links
  EXPECT_DOUBLE_EQ(rate(in_domains(all_gather, 4, 2)), 400);   // two trays of each domain
  EXPECT_DOUBLE_EQ(rate(in_domains(all_reduce, 4, 2)), 750);   // sums of 16 GPUs: x 2 x 15 / 16, below the links
  EXPECT_DOUBLE_EQ(rate(in_domains(all_to_all, 36, 2)), 50 * 143.0 / 72);
  EXPECT_DOUBLE_EQ(rate({.route = p2p.route, .ranks = 2, .nodes = 2, .domains = 2}), 50);
  // 18 trays of one domain and two of another, which bind: their NICs, and 72 of the 79 blocks of each of their ranks.
  const auto uneven = [&](const Collective& collective) {
    return rate(
        {.route = collective.route, .ranks = 80, .nodes = 20, .domains = 2, .nodes_per_domain = 2, .per_domain = 8});
  };
  EXPECT_DOUBLE_EQ(uneven(all_gather), 400);
  EXPECT_DOUBLE_EQ(uneven(all_to_all), 50 * 79.0 / 72);
}

// --- the published table

Operation operation_of(const Platform& platform, const Published& row) {
  const bool pairs = row.collective == "p2p";
  return {.route = find_collective(row.collective).route,
          .ranks = pairs ? 2 : row.nodes * row.gpus,
          .nodes = row.nodes,
          .domains = platform.domains(row.nodes),
          .nvls = row.algorithm.starts_with("nvls"),
          .alone = false};
}

// An unknown algorithm may have been NVLS, if the platform has it.
std::optional<Limit> limit_for(const Platform& platform, const Published& row, Level level) {
  const Limits& all = parts(platform.name);
  if (row.pattern == "one_nic") {
    const Limit* nic = find(all, one_nic, level);
    return nic ? std::optional(*nic) : std::nullopt;
  }
  Operation operation = operation_of(platform, row);
  const auto limit = limit_of(all, operation, level);
  if (!row.algorithm.empty() || row.collective != "all_reduce" || platform.domains(row.nodes) > few_domains)
    return limit;
  operation.nvls = true;
  const auto with_nvls = limit_of(all, operation, level);
  return with_nvls && (!limit || with_nvls->rate > limit->rate) ? with_nvls : limit;
}

TEST(Published, no_healthy_figure_exceeds_its_wire_limit) {
  int compared = 0;
  for (const Platform& platform : platforms())
    for (const Published& row : published_of(platform)) {
      if (!row.busbw || !row.healthy) continue;
      SCOPED_TRACE(fmt::format("{} {} {} nodes {} {} GB/s ({})", platform.name, row.collective, row.nodes,
                               row.algorithm, row.busbw->count, row.source));
      const auto limit = limit_for(platform, row, Level::wire);
      ASSERT_TRUE(limit);
      EXPECT_LE(row.busbw->count, limit->rate.count) << limit->because;
      ++compared;
    }
  EXPECT_GT(compared, 150);
}

// Achievable limits were achieved: the best figure for many nodes and within a node comes close to them, and none
// exceeds them by more than the model's error.
TEST(Published, large_messages_reach_what_is_called_achievable) {
  std::map<std::string, double> best;
  for (const Platform& platform : platforms())
    for (const Published& row : platform.published) {
      if (!row.busbw || !row.healthy || row.pattern == "one_nic") continue;
      const auto limit = limit_for(platform, row, Level::achievable);
      if (!limit) continue;
      const double fraction = row.busbw->count / limit->rate.count;
      EXPECT_LE(fraction, 1.10) << platform.name << " " << row.collective << " " << row.nodes << " " << row.source;
      if (platform.conflict_about(row.collective)) continue;
      double& top = best[fmt::format("{} {} {}", platform.name, row.collective, row.nodes)];
      top = std::max(top, fraction);
    }
  EXPECT_GT(best.size(), 20u);
  std::erase_if(best,
                [](const auto& each) { return each.first.starts_with("p5.48xlarge all_gather"); });  // still rising
  for (const auto& [what, fraction] : best) EXPECT_GE(fraction, 0.80) << what;
}

TEST(Published, figures_of_faults_stand_out) {
  int compared = 0;
  for (const Platform& platform : platforms())
    for (const Published& row : platform.published) {
      if (row.healthy) continue;
      const auto limit = limit_for(platform, row, Level::achievable);
      ASSERT_TRUE(limit);
      EXPECT_LT(row.busbw->count, 0.75 * limit->rate.count) << platform.name << ": " << row.note;
      ++compared;
    }
  EXPECT_GE(compared, 7);
}

TEST(Published, are_limits_of_the_runs_node_count) {
  const Limits limits = published_limits(find_platform("p5.48xlarge"), 2);
  const Limit* all_reduce = find(limits, "all_reduce, 2 nodes", Level::published);
  ASSERT_NE(all_reduce, nullptr);
  EXPECT_DOUBLE_EQ(all_reduce->rate.count, 487);
  EXPECT_THAT(all_reduce->because, AllOf(HasSubstr("487 GB/s at 16 GiB"), HasSubstr("nccl-tests")));
  for (const Limit& limit : limits) EXPECT_THAT(limit.name, HasSubstr("2 nodes"));
  EXPECT_TRUE(published_limits(find_platform("p5.48xlarge"), 5).empty());
}

// --- the table in topo/RESULTS.md

std::string percent(double value, const std::optional<Limit>& limit) {
  return limit ? fmt::format("{:.0f} %", 100 * value / limit->rate.count) : "?";
}

std::string table_row(const Platform& platform, const Published& row) {
  const auto wire_limit = limit_for(platform, row, Level::wire);
  const auto may_reach = limit_for(platform, row, Level::achievable);
  return fmt::format("| {} | {}{} | {} | {:.4g} | {} | {} | {} |\n", platform.name, row.collective,
                     row.algorithm.empty() && row.pattern.empty() ? "" : " (" + row.algorithm + row.pattern + ")",
                     row.nodes, row.busbw->count, percent(row.busbw->count, may_reach),
                     percent(row.busbw->count, wire_limit), wire_limit ? wire_limit->binding : "?");
}

// The best healthy figure of each platform, collective, algorithm and number of whole nodes.
std::string table_of_fractions() {
  std::string text =
      "| platform | collective | nodes | GB/s | of achievable | of wire | wire binds "
      "|\n|---|---|---|---|---|---|---|\n";
  for (const Platform& platform : platforms()) {
    std::map<std::tuple<std::string, std::string, int>, const Published*> best;
    for (const Published& row : platform.published) {
      if (!row.busbw || !row.healthy || row.gpus != platform.gpus) continue;
      const Published*& top = best[{row.collective, row.algorithm + row.pattern, row.nodes}];
      if (!top || *row.busbw > *top->busbw) top = &row;
    }
    for (const auto& [key, row] : best) text += table_row(platform, *row);
  }
  return text;
}

// P5BENCH_UPDATE=1 rewrites the table.
TEST(Published, the_table_of_the_results_is_what_the_limits_say) {
  const std::string path = std::string(P5BENCH_SOURCE_FOLDER) + "/topo/RESULTS.md";
  std::ostringstream read;
  read << std::ifstream(path).rdbuf();
  std::string results = read.str();
  const std::string begin = "<!-- published: P5BENCH_UPDATE=1 unit_tests writes this table -->\n",
                    end = "<!-- /published -->";
  const std::size_t from = results.find(begin), to = results.find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const std::size_t start = from + begin.size();
  const std::string table = table_of_fractions();
  if (std::getenv("P5BENCH_UPDATE")) {
    results.replace(start, to - start, table);
    std::ofstream(path) << results;
  }
  EXPECT_EQ(results.substr(start, results.find(end) - start), table);
}

}  // namespace
}  // namespace p5::topo
