// What workers are told of interfaces, and what their operator is told.
#include "bench/app/machine/worker_interfaces.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace p5 {
namespace {

using testing::HasSubstr;
using testing::Not;

bool chooses(const Environment& environment, const std::map<std::string, std::string>& files = {}) {
  return chooses_nccl_interfaces(environment, [&](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(WorkerInterfaces, what_the_operator_said_to_nccl_is_a_choice) {
  EXPECT_FALSE(chooses({{"HOME", "/root"}}));
  EXPECT_TRUE(chooses({{"NCCL_SOCKET_IFNAME", "lo"}}));
  EXPECT_TRUE(chooses({{"NCCL_COMM_ID", "10.0.0.1:7777"}}));
  EXPECT_FALSE(chooses({{"NCCL_SOCKET_IFNAME", ""}}));  // so a variable is removed
}

TEST(WorkerInterfaces, so_is_what_stands_in_nccls_files) {
  const std::string line = "NCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME=eth1\n";
  EXPECT_TRUE(chooses({}, {{"/etc/nccl.conf", line}}));
  EXPECT_TRUE(chooses({{"HOME", "/home/u"}}, {{"/home/u/.nccl.conf", line}}));
  EXPECT_TRUE(chooses({{"NCCL_CONF_FILE", "/job.conf"}}, {{"/job.conf", line}}));
  EXPECT_FALSE(chooses({{"HOME", "/home/u"}, {"NCCL_CONF_FILE", "/job.conf"}}, {{"/home/u/.nccl.conf", line}}));
  EXPECT_FALSE(chooses({}, {{"/etc/nccl.conf", "# NCCL_SOCKET_IFNAME=eth1\n"}}));
}

topo::Topology hosts(int count) {
  topo::Topology topology;
  for (int i = 0; i < count; ++i) {
    topo::Host& host = topology.hosts.emplace_back();
    host.name = host.host_name = "h" + std::to_string(i + 1);
    topology.host_of_rank.insert(topology.host_of_rank.end(), {i, i});
  }
  return topology;
}

TEST(WorkerInterfaces, a_finding_names_the_hosts_and_the_setting_that_their_jobs_need) {
  const NcclInterfaces bridge{"=net0", {"mybridge", "veth1"}}, none;
  const auto findings = interface_findings({none, none, bridge, bridge, bridge, bridge}, hosts(3));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, interface_finding_kinds().front().id);
  EXPECT_EQ(findings[0].subject.host, "h2");
  EXPECT_THAT(findings[0].evidence, HasSubstr("h2, h3 would also take mybridge, veth1"));
  EXPECT_THAT(findings[0].action, HasSubstr("NCCL_SOCKET_IFNAME==net0"));
}

TEST(WorkerInterfaces, hosts_with_other_names_have_findings_of_their_own) {
  const NcclInterfaces here{"=net0", {"mybridge"}}, there{"=ens5", {"br-1"}};
  EXPECT_EQ(interface_findings({here, here, there, there}, hosts(2)).size(), 2U);
}

TEST(WorkerInterfaces, many_hosts_that_are_alike_are_one_finding_of_a_readable_length) {
  const auto findings = interface_findings(std::vector<NcclInterfaces>(40, {"=net0", {"mybridge"}}), hosts(20));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0].evidence, HasSubstr("h8 and 12 more hosts"));
  EXPECT_THAT(findings[0].evidence, Not(HasSubstr("h9")));
}

}  // namespace
}  // namespace p5
