// The search for settings of single calls: successive halving for each size point (see search.hpp), then the bound.
#include "tuner/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "bench/base/statistics.hpp"
#include "tuner/gain.hpp"

namespace p5::tuner {

namespace {

// ---- figures of a record

constexpr double median_error = 1.2533;  // ratio of the standard errors of median and mean, for normal noise
constexpr double least_spread = 1e-3;    // the relative precision of any clock and machine

double error_of_median(double spread, std::size_t samples) {
  return median_error * std::max(least_spread, spread) / std::sqrt(static_cast<double>(samples));
}

double gain_of(const std::vector<double>& ratios) { return 1 - std::exp(median(ratios)); }

// Seconds of the candidate in a block; null where it was not measured.
std::optional<double> seconds_in(const Block& block, const Candidate& candidate) {
  for (std::size_t i = 0; i < block.trials.size(); ++i)
    if (block.candidates[i] == candidate && block.trials[i].outcome == Trial::Outcome::measured)
      return block.trials[i].time.count;
  return std::nullopt;
}

}  // namespace

bool excludes(const Setting& failed, Trial::Outcome outcome, const Setting& other) {
  return outcome == Trial::Outcome::wrong_data ? same_kind(failed, other) : failed == other;
}

bool excludes(const Failure& failure, const Setting& setting) {
  return !failure.candidate.is_default() && excludes(*failure.candidate.setting, failure.outcome, setting);
}

std::vector<double> samples_of(const Record& record, const Candidate& candidate, bool bound) {
  std::vector<double> samples;
  for (const Block& block : record.blocks)
    if (const auto seconds = seconds_in(block, candidate); seconds && (block.stage == Stage::bound) == bound)
      samples.push_back(*seconds);
  return samples;
}

std::vector<double> log_ratios(const Record& record, const Setting& setting, bool bound) {
  std::vector<double> ratios;
  for (const Block& block : record.blocks) {
    const std::optional<double> mine = seconds_in(block, {setting}), standard = seconds_in(block, {});
    if (mine && standard && (block.stage == Stage::bound) == bound) ratios.push_back(std::log(*mine / *standard));
  }
  return ratios;
}

std::optional<double> median_gain(const Record& record, const Setting& setting) {
  const std::vector<double> ratios = log_ratios(record, setting);
  return ratios.empty() ? std::nullopt : std::optional(gain_of(ratios));
}

std::vector<Estimate> estimate_gains(const Record& record, const std::vector<Setting>& settings) {
  constexpr std::size_t enough = 3;  // blocks; the spread of two is chance
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
  const double spread = standard_deviation_per_mad * median(distances.empty() ? few : distances);
  for (std::size_t i = 0; i < result.size(); ++i) result[i].error = error_of_median(spread, blocks[i]);
  std::ranges::stable_sort(result, std::greater<>(), &Estimate::gain);
  return result;
}

std::optional<Estimate> estimate_bound_gain(const Record& record, const Setting& setting) {
  const std::vector<double> ratios = log_ratios(record, setting, true);
  if (ratios.empty()) return std::nullopt;
  return Estimate{setting, gain_of(ratios), error_of_median(robust_deviation(ratios), ratios.size())};
}

bool is_decided(const std::vector<Estimate>& best_first, const SearchRules& rules) {
  if (best_first.empty()) return false;
  const Estimate& first = best_first.front();
  const bool hardly_worth_it = first.most() < rules.least_gain + rules.indifference_zone;
  if (first.least() < rules.least_gain && !hardly_worth_it) return false;
  return std::ranges::all_of(best_first.begin() + 1, best_first.end(), [&](const Estimate& other) {
    return other.gain + other.error - (first.gain - first.error) < rules.indifference_zone || other.most() < first.gain;
  });
}

Setting choose_winner(const std::vector<Estimate>& best_first, const std::optional<Setting>& preferred,
                      double indifference_zone) {
  const Estimate& first = best_first.front();
  Setting best = first.setting;
  for (const Estimate& each : best_first) {
    if (first.gain - each.gain > std::max(indifference_zone, std::min(first.error, each.error))) continue;
    if (each.setting == preferred) return each.setting;
    // NCCL's own count (0) is not known here, so it is never compared with a number.
    if (same_kind(each.setting, best) && each.setting.channels > 0 && best.channels > each.setting.channels)
      best = each.setting;
  }
  return best;
}

// ---- the search

namespace {

// A candidate that is slower than the default by this share in each of its one, two, three blocks is dropped.
constexpr double hopeless_after[] = {0.5, 0.1, 0.05};
constexpr int blocks_to_judge = 3;  // fewer do not show the noise
constexpr int baseline_samples = 2;
constexpr int bound_blocks_in_rung = 3;  // beside other work, of the candidates of a first rung that may win
constexpr const char* no_time_to_search = "no time left to search it: the default stays";

class Searcher {
 public:
  Searcher(const std::vector<Task>& tasks, const SearchRules& rules, const Constraints& constraints,
           const MeasureBlock& measure, const TimeLeft& time_left)
      : tasks_(tasks),
        rules_(rules),
        constraints_(constraints),
        measure_(measure),
        time_left_(time_left),
        random_(rules.seed),
        cost_(tasks.size()) {
    for (const Task& task : tasks) result_.records.push_back({task.point, {}, {}, {}, task.offered});
  }

