// Topology through JSON and back, and the made-up machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/error.hpp"
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
  host.boot_id = "1111";
  host.instance = "i-1";
  host.instance_type = "p5.48xlarge";
  host.kernel = "6.1";
  host.cpu_model = "AMD EPYC 7R13";
  host.packages = 2, host.numa_nodes = 3, host.cores = 96, host.threads = 192, host.allowed_threads = 191,
  host.gpus = 8;
  host.memory = GiB(2048), host.memory_available = Bytes{(std::uint64_t{1} << 53) + 1};
  host.nics = {{"rdmap79s0", "efa", "efa", "up", GBps{12.5}, 1}, {"docker0", "virtual", "", "down", {}, -1}};
  return {"discovered", "p5.48xlarge", {host}, {0, 0}};
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
}

TEST(TopoJson, every_field_of_a_host_is_written) {
  const nlohmann::json host = to_json(full()).at("hosts").at(0);
  for (const auto& [key, value] : host.items()) {
    nlohmann::json without = host;
    without.erase(key);
    EXPECT_THROW(host_from_json(without), UsageError) << key;
  }
  EXPECT_EQ(to_json(host_from_json(host)), host);
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
