// Discovery, from machines that are recorded as the kernel would show them.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/topo_tree.hpp"
#include "topo/checks/families.hpp"
#include "topo/discover.hpp"
#include "topo/topology.hpp"

namespace p5::topo {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

Nic nic_named(const Host& host, const std::string& name) {
  const auto at = std::find_if(host.nics.begin(), host.nics.end(), [&](const Nic& nic) { return nic.name == name; });
  if (at == host.nics.end()) throw std::runtime_error("no NIC " + name);
  return *at;
}

// Sets NCCL_HOSTID for the length of a test.
struct HostId {
  explicit HostId(const char* id) { setenv("NCCL_HOSTID", id, 1); }
  ~HostId() { unsetenv("NCCL_HOSTID"); }
};

void make_plain_vm(Tree& tree) {
  tree.file("proc/sys/kernel/hostname", "vm-7").file("proc/sys/kernel/osrelease", "6.1.0-28-amd64");
  tree.file("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555");
  tree.file("proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 9R14\nflags\t: fpu");
  tree.memory(8'000'000, 6'000'000).processors(4, 2);
  tree.file("sys/class/dmi/id/sys_vendor", "QEMU").file("sys/class/dmi/id/product_name", "Standard PC");
  tree.network("eth0", "sys/devices/pci0/virtio2", "-1").driver("sys/devices/pci0/virtio2", "virtio_net");
  tree.network("lo", "", "-1", "unknown").file("sys/class/net/lo/type", "772");
  tree.network("docker0", "", "10000");
  tree.file("sys/class/net/bonding_masters", "");
}

void make_p5(Tree& tree) {
  tree.file("proc/sys/kernel/hostname", "ip-10-0-0-1");
  tree.file("sys/class/dmi/id/sys_vendor", "Amazon EC2").file("sys/class/dmi/id/product_name", "p5.48xlarge");
  tree.file("sys/class/dmi/id/board_asset_tag", "i-0123456789abcdef0");
  for (int i = 0; i < 32; ++i) {
    const std::string device = fmt::format("sys/devices/pci0/efa{}", i);
    tree.rdma(fmt::format("rdmap{}s0", i), device, "100 Gb/sec (4X EDR)").driver(device, "efa");
    tree.file(device + "/numa_node", i < 16 ? "0" : "1");
  }
  tree.network("enp1s0", "sys/devices/pci0/ena0", "100000").driver("sys/devices/pci0/ena0", "ena");
  for (int i = 0; i < 8; ++i) {
    const std::string device = fmt::format("sys/bus/pci/devices/0000:{:02x}:00.0", 0x50 + i);
    tree.file(device + "/vendor", "0x10de").file(device + "/class", "0x030200");
  }
  for (int i = 0; i < 4; ++i) {  // NVSwitches are no GPUs
    const std::string device = fmt::format("sys/bus/pci/devices/0000:{:02x}:00.0", 0x80 + i);
    tree.file(device + "/vendor", "0x10de").file(device + "/class", "0x068000");
  }
}

TEST(TopoDiscover, describes_a_plain_virtual_machine) {
  Tree tree;
  make_plain_vm(tree);
  const Host host = discover_host(tree.root());
  EXPECT_EQ(host.name, "vm-7");
  EXPECT_EQ(host.host_name, "vm-7");
  EXPECT_FALSE(host.pretended);
  EXPECT_EQ(host.boot_id, "11111111-2222-3333-4444-555555555555");
  EXPECT_EQ(host.kernel, "6.1.0-28-amd64");
  EXPECT_EQ(host.cpu_model, "AMD EPYC 9R14");
  EXPECT_EQ(host.instance_type, "");
  EXPECT_EQ(host.gpus, 0);
  EXPECT_EQ(host.memory, KiB(8'000'000));
  EXPECT_EQ(host.memory_available, KiB(6'000'000));
}

TEST(TopoDiscover, counts_cores_and_threads_with_hwloc) {
  Tree tree;
  make_plain_vm(tree);
  const Host host = discover_host(tree.root());
  EXPECT_EQ(host.packages, 1);
  EXPECT_EQ(host.cores, 2);
  EXPECT_EQ(host.threads, 4);
  EXPECT_EQ(host.allowed_threads, 4);
  EXPECT_EQ(host.numa_nodes, 1);
}

TEST(TopoDiscover, a_virtio_nic_is_real_but_states_no_rate) {
  Tree tree;
  make_plain_vm(tree);
  const Nic nic = nic_named(discover_host(tree.root()), "eth0");
  EXPECT_EQ(nic.kind, "ethernet");
  EXPECT_EQ(nic.driver, "virtio_net");
  EXPECT_EQ(nic.state, "up");
  EXPECT_FALSE(nic.rate);
  EXPECT_EQ(nic.numa_node, -1);
}

TEST(TopoDiscover, what_does_not_say_where_it_is_lies_on_the_only_numa_node) {
  Tree tree;
  make_plain_vm(tree);
  tree.file("sys/bus/pci/devices/0000:00:06.0/vendor", "0x10de")
      .file("sys/bus/pci/devices/0000:00:06.0/class", "0x030200");
  tree.file("sys/bus/pci/devices/0000:00:06.0/numa_node", "-1");
  const auto nodes_of = [&] {
    const Host host = discover_host(tree.root());
    return std::pair(host.gpu_devices.at(0).numa_node, nic_named(host, "eth0").numa_node);
  };
  tree.file("sys/devices/system/node/node0/cpulist", "0-3");
  EXPECT_EQ(nodes_of(), std::pair(0, 0));
  tree.file("sys/devices/system/node/node1/cpulist", "");
  EXPECT_EQ(nodes_of(), std::pair(-1, -1)) << "which of two is unknown";
}

TEST(TopoDiscover, a_virtual_device_has_no_rate_and_the_loopback_is_left_out) {
  Tree tree;
  make_plain_vm(tree);
  const Host host = discover_host(tree.root());
  EXPECT_THAT(host.nics, SizeIs(2));
  const Nic nic = nic_named(host, "docker0");
  EXPECT_EQ(nic.kind, "virtual");
  EXPECT_EQ(nic.driver, "");
  EXPECT_FALSE(nic.rate);
}

TEST(TopoDiscover, finds_the_efa_devices_and_gpus_of_a_p5) {
  Tree tree;
  make_p5(tree);
  const Host host = discover_host(tree.root());
  EXPECT_EQ(host.instance_type, "p5.48xlarge");
  EXPECT_EQ(host.instance, "i-0123456789abcdef0");
  EXPECT_EQ(host.gpus, 8);
  EXPECT_EQ(std::count_if(host.nics.begin(), host.nics.end(), [](const Nic& nic) { return nic.kind == "efa"; }), 32);
  const Nic nic = nic_named(host, "rdmap31s0");
  EXPECT_EQ(nic.driver, "efa");
  EXPECT_EQ(nic.state, "up");
  EXPECT_EQ(nic.rate, GBps{12.5});
  EXPECT_EQ(nic.numa_node, 1);
  EXPECT_EQ(nic_named(host, "enp1s0").rate, GBps{12.5});
}

TEST(TopoDiscover, the_ethernet_side_of_an_rdma_device_is_not_counted_again) {
  Tree tree;
  tree.rdma("mlx5_0", "sys/devices/pci0/0000:01:00.0", "400 Gb/sec (4X NDR)")
      .driver("sys/devices/pci0/0000:01:00.0", "mlx5_core");
  tree.network("ib0", "sys/devices/pci0/0000:01:00.0", "400000");
  const Host host = discover_host(tree.root());
  ASSERT_THAT(host.nics, SizeIs(1));
  EXPECT_EQ(host.nics[0].name, "mlx5_0");
  EXPECT_EQ(host.nics[0].kind, "infiniband");
  EXPECT_EQ(host.nics[0].rate, GBps{50});
}

TEST(TopoDiscover, an_rdma_device_on_ethernet_is_an_ethernet_nic) {
  Tree tree;
  tree.rdma("mlx5_0", "sys/devices/pci0/0000:01:00.0", "200 Gb/sec (4X HDR)");
  tree.file("sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet");
  EXPECT_EQ(nic_named(discover_host(tree.root()), "mlx5_0").kind, "ethernet");
}

TEST(TopoDiscover, a_virtual_function_beside_its_physical_one_is_the_same_port) {
  Tree tree;
  tree.network("eth0", "sys/devices/pci0/physical", "100000").network("eth0v0", "sys/devices/pci0/function", "100000");
  tree.link("sys/devices/pci0/function/physfn", "sys/devices/pci0/physical")
      .file("sys/devices/pci0/physical/net/eth0/mtu", "9000");
  EXPECT_THAT(discover_host(tree.root()).nics, SizeIs(1));
}

TEST(TopoDiscover, an_rdma_device_of_a_virtual_function_is_the_port_of_its_physical_one) {
  const std::string rate = "400 Gb/sec (4X NDR)", physical = "sys/devices/pci0/physical";
  Tree tree;
  tree.rdma("mlx5_0", physical, rate)
      .rdma("mlx5_8", "sys/devices/pci0/function", rate)
      .rdma("mlx5_9", "sys/devices/pci0/another", rate, "1: DOWN");
  tree.link("sys/devices/pci0/function/physfn", physical).link("sys/devices/pci0/another/physfn", physical);
  const Host host = discover_host(tree.root());
  ASSERT_THAT(host.nics, SizeIs(1));
  EXPECT_EQ(host.nics[0].name, "mlx5_0");
  Tree guest;
  guest.rdma("mlx5_8", "sys/devices/pci0/function", rate).link("sys/devices/pci0/function/physfn", physical);
  EXPECT_EQ(nic_named(discover_host(guest.root()), "mlx5_8").rate, GBps{50}) << "without the physical one";
}

TEST(TopoDiscover, functions_by_which_a_board_manages_its_nvswitches_are_no_nics) {
  Tree tree;
  tree.rdma("mlx5_0", "sys/devices/pci0/0000:01:00.0", "400 Gb/sec (4X NDR)")
      .rdma("mlx5_4", "sys/devices/pci0/0000:02:00.0", "400 Gb/sec (4X NDR)");
  tree.file("sys/devices/pci0/0000:01:00.0/vpd", "Nvidia ConnectX-7 V3 SMDL=SW_MNG RV")
      .file("sys/devices/pci0/0000:02:00.0/vpd", "Nvidia ConnectX-7 V3 SMDL=MODL RV");
  const Host host = discover_host(tree.root());
  ASSERT_THAT(host.nics, SizeIs(1));
  EXPECT_EQ(host.nics[0].name, "mlx5_4");
}

TEST(TopoDiscover, infiniband_beside_faster_ethernet_with_rdma_is_no_rail) {
  Host host;
  host.gpu_devices.resize(1);
  for (int i = 0; i < 8; ++i) {
    host.nics.push_back({"mlx5_" + std::to_string(i), "ethernet", "mlx5_core", "up", GBps{50}, 0});
    host.nics.back().verbs = "uverbs" + std::to_string(i);
  }
  for (int i = 8; i < 12; ++i)
    host.nics.push_back({"mlx5_" + std::to_string(i), "infiniband", "mlx5_core", "up", GBps{50}, 0});
  find_rails(host);
  EXPECT_THAT(host.gpu_devices[0].nics, IsEmpty());
  EXPECT_THAT(nics_by_place({host}).at(0), IsEmpty());
  for (int i = 0; i < 6; ++i) host.nics.erase(host.nics.begin());
  find_rails(host);
  EXPECT_THAT(host.gpu_devices[0].nics, SizeIs(4)) << "Ethernet for storage beside InfiniBand";
}

TEST(TopoDiscover, accelerated_networking_on_hyper_v_is_one_port) {
  Tree tree;
  tree.network("eth0", "sys/devices/vmbus/netvsc", "100000").network("enP1", "sys/devices/pci0/function", "100000");
  tree.link("sys/class/net/enP1/master", "sys/class/net/eth0")
      .link("sys/class/net/eth0/lower_enP1", "sys/class/net/enP1");
  EXPECT_THAT(discover_host(tree.root()).nics, SizeIs(1));
  tree.rdma("mlx5_0", "sys/devices/pci0/function", "100 Gb/sec (4X EDR)");
  const Host host = discover_host(tree.root());
  ASSERT_THAT(host.nics, SizeIs(1));
  EXPECT_EQ(host.nics[0].name, "mlx5_0");
}

TEST(TopoDiscover, states_are_up_down_or_the_kernels_word) {
  Tree tree;
  tree.rdma("ib_down", "sys/devices/a", "10 Gb/sec (4X SDR)", "1: DOWN")
      .rdma("ib_init", "sys/devices/b", "junk", "2: INIT");
  tree.network("eth_down", "sys/devices/c", "-1", "down").network("eth_carrier", "sys/devices/d", "1000", "unknown");
  tree.file("sys/class/net/eth_carrier/carrier", "1").network("eth_unknown", "sys/devices/e", "1000", "unknown");
  const Host host = discover_host(tree.root());
  EXPECT_EQ(nic_named(host, "ib_down").state, "down");
  EXPECT_EQ(nic_named(host, "ib_init").state, "init");
  EXPECT_FALSE(nic_named(host, "ib_init").rate);
  EXPECT_EQ(nic_named(host, "eth_down").state, "down");
  EXPECT_EQ(nic_named(host, "eth_carrier").state, "up");
  EXPECT_EQ(nic_named(host, "eth_unknown").state, "unknown");
}

TEST(TopoDiscover, memory_respects_a_limit_of_version_2_in_an_outer_group) {
  Tree tree;
  tree.memory(64 << 20, 32 << 20).file("proc/self/cgroup", "0::/job/step");
  tree.file("sys/fs/cgroup/job/step/memory.max", "max").file("sys/fs/cgroup/job/step/memory.current", "4096");
  tree.file("sys/fs/cgroup/job/memory.max", "1073741824").file("sys/fs/cgroup/job/memory.current", "268435456");
  EXPECT_EQ(discover_host(tree.root()).memory_available, MiB(768));
}

TEST(TopoDiscover, memory_respects_a_limit_of_version_1) {
  Tree tree;
  tree.memory(64 << 20, 32 << 20).file("proc/self/cgroup", "5:cpu,cpuacct:/\n4:memory:/docker/abc\n0::/");
  tree.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824");
  tree.file("sys/fs/cgroup/memory/memory.usage_in_bytes", "536870912");
  tree.file("sys/fs/cgroup/memory/memory.stat", "cache 5\ntotal_inactive_file 268435456");
  EXPECT_EQ(discover_host(tree.root()).memory_available, MiB(768));
}

TEST(TopoDiscover, an_unlimited_group_leaves_what_the_kernel_has) {
  Tree tree;
  tree.memory(8 << 20, 4 << 20).file("proc/self/cgroup", "4:memory:/\n0::/../..");
  tree.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  tree.file("sys/fs/cgroup/memory/memory.usage_in_bytes", "536870912");
  EXPECT_EQ(discover_host(tree.root()).memory_available, GiB(4));
}

TEST(TopoDiscover, an_exhausted_group_leaves_nothing) {
  Tree tree;
  tree.memory(8 << 20, 4 << 20).file("proc/self/cgroup", "0::/");
  tree.file("sys/fs/cgroup/memory.max", "1048576").file("sys/fs/cgroup/memory.current", "2097152");
  EXPECT_EQ(discover_host(tree.root()).memory_available, Bytes{0});
}

// Containers with the capability IPC_LOCK are such processes, and those of root.
TEST(TopoDiscover, memory_may_be_locked_without_limit_by_a_capability_of_the_first_user_namespace) {
  Tree tree;
  EXPECT_FALSE(locks_without_limit(tree.root()));
  tree.file("proc/self/status", "Name:\tx\nCapPrm:\t0000000000004000\nCapEff:\t0000000000000000");
  EXPECT_FALSE(locks_without_limit(tree.root()));
  tree.file("proc/self/status", "Name:\tx\nCapEff:\t00000000a80465fb");
  EXPECT_TRUE(locks_without_limit(tree.root()));
  tree.file("proc/self/status", "Name:\tx\nCapEff:\t00000000a80425fb");
  EXPECT_FALSE(locks_without_limit(tree.root())) << "what Docker gives without it";
  tree.file("proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff");
  tree.file("proc/self/uid_map", "         0          0 4294967295");
  EXPECT_TRUE(locks_without_limit(tree.root()));
  tree.file("proc/self/uid_map", "         0       1000          1");
  EXPECT_FALSE(locks_without_limit(tree.root())) << "root of a user namespace";
}

TEST(TopoDiscover, a_pod_without_huge_pages_has_none_of_its_hosts) {
  Tree tree;
  EXPECT_FALSE(huge_pages_left_by_cgroup(tree.root()));
  tree.file("proc/self/cgroup", "0::/pods/pod");
  tree.file("sys/fs/cgroup/pods/hugetlb.2MB.max", "max").file("sys/fs/cgroup/pods/hugetlb.2MB.current", "4194304");
  EXPECT_FALSE(huge_pages_left_by_cgroup(tree.root()));
  tree.file("sys/fs/cgroup/pods/pod/hugetlb.2MB.max", "0").file("sys/fs/cgroup/pods/pod/hugetlb.2MB.current", "0");
  EXPECT_EQ(huge_pages_left_by_cgroup(tree.root()), 0u);
  tree.file("sys/fs/cgroup/pods/pod/hugetlb.2MB.max", "8388608");
  tree.file("sys/fs/cgroup/pods/pod/hugetlb.2MB.current", "2097152");
  EXPECT_EQ(huge_pages_left_by_cgroup(tree.root()), 3u);
  tree.file("proc/self/cgroup", "4:hugetlb:/docker/abc\n0::/");
  tree.file("sys/fs/cgroup/hugetlb/hugetlb.2MB.limit_in_bytes", "9223372036854771712");
  EXPECT_FALSE(huge_pages_left_by_cgroup(tree.root()));
  tree.file("sys/fs/cgroup/hugetlb/hugetlb.2MB.limit_in_bytes", "2097152");
  EXPECT_EQ(huge_pages_left_by_cgroup(tree.root()), 1u);
}

TEST(TopoDiscover, a_cpu_quota_lowers_the_allowed_threads) {
  Tree tree;
  tree.processors(8).file("proc/self/cgroup", "0::/pod").file("sys/fs/cgroup/pod/cpu.max", "250000 100000");
  const Host host = discover_host(tree.root());
  EXPECT_EQ(host.threads, 8);
  EXPECT_EQ(host.allowed_threads, 2);
}

// NVML has the number of a lost GPU, and neither UUID nor address.
TEST(TopoDiscover, gpus_that_nvml_calls_lost_are_those_that_are_left_on_pci) {
  const auto merged = [](const std::vector<bool>& answers, std::size_t on_pci) {
    NvmlAnswer told;
    told.answered = true;
    told.driver = "580.00";
    std::vector<Gpu> seen(on_pci);
    for (std::size_t i = 0; i < on_pci; ++i) seen[i].pci.address = fmt::format("0000:{}a:00.0", i);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      Gpu& gpu = told.gpus.emplace_back();
      if (answers[i]) {
        gpu.uuid = fmt::format("GPU-{}", i);
        gpu.pci.address = seen.at(i).pci.address;
      } else {
        gpu.problem = "nvmlDeviceGetHandleByIndex_v2: GPU is lost";
      }
    }
    Topology topology;
    topology.hosts.resize(1);
    merge_gpus(topology.hosts[0], told, seen);
    return topology;
  };
  const Topology two_lost = merged({true, false, true, false}, 4);
  ASSERT_THAT(two_lost.hosts[0].gpu_devices, SizeIs(4));
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(two_lost.hosts[0].gpu_devices[i].pci.address, fmt::format("0000:{}a:00.0", i));
  EXPECT_THAT(lost_gpus(two_lost), SizeIs(2));
  EXPECT_THAT(unseen_gpus(two_lost), IsEmpty());
  const Topology some_hidden = merged({true, false}, 4);  // of a container that has two of them
  EXPECT_THAT(some_hidden.hosts[0].gpu_devices, SizeIs(5)) << "which of three it is, is not known";
  EXPECT_EQ(some_hidden.hosts[0].gpu_devices[1].pci.address, "");
  EXPECT_THAT(lost_gpus(some_hidden), SizeIs(1));
}

