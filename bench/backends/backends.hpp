// Factories of the backends, and the faults of the simulator.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/model/backend.hpp"
#include "bench/model/groups.hpp"

namespace p5 {

// Moves host memory over MPI_COMM_WORLD. Needs an MpiJob.
std::unique_ptr<Backend> make_mpi_backend();

// A fault to simulate, as in --fault KIND:WHERE:FACTOR[:MODE].
struct Fault {
  enum class Kind { gpu, nic, node, link, domain };
  // always, sometimes (a share of the samples), all_rails (only while all NICs are busy), at_scale (only with more than
  // two ranks) and lies (wrong data) apply to transfers, the other modes do not. communicators: time to create, first
  // use and destroy a communicator. compute, memory, miscompute: checks of a GPU alone (matrix products, reading one
  // slice of its memory, wrong products whatever the factor). under_load: only while matrix products and messages of a
  // rank overlap, as when power capping lowers clocks. clique: the node's GPUs are outside the clique of their NVLink
  // domain. plane: as always, and NVML reports as many of the domain's NVLinks as are left.
  enum class Mode {
    always,
    sometimes,
    all_rails,
    at_scale,
    lies,
    communicators,
    clique,
    plane,
    compute,
    memory,
    miscompute,
    under_load
  };
  Kind kind = Kind::node;
  int node = 0;       // domain: its number
  int part = 0;       // GPU or NIC on the node; link: the other node
  double factor = 1;  // share of speed left; 0: silent
  Mode mode = Mode::always;
  double share = 1;  // sometimes: share of affected samples, 0 to 1
};

// The simulated machine; all nodes are equal but for faults.
struct SimMachine {
  int nodes = 1, gpus = 8, nics = 8;  // per node, but `nodes`
  int nodes_per_domain = 1;           // nodes that share an NVLink domain: the first ones, the next ones, ...
  GBps link;                          // one GPU into the node's switch, one direction
  GBps nic;                           // one NIC, one direction
  Seconds link_latency, nic_latency;  // per hop
  double noise = 0.002;               // relative standard deviation of a time
  double launch_noise = 0.003;        // the same for launches: one factor for all times of a launch
  double part_spread = 0.01;          // maximum permanent slowdown of a healthy part
  double route_spread = 0.003;        // permanent relative standard deviation between pairs of ranks
  double outliers = 0.01;             // share of times prolonged by a disturbance, up to twofold
  std::uint64_t seed = 1;
  std::vector<Fault> faults;

  int domains() const { return (nodes + nodes_per_domain - 1) / nodes_per_domain; }
  // From 0; a node outside its clique is a domain of its own, with a number above the others.
  int domain_of(int node) const;
};

// Throws UsageError naming the text, also if it names a part outside the machine.
Fault parse_fault(const std::string& text, const SimMachine& machine);

inline constexpr const char* sim_fault_variable = "P5BENCH_SIM_FAULT";  // of an arm

// Each launch has a factor of its own (launch_noise); each abandon() and each arm starts a new launch. An arm
// has P5BENCH_SIM_FAULT, a list of faults in the format of parse_fault(), added to the machine's, and
// NCCL_MNNVL_ENABLE, of which 0 makes each node an NVLink domain. Other variables throw UsageError.
std::unique_ptr<Backend> make_sim_backend(const SimMachine& machine);

}  // namespace p5
