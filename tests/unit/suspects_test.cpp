// Simulated clusters with a slow part: only that part is named, despite noise.
#include "reports/suspects.hpp"
#include "reports/part_names.hpp"
#include "reports/retests.hpp"
#include "reports/suspect_text.hpp"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "bench/base/thread.hpp"
#include "bench/model/groups.hpp"
#include "reports/decision.hpp"
#include "reports/findings.hpp"
#include "reports/judge.hpp"
#include "reports/nodes.hpp"
#include "reports/observations.hpp"
#include "tests/unit/clusters.hpp"
#include "topo/discover.hpp"
#include "topo/platform.hpp"

namespace p5::reports {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using testing::UnorderedElementsAre;

TEST(Suspects, are_none_on_healthy_clusters) {
  const unsigned share = std::getenv("P5BENCH_NIGHTLY") ? 1 : 5;
  for (const auto& [nodes, seeds] : {std::pair(1, 200u), {2, 200u}, {3, 100u}, {4, 50u}, {16, 5u}})
    for (const double noise : {0.005, 0.03})
      for (unsigned seed = 0; seed < seeds / share; ++seed)
        ASSERT_THAT(names({.nodes = nodes, .noise = noise}, seed), IsEmpty()) << nodes << " nodes, seed " << seed;
  // Few pairs, as measured on many nodes.
  for (unsigned seed = 0; seed < 20 / share; ++seed)
    ASSERT_THAT(names({.nodes = 16, .most_shifts = 1, .noise = 0.03}, seed), IsEmpty()) << seed;
}

TEST(Suspects, are_the_part_that_is_slow_and_no_other) {
  const bool nightly = std::getenv("P5BENCH_NIGHTLY") != nullptr;
  for (const double times : {1.25, 2.0, 10.0})
    for (const int nodes : {3, 4, 16})
      for (unsigned seed = 0; seed < (nightly && nodes < 16 ? 10u : nightly || nodes < 16 ? 2u : 1u); ++seed) {
        SCOPED_TRACE(fmt::format("{} times as long on {} nodes, seed {}", times, nodes, seed));
        const auto named = [&](const Longer& longer) { return names({.nodes = nodes, .longer = longer}, seed); };
        EXPECT_THAT(named(slow_gpu(1, 2, times)), ElementsAre("gpu n1g2"));
        EXPECT_THAT(named(slow_nic(1, 2, times)), ElementsAre("nic n1r8-11"));
        EXPECT_THAT(named(slow_node(2, times)), ElementsAre("node n2"));
        EXPECT_THAT(named(slow_link(0, 2, times)), ElementsAre("link n0-n2"));
      }
}

TEST(Suspects, are_several_where_several_are_slow) {
  const Cluster cluster{.nodes = 6, .longer = both(slow_nic(1, 2, 2), both(slow_node(4, 1.5), slow_gpu(0, 7, 3)))};
  EXPECT_THAT(names(cluster), UnorderedElementsAre("nic n1r8-11", "node n4", "gpu n0g7"));
  EXPECT_THAT(names({.nodes = 8, .longer = both(slow_node(2, 2), slow_node(5, 2))}),
              UnorderedElementsAre("node n2", "node n5"));
}

// As on a network with other users: every transfer between nodes is slow in this share of its samples.
Report slow_alike(Cluster cluster, double share) {
  cluster.outliers = 0;
  Report report = report_of(cluster, 1);
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform;
  for (Result& result : report.results) {
    if (result.measurement.measured_case.pair != "other_node") continue;
    for (GroupResult& its : result.measurement.groups) {
      for (int sample = 0; sample < 12; ++sample)
        its.samples.push_back(static_cast<float>(its.median.count * (uniform(random) < share ? 1.15 : 1)));
      its.median = Seconds{median(std::vector<double>(its.samples.begin(), its.samples.end()))};
    }
  }
  return report;
}

TEST(Suspects, are_none_where_all_transfers_are_slow_equally_often) {
  for (const int nodes : {2, 3, 4, 8})
    for (const double share : {0.2, 0.36, 0.4}) {
      SCOPED_TRACE(fmt::format("{} nodes, {} of samples", nodes, share));
      const Diagnosis found = diagnose(slow_alike({.nodes = nodes}, share), {});
      EXPECT_THAT(found.suspects, IsEmpty());
      EXPECT_THAT(found.questions, IsEmpty());
    }
  const std::vector<Suspect> found = diagnose(slow_alike({.longer = slow_node(2, 2)}, 0.4), {}).suspects;
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "n2") << "beside that, slow in all of them";
}

TEST(Suspects, are_rails_where_gpus_of_one_number_are_slow_on_all_nodes) {
  for (const int nodes : {3, 4, 8}) {
    EXPECT_THAT(names({.nodes = nodes, .longer = slow_rails(5, 5)}), ElementsAre("rail 5")) << nodes;
    EXPECT_THAT(names({.nodes = nodes, .longer = slow_rails(4, 7)}),
                UnorderedElementsAre("rail 4", "rail 5", "rail 6", "rail 7"))
        << nodes;
  }
  const Longer on_three_of_four = both(slow_nic(0, 5, 2), both(slow_nic(1, 5, 2), slow_nic(3, 5, 2)));
  EXPECT_THAT(names({.longer = on_three_of_four}),
              UnorderedElementsAre("nic n0r20-23", "nic n1r20-23", "nic n3r20-23"));
}

TEST(Suspects, are_all_that_are_slow_however_many) {
  constexpr int faulty = 20;
  const Longer longer = [](int a, int ga, int b, int gb) {
    const auto is_slow = [](int node, int gpu) { return node < faulty && gpu == 3 * node % 8; };
    return a != b && (is_slow(a, ga) || is_slow(b, gb)) ? 2.0 : 1.0;
  };
  const std::vector<std::string> found =
      names({.nodes = faulty + 2, .most_shifts = 2, .outliers = 0, .longer = longer});
  EXPECT_THAT(found, testing::SizeIs(faulty));
  EXPECT_THAT(found, Each(StartsWith("nic ")));
}

