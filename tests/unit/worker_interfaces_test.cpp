// The interfaces that workers get, and the messages to the user.
#include "bench/app/machine/workers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "bench/app/machine/machine.hpp"
#include "bench/control/control_planes.hpp"
#include "tests/unit/in_folder.hpp"
#include "topo/platform.hpp"
#include "topo/settings.hpp"
#include "tuner/candidates.hpp"

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
  EXPECT_FALSE(chooses({{"NCCL_SOCKET_IFNAME", ""}}));  // an empty value removes a variable
}

TEST(WorkerInterfaces, so_is_what_stands_in_nccls_files) {
  const std::string line = "NCCL_DEBUG=WARN\nNCCL_SOCKET_IFNAME=eth1\n";
  EXPECT_TRUE(chooses({}, {{"/etc/nccl.conf", line}}));
  EXPECT_TRUE(chooses({}, {{"/etc/nccl.conf", "NCCL_COMM_ID=10.0.0.1:7777\n"}}));
  EXPECT_TRUE(chooses({{"HOME", "/home/u"}}, {{"/home/u/.nccl.conf", line}}));
  EXPECT_TRUE(chooses({{"NCCL_CONF_FILE", "/job.conf"}}, {{"/job.conf", line}}));
  EXPECT_FALSE(chooses({{"HOME", "/home/u"}, {"NCCL_CONF_FILE", "/job.conf"}}, {{"/home/u/.nccl.conf", line}}));
  EXPECT_FALSE(chooses({}, {{"/etc/nccl.conf", "# NCCL_SOCKET_IFNAME=eth1\n"}}));
}

