// The table that nccl-tests prints. Its columns changed over the years (2.0: redop and root only where they apply;
// 2.13: always; "error" became "#wrong"; -I and -S add columns), so they are read from the table's head. Rows
// interrupted by other text are reassembled if their figures are consistent; lines of incomplete rows are reported.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "reports/nccl_tests.hpp"
#include "reports/nccl_tests_text.hpp"

namespace p5::reports::nccl_tests {

namespace {

[[noreturn]] void refuse(int line, const std::string& what) {
  throw UsageError(fmt::format("line {}: {}", line, what));
}

// First non-empty value behind `name`, as long as characters match; "" for none.
template <class Fits>
std::string value_after(std::string_view text, std::string_view name, const Fits& fits) {
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string_view::npos;) {
    at += name.size();
    if (const std::string_view value = Scan(text.substr(at)).take_while(fits); !value.empty())
      return std::string(value);
  }
  return "";
}

// "7, 9-12 and 20".
std::string lines_in_words(const std::set<int>& lines) {
  constexpr std::size_t most = 200;
  std::vector<std::string> ranges;
  for (auto line = lines.begin(); line != lines.end() && ranges.size() < most;) {
    const int first = *line;
    int last = first;
    while (++line != lines.end() && *line == last + 1) ++last;
    ranges.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  }
  if (ranges.size() == most) ranges.emplace_back("more");
  if (ranges.size() < 2) return ranges.empty() ? "" : ranges.front();
  const std::string last = ranges.back();
  ranges.pop_back();
  return join(ranges) + " and " + last;
}

// A row of which only the beginning was read so far.
struct Pending {
  std::string text;
  std::vector<std::size_t> ends;  // possible ends of the row's part, the likeliest first
  std::set<int> lines;
};

// Meaning of a line about the end of a program: a fault, the exit code of a program that says FAILED itself, or what
// such an exit may have caused.
enum class Ending { fault, answer, consequence };
struct Failure {
  Ending ending = Ending::fault;
  std::string text;
};
constexpr int most_failures = 5;

// Parser for the lines of a log; lines outside tables (logs of NCCL, warnings) are skipped.
class Reader {
 public:
  void take(const Line& line) {
    if (line.left_out > 0)
      log_.remarks.push_back(fmt::format("line {}: {} characters in its middle were left out, because it is so long",
                                         line.first, line.left_out));
    if (!line.foreign && cut_) {
      const Line cut = *std::exchange(cut_, std::nullopt);
      if (continues_row(line)) return take(joined(cut, line));
      take_whole(cut);
    }
    if (line.is_cut && !is_blank(line.text))
      cut_ = line;
    else
      take_whole(line);
  }

  Log finish() {
    if (cut_) take_whole(*cut_);
    end_program();
    judge_ends();
    if (log_.tables.empty())
      refuse(line_, "nothing in this file looks like the table of nccl-tests" +
                        (log_.ended_by.empty() ? "" : "; " + log_.ended_by));
    for (const Table& each : log_.tables)
      if (log_.started.empty() && !each.rows.empty()) log_.started = each.rows.front().timestamp;
    // NCCL's log may stand behind the tables.
    if (std::ranges::all_of(log_.tables, [](const Table& each) { return each.nccl.empty(); }))
      table().nccl = next_.nccl;
    return std::move(log_);
  }

 private:
  // True if the line is neither a comment nor a complete row.
  bool continues_row(const Line& line) const {
    const bool is_comment = line.text.starts_with('#') && find_comment(line.text) == 0;
    return !is_comment && !(columns_ && unanimous(variants_of(line), [&](auto& text) {
                              return trusted(text, !line.gaps.empty(), line.ended);
                            }));
  }

  static Line joined(const Line& cut, const Line& line) {
    Line whole = cut;
    whole.gaps.push_back({cut.text.size(), ""});
    for (const Gap& gap : line.gaps) whole.gaps.push_back({cut.text.size() + gap.at, gap.ambiguous});
    whole.text += line.text;
    whole.last = line.last;
    whole.ended = line.ended;
    whole.is_cut = line.is_cut;
    return whole;
  }

