// Parses P5BENCH_FAKE and counts the operations that it refers to.
#include "tests/fakes/nccl/faults.hpp"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string_view>

#include "tuner/table.hpp"

namespace p5::fake_nccl {

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

template <class Value>
bool read_number(std::string_view text, Value& value) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  return problem == std::errc() && end == text.data() + text.size() && !text.empty() && value >= Value{0};
}

template <class Choice, std::size_t count>
bool read_name(std::string_view text, const std::string_view (&names)[count], Choice& choice) {
  for (std::size_t i = 0; i < count; ++i) {
    if (names[i] != text) continue;
    choice = static_cast<Choice>(i);
    return true;
  }
  return false;
}

constexpr std::string_view kinds[] = {"hang", "crash",     "wrong",      "async",     "oom",
                                      "slow", "join-hang", "join-crash", "join-slow", "join-error"};
constexpr std::string_view whats[] = {"element", "bit", "stale", "nothing"};

// A setting such as "ring/ll128". A misspelt one is rejected, since it would never match.
bool read_setting(std::string_view value, std::string& setting) {
  const auto parsed = tuner::parse_setting(value);
  setting = value;
  return parsed && parsed->channels == 0 && parsed->chunk == 0;
}

bool read_key(std::string_view key, std::string_view value, Fault& fault) {
  if (key == "rank") return read_number(value, fault.rank);
  if (key == "us") return read_number(value, fault.microseconds);
  if (key == "what") return read_name(value, whats, fault.what);
  if (key == "setting") return read_setting(value, fault.setting);
  if (key == "fewer") return read_number(value, fault.fewer) && fault.fewer > 0;
  if (key == "function") {
    constexpr std::string_view known[] = {"AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce"};
    fault.function = value;
    return std::find(std::begin(known), std::end(known), value) != std::end(known);
  }
  if (key == "ranks") return read_number(value, fault.least_ranks) && fault.least_ranks > 0;
  if (key == "once") {
    fault.once = value;
    return !value.empty();
  }
  if (key == "host") {
    fault.here = fault.here && host_name() == value;
    return !value.empty();
  }
  if (key == "gpu") {
    int wanted = 0, device = -1;
    if (!read_number(value, wanted)) return false;
    fault.here = fault.here && cudaGetDevice(&device) == cudaSuccess && device == wanted;
    return true;
  }
  if (key == "after") {
    fault.here = fault.here && access(std::string(value).c_str(), F_OK) == 0;
    return !value.empty();
  }
  if (key == "variable") {
    fault.here = fault.here && std::getenv(std::string(value).c_str()) != nullptr;
    return !value.empty();
  }
  if (key != "operation") return false;
  fault.onwards = value.ends_with('+');
  if (fault.onwards) value.remove_suffix(1);
  return read_number(value, fault.operation) && fault.operation > 0;
}

bool needs_operation(Fault::Kind kind) {
  return kind == Fault::Kind::hang || kind == Fault::Kind::crash || kind == Fault::Kind::wrong ||
         kind == Fault::Kind::async;
}

std::optional<Fault> parse_fault(const std::string& text) {
  Fault fault;
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() < 2 || !read_name(parts[0], kinds, fault.kind)) return std::nullopt;
  bool has_place = false;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    if (equals == std::string::npos) return std::nullopt;
    const std::string key = parts[i].substr(0, equals);
    if (!read_key(key, std::string_view(parts[i]).substr(equals + 1), fault)) return std::nullopt;
    has_place = has_place || key == "rank" || key == "host" || key == "gpu";
  }
  if (!has_place || needs_operation(fault.kind) != (fault.operation > 0)) return std::nullopt;
  return fault;
}

bool comes_first(const std::string& file) {
  if (file.empty()) return true;
  const int made = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (made >= 0) close(made);
  return made >= 0;
}

std::atomic<int>& rank_of_process() {
  static std::atomic<int> rank = -1;
  return rank;
}

}  // namespace

std::optional<Fault> Faults::find(Fault::Kind kind, int rank) const {
  for (const Fault& fault : all)
    if (fault.kind == kind && fault.of(rank)) return fault;
  return std::nullopt;
}

std::optional<Fault> Faults::find_joining(Fault::Kind kind, int rank, int ranks) const {
  for (const Fault& fault : all)
    if (fault.kind == kind && fault.of(rank) && ranks >= fault.least_ranks && comes_first(fault.once)) return fault;
  return std::nullopt;
}

std::optional<Fault> Faults::find(Fault::Kind kind, int rank, std::uint64_t operation, const std::string& setting,
                                  int channels, std::string_view function) const {
  for (const Fault& fault : all)
    if (fault.kind == kind && fault.hits(rank, operation, setting, channels, function)) return fault;
  return std::nullopt;
}

Faults parse_faults(const std::string& text) {
  Faults faults;
  for (const std::string& part : split(text, ',')) {
    const auto fault = parse_fault(part);
    if (fault && fault->here) faults.all.push_back(*fault);
    if (!fault) faults.problem = "P5BENCH_FAKE: '" + part + "' is no fault such as hang:rank=1:operation=3";
  }
  return faults;
}

const Faults& faults() {
  static const Faults& all = *new Faults(parse_faults(std::getenv("P5BENCH_FAKE") ? std::getenv("P5BENCH_FAKE") : ""));
  return all;
}

std::uint64_t model_of_communicators(const std::string& name) {
  const char* const text = std::getenv("P5BENCH_FAKE_COMMUNICATOR");
  for (const std::string& part : split(text ? text : "", ',')) {
    std::uint64_t value = 0;
    const std::string begin = name + "=";
    if (part.starts_with(begin) && read_number(std::string_view(part).substr(begin.size()), value)) return value;
  }
  return 0;
}

std::string host_name() {
  if (const char* pretended = std::getenv("NCCL_HOSTID")) return pretended;
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

int process_rank() { return rank_of_process().load(); }

void set_process_rank(int rank) {
  int none = -1;
  rank_of_process().compare_exchange_strong(none, rank);
}

std::uint64_t next_operation() {
  static std::atomic<std::uint64_t> operations = 0;
  return ++operations;
}

void crash() {
  std::signal(SIGSEGV, SIG_DFL);
  std::raise(SIGSEGV);
  std::abort();
}

}  // namespace p5::fake_nccl
