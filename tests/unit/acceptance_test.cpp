// Files left by a run that ends unexpectedly.
#include "bench/app/run/phases.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "bench/app/command_line.hpp"
#include "bench/app/run/comparing.hpp"
#include "bench/app/run/recorder.hpp"
#include "bench/base/input.hpp"
#include "bench/control/control_planes.hpp"
#include "reports/decision.hpp"
#include "reports/findings.hpp"
#include "reports/local_checks.hpp"

namespace p5 {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "p5bench-unit-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

// Throws an error that is no failure of a case once the first session was opened.
class Stumbling final : public Backend {
 public:
  explicit Stumbling(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}
  std::unique_ptr<Session> open(const Case& c, int round) override {
    opened_ = true;
    return inner_->open(c, round);
  }
  Bytes memory_per_rank(const Case& c) const override { return inner_->memory_per_rank(c); }
  CostModel cost() const override {
    if (opened_) throw EnvironmentError("stumbled on purpose");
    return inner_->cost();
  }
  bool recovers() const override { return inner_->recovers(); }

 private:
  std::unique_ptr<Backend> inner_;
  bool opened_ = false;
};

// Checks its GPUs alone once, where rank 1 computes wrong and rank 2 copies slowly; all further checks fail.
class ChecksOnce final : public Backend {
 public:
  ChecksOnce(std::unique_ptr<Backend> inner, int& checks) : inner_(std::move(inner)), checks_(checks) {}
  std::unique_ptr<Session> open(const Case& c, int round) override { return inner_->open(c, round); }
  Bytes memory_per_rank(const Case& c) const override { return inner_->memory_per_rank(c); }
  CostModel cost() const override { return inner_->cost(); }
  bool recovers() const override { return inner_->recovers(); }
  std::string_view provenance() const override { return inner_->provenance(); }
  std::vector<LocalChecks> check_locally(Seconds burn) override {
    if (++checks_ > 1) throw std::runtime_error("the worker ended");
    std::vector<LocalChecks> all = inner_->check_locally(burn);
    all.at(1).compute.corruption = "a product is wrong";
    all.at(2).figures.at("device_copy_gb_per_s") /= 2;
    return all;
  }

 private:
  std::unique_ptr<Backend> inner_;
  int& checks_;
};

// Its check of GPU 3 alone does not end in time: in that of the wait, or, where it is cut short, in that of the
// command.
class ChecksNever final : public Backend {
 public:
  ChecksNever(std::unique_ptr<Backend> inner, bool cut_short, Seconds& postponed)
      : inner_(std::move(inner)), cut_short_(cut_short), postponed_(postponed) {}
  std::unique_ptr<Session> open(const Case& c, int round) override { return inner_->open(c, round); }
  Bytes memory_per_rank(const Case& c) const override { return inner_->memory_per_rank(c); }
  CostModel cost() const override { return inner_->cost(); }
  bool recovers() const override { return inner_->recovers(); }
  std::string_view provenance() const override { return inner_->provenance(); }
  std::vector<LocalChecks> check_locally(Seconds) override {
    StalledError problem("no answer", 3);
    problem.cut_short = cut_short_;
    throw problem;
  }
  void postpone_limit(Seconds time) override { postponed_ = time; }

 private:
  std::unique_ptr<Backend> inner_;
  bool cut_short_;
  Seconds& postponed_;
};

// Its cases under load, or before them the copies to host memory, do not end in time: each time in that of the wait, or
// cut short in that of the command. `hangs`: nor does the device become idle after the abort.
class LoadsNever final : public Backend {
 public:
  LoadsNever(std::unique_ptr<Backend> inner, std::vector<bool> cut_short, bool copies, bool hangs)
      : inner_(std::move(inner)), cut_short_(std::move(cut_short)), copies_(copies), hangs_(hangs) {}
  std::unique_ptr<Session> open(const Case& c, int round) override {
    if (checked_ && !c.beside.empty()) stall();
    return inner_->open(c, round);
  }
  std::vector<LocalFigures> check_host_copies() override {
    if (copies_) stall();
    return inner_->check_host_copies();
  }
  Bytes memory_per_rank(const Case& c) const override { return inner_->memory_per_rank(c); }
  CostModel cost() const override { return inner_->cost(); }
  bool recovers() const override { return inner_->recovers(); }
  std::string_view provenance() const override { return inner_->provenance(); }
  std::vector<LocalChecks> check_locally(Seconds burn) override {
    checked_ = true;
    return inner_->check_locally(burn);
  }

 private:
  void stall() {
    StalledError problem("no answer", 3);
    problem.cut_short = cut_short_.at(times_++);
    problem.hangs = hangs_;
    throw problem;
  }

  std::unique_ptr<Backend> inner_;
  const std::vector<bool> cut_short_;
  const bool copies_, hangs_;
  std::size_t times_ = 0;
  bool checked_ = false;
};

// Its ranks wait for processor cores for half of their time.
class WaitsForCores final : public Backend {
 public:
  explicit WaitsForCores(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}
  std::unique_ptr<Session> open(const Case& c, int round) override { return inner_->open(c, round); }
  Bytes memory_per_rank(const Case& c) const override { return inner_->memory_per_rank(c); }
  CostModel cost() const override { return inner_->cost(); }
  bool recovers() const override { return inner_->recovers(); }
  std::string_view provenance() const override { return inner_->provenance(); }
  bool relaunches() const override { return inner_->relaunches(); }
  void abandon() override { inner_->abandon(); }
  Environment context() const override { return inner_->context(); }
  std::vector<LocalChecks> check_locally(Seconds burn) override { return inner_->check_locally(burn); }
  std::optional<double> share_of_waiting() const override { return 0.5; }

