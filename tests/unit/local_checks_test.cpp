// Findings gpu.slow_alone and gpu.slow_under_load: GPUs slower than the others.
#include "reports/local_checks.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "bench/backends/backends.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/measure/load.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/agreement.hpp"
#include "reports/decision.hpp"
#include "reports/judge.hpp"
#include "reports/nodes.hpp"
#include "reports/writer.hpp"

namespace p5::reports {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// One host with a GPU for each rank, all of one model.
Report report_of_checks(const std::vector<LocalFigures>& figures) {
  Report report;
  report.run.ranks = static_cast<int>(figures.size());
  report.run.nodes = 1;
  report.local_checks = figures;
  topo::Host& host = report.topology.hosts.emplace_back();
  host.name = "alpha";
  for (std::size_t rank = 0; rank < figures.size(); ++rank) {
    topo::Gpu& gpu = host.gpu_devices.emplace_back();
    gpu.uuid = "GPU-" + std::to_string(rank);
    gpu.name = "NVIDIA H200";
    // Ranks need not use GPUs in NVML's order.
    report.topology.gpu_of_rank.push_back("GPU-" + std::to_string(figures.size() - 1 - rank));
    report.topology.host_of_rank.push_back(0);
  }
  return report;
}

LocalFigures figures(double device_copy, double host_to_device, double launch) {
  return {{"device_copy_gb_per_s", device_copy}, {"host_to_device_gb_per_s", host_to_device}, {"launch_us", launch}};
}

TEST(LocalChecks, name_the_gpu_that_differs_and_what_in) {
  const auto sound = figures(4000, 55, 3.5);
  const std::vector<topo::Finding> found =
      slow_alone(report_of_checks({sound, figures(3700, 27, 3.6), sound, figures(4010, 54, 3.4)}));
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].id, "gpu.slow_alone");
  EXPECT_EQ(found[0].severity, topo::Severity::warning);
  EXPECT_EQ(found[0].about, topo::About::hardware);
  EXPECT_EQ(found[0].subject.host, "alpha");
  EXPECT_EQ(found[0].subject.gpu, 2);
  EXPECT_THAT(found[0].evidence, HasSubstr("rank 1, alone, device copy: 3700 GB/s; median of the 3 others of its "
                                           "model: 4000 (8 % less)"));
  EXPECT_THAT(found[1].evidence, HasSubstr("host to device: 27 GB/s"));
  EXPECT_THAT(found[1].action, HasSubstr("PCIe"));
}

// A figure of a worker of another version, or a message that was changed, has no place in a report.
TEST(LocalChecks, know_the_names_of_all_figures_of_a_report) {
  EXPECT_EQ(unknown_figure(figures(1, 2, 3)), "");
  LocalFigures figures_of_worker = figures(1, 2, 3);
  figures_of_worker["launch_ms"] = 4;
  EXPECT_EQ(unknown_figure(figures_of_worker), "launch_ms");
  std::ifstream file(P5BENCH_SOURCE_FOLDER "/reports/schema/report.schema.json");
  const nlohmann::json schema = nlohmann::json::parse(file);
  LocalFigures of_schema;
  for (const auto& [name, description] :
       schema.at("properties").at("local_checks").at("items").at("properties").items())
    of_schema[name] = 1;
  EXPECT_EQ(unknown_figure(of_schema), "");
  EXPECT_EQ(of_schema.size(), local_checks().size());
}

TEST(LocalChecks, tolerate_what_healthy_gpus_differ_by) {
  EXPECT_THAT(slow_alone(report_of_checks({figures(4000, 55, 3.5), figures(3900, 45, 4.9), figures(4050, 57, 3.4)})),
              IsEmpty());
  EXPECT_THAT(slow_alone(report_of_checks({figures(4000, 55, 3.5), figures(4000, 90, 1), figures(4000, 55, 3.5)})),
              IsEmpty())
      << "better is no fault";
  EXPECT_THAT(slow_alone(report_of_checks({figures(1, 1, 3), figures(1, 1, 3), figures(1, 1, 9)})), SizeIs(1));
}

TEST(LocalChecks, name_the_slower_of_two_and_compare_no_models) {
  const std::vector<topo::Finding> found =
      slow_alone(report_of_checks({figures(4000, 55, 3.5), figures(4000, 55, 123)}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].subject.gpu, 0);
  EXPECT_THAT(found[0].evidence, HasSubstr("rank 1, alone, launch of an empty kernel: 123 us"));
  Report mixed = report_of_checks({figures(4000, 55, 3.5), figures(4000, 55, 3.5), figures(2000, 20, 3.5)});
  mixed.topology.hosts[0].gpu_devices[0].name = "NVIDIA A100";
  EXPECT_THAT(slow_alone(mixed), IsEmpty());
}

// As two healthy H200 measured; the others of a host of eight were not seen.
TEST(LocalChecks, tolerate_more_where_few_others_are_known) {
  const auto found = [](std::size_t gpus, double slow) {
    std::vector<LocalFigures> all(gpus, {{"bf16_tflop_per_s", 725.2}});
    all.front() = {{"bf16_tflop_per_s", slow}};
    return slow_alone(report_of_checks(all)).size();
  };
  EXPECT_EQ(found(2, 695.5), 0U);
  EXPECT_EQ(found(2, 685), 1U);
  EXPECT_EQ(found(8, 700), 0U);
  EXPECT_EQ(found(8, 695.5), 1U);
}

TEST(LocalChecks, reject_a_gpu_only_after_a_burn_and_warn_else) {
  const auto severity_at = [](double share, const char* name = "burn_last_tflop_per_s") {
    const auto found =
        slow_alone(report_of_checks({{{name, 700}}, {{name, 700 * share}}, {{name, 690}}, {{name, 705}}}));
    return found.empty() ? std::string("none") : std::string(topo::name_of(found[0].severity));
  };
  EXPECT_EQ(severity_at(0.98), "none");
  EXPECT_EQ(severity_at(0.95), "warning");
  EXPECT_EQ(severity_at(0.9), "error");
  EXPECT_EQ(severity_at(0.5, "bf16_tflop_per_s"), "warning") << "half a second may be another program's";
  for (const char* const name : {"bf16_tflop_per_s", "fp8_tflop_per_s", "burn_least_tflop_per_s"}) {
    EXPECT_EQ(severity_at(0.3, name), "warning") << "four programs share it: " << name;
    EXPECT_EQ(severity_at(0.2, name), "error") << name;
  }
  for (const char* const name :
       {"memory_read_gb_per_s", "slowest_slice_share", "device_copy_gb_per_s", "host_to_device_gb_per_s"})
    EXPECT_EQ(severity_at(0.01, name), "warning") << "a busy host explains it too: " << name;
  const std::vector<topo::Finding> launch_times = slow_alone(report_of_checks({figures(1, 1, 3), figures(1, 1, 300)}));
  ASSERT_THAT(launch_times, SizeIs(1));
  EXPECT_EQ(launch_times[0].severity, topo::Severity::warning) << "the host's processors launch";
}

