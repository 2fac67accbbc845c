#include "bench/measure/local_checks.hpp"

#include <nlohmann/json.hpp>

#include "bench/measure/agreement.hpp"

namespace p5 {

std::vector<LocalFigures> check_locally(World& world, Backend& backend) {
  std::vector<LocalFigures> all;
  agree(
      world, Phase::sample, backend.recovers(), [&] { return nlohmann::json(backend.check_locally()).dump(); },
      [&](const std::vector<std::string>& parts) {
        for (const std::string& part : parts) all.push_back(nlohmann::json::parse(part).get<LocalFigures>());
        return "";
      });
  return all;
}

}  // namespace p5
