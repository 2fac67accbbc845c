// The table that nccl-tests prints. Its columns changed over the years (2.0: redop and root only where they mean
// something; 2.13: always; "error" became "#wrong"; -I and -S add columns), so they are taken from the table's own
// head.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "reports/nccl_tests.hpp"

namespace p5::reports::nccl_tests {

namespace {

using Words = std::vector<std::string>;

Words words_of(std::string_view line) {
  Words words;
  for (std::size_t from = 0; (from = line.find_first_not_of(" \t\r", from)) != std::string_view::npos;) {
    const std::size_t to = std::min(line.find_first_of(" \t\r", from), line.size());
    words.emplace_back(line.substr(from, to - from));
    from = to;
  }
  return words;
}

[[noreturn]] void refuse(int line, const std::string& what) {
  throw UsageError(fmt::format("line {}: {}", line, what));
}

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Half of the last digit that was printed: 0.05 of "100.0", 5e4 of "1.6e+06".
double rounding_in(std::string_view text) {
  const std::size_t exponent = text.find_first_of("eE"), point = text.find('.');
  const std::string_view digits = text.substr(0, exponent);
  const auto behind = point == std::string_view::npos ? 0 : static_cast<double>(digits.size() - point - 1);
  std::string_view power = exponent == std::string_view::npos ? "0" : text.substr(exponent + 1);
  if (power.starts_with('+')) power.remove_prefix(1);
  return 0.5 * std::pow(10, number_in<int>(power).value_or(0) - behind);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Takes what is asked for from the beginning of a text, or nothing. By hand: std::regex calls itself for each
// character, and lines may have any length.
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
  // As long as characters fit.
  template <class Fits>
  std::string_view take_while(const Fits& fits) {
    const auto end = std::ranges::find_if_not(rest_, fits);
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  bool skip_space() { return !take_while(is_space).empty(); }
  std::string_view digits() { return take_while(is_digit); }
  // "0000-00-00": digits where zeros are.
  bool take_like(std::string_view form) {
    const auto like = [](char wanted, char c) { return wanted == '0' ? is_digit(c) : wanted == c; };
    if (rest_.size() < form.size() || !std::ranges::equal(form, rest_.substr(0, form.size()), like)) return false;
    rest_.remove_prefix(form.size());
    return true;
  }

 private:
  std::string_view rest_;
};

// "[1,0]<stdout>:" of Open MPI.
bool take_open_mpi(Scan& scan) {
  if (!scan.take("[") || scan.digits().empty() || !scan.take(",") || scan.digits().empty() || !scan.take("]"))
    return false;
  if (!scan.take("<stdout>") && !scan.take("<stderr>")) return false;
  scan.take(":");
  return true;
}
// "[0] " of Intel's.
bool take_bracketed(Scan& scan) {
  const auto fits = [](char c) { return is_word(c) || c == '.' || c == ',' || c == ':' || c == '-'; };
  if (!scan.take("[") || scan.take_while(fits).empty() || !scan.take("]")) return false;
  scan.take(":");
  return true;
}
// "0: " of srun -l, "host: ".
bool take_label(Scan& scan) {
  return !scan.take_while([](char c) { return is_word(c) || c == '.' || c == '-'; }).empty() && scan.take(":");
}
// "2026-11-23T10:00:00.5Z" of log collectors.
bool take_time(Scan& scan) {
  if (!scan.take_like("0000-00-00") || !(scan.take("T") || scan.take(" ")) || !scan.take_like("00:00:00")) return false;
  scan.take_while([](char c) { return !is_space(c); });
  return true;
}

// What launchers and collectors put before a line. Not where "#" or a number stands already.
std::string_view without_prefix(std::string_view line) {
  for (bool found = true; found;) {
    found = false;
    for (const auto take : {take_open_mpi, take_bracketed, take_label, take_time}) {
      Scan scan(line);
      scan.skip_space();
      if (!take(scan) || !(scan.at_end() || is_space(scan.rest().front()) || scan.rest().front() == '#')) continue;
      line = scan.rest();
      found = true;
      break;
    }
  }
  return line;
}

// What stands behind the first `name` that has something behind it, as far as it fits; "" where there is none.
template <class Fits>
std::string value_behind(std::string_view text, std::string_view name, const Fits& fits) {
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string_view::npos;) {
    at += name.size();
    if (const std::string_view value = Scan(text.substr(at)).take_while(fits); !value.empty())
      return std::string(value);
  }
  return "";
}

// A head's columns of one half, in order, and where the halves begin.
struct Columns {
  bool op = false, root = false;
  Words half;                 // time, algbw, busbw, #wrong, i_min, ...
  std::size_t trailing = 0;   // words after both halves: the time of -S is two
  bool counts_wrong = false;  // "error" of old versions is the largest deviation instead
  std::size_t fixed() const { return 3u + op + root; }
};

std::optional<Columns> head(const Words& words, int line) {
  if (words.size() < 8 || words[0] != "#" || words[1] != "size" || words[2] != "count" || words[3] != "type") return {};
  Columns columns;
  std::size_t at = 4;
  if (words[at] == "redop") columns.op = true, ++at;
  if (words[at] == "root") columns.root = true, ++at;
  if (words[at] == "cputime")
    refuse(line, "these are times of the host (-C), not of the operations; run nccl-tests without -C");
  const auto again = std::find(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end(), words[at]);
  if (words[at] != "time" || again == words.end()) refuse(line, "the head of the table has no two columns 'time'");
  columns.half.assign(words.begin() + static_cast<std::ptrdiff_t>(at), again);
  if (columns.half.size() < 4 || columns.half[1] != "algbw" || columns.half[2] != "busbw")
    refuse(line, "the head of the table does not have the columns time, algbw, busbw and #wrong");
  columns.counts_wrong = columns.half[3] == "#wrong";
  if (words.back() == "timestamp") columns.trailing = 2;
  return columns;
}

// Null: not run.
std::optional<Timing> timing(const Words& words, std::size_t from, const Columns& columns, int line) {
  if (words[from] == "N/A") return std::nullopt;
  Timing timing;
  const std::optional<double> time = number_in<double>(words[from]);
  if (!time || !(*time >= 0) || *time > 1e15) refuse(line, fmt::format("{} is no time", in_quotes(words[from])));
  timing.time_us = *time;
  timing.algbw = number_in<double>(words[from + 1]).value_or(0);
  timing.busbw = number_in<double>(words[from + 2]).value_or(0);
  timing.rounding = {rounding_in(words[from]), rounding_in(words[from + 1]), rounding_in(words[from + 2])};
  const std::string& wrong = words[from + 3];
  if (wrong == "N/A") return timing;
  const std::optional<double> count = number_in<double>(wrong);
  if (!count || !(*count >= 0) || *count >= 1e19)
    refuse(line, fmt::format("{} is no number of wrong elements", in_quotes(wrong)));
  if (columns.counts_wrong) timing.wrong = static_cast<std::uint64_t>(*count);
  return timing;
}

Row row(Words words, const Columns& columns, int line) {
  // Versions up to 2.12 leave redop empty where nothing is reduced.
  const std::size_t wanted = columns.fixed() + 2 * columns.half.size() + columns.trailing;
  const bool no_op = columns.op && words.size() + 1 == wanted && number_in<double>(words[3]);
  if (no_op) words.insert(words.begin() + 3, "none");
  if (words.size() != wanted)
    refuse(line, fmt::format("the row has {} of {} columns: the file is cut off or something else was printed into it",
                             words.size(), wanted));
  Row row{.line = line,
          .size = number_in<std::uint64_t>(words[0]).value_or(0),
          .type = words[2],
          .op = columns.op ? words[3] : "",
          .root = columns.root ? number_in<int>(words[columns.fixed() - 1]).value_or(-1) : -1,
          .out_of_place = timing(words, columns.fixed(), columns, line),
          .in_place = timing(words, columns.fixed() + columns.half.size(), columns, line)};
  // Checked out of place but not in place: there is no such operation (alltoall), whatever the columns say.
  const std::size_t wrong = columns.fixed() + 3;
  if (words[wrong] != "N/A" && words[wrong + columns.half.size()] == "N/A") row.in_place.reset();
  return row;
}

// Reads line by line; what belongs to no table (logs of NCCL, warnings) is passed over.
class Reader {
 public:
  void take(std::string_view raw) {
    ++line_;
    const std::string_view text = without_prefix(raw);
    const Words words = words_of(text);
    if (words.empty()) return;
    note_program(raw);
    note_versions(std::string(text));
    if (words[0] == "#")
      comment(std::string(text), words);
    else if (columns_ && words.size() > 2 && number_in<std::uint64_t>(words[0]) && number_in<std::uint64_t>(words[1]))
      table().rows.push_back(row(words, *columns_, line_));
  }

