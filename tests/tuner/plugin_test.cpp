// libnccl-tuner-p5bench.so, loaded and asked as NCCL does it. What it reads once a process and says once a process is
// fresh in each test: each runs in a process of its own.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tuner/plugin/abi.hpp"
#include "tuner/table.hpp"

extern "C" int ncclGetVersion(int* version);
// What the plugin finds as NCCL's version; NCCL itself is not here.
int ncclGetVersion(int* version) {
  const char* text = std::getenv("TEST_NCCL_VERSION");
  *version = text ? std::atoi(text) : 22803;
  return 0;
}

namespace p5::tuner {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Said {
  std::mutex mutex;
  std::vector<std::string> warnings, information;
};
Said& said() {
  static Said all;
  return all;
}

void listen(int level, unsigned long, const char*, int, const char* format, ...) {
  std::array<char, 1024> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  const std::scoped_lock lock(said().mutex);
  (level == abi::warn ? said().warnings : said().information).emplace_back(text.data());
}

void in_fresh_process(const std::map<std::string, std::string>& environment, const std::function<void()>& body) {
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

void* plugin() {
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
  std::array<float, 21> costs{};
  int channels = 0;
  // Version 2:
  bool collnet = false, nvls = false;
  int algorithm = abi::undefined, protocol = abi::undefined;

  float& cost(Algorithm a, Protocol p) {
    return costs.at(static_cast<std::size_t>(a) * 3 + static_cast<std::size_t>(p));
  }
  // As NCCL takes it.
  std::string cheapest() const {
    std::size_t best = costs.size();
    for (std::size_t i = 0; i < static_cast<std::size_t>(algorithms) * 3; ++i)
      if (costs[i] >= 0 && (best == costs.size() || costs[i] < costs[best])) best = i;
    return best == costs.size() ? "none" : to_text({static_cast<Algorithm>(best / 3), static_cast<Protocol>(best % 3)});
  }
};

// Tree and ring in all protocols, tree/ll cheapest; the rest unavailable.
Call offered(std::uint64_t bytes = 1024) {
  Call call;
  call.bytes = bytes;
  call.costs.fill(-1);
  for (std::size_t i = 0; i < 6; ++i) call.costs[i] = 10 + static_cast<float>(i);
  return call;
}

// One communicator in one version of the interface.
class Tuner {
 public:
  Tuner(int version, std::size_t ranks = 4, std::size_t nodes = 1) : version_(version) {
    abi::NvlinkDomains domains{1, 4, 4};
    const auto plain = [&](const auto& tuner) { return tuner.init(ranks, nodes, listen, &context_); };
    const auto named = [&](const auto& tuner) {
      return tuner.init(&context_, 77, ranks, nodes, listen, &domains, &constants);
    };
    EXPECT_EQ(version == 2   ? plain(interface<abi::TunerV2>(2))
              : version == 3 ? plain(interface<abi::TunerV3>(3))
              : version == 4 ? plain(interface<abi::TunerV4>(4))
              : version == 5 ? named(interface<abi::TunerV5>(5))
                             : named(interface<abi::TunerV6>(6)),
              abi::success);
  }

  Call choose(Call call) {
    auto** const costs = reinterpret_cast<float**>(call.costs.data());
    const int function = static_cast<int>(call.function);
    const auto registered = [&](const auto& tuner) {
      return tuner.choose(context_, function, call.bytes, 1, costs, call.algorithms, 3, 0, &call.channels);
    };
    EXPECT_EQ(version_ == 2 ? interface<abi::TunerV2>(2).choose(context_, function, call.bytes, call.collnet, call.nvls,
                                                                1, &call.algorithm, &call.protocol, &call.channels)
              : version_ == 3 ? interface<abi::TunerV3>(3).choose(context_, function, call.bytes, 1, costs,
                                                                  call.algorithms, 3, &call.channels)
              : version_ == 4 ? registered(interface<abi::TunerV4>(4))
              : version_ == 5 ? registered(interface<abi::TunerV5>(5))
                              : registered(interface<abi::TunerV6>(6)),
              abi::success);
    return call;
  }

  // Of one channel's part of an all-reduce, as NCCL asks.
  std::size_t chunk(Algorithm algorithm, Protocol protocol, std::size_t size = 131072) {
    EXPECT_EQ(interface<abi::TunerV6>(6).chunk(context_, static_cast<int>(Function::all_reduce), 64,
                                               static_cast<int>(algorithm), static_cast<int>(protocol), 1, &size),
              abi::success);
    return size;
  }

  void finalize() { EXPECT_EQ(interface<abi::TunerV3>(version_ == 2 ? 2 : 3).finalize(context_), abi::success); }

  abi::Constants constants{};

 private:
  int version_;
  void* context_ = nullptr;
};

// The plugin with a file of this text, for NCCL 2.28.3, 4 ranks on 1 node where it is right.
void with_file(const std::string& text, std::map<std::string, std::string> environment,
               const std::function<void()>& body) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("p5bench-tuner-test-" + std::to_string(getpid()) + ".csv");
  std::ofstream(path) << text;
  environment["NCCL_TUNER_CONFIG_FILE"] = path;
  in_fresh_process(environment, body);
  std::filesystem::remove(path);
}

const Table rows{.nccl_version = 22803,
                 .ranks = 4,
                 .nodes = 1,
                 .rows = {{Function::all_reduce, 1000, 2000, {Algorithm::ring, Protocol::simple}, 12.5},
                          {Function::all_reduce, 3000, 4000, {Algorithm::ring, Protocol::ll, 8, 262144}, 3},
                          {Function::all_reduce, 5000, 6000, {Algorithm::nvls, Protocol::simple, 16}, 3},
                          {Function::all_reduce, 7000, 8000, {Algorithm::pat, Protocol::simple, 16}, 3},
                          {Function::all_reduce, 9000, 9999, {Algorithm::ring, Protocol::ll128, 5}, 3}}};

void with_rows(const std::function<void()>& body) { with_file(to_csv(rows, ""), {}, body); }

constexpr std::array versions_with_costs{3, 4, 5, 6};
constexpr std::array versions{2, 3, 4, 5, 6};

TEST(TunerPlugin, a_row_makes_its_setting_the_cheapest_at_the_measured_time) {
  with_rows([] {
    for (const int version : versions_with_costs) {
      Tuner tuner(version);
      Call call = tuner.choose(offered());
      EXPECT_EQ(call.cheapest(), "ring/simple") << "version " << version;
      EXPECT_FLOAT_EQ(call.cost(Algorithm::ring, Protocol::simple), 12.5);
      EXPECT_GT(call.cost(Algorithm::tree, Protocol::ll), 12.5);
      EXPECT_FLOAT_EQ(call.cost(Algorithm::ring, Protocol::ll128), 14);  // was above already
      EXPECT_EQ(call.cost(Algorithm::nvls, Protocol::simple), -1);
      EXPECT_EQ(call.channels, 0);
      call = tuner.choose(offered(3500));
      EXPECT_EQ(call.cheapest(), "ring/ll");
      EXPECT_EQ(call.channels, 8);
      tuner.finalize();
    }
    EXPECT_THAT(said().warnings, IsEmpty());
  });
}

TEST(TunerPlugin, version_2_names_its_choice_and_takes_only_what_is_certain) {
  with_rows([] {
    Tuner tuner(2);
    Call call = tuner.choose(offered());
    EXPECT_EQ(call.algorithm, static_cast<int>(Algorithm::ring));
    EXPECT_EQ(call.protocol, static_cast<int>(Protocol::simple));
    EXPECT_EQ(call.channels, 0);
    EXPECT_EQ(tuner.choose(offered(3500)).channels, 8);
    for (const std::uint64_t unsure : {5500, 7500, 9500, 500}) {
      call = tuner.choose(offered(unsure));
      EXPECT_EQ(call.algorithm, abi::undefined) << unsure;
      EXPECT_EQ(call.protocol, abi::undefined);
      EXPECT_EQ(call.channels, 0);
    }
    Call with_nvls = offered(5500);
    with_nvls.nvls = true;
    EXPECT_EQ(tuner.choose(with_nvls).algorithm, static_cast<int>(Algorithm::nvls));
    tuner.finalize();
  });
}

TEST(TunerPlugin, version_2_leaves_calls_alone_that_the_operator_has_constrained) {
  with_file(to_csv(rows, ""), {{"NCCL_PROTO", "LL"}}, [] {
    EXPECT_EQ(Tuner(2).choose(offered()).algorithm, abi::undefined);
    EXPECT_EQ(Tuner(5).choose(offered()).cheapest(), "ring/simple");  // here NCCL itself marks what is not allowed
  });
}

TEST(TunerPlugin, calls_in_no_row_stay_as_they_are) {
  with_rows([] {
    for (const int version : versions_with_costs) {
      Tuner tuner(version);
      for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{999}, std::uint64_t{2001}, ~std::uint64_t{0}}) {
        const Call call = tuner.choose(offered(bytes));
        EXPECT_EQ(call.costs, offered().costs);
        EXPECT_EQ(call.channels, 0);
      }
      Call other = offered();
      other.function = Function::all_gather;
      EXPECT_EQ(tuner.choose(other).costs, offered().costs);
      other.function = static_cast<Function>(8);  // all-to-all, of which tables know nothing
      EXPECT_EQ(tuner.choose(other).costs, offered().costs);
    }
  });
}

