// Stale and harmful settings: each said once where it is, and none where it is not.
#include "tuner/lint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace p5::tuner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> ids(const Environment& environment, const std::string& platform = "p5.48xlarge") {
  std::vector<std::string> result;
  LintPlace place;
  place.platform = platform;
  place.exists = [](const std::string& path) { return path == "/there.so"; };
  for (const topo::Finding& finding : lint(environment, place)) result.push_back(finding.id);
  return result;
}

TEST(Lint, is_silent_about_what_is_recommended) {
  EXPECT_THAT(ids({{"FI_PROVIDER", "efa"},
                   {"NCCL_SOCKET_IFNAME", "^docker,lo,veth"},
                   {"NCCL_DEBUG", "WARN"},
                   {"NCCL_NVLS_ENABLE", "1"},
                   {"NCCL_BUFFSIZE", "8388608"},
                   {"NCCL_P2P_NET_CHUNKSIZE", "524288"},
                   {"NCCL_PROTO", "LL128,Simple"},
                   {"NCCL_ALGO", "allreduce:tree,ring"},
                   {"NCCL_P2P_DISABLE", "0"},
                   {"PATH", "/bin"}}),
              IsEmpty());
}

TEST(Lint, knows_each_setting) {
  const std::vector<std::pair<std::string, Environment>> cases{
      {"settings.proto_simple", {{"NCCL_PROTO", "simple"}}},
      {"settings.proto_simple", {{"NCCL_PROTO", "Simple"}}},
      {"settings.algo_ring", {{"NCCL_ALGO", "RING"}}},
      {"settings.nvls_off", {{"NCCL_NVLS_ENABLE", "0"}}},
      {"settings.gdr_level", {{"NCCL_NET_GDR_LEVEL", "LOC"}}},
      {"settings.gdr_level", {{"NCCL_NET_GDR_LEVEL", "2"}}},
      {"settings.min_channels", {{"NCCL_MIN_NCHANNELS", "8"}}},
      {"settings.buffer_size", {{"NCCL_BUFFSIZE", "2097152"}}},
      {"settings.chunk_size", {{"NCCL_P2P_NET_CHUNKSIZE", "1048576"}}},
      {"settings.round_robin", {{"OFI_NCCL_ROUND_ROBIN_THRESHOLD", "8192"}}},
      {"settings.flush_off", {{"OFI_NCCL_GDR_FLUSH_DISABLE", "1"}}},
      {"settings.checks_off", {{"OFI_NCCL_DISABLE_NATIVE_RDMA_CHECK", "1"}}},
      {"settings.device_rdma", {{"FI_EFA_USE_DEVICE_RDMA", "1"}}},
      {"settings.fork_safe", {{"RDMAV_FORK_SAFE", "1"}}},
      {"settings.efa_old", {{"FI_EFA_TX_MIN_CREDITS", "64"}}},
      {"settings.infiniband", {{"NCCL_IB_HCA", "mlx5"}}},
      {"settings.ancient", {{"NCCL_TREE_THRESHOLD", "0"}}},
      {"settings.hidden_p2p", {{"NCCL_IGNORE_DISABLED_P2P", "1"}}},
      {"settings.transport_off", {{"NCCL_P2P_DISABLE", "1"}}},
      {"settings.tuner_missing", {{"NCCL_TUNER_PLUGIN", "/gone.so"}}},
      {"settings.topology_of_another", {{"NCCL_TOPO_FILE", "/opt/p4d-24xl-topo.xml"}}}};
  for (const auto& [id, environment] : cases) EXPECT_THAT(ids(environment), ElementsAre(id));
}

TEST(Lint, says_of_a_platform_only_what_holds_there) {
  EXPECT_THAT(ids({{"NCCL_NVLS_ENABLE", "0"}, {"NCCL_IB_HCA", "mlx5"}}, ""), IsEmpty());
  EXPECT_THAT(ids({{"NCCL_TOPO_FILE", "/opt/p4d-24xl-topo.xml"}}, "p4d.24xlarge"), IsEmpty());
}

TEST(Lint, looks_for_tuners_with_a_path_only) {
  EXPECT_THAT(ids({{"NCCL_TUNER_PLUGIN", "/there.so"}}), IsEmpty());
  EXPECT_THAT(ids({{"NCCL_TUNER_PLUGIN", "ofi"}}), IsEmpty());
  EXPECT_THAT(lint({{"NCCL_TUNER_PLUGIN", "/gone.so"}}, {}), IsEmpty()) << "nobody looked";
}

TEST(Lint, names_the_setting_and_the_remedy_errors_first) {
  LintPlace place;
  place.host = "n1";
  const auto findings = lint({{"NCCL_PROTO", "simple"}, {"OFI_NCCL_GDR_FLUSH_DISABLE", "1"}}, place);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].id, "settings.flush_off");
  EXPECT_EQ(findings[0].severity, topo::Severity::error);
  EXPECT_EQ(findings[1].subject.host, "n1");
  EXPECT_THAT(findings[1].evidence, HasSubstr("NCCL_PROTO=simple"));
  EXPECT_THAT(findings[1].action, HasSubstr("Unset"));
}

TEST(Lint, takes_an_injected_protocol_for_a_symptom) {
  EXPECT_EQ(lint_injected({}, {{"NCCL_PROTO", "simple"}}, {}).size(), 1u);
  EXPECT_THAT(lint_injected({{"NCCL_PROTO", "simple"}}, {{"NCCL_PROTO", "simple"}}, {}), IsEmpty());
  EXPECT_THAT(lint_injected({}, {{"NCCL_BUFFSIZE", "8388608"}}, {}), IsEmpty());
}

TEST(Lint, tells_of_each_host_that_differs_from_rank_0_once) {
  const RankEnvironment same{"n0", {{"NCCL_ALGO", "Ring"}}}, without{"n1", {}},
      other{"n2", {{"NCCL_ALGO", "Tree"}, {"FI_PROVIDER", "efa"}}};
  EXPECT_THAT(lint_differences({same, same}, true), IsEmpty());
  EXPECT_THAT(lint_differences({}, true), IsEmpty());
  const auto found = lint_differences({same, same, without, without, other, other}, true);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].id, "settings.differ");
  EXPECT_EQ(found[0].severity, topo::Severity::warning);
  EXPECT_EQ(found[0].about, topo::About::settings);
  EXPECT_EQ(found[0].subject.host, "n1");
  EXPECT_THAT(
      found[0].evidence,
      HasSubstr("rank 2 on n1 has another environment than rank 0: NCCL_ALGO is not set there, 'Ring' at rank 0"));
  EXPECT_EQ(found[1].subject.host, "n2");
  EXPECT_THAT(found[1].evidence, HasSubstr("FI_PROVIDER is 'efa' there, not set at rank 0"));
  EXPECT_EQ(lint_differences({same, other}, false)[0].severity, topo::Severity::error) << "each rank keeps its own";
}

TEST(Lint, lists_each_of_its_findings_once) {
  std::set<std::string> seen;
  for (const topo::FindingKind& each : lint_findings()) EXPECT_TRUE(seen.insert(each.id).second) << each.id;
  EXPECT_TRUE(seen.contains("settings.differ"));
  EXPECT_TRUE(seen.contains("settings.transport_off"));
}

}  // namespace
}  // namespace p5::tuner
