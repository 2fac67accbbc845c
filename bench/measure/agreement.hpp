// Collective steps: each participant does its part, the leader sees all parts and decides, all get the decision. When a
// part fails, all learn which rank failed and why, and none continues alone.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/base/wire.hpp"
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
};

namespace agreement {

using LocalBlob = std::function<std::string()>;
using DecideBlob = std::function<std::string(const std::vector<std::string>& parts)>;
std::string agree_on_blobs(ControlPlane& control, Phase phase, bool recovers, const LocalBlob& local,
                           const DecideBlob& decide);

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

}  // namespace agreement

// `local`: each participant's part, a value or nothing. `decide`: called at the leader with the parts of all in order;
// its result is distributed to all. recovers: Backend::recovers(). Throws PhaseFailed, or JobLost when this part failed
// while others may wait for it inside the operation.
template <class Local, class Decide>
auto agree(ControlPlane& control, Phase phase, bool recovers, const Local& local, const Decide& decide) {
  using Part = decltype(agreement::call_result(local));
  using Decision = decltype(agreement::call_result(decide, std::vector<Part>()));
  const std::string decision = agreement::agree_on_blobs(
      control, phase, recovers, [&] { return wire::serialize(agreement::call_result(local)); },
      [&](const std::vector<std::string>& blobs) {
        std::vector<Part> parts;
        parts.reserve(blobs.size());
        for (const std::string& blob : blobs) parts.push_back(wire::deserialize<Part>(blob));
        return wire::serialize(agreement::call_result(decide, parts));
      });
  return wire::deserialize<Decision>(decision);
}

// A step without a decision: returns once all have done their part.
template <class Local>
void agree(ControlPlane& control, Phase phase, bool recovers, const Local& local) {
  agree(
      control, phase, recovers, [&] { local(); }, [](const std::vector<wire::Nothing>&) {});
}

// Distributes the leader's value.
template <class Value>
Value shared_by_leader(ControlPlane& control, const Value& leaders) {
  return wire::deserialize<Value>(control.broadcast(wire::serialize(leaders)));
}

// Result of a step that groups of ranks take independently: a failure in one group does not affect the others. Each
// participant hosts one rank.
struct GroupParts {
  std::vector<std::optional<PhaseFailed>> failures;  // by group, known to all
  std::vector<std::string> parts;                    // every participant's, at the leader; "" for a failed one
};
GroupParts gather_by_group(ControlPlane& control, Phase phase, const Round& groups,
                           const std::function<std::string()>& local);

}  // namespace p5