TEST(LocalChecks, reject_no_gpu_whose_power_cap_is_lower_than_the_others) {
  std::vector<LocalFigures> all(16, {{"burn_last_tflop_per_s", 700}});
  for (std::size_t rank = 8; rank < 16; ++rank) all[rank]["burn_last_tflop_per_s"] = 595;
  Report report = report_of_checks(all);
  report.topology.hosts.push_back(report.topology.hosts.front());
  report.topology.hosts[1].name = "beta";
  for (std::size_t rank = 8; rank < 16; ++rank) report.topology.host_of_rank[rank] = 1;
  const auto only_finding = [&](double cap_of_alpha, double cap_of_beta) {
    for (topo::Gpu& gpu : report.topology.hosts[0].gpu_devices) gpu.power_cap_w = cap_of_alpha;
    for (topo::Gpu& gpu : report.topology.hosts[1].gpu_devices) gpu.power_cap_w = cap_of_beta;
    const std::vector<topo::Finding> found = slow_alone(report);
    return found.size() == 1 && is_of_all_gpus(found[0]) ? found[0] : topo::Finding{};
  };
  const topo::Finding capped = only_finding(700, 500);
  EXPECT_EQ(capped.severity, topo::Severity::warning);
  EXPECT_THAT(capped.evidence,
              testing::EndsWith("(15 % less); with a power cap of 500 W, where the others have 700 W"));
  EXPECT_THAT(capped.action, testing::StartsWith("give it the others' power cap first (nvidia-smi -pl). Then compare"));
  const topo::Finding alike = only_finding(500, 500);
  EXPECT_EQ(alike.severity, topo::Severity::error);
  EXPECT_THAT(alike.evidence, testing::EndsWith("(15 % less)"));

  Report one = report_of_checks({all[0], all[0], all[8]});
  for (topo::Gpu& gpu : one.topology.hosts[0].gpu_devices) gpu.power_cap_w = 700;
  ASSERT_THAT(slow_alone(one), SizeIs(1));
  EXPECT_EQ(slow_alone(one)[0].severity, topo::Severity::error);
  one.topology.hosts[0].gpu_devices[0].power_cap_w = 500;  // that of rank 2
  ASSERT_THAT(slow_alone(one), SizeIs(1));
  EXPECT_EQ(slow_alone(one)[0].severity, topo::Severity::warning);
  EXPECT_THAT(slow_alone(one)[0].evidence,
              testing::EndsWith("; with a power cap of 500 W, where the others have 700 W"));
}

TEST(LocalChecks, reject_a_gpu_without_a_figure_that_others_have_and_no_reason) {
  const LocalFigures sound{{"bf16_tflop_per_s", 700}, {"device_copy_gb_per_s", 4000}};
  for (const std::size_t others : {1, 7}) {
    std::vector<LocalFigures> all(others, sound);
    all.push_back({{"device_copy_gb_per_s", 4000}});
    Report report = report_of_checks(all);
    report.compute_checks.resize(all.size());
    const std::vector<topo::Finding> found = slow_alone(report);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].severity, topo::Severity::error);
    EXPECT_EQ(found[0].subject.gpu, 0);
    EXPECT_THAT(
        found[0].evidence,
        HasSubstr(fmt::format("rank {0}, alone, bf16 matrix products: no figure; median of the {0} others of its "
                              "model: 700 TFLOP/s",
                              others)));
    report.compute_checks.back().not_measured = "no libcublasLt.so.13";
    EXPECT_THAT(slow_alone(report), IsEmpty());
    report.compute_checks.back() = {.corruption = "bit 5"};
    EXPECT_THAT(slow_alone(report), IsEmpty()) << "it is gpu.corrupt, and its checks ended there";
    report.topology.hosts[0].gpu_devices[0].name = "NVIDIA A100";
    report.compute_checks.back() = {};
    EXPECT_THAT(slow_alone(report), IsEmpty()) << "another model need not have it";
  }
  EXPECT_THAT(slow_alone(report_of_checks({sound, {}})), SizeIs(2)) << "one of each figure";
  EXPECT_THAT(slow_alone(report_of_checks({{}, {}})), IsEmpty());
}

TEST(LocalChecks, that_find_wrong_bits_end_with_wrong_data) {
  Report report = report_of_checks({{}, {}, {}});
  report.compute_checks.resize(3);
  EXPECT_THAT(corruptions(report), IsEmpty());
  report.compute_checks[1].corruption = "bf16 matrix product 7: bit 5";
  report.findings = corruptions(report);
  ASSERT_THAT(report.findings, SizeIs(1));
  EXPECT_EQ(report.findings[0].id, corrupt);
  EXPECT_EQ(report.findings[0].subject.gpu, 1);
  EXPECT_THAT(report.findings[0].evidence, HasSubstr("rank 1, alone: bf16 matrix product 7: bit 5"));
  EXPECT_EQ(exit_code(report), ExitCode::wrong_data);
  EXPECT_EQ(overall(report), Grade::wrong);
}

TEST(LocalChecks, name_gpus_whose_product_has_other_bits_than_most_and_all_where_none_are_most) {
  Report report = report_of_checks({{}, {}, {}, {}});
  report.compute_checks.resize(4);
  for (std::size_t rank = 0; rank < 4; ++rank)
    report.compute_checks[rank] = {.digests = {{"bf16", rank == 3 ? "b" : "a"}}, .library = "cuBLASLt 13.1.0"};
  ASSERT_THAT(corruptions(report), SizeIs(1));
  EXPECT_THAT(corruptions(report)[0].evidence,
              HasSubstr("rank 3: the bits of the bf16 matrix product differ from those of 3 "));
  report.compute_checks[2].digests["bf16"] = "b";
  EXPECT_THAT(corruptions(report), SizeIs(4));
  EXPECT_THAT(corruptions(report)[0].evidence, HasSubstr("it is not known which of them are wrong"));
  for (ComputeCheck& check : report.compute_checks) check.library += check.digests.at("bf16");
  EXPECT_THAT(corruptions(report), IsEmpty()) << "other versions of the library may take other sums";
}

