// p5bench report FILE: renders a report.json again.
#include <filesystem>

#include <fmt/format.h>

#include "bench/commands/commands.hpp"
#include "reports/atomic_file.hpp"
#include "reports/writer.hpp"

namespace p5 {

ExitCode report_command(const Request& request) {
  if (!request.world.leads()) return ExitCode::ok;
  const Options& options = request.options;
  const reports::Report report = reports::read_report(options.report_file);
  // Without a choice: to the terminal, where nothing is overwritten.
  for (const std::string& format : options.formats_given ? options.formats : std::vector<std::string>{"console"}) {
    const reports::Writer& writer = reports::find_writer(format);
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
  return ExitCode::ok;
}

}  // namespace p5
