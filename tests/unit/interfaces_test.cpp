// Interfaces that lead to other hosts, for typical hosts.
#include "bench/control/interfaces.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace p5 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr Ipv4 ip(unsigned a, unsigned b, unsigned c, unsigned d) { return a << 24 | b << 16 | c << 8 | d; }

Interface with_address(const std::string& name, const std::string& driver, Ipv4 address, int prefix = 24) {
  Interface made;
  made.name = name;
  made.driver = driver;
  made.addresses = {{address, prefix}};
  return made;
}

Interface loopback() {
  Interface lo = with_address("lo", "", ip(127, 0, 0, 1), 8);
  lo.loopback = true;
  return lo;
}

Interface bridge(const std::string& name) { return with_address(name, "bridge", ip(172, 17, 0, 1), 16); }

Interface with_default(Interface interface, unsigned metric = 100) {
  interface.default_metric = metric;
  return interface;
}

// The bridge's end of a container's veth pair.
Interface port(const std::string& name) {
  Interface made;
  made.name = name;
  made.driver = "veth";
  made.local_ipv6 = true;
  return made;
}

const Interface eth0 = with_address("eth0", "ena", ip(10, 0, 0, 7));
const Interface eth1 = with_address("eth1", "ena", ip(10, 1, 0, 7));
const std::vector<Ipv4> nobody{};
const std::vector<Ipv4> launcher{ip(10, 0, 0, 1)};

std::vector<std::string> out(const std::vector<Interface>& all, const std::vector<Ipv4>& of_launcher = nobody) {
  std::vector<std::string> names;
  for (const Interface& each : external_interfaces(all, of_launcher)) names.push_back(each.name);
  return names;
}

TEST(Interfaces, bridges_do_not_lead_out_whatever_their_name) {
  for (const char* const name : {"docker0", "br-0a1b2c", "virbr0", "mybridge"})
    EXPECT_THAT(out({loopback(), bridge(name), eth0}), ElementsAre("eth0")) << name;
}

TEST(Interfaces, without_the_kernels_word_names_tell_bridges) {
  Interface docker = bridge("docker0");
  docker.driver = "";
  EXPECT_TRUE(is_host_internal(docker));
  EXPECT_FALSE(is_host_internal(with_address("eth0", "", ip(10, 0, 0, 7))));
}

TEST(Interfaces, the_last_one_is_never_left_out) {
  EXPECT_THAT(out({loopback(), bridge("docker0")}), ElementsAre("docker0"));
  EXPECT_THAT(out({loopback()}), IsEmpty());
  EXPECT_THAT(out({}), IsEmpty());
}

TEST(Interfaces, a_bridge_with_the_default_route_is_the_hosts_own) {
  EXPECT_THAT(out({with_default(bridge("br0")), bridge("docker0")}), ElementsAre("br0"));
}

TEST(Interfaces, what_is_no_hardware_may_be_a_containers_only_way_out) {
  for (const char* const driver : {"veth", "macvlan", "ipvlan", "bonding"})
    EXPECT_THAT(out({loopback(), with_address("eth0", driver, ip(10, 244, 1, 5))}), ElementsAre("eth0")) << driver;
  Interface l3 = with_default(with_address("eth0", "ipvlan", ip(10, 244, 1, 5), 32));
  l3.tunnel = true;
  EXPECT_THAT(out({loopback(), bridge("docker0"), l3}), ElementsAre("eth0"));
}

TEST(Interfaces, the_hosts_end_of_a_wire_to_a_container_leads_nowhere_and_the_containers_end_out) {
  const Interface end = with_address("eth0", "veth", ip(10, 244, 1, 5), 32);
  EXPECT_THAT(out({loopback(), with_default(end)}), ElementsAre("eth0"));
  EXPECT_THAT(out({with_address("gke1a2b", "veth", ip(10, 4, 0, 1), 32), eth0}), ElementsAre("eth0"));
}

TEST(Interfaces, overlays_tunnels_and_service_addresses_come_after_the_network) {
  Interface vpn = with_address("wg0", "", ip(10, 9, 0, 7));
  vpn.tunnel = true;
  EXPECT_THAT(out({with_address("flannel.1", "vxlan", ip(10, 244, 3, 0), 32),
                   with_address("kube-ipvs0", "dummy", ip(10, 96, 0, 1), 32), vpn, eth0}),
              ElementsAre("eth0"));
}

