#include "bench/app/tuning/stages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/app/machine/workers.hpp"
#include "bench/app/tuning/limits.hpp"
#include "bench/app/tuning/tuning.hpp"
#include "bench/backends/backends.hpp"
#include "bench/base/error.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/model/job.hpp"
#include "bench/model/work.hpp"
#include "tests/unit/in_folder.hpp"

namespace p5 {
namespace {

using WhatDecidesCalls = InFolder;

TEST_F(WhatDecidesCalls, is_the_tuners_files_by_their_content_and_what_the_plugin_reads_besides) {
  const std::string table = (folder / "nccl-tuner.csv").string(), library = (folder / "tuner.so").string();
  std::ofstream(table) << "a table";
  const auto found = [&](const Environment& environment, bool tunes = false) {
    return what_decides_calls(environment, tunes);
  };
  EXPECT_TRUE(found({}).empty());
  EXPECT_EQ(found({{"NCCL_TUNER_PLUGIN", "p5bench"}}), (Environment{{"NCCL_TUNER_PLUGIN", "p5bench"}}));
  const Environment missing = found({{"NCCL_TUNER_PLUGIN", library}, {"NCCL_TUNER_CONFIG_FILE", table}});
  EXPECT_EQ(missing.at("NCCL_TUNER_PLUGIN"), library + " (not readable)");
  EXPECT_EQ(missing.at("NCCL_TUNER_CONFIG_FILE"), table + " (hash " + tuner::fingerprint("a table") + ")");
  std::ofstream(library) << "a library";
  EXPECT_NE(found({{"NCCL_TUNER_PLUGIN", library}}), found({{"NCCL_TUNER_PLUGIN", table}}));
  EXPECT_EQ(found({{"NCCL_TUNER_PLUGIN", "p5bench"}, {"P5BENCH_TUNER_CHAIN", library}}).at("P5BENCH_TUNER_CHAIN"),
            library + " (hash " + tuner::fingerprint("a library") + ")");
  for (const auto& [name, value] : Environment{{"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "true"},
                                               {"NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "1"},
                                               {"P5BENCH_TUNER_REGISTERED", "rows"},
                                               {"P5BENCH_TUNER_HASH", "1"}}) {
    EXPECT_TRUE(found({{"NCCL_TUNER_PLUGIN", "p5bench"}, {name, value}}).contains(name)) << name;
    EXPECT_TRUE(found({{name, value}}, true).contains(name)) << name;
    EXPECT_TRUE(found({{name, value}}).empty()) << name << " does nothing without a tuner";
  }
  EXPECT_TRUE(found({{"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "0"}}, true).empty());
}

TEST(ConditionsOfValidity, are_the_software_of_ranks_and_hosts_the_platform_and_the_group) {
  topo::Topology topology;
  topology.platform = "p5.48xlarge";
  topology.hosts.resize(2);
  topology.hosts[0].versions = {{"aws-ofi-nccl", "1.17.0"}, {"nvidia driver", "580.95.05"}, {"os", "Ubuntu"}};
  topology.hosts[1].versions = {{"aws-ofi-nccl", "1.16.3"}, {"nvidia driver", "580.95.05"}};
  using Conditions = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(conditions_of_validity({{"gpu", "H100"}, {"nccl.path", "/lib/libnccl.so.2"}}, topology, "node"),
            (Conditions{{"gpu", "H100"},
                        {"platform", "p5.48xlarge"},
                        {"nvidia driver", "580.95.05"},
                        {"aws-ofi-nccl", "1.16.3 and 1.17.0"},
                        {"--group", "node"}}));
  EXPECT_EQ(conditions_of_validity({}, {}, "world"), Conditions());
}

// NCCL's size of a call would otherwise be below that of its row, in whole elements of another type.
TEST(JobToTune, is_searched_in_a_type_in_which_all_of_its_sizes_are_whole) {
  constexpr Bytes gathered{197520};  // 12345 elements of bfloat16 of each of 8 ranks
  Replay replay;
  const auto add = [&](const char* collective, Bytes bytes, DataType type, const char* group) {
    const auto planned = std::make_shared<Case>();
    planned->collective = &find_collective(collective);
    planned->bytes = bytes;
    planned->type = type;
    planned->ranks = 8;
    Work work;
    work.kind = Work::Kind::collective;
    work.collective = planned->collective;
    work.group = group;
    work.planned = planned;
    ReplayedOperation operation;
    operation.work = static_cast<int>(replay.works.size());
    replay.works.push_back(work);
    replay.operations.push_back(operation);
  };
  add("all_reduce", MiB(1), DataType::float32, "world");
  add("all_to_all", KiB(64), DataType::int8, "world");
  const Placement placement(NodeOfRank(8, 0));
  EXPECT_EQ(job_to_tune({}, replay, placement).types.moved, DataType::float32) << "NCCL asks no tuner about the other";
  add("all_gather", gathered, DataType::bfloat16, "world");
  EXPECT_EQ(job_to_tune({}, replay, placement).types.moved, DataType::bfloat16);
  constexpr Bytes odd{8'000'024};  // 1,000,003 bytes of each of 8 ranks
  add("all_gather", odd, DataType::int8, "world");
  const JobToTune found = job_to_tune({}, replay, placement);
  EXPECT_EQ(found.types.moved, DataType::int8);
  EXPECT_EQ(found.types.reduced, DataType::float32);
  const auto searched = [&](DataType type, Bytes bytes) {
    return find_collective("all_gather").shape(bytes, false, size_of(type), 8).bytes;
  };
  for (const Bytes bytes : {gathered, odd}) {
    EXPECT_EQ(searched(found.types.moved, bytes), bytes);
    EXPECT_GT(searched(DataType::float32, bytes), bytes);
  }
  EXPECT_GT(searched(DataType::bfloat16, odd), odd);
  add("reduce_scatter", KiB(1), DataType::int8, "world");  // in which NVLS does not reduce
  EXPECT_EQ(job_to_tune({}, replay, placement).types.reduced, DataType::bfloat16);
}

TEST(VariablesForNvls, are_tried_where_nccl_offers_it_or_its_tree) {
  const auto offered = [](const std::vector<tuner::Algorithm>& algorithms) {
    tuner::Record record;
    for (const tuner::Algorithm algorithm : algorithms)
      record.offered.push_back({.setting = {.algorithm = algorithm}, .microseconds = 10});
    return std::vector{record};
  };
  using enum tuner::Algorithm;
  EXPECT_FALSE(may_use_nvls(offered({tree, ring}), {}));
  EXPECT_TRUE(may_use_nvls(offered({tree, ring, nvls}), {}));
  EXPECT_TRUE(may_use_nvls(offered({tree, ring, nvls_tree}), {})) << "between nodes, without CollNet";
}

TEST(VariablesForNvls, are_tried_without_a_search_unless_the_operator_forbids_it) {
  EXPECT_TRUE(may_use_nvls({}, {}));
  EXPECT_TRUE(may_use_nvls({}, tuner::constraints_of({{"NCCL_ALGO", "nvlstree"}})));
  EXPECT_FALSE(may_use_nvls({}, tuner::constraints_of({{"NCCL_NVLS_ENABLE", "0"}})));
  EXPECT_FALSE(may_use_nvls({}, tuner::constraints_of({{"NCCL_ALGO", "ring"}})));
}

TEST(PointsToConfirm, are_some_of_each_collective_that_the_plugin_is_loaded_for) {
  const auto searched = [](const std::string& collective, std::uint64_t bytes, Trial::Outcome outcome) {
    tuner::Record record;
    record.point = {collective, bytes};
    record.blocks = {{.stage = tuner::Stage::baseline, .candidates = {{}}, .trials = {{outcome, {1e-5}, ""}}}};
    return record;
  };
  std::vector<tuner::Record> records{searched("broadcast", 8, Trial::Outcome::failed)};
  for (const std::uint64_t bytes : {8, 1024, 65536, 1 << 20})
    records.push_back(searched("all_gather", bytes, Trial::Outcome::measured));
  for (const std::uint64_t bytes : {128, 64, 32, 16, 8})
    records.push_back(searched("all_reduce", bytes, Trial::Outcome::measured));
  const tuner::Table table{22803, 2, 1, {{tuner::Function::all_gather, 1024, 65536, {}, 1}}};
  EXPECT_EQ(points_to_confirm(table, records), (std::set<tuner::SizePoint>{{"all_gather", 8},
                                                                           {"all_gather", 1024},
                                                                           {"all_gather", 1536},
                                                                           {"all_gather", 8200},
                                                                           {"all_gather", 49152},
                                                                           {"all_gather", 65536},
                                                                           {"all_gather", 1 << 20},
                                                                           {"all_reduce", 8},
                                                                           {"all_reduce", 32},
                                                                           {"all_reduce", 128}}));
}

// A rank whose operations take a fixed time, give or take a little, and give wrong data at one size from one launch on,
// in the first verifications there.
struct RankOfOneTime final : Backend {
  struct Operations final : Session {
    Operations(RankOfOneTime& rank_, Bytes bytes_) : rank(rank_), bytes(bytes_) {}
    int slots() const override { return 100; }
    std::string unavailable() const override { return rank.unavailable.contains(bytes) ? "needs NCCL 2.29" : ""; }
    void warm_up(int, const std::string&) override {
      if (!rank.failing.contains(bytes)) return;
      ++rank.attempts;
      throw CaseError("an operation hung");
    }
    Times sample(const SampleRequest& request) override {
      Times times(1);
      const auto launch = static_cast<std::size_t>(rank.launches_ended);
      const double launching = request.quantity == Quantity::throughput && !rank.launching.empty()
                                   ? rank.launching[launch % rank.launching.size()]
                                   : 1;
      for (int i = 0; i < request.samples; ++i)
        times[0].push_back(rank.operation_s * launching * (1 + 0.001 * static_cast<double>(++rank.samples % 5)));
      return times;
    }
    Verification verify() override {
      if (bytes != rank.wrong_at || rank.launches_ended < rank.wrong_from_launch) return {};
      if (++rank.verified > rank.wrong_verifications) return {};
      return {.wrong_elements = 3, .first = WrongElement{.rank = 0, .offset = 1, .wanted = "1", .got = "2"}};
    }
    RankOfOneTime& rank;
    Bytes bytes;
  };
  std::unique_ptr<Session> open(const Case& c, int) override {
    if (holding) {
      if (std::ranges::any_of(*holding, [&](const RankOfOneTime* each) { return each != this; }))
        throw CaseError("out of memory");
      holding->push_back(this);
    }
    return std::make_unique<Operations>(*this, c.bytes);
  }
  Bytes memory_per_rank(const Case&) const override { return {1}; }
  CostModel cost() const override { return {}; }
  bool recovers() const override { return true; }
  void stop() override {
    ++launches_ended;
    if (holding) std::erase(*holding, this);
  }
  std::unique_ptr<Backend> arm(const Environment& environment) const override {
    return make_arm ? make_arm(environment) : nullptr;
  }

  double operation_s = 1e-3;
  std::vector<double> launching;  // factors by which each launch's processes take longer, kernel launches included
  std::function<std::unique_ptr<Backend>(const Environment&)> make_arm;
  Bytes wrong_at{0};
  int wrong_from_launch = 0, wrong_verifications = std::numeric_limits<int>::max(), verified = 0;
  int launches_ended = 0, samples = 0;
  std::set<Bytes> unavailable;  // sizes that the library cannot perform
  std::set<Bytes> failing;      // sizes at which operations fail
  int attempts = 0;             // that failed
  // Those of several that hold memory, which one alone may; null: there is enough.
  std::vector<const RankOfOneTime*>* holding = nullptr;
};

std::vector<Case> all_reduces(const std::vector<Bytes>& sizes) {
  std::vector<Case> cases;
  for (const Bytes size : sizes) {
    Case& c = cases.emplace_back();
    c.collective = &find_collective("all_reduce");
    c.bytes = size;
    c.rounds = std::make_shared<const std::vector<Round>>(std::vector<Round>{{{0}}});
  }
  return cases;
}

double time_without_end() { return 1e9; }

void expect_wrong_default(const std::vector<tuner::Failure>& failures, Bytes size) {
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].point, (tuner::SizePoint{"all_reduce", size.count}));
  EXPECT_TRUE(failures[0].candidate.is_default());
  EXPECT_EQ(failures[0].outcome, Trial::Outcome::wrong_data);
  EXPECT_NE(failures[0].because, "");
}

TEST(StagesOfTuning, tell_of_wrong_data_of_the_default_in_the_confirmation) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  const tuner::Table table{22803, 1, 1, {{tuner::Function::all_reduce, 64 << 10, 1 << 20, {}, 1}}};
  for (const int launch : {0, 1}) {
    RankOfOneTime standard, files;
    standard.wrong_at = KiB(256);
    standard.wrong_from_launch = launch;
    files.operation_s = 0.5e-3;
    Trials trials(*control, {&standard, &files}, all_reduces({KiB(64), KiB(256), MiB(1)}), {});
    std::vector<tuner::Failure> failures;
    const std::vector<tuner::Confirmation> measured =
        confirm_with(trials, limits_of_mode("quick"), table, {}, time_without_end, time_without_end, failures);
    expect_wrong_default(failures, KiB(256));
    ASSERT_EQ(measured.size(), 3u) << "the size stays, so that no row goes across it";
    EXPECT_EQ(measured[1].standard_failure, failures[0].because);
    EXPECT_EQ(measured[1].failure, "");
    EXPECT_EQ(measured[0].standard_failure, "");
    EXPECT_TRUE(measured[0].device.measured());
  }
}

TEST(StagesOfTuning, tell_of_wrong_data_of_the_default_before_the_search) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  RankOfOneTime standard;
  standard.wrong_at = MiB(1);
  standard.wrong_verifications = 1;
  Trials trials(*control, {&standard}, all_reduces({KiB(64), MiB(1)}), {});
  TuningLimits tuning_limits = limits_of_mode("quick");
  tuning_limits.burn_in = {0};
  std::vector<tuner::Failure> failures;
  burn_in(trials, tuning_limits, failures);
  expect_wrong_default(failures, MiB(1));
}

// Each failure may cost a timeout and new workers, and the first already decides that nothing is set.
TEST(StagesOfTuning, end_at_the_first_failure_of_the_default) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  RankOfOneTime standard;
  standard.failing = {KiB(64), KiB(256), MiB(1)};
  Trials trials(*control, {&standard}, all_reduces({KiB(4), KiB(64), KiB(256), MiB(1)}), {});
  std::vector<tuner::Failure> failures;
  EXPECT_TRUE(find_tasks(trials, failures).empty());
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].point, (tuner::SizePoint{"all_reduce", KiB(64).count}));
  EXPECT_EQ(standard.attempts, 1);
  failures.clear();
  burn_in(trials, limits_of_mode("quick"), failures);
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].outcome, Trial::Outcome::failed);
  EXPECT_EQ(standard.attempts, 2);
}

