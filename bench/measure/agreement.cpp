#include "bench/measure/agreement.hpp"

#include <cstdlib>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/base/error.hpp"
#include "bench/measure/runner.hpp"

namespace p5 {

namespace {

// The first character of a message says what follows: a result, a lost process, a failure, or that nothing came back.
constexpr char good = '+', lost = '!', bad = '-', stalled = '~';

struct Part {
  std::string message;
  bool failed = false;
};

std::string failure_text(char kind, int rank, double progress, const std::string& what) {
  return fmt::format("{}{}:{}:{}", kind, rank, progress, what);
}

Part do_part(World& world, const LocalPart& local) {
  const int me = world.hosted().front();
  try {
    return {good + local(), false};
  } catch (const JobLost&) {
    throw;
  } catch (const StalledError& problem) {
    return {failure_text(stalled, problem.rank.value_or(me), problem.progress, problem.what()), true};
  } catch (const LostError& problem) {
    return {failure_text(lost, problem.rank.value_or(me), 0, problem.what()), true};
  } catch (const CaseError& problem) {
    return {failure_text(bad, problem.rank.value_or(me), 0, problem.what()), true};
  } catch (const std::exception& problem) {
    return {failure_text(bad, me, 0, problem.what()), true};
  }
}

struct Failure {
  int rank = 0;
  double progress = 0;
  std::string what;
};

// KIND RANK:PROGRESS:WHAT
Failure parse_failure(const std::string& message) {
  const std::size_t first = message.find(':'), second = message.find(':', first + 1);
  return {std::atoi(message.c_str() + 1), std::atof(message.c_str() + first + 1), message.substr(second + 1)};
}

// Of those that came to a stop, the rank behind all others is to blame; when several are, nobody can be named.
std::optional<std::string> blame_for_stall(const std::vector<std::string>& parts) {
  std::optional<Failure> behind;
  bool several = false;
  for (const std::string& part : parts) {
    if (part.front() != stalled) continue;
    const Failure each = parse_failure(part);
    if (behind && (each.progress > behind->progress || each.rank == behind->rank)) continue;
    several = behind && each.progress == behind->progress;
    if (!several) behind = each;
  }
  if (!behind) return std::nullopt;
  if (!several) return failure_text(bad, behind->rank, 0, behind->what);
  return failure_text(bad, -1, 0, "all ranks stopped at the same point: " + behind->what);
}

// What failed, for all to know; nothing when all parts are good. A lost process explains the errors that its peers then
// see, and a rank's own failure explains those that waited for it.
std::optional<std::string> failure_among(const std::vector<std::string>& parts) {
  for (const char kind : {lost, bad})
    for (const std::string& part : parts)
      if (part.front() == kind) return bad + part.substr(1);
  return blame_for_stall(parts);
}

// Those of a group's members.
std::vector<std::string> parts_of(const Group& group, const std::vector<std::string>& parts) {
  std::vector<std::string> own;
  for (const int rank : group) own.push_back(parts.at(static_cast<std::size_t>(rank)));
  return own;
}

PhaseFailed phase_failed(Phase phase, const std::string& message) {
  const Failure failure = parse_failure(message);
  return {phase, failure.rank < 0 ? std::nullopt : std::optional(failure.rank), failure.what};
}

}  // namespace

std::string agree(World& world, Phase phase, bool recovers, const LocalPart& local, const Decide& decide) {
  const Part part = do_part(world, local);
  if (part.failed && phase != Phase::open && !recovers) {
    const Failure problem = parse_failure(part.message);
    throw JobLost(fmt::format("rank {} failed in {}: {}", problem.rank, name_of(phase), problem.what));
  }
  std::vector<std::string> parts = world.gather(part.message);
  std::string answer;
  if (world.leads()) {
    if (const std::optional<std::string> failure = failure_among(parts)) {
      answer = *failure;
    } else {
      for (std::string& each : parts) each.erase(0, 1);
      answer = good + decide(parts);
    }
  }
  answer = world.broadcast(answer);
  if (answer.front() == bad) throw phase_failed(phase, answer);
  return answer.substr(1);
}

GroupParts gather_by_group(World& world, Phase phase, const Round& groups, const LocalPart& local) {
  GroupParts found;
  found.parts = world.gather(do_part(world, local).message);
  nlohmann::json failures = nlohmann::json::array();
  if (world.leads()) {
    for (const Group& group : groups) failures.push_back(failure_among(parts_of(group, found.parts)).value_or(""));
    for (std::string& part : found.parts) part = part.front() == good ? part.substr(1) : "";
  }
  const std::string shared = world.broadcast(failures.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  for (const auto& each : nlohmann::json::parse(shared)) {
    const std::string message = each;
    found.failures.push_back(message.empty() ? std::nullopt : std::optional(phase_failed(phase, message)));
  }
  return found;
}

}  // namespace p5
