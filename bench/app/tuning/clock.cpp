#include "bench/app/tuning/clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace p5 {

namespace {

// On hosts like those that the extents were chosen on (4 x H200: context, NCCL's start and first call,
// bench/RESULTS.md).
constexpr double usual_join_s = 2;
// Two launches of both sides, one after the other.
constexpr int joins_to_confirm = 4;

double beyond_usual(double join_s) { return std::max(0.0, join_s - usual_join_s); }

}  // namespace

TuningClock::TuningClock(Seconds budget, std::function<double()> wall) : budget_(budget), wall_(std::move(wall)) {}

void TuningClock::joined(Seconds took) {
  waited_ += beyond_usual(took.count);
  longest_join_ = std::max(longest_join_, took.count);
}

tuner::TimeLeft TuningClock::until(Seconds end, Seconds reserve) const {
  return [this, end, reserve] { return std::min(end.count - worked(), budget_left() - reserve.count); };
}

Seconds TuningClock::confirmation(const TuningLimits& tuning_limits) const {
  return {tuning_limits.end.count - tuning_limits.ways_end.count + joins_to_confirm * beyond_usual(longest_join_)};
}

std::string TuningClock::objection() const {
  const double needed = limits_of_mode("quick").end.count - worked() + joins_to_confirm * beyond_usual(longest_join_);
  if (budget_left() >= needed) return "";
  const std::string slow = beyond_usual(longest_join_) > 0
                               ? fmt::format("its workers take {} to come together here, so it would take some {} more",
                                             to_text(Seconds{longest_join_}), to_text(Seconds{needed}))
                               : fmt::format("it takes some {}", to_text(Seconds{needed}));
  return fmt::format("No time for tuning: {}, and --budget leaves {}. Give it more, or --tuning off.", slow,
                     to_text(Seconds{std::max(0.0, budget_left())}));
}

Seconds set_aside(const std::string& mode, Seconds budget) {
  const double most = budget.count / 4;
  if (limits_of_mode("quick").end.count > most) return {0};
  return {std::min(limits_of_mode(mode).end.count, most)};
}

TuningLimits fitted(TuningLimits tuning_limits, Seconds budget) {
  const double share = std::min(1.0, budget.count / tuning_limits.end.count);
  for (Seconds TuningLimits::*end :
       {&TuningLimits::search_end, &TuningLimits::arms_end, &TuningLimits::ways_end, &TuningLimits::end})
    (tuning_limits.*end).count *= share;
  return tuning_limits;
}

}  // namespace p5
