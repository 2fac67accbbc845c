// The acceptance run and its phases (acceptance.cpp has their order and which of them may fail). They share a Run; each
// uses the results of the phases before it. All phase functions are collective.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/app/commands/commands.hpp"
#include "bench/app/machine/machine.hpp"
#include "bench/app/run/recorder.hpp"
#include "bench/app/run/run_folder.hpp"
#include "bench/app/run/shutdown.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"
#include "bench/control/collective_errors.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/options.hpp"
#include "bench/model/plan.hpp"
#include "reports/report.hpp"
#include "reports/retests.hpp"
#include "topo/watch.hpp"
#include "tuner/arms.hpp"
#include "tuner/files.hpp"

namespace p5 {

ExitCode run_acceptance(ControlPlane& control, const Request& request);

// The names of the run's phases, in order.
std::vector<std::string> phases_of_run();

// Budget fraction reserved for the report.
inline constexpr double finishing_share = 0.1;

// ---- The arms of a run: the backend alone, or for `ab` two sets of variables with workers of their own

struct Arms {
  std::vector<std::unique_ptr<Backend>> owned;
  std::vector<Arm> all;
};

// Collective. For `ab`, ends the workers of the machine's own backend. Throws UsageError or EnvironmentError on all
// ranks if the options need launches or arms that the backend cannot provide.
Arms make_arms(ControlPlane& control, const Options& options, const Machine& machine);

// The reason that the ranks of a launch cannot be measured: they loaded different libraries, or use other GPUs than the
// job's; "" if there is none.
std::string launch_mismatch(const std::vector<Environment>& of_ranks, const Machine& machine);

// The arms as the report lists them before any launch; empty unless the command is `ab`.
std::vector<reports::ArmInfo> describe_arms(const Options& options);

// Polls GPUs and NICs of every host once a second while cases run, and attaches what it saw to the cases.
class CaseMonitor {
 public:
  // Collective. The first rank of each host starts the polling program if ranks have GPUs.
  CaseMonitor(ControlPlane& control, const Machine& machine);

  // Wraps the leader's observer to record when cases ran and how many bytes they must have sent.
  Observer& around(Observer& inner);

  // Now, on this host's clock, since all hosts began to watch.
  Seconds now() const;
  // The times in which each GPU was checked alone, and under load; the leader's count.
  void checked_alone(Seconds from, Seconds to) { alone_.push_back({from, to}); }
  void checked_under_load(Seconds from, Seconds to) { loaded_.push_back({from, to}); }

  // Collective, after the last case. Adds the observations to the recorder.
  void finish(ControlPlane& control, const Machine& machine, Recorder& recorder);

 private:
  class Cases;

  std::unique_ptr<topo::Watch> watch_;
  Seconds begin_{};  // time of the barrier on this host's clock
  std::shared_ptr<Cases> cases_;
  topo::Windows alone_, loaded_;
  bool wanted_ = false;
};

// ---- The run

struct Run;
// Called on the watchdog's thread. Ends the process unless the hung step resumes.
void handle_hang(Run& run, const Watchdog::Hang& hang);

// A rank's process; its id means something only within its namespace (of containers).
struct RankProcess {
  std::int64_t id = 0;
  std::string id_namespace = {};
};

void fields(auto& archive, Is<RankProcess> auto& process) {
  archive.must("id", process.id);
  archive.must("namespace", process.id_namespace);
}

struct Run {
  Run(ControlPlane& job, const Request& asked)
      : control(job, &watchdog),
        request(asked),
        options(asked.options),
        watchdog([this](const Watchdog::Hang& hang) { handle_hang(*this, hang); }) {}
  ~Run() { request.shutdown.set_actions({}); }
  Run(const Run&) = delete;  // the watchdog's and the shutdown's threads refer to this object
  Run& operator=(const Run&) = delete;

  CollectiveErrors control;
  const Request& request;
  Options options;
  const Clock::time_point start = Clock::now();

  std::uint64_t seed = 0;
  std::optional<EarlierRun> earlier;  // at the leader: the run that --resume continues
  Machine machine;
  Plan plan;
  std::vector<RankProcess> processes;  // by rank; empty where one process hosts several
  std::vector<tuner::Weight> weights;
  tuner::KeptTables kept_tables;  // from --keep-table, at the leader
  Arms arms;

  std::string cluster;           // at the leader
  std::filesystem::path folder;  // the same path on all ranks
  Recorder recorder;
  RunnerOptions runner;
  std::optional<CaseMonitor> case_monitor;
  std::unique_ptr<Backend> fabric;  // measures single NICs if the backend under test cannot
  Seconds retesting{0};             // time that was spent on measuring again
  std::set<std::string> named;      // suspects that were named before the end, at the leader
  std::vector<Case> beside;         // cases that locate slow parts, beside the plan; the same on all ranks
  ExitCode code = ExitCode::ok;     // merged with the report's exit code; at the end the run's

