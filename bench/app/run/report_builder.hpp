// What a run has come to so far, as its report: results of cases and launches, their verdicts, findings. Writes nothing
// and prints nothing.
#pragma once

#include <chrono>
#include <map>
#include <optional>
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
  // `report`: as the run begins it.
  ReportBuilder(const Options& options, reports::Report report);

  // First of all: this run goes on with an earlier one, whose results stand.
  void go_on(const EarlierRun& earlier, const std::vector<KeptLine>& kept, std::size_t cases);
  // What the machine is, before the first case: limits, findings and whether figures can be judged.
  void begin(topo::Limits limits, std::vector<topo::Finding> findings, reports::Comparability fitness);

  // ---- as an Observer is told

  void repetition_started(const Case& c, const RunProgress& standing);
  void repetition_finished(const Measurement& so_far);
  // Returns the journal's line.
  reports::Result case_finished(const Measurement& m);
  void launch_started(const Arm& arm, const std::vector<Environment>& of_ranks);
  void launch_failed(const Arm& arm, const std::string& why);

  // ---- what else is noticed

  void remark(const std::string& text) { report_.run.remarks.push_back(text); }
  void add_findings(std::vector<topo::Finding> findings);
  // What the GPU of each rank did alone.
  void add_local_checks(std::vector<LocalChecks> of_ranks);
  // What was measured beside the plan, and the names of NICs as Case::nic counts them. Returns the journal's lines.
  std::vector<reports::Result> add_beside(std::vector<std::vector<std::string>> nics_of_rank,
                                          const std::vector<Measurement>& measured);
  // What should be measured again before anybody is named; and what it came to then.
  std::vector<reports::RetestCase> to_retest();
  void add_again(std::vector<Measurement> again) { again_ = std::move(again); }
  // What was seen while cases ran, by case and host: the whole first, then the cases of these numbers. `least_sent` as
  // in topo::watch_findings.
  void add_watch(const std::vector<std::vector<topo::HostActivity>>& by_case, const std::vector<std::size_t>& numbers,
                 std::uint64_t least_sent);
  void add_tuning(reports::Tuning tuning) { report_.tuning = std::move(tuning); }
  // Why nothing should be tuned after what was measured: "" when all is well.
  std::string reason_not_to_tune();

  // ---- the end

  // The cases that were not finished failed of it. Returns their journal's lines.
  std::vector<reports::Result> fail_unfinished(const std::string& why);
  // Judges the whole. `ended_by` is "" where the plan was run to its end; else `code` counts too.
  void close(const std::string& ended_by, ExitCode code = ExitCode::unfinished);
  // Of this run, not of one that it goes on with.
  bool has_results() const { return has_results_; }
  // What the page shows beside the figures.
  void add_samples(const std::vector<reports::Result>& journal) { reports::add_samples(journal, report_); }
  void add_baseline(const reports::Side& baseline) { reports::add_baseline(baseline, report_); }
  // Beside what the report says, this counts for the exit code.
  void count(ExitCode code);
  // The same of a comparison with a baseline, which also judges what nothing else does.
  void count_baseline(ExitCode code);
  // The verdicts of the nodes decide how a check ends.
  void count_as_check();

  // As it stands: of several launches, what they come to together.
  const reports::Report& report();
  // Each launch of each case, in a run with arms.
  std::vector<reports::Result> launches() const;

 private:
  // Of each case by its number: where its result is, and, of several launches, what they measured; where arms are to
  // be compared, each of them.
  struct Launches {
    std::size_t at = 0;
    CombinedLaunches together;
    std::vector<Measurement> all;
    bool combined = true;  // the result is that of all of them
  };

  reports::Result add(std::size_t number, const Measurement& m);
  void combine_launches();
  reports::Verdict judge(const Measurement& m) const;
  reports::ArmInfo* find_arm(const std::string& name);

  bool wants_verdict_;                   // of the command: is the machine sound?
  std::optional<int> planned_launches_;  // null: as many as fit
  reports::Report report_;
  std::vector<Measurement> again_;  // only for the suspects
  bool has_results_ = false;
  reports::Comparability fitness_;
  std::optional<Case> running_;
  RunProgress standing_;                      // of the repetition that runs or ran last
  std::map<std::size_t, Measurement> begun_;  // by number: cases of which not all rounds are done
  std::map<std::size_t, Launches> launches_;
  std::map<std::pair<std::string, int>, std::string> launch_started_;  // by arm and launch: when, in UTC
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace p5
