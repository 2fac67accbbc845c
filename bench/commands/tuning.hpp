// The tuning phase of a run: the tuner's decisions at the leader, measured on all ranks, and what comes of it.
#pragma once

#include <string>
#include <vector>

#include "bench/commands/machine.hpp"
#include "bench/options.hpp"
#include "bench/runner.hpp"
#include "bench/world.hpp"
#include "reports/tuning.hpp"
#include "tuner/files.hpp"

namespace p5 {

struct Tuned {
  reports::Tuning report;
  std::vector<tuner::NamedFile> files;
  std::vector<tuner::LoadingLine> lines;
};

// On all ranks together, with the same arguments but for `folder`: where the files will lie, at the leader. `mode`:
// quick or full. The result is complete at the leader only. The machine's backend has fresh workers afterwards, or
// none.
Tuned tune(World& world, const Options& options, const Machine& machine, const std::string& mode, std::uint64_t seed,
           const RunnerOptions& runner, const std::string& folder);

// Throws EnvironmentError on all ranks when the files that NCCL's variables name for its tuner differ between ranks:
// then they would decide differently, and hang.
void refuse_differing_tuning_files(World& world);

}  // namespace p5