TEST(StagesOfTuning, end_the_confirmation_where_the_default_fails_or_the_files_do_twice) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  const tuner::Table table{22803, 1, 1, {{tuner::Function::all_reduce, 64 << 10, 4 << 20, {}, 1}}};
  for (const bool of_files : {false, true}) {
    RankOfOneTime standard, files;
    RankOfOneTime& failing = of_files ? files : standard;
    failing.failing = {KiB(256), MiB(1), MiB(4)};
    Trials trials(*control, {&standard, &files}, all_reduces({KiB(64), KiB(256), MiB(1), MiB(4)}), {});
    std::vector<tuner::Failure> failures;
    const std::vector<tuner::Confirmation> measured =
        confirm_with(trials, limits_of_mode("quick"), table, {}, time_without_end, time_without_end, failures);
    EXPECT_EQ(failing.attempts, of_files ? 2 : 1);
    EXPECT_EQ(failures.size(), of_files ? 0u : 1u);
    ASSERT_EQ(measured.size(), of_files ? 2u : 1u) << "one launch of the others proves nothing";
    EXPECT_NE(of_files ? measured[0].failure : measured[0].standard_failure, "");
    EXPECT_TRUE(tuner::confirm(table, measured).table.rows.empty());
  }
}

TEST(StagesOfTuning, end_the_confirmation_with_the_budget) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  const tuner::Table table{22803, 1, 1, {{tuner::Function::all_reduce, 64 << 10, 1 << 20, {}, 1}}};
  RankOfOneTime standard, files;
  files.operation_s = 0.5e-3;
  Trials trials(*control, {&standard, &files}, all_reduces({KiB(64), MiB(1)}), {});
  std::vector<tuner::Failure> failures;
  EXPECT_TRUE(confirm_with(
                  trials, limits_of_mode("quick"), table, {}, time_without_end, [] { return 0.0; }, failures)
                  .empty());
  EXPECT_EQ(standard.launches_ended, 0) << "no second launch was begun";
}

