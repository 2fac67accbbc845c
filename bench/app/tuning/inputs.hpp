// What a run reads for tuning, and NCCL with it: files that the user names.
#pragma once

#include <vector>

#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "tuner/arms.hpp"
#include "tuner/table.hpp"

namespace p5 {

// --weights, read by the leader. Throws UsageError on all ranks.
std::vector<tuner::Weight> read_weights(ControlPlane& control, const Options& options);

// --keep-table, at the leader; the others get none. Throws UsageError on all ranks.
std::vector<tuner::Table> read_kept_tables(ControlPlane& control, const Options& options);

// Throws EnvironmentError on all ranks when the files that NCCL's variables name for its tuner differ between ranks:
// then they would decide differently, and hang.
void refuse_differing_tuning_files(ControlPlane& control);

}  // namespace p5
