#include "bench/app/machine/own_gpus.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "bench/app/machine/machine.hpp"
#include "bench/base/names.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/model/backends.hpp"

namespace p5 {

namespace {

constexpr const char* visible_variable = "CUDA_VISIBLE_DEVICES";

// As CUDA reads it: numbers or the first letters of UUIDs; the first that fits no GPU ends the list.
bool is_visible(const std::vector<topo::Gpu>& gpus, std::size_t gpu, const char* visible) {
  if (!visible) return true;
  for (const std::string& word : split(visible)) {
    const auto named = std::ranges::find_if(gpus, [&](const topo::Gpu& each) {
      const auto at = static_cast<std::size_t>(&each - gpus.data());
      return word == std::to_string(at) || (word.starts_with("GPU-") && each.uuid.starts_with(word));
    });
    if (named == gpus.end()) return false;
    if (std::cmp_equal(named - gpus.begin(), gpu)) return true;
  }
  return false;
}

// "" for one that can be used.
std::string why_not(const topo::Gpu& gpu) {
  if (!gpu.problem.empty()) return gpu.problem;
  if (gpu.uuid.empty()) return "NVML does not tell of it";
  if (gpu.mig == true) return "split into instances (MIG)";
  if (gpu.compute_mode == "prohibited") return "nobody may compute on it";
  if (gpu.processes.value_or(0) == 0) return "";
  if (!gpu.used_by.empty()) return "in use by " + join(gpu.used_by, "; ");
  return fmt::format("in use by {} {}", *gpu.processes, *gpu.processes == 1 ? "process" : "processes");
}

}  // namespace

bool finds_own_gpus(const Options& options) {
  return options.checks() && find_backend(options.backend).on_gpus() && !has_launched_peers();
}

OwnGpus choose_gpus(const topo::NvmlAnswer& told, const char* visible) {
  OwnGpus own;
  bool in_use = false;
  for (std::size_t i = 0; i < told.gpus.size(); ++i) {
    if (!is_visible(told.gpus, i, visible)) continue;
    const topo::Gpu& gpu = told.gpus[i];
    const std::string why = why_not(gpu);
    in_use = in_use || why.starts_with("in use");
    why.empty() ? own.usable.push_back(gpu.uuid) : own.skipped.push_back(fmt::format("GPU {} ({})", i, why));
  }
  if (!own.usable.empty()) return own;
  if (!told.answered) {
    own.why_none = fmt::format("NVML: {}", told.problem);
    own.code_of_none = told.asked ? ExitCode::unfinished : ExitCode::environment;
  } else if (in_use) {
    own.why_none = "no GPU is free";
  } else if (!own.skipped.empty()) {
    own.why_none = "no GPU can be used";
    own.code_of_none = ExitCode::environment;
  } else {
    own.why_none = fmt::format("there is no GPU here{}; --backend mpi, ofi and sim do without",
                               !told.problem.empty() ? fmt::format(" (NVML: {})", told.problem)
                               : visible             ? fmt::format(" ({}={})", visible_variable, visible)
                                                     : "");
    own.code_of_none = ExitCode::environment;
  }
  return own;
}

int visible_gpus(const std::vector<topo::Gpu>& gpus, const char* visible) {
  int count = 0;
  for (std::size_t i = 0; i < gpus.size(); ++i) count += is_visible(gpus, i, visible);
  return count;
}

OwnGpus take_own_gpus(const Options& options) {
  const topo::Probes probes = probes_for(options);
  OwnGpus own = choose_gpus(topo::ask_nvml(probes.nvml, probes.limit), std::getenv(visible_variable));
  if (!own.usable.empty()) setenv(visible_variable, join(own.usable, ",").c_str(), /*overwrite=*/1);
  return own;
}

}  // namespace p5
