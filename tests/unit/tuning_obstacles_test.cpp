#include "bench/app/tuning/obstacles.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/app/machine/workers.hpp"
#include "bench/base/environment.hpp"
#include "topo/topology.hpp"

namespace p5 {
namespace {

topo::Host efa_host(std::vector<std::string> plugins) {
  topo::Host host;
  topo::Nic nic;
  nic.kind = "efa";
  host.nics = {nic};
  host.net_plugins = std::move(plugins);
  return host;
}

TEST(TunerToKeep, is_the_network_plugins_where_all_hosts_have_it) {
  const std::string folder = "/opt/amazon/ofi-nccl/lib", ofi = folder + "/libnccl-net-ofi.so",
                    plain = folder + "/libnccl-net.so";
  topo::Topology topology;
  topology.hosts = {efa_host({plain, ofi}), efa_host({ofi, plain})};
  EXPECT_EQ(tuner_to_keep(topology, {}), ofi);
  topology.hosts = {efa_host({plain}), efa_host({plain})};
  EXPECT_EQ(tuner_to_keep(topology, {}), plain);
  topology.hosts[1] = efa_host({"/usr/lib/libnccl-net.so"});
  EXPECT_EQ(tuner_to_keep(topology, {}), "") << "another library";
  topology.hosts[1].net_plugins.reset();
  EXPECT_EQ(tuner_to_keep(topology, {}), "") << "it is not known what that host has";
}

TEST(TunerToKeep, is_not_guessed_among_several_folders) {
  topo::Topology topology;
  topology.hosts = {efa_host({"/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so", "/usr/lib/libnccl-net.so"})};
  EXPECT_EQ(tuner_to_keep(topology, {}), "");
}

TEST(TunerToKeep, is_not_guessed_where_nccl_is_given_another_network_plugin_in_a_file_too) {
  topo::Topology topology;
  topology.hosts = {efa_host({"/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so"})};
  const auto kept = [&](const std::string& line, const Environment& environment) {
    const auto read = [&](const std::string& path) {
      return path == "/etc/nccl.conf" ? std::optional(line) : std::nullopt;
    };
    return tuner_to_keep(topology, environment_of_nccl(environment, read));
  };
  EXPECT_EQ(kept("", {}), "/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so");
  EXPECT_EQ(kept("", {{"NCCL_NET_PLUGIN", "none"}}), "");
  EXPECT_EQ(kept("NCCL_NET_PLUGIN=/x.so\n", {}), "");
  EXPECT_EQ(kept("NCCL_NET_PLUGIN=/x.so\nP5BENCH_TUNER_CHAIN=/x.so\n", {}), "/x.so");
  // Scripts of jobs say P5BENCH_TUNER_CHAIN=${P5BENCH_TUNER_CHAIN:-}.
  EXPECT_EQ(kept("", {{"P5BENCH_TUNER_CHAIN", ""}}), kept("", {})) << "empty is unset, as for the plugin";
}

TEST(TunerToKeep, is_none_without_efa) {
  topo::Topology topology;
  EXPECT_EQ(tuner_to_keep(topology, {}), "");
  topology.hosts = {efa_host({"/usr/lib/libnccl-net.so"})};
  topology.hosts[0].nics[0].kind = "infiniband";
  EXPECT_EQ(tuner_to_keep(topology, {}), "");
}

TEST(ReasonForNoTuner, is_a_policy_that_nccl_ignores_where_a_tuner_is_loaded) {
  const auto reason = [](const Environment& environment, const std::string& chain = "") {
    return reason_for_no_tuner({}, environment, chain);
  };
  EXPECT_EQ(reason({}), "");
  for (const char* const value : {"1", "EFFICIENCY", "default|efficiency"})
    EXPECT_NE(reason({{"NCCL_CTA_POLICY", value}}).find(std::string("NCCL_CTA_POLICY=") + value), std::string::npos);
  for (const char* const value : {"", "0", "2", "DEFAULT", "zero", "EFFICIENCY|ZERO"})
    EXPECT_EQ(reason({{"NCCL_CTA_POLICY", value}}), "") << value;
  EXPECT_EQ(reason({{"NCCL_CTA_POLICY", "1"}, {"NCCL_ALGO", "ring"}}), "") << "NCCL ignores it without a tuner too";
  EXPECT_EQ(reason({{"NCCL_CTA_POLICY", "1"}}, "/opt/ofi.so"), "") << "jobs load a tuner without ours";
}

TEST(ReasonForNoRows, is_an_allocator_with_which_the_plugin_would_leave_the_calls_to_nccl) {
  const auto reason = [](const Environment& environment, int nccl = 22400,
                         const std::vector<std::string>& collectives = {"broadcast", "all_gather"}) {
    return reason_for_no_rows(environment, nccl, collectives);
  };
  for (const char* const hook :
       {"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"}) {
    EXPECT_THAT(reason({{hook, "1"}}), testing::HasSubstr(std::string(hook) + " is set"));
    EXPECT_EQ(reason({{hook, "0"}}), "");
    EXPECT_EQ(reason({{hook, "true"}, {"P5BENCH_TUNER_REGISTERED", "rows"}}), "");
    EXPECT_EQ(reason({{hook, "1"}}, 22304), "") << "this NCCL tells a tuner nothing of buffers: rows decide all calls";
    EXPECT_EQ(reason({{hook, "1"}}, 22803, {"broadcast", "reduce"}), "") << "their rows hold for all calls";
  }
}

TEST(ReasonForNoTuner, is_efa_without_a_tuner_that_can_be_kept) {
  topo::Topology topology;
  topology.hosts = {efa_host({})};
  EXPECT_NE(reason_for_no_tuner(topology, {}, ""), "");
  EXPECT_EQ(reason_for_no_tuner(topology, {}, "/opt/ofi.so"), "");
  EXPECT_THAT(reason_for_no_tuner(topology, {}, "/opt/ofi.so", "", {{"n1", "'/opt/ofi.so' is another file there"}}),
              testing::HasSubstr("not the same on all hosts (n1: '/opt/ofi.so' is another file there)"));
}

// aws-ofi-nccl before 1.16 has its tuner in a library of its own.
TEST(ReasonForNoTuner, is_no_reason_on_efa_where_the_network_plugin_has_no_tuner) {
  topo::Topology topology;
  topology.hosts = {efa_host({})};
  EXPECT_TRUE(lacks_tuner("/bin/sh"));
  EXPECT_FALSE(lacks_tuner("/proc/self/exe")) << "this program names tuners";
  EXPECT_FALSE(lacks_tuner("/none/libnccl-net.so")) << "not known";
  EXPECT_FALSE(lacks_tuner(""));
  EXPECT_EQ(reason_for_no_tuner(topology, {}, "", "/bin/sh"), "");
  EXPECT_NE(reason_for_no_tuner(topology, {{"NCCL_CTA_POLICY", "1"}}, "", "/bin/sh"), "");
  EXPECT_THAT(reason_for_no_tuner(topology, {}, "/bin/sh"),
              testing::HasSubstr("P5BENCH_TUNER_CHAIN is /bin/sh, which has no tuner"));
}

TEST(ATunerThatIsSet, is_kept_by_naming_it_for_the_chain) {
  const std::string aws = "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-ofi-tuner.so";
  EXPECT_THAT(how_to_keep_tuner(aws), testing::HasSubstr("P5BENCH_TUNER_CHAIN=" + aws + ","));
  EXPECT_THAT(how_to_keep_tuner("ofi"), testing::HasSubstr("P5BENCH_TUNER_CHAIN=libnccl-tuner-ofi.so,"));
  for (const char* const none : {"", "none", "p5bench", "/opt/p5bench/libnccl-tuner-p5bench.so"})
    EXPECT_EQ(how_to_keep_tuner(none), "") << none;
}

TEST(ReasonForNoPlugin, is_that_its_library_is_not_there) {
  EXPECT_EQ(reason_for_no_plugin("/proc/self/exe"), "");
  EXPECT_THAT(reason_for_no_plugin("/none/libnccl-tuner-p5bench.so"),
              testing::HasSubstr("/none/libnccl-tuner-p5bench.so cannot be read"));
  EXPECT_NE(reason_for_no_plugin("/proc/self"), "") << "a folder";
}

}  // namespace
}  // namespace p5
