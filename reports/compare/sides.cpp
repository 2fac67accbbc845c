// From files to the two sides of a comparison: reports, the journals beside them, and one observation for each case.
#include <algorithm>
#include <array>
#include <filesystem>
#include <unordered_map>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "reports/compare/comparison.hpp"
#include "reports/journal.hpp"

namespace p5::reports {

namespace fs = std::filesystem;

namespace {

constexpr const char* report_name = "report.json";
constexpr const char* journal_name = "measurements.jsonl";

// What of a case tells it from others on its own side; arm and settings are the caller's choice.
std::string key_of(const Case& c) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", c.backend, operation_of(c), c.bytes.count, name_of(c.type),
                     c.op ? name_of(*c.op) : "", c.root.value_or(-1), c.in_place, c.cuda_graph, c.registration, c.group,
                     c.ranks, c.nodes);
}

// The journal's lines of one case, by launch. A case that was measured again replaces what it left before.
using Lines = std::unordered_map<std::string, std::vector<const Measurement*>>;

Lines lines_of(const Run& run, std::string_view arm) {
  Lines lines;
  for (const Result& result : run.journal) {
    const Measurement& m = result.measurement;
    if (m.measured_case.arm != arm) continue;
    std::vector<const Measurement*>& launches = lines[key_of(m.measured_case)];
    const auto launch = static_cast<std::size_t>(m.launch.value_or(0));
    if (launches.size() <= launch) launches.resize(launch + 1);
    launches[launch] = &m;
  }
  return lines;
}

struct Figures {
  std::optional<Series> Measurement::*series;
  std::vector<double> Measurement::*medians;
  std::vector<Launch> Observation::*launches;
};
constexpr std::array kinds{Figures{&Measurement::latency, &Measurement::latency_launches_s, &Observation::latency},
                           Figures{&Measurement::throughput, &Measurement::launches_s, &Observation::throughput}};

// From the journal, which knows launches by their number: one in which the case was not measured leaves a gap. False
// when it has none.
bool add_lines(Observation& observation, const std::vector<const Measurement*>& lines, const Figures& kind,
               int first_launch) {
  bool found = false;
  for (std::size_t launch = 0; launch < lines.size(); ++launch) {
    if (!lines[launch] || !(lines[launch]->*kind.series)) continue;
    const Series& series = *(lines[launch]->*kind.series);
    (observation.*kind.launches)
        .push_back({.number = first_launch + static_cast<int>(launch),
                    .median_s = series.summary.median,
                    .samples_s = series.samples,
                    .interval = series.summary.interval});
    found = true;
  }
  return found;
}

void add_launches(Observation& observation, const Measurement& m, const std::vector<const Measurement*>* lines,
                  const Figures& kind, int first_launch) {
  const std::optional<Series>& series = m.*kind.series;
  if (!series) return;
  if (lines && add_lines(observation, *lines, kind, first_launch)) return;
  std::vector<double> medians = m.*kind.medians;
  // One launch, in a report from before launches of latency were kept.
  if (medians.empty()) medians = {series->summary.median};
  for (std::size_t i = 0; i < medians.size(); ++i) {
    Launch launch;
    launch.number = first_launch + static_cast<int>(i);
    launch.median_s = medians[i];
    if (medians.size() == 1) {
      launch.samples_s = series->samples;
      launch.interval = series->summary.interval;
    }
    (observation.*kind.launches).push_back(std::move(launch));
  }
}

void add_trouble(Observation& observation, const Measurement& m) {
  if (m.wrong_elements > 0) {
    observation.wrong_data = true;
    observation.trouble = fmt::format("{} wrong {}", m.wrong_elements, m.wrong_elements == 1 ? "element" : "elements");
  } else if (m.outcome == Outcome::failed && observation.trouble.empty()) {
    observation.trouble = m.because.empty() ? "it failed" : m.because;
  }
}

int launches_of(const Run& run, std::string_view arm) {
  auto most = static_cast<std::size_t>(std::max(run.report.run.launches, 1));
  for (const Result& result : run.report.results)
    if (result.measurement.measured_case.arm == arm)
      most = std::max({most, result.measurement.launches_s.size(), result.measurement.latency_launches_s.size()});
  return static_cast<int>(most);
}

Report without_results(const Report& report) {
  Report about;
  about.status = report.status;
  about.provenance = report.provenance;
  about.grade = report.grade;
  about.exit_code = report.exit_code;
  about.run = report.run;
  about.context = report.context;
  about.topology = report.topology;
  about.findings = report.findings;
  return about;
}

std::string arms_of(std::span<const Run> runs) {
  std::vector<std::string> arms;
  for (const Run& run : runs)
    for (const Result& result : run.report.results)
      if (const std::string& arm = result.measurement.measured_case.arm; std::ranges::find(arms, arm) == arms.end())
        arms.push_back(arm);
  return join(arms);
}

}  // namespace

std::string_view name_of(Quantity quantity) { return quantity == Quantity::latency ? "latency" : "throughput"; }

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

Run read_run(const std::string& path) {
  const fs::path file = fs::is_directory(path) ? fs::path(path) / report_name : fs::path(path);
  Run run{.name = path, .report = read_report(file.string()), .journal = {}};
  // A journal lies beside the report of its run; a report that was copied elsewhere under another name has none.
  const fs::path journal = file.parent_path() / journal_name;
  if (file.filename() == report_name && fs::exists(journal)) run.journal = read_journal(journal);
  return run;
}

std::vector<std::string> find_runs(const std::string& path) {
  if (!fs::is_directory(path) || fs::exists(fs::path(path) / report_name)) return {path};
  std::vector<std::string> found;
  std::error_code problem;
  // Links are not followed: `latest` is one of the others.
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path, problem))
    if (entry.path().filename() == report_name && !entry.is_symlink()) found.push_back(entry.path().string());
  if (found.empty()) throw UsageError(fmt::format("there is no {} in '{}' or below", report_name, path));
  std::ranges::sort(found);
  return found;
}

Side make_side(std::string name, std::span<const Run> runs, std::string_view arm) {
  Side side{.name = std::move(name), .sources = {}, .reports = {}, .observations = {}};
  std::unordered_map<std::string, std::size_t> places;
  int first_launch = 0;
  for (const Run& run : runs) {
    side.sources.push_back(run.name);
    side.reports.push_back(without_results(run.report));
    const Lines lines = lines_of(run, arm);
    for (const Result& result : run.report.results) {
      const Measurement& m = result.measurement;
      if (m.measured_case.arm != arm) continue;
      const std::string key = key_of(m.measured_case);
      const auto [place, fresh] = places.try_emplace(key, side.observations.size());
      if (fresh) side.observations.emplace_back().measured_case = m.measured_case;
      Observation& observation = side.observations[place->second];
      const auto found = lines.find(key);
      if (m.outcome == Outcome::measured)
        for (const Figures& kind : kinds)
          add_launches(observation, m, found == lines.end() ? nullptr : &found->second, kind, first_launch);
      add_trouble(observation, m);
      if (m.selection && std::ranges::find(observation.selections, *m.selection) == observation.selections.end())
        observation.selections.push_back(*m.selection);
    }
    first_launch += launches_of(run, arm);
  }
  if (side.observations.empty())
    throw UsageError(fmt::format("{} ({}) holds nothing of the arm '{}'; it has: {}", side.name, join(side.sources),
                                 arm, arms_of(runs).empty() ? "no measurements" : arms_of(runs)));
  return side;
}

}  // namespace p5::reports