TEST(TunerPlugin, what_nccl_marks_as_unavailable_is_never_forced) {
  with_rows([] {
    for (const int version : versions_with_costs) {
      Tuner tuner(version);
      Call call = tuner.choose(offered(5500));
      EXPECT_EQ(call.costs, offered().costs);
      EXPECT_EQ(call.channels, 0);
      Call blocked = offered();
      blocked.cost(Algorithm::ring, Protocol::simple) = -1;
      EXPECT_EQ(tuner.choose(blocked).costs, blocked.costs);
    }
  });
}

TEST(TunerPlugin, memory_behind_a_smaller_table_is_not_touched) {
  with_rows([] {
    Call call = offered(7500);  // PAT, the seventh algorithm
    call.algorithms = 6;
    for (std::size_t i = 18; i < 21; ++i) call.costs[i] = 99;
    EXPECT_EQ(Tuner(3).choose(call).costs, call.costs);
  });
}

TEST(TunerPlugin, chunks_are_those_of_the_last_decision_for_the_algorithm) {
  with_rows([] {
    Tuner tuner(6);
    EXPECT_EQ(tuner.chunk(Algorithm::ring, Protocol::ll), 131072u);
    tuner.choose(offered(3500));
    EXPECT_EQ(tuner.chunk(Algorithm::ring, Protocol::ll), 262144u);
    EXPECT_EQ(tuner.chunk(Algorithm::tree, Protocol::ll), 131072u);
    EXPECT_EQ(Tuner(6).chunk(Algorithm::ring, Protocol::ll), 131072u);  // of another communicator
    Call cheap = offered(1);  // no row, and NCCL's own choice is the same algorithm
    cheap.cost(Algorithm::ring, Protocol::ll) = 1;
    tuner.choose(cheap);
    EXPECT_EQ(tuner.chunk(Algorithm::ring, Protocol::ll), 131072u);
  });
}