TEST(Suspects, of_a_node_whose_gpus_all_reach_each_other_slowly_are_the_node) {
  const Longer slow = [](int a, int, int b, int) { return a == 1 && b == 1 ? 2.0 : 1.0; };
  EXPECT_THAT(names({.nodes = 3, .longer = slow}), ElementsAre("node n1"));
}

TEST(Suspects, are_found_on_one_node_of_four_gpus) {
  EXPECT_THAT(names({.platform = "hgx-h200", .nodes = 1, .gpus = 4, .longer = slow_gpu(0, 3, 1.5)}),
              ElementsAre("gpu n0g3"));
}

// All between two nodes is slow, and nothing within them.
TEST(Suspects, of_two_nodes_are_no_question_where_both_have_an_error_that_slows_what_goes_between_them) {
  Report report = report_of({.nodes = 2}, 1);
  for (Result& result : report.results) {
    Case& c = result.measurement.measured_case;
    c.nodes = c.pair == "other_node" ? 2 : 1;
    result.verdict.grade = c.nodes == 2 ? Grade::slow : Grade::ok;
    result.verdict.fraction = c.nodes == 2 ? 0.1 : 0.9;
  }
  const auto questions_with = [&](const std::vector<std::string>& hosts, const char* id = "nccl.sockets") {
    report.findings.clear();
    for (const std::string& host : hosts)
      report.findings.push_back(
          {id, topo::Severity::error, {host, "", {}, {}}, "TCP", "install it", topo::About::software});
    return diagnose(report, {}).questions.size();
  };
  EXPECT_EQ(questions_with({}), 1U);
  EXPECT_EQ(questions_with({"n0"}), 1U) << "of one of them";
  EXPECT_EQ(questions_with({""}), 0U) << "of all hosts";
  EXPECT_EQ(questions_with({"n0", "n1"}, "gpu.unseen"), 1U) << "slows nothing between them";
  EXPECT_EQ(questions_with({"n0", "n1"}), 0U);
  report.exit_code = exit_code(report, true);
  const Decision decision = decide(report);
  EXPECT_THAT(decision.sentence, StartsWith("REJECT: errors to fix first: nccl.sockets on 2 hosts; all 2 nodes are "
                                            "equally slow to each other (p2p"));
  EXPECT_THAT(decision.next.at(1), StartsWith("first, as it may be why: nccl.sockets on n1: install it"));
  EXPECT_THAT(decision.next, Not(testing::Contains("nccl.sockets on n1: install it"))) << "told once";
}

// Both nodes may be equally slow, in all that they do.
TEST(Suspects, of_two_nodes_are_no_question_without_pairs_between_them) {
  Report report = report_of({.nodes = 2}, 1);
  report.results.resize(1);
  Result& result = report.results.front();
  result.measurement.groups.clear();
  Case& c = result.measurement.measured_case;
  c.nodes = 2;
  result.verdict.grade = Grade::slow;
  result.verdict.fraction = 0.7;
  const auto questions = [&] { return diagnose(report, {}).questions.size(); };
  EXPECT_EQ(questions(), 1U);
  c.collective = &find_collective("all_gather");
  EXPECT_EQ(questions(), 0U);
  report.status = "complete";
  report.exit_code = exit_code(report, true);
  const Decision decision = decide(report);
  EXPECT_EQ(decision.sentence,
            "REJECT: the cluster is slow (all_gather 70 % of limit); without pairs between nodes no part can be named");
  EXPECT_THAT(decision.next, ElementsAre(StartsWith("run p5bench with its default collectives")));
}

TEST(Suspects, of_gpus_have_their_numbers_in_nvml_where_ranks_use_them_in_another_order) {
  Report report = report_of({.nodes = 1, .longer = slow_gpu(0, 2, 2)}, 1);
  for (const std::size_t gpu : {4U, 5U, 6U, 7U, 0U, 1U, 2U, 3U})
    report.topology.gpu_of_rank.push_back(report.topology.hosts[0].gpu_devices.at(gpu).uuid);
  const Suspect suspect = diagnose(report, {}).suspects.at(0);
  EXPECT_EQ(suspect.name + " " + suspect.device, "n0g2 SIM-n0g6");
  EXPECT_THAT(suspect.evidence, StartsWith("GPU 6 (rank 2 of its host) reaches the other GPUs of its node at"));
}

TEST(Suspects, of_two_nodes_are_neither_where_nothing_tells_them_apart) {
  EXPECT_THAT(names({.nodes = 2, .longer = slow_node(1, 2)}), IsEmpty());
  EXPECT_THAT(names({.nodes = 2, .longer = slow_nic(1, 2, 2)}), ElementsAre("nic n1r8-11"));
  // Two GPUs alone.
  EXPECT_THAT(names({.nodes = 1, .gpus = 2, .longer = slow_gpu(0, 1, 2)}), IsEmpty());
}

TEST(Suspects, of_nodes_with_one_gpu_are_nodes) {
  // The GPU, its NICs and the node carry the same transfers.
  const Diagnosis found = diagnose(report_of({.nodes = 5, .gpus = 1, .longer = slow_node(3, 2)}, 1), {});
  EXPECT_THAT(found.suspects, IsEmpty());
  ASSERT_EQ(found.questions.size(), 1u);
  const OpenQuestion& question = found.questions.front();
  EXPECT_THAT(question.candidates, UnorderedElementsAre("node n3", "nic n3r0-3", "gpu n3g0"));
  EXPECT_EQ(question.host, "n3");
  EXPECT_THAT(question.next, HasSubstr("replace n3"));
}