// A GPU of which another program holds the memory computes smaller products.
TEST(LocalChecks, compare_products_of_one_size_only) {
  const auto with_rate = [](double rate) { return LocalFigures{{"bf16_tflop_per_s", rate}}; };
  Report report = report_of_checks({with_rate(700), with_rate(700), with_rate(700), with_rate(100)});
  const auto set_last = [&](const std::string& product) {
    report.compute_checks.assign(4, {.digests = {{"bf16 8192", "a"}}, .library = "cuBLASLt 13.1.0"});
    report.compute_checks[3].digests = {{product, "b"}};
  };
  set_last("bf16 256");
  EXPECT_THAT(corruptions(report), IsEmpty());
  EXPECT_THAT(slow_alone(report), IsEmpty());
  const std::vector<Report> base{report_of_checks({with_rate(700)})}, fresh{report_of_checks({with_rate(100)})};
  std::vector<Report> large = base, small = fresh;
  large[0].compute_checks = {{.digests = {{"bf16 8192", "a"}}}};
  small[0].compute_checks = {{.digests = {{"bf16 256", "b"}}}};
  EXPECT_THAT(worse_figures(base, fresh), SizeIs(1));
  EXPECT_THAT(worse_figures(large, small), IsEmpty());
  set_last("bf16 8192");
  ASSERT_THAT(corruptions(report), SizeIs(1));
  EXPECT_THAT(corruptions(report)[0].evidence,
              HasSubstr("rank 3: the bits of the bf16 matrix product differ from those of 3 other GPUs"));
  ASSERT_THAT(slow_alone(report), SizeIs(1));
  EXPECT_THAT(slow_alone(report)[0].evidence, HasSubstr("rank 3, alone, bf16 matrix products: 100 TFLOP/s; median of "
                                                        "the 3 others of its model: 700"));
  set_last("bf16 256");
  report.local_checks[1].clear();
  report.compute_checks[1] = {};
  ASSERT_THAT(slow_alone(report), SizeIs(1)) << "one without a figure is compared with all";
  EXPECT_THAT(slow_alone(report)[0].evidence, HasSubstr("rank 1, alone, bf16 matrix products: no figure"));
}

TEST(LocalChecks, reject_neither_of_two_hosts_whose_products_differ) {
  Report report = report_of_checks({{}, {}});
  report.topology.hosts.push_back(report.topology.hosts.front());
  report.topology.hosts[1].name = "beta";
  report.topology.host_of_rank[1] = 1;
  for (const char* const digest : {"a", "b"})
    report.compute_checks.push_back({.digests = {{"bf16 8192", digest}}, .library = "cuBLASLt 13.1.0"});
  const std::vector<topo::Finding> found = corruptions(report);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].subject.host, "");
  EXPECT_THAT(found[0].hosts, ElementsAre("alpha", "beta"));
  EXPECT_THAT(found[0].evidence,
              HasSubstr("ranks 0, 1: the bits of the bf16 matrix product differ, and it is not known"));
  EXPECT_THAT(found[0].action, HasSubstr("measure each of them with a third one"));
}

// As in a container without NVML: no rank's GPU is known, and all that PCI shows are GPUs without a name.
TEST(LocalChecks, compare_gpus_of_unknown_models_within_a_host_only) {
  Report report = report_of_checks(std::vector<LocalFigures>(12, {{"bf16_tflop_per_s", 700}}));
  report.topology.hosts.push_back(report.topology.hosts.front());
  report.topology.hosts[1].name = "beta";
  report.topology.gpu_of_rank.clear();
  report.compute_checks.assign(12, {.digests = {{"bf16 8192", "a"}}, .library = "cuBLASLt 13.1.0"});
  for (std::size_t rank = 8; rank < 12; ++rank) {
    report.topology.host_of_rank[rank] = 1;
    report.local_checks[rank]["bf16_tflop_per_s"] = 100;
    report.compute_checks[rank].digests["bf16 8192"] = "b";
  }
  EXPECT_THAT(corruptions(report), SizeIs(4)) << "all GPUs that have a name are of one model";
  EXPECT_THAT(slow_alone(report), SizeIs(1));
  for (topo::Host& host : report.topology.hosts)
    for (topo::Gpu& gpu : host.gpu_devices) gpu.uuid = gpu.name = "";
  EXPECT_THAT(corruptions(report), IsEmpty());
  EXPECT_THAT(slow_alone(report), IsEmpty());
  report.local_checks[0]["bf16_tflop_per_s"] = 100;
  report.compute_checks[0].digests["bf16 8192"] = "b";
  ASSERT_THAT(corruptions(report), SizeIs(1));
  EXPECT_THAT(corruptions(report)[0].evidence, testing::StartsWith("rank 0: "));
  ASSERT_THAT(slow_alone(report), SizeIs(1));
  EXPECT_THAT(slow_alone(report)[0].evidence, testing::StartsWith("rank 0, "));
}

// ---- copies between host and device: the ranks of a host take turns

struct CopiesOfHost {
  std::atomic<int> at_once = 0, most_at_once = 0, all = 0;
};

class Copying final : public Backend {
 public:
  explicit Copying(CopiesOfHost& copies) : copies_(copies) {}
  std::unique_ptr<Session> open(const Case&, int) override { return nullptr; }
  Bytes memory_per_rank(const Case&) const override { return {1}; }
  CostModel cost() const override { return {}; }
  bool recovers() const override { return true; }
  std::vector<LocalChecks> check_locally(Seconds) override { return {{.figures = {{"launch_us", 3}}}}; }
  std::vector<LocalFigures> check_host_copies() override {
    const int now = ++copies_.at_once;
    copies_.most_at_once = std::max<int>(copies_.most_at_once, now);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // so that another rank would meet it
    --copies_.at_once;
    return {{{"host_to_device_gb_per_s", 50.0 + ++copies_.all}}};
  }

 private:
  CopiesOfHost& copies_;
};

TEST(LocalChecks, copy_between_host_and_device_on_one_rank_of_a_host_at_a_time) {
  const NodeOfRank node_of_rank{0, 0, 1, 0, 1};
  std::array<CopiesOfHost, 2> copies;
  std::vector<LocalChecks> all;
  run_threads(5, [&](ControlPlane& control) {
    const int rank = control.participant();
    Copying backend(copies.at(static_cast<std::size_t>(node_of_rank.at(static_cast<std::size_t>(rank)))));
    std::vector<LocalChecks> found = check_locally(control, backend, {});
    check_host_copies(control, backend, node_of_rank, found);
    if (rank == 0) all = std::move(found);
  });
  ASSERT_THAT(all, SizeIs(5));
  EXPECT_EQ(turns_on_hosts(node_of_rank), 3);
  const std::array<int, 5> turns{1, 2, 1, 3, 2};
  for (std::size_t rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(all[rank].figures.at("launch_us"), 3);
    EXPECT_EQ(all[rank].figures.at("host_to_device_gb_per_s"), 50 + turns.at(rank)) << rank;
  }
  for (const CopiesOfHost& each : copies) EXPECT_EQ(each.most_at_once, 1);
}

