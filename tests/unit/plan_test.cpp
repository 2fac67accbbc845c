// Plans: sizes, memory limits, skipped collectives, and the order of cases.
#include "bench/model/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/app/run/phases.hpp"
#include "bench/backends/backends.hpp"
#include "bench/base/error.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/model/traffic.hpp"
#include "tests/fakes/thread_backend.hpp"

namespace p5 {
namespace {

Plan plan_for(const Options& options, const JobFacts& job, const std::string& backend = "mpi") {
  fakes::Threads threads(1);
  threads.slots = 1;
  return make_plan(options, job, fakes::ThreadBackend(threads, 0), backend);
}

JobFacts job_of(const NodeOfRank& node_of_rank, std::vector<Bytes> memory = {}) {
  return {.node_of_rank = node_of_rank, .memory_of_node = std::move(memory)};
}

Options only(const std::string& collective) {
  Options options;
  options.collectives = {collective};
  return options;
}

std::vector<std::uint64_t> sizes_of(const Plan& plan) {
  std::vector<std::uint64_t> sizes;
  for (const Case& c : plan.cases) sizes.push_back(c.bytes.count);
  std::ranges::sort(sizes);
  return sizes;
}

std::string refusal(const Options& options, const JobFacts& job) {
  try {
    plan_for(options, job);
  } catch (const UsageError& problem) {
    return problem.what();
  }
  return "";
}

TEST(Plan, goes_from_8_bytes_to_64_mebibytes_over_mpi_and_4_gibibytes_elsewhere) {
  const JobFacts job = job_of({0, 0});
  const std::vector<std::uint64_t> over_mpi = sizes_of(plan_for(only("all_reduce"), job, "mpi"));
  EXPECT_EQ(over_mpi.size(), 24u);
  EXPECT_EQ(over_mpi.front(), 8u);
  EXPECT_EQ(over_mpi.back(), MiB(64).count);
  EXPECT_EQ(sizes_of(plan_for(only("all_reduce"), job, "sim")).size(), 30u);
}

TEST(Plan, rounds_sizes_up_to_an_element_of_each_rank_and_has_each_size_once) {
  Options options = only("all_gather");
  options.sizes = {{8}, {12}, {16}, {17}};
  EXPECT_EQ(sizes_of(plan_for(options, job_of({0, 0, 0, 0}))), (std::vector<std::uint64_t>{16, 32}));
  options.per_rank = true;
  EXPECT_EQ(sizes_of(plan_for(options, job_of({0, 0, 0, 0}))), (std::vector<std::uint64_t>{32, 48, 64, 80}));
}

TEST(Plan, lowers_a_defaulted_maximum_to_what_the_fullest_host_holds) {
  // Three ranks with 2 buffers of the message each, on a host that may use 80 % of its memory.
  const Plan plan = plan_for(only("all_reduce"), job_of({0, 0, 0, 1}, {MiB(100), MiB(1000)}));
  EXPECT_EQ(plan.max, MiB(8));
  ASSERT_EQ(plan.remarks.size(), 1u);
  EXPECT_NE(plan.remarks[0].find("lowered from 64 MiB to 8 MiB"), std::string::npos) << plan.remarks[0];
  EXPECT_EQ(plan_for(only("all_reduce"), job_of({0, 1, 2}, {MiB(200), MiB(200), MiB(200)})).max, MiB(64));
}

TEST(Plan, refuses_an_explicit_size_that_does_not_fit) {
  const JobFacts job = job_of({0, 0}, {MiB(100)});
  Options by_maximum = only("all_reduce");
  by_maximum.max = MiB(64);
  by_maximum.max_given = true;
  EXPECT_NE(refusal(by_maximum, job).find("Lower --max"), std::string::npos);
  Options by_list = only("all_reduce");
  by_list.sizes = {{8}, MiB(64)};
  EXPECT_NE(refusal(by_list, job).find("Lower --max or --sizes"), std::string::npos);
  by_list.sizes = {{8}, MiB(16)};
  EXPECT_EQ(refusal(by_list, job), "");
}

// The command line is not at fault if all sizes are the default ones: EnvironmentError rather than UsageError.
TEST(Plan, is_impossible_on_a_machine_that_does_not_hold_even_the_smallest_default_size) {
  Options options = only("all_reduce");
  JobFacts full = job_of({0, 0});
  full.memory_of_rank = Bytes{0};
  full.fullest_device = "GPU 1 of rank 1 on n0";
  EXPECT_THAT([&] { plan_for(options, full); },
              testing::ThrowsMessage<EnvironmentError>(testing::AllOf(
                  testing::HasSubstr("0 B are free for them on GPU 1 of rank 1 on n0. Even the smallest"),
                  testing::HasSubstr("nvidia-smi"))));
  EXPECT_THROW(plan_for(options, job_of({0, 0}, {KiB(1)})), EnvironmentError);
  options.given = {"--min"};
  EXPECT_THROW(plan_for(options, full), EnvironmentError) << "no other size fits either";
  EXPECT_NE(refusal(options, job_of({0, 0}, {KiB(1)})).find("smallest size"), std::string::npos);
}

TEST(Plan, refuses_sizes_beyond_every_machine) {
  for (std::uint64_t size : {~std::uint64_t{0} >> 1, (std::uint64_t{1} << 56) + 1}) {
    Options options = only("all_gather");
    options.sizes = {{size}};
    EXPECT_NE(refusal(options, job_of({0, 0}, {GiB(1)})).find("beyond every machine"), std::string::npos);
  }
  Options per_rank = only("all_gather");
  per_rank.per_rank = true;
  per_rank.sizes = {{(std::uint64_t{1} << 55) + 1}};
  EXPECT_NE(refusal(per_rank, job_of({0, 0})).find("for 2 ranks"), std::string::npos);
}

TEST(Plan, refuses_an_unknown_group_even_if_only_pairs_are_measured) {
  Options options = only("p2p");
  options.group = "nod";
  EXPECT_NE(refusal(options, job_of({0, 0})).find("'node'"), std::string::npos);
}

TEST(Plan, leaves_pairs_out_for_one_rank_and_says_so) {
  const Plan plan = plan_for(Options{}, job_of({0}));
  EXPECT_TRUE(std::ranges::none_of(plan.cases, [](const Case& c) { return c.collective->pairwise; }));
  ASSERT_EQ(plan.remarks.size(), 1u);
  EXPECT_NE(plan.remarks[0].find("p2p: left out"), std::string::npos);
  EXPECT_NE(refusal(only("p2p"), job_of({0})).find("nothing to measure"), std::string::npos);
}

TEST(Plan, of_a_check_measures_pairs_in_the_communicator_of_their_node_if_all_gpus_are_alike) {
  Options options = only("p2p");
  options.within_nodes = true;
  options.sizes = {MiB(512)};
  const auto communicators = [&](NodeOfRank nodes, bool alike, const std::string& backend = "nccl") {
    JobFacts job = job_of(nodes);
    job.gpus_alike = alike;
    const Plan plan = plan_for(options, job, backend);
    EXPECT_EQ(plan.cases.size(), 3u);
    const auto& first = plan.cases.front().communicators;
    for (const Case& c : plan.cases) EXPECT_EQ(c.communicators == nullptr, first == nullptr);
    return first ? *first : Round{};
  };
  EXPECT_EQ(communicators({0, 0, 0, 0}, true), (Round{{0, 1, 2, 3}}));
  EXPECT_EQ(communicators({0, 0, 1, 1}, true), (Round{{0, 1}, {2, 3}}));
  EXPECT_TRUE(communicators({0, 0, 0, 0}, false).empty());
  EXPECT_TRUE(communicators({0, 0, 0}, true).empty()) << "one rank of three pauses in each round";
  EXPECT_TRUE(communicators({0, 0, 0, 0}, true, "mpi").empty());
  options.within_nodes = false;
  EXPECT_TRUE(communicators({0, 0, 0, 0}, true).empty()) << "small messages get fewer channels in larger communicators";
}

TEST(Plan, of_a_rooted_collective_refuses_a_root_that_a_group_does_not_have) {
  Options options = only("broadcast");
  options.group = "stride:3";  // groups of 3, 2 and 2
  const JobFacts job = job_of(NodeOfRank(7, 0));
  options.root = 2;
  EXPECT_EQ(refusal(options, job), "--root 2: the smallest group of --group stride:3 has ranks 0 to 1");
  options.root = 1;
  EXPECT_EQ(plan_for(options, job).cases.front().root, 1);
  options.collectives = {"all_reduce"};
  options.root = 2;
  EXPECT_FALSE(plan_for(options, job).cases.front().root.has_value());
}

TEST(Plan, measures_every_root_in_a_round_of_its_own) {
  Options options = only("broadcast");
  options.collectives.emplace_back("all_reduce");
  options.every_root = true;
  options.sizes = {{64}};
  for (const Case& c : plan_for(options, job_of({0, 0, 0})).cases) {
    const bool rooted = c.collective->rooted;
    EXPECT_EQ(c.every_root, rooted);
    EXPECT_EQ(c.rounds->size(), rooted ? 3u : 6u);
    EXPECT_EQ(is_repeated(c), !rooted);
    EXPECT_EQ(root_text(c), rooted ? "all" : "");
    for (int round = 0; round < 3; ++round) EXPECT_EQ(root_in(c, round), rooted ? round : 0);
    EXPECT_EQ(root_in(with_rounds(c, {{{0, 1}}, {{1, 2}}, {{0, 2}}}), 2), 0) << "other groups may be smaller";
  }
  options.group = "stride:3";
  EXPECT_EQ(refusal(options, job_of(NodeOfRank(7, 0))),
            "--root all is for groups of one size, and those of --group stride:3 differ; give --root N");
}

TEST(Plan, pairs_have_no_in_place_form_and_are_measured_all_the_same) {
  Options options;
  options.in_place = true;
  std::set<bool> pairwise;
  for (const Case& c : plan_for(options, job_of({0, 0})).cases) {
    EXPECT_EQ(c.in_place, !c.collective->pairwise);
    pairwise.insert(c.collective->pairwise);
  }
  EXPECT_EQ(pairwise.size(), 2u);
}

TEST(Plan, of_operations_in_one_group_call_leaves_out_those_whose_steps_wait_for_each_other) {
  Options options;
  options.calls.aggregate = 4;
  options.collectives = {"p2p", "all_reduce", "hypercube", "communicator"};
  options.sizes = {{64}};
  fakes::Threads threads(1);
  threads.slots = 1;
  const Plan plan = make_plan(options, job_of({0, 0}), fakes::ThreadBackend(threads, 0), "nccl");
  std::set<std::string> kept;
  for (const Case& c : plan.cases) {
    kept.insert(std::string(c.collective->name) + c.pattern);
    EXPECT_EQ(c.calls.aggregate, 4);
  }
  EXPECT_EQ(kept, (std::set<std::string>{"all_reduce", "p2pboth_ways", "p2pone_way"}));
  EXPECT_EQ(plan.remarks.size(), 3u);
}

TEST(Plan, device_initiated_collectives_need_gpus_of_one_nvlink_domain) {
  Options options;
  options.collectives = {"all_reduce", "lsa_all_reduce"};
  options.sizes = {{64}};
  fakes::Threads threads(1);
  const auto plan_of = [&](const JobFacts& job, const std::string& backend) {
    return make_plan(options, job, fakes::ThreadBackend(threads, 0), backend);
  };
  const auto names = [](const Plan& plan) {
    std::set<std::string_view> all;
    for (const Case& c : plan.cases) all.insert(c.collective->name);
    return all;
  };
  EXPECT_EQ(names(plan_of(job_of({0, 0}), "nccl")).size(), 2u);
  const Plan apart = plan_of(job_of({0, 0, 1, 1}), "nccl"), on_hosts = plan_of(job_of({0, 0}), "mpi");
  EXPECT_EQ(names(apart), std::set<std::string_view>{"all_reduce"});
  EXPECT_THAT(apart.remarks, testing::Contains("lsa_all_reduce: left out, GPUs reach each other's memory within an "
                                               "NVLink domain only; --group node has such groups"));
  EXPECT_THAT(on_hosts.remarks, testing::Contains("lsa_all_reduce: left out, the mpi backend has no kernels on GPUs; "
                                                  "--backend nccl has, and sim as a model"));
  options.group = "node";
  EXPECT_EQ(names(plan_of(job_of({0, 0, 1, 1}), "nccl")).size(), 2u);
}

TEST(Plan, refuses_call_modes_that_the_backend_lacks_and_names_backends_that_have_them) {
  Options options = only("all_reduce");
  options.calls.aggregate = 2;
  EXPECT_EQ(refusal(options, job_of({0, 0})),
            "--aggregate is for the nccl and sim backends: mpi has no groups of operations; leave it out");
  options.calls = {.registration = "local"};
  EXPECT_EQ(refusal(options, job_of({0, 0})),
            "--register is for the nccl backend: mpi has no registered buffers; leave it out");
}

TEST(Plan, measures_all_pairs_of_each_kind_at_three_sizes_and_one_pair_at_the_others) {
  std::map<std::string, std::vector<std::uint64_t>> thorough;
  for (const Case& c : plan_for(only("p2p"), job_of({0, 0, 1, 1})).cases) {
    std::size_t pairs = 0;
    for (const Round& round : *c.rounds) pairs += round.size();
    const std::size_t all = (c.pair == "same_node" ? 2 : 4) * (c.pattern == "one_way" ? 2 : 1);  // both directions
    EXPECT_TRUE(pairs == all || pairs == 1) << pairs;
    EXPECT_EQ(c.nodes, c.pair == "same_node" ? 1 : 2);
    if (pairs == all && c.pattern == "one_way") thorough[c.pair].push_back(c.bytes.count);
  }
  const std::vector<std::uint64_t> sizes{8, MiB(1).count, MiB(64).count};
  EXPECT_EQ(thorough, (std::map<std::string, std::vector<std::uint64_t>>{{"other_node", sizes}, {"same_node", sizes}}));
}

TEST(Plan, sends_one_way_in_both_directions_where_all_pairs_are_measured) {
  for (const Case& c : plan_for(only("p2p"), job_of({0, 0})).cases) {
    const bool thorough = c.bytes == Bytes{8} || c.bytes == MiB(1) || c.bytes == MiB(64);
    EXPECT_EQ(*c.rounds, c.pattern == "one_way" && thorough ? (std::vector<Round>{{{0, 1}}, {{1, 0}}})
                                                            : (std::vector<Round>{{{0, 1}}}));
  }
}

TEST(Plan, of_a_default_run_draws_the_curve_of_one_pair_from_messages_one_way) {
  std::map<std::string, std::set<std::uint64_t>> sizes;
  for (const Case& c : plan_for(Options{}, job_of({0, 0})).cases)
    if (c.collective->pairwise) sizes[c.pattern].insert(c.bytes.count);
  EXPECT_EQ(sizes["one_way"].size(), 24u);    // 8 B to 64 MiB
  EXPECT_EQ(sizes["ping_pong"].size(), 19u);  // 8 B to 1 MiB, 64 MiB
  EXPECT_EQ(sizes["both_ways"], (std::set<std::uint64_t>{8, MiB(1).count, MiB(64).count}));
}

TEST(Plan, of_single_nics_sends_one_way_in_both_directions_and_does_so_in_the_retest) {
  const JobFacts job = job_of({0, 1, 2});
  const std::vector<Case> nics = nic_cases("ofi", job, {{"a", "b"}, {"a", "b"}, {"a"}}, MiB(8));
  ASSERT_EQ(nics.size(), 2u);
  const auto directions = [](const Case& c) {
    std::map<Group, int> met;
    for (const Round& round : *c.rounds)
      for (const Group& pair : round) ++met[pair];
    return met;
  };
  EXPECT_EQ(directions(nics[0]),
            (std::map<Group, int>{{{0, 1}, 1}, {{1, 0}, 1}, {{0, 2}, 1}, {{2, 0}, 1}, {{1, 2}, 1}, {{2, 1}, 1}}));
  EXPECT_EQ(directions(nics[1]), (std::map<Group, int>{{{0, 1}, 1}, {{1, 0}, 1}}));
  const std::vector<Case> lacking = nic_cases("ofi", job, {{"a", "b"}, {"", "b"}, {"a", "b"}}, MiB(8));
  ASSERT_EQ(lacking.size(), 2u);
  EXPECT_EQ(directions(lacking[0]), (std::map<Group, int>{{{0, 2}, 1}, {{2, 0}, 1}}));
  const auto control = make_solo_control_plane(3);
  const std::vector<Case> again = cases_again(*control, {{.like = nics[1], .pairs = {{0, 1}}}}, nics, job);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].nic, 1);
  EXPECT_EQ(directions(again[0]), (std::map<Group, int>{{{0, 1}, 2}, {{1, 0}, 2}}));
}

