// What a tuning is about: collectives, sizes and groups, of what the job measures. Plain values.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/app/tuning/stages.hpp"
#include "bench/model/case.hpp"
#include "bench/model/options.hpp"

namespace p5 {

// Of the job's collectives those that NCCL asks tuners about; all that it asks about in a full tuning of a job that
// named none.
std::vector<std::string> tunable(const Options& options, const std::string& mode);

// Cases of one round with the job's groups, ordered by collective and size. All ranks make the same.
std::vector<Case> make_cases(const Options& options, const Machine& machine, std::uint64_t seed,
                             const std::vector<std::string>& collectives, const std::vector<Bytes>& sizes);

// The sizes that this job measures within the extent.
std::vector<Bytes> sizes_of(const Options& options, const Machine& machine, const TuningLimits& tuning_limits);

// What a communicator of the job's groups is, which a table is for.
struct Communicator {
  int ranks = 0, nodes = 0;
  auto operator<=>(const Communicator&) const = default;
};
std::set<Communicator> kinds_of_communicators(const Options& options, const NodeOfRank& node_of_rank);

}  // namespace p5
