// The table of settings, and what is found by it.
#include "topo/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "bench/base/names.hpp"
#include "topo/checks/families.hpp"
#include "topo/system_files.hpp"
#include "topo/tables.hpp"

namespace p5::topo {

namespace {

constexpr std::array<std::string_view, 7> conditions{"set", "is", "is_not", "holds", "lacks", "lists", "missing"};

}  // namespace

void fields(auto& archive, Is<SettingRule> auto& rule) {
  archive.must("id", rule.id);
  archive.must("variables", rule.variables);
  archive.must("when", json_fields::one_of(rule.when, conditions));
  archive.may("values", rule.values);
  archive.may("platforms", rule.platforms);
  archive.may("software", rule.software);
  archive.may("least_machines", rule.least_machines);
  archive.must("severity", json_fields::named(rule.severity, severity_from));
  archive.must("why", rule.why);
  archive.must("action", rule.action);
  archive.must("source", rule.source);
}

const std::vector<SettingRule>& setting_rules() {
  static const auto all = make_rows<SettingRule>("settings.json");
  return all;
}

bool shapes_transport(std::string_view variable) {
  constexpr std::array prefixes{"NCCL_", "OFI_NCCL_", "FI_", "RDMAV_"};
  return std::ranges::any_of(prefixes, [&](const char* prefix) { return variable.starts_with(prefix); });
}

JobSettings job_settings(const Environment& environment) {
  JobSettings settings;
  for (const auto& [name, value] : environment) {
    if (!shapes_transport(name)) continue;
    settings.variables[name] = recorded_value(name, value);
    // A bare name is searched for by the loader, which we do not imitate. NCCL takes a list of plugins from 2.27 on.
    const auto leads_nowhere = [](const std::string& path) { return path.starts_with('/') && !present(path); };
    const std::vector<std::string> paths = name == "NCCL_NET_PLUGIN" ? split(value) : std::vector{value};
    if (std::ranges::any_of(paths, leads_nowhere)) settings.dangling.push_back(name);
  }
  return settings;
}

namespace {

bool lists_one_of(std::string_view value, const std::vector<std::string>& beginnings) {
  if (value.starts_with('^')) return false;
  if (value.starts_with('=')) value.remove_prefix(1);
  return std::ranges::any_of(split(value), [&](const std::string& name) {
    return std::ranges::any_of(beginnings, [&](const std::string& beginning) { return name.starts_with(beginning); });
  });
}

bool fits(const SettingRule& rule, const std::string& name, const std::string& text, const JobSettings& settings) {
  const std::string value = lower(text);
  const auto is = [&](const std::string& each) { return each == value; };
  const auto is_part = [&](const std::string& each) { return value.find(each) != std::string::npos; };
  const auto holds = [&] { return std::ranges::any_of(rule.values, is_part) != value.starts_with('^'); };
  if (rule.when == "is") return std::ranges::any_of(rule.values, is);
  if (rule.when == "is_not") return std::ranges::none_of(rule.values, is);
  if (rule.when == "holds") return holds();
  if (rule.when == "lacks") return !holds();
  if (rule.when == "lists") return lists_one_of(value, rule.values);
  if (rule.when == "missing") return std::ranges::find(settings.dangling, name) != settings.dangling.end();
  return true;  // "set"
}

bool names(const SettingRule& rule, const std::string& variable) {
  return std::ranges::any_of(rule.variables, [&](const std::string& name) {
    return name.ends_with('*') ? variable.starts_with(name.substr(0, name.size() - 1)) : variable == name;
  });
}

bool concerns(const SettingRule& rule, const Topology& topology) {
  const auto here = [&](const std::string& beginning) { return topology.platform.starts_with(beginning); };
  if (!rule.platforms.empty() && std::ranges::none_of(rule.platforms, here)) return false;
  if (machines_in(topology) < rule.least_machines) return false;
  return std::ranges::all_of(rule.software, [&](const auto& wanted) {
    return !topology.hosts.empty() && contains(wanted.second, version_of(topology.hosts.front(), wanted.first));
  });
}

Finding finding(std::string_view id, Severity severity, const std::string& host, std::string evidence,
                std::string_view action, About about = About::settings) {
  return {std::string(id), severity, {host, "", {}, {}}, std::move(evidence), std::string(action), about};
}

}  // namespace

std::vector<Finding> stale_settings(const Topology& topology) {
  std::vector<Finding> findings;
  if (!topology.settings) return findings;
  for (const SettingRule& rule : setting_rules()) {
    if (!concerns(rule, topology)) continue;
    for (const auto& [name, value] : topology.settings->variables)
      if (names(rule, name) && fits(rule, name, value, *topology.settings))
        findings.push_back(
            finding(rule.id, rule.severity, "", fmt::format("{}={}: {}", name, value, rule.why), rule.action));
  }
  return findings;
}

std::vector<Finding> injected_settings(const Environment& before, const Environment& after, const std::string& host) {
  const auto proto = after.find("NCCL_PROTO");
  if (proto == after.end() || before.contains("NCCL_PROTO") || lower(proto->second) != "simple") return {};
  return {finding(
      "settings.proto_injected", Severity::error, host,
      "The network plugin set NCCL_PROTO=simple by itself: GPU memory does not reach the NICs directly, or 128-byte "
      "writes may arrive out of order.",
      "Find out why GPUDirect RDMA does not work on this host: driver, EFA installer, kernel module.",
      About::software)};
}

std::vector<Finding> differing_settings(const std::vector<RankEnvironment>& of_rank, bool rank0_counts) {
  std::vector<Finding> findings;
  std::set<std::string> told;
  for (std::size_t rank = 1; rank < of_rank.size(); ++rank) {
    const auto& [host, theirs] = of_rank[rank];
    const Environment& first = of_rank[0].variables;
    std::set<std::string> names;
    for (const Environment* each : {&first, &theirs})
      for (const auto& [name, value] : *each) names.insert(name);
    const auto value = [](const Environment& in, const std::string& name) {
      const auto at = in.find(name);
      return at == in.end() ? std::nullopt : std::optional(at->second);
    };
    const auto shown = [&](const Environment& in, const std::string& name) {
      const std::optional<std::string> text = value(in, name);
      return !text ? "not set" : is_secret(name) ? "a value of its own" : "'" + *text + "'";
    };
    std::vector<std::string> differing;
    for (const std::string& name : names)
      if (value(first, name) != value(theirs, name))
        differing.push_back(fmt::format("{} is {} there, {} at rank 0", name, shown(theirs, name), shown(first, name)));
    if (differing.empty() || !told.insert(host).second) continue;
    findings.push_back(
        finding("settings.differ", rank0_counts ? Severity::warning : Severity::error, host,
                fmt::format("rank {} on {} has another environment than rank 0: {}", rank, host, join(differing, "; ")),
                rank0_counts ? "Rank 0's was used on all ranks here; a job of your own will not do that. "
                               "Set the same on all nodes."
                             : "Set the same on all nodes: ranks that decide differently hang or slow "
                               "each other down."));
  }
  return findings;
}

std::vector<FindingKind> setting_findings() {
  std::map<std::string, std::vector<std::string>> variables;
  for (const SettingRule& rule : setting_rules()) {
    std::vector<std::string>& of_id = variables[rule.id];
    for (const std::string& name : rule.variables)
      if (std::ranges::find(of_id, name) == of_id.end()) of_id.push_back(name);
  }
  std::vector<FindingKind> all;
  for (const auto& [id, of_id] : variables)
    all.push_back({id, About::settings, join(of_id) + ": an outdated or harmful value"});
  all.push_back(
      {"settings.proto_injected", About::software, "NCCL_PROTO=simple that the network plugin set by itself"});
  all.push_back({"settings.differ", About::settings, "ranks whose environment differs from rank 0's"});
  return all;
}

}  // namespace p5::topo
