// Pairs of cases, and the figures of a row of pairs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "bench/model/job.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/markup.hpp"

namespace p5::reports {

namespace {

const std::vector<Launch>& launches_of(const Observation& observation, Quantity quantity) {
  return quantity == Quantity::latency ? observation.latency : observation.throughput;
}

using LaunchSets = std::pair<std::vector<int>, std::vector<int>>;

LaunchSets launch_sets(const Pair& pair) {
  LaunchSets sets;
  for (const Launch& launch : pair.sides().base) sets.first.push_back(launch.number);
  for (const Launch& launch : pair.sides().fresh) sets.second.push_back(launch.number);
  return sets;
}

// The pairs of a band by the launches that measured them; the most common launches come first.
std::vector<std::vector<std::size_t>> by_launches(const std::vector<Pair>& pairs, const std::vector<std::size_t>& all) {
  std::map<LaunchSets, std::vector<std::size_t>> groups;
  for (const std::size_t i : all) groups[launch_sets(pairs[i])].push_back(i);
  std::vector<std::pair<std::size_t, std::vector<std::size_t>>> sorted;
  for (auto& [sets, its] : groups) sorted.emplace_back(std::min(sets.first.size(), sets.second.size()), std::move(its));
  std::ranges::stable_sort(sorted, std::greater(),
                           [](const auto& group) { return std::pair(group.second.size(), group.first); });
  std::vector<std::vector<std::size_t>> result;
  for (auto& [launches, its] : sorted) result.push_back(std::move(its));
  return result;
}

// Log of the relative spread of samples within a launch. A tenth of the least relevant spread is added, so that the
// logarithm is finite.
double log_of_spread(const Launch& launch) {
  return std::log(
      std::hypot(robust_deviation(launch.samples_s) / median(launch.samples_s), thresholds().spread.least / 10));
}

// Weights of sorted samples, by their number.
using Weights = std::map<std::size_t, std::vector<double>>;

// The launches with the mean of most samples (Summary::trimmed_mean) in the place of the median, and its interval: as
// it is on average of `fewest` of their samples.
std::vector<Launch> launches_by_mean(std::span<const Launch> launches, std::size_t fewest, Weights& weights) {
  std::vector<Launch> all;
  for (const Launch& each : launches) {
    std::vector<double> samples = each.samples_s;
    std::ranges::sort(samples);
    std::vector<double>& its = weights[samples.size()];
    if (its.empty()) its = weights_in_trimmed_mean(samples.size(), fewest);
    Launch& by_mean = all.emplace_back();
    by_mean.number = each.number;
    by_mean.run = each.run;
    by_mean.rounding_s = each.rounding_s;
    by_mean.median_s = std::inner_product(its.begin(), its.end(), samples.begin(), 0.0);
    double variance = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) variance += its[i] * std::pow(samples[i] - by_mean.median_s, 2);
    const double kept = 1 / std::inner_product(its.begin(), its.end(), its.begin(), 0.0);
    // Neighbours that are alike count as fewer samples.
    const double alike = correlation_of_neighbours(each.samples_s), wider = std::sqrt((1 + alike) / (1 - alike));
    const double half = 1.96 * wider * std::sqrt(variance / (kept - 1)) / by_mean.median_s;
    by_mean.interval = Interval{by_mean.median_s * std::exp(-half), by_mean.median_s * std::exp(half)};
  }
  return all;
}

std::size_t fewest_samples_of(const Sides& sides) {
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  for (const std::span<const Launch> launches : {sides.base, sides.fresh})
    for (const Launch& launch : launches) fewest = std::min(fewest, launch.samples_s.size());
  return fewest;
}

// The launches of a side that have samples of all sizes, by size.
std::vector<std::vector<Launch>> with_samples(const std::vector<Sides>& sizes, std::span<const Launch> Sides::*side) {
  std::vector<std::vector<Launch>> kept(sizes.size());
  for (std::size_t l = 0; l < (sizes.front().*side).size(); ++l) {
    const auto has_samples = [&](const Sides& size) {
      return number_in_trimmed_mean((size.*side)[l].samples_s.size()) > 0;
    };
    if (!std::ranges::all_of(sizes, has_samples)) continue;
    for (std::size_t i = 0; i < sizes.size(); ++i) kept[i].push_back((sizes[i].*side)[l]);
  }
  return kept;
}

// Wraps values of launches as launches of the same runs, for resampling.
std::vector<Launch> launches_from(const std::vector<double>& logs, std::span<const Launch> like) {
  std::vector<Launch> launches;
  for (std::size_t i = 0; i < logs.size(); ++i) {
    Launch& launch = launches.emplace_back();
    launch.run = like[i].run;
    launch.median_s = std::exp(logs[i]);
  }
  return launches;
}

double mean_time(std::span<const Launch> launches) {
  double sum = 0;
  for (const Launch& launch : launches) sum += launch.median_s;
  return sum / static_cast<double>(launches.size());
}

// Threshold of sizes together, at their mean times.
Threshold threshold_of(const BandRule& band, const std::vector<Sides>& sizes) {
  double logs = 0;
  for (const Sides& size : sizes) logs += std::log1p(matters_at(band, mean_time(size.base)));
  const double matters = std::expm1(logs / static_cast<double>(sizes.size()));
  return {band.name, matters, matters * band.negligible, band.because};
}

}  // namespace

