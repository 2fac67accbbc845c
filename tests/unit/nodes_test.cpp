// Verdicts of nodes.
#include "reports/nodes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "report_ends.hpp"
#include "reports/judge.hpp"

namespace p5::reports {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Nodes, what_is_found_speaks_against_its_node_alone) {
  Report report = two_nodes();
  Suspect& suspect = report.suspects.emplace_back();
  suspect.kind = "gpu", suspect.name = "n1g1", suspect.host = "n1";
  report.findings.push_back(
      {"gpu.links", topo::Severity::error, {"n1", "", 1, {}}, "16 of 18", "reset it", topo::About::fabric});
  report.findings.push_back(
      {"host.memlock", topo::Severity::error, {"n0", "", {}, {}}, "64 KiB", "raise it", topo::About::host});
  const std::vector<NodeVerdict> nodes = judge_nodes(report);
  EXPECT_THAT(nodes[0].unfit, IsEmpty()) << "what the host's setup causes does not";
  EXPECT_THAT(nodes[1].unfit, ElementsAre("gpu n1g1", "gpu.links GPU 1"));
  const std::string text = render_nodes(report, false);
  EXPECT_THAT(text, HasSubstr("n0: fit; "));
  EXPECT_THAT(text, HasSubstr("n1 (i-0abc): NOT FIT: gpu n1g1, gpu.links GPU 1\n"));
  EXPECT_THAT(text, HasSubstr("  error gpu.links: 16 of 18. reset it\n"));
  EXPECT_THAT(render_nodes(report, true), Not(HasSubstr("16 of 18")));
}

// NVML may be silent, and PCI show fewer GPUs than CUDA.
TEST(Nodes, have_as_many_gpus_as_were_checked_alone) {
  Report report = two_nodes();
  report.local_checks = {{{"launch_us", 1}}, {{"launch_us", 1}}, {{"launch_us", 1}}, {}};
  report.topology.hosts[0].gpu_devices.resize(1);
  const std::string text = render_nodes(report, false);
  EXPECT_THAT(text, HasSubstr("n0: fit; checked software and settings, 2 GPUs alone"));
  EXPECT_THAT(text, HasSubstr("n1 (i-0abc): fit; checked software and settings, 1 of 2 GPUs alone"));
}

TEST(Nodes, what_is_nobodys_puts_all_in_doubt) {
  Report report = two_nodes();
  report.findings.push_back({"fabric.silent", topo::Severity::error, {}, "no host", "look", topo::About::fabric});
  for (const NodeVerdict& each : judge_nodes(report)) EXPECT_THAT(each.in_doubt, ElementsAre("fabric.silent"));
  report.topology.hosts.resize(1);
  EXPECT_THAT(judge_nodes(report)[0].unfit, ElementsAre("fabric.silent")) << "there is no other node";
}

TEST(Nodes, of_a_suspected_link_are_in_doubt_and_those_of_a_domain_are_unfit_and_no_others) {
  Report report = two_nodes();
  for (const char* const name : {"n2", "n3"}) report.topology.hosts.emplace_back().name = name;
  report.exit_code = ExitCode::slow;
  add(report, "all_reduce", 4, Grade::ok);
  Suspect& suspect = report.suspects.emplace_back();
  suspect.kind = "link", suspect.name = "n0-n2", suspect.host = "n0", suspect.evidence = "half as fast";
  std::vector<NodeVerdict> nodes = judge_nodes(report);
  for (const std::size_t node : {0, 2}) EXPECT_THAT(nodes[node].in_doubt, ElementsAre("link n0-n2"));
  for (const std::size_t node : {1, 3}) EXPECT_THAT(nodes[node].in_doubt, IsEmpty());
  for (const NodeVerdict& each : nodes) EXPECT_THAT(each.unfit, IsEmpty());
  EXPECT_THAT(render_nodes(report, false), HasSubstr("n3: fit; "));
  for (std::size_t node = 0; node < 4; ++node) {
    report.topology.hosts[node].gpu_devices.clear();
    for (const int gpu : {0, 1}) {
      topo::Gpu& its = report.topology.hosts[node].gpu_devices.emplace_back();
      its.uuid = fmt::format("GPU-{}-{}", node, gpu);
      its.fabric_cluster = "00000000000000000000000000000001";
      its.fabric_clique = node < 2 ? 0 : 1;
    }
  }
  suspect.kind = "domain", suspect.name = "d1", suspect.host = "";
  nodes = judge_nodes(report);
  for (const std::size_t node : {0, 1}) EXPECT_THAT(nodes[node].unfit, IsEmpty()) << node;
  for (const std::size_t node : {2, 3}) EXPECT_THAT(nodes[node].unfit, ElementsAre("domain d1")) << node;
  EXPECT_THAT(render_nodes(report, false), HasSubstr("  suspect domain d1: half as fast"));
  suspect.kind = "rail", suspect.name = "1";
  for (const NodeVerdict& each : judge_nodes(report)) EXPECT_THAT(each.in_doubt, ElementsAre("rail 1"));
}