TEST(StagesOfTuning, tell_of_wrong_data_at_the_first_use_of_workers_to_confirm) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  const tuner::Table table{22803, 1, 1, {{tuner::Function::all_reduce, 64 << 10, 1 << 20, {}, 1}}};
  for (const bool of_files : {false, true}) {
    RankOfOneTime standard, files;
    RankOfOneTime& wrong = of_files ? files : standard;
    wrong.wrong_at = KiB(64);
    wrong.wrong_verifications = 1;
    Trials trials(*control, {&standard, &files}, all_reduces({KiB(64), MiB(1)}), {});
    std::vector<tuner::Failure> failures;
    const std::vector<tuner::Confirmation> measured =
        confirm_with(trials, limits_of_mode("quick"), table, {}, time_without_end, time_without_end, failures);
    ASSERT_EQ(measured.size(), 2u);
    if (of_files) {
      EXPECT_TRUE(failures.empty());
      EXPECT_NE(measured[0].failure, "");
      EXPECT_EQ(measured[0].outcome, Trial::Outcome::wrong_data);
    } else {
      expect_wrong_default(failures, KiB(64));
      EXPECT_EQ(measured[0].standard_failure, failures[0].because);
    }
  }
}

TEST(StagesOfTuning, tell_wrong_data_from_other_failures_of_the_files) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  const tuner::Table table{22803, 1, 1, {{tuner::Function::all_reduce, 64 << 10, 1 << 20, {}, 1}}};
  RankOfOneTime standard, files;
  files.wrong_at = KiB(64);
  Trials trials(*control, {&standard, &files}, all_reduces({KiB(64), MiB(1)}), {});
  std::vector<tuner::Failure> failures;
  const std::vector<tuner::Confirmation> measured =
      confirm_with(trials, limits_of_mode("quick"), table, {}, time_without_end, time_without_end, failures);
  EXPECT_TRUE(failures.empty());
  ASSERT_EQ(measured.size(), 2u);
  EXPECT_NE(measured[0].failure, "");
  EXPECT_EQ(measured[0].outcome, Trial::Outcome::wrong_data);
}

