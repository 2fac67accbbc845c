// Comparison of two sides of reports, a value with everything that its writers show. Needs no MPI and no machine. The
// method is described in reports/compare/README.md.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/measure/effect.hpp"
#include "reports/report.hpp"

namespace p5::reports {

std::string_view name_of(Quantity quantity);

// A case on one side, over all launches of all runs.
struct Observation {
  Case measured_case;
  std::vector<Launch> latency, throughput;
  std::vector<Selection> selections;  // distinct selections
  std::string trouble;                // wrong data or a failure in any launch, as a sentence; "" without one
  bool wrong_data = false;            // `trouble` is wrong data
  bool failed = false;                // it failed in any launch, which `trouble` does not tell beside wrong data
  std::string skipped;                // why it was planned and not measured in some run; ""
  // Verdict::mean_fraction of each run that measured the case, by the index of the run in Side::reports.
  std::map<std::size_t, std::optional<double>> mean_fractions = {};
  // The time of each fraction that is not null, by run.
  std::map<std::size_t, double> mean_times_s = {};
  bool measured() const { return !latency.empty() || !throughput.empty(); }
};

// A report with the samples that its journal keeps.
struct Run {
  std::string name;  // name given by the user
  Report report;
  // Lines of the journal; Measurement::launch counts the launches of the run from 0.
  std::vector<Result> journal;
};

// Amount of data to read. `to_compare` skips figures of single pairs and groups and details of GPUs and NICs, which are
// not compared and dominate reports of thousands of ranks.
enum class Reading { whole, to_compare };
// Reads a report.json, or the folder that holds it, with the measurements.jsonl beside it if there is one. Throws
// UsageError, also where that journal is of another run.
Run read_run(const std::string& path, Reading reading);
// Finds the runs of a report.json, of its folder, or of all folders below that hold one; sorted by name. A report
// without a journal that has others below is one of a folder of runs. A baseline, in baselines/NAME, repeats launches
// of other runs: it counts where the folder holds nothing else.
std::vector<std::string> find_runs(const std::string& path);
// Begins the remark of an import whose start is that of a log, in an unknown time zone.
inline constexpr std::string_view started_by_log = "started, by the log without its time zone, at ";
// The baselines below a folder that find_runs() passes over; empty if it gives them.
std::vector<std::string> find_baselines_beside_runs(const std::string& path);
// Sorts runs by start, then by folder name, which counts runs of one second. Runs without a start (imports) come first.
// Throws UsageError naming a run whose start is invalid or more than a day after `now` ("2026-11-20T12:00:00Z"),
// because it would remain the newest run forever.
void order_by_launch(std::vector<Run>& runs, const std::string& now);

struct Side {
  std::string name;                          // "base", "new" or the name of an arm
  std::vector<std::string> sources;          // names of the runs
  std::vector<std::string> identities = {};  // equal for copies of one run
  std::vector<Report> reports;               // without the measurements of their cases
  std::vector<Observation> observations;
  std::vector<std::string> remarks;  // excluded launches, with the reason
};

// Equal for copies of one run.
std::string identity_of(const Run& run);
// True if `later` went on with `earlier` by --resume, and so has its launches.
bool continues(const Report& later, const Report& earlier);
// The runs that a report holds, if it is a baseline; else itself.
std::vector<HeldRun> held_by(const Run& run);
// Indices in `baseline.run.held` of the runs whose launches another report has too, or part of them: the same run, one
// that it continues, or one that continues it.
std::vector<std::size_t> held_launches_of(const Report& other, const std::string& identity, const Report& baseline);
// Removes the launches of these runs from a baseline, and cases that have no other. The numbers of the others stay.
void remove_held(std::span<const std::size_t> held, Run& baseline);
// For each run why it does not count: it is a copy of an earlier one of these, with the same start and the same
// figures, or another one continues it that `may_count`; "": it counts.
std::vector<std::string> why_repeated(std::span<const Run> runs, bool (*may_count)(const Report&) = nullptr);
// Removes runs that count with others, and runs that hold nothing of the arm, as those of `tune`. A run that was cut
// off before its first case stays. Returns a remark for each.
std::vector<std::string> leave_out_others(std::vector<Run>& runs, std::string_view arm = "default");

// Removes runs of other hardware than the last one's. Returns a remark for each.
std::vector<std::string> leave_out_other_hardware(std::vector<Run>& runs);
// The same for runs whose operations were waited for one by one (-z), beside bursts, and bursts beside them.
std::vector<std::string> leave_out_other_waiting(std::vector<Run>& runs);

// Side of one arm over all runs. Copies of a run count once, and so does a run with the one that continues it.
// Times of wrong data are excluded. Runs weigh alike: none contributes more launches of a case than half of the runs
// that finished have, the same ones of all cases where they have them. Throws UsageError if the runs have nothing of
// the arm, unless none of them finished.
Side make_side(std::string name, std::span<const Run> runs, std::string_view arm = "default");

struct ComparisonOptions {
  std::uint64_t seed = 1;        // seed of the bootstrap
  bool across_hardware = false;  // compare although the hardware differs
  bool base_counts = false;      // wrong data of BASE are wrong data: neither side has been found good before
  bool one_run = false;          // the sides are arms of one run, which is unfinished if either has failures
  bool history = false;  // BASE holds earlier runs of NEW's machine: faults that NEW proves count even if BASE had them
};

// Ascending from best to worst.
enum class Answer { no_regression, inconclusive, regression };
std::string_view name_of(Answer answer);  // "no regression"
std::string change(double ratio);         // 1.03 as "+3.0 %"

// Practical thresholds of a band (bench/measure/thresholds.json), relative.
struct Threshold {
  std::string band;       // latency, mid, bandwidth
  double matters = 0;     // effect that has to be found
  double negligible = 0;  // effect that is ignored
  std::string because;
};

// A row of the verdict: the sizes of one band of one collective together. Sizes that were measured in other launches
// than most of the band have a row of their own.
struct BandRow {
  std::string collective;  // with its variant: "p2p one_way", "all_reduce in place"
  Quantity quantity = Quantity::throughput;
  Threshold threshold;  // threshold of this row: at small sizes 0.5 us may exceed the percentage
  int sizes = 0;
  std::vector<Bytes> only;  // of a row of its own, its sizes; else empty
  int base_launches = 0, new_launches = 0;
  int base_with_samples = 0, new_with_samples = 0;  // launches of which `mean` and `spread` are
  bool screening = false;                           // too few launches: relies on an assumed variance
  double runs_differ = 0;                           // as Effects::runs_differ
  IntervalParts parts = {};                         // of the interval of `time`
  Effect time;                                      // of medians
  std::optional<Effect> mean;    // of means without the slowest twentieth: what slow samples cost; null without samples
  std::optional<Effect> spread;  // spread of samples within launches; null without samples or with few launches
  std::optional<double> base_spread, new_spread;  // relative: 0.01 is 1 % of the median
  Answer answer = Answer::inconclusive;
  bool time_rose = false, mean_rose = false, spread_rose = false;  // reasons of a regression
  std::optional<int> launches_needed;                              // per side; if inconclusive
  std::optional<int> runs_needed = {};                             // per side, where no number of launches decides
  std::optional<std::size_t> change;  // index in Trend::changes of the change that makes it a regression
  std::string because;
};

// A cell of the map of sizes; does not affect the answer.
struct SizeRow {
  Case measured_case;  // NEW's
  Quantity quantity = Quantity::throughput;
  std::string band;
  double base_s = 0, new_s = 0;
  Effect time;
  bool marked = false;                        // relevant, with a false discovery rate of 5 % over all cells
  std::string base_selection, new_selection;  // "ring/simple/24"; "" if unknown
};

// A difference between the sides besides their times.
struct Difference {
  std::string kind;  // hardware, software, environment, topology, selection
  std::string name;
  std::string base, fresh;  // "" is absent; several values of one side are joined by " | "
};

// Wrong data or a failure in NEW.
struct FailedCase {
  Case measured_case;
  bool wrong_data = false;
  std::string what;
  bool in_base = false;  // BASE had the same there: wrong data, or a failure
};

// A run of NEW that ended with wrong data, did not finish, or found the machine broken, or one of several parts at
// fault, where most runs of BASE did not; in a history wherever it did.
struct FailedRun {
  std::string source;
  ExitCode code = ExitCode::unfinished;  // or wrong_data, or slow for broken hardware
  std::string because;
};

// The runs of a history in chronological order, each compared with the median of all in every row, and the changes of
// level of each row (bench/measure/change_points.hpp). Rows and runs are referenced by index in `rows` and `points`.
struct Trend {
  struct Point {
    std::string source, started, software;      // software: p5bench and library
    std::vector<std::optional<double>> ratios;  // above 1 is slower; null: the run lacks the row
    std::vector<Difference> differences = {};   // from the previous run
  };
  // The runs between two changes.
  struct Level {
    std::size_t row = 0, first = 0, last = 0;
    double ratio = 1;  // median of its runs
  };
  struct Change {
    std::size_t row = 0;
    std::size_t before = 0, first = 0;    // last run of the old level, first run of the new one
    double ratio = 1;                     // the new level over the old one: above 1 is slower
    int runs_before = 0, runs_after = 0;  // numbers of runs of both levels
    double p = 1, p_adjusted = 1;         // p value; adjusted for all rows (Bonferroni)
    // Ratio of the newest level to the level before this change, if the change is for the worse and the newest run is
    // still slower.
    std::optional<double> still = {};
    std::vector<Difference> differences = {};  // between those two runs
  };
  std::vector<std::string> rows;
  std::vector<std::string> shown_rows = {};  // displayed names of the rows
  std::vector<Point> points;
  std::vector<Level> levels = {};
  std::vector<Change> changes = {};  // the newest first, then the largest
  int short_rows = 0;                // rows with too few runs to show a change
  std::vector<std::string> remarks = {};
};

// Probability of finding a change in any row of a history without changes.
inline constexpr double chance_of_change = false_alarm_probability;

// Displayed name of a band: "small", "middle", "large".
std::string_view meaning_of(std::string_view band);

struct Comparison {
  std::string version, made;  // version of p5bench; UTC
  std::string base_name, new_name;
  std::vector<std::string> base_sources, new_sources;
  std::string provenance;  // measured, simulated, imported, or "mixed"
  std::uint64_t seed = 0;
  Answer answer = Answer::inconclusive;
  ExitCode exit_code = ExitCode::inconclusive;
  bool screening = false;  // any row
  std::string headline;    // the answer in a sentence
  std::vector<BandRow> bands;
  std::vector<SizeRow> sizes;
  std::vector<Difference> differences;
  std::vector<FailedCase> troubles;
  std::size_t wrong_in_base = 0;   // cases without a baseline because all data of BASE was wrong; if requested
  std::size_t failed_in_base = 0;  // cases that failed in BASE, if it is of the same run
  std::vector<FailedRun> bad_ends;
  // Parts that NEW suspects and most runs of BASE do not; in a history all that NEW suspects.
  std::vector<Suspect> new_suspects;
  std::size_t repeated = 0;  // in a history: number of these and of broken parts that most runs of BASE reported too
  std::vector<std::string> only_in_base,
      only_in_new;  // cases, described, with the reason if the other side skipped them or BASE failed them
  // Rows of BASE, such as "p2p one_way >= 64 MiB", of which NEW planned cases and measured none.
  std::vector<std::string> skipped_rows;
  // Rows of which NEW measured cases that all failed in BASE, unless BASE is a history or baseline.
  std::vector<std::string> failed_rows;
  std::vector<std::string> nothing_measured;  // a sentence for each side that skipped all of its cases
  std::vector<std::string> remarks;
  std::optional<Trend> trend;  // set if a history was compared
};

inline constexpr std::string_view comparison_schema_name = "p5bench.compare/1";

// Throws UsageError if nothing can be compared, or if the hardware differs and options.across_hardware is not set.
Comparison compare(const Side& base, const Side& fresh, const ComparisonOptions& options = {});

// Requires at least one run. All that finished hold cases of the arm.
Trend trend_of(std::span<const Run> runs, std::string_view arm = "default");
// Adds the history to a comparison of its newest run with the earlier ones. A change for the worse that still holds for
// the newest run is a regression, whatever that run shows against the earlier ones.
void add_trend(Comparison& comparison, Trend trend);

nlohmann::json to_json(const Comparison& comparison);

}  // namespace p5::reports
