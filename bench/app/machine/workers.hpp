// Workers of the ranks: program path, start options, identities.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/backends/protocol.hpp"
#include "bench/backends/worker.hpp"
#include "bench/base/environment.hpp"
#include "bench/control/interfaces.hpp"
#include "bench/control/launcher.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "topo/finding.hpp"
#include "topo/topology.hpp"

namespace p5 {

// The path of a program or library of this build: beside this program, or in ../lib/p5bench if installed.
std::string file_of_ours(const std::string& name);

std::string first_hosts(std::vector<std::string> hosts);  // "h1, h2"; of many hosts the first and how many more
const topo::Host& host_of_rank(const topo::Topology& topology, std::size_t rank);
// True for the rank that acts for its host.
bool is_first_on_host(const ControlPlane& control, const topo::Topology& topology);

// True for variables that change what the library does, its plugins and our tuner plugin included: they must be equal
// on all ranks, but for NCCL_HOSTID.
bool changes_library(std::string_view variable);

// Collective; the changes of a worker's environment that give it rank 0's variables: variables that only this rank has
// are empty, which unsets them. None where each rank's own are used.
Environment worker_environment(ControlPlane& control, const Options& options);

// Fills in program, environment, host, local rank and timeout. Throws EnvironmentError if the program is missing;
// `why_missing` names what the build lacked.
WorkerOptions worker_options(ControlPlane& control, const Options& options, const topo::Topology& topology,
                             const std::string& program, const std::string& why_missing);

// Limit for starting workers and then for joining: 120 s, or --timeout if that is given and shorter, but 10 s at least.
Seconds join_limit(const Options& options);

// Starts this rank's worker; its identity as text. Throws CaseError.
std::string identify(WorkerBackend& backend);
// Remedy for a worker that ended because the loader lacks a library or a symbol of it; "" for other ends.
std::string_view remedy_for_loader(const std::string& problem);
// The identities of all ranks' workers. Throws EnvironmentError naming a rank whose library differs from rank 0's.
std::vector<protocol::Identity> identities_from(const std::vector<std::string>& texts, const topo::Topology& topology);

// ---- Network interfaces set for the workers' libraries if their own choice would not reach other hosts. Each rank
// decides for itself because interface names differ between hosts. The user's settings are kept.

// The environment in which this rank's workers start: with --env rank0 the library's variables are rank 0's.
// Collective.
Environment environment_of_workers(ControlPlane& control, const Options& options);

// The environment as NCCL sees it: variables that it lacks, or that are empty, from the file that NCCL_CONF_FILE names,
// else ~/.nccl.conf, and then from /etc/nccl.conf. It has no empty NCCL_ variables: for NCCL they are no number,
// no plugin, and since 2.24 no restriction by NCCL_ALGO or NCCL_PROTO (before, no operation runs with these).
Environment environment_of_nccl(Environment environment, const ReadFile& read);

// True if the environment, or a configuration file of NCCL, selects NCCL's interfaces.
bool chooses_nccl_interfaces(const Environment& environment, const ReadFile& read);

// Variables that make a libfabric worker use the path that NCCL will use with this environment. `efa`: all hosts have
// EFA devices. Selects EFA unless NCCL_NET is Socket; otherwise TCP over NCCL's bootstrap interface. Empty if the user
// set FI_PROVIDER; one of NCCL's configuration files is passed on. nullopt if NCCL's path is unknown or not IPv4.
std::optional<Environment> variables_for_path_of_nccl(bool efa, const Environment& environment, const ReadFile& read,
                                                      const std::vector<Interface>& all);

// Collective; may add NCCL_SOCKET_IFNAME to `changes`, the variables that a worker gets besides its supervisor's. The
// findings are the leader's.
std::vector<topo::Finding> name_interfaces_for_nccl(ControlPlane& control, const topo::Topology& topology,
                                                    Environment& changes);
// Sets FI_TCP_IFACE likewise: libfabric's TCP would take the first interface.
void name_interface_for_libfabric(const topo::Topology& topology, Environment& changes);
// All interfaces that lead to other hosts, for a worker that uses each of them; empty on one host or if the user
// selected one.
std::vector<std::string> interfaces_for_libfabric(const topo::Topology& topology, const Environment& changes);
// The variables of an environment that must be equal on all ranks. NCCL_HOSTID may differ; launchers prepend to
// LD_LIBRARY_PATH on some nodes.
Environment shared_settings(Environment environment);
// LD_LIBRARY_PATH without repeated folders and without those that have neither NCCL, a plugin of it nor libfabric:
// launchers prepend their own. Folders that are not there count.
std::string library_path_of_job(const Environment& environment);
// Those that a worker with such changes has, with the ones of NCCL's configuration files on this host.
Environment settings_of_worker(const Environment& changes, const ReadFile& read);

// Findings of interfaces that NCCL would select wrongly, one for all hosts with the same ones; at the leader.
std::vector<topo::Finding> interface_findings(const std::vector<NcclInterfaces>& of_rank,
                                              const topo::Topology& topology);
std::vector<topo::FindingKind> interface_finding_kinds();

}  // namespace p5
