#include "bench/measure/launches.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <utility>

namespace p5 {

namespace {

// Fisher and Yates, so that the order depends on the random numbers alone.
template <class Value>
void shuffle(std::vector<Value>& values, std::mt19937_64& random) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}

}  // namespace

std::vector<Turn> turns_of(std::size_t arms, int launches) {
  std::vector<Turn> turns;
  for (int launch = 0; launch < launches; ++launch)
    for (std::size_t i = 0; i < arms; ++i) turns.push_back({launch % 2 == 0 ? i : arms - 1 - i, launch});
  return turns;
}

std::vector<CommunicatorBatch> batches_of(const std::vector<Case>& cases, int ranks, std::uint64_t seed, int launch) {
  std::vector<CommunicatorBatch> batches;
  std::map<Round, std::size_t> of_communicators;
  for (std::size_t at = 0; at < cases.size(); ++at)
    for (std::size_t round = 0; round < cases[at].rounds->size(); ++round) {
      Round groups = communicators_of((*cases[at].rounds)[round], ranks);
      const auto [place, first] = groups.empty() ? std::pair(of_communicators.end(), true)
                                                 : of_communicators.try_emplace(groups, batches.size());
      if (first) batches.push_back({std::move(groups), {}});
      batches[place == of_communicators.end() ? batches.size() - 1 : place->second].repetitions.push_back(
          {at, static_cast<int>(round)});
    }
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
  for (std::size_t i = 0; i < next; ++i) done += repetitions[i].cost;
  for (std::size_t i = next; i < repetitions.size(); ++i) {
    if (!repeated[repetitions[i].at]) first_rounds += repetitions[i].cost;
    repeated[repetitions[i].at] = true;
  }
  return done > 0 && left.count < spent.count / done * first_rounds;
}

Seconds share_of_launch(Seconds left, Seconds start, Seconds least, int others) {
  const double each = start.count + least.count;
  const double fitting = each > 0 ? std::floor((left.count - least.count) / each) : others;
  const double counted = std::clamp(fitting, 0.0, static_cast<double>(others));
  return {(left.count - counted * start.count) / (counted + 1)};
}

}  // namespace p5
