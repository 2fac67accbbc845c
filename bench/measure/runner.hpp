// Runs the cases of a plan on all ranks, in one or several launches, and passes each finished Measurement to the
// observer. It does not print, judge or write. runner.cpp: one round of one case; launch_runner.cpp: all launches.
//
// A launch is a list of repetitions: one round of one case each. Repetitions with the same communicators are
// consecutive, so that each round's are created once; a case is finished with the last of its rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/base/thread.hpp"
#include "bench/measure/rendezvous.hpp"
#include "bench/model/agreement.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/groups.hpp"
#include "bench/model/measurement.hpp"

namespace p5 {

// An arm: the backend under test with settings of its own.
struct Arm {
  std::string name = "default";                      // see Case::arm
  Backend* backend = nullptr;                        // not joined, or joined for its first launch
  std::map<std::string, std::string> settings = {};  // shown in reports
};

// A case in one launch of one arm, by indices.
struct CaseInLaunch {
  std::size_t arm = 0;
  int launch = 0;
  std::size_t at = 0;
  auto operator<=>(const CaseInLaunch&) const = default;
};

using OperationsTogether = std::map<std::string, std::vector<int>>;

struct RunnerOptions {
  Seconds budget{600};                     // wall time for all cases
  Seconds kept_from_pairs{0};              // part of it in which no pairs begin, only operations of whole groups
  Seconds timeout{30};                     // of a step without progress; backends that recover end it by themselves
  Watchdog* watchdog = nullptr;            // armed for each step; for longer where the backend recovers
  double precision = 0.01;                 // target half-width of the interval, relative to the median;
  Bytes tight_from = KiB(64);              // twice that below this size
  int most_samples = StoppingRule{}.most;  // per series; only the leader's counts
  bool latency = true;                     // measure latency of small messages, besides throughput

  // Not 0: replaces `launches` by as many launches of the only arm as fit in this wall time, each within the budget.
  Seconds soak{0};
  int launches = 1;        // per arm, if the budget allows; more than one only with Backend::relaunches()
  std::uint64_t seed = 1;  // seed of the order of cases
  bool in_order = false;   // cases and rounds as they are given
  std::string skip_all_because =
      {};  // why no case can be measured, the same on all ranks: all are skipped; "": they can
  std::set<CaseInLaunch> done = {};  // finished in an earlier run, not repeated
  // Called at the leader after the ranks of a launch have joined, with Backend::context() of each; returns why they
  // cannot be measured, or "".
  std::function<std::string(const Arm& arm, const std::vector<Environment>& of_ranks)> objection = {};
  // With a single arm, the hosts of its ranks, for finding those that do not join.
  RanksOnHosts hosts = {};
  // Called by Trials with the time until its workers joined or failed to.
  std::function<void(Seconds)> on_join = {};
  // Numbers of operations in a sample of Quantity::together, by describe(case) with plain calls: the case's own first,
  // then those of each work. Trials that share the map let the same amount of work run. Null: each Trials has its own.
  std::shared_ptr<OperationsTogether> together = {};
};

// Progress of a run at the start of a repetition.
struct RunProgress {
  std::size_t number = 0;    // number of the case among those of all arms, the same in all its launches
  int launch = 0;            // index within its arm, from 0
  bool several = false;      // several launches or arms
  int index = 0, count = 1;  // repetitions in all launches
  Seconds left;
};

// Callbacks at the leader.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void repetition_started(const Case& c, const RunProgress& progress) = 0;
  // The result of the rounds so far; more follow. `failed`: the last one.
  virtual void repetition_finished(const Measurement& so_far, bool failed) = 0;
  // The same after the last round. With several launches once per launch: Measurement::launch is set.
  virtual void case_finished(const Measurement& m, bool failed) = 0;
  // One of several launches: each rank's context, or why the launch could not be measured.
  virtual void launch_started(const Arm& /*arm*/, const std::vector<Environment>& /*of_ranks*/) {}
  virtual void launch_failed(const Arm& /*arm*/, const std::string& /*why*/) {}
  // The ranks did not join, with the hosts at fault, or joined only at the second attempt.
  virtual void joining_failed(const JoinFailure& /*failure*/) {}
  // A remark about the whole run for its readers.
  virtual void remark(const std::string& /*text*/) {}
};

