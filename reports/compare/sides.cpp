// Reads the two sides of a comparison from files: reports, their journals, and one observation for each case.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "bench/model/job.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/journal.hpp"

namespace p5::reports {

namespace fs = std::filesystem;

namespace {

constexpr const char* report_name = "report.json";

// Relative tolerance for rounding: reports have medians with twelve digits.
constexpr double rounding_of_reports = 1e-9;

// JSON members that a comparison does not read: of measurements, and of the topology's GPUs and NICs.
constexpr std::array<std::string_view, 7> members_not_compared{"pairs",  "groups",   "pci",    "pcie",
                                                               "errors", "counters", "nvlinks"};

// The journal's lines of one case, by launch. A repeated case replaces its earlier line.
using LinesOfCase = std::map<int, const Measurement*>;
using Lines = std::unordered_map<std::string, LinesOfCase>;

Lines lines_of(const Run& run, std::string_view arm) {
  Lines lines;
  for (const Result& result : run.journal) {
    const Measurement& m = result.measurement;
    if (m.measured_case.arm != arm || m.measured_case.for_parts) continue;
    lines[side_key(m.measured_case)].insert_or_assign(m.launch.value_or(0), &m);
  }
  return lines;
}

// Members of a measurement and of an observation that hold the figures of a quantity: latency or throughput.
struct Figures {
  std::optional<Series> Measurement::*series;
  std::vector<double> Measurement::*medians;
  std::vector<int> Measurement::*runs;
  std::vector<Launch> Observation::*launches;
};
constexpr std::array kinds{
    Figures{&Measurement::latency, &Measurement::latency_launches_s, &Measurement::latency_launch_runs,
            &Observation::latency},
    Figures{&Measurement::throughput, &Measurement::launches_s, &Measurement::launch_runs, &Observation::throughput}};

// Launches of a case. The report defines which launches count. The journal adds their samples and their numbers, in
// which a launch without the case leaves a gap. A journal with another number of launches is incomplete or of another
// run, and adds nothing.
std::vector<Launch> launches_in(const Measurement& m, const LinesOfCase* lines, const Figures& kind) {
  const std::optional<Series>& series = m.*kind.series;
  if (!series) return {};
  const std::vector<double>& medians = m.*kind.medians;
  std::vector<Launch> launches;
  if (lines)
    for (const auto& [number, line] : *lines)
      if (const std::optional<Series>& its = line->*kind.series)
        launches.push_back({.number = number,
                            .run = line->run,
                            .median_s = its->summary.median,
                            .samples_s = its->samples,
                            .interval = its->summary.interval,
                            .rounding_s = its->rounding_us.value_or(0) * 1e-6});
  if (launches.size() == medians.size()) return launches;
  launches.clear();
  const std::vector<int>& its_runs = m.*kind.runs;
  for (std::size_t i = 0; i < medians.size(); ++i) {
    Launch& launch = launches.emplace_back();
    launch.number = static_cast<int>(i);
    if (its_runs.size() == medians.size()) launch.run = std::max(0, its_runs[i]);
    launch.median_s = medians[i];
    launch.rounding_s = series->rounding_us.value_or(0) * 1e-6;
    if (medians.size() > 1) continue;
    launch.samples_s = series->samples;
    launch.interval = series->summary.interval;
  }
  return launches;
}

// The reason for which a journal's lines of a case do not belong to the report's measurement; "" if they may. Lines may
// lack launches, as in a run that was killed, or have more of them than the report; what both have has to agree.
// `complete`: the report is that of a finished run.
std::string contradiction_of(const Measurement& m, const LinesOfCase& lines, bool complete) {
  // The report of a run that was killed is older than its journal, so that later lines may have other outcomes.
  for (const auto& [launch, line] : complete ? lines : LinesOfCase()) {
    if (line->wrong_elements > 0 && m.wrong_elements == 0) return "has wrong data in one of them only";
    if (line->outcome == Outcome::failed && m.outcome == Outcome::measured) return "failed in one of them only";
  }
  // A launch's median in the report has to be that of a line. Medians are compared rather than samples, which in an
  // import are of another clock; and with all lines, because older reports of continued runs list launches in another
  // order. In a baseline, medians of repeated cases may be others, which lie within the line's samples.
  for (const Figures& kind : kinds) {
    const std::vector<double>& medians = m.*kind.medians;
    std::vector<const Series*> of_lines;
    for (const auto& [launch, line] : lines)
      if (const std::optional<Series>& series = line->*kind.series) of_lines.push_back(&*series);
    if (medians.empty() || of_lines.size() != medians.size()) continue;
    for (std::size_t i = 0; i < medians.size(); ++i) {
      const double rounding = rounding_of_reports * medians[i], of_line = of_lines[i]->summary.median;
      if (std::abs(medians[i] - of_line) <= rounding) continue;
      const std::vector<double>& samples = of_lines[i]->samples;
      const auto [low, high] = samples.empty() ? std::ranges::minmax({of_line, of_line}) : std::ranges::minmax(samples);
      const bool lies_within = medians[i] >= low - rounding && medians[i] <= high + rounding;
      if (!lies_within && std::ranges::none_of(of_lines, [&](const Series* line) {
            return std::abs(medians[i] - line->summary.median) <= rounding;
          }))
        return fmt::format("took {:.6g} us in the report and {:.6g} us in the journal", 1e6 * medians[i],
                           1e6 * of_line);
    }
  }
  return "";
}

// Throws UsageError if the journal beside a report is that of another run.
void require_own_journal(const Run& run, const fs::path& journal) {
  std::map<std::string, Lines> lines_by_arm;
  for (const Result& result : run.report.results) {
    const Measurement& m = result.measurement;
    if (m.measured_case.for_parts) continue;
    const std::string& arm = m.measured_case.arm;
    const auto [lines, fresh] = lines_by_arm.try_emplace(arm);
    if (fresh) lines->second = lines_of(run, arm);
    const auto found = lines->second.find(side_key(m.measured_case));
    if (found == lines->second.end()) continue;
    if (const std::string why = contradiction_of(m, found->second, run.report.status == "complete"); !why.empty())
      throw UsageError(
          format_printable("'{}' and '{}' are not of the same run: {} {}; put the run's own journal there, "
                           "or take it away",
                           run.name, journal.string(), describe(m.measured_case), why));
  }
}

void add_trouble(Observation& observation, const Measurement& m) {
  observation.failed = observation.failed || m.outcome == Outcome::failed;
  if (m.wrong_elements > 0) {
    observation.wrong_data = true;
    observation.trouble = fmt::format("{} wrong {}", m.wrong_elements, m.wrong_elements == 1 ? "element" : "elements");
  } else if (m.outcome == Outcome::failed && observation.trouble.empty()) {
    observation.trouble = m.because.empty() ? "it failed" : m.because;
  } else if (m.outcome == Outcome::skipped) {
    observation.skipped = m.because.empty() ? "skipped" : m.because;
  }
}

// Old tables of nccl-tests report wrong data without naming the case, so none of the run's times can be trusted.
bool wrong_somewhere(const Report& report) {
  return report.exit_code == ExitCode::wrong_data &&
         std::ranges::none_of(report.results, [](const Result& each) { return each.measurement.wrong_elements > 0; });
}

// The median; of an even count the lower of the two middle numbers.
int lower_median(std::vector<int> numbers) {
  if (numbers.empty()) return 0;
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>((numbers.size() - 1) / 2);
  std::ranges::nth_element(numbers, middle);
  return *middle;
}

// True if a result counts for the arm that is compared. Cases that only localize faults count only if they had wrong
// data.
bool is_compared(const Result& result, std::string_view arm) {
  const Measurement& m = result.measurement;
  return m.measured_case.arm == arm && (!m.measured_case.for_parts || m.wrong_elements > 0);
}

bool holds_arm(const Run& run, std::string_view arm) {
  return std::ranges::any_of(run.report.results, [&](const Result& each) { return is_compared(each, arm); });
}

// Number of launches that the run made, which may be fewer than were planned.
int launches_of(const Run& run, std::string_view arm, const Lines& lines) {
  int most = 0;
  for (const Result& result : run.report.results) {
    const Measurement& m = result.measurement;
    if (m.measured_case.arm != arm || m.measured_case.for_parts) continue;
    const auto found = lines.find(side_key(m.measured_case));
    for (const Figures& kind : kinds)
      for (const Launch& launch : launches_in(m, found == lines.end() ? nullptr : &found->second, kind))
        most = std::max(most, launch.number + 1);
  }
  return most;
}

// Number of runs whose launches a report and its journal hold: one, or several in a baseline.
int runs_of(const Run& run) {
  int last = 0;
  for (const Result& line : run.journal) last = std::max(last, line.measurement.run);
  for (const Result& each : run.report.results)
    for (const Figures& kind : kinds)
      for (const int its : each.measurement.*kind.runs) last = std::max(last, its);
  return last + 1;
}

// Selects, by number, the launches of a run that count: at most `most`, spaced as evenly as possible.
class SelectedLaunches {
 public:
  SelectedLaunches(int launches, int most) : launches_(launches), most_(std::min(launches, most)) {}
  bool contains(int number) const {
    return most_ == launches_ ||
           (number < launches_ && number * most_ / launches_ != (number - 1) * most_ / launches_) || number == 0;
  }
  bool are_all() const { return most_ == launches_; }
  int count() const { return most_; }

