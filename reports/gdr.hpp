// Rates of GPUDirect RDMA by path (Report::gdr): each NIC reading each GPU's memory. Not yet measured on EFA, so there
// is no absolute bar and paths are compared with each other.
#pragma once

#include <string>
#include <vector>

#include "bench/model/measurement.hpp"
#include "topo/finding.hpp"
#include "topo/topology.hpp"

namespace p5::reports {

struct GdrPath {
  std::string host, gpu, nic;  // the GPU by its PCI address
  // The host lists the NIC as one of the nearest to the GPU or, if to none, the worker took this GPU for it.
  bool beside = false;
  // The two are of different NUMA nodes, which may be slower by design; false if that is unknown. Not in reports.
  bool crosses = false;
  double nic_gb_per_s = 0;  // as the kernel states it; 0: unknown. Not in reports.
  double gb_per_s = 0;      // reading GPU memory, best sample
  // The rate that is compared: as if the partner had taken what the NIC's best partner takes from the GPU nearest to
  // the NIC. Without it a slow NIC of the partner would make the path slow. 0: the partner's part is unknown. Not in
  // reports.
  double compared_gb_per_s = 0;
  bool slow = false;  // slower than paths of its kind, while other paths of its NIC are not
};

// Data reported by the ranks' workers: PCI addresses of their GPUs, and for each NIC the index of its nearest GPU.
struct GpusOfNics {
  std::vector<std::vector<std::string>> gpus_of_rank;
  std::vector<std::vector<int>> beside_of_rank;
};

// Paths from measurements of single NICs (Case::nic) with data in the memory of GPU Case::gpu; by host, GPU and NIC.
std::vector<GdrPath> gdr_paths(const topo::Topology& topology, const GpusOfNics& gpus,
                               const std::vector<Measurement>& measured);

// gdr.slow_path: a warning for each slow path.
std::vector<topo::Finding> slow_paths(const std::vector<GdrPath>& paths);

// A summary such as "beside 12.1 to 12.3 GB/s, far 9.8 to 10 GB/s, 1 slow: ..."; "" without paths.
std::string gdr_text(const std::vector<GdrPath>& paths);

// Finding kinds for `list findings`.
std::vector<topo::FindingKind> gdr_finding_kinds();

}  // namespace p5::reports
