// What can go wrong, as types, and the exit codes that say so. Only main turns one into the other.
#pragma once

#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace p5 {

// The user was wrong: one sentence that names the input and the remedy.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The machine, the launcher or the file system does not let us measure.
struct EnvironmentError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Ranks cannot talk to each other: the job cannot be left in good order, and only the leader has something to say.
struct UnreachableError : EnvironmentError {
  using EnvironmentError::EnvironmentError;
};

// The thing under test failed during a case; the run goes on with the next one.
struct CaseError : std::runtime_error {
  explicit CaseError(const std::string& what, std::optional<int> at_rank = std::nullopt)
      : std::runtime_error(what), rank(at_rank) {}
  std::optional<int> rank;  // where it failed, when that is not the participant that throws
};

// The process that did it is gone or stopped: what others then report is a consequence.
struct LostError : CaseError {
  using CaseError::CaseError;
};

// Nothing came back in time, here or, as others told us, elsewhere. That says nothing yet about whose fault it is.
struct StalledError : CaseError {
  explicit StalledError(const std::string& what, std::optional<int> at_rank = std::nullopt, double done = 0)
      : CaseError(what, at_rank), progress(done) {}
  double progress;  // how far this rank came, in a measure that all ranks share: the one behind the others is to blame
  std::vector<int> ranks = {};  // all hosted ranks that stalled, where a participant hosts several; empty: its only one
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

// Thrown out of a run when this participant failed inside a phase in which others may wait for it for ever: the job has
// to end now.
struct JobLost : std::runtime_error {
  explicit JobLost(const std::string& what, ExitCode ends_with = ExitCode::unfinished)
      : std::runtime_error(what), code(ends_with) {}
  ExitCode code;
};

// What the problem says; where memory has run out, the remedy too.
std::string words_of(const std::exception& problem);

// The code to return when both hold: wrong data, unfinished, environment, slow, inconclusive, in this order.
ExitCode worse(ExitCode a, ExitCode b);

}  // namespace p5
