// Jobs over hosts of several kinds: each host is held against its own kind, in whatever order the hosts come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "topo/finding.hpp"
#include "topo/limits.hpp"
#include "topo/platform.hpp"

namespace p5::topo {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<std::string> findings_of(const Topology& topology, bool errors_only = false) {
  std::vector<std::string> texts;
  for (const Finding& each : look(topology))
    if (!errors_only || each.severity == Severity::error) texts.push_back(each.id + " " + each.subject.host);
  return texts;
}

// A box of GPUs with 18 NVLinks each.
Host box_of(const std::string& name, const std::string& model, int architecture, double link_rate, int gpus = 8) {
  Host host;
  host.name = host.host_name = host.boot_id = name;
  host.gpus = gpus;
  for (int i = 0; i < gpus; ++i) {
    Gpu& gpu = host.gpu_devices.emplace_back();
    gpu.name = model;
    gpu.uuid = "GPU-" + name + std::to_string(i);
    gpu.architecture = architecture;
    gpu.links = gpu.links_possible = 18;
    for (int link = 0; link < 18; ++link)
      gpu.nvlinks.push_back({.number = link, .active = true, .rate_raw = GBps{link_rate}, .remote = "switch"});
  }
  return host;
}

Host hgx_h100(const std::string& name) { return box_of(name, "NVIDIA H100 80GB HBM3", 90, 26.5625); }
Host hgx_b200(const std::string& name) { return box_of(name, "NVIDIA B200", 100, 53.125); }

Topology job_on(std::vector<Host> hosts) {
  Topology topology;
  topology.hosts = std::move(hosts);
  if (const Platform* const most = platform_of_most(topology.hosts)) topology.platform = most->name;
  return topology;
}

TEST(MixedHosts, of_two_instance_types_are_each_held_against_their_own) {
  for (const auto& [first, second] : {std::pair{"p5.48xlarge", "p4d.24xlarge"}, {"p4d.24xlarge", "p5.48xlarge"}}) {
    Topology topology = synthetic(find_platform(first), 2);
    topology.hosts[1] = synthetic(find_platform(second), 2).hosts[1];
    EXPECT_THAT(findings_of(topology), ElementsAre("host.mixed ")) << first;
    EXPECT_THAT(platforms_of_hosts(topology), ElementsAre(&find_platform(first), &find_platform(second)));
    EXPECT_FALSE(has_one_platform(topology));
    topology.hosts[1].nics.pop_back();
    EXPECT_THAT(findings_of(topology), ElementsAre("nic.count n1", "host.mixed ")) << first;
    topology.hosts[1].gpus = 7;
    EXPECT_THAT(findings_of(topology, true), UnorderedElementsAre("gpu.count n1", "nic.count n1")) << first;
  }
}

TEST(MixedHosts, need_the_software_of_their_own_instance_type) {
  Topology topology = synthetic(find_platform("p5.48xlarge"), 2);
  topology.hosts[1] = synthetic(find_platform("p4d.24xlarge"), 2).hosts[1];
  for (Host& host : topology.hosts) host.versions["efa driver"] = "2.3.0";
  EXPECT_THAT(findings_of(topology), UnorderedElementsAre("version.old n0", "host.mixed "));
}

TEST(MixedHosts, of_two_generations_of_boxes_are_each_held_against_their_own) {
  for (const bool faster_first : {true, false}) {
    Topology topology =
        job_on(faster_first ? std::vector{hgx_b200("a"), hgx_h100("b")} : std::vector{hgx_h100("b"), hgx_b200("a")});
    EXPECT_EQ(topology.platform, faster_first ? "hgx-b200" : "hgx-h100");
    EXPECT_THAT(findings_of(topology), ElementsAre("host.mixed "));
    const Limits limits = link_limits(topology);
    ASSERT_NE(find(limits, gpu_link, Level::wire), nullptr);
    EXPECT_DOUBLE_EQ(find(limits, gpu_link, Level::wire)->rate.count, 450) << "that of the slower GPUs";
    topology.hosts[faster_first ? 1 : 0].gpu_devices[3].nvlinks[7].rate_raw = GBps{13.28125};
    EXPECT_THAT(findings_of(topology, true), ElementsAre("gpu.link_rate b"));
  }
}

TEST(MixedHosts, that_are_no_whole_boxes_are_compared_with_those_of_their_model) {
  std::vector<Host> hosts;
  for (const char* const name : {"a", "b", "c"}) hosts.push_back(box_of(name, "NVIDIA H100 80GB HBM3", 90, 26.5625, 4));
  hosts.push_back(box_of("d", "NVIDIA A100-SXM4-40GB", 80, 25, 4));
  Topology topology = job_on(hosts);
  EXPECT_EQ(topology.platform, "");
  EXPECT_THAT(findings_of(topology), ElementsAre("host.mixed d"));
  topology.hosts[1].gpu_devices[0].nvlinks[0].rate_raw = GBps{13.28125};
  EXPECT_THAT(findings_of(topology, true), ElementsAre("gpu.link_rate b"));
}

TEST(MixedHosts, without_nvlinks_beside_boxes_with_switches_lack_none) {
  Topology topology = job_on({hgx_h100("a"), hgx_h100("b"), box_of("c", "NVIDIA L40S", 89, 0, 4)});
  for (Gpu& gpu : topology.hosts[2].gpu_devices) {
    gpu.links = gpu.links_possible = 0;
    gpu.nvlinks.clear();
  }
  EXPECT_EQ(topology.platform, "hgx-h100");
  EXPECT_EQ(platforms_of_hosts(topology)[2], nullptr);
  EXPECT_THAT(findings_of(topology), ElementsAre("host.mixed c"));
}

TEST(MixedHosts, are_not_what_a_first_host_with_a_lost_gpu_makes_of_alike_ones) {
  Topology topology = job_on({hgx_h100("a"), hgx_h100("b"), hgx_h100("c")});
  topology.hosts[0].gpu_devices.pop_back();
  topology.hosts[0].gpus = 7;
  EXPECT_EQ(platform_of_most(topology.hosts), &find_platform("hgx-h100"));
  EXPECT_TRUE(has_one_platform(topology));
  EXPECT_THAT(findings_of(topology, true), ElementsAre("gpu.count a"));
  topology.hosts.push_back(topology.hosts[0]);
  EXPECT_EQ(platform_of_most(topology.hosts), &find_platform("hgx-h100")) << "two of four";
  topology.hosts.push_back(topology.hosts[0]);
  EXPECT_EQ(platform_of_most(topology.hosts), nullptr) << "most are boxes of seven";
}

TEST(LoneHosts, with_a_boards_switches_and_fewer_gpus_have_lost_one) {
  Topology topology = job_on({box_of("a", "NVIDIA H100 80GB HBM3", 90, 26.5625, 7)});
  topology.hosts[0].virtual_machine = false;
  EXPECT_THAT(findings_of(topology, true), IsEmpty()) << "no switches are seen: it may be a part of a board";
  topology.hosts[0].nvswitches = 4;
  topology = job_on(topology.hosts);
  EXPECT_EQ(topology.platform, "hgx-h100");
  EXPECT_THAT(findings_of(topology, true), ElementsAre("gpu.count a"));
  topology.hosts[0].virtual_machine = true;
  EXPECT_EQ(platform_of(topology.hosts[0]), nullptr) << "a virtual machine gets what it was given";
  topology.hosts[0].virtual_machine.reset();
  EXPECT_EQ(platform_of(topology.hosts[0]), nullptr);
  topology.hosts = {box_of("a", "NVIDIA H100 80GB HBM3", 90, 26.5625, 9)};
  topology.hosts[0].virtual_machine = false;
  topology.hosts[0].nvswitches = 4;
  EXPECT_EQ(platform_of(topology.hosts[0]), nullptr) << "more than a board has";
  topology.hosts = {box_of("a", "NVIDIA L40S", 89, 0, 4)};
  topology.hosts[0].virtual_machine = false;
  topology.hosts[0].nvswitches = 4;
  EXPECT_EQ(platform_of(topology.hosts[0]), nullptr);
}

TEST(MixedHosts, with_nics_of_two_rates_have_no_slow_ones) {
  Topology topology = job_on({hgx_h100("a"), hgx_h100("b"), box_of("c", "NVIDIA A100-SXM4-80GB", 80, 25),
                              box_of("d", "NVIDIA A100-SXM4-80GB", 80, 25)});
  for (Host& host : topology.hosts)
    for (int i = 0; i < 8; ++i)
      host.nics.push_back(
          {"mlx5_" + std::to_string(i), "infiniband", "mlx5_core", "up", GBps{host.name < "c" ? 50.0 : 25.0}, i / 4});
  for (std::size_t host : {2, 3})
    for (Gpu& gpu : topology.hosts[host].gpu_devices) {
      gpu.links = gpu.links_possible = 12;
      gpu.nvlinks.resize(12);
    }
  const std::vector<std::string> findings_of_mixed = findings_of(topology);
  EXPECT_THAT(findings_of(topology, true), IsEmpty());
  for (Host& host : topology.hosts)
    for (Nic& nic : host.nics) nic.rate = GBps{25}, nic.pcie.generation = host.name < "c" ? 5 : 4;
  EXPECT_EQ(findings_of(topology), findings_of_mixed) << "of two generations of PCIe by design";
  topology.hosts[3].nics[5].rate = GBps{12.5};
  EXPECT_THAT(findings_of(topology, true), ElementsAre("nic.rate d"));
}

TEST(MixedHosts, have_pcie_lanes_by_the_model_of_the_card) {
  Topology topology = job_on({box_of("a", "NVIDIA L40S", 89, 0)});
  Host& host = topology.hosts[0];
  host.gpu_devices.push_back(host.gpu_devices[0]);
  host.gpu_devices[8].name = "NVIDIA A2";
  host.gpus = 9;
  for (Gpu& gpu : host.gpu_devices) {
    gpu.links = gpu.links_possible = 0;
    gpu.nvlinks.clear();
    gpu.pcie.width = gpu.pcie.width_max = gpu.name == "NVIDIA A2" ? 8 : 16;
  }
  EXPECT_THAT(findings_of(topology), IsEmpty());
  host.gpu_devices[3].pcie.width = host.gpu_devices[3].pcie.width_max = 8;
  EXPECT_THAT(findings_of(topology), ElementsAre("gpu.pcie a"));
  host.gpu_devices[8].name = host.gpu_devices[8].uuid = "";
  EXPECT_EQ(findings_of(topology, true).size(), 2U) << "one that only PCI shows is like the others";
}

}  // namespace
}  // namespace p5::topo