TEST(StagesOfTuning, tell_of_wrong_data_of_the_default_in_a_step_and_in_call_modes) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  RankOfOneTime standard, files;
  standard.wrong_at = MiB(1);
  Trials trials(*control, {&standard, &files}, all_reduces({MiB(1)}), {});
  std::vector<tuner::Failure> failures;
  const StepConfirmation step = confirm_step_with(trials, limits_of_mode("quick"), time_without_end, failures);
  expect_wrong_default(failures, MiB(1));
  EXPECT_FALSE(step.gain);
  EXPECT_TRUE(step.of_default);
  EXPECT_EQ(step.failure, failures[0].because);

  failures.clear();
  try_call_modes(*control, standard, all_reduces({KiB(1), MiB(1)}), {}, 0, {1e-3}, time_without_end, failures);
  expect_wrong_default(failures, MiB(1));
}

// The machine is no worse for it, and what else was found stays.
TEST(StagesOfTuning, take_what_the_library_cannot_perform_for_no_fault) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  RankOfOneTime standard, files;
  standard.unavailable = files.unavailable = {MiB(1)};
  Trials trials(*control, {&standard, &files}, all_reduces({MiB(1)}), {});
  std::vector<tuner::Failure> failures;
  EXPECT_TRUE(find_tasks(trials, failures).empty());
  TuningLimits tuning_limits = limits_of_mode("quick");
  tuning_limits.burn_in = {0};
  burn_in(trials, tuning_limits, failures);
  const StepConfirmation step = confirm_step_with(trials, tuning_limits, time_without_end, failures);
  EXPECT_FALSE(step.gain);
  EXPECT_EQ(step.failure, "needs NCCL 2.29");
  const std::vector<CallModeResult> modes =
      try_call_modes(*control, standard, all_reduces({MiB(1)}), {}, 0, {1e-3}, time_without_end, failures);
  ASSERT_FALSE(modes.empty());
  EXPECT_EQ(modes[0].sizes.at(0).because, "needs NCCL 2.29");
  EXPECT_TRUE(failures.empty());
}

