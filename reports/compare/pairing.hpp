// The cases of two sides in pairs, and the pairs in the rows that are judged together.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/measure/effect.hpp"
#include "reports/compare/comparing.hpp"

namespace p5::reports {

// A case and quantity that both sides measured.
struct Pair {
  const Observation* base = nullptr;
  const Observation* fresh = nullptr;
  Quantity quantity = Quantity::throughput;
  Sides sides() const;
};

// What is judged together: the sizes of one band.
struct BandPairs {
  std::string collective;
  Quantity quantity = Quantity::throughput;
  const BandRule* band = nullptr;
  std::vector<std::size_t> pairs;   // all of them
  std::vector<std::size_t> judged;  // those that were measured in the same launches: only they can be drawn together
};

struct Matched {
  std::vector<std::pair<const Observation*, const Observation*>> both;
  std::vector<std::string> only_in_base, only_in_new;
};

// Operations and types move the same bytes, so they share a row; what moves them another way has its own.
std::string label_of(const Case& c);

// What tells a case from others. Across hardware it is the same whatever the backend and the number of ranks.
std::string identity_of(const Case& c, bool across_hardware = false);

Matched match(const Side& base, const Side& fresh, bool across_hardware);
// Whether it decides. How fast small operations follow each other tells more of the host that launches them than of
// what they do; where their latency was measured too, the throughput of that band is in the map of sizes only.
bool decides(const Observation& observation, Quantity quantity);

// By size.
std::vector<Pair> pairs_of(const Matched& matched);
std::vector<BandPairs> rows_of(const std::vector<Pair>& pairs);

}  // namespace p5::reports
