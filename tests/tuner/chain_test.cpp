// Calls of libnccl-tuner-p5bench.so to the chained tuner.
#include <algorithm>
#include <atomic>

#include "tests/tuner/plugin_test.hpp"

namespace p5::tuner::plugin_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

int counted(const char* name) {
  void* library = dlopen(P5BENCH_CHAINED, RTLD_NOW | RTLD_NOLOAD);
  const auto* count = library ? static_cast<std::atomic<int>*>(dlsym(library, name)) : nullptr;
  return count ? count->load() : -1;
}

void with_chained_tuner(std::map<std::string, std::string> environment, const std::function<void()>& body) {
  environment.insert({"P5BENCH_TUNER_CHAIN", P5BENCH_CHAINED});
  with_file(to_csv(rows, ""), environment, body);
}

TEST(TunerChain, calls_in_no_row_go_on_in_the_highest_version_that_nccl_would_have_used) {
  with_chained_tuner({}, [] {
    for (const auto& [version, used] : std::map<int, int>{{3, 3}, {4, 3}, {5, 3}, {6, 6}, {7, 6}}) {
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

TEST(TunerChain, calls_whose_setting_nccl_relegates_go_on_to_it) {
  with_chained_tuner({}, [] {
    for (const int version : versions_with_costs) {
      Call float8 = offered();
      for (const Protocol protocol : {Protocol::ll, Protocol::ll128, Protocol::simple})
        float8.cost(Algorithm::ring, protocol) *= 1024;
      EXPECT_EQ(Tuner(version).choose(float8).cheapest(), "tree/simple") << version;
    }
  });
}

TEST(TunerChain, calls_on_registered_buffers_go_on_to_it) {
  with_chained_tuner({}, [] {
    for (const int version : {4, 5, 6, 7}) {
      Call registered = offered();
      registered.registered = true;
      EXPECT_EQ(Tuner(version).choose(registered).cheapest(), "tree/simple") << version;
    }
  });
}

TEST(TunerChain, it_is_started_and_ended_with_each_communicator_and_may_correct_constants) {
  with_chained_tuner({}, [] {
    void* const kept = dlopen(P5BENCH_CHAINED, RTLD_NOW);  // otherwise the counts would be unloaded with the library
    EXPECT_NE(kept, nullptr);
    Tuner first(6), split(6, 2, 1);
    EXPECT_EQ(first.constants.narrow.base_latencies[0][0], 42);
    EXPECT_EQ(counted("chained_tuner_started"), 2);
    first.finalize();
    EXPECT_EQ(counted("chained_tuner_finalized"), 1);
    split.finalize();
    EXPECT_EQ(counted("chained_tuner_finalized"), 2);
  });
}

TEST(TunerChain, one_that_knows_one_compute_capability_less_corrects_the_others) {
  with_chained_tuner({}, [] {
    Tuner tuner(7);
    EXPECT_EQ(tuner.constants.v7.base_latencies[0][0], 42);
    EXPECT_EQ(tuner.constants.v7.bandwidths[4][3][2], 43);
    EXPECT_EQ(tuner.constants.v7.bandwidths[4][4][2], 0);
  });
}

TEST(TunerChain, it_is_asked_where_the_table_does_not_fit) {
  with_chained_tuner({}, [] {
    EXPECT_EQ(Tuner(6, 8, 1).choose(offered()).cheapest(), "tree/simple");
    EXPECT_EQ(Tuner(7, 8, 1).choose(offered()).cheapest(), "tree/simple");
    EXPECT_EQ(Tuner(6, 4, 1).choose(offered(5500)).cheapest(), "tree/simple");  // a row for an unavailable setting
  });
}

TEST(TunerChain, chunks_of_calls_that_are_not_ours_are_its) {
  with_chained_tuner({}, [] {
    Tuner tuner(6);
    tuner.choose(offered(3500));
    tuner.choose(offered(1));
    EXPECT_EQ(tuner.chunk(Algorithm::ring, Protocol::ll), 262144u);
    EXPECT_EQ(tuner.chunk(Algorithm::tree, Protocol::simple), 65536u);
    EXPECT_EQ(Tuner(5).choose(offered(1)).cheapest(), "tree/simple");
  });
}

TEST(TunerChain, an_error_of_its_changes_nothing) {
  with_chained_tuner({{"P5BENCH_TEST_TUNER", "fail"}}, [] {
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
  with_chained_tuner({{"P5BENCH_TEST_TUNER", "refuse"}}, [] {
    EXPECT_EQ(Tuner(6).choose(offered(1)).costs, offered().costs);
    EXPECT_EQ(Tuner(5).choose(offered()).cheapest(), "ring/simple");
    EXPECT_THAT(said().warnings, ElementsAre(HasSubstr("does not start")));
  });
  // Another host may have it, so that ranks choose differently: a line on stderr, since the job may hang.
  with_chained_tuner({{"P5BENCH_TUNER_CHAIN", "/nonexistent.so"}}, [] {
    testing::internal::CaptureStderr();
    EXPECT_EQ(Tuner(6).choose(offered(1)).costs, offered().costs);
    EXPECT_EQ(Tuner(6).choose(offered()).cheapest(), "ring/simple");
    const std::string on_stderr = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::ranges::count(on_stderr, '\n'), 1) << on_stderr;
    EXPECT_THAT(on_stderr, AllOf(HasSubstr("/nonexistent.so"), HasSubstr("same file on all hosts")));
    EXPECT_THAT(said().warnings, ElementsAre(HasSubstr("/nonexistent.so")));
  });
}

TEST(TunerChain, ours_is_not_chained_to_itself) {
  with_chained_tuner({{"P5BENCH_TUNER_CHAIN", P5BENCH_PLUGIN}}, [] {
    EXPECT_EQ(Tuner(6).choose(offered(1)).costs, offered().costs);
    EXPECT_THAT(said().warnings, ElementsAre(HasSubstr("no other tuner")));
  });
}

}  // namespace
}  // namespace p5::tuner::plugin_test
