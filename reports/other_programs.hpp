// Programs other than the job's that began to use its GPUs after the machine was described.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/json_fields.hpp"
#include "reports/judge.hpp"
#include "reports/report.hpp"
#include "topo/finding.hpp"
#include "topo/topology.hpp"

namespace p5::reports {

// Processes on a GPU while a job runs, as NVML lists them.
struct ProgramsOnGpu {
  std::string uuid;
  int of_job = 0;                        // the job's own workers
  int unknown = 0;                       // processes of which nothing is seen, as those of another container
  std::vector<std::string> others = {};  // "pid 123, python"
};

void fields(auto& archive, Is<ProgramsOnGpu> auto& programs) {
  archive.must("uuid", programs.uuid);
  archive.must("of_job", programs.of_job);
  archive.must("unknown", programs.unknown);
  archive.must("others", programs.others);
}

// `is_of_job`: null for a process that is not seen.
ProgramsOnGpu programs_on(const topo::Gpu& gpu, const std::function<std::optional<bool>(int pid)>& is_of_job);

// Takes note of GPUs of ranks on which there are more programs than when the machine was described, in the topology and
// as findings gpu.busy. A rank has one worker on its GPU, which may be among the unknown processes. `by_host`: empty
// for a host where NVML told nothing. Returns the evidence of the first such finding; "" without one.
std::string add_programs_that_came(Report& report, const std::vector<std::vector<ProgramsOnGpu>>& by_host);

// Leaves out the hosts on which other programs use GPUs of ranks, by findings gpu.busy.
Comparability without_shared_gpus(const topo::Topology& topology, const std::vector<std::string>& gpu_of_rank,
                                  const std::vector<topo::Finding>& findings);

}  // namespace p5::reports
