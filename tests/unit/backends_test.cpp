// The table of backends.
#include "bench/model/backends.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bench/app/machine/backends.hpp"
#include "bench/backends/backends.hpp"
#include "bench/base/error.hpp"
#include "bench/model/plan.hpp"
#include "topo/platform.hpp"

namespace p5 {
namespace {

TEST(Backends, are_found_by_name_and_auto_is_none_of_them) {
  EXPECT_EQ(find_backend("ofi").name, "ofi");
  EXPECT_EQ(requested_backend("nccl"), &find_backend("nccl"));
  EXPECT_EQ(requested_backend("auto"), nullptr);
  EXPECT_THAT([] { find_backend("ncll"); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr("unknown backend 'ncll'; did you mean 'nccl'?")));
}

TEST(Backends, of_a_host_that_cannot_use_gpus_beside_others_are_none) {
  const BackendsOfHost with{"n0", "yynn", ""}, without{"n3", "nynn", "there is no driver of GPUs (/dev/nvidiactl)"};
  EXPECT_EQ(choose_for_all({with, with}), "nccl");
  EXPECT_EQ(choose_for_all({without, without}), "mpi");
  EXPECT_THAT(
      [&] {
        choose_for_all({with, with, without});
      },
      testing::ThrowsMessage<EnvironmentError>(
          testing::StartsWith("n3: there is no driver of GPUs (/dev/nvidiactl), and other hosts")));
}

// At 50 GB/s the latency of a message of 1 MiB is as long as its transfer. In the time of a single message a NIC at 90
// % is slower by 6 %, which no verdict rests on.
TEST(Backends, that_are_simulated_show_a_nic_at_90_percent_in_messages_over_it_alone) {
  SimMachine machine;
  machine.nodes = 2;
  machine.gpus = machine.nics = 1;
  machine.link = {400};
  machine.nic = {50};
  machine.link_latency = {1e-6};
  machine.nic_latency = {18e-6};
  machine.noise = machine.part_spread = machine.outliers = 0;
  const JobFacts job{.node_of_rank = {0, 1}, .memory_of_node = {}};
  const std::vector<Case> cases = nic_cases("sim", job, {{"rdma0"}, {"rdma0"}}, MiB(1));
  ASSERT_FALSE(cases.empty());
  const auto time = [&] { return make_sim_backend(machine)->open(cases.front(), 0)->sample({}).front().front(); };
  const double healthy = time();
  machine.faults.push_back(parse_fault("nic:n1r0:0.9", machine));
  EXPECT_GT(time() / healthy, 1.09);
}

TEST(Backends, of_gpus_name_those_that_ranks_on_one_gpu_cannot_see) {
  topo::Topology topology = topo::synthetic(topo::find_platform("p5.48xlarge"), 2);
  std::vector<protocol::Identity> identities(16);
  for (std::size_t rank = 0; rank < identities.size(); ++rank) {
    identities[rank].device_uuid = std::to_string(rank);
    identities[rank].visible_devices = 8;
  }
  EXPECT_EQ(max_ranks_per_gpu(identities, topology, false), 1);
  identities[15].device_uuid = "8";
  EXPECT_EQ(max_ranks_per_gpu(identities, topology, true), 2);
  const auto refusal = [&] {
    try {
      max_ranks_per_gpu(identities, topology, false);
    } catch (const EnvironmentError& problem) {
      return std::string(problem.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal(),
              testing::AllOf(testing::HasSubstr("8): start one rank per GPU"),
                             testing::HasSubstr("--allow-shared-gpu and each of its ranks an NCCL_HOSTID of its own")));
  for (std::size_t rank = 8; rank < identities.size(); ++rank) identities[rank].visible_devices = 7;
  EXPECT_THAT(refusal(),
              testing::HasSubstr("n1 has 8 GPUs, of which CUDA shows its ranks 7 (see CUDA_VISIBLE_DEVICES"));
  topology.hosts[1].gpu_devices[5].problem = "nvmlDeviceGetHandleByIndex_v2: GPU is lost";
  EXPECT_THAT(refusal(), testing::AllOf(testing::StartsWith("ranks 8 and 15 on n1 have the same GPU"),
                                        testing::HasSubstr("CUDA shows its ranks 7 (gpu.lost: ")));
}

TEST(Backends, of_gpus_name_the_one_with_the_least_free_memory) {
  topo::Topology topology = topo::synthetic(topo::find_platform("p5.48xlarge"), 2);
  std::vector<protocol::Identity> identities(16);
  for (protocol::Identity& each : identities) each.free_memory = each.total_memory = GiB(80).count;
  identities[11].free_memory = 0;
  identities[11].device_uuid = "GPU-7";
  EXPECT_EQ(describe_fullest_device(identities, topology),
            "the GPU (GPU-7) of rank 11 on n1, which has 0 B of 80.0 GiB free");
  topology.hosts[1].gpu_devices[3].uuid = "GPU-7";
  EXPECT_THAT(describe_fullest_device(identities, topology), testing::StartsWith("GPU 3 (GPU-7) of rank 11 on n1"));
}

TEST(Backends, the_simulator_is_what_its_row_says) {
  const auto sim = make_sim_backend(SimMachine{});
  const BackendInfo& row = find_backend("sim");
  EXPECT_EQ(sim->relaunches(), row.relaunches());
  EXPECT_EQ(sim->provenance() == "simulated", row.simulated());
}

}  // namespace
}  // namespace p5
