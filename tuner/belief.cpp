#include "tuner/belief.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>

#include "bench/base/names.hpp"

namespace p5::tuner {

namespace {

double square(double value) { return value * value; }

// One median of the default for each visit: a baseline, each rung of the race, the repetition.
std::vector<double> visits_of_default(const Record& record) {
  std::map<std::pair<Visit, int>, std::vector<double>> visits;
  for (const Block& block : record.blocks)
    for (std::size_t i = 0; i < block.trials.size() && block.visit != Visit::launched; ++i)
      if (block.candidates[i].is_default() && block.trials[i].outcome == Trial::Outcome::measured)
        visits[{block.visit, block.rung}].push_back(block.trials[i].seconds);
  std::vector<double> medians;
  for (const auto& [visit, samples] : visits) medians.push_back(median(samples));
  return medians;
}

std::optional<double> noise_of(const Record& record) {
  const std::vector<double> visits = visits_of_default(record);
  if (visits.size() < 2) return std::nullopt;
  const double mean = std::accumulate(visits.begin(), visits.end(), 0.0) / static_cast<double>(visits.size());
  double sum = 0;
  for (const double each : visits) sum += square(each - mean);
  return std::sqrt(sum / static_cast<double>(visits.size() - 1)) / mean;
}

// The standard error of the median of the ratios within blocks: what slows the default and the winner alike is none of
// it. 1.2533: of a median over that of a mean, for normal noise.
double noise_of_gain(const std::vector<double>& ratios) {
  return ratios.empty() ? 0 : 1.2533 * robust_deviation(ratios) / std::sqrt(static_cast<double>(ratios.size()));
}

bool overlap(const Interval& a, const Interval& b) { return a.low <= b.high && b.low <= a.high; }

// The largest quantile that both have enough samples for.
struct Tail {
  double quantile = 0, standard = 0, tuned = 0;
};
std::optional<Tail> tail_of(const std::vector<double>& standard, const std::vector<double>& tuned) {
  for (const double q : {0.99, 0.95, 0.9}) {
    const std::optional<double> a = quantile(standard, q), b = quantile(tuned, q);
    if (a && b) return Tail{q, *a, *b};
  }
  return std::nullopt;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// Why the winner is not believed, "" when only the test over all cells is still to pass.
std::string objection(const Record& record, const CellVerdict& verdict, const BeliefRules& rules) {
  const Setting& winner = *record.winner;
  const std::vector<double> raced = log_ratios(record, winner, Visit::race);
  const double noise = noise_of_gain(log_ratios(record, winner, Visit::repeat));
  const double needed = std::max(rules.least_gain, rules.sigmas * noise);
  const std::string reason = needed > rules.least_gain ? "3 times the noise of the gain" : "what is worth a setting";
  const double race_gain = raced.empty() ? 0 : 1 - std::exp(median(raced));
  if (race_gain < needed)
    return fmt::format("{} saved {}, less than {} ({})", to_text(winner), percent(race_gain), percent(needed), reason);
  if (verdict.gain->share < needed)
    return fmt::format("{} saved {} when repeated, less than {} ({})", to_text(winner), percent(verdict.gain->share),
                       percent(needed), reason);
  const std::vector<double> standard = samples_of(record, {}, Visit::repeat);
  const std::vector<double> tuned = samples_of(record, {winner}, Visit::repeat);
  const std::optional<Interval> a = median_interval(standard), b = median_interval(tuned);
  if (!a || !b || overlap(*a, *b))
    return fmt::format("the intervals of {} and of the default overlap", to_text(winner));
  if (const std::optional<Tail> tail = tail_of(samples_of(record, {}), samples_of(record, {winner}));
      tail && tail->tuned > tail->standard * (1 + rules.worst_tail))
    return fmt::format("the {:.0f} % quantile of {} is {} above the default's", 100 * tail->quantile, to_text(winner),
                       percent(tail->tuned / tail->standard - 1));
  return "";
}

bool failed(const SearchResult& result, const Setting& setting) {
  return std::ranges::any_of(result.failures,
                             [&](const Failure& failure) { return failure.candidate.setting == setting; });
}

// How the default changed from its first visit to its last: logs of the cells of a collective and a band.
std::map<std::pair<std::string, std::string>, std::vector<double>> changes_of(const SearchResult& result) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> changes;
  for (const Record& record : result.records) {
    const std::vector<double> first = samples_of(record, {}, Visit::baseline);
    const std::vector<double> last = samples_of(record, {}, Visit::repeat);
    if (!first.empty() && !last.empty())
      changes[{record.cell.collective, band_of(record.cell.bytes)}].push_back(std::log(median(last) / median(first)));
  }
  return changes;
}

// Where nothing is known drift_of() has refused already.
bool kept_still(const Drift& drift, const Cell& cell) {
  const auto found = std::ranges::find_if(drift.parts, [&](const Drift::Part& part) {
    return part.collective == cell.collective && part.band == band_of(cell.bytes);
  });
  return found == drift.parts.end() || !found->refused;
}

std::string text_of(const Drift::Part& part) {
  return fmt::format("the default of {} {} was {} {} at the end than at the beginning (median of {} {})",
                     part.collective, part.band, percent(std::abs(part.share)), part.share > 0 ? "slower" : "faster",
                     part.cells, part.cells == 1 ? "size" : "sizes");
}

CellVerdict judge_cell(const SearchResult& result, const Record& record, const BeliefRules& rules) {
  CellVerdict verdict{.cell = record.cell,
                      .winner = record.winner,
                      .noise = noise_of(record),
                      .gain = std::nullopt,
                      .because = record.remark};
  if (!record.winner) {
    if (record.remark.empty())
      verdict.because = record.turned_down.empty() ? "nothing gains enough" : record.turned_down;
    return verdict;
  }
  const std::vector<double> standard = samples_of(record, {}, Visit::repeat);
  const std::vector<double> tuned = samples_of(record, {*record.winner}, Visit::repeat);
  if (!standard.empty() && !tuned.empty()) verdict.gain = gain_of(standard, tuned);
  if (!record.remark.empty()) return verdict;
  if (failed(result, *record.winner))
    verdict.because = fmt::format("{} failed or gave wrong data", to_text(*record.winner));
  else if (!verdict.gain)
    verdict.because = fmt::format("{} was not measured again", to_text(*record.winner));
  else
    verdict.because = objection(record, verdict, rules);
  return verdict;
}

}  // namespace

std::string band_of(std::uint64_t bytes) {
  if (bytes <= 64u << 10) return "up to 64 KiB";
  return bytes < 64u << 20 ? "below 64 MiB" : "from 64 MiB on";
}

Gain gain_of(const std::vector<double>& standard, const std::vector<double>& tuned) {
  Gain gain;
  gain.standard_s = median(standard);
  gain.tuned_s = median(tuned);
  gain.share = 1 - gain.tuned_s / gain.standard_s;
  const std::optional<Interval> a = median_interval(standard), b = median_interval(tuned);
  if (a && b) gain.interval = Interval{1 - b->high / a->low, 1 - b->low / a->high};
  return gain;
}

double sign_test(int wins, int blocks) {
  // The terms of a binomial with one half, each from its neighbour.
  double term = std::pow(0.5, blocks), sum = 0;
  for (int k = 0; k <= blocks; ++k) {
    if (k >= wins) sum += term;
    term *= static_cast<double>(blocks - k) / (k + 1);
  }
  return std::min(1.0, sum);
}

std::vector<bool> holm(const std::vector<double>& probabilities, double chance) {
  std::vector<std::size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return probabilities[i]; });
  std::vector<bool> holds(probabilities.size(), false);
  for (std::size_t at = 0; at < order.size(); ++at) {
    if (probabilities[order[at]] > chance / static_cast<double>(order.size() - at)) break;
    holds[order[at]] = true;
  }
  return holds;
}

