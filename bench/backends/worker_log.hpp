// A worker's standard output, above all NCCL's log: a file in the supervisor's memory that survives the worker. Lines
// that the operator requested (NCCL_DEBUG) are passed on to the requested destination. Parses the format of NCCL's
// lines, not their content.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/environment.hpp"

namespace p5 {

// The operator's selection of NCCL's log, by NCCL's own variables. Pure.
class OperatorsLog {
 public:
  OperatorsLog() = default;
  explicit OperatorsLog(const Environment& environment);

  struct Lines {
    std::string asked_for;  // NCCL's lines that the operator requested
    std::string others;     // lines of other libraries
  };
  Lines sort(std::string_view lines) const;
  // The log file that the operator named, by NCCL's pattern rules; "": standard output.
  std::string file(std::string_view host, pid_t process) const;

 private:
  enum class Level { none, version, warn, attn, info, trace } level_ = Level::none;
  bool choices_ = false;  // the operator requested the lines on tuning choices; we enable some of them ourselves
  std::string pattern_;

  bool wants(std::string_view line) const;  // `line`: of NCCL
};

// The latest lines of level WARN, the latest last, without repetition and without their prefix.
std::vector<std::string> last_warnings(std::string_view log, std::size_t most);

class WorkerLog {
 public:
  // `environment`: the worker's. Throws CaseError.
  explicit WorkerLog(const Environment& environment);
  ~WorkerLog();
  WorkerLog(const WorkerLog&) = delete;
  WorkerLog& operator=(const WorkerLog&) = delete;

  // Descriptor for the worker's standard output.
  int descriptor() const { return file_; }

  // Passes on new output, a few megabytes a call; whole lines only until the worker has ended. Frees memory that is not
  // read again.
  void pass_on(pid_t process, bool ended);
  // True if unread output exceeds what pass_on() can keep up with, so that it would fill the memory.
  bool flooded() const;
  off_t size() const;
  // Text from offset `from` on, at most `most` bytes, in ASCII without control characters.
  std::string text(off_t from, std::size_t most) const;

 private:
  int target(pid_t process);

  int file_ = -1;
  OperatorsLog operators_;
  off_t passed_on_ = 0, dropped_ = 0;
  std::optional<int> target_;
};

// A worker's standard error on its way to ours: libraries that call abort() write the reason there only.
class ErrorLog {
 public:
  // Throws CaseError.
  ErrorLog();
  ~ErrorLog();
  ErrorLog(const ErrorLog&) = delete;
  ErrorLog& operator=(const ErrorLog&) = delete;

  int descriptor() const { return file_; }  // for the worker's standard error
  // As in WorkerLog, in ASCII without control characters, but not only whole lines.
  void pass_on(bool ended);
  bool flooded() const;
  // The latest lines in ASCII without control characters, the latest last.
  std::vector<std::string> last_lines(std::size_t most) const;

 private:
  int file_ = -1;
  off_t passed_on_ = 0;
};

}  // namespace p5
