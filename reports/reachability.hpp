// Findings about hosts that exchange no messages, and about ranks that did not join a communicator.
#pragma once

#include <string>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/measure/reachability.hpp"
#include "bench/measure/rendezvous.hpp"
#include "reports/report.hpp"
#include "topo/finding.hpp"

namespace p5::reports {

// A host of the reachability test, its NICs by number, the address of the first and the library; empty if its side did
// not get that far.
struct ReachabilityHost {
  std::string name, instance;
  std::vector<std::string> nics = {};
  std::string address, library;
};

// Errors about the fabric: each silent host, NIC or pair (Finding::hosts), or one error if no host receives anything.
// Warnings: a pair that succeeded only at the second attempt, hosts that share an address, hosts that could not run the
// test. `limit` is the timeout of a message.
std::vector<topo::Finding> reachability_findings(const Reachability& reached,
                                                 const std::vector<ReachabilityHost>& hosts, Seconds limit);

// An error for each host or pair of hosts that does not join, or one error if no host does; a warning if the ranks
// joined only at the second attempt. Of one host's GPUs, an error about the hardware for each that fails by itself
// while others do not.
std::vector<topo::Finding> join_findings(const JoinFailure& failure);

// The same in one line, with the action.
std::string join_message(const JoinFailure& failure);

// True if the failure of one of several processes may be due to its host and not to its GPU: limits of processes,
// memory and files, and signals from outside, such as that of the kernel where memory is short.
bool may_be_of_host(const std::string& failure);
// True for a failure that shows that two programs of p5bench are of different versions: of no part of the machine.
bool is_of_versions(const std::string& failure);
// True for the failure of a worker that p5bench ended because it logged too much.
bool is_of_log(const std::string& failure);

// True of an error that names who does not join: the run gave up its ranks at it.
bool is_join_error(const topo::Finding& finding);

// True if ranks did not join and nothing was measured by them; single NICs may have been, by libfabric's workers.
bool never_joined(const Report& report);

// Kinds of findings about joining and reachability.
std::vector<topo::FindingKind> reachability_finding_kinds();

}  // namespace p5::reports
