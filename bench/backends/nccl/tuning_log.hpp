// What NCCL chose for an operation (algorithm, protocol, channels), read from its own debug log, and what it said while
// it started. The log is on for the start and for one untimed operation only, because writing it takes time. Knows
// NCCL's debug variables, and nothing of CUDA.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bench/backend.hpp"

namespace p5::nccl {

// The choice that the newest line of a log tells of; the wordings of NCCL 2.20 to 2.32 are known.
std::optional<Selection> parse_tuning_log(std::string_view log);

class TuningLog {
 public:
  // Before NCCL's first call: it reads its environment then. Does nothing where the operator has set any NCCL_DEBUG
  // variable, or where this NCCL cannot switch its log later.
  TuningLog();
  ~TuningLog();
  TuningLog(const TuningLog&) = delete;
  TuningLog& operator=(const TuningLog&) = delete;

  void start();
  // Switches the log off; what it told.
  std::optional<Selection> stop();
  // The same, as it stands: its beginning, in ASCII.
  std::string stop_and_take();
  // A variable that is in the environment only because of this log.
  bool set_by_us(std::string_view variable) const;

 private:
  void switch_to(std::string_view level);

  int file_ = -1;  // in memory
  void (*reset_)() = nullptr;
  // In the environment itself, and changed there: setenv would move what NCCL's threads may be reading.
  std::string level_, subsystems_, path_;
};

}  // namespace p5::nccl
