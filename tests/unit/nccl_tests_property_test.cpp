// Random tables with random prefixes, other text in them, and cuts: complete rows are read with their figures, and
// lines of incomplete rows are reported. The generator prints like nccl-tests (src/common.cu, src/util.cu) and is
// independent of the parser.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "reports/nccl_tests.hpp"
#include "reports/writer.hpp"

namespace p5::reports::nccl_tests {
namespace {

struct Half {
  double time_us = 0, step_us = 0;  // as printed; unit of the last digit
  std::optional<std::uint64_t> wrong;
};

struct TrueRow {
  std::uint64_t size = 0;
  std::optional<Half> out_of_place = {}, in_place = {};
  bool touched = false;     // interrupted by other text, or truncated
  int first = 0, last = 0;  // its lines in the log
  bool is_there = true;     // completely before the end of a truncated log
};

struct GeneratedLog {
  std::string text;
  std::vector<TrueRow> rows;
  bool lists_are_touched = false;  // the head, the list of ranks or the program's name
  bool cut = false;
  bool strict = false;  // only whole lines of NCCL were inserted: all rows can be reassembled
  std::string recipe;
};

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  GeneratedLog make() {
    choose();
    print();
    disturb();
    put_out();
    return std::move(log_);
  }

 private:
  enum class Version { v2_0, v2_10, v2_13, v2_17, per_iteration, timestamps, rccl_in_place };

