// Something noticed about the machine or the job that explains or endangers the figures.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topo/topology.hpp"

namespace p5::topo {

enum class Severity { error, warning, info };
std::string_view name_of(Severity severity);
Severity severity_from(const std::string& name);  // throws UsageError

// Area in which the remedy lies. An error about hardware or the fabric (NVLinks, NVSwitches, NICs and the network
// between them) condemns the machine; one about anything else is fixed without returning capacity.
enum class About { hardware, fabric, software, settings, host };
std::string_view name_of(About about);
About about_from(const std::string& name);  // throws UsageError

struct Subject {
  std::string host, instance;
  std::optional<int> gpu;
  std::optional<std::string> nic;
  std::optional<int> xid = {};  // code of an Xid error; null: of another finding, or in reports of older versions
};

struct Finding {
  std::string id;  // stable: "host.oversubscribed"
  Severity severity = Severity::info;
  Subject subject;
  std::string evidence;             // observation, with figures
  std::string action;               // remedy
  std::optional<About> about = {};  // null: in reports of older versions
  // Names of the hosts of which one is at fault, or what joins them, where `subject` names no host. If this is empty
  // too, the finding concerns all hosts.
  std::vector<std::string> hosts = {};
};

// True if the finding makes the machine unsound.
bool condemns(const Finding& finding);
// True if the finding belongs beside a verdict: an error, or a warning about hardware or fabric.
bool is_notable(const Finding& finding);

// True if NVML did not answer at all on the finding's host, as where its driver hangs.
bool is_of_silent_driver(const Finding& finding);

// Entry in a list of findings for one that is not a check.
struct FindingKind {
  std::string id;
  About about;
  std::string summary;
};

// A family of findings: one function in checks/, one row in checks.cpp, whose area findings without one get.
struct Check {
  std::string id;
  About about;
  std::string summary;
  std::vector<Finding> (*look)(const Topology& topology) = nullptr;
};
std::span<const Check> checks();

// All checks over a topology, and over its settings; errors first.
std::vector<Finding> look(const Topology& topology);

nlohmann::json to_json(const std::vector<Finding>& findings);
std::vector<Finding> findings_from_json(const nlohmann::json& j);

}  // namespace p5::topo
