// From cells to rows: few ranges of sizes for which one setting is believed, and what was measured beside them to break
// them.
#pragma once

#include "tuner/belief.hpp"
#include "tuner/table.hpp"

namespace p5::tuner {

struct RowRules {
  double least_gain = 0.03;  // of a setting that stands in for a cell's own winner
  double within = 0.02;      // it may be that much slower than the winner
  int most_rows = 8;         // of a collective
};

// Rows for what is believed. A row begins and ends at measured sizes; sizes between two measured ones belong to it only
// where both neighbours have its setting. Adjacent sizes share a setting where it is measured in both and within 2 % of
// the better one. Of more than 8 rows of a collective those stay that save most.
std::vector<Row> rows_of(const SearchResult& result, const std::vector<CellVerdict>& verdicts, const RowRules& rules);

// A size on which the search did not look, and the row that claims it.
struct HeldOut {
  Function function = Function::all_reduce;
  std::uint64_t tuner_bytes = 0;
  bool operator==(const HeldOut&) const = default;
};
// Of each row 3 * 2^k bytes, and an odd number of elements near its middle (at most `most` sizes a row). `element`:
// bytes. `step`: what tuner_bytes have to be a multiple of, e.g. ranks * element where a collective divides its
// message.
std::vector<HeldOut> held_out(const std::vector<Row>& rows, std::uint64_t element, std::uint64_t step, int most = 3);

}  // namespace p5::tuner
