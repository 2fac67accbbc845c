// Every check once where it fires and once where it is silent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/base/error.hpp"
#include "topo/finding.hpp"
#include "topo/limits.hpp"
#include "topo/platform.hpp"

namespace p5::topo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Topology healthy(int nodes = 4) { return synthetic(find_platform("p5.48xlarge"), nodes); }

std::vector<Finding> only(const Topology& topology, const std::string& id) {
  std::vector<Finding> found;
  for (const Finding& finding : look(topology))
    if (finding.id == id) found.push_back(finding);
  return found;
}

TEST(TopoChecks, take_no_answer_of_libfabric_for_no_offer) {
  Topology topology;
  Host& host = topology.hosts.emplace_back();
  host.nics.emplace_back().kind = "efa";
  host.libfabric = Libfabric{.problem = "fi_getinfo found nothing (error 61)"};
  const auto told = [&] {
    const std::vector<Finding> findings = look(topology);
    return std::ranges::count(findings, std::string("efa.provider"), &Finding::id);
  };
  EXPECT_EQ(told(), 1);
  host.libfabric = Libfabric{.problem = "no answer within 20 s", .answered = false};
  EXPECT_EQ(told(), 0);
}

TEST(TopoChecks, are_silent_on_a_healthy_cluster) { EXPECT_THAT(look(healthy()), IsEmpty()); }

TEST(TopoChecks, have_different_names_and_a_summary) {
  std::set<std::string> ids;
  for (const Check& check : checks()) {
    EXPECT_TRUE(ids.insert(check.id).second) << check.id;
    EXPECT_FALSE(check.summary.empty());
  }
}

TEST(TopoChecks, a_silent_gpu_of_a_host_without_persistence_mode_may_only_be_late) {
  Topology topology = healthy(2);
  Gpu& silent = topology.hosts[1].gpu_devices[5];
  silent.problem = "nvmlDeviceGetHandleByIndex_v2 did not answer within 5 s";
  const auto action = [&] {
    const std::vector<Finding> found = only(topology, "gpu.lost");
    return found.size() == 1 ? found[0].action : "";
  };
  EXPECT_THAT(action(), ::testing::StartsWith("look for XID 79"));
  topology.hosts[0].gpu_devices[0].persistence = false;
  EXPECT_THAT(action(), ::testing::StartsWith("look for XID 79")) << "that of another host";
  topology.hosts[1].gpu_devices[0].persistence = false;
  EXPECT_THAT(action(), AllOf(::testing::StartsWith("start nvidia-persistenced"), HasSubstr("XID 79")));
  silent.problem = "nvmlDeviceGetHandleByIndex_v2: GPU is lost";
  EXPECT_THAT(action(), ::testing::StartsWith("look for XID 79"));
}

TEST(TopoChecks, of_a_gpu_in_mig_mode_are_not_about_its_nvlinks) {
  Topology topology = healthy(2);
  Gpu& gpu = topology.hosts[1].gpu_devices[5];
  gpu.links = 0;
  gpu.fabric_state = "not supported";
  EXPECT_THAT(only(topology, "gpu.links"), SizeIs(1));
  EXPECT_THAT(only(topology, "gpu.nvls"), SizeIs(1));
  gpu.mig = true;
  const std::vector<Finding> found = look(topology);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "gpu.mig");
}

// A100's NVLinks are trained by the fabric manager.
TEST(TopoChecks, nvlinks_that_wait_for_a_fabric_manager_are_no_broken_ones) {
  Topology topology = synthetic(find_platform("p4d.24xlarge"), 2);
  Host& host = topology.hosts[1];
  host.nvswitches = 6;
  host.fabric_manager_running = true;
  for (Gpu& gpu : host.gpu_devices) gpu.links = 0;
  ASSERT_THAT(only(topology, "gpu.links"), SizeIs(1)) << "the manager runs";
  host.fabric_manager_running = false;
  EXPECT_THAT(only(topology, "gpu.links"), IsEmpty());
  const std::vector<Finding> found = only(topology, "fabric.manager");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, HasSubstr("no NVLink of its GPUs is active"));
  EXPECT_TRUE(condemns(found[0])) << "no job can use this host's GPUs together";
  host.gpu_devices[3].links = 12;
  EXPECT_THAT(only(topology, "gpu.links"), SizeIs(7)) << "links of one are up without it";
  ASSERT_THAT(only(topology, "fabric.manager"), SizeIs(1));
  EXPECT_FALSE(condemns(only(topology, "fabric.manager")[0]));
  host.gpu_devices[3].links = 0;
  host.nvswitches = 0;
  EXPECT_THAT(only(topology, "gpu.links"), SizeIs(1)) << "it may run on another machine";
}

