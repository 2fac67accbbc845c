// Reads what the libfabric probe prints.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "topo/discover.hpp"

namespace p5::topo {

Libfabric ask_libfabric(const std::string& program, Seconds limit) {
  const ProbeAnswer answer = ask_probe({program}, limit);
  Libfabric told;
  told.problem = answer.problem;
  told.answered = false;
  if (answer.json.empty()) return told;
  try {
    return libfabric_from_json(nlohmann::json::parse(answer.json));
  } catch (const std::exception& problem) {
    told.problem = fmt::format("the probe's answer is not understood: {}", problem.what());
    return told;
  }
}

}  // namespace p5::topo
