// p5bench compare BASE NEW: did anything get slower? p5bench baseline REPORT...: combines launches of healthy runs for
// later comparisons. They read reports and measure nothing.
#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <future>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/app/commands/commands.hpp"
#include "bench/app/run/comparing.hpp"
#include "bench/app/run/run_folder.hpp"
#include "bench/base/console.hpp"
#include "bench/base/input.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "reports/atomic_file.hpp"
#include "reports/baseline.hpp"
#include "reports/markup.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;

reports::Side read_side(const char* name, const std::vector<std::string>& paths, const std::string& arm) {
  reports::Side side = reports::make_side(name, read_runs(paths, reports::Reading::to_compare), arm);
  for (const std::string& path : paths)
    std::ranges::move(remarks_on_baselines(name, reports::find_baselines_beside_runs(path)),
                      std::back_inserter(side.remarks));
  return side;
}

// The first run of NEW that is also in BASE, under any name, as a copy or continued; "": none.
std::string on_both_sides(const reports::Side& base, const reports::Side& fresh) {
  for (std::size_t i = 0; i < fresh.identities.size(); ++i)
    for (std::size_t k = 0; k < base.identities.size(); ++k) {
      const reports::Report &one = base.reports[k], &other = fresh.reports[i];
      const bool held = !reports::held_launches_of(other, fresh.identities[i], one).empty() ||
                        !reports::held_launches_of(one, base.identities[k], other).empty();
      if (base.identities[k] != fresh.identities[i] && !continues(one, other) && !continues(other, one) && !held)
        continue;
      const std::string &name = base.sources[k], &also = fresh.sources[i];
      return name == also ? name : fmt::format("{}, {}", name, also);
    }
  return "";
}

constexpr std::string_view same_run = "The same run is on both sides";

// The answer alone, with what it means less by.
std::string answer_line(const reports::Comparison& comparison) {
  const bool is_same =
      std::ranges::any_of(comparison.remarks, [](const std::string& each) { return each.starts_with(same_run); });
  const bool is_real = comparison.provenance == "measured" || comparison.provenance == "imported";
  return printable(comparison.headline) + (is_same ? " (the same run is on both sides)" : "") +
         (is_real ? "" : ", " + upper_case(comparison.provenance)) + "\n";
}

reports::Comparison compare_sides(const Options& options, const reports::ComparisonOptions& how) {
  // Reading takes most of the time. If no thread can start, the sides are read in sequence.
  std::future<reports::Side> base =
      std::async(std::launch::async | std::launch::deferred, read_side, "BASE", options.base_files, options.base_arm);
  const reports::Side fresh = read_side("NEW", options.new_files, options.new_arm), before = base.get();
  reports::Comparison comparison = reports::compare(before, fresh, how);
  const std::string shared = options.base_arm == options.new_arm ? on_both_sides(before, fresh) : "";
  if (!shared.empty()) comparison.remarks.push_back(fmt::format("{}: {}", same_run, shared));
  return comparison;
}

// The newest runs of a history by folder name, newest first, in groups that are read one after the other: limited in
// number and bytes, so that reading takes seconds.
class NewestRuns {
 public:
  explicit NewestRuns(std::vector<std::string> runs) : left_(std::move(runs)), found_(left_.size()) {
    std::ranges::stable_sort(left_, {}, [](const std::string& run) { return fs::path(run).parent_path().filename(); });
  }

  // At least `least`, and as many more as the limits allow.
  std::vector<std::string> next(std::size_t least) {
    constexpr std::uintmax_t most_bytes = std::uintmax_t{256} << 20;
    std::vector<std::string> group;
    while (!left_.empty() && taken_ < most_runs) {
      const fs::path folder = fs::path(left_.back()).parent_path();
      for (const char* name : {"report.json", "measurements.jsonl"}) {
        std::error_code problem;
        if (const std::uintmax_t size = fs::file_size(folder / name, problem); !problem) bytes_ += size;
      }
      if (group.size() >= least && bytes_ > most_bytes) break;
      group.push_back(std::move(left_.back()));
      left_.pop_back();
      ++taken_;
    }
    return group;
  }
  // "Of 203 runs the newest 200, by the names of their folders, are compared"; "" where all were taken.
  std::string remark() const {
    if (taken_ == found_) return "";
    return fmt::format("Of {} runs the newest {}, by the names of their folders, are compared", found_, taken_);
  }

 private:
  static constexpr std::size_t most_runs = 200;
  std::vector<std::string> left_;  // the newest last
  std::size_t found_, taken_ = 0;
  std::uintmax_t bytes_ = 0;
};

