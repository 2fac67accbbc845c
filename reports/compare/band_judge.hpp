// One row after the other to figures: what its times and spreads are, with which certainty. Says nothing yet about what
// follows from them.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/base/inference.hpp"
#include "reports/compare/pairing.hpp"

namespace p5::reports {

// Of one false alarm among all rows.
inline constexpr double chance_of_alarm = 0.05;

class BandJudge {
 public:
  // The pairs have to outlive it; `rows` is how many will be judged.
  BandJudge(const std::vector<Pair>& pairs, std::size_t rows, std::uint64_t seed)
      : pairs_(pairs), rows_(rows), seed_(seed), cells_(pairs.size()) {}

  // All but the answer and the adjusted p.
  BandRow judge(const Row& row);
  // Of a pair whose row was judged.
  const Effect& cell(std::size_t pair) const { return cells_[pair]; }

 private:
  enum class Direction { slower, either };

  bool too_few(const Cell& cell) const;
  Threshold threshold_of(const Row& row) const;
  Resampled draw(const std::vector<std::size_t>& which, bool screening) const;
  Effect effect(double log_ratio, const Interval& logs, const std::vector<double>& base,
                const std::vector<double>& fresh, bool screening, const BandRule& band, Direction direction);
  void judge_time(const Row& row, BandRow& out);
  void judge_cell(std::size_t i, double ratio, const Interval& logs, bool screening, const BandRule& band);
  void judge_alone(std::size_t i, const BandRule& band);
  void judge_spread(const Row& row, BandRow& out);
  std::vector<double> scores(const Row& row, bool base, double (*value)(const Launch&)) const;

  const std::vector<Pair>& pairs_;
  std::size_t rows_;
  std::uint64_t seed_;
  std::vector<Effect> cells_;
  RankTest ranks_;
};

}  // namespace p5::reports
