#include "bench/measure/launches.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace p5 {

std::vector<ArmLaunch> launch_order(std::size_t arms, int launches) {
  std::vector<ArmLaunch> turns;
  for (int launch = 0; launch < launches; ++launch)
    for (std::size_t i = 0; i < arms; ++i) turns.push_back({launch % 2 == 0 ? i : arms - 1 - i, launch});
  return turns;
}

std::vector<CommunicatorBatch> batches_of(const std::vector<Case>& cases, int ranks) {
  std::vector<CommunicatorBatch> batches;
  std::map<Round, std::size_t> of_communicators;
  for (std::size_t at = 0; at < cases.size(); ++at)
    for (int round = 0; std::cmp_less(round, cases[at].rounds->size()); ++round) {
      Round communicators = communicators_of(cases[at], round, ranks);
      std::size_t number = batches.size();
      if (!communicators.empty() && !cases[at].communicators)
        number = of_communicators.try_emplace(communicators, number).first->second;
      if (number == batches.size()) batches.push_back({std::move(communicators), {}});
      batches[number].repetitions.push_back({at, round});
    }
  return batches;
}

std::vector<CommunicatorBatch> shuffled(std::vector<CommunicatorBatch> batches, std::uint64_t seed, int launch) {
  std::seed_seq mixed{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(launch)};
  std::mt19937_64 random(mixed);
  shuffle(batches, random);
  for (CommunicatorBatch& batch : batches) shuffle(batch.repetitions, random);
  return batches;
}

bool is_deferred(const std::vector<CostedRepetition>& repetitions, std::size_t next, std::vector<bool> repeated,
                 Seconds spent, Seconds left) {
  if (!repeated[repetitions[next].at]) return false;
  double done = 0, first_rounds = 0;
  for (std::size_t i = 0; i < next; ++i) done += repetitions[i].ran ? repetitions[i].cost : 0;
  for (std::size_t i = next; i < repetitions.size(); ++i) {
    if (!repeated[repetitions[i].at]) first_rounds += repetitions[i].cost;
    repeated[repetitions[i].at] = true;
  }
  return done > 0 && left.count < spent.count / done * first_rounds;
}

Seconds launch_budget(Seconds left, Seconds start, Seconds least, int others) {
  const double each = start.count + least.count;
  const double fitting = each > 0 ? std::floor((left.count - least.count) / each) : others;
  const double counted = std::clamp(fitting, 0.0, static_cast<double>(others));
  return {(left.count - counted * start.count) / (counted + 1)};
}

void CombinedLaunches::Quantity::add(const Series& series) {
  operations_per_sample =
      first ? std::min(operations_per_sample, series.operations_per_sample) : series.operations_per_sample;
  if (!first) first = series;
  medians.insert(std::ranges::upper_bound(medians, series.summary.median), series.summary.median);
  for (const double sample : series.samples) samples.add(sample);
}

std::optional<Series> CombinedLaunches::Quantity::combined() {
  if (!first || medians.size() == 1) return first;
  Series all;
  all.operations_per_sample = operations_per_sample;
  all.summary = samples.count() > 0 ? samples.extremes() : first->summary;  // kept results may lack samples
  all.summary.min = std::min(all.summary.min, medians.front());
  all.summary.max = std::max(all.summary.max, medians.back());
  all.summary.median = median_of_sorted(medians);
  all.summary.interval = median_interval_of_sorted(medians);
  all.stopped_because = fmt::format("{} launches", medians.size());
  return all;
}

void CombinedLaunches::EverySoMany::add(float sample) {
  if (seen++ % step != 0) return;
  if (kept.size() == most_of_a_group) {
    for (std::size_t i = 0; 2 * i < kept.size(); ++i) kept[i] = kept[2 * i];
    kept.resize(most_of_a_group / 2);
    step *= 2;
  }
  kept.push_back(sample);
}

// Groups usually have the same order in each launch.
void CombinedLaunches::add_groups(const std::vector<GroupResult>& groups) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Group& group = groups[i].group;
    std::size_t at = i;
    if (at >= groups_.size() || groups_[at] != group) {
      const auto [place, fresh] = place_of_group_.try_emplace(group, groups_.size());
      at = place->second;
      if (fresh) {
        groups_.push_back(group);
        medians_of_groups_.emplace_back(most_of_a_group);
        samples_of_groups_.emplace_back();
      }
    }
    medians_of_groups_[at].add(groups[i].median.count);
    for (const float sample : groups[i].samples) samples_of_groups_[at].add(sample);
  }
}

