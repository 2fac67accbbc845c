#include "tuner/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "tuner/belief.hpp"
#include "tuner/race.hpp"

namespace p5::tuner {

namespace {

constexpr double indifferent = 0.01;  // settings closer than this are as good as each other
constexpr int most_channel_steps = 3;
// So much slower than the default in each of one, two, three blocks: no further block will make a winner of it.
constexpr double despair[] = {0.5, 0.1, 0.05};
constexpr int blocks_to_judge = 3;  // before that the noise is not known
constexpr int samples_in_a_sweep = 2, most_sweeps = 100;
constexpr int repeat_sweeps = 2;  // further apart they tell more of the machine
constexpr const char* no_time_to_search = "no time left to search it: the default stays";
constexpr const char* no_time_to_repeat = "no time left to repeat what looked good: the default stays";

// What is judged for drift together.
using Band = std::pair<std::string, std::string>;
Band band_of(const Cell& cell) { return {cell.collective, tuner::band_of(cell.bytes)}; }

class Searcher {
 public:
  Searcher(const std::vector<Task>& tasks, const SearchRules& rules, const Constraints& constraints,
           const MeasureBlock& measure, const TimeLeft& time_left, std::vector<Failure> failures)
      : tasks_(tasks),
        rules_(rules),
        constraints_(constraints),
        measure_(measure),
        time_left_(time_left),
        random_(rules.seed),
        cost_(tasks.size()) {
    result_.failures = std::move(failures);
    for (const Task& task : tasks) result_.records.push_back({task.cell, {}, {}, {}, task.offers});
  }

  SearchResult run() {
    const std::vector<std::size_t> order = by_size();
    baselines(order);
    if (!rules_.exhaustive) leave_out_the_longest(order);
    reserve_ = rules_.repeat_share * std::max(0.0, time_left_());
    for (std::size_t at = 0; at < order.size(); ++at) race_within_share(order, at);
    const std::vector<Repetition> plan = repetitions(order);
    for (int sweep = 0; sweep < repeat_sweeps; ++sweep)
      for (const Repetition& each : plan) repeat(each, sweep);
    return std::move(result_);
  }

 private:
  // Seconds of the default in a cell: what a visit takes beforehand, and each sample.
  struct Cost {
    double visit = 0, sample = 0;
  };

  // Each collective's sizes ascending, so that a size finds its neighbour's winner.
  std::vector<std::size_t> by_size() const {
    std::vector<std::size_t> order(tasks_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, [&](std::size_t i) { return tasks_[i].cell; });
    return order;
  }

  // The default has first gone wrong here, so nothing can be compared with it.
  static bool lost(const Record& record) { return !record.remark.empty(); }

  // Sweeps over all cells; where a part of them fluctuates, more sweeps of that part.
  void baselines(const std::vector<std::size_t>& order) {
    const double spare = time_left_() * (1 - rules_.settling_share);
    std::set<Band> restless;
    for (const std::size_t i : order) restless.insert(band_of(tasks_[i].cell));
    for (int sweep = 1; !restless.empty(); ++sweep) {
      for (const std::size_t i : order)
        if (restless.contains(band_of(tasks_[i].cell))) baseline(i);
      if (sweep < rules_.baseline_sweeps) continue;
      if (time_left_() < spare || sweep == most_sweeps) return;
      std::erase_if(restless, [&](const Band& band) { return settled(band, sweep); });
    }
  }

  void baseline(std::size_t i) {
    Record& record = result_.records[i];
    if (lost(record)) return;
    if (time_left_() <= 0) {
      if (record.blocks.empty()) record.remark = "no time left to measure it";
      return;
    }
    double first = 0, last = 0;
    for (int sample = 0; sample < samples_in_a_sweep && !lost(record); ++sample) {
      const double before = time_left_();
      measure_block(record, Visit::baseline, 0, {});
      last = std::max(0.0, before - time_left_());
      if (sample == 0) first = last;
    }
    cost_[i] = {std::max(0.0, first - last), last};
  }

