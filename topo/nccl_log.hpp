// What NCCL and its network plugin say in their log while a communicator is made (NCCL_DEBUG=INFO, subsystems INIT,
// BOOTSTRAP, NET and ENV), fails to be or breaks, as findings: what cannot be known before. Pure: a recorded log reads
// like a live one. The rules are a table, tables/nccl_log.json, which says from which versions each wording is known.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topo/finding.hpp"
#include "topo/platform.hpp"

namespace p5::topo {

// For `list findings`.
std::vector<FindingKind> log_findings();

// Each kind once, with the first line that shows it. `host` is the rank's; `platform` null: not known.
std::vector<Finding> findings_in_log(std::string_view log, const Host& host, const Platform* platform, int rank);

// A log of which nobody knows the hosts: NCCL's own, or a job's output with anything before, between and around its
// lines, escape sequences of terminals too.
struct LogText {
  std::string name;  // for the reader: the file's
  std::string_view text;
};

struct Explained {
  Finding finding;                 // its host is the only one that said so, or ""
  std::string said;                // the first line that shows it, without what stood before NCCL's words
  std::string file;                // where that stands
  std::size_t line = 0;            // there, from 1 on
  std::size_t count = 0;           // lines that show it, of all logs
  std::vector<std::string> hosts;  // that said so, as far as their lines tell
};

struct Explanation {
  std::vector<Explained> findings;  // errors first, then as they appear
  std::size_t lines = 0, nccl_lines = 0;
  std::vector<std::string> nccl, plugin;  // versions that the logs name: of NCCL, of aws-ofi-nccl
  std::string platform;                   // instance type that they name, or that was given; "": neither
};

// What depends on the host counts as far as the logs tell of it; where they do not, an error is a warning. `platform`
// null: not known.
Explanation explain_logs(std::span<const LogText> logs, const Platform* platform);

// The finding that an error of NCCL's is wherever it is quoted, and what to do about it.
struct Remedy {
  std::string id, action;
};
std::optional<Remedy> remedy_for(std::string_view text);

// Of all ranks' findings each kind once for each host, errors first.
std::vector<Finding> of_all_ranks(const std::vector<std::vector<Finding>>& of_rank);

}  // namespace p5::topo
