// Keeps a run's report on disk during the run, so that every kind of end leaves a valid one, and shows its progress.
// The run does not wait for the disk before its end.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/app/run/run_folder.hpp"
#include "bench/measure/launches.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/options.hpp"
#include "reports/baseline.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/judge.hpp"
#include "reports/nodes.hpp"
#include "reports/other_programs.hpp"
#include "reports/report.hpp"
#include "reports/retests.hpp"
#include "reports/suspects.hpp"
#include "topo/watch.hpp"

namespace p5 {

// ---- The report of a run in progress: results of cases and launches, verdicts, findings. Writes and prints nothing.

class ReportBuilder {
 public:
  // `report`: its state at the start of the run.
  ReportBuilder(const Options& options, reports::Report report);

  // Takes over the kept results of an earlier run; called before all others.
  void resume_from(const EarlierRun& earlier, const std::vector<KeptLine>& kept, std::size_t cases);
  // Sets limits and findings of the machine and if figures can be judged; called before the first case.
  void begin(topo::Limits limits, std::vector<topo::Finding> findings, reports::Comparability comparability);
  // The cases of each arm. Records the load that their traffic matrix puts on the machine, if they have one; after
  // begin().
  void set_plan(std::span<const Case> cases);

  // ---- the Observer's events

  void repetition_started(const Case& c, const RunProgress& standing);
  void repetition_finished(const Measurement& so_far);
  // Returns the line for the journal.
  reports::Result case_finished(const Measurement& m);
  void launch_started(const Arm& arm, const std::vector<Environment>& of_ranks);
  void launch_failed(const Arm& arm, const std::string& why);

  // ---- other observations

  void remark(const std::string& text) { report_.run.remarks.push_back(text); }
  void add_findings(std::vector<topo::Finding> findings);
  // The findings about GPUs that are slower than the others, alone or under load, if these are the ranks' results.
  std::vector<topo::Finding> slow_gpus(const std::vector<LocalChecks>& of_ranks) const;
  // Other programs on the GPUs of ranks, by host, as reports::add_programs_that_came() takes them. Where some came,
  // figures are not judged, those so far neither.
  void add_programs(const std::vector<std::vector<reports::ProgramsOnGpu>>& by_host);
  // Results of the checks of each rank's GPU alone.
  void add_local_checks(std::vector<LocalChecks> of_ranks);
  void add_gdr(std::vector<reports::GdrPath> paths);
  // Results of cases that the plan does not have, and the names of NICs as Case::nic counts them. Returns the journal's
  // lines.
  std::vector<reports::Result> add_unplanned(std::vector<std::vector<std::string>> nics_of_rank,
                                             const std::vector<Measurement>& measured);
  // Cases to measure again before a part is named, and their new results.
  std::vector<reports::RetestCase> to_retest();
  void add_retests(std::vector<Measurement> again) { std::ranges::move(again, std::back_inserter(retested_)); }
  // The suspects by all results so far, as they are in the report then.
  const std::vector<reports::Suspect>& diagnose();
  // True if a measurement is slow, or diagnose() suspects a part of being slow, or one of several.
  bool seems_slow();
  // Observations: by_case[0] during the whole run, by_case[i + 1] during the case numbers[i], each by host.
  // `least_sent` as in topo::watch_findings.
  // `shares`: of each rank, as Backend::share_of_waiting().
  void add_waiting(const std::vector<std::optional<double>>& shares);
  void add_watch(const std::vector<std::vector<topo::HostActivity>>& by_case, const std::vector<std::size_t>& numbers,
                 std::uint64_t least_sent);
  // Activity of each host's GPUs while each was checked alone, and under load.
  void add_local_activity(const std::vector<topo::HostActivity>& alone, const std::vector<topo::HostActivity>& loaded);
  void add_tuning(reports::Tuning tuning) {
    std::ranges::copy(earlier_failures_, std::back_inserter(tuning.failures));
    report_.tuning = std::move(tuning);
  }
  // The reason not to tune after these results; "" if there is none.
  std::string reason_not_to_tune();

  // ---- the end

