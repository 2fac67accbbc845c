// Lines of NCCL's log as findings. The lines are in the wordings of NCCL and aws-ofi-nccl; hosts and addresses are made
// up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "topo/nccl_log.hpp"
#include "topo/nccl_log/parts.hpp"

namespace p5::topo {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

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

Explanation explained(const std::string& text, const Platform* platform = nullptr) {
  const std::vector<LogText> logs{{"job.out", text}};
  return explain_logs(logs, platform);
}

std::vector<std::string> explained_ids(const std::string& text) {
  std::vector<std::string> all;
  for (const Explained& each : explained(text).findings) all.push_back(each.finding.id);
  return all;
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

std::vector<std::string> explained_evidence(const std::string& text) {
  std::vector<std::string> all;
  for (const Explained& each : explained(text).findings) all.push_back(each.finding.evidence);
  return all;
}

TEST(NcclLog, of_a_healthy_machine_gives_no_finding) {
  EXPECT_THAT(ids(in_log(healthy_p5)), IsEmpty());
  EXPECT_THAT(in_log(""), IsEmpty());
}

// A host that has only Ethernet uses sockets, without GPU Direct RDMA and NVLS.
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
    EXPECT_THAT(ids(in_log(line, "p5.4xlarge")), IsEmpty()) << line;  // this instance type has no GPU Direct RDMA
  }
  // Stores of logs put lines into JSON, CSV or HTML.
  for (const char* const end : {"\"}", "'", ")", "]", "\",\"host\"", "</li>"}) {
    const std::string channel = "Channel 03/0 : 9[1] -> 1[1] [send] via NET/IB/13(8)";
    EXPECT_THAT(ids(in_log(info(channel + end), "hgx-h100")), ElementsAre("nccl.gdr_off")) << end;
    EXPECT_THAT(ids(in_log(info(channel + "/GDRDMA" + end), "hgx-h100")), IsEmpty()) << end;
  }
}

// The NICs are capable of it, and NCCL's topology decides.
TEST(NcclLog, tells_gpus_and_nics_that_are_too_far_from_each_other_from_a_driver_that_lacks) {
  const std::string capable = info("NET/IB : GPU Direct RDMA (DMABUF) enabled for HCA 1 'roceP2p1s0f1'");
  const std::string far = info("GPU Direct RDMA Disabled for GPU 1 / HCA 7 (distance 9 > 5)");
  const std::string near = info("GPU Direct RDMA Enabled for GPU 1 / HCA 0 (distance 4 <= 5), read 1");
  const std::string sends = info("Channel 09/0 : 1[0] -> 0[0] [send] via NET/IBext_v10/1");
  const auto ids_on = [&](const std::string& log) { return ids(in_log(log, "hgx-h100")); };
  for (const std::string& log : {capable + sends, sends + capable, far, far + sends}) {
    EXPECT_THAT(ids_on(log), ElementsAre("nccl.gdr_distance")) << log;
    const Finding finding = explained(log).findings.at(0).finding;
    EXPECT_EQ(finding.severity, Severity::warning) << "nobody knows the host";
    EXPECT_THAT(finding.action, AllOf(HasSubstr("NCCL_TOPO_FILE"), Not(HasSubstr("nvidia_peermem"))));
  }
  EXPECT_THAT(ids_on(sends), ElementsAre("nccl.gdr_off"));
  EXPECT_THAT(ids_on(far + near), IsEmpty()) << "one NIC suffices";
  EXPECT_THAT(ids_on(far + near + sends), ElementsAre("nccl.gdr_off"));
  EXPECT_THAT(explained_ids(far + info("comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0")), IsEmpty());
}

TEST(NcclLog, concludes_nothing_from_what_a_cut_line_lacks) {
  const std::string sends = "Channel 00/0 : 9[1] -> 1[1] [send] via NET/Libfabric/0";
  const std::string retries = "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_3:1, retr";
  for (const auto& [cut, id] : {std::pair(sends, "nccl.gdr_off"), {retries, "nccl.ib_connect"}}) {
    std::string log = info("comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0");
    if (!log.ends_with('\n')) log += "\n";
    log += info(cut);
    if (log.ends_with('\n')) log.pop_back();
    EXPECT_THAT(ids(in_log(log)), IsEmpty()) << log;
    EXPECT_THAT(ids(in_log(log + "\n")), ElementsAre(id)) << log;
  }
}

TEST(NcclLog, tells_when_nvls_should_be_there) {
  const std::string off = info("NVLS multicast support is not available on dev 1 (NVLS_NCHANNELS 0)");
  EXPECT_THAT(ids(in_log(off)), ElementsAre("nccl.nvls_off"));
  EXPECT_THAT(ids(in_log(off, "p4d.24xlarge")), IsEmpty());
}

// SENDRECV on P4 does not keep the order of 128 bytes, which is normal there.
TEST(NcclLog, knows_what_is_ordinary_on_p4) {
  const std::string simple = warn("NET/OFI Need to force simple protocol: byte delivery ordering not supported");
  EXPECT_THAT(ids(in_log(simple, "p4d.24xlarge")), IsEmpty());
  EXPECT_THAT(ids(in_log(simple)), ElementsAre("nccl.simple_forced"));
}

// A line of tests/fixtures/nccl-log/lines.txt.
struct Recorded {
  std::string id, platform, known, line;
};