 private:
  std::unique_ptr<Backend> inner_;
};

// Ends the process. The signal goes to the process, as a launcher's does, so it is blocked in this thread.
[[noreturn]] void run_stumble_and_be_ended(const fs::path& out) {
  Shutdown shutdown;
  shutdown.handle_signals();
  const std::vector<std::string> arguments{"run",         "--backend",     "sim",        "--platform",
                                           "p5.48xlarge", "--collectives", "all_reduce", "--sizes",
                                           "8,1KiB",      "--quiet",       "--out",      out.string()};
  const Parsed parsed = parse_options(arguments);
  const auto control = make_solo_control_plane(8);
  const FaultHooks fault_hooks{.wrap_backend = [](std::unique_ptr<Backend> inner, int) {
    return std::make_unique<Stumbling>(std::move(inner));
  }};
  const ExitCode code = run_acceptance(*control, {*control, parsed.options, arguments, shutdown, fault_hooks});
  if (code != ExitCode::unfinished) std::_Exit(99);
  ::kill(::getpid(), SIGTERM);
  ::sleep(60);
  std::_Exit(98);
}

[[noreturn]] void be_ended_after_an_action() {
  Shutdown shutdown;
  shutdown.handle_signals();
  shutdown.set_actions({.on_signal = [](const std::string&) {
    std::fputs("too late", stderr);
    return ExitCode::ok;
  }});
  shutdown.set_actions({});
  ::kill(::getpid(), SIGTERM);
  ::sleep(60);
  std::_Exit(1);
}

TEST(Shutdown, takes_no_action_that_was_removed) {
  EXPECT_EXIT(be_ended_after_an_action(), testing::ExitedWithCode(12), "^$");
}

[[noreturn]] void be_ended_after_a_whole_run(const fs::path& out) {
  Shutdown shutdown;
  shutdown.handle_signals();
  const std::vector<std::string> arguments{"run",         "--backend",     "sim",        "--platform",
                                           "p5.48xlarge", "--collectives", "all_reduce", "--sizes",
                                           "8",           "--quiet",       "--out",      out.string()};
  const Parsed parsed = parse_options(arguments);
  const auto control = make_solo_control_plane(8);
  const ExitCode code = run_acceptance(*control, {*control, parsed.options, arguments, shutdown, {}});
  if (code != ExitCode::inconclusive) std::_Exit(99);  // 8 B are not judged
  ::kill(::getpid(), SIGTERM);
  ::sleep(60);
  std::_Exit(98);
}

TEST(Shutdown, by_a_signal_after_a_run_does_not_change_its_code) {
  const Folder folder;
  EXPECT_EXIT(be_ended_after_a_whole_run(folder.path), testing::ExitedWithCode(14), "^$");
}

[[noreturn]] void be_ended_by_a_limit(const Shutdown::Actions& actions, std::optional<ExitCode> final_code) {
  Shutdown shutdown;
  shutdown.set_actions(actions);
  if (final_code) shutdown.set_final_exit_code(*final_code);
  shutdown.limit_time(Clock::now(), {0.01}, /*prints_reason=*/true);
  ::sleep(60);
  std::_Exit(98);
}

TEST(Shutdown, by_its_limit_reports_first) {
  std::optional<ExitCode> code;
  const Shutdown::Actions actions{.on_limit = [&] { return std::fputs("rank 3 is missing", stderr), code; }};
  EXPECT_EXIT(be_ended_by_a_limit(actions, {}), testing::ExitedWithCode(12), "^rank 3 is missing$");
  code = ExitCode::wrong_data;
  EXPECT_EXIT(be_ended_by_a_limit(actions, {}), testing::ExitedWithCode(11), "^rank 3 is missing$");
  EXPECT_EXIT(be_ended_by_a_limit({}, {}), testing::ExitedWithCode(12),
              "^p5bench: the ranks did not start the job within 10 ms");
}

TEST(Shutdown, by_its_limit_ends_a_report_that_hangs) {
  EXPECT_EXIT(be_ended_by_a_limit({.on_limit = [] { return ::sleep(60), std::nullopt; }}, {}),
              testing::ExitedWithCode(12), "^p5bench: not finished within 10 ms\n$");
}

[[noreturn]] void be_ended_after_the_job_started_late() {
  Shutdown shutdown;
  std::atomic<bool> reports{false};
  shutdown.set_actions({.on_limit = [&] { return reports = true, ::sleep(60), std::nullopt; }});
  shutdown.limit_start({60}, /*prints_reason=*/false);
  shutdown.limit_time(Clock::now(), {0.01}, /*prints_reason=*/false);
  while (!reports) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  shutdown.has_started();
  ::sleep(60);
  std::_Exit(98);
}

TEST(Shutdown, by_its_limit_prints_the_reason_if_the_job_starts_while_a_report_hangs) {
  EXPECT_EXIT(be_ended_after_the_job_started_late(), testing::ExitedWithCode(12),
              "^p5bench: not finished within 10 ms\n$");
}

TEST(Shutdown, by_its_limit_after_the_command_keeps_the_code) {
  const auto on_limit = [] { return std::fputs("too late", stderr), std::nullopt; };
  EXPECT_EXIT(be_ended_by_a_limit({.on_limit = on_limit}, ExitCode::slow), testing::ExitedWithCode(10),
              "^p5bench: no progress in the command within");
}

[[noreturn]] void be_ended_in_teardown(std::optional<Seconds> limit) {
  Shutdown shutdown;
  if (limit) shutdown.limit_time(Clock::now(), *limit, /*prints_reason=*/true);
  shutdown.set_final_exit_code(ExitCode::slow);
  shutdown.limit_teardown("leaving MPI", {limit ? 1e6 : 0.01});
  ::sleep(60);
  std::_Exit(98);
}

TEST(Shutdown, ends_a_teardown_that_hangs) {
  EXPECT_EXIT(be_ended_in_teardown({}), testing::ExitedWithCode(10), "^p5bench: no progress in leaving MPI within");
  EXPECT_EXIT(be_ended_in_teardown(Seconds{1.4}), testing::ExitedWithCode(10), "no progress in leaving MPI within");
}

TEST(Acceptance, what_ends_a_run_is_in_its_report_and_a_signal_afterwards_changes_nothing) {
  const Folder folder;
  EXPECT_EXIT(run_stumble_and_be_ended(folder.path), testing::ExitedWithCode(12),
              "^p5bench: stumbled on purpose; what was measured until then is in .*\n$");
  const reports::Report report = reports::read_report((folder.path / "latest" / "report.json").string());
  EXPECT_EQ(report.status, "partial");
  EXPECT_EQ(report.run.ended_by, "stumbled on purpose");
  EXPECT_EQ(report.exit_code, ExitCode::unfinished);
}

TEST(ReportOfARun, is_judged_by_a_baseline_only_where_nothing_else_is_open) {
  const auto with_baseline = [](const std::vector<topo::Finding>& findings, ExitCode code) {
    Options options;
    options.command = "run";
    ReportBuilder builder(options, {});
    builder.begin({}, findings, {.comparable = false, .why_not = "of no interest here"});
    builder.close("");
    EXPECT_EQ(builder.report().exit_code, ExitCode::inconclusive);
    builder.apply_baseline_exit_code(code);
    return builder.report();
  };
  EXPECT_EQ(with_baseline({}, ExitCode::ok).exit_code, ExitCode::ok);
  EXPECT_EQ(with_baseline({}, ExitCode::inconclusive).exit_code, ExitCode::inconclusive);
  topo::Finding busy;
  busy.id = reports::cores_busy_id;
  busy.severity = topo::Severity::error;
  busy.subject.host = "n1";
  busy.about = topo::About::host;
  const reports::Report report = with_baseline({busy}, ExitCode::ok);
  EXPECT_EQ(report.exit_code, ExitCode::inconclusive);
  EXPECT_EQ(report.decision.word, reports::cannot_tell);
  EXPECT_EQ(reports::contradiction_in(report), "");
}

// The report of a run on `backend` that continues `earlier` with one result.
reports::Report continued(const std::string& backend, const EarlierRun& earlier, const reports::Result& kept) {
  reports::Report report;
  report.run.backend = backend;
  ReportBuilder builder({}, report);
  builder.resume_from(earlier, {KeptLine{{}, kept, ""}}, 1);
  return builder.report();
}

TEST(ReportOfARun, that_continues_another_says_that_its_events_are_not_known) {
  const auto lacks_events = [](const reports::Report& report) {
    return report.run.remarks.at(0).find("1 results are of that run; events of GPUs and NICs") != std::string::npos;
  };
  reports::Result kept;
  kept.measurement.measured_case.backend = "nccl";
  kept.measurement.measured_case.collective = &find_collective("all_reduce");
  kept.measurement.measured_case.op = ReduceOp::sum;
  kept.measurement.outcome = Outcome::failed;
  EarlierRun earlier;
  EXPECT_TRUE(lacks_events(continued("nccl", earlier, kept)));
  EXPECT_FALSE(lacks_events(continued("mpi", earlier, kept))) << "nothing is watched";
  earlier.report.results = {kept};
  EXPECT_TRUE(lacks_events(continued("nccl", earlier, kept)));
  earlier.report.results[0].during.emplace().seconds = 3;
  EXPECT_FALSE(lacks_events(continued("nccl", earlier, kept)));
  earlier.report.run.remarks = continued("nccl", {}, kept).run.remarks;
  EXPECT_TRUE(lacks_events(continued("nccl", earlier, kept))) << "those of the run before it";
}

TEST(ReportOfARun, that_ends_early_says_that_its_events_were_not_evaluated) {
  const auto lacks_events = [](const std::string& backend, bool measures, bool evaluates, const std::string& ended_by) {
    reports::Report report;
    report.run.backend = backend;
    Options options;
    options.soak = {60};
    ReportBuilder builder(options, report);
    builder.begin({}, {}, {.comparable = false, .why_not = "of no interest here"});
    if (measures) {
      Measurement m;
      m.measured_case.backend = backend;
      m.measured_case.collective = &all_reduce;
      m.outcome = Outcome::failed;
      builder.repetition_started(m.measured_case, {});
      builder.case_finished(m);
    }
    topo::HostActivity host;
    host.host = "n0";
    host.seconds = 3;
    if (evaluates) builder.add_watch({{host}, {host}}, {0}, 0);
    builder.close(ended_by);
    return std::ranges::any_of(builder.report().run.remarks, [](const std::string& each) {
      return each.find("was not evaluated: see the hosts' kernel logs") != std::string::npos;
    });
  };
  EXPECT_TRUE(lacks_events("nccl", true, false, "ended by SIGTERM"));
  EXPECT_FALSE(lacks_events("nccl", true, true, "ended by SIGTERM"));
  EXPECT_FALSE(lacks_events("nccl", false, false, "ended by SIGTERM")) << "nothing was measured";
  EXPECT_FALSE(lacks_events("nccl", true, false, ""));
  EXPECT_FALSE(lacks_events("mpi", true, false, "ended by SIGTERM")) << "nothing is watched";
}

TEST(ReportOfARun, names_hosts_that_were_not_watched_to_the_end) {
  const auto remarks = [](double watched_s) {
    topo::HostActivity host;
    host.host = "n0";
    host.watched_s = watched_s;
    host.measured_s = 600;
    ReportBuilder builder({}, {});
    builder.add_watch({std::vector<topo::HostActivity>(6, host)}, {}, 0);
    return builder.report().run.remarks;
  };
  EXPECT_TRUE(remarks(595).empty());
  ASSERT_EQ(remarks(60).size(), 1U);
  EXPECT_TRUE(
      remarks(60)[0].ends_with("are not known: n0 (for 60 of 600 s), n0 (for 60 of 600 s), n0 (for 60 of 600 s), "
                               "n0 (for 60 of 600 s), 2 more"))
      << remarks(60)[0];
}

TEST(ReportOfARun, that_continues_another_keeps_its_wrong_data_beside_the_plan) {
  const auto continue_it = [](const EarlierRun& earlier, const std::vector<KeptLine>& kept) {
    reports::Report report;
    report.run.backend = "nccl";
    report.run.ranks = report.run.nodes = 1;
    report.topology.hosts.resize(1);
    report.topology.hosts[0].name = "n0";
    report.topology.host_of_rank = {0};
    ReportBuilder builder({}, report);
    builder.resume_from(earlier, kept, 1);
    builder.begin({}, {}, {.comparable = false, .why_not = "of no interest here"});
    builder.close("");
    return builder.report();
  };
  EarlierRun earlier;
  EXPECT_EQ(continue_it(earlier, {}).exit_code, ExitCode::inconclusive) << "nothing was measured";
  topo::Finding finding;
  finding.id = "host.oversubscribed";
  earlier.report.findings = {finding};
  EXPECT_TRUE(continue_it(earlier, {}).findings.empty()) << "found anew";
  finding.severity = topo::Severity::error;
  finding.about = topo::About::hardware;
  finding.subject.host = "n0";
  finding.evidence = "so it is";
  for (const auto& [id, code] :
       {std::pair(reports::corrupt, ExitCode::wrong_data), std::pair(reports::check_failed, ExitCode::unfinished)}) {
    finding.id = id;
    earlier.report.findings = {finding};
    const reports::Report report = continue_it(earlier, {});
    EXPECT_EQ(report.exit_code, code) << id;
    ASSERT_EQ(report.findings.size(), 1U);
    EXPECT_EQ(report.findings[0].evidence, "so it is (in the run that this one continues)");
    earlier.report = report;
    EXPECT_EQ(continue_it(earlier, {}).findings.at(0).evidence, report.findings[0].evidence) << "said once";
  }
  earlier.report = {};
  earlier.report.topology.nics_of_rank = {{"rdmap0"}};
  KeptLine line;
  line.beside = true;
  line.result.measurement.measured_case.backend = "nccl";
  line.result.measurement.measured_case.collective = &find_collective("p2p");
  line.result.measurement.measured_case.nic = 0;
  line.result.measurement.wrong_elements = 4;
  const reports::Report report = continue_it(earlier, {line});
  EXPECT_EQ(report.exit_code, ExitCode::wrong_data);
  ASSERT_EQ(report.results.size(), 1U);
  EXPECT_EQ(report.results[0].verdict.grade, reports::Grade::wrong);
  EXPECT_EQ(report.topology.nics_of_rank, earlier.report.topology.nics_of_rank);
}

TEST(ReportOfARun, keeps_wrong_data_that_the_tuning_of_the_run_before_it_found) {
  EarlierRun earlier;
  earlier.report.tuning.emplace().failures = {{"all_reduce", 1024, "ring/ll", true, "wrong"},
                                              {"all_reduce", 1024, "default", true, "wrong"}};
  ReportBuilder builder({}, {});
  builder.resume_from(earlier, {}, 1);
  builder.begin({}, {}, {.comparable = false, .why_not = "of no interest here"});
  ASSERT_TRUE(builder.report().tuning) << "the run may end before its own tuning";
  EXPECT_EQ(builder.report().tuning->failures.size(), 1U);
  const std::string why = builder.reason_not_to_tune();
  EXPECT_TRUE(why.starts_with("NCCL's own settings gave wrong data in the run that this one continues, ")) << why;
  reports::Tuning refused;
  refused.outcome = "refused";
  builder.add_tuning(refused);
  builder.close("");
  EXPECT_EQ(builder.report().exit_code, ExitCode::wrong_data);
  ASSERT_EQ(builder.report().tuning->failures.size(), 1U);
  EXPECT_EQ(builder.report().tuning->failures[0].setting, "default");
}

TEST(ReportOfARun, has_results_of_the_run_that_it_continues) {
  ReportBuilder builder({}, {});
  reports::Result kept;
  kept.measurement.measured_case.collective = &find_collective("all_reduce");
  kept.measurement.outcome = Outcome::failed;
  builder.resume_from({}, {KeptLine{{}, kept, ""}}, 1);
  EXPECT_FALSE(builder.has_results()) << "no rank knows of them yet";
  builder.begin({}, {}, {});
  EXPECT_TRUE(builder.has_results());
}

// The second time the repetition for the slow GPU, which takes 7.2 s, does not fit.
TEST(Acceptance, keeps_what_the_checks_of_gpus_found_before_one_failed) {
  for (const bool fits : {true, false}) {
    const Folder folder;
    Shutdown shutdown;
    const std::vector<std::string> arguments{"run",         "--backend",     "sim",        "--platform",
                                             "p5.48xlarge", "--collectives", "all_reduce", "--sizes",
                                             "8",           "--quiet",       "--out",      folder.path.string()};
    Options options = parse_options(arguments).options;
    if (!fits) options.deadline = later(Clock::now(), {7});
    const auto control = make_solo_control_plane(8);
    int checks = 0;
    const FaultHooks fault_hooks{.wrap_backend = [&](std::unique_ptr<Backend> inner, int) {
      return std::make_unique<ChecksOnce>(std::move(inner), checks);
    }};
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    EXPECT_EQ(run_acceptance(*control, {*control, options, arguments, shutdown, fault_hooks}), ExitCode::wrong_data);
    testing::internal::GetCapturedStderr();
    testing::internal::GetCapturedStdout();
    EXPECT_EQ(checks, fits ? 2 : 1);
    const reports::Report report = reports::read_report((folder.path / "latest" / "report.json").string());
    const auto has = [&](std::string_view id) {
      return std::ranges::find(report.findings, id, &topo::Finding::id) != report.findings.end();
    };
    EXPECT_TRUE(has(reports::corrupt));
    EXPECT_TRUE(has(reports::slow_alone_id));
    EXPECT_EQ(has(reports::check_failed), fits);
    EXPECT_EQ(report.local_checks.size(), 8U);
  }
}

struct Shown {
  ExitCode code;
  std::string text;
};

// A run of all ranks in this process, and what it prints to stdout.
Shown run_quietly(ControlPlane& control, const std::vector<std::string>& arguments, const FaultHooks& fault_hooks) {
  Shutdown shutdown;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const Options options = parse_options(arguments).options;
  const ExitCode code = run_acceptance(control, {control, options, arguments, shutdown, fault_hooks});
  testing::internal::GetCapturedStderr();
  return {code, testing::internal::GetCapturedStdout()};
}

TEST(Acceptance, condemns_no_gpu_for_a_wait_of_a_burn_that_the_time_limit_cut_short) {
  for (const bool cut_short : {true, false}) {
    const Folder folder;
    const std::vector<std::string> arguments{"check",      "--burn",      "1s",    "--backend",         "sim",
                                             "--platform", "p5.48xlarge", "--out", folder.path.string()};
    const auto control = make_solo_control_plane(8);
    Seconds postponed{0};
    const FaultHooks fault_hooks{.wrap_backend = [&](std::unique_ptr<Backend> inner, int) {
      return std::make_unique<ChecksNever>(std::move(inner), cut_short, postponed);
    }};
    const auto [code, shown] = run_quietly(*control, arguments, fault_hooks);
    const reports::Report report = reports::read_report((folder.path / "latest" / "report.json").string());
    const auto found = std::ranges::find(report.findings, reports::check_failed, &topo::Finding::id);
    ASSERT_NE(found, report.findings.end());
    EXPECT_EQ(topo::condemns(*found), !cut_short);
    const Options options = parse_options(arguments).options;
    EXPECT_GT(postponed.count, options.burn.count);
    EXPECT_LT(postponed.count, options.burn.count + time_to_report(options.limit).count) << "the report has time left";
    if (!cut_short) continue;
    EXPECT_EQ(code, ExitCode::unfinished);
    EXPECT_NE(shown.find("NOT FINISHED"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("NOT FIT"), std::string::npos) << shown;
    EXPECT_NE(shown.find("was not complete within the limit: rank 3: no answer"), std::string::npos) << shown;
  }
}

// With a burn and without, the host of the GPU is not finished, and the other one is what was measured there.
TEST(Acceptance, tells_the_host_alone_whose_gpu_did_not_end_its_check_within_the_time_limit) {
  for (const bool burns : {true, false}) {
    std::vector<std::string> arguments{"check", "--backend", "sim", "--platform", "p5.48xlarge", "--nodes", "2"};
    if (burns) arguments.insert(arguments.end(), {"--burn", "1s"});
    const auto control = make_solo_control_plane(16);
    Seconds postponed{0};
    const FaultHooks fault_hooks{.wrap_backend = [&](std::unique_ptr<Backend> inner, int) {
      return std::make_unique<ChecksNever>(std::move(inner), true, postponed);
    }};
    const auto [code, shown] = run_quietly(*control, arguments, fault_hooks);
    EXPECT_EQ(code, ExitCode::unfinished);
    EXPECT_NE(shown.find("n0: NOT FINISHED: gpu.check_failed"), std::string::npos) << shown;
    EXPECT_NE(shown.find(burns ? "n1: NOT CHECKED: no burn on rank 8" : "n1: fit; "), std::string::npos) << shown;
    EXPECT_NE(shown.find("error gpu.check_failed: rank 3: its check alone was not complete: rank 3: no answer"),
              std::string::npos)
        << shown;
  }
}

// Its ranks do not answer.
class SilentBackend final : public Backend {
 public:
  explicit SilentBackend(bool recovers) : recovers_(recovers) {}
  std::unique_ptr<Session> open(const Case&, int) override { return nullptr; }
  Bytes memory_per_rank(const Case&) const override { return {}; }
  CostModel cost() const override { return {}; }
  bool recovers() const override { return recovers_; }

 private:
  const bool recovers_;
};

// The leader waits for its own worker. In an operation from which ranks do not recover, it may wait for any of them.
TEST(Acceptance, tells_the_host_of_the_leader_alone_where_the_leader_awaits_no_rank_at_the_time_limit) {
  for (const bool recovers : {true, false}) {
    Shutdown shutdown;
    const std::vector<std::string> arguments{"check"};
    const Options options = parse_options(arguments).options;
    const FaultHooks fault_hooks;
    reports::Report report;
    report.topology.hosts.resize(2);
    report.topology.hosts[0].name = "n0";
    report.topology.hosts[1].name = "n1";
    report.topology.host_of_rank = {0, 1};
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    run_threads(2, [&](ControlPlane& control) {
      if (!control.is_leader()) return;
      const Request request{control, options, arguments, shutdown, fault_hooks};
      p5::Run run(control, request);
      run.machine.topology = report.topology;
      run.machine.backend = std::make_unique<SilentBackend>(recovers);
      run.recorder.open(options, report, {});
      run.opened = true;
      EXPECT_EQ(actions_before_end(run).on_limit(), ExitCode::unfinished);
    });
    testing::internal::GetCapturedStderr();
    const std::string shown = testing::internal::GetCapturedStdout();
    const std::string why = "no answer within 20 s while starting: rank 0 on n0";
    EXPECT_THAT(shown, HasSubstr(recovers ? "n0: NOT FINISHED: gpu.check_failed" : "n0: NOT FINISHED: " + why));
    EXPECT_THAT(shown, HasSubstr((recovers ? "n1: NOT CHECKED: " : "n1: NOT FINISHED: ") + why));
  }
}

// The load is left out where time runs short, and as if it were where the time limit cuts it, unless it failed before
// or a device hangs.
TEST(Acceptance, calls_a_node_fit_whose_load_the_time_limit_cut_short) {
  struct End {
    std::vector<bool> cut_short;
    bool burns;
    ExitCode code;
    const char* says;
    bool copies = false, hangs = false;
  };
  for (const End& end :
       {End{{true}, false, ExitCode::ok, "n0: fit; "}, End{{true}, false, ExitCode::ok, "n0: fit; ", true},
        End{{true, true}, false, ExitCode::unfinished, "n0: NOT FINISHED: gpu.check_failed", false, true},
        End{{true, true}, false, ExitCode::unfinished, "n0: NOT FINISHED: gpu.check_failed", true, true},
        End{{false, false}, false, ExitCode::unfinished, "n0: NOT FIT: gpu.check_failed"},
        End{{false, true}, false, ExitCode::unfinished, "n0: NOT FINISHED: gpu.check_failed"},
        End{{true}, true, ExitCode::unfinished, "n0: NOT FINISHED: gpu.check_failed"}}) {
    std::vector<std::string> arguments{"check", "--backend", "sim", "--platform", "p5.48xlarge"};
    if (end.burns) arguments.insert(arguments.end(), {"--burn", "1s"});
    const auto control = make_solo_control_plane(8);
    const FaultHooks fault_hooks{.wrap_backend = [&](std::unique_ptr<Backend> inner, int) {
      return std::make_unique<LoadsNever>(std::move(inner), end.cut_short, end.copies, end.hangs);
    }};
    const auto [code, shown] = run_quietly(*control, arguments, fault_hooks);
    EXPECT_EQ(code, end.code) << shown;
    EXPECT_NE(shown.find(end.says), std::string::npos) << shown;
    EXPECT_EQ(shown.find("what follows the check of each GPU alone was not complete within the limit: rank 3: no "
                         "answer") != std::string::npos,
              code == ExitCode::ok)
        << shown;
  }
}

TEST(Acceptance, asks_which_ranks_waited_for_cores_without_pairs_too) {
  const std::vector<std::string> slow{"--backend", "sim", "--platform", "p5.48xlarge", "--fault", "gpu:n0g3:0.5"};
  const std::vector<std::string> collective{"--collectives", "all_reduce", "--sizes", "1GiB", "--tuning", "off"};
  const std::vector<std::vector<std::string>> commands{{"run"}, {"run", "--soak", "1s"}, {"check"}};
  for (std::vector<std::string> arguments : commands) {
    const Folder folder;
    Shutdown shutdown;
    arguments.insert(arguments.end(), slow.begin(), slow.end());
    if (arguments.front() == "run") arguments.insert(arguments.end(), collective.begin(), collective.end());
    arguments.insert(arguments.end(), {"--quiet", "--out", folder.path.string()});
    const auto control = make_solo_control_plane(8);
    const FaultHooks fault_hooks{.wrap_backend = [](std::unique_ptr<Backend> inner, int) {
      return std::make_unique<WaitsForCores>(std::move(inner));
    }};
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    (void)run_acceptance(*control, {*control, parse_options(arguments).options, arguments, shutdown, fault_hooks});
    testing::internal::GetCapturedStderr();
    testing::internal::GetCapturedStdout();
    const reports::Report report = reports::read_report((folder.path / "latest" / "report.json").string());
    EXPECT_NE(std::ranges::find(report.findings, reports::cores_busy_id, &topo::Finding::id), report.findings.end())
        << arguments.at(1) << ": " << report.decision.sentence;
  }
}

// The checks of each GPU alone take 7.2 s here, and a join may take 5 s.
TEST(Acceptance, of_a_check_with_little_time_left_measures_all_gpus_together_and_no_pairs) {
  for (const double left_s : {7.1, 4.5}) {
    const Folder folder;
    Shutdown shutdown;
    const std::vector<std::string> arguments{"check",       "--backend", "sim",   "--platform",
                                             "p5.48xlarge", "--quiet",   "--out", folder.path.string()};
    Options options = parse_options(arguments).options;
    options.deadline = later(Clock::now(), {left_s});
    const auto control = make_solo_control_plane(8);
    const FaultHooks fault_hooks;
    testing::internal::CaptureStdout();
    const ExitCode code = run_acceptance(*control, {*control, options, arguments, shutdown, fault_hooks});
    testing::internal::GetCapturedStdout();
    const bool suffices = left_s > 5;
    EXPECT_EQ(code, suffices ? ExitCode::ok : ExitCode::unfinished);
    const reports::Report report = reports::read_report((folder.path / "latest" / "report.json").string());
    ASSERT_GE(report.results.size(), 2U);
    for (const reports::Result& result : report.results) {
      const bool runs = suffices && !result.measurement.measured_case.collective->pairwise;
      EXPECT_EQ(result.measurement.outcome, runs ? Outcome::measured : Outcome::skipped) << result.measurement.because;
      if (!runs) {
        EXPECT_EQ(result.measurement.because, "budget");
      }
    }
    EXPECT_EQ(report.local_checks.empty(), !suffices);
    EXPECT_TRUE(std::ranges::any_of(report.run.remarks, [](const std::string& each) {
      return each.find("s of the limit of 20 s had passed") != std::string::npos;
    }));
  }
}

// Those take 4.8 s, and 0.3 s for each GPU of a host.
TEST(Acceptance, of_a_check_leaves_nics_all_the_time_after_the_checks_of_gpus) {
  Shutdown shutdown;
  const std::vector<std::string> arguments{"check"};
  const FaultHooks fault_hooks;
  Options options = parse_options(arguments).options;
  options.deadline = later(Clock::now(), {60});
  const auto control = make_solo_control_plane(16);
  const Request request{*control, options, arguments, shutdown, fault_hooks};
  p5::Run run(*control, request);
  run.machine.backend_name = "nccl";
  run.machine.topology.hosts.resize(2);
  run.machine.topology.host_of_rank = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  run.machine.topology.nics_of_rank.resize(16);
  const double for_cases = time_for_cases(run).count;
  EXPECT_LT(for_cases, 60 - 7.1);
  EXPECT_NEAR(time_for_parts(run).count - for_cases, 6.2, 0.5) << "but for the last round";
  run.machine.backend_name = "ofi";
  EXPECT_NEAR(time_for_parts(run).count - time_for_cases(run).count, 0, 0.5) << "NICs are measured before the cases";
}

TEST(ReportOfARun, has_a_reason_not_to_tune_on_a_faulty_machine) {
  const auto reason = [](const reports::Report& report, const std::vector<topo::Finding>& findings) {
    ReportBuilder builder({}, report);
    builder.begin({}, findings, {.comparable = false, .why_not = "of no interest here"});
    return builder.reason_not_to_tune();
  };
  const auto finding = [](std::string_view id, topo::Severity severity, topo::About about) {
    topo::Finding made;
    made.id = id;
    made.severity = severity;
    made.evidence = "so it is";
    made.about = about;
    return made;
  };
  const std::string consequence = ", and settings are not tuned on a faulty machine";
  const topo::Finding missing = finding("nic.missing", topo::Severity::error, topo::About::hardware);
  const topo::Finding warning = finding("nic.missing", topo::Severity::warning, topo::About::hardware);
  const topo::Finding corrupt = finding(reports::corrupt, topo::Severity::error, topo::About::hardware);
  EXPECT_EQ(reason({}, {}), "");
  EXPECT_EQ(reason({}, {warning}), "");
  EXPECT_EQ(reason({}, {missing, corrupt}), "there was wrong data (so it is)" + consequence);
  EXPECT_EQ(reason({}, {missing}), "there is a fault of the machine (nic.missing: so it is)" + consequence);
  reports::Report report;
  reports::OpenQuestion question;
  question.candidates = {"nic n1r5", "link n0-n1"};
  question.fault = "slow";
  report.open_questions = {question};
  EXPECT_EQ(reason(report, {}), "");
  report.open_questions.front().fault = "silent";
  EXPECT_EQ(reason(report, {}), "nic n1r5 or link n0-n1 seems silent" + consequence);
  reports::Suspect suspect;
  suspect.kind = "nic";
  suspect.name = "n1r5";
  suspect.fault = "wrong";
  report.suspects = {suspect};
  EXPECT_EQ(reason(report, {}), "nic n1r5 seems to corrupt data" + consequence);
}

// The end of the run interrupts the second launch, in which a round before gave wrong data.
TEST(ReportOfARun, has_the_wrong_data_of_an_interrupted_launch) {
  Options options;
  options.launches = 3;
  ReportBuilder builder(options, {});
  builder.begin({}, {}, {});
  Measurement m;
  m.measured_case.collective = &all_reduce;
  m.measured_case.ranks = 1;
  m.throughput.emplace();
  m.launch = 0;
  RunProgress standing;
  standing.several = true;
  builder.repetition_started(m.measured_case, standing);
  builder.case_finished(m);
  standing.launch = 1;
  builder.repetition_started(m.measured_case, standing);
  m.launch.reset();
  m.throughput.reset();
  m.wrong_elements = 2;
  builder.repetition_finished(m);
  builder.fail_unfinished("ended by SIGTERM");
  const reports::Report& report = builder.report();
  ASSERT_EQ(report.results.size(), 1u);
  EXPECT_EQ(report.results[0].measurement.wrong_elements, 2u);
  EXPECT_EQ(report.results[0].verdict.grade, reports::Grade::wrong);
  EXPECT_EQ(report.exit_code, ExitCode::wrong_data);
}

// The first of four cases is measured, the end of the run interrupts the second, and the third is skipped.
TEST(ReportOfARun, that_ended_early_counts_all_cases_that_have_no_result_as_unmeasured) {
  for (const bool several : {false, true}) {
    Options options;
    options.launches = several ? 3 : 1;
    reports::Report report;
    report.run.backend = "mpi";
    ReportBuilder builder(options, report);
    Measurement m;
    m.measured_case.backend = "mpi";
    m.measured_case.collective = &all_reduce;
    m.measured_case.ranks = 1;
    builder.set_plan(std::vector<Case>(4, m.measured_case));
    builder.begin({}, {}, {.comparable = false, .why_not = "of no interest here"});
    RunProgress standing;
    standing.several = several;
    if (several) m.launch = 0;
    m.throughput.emplace();
    builder.repetition_started(m.measured_case, standing);
    builder.case_finished(m);
    m.throughput.reset();
    m.outcome = Outcome::skipped;
    m.because = "budget";
    standing.number = 2;
    builder.repetition_started(m.measured_case, standing);
    builder.case_finished(m);
    standing.number = 1;
    builder.repetition_started(m.measured_case, standing);
    const std::vector<reports::Result> lines = builder.fail_unfinished("ended by SIGTERM while measuring");
    builder.close("ended by SIGTERM while measuring");
    std::size_t kept = 0;
    for (const reports::Result& each : builder.report().results)
      kept += can_be_kept(each.measurement, builder.report().run.ended_by);
    EXPECT_EQ(kept, 1U);
    EXPECT_THAT(builder.report().run.remarks,
                ::testing::Contains("3 of the 4 cases of the plan were not measured: 3 of all_reduce"))
        << several;
    EXPECT_EQ(lines.size(), 1U);
  }
}

TEST(Comparisons, of_arms_end_with_the_decision_first_and_their_answer_last) {
  reports::Report report;
  report.decision.sentence = "REJECT: arm b is slower than arm a, SIMULATED";
  Options options;
  for (const bool quiet : {false, true}) {
    options.quiet = quiet;
    const std::string text = closing_text(report, options, "a table\nREGRESSION: all_reduce\n");
    EXPECT_TRUE(text.starts_with(report.decision.sentence + "\n")) << text;
    EXPECT_TRUE(text.ends_with("\nREGRESSION: all_reduce\n")) << text;
    EXPECT_EQ(text.find("a table") == std::string::npos, quiet) << text;
  }
}

reports::Report report_to_record() {
  reports::Report report;
  report.run.cluster = "c";
  return report;
}

Options options_in(const Folder& folder) {
  Options options;
  options.out = folder.path.string();
  return options;
}

TEST(Recorder, does_nothing_until_it_is_opened) {
  Recorder recorder;
  recorder.remark("");
  recorder.repetition_started({}, {});
  recorder.case_finished({}, false);
  recorder.write_report();
  recorder.end_early("a signal");
  EXPECT_EQ(recorder.finish(ExitCode::ok), ExitCode::ok);
}

// A signal may follow a hang, and both may happen at the end of a run.
TEST(Recorder, keeps_what_ended_a_run_first) {
  const Folder folder;
  Recorder recorder;
  reports::Report report = report_to_record();
  Options options = options_in(folder);
  options.quiet = true;
  const fs::path run = recorder.open(options, report, {});
  testing::internal::CaptureStderr();
  EXPECT_EQ(recorder.end_early("the first", ExitCode::environment), ExitCode::environment);
  EXPECT_EQ(recorder.end_early("the second"), ExitCode::environment);
  recorder.finish(ExitCode::ok);
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("the second"), std::string::npos);
  const reports::Report left = reports::read_report((run / "report.json").string());
  EXPECT_EQ(left.run.ended_by, "the first");
  EXPECT_EQ(left.exit_code, ExitCode::environment);
}

Measurement wrong_or_failed(bool wrong) {
  Measurement m;
  m.measured_case.backend = "mpi";
  m.measured_case.collective = &find_collective("all_reduce");
  m.measured_case.ranks = 2;
  m.outcome = wrong ? Outcome::measured : Outcome::failed;
  if (wrong) m.throughput = Series{};
  if (wrong) m.throughput->summary = summarize({1e-3, 1e-3});
  m.wrong_elements = wrong ? 3 : 0;
  return m;
}

// What a run leaves that is killed.
TEST(Recorder, has_a_report_on_disk_that_agrees_with_its_measurements) {
  for (const bool wrong : {false, true}) {
    const Folder folder;
    Recorder recorder;
    reports::Report report = report_to_record();
    report.run.ranks = 2;
    Options options = options_in(folder);
    const fs::path run = recorder.open(options, report, {});
    recorder.case_finished(wrong_or_failed(wrong), !wrong);
    recorder.write_report();
    recorder.add_file("waits until the report is on disk", "");
    const reports::Report left = reports::read_report((run / "report.json").string());
    EXPECT_EQ(left.status, "partial");
    EXPECT_EQ(left.exit_code, wrong ? ExitCode::wrong_data : ExitCode::unfinished);
    EXPECT_EQ(left.grade, wrong ? reports::Grade::wrong : reports::Grade::failed);
    EXPECT_EQ(left.decision.word, wrong ? "REJECT" : "CANNOT TELL");
  }
}

TEST(Recorder, prints_the_decision_of_a_run_that_ends_early) {
  for (const bool quiet : {false, true})
    for (const bool arms : {false, true}) {
      const Folder folder;
      Recorder recorder;
      reports::Report report = report_to_record();
      if (arms) report.arms.resize(2);
      Options options = options_in(folder);
      options.command = arms ? "ab" : "run";
      options.quiet = quiet;
      const fs::path run = recorder.open(options, report, {});
      testing::internal::CaptureStderr();
      testing::internal::CaptureStdout();
      recorder.end_early("ended by SIGTERM");
      testing::internal::GetCapturedStderr();
      const std::string printed = testing::internal::GetCapturedStdout();
      const std::string sentence = reports::read_report((run / "report.json").string()).decision.sentence;
      EXPECT_EQ(printed.substr(0, printed.find('\n')), sentence);
      EXPECT_NE(printed.find("Report: " + run.string()), std::string::npos);
    }
}

TEST(Recorder, leaves_no_format_with_another_answer_than_its_exit_code) {
  for (const char* const unwritten : {"report.json", "report.md"}) {
    const Folder folder;
    Recorder recorder;
    reports::Report report = report_to_record();
    Options options = options_in(folder);
    options.formats = {"json", "junit", "markdown", "prometheus"};
    const fs::path run = recorder.open(options, report, {});
    fs::remove(run / unwritten);
    fs::create_directory(run / unwritten);
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    EXPECT_EQ(recorder.finish(ExitCode::ok), ExitCode::unfinished);
    testing::internal::GetCapturedStderr();
    testing::internal::GetCapturedStdout();
    const auto text_of = [&](const char* name) { return read_input(run / name, MiB(1), ""); };
    EXPECT_NE(text_of("report.xml").find("<property name=\"exit code\" value=\"12\"/>"), std::string::npos);
    EXPECT_NE(text_of("report.prom").find("p5bench_exit_code{cluster=\"c\"} 12\n"), std::string::npos);
  }
}

TEST(Recorder, that_ends_early_has_the_exit_code_of_the_report_on_disk) {
  for (const char* const unwritten : {"", "report.xml", "report.json"}) {
    const Folder folder;
    Recorder recorder;
    Options options = options_in(folder);
    options.formats = {"json", "junit", "prometheus"};
    const fs::path run = recorder.open(options, report_to_record(), {});
    const bool full = *unwritten != '\0';
    if (full) fs::remove(run / unwritten), fs::create_directory(run / unwritten);
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    const ExitCode code = recorder.end_early("the machine does not take part", ExitCode::environment);
    testing::internal::GetCapturedStderr();
    testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, full ? ExitCode::unfinished : ExitCode::environment) << unwritten;
    EXPECT_NE(read_input(run / "report.prom", MiB(1), "").find(full ? "cluster=\"c\"} 12\n" : "cluster=\"c\"} 13\n"),
              std::string::npos);
    if (unwritten != std::string_view("report.json")) {
      EXPECT_EQ(reports::read_report((run / "report.json").string()).exit_code, code);
    }
  }
}

