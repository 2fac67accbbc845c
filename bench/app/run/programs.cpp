// A second look for other programs on the job's GPUs, before a check condemns a GPU or a node for being slow.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "bench/app/machine/machine.hpp"
#include "bench/app/machine/workers.hpp"
#include "bench/app/run/phases.hpp"
#include "bench/model/agreement.hpp"
#include "bench/model/backends.hpp"
#include "reports/other_programs.hpp"
#include "topo/topology.hpp"

namespace p5 {

namespace {

// Null for a process that is not seen.
std::optional<std::int64_t> parent_process_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line, state;
  std::getline(file, line);
  const std::size_t after_name = line.rfind(')');
  if (after_name == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(after_name + 1));
  std::int64_t parent = 0;
  return rest >> state >> parent ? std::optional(parent) : std::nullopt;
}

// The programs on the GPUs of this host, if this is its first rank. Workers are children of the ranks.
std::vector<reports::ProgramsOnGpu> programs_here(const Run& run) {
  constexpr double share_of_time_left = 0.25;
  const std::vector<int>& host_of_rank = run.machine.topology.host_of_rank;
  const auto me = static_cast<std::size_t>(run.control.participant());
  if (run.processes.empty() || !is_first_on_host(run.control, run.machine.topology)) return {};
  const auto is_of_job = [&](int pid) -> std::optional<bool> {
    const std::optional<std::int64_t> parent = parent_process_of(pid);
    if (!parent) return std::nullopt;
    for (std::size_t rank = 0; rank < run.processes.size(); ++rank)
      if (const RankProcess& each = run.processes[rank]; host_of_rank.at(rank) == host_of_rank.at(me) &&
                                                         each.id == *parent &&
                                                         each.id_namespace == run.processes.at(me).id_namespace)
        return true;
    return false;
  };
  const topo::Probes probes = probes_for(run.options);
  const Seconds limit{std::min(probes.limit.count, share_of_time_left * time_left(run).count)};
  if (limit.count <= 0) return {};
  std::vector<reports::ProgramsOnGpu> found;
  for (const topo::Gpu& gpu : topo::ask_nvml(probes.nvml, limit).gpus)
    found.push_back(reports::programs_on(gpu, is_of_job));
  return found;
}

}  // namespace

void look_for_programs(Run& run, const std::vector<LocalChecks>& of_ranks) {
  const BackendInfo& backend = run.machine.backend_info();
  if (!run.options.checks() || backend.ranks != BackendInfo::Ranks::workers ||
      backend.parts != BackendInfo::Parts::gpus)
    return;
  bool matters = false;
  run.recorder.add([&](ReportBuilder& report) {
    matters = report.seems_slow() || std::ranges::any_of(report.slow_gpus(of_ranks), topo::condemns);
  });
  if (!shared_by_leader(run.control, matters)) return;
  const auto of_participants = gather_at_leader(run.control, programs_here(run));
  std::vector<std::vector<reports::ProgramsOnGpu>> by_host(run.machine.topology.hosts.size());
  for (std::size_t rank = 0; rank < of_participants.size(); ++rank)
    if (!of_participants[rank].empty())
      by_host.at(static_cast<std::size_t>(run.machine.topology.host_of_rank.at(rank))) = of_participants[rank];
  run.recorder.add([&](ReportBuilder& report) { report.add_programs(by_host); });
}

}  // namespace p5