TEST(RemarkOnNics, says_whether_any_was_measured_and_why_not) {
  const Environment software{{"libfabric", "2.1, efa"}, {"libfabric.memory", "GPU memory"}};
  std::vector<Measurement> measured(3);
  EXPECT_EQ(remark_on_nics(software, measured), "single NICs were measured with GPU memory over 2.1, efa");
  measured[1].outcome = Outcome::failed, measured[1].because = "the ranks do not join: see the findings";
  measured[2].outcome = Outcome::failed, measured[2].because = "no memory was registered";
  EXPECT_EQ(remark_on_nics(software, measured),
            "single NICs were measured with GPU memory over 2.1, efa, but for 2 of 3 measurements: no memory was "
            "registered");
  measured.erase(measured.begin());
  EXPECT_EQ(remark_on_nics(software, measured),
            "single NICs were not measured with GPU memory over 2.1, efa: no memory was registered");
  for (Measurement& each : measured) each.outcome = Outcome::skipped, each.because = "budget";
  EXPECT_EQ(remark_on_nics(software, measured),
            "single NICs were not measured with GPU memory over 2.1, efa: the time did not suffice");
}

TEST(Plan, of_a_retest_has_the_type_and_reduction_of_the_group) {
  Case sum;
  sum.backend = "sim";
  sum.collective = &find_collective("all_reduce");
  sum.bytes = MiB(64);
  sum.group = "node";
  sum.op = ReduceOp::sum;
  sum.rounds = std::make_shared<const std::vector<Round>>(std::vector<Round>{{{0, 1}, {2, 3}}});
  Case maximum = sum;
  maximum.op = ReduceOp::max;
  Case of_bytes = sum;
  of_bytes.type = DataType::int8;
  const std::vector<Case> known{sum, maximum, of_bytes};
  const auto control = make_solo_control_plane(4);
  for (const Case& each : known) {
    const std::vector<Case> again = cases_again(*control, {{.like = each, .pairs = {}}}, known, job_of({0, 0, 1, 1}));
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(describe(again[0]), describe(each));
  }
}

