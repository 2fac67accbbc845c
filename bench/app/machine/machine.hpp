// What the job runs on, agreed among all ranks: topology, limits and the backend that fits the options.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/backends.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "bench/model/plan.hpp"
#include "topo/finding.hpp"
#include "topo/limits.hpp"
#include "topo/platform.hpp"
#include "topo/topology.hpp"

namespace p5 {

struct OwnGpus;

struct Machine {
  topo::Topology topology;                   // all of it at the leader only: see discover_cluster()
  const topo::Platform* platform = nullptr;  // null: not a known instance type
  std::string backend_name;
  std::unique_ptr<Backend> backend;
  std::optional<Bytes> memory_of_rank;  // on devices: the worst one's, free for buffers
  std::string why_not_judged;           // ranks that share a GPU; "" when they do not
  std::string why_idle;                 // check: why there is nothing to measure with; "": there is
  ExitCode code_of_idle = ExitCode::ok;
  std::map<std::string, std::string> software;  // of the devices' library, for the report's context
  std::vector<std::string> gpu_of_rank;         // at the leader: UUIDs
  bool nics_loop_back = true;                   // FabricBackend::loops_back
  std::vector<topo::Finding> findings;          // at the leader: what was noticed on the way

  const BackendInfo& backend_info() const { return find_backend(backend_name); }
};

// Who is asked about a live host besides its files.
topo::Probes probes_for(const Options& options);

// Discovers, or makes up for sim. `world` has one rank per GPU or process; sim brings its own. `own`: of a check
// without a launcher. A check goes on where the backend does not: what was discovered tells why, or that all GPUs are
// in use.
Machine find_machine(ControlPlane& control, const Options& options, std::uint64_t seed, const OwnGpus* own = nullptr);

JobFacts job_facts(const Machine& machine, std::uint64_t seed);

// What the parts of GPUs and their NICs can do, as the machine tells and its platform file. Empty without GPUs.
topo::Limits gpu_limits(const Machine& machine);

// At the leader. Measures what cannot be looked up (host memory), so it takes a moment and all ranks.
topo::Limits find_limits(ControlPlane& control, const Machine& machine);

// Software and environment, from an allow-list: nothing secret.
std::map<std::string, std::string> find_context();

}  // namespace p5
