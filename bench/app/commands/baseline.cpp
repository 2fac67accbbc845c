// p5bench baseline REPORT...: the launches of healthy runs together, to compare later ones with.
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/app/commands/commands.hpp"
#include "bench/app/run/sides.hpp"
#include "bench/base/console.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "reports/atomic_file.hpp"
#include "reports/baseline.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;

// What the options say, else what the newest of the reports does, which may come from anywhere.
std::string name_of_baseline(const Options& options, const reports::Baseline& baseline) {
  if (!options.cluster.empty()) return options.cluster;
  const std::string& cluster = baseline.report.run.cluster;
  if (const std::string objection = folder_name_error(cluster); !objection.empty())
    throw UsageError(
        fmt::format("run.cluster of {}: {}, or name the baseline with --cluster", baseline.newest, objection));
  return cluster;
}

// What stands there already may be a baseline that others hold on to, or be among what this one is built from.
fs::path folder_of_baseline(const Options& options, const std::string& name) {
  // Not among the cluster's runs: it is no run of its own in their history.
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
  for (const std::string& remark : baseline.report.run.remarks) print_result(printable(remark) + "\n");
  print_result(fmt::format("{} cases, up to {} launches each. Baseline: {}\n", baseline.report.results.size(),
                           baseline.report.run.launches, folder.string()));
  return ExitCode::ok;
}

}  // namespace p5
