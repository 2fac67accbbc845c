// The effects of a table on libnccl-tuner-p5bench.so, and of files that are invalid or for another job.
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/tuner/plugin_test.hpp"

extern "C" int ncclGetVersion(int* version);
// The version of NCCL that the plugin finds; NCCL itself is not loaded.
int ncclGetVersion(int* version) {
  const char* text = std::getenv("TEST_NCCL_VERSION");
  *version = text ? std::atoi(text) : 22803;
  return 0;
}

namespace p5::tuner::plugin_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TunerPlugin, a_row_makes_its_setting_the_cheapest_at_the_measured_time) {
  with_rows([] {
    for (const int version : versions_with_costs) {
      Tuner tuner(version);
      Call call = tuner.choose(offered());
      EXPECT_EQ(call.cheapest(), "ring/simple") << "version " << version;
      EXPECT_FLOAT_EQ(call.cost(Algorithm::ring, Protocol::simple), 12.5);
      EXPECT_GT(call.cost(Algorithm::tree, Protocol::ll), 12.5);
      EXPECT_FLOAT_EQ(call.cost(Algorithm::ring, Protocol::ll128), 14);  // was already above the preferred cost
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
    // in these versions NCCL itself marks the forbidden entries
    EXPECT_EQ(Tuner(5).choose(offered()).cheapest(), "ring/simple");
  });
  with_file(to_csv(rows, ""), {{"NCCL_PROTO", ""}, {"NCCL_ALGO", ""}}, [] {
    EXPECT_EQ(Tuner(2).choose(offered()).algorithm, static_cast<int>(Algorithm::ring))
        << "an empty one constrains none";
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
      other.function = static_cast<Function>(8);  // all-to-all, which tables do not have
      EXPECT_EQ(tuner.choose(other).costs, offered().costs);
    }
  });
}

// Rows are measured on buffers that are not registered.
TEST(TunerPlugin, calls_on_registered_buffers_stay_as_they_are_where_nccl_tells_of_them) {
  with_rows([] {
    Call registered = offered();
    registered.registered = true;
    for (const int version : versions_with_costs) {
      Tuner tuner(version);
      if (version < 4)
        EXPECT_EQ(tuner.choose(registered).cheapest(), "ring/simple");
      else
        EXPECT_EQ(tuner.choose(registered).costs, registered.costs) << "version " << version;
      EXPECT_EQ(tuner.choose(offered()).cheapest(), "ring/simple") << "version " << version;
    }
    EXPECT_THAT(said().information, ElementsAre(HasSubstr("also for calls on registered"),
                                                HasSubstr("not for calls on"), HasSubstr("not for calls on"),
                                                HasSubstr("not for calls on"), HasSubstr("not for calls on")));
  });
}

// NCCL joins calls of a group and looks for the bytes of all of them behind the address of one: where in a registered
// region it lies decides what a rank is told.
TEST(TunerPlugin, ranks_that_are_told_differently_of_their_buffers_choose_alike) {
  const auto asks = [](const char* wanted, const char* said_of_rows) {
    for (const int version : {4, 5, 6, 7}) {
      Tuner rank_0(version), rank_1(version);
      Call registered = offered();
      registered.registered = true;
      const Call first = rank_0.choose(registered), second = rank_1.choose(offered());
      EXPECT_EQ(first.costs, second.costs) << "version " << version;
      EXPECT_EQ(first.cheapest(), wanted) << "version " << version;
    }
    EXPECT_THAT(said().information, Each(HasSubstr(said_of_rows)));
    EXPECT_THAT(said().warnings, IsEmpty());
  };
  const std::string own = offered().cheapest();
  for (const char* const on : {"1", "true", "Yes"})
    with_file(to_csv(rows, ""), {{"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", on}},
              [&] { asks(own.c_str(), "for broadcast and reduce alone"); });
  with_file(to_csv(rows, ""), {{"P5BENCH_TUNER_REGISTERED", "rows"}},
            [&] { asks("ring/simple", "also for calls on registered buffers"); });
}

