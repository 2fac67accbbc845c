// Keeps a run's report on disk while the run goes on, so that whatever ends it leaves a valid one. Nothing of the run
// waits for the disk before the end.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bench/app/run/progress_line.hpp"
#include "bench/app/run/report_builder.hpp"
#include "bench/app/run/run_folder.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/options.hpp"
#include "reports/compare/comparison.hpp"

namespace p5 {

// The leader opens its own; elsewhere, and until then, a Recorder does nothing.
//
// The thread that notices a signal or a hang comes in while a case runs. What a Recorder is made of knows nothing of
// threads: whatever happens to it happens in with_parts(), under the one lock, and nothing does after the end.
//
// Where the folder cannot be written any more, what is told of the run's course throws: EnvironmentError before the
// first result, and JobLost after it.
class Recorder final : public Observer {
 public:
  // Makes OUT/CLUSTER/STAMP, or nothing where OUT is "". Throws UsageError when that cannot be written. `baseline`:
  // what the run is compared with in the end. Returns the folder.
  const std::filesystem::path& open(const Options& options, reports::Report report,
                                    std::optional<reports::Side> baseline);

  // ---- to the report, which is written now and then

  void repetition_started(const Case& c, const RunProgress& standing) override;
  void repetition_finished(const Measurement& so_far, bool /*failed*/) override {
    add([&](ReportBuilder& report) { report.repetition_finished(so_far); });
  }
  void case_finished(const Measurement& m, bool failed) override;
  void launch_started(const Arm& arm, const std::vector<Environment>& of_ranks) override {
    add([&](ReportBuilder& report) { report.launch_started(arm, of_ranks); });
  }
  void launch_failed(const Arm& arm, const std::string& why) override {
    add([&](ReportBuilder& report) { report.launch_failed(arm, why); });
  }
  void joining_failed(const JoinFailure& failure) override;
  void remark(const std::string& text) override {
    add([&](ReportBuilder& report) { report.remark(text); });
  }
  // Whatever else is noticed.
  void add(const std::function<void(ReportBuilder&)>& what);
  void write_report();
  // What was measured beside the plan, and the names of NICs as Case::nic counts them.
  void add_beside(const std::vector<std::vector<std::string>>& nics_of_rank, const std::vector<Measurement>& measured);
  // Is on disk afterwards. Throws EnvironmentError: whether the run can do without is the caller's to say.
  void add_file(const std::string& name, const std::string& text);

  // ---- the end

  // The plan was run to its end. `code` counts beside what the report says. Returns the exit code, which the report has
  // too; where it could not be written the console has it all, and the run is unfinished.
  ExitCode finish(ExitCode code);
  // Something ends the run now; the cases that were not finished failed of it, unless it was at its end already.
  // Returns the exit code, which is `code` unless what was measured is worse. Safe from any thread, throws nothing.
  ExitCode end_early(const std::string& why, ExitCode code = ExitCode::unfinished);
  // Not early.
  bool came_to_its_end() const;

 private:
  struct Parts {
    Options options;
    std::optional<reports::Side> baseline;
    RunFolder folder;
    ReportBuilder builder;
    ProgressLine progress;
    double writing_s = 0;  // of the last report
    std::chrono::steady_clock::time_point written{};

    // report.json, and these formats.
    void write(const std::vector<std::string>& formats = {});
    void write_for_others();
    void add_samples();
  };
  void with_parts(const std::function<void(Parts&)>& action);
  void on_disk(const std::function<void(Parts&)>& action);

  mutable std::mutex mutex_;
  std::optional<Parts> parts_;
  std::optional<ExitCode> ended_with_;
  std::atomic<bool> came_to_its_end_{false};
};

}  // namespace p5
