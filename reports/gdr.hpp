// GPUDirect RDMA, one way after the other (Report::gdr): which NIC reads which GPU's memory at what rate. Never seen on
// EFA: until then no bar stands for it, and paths are held against each other.
#pragma once

#include <string>
#include <vector>

#include "bench/model/measurement.hpp"
#include "topo/finding.hpp"
#include "topo/topology.hpp"

namespace p5::reports {

struct GdrPath {
  std::string host, gpu, nic;  // the GPU by its PCI address
  bool beside = false;         // no NIC is nearer to the GPU
  double gb_per_s = 0;         // out of the GPU's memory: the most that it showed
  bool slow = false;           // than those of its kind, while others of its NIC are not
};

// What the workers of the ranks say: PCI addresses of their GPUs, and for each NIC the place of the one beside it.
struct GpusOfNics {
  std::vector<std::vector<std::string>> gpus_of_rank;
  std::vector<std::vector<int>> beside_of_rank;
};

// Of single NICs (Case::nic) whose data lay in GPU memory; Case::gpu says in which. By host, GPU and NIC.
std::vector<GdrPath> gdr_paths(const topo::Topology& topology, const GpusOfNics& gpus,
                               const std::vector<Measurement>& measured);

// gdr.slow_path, a warning for each that is slow.
std::vector<topo::Finding> slow_paths(const std::vector<GdrPath>& paths);

// "beside 12.1 to 12.3 GB/s, far 9.8 to 10 GB/s, 1 slow: ..."; "" without paths.
std::string gdr_text(const std::vector<GdrPath>& paths);

// For `list findings`.
std::vector<topo::FindingKind> gdr_finding_kinds();

}  // namespace p5::reports
