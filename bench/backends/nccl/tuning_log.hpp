// NCCL's debug log inside the worker: how much is written when, and what NCCL chose for an operation (algorithm,
// protocol, channels), read from it. All that is of interest is written from the worker's start until it has joined,
// and for one untimed operation; otherwise only warnings, because writing takes time. Knows NCCL's debug variables, and
// nothing of CUDA.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "bench/model/backend.hpp"

namespace p5::nccl {

// The choice that the newest line of a log tells of; the wordings of NCCL 2.20 to 2.32 are known.
std::optional<Selection> parse_tuning_log(std::string_view log);

// NCCL_DEBUG_SUBSYS with which NCCL writes what we read, beside what an operator asked for with his ("": nothing), as
// far as all of NCCL 2.30 and later know it.
std::string subsystems_with_ours(std::string_view operators, std::string_view ours);

class TuningLog {
 public:
  // Before NCCL's first call, which reads its environment. From here on NCCL writes all, to standard output, the file
  // of the worker's supervisor. Where that is no file that can be read back, nothing is done.
  TuningLog();
  TuningLog(const TuningLog&) = delete;
  TuningLog& operator=(const TuningLog&) = delete;

  // Without effect where this NCCL cannot switch its log.
  void start();
  // From now on only warnings.
  void log_warnings_only();
  // The same; what was chosen since start().
  std::optional<Selection> stop();
  // Puts the variables of the log as the operator has them in place of ours.
  void restore(std::map<std::string, std::string>& environment) const;

 private:
  void switch_to(std::string_view level);

  bool on_ = false;
  void (*reset_)() = nullptr;
  off_t begin_ = 0;
  std::map<std::string, std::string> operators_;
  // In the environment itself, and changed there: setenv would move what NCCL's threads may be reading.
  std::string level_, subsystems_, path_, loud_;
};

}  // namespace p5::nccl