  void take_whole(const Line& line) {
    line_ = line.last;
    if (is_blank(line.text)) return;
    if (begins_program(line)) end_program();
    if (!line.foreign) note_program(line.text);
    note_versions(line.text);
    note_failure(line.text);
    if (line.foreign) return;
    const std::size_t at = find_comment(line.text);
    if (at == std::string::npos) return take_row(line);
    if (at > 0) {
      Line before = line;
      before.text.resize(at);
      before.ended = true;
      std::erase_if(before.gaps, [&](const Gap& gap) { return gap.at > at; });
      take_row(before);
    }
    line_ = line.last;
    const std::vector<std::string> readings = variants_of(line);
    const auto lists_device = [](const std::string& text) { return device_in(comment_in(text)).has_value(); };
    const auto device = std::ranges::find_if(readings, lists_device);
    comment(std::string(comment_in(device == readings.end() ? line.text : *device)));
  }

  Table& table() { return log_.tables.back(); }

  static std::string_view comment_in(std::string_view text) {
    const std::size_t at = find_comment(text);
    return at == std::string_view::npos ? "" : text.substr(at);
  }

  // Detects "# Collective test starting" of new versions and "# nThread" of all.
  bool begins_program(const Line& line) const {
    if (line.foreign || find_comment(line.text) == std::string::npos) return false;
    if (line.text.find("Collective test starting") != std::string::npos) return true;
    return line.text.find("# nThread") != std::string::npos && (columns_ || program_line_ > 0 || !failures_.empty());
  }

  // The program's name appears in the command before it or in its first lines. Folders and files may have such names
  // too, so one that p5bench knows precedes others, and other names replace it only where they are those of a command.
  // Other processes write between the lines of a program, which has its name from "Collective test starting" then.
  void note_program(std::string_view text) {
    constexpr std::string_view mpi = "_mpi", ending = "_perf";
    const bool has_ended = text.find("concluded") != std::string_view::npos;
    std::string_view unknown;
    bool is_started = text.find("Collective test starting") != std::string_view::npos;
    if (is_started)
      is_named_ = text.find(ending) != std::string_view::npos;
    else if (is_named_ && !columns_)
      return;
    for (Scan scan(text); !scan.at_end(); scan.take_while([](char c) { return !is_word(c); })) {
      std::string_view word = scan.take_while(is_word);
      if (word.ends_with(mpi)) word.remove_suffix(mpi.size());
      if (!word.ends_with(ending) || word.size() == ending.size() || scan.rest().starts_with('/')) continue;
      if (has_ended) return set_ended_program(word);
      if (try_find_collective(word)) return set_program(word);
      if (!unknown.empty()) continue;
      const std::string_view behind = trimmed(scan.rest());
      unknown = word;
      is_started = is_started || (behind.starts_with('-') && behind.size() < scan.rest().size());
    }
    const std::string& noted = columns_ ? following_program_ : next_.program;
    if (!unknown.empty() && (is_started || !try_find_collective(noted))) set_program(unknown);
  }
  void set_program(std::string_view name) { (columns_ ? following_program_ : next_.program) = name; }

  // "# Collective test concluded: all_reduce_perf" names the last table, unless another program has begun since.
  void set_ended_program(std::string_view name) {
    const bool has_begun = !columns_ && program_line_ > 0;
    if (!has_begun && !log_.tables.empty() && table().program.empty()) table().program = name;
  }

