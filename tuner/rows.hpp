// From cells to few ranges of sizes that have one setting, and what is measured beside them to break them.
#pragma once

#include "tuner/search.hpp"
#include "tuner/table.hpp"

namespace p5::tuner {

// Rows for the winners that failed nowhere. A row begins and ends at measured sizes; sizes between two measured ones
// belong to it only where both neighbours have its setting.
std::vector<Row> rows_of(const SearchResult& result);

// A size on which the search did not look, and the row that claims it.
struct HeldOut {
  Function function = Function::all_reduce;
  std::uint64_t bytes = 0;
  bool operator==(const HeldOut&) const = default;
};
// Of each row 3 * 2^k bytes, and an odd number of elements near its middle (at most `most` sizes a row). `element`:
// bytes. `step`: what bytes have to be a multiple of, e.g. ranks * element where a collective divides its
// message.
std::vector<HeldOut> held_out(const std::vector<Row>& rows, std::uint64_t element, std::uint64_t step, int most = 3);

}  // namespace p5::tuner
