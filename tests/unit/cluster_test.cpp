// Facts about the hosts that ranks other than the leader have, compared with the leader's.
#include "bench/app/machine/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

#include "bench/app/machine/fabric.hpp"
#include "bench/app/tuning/obstacles.hpp"
#include "bench/base/error.hpp"
#include "bench/base/wire.hpp"
#include "bench/control/control_planes.hpp"
#include "tests/unit/in_folder.hpp"
#include "topo/nccl_log.hpp"
#include "topo/platform.hpp"
#include "topo/settings.hpp"

namespace p5 {
namespace {

// The facts as each rank receives them.
topo::Topology sketched(topo::Topology topology) {
  topology.hosts = hosts_from(wire::deserialize<ClusterSketch>(wire::serialize(sketch_of(topology.hosts))));
  return topology;
}

topo::Topology of_platform(const char* name, int nodes) {
  topo::Topology topology = topo::synthetic(topo::find_platform(name), nodes);
  for (std::size_t at = 0; at < topology.hosts.size(); ++at) {
    topology.hosts[at].host_name = fmt::format("host{}", at / 2);  // each host is two nodes, one of them pretended
    topology.hosts[at].boot_id = fmt::format("boot{}", at / 2);
    topology.hosts[at].pretended = at % 2 == 1;
    topology.hosts[at].memory_available = GiB(100 + at);
  }
  return topology;
}

TEST(ClusterSketch, all_ranks_answer_alike_what_all_have_to_know) {
  for (const char* const platform : {"p5.48xlarge", "p3dn.24xlarge", "hgx-h100"})
    for (const bool one_lacks_its_fabric : {false, true}) {
      SCOPED_TRACE(platform);
      topo::Topology whole = of_platform(platform, 6);
      if (one_lacks_its_fabric) whole.hosts[3].nics.clear();
      const topo::Topology sketch = sketched(whole);
      EXPECT_EQ(all_have_efa(sketch), all_have_efa(whole));
      EXPECT_EQ(on_efa(sketch), on_efa(whole));
      EXPECT_EQ(first_ranks(sketch), first_ranks(whole));
      ASSERT_EQ(sketch.hosts.size(), whole.hosts.size());
      for (std::size_t at = 0; at < whole.hosts.size(); ++at) {
        const topo::Host &own = sketch.hosts[at], &all = whole.hosts[at];
        EXPECT_EQ(own.pretended, all.pretended);
        EXPECT_EQ(own.memory_available, all.memory_available);
        const auto links = [](const topo::Gpu& gpu) { return gpu.links.value_or(0) > 0; };
        EXPECT_EQ(std::ranges::any_of(own.gpu_devices, links), std::ranges::any_of(all.gpu_devices, links));
        // NCCL over sockets is a fault where there is a fabric.
        const auto findings = [&](const topo::Host& host) {
          return topo::findings_in_log("NCCL INFO Using network Socket\n", host, nullptr, 0).size();
        };
        EXPECT_EQ(findings(own), findings(all));
      }
    }
}

TEST(ClusterSketch, is_small) {
  EXPECT_LT(wire::serialize(sketch_of(of_platform("p5.48xlarge", 512).hosts)).size(), 512 * 13 + 64u);
}

TEST(DiscoverCluster, the_leader_has_all_and_others_their_own_host) {
  run_threads(3, [](ControlPlane& control) {
    const topo::Topology topology = discover_cluster(control, {});
    EXPECT_EQ(topology.host_of_rank, (std::vector<int>{0, 0, 0}));
    ASSERT_EQ(topology.hosts.size(), 1u);
    EXPECT_EQ(topology.hosts[0].name, topo::host_name().name);
    EXPECT_EQ(topology.hosts[0].kernel.empty(), !control.is_leader());
    EXPECT_EQ(topology.settings.has_value(), control.is_leader());
  });
}

using DiscoverClusterInFolder = InFolder;

TEST_F(DiscoverClusterInFolder, the_settings_are_those_of_nccls_files_too) {
  const std::string path = (folder / "nccl.conf").string();
  std::ofstream(path) << "NCCL_MNNVL_ENABLE=0\n";
  setenv("NCCL_CONF_FILE", path.c_str(), 1);
  run_threads(1, [](ControlPlane& control) {
    EXPECT_EQ(topo::variable_that_disables_domains(discover_cluster(control, {})), "NCCL_MNNVL_ENABLE=0");
  });
  unsetenv("NCCL_CONF_FILE");
}

TEST(SettingsOfLibfabric, are_told_without_those_of_nccl) {
  topo::Topology topology;
  topology.hosts.resize(2);
  topology.settings = settings_of_libfabric({{"FI_EFA_USE_DEVICE_RDMA", "0"},
                                             {"FI_EFA_IFACE", "rdmap79s0"},
                                             {"RDMAV_FORK_SAFE", "1"},
                                             {"NCCL_PROTO", "simple"},
                                             {"OFI_NCCL_GDR_FLUSH_DISABLE", "1"},
                                             {"PATH", "/bin"}});
  std::vector<std::string> ids;
  for (const topo::Finding& each : topo::stale_settings(topology)) ids.push_back(each.id);
  EXPECT_THAT(ids,
              testing::UnorderedElementsAre("settings.device_rdma_off", "settings.efa_iface", "settings.fork_safe"));
  EXPECT_EQ(topology.settings->variables.size(), 3u);
}

TEST(HostsOfRanks, are_numbered_by_name_in_order_of_their_first_ranks) {
  EXPECT_EQ(hosts_of_ranks({{"b", "2"}, {"a", "1"}, {"b", "2"}, {"a", ""}}), (std::vector<std::uint16_t>{0, 1, 0, 1}));
  EXPECT_EQ(hosts_of_ranks({{"a", "1"}, {"b", "1"}}), (std::vector<std::uint16_t>{0, 1})) << "pretended nodes";
}

TEST(HostsOfRanks, of_several_machines_with_one_name_are_refused) {
  const auto refusal = [](const std::vector<MachineOfRank>& machines) {
    try {
      hosts_of_ranks(machines);
    } catch (const EnvironmentError& problem) {
      return std::string(problem.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal({{"localhost", ""}, {"localhost", "1"}, {"n1", "3"}, {"localhost", "2"}}),
              testing::StartsWith("ranks 1 and 3 are on different machines (by boot id) that both call themselves "
                                  "'localhost'"));
}

}  // namespace
}  // namespace p5
