// The arithmetic of limits, and the sentences about them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/base/error.hpp"
#include "bench/model/collective.hpp"
#include "topo/finding.hpp"
#include "topo/limits.hpp"

namespace p5::topo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

double rate(const Limits& limits, std::string_view name, Level level) {
  const Limit* limit = find(limits, name, level);
  return limit ? limit->rate.count : -1;
}

std::string because(const Limits& limits, std::string_view name, Level level) {
  const Limit* limit = find(limits, name, level);
  return limit ? limit->because : "";
}

Topology one_host(std::vector<Nic> nics) {
  Topology topology;
  Host host;
  host.name = "a";
  host.nics = std::move(nics);
  topology.hosts = {host};
  return topology;
}

Nic nic(const std::string& kind, std::optional<GBps> nic_rate, const std::string& state = "up") {
  return {"x", kind, "driver", state, nic_rate, -1};
}

TEST(TopoLimits, of_a_p5_are_links_and_nics_times_their_rates) {
  const Limits limits = limits_of(find_platform("p5.48xlarge"));
  EXPECT_THAT(limits, SizeIs(11));
  EXPECT_DOUBLE_EQ(rate(limits, gpu_nvls, Level::wire), 700);
  EXPECT_NEAR(rate(limits, gpu_nvls, Level::achievable), 480, 0.5);
  EXPECT_DOUBLE_EQ(rate(limits, one_nic, Level::wire), 12.5);
  EXPECT_DOUBLE_EQ(rate(limits, gpu_nics_alone, Level::wire), 50);
  EXPECT_DOUBLE_EQ(rate(limits, gpu_link, Level::wire), 450);
  EXPECT_DOUBLE_EQ(rate(limits, gpu_link, Level::achievable), 370.8);
  EXPECT_DOUBLE_EQ(rate(limits, gpu_nics, Level::wire), 50);
  EXPECT_DOUBLE_EQ(rate(limits, gpu_nics, Level::achievable), 44.5);
  EXPECT_DOUBLE_EQ(rate(limits, node_nics, Level::wire), 400);
  EXPECT_DOUBLE_EQ(rate(limits, node_nics, Level::achievable), 356);
  EXPECT_EQ(find(limits, gpu_link, Level::wire)->binding, "nvlink");
  EXPECT_EQ(find(limits, node_nics, Level::wire)->binding, "nic");
  EXPECT_EQ(find(limits, gpu_link, Level::published), nullptr);
}

TEST(TopoLimits, of_a_p4d_share_a_nic_between_two_gpus) {
  const Limits limits = limits_of(find_platform("p4d.24xlarge"));
  EXPECT_DOUBLE_EQ(rate(limits, gpu_link, Level::wire), 300);
  EXPECT_DOUBLE_EQ(rate(limits, gpu_link, Level::achievable), 240);
  EXPECT_DOUBLE_EQ(rate(limits, gpu_nics, Level::wire), 6.25);
  EXPECT_DOUBLE_EQ(rate(limits, gpu_nics_alone, Level::wire), 12.5);
  EXPECT_DOUBLE_EQ(rate(limits, node_nics, Level::achievable), 42.5);
}

TEST(TopoLimits, sentences_contain_the_arithmetic) {
  const Limits limits = limits_of(find_platform("p5.48xlarge"));
  EXPECT_THAT(because(limits, gpu_link, Level::wire), HasSubstr("18 NVLinks x 25 GB/s = 450 GB/s"));
  EXPECT_THAT(because(limits, gpu_link, Level::achievable), HasSubstr("18 NVLinks x 20.6 GB/s = 370.8 GB/s"));
  EXPECT_THAT(because(limits, gpu_nics, Level::wire), HasSubstr("32 NICs x 12.5 GB/s / 8 GPUs = 50 GB/s"));
  EXPECT_THAT(because(limits, node_nics, Level::achievable), HasSubstr("32 NICs x 12.5 GB/s x 0.89 = 356 GB/s"));
}

