#include "reports/other_programs.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "topo/checks/families.hpp"
#include "topo/finding.hpp"

namespace p5::reports {

ProgramsOnGpu programs_on(const topo::Gpu& gpu, const std::function<std::optional<bool>(int pid)>& is_of_job) {
  constexpr std::string_view before_pid = "pid ";
  const int named = static_cast<int>(gpu.used_by.size());
  ProgramsOnGpu programs{.uuid = gpu.uuid, .unknown = std::max(0, gpu.processes.value_or(0) - named)};
  for (const std::string& each : gpu.used_by) {
    const std::optional<bool> of_job =
        each.starts_with(before_pid) ? is_of_job(std::atoi(&each[before_pid.size()])) : std::nullopt;
    if (!of_job)
      ++programs.unknown;
    else if (*of_job)
      ++programs.of_job;
    else
      programs.others.push_back(each);
  }
  return programs;
}

std::string add_programs_that_came(Report& report, const std::vector<std::vector<ProgramsOnGpu>>& by_host) {
  topo::Topology& topology = report.topology;
  std::map<std::string, int> workers;  // by the GPU's UUID
  for (const std::string& uuid : topology.gpu_of_rank) ++workers[uuid];
  const auto came_to = [&](topo::Gpu& gpu, const std::vector<ProgramsOnGpu>& all) {
    const auto now = std::ranges::find(all, gpu.uuid, &ProgramsOnGpu::uuid);
    const auto own = workers.find(gpu.uuid);
    if (now == all.end() || own == workers.end()) return false;
    const int unseen_workers = std::max(0, own->second - now->of_job);
    const int others = static_cast<int>(now->others.size()) + std::max(0, now->unknown - unseen_workers);
    if (others <= gpu.processes.value_or(0)) return false;
    gpu.processes = others;
    gpu.used_by = now->others;
    return true;
  };
  std::set<std::pair<std::string, int>> came;  // host and number of the GPU
  for (std::size_t host = 0; host < std::min(topology.hosts.size(), by_host.size()); ++host) {
    std::vector<topo::Gpu>& gpus = topology.hosts[host].gpu_devices;
    for (std::size_t i = 0; i < gpus.size(); ++i)
      if (came_to(gpus[i], by_host[host])) came.insert({topology.hosts[host].name, static_cast<int>(i)});
  }
  const auto is_about_them = [&](const topo::Finding& each) {
    return each.subject.gpu && came.contains({each.subject.host, *each.subject.gpu});
  };
  std::string evidence;
  std::erase_if(report.findings,
                [&](const topo::Finding& each) { return each.id == "gpu.busy" && is_about_them(each); });
  for (topo::Finding& each : topo::busy_gpus(topology)) {
    if (!is_about_them(each)) continue;
    if (evidence.empty()) evidence = each.evidence;
    report.findings.push_back(std::move(each));
  }
  std::ranges::stable_sort(report.findings, {}, &topo::Finding::severity);
  return evidence;
}

Comparability without_shared_gpus(const topo::Topology& topology, const std::vector<std::string>& gpu_of_rank,
                                  const std::vector<topo::Finding>& findings) {
  Comparability found;
  for (const topo::Finding& finding : findings) {
    const auto host = std::ranges::find(topology.hosts, finding.subject.host, &topo::Host::name);
    if (finding.id != "gpu.busy" || !finding.subject.gpu || host == topology.hosts.end() ||
        !std::cmp_less(*finding.subject.gpu, host->gpu_devices.size()))
      continue;
    const std::string& uuid = host->gpu_devices[static_cast<std::size_t>(*finding.subject.gpu)].uuid;
    if (std::ranges::find(gpu_of_rank, uuid) == gpu_of_rank.end()) continue;
    found.shared_hosts.insert(static_cast<int>(host - topology.hosts.begin()));
    if (found.why_not.empty()) found.why_not = "others use a GPU of the job (" + finding.evidence + ")";
  }
  return found;
}

}  // namespace p5::reports