  // Read by other threads.
  std::atomic<const char*> phase{"starting"};
  std::atomic<bool> opened{false};  // machine, plan and folder are set
  std::atomic<bool> finishing{false};
  Watchdog watchdog;  // declared last: its thread uses all of the above
};

// ---- acceptance.cpp: early ends of a run

// Limit for waiting for other ranks outside of cases; beyond it a rank counts as hung.
Seconds longest_wait(const Run& run);
// The first action after a signal or at the time limit of `check`: the leader ends the run with a report.
Shutdown::Actions actions_before_end(Run& run);

// ---- preparing.cpp, acceptance.cpp: only for `check`

// The time left under --limit, and that for cases before the checks of each GPU alone.
Seconds time_left(const Run& run);
Seconds time_for_cases(const Run& run);
// The time for single NICs and groups, which are measured after the checks of each GPU alone unless NICs come first.
Seconds time_for_parts(const Run& run);
// Time that the checks of each GPU alone need, without --burn, and the copies to and from host memory after them.
Seconds time_for_gpus_alone();
Seconds time_for_host_copies(const NodeOfRank& host_of_rank);
// Time that the short form of the cases under load takes.
Seconds time_under_load(std::size_t cases, const CostModel& cost);
// On all ranks: the leader's answer, whether so much is left before the deadline.
bool agree_on_time_left(Run& run, Seconds needed);
// False after the deadline for steps that may hang.
bool has_time_left(const Run& run);
// The leader's has_time_left() on all ranks.
bool agree_on_time_left(Run& run);
// Adds skipped GPUs, the reason that nothing was measured, and timeouts to the report and the exit code.
void finish_check(Run& run);

// ---- preparing.cpp

void find_machine_and_plan(Run& run);
// Creates the folder and the partial report; reads a baseline or an earlier run, which have to match.
void open_report(Run& run);
// Tests whether hosts reach each other where data will go; if not, no case is run.
void check_reachability_of_hosts(Run& run);
// Adds limits and findings of the machine, then allocates the budget.
void evaluate_machine(Run& run);

// ---- programs.cpp

// A check of GPUs that condemns one for being slow, or a node, asks NVML again whether other programs use the job's
// GPUs, as they do where a job or another check starts meanwhile. Its figures are not judged then. `of_ranks`: the
// results of the checks of each GPU so far; none before them.
void look_for_programs(Run& run, const std::vector<LocalChecks>& of_ranks);

// ---- parts.cpp

// Measures single NICs before the plan's cases where the backend moves data with NICs alone, and again those that seem
// slow or silent: pairs pass through several NICs and tell less.
bool nics_come_first(const Run& run);
void measure_nics_first(Run& run);
// True if the run measures single NICs, rails or halves of the nodes, and if it does so after the plan's cases.
bool parts_can_be_measured(const Run& run);
bool parts_are_left(const Run& run);
void measure_parts(Run& run);
bool may_need_retest(const Run& run);
// Measures slow parts again before a part is named.
void measure_again(Run& run);
// Adds the share of their time that ranks waited for processor cores, if something seems slow.
bool may_wait_for_cores(const Run& run);
void add_waiting_for_cores(Run& run);

// ---- acceptance.cpp: the tuning

std::string tuning_mode(const Options& options);
bool may_tune(const Run& run);

// ---- Measurements beside the plan that locate slow parts of the cluster. All ranks call them together.

// Share of the budget for retests, and the share for the measurement of parts.
inline constexpr double share_of_parts = 0.1;

// Measures cases of one backend without notifying observers; complete at the leader only.
std::vector<Measurement> measure_beside(ControlPlane& control, Backend& backend, const std::vector<Case>& cases,
                                        const RunnerOptions& options);

// A remark on single NICs that a backend beside the one under test measured, with its software: whether it measured
// them, and the first reason if not.
std::string remark_on_nics(const Environment& software, const std::vector<Measurement>& measured);

// Retest cases for suspects (known at the leader): the slow or silent pairs themselves, and each of their ranks paired
// with ranks that are not suspect, of silent ones these first. `known`: all cases that may be suspect, the same on all
// ranks. Empty without suspects.
std::vector<Case> cases_again(ControlPlane& control, const std::vector<reports::RetestCase>& to_retest,
                              const std::vector<Case>& known, const JobFacts& job);

}  // namespace p5
