#include "bench/measure/agreement.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/measure/runner.hpp"

namespace p5 {

namespace agreement {

namespace {

enum class Kind : char { lost, failed, stalled };  // process exited, error, timeout

struct Failure {
  Kind kind = Kind::failed;
  std::optional<int> rank = {};   // null: no rank can be named
  double progress = 0;            // progress of the stalled operation
  std::vector<int> stalled = {};  // all hosted ranks that stalled
  std::string what = {};
};

// A part or a decision, or the failure instead.
struct ValueOrFailure {
  std::optional<Failure> failure = {};
  std::string value = {};
};

void fields(auto& archive, Is<Failure> auto& failure) {
  archive.must("kind", failure.kind);
  archive.must("rank", failure.rank);
  archive.must("progress", failure.progress);
  archive.must("stalled", failure.stalled);
  archive.must("what", failure.what);
}

void fields(auto& archive, Is<ValueOrFailure> auto& word) {
  archive.must("failure", word.failure);
  archive.must("value", word.value);
}

ValueOrFailure run_part(ControlPlane& control, const LocalBlob& local) {
  const int me = control.hosted().front();
  try {
    return {.value = local()};
  } catch (const JobLost&) {
    throw;
  } catch (const StalledError& problem) {
    const std::vector<int> ranks = problem.ranks.empty() ? std::vector{problem.rank.value_or(me)} : problem.ranks;
    return {.failure = Failure{Kind::stalled, problem.rank.value_or(me), problem.progress, ranks, problem.what()}};
  } catch (const LostError& problem) {
    return {.failure = Failure{.kind = Kind::lost, .rank = problem.rank.value_or(me), .what = problem.what()}};
  } catch (const CaseError& problem) {
    return {.failure = Failure{.kind = Kind::failed, .rank = problem.rank.value_or(me), .what = problem.what()}};
  } catch (const std::exception& problem) {
    return {.failure = Failure{.kind = Kind::failed, .rank = me, .what = describe(problem)}};
  }
}

// Among stalled ranks, the one behind all others is at fault; when several are, none can be named.
std::optional<Failure> find_stalled_rank(const std::vector<ValueOrFailure>& parts) {
  std::optional<Failure> behind;
  bool several = false;
  for (const ValueOrFailure& part : parts) {
    if (!part.failure || part.failure->kind != Kind::stalled) continue;
    const Failure& each = *part.failure;
    if (behind && (each.progress > behind->progress || each.rank == behind->rank)) continue;
    several = behind && each.progress == behind->progress;
    if (!several) behind = each;
  }
  if (several) {
    behind->rank.reset();
    behind->what = "all ranks stopped at the same point: " + behind->what;
  }
  return behind;
}

// The failure to report to all; null when all parts are good. A lost process explains the errors of its peers, and a
// rank's own failure explains the timeouts of those that waited for it.
std::optional<Failure> first_failure(const std::vector<ValueOrFailure>& parts) {
  for (const Kind kind : {Kind::lost, Kind::failed})
    for (const ValueOrFailure& part : parts)
      if (part.failure && part.failure->kind == kind) return part.failure;
  return find_stalled_rank(parts);
}

// Tells which ranks stalled. None where a process was lost or failed: the others then only wait for it.
void add_stalled_ranks(const std::vector<ValueOrFailure>& parts, PhaseFailed& failed) {
  double least = std::numeric_limits<double>::infinity();
  for (const ValueOrFailure& part : parts) {
    if (!part.failure) continue;
    if (part.failure->kind != Kind::stalled) return;
    least = std::min(least, std::floor(part.failure->progress));
  }
  for (const ValueOrFailure& part : parts) {
    if (!part.failure) continue;
    std::vector<int>& ranks = std::floor(part.failure->progress) > least ? failed.waiting : failed.stalled;
    ranks.insert(ranks.end(), part.failure->stalled.begin(), part.failure->stalled.end());
  }
}

std::vector<ValueOrFailure> gather(ControlPlane& control, const ValueOrFailure& mine) {
  std::vector<ValueOrFailure> parts;
  for (const std::string& blob : control.gather(wire::serialize(mine)))
    parts.push_back(wire::deserialize<ValueOrFailure>(blob));
  return parts;
}

// The parts of a group's members.
std::vector<ValueOrFailure> parts_of(const Group& group, const std::vector<ValueOrFailure>& parts) {
  std::vector<ValueOrFailure> own;
  for (const int rank : group) own.push_back(parts.at(static_cast<std::size_t>(rank)));
  return own;
}

PhaseFailed phase_failed(Phase phase, const Failure& failure) { return {phase, failure.rank, failure.what}; }

}  // namespace

std::string agree_on_blobs(ControlPlane& control, Phase phase, bool recovers, const LocalBlob& local,
                           const DecideBlob& decide) {
  const ValueOrFailure part = run_part(control, local);
  if (part.failure && phase != Phase::open && !recovers)
    throw JobLost(fmt::format("rank {} failed in {}: {}", *part.failure->rank, name_of(phase), part.failure->what));
  std::vector<ValueOrFailure> parts = gather(control, part);
  ValueOrFailure answer;
  if (control.is_leader()) {
    answer.failure = first_failure(parts);
    if (!answer.failure) {
      std::vector<std::string> values;
      for (ValueOrFailure& each : parts) values.push_back(std::move(each.value));
      answer.value = decide(values);
    }
  }
  answer = shared_by_leader(control, answer);
  if (answer.failure) {
    PhaseFailed failed = phase_failed(phase, *answer.failure);
    add_stalled_ranks(parts, failed);
    throw failed;
  }
  return answer.value;
}

}  // namespace agreement

GroupParts gather_by_group(ControlPlane& control, Phase phase, const Round& groups,
                           const std::function<std::string()>& local) {
  const std::vector<agreement::ValueOrFailure> parts = agreement::gather(control, agreement::run_part(control, local));
  std::vector<std::optional<agreement::Failure>> failures;
  if (control.is_leader())
    for (const Group& group : groups) failures.push_back(first_failure(agreement::parts_of(group, parts)));
  GroupParts found;
  for (const auto& each : shared_by_leader(control, failures))
    found.failures.push_back(each ? std::optional(phase_failed(phase, *each)) : std::nullopt);
  for (const agreement::ValueOrFailure& part : parts) found.parts.push_back(part.value);
  return found;
}

}  // namespace p5
