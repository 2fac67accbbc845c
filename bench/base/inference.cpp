#include "bench/base/inference.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <numeric>

namespace p5 {

namespace {

struct Ranks {
  std::vector<unsigned> doubled;  // twice the mean rank, so whole; those of the first sample first
  bool tied = false;
  double tie_term = 0;  // sum of t^3 - t over the groups of ties
};

Ranks rank(std::span<const double> a, std::span<const double> b) {
  std::vector<double> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return all[i]; });
  Ranks ranks;
  ranks.doubled.resize(all.size());
  for (std::size_t from = 0, to = 0; from < order.size(); from = to) {
    while (to < order.size() && all[order[to]] == all[order[from]]) ++to;
    for (std::size_t i = from; i < to; ++i) ranks.doubled[order[i]] = static_cast<unsigned>(from + to + 1);
    const auto ties = static_cast<double>(to - from);
    ranks.tied = ranks.tied || to - from > 1;
    ranks.tie_term += ties * ties * ties - ties;
  }
  return ranks;
}

// How many of the ways to choose `chosen` of the doubled ranks have which sum. Doubles, because counts exceed 2^64; the
// rounding is far below any p that matters.
std::vector<double> sums_of_choices(std::span<const unsigned> doubled, std::size_t chosen) {
  const unsigned total = std::accumulate(doubled.begin(), doubled.end(), 0u);
  std::vector<std::vector<double>> ways(chosen + 1, std::vector<double>(total + 1));
  ways[0][0] = 1;
  unsigned reached = 0;
  std::size_t taken = 0;
  for (const unsigned rank : doubled) {
    reached += rank;
    taken = std::min(taken + 1, chosen);
    for (std::size_t k = taken; k > 0; --k)
      for (unsigned sum = reached; sum >= rank; --sum) ways[k][sum] += ways[k - 1][sum - rank];
  }
  return ways[chosen];
}

// The share of the choices whose sum fulfils `counts`.
template <class Predicate>
double share_of(const std::vector<double>& ways, const Predicate& counts) {
  double all = 0, those = 0;
  for (std::size_t sum = 0; sum < ways.size(); ++sum) {
    all += ways[sum];
    if (counts(static_cast<double>(sum))) those += ways[sum];
  }
  return those / all;
}

std::vector<std::size_t> ascending(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p[i]; });
  return order;
}

}  // namespace

RankTest::Position RankTest::position(std::span<const double> a, std::span<const double> b) {
  assert(!a.empty() && !b.empty());
  const Ranks ranks = rank(b, a);
  const auto end_of_b = ranks.doubled.begin() + static_cast<std::ptrdiff_t>(b.size());
  const auto n = static_cast<double>(a.size() + b.size());
  Position out;
  out.sum = std::accumulate(ranks.doubled.begin(), end_of_b, 0u);
  out.expected = static_cast<double>(b.size()) * (n + 1);
  if (a.size() + b.size() > exact_up_to) {
    const double product = static_cast<double>(a.size()) * static_cast<double>(b.size());
    out.deviation = 2 * std::sqrt(product / 12 * (n + 1 - ranks.tie_term / (n * (n - 1))));
  } else if (ranks.tied) {
    out.ways = sums_of_choices(ranks.doubled, b.size());
  } else {
    Table& table = untied_[{a.size(), b.size()}];
    if (table.empty()) table = sums_of_choices(ranks.doubled, b.size());
    out.ways = table;
  }
  return out;
}

double RankTest::above(std::span<const double> a, std::span<const double> b) {
  const Position at = position(a, b);
  if (!at.ways.empty()) return share_of(at.ways, [&](double sum) { return sum >= at.sum; });
  return at.deviation > 0 ? normal_below((at.expected - at.sum + 1) / at.deviation) : 1;
}

double RankTest::apart(std::span<const double> a, std::span<const double> b) {
  const Position at = position(a, b);
  const double distance = std::abs(at.sum - at.expected);
  if (!at.ways.empty()) return share_of(at.ways, [&](double sum) { return std::abs(sum - at.expected) >= distance; });
  return at.deviation > 0 ? std::min(1.0, 2 * normal_below((1 - distance) / at.deviation)) : 1;
}

double least_p(std::size_t a, std::size_t b) {
  double ways = 1;
  for (std::size_t i = 1; i <= a; ++i) ways *= static_cast<double>(b + i) / static_cast<double>(i);
  return 1 / ways;
}

std::vector<double> holm_adjusted(std::span<const double> p) {
  const std::vector<std::size_t> order = ascending(p);
  std::vector<double> adjusted(p.size());
  double largest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, p[order[i]] * static_cast<double>(order.size() - i));
    adjusted[order[i]] = std::min(1.0, largest);
  }
  return adjusted;
}

std::vector<double> false_discovery_adjusted(std::span<const double> p) {
  const std::vector<std::size_t> order = ascending(p);
  std::vector<double> adjusted(p.size());
  double smallest = 1;
  for (std::size_t i = order.size(); i > 0; --i) {
    smallest = std::min(smallest, p[order[i - 1]] * static_cast<double>(order.size()) / static_cast<double>(i));
    adjusted[order[i - 1]] = smallest;
  }
  return adjusted;
}

double normal_below(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

double student_beyond(double t, int degrees) {
  assert(degrees >= 1);
  const double angle = std::atan(std::abs(t) / std::sqrt(static_cast<double>(degrees)));
  const double cosine = std::cos(angle), square = cosine * cosine;
  const bool odd = degrees % 2 == 1;
  double term = odd ? cosine : 1, sum = degrees == 1 ? 0 : term;
  for (int k = odd ? 3 : 2; k <= degrees - 2; k += 2) {
    term *= square * static_cast<double>(k - 1) / k;
    sum += term;
  }
  const double within = odd ? 2 / std::numbers::pi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
  return std::clamp(1 - within, 0.0, 1.0);
}

double student_quantile(double chance, int degrees) {
  double low = 0, high = 1;
  while (student_beyond(high, degrees) > chance) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (student_beyond(middle, degrees) > chance ? low : high) = middle;
  }
  return high;
}

std::uint64_t Random::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace p5