// Limits the size of this process's files, like a full disk.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, ignored_before_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit before_{};
  void (*ignored_before_)(int) = ::signal(SIGXFSZ, SIG_IGN);
};

TEST(Recorder, of_a_check_leaves_no_report_with_another_answer) {
  for (const bool ends_early : {false, true}) {
    const Folder folder;
    Recorder recorder;
    Options options = options_in(folder);
    options.command = "check";
    options.formats = {"console"};
    const fs::path run = recorder.open(options, report_to_record(), {});
    recorder.become_latest();
    EXPECT_EQ(reports::read_report((run / "report.json").string()).exit_code, ExitCode::unfinished);
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    ExitCode code = ExitCode::ok;
    {
      const SmallFiles full(400);  // the lines fit, the report does not
      code = ends_early ? recorder.end_early("a signal") : recorder.finish(ExitCode::ok);
    }
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("cannot write"));
    EXPECT_THAT(testing::internal::GetCapturedStdout(), Not(HasSubstr("Report: "))) << ends_early;
    EXPECT_EQ(code, ends_early ? ExitCode::unfinished : ExitCode::environment);
    EXPECT_FALSE(fs::exists(run / "report.json")) << ends_early;
  }
}

TEST(Recorder, of_a_check_that_loses_only_its_page_ends_with_the_exit_code_of_the_report) {
  const Folder folder;
  Recorder recorder;
  Options options = options_in(folder);
  options.command = "check";
  options.formats = {"console", "html"};
  const fs::path run = recorder.open(options, report_to_record(), {});
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  ExitCode code = ExitCode::environment;
  {
    const SmallFiles full(16 << 10);  // the report fits, the page does not
    code = recorder.finish(ExitCode::ok);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("cannot write"));
  testing::internal::GetCapturedStdout();
  const reports::Report left = reports::read_report((run / "report.json").string());
  EXPECT_EQ(left.status, "complete");
  EXPECT_EQ(left.exit_code, code);
}

