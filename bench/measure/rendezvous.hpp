// Rendezvous of a backend's ranks and, if it fails, location of the host at fault: hosts alone, then pairs of hosts,
// each in fresh workers and with a short deadline of its own.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/measurement.hpp"

namespace p5 {

struct PhaseFailed;
class Observer;

// Joins the ranks of a backend if they have not joined or were abandoned, on terms that the leader decides. Throws
// PhaseFailed.
void join_ranks(ControlPlane& control, Backend& backend);

// Joins each group separately; returns each group's failure, the same on all participants.
std::vector<std::optional<PhaseFailed>> join_groups(ControlPlane& control, Backend& backend,
                                                    const RendezvousGroups& rendezvous_groups);

// ---- causes of a failure to join. Pure.

// A subset of hosts that tried to join without the others.
struct JoinAttempt {
  std::vector<int> hosts;
  std::string failure = {};      // "": they joined
  std::optional<int> rank = {};  // that failed, where one is known
};

struct JoinFault {
  // nowhere: no host's ranks join, not even alone. between: no two hosts join, though each does alone. together: all
  // join alone and in pairs, but the whole job does not.
  enum class Kind { nowhere, hosts, between, pairs, together };
  Kind kind = Kind::together;
  std::vector<int> hosts = {};
  bool alone = false;                      // they fail alone
  std::vector<std::string> failures = {};  // of each of these hosts, where they fail alone
  std::vector<std::pair<int, int>> pairs = {};
  std::string because = {};     // failure of the first of them
  std::vector<int> ranks = {};  // that failed, of each of the attempts that failed where one is known
};

// Hosts that fail alone; else hosts that fail with each of several partners, of which at least one is sound because it
// joins with others; else pairs. If the same hosts tried more than once, the last trial counts.
JoinFault locate_fault(int hosts, const std::vector<JoinAttempt>& trials);

// Rounds of disjoint pairs in which each host is paired with two others: two rounds, or three for an odd number of
// hosts.
std::vector<std::vector<std::pair<int, int>>> pairs_to_try(int hosts);

// ----

// Hosts of ranks, to locate a fault. Without hosts there is no search.
struct RanksOnHosts {
  std::vector<int> host_of_rank = {};
  std::vector<std::string> names = {};
  // If not "", all ranks are on this host, and its GPUs take the place of hosts.
  std::string one_host = {};
};

// The reason of each case after a run was given up ends in this.
inline constexpr const char* see_findings = "see the findings";

// The leader's report on a failure to join.
struct JoinFailure {
  std::optional<JoinFault> culprit = {};  // nullopt: the second attempt succeeded
  std::vector<std::string> hosts = {};    // their names
  std::string one_host = {};              // as in RanksOnHosts
  std::string said = {};                  // the failure and the hosts at fault, as a sentence
};

// Rendezvous for one arm of a run: locates the fault where ranks do not join, and aborts the run if another attempt is
// hopeless. Failures that were gone at the second attempt do not count, however many there are.
class Rendezvous {
 public:
  Rendezvous(ControlPlane& control, RanksOnHosts hosts, Observer& observer);

  // Throws PhaseFailed, at once after the run was given up.
  void join_ranks(Backend& backend);
  // Reason why ranks cannot join any more, the same on all participants; "": no such failure is known.
  const std::string& given_up() const { return given_up_; }

 private:
  void search_for_fault(Backend& backend, const PhaseFailed& first);
  std::optional<PhaseFailed> join_again(Backend& backend);
  bool try_rounds(Backend& backend, std::vector<JoinAttempt>& trials);
  bool try_round(Backend& backend, const std::vector<std::vector<int>>& hosts, int rounds_left,
                 std::vector<JoinAttempt>& trials);
  [[noreturn]] void throw_cut_off(const PhaseFailed& first, const std::vector<JoinAttempt>& trials);
  void start_anew(Backend& backend);
  void tell(const PhaseFailed& first, const std::optional<JoinFault>& culprit);

  ControlPlane& control_;
  const RanksOnHosts hosts_;
  Observer& observer_;
  Clock::time_point began_{};
  Seconds longest_start_{};  // of a rank's worker so far
  bool cut_off_ = false;     // the time limit of the whole command cut a trial short
  std::string given_up_;
};

}  // namespace p5