TEST(Interfaces, the_launchers_networks_come_first_in_its_order) {
  EXPECT_THAT(out({eth0, with_default(eth1)}, {ip(10, 0, 0, 1)}), ElementsAre("eth0", "eth1"));
  EXPECT_THAT(out({eth0, eth1}, {ip(10, 1, 0, 1), ip(10, 0, 0, 1)}), ElementsAre("eth1", "eth0"));
}

TEST(Interfaces, without_a_word_of_the_launcher_default_routes_come_first) {
  EXPECT_THAT(out({eth0, with_default(eth1)}), ElementsAre("eth1", "eth0"));
  EXPECT_THAT(out({with_default(eth0, 200), with_default(eth1, 100)}), ElementsAre("eth1", "eth0"));
  EXPECT_THAT(out({eth1, eth0}), ElementsAre("eth1", "eth0"));
}

TEST(Interfaces, that_the_launcher_has_the_same_bridge_makes_it_no_network) {
  const std::vector<Ipv4> all_of_launcher{ip(172, 17, 0, 1), ip(10, 0, 0, 1)};
  EXPECT_THAT(out({bridge("docker0"), eth0}, all_of_launcher), ElementsAre("eth0"));
}

TEST(Interfaces, an_address_that_the_launcher_has_elsewhere_is_the_same_on_every_host) {
  const Interface odd = with_address("svc0", "unheard-of", ip(192, 168, 0, 1));
  const std::vector<Ipv4> elsewhere{ip(192, 168, 0, 1), ip(10, 0, 0, 1)};
  EXPECT_THAT(out({odd, eth0}, elsewhere), ElementsAre("eth0"));
  // On the launcher's own host all its addresses are local, and prove nothing.
  const std::vector<Ipv4> here{ip(192, 168, 0, 1), ip(10, 0, 0, 7)};
  EXPECT_THAT(out({odd, eth0}, here), ElementsAre("svc0", "eth0"));
}

TEST(Interfaces, link_local_addresses_come_last) {
  EXPECT_THAT(out({with_address("usb0", "cdc_ether", ip(169, 254, 3, 1), 16), eth0}), ElementsAre("eth0"));
}

TEST(Interfaces, ipv6_alone_is_a_network_too) {
  Interface six;
  six.name = "eth0";
  six.driver = "ena";
  six.ipv6 = six.local_ipv6 = true;
  EXPECT_THAT(out({loopback(), bridge("docker0"), six}), ElementsAre("eth0"));
}

TEST(Interfaces, words_take_one_way_and_measured_data_all_that_lead_out) {
  const std::vector<Interface> host{loopback(), bridge("docker0"), eth0, eth1};
  EXPECT_EQ(tcp_interfaces(host, launcher, Traffic::control), "eth0");
  EXPECT_EQ(tcp_interfaces(host, launcher, Traffic::measured), "eth0,eth1");
}

TEST(Interfaces, mpi_is_told_nothing_where_it_would_do_the_same) {
  EXPECT_EQ(tcp_interfaces({loopback(), eth0}, launcher, Traffic::control), "");
  EXPECT_EQ(tcp_interfaces({loopback(), eth0, eth1}, launcher, Traffic::measured), "");
  EXPECT_EQ(tcp_interfaces({loopback(), bridge("docker0")}, launcher, Traffic::control), "");
  EXPECT_EQ(tcp_interfaces({loopback()}, launcher, Traffic::control), "");
  // An InfiniBand port has no address that MPI would use.
  EXPECT_EQ(tcp_interfaces({loopback(), eth0, port("veth1")}, launcher, Traffic::control), "");
}