TEST(TopoLimits, of_nvls_name_the_gpus_of_the_run_that_reached_them) {
  int named = 0;
  for (const Platform& platform : platforms()) {
    const std::string text = because(limits_of(platform), gpu_nvls, Level::achievable);
    if (text.empty()) continue;
    SCOPED_TRACE(platform.name + ": " + text);
    ++named;
    EXPECT_TRUE(std::ranges::any_of(published_of(platform), [&](const Published& row) {
      const int gpus = row.nodes * row.gpus;
      const double wire = platform.links_per_gpu * platform.link_rate.count * 2 * (gpus - 1) / (gpus + 1);
      return row.healthy && row.busbw && row.collective == "all_reduce" && row.algorithm != "ring" &&
             text.ends_with(fmt::format("runs on {} x {} reached", gpus, platform.gpu)) &&
             std::abs(row.busbw->count / wire - platform.nvls_efficiency.value()) < 0.001;
    }));
  }
  EXPECT_GE(named, 10);
  EXPECT_THAT(because(limits_of(find_platform("p6e-gb300r.36xlarge")), gpu_nvls, Level::achievable),
              HasSubstr("on 8 x GB300 reached"));
  EXPECT_THAT(because(limits_of(find_platform("gb300-nvl72")), gpu_nvls, Level::achievable),
              HasSubstr("on 72 x GB300 reached"));
  EXPECT_THAT(because(limits_of(find_platform("hgx-h200")), gpu_nvls, Level::achievable),
              HasSubstr("on 8 x H200 reached"));
}

TEST(TopoLimits, a_platform_without_links_has_no_link_limit) {
  Platform platform = find_platform("p5.48xlarge");
  platform.links_per_gpu = 0;
  EXPECT_EQ(find(limits_of(platform), gpu_link, Level::wire), nullptr);
  EXPECT_NE(find(limits_of(platform), node_nics, Level::wire), nullptr);
}

// Islands of `of_island` GPUs, of which each two are joined by `links` NVLinks.
Topology directly_joined(const std::string& name, int gpus, int of_island, int links) {
  Topology topology = one_host({});
  const auto address = [](int gpu) { return fmt::format("0000:{:02x}:00.0", gpu); };
  for (int one = 0; one < gpus; ++one) {
    Gpu& gpu = topology.hosts[0].gpu_devices.emplace_back();
    gpu.name = name;
    gpu.architecture = 90;
    gpu.pci.address = address(one);
    gpu.links = (of_island - 1) * links;
    for (int other = 0; other < gpus; ++other) {
      if (other == one || other / of_island != one / of_island) continue;
      for (int link = 0; link < links; ++link)
        gpu.nvlinks.push_back({.number = static_cast<int>(gpu.nvlinks.size()),
                               .active = true,
                               .remote = "gpu",
                               .remote_pci = address(other)});
    }
  }
  return topology;
}

TEST(TopoLimits, of_gpus_without_a_switch_are_the_links_between_two_of_them) {
  Topology topology = directly_joined("NVIDIA H100 80GB HBM3", 4, 4, 6);
  const Limits limits = link_limits(topology);
  EXPECT_EQ(find(limits, gpu_link, Level::wire), nullptr);
  EXPECT_DOUBLE_EQ(rate(limits, gpu_pair, Level::wire), 150);
  EXPECT_DOUBLE_EQ(rate(limits, gpu_pair, Level::achievable), 123.6);
  EXPECT_THAT(because(limits, gpu_pair, Level::wire),
              HasSubstr("6 active NVLinks between two NVIDIA H100 80GB HBM3 x 25 GB/s = 150 GB/s"));
  const auto of_group = [&](const Collective& collective, int ranks) {
    const auto found = limit_of(limits, {.route = collective.route, .ranks = ranks, .nodes = 1}, Level::wire);
    return found ? found->rate.count : -1;
  };
  EXPECT_DOUBLE_EQ(of_group(p2p, 2), 150);
  EXPECT_DOUBLE_EQ(of_group(send_recv, 4), 150);
  EXPECT_DOUBLE_EQ(of_group(all_reduce, 2), 150);
  EXPECT_DOUBLE_EQ(of_group(all_reduce, 4), 450);
  EXPECT_DOUBLE_EQ(of_group(all_gather, 3), 300);
  EXPECT_EQ(of_group(all_to_all, 4), -1);
  topology.hosts[0].gpu_devices[2].nvlinks[0].active = false;
  topology.hosts[0].gpu_devices[2].links = 17;
  EXPECT_DOUBLE_EQ(rate(link_limits(topology), gpu_pair, Level::wire), 125) << "of the two with the fewest";
}

