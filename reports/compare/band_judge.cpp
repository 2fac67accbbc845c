#include "reports/compare/band_judge.hpp"

#include <algorithm>
#include <cmath>

namespace p5::reports {

namespace {

// Of the samples within a launch, relative to their median. With a tenth of what anyone notices, so that a spread of
// nothing has a logarithm.
double log_of_spread(const Launch& launch) {
  return std::log(
      std::hypot(robust_deviation(launch.samples_s) / median(launch.samples_s), thresholds().spread.least / 10));
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

// What matters of sizes together, as of their times.
Threshold threshold_of(const BandRule& band, const std::vector<Sides>& sizes) {
  double logs = 0;
  for (const Sides& size : sizes) logs += std::log1p(matters_at(band, mean_time(size.base)));
  const double matters = std::expm1(logs / static_cast<double>(sizes.size()));
  return {band.name, matters, matters * band.negligible, band.because};
}

}  // namespace

BandRow BandJudge::judge(const BandPairs& row) {
  const std::vector<Sides> sizes = sides_of(row.judged);
  const Effects effects = judge_.judge(sizes, row.band->launch_spread, row.judged.front());
  BandRow out;
  out.collective = row.collective;
  out.quantity = row.quantity;
  out.sizes = static_cast<int>(row.judged.size());
  out.threshold = threshold_of(*row.band, sizes);
  out.base_launches = static_cast<int>(sizes.front().base.size());
  out.new_launches = static_cast<int>(sizes.front().fresh.size());
  out.screening = effects.screening;
  out.time = effects.overall;
  for (std::size_t i = 0; i < row.judged.size(); ++i) sizes_[row.judged[i]] = effects.each[i];
  judge_spread(sizes, out);
  // Sizes of other launches than their row's, each alone.
  for (const std::size_t i : row.pairs)
    if (std::ranges::find(row.judged, i) == row.judged.end())
      sizes_[i] = judge_.judge(sides_of({i}), row.band->launch_spread, i).each.front();
  return out;
}

std::vector<Sides> BandJudge::sides_of(const std::vector<std::size_t>& pairs) const {
  std::vector<Sides> sizes;
  for (const std::size_t i : pairs) sizes.push_back(pairs_[i].sides());
  return sizes;
}

void BandJudge::judge_spread(const std::vector<Sides>& sizes, BandRow& out) {
  for (const Sides& size : sizes)
    if (!has_samples(size.base) || !has_samples(size.fresh)) return;
  const std::vector<double> base = scores_of(sizes, true, log_of_spread);
  const std::vector<double> fresh = scores_of(sizes, false, log_of_spread);
  out.base_spread = std::exp(median(base));
  out.new_spread = std::exp(median(fresh));
  const double ratio = median(fresh) - median(base);
  // Of how much spreads differ between launches nothing is assumed.
  if (out.screening) return;
  const std::vector<Launch> base_spreads = launches_from(base), new_spreads = launches_from(fresh);
  const std::vector<Sides> spreads{{base_spreads, new_spreads}};
  out.spread = effect_of(ratio, resample(spreads, {.seed = seed_}).overall, judge_.one_sided_p(base, fresh));
}

}  // namespace p5::reports
