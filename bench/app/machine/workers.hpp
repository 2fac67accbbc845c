// A worker for each rank: where its program is, what it is started with, and what it says that it runs on.
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

// The path of a program or library that was built with this program: beside it, or where it is installed in
// ../lib/p5bench.
std::string file_of_ours(const std::string& name);

const topo::Host& host_of_rank(const topo::Topology& topology, std::size_t rank);

// Fills in program, environment, host, local rank and timeout. Throws EnvironmentError where there is no such program:
// `why_missing` says what the build lacked.
WorkerOptions worker_options(ControlPlane& control, const Options& options, const topo::Topology& topology,
                             const std::string& program, const std::string& why_missing);

// What each rank's worker runs on, or why it does not, as text; starts the workers. On all ranks together: all of them
// at the leader.
std::vector<std::string> identify_workers(ControlPlane& control, WorkerBackend& backend);
// At the leader. Throws EnvironmentError naming the rank whose worker runs on nothing, or whose library is another than
// rank 0's.
std::vector<protocol::Identity> parse_identities(const std::vector<std::string>& texts);
void refuse_mixed_libraries(const std::vector<protocol::Identity>& identities, const topo::Topology& topology);

}  // namespace p5
