// What matters in which band of message sizes, as data (thresholds.json): what bounds a call changes from one band to
// the next.
#pragma once

#include <string>
#include <vector>

#include "bench/base/units.hpp"

namespace p5 {

// All shares are of the time.
struct BandRule {
  std::string name;   // latency, mid, bandwidth
  std::string sizes;  // "up to 64 KiB", "below 64 MiB", "from 64 MiB on"
  Bytes up_to;        // above the band before; the last has no end
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
const Thresholds& thresholds();
const BandRule& band_of(Bytes size);
// The share of a time that matters.
double matters_at(const BandRule& band, double time_s);

}  // namespace p5
