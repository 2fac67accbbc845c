// The report as a value: the complete, judged result of a run. Code that uses it needs no MPI, GPU or machine.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/base/statistics.hpp"
#include "bench/model/measurement.hpp"
#include "reports/gdr.hpp"
#include "reports/traffic.hpp"
#include "topo/finding.hpp"
#include "topo/limits.hpp"
#include "topo/topology.hpp"
#include "topo/watch.hpp"

namespace p5::reports {

// ---- Result of the tuner as a value of the report: "tuning" in report.json. Settings are texts ("ring/ll128/16"); a
// gain is the fraction of the default's time that is saved.

struct TuningGain {
  double default_s = 0, tuned_s = 0;  // medians
  double share = 0;                   // 1 - tuned / default
  std::optional<Interval> interval;   // 95 % interval of the share; null for a single process
};

// A setting that NCCL offered or the search tried for a size.
struct TuningSetting {
  std::string setting;  // or "default"
  std::optional<double> median_us;
  std::optional<double> launched_us;    // including the launch
  int samples = 0;                      // behind the median
  std::optional<double> predicted_us;   // NCCL's prediction, which determines its choice
  bool chosen = false;                  // NCCL's default
  std::optional<double> alone_us = {};  // in a tuning beside other work: without that work
};

// One size in the search.
struct TuningSizePoint {
  std::string collective;
  std::uint64_t bytes = 0, tuner_bytes = 0;  // bytes of the case, and as NCCL reports them to tuners
  int candidates = 0, samples = 0;           // settings tried, and samples of them and of the default
  std::optional<std::string> winner;         // fastest setting of the search
  bool believed = false;                     // confirmed, and in the table
  std::optional<double> noise;               // relative standard deviation of the default's samples
  std::optional<TuningGain> gain;            // in the search
  std::string because;
  std::vector<TuningSetting> settings;  // the default first
  // In a tuning beside other work: the operations of a sample, its own first, then those of each work.
  std::vector<int> operations = {};
};

struct TuningFailure {
  std::string collective;
  std::uint64_t bytes = 0;
  std::string setting;  // or "default"
  bool wrong_data = false;
  std::string because;
};

// An environment tried in fresh processes.
struct TuningArm {
  std::string name;
  std::map<std::string, std::string> environment;
  std::optional<double> speedup;     // null: it failed
  std::optional<Interval> interval;  // interval of the speed-up
  bool adopted = false;
  // In a tuning beside other work: of the operations alone.
  std::optional<double> alone_speedup = {};
};

// A call mode compared with plain calls in the same processes, at one size.
struct TuningCallModeSize {
  std::string collective;
  std::uint64_t bytes = 0;
  std::optional<TuningGain> gain;             // null: not measured
  std::string because;                        // reason if not measured
  std::optional<TuningGain> alone_gain = {};  // in a tuning beside other work: of the operation alone
  // True if the mode saves or costs at least 3 % of the time by its interval: worth a change of an application.
  bool pays() const { return gain && gain->interval && gain->interval->low >= 0.03; }
  bool costs() const { return gain && gain->interval && gain->interval->high <= -0.03; }
};
struct TuningCallMode {
  std::string name;  // "registered buffers"
  std::string how;   // instructions for a job
  std::vector<TuningCallModeSize> sizes;
};

struct TuningRow {
  std::string collective;
  std::uint64_t from = 0, to = 0;  // sizes as NCCL reports them to tuners
  std::string setting;
  double microseconds = 0;
};

// One size with the written files against the default, in fresh processes.
struct TuningConfirmation {
  std::string collective;
  std::uint64_t tuner_bytes = 0;
  std::optional<std::string> setting;       // in the final table; null: the default
  std::optional<TuningGain> gain;           // time on the device
  std::optional<TuningGain> launched_gain;  // including the launch
  std::string verdict;
  std::optional<TuningGain> alone_gain = {};  // in a tuning beside other work: of the operation alone
};

struct TuningStage {
  std::string name;  // preparation, search, variables, ways of calling, confirmation
  double seconds = 0;
};

// Other work that ran at the same time, in a tuning beside it: all other times are then until the operations and that
// work are done, divided by the number of operations.
struct TuningBeside {
  std::vector<std::string> works;  // in the form of --beside
  double alone_loss = 0;           // share by which a setting may make operations slower alone
};

struct Tuning {
  std::string mode;     // quick, full, exhaustive
  std::string outcome;  // settings: the files set something; nothing: the default stays; refused: undecided
  std::string because;  // one sentence
  std::uint64_t seed = 0;
  double wall_s = 0;
  std::vector<TuningStage> stages;  // parts of wall_s, without the workers' teardown
  int nccl_version = 0;             // ncclGetVersion()
  int ranks = 0, nodes = 0;
  std::optional<TuningBeside> beside;  // null: operations alone were tuned
  std::optional<double> drift;         // relative change of the default during tuning; in reports before 2026-11-23
  std::vector<TuningSizePoint> size_points;
  std::vector<TuningFailure> failures;
  std::vector<TuningArm> arms;
  std::vector<TuningCallMode> call_modes;
  std::map<std::string, std::string> environment;  // from the written files
  std::vector<TuningRow> rows;                     // from the written files
  std::vector<TuningConfirmation> confirmations;
  std::optional<TuningGain> step;     // of the job's step (--job), with all settings
  int processes = 0;                  // fresh launches per side in the confirmation
  std::vector<std::string> refusals;  // dropped rows, unknown variables, skipped work: a sentence each
  std::vector<std::string> files;     // names
  // Launcher name and the line that loads the settings into a job. If the files are not on all hosts, only "ssh" and
  // the line that copies them.
  std::vector<std::pair<std::string, std::string>> loading;
};

nlohmann::json to_json(const Tuning& tuning);
// Throws nlohmann's exceptions or UsageError when something is missing or wrong.
Tuning tuning_from_json(const nlohmann::json& j);

enum class Grade { ok, slow, faulty, wrong, failed, unknown };  // faulty: reports only
std::string_view name_of(Grade grade);

struct Verdict {
  Grade grade = Grade::unknown;
  std::string level;  // level of the limit; "" without one
  std::optional<GBps> limit;
  std::optional<double> fraction;  // bus bandwidth over the limit
  // The same by the mean of most samples (Summary::trimmed_mean), where that is slow and the median is not.
  std::optional<double> mean_fraction = {};
  std::optional<double> least_fraction = {};  // below it the measurement is slow; null where nothing is known
  std::string binding;                        // the part that limits
  std::string because;                        // one sentence
  // Names of hosts that took part and whose GPUs other programs used: their groups are not judged.
  std::vector<std::string> not_judged_hosts = {};
};

// Times of the same case in the baseline.
struct BaselineTimes {
  std::optional<double> latency_s, throughput_s;  // per operation
};

struct Result {
  Measurement measurement;
  Verdict verdict;
  std::optional<topo::CaseWatch> during = {};  // activity of GPUs and NICs during the case; null: not observed
  std::optional<BaselineTimes> baseline = {};  // null: no baseline, or it lacks the case
};

// A rank's GPU as its driver showed it, once a second, while it was checked alone. Null: unknown.
struct LocalActivity {
  int seconds = 0;  // samples in which it was not idle
  std::optional<int> sm_clock_min_mhz, sm_clock_median_mhz;
  std::optional<int> temperature_max_c;
  std::optional<double> power_max_w;
  std::vector<std::string> throttle_reasons;     // "power cap", as in topo::throttle_reasons()
  std::uint64_t corrected = 0, uncorrected = 0;  // new memory errors
  std::vector<int> xids;
};

struct Suspect {
  std::string kind;            // gpu, nic, node, link, rail
  std::string name;            // "n3g2", as in --fault
  std::string host, instance;  // "" for a rail
  std::string device = {};     // UUID of a GPU or name of a NIC; "" if unknown
  double confidence = 0;
  std::string evidence;
  int partners_tested = 0;
  std::string action;
  std::string fault = "slow";  // slow, silent (no message passes), wrong (corrupts data)
};

// Share of their time that ranks waited for processor cores, the largest of each node; see Backend::share_of_waiting().
using WaitingOfNode = std::map<int, double>;

// A fault that the measurements cannot attribute to one of several parts.
struct OpenQuestion {
  std::vector<std::string> candidates;     // "nic n1r5", "link n0-n1"; the likeliest first
  std::vector<double> probabilities = {};  // posterior probability of each candidate
  std::string host = {};                   // host of all candidates; "" if they are on several
  std::string evidence;
  std::string next;            // measurement that would separate the candidates
  std::string fault = "slow";  // see Suspect::fault
};

// The decision, its reason and the steps to take. Every format prints these texts.
struct Decision {
  std::string word = "CANNOT TELL";  // ACCEPT, REJECT, CANNOT TELL
  std::vector<std::string> parts;    // parts to reject: "n1", or "nic n1r5" if the node is not implied
  std::string sentence;              // "REJECT n1: ...", at most 120 characters
  std::vector<std::string> next;     // steps in order; empty if there is none
  std::string command;               // shell command of the next job on the healthy hosts; "" if there are none
};

// An arm of an `ab`; its measurements have its name as Case::arm.
struct ArmInfo {
  std::string name;
  std::map<std::string, std::string> settings;  // settings of the command line
  std::map<std::string, std::string> context;   // environment of rank 0: library, plugins, variables after its start
  int launches = 0;                             // launches whose ranks joined
  std::string problem;                          // why a launch did not join; "" if all did
};

// Begins the remark of a run that --resume made, followed by the start of the run that it continues and " (".
inline constexpr std::string_view continues_run = "continues the run of ";

// Begins Report::comparison where that has no answer.
inline constexpr std::string_view inconclusive_headline = "INCONCLUSIVE";

// Upper limit of launches in a report.
inline constexpr int most_launches = 1'000'000;

// A run whose launches a baseline holds.
struct HeldRun {
  std::string started;
  std::string digest;                  // of its start and figures; "" if unknown, as of runs of an older baseline
  std::vector<std::string> continued;  // starts of the runs that it continues
};

struct RunInfo {
  std::string version;
  std::vector<std::string> command;  // arguments as given
  std::string subcommand = {};       // run, tune, ab, check; "" in imports and in reports before 2026-11-28
  std::string started, ended;        // UTC, ISO 8601; `ended` is "" while the run continues
  double wall_s = 0;
  double budget_s = 0;
  std::uint64_t seed = 0;
  std::string cluster;
  std::string folder = {};  // within --out, CLUSTER/TIME; "" if it has none, and in reports before 2026-11-28
  int ranks = 0, nodes = 0;
  std::string backend;
  int launches = 1;  // planned, of each case
  std::vector<std::string> remarks;
  std::string ended_by;            // reason of an early end (a signal, a lost rank); "" without one
  std::vector<HeldRun> held = {};  // of a baseline; Measurement::run counts these
};

struct Report {
  std::string status = "partial";       // complete, partial
  std::string provenance = "measured";  // measured, simulated, imported
  Grade grade = Grade::unknown;         // see overall()
  Decision decision;
  ExitCode exit_code = ExitCode::unfinished;
  RunInfo run;
  std::map<std::string, std::string> context;  // software and environment, allow-listed
  topo::Topology topology;
  topo::Limits limits;
  std::vector<Result> results;                // "measurements" in JSON
  std::vector<LocalFigures> local_checks;     // figures of each rank's GPU alone; empty: not measured
  std::vector<ComputeCheck> compute_checks;   // of each rank's GPU; empty: not checked
  std::vector<LocalActivity> local_activity;  // of each rank's GPU; empty: nobody looked
  std::vector<LocalActivity> load_activity;   // the same while it computed and its messages passed
  std::vector<GdrPath> gdr;                   // paths between NICs and GPU memory; empty: not measured
  std::vector<Traffic> traffic;               // of cases with a traffic matrix
  std::vector<topo::Finding> findings;
  std::vector<Suspect> suspects;
  std::vector<OpenQuestion> open_questions;
  std::vector<ArmInfo> arms;     // arms of an `ab`
  std::string comparison = {};   // answer of the comparison of the arms or with a baseline; "" without, not in JSON
  std::optional<Tuning> tuning;  // null: no tuning
};

inline constexpr std::string_view schema_name = "p5bench.report/1";

nlohmann::json to_json(const Report& report);
nlohmann::json to_json(const Case& c);
nlohmann::json to_json(const Suspect& suspect);
// `with_samples` adds what a line of the journal has besides: journal.hpp.
nlohmann::json to_json(const Result& result, bool with_samples);
// Throws UsageError naming the missing or wrong field.
Report report_from_json(const nlohmann::json& j);
// Throws nlohmann::json::exception or UsageError.
Case case_from_json(const nlohmann::json& j);
// Reads the output of to_json(), with or without samples.
Result result_from_json(const nlohmann::json& j);
// Reads a report without members named in `skipped`, which must be optional ones.
Report read_report(const std::string& path, std::span<const std::string_view> skipped = {});

}  // namespace p5::reports
