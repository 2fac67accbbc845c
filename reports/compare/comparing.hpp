// What compare() is made of: the thresholds as data, and what differs between the sides beside the times.
#pragma once

#include <string>
#include <vector>

#include "reports/compare/comparison.hpp"

namespace p5::reports {

struct BandRule {
  std::string name;
  Bytes up_to;  // above the band before; the last has no end
  bool last = false;
  double matters = 0;
  double matters_s = 0;   // where this is more than the share of the time; 0: never
  double negligible = 0;  // share of what matters
  double launch_spread = 0;
  std::string because;
};

struct SpreadRule {
  double matters = 0, negligible = 0;  // factors
  double least = 0;                    // relative to the median
};

struct Thresholds {
  std::vector<BandRule> bands;
  SpreadRule spread;
  int weight = 0;  // of launch_spread, in launches
};
// Those of reports/thresholds.json.
const Thresholds& thresholds();
const BandRule& band_of(Bytes size);
// The share of a time that matters.
double matters_at(const BandRule& band, double time_s);

// What is not the same on both sides, hardware first. What one side does not know is no difference.
std::vector<Difference> differences_of(const Side& base, const Side& fresh);

}  // namespace p5::reports
