// Keeps a run's report on disk while the run goes on, so that whatever ends it leaves a valid one. At the leader only.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "bench/app/run/resuming.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/options.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/judge.hpp"
#include "reports/report.hpp"
#include "topo/watch.hpp"

namespace p5 {

// Where a rank that cannot go on leaves word for the leader, on a shared file system.
std::filesystem::path note_of_rank(const std::filesystem::path& folder, int rank);

class Recorder final : public Observer {
 public:
  // Makes OUT/CLUSTER/STAMP. Throws UsageError when that cannot be written. `baseline`: what the run is compared with
  // in the end.
  Recorder(const Options& options, reports::Report report, std::optional<reports::Side> baseline = {});

  const std::filesystem::path& folder() const { return folder_; }

  // First of all: this run goes on with an earlier one, whose results stand.
  void go_on(const EarlierRun& earlier, Kept kept);
  // What the machine is, before the first case: limits, findings and whether figures can be judged. Writes the first
  // report.
  void begin(topo::Limits limits, std::vector<topo::Finding> findings, reports::Fitness fitness);
  void add_file(const std::string& name, const std::string& text) const;

  void visit_started(const Case& c, const Standing& standing) override;
  void visit_finished(const Measurement& so_far, bool failed) override;
  void case_finished(const Measurement& m, bool failed) override;
  void launch_started(const Arm& arm, const std::vector<Backend::Variables>& of_ranks) override;
  void launch_failed(const Arm& arm, const std::string& why) override;
  void joining_failed(const JoinFailure& failure) override;
  void remark(const std::string& text) override;

  // Why nothing should be tuned after what was measured: "" when all is well.
  std::string reason_not_to_tune();
  void add_tuning(reports::Tuning tuning);
  // What the GPU of each rank did alone.
  void add_local_checks(std::vector<LocalFigures> of_ranks);
  // What was noticed later than before the first case.
  void add_findings(std::vector<topo::Finding> findings);

  // What was seen while cases ran, by case and host: the whole first, then each case in the order in which they
  // were first finished. `least_sent` as in topo::watch_findings.
  void add_watch(const std::vector<std::vector<topo::During>>& by_case, std::uint64_t least_sent);

  // The plan was run to its end. Returns the exit code.
  ExitCode finish();
  // Something ends the run now; the cases that were not finished failed of it. Safe from any thread, and after finish()
  // without effect.
  void end_early(const std::string& why);

 private:
  void write_reports(bool pages);
  std::string compare_and_write();
  std::string compare_with_baseline();
  void write_beside(const reports::Comparison& comparison) const;
  std::string closing_text(const std::string& comparison) const;
  void add(std::size_t number, const Measurement& m);
  void combine_launches();
  void look_at_launches();
  reports::Verdict judge(const Measurement& m) const;
  reports::ArmInfo* find_arm(const std::string& name);
  void close_run(const std::string& ended_by);
  void show_progress(const std::string& line);

  Options options_;
  std::optional<reports::Side> baseline_;
  std::filesystem::path folder_;
  std::mutex mutex_;  // the thread that notices a signal or a hang comes in while a case runs
  reports::Report report_;
  std::size_t kept_ = 0;  // results of an earlier run, before those of this one
  reports::Fitness fitness_;
  std::optional<Case> running_;
  Standing standing_;                         // of the visit that runs or ran last
  std::map<std::size_t, Measurement> begun_;  // by number: cases of which not all rounds are done
  // Of each case by its number: where its result is, and, of several launches, what they measured.
  struct Launches {
    std::size_t at = 0;
    std::vector<Measurement> all;
    bool combined = true;  // the result is that of all of them
  };
  std::map<std::size_t, Launches> launches_;
  std::map<std::pair<std::string, int>, std::string> launch_started_;  // by arm and launch: when, in UTC
  double writing_s_ = 0;                                               // of the last report
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point written_{}, shown_{};
  bool terminal_ = false, ended_ = false;
};

}  // namespace p5