  int below(int end) { return std::uniform_int_distribution(0, end - 1)(random_); }
  bool perhaps(double share) { return std::uniform_real_distribution<double>()(random_) < share; }
  template <class List>
  auto one_of(const List& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(std::size(list))))];
  }

  template <class... Values>
  static std::string c_format(const char* form, Values... values) {
    char buffer[2048];
    std::snprintf(buffer, sizeof buffer, form, values...);
    return buffer;
  }

  // ---- programs

  void choose() {
    version_ = static_cast<Version>(below(7));
    constexpr std::array programs{"all_reduce_perf", "all_gather_perf", "reduce_scatter_perf",
                                  "alltoall_perf",   "broadcast_perf",  "sendrecv_perf"};
    program_ = one_of(programs);
    constexpr std::array ranks{2, 4, 8, 16, 64};
    ranks_ = one_of(ranks);
    constexpr std::array names{"gpu-a", "ip-10-0-3-17", "3f2a9c1b7d5e", "node7", "7abc", "h", "worker-0-rack1"};
    const std::string first = one_of(names);
    hosts_ = {first, first + "b"};
    log_.recipe = fmt::format("version {} {} ranks {} host {}", static_cast<int>(version_), program_, ranks_, first);
  }

  std::string host_of(int rank) const { return hosts_[rank < ranks_ / 2 ? 0 : 1]; }

  // ---- their output

  struct Printed {
    std::string text;
    int row = -1;
    bool matters = false;  // the header, a rank
  };
  std::vector<Printed> lines_;

  void line(const std::string& text, bool matters = false) { lines_.push_back({text, -1, matters}); }

  // Format since 2.17: as many decimals as fit.
  static std::string in_width(double value, int width) {
    for (const char* form : {"%*.2f", "%*.1f", "%*.0f"})
      if (std::string text = c_format(form, width, value); std::ssize(text) <= width) return text;
    return c_format(width >= 7 ? "%*.1e" : "%*.0e", width, value);
  }

  std::string time_in_columns(double us) const {
    if (version_ >= Version::v2_17 && version_ != Version::rccl_in_place) return in_width(us, 7);
    return c_format(us >= 10000 ? "%7.0f" : us >= 100 ? "%7.1f" : "%7.2f", us);
  }
  std::string rate_in_columns(double rate) const {
    if (version_ >= Version::v2_17 && version_ != Version::rccl_in_place) return in_width(rate, 6);
    return c_format("%6.2f", rate);
  }

  double busbw_factor() const {
    const double n = ranks_;
    const std::string name = program_;
    if (name == "all_reduce_perf") return 2 * (n - 1) / n;
    return name == "broadcast_perf" || name == "sendrecv_perf" ? 1 : (n - 1) / n;
  }

  std::string half(std::uint64_t size, bool in_place, Half& out) {
    const double rate = std::exp(std::uniform_real_distribution<double>(std::log(0.05), std::log(800.0))(random_));
    const double least = std::exp(std::uniform_real_distribution<double>(std::log(1.0), std::log(90.0))(random_));
    const double us = std::max(least, static_cast<double>(size) / rate * 1e-3) * (1 + 0.3 * below(2));
    const double algbw = static_cast<double>(size) / us * 1e-3;
    std::string time = time_in_columns(us);
    out.time_us = std::strtod(time.c_str(), nullptr);
    const std::size_t point = time.find('.');
    out.step_us = time.find('e') != std::string::npos ? std::pow(10, std::floor(std::log10(us)) - 1)
                  : point == std::string::npos        ? 1
                                                      : std::pow(10, -static_cast<double>(time.size() - point - 1));
    const bool old = version_ <= Version::v2_10;
    std::string wrong = "0";
    if (old) {
      wrong = "0e+00";
    } else if (in_place && std::string(program_) == "alltoall_perf") {
      wrong = "N/A";
    } else {
      out.wrong = perhaps(0.1) ? static_cast<std::uint64_t>(1 + below(perhaps(0.5) ? 20 : 300000)) : 0;
      wrong = c_format("%g", static_cast<double>(*out.wrong));
      out.wrong = static_cast<std::uint64_t>(std::strtod(wrong.c_str(), nullptr));
    }
    std::string text = c_format("  %7s  %6s  %6s  %6s", time.c_str(), rate_in_columns(algbw).c_str(),
                                rate_in_columns(algbw * busbw_factor()).c_str(), wrong.c_str());
    if (version_ == Version::per_iteration)
      for (int i = 0; i < 4; ++i) text += "  " + in_width(us * (1 + 0.01 * i), 7);
    return text;
  }

  void print_row(std::uint64_t bytes) {
    const std::string name = program_;
    const bool shared = name == "all_gather_perf" || name == "reduce_scatter_perf" || name == "alltoall_perf";
    const std::uint64_t count = bytes / 4 / static_cast<std::uint64_t>(shared ? ranks_ : 1);
    TrueRow row{.size = bytes};
    const bool reduces = name == "all_reduce_perf" || name == "reduce_scatter_perf";
    const bool old = version_ == Version::v2_0;
    std::string text = c_format("%12li  %12li  %8s", static_cast<long>(bytes), static_cast<long>(count), "float");
    if (old || version_ == Version::v2_10) {
      if (reduces) text += c_format("  %6s", "sum");
      if (!reduces && version_ == Version::v2_10) text += c_format("  %6s", "");
      if (name == "broadcast_perf") text += c_format("  %6i", 0);
    } else {
      text += c_format("  %6s  %6i", reduces ? "sum" : "none", name == "broadcast_perf" ? 0 : -1);
    }
    if (version_ != Version::rccl_in_place) text += half(bytes, false, row.out_of_place.emplace());
    text += half(bytes, true, row.in_place.emplace());
    if (name == "alltoall_perf" && version_ != Version::rccl_in_place) row.in_place.reset();
    if (name == "alltoall_perf" && version_ <= Version::v2_10) text.replace(text.size() - 5, 5, "  N/A");
    if (version_ == Version::timestamps) text += c_format("%21s", "2026-11-20 10:00:59");
    lines_.push_back({text, static_cast<int>(log_.rows.size()), false});
    log_.rows.push_back(row);
  }

  void print() {
    const int rows = 1 + below(12);
    std::uint64_t size = std::uint64_t{4} << (6 + below(12));
    const std::uint64_t first = size;
    const bool by_factor = perhaps(0.7);
    const std::uint64_t last = by_factor ? first << (rows - 1) : first * static_cast<std::uint64_t>(rows);
    const bool is_new = version_ >= Version::v2_17 && version_ != Version::rccl_in_place;
    line(std::string(is_new ? "# Collective test starting: " : "$ mpirun -np 4 ./build/") + program_, true);
    line(c_format("# nThread 1 nGpus 1 minBytes %ld maxBytes %ld step: %ld(%s) warmup iters: 5 iters: 20 agg iters: 1 "
                  "validation: 1 graph: 0",
                  static_cast<long>(first), static_cast<long>(last), static_cast<long>(by_factor ? 2 : first),
                  by_factor ? "factor" : "bytes"),
         true);
    line("#");
    line("# Using devices");
    for (int rank = 0; rank < ranks_; ++rank)
      line(version_ >= Version::v2_13
               ? c_format("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%04x:%02x:00] NVIDIA H100 80GB HBM3", rank,
                          0, 4100 + rank, host_of(rank).c_str(), rank % 8, rank / 8, 16 + rank % 8)
               : c_format("#   Rank %2d Pid %6d on %10s device %2d [0x%02x] NVIDIA A100", rank, 4100 + rank,
                          host_of(rank).c_str(), rank, 16 + rank % 8),
           true);
    line("#");
    print_head();
    for (int i = 0; i < rows; ++i, size = by_factor ? size * 2 : size + first) print_row(size);
    line("# Out of bounds values : 0 OK");
    line("# Avg bus bandwidth    : 20.5 ");
    line("#");
    if (is_new) line(std::string("# Collective test concluded: ") + program_);
  }

  void print_head() {
    const std::string name = program_;
    const bool reduces = name == "all_reduce_perf" || name == "reduce_scatter_perf";
    std::string columns = "#       size         count      type";
    if (version_ >= Version::v2_10 || reduces) columns += "   redop";
    if (version_ >= Version::v2_13 || name == "broadcast_perf") columns += "    root";
    std::string one =
        version_ <= Version::v2_10 ? "     time   algbw   busbw   error" : "     time   algbw   busbw  #wrong";
    if (version_ == Version::per_iteration) one += "    i_min    i_max    i_p99    i_cv%";
    line(version_ == Version::rccl_in_place ? "#                               in-place"
                                            : "#              out-of-place                       in-place          ",
         true);
    line(columns + one + (version_ == Version::rccl_in_place ? "" : one) +
             (version_ == Version::timestamps ? "           timestamp" : ""),
         true);
    line("#        (B)    (elements)            (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       ", true);
  }

  // ---- other text in the output

  // A character of the log and its line of the program; -1: other text.
  struct Character {
    char c = 0;
    int line = -1;
  };
  std::vector<Character> stream_;

  std::string nccl_line() {
    const int rank = below(ranks_);
    const std::string process = fmt::format("{}:{}:{} [{}] ", host_of(rank), 4100 + rank, 4200 + rank, rank % 8);
    switch (below(7)) {
      case 0:
        return process + "NCCL INFO Connected all rings";
      case 1:
        return process + fmt::format("NCCL INFO comm 0x55d0 rank {} nranks {} cudaDev 0 busId 10000 - Init COMPLETE",
                                     rank, ranks_);
      case 2:
        return process + "NCCL INFO Channel 00/02 :    0   1   2   3";
      case 3:
        return process + "NCCL INFO NET/OFI Selected Provider is efa (found 32 nics)";
      case 4:
        return "[2026-03-01 12:00:07] " + process + "NCCL INFO 16 coll channels, 16 collnet channels, 0 nvls channels";
      case 5:
        return "\n" + process +
               "transport/net.cc:123 NCCL WARN Call to connect returned Connection refused, retrying 7 of 20";
      default:
        return "NCCL version 2.28.3+cuda12.9";
    }
  }

  std::string any_line() {
    constexpr std::array lines{"WARNING: Open MPI accepted a TCP connection from what appears to be a",
                               "/usr/lib/python3/dist-packages/x.py:12: FutureWarning: deprecated",
                               "libfabric:4101:1700000000::core:core:fi_getinfo_():1234<warn> not found",
                               "[rank3]:[W1126 10:00:00.123 ProcessGroupNCCL.cpp:1234] Warning: hello",
                               "3 more processes have sent help message",
                               "srun: job 4711 has been allocated resources"};
    return one_of(lines);
  }

  void insert(std::size_t at, const std::string& text) {
    std::vector<Character> others;
    for (const char c : text) others.push_back({c, -1});
    // Text within a line of the program marks that line as touched.
    if (at > 0 && at < stream_.size() && stream_[at - 1].line >= 0 && stream_[at - 1].c != '\n')
      touch(stream_[at - 1].line);
    if (at < stream_.size() && at > 0 && stream_[at - 1].line < 0 && stream_[at - 1].c != '\n') touch(stream_[at].line);
    stream_.insert(stream_.begin() + static_cast<std::ptrdiff_t>(at), others.begin(), others.end());
  }

  void touch(int of_line) {
    if (of_line < 0) return;
    const Printed& printed = lines_[static_cast<std::size_t>(of_line)];
    if (printed.row >= 0) log_.rows[static_cast<std::size_t>(printed.row)].touched = true;
    if (printed.matters) log_.lists_are_touched = true;
  }

  // Inserts whole lines between lines of the program.
  void insert_lines(bool nccl) {
    const int times = below(6);
    for (int i = 0; i < times; ++i) {
      std::size_t at = 0;
      do at = static_cast<std::size_t>(below(static_cast<int>(stream_.size())));
      while (at > 0 && stream_[at - 1].line < 0 && stream_[at - 1].c != '\n');  // never within other text
      std::string text;
      const int lines = 1 + below(3);
      for (int j = 0; j < lines; ++j) text += (nccl ? nccl_line() : any_line()) + "\n";
      insert(at, text);
    }
  }

  // A row or comment is printed within another line, whose rest follows it.
  void put_in_others_lines() {
    const int times = below(3);
    for (int i = 0; i < times; ++i) {
      std::size_t at = static_cast<std::size_t>(below(static_cast<int>(stream_.size())));
      while (at > 0 && stream_[at - 1].c != '\n') --at;
      if (at >= stream_.size() || stream_[at].line < 0) continue;
      const std::string text = nccl_line();
      const std::size_t cut = text.find("] NCCL ");
      if (cut == std::string::npos) continue;
      const std::size_t end = cut + 8 + static_cast<std::size_t>(below(static_cast<int>(text.size() - cut - 8)));
      touch(stream_[at].line);
      std::vector<Character> others;
      for (const char c : text.substr(0, end)) others.push_back({c, -1});
      stream_.insert(stream_.begin() + static_cast<std::ptrdiff_t>(at), others.begin(), others.end());
      at += others.size();
      while (at < stream_.size() && stream_[at].c != '\n') ++at;
      others.clear();
      for (const char c : text.substr(end) + "\n") others.push_back({c, -1});
      stream_.insert(stream_.begin() + static_cast<std::ptrdiff_t>(std::min(at + 1, stream_.size())), others.begin(),
                     others.end());
    }
  }

  void disturb() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      for (const char c : lines_[i].text) stream_.push_back({c, static_cast<int>(i)});
      stream_.push_back({'\n', static_cast<int>(i)});
    }
    const int how = below(6);
    log_.strict = how <= 3;
    log_.recipe += fmt::format(", disturbed {}", how);
    if (how >= 2) insert_lines(true);
    if (how == 4) insert_lines(false);
    if (how == 5) put_in_others_lines();
  }

  // ---- collection of the log

  std::string prefix(int form, int number) {
    const int second = number / 7 % 60;
    switch (form) {
      case 0:
        return "";
      case 1:
        return "[1,0]<stdout>:";
      case 2:
        return fmt::format("[prterun-{}-4000@1,0]<stdout>: ", hosts_[0]);
      case 3:
        return fmt::format("Sun Mar  1 12:00:{:02} 2026[1,0]<stdout>:", second);
      case 4:
        return "[pod/nccl-test-launcher-x7k2p/mpi-launcher] ";
      case 5:
        return "(RayTrainWorker pid=944, ip=10.0.0.1) ";
      case 6:
        return fmt::format("2026-03-01T12:00:{:02}.{}Z stdout F ", second, 100000000 + number * 7919);
      case 7:
        return fmt::format("Mar 01 12:00:{:02} {} bench[4711]: ", second, hosts_[0]);
      case 8:
        return fmt::format("2026-03-01 12:00:{:02},{:03} - INFO - ", second, number % 1000);
      case 9:
        return "launcher-1  | ";
      case 10:
        return fmt::format("2026-03-01T12:00:{:02}.123Z ", second);
      case 11:
        return fmt::format("{:>6}\t", number);
      case 12:
        return "0: ";
      case 13:
        return "[0] ";
      case 14:
        return fmt::format("{{job=nccl}} <{}> ", number);
      default:
        return "> ";
    }
  }

  void put_out() {
    const int form = perhaps(0.3) ? 0 : below(16);
    const int colour = below(4);
    const std::string end = perhaps(0.2) ? "\r\n" : "\n";
    const bool hydra = form == 13 && perhaps(0.5);
    log_.recipe += fmt::format(", prefix {} colour {} hydra {}", form, colour, hydra);
    std::string& out = log_.text;
    struct End {
      std::size_t at = 0;
      int row = -1;
    };
    std::vector<std::size_t> end_of_row(log_.rows.size(), 0);
    int number = 1;
    bool at_begin = true, coloured = false;
    for (std::size_t i = 0; i < stream_.size(); ++i) {
      const Character& c = stream_[i];
      if (at_begin) {
        out += prefix(form, number);
        coloured = colour == 1 || (colour == 2 && c.line >= 0 && lines_[static_cast<std::size_t>(c.line)].row >= 0);
        if (coloured) out += colour == 1 ? "\x1b[0m" : "\x1b[32m";
        at_begin = false;
      }
      const int row = c.line >= 0 ? lines_[static_cast<std::size_t>(c.line)].row : -1;
      if (row >= 0) {
        TrueRow& of = log_.rows[static_cast<std::size_t>(row)];
        if (of.first == 0) of.first = number;
        of.last = number;
      }
      if (c.c == '\n') {
        if (coloured) out += "\x1b[0m";
        if (row >= 0) end_of_row[static_cast<std::size_t>(row)] = out.size();
        out += end;
        ++number;
        at_begin = true;
        continue;
      }
      // Writes of the program: the columns, then each half.
      if (hydra && row >= 0 && c.c == ' ' && i > 0 && stream_[i - 1].c != ' ' && perhaps(0.1))
        out += prefix(form, number);
      out += c.c;
    }
    if (perhaps(0.2)) {
      log_.cut = true;
      out.resize(static_cast<std::size_t>(below(static_cast<int>(out.size()))));
      for (std::size_t i = 0; i < log_.rows.size(); ++i) log_.rows[i].is_there = end_of_row[i] < out.size();
      log_.recipe += ", cut";
    }
  }

  std::mt19937_64 random_;
  Version version_{};
  const char* program_ = "";
  int ranks_ = 2;
  std::vector<std::string> hosts_;
  GeneratedLog log_;
};