// All that can be wrong about a file: it changes nothing in any version, and one warning says what.
void expect_disabled(const std::string& text, const std::map<std::string, std::string>& environment, std::size_t ranks,
                     std::size_t nodes, const std::string& why) {
  with_file(text, environment, [&] {
    for (const int version : versions) {
      Tuner tuner(version, ranks, nodes);
      const Call call = tuner.choose(offered());
      EXPECT_EQ(call.costs, offered().costs);
      EXPECT_EQ(call.channels, 0);
      EXPECT_EQ(call.algorithm, abi::undefined);
      tuner.finalize();
    }
    EXPECT_THAT(said().warnings, ElementsAre(HasSubstr(why)));
  });
}

TEST(TunerPlugin, other_ranks_than_the_files_disable_it_with_one_warning) {
  expect_disabled(to_csv(rows, ""), {}, 8, 1, "for 4 ranks on 1 nodes, this communicator has 8 on 1");
}
TEST(TunerPlugin, other_nodes_than_the_files_disable_it_with_one_warning) {
  expect_disabled(to_csv(rows, ""), {}, 4, 2, "this communicator has 4 on 2");
}
TEST(TunerPlugin, another_nccl_disables_it_with_one_warning) {
  expect_disabled(to_csv(rows, ""), {{"TEST_NCCL_VERSION", "22907"}}, 4, 1, "is for NCCL version 22803, this is 22907");
}
TEST(TunerPlugin, a_malformed_file_disables_it_with_one_warning_that_names_the_line) {
  expect_disabled(to_csv(rows, "") + "all_reduce,x\n", {}, 4, 1, ".csv, line 11: 2 fields, not 8");
}
TEST(TunerPlugin, a_missing_file_disables_it_with_one_warning) {
  in_fresh_process({{"NCCL_TUNER_CONFIG_FILE", "/nonexistent/nccl-tuner.csv"}}, [] {
    EXPECT_EQ(Tuner(5).choose(offered()).costs, offered().costs);
    EXPECT_EQ(Tuner(5).choose(offered()).costs, offered().costs);
    EXPECT_THAT(said().warnings, ElementsAre(HasSubstr("/nonexistent/nccl-tuner.csv cannot be read")));
  });
  in_fresh_process({}, [] {
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    EXPECT_EQ(Tuner(5).choose(offered()).costs, offered().costs);
    EXPECT_THAT(said().warnings, ElementsAre(HasSubstr("NCCL_TUNER_CONFIG_FILE names no file")));
  });
}

