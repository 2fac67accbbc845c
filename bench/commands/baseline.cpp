// p5bench baseline REPORT...: the launches of healthy runs together, to compare later ones with.
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/commands/commands.hpp"
#include "bench/commands/recorder.hpp"
#include "bench/commands/sides.hpp"
#include "reports/atomic_file.hpp"
#include "reports/baseline.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;

// What stands there already may be a baseline that others hold on to, or be among what this one is built from.
fs::path folder_of_baseline(const Options& options, const std::string& cluster) {
  // Not among the cluster's runs: it is no run of its own in their history.
  const fs::path folder = fs::path(options.out) / "baselines" / (options.cluster.empty() ? cluster : options.cluster);
  if (fs::exists(folder / "report.json"))
    throw UsageError(fmt::format("'{}' is there already; move it, or name another --out or --cluster",
                                 (folder / "report.json").string()));
  return folder;
}

}  // namespace

ExitCode baseline_command(const Request& request) {
  if (!request.world.leads()) return ExitCode::ok;
  const reports::Baseline baseline = reports::make_baseline(read_runs(request.options.baseline_files), utc_now());
  const fs::path folder = folder_of_baseline(request.options, baseline.report.run.cluster);
  std::string journal;
  for (const reports::Result& line : baseline.journal)
    journal += to_json(line, true).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  reports::make_folder(folder);
  reports::write_atomically(folder / "measurements.jsonl", journal);
  reports::write_atomically(folder / "report.json", reports::render_json(baseline.report));
  for (const std::string& remark : baseline.report.run.remarks) fmt::print("{}\n", remark);
  fmt::print("{} cases, up to {} launches each. Baseline: {}\n", baseline.report.results.size(),
             baseline.report.run.launches, folder.string());
  return ExitCode::ok;
}

}  // namespace p5