// Simulated machines: the ranks that the checks of each GPU name there, alone and under load.
std::vector<std::string> named_in_simulation(int nodes, std::uint64_t seed, const std::string& fault) {
  SimMachine machine;
  machine.nodes = nodes;
  machine.seed = seed;
  machine.link = {370};
  machine.nic = {48};
  machine.link_latency = {5e-6};
  machine.nic_latency = {2e-5};
  if (!fault.empty()) machine.faults.push_back(parse_fault(fault, machine));
  const std::unique_ptr<Backend> backend = make_sim_backend(machine);
  const auto control = make_solo_control_plane(nodes * machine.gpus);
  JobFacts job;
  for (int rank = 0; rank < nodes * machine.gpus; ++rank) job.node_of_rank.push_back(rank / machine.gpus);
  std::vector<LocalChecks> all = check_locally(*control, *backend, {});
  std::vector<LocalChecks> loaded;
  check_under_load(*control, *backend, load_cases("sim", job), {}, loaded);
  std::vector<LocalFigures> figures;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].figures.merge(loaded.at(rank).figures);
    figures.push_back(all[rank].figures);
  }
  Report report = report_of_checks(figures);
  for (const LocalChecks& each : all) report.compute_checks.push_back(each.compute);
  std::vector<topo::Finding> found = slow_alone(report);
  for (auto* const more : {&slow_under_load, &corruptions})
    for (topo::Finding& each : more(report)) found.push_back(std::move(each));
  std::set<std::string> names;
  for (const topo::Finding& each : found) names.insert(each.evidence.substr(0, each.evidence.find(',')));
  return {names.begin(), names.end()};
}

// Its messages of rank 1 are wrong in the first case under load; the time limit of the command cuts the second one.
class WrongThenLate final : public Backend {
  class WrongSession final : public Session {
   public:
    explicit WrongSession(std::unique_ptr<Session> inner) : inner_(std::move(inner)) {}
    int slots() const override { return inner_->slots(); }
    void warm_up(int operations, const std::string& setting) override { inner_->warm_up(operations, setting); }
    Times sample(const SampleRequest& request) override { return inner_->sample(request); }
    ConcurrentTimes sample_concurrently(const ConcurrentRequest& request) override {
      return inner_->sample_concurrently(request);
    }
    Verification verify() override {
      return {.wrong_elements = 1, .first = WrongElement{.rank = 1, .wanted = "1", .got = "2"}};
    }

   private:
    std::unique_ptr<Session> inner_;
  };

 public:
  explicit WrongThenLate(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}
  std::unique_ptr<Session> open(const Case& c, int round) override {
    if (++opened_ == 1) return std::make_unique<WrongSession>(inner_->open(c, round));
    StalledError late("no answer for 15 ms", 3);
    late.cut_short = true;
    throw late;
  }
  Bytes memory_per_rank(const Case& c) const override { return inner_->memory_per_rank(c); }
  CostModel cost() const override { return inner_->cost(); }
  bool recovers() const override { return true; }
  std::string_view provenance() const override { return inner_->provenance(); }

 private:
  std::unique_ptr<Backend> inner_;
  int opened_ = 0;
};

TEST(LocalChecks, keep_wrong_results_under_load_but_no_figures_where_a_later_case_fails) {
  SimMachine machine;
  machine.link = {370};
  machine.nic = {48};
  WrongThenLate backend(make_sim_backend(machine));
  const auto control = make_solo_control_plane(machine.gpus);
  JobFacts job;
  job.node_of_rank.resize(static_cast<std::size_t>(machine.gpus));
  std::vector<LocalChecks> found;
  EXPECT_THROW(check_under_load(*control, backend, load_cases("sim", job), {}, found), PhaseFailed);
  ASSERT_THAT(found, SizeIs(machine.gpus));
  int wrong = 0;
  for (const LocalChecks& each : found) {
    EXPECT_THAT(each.figures, IsEmpty());
    wrong += each.compute.corruption.empty() ? 0 : 1;
  }
  EXPECT_EQ(wrong, 1);
}

// At night all; by day as many as take a few seconds.
int times(int all) { return std::getenv("P5BENCH_NIGHTLY") ? all : all / 10; }

TEST(LocalChecks, accuse_nobody_in_1000_healthy_simulations) {
  int accused = 0;
  for (int seed = 1; seed <= times(1000); ++seed)
    accused += named_in_simulation(1 + seed % 4, static_cast<std::uint64_t>(seed), "").empty() ? 0 : 1;
  EXPECT_EQ(accused, 0) << "of " << times(1000);
  std::cout << fmt::format("healthy: {} of {} accused\n", accused, times(1000));
}

TEST(LocalChecks, name_what_is_planted_in_99_of_100_simulations) {
  constexpr int nodes = 3, gpus = 8;
  for (const std::string fault : {"gpu:{}:0.95:compute", "gpu:{}:0.5:memory", "gpu:{}:0:miscompute",
                                  "gpu:{}:0.95:under-load", "gpu:{}:0.8:under-load", "nic:{}:0.8:under-load"}) {
    int right = 0;
    for (int seed = 1; seed <= times(100); ++seed) {
      const int node = seed % nodes, part = seed / nodes % gpus;
      const std::string where = fmt::format("n{}{}{}", node, fault.starts_with("gpu") ? "g" : "r", part);
      right += named_in_simulation(nodes, static_cast<std::uint64_t>(seed), fmt::format(fmt::runtime(fault), where)) ==
               std::vector{fmt::format("rank {}", gpus * node + part)};
    }
    EXPECT_GE(right, times(100) * 99 / 100) << fault;
    std::cout << fmt::format("{}: {} of {} named\n", fault, right, times(100));
  }
}

TEST(LocalChecks, under_load_of_two_nodes_name_both_ends_of_an_exchange) {
  EXPECT_THAT(named_in_simulation(2, 1, "nic:n1r3:0.8:under-load"), ElementsAre("rank 11", "rank 3"));
  Report report = report_of_checks({{{"load_nics_share", 0.9}},
                                    {{"load_nics_share", 0.6}},
                                    {{"load_nics_share", 0.601}},
                                    {{"load_nics_share", 0.9}},
                                    {{"load_nics_share", 0.91}}});
  const std::vector<topo::Finding> found = slow_under_load(report);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].id, "gpu.slow_under_load");
  EXPECT_EQ(found[0].severity, topo::Severity::warning);
  EXPECT_THAT(found[0].evidence,
              HasSubstr("0.6; median of the 4 others of its model: 0.9 (33 % less); rank 2 shows the same"));
}

