#include "tests/fakes/nccl/tuning.hpp"

#include <dlfcn.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "tests/fakes/nccl/debug.hpp"
#include "tuner/plugin/abi.hpp"

namespace p5::fake_nccl {

namespace {

namespace abi = tuner::abi;

constexpr std::array algorithm_names{"tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"};
constexpr std::array protocol_names{"ll", "ll128", "simple"};
using Costs = std::array<std::array<float, abi::protocols>, abi::algorithms>;

// ---- the model: a number of latency steps, and a number of bytes at a bandwidth. The figures are invented.

constexpr std::array step_us{1.0, 1.5, 4.0};
constexpr std::array bytes_per_us{5e3, 9e3, 10e3};

Costs model(int function, double bytes, int ranks) {
  Costs costs;
  for (auto& row : costs) row.fill(abi::unavailable);
  auto &tree = costs[0], &ring = costs[1];
  if (ranks == 1) {
    ring[2] = 0;
    return costs;
  }
  const bool all_reduce = function == all_reduce_function;
  const bool whole = function == broadcast_function || function == reduce_function;  // all data passes each rank
  const double depth = std::bit_width(static_cast<unsigned>(ranks - 1));
  for (std::size_t p = 0; p < abi::protocols; ++p) {
    const double steps = (all_reduce ? 2.0 : 1.0) * (ranks - 1);
    const double passed = whole ? bytes : bytes * steps / ranks;
    ring[p] = static_cast<float>(5 + steps * step_us[p] + passed / bytes_per_us[p]);
    if (all_reduce) tree[p] = static_cast<float>(5 + 2 * depth * step_us[p] + 2.5 * bytes / bytes_per_us[p]);
  }
  return costs;
}

// ---- the plugin

struct Plugin {
  int version = 0;  // 0: none
  const void* tuner = nullptr;