TEST(Nodes, all_nodes_of_a_question_are_named_and_no_others) {
  Report report = two_nodes();
  report.topology.hosts.emplace_back().name = "n2";
  report.exit_code = ExitCode::slow;
  report.open_questions = {{.candidates = {"gpu n0g3", "link n0-n2"}, .evidence = "0.8 times as fast", .next = "swap"}};
  const std::vector<NodeVerdict> nodes = judge_nodes(report);
  EXPECT_THAT(nodes[0].in_doubt, ElementsAre("gpu n0g3 or link n0-n2"));
  EXPECT_THAT(nodes[1].in_doubt, IsEmpty());
  EXPECT_THAT(nodes[2].in_doubt, ElementsAre("gpu n0g3 or link n0-n2"));
  for (const NodeVerdict& each : nodes) EXPECT_THAT(each.unfit, IsEmpty());
  EXPECT_THAT(render_nodes(report, false), HasSubstr("n2: IN DOUBT: gpu n0g3 or link n0-n2\n"));
  EXPECT_THAT(render_nodes(report, false), HasSubstr("  one of gpu n0g3, link n0-n2: 0.8 times as fast. swap\n"));
  report.open_questions[0].candidates = {"nic n0r4", "rail 1"};
  for (const NodeVerdict& each : judge_nodes(report)) EXPECT_THAT(each.in_doubt, ElementsAre("nic n0r4 or rail 1"));
  for (std::size_t node = 0; node < 3; ++node) {
    topo::Gpu& its = report.topology.hosts[node].gpu_devices.emplace_back();
    its.fabric_cluster = "00000000000000000000000000000001";
    its.fabric_clique = node == 2 ? 1 : 0;
  }
  report.open_questions[0].candidates = {"nic n0r4", "domain d0"};
  const std::vector<NodeVerdict> of_domain = judge_nodes(report);
  for (const std::size_t node : {0, 1})
    EXPECT_THAT(of_domain[node].in_doubt, ElementsAre("nic n0r4 or domain d0")) << node;
  EXPECT_THAT(of_domain[2].in_doubt, IsEmpty());
}

TEST(Nodes, wrong_data_of_one_node_are_those_of_the_ranks_that_found_them) {
  Report report = two_nodes();
  Measurement& m = add(report, "all_reduce", 1, Grade::wrong).measurement;
  m.first_wrong.emplace().rank = 3;
  std::vector<NodeVerdict> nodes = judge_nodes(report);
  EXPECT_THAT(nodes[0].unfit, IsEmpty());
  EXPECT_THAT(nodes[1].unfit, ElementsAre("wrong data at rank 3 (GPU 1)"));
  m.wrong_groups = {{0, 1}, {2, 3}};
  nodes = judge_nodes(report);
  EXPECT_THAT(nodes[0].unfit, ElementsAre("wrong data"));
  EXPECT_THAT(nodes[1].unfit, ElementsAre("wrong data at rank 3 (GPU 1)"));
}

