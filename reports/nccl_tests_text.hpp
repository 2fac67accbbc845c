// Parsing of the text that nccl-tests prints: words and numbers, lines, and rows of its table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/text.hpp"
#include "reports/nccl_tests.hpp"

namespace p5::reports::nccl_tests {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_word(char c) { return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}
inline bool is_blank(std::string_view text) { return std::ranges::all_of(text, is_space); }
inline bool is_number(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit); }

using Words = std::vector<std::string_view>;

// Words as views into `line`.
inline Words words_of(std::string_view line) {
  Words words;
  for (std::size_t from = 0; (from = line.find_first_not_of(" \t\r\v\f", from)) != std::string_view::npos;) {
    const std::size_t to = std::min(line.find_first_of(" \t\r\v\f", from), line.size());
    words.push_back(line.substr(from, to - from));
    from = to;
  }
  return words;
}

// True for a text of a form, in which each "0" stands for any digit: "0000-00-00".
inline bool is_of_form(std::string_view text, std::string_view form) {
  return std::ranges::equal(form, text, [](char wanted, char c) { return wanted == '0' ? is_digit(c) : wanted == c; });
}

// Consumes matching characters from the beginning of a text. Replaces std::regex, which recurses for each character and
// overflows the stack on long lines.
class Scan {
 public:
  explicit Scan(std::string_view text) : rest_(text) {}

  std::string_view rest() const { return rest_; }
  bool at_end() const { return rest_.empty(); }

  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  // Consumes the longest prefix of matching characters.
  template <class Fits>
  std::string_view take_while(const Fits& fits) {
    const auto end = std::ranges::find_if_not(rest_, fits);
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  bool skip_space() { return !take_while(is_space).empty(); }
  std::string_view digits() { return take_while(is_digit); }

 private:
  std::string_view rest_;
};

// Position in a line from which output of NCCL was removed.
struct Gap {
  std::size_t at = 0;     // offset in Line::text
  std::string ambiguous;  // text before the gap of which some first characters may belong to the line
};

struct Line {
  std::string text;
  int first = 0, last = 0;   // range of lines in the file, from 1
  bool foreign = false;      // output of NCCL, or the failure message of a test
  bool ended = true;         // false only for a last line without line end
  std::size_t left_out = 0;  // characters in the middle of a very long line
  bool is_cut = false;       // NCCL printed the line end before a warning; the next line may continue this one
  std::vector<Gap> gaps = {};
};

// Offset of a comment of nccl-tests ("#  Rank  0 ...", "# Avg bus bandwidth ..."); npos for none.
std::size_t find_comment(std::string_view text, std::size_t from = 0);

// True if each line is a JSON object, as some log collectors write.
bool are_lines_of_json(std::string_view text);

// Lines of a log as nccl-tests printed them, without colours, prefixes of launchers and collectors, and output of NCCL.
// Prefixes are learned from comments of nccl-tests: a prefix is the text before "#", and prefixes with the same
// punctuation are alike. Output of NCCL is removed up to its line end; the text before it continues with the next line.
std::vector<Line> lines_of(std::string_view text);

// Columns of a table, by its head: one half, and which halves are present.
struct Columns {
  bool op = false, root = false;
  std::vector<std::string> half;  // time, algbw, busbw, #wrong, i_min, ...
  bool out_of_place = true, in_place = true;
  bool timestamp = false;     // two words at the end
  bool counts_wrong = false;  // false: "error" of old versions is the largest deviation
};

// Parses a head. `text` begins at "#"; `title` is the line before, which names the halves. Null if it is no head.
// Throws UsageError naming the line.
std::optional<Columns> columns_of(std::string_view text, std::string_view title, int line);

// Throws UsageError naming the line if the line of units below the head has other units than us and GB/s.
void check_units(std::string_view text, int line);

struct FoundRow {
  ResultRow row;
  std::size_t begin = 0, end = 0;  // range in the text
  bool no_more = false;            // the last figure cannot continue
  bool ends_surely = true;         // `no_more`, or only blanks follow
};
// First complete row within a text, whatever surrounds it.
std::optional<FoundRow> find_row(std::string_view text, const Columns& columns, int line);

// "line 17"; "/results/3" in JSON.
std::string place_of(const ResultRow& row);
// The place of a table's head: "line 9"; "/config/devices" in JSON.
std::string place_of(const Table& table);
// "the table of line 9"; "/results" in JSON.
std::string in_words(const Table& table);

// Value of an option by its short or long name; "" if absent. Some options appear only in the arguments.
std::string argument(const std::vector<std::string>& arguments, const std::string& brief, const std::string& full);

// Half a unit of the last digit of a printed figure: 0.05 of "100.0", 5e4 of "1.6e+06".
double rounding_in(std::string_view text);

// Adds to the list of a table. Throws UsageError naming `place` if the rank is listed already.
void add_device(Table& table, Device device, const std::string& place);
// Ranks in the group of rank 0; 0 if the list is incomplete or missing.
int listed_ranks(const Table& table);

struct RanksOfTable {
  int ranks = 0, nodes = 0;
  bool split = false;
  int all_ranks = 0, all_nodes = 0;  // of the job; others are in groups beside these
};
// By the file or the user. Throws UsageError if neither has them or both disagree.
RanksOfTable ranks_of(const Table& table, const Collective& collective, const JobSize& job);

// One remark for each gap between the sizes that a program was asked for and those of its rows.
std::vector<std::string> missing_sizes(const Table& table, bool has_end);
// True if the last row has the last of these sizes.
bool reaches_its_end(const Table& table);

// Size over the bytes of the counted elements: 1, or the number of ranks if each rank counts its own. Null if it is no
// whole number or unknown.
std::optional<std::uint64_t> shares_in(const ResultRow& row);

// True if a program counts elements in another way: none of `rows`, whose sizes fit their elements, has any, and
// `others`, whose sizes do not fit, may be right nevertheless.
bool counts_differently(const std::vector<ResultRow>& rows, const std::vector<ResultRow>& others);

// True if the bandwidth algbw is `bytes` over the time, as far as both are printed. True if it was not printed.
bool fits_time(const Timing& timing, double bytes);

// Properties shared by the rows of a table; they decide whether a reassembled row is right.
class Consistency {
 public:
  // `ranks` is 0 and `collective` null if unknown.
  Consistency(int ranks, const Collective* collective) : ranks_(ranks), collective_(collective) {}
  // True if the size equals the counted elements, or these times the ranks; also if the type is unknown.
  bool fits_size(const ResultRow& row) const;
  // True if the type is known, bandwidths follow from size and time, and figures have the digits that nccl-tests
  // prints.
  bool fits_figures(const ResultRow& row) const;
  // Learns from a row that was printed in one piece.
  void learn(const ResultRow& row);

 private:
  int ranks_ = 0;
  const Collective* collective_ = nullptr;
  std::optional<bool> has_in_place_;
  double algbw_factor_ = 1;  // algbw over size/time: 1 except for hypercube
  double best_ = 0;          // bandwidth of the row that provided algbw_factor_
};

// Length of the longest prefix that can belong to a row: whole words and perhaps a part of one. 0 for none.
std::size_t beginning_of_row(std::string_view text);
// Offset of the longest suffix that can belong to a row; the size of the text for none.
std::size_t end_of_row(std::string_view text);

}  // namespace p5::reports::nccl_tests
