// Runs the cases of a plan on all ranks, in one launch or in several, and hands each finished Measurement to the
// observer. It does not print, judge or write. runner.cpp: one case; launch_runner.cpp: all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/backend.hpp"
#include "bench/measurement.hpp"
#include "bench/world.hpp"

namespace p5 {

class Watchdog;

// A way to run all cases: the backend under test with settings of its own.
struct Arm {
  std::string name = "default";                      // as in Case::arm
  Backend* backend = nullptr;                        // with no ranks together yet, or those of its first launch
  std::map<std::string, std::string> settings = {};  // for reports
};

struct RunnerOptions {
  Seconds budget{600};  // wall time that cases may take
  Seconds timeout{30};  // without progress, for backends that cannot recover
  // Called with what was being done when a step of such a backend does not end; expected not to return.
  std::function<void(const std::string&)> on_hang = {};
  Bytes latency_up_to = MiB(1);
  Bytes tight_from = KiB(64);  // from here on the interval has to be within 1 %, below within 2 %

  // Not 0: instead of `launches`, as many of the one arm as fit in so much wall time, each within the budget.
  Seconds soak{0};
  int launches = 1;        // of each arm, where the budget allows; more than one only where Backend::relaunches()
  std::uint64_t seed = 1;  // of the order of cases in launches other than the first
  // Asked at the leader when the ranks of a launch have come together, with Backend::context() of each: why they cannot
  // be measured; "" when they can.
  std::function<std::string(const Arm& arm, const std::vector<Backend::Variables>& of_ranks)> objection = {};
  // Told by Trials what its workers took to come together, or until that failed.
  std::function<void(Seconds)> on_join = {};
};

// Where a run stands when a case starts.
struct Standing {
  std::size_t number = 0;    // of the case among those of all arms: alike in all its launches
  int launch = 0;            // of its arm, from 0
  bool several = false;      // launches or arms
  int index = 0, count = 1;  // of all cases in all launches
  Seconds left;
};

// What the leader sees while the run goes on. Called at the leader only.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void case_started(const Case& c, const Standing& standing) = 0;
  // Of several launches each one's: Measurement::launch is set.
  virtual void case_finished(const Measurement& m) = 0;
  // One of several launches: what each rank runs on, or why it could not be measured.
  virtual void launch_started(const Arm& /*arm*/, const std::vector<Backend::Variables>& /*of_ranks*/) {}
  virtual void launch_failed(const Arm& /*arm*/, const std::string& /*why*/) {}
  // Something of the run as a whole that a reader should know.
  virtual void remark(const std::string& /*text*/) {}
};

// Thrown out of a run when this participant failed inside a phase in which others may wait for it for ever: the job has
// to end now.
struct JobLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// All cases in one launch. Measurements in the order in which cases ran, complete at the leader only. Throws JobLost.
std::vector<Measurement> run_cases(World& world, Backend& backend, const std::vector<Case>& cases,
                                   const RunnerOptions& options, Observer& observer);

// All cases in each arm, `options.launches` times in fresh processes, the arms taking turns (A B B A): a measurement
// for each case, arm and launch. When the budget does not allow all launches, all arms get the same smaller number. An
// arm that does not come together is given up, and with it what it would have been compared with.
std::vector<Measurement> run_launches(World& world, const std::vector<Arm>& arms, const std::vector<Case>& cases,
                                      const RunnerOptions& options, Observer& observer);

// The ranks of a backend that are not together yet, or no longer, on terms that the leader settles. Throws PhaseFailed.
void bring_together(World& world, Backend& backend);

// One case of the time that is its share of the budget.
Measurement run_case(World& world, Backend& backend, const Case& c, const RunnerOptions& options, Seconds share,
                     Watchdog* watchdog);

// Predicted wall time of a case, for dividing the budget: samples and verification on top of the cost model.
Seconds predict(const Case& c, const CostModel& cost);

// Of that, the part without which there would be too few samples.
Seconds predict_least(const Case& c, const CostModel& cost);

}  // namespace p5
