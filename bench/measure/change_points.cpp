#include "bench/measure/change_points.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "bench/base/statistics.hpp"

namespace p5 {

namespace {

// Indices [begin, end).
struct SeriesSegment {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

// Distances from the median in robust deviations, bounded to limit the weight of outliers.
std::vector<double> bounded_scores(std::span<const double> values) {
  constexpr double bound = 2;
  std::vector<double> scores(values.begin(), values.end());
  const double middle = median(scores), deviation = robust_deviation(scores);
  for (double& score : scores) {
    const double off = score - middle;
    // A deviation of 0 means that most values are the same: any other is far away.
    score = deviation > 0 ? std::clamp(off / deviation, -bound, bound) : bound * ((off > 0) - (off < 0));
  }
  return scores;
}

// Seeded intervals: lengths fall by the square root of two; those of one length overlap by at least half.
std::vector<SeriesSegment> seeded_intervals(std::size_t count) {
  std::vector<SeriesSegment> all;
  const auto whole = static_cast<double>(count);
  for (double parts = 1; whole / parts >= static_cast<double>(2 * least_level); parts *= std::sqrt(2.0)) {
    const double length = whole / parts;
    const auto number = static_cast<std::size_t>(2 * std::ceil(parts - 1e-9) - 1);
    const double step = number > 1 ? (whole - length) / static_cast<double>(number - 1) : 0;
    for (std::size_t i = 0; i < number; ++i) {
      const double begin = static_cast<double>(i) * step;
      const SeriesSegment each{static_cast<std::size_t>(begin + 1e-9),
                               std::min(count, static_cast<std::size_t>(std::ceil(begin + length - 1e-9)))};
      if (all.empty() || all.back().begin != each.begin || all.back().end != each.end) all.push_back(each);
    }
  }
  return all;
}

struct Split {
  double score = -std::numeric_limits<double>::infinity();
  std::size_t first = 0;
};

// Penalty for an interval's best split by the number of intervals as short, so that short ones do not dominate (Dumbgen
// and Spokoiny, Annals of Statistics 29, 2001).
std::vector<double> penalties_of(const std::vector<SeriesSegment>& intervals, std::size_t count) {
  std::vector<double> penalties;
  for (const SeriesSegment& in : intervals)
    penalties.push_back(std::sqrt(2 * std::log(static_cast<double>(count) / static_cast<double>(in.size()))));
  return penalties;
}

// The best split of permutations of one series of bounded scores; precomputes everything independent of the order.
class Splits {
 public:
  // Requires scores that are not all equal.
  explicit Splits(const std::vector<double>& scores)
      : intervals_(seeded_intervals(scores.size())),
        penalties_(penalties_of(intervals_, scores.size())),
        deviation_(std::sqrt(sum_of_squared_deviations(scores) / static_cast<double>(scores.size() - 1))),
        sums_(scores.size() + 1) {}

  // The split of all intervals with the largest difference of means, in standard deviations of that difference, less
  // the penalty.
  Split best(const std::vector<double>& scores) {
    std::partial_sum(scores.begin(), scores.end(), sums_.begin() + 1);
    Split best;
    for (std::size_t i = 0; i < intervals_.size(); ++i) {
      const SeriesSegment& in = intervals_[i];
      const double all = sums_[in.end] - sums_[in.begin];
      const auto count = static_cast<double>(in.size());
      double furthest = -1;  // squared, without a common factor
      std::size_t place = 0;
      for (std::size_t first = in.begin + least_level; first + least_level <= in.end; ++first) {
        const auto left = static_cast<double>(first - in.begin);
        const double off = (sums_[first] - sums_[in.begin]) - all * left / count;
        if (const double far = off * off * count / (left * (count - left)); far > furthest) {
          furthest = far;
          place = first;
        }
      }
      if (place == 0) continue;
      const double score = std::sqrt(furthest) / deviation_ - penalties_[i];
      if (score > best.score + tie) best = {score, place};
    }
    return best;
  }

  static constexpr double tie = 1e-9;  // scores within this are equal except for rounding

 private:
  std::vector<SeriesSegment> intervals_;
  std::vector<double> penalties_;
  double deviation_;
  std::vector<double> sums_;
};

// Permutations: this number divided by the chance. The observed order counts as one of those that may reach its score,
// so that three others may.
constexpr double permutations_for_one = 4;

struct StrongestSplit {
  std::size_t first = 0;
  double p = 1;
};

std::optional<StrongestSplit> test_series(std::span<const double> values, const ChangeRules& rules, Random& random) {
  if (!can_show_changes(values.size(), rules.chance)) return std::nullopt;
  std::vector<double> scores = bounded_scores(values);
  if (std::ranges::min(scores) == std::ranges::max(scores)) return std::nullopt;
  Splits splits(scores);
  const Split found = splits.best(scores);
  const auto rounds = static_cast<std::size_t>(std::ceil(permutations_for_one / rules.chance));
  const double most = rules.chance * static_cast<double>(rounds + 1) - 1;
  std::size_t as_good = 0;
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = scores.size() - 1; i > 0; --i) std::swap(scores[i], scores[random.below(i + 1)]);
    as_good += splits.best(scores).score >= found.score - Splits::tie;
    if (static_cast<double>(as_good) > most) return std::nullopt;
  }
  return StrongestSplit{found.first, static_cast<double>(as_good + 1) / static_cast<double>(rounds + 1)};
}

void search(std::span<const double> values, std::size_t offset, const ChangeRules& rules, Random& random,
            std::vector<StrongestSplit>& out) {
  const std::optional<StrongestSplit> found = test_series(values, rules, random);
  if (!found) return;
  search(values.first(found->first), offset, rules, random, out);
  out.push_back({offset + found->first, found->p});
  search(values.subspan(found->first), offset + found->first, rules, random, out);
}

double median_in(std::span<const double> values, SeriesSegment in) {
  return median(
      {values.begin() + static_cast<std::ptrdiff_t>(in.begin), values.begin() + static_cast<std::ptrdiff_t>(in.end)});
}

// The values between the changes before and after the i-th.
SeriesSegment segment_around(const std::vector<StrongestSplit>& changes, std::size_t i, std::size_t count) {
  return {i == 0 ? 0 : changes[i - 1].first, i + 1 == changes.size() ? count : changes[i + 1].first};
}

}  // namespace

bool can_show_changes(std::size_t values, double chance) {
  return values >= 2 * least_level && 2 * smallest_p(values / 2, values - values / 2) <= chance;
}

std::vector<ChangePoint> find_changes(std::span<const double> values, const ChangeRules& rules) {
  Random random(rules.seed);
  std::vector<StrongestSplit> changes;
  search(values, 0, rules, random, changes);
  std::vector<ChangePoint> changes_found;
  while (true) {
    changes_found.clear();
    std::size_t smallest = 0;
    double step = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const SeriesSegment both = segment_around(changes, i, values.size());
      const std::size_t first = changes[i].first;
      changes_found.push_back(
          {first, median_in(values, {both.begin, first}), median_in(values, {first, both.end}), changes[i].p});
      if (const double its = std::abs(changes_found.back().after - changes_found.back().before); its < step) {
        step = its;
        smallest = i;
      }
    }
    if (changes.empty() || step > rules.negligible) return changes_found;
    changes.erase(changes.begin() + static_cast<std::ptrdiff_t>(smallest));
  }
}

}  // namespace p5
