// Runs the cases of a plan on all ranks and hands each finished Measurement to the observer. It does not print, judge or
// write.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/backend.hpp"
#include "bench/measurement.hpp"
#include "bench/world.hpp"

namespace p5 {

struct RunnerOptions {
  Seconds budget{600};      // wall time that cases may take
  Seconds timeout{30};      // without progress, for backends that cannot recover
  // Called with what was being done when a step of such a backend does not end; expected not to return.
  std::function<void(const std::string&)> on_hang;
  Bytes latency_up_to = MiB(1);
  Bytes tight_from = KiB(64);  // from here on the interval has to be within 1 %, below within 2 %
};

// What the leader sees while the run goes on. Called at the leader only.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void case_started(const Case& c, int index, int count, Seconds left) = 0;
  virtual void case_finished(const Measurement& m) = 0;
};

// Thrown out of run() when this participant failed inside a phase in which others may wait for it for ever: the job has to
// end now.
struct JobLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Measurements in the order in which cases ran, complete at the leader only. Throws JobLost.
std::vector<Measurement> run_cases(World& world, Backend& backend, const std::vector<Case>& cases,
                                   const RunnerOptions& options, Observer& observer);

// Predicted wall time of a case, for dividing the budget: samples and verification on top of the cost model.
Seconds predict(const Case& c, const CostModel& cost);

}  // namespace p5
