// PCI in /sys: paths, links, bridges, access control; and the rails that follow from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/topo_tree.hpp"
#include "topo/topology.hpp"

namespace p5::topo {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A device at the end of a path of bridges below sys/devices, listed on the bus like a real one.
class Machine : public Tree {
 public:
  std::string device(const std::string& path, const std::string& vendor, const std::string& kind, int numa = 0) {
    const std::string folder = "sys/devices/" + path;
    file(folder + "/vendor", vendor).file(folder + "/class", kind).file(folder + "/numa_node", std::to_string(numa));
    const std::string address = path.substr(path.rfind('/') + 1);
    link("sys/bus/pci/devices/" + address, folder);
    return folder;
  }
  std::string gpu(const std::string& path, int numa = 0) { return device(path, "0x10de", "0x030200", numa); }
  void efa(const std::string& name, const std::string& path, int numa = 0) {
    const std::string folder = device(path, "0x1d0f", "0x020000", numa);
    rdma(name, folder, "100 Gb/sec (4X EDR)").driver(folder, "efa");
  }
  void bridge(const std::string& path) { device(path, "0x1000", "0x060400"); }
  Host host() const { return discover_host(root()); }
};

// The access control capability (id 0x000d) at 0x100 with this control word.
std::string config_with_acs(char control) {
  std::string config(0x120, '\0');
  config[0x100] = 0x0d, config[0x102] = 1;
  config[0x106] = control;
  return config;
}

TEST(TopoPci, a_device_knows_the_bridges_above_it_and_its_link) {
  Machine machine;
  machine.bridge("pci0000:50/0000:50:00.0");
  const std::string gpu = machine.gpu("pci0000:50/0000:50:00.0/0000:53:00.0", 1);
  machine.file(gpu + "/current_link_speed", "16.0 GT/s PCIe").file(gpu + "/current_link_width", "8");
  machine.file(gpu + "/max_link_speed", "32.0 GT/s PCIe").file(gpu + "/max_link_width", "16");
  const Host host = machine.host();
  EXPECT_EQ(host.gpus, 1);
  ASSERT_THAT(host.gpu_devices, SizeIs(1));
  const Gpu& found = host.gpu_devices[0];
  EXPECT_EQ(found.pci.address, "0000:53:00.0");
  EXPECT_THAT(found.pci.path, ElementsAre("pci0000:50", "0000:50:00.0"));
  EXPECT_EQ(found.numa_node, 1);
  EXPECT_EQ(found.pcie.generation, 4);
  EXPECT_EQ(found.pcie.width, 8);
  EXPECT_EQ(found.pcie.generation_max, 5);
  EXPECT_EQ(found.pcie.width_max, 16);
  EXPECT_EQ(found.uuid, "");
  ASSERT_THAT(host.bridges, SizeIs(1));
  EXPECT_EQ(host.bridges[0].address, "0000:50:00.0");
  EXPECT_FALSE(host.bridges[0].acs) << "an unreadable configuration space says nothing";
}

TEST(TopoPci, what_the_kernel_calls_unknown_is_unknown) {
  Machine machine;
  const std::string gpu = machine.gpu("pci0000:00/0000:00:1e.0");
  machine.file(gpu + "/current_link_speed", "Unknown").file(gpu + "/current_link_width", "255");
  machine.file(gpu + "/max_link_width", "0");
  const PcieLink link = machine.host().gpu_devices.at(0).pcie;
  EXPECT_FALSE(link.generation || link.width || link.generation_max || link.width_max);
}

TEST(TopoPci, access_control_that_redirects_is_told_from_one_that_does_not) {
  Machine machine;
  machine.bridge("pci0000:00/0000:00:01.0");
  machine.bridge("pci0000:00/0000:00:02.0");
  machine.bridge("pci0000:00/0000:00:03.0");
  machine.gpu("pci0000:00/0000:00:01.0/0000:01:00.0");
  machine.gpu("pci0000:00/0000:00:02.0/0000:02:00.0");
  machine.gpu("pci0000:00/0000:00:03.0/0000:03:00.0");
  machine.file("sys/devices/pci0000:00/0000:00:01.0/config", config_with_acs(0x1d));
  machine.file("sys/devices/pci0000:00/0000:00:02.0/config", config_with_acs(0x01));
  machine.file("sys/devices/pci0000:00/0000:00:03.0/config", std::string(0x120, '\0'));
  const std::vector<PciBridge> bridges = machine.host().bridges;
  ASSERT_THAT(bridges, SizeIs(3));
  EXPECT_EQ(bridges[0].acs, true);
  EXPECT_EQ(bridges[1].acs, false);
  EXPECT_EQ(bridges[2].acs, false);
}

TEST(TopoPci, switches_of_nvlink_are_counted_and_are_no_gpus) {
  Machine machine;
  machine.gpu("pci0000:00/0000:00:1e.0");
  machine.device("pci0000:00/0000:00:05.0", "0x10de", "0x068000");
  machine.device("pci0000:00/0000:00:06.0", "0x10de", "0x068000");
  EXPECT_EQ(machine.host().gpus, 1);
  EXPECT_EQ(machine.host().nvswitches, 2);
  EXPECT_FALSE(Machine().host().nvswitches);
}

TEST(TopoPci, efa_devices_without_a_driver_are_counted) {
  Machine machine;
  for (const char* const bus : {"10", "20", "30"})
    machine.efa("rdmap" + std::string(bus), fmt::format("pci0000:{0}/0000:{0}:1b.0", bus));
  for (const char* const bus : {"10", "20", "30"})
    machine.file(fmt::format("sys/devices/pci0000:{0}/0000:{0}:1b.0/device", bus), "0xefa2");
  EXPECT_EQ(machine.host().efa_without_driver, 0);
  const std::string unbound = machine.device("pci0000:40/0000:40:1b.0", "0x1d0f", "0x020000");
  machine.file(unbound + "/device", "0xefa2");
  const std::string ena = machine.device("pci0000:50/0000:50:05.0", "0x1d0f", "0x020000");
  machine.file(ena + "/device", "0xec20");
  EXPECT_EQ(machine.host().efa_without_driver, 1);
  EXPECT_FALSE(Machine().host().efa_without_driver);
}

// Names of the NICs of hosts that have these buses.
std::vector<std::vector<std::string>> names_by_place(const std::vector<std::vector<std::string>>& buses) {
  std::vector<Host> hosts;
  for (const std::vector<std::string>& its : buses) {
    Host& host = hosts.emplace_back();
    for (const std::string& bus : its) {
      Nic& nic = host.nics.emplace_back();
      nic.kind = "efa";
      nic.name = "rdmap" + bus;
      nic.pci.address = "0000:" + bus + ":00.0";
    }
    host.nics.emplace_back().kind = "ethernet";
  }
  return nics_by_place(hosts);
}

TEST(TopoPlaces, of_nics_stay_where_a_host_lacks_some) {
  using Names = std::vector<std::string>;
  EXPECT_THAT(names_by_place({{"20", "10", "30"}, {"10", "30"}}),
              ElementsAre(Names{"rdmap10", "rdmap20", "rdmap30"}, Names{"rdmap10", "", "rdmap30"}));
  EXPECT_THAT(names_by_place({{"10", "30"}, {"10", "15", "20", "25", "30", "35", "40", "45"}, {}}),
              ElementsAre(Names{"rdmap10", "", "", "", "rdmap30", "", "", ""}, SizeIs(8), Names(8)));
  EXPECT_THAT(names_by_place({{"10", "20", "30"}, {"12", "20"}}),
              ElementsAre(SizeIs(3), Names{"rdmap12", "rdmap20", ""}));
  EXPECT_THAT(names_by_place({}), IsEmpty());
}

// A container sees all NICs of its host, and opens those that it was given; those of two containers differ.
TEST(TopoPlaces, are_of_the_nics_that_the_job_can_open) {
  using Names = std::vector<std::string>;
  std::vector<Host> hosts(3);
  for (std::size_t i = 0; i < hosts.size(); ++i)
    for (const std::string bus : {"10", "20", "30", "40"}) {
      Nic& nic = hosts[i].nics.emplace_back();
      nic.kind = "efa";
      nic.name = "rdmap" + bus;
      nic.pci.address = "0000:" + bus + ":00.0";
      nic.verbs_usable = i == 0 ? bus < "30" : i == 1 ? bus >= "30" : bus == "10" || bus == "40";
    }
  EXPECT_THAT(nics_by_place(hosts),
              ElementsAre(Names{"rdmap10", "rdmap20"}, Names{"rdmap30", "rdmap40"}, Names{"rdmap10", "rdmap40"}));
  for (Host& host : hosts)
    for (Nic& nic : host.nics) nic.verbs_usable = false;
  EXPECT_THAT(nics_by_place(hosts), ElementsAre(SizeIs(4), SizeIs(4), SizeIs(4))) << "none of them can be opened";
}

TEST(TopoRails, are_the_nics_behind_the_same_switch) {
  Machine machine;  // as p5: a switch has one GPU and its NICs
  for (const char* bus : {"10", "20"}) {
    const std::string path = std::string("pci0000:") + bus + "/0000:" + bus + ":00.0";
    machine.bridge(path);
    machine.gpu(path + "/0000:" + bus[0] + "1:00.0");
    machine.efa(std::string("rdmap") + bus + "a", path + "/0000:" + bus[0] + "2:00.0");
    machine.efa(std::string("rdmap") + bus + "b", path + "/0000:" + bus[0] + "3:00.0");
  }
  const Host host = machine.host();
  ASSERT_THAT(host.gpu_devices, SizeIs(2));
  EXPECT_THAT(host.gpu_devices[0].nics, ElementsAre("rdmap10a", "rdmap10b"));
  EXPECT_THAT(host.gpu_devices[1].nics, ElementsAre("rdmap20a", "rdmap20b"));
  EXPECT_EQ(host.gpu_devices[0].nics_by, "pcie switch");
  EXPECT_EQ(host.gpu_devices[0].nics_shared, 1);
}

TEST(TopoRails, are_shared_by_gpus_at_the_same_distance) {
  Machine machine;  // as p4d: two GPUs and one NIC
  machine.bridge("pci0000:10/0000:10:00.0");
  machine.gpu("pci0000:10/0000:10:00.0/0000:11:00.0");
  machine.gpu("pci0000:10/0000:10:00.0/0000:12:00.0");
  machine.efa("rdmap13", "pci0000:10/0000:10:00.0/0000:13:00.0");
  machine.efa("rdmap90", "pci0000:90/0000:90:01.0", 1);
  const Host host = machine.host();
  for (const Gpu& gpu : host.gpu_devices) {
    EXPECT_THAT(gpu.nics, ElementsAre("rdmap13"));
    EXPECT_EQ(gpu.nics_shared, 2);
  }
}

TEST(TopoRails, come_from_the_numa_node_where_pcie_does_not_tell) {
  Machine machine;
  machine.gpu("pci0000:10/0000:10:1e.0", 0);
  machine.gpu("pci0000:20/0000:20:1e.0", 1);
  machine.efa("rdmap30", "pci0000:30/0000:30:01.0", 0);
  machine.efa("rdmap40", "pci0000:40/0000:40:01.0", 1);
  const Host host = machine.host();
  EXPECT_THAT(host.gpu_devices[0].nics, ElementsAre("rdmap30"));
  EXPECT_THAT(host.gpu_devices[1].nics, ElementsAre("rdmap40"));
  EXPECT_EQ(host.gpu_devices[0].nics_by, "numa node");
}

TEST(TopoRails, are_of_the_fabric_and_never_ethernet) {
  Machine machine;
  machine.gpu("pci0000:10/0000:10:1e.0");
  const std::string card = machine.device("pci0000:10/0000:10:05.0", "0x1d0f", "0x020000");
  machine.network("ens5", card, "100000").driver(card, "ena");
  EXPECT_THAT(machine.host().gpu_devices[0].nics, IsEmpty());
  EXPECT_EQ(machine.host().gpu_devices[0].nics_by, "");
}

TEST(TopoNics, counters_and_the_way_to_gpu_memory_are_read) {
  Machine machine;
  machine.efa("rdmap0", "pci0000:10/0000:10:01.0");
  machine.file("sys/class/infiniband/rdmap0/fw_ver", "0.0.0.0");
  machine.file("sys/class/infiniband/rdmap0/ports/1/hw_counters/tx_bytes", "18446744073709551615");
  machine.file("sys/class/infiniband/rdmap0/ports/1/hw_counters/rx_drops", "N/A (not supported)");
  const Nic nic = machine.host().nics.at(0);
  EXPECT_EQ(nic.gdr, std::nullopt) << "neither attribute is there";
  EXPECT_EQ(nic.pci.address, "0000:10:01.0");
  EXPECT_THAT(nic.counters, ElementsAre(std::pair<const std::string, std::uint64_t>("tx_bytes", ~std::uint64_t{0})));
}

// The port of an RDMA device takes it from the network device on it.
TEST(TopoNics, of_rdma_have_the_mtu_of_their_network_device) {
  Machine machine;
  machine.efa("mlx5_0", "pci0000:10/0000:10:01.0");
  EXPECT_EQ(machine.host().nics.at(0).mtu, std::nullopt);
  machine.file("sys/devices/pci0000:10/0000:10:01.0/net/ib0/mtu", "4092\n");
  EXPECT_EQ(machine.host().nics.at(0).mtu, 4092);
}

// The driver puts it into the PCI device's folder, by its release under two names.
TEST(TopoNics, say_whether_efas_driver_found_a_way_to_gpu_memory) {
  struct Case {
    const char *attribute, *text;
    bool expected;
  };
  for (const auto& [attribute, text, expected] :
       {Case{"gdr", "1\n", true}, Case{"gdr", "0\n", false}, Case{"p2p", "NVIDIA\n", true},
        Case{"p2p", "NVIDIA peermem\n", true}, Case{"p2p", "\n", false}}) {
    Machine machine;
    machine.efa("rdmap0", "pci0000:10/0000:10:01.0");
    machine.file(std::string("sys/devices/pci0000:10/0000:10:01.0/") + attribute, text);
    EXPECT_EQ(machine.host().nics.at(0).gdr, expected) << attribute << " " << text;
  }
}

}  // namespace
}  // namespace p5::topo
