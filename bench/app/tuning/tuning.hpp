// The tuning phase of a run: the tuner decides at the leader, all ranks measure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/case.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "reports/tuning.hpp"
#include "tuner/arms.hpp"
#include "tuner/table.hpp"

namespace p5 {

struct TuningJob {
  std::string mode;  // quick, full
  std::uint64_t seed = 0;
  RunnerOptions runner;
  std::vector<tuner::Weight> weights;
  std::vector<tuner::Table> kept;  // at the leader
  Seconds time_left;               // budget left
  std::string cluster, folder;     // at the leader: name in the files, and their folder
  std::optional<Case> step = {};   // of a job (--job), whose time decides about all settings
  std::vector<std::string> remarks = {};
};

// Collective. Writes the files to the folder, on all hosts if they set anything. The result is complete at the leader
// only. The machine's backend has no workers afterwards.
reports::Tuning tune(ControlPlane& control, const Options& options, const Machine& machine, const TuningJob& job);

}  // namespace p5