TEST(StagesOfTuning, tell_why_there_is_nothing_to_search) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  std::vector<tuner::Failure> failures;
  RankOfOneTime standard;
  Trials offers_nothing(*control, {&standard}, all_reduces({KiB(64), MiB(1)}), {});
  EXPECT_TRUE(find_tasks(offers_nothing, failures).empty());
  EXPECT_EQ(reason_for_no_tasks(offers_nothing), "The library offers nothing to a tuner.");
  standard.unavailable = {KiB(64), MiB(1)};
  Trials cannot(*control, {&standard}, all_reduces({KiB(64), MiB(1)}), {});
  EXPECT_TRUE(find_tasks(cannot, failures).empty());
  EXPECT_EQ(reason_for_no_tasks(cannot), "needs NCCL 2.29.");
}

// Two hosts of two ranks each.
Machine machine_of_four() {
  SimMachine simulated;
  simulated.nodes = simulated.gpus = simulated.nics = 2;
  Machine machine;
  machine.topology.host_of_rank = {0, 0, 1, 1};
  machine.backend_name = "sim";
  machine.backend = make_sim_backend(simulated);
  return machine;
}

TEST(CasesToTune, have_the_traffic_and_the_tokens_of_the_job) {
  const Machine machine = machine_of_four();
  Options options;
  options.collectives = {"all_to_allv", "dispatch"};
  options.traffic = "expert:64,8,2";
  options.hidden = 128;
  const auto cases = [&](const std::vector<Bytes>& sizes) {
    return make_cases(options, machine, 1, {}, options.collectives, sizes);
  };
  int dispatches = 0;
  for (const Case& c : cases({MiB(1), MiB(16)})) {
    ASSERT_TRUE(c.shape.traffic) << describe(c);
    if (!c.collective->of_tokens) continue;
    ++dispatches;
    EXPECT_EQ(c.shape.hidden, 128u);
  }
  EXPECT_EQ(dispatches, 1) << "at the size that its tokens have";
  options.sizes = {MiB(1), MiB(16)};
  EXPECT_EQ(cases(options.sizes).size(), 4u) << "sizes that are asked for come first";
  options.sizes.clear();
  options.traffic.clear();
  std::size_t uneven = 0;
  for (const Case& c : cases({MiB(1)})) uneven += c.shape.traffic ? 1 : 0;
  EXPECT_EQ(uneven, 2u) << "those of tokens, of the usual routings";
}