TEST(EnvironmentOfNccl, has_what_stands_in_nccls_files_behind_the_operators_variables) {
  const std::map<std::string, std::string> files{
      {"/home/u/.nccl.conf", "NCCL_ALGO=ring\nNCCL_BUFFSIZE=1\nNCCL_BUFFSIZE=2\nNCCL_PROTO=ll\n"},
      {"/job.conf", "NCCL_BUFFSIZE=3\n"},
      {"/etc/nccl.conf", "# NCCL_DEBUG=INFO\nNCCL_BUFFSIZE=4\nNCCL_MAX_CTAS=8\nno variable\n"}};
  const auto read = [&](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
  EXPECT_EQ(environment_of_nccl({{"HOME", "/home/u"}, {"NCCL_ALGO", "tree"}, {"NCCL_PROTO", ""}}, read),
            (Environment{{"HOME", "/home/u"},
                         {"NCCL_ALGO", "tree"},
                         {"NCCL_BUFFSIZE", "1"},
                         {"NCCL_MAX_CTAS", "8"},
                         {"NCCL_PROTO", "ll"}}));
  EXPECT_EQ(environment_of_nccl({{"HOME", "/home/u"}, {"NCCL_CONF_FILE", "/job.conf"}}, read),
            (Environment{
                {"HOME", "/home/u"}, {"NCCL_BUFFSIZE", "3"}, {"NCCL_CONF_FILE", "/job.conf"}, {"NCCL_MAX_CTAS", "8"}}));
}

// Scripts of jobs say NCCL_ALGO=${NCCL_ALGO:-}.
TEST(EnvironmentOfNccl, has_no_variables_that_are_set_and_empty) {
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  const Environment empty{{"NCCL_ALGO", ""}, {"NCCL_PROTO", ""}, {"NCCL_TUNER_PLUGIN", ""}, {"NCCL_MAX_CTAS", ""}};
  const Environment of_nccl = environment_of_nccl(empty, none);
  EXPECT_TRUE(of_nccl.empty());
  EXPECT_EQ(environment_of_nccl({{"FI_EFA_IFACE", ""}}, none), (Environment{{"FI_EFA_IFACE", ""}})) << "not NCCL's";
  const tuner::Constraints constraints = tuner::constraints_of(of_nccl);
  EXPECT_TRUE(constraints.operator_variables.empty());
  EXPECT_TRUE(constraints.remarks.empty());
  EXPECT_TRUE(constraints.allows_variable("NCCL_TUNER_PLUGIN"));
  EXPECT_TRUE(constraints.allows(tuner::Function::all_reduce, {.algorithm = tuner::Algorithm::tree}));
  EXPECT_EQ(environment_of_nccl(empty,
                                [](const std::string& path) {
                                  return path == "/etc/nccl.conf"
                                             ? std::optional<std::string>("NCCL_PROTO=\nNCCL_ALGO=ring\n")
                                             : std::nullopt;
                                }),
            (Environment{{"NCCL_ALGO", "ring"}}));
}

TEST(EnvironmentOfNccl, is_the_context_of_a_report_with_the_table_that_the_plugin_loads) {
  const auto read = [](const std::string& path) {
    return path == "/job.conf" ? std::optional<std::string>("NCCL_ALGO=ring\nP5BENCH_TUNER_HASH=1234\nHISTFILE=/x\n")
                               : std::nullopt;
  };
  const Environment environment{{"HOME", "/home/u"}, {"NCCL_CONF_FILE", "/job.conf"}, {"NCCL_PROTO", "ll"}};
  EXPECT_EQ(context_of_environment(environment_of_nccl(environment, read)),
            (std::map<std::string, std::string>{{"env.NCCL_ALGO", "ring"},
                                                {"env.NCCL_CONF_FILE", "/job.conf"},
                                                {"env.NCCL_PROTO", "ll"},
                                                {"env.P5BENCH_TUNER_HASH", "1234"}}));
}

TEST(EnvironmentOfNccl, is_what_the_findings_of_settings_and_the_domains_go_by) {
  const auto read = [](const std::string& path) {
    return path == "/etc/nccl.conf" ? std::optional<std::string>("NCCL_MNNVL_ENABLE=0\nNCCL_PROTO=simple\n")
                                    : std::nullopt;
  };
  const Environment environment = environment_of_nccl({{"HOME", "/home/u"}}, read);
  topo::Topology topology = topo::synthetic(topo::find_platform("p6e-gb200.36xlarge"), 2);
  topology.settings = topo::job_settings(environment);
  EXPECT_EQ(topo::domains_of_hosts(topology), (std::vector<int>{0, 1}));
  std::vector<std::string> ids;
  for (const topo::Finding& finding : topo::stale_settings(topology)) ids.push_back(finding.id);
  EXPECT_THAT(ids, testing::Contains("settings.proto_simple"));
  // NCCL itself sets what its files say in its process.
  EXPECT_TRUE(topo::injected_settings(environment, {{"NCCL_PROTO", "simple"}}, "n0").empty());
}

// Launchers pass on no variables that they are not told of: the ranks of mpirun's host alone inherit PyTorch's hook, by
// which the tuner plugin decides which calls it leaves to NCCL.
TEST(EnvironmentOfWorkers, has_rank_0s_variables_of_the_library_and_of_the_tuner_plugin_on_all_ranks) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(2);
  for (const char* const name :
       {"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
        "P5BENCH_TUNER_REGISTERED", "LD_LIBRARY_PATH", "FI_NONE", "OFI_NCCL_NONE"}) {
    const std::string before = value_or_empty(current_environment(), name);
    setenv(name, "1", 1);
    EXPECT_EQ(value_or_empty(worker_environment(*control, {}), name), "1") << name;
    EXPECT_EQ(context_of_environment({{name, "1"}}).at(std::string("env.") + name), "1");
    before.empty() ? unsetenv(name) : setenv(name, before.c_str(), 1);
  }
  for (const char* const name : {"TORCH_NCCL_BLOCKING_WAIT", "P5BENCH_FAKE", "LD_PRELOAD", ""})
    EXPECT_FALSE(changes_library(name)) << name;
}

// The files of each host fill in what rank 0's variables leave open.
TEST(SettingsOfWorker, differ_by_nccls_files_on_its_host) {
  const Environment of_rank0{{"NCCL_PROTO", "simple"}, {"NCCL_HOSTID", "a"}, {"P5BENCH_NONE", "1"}, {"FI_NONE", ""}};
  const auto without = [](const std::string&) { return std::optional<std::string>(); };
  const auto with = [](const std::string&) {
    return std::optional<std::string>("NCCL_NTHREADS=64\nNCCL_PROTO=ll\nNCCL_SOCKET_IFNAME=eth7\n");
  };
  const Environment plain = settings_of_worker(of_rank0, without), other = settings_of_worker(of_rank0, with);
  EXPECT_EQ(value_or_empty(plain, "NCCL_PROTO"), "simple");
  EXPECT_EQ(value_or_empty(other, "NCCL_PROTO"), "simple");
  EXPECT_FALSE(other.contains("NCCL_SOCKET_IFNAME")) << "a host's name of its own device";
  for (const char* const name : {"NCCL_HOSTID", "P5BENCH_NONE", "FI_NONE"}) EXPECT_FALSE(plain.contains(name)) << name;
  EXPECT_TRUE(topo::differing_settings({{"n0", plain}, {"n1", plain}}, false).empty());
  const std::vector<topo::Finding> found = topo::differing_settings({{"n0", plain}, {"n1", other}}, false);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, topo::Severity::error);
  EXPECT_THAT(found[0].evidence, HasSubstr("rank 1 on n1 has another environment than rank 0: NCCL_NTHREADS is '64'"));
}

