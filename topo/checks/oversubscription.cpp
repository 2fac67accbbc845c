// host.oversubscribed: ranks that take turns on a processor measure the scheduler, not the machine.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/base/names.hpp"
#include "topo/checks/families.hpp"

namespace p5::topo {

namespace {

// Hosts that are really one: several pretended ones, or containers on one kernel.
struct Machine {
  std::vector<std::string> names;
  std::map<std::string, int> allowed_of_container;  // by the kernel's host name
  int threads = 0, ranks = 0;
  std::string instance;
};

std::map<std::string, Machine> machines_of(const Topology& topology) {
  std::map<std::string, Machine> machines;
  for (std::size_t i = 0; i < topology.hosts.size(); ++i) {
    const Host& host = topology.hosts[i];
    Machine& machine = machines[host.boot_id.empty() ? fmt::format("host {}", i) : host.boot_id];
    machine.names.push_back(host.name);
    machine.instance = host.instance;
    machine.threads = std::max(machine.threads, host.threads);
    int& allowed = machine.allowed_of_container[host.host_name];
    allowed = std::max(allowed, host.allowed_threads);
    machine.ranks +=
        static_cast<int>(std::count(topology.host_of_rank.begin(), topology.host_of_rank.end(), static_cast<int>(i)));
  }
  return machines;
}

int allowed_on(const Machine& machine) {
  int sum = 0;
  for (const auto& [container, allowed] : machine.allowed_of_container) sum += allowed;
  return machine.threads > 0 ? std::min(sum, machine.threads) : sum;
}

}  // namespace

std::vector<Finding> oversubscribed_hosts(const Topology& topology) {
  std::vector<Finding> findings;
  for (const auto& [kernel, machine] : machines_of(topology)) {
    const int allowed = allowed_on(machine);
    if (allowed == 0 || machine.ranks <= allowed) continue;
    const std::string subject = machine.names.front();
    const std::string pretending = machine.names.size() > 1 ? fmt::format(" (as {})", join(machine.names)) : "";
    findings.push_back(
        {"host.oversubscribed",
         Severity::warning,
         {subject, machine.instance, {}, {}},
         fmt::format("{} ranks share {} hardware threads on {}{}: the figures are time-sliced and not to be judged",
                     machine.ranks, allowed, subject, pretending),
         fmt::format("start at most {} ranks there, or allow the job more processors", allowed)});
  }
  return findings;
}

}  // namespace p5::topo
