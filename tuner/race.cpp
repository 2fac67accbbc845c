#include "tuner/race.hpp"

#include <algorithm>
#include <cmath>

#include "bench/base/statistics.hpp"

namespace p5::tuner {

namespace {

constexpr double median_error = 1.2533;  // standard error of a median over that of a mean, for normal noise
constexpr double least_spread = 1e-3;    // no clock and no machine is better than that

// Times with launches are no others' equals: they count only where they are asked for.
bool asked_for(const Block& block, std::optional<Visit> visit) {
  return visit ? block.visit == *visit : block.visit != Visit::launched;
}

double error_of_median(double spread, std::size_t samples) {
  return median_error * std::max(least_spread, spread) / std::sqrt(static_cast<double>(samples));
}

}  // namespace

std::vector<double> samples_of(const Record& record, const Candidate& candidate, std::optional<Visit> visit) {
  std::vector<double> samples;
  for (const Block& block : record.blocks) {
    if (!asked_for(block, visit)) continue;
    for (std::size_t i = 0; i < block.trials.size(); ++i)
      if (block.candidates[i] == candidate && block.trials[i].outcome == Trial::Outcome::measured)
        samples.push_back(block.trials[i].seconds);
  }
  return samples;
}

std::vector<double> log_ratios(const Record& record, const Setting& setting, std::optional<Visit> visit) {
  std::vector<double> ratios;
  for (const Block& block : record.blocks) {
    if (!asked_for(block, visit)) continue;
    std::optional<double> mine, standard;
    for (std::size_t i = 0; i < block.trials.size(); ++i) {
      if (block.trials[i].outcome != Trial::Outcome::measured) continue;
      if (block.candidates[i].is_default())
        standard = block.trials[i].seconds;
      else if (*block.candidates[i].setting == setting)
        mine = block.trials[i].seconds;
    }
    if (mine && standard) ratios.push_back(std::log(*mine / *standard));
  }
  return ratios;
}

std::vector<Standing> standings(const Record& record, const std::vector<Setting>& settings) {
  constexpr std::size_t enough = 3;  // blocks: two are as far apart as chance will have it
  std::vector<Standing> result;
  std::vector<double> distances, few;
  std::vector<std::size_t> blocks;
  for (const Setting& setting : settings) {
    const std::vector<double> ratios = log_ratios(record, setting);
    if (ratios.empty()) continue;
    const double middle = median(ratios);
    for (const double ratio : ratios) (ratios.size() < enough ? few : distances).push_back(std::abs(ratio - middle));
    result.push_back({.setting = setting, .gain = 1 - std::exp(middle)});
    blocks.push_back(ratios.size());
  }
  if (result.empty()) return result;
  if (distances.empty()) distances = few;
  const double spread = deviation_of_median_distance * median(distances);
  for (std::size_t i = 0; i < result.size(); ++i) result[i].error = error_of_median(spread, blocks[i]);
  std::ranges::stable_sort(result, std::greater<>(), &Standing::gain);
  return result;
}

std::optional<Standing> standing_with_launch(const Record& record, const Setting& setting) {
  const std::vector<double> ratios = log_ratios(record, setting, Visit::launched);
  if (ratios.empty()) return std::nullopt;
  return Standing{setting, 1 - std::exp(median(ratios)), error_of_median(robust_deviation(ratios), ratios.size())};
}

double tolerated(double default_s) { return std::max(tolerated_loss, tolerated_loss_s / default_s); }

std::optional<bool> may_be_slower_with_launch(const Record& record, const Setting& setting) {
  const std::optional<Standing> standing = standing_with_launch(record, setting);
  if (!standing) return std::nullopt;
  return standing->error - standing->gain > tolerated(median(samples_of(record, {}, Visit::launched)));
}

bool may_gain(const Standing& standing, double least_gain) { return standing.gain + 2 * standing.error >= least_gain; }

std::vector<Setting> survivors(const std::vector<Standing>& standings, double least_gain) {
  std::vector<Setting> result;
  for (const Standing& each : standings)
    if (result.size() < (standings.size() + 1) / 2 && may_gain(each, least_gain)) result.push_back(each.setting);
  return result;
}

bool decided(const std::vector<Standing>& standings, double least_gain, double indifferent) {
  if (standings.empty()) return false;
  const Standing& first = standings[0];
  const bool hardly_worth_it = first.gain + 2 * first.error < least_gain + indifferent;
  if (first.gain - 2 * first.error < least_gain && !hardly_worth_it) return false;
  return std::ranges::all_of(standings.begin() + 1, standings.end(), [&](const Standing& other) {
    return other.gain + other.error - (first.gain - first.error) < indifferent ||
           other.gain + 2 * other.error < first.gain;
  });
}

Setting choose(const std::vector<Standing>& standings, const std::vector<Setting>& preferred, double indifferent) {
  const Standing& first = standings.front();
  std::vector<Standing> equal;
  for (const Standing& each : standings)
    if (first.gain - each.gain <= std::max(indifferent, std::min(first.error, each.error))) equal.push_back(each);
  for (const Setting& setting : preferred)
    for (const Standing& each : equal)
      if (each.setting == setting) return setting;
  Setting best = first.setting;
  for (const Standing& each : equal) {
    // NCCL's own count is not known here: between it and a number nothing is fewer.
    if (same_kind(each.setting, best) && each.setting.channels > 0 && best.channels > each.setting.channels)
      best = each.setting;
  }
  return best;
}

}  // namespace p5::tuner