// The sum of all is wrong on all ranks, of which the first is named.
TEST(Nodes, wrong_data_between_nodes_put_all_of_them_in_doubt) {
  Report report = two_nodes();
  report.topology.hosts.emplace_back().name = "n2";
  report.topology.host_of_rank.push_back(2);
  Measurement& m = add(report, "all_reduce", 3, Grade::wrong).measurement;
  m.first_wrong.emplace().rank = 0;
  for (const NodeVerdict& each : judge_nodes(report)) {
    EXPECT_THAT(each.unfit, IsEmpty());
    EXPECT_THAT(each.in_doubt, ElementsAre("wrong data"));
  }
  m.wrong_groups = {{0, 2}};
  const std::vector<NodeVerdict> nodes = judge_nodes(report);
  for (const std::size_t node : {0, 1}) EXPECT_THAT(nodes[node].in_doubt, ElementsAre("wrong data")) << node;
  EXPECT_THAT(nodes[2].in_doubt, IsEmpty());
  for (const NodeVerdict& each : nodes) EXPECT_THAT(each.unfit, IsEmpty());
  // A question of two hosts explains them.
  report.open_questions = {{.candidates = {"nic n0r0", "nic n1r0"}, .evidence = "seen", .next = "", .fault = "wrong"}};
  m.measured_case.collective = &find_collective("p2p");
  m.measured_case.nodes = 2;
  m.measured_case.nic = 0;
  m.first_wrong->rank = 3;
  const std::vector<NodeVerdict> asked = judge_nodes(report);
  for (const std::size_t node : {0, 1}) EXPECT_THAT(asked[node].in_doubt, ElementsAre("nic n0r0 or nic n1r0")) << node;
  for (const NodeVerdict& each : asked) EXPECT_THAT(each.unfit, IsEmpty());
}

TEST(Nodes, of_which_one_is_at_fault_are_in_doubt_and_no_others) {
  Report report = two_nodes();
  for (const char* const name : {"n2", "n3"}) report.topology.hosts.emplace_back().name = name;
  topo::Finding pair{"fabric.pair", topo::Severity::error, {}, "no message", "look", topo::About::fabric};
  pair.hosts = {"n0", "n2"};
  report.findings = {pair};
  const std::vector<NodeVerdict> nodes = judge_nodes(report);
  for (const std::size_t node : {0, 2}) EXPECT_THAT(nodes[node].in_doubt, ElementsAre("fabric.pair")) << node;
  for (const std::size_t node : {1, 3}) EXPECT_THAT(nodes[node].in_doubt, IsEmpty()) << node;
  for (const NodeVerdict& each : nodes) EXPECT_THAT(each.unfit, IsEmpty());
}

TEST(Nodes, on_which_nothing_was_measured_are_not_fit_because_another_is_broken) {
  Report report = two_nodes();
  find(report, "gpu.lost", topo::About::hardware);
  report.exit_code = check_exit_code(report, ExitCode::environment);
  EXPECT_EQ(report.exit_code, ExitCode::slow);
  EXPECT_EQ(render_nodes(report, true),
            "n0: NOT CHECKED: no operation was measured there\nn1 (i-0abc): NOT FIT: gpu.lost\n");
  add(report, "p2p", 1, Grade::unknown).measurement.outcome = Outcome::skipped;
  EXPECT_THAT(render_nodes(report, true), HasSubstr("n0: NOT CHECKED: "));
  add(report, "all_reduce", 2, Grade::ok);
  EXPECT_THAT(render_nodes(report, true), HasSubstr("n0: fit; "));
}