TEST(LocalChecks, under_load_condemn_no_host_for_an_exchange_of_two_hosts_that_have_no_other) {
  std::vector<LocalFigures> figures(8, {{"load_nics_share", 0.9}});
  figures[1] = figures[5] = {{"load_nics_share", 0.1}};
  const auto found_on = [&](int hosts) {
    Report report = report_of_checks(figures);
    // Each host lists all GPUs, of which its ranks use some.
    report.topology.hosts.resize(static_cast<std::size_t>(hosts), report.topology.hosts.front());
    for (int i = 0; i < hosts; ++i) report.topology.hosts[static_cast<std::size_t>(i)].name = fmt::format("n{}", i);
    for (std::size_t rank = 0; rank < figures.size(); ++rank)
      report.topology.host_of_rank[rank] = static_cast<int>(rank) * hosts / static_cast<int>(figures.size());
    return slow_under_load(report);
  };
  const std::vector<topo::Finding> found = found_on(2);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].severity, topo::Severity::error);
  EXPECT_EQ(found[0].subject.host, "");
  EXPECT_THAT(found[0].evidence, testing::StartsWith("n0 or n1 (ranks 1, 5), what matrix products and links leave"));
  EXPECT_THAT(found[0].evidence, testing::EndsWith("(89 % less); of two that exchange messages either may be slow"));
  EXPECT_THAT(found[0].action, HasSubstr("with a third one"));
  // Each of four hosts has two partners, of which the better counts: both are slow. On one host its own GPUs are.
  EXPECT_THAT(found_on(4), testing::ElementsAre(
                               testing::Field(&topo::Finding::subject, testing::Field(&topo::Subject::host, "n0")),
                               testing::Field(&topo::Finding::subject, testing::Field(&topo::Subject::host, "n2"))));
  EXPECT_THAT(found_on(1), SizeIs(2));
}

TEST(LocalChecks, under_load_condemn_nobody_where_ranks_share_processors) {
  std::vector<LocalFigures> figures(6, {{"load_nics_share", 0.38}});
  figures[0] = figures[1] = {{"load_nics_share", 0.04}};
  Report report = report_of_checks(figures);
  report.topology.hosts.front().threads = report.topology.hosts.front().allowed_threads = 6;
  EXPECT_EQ(slow_under_load(report).front().severity, topo::Severity::error);
  report.topology.hosts.front().allowed_threads = 2;
  const std::vector<topo::Finding> found = slow_under_load(report);
  ASSERT_THAT(found, SizeIs(2));
  for (const topo::Finding& each : found) EXPECT_EQ(each.severity, topo::Severity::warning);
}

TEST(LocalChecks, under_load_condemn_no_host_of_two_that_alone_have_no_other_partner) {
  // The third host has ranks for one GPU of each of the others only.
  std::vector<LocalFigures> figures(7, {{"load_nics_share", 0.9}});
  figures[1] = figures[4] = {{"load_nics_share", 0.5}};
  Report report = report_of_checks(figures);
  report.topology.hosts.resize(3, report.topology.hosts.front());
  for (std::size_t i = 0; i < 3; ++i) report.topology.hosts[i].name = fmt::format("n{}", i);
  report.topology.host_of_rank = {0, 0, 0, 1, 1, 1, 2};
  const std::vector<topo::Finding> found = slow_under_load(report);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].subject.host, "");
  EXPECT_THAT(found[0].hosts, ElementsAre("n0", "n1"));
  EXPECT_THAT(found[0].evidence, testing::StartsWith("n0 or n1 (ranks 1, 4), "));
}

TEST(LocalChecks, of_all_gpus_of_a_host_are_one_finding_unless_another_host_shows_the_same_of_an_exchange) {
  std::vector<LocalFigures> figures(15, {{"load_nics_share", 0.9}, {"load_products_share", 0.9}});
  for (std::size_t rank = 0; rank < 3; ++rank) figures[rank] = {{"load_nics_share", 0.5}, {"load_products_share", 0.5}};
  Report report = report_of_checks(figures);
  report.topology.hosts.resize(5, report.topology.hosts.front());
  for (std::size_t i = 0; i < 5; ++i) report.topology.hosts[i].name = fmt::format("n{}", i);
  report.topology.host_of_rank = {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4};
  const auto of_whole_hosts = [](const Report& of) {
    std::vector<std::string> evidence;
    for (const topo::Finding& each : slow_under_load(of))
      if (is_of_all_gpus(each)) evidence.push_back(each.subject.host + ": " + each.evidence);
    return evidence;
  };
  EXPECT_THAT(slow_under_load(report), SizeIs(2));
  EXPECT_THAT(of_whole_hosts(report), testing::Each(testing::StartsWith("n0: all 3 GPUs of n0, ")));
  for (std::size_t rank = 3; rank < 6; ++rank) report.local_checks[rank]["load_nics_share"] = 0.5;
  EXPECT_THAT(of_whole_hosts(report), ElementsAre(testing::HasSubstr("rate of matrix products")));
}

TEST(LocalChecks, under_load_compare_no_gpu_without_a_partner_over_nics_with_one_that_has_one) {
  const LocalFigures links{{"load_products_share", 0.85}, {"load_links_share", 0.85}};
  const LocalFigures nics{{"load_products_share", 0.73}, {"load_links_share", 0.73}, {"load_nics_share", 0.73}};
  Report report = report_of_checks({nics, nics, links, links, links, links, nics, nics});
  report.topology.hosts.resize(2, report.topology.hosts.front());
  report.topology.host_of_rank = {0, 0, 0, 0, 0, 0, 1, 1};
  EXPECT_THAT(slow_under_load(report), IsEmpty());
  report.local_checks[3]["load_products_share"] = 0.73;  // as slow as those with NICs, without them
  EXPECT_THAT(slow_under_load(report), SizeIs(1));
}

TEST(LocalChecks, under_load_say_by_how_much_the_two_figures_differ_that_they_show) {
  const LocalFigures sound{{"load_products_tflop_per_s", 500}, {"load_products_share", 0.8}};
  const LocalFigures slow{{"load_products_tflop_per_s", 400},
                          {"load_products_share", 0.4}};  // faster than others alone
  const std::vector<topo::Finding> found = slow_under_load(report_of_checks({sound, slow, sound}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].evidence, HasSubstr("0.4; median of the 2 others of its model: 0.8 (50 % less)"));
  EXPECT_EQ(found[0].severity, topo::Severity::warning);
}

