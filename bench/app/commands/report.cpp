// p5bench report FILE: renders a report.json again.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "bench/app/commands/commands.hpp"
#include "bench/app/run/sides.hpp"
#include "bench/base/console.hpp"
#include "reports/atomic_file.hpp"
#include "reports/baseline.hpp"
#include "reports/journal.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;

// A folder of a run stands for the report in it.
std::string report_in(const std::string& path) {
  std::error_code problem;
  if (!fs::is_directory(path, problem)) return path;
  const std::vector<std::string> runs = reports::find_runs(path);  // the folder itself where it is one
  if (runs.size() > 1)
    throw UsageError(fmt::format("'{}' holds {} runs; name one of them, such as '{}'", path, runs.size(),
                                 fs::path(runs.back()).parent_path().string()));
  return runs.front() == path ? (fs::path(path) / "report.json").string() : runs.front();
}

// For the page. A journal that cannot be read keeps nobody from one without samples.
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

}  // namespace

ExitCode report_command(const Request& request) {
  if (!request.control.is_leader()) return ExitCode::ok;
  const Options& options = request.options;
  const std::string file = report_in(options.report_file);
  const bool page =
      options.given.contains("--format") && std::ranges::find(options.formats, "html") != options.formats.end();
  reports::Report report = reports::read_report(file);
  if (page) add_samples_beside(file, report);
  if (!options.report_as.empty()) {
    const bool table = options.table && options.report_as == "console";
    return print_result_for(ExitCode::ok,
                reports::coloured_for_terminal(table ? reports::render_table(report)
                                                     : reports::find_writer(options.report_as).render(report)));
  }
  std::optional<reports::Comparison> comparison;
  if (!options.baseline.empty()) {
    const std::vector<reports::Run> runs{reports::read_run(file, reports::Reading::to_compare)};
    const reports::Side baseline = read_baseline(options.baseline, report);
    reports::add_baseline(baseline, report);
    comparison = reports::compare(baseline, reports::make_side("NEW", runs), {.seed = options.seed.value_or(1)});
  }
  // Without a choice: to the terminal, where nothing is overwritten.
  const std::vector<std::string> formats =
      options.given.contains("--format") ? options.formats : std::vector<std::string>{"console"};
  std::string text;
  for (const std::string& format : formats) {
    const reports::Writer& writer = reports::find_writer(format);
    if (writer.suffix.empty()) {
      text += options.table ? reports::render_table(report) : writer.render(report);
      continue;
    }
    const std::filesystem::path path = std::filesystem::path(options.out) / writer.file_name("report");
    reports::make_folder(options.out);
    reports::check_writable(path);
    reports::write_atomically(path, writer.render(report));
    text += path.string() + "\n";
  }
  if (!comparison) return print_result_for(ExitCode::ok, reports::coloured_for_terminal(text));
  if (std::ranges::find(formats, "console") != formats.end()) text += "\n" + reports::render_console(*comparison);
  for (const std::filesystem::path& path : write_comparison(*comparison, formats, options.out))
    text += path.string() + "\n";
  return print_result_for(comparison->exit_code, text);
}

}  // namespace p5
