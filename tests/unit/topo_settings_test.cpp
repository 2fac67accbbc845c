// Stale and harmful settings: each is reported once where it is set, and none where it is not.
#include "topo/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

namespace p5::topo {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Topology job(const Environment& variables, const std::string& platform = "p5.48xlarge", int hosts = 1) {
  Topology topology;
  topology.platform = platform;
  for (int i = 0; i < hosts; ++i) topology.hosts.emplace_back().boot_id = std::to_string(i);
  topology.settings = JobSettings{variables, {}};
  return topology;
}

std::vector<std::string> ids(const Topology& topology) {
  std::vector<std::string> result;
  for (const Finding& finding : stale_settings(topology)) result.push_back(finding.id);
  return result;
}
std::vector<std::string> ids(const Environment& variables, const std::string& platform = "p5.48xlarge") {
  return ids(job(variables, platform));
}

TEST(Settings, is_silent_about_what_is_recommended) {
  EXPECT_THAT(ids({{"FI_PROVIDER", "efa"},
                   {"NCCL_SOCKET_IFNAME", "^docker,lo,veth"},
                   {"NCCL_DEBUG", "WARN"},
                   {"NCCL_NVLS_ENABLE", "1"},
                   {"NCCL_BUFFSIZE", "8388608"},
                   {"NCCL_P2P_NET_CHUNKSIZE", "524288"},
                   {"NCCL_PROTO", "LL128,Simple"},
                   {"NCCL_ALGO", "allreduce:tree,ring"},
                   {"NCCL_P2P_DISABLE", "0"},
                   {"NCCL_NET_GDR_LEVEL", "2"},
                   {"PATH", "/bin"}}),
              IsEmpty());
}

TEST(Settings, knows_each_setting) {
  const std::vector<std::pair<std::string, Environment>> cases{
      {"settings.proto_simple", {{"NCCL_PROTO", "simple"}}},
      {"settings.proto_simple", {{"NCCL_PROTO", "Simple"}}},
      {"settings.algo_ring", {{"NCCL_ALGO", "RING"}}},
      {"settings.nvls_off", {{"NCCL_NVLS_ENABLE", "0"}}},
      {"settings.gdr_level", {{"NCCL_NET_GDR_LEVEL", "LOC"}}},
      {"settings.gdr_level", {{"NCCL_NET_GDR_LEVEL", "0"}}},
      {"settings.gdr_level", {{"NCCL_NET_GDR_LEVEL", "PIX"}}},
      {"settings.gdr_level", {{"NCCL_NET_GDR_LEVEL", "1"}}},
      {"settings.min_channels", {{"NCCL_MIN_NCHANNELS", "8"}}},
      {"settings.buffer_size", {{"NCCL_BUFFSIZE", "2097152"}}},
      {"settings.chunk_size", {{"NCCL_P2P_NET_CHUNKSIZE", "1048576"}}},
      {"settings.round_robin", {{"OFI_NCCL_ROUND_ROBIN_THRESHOLD", "8192"}}},
      {"settings.flush_off", {{"OFI_NCCL_GDR_FLUSH_DISABLE", "1"}}},
      {"settings.checks_off", {{"OFI_NCCL_DISABLE_NATIVE_RDMA_CHECK", "1"}}},
      {"settings.device_rdma", {{"FI_EFA_USE_DEVICE_RDMA", "1"}}},
      {"settings.device_rdma_off", {{"FI_EFA_USE_DEVICE_RDMA", "no"}}},
      {"settings.efa_abort", {{"FI_EFA_RX_IOV_LIMIT", "4"}}},
      {"settings.efa_abort", {{"FI_EFA_IFACE", ""}}},
      {"settings.efa_iface", {{"FI_EFA_IFACE", "rdmap79s0"}}},
      {"settings.fork_safe", {{"RDMAV_FORK_SAFE", "1"}}},
      {"settings.efa_old", {{"FI_EFA_TX_MIN_CREDITS", "64"}}},
      {"settings.infiniband", {{"NCCL_IB_HCA", "mlx5"}}},
      {"settings.ancient", {{"NCCL_TREE_THRESHOLD", "0"}}},
      {"settings.hidden_p2p", {{"NCCL_IGNORE_DISABLED_P2P", "1"}}},
      {"settings.transport_off", {{"NCCL_P2P_DISABLE", "1"}}},
      {"settings.sockets", {{"NCCL_NET", "Socket"}}},
      {"settings.plugin_off", {{"NCCL_NET_PLUGIN", "none"}}},
      {"settings.provider", {{"FI_PROVIDER", "tcp"}}},
      {"settings.protocol_sendrecv", {{"OFI_NCCL_PROTOCOL", "SENDRECV"}}},
      {"settings.rails_forced", {{"OFI_NCCL_FORCE_NUM_RAILS", "4"}}},
      {"settings.tuner_off", {{"OFI_NCCL_TUNER_TYPE", "Internal"}}},
      {"settings.tuner_replaced", {{"NCCL_TUNER_PLUGIN", "none"}}},
      {"settings.tuner_named", {{"NCCL_TUNER_PLUGIN", "libnccl-ofi-tuner.so"}}},
      {"settings.topology_of_another", {{"NCCL_TOPO_FILE", "/opt/p4d-24xl-topo.xml"}}}};
  for (const auto& [id, environment] : cases) EXPECT_THAT(ids(environment), ElementsAre(id));
}

TEST(Settings, knows_what_a_list_of_providers_excludes) {
  for (const char* const without : {"^efa", "^tcp,efa", "tcp", "tcp,shm"})
    EXPECT_THAT(ids(Environment{{"FI_PROVIDER", without}}), ElementsAre("settings.provider")) << without;
  for (const char* const with : {"^tcp", "^tcp,shm", "efa", "efa,shm"})
    EXPECT_THAT(ids(Environment{{"FI_PROVIDER", with}}), IsEmpty()) << with;
}

TEST(Settings, says_of_a_platform_only_what_holds_there) {
  EXPECT_THAT(ids({{"NCCL_NVLS_ENABLE", "0"}, {"NCCL_IB_HCA", "mlx5"}}, ""), IsEmpty());
  EXPECT_THAT(ids({{"NCCL_TOPO_FILE", "/opt/p4d-24xl-topo.xml"}}, "p4d.24xlarge"), IsEmpty());
}

TEST(Settings, knows_a_tuner_that_is_not_there) {
  Topology topology = job({{"NCCL_TUNER_PLUGIN", "/lib/libnccl-tuner-p5bench.so"}});
  EXPECT_THAT(ids(topology), IsEmpty());
  topology.settings->dangling = {"NCCL_TUNER_PLUGIN"};
  EXPECT_THAT(ids(topology), ElementsAre("settings.tuner_missing"));
}

TEST(Settings, knows_a_network_plugin_that_is_not_there) {
  Topology topology = job({{"NCCL_NET_PLUGIN", "/lib/libnccl-net.so"}});
  EXPECT_THAT(ids(topology), IsEmpty());
  topology.settings->dangling = {"NCCL_NET_PLUGIN"};
  EXPECT_THAT(ids(topology), ElementsAre("settings.plugin_missing"));
}

TEST(Settings, knows_which_of_a_list_of_network_plugins_is_not_there) {
  const auto dangling = [](const char* value) { return job_settings({{"NCCL_NET_PLUGIN", value}}).dangling; };
  EXPECT_THAT(dangling("/bin/sh,/proc/self/exe,ofi"), IsEmpty());
  EXPECT_THAT(dangling("/bin/sh,/nowhere/plugin.so"), ElementsAre("NCCL_NET_PLUGIN"));
}

TEST(Settings, of_this_process_are_those_of_the_transport_and_say_what_leads_nowhere) {
  setenv("NCCL_TUNER_PLUGIN", "/nowhere/tuner.so", 1);
  setenv("FI_TEST_TOKEN", "hunter2", 1);
  const JobSettings settings = job_settings(current_environment());
  unsetenv("NCCL_TUNER_PLUGIN");
  unsetenv("FI_TEST_TOKEN");
  EXPECT_THAT(settings.dangling, ElementsAre("NCCL_TUNER_PLUGIN"));
  EXPECT_EQ(settings.variables.at("NCCL_TUNER_PLUGIN"), "/nowhere/tuner.so");
  EXPECT_THAT(settings.variables.at("FI_TEST_TOKEN"), Not(HasSubstr("hunter2")));
  EXPECT_FALSE(settings.variables.contains("PATH"));
}

TEST(Settings, an_interface_within_the_host_is_told_of_on_several_machines_only) {
  const Environment docker{{"NCCL_SOCKET_IFNAME", "eth0,docker0"}};
  EXPECT_THAT(ids(job(docker, "", 2)), ElementsAre("settings.interface"));
  EXPECT_THAT(ids(job({{"NCCL_SOCKET_IFNAME", "=lo"}}, "", 2)), ElementsAre("settings.interface"));
  EXPECT_THAT(ids(job(docker, "", 1)), IsEmpty());
  EXPECT_THAT(ids(job({{"NCCL_SOCKET_IFNAME", "^docker,lo"}}, "", 2)), IsEmpty());
  EXPECT_THAT(ids(job({{"NCCL_SOCKET_IFNAME", "ens,eth"}}, "", 2)), IsEmpty());
  Topology pretended = job(docker, "", 2);
  for (Host& host : pretended.hosts) host.boot_id = "one";
  EXPECT_THAT(ids(pretended), IsEmpty());
}

TEST(Settings, hangs_on_a_version_only_where_it_is_known) {
  Topology topology = job({{"NCCL_ALGO", "allreduce:tree,ring"}});
  EXPECT_THAT(ids(topology), IsEmpty());
  topology.hosts[0].versions["nccl"] = "2.21.5";
  EXPECT_THAT(ids(topology), ElementsAre("settings.tuner_idle"));
  topology.hosts[0].versions["nccl"] = "2.22.3";
  EXPECT_THAT(ids(topology), IsEmpty());
}

TEST(Settings, each_rule_has_a_source_and_what_it_compares_with) {
  for (const SettingRule& rule : setting_rules()) {
    EXPECT_FALSE(rule.source.empty() || rule.why.empty() || rule.action.empty() || rule.variables.empty()) << rule.id;
    EXPECT_EQ(rule.values.empty(), rule.when == "set" || rule.when == "missing") << rule.id;
    EXPECT_THAT(rule.id, HasSubstr("settings."));
  }
}

TEST(Settings, are_told_with_variable_value_and_remedy) {
  const auto findings = stale_settings(job({{"NCCL_PROTO", "simple"}}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].about, About::settings);
  EXPECT_THAT(findings[0].evidence, HasSubstr("NCCL_PROTO=simple"));
  EXPECT_EQ(findings[0].action, "unset it");
  EXPECT_EQ(std::ranges::count(look(job({{"NCCL_PROTO", "simple"}})), "settings.proto_simple", &Finding::id), 1)
      << "part of all that is looked for";
}

TEST(Settings, takes_an_injected_protocol_for_a_symptom) {
  EXPECT_EQ(injected_settings({}, {{"NCCL_PROTO", "simple"}}, "n0").size(), 1u);
  EXPECT_THAT(injected_settings({{"NCCL_PROTO", "simple"}}, {{"NCCL_PROTO", "simple"}}, "n0"), IsEmpty());
  EXPECT_THAT(injected_settings({}, {{"NCCL_BUFFSIZE", "8388608"}}, "n0"), IsEmpty());
}

TEST(Settings, tells_of_each_host_that_differs_from_rank_0_once) {
  const RankEnvironment same{"n0", {{"NCCL_ALGO", "Ring"}}}, without{"n1", {}},
      other{"n2", {{"NCCL_ALGO", "Tree"}, {"FI_PROVIDER", "efa"}}};
  EXPECT_THAT(differing_settings({same, same}, true), IsEmpty());
  EXPECT_THAT(differing_settings({}, true), IsEmpty());
  const auto found = differing_settings({same, same, without, without, other, other}, true);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].id, "settings.differ");
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].about, About::settings);
  EXPECT_EQ(found[0].subject.host, "n1");
  EXPECT_THAT(
      found[0].evidence,
      HasSubstr("rank 2 on n1 has another environment than rank 0: NCCL_ALGO is not set there, 'Ring' at rank 0"));
  EXPECT_EQ(found[1].subject.host, "n2");
  EXPECT_THAT(found[1].evidence, HasSubstr("FI_PROVIDER is 'efa' there, not set at rank 0"));
  EXPECT_EQ(differing_settings({same, other}, false)[0].severity, Severity::error) << "each rank keeps its own";
}

TEST(Settings, lists_each_of_its_findings_once) {
  std::set<std::string> seen;
  for (const FindingKind& each : setting_findings()) EXPECT_TRUE(seen.insert(each.id).second) << each.id;
  EXPECT_TRUE(seen.contains("settings.differ"));
  EXPECT_TRUE(seen.contains("settings.transport_off"));
}

}  // namespace
}  // namespace p5::topo
