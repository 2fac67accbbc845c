// The table that nccl-tests prints. Its columns changed over the years (2.0: redop and root only where they mean
// something; 2.13: always; "error" became "#wrong"; -I and -S add columns), so they are taken from the table's own
// head.
#include <algorithm>
#include <charconv>
#include <regex>

#include <fmt/format.h>

#include "bench/base/names.hpp"
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

// What launchers put before a line: "[1,0]<stdout>:" of Open MPI, "0: " of srun -l, "[0] " of Intel's, "host: " and
// times of log collectors. Not where "#" or a number stands already.
std::string_view without_prefix(std::string_view line) {
  static const std::regex prefix(
      R"(^\s*(\[\d+,\d+\]<std(out|err)>:?|\[[\w.,:-]+\]:?|\d+:|[\w.-]+:|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*)(?=\s|$|#))");
  std::match_results<std::string_view::const_iterator> found;
  while (std::regex_search(line.begin(), line.end(), found, prefix))
    line.remove_prefix(static_cast<std::size_t>(found.length()));
  return line;
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

std::optional<Timing> timing(const Words& words, std::size_t from, const Columns& columns, int line) {
  Timing timing;
  const std::optional<double> time = number_in<double>(words[from]);
  if (!time || !(*time >= 0) || *time > 1e15) refuse(line, fmt::format("'{}' is no time", words[from]));
  timing.time_us = *time;
  const std::string& wrong = words[from + 3];
  if (wrong == "N/A") return timing;
  const std::optional<double> count = number_in<double>(wrong);
  if (!count || !(*count >= 0)) refuse(line, fmt::format("'{}' is no number of wrong elements", wrong));
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
    static const std::regex name(R"((\w+_perf)(_mpi)?\b)");
    std::match_results<std::string_view::const_iterator> found;
    if (columns_ || raw.find("concluded") != std::string_view::npos) return;
    if (std::regex_search(raw.begin(), raw.end(), found, name)) next_.program = found[1].str();
  }

  void note_versions(const std::string& text) {
    static const std::regex tests(R"(nccl-tests version (\S+))"), library(R"(nccl-library=(\d+))"),
        printed(R"(NCCL version (\d[\w.+]*))");
    std::smatch found;
    if (std::regex_search(text, found, tests)) log_.context["nccl-tests"] = found[1];
    if (std::regex_search(text, found, printed)) log_.context["nccl"] = found[1];
    if (std::regex_search(text, found, library)) {
      const int code = number_in<int>(found[1].str()).value_or(0);
      log_.context["nccl"] = fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
    }
  }

  void comment(const std::string& text, const Words& words) {
    static const std::regex device(
        R"(^\s*#\s+Rank\s+(\d+)(?:\s+Group\s+(\d+))?\s+Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(.*?)\s*$)");
    std::smatch found;
    if (std::regex_match(text, found, device)) return add_device(found);
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
      std::smatch found;
      return std::regex_search(text, found, std::regex(fmt::format("{} (\\d+)", name)))
                 ? number_in<int>(found[1].str()).value_or(otherwise)
                 : otherwise;
    };
    Table fresh;
    fresh.program = next_.program;
    next_ = std::move(fresh);
    // "warmup iters: 5 iters: 20 agg iters: 1": the one that no word stands before.
    next_.iterations = value("[^p] iters:", 0);
    next_.aggregated = value("agg iters:", 1);
    next_.graphs = value("graph:", 0);
  }

  void add_device(const std::smatch& found) {
    Device device{number_in<int>(found[1].str()).value_or(0), number_in<int>(found[2].str()).value_or(0), found[3],
                  found[4]};
    const auto same = std::ranges::find(next_.devices, device.rank, &Device::rank);
    if (same != next_.devices.end())
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