TEST(TopoChecks, gpus_that_wait_for_the_fabric_say_where_no_manager_runs) {
  Topology topology = healthy(2);
  Host& host = topology.hosts[1];
  host.gpu_devices[2].fabric_state = "in progress";
  host.fabric_manager_running = false;
  ASSERT_THAT(only(topology, "gpu.fabric"), SizeIs(1));
  EXPECT_THAT(only(topology, "gpu.fabric")[0].evidence, Not(HasSubstr("fabricmanager")));
  host.nvswitches = 4;
  EXPECT_THAT(only(topology, "gpu.fabric")[0].evidence, HasSubstr("; no nvidia-fabricmanager runs there"));
  EXPECT_THAT(only(topology, "fabric.manager"), IsEmpty());
}

TEST(TopoChecks, an_nvlink_that_recovered_once_or_failed_to_is_told) {
  for (const char* counter : {"recovery", "recovery_failed"}) {
    Topology topology = healthy(1);
    topology.hosts[0].gpu_devices[2].nvlinks = {{.number = 4, .active = true, .errors = {{counter, 0}, {"replay", 7}}}};
    EXPECT_THAT(only(topology, "gpu.link_errors"), IsEmpty());
    topology.hosts[0].gpu_devices[2].nvlinks[0].errors[counter] = 1;
    ASSERT_THAT(only(topology, "gpu.link_errors"), SizeIs(1));
    EXPECT_THAT(only(topology, "gpu.link_errors")[0].evidence, HasSubstr(std::string("link 4: 1 ") + counter));
  }
}

TEST(TopoChecks, ranks_that_see_one_gpu_each_cannot_reach_their_neighbours) {
  Topology topology = healthy(2);
  topology.gpus_seen_of_rank.assign(16, 8);
  EXPECT_THAT(only(topology, "gpu.hidden"), IsEmpty());
  for (int rank = 9; rank < 16; ++rank) topology.gpus_seen_of_rank[static_cast<std::size_t>(rank)] = 1;
  const std::vector<Finding> found = only(topology, "gpu.hidden");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].subject.host, "n1");
  EXPECT_THAT(found[0].evidence, HasSubstr("rank 9 sees 1 of the 8 GPUs"));
}

TEST(TopoChecks, gpus_that_nvml_does_not_tell_of_are_told_once) {
  Topology topology = healthy(2);
  topology.hosts[1].gpu_devices.assign(2, Gpu{});
  EXPECT_THAT(only(topology, "gpu.unseen"), IsEmpty()) << "nobody asked NVML";
  topology.hosts[1].gpu_driver = "580.95.05";
  EXPECT_THAT(only(topology, "gpu.unseen"), SizeIs(1));
  topology.hosts[1].gpu_problem = "no answer within 5 s";
  EXPECT_THAT(only(topology, "gpu.unseen"), IsEmpty());
  ASSERT_THAT(only(topology, "gpu.nvml"), SizeIs(1));
  EXPECT_TRUE(is_of_silent_driver(only(topology, "gpu.nvml")[0]));
  for (const auto& [problem, hangs] : {std::pair("nvmlInit_v2 did not answer within 5 s", true),
                                       std::pair("Driver/library version mismatch", false)}) {
    topology.hosts[1].gpu_problem = problem;
    EXPECT_EQ(is_of_silent_driver(only(topology, "gpu.nvml").at(0)), hangs) << problem;
  }
  topology.hosts[1].gpu_devices[0].uuid = "GPU-1";
  EXPECT_THAT(only(topology, "gpu.unseen"), SizeIs(1));
}

