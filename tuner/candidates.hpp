// What can be tried for a call: the settings that NCCL itself offers, thinned out by its own predictions.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tuner/constraints.hpp"
#include "tuner/table.hpp"

namespace p5::tuner {

// The unit of decision: one size of one collective on one communicator.
struct SizePoint {
  std::string collective;   // as p5bench names it; those that NCCL asks a tuner about have a Function of that name
  std::uint64_t bytes = 0;  // the message size of its case, which is what NCCL's tuner interface counts (table.hpp)
  auto operator<=>(const SizePoint&) const = default;
};

// An entry of NCCL's cost table that it does not mark impossible. Channels are 0, but for the chosen one where another
// tuner sets them.
struct CostEntry {
  Setting setting;
  double microseconds = 0;  // predicted by NCCL: good for ranking only
  bool chosen = false;      // what NCCL takes by itself, so the default under another name
};

// Null: what NCCL does by itself, with no tuner of ours.
struct Candidate {
  std::optional<Setting> setting;
  bool is_default() const { return !setting; }
  bool operator==(const Candidate&) const = default;
};
// "default", or the setting as table.hpp writes it.
std::string to_text(const Candidate& candidate);

struct CandidateRules {
  double prune = 8;                             // what is predicted slower than this times the fastest is not tried
  std::vector<int> channels{4, 8, 16, 24, 32};  // ascending; NCCL's own choice is always among the candidates
  // With less, more channels are not tried: NCCL's scheduler itself aims at 32 KiB.
  std::uint64_t bytes_per_channel = 8 << 10;
};

// The entries that are worth a measurement: allowed by the operator, not hopeless by NCCL's own prediction; fastest
// first.
std::vector<CostEntry> worthwhile(const SizePoint& point, std::span<const CostEntry> offered,
                                  const CandidateRules& rules, const Constraints& constraints);

// The channel counts that make sense for the cell besides NCCL's own choice, ascending.
std::vector<int> channel_ladder(const SizePoint& point, const CandidateRules& rules, const Constraints& constraints);

// All of them: each worthwhile entry with each channel count. What an exhaustive search would measure.
std::vector<Setting> full_grid(const SizePoint& point, std::span<const CostEntry> offered, const CandidateRules& rules,
                               const Constraints& constraints);

// The same algorithm and protocol with the channel counts next to the setting's that are not in `tried` yet. Beside
// NCCL's own choice, whose count is not known, those are the most and the middle one: time over channels has one
// minimum.
std::vector<Setting> channel_neighbours(const Setting& setting, std::span<const int> ladder,
                                        std::span<const Setting> tried);

}  // namespace p5::tuner
