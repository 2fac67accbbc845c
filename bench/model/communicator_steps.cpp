#include "bench/model/communicator_steps.hpp"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace p5 {

namespace {

constexpr std::array steps{
    CommunicatorStep{.name = "init", .shown = "joining", .while_joining = true, .fixed_s = 0.67, .per_rank_s = 2e-3},
    CommunicatorStep{
        .name = "first", .shown = "the first operation", .while_joining = true, .fixed_s = 0.15, .per_rank_s = 1e-3},
    CommunicatorStep{
        .name = "init_again", .shown = "joining again", .by_ranks = true, .fixed_s = 0.08, .per_rank_s = 2e-3},
    CommunicatorStep{.name = "split", .shown = "splitting", .by_ranks = true, .fixed_s = 0.024, .per_rank_s = 1e-3},
    CommunicatorStep{.name = "split_first",
                     .shown = "the first operation after a split",
                     .by_ranks = true,
                     .by_bytes = true,
                     .fixed_s = 0.14,
                     .per_rank_s = 1e-3},
    CommunicatorStep{.name = "capture", .shown = "capturing a CUDA graph", .fixed_s = 1e-3, .per_rank_s = 1e-6},
    CommunicatorStep{.name = "register", .shown = "registering a buffer", .fixed_s = 1e-3, .per_rank_s = 1e-6},
    CommunicatorStep{.name = "shrink", .shown = "leaving out a rank", .fixed_s = 0.024, .per_rank_s = 1e-3},
    CommunicatorStep{.name = "grow", .shown = "taking in a rank", .fixed_s = 0.08, .per_rank_s = 2e-3},
    CommunicatorStep{.name = "revoke", .shown = "revoking", .fixed_s = 1e-3, .per_rank_s = 1e-5},
    CommunicatorStep{.name = "destroy", .shown = "destroying", .fixed_s = 0.5, .per_rank_s = 1e-4},
    CommunicatorStep{.name = "abort", .shown = "aborting", .fixed_s = 0.5, .per_rank_s = 1e-4},
};

const CommunicatorStep& named(std::string_view name) {
  return *std::ranges::find(steps, name, &CommunicatorStep::name);
}

}  // namespace

std::span<const CommunicatorStep> communicator_steps() { return steps; }

const CommunicatorStep* step_of(const Case& c) {
  if (c.collective != &communicator) return nullptr;
  const auto* const found = std::ranges::find(steps, c.pattern, &CommunicatorStep::name);
  return found == steps.end() ? nullptr : found;
}

Seconds model_of(const CommunicatorStep& step, int ranks) { return {step.fixed_s + step.per_rank_s * ranks}; }

Seconds model_of_sample(const CommunicatorStep& step, int ranks) {
  if (step.while_joining) return {0};
  double whole = model_of(step, ranks).count;
  for (const char* const around : {"split", "split_first", "destroy"})
    if (step.name != around) whole += model_of(named(around), ranks).count;
  return {whole};
}

// Weighted least squares with weights 1 / seconds^2.
GrowthByRanks fit_growth(const std::vector<TimeOfRanks>& times) {
  double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
  for (const TimeOfRanks& each : times) {
    const double weight = 1 / (each.seconds * each.seconds), x = each.ranks;
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wy += weight * each.seconds;
    wxy += weight * x * each.seconds;
  }
  const double determinant = w * wxx - wx * wx;
  assert(determinant > 0);
  const double slope = (w * wxy - wx * wy) / determinant;
  return {.fixed_s = (wy - slope * wx) / w, .per_rank_s = slope};
}

// ---- What the operating system has given this process

CommunicatorCosts footprint() {
  namespace fs = std::filesystem;
  CommunicatorCosts found;
  std::uint64_t size = 0, resident = 0;  // pages
  if (std::ifstream statm("/proc/self/statm"); statm >> size >> resident)
    found["host_memory_bytes"] = static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
  std::error_code problem;
  double descriptors = 0, sockets = 0;
  for (fs::directory_iterator each("/proc/self/fd", problem), end; !problem && each != end; each.increment(problem)) {
    std::error_code gone;
    ++descriptors;
    if (fs::read_symlink(each->path(), gone).native().starts_with("socket:")) ++sockets;
  }
  if (!problem) found["file_descriptors"] = descriptors, found["connections"] = sockets;
  return found;
}

CommunicatorCosts grown(const CommunicatorCosts& before, const CommunicatorCosts& after) {
  CommunicatorCosts more;
  for (const auto& [name, value] : after)
    if (const auto its = before.find(name); its != before.end()) more[name] = std::max(0.0, value - its->second);
  return more;
}

}  // namespace p5
