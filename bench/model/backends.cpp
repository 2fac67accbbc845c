#include "bench/model/backends.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/model/backend.hpp"

namespace p5 {

namespace {

// 3 to 4 s on 2 and 4 × H200, 10 to 12 s on 8 (bench/RESULTS.md).
constexpr Seconds start_of_each_gpu{1.2};

const std::vector<BackendInfo> backends{
    {.name = "nccl",
     .summary = "GPU memory over NCCL, one GPU per rank, in worker processes",
     .ranks = BackendInfo::Ranks::workers,
     .parts = BackendInfo::Parts::gpus,
     .tunable = true,
     .call_options = {"cuda_graph", "register", "aggregate", "cta_policy", "unalign"},
     .runs_beside = true,
     .start_of_each = start_of_each_gpu},
    {.name = "mpi",
     .summary = "host memory over the MPI that started the job",
     .ranks = BackendInfo::Ranks::of_job,
     .parts = BackendInfo::Parts::hosts,
     .call_options = {"unalign"},
     .default_max = MiB(64)},
    {.name = "ofi",
     .summary = "memory of GPUs or hosts over libfabric, messages only, NICs alone, in worker processes",
     .ranks = BackendInfo::Ranks::workers,
     .parts = BackendInfo::Parts::nics,
     .default_max = MiB(64)},
    {.name = "sim",
     .summary = "a model of an instance type: no hardware, no mpirun, marked simulated",
     .ranks = BackendInfo::Ranks::simulated,
     .parts = BackendInfo::Parts::gpus,
     .call_options = {"aggregate"},
     .runs_beside = true,
     .start_of_each = start_of_each_gpu},
};

}  // namespace

void refuse_setting(std::string_view backend, std::string_view setting) {
  if (!setting.empty()) throw CaseError(fmt::format("the {} backend has no settings ({})", backend, setting));
}

ConcurrentTimes Session::sample_concurrently(const ConcurrentRequest&) {
  throw CaseError("this backend runs no work beside a case");
}

std::string beside_error(const BackendInfo& backend, const std::string& work) {
  return fmt::format(
      "--beside {}: the {} backend runs nothing at the same time; --backend nccl does, and sim as a model, or leave "
      "--beside out",
      work, backend.name);
}

std::string job_error(const BackendInfo& backend) {
  return fmt::format("--job: the {} backend replays no jobs; --backend nccl does, and sim as a model", backend.name);
}

std::string launches_error(std::string_view backend, int launches) {
  const bool soak = launches == 0;
  return fmt::format(
      "{}: the {} backend measures within the processes of this job, which cannot be started anew, and new "
      "communicators in the same processes would pass for launches that they are not; start p5bench {} instead, "
      "compare takes all their reports",
      soak ? "--soak" : fmt::format("--launches {}", launches), backend,
      soak ? "again and again" : fmt::format("{} times", launches));
}

std::span<const BackendInfo> backend_table() { return backends; }

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const BackendInfo& info : backends) names.push_back(info.name);
  return names;
}

const BackendInfo& find_backend(std::string_view name) {
  const auto found = std::ranges::find(backends, name, &BackendInfo::name);
  if (found == backends.end()) throw UsageError(unknown_name("backend", name, backend_names()));
  return *found;
}

const BackendInfo* requested_backend(std::string_view name) { return name == "auto" ? nullptr : &find_backend(name); }

}  // namespace p5
