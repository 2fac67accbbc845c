// The table of backends.
#include "bench/model/backend.hpp"

#include <fmt/format.h>

#include <vector>

#include "bench/base/error.hpp"

namespace p5 {

namespace {

const std::vector<BackendInfo> backends{
    {"nccl", "GPU memory over NCCL, one GPU a rank, in worker processes"},
    {"mpi", "host memory over the MPI that started the job"},
    {"ofi", "host memory over libfabric, messages only, one NIC a rank, in worker processes"},
    {"sim", "a model of an instance type: no hardware, no mpirun, marked simulated"},
};

}  // namespace

void refuse_setting(std::string_view backend, std::string_view setting) {
  if (!setting.empty()) throw CaseError(fmt::format("the {} backend has no settings ({})", backend, setting));
}

std::string no_launches(std::string_view backend, int launches) {
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

}  // namespace p5
