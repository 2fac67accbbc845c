// Rows of the table of nccl-tests.
#include "reports/nccl_tests_text.hpp"

#include <array>
#include <cmath>
#include <map>
#include <span>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/text.hpp"

namespace p5::reports::nccl_tests {

namespace {

// Bytes of an element, by the type names of all versions.
std::optional<std::uint64_t> bytes_of_type(std::string_view name) {
  static const std::map<std::string_view, std::uint64_t> sizes{
      {"int8", 1},     {"char", 1},     {"uint8", 1},    {"int32", 4},  {"int", 4},     {"uint32", 4}, {"int64", 8},
      {"uint64", 8},   {"half", 2},     {"float16", 2},  {"float", 4},  {"float32", 4}, {"double", 8}, {"float64", 8},
      {"bfloat16", 2}, {"fp8_e4m3", 1}, {"fp8_e5m2", 1}, {"f8e4m3", 1}, {"f8e5m2", 1}};
  const auto found = sizes.find(name);
  return found == sizes.end() ? std::nullopt : std::optional(found->second);
}

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_name(std::string_view word) {
  return !word.empty() && is_lower(word.front()) &&
         std::ranges::all_of(word, [](char c) { return is_lower(c) || is_digit(c) || c == '_'; });
}

// Prefix of a word that is a figure as nccl-tests prints it: "100.0", "1.6e+07", "N/A", "-1".
std::string_view figure_in(std::string_view word) {
  constexpr std::string_view absent = "N/A";
  if (word.starts_with(absent)) return word.substr(0, absent.size());
  Scan scan(word);
  scan.take("-");
  if (scan.digits().empty()) return "";
  Scan fraction = scan;
  if (fraction.take(".") && !fraction.digits().empty()) scan = fraction;
  Scan power = scan;
  if (power.take("e") && (power.take("+") || power.take("-")) && !power.digits().empty()) scan = power;
  return word.substr(0, word.size() - scan.rest().size());
}
bool is_figure(std::string_view word) { return !word.empty() && figure_in(word).size() == word.size(); }

// Null if not run. Clears `good` if the words are no figures.
std::optional<Timing> timing_in(std::span<const std::string_view> words, const Columns& columns, bool& valid) {
  constexpr double most_time = 1e15, most_wrong = 1e19;
  for (const std::string_view word : words) valid = valid && is_figure(word);
  if (!valid || words[0] == "N/A") return std::nullopt;
  Timing timing;
  timing.time_us = as_number<double>(words[0]).value_or(-1);
  timing.algbw = as_number<double>(words[1]).value_or(0);
  timing.busbw = as_number<double>(words[2]).value_or(0);
  timing.rounding = {rounding_in(words[0]), rounding_in(words[1]), rounding_in(words[2])};
  valid = timing.time_us >= 0 && timing.time_us <= most_time;
  timing.checked = words[3] != "N/A";
  if (!timing.checked) return timing;
  // A count, abbreviated if large: "1.5e+06".
  const bool is_count = words[3].find('.') == std::string_view::npos || words[3].find('e') != std::string_view::npos;
  valid = valid && is_count;
  const double wrong = as_number<double>(words[3]).value_or(-1);
  valid = valid && wrong >= 0 && wrong < most_wrong;
  if (valid && columns.counts_wrong) timing.wrong = static_cast<std::uint64_t>(wrong);
  if (valid && !columns.counts_wrong) timing.deviation = wrong;
  return timing;
}

// Leaves out an algbw that is a busbw: nccl-tests before June 2020 printed it in both columns where each rank has a
// share of the message (all_gather, reduce_scatter).
void leave_out_busbw_as_algbw(ResultRow& row) {
  const auto shares = static_cast<double>(shares_in(row).value_or(1)), size = static_cast<double>(row.size);
  for (std::optional<Timing>* each : {&row.out_of_place, &row.in_place})
    if (Timing* t = *each ? &**each : nullptr;
        t && shares > 1 && t->algbw == t->busbw && !fits_time(*t, size) && fits_time(*t, size * (shares - 1) / shares))
      t->algbw = t->rounding.algbw = 0;
}

// "2026-11-20 10:00:00"
bool is_timestamp(std::string_view date, std::string_view time) {
  return is_of_form(date, "0000-00-00") && is_of_form(time, "00:00:00");
}

// The row whose type is words[at], or null.
std::optional<FoundRow> row_at(std::string_view text, const Words& words, std::size_t at, const Columns& columns,
                               int line) {
  const std::string_view before = words[at - 2];
  std::size_t digits = before.size();
  while (digits > 0 && is_digit(before[digits - 1])) --digits;
  // Accepts "<stdout>:1048576" but not "x1048576" or "1.048576".
  if (digits == before.size() || (digits > 0 && (is_word(before[digits - 1]) || before[digits - 1] == '.'))) return {};
  FoundRow found;
  ResultRow& row = found.row;
  row.line = line;
  row.type = words[at];
  const std::optional<std::uint64_t> size = as_number<std::uint64_t>(before.substr(digits));
  const std::optional<std::uint64_t> count = as_number<std::uint64_t>(words[at - 1]);
  if (!size || !count) return {};
  row.size = *size;
  row.count = *count;
  std::size_t next = at + 1;
  // Versions up to 2.12 leave redop empty where nothing is reduced.
  if (columns.op) {
    if (next < words.size() && is_name(words[next]))
      row.op = words[next++];
    else if (columns.counts_wrong)
      return {};
    else
      row.op = "none";
  }
  if (columns.root) {
    const std::optional<int> root = next < words.size() ? as_number<int>(words[next]) : std::nullopt;
    if (!root || *root < -1) return {};
    row.root = *root;
    ++next;
  }
  // nccl-tests leaves the out-of-place half blank if it measures in place only.
  constexpr std::size_t width_of_half = 32;
  const auto blanks_before = [&](std::size_t i) {
    return i < words.size() ? words[i].data() - words[i - 1].data() - std::ssize(words[i - 1]) : 0;
  };
  const bool half_is_blank =
      columns.out_of_place && columns.in_place && blanks_before(next) >= static_cast<std::ptrdiff_t>(width_of_half);
  const bool out_of_place = columns.out_of_place && !half_is_blank;
  const std::size_t half = columns.half.size(), halves = out_of_place + columns.in_place;
  const std::size_t end = next + halves * half + (columns.timestamp ? 2 : 0);
  if (end > words.size() || halves == 0) return {};
  // Other text may follow the last figure directly.
  Words own(words.begin() + static_cast<std::ptrdiff_t>(next), words.begin() + static_cast<std::ptrdiff_t>(end));
  bool valid = true;
  if (columns.timestamp) {
    constexpr std::size_t width = 8;
    own.back() = own.back().substr(0, width);
    valid = is_timestamp(own[own.size() - 2], own.back());
    row.timestamp = fmt::format("{} {}", own[own.size() - 2], own.back());
  } else {
    own.back() = figure_in(own.back());
    valid = !own.back().empty();
  }
  if (!valid) return {};
  const std::span<const std::string_view> figures(own);
  if (out_of_place) row.out_of_place = timing_in(figures.first(half), columns, valid);
  if (valid && columns.in_place)
    row.in_place = timing_in(figures.subspan(out_of_place ? half : 0, half), columns, valid);
  if (!valid) return {};
  leave_out_busbw_as_algbw(row);
  // Results checked out of place only mean that the operation has no in-place form (alltoall).
  if (halves == 2 && figures[3] != "N/A" && figures[half + 3] == "N/A") row.in_place.reset();
  found.begin = static_cast<std::size_t>(before.data() + digits - text.data());
  found.end = static_cast<std::size_t>(own.back().data() + own.back().size() - text.data());
  const Words behind = words_of(text.substr(found.end));
  // A timestamp may follow although the damaged head lacks it, and behind a tab what a log collector adds.
  const bool is_all =
      behind.empty() || text[found.end] == '\t' || (behind.size() == 2 && is_timestamp(behind[0], behind[1]));
  found.no_more = columns.timestamp || own.back() == "N/A" || own.back() == "0" || own.back() == "0e+00";
  found.ends_surely = is_all || found.no_more;
  return found;
}

bool is_op(std::string_view word) {
  constexpr std::array<std::string_view, 7> ops{"none", "sum", "prod", "max", "min", "avg", "mulsum"};
  return std::ranges::find(ops, word) != ops.end();
}

// True for a word of a row or a possible part of one.
bool is_piece(std::string_view word) {
  if (is_figure(word) || bytes_of_type(word) || is_op(word)) return true;
  return std::ranges::all_of(word, [](char c) { return is_digit(c) || c == '.' || c == '-' || c == '+' || c == ':'; });
}

// By how much a printed size may be below the one that was asked for, if it is rounded to whole elements only; null if
// to a multiple of the ranks, or unknown.
std::optional<std::uint64_t> rounding_of_sizes(const Table& table) {
  const auto is_share_of_all = [](const ResultRow& row) { return shares_in(row) == std::optional<std::uint64_t>(1); };
  if (listed_ranks(table) < 2 || !std::ranges::all_of(table.rows, is_share_of_all)) return std::nullopt;
  std::uint64_t element = 1;
  for (const ResultRow& row : table.rows) element = std::max(element, bytes_of_type(row.type).value_or(1));
  return table.sizes.least % element == 0 && table.sizes.bytes % element == 0 ? 0 : element - 1;
}

bool within(double value, double rounding, double low, double high) {
  constexpr double slack = 1e-6;
  return value + rounding >= low * (1 - slack) && value - rounding <= high * (1 + slack);
}

}  // namespace

std::string place_of(const ResultRow& row) {
  return row.line > 0 ? fmt::format("line {}", row.line) : fmt::format("/results/{}", row.index);
}

std::string in_words(const Table& table) {
  return table.line > 0 ? fmt::format("the table of line {}", table.line) : "/results";
}

double rounding_in(std::string_view text) {
  const std::size_t exponent = text.find_first_of("eE"), point = text.find('.');
  const std::string_view digits = text.substr(0, exponent);
  const auto behind = point == std::string_view::npos ? 0 : static_cast<double>(digits.size() - point - 1);
  std::string_view power = exponent == std::string_view::npos ? "0" : text.substr(exponent + 1);
  if (power.starts_with('+')) power.remove_prefix(1);
  return 0.5 * std::pow(10, as_number<int>(power).value_or(0) - behind);
}

std::optional<Columns> columns_of(std::string_view text, std::string_view title, int line) {
  const auto refuse = [&](const char* what) { throw UsageError(fmt::format("line {}: {}", line, what)); };
  Words words = words_of(text);
  // Accepts "#size" if blanks were lost.
  if (!words.empty() && words[0] == "#") words.erase(words.begin());
  if (!words.empty() && words[0].starts_with('#')) words[0].remove_prefix(1);
  if (words.size() < 4 || words[0] != "size" || words[1] != "count" || words[2] != "type") return {};
  Columns columns;
  std::size_t at = 3;
  if (at < words.size() && words[at] == "redop") columns.op = true, ++at;
  if (at < words.size() && words[at] == "root") columns.root = true, ++at;
  if (at < words.size() && words[at] == "cputime")
    refuse("these are times of the host (-C), not of the operations; run nccl-tests without -C");
  if (at + 3 >= words.size() || words[at] != "time" || words[at + 1] != "algbw" || words[at + 2] != "busbw")
    refuse("the head of the table does not have the columns time, algbw, busbw and #wrong");
  const auto first = words.begin() + static_cast<std::ptrdiff_t>(at);
  const auto again = std::find(first + 1, words.end(), "time");
  const bool two = again != words.end() || title.find("out-of-place") != std::string_view::npos;
  auto end = std::find(first, again, "timestamp");
  columns.half.assign(first, end);
  // Other text interrupted the head: its columns are unknown.
  if (columns.half.size() < 4 || (columns.half[3] != "#wrong" && columns.half[3] != "error")) return {};
  columns.counts_wrong = columns.half[3] == "#wrong";
  columns.timestamp = std::find(first, words.end(), "timestamp") != words.end();
  // rccl-tests with -O 0 measures in place only, and its head has that half alone.
  columns.out_of_place = two;
  return columns;
}

void check_units(std::string_view text, int line) {
  constexpr std::array<std::string_view, 6> others{"(ns)", "(ms)", "(msec)", "(s)", "(sec)", "(seconds)"};
  const auto is_other_rate = [](std::string_view word) {
    return word.starts_with('(') && (word.ends_with("/s)") || word.ends_with("bps)")) && word != "(GB/s)";
  };
  for (const std::string_view word : words_of(text))
    if (std::ranges::find(others, word) != others.end() || is_other_rate(word))
      throw UsageError(
          fmt::format("line {}: its figures are in {}, but nccl-tests prints us and GB/s: import what it "
                      "printed",
                      line, printable(word)));
}

std::optional<FoundRow> find_row(std::string_view text, const Columns& columns, int line) {
  const Words words = words_of(text);
  for (std::size_t at = 2; at < words.size(); ++at)
    if (is_name(words[at]) && is_number(words[at - 1]))
      if (std::optional<FoundRow> found = row_at(text, words, at, columns, line)) return found;
  return {};
}

std::optional<std::uint64_t> shares_in(const ResultRow& row) {
  const std::optional<std::uint64_t> bytes = bytes_of_type(row.type);
  if (!bytes || row.count == 0 || row.size % (row.count * *bytes) != 0) return std::nullopt;
  return row.size / (row.count * *bytes);
}

bool counts_differently(const std::vector<ResultRow>& rows, const std::vector<ResultRow>& others) {
  const auto may_be = [&](const ResultRow& row) {
    return shares_in(row) || (others.size() > 1 && row.size >= row.count);
  };
  return std::ranges::none_of(rows, [](const ResultRow& row) { return row.count > 0; }) &&
         std::ranges::all_of(others, may_be);
}

bool fits_time(const Timing& timing, double bytes) {
  if (timing.rounding.algbw <= 0) return true;
  const double rounding =
      timing.rounding.time_us > 0 ? timing.rounding.time_us : rounding_in(fmt::format("{}", timing.time_us));
  const double shortest = std::max(timing.time_us - rounding, rounding * 1e-3);
  return within(timing.algbw, timing.rounding.algbw, bytes * 1e-3 / (timing.time_us + rounding),
                bytes * 1e-3 / shortest);
}

bool Consistency::fits_size(const ResultRow& row) const {
  const std::optional<std::uint64_t> bytes = bytes_of_type(row.type);
  constexpr std::uint64_t most = std::uint64_t{1} << 56;
  if (row.size == 0) return row.count == 0;
  if (!bytes) return true;
  if (row.count > most) return false;
  const std::optional<std::uint64_t> times = shares_in(row);
  return times && (*times == 1 || ranks_ == 0 || *times == static_cast<std::uint64_t>(ranks_));
}

bool Consistency::fits_figures(const ResultRow& row) const {
  const auto as_printed = [](double value, double rounding, double whole_from) {
    constexpr double tenths_from = 99, two_decimals = 0.005, slack = 1e-9;
    if (rounding < two_decimals - slack) return false;  // more than two decimals
    if (rounding < 10 * two_decimals - slack) return true;
    return rounding < 100 * two_decimals - slack ? value >= tenths_from : value >= whole_from;
  };
  if (!bytes_of_type(row.type) || !(row.op.empty() || is_op(row.op))) return false;
  if (collective_ && collective_->reduces && (row.op.empty() || row.op == "none")) return false;
  if (has_in_place_ && *has_in_place_ != row.in_place.has_value()) return false;
  const double busbw_factor = collective_ && ranks_ > 0 ? collective_->bus_factor(ranks_) : 0;
  for (const std::optional<Timing>* each : {&row.out_of_place, &row.in_place}) {
    if (!*each) continue;
    const Timing& t = **each;
    constexpr double whole_times = 9999, whole_rates = 999;
    if (!as_printed(t.time_us, t.rounding.time_us, whole_times) ||
        !as_printed(t.algbw, t.rounding.algbw, whole_rates) || !as_printed(t.busbw, t.rounding.busbw, whole_rates))
      return false;
    if (!fits_time(t, static_cast<double>(row.size) * algbw_factor_)) return false;
    if (busbw_factor > 0 && !within(t.busbw, t.rounding.busbw, busbw_factor * (t.algbw - t.rounding.algbw),
                                    busbw_factor * (t.algbw + t.rounding.algbw)))
      return false;
  }
  return true;
}

void Consistency::learn(const ResultRow& row) {
  has_in_place_ = row.in_place.has_value();
  for (const std::optional<Timing>* each : {&row.out_of_place, &row.in_place}) {
    if (!*each || (*each)->time_us <= 0 || (*each)->algbw <= best_) continue;
    const Timing& t = **each;
    constexpr double enough = 1, near = 0.02;
    best_ = t.algbw;
    if (t.algbw < enough) continue;
    const double factor = t.algbw * 1e3 * t.time_us / static_cast<double>(row.size);
    algbw_factor_ = std::abs(factor - 1) < near ? 1 : factor;
  }
}

void add_device(Table& table, Device device, const std::string& place) {
  if (!table.ranks.insert(device.rank).second) {
    const bool is_same = !device.process.empty() && std::ranges::find(table.devices, device) != table.devices.end();
    throw UsageError(
        fmt::format("{}: there are two ranks {}: {}these are several programs that know nothing of each other; build "
                    "nccl-tests with MPI=1",
                    place, device.rank, is_same ? "the file has the lines of one process twice, or " : ""));
  }
  table.devices.push_back(std::move(device));
}

int listed_ranks(const Table& table) {
  if (table.devices.empty() || *table.ranks.rbegin() + 1 != std::ssize(table.ranks)) return 0;
  return static_cast<int>(std::ranges::count(table.devices, table.devices.front().group, &Device::group));
}

// nccl-tests rounds sizes down to whole elements; where each rank has its share of them, also to a multiple of the
// ranks.
std::vector<std::string> missing_sizes(const Table& table, bool has_end) {
  const std::vector<ResultRow>& rows = table.rows;
  const Sizes& sizes = table.sizes;
  std::vector<std::string> remarks;
  if (sizes.most == 0 || (sizes.factor < 2 && sizes.bytes == 0) || rows.empty()) return remarks;
  const auto after = [&](double size) {
    return sizes.factor > 1 ? size * static_cast<double>(sizes.factor) : size + static_cast<double>(sizes.bytes);
  };
  const std::optional<std::uint64_t> rounding = rounding_of_sizes(table);
  const double slack = rounding ? 0 : 32.0 * static_cast<double>(std::max<std::size_t>(1, table.devices.size()));
  const auto exceeds = [&](double size, double wanted) { return size > (rounding ? wanted : wanted * 1.25 + slack); };
  const auto remark = [&](const std::string& where, double least, double most) {
    remarks.push_back(
        fmt::format("{} rows are missing in {}: between {:.0f} and {:.0f} B", where, in_words(table), least, most));
  };
  const auto same = [](const ResultRow& a, const ResultRow& b) {
    return a.type == b.type && a.op == b.op && a.root == b.root;
  };
  const auto bytes = [](const ResultRow& row) { return static_cast<double>(row.size); };
  if (const double least = static_cast<double>(sizes.least); least > slack && exceeds(bytes(rows[0]), least))
    remark("the first", least, bytes(rows[0]));
  for (std::size_t i = 1; i < rows.size(); ++i)
    if (same(rows[i - 1], rows[i]) && bytes(rows[i - 1]) > slack &&
        exceeds(bytes(rows[i]), after(bytes(rows[i - 1]) + static_cast<double>(rounding.value_or(0)))))
      remark("before " + place_of(rows[i]), bytes(rows[i - 1]), bytes(rows[i]));
  if (has_end && bytes(rows.back()) > slack && !reaches_its_end(table))
    remark("the last", bytes(rows.back()), static_cast<double>(sizes.most));
  return remarks;
}

bool reaches_its_end(const Table& table) {
  if (table.sizes.most == 0 || table.rows.empty()) return false;
  const std::optional<std::uint64_t> rounding = rounding_of_sizes(table);
  const std::uint64_t last = table.rows.back().size + rounding.value_or(0);
  return table.sizes.factor > 1
             ? last > table.sizes.most / table.sizes.factor
             : last + table.sizes.bytes + (rounding ? 0 : 32 * table.devices.size()) > table.sizes.most;
}

std::size_t beginning_of_row(std::string_view text) {
  std::size_t end = 0;
  for (const std::string_view word : words_of(text)) {
    if (!is_piece(word) || (end == 0 && !is_number(word))) break;
    end = static_cast<std::size_t>(word.data() + word.size() - text.data());
  }
  return end;
}

std::size_t end_of_row(std::string_view text) {
  const Words words = words_of(text);
  std::size_t begin = text.size();
  for (auto word = words.rbegin(); word != words.rend() && is_piece(*word); ++word)
    begin = static_cast<std::size_t>(word->data() - text.data());
  return begin;
}

}  // namespace p5::reports::nccl_tests
