#include "bench/app/machine/workers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "bench/app/variables.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/names.hpp"
#include "bench/model/agreement.hpp"
#include "topo/settings.hpp"
#include "tuner/table.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Environment library_environment() {
  Environment found = current_environment();
  std::erase_if(
      found, [](const auto& variable) { return !changes_library(variable.first) || variable.first == "NCCL_HOSTID"; });
  return found;
}

// Local rank among the ranks on the same kernel: pretended nodes share devices.
protocol::LocalRank local_rank_of(const topo::Topology& topology, std::size_t me) {
  protocol::LocalRank local{.local_rank = 0, .local_ranks = 0};
  for (std::size_t rank = 0; rank < topology.host_of_rank.size(); ++rank) {
    const topo::Host &a = host_of_rank(topology, rank), &b = host_of_rank(topology, me);
    if (a.host_name != b.host_name || a.boot_id != b.boot_id) continue;
    ++local.local_ranks;
    if (rank < me) ++local.local_rank;
  }
  return local;
}

}  // namespace

bool changes_library(std::string_view variable) {
  constexpr std::array prefixes{"NCCL_", "FI_", "OFI_NCCL_", "P5BENCH_TUNER_"};
  return variable == "LD_LIBRARY_PATH" ||
         std::ranges::any_of(prefixes, [&](const char* prefix) { return variable.starts_with(prefix); }) ||
         std::ranges::find(tuner::allocator_hooks, variable) != tuner::allocator_hooks.end();
}

Environment worker_environment(ControlPlane& control, const Options& options) {
  const Environment mine = library_environment();
  const Environment leaders = shared_by_leader(control, mine);  // values may be any bytes
  if (!options.environment_of_rank0) return {};
  Environment changes = leaders;
  for (const auto& [name, value] : mine) changes.try_emplace(name, "");
  return changes;
}

std::string file_of_ours(const std::string& name) {
  std::error_code problem;
  const fs::path beside = fs::read_symlink("/proc/self/exe", problem).parent_path();
  const fs::path installed = beside.parent_path() / "lib" / "p5bench";
  if (fs::exists(beside / name, problem) || !fs::is_directory(installed, problem)) return (beside / name).string();
  return (installed / name).string();
}

const topo::Host& host_of_rank(const topo::Topology& topology, std::size_t rank) {
  return topology.hosts[static_cast<std::size_t>(topology.host_of_rank[rank])];
}

bool is_first_on_host(const ControlPlane& control, const topo::Topology& topology) {
  const std::vector<int>& hosts = topology.host_of_rank;
  const int mine = hosts.at(static_cast<std::size_t>(control.participant()));
  return std::ranges::find(hosts, mine) - hosts.begin() == control.participant();
}

WorkerOptions worker_options(ControlPlane& control, const Options& options, const topo::Topology& topology,
                             const std::string& program, const std::string& why_missing) {
  const auto me = static_cast<std::size_t>(control.participant());
  WorkerOptions worker;
  worker.program = file_of_ours(program);
  worker.environment = worker_environment(control, options);
  worker.host = host_of_rank(topology, me).name;
  worker.local = local_rank_of(topology, me);
  worker.cost = cost_on_gpus(worker.cost.latency, worker.cost.bandwidth, worker.local.local_ranks);
  worker.timeout = options.timeout;
  worker.deadline = options.deadline;
  worker.join_limit = join_limit(options);
  from_leader(control, [&] {
    if (!fs::exists(worker.program))
      throw EnvironmentError(fmt::format("there is no '{}': {}", worker.program, why_missing));
  });
  return worker;
}

Seconds join_limit(const Options& options) {
  constexpr double join_share_of_check = 0.25;  // so that there is time to find out who it is
  constexpr Seconds least{10};                  // a healthy GPU's first start may take longer than any operation
  if (const auto wanted = duration_variable("P5BENCH_JOIN_LIMIT")) return *wanted;
  if (options.checks()) return {options.limit.count * join_share_of_check};
  if (!options.given.contains("--timeout")) return default_join_limit;
  return {std::min(default_join_limit.count, std::max(least.count, options.timeout.count))};
}

std::string identify(WorkerBackend& backend) { return protocol::to_json(backend.identify()).dump(); }

std::string_view remedy_for_loader(const std::string& problem) {
  for (const char* const words : {"error while loading shared libraries", "symbol lookup error"})
    if (problem.find(words) != std::string::npos)
      return "install that library there as on the machine of the build, or name its folder in LD_LIBRARY_PATH on all "
             "hosts (mpirun -x LD_LIBRARY_PATH)";
  return "";
}