// NVML does not list such a GPU. The other side of a pseudoterminal answers open() with EIO as its device file does.
TEST(TopoDiscover, gpus_that_the_driver_cannot_start_are_lost_and_those_of_others_are_not) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  Tree tree;
  const auto add = [&](const std::string& address, const std::string& minor) {
    tree.file("proc/driver/nvidia/gpus/" + address + "/information",
              "Model: \t NVIDIA H100 80GB HBM3\nIRQ:   \t 120\nDevice Minor: \t " + minor);
  };
  add("0000:10:00.0", "1");
  add("0000:20:00.0", "0");
  add("0000:30:00.0", "2");
  tree.file("dev/nvidia1", "");
  std::filesystem::create_symlink(ptsname(terminal), tree.root() + "/dev/nvidia2");
  std::vector<DriverGpu> of_driver = gpus_of_driver(tree.root());
  ASSERT_THAT(of_driver, SizeIs(3));
  for (DriverGpu& each : of_driver) each.problem = why_not_started(each.file);
  close(terminal);
  EXPECT_EQ(of_driver[0].problem, "") << "a device file that opens";
  EXPECT_EQ(of_driver[1].problem, "") << "no device file, as in a container that has other GPUs";
  EXPECT_THAT(of_driver[2].problem, ::testing::HasSubstr("nvidia2: Input/output error"));

  std::vector<Gpu> on_pci(3);
  for (std::size_t i = 0; i < on_pci.size(); ++i) on_pci[i].pci.address = of_driver[i].address;
  NvmlAnswer told;
  told.answered = true;
  told.driver = "580.00";
  Gpu& listed = told.gpus.emplace_back();
  listed.uuid = "GPU-0";
  listed.pci.address = of_driver[0].address;
  std::ranges::move(unlisted_gpus(told.gpus, of_driver), std::back_inserter(told.gpus));
  Topology topology;
  merge_gpus(topology.hosts.emplace_back(), told, on_pci);
  const std::vector<Finding> lost = lost_gpus(topology), unseen = unseen_gpus(topology);
  ASSERT_THAT(lost, SizeIs(1));
  EXPECT_THAT(lost[0].evidence, ::testing::HasSubstr("0000:30:00.0"));
  ASSERT_THAT(unseen, SizeIs(1));
  EXPECT_THAT(unseen[0].evidence, ::testing::HasSubstr("0000:20:00.0"));

  std::vector<Gpu> one_without_address(1);
  one_without_address[0].problem = "nvmlDeviceGetHandleByIndex_v2: GPU is lost";
  EXPECT_THAT(unlisted_gpus(one_without_address, of_driver), IsEmpty()) << "it may be the same";
}

