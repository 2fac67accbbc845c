#include "bench/backends/nccl/tuning_log.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <regex>

namespace p5::nccl {

namespace {

constexpr std::string_view level_variable = "NCCL_DEBUG=";
constexpr std::string_view off = "WARN", on = "INFO";  // of the same length, to be changed in place
constexpr std::array debug_variables{"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"};

// NCCL up to 2.23 logs numbers, in this order (src/include/nccl_common.h).
constexpr std::array algorithms{"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
constexpr std::array protocols{"ll", "ll128", "simple"};

template <std::size_t count>
std::string name_in(const std::array<const char*, count>& names, std::string text) {
  if (!text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); })) {
    const unsigned long number = std::stoul(text);
    return number < count ? names[number] : text;
  }
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::optional<Selection> parse_line(const std::string& line) {
  // 2.20 to 2.30; before 2.24 without channels, with numbers and a time
  static const std::regex chosen(R"(Bytes -> Algo (\w+) proto (\w+)(?:.*channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\})?)");
  // 2.27 and later, for kernels on symmetric memory
  static const std::regex symmetric(R"(Bytes -> Kernel (\w+) nchannels (\d+))");
  // 2.31 and later
  static const std::regex best(R"(Best tuning \{.*\.?algo = (\w+).*proto = (\w+).*nChannels = (\d+))");
  std::smatch found;
  if (std::regex_search(line, found, chosen)) {
    const int channels = found[3].matched ? std::stoi(found[4]) - std::stoi(found[3]) + 1 : 0;
    return Selection{name_in(algorithms, found[1]), name_in(protocols, found[2]), channels, "nccl log"};
  }
  if (std::regex_search(line, found, symmetric))
    return Selection{name_in(algorithms, found[1]), "symmetric", std::stoi(found[2]), "nccl log"};
  if (std::regex_search(line, found, best))
    return Selection{name_in(algorithms, found[1]), name_in(protocols, found[2]), std::stoi(found[3]), "nccl log"};
  return std::nullopt;
}

std::string contents(int file) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t got; (got = pread(file, part.data(), part.size(), static_cast<off_t>(text.size()))) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  return text;
}

}  // namespace

std::optional<Selection> parse_tuning_log(std::string_view log) {
  while (!log.empty()) {
    const std::size_t end = log.find_last_not_of('\n');
    if (end == std::string_view::npos) break;
    const std::size_t before = log.find_last_of('\n', end);
    const std::size_t start = before == std::string_view::npos ? 0 : before + 1;
    if (auto selection = parse_line(std::string(log.substr(start, end + 1 - start)))) return selection;
    log = log.substr(0, start);
  }
  return std::nullopt;
}

TuningLog::TuningLog() {
  for (char** variable = environ; *variable; ++variable)
    if (std::string_view(*variable).starts_with("NCCL_DEBUG")) return;
  // Exported by all versions, though no longer in the header.
  reset_ = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "ncclResetDebugInit"));
  if (!reset_) return;
  file_ = memfd_create("nccl-log", MFD_CLOEXEC);
  if (file_ < 0) return;
  level_ = fmt::format("{}{}", level_variable, off);
  subsystems_ = "NCCL_DEBUG_SUBSYS=INIT,NET,ENV,TUNING";
  path_ = fmt::format("NCCL_DEBUG_FILE=/proc/self/fd/{}", file_);
  for (std::string* each : {&level_, &subsystems_, &path_}) putenv(each->data());
}

TuningLog::~TuningLog() {
  if (file_ < 0) return;
  for (const char* each : debug_variables) unsetenv(each);
  close(file_);
}

void TuningLog::start() {
  if (file_ < 0) return;
  if (ftruncate(file_, 0) != 0) return;
  switch_to(on);
}

std::optional<Selection> TuningLog::stop() { return parse_tuning_log(stop_and_take()); }

std::string TuningLog::stop_and_take() {
  if (file_ < 0) return "";
  constexpr std::size_t most = 256 << 10;
  std::string log = contents(file_);
  switch_to(off);
  if (log.size() > most) log.resize(most);
  std::ranges::replace_if(
      log, [](unsigned char c) { return c >= 0x80 || c == 0; }, '?');
  return log;
}

bool TuningLog::set_by_us(std::string_view variable) const {
  return file_ >= 0 && std::ranges::find(debug_variables, variable) != debug_variables.end();
}

void TuningLog::switch_to(std::string_view level) {
  level.copy(level_.data() + level_variable.size(), level.size());
  reset_();
}

}  // namespace p5::nccl
