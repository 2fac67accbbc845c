// Tuning after a run's cases, or instead of them: only where there is something to tune, and only what is sound.
#include "bench/app/machine/leader.hpp"
#include "bench/app/run/phases.hpp"
#include "bench/app/tuning/tuning.hpp"
#include "bench/model/backends.hpp"

namespace p5 {

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
  return options.command == "tune" ? "full" : "quick";
}

bool may_tune(const Run& run) {
  return tuning_mode(run.options) != "off" && run.machine.backend_info().tunable && run.options.command != "ab";
}

void tune_settings(Run& run) {
  // A soak's launches have a budget each, and so has its tuning.
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
  reports::Tuning tuned = tune(run.control, run.options, run.machine, job);
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