TEST(Suspects, of_an_open_question_have_a_measurement_that_distinguishes_them) {
  using Kind = Part::Kind;
  const Part rail{Kind::rail, 0, 2, 2}, node{Kind::node, 1}, gpu{Kind::gpu, 1, 3}, first{Kind::domain, 0},
      second{Kind::domain, 1};
  EXPECT_THAT(next_step({rail, first, second}), HasSubstr("without one of domain d0, domain d1 at a time"));
  EXPECT_THAT(next_step({rail, first}), HasSubstr("again without domain d0: if everything is fast"));
  EXPECT_THAT(next_step({node, first}), HasSubstr("without one of n1, domain d0 at a time"));
  EXPECT_THAT(next_step({node, gpu}), HasSubstr("replace n1"));
  EXPECT_THAT(next_step({node, rail}), HasSubstr("again without n1: if everything is fast"));
  EXPECT_THAT(next_step({node, {Kind::link, 0, 2}}),
              HasSubstr("one of n0, n1, n2 at a time, or each of them with a node"));
  EXPECT_THAT(next_step({rail, {Kind::rail, 0, 3, 3}}), HasSubstr("--group rail"));
  EXPECT_THAT(next_step({node, {Kind::link, 0, 2}}, "wrong"),
              HasSubstr("without which everything is right is at fault"));
  EXPECT_THAT(next_step({rail, first}, "silent"), HasSubstr("if everything is no longer silent then"));
}

TEST(Suspects, need_ten_percent_and_more_than_a_pair) {
  EXPECT_THAT(names({.noise = 0.005, .longer = slow_gpu(1, 2, 1.05)}), IsEmpty());
  const Longer one_pair = [](int a, int ga, int b, int gb) {
    return a == 0 && ga == 1 && b == 2 && gb == 3 ? 3.0 : 1.0;
  };
  EXPECT_THAT(names({.longer = one_pair}), IsEmpty());
}

TEST(Suspects, of_gpus_without_a_switch_and_known_links_are_none_because_some_are_farther_apart) {
  Report report = report_of({.platform = "p3dn.24xlarge", .nodes = 1, .longer = slow_gpu(0, 1, 2)}, 1);
  for (topo::Gpu& gpu : report.topology.hosts[0].gpu_devices) gpu.nvlinks.clear();
  EXPECT_THAT(diagnose(report, {}).suspects, IsEmpty());
}

TEST(Suspects, between_nodes_that_are_pretended_are_none) {
  Report report = report_of({.nodes = 4, .longer = slow_node(2, 2)}, 1);
  EXPECT_EQ(diagnose(report, {}).suspects.size(), 1u);
  for (topo::Host& host : report.topology.hosts) host.pretended = true;
  EXPECT_THAT(diagnose(report, {}).suspects, IsEmpty());
}

TEST(Suspects, make_a_run_slow_and_are_told_with_evidence_and_what_to_do) {
  Report report = report_of({.longer = slow_nic(1, 2, 2)}, 1);
  report.topology.hosts[1].name = "ip-10-0-0-7";
  report.topology.hosts[1].instance = "i-0123456789abcdef0";
  EXPECT_EQ(overall(report), Grade::unknown);
  report.suspects = diagnose(report, {}).suspects;
  EXPECT_EQ(overall(report), Grade::slow);
  EXPECT_EQ(exit_code(report), ExitCode::slow);
  ASSERT_EQ(report.suspects.size(), 1u);
  const Suspect& suspect = report.suspects.front();
  EXPECT_GT(suspect.confidence, 0.9);
  EXPECT_EQ(suspect.partners_tested, 24);
  EXPECT_THAT(sentence_about(suspect),
              HasSubstr("nic n1r8-11 (ip-10-0-0-7, i-0123456789abcdef0): the GPU beside NICs 8 "
                        "to 11 reaches other nodes at 50 % of the others' rate"));
  EXPECT_THAT(healthy_hosts(report), Not(HasSubstr("ip-10-0-0-7")));
  EXPECT_THAT(healthy_hosts(report), HasSubstr(report.topology.hosts[0].name + " slots=8\n"));
  const std::string text = support_text(report);
  for (const char* const part : {"i-0123456789abcdef0", "n1r8-11", "50 %", "p5.48xlarge"})
    EXPECT_THAT(text, HasSubstr(part));
  report.suspects.clear();
  EXPECT_EQ(healthy_hosts(report), "");
  EXPECT_EQ(support_text(report), "");
}

// A case of support needs the instances of all that may be at fault.
TEST(Suspects, are_told_with_the_instances_of_all_hosts_that_may_be_at_fault) {
  Report report;
  for (const char* const name : {"a", "b", "c", "d"}) {
    topo::Host& host = report.topology.hosts.emplace_back();
    host.name = name;
    host.instance = fmt::format("i-{}", name);
  }
  const auto told = [&] {
    const std::string text = support_text(report);
    std::string instances;
    for (const topo::Host& host : report.topology.hosts)
      if (text.find("instance " + host.instance + ",") != std::string::npos) instances += host.name;
    return instances;
  };
  Suspect& link = report.suspects.emplace_back();
  link.kind = "link", link.name = "n0-n2", link.host = "a";
  EXPECT_EQ(told(), "ac");
  report.topology.hosts[0].nics = {{"eth0", "ethernet", "ena", "up", {}, 0}, {"mlx5_0", "ethernet", "", "up", {}, 0}};
  report.topology.hosts[0].nics[1].verbs = "uverbs0";
  EXPECT_THAT(support_text(report), AllOf(HasSubstr("NIC mlx5_0: ethernet"), Not(HasSubstr("eth0")))) << "RoCE";
  report.suspects.clear();
  report.open_questions = {{.candidates = {"node n1", "nic n3r0", "rail 2"}, .evidence = "seen", .next = "swap"}};
  EXPECT_EQ(told(), "bd");
  report.open_questions.clear();
  report.findings = {{"fabric.pair", topo::Severity::error, {}, "no message", "look", topo::About::fabric, {"b", "c"}}};
  EXPECT_EQ(told(), "bc");
}

