// The tuning phase of a run: the tuner decides at the leader, all ranks measure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/app/machine/machine.hpp"
#include "bench/app/run/shutdown.hpp"
#include "bench/app/tuning/limits.hpp"
#include "bench/app/tuning/stages.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/case.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/job.hpp"
#include "bench/model/options.hpp"
#include "reports/report.hpp"
#include "tuner/arms.hpp"
#include "tuner/confirm.hpp"
#include "tuner/files.hpp"
#include "tuner/table.hpp"

namespace p5 {

// Types of what is searched: of reductions, and of collectives that only move data, for which NCCL knows bytes alone.
struct SearchedTypes {
  DataType reduced = DataType::float32, moved = DataType::float32;
};

struct TuningJob {
  TemporaryFolders& temporary;  // of the process
  std::string mode;             // quick, full
  std::uint64_t seed = 0;
  RunnerOptions runner;
  std::vector<tuner::Weight> weights;
  tuner::KeptTables kept;         // at the leader
  Seconds time_left;              // budget left
  std::string cluster, folder;    // at the leader: name in the files, and their folder
  std::optional<Case> step = {};  // of a job (--job), whose time decides about all settings
  SearchedTypes types = {};
  std::vector<std::string> remarks = {};
};

// Collective. Writes the files to the folder, on all hosts if they set anything. The result is complete at the leader
// only. The machine's backend has no workers afterwards.
reports::Tuning tune(ControlPlane& control, const Options& options, const Machine& machine, const TuningJob& job);

// ---- Inputs of a tuning: the files that the user names, and the collectives, sizes and groups to tune.

// Reads --weights at the leader. Throws UsageError on all ranks.
std::vector<tuner::Weight> read_weights(ControlPlane& control, const Options& options);

// Reads --keep-table; empty except at the leader. Throws UsageError on all ranks.
tuner::KeptTables read_kept_tables(ControlPlane& control, const Options& options);

// Names and values that the files list under "Valid for:": the software of the machine, its type, versions of the
// hosts' drivers and network libraries, and a --group other than all ranks.
std::vector<std::pair<std::string, std::string>> conditions_of_validity(
    const std::map<std::string, std::string>& software, const topo::Topology& topology, const std::string& group);

// The files and variables that decide how NCCL runs a call, and must be equal on all ranks: its configuration file, the
// tuner's table and library, each with its hash, and what our plugin reads besides. `tunes`: a tuner will be loaded.
Environment what_decides_calls(const Environment& of_worker, bool tunes);

// Collective; the first difference of that between the ranks' workers, of any arm, with which ranks would choose
// differently and hang; "" without one.
std::string difference_of_tuning_files(ControlPlane& control, const Options& options, bool tunes);

// Throws EnvironmentError on all ranks if there is one. A tuner that the tuning by default would load is left to
// tune_settings(): the rest of the run loads none.
void refuse_differing_tuning_files(ControlPlane& control, const Options& options);

// Targets of a tuning for a job's step: the collectives and sizes of the groups that move most bytes, of those that
// have a name for --group, with the share of each.
struct JobToTune {
  Options options;
  std::vector<tuner::Weight> weights;
  SearchedTypes types = {};               // the job's smallest, so that its sizes are whole ones
  std::vector<std::string> remarks = {};  // groups that are left out
};
JobToTune job_to_tune(const Options& options, const Replay& replay, const Placement& placement);

// The job's collectives for which NCCL queries tuners; for a full tuning without --collectives, all of them.
std::vector<std::string> tunable(const Options& options, const std::string& mode);

// The job's collectives, without --collectives `usual`, that variables and call modes are tried with: operations of
// whole groups. Pairs have several rounds, for which send_recv stands, and the steps of communicators are no
// operations.
std::vector<std::string> with_variables(const Options& options, std::vector<std::string> usual);

// Cases of one round with the job's groups, ordered by collective and size, of any memory; the same on all ranks.
std::vector<Case> make_cases(const Options& options, const Machine& machine, std::uint64_t seed, SearchedTypes types,
                             const std::vector<std::string>& collectives, const std::vector<Bytes>& sizes);

// Settings are compared by two sets of workers, which share the devices' memory.
inline constexpr int backends_at_once = 2;

// Removes the cases that do not fit into the share of each set of workers; returns their names.
std::set<std::string> leave_out_large(std::vector<Case>& cases, const Machine& machine);

// The job's sizes within the limits.
std::vector<Bytes> sizes_of(const Options& options, const TuningLimits& tuning_limits);

// Size of a communicator; a table is valid for one. NCCL counts an NVLink domain of several hosts as one node.
struct Communicator {
  int ranks = 0, nodes = 0;
  auto operator<=>(const Communicator&) const = default;
};
std::set<Communicator> communicator_sizes(const Options& options, const Placement& placement);
// Most hosts of a communicator, where NVLink domains have several hosts; else 0.
int hosts_of_communicators(const Options& options, const Placement& placement);

// ---- Converts the tuner's result to the report's type: tuner and reports do not know each other.

// The course of a tuning, possibly incomplete.
struct TuningCourse {
  std::string mode = "quick";  // or "full"
  std::uint64_t seed = 0;
  double wall_s = 0;
  std::vector<reports::TuningStage> stages;
  tuner::SearchResult search;
  bool skipped = false;  // no time, no way to confirm a result, or a faulty machine
  std::vector<tuner::JudgedArm> arms;
  std::vector<CallModeResult> call_modes;
  std::vector<tuner::ConfirmedSizePoint> confirmations;
  std::vector<std::string> dropped;  // rows and parts of rows that were not confirmed
  std::optional<tuner::Gain> step;   // of the job's step (--job), with the settings that were found
  int processes = 0;                 // processes that confirmed each side
  std::vector<std::string> remarks;  // constraints and other omissions
  // Variables of the default beyond the operator's: a tuner that is named to be kept is the one that jobs have now.
  Environment of_default = {};
};

// The variables together with those of the default, beside which they were measured.
Environment with_default(const TuningCourse& course, Environment variables);

// Sets the variables that were faster by themselves, confirmed in fresh processes, with those of the default, where
// there are no rows: both were measured separately, and their combination is unmeasured. The reason that there are no
// rows becomes a remark.
void choose_variables(TuningCourse& course, tuner::TuningResult& result, const tuner::JudgedArm& variables,
                      const std::vector<tuner::SizePoint>& judged_at);

// Removes all settings if NCCL's own failed or gave wrong data in the tuning, which is then skipped: what is fastest on
// such a machine says nothing about a sound one, and a row could go across the size that failed.
void set_nothing_on_a_faulty_machine(TuningCourse& course, tuner::TuningResult& result);

// False if no size, variable or call mode was measured, or if nothing could be confirmed.
bool is_decided(const TuningCourse& course);
reports::Tuning tuning_report(const TuningCourse& course, const tuner::TuningResult& result,
                              const std::vector<tuner::NamedFile>& files);

// The gain table of the files: size points of the final table that were faster.
std::vector<tuner::GainLine> gain_lines(const std::vector<tuner::ConfirmedSizePoint>& confirmed);

}  // namespace p5