  void note_versions(std::string_view text) {
    const auto any = [](char c) { return !is_space(c); };
    if (std::string found = value_after(text, "nccl-tests version ", any); !found.empty())
      log_.context["nccl-tests"] = std::move(found);
    const auto versions = [](char c) { return is_word(c) || c == '.' || c == '+'; };
    if (std::string found = value_after(text, "NCCL version ", versions); !found.empty() && is_digit(found.front()))
      set_nccl(std::move(found));
    if (const std::string found = value_after(text, "nccl-library=", is_digit); !found.empty()) {
      const int code = as_number<int>(found).value_or(0);
      set_nccl(fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100));
    }
  }
  // Within a table that has a version already, the next program may have begun.
  void set_nccl(std::string version) {
    (!columns_ ? next_.nccl : table().nccl.empty() ? table().nccl : following_nccl_) = std::move(version);
  }

  // "host: Test NCCL failure common.cu:401 'unhandled system error ...'"
  void note_failure(std::string_view text) {
    constexpr std::array<std::string_view, 3> failures{"Test NCCL failure ", "Test CUDA failure ", "Test timeout ("};
    // What launchers and libraries print about a process that was killed; before a program it is of something else.
    constexpr std::array<std::string_view, 5> ends{" exited on signal ", "Caught signal ", "Process received signal",
                                                   "Segmentation fault", "slurmstepd: error: *** "};
    // These may be the end of the other processes after one exits. Slurm names other reasons: "DUE TO TIME LIMIT".
    constexpr std::array<std::string_view, 3> consequences{": Killed", "slurmstepd: error: *** STEP ",
                                                           "BAD TERMINATION OF "};
    // Lines of Slurm, MPICH and Intel MPI.
    constexpr std::array<std::string_view, 3> exits{": Exited with exit code ", "=   EXIT CODE: ", "=   EXIT STATUS: "};
    constexpr int code_of_failed = 1;
    const auto stands = [&](std::string_view each) { return text.find(each) != std::string_view::npos; };
    int code = 0;
    for (const std::string_view each : exits)
      code = std::max(code, as_number<int>(value_after(text, each, is_digit)).value_or(0));
    Ending ending = Ending::fault;
    if (std::ranges::none_of(failures, stands)) {
      if (!columns_ && program_line_ == 0 && log_.tables.empty()) return;
      if (code == code_of_failed)
        ending = Ending::answer;
      else if (code == 0 && std::ranges::any_of(consequences, stands) && !stands("DUE TO "))
        ending = Ending::consequence;
      else if (code == 0 && std::ranges::none_of(ends, stands))
        return;
    }
    constexpr std::size_t longest = 300;
    if (std::ranges::count(failures_, ending, &Failure::ending) < most_failures)
      failures_.push_back({ending, printable(trimmed(text).substr(0, longest))});
  }

  // A program that says FAILED behind its table exits with an error, and launchers may end the other processes then.
  void drop_answers() {
    const bool has_table = columns_ || (program_line_ == 0 && !log_.tables.empty());
    if (!has_table || !(table().below_demanded || table().out_of_bounds)) return;
    if (std::ranges::find(failures_, Ending::answer, &Failure::ending) == failures_.end()) return;
    std::erase_if(failures_, [](const Failure& each) { return each.ending != Ending::fault; });
  }