  SearchResult run() {
    const std::vector<std::size_t> order = order_by_size();
    for (const std::size_t i : order) measure_baseline(i);
    if (!rules_.exhaustive) skip_longest(order);
    for (std::size_t at = 0; at < order.size(); ++at) race_within_share(order, at);
    return std::move(result_);
  }

 private:
  // Seconds of the default at a size point: preparation of a repetition, and each sample.
  struct Cost {
    double preparation = 0, sample = 0;
  };

  // Sizes ascending within each collective, so that the neighbour's winner is known.
  std::vector<std::size_t> order_by_size() const {
    std::vector<std::size_t> order(tasks_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return tasks_[i].point; });
    return order;
  }

  // True if the size point is finished without a winner; `because` is the reason.
  static bool is_finished(const Record& record) { return !record.because.empty(); }

  void measure_baseline(std::size_t i) {
    Record& record = result_.records[i];
    if (time_left_() <= 0) {
      record.because = "no time left to measure it";
      return;
    }
    double first = 0, last = 0;
    for (int sample = 0; sample < baseline_samples && !is_finished(record); ++sample) {
      const double before = time_left_();
      measure_block(record, Stage::baseline, {});
      last = std::max(0.0, before - time_left_());
      if (sample == 0) first = last;
    }
    cost_[i] = {std::max(0.0, first - last), last};
  }

  // Each setting is prepared once for each repetition.
  double estimate_seconds(std::size_t i, std::size_t settings, int repetitions, int blocks) const {
    return static_cast<double>(settings) * (repetitions * cost_[i].preparation + blocks * cost_[i].sample);
  }

  // The least time in which the race of a size point can be decided.
  double least_seconds(std::size_t i) const {
    return estimate_seconds(i, 1 + first_contenders(i), 1, blocks_to_judge) +
           estimate_seconds(i, 2, 0, has_bound(result_.records[i]) ? rules_.least_bound_blocks : 0);
  }

  bool has_bound(const Record& record) const {
    if (rules_.beside) return true;
    if (rules_.exhaustive) return false;
    const std::vector<double> standard = samples_of(record, {});
    return !standard.empty() && median(standard) < launch_counts_below_s;
  }

  // Share by which a setting may be slower in the second quantity.
  double tolerated_excess(const Record& record) const {
    return rules_.beside ? rules_.beside->alone_loss : tolerated(median(samples_of(record, {}, true)));
  }

  // Channel counts with which each kind of setting starts, besides NCCL's own.
  std::vector<int> first_counts(const std::vector<int>& counts) const {
    std::vector<int> first;
    for (std::size_t at = 1; rules_.beside && at < counts.size(); at += 2) first.push_back(counts[at]);
    return first;
  }

  std::size_t first_contenders(std::size_t i) const {
    const std::vector<int> counts = channel_counts(tasks_[i].point, rules_.candidates, constraints_);
    return tasks_[i].offered.size() * (1 + first_counts(counts).size());
  }

