// Findings from the log that NCCL and its network plugin write while a communicator is initialized, fails to initialize
// or breaks (NCCL_DEBUG=INFO, subsystems INIT, BOOTSTRAP, NET and ENV): problems that cannot be known before. Pure: a
// recorded log is read like a live one. The rules are a table, tables/nccl_log.json, which states the versions that are
// known to use each wording. `explain` also reads what PyTorch and the kernel log of the same job.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topo/finding.hpp"
#include "topo/platform.hpp"

namespace p5::topo {

// Kinds of findings from logs, for `list findings`.
std::vector<FindingKind> log_findings();

// Findings in a rank's log: each kind once, with the first line that shows it. `host` is the rank's; `platform` null:
// unknown.
std::vector<Finding> findings_in_log(std::string_view log, const Host& host, const Platform* platform, int rank);

// A log from unknown hosts: NCCL's own, or a job's output with other text before, between and around its lines,
// including terminal escape sequences.
struct LogText {
  std::string name;  // file name, for display
  std::string_view text;
};

struct Explained {
  Finding finding;                 // subject.host: the only host that logged it, else ""
  std::string said;                // first line that shows it, without the text before NCCL's own
  std::string file;                // file with that line
  std::size_t line = 0;            // line number in `file`, from 1
  std::size_t count = 0;           // lines that show it, of all logs
  std::vector<std::string> hosts;  // hosts that logged it, as far as their lines name them
};

// Warnings of NCCL on a host in words that no rule knows.
struct UnknownWarning {
  std::string host;  // "": the line does not name it
  std::string said;  // the first line
  std::string file;
  std::size_t line = 0;
  std::size_t count = 0;  // lines of this host
};

struct Explanation {
  std::vector<Explained> findings;  // errors first, of them those of hardware, then as they appear
  std::size_t lines = 0, nccl_lines = 0;
  std::vector<std::string> nccl, plugin;  // versions of NCCL and of aws-ofi-nccl in the logs
  std::string platform;                   // instance type that they name, or that was given; "": neither
  std::vector<UnknownWarning> unknown{};  // one for each host that has any, as they appear
};

// Rules that depend on the host apply as far as the logs identify it; where they do not, an error becomes a warning.
// `platform` null: unknown.
Explanation explain_logs(std::span<const LogText> logs, const Platform* platform);

// Id of the finding for an NCCL error message wherever it is quoted, and its remedy.
struct Remedy {
  std::string id, action;
  About about = About::software;
};
std::optional<Remedy> remedy_for(std::string_view text);

// Merges the findings of all ranks: each kind once per host, errors first.
std::vector<Finding> of_all_ranks(const std::vector<std::vector<Finding>>& of_rank);

}  // namespace p5::topo
