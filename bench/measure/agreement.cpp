#include "bench/measure/agreement.hpp"

#include <optional>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/measure/runner.hpp"

namespace p5 {

namespace agreement {

namespace {

enum class Kind : char { lost, failed, stalled };  // a process is gone, an error, nothing came back

struct Failure {
  Kind kind = Kind::failed;
  std::optional<int> rank = {};   // nullopt: nobody can be named
  double progress = 0;            // of what stalled
  std::vector<int> stalled = {};  // all hosted ranks that stalled
  std::string what = {};
};

// A part or a decision, or what failed instead.
struct Word {
  std::optional<Failure> failure = {};
  std::string value = {};
};

void fields(auto& visit, Is<Failure> auto& failure) {
  visit.must("kind", failure.kind);
  visit.must("rank", failure.rank);
  visit.must("progress", failure.progress);
  visit.must("stalled", failure.stalled);
  visit.must("what", failure.what);
}

void fields(auto& visit, Is<Word> auto& word) {
  visit.must("failure", word.failure);
  visit.must("value", word.value);
}

Word do_part(World& world, const LocalBlob& local) {
  const int me = world.hosted().front();
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
    return {.failure = Failure{.kind = Kind::failed, .rank = me, .what = words_of(problem)}};
  }
}

// Of those that came to a stop, the rank behind all others is to blame; when several are, nobody can be named.
std::optional<Failure> blame_for_stall(const std::vector<Word>& parts) {
  std::optional<Failure> behind;
  bool several = false;
  for (const Word& part : parts) {
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

// What failed, for all to know; nothing when all parts are good. A lost process explains the errors that its peers then
// see, and a rank's own failure explains those that waited for it.
std::optional<Failure> failure_among(const std::vector<Word>& parts) {
  for (const Kind kind : {Kind::lost, Kind::failed})
    for (const Word& part : parts)
      if (part.failure && part.failure->kind == kind) return part.failure;
  return blame_for_stall(parts);
}

// Ranks whose operation did not end. Nothing is known where a process was lost or refused: the others then wait for it.
std::vector<int> stalled_among(const std::vector<Word>& parts) {
  std::vector<int> ranks;
  for (const Word& part : parts) {
    if (!part.failure) continue;
    if (part.failure->kind != Kind::stalled) return {};
    ranks.insert(ranks.end(), part.failure->stalled.begin(), part.failure->stalled.end());
  }
  return ranks;
}

std::vector<Word> gather(World& world, const Word& mine) {
  std::vector<Word> parts;
  for (const std::string& blob : world.gather(wire::blob_of(mine))) parts.push_back(wire::value_of<Word>(blob));
  return parts;
}

// Those of a group's members.
std::vector<Word> parts_of(const Group& group, const std::vector<Word>& parts) {
  std::vector<Word> own;
  for (const int rank : group) own.push_back(parts.at(static_cast<std::size_t>(rank)));
  return own;
}

PhaseFailed phase_failed(Phase phase, const Failure& failure) { return {phase, failure.rank, failure.what}; }

}  // namespace

std::string agree_on_blobs(World& world, Phase phase, bool recovers, const LocalBlob& local, const DecideBlob& decide) {
  const Word part = do_part(world, local);
  if (part.failure && phase != Phase::open && !recovers)
    throw JobLost(fmt::format("rank {} failed in {}: {}", *part.failure->rank, name_of(phase), part.failure->what));
  std::vector<Word> parts = gather(world, part);
  Word answer;
  if (world.leads()) {
    answer.failure = failure_among(parts);
    if (!answer.failure) {
      std::vector<std::string> values;
      for (Word& each : parts) values.push_back(std::move(each.value));
      answer.value = decide(values);
    }
  }
  answer = shared_by_leader(world, answer);
  if (answer.failure) {
    PhaseFailed failed = phase_failed(phase, *answer.failure);
    failed.stalled = stalled_among(parts);
    throw failed;
  }
  return answer.value;
}

}  // namespace agreement

GroupParts gather_by_group(World& world, Phase phase, const Round& groups, const std::function<std::string()>& local) {
  const std::vector<agreement::Word> parts = agreement::gather(world, agreement::do_part(world, local));
  std::vector<std::optional<agreement::Failure>> failures;
  if (world.leads())
    for (const Group& group : groups) failures.push_back(failure_among(agreement::parts_of(group, parts)));
  GroupParts found;
  for (const auto& each : shared_by_leader(world, failures))
    found.failures.push_back(each ? std::optional(phase_failed(phase, *each)) : std::nullopt);
  for (const agreement::Word& part : parts) found.parts.push_back(part.value);
  return found;
}

}  // namespace p5
