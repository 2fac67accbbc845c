// The table of backends: what is special about each, for all who do not measure themselves.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/units.hpp"

namespace p5 {

// A new backend says here what it is; how it is made stands in bench/app/machine/backends.cpp.
struct BackendInfo {
  // of_job: the processes that the launcher started, over their MPI; they cannot be started anew. workers: a process
  // for each of them, new in each launch. simulated: nowhere; topology and limits are those of a platform file.
  enum class Ranks { of_job, workers, simulated };
  // What the data moves between, and what thus limits it: GPUs with links of their own and NICs; NICs alone, with
  // memory of the host; memory of the host, and NICs where there are several.
  enum class Parts { gpus, nics, hosts };

  std::string name, summary;
  Ranks ranks = Ranks::of_job;
  Parts parts = Parts::hosts;
  // tuner/ knows its library: looks over its variables and its log, and searches for faster settings.
  bool tunable = false;
  bool graphs_and_registration = false;  // --cuda-graph and --register
  Bytes default_max = GiB(4);            // the largest size where nobody asks for another, unless options say less
  Seconds around_cases{0};               // from mpirun to the first sample, and from the last one to the end

  bool simulated() const { return ranks == Ranks::simulated; }
  bool relaunches() const { return ranks != Ranks::of_job; }
  // GPUs that are there.
  bool on_gpus() const { return parts == Parts::gpus && !simulated(); }
};

std::span<const BackendInfo> backend_table();
std::vector<std::string> backend_names();
// Throws UsageError with the nearest name.
const BackendInfo& find_backend(std::string_view name);
// The backend that --backend names; null for "auto".
const BackendInfo* asked_backend(std::string_view name);

// For backends whose library has no settings: throws CaseError on any.
void refuse_setting(std::string_view backend, std::string_view setting);

// Why a backend that does not relaunch cannot be measured in several launches (0: as many as fit), and what to do
// instead.
std::string no_launches(std::string_view backend, int launches);

}  // namespace p5