TEST(Nodes, what_fails_within_a_node_explains_what_fails_between_them) {
  Report report = two_nodes();
  report.exit_code = ExitCode::unfinished;
  Result& together = add(report, "all_reduce", 2, Grade::failed);
  together.measurement.outcome = Outcome::failed;
  together.measurement.failed_rank = 0;
  EXPECT_THAT(judge_nodes(report)[0].unfinished, ElementsAre("failed at rank 0"));
  Result& within = add(report, "p2p", 1, Grade::failed);
  within.measurement.outcome = Outcome::failed;
  within.measurement.failed_rank = 2;
  add(report, "p2p", 1, Grade::unknown).measurement.groups = {{{0, 1}, {1.0}}};
  std::vector<NodeVerdict> nodes = judge_nodes(report);
  EXPECT_THAT(nodes[0].unfinished, IsEmpty());
  EXPECT_THAT(nodes[1].unfinished, ElementsAre("failed at rank 2"));
  report.results.pop_back();
  EXPECT_THAT(judge_nodes(report)[0].unchecked, ElementsAre("no operation was measured there"));
  Result& single = add(report, "p2p", 2, Grade::unknown);
  single.measurement.measured_case.nic = 0;
  single.measurement.groups = {{{0, 2}, {1.0}}};
  EXPECT_THAT(judge_nodes(report)[0].unchecked, ElementsAre("only single NICs were measured there"));
}

TEST(Nodes, whose_ranks_do_not_join_are_not_finished_even_where_no_rank_is_known) {
  Report report = two_nodes();
  report.exit_code = ExitCode::environment;
  Result& together = add(report, "all_reduce", 2, Grade::failed);
  together.measurement.outcome = Outcome::failed;
  const topo::Finding of_n1{"join.host", topo::Severity::error, {"n1", "", {}, {}}, "killed",
                            "look",      topo::About::host};
  report.findings = {of_n1};
  EXPECT_EQ(render_nodes(report, true), "n0: NOT CHECKED\nn1 (i-0abc): NOT FINISHED: join.host\n");
  together.measurement.failed_rank = 3;
  EXPECT_EQ(render_nodes(report, true), "n0: NOT CHECKED\nn1 (i-0abc): NOT FINISHED: failed at rank 3 (GPU 1)\n");
  topo::Finding of_n0 = of_n1;
  of_n0.subject.host = "n0";
  report.findings.push_back(of_n0);
  EXPECT_EQ(render_nodes(report, true),
            "n0: NOT FINISHED: join.host\nn1 (i-0abc): NOT FINISHED: failed at rank 3 (GPU 1)\n");
}

// The end of a check is that of the host whose rank did not answer, and of all where none is known.
TEST(Nodes, are_not_finished_by_an_end_that_another_is_known_to_cause) {
  const std::string why = "no answer within 20 s while measuring: all others wait for rank 3 on n1";
  for (const bool lacks_time : {false, true}) {
    Report report = two_nodes();
    report.exit_code = ExitCode::unfinished;
    Result& result = add(report, "all_reduce", 2, lacks_time ? Grade::unknown : Grade::failed);
    result.measurement.outcome = lacks_time ? Outcome::skipped : Outcome::failed;
    result.measurement.because = lacks_time ? "budget" : why;
    if (!lacks_time) report.run.ended_by = why;
    const std::string said = lacks_time ? "not all was measured in time" : why;
    EXPECT_EQ(render_nodes(report, true),
              fmt::format("n0: NOT FINISHED: {}\nn1 (i-0abc): NOT FINISHED: {}\n", said, said));
    report.findings.push_back(
        {"gpu.check_failed", topo::Severity::error, {"n1", "", 1, {}}, "rank 3", "run again", topo::About::host});
    EXPECT_EQ(render_nodes(report, true), fmt::format("n0: NOT CHECKED: {}, no operation was measured there\n"
                                                      "n1 (i-0abc): NOT FINISHED: gpu.check_failed GPU 1, {}\n",
                                                      said, said));
  }
}

