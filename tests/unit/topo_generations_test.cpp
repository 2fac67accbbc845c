// A healthy machine of every platform, with three generations of software: there are no findings, except a warning
// about EFA drivers that give all devices the same name. The machines are made up from the platform files.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "topo/finding.hpp"
#include "topo/platform.hpp"

namespace p5::topo {
namespace {

using nlohmann::json;

enum class Generation { old, current, newest };
constexpr std::array generations{Generation::old, Generation::current, Generation::newest};

const std::map<std::string, std::string>& versions_of(Generation generation) {
  static const std::map<Generation, std::map<std::string, std::string>> all{
      {Generation::old,
       {{"efa driver", "2.12.1"},
        {"efa installer", "1.34.0"},
        {"libfabric", "1.22.0amzn4.0"},
        {"aws-ofi-nccl", "1.14.0"},
        {"nvidia driver", "550.144.03"},
        {"fabric manager", "550.144.03"},
        {"nccl", "2.20.5"}}},
      {Generation::current,
       {{"efa driver", "2.17.3g"},
        {"efa installer", "1.43.2"},
        {"libfabric", "2.1.0"},
        {"aws-ofi-nccl", "1.16.3"},
        {"nvidia driver", "580.95.05"},
        {"fabric manager", "580.95.05"},
        {"nccl", "2.28.3"},
        {"gdrcopy driver", "2.5"}}},
      {Generation::newest,
       {{"efa driver", "3.3.1"},
        {"efa installer", "1.51.0"},
        {"libfabric", "2.7.0amzn2.0"},
        {"aws-ofi-nccl", "1.22.0"},
        {"nvidia driver", "620.10"},
        {"fabric manager", "620.10"},
        {"nccl", "2.32.6"},
        {"what nobody knows yet", "unreleased"}}}};
  return all.at(generation);
}

void fill(Gpu& gpu, const Platform& platform, Generation generation, int number) {
  gpu.uuid = fmt::format("GPU-{:08d}", number);
  gpu.name = "NVIDIA " + platform.gpu;
  gpu.architecture = 90;
  gpu.pci.address = fmt::format("0000:{:02x}:00.0", 0x13 + 0x10 * (number % platform.gpus));
  gpu.pcie.width = gpu.pcie.width_max = 16;
  gpu.pcie.generation = 1;  // idle
  for (int link = 0; link < platform.links_per_gpu; ++link)
    gpu.nvlinks.push_back({.number = link,
                           .active = true,
                           .rate_raw = platform.link_rate_raw,
                           .errors = {{"replay", 3}, {"recovery", 0}, {"crc_flit", 20}}});
  gpu.state.throttle_mask = 1;
  if (generation == Generation::old) return;
  gpu.pcie.generation_max = platform.gpu_pcie_generation.value_or(4);
  gpu.fabric_state = platform.nvls ? "completed" : "not supported";
  if (platform.nvls) gpu.fabric_status = 0;
  gpu.mig = false;
  gpu.compute_mode = "default";
  gpu.errors.ecc = true;
  gpu.errors.corrected = 2;
  gpu.errors.uncorrected = 0;
  gpu.errors.remap_pending = gpu.errors.remap_failed = false;
  gpu.processes = 0;
  // Bits that this version does not define.
  if (generation == Generation::newest) gpu.state.throttle_mask = 1 | std::uint64_t{1} << 40;
}

Nic efa(const Platform& platform, Generation generation, int number) {
  Nic nic{fmt::format("rdmap{}s0", number), "efa", "efa", "up", platform.nic_rate, 0};
  nic.verbs = fmt::format("uverbs{}", number);
  nic.verbs_usable = true;
  if (generation == Generation::old) {
    nic.rate = GBps{12.5};  // depends on the device
  } else {
    nic.gdr = true;
    nic.pcie = {.generation = 5, .width = 16, .generation_max = 5, .width_max = 16};
    nic.counters = {{"tx_bytes", 1}, {"retrans_pkts", 12}};
  }
  return nic;
}

Nic infiniband(int number) {
  Nic nic{fmt::format("mlx5_{}", number), "infiniband", "mlx5_core", "up", GBps{50}, 0};
  nic.verbs_usable = true;
  return nic;
}

void fill(Host& host, const Platform& platform, Generation generation, int node) {
  host.boot_id = fmt::format("boot-{}", node);
  host.host_name = fmt::format("ip-10-0-0-{}", node);
  const bool ec2 = platform.network == "efa";
  if (ec2) host.instance_type = platform.name, host.instance = fmt::format("i-{:017x}", node);
  host.packages = host.numa_nodes = platform.gpus > 1 ? 2 : 1;
  host.cores = 96, host.threads = host.allowed_threads = 192;
  host.memory = host.memory_available = GiB(1024);
  for (std::size_t gpu = 0; gpu < host.gpu_devices.size(); ++gpu)
    fill(host.gpu_devices[gpu], platform, generation, node * platform.gpus + static_cast<int>(gpu));
  host.nics.clear();
  // Sources differ on the number for some platforms, where 4 stands for it.
  const int nics = !ec2 ? 8 : platform.nics > 0 ? platform.nics : 4;
  for (int i = 0; i < nics; ++i) host.nics.push_back(ec2 ? efa(platform, generation, i) : infiniband(i));
  // a device of the board that carries no data
  if (ec2 && generation == Generation::newest) host.nics.push_back(infiniband(0));
  Nic ethernet{ec2 ? "ens32" : "eno1", "ethernet", ec2 ? "ena" : "ixgbe", "up", {}, 0};
  ethernet.addresses = {fmt::format("10.0.0.{}/20", node + 10)};
  if (generation != Generation::old) ethernet.mtu = 9001;
  host.nics.push_back(ethernet);
  Nic bridge{"docker0", "virtual", "", "down", {}, -1};
  bridge.addresses = {"172.17.0.1/16"};
  bridge.mtu = 1500;
  host.nics.push_back(bridge);
  host.versions = versions_of(generation);
  host.gpu_driver = host.versions.at("nvidia driver");
  host.net_plugins = {"/opt/amazon/ofi-nccl/lib/libnccl-net.so"};
  host.nvswitches = platform.nvswitch ? 4 : 0;
  host.fabric_manager_running = platform.nvswitch;
  if (generation == Generation::old) return;
  host.modules = {"efa", "gdrdrv", "ib_uverbs", "nvidia", "nvidia_uvm"};
  host.virtual_machine = ec2;
  host.container = host.iommu = false;
  host.xids.emplace();
  host.limits = {.locked_memory = Bytes{~std::uint64_t{0}},
                 .open_files = 1024,  // the default of most distributions
                 .shared_memory = GiB(512),
                 .shared_memory_free = GiB(512),
                 .huge_pages = 5128,
                 .huge_pages_free = 5000};
  if (ec2) {
    host.placement = {
        {"availability zone", "us-east-1a"}, {"vpc", "vpc-1"}, {"subnet", fmt::format("subnet-{}", node)}};
    host.libfabric = Libfabric{.version = host.versions.at("libfabric")};
    for (const Nic& nic : host.nics)
      if (nic.kind == "efa")
        host.libfabric->domains.push_back({.name = nic.name + "-rdm",
                                           .provider = "efa",
                                           .fabric = generation == Generation::newest ? "efa-direct" : "efa",
                                           .nic = nic.name,
                                           .rate = nic.rate,
                                           .state = "up"});
  }
}

Topology healthy(const Platform& platform, Generation generation) {
  Topology topology = synthetic(platform, 3);
  for (std::size_t node = 0; node < topology.hosts.size(); ++node)
    fill(topology.hosts[node], platform, generation, static_cast<int>(node));
  topology.gpus_seen_of_rank.assign(topology.host_of_rank.size(), platform.gpus);
  if (generation != Generation::old) topology.settings.emplace();
  if (generation == Generation::newest)
    topology.settings->variables = {
        {"NCCL_OF_THE_FUTURE", "1"}, {"OFI_NCCL_OF_THE_FUTURE", "x"}, {"NCCL_SOCKET_IFNAME", "^docker,lo,veth"},
        {"FI_PROVIDER", "efa"},      {"NCCL_NET", "AWS Libfabric"},   {"NCCL_DEBUG", "INFO"}};
  return topology;
}

// The format of a later version, with facts that this one does not know.
Topology with_unknown_facts(const Topology& topology) {
  json j = to_json(topology);
  j["of_the_future"] = {{"what", 1}};
  for (json& host : j["hosts"]) {
    host["of_the_future"] = "yes";
    for (const char* parts : {"gpu_devices", "nics"})
      for (json& part : host[parts]) part["of_the_future"] = {1, 2};
  }
  return topology_from_json(j);
}

class GenerationsOf : public ::testing::TestWithParam<std::tuple<std::string, Generation>> {};

TEST_P(GenerationsOf, software_on_a_healthy_machine_give_no_finding) {
  const auto& [name, generation] = GetParam();
  const Platform& platform = find_platform(name);
  Topology topology = healthy(platform, generation);
  if (generation == Generation::newest) topology = with_unknown_facts(topology);
  const bool called_alike =
      generation == Generation::old && platform.network == "efa" && platform.nic_rate > GBps{12.5};
  std::size_t warned = 0;
  for (const Finding& each : look(topology))
    if (called_alike && each.id == "efa.driver_rate" && each.severity == Severity::warning) {
      ++warned;
      EXPECT_EQ(each.about, About::software);
    } else {
      ADD_FAILURE() << each.id << ": " << each.evidence;
    }
  EXPECT_EQ(warned, called_alike ? topology.hosts.size() : 0u);
}

// "p5_48xlarge_newest"
std::string name_of_case(const ::testing::TestParamInfo<GenerationsOf::ParamType>& each) {
  constexpr std::array words{"old", "current", "newest"};
  std::string name = std::get<0>(each.param);
  std::ranges::replace_if(
      name, [](char c) { return c == '.' || c == '-'; }, '_');
  return name + "_" + words[static_cast<std::size_t>(std::get<1>(each.param))];
}

INSTANTIATE_TEST_SUITE_P(Platforms, GenerationsOf,
                         ::testing::Combine(::testing::ValuesIn(platform_names()), ::testing::ValuesIn(generations)),
                         name_of_case);

// The same machines with a fault: the tolerances for healthy machines do not hide it.
TEST(Generations, of_software_do_not_hide_a_lost_nic_or_link) {
  for (const std::string& name : platform_names())
    for (const Generation generation : generations) {
      const Platform& platform = find_platform(name);
      Topology topology = healthy(platform, generation);
      std::string id = "nic.down";
      if (platform.links_per_gpu > 0) {
        id = "gpu.links";
        topology.hosts[1].gpu_devices[0].links = platform.links_per_gpu - 1;
      } else {
        topology.hosts[1].nics[0].state = "down";
      }
      EXPECT_EQ(std::ranges::count(look(topology), id, &Finding::id), 1) << name;
    }
}

}  // namespace
}  // namespace p5::topo
