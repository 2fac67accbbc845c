// What a worker writes to its standard output, NCCL's log above all: a file in memory that belongs to the supervisor,
// so that it is there whatever became of the worker. What the operator asked NCCL for (NCCL_DEBUG) goes on to where he
// asked for it. Knows how NCCL's lines look, not what they mean.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/environment.hpp"

namespace p5 {

// What an operator wants to see of NCCL's log, by NCCL's own variables. Pure.
class OperatorsLog {
 public:
  OperatorsLog() = default;
  explicit OperatorsLog(const Environment& environment);

  struct Lines {
    std::string asked_for;  // of NCCL, as far as lines tell it
    std::string others;     // that are not NCCL's
  };
  Lines sort(std::string_view lines) const;
  // The file that he named, as NCCL reads its patterns; "": standard output.
  std::string file(std::string_view host, pid_t process) const;

 private:
  enum class Level { none, version, warn, attn, info, trace } level_ = Level::none;
  bool choices_ = false;  // the lines that tell what was chosen for an operation, of which we ask for some
  std::string pattern_;

  bool wants(std::string_view line) const;  // one of NCCL's
};

// The newest lines of level WARN, the newest last, each once and without the place in front.
std::vector<std::string> last_warnings(std::string_view log, std::size_t most);

class WorkerLog {
 public:
  // `environment`: the worker's. Throws CaseError.
  explicit WorkerLog(const Environment& environment);
  ~WorkerLog();
  WorkerLog(const WorkerLog&) = delete;
  WorkerLog& operator=(const WorkerLog&) = delete;

  // For the worker, as its standard output.
  int descriptor() const { return file_; }

  // Passes on what is new, a few megabytes of it at most; until the worker has ended only whole lines. What nobody
  // will ask for again is dropped.
  void pass_on(pid_t process, bool ended);
  // More has come than is passed on, by so much that it will fill the memory.
  bool flooded() const;
  off_t size() const;
  // From there on, at most so much, in ASCII without control characters.
  std::string text(off_t from, std::size_t most) const;

 private:
  int target(pid_t process);

  int file_ = -1;
  OperatorsLog operators_;
  off_t passed_on_ = 0, dropped_ = 0;
  std::optional<int> target_;
};

// A worker's standard error on its way to ours: libraries that abort() say why there, and nowhere else.
class ErrorLog {
 public:
  // Throws CaseError.
  ErrorLog();
  ~ErrorLog();
  ErrorLog(const ErrorLog&) = delete;
  ErrorLog& operator=(const ErrorLog&) = delete;

  int descriptor() const { return file_; }  // for the worker, as its standard error
  void pass_on();
  // In ASCII without control characters, the newest last.
  std::vector<std::string> last_lines(std::size_t most) const;

 private:
  int file_ = -1;
  off_t passed_on_ = 0;
};

}  // namespace p5
