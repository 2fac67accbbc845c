// p5bench compare BASE NEW: did anything get slower? Reads reports, measures nothing.
#include <algorithm>
#include <filesystem>
#include <future>

#include <fmt/format.h>

#include "bench/commands/commands.hpp"
#include "bench/commands/recorder.hpp"
#include "reports/atomic_file.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace {

reports::Side read_side(const char* name, const std::vector<std::string>& paths, const std::string& arm) {
  std::vector<std::string> found;
  for (const std::string& path : paths)
    for (std::string& run : reports::find_runs(path))
      // The same run twice would pass for two.
      if (std::ranges::find(found, run) == found.end()) found.push_back(std::move(run));
  std::vector<reports::Run> runs;
  for (const std::string& each : found) runs.push_back(reports::read_run(each));
  return reports::make_side(name, runs, arm);
}

void write(const Options& options, const reports::Comparison& comparison) {
  for (const std::string& format : options.formats_given ? options.formats : std::vector<std::string>{"console"}) {
    const reports::Writer& writer = reports::find_writer(format);
    const std::string text = writer.render_comparison(comparison);
    if (writer.suffix.empty()) {
      fmt::print("{}", text);
      continue;
    }
    reports::make_folder(options.out);
    const std::filesystem::path path = std::filesystem::path(options.out) / writer.file_name("comparison");
    reports::write_atomically(path, text);
    fmt::print("{}\n", path.string());
  }
}

}  // namespace

ExitCode compare_command(const Request& request) {
  if (!request.world.leads()) return ExitCode::ok;
  const Options& options = request.options;
  for (const std::string& format : options.formats)
    if (!reports::find_writer(format).render_comparison && options.formats_given)
      throw UsageError(fmt::format("--format {} is for a report, not for a comparison", format));
  // Reading is most of the work.
  std::future<reports::Side> base =
      std::async(std::launch::async, read_side, "BASE", options.base_files, options.base_arm);
  const reports::Side fresh = read_side("NEW", options.new_files, options.new_arm);
  reports::Comparison comparison = reports::compare(
      base.get(), fresh, {.seed = options.seed.value_or(1), .across_hardware = options.across_hardware});
  comparison.made = utc_now();
  write(options, comparison);
  return comparison.exit_code;
}

}  // namespace p5
