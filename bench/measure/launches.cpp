#include "bench/measure/launches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <random>
#include <utility>

#include "bench/base/names.hpp"

namespace p5 {

namespace {

// The value that most launches have; of those that are as frequent the first.
template <class Value>
Value most_frequent(const std::vector<Value>& values) {
  return *std::ranges::max_element(values, {}, [&](const Value& value) { return std::ranges::count(values, value); });
}

std::optional<Series> together(const std::vector<const Series*>& launches) {
  if (launches.empty()) return std::nullopt;
  Series all = *launches.front();
  if (launches.size() == 1) return all;
  std::vector<double> medians{all.summary.median};
  for (std::size_t i = 1; i < launches.size(); ++i) {
    all.samples.insert(all.samples.end(), launches[i]->samples.begin(), launches[i]->samples.end());
    all.operations_per_sample = std::min(all.operations_per_sample, launches[i]->operations_per_sample);
    medians.push_back(launches[i]->summary.median);
  }
  all.summary = summarize(all.samples);
  all.summary.median = median(medians);
  all.summary.interval = median_interval(medians);
  all.stopped_because = fmt::format("{} launches", launches.size());
  return all;
}

std::vector<GroupResult> groups_of(const std::vector<const Measurement*>& launches) {
  std::map<Group, std::vector<double>> medians;
  std::vector<Group> order;
  for (const Measurement* m : launches)
    for (const GroupResult& each : m->groups) {
      auto& all = medians[each.group];
      if (all.empty()) order.push_back(each.group);
      all.push_back(each.median.count);
    }
  std::vector<GroupResult> groups;
  for (const Group& group : order) groups.push_back({group, {median(medians[group])}});
  return groups;
}

// Fisher and Yates, so that the order depends on the random numbers alone.
template <class Value>
void shuffle(std::vector<Value>& values, std::mt19937_64& random) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}

void take_failures(const std::vector<Measurement>& launches, int planned, Measurement& whole) {
  const Measurement* first = nullptr;
  std::vector<std::string> numbers;
  for (const Measurement& m : launches) {
    if (m.outcome != Outcome::failed) continue;
    if (!first) first = &m;
    numbers.push_back(std::to_string(m.launch.value_or(0) + 1));
  }
  if (!first) return;
  whole.outcome = Outcome::failed;
  whole.failed_in = first->failed_in;
  whole.failed_rank = first->failed_rank;
  whole.last_words = first->last_words;
  whole.because = fmt::format("in {} {} of {}: {}", numbers.size() == 1 ? "launch" : "launches", join(numbers, ", "),
                              planned, first->because);
}

}  // namespace

std::vector<Turn> turns_of(std::size_t arms, int launches) {
  std::vector<Turn> turns;
  for (int launch = 0; launch < launches; ++launch)
    for (std::size_t i = 0; i < arms; ++i) turns.push_back({launch % 2 == 0 ? i : arms - 1 - i, launch});
  return turns;
}

std::vector<Sitting> sittings_of(const std::vector<Case>& cases, int ranks, std::uint64_t seed, int launch) {
  std::vector<Sitting> sittings;
  std::map<Round, std::size_t> of_communicators;
  for (std::size_t at = 0; at < cases.size(); ++at)
    for (std::size_t round = 0; round < cases[at].rounds->size(); ++round) {
      Round groups = communicators_of((*cases[at].rounds)[round], ranks);
      const auto [place, first] = groups.empty() ? std::pair(of_communicators.end(), true)
                                                 : of_communicators.try_emplace(groups, sittings.size());
      if (first) sittings.push_back({std::move(groups), {}});
      sittings[place == of_communicators.end() ? sittings.size() - 1 : place->second].visits.push_back(
          {at, static_cast<int>(round)});
    }
  std::seed_seq mixed{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(launch)};
  std::mt19937_64 random(mixed);
  shuffle(sittings, random);
  for (Sitting& sitting : sittings) shuffle(sitting.visits, random);
  return sittings;
}

bool gives_way(const std::vector<PricedVisit>& visits, std::size_t next, std::vector<bool> visited, Seconds spent,
               Seconds left) {
  if (!visited[visits[next].at]) return false;
  double done = 0, first_rounds = 0;
  for (std::size_t i = 0; i < next; ++i) done += visits[i].cost;
  for (std::size_t i = next; i < visits.size(); ++i) {
    if (!visited[visits[i].at]) first_rounds += visits[i].cost;
    visited[visits[i].at] = true;
  }
  return done > 0 && left.count < spent.count / done * first_rounds;
}

Seconds share_of_launch(Seconds left, Seconds start, Seconds least, int others) {
  const double each = start.count + least.count;
  const double fitting = each > 0 ? std::floor((left.count - least.count) / each) : others;
  const double counted = std::clamp(fitting, 0.0, static_cast<double>(others));
  return {(left.count - counted * start.count) / (counted + 1)};
}

Measurement combine(const std::vector<Measurement>& launches, int planned) {
  assert(!launches.empty());
  Measurement whole = launches.front();
  whole.launch.reset();
  if (planned == 1) return whole;
  std::vector<const Measurement*> measured;
  std::vector<const Series*> latencies, throughputs;
  whole = {};
  whole.measured_case = launches.front().measured_case;
  for (const Measurement& m : launches) {
    whole.wall_s += m.wall_s;
    whole.measured_case.pairs_sampled |= m.measured_case.pairs_sampled;
    if (m.outcome != Outcome::measured) continue;
    measured.push_back(&m);
    whole.wrong_elements += m.wrong_elements;
    if (!whole.first_wrong) whole.first_wrong = m.first_wrong;
    if (!whole.selection) whole.selection = m.selection;
    if (m.latency) latencies.push_back(&*m.latency);
    if (m.throughput) throughputs.push_back(&*m.throughput);
  }
  for (const Series* each : latencies) whole.latency_launches_s.push_back(each->summary.median);
  for (const Series* each : throughputs) whole.launches_s.push_back(each->summary.median);
  whole.latency = together(latencies);
  whole.throughput = together(throughputs);
  whole.groups = groups_of(measured);
  if (measured.empty()) {
    whole.outcome = Outcome::skipped;
    whole.because = launches.front().because;
  } else {
    std::vector<Group> groups;
    std::vector<std::optional<int>> ranks;
    for (const Measurement* m : measured) groups.push_back(m->slowest_group), ranks.push_back(m->slowest_rank);
    whole.slowest_group = most_frequent(groups);
    whole.slowest_rank = most_frequent(ranks);
  }
  take_failures(launches, planned, whole);
  return whole;
}

}  // namespace p5
