#include "bench/backends/nccl/tuning_log.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <regex>
#include <vector>

#include "bench/backends/shared_page.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"

namespace p5::nccl {

namespace {

constexpr std::string_view level_variable = "NCCL_DEBUG=", quiet = "WARN";
constexpr std::size_t longest_level = 7;
constexpr std::array debug_variables{"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"};
// Subsystems read for findings; TUNING logs the choice for each operation.
constexpr std::string_view subsystems_of_start = "INIT,BOOTSTRAP,NET,ENV",
                           subsystems_of_all = "INIT,BOOTSTRAP,NET,ENV,TUNING";

// NCCL since 2.30.7 ignores a list with an unknown name; earlier versions ignore only the name.
constexpr std::array<std::string_view, 18> subsystems{"INIT",      "COLL", "P2P",     "SHM",  "NET",     "GRAPH",
                                                      "TUNING",    "ENV",  "ALLOC",   "CALL", "PROXY",   "NVLS",
                                                      "BOOTSTRAP", "REG",  "PROFILE", "RAS",  "DESTROY", "ALL"};

// NCCL up to 2.23 logs numbers in this order (src/include/nccl_common.h).
constexpr std::array algorithms{"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
constexpr std::array protocols{"ll", "ll128", "simple"};

template <std::size_t count>
std::string name_in(const std::array<const char*, count>& names, std::string text) {
  if (!text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); })) {
    const unsigned long number = std::stoul(text);
    return number < count ? names[number] : text;
  }
  return lower(text);
}

std::optional<Selection> parse_line(const std::string& line) {
  // 2.20 and later; before 2.24 without channels, with numbers and a time
  static const std::regex chosen(R"(Bytes -> Algo (\w+) proto (\w+)(?:.*channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\})?)");
  // 2.27 and later, for kernels on symmetric memory
  static const std::regex symmetric(R"(Bytes -> Kernel (\w+) nchannels (\d+))");
  // 2.29 and later, for copies by copy engines; with several nodes also the proxy's
  static const std::regex copied(R"(\[(?:Copy Engine|Hierarchical CE)\]: \d+ Bytes -> )");
  // 2.31 and later. Without an algorithm, NCCL chose a kernel on symmetric memory or a copy, and logs it in a later
  // line.
  static const std::regex best(R"(Best tuning \{.*\.algo = (?!Unknown)(\w+).*proto = (\w+).*nChannels = (\d+))");
  std::smatch found;
  if (std::regex_search(line, found, chosen)) {
    const int channels = found[3].matched ? std::stoi(found[4]) - std::stoi(found[3]) + 1 : 0;
    return Selection{name_in(algorithms, found[1]), name_in(protocols, found[2]), channels, "nccl log"};
  }
  if (std::regex_search(line, found, symmetric))
    return Selection{name_in(algorithms, found[1]), "symmetric", std::stoi(found[2]), "nccl log"};
  if (std::regex_search(line, found, copied)) return Selection{"copy_engine", "symmetric", 0, "nccl log"};
  if (std::regex_search(line, found, best))
    return Selection{name_in(algorithms, found[1]), name_in(protocols, found[2]), std::stoi(found[3]), "nccl log"};
  return std::nullopt;
}

// The log from `begin` to its end.
std::string written_since(off_t begin) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t got;
       (got = pread(protocol::log_descriptor, part.data(), part.size(), begin + static_cast<off_t>(text.size()))) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  return text;
}

off_t end_of_log() {
  struct stat status {};
  return fstat(protocol::log_descriptor, &status) == 0 ? status.st_size : 0;
}

bool log_can_be_read() {
  char first = 0;
  return pread(protocol::log_descriptor, &first, 1, 0) >= 0;
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

CommunicatorCosts parse_init_timings(std::string_view log) {
  // "Init timings - ncclCommInitRank: rank 0 nranks 2 total 0.67 (kernels 0.12, alloc 0.01, bootstrap 0.04, ...)"; up
  // to 2.23 without the call. The parts differ between versions.
  constexpr std::string_view begin = "Init timings";
  CommunicatorCosts parts;
  const std::size_t at = log.rfind(begin);
  if (at == std::string_view::npos) return parts;
  const std::string line(log.substr(at, log.find('\n', at) - at));
  static const std::regex part(R"(([a-z]+) (\d+\.\d+)(?=[,)]))");
  for (std::sregex_iterator each(line.begin(), line.end(), part), end; each != end; ++each)
    parts[fmt::format("init_{}_s", (*each)[1].str())] = std::stod((*each)[2].str());
  return parts;
}

std::string merge_subsystems(std::string_view operators, std::string_view ours) {
  if (operators.empty()) return std::string(ours);
  const bool all_but = operators.front() == '^';
  std::vector<std::string> names = split(operators.substr(all_but ? 1 : 0));
  const std::vector<std::string> wanted = split(ours);
  std::erase_if(names, [&](const std::string& each) {
    const std::string name = upper_case(each);
    return std::ranges::find(subsystems, name) == subsystems.end() ||
           (all_but && std::ranges::find(wanted, name) != wanted.end());
  });
  if (all_but) return names.empty() ? "ALL" : "^" + join(names, ",");
  names.insert(names.end(), wanted.begin(), wanted.end());
  return join(names, ",");
}

TuningLog::TuningLog() {
  if (!log_can_be_read()) return;
  on_ = true;
  for (const char* name : debug_variables)
    if (const char* value = std::getenv(name)) operators_[name] = value;
  // Exported by all versions so far, but no longer in the header.
  reset_ = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "ncclResetDebugInit"));
  const auto of_operator = [&](const char* name) { return operators_.contains(name) ? operators_[name] : ""; };
  const std::string level = upper_case(of_operator("NCCL_DEBUG"));
  const bool more = level == "TRACE" || level == "ABORT";  // beyond INFO
  loud_ = more ? level : "INFO";
  const std::string subsystems = more || level == "INFO" ? of_operator("NCCL_DEBUG_SUBSYS") : "";
  level_ = std::string(level_variable) + std::string(longest_level, '\0');
  loud_.copy(level_.data() + level_variable.size(), loud_.size());
  // Lines per operation would distort all times if the log could not be switched off again.
  subsystems_ = "NCCL_DEBUG_SUBSYS=" + merge_subsystems(subsystems, reset_ ? subsystems_of_all : subsystems_of_start);
  path_ = "NCCL_DEBUG_FILE=";  // standard output, also if NCCL's configuration file names another
  for (std::string* each : {&level_, &subsystems_, &path_}) putenv(each->data());
}

void TuningLog::start() {
  begin_ = end_of_log();
  switch_to(loud_);
}

void TuningLog::log_warnings_only() { switch_to(quiet); }

std::optional<Selection> TuningLog::stop() {
  if (!on_ || !reset_) return std::nullopt;
  const std::string log = written_since(begin_);
  log_warnings_only();
  return parse_tuning_log(log);
}

CommunicatorCosts TuningLog::init_timings() const {
  return on_ ? parse_init_timings(written_since(0)) : CommunicatorCosts();
}

void TuningLog::restore(std::map<std::string, std::string>& environment) const {
  if (!on_) return;
  for (const char* name : debug_variables) environment.erase(name);
  environment.insert(operators_.begin(), operators_.end());
}

void TuningLog::switch_to(std::string_view level) {
  if (!on_ || !reset_) return;
  std::string padded(level);
  padded.resize(longest_level, '\0');
  padded.copy(level_.data() + level_variable.size(), longest_level);
  reset_();
}

}  // namespace p5::nccl
