// Workers of the ranks: program path, start options, identities.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/backends/protocol.hpp"
#include "bench/backends/worker.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "topo/topology.hpp"

namespace p5 {

// The path of a program or library of this build: beside this program, or in ../lib/p5bench if installed.
std::string file_of_ours(const std::string& name);

const topo::Host& host_of_rank(const topo::Topology& topology, std::size_t rank);

// Fills in program, environment, host, local rank and timeout. Throws EnvironmentError if the program is missing;
// `why_missing` names what the build lacked.
WorkerOptions worker_options(ControlPlane& control, const Options& options, const topo::Topology& topology,
                             const std::string& program, const std::string& why_missing);

// Limit for starting workers and then for joining: 120 s, or --timeout if that is given and shorter, but 10 s at least.
Seconds join_limit(const Options& options);

// Starts this rank's worker; its identity as text. Throws CaseError.
std::string identify(WorkerBackend& backend);
// The identities of all ranks' workers. Throws EnvironmentError naming a rank whose library differs from rank 0's.
std::vector<protocol::Identity> identities_from(const std::vector<std::string>& texts, const topo::Topology& topology);

}  // namespace p5