TEST(LocalChecks, under_load_judge_what_is_left_and_no_rate) {
  const LocalFigures sound{
      {"load_products_alone_tflop_per_s", 700}, {"load_products_tflop_per_s", 560}, {"load_products_share", 0.8}};
  LocalFigures slow_alone_too = sound, slow = sound;
  slow_alone_too["load_products_alone_tflop_per_s"] = 350;
  slow_alone_too["load_products_tflop_per_s"] = 280;
  slow["load_products_tflop_per_s"] = 490;
  slow["load_products_share"] = 0.7;
  EXPECT_THAT(slow_under_load(report_of_checks({sound, slow_alone_too, sound, {}})), IsEmpty());
  const std::vector<topo::Finding> found = slow_under_load(report_of_checks({sound, slow, sound}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].subject.gpu, 1);
  EXPECT_THAT(found[0].evidence,
              testing::StartsWith("rank 1, what messages leave of the rate of matrix products: 0.7"));
}

TEST(LocalChecks, under_load_name_nobody_for_what_a_power_limit_does) {
  // Eight checks of 2 healthy H200, NVLink 18 links, NVLS off, NCCL 2.28.9, 2026-11-26.
  const auto figures = [](double alone, double beside) {
    return LocalFigures{{"load_products_alone_tflop_per_s", alone},
                        {"load_products_tflop_per_s", beside},
                        {"load_products_share", beside / alone}};
  };
  for (const auto& [first, second] : {std::pair(figures(818.7, 798.0), figures(814.7, 799.6)),
                                      std::pair(figures(820.3, 795.6), figures(782.1, 796.0)),
                                      std::pair(figures(822.3, 800.7), figures(813.4, 789.1)),
                                      std::pair(figures(816.9, 809.0), figures(814.5, 798.0)),
                                      std::pair(figures(791.0, 804.0), figures(810.3, 797.2)),
                                      std::pair(figures(819.0, 798.5), figures(815.6, 798.5)),
                                      std::pair(figures(814.4, 802.8), figures(815.3, 799.3)),
                                      std::pair(figures(816.7, 802.2), figures(781.5, 794.4))})
    EXPECT_THAT(slow_under_load(report_of_checks({first, second})), IsEmpty());
  const auto sound = figures(820, 800);
  EXPECT_THAT(slow_under_load(report_of_checks({sound, sound, sound, figures(818, 760)})), SizeIs(1));
}

TEST(LocalChecks, name_both_ranks_of_wrong_messages_and_no_host_of_two) {
  Report report = report_of_checks({{}, {}, {}});
  report.compute_checks.resize(3);
  report.compute_checks[1].corruption = "messages over links while it computes: element 7";
  report.compute_checks[1].partner = 2;
  report.compute_checks[1].under_load = true;
  ASSERT_THAT(corruptions(report), SizeIs(1));
  EXPECT_EQ(corruptions(report)[0].subject.gpu, std::nullopt);
  EXPECT_EQ(corruptions(report)[0].subject.host, "alpha");
  EXPECT_THAT(corruptions(report)[0].evidence, HasSubstr("rank 1 or rank 2: messages over links"));
  // A suspect of the host explains wrong messages, and no wrong product.
  report.findings = corruptions(report);
  report.suspects.resize(1);
  report.suspects[0].host = "beta";
  report.suspects[0].fault = "wrong";
  report.compute_checks[1].in_messages = true;
  withdraw_explained_corruptions(report);
  EXPECT_THAT(report.findings, SizeIs(1)) << "a part of another host";
  report.suspects[0].host = "alpha";
  report.suspects[0].fault = "slow";
  withdraw_explained_corruptions(report);
  EXPECT_THAT(report.findings, SizeIs(1)) << "a slow part";
  report.suspects[0].fault = "wrong";
  report.compute_checks[1].in_messages = false;
  withdraw_explained_corruptions(report);
  EXPECT_THAT(report.findings, SizeIs(1)) << "a wrong product";
  report.compute_checks[1].in_messages = true;
  withdraw_explained_corruptions(report);
  EXPECT_THAT(report.findings, IsEmpty());
  report.suspects.clear();
  report.topology.hosts.push_back(report.topology.hosts.front());
  report.topology.hosts[1].name = "beta";
  report.topology.host_of_rank[2] = 1;
  report.run.nodes = 2;
  EXPECT_EQ(corruptions(report)[0].subject.host, "");
  EXPECT_THAT(corruptions(report)[0].hosts, ElementsAre("alpha", "beta"));
  EXPECT_THAT(corruptions(report)[0].action, HasSubstr("measure each of them with a third one"));
  report.grade = overall(report);
  const Report back = report_from_json(to_json(report));
  EXPECT_EQ(back.compute_checks, report.compute_checks);
}

TEST(LocalChecks, compare_ranks_of_all_hosts_and_those_whose_gpu_is_not_known) {
  Report report = report_of_checks({figures(4000, 55, 3.5), figures(4000, 55, 3.5), figures(2000, 55, 3.5)});
  report.topology.gpu_of_rank.clear();
  const std::vector<topo::Finding> found = slow_alone(report);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].subject.gpu, std::nullopt);
  EXPECT_EQ(found[0].subject.host, "alpha");
}

TEST(LocalChecks, of_two_sides_tell_which_figures_of_all_gpus_are_worse) {
  const auto side = [](double share, double launch) {
    return std::vector<Report>{report_of_checks({{{"load_products_share", share}, {"launch_us", launch}},
                                                 {{"load_products_share", share + 0.01}, {"launch_us", launch}}})};
  };
  const std::vector<Report> base = side(0.8, 3), same = side(0.79, 3.5), worse = side(0.7, 9);
  EXPECT_THAT(worse_figures(base, same), IsEmpty());
  EXPECT_THAT(worse_figures(worse, base), IsEmpty()) << "better is no news";
  EXPECT_THAT(
      worse_figures(base, worse),
      ElementsAre(
          HasSubstr("each GPU, launch of an empty kernel: 9 instead of 3 us, 200.0 % more"),
          HasSubstr("what messages leave of the rate of matrix products: 0.705 instead of 0.805, 12.4 % less")));
  EXPECT_THAT(worse_figures(base, std::vector<Report>{Report{}}), IsEmpty());
}

TEST(LocalChecks, are_summed_up_by_their_ranges) {
  EXPECT_THAT(local_ranges(report_of_checks({figures(4000, 55.04, 3.5), figures(3980, 54.9, 3.6)})),
              ElementsAre("device copy 3980 to 4000 GB/s", "host to device 54.9 to 55.04 GB/s",
                          "launch of an empty kernel 3.5 to 3.6 us"));
  EXPECT_THAT(local_ranges(report_of_checks({figures(4000, 55.04, 3.5)})),
              ElementsAre("device copy 4000 GB/s", "host to device 55.04 GB/s", "launch of an empty kernel 3.5 us"));
  EXPECT_THAT(local_ranges(Report{}), IsEmpty());
}

