// What differs between the sides beside the times. Figures alone would let a newer driver look like a slower network.
#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <span>

#include <fmt/format.h>

#include "bench/base/environment.hpp"
#include "bench/base/names.hpp"
#include "reports/compare/comparing.hpp"

namespace p5::reports {

namespace {

using Values = std::set<std::string>;
using Reports = std::span<const Report* const>;

std::string text_of(const Values& values) {
  return join(std::vector<std::string>(values.begin(), values.end()), " | ");
}

// Names and values of one kind over all reports of a side.
using Facts = std::map<std::string, Values>;

// How many hosts there are of each description: "4 x p5.48xlarge", or one entry each where they differ.
std::string count(const std::vector<topo::Host>& hosts, const std::function<std::string(const topo::Host&)>& describe) {
  std::map<std::string, int> numbers;
  for (const topo::Host& host : hosts) ++numbers[describe(host)];
  std::vector<std::string> parts;
  for (const auto& [description, number] : numbers) {
    if (description.empty()) return "";
    parts.push_back(numbers.size() == 1 ? description : fmt::format("{} x {}", number, description));
  }
  return join(parts, " + ");
}

std::string gpus_of(const topo::Host& host) {
  if (host.gpu_devices.empty()) return host.gpus ? fmt::format("{} GPUs", host.gpus) : "";
  std::map<std::string, int> numbers;
  for (const topo::Gpu& gpu : host.gpu_devices) ++numbers[gpu.name];
  std::vector<std::string> parts;
  for (const auto& [name, number] : numbers) parts.push_back(fmt::format("{} x {}", number, name));
  return join(parts, " + ");
}

// Of its GPUs; "" where nobody asked.
std::string links_of(const topo::Host& host) {
  std::map<int, int> numbers;
  for (const topo::Gpu& gpu : host.gpu_devices) ++numbers[gpu.links.value_or(0)];
  if (numbers.empty() || numbers.contains(0)) return "";
  std::vector<std::string> parts;
  for (const auto& [links, number] : numbers) parts.push_back(fmt::format("{} x {}", number, links));
  return join(parts, " + ");
}

std::string nics_of(const topo::Host& host) {
  std::map<std::string, int> numbers;
  for (const topo::Nic& nic : host.nics)
    if (nic.kind != "virtual" && nic.state != "down")
      ++numbers[nic.rate ? fmt::format("{} {:.0f} Gbit/s", nic.kind, nic.rate->count * 8) : nic.kind];
  std::vector<std::string> parts;
  for (const auto& [name, number] : numbers) parts.push_back(fmt::format("{} x {}", number, name));
  return join(parts, " + ");
}

void add(Facts& facts, const std::string& name, const std::string& value) {
  if (!value.empty()) facts[name].insert(value);
}

Facts hardware_of(Reports reports) {
  Facts facts;
  for (const Report* const each : reports) {
    const Report& report = *each;
    const std::vector<topo::Host>& hosts = report.topology.hosts;
    // An imported file tells of neither; what it does not tell is no difference.
    if (report.provenance != "imported") add(facts, "provenance", report.provenance);
    add(facts, "platform", report.topology.platform);
    add(facts, "instance type", count(hosts, [](const topo::Host& host) { return host.instance_type; }));
    add(facts, "processor", count(hosts, [](const topo::Host& host) { return host.cpu_model; }));
    add(facts, "GPUs", count(hosts, gpus_of));
    add(facts, "NVLinks", count(hosts, links_of));
    add(facts, "NICs", count(hosts, nics_of));
    if (report.run.nodes > 0) add(facts, "nodes", fmt::format("{}", report.run.nodes));
    if (report.run.ranks > 0) add(facts, "ranks", fmt::format("{}", report.run.ranks));
  }
  return facts;
}

constexpr std::string_view variable_prefix = "env.";  // of the names in a report's context

// What launchers set anew for each job, and no reason for anything.
bool tells_nothing(std::string_view name) {
  constexpr std::array prefixes{"env.SLURM_JOB_ID", "env.PMIX_MCA_"};
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); }) ||
         (name.starts_with(variable_prefix) && p5::is_job_specific(name.substr(variable_prefix.size())));
}

Facts context_of(Reports reports, bool variables) {
  Facts facts;
  for (const Report* const each : reports) {
    const Report& report = *each;
    for (const auto& [name, value] : report.context)
      if (name.starts_with(variable_prefix) == variables && !tells_nothing(name))
        add(facts, variables ? name.substr(variable_prefix.size()) : name, value);
    if (variables) continue;
    add(facts, "p5bench", report.run.version);
    add(facts, "backend", report.run.backend);
    for (const topo::Host& host : report.topology.hosts) {
      add(facts, "kernel", host.kernel);
      add(facts, "GPU driver", host.gpu_driver);
      for (const auto& [name, value] : host.versions)
        if (name != "nvidia driver") add(facts, name, value);  // NVML's own says the same
    }
  }
  return facts;
}

Facts topology_of(Reports reports) {
  Facts facts;
  for (const Report* const each : reports) {
    const Report& report = *each;
    std::vector<std::string> names, instances, order;
    for (const topo::Host& host : report.topology.hosts) {
      names.push_back(host.host_name.empty() ? host.name : host.host_name);
      if (!host.instance.empty()) instances.push_back(host.instance);
    }
    add(facts, "order of hosts", join(names));
    std::ranges::sort(instances);
    add(facts, "instances", join(instances));
    for (const int host : report.topology.host_of_rank) order.push_back(std::to_string(host));
    add(facts, "host of each rank", join(order, " "));
  }
  return facts;
}

// A variable that is set on one side only is a difference; a fact that one side does not know is not.
void compare(const Facts& base, const Facts& fresh, const std::string& kind, bool absence_counts,
             std::vector<Difference>& out) {
  std::set<std::string> names;
  for (const Facts* facts : {&base, &fresh})
    for (const auto& [name, values] : *facts) names.insert(name);
  for (const std::string& name : names) {
    const auto a = base.find(name), b = fresh.find(name);
    const bool both = a != base.end() && b != fresh.end();
    if (!both && !absence_counts) continue;
    const std::string was = a == base.end() ? "" : text_of(a->second), is = b == fresh.end() ? "" : text_of(b->second);
    if (was != is) out.push_back({kind, name, was, is});
  }
}

bool all_imported(Reports reports) {
  return std::ranges::all_of(reports, [](const Report* r) { return r->provenance == "imported"; });
}

std::vector<Difference> differences_of(Reports base, Reports fresh) {
  std::vector<Difference> all;
  compare(hardware_of(base), hardware_of(fresh), "hardware", false, all);
  compare(context_of(base, false), context_of(fresh, false), "software", false, all);
  compare(context_of(base, true), context_of(fresh, true), "environment", !all_imported(base) && !all_imported(fresh),
          all);
  compare(topology_of(base), topology_of(fresh), "topology", false, all);
  return all;
}

std::vector<const Report*> reports_of(const Side& side) {
  std::vector<const Report*> reports;
  for (const Report& report : side.reports) reports.push_back(&report);
  return reports;
}

}  // namespace

std::vector<Difference> differences_of(const Side& base, const Side& fresh) {
  return differences_of(reports_of(base), reports_of(fresh));
}

std::vector<Difference> differences_between(const Report& base, const Report& fresh) {
  const Report* const one = &base;
  const Report* const other = &fresh;
  return differences_of(Reports(&one, 1), Reports(&other, 1));
}

}  // namespace p5::reports