std::vector<protocol::Identity> identities_from(const std::vector<std::string>& texts, const topo::Topology& topology) {
  std::vector<protocol::Identity> identities;
  for (const std::string& text : texts) identities.push_back(protocol::identity_from_json(json::parse(text)));
  for (std::size_t rank = 1; rank < identities.size(); ++rank)
    if (identities[rank].library != identities[0].library)
      throw EnvironmentError(
          fmt::format("rank {} on {} has {} ({}), rank 0 has {} ({}): the library has to be the same on all nodes",
                      rank, host_of_rank(topology, rank).name, identities[rank].library, identities[rank].library_path,
                      identities[0].library, identities[0].library_path));
  return identities;
}

void fields(auto& archive, Is<NcclInterfaces> auto& interfaces) {
  archive.must("setting", interfaces.setting);
  archive.must("wrong", interfaces.wrong);
}

Environment environment_of_workers(ControlPlane& control, const Options& options) {
  Environment environment = with_changes(current_environment(), worker_environment(control, options));
  std::erase_if(environment, [](const auto& variable) { return variable.second.empty(); });
  return environment;
}

Environment environment_of_nccl(Environment environment, const ReadFile& read) {
  std::string users = value_or_empty(environment, "NCCL_CONF_FILE");
  if (users.empty()) users = value_or_empty(environment, "HOME") + "/.nccl.conf";
  for (const std::string& path : {users, std::string("/etc/nccl.conf")}) {
    std::istringstream lines(read(path).value_or(""));
    for (std::string line; std::getline(lines, line);)
      if (const std::size_t equals = line.find('='); equals != std::string::npos && !line.starts_with('#'))
        if (std::string& value = environment[line.substr(0, equals)]; value.empty()) value = line.substr(equals + 1);
  }
  // libfabric and libibverbs also ask whether a variable is there.
  std::erase_if(environment,
                [](const auto& variable) { return variable.second.empty() && variable.first.starts_with("NCCL_"); });
  return environment;
}

namespace {

constexpr const char* nccl_setting = "NCCL_SOCKET_IFNAME";
constexpr const char* interface_of_libfabric = "FI_TCP_IFACE";
constexpr const char* finding_id = "nccl.interfaces";
constexpr std::size_t most_hosts_named = 8;

bool several_hosts(const topo::Topology& topology) {
  return std::ranges::any_of(
      topology.hosts, [&](const topo::Host& each) { return each.host_name != topology.hosts.front().host_name; });
}

}  // namespace

std::string first_hosts(std::vector<std::string> hosts) {
  if (hosts.size() <= most_hosts_named) return join(hosts);
  const std::size_t more = hosts.size() - most_hosts_named;
  hosts.resize(most_hosts_named);
  return fmt::format("{} and {} more hosts", join(hosts), more);
}

bool chooses_nccl_interfaces(const Environment& environment, const ReadFile& read) {
  const Environment of_nccl = environment_of_nccl(environment, read);
  // With NCCL_COMM_ID, NCCL uses the interface in that address's network.
  return !value_or_empty(of_nccl, "NCCL_COMM_ID").empty() || !value_or_empty(of_nccl, nccl_setting).empty();
}

std::optional<Environment> variables_for_path_of_nccl(bool efa, const Environment& environment, const ReadFile& read,
                                                      const std::vector<Interface>& all) {
  if (!value_or_empty(environment, "FI_PROVIDER").empty()) return Environment();
  const Environment of_nccl = environment_of_nccl(environment, read);
  if (const std::string provider = value_or_empty(of_nccl, "FI_PROVIDER"); !provider.empty())
    return Environment{{"FI_PROVIDER", provider}};
  if (efa && lower(value_or_empty(of_nccl, "NCCL_NET")) != "socket") return Environment{{"FI_PROVIDER", "efa"}};
  for (const char* const name : {"NCCL_COMM_ID", "NCCL_SOCKET_FAMILY"})
    if (!value_or_empty(of_nccl, name).empty()) return std::nullopt;
  const std::vector<Interface> taken = nccl_interface_choice(all, value_or_empty(of_nccl, nccl_setting));
  if (taken.empty() || taken.front().addresses.empty()) return std::nullopt;
  return Environment{{"FI_PROVIDER", "tcp"}, {interface_of_libfabric, taken.front().name}};
}