  template <class Interface>
  const Interface& as() const {
    return *static_cast<const Interface*>(tuner);
  }
};

int newest_version() {
  const char* limit = std::getenv("P5BENCH_FAKE_TUNER_VERSION");
  return limit ? std::atoi(limit) : 5;  // default of NCCL 2.28
}

void* open_library(const std::string& name) {
  if (name.empty()) return nullptr;
  // NCCL accepts any prefix of that name.
  const bool in_program = strncasecmp(name.c_str(), "STATIC_PLUGIN", name.size()) == 0;
  void* library = dlopen(in_program ? nullptr : name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) debug_log(static_cast<int>(Level::info), log_init | log_tuning, __FILE__, __LINE__, "%s", dlerror());
  return library;
}

void* find_library() {
  const char* variable = std::getenv("NCCL_TUNER_PLUGIN");
  const std::string name = variable ? variable : "";
  if (strcasecmp(name.c_str(), "none") == 0) return nullptr;
  if (void* library = open_library(name.empty() ? "libnccl-tuner.so" : name)) return library;
  const bool suffix = name.find('/') == std::string::npos && !(name.starts_with("lib") && name.ends_with(".so"));
  return !name.empty() && suffix ? open_library("libnccl-tuner-" + name + ".so") : nullptr;
}

Plugin load_plugin() {
  void* const library = find_library();
  if (!library) return {};
  for (int version = newest_version(); version >= 2; --version) {
    const void* tuner = dlsym(library, ("ncclTunerPlugin_v" + std::to_string(version)).c_str());
    if (!tuner) continue;
    debug_log(static_cast<int>(Level::info), log_init | log_tuning, __FILE__, __LINE__, "TUNER/Plugin: Using %s (v%d)",
              *static_cast<const char* const*>(tuner), version);
    return {version, tuner};
  }
  return {};
}

const Plugin& plugin() {
  static const Plugin the = load_plugin();
  return the;
}

void check(abi::Result result, const char* what) {
  if (result == abi::success) return;
  debug_log(static_cast<int>(Level::warn), log_tuning, __FILE__, __LINE__, "the tuner's %s failed: %d", what, result);
  std::abort();  // NCCL would fail the call, which no test may cause
}

void ask_unseen(const Plugin& p, void* context, int function, std::uint64_t bytes, Costs& costs, int& channels) {
  int algorithm = abi::undefined, protocol = abi::undefined;
  check(p.as<abi::TunerV2>().choose(context, function, bytes, 0, 0, 1, &algorithm, &protocol, &channels), "choice");
  if (algorithm < 0 || protocol < 0) return;
  float& cost = costs.at(static_cast<std::size_t>(algorithm)).at(static_cast<std::size_t>(protocol));
  if (cost >= 0) cost = 0;
}

void ask(const Plugin& p, void* context, int function, std::uint64_t bytes, bool registered, Costs& costs,
         int& channels) {
  auto** const table = reinterpret_cast<float**>(costs.data());
  const auto told = [&](const auto& tuner) {
    return tuner.choose(context, function, bytes, 1, table, abi::algorithms, abi::protocols, registered ? 1 : 0,
                        &channels);
  };
  switch (p.version) {
    case 2:
      return ask_unseen(p, context, function, bytes, costs, channels);
    case 3:
      return check(
          p.as<abi::TunerV3>().choose(context, function, bytes, 1, table, abi::algorithms, abi::protocols, &channels),
          "choice");
    case 4:
      return check(told(p.as<abi::TunerV4>()), "choice");
    case 5:
      return check(told(p.as<abi::TunerV5>()), "choice");
    case 6:
      return check(told(p.as<abi::TunerV6>()), "choice");
    case 7:
      return check(told(p.as<abi::TunerV7>()), "choice");
    default:
      return;
  }
}

}  // namespace

Tuning::Tuning(int ranks, int nodes) : ranks_(ranks) {
  const Plugin& p = plugin();
  const auto count = static_cast<std::size_t>(ranks), hosts = static_cast<std::size_t>(nodes);
  abi::NvlinkDomains domains{nodes, ranks / nodes, ranks / nodes};
  abi::Constants constants{};
  abi::ConstantsV7 constants_v7{};
  const auto plain = [&](const auto& tuner) { return tuner.init(count, hosts, debug_log, &context_); };
  const auto named = [&](const auto& tuner, auto& of_version) {
    return tuner.init(&context_, 1, count, hosts, debug_log, &domains, &of_version);
  };
  if (p.version == 2) started_ = plain(p.as<abi::TunerV2>());
  if (p.version == 3) started_ = plain(p.as<abi::TunerV3>());
  if (p.version == 4) started_ = plain(p.as<abi::TunerV4>());
  if (p.version == 5) started_ = named(p.as<abi::TunerV5>(), constants);
  if (p.version == 6) started_ = named(p.as<abi::TunerV6>(), constants);
  if (p.version == 7) started_ = named(p.as<abi::TunerV7>(), constants_v7);
}

Tuning::~Tuning() {
  const Plugin& p = plugin();  // name, init, choice and finalize have the same offsets in all versions
  if (p.version > 0) check(p.as<abi::TunerV3>().finalize(context_), "end");
}

Choice Tuning::choose(int function, std::uint64_t bytes, bool registered) {
  Costs costs = model(function, static_cast<double>(bytes), ranks_);
  int most_channels = 0;
  if (ranks_ > 1) ask(plugin(), context_, function, bytes, registered, costs, most_channels);
  std::size_t algorithm = 1, protocol = 2;
  float lowest = 3600000000.0f;
  for (std::size_t a = 0; a < costs.size(); ++a)
    for (std::size_t p = 0; p < costs[a].size(); ++p)
      if (costs[a][p] >= 0 && costs[a][p] < lowest) {
        algorithm = a;
        protocol = p;
        lowest = costs[a][p];
      }
  // Each channel gets at least 32 KiB.
  const auto useful = static_cast<int>(std::min<std::uint64_t>(std::max<std::uint64_t>(bytes >> 15, 1), 64));
  Choice choice{algorithm_names[algorithm], protocol_names[protocol],
                std::min(useful, most_channels > 0 ? most_channels : 16), 131072};
  const auto chunk = [&](const auto& tuner) {
    return tuner.chunk(context_, function, bytes / static_cast<std::uint64_t>(choice.channels),
                       static_cast<int>(algorithm), static_cast<int>(protocol), 1, &choice.chunk);
  };
  if (plugin().version == 6 && ranks_ > 1) check(chunk(plugin().as<abi::TunerV6>()), "chunk size");
  if (plugin().version == 7 && ranks_ > 1) check(chunk(plugin().as<abi::TunerV7>()), "chunk size");
  choice.chunk = std::min<std::size_t>(choice.chunk, 524288);
  return choice;
}

}  // namespace p5::fake_nccl