  // Marks unfinished cases as failed. Returns their lines for the journal.
  std::vector<reports::Result> fail_unfinished(const std::string& why);
  // Judges the run. `ended_by` is "" if the plan is done; otherwise `code` is merged into the exit code.
  void close(const std::string& ended_by, ExitCode code = ExitCode::unfinished);
  // Includes results of an earlier run, from begin() on.
  bool has_results() const { return has_results_; }
  // Data that only the HTML page shows.
  void add_samples(const std::vector<reports::Result>& journal) { reports::add_samples(journal, report_); }
  void add_baseline(const reports::Side& baseline) { reports::add_baseline(baseline, report_); }
  // Makes a report partial although its plan is done: not all that a run leaves could be written.
  void end_incomplete(const std::string& why);
  // Merges `code` into the report's exit code.
  void add_exit_code(ExitCode code);
  // Merges the result of the comparison with a baseline, which can judge runs that have no limits.
  void apply_baseline_exit_code(ExitCode code);
  // The answer of a comparison, for the decision; "" keeps what there is.
  void add_comparison(const std::string& headline);
  // Derives the exit code of a check from the verdicts of its nodes.
  void apply_check_exit_code();

  // The current report; several launches are combined.
  const reports::Report& report();
  // Each launch of each case, in a run with arms.
  std::vector<reports::Result> launches() const;

 private:
  // A case's index in the results, and for several launches their results; `all` only if arms are compared.
  struct Launches {
    std::size_t at = 0;
    CombinedLaunches together;
    std::vector<Measurement> all;
    bool combined = true;  // the result includes all launches
  };

  // Returns the line for the journal. `interrupted`: the end of the run interrupted this one of several launches,
  // without wrong data until then. It is no failure of the case, whose result is that of its other launches.
  reports::Result add(std::size_t number, const Measurement& m, bool interrupted = false);
  void combine_launches();
  void remark_on_unmeasured();
  reports::Verdict judge(const Measurement& m) const;
  reports::ArmInfo* find_arm(const std::string& name);

  bool wants_verdict_;                   // the command judges if the machine is sound
  bool only_tunes_;                      // the command measures nothing but settings
  std::optional<int> planned_launches_;  // null: as many as the time allows
  std::vector<std::string> planned_;     // collectives of an arm's cases
  reports::Report report_;
  reports::WaitingOfNode waiting_;
  std::map<int, std::vector<std::string>> slow_while_waiting_;  // as in reports::Diagnosis, of the last one
  std::vector<Measurement> retested_;                           // used only to find suspects
  bool has_results_ = false;
  std::vector<reports::TuningFailure> earlier_failures_;  // wrong data with NCCL's own settings, as the next
  std::vector<topo::Finding> earlier_findings_;  // of the run that this one continues, which may not be found again
  reports::Comparability fitness_;
  std::optional<Case> running_;
  RunProgress progress_;                           // the current or last repetition
  std::map<std::size_t, Measurement> unfinished_;  // by number: cases whose rounds are not all done
  std::map<std::size_t, Launches> launches_;
  std::map<std::pair<std::string, int>, std::string> launch_started_;  // UTC, by arm and launch
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

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

  // Makes OUT/CLUSTER/latest lead to this run, once all that is known so far is on the disk.
  void become_latest();

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
  // Returns when the file is on disk, but for a check, which does not wait for it. Throws EnvironmentError; the caller
  // decides if that ends the run.
  void add_file(const std::string& name, const std::string& text);

  // ---- the end

  // Ends a run whose plan is done. `code` is merged with the report's exit code. Returns the exit code, also in the
  // report. If the report cannot be written, the console has all of it and the run is unfinished.
  ExitCode finish(ExitCode code);
  // Ends the run now: unfinished cases fail, unless the run had ended already. Returns the exit code, that of the
  // report on disk: `code` unless the results are worse or a file cannot be written. Safe from any thread; does not
  // throw.
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
    std::string lost_on_disk{};  // the first error of the disk in a check, which goes on; "": none

    void on_disk(const std::function<void()>& action);
    void throw_lost_on_disk() const;
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