TEST(TopoChecks, more_ranks_than_threads_are_time_sliced) {
  Topology topology = healthy(1);
  topology.hosts[0].threads = topology.hosts[0].allowed_threads = 2;
  const auto found = only(topology, "host.oversubscribed");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].subject.host, "n0");
  // The backend decides if their figures are judged.
  EXPECT_EQ(found[0].evidence, "8 ranks share 2 hardware threads on n0, so that they take turns");
  EXPECT_THAT(found[0].action, HasSubstr("at most 2"));
}

TEST(TopoChecks, as_many_ranks_as_threads_are_fine) {
  Topology topology = healthy(1);
  topology.hosts[0].threads = topology.hosts[0].allowed_threads = 8;
  EXPECT_THAT(only(topology, "host.oversubscribed"), IsEmpty());
}

TEST(TopoChecks, pretended_nodes_share_the_threads_of_their_machine) {
  Topology topology = healthy(2);
  for (Host& host : topology.hosts) {
    host.boot_id = "one", host.host_name = "box";
    host.threads = host.allowed_threads = 8;
  }
  const auto found = only(topology, "host.oversubscribed");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, HasSubstr("16 ranks share 8 hardware threads on n0 (as n0, n1)"));
}

TEST(TopoChecks, containers_with_processors_of_their_own_are_not_oversubscribed) {
  Topology topology = healthy(2);
  for (Host& host : topology.hosts) host.boot_id = "one", host.threads = 16, host.allowed_threads = 8;
  EXPECT_THAT(only(topology, "host.oversubscribed"), IsEmpty());
}

TEST(TopoChecks, one_name_for_two_kernels_is_an_error) {
  Topology topology = healthy();
  topology.hosts[2].name = "n1";
  const auto found = only(topology, "host.name_shared");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, Severity::error);
  EXPECT_EQ(found[0].subject.host, "n1");
  EXPECT_THAT(found[0].evidence, HasSubstr("2 different kernels"));
}

TEST(TopoChecks, one_name_for_one_kernel_is_fine) {
  Topology topology = healthy();
  topology.hosts[2].name = topology.hosts[1].name;
  topology.hosts[2].boot_id = topology.hosts[1].boot_id;
  EXPECT_THAT(only(topology, "host.name_shared"), IsEmpty());
}

TEST(TopoChecks, names_from_nccl_hostid_are_said) {
  Topology topology = healthy(3);
  topology.hosts[0].pretended = topology.hosts[1].pretended = true;
  const auto found = only(topology, "host.pretended");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, Severity::info);
  EXPECT_THAT(found[0].evidence, AllOf(HasSubstr("2 of 3"), HasSubstr("n0, n1")));
}

TEST(TopoChecks, the_odd_host_of_a_mixed_cluster_is_named) {
  Topology topology = healthy();
  topology.platform = "";
  topology.hosts[2].gpus = 7;
  const auto found = only(topology, "host.mixed");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, Severity::warning);
  EXPECT_EQ(found[0].subject.host, "n2");
  EXPECT_EQ(found[0].evidence, "n2 has 7 GPUs; 3 of 4 hosts have 8 GPUs");
}

TEST(TopoChecks, two_hosts_that_differ_are_both_named_and_neither_blamed) {
  Topology topology = healthy(2);
  topology.hosts[0].cores = 96, topology.hosts[1].cores = 48;
  const auto found = only(topology, "host.mixed");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].subject.host, "");
  EXPECT_EQ(found[0].evidence, "hosts differ: n0 has 96 cores; n1 has 48 cores");
}

TEST(TopoChecks, a_host_with_gpus_of_another_model_is_named_and_one_whose_models_are_unknown_is_not) {
  Topology topology = healthy();
  for (Host& host : topology.hosts)
    for (Gpu& gpu : host.gpu_devices) gpu.name = "NVIDIA H100 80GB HBM3";
  EXPECT_THAT(only(topology, "host.mixed"), IsEmpty());
  topology.hosts[2].gpu_devices[5].name = "NVIDIA H200";
  const auto found = only(topology, "host.mixed");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].subject.host, "n2");
  EXPECT_EQ(found[0].evidence, "n2 has NVIDIA H100 80GB HBM3, NVIDIA H200; 3 of 4 hosts have NVIDIA H100 80GB HBM3");
  topology.hosts[2].gpu_devices[5].name = "";
  EXPECT_THAT(only(topology, "host.mixed"), IsEmpty());
  topology.hosts[2].gpu_devices.clear();
  EXPECT_THAT(only(topology, "host.mixed"), IsEmpty());
}