Sides Pair::sides() const { return {launches_of(*base, quantity), launches_of(*fresh, quantity)}; }

std::string label_of(const Case& c) {
  std::string label = operation_of(c);
  if (c.group != "world") label += " " + c.group;
  if (c.in_place) label += " in place";
  if (const std::string calls = describe(c.calls, " "); !calls.empty()) label += " " + calls;
  return label;
}

RowLabels::RowLabels(const Side& base, const Side& fresh) {
  for (const Side* side : {&base, &fresh}) {
    Jobs jobs;
    for (const Observation& each : side->observations) add(each.measured_case, jobs);
  }
}

RowLabels::RowLabels(std::span<const Run> runs, std::string_view arm) {
  const std::size_t before = runs.empty() ? 0 : runs.size() - 1;
  for (const std::span<const Run> side : {runs.first(before), runs.subspan(before)}) {
    Jobs jobs;
    for (const Run& run : side)
      for (const Result& each : run.report.results)
        if (const Case& c = each.measurement.measured_case; c.arm == arm) add(c, jobs);
  }
}

// Cases that are measured to locate faults are of few ranks on purpose.
void RowLabels::add(const Case& c, Jobs& jobs) {
  if (c.for_parts) return;
  const std::pair job(c.ranks, c.nodes);
  const auto [known, fresh] = jobs.try_emplace(label_of(c), job);
  if (!fresh && known->second != job) several_.insert(known->first);
}

std::string RowLabels::of(const Case& c) const {
  std::string label = label_of(c);
  if (several_.contains(label)) label += fmt::format(", {} on {}", counted(c.ranks, "rank"), counted(c.nodes, "node"));
  return label;
}

std::string identity_of(const Case& c, bool across_hardware) {
  const std::string what = fmt::format("{}|{}|{}|{}|{}", label_of(c), c.bytes.count, name_of(c.type),
                                       c.op ? name_of(*c.op) : "", root_text(c));
  const std::string_view step = c.replay ? std::string_view(c.replay->digest) : "";
  return across_hardware ? fmt::format("{}|{}", what, step)
                         : fmt::format("{}|{}|{}|{}|{}", what, step, c.backend, c.ranks, c.nodes);
}

bool is_skipped(const Observation& each) { return !each.skipped.empty() && !each.measured() && each.trouble.empty(); }

namespace {

std::string described(const Observation& each, const std::string& other, const char* did, const std::string& why) {
  return describe(each.measured_case) + (why.empty() ? "" : fmt::format(" ({} {} it: {})", other, did, why));
}

// True if BASE's times are lacking for another reason than wrong data, of which the exit code tells.
bool failed_altogether(const Observation& base) {
  return !base.trouble.empty() && !base.wrong_data && !base.measured();
}

using ByIdentity = std::unordered_map<std::string, std::vector<const Observation*>>;

ByIdentity by_identity(const Side& side, bool across_hardware) {
  ByIdentity cases;
  for (const Observation& each : side.observations)
    cases[identity_of(each.measured_case, across_hardware)].push_back(&each);
  return cases;
}

void pair_cases(const Side& base, const Side& fresh, bool across_hardware, Matched& matched) {
  const ByIdentity same = by_identity(base, false);
  ByIdentity of_base, of_new;
  if (across_hardware) of_base = by_identity(base, true), of_new = by_identity(fresh, true);
  for (const Observation& each : fresh.observations) {
    if (const auto found = same.find(identity_of(each.measured_case)); found != same.end()) {
      matched.base_of[&each] = found->second.front();
      continue;
    }
    const std::string alike = across_hardware ? identity_of(each.measured_case, true) : "";
    const auto found = of_base.find(alike);
    if (found == of_base.end()) continue;
    if (found->second.size() == 1 && of_new.at(alike).size() == 1)
      matched.base_of[&each] = found->second.front();
    else
      ++matched.ambiguous;
  }
}

// True for a case without times and without a reason. Where a side's data were wrong, its exit code tells it.
bool has_nothing(const Observation& each, const Side& side) {
  return !each.measured() && each.trouble.empty() && each.skipped.empty() &&
         std::ranges::none_of(side.reports, [](const Report& one) { return one.exit_code == ExitCode::wrong_data; });
}

}  // namespace

