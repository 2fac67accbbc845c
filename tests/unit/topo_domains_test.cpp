// Which hosts share an NVLink domain, by what NVML says of their GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "topo/finding.hpp"
#include "topo/platform.hpp"
#include "topo/topology.hpp"

namespace p5::topo {
namespace {

using testing::Each;
using testing::ElementsAre;

Topology ultraservers(int nodes) { return synthetic(find_platform("p6e-gb200.36xlarge"), nodes); }

TEST(Domains, are_the_hosts_of_one_cluster_and_clique) {
  EXPECT_THAT(domains_of_hosts(ultraservers(18)), Each(0));
  Topology topology = ultraservers(20);
  EXPECT_EQ(domains_of_hosts(topology).at(17), 0);
  EXPECT_EQ(domains_of_hosts(topology).at(18), 1);
  EXPECT_EQ(domains_of_ranks(topology).at(4 * 18), 1);
}

TEST(Domains, of_a_host_in_another_clique_are_its_own) {
  Topology topology = ultraservers(3);
  for (Gpu& gpu : topology.hosts[1].gpu_devices) gpu.fabric_clique = 7;
  EXPECT_THAT(domains_of_hosts(topology), ElementsAre(0, 1, 0));
}

TEST(Domains, of_a_host_whose_gpus_disagree_or_say_nothing_are_its_own) {
  Topology topology = ultraservers(3);
  topology.hosts[0].gpu_devices[2].fabric_clique = 7;
  for (Gpu& gpu : topology.hosts[2].gpu_devices) gpu.fabric_cluster.clear();
  EXPECT_THAT(domains_of_hosts(topology), ElementsAre(0, 1, 2));
}

TEST(Domains, leave_out_gpus_of_which_the_driver_tells_nothing_and_accuse_no_host_of_them) {
  Topology topology = ultraservers(4);
  for (Host& host : topology.hosts)
    for (Gpu& gpu : host.gpu_devices) gpu.fabric_state = "completed";
  const auto hide = [](Gpu& gpu) {
    gpu.fabric_state.clear();
    gpu.fabric_cluster.clear();
    gpu.fabric_clique.reset();
  };
  const auto found = [&] {
    std::set<std::string> ids;
    for (const Finding& finding : look(topology)) ids.insert(finding.id);
    return ids;
  };
  hide(topology.hosts[1].gpu_devices[2]);
  EXPECT_THAT(domains_of_hosts(topology), Each(0));
  EXPECT_FALSE(found().contains("domain.clique"));
  for (Gpu& gpu : topology.hosts[1].gpu_devices) hide(gpu);
  EXPECT_THAT(domains_of_hosts(topology), ElementsAre(0, 1, 0, 0));
  EXPECT_FALSE(found().contains("domain.clique"));
  EXPECT_FALSE(found().contains("domain.order")) << "the host may be in the domain of the others";
  for (Gpu& gpu : topology.hosts[1].gpu_devices) gpu.fabric_state = "completed";
  EXPECT_TRUE(found().contains("domain.clique")) << "the driver says that they are in none";
}

TEST(Domains, without_a_switch_plane_are_told_with_their_hosts_and_no_others) {
  Topology topology = ultraservers(4);
  for (const std::size_t host : {2, 3})
    for (Gpu& gpu : topology.hosts[host].gpu_devices) {
      gpu.fabric_clique = 7;
      gpu.links = 17;
    }
  std::vector<Finding> planes = look(topology);
  std::erase_if(planes, [](const Finding& finding) { return finding.id != "domain.plane"; });
  ASSERT_EQ(planes.size(), 1U);
  EXPECT_EQ(planes[0].subject.host, "");
  EXPECT_THAT(planes[0].hosts, ElementsAre(topology.hosts[2].name, topology.hosts[3].name));
}

// Findings domain.clique: the host that each is about, or "" and all its hosts.
std::vector<std::pair<std::string, std::vector<std::string>>> cliques_lacking(const Topology& topology) {
  std::vector<std::pair<std::string, std::vector<std::string>>> found;
  for (const Finding& finding : look(topology))
    if (finding.id == "domain.clique") found.emplace_back(finding.subject.host, finding.hosts);
  return found;
}

void put_into_no_clique(Host& host) {
  for (Gpu& gpu : host.gpu_devices) {
    gpu.fabric_state = "completed";
    gpu.fabric_cluster.clear();
    gpu.fabric_clique.reset();
  }
}

TEST(Domains, that_no_two_hosts_share_are_told) {
  using testing::IsEmpty;
  using testing::Pair;
  Topology topology = ultraservers(2);
  EXPECT_THAT(cliques_lacking(topology), IsEmpty());
  put_into_no_clique(topology.hosts[1]);
  EXPECT_THAT(cliques_lacking(topology), ElementsAre(Pair(topology.hosts[1].name, IsEmpty())))
      << "the other one is in a clique";
  put_into_no_clique(topology.hosts[0]);
  const auto both = ElementsAre(topology.hosts[0].name, topology.hosts[1].name);
  EXPECT_THAT(cliques_lacking(topology), ElementsAre(Pair("", both))) << "nobody knows which is right";
  topology = ultraservers(2);
  for (Gpu& gpu : topology.hosts[1].gpu_devices) gpu.fabric_clique = 7;
  EXPECT_THAT(cliques_lacking(topology), ElementsAre(Pair("", both))) << "one cluster, and each in a clique of its own";
  topology.hosts[1].gpu_devices[0].fabric_clique = 8;
  EXPECT_THAT(cliques_lacking(topology), ElementsAre(Pair(topology.hosts[1].name, IsEmpty())));
}

TEST(Domains, of_different_clusters_or_a_single_host_or_plain_hosts_lack_no_clique) {
  Topology topology = ultraservers(2);
  for (Gpu& gpu : topology.hosts[1].gpu_devices) gpu.fabric_cluster = "another";
  EXPECT_THAT(cliques_lacking(topology), testing::IsEmpty());
  topology = ultraservers(1);
  put_into_no_clique(topology.hosts[0]);
  EXPECT_THAT(cliques_lacking(topology), testing::IsEmpty());
  topology = synthetic(find_platform("p5.48xlarge"), 2);
  for (Host& host : topology.hosts) put_into_no_clique(host);
  EXPECT_THAT(cliques_lacking(topology), testing::IsEmpty());
}

TEST(Domains, out_of_order_are_put_right_by_a_file_of_hosts_or_where_that_has_their_order_by_the_mapping) {
  const auto action = [](const Topology& topology) {
    for (const Finding& finding : look(topology))
      if (finding.id == "domain.order") return finding.action;
    return std::string();
  };
  Topology topology = ultraservers(36);
  EXPECT_EQ(action(topology), "");
  const auto hosts = topology.hosts.size();
  for (std::size_t rank = 0; rank < topology.host_of_rank.size(); ++rank)
    topology.host_of_rank[rank] = static_cast<int>(rank % hosts);
  EXPECT_THAT(action(topology), testing::HasSubstr("--map-by slot"));
  EXPECT_THAT(action(topology), testing::Not(testing::HasSubstr("hosts.healthy"))) << "it would not be written";
  topology = ultraservers(36);
  std::swap(topology.hosts[3], topology.hosts[20]);
  EXPECT_THAT(action(topology), testing::HasSubstr("hosts.healthy"));
}

TEST(Domains, are_the_nodes_where_nccl_is_told_to_leave_them) {
  Topology topology = ultraservers(2);
  topology.settings = JobSettings{.variables = {{"NCCL_MNNVL_ENABLE", "0"}}, .dangling = {}};
  EXPECT_THAT(domains_of_hosts(topology), ElementsAre(0, 1));
}

TEST(Domains, are_those_that_nccl_is_told_of) {
  Topology topology = ultraservers(3);
  for (Gpu& gpu : topology.hosts[1].gpu_devices) gpu.fabric_clique = 7;
  const auto told = [&](const char* name, const char* value) {
    topology.settings = JobSettings{.variables = {{name, value}}, .dangling = {}};
    return domains_of_hosts(topology);
  };
  EXPECT_THAT(told("NCCL_MNNVL_CLIQUE_ID", "3"), Each(0));
  EXPECT_THAT(told("NCCL_MNNVL_CLIQUE_ID", "-1"), ElementsAre(0, 1, 0));
  for (Gpu& gpu : topology.hosts[1].gpu_devices) gpu.fabric_clique = topology.hosts[0].gpu_devices[0].fabric_clique;
  for (Gpu& gpu : topology.hosts[2].gpu_devices) gpu.fabric_cluster = "another";
  EXPECT_THAT(told("NCCL_MNNVL_UUID", "-1"), ElementsAre(0, 0, 1));
  EXPECT_THAT(told("NCCL_MNNVL_UUID", "5"), Each(0));
}

TEST(Domains, have_gpus_in_no_partition_by_intent_and_ones_that_are_set_up_wrongly_by_fault) {
  Topology topology = ultraservers(2);
  topology.hosts[1].gpu_devices[2].fabric_trouble = {{no_partition}};
  topology.hosts[1].gpu_devices[3].fabric_trouble = {{"insufficient NVLinks"}};
  std::vector<Finding> found = look(topology);
  std::erase_if(found, [](const Finding& each) { return each.id != "gpu.fabric_health"; });
  ASSERT_THAT(found, testing::SizeIs(2));
  EXPECT_EQ(found[0].severity, Severity::error);
  EXPECT_EQ(found[0].subject.gpu, 3);
  EXPECT_EQ(found[1].severity, Severity::warning);
  EXPECT_THAT(found[1].action, testing::HasSubstr("partition"));
}

TEST(Domains, of_plain_hosts_are_the_hosts) {
  EXPECT_THAT(domains_of_hosts(synthetic(find_platform("p5.48xlarge"), 3)), ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace p5::topo
