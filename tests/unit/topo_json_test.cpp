// Topology through JSON and back, and the made-up machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/base/error.hpp"
#include "topo/platform.hpp"
#include "topo/topology.hpp"

namespace p5::topo {
namespace {

using ::testing::HasSubstr;

Topology full() {
  Host host;
  host.name = "half";
  host.host_name = "ip-10-0-0-1";
  host.pretended = true;
  host.seen_by = "nccl";
  host.boot_id = "1111";
  host.instance = "i-1";
  host.instance_type = "p5.48xlarge";
  host.kernel = "6.1";
  host.cpu_model = "AMD EPYC 7R13";
  host.packages = 2, host.numa_nodes = 3, host.cores = 96, host.threads = 192, host.allowed_threads = 191,
  host.gpus = 8;
  host.memory = GiB(2048), host.memory_available = Bytes{(std::uint64_t{1} << 53) + 1};
  host.nics = {{"rdmap79s0", "efa", "efa", "up", GBps{12.5}, 1}, {"docker0", "virtual", "", "down", {}, -1}};
  Gpu gpu;
  gpu.uuid = "GPU-1", gpu.name = "NVIDIA H100", gpu.architecture = 90, gpu.links = 17;
  gpu.pcie = {.generation = 4, .width = 16, .generation_max = 5, .width_max = 16};
  gpu.pci = {"0000:53:00.0", {"pci0000:50", "0000:50:00.0"}};
  gpu.nvlinks = {{.number = 3,
                  .active = false,
                  .rate_raw = GBps{26.5625},
                  .remote = "switch",
                  .remote_pci = "0000:05:00.0",
                  .errors = {{"replay", 4}}}};
  gpu.errors.remap_pending = true;
  gpu.state.throttle_mask = 0x48;
  gpu.nics = {"rdmap79s0"}, gpu.nics_by = "pcie switch", gpu.nics_shared = 1, gpu.nccl_device = 4;
  host.gpu_devices = {gpu};
  host.nics[0].counters = {{"rx_bytes", 18446744073709551615u}};
  host.bridges = {{.address = "0000:50:00.0", .link = {.generation = 5, .width = 16}, .acs = false}};
  host.numa = {{1, "0-47,96-143", {0, 1}, GiB(1024)}};
  host.modules = {"efa"};
  host.versions = {{"nvidia driver", "580.95"}};
  host.libfabric = Libfabric{.version = "2.1", .domains = {{.name = "rdmap79s0-rdm", .provider = "efa"}}};
  host.limits.locked_memory = Bytes{~std::uint64_t{0}};
  host.nics[1].mtu = 1500;
  host.xids = {{"0000:53:00", 79, 2, "GPU has fallen off the bus."}};
  Topology topology{"discovered", "p5.48xlarge", {host}, {0, 0}};
  topology.gpu_of_rank = {"GPU-1", "GPU-2"};
  topology.settings = JobSettings{{{"NCCL_TUNER_PLUGIN", "/x.so"}}, {"NCCL_TUNER_PLUGIN"}};
  return topology;
}

TEST(TopoJson, a_topology_survives_the_journey) {
  const nlohmann::json there = to_json(full());
  const Topology again = topology_from_json(nlohmann::json::parse(there.dump()));
  EXPECT_EQ(to_json(again), there);
  EXPECT_EQ(again.hosts.at(0).memory_available.count, (std::uint64_t{1} << 53) + 1);
  EXPECT_EQ(again.hosts[0].nics.at(0).rate, GBps{12.5});
  EXPECT_FALSE(again.hosts[0].nics.at(1).rate);
  EXPECT_EQ(again.host_of_rank, (std::vector<int>{0, 0}));
  EXPECT_TRUE(again.hosts[0].pretended);
  EXPECT_EQ(again.hosts[0].seen_by, "nccl");
}

TEST(TopoJson, what_says_which_host_it_is_has_to_be_there) {
  const nlohmann::json host = to_json(full()).at("hosts").at(0);
  for (const char* key : {"name", "host_name", "boot_id", "cores", "gpus", "memory_bytes", "nics", "gpu_devices"}) {
    nlohmann::json without = host;
    without.erase(key);
    EXPECT_THROW(host_from_json(without), UsageError) << key;
  }
  EXPECT_EQ(to_json(host_from_json(host)), host);
}

TEST(TopoJson, a_fact_that_a_recording_lacks_is_unknown) {
  const nlohmann::json host = to_json(full()).at("hosts").at(0);
  for (const char* key :
       {"xids", "numa", "bridges", "nvswitches", "modules", "versions", "libfabric", "limits", "iommu"}) {
    nlohmann::json without = host, null = host;
    without.erase(key);
    null[key] = nullptr;
    EXPECT_EQ(to_json(host_from_json(without)).at(key), to_json(Host{}).at(key)) << key;
    EXPECT_EQ(to_json(host_from_json(null)).at(key), to_json(Host{}).at(key)) << key;
  }
  nlohmann::json bare = host;
  bare["gpu_devices"] = {{{"uuid", "GPU-1"}, {"name", "X"}, {"architecture", 90}}};
  EXPECT_FALSE(host_from_json(bare).gpu_devices.at(0).links);
}

TEST(TopoJson, facts_of_gpus_and_nics_are_kept) {
  const Host host = topology_from_json(nlohmann::json::parse(to_json(full()).dump())).hosts.at(0);
  const Gpu& gpu = host.gpu_devices.at(0);
  EXPECT_EQ(gpu.pcie.generation, 4);
  EXPECT_EQ(gpu.pcie.generation_max, 5);
  EXPECT_EQ(gpu.pci.path.at(1), "0000:50:00.0");
  EXPECT_EQ(gpu.nvlinks.at(0).active, false);
  EXPECT_EQ(gpu.nvlinks[0].rate_raw, GBps{26.5625});
  EXPECT_EQ(gpu.nvlinks[0].errors.at("replay"), 4u);
  EXPECT_EQ(gpu.errors.remap_pending, true);
  EXPECT_FALSE(gpu.errors.remap_failed);
  EXPECT_EQ(gpu.state.throttle_mask, 0x48u);
  EXPECT_EQ(gpu.nccl_device, 4);
  EXPECT_EQ(host.nics.at(1).mtu, 1500);
  ASSERT_TRUE(host.xids);
  EXPECT_EQ(host.xids->at(0).code, 79);
  EXPECT_EQ(host.xids->at(0).count, 2);
  EXPECT_EQ(host.nics.at(0).counters.at("rx_bytes"), ~std::uint64_t{0});
  EXPECT_EQ(host.limits.locked_memory, Bytes{~std::uint64_t{0}});
  ASSERT_TRUE(host.libfabric);
  EXPECT_EQ(host.libfabric->domains.at(0).provider, "efa");
}

TEST(TopoJson, the_settings_of_a_job_are_kept_and_may_be_unknown) {
  const Topology again = topology_from_json(nlohmann::json::parse(to_json(full()).dump()));
  ASSERT_TRUE(again.settings);
  EXPECT_EQ(again.settings->variables.at("NCCL_TUNER_PLUGIN"), "/x.so");
  EXPECT_EQ(again.settings->dangling, (std::vector<std::string>{"NCCL_TUNER_PLUGIN"}));
  nlohmann::json without = to_json(full());
  without.erase("settings");
  EXPECT_FALSE(topology_from_json(without).settings);
}

TEST(TopoJson, what_is_unknown_is_null) {
  EXPECT_TRUE(to_json(full())["hosts"][0]["nics"][1]["rate_gb_per_s"].is_null());
}

TEST(TopoJson, a_damaged_recording_is_refused_with_the_field) {
  nlohmann::json j = to_json(full());
  j["hosts"][0]["cores"] = "many";
  EXPECT_THROW(topology_from_json(j), UsageError);
  j = to_json(full());
  j["hosts"][0].erase("boot_id");
  try {
    topology_from_json(j);
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("boot_id"));
  }
}

TEST(TopoJson, a_rank_on_a_host_that_is_not_there_is_refused) {
  nlohmann::json j = to_json(full());
  j["host_of_rank"] = {0, 1};
  EXPECT_THROW(topology_from_json(j), UsageError);
}

TEST(TopoJson, a_made_up_machine_has_a_rank_per_gpu) {
  const Topology topology = synthetic(find_platform("p5.48xlarge"), 4);
  EXPECT_EQ(topology.provenance, "synthetic");
  EXPECT_EQ(topology.platform, "p5.48xlarge");
  ASSERT_EQ(topology.hosts.size(), 4u);
  EXPECT_EQ(topology.hosts[3].name, "n3");
  EXPECT_EQ(topology.hosts[3].nics.size(), 32u);
  ASSERT_EQ(topology.host_of_rank.size(), 32u);
  EXPECT_EQ(topology.host_of_rank[7], 0);
  EXPECT_EQ(topology.host_of_rank[8], 1);
}

}  // namespace
}  // namespace p5::topo