  // Whether the level of a part over its sweeps is known well enough to tell a drift: by the error of its mean.
  bool settled(const Band& band, int sweeps) const {
    std::vector<double> levels;
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      std::vector<double> logs;
      for (const Record& record : result_.records) {
        const std::vector<double> all = samples_of(record, {}, Visit::baseline);
        const std::size_t from = static_cast<std::size_t>(sweep * samples_in_a_sweep);
        if (band_of(record.cell) != band || lost(record) || all.size() < from + samples_in_a_sweep) continue;
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(from);
        logs.push_back(std::log(median(std::vector<double>(begin, begin + samples_in_a_sweep)) / median(all)));
      }
      if (!logs.empty()) levels.push_back(median(logs));
    }
    if (levels.size() < 2) return true;
    const double count = static_cast<double>(levels.size());
    const double mean = std::accumulate(levels.begin(), levels.end(), 0.0) / count;
    double squares = 0;
    for (const double level : levels) squares += (level - mean) * (level - mean);
    return std::sqrt(squares / (count - 1) / count) < rules_.settled;
  }

  // Each setting is prepared once a visit.
  double seconds_of(std::size_t i, std::size_t settings, int visits, int blocks) const {
    return static_cast<double>(settings) * (visits * cost_[i].visit + blocks * cost_[i].sample);
  }

  // The least with which a cell can come to a verdict.
  double least_seconds(std::size_t i) const {
    return seconds_of(i, 1 + tasks_[i].offers.size(), 1, blocks_to_judge) +
           seconds_of(i, 2, 0, launch_counts(result_.records[i]) ? rules_.least_launched_blocks : 0) +
           seconds_of(i, 2, repeat_sweeps, rules_.least_repeats);
  }

  static bool launch_counts(const Record& record) {
    const std::vector<double> standard = samples_of(record, {});
    return !standard.empty() && median(standard) < launches_count_s;
  }

