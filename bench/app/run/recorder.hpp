// Keeps a run's report on disk during the run, so that every kind of end leaves a valid one, and shows its progress.
// The run does not wait for the disk before its end.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bench/app/run/report_builder.hpp"
#include "bench/app/run/run_folder.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/options.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/report.hpp"

namespace p5 {

// The progress line on a terminal: how far the run is, and the worst result so far.
class ProgressLine {
 public:
  // Shows nothing unless `wanted` and stderr is a terminal.
  explicit ProgressLine(bool wanted);

  // Shows the repetition that starts, at most five times a second.
  void show(const Case& c, const RunProgress& standing);
  // Updates the worst result.
  void finished(const reports::Result& result);
  void clear();

 private:
  void print(const std::string& line);

  bool visible_;
  int columns_ = 0;  // terminal width; 0: unknown
  std::string worst_;
  double how_bad_ = 0;  // badness of `worst_`; 0: nothing judged
  std::chrono::steady_clock::time_point shown_{};
};

// Does nothing until opened; only the leader opens it.
//
// The threads that handle signals and hangs call it while a case runs. Its parts are not thread-safe: every access goes
// through with_parts(), which holds the lock and does nothing after the end.
//
// If the folder cannot be written any more, the calls that report progress throw: EnvironmentError before the first
// result, JobLost after it.
class Recorder final : public Observer {
 public:
  // Creates OUT/CLUSTER/STAMP, or nothing if OUT is "", and returns its path. Throws UsageError if it cannot be
  // written. `baseline`: compared with the run at its end.
  const std::filesystem::path& open(const Options& options, reports::Report report,
                                    std::optional<reports::Side> baseline);

  // ---- during the run; the report is written at intervals

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
  // Any other change to the report.
  void add(const std::function<void(ReportBuilder&)>& what);
  void write_report();
  // Results measured beside the plan, and the names of NICs as Case::nic counts them.
  void add_unplanned(const std::vector<std::vector<std::string>>& nics_of_rank,
                     const std::vector<Measurement>& measured);
  // Returns when the file is on disk. Throws EnvironmentError; the caller decides if that ends the run.
  void add_file(const std::string& name, const std::string& text);

  // ---- the end

  // Ends a run whose plan is done. `code` is merged with the report's exit code. Returns the exit code, also in the
  // report. If the report cannot be written, the console has all of it and the run is unfinished.
  ExitCode finish(ExitCode code);
  // Ends the run now: unfinished cases fail, unless the run had ended already. Returns the exit code: `code` unless the
  // results are worse. Safe from any thread; does not throw.
  ExitCode end_early(const std::string& why, ExitCode code = ExitCode::unfinished);
  // True after finish().
  bool finished() const;

 private:
  struct Parts {
    Options options;
    std::optional<reports::Side> baseline;
    RunFolder folder;
    ReportBuilder builder;
    ProgressLine progress;
    double writing_s = 0;  // duration of the last write of the report
    std::chrono::steady_clock::time_point written{};

    // Writes report.json and these formats.
    void write(const std::vector<std::string>& formats = {});
    void write_handover_files();
    void add_samples();
  };
  void with_parts(const std::function<void(Parts&)>& action);
  void on_disk(const std::function<void(Parts&)>& action);

  mutable std::mutex mutex_;
  std::optional<Parts> parts_;
  std::optional<ExitCode> ended_with_;
  std::atomic<bool> finished_{false};
};

}  // namespace p5
