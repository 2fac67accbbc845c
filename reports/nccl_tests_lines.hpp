// The text of a log as nccl-tests itself printed it: without colours, without what launchers and collectors put before
// each line, and without the text of NCCL that was printed into it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace p5::reports::nccl_tests {

// Where text of NCCL was taken out of a line.
struct Gap {
  std::size_t at = 0;   // of Line::text
  std::string perhaps;  // what stood before it and belongs to either: some first characters of it to the line
};

struct Line {
  std::string text;
  int first = 0, last = 0;  // the lines of the file that it stands in, from 1
  bool foreign = false;     // NCCL's own text, or the failure that a test tells of
  bool ended = true;        // a line end follows; false only for the last one
  bool is_cut = false;      // NCCL printed that line end before a warning: perhaps the next line goes on with this one
  std::vector<Gap> gaps = {};
};

// Where a comment of nccl-tests begins ("#  Rank  0 ...", "# Avg bus bandwidth ..."); npos for none.
std::size_t find_comment(std::string_view text, std::size_t from = 0);

// An object of JSON on each line, as some collectors write logs.
bool are_lines_of_json(std::string_view text);

// In their order. Prefixes are learned from the comments of nccl-tests: a prefix is whatever stands before "#", and
// two of them are alike when they have the same punctuation. Text of NCCL is taken out from where it begins to the end
// of its line, and what stood before it goes on with the next line.
std::vector<Line> lines_of(std::string_view text);

}  // namespace p5::reports::nccl_tests
