#include "bench/measure/effect.hpp"

#include <algorithm>
#include <cmath>

namespace p5 {

namespace {

enum class Direction { slower, either };

double log_of_time(const Launch& launch) { return std::log(launch.median_s); }

// How much launches differ, from what was seen and what is assumed.
struct Scatter {
  double deviation = 0;
  int degrees = 1;
};
Scatter scatter_of(const std::vector<double>& base, const std::vector<double>& fresh, double launch_spread) {
  const int weight = thresholds().weight;
  const int seen = static_cast<int>(base.size() + fresh.size()) - 2;
  const double sum =
      weight * launch_spread * launch_spread + sum_of_squared_deviations(base) + sum_of_squared_deviations(fresh);
  return {std::sqrt(sum / (weight + seen)), weight + seen};
}

// By how much the ratio of both sides may be off since their times were rounded, as a log. All launches of a side may
// be off in the same direction, so that more of them do not help.
double rounding_of(std::span<const Sides> sizes) {
  const auto largest = [](std::span<const Launch> launches) {
    double most = 0;
    for (const Launch& launch : launches) most = std::max(most, launch.rounding_s / launch.median_s);
    return most;
  };
  double sum = 0;
  for (const Sides& size : sizes) sum += std::log1p(largest(size.base)) + std::log1p(largest(size.fresh));
  return sum / static_cast<double>(sizes.size());
}

Interval widened(const Interval& logs, double by) { return {logs.low - by, logs.high + by}; }

// Too few launches to draw from: what varies within them, and between them as assumed.
Effect screened(double log_ratio, const Interval& logs, const std::vector<double>& base,
                const std::vector<double>& fresh, double launch_spread, Direction direction) {
  const Scatter scatter = scatter_of(base, fresh, launch_spread);
  const double share =
      std::sqrt(1 / static_cast<double>(base.size()) + 1 / static_cast<double>(fresh.size())) * scatter.deviation;
  const double between = student_quantile(0.05, scatter.degrees) * share;
  const double error = std::hypot(share, (logs.high - logs.low) / (2 * 1.96));
  const double beyond = student_two_sided_p(log_ratio / error, scatter.degrees);
  const double slower = log_ratio > 0 ? beyond / 2 : 1 - beyond / 2;
  return effect_of(
      log_ratio,
      {log_ratio - std::hypot(between, log_ratio - logs.low), log_ratio + std::hypot(between, logs.high - log_ratio)},
      direction == Direction::slower ? slower : beyond);
}

}  // namespace

std::vector<double> scores_of(std::span<const Sides> sizes, bool base, double (*value)(const Launch&)) {
  std::vector<double> means;
  for (const Sides& size : sizes) {
    const std::span<const Launch> launches = base ? size.base : size.fresh;
    means.resize(launches.size());
    for (std::size_t l = 0; l < launches.size(); ++l)
      means[l] += value(launches[l]) / static_cast<double>(sizes.size());
  }
  return means;
}

Effect effect_of(double log_ratio, const Interval& logs, double p) {
  return {std::exp(log_ratio), {std::exp(logs.low), std::exp(logs.high)}, p, p};
}

bool EffectJudge::too_few(const Sides& sides) const {
  return smallest_p(sides.base.size(), sides.fresh.size()) * static_cast<double>(rows_) > chance_;
}

double EffectJudge::slower(std::span<const Sides> sizes) {
  return above(scores_of(sizes, true, log_of_time), scores_of(sizes, false, log_of_time));
}

Effects EffectJudge::judge(std::span<const Sides> sizes, double launch_spread, std::uint64_t salt) {
  Effects effects;
  effects.screening = too_few(sizes.front());
  const Resampled drawn = resample(sizes, {.seed = seed_ + salt, .draws_launches = !effects.screening});
  const auto judged = [&](std::span<const Sides> which, double log, const Interval& logs, Direction direction) {
    const std::vector<double> base = scores_of(which, true, log_of_time), fresh = scores_of(which, false, log_of_time);
    if (effects.screening) return screened(log, logs, base, fresh, launch_spread, direction);
    return effect_of(
        log, logs, direction == Direction::slower ? ranks_.one_sided_p(base, fresh) : ranks_.two_sided_p(base, fresh));
  };
  double sum = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double log = log_ratio(sizes[i]);
    sum += log;
    const auto size = sizes.subspan(i, 1);
    effects.each.push_back(judged(size, log, widened(drawn.each[i], rounding_of(size)), Direction::either));
  }
  effects.together = judged(sizes, sum / static_cast<double>(sizes.size()), widened(drawn.together, rounding_of(sizes)),
                            Direction::slower);
  return effects;
}

}  // namespace p5