Matched match(const Side& base, const Side& fresh, bool across_hardware) {
  Matched matched;
  pair_cases(base, fresh, across_hardware, matched);
  std::set<const Observation*> found;
  for (const Observation& each : fresh.observations) {
    const auto place = matched.base_of.find(&each);
    const Observation* const before = place == matched.base_of.end() ? nullptr : place->second;
    matched.in_common = matched.in_common || before;
    if (before) found.insert(before);
    if (before && before->measured() && is_skipped(each)) {
      matched.skipped_in_new.push_back(before);
      matched.only_in_base.push_back(described(*before, fresh.name, "skipped", each.skipped));
    } else if (before && failed_altogether(*before) && each.measured()) {
      matched.failed_in_base.push_back(before);
      matched.only_in_new.push_back(described(each, base.name, "failed", before->trouble));
    } else if (before && before->measured() && has_nothing(each, fresh)) {
      matched.only_in_base.push_back(describe(before->measured_case));
    } else if (before && each.measured() && has_nothing(*before, base)) {
      matched.only_in_new.push_back(describe(each.measured_case));
    } else if (before && (!is_skipped(*before) || is_skipped(each))) {
      matched.both.emplace_back(before, &each);
    } else if (!is_skipped(each)) {
      matched.only_in_new.push_back(described(each, base.name, "skipped", before ? before->skipped : ""));
    }
  }
  for (const Observation& each : base.observations)
    if (!found.contains(&each) && !is_skipped(each)) matched.only_in_base.push_back(describe(each.measured_case));
  return matched;
}

std::string name_of_row(std::string_view label, std::string_view band) {
  const std::string_view sizes = band == "latency"     ? "<= 64 KiB"
                                 : band == "mid"       ? "64 KiB to 64 MiB"
                                 : band == "bandwidth" ? ">= 64 MiB"
                                                       : band;
  return fmt::format("{} {}", label, sizes);
}

std::vector<std::string> rows_without_pairs(const std::vector<const Observation*>& of_base,
                                            const std::vector<Pair>& pairs, const RowLabels& labels) {
  const auto name_of = [&](const Case& c) { return name_of_row(labels.of(c), band_of(c).name); };
  std::set<std::string> rows, compared;
  for (const Pair& pair : pairs) compared.insert(name_of(pair.base->measured_case));
  for (const Observation* each : of_base)
    if (const std::string row = name_of(each->measured_case); !compared.contains(row)) rows.insert(row);
  return {rows.begin(), rows.end()};
}

bool decides(const Observation& observation, Quantity quantity) {
  return quantity == Quantity::latency || observation.latency.empty() ||
         band_of(observation.measured_case).name != "latency";
}

std::vector<Pair> pairs_of(const Matched& matched) {
  std::vector<Pair> pairs;
  for (const auto& [base, fresh] : matched.both)
    for (const Quantity quantity : {Quantity::latency, Quantity::throughput}) {
      const Pair pair{base, fresh, quantity};
      if (!pair.sides().base.empty() && !pair.sides().fresh.empty()) pairs.push_back(pair);
    }
  std::ranges::stable_sort(pairs, {}, [](const Pair& pair) { return pair.fresh->measured_case.bytes; });
  return pairs;
}