 private:
  int launches_, most_;
};

// The launches of a case that count: the chosen launches of its run. For each chosen launch that lacks the case another
// one counts, so that a case with few launches is not lost.
std::vector<Launch> counted_of(std::vector<Launch> launches, const SelectedLaunches& chosen) {
  std::vector<std::size_t> kept, others;
  for (std::size_t i = 0; i < launches.size(); ++i) (chosen.contains(launches[i].number) ? kept : others).push_back(i);
  const int lacking = std::max(0, chosen.count() - static_cast<int>(kept.size()));
  const SelectedLaunches instead(static_cast<int>(others.size()), lacking);
  for (std::size_t i = 0; lacking > 0 && i < others.size(); ++i)
    if (instead.contains(static_cast<int>(i))) kept.push_back(others[i]);
  std::ranges::sort(kept);
  std::vector<Launch> its;
  for (const std::size_t i : kept) its.push_back(std::move(launches[i]));
  return its;
}

Report without_results(const Report& report) {
  Report about;
  about.status = report.status;
  about.provenance = report.provenance;
  about.grade = report.grade;
  // With several arms, the exit code does not name the arm that it is about.
  about.exit_code = report.arms.empty() ? report.exit_code : ExitCode::ok;
  about.run = report.run;
  about.context = report.context;
  about.topology = report.topology;
  about.findings = report.findings;
  about.suspects = report.suspects;
  about.open_questions = report.open_questions;
  about.local_checks = report.local_checks;
  about.compute_checks = report.compute_checks;
  return about;
}

std::string arms_of(std::span<const Run> runs) {
  std::vector<std::string> arms;
  for (const Run& run : runs)
    for (const Result& result : run.report.results)
      if (const Case& c = result.measurement.measured_case;
          !c.for_parts && std::ranges::find(arms, c.arm) == arms.end())
        arms.push_back(c.arm);
  return arms.empty() ? "no measurements" : join(arms);
}

// False also if the path cannot be read.
bool is_folder(const fs::path& path) {
  std::error_code problem;
  return fs::is_directory(path, problem);
}

// Orders paths by their parts, with numbers compared as numbers: runs of the same second, in folders STAMP, STAMP-2,
// ... STAMP-10, then keep their order.
bool comes_before(const std::string& a, const std::string& b) {
  const auto earlier = [](const fs::path& one, const fs::path& other) {
    return ::strverscmp(one.c_str(), other.c_str()) < 0;
  };
  const fs::path one(a), other(b);
  return std::ranges::lexicographical_compare(one, other, earlier);
}

}  // namespace

std::string side_key(const Case& c) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", c.backend, operation_of(c),
                     c.replay ? c.replay->digest : "", c.bytes.count, name_of(c.type), c.op ? name_of(*c.op) : "",
                     root_text(c), c.in_place, describe(c.calls, "|"), c.group, c.ranks, c.nodes);
}