// Each NIC of GPU 2 of node 1 alone, with one partner; NICs in `slow` take twice as long. Returns the text about its
// NIC.
Suspect nic_beside_gpu(const std::set<int>& slow, const std::set<int>& left_out = {}, const Longer& longer = {}) {
  const Longer slow_together = slow_nic(1, 2, 2);
  Report report = report_of({.nodes = 4, .longer = longer ? both(slow_together, longer) : slow_together}, 1);
  for (int rank = 0; rank < report.run.ranks; ++rank) {
    std::vector<std::string>& nics = report.topology.nics_of_rank.emplace_back();
    for (int nic = 0; nic < 4; ++nic) nics.push_back(fmt::format("nic{}", rank % 8 * 4 + nic));
  }
  for (topo::Host& host : report.topology.hosts) {
    host.nics.clear();
    for (int nic = 0; nic < 32; ++nic) {
      topo::Nic& its = host.nics.emplace_back();
      its.name = fmt::format("nic{}", nic);
      its.kind = "efa";
    }
  }
  for (int nic = 0; nic < 4; ++nic) {
    if (left_out.contains(nic)) continue;
    Measurement& m = report.results.emplace_back().measurement;
    Case& c = m.measured_case;
    c.backend = "sim";
    c.collective = &find_collective("p2p");
    c.pattern = "one_way";
    c.pair = "other_node";
    c.bytes = MiB(8);
    c.ranks = 2;
    c.nic = nic;
    for (const int partner : {2, 18}) m.groups.push_back({{partner, partner + 8}, {1e-3}});
    m.groups.front().median = Seconds{slow.contains(nic) ? 2e-3 : 1e-3};
  }
  const std::vector<Suspect> all = diagnose(report, {}).suspects;
  const auto found = std::ranges::find(all, "nic", &Suspect::kind);
  EXPECT_EQ(all.size(), longer ? 2u : 1u);
  EXPECT_NE(found, all.end());
  return found == all.end() ? Suspect{} : *found;
}

// Ranks on GPUs 0 to 3 of hosts with 8 GPUs, each beside 4 NICs. Single NICs are measured by ranks that divide all 32.
TEST(Suspects, of_a_job_on_half_of_the_gpus_are_the_nics_of_these_gpus) {
  Report report = report_of({.gpus = 4, .longer = slow_nic(0, 1, 2)}, 1);
  const auto name_of_nic = [](int number) { return fmt::format("nic{}", number); };
  for (std::size_t node = 0; node < report.topology.hosts.size(); ++node) {
    topo::Host& host = report.topology.hosts[node];
    host.nics.clear();
    host.gpu_devices.clear();
    for (int gpu = 0; gpu < 8; ++gpu) {
      topo::Gpu& its = host.gpu_devices.emplace_back();
      its.uuid = fmt::format("GPU-{}-{}", node, gpu);
      for (int nic = 4 * gpu; nic < 4 * gpu + 4; ++nic) {
        its.nics.push_back(name_of_nic(nic));
        topo::Nic& efa = host.nics.emplace_back();
        efa.name = name_of_nic(nic);
        efa.kind = "efa";
      }
    }
    for (int rank = 0; rank < 4; ++rank) {
      report.topology.gpu_of_rank.push_back(fmt::format("GPU-{}-{}", node, rank));
      std::vector<std::string>& measured = report.topology.nics_of_rank.emplace_back();
      for (int nic = 8 * rank; nic < 8 * rank + 8; ++nic) measured.push_back(name_of_nic(nic));
    }
  }
  const NicNumbers numbers(report.topology);
  EXPECT_THAT(numbers.of({0, 1}), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(numbers.near({0, 1}), ElementsAre(4, 5, 6, 7));
  const std::vector<Suspect> found = diagnose(report, {}).suspects;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind + " " + found[0].name, "nic n0r4-7");
}

TEST(Suspects, are_found_beside_hosts_whose_gpus_other_programs_use) {
  const auto longer = [](int a, int g, int b, int h) {
    const auto is = [&](int node, int gpu) { return (a == node && g == gpu) || (b == node && h == gpu); };
    return is(0, 0) || is(2, 5) ? 2.0 : 1.0;
  };
  Report report = report_of({.longer = longer}, 1);
  const auto names = [&] {
    std::vector<std::string> all;
    for (const Suspect& each : diagnose(report, {}).suspects) all.push_back(each.kind + " " + each.name);
    return all;
  };
  EXPECT_THAT(names(), UnorderedElementsAre("gpu n0g0", "gpu n2g5"));
  for (Result& each : report.results) each.verdict.not_judged_hosts = {"n0"};
  EXPECT_THAT(names(), ElementsAre("gpu n2g5"));
  for (const RetestCase& each : to_retest(report))
    for (const Group& pair : each.pairs) EXPECT_THAT(pair, Each(testing::Ge(8)));
}

// Other programs make nothing faster: n2 was as fast as any with n0.
TEST(Suspects, are_no_parts_that_were_fast_with_hosts_whose_gpus_other_programs_use) {
  const auto longer = [](int a, int, int b, int) { return a != b && (a == 1 || b == 1) ? 2.0 : 1.0; };
  Report report = report_of({.longer = longer}, 1);
  for (Result& each : report.results) each.verdict.not_judged_hosts = {"n0"};
  const Diagnosis found = diagnose(report, {});
  EXPECT_GT(found.suspects.size() + found.questions.size(), 0u);
  for (const Suspect& each : found.suspects) EXPECT_NE(each.kind + " " + each.name, "node n2");
  for (const OpenQuestion& each : found.questions)
    EXPECT_THAT(each.candidates, testing::Not(testing::Contains("node n2")));
}

TEST(Suspects, of_the_runs_library_are_not_told_by_messages_of_another_one) {
  Report report = report_of({.longer = slow_nic(1, 2, 2)}, 1);
  report.run.backend = "sim";
  const std::vector<TransferRecord> alone = observe(report, {});
  Measurement& m = report.results.emplace_back().measurement;
  Case& c = m.measured_case;
  c.backend = "ofi";
  c.collective = &find_collective("p2p");
  c.pattern = "one_way";
  c.pair = "other_node";
  c.bytes = MiB(4);
  c.ranks = 2;
  c.for_parts = true;
  for (int rank = 0; rank < 8; ++rank) m.groups.push_back({{rank, rank + 8}, {1e-3}});
  const std::vector<TransferRecord> beside = observe(report, {});
  ASSERT_EQ(beside.size(), alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(beside[i].samples.size(), alone[i].samples.size());
    EXPECT_EQ(beside[i].silent.count, alone[i].silent.count);
  }
}