TEST(TopoChecks, virtual_devices_do_not_make_a_cluster_mixed) {
  Topology topology = healthy();
  topology.hosts[2].nics.push_back({"docker0", "virtual", "", "down", {}, -1});
  EXPECT_THAT(look(topology), IsEmpty());
}

TEST(TopoChecks, a_silent_efa_port_is_an_error_and_a_silent_ethernet_port_is_not) {
  Topology topology = healthy(1);
  topology.hosts[0].nics[5].state = "down";
  topology.hosts[0].nics.push_back({"eth1", "ethernet", "igb", "down", {}, 0});
  const auto found = only(topology, "nic.down");
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].severity, Severity::error);
  EXPECT_EQ(found[0].subject.nic, "rdma5");
  EXPECT_EQ(found[1].severity, Severity::info);
  EXPECT_EQ(found[1].subject.nic, "eth1");
}

TEST(TopoChecks, a_state_that_the_kernel_does_not_know_is_not_down) {
  Topology topology = healthy(1);
  topology.hosts[0].nics.push_back({"eth1", "ethernet", "virtio_net", "unknown", {}, 0});
  EXPECT_THAT(look(topology), IsEmpty());
}

TEST(TopoChecks, a_missing_efa_device_is_an_error) {
  Topology topology = healthy();
  topology.hosts[1].nics.pop_back();
  const auto found = only(topology, "nic.count");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, Severity::error);
  EXPECT_EQ(found[0].subject.host, "n1");
  EXPECT_THAT(found[0].evidence, HasSubstr("31 EFA devices, p5.48xlarge has 32"));
}

TEST(TopoChecks, as_few_efa_devices_on_all_hosts_are_how_these_were_launched_and_condemn_none) {
  Topology topology = healthy();
  ASSERT_GT(topology.hosts.size(), 2u);
  for (Host& host : topology.hosts) host.nics.resize(16);
  const auto found = only(topology, "nic.launched");
  EXPECT_EQ(found.size(), topology.hosts.size());
  for (const Finding& each : found) {
    EXPECT_EQ(each.severity, Severity::error);
    EXPECT_FALSE(condemns(each));
    EXPECT_THAT(each.evidence, HasSubstr("16 EFA devices, p5.48xlarge has 32"));
  }
  EXPECT_THAT(only(topology, "nic.count"), IsEmpty());
  topology.hosts[1].nics.pop_back();
  const auto short_one = only(topology, "nic.count");
  ASSERT_THAT(short_one, SizeIs(1)) << "this one has lost one besides";
  EXPECT_EQ(short_one[0].subject.host, "n1");
  EXPECT_TRUE(condemns(short_one[0]));
  EXPECT_EQ(only(topology, "nic.launched").size(), topology.hosts.size() - 1);
}

TEST(TopoChecks, efa_devices_without_a_driver_are_not_lost) {
  Topology topology = healthy();
  topology.hosts[3].nics.clear();
  topology.hosts[3].efa_without_driver = 32;
  EXPECT_THAT(only(topology, "nic.count"), IsEmpty());
  const auto found = only(topology, "efa.driver");
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].subject.host, "n3");
  EXPECT_EQ(found[0].about, About::software);
  EXPECT_FALSE(condemns(found[0]));
  topology.hosts[3].nics = topology.hosts[2].nics;
  topology.hosts[3].nics.pop_back();
  topology.hosts[3].efa_without_driver = 1;
  EXPECT_THAT(only(topology, "efa.driver"), IsEmpty()) << "the driver is there, and one device does not start";
  EXPECT_THAT(only(topology, "nic.count"), SizeIs(1));
}

