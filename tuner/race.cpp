#include "tuner/race.hpp"

#include <algorithm>
#include <cmath>

#include "bench/base/statistics.hpp"

namespace p5::tuner {

namespace {

constexpr double median_error = 1.2533;  // standard error of a median over that of a mean, for normal noise
constexpr double least_spread = 1e-3;    // no clock and no machine is better than that

double error_of_median(double spread, std::size_t samples) {
  return median_error * std::max(least_spread, spread) / std::sqrt(static_cast<double>(samples));
}

double gain_of(const std::vector<double>& ratios) { return 1 - std::exp(median(ratios)); }

// Of the candidate in a block; null where it was not measured.
std::optional<double> seconds_in(const Block& block, const Candidate& candidate) {
  for (std::size_t i = 0; i < block.trials.size(); ++i)
    if (block.candidates[i] == candidate && block.trials[i].outcome == Trial::Outcome::measured)
      return block.trials[i].time.count;
  return std::nullopt;
}

}  // namespace

std::vector<double> samples_of(const Record& record, const Candidate& candidate, bool throughput) {
  std::vector<double> samples;
  for (const Block& block : record.blocks)
    if (const auto seconds = seconds_in(block, candidate); seconds && (block.stage == Stage::throughput) == throughput)
      samples.push_back(*seconds);
  return samples;
}

std::vector<double> log_ratios(const Record& record, const Setting& setting, bool throughput) {
  std::vector<double> ratios;
  for (const Block& block : record.blocks) {
    const std::optional<double> mine = seconds_in(block, {setting}), standard = seconds_in(block, {});
    if (mine && standard && (block.stage == Stage::throughput) == throughput)
      ratios.push_back(std::log(*mine / *standard));
  }
  return ratios;
}

std::optional<double> gain_in(const Record& record, const Setting& setting) {
  const std::vector<double> ratios = log_ratios(record, setting);
  return ratios.empty() ? std::nullopt : std::optional(gain_of(ratios));
}

std::vector<Estimate> estimates(const Record& record, const std::vector<Setting>& settings) {
  constexpr std::size_t enough = 3;  // blocks: two are as far apart as chance will have it
  std::vector<Estimate> result;
  std::vector<double> distances, few;
  std::vector<std::size_t> blocks;
  for (const Setting& setting : settings) {
    const std::vector<double> ratios = log_ratios(record, setting);
    if (ratios.empty()) continue;
    const double middle = median(ratios);
    for (const double ratio : ratios) (ratios.size() < enough ? few : distances).push_back(std::abs(ratio - middle));
    result.push_back({.setting = setting, .gain = gain_of(ratios)});
    blocks.push_back(ratios.size());
  }
  if (result.empty()) return result;
  const double spread = deviation_of_median_distance * median(distances.empty() ? few : distances);
  for (std::size_t i = 0; i < result.size(); ++i) result[i].error = error_of_median(spread, blocks[i]);
  std::ranges::stable_sort(result, std::greater<>(), &Estimate::gain);
  return result;
}

std::optional<Estimate> estimate_of_throughput(const Record& record, const Setting& setting) {
  const std::vector<double> ratios = log_ratios(record, setting, true);
  if (ratios.empty()) return std::nullopt;
  return Estimate{setting, gain_of(ratios), error_of_median(robust_deviation(ratios), ratios.size())};
}

bool decided(const std::vector<Estimate>& best_first, const SearchRules& rules) {
  if (best_first.empty()) return false;
  const Estimate& first = best_first.front();
  const bool hardly_worth_it = first.most() < rules.least_gain + rules.indifferent;
  if (first.least() < rules.least_gain && !hardly_worth_it) return false;
  return std::ranges::all_of(best_first.begin() + 1, best_first.end(), [&](const Estimate& other) {
    return other.gain + other.error - (first.gain - first.error) < rules.indifferent || other.most() < first.gain;
  });
}

Setting choose(const std::vector<Estimate>& best_first, const std::optional<Setting>& preferred, double indifferent) {
  const Estimate& first = best_first.front();
  Setting best = first.setting;
  for (const Estimate& each : best_first) {
    if (first.gain - each.gain > std::max(indifferent, std::min(first.error, each.error))) continue;
    if (each.setting == preferred) return each.setting;
    // NCCL's own count is not known here: between it and a number nothing is fewer.
    if (same_kind(each.setting, best) && each.setting.channels > 0 && best.channels > each.setting.channels)
      best = each.setting;
  }
  return best;
}

}  // namespace p5::tuner
