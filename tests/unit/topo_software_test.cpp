// Software versions and surroundings from a recorded machine's files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>

#include "tests/unit/topo_tree.hpp"
#include "topo/discover.hpp"
#include "topo/topology.hpp"

namespace p5::topo {
namespace {

using namespace std::string_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(TopoSoftware, an_empty_machine_has_none_and_nothing_is_made_up) {
  const Host host = discover_host(Tree().root());
  EXPECT_THAT(host.versions, IsEmpty());
  EXPECT_FALSE(host.modules || host.fabric_manager_running || host.virtual_machine || host.container || host.iommu);
  EXPECT_FALSE(host.libfabric || host.limits.locked_memory);
}

TEST(TopoSoftware, versions_of_the_efa_stack_are_read_from_its_own_files) {
  Tree tree;
  tree.file("opt/amazon/efa_installed_packages",
            "# EFA installer version: 1.43.2\n# Debug packages installed: no\n"
            "libfabric1-aws_2.1.0amzn3.0_amd64.deb\nlibnccl-ofi-ngc_1.16.3-1_amd64.deb");
  tree.file("sys/module/efa/version", "2.17.2g").file("sys/module/gdrdrv/version", "2.4.4");
  tree.file("proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23 10:11:16 UTC 2025");
  const Host host = discover_host(tree.root());
  EXPECT_THAT(host.versions, UnorderedElementsAre(Pair("efa installer", "1.43.2"), Pair("libfabric package", "2.1.0"),
                                                  Pair("aws-ofi-nccl", "1.16.3"), Pair("efa driver", "2.17.2g"),
                                                  Pair("gdrcopy driver", "2.4.4"), Pair("nvidia driver", "580.95.05")));
  EXPECT_THAT(*host.modules, ElementsAre("efa", "gdrdrv"));
}

TEST(TopoSoftware, the_network_plugin_is_found_where_the_loader_looks_and_says_its_version) {
  Tree tree;
  tree.file("etc/ld.so.conf.d/efa.conf", "/opt/somewhere/lib\n# /opt/nowhere");
  tree.file("opt/somewhere/lib/libnccl-net.so",
            "\x7f"
            "ELF\0\0NET/OFI Initializing aws-ofi-nccl 1.17.1\0"s);
  tree.file("opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so", "nothing to read");
  tree.file("usr/lib64/libnccl.so.2.28.3", "");
  std::filesystem::create_symlink("libnccl.so.2.28.3", tree.root() + "/usr/lib64/libnccl.so.2");
  const Host host = discover_host(tree.root());
  EXPECT_THAT(*host.net_plugins, UnorderedElementsAre(tree.root() + "/opt/somewhere/lib/libnccl-net.so",
                                                      tree.root() + "/opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so"));
  EXPECT_EQ(host.versions.at("aws-ofi-nccl"), "1.17.1");
  EXPECT_EQ(host.versions.at("nccl"), "2.28.3");
}

TEST(TopoSoftware, network_plugins_that_are_not_for_efa_are_told_apart) {
  Tree tree;
  tree.file("etc/ld.so.conf.d/hpcx.conf", "/opt/hpcx/nccl_rdma_sharp_plugin/lib");
  tree.file("opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so", "NET/IB : Using P2P plugin IBext");
  const std::string other = tree.root() + "/opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so";
  Host host = discover_host(tree.root());
  EXPECT_THAT(*host.net_plugins, ElementsAre(other));
  EXPECT_THAT(host.other_net_plugins, ElementsAre(other));
  tree.file("usr/lib64/libnccl-net.so", "NET/OFI No eligible providers were found");
  host = discover_host(tree.root());
  EXPECT_EQ(host.net_plugins->size(), 2u);
  EXPECT_THAT(host.other_net_plugins, ElementsAre(other));
}

TEST(TopoSoftware, the_version_of_the_network_plugin_is_that_of_the_first_folder) {
  Tree tree;
  tree.file("opt/amazon/efa_installed_packages", "libnccl-ofi-ngc_1.16.3-1_amd64.deb");
  tree.file("etc/ld.so.conf.d/efa.conf", "/opt/somewhere/lib");
  tree.file("opt/somewhere/lib/libnccl-net.so", "Initializing aws-ofi-nccl 1.17.1");
  tree.file("opt/aws-ofi-nccl/lib/libnccl-net.so", "Initializing aws-ofi-nccl 1.7.1");
  EXPECT_EQ(discover_host(tree.root()).versions.at("aws-ofi-nccl"), "1.17.1");
}

// Workers get the library path of rank 0, which the process that looks does not have.
TEST(TopoSoftware, libraries_are_searched_for_by_the_environment_of_the_workers) {
  Tree tree;
  tree.file("opt/aws-ofi-nccl/lib/libnccl-net.so", "Initializing aws-ofi-nccl 1.16.3");
  tree.file("fsx/lib/libnccl-net.so", "Initializing aws-ofi-nccl 1.19.0");
  Host host;
  add_software(host, tree.root() + "/", {{"LD_LIBRARY_PATH", tree.root() + "/fsx/lib"}});
  EXPECT_EQ(host.versions.at("aws-ofi-nccl"), "1.19.0");
  EXPECT_EQ(host.net_plugins->front(), tree.root() + "/fsx/lib/libnccl-net.so");
}

TEST(TopoSoftware, the_network_plugin_that_a_variable_names_comes_first) {
  Tree tree;
  tree.file("apps/plugin.so", "Initializing aws-ofi-nccl 1.19.0");
  const std::string path = tree.root() + "/apps/plugin.so";
  const auto plugins_with = [&](const std::string& wanted) {
    Host host;
    add_software(host, tree.root() + "/", {{"NCCL_NET_PLUGIN", wanted}});
    return std::pair(*host.net_plugins, host.versions.contains("aws-ofi-nccl") ? host.versions["aws-ofi-nccl"] : "");
  };
  EXPECT_EQ(plugins_with(path), std::pair(std::vector{path}, "1.19.0"s)) << "and there is no other";
  EXPECT_EQ(plugins_with("none," + path), std::pair(std::vector{path}, "1.19.0"s));
  EXPECT_EQ(plugins_with(tree.root() + "/nowhere.so"), std::pair(std::vector<std::string>(), ""s));
  tree.file("usr/lib64/libnccl-net.so", "Initializing aws-ofi-nccl 1.16.3");
  tree.file("usr/lib64/libnccl-net-ofi.so", "Initializing aws-ofi-nccl 1.17.1");
  tree.file("usr/lib64/own.so", "Initializing aws-ofi-nccl 1.18.0");
  EXPECT_EQ(plugins_with(path).second, "1.19.0");
  EXPECT_EQ(plugins_with("ofi").second, "1.17.1");
  EXPECT_EQ(plugins_with("libnccl-net.so").second, "1.16.3");
  EXPECT_EQ(plugins_with("own.so").second, "1.18.0");
}

TEST(TopoSoftware, a_probe_has_the_environment_that_it_is_given) {
  const std::vector<std::string> command{"/bin/sh", "-c", "echo \"{$P5BENCH_NONE,$LD_LIBRARY_PATH}\""};
  EXPECT_EQ(ask_probe(command, {20}, Environment{{"LD_LIBRARY_PATH", "/of/rank0"}}).json, "{,/of/rank0}");
  setenv("P5BENCH_NONE", "own", 1);
  EXPECT_TRUE(ask_probe(command, {20}).json.starts_with("{own,"));
  unsetenv("P5BENCH_NONE");
}

TEST(TopoSoftware, the_fabric_manager_is_missing_only_where_it_could_be_seen) {
  Tree tree;
  tree.file("proc/1/comm", "bash");
  EXPECT_FALSE(discover_host(tree.root()).fabric_manager_running) << "a container shows its own processes only";
  tree.file("proc/1/comm", "systemd");
  EXPECT_EQ(discover_host(tree.root()).fabric_manager_running, false);
  tree.file("proc/4711/comm", "nv-fabricmanage");
  EXPECT_EQ(discover_host(tree.root()).fabric_manager_running, true);
}

// Packages have libnvfm.so.1, so that the name of the library does not tell the version.
TEST(TopoSoftware, versions_of_the_fabric_manager_and_of_imex_are_those_of_their_packages_or_logs) {
  const auto versions_of_daemons = [](const Tree& tree) {
    std::map<std::string, std::string> versions = discover_host(tree.root()).versions;
    return std::pair(versions["fabric manager"], versions["imex"]);
  };
  Tree packages;
  packages.file("usr/lib/x86_64-linux-gnu/libnvfm.so.1", "").file("proc/1/comm", "systemd");
  packages.file("usr/bin/nv-fabricmanager", "").file("usr/bin/nvidia-imex", "");
  packages.file("var/lib/dpkg/status",
                "Package: nvidia-fabricmanager-550\nStatus: deinstall ok config-files\nVersion: 550.54.15-1\n\n"
                "Package: nvidia-fabricmanager-dev-575\nStatus: install ok installed\nVersion: 575.57.08-1\n\n"
                "Package: nvidia-fabricmanager-570\nStatus: install ok installed\nVersion: 570.172.08-0ubuntu1\n\n"
                "Package: nvidia-imex\nStatus: install ok installed\nVersion: 580.95.05-1\n");
  EXPECT_EQ(versions_of_daemons(packages), std::pair("570.172.08"s, "580.95.05"s));
  packages.file(".dockerenv", "");
  EXPECT_EQ(versions_of_daemons(packages), std::pair(""s, ""s)) << "an image's, not those that run";
  Tree logs;
  logs.file("usr/bin/nv-fabricmanager", "").file("usr/bin/nvidia-imex", "");
  EXPECT_EQ(versions_of_daemons(logs), std::pair(""s, ""s));
  logs.file("var/log/fabricmanager.log",
            "[Nov 20 2026 08:00:00] [INFO] [tid 1] Fabric Manager version 570.158.01 is running with the following\n"
            "[Nov 27 2026 08:00:00] [ERROR] [tid 1] fabric manager NVIDIA GPU driver interface version 570.172.08 "
            "don't match with driver version 580.95.05. Please update with matching NVIDIA driver package.");
  logs.file("var/log/nvidia-imex.log",
            "[Nov 27 2026 08:00:00] [INFO] [tid 43] IMEX version 580.95.05 is running with the following");
  EXPECT_EQ(versions_of_daemons(logs), std::pair("570.172.08"s, "580.95.05"s));
  std::filesystem::last_write_time(logs.root() + "/var/log/fabricmanager.log",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(versions_of_daemons(logs).first, "") << "the program was installed after that";
}

TEST(TopoSoftware, a_virtual_machine_a_container_and_an_iommu_are_told) {
  Tree tree;
  tree.file("proc/cpuinfo", "flags\t\t: fpu vme hypervisor lahf_lm").file(".dockerenv", "");
  tree.file("sys/class/iommu/dmar0/name", "x");
  const Host host = discover_host(tree.root());
  EXPECT_EQ(host.virtual_machine, true);
  EXPECT_EQ(host.container, true);
  EXPECT_EQ(host.iommu, true);
}

TEST(TopoSoftware, an_iommu_is_at_work_where_it_translates_addresses_of_gpus_or_nics) {
  const auto at_work = [](const std::string& of_gpu, const std::string& of_other, const std::string& command_line) {
    Tree tree;
    tree.file("sys/class/iommu/dmar0/name", "x").file("proc/cmdline", command_line);
    for (const auto& [address, type] :
         {std::pair<std::string, std::string>{"0000:53:00.0", of_gpu}, {"0000:63:00.0", of_other}}) {
      const std::string device = "sys/bus/pci/devices/" + address;
      tree.file(device + "/vendor", "0x10de").file(device + "/class", "0x030200");
      if (!type.empty()) tree.file(device + "/iommu_group/type", type);
    }
    return discover_host(tree.root()).iommu;
  };
  EXPECT_EQ(at_work("identity", "identity", "quiet"), false) << "passed through, by the kernel's default";
  EXPECT_EQ(at_work("identity", "DMA-FQ", "iommu=pt"), true);
  EXPECT_EQ(at_work("DMA", "DMA", ""), true);
  EXPECT_EQ(at_work("", "", "quiet iommu=pt nomodeset"), false) << "a kernel that does not tell types";
  EXPECT_EQ(at_work("", "", "iommu=ptx"), true);
}

TEST(TopoSoftware, all_conditions_of_the_health_of_a_fabric_are_words) {
  EXPECT_THAT(fabric_troubles(0x1aa), IsEmpty()) << "all are reported, and none is so";
  EXPECT_THAT(fabric_troubles(0x0aa), IsEmpty()) << "no configuration is reported";
  EXPECT_THAT(fabric_troubles(0x59a), ElementsAre("route unhealthy", "insufficient NVLinks"));
  EXPECT_THAT(fabric_troubles(0x1ba), ElementsAre("route unhealthy, reset required"));
  EXPECT_THAT(fabric_troubles(0x11aa), IsEmpty()) << "in a partition";
  EXPECT_THAT(fabric_troubles(0x21aa), ElementsAre(no_partition)) << "by newer drivers";
  EXPECT_THAT(fabric_troubles(0x24aa), ElementsAre(no_partition)) << "by both";
  EXPECT_THAT(fabric_troubles(0x2aa), ElementsAre("wrong system GUID"));
  EXPECT_THAT(fabric_troubles(0x8aa), ElementsAre("invalid GPU state"));
  EXPECT_THAT(fabric_troubles(0xcaa), ElementsAre("wrong configuration 12")) << "of a later driver";
  EXPECT_THAT(fabric_troubles(0x91aa), IsEmpty()) << "other conditions of a later driver";
}

TEST(TopoSoftware, throttle_reasons_are_words_and_power_caps_and_application_clocks_are_ordinary) {
  EXPECT_THAT(throttle_reasons(0x44), ElementsAre("power cap", "hardware thermal"));
  EXPECT_THAT(throttle_reasons(0x10000), ElementsAre("0x10000"));
  EXPECT_FALSE(held_back(0x7));
  EXPECT_TRUE(held_back(0x80));
}

}  // namespace
}  // namespace p5::topo
