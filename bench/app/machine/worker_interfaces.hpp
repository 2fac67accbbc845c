// What the libraries of workers are told of network interfaces where their own choice would lead nowhere: each rank
// finds out for itself, because hosts name their interfaces differently. What the operator set stands.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/base/environment.hpp"
#include "bench/control/interfaces.hpp"
#include "bench/control/launcher.hpp"
#include "bench/model/control_plane.hpp"
#include "topo/finding.hpp"

namespace p5 {

// Whether an environment, or one of NCCL's files that it leads to, says which interfaces NCCL takes.
bool chooses_nccl_interfaces(const Environment& environment, const ReadFile& read);

// What a worker for libfabric is told so that it goes where NCCL will go with this environment. `efa`: all hosts have
// EFA devices. EFA then, unless NCCL_NET names sockets; elsewhere TCP over the interface that NCCL comes together over,
// whatever its data take later. What the operator told libfabric (FI_PROVIDER) stands: then nothing. nullopt: where
// NCCL goes is not clear, or not over IPv4.
std::optional<Environment> way_of_nccl(bool efa, const Environment& environment, const ReadFile& read,
                                       const std::vector<Interface>& all);

// `changes`: a worker's variables over its supervisor's, which may get NCCL_SOCKET_IFNAME. On all ranks together; the
// leader gets the findings.
std::vector<topo::Finding> name_interfaces_for_nccl(ControlPlane& control, const topo::Topology& topology,
                                                    Environment& changes);
// The same for libfabric's TCP (FI_TCP_IFACE), which takes the first.
void name_interface_for_libfabric(const topo::Topology& topology, Environment& changes);
// All that lead to other hosts, for a worker that takes each of them: on several hosts, where the operator named none.
std::vector<std::string> interfaces_for_libfabric(const topo::Topology& topology, const Environment& changes);
// This process' variables, and a worker's over them; empty values are of variables that it does not have.
Environment with_changes(const Environment& changes);

// At the leader: what each rank's NCCL would take wrongly, hosts that are alike together.
std::vector<topo::Finding> interface_findings(const std::vector<NcclInterfaces>& of_rank,
                                              const topo::Topology& topology);
std::vector<topo::FindingKind> interface_finding_kinds();

}  // namespace p5