// Four hosts with four NICs each, beside one rank. NIC 2 alone has been measured between all pairs; `silent` ones gave
// nothing.
Report report_of_single_nics(const std::set<Group>& silent, int hosts = 4) {
  Report report;
  for (int node = 0; node < hosts; ++node) {
    topo::Host& host = report.topology.hosts.emplace_back();
    host.name = fmt::format("h{}", node);
    report.topology.host_of_rank.push_back(node);
    report.topology.nics_of_rank.push_back({"nic0", "nic1", "nic2", "nic3"});
    for (const std::string& name : report.topology.nics_of_rank.back()) {
      topo::Nic& nic = host.nics.emplace_back();
      nic.name = name;
      nic.kind = "efa";
    }
  }
  report.run.ranks = report.run.nodes = hosts;
  for (int nic = 0; nic < 4; ++nic) {
    Measurement& m = report.results.emplace_back().measurement;
    Case& c = m.measured_case;
    c.backend = "ofi";
    c.collective = &find_collective("p2p");
    c.pattern = "one_way";
    c.pair = "other_node";
    c.bytes = MiB(1);
    c.ranks = c.nodes = 2;
    c.nic = nic;
    c.for_parts = true;
    for (int a = 0; a < hosts; ++a)
      for (int b = a + 1; b < hosts; ++b)
        if (nic == 2 && silent.contains({a, b}))
          m.silent_groups.push_back({b, a});
        else if (nic != 2 || silent.empty())
          m.groups.push_back({{a, b}, {1e-3}});
  }
  return report;
}

// Two hosts of one rank, whose NICs `slow` (host, number) have half the rate, with the retests of to_retest() if
// `again`. Without `others` there are no NICs of other numbers in them, whose messages take `apart` times as long.
Diagnosis of_two_hosts(const std::set<std::pair<int, int>>& slow, bool again = true, bool others = true,
                       double apart = 1, std::size_t nics = 4) {
  Report report = report_of_single_nics({}, 2);
  report.results.resize(nics);
  for (std::vector<std::string>& names : report.topology.nics_of_rank) names.resize(nics);
  const auto add = [&](Measurement& m) {
    const Case& c = m.measured_case;
    m.groups.clear();
    const bool is_slow = slow.contains({0, *c.nic}) || slow.contains({1, c.other_nic.value_or(*c.nic)});
    GroupResult& result = m.groups.emplace_back();
    result.group = {0, 1};
    result.median = Seconds{(is_slow ? 2e-3 : 1e-3) * (c.other_nic ? apart : 1)};
    for (int sample = 0; sample < 9; ++sample)
      result.samples.push_back(static_cast<float>(result.median.count * (1 + 0.002 * sample)));
  };
  for (Result& result : report.results) add(result.measurement);
  std::vector<Measurement> retested;
  for (const RetestCase& each : to_retest(report)) {
    if (!again || (!others && each.like.other_nic)) continue;
    EXPECT_EQ(each.pairs, (std::vector<Group>{{0, 1}}));
    retested.emplace_back().measured_case = each.like;
    add(retested.back());
  }
  return diagnose(report, retested);
}

std::vector<std::string> names_of(const Diagnosis& found) {
  std::vector<std::string> all;
  for (const Suspect& suspect : found.suspects) all.push_back(suspect.kind + " " + suspect.name);
  for (const OpenQuestion& question : found.questions) all.push_back("? " + join(question.candidates));
  return all;
}

TEST(Suspects, of_two_hosts_with_a_rank_each_are_told_by_nics_of_other_numbers) {
  EXPECT_THAT(names_of(of_two_hosts({})), IsEmpty());
  for (const int host : {0, 1})
    for (const int nic : {0, 2, 3}) {
      EXPECT_THAT(names_of(of_two_hosts({{host, nic}})), ElementsAre(fmt::format("nic n{}r{}", host, nic)));
      EXPECT_THAT(names_of(of_two_hosts({{host, nic}}, false)), IsEmpty()) << "one observation may be a route's";
    }
  const Diagnosis found = of_two_hosts({{1, 2}});
  ASSERT_EQ(found.suspects.size(), 1u);
  EXPECT_EQ(found.suspects[0].partners_tested, 4);
  EXPECT_THAT(names_of(of_two_hosts({{1, 2}, {0, 1}})), UnorderedElementsAre("nic n1r2", "nic n0r1"));
}

TEST(Suspects, of_two_hosts_are_none_of_the_nics_that_are_far_from_those_of_other_numbers) {
  for (const double apart : {1.2, 1.5, 3.0}) {
    EXPECT_THAT(names_of(of_two_hosts({{1, 2}}, true, true, apart)), ElementsAre("nic n1r2"));
    EXPECT_THAT(names_of(of_two_hosts({{0, 2}, {1, 2}}, true, true, apart)), ElementsAre("rail 2"));
    // With two NICs a host none is left to compare with.
    EXPECT_THAT(names_of(of_two_hosts({{1, 1}}, true, true, apart, 2)), ElementsAre("nic n1r1"));
    const Diagnosis both = of_two_hosts({{0, 1}, {1, 1}}, true, true, apart, 2);
    EXPECT_THAT(both.suspects, IsEmpty());
    ASSERT_EQ(both.questions.size(), 1u);
    EXPECT_THAT(both.questions[0].candidates, testing::IsSupersetOf({"nic n0r1", "nic n1r1"}));
  }
}

TEST(Suspects, of_two_nics_that_are_slow_twice_and_have_no_other_partner_are_an_open_question) {
  const Diagnosis found = of_two_hosts({{1, 2}}, true, false);
  EXPECT_THAT(found.suspects, IsEmpty());
  ASSERT_EQ(found.questions.size(), 1u);
  EXPECT_THAT(found.questions[0].candidates, testing::IsSupersetOf({"nic n0r2", "nic n1r2"}));
}