// Each launch has the same operations.
void CombinedLaunches::add_concurrency(const Concurrency& concurrency) {
  if (!first_concurrency_) {
    first_concurrency_ = concurrency;
  } else {
    for (std::size_t i = 0; i < concurrency.operations.size(); ++i)
      first_concurrency_->operations[i].covered &= concurrency.operations[i].covered;
  }
  std::size_t next = 0;
  for_each_series(concurrency, [&](const Series& series) {
    if (next == concurrent_series_.size()) concurrent_series_.emplace_back();
    concurrent_series_[next++].add(series);
  });
}

std::optional<Concurrency> CombinedLaunches::combined_concurrency() {
  std::optional<Concurrency> all = first_concurrency_;
  std::size_t next = 0;
  if (all) for_each_series(*all, [&](Series& series) { series = *concurrent_series_[next++].combined(); });
  return all;
}

void CombinedLaunches::add(const Measurement& m) {
  if (count_++ == 0) {
    first_ = m;
    all_.measured_case = m.measured_case;
  }
  all_.wall_s += m.wall_s;
  all_.measured_case.pairs_sampled |= m.measured_case.pairs_sampled;
  if (m.outcome == Outcome::failed) {
    if (!first_failed_) first_failed_ = m;
    failed_.insert(m.launch.value_or(0) + 1);
  }
  for (const auto& [mine, its] :
       {std::pair(&all_.silent_groups, &m.silent_groups), std::pair(&all_.finished_groups, &m.finished_groups),
        std::pair(&all_.wrong_groups, &m.wrong_groups)})
    mine->insert(mine->end(), its->begin(), its->end());
  all_.wrong_elements += m.wrong_elements;
  if (!all_.first_wrong) all_.first_wrong = m.first_wrong;
  if (m.outcome != Outcome::measured) return;
  ++measured_;
  if (!all_.selection) all_.selection = m.selection;
  const int launch = m.launch.value_or(0);
  const auto place = std::ranges::upper_bound(medians_, launch, {}, &LaunchMedians::launch);
  LaunchMedians& medians = *medians_.insert(place, {launch, {}, {}});
  if (m.latency) {
    latency_.add(*m.latency);
    medians.latency = m.latency->summary.median;
  }
  if (m.throughput) {
    throughput_.add(*m.throughput);
    medians.throughput = m.throughput->summary.median;
  }
  if (m.concurrency) add_concurrency(*m.concurrency);
  add_groups(m.groups);
  for (const RootResult& each : m.roots) medians_of_roots_[each.root].push_back(each.median.count);
  if (m.host_s) host_times_.push_back(*m.host_s);
  for (const auto& [name, value] : m.communicator_costs) communicator_costs_[name].push_back(value);
  slowest_group_.add(m.slowest_group);
  slowest_rank_.add(m.slowest_rank);
}

Measurement CombinedLaunches::combined(int planned) {
  assert(count_ > 0);
  if (planned == 1) {
    Measurement one = first_;
    one.launch.reset();
    return one;
  }
  Measurement whole = all_;
  for (const LaunchMedians& each : medians_) {
    if (each.latency) whole.latency_launches_s.push_back(*each.latency);
    if (each.throughput) whole.launches_s.push_back(*each.throughput);
  }
  whole.latency = latency_.combined();
  whole.throughput = throughput_.combined();
  whole.concurrency = combined_concurrency();
  for (std::size_t i = 0; i < groups_.size(); ++i)
    whole.groups.push_back({groups_[i], {medians_of_groups_[i].median()}, samples_of_groups_[i].kept});
  for (const auto& [root, medians] : medians_of_roots_) whole.roots.push_back({root, {median(medians)}});
  if (!host_times_.empty()) whole.host_s = median(host_times_);
  for (const auto& [name, values] : communicator_costs_) whole.communicator_costs[name] = median(values);
  if (measured_ == 0) {
    whole.outcome = Outcome::skipped;
    whole.because = first_.because;
  } else {
    whole.slowest_group = slowest_group_.get();
    whole.slowest_rank = slowest_rank_.get();
  }
  if (!first_failed_) return whole;
  whole.outcome = Outcome::failed;
  whole.failed_in = first_failed_->failed_in;
  whole.failed_rank = first_failed_->failed_rank;
  whole.failure_context = first_failed_->failure_context;
  whole.because = fmt::format("in {} {} of {}: {}", failed_.size() == 1 ? "launch" : "launches",
                              fmt::join(failed_, ", "), planned, first_failed_->because);
  return whole;
}

}  // namespace p5
