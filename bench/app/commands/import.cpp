// p5bench import nccl-tests LOG: a report of what another benchmark measured, in a folder like that of a run.
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/app/commands/commands.hpp"
#include "bench/base/console.hpp"
#include "bench/base/input.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "reports/atomic_file.hpp"
#include "reports/nccl_tests.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;

reports::nccl_tests::Imported read(const Options& options, const std::string& cluster) {
  const std::string text = read_input(options.import_file, largest_json, "name a file that nccl-tests left");
  try {
    return reports::nccl_tests::import(text, options.import_collective, cluster,
                                       {.ranks = options.import_ranks, .hosts = options.import_hosts});
  } catch (const UsageError& problem) {
    throw UsageError(fmt::format("'{}': {}", printable(options.import_file), problem.what()));
  }
}

// A new folder by the file's name, where that can be one's; "-2", "-3", ... behind it where others are there already.
fs::path new_folder_of_import(const Options& options, const std::string& cluster) {
  const std::string stem = fs::path(options.import_file).stem().string();
  const std::string name = folder_name_error(stem).empty() ? stem : "log";
  const fs::path parent = fs::path(options.out) / cluster;
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

}  // namespace

ExitCode import_command(const Request& request) {
  if (!request.control.is_leader()) return ExitCode::ok;
  const Options& options = request.options;
  const std::string cluster = options.cluster.empty() ? "imported" : options.cluster;
  const reports::nccl_tests::Imported imported = read(options, cluster);
  const fs::path folder = new_folder_of_import(options, cluster);
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
  for (const std::string& remark : imported.report.run.remarks) print_result(printable(remark) + "\n");
  print_result(fmt::format("{} cases. Report: {}\n", imported.report.results.size(), folder.string()));
  return imported.report.exit_code;
}

}  // namespace p5