// The report is a pipe that is full and stays so.
TEST(Recorder, of_a_check_waits_a_moment_only_for_a_disk_that_does_not_answer) {
  const Folder folder;
  Recorder recorder;
  Options options = options_in(folder);
  options.command = "check";
  options.formats = {"console"};
  const fs::path report = recorder.open(options, report_to_record(), {}) / "report.json";
  fs::remove(report);
  ASSERT_EQ(::mkfifo(report.c_str(), 0600), 0);
  ASSERT_GE(::open(report.c_str(), O_RDONLY | O_NONBLOCK), 0) << "stays open, since the writer waits for ever";
  recorder.remark(std::string(1 << 18, 'x'));
  recorder.write_report();
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const auto began = Clock::now();
  recorder.add_file("topology.json", "{}");
  EXPECT_EQ(recorder.finish(ExitCode::ok), ExitCode::environment);
  EXPECT_LT(since(began).count, 20);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("a file system does not answer"));
  EXPECT_THAT(testing::internal::GetCapturedStdout(), Not(HasSubstr("Report: ")));
}

TEST(Recorder, of_a_check_goes_on_without_a_disk) {
  const Folder folder;
  Recorder recorder;
  Options options = options_in(folder);
  options.command = "check";
  fs::remove_all(recorder.open(options, report_to_record(), {}));
  recorder.become_latest();
  recorder.write_report();
  recorder.add_file("topology.json", "{}");
  recorder.case_finished(wrong_or_failed(true), false);
  recorder.write_report();
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const ExitCode code = recorder.finish(ExitCode::ok);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("cannot write"));
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, ExitCode::wrong_data);
}

// Separate threads, where an exception would end the process.
TEST(Recorder, that_cannot_write_any_more_ends_early_all_the_same) {
  const Folder folder;
  Recorder recorder;
  reports::Report report = report_to_record();
  Options options = options_in(folder);
  fs::remove_all(recorder.open(options, report, {}));
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  recorder.end_early("ended by SIGTERM");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("ended by SIGTERM; No such file or directory: cannot write"),
            std::string::npos);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("the run did not finish: ended by SIGTERM"), std::string::npos);
}

}  // namespace
}  // namespace p5