  // "#  Rank  0 Group  0 Pid  1234 on  host device  0 [0000:53:00] NVIDIA H100"; versions before 2.17 have no group.
  // Text behind a tab is a log collector's.
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
    device.rank = as_number<int>(number).value_or(0);
    if (take("Group")) {
      device.group = as_number<int>(number).value_or(0);
      scan.skip_space();
    }
    if (!take("Pid") || !scan.skip_space() || !scan.take("on") || !scan.skip_space()) return {};
    device.process = number;
    device.host = scan.take_while([](char c) { return !is_space(c); });
    if (device.host.empty() || !scan.skip_space() || !take("device") || !scan.skip_space() || !scan.take("["))
      return {};
    // Versions before 2.14.1 print the bus alone, which GPUs of several PCI domains have in common.
    const std::string_view bus = scan.take_while([](char c) { return c != ']'; });
    if (!bus.empty())
      device.gpu = std::ranges::count(bus, ':') < 2 ? fmt::format("{} [{}]", number, bus) : std::string(bus);
    if (!scan.take("]")) return {};
    device.name = trimmed(scan.rest().substr(0, scan.rest().find('\t')));
    return device;
  }

  // ---- comments

  // "#        (B)    (elements)   (us)  (GB/s)": the line below the head of a table.
  static bool names_units(std::string_view text) {
    const Words words = words_of(text);
    return std::ranges::find(words, "(B)") != words.end();
  }

  void comment(const std::string& text) {
    drop_pending();
    stray_.clear();
    if (std::optional<Device> device = device_in(text))
      return add_device(next_, std::move(*device), fmt::format("line {}", line_));
    if (const std::optional<Columns> columns = columns_of(text, title_, line_)) {
      if (!has_head_ && names_units(title_))
        refuse(line_,
               "its lines stand in reverse order, the units of the columns before their names: sort them by "
               "time, or `tac FILE`");
      has_head_ = true;
      return begin_table(*columns);
    }
    title_ = text;
    if (text.find("nThread") != std::string::npos) return begin_program(text);
    Sizes& sizes = columns_ ? table().sizes : next_.sizes;
    if (const std::string most = value_after(text, "Reducing maxBytes to ", is_digit); !most.empty())
      sizes.most = as_number<std::uint64_t>(most).value_or(sizes.most);
    if (text.find("Blocking Enabled") != std::string::npos) next_.blocking = true;
    if (!columns_) return;
    const Words words = words_of(text);
    const auto has_word = [&](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
    if (has_word("(B)")) check_units(text, line_);
    if (text.find("Out of bounds") != std::string::npos) {
      const auto values = as_number<std::uint64_t>(value_after(text, ": ", is_digit));
      table().values_out_of_bounds = values.value_or(0);
      table().out_of_bounds = has_word("FAILED") || table().values_out_of_bounds > 0;
      table().bounds_told = table().out_of_bounds || values || has_word("OK");
      has_footer_ = true;
    }
    if (text.find("Avg bus") != std::string::npos) {
      has_footer_ = true;
      table().below_demanded = has_word("FAILED");
      end_table();
    }
  }

  void begin_program(const std::string& text) {
    const auto value = [&](const char* name, std::uint64_t otherwise) {
      return as_number<std::uint64_t>(value_after(text, name, is_digit)).value_or(otherwise);
    };
    const auto small = [&](std::string_view in, const char* name, int otherwise) {
      return as_number<int>(value_after(in, name, is_digit)).value_or(otherwise);
    };
    Table fresh;
    fresh.program = next_.program;
    fresh.nccl = next_.nccl;
    next_ = std::move(fresh);
    program_line_ = line_;
    // Skips the iterations of the warm-up in "warmup iters: 5 iters: 20 agg iters: 1".
    constexpr std::string_view warm_up = "warmup iters: ";
    const std::size_t others = text.find(warm_up);
    next_.iterations =
        small(std::string_view(text).substr(others == std::string::npos ? 0 : others + warm_up.size()), " iters: ", 0);
    next_.aggregated = small(text, "agg iters: ", 1);
    next_.graphs = small(text, "graph: ", 0);
    next_.calls.unalign = small(text, "unalign: ", 0);
    const bool by_factor = text.find("(factor)") != std::string::npos;
    const std::uint64_t step = value("step: ", 0);
    next_.sizes = {value("minBytes ", 0), value("maxBytes ", 0), by_factor ? step : 0, by_factor ? 0 : step};
  }

  // ---- programs and tables

  void begin_table(const Columns& columns) {
    if (columns_) end_program();
    columns_ = columns;
    has_footer_ = false;
    lost_.clear();
    mismatched_.clear();
    next_.line = line_;
    log_.tables.push_back(next_);
    consistency_.emplace(listed_ranks(next_), try_find_collective(next_.program));
  }

  void end_table() {
    drop_pending();
    // No row fits if a program counts elements differently and the list of ranks is incomplete.
    if (counts_differently(table().rows, mismatched_))
      table().rows.insert(table().rows.end(), mismatched_.begin(), mismatched_.end());
    else
      for (const ResultRow& row : mismatched_) lost_.insert(row.line);
    if (!lost_.empty())
      log_.remarks.push_back(
          fmt::format("{} {}: no whole row of the table could be read there, because other text stands in it or it is "
                      "cut off; what is not whole was left out",
                      lost_.size() == 1 ? "line" : "lines", lines_in_words(lost_)));
    std::ranges::move(missing_sizes(table(), has_footer_), std::back_inserter(log_.remarks));
    columns_.reset();
    next_ = {};  // does not apply to further programs of the file
    is_named_ = false;
    next_.program = std::exchange(following_program_, "");
    next_.nccl = std::exchange(following_nccl_, "");
    program_line_ = 0;
  }

  // Called at the beginning of the next program and at the end of the file.
  void end_program() {
    drop_answers();
    const bool in_table = columns_.has_value();
    const int began = program_line_;
    bool died = !failures_.empty();
    std::string name = in_table ? table().program : next_.program;
    if (name.empty()) name = "nccl-tests";
    std::string what;
    if (in_table) {
      const int head = table().line;
      const bool whole = has_footer_, as_pasted = table().sizes.most == 0, reached = reaches_its_end(table());
      end_table();
      if (!whole) {
        died = died || !(as_pasted || reached);
        what = fmt::format("the table of line {} has no '# Avg bus bandwidth' after it: {}", head,
                           died ? "the program died or the file is cut off, and its rows until then were read"
                                : "its last rows may be missing");
      }
    } else if (began > 0) {
      died = true;
      what = fmt::format("the program of line {} ({}) ended before its table", began, name);
    } else if (died) {
      what = fmt::format("{} failed behind a table", name);
    }
    if (failures_.size() > most_failures) failures_.resize(most_failures);
    for (const Failure& failure : failures_) what += (what.empty() ? "" : "; ") + failure.text;
    if (!what.empty()) log_.remarks.push_back(what);
    const std::string reason = !died               ? ""
                               : failures_.empty() ? what
                                                   : fmt::format("{} died: {}", name, failures_.front().text);
    if (!what.empty())
      ends_.push_back(
          {in_table && failures_.empty() ? std::optional(log_.tables.size() - 1) : std::nullopt, what, reason});
    failures_.clear();
    program_line_ = 0;
    is_named_ = false;
    Table fresh;
    fresh.program = next_.program;
    fresh.nccl = next_.nccl;
    next_ = std::move(fresh);
    title_.clear();
  }

  // Tables without their end may be the beginning of another one, of a log that was read again from its start, or while
  // it was written: the same processes and figures. These count once, and did not end early.
  void judge_ends() {
    std::set<std::size_t> left_out;
    for (const End& end : ends_) {
      std::size_t whole = log_.tables.size();
      if (end.cut_table)
        for (whole = 0; whole < log_.tables.size(); ++whole)
          if (whole != *end.cut_table && !left_out.contains(whole) &&
              is_beginning(log_.tables[*end.cut_table], log_.tables[whole]))
            break;
      if (whole == log_.tables.size()) {
        if (log_.ended_by.empty()) log_.ended_by = end.reason;
        continue;
      }
      left_out.insert(*end.cut_table);
      std::ranges::replace(log_.remarks, end.remark,
                           fmt::format("{} is the beginning of {}: it counts once",
                                       in_words(log_.tables[*end.cut_table]), in_words(log_.tables[whole])));
    }
    for (auto each = left_out.rbegin(); each != left_out.rend(); ++each)
      log_.tables.erase(log_.tables.begin() + static_cast<std::ptrdiff_t>(*each));
  }

  // True if `cut` has the first rows of `whole`, of the same processes. Without their numbers nothing shows it.
  static bool is_beginning(const Table& cut, const Table& whole) {
    const auto has_process = [](const Device& each) { return !each.process.empty(); };
    return !cut.rows.empty() && cut.rows.size() <= whole.rows.size() &&
           std::equal(cut.rows.begin(), cut.rows.end(), whole.rows.begin(), same_row) && !cut.devices.empty() &&
           std::ranges::all_of(cut.devices, has_process) && cut.devices == whole.devices &&
           cut.program == whole.program && cut.iterations == whole.iterations && cut.graphs == whole.graphs &&
           cut.aggregated == whole.aggregated && cut.blocking == whole.blocking;
  }

  // ---- rows

  void keep(ResultRow row) {
    consistency_->learn(row);
    table().rows.push_back(std::move(row));
  }

  // `text` as a trusted row, or null. `assembled`: it was joined from pieces.
  std::optional<ResultRow> trusted(std::string_view text, bool assembled, bool ended) const {
    const std::optional<FoundRow> found = find_row(text, *columns_, line_);
    if (!found || !found->ends_surely || (!ended && !found->no_more)) return {};
    if (!consistency_->fits_size(found->row)) return {};
    if (assembled && (!is_blank(text.substr(0, found->begin)) || !consistency_->fits_figures(found->row))) return {};
    return found->row;
  }

  static bool same_row(const ResultRow& a, const ResultRow& b) {
    const auto same = [](const std::optional<Timing>& x, const std::optional<Timing>& y) {
      return x.has_value() == y.has_value() && (!x || (x->time_us == y->time_us && x->wrong == y->wrong));
    };
    return a.size == b.size && a.type == b.type && a.op == b.op && a.root == b.root &&
           same(a.out_of_place, b.out_of_place) && same(a.in_place, b.in_place);
  }

  // All variants of a line with more or less of the ambiguous text at its gaps.
  static std::vector<std::string> variants_of(const Line& line) {
    constexpr std::size_t most = 64;
    std::vector<std::string> texts{line.text};
    for (auto gap = line.gaps.rbegin(); gap != line.gaps.rend(); ++gap) {
      if (gap->ambiguous.empty() || texts.size() * gap->ambiguous.size() > most) continue;
      std::vector<std::string> more;
      for (const std::string& text : texts)
        for (std::size_t own = 0; own <= gap->ambiguous.size(); ++own)
          more.push_back(std::string(text).insert(gap->at, gap->ambiguous.substr(0, own)));
      texts = std::move(more);
    }
    return texts;
  }

  // The row if all trusted readings agree.
  template <class Read>
  static std::optional<ResultRow> unanimous(const std::vector<std::string>& texts, const Read& read) {
    std::optional<ResultRow> found;
    for (const std::string& text : texts) {
      const std::optional<ResultRow> row = read(text);
      if (row && found && !same_row(*row, *found)) return {};
      if (row) found = row;
    }
    return found;
  }

  // Accepts pasted rows without a head if their figures are consistent with 2.13 and later.
  void begin_without_head(const Line& line) {
    const Columns columns{.op = true, .root = true, .half = {"time", "algbw", "busbw", "#wrong"}, .counts_wrong = true};
    const Consistency any(0, nullptr);
    const std::optional<FoundRow> found = find_row(line.text, columns, line.first);
    if (!found || !found->ends_surely || !any.fits_size(found->row) || !any.fits_figures(found->row)) {
      constexpr std::size_t enough = 3, most = 100;
      if (beginning_of_row(line.text) > 0 || words_of(line.text.substr(end_of_row(line.text))).size() >= enough)
        if (stray_.size() < most) stray_.insert({line.first, line.last});
      return;
    }
    line_ = line.first;
    begin_table(columns);
    lost_ = stray_;
    log_.remarks.push_back(
        fmt::format("line {}: rows without the head of their table were read as those of nccl-tests "
                    "2.13 and later",
                    line.first));
  }

  void take_row(const Line& line) {
    if (!columns_) begin_without_head(line);
    if (!columns_ || is_blank(line.text)) return;
    line_ = line.first;
    const std::vector<std::string> texts = variants_of(line);
    const bool assembled = !line.gaps.empty();
    if (std::optional<ResultRow> row =
            unanimous(texts, [&](auto& text) { return trusted(text, assembled, line.ended); })) {
      drop_pending();
      return keep(std::move(*row));
    }
    if (std::optional<ResultRow> row = unanimous(texts, [&](auto& text) { return continue_pending(text, line.ended); }))
      return keep(std::move(*row));
    if (const std::size_t within = beginning_of_row(line.text); within > 0 && within < line.text.size())
      if (std::optional<ResultRow> row =
              unanimous(texts, [&](auto& text) { return without_middle(text, line.ended); })) {
        drop_pending();
        return keep(std::move(*row));
      }
    note_piece(line);
  }

  void note_piece(const Line& line) {
    const std::string& text = line.text;
    std::set<int> lines;
    for (int number = line.first; number <= line.last && number < line.first + 100; ++number) lines.insert(number);
    if (!line.gaps.empty()) lines = {line.first};
    const std::size_t begin = beginning_of_row(text), end = end_of_row(text);
    const std::size_t first = text.find_first_not_of(" \t");
    const bool pure = end <= first;
    if (const std::optional<FoundRow> found = find_row(text, *columns_, line.first);
        found && found->ends_surely && (line.ended || found->no_more) && !consistency_->fits_size(found->row) && pure &&
        line.gaps.empty() && pending_.empty()) {
      mismatched_.push_back(found->row);
      return;
    }
    constexpr std::size_t most_pieces = 8;
    const bool digits_first = is_digit(text[first]);
    const bool begins =
        pure ? digits_first || !pending_.empty()
             : (begin > 0 && (words_of(text.substr(0, begin)).size() > 1 || first > 0)) || (digits_first && first > 0);
    if (begins) {
      if (pending_.size() == most_pieces) {
        lost_.merge(pending_.front().lines);
        pending_.erase(pending_.begin());
      }
      pending_.push_back({text, ends_in(text, begin), std::move(lines)});
      return;
    }
    constexpr std::size_t enough = 4;
    const std::size_t run = words_of(text.substr(end)).size();
    if (pure || run >= enough || (!pending_.empty() && run > 1) || find_row(text, *columns_, line.first))
      lost_.merge(lines);
  }

  // Possible ends of a row's piece at the beginning of `text`, the longest first.
  static std::vector<std::size_t> ends_in(const std::string& text, std::size_t begin) {
    if (is_blank(text.substr(begin))) return {text.size()};
    std::vector<std::size_t> ends;
    const std::size_t next = text.find_first_not_of(" \t", begin);
    std::size_t most = next;
    while (most < text.size() && (is_digit(text[most]) || text[most] == '.' || text[most] == '-')) ++most;
    for (std::size_t end = most + 1; end-- > next;) ends.push_back(end);
    ends.push_back(begin);
    // Numbers may belong to the other text.
    Words words = words_of(std::string_view(text).substr(0, begin));
    for (; words.size() > 1; words.pop_back()) {
      const auto at = static_cast<std::size_t>(words.back().data() - text.data());
      for (std::size_t end = at + words.back().size(); end-- > at;) ends.push_back(end);
      constexpr std::size_t enough = 40;
      if (ends.size() > enough) break;
    }
    return ends;
  }

  // Possible beginnings of a row's piece at the end of `text`.
  static std::vector<std::size_t> begins_in(const std::string& text) {
    std::vector<std::size_t> begins{0};
    const std::size_t run = end_of_row(text);
    if (run >= text.size() || is_blank(text.substr(0, run))) return begins;
    std::size_t least = run;
    while (least > 0 && is_space(text[least - 1])) --least;
    while (least > 0 && (is_digit(text[least - 1]) || text[least - 1] == '.')) --least;
    for (std::size_t at = least; at <= run; ++at) begins.push_back(at);
    for (const std::string_view word : words_of(std::string_view(text).substr(run)))
      begins.push_back(static_cast<std::size_t>(word.data() - text.data()));
    return begins;
  }

  // Joins a prefix of `front` with a suffix of `text`; null unless exactly one row results.
  std::optional<ResultRow> join_pieces(const std::string& front, const std::vector<std::size_t>& ends,
                                       const std::string& text, const std::vector<std::size_t>& begins, bool ended) {
    constexpr std::size_t most_tries = 2'000'000;  // bounds the work on hostile files; remaining pieces are reported
    std::optional<ResultRow> found;
    for (const std::size_t end : ends)
      for (const std::size_t begin : begins)
        for (const char* between : {"", " "}) {
          if (++tries_ > most_tries) return {};
          if (&front == &text && begin <= end) continue;
          const std::optional<ResultRow> row =
              trusted(front.substr(0, end) + between + text.substr(begin), true, ended);
          if (row && found && !same_row(*row, *found)) return {};
          if (row) found = row;
        }
    return found;
  }

  // Continues pending pieces with `text`.
  std::optional<ResultRow> continue_pending(const std::string& text, bool ended) {
    const std::vector<std::size_t> begins = begins_in(text);
    for (std::size_t from = 0; from < pending_.size(); ++from) {
      std::string front;
      for (std::size_t i = from; i + 1 < pending_.size(); ++i)
        front += pending_[i].text.substr(0, pending_[i].ends.front());
      std::vector<std::size_t> ends = pending_.back().ends;
      for (std::size_t& end : ends) end += front.size();
      front += pending_.back().text;
      if (std::optional<ResultRow> row = join_pieces(front, ends, text, begins, ended)) {
        row->line = *pending_[from].lines.begin();
        for (std::size_t i = 0; i < from; ++i) lost_.merge(pending_[i].lines);
        pending_.clear();
        return row;
      }
    }
    return {};
  }

  // Removes other text within a row that has no line end.
  std::optional<ResultRow> without_middle(const std::string& text, bool ended) {
    return join_pieces(text, ends_in(text, beginning_of_row(text)), text, begins_in(text), ended);
  }

  void drop_pending() {
    for (Pending& each : pending_) lost_.merge(each.lines);
    pending_.clear();
  }

  std::optional<Line> cut_;  // the next line shows if it continues
  Log log_;
  Table next_;                      // head of the next table, as far as it was read
  bool is_named_ = false;           // "Collective test starting" named the program of the current or the next table
  std::string following_program_;   // program after the current table
  std::string following_nccl_;      // version of its library
  std::optional<Columns> columns_;  // columns of the current table; null outside a table
  std::string title_;               // the previous comment
  std::optional<Consistency> consistency_;
  std::vector<Pending> pending_;       // pieces of a row in order
  std::vector<ResultRow> mismatched_;  // complete rows whose element count does not fit their size
  std::set<int> stray_;                // possible lines of rows outside a table since the last comment
  std::set<int> lost_;                 // lines of the table without a row
  std::vector<Failure> failures_;
  struct End {
    std::optional<std::size_t> cut_table;  // its place in the log, if nothing but its missing end shows that it died
    std::string remark, reason;            // no reason if it may be whole
  };
  std::vector<End> ends_;  // of programs that are not whole
  std::size_t tries_ = 0;  // attempts to join pieces
  bool has_head_ = false;  // some table has one
  bool has_footer_ = false;
  int program_line_ = 0;  // first line of the program; 0: it has a table already, or it is unknown
  int line_ = 0;
};

}  // namespace

Log read_text(std::string_view text) {
  Reader reader;
  for (const Line& line : lines_of(text)) reader.take(line);
  return reader.finish();
}

}  // namespace p5::reports::nccl_tests
