// Parses P5BENCH_FAKE_NVML. An unknown fault ends the program, since it would never take effect.
#include "tests/fakes/nvml/machine.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <string_view>
#include <thread>

namespace p5::fake_nvml {

namespace {

constexpr std::array<std::string_view, 17> kinds{"nvlink5", "link-down", "block",  "lost",     "throttle", "fabric",
                                                 "pcie",    "ecc",       "clique", "remapped", "busy",     "mps",
                                                 "xid",     "init",      "clock",  "driver",   "start"};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

Fault parse(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  Fault fault;
  fault.kind = parts.empty() ? "" : parts[0];
  bool good = std::ranges::find(kinds, fault.kind) != kinds.end();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    good = good && equals != std::string::npos;
    if (good) fault.values[parts[i].substr(0, equals)] = parts[i].substr(equals + 1);
  }
  if (good) return fault;
  std::fprintf(stderr, "P5BENCH_FAKE_NVML: '%s' is not understood\n", text.c_str());
  std::exit(99);
}

}  // namespace

long Fault::number(const std::string& key, long otherwise) const {
  const auto at = values.find(key);
  return at == values.end() ? otherwise : std::strtol(at->second.c_str(), nullptr, 0);
}

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = [] {
    std::vector<Fault> parsed;
    const char* const text = std::getenv("P5BENCH_FAKE_NVML");
    for (const std::string& part : split(text ? text : "", ',')) parsed.push_back(parse(part));
    return parsed;
  }();
  return all;
}

int gpus() {
  const char* const text = std::getenv("P5BENCH_FAKE_GPUS");
  return text ? std::atoi(text) : 8;
}

unsigned bus_of(int gpu) {
  const char* const text = std::getenv("P5BENCH_FAKE_BUSES");
  const std::vector<std::string> buses = split(text ? text : "", ',');
  const auto at = static_cast<std::size_t>(gpu);
  return at < buses.size() ? static_cast<unsigned>(std::strtoul(buses[at].c_str(), nullptr, 16))
                           : 0x10 + 0x10 * static_cast<unsigned>(gpu);
}

namespace {

// As for NCCL: NCCL_HOSTID, or the host's name.
const std::string& host_name() {
  static const std::string name = [] {
    if (const char* const id = std::getenv("NCCL_HOSTID")) return std::string(id);
    std::array<char, 256> text{};
    ::gethostname(text.data(), text.size() - 1);
    return std::string(text.data());
  }();
  return name;
}

}  // namespace

const Fault* fault(const std::string& kind, int gpu) {
  const auto at = std::ranges::find_if(faults(), [&](const Fault& one) {
    const auto host = one.values.find("host");
    return one.kind == kind && one.number("gpu", gpu) == gpu &&
           (host == one.values.end() || host->second == host_name());
  });
  return at == faults().end() ? nullptr : &*at;
}

void maybe_block(const char* function, int gpu) {
  for (const Fault& one : faults())
    if (one.kind == "block" && one.values.contains("function") && one.values.at("function") == function &&
        one.number("gpu", gpu) == gpu)
      for (;;) ::pause();
}

void start_gpu(int gpu) {
  const Fault* const slow = fault("start", gpu);
  if (!slow) return;
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  std::this_thread::sleep_for(std::chrono::milliseconds(slow->number("ms", 0)));
}

}  // namespace p5::fake_nvml
