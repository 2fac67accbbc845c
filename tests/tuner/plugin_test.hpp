// The plugin library as NCCL uses it: loaded, started for communicators and called, in each version of the interface.
// Tests run in separate processes, because the plugin reads its file and prints its messages once per process.
#pragma once

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tuner/plugin/abi.hpp"
#include "tuner/table.hpp"

namespace p5::tuner::plugin_test {

struct Said {
  std::mutex mutex;
  std::vector<std::string> warnings, information;
};
inline Said& said() {
  static Said all;
  return all;
}

inline void listen(int level, unsigned long, const char*, int, const char* format, ...) {
  std::array<char, 1024> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  const std::scoped_lock lock(said().mutex);
  (level == abi::warn ? said().warnings : said().information).emplace_back(text.data());
}

inline void in_fresh_process(const std::map<std::string, std::string>& environment, const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    body();
    std::fflush(nullptr);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

inline void* plugin() {
  void* library = dlopen(P5BENCH_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  return library;
}

template <class Interface>
const Interface& interface(int version) {
  const auto* found =
      static_cast<const Interface*>(dlsym(plugin(), ("ncclTunerPlugin_v" + std::to_string(version)).c_str()));
  EXPECT_NE(found, nullptr);
  return *found;
}

// One call: costs in, costs and channels out.
struct Call {
  Function function = Function::all_reduce;
  std::uint64_t bytes = 1024;
  int algorithms = abi::algorithms;
  std::array<float, 24> costs{};  // of one algorithm more than the plugin knows
  int channels = 0;
  bool registered = false;  // versions 2 and 3 do not tell
  // The choice in version 2:
  bool collnet = false, nvls = false;
  int algorithm = abi::undefined, protocol = abi::undefined;

  float& cost(Algorithm a, Protocol p) {
    return costs.at(static_cast<std::size_t>(a) * 3 + static_cast<std::size_t>(p));
  }
  // The choice of NCCL with these costs.
  std::string cheapest() const {
    std::size_t best = costs.size();
    for (std::size_t i = 0; i < static_cast<std::size_t>(algorithms) * 3; ++i)
      if (costs[i] >= 0 && (best == costs.size() || costs[i] < costs[best])) best = i;
    return best == costs.size() ? "none" : to_text({static_cast<Algorithm>(best / 3), static_cast<Protocol>(best % 3)});
  }
};

// Tree and ring in all protocols, tree/ll cheapest; the other algorithms unavailable.
inline Call offered(std::uint64_t bytes = 1024) {
  Call call;
  call.bytes = bytes;
  call.costs.fill(-1);
  for (std::size_t i = 0; i < 6; ++i) call.costs[i] = 10 + static_cast<float>(i);
  return call;
}

// Constants of NCCL's model; the version determines the type that a start gets.
struct Constants {
  abi::Constants narrow{};
  abi::ConstantsV7 v7{};
};

// The tuner of a communicator in one version of the interface.
inline abi::Result start(int version, std::size_t ranks, std::size_t nodes, Constants& constants, void*& context) {
  abi::NvlinkDomains domains{1, 4, 4};
  const auto plain = [&](const auto& tuner) { return tuner.init(ranks, nodes, listen, &context); };
  const auto named = [&](const auto& tuner, auto& of_version) {
    return tuner.init(&context, 77, ranks, nodes, listen, &domains, &of_version);
  };
  return version == 2   ? plain(interface<abi::TunerV2>(2))
         : version == 3 ? plain(interface<abi::TunerV3>(3))
         : version == 4 ? plain(interface<abi::TunerV4>(4))
         : version == 5 ? named(interface<abi::TunerV5>(5), constants.narrow)
         : version == 6 ? named(interface<abi::TunerV6>(6), constants.narrow)
                        : named(interface<abi::TunerV7>(7), constants.v7);
}

// One communicator in one version of the interface.
class Tuner {
 public:
  Tuner(int version, std::size_t ranks = 4, std::size_t nodes = 1) : version_(version) {
    EXPECT_EQ(start(version, ranks, nodes, constants, context_), abi::success);
  }

  Call choose(Call call) {
    auto** const costs = reinterpret_cast<float**>(call.costs.data());
    const int function = static_cast<int>(call.function);
    const auto told = [&](const auto& tuner) {
      return tuner.choose(context_, function, call.bytes, 1, costs, call.algorithms, 3, call.registered ? 1 : 0,
                          &call.channels);
    };
    EXPECT_EQ(version_ == 2 ? interface<abi::TunerV2>(2).choose(context_, function, call.bytes, call.collnet, call.nvls,
                                                                1, &call.algorithm, &call.protocol, &call.channels)
              : version_ == 3 ? interface<abi::TunerV3>(3).choose(context_, function, call.bytes, 1, costs,
                                                                  call.algorithms, 3, &call.channels)
              : version_ == 4 ? told(interface<abi::TunerV4>(4))
              : version_ == 5 ? told(interface<abi::TunerV5>(5))
              : version_ == 6 ? told(interface<abi::TunerV6>(6))
                              : told(interface<abi::TunerV7>(7)),
              abi::success);
    return call;
  }

  // The chunk size for one channel's part of an all-reduce, with NCCL's arguments.
  std::size_t chunk(Algorithm algorithm, Protocol protocol, std::size_t size = 131072) {
    const auto ask = [&](const auto& tuner) {
      return tuner.chunk(context_, static_cast<int>(Function::all_reduce), 64, static_cast<int>(algorithm),
                         static_cast<int>(protocol), 1, &size);
    };
    EXPECT_EQ(version_ == 7 ? ask(interface<abi::TunerV7>(7)) : ask(interface<abi::TunerV6>(6)), abi::success);
    return size;
  }

  void finalize() { EXPECT_EQ(interface<abi::TunerV3>(version_ == 2 ? 2 : 3).finalize(context_), abi::success); }

  Constants constants{};

 private:
  int version_;
  void* context_ = nullptr;
};

// Writes a file with this text for the plugin; a valid one is for NCCL 2.28.3, 4 ranks on 1 node.
inline void with_file(const std::string& text, std::map<std::string, std::string> environment,
                      const std::function<void()>& body) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("p5bench-tuner-test-" + std::to_string(getpid()) + ".csv");
  std::ofstream(path) << text;
  environment["NCCL_TUNER_CONFIG_FILE"] = path;
  in_fresh_process(environment, body);
  std::filesystem::remove(path);
}

inline const Table rows{.nccl_version = 22803,
                        .ranks = 4,
                        .nodes = 1,
                        .rows = {{Function::all_reduce, 1000, 2000, {Algorithm::ring, Protocol::simple}, 12.5},
                                 {Function::all_reduce, 3000, 4000, {Algorithm::ring, Protocol::ll, 8, 262144}, 3},
                                 {Function::all_reduce, 5000, 6000, {Algorithm::nvls, Protocol::simple, 16}, 3},
                                 {Function::all_reduce, 7000, 8000, {Algorithm::pat, Protocol::simple, 16}, 3},
                                 {Function::all_reduce, 9000, 9999, {Algorithm::ring, Protocol::ll128, 5}, 3}}};

inline void with_rows(const std::function<void()>& body) { with_file(to_csv(rows, ""), {}, body); }

inline constexpr std::array versions_with_costs{3, 4, 5, 6, 7};
inline constexpr std::array versions{2, 3, 4, 5, 6, 7};

}  // namespace p5::tuner::plugin_test
