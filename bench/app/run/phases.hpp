// What the phases of a run do (acceptance.cpp: in which order, and which it can do without). They share a Run, in which
// each finds what those before it left. All of them on all ranks together.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/app/commands/commands.hpp"
#include "bench/app/machine/machine.hpp"
#include "bench/app/run/acceptance.hpp"
#include "bench/app/run/arms.hpp"
#include "bench/app/run/case_monitor.hpp"
#include "bench/app/run/recorder.hpp"
#include "bench/app/run/resuming.hpp"
#include "bench/app/run/signals.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"
#include "bench/control/collective_errors.hpp"
#include "bench/measure/runner.hpp"
#include "tuner/arms.hpp"
#include "tuner/table.hpp"

namespace p5 {

// Of the budget, what stays for judging and writing.
inline constexpr double finishing_share = 0.1;

struct Run;
void handle_hang(Run& run, const Watchdog::Hang& hang);

struct Run {
  Run(ControlPlane& job, const Request& asked)
      : control(job, &watchdog),
        request(asked),
        options(asked.options),
        watchdog([this](const Watchdog::Hang& hang) { handle_hang(*this, hang); }) {}

  CollectiveErrors control;
  const Request& request;
  const Options& options;
  const Clock::time_point start = Clock::now();

  std::uint64_t seed = 0;
  std::optional<EarlierRun> earlier;  // at the leader: what this run goes on with
  Machine machine;
  Plan plan;
  std::vector<tuner::Weight> weights;
  std::vector<tuner::Table> kept_tables;  // of --keep-table, at the leader
  Arms arms;

  std::string cluster;           // at the leader
  std::filesystem::path folder;  // the leader's
  Recorder recorder;
  std::optional<TerminationHandler> termination_handler;  // refers to the recorder
  RunnerOptions runner;
  std::optional<CaseMonitor> case_monitor;
  std::unique_ptr<Backend> fabric;  // for NICs one by one, where the backend under test is not it
  std::vector<Case> beside;         // of parts, beside the plan; alike on all ranks
  ExitCode code = ExitCode::ok;     // what counts beside the report; in the end the run's

  // For other threads.
  std::atomic<const char*> phase{"starting"};
  std::atomic<bool> opened{false};  // machine, plan and folder are known
  std::atomic<bool> finishing{false};
  Watchdog watchdog;  // the last: it looks at all of this
};

// ---- ending.cpp: before the end of the last phase

// How long ranks may wait for each other outside of cases before one of them counts as hung.
Seconds longest_wait(const Run& run);
// On the watchdog's thread: leaves the job, unless what hung goes on.
void handle_hang(Run& run, const Watchdog::Hang& hang);
// Leaves word and goes: others wait for this rank in calls that nothing ends.
[[noreturn]] void abort_job(Run& run, const JobLost& lost);
// When the time of a check is over, what has not answered is named.
void watch_wall_limit(Run& run);
// From here on a signal ends the run with a report.
void prepare_for_signals(Run& run);

// ---- checking.cpp: what is a check's alone

// All pairs within nodes, and each node's GPUs together, with the largest message that fits; on several nodes all GPUs
// together besides.
Plan plan_check(const Run& run);
// Of the limit, without what comes before and behind cases.
Seconds time_for_cases(const Run& run);
// On one host: which GPU it is that does not join.
RanksOnHosts gpus_as_hosts(const Run& run);
// Whether there is time for more that may hang.
bool has_time(const Run& run);
// What the leader says of it.
bool all_have_time(Run& run);
// What a check's end adds to the report: GPUs that were left out, that there was nothing to measure with, that somebody
// was not waited for any more.
void sum_up_check(Run& run);

// ---- preparing.cpp

void find_machine_and_plan(Run& run);
// The folder, with what is known so far; and a baseline, or an earlier run, that has to fit it.
void open_report(Run& run);
// Whether hosts reach each other where data will go; if not, no case is tried.
void check_reachability_of_hosts(Run& run);
// Limits and findings of the machine; then the time that there is for cases is known.
void evaluate_machine(Run& run);

// ---- measuring.cpp

void start_watching(Run& run);
void measure(Run& run);
void report_watch_findings(Run& run);
bool gpus_can_be_checked(const Run& run);
void check_gpus_alone(Run& run);
void report_library_log(Run& run);

// ---- parts.cpp

// NICs one by one, rails and halves of the nodes.
bool parts_can_be_measured(const Run& run);
void measure_parts(Run& run);
bool may_need_retest(const Run& run);
// What seemed slow, before anybody is named.
void measure_again(Run& run);

// ---- tuning_phase.cpp

std::string tuning_mode(const Options& options);
bool may_tune(const Run& run);
void tune_settings(Run& run);
// Instead of it; one sentence.
void report_tuning_refused(Run& run, const std::string& because);

}  // namespace p5