const std::filesystem::path fixtures = std::filesystem::path(P5BENCH_SOURCE_FOLDER) / "tests/fixtures/nccl-log";

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::vector<Recorded> recorded_lines() {
  std::vector<Recorded> all;
  std::istringstream lines(text_of(fixtures / "lines.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    std::vector<std::string> parts;
    for (std::size_t at; parts.size() < 3 && (at = line.find(" | ")) != std::string::npos; line.erase(0, at + 3))
      parts.push_back(line.substr(0, at));
    all.push_back({parts.at(0), parts.at(1), parts.at(2), line});
  }
  return all;
}

std::vector<Finding> in_recorded(const Recorded& each) {
  if (each.platform != "ib") return in_log(each.line, each.platform);
  Host host = host_of("hgx-h100");
  for (int i = 0; i < 8; ++i)
    host.nics.push_back({"mlx5_" + std::to_string(i), "infiniband", "mlx5_core", "up", GBps{50}, i / 4});
  return findings_in_log(each.line, host, &find_platform("hgx-h100"), 9);
}

TEST(NcclLog, shows_each_recorded_line_as_what_it_is) {
  for (const Recorded& each : recorded_lines()) {
    const std::vector<Finding> found = in_recorded(each);
    ASSERT_THAT(ids(found), ElementsAre(each.id)) << each.line;
    EXPECT_FALSE(found[0].action.empty());
    const auto is = [&](const FindingKind& kind) { return kind.id == each.id && kind.about == found[0].about; };
    EXPECT_TRUE(std::ranges::any_of(log_findings(), is)) << each.id << " is not listed so";
  }
}

TEST(NcclLog, has_a_recorded_line_for_each_wording_of_its_table) {
  std::set<const LogWording*> shown;
  for (const Recorded& each : recorded_lines())
    for (const LogMatch& match : rules_met(each.line))
      if (match.rule->id == each.id) shown.insert(match.wording);
  for (const LogRule& rule : log_rules())
    for (const LogWording& wording : rule.lines)
      EXPECT_TRUE(shown.contains(&wording)) << rule.id << ": " << wording.says << " " << wording.matches;
}

TEST(NcclLog, of_healthy_machines_of_all_kinds_says_nothing) {
  int read = 0;
  for (const auto& file : std::filesystem::directory_iterator(fixtures / "healthy")) {
    const std::string text = text_of(file.path()), name = file.path().stem();
    const std::vector<LogText> logs{{name, text}};
    for (const Explained& each : explain_logs(logs, nullptr).findings)
      ADD_FAILURE() << name << ":" << each.line << ": " << each.finding.id << " " << each.said;
    const std::string platform = name.substr(0, name.find("-plugin"));
    if (platform_of_instance_type(platform)) {
      EXPECT_THAT(ids(in_log(text, platform)), IsEmpty()) << name;
    }
    ++read;
  }
  EXPECT_GE(read, 8);
}

// `explain logs/*` with the logs of several jobs.
TEST(NcclLog, of_healthy_machines_says_nothing_beside_the_log_of_another_job) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& file : std::filesystem::directory_iterator(fixtures / "healthy")) {
    std::string text = text_of(file.path());
    const std::size_t id = text.find("commId 0x1");
    ASSERT_NE(id, std::string::npos) << file.path();
    all.emplace_back(file.path().stem(), text.replace(id, 10, "commId 0x" + std::to_string(all.size() + 1)));
  }
  for (const auto& [name, text] : all)
    for (const auto& [other, beside] : all) {
      const std::vector<LogText> logs{{name, text}, {other, beside}};
      for (const Explained& each : explain_logs(logs, nullptr).findings)
        ADD_FAILURE() << name << " and " << other << ": " << each.finding.id << " " << each.said;
    }
}

// Files of one job's ranks (NCCL_DEBUG_FILE), beside those of another job.
TEST(ExplainedLog, judges_the_files_of_a_job_by_each_other_and_not_by_another_job) {
  const auto init = [](const std::string& host, const std::string& id) {
    return host + ":1:2 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 16 cudaDev 0 busId 1000 commId " + id +
           " - Init COMPLETE\n";
  };
  const std::string efa = "a:1:2 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 32 nics)\n" +
                          init("a", "0x1"),
                    sockets = "b:1:2 [0] NCCL INFO Using network Socket\n";
  const std::string other = init("c", "0x2");
  const auto ids_of = [](const std::vector<LogText>& logs) {
    std::vector<std::string> found;
    for (const Explained& each : explain_logs(logs, nullptr).findings)
      if (each.finding.severity == Severity::error) found.push_back(each.finding.id);
    return found;
  };
  EXPECT_THAT(ids_of({{"0", efa}, {"1", sockets + init("b", "0x1")}, {"2", other}}), ElementsAre("nccl.sockets"));
  EXPECT_THAT(ids_of({{"0", efa}, {"1", sockets}}), ElementsAre("nccl.sockets")) << "one job alone";
  EXPECT_THAT(ids_of({{"0", efa}, {"1", sockets + init("b", "0x3")}}), IsEmpty());
}

// The remedy is the one for the host's network.
TEST(NcclLog, tells_hosts_with_infiniband_of_verbs_and_those_with_efa_of_the_plugin) {
  for (const Recorded& each : recorded_lines()) {
    if (each.id != "nccl.sockets" && each.id != "nccl.gdr_off") continue;
    const std::string action = in_recorded(each)[0].action;
    if (each.platform == "ib")
      EXPECT_THAT(action, AllOf(HasSubstr("NCCL_IB_HCA"), Not(HasSubstr("aws-ofi-nccl")), Not(HasSubstr("efa_nv"))));
    else
      EXPECT_THAT(action, AllOf(Not(HasSubstr("NCCL_IB_HCA")), AnyOf(HasSubstr("aws-ofi-nccl"), HasSubstr("efa_nv"))));
  }
}

