#include "bench/app/run/phases.hpp"

#include <array>

#include <fmt/format.h>

#include "bench/base/console.hpp"

namespace p5 {

namespace {

struct RunPhase {
  const char* name;
  bool (*applies)(const Run& run);  // must return the same on all ranks
  void (*act)(Run& run);
  // Called when `act` failed; null: the run ends then.
  void (*on_failure)(Run& run, const RunPhase& phase, const Problem& problem) = nullptr;
};

bool always(const Run&) { return true; }
bool in_workers(const Run& run) { return run.machine.backend_info().ranks == BackendInfo::Ranks::workers; }
bool measures(const Run& run) { return run.options.command != "tune"; }
bool watches(const Run& run) { return run.case_monitor.has_value(); }

void remark(Run& run, const RunPhase& phase, const Problem& problem) {
  run.recorder.remark(fmt::format("{} failed: {}", phase.name, problem.what));
}

void disable_case_monitor(Run& run, const RunPhase& phase, const Problem& problem) {
  run.case_monitor.reset();
  remark(run, phase, problem);
}

// `tune` does nothing else, so its failure is also an error on the console.
void refuse_tuning(Run& run, const RunPhase&, const Problem& problem) {
  report_tuning_refused(run, problem.what);
  if (run.options.command != "tune") return;
  if (run.control.is_leader()) print_error(problem.what);
  // The command line was already accepted, so a usage error is the environment's here.
  run.code = problem.code == ExitCode::usage ? ExitCode::environment : problem.code;
}

// The barrier comes first: a report is complete only when no rank can be lost any more.
void finish(Run& run) {
  run.finishing = true;
  if (run.options.checks()) finish_check(run);
  run.control.barrier();
  run.code = run.recorder.finish(run.code);
  run.request.shutdown.set_final_exit_code(run.control.is_leader() ? run.code : ExitCode::ok);
}

constexpr std::array phases{
    RunPhase{"finding the machine", always, find_machine_and_plan},
    RunPhase{"opening the report", always, open_report},
    RunPhase{"reaching all hosts", in_workers, check_reachability_of_hosts, remark},
    RunPhase{"evaluating the machine", always, evaluate_machine},
    RunPhase{"watching GPUs and NICs", measures, start_watching, disable_case_monitor},
    RunPhase{"measuring", measures, measure},
    RunPhase{"checking each GPU alone", gpus_can_be_checked, check_gpus_alone, remark},
    RunPhase{"summing up what GPUs and NICs did", watches, report_watch_findings, remark},
    RunPhase{"measuring NICs and groups", parts_can_be_measured, measure_parts, remark},
    RunPhase{"measuring again what seemed slow or silent", may_need_retest, measure_again, remark},
    RunPhase{"reading what the library said", always, report_library_log, remark},
    RunPhase{"tuning", may_tune, tune_settings, refuse_tuning},
    RunPhase{"finishing", always, finish},
};

}  // namespace

// Each attempt ends when all ranks have finished it, so that no rank exits before the report is written: a launcher may
// end the job when the first rank exits.
ExitCode run_acceptance(ControlPlane& control, const Request& request) {
  Run run(control, request);
  request.shutdown.set_actions(actions_before_end(run));
  for (const RunPhase& phase : phases) {
    if (!phase.applies(run)) continue;
    run.phase = phase.name;
    run.control.begin_step(phase.name, longest_wait(run));
    std::optional<Problem> problem;
    try {
      problem = run.control.attempt([&] {
        if (request.fault_hooks.enter_phase) request.fault_hooks.enter_phase(phase.name, control.participant());
        phase.act(run);
      });
    } catch (const JobLost& lost) {
      if (!run.opened) throw;
      abort_job(run, lost);
    }
    if (!problem) continue;
    if (phase.on_failure) {
      phase.on_failure(run, phase, *problem);
      continue;
    }
    if (!run.opened) problem->raise();
    run.code = run.recorder.end_early(problem->what, problem->code);
    break;
  }
  request.shutdown.set_final_exit_code(control.is_leader() ? run.code : ExitCode::ok);
  return run.code;
}

std::vector<std::string> phases_of_run() {
  std::vector<std::string> names;
  for (const RunPhase& phase : phases) names.emplace_back(phase.name);
  return names;
}

}  // namespace p5
