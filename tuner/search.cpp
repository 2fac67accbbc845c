#include "tuner/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "bench/base/statistics.hpp"
#include "tuner/gain.hpp"
#include "tuner/race.hpp"

namespace p5::tuner {

namespace {

constexpr int most_channel_steps = 3;
// So much slower than the default in each of one, two, three blocks: no further block will make a winner of it.
constexpr double hopeless_after[] = {0.5, 0.1, 0.05};
constexpr int blocks_to_judge = 3;  // before that the noise is not known
constexpr int baseline_samples = 2;
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
    const std::vector<std::size_t> order = by_size();
    for (const std::size_t i : order) baseline(i);
    if (!rules_.exhaustive) leave_out_the_longest(order);
    for (std::size_t at = 0; at < order.size(); ++at) race_within_share(order, at);
    return std::move(result_);
  }

 private:
  // Seconds of the default in a cell: what a repetition takes beforehand, and each sample.
  struct Cost {
    double visit = 0, sample = 0;
  };

  // Each collective's sizes ascending, so that a size finds its neighbour's winner.
  std::vector<std::size_t> by_size() const {
    std::vector<std::size_t> order(tasks_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return tasks_[i].point; });
    return order;
  }

  // Nothing more is to be measured there: no time, or the default has gone wrong, so nothing can be compared with it.
  static bool closed(const Record& record) { return !record.because.empty(); }

  void baseline(std::size_t i) {
    Record& record = result_.records[i];
    if (time_left_() <= 0) {
      record.because = "no time left to measure it";
      return;
    }
    double first = 0, last = 0;
    for (int sample = 0; sample < baseline_samples && !closed(record); ++sample) {
      const double before = time_left_();
      measure_block(record, Stage::baseline, {});
      last = std::max(0.0, before - time_left_());
      if (sample == 0) first = last;
    }
    cost_[i] = {std::max(0.0, first - last), last};
  }

  // Each setting is prepared once a repetition.
  double seconds_of(std::size_t i, std::size_t settings, int visits, int blocks) const {
    return static_cast<double>(settings) * (visits * cost_[i].visit + blocks * cost_[i].sample);
  }

  // The least with which a cell can come to a verdict.
  double least_seconds(std::size_t i) const {
    return seconds_of(i, 1 + tasks_[i].offered.size(), 1, blocks_to_judge) +
           seconds_of(i, 2, 0, host_counts(result_.records[i]) ? rules_.least_throughput_blocks : 0);
  }

  static bool host_counts(const Record& record) {
    const std::vector<double> standard = samples_of(record, {});
    return !standard.empty() && median(standard) < host_counts_below_s;
  }

  void leave_out_the_longest(std::vector<std::size_t> order) {
    std::erase_if(order, [&](std::size_t i) { return closed(result_.records[i]); });
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return least_seconds(i); });
    double all = 0;
    for (const std::size_t i : order) all += least_seconds(i);
    for (const std::size_t i : order) {
      if (all <= time_left_()) return;
      all -= least_seconds(i);
      result_.records[i].because = no_time_to_search;
    }
  }

  // The time that is left divides over the cells by what a block of each costs, so small messages do not wait for large
  // ones and no cell takes what the others need.
  void race_within_share(const std::vector<std::size_t>& order, std::size_t at) {
    const std::size_t i = order[at];
    Record& record = result_.records[i];
    if (closed(record)) return;
    double weights = 0;
    for (std::size_t later = at; later < order.size(); ++later)
      if (!closed(result_.records[order[later]])) weights += weight(order[later]);
    const double available = time_left_();
    if (available <= 0) {
      record.because = no_time_to_search;
      return;
    }
    stop_at_ = available - (weights > 0 ? available * weight(i) / weights : available);
    race(i, at > 0 ? &result_.records[order[at - 1]] : nullptr);
    if (!record.winner && !closed(record)) record.because = "nothing gains enough";
  }

  double weight(std::size_t i) const {
    return seconds_of(i, 1 + tasks_[i].offered.size() + rules_.candidates.channels.size() / 2, 1, rules_.first_blocks);
  }

  bool in_time() const { return time_left_() > stop_at_; }

  void race(std::size_t i, const Record* neighbour) {
    Record& record = result_.records[i];
    const std::vector<CostEntry> offered = worthwhile(record.point, tasks_[i].offered, rules_.candidates, constraints_);
    const std::vector<int> ladder = channel_ladder(record.point, rules_.candidates, constraints_);
    std::optional<Setting> preferred;
    if (neighbour && neighbour->point.collective == record.point.collective && neighbour->winner &&
        possible(offered, ladder, *neighbour->winner))
      preferred = neighbour->winner;
    std::vector<Setting> contenders;
    if (preferred) contenders.push_back(*preferred);
    standard_.reset();
    for (const CostEntry& entry : offered) {
      if (entry.chosen) standard_ = entry.setting;
      const Setting setting{entry.setting.algorithm, entry.setting.protocol};
      if (std::ranges::find(contenders, setting) == contenders.end()) contenders.push_back(setting);
    }
    remove_ruled_out(contenders);
    if (contenders.empty()) {
      record.because = "NCCL and the operator leave nothing to choose";
      return;
    }
    if (rules_.exhaustive) {
      measure_everything(record, tasks_[i].offered);
      return;
    }
    std::erase(contenders, standard_);
    measure_rung(record, 0, contenders);
    probe_channels(record, ladder, contenders);
    decide(record, contenders, preferred);
  }

  void measure_everything(Record& record, const std::vector<CostEntry>& offered) {
    std::vector<Setting> all = full_grid(record.point, offered, rules_.candidates, constraints_);
    remove_ruled_out(all);
    measure_rung(record, 0, all);
    remove_ruled_out(all);
    const std::vector<Estimate> now = estimates(record, all);
    if (!closed(record) && !now.empty() && now.front().gain >= rules_.least_gain)
      record.winner = choose(now, {}, rules_.indifferent);
  }

  static bool possible(const std::vector<CostEntry>& offered, const std::vector<int>& ladder, const Setting& setting) {
    if (setting.channels != 0 && std::ranges::find(ladder, setting.channels) == ladder.end()) return false;
    return std::ranges::any_of(offered, [&](const CostEntry& entry) { return same_kind(entry.setting, setting); });
  }

  // The neighbours of the best setting so far, until none is better.
  void probe_channels(Record& record, const std::vector<int>& ladder, std::vector<Setting>& contenders) {
    for (int step = 0; step < most_channel_steps; ++step) {
      const std::optional<Setting> best = leader(record, contenders);
      if (!best || closed(record) || !in_time()) return;
      std::vector<Setting> probes = channel_neighbours(*best, ladder, contenders);
      remove_ruled_out(probes);
      if (probes.empty()) return;
      contenders.insert(contenders.end(), probes.begin(), probes.end());
      if (best != standard_) probes.push_back(*best);
      measure_rung(record, 0, probes);
      remove_ruled_out(contenders);
      if (leader(record, probes) == best) return;
    }
  }

  // The best so far. What the default does is known without measuring it: it gains nothing.
  std::optional<Setting> leader(const Record& record, const std::vector<Setting>& contenders) const {
    const std::vector<Estimate> now = estimates(record, contenders);
    if (now.empty() || (standard_ && now.front().gain < 0)) return standard_;
    return now.front().setting;
  }

  // Rungs until the race is decided.
  void decide(Record& record, std::vector<Setting> contenders, const std::optional<Setting>& preferred) {
    for (int rung = 1; !closed(record); ++rung) {
      std::vector<Estimate> now = estimates(record, contenders);
      if (decided(now, rules_) || rung >= rules_.rungs || !in_time()) {
        std::erase_if(now, [&](const Estimate& each) { return each.gain + each.error < rules_.least_gain; });
        if (now.empty()) return;  // the default stays
        const Setting best = choose(now, preferred, rules_.indifferent);
        if (!loses_throughput(record, best)) record.winner = best;
        return;
      }
      contenders.clear();
      for (const Estimate& each : now)
        if (each.most() >= rules_.least_gain) contenders.push_back(each.setting);
      if (contenders.empty()) return;
      measure_rung(record, rung, contenders);
      remove_ruled_out(contenders);
    }
  }

  bool loses_throughput(Record& record, const Setting& setting) {
    if (!host_counts(record)) return false;
    std::optional<Estimate> found;
    double limit = 0;
    for (int block = 0; block < rules_.most_throughput_blocks && time_left_() > 0; ++block) {
      measure_block(record, Stage::throughput, {setting});
      if (ruled_out(setting) || closed(record)) return true;
      found = estimate_of_throughput(record, setting);
      if (!found) return false;
      limit = -tolerated(median(samples_of(record, {}, true)));
      if (block + 1 >= rules_.least_throughput_blocks && (found->least() > limit || found->most() < limit)) break;
    }
    if (!found || found->gain >= limit) return false;
    record.because = fmt::format("{} takes {:.1f} % (give or take {:.1f}) longer with the time to launch it",
                                 to_text(setting), -100 * found->gain, 100 * found->error);
    return true;
  }

  void measure_rung(Record& record, int rung, const std::vector<Setting>& settings) {
    std::vector<Setting> alive = settings;
    const int blocks = rules_.exhaustive ? rules_.exhaustive_blocks : rules_.first_blocks << rung;
    for (int block = 0; block < blocks && !closed(record) && !alive.empty(); ++block) {
      if (block > 0 && !in_time()) return;
      measure_block(record, Stage::race, alive);
      remove_ruled_out(alive);
      if (rules_.exhaustive) continue;
      std::erase_if(alive, [&](const Setting& setting) { return hopeless(record, setting); });
      if (rung == 0 && block + 1 < blocks_to_judge) continue;
      const std::vector<Estimate> now = estimates(record, alive);
      if (rung > 0 && decided(now, rules_)) return;
      for (const Estimate& each : now)
        if (each.most() < rules_.least_gain) std::erase(alive, each.setting);
    }
  }

  static bool hopeless(const Record& record, const Setting& setting) {
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
    for (std::size_t i = 0; i < block.trials.size(); ++i) note(record, block.candidates[i], block.trials[i]);
    record.blocks.push_back(std::move(block));
  }

  void note(Record& record, const Candidate& candidate, Trial& trial) {
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

  void remove_ruled_out(std::vector<Setting>& settings) const {
    std::erase_if(settings, [&](const Setting& setting) { return ruled_out(setting); });
  }

  bool ruled_out(const Setting& setting) const {
    return std::ranges::any_of(result_.failures,
                               [&](const Failure& failure) { return failure.candidate.setting == setting; });
  }

  const std::vector<Task>& tasks_;
  const SearchRules& rules_;
  const Constraints& constraints_;
  const MeasureBlock& measure_;
  const TimeLeft& time_left_;
  std::mt19937_64 random_;
  std::vector<Cost> cost_;           // by task
  double stop_at_ = 0;               // the time left at which the present race ends
  std::optional<Setting> standard_;  // what the default does in the cell of the present race, where NCCL says so
  SearchResult result_;
};

}  // namespace

SearchResult search(const std::vector<Task>& tasks, const SearchRules& rules, const Constraints& constraints,
                    const MeasureBlock& measure, const TimeLeft& time_left) {
  return Searcher(tasks, rules, constraints, measure, time_left).run();
}

}  // namespace p5::tuner
