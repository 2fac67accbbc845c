// p5bench report FILE: renders a report.json again. p5bench import nccl-tests LOG: a report from another benchmark's
// output, in a folder like that of a run.
#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/app/commands/commands.hpp"
#include "bench/app/run/comparing.hpp"
#include "bench/app/run/run_folder.hpp"
#include "bench/base/console.hpp"
#include "bench/base/input.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "reports/atomic_file.hpp"
#include "reports/baseline.hpp"
#include "reports/decision.hpp"
#include "reports/journal.hpp"
#include "reports/markup.hpp"
#include "reports/nccl_tests.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;

// A folder of a run means the report in it.
std::string report_in(const std::string& path) {
  std::error_code problem;
  if (!fs::is_directory(path, problem)) return path;
  std::vector<std::string> runs = reports::find_runs(path);  // includes the folder itself
  // A report of the folder itself, beside runs below, is a copy that this command wrote before.
  const std::string own = (fs::path(path) / "report.json").string();
  if (runs.size() > 1) std::erase(runs, own);
  if (runs.size() > 1)
    throw UsageError(fmt::format("'{}' holds {} runs; name one of them, such as '{}'", path, runs.size(),
                                 fs::path(runs.back()).parent_path().string()));
  return runs.front() == path ? own : runs.front();
}

// Adds samples for the HTML page. An unreadable journal only means a page without samples.
void add_samples_beside(const fs::path& file, reports::Report& report) {
  const fs::path journal = file.parent_path() / reports::journal_name;
  std::error_code problem;
  if (file.filename() != "report.json" || !fs::exists(fs::symlink_status(journal, problem))) return;
  try {
    reports::add_samples(reports::read_journal(journal), report);
  } catch (const UsageError& unreadable) {
    print_error(fmt::format("the page has no samples: {}", unreadable.what()));
  }
}

// The journal of a run belongs to the report beside it: a report of another run is not written there.
void check_folder_of_report(const fs::path& folder, const fs::path& file) {
  std::error_code problem;
  if (!fs::exists(fs::symlink_status(folder / reports::journal_name, problem))) return;
  if (fs::equivalent(folder, fs::absolute(file).parent_path(), problem)) return;
  throw UsageError(
      fmt::format("--out: '{}' is the folder of another run, whose report this would replace; name another",
                  printable(folder.string())));
}

}  // namespace

ExitCode report_command(const Request& request) {
  if (!request.control.is_leader()) return ExitCode::ok;
  const Options& options = request.options;
  const std::string file = report_in(options.report_file);
  const bool page = options.report_as == "html" || (options.given.contains("--format") && options.wants("html"));
  if (options.given.contains("--out")) check_folder_of_report(options.out, file);
  reports::Report report = reports::read_report(file);
  if (page) add_samples_beside(file, report);
  if (!options.report_as.empty()) {
    const bool table = options.table && options.report_as == "console";
    return print_result_for(
        ExitCode::ok, reports::coloured_for_terminal(table ? reports::render_table(report)
                                                           : reports::find_writer(options.report_as).render(report)));
  }
  std::optional<reports::Comparison> comparison;
  if (!options.baseline.empty()) {
    const std::vector<reports::Run> runs{reports::read_run(file, reports::Reading::to_compare)};
    const reports::Side baseline = read_baseline(options.baseline, report, &runs.front());
    reports::add_baseline(baseline, report);
    comparison = reports::compare(baseline, reports::make_side("NEW", runs), {.seed = options.seed.value_or(1)});
    reports::withdraw_baseline_answer(report);
    reports::add_baseline_answer(comparison->headline, comparison->exit_code, report);  // as at the end of a run
  }
  // By default prints to the terminal, which overwrites nothing.
  const std::vector<std::string> formats =
      options.given.contains("--format") ? options.formats : std::vector<std::string>{"console"};
  std::string text;
  bool failed = false;
  // The answer of a comparison is known, and is printed whatever cannot be written.
  const auto attempt = [&](const auto& write) {
    try {
      if (!failed) write();
    } catch (const EnvironmentError& problem) {
      if (!comparison) throw;
      print_error(fmt::format("{}. {}; or name another --out", problem.what(), disk_remedy));
      failed = true;
    }
  };
  for (const std::string& format : formats) {
    const reports::Writer& writer = reports::find_writer(format);
    if (writer.suffix.empty()) {
      text += options.table ? reports::render_table(report) : writer.render(report);
      continue;
    }
    attempt([&] {
      const std::filesystem::path path = std::filesystem::path(options.out) / writer.file_name("report");
      reports::make_folder(options.out);
      reports::check_writable(path);
      reports::write_atomically(path, writer.render(report));
      text += printable(path.string()) + "\n";
    });
  }
  if (!comparison) return print_result_for(ExitCode::ok, reports::coloured_for_terminal(text));
  const bool on_console = std::ranges::find(formats, "console") != formats.end();
  if (on_console) text += "\n" + reports::render_console(*comparison);
  attempt([&] {
    for (const std::filesystem::path& path : write_comparison(*comparison, formats, options.out))
      text += printable(path.string()) + "\n";
  });
  if (failed && !on_console) text += printable(comparison->headline) + "\n";
  return print_result_for(failed ? worse(comparison->exit_code, ExitCode::environment) : comparison->exit_code, text);
}