// Each of two sets of workers has buffers of its own.
TEST(CasesToTune, fit_a_device_twice) {
  Machine machine = machine_of_four();
  const std::vector<std::string> collectives{"all_gather", "all_reduce"};
  const auto left_out = [&](const Options& options) {
    std::vector<Case> cases = make_cases(options, machine, 1, {}, collectives, options.sizes);
    const std::size_t all = cases.size();
    const std::set<std::string> names = leave_out_large(cases, machine);
    EXPECT_EQ(cases.size() + names.size(), all);
    return names;
  };
  Options options;
  options.sizes = {MiB(64), GiB(2), GiB(3), GiB(100)};
  EXPECT_TRUE(left_out(options).empty()) << "nothing is known of the memory";
  machine.memory_of_rank = GiB(8);
  // An all-gather of four ranks has an input of a quarter of its output, an all-reduce one as large.
  EXPECT_THAT(left_out(options), testing::ElementsAre("all_gather 100 GiB float32", "all_reduce 100 GiB float32 sum",
                                                      "all_reduce 3 GiB float32 sum"));
  options.sizes = {GiB(2)};
  options.beside = {parse_work("gemm:8192,8192,bf16")};
  EXPECT_THAT(left_out(options), testing::SizeIs(1)) << "the works have memory too";
}

TEST(CasesToTune, are_operations_of_whole_groups) {
  Options options;
  EXPECT_THAT(with_variables(options, {"all_reduce", "send_recv"}), testing::ElementsAre("all_reduce", "send_recv"));
  options.collectives = {"p2p", "all_gather", "communicator"};
  EXPECT_THAT(with_variables(options, {"all_reduce"}), testing::ElementsAre("all_gather"));
}

