#include "bench/app/run/acceptance.hpp"

#include <array>

#include <fmt/format.h>

#include "bench/app/run/phases.hpp"
#include "bench/base/console.hpp"

namespace p5 {

namespace {

struct RunPhase {
  const char* name;
  bool (*applies)(const Run& run);  // the same on all ranks
  void (*act)(Run& run);
  // What is told instead where it could not be done; null: there is no run without it.
  void (*do_without)(Run& run, const RunPhase& phase, const Problem& problem) = nullptr;
};

bool always(const Run&) { return true; }
bool in_workers(const Run& run) { return run.machine.backend_info().ranks == BackendInfo::Ranks::workers; }
bool measures(const Run& run) { return run.options.command != "tune"; }
bool watches(const Run& run) { return run.case_monitor.has_value(); }

void remark(Run& run, const RunPhase& phase, const Problem& problem) {
  run.recorder.remark(fmt::format("{} failed: {}", phase.name, problem.what));
}

void watch_nothing(Run& run, const RunPhase& phase, const Problem& problem) {
  run.case_monitor.reset();
  remark(run, phase, problem);
}

// Who asked for nothing else is told so.
void refuse_tuning(Run& run, const RunPhase&, const Problem& problem) {
  report_tuning_refused(run, problem.what);
  if (run.options.command != "tune") return;
  if (run.control.is_leader()) print_error(problem.what);
  // The command line was right when the tuning began.
  run.code = problem.code == ExitCode::usage ? ExitCode::environment : problem.code;
}

// A report is complete when no rank is lost any more.
void finish(Run& run) {
  run.finishing = true;
  if (run.options.checks()) sum_up_check(run);
  run.control.barrier();
  run.code = run.recorder.finish(run.code);
}

constexpr std::array phases{
    RunPhase{"finding the machine", always, find_machine_and_plan},
    RunPhase{"opening the report", always, open_report},
    RunPhase{"reaching all hosts", in_workers, check_reachability_of_hosts, remark},
    RunPhase{"evaluating the machine", always, evaluate_machine},
    RunPhase{"watching GPUs and NICs", measures, start_watching, watch_nothing},
    RunPhase{"measuring", measures, measure},
    RunPhase{"checking each GPU alone", gpus_can_be_checked, check_gpus_alone, remark},
    RunPhase{"summing up what GPUs and NICs did", watches, report_watch_findings, remark},
    RunPhase{"measuring NICs and groups", parts_can_be_measured, measure_parts, remark},
    RunPhase{"measuring again what seemed slow", may_need_retest, measure_again, remark},
    RunPhase{"reading what the library said", always, report_library_log, remark},
    RunPhase{"tuning", may_tune, tune_settings, refuse_tuning},
    RunPhase{"finishing", always, finish},
};

}  // namespace

// Each attempt ends when all ranks have come to its end, so that nobody leaves before the report is written: a launcher
// may end the job when the first rank goes.
ExitCode run_acceptance(ControlPlane& control, const Request& request) {
  Run run(control, request);
  if (request.wall_limit) watch_wall_limit(run);
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
    if (phase.do_without) {
      phase.do_without(run, phase, *problem);
      continue;
    }
    if (!run.opened) problem->raise();
    run.code = run.recorder.end_early(problem->what, problem->code);
    break;
  }
  request.signals.ends_with(control.is_leader() ? run.code : ExitCode::ok);
  return run.code;
}

std::vector<std::string> phases_of_run() {
  std::vector<std::string> names;
  for (const RunPhase& phase : phases) names.emplace_back(phase.name);
  return names;
}

}  // namespace p5