using LibraryPath = InFolder;

TEST_F(LibraryPath, has_the_folders_of_the_jobs_libraries_once) {
  const std::string launchers = (folder / "openmpi").string(), plugins = (folder / "aws-ofi-nccl").string(),
                    nowhere = (folder / "not mounted").string();
  std::filesystem::create_directories(launchers);
  std::filesystem::create_directories(plugins);
  std::ofstream(launchers + "/libmpi.so");
  std::ofstream(plugins + "/libnccl-net.so");
  const auto path = [](const std::string& text) { return library_path_of_job({{"LD_LIBRARY_PATH", text}}); };
  EXPECT_EQ(path(launchers + ":" + launchers + ":" + plugins + ":" + plugins), plugins) << "as a launcher prepends";
  EXPECT_EQ(path(nowhere + "::" + plugins), nowhere + ":" + plugins);
  EXPECT_EQ(path(""), "");
  EXPECT_EQ(library_path_of_job({}), "");
}

// ---- libfabric, which NCCL will use

Interface interface(const std::string& name, bool ipv4 = true) {
  Interface made;
  made.name = name;
  made.ipv6 = true;
  if (ipv4) made.addresses = {{0x0a000001, 24}};
  return made;
}

std::optional<Environment> way(bool efa, const Environment& environment, const std::string& file = "") {
  const auto read = [&](const std::string& path) {
    return path == "/etc/nccl.conf" ? std::optional(file) : std::nullopt;
  };
  return variables_for_path_of_nccl(efa, environment, read,
                                    {interface("eth0"), interface("eth1"), interface("v6", false)});
}

Environment tcp_over(const std::string& name) { return {{"FI_PROVIDER", "tcp"}, {"FI_TCP_IFACE", name}}; }

TEST(WayOfNccl, is_efa_where_all_have_it_and_nobody_wants_sockets) {
  EXPECT_EQ(way(true, {}), (Environment{{"FI_PROVIDER", "efa"}}));
  EXPECT_EQ(way(true, {{"NCCL_NET", "AWS Libfabric"}, {"NCCL_SOCKET_IFNAME", "eth1"}}),
            (Environment{{"FI_PROVIDER", "efa"}}));
  EXPECT_EQ(way(true, {{"NCCL_NET", "socket"}}), tcp_over("eth0"));
  EXPECT_EQ(way(true, {}, "NCCL_NET=Socket\n"), tcp_over("eth0"));
}

TEST(WayOfNccl, is_elsewhere_tcp_over_the_interface_that_it_comes_together_over) {
  EXPECT_EQ(way(false, {}), tcp_over("eth0"));
  EXPECT_EQ(way(false, {{"NCCL_SOCKET_IFNAME", "=eth1"}}), tcp_over("eth1"));
  EXPECT_EQ(way(false, {{"NCCL_SOCKET_IFNAME", "^eth0"}}, "NCCL_SOCKET_IFNAME=eth0\n"), tcp_over("eth1"));
  EXPECT_EQ(way(false, {}, "NCCL_SOCKET_IFNAME=eth1\n"), tcp_over("eth1"));
}

TEST(WayOfNccl, is_what_the_operator_told_libfabric) {
  EXPECT_EQ(way(true, {{"FI_PROVIDER", "verbs"}}), Environment());
  EXPECT_EQ(way(false, {{"FI_PROVIDER", "tcp"}}), Environment());
  EXPECT_EQ(way(true, {}, "FI_PROVIDER=tcp\n"), (Environment{{"FI_PROVIDER", "tcp"}}));
}

TEST(WayOfNccl, is_not_known_where_its_interface_is_not_or_has_no_ipv4) {
  EXPECT_EQ(way(false, {{"NCCL_SOCKET_IFNAME", "ib"}}), std::nullopt);
  EXPECT_EQ(way(false, {{"NCCL_SOCKET_IFNAME", "v6"}}), std::nullopt);
  EXPECT_EQ(way(false, {{"NCCL_COMM_ID", "10.0.0.1:7777"}}), std::nullopt);
  EXPECT_EQ(way(false, {{"NCCL_SOCKET_FAMILY", "AF_INET6"}}), std::nullopt);
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