  Log finish() {
    if (columns_)
      refuse(line_, fmt::format("the file ends within the table that begins in line {}: there is no '# Avg bus "
                                "bandwidth' after it",
                                table().line));
    if (log_.tables.empty()) refuse(line_, "nothing in this file looks like the table of nccl-tests");
    return std::move(log_);
  }

 private:
  Table& table() { return log_.tables.back(); }

  void note_program(std::string_view raw) {
    if (columns_ || raw.find("concluded") != std::string_view::npos) return;
    constexpr std::string_view mpi = "_mpi", ending = "_perf";
    for (Scan scan(raw); !scan.at_end(); scan.take_while([](char c) { return !is_word(c); })) {
      std::string_view word = scan.take_while(is_word);
      if (word.ends_with(mpi)) word.remove_suffix(mpi.size());
      if (!word.ends_with(ending) || word.size() == ending.size()) continue;
      next_.program = word;
      return;
    }
  }

  void note_versions(std::string_view text) {
    const auto any = [](char c) { return !is_space(c); };
    if (std::string found = value_behind(text, "nccl-tests version ", any); !found.empty())
      log_.context["nccl-tests"] = std::move(found);
    const auto versions = [](char c) { return is_word(c) || c == '.' || c == '+'; };
    if (std::string found = value_behind(text, "NCCL version ", versions); !found.empty() && is_digit(found.front()))
      log_.context["nccl"] = std::move(found);
    if (const std::string found = value_behind(text, "nccl-library=", is_digit); !found.empty()) {
      const int code = number_in<int>(found).value_or(0);
      log_.context["nccl"] = fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
    }
  }

