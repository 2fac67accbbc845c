// The phases that measure and tune: the cases, each GPU alone, and the tuning.
#include <fmt/format.h>
#include <exception>
#include <optional>
#include <vector>

#include "bench/app/machine/preflight.hpp"
#include "bench/app/run/phases.hpp"
#include "bench/app/tuning/inputs.hpp"
#include "bench/app/tuning/tuning.hpp"
#include "bench/measure/rendezvous.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/agreement.hpp"
#include "bench/model/backends.hpp"
#include "reports/findings.hpp"
#include "reports/local_checks.hpp"

namespace p5 {

void start_watching(Run& run) { run.case_monitor.emplace(run.control, run.machine); }

void measure(Run& run) {
  Observer& observer = run.case_monitor ? run.case_monitor->around(run.recorder) : run.recorder;
  try {
    run_launches(run.control, run.arms.all, run.plan.cases, run.runner, observer);
  } catch (const JobLost&) {
    throw;
  } catch (const std::exception& problem) {
    // Other ranks may wait for this one in the operation under test, where no message reaches them.
    if (run.machine.backend->recovers()) throw;
    const bool of_machine = dynamic_cast<const EnvironmentError*>(&problem) != nullptr;
    throw JobLost(problem.what(), of_machine ? ExitCode::environment : ExitCode::unfinished);
  }
}

void report_watch_findings(Run& run) { run.case_monitor->finish(run.control, run.machine, run.recorder); }

// The checks run in the workers that measured the last case. If that case failed they are gone, and a hung GPU would
// hang again.
bool gpus_can_be_checked(const Run& run) {
  return (run.options.command == "run" || run.options.checks()) &&
         run.machine.backend_info().parts == BackendInfo::Parts::gpus && run.machine.why_not_judged.empty() &&
         run.arms.all.front().backend->joined();
}

// Returns the failure, if any.
static std::optional<PhaseFailed> try_gpus_alone(Run& run, Backend& backend) {
  try {
    if (!backend.joined()) join_ranks(run.control, backend);
    const Seconds from = run.case_monitor ? run.case_monitor->now() : Seconds{0};
    std::vector<LocalChecks> of_ranks = check_locally(run.control, backend, run.options.burn);
    if (run.case_monitor) run.case_monitor->checked_alone(from, run.case_monitor->now());
    run.recorder.add([&](ReportBuilder& report) { report.add_local_checks(std::move(of_ranks)); });
    return std::nullopt;
  } catch (const PhaseFailed& failed) {
    backend.abandon();
    run.control.barrier();  // all ranks' workers have ended before new ones start
    return failed;
  }
}

// Other jobs may use the node of a check at the same time. A failed check is therefore repeated in fresh workers, and
// only a second failure at the same rank within the time is the GPU's fault. A burn is not repeated: failures in it are
// what it is for.
void check_gpus_alone(Run& run) {
  if (!agree_on_time_left(run)) return;
  if (run.options.deadline) run.options.deadline = later(*run.options.deadline, run.options.burn);
  Backend& backend = *run.arms.all.front().backend;
  std::optional<PhaseFailed> first = try_gpus_alone(run, backend), problem = first;
  if (problem && run.options.checks() && run.options.burn.count == 0) {
    if (agree_on_time_left(run)) problem = try_gpus_alone(run, backend);
    const bool again = problem && problem->rank == first->rank && agree_on_time_left(run);
    const std::string what = first->rank ? fmt::format("rank {}: {}", *first->rank, first->what) : first->what;
    run.recorder.remark(fmt::format("the check of each GPU alone {}: {}",
                                    !problem ? "failed once and passed when it was repeated"
                                    : again  ? "failed twice"
                                             : "failed, because the node was busy or a GPU did not answer",
                                    what));
    if (!again) return;
  }
  if (problem) {
    const PhaseFailed& failed = *problem;
    const std::string rank = failed.rank ? fmt::format("rank {}: ", *failed.rank) : "";
    const topo::Finding finding{std::string(reports::check_failed),
                                topo::Severity::error,
                                {},
                                rank + failed.what,
                                "run again with --collectives p2p; if it comes again, replace that GPU's host",
                                topo::About::hardware};
    run.recorder.add([&](ReportBuilder& report) { report.add_findings({finding}); });
  }
}

void report_library_log(Run& run) {
  std::vector<topo::Finding> findings = library_log_findings(run.control, run.machine, run.arms.all);
  run.recorder.add([&](ReportBuilder& report) { report.add_findings(std::move(findings)); });
}

namespace {

std::string reason_not_to_tune(Run& run) {
  return from_leader(run.control, [&] {
    const std::string& shared = run.machine.why_not_judged;
    if (!run.runner.skip_all_because.empty()) return run.runner.skip_all_because;
    if (!shared.empty()) return shared + ": their times say nothing about settings";
    std::string reason;
    run.recorder.add([&](ReportBuilder& report) { reason = report.reason_not_to_tune(); });
    return reason;
  });
}

}  // namespace

std::string tuning_mode(const Options& options) {
  if (!options.tune.empty()) return options.tune;
  if (options.command == "tune") return "full";
  return options.beside.empty() && options.job.empty() ? "quick" : "off";
}

bool may_tune(const Run& run) {
  return tuning_mode(run.options) != "off" && run.machine.backend_info().tunable && run.options.command != "ab";
}

void tune_settings(Run& run) {
  // Launches of a soak have a budget each, and so does its tuning.
  const double spent = run.options.soak.count > 0 ? 0 : since(run.start).count;
  const Seconds time_left{run.options.budget.count * (1 - finishing_share) - spent};
  if (const std::string reason = reason_not_to_tune(run); !reason.empty()) return report_tuning_refused(run, reason);
  TuningJob job{.mode = tuning_mode(run.options),
                .seed = run.seed,
                .runner = run.runner,
                .weights = run.weights,
                .kept = run.kept_tables,
                .time_left = time_left,
                .cluster = run.cluster,
                .folder = {}};
  if (run.control.is_leader()) job.folder = std::filesystem::absolute(run.folder).string();
  Options options = run.options;
  if (!options.job.empty()) {
    job.step = run.plan.cases.front();
    JobToTune wanted = job_to_tune(options, *job.step->replay, job_facts(run.machine, run.seed).placement());
    options = std::move(wanted.options);
    job.weights = std::move(wanted.weights);
    job.remarks = std::move(wanted.remarks);
  }
  reports::Tuning tuned = tune(run.control, options, run.machine, job);
  run.recorder.add([&](ReportBuilder& report) { report.add_tuning(std::move(tuned)); });
}

void report_tuning_refused(Run& run, const std::string& because) {
  reports::Tuning refused;
  refused.mode = tuning_mode(run.options);
  refused.outcome = "refused";
  refused.because = because;
  run.recorder.add([&](ReportBuilder& report) { report.add_tuning(std::move(refused)); });
}

}  // namespace p5