void order_by_launch(std::vector<Run>& runs, const std::string& now) {
  constexpr double a_day = 24.0 * 60 * 60;  // tolerance for wrong time zones and clocks, in s
  const double latest = parse_utc(now).value() + a_day;
  std::map<std::string, double> times{{"", 0}};
  for (const Run& run : runs) {
    const std::string& started = run.report.run.started;
    if (started.empty()) continue;
    const std::optional<double> time = parse_utc(started);
    if (!time || *time > latest)
      throw UsageError(format_printable(
          "'{}' says that it was started at '{}', which {}: no order of runs can be told; correct run.started in its "
          "report.json, or leave it out",
          run.name, started, time ? fmt::format("is after now ({})", now) : "is no time like 2026-11-20T12:00:00Z"));
    times[started] = *time;
  }
  std::ranges::stable_sort(runs, [&](const Run& a, const Run& b) {
    const double one = times.at(a.report.run.started), other = times.at(b.report.run.started);
    return one == other ? comes_before(a.name, b.name) : one < other;
  });
}

std::string_view name_of(Quantity quantity) { return quantity == Quantity::latency ? "latency" : "throughput"; }

std::string_view meaning_of(std::string_view band) {
  if (band == "latency") return "small";
  if (band == "mid") return "middle";
  return band == "bandwidth" ? "large" : band;
}