TEST(Nodes, do_not_hide_a_failure_between_them_behind_what_the_end_interrupted) {
  Report report = two_nodes();
  report.exit_code = ExitCode::unfinished;
  report.run.ended_by = "ended by SIGTERM";
  Result& within = add(report, "p2p", 1, Grade::failed);
  within.measurement.outcome = Outcome::failed;
  within.measurement.because = report.run.ended_by;
  Result& between = add(report, "all_reduce", 2, Grade::failed);
  between.measurement.outcome = Outcome::failed;
  between.measurement.failed_rank = 3;
  EXPECT_THAT(judge_nodes(report)[1].unfinished, ElementsAre("failed at rank 3 (GPU 1)"));
}

TEST(Nodes, are_judged_by_their_slowest_group_as_if_measured_alone) {
  Report report = two_nodes();
  report.topology.platform = "p5.48xlarge";
  report.limits = {
      {std::string(topo::gpu_link), topo::Level::achievable, {370}, "nvlink", "18 NVLinks x 20.6 GB/s = 370 GB/s"}};
  Result& result = add(report, "p2p", 1, Grade::slow);
  Measurement& m = result.measurement;
  m.measured_case.backend = "sim";
  m.measured_case.pattern = "both_ways";
  m.measured_case.ranks = 2;
  m.measured_case.bytes = m.measured_case.bytes_per_rank = GiB(1);
  m.throughput = Series{.operations_per_sample = 1, .samples = {}, .summary = {}, .stopped_because = ""};
  const auto times = [](float most, float two) { return std::vector<float>{most, most, most, most, most, two, two}; };
  const float fast = 0.0029F, faster = 0.00289F, slow = 0.009F;
  // n0 has a slow pair; two of seven samples of a pair of n1, by chance, which is not the slowest of n1.
  m.groups = {{{0, 1}, {slow}, times(slow, slow)},
              {{2, 3}, {faster}, times(faster, slow)},
              {{3, 2}, {fast}, times(fast, fast)}};
  std::vector<NodeVerdict> nodes = judge_nodes(report);
  EXPECT_THAT(nodes[0].unfit, ElementsAre("slow p2p"));
  EXPECT_THAT(nodes[1].unfit, IsEmpty());
  // A question of all its GPUs says no more; of one of them, of another host or another fault it does.
  const auto is_withdrawn = [&](const std::vector<std::string>& candidates, const char* host, const char* fault) {
    report.open_questions.resize(1);
    report.open_questions[0].candidates = candidates;
    report.open_questions[0].host = host;
    report.open_questions[0].fault = fault;
    withdraw_questions_of_whole_hosts(report);
    const bool withdrawn = report.open_questions.empty();
    report.open_questions.clear();
    return withdrawn;
  };
  EXPECT_TRUE(is_withdrawn({"gpu n0g0", "gpu n0g1", "node n0"}, "n0", "slow"));
  EXPECT_FALSE(is_withdrawn({"gpu n0g0", "node n0"}, "n0", "slow"));
  EXPECT_FALSE(is_withdrawn({"gpu n1g0", "gpu n1g1"}, "n1", "slow"));
  EXPECT_FALSE(is_withdrawn({"gpu n0g0", "gpu n0g1"}, "n0", "silent"));
  m.groups[2] = {{3, 2}, {slow}, times(slow, slow)};
  EXPECT_THAT(judge_nodes(report)[1].unfit, ElementsAre("slow p2p"));
}

TEST(Nodes, what_time_did_not_allow_is_no_fitness) {
  Report report = two_nodes();
  Result& result = add(report, "p2p", 1, Grade::unknown);
  EXPECT_FALSE(ran_out_of_time(report));
  result.measurement.outcome = Outcome::skipped;
  result.measurement.because = "hosts do not reach each other";
  EXPECT_FALSE(ran_out_of_time(report));
  result.measurement.because = "budget";
  EXPECT_TRUE(ran_out_of_time(report));
  EXPECT_THAT(render_nodes(report, true), HasSubstr("n0: NOT FINISHED: not all was measured in time\n"));
}