TEST(TopoChecks, a_host_alone_that_was_launched_with_fewer_efa_devices_is_not_condemned_while_it_has_these) {
  Topology alone = healthy(1);
  Host& host = alone.hosts[0];
  const auto condemned = [&] { return std::ranges::any_of(look(alone), condemns); };
  host.nics.resize(16);
  EXPECT_TRUE(condemned()) << "nothing tells with how many it was launched";
  host.network_cards = 32;
  EXPECT_TRUE(condemned()) << "all cards have interfaces";
  host.network_cards = 16;
  EXPECT_FALSE(condemned());
  ASSERT_THAT(only(alone, "nic.launched"), SizeIs(1));
  EXPECT_THAT(only(alone, "nic.launched")[0].evidence,
              HasSubstr("shows 16 EFA devices, p5.48xlarge has 32, and EC2 has attached interfaces to 16 of its 32"));
  for (const std::size_t left : {15u, 6u}) {
    host.nics.resize(left);
    EXPECT_TRUE(condemned()) << "it has lost some of the 16";
    EXPECT_THAT(only(alone, "nic.launched"), IsEmpty());
  }
  host.network_cards.reset();
  host.nics.clear();
  EXPECT_FALSE(condemned()) << "a host does not lose all of its NICs";
  EXPECT_THAT(only(alone, "nic.launched"), SizeIs(1));
}

TEST(TopoChecks, the_first_network_card_of_p6_b300_has_no_efa_device_to_lose) {
  Topology alone = synthetic(find_platform("p6-b300.48xlarge"), 1);
  Host& host = alone.hosts[0];
  host.nics.resize(15);
  host.network_cards = 16;
  EXPECT_THAT(only(alone, "nic.launched"), SizeIs(1));
  EXPECT_THAT(only(alone, "nic.count"), IsEmpty());
  host.network_cards = 17;
  EXPECT_THAT(only(alone, "nic.launched"), IsEmpty());
  EXPECT_THAT(only(alone, "nic.count"), SizeIs(1));
}

TEST(TopoChecks, a_host_that_was_launched_with_fewer_efa_devices_than_others_is_not_condemned) {
  for (const std::size_t launched : {0u, 16u}) {
    Topology two = healthy(2);
    two.hosts[0].network_cards = 32;
    two.hosts[1].network_cards = static_cast<int>(std::max<std::size_t>(launched, 1));
    two.hosts[1].nics.resize(launched);
    const auto found = only(two, "nic.launched");
    ASSERT_THAT(found, SizeIs(1)) << launched;
    EXPECT_EQ(found[0].subject.host, "n1");
    EXPECT_THAT(only(two, "nic.count"), IsEmpty());
  }
}

TEST(TopoChecks, fewer_efa_devices_on_one_host_or_on_hosts_of_which_another_has_all_are_its_own) {
  Topology alone = healthy(1);
  alone.hosts[0].nics.resize(16);
  EXPECT_THAT(only(alone, "nic.count"), SizeIs(1));
  Topology most = healthy();
  for (std::size_t at = 1; at < most.hosts.size(); ++at) most.hosts[at].nics.resize(31);
  EXPECT_EQ(only(most, "nic.count").size(), most.hosts.size() - 1);
  EXPECT_THAT(only(most, "nic.launched"), IsEmpty());
}

TEST(TopoChecks, slower_infiniband_ports_of_all_hosts_may_serve_storage_and_one_that_is_faster_elsewhere_does_not) {
  Topology topology;
  topology.platform = "hgx-h100";
  for (const char* const name : {"n0", "n1", "n2"}) {
    Host& host = topology.hosts.emplace_back();
    host.name = name;
    for (int i = 0; i < 10; ++i)
      host.nics.push_back(
          {"mlx5_" + std::to_string(i), "infiniband", "mlx5_core", "up", GBps{i < 8 ? 50.0 : 25.0}, i / 5});
  }
  const auto errors = [&] {
    std::vector<Finding> found = only(topology, "nic.rate");
    std::erase_if(found, [](const Finding& finding) { return !condemns(finding); });
    return found;
  };
  EXPECT_THAT(errors(), IsEmpty());
  ASSERT_THAT(only(topology, "nic.rate"), SizeIs(3));
  EXPECT_EQ(only(topology, "nic.rate")[0].evidence,
            "mlx5_8, mlx5_9 (2 of 10 infiniband devices on n0) at 25 GB/s of 50 by the kernel");
  topology.hosts[1].nics[3].rate = GBps{25};
  ASSERT_THAT(errors(), SizeIs(1));
  EXPECT_EQ(errors()[0].subject.host, "n1");
  EXPECT_EQ(errors()[0].subject.nic, "mlx5_3");
  topology.hosts[1].nics[3].rate = GBps{50};
  std::swap(topology.hosts[1].nics[0].rate, topology.hosts[1].nics[8].rate);
  EXPECT_THAT(errors(), IsEmpty()) << "the same rates under other names";
  topology.hosts.resize(1);
  topology.hosts[0].nics[3].rate = GBps{25};
  EXPECT_THAT(errors(), IsEmpty()) << "one host alone does not tell";
}

