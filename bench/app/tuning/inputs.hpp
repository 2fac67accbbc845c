// Inputs of a tuning: the files that the user names, and the collectives, sizes and groups to tune.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/app/tuning/stages.hpp"
#include "bench/model/case.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "bench/model/replay.hpp"
#include "tuner/arms.hpp"
#include "tuner/table.hpp"

namespace p5 {

// Reads --weights at the leader. Throws UsageError on all ranks.
std::vector<tuner::Weight> read_weights(ControlPlane& control, const Options& options);

// Reads --keep-table; empty except at the leader. Throws UsageError on all ranks.
std::vector<tuner::Table> read_kept_tables(ControlPlane& control, const Options& options);

// Throws EnvironmentError on all ranks if the tuner files named by NCCL's variables differ between ranks: ranks would
// choose differently and hang.
void refuse_differing_tuning_files(ControlPlane& control);

// Targets of a tuning for a job's step: the collectives and sizes of the groups that move most bytes, of those that
// have a name for --group, with the share of each.
struct JobToTune {
  Options options;
  std::vector<tuner::Weight> weights;
  std::vector<std::string> remarks;  // groups that are left out
};
JobToTune job_to_tune(const Options& options, const Replay& replay, const Placement& placement);

// The job's collectives for which NCCL queries tuners; for a full tuning without --collectives, all of them.
std::vector<std::string> tunable(const Options& options, const std::string& mode);

// Cases of one round with the job's groups, ordered by collective and size; the same on all ranks.
std::vector<Case> make_cases(const Options& options, const Machine& machine, std::uint64_t seed,
                             const std::vector<std::string>& collectives, const std::vector<Bytes>& sizes);

// The job's sizes within the limits.
std::vector<Bytes> sizes_of(const Options& options, const Machine& machine, const TuningLimits& tuning_limits);

// Size of a communicator; a table is valid for one. NCCL counts an NVLink domain of several hosts as one node.
struct Communicator {
  int ranks = 0, nodes = 0;
  auto operator<=>(const Communicator&) const = default;
};
std::set<Communicator> communicator_sizes(const Options& options, const Placement& placement);

}  // namespace p5
