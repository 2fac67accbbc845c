// Error types and exit codes. Only main converts an error to an exit code.
#pragma once

#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace p5 {

// Invalid input of the user; the message is one sentence that names the input and the remedy.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The machine, the launcher or the file system prevents measuring.
struct EnvironmentError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Ranks cannot reach each other: a regular shutdown is impossible, and only the leader reports.
struct UnreachableError : EnvironmentError {
  using EnvironmentError::EnvironmentError;
};

// The backend under test failed during a case; the run continues with the next case.
struct CaseError : std::runtime_error {
  explicit CaseError(const std::string& what, std::optional<int> at_rank = std::nullopt)
      : std::runtime_error(what), rank(at_rank) {}
  std::optional<int> rank;  // the failed rank, when it is not the participant that throws
};

// The failed process has exited or was stopped: errors that other ranks report are consequences.
struct LostError : CaseError {
  using CaseError::CaseError;
};

// An operation timed out here or, by an abort notice, elsewhere. The error alone does not show which rank is at fault.
struct StalledError : CaseError {
  explicit StalledError(const std::string& what, std::optional<int> at_rank = std::nullopt, double done = 0)
      : CaseError(what, at_rank), progress(done) {}
  // Operations completed, which all ranks count alike, and a half if it only waits: the rank behind the others is at
  // fault.
  double progress;
  std::vector<int> ranks = {};  // stalled ranks, where a participant hosts several; empty: its only one
  // The time limit of the whole command ended the wait before the wait's own limit, so it shows no fault of any rank.
  bool cut_short = false;
  bool hangs = false;  // after the abort its device did not become idle, however short the wait was
};

enum class ExitCode {
  ok = 0,
  usage = 2,
  slow = 10,  // or broken, or missing
  wrong_data = 11,
  unfinished = 12,  // a hang, a crash, an unfinished run
  environment = 13,
  inconclusive = 14,
};

// This participant failed in a phase in which others may wait for it forever: the job has to end now.
struct JobLost : std::runtime_error {
  explicit JobLost(const std::string& what, ExitCode ends_with = ExitCode::unfinished)
      : std::runtime_error(what), code(ends_with) {}
  ExitCode code;
};

// The message of an error; for std::bad_alloc with a remedy.
std::string describe(const std::exception& problem);

// The message of an error number; for open files beyond the limit with a remedy.
std::string describe_errno(int number);

// The exit code when both hold, in this order of precedence: usage, wrong data, unfinished, environment, slow,
// inconclusive.
ExitCode worse(ExitCode a, ExitCode b);

}  // namespace p5