// Two domains of two nodes of two ranks: the plan has rails of all nodes and, for fault localization, rails of domains.
TEST(Plan, of_a_retest_has_the_ranks_of_the_group) {
  Case of_nodes;
  of_nodes.backend = "sim";
  of_nodes.collective = &find_collective("all_reduce");
  of_nodes.bytes = MiB(256);
  of_nodes.group = "rail";
  of_nodes.ranks = of_nodes.nodes = 4;
  of_nodes.rounds = std::make_shared<const std::vector<Round>>(std::vector<Round>{{{0, 2, 4, 6}, {1, 3, 5, 7}}});
  Case of_domains = of_nodes;
  of_domains.ranks = of_domains.nodes = 2;
  of_domains.rounds = std::make_shared<const std::vector<Round>>(std::vector<Round>{{{0, 4}, {1, 5}, {2, 6}, {3, 7}}});
  const std::vector<Case> known{of_nodes, of_domains};
  const auto control = make_solo_control_plane(8);
  for (const Case& each : known) {
    const std::vector<Case> again =
        cases_again(*control, {{.like = each, .pairs = {}}}, known, job_of({0, 0, 1, 1, 2, 2, 3, 3}));
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0].ranks, each.ranks);
    EXPECT_EQ(again[0].rounds->front(), each.rounds->front());
  }
}