TEST(TopoChecks, a_port_that_is_down_on_one_host_only_is_an_error_and_lowers_no_limit) {
  for (const bool infiniband : {true, false}) {
    Topology topology;
    for (const char* const name : {"n0", "n1", "n2", "n3"}) {
      Host& host = topology.hosts.emplace_back();
      host.name = name;
      for (int i = 0; i < 9; ++i) {
        host.nics.push_back({"mlx5_" + std::to_string(i), infiniband ? "infiniband" : "ethernet", "mlx5_core",
                             i < 8 ? "up" : "down", GBps{50}, i / 5});
        host.nics.back().verbs = "uverbs" + std::to_string(i);
      }
    }
    const auto errors = [&] {
      std::vector<Finding> found = only(topology, "nic.down");
      std::erase_if(found, [](const Finding& finding) { return !condemns(finding); });
      return found;
    };
    const auto limit = [&] { return nic_limits(topology).at(0).rate.count; };
    EXPECT_THAT(only(topology, "nic.down"), SizeIs(4)) << "a port that no host uses";
    EXPECT_THAT(errors(), IsEmpty());
    Nic& port = topology.hosts[2].nics[3];
    port.state = "down";
    ASSERT_THAT(errors(), SizeIs(1)) << infiniband;
    EXPECT_EQ(errors()[0].subject.host + " " + errors()[0].subject.nic.value_or(""), "n2 mlx5_3");
    EXPECT_THAT(errors()[0].evidence, HasSubstr("is in state 'down', and up on most other hosts"));
    EXPECT_DOUBLE_EQ(limit(), 400);
    topology.hosts[2].nics[8].state = "up";
    EXPECT_THAT(errors(), IsEmpty()) << "as many under other names";
    topology.hosts[2].nics[8].state = "down";
    for (Host& host : topology.hosts) host.nics[3].state = "down";
    EXPECT_THAT(errors(), IsEmpty()) << "down on all hosts";
    EXPECT_DOUBLE_EQ(limit(), 350);
    for (Host& host : topology.hosts) host.nics[3].state = "up";
    port.state = "down";
    topology.hosts.erase(topology.hosts.begin());
    topology.hosts.pop_back();
    EXPECT_THAT(errors(), IsEmpty()) << "one other host does not tell which of the two is right";
  }
}

// Three hosts with eight ports of RoCE for the job, and a slower one by which they are managed.
Topology over_roce() {
  Topology topology;
  topology.platform = "hgx-h100";
  for (const char* const name : {"n0", "n1", "n2"}) {
    Host& host = topology.hosts.emplace_back();
    host.name = host.boot_id = name;
    host.gpus = 8;
    host.modules = {"mlx5_ib", "nvidia"};
    host.limits.locked_memory = GiB(1024);
    for (int i = 0; i < 9; ++i) {
      Nic& nic = host.nics.emplace_back();
      nic = {"mlx5_" + std::to_string(i), "ethernet", "mlx5_core", "up", GBps{i < 8 ? 50.0 : 3.125}, i / 5};
      nic.verbs = "uverbs" + std::to_string(i);
      nic.mtu = i < 8 ? 4200 : 1500;
      nic.pcie = {.generation = 5, .width = 16, .generation_max = 5, .width_max = 16};
    }
  }
  return topology;
}