std::string change(double ratio) { return fmt::format("{:+.1f} %", 100 * (ratio - 1)); }

std::string_view name_of(Answer answer) {
  switch (answer) {
    case Answer::regression:
      return "regression";
    case Answer::no_regression:
      return "no regression";
    case Answer::inconclusive:
      break;
  }
  return "inconclusive";
}

Run read_run(const std::string& path, Reading reading) {
  const fs::path file = is_folder(path) ? fs::path(path) / report_name : fs::path(path);
  std::span<const std::string_view> left_out;
  if (reading == Reading::to_compare) left_out = members_not_compared;
  Run run{.name = path, .report = read_report(file.string(), left_out), .journal = {}};
  // A journal lies beside the report of its run; a report that was copied under another name has none.
  const fs::path journal = file.parent_path() / journal_name;
  if (std::error_code problem; file.filename() == report_name && fs::exists(fs::symlink_status(journal, problem)))
    run.journal = read_journal(journal);
  require_own_journal(run, journal);
  return run;
}

namespace {

struct FoundRuns {
  std::vector<std::string> runs, baselines;  // sorted by name
};

FoundRuns search_for_runs(const std::string& path) {
  std::error_code problem;
  FoundRuns found;
  for (std::vector<fs::path> folders{path}; !folders.empty();) {
    const fs::path folder = std::move(folders.back());
    folders.pop_back();
    fs::directory_iterator entry(folder, problem);
    // Links are not followed, since `latest` links to one of the other folders.
    for (; !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
      const fs::file_status status = entry->symlink_status(problem);
      if (fs::is_directory(status)) folders.push_back(entry->path());
      if (entry->path().filename() != report_name || fs::is_symlink(status)) continue;
      const bool is_baseline = fs::absolute(folder).lexically_normal().parent_path().filename() == "baselines";
      (is_baseline ? found.baselines : found.runs).push_back(entry->path().string());
    }
    if (problem)
      throw UsageError(fmt::format("'{}' cannot be searched for reports ({}); make it readable, or name the reports",
                                   printable(folder.native()), problem.message()));
  }
  std::ranges::sort(found.runs, comes_before);
  std::ranges::sort(found.baselines, comes_before);
  return found;
}

bool is_searched(const std::string& path) {
  if (!is_folder(path)) return false;
  const auto holds = [&](const char* name) {
    std::error_code problem;
    return fs::exists(fs::symlink_status(fs::path(path) / name, problem));
  };
  if (!holds(report_name)) return true;
  if (holds(journal_name)) return false;
  // `p5bench report` writes its report.json into the folder of --out, which may hold runs too.
  const FoundRuns found = search_for_runs(path);
  return found.runs.size() + found.baselines.size() > 1;
}

}  // namespace

