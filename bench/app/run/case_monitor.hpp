// Polls GPUs and NICs of every host once a second while cases run, and attaches what it saw to the cases.
#pragma once

#include <memory>

#include "bench/app/machine/machine.hpp"
#include "bench/app/run/recorder.hpp"
#include "bench/model/control_plane.hpp"
#include "topo/watch.hpp"

namespace p5 {

class CaseMonitor {
 public:
  // Collective. The first rank of each host starts the polling program if ranks have GPUs.
  CaseMonitor(ControlPlane& control, const Machine& machine);

  // Wraps the leader's observer to record when cases ran and how many bytes they must have sent.
  Observer& around(Observer& inner);

  // Now, on this host's clock, since all hosts began to watch.
  Seconds now() const;
  // The times in which each GPU was checked alone, and under load; the leader's count.
  void checked_alone(Seconds from, Seconds to) { alone_.push_back({from, to}); }
  void checked_under_load(Seconds from, Seconds to) { loaded_.push_back({from, to}); }

  // Collective, after the last case. Adds the observations to the recorder.
  void finish(ControlPlane& control, const Machine& machine, Recorder& recorder);

 private:
  class Cases;

  std::unique_ptr<topo::Watch> watch_;
  Seconds begin_{};  // time of the barrier on this host's clock
  std::shared_ptr<Cases> cases_;
  topo::Windows alone_, loaded_;
  bool wanted_ = false;
};

}  // namespace p5
