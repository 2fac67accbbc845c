// The arithmetic of limits, and the sentences about them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/base/error.hpp"
#include "topo/limits.hpp"

namespace p5::topo {
namespace {

using ::testing::AllOf;
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

TEST(TopoLimits, a_platform_without_links_has_no_link_limit) {
  Platform platform = find_platform("p5.48xlarge");
  platform.links_per_gpu = 0;
  EXPECT_EQ(find(limits_of(platform), gpu_link, Level::wire), nullptr);
  EXPECT_NE(find(limits_of(platform), node_nics, Level::wire), nullptr);
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