TEST(TunerPlugin, splits_of_the_job_go_their_own_ways_without_a_warning) {
  with_rows([] {
    Tuner world(5);
    Tuner split(5, 2, 1);
    EXPECT_EQ(world.choose(offered()).cheapest(), "ring/simple");
    EXPECT_EQ(split.choose(offered()).costs, offered().costs);
    EXPECT_THAT(said().warnings, IsEmpty());
    split.finalize();
    EXPECT_EQ(world.choose(offered()).cheapest(), "ring/simple");
  });
}

TEST(TunerPlugin, many_threads_each_with_a_communicator_and_all_on_one) {
  with_rows([] {
    Tuner shared(6);
    std::atomic<int> wrong = 0;
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 8; ++t)
        threads.emplace_back([&] {
          for (int i = 0; i < 200; ++i) {
            Tuner own(6, i % 2 ? 4 : 2);
            wrong += own.choose(offered()).cheapest() != (i % 2 ? "ring/simple" : "tree/ll");
            wrong += shared.choose(offered(3500)).channels != 8;
            wrong += shared.chunk(Algorithm::ring, Protocol::ll) != 262144;
            own.finalize();
          }
        });
    }
    EXPECT_EQ(wrong, 0);
  });
}

// ---- the tuner that ours displaced

int counted(const char* name) {
  void* library = dlopen(P5BENCH_DISPLACED, RTLD_NOW | RTLD_NOLOAD);
  const auto* count = library ? static_cast<std::atomic<int>*>(dlsym(library, name)) : nullptr;
  return count ? count->load() : -1;
}

void with_displaced(std::map<std::string, std::string> environment, const std::function<void()>& body) {
  environment.insert({"P5BENCH_TUNER_CHAIN", P5BENCH_DISPLACED});
  with_file(to_csv(rows, ""), environment, body);
}