TEST(Plan, of_the_retest_of_a_silent_pair_has_its_ranks_meet_others_first) {
  const JobFacts job = job_of({0, 1, 2, 3, 4, 5, 6, 7});
  const std::vector<Case> nics = nic_cases("ofi", job, std::vector<std::vector<std::string>>(8, {"a"}), MiB(8));
  const auto control = make_solo_control_plane(8);
  const std::vector<Case> again =
      cases_again(*control, {{.like = nics[0], .pairs = {{0, 1}}, .silent = true}}, nics, job);
  ASSERT_EQ(again.size(), 1u);
  bool itself = false;
  std::map<int, std::set<int>> met;
  for (const Round& round : *again[0].rounds)
    for (const Group& pair : round) {
      const auto [low, high] = std::minmax(pair[0], pair[1]);
      if (low == 0 && high == 1) itself = true;
      if (low > 1 || high == 1) continue;
      met[low].insert(high);
      EXPECT_FALSE(itself) << "its ranks meet others before they meet each other";
    }
  EXPECT_TRUE(itself);
  EXPECT_GE(met[0].size(), 2u);
  EXPECT_GE(met[1].size(), 2u);
}

TEST(Plan, uses_no_more_nics_of_a_node_at_a_time_than_host_memory_can_supply) {
  const JobFacts job = job_of({0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
  // Rank i of each node has NIC i, so that its only partner is rank i of the other node.
  std::vector<std::vector<std::string>> own;
  for (int rank = 0; rank < 10; ++rank) own.push_back({std::to_string(rank % 5)});
  const auto widest = [&](std::optional<int> at_once) {
    const std::vector<Case> cases = nic_cases("ofi", job, own, MiB(1), std::nullopt, at_once);
    EXPECT_EQ(cases.size(), 1u);
    std::size_t most = 0;
    std::set<int> took_part;
    for (const Round& round : *cases.front().rounds) {
      most = std::max(most, round.size());
      for (const Group& pair : round) took_part.insert(pair.begin(), pair.end());
    }
    EXPECT_EQ(took_part.size(), 10u);
    return most;
  };
  EXPECT_EQ(widest(std::nullopt), 5u);
  EXPECT_EQ(widest(2), 2u);
  EXPECT_EQ(widest(1), 1u);
}

TEST(Plan, for_all_nics_of_a_rank_together_has_messages_that_occupy_each_of_them) {
  const JobFacts job = job_of({0, 0, 1, 1});
  const std::vector<std::vector<std::string>> own{{"a", "b", "c", "d"}, {"e", "f"}, {"a", "b", "c", "d"}, {"e", "f"}};
  const std::vector<Case> cases = nic_cases("ofi", job, own, MiB(1), MiB(64));
  ASSERT_EQ(cases.size(), 5u);
  for (const Case& c : cases) EXPECT_EQ(c.bytes.count, c.nic ? MiB(1).count : MiB(4).count);
  EXPECT_FALSE(cases.back().nic);
  // A smaller message would use one of the NICs.
  EXPECT_EQ(nic_cases("ofi", job, own, MiB(1), MiB(3)).size(), 4u);
}

TEST(Plan, leaves_out_pairs_within_nodes_where_nics_have_no_loopback) {
  JobFacts job = job_of({0, 0, 1, 1});
  job.within_nodes = false;
  const Plan plan = plan_for(only("p2p"), job);
  EXPECT_FALSE(plan.cases.empty());
  for (const Case& c : plan.cases) EXPECT_EQ(c.pair, "other_node");
  ASSERT_EQ(plan.remarks.size(), 1u);
  EXPECT_NE(plan.remarks.front().find("no loopback"), std::string::npos);
}

// Four nodes, three of them in one NVLink domain.
TEST(Plan, counts_nvlink_domains_and_the_nodes_of_the_smallest) {
  Options options;
  options.collectives = {"p2p", "all_reduce"};
  options.sizes = {{8}};
  JobFacts job = job_of({0, 0, 1, 1, 2, 2, 3, 3});
  job.domain_of_rank = {0, 0, 0, 0, 0, 0, 1, 1};
  std::map<std::string, std::pair<int, int>> spans;  // domains and nodes per domain, by kind of pair; "": collective
  for (const Case& c : plan_for(options, job, "sim").cases) spans[c.pair] = {c.domains.value(), c.nodes_per_domain};
  const std::map<std::string, std::pair<int, int>> wanted{
      {"", {2, 1}}, {"same_node", {1, 1}}, {"same_domain", {1, 2}}, {"other_domain", {2, 1}}};
  EXPECT_EQ(spans, wanted);
  for (const Case& c : plan_for(options, job_of({0, 0, 1, 1}), "sim").cases) EXPECT_FALSE(c.domains);
}

TEST(Plan, counts_the_ranks_of_the_node_or_domain_that_has_the_fewest) {
  Case c;
  set_span(c, {0, 1, 2, 3, 4, 5}, NodeOfRank{0, 0, 0, 0, 1, 1});
  EXPECT_EQ(c.fewest_per_domain, 2);
  set_span(c, {0, 1, 4, 5}, NodeOfRank{0, 0, 0, 0, 1, 1});
  EXPECT_FALSE(c.fewest_per_domain) << "as many on each";
  set_span(c, {0, 1, 2, 3}, NodeOfRank{0, 0, 0, 0});
  EXPECT_FALSE(c.fewest_per_domain);
  set_span(c, {0, 1, 2, 3, 4, 5}, Placement({0, 0, 1, 1, 2, 2}, {0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(c.fewest_per_domain, 2);
  set_span(c, {0, 1, 2, 3, 4}, Placement({0, 0, 1, 1, 2}, {0, 0, 0, 0, 0}));
  EXPECT_FALSE(c.fewest_per_domain);
}

TEST(Plan, has_only_the_kinds_of_pairs_that_the_job_has) {
  for (const Case& c : plan_for(only("p2p"), job_of({0, 0})).cases) EXPECT_EQ(c.pair, "same_node");
  for (const Case& c : plan_for(only("p2p"), job_of({0, 1})).cases) EXPECT_EQ(c.pair, "other_node");
  EXPECT_EQ(plan_for(only("all_reduce"), job_of({0, 1})).cases.front().pair, "");
}

TEST(Plan, measures_each_node_alone_at_the_top_sizes_where_gpus_have_links) {
  const auto alone = [](const Options& options, const NodeOfRank& nodes, const std::string& backend) {
    const std::unique_ptr<Backend> model = make_sim_backend(SimMachine{});
    std::vector<std::string> names;
    for (const Case& c : make_plan(options, job_of(nodes), *model, backend).cases)
      if (c.group == "node") {
        names.push_back(describe(c));
        EXPECT_EQ(c.nodes, 1);
        EXPECT_EQ(c.rounds->size(), 1u);
      }
    return names;
  };
  Options options;
  EXPECT_EQ(
      alone(options, {0, 0, 1, 1}, "nccl"),
      (std::vector<std::string>{"all_reduce 2 GiB float32 sum group node", "all_reduce 4 GiB float32 sum group node",
                                "all_gather 2 GiB float32 group node", "all_gather 4 GiB float32 group node"}));
  EXPECT_EQ(alone(options, {0, 0, 1}, "sim").size(), 4u);
  EXPECT_TRUE(alone(options, {0, 0, 1, 1}, "mpi").empty()) << "the processes of a node share nothing but its memory";
  EXPECT_TRUE(alone(options, {0, 0}, "nccl").empty());
  EXPECT_TRUE(alone(options, {0, 1}, "nccl").empty());
  options.group = "rail";
  EXPECT_TRUE(alone(options, {0, 0, 1, 1}, "nccl").empty());
  EXPECT_TRUE(alone(only("all_reduce"), {0, 0, 1, 1}, "nccl").empty()) << "named collectives are measured alone";
}

TEST(Plan, knows_the_nodes_that_a_case_spans) {
  Options options = only("all_reduce");
  options.sizes = {{8}};
  EXPECT_EQ(plan_for(options, job_of({0, 0, 1, 1})).cases.front().nodes, 2);
  options.group = "node";
  EXPECT_EQ(plan_for(options, job_of({0, 0, 1, 1})).cases.front().nodes, 1);
  EXPECT_EQ(plan_for(options, job_of({0, 0, 1, 1})).cases.front().ranks, 2);
}

TEST(Plan, refuses_tokens_beside_operations_for_groups_of_different_sizes) {
  Options options = only("all_reduce");
  options.beside = {parse_work("dispatch@node:1MiB")};
  const auto refused_on = [&](const NodeOfRank& nodes) {
    try {
      plan_for(options, job_of(nodes), "sim");
      return std::string();
    } catch (const UsageError& problem) {
      return std::string(problem.what());
    }
  };
  EXPECT_EQ(refused_on({0, 0, 1, 1}), "");
  EXPECT_NE(refused_on({0, 0, 0, 1, 1}).find("--beside dispatch@node"), std::string::npos);
}

// Tokens have 7168 elements at both points, unless --sizes is given: then their length gives the message that size.
TEST(Plan, measures_tokens_at_both_operating_points) {
  Options options = only("dispatch");
  std::vector<std::uint64_t> tokens;
  for (const Case& c : plan_for(options, job_of({0, 0, 1, 1}), "sim").cases) {
    tokens.push_back(c.shape.tokens);
    EXPECT_EQ(c.shape.hidden, 7168u);
    EXPECT_EQ(c.type, DataType::bfloat16);
  }
  EXPECT_EQ(tokens, (std::vector<std::uint64_t>{128, 4096}));
  options.sizes = {MiB(1), MiB(64)};
  for (const Case& c : plan_for(options, job_of({0, 0, 1, 1}), "sim").cases) {
    EXPECT_GE(c.bytes, c.bytes > MiB(2) ? MiB(64) : MiB(1));
    EXPECT_EQ(c.bytes.count, c.shape.traffic->busiest * c.shape.hidden * 2);
  }
}

}  // namespace
}  // namespace p5
