
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/app/machine/machine.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/names.hpp"
#include "bench/control/control_planes.hpp"
#include "topo/nccl_log.hpp"
#include "topo/settings.hpp"

namespace p5 {

namespace {

using nlohmann::json;

void append(std::vector<topo::Finding>& all, std::vector<topo::Finding> more) {
  std::ranges::move(more, std::back_inserter(all));
}

// Compares the ranks' own variables where workers get rank 0's, and those that the workers have in the end, with the
// ones of NCCL's configuration files on their hosts.
std::vector<topo::Finding> gather_differing_settings(ControlPlane& control, const Options& options,
                                                     const Machine& machine) {
  const Environment of_worker = settings_of_worker(worker_environment(control, options), read_file);
  constexpr const char* library_path = "LD_LIBRARY_PATH";
  const Environment environment = current_environment();
  Environment mine = shared_settings(environment);
  if (std::string path = library_path_of_job(environment); !path.empty()) mine[library_path] = std::move(path);
  const std::vector<json> all =
      gather_json(control, json::array({mine, of_worker, printable(value_or_empty(environment, library_path))}));
  if (!control.is_leader()) return {};
  std::vector<topo::RankEnvironment> own, of_workers;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string& host = host_of_rank(machine.topology, rank).name;
    own.push_back({host, all[rank].at(0).get<Environment>()});
    of_workers.push_back({host, all[rank].at(1).get<Environment>()});
    // Hosts may lack a folder of the same path: their environments do not differ.
    if (rank == 0 || all[rank].at(2) != all.front().at(2)) continue;
    own.back().variables.erase(library_path);
    if (const std::string of_rank0 = value_or_empty(own.front().variables, library_path); !of_rank0.empty())
      own.back().variables[library_path] = of_rank0;
  }
  std::vector<topo::Finding> findings;
  if (options.environment_of_rank0) findings = differing_settings(own, true);
  append(findings, differing_settings(of_workers, false));
  return findings;
}

std::vector<topo::Finding> missing_launcher_finding(const ControlPlane& control, const Options& options,
                                                    const Machine& machine) {
  if (control.ranks() != 1 || options.checks() || machine.backend_info().simulated() || started_by_launcher())
    return {};
  const topo::Host& host = host_of_rank(machine.topology, 0);
  const int gpus = visible_gpus(host.gpu_devices, std::getenv("CUDA_VISIBLE_DEVICES"));
  if (gpus < 2) return {};
  const std::string words = options.command == "run" ? "" : " " + options.command;
  return {{.id = std::string(without_launcher),
           .severity = topo::Severity::warning,
           .subject = {.host = host.name, .instance = host.instance, .gpu = {}, .nic = {}},
           .evidence = fmt::format("started without mpirun: one rank, and this machine has {} GPUs", gpus),
           .action = fmt::format("start a rank for each GPU: mpirun -np {} p5bench{}", gpus, words),
           .about = topo::About::settings}};
}

// A finding of NCCL's log, and the arms that have it. One that not all arms have follows from their settings, not from
// the machine.
struct FindingOfArms {
  topo::Finding finding;
  std::vector<std::string> arms;
};

}  // namespace

std::vector<topo::Finding> preflight_findings(ControlPlane& control, const Options& options, const Machine& machine) {
  const BackendInfo& backend = machine.backend_info();
  std::vector<topo::Finding> findings;
  if (backend.ranks == BackendInfo::Ranks::workers) findings = gather_differing_settings(control, options, machine);
  if (!control.is_leader()) return {};
  append(findings, missing_launcher_finding(control, options, machine));
  append(findings, topo::look(machine.topology));
  append(findings, machine.findings);
  std::ranges::stable_sort(findings, {}, &topo::Finding::severity);
  return findings;
}

std::vector<topo::FindingKind> start_finding_kinds() {
  return {
      {std::string(without_launcher), topo::About::settings, "one rank without mpirun where there are several GPUs"}};
}

std::vector<topo::Finding> library_log_findings(ControlPlane& control, const Machine& machine,
                                                const std::vector<Arm>& arms) {
  if (!machine.backend_info().tunable) return {};
  const topo::Host& host = host_of_rank(machine.topology, static_cast<std::size_t>(control.participant()));
  const topo::Platform* const platform = machine.has_one_platform ? machine.platform : nullptr;
  std::vector<FindingOfArms> mine_of_arms;
  for (const Arm& arm : arms) {
    const Backend::LibraryStart start = arm.backend->library_start();
    std::vector<topo::Finding> told = findings_in_log(start.log, host, platform, control.participant());
    // Only the leader's worker is compared: it has its supervisor's environment plus the arm's variables, and NCCL adds
    // those of its configuration files.
    Environment before = current_environment();
    before.insert(arm.settings.begin(), arm.settings.end());
    if (control.is_leader())
      append(told,
             topo::injected_settings(environment_of_nccl(std::move(before), read_file), start.environment, host.name));
    for (topo::Finding& each : told) {
      const auto known =
          std::ranges::find(mine_of_arms, each.id, [](const FindingOfArms& one) { return one.finding.id; });
      if (known == mine_of_arms.end())
        mine_of_arms.push_back({std::move(each), {arm.name}});
      else if (known->arms.back() != arm.name)
        known->arms.push_back(arm.name);
    }
  }
  std::vector<topo::Finding> mine;
  for (FindingOfArms& each : mine_of_arms) {
    if (each.arms.size() < arms.size())
      each.finding.evidence = fmt::format("only in arm {}: {}", join(each.arms), each.finding.evidence);
    mine.push_back(std::move(each.finding));
  }
  const std::vector<json> all = gather_json(control, topo::to_json(mine));
  if (!control.is_leader()) return {};
  std::vector<std::vector<topo::Finding>> of_rank;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    of_rank.push_back(topo::findings_from_json(all[rank]));
    // Most ranks know only their host's name.
    const topo::Host& its = host_of_rank(machine.topology, rank);
    for (topo::Finding& each : of_rank.back())
      if (each.subject.host == its.name) each.subject.instance = its.instance;
  }
  return of_all_ranks(of_rank);
}

}  // namespace p5