TEST(TopoLimits, of_gb200_that_are_joined_directly_are_not_those_of_a_tray_of_an_nvl72) {
  Topology topology = directly_joined("NVIDIA GB200", 4, 4, 6);
  for (Gpu& gpu : topology.hosts[0].gpu_devices) gpu.links_possible = 18, gpu.architecture = 100;
  EXPECT_EQ(platform_of(topology.hosts[0]), nullptr);
  EXPECT_DOUBLE_EQ(rate(link_limits(topology), gpu_pair, Level::wire), 300);
  EXPECT_EQ(find(link_limits(topology), gpu_link, Level::wire), nullptr);
  for (Gpu& gpu : topology.hosts[0].gpu_devices)
    for (NvLink& link : gpu.nvlinks) link.remote = "switch", link.remote_pci = "";
  EXPECT_EQ(platform_of(topology.hosts[0]), &find_platform("gb200-nvl72"));
  EXPECT_DOUBLE_EQ(rate(link_limits(topology), gpu_link, Level::wire), 900);
}

TEST(TopoLimits, of_gpus_that_bridges_join_in_twos_are_unknown) {
  EXPECT_THAT(link_limits(directly_joined("NVIDIA H100 NVL", 8, 2, 12)), IsEmpty());
  EXPECT_DOUBLE_EQ(rate(link_limits(directly_joined("NVIDIA H100 NVL", 2, 2, 12)), gpu_pair, Level::wire), 300);
}

TEST(TopoLimits, of_a_gpu_without_a_bridge_beside_bridged_ones_are_no_fault) {
  const auto severities = [](const Topology& topology) {
    std::vector<Severity> found;
    for (const Finding& each : look(topology))
      if (each.id == "gpu.links") found.push_back(each.severity);
    return found;
  };
  for (const int of_island : {2, 4}) {
    Topology topology = directly_joined("NVIDIA H100 NVL", 8, of_island, 6);
    EXPECT_THAT(severities(topology), IsEmpty());
    Gpu& gpu = topology.hosts[0].gpu_devices[0];
    gpu.links = 1;
    EXPECT_THAT(severities(topology), ElementsAre(Severity::error));
    gpu.links = 0;
    for (NvLink& link : gpu.nvlinks) link.active = false;
    EXPECT_THAT(severities(topology), ElementsAre(of_island == 2 ? Severity::warning : Severity::error));
  }
}

TEST(TopoLimits, of_links_to_a_switch_or_to_unknown_ends_are_those_of_a_gpu) {
  for (const char* remote : {"switch", "", "gpu"}) {
    Topology topology = directly_joined("NVIDIA H100 80GB HBM3", 4, 4, 6);
    if (remote == std::string("gpu")) topology.platform = "p5.48xlarge";
    for (Gpu& gpu : topology.hosts[0].gpu_devices)
      for (NvLink& link : gpu.nvlinks) link.remote = remote;
    EXPECT_DOUBLE_EQ(rate(link_limits(topology), gpu_link, Level::wire), 450) << remote;
    EXPECT_EQ(find(link_limits(topology), gpu_pair, Level::wire), nullptr) << remote;
  }
}

TEST(TopoLimits, stated_nics_are_summed_on_the_weakest_host) {
  Topology topology = synthetic(find_platform("p5.48xlarge"), 3);
  topology.hosts[1].nics.resize(31);
  const Limits limits = nic_limits(topology);
  ASSERT_THAT(limits, SizeIs(1));
  EXPECT_DOUBLE_EQ(rate(limits, node_nics, Level::wire), 387.5);
  EXPECT_THAT(limits[0].because,
              AllOf(HasSubstr("n1"), HasSubstr("31 x 12.5 GB/s = 387.5 GB/s"), HasSubstr("3 hosts")));
}

TEST(TopoLimits, ethernet_beside_a_fabric_and_nics_that_are_down_do_not_count) {
  const Limits limits =
      nic_limits(one_host({nic("efa", GBps{12.5}), nic("efa", GBps{12.5}, "down"), nic("ethernet", GBps{10})}));
  EXPECT_DOUBLE_EQ(rate(limits, node_nics, Level::wire), 12.5);
}

TEST(TopoLimits, ethernet_counts_where_there_is_no_fabric) {
  const Limits limits =
      nic_limits(one_host({nic("ethernet", GBps{1.25}), nic("ethernet", GBps{12.5}), nic("virtual", {})}));
  EXPECT_DOUBLE_EQ(rate(limits, node_nics, Level::wire), 13.75);
  EXPECT_THAT(limits[0].because, HasSubstr("1 x 1.25 GB/s + 1 x 12.5 GB/s = 13.75 GB/s"));
}

