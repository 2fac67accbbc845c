#include "bench/app/tuning/limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/app/variables.hpp"

namespace p5 {

namespace {

// The same stages, which end after this time.
TuningLimits stretch(TuningLimits tuning_limits, Seconds end) {
  const double share = end.count / tuning_limits.end.count;
  for (Seconds TuningLimits::*each :
       {&TuningLimits::search_end, &TuningLimits::arms_end, &TuningLimits::call_modes_end, &TuningLimits::end})
    (tuning_limits.*each).count *= share;
  return tuning_limits;
}

}  // namespace

TuningLimits limits_of_mode(const std::string& mode) {
  if (mode == "quick") {
    const TuningLimits usual{.small = {Bytes{8}, Bytes{128}, KiB(1)},
                             .min = KiB(4),
                             .max = MiB(64),
                             .burn_in = {0.7},
                             .search_end = {8.5},
                             .arms_end = {9.5},
                             .call_modes_end = {9.5},
                             .end = {17},
                             .burst = {0.5e-3},
                             .samples = 8,
                             .planned_launches = 2,
                             .most_launches = 6};
    return stretch(usual, duration_variable("P5BENCH_QUICK_LIMIT").value_or(usual.end));
  }
  const bool exhaustive = mode == "exhaustive";
  const double most_s = exhaustive ? 1200 : 57;
  return {.small = {},
          .min = Bytes{8},
          .max = GiB(1),
          .burn_in = {3},
          .search_end = {0.45 * most_s},
          .arms_end = {0.7 * most_s},
          .call_modes_end = {0.75 * most_s},
          .end = {most_s},
          .burst = {1e-3},
          .samples = 12,
          .planned_launches = 4,
          .most_launches = 12,
          .exhaustive = exhaustive};
}

TuningLimits limits_beside(TuningLimits tuning_limits, double alone_loss) {
  constexpr double longer = 2;
  tuning_limits = stretch(tuning_limits, {longer * tuning_limits.end.count});
  tuning_limits.small.clear();
  tuning_limits.min = MiB(1);
  tuning_limits.beside = tuner::BesideRules{.alone_loss = alone_loss};
  return tuning_limits;
}

namespace {

// On the hosts for which the limits were chosen (4 x H200: context, NCCL's start and first call, bench/RESULTS.md).
constexpr double typical_join_s = 2;
// Two launches of both sides, in sequence.
constexpr int joins_to_confirm = 2 * least_launches;

double excess_join_time(double join_s) { return std::max(0.0, join_s - typical_join_s); }

// Minimum time of the comparison of a job's step, including its joins.
double comparison_of_step(double join_s, std::optional<Seconds> of_launch) {
  return of_launch ? joins_to_confirm * (std::max(join_s, typical_join_s) + of_launch->count) : 0;
}

}  // namespace

TuningClock::TuningClock(Seconds budget, std::function<double()> wall) : budget_(budget), wall_(std::move(wall)) {}

Seconds TuningClock::step() const { return {comparison_of_step(longest_join_, step_)}; }

void TuningClock::keep_for_step(Seconds other_samples, double worked_before) {
  const double took = worked() - worked_before;
  step_ = Seconds{std::max(0.0, took - std::min(longest_join_, typical_join_s)) + other_samples.count};
  waited_ += took;
}

void TuningClock::joined(Seconds took) {
  waited_ += excess_join_time(took.count);
  longest_join_ = std::max(longest_join_, took.count);
}

tuner::TimeLeft TuningClock::until(Seconds end, Seconds reserve) const {
  return [this, end, reserve] { return std::min(end.count - worked(), budget_left() - reserve.count); };
}

Seconds TuningClock::confirmation(const TuningLimits& tuning_limits) const {
  return {tuning_limits.end.count - tuning_limits.call_modes_end.count +
          joins_to_confirm * excess_join_time(longest_join_)};
}

std::string TuningClock::objection() const {
  const TuningLimits quick = limits_of_mode("quick");
  // A confirmation takes its time however long the stages before it took.
  const double needed = std::max(quick.end.count - worked(), quick.end.count - quick.call_modes_end.count) +
                        joins_to_confirm * excess_join_time(longest_join_) + step().count;
  if (budget_left_for_step() >= needed) return "";
  const std::string slow = excess_join_time(longest_join_) > 0
                               ? fmt::format("its workers take {} to join here, so it would take some {} more",
                                             to_text(Seconds{longest_join_}), to_text(Seconds{needed}))
                               : fmt::format("it takes some {}", to_text(Seconds{needed}));
  return fmt::format("No time for tuning: {}{}, and --budget leaves {}. Give it more, or --tuning off.", slow,
                     step_ ? fmt::format(", {} of it to replay the job's step", to_text(step())) : "",
                     to_text(Seconds{std::max(0.0, budget_left_for_step())}));
}

Seconds predict_tuning_time(const std::string& mode, Seconds join, std::optional<Seconds> step) {
  constexpr int joins_to_search = 1;
  const double first_replay = step ? std::max(join.count, typical_join_s) + step->count : 0;
  return {limits_of_mode(mode).end.count + (joins_to_search + joins_to_confirm) * excess_join_time(join.count) +
          first_replay + comparison_of_step(join.count, step)};
}

Seconds reserve_tuning_time(const std::string& mode, Seconds budget, Seconds join, std::optional<Seconds> step) {
  const double most = budget.count / 4;
  if (limits_of_mode("quick").end.count > most) return {0};
  return {std::min(predict_tuning_time(mode, join, step).count, most)};
}

TuningLimits scale_limits(const TuningLimits& tuning_limits, Seconds budget) {
  return stretch(tuning_limits, {std::min(budget.count, tuning_limits.end.count)});
}

}  // namespace p5