Environment shared_settings(Environment environment) {
  std::erase_if(environment, [](const auto& variable) {
    return !topo::shapes_transport(variable.first) || variable.first == "NCCL_HOSTID";
  });
  return environment;
}

std::string library_path_of_job(const Environment& environment) {
  const auto matters = [](const std::string& folder) {
    constexpr std::array libraries{"libnccl", "libfabric"};
    std::error_code problem;
    if (!fs::is_directory(folder, problem)) return true;
    for (fs::directory_iterator each(folder, problem), end; !problem && each != end; each.increment(problem))
      for (const char* const library : libraries)
        if (each->path().filename().string().starts_with(library)) return true;
    return false;
  };
  std::vector<std::string> folders;
  for (const std::string& folder : split(value_or_empty(environment, "LD_LIBRARY_PATH"), ':'))
    if (!folder.empty() && std::ranges::find(folders, folder) == folders.end() && matters(folder))
      folders.push_back(folder);
  return join(folders, ":");
}

Environment settings_of_worker(const Environment& changes, const ReadFile& read) {
  const Environment own = with_changes(current_environment(), changes);
  Environment settings = shared_settings(environment_of_nccl(own, read));
  // In a host's own file these are names of its devices, which differ between hosts by design.
  for (const char* const name : {nccl_setting, "NCCL_IB_HCA", interface_of_libfabric})
    if (value_or_empty(own, name).empty()) settings.erase(name);
  std::erase_if(settings,
                [&](const auto& variable) { return variable.second.empty() && changes.contains(variable.first); });
  return settings;
}

std::vector<topo::Finding> name_interfaces_for_nccl(ControlPlane& control, const topo::Topology& topology,
                                                    Environment& changes) {
  if (!several_hosts(topology)) return {};
  const Environment environment = with_changes(current_environment(), changes);
  NcclInterfaces mine;
  if (!chooses_nccl_interfaces(environment, read_file))
    mine = nccl_interfaces(list_interfaces(), launcher_addresses(environment));
  if (!mine.setting.empty()) changes[nccl_setting] = mine.setting;
  return interface_findings(gather_at_leader(control, mine), topology);
}

void name_interface_for_libfabric(const topo::Topology& topology, Environment& changes) {
  const Environment environment = with_changes(current_environment(), changes);
  if (!several_hosts(topology) || !value_or_empty(environment, interface_of_libfabric).empty()) return;
  const std::vector<Interface> all = list_interfaces();
  const std::vector<Ipv4> launcher = launcher_addresses(environment);
  if (tcp_interfaces(all, launcher, Traffic::measured).empty()) return;
  changes[interface_of_libfabric] = external_interfaces(all, launcher).front().name;
}

std::vector<std::string> interfaces_for_libfabric(const topo::Topology& topology, const Environment& changes) {
  const Environment environment = with_changes(current_environment(), changes);
  if (!several_hosts(topology) || !value_or_empty(environment, interface_of_libfabric).empty()) return {};
  std::vector<std::string> names;
  for (const Interface& each : external_interfaces(list_interfaces(), launcher_addresses(environment)))
    names.push_back(each.name);
  return names;
}

std::vector<topo::Finding> interface_findings(const std::vector<NcclInterfaces>& of_rank,
                                              const topo::Topology& topology) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> hosts_of;  // by setting and wrong interfaces
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
    if (of_rank[rank].setting.empty()) continue;
    std::vector<std::string>& hosts = hosts_of[{of_rank[rank].setting, join(of_rank[rank].wrong)}];
    const std::string& host = host_of_rank(topology, rank).name;
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  std::vector<topo::Finding> findings;
  for (const auto& [what, hosts] : hosts_of) {
    const auto& [setting, wrong] = what;
    findings.push_back(
        {finding_id,
         topo::Severity::warning,
         {.host = hosts.front(), .instance = "", .gpu = {}, .nic = {}},
         fmt::format("by its own choice NCCL on {} would also take {}, which {} inside the host and the same on every "
                     "host; p5bench gave its workers {}={}",
                     first_hosts(hosts), wrong, wrong.find(',') == std::string::npos ? "is" : "are", nccl_setting,
                     setting),
         fmt::format("set {}={} there for your own jobs too, or they may hang when they start", nccl_setting, setting),
         topo::About::settings});
  }
  return findings;
}

std::vector<topo::FindingKind> interface_finding_kinds() {
  return {{finding_id, topo::About::settings, "bridges inside a host that NCCL would take for a network"}};
}

}  // namespace p5
