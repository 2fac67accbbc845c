#include "bench/backends/worker_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"

namespace p5 {

namespace {

constexpr std::string_view info_mark = "NCCL INFO ", warn_mark = "NCCL WARN ", attn_mark = "NCCL ATTN ",
                           trace_mark = "NCCL TRACE ", call_mark = "NCCL CALL ", version_mark = "NCCL version ";
constexpr std::array choice_marks{std::string_view(" Bytes -> "), std::string_view("Best tuning {")};

bool has(std::string_view line, std::string_view mark) { return line.find(mark) != std::string_view::npos; }

bool of_nccl(std::string_view line) {
  return line.starts_with(version_mark) ||
         std::ranges::any_of(std::array{info_mark, warn_mark, attn_mark, trace_mark, call_mark},
                             [&](std::string_view mark) { return has(line, mark); });
}

// NCCL prints its version line without a prefix if the log level is VERSION only: "NCCL version 2.28.3+cuda13.0".
std::optional<std::string_view> version_in(std::string_view line) {
  if (line.starts_with(version_mark)) return line;
  const std::size_t mark = line.find(info_mark);
  if (mark == std::string_view::npos) return std::nullopt;
  const std::string_view said = line.substr(mark + info_mark.size());
  return said.starts_with(version_mark) ? std::optional(said) : std::nullopt;
}

// Limits of a worker's output, in bytes. WorkerBackend reads the log's start and end again; unread output grows beyond
// these limits only if a worker writes faster than 1 GB/s, or than the reader of ours takes it.
constexpr off_t most_at_once = 8 << 20, most_unread = 64 << 20, kept_at_start = 1 << 20, kept_at_end = 1 << 20;
constexpr std::size_t part_of_output = 1 << 16;
// Time after which a supervisor looks at its worker again, where the reader of its output is slow.
constexpr Seconds longest_at_once{1};

// A few megabytes of a worker's output at a time while it runs.
class OutputPass {
 public:
  OutputPass(off_t passed_on, bool ended) : end_(passed_on + (ended ? most_unread : most_at_once)), ended_(ended) {}
  bool goes_on(off_t passed_on, off_t size) const {
    return passed_on < std::min(size, end_) && (ended_ || since(start_).count < longest_at_once.count);
  }

 private:
  Clock::time_point start_ = Clock::now();
  off_t end_;
  bool ended_;
};

// True if TUNING is enabled, read as NCCL reads a list of subsystems: a leading ^ excludes those listed.
bool lists_choices(const std::string& subsystems) {
  if (subsystems.empty()) return false;
  const bool inverted = subsystems.front() == '^';
  const std::vector<std::string> names = split(lower(subsystems.substr(inverted ? 1 : 0)));
  const bool named = std::ranges::any_of(names, [](const auto& name) { return name == "tuning" || name == "all"; });
  return named != inverted;
}

std::string short_host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "";
  const std::string whole = name.data();
  return whole.substr(0, whole.find('.'));
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the reader is gone, which must not fail the run
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// A file in memory for output that the worker and its children append.
int memory_file(const char* name) {
  const int file = ::memfd_create(name, MFD_CLOEXEC);
  if (file < 0 || ::fcntl(file, F_SETFL, O_APPEND) != 0)
    throw CaseError(fmt::format("the worker's log: {}", describe_errno(errno)));
  return file;
}

off_t length_of(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 ? status.st_size : 0;
}

std::string bytes_of(int file, off_t from, std::size_t most) {
  std::string bytes(most, '\0');
  std::size_t length = 0;
  for (ssize_t got = 1; got > 0 && length < most; length += static_cast<std::size_t>(std::max<ssize_t>(got, 0)))
    got = ::pread(file, bytes.data() + length, most - length, from + static_cast<off_t>(length));
  bytes.resize(length);
  return bytes;
}

std::string without_control(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return c >= 0x7f || (c < ' ' && c != '\n' && c != '\t'); }, '?');
  return text;
}

}  // namespace

OperatorsLog::OperatorsLog(const Environment& environment) {
  const std::string level = lower(value_or_empty(environment, "NCCL_DEBUG"));
  if (level == "version") level_ = Level::version;
  if (level == "warn") level_ = Level::warn;
  if (level == "attn") level_ = Level::attn;
  if (level == "info" || level == "abort") level_ = Level::info;
  if (level == "trace") level_ = Level::trace;
  choices_ = lists_choices(value_or_empty(environment, "NCCL_DEBUG_SUBSYS"));
  pattern_ = value_or_empty(environment, "NCCL_DEBUG_FILE");
}

bool OperatorsLog::wants(std::string_view line) const {
  if (has(line, warn_mark)) return level_ >= Level::warn;
  if (has(line, attn_mark)) return level_ >= Level::attn;
  if (version_in(line)) return level_ >= Level::version;
  if (!has(line, info_mark)) return level_ >= Level::trace;
  const bool choice = std::ranges::any_of(choice_marks, [&](auto mark) { return has(line, mark); });
  return level_ >= Level::info && (choices_ || !choice);
}