TEST(TopoLimits, of_infiniband_beside_faster_ethernet_with_rdma_are_unknown) {
  const auto roce = [](double port_rate) {
    Nic port = nic("ethernet", GBps{port_rate});
    port.verbs = "uverbs0";
    return port;
  };
  const auto node = [](const std::vector<Nic>& nics) {
    return rate(nic_limits(one_host(nics)), node_nics, Level::wire);
  };
  std::vector<Nic> nics(8, roce(50));
  for (int i = 0; i < 4; ++i) nics.push_back(nic("infiniband", GBps{12.5}));
  EXPECT_EQ(node(nics), -1) << "which carries the traffic is not known";
  for (Nic& each : nics)
    if (each.kind == "infiniband") each.state = "down";
  EXPECT_DOUBLE_EQ(node(nics), 400) << "the Ethernet ports";
  std::vector<Nic> with_storage(8, nic("infiniband", GBps{50}));
  with_storage.push_back(roce(25));
  with_storage.push_back(roce(25));
  EXPECT_DOUBLE_EQ(node(with_storage), 400) << "the InfiniBand ports";
  for (Nic& each : with_storage)
    if (each.kind == "infiniband") each.state = "down";
  EXPECT_EQ(node(with_storage), -1) << "ports for storage are not the fabric because that is down";
  EXPECT_DOUBLE_EQ(node({nic("efa", GBps{50}), nic("infiniband", GBps{12.5})}), 50) << "a device of the board";
}

TEST(TopoLimits, a_nic_without_a_rate_leaves_the_sum_unknown) {
  EXPECT_THAT(nic_limits(one_host({nic("ethernet", {}), nic("ethernet", GBps{1.25})})), IsEmpty());
  EXPECT_THAT(nic_limits(one_host({})), IsEmpty());
  EXPECT_THAT(nic_limits({}), IsEmpty());
}

TEST(TopoLimits, nodes_on_one_kernel_have_no_nics_between_them) {
  Topology topology = synthetic(find_platform("p5.48xlarge"), 2);
  topology.hosts[1].boot_id = topology.hosts[0].boot_id;
  EXPECT_THAT(nic_limits(topology), IsEmpty());
}

TEST(TopoLimits, copies_are_limited_by_the_worst_host) {
  const Limits limits = copy_limits({{GBps{12}, GBps{40}, 8}, {GBps{10}, GBps{30}, 4}});
  EXPECT_DOUBLE_EQ(rate(limits, host_copy_one, Level::wire), 10);
  EXPECT_DOUBLE_EQ(rate(limits, host_copy_one, Level::achievable), 5);
  EXPECT_DOUBLE_EQ(rate(limits, host_copy_all, Level::wire), 30);
  EXPECT_DOUBLE_EQ(rate(limits, host_copy_all, Level::achievable), 15);
  EXPECT_THAT(because(limits, host_copy_all, Level::wire), HasSubstr("4 ranks"));
  EXPECT_THAT(because(limits, host_copy_one, Level::achievable),
              AllOf(HasSubstr("x 0.5 = 5 GB/s"), HasSubstr("in and out")));
  EXPECT_EQ(find(limits, host_copy_one, Level::wire)->binding, "host memory");
}

TEST(TopoLimits, nothing_measured_is_nothing_limited) {
  EXPECT_THAT(copy_limits({}), IsEmpty());
  EXPECT_THAT(copy_limits({{}}), IsEmpty());
}

TEST(TopoLimits, a_copy_has_a_rate) { EXPECT_GT(measure_copy(MiB(1), Seconds{1e-3}).count, 0); }

TEST(TopoLimits, survive_json) {
  const Limits limits = limits_of(find_platform("p4d.24xlarge"));
  const Limits again = limits_from_json(nlohmann::json::parse(to_json(limits).dump()));
  ASSERT_EQ(again.size(), limits.size());
  EXPECT_EQ(again[1].name, limits[1].name);
  EXPECT_EQ(again[1].level, Level::achievable);
  EXPECT_EQ(again[1].rate, limits[1].rate);
  EXPECT_EQ(again[1].binding, limits[1].binding);
  EXPECT_EQ(again[1].because, limits[1].because);
  EXPECT_THROW(limits_from_json(nlohmann::json::parse(R"([{"name": "gpu.link"}])")), UsageError);
}

}  // namespace
}  // namespace p5::topo
