// The worker's control of NCCL's tuner plugin in its own process. The plugin is compiled into the worker and implements
// this interface (tuner/plugin/worker.cpp); NCCL loads it only if NCCL_TUNER_PLUGIN is STATIC_PLUGIN.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/model/backend.hpp"

namespace p5::nccl {

// NCCL's last query to the plugin, on any communicator.
struct TunerCall {
  std::uint64_t number = 0;  // number of queries so far
  bool granted = false;      // the forced setting was offered by NCCL
  std::vector<Offer> offers;
};

class TunerControl {
 public:
  virtual ~TunerControl() = default;
  // True if NCCL has loaded the plugin.
  virtual bool loaded() const = 0;
  // Forces this setting on later calls for which NCCL offers it. Throws CaseError if it is not a setting.
  virtual void force(const std::string& setting) = 0;
  // Ends the forcing.
  virtual void release() noexcept = 0;
  virtual TunerCall last_call() const = 0;
};
TunerControl& tuner_control();

}  // namespace p5::nccl
