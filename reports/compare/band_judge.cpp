#include "reports/compare/band_judge.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace p5::reports {

namespace {

double square_sum(const std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum;
}

// How much launches differ, from what was seen and what is assumed.
struct Scatter {
  double deviation = 0;
  int degrees = 1;
};
Scatter scatter_of(const std::vector<double>& base, const std::vector<double>& fresh, const BandRule& band) {
  const int weight = thresholds().weight;
  const int seen = static_cast<int>(base.size() + fresh.size()) - 2;
  const double sum = weight * band.launch_spread * band.launch_spread + square_sum(base) + square_sum(fresh);
  return {std::sqrt(sum / (weight + seen)), weight + seen};
}

Effect effect_of(double log_ratio, const Interval& logs, double p) {
  return {std::exp(log_ratio), {std::exp(logs.low), std::exp(logs.high)}, p, p};
}

// Of the samples within a launch, relative to their median.
double spread_of(const Launch& launch) { return robust_deviation(launch.samples_s) / median(launch.samples_s); }

double log_of_time(const Launch& launch) { return std::log(launch.median_s); }

double log_of_spread(const Launch& launch) {
  // With a tenth of what anyone notices, so that a spread of nothing has a logarithm.
  return std::log(std::hypot(spread_of(launch), thresholds().spread.least / 10));
}

std::vector<double> logs_of(std::span<const Launch> launches) {
  std::vector<double> logs;
  for (const Launch& launch : launches) logs.push_back(log_of_time(launch));
  return logs;
}

bool has_samples(std::span<const Launch> launches) {
  return std::ranges::all_of(launches, [](const Launch& launch) { return launch.samples_s.size() >= 6; });
}

// Numbers in place of times, to be drawn like them.
std::vector<Launch> launches_from(const std::vector<double>& logs) {
  std::vector<Launch> launches;
  for (const double log : logs) launches.emplace_back().median_s = std::exp(log);
  return launches;
}

double mean_time(std::span<const Launch> launches) {
  double sum = 0;
  for (const Launch& launch : launches) sum += launch.median_s;
  return sum / static_cast<double>(launches.size());
}

}  // namespace

BandRow BandJudge::judge(const Row& row) {
  BandRow out;
  out.collective = row.collective;
  out.quantity = row.quantity;
  out.sizes = static_cast<int>(row.judged.size());
  out.threshold = threshold_of(row);
  const Cell first = pairs_[row.judged.front()].cell();
  out.base_launches = static_cast<int>(first.base.size());
  out.new_launches = static_cast<int>(first.fresh.size());
  out.screening = too_few(first);
  judge_time(row, out);
  judge_spread(row, out);
  for (const std::size_t i : row.pairs)
    if (std::ranges::find(row.judged, i) == row.judged.end()) judge_alone(i, *row.band);
  return out;
}

bool BandJudge::too_few(const Cell& cell) const {
  return least_p(cell.base.size(), cell.fresh.size()) * static_cast<double>(rows_) > chance_of_alarm;
}

Threshold BandJudge::threshold_of(const Row& row) const {
  double logs = 0;
  for (const std::size_t i : row.judged) logs += std::log1p(matters_at(*row.band, mean_time(pairs_[i].cell().base)));
  const double matters = std::expm1(logs / static_cast<double>(row.judged.size()));
  return {row.band->name, matters, matters * row.band->negligible, row.band->because};
}

Resampled BandJudge::draw(const std::vector<std::size_t>& which, bool screening) const {
  std::vector<Cell> cells;
  for (const std::size_t i : which) cells.push_back(pairs_[i].cell());
  return resample(cells, {.seed = seed_ + which.front(), .draws_launches = !screening});
}

Effect BandJudge::effect(double log_ratio, const Interval& logs, const std::vector<double>& base,
                         const std::vector<double>& fresh, bool screening, const BandRule& band, Direction direction) {
  if (!screening)
    return effect_of(log_ratio, logs,
                     direction == Direction::slower ? ranks_.above(base, fresh) : ranks_.apart(base, fresh));
  // Too few launches: what varies within them, and between them as assumed.
  const Scatter scatter = scatter_of(base, fresh, band);
  const double share =
      std::sqrt(1 / static_cast<double>(base.size()) + 1 / static_cast<double>(fresh.size())) * scatter.deviation;
  const double between = student_quantile(0.05, scatter.degrees) * share;
  const double error = std::hypot(share, (logs.high - logs.low) / (2 * 1.96));
  const double beyond = student_beyond(log_ratio / error, scatter.degrees);
  const double slower = log_ratio > 0 ? beyond / 2 : 1 - beyond / 2;
  return effect_of(
      log_ratio,
      {log_ratio - std::hypot(between, log_ratio - logs.low), log_ratio + std::hypot(between, logs.high - log_ratio)},
      direction == Direction::slower ? slower : beyond);
}

void BandJudge::judge_time(const Row& row, BandRow& out) {
  const Resampled drawn = draw(row.judged, out.screening);
  double sum = 0;
  for (std::size_t i = 0; i < row.judged.size(); ++i) {
    const double ratio = log_ratio(pairs_[row.judged[i]].cell());
    sum += ratio;
    judge_cell(row.judged[i], ratio, drawn.each[i], out.screening, *row.band);
  }
  out.time = effect(sum / static_cast<double>(row.judged.size()), drawn.together, scores(row, true, log_of_time),
                    scores(row, false, log_of_time), out.screening, *row.band, Direction::slower);
}

void BandJudge::judge_cell(std::size_t i, double ratio, const Interval& logs, bool screening, const BandRule& band) {
  const Cell cell = pairs_[i].cell();
  cells_[i] = effect(ratio, logs, logs_of(cell.base), logs_of(cell.fresh), screening, band, Direction::either);
}

// A size of other launches than its row's.
void BandJudge::judge_alone(std::size_t i, const BandRule& band) {
  const Cell cell = pairs_[i].cell();
  judge_cell(i, log_ratio(cell), draw({i}, too_few(cell)).each.front(), too_few(cell), band);
}

void BandJudge::judge_spread(const Row& row, BandRow& out) {
  for (const std::size_t i : row.judged)
    if (!has_samples(pairs_[i].cell().base) || !has_samples(pairs_[i].cell().fresh)) return;
  const std::vector<double> base = scores(row, true, log_of_spread), fresh = scores(row, false, log_of_spread);
  out.base_spread = std::exp(median(base));
  out.new_spread = std::exp(median(fresh));
  const double ratio = median(fresh) - median(base);
  // Of how much spreads differ between launches nothing is assumed.
  if (out.screening) return;
  const std::vector<Launch> base_spreads = launches_from(base), new_spreads = launches_from(fresh);
  const std::vector<Cell> cell{{base_spreads, new_spreads}};
  out.spread = effect_of(ratio, resample(cell, {.seed = seed_}).together, ranks_.above(base, fresh));
}

// One number for each launch: the mean over the row's sizes of `value`.
std::vector<double> BandJudge::scores(const Row& row, bool base, double (*value)(const Launch&)) const {
  std::vector<double> sums;
  for (const std::size_t i : row.judged) {
    const std::span<const Launch> launches = base ? pairs_[i].cell().base : pairs_[i].cell().fresh;
    sums.resize(launches.size());
    for (std::size_t l = 0; l < launches.size(); ++l)
      sums[l] += value(launches[l]) / static_cast<double>(row.judged.size());
  }
  return sums;
}

}  // namespace p5::reports
