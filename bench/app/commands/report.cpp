// p5bench report FILE: renders a report.json again.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "bench/app/commands/commands.hpp"
#include "bench/app/run/sides.hpp"
#include "reports/atomic_file.hpp"
#include "reports/writer.hpp"

namespace p5 {

ExitCode report_command(const Request& request) {
  if (!request.world.leads()) return ExitCode::ok;
  const Options& options = request.options;
  const reports::Report report = reports::read_report(options.report_file);
  std::optional<reports::Comparison> comparison;
  if (!options.baseline.empty()) {
    const std::vector<reports::Run> runs{reports::read_run(options.report_file)};
    comparison = reports::compare(read_baseline(options.baseline, report), reports::make_side("NEW", runs),
                                  {.seed = options.seed.value_or(1)});
  }
  // Without a choice: to the terminal, where nothing is overwritten.
  const std::vector<std::string> formats =
      options.given.contains("--format") ? options.formats : std::vector<std::string>{"console"};
  for (const std::string& format : formats) {
    const reports::Writer& writer = reports::find_writer(format);
    if (!writer.render && comparison) continue;
    if (!writer.render) throw UsageError(fmt::format("--format {} is for comparisons, not for a report", format));
    if (writer.suffix.empty()) {
      fmt::print("{}", writer.render(report));
      continue;
    }
    const std::filesystem::path path = std::filesystem::path(options.out) / writer.file_name("report");
    reports::make_folder(options.out);
    reports::write_atomically(path, writer.render(report));
    fmt::print("{}\n", path.string());
  }
  if (!comparison) return ExitCode::ok;
  if (std::ranges::find(formats, "console") != formats.end()) fmt::print("\n{}", reports::render_console(*comparison));
  for (const std::filesystem::path& path : write_comparison(*comparison, formats, options.out))
    fmt::print("{}\n", path.string());
  return comparison->exit_code;
}

}  // namespace p5
