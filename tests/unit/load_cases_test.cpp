// Cases of GPUs under load: who exchanges messages with whom, and beside what.
#include "bench/measure/load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace p5 {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

std::vector<LoadCase> cases_of(const std::vector<int>& gpus_of_node, std::optional<Bytes> memory = {}) {
  JobFacts job;
  job.memory_of_rank = memory;
  for (std::size_t node = 0; node < gpus_of_node.size(); ++node)
    job.node_of_rank.insert(job.node_of_rank.end(), static_cast<std::size_t>(gpus_of_node[node]),
                            static_cast<int>(node));
  return load_cases("nccl", job);
}

std::vector<std::string> works_of(const LoadCase& load) {
  std::vector<std::string> names{load.all.group};
  for (const Work& work : load.all.beside) names.push_back(work.planned ? work.group : name_of(work).substr(0, 4));
  return names;
}

// The ranks that each rank exchanges messages with, over links and over NICs.
std::map<int, std::set<int>> partners_of(const std::vector<LoadCase>& cases, const std::string& way) {
  std::map<int, std::set<int>> partners;
  const auto add = [&](const Case& c) {
    if (!c.group.starts_with(way)) return;
    std::set<int> seen;
    for (const Group& pair : c.rounds->front()) {
      EXPECT_THAT(pair, SizeIs(2));
      EXPECT_LT(pair[0], pair[1]);
      for (const int rank : pair) EXPECT_TRUE(seen.insert(rank).second) << "disjoint";
      partners[pair[0]].insert(pair[1]);
      partners[pair[1]].insert(pair[0]);
    }
  };
  for (const LoadCase& each : cases) {
    add(each.all);
    for (const Work& work : each.all.beside)
      if (work.planned) add(*work.planned);
  }
  return partners;
}

TEST(LoadCases, of_unequal_domains_load_only_some_ranks_with_nics) {
  const auto parts_of = [](const DomainOfRank& domain_of_rank) {
    std::vector<std::set<std::set<std::size_t>>> parts;
    for (const LoadOfRank& each : loads_of_ranks(domain_of_rank)) parts.push_back(each.parts);
    return parts;
  };
  const auto parts = parts_of({0, 0, 0, 0, 1, 1});
  EXPECT_EQ(std::set(parts.begin(), parts.end()).size(), 2u);
  for (const std::size_t rank : {1, 4, 5}) EXPECT_EQ(parts[rank], parts[0]) << "they have the NICs' other ends";
  EXPECT_EQ(parts[2], parts[3]);
  for (const DomainOfRank& alike : {DomainOfRank{0, 0, 0, 0}, {0, 0, 1, 1}, {0, 0, 1, 1, 2, 2}, {0, 1, 2}, {0}}) {
    const auto same = parts_of(alike);
    EXPECT_EQ(std::set(same.begin(), same.end()).size(), 1u) << alike.size();
  }
}

TEST(LoadCases, of_three_unequal_domains_give_some_ranks_one_partner_over_nics) {
  constexpr std::size_t nics = 2;  // in load_parts
  std::vector<LoadOfRank> loads = loads_of_ranks({0, 0, 0, 0, 1, 1, 1, 1, 2, 2});
  EXPECT_THAT(loads[0].partners[nics], ElementsAre(4, 8));
  EXPECT_THAT(loads[3].partners[nics], ElementsAre(7));
  EXPECT_THAT(loads[7].partners[nics], ElementsAre(3));
  EXPECT_THAT(loads[9].partners[nics], ElementsAre(1, 5));
}

TEST(LoadCases, let_each_gpu_meet_both_neighbours_over_links_and_nics) {
  for (const std::vector<int>& nodes : {std::vector{8}, {8, 8, 8, 8}, {8, 8, 8}, {3, 3}, {4, 4, 4, 4, 4}, {5}}) {
    const std::vector<LoadCase> cases = cases_of(nodes);
    const auto links = partners_of(cases, "links"), nics = partners_of(cases, "nics");
    std::size_t ranks = 0;
    for (const int gpus : nodes) ranks += static_cast<std::size_t>(gpus);
    EXPECT_THAT(links, SizeIs(ranks));
    for (const auto& [rank, partners] : links) EXPECT_THAT(partners, SizeIs(testing::Ge(2u))) << rank;
    if (nodes.size() < 2) {
      EXPECT_TRUE(nics.empty());
      continue;
    }
    EXPECT_THAT(nics, SizeIs(ranks));
    for (const auto& [rank, partners] : nics) EXPECT_THAT(partners, SizeIs(nodes.size() == 2 ? 1 : 2)) << rank;
  }
}

// A rank whose domain is idle in one case has fewer parts in it; only its other cases count.
TEST(LoadCases, of_an_odd_number_of_nodes_let_each_gpu_meet_two_over_links_while_its_nic_is_busy) {
  std::map<int, std::set<int>> partners;
  for (const LoadCase& each : cases_of({8, 8, 8}))
    for (const Group& busy : each.all.beside.front().planned->rounds->front())
      for (const int rank : busy)
        for (const Group& pair : each.all.rounds->front())
          if (pair[0] == rank || pair[1] == rank) partners[rank].insert(pair[0] + pair[1] - rank);
  EXPECT_THAT(partners, SizeIs(24));
  for (const auto& [rank, met] : partners) EXPECT_THAT(met, SizeIs(2)) << rank;
}

TEST(LoadCases, have_all_that_a_job_has_at_once) {
  EXPECT_THAT(works_of(cases_of({8}).front()), ElementsAre("links", "gemm"));
  EXPECT_THAT(works_of(cases_of({8, 8}).front()), ElementsAre("links", "nics", "gemm"));
  EXPECT_THAT(works_of(cases_of({8, 8}).back()), ElementsAre("links 2", "nics", "gemm")) << "the communicator stays";
  EXPECT_THAT(works_of(cases_of({1, 1}).front()), ElementsAre("nics", "gemm"));
  EXPECT_THAT(works_of(cases_of({1}).front()), ElementsAre("world", "d2h", "gemm"));
  EXPECT_THAT(cases_of({8}), SizeIs(2));
  EXPECT_THAT(cases_of({2}), SizeIs(1));
  EXPECT_THAT(cases_of({1}), SizeIs(1));
  EXPECT_THAT(cases_of({8, 8}), SizeIs(2));
  EXPECT_THAT(cases_of({8, 8, 8}), SizeIs(3));
  for (const LoadCase& each : cases_of({8, 8})) {
    EXPECT_EQ(each.parts.size(), each.all.beside.size() + 1);
    EXPECT_EQ(each.amounts.size(), each.parts.size());
  }
}

TEST(LoadCases, use_the_links_of_a_wide_domain) {
  JobFacts job;
  job.node_of_rank = {0, 1, 2, 3};
  job.domain_of_rank = {0, 0, 1, 1};
  EXPECT_THAT(works_of(load_cases("nccl", job).front()), ElementsAre("links", "nics", "gemm"));
  EXPECT_EQ(load_cases("nccl", job).front().all.rounds->front(), (Round{{0, 1}, {2, 3}}));
}

TEST(LoadCases, fit_into_little_memory) {
  const LoadCase small = cases_of({2}, MiB(64)).front();
  EXPECT_LE(small.all.bytes.count, (1u << 20));
  EXPECT_LT(device_memory(small.all.beside.back()).count, (64u << 20) / 8);
}

}  // namespace
}  // namespace p5
