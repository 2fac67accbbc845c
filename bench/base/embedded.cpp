#include "bench/base/embedded.hpp"

namespace p5 {

std::string_view version() { return P5BENCH_VERSION; }

}  // namespace p5
