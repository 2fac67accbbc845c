#include "bench/app/tuning/size_points.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "bench/model/groups.hpp"
#include "bench/model/plan.hpp"
#include "tuner/table.hpp"

namespace p5 {

namespace {

std::vector<Bytes> sizes_between(Bytes min, Bytes max) {
  std::vector<Bytes> sizes;
  for (std::uint64_t size = min.count; size <= max.count; size *= 2) sizes.push_back({size});
  return sizes;
}

}  // namespace

std::vector<std::string> tunable(const Options& options, const std::string& mode) {
  const bool all = mode == "full" && options.collectives == Options{}.collectives;
  std::vector<std::string> names;
  for (const std::string& name : all ? collective_names() : options.collectives)
    if (tuner::parse_function(name)) names.push_back(name);
  return names;
}

std::vector<Case> make_cases(const Options& options, const Machine& machine, std::uint64_t seed,
                             const std::vector<std::string>& collectives, const std::vector<Bytes>& sizes) {
  Options what;
  what.collectives = collectives;
  what.sizes = sizes;
  what.group = options.group;
  what.allow_shared_gpu = options.allow_shared_gpu;
  std::vector<Case> cases = make_plan(what, job_facts(machine, seed), *machine.backend, machine.backend_name).cases;
  std::ranges::sort(cases, [](const Case& a, const Case& b) {
    return std::tuple(a.collective->name, a.bytes.count) < std::tuple(b.collective->name, b.bytes.count);
  });
  return cases;
}

std::vector<Bytes> sizes_of(const Options& options, const Machine& machine, const TuningLimits& tuning_limits) {
  Bytes most = tuning_limits.max;
  // A rank keeps at least one input and one output; the library has its own buffers beside them.
  if (machine.memory_of_rank) most = std::min(most, Bytes{machine.memory_of_rank->count / 4});
  if (options.sizes.empty()) {
    most = options.max_given ? std::min(most, options.max) : most;
    std::vector<Bytes> sizes = tuning_limits.small;
    std::ranges::move(sizes_between(tuning_limits.min, most), std::back_inserter(sizes));
    std::erase_if(sizes, [&](Bytes size) { return size < options.min || size > most; });
    return sizes;
  }
  std::vector<Bytes> sizes;
  for (const Bytes size : options.sizes)
    if (size >= tuning_limits.min && size <= most) sizes.push_back(size);
  return sizes;
}

std::set<Communicator> kinds_of_communicators(const Options& options, const NodeOfRank& node_of_rank) {
  std::set<Communicator> all;
  for (const Group& group : make_groups(options.group, node_of_rank)) {
    std::set<int> nodes;
    for (const int rank : group) nodes.insert(node_of_rank[static_cast<std::size_t>(rank)]);
    all.insert({static_cast<int>(group.size()), static_cast<int>(nodes.size())});
  }
  return all;
}

}  // namespace p5