// Evidence about the only suspect of four hosts, whose single NICs send to each other in both directions. `is_slow`: by
// sender, receiver, NIC and sample of nine.
std::string evidence_where(const std::function<bool(int, int, int, int)>& is_slow) {
  Report report = report_of_single_nics({});
  for (Result& result : report.results) {
    Measurement& m = result.measurement;
    m.groups.clear();
    for (int from = 0; from < 4; ++from)
      for (int to = 0; to < 4; ++to) {
        if (from == to) continue;
        GroupResult& its = m.groups.emplace_back();
        its.group = {from, to};
        its.median = Seconds{is_slow(from, to, *m.measured_case.nic, 0) ? 2e-3 : 1e-3};
        for (int sample = 0; sample < 9; ++sample)
          its.samples.push_back(is_slow(from, to, *m.measured_case.nic, sample) ? 2e-3f : 1e-3f);
      }
  }
  const std::vector<Suspect> found = diagnose(report, {}).suspects;
  return found.size() == 1 ? found[0].name + ": " + found[0].evidence : "";
}

TEST(Suspects, that_are_slow_in_one_direction_are_steadily_so) {
  const std::string sends = evidence_where([](int from, int, int nic, int) { return from == 2 && nic == 1; });
  EXPECT_THAT(sends,
              HasSubstr("n2r1: nic1 reaches other nodes at 50 % of the others' rate when it sends, over 3 pairs"));
  const std::string receives = evidence_where([](int, int to, int nic, int) { return to == 0 && nic == 3; });
  EXPECT_THAT(receives, HasSubstr("n0r3: nic3 reaches other nodes at 50 % of the others' rate when it receives, over"));
  const std::string both =
      evidence_where([](int from, int to, int nic, int) { return (from == 2 || to == 2) && nic == 1; });
  EXPECT_THAT(both, HasSubstr("n2r1: nic1 reaches other nodes at 50 % of the others' rate, over 3 pairs"));
  const std::string at_times = evidence_where(
      [](int from, int to, int nic, int sample) { return (from == 2 || to == 2) && nic == 1 && sample % 2 == 0; });
  EXPECT_THAT(at_times, HasSubstr("rate in 56 % of its samples, intermittently"));
  const std::string at_times_sends =
      evidence_where([](int from, int, int nic, int sample) { return from == 2 && nic == 1 && sample % 2 == 0; });
  EXPECT_THAT(at_times_sends, HasSubstr("when it sends in 56 % of these samples, intermittently"));
  const std::string link = evidence_where([](int from, int to, int, int) { return from == 3 && to == 1; });
  EXPECT_THAT(link, HasSubstr("n1-n3: h1 and h3 reach each other at 50 % of the others' rate from h3 to h1, over"));
  const std::string up = evidence_where([](int from, int to, int, int) { return from < 2 && to >= 2; });
  EXPECT_THAT(up, HasSubstr("n0,n1-n2,n3: the nodes h0, h1 and h2, h3 reach each other at 50 % of the others' rate "
                            "from the former to the latter, over"));
  const std::string down = evidence_where([](int from, int to, int, int) { return from >= 2 && to < 2; });
  EXPECT_THAT(down, HasSubstr("at 50 % of the others' rate from the latter to the former, over"));
  const std::string cut_at_times =
      evidence_where([](int from, int to, int, int sample) { return (from < 2) != (to < 2) && sample % 2 == 0; });
  EXPECT_THAT(cut_at_times, HasSubstr("rate in 56 % of its samples, intermittently"));
}

// As a retest of everything that finds the same.
std::vector<Measurement> measurements_of(const Report& report) {
  std::vector<Measurement> all;
  for (const Result& result : report.results) all.push_back(result.measurement);
  return all;
}

// Two nodes with a rank each have one route, which no other pair of theirs can contradict.
TEST(Suspects, of_two_nodes_whose_only_pair_is_slow_twice_are_an_open_question) {
  const auto cluster = [](double times) {
    return Cluster{.platform = "p5.4xlarge", .nodes = 16, .gpus = 1, .outliers = 0, .longer = slow_link(1, 6, times)};
  };
  const Report report = report_of(cluster(2), 1);
  const Diagnosis found = diagnose(report, measurements_of(report));
  EXPECT_THAT(found.suspects, IsEmpty());
  ASSERT_EQ(found.questions.size(), 1u);
  EXPECT_EQ(found.questions[0].candidates.front(), "link n1-n6");
  EXPECT_THAT(names_of(diagnose(report, {})), IsEmpty()) << "not measured again";
  EXPECT_THAT(names_of(diagnose(report, measurements_of(report_of(cluster(1), 1)))), IsEmpty()) << "fast then";
}

// All transfers take longer in the retest.
TEST(Suspects, are_none_that_take_no_longer_than_others_when_measured_again) {
  Report report = report_of_single_nics({});
  const auto set_times = [](Measurement& m, double of_suspect, double of_others) {
    for (GroupResult& its : m.groups) {
      its.median = Seconds{its.group.front() == 2 || its.group.back() == 2 ? of_suspect : of_others};
      its.samples.assign(9, static_cast<float>(its.median.count));
    }
  };
  for (Result& result : report.results) set_times(result.measurement, 1e-3, 1e-3);
  set_times(report.results[1].measurement, 2e-3, 1e-3);
  EXPECT_THAT(names_of(diagnose(report, {})), ElementsAre("nic n2r1"));
  Measurement again = report.results[1].measurement;
  set_times(again, 1.2e-3, 1.2e-3);
  EXPECT_THAT(names_of(diagnose(report, {again})), IsEmpty());
  set_times(again, 2.4e-3, 1.2e-3);
  EXPECT_THAT(names_of(diagnose(report, {again})), ElementsAre("nic n2r1"));
}

TEST(Suspects, are_no_nics_that_have_a_lower_rate_by_design) {
  Report report = report_of_single_nics({});
  for (topo::Host& host : report.topology.hosts)
    for (topo::Nic& nic : host.nics) nic.rate = GBps{nic.name == "nic3" ? 25.0 : 50.0};
  for (GroupResult& pair : report.results[3].measurement.groups) pair.median = Seconds{2e-3};
  EXPECT_THAT(names_of(diagnose(report, {})), IsEmpty());
}