// The run to which the folder's link to the latest run leads, if it is one of these and not the last; null otherwise. A
// clock that was set back puts a new run before older ones.
const reports::Run* later_by_link(const std::string& folder, std::span<const reports::Run> ordered) {
  std::error_code problem;
  const fs::path latest = fs::canonical(fs::path(folder) / "latest", problem);
  if (problem) return nullptr;
  const auto found = std::ranges::find_if(ordered, [&](const reports::Run& run) {
    return fs::canonical(fs::path(run.name).parent_path(), problem) == latest;
  });
  return found == ordered.end() || &*found == &ordered.back() ? nullptr : &*found;
}

bool is_undated(const reports::Run& run) { return run.report.run.started.empty(); }

// Removes runs that do not say when they were started, with a remark each. Throws UsageError where fewer than two runs
// say it: the newest is unknown then.
std::vector<std::string> leave_out_undated(std::vector<reports::Run>& runs, const std::string& history) {
  const auto undated = std::ranges::find_if(runs, is_undated);
  if (undated == runs.end()) return {};
  const auto way = [](const reports::Run& run) {
    return run.report.provenance == "imported" ? "import nccl-tests --started TIME" : "run.started in that report";
  };
  constexpr std::ptrdiff_t fewest_dated = 2;
  if (std::ssize(runs) - std::ranges::count_if(runs, is_undated) < fewest_dated)
    throw UsageError(format_printable(
        "'{}' does not say when it was started, so the newest run of '{}' is unknown: name the sides with --base and "
        "--new, or say it ({})",
        undated->name, history, way(*undated)));
  std::vector<std::string> remarks;
  for (const reports::Run& run : runs)
    if (is_undated(run))
      remarks.push_back(
          format_printable("{} is left out: it does not say when it was started ({} says it)", run.name, way(run)));
  std::erase_if(runs, is_undated);
  return remarks;
}

// Compares the newest run with earlier ones.
reports::Comparison compare_history(const Options& options, const reports::ComparisonOptions& how) {
  if (options.base_arm != options.new_arm)
    throw UsageError("--history compares runs of one arm: give --base-arm and --new-arm the same name");
  NewestRuns newest(reports::find_runs(options.history));
  std::vector<reports::Run> runs;
  std::vector<std::string> left_out;
  // Runs that are left out may be the only ones within the limit of bytes.
  constexpr std::size_t fewest = 2;
  const auto dated = [&] { return runs.size() - static_cast<std::size_t>(std::ranges::count_if(runs, is_undated)); };
  do {
    std::vector<reports::Run> more = read_runs(newest.next(fewest - dated()), reports::Reading::to_compare);
    if (more.empty()) break;
    std::ranges::move(more, std::back_inserter(runs));
    reports::order_by_launch(runs, utc_now());
    std::ranges::move(reports::leave_out_others(runs, options.new_arm), std::back_inserter(left_out));
    std::ranges::move(reports::leave_out_other_waiting(runs), std::back_inserter(left_out));
    if (!options.across_hardware)
      std::ranges::move(reports::leave_out_other_hardware(runs), std::back_inserter(left_out));
  } while (dated() < fewest);
  if (const std::string limited = newest.remark(); !limited.empty()) left_out.push_back(limited);
  if (runs.size() < fewest)
    throw UsageError(fmt::format("'{}' holds {}; a history needs two or more{}", options.history,
                                 runs.empty() ? "no run" : "one run",
                                 left_out.empty() ? "" : " (" + join(left_out, "; ") + ")"));
  std::ranges::move(leave_out_undated(runs, options.history), std::back_inserter(left_out));
  const std::span<const reports::Run> all = runs;
  reports::Comparison comparison =
      reports::compare(reports::make_side("BASE", all.first(all.size() - 1), options.base_arm),
                       reports::make_side("NEW", all.last(1), options.new_arm), how);
  comparison.remarks.insert(comparison.remarks.end(), left_out.begin(), left_out.end());
  reports::add_trend(comparison, reports::trend_of(all, options.new_arm));
  if (const reports::Run* const later = later_by_link(options.history, all))
    comparison.remarks.push_back(
        format_printable("NEW is the run that started last, by its report; the link `latest` leads to {}, started {}: "
                         "if a clock was set "
                         "back, correct run.started in that report.json",
                         later->name, later->report.run.started));
  return comparison;
}

