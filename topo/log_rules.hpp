// Table of messages that NCCL, its network plugin and the layers below log when something is wrong
// (tables/nccl_log.json). Internal to topo: the rest of the program uses nccl_log.hpp.
#pragma once

#include <map>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "topo/finding.hpp"

namespace p5::topo {

// One wording of a rule.
struct LogWording {
  std::string says;      // stands in the line as it is
  std::string matches;   // a regular expression that the line has to meet besides, "": none
  bool certain = false;  // the wording is conclusive without knowledge of the host
  std::string known;     // software and versions with this wording
  std::string source;
};

// Only the first rule in the table that a line meets is reported, so special rules stand before general ones.
struct LogRule {
  std::string id, summary;
  Severity severity = Severity::error;
  About about = About::software;
  std::string where;          // on which hosts it is wrong: "" (all), "fabric", "efa", "verbs", "direct", "nvls", ...
  bool across_nodes = false;  // irrelevant to a job on one node
  std::string count;          // "nics", "rails": the number in the line against the platform's; ""
  std::string evidence;       // text in front of the line; %1 and %2 stand for the groups of the expression
  std::vector<LogWording> lines;
  std::map<std::string, std::string> remedy;  // "any", or "efa" and "verbs"
};

const std::vector<LogRule>& log_rules();

struct LogMatch {
  const LogRule* rule = nullptr;
  const LogWording* wording = nullptr;
  std::vector<std::string> caught;  // by the expression, from 1 on
};
// All rules that a line meets, in the order of the table. The line is without escape sequences.
std::vector<LogMatch> rules_met(const std::string& line);

}  // namespace p5::topo