  // "#  Rank  0 Group  0 Pid  1234 on  host device  0 [0000:53:00] NVIDIA H100"; versions before 2.17 have no group.
  static std::optional<Device> device_in(std::string_view text) {
    Scan scan(text);
    std::string_view number;
    const auto take = [&](std::string_view name) {
      if (!scan.take(name) || !scan.skip_space()) return false;
      number = scan.digits();
      return !number.empty();
    };
    Device device;
    scan.skip_space();
    if (!scan.take("#") || !scan.skip_space() || !take("Rank") || !scan.skip_space()) return {};
    device.rank = number_in<int>(number).value_or(0);
    if (take("Group")) {
      device.group = number_in<int>(number).value_or(0);
      scan.skip_space();
    }
    if (!take("Pid") || !scan.skip_space() || !scan.take("on") || !scan.skip_space()) return {};
    device.host = scan.take_while([](char c) { return !is_space(c); });
    if (device.host.empty() || !scan.skip_space() || !take("device") || !scan.skip_space() || !scan.take("["))
      return {};
    scan.take_while([](char c) { return c != ']'; });
    if (!scan.take("]")) return {};
    scan.skip_space();
    std::string_view name = scan.rest();
    while (!name.empty() && is_space(name.back())) name.remove_suffix(1);
    device.name = name;
    return device;
  }

  void comment(const std::string& text, const Words& words) {
    if (std::optional<Device> device = device_in(text)) return add_device(std::move(*device));
    if (const std::optional<Columns> columns = head(words, line_)) return begin_table(*columns);
    if (text.find("nThread") != std::string::npos) return begin_program(text);
    if (text.find("Blocking Enabled") != std::string::npos) next_.blocking = true;
    if (columns_ && words.size() > 4 && words[1] == "Out" && words[3] == "bounds")
      table().out_of_bounds = words.back() == "FAILED";
    if (columns_ && words.size() > 2 && words[1] == "Avg" && words[2] == "bus") {
      columns_.reset();
      next_ = {};  // nothing of it holds for another one in the same file
    }
  }

  void begin_program(const std::string& text) {
    if (columns_) refuse(line_, fmt::format("another program begins within the table of line {}", table().line));
    const auto value = [&](const char* name, int otherwise) {
      return number_in<int>(value_behind(text, name, is_digit)).value_or(otherwise);
    };
    Table fresh;
    fresh.program = next_.program;
    next_ = std::move(fresh);
    // "warmup iters: 5 iters: 20 agg iters: 1": those of the warm-up are others.
    constexpr std::string_view warm_up = "warmup iters: ";
    const std::size_t others = text.find(warm_up);
    next_.iterations =
        number_in<int>(
            value_behind(std::string_view(text).substr(others == std::string::npos ? 0 : others + warm_up.size()),
                         " iters: ", is_digit))
            .value_or(0);
    next_.aggregated = value("agg iters: ", 1);
    next_.graphs = value("graph: ", 0);
  }

  void add_device(Device device) {
    if (next_.devices.empty()) ranks_.clear();
    if (!ranks_.insert(device.rank).second)
      refuse(line_,
             fmt::format("there are two ranks {}: these are several programs that know nothing of each other; build "
                         "nccl-tests with MPI=1",
                         device.rank));
    next_.devices.push_back(std::move(device));
  }

  void begin_table(const Columns& columns) {
    if (columns_) refuse(line_, fmt::format("another table begins within that of line {}", table().line));
    columns_ = columns;
    next_.line = line_;
    log_.tables.push_back(next_);
  }

  Log log_;
  Table next_;                      // what was said so far about the table to come
  std::set<int> ranks_;             // of its devices
  std::optional<Columns> columns_;  // of the table that has begun and not ended
  int line_ = 0;
};

}  // namespace

Log read_text(std::string_view text) {
  Reader reader;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = std::min(text.find('\n', from), text.size());
    reader.take(text.substr(from, to - from));
    from = to + 1;
  }
  return reader.finish();
}

}  // namespace p5::reports::nccl_tests
