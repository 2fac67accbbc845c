// Tests and corrections for comparing two sides: plain numbers in, plain numbers out. None assumes a distribution of
// the times, but for student_*.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace p5 {

// The Mann-Whitney test (Wilcoxon's rank sum) of two samples of one distribution. Exact, ties by their mean ranks (the
// permutation distribution of the ranks as they are, so that ties cost power but never honesty), up to `exact_up_to`
// values in all; beyond, the normal approximation with the corrections for ties and continuity.
class RankTest {
 public:
  static constexpr std::size_t exact_up_to = 60;
  // How probable it is that the ranks of `b` sum up to as much as they do or more. Both non-empty.
  double above(std::span<const double> a, std::span<const double> b);
  // ... as far from what is expected, on either side.
  double apart(std::span<const double> a, std::span<const double> b);

 private:
  using Table = std::vector<double>;  // for each sum of doubled ranks, how many choices of ranks have it
  struct Position {
    Table ways;
    double sum = 0, expected = 0;  // doubled
    double deviation = 0;          // where ways is empty
  };
  Position position(std::span<const double> a, std::span<const double> b);
  std::map<std::pair<std::size_t, std::size_t>, Table> untied_;  // by sizes
};

// The least that above() can give without ties: 1 / binomial(a + b, a).
double least_p(std::size_t a, std::size_t b);

// Adjusted so that each may be compared with the chance of one error in the whole family (Holm, Scandinavian Journal of
// Statistics 6, 1979), or with the share of errors among those called significant (Benjamini and Hochberg, Journal of
// the Royal Statistical Society B 57, 1995).
std::vector<double> holm_adjusted(std::span<const double> p);
std::vector<double> false_discovery_adjusted(std::span<const double> p);

double normal_below(double z);
// The two-sided chance of |t| or more with whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).
double student_beyond(double t, int degrees);
// The t that student_beyond gives `chance` for.
double student_quantile(double chance, int degrees);

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same numbers on every machine, and cheap.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  // 0 to count - 1; count below 2^32.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(((next() >> 32) * count) >> 32); }

 private:
  std::uint64_t state_;
};

}  // namespace p5
