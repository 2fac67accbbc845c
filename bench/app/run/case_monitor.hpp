// Looks at GPUs and NICs once a second while cases run, on every host, and attaches what happened to the cases.
#pragma once

#include <memory>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/app/run/recorder.hpp"
#include "bench/model/control_plane.hpp"
#include "topo/watch.hpp"

namespace p5 {

class CaseMonitor {
 public:
  // On all ranks together: the first of each host starts the watching program, where ranks have GPUs.
  CaseMonitor(ControlPlane& control, const Machine& machine);

  // Wraps the leader's observer: notes when cases ran and what they must have sent.
  Observer& around(Observer& inner);

  // On all ranks together, after the last case. The recorder gets what was seen.
  void finish(ControlPlane& control, const Machine& machine, Recorder& recorder);

 private:
  class Cases;
  Seconds now() const;

  std::unique_ptr<topo::Watch> watch_;
  Seconds begin_{};  // when all ranks were here, on this host's watch
  std::shared_ptr<Cases> cases_;
  bool wanted_ = false;
};

}  // namespace p5