TEST(LocalChecks, say_whose_products_were_not_computed_and_why) {
  Report report = report_of_checks({figures(1, 1, 1), figures(1, 1, 1), figures(1, 1, 1)});
  EXPECT_THAT(products_left_out(report), IsEmpty());
  report.compute_checks.resize(3);
  report.compute_checks[0].not_measured = report.compute_checks[2].not_measured = "no libcublasLt.so.13";
  EXPECT_THAT(products_left_out(report),
              ElementsAre("no matrix products on GPU 2, GPU 0 of alpha: no libcublasLt.so.13"));
  EXPECT_THAT(products_left_out(report, 0), ElementsAre("no matrix products on GPU 2, GPU 0: no libcublasLt.so.13"));
  EXPECT_THAT(render_console(report), HasSubstr("no libcublasLt.so.13"));
  report.compute_checks[0].not_measured = report.compute_checks[2].not_measured = "";
  report.compute_checks[1].fp8_not_measured = "cuBLASLt 12.0.0 has none for this GPU";
  EXPECT_THAT(products_left_out(report, 0),
              ElementsAre("no matrix products in float8 on GPU 1: cuBLASLt 12.0.0 has none for this GPU"));
}

// Hosts may load cuBLASLt from different places.
TEST(LocalChecks, blame_no_gpu_for_products_that_its_library_lacks) {
  std::vector<LocalFigures> all(3, figures(4000, 55, 3));
  for (LocalFigures& each : all) each["bf16_tflop_per_s"] = 700, each["fp8_tflop_per_s"] = 1400;
  all[1].erase("fp8_tflop_per_s");
  Report report = report_of_checks(all);
  report.compute_checks.resize(3);
  EXPECT_THAT(slow_alone(report), SizeIs(1));
  report.compute_checks[1].fp8_not_measured = "cuBLASLt 12.0.0 has none for this GPU";
  EXPECT_THAT(slow_alone(report), IsEmpty());
}

TEST(LocalChecks, of_a_repetition_tell_whether_products_were_left_out) {
  LocalChecks first{.figures = {}, .compute = {.digests = {{"bf16 8192", "0a"}}, .fp8_not_measured = "none"}};
  LocalChecks failed = first, again = first;
  failed.compute.digests.clear();
  failed.compute.fp8_not_measured.clear();
  keep_better(first, failed);
  EXPECT_EQ(first.compute.fp8_not_measured, "none");
  again.compute.fp8_not_measured.clear();
  keep_better(first, again);
  EXPECT_EQ(first.compute.fp8_not_measured, "");
}

TEST(LocalChecks, have_a_table_of_the_burn_with_what_the_driver_showed) {
  Report report = report_of_checks(
      {{{"burn_first_tflop_per_s", 700}, {"burn_last_tflop_per_s", 690}, {"burn_least_tflop_per_s", 630}}});
  EXPECT_THAT(burn_table(report, 0), HasSubstr("GPU 0          700       690             630     10.0 %\n"));
  report.local_activity = {{.seconds = 60,
                            .sm_clock_min_mhz = 1410,
                            .sm_clock_median_mhz = 1755,
                            .temperature_max_c = 71,
                            .power_max_w = 698,
                            .throttle_reasons = {"power cap"},
                            .corrected = 17,
                            .uncorrected = 2,
                            .xids = {63, 94}}};
  EXPECT_THAT(burn_table(report, 0),
              HasSubstr("1755 (1410) MHz      71 C     698 W             2         17  63, 94\n"));
  report.local_checks[0].merge(LocalFigures{{"load_products_alone_tflop_per_s", 690},
                                            {"load_products_tflop_per_s", 552},
                                            {"load_products_share", 0.8},
                                            {"load_links_alone_gb_per_s", 370},
                                            {"load_links_gb_per_s", 333}});
  report.load_activity = report.local_activity;
  EXPECT_THAT(burn_table(report, 0), HasSubstr("GPU 0          690       552  80.0 %       370       333  90.0 %   "
                                               "1755 (1410) MHz      71 C     698 W  power cap\n"));
  report.grade = overall(report);
  const Report back = report_from_json(to_json(report));
  ASSERT_THAT(back.local_activity, SizeIs(1));
  EXPECT_EQ(burn_table(back, 0), burn_table(report, 0));
}

TEST(LocalChecks, without_the_burn_that_was_asked_for_are_no_fitness) {
  Report report = report_of_checks({{{"burn_last_tflop_per_s", 690}}, {{"launch_us", 2}}, {}});
  report.compute_checks.resize(3);
  report.compute_checks[1].not_measured = "libcublasLt.so.13 is not installed";
  const std::vector<topo::Finding> found = missing_burns(report);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].subject.host, "alpha");
  EXPECT_EQ(found[0].evidence, "no burn on GPU 1: libcublasLt.so.13 is not installed");
  EXPECT_EQ(found[1].evidence, "no burn on GPU 0: the GPUs were not checked alone to the end");
  report.compute_checks[2].corruption = "a bit";
  EXPECT_THAT(missing_burns(report), SizeIs(1)) << "wrong results end it";
  report.findings = {found[0]};
  EXPECT_EQ(exit_code(report), ExitCode::inconclusive);
  report.exit_code = ExitCode::inconclusive;
  const std::vector<NodeVerdict> nodes = judge_nodes(report);
  EXPECT_THAT(nodes.at(0).unchecked, Contains(found[0].evidence));
  EXPECT_THAT(render_nodes(report, true), HasSubstr("alpha: NOT CHECKED: " + found[0].evidence));
}

TEST(LocalChecks, that_failed_leave_a_run_unfinished) {
  Report report;
  EXPECT_EQ(exit_code(report), ExitCode::ok);
  report.findings.push_back({std::string(check_failed), topo::Severity::error, {}, "rank 1: it was ended", ""});
  EXPECT_EQ(exit_code(report), ExitCode::unfinished);
}

TEST(LocalChecks, that_failed_name_the_host_and_the_gpu_of_the_rank) {
  const Report report = report_of_checks({{}, {}, {}});
  const topo::Finding known = failed_check(report, 1, "it was ended"),
                      unknown = failed_check(report, std::nullopt, "?");
  EXPECT_EQ(known.evidence, "rank 1: it was ended");
  EXPECT_EQ(known.subject.host, "alpha");
  EXPECT_EQ(known.subject.gpu, 1);
  EXPECT_EQ(failed_check(report, 2, "").subject.gpu, 0);
  EXPECT_EQ(unknown.evidence, "?");
  EXPECT_EQ(unknown.subject.host, "");
}