TEST(TunerPlugin, an_allocator_that_registers_nothing_changes_nothing) {
  for (const std::map<std::string, std::string>& environment :
       {std::map<std::string, std::string>{{"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "0"}},
        std::map<std::string, std::string>{{"P5BENCH_TUNER_REGISTERED", "1"}}})
    with_file(to_csv(rows, ""), environment, [&] {
      Call registered = offered();
      registered.registered = true;
      for (int communicator = 0; communicator < 2; ++communicator) {
        EXPECT_EQ(Tuner(5).choose(registered).costs, registered.costs);
        EXPECT_EQ(Tuner(5).choose(offered()).cheapest(), "ring/simple");
      }
      if (environment.contains("P5BENCH_TUNER_REGISTERED"))
        EXPECT_THAT(said().warnings, ElementsAre(HasSubstr("P5BENCH_TUNER_REGISTERED=1 is not 'rows'")));
      else
        EXPECT_THAT(said().warnings, IsEmpty());
    });
}

// Ranks other than the root may pass one buffer alone: they would decide otherwise than the root.
TEST(TunerPlugin, calls_with_a_root_run_alike_whatever_nccl_tells_of_their_buffers) {
  Table with_roots = rows;
  with_roots.rows = {{Function::broadcast, 1000, 2000, {Algorithm::ring, Protocol::simple}, 12.5},
                     {Function::reduce, 1000, 2000, {Algorithm::ring, Protocol::simple}, 12.5},
                     {Function::all_gather, 1000, 2000, {Algorithm::ring, Protocol::simple}, 12.5},
                     {Function::reduce_scatter, 1000, 2000, {Algorithm::ring, Protocol::simple}, 12.5}};
  with_file(to_csv(with_roots, ""), {}, [] {
    Tuner tuner(5);
    for (const Function function :
         {Function::broadcast, Function::reduce, Function::all_gather, Function::reduce_scatter})
      for (const bool registered : {false, true}) {
        Call call = offered();
        call.function = function;
        call.registered = registered;
        EXPECT_EQ(tuner.choose(call).cheapest(),
                  registered && has_both_buffers_everywhere(function) ? "tree/ll" : "ring/simple")
            << name_of(function) << registered;
      }
    EXPECT_FALSE(has_both_buffers_everywhere(Function::broadcast) || has_both_buffers_everywhere(Function::reduce));
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

// NCCL multiplies the costs of rings of more than 8 ranks by 1024 for float8.
TEST(TunerPlugin, what_nccl_relegates_for_its_lack_of_precision_is_never_forced) {
  with_rows([] {
    for (const int version : versions_with_costs) {
      Tuner tuner(version);
      Call float8 = offered(3500);
      for (const Protocol protocol : {Protocol::ll, Protocol::ll128, Protocol::simple})
        float8.cost(Algorithm::ring, protocol) *= 1024;
      const Call chosen = tuner.choose(float8);
      EXPECT_EQ(chosen.costs, float8.costs) << "version " << version;
      EXPECT_EQ(chosen.channels, 0);
      Call only_rings = float8;  // as for a function without another algorithm
      for (const Protocol protocol : {Protocol::ll, Protocol::ll128, Protocol::simple})
        only_rings.cost(Algorithm::tree, protocol) = -1;
      EXPECT_EQ(tuner.choose(only_rings).channels, 8) << "version " << version;
      Call slow = offered(3500);  // predicted 100 times as slow, and measured as faster
      slow.cost(Algorithm::ring, Protocol::ll) = 1000;
      EXPECT_EQ(tuner.choose(slow).cheapest(), "ring/ll") << "version " << version;
      Call without_time = offered(3500);  // an entry of 0 says nothing
      without_time.cost(Algorithm::tree, Protocol::ll) = 0;
      EXPECT_EQ(tuner.choose(without_time).cheapest(), "ring/ll") << "version " << version;
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

TEST(TunerPlugin, an_algorithm_that_it_does_not_know_is_no_cheaper_than_the_setting) {
  with_rows([] {
    Call call = offered();
    call.algorithms = 8;
    call.costs[21] = 1;
    call = Tuner(5).choose(call);
    EXPECT_FLOAT_EQ(call.cost(Algorithm::ring, Protocol::simple), 12.5);
    EXPECT_GT(call.costs[21], 12.5);
  });
}

TEST(TunerPlugin, chunks_are_those_of_the_last_decision_for_the_algorithm) {
  with_rows([] {
    for (const int version : {6, 7}) {
      Tuner tuner(version);
      EXPECT_EQ(tuner.chunk(Algorithm::ring, Protocol::ll), 131072u);
      tuner.choose(offered(3500));
      EXPECT_EQ(tuner.chunk(Algorithm::ring, Protocol::ll), 262144u);
      EXPECT_EQ(tuner.chunk(Algorithm::tree, Protocol::ll), 131072u);
      EXPECT_EQ(Tuner(version).chunk(Algorithm::ring, Protocol::ll), 131072u);  // for another communicator
      Call cheap = offered(1);  // no row, and NCCL's own choice is the same algorithm
      cheap.cost(Algorithm::ring, Protocol::ll) = 1;
      tuner.choose(cheap);
      EXPECT_EQ(tuner.chunk(Algorithm::ring, Protocol::ll), 131072u);
    }
  });
}

// NCCL 2.31 first queries with only its kernels for symmetric memory in mind, then for the same call again.
TEST(TunerPlugin, a_table_in_which_nothing_is_available_stays_as_it_is) {
  with_rows([] {
    for (const int version : versions_with_costs) {
      Tuner tuner(version);
      Call nothing = offered();
      nothing.costs.fill(-1);
      EXPECT_EQ(tuner.choose(nothing).costs, nothing.costs);
      EXPECT_EQ(tuner.choose(nothing).channels, 0);
      EXPECT_EQ(tuner.choose(offered()).cheapest(), "ring/simple");
    }
  });
}

// Files for something else: they change nothing in any version, and one warning says for what.
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
  expect_disabled(to_csv(rows, ""), {}, 8, 1, "for 4 ranks on 1 nodes, this communicator has 8 ranks on 1 nodes");
}
TEST(TunerPlugin, other_nodes_than_the_files_disable_it_with_one_warning) {
  expect_disabled(to_csv(rows, ""), {}, 4, 2, "this communicator has 4 ranks on 2 nodes");
}
TEST(TunerPlugin, another_nccl_disables_it_with_one_warning) {
  expect_disabled(to_csv(rows, ""), {{"TEST_NCCL_VERSION", "22907"}}, 4, 1,
                  "is for NCCL 2.28.3, this job runs NCCL 2.29.7");
}
TEST(TunerPlugin, an_nccl_of_unknown_version_disables_it_with_one_warning) {
  Table newer = rows;
  newer.nccl_version = 23007;
  expect_disabled(to_csv(newer, "") + to_csv(rows, ""), {{"TEST_NCCL_VERSION", "0"}}, 4, 1,
                  "is for NCCL 2.30.7, 2.28.3, and this job's NCCL (");
}
TEST(TunerPlugin, takes_no_version_from_another_file_than_the_nccl_that_loaded_it) {
  with_rows([] {
    void* const library = dlopen(P5BENCH_CHAINED, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto logger = reinterpret_cast<abi::Logger>(dlsym(library, "chained_tuner_logger"));
    ASSERT_NE(logger, nullptr);
    testing::internal::CaptureStderr();
    void* context = nullptr;
    ASSERT_EQ(interface<abi::TunerV3>(3).init(4, 1, logger, &context), abi::success);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(std::string(P5BENCH_CHAINED) + ") tells no version"));
    Call call = offered();
    EXPECT_EQ(interface<abi::TunerV3>(3).choose(context, static_cast<int>(call.function), call.bytes, 1,
                                                reinterpret_cast<float**>(call.costs.data()), call.algorithms, 3,
                                                &call.channels),
              abi::success);
    EXPECT_EQ(call.costs, offered().costs);
    EXPECT_EQ(interface<abi::TunerV3>(3).finalize(context), abi::success);
  });
}
TEST(TunerPlugin, another_nccl_is_one_line_on_stderr_that_says_what_to_do) {
  Table newer = rows;
  newer.nccl_version = 23007;
  for (const auto& [variable, speaks] : std::map<std::string, bool>{{"NONE=0", true},
                                                                    {"OMPI_COMM_WORLD_RANK=0", true},
                                                                    {"OMPI_COMM_WORLD_RANK=1", false},
                                                                    {"SLURM_PROCID=3", false},
                                                                    {"RANK=0", true}}) {
    const std::size_t equals = variable.find('=');
    with_file(to_csv(rows, "") + to_csv(newer, ""),
              {{"TEST_NCCL_VERSION", "22907"}, {variable.substr(0, equals), variable.substr(equals + 1)}}, [&] {
                for (const char* const each : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"})
                  if (!variable.starts_with(each)) unsetenv(each);
                testing::internal::CaptureStderr();
                for (int communicator = 0; communicator < 3; ++communicator)
                  EXPECT_EQ(Tuner(5, communicator == 1 ? 2 : 4).choose(offered()).costs, offered().costs);
                const std::string text = testing::internal::GetCapturedStderr();
                EXPECT_EQ(std::ranges::count(text, '\n'), speaks ? 1 : 0) << variable << ": " << text;
                if (!speaks) return;
                EXPECT_THAT(text, HasSubstr("is for NCCL 2.28.3, 2.30.7, this job runs NCCL 2.29.7 ("));
                EXPECT_THAT(text, HasSubstr("p5bench tune with LD_LIBRARY_PATH="));
              });
  }
}
TEST(TunerPlugin, each_communicator_gets_the_table_that_is_for_it) {
  Table node = rows, newer = rows;
  node.ranks = 2;
  node.rows = {{Function::all_reduce, 1000, 2000, {Algorithm::tree, Protocol::ll128}, 7}};
  newer.nccl_version = 23007;
  newer.rows = {{Function::all_reduce, 1000, 2000, {Algorithm::ring, Protocol::ll}, 7}};
  with_file(to_csv(newer, "") + to_csv(rows, "the job") + to_csv(node, "its nodes"), {}, [] {
    for (const int version : versions_with_costs) {
      EXPECT_EQ(Tuner(version, 4, 1).choose(offered()).cheapest(), "ring/simple");
      EXPECT_EQ(Tuner(version, 2, 1).choose(offered()).cheapest(), "tree/ll128");
      EXPECT_EQ(Tuner(version, 3, 1).choose(offered()).costs, offered().costs);
    }
    EXPECT_THAT(said().warnings, IsEmpty());
  });
  with_file(to_csv(rows, "the job") + to_csv(node, "its nodes"), {}, [] {
    EXPECT_EQ(Tuner(5, 8, 2).choose(offered()).costs, offered().costs);
    EXPECT_THAT(said().warnings,
                ElementsAre(HasSubstr("is for 4 ranks on 1 nodes, 2 ranks on 1 nodes, this communicator has 8 ranks")));
  });
}
TEST(TunerPlugin, a_file_that_nobody_names_disables_it_with_one_warning) {
  in_fresh_process({}, [] {
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    EXPECT_EQ(Tuner(5).choose(offered()).costs, offered().costs);
    EXPECT_THAT(said().warnings, ElementsAre(HasSubstr("NCCL_TUNER_CONFIG_FILE names no file")));
  });
}

// No communicator starts, whatever its size, each time with a warning; one line goes to stderr.
void expect_refused(abi::Result with, const std::vector<std::string>& words) {
  testing::internal::CaptureStderr();
  for (const int version : versions)
    for (const std::size_t ranks : {4, 2}) {
      Constants constants{};
      void* context = nullptr;
      EXPECT_EQ(start(version, ranks, 1, constants, context), with);
      EXPECT_EQ(context, nullptr);
      EXPECT_EQ(interface<abi::TunerV3>(version == 2 ? 2 : 3).finalize(context), abi::success);
    }
  const std::string on_stderr = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(on_stderr, '\n'), 1) << on_stderr;
  EXPECT_EQ(said().warnings.size(), 2 * versions.size());
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  for (const std::string& text : {on_stderr, said().warnings.front()}) {
    EXPECT_THAT(text, HasSubstr(std::string("on ") + host.data() + ":"));
    EXPECT_THAT(text, HasSubstr("unset NCCL_TUNER_PLUGIN"));
    for (const std::string& word : words) EXPECT_THAT(text, HasSubstr(word));
  }
}

TEST(TunerPlugin, a_file_that_is_named_and_cannot_be_read_refuses_all_communicators) {
  const std::string folder = std::filesystem::temp_directory_path();
  const std::string pipe = folder + "/pipe-" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& name : {std::string("/nonexistent/nccl-tuner.csv"), folder, pipe, std::string("/dev/zero")})
    for (const char* const hash : {"", "0123456789abcdef"})
      in_fresh_process({{"NCCL_TUNER_CONFIG_FILE", name}, {"P5BENCH_TUNER_HASH", hash}},
                       [&] { expect_refused(abi::system_error, {name + " cannot be read"}); });
  std::filesystem::remove(pipe);
}

// Another host may have the whole file.
TEST(TunerPlugin, a_malformed_file_refuses_all_communicators_and_names_the_line) {
  const std::string text = to_csv(rows, "");
  with_file(text + "all_reduce,x\n", {}, [] {
    expect_refused(abi::invalid_usage, {std::getenv("NCCL_TUNER_CONFIG_FILE"), ".csv, line 11: 2 fields, not 8"});
  });
  with_file(text.substr(0, text.size() - 4), {}, [] { expect_refused(abi::invalid_usage, {"it may be cut off"}); });
}

TEST(TunerPlugin, a_file_of_another_hash_refuses_all_communicators) {
  const std::string text = to_csv(rows, ""), other = to_csv(rows, "of another day");
  with_file(other, {{"P5BENCH_TUNER_HASH", fingerprint(text)}}, [&] {
    expect_refused(abi::invalid_usage, {std::getenv("NCCL_TUNER_CONFIG_FILE"), "its hash is " + fingerprint(other),
                                        "not " + fingerprint(text)});
  });
  with_file(text.substr(0, text.size() - 1), {{"P5BENCH_TUNER_HASH", fingerprint(text)}},
            [&] { expect_refused(abi::invalid_usage, {fingerprint(text)}); });
  in_fresh_process({{"P5BENCH_TUNER_HASH", fingerprint(text)}}, [] {
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    expect_refused(abi::invalid_usage, {"NCCL_TUNER_CONFIG_FILE names no file"});
  });
}

TEST(TunerPlugin, a_file_of_the_right_hash_is_used) {
  const std::string text = to_csv(rows, "");
  with_file(text, {{"P5BENCH_TUNER_HASH", fingerprint(text)}}, [] {
    for (const int version : versions_with_costs) EXPECT_EQ(Tuner(version).choose(offered()).cheapest(), "ring/simple");
    EXPECT_THAT(said().warnings, IsEmpty());
  });
  // The file is the same on all ranks, and for another job, which is no reason to refuse communicators.
  with_file(text, {{"P5BENCH_TUNER_HASH", fingerprint(text)}, {"TEST_NCCL_VERSION", "22907"}}, [] {
    EXPECT_EQ(Tuner(5).choose(offered()).costs, offered().costs);
    EXPECT_THAT(said().warnings, ElementsAre(HasSubstr("is for NCCL 2.28.3, this job runs NCCL 2.29.7")));
  });
}

TEST(TunerPlugin, splits_of_the_job_go_their_own_ways_without_a_warning) {
  with_rows([] {
    Tuner control(5);
    Tuner split(5, 2, 1);
    EXPECT_EQ(control.choose(offered()).cheapest(), "ring/simple");
    EXPECT_EQ(split.choose(offered()).costs, offered().costs);
    EXPECT_THAT(said().warnings, IsEmpty());
    split.finalize();
    EXPECT_EQ(control.choose(offered()).cheapest(), "ring/simple");
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

}  // namespace
}  // namespace p5::tuner::plugin_test