TEST(TunerChain, calls_in_no_row_go_on_in_the_highest_version_that_nccl_would_have_used) {
  with_displaced({}, [] {
    for (const auto& [version, used] : std::map<int, int>{{3, 3}, {4, 3}, {5, 3}, {6, 6}}) {
      Tuner tuner(version);
      const Call other = tuner.choose(offered(1));
      EXPECT_EQ(other.cheapest(), "tree/simple") << version;
      EXPECT_EQ(other.channels, used);
      const Call ours = tuner.choose(offered());
      EXPECT_EQ(ours.cheapest(), "ring/simple");
      EXPECT_EQ(ours.channels, 0);
      tuner.finalize();
    }
    Tuner second(2);
    const Call call = second.choose(offered(1));
    EXPECT_EQ(call.algorithm, 0);
    EXPECT_EQ(call.protocol, 2);
    EXPECT_EQ(call.channels, 2);
    EXPECT_EQ(second.choose(offered()).algorithm, static_cast<int>(Algorithm::ring));
    EXPECT_THAT(said().warnings, IsEmpty());
  });
}

TEST(TunerChain, it_is_started_and_ended_with_each_communicator_and_may_correct_constants) {
  with_displaced({}, [] {
    void* const kept = dlopen(P5BENCH_DISPLACED, RTLD_NOW);  // or the counts would go with the library
    EXPECT_NE(kept, nullptr);
    Tuner first(6), split(6, 2, 1);
    EXPECT_EQ(first.constants.base_latencies[0][0], 42);
    EXPECT_EQ(counted("displaced_started"), 2);
    first.finalize();
    EXPECT_EQ(counted("displaced_finalized"), 1);
    split.finalize();
    EXPECT_EQ(counted("displaced_finalized"), 2);
  });
}

TEST(TunerChain, it_is_asked_where_the_table_does_not_fit) {
  with_displaced({}, [] {
    EXPECT_EQ(Tuner(6, 8, 1).choose(offered()).cheapest(), "tree/simple");
    EXPECT_EQ(Tuner(6, 4, 1).choose(offered(5500)).cheapest(), "tree/simple");  // a row for what is not available
  });
}

TEST(TunerChain, chunks_of_calls_that_are_not_ours_are_its) {
  with_displaced({}, [] {
    Tuner tuner(6);
    tuner.choose(offered(3500));
    tuner.choose(offered(1));
    EXPECT_EQ(tuner.chunk(Algorithm::ring, Protocol::ll), 262144u);
    EXPECT_EQ(tuner.chunk(Algorithm::tree, Protocol::simple), 65536u);
    EXPECT_EQ(Tuner(5).choose(offered(1)).cheapest(), "tree/simple");
  });
}

TEST(TunerChain, an_error_of_its_changes_nothing) {
  with_displaced({{"P5BENCH_TEST_TUNER", "fail"}}, [] {
    for (const int version : versions) {
      const Call call = Tuner(version).choose(offered(1));
      EXPECT_EQ(call.costs, offered().costs);
      EXPECT_EQ(call.channels, 0);
      EXPECT_EQ(call.algorithm, abi::undefined);
    }
    EXPECT_EQ(Tuner(6).chunk(Algorithm::tree, Protocol::simple), 131072u);
  });
}

TEST(TunerChain, one_that_does_not_start_or_is_not_there_is_warned_of_once_and_left_out) {
  with_displaced({{"P5BENCH_TEST_TUNER", "refuse"}}, [] {
    EXPECT_EQ(Tuner(6).choose(offered(1)).costs, offered().costs);
    EXPECT_EQ(Tuner(5).choose(offered()).cheapest(), "ring/simple");
    EXPECT_THAT(said().warnings, ElementsAre(HasSubstr("does not start")));
  });
  with_displaced({{"P5BENCH_TUNER_CHAIN", "/nonexistent.so"}}, [] {
    EXPECT_EQ(Tuner(6).choose(offered(1)).costs, offered().costs);
    EXPECT_EQ(Tuner(6).choose(offered()).cheapest(), "ring/simple");
    EXPECT_THAT(said().warnings, ElementsAre(HasSubstr("/nonexistent.so")));
  });
}

TEST(TunerChain, ours_is_not_chained_to_itself) {
  with_displaced({{"P5BENCH_TUNER_CHAIN", P5BENCH_PLUGIN}}, [] {
    EXPECT_EQ(Tuner(6).choose(offered(1)).costs, offered().costs);
    EXPECT_THAT(said().warnings, ElementsAre(HasSubstr("no other tuner")));
  });
}

}  // namespace
}  // namespace p5::tuner