TEST(ExplainedLog, reads_a_line_behind_whatever_launchers_put_before_it) {
  const std::string line = "gpu-a:401:460 [1] NCCL INFO Bootstrap : Using veth0a1b:10.0.0.1<0>";
  const std::vector<std::string> texts{
      line,
      "[pod/train-3/main] " + line,
      "[1,3]<stdout>: " + line,
      "[1,3]<stdout>:" + line,
      "[rank3]:" + line,
      "(worker pid=17, ip=10.0.0.1) " + line,
      "2026-11-20T10:00:00.123Z stdout F " + line,
      "Nov 20 10:00:00 gpu-a train[401]: " + line,
      "\033[36m(w)\033[0m " + line + "\033[0m\r",
      std::string(
          R"({"log":"\u001b[36mgpu-a:401:460 [1] NCCL INFO \u001b[33mBootstrap : Using veth0a1b:10.0.0.1<0>"})"),
      "gpu-a:401:460 [1] NCCL \033[1;32mINFO\033[0m Bootstrap : Using veth0a1b:10.0.0.1<0>"};
  for (const std::string& text : texts) {
    EXPECT_THAT(explained_ids(text + "\n"), ElementsAre("nccl.bootstrap")) << text;
    EXPECT_THAT(explained(text + "\n").findings[0].hosts, ElementsAre("gpu-a")) << text;
  }
}

TEST(ExplainedLog, says_where_how_often_and_of_which_hosts) {
  std::string text = "step 1\n" + info("NCCL version 2.27.7+cuda12.9") + "step 2\n";
  for (const char* host : {"n3", "n4", "n3"})
    text +=
        std::string(host) + ":1:2 [0] shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-x to 9 bytes\n";
  const Explanation all = explained(text);
  ASSERT_THAT(all.findings, SizeIs(1));
  const Explained& only = all.findings[0];
  EXPECT_EQ(only.finding.id, "nccl.shared_memory");
  EXPECT_EQ(only.file, "job.out");
  EXPECT_EQ(only.line, 4U);
  EXPECT_EQ(only.count, 3U);
  EXPECT_THAT(only.hosts, ElementsAre("n3", "n4"));
  EXPECT_THAT(only.said, StartsWith("Error: failed to extend"));
  EXPECT_THAT(all.nccl, ElementsAre("2.27.7"));
  EXPECT_EQ(all.lines, 6U);
  EXPECT_EQ(all.nccl_lines, 4U);
}

// Sockets are right on hosts without anything faster, and irrelevant within one node.
std::string timeout_of(int rank, int number, const std::string& operation) {
  return "[rank" + std::to_string(rank) + "]:[E1120 ProcessGroupNCCL.cpp:607] [Rank " + std::to_string(rank) +
         "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" + std::to_string(number) +
         ", OpType=" + operation + ", NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds\n";
}

TEST(ExplainedLog, tells_operations_apart_in_which_ranks_timed_out) {
  std::string text;
  for (int rank = 0; rank < 16; ++rank)
    text += rank == 5 ? timeout_of(rank, 1233, "BROADCAST") : timeout_of(rank, 1234, "ALLREDUCE");
  const Explanation all = explained(text);
  ASSERT_THAT(all.findings, SizeIs(1));
  EXPECT_THAT(all.findings[0].finding.evidence,
              StartsWith("rank 5 at BROADCAST number 1233, 15 ranks at ALLREDUCE number 1234: a collective"));
  EXPECT_EQ(all.findings[0].count, 16U);
}

TEST(ExplainedLog, names_the_rank_that_is_behind_or_absent_where_others_timed_out) {
  const auto evidence = [](const std::string& text) { return explained(text).findings.at(0).finding.evidence; };
  const std::string reduce = "ALLREDUCE";
  // A rank has not come further than the first operation that it waits in.
  std::string text = timeout_of(0, 96120, reduce) + timeout_of(0, 96117, reduce) + timeout_of(7, 64088, reduce);
  EXPECT_THAT(evidence(text), StartsWith("rank 7 at ALLREDUCE number 64088, rank 0 at ALLREDUCE number 96117: "));
  // A line without the operation's name beside one that has it.
  text = "[rank2]:[E x.cpp:1709] [Rank 2] Timeout at NCCL work: 7, last\n";
  for (const std::string& both : {text + timeout_of(2, 7, reduce), timeout_of(2, 7, reduce) + text})
    EXPECT_THAT(evidence(both), StartsWith("rank 2 at ALLREDUCE number 7: "));
  text.clear();
  for (const int rank : {1, 3, 2, 6, 7}) text += timeout_of(rank, 12, reduce);
  EXPECT_THAT(evidence(text),
              StartsWith("5 ranks at ALLREDUCE number 12; no such line of ranks 0, 4, 5 (if their logs are "
                         "given): "));
  text.clear();
  for (int rank = 0; rank < 1000; ++rank) text += timeout_of(rank, rank, reduce);
  EXPECT_THAT(evidence(text), HasSubstr("rank 3 at ALLREDUCE number 3, 996 more up to number 999: "));
  // Numbers that are no ranks, or too large.
  EXPECT_THAT(evidence(timeout_of(2147483647, 1, reduce)), StartsWith("rank 2147483647 at "));
  const std::string huge =
      timeout_of(1, 1, reduce).replace(timeout_of(1, 1, reduce).find("SeqNum=") + 7, 1, std::string(40, '9'));
  EXPECT_THAT(evidence(huge), StartsWith("a collective did not finish"));
}

// Each process group counts its collectives on its own.
TEST(ExplainedLog, names_the_rank_that_is_behind_within_its_process_group) {
  const auto timeout_in = [](const std::string& group, int rank, int number) {
    std::string line = timeout_of(rank, number, "ALLREDUCE");
    return line.replace(line.find("[Rank "), 6, "[PG " + group + " Rank ");
  };
  const std::string tensor = "ID 3 PG GUID 7(TENSOR_MODEL_PARALLEL_GROUP)";
  std::string text = timeout_in("ID 2 PG GUID 5(DATA_PARALLEL_GROUP)", 0, 12) +
                     timeout_in("ID 2 PG GUID 6(DATA_PARALLEL_GROUP)", 1, 12) + timeout_in(tensor, 2, 815) +
                     timeout_in(tensor, 3, 814);
  EXPECT_THAT(
      explained_evidence(text),
      ElementsAre(StartsWith("in 7(TENSOR_MODEL_PARALLEL_GROUP) rank 3 at ALLREDUCE number 814, rank 2 at "
                             "ALLREDUCE number 815; in 5(DATA_PARALLEL_GROUP) rank 0 at ALLREDUCE number 12; in "
                             "6(DATA_PARALLEL_GROUP) rank 1 at ALLREDUCE number 12: a collective")));
  // Many groups do not hide the rank, one rank waits in several of them, and the forms of PyTorch 2.3 and 2.4.
  for (int group = 10; group < 20; ++group) text += timeout_in(std::to_string(group), 3, 5);
  EXPECT_THAT(explained_evidence(text), ElementsAre(AllOf(StartsWith("in 7(TENSOR_MODEL_PARALLEL_GROUP) rank 3 at "),
                                                          HasSubstr("; 9 more groups: a collective"))));
  EXPECT_THAT(
      explained_evidence(timeout_in("1 (tp)", 0, 5) + timeout_in("2 (tp)", 2, 6)),
      ElementsAre(StartsWith("in 1 (tp) rank 0 at ALLREDUCE number 5; in 2 (tp) rank 2 at ALLREDUCE number 6; no "
                             "such line of rank 1 (if its log is given): ")));
}

// Logs are appended to, and the numbers of each attempt begin anew.
TEST(ExplainedLog, takes_the_newest_attempt_of_a_job_that_was_started_again) {
  const auto timeout_at = [](const std::string& minute, int rank, int number) {
    std::string line = timeout_of(rank, number, "ALLREDUCE");
    return line.insert(line.find("Process"), "10:" + minute + ":0" + std::to_string(rank) + ".123456789 ");
  };
  for (const auto& [earlier, later] : {std::pair(57, 96117), {96117, 57}}) {
    std::string first, second;
    std::vector<std::string> of_ranks(8);
    for (int rank = 0; rank < 8; ++rank) {
      const std::string before = rank == 5 ? "" : timeout_at("20", rank, earlier),
                        after = rank == 2 ? "" : timeout_at("31", rank, later);
      first += before;
      second += after;
      of_ranks[static_cast<std::size_t>(rank)] = before + after;
    }
    std::vector<LogText> files;
    for (const std::string& each : of_ranks) files.push_back({"err", each});
    const std::string wanted = "7 ranks at ALLREDUCE number " + std::to_string(later) +
                               "; no such line of rank 2 (if its log is given): a collective";
    EXPECT_THAT(explained_evidence(first + second), ElementsAre(StartsWith(wanted)));
    EXPECT_THAT(explained_evidence(second + first), ElementsAre(StartsWith(wanted)));
    EXPECT_THAT(explain_logs(files, nullptr).findings.at(0).finding.evidence, StartsWith(wanted));
  }
  // A rank that is late is no new attempt: no rank was started again.
  EXPECT_THAT(explained_evidence(timeout_at("20", 0, 58) + timeout_at("21", 0, 58) + timeout_at("35", 1, 57)),
              ElementsAre(StartsWith("rank 1 at ALLREDUCE number 57, rank 0 at ALLREDUCE number 58: ")));
}

TEST(ExplainedLog, keeps_the_ranks_of_several_jobs_apart) {
  const auto log_of = [](const std::string& host, const std::string& id, int number) {
    return host + ":1:2 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 0 nranks 16 cudaDev 0 busId 1000 commId " + id +
           " - Init COMPLETE\n" + timeout_of(0, number, "ALLREDUCE");
  };
  const std::string one = log_of("a", "0x1", 12), other = log_of("b", "0x2", 9);
  const std::vector<LogText> logs{{"a.err", one}, {"b.err", other}};
  EXPECT_THAT(
      explain_logs(logs, nullptr).findings.at(0).finding.evidence,
      StartsWith("a.err: rank 0 at ALLREDUCE number 12; b.err: rank 0 at ALLREDUCE number 9: a collective did not"));
}

TEST(ExplainedLog, names_the_ranks_that_pytorch_and_ras_name) {
  EXPECT_THAT(explained_evidence("[rank1]:[E x.cpp:1316] [PG 0 Rank 1] Heartbeat monitor timed out! Process will be "
                                 "terminated after dumping debug info. workMetaList_.size()=103\n"
                                 "[rank0]:[E x.cpp:1316] [PG 0 Rank 0] Heartbeat monitor timed out! Process will be "
                                 "terminated after dumping debug info. workMetaList_.size()=84\n"),
              ElementsAre(StartsWith("rank 0 at number 84, rank 1 at number 103: PyTorch's watchdog")));
  EXPECT_THAT(
      explained_evidence("[rank3]:[E x.cpp:1709] [PG 0 (default_pg) Rank 3] Timeout at NCCL work: 2070, last\n"),
      ElementsAre(StartsWith("rank 3 at number 2070: ")));
  EXPECT_THAT(explained_evidence(" - [0] Timeout at collective: ALLREDUCE, #3\n"
                                 "    [1] finished collective #2, but didn't join collective #3 (count from 1)\n"),
              ElementsAre(StartsWith("rank 1 finished collective 2 and did not join collective 3: ")));
  EXPECT_THAT(explained_evidence("RuntimeError: Detected mismatch between collectives on ranks. Rank 4 is running "
                                 "collective: CollectiveFingerPrint(OpType=ALLREDUCE), but Rank 0 is running "
                                 "collective: CollectiveFingerPrint(OpType=BROADCAST).\n"),
              ElementsAre(StartsWith("Rank 4: ")));
  EXPECT_THAT(explained_evidence("  Rank 12 -- GPU 4 managed by process 3230 on node 10.1.0.7\n"),
              ElementsAre(StartsWith("rank 12 (GPU 4 on 10.1.0.7): ")));
  EXPECT_THAT(explained_evidence("[rank29]:[E x.cpp:1923] [PG ID 5 PG GUID 83(TP) Rank 1] Process group watchdog "
                                 "thread terminated with exception: CUDA error: unspecified launch failure\n"),
              ElementsAre(StartsWith("rank 29, unspecified launch failure: ")));
  EXPECT_THAT(explained_evidence("DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId "
                                 "from [0] via c10d key-value store by key '0'\n"),
              ElementsAre(StartsWith("rank 3 waits for rank 0: ")));
}

// Counts of a job that runs differ, too, while RAS collects them; only a process without an answer is an error.
TEST(ExplainedLog, takes_ranks_that_ras_finds_behind_for_a_warning_and_a_process_without_an_answer_for_an_error) {
  const Explanation running = explained(
      "  Communicator ranks have different AllReduce operation counts\n"
      "  31 ranks have launched up to operation 6650\n"
      "  Rank 21 has launched up to operation 6649 -- GPU 0 (NVML 5) managed by process 3487984 on node 10.1.0.7\n");
  ASSERT_THAT(running.findings, SizeIs(2));
  for (const Explained& each : running.findings) EXPECT_EQ(each.finding.severity, Severity::warning);
  EXPECT_THAT(running.findings[1].finding.evidence, StartsWith("rank 21 (GPU 0 (NVML 5) on 10.1.0.7): "));
  const Explanation lost = explained(
      "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
      "  Process 3487984 on node 10.1.0.7 managing GPUs 4,5\n"
      "  Missing communicator data from 1 rank\n  The missing rank: 21\n");
  ASSERT_THAT(lost.findings, SizeIs(2));
  for (const Explained& each : lost.findings) {
    EXPECT_EQ(each.finding.id, "nccl.ras_lost");
    EXPECT_EQ(each.finding.severity, Severity::error);
  }
  EXPECT_THAT(lost.findings[1].finding.evidence, StartsWith("the process 3487984 with GPU 4,5 on 10.1.0.7: "));
  // The monitor of RAS names processes that are well in the same words.
  for (const char* event : {"PEER_NEW", "PEER_CONNECTED", "PEER_RECOVERED"})
    EXPECT_THAT(explained_ids("[2026-11-20 10:00:00] " + std::string(event) +
                              ": Process 1524345 on node 10.1.0.7 managing GPU 1\n"),
                IsEmpty());
}

TEST(ExplainedLog, keeps_few_lines_of_a_kind_apart) {
  std::string text;
  for (int peer = 0; peer < 1000; ++peer)
    text += info("NET/IB: Got completion from peer h" + std::to_string(peer) + "<1> with status=12 opcode=0 len=0");
  const Explanation all = explained(text);
  ASSERT_THAT(all.findings, SizeIs(9));
  EXPECT_THAT(all.findings[8].finding.evidence, StartsWith("others: messages"));
  EXPECT_EQ(all.findings[8].count, 992U);
}

TEST(ExplainedLog, takes_little_time_for_many_hosts) {
  std::string text;
  constexpr std::size_t hosts = 100'000;
  for (std::size_t i = 0; i < hosts; ++i)
    text +=
        "h" + std::to_string(i) + ":1:2 [0] shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/x to 9 bytes\n";
  const std::clock_t begin = std::clock();
  EXPECT_THAT(explained(text).findings.at(0).hosts, SizeIs(hosts));
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 10);
}

TEST(ExplainedLog, takes_what_depends_on_the_host_for_a_warning_until_the_log_tells) {
  const std::string sockets = info("Using network Socket");
  const auto severity = [](const std::string& text) { return explained(text).findings.at(0).finding.severity; };
  EXPECT_EQ(severity(sockets), Severity::warning);
  EXPECT_THAT(explained(sockets).findings[0].finding.action, AllOf(HasSubstr("libibverbs"), HasSubstr("fi_info")));
  EXPECT_EQ(severity(info("NET/OFI Running on p5.48xlarge platform, topology file x") + sockets), Severity::error);
  EXPECT_EQ(severity(sockets + info("NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>")), Severity::error);
  EXPECT_EQ(explained(sockets, &find_platform("p5.48xlarge")).findings.at(0).finding.severity, Severity::error);
  const auto nodes = [](int count) {
    return info("comm 0x1 rank 0 nRanks 8 nNodes " + std::to_string(count) + " localRanks 4 localRank 0 MNNVL 0");
  };
  EXPECT_THAT(explained_ids(sockets + nodes(1)), IsEmpty());
  EXPECT_THAT(explained_ids(sockets + nodes(1) + nodes(2)), ElementsAre("nccl.sockets"));
  EXPECT_THAT(explained(sockets).findings[0].finding.evidence, Not(HasSubstr("there is a fabric"))) << "nobody knows";
  const auto listed = [](int rank, const std::string& host) {
    return "[1,0]<stdout>:#  Rank  " + std::to_string(rank) + " Group  0 Pid   8756 on     " + host +
           " device  0 [0x01] NVIDIA H100\n";
  };
  const std::string before_2_17 = "#   Rank  0 Pid    225 on node-a device  0 [0xc1] NVIDIA A100\n";
  EXPECT_THAT(explained_ids(listed(0, "a") + listed(1, "a") + sockets), IsEmpty());
  EXPECT_THAT(explained_ids(before_2_17 + sockets), IsEmpty());
  EXPECT_THAT(explained_ids(listed(0, "a") + listed(1, "b") + sockets), ElementsAre("nccl.sockets"));
  EXPECT_THAT(explained_ids(listed(8, "b") + listed(9, "b") + sockets), ElementsAre("nccl.sockets")) << "an excerpt";
  EXPECT_THAT(explained_ids(listed(0, "a") + nodes(2) + sockets), ElementsAre("nccl.sockets"));
}

// NCCL from 2.24.3 on says so on a host that has neither InfiniBand nor RoCE.
TEST(ExplainedLog, does_not_take_relaxed_ordering_for_an_infiniband_device) {
  const std::string none = info("NET/IB : No device found.") + info("NET/IB : Using [RO]; OOB eth0:10.0.4.51<0>");
  EXPECT_THAT(explained_ids(none), IsEmpty());
  const auto severity = [](const std::string& text) { return explained(text).findings.at(0).finding.severity; };
  EXPECT_EQ(severity(none + info("Using network Socket")), Severity::warning) << "the log names no fabric";
  const std::string plugin = info("NET/OFI No eligible providers were found");
  EXPECT_THAT(explained_ids(plugin + none + info("Using network Socket")),
              ElementsAre("nccl.provider", "nccl.sockets"));
  EXPECT_THAT(explained_ids(info("NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.4.52<0>") + none),
              ElementsAre("nccl.verbs_missing"));
}

// The machine's type is unknown, but one rank finds fewer NICs than another.
TEST(ExplainedLog, holds_numbers_of_nics_against_each_other) {
  const auto found = [](const char* host, int nics) {
    return std::string(host) + ":1:2 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found " +
           std::to_string(nics) + " nics)\n";
  };
  EXPECT_THAT(explained_ids(found("n1", 16) + found("n2", 16)), IsEmpty());
  const Explanation all = explained(found("n1", 16) + found("n2", 15) + found("n3", 16));
  ASSERT_THAT(all.findings, SizeIs(1));
  EXPECT_EQ(all.findings[0].finding.id, "nccl.nic_count");
  EXPECT_THAT(all.findings[0].finding.evidence, StartsWith("15 nics here, 16 elsewhere"));
  EXPECT_THAT(all.findings[0].hosts, ElementsAre("n2"));
}

TEST(ExplainedLog, names_the_peer_that_is_not_reached) {
  const Explanation all = explained(
      warn("NET/IB: Got completion from peer 10.1.0.7<41712> with status=12 opcode=0 len=0 vendor err 129 (Send)"));
  ASSERT_THAT(all.findings, SizeIs(1));
  EXPECT_THAT(all.findings[0].finding.evidence, HasSubstr("10.1.0.7<41712>"));
}

TEST(ExplainedLog, names_the_instance_of_the_peer_that_efa_does_not_reach) {
  const std::string addresses =
      " My EFA addr: fi_addr_efa://[fe80::1]:1:2 My host id: i-0aa1 Peer EFA addr: "
      "fi_addr_efa://[fe80::2]:3:4 Peer host id: i-0bb2";
  for (const auto& [text, id] :
       {std::pair("err: 5, message: Invalid address" + addresses + " (7)", "nccl.peer_died"),
        {"Error: 13 (Unresponsive remote (was previously responsive)" + addresses + ")", "nccl.peer_died"},
        {"Error: 15 (Unreachable remote - never received a response" + addresses + ")", "nccl.unreachable"}}) {
    const Explanation all = explained(warn("NET/OFI Request completed with error. " + text));
    ASSERT_THAT(all.findings, SizeIs(1)) << text;
    EXPECT_EQ(all.findings[0].finding.id, id);
    EXPECT_THAT(all.findings[0].finding.evidence, StartsWith("the peer is i-0bb2: "));
  }
  EXPECT_THAT(explained_ids(warn("message: Invalid address handle (4)")), IsEmpty()) << "one of this host";
}

TEST(ExplainedLog, names_the_rank_of_a_mismatched_collective) {
  const Explanation all =
      explained(warn("Mismatched collective detected, please check your collective calls at and "
                     "around rank 39. You can use NCCL_DEBUG=INFO"));
  ASSERT_THAT(all.findings, SizeIs(1));
  EXPECT_EQ(all.findings[0].finding.id, "nccl.mismatch");
  EXPECT_THAT(all.findings[0].finding.evidence, StartsWith("around rank 39: "));
}

// The peer is named as in the log, even where that looks like a placeholder.
TEST(ExplainedLog, takes_names_out_of_the_log_as_they_are) {
  const Explanation all =
      explained(warn("NET/IB: Got completion from peer %1 with status=12 opcode=0 len=0 vendor err 129 (Send)") +
                info("Bootstrap : Using docker%2:172.17.0.1<0>"));
  ASSERT_THAT(all.findings, SizeIs(2));
  EXPECT_THAT(all.findings[0].finding.evidence, HasSubstr("peer at %1: "));
  EXPECT_THAT(all.findings[1].finding.evidence, HasSubstr("docker%2 leads"));
}

TEST(ExplainedLog, takes_no_failed_device_or_queue_pair_for_a_port_that_changed) {
  const auto found = [](const std::string& text) {
    const Finding finding = explained(warn("NET/IB : " + text)).findings.at(0).finding;
    return std::pair(finding.id, finding.severity);
  };
  for (const char* device : {"Got async event : local catastrophic error", "mlx5_3:1 async fatal event: unknown",
                             "mlx5_3:1 async fatal event on CQ (0x7f0): CQ error"})
    EXPECT_EQ(found(device), std::pair(std::string("nccl.ib_device"), Severity::error)) << device;
  for (const char* queue : {"Got async event : local access violation work queue error",
                            "mlx5_3:1 async fatal event on QP (0x7f0): local work queue catastrophic error"})
    EXPECT_EQ(found(queue), std::pair(std::string("nccl.ib_access"), Severity::error)) << queue;
  for (const char* port : {"Got async event : port error", "mlx5_3:1 Got async event : port active",
                           "mlx5_3:1 Got async error event: port error"})
    EXPECT_EQ(found(port), std::pair(std::string("nccl.ib_event"), Severity::warning)) << port;
}

TEST(ExplainedLog, looks_at_all_interfaces_that_nccl_lists) {
  for (const auto& [listed, named] :
       {std::pair("NET/Socket : Using [0]ens5:10.0.0.1<0> [1]veth0a1b:fe80::1%veth0a1b<0>", "veth0a1b leads"),
        {"NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:fe80::1%eth1<0> [2]eth2:10.2.0.1<0>",
         "eth1:fe80::1%eth1 leads"},
        {"Bootstrap : Using [0]eno1:10.0.0.1<0> [1]br-1a2b3c4d5e6f:172.18.0.1<0>", "br-1a2b3c4d5e6f leads"},
        {"NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB docker0:172.17.0.1<0>", "docker0 leads"}}) {
    const Explanation all = explained(info(listed));
    ASSERT_THAT(all.findings, SizeIs(1)) << listed;
    EXPECT_EQ(all.findings[0].finding.id, "nccl.bootstrap");
    EXPECT_THAT(all.findings[0].finding.evidence, StartsWith(named));
  }
  for (const char* listed :
       {"NET/Socket : Using [0]ens5:10.0.0.1<0> [1]ens6:2001:db8::fe80:1<0>", "Bootstrap : Using br-ex:10.0.0.1<0>",
        "Bootstrap : Using lowpan0:10.0.0.1<0>", "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.0.0.1<0>"})
    EXPECT_THAT(explained_ids(info(listed)), IsEmpty()) << listed;
}

// Errors that follow the teardown of a queue are no faults of their own.
TEST(ExplainedLog, takes_a_flushed_request_for_a_consequence) {
  EXPECT_THAT(explained_ids(warn("NET/IB: Got completion from peer 10.1.0.7<41712> with status=5 opcode=0 len=0 "
                                 "vendor err 249 (Recv)")),
              IsEmpty());
}

// Lines of dmesg, dmesg -T, journalctl, syslog and /dev/kmsg.
TEST(ExplainedLog, names_the_gpu_of_an_xid_before_what_its_peers_say) {
  const std::string peer =
      warn("NET/IB: Got completion from peer 10.1.0.7<41712> with status=12 opcode=0 len=0 vendor err 129 (Send)");
  const std::string xid =
      "NVRM: Xid (PCI:0000:91:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";
  for (const char* before : {"[6781741.548779] ", "[Sun Nov 22 16:24:18 2026] ", "kernel: ", "6,3964,206764307,-;"}) {
    const Explanation all = explained(peer + before + xid + "\n");
    ASSERT_THAT(all.findings, SizeIs(2)) << before;
    EXPECT_EQ(all.findings[0].finding.id, "gpu.xid") << before;
    EXPECT_EQ(all.findings[0].finding.severity, Severity::error);
    EXPECT_EQ(all.findings[0].finding.about, About::hardware);
    EXPECT_EQ(all.findings[0].finding.subject.xid, 79);
    EXPECT_THAT(all.findings[0].finding.evidence, StartsWith("Xid 79 of the GPU at 0000:91:00: "));
    EXPECT_THAT(all.findings[0].finding.action, HasSubstr("reboot"));
    EXPECT_EQ(all.findings[1].finding.id, "nccl.ib_path");
  }
  const Explanation named = explained("Nov 22 10:00:00 gpu-a kernel: [12.5] " + xid + "\n");
  EXPECT_THAT(named.findings.at(0).finding.evidence, StartsWith("Xid 79 of the GPU at 0000:91:00 of gpu-a: "));
  EXPECT_EQ(named.findings.at(0).finding.subject.host, "gpu-a");
}

TEST(ExplainedLog, keeps_the_gpus_and_switches_of_xids_apart) {
  std::string text;
  for (int gpu = 0; gpu < 16; ++gpu)
    text += "NVRM: Xid (PCI:0000:" + std::to_string(10 + gpu) + ":00): 119, pid=1, name=a, Timeout\n";
  text += text + "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 24007, Fatal, Link 48 sourcetrack timeout error\n";
  const Explanation all = explained(text);
  ASSERT_THAT(all.findings, SizeIs(17));
  EXPECT_EQ(all.findings[15].count, 2U);
  EXPECT_EQ(all.findings[16].finding.about, About::fabric);
  EXPECT_THAT(all.findings[16].finding.evidence, StartsWith("SXid 24007 of the NVSwitch at 0000:06:00.0: "));
  const std::string xid = "NVRM: Xid (PCI:0000:91:00): 79, GPU has fallen off the bus.\n";
  const std::vector<LogText> logs{{"dmesg-a", xid}, {"dmesg-b", xid}};
  const Explanation of_two = explain_logs(logs, nullptr);
  ASSERT_THAT(of_two.findings, SizeIs(2));
  EXPECT_THAT(of_two.findings[1].finding.evidence, HasSubstr("0000:91:00 in dmesg-b"));
}

TEST(ExplainedLog, drops_xids_that_a_reset_or_a_start_of_the_driver_ended) {
  const std::string ecc = "NVRM: Xid (PCI:0000:91:00): 95, pid=1, name=a, Uncontained ECC error\n";
  const std::string reset =
      "NVRM: Xid (PCI:0000:91:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)\n";
  EXPECT_THAT(explained_ids(ecc + "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95\n"), IsEmpty());
  for (const Explained& each : explained(ecc + reset).findings) EXPECT_EQ(each.finding.severity, Severity::info);
  EXPECT_EQ(explained(ecc + reset + ecc).findings.at(0).finding.severity, Severity::error);
}

// dmesg of each host has the start of its driver, and GPUs of equal hosts have equal addresses.
TEST(ExplainedLog, keeps_the_kernel_logs_of_several_hosts_in_one_file_apart) {
  const std::string start = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95\n",
                    lost = "NVRM: Xid (PCI:0000:53:00): 79, pid=1, name=a, GPU has fallen off the bus.\n",
                    hung = "NVRM: Xid (PCI:0000:53:00): 119, pid=1, name=a, Timeout after 6s of waiting for RPC\n",
                    reset =
                        "NVRM: Xid (PCI:0000:53:00): 154, GPU recovery action changed from 0x1 (GPU Reset "
                        "Required) to 0x0 (None)\n";
  const auto of_two = [&](const std::string& one, const std::string& other, const std::string& first,
                          const std::string& then) {
    return explained(one + "[    5.1] " + start + one + "[ 9123.1] " + first + other + "[    5.2] " + start + other +
                     "[ 9100.0] " + then);
  };
  const std::string quiet = "systemd[1]: Started Session 7\n";
  for (const auto& [one, other, where] :
       {std::tuple{"node1: ", "node2: ", " of node1: "}, {"0: ", "1: ", " of task 0: "}, {"", "", ": "}}) {
    const Explanation all = of_two(one, other, lost, quiet);
    ASSERT_THAT(all.findings, SizeIs(1)) << one;
    EXPECT_THAT(all.findings[0].finding.evidence, StartsWith("Xid 79 of the GPU at 0000:53:00" + std::string(where)));
    EXPECT_EQ(all.findings[0].finding.subject.host, one == std::string("node1: ") ? "node1" : "");
    EXPECT_THAT(of_two(one, other, lost, lost).findings, SizeIs(2)) << one;
    EXPECT_EQ(of_two(one, other, hung, reset).findings.at(0).finding.severity, Severity::error) << one;
  }
  EXPECT_THAT(of_two("", "", lost, lost).findings[1].finding.evidence,
              HasSubstr("0000:53:00 in job.out from line 3 on"));
  EXPECT_THAT(explained_ids("[Sun Nov 22 16:24:18 2026] " + lost + "[Sat Nov 21 10:00:00 2026] " + start),
              ElementsAre("gpu.xid"));
  EXPECT_THAT(
      explained_ids("[Sat Nov 28 22:10:03 2026] " + lost +
                    "[Sat Nov 28 23:00:01 2026] Linux version 6.8.0-1018-aws\n[Sat Nov 28 23:00:20 2026] " + start),
      ElementsAre("gpu.xid"));
  // A driver that was loaded again, behind lines that are out of order.
  EXPECT_THAT(explained_ids("[ 12.5] " + lost + "[ 99.200001] eth0: up\n[ 99.200000] eth1: up\n[ 99.9] " + start),
              IsEmpty());
}

TEST(ExplainedLog, drops_a_gpu_that_was_lost_before_the_driver_started_again) {
  const std::string before = "Nov 27 10:00:01 gpu-a kernel: ",
                    start = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95\n",
                    lost = "NVRM: GPU 0000:53:00.0: GPU has fallen off the bus.\n";
  EXPECT_THAT(explained_ids(before + start + before + lost + before + start), IsEmpty());
  const Explanation all = explained(before + start + before + lost);
  ASSERT_THAT(all.findings, SizeIs(1));
  EXPECT_EQ(all.findings[0].finding.id, "nccl.gpu_lost");
  EXPECT_EQ(all.findings[0].finding.subject.host, "gpu-a");
}

TEST(ExplainedLog, names_the_rank_whose_gpu_failed_before_the_ranks_that_waited) {
  const std::string failed =
      "[E ProcessGroupNCCL.cpp:916] [Rank 1] NCCL watchdog thread terminated with exception: "
      "CUDA error: uncorrectable ECC error encountered\n";
  EXPECT_THAT(explained_ids(timeout_of(0, 808, "ALLREDUCE") + failed), ElementsAre("nccl.gpu_failed", "nccl.watchdog"));
  EXPECT_THAT(explained_evidence(failed), ElementsAre(StartsWith("rank 1: ")));
  EXPECT_THAT(explained_evidence("Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.\n"),
              ElementsAre(StartsWith("GPU 0000:02:00.0: ")));
}

TEST(ExplainedLog, tells_of_warnings_that_no_rule_knows) {
  const std::string unknown = "c.cc:1 NCCL WARN a warning of a later release\n";
  const Explanation all = explained("n1:1:2 [0] " + unknown + "n1:1:2 [0] c.cc:2 NCCL WARN another\n" + "n2:1:2 [0] " +
                                    unknown + info("a remark that no rule knows"));
  EXPECT_THAT(all.findings, IsEmpty());
  ASSERT_THAT(all.unknown, SizeIs(2));
  EXPECT_EQ(all.unknown[0].host, "n1");
  EXPECT_THAT(all.unknown[0].said, StartsWith("a warning of a later"));
  EXPECT_EQ(all.unknown[0].line, 1U);
  EXPECT_EQ(all.unknown[0].count, 2U);
  EXPECT_EQ(all.unknown[1].host, "n2");
  // A rule knows these, on whatever hosts it is irrelevant.
  EXPECT_THAT(explained(warn("NET/OFI Need to force simple protocol: GDR not supported")).unknown, IsEmpty());
  EXPECT_THAT(explained(timeout_of(0, 1, "ALLREDUCE")).unknown, IsEmpty());
}

TEST(ExplainedLog, takes_what_pytorch_quotes_of_nccl_for_a_warning) {
  const std::string before =
      "rank-1: torch.distributed.DistBackendError: NCCL error in: x.cpp:1197, unhandled cuda "
      "error, NCCL version 2.18.3\nrank-1: Last error:\n";
  const Explanation all = explained(before + "rank-1: a failure of a later release\nrank-1: the end\n");
  ASSERT_THAT(all.unknown, SizeIs(1));
  EXPECT_THAT(all.unknown[0].said, HasSubstr("a failure of a later release"));
  EXPECT_EQ(all.unknown[0].count, 1U);
  EXPECT_THAT(explained(before + "rank-1: Cuda failure 'uncorrectable ECC error encountered'\n").unknown, IsEmpty());
  // Ranks that fail together, whose lines PyTorch marks.
  const Explanation mixed = explained(
      "[rank0]: Last error:\n[rank3]: Last error:\n[rank5]: Traceback (most recent call last):\n"
      "[rank0]: Cuda failure 'uncorrectable ECC error encountered'\n[rank3]: a failure of a later release\n");
  ASSERT_THAT(mixed.unknown, SizeIs(1));
  EXPECT_THAT(mixed.unknown[0].said, HasSubstr("a failure of a later release"));
  EXPECT_EQ(mixed.unknown[0].count, 1U);
}

// Tools that keep a job's output as one JSON string, and launchers that glue lines, leave one line of the file.
TEST(ExplainedLog, parts_lines_that_stand_in_one_line_of_the_file) {
  const std::vector<std::string> lines{
      "node-a:4101:4201 [0] NCCL INFO NCCL version 2.27.7+cuda12.9",
      "node-b:5100:5100 [0] NCCL INFO Channel 00/0 : 9[1] -> 10[2] via P2P/CUMEM/read",
      "node-b:5101:5201 [3] enqueue.cc:1500 NCCL WARN Cuda failure 'uncorrectable ECC error encountered'",
      "[2026-11-20 10:00:00] node-c:5101:5201 [3] misc/socket.cc:50 NCCL WARN socketStartConnect: exceeded retries",
      "node-a:4101:4201 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[2] via P2P/CUMEM/read"};
  const auto joined = [&](const std::string& between) {
    std::string text;
    for (const std::string& line : lines) text += (text.empty() ? "" : between) + line;
    return text;
  };
  const auto essence = [](const Explanation& all) {
    std::vector<std::string> found{all.nccl.empty() ? "" : all.nccl.front(), std::to_string(all.nccl_lines)};
    for (const Explained& each : all.findings) {
      found.push_back(each.finding.id + " " + each.finding.subject.host);
      found.insert(found.end(), each.hosts.begin(), each.hosts.end());
    }
    return found;
  };
  const std::vector<std::string> expected = essence(explained(joined("\n") + "\n"));
  ASSERT_THAT(expected,
              ElementsAre("2.27.7", "5", "nccl.gpu_failed node-b", "node-b", "nccl.connect node-c", "node-c"));
  const std::string docker = joined("\\n\",\"stream\":\"stdout\"}\n{\"log\":\"");
  for (const std::string& text :
       {"{\"InstanceId\": \"i-0\", \"StandardOutputContent\": \"" + joined("\\n") + "\\n\"}\n",
        "node-0 | CHANGED => {\"stdout\": \"" + joined("\\r\\n") + "\"}\n", joined("\t") + "\n",
        "{\"log\":\"" + docker + "\\n\"}\n"})
    EXPECT_EQ(essence(explained(text)), expected) << text;
  // Only lines that begin say which end of "readnode-b" is the host.
  EXPECT_EQ(essence(explained(lines[0] + "\n" + lines[1] + "\n" + lines[4] + lines[2] + lines[3] + "\n")), expected);
  EXPECT_EQ(explained("{\"log\":\"" + docker + "\\n\"}\n").lines, lines.size());
}

TEST(ExplainedLog, reads_lines_of_any_length_and_of_any_bytes) {
  const std::string long_line(3'000'000, 'c');
  EXPECT_THAT(explained_ids(long_line + "onnect failed" + long_line + info("Using network Socket") + "\xff\xfe\x00\n"),
              ElementsAre("nccl.sockets"));
  EXPECT_THAT(explained_ids(""), IsEmpty());
}

TEST(NcclLog, knows_how_connections_fail_in_other_versions_and_which_retries_are_no_fault) {
  for (const char* line : {"socketPollConnect: connect returned Connection refused, exceeded error retry count (35)",
                           "socketStartConnect: Connect to 10.0.0.12<37857> failed : No route to host",
                           "socketStartConnect: Connect to 10.0.0.12<37857> failed : Software caused connection abort",
                           "Net : Connect to fe80::1%ib1<37857> failed : Connection refused",
                           "socketStartConnect: exceeded retries (20000)"})
    EXPECT_THAT(ids(in_log(warn(line))), ElementsAre("nccl.connect")) << line;
  EXPECT_THAT(ids(in_log(info("socketPollConnect: connect to 10.0.0.12<37857> returned Connection refused, retrying "
                              "(1/34) after sleep for 100 msec"))),
              IsEmpty());
  EXPECT_THAT(explained(warn("socketStartConnect: Connect to 10.0.0.12<37857> failed : Connection refused"))
                  .findings.at(0)
                  .finding.evidence,
              StartsWith("to 10.0.0.12: "));
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