namespace {

namespace fs = std::filesystem;

reports::nccl_tests::Imported read(const Options& options, const std::string& cluster) {
  const std::string& file = options.import_files.front();
  constexpr const char* remedy = "name a file that nccl-tests left, or - for stdin";
  const std::string text =
      file == "-" ? read_standard_input(largest_json, remedy) : read_input(file, largest_json, remedy);
  try {
    reports::nccl_tests::Imported imported = reports::nccl_tests::import(
        text, options.import_collective, cluster, {.ranks = options.import_ranks, .hosts = options.import_hosts});
    reports::RunInfo& run = imported.report.run;
    if (!options.import_started.empty())
      run.started = options.import_started;
    else if (!run.started.empty())
      run.remarks.push_back(fmt::format("{}{}, which is taken as UTC: import nccl-tests --started TIME says it",
                                        reports::started_by_log, run.started));
    return imported;
  } catch (const UsageError& problem) {
    throw UsageError(fmt::format("'{}': {}", file == "-" ? "stdin" : printable(file), problem.what()));
  }
}

}  // namespace

std::string cluster_of_import(const Options& options) { return options.cluster.empty() ? "imported" : options.cluster; }

fs::path new_folder_of_import(const Options& options, const fs::path& file) {
  const std::string stem = file.stem().string();
  const std::string name = folder_name_error(stem).empty() ? stem : "log";
  const fs::path parent = fs::path(options.out) / cluster_of_import(options);
  reports::make_folder(parent);
  constexpr int most = 100'000;
  for (int number = 1; number <= most; ++number) {
    const fs::path folder = parent / (number == 1 ? name : fmt::format("{}-{}", name, number));
    std::error_code problem;
    if (fs::create_directory(folder, problem)) return folder;
    if (problem) throw UsageError(fmt::format("'{}' cannot be made: {}", folder.string(), problem.message()));
  }
  throw UsageError(fmt::format("'{}' has {} imports of this name; name another --out", parent.string(), most));
}

ExitCode import_command(const Request& request) {
  if (!request.control.is_leader()) return ExitCode::ok;
  const Options& options = request.options;
  if (options.import_what == "job") return import_job(request);
  const reports::nccl_tests::Imported imported = read(options, cluster_of_import(options));
  const std::string& file = options.import_files.front();
  const fs::path folder = new_folder_of_import(options, file == "-" ? "stdin" : file);
  std::string journal;
  for (const reports::Result& line : imported.journal)
    journal += to_json(line, true).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  reports::write_atomically(folder / "measurements.jsonl", journal);
  for (const std::string& format : options.formats) {
    const reports::Writer& writer = reports::find_writer(format);
    if (!writer.suffix.empty())
      reports::write_atomically(folder / writer.file_name("report"), writer.render(imported.report));
  }
  reports::write_atomically(folder / "report.json", reports::render_json(imported.report));
  std::string text;
  for (const std::string& remark : imported.report.run.remarks) text += printable(remark) + "\n";
  text += fmt::format("{}. Report: {}\n", reports::counted(imported.report.results.size(), "case"),
                      printable(folder.string()));
  return print_result_for(imported.report.exit_code, text);
}

}  // namespace p5
