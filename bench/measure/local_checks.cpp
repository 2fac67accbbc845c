#include "bench/measure/local_checks.hpp"

#include "bench/measure/agreement.hpp"
#include "bench/model/result_fields.hpp"

namespace p5 {

std::vector<LocalChecks> check_locally(ControlPlane& control, Backend& backend, Seconds burn) {
  std::vector<LocalChecks> all;
  agree(
      control, Phase::sample, backend.recovers(), [&] { return backend.check_locally(burn); },
      [&](const std::vector<std::vector<LocalChecks>>& parts) {
        for (const std::vector<LocalChecks>& part : parts) all.insert(all.end(), part.begin(), part.end());
      });
  return all;
}

}  // namespace p5
