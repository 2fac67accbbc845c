// What the worker tells NCCL's tuner plugin in its own process, and what that plugin saw. The plugin is compiled into
// the worker and implements this (tuner/plugin/worker.cpp); NCCL loads it where NCCL_TUNER_PLUGIN is STATIC_PLUGIN,
// else it is not there for NCCL.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/model/backend.hpp"

namespace p5::nccl {

// The latest call that NCCL asked the plugin about, on any communicator.
struct TunerCall {
  std::uint64_t number = 0;  // counts the calls from 1; 0: none yet
  bool granted = false;      // a setting was forced, and NCCL offered it
  std::vector<Offer> offers;
};

class TunerControl {
 public:
  virtual ~TunerControl() = default;
  // Whether NCCL has loaded the plugin.
  virtual bool loaded() const = 0;
  // All calls from now on run with this setting where NCCL offers it for them. Throws CaseError when it is no setting.
  virtual void force(const std::string& setting) = 0;
  // They run as NCCL chooses again.
  virtual void release() noexcept = 0;
  virtual TunerCall last_call() const = 0;
};
TunerControl& tuner_control();

}  // namespace p5::nccl
