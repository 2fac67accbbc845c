#include "bench/measure/local_checks.hpp"

#include "bench/measure/agreement.hpp"

namespace p5 {

std::vector<LocalFigures> check_locally(ControlPlane& control, Backend& backend) {
  std::vector<LocalFigures> all;
  agree(
      control, Phase::sample, backend.recovers(), [&] { return backend.check_locally(); },
      [&](const std::vector<LocalFigures>& parts) { all = parts; });
  return all;
}

}  // namespace p5
