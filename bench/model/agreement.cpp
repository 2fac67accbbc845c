#include "bench/model/agreement.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

namespace p5 {

std::string with_rank(std::optional<int> rank, const std::string& what) {
  return rank ? fmt::format("rank {}: {}", *rank, what) : what;
}

std::string describe(const PhaseFailed& failed) {
  return fmt::format("{}{}: {}", failed.rank ? fmt::format("rank {} in ", *failed.rank) : "", name_of(failed.phase),
                     failed.what);
}

std::string first_told(const std::vector<std::string>& of_ranks) {
  const auto found = std::ranges::find_if_not(of_ranks, &std::string::empty);
  return found == of_ranks.end() ? "" : *found;
}

}  // namespace p5

namespace p5::agreement {

namespace {

// Among stalled ranks, the one behind all others is at fault; when several are, none can be named. None is where a wait
// was cut short: the others' waits ended with it.
std::optional<Failure> find_stalled_rank(const Failures& failures) {
  std::optional<Failure> behind;
  bool several = false, cut_short = false;
  for (const std::optional<Failure>& each : failures) {
    if (!each || each->kind != Kind::stalled) continue;
    cut_short = cut_short || each->cut_short;
    if (behind && (each->progress > behind->progress || each->rank == behind->rank)) continue;
    several = behind && each->progress == behind->progress;
    if (!several) behind = each;
  }
  if (several) {
    behind->rank.reset();
    behind->what = "all ranks stopped at the same point: " + behind->what;
  }
  if (cut_short) {
    behind->cut_short = true;
    behind->what = with_rank(behind->rank, behind->what);
    behind->rank.reset();
  }
  return behind;
}

// Tells which ranks stalled. None where a process was lost or failed: the others then only wait for it.
void add_stalled_ranks(const Failures& failures, PhaseFailed& failed) {
  double least = std::numeric_limits<double>::infinity();
  for (const std::optional<Failure>& each : failures) {
    if (!each) continue;
    if (each->kind != Kind::stalled) return;
    least = std::min(least, std::floor(each->progress));
  }
  for (const std::optional<Failure>& each : failures) {
    if (!each) continue;
    std::vector<int>& ranks = std::floor(each->progress) > least ? failed.waiting : failed.stalled;
    ranks.insert(ranks.end(), each->stalled.begin(), each->stalled.end());
    if (!each->hangs) continue;
    for (const int rank : each->stalled) failed.hung[rank] = each->what;
  }
}

}  // namespace

Failure current_failure(int rank) try { throw; } catch (const JobLost&) {
  throw;
} catch (const StalledError& problem) {
  const std::vector<int> ranks = problem.ranks.empty() ? std::vector{problem.rank.value_or(rank)} : problem.ranks;
  // One process may host several ranks, all of which stopped at the same point.
  return {.kind = Kind::stalled,
          .rank = ranks.size() == 1 ? std::optional(ranks.front()) : std::nullopt,
          .progress = problem.progress,
          .stalled = ranks,
          .what = problem.what(),
          .cut_short = problem.cut_short,
          .hangs = problem.hangs};
} catch (const LostError& problem) {
  return {.kind = Kind::lost, .rank = problem.rank.value_or(rank), .what = problem.what()};
} catch (const CaseError& problem) {
  return {.kind = Kind::failed, .rank = problem.rank.value_or(rank), .what = problem.what()};
} catch (const UsageError& problem) {
  return {.kind = Kind::usage, .rank = rank, .what = problem.what()};
} catch (const EnvironmentError& problem) {
  return {.kind = Kind::environment, .rank = rank, .what = problem.what()};
} catch (const std::exception& problem) {
  return {.kind = Kind::other, .rank = rank, .what = describe(problem)};
}

void raise(const Failure& failure) {
  const std::string what = with_rank(failure.rank, failure.what);
  if (failure.kind == Kind::usage) throw UsageError(what);
  if (failure.kind == Kind::other) throw std::runtime_error(what);
  throw EnvironmentError(what);
}

std::optional<Failure> first_failure(const Failures& failures) {
  const auto find = [&](const auto& wanted) {
    const auto found = std::ranges::find_if(failures, [&](const auto& each) { return each && wanted(each->kind); });
    return found != failures.end() ? *found : std::nullopt;
  };
  if (auto lost = find([](Kind kind) { return kind == Kind::lost; })) return lost;
  if (auto failed = find([](Kind kind) { return kind != Kind::stalled; })) return failed;
  return find([](Kind) { return true; });
}

std::optional<Failure> failure_of_operation(const Failures& failures) {
  std::optional<Failure> first = first_failure(failures);
  return first && first->kind == Kind::stalled ? find_stalled_rank(failures) : first;
}

std::optional<Failure> failure_of_operation(const Failures& failures, const Group& group) {
  Failures own;
  for (const int rank : group) own.push_back(failures.at(static_cast<std::size_t>(rank)));
  return failure_of_operation(own);
}

PhaseFailed phase_failed(Phase phase, const Failure& failure) {
  PhaseFailed failed{phase, failure.rank, failure.what};
  failed.cut_short = failure.cut_short;
  return failed;
}

void fail_phase(Phase phase, const Failure& failure, const Failures& all) {
  if (!failure.rank && (failure.kind == Kind::usage || failure.kind == Kind::environment)) raise(failure);
  PhaseFailed failed = phase_failed(phase, failure);
  add_stalled_ranks(all, failed);
  throw failed;
}

}  // namespace p5::agreement
