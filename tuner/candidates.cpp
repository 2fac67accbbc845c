#include "tuner/candidates.hpp"

#include <algorithm>
#include <cmath>

namespace p5::tuner {

namespace {

void add_new(std::vector<Setting>& settings, const Setting& setting, std::span<const Setting> tried) {
  if (std::ranges::find(tried, setting) == tried.end() && std::ranges::find(settings, setting) == settings.end())
    settings.push_back(setting);
}

}  // namespace

std::string to_text(const Candidate& candidate) {
  return candidate.setting ? to_text(*candidate.setting) : std::string("default");
}

std::vector<CostEntry> worthwhile(const SizePoint& point, std::span<const CostEntry> offered,
                                  const CandidateRules& rules, const Constraints& constraints) {
  const std::optional<Function> function = parse_function(point.collective);
  if (!function) return {};
  std::vector<CostEntry> possible;
  for (const CostEntry& entry : offered)
    if (std::isfinite(entry.microseconds) && entry.microseconds >= 0 &&
        constraints.allows(*function, {entry.setting.algorithm, entry.setting.protocol}))
      possible.push_back(entry);
  std::ranges::stable_sort(possible, {}, &CostEntry::microseconds);
  if (possible.empty()) return possible;
  const double most = rules.prune * possible.front().microseconds;
  std::erase_if(possible, [&](const CostEntry& entry) { return entry.microseconds > most; });
  return possible;
}

std::vector<int> channel_ladder(const SizePoint& point, const CandidateRules& rules, const Constraints& constraints) {
  std::vector<int> ladder;
  for (const int channels : rules.channels) {
    const bool allowed = channels >= constraints.least_channels &&
                         (constraints.most_channels == 0 || channels <= constraints.most_channels);
    if (allowed && point.bytes / rules.bytes_per_channel >= static_cast<std::uint64_t>(channels))
      ladder.push_back(channels);
  }
  return ladder;
}

std::vector<Setting> full_grid(const SizePoint& point, std::span<const CostEntry> offered, const CandidateRules& rules,
                               const Constraints& constraints) {
  std::vector<int> ladder = channel_ladder(point, rules, constraints);
  ladder.insert(ladder.begin(), 0);
  std::vector<Setting> grid;
  for (const CostEntry& entry : worthwhile(point, offered, rules, constraints))
    for (const int channels : ladder) {
      Setting setting = entry.setting;
      setting.channels = channels;
      grid.push_back(setting);
    }
  return grid;
}

std::vector<Setting> channel_neighbours(const Setting& setting, std::span<const int> ladder,
                                        std::span<const Setting> tried) {
  std::vector<Setting> found;
  const auto add = [&](int channels) {
    Setting next = setting;
    next.channels = channels;
    add_new(found, next, tried);
  };
  if (ladder.empty()) return found;
  const auto at = std::ranges::find(ladder, setting.channels);
  if (at == ladder.end()) {
    add(ladder.back());
    add(ladder[ladder.size() / 2]);
    return found;
  }
  if (at != ladder.begin()) add(*std::prev(at));
  if (std::next(at) != ladder.end()) add(*std::next(at));
  return found;
}

}  // namespace p5::tuner
