// What NCCL and its network plugin say in their log while a communicator is made (NCCL_DEBUG=INFO, subsystems INIT,
// BOOTSTRAP, NET and ENV), or fails to be, as findings: what cannot be known before. Pure: a recorded log reads like a
// live one.
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

// Each kind once, with the first line that shows it. `host` is the rank's; `platform` null: not known. The wordings of
// NCCL 2.18 to 2.32 and of aws-ofi-nccl 1.7 to 1.19 are known.
std::vector<Finding> findings_in_log(std::string_view log, const Host& host, const Platform* platform, int rank);

// The finding that an error of NCCL's is wherever it is quoted, and what to do about it.
struct Remedy {
  std::string id, action;
};
std::optional<Remedy> remedy_for(std::string_view text);

// Of all ranks' findings each kind once for each host, errors first.
std::vector<Finding> of_all_ranks(const std::vector<std::vector<Finding>>& of_rank);

}  // namespace p5::topo
