#include "bench/base/error.hpp"

#include <algorithm>
#include <array>

namespace p5 {

ExitCode worse(ExitCode a, ExitCode b) {
  constexpr std::array order{ExitCode::usage, ExitCode::wrong_data,   ExitCode::unfinished, ExitCode::environment,
                             ExitCode::slow,  ExitCode::inconclusive, ExitCode::ok};
  return std::min(a, b,
                  [&](ExitCode x, ExitCode y) { return std::ranges::find(order, x) < std::ranges::find(order, y); });
}

}  // namespace p5
