// The table of backends: their properties, for code that does not measure.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/model/case.hpp"

namespace p5 {

// A backend's properties; bench/app/machine/backends.cpp constructs it.
struct BackendInfo {
  // of_job: the processes that the launcher started, over their MPI; they cannot be restarted. workers: one worker
  // process per rank, new in each launch. simulated: no processes; topology and limits come from a platform file.
  enum class Ranks { of_job, workers, simulated };
  // The parts between which data moves, and which limit it: gpus: GPUs with their own links and NICs; nics: NICs alone,
  // with host memory; hosts: host memory, and NICs between hosts.
  enum class Parts { gpus, nics, hosts };

  std::string name, summary;
  Ranks ranks = Ranks::of_job;
  Parts parts = Parts::hosts;
  // tuner/ supports its library: checks variables and log, and searches for faster settings.
  bool tunable = false;
  std::vector<std::string_view> call_options = {};  // names of those of CallOptions that it has
  bool runs_beside = false;                         // --beside and --job
  Bytes default_max = GiB(4);  // largest size without an explicit --max, unless options set a lower one
  // From mpirun to the first sample and from the last one to the end, for each rank of a host but the first two:
  // drivers and libraries take longer to start on more GPUs.
  Seconds start_of_each{0};

  bool simulated() const { return ranks == Ranks::simulated; }
  Seconds time_to_start(int ranks_on_host) const { return {start_of_each.count * std::max(ranks_on_host, 3)}; }
  bool has(const CallOption& option) const {
    return std::ranges::find(call_options, option.name) != call_options.end();
  }
  bool relaunches() const { return ranks != Ranks::of_job; }
  // True for real GPUs.
  bool on_gpus() const { return parts == Parts::gpus && !simulated(); }
};

std::span<const BackendInfo> backend_table();
std::vector<std::string> backend_names();
// Throws UsageError that suggests the nearest name.
const BackendInfo& find_backend(std::string_view name);
// The backend that --backend names; null for "auto".
const BackendInfo* requested_backend(std::string_view name);

// Throws CaseError on any setting: for backends whose library has none.
void refuse_setting(std::string_view backend, std::string_view setting);

// Error messages for --beside and --job with a backend that has no works besides a case's operation, with the remedy.
std::string beside_error(const BackendInfo& backend, const std::string& work);
std::string job_error(const BackendInfo& backend);

// Error message for several launches (0: as many as fit) of a backend that cannot relaunch, with the remedy.
std::string launches_error(std::string_view backend, int launches);

}  // namespace p5