// Runs all cases in one launch. Measurements in the order in which cases ran, complete at the leader only. Throws
// JobLost.
std::vector<Measurement> run_cases(ControlPlane& control, Backend& backend, const std::vector<Case>& cases,
                                   const RunnerOptions& options, Observer& observer);

// The case as measured in this arm.
Case with_arm(Case c, const Arm& arm);

// Runs all cases in each arm, `options.launches` times in fresh processes, with alternating arms (A B B A): a
// measurement for each case, arm and launch. When the budget does not suffice for all launches, all arms get the same
// smaller number. An arm that fails to start is abandoned, and the others then need one launch only. Results go to the
// leader's observer and are not kept, because a soak has an unlimited number of them.
void run_launches(ControlPlane& control, const std::vector<Arm>& arms, const std::vector<Case>& cases,
                  const RunnerOptions& options, Observer& observer);

// One case in a launch, run round by round, alike on all participants.
class CaseRun {
 public:
  CaseRun(ControlPlane& control, Backend& backend, Rendezvous& rendezvous, Case c, const RunnerOptions& options,
          Watchdog* watchdog);

  const Case& measured_case() const { return result_.measured_case; }
  // Measures a round within its share of the budget. Returns a failure, after which the backend has been abandoned; the
  // figures of the other rounds remain.
  std::optional<PhaseFailed> run_repetition(int round, Seconds share);
  // Skips a round.
  void skip(const std::string& why);
  // Rounds that were skipped, or could not run here.
  int rounds_skipped() const { return rounds_skipped_; }
  // True if a repetition of a repeated case failed. Its other repetitions are then skipped, as they would fail too.
  bool skips_other_repetitions() const { return rounds_failed_ > 0 && is_repeated(result_.measured_case); }
  // Counts a round as failed for the same reason as `before`, without running it.
  void fail_like(const PhaseFailed& before);
  bool complete() const { return rounds_done_ == static_cast<int>(result_.measured_case.rounds->size()); }
  // The result of the rounds so far; complete at the leader only.
  Measurement result() const;

 private:
  void fail(const PhaseFailed& failed);
  void record_silent_groups(int round, const PhaseFailed& failed);
  void add_repetition(Measurement part);

  ControlPlane& control_;
  Backend& backend_;
  Rendezvous& rendezvous_;
  const RunnerOptions& options_;
  Watchdog* watchdog_;
  Measurement result_;
  int rounds_done_ = 0, rounds_failed_ = 0, rounds_skipped_ = 0;
  std::string skip_reason_;
  // Medians of the repetitions of a repeated case, at the leader.
  std::vector<double> latency_repetitions_, throughput_repetitions_;
  std::vector<int> slowest_ranks_;
};

// Backend::check_locally() on all participants at the same time, with joined ranks. A figure that differs from all
// others points to the device, its link to the host or the host, not to the fabric. Returns the checks of each rank at
// the leader, empty elsewhere. Throws PhaseFailed.
std::vector<LocalChecks> check_locally(ControlPlane& control, Backend& backend, Seconds burn);

// Backend::check_host_copies() on one rank of each host after the other. Adds to the figures of each rank at the
// leader. Throws PhaseFailed.
void check_host_copies(ControlPlane& control, Backend& backend, const NodeOfRank& node_of_rank,
                       std::vector<LocalChecks>& of_ranks);
// The number of turns that it takes.
int turns_on_hosts(const NodeOfRank& node_of_rank);

// ---- The times of a session, refused where one is no time: figures, verdicts and JSON take only finite times above 0.

// Session::sample() and sample_concurrently() on this participant, whose ranks are `hosted`. Throw CaseError with the
// rank where one of its times is not finite or not above 0, or is missing although the rank is in a group of the round.
Times sample_times(Session& session, const SampleRequest& request, const Round& groups, const std::vector<int>& hosted);
ConcurrentTimes sample_concurrent_times(Session& session, const ConcurrentRequest& request, const Round& groups,
                                        const std::vector<int>& hosted);

}  // namespace p5
