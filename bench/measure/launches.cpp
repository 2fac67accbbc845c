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

}  // namespace p5
