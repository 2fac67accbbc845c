// A row of the table of nccl-tests: what its columns hold, where it stands in a line, and whether its figures fit each
// other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/nccl_tests.hpp"

namespace p5::reports::nccl_tests {

// A head's columns of one half, in order, and how often they come.
struct Columns {
  bool op = false, root = false;
  std::vector<std::string> half;  // time, algbw, busbw, #wrong, i_min, ...
  bool out_of_place = true, in_place = true;
  bool timestamp = false;     // two words behind all others
  bool counts_wrong = false;  // "error" of old versions is the largest deviation instead
};

// `text` from its "#" on. `title`: the line before it, which names the halves. Null where it is no head. Throws
// UsageError naming the line.
std::optional<Columns> columns_of(std::string_view text, std::string_view title, int line);

struct FoundRow {
  ResultRow row;
  std::size_t begin = 0, end = 0;  // of the text
  bool no_more = false;            // nothing could be more of its last figure
  bool ends_surely = true;         // that, or all of the text behind `end` is blank
};
// The first row within a text that has all its columns, whatever stands before and behind it.
std::optional<FoundRow> find_row(std::string_view text, const Columns& columns, int line);

// How many times the counted elements make the size: 1, or the number of ranks where each counts its own. Null: it is
// no whole number, or not known.
std::optional<std::uint64_t> shares_in(const ResultRow& row);

// What the rows of a table have in common, by which a row that was put together is known to be right.
class Consistency {
 public:
  // 0 and null: not known.
  Consistency(int ranks, const Collective* collective) : ranks_(ranks), collective_(collective) {}
  // The size is as many elements of the type as are counted, or as many for each rank. True where the type is not
  // known.
  bool fits_size(const ResultRow& row) const;
  // The type is one of nccl-tests', bandwidths are those of the size and the time, and figures have as many digits as
  // nccl-tests prints.
  bool fits_figures(const ResultRow& row) const;
  // A row that was printed in one piece.
  void learn(const ResultRow& row);

 private:
  int ranks_ = 0;
  const Collective* collective_ = nullptr;
  std::optional<bool> has_in_place_;
  double algbw_factor_ = 1;  // algbw over size/time: 1 but for the hypercube
  double best_ = 0;          // the bandwidth that this was learned from
};

// The longest beginning of a text that can be one of a row: whole words, and perhaps a part of one. 0 for none.
std::size_t beginning_of_row(std::string_view text);
// Where the longest end of a text begins that can be one of a row; its size for none.
std::size_t end_of_row(std::string_view text);

}  // namespace p5::reports::nccl_tests
