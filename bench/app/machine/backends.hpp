// Selects and makes a backend of the table (bench/model/backends.hpp), and starts a worker for each rank on a GPU.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/backends/protocol.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "topo/finding.hpp"
#include "topo/topology.hpp"

namespace p5 {

// "" if this host has the worker program and a GPU driver, or /dev/nvidiactl without a driver, which is reported then;
// else what it lacks.
std::string why_no_gpus();

// The largest number of ranks on a GPU. Throws EnvironmentError where several are and may not be, with the GPUs of
// their host that they cannot see.
int max_ranks_per_gpu(const std::vector<protocol::Identity>& identities, const topo::Topology& topology, bool allowed);

// Rank, host and memory of the GPU with the least free memory: "GPU 3 (GPU-0abc) of rank 3 on n1, which has 0 B of 80.0
// GiB free".
std::string describe_fullest_device(const std::vector<protocol::Identity>& identities, const topo::Topology& topology);

// Throws EnvironmentError that names the first rank whose worker did not start, and what to do, if there is one.
// `of_ranks`: what happened to the worker and on which host, by rank; "" where it started.
void refuse_failed_starts(const std::vector<std::string>& of_ranks);

// True for a CUDA error that a device reports of itself: memory or links that failed, a program that it stopped.
bool is_of_device(const std::string& problem);
// Findings about GPUs that failed when they were first used: with an error that only hardware causes, or on hosts where
// another rank's did not fail; `problems`: by rank, "" without one. `visible`: the CUDA_VISIBLE_DEVICES of all ranks,
// which names the GPUs of a single host by UUID. `unanswered`: ranks of whose GPUs nothing is known.
std::vector<topo::Finding> failed_gpus(const topo::Topology& topology, const std::vector<std::string>& problems,
                                       const char* visible, const std::set<std::size_t>& unanswered = {});
// Findings about the hosts of ranks whose worker did not answer, or ended as it started where those of others did not;
// both by rank, "" of others. They condemn no host.
std::vector<topo::Finding> unanswered_ranks(const topo::Topology& topology, const std::vector<std::string>& silences,
                                            const std::vector<std::string>& losses);

bool simulates(const Options& options);

// The requested backend, or the first that this host can run.
const BackendInfo& likely_backend(const Options& options);

// A host's answer about the backends: one letter for each, y if it can run it.
struct BackendsOfHost {
  std::string host, usable, why_no_gpus;
};

void fields(auto& archive, Is<BackendsOfHost> auto& answer) {
  archive.must("host", answer.host);
  archive.must("usable", answer.usable);
  archive.must("why_no_gpus", answer.why_no_gpus);
}

// The first backend that all hosts can run. Throws EnvironmentError naming a host that cannot use GPUs where others
// can.
std::string choose_for_all(const std::vector<BackendsOfHost>& hosts);

// Collective. The requested backend, or choose_for_all().
const BackendInfo& choose_backend(ControlPlane& control, const Options& options);

// Makes the backend machine.backend_name and fills in what it reports of the machine. Topology and platform must be
// set.
void make_backend(ControlPlane& control, const Options& options, std::uint64_t seed, Machine& machine);

}  // namespace p5
