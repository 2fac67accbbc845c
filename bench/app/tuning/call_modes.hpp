// What ways of calling NCCL are worth that are no setting (tuner/call_modes.hpp), in turns with plain calls in the same
// processes.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/runner.hpp"
#include "bench/measure/trials.hpp"
#include "tuner/call_modes.hpp"
#include "tuner/gain.hpp"
#include "tuner/search.hpp"

namespace p5 {

struct CallModeSize {
  tuner::SizePoint point;
  std::optional<tuner::Gain> gain;  // over plain calls; null: it failed, or there was no time
  std::string because;              // unless measured
};

struct CallModeResult {
  tuner::CallMode way;
  std::vector<CallModeSize> sizes;
};

// On all ranks together; the result is the leader's. `cases` are plain and of one round each.
std::vector<CallModeResult> try_call_modes(ControlPlane& control, Backend& workers, const std::vector<Case>& cases,
                                           const RunnerOptions& runner, int nccl_version, Seconds burst,
                                           const tuner::TimeLeft& time_left);

}  // namespace p5