TEST(LocalChecks, that_a_limit_of_the_host_may_have_ended_condemn_no_gpu) {
  const Report report = report_of_checks({{}, {}, {}});
  for (const char* const what :
       {"its worker (process 71) was ended by signal 9 (Killed)",
        "its worker (process 71) was ended by signal 7 (Bus error)", "its worker (process 71) is stopped by a signal",
        "cudaHostAlloc: out of memory", "the worker 'w' cannot be started: Resource temporarily unavailable"}) {
    const topo::Finding found = failed_check(report, 1, what);
    EXPECT_EQ(found.severity, topo::Severity::error);
    EXPECT_EQ(found.about, topo::About::host) << what;
    EXPECT_EQ(found.subject.host, "alpha");
    EXPECT_EQ(found.subject.gpu, 1);
    Report with = report;
    with.findings.push_back(found);
    EXPECT_EQ(exit_code(with), ExitCode::unfinished);
    EXPECT_THAT(rejected_hosts(with), IsEmpty());
    EXPECT_THAT(judge_nodes(with).at(0).unfit, IsEmpty());
    EXPECT_THAT(judge_nodes(with).at(0).unfinished, Contains("gpu.check_failed GPU 1"));
  }
  for (const char* const what : {"its worker (process 71) was ended by signal 11 (Segmentation fault)",
                                 "cudaErrorIllegalAddress", "no answer for 30 s; its device did not become idle"})
    EXPECT_TRUE(topo::condemns(failed_check(report, 1, what))) << what;
}

TEST(LocalChecks, of_a_worker_of_another_version_condemn_no_gpu_and_say_how_to_install_it) {
  const Report report = report_of_checks({{}, {}, {}});
  for (const char* const what :
       {"its worker's reply is not understood: it has a figure \"fp4_tflop_per_s\", which is of no check",
        "its worker's reply is not understood: it has neither \"ok\" nor \"error\"",
        "its worker's reply is not understood: there is no rank 99 (alpha, GPU-1)",
        "the other process uses another protocol (version 2, this is 1)",
        "the worker knows no order \"check_locally\""}) {
    const topo::Finding found = failed_check(report, 1, what);
    EXPECT_FALSE(topo::condemns(found)) << what;
    EXPECT_THAT(found.action, HasSubstr("installed beside each other, all of one version"));
    Report with = report;
    with.findings.push_back(found);
    EXPECT_THAT(rejected_hosts(with), IsEmpty());
    EXPECT_THAT(judge_nodes(with).at(0).unfit, IsEmpty());
    EXPECT_THAT(judge_nodes(with).at(0).unfinished, Contains("gpu.check_failed GPU 1"));
  }
}

TEST(LocalChecks, of_a_worker_that_was_ended_for_its_log_condemn_no_gpu_and_say_how_to_log_less) {
  const topo::Finding found = failed_check(report_of_checks({{}, {}, {}}), 1,
                                           "its worker (process 71) wrote to its log faster than it could be read");
  EXPECT_EQ(found.about, topo::About::host);
  EXPECT_THAT(found.action, HasSubstr("NCCL_DEBUG"));
}

TEST(LocalChecks, of_two_measurements_count_by_their_better_figures) {
  LocalChecks first{.figures = {{"bf16_tflop_per_s", 600}, {"launch_us", 3}, {"host_to_device_gb_per_s", 55}}};
  const LocalChecks second{
      .figures = {{"bf16_tflop_per_s", 700}, {"launch_us", 4}, {"host_to_device_gb_per_s", 50}, {"new", 1}},
      .compute = {.corruption = "a bit"}};
  keep_better(first, second);
  EXPECT_EQ(first.figures,
            (LocalFigures{{"bf16_tflop_per_s", 700}, {"launch_us", 3}, {"host_to_device_gb_per_s", 55}, {"new", 1}}));
  EXPECT_EQ(first.compute.corruption, "a bit");
  keep_better(first, {});
  EXPECT_EQ(first.compute.corruption, "a bit");
}

LocalChecks of_products(const std::string& product, const std::string& digest, double bf16) {
  return {.figures = {{"bf16_tflop_per_s", bf16}}, .compute = {.digests = {{product, digest}}, .library = "cuBLASLt"}};
}

TEST(LocalChecks, of_two_measurements_of_unlike_products_have_the_rate_of_the_larger_ones) {
  for (const bool larger_first : {true, false}) {
    LocalChecks small = of_products("bf16 4096", "a", 710), large = of_products("bf16 16384", "b", 700);
    LocalChecks& both = larger_first ? large : small;
    keep_better(both, larger_first ? small : large);
    EXPECT_DOUBLE_EQ(both.figures.at("bf16_tflop_per_s"), 700);
    EXPECT_EQ(both.compute.digests, (std::map<std::string, std::string>{{"bf16 4096", "a"}, {"bf16 16384", "b"}}));
    EXPECT_EQ(both.compute.corruption, "");
  }
  LocalChecks first{.figures = {{"launch_us", 3}}, .compute = {.not_measured = "too little memory is free"}};
  keep_better(first, of_products("bf16 8192", "a", 700));
  EXPECT_EQ(first.compute, of_products("bf16 8192", "a", 700).compute);
  EXPECT_DOUBLE_EQ(first.figures.at("bf16_tflop_per_s"), 700);
}

TEST(LocalChecks, of_two_measurements_with_unlike_digests_are_of_a_gpu_that_corrupts_data) {
  LocalChecks first = of_products("bf16 8192", "a", 700);
  keep_better(first, of_products("bf16 8192", "a", 710));
  EXPECT_DOUBLE_EQ(first.figures.at("bf16_tflop_per_s"), 710);
  EXPECT_EQ(first.compute.corruption, "");
  keep_better(first, of_products("bf16 8192", "b", 600));
  EXPECT_EQ(first.compute.corruption, "the bits of the bf16 matrix product differ between two measurements");
}

// The GPU that was measured with less memory at first is compared by the products that all of them have.
TEST(LocalChecks, of_products_in_two_sizes_are_compared_by_the_larger_one) {
  Report report = report_of_checks(std::vector<LocalFigures>(4, {{"bf16_tflop_per_s", 700}}));
  report.local_checks[3] = {{"bf16_tflop_per_s", 400}};
  report.compute_checks.assign(4, {.digests = {{"bf16 8192", "a"}}, .library = "cuBLASLt"});
  report.compute_checks[3].digests["bf16 4096"] = "b";
  EXPECT_THAT(slow_alone(report), SizeIs(1));
  report.compute_checks[3].digests["bf16 16384"] = "c";
  EXPECT_THAT(slow_alone(report), IsEmpty()) << "no other has products as large";
}

}  // namespace
}  // namespace p5::reports