std::vector<std::string> find_runs(const std::string& path) {
  if (!is_searched(path)) return {path};
  FoundRuns found = search_for_runs(path);
  if (found.runs.empty()) found.runs = std::move(found.baselines);
  if (found.runs.empty())
    throw UsageError(fmt::format("there is no {} in '{}' or below", report_name, printable(path)));
  return found.runs;
}

std::vector<std::string> find_baselines_beside_runs(const std::string& path) {
  if (!is_searched(path)) return {};
  FoundRuns found = search_for_runs(path);
  return found.runs.empty() ? std::vector<std::string>() : std::move(found.baselines);
}

std::string identity_of(const Run& run) {
  // The same log may be imported a second time, then with --started.
  const std::string started = run.report.provenance == "imported" ? "" : run.report.run.started;
  std::string identity = fmt::format("{}|{}|{}", started, run.report.run.seed, run.report.run.cluster);
  for (const Result& result : run.report.results)
    for (const Figures& kind : kinds)
      if (const std::optional<Series>& series = result.measurement.*kind.series)
        identity += fmt::format("|{} {}", series->summary.median, fmt::join(result.measurement.*kind.medians, " "));
  return identity;
}

bool continues(const Report& later, const Report& earlier) {
  if (earlier.run.started.empty() || later.run.cluster != earlier.run.cluster) return false;
  const std::string begin = fmt::format("{}{} (", continues_run, earlier.run.started);
  return std::ranges::any_of(later.run.remarks, [&](const std::string& each) { return each.starts_with(begin); });
}

// 64 bits of FNV-1a.
static std::string digest_of_figures(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}

// Starts of the runs that a run continues, by its remarks.
static std::vector<std::string> continued_by(const Report& report) {
  std::vector<std::string> starts;
  for (const std::string& remark : report.run.remarks)
    if (remark.starts_with(continues_run))
      starts.push_back(remark.substr(continues_run.size(), remark.find(" (") - continues_run.size()));
  return starts;
}

static bool names_start(const std::vector<std::string>& texts, const std::string& text) {
  return !text.empty() && std::ranges::find(texts, text) != texts.end();
}

std::vector<HeldRun> held_by(const Run& run) {
  const auto runs = static_cast<std::size_t>(runs_of(run));
  if (run.report.run.held.size() == runs) return run.report.run.held;
  if (runs > 1) return std::vector<HeldRun>(runs);
  return {{run.report.run.started, digest_of_figures(identity_of(run)), continued_by(run.report)}};
}

std::vector<std::size_t> held_launches_of(const Report& other, const std::string& identity, const Report& baseline) {
  const bool same_cluster = other.run.cluster == baseline.run.cluster;  // the digest includes it
  std::vector<HeldRun> its = other.run.held;
  if (its.empty()) its.push_back({other.run.started, digest_of_figures(identity), continued_by(other)});
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < baseline.run.held.size(); ++i) {
    const HeldRun& held = baseline.run.held[i];
    const auto is_same = [&](const HeldRun& each) {
      return (!held.digest.empty() && held.digest == each.digest) ||
             (same_cluster && (names_start(held.continued, each.started) || names_start(each.continued, held.started)));
    };
    if (std::ranges::any_of(its, is_same)) found.push_back(i);
  }
  return found;
}