TEST(TopoChecks, of_nics_know_ports_of_roce_as_well) {
  const auto broken = [](const char* id, auto damage) {
    Topology topology = over_roce();
    EXPECT_THAT(only(topology, id), IsEmpty()) << "slower ports for other purposes are ordinary";
    damage(topology.hosts[1]);
    const std::vector<Finding> found = only(topology, id);
    ASSERT_THAT(found, SizeIs(1)) << id;
    EXPECT_EQ(found[0].subject.host, "n1");
  };
  broken("nic.rate", [](Host& host) { host.nics[3].rate = GBps{25}; });
  broken("nic.pcie", [](Host& host) { host.nics[3].pcie.width = 8; });
  broken("nic.mtu", [](Host& host) { host.nics[3].mtu = 1500; });
  broken("nic.names", [](Host& host) { host.nics[3].name = "mlx5_12"; });
  broken("host.memlock", [](Host& host) { host.limits.locked_memory = MiB(8); });
  broken("host.peermem", [](Host& host) { host.kernel = "5.4.0"; });
  broken("nic.unusable", [](Host& host) {
    for (Nic& nic : host.nics) nic.verbs_usable = false;
  });
}

TEST(TopoChecks, of_nics_leave_out_ports_of_roce_that_are_slower_on_all_hosts) {
  const auto spared = [](const char* id, auto damage) {
    Topology topology = over_roce();
    damage(topology.hosts[1].nics[8]);
    EXPECT_THAT(only(topology, id), IsEmpty());
    damage(topology.hosts[1].nics[3]);
    EXPECT_THAT(only(topology, id), SizeIs(1)) << "another one is as fast as most";
  };
  spared("nic.rate", [](Nic& nic) { nic.rate = GBps{1.25}; });
  spared("nic.pcie", [](Nic& nic) { nic.pcie.width = 8; });
  spared("nic.mtu", [](Nic& nic) { nic.mtu = 9000; });
  spared("nic.names", [](Nic& nic) { nic.name += "0"; });
  spared("nic.unusable", [](Nic& nic) { nic.verbs_usable = false; });
  Topology topology = over_roce();
  topology.hosts.push_back(topology.hosts[0]);
  topology.hosts[3].name = topology.hosts[3].boot_id = "n3";
  topology.hosts[1].nics[8].state = "down";
  ASSERT_THAT(only(topology, "nic.down"), SizeIs(1));
  EXPECT_EQ(only(topology, "nic.down")[0].severity, Severity::info);
  for (Host& host : topology.hosts) host.nics[8].verbs_usable = false;
  EXPECT_THAT(only(topology, "nic.unusable"), IsEmpty()) << "as where a container gets the others";
}

// A fault takes away a fast NIC: a host with as many as the others has none that is slow, whatever their names are.
TEST(TopoChecks, of_nics_take_no_port_of_management_for_a_slow_one_that_has_the_name_of_a_fast_one_elsewhere) {
  for (const bool reversed : {false, true}) {
    Topology topology = over_roce();
    for (Host& host : topology.hosts) host.nics[8].name = "mlx5_bond_0", host.nics[8].rate = GBps{12.5};
    Host& other = topology.hosts[1];
    for (int i = 0; i < 8; ++i) other.nics[static_cast<std::size_t>(i)].name = "mlx5_" + std::to_string(i + 1);
    other.nics[8].name = "mlx5_0";
    if (reversed) std::swap(topology.hosts[0], topology.hosts[1]);
    EXPECT_THAT(only(topology, "nic.rate"), IsEmpty());
    topology.hosts[2].nics[3].rate = GBps{25};
    ASSERT_THAT(only(topology, "nic.rate"), SizeIs(1)) << "a slow one on a third host is its own alone";
    EXPECT_EQ(only(topology, "nic.rate")[0].subject.host, "n2");
    EXPECT_TRUE(condemns(only(topology, "nic.rate")[0]));
    topology.hosts.pop_back();
    EXPECT_THAT(only(topology, "nic.rate"), IsEmpty()) << "two hosts";
  }
}