  // Closes the longest size points until the rest fits the time left.
  void skip_longest(std::vector<std::size_t> order) {
    std::erase_if(order, [&](std::size_t i) { return is_finished(result_.records[i]); });
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return least_seconds(i); });
    double all = 0;
    for (const std::size_t i : order) all += least_seconds(i);
    for (const std::size_t i : order) {
      if (all <= time_left_()) return;
      all -= least_seconds(i);
      result_.records[i].because = no_time_to_search;
    }
  }

  // Divides the time left among the remaining size points in proportion to the cost of a block, so that none uses the
  // time of the others.
  void race_within_share(const std::vector<std::size_t>& order, std::size_t at) {
    const std::size_t i = order[at];
    Record& record = result_.records[i];
    if (is_finished(record)) return;
    double weights = 0;
    for (std::size_t later = at; later < order.size(); ++later)
      if (!is_finished(result_.records[order[later]])) weights += weight(order[later]);
    const double available = time_left_();
    if (available <= 0) {
      record.because = no_time_to_search;
      return;
    }
    stop_at_ = available - (weights > 0 ? available * weight(i) / weights : available);
    race(i, at > 0 ? &result_.records[order[at - 1]] : nullptr);
    if (!record.winner && !is_finished(record)) record.because = "nothing gains enough";
  }

  double weight(std::size_t i) const {
    return estimate_seconds(i, 1 + first_contenders(i) + rules_.candidates.channels.size() / 2, 1, rules_.first_blocks);
  }

  bool has_time() const { return time_left_() > stop_at_; }

  void race(std::size_t i, const Record* neighbour) {
    Record& record = result_.records[i];
    const std::vector<CostEntry> offered =
        prune_cost_entries(record.point, tasks_[i].offered, rules_.candidates, constraints_);
    const std::vector<int> counts = channel_counts(record.point, rules_.candidates, constraints_);
    std::optional<Setting> preferred;
    if (neighbour && neighbour->point.collective == record.point.collective && neighbour->winner &&
        is_candidate(offered, counts, *neighbour->winner))
      preferred = neighbour->winner;
    std::vector<Setting> contenders;
    if (preferred) contenders.push_back(*preferred);
    default_setting_.reset();
    for (const CostEntry& entry : offered) {
      if (entry.chosen) default_setting_ = entry.setting;
      const Setting setting{entry.setting.algorithm, entry.setting.protocol};
      if (std::ranges::find(contenders, setting) == contenders.end()) contenders.push_back(setting);
      for (const int channels : first_counts(counts))
        if (const Setting with{setting.algorithm, setting.protocol, channels};
            std::ranges::find(contenders, with) == contenders.end())
          contenders.push_back(with);
    }
    remove_failed(contenders);
    if (contenders.empty()) {
      record.because = "NCCL and the operator leave nothing to choose";
      return;
    }
    if (rules_.exhaustive) {
      measure_full_grid(record, tasks_[i].offered);
      return;
    }
    std::erase(contenders, default_setting_);
    measure_rung(record, 0, contenders);
    measure_bounds(record, contenders);
    probe_channels(record, counts, contenders);
    decide(record, contenders, preferred);
  }

  void measure_full_grid(Record& record, const std::vector<CostEntry>& offered) {
    std::vector<Setting> all = full_grid(record.point, offered, rules_.candidates, constraints_);
    remove_failed(all);
    measure_rung(record, 0, all);
    remove_failed(all);
    std::vector<Estimate> now = estimate_gains(record, all);
    std::erase_if(now, [&](const Estimate& each) { return each.gain < rules_.least_gain; });
    if (!is_finished(record)) choose(record, std::move(now), {});
  }

  static bool is_candidate(const std::vector<CostEntry>& offered, const std::vector<int>& counts,
                           const Setting& setting) {
    if (setting.channels != 0 && std::ranges::find(counts, setting.channels) == counts.end()) return false;
    return std::ranges::any_of(offered, [&](const CostEntry& entry) { return same_kind(entry.setting, setting); });
  }

  // Measures the channel counts next to the best setting's until none of them is better.
  void probe_channels(Record& record, const std::vector<int>& counts, std::vector<Setting>& contenders) {
    for (int step = 0; step < rules_.channel_steps; ++step) {
      const std::optional<Setting> best = best_setting(record, contenders);
      if (!best || is_finished(record) || !has_time()) return;
      std::vector<Setting> probes = channel_neighbours(*best, counts, contenders);
      remove_failed(probes);
      if (probes.empty()) return;
      contenders.insert(contenders.end(), probes.begin(), probes.end());
      if (best != default_setting_) probes.push_back(*best);
      measure_rung(record, 0, probes);
      measure_bounds(record, probes);
      remove_failed(contenders);
      if (best_setting(record, probes) == best) return;
    }
  }

  // Estimates of the settings that did not fail and may keep the bound.
  std::vector<Estimate> estimate_permitted(const Record& record, const std::vector<Setting>& settings) const {
    std::vector<Estimate> now = estimate_gains(record, settings);
    std::erase_if(now,
                  [&](const Estimate& each) { return has_failed(each.setting) || is_excessive(record, each.setting); });
    return now;
  }

  // The best setting so far. The default's own setting is known to gain 0 without a measurement.
  std::optional<Setting> best_setting(const Record& record, const std::vector<Setting>& contenders) const {
    const std::vector<Estimate> now = estimate_permitted(record, contenders);
    if (now.empty() || (default_setting_ && now.front().gain < 0)) return default_setting_;
    return now.front().setting;
  }

  // Measures rungs until the race is decided.
  void decide(Record& record, std::vector<Setting> contenders, const std::optional<Setting>& preferred) {
    for (int rung = 1; !is_finished(record); ++rung) {
      std::vector<Estimate> now = estimate_permitted(record, contenders);
      if (is_decided(now, rules_) || rung >= rules_.rungs || !has_time()) {
        std::erase_if(now, [&](const Estimate& each) { return each.gain + each.error < rules_.least_gain; });
        return choose(record, std::move(now), preferred);
      }
      contenders.clear();
      for (const Estimate& each : now)
        if (each.most() >= rules_.least_gain) contenders.push_back(each.setting);
      if (contenders.empty()) return;
      measure_rung(record, rung, contenders);
      remove_failed(contenders);
    }
  }

  // The winner is the best, if it keeps the bound; beside other work, where the fastest often does not, else the next
  // best that does. Without any the default stays.
  void choose(Record& record, std::vector<Estimate> best_first, const std::optional<Setting>& preferred) {
    std::string because;
    while (!best_first.empty()) {
      const Setting best = choose_winner(best_first, preferred, rules_.indifference_zone);
      const std::string excess = measure_excess(record, best);
      if (is_finished(record)) return;
      if (excess.empty()) {
        record.winner = best;
        return;
      }
      if (because.empty()) because = excess;
      if (!rules_.beside) break;
      std::erase_if(best_first, [&](const Estimate& each) { return each.setting == best || has_failed(each.setting); });
    }
    record.because = because;
  }

  // By how much a setting exceeds the bound, in a sentence; "": it keeps it.
  std::string measure_excess(Record& record, const Setting& setting) {
    if (!has_bound(record)) return "";
    std::optional<Estimate> found;
    double limit = 0;
    const int most = rules_.beside ? rules_.beside->most_bound_blocks : rules_.most_bound_blocks;
    for (int block = 0; block < most && time_left_() > 0; ++block) {
      measure_block(record, Stage::bound, {setting});
      if (is_finished(record)) return "";
      if (has_failed(setting)) return fmt::format("{} failed", to_text(setting));
      found = estimate_bound_gain(record, setting);
      if (!found) return "";
      limit = -tolerated_excess(record);
      if (block + 1 >= rules_.least_bound_blocks && (found->least() > limit || found->most() < limit)) break;
    }
    if (!found || found->gain >= limit) return "";
    return fmt::format("{} takes {:.1f} % (give or take {:.1f}) longer {}", to_text(setting), -100 * found->gain,
                       100 * found->error, rules_.beside ? "alone" : "with the time to launch it");
  }

  // Beside other work: measures the second quantity of the settings that may win, so that the race goes on among those
  // that may keep the bound.
  void measure_bounds(Record& record, const std::vector<Setting>& settings) {
    if (!rules_.beside) return;
    std::vector<Setting> promising;
    for (const Estimate& each : estimate_gains(record, settings))
      if (each.most() >= rules_.least_gain && !has_failed(each.setting)) promising.push_back(each.setting);
    for (int block = 0; block < bound_blocks_in_rung && !is_finished(record) && !promising.empty() && has_time();
         ++block) {
      measure_block(record, Stage::bound, promising);
      remove_failed(promising);
    }
  }

  // True if a setting clearly exceeds the bound; the errors of few blocks are themselves uncertain.
  bool is_excessive(const Record& record, const Setting& setting) const {
    constexpr double margin = 0.01;
    if (!rules_.beside) return false;
    const std::optional<Estimate> found = estimate_bound_gain(record, setting);
    return found && found->most() < -tolerated_excess(record) - margin;
  }

  // Measures the default and these settings in the blocks of a rung: each rung has twice as many blocks as the one
  // before, and settings that cannot gain enough are dropped on the way.
  void measure_rung(Record& record, int rung, const std::vector<Setting>& settings) {
    std::vector<Setting> alive = settings;
    const int blocks = rules_.exhaustive ? rules_.exhaustive_blocks : rules_.first_blocks << rung;
    for (int block = 0; block < blocks && !is_finished(record) && !alive.empty(); ++block) {
      if (block > 0 && !has_time()) return;
      measure_block(record, Stage::race, alive);
      remove_failed(alive);
      if (rules_.exhaustive) continue;
      std::erase_if(alive, [&](const Setting& setting) { return is_hopeless(record, setting); });
      if (rung == 0 && block + 1 < blocks_to_judge) continue;
      const std::vector<Estimate> now = estimate_gains(record, alive);
      if (rung > 0 && is_decided(now, rules_)) return;
      for (const Estimate& each : now)
        if (each.most() < rules_.least_gain) std::erase(alive, each.setting);
    }
  }

  static bool is_hopeless(const Record& record, const Setting& setting) {
    const std::vector<double> ratios = log_ratios(record, setting);
    if (ratios.empty() || ratios.size() > std::size(hopeless_after)) return false;
    const double limit = std::log(1 + hopeless_after[ratios.size() - 1]);
    return std::ranges::all_of(ratios, [&](double ratio) { return ratio > limit; });
  }

  void measure_block(Record& record, Stage stage, const std::vector<Setting>& settings) {
    Block block{.stage = stage, .candidates = {{}}, .trials = {}};
    for (const Setting& setting : settings) block.candidates.push_back({setting});
    for (std::size_t i = block.candidates.size(); i > 1; --i)
      std::swap(block.candidates[i - 1], block.candidates[random_() % i]);
    block.trials = measure_(record.point, block.candidates, stage);
    block.trials.resize(block.candidates.size(), Trial{.outcome = Trial::Outcome::skipped});
    for (std::size_t i = 0; i < block.trials.size(); ++i) count_trial(record, block.candidates[i], block.trials[i]);
    record.blocks.push_back(std::move(block));
  }

  void count_trial(Record& record, const Candidate& candidate, Trial& trial) {
    if (trial.outcome == Trial::Outcome::skipped) return;
    if (trial.outcome == Trial::Outcome::measured && !(std::isfinite(trial.time.count) && trial.time.count > 0)) {
      trial.outcome = Trial::Outcome::failed;
      trial.because = "its time is not a positive number";
    }
    ++result_.samples;
    if (trial.outcome == Trial::Outcome::measured) return;
    result_.failures.push_back({record.point, candidate, trial.outcome, trial.because});
    if (candidate.is_default()) record.because = fmt::format("the default failed: {}", trial.because);
  }

  void remove_failed(std::vector<Setting>& settings) const {
    std::erase_if(settings, [&](const Setting& setting) { return has_failed(setting); });
  }

  bool has_failed(const Setting& setting) const {
    return std::ranges::any_of(result_.failures, [&](const Failure& failure) { return excludes(failure, setting); });
  }

  const std::vector<Task>& tasks_;
  const SearchRules& rules_;
  const Constraints& constraints_;
  const MeasureBlock& measure_;
  const TimeLeft& time_left_;
  std::mt19937_64 random_;
  std::vector<Cost> cost_;                  // by task
  double stop_at_ = 0;                      // the time left at which the current race ends
  std::optional<Setting> default_setting_;  // the default, if NCCL's table marks it, in the current race
  SearchResult result_;
};

}  // namespace

SearchResult search(const std::vector<Task>& tasks, const SearchRules& rules, const Constraints& constraints,
                    const MeasureBlock& measure, const TimeLeft& time_left) {
  return Searcher(tasks, rules, constraints, measure, time_left).run();
}

}  // namespace p5::tuner