void remove_held(std::span<const std::size_t> held, Run& baseline) {
  const auto is_left_out = [&](int run) {
    return std::ranges::find(held, static_cast<std::size_t>(run)) != held.end();
  };
  std::erase_if(baseline.journal, [&](const Result& line) { return is_left_out(line.measurement.run); });
  for (Result& result : baseline.report.results)
    for (const Figures& kind : kinds) {
      Measurement& m = result.measurement;
      std::vector<double>& medians = m.*kind.medians;
      std::vector<int>& runs = m.*kind.runs;
      if (runs.empty()) runs.assign(medians.size(), 0);  // all are launches of the baseline's first run
      std::vector<double> kept;
      for (std::size_t i = 0; i < std::min(medians.size(), runs.size()); ++i)
        if (!is_left_out(runs[i])) kept.push_back(medians[i]);
      medians = std::move(kept);
      std::erase_if(runs, is_left_out);
      if (medians.empty()) (m.*kind.series).reset();
    }
  std::erase_if(baseline.report.results, [](const Result& result) {
    const Measurement& m = result.measurement;
    return m.outcome == Outcome::measured && !m.latency && !m.throughput;
  });
}

// The start of the run (2: stated, 1: in a log that has no time zone, 0: unknown), and whether the run has samples.
static std::pair<int, bool> how_well_known(const Run& run) {
  const bool has_samples = !run.journal.empty();
  const RunInfo& its = run.report.run;
  if (its.started.empty()) return {0, has_samples};
  const auto is_of_log = [](const std::string& remark) { return remark.starts_with(started_by_log); };
  return {std::ranges::any_of(its.remarks, is_of_log) ? 1 : 2, has_samples};
}

std::vector<std::string> why_repeated(std::span<const Run> runs, bool (*may_count)(const Report&)) {
  std::vector<std::string> why(runs.size());
  std::unordered_map<std::string, const Run*> first;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto later = std::ranges::find_if(runs, [&](const Run& each) {
      return &each != &runs[i] && continues(each.report, runs[i].report) && (!may_count || may_count(each.report));
    });
    const auto [place, fresh] = first.try_emplace(identity_of(runs[i]), &runs[i]);
    if (!fresh && how_well_known(runs[i]) > how_well_known(*place->second)) {
      why[static_cast<std::size_t>(place->second - runs.data())] = "it is a copy of " + runs[i].name;
      place->second = &runs[i];
    } else if (!fresh)
      why[i] = "it is a copy of " + place->second->name;
    else if (later != runs.end())
      why[i] = fmt::format("{} continues it, and has its launches", later->name);
  }
  return why;
}

// Removes the runs that have a reason, with a remark each.
static std::vector<std::string> leave_out(std::vector<Run>& runs, const std::vector<std::string>& why) {
  std::vector<std::string> remarks;
  std::vector<Run> kept;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (why[i].empty())
      kept.push_back(std::move(runs[i]));
    else
      remarks.push_back(format_printable("{} is left out: {}", runs[i].name, why[i]));
  runs = std::move(kept);
  return remarks;
}

std::vector<std::string> leave_out_others(std::vector<Run>& runs, std::string_view arm) {
  std::vector<std::string> why = why_repeated(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Report& report = runs[i].report;
    // A report without results is that of a tuning, or of a run that ended before its first case.
    const bool may_hold_it =
        report.status != "complete" && report.results.empty() && report.arms.empty() && !report.tuning;
    if (why[i].empty() && !may_hold_it && !holds_arm(runs[i], arm))
      why[i] = fmt::format("it holds nothing of the arm '{}'; it has: {}", arm, arms_of({&runs[i], 1}));
  }
  return leave_out(runs, why);
}

std::vector<std::string> leave_out_other_hardware(std::vector<Run>& runs) {
  std::vector<std::string> why;
  for (const Run& run : runs) {
    const std::string hardware = other_hardware({&run.report, 1}, {&runs.back().report, 1}, ", now ");
    why.push_back(hardware.empty() ? ""
                                   : fmt::format("it is of other hardware ({}); --across-hardware keeps it", hardware));
  }
  return leave_out(runs, why);
}