std::vector<BandPairs> make_rows(const std::vector<Pair>& pairs, const RowLabels& labels) {
  std::map<std::tuple<std::string, std::size_t, Quantity>, BandPairs> rows;
  const std::vector<BandRule>& bands = thresholds().bands;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const Case& c = pairs[i].fresh->measured_case;
    const BandRule& band = band_of(c);
    if (!decides(*pairs[i].base, pairs[i].quantity) && !decides(*pairs[i].fresh, pairs[i].quantity)) continue;
    std::string label = labels.of(c);
    BandPairs& row = rows[{label, static_cast<std::size_t>(&band - bands.data()), pairs[i].quantity}];
    row.collective = std::move(label);
    row.quantity = pairs[i].quantity;
    row.band = &band;
    row.pairs.push_back(i);
  }
  std::vector<BandPairs> all;
  for (const auto& [key, row] : rows) {
    bool apart = false;
    for (std::vector<std::size_t>& its : by_launches(pairs, row.pairs)) {
      BandPairs& part = all.emplace_back(row);
      part.pairs = std::move(its);
      part.apart = std::exchange(apart, true);
    }
  }
  return all;
}

BandRow BandJudge::judge(const BandPairs& row) {
  const std::vector<Sides> sizes = sides_of(row.pairs);
  const Effects effects = judge_.judge(sizes, row.band->launch_spread, row.pairs.front());
  BandRow out;
  out.collective = row.collective;
  out.quantity = row.quantity;
  out.sizes = static_cast<int>(row.pairs.size());
  if (row.apart)
    for (const std::size_t i : row.pairs)
      if (const Bytes bytes = pairs_[i].fresh->measured_case.bytes; out.only.empty() || out.only.back() != bytes)
        out.only.push_back(bytes);
  out.threshold = threshold_of(*row.band, sizes);
  out.base_launches = static_cast<int>(sizes.front().base.size());
  out.new_launches = static_cast<int>(sizes.front().fresh.size());
  out.screening = effects.screening;
  out.runs_differ = effects.runs_differ;
  out.parts = effects.parts;
  out.time = effects.overall;
  for (std::size_t i = 0; i < row.pairs.size(); ++i) sizes_[row.pairs[i]] = effects.each[i];
  const std::vector<std::vector<Launch>> base = with_samples(sizes, &Sides::base),
                                         fresh = with_samples(sizes, &Sides::fresh);
  out.base_with_samples = static_cast<int>(base.front().size());
  out.new_with_samples = static_cast<int>(fresh.front().size());
  if (base.front().empty() || fresh.front().empty()) return out;
  std::vector<Sides> sampled;
  for (std::size_t i = 0; i < sizes.size(); ++i) sampled.push_back({base[i], fresh[i]});
  judge_mean(sampled, *row.band, row.pairs.front(), out);
  judge_spread(sampled, out);
  return out;
}

std::vector<Sides> BandJudge::sides_of(const std::vector<std::size_t>& pairs) const {
  std::vector<Sides> sizes;
  for (const std::size_t i : pairs) sizes.push_back(pairs_[i].sides());
  return sizes;
}

void BandJudge::judge_mean(const std::vector<Sides>& sizes, const BandRule& band, std::uint64_t salt, BandRow& out) {
  std::vector<std::pair<std::vector<Launch>, std::vector<Launch>>> by_mean;
  for (const Sides& size : sizes) {
    const std::size_t fewest = fewest_samples_of(size);
    Weights weights;
    auto& [base, fresh] = by_mean.emplace_back();
    base = launches_by_mean(size.base, fewest, weights);
    fresh = launches_by_mean(size.fresh, fewest, weights);
  }
  std::vector<Sides> means;
  for (const auto& [base, fresh] : by_mean) means.push_back({base, fresh});
  out.mean = judge_.judge(means, band.launch_spread, salt).overall;
}

void BandJudge::judge_spread(const std::vector<Sides>& sizes, BandRow& out) {
  const std::vector<double> base = scores_of(sizes, true, log_of_spread);
  const std::vector<double> fresh = scores_of(sizes, false, log_of_spread);
  out.base_spread = std::exp(median(base));
  out.new_spread = std::exp(median(fresh));
  const double ratio = median(fresh) - median(base);
  // There is no assumed variance of spreads between launches.
  if (!judge_.can_test(sizes.front())) return;
  const std::vector<Launch> base_spreads = launches_from(base, sizes.front().base),
                            new_spreads = launches_from(fresh, sizes.front().fresh);
  const Sides spreads{base_spreads, new_spreads};
  const Interval logs = resample({&spreads, 1}, {.seed = seed_}).overall;
  out.spread = allowing_for_runs(effect_of(ratio, logs, judge_.one_sided_p(base, fresh)), spreads);
}

}  // namespace p5::reports
