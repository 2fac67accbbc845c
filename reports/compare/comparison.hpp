// Did anything get slower? Two sides of reports become a Comparison: a value, with everything that its writers show.
// Nothing here measures; nothing needs MPI or the machine. How it is decided: reports/compare/README.md.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/measure/effect.hpp"
#include "reports/report.hpp"

namespace p5::reports {

std::string_view name_of(Quantity quantity);

// A case as one side saw it, over all launches of all its runs.
struct Observation {
  Case measured_case;
  std::vector<Launch> latency, throughput;
  std::vector<Selection> selections;  // those seen, each once
  std::string trouble;                // wrong data or a failure in any launch: one sentence; "" when all is well
  bool wrong_data = false;            // of the two, which
};

// A report with the samples that its journal keeps.
struct Run {
  std::string name;  // as the user named it
  Report report;
  // The journal's lines; Measurement::launch counts the launches of the run from 0.
  std::vector<Result> journal;
};

// Of thousands of ranks most of a report says what single pairs and groups did, and details of GPUs and NICs, which are
// not compared.
enum class Reading { whole, to_compare };
// A report.json or the folder that holds it, with the measurements.jsonl beside it, when there is one. Throws
// UsageError.
Run read_run(const std::string& path, Reading reading);
// The runs of a report.json, of its folder, or of all folders below that hold one, in the order of their names.
std::vector<std::string> find_runs(const std::string& path);
// By when they began; those of one second by their folders, which count them. Runs that do not say when they began
// (imports) come first. Throws UsageError naming a run whose start is no time, or lies more than a day after `now`
// ("2026-11-20T12:00:00Z"): it would stay the newest one whatever ran later.
void order_by_launch(std::vector<Run>& runs, const std::string& now);

struct Side {
  std::string name;                  // "base", "new", or an arm's
  std::vector<std::string> sources;  // names of the runs
  std::vector<Report> reports;       // without their results: run, context, topology, suspects
  std::vector<Observation> observations;
  std::vector<std::string> remarks;  // which launches of its runs do not count, and why
};

// The side that the runs saw of one arm; without one, of the arm "default". Times of wrong data do not count. Runs
// weigh alike: none contributes more launches than half of the runs have. Throws UsageError when there is nothing of
// the arm, unless none of the runs finished.
Side make_side(std::string name, std::span<const Run> runs, std::string_view arm = "default");

struct ComparisonOptions {
  std::uint64_t seed = 1;        // of the bootstrap
  bool across_hardware = false;  // compare although the hardware differs
  bool base_counts = false;      // wrong data of BASE are wrong data: neither side has been found good before
};

// The worse, the higher.
enum class Answer { no_regression, inconclusive, regression };
std::string_view name_of(Answer answer);  // "no regression"
std::string change(double ratio);         // 1.03 as "+3.0 %"

// Practical thresholds of a band (bench/measure/thresholds.json), relative.
struct Threshold {
  std::string band;       // latency, mid, bandwidth
  double matters = 0;     // so much has to be found
  double negligible = 0;  // so little is nobody's concern
  std::string because;
};

// A line of the verdict: the sizes of one band of one collective together.
struct BandRow {
  std::string collective;  // with what else tells it from others: "p2p one_way", "all_reduce in place"
  Quantity quantity = Quantity::throughput;
  Threshold threshold;  // of this row: at small sizes 0.5 us may be more than the percentage
  int sizes = 0;
  int base_launches = 0, new_launches = 0;
  bool screening = false;  // too few launches for a test on launches: stands on an assumed variance
  Effect time;
  std::optional<Effect> spread;  // of the samples within launches; null without samples, or with few launches
  std::optional<double> base_spread, new_spread;  // relative: 0.01 is 1 % of the median
  Answer answer = Answer::inconclusive;
  bool time_rose = false, spread_rose = false;  // what makes it a regression
  std::optional<int> launches_needed;           // a side; when inconclusive
  std::optional<std::size_t> change;            // the change of level in Trend::changes that makes it a regression
  std::string because;
};

// A cell of the map: says where, decides nothing.
struct SizeRow {
  Case measured_case;  // NEW's
  Quantity quantity = Quantity::throughput;
  std::string band;
  double base_s = 0, new_s = 0;
  Effect time;
  bool marked = false;  // the false discovery rate over all cells is 5 % among those marked, and it matters
  std::string base_selection, new_selection;  // "ring/simple/24"; "" when not known
};

// Something of the sides that is not the same: stands beside the numbers.
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
  bool in_base = false;  // BASE had wrong data or a failure there too
};

// A run of NEW that ended with wrong data, did not finish, or found the machine broken where no run of BASE did.
struct FailedRun {
  std::string source;
  ExitCode code = ExitCode::unfinished;  // or wrong_data, or slow: broken
  std::string because;
};

// The runs of a history, in the order of time, each against the median of all of them in every row, and where the level
// of a row changed (bench/measure/change_points.hpp). Rows and runs are told by their places in `rows` and `points`.
struct Trend {
  struct Point {
    std::string source, started, software;      // software: p5bench and library
    std::vector<std::optional<double>> ratios;  // above 1 is slower; null: the run lacks the row
    std::vector<Difference> differences = {};   // from the run before
  };
  // Runs between two changes.
  struct Level {
    std::size_t row = 0, first = 0, last = 0;
    double ratio = 1;  // the median of its runs
  };
  struct Change {
    std::size_t row = 0;
    std::size_t before = 0, first = 0;    // the last run of the old level, the first of the new one
    double ratio = 1;                     // the new level over the old one: above 1 is slower
    int runs_before = 0, runs_after = 0;  // of both levels
    double p = 1, p_adjusted = 1;         // that chance alone did it; adjusted for all rows (Bonferroni)
    // For the worse, and the newest run is still on a slower level: that level over the one before this change.
    std::optional<double> still = {};
    std::vector<Difference> differences = {};  // between those two runs
  };
  std::vector<std::string> rows;
  std::vector<std::string> shown_rows = {};  // the same for people: bands by what they mean
  std::vector<Point> points;
  std::vector<Level> levels = {};
  std::vector<Change> changes = {};  // the newest first, then the largest
  int short_rows = 0;                // too few runs to show a change at all
};

// Of one change found among all rows of a history in which nothing changed.
inline constexpr double chance_of_change = false_alarm_probability;

// A band for people: "small", "middle", "large".
std::string_view meaning_of(std::string_view band);

struct Comparison {
  std::string version, made;  // of p5bench; UTC
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
  std::size_t wrong_in_base = 0;  // cases that have no baseline, because all of BASE's data were wrong; where asked for
  std::vector<FailedRun> bad_ends;
  std::vector<Suspect> new_suspects;                   // parts that NEW accuses and BASE does not
  std::vector<std::string> only_in_base, only_in_new;  // cases, described
  std::vector<std::string> remarks;
  std::optional<Trend> trend;  // where a history was compared
};

inline constexpr std::string_view comparison_schema_name = "p5bench.compare/1";

// Throws UsageError when nothing can be compared, or when the hardware differs and that was not asked for.
Comparison compare(const Side& base, const Side& fresh, const ComparisonOptions& options = {});

// Of at least one run.
Trend trend_of(std::span<const Run> runs);
// The history of a comparison of its newest run with those before. A change of level for the worse that the newest run
// is still on is a regression, whatever that run shows against all those before.
void add_trend(Comparison& comparison, Trend trend);

nlohmann::json to_json(const Comparison& comparison);

}  // namespace p5::reports