std::vector<std::string> leave_out_other_waiting(std::vector<Run>& runs) {
  std::vector<std::string> why;
  for (const Run& run : runs) why.push_back(other_waiting(run.report, runs.back().report));
  return leave_out(runs, why);
}

Side make_side(std::string name, std::span<const Run> runs, std::string_view arm) {
  Side side{.name = std::move(name), .sources = {}, .identities = {}, .reports = {}, .observations = {}, .remarks = {}};
  std::unordered_map<std::string, std::size_t> places;
  const std::vector<std::string> repeated = why_repeated(runs);
  std::vector<Lines> lines_of_runs(runs.size());
  std::vector<int> made(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!repeated[i].empty()) continue;
    lines_of_runs[i] = lines_of(runs[i], arm);
    made[i] = launches_of(runs[i], arm, lines_of_runs[i]);
  }
  std::vector<int> launches, of_whole_runs;  // numbers of launches, without runs that made none
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (made[i] == 0) continue;
    launches.push_back(made[i]);
    if (runs[i].report.status == "complete") of_whole_runs.push_back(made[i]);
  }
  const int most = lower_median(of_whole_runs.empty() ? launches : of_whole_runs);
  int first_launch = 0, first_run = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Run& run = runs[i];
    if (!repeated[i].empty()) {
      side.remarks.push_back(format_printable("{}: {} does not count: {}", side.name, run.name, repeated[i]));
      continue;
    }
    const int launches_made = made[i];
    const SelectedLaunches chosen(launches_made, most);
    if (!chosen.are_all())
      side.remarks.push_back(format_printable("{}: {} of the {} launches of {} count, so that runs weigh alike",
                                              side.name, chosen.count(), launches_made, run.name));
    side.sources.push_back(run.name);
    side.identities.push_back(identity_of(run));
    side.reports.push_back(without_results(run.report));
    const Lines& lines = lines_of_runs[i];
    const bool no_time_counts = wrong_somewhere(run.report);
    for (const Result& result : run.report.results) {
      const Measurement& m = result.measurement;
      if (!is_compared(result, arm)) continue;
      const std::string key = side_key(m.measured_case);
      const auto [place, fresh] = places.try_emplace(key, side.observations.size());
      if (fresh) side.observations.emplace_back().measured_case = m.measured_case;
      Observation& observation = side.observations[place->second];
      if (m.outcome == Outcome::measured && !m.measured_case.for_parts) {
        const Verdict& v = result.verdict;
        observation.mean_fractions[side.reports.size() - 1] = v.mean_fraction;
        if (v.mean_fraction && v.fraction && m.throughput)
          observation.mean_times_s[side.reports.size() - 1] =
              m.throughput->summary.median * *v.fraction / *v.mean_fraction;
      }
      const auto found = lines.find(key);
      if (m.outcome == Outcome::measured && m.wrong_elements == 0 && !no_time_counts && !m.measured_case.for_parts)
        for (const Figures& kind : kinds)
          for (Launch& launch :
               counted_of(launches_in(m, found == lines.end() ? nullptr : &found->second, kind), chosen)) {
            launch.number += first_launch;
            launch.run += first_run;
            (observation.*kind.launches).push_back(std::move(launch));
          }
      add_trouble(observation, m);
      if (m.selection && std::ranges::find(observation.selections, *m.selection) == observation.selections.end())
        observation.selections.push_back(*m.selection);
    }
    first_launch += launches_made;
    first_run += runs_of(run);
  }
  const auto finished = [](const Report& report) { return report.status == "complete"; };
  if (side.observations.empty() && std::ranges::any_of(side.reports, finished))
    throw UsageError(format_printable("{} ({}) holds nothing of the arm '{}'; it has: {}", side.name,
                                      join(side.sources), arm, arms_of(runs)));
  return side;
}

}  // namespace p5::reports
