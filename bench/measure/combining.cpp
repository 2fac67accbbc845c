#include "bench/measure/combining.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <ranges>
#include <utility>

#include "bench/base/names.hpp"

namespace p5 {

void CombinedLaunches::Medians::add(double value) {
  in_order.push_back(value);
  sorted.insert(std::ranges::upper_bound(sorted, value), value);
}

void CombinedLaunches::Quantity::add(const Series& series) {
  operations_per_sample =
      first ? std::min(operations_per_sample, series.operations_per_sample) : series.operations_per_sample;
  if (!first) first = series;
  medians.add(series.summary.median);
  for (const double sample : series.samples) samples.add(sample);
}

std::optional<Series> CombinedLaunches::Quantity::together() {
  if (!first || medians.in_order.size() == 1) return first;
  Series all;
  all.operations_per_sample = operations_per_sample;
  all.summary = samples.extremes();
  all.summary.median = median_of_sorted(medians.sorted);
  all.summary.interval = median_interval_of_sorted(medians.sorted);
  all.stopped_because = fmt::format("{} launches", medians.in_order.size());
  return all;
}

template <class Value>
void CombinedLaunches::MostFrequent<Value>::add(const Value& value) {
  if (++counts[value] == 1) in_order.push_back(value);
}

template <class Value>
Value CombinedLaunches::MostFrequent<Value>::get() const {
  return *std::ranges::max_element(in_order, {}, [&](const Value& value) { return counts.at(value); });
}

// They come in the same order in each launch, or nearly so.
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
    std::vector<float>& samples = samples_of_groups_[at];
    const std::size_t room = most_of_a_group - std::min(most_of_a_group, samples.size());
    std::ranges::copy(groups[i].samples | std::views::take(room), std::back_inserter(samples));
  }
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
    failed_.push_back(std::to_string(m.launch.value_or(0) + 1));
  }
  for (const auto& [mine, its] :
       {std::pair(&all_.silent_groups, &m.silent_groups), std::pair(&all_.finished_groups, &m.finished_groups),
        std::pair(&all_.wrong_groups, &m.wrong_groups)})
    mine->insert(mine->end(), its->begin(), its->end());
  if (m.outcome != Outcome::measured) return;
  ++measured_;
  all_.wrong_elements += m.wrong_elements;
  if (!all_.first_wrong) all_.first_wrong = m.first_wrong;
  if (!all_.selection) all_.selection = m.selection;
  LaunchMedians& medians = medians_.emplace_back();
  medians.launch = m.launch.value_or(0);
  if (m.latency) {
    latency_.add(*m.latency);
    medians.latency = m.latency->summary.median;
  }
  if (m.throughput) {
    throughput_.add(*m.throughput);
    medians.throughput = m.throughput->summary.median;
  }
  add_groups(m.groups);
  slowest_group_.add(m.slowest_group);
  slowest_rank_.add(m.slowest_rank);
}

Measurement CombinedLaunches::whole(int planned) {
  assert(count_ > 0);
  if (planned == 1) {
    Measurement one = first_;
    one.launch.reset();
    return one;
  }
  Measurement whole = all_;
  whole.latency_launches_s = latency_.medians.in_order;
  whole.launches_s = throughput_.medians.in_order;
  whole.latency = latency_.together();
  whole.throughput = throughput_.together();
  for (std::size_t i = 0; i < groups_.size(); ++i)
    whole.groups.push_back({groups_[i], {medians_of_groups_[i].median()}, samples_of_groups_[i]});
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
  whole.because = fmt::format("in {} {} of {}: {}", failed_.size() == 1 ? "launch" : "launches", join(failed_, ", "),
                              planned, first_failed_->because);
  return whole;
}

}  // namespace p5