// NCCL_BUFFSIZE=16777216 takes 4 % less of the device's time; `standard` and `arm` are the factors by which processes
// of both sides launch more slowly.
ArmSearchResult try_buffer_sizes(const std::vector<double>& standard, const std::vector<double>& arm,
                                 const Environment& of_default = {}, int* backends_with_them = nullptr,
                                 const std::set<Bytes>& unavailable = {}) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  auto workers = std::make_unique<RankOfOneTime>();
  workers->launching = standard;
  workers->unavailable = unavailable;
  workers->make_arm = [&](const Environment& environment) {
    if (backends_with_them && std::ranges::includes(environment, of_default)) ++*backends_with_them;
    auto made = std::make_unique<RankOfOneTime>();
    made->launching = arm;
    made->unavailable = unavailable;
    const auto found = environment.find("NCCL_BUFFSIZE");
    if (found != environment.end() && found->second == "16777216") made->operation_s = 0.96e-3;
    return made;
  };
  Machine machine;
  machine.backend = std::move(workers);
  ArmTrial trial;
  trial.cases = all_reduces({KiB(1), KiB(16), MiB(1)});
  trial.place.nccl_version = 20400;  // for which there is no other variable
  trial.burst = {1e-4};
  trial.of_default = of_default;
  return try_arms(*control, machine, trial, time_without_end);
}

// RankOfOneTime::launching for a step of a job, by launch: the ends of both sides' workers count.
std::vector<double> of_both_ends(const std::vector<double>& launches) {
  std::vector<double> ends{1};  // of workers that nothing is measured with
  for (const double each : launches) ends.insert(ends.end(), 2, each);
  return ends;
}

TEST(StepOfAJob, gains_nothing_without_two_launches_of_both_sides) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  RankOfOneTime standard, files;
  files.operation_s = 0.8e-3;
  Trials trials(*control, {&standard, &files}, all_reduces({MiB(1)}), {});
  std::vector<tuner::Failure> failures;
  const auto replayed = [&](const tuner::TimeLeft& budget_left) {
    return confirm_step_with(trials, limits_of_mode("quick"), budget_left, failures);
  };
  double left = 1;
  const StepConfirmation cut = replayed([&] { return left--; });
  EXPECT_FALSE(cut.gain) << "one process of each side";
  EXPECT_EQ(cut.failure, "no time was left for it");
  left = 5;
  const StepConfirmation two = replayed([&] { return left--; });
  ASSERT_TRUE(two.gain);
  EXPECT_GT(two.gain->interval.low, 0);
}

// A guess by bytes and a rate refused jobs that fit, or kept too little.
TEST(StepOfAJob, is_replayed_first_for_the_time_that_its_launches_take) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  RankOfOneTime standard;
  standard.operation_s = 1.3;
  const TuningLimits full = limits_of_mode("full");
  std::vector<tuner::Failure> failures;
  const auto timed = [&] {
    Trials trials(*control, {&standard}, all_reduces({MiB(1)}), {});
    return time_step_with(trials, full, failures);
  };
  const StepTime step = timed();
  EXPECT_EQ(step.failure, "");
  EXPECT_NEAR(step.other_samples.count, (full.samples - 1) * 1.3, 0.2);
  standard.operation_s = 1e-6;
  EXPECT_NEAR(timed().other_samples.count, (full.samples - 1) * full.burst.count, 1e-9) << "a sample lasts a burst";
  EXPECT_TRUE(failures.empty());
  standard.unavailable = {MiB(1)};
  EXPECT_EQ(timed().failure, "needs NCCL 2.29");
  EXPECT_TRUE(failures.empty()) << "no fault of the machine";
  standard.unavailable.clear();
  standard.wrong_at = MiB(1);
  EXPECT_NE(timed().failure, "") << "before anything is searched";
  expect_wrong_default(failures, MiB(1));
}