// True unless the folder's comparison is one of `compare`, which may be replaced: that of a run, of its arms or with
// its baseline, is made as the run ends.
bool has_own_comparison(const fs::path& folder) try {
  const fs::path file = folder / reports::find_writer("json").file_name("comparison");
  std::error_code problem;
  if (!fs::exists(file, problem)) return false;
  const nlohmann::json comparison = read_json_input(file, largest_journal, ""),
                       report = read_json_input(folder / "report.json", largest_journal, "");
  const nlohmann::json& made = comparison.at("made");
  return made.is_null() || made == report.at("run").at("ended");
} catch (const std::exception&) {
  return true;  // nothing shows that it may be replaced
}

}  // namespace

ExitCode compare_command(const Request& request) {
  if (!request.control.is_leader()) return ExitCode::ok;
  const Options& options = request.options;
  const std::vector<std::string> formats =
      options.given.contains("--format") ? options.formats : std::vector<std::string>{"console"};
  for (const std::string& format : formats)
    if (!reports::find_writer(format).render_comparison)
      throw UsageError(fmt::format("--format {} is for a report, not for a comparison", format));
  const bool has_own = has_own_comparison(options.out);
  for (const std::string& format : formats)
    if (const reports::Writer& writer = reports::find_writer(format); has_own && !writer.suffix.empty())
      require_no_file_of_run("--out", fs::path(options.out) / writer.file_name("comparison"));
  const reports::ComparisonOptions how{.seed = options.seed.value_or(1),
                                       .across_hardware = options.across_hardware,
                                       .base_counts = options.history.empty(),
                                       .history = !options.history.empty()};
  reports::Comparison comparison =
      options.history.empty() ? compare_sides(options, how) : compare_history(options, how);
  comparison.made = utc_now();
  std::string text;
  if (std::ranges::find(formats, "console") != formats.end())
    text = options.quiet ? answer_line(comparison) : reports::render_console(comparison);
  ExitCode code = comparison.exit_code;
  try {
    for (const std::filesystem::path& path : write_comparison(comparison, formats, options.out))
      if (!options.quiet || text.empty()) text += printable(path.string()) + "\n";
  } catch (const EnvironmentError& problem) {
    // The answer is known, and is printed whatever cannot be written.
    print_error(fmt::format("{}. {}; or name another --out", problem.what(), disk_remedy));
    if (text.empty()) text = answer_line(comparison);
    code = worse(code, ExitCode::environment);
  }
  return print_result_for(code, text);
}

namespace {

// The name from the options, else from the newest report, which may come from anywhere.
std::string name_of_baseline(const Options& options, const reports::Baseline& baseline) {
  if (!options.cluster.empty()) return options.cluster;
  const std::string& cluster = baseline.report.run.cluster;
  if (const std::string objection = folder_name_error(cluster); !objection.empty())
    throw UsageError(
        fmt::format("run.cluster of {}: {}, or name the baseline with --cluster", baseline.newest, objection));
  return cluster;
}

// An existing baseline may be in use, or be an input of this one, so it is not replaced.
fs::path folder_of_baseline(const Options& options, const std::string& name) {
  // Outside the cluster's runs, because it is not part of their history.
  const fs::path folder = fs::path(options.out) / "baselines" / name;
  if (fs::exists(folder / "report.json"))
    throw UsageError(fmt::format("'{}' is there already; move it, or name another --out or --cluster",
                                 (folder / "report.json").string()));
  return folder;
}

}  // namespace

ExitCode baseline_command(const Request& request) {
  if (!request.control.is_leader()) return ExitCode::ok;
  const reports::Baseline baseline =
      reports::make_baseline(read_runs(request.options.baseline_files, reports::Reading::whole), utc_now());
  const fs::path folder = folder_of_baseline(request.options, name_of_baseline(request.options, baseline));
  std::string journal;
  for (const reports::Result& line : baseline.journal)
    journal += to_json(line, true).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  reports::make_folder(folder);
  for (const char* const name : {"measurements.jsonl", "report.json"}) reports::check_writable(folder / name);
  reports::write_atomically(folder / "measurements.jsonl", journal);
  reports::write_atomically(folder / "report.json", reports::render_json(baseline.report));
  std::string text;
  for (const std::string& remark : baseline.report.run.remarks) text += printable(remark) + "\n";
  const int launches = baseline.report.run.launches;
  text += fmt::format("{}, up to {} {} each. Baseline: {}\n", reports::counted(baseline.report.results.size(), "case"),
                      launches, launches == 1 ? "launch" : "launches", printable(folder.string()));
  return print_result_for(ExitCode::ok, text);
}

}  // namespace p5
