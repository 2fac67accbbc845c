// One row after the other to figures: what its times and spreads are, with which certainty. Says nothing yet about what
// follows from them.
#pragma once

#include <cstdint>
#include <vector>

#include "reports/compare/pairing.hpp"

namespace p5::reports {

class BandJudge {
 public:
  // The pairs have to outlive it; `rows` is how many will be judged.
  BandJudge(const std::vector<Pair>& pairs, std::size_t rows, std::uint64_t seed)
      : pairs_(pairs), seed_(seed), judge_(rows, seed), sizes_(pairs.size()) {}

  // All but the answer and the adjusted p.
  BandRow judge(const BandPairs& row);
  // Of a pair whose row was judged.
  const Effect& size(std::size_t pair) const { return sizes_[pair]; }

 private:
  std::vector<Sides> sides_of(const std::vector<std::size_t>& pairs) const;
  void judge_spread(const std::vector<Sides>& sizes, BandRow& out);

  const std::vector<Pair>& pairs_;
  std::uint64_t seed_;
  EffectJudge judge_;
  std::vector<Effect> sizes_;
};

}  // namespace p5::reports