  void leave_out_the_longest(std::vector<std::size_t> order) {
    std::erase_if(order, [&](std::size_t i) { return lost(result_.records[i]); });
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return least_seconds(i); });
    double all = 0;
    for (const std::size_t i : order) all += least_seconds(i);
    for (const std::size_t i : order) {
      if (all <= time_left_()) return;
      all -= least_seconds(i);
      result_.records[i].remark = no_time_to_search;
    }
  }

  // The time that is left divides over the cells by what a block of each costs, so small messages do not wait for large
  // ones and no cell takes what the others need.
  void race_within_share(const std::vector<std::size_t>& order, std::size_t at) {
    const std::size_t i = order[at];
    Record& record = result_.records[i];
    if (lost(record)) return;
    double weights = 0;
    for (std::size_t later = at; later < order.size(); ++later)
      if (!lost(result_.records[order[later]])) weights += weight(order[later]);
    const double available = time_left_() - reserve_;
    if (available <= 0) {
      record.remark = no_time_to_search;
      return;
    }
    stop_at_ = time_left_() - (weights > 0 ? available * weight(i) / weights : available);
    race(i, at > 0 ? &result_.records[order[at - 1]] : nullptr);
  }

  double weight(std::size_t i) const {
    const std::size_t candidates = 1 + tasks_[i].offers.size() + rules_.candidates.channels.size() / 2;
    return seconds_of(i, candidates, 1, rules_.first_blocks);
  }

  bool in_time() const { return time_left_() > stop_at_; }

  void race(std::size_t i, const Record* neighbour) {
    Record& record = result_.records[i];
    const std::vector<Offer> offers = worthwhile(record.cell, tasks_[i].offers, rules_.candidates, constraints_);
    const std::vector<int> ladder = channel_ladder(record.cell, rules_.candidates, constraints_);
    std::vector<Setting> preferred;
    if (neighbour && neighbour->cell.collective == record.cell.collective && neighbour->winner &&
        offered(offers, ladder, *neighbour->winner))
      preferred.push_back(*neighbour->winner);
    std::vector<Setting> contenders = preferred;
    standard_.reset();
    for (const Offer& offer : offers) {
      Setting setting = offer.setting;
      setting.chunk = 0;
      if (offer.chosen) standard_ = setting;
      setting.channels = 0;
      if (std::ranges::find(contenders, setting) == contenders.end()) contenders.push_back(setting);
    }
    remove_ruled_out(contenders);
    if (contenders.empty()) {
      record.remark = "NCCL and the operator leave nothing to choose";
      return;
    }
    if (rules_.exhaustive) {
      measure_everything(record, tasks_[i].offers);
      return;
    }
    std::erase(contenders, standard_);
    measure_rung(record, 0, contenders);
    probe_channels(record, ladder, contenders);
    if (rules_.candidates.chunks) probe_chunks(record, offers, contenders);
    halve(record, contenders, preferred);
  }

  void measure_everything(Record& record, const std::vector<Offer>& offers) {
    std::vector<Setting> all = full_grid(record.cell, offers, rules_.candidates, constraints_);
    remove_ruled_out(all);
    measure_rung(record, rules_.rungs - 1, all);
    remove_ruled_out(all);
    const std::vector<Standing> now = standings(record, all);
    if (!lost(record) && !now.empty() && now.front().gain >= rules_.least_gain)
      record.winner = choose(now, {}, indifferent);
  }

  static bool offered(const std::vector<Offer>& offers, const std::vector<int>& ladder, const Setting& setting) {
    if (setting.channels != 0 && std::ranges::find(ladder, setting.channels) == ladder.end()) return false;
    return std::ranges::any_of(offers, [&](const Offer& offer) {
      const bool chunk_known =
          setting.chunk == 0 || setting.chunk == offer.setting.chunk / 2 || setting.chunk == offer.setting.chunk * 2;
      return chunk_known && offer.setting.algorithm == setting.algorithm && offer.setting.protocol == setting.protocol;
    });
  }

  // One coordinate after the other: the neighbours of the best setting so far, until none is better.
  void probe_channels(Record& record, const std::vector<int>& ladder, std::vector<Setting>& contenders) {
    for (int step = 0; step < most_channel_steps; ++step)
      if (!probe(record, contenders, [&](const Setting& best) { return channel_neighbours(best, ladder, contenders); }))
        return;
  }

  void probe_chunks(Record& record, const std::vector<Offer>& offers, std::vector<Setting>& contenders) {
    probe(record, contenders, [&](const Setting& best) { return chunk_neighbours(best, offers, contenders); });
  }

  // Measures neighbours of the best contender; whether one of them is the best now.
  template <class Neighbours>
  bool probe(Record& record, std::vector<Setting>& contenders, const Neighbours& neighbours) {
    const std::optional<Setting> best = leader(record, contenders);
    if (!best || lost(record) || !in_time()) return false;
    std::vector<Setting> probes = neighbours(*best);
    remove_ruled_out(probes);
    if (probes.empty()) return false;
    contenders.insert(contenders.end(), probes.begin(), probes.end());
    if (best != standard_) probes.push_back(*best);
    measure_rung(record, 0, probes);
    remove_ruled_out(contenders);
    return leader(record, probes) != best;
  }

  // The best so far. What the default does is known without measuring it: it gains nothing.
  std::optional<Setting> leader(const Record& record, const std::vector<Setting>& contenders) const {
    const std::vector<Standing> now = standings(record, contenders);
    if (now.empty() || (standard_ && now.front().gain < 0)) return standard_;
    return now.front().setting;
  }

  void halve(Record& record, std::vector<Setting> contenders, const std::vector<Setting>& preferred) {
    for (int rung = 1; !lost(record); ++rung) {
      const std::vector<Standing> now = standings(record, contenders);
      contenders = survivors(now, rules_.least_gain);
      if (contenders.empty()) return;  // the default stays
      if (decided(now, rules_.least_gain, indifferent) || rung >= rules_.rungs || !in_time()) {
        record.winner = best_with_launch(record, now, preferred);
        return;
      }
      measure_rung(record, rung, contenders);
      remove_ruled_out(contenders);
    }
  }

  // The best that gains on the device and does not lose with its launch.
  std::optional<Setting> best_with_launch(Record& record, std::vector<Standing> standings,
                                          const std::vector<Setting>& preferred) {
    std::erase_if(standings, [&](const Standing& each) { return each.gain + each.error < rules_.least_gain; });
    for (int tried = 0; tried < rules_.most_launched && !standings.empty() && !lost(record); ++tried) {
      const Setting best = choose(standings, preferred, indifferent);
      std::vector<Setting> with{best};
      for (const Setting& setting : preferred)
        if (setting != best && std::ranges::find(standings, setting, &Standing::setting) != standings.end())
          with.push_back(setting);  // which could stand in for it (rows.hpp)
      if (!launch_costs_too_much(record, best, with)) return best;
      std::erase_if(standings, [&](const Standing& each) { return each.setting == best; });
    }
    return std::nullopt;
  }

  bool launch_costs_too_much(Record& record, const Setting& setting, std::vector<Setting> together) {
    if (!launch_counts(record)) return false;
    for (int block = 0; block < rules_.most_launched_blocks && time_left_() > 0; ++block) {
      measure_block(record, Visit::launched, rules_.rungs, together);
      remove_ruled_out(together);
      if (ruled_out(setting) || lost(record)) return true;
      const std::optional<Standing> standing = standing_with_launch(record, setting);
      if (!standing) return false;
      const double limit = -tolerated(median(samples_of(record, {}, Visit::launched)));
      if (block + 1 >= rules_.least_launched_blocks && std::abs(standing->gain - limit) > 2 * standing->error) break;
    }
    if (!may_be_slower_with_launch(record, setting).value_or(false)) return false;
    if (record.turned_down.empty()) {
      const Standing found = *standing_with_launch(record, setting);
      record.turned_down = fmt::format("{} takes {:.1f} % (give or take {:.1f}) longer with the time to launch it",
                                       to_text(setting), -100 * found.gain, 100 * found.error);
    }
    return true;
  }

  struct Repetition {
    std::size_t task = 0;
    int blocks = 0;
    double seconds = 0, worth = 0;  // what it takes; gain for the time
  };

  Repetition repetition(std::size_t i) const {
    const Record& record = result_.records[i];
    Repetition each{i, rules_.closing_samples, 0, rules_.least_gain};
    if (record.winner) {
      each.blocks = repeats(record);
      const std::vector<Standing> one = standings(record, {*record.winner});
      if (!one.empty()) each.worth = std::max(each.worth, one.front().gain);
    }
    each.seconds = seconds_of(i, record.winner ? 2 : 1, repeat_sweeps, each.blocks);
    each.worth /= std::max(each.seconds, 1e-9);
    return each;
  }

  std::vector<Repetition> repetitions(const std::vector<std::size_t>& order) {
    std::vector<Repetition> all, plan;
    for (const std::size_t i : order)
      if (!lost(result_.records[i])) all.push_back(repetition(i));
    std::ranges::stable_sort(all, std::greater<>(), &Repetition::worth);
    double left = time_left_();
    for (const Repetition& each : all) {
      if (each.seconds <= left) {
        left -= each.seconds;
        plan.push_back(each);
      } else if (Record& record = result_.records[each.task]; record.winner) {
        record.remark = no_time_to_repeat;
      }
    }
    return plan;
  }

  void repeat(const Repetition& repetition, int sweep) {
    Record& record = result_.records[repetition.task];
    std::vector<Setting> winner;
    if (record.winner) winner = {*record.winner};
    remove_ruled_out(winner);
    const int half = repetition.blocks / repeat_sweeps;
    const int blocks = sweep == 0 ? repetition.blocks - half : half;
    for (int block = 0; block < blocks && !lost(record); ++block) {
      if (time_left_() <= 0) {
        if (record.winner) record.remark = no_time_to_repeat;
        return;
      }
      measure_block(record, Visit::repeat, rules_.rungs, winner);
      remove_ruled_out(winner);
    }
  }

  // So many that a gain as large as in the race is seen in nearly all blocks of a sign test.
  int repeats(const Record& record) const {
    const std::vector<double> ratios = log_ratios(record, *record.winner, Visit::race);
    const double gain = std::max(rules_.least_gain, 1 - std::exp(median(ratios)));
    constexpr double clear = 2.5;  // standard deviations: then 99 of 100 blocks are won
    const double needed = rules_.least_repeats * std::pow(clear * robust_deviation(ratios) / gain, 2);
    return static_cast<int>(std::clamp<double>(std::ceil(needed), rules_.least_repeats, rules_.most_repeats));
  }

  void measure_rung(Record& record, int rung, const std::vector<Setting>& settings) {
    std::vector<Setting> alive = settings;
    const int blocks = rules_.exhaustive ? rules_.exhaustive_blocks : rules_.first_blocks << rung;
    for (int block = 0; block < blocks && !lost(record) && !alive.empty(); ++block) {
      if (block > 0 && !in_time()) return;
      measure_block(record, Visit::race, rung, alive);
      remove_ruled_out(alive);
      if (rules_.exhaustive) continue;
      std::erase_if(alive, [&](const Setting& setting) { return hopeless(record, setting); });
      if (rung == 0 && block + 1 < blocks_to_judge) continue;
      const std::vector<Standing> now = standings(record, alive);
      if (rung > 0 && decided(now, rules_.least_gain, indifferent)) return;
      for (const Standing& each : now)
        if (!may_gain(each, rules_.least_gain)) std::erase(alive, each.setting);
    }
  }

  static bool hopeless(const Record& record, const Setting& setting) {
    const std::vector<double> ratios = log_ratios(record, setting, Visit::race);
    if (ratios.empty() || ratios.size() > std::size(despair)) return false;
    const double limit = std::log(1 + despair[ratios.size() - 1]);
    return std::ranges::all_of(ratios, [&](double ratio) { return ratio > limit; });
  }

  void measure_block(Record& record, Visit visit, int rung, const std::vector<Setting>& settings) {
    Block block{.visit = visit, .rung = rung, .candidates = {{}}, .trials = {}};
    for (const Setting& setting : settings) block.candidates.push_back({setting});
    for (std::size_t i = block.candidates.size(); i > 1; --i)
      std::swap(block.candidates[i - 1], block.candidates[random_() % i]);
    const double before = time_left_();
    block.trials = measure_(record.cell, block.candidates, visit);
    record.seconds += before - time_left_();
    block.trials.resize(block.candidates.size(), Trial{Trial::Outcome::skipped, 0, {}});
    for (std::size_t i = 0; i < block.trials.size(); ++i) note(record, block.candidates[i], block.trials[i]);
    record.blocks.push_back(std::move(block));
  }

  void note(Record& record, const Candidate& candidate, Trial& trial) {
    if (trial.outcome == Trial::Outcome::skipped) return;
    if (trial.outcome == Trial::Outcome::measured && !(std::isfinite(trial.seconds) && trial.seconds > 0)) {
      trial.outcome = Trial::Outcome::failed;
      trial.because = "its time is not a positive number";
    }
    ++result_.samples;
    if (trial.outcome == Trial::Outcome::measured) return;
    result_.failures.push_back({record.cell, candidate, trial.outcome, trial.because});
    if (candidate.is_default()) record.remark = fmt::format("the default failed: {}", trial.because);
  }

  void remove_ruled_out(std::vector<Setting>& settings) const {
    std::erase_if(settings, [&](const Setting& setting) { return ruled_out(setting); });
  }

  bool ruled_out(const Setting& setting) const {
    return std::ranges::any_of(result_.failures, [&](const Failure& failure) {
      if (!failure.candidate.setting) return false;
      const Setting& bad = *failure.candidate.setting;
      if (rules_.failures_spread) return bad.algorithm == setting.algorithm && bad.protocol == setting.protocol;
      return bad == setting;
    });
  }

  const std::vector<Task>& tasks_;
  const SearchRules& rules_;
  const Constraints& constraints_;
  const MeasureBlock& measure_;
  const TimeLeft& time_left_;
  std::mt19937_64 random_;
  std::vector<Cost> cost_;           // by task
  double reserve_ = 0;               // seconds kept for the repetition
  double stop_at_ = 0;               // the time left at which the present race ends
  std::optional<Setting> standard_;  // what the default does in the cell of the present race, where NCCL says so
  SearchResult result_;
};

}  // namespace

SearchResult search(const std::vector<Task>& tasks, const SearchRules& rules, const Constraints& constraints,
                    const MeasureBlock& measure, const TimeLeft& time_left, std::vector<Failure> failures) {
  return Searcher(tasks, rules, constraints, measure, time_left, std::move(failures)).run();
}

void supersede(SearchResult& result, SearchResult later) {
  for (Record& record : later.records) {
    const auto at = std::ranges::find(result.records, record.cell, &Record::cell);
    Record& earlier = *at;
    record.samples_before = earlier.samples_before;
    for (const Block& block : earlier.blocks)
      record.samples_before +=
          static_cast<int>(std::ranges::count(block.trials, Trial::Outcome::measured, &Trial::outcome));
    earlier = std::move(record);
  }
  result.failures = std::move(later.failures);
  result.samples += later.samples;
}

}  // namespace p5::tuner
