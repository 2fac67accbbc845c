#include "bench/measure/concurrent.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>

#include <fmt/format.h>

#include "bench/model/progress.hpp"

namespace p5 {

namespace {

constexpr int samples_of_trial = 3;
// Limits the launches that wait on a device, and the time of a trial where one operation is very short.
constexpr int most_operations = 1000;
// Time for which the other operations run, in multiples of the timed operation's time alone: at first, and at most.
constexpr int first_cover = 2, most_cover = 8;
// Fewest operations of a work that end while all run; where fewer end, it waits for the others
// (ConcurrentOperation::covered).
constexpr int least_beside = 2;

std::vector<bool> operations_only(std::size_t works, std::initializer_list<std::size_t> which) {
  std::vector<bool> runs(works, false);
  for (const std::size_t each : which) runs[each] = true;
  return runs;
}

}  // namespace

bool ConcurrentSampling::Combination::needs_cover() const {
  return wanted == Wanted::one && std::ranges::count(runs, true) > 1;
}

bool ConcurrentSampling::Combination::is_covered(std::size_t rank) const {
  const std::vector<RankTime>& times = of_rank.at(rank);
  return !times.empty() && 2 * std::ranges::count(times, true, &RankTime::others_ran) >= std::ssize(times);
}

double ConcurrentSampling::Combination::median_of(std::size_t rank) const {
  const auto covers = [&](std::size_t each) { return is_covered(each); };
  const auto ranks = std::views::iota(std::size_t{0}, of_rank.size());
  const bool any = std::ranges::none_of(ranks, covers);
  std::vector<double> seconds;
  for (const RankTime& time : of_rank.at(rank))
    if (any || (time.others_ran && covers(rank))) seconds.push_back(time.seconds);
  return seconds.empty() ? std::numeric_limits<double>::quiet_NaN() : median(std::move(seconds));
}

ConcurrentSampling::ConcurrentSampling(const Case& c, Seconds burst, StoppingRule rule, Seconds share, Seconds limit,
                                       Detail detail)
    : detail_(detail), burst_(burst), rule_(rule), share_(share), limit_(limit) {
  Case own = c;
  own.beside.clear();
  names_.push_back(operation_of(own));
  for (const Work& work : c.beside) names_.push_back(name_of(work));
  const std::size_t works = names_.size();
  const std::vector<bool> every(works, true);
  for (std::size_t i = 0; i < works; ++i) combinations_.push_back({.timed = i, .runs = operations_only(works, {i})});
  if (detail == Detail::ranks) {
    for (std::size_t i = 0; i < works; ++i) combinations_.push_back({.timed = i, .runs = every});
  } else {
    for (std::size_t i = 0; i < works && works > 2; ++i)
      for (std::size_t other = i + 1; other < works; ++other)
        combinations_.push_back({.wanted = Wanted::each, .runs = operations_only(works, {i, other})});
    headline_ = combinations_.size();
    combinations_.push_back({.wanted = Wanted::each, .runs = every});
  }
  combinations_.push_back({.wanted = Wanted::end, .runs = every});
  for (Combination& each : combinations_) each.samples.resize(each.wanted == Wanted::each ? works : 1);
}

ConcurrentRequest ConcurrentSampling::first() const { return request(); }

ConcurrentRequest ConcurrentSampling::request_of(const Combination& which, int samples) const {
  return {.operations = which.operations, .samples = samples, .steady = which.wanted == Wanted::each};
}

ConcurrentRequest ConcurrentSampling::request() const {
  switch (stage_) {
    case Stage::trial: {
      std::vector<int> one(names_.size(), 0);
      one[at_] = 1;
      return {.operations = one, .samples = samples_of_trial};
    }
    case Stage::cover:
      return request_of(combinations_[at_], 1);
    case Stage::sampling:
      return request_of(combinations_[at_], batch_);
    case Stage::last:
      return {.operations = combinations_.back().operations, .samples = 1, .poison_last = true};
    case Stage::done:
      break;
  }
  return {};
}

std::vector<std::vector<double>> ConcurrentSampling::ends_of(const std::vector<ConcurrentTimes>& parts,
                                                             std::size_t works) {
  std::vector<std::vector<double>> ends;
  for (const ConcurrentTimes& part : parts) {
    for (const std::vector<std::vector<double>>& samples : part) {
      ends.resize(samples.size(), std::vector<double>(works, 0));
      for (std::size_t s = 0; s < samples.size(); ++s)
        for (std::size_t w = 0; w < works; ++w)
          if (!std::isnan(samples[s].at(w))) ends[s][w] = std::max(ends[s][w], samples[s][w]);
    }
  }
  return ends;
}

void ConcurrentSampling::take(Combination& to, const std::vector<std::vector<double>>& ends) const {
  for (const std::vector<double>& end : ends) {
    if (to.wanted == Wanted::each)
      for (std::size_t w = 0; w < end.size(); ++w) to.samples[w].push_back(end[w]);
    else
      to.samples.front().push_back(to.wanted == Wanted::end ? *std::ranges::max_element(end)
                                                            : end[to.timed] / to.operations[to.timed]);
  }
}

void ConcurrentSampling::take_ranks(Combination& to, const std::vector<ConcurrentTimes>& parts) {
  std::size_t rank = 0;
  for (const ConcurrentTimes& part : parts)
    for (const std::vector<std::vector<double>>& samples : part) {
      to.of_rank.resize(std::max(to.of_rank.size(), rank + 1));
      for (const std::vector<double>& ends : samples) {
        if (std::isnan(ends[to.timed])) continue;
        const bool others_ran = std::ranges::none_of(ends, [&](double end) { return end < ends[to.timed]; });
        to.of_rank[rank].push_back({ends[to.timed] / to.operations[to.timed], others_ran});
      }
      ++rank;
    }
}

std::vector<int> operations_of_equal_time(const std::vector<double>& one_s, Seconds burst) {
  const double wanted = std::max(burst.count, least_operations_beside * *std::ranges::max_element(one_s));
  std::vector<int> operations;
  for (const double one : one_s)
    operations.push_back(static_cast<int>(
        std::clamp(std::round(wanted / std::max(one, 1e-9)), 1.0, static_cast<double>(most_operations))));
  return operations;
}

void ConcurrentSampling::fit_operations() {
  fitted_ = operations_of_equal_time(one_, burst_);
  // A guess at the longest sample, until some are taken: the operations of all works, one after the other.
  for (std::size_t w = 0; w < names_.size(); ++w) longest_s_ += steady_bursts * fitted_[w] * one_[w];
  for (Combination& each : combinations_) {
    each.operations.assign(names_.size(), 0);
    for (std::size_t w = 0; w < names_.size(); ++w)
      if (each.runs[w])
        each.operations[w] = fitted_[w] * (each.wanted == Wanted::each             ? steady_bursts
                                           : each.needs_cover() && w != each.timed ? first_cover
                                                                                   : 1);
  }
}

std::vector<std::vector<double>> ConcurrentSampling::ends_to_cover(const std::vector<ConcurrentTimes>& parts) {
  std::vector<std::vector<double>> of_ranks;
  for (const ConcurrentTimes& part : parts)
    for (const std::vector<std::vector<double>>& samples : part) of_ranks.push_back(samples.front());
  return of_ranks;
}

// Doubles the number of those other operations that ended before the timed one. False if none may be doubled: at most
// `most_cover`, and no sample may take more than half of the case's share of the wall time, since samples of ranks that
// were not busy throughout are left out anyway.
bool ConcurrentSampling::lengthen_others(Combination& of, const std::vector<std::vector<double>>& of_ranks) const {
  bool any = false;
  for (std::size_t w = 0; w < names_.size(); ++w) {
    if (w == of.timed || !of.runs[w] || of.operations[w] >= most_cover * fitted_[w]) continue;
    double last = 0;
    bool covers = true;
    for (const std::vector<double>& ends : of_ranks) {
      if (!std::isnan(ends[w])) last = std::max(last, ends[w]);
      if (ends[w] < ends[of.timed]) covers = false;
    }
    if (covers || 2 * last > share_.count / 2) continue;
    of.operations[w] *= 2;
    any = true;
  }
  return any;
}

// The next samples of all combinations. False if there are enough, or no time is left. The rule is asked after each
// batch, which takes several turns where a request might exceed its limit.
bool ConcurrentSampling::begin_turn(Seconds spent) {
  const int taken = static_cast<int>(combinations_.front().samples.front().size());
  due_ -= batch_;
  if (taken == 0)
    sampling_began_ = spent.count;
  else if (due_ == 0 &&
           std::ranges::all_of(combinations_.begin(), combinations_.begin() + static_cast<std::ptrdiff_t>(sampled()),
                               [&](const Combination& each) { return has_converged(each); })) {
    stopped_ = fmt::format("interval within {:g} %", rule_.relative * 100);
    return false;
  }
  if (due_ == 0) due_ = next_batch(rule_, taken);
  if (due_ == 0) {
    stopped_ = fmt::format("{} samples", rule_.most);
    return false;
  }
  if (taken >= rule_.least) {
    const double each = (spent.count - sampling_began_) / taken;
    const double fitting = std::floor((share_.count - spent.count) / std::max(each, 1e-9));
    if (fitting < 1) stopped_ = "share of the budget spent";
    due_ = static_cast<int>(std::clamp(fitting, 0.0, static_cast<double>(due_)));
  }
  batch_ = std::min(due_, most_samples_within(limit_, longest_s_));
  return batch_ > 0;
}

ConcurrentRequest ConcurrentSampling::next(const std::vector<ConcurrentTimes>& parts, Seconds spent) {
  const std::vector<std::vector<double>> ends = ends_of(parts, names_.size());
  took_headline_ = stage_ == Stage::sampling && at_ == headline_;
  if (stage_ == Stage::sampling) longest_s_ = std::max(longest_s_, (spent.count - request_began_) / batch_);
  request_began_ = spent.count;
  if (stage_ == Stage::trial) {
    double one = std::numeric_limits<double>::infinity();
    for (const std::vector<double>& end : ends) one = std::min(one, end[at_]);
    one_.push_back(one);
    if (++at_ < names_.size()) return request();
    fit_operations();
    stage_ = Stage::cover;
    at_ = 0;
  } else if (stage_ == Stage::cover) {
    if (!lengthen_others(combinations_[at_], ends_to_cover(parts))) ++at_;
  } else if (stage_ == Stage::sampling) {
    if (detail_ == Detail::ranks) take_ranks(combinations_[at_], parts);
    take(combinations_[at_++], ends);
  } else {
    take(combinations_.back(), ends);
    stage_ = Stage::done;
  }
  if (stage_ == Stage::cover) {
    while (at_ < combinations_.size() && !combinations_[at_].needs_cover()) ++at_;
    if (at_ == combinations_.size()) stage_ = Stage::sampling;
  }
  if (stage_ == Stage::sampling && at_ >= sampled()) {
    at_ = 0;
    if (!begin_turn(spent)) stage_ = Stage::last;
  }
  return request();
}

bool ConcurrentSampling::has_converged(const Combination& of) const {
  for (std::size_t series = 0; series < of.samples.size(); ++series)
    if ((of.wanted != Wanted::each || of.runs[series]) && !interval_converged(rule_, of.samples[series])) return false;
  return true;
}

Series ConcurrentSampling::series_of(const Combination& of, std::size_t operation) const {
  const std::vector<double>& samples = of.samples[of.wanted == Wanted::each ? operation : 0];
  return {.operations_per_sample = of.wanted == Wanted::end    ? 1
                                   : of.wanted == Wanted::each ? of.operations[operation]
                                                               : of.operations[of.timed],
          .samples = samples,
          .summary = summarize(samples),
          .stopped_because = stopped_};
}

const ConcurrentSampling::Combination& ConcurrentSampling::find(Wanted wanted, std::size_t timed,
                                                                const std::vector<bool>& runs) const {
  return *std::ranges::find_if(combinations_, [&](const Combination& each) {
    return each.wanted == wanted && each.timed == timed && each.runs == runs;
  });
}

std::vector<ConcurrentSampling::OfRank> ConcurrentSampling::of_ranks(std::size_t operation) const {
  const std::size_t works = names_.size();
  const Combination &alone = find(Wanted::one, operation, operations_only(works, {operation})),
                    &beside = find(Wanted::one, operation, std::vector<bool>(works, true));
  std::vector<OfRank> of_ranks;
  for (std::size_t rank = 0; rank < std::min(alone.of_rank.size(), beside.of_rank.size()); ++rank)
    of_ranks.push_back({alone.median_of(rank), beside.median_of(rank)});
  return of_ranks;
}

Concurrency ConcurrentSampling::result() const {
  const std::size_t works = names_.size();
  Concurrency result{.operations = {}, .together = series_of(combinations_.back())};
  for (std::size_t i = 0; i < works; ++i) {
    ConcurrentOperation& its = result.operations.emplace_back();
    its.name = names_[i];
    its.alone = series_of(find(Wanted::one, i, operations_only(works, {i})));
    its.beside = series_of(combinations_[headline_], i);
    its.operations = fitted_[i];
    // All ran for at least the part of this time that counts, as nothing is faster beside others.
    const double all_ran = (1 - left_out_of_steady) * its.alone.summary.median * its.beside.operations_per_sample;
    its.covered = least_beside * its.beside.summary.median <= all_ran;
    for (std::size_t other = 0; other < works && works > 2; ++other)
      if (other != i)
        its.beside_each.push_back(
            {names_[other], series_of(find(Wanted::each, 0, operations_only(works, {i, other})), i)});
  }
  return result;
}

}  // namespace p5
