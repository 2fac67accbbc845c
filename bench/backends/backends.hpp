// How each backend is made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/model/backend.hpp"
#include "bench/model/groups.hpp"

namespace p5 {

// Host memory over MPI_COMM_WORLD. Needs an MpiJob.
std::unique_ptr<Backend> make_mpi_backend();

// Performs no collective at all.
std::unique_ptr<Backend> make_idle_backend();

// A fault to simulate, as in --fault KIND:WHERE:FACTOR[:MODE].
struct Fault {
  enum class Kind { gpu, nic, node, link };
  // at_scale: where more than two take part. The last three are of a GPU alone and leave transfers as they are: matrix
  // products, reading one slice of its memory, and wrong products whatever the factor.
  enum class Mode { always, sometimes, all_rails, at_scale, lies, compute, memory, miscompute };
  Kind kind = Kind::node;
  int node = 0;
  int part = 0;       // GPU or NIC on the node; link: the other node
  double factor = 1;  // share of speed left; 0: silent
  Mode mode = Mode::always;
  double share = 1;  // sometimes: of samples that are hit, 0 to 1
};

// What the simulator knows of a machine: all nodes alike.
struct SimMachine {
  int nodes = 1, gpus = 8, nics = 8;  // gpus and nics per node
  GBps link;                          // one GPU into the node's switch, one direction
  GBps nic;                           // one NIC, one direction
  Seconds link_latency, nic_latency;  // of one hop
  double noise = 0.002;               // relative standard deviation of a time
  double launch_noise = 0.003;        // the same of launches: one factor for all times of a launch
  double part_spread = 0.01;          // healthy parts are slower than they could be by a share up to this, for good
  double route_spread = 0.003;        // relative standard deviation of the ways between two ranks, for good
  double outliers = 0.01;             // share of times that are up to twice as long, as something else came between
  std::uint64_t seed = 1;
  std::vector<Fault> faults;
};

// Throws UsageError naming the text, also when it points outside the machine.
Fault parse_fault(const std::string& text, int nodes, int gpus, int nics);

// Launches differ by a factor of their own (launch_noise): each abandon() begins one, and arms count on from each
// other. The only variable that an arm knows is P5BENCH_SIM_FAULT: a list of faults as parse_fault() takes them,
// besides those of the machine. It throws UsageError on any other.
std::unique_ptr<Backend> make_sim_backend(const SimMachine& machine);

}  // namespace p5
