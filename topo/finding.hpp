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

struct Subject {
  std::string host, instance;
  std::optional<int> gpu;
  std::optional<std::string> nic;
};

struct Finding {
  std::string id;  // stable: "host.oversubscribed"
  Severity severity = Severity::info;
  Subject subject;
  std::string evidence;  // what was seen, with figures
  std::string action;    // what to do about it
};

// What a list of findings shows of those that are not checks.
struct FindingKind {
  std::string id, summary;
};

// A family of findings: one function in checks/, one row in checks.cpp.
struct Check {
  std::string id, summary;
  std::vector<Finding> (*look)(const Topology& topology) = nullptr;
};
std::span<const Check> checks();

// All checks over a topology, errors first.
std::vector<Finding> look(const Topology& topology);

nlohmann::json to_json(const std::vector<Finding>& findings);
std::vector<Finding> findings_from_json(const nlohmann::json& j);

}  // namespace p5::topo