OperatorsLog::Lines OperatorsLog::sort(std::string_view lines) const {
  Lines sorted;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size() - 1) + 1;
    const std::string_view line = lines.substr(at, end - at);
    at = end;
    if (line == "\n") continue;  // NCCL writes an empty line before a warning
    if (!of_nccl(line))
      sorted.others += line;
    else if (wants(line))
      sorted.asked_for += level_ < Level::info ? version_in(line).value_or(line) : line;
  }
  return sorted;
}

std::string OperatorsLog::file(std::string_view host, pid_t process) const {
  if (level_ <= Level::version) return "";
  std::string path;
  for (std::size_t i = 0; i < pattern_.size(); ++i) {
    const char next = pattern_[i] == '%' && i + 1 < pattern_.size() ? pattern_[i + 1] : '\0';
    if (next == 'h') path += host;
    if (next == 'p') path += std::to_string(process);
    if (next == '%') path += '%';
    if (next == 'h' || next == 'p' || next == '%')
      ++i;
    else
      path += pattern_[i];
  }
  return path;
}

std::vector<std::string> last_warnings(std::string_view log, std::size_t most) {
  std::vector<std::string> found;
  while (!log.empty() && found.size() < most) {
    const std::size_t before = log.substr(0, log.size() - 1).find_last_of('\n');
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    const std::string_view line = log.substr(begin);
    log = log.substr(0, begin);
    const std::size_t mark = line.find(warn_mark);
    if (mark == std::string_view::npos) continue;
    std::string text(line.substr(mark + warn_mark.size()));
    text.erase(text.find_last_not_of(" \r\n") + 1);
    if (std::ranges::find(found, text) == found.end()) found.insert(found.begin(), std::move(text));
  }
  return found;
}

WorkerLog::WorkerLog(const Environment& environment)
    : file_(memory_file("p5bench-worker-log")), operators_(environment) {}

WorkerLog::~WorkerLog() {
  ::close(file_);
  if (target_ && *target_ != STDOUT_FILENO) ::close(*target_);
}

off_t WorkerLog::size() const { return length_of(file_); }

std::string WorkerLog::text(off_t from, std::size_t most) const { return without_control(bytes_of(file_, from, most)); }

// The operator's log file, opened at the first line; standard output if opening fails, as in NCCL. Unlike in NCCL it is
// appended to, since output of an earlier worker may be needed.
int WorkerLog::target(pid_t process) {
  if (target_) return *target_;
  target_ = STDOUT_FILENO;
  if (const std::string path = operators_.file(short_host_name(), process); !path.empty())
    // O_NONBLOCK: opening a pipe without a reader would block this process forever.
    if (const int made = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
        made >= 0) {
      (void)::fcntl(made, F_SETFL, O_APPEND);
      target_ = made;
    }
  return *target_;
}

bool WorkerLog::flooded() const { return size() - passed_on_ > most_unread; }

void WorkerLog::pass_on(pid_t process, bool ended) {
  const OutputPass pass(passed_on_, ended);
  while (pass.goes_on(passed_on_, size())) {
    std::string lines = text(passed_on_, part_of_output);
    const std::size_t whole = lines.rfind('\n') + 1;
    if (whole > 0 || (lines.size() < part_of_output && !ended)) lines.resize(whole);
    if (lines.empty()) return;
    passed_on_ += static_cast<off_t>(lines.size());
    const OperatorsLog::Lines sorted = operators_.sort(lines);
    write_all(STDOUT_FILENO, sorted.others);
    if (!sorted.asked_for.empty()) write_all(target(process), sorted.asked_for);
  }
  const off_t end = passed_on_ - kept_at_end;
  if (end - dropped_ < most_at_once) return;
  const off_t begin = std::max(dropped_, kept_at_start);
  if (::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, end - begin) == 0) dropped_ = end;
}

ErrorLog::ErrorLog() : file_(memory_file("p5bench-worker-errors")) {}

ErrorLog::~ErrorLog() { ::close(file_); }

bool ErrorLog::flooded() const { return length_of(file_) - passed_on_ > most_unread; }

// Memory of bytes that were passed on is freed, except for the newest.
void ErrorLog::pass_on(bool ended) {
  constexpr off_t page = 4096;
  const OutputPass pass(passed_on_, ended);
  while (pass.goes_on(passed_on_, length_of(file_))) {
    const std::string bytes = bytes_of(file_, passed_on_, part_of_output);
    if (bytes.empty()) return;
    write_all(STDERR_FILENO, without_control(bytes));
    passed_on_ += static_cast<off_t>(bytes.size());
    if (const off_t old = (passed_on_ - static_cast<off_t>(part_of_output)) / page * page; old > 0)
      (void)::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, old);
  }
}

std::vector<std::string> ErrorLog::last_lines(std::size_t most) const {
  constexpr std::size_t enough = 4096, longest_line = 300;
  const off_t from = std::max<off_t>(0, length_of(file_) - static_cast<off_t>(enough));
  std::vector<std::string> lines = split(without_control(bytes_of(file_, from, enough)), '\n');
  std::erase_if(lines, [](const std::string& line) { return line.empty(); });
  if (lines.size() > most) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(most));
  for (std::string& line : lines) line.resize(std::min(line.size(), longest_line));
  return lines;
}

}  // namespace p5
