// Sizes and times, as on a command line.
#include "bench/base/units.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return p5::fuzz::on(data, size, [](std::string_view text) {
    try {
      p5::to_text(p5::parse_bytes(text));
    } catch (const p5::UsageError&) {
      p5::to_text(p5::parse_duration(text));
    }
  });
}
