// NCCL's debug log in the worker: its level over time, and NCCL's choice for an operation (algorithm, protocol,
// channels) read from it. The level is full from the worker's start until it has joined and for one untimed operation,
// otherwise warnings only, because logging takes time. This file knows NCCL's debug variables and no CUDA.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "bench/model/backend.hpp"

namespace p5::nccl {

// The choice in the last matching line of a log of NCCL 2.20 to 2.32.
std::optional<Selection> parse_tuning_log(std::string_view log);

// NCCL_DEBUG_SUBSYS that adds our subsystems to the user's ("": none), limited to names that NCCL 2.30 and later know.
std::string merge_subsystems(std::string_view operators, std::string_view ours);

// Parts of the last line of a log that tells how long an initialization took, in seconds: "init_bootstrap_s".
CommunicatorCosts parse_init_timings(std::string_view log);

class TuningLog {
 public:
  // Construct before NCCL's first call, which reads the environment. Then NCCL logs everything to standard output, a
  // file of the supervisor's. Does nothing if that cannot be read back.
  TuningLog();
  TuningLog(const TuningLog&) = delete;
  TuningLog& operator=(const TuningLog&) = delete;

  // No effect if this NCCL cannot switch its log.
  void start();
  // Logs only warnings from here.
  void log_warnings_only();
  // Logs only warnings, and returns the choice since start().
  std::optional<Selection> stop();
  // From the log since the worker's start; empty if NCCL logged none, as up to 2.21.
  CommunicatorCosts init_timings() const;
  // Restores the user's values of the log variables in `environment`.
  void restore(std::map<std::string, std::string>& environment) const;

 private:
  void switch_to(std::string_view level);

  bool on_ = false;
  void (*reset_)() = nullptr;
  off_t begin_ = 0;
  std::map<std::string, std::string> operators_;
  // These strings are part of the environment and are changed in place: setenv could move memory that NCCL's threads
  // read.
  std::string level_, subsystems_, path_, loud_;
};

}  // namespace p5::nccl