// Two sets of workers do not fit where one takes most of the memory.
TEST(StepOfAJob, has_the_devices_to_itself) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  RankOfOneTime standard, files;
  std::vector<const RankOfOneTime*> holding;
  for (RankOfOneTime* const each : {&standard, &files}) each->holding = &holding;
  Trials trials(*control, {&standard, &files}, all_reduces({MiB(1)}), {});
  std::vector<tuner::Failure> failures;
  EXPECT_TRUE(confirm_step_with(trials, limits_of_mode("quick"), time_without_end, failures).gain);
  EXPECT_TRUE(failures.empty());
}

TEST(StepOfAJob, is_shorter_only_beyond_what_processes_differ) {
  const std::unique_ptr<ControlPlane> control = make_solo_control_plane(1);
  RankOfOneTime standard, files;
  // The files are faster in the first three launches by chance. Both sides end before each is measured.
  standard.launching = of_both_ends({1.10, 1.00, 1.08, 1.00, 1.09, 1.00, 1.05});
  files.launching = of_both_ends({1.00, 1.06, 1.02, 1.09, 1.00, 1.10, 1.06});
  Trials trials(*control, {&standard, &files}, all_reduces({MiB(1)}), {});
  std::vector<tuner::Failure> failures;
  const StepConfirmation step = confirm_step_with(trials, limits_of_mode("quick"), time_without_end, failures);
  ASSERT_TRUE(step.gain);
  EXPECT_LT(step.gain->interval.low, 0);
  EXPECT_GT(step.gain->interval.high, 0);
}

TEST(Variables, are_confirmed_by_the_devices_own_time) {
  for (const std::vector<double>& standard : {std::vector<double>{1}, std::vector<double>{1.2, 1.25, 1.22, 1.21}}) {
    const ArmSearchResult tried = try_buffer_sizes(standard, {1});
    EXPECT_EQ(tried.best.arm.name, "NCCL_BUFFSIZE=16777216") << testing::PrintToString(tried.remarks);
    ASSERT_TRUE(tried.best.objective);
    EXPECT_NEAR(tried.best.objective->speedup, 1 / 0.96, 0.005) << "processes that launch slowly gain it nothing";
    EXPECT_LT(tried.best.objective->interval.low, 1.04);
  }
}

TEST(Variables, are_compared_with_the_tuner_that_jobs_have) {
  int with_tuner = 0;
  const ArmSearchResult tried = try_buffer_sizes({1}, {1}, {{"NCCL_TUNER_PLUGIN", "/opt/tuner.so"}}, &with_tuner);
  EXPECT_EQ(tried.best.arm.name, "NCCL_BUFFSIZE=16777216") << "which is all that is set";
  EXPECT_EQ(with_tuner, static_cast<int>(tried.judged.size()) + 2) << "all arms, the winner again, and the default";
}

TEST(Variables, are_judged_by_what_the_library_can_perform_and_not_at_all_without_it) {
  const ArmSearchResult some = try_buffer_sizes({1}, {1}, {}, nullptr, {KiB(1), MiB(1)});
  EXPECT_EQ(some.best.arm.name, "NCCL_BUFFSIZE=16777216") << testing::PrintToString(some.remarks);
  EXPECT_EQ(some.unavailable, "");
  const ArmSearchResult none = try_buffer_sizes({1}, {1}, {}, nullptr, {KiB(1), KiB(16), MiB(1)});
  EXPECT_TRUE(none.judged.empty()) << "no arm ran";
  EXPECT_EQ(none.unavailable, "needs NCCL 2.29.");
  EXPECT_TRUE(none.failures.empty());
}

TEST(Variables, are_not_set_where_operations_take_longer_with_their_launches_or_processes_differ_too_much) {
  const ArmSearchResult slower = try_buffer_sizes({1, 1.01, 1, 1.01}, {1.15, 1.16, 1.15, 1.16});
  EXPECT_TRUE(slower.best.arm.environment.empty());
  EXPECT_THAT(slower.remarks, testing::Contains(testing::HasSubstr("% slower with the time to launch them")));
  const ArmSearchResult chance = try_buffer_sizes({1, 1.2, 1.02, 1.15, 1.05, 1.1}, {1.25, 1.1, 1.2, 1.22, 1.14, 1.17});
  EXPECT_TRUE(chance.best.arm.environment.empty());
  EXPECT_THAT(chance.remarks, testing::Contains(testing::HasSubstr("processes differ too much to exclude it")));
}

}  // namespace
}  // namespace p5
