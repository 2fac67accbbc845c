#include "bench/app/tuning/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <variant>

#include "bench/app/machine/leader.hpp"
#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "bench/base/text.hpp"

namespace p5 {

namespace {

constexpr Bytes largest_file = MiB(16);

// What a message may show of a file.
std::string first_line(const std::string& text) {
  return text.empty() ? "none" : text.substr(0, std::min<std::size_t>(text.find('\n'), 120));
}

// Or that there is none.
std::string content_of(const char* path) try { return read_input(path, largest_file, ""); } catch (const UsageError&) {
  return "not readable";
}

}  // namespace

void refuse_differing_tuning_files(ControlPlane& control) {
  // Each rank's view: the names and the contents of the files that decide how it runs a call.
  std::string mine;
  for (const char* const name : {"NCCL_TUNER_CONFIG_FILE", "NCCL_CONF_FILE"}) {
    const char* const path = std::getenv(name);
    if (!path || !*path) continue;
    mine += fmt::format("{}={}: {}\n", name, path, content_of(path));
  }
  const std::vector<std::string> all = control.gather(mine);
  from_leader(control, [&]() -> std::string {
    for (std::size_t rank = 1; rank < all.size(); ++rank)
      if (all[rank] != all[0])
        throw EnvironmentError(
            fmt::format("rank {} has other tuning files than rank 0 ({}, against {}): ranks would decide differently, "
                        "and hang. Put "
                        "the same file on all nodes, or unset the variable",
                        rank, first_line(all[rank]), first_line(all[0])));
    return "";
  });
}

std::vector<tuner::Table> read_kept_tables(ControlPlane& control, const Options& options) {
  std::vector<tuner::Table> tables;
  if (options.keep_table.empty()) return tables;
  from_leader(control, [&]() -> std::string {
    auto parsed = tuner::parse_csv(read_input(options.keep_table, largest_file, "name an nccl-tuner.csv"));
    if (const auto* const problem = std::get_if<std::string>(&parsed))
      throw UsageError(fmt::format("--keep-table {}: {}", printable(options.keep_table), *problem));
    tables = std::get<std::vector<tuner::Table>>(std::move(parsed));
    return "";
  });
  return tables;
}

std::vector<tuner::Weight> read_weights(ControlPlane& control, const Options& options) {
  if (options.weights.empty()) return {};
  const std::string text = from_leader(control, [&] {
    std::string all = read_input(options.weights, largest_file, "name a file of weights with --weights");
    if (all.empty()) throw UsageError(fmt::format("--weights {}: it is empty", printable(options.weights)));
    tuner::parse_weights(options.weights, all);
    return all;
  });
  return tuner::parse_weights(options.weights, text);
}

}  // namespace p5