TEST(Suspects, on_hosts_whose_ranks_waited_for_cores_are_measured_again_first) {
  EXPECT_EQ(share_of_waiting_in("3000000 1000000 17"), 0.25);
  for (const char* text : {"", "0 0 0", "x", "1"}) EXPECT_EQ(share_of_waiting_in(text), std::nullopt) << text;
  Report report = report_of_single_nics({});
  const auto is_slow = [](const Group& pair, int nic) { return nic == 1 && (pair.front() == 2 || pair.back() == 2); };
  for (Result& result : report.results)
    for (GroupResult& its : result.measurement.groups) {
      its.samples.assign(9, is_slow(its.group, *result.measurement.measured_case.nic) ? 2e-3f : 1e-3f);
      its.median = Seconds{its.samples.front()};
    }
  const auto action = [&](const std::vector<std::optional<double>>& shares) {
    Report busy = report;
    busy.findings = busy_cores(report.topology, shares);
    const std::vector<Suspect> found =
        diagnose(busy, measurements_of(busy), waiting_of_nodes(report.topology, shares)).suspects;
    return found.size() == 1 ? found[0].name + ": " + found[0].action : "";
  };
  EXPECT_THAT(action({0.01, 0.02, 0.09, std::nullopt}), StartsWith("n2r1: replace the instance"));
  EXPECT_THAT(action({0.5, 0.5, std::nullopt, 0.5}), StartsWith("n2r1: replace the instance")) << "other hosts";
  EXPECT_THAT(
      action({std::nullopt, 0, 0.42, 0}),
      StartsWith("n2r1: first free the cores of its host, for which ranks waited (host.cores_busy), and measure "
                 "again; if it stays slow: replace the instance"));
  const std::vector<topo::Finding> found = busy_cores(report.topology, {std::nullopt, 0, 0.42, 0});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].subject.host, "h2");
  EXPECT_THAT(found[0].evidence, HasSubstr("rank 2 of h2 waited for a processor core for 42 % of its time"));
}

TEST(Suspects, on_hosts_whose_ranks_waited_are_named_where_the_fastest_samples_are_slow_too) {
  Report report = report_of_single_nics({});
  // Some samples are longer everywhere; those of one NIC are all longer, or most of them.
  const auto diagnose_where = [&](bool steady, const std::vector<std::optional<double>>& waiting) {
    report = report_of_single_nics({});
    report.findings = busy_cores(report.topology, waiting);
    for (Result& result : report.results)
      for (GroupResult& its : result.measurement.groups) {
        const bool slow =
            result.measurement.measured_case.nic == 1 && (its.group.front() == 2 || its.group.back() == 2);
        for (int sample = 0; sample < 9; ++sample) {
          const double waited = slow && !steady ? (sample < 2 ? 1 : 1.6) : sample < 5 ? 1 : 1 + 0.1 * (sample - 4);
          its.samples.push_back(static_cast<float>((slow && steady ? 2e-3 : 1e-3) * waited));
        }
        its.median = Seconds{median(std::vector<double>(its.samples.begin(), its.samples.end()))};
      }
    return diagnose(report, measurements_of(report), waiting_of_nodes(report.topology, waiting));
  };
  const std::vector<std::optional<double>> much{0, 0, 0.42, 0.3}, little{0, 0, 0.02, 0.03};
  EXPECT_THAT(diagnose_where(false, little).suspects, ElementsAre(testing::Field(&Suspect::name, "n2r1")));
  EXPECT_THAT(diagnose_where(false, {}).suspects, ElementsAre(testing::Field(&Suspect::name, "n2r1")));
  EXPECT_THAT(diagnose_where(true, much).suspects, ElementsAre(testing::Field(&Suspect::name, "n2r1")));
  EXPECT_EQ(exit_code(report), ExitCode::ok) << "a warning alone";
  const Diagnosis found = diagnose_where(false, much);
  EXPECT_TRUE(found.suspects.empty());
  EXPECT_EQ(found.slow_while_waiting, (std::map<int, std::vector<std::string>>{{2, {"nic n2r1"}}}));
  explain_slow_parts(report.findings, report.topology, found.slow_while_waiting);
  EXPECT_EQ(report.findings[0].severity, topo::Severity::error);
  EXPECT_THAT(report.findings[0].evidence,
              HasSubstr("makes parts look slow: here nic n2r1, which is not steadily slow in the fastest samples"));
  EXPECT_EQ(report.findings[1].severity, topo::Severity::warning) << "h3 has no such part";
  report.exit_code = exit_code(report);
  EXPECT_EQ(report.exit_code, ExitCode::inconclusive);
  EXPECT_THAT(decide(report).sentence, StartsWith("CANNOT TELL: errors to fix first: host.cores_busy on h2"));
  EXPECT_EQ(judge_nodes(report)[2].in_doubt, std::vector<std::string>{"host.cores_busy"});
  EXPECT_TRUE(judge_nodes(report)[3].in_doubt.empty());
}

