#include "tuner/candidates.hpp"

#include <algorithm>
#include <cmath>

namespace p5::tuner {

namespace {

void add_new(std::vector<Setting>& settings, const Setting& setting, std::span<const Setting> tried) {
  if (std::ranges::find(tried, setting) == tried.end() && std::ranges::find(settings, setting) == settings.end())
    settings.push_back(setting);
}

// NCCL's own chunk for the algorithm and protocol, 0 where it is not known.
std::uint64_t offered_chunk(std::span<const Offer> offers, const Setting& setting) {
  const auto found = std::ranges::find_if(offers, [&](const Offer& each) { return same_kind(each.setting, setting); });
  return found == offers.end() ? 0 : found->setting.chunk;
}

}  // namespace

std::string to_text(const Candidate& candidate) {
  return candidate.setting ? to_text(*candidate.setting) : std::string("default");
}

std::vector<Offer> worthwhile(const Cell& cell, std::span<const Offer> offers, const CandidateRules& rules,
                              const Constraints& constraints) {
  const std::optional<Function> function = parse_function(cell.collective);
  if (!function) return {};
  std::vector<Offer> possible;
  for (const Offer& offer : offers)
    if (std::isfinite(offer.microseconds) && offer.microseconds >= 0 &&
        constraints.allows(*function, {offer.setting.algorithm, offer.setting.protocol}))
      possible.push_back(offer);
  std::ranges::stable_sort(possible, {}, &Offer::microseconds);
  if (possible.empty()) return possible;
  const double most = rules.prune * possible.front().microseconds;
  std::erase_if(possible, [&](const Offer& offer) { return offer.microseconds > most; });
  return possible;
}

std::vector<int> channel_ladder(const Cell& cell, const CandidateRules& rules, const Constraints& constraints) {
  std::vector<int> ladder;
  for (const int channels : rules.channels) {
    const bool allowed = channels >= constraints.least_channels &&
                         (constraints.most_channels == 0 || channels <= constraints.most_channels);
    if (allowed && cell.tuner_bytes / rules.bytes_per_channel >= static_cast<std::uint64_t>(channels))
      ladder.push_back(channels);
  }
  return ladder;
}

std::vector<Setting> full_grid(const Cell& cell, std::span<const Offer> offers, const CandidateRules& rules,
                               const Constraints& constraints) {
  std::vector<int> ladder = channel_ladder(cell, rules, constraints);
  ladder.insert(ladder.begin(), 0);
  std::vector<Setting> grid;
  for (const Offer& offer : worthwhile(cell, offers, rules, constraints))
    for (const int channels : ladder) {
      Setting setting = offer.setting;
      setting.channels = channels;
      setting.chunk = 0;
      grid.push_back(setting);
      if (!rules.chunks || offer.setting.chunk == 0) continue;
      for (const std::uint64_t chunk : {offer.setting.chunk / 2, offer.setting.chunk * 2}) {
        setting.chunk = chunk;
        if (chunk >= least_chunk) grid.push_back(setting);
      }
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

std::vector<Setting> chunk_neighbours(const Setting& setting, std::span<const Offer> offers,
                                      std::span<const Setting> tried) {
  std::vector<Setting> found;
  const std::uint64_t base = offered_chunk(offers, setting);
  if (base == 0) return found;
  for (const std::uint64_t chunk : {base / 2, base * 2}) {
    Setting next = setting;
    next.chunk = chunk;
    if (chunk >= least_chunk) add_new(found, next, tried);
  }
  return found;
}

}  // namespace p5::tuner