TEST(Nodes, whose_driver_hangs_are_told_so_and_the_others_are_fit) {
  Report report = two_nodes();
  add(report, "all_reduce", 1, Grade::ok);
  report.findings.push_back(
      {"gpu.nvml", topo::Severity::warning, {"n1", "", {}, {}}, "NVML: mismatch", "reboot", topo::About::software});
  EXPECT_THAT(render_nodes(report, true), HasSubstr("n1 (i-0abc): fit; "));
  report.findings[0].severity = topo::Severity::error;
  report.findings[0].evidence = "NVML: nvmlInit_v2 did not answer within 5 s";
  report.exit_code = ExitCode::unfinished;
  EXPECT_THAT(render_nodes(report, true),
              HasSubstr("n1 (i-0abc): NOT FINISHED: NVML: nvmlInit_v2 did not answer within 5 s\n"));
  EXPECT_THAT(render_nodes(report, true), HasSubstr("n0: fit; "));
}

TEST(Nodes, whose_gpus_were_measured_together_are_fit_without_their_pairs_but_not_without_the_others) {
  Report report = two_nodes();
  for (const int nodes : {1, 2}) {
    Result& pairs = add(report, "p2p", nodes, Grade::unknown);
    pairs.measurement.outcome = Outcome::skipped;
    pairs.measurement.because = "budget";
    EXPECT_TRUE(ran_out_of_time(report));
    add(report, "all_reduce", 1, Grade::ok);
    EXPECT_EQ(ran_out_of_time(report), nodes == 2) << "pairs of different nodes show the network";
    if (nodes == 1) {
      EXPECT_THAT(render_nodes(report, true),
                  HasSubstr("speed judged in 1 of 1 measurements, 1 skipped for lack of time (a longer --limit"));
    }
    report.results.clear();
  }
}

TEST(Nodes, where_nothing_could_be_measured_none_is_called_fit) {
  Report report = two_nodes();
  report.exit_code = ExitCode::environment;
  EXPECT_EQ(render_nodes(report, true), "n0: NOT CHECKED\nn1 (i-0abc): NOT CHECKED\n");
}

// The exit code, which prologs use, agrees with the printed line.
TEST(Nodes, the_code_says_what_the_lines_say_for_all_ends_and_all_pairs_of_them) {
  for (const End& a : all_ends)
    for (const End& b : all_ends) {
      Report report = two_nodes();
      a.leave(report);
      if (a.name != b.name) b.leave(report);
      const ExitCode of_time = ran_out_of_time(report) ? ExitCode::unfinished : ExitCode::ok;  // as the command does
      report.exit_code = check_exit_code(report, worse(of_time, worse(exit_code(report), worse(a.code, b.code))));
      const std::string lines = render_nodes(report, true);
      const auto says = [&](const char* words) { return lines.find(words) != std::string::npos; };
      const std::string both = fmt::format("{}; {}: {}\n{}", a.name, b.name, static_cast<int>(report.exit_code), lines);
      const bool measured = std::ranges::any_of(
          report.results, [](const Result& each) { return each.measurement.outcome == Outcome::measured; });
      EXPECT_FALSE(report.exit_code != ExitCode::ok && !measured && says(": fit;")) << both;
      switch (report.exit_code) {
        case ExitCode::inconclusive:
          EXPECT_TRUE(says("NOT CHECKED")) << both;
          break;
        case ExitCode::ok:
          EXPECT_FALSE(says("NOT") || says("IN DOUBT")) << both;
          break;
        case ExitCode::slow:
        case ExitCode::wrong_data:
          EXPECT_TRUE(says("NOT FIT") || says("IN DOUBT")) << both;
          break;
        case ExitCode::unfinished:
          EXPECT_TRUE(says("NOT FIT") || says("IN DOUBT") || says("NOT FINISHED")) << both;
          break;
        default:
          EXPECT_EQ(report.exit_code, ExitCode::environment) << both;
          EXPECT_TRUE(says("NOT CHECKED") || says("NOT FINISHED")) << both;
          EXPECT_FALSE(says("NOT FIT") || says("IN DOUBT") || says("fit;")) << both;
      }
    }
}

}  // namespace
}  // namespace p5::reports