// Two processes that compute on one core wait for each other.
TEST(Waiting, for_a_core_is_counted_by_the_kernel) {
  if (!share_of_waiting(::getpid())) return;  // a kernel that does not count it
  std::array<pid_t, 2> both{};
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(static_cast<unsigned>(::sched_getcpu()), &core);
  for (pid_t& each : both) {
    each = ::fork();
    ASSERT_GE(each, 0);
    if (each > 0) continue;
    ::sched_setaffinity(0, sizeof core, &core);
    for (std::atomic<unsigned> count = 0;;) ++count;
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  double share = 0;
  while (share < 0.3 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    share = share_of_waiting(both[0]).value_or(0);
  }
  for (const pid_t each : both) {
    ::kill(each, SIGKILL);
    ::waitpid(each, nullptr, 0);
  }
  EXPECT_GE(share, 0.3);
  EXPECT_EQ(share_of_waiting(both[0]), std::nullopt);
}

TEST(Suspects, are_a_rail_where_its_nics_are_slow_on_all_hosts) {
  EXPECT_THAT(names_of(of_two_hosts({{0, 2}, {1, 2}})), ElementsAre("rail 2"));
  Report report = report_of_single_nics({});
  for (GroupResult& pair : report.results[2].measurement.groups) pair.median = Seconds{2e-3};
  const Diagnosis found = diagnose(report, {});
  EXPECT_THAT(names_of(found), ElementsAre("rail 2"));
  EXPECT_THAT(sentence_about(found.suspects.at(0)),
              HasSubstr("the NICs 2 of all nodes (nic2 on " + report.topology.hosts[0].name + ")"));
}

TEST(Suspects, of_gpus_without_a_switch_are_told_by_pairs_with_as_many_links) {
  // As wired, pairs without a link are three times slower, and those with one half as fast as those with two.
  const topo::Platform& platform = topo::find_platform("p3dn.24xlarge");
  const auto wired = [&](const Longer& longer) {
    return [=, &platform](int a, int ga, int b, int gb) {
      const int links = platform.simulated_links.at(static_cast<std::size_t>(ga)).at(static_cast<std::size_t>(gb));
      return longer(a, ga, b, gb) * (links == 2 ? 1 : links == 1 ? 2 : 6);
    };
  };
  const auto found = [&](const Longer& longer) {
    return names({.platform = "p3dn.24xlarge", .nodes = 1, .outliers = 0, .longer = wired(longer)});
  };
  EXPECT_THAT(found(Longer([](int, int, int, int) { return 1.0; })), IsEmpty());
  for (const int gpu : {0, 3, 6})
    EXPECT_THAT(found(slow_gpu(0, gpu, 1 / 0.7)), ElementsAre(fmt::format("gpu n0g{}", gpu)));
}

std::vector<std::string> names_after(const Report& report, const std::vector<Group>& silent_again,
                                     const std::vector<Group>& sound_again) {
  Measurement again;
  again.measured_case = report.results[2].measurement.measured_case;
  again.silent_groups = silent_again;
  for (const Group& pair : sound_again) again.groups.push_back({pair, {1e-3}});
  std::vector<std::string> all;
  for (const Suspect& suspect : diagnose(report, {again}).suspects)
    all.push_back(fmt::format("{} {} {}", suspect.kind, suspect.host, suspect.device));
  return all;
}

TEST(Suspects, that_are_silent_once_are_named_by_a_second_silence_and_cleared_without_one) {
  EXPECT_THAT(to_retest(report_of_single_nics({})), IsEmpty());
  const Report report = report_of_single_nics({{0, 1}});
  EXPECT_THAT(diagnose(report, {}).suspects, IsEmpty());
  const std::vector<RetestCase> again = to_retest(report);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_TRUE(again[0].silent);
  EXPECT_EQ(again[0].like.nic, 2);
  EXPECT_EQ(again[0].pairs, (std::vector<Group>{{0, 1}}));
  EXPECT_THAT(names_after(report, {{1, 2}}, {{0, 3}}), ElementsAre("nic h1 nic2"));
  EXPECT_THAT(names_after(report, {{0, 3}}, {{1, 2}}), ElementsAre("nic h0 nic2"));
  EXPECT_THAT(names_after(report, {}, {{1, 2}, {0, 3}, {0, 1}}), IsEmpty());
}

TEST(Suspects, whose_silence_tells_the_part_already_are_not_measured_again) {
  const Report report = report_of_single_nics({{0, 1}, {1, 2}});
  EXPECT_EQ(diagnose(report, {}).suspects.size(), 1u);
  EXPECT_THAT(to_retest(report), IsEmpty());
}

TEST(Suspects, that_were_silent_with_one_partner_only_are_cleared_by_what_they_do_with_others) {
  Report report = report_of_single_nics({{0, 1}});
  Measurement& m = report.results[2].measurement;
  m.silent_groups.push_back({0, 1});
  // The other NICs of these hosts reach each other, so that it is no link between hosts either.
  EXPECT_THAT(names_after(report, {{0, 1}, {1, 0}}, {{1, 2}, {0, 3}, {2, 1}, {3, 0}}), IsEmpty());
  const std::vector<Group> sound{{1, 2}, {0, 3}, {0, 1}, {1, 0}};
  EXPECT_THAT(names_after(report, {}, sound), IsEmpty());
}

TEST(Suspects, of_the_nics_of_a_gpu_are_the_one_that_nobody_found_fast) {
  const Suspect one = nic_beside_gpu({1});
  EXPECT_EQ(one.name, "n1r9");
  EXPECT_EQ(one.device, "nic9");
  EXPECT_THAT(one.evidence, HasSubstr("nic9 reaches other nodes at 50 %"));
  EXPECT_EQ(nic_beside_gpu({1}, {2}).name, "n1r9");
  EXPECT_THAT(nic_beside_gpu({}).evidence, HasSubstr("each NIC beside it is fast alone"));
  // The partner of each is itself a slow node.
  const Longer partner = slow_node(0, 2);
  for (const Suspect& any : {nic_beside_gpu({1, 3}), nic_beside_gpu({}, {2}), nic_beside_gpu({1}, {}, partner)}) {
    EXPECT_THAT(any.evidence, HasSubstr("one of the NICs beside it is at fault"));
    EXPECT_EQ(any.device, "");
  }
}

TEST(Suspects, are_found_again_by_their_names) {
  using enum Part::Kind;
  for (const Part& part : {Part{node, 3}, Part{gpu, 0, 7}, Part{nic, 12, 31}, Part{nics, 1, 8, 11},
                           Part{nics, 2, -4, -4}, Part{link, 0, 2}, Part{links, 0, 0, 0, {{0, 1}, {2, 3}}},
                           Part{rail, 0, 5, 5}, Part{rail, 0, 4, 7}, Part{domain, 1}})
    EXPECT_EQ(part_named(full_name(part)), part) << full_name(part);
  for (const char* text : {"",        "node",      "node ",     "node n",     "node n1 ",          "node n-1",
                           "node 1",  "gpu n1",    "gpu n1g",   "gpu n1r1",   "nic n1r5-",         "nic n1r-5",
                           "link n0", "link n0-1", "link n0-n", "link n0,n1", "link n0-n1,",       "rail",
                           "rail x",  "rail 1-",   "domain 1",  "domain dn",  "node n99999999999", "switch n1",
                           "all"})
    EXPECT_EQ(part_named(text), std::nullopt) << text;
}

}  // namespace
}  // namespace p5::reports
