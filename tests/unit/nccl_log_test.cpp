// Lines of NCCL's log as findings. The lines are in the wordings of NCCL and aws-ofi-nccl; hosts and addresses are made
// up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "topo/nccl_log.hpp"

namespace p5::topo {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Host host_of(const std::string& platform) {
  if (platform.empty()) {
    Host host;
    host.name = "n1";
    host.nics.push_back({"eth0", "ethernet", "virtio_net", "up", {}, 0});
    return host;
  }
  return synthetic(find_platform(platform), 2).hosts[1];
}

std::vector<Finding> in_log(const std::string& log, const std::string& platform = "p5.48xlarge", int rank = 9) {
  return findings_in_log(log, host_of(platform), platform.empty() ? nullptr : &find_platform(platform), rank);
}

std::vector<std::string> ids(const std::vector<Finding>& findings) {
  std::vector<std::string> all;
  for (const Finding& each : findings) all.push_back(each.id);
  return all;
}

std::string info(const std::string& text) { return "n1:188:585 [1] NCCL INFO " + text + "\n"; }
std::string warn(const std::string& text) {
  return "\n[2026-11-20 10:00:00] n1:188:585 [1] init.cc:1337 NCCL WARN " + text + "\n";
}

const std::string healthy_p5 =
    info("Bootstrap: Using ens32:10.0.0.11<0>") + info("NET/Plugin: Loaded net plugin Libfabric (v11)") +
    info("NET/OFI Initializing aws-ofi-nccl 1.17.1") + info("NET/OFI Using Libfabric version 2.3") +
    info("NET/OFI Using transport protocol RDMA (platform set)") +
    info("NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)") +
    info("NET/OFI Created device with 4 rails (originally found 4 rails)") +
    info("NET/OFI Support for DMA-BUF registrations: true") + info("Initialized NET plugin Libfabric") +
    info("Assigned NET plugin Libfabric to comm") + info("Using network Libfabric") +
    info("NET/Libfabric : GPU Direct RDMA Enabled for HCA 0 'rdmap79s0'") +
    info("NET/Libfabric : GPU Direct RDMA Disabled for GPU 1 / HCA 7 (distance 9 > 5)") +
    info("NVLS multicast support is available on dev 1 (NVLS_NCHANNELS 16)") +
    info("Channel 00/0 : 9[1] -> 1[1] [send] via NET/Libfabric/0/GDRDMA") +
    info("Channel 01/0 : 9[1] -> 1[1] [send] via NET/AWS Libfabric/0/GDRDMA/Shared") +
    info("Channel 02/0 : 9[1] -> 10[2] via P2P/CUMEM") +
    info("ncclCommInitRank comm 0x55 rank 9 nranks 16 - Init COMPLETE");

TEST(NcclLog, of_a_healthy_machine_gives_no_finding) {
  EXPECT_THAT(ids(in_log(healthy_p5)), IsEmpty());
  EXPECT_THAT(in_log(""), IsEmpty());
}

// A plain host that has nothing but Ethernet uses sockets, and neither GPU Direct RDMA nor NVLS is to be had.
TEST(NcclLog, of_a_host_without_a_fabric_gives_no_finding) {
  EXPECT_THAT(ids(in_log(info("NET/IB : No device found.") + info("Using network Socket") +
                             info("NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'") +
                             info("NVLS multicast support is not available on dev 1 (NVLS_NCHANNELS 0)") +
                             info("Channel 00/0 : 1[0] -> 0[0] [send] via NET/Socket/0"),
                         "")),
              IsEmpty());
}

TEST(NcclLog, tells_of_a_fallback_to_sockets) {
  const std::string missing = info("NET/Plugin: Could not find: libnccl-net.so") +
                              info("Failed to initialize NET plugin IB") + info("NET/IB : No device found.");
  for (const std::string& line : {info("Using network Socket"), info("Assigned NET plugin Socket to comm"),
                                  info("Channel 00/0 : 9[1] -> 1[1] [send] via NET/Socket/0")}) {
    const std::vector<Finding> found = in_log(missing + line);
    ASSERT_THAT(ids(found), ElementsAre("nccl.sockets")) << line;
    EXPECT_EQ(found[0].severity, Severity::error);
    EXPECT_EQ(found[0].subject.host, "n1");
    EXPECT_THAT(found[0].evidence, AllOf(HasSubstr("rank 9"), HasSubstr("Socket")));
    EXPECT_THAT(found[0].evidence, ::testing::Not(HasSubstr("NCCL INFO")));
  }
}

TEST(NcclLog, counts_nics_and_rails_against_the_platform) {
  const auto nics = [](int count) {
    return info("NET/OFI Selected provider is efa, fabric is efa (found " + std::to_string(count) + " nics)");
  };
  EXPECT_THAT(ids(in_log(nics(4), "p4d.24xlarge")), IsEmpty());
  const std::vector<Finding> found = in_log(nics(1), "p4d.24xlarge");
  ASSERT_THAT(ids(found), ElementsAre("nccl.nic_count"));
  EXPECT_THAT(found[0].evidence, HasSubstr("1 NICs of 4"));
  EXPECT_THAT(ids(in_log(nics(10), "p6-b200.48xlarge")), ElementsAre("nccl.nic_count"));
  const std::string three = info("NET/OFI Created device with 3 rails (originally found 3 rails)");
  EXPECT_THAT(ids(in_log(three)), ElementsAre("nccl.rails"));
  EXPECT_THAT(ids(in_log(three, "p5en.48xlarge")), IsEmpty());
}

TEST(NcclLog, tells_when_gpu_direct_rdma_is_off) {
  for (const std::string& line : {info("NET/Libfabric : GPU Direct RDMA Disabled for HCA 0 'rdmap79s0'"),
                                  warn("NET/OFI GDR disabled on GDR-supported instance type p5.48xlarge"),
                                  info("Channel 00/0 : 9[1] -> 1[1] [send] via NET/Libfabric/0"),
                                  info("Channel 00/0 : 9[1] -> 1[1] [send] via NET/AWS Libfabric/3/Shared")}) {
    EXPECT_THAT(ids(in_log(line)), ElementsAre("nccl.gdr_off")) << line;
    EXPECT_THAT(ids(in_log(line, "p5.4xlarge")), IsEmpty()) << line;  // which has none
  }
}

TEST(NcclLog, tells_when_nvls_should_be_there) {
  const std::string off = info("NVLS multicast support is not available on dev 1 (NVLS_NCHANNELS 0)");
  EXPECT_THAT(ids(in_log(off)), ElementsAre("nccl.nvls_off"));
  EXPECT_THAT(ids(in_log(off, "p4d.24xlarge")), IsEmpty());
}

// SENDRECV on P4 keeps no order of 128 bytes: ordinary there.
TEST(NcclLog, knows_what_is_ordinary_on_p4) {
  const std::string simple = warn("NET/OFI Need to force simple protocol: byte delivery ordering not supported");
  EXPECT_THAT(ids(in_log(simple, "p4d.24xlarge")), IsEmpty());
  EXPECT_THAT(ids(in_log(simple)), ElementsAre("nccl.simple_forced"));
}

TEST(NcclLog, knows_each_of_its_findings_by_a_line) {
  const std::vector<std::pair<std::string, std::string>> lines{
      {"nccl.sockets", info("Using network Socket")},
      {"nccl.not_efa", info("Using network IB")},
      {"nccl.plugin_failed", info("Failed to initialize NET plugin AWS Libfabric")},
      {"nccl.nic_count", info("NET/OFI Selected Provider is efa (found 31 nics)")},
      {"nccl.nic_counts_differ", warn("Detected mixed local Net device counts across ranks (min 31, max 32)")},
      {"nccl.rails", info("NET/OFI Created device with 2 rails (originally found 4 rails)")},
      {"nccl.gdr_off", warn("NET/OFI GDR disabled on GDR-supported instance type p5.48xlarge")},
      {"nccl.emulated_write",
       warn("NET/OFI FI_OPT_EFA_EMULATED_WRITE is true when the communication protocol is RDMA write.")},
      {"nccl.simple_forced", warn("NET/OFI Need to force simple protocol: LL not supported")},
      {"nccl.unreachable", warn("NET/OFI Request completed with error. RC: 21. Error: 4126 (Unresponsive receiver "
                                "(reachable by EFA device but handshake failed))")},
      {"nccl.no_interface", warn("Bootstrap : no socket interface found")},
      {"nccl.bootstrap", info("Bootstrap : Using docker0:172.17.0.1<0>")},
      {"nccl.connect",
       warn("ncclOsSocketPollConnect: connect to 10.0.0.12<37857> returned Connection refused, exceeded "
            "error retry count after 35 attempts")},
      {"nccl.duplicate_gpu", warn("Duplicate GPU detected : rank 9 and rank 8 both on CUDA device 1b000")},
      {"nccl.nvls_failed",
       warn("Failed to bind NVLink SHARP (NVLS) Multicast memory of size 16777216 : CUDA error 401")},
      {"nccl.nvls_off", info("NVLS multicast support is not available on dev 0")},
      {"nccl.p2p_off", warn("P2P is disabled between NVLINK connected GPUs 1 and 0. This should not be the case")},
      {"nccl.cuda_not_ready", warn("Cuda failure 802 'system not yet initialized'")},
      {"nccl.numa_hidden", warn("Attribute arch of node cpu not found")},
      {"nccl.gdrcopy", info("NET/OFI Failed to open gdr handle")},
      {"nccl.versions_differ", warn("Mismatched NCCL version detected : rank 9 2.28.3, others 2.27.7")},
      {"nccl.libfabric_old", warn("NET/OFI EFA provider requires at least libfabric version 1.22.0.")},
  };
  std::set<std::string> shown;
  for (const auto& [id, line] : lines) {
    const std::vector<Finding> found = in_log(healthy_p5 + line);
    ASSERT_THAT(ids(found), ElementsAre(id)) << line;
    EXPECT_FALSE(found[0].action.empty());
    const auto is = [&](const FindingKind& kind) { return kind.id == id && kind.about == found[0].about; };
    EXPECT_TRUE(std::ranges::any_of(log_findings(), is)) << id << " is not listed so";
    shown.insert(id);
  }
  for (const FindingKind& each : log_findings()) EXPECT_TRUE(shown.contains(each.id)) << each.id;
  EXPECT_EQ(shown.size(), log_findings().size());
}

TEST(NcclLog, knows_how_connections_fail_in_other_versions_and_which_retries_are_no_fault) {
  for (const char* line : {"socketPollConnect: connect returned Connection refused, exceeded error retry count (35)",
                           "socketStartConnect: Connect to 10.0.0.12<37857> failed : No route to host",
                           "socketStartConnect: exceeded retries (20000)"})
    EXPECT_THAT(ids(in_log(warn(line))), ElementsAre("nccl.connect")) << line;
  EXPECT_THAT(ids(in_log(info("socketPollConnect: connect to 10.0.0.12<37857> returned Connection refused, retrying "
                              "(1/34) after sleep for 100 msec"))),
              IsEmpty());
}

TEST(NcclLog, knows_ranks_that_share_a_gpu_as_nccl_2_30_7_words_it) {
  EXPECT_THAT(ids(in_log(warn("Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to "
                              "enable this configuration."))),
              ElementsAre("nccl.duplicate_gpu"));
}

TEST(NcclLog, has_a_remedy_for_an_error_that_is_quoted) {
  const auto remedy = remedy_for("rank 0: invalid usage: Duplicate GPU detected : rank 0 and rank 2 (n1, GPU-1)");
  ASSERT_TRUE(remedy);
  EXPECT_EQ(remedy->id, "nccl.duplicate_gpu");
  EXPECT_THAT(remedy->action, HasSubstr("NCCL_HOSTID"));
  EXPECT_FALSE(remedy_for("rank 0: no answer for 120 s"));
}

TEST(NcclLog, of_all_ranks_tells_each_host_once) {
  std::vector<std::vector<Finding>> of_rank;
  for (int rank = 8; rank < 12; ++rank)
    of_rank.push_back(in_log(info("NVLS multicast support is not available on dev 0") + info("Using network Socket"),
                             "p5.48xlarge", rank));
  const std::vector<Finding> all = of_all_ranks(of_rank);
  ASSERT_THAT(ids(all), ElementsAre("nccl.sockets", "nccl.nvls_off"));
  EXPECT_THAT(all[0].evidence, AllOf(HasSubstr("rank 8"), HasSubstr("and 3 more ranks")));
}

TEST(NcclLog, a_long_line_is_cut) {
  const std::vector<Finding> found = in_log(info("Using network Socket" + std::string(5000, 'x')));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_LT(found[0].evidence.size(), 300u);
}

}  // namespace
}  // namespace p5::topo