TEST(Interfaces, nccl_takes_what_the_setting_says_in_the_kernels_order) {
  const std::vector<Interface> all{loopback(), bridge("docker0"), eth1, eth0};
  const auto taken = [&](const std::string& setting) {
    std::vector<std::string> names;
    for (const Interface& each : nccl_interface_choice(all, setting)) names.push_back(each.name);
    return names;
  };
  EXPECT_THAT(taken(""), ElementsAre("eth1", "eth0"));
  EXPECT_THAT(taken("eth"), ElementsAre("eth1", "eth0"));
  EXPECT_THAT(taken("eth0,docker"), ElementsAre("docker0", "eth0"));
  EXPECT_THAT(taken("=eth0"), ElementsAre("eth0"));
  EXPECT_THAT(taken("=eth"), IsEmpty());
  EXPECT_THAT(taken("^=eth1,lo"), ElementsAre("docker0", "eth0"));
  EXPECT_THAT(taken("^lo,docker"), ElementsAre("eth1", "eth0"));
}

TEST(Interfaces, nccl_is_told_nothing_where_it_would_do_right) {
  EXPECT_EQ(nccl_interfaces({loopback(), eth0, eth1}, launcher).setting, "");
  EXPECT_EQ(nccl_interfaces({loopback(), bridge("docker0"), bridge("virbr0"), eth0}, launcher).setting, "");
  EXPECT_EQ(nccl_interfaces({loopback()}, launcher).setting, "");
  EXPECT_EQ(nccl_interfaces({loopback(), bridge("mybridge")}, launcher).setting, "");
}

TEST(Interfaces, nccl_is_kept_from_bridges_of_other_names_and_from_their_ports) {
  const NcclInterfaces found =
      nccl_interfaces({loopback(), bridge("mybridge"), eth1, eth0, port("veth1a2b")}, launcher);
  EXPECT_EQ(found.setting, "=eth1,eth0");
  EXPECT_THAT(found.wrong, ElementsAre("mybridge", "veth1a2b"));
}

TEST(Interfaces, nccl_does_not_take_what_has_no_carrier) {
  Interface idle = bridge("br-0a1b2c");
  idle.running = false;
  EXPECT_EQ(nccl_interfaces({loopback(), idle, eth0}, launcher).setting, "");
}

TEST(Interfaces, nccl_takes_infiniband_and_nothing_else_where_there_is_some) {
  const Interface ib = with_address("ib0", "mlx5_core[ib_ipoib]", ip(10, 5, 0, 7));
  EXPECT_EQ(nccl_interfaces({loopback(), bridge("mybridge"), eth0, ib}, launcher).setting, "");
}

TEST(Interfaces, mpirun_and_slurm_tell_where_they_listen) {
  const auto of = [](const char* name, const char* value) { return launcher_addresses({{name, value}}); };
  EXPECT_THAT(of("OMPI_MCA_orte_hnp_uri", "2746679296.0;tcp://10.0.0.1,172.17.0.1:36933"),
              ElementsAre(ip(10, 0, 0, 1), ip(172, 17, 0, 1)));
  EXPECT_THAT(of("OMPI_MCA_orte_hnp_uri", "1.0;tcp://10.0.0.1:36933;tcp6://[fd00::1]:1"), ElementsAre(ip(10, 0, 0, 1)));
  EXPECT_THAT(of("OMPI_MCA_orte_hnp_uri", "1.0;tcp6://[fd00::1]:1"), IsEmpty());
  EXPECT_THAT(of("SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"), ElementsAre(ip(10, 0, 0, 1)));
  EXPECT_THAT(launcher_addresses(
                  {{"OMPI_MCA_orte_hnp_uri", "1.0;tcp://10.0.0.1:3"}, {"SLURM_LAUNCH_NODE_IPADDR", "192.168.0.1"}}),
              ElementsAre(ip(10, 0, 0, 1)));
  EXPECT_THAT(of("SLURM_LAUNCH_NODE_IPADDR", "node1"), IsEmpty());
  EXPECT_THAT(launcher_addresses({}), IsEmpty());
}

TEST(Interfaces, this_hosts_loopback_is_read_as_one) {
  const std::vector<Interface> all = list_interfaces();
  const auto lo = std::ranges::find(all, "lo", &Interface::name);
  ASSERT_NE(lo, all.end());
  EXPECT_TRUE(lo->loopback);
  EXPECT_THAT(lo->addresses, testing::Contains(Subnet{ip(127, 0, 0, 1), 8}));
}

}  // namespace
}  // namespace p5
