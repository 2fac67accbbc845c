#include "bench/app/tuning/inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "bench/app/machine/leader.hpp"
#include "bench/base/error.hpp"

namespace p5 {

namespace {

// What a message may show of a file.
std::string first_line(const std::string& text) {
  return text.empty() ? "none" : text.substr(0, std::min<std::size_t>(text.find('\n'), 120));
}

}  // namespace

void refuse_differing_tuning_files(World& world) {
  // Each rank's view: the names and the contents of the files that decide how it runs a call.
  std::string mine;
  for (const char* const name : {"NCCL_TUNER_CONFIG_FILE", "NCCL_CONF_FILE"}) {
    const char* const path = std::getenv(name);
    if (!path || !*path) continue;
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    mine += fmt::format("{}={}: {}\n", name, path, text ? text.str() : "not readable");
  }
  const std::vector<std::string> all = world.gather(mine);
  from_leader(world, [&]() -> std::string {
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

std::vector<tuner::Weight> read_weights(World& world, const Options& options) {
  if (options.weights.empty()) return {};
  const std::string text = from_leader(world, [&] {
    std::ostringstream all;
    all << std::ifstream(options.weights).rdbuf();
    if (!all) throw UsageError(fmt::format("--weights {}: cannot be read, or is empty", options.weights));
    tuner::parse_weights(options.weights, all.str());
    return all.str();
  });
  return tuner::parse_weights(options.weights, text);
}

}  // namespace p5