// True if a remark names a line from `first` to `last`.
bool names_line(const std::vector<std::string>& remarks, int first, int last) {
  for (const std::string& remark : remarks) {
    int from = 0;
    for (std::size_t i = 0; i < remark.size();) {
      if (remark[i] < '0' || remark[i] > '9') {
        if (remark[i] != '-') from = 0;
        ++i;
        continue;
      }
      char* end = nullptr;
      const int number = static_cast<int>(std::strtol(remark.c_str() + i, &end, 10));
      i = static_cast<std::size_t>(end - remark.c_str());
      if (number >= first && number <= last) return true;
      if (from > 0 && from <= last && number >= first) return true;
      from = number;
    }
  }
  return false;
}

TEST(NcclTestsLogs, of_any_shape_give_their_whole_rows_or_say_what_is_not_whole) {
  const int logs = std::getenv("P5BENCH_NIGHTLY") ? 10000 : 300;
  int refused = 0, read = 0, told = 0;
  std::uint64_t first = 1;  // P5BENCH_SEED=17 prints the log of this seed and tests only it
  const char* const only = std::getenv("P5BENCH_SEED");
  if (only) first = std::strtoull(only, nullptr, 10);
  for (std::uint64_t seed = first; seed < first + static_cast<std::uint64_t>(only ? 1 : logs); ++seed) {
    const GeneratedLog log = Generator(seed).make();
    const std::string what = fmt::format("seed {}: {}", seed, log.recipe);
    if (only) fmt::print("{}\n", log.text);
    Report report;
    try {
      report = import(log.text, "", "lab").report;
    } catch (const UsageError& problem) {
      const bool any_row =
          std::ranges::any_of(log.rows, [](const TrueRow& row) { return row.is_there && !row.touched; });
      EXPECT_TRUE(!any_row || (log.lists_are_touched && !log.strict)) << what << ": " << problem.what();
      ++refused;
      continue;
    }
    EXPECT_NO_THROW(report_from_json(parse_json(render_json(report)))) << what;
    std::map<std::pair<std::uint64_t, bool>, const Measurement*> found;
    for (const Result& each : report.results) {
      const Measurement& m = each.measurement;
      EXPECT_TRUE(found.try_emplace({m.measured_case.bytes.count, m.measured_case.in_place}, &m).second) << what;
    }
    const bool tells_of_the_end = !log.cut || !report.run.ended_by.empty() ||
                                  std::ranges::any_of(report.run.remarks, [](const std::string& remark) {
                                    return remark.find("no '# Avg bus bandwidth'") != std::string::npos;
                                  });
    for (const TrueRow& row : log.rows)
      for (const bool in_place : {false, true}) {
        const std::optional<Half>& wanted = in_place ? row.in_place : row.out_of_place;
        const auto at = found.find({row.size, in_place});
        if (!wanted) {
          EXPECT_TRUE(at == found.end()) << what << " " << row.size;
          continue;
        }
        if (at == found.end()) {
          if (!row.is_there) {
            EXPECT_TRUE(tells_of_the_end || names_line(report.run.remarks, row.first, row.last))
                << what << " " << row.size;
            continue;
          }
          EXPECT_TRUE(row.touched && !log.strict) << what << ": lost " << row.size << " of line " << row.first;
          EXPECT_TRUE(names_line(report.run.remarks, row.first, row.last))
              << what << ": silent about " << row.size << " of lines " << row.first << " to " << row.last << "\n"
              << fmt::format("{}", fmt::join(report.run.remarks, "\n"));
          ++told;
          continue;
        }
        ++read;
        const Measurement& m = *at->second;
        EXPECT_NEAR(m.throughput->summary.median * 1e6, wanted->time_us, wanted->step_us * 0.5001)
            << what << " " << row.size << " of line " << row.first;
        EXPECT_EQ(m.wrong_elements, wanted->wrong.value_or(0)) << what << " " << row.size << " of line " << row.first;
        found.erase(at);
      }
    EXPECT_TRUE(found.empty()) << what << ": a row that was not there, of " << found.begin()->first.first << " B";
  }
  RecordProperty("refused", refused);
  RecordProperty("read", read);
  RecordProperty("told", told);
  if (!only) {
    EXPECT_GT(read, logs * 5);
    EXPECT_LT(refused, logs / 4);
  }
}

}  // namespace
}  // namespace p5::reports::nccl_tests
