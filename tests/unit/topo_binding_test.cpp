// The GPU, NICs and cores that belong to a rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/base/error.hpp"
#include "topo/binding.hpp"

namespace p5::topo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two NUMA nodes of eight cores, two GPUs near each.
Topology machine() {
  Host host;
  host.name = host.host_name = "a";
  host.numa = {{0, "", {0, 1, 2, 3, 4, 5, 6, 7}, {}}, {1, "", {8, 9, 10, 11, 12, 13, 14, 15}, {}}};
  for (int i = 0; i < 4; ++i) {
    Gpu gpu;
    gpu.uuid = "GPU-" + std::to_string(i) + "0";
    gpu.numa_node = i / 2;
    gpu.nics = {"rail" + std::to_string(i)};
    host.gpu_devices.push_back(gpu);
  }
  Topology topology;
  topology.hosts = {host};
  topology.host_of_rank = {0, 0, 0, 0};
  return topology;
}

std::vector<int> gpus_of(const std::vector<Binding>& bindings) {
  std::vector<int> gpus;
  for (const Binding& binding : bindings) gpus.push_back(binding.gpu);
  return gpus;
}

TEST(TopoBinding, ranks_share_the_cores_of_their_gpus_numa_node_evenly) {
  const std::vector<Binding> bound = bindings(machine(), nullptr);
  ASSERT_THAT(bound, SizeIs(4));
  EXPECT_THAT(gpus_of(bound), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(bound[1].cores, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(bound[2].cores, ElementsAre(8, 9, 10, 11));
  EXPECT_EQ(bound[2].numa_node, 1);
  EXPECT_THAT(bound[3].nics, ElementsAre("rail3"));
}

TEST(TopoBinding, the_gpu_that_a_rank_really_has_counts) {
  Topology topology = machine();
  topology.gpu_of_rank = {"GPU-30", "GPU-20", "GPU-10", "GPU-gone"};
  const std::vector<Binding> bound = bindings(topology, "0,1");
  EXPECT_THAT(gpus_of(bound), ElementsAre(3, 2, 1, -1));
  EXPECT_THAT(bound[0].cores, ElementsAre(8, 9, 10, 11));
}

TEST(TopoBinding, of_one_rank_on_each_host_is_that_of_a_rank_for_each_gpu) {
  Topology topology = machine();
  topology.hosts.push_back(topology.hosts.front());
  for (Gpu& gpu : topology.hosts.back().gpu_devices) gpu.uuid += "1";
  topology.host_of_rank = {0, 1};
  topology.gpu_of_rank = {"GPU-00", "GPU-001"};
  const std::vector<Binding> bound = bindings(with_ranks_of_job(topology), nullptr);
  EXPECT_THAT(gpus_of(bound), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_THAT(bound[1].cores, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(bound[4].host, 1);
  topology.host_of_rank = {0, 1, 0};
  topology.gpu_of_rank = {"GPU-20", "GPU-101", "GPU-10"};
  EXPECT_THAT(gpus_of(bindings(with_ranks_of_job(topology), nullptr)), ElementsAre(2, 1, 1));
}

TEST(TopoBinding, visible_devices_are_numbers_or_beginnings_of_uuids_and_end_at_the_first_that_is_none) {
  const Host host = machine().hosts[0];
  EXPECT_THAT(visible_gpus(host, nullptr), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(visible_gpus(host, "3,1"), ElementsAre(3, 1));
  EXPECT_THAT(visible_gpus(host, "GPU-2,0"), ElementsAre(2, 0));
  EXPECT_THAT(visible_gpus(host, "1,4,0"), ElementsAre(1));
  EXPECT_THAT(visible_gpus(host, "-1"), IsEmpty());
  EXPECT_THAT(visible_gpus(host, ""), IsEmpty());
  EXPECT_THAT(gpus_of(bindings(machine(), "3,1")), ElementsAre(3, 1, 3, 1));
}

TEST(TopoBinding, gpus_that_only_pci_shows_are_not_numbered_by_cuda) {
  Host host = machine().hosts[0];
  host.gpu_devices[1].uuid = "";
  EXPECT_THAT(visible_gpus(host, "1"), ElementsAre(2));
}

TEST(TopoBinding, without_ranks_there_is_one_for_each_gpu) {
  Topology topology = machine();
  topology.host_of_rank.clear();
  EXPECT_THAT(bindings(topology, nullptr), SizeIs(4));
}

TEST(TopoBinding, more_ranks_than_cores_take_turns) {
  Topology topology = machine();
  topology.hosts[0].numa = {{0, "", {0, 1}, {}}};
  for (Gpu& gpu : topology.hosts[0].gpu_devices) gpu.numa_node = -1;
  const std::vector<Binding> bound = bindings(topology, nullptr);
  EXPECT_THAT(bound[0].cores, ElementsAre(0));
  EXPECT_THAT(bound[3].cores, ElementsAre(1));
  EXPECT_EQ(bound[0].numa_node, 0) << "with one node everything is near it";
}

TEST(TopoBinding, a_rank_file_names_host_and_logical_cores) {
  const std::string text = rank_file(bindings(machine(), nullptr), machine());
  EXPECT_THAT(text, HasSubstr("\nrank 0=a slot=0-3\nrank 1=a slot=4-7\nrank 2=a slot=8-11\n"));
  Topology blind = machine();
  blind.hosts[0].numa.clear();
  try {
    rank_file(bindings(blind, nullptr), blind);
    FAIL() << "written";
  } catch (const UsageError& problem) {
    EXPECT_THAT(problem.what(), HasSubstr("cores of a are not known"));
  }
}

TEST(TopoBinding, lists_are_written_short) {
  EXPECT_EQ(list_text({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(list_text({}), "");
}

}  // namespace
}  // namespace p5::topo
