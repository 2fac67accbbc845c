// The report of a run in progress: results of cases and launches, verdicts, findings. Writes and prints nothing.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/app/run/resuming.hpp"
#include "bench/measure/launches.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/options.hpp"
#include "reports/baseline.hpp"
#include "reports/judge.hpp"
#include "reports/nodes.hpp"
#include "reports/report.hpp"
#include "reports/suspects.hpp"
#include "topo/watch.hpp"

namespace p5 {

class ReportBuilder {
 public:
  // `report`: its state at the start of the run.
  ReportBuilder(const Options& options, reports::Report report);

  // Takes over the kept results of an earlier run; called before all others.
  void resume_from(const EarlierRun& earlier, const std::vector<KeptLine>& kept, std::size_t cases);
  // Sets limits and findings of the machine and if figures can be judged; called before the first case.
  void begin(topo::Limits limits, std::vector<topo::Finding> findings, reports::Comparability comparability);
  // What the traffic matrix of these cases asks of the machine, if they have one; after begin().
  void describe_traffic(std::span<const Case> cases);

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
  // Results of the checks of each rank's GPU alone.
  void add_local_checks(std::vector<LocalChecks> of_ranks);
  void add_gdr(std::vector<reports::GdrPath> paths);
  // Results of cases that the plan does not have, and the names of NICs as Case::nic counts them. Returns the journal's
  // lines.
  std::vector<reports::Result> add_unplanned(std::vector<std::vector<std::string>> nics_of_rank,
                                             const std::vector<Measurement>& measured);
  // Cases to measure again before a part is named, and their new results.
  std::vector<reports::RetestCase> to_retest();
  void add_retests(std::vector<Measurement> again) { retested_ = std::move(again); }
  // Observations: by_case[0] during the whole run, by_case[i + 1] during the case numbers[i], each by host.
  // `least_sent` as in topo::watch_findings.
  void add_watch(const std::vector<std::vector<topo::HostActivity>>& by_case, const std::vector<std::size_t>& numbers,
                 std::uint64_t least_sent);
  // Activity of each host's GPUs while each was checked alone.
  void add_local_activity(const std::vector<topo::HostActivity>& hosts);
  void add_tuning(reports::Tuning tuning) { report_.tuning = std::move(tuning); }
  // The reason not to tune after these results; "" if there is none.
  std::string reason_not_to_tune();

  // ---- the end

  // Marks unfinished cases as failed. Returns their lines for the journal.
  std::vector<reports::Result> fail_unfinished(const std::string& why);
  // Judges the run. `ended_by` is "" if the plan is done; otherwise `code` is merged into the exit code.
  void close(const std::string& ended_by, ExitCode code = ExitCode::unfinished);
  // Excludes results of an earlier run.
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

  reports::Result add(std::size_t number, const Measurement& m);
  void combine_launches();
  reports::Verdict judge(const Measurement& m) const;
  reports::ArmInfo* find_arm(const std::string& name);

  bool wants_verdict_;                   // the command judges if the machine is sound
  std::optional<int> planned_launches_;  // null: as many as the time allows
  reports::Report report_;
  std::vector<Measurement> retested_;  // used only to find suspects
  bool has_results_ = false;
  reports::Comparability fitness_;
  std::optional<Case> running_;
  RunProgress progress_;                           // the current or last repetition
  std::map<std::size_t, Measurement> unfinished_;  // by number: cases whose rounds are not all done
  std::map<std::size_t, Launches> launches_;
  std::map<std::pair<std::string, int>, std::string> launch_started_;  // UTC, by arm and launch
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace p5
