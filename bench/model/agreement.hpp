// Collective steps: each participant contributes a value or an error, the leader sees all parts and decides, all get
// the decision or the error, so that none continues alone. Parts and decisions are typed at the caller (what they may
// hold: base/wire.hpp) and encoded once.
//
//   agree(control, local, decide)      parts of all, then the leader's decision
//   from_leader(control, decide)       the leader's decision alone
//   gather_by_group(...)               groups that fail or succeed independently
#pragma once

#include <exception>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/base/wire.hpp"
#include "bench/model/case.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/measurement.hpp"

namespace p5 {

// A rank failed in a phase; thrown on all participants alike.
struct PhaseFailed {
  Phase phase = Phase::open;
  std::optional<int> rank;  // null: all stopped at the same point
  std::string what;
  FailureContext failure_context = {};  // at the leader
  // At the leader, ranks whose operation did not complete: those behind the others, and those that had completed more
  // and may have waited for them.
  std::vector<int> stalled = {}, waiting = {};
  // At the leader, those of both whose device did not become idle after the abort, each with its own failure.
  std::map<int, std::string> hung = {};
  // As StalledError::cut_short: no rank is at fault; `what` tells which was behind the others.
  bool cut_short = false;
};

// "rank N: what"; `what` alone where no rank failed.
std::string with_rank(std::optional<int> rank, const std::string& what);
// "rank N in PHASE: what".
std::string describe(const PhaseFailed& failed);
// The first text that is not empty, of all ranks; "" if none.
std::string first_told(const std::vector<std::string>& of_ranks);

namespace agreement {

// usage, environment, other: UsageError, EnvironmentError, or any other exception outside of the backend.
enum class Kind : char { lost, failed, stalled, usage, environment, other };

// An error as a value.
struct Failure {
  Kind kind = Kind::other;
  std::optional<int> rank = {};   // null: the leader's decision failed, or no rank can be named
  double progress = 0;            // progress of the stalled operation
  std::vector<int> stalled = {};  // all hosted ranks that stalled
  std::string what = {};
  bool cut_short = false;  // as in StalledError, of any of the ranks that stalled
  bool hangs = false;      // as in StalledError
};

// A part or a decision, or the error instead.
template <class Value>
struct Outcome {
  std::optional<Failure> failure = {};
  Value value = {};
};

template <class Value>
concept AnyFailure = std::is_same_v<std::remove_const_t<Value>, Failure>;
template <class Value>
concept AnyOutcome = requires(Value outcome) {
  outcome.failure;
  outcome.value;
};

void fields(auto& archive, AnyFailure auto& failure) {
  archive.must("kind", failure.kind);
  archive.must("rank", failure.rank);
  archive.must("progress", failure.progress);
  archive.must("stalled", failure.stalled);
  archive.must("what", failure.what);
  archive.must("cut_short", failure.cut_short);
  archive.must("hangs", failure.hangs);
}

void fields(auto& archive, AnyOutcome auto& outcome) {
  archive.must("failure", outcome.failure);
  archive.must("value", outcome.value);
}

// The exception that is being handled. `rank`: where it was thrown. Rethrows JobLost.
Failure current_failure(int rank);
// Throws UsageError, EnvironmentError (for errors of the backend too) or std::runtime_error.
[[noreturn]] void raise(const Failure& failure);

using Failures = std::vector<std::optional<Failure>>;
// The failure to report to all; null when all parts are good. A lost process explains the errors of its peers, and a
// rank's own failure explains the timeouts of those that waited for it.
std::optional<Failure> first_failure(const Failures& failures);
// The same in a phase of the operation under test, in which ranks wait for each other: of ranks that stalled, the one
// behind all others is to blame, and none where several are. `group`: only its ranks count.
std::optional<Failure> failure_of_operation(const Failures& failures);
std::optional<Failure> failure_of_operation(const Failures& failures, const Group& group);
PhaseFailed phase_failed(Phase phase, const Failure& failure);
// Throws PhaseFailed, or what raise() throws where the decision failed. `all`: of each participant, at the leader.
[[noreturn]] void fail_phase(Phase phase, const Failure& failure, const Failures& all);

// The result of `call`; Nothing for void.
template <class Call, class... Arguments>
auto call_result(const Call& call, const Arguments&... arguments) {
  if constexpr (std::is_void_v<std::invoke_result_t<const Call&, const Arguments&...>>) {
    call(arguments...);
    return wire::Nothing{};
  } else {
    return call(arguments...);
  }
}

// This participant's part.
template <class Local>
auto run_part(const ControlPlane& control, const Local& local) -> Outcome<decltype(call_result(local))> try {
  return {.failure = {}, .value = call_result(local)};
} catch (const std::exception&) {
  return {.failure = current_failure(control.hosted().front()), .value = {}};
}

template <class Value>
struct Parts {
  Failures failures;
  std::vector<Value> values;
};

// The parts of all participants in order, at the leader; empty elsewhere.
template <class Value>
Parts<Value> gather_parts(ControlPlane& control, const Outcome<Value>& mine) {
  Parts<Value> parts;
  for (const std::string& blob : control.gather(wire::serialize(mine))) {
    auto part = wire::deserialize<Outcome<Value>>(blob);
    parts.failures.push_back(std::move(part.failure));
    parts.values.push_back(std::move(part.value));
  }
  return parts;
}

// The leader's decision, at all participants. Only a UsageError or an EnvironmentError becomes a failure of all: any
// other exception of the leader is no decision.
template <class Decide, class... Arguments>
auto decide_for_all(ControlPlane& control, const std::optional<Failure>& failure, const Decide& decide,
                    const Arguments&... arguments) {
  Outcome<decltype(call_result(decide, arguments...))> answer{.failure = failure, .value = {}};
  if (control.is_leader() && !failure) try {
      answer.value = call_result(decide, arguments...);
    } catch (const UsageError& problem) {
      answer.failure = Failure{.kind = Kind::usage, .what = problem.what()};
    } catch (const EnvironmentError& problem) {
      answer.failure = Failure{.kind = Kind::environment, .what = problem.what()};
    }
  return wire::deserialize<decltype(answer)>(control.broadcast(wire::serialize(answer)));
}

}  // namespace agreement

// `local`: each participant's part, a value or nothing. `decide`: called at the leader with the parts of all in order;
// its result is returned by all. Throws UsageError or EnvironmentError (of the decision, or with the rank of a part
// that failed), or std::runtime_error.
template <class Local, class Decide>
auto agree(ControlPlane& control, const Local& local, const Decide& decide) {
  const auto parts = agreement::gather_parts(control, agreement::run_part(control, local));
  auto answer = agreement::decide_for_all(control, agreement::first_failure(parts.failures), decide, parts.values);
  if (answer.failure) agreement::raise(*answer.failure);
  return std::move(answer.value);
}

// The same in a phase of the operation under test. recovers: Backend::recovers(). Throws PhaseFailed, or JobLost when
// this part failed while others may wait for it inside the operation.
template <class Local, class Decide>
auto agree(ControlPlane& control, Phase phase, bool recovers, const Local& local, const Decide& decide) {
  const auto mine = agreement::run_part(control, local);
  if (mine.failure && phase != Phase::open && !recovers)
    throw JobLost("rank " + std::to_string(*mine.failure->rank) + " failed in " + std::string(name_of(phase)) + ": " +
                  mine.failure->what);
  const auto parts = agreement::gather_parts(control, mine);
  auto answer =
      agreement::decide_for_all(control, agreement::failure_of_operation(parts.failures), decide, parts.values);
  if (answer.failure) agreement::fail_phase(phase, *answer.failure, parts.failures);
  return std::move(answer.value);
}

// A step without a decision: returns once all have done their part.
template <class Local>
void agree(ControlPlane& control, Phase phase, bool recovers, const Local& local) {
  agree(control, phase, recovers, local, [](const auto&) {});
}

// Returns at all participants what `decide` returned at the leader. Throws its UsageError or EnvironmentError on all.
template <class Decide>
auto from_leader(ControlPlane& control, const Decide& decide) {
  auto answer = agreement::decide_for_all(control, std::nullopt, decide);
  if (answer.failure) agreement::raise(*answer.failure);
  return std::move(answer.value);
}

// The leader's value, at all participants.
template <class Value>
Value shared_by_leader(ControlPlane& control, const Value& leaders) {
  return from_leader(control, [&] { return leaders; });
}

// The values of all participants in order, at the leader; empty elsewhere.
template <class Value>
std::vector<Value> gather_at_leader(ControlPlane& control, const Value& mine) {
  std::vector<Value> all;
  for (const std::string& blob : control.gather(wire::serialize(mine))) all.push_back(wire::deserialize<Value>(blob));
  return all;
}

// Result of a step that groups of ranks take independently: a failure in one group does not affect the others. Each
// participant hosts one rank.
template <class Part>
struct GroupParts {
  std::vector<std::optional<PhaseFailed>> failures;  // by group, known to all
  std::vector<Part> parts;                           // every participant's, at the leader; empty for a failed one
};

template <class Local>
auto gather_by_group(ControlPlane& control, Phase phase, const Round& groups, const Local& local) {
  auto parts = agreement::gather_parts(control, agreement::run_part(control, local));
  agreement::Failures failures;
  if (control.is_leader())
    for (const Group& group : groups) failures.push_back(agreement::failure_of_operation(parts.failures, group));
  GroupParts<typename decltype(parts.values)::value_type> found{{}, std::move(parts.values)};
  for (const std::optional<agreement::Failure>& each : shared_by_leader(control, failures))
    found.failures.push_back(each ? std::optional(agreement::phase_failed(phase, *each)) : std::nullopt);
  return found;
}

}  // namespace p5
