#include "bench/app/tuning/stages.hpp"

#include <gtest/gtest.h>

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
  EXPECT_EQ(tuner_to_keep(topology), ofi);
  topology.hosts = {efa_host({plain}), efa_host({plain})};
  EXPECT_EQ(tuner_to_keep(topology), plain);
  topology.hosts[1] = efa_host({"/usr/lib/libnccl-net.so"});
  EXPECT_EQ(tuner_to_keep(topology), "") << "another library";
  topology.hosts[1].net_plugins.reset();
  EXPECT_EQ(tuner_to_keep(topology), "") << "it is not known what that host has";
}

TEST(TunerToKeep, is_not_guessed_among_several_folders) {
  topo::Topology topology;
  topology.hosts = {efa_host({"/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so", "/usr/lib/libnccl-net.so"})};
  EXPECT_EQ(tuner_to_keep(topology), "");
}

TEST(TunerToKeep, is_none_without_efa) {
  topo::Topology topology;
  EXPECT_EQ(tuner_to_keep(topology), "");
  topology.hosts = {efa_host({"/usr/lib/libnccl-net.so"})};
  topology.hosts[0].nics[0].kind = "infiniband";
  EXPECT_EQ(tuner_to_keep(topology), "");
}

}  // namespace
}  // namespace p5
