// The cases, and what is noticed beside them.
#include <exception>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "bench/app/machine/preflight.hpp"
#include "bench/app/run/phases.hpp"
#include "bench/measure/agreement.hpp"
#include "bench/measure/rendezvous.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/backends.hpp"
#include "reports/local_checks.hpp"
#include "reports/findings.hpp"

namespace p5 {

void start_watching(Run& run) { run.case_monitor.emplace(run.control, run.machine); }

void measure(Run& run) {
  Observer& observer = run.case_monitor ? run.case_monitor->around(run.recorder) : run.recorder;
  try {
    run_launches(run.control, run.arms.all, run.plan.cases, run.runner, observer);
  } catch (const JobLost&) {
    throw;
  } catch (const std::exception& problem) {
    // Others may wait for this rank in the operation under test, where nobody can tell them.
    if (run.machine.backend->recovers()) throw;
    const bool of_machine = dynamic_cast<const EnvironmentError*>(&problem) != nullptr;
    throw JobLost(problem.what(), of_machine ? ExitCode::environment : ExitCode::unfinished);
  }
}

void report_watch_findings(Run& run) { run.case_monitor->finish(run.control, run.machine, run.recorder); }

// In the workers that measured the last case; where that failed they are gone, and a GPU that hangs would hang again.
bool gpus_can_be_checked(const Run& run) {
  return (run.options.command == "run" || run.options.checks()) &&
         run.machine.backend_info().parts == BackendInfo::Parts::gpus && run.machine.why_not_judged.empty() &&
         run.arms.all.front().backend->joined();
}

// Nothing where all went well.
static std::optional<PhaseFailed> try_gpus_alone(Run& run, Backend& backend) {
  try {
    if (!backend.joined()) join_ranks(run.control, backend);
    std::vector<LocalChecks> of_ranks = check_locally(run.control, backend, run.options.burn);
    run.recorder.add([&](ReportBuilder& report) { report.add_local_checks(std::move(of_ranks)); });
    return std::nullopt;
  } catch (const PhaseFailed& failed) {
    backend.abandon();
    run.control.barrier();  // the processes of all ranks are gone before a new one starts
    return failed;
  }
}

// Others may use the node of a check at the same time. What failed once is tried again in fresh workers, and only what
// fails again at the same rank and within the time is a GPU's fault.
void check_gpus_alone(Run& run) {
  if (!all_have_time(run)) return;
  Backend& backend = *run.arms.all.front().backend;
  std::optional<PhaseFailed> first = try_gpus_alone(run, backend), problem = first;
  if (problem && run.options.checks()) {
    if (all_have_time(run)) problem = try_gpus_alone(run, backend);
    const bool again = problem && problem->rank == first->rank && all_have_time(run);
    const std::string what = first->rank ? fmt::format("rank {}: {}", *first->rank, first->what) : first->what;
    run.recorder.remark(fmt::format("GPUs alone {}: {}",
                                    !problem ? "were measured again, because it failed once"
                                    : again  ? "were measured twice"
                                             : "were not measured: the node was busy or one did not answer",
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
  std::vector<topo::Finding> told = library_log_findings(run.control, run.machine, run.arms.all);
  run.recorder.add([&](ReportBuilder& report) { report.add_findings(std::move(told)); });
}

}  // namespace p5