// Nothing tells its rate elsewhere, so that it may serve storage; eight GPUs have no seven NICs.
TEST(TopoChecks, a_slow_port_of_roce_is_told_where_no_other_host_has_its_name_at_the_full_rate) {
  const auto told = [](const Topology& topology) {
    std::vector<std::string> all;
    for (const Finding& each : only(topology, "nic.rate")) {
      EXPECT_EQ(each.severity, Severity::warning);
      all.push_back(each.subject.host + " " + each.evidence.substr(0, each.evidence.find(' ')));
    }
    return all;
  };
  Topology topology = over_roce();
  for (Host& host : topology.hosts) host.nics.pop_back(), host.nics[3].rate = GBps{25};
  EXPECT_THAT(told(topology), ElementsAre("n0 mlx5_3", "n1 mlx5_3", "n2 mlx5_3"));
  topology.hosts.resize(1);
  EXPECT_THAT(told(topology), ElementsAre("n0 mlx5_3")) << "a host alone";
  topology.hosts[0].nics[3].rate = GBps{50};
  EXPECT_THAT(told(topology), IsEmpty());
  for (const std::size_t hosts : {3U, 1U}) {
    Topology down = over_roce();
    down.hosts.resize(hosts);
    down.hosts.back().nics[3].state = "down";
    EXPECT_THAT(told(down), IsEmpty()) << "what is down is lacking, and not what is for management";
    Topology hidden = over_roce();
    hidden.hosts.resize(hosts);
    for (Host& host : hidden.hosts) {
      host.gpus = 6;
      host.nics.erase(host.nics.begin() + 4, host.nics.begin() + 8);
    }
    EXPECT_THAT(told(hidden), IsEmpty()) << "six GPUs of a container share neither four NICs evenly nor five";
  }
  Topology by_place = over_roce();
  for (Host& host : by_place.hosts)
    for (Nic& nic : host.nics) nic.name = "roce" + host.name + nic.name;
  EXPECT_THAT(told(by_place), IsEmpty()) << "ports of management are ordinary";
  by_place.hosts[1].nics[3].rate = GBps{25};
  ASSERT_THAT(told(by_place), SizeIs(1)) << "names that come from places";
  EXPECT_THAT(told(by_place)[0], HasSubstr("n1 rocen1mlx5_3"));
}

TEST(TopoChecks, efa_devices_are_not_counted_on_an_unknown_platform) {
  Topology topology = healthy();
  topology.platform = "";
  topology.hosts[1].nics.pop_back();
  EXPECT_THAT(only(topology, "nic.count"), IsEmpty());
}

// A missing part of an instance type is reported for the host that lacks it, and only once.
TEST(TopoChecks, hosts_of_a_known_platform_are_held_against_it_and_not_against_each_other) {
  Topology topology = healthy();
  topology.hosts[2].gpus = 7;
  const auto found = look(topology);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].id, "gpu.count");
  EXPECT_EQ(found[0].subject.host, "n2");
}

TEST(TopoChecks, errors_come_first) {
  Topology topology = healthy();
  topology.hosts[0].pretended = true;
  topology.hosts[1].nics.pop_back();
  topology.hosts[2].cores = 4;
  const auto found = look(topology);
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_EQ(found[0].id, "nic.count");
  EXPECT_EQ(found[1].id, "host.mixed");
  EXPECT_EQ(found[2].id, "host.pretended");
}

TEST(TopoChecks, findings_survive_json) {
  Topology topology = healthy(1);
  topology.hosts[0].instance = "i-1";
  topology.hosts[0].nics[5].state = "down";
  std::vector<Finding> findings = look(topology);
  EXPECT_FALSE(to_json(findings).at(0).contains("hosts"));
  findings.at(0).hosts = {"n1", "n2"};
  const nlohmann::json there = to_json(findings);
  EXPECT_EQ(there.at(0).at("hosts").size(), 2U);
  EXPECT_EQ(there.at(0).at("severity"), "error");
  EXPECT_EQ(there[0].at("subject").at("instance"), "i-1");
  EXPECT_EQ(there[0]["subject"].at("nic"), "rdma5");
  EXPECT_TRUE(there[0]["subject"].at("gpu").is_null());
  EXPECT_EQ(to_json(findings_from_json(nlohmann::json::parse(there.dump()))), there);
  EXPECT_THROW(findings_from_json(nlohmann::json::parse(R"([{"id": "nic.down"}])")), UsageError);
}

}  // namespace
}  // namespace p5::topo
