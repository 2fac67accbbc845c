#include "bench/app/run/sides.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "reports/atomic_file.hpp"
#include "reports/compare/comparing.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace fs = std::filesystem;

std::vector<reports::Run> read_runs(const std::vector<std::string>& paths, reports::Reading reading) {
  std::vector<std::string> found;
  for (const std::string& path : paths)
    for (std::string& run : reports::find_runs(path))
      // The same run twice would pass for two.
      if (std::ranges::find(found, run) == found.end()) found.push_back(std::move(run));
  std::vector<reports::Run> runs;
  for (const std::string& each : found) runs.push_back(reports::read_run(each, reading));
  return runs;
}

reports::Side read_baseline(const std::string& path, const reports::Report& about) {
  try {
    reports::Side base = reports::make_side("BASELINE", read_runs({path}, reports::Reading::to_compare));
    reports::Side here;
    here.reports = {about};
    std::vector<std::string> hardware;
    for (const reports::Difference& each : reports::differences_of(base, here))
      if (each.kind == "hardware") hardware.push_back(fmt::format("{}: {}, here {}", each.name, each.base, each.fresh));
    if (!hardware.empty()) throw UsageError(fmt::format("it is of other hardware ({})", join(hardware, "; ")));
    return base;
  } catch (const UsageError& problem) {
    throw UsageError(fmt::format("--baseline: {}", problem.what()));
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

}  // namespace p5