std::vector<CellVerdict> judge(const SearchResult& result, const BeliefRules& rules) {
  std::vector<CellVerdict> verdicts;
  std::vector<double> probabilities;
  std::vector<std::size_t> repeated;
  for (const Record& record : result.records) {
    verdicts.push_back(judge_cell(result, record, rules));
    if (!verdicts.back().gain) continue;
    const std::vector<double> ratios = log_ratios(record, *record.winner, Visit::repeat);
    const auto wins = std::ranges::count_if(ratios, [](double ratio) { return ratio < 0; });
    probabilities.push_back(sign_test(static_cast<int>(wins), static_cast<int>(ratios.size())));
    repeated.push_back(verdicts.size() - 1);
  }
  const std::vector<bool> holds = holm(probabilities, rules.chance);
  const Drift drift = drift_of(result, rules);
  for (std::size_t i = 0; i < repeated.size(); ++i) {
    CellVerdict& verdict = verdicts[repeated[i]];
    if (!verdict.because.empty()) continue;
    if (!kept_still(drift, verdict.cell)) {
      verdict.because = "the default changed too much between beginning and end";
      continue;
    }
    verdict.believed = holds[i];
    verdict.because =
        holds[i]
            ? fmt::format("{} saves {}, seen twice", to_text(*verdict.winner), percent(verdict.gain->share))
            : fmt::format("that {} is faster may be chance among {} cells", to_text(*verdict.winner), repeated.size());
  }
  return verdicts;
}

std::vector<Part> restless(const std::vector<Task>& tasks, const SearchResult& result, const Drift& drift) {
  std::vector<Part> found;
  for (const Drift::Part& drifted : drift.parts) {
    if (!drifted.refused) continue;
    Part& part = found.emplace_back();
    const auto within = [&](const Cell& cell) {
      return cell.collective == drifted.collective && band_of(cell.bytes) == drifted.band;
    };
    for (const Task& task : tasks)
      if (within(task.cell)) part.tasks.push_back(task);
    for (const Record& record : result.records)
      if (within(record.cell)) part.seconds += record.seconds;
  }
  return found;
}

Drift drift_of(const SearchResult& result, const BeliefRules& rules) {
  Drift drift;
  for (const auto& [part, logs] : changes_of(result)) {
    Drift::Part each{part.first, part.second, std::exp(median(logs)) - 1, static_cast<int>(logs.size()), false};
    each.refused = std::abs(each.share) > rules.most_drift;
    if (std::abs(each.share) > std::abs(drift.share) || drift.parts.empty()) drift.share = each.share;
    drift.parts.push_back(std::move(each));
  }
  drift.refused = std::ranges::all_of(drift.parts, &Drift::Part::refused);
  if (drift.parts.empty()) {
    drift.sentence =
        "Nothing is set: the default was not measured again at the end, so nobody knows whether the machine kept "
        "still.";
    return drift;
  }
  std::vector<std::string> restless;
  for (const Drift::Part& each : drift.parts)
    if (each.refused) restless.push_back(text_of(each));
  drift.changes = join(restless, "; ");
  if (restless.empty())
    drift.sentence =
        fmt::format("The default changed by {} at most between beginning and end.", percent(std::abs(drift.share)));
  else
    drift.sentence =
        fmt::format("{}: {}; what changes so much cannot be tuned. Find out what else runs there, then tune again.",
                    drift.refused ? "Nothing is set" : "Left at the default", drift.changes);
  return drift;
}

}  // namespace p5::tuner