TEST(TopoDiscover, an_empty_machine_is_absent_facts_and_no_error) {
  const Tree tree;
  const Host host = discover_host(tree.root());
  EXPECT_EQ(host.name, "");
  EXPECT_EQ(host.threads, 0);
  EXPECT_EQ(host.memory, Bytes{0});
  EXPECT_THAT(host.nics, IsEmpty());
}

TEST(TopoDiscover, this_machine_has_a_name_processors_and_memory) {
  const Host host = discover_host(Probes{});
  EXPECT_EQ(host.name, host_name().name);
  EXPECT_GT(host.allowed_threads, 0);
  EXPECT_LE(host.allowed_threads, host.threads);
  EXPECT_GT(host.memory.count, 0u);
  EXPECT_LE(host.memory_available, host.memory);
  EXPECT_THAT(hwloc_xml(), ::testing::HasSubstr("<topology"));
}

TEST(TopoDiscover, nccl_hostid_names_this_machine_and_is_said_to_pretend) {
  const HostId id("half-a-node");
  const Host host = discover_host(Probes{});
  EXPECT_EQ(host.name, "half-a-node");
  EXPECT_TRUE(host.pretended);
  EXPECT_NE(host.host_name, "half-a-node");
}

TEST(TopoDiscover, nccl_hostid_does_not_rename_a_recorded_machine) {
  const HostId id("half-a-node");
  Tree tree;
  make_plain_vm(tree);
  EXPECT_EQ(discover_host(tree.root()).name, "vm-7");
}

}  // namespace
}  // namespace p5::topo
