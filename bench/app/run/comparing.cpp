#include "bench/app/run/comparing.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "bench/base/environment.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"
#include "reports/atomic_file.hpp"
#include "reports/baseline.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/journal.hpp"
#include "reports/nodes.hpp"
#include "reports/writer.hpp"
#include "topo/finding.hpp"

namespace p5 {

namespace fs = std::filesystem;

std::vector<reports::Run> read_runs(const std::vector<std::string>& paths, reports::Reading reading) {
  std::vector<std::string> found;
  for (const std::string& path : paths)
    for (std::string& run : reports::find_runs(path))
      // The same run given twice would count as two.
      if (std::ranges::find(found, run) == found.end()) found.push_back(std::move(run));
  std::vector<reports::Run> runs;
  for (const std::string& each : found) runs.push_back(reports::read_run(each, reading));
  return runs;
}

std::vector<std::string> remarks_on_baselines(const char* side, const std::vector<std::string>& passed_over) {
  std::vector<std::string> remarks;
  for (const std::string& each : passed_over)
    remarks.push_back(
        format_printable("{}: {} is left out, since the folder has runs, whose launches a baseline "
                         "repeats: name it to compare with it",
                         side, each));
  return remarks;
}

// Removes runs that are no baseline, with a remark each. Throws UsageError if none is left.
static std::vector<std::string> leave_out_unhealthy(std::vector<reports::Run>& runs) {
  std::vector<std::string> remarks;
  std::erase_if(runs, [&](const reports::Run& run) {
    const std::string why = reports::why_no_baseline(run.report);
    if (!why.empty()) remarks.push_back(format_printable("BASELINE: {} is left out: {}", run.name, why));
    return !why.empty();
  });
  if (runs.empty())
    throw UsageError(fmt::format("no run of it is of a healthy machine, such as {}; name healthy runs, or leave it out",
                                 remarks.front().substr(std::string_view("BASELINE: ").size())));
  return remarks;
}

// Removes runs of other hardware than `about`, with a remark each. Throws UsageError if none is left.
static std::vector<std::string> leave_out_others_than(const reports::Report& about, std::vector<reports::Run>& runs) {
  reports::Report here = about;
  // A run that begins has no findings yet.
  std::ranges::move(topo::look(about.topology), std::back_inserter(here.findings));
  std::vector<std::string> remarks;
  std::string first;
  std::erase_if(runs, [&](const reports::Run& run) {
    const std::string hardware = reports::other_hardware({&run.report, 1}, {&here, 1}, ", here ");
    const std::string waiting = reports::other_waiting(run.report, here);
    if (hardware.empty() && waiting.empty()) return false;
    const std::string why = hardware.empty() ? waiting : fmt::format("it is of other hardware ({})", hardware);
    if (first.empty()) first = why;
    remarks.push_back(format_printable("BASELINE: {} is left out: {}", run.name, why));
    return true;
  });
  if (runs.empty()) throw UsageError(first);
  return remarks;
}

// Removes a run that is compared with the others, and what it continues, with a remark, unless there is no other: then
// it throws UsageError if there is a baseline beside the runs to take instead. It removes the run's launches from a
// baseline that holds it.
static std::vector<std::string> leave_out_itself(const reports::Run* fresh, std::vector<reports::Run>& runs,
                                                 bool has_baseline_beside) {
  if (!fresh) return {};
  const std::string identity = reports::identity_of(*fresh);
  const auto held_in = [&](const reports::Run& run) {
    return reports::held_launches_of(fresh->report, identity, run.report);
  };
  const auto is_same = [&](const reports::Run& run) {
    return reports::identity_of(run) == identity || continues(fresh->report, run.report) ||
           (!run.report.run.held.empty() && held_in(run).size() == run.report.run.held.size());
  };
  const auto is_part = [&](const reports::Run& run) { return is_same(run) || !held_in(run).empty(); };
  if (std::ranges::none_of(runs, is_part)) return {};
  if (std::ranges::all_of(runs, is_same)) {
    if (has_baseline_beside)
      throw UsageError(fmt::format("their launches are those that are compared ({})", runs.front().name));
    return {format_printable("The same run is on both sides: {}", runs.front().name)};
  }
  std::vector<std::string> remarks;
  std::erase_if(runs, [&](reports::Run& run) {
    const bool same = is_same(run);
    const std::vector<std::size_t> held = same ? std::vector<std::size_t>() : held_in(run);
    if (same)
      remarks.push_back(
          format_printable("BASELINE: {} is left out: its launches are those that are compared", run.name));
    if (held.empty()) return same;
    remarks.push_back(
        format_printable("BASELINE: {} is without {} of its {} runs, whose launches are those that are compared",
                         run.name, held.size(), run.report.run.held.size()));
    reports::remove_held(held, run);
    return false;
  });
  return remarks;
}

static reports::Side baseline_of(const std::vector<std::string>& paths, const reports::Report& about,
                                 const reports::Run* fresh, bool has_baseline_beside,
                                 std::vector<std::string> remarks) {
  std::vector<reports::Run> runs = read_runs(paths, reports::Reading::to_compare);
  std::ranges::move(leave_out_unhealthy(runs), std::back_inserter(remarks));
  std::ranges::move(leave_out_others_than(about, runs), std::back_inserter(remarks));
  std::ranges::move(leave_out_itself(fresh, runs, has_baseline_beside), std::back_inserter(remarks));
  reports::Side base = reports::make_side("BASELINE", runs);
  base.remarks.insert(base.remarks.end(), remarks.begin(), remarks.end());
  return base;
}

reports::Side read_baseline(const std::string& path, const reports::Report& about, const reports::Run* fresh) {
  std::vector<std::string> baselines;
  try {
    baselines = reports::find_baselines_beside_runs(path);
    return baseline_of({path}, about, fresh, !baselines.empty(), remarks_on_baselines("BASELINE", baselines));
  } catch (const UsageError& problem) {
    if (baselines.empty()) throw UsageError(fmt::format("--baseline: {}", problem.what()));
    try {
      return baseline_of(baselines, about, fresh, false,
                         {format_printable("BASELINE: the runs of {} are left out: {}", path, problem.what())});
    } catch (const UsageError& second) {
      throw UsageError(fmt::format("--baseline: {}", second.what()));
    }
  }
}

std::vector<fs::path> write_comparison(const reports::Comparison& comparison, const std::vector<std::string>& formats,
                                       const fs::path& folder) {
  std::vector<fs::path> written;
  for (const std::string& format : formats) {
    const reports::Writer& writer = reports::find_writer(format);
    if (!writer.render_comparison || writer.suffix.empty()) continue;
    reports::make_folder(folder);
    written.push_back(folder / writer.file_name("comparison"));
    reports::check_writable(written.back());
    reports::write_atomically(written.back(), writer.render_comparison(comparison));
  }
  return written;
}

namespace {

// Variables that each worker reports for itself. An arm's values replace the job's own.
bool is_arm_variable(const std::string& key) {
  constexpr std::array prefixes{"env.NCCL_", "env.FI_",  "env.OFI_NCCL_",
                                "env.CUDA_", "env.UCX_", "env.LD_LIBRARY_PATH"};
  return std::ranges::any_of(prefixes, [&](const char* prefix) { return key.starts_with(prefix); });
}

std::string settings_text(const reports::ArmInfo& arm) {
  std::vector<std::string> settings;
  for (const auto& [name, value] : arm.settings) settings.push_back(name + "=" + value);
  return settings.empty() ? "nothing set" : join(settings, ",");
}

// The report reduced to one arm.
reports::Side side_of(const reports::Report& report, const std::vector<reports::Result>& journal,
                      const reports::ArmInfo& arm, const std::string& role) {
  reports::Run run{
      .name = fmt::format("arm {}: {}", arm.name, settings_text(arm)), .report = report, .journal = journal};
  std::map<std::string, std::string>& context = run.report.context;
  std::erase_if(context, [](const auto& entry) { return is_arm_variable(entry.first); });
  for (const auto& [name, value] : arm.settings)
    if (!value.empty()) context["env." + name] = value;
  for (const auto& [name, value] : arm.context) context[name] = value;
  return reports::make_side(role, {&run, 1}, arm.name);
}

// Warns if an arm sets LD_LIBRARY_PATH but both arms loaded the same libraries: the path may be misspelt.
std::vector<std::string> library_path_warnings(const reports::Report& report) {
  std::vector<std::string> found;
  const auto libraries = [](const reports::ArmInfo& arm) { return value_or_empty(arm.context, "libraries"); };
  for (const reports::ArmInfo& arm : report.arms)
    if (arm.settings.contains("LD_LIBRARY_PATH") && !libraries(arm).empty() &&
        libraries(report.arms.front()) == libraries(report.arms.back()))
      found.push_back(fmt::format("Arm {} names LD_LIBRARY_PATH={}, but both arms loaded the same libraries: {}",
                                  arm.name, arm.settings.at("LD_LIBRARY_PATH"), libraries(arm)));
  return found;
}

// The result of a call on files. Throws EnvironmentError where their file system does not answer; other ranks wait for
// this limit, and for that of all files of the run.
template <class Result>
Result on_files_of(const fs::path& folder, std::function<Result()> call) {
  constexpr Seconds limit{60};
  std::optional<Result> result = call_within<Result>(limit, std::move(call));
  if (!result) throw EnvironmentError(fmt::format("'{}': its file system does not answer", folder.string()));
  return *std::move(result);
}

void write_comparison_files(reports::Comparison& comparison, const reports::Report& report, const Options& options,
                            const std::filesystem::path& folder) {
  comparison.made = report.run.ended;
  std::vector<std::string> formats = options.formats;
  if (!options.wants("json")) formats.emplace_back("json");
  on_files_of<bool>(folder, [comparison, formats, folder] {
    write_comparison(comparison, formats, folder);
    return true;
  });
}

// Turns an exception into the comparison's text and exit code. An answer that cannot be saved stands.
void attempt(ComparisonOutput& compared, const std::string& failure, ExitCode code,
             const std::function<void()>& compare) try {
  compare();
} catch (const std::exception& problem) {
  compared.code = worse(compared.code, compared.text.empty() ? code : ExitCode::unfinished);
  compared.text +=
      fmt::format("{}: {}\n", compared.text.empty() ? failure : "The comparison is not saved", describe(problem));
}

}  // namespace

std::optional<reports::Comparison> compare_arms(const reports::Report& report,
                                                const std::vector<reports::Result>& journal, std::string& why_not) {
  try {
    const reports::ArmInfo &a = report.arms.at(0), &b = report.arms.at(1);
    reports::Comparison comparison =
        reports::compare(side_of(report, journal, a, "BASE"), side_of(report, journal, b, "NEW"),
                         {.seed = report.run.seed, .base_counts = true, .one_run = true});
    std::ranges::move(library_path_warnings(report), std::back_inserter(comparison.remarks));
    return comparison;
  } catch (const UsageError& problem) {
    why_not = problem.what();
    return std::nullopt;
  }
}

ComparisonOutput compare_own_arms(const reports::Report& report, const std::vector<reports::Result>& journal,
                                  const Options& options, const std::filesystem::path& folder) {
  ComparisonOutput compared;
  attempt(compared, "The arms cannot be compared", ExitCode::unfinished, [&] {
    std::string why_not;
    std::optional<reports::Comparison> comparison = compare_arms(report, journal, why_not);
    if (!comparison) throw UsageError(why_not);
    compared.code = comparison->exit_code;
    compared.headline = comparison->headline;
    compared.text = reports::render_console(*comparison);
    write_comparison_files(*comparison, report, options, folder);
  });
  return compared;
}

ComparisonOutput compare_with_baseline(const reports::Side& baseline, const reports::Report& report,
                                       const Options& options, const std::filesystem::path& folder) {
  ComparisonOutput compared;
  attempt(compared, "This run cannot be compared with the baseline", ExitCode::inconclusive, [&] {
    // The report on the disk is that of an unfinished run until all other files are written.
    const fs::path journal = folder / reports::journal_name;
    std::vector<reports::Run> runs{{.name = folder.string(), .report = report, .journal = {}}};
    using Results = decltype(reports::read_journal(journal));
    const auto read = [journal] { return fs::exists(journal) ? reports::read_journal(journal) : Results(); };
    if (!folder.empty()) runs.front().journal = on_files_of<Results>(folder, read);
    reports::Comparison comparison =
        reports::compare(baseline, reports::make_side("NEW", runs), {.seed = report.run.seed});
    compared.code = comparison.exit_code;
    compared.headline = comparison.headline;
    compared.text = options.quiet ? comparison.headline + "\n" : "\n" + reports::render_console(comparison);
    write_comparison_files(comparison, report, options, folder);
  });
  if (compared.headline.empty() && report.arms.empty())
    compared.headline = fmt::format("{}: they cannot be compared", reports::inconclusive_headline);
  return compared;
}

std::string closing_text(const reports::Report& report, const Options& options, const std::string& comparison) {
  if (options.prints_json())
    return to_json(report).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (options.checks()) return reports::render_nodes(report, options.quiet);
  const bool whole = !options.quiet && options.wants("console");
  const std::string decision = report.decision.sentence + "\n";
  if (!comparison.empty())
    return decision + (whole ? reports::render_outline(report) + "\n" + comparison
                             : comparison.substr(comparison.rfind('\n', comparison.size() - 2) + 1));
  if (whole) return options.table ? reports::render_table(report) : reports::render_console(report);
  return decision;
}

}  // namespace p5
