// Runs the cases of a plan on all ranks, in one launch or in several, and hands each finished Measurement to the
// observer. It does not print, judge or write. runner.cpp: one round of one case; launch_runner.cpp: all of them.
//
// A launch is a list of repetitions: one round of one case each. Those that need the same communicators follow each
// other, so that each round's are made once; a case is finished with the last of its rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/base/thread.hpp"
#include "bench/measure/agreement.hpp"
#include "bench/measure/rendezvous.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/measurement.hpp"

namespace p5 {

// A way to run all cases: the backend under test with settings of its own.
struct Arm {
  std::string name = "default";                      // as in Case::arm
  Backend* backend = nullptr;                        // with no ranks together yet, or those of its first launch
  std::map<std::string, std::string> settings = {};  // for reports
};

// A case in one launch of one arm, by their places.
struct CaseInLaunch {
  std::size_t arm = 0;
  int launch = 0;
  std::size_t at = 0;
  auto operator<=>(const CaseInLaunch&) const = default;
};

struct RunnerOptions {
  Seconds budget{600};                     // wall time that cases may take
  Seconds timeout{30};                     // without progress, for backends that cannot recover
  Watchdog* watchdog = nullptr;            // told of each step of such a backend
  double precision = 0.01;                 // what the interval has to be within, as a share of the median;
  Bytes tight_from = KiB(64);              // twice that below this size
  int most_samples = StoppingRule{}.most;  // of a series; the leader's counts
  bool latency = true;                     // of small messages, beside throughput

  // Not 0: instead of `launches`, as many of the one arm as fit in so much wall time, each within the budget.
  Seconds soak{0};
  int launches = 1;           // of each arm, where the budget allows; more than one only where Backend::relaunches()
  std::uint64_t seed = 1;     // of the order of cases in launches other than the first
  std::string hopeless = {};  // why no case can be measured, alike on all ranks: they are left out; "": they can
  std::set<CaseInLaunch> done = {};  // before this run, and not again
  // Asked at the leader when the ranks of a launch have come together, with Backend::context() of each: why they cannot
  // be measured; "" when they can.
  std::function<std::string(const Arm& arm, const std::vector<Environment>& of_ranks)> objection = {};
  // Of a single arm: where ranks are, for finding out which hosts do not join.
  RanksOnHosts hosts = {};
  // Told by Trials what its workers took to come together, or until that failed.
  std::function<void(Seconds)> on_join = {};
};

// Where a run stands when a repetition starts.
struct RunProgress {
  std::size_t number = 0;    // of the case among those of all arms: alike in all its launches
  int launch = 0;            // of its arm, from 0
  bool several = false;      // launches or arms
  int index = 0, count = 1;  // of all repetitions in all launches
  Seconds left;
};

// What the leader sees while the run goes on. Called at the leader only.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void repetition_started(const Case& c, const RunProgress& standing) = 0;
  // What the visited rounds of the case come to; more are to come. `failed`: this one.
  virtual void repetition_finished(const Measurement& so_far, bool failed) = 0;
  // The same after the last of its rounds. Of several launches each one's: Measurement::launch is set.
  virtual void case_finished(const Measurement& m, bool failed) = 0;
  // One of several launches: what each rank runs on, or why it could not be measured.
  virtual void launch_started(const Arm& /*arm*/, const std::vector<Environment>& /*of_ranks*/) {}
  virtual void launch_failed(const Arm& /*arm*/, const std::string& /*why*/) {}
  // The ranks did not join, and which hosts that comes from; or they did only the second time.
  virtual void joining_failed(const JoinFailure& /*failure*/) {}
  // Something of the run as a whole that a reader should know.
  virtual void remark(const std::string& /*text*/) {}
};

// All cases in one launch. Measurements in the order in which cases ran, complete at the leader only. Throws JobLost.
std::vector<Measurement> run_cases(ControlPlane& control, Backend& backend, const std::vector<Case>& cases,
                                   const RunnerOptions& options, Observer& observer);

// As it is measured in this arm.
Case in_arm(Case c, const Arm& arm);

// All cases in each arm, `options.launches` times in fresh processes, the arms taking turns (A B B A): a measurement
// for each case, arm and launch. When the budget does not allow all launches, all arms get the same smaller number. An
// arm that does not come together is given up, and with it what it would have been compared with. The leader's observer
// gets the measurements; nothing is kept here, since a soak has no end of them.
void run_launches(ControlPlane& control, const std::vector<Arm>& arms, const std::vector<Case>& cases,
                  const RunnerOptions& options, Observer& observer);

// One case in a launch, visited round by round, alike on all participants.
class CaseRun {
 public:
  CaseRun(ControlPlane& control, Backend& backend, Rendezvous& joining, Case c, const RunnerOptions& options,
          Watchdog* watchdog);

  const Case& measured_case() const { return result_.measured_case; }
  // Measures a round in its share of the budget. Returns what failed: then the backend has abandoned what cannot be
  // gone on with, and the figures of the other rounds stand.
  std::optional<PhaseFailed> run_repetition(int round, Seconds share);
  // A round that is not measured for want of time.
  void leave_out(const std::string& why);
  // Whether it failed in a way that another repetition would only repeat.
  bool is_lost() const { return rounds_failed_ > 0 && is_repeated(result_.measured_case); }
  // A round that counts as failed like others `before` it, without having been tried.
  void give_up(const PhaseFailed& before);
  bool complete() const { return rounds_done_ == static_cast<int>(result_.measured_case.rounds->size()); }
  // What the rounds so far come to; complete at the leader only.
  Measurement result() const;

 private:
  void fail(const PhaseFailed& failed);
  void note_silence(int round, const PhaseFailed& failed);
  void add_repetition(Measurement part);

  ControlPlane& control_;
  Backend& backend_;
  Rendezvous& rendezvous_;
  const RunnerOptions& options_;
  Watchdog* watchdog_;
  Measurement result_;
  int rounds_done_ = 0, rounds_failed_ = 0, rounds_left_out_ = 0;
  std::string why_left_out_;
  // Medians of the repetitions of a repeated case, at the leader.
  std::vector<double> latency_repetitions_, throughput_repetitions_;
  std::vector<int> slowest_ranks_;
};

}  // namespace p5
