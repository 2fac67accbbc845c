// p5bench compare BASE NEW: did anything get slower? Reads reports, measures nothing.
#include <algorithm>
#include <future>

#include <fmt/format.h>

#include "bench/app/commands/commands.hpp"
#include "bench/app/run/sides.hpp"
#include "bench/base/clock.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace {

reports::Side read_side(const char* name, const std::vector<std::string>& paths, const std::string& arm) {
  return reports::make_side(name, read_runs(paths), arm);
}

reports::Comparison compare_sides(const Options& options, const reports::ComparisonOptions& how) {
  // Reading is most of the work. Without a thread for it the sides are read one after the other.
  std::future<reports::Side> base =
      std::async(std::launch::async | std::launch::deferred, read_side, "BASE", options.base_files, options.base_arm);
  const reports::Side fresh = read_side("NEW", options.new_files, options.new_arm);
  return reports::compare(base.get(), fresh, how);
}

// The newest run against those before it.
reports::Comparison compare_history(const Options& options, const reports::ComparisonOptions& how) {
  std::vector<reports::Run> runs = read_runs({options.history});
  if (runs.size() < 2)
    throw UsageError(fmt::format("'{}' holds one run; a history needs two or more", options.history));
  std::ranges::stable_sort(runs, {}, [](const reports::Run& run) { return run.report.run.started; });
  const std::span<const reports::Run> all = runs;
  reports::Comparison comparison =
      reports::compare(reports::make_side("BASE", all.first(all.size() - 1), options.base_arm),
                       reports::make_side("NEW", all.last(1), options.new_arm), how);
  comparison.trend = reports::trend_of(all);
  return comparison;
}

}  // namespace

ExitCode compare_command(const Request& request) {
  if (!request.world.leads()) return ExitCode::ok;
  const Options& options = request.options;
  const std::vector<std::string> formats =
      options.given.contains("--format") ? options.formats : std::vector<std::string>{"console"};
  for (const std::string& format : formats)
    if (!reports::find_writer(format).render_comparison)
      throw UsageError(fmt::format("--format {} is for a report, not for a comparison", format));
  const reports::ComparisonOptions how{.seed = options.seed.value_or(1), .across_hardware = options.across_hardware};
  reports::Comparison comparison =
      options.history.empty() ? compare_sides(options, how) : compare_history(options, how);
  comparison.made = utc_now();
  if (std::ranges::find(formats, "console") != formats.end()) fmt::print("{}", reports::render_console(comparison));
  for (const std::filesystem::path& path : write_comparison(comparison, formats, options.out))
    fmt::print("{}\n", path.string());
  return comparison.exit_code;
}

}  // namespace p5
