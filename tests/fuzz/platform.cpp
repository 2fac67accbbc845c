// The file of a platform, or where it is a list that of knobs.
#include "topo/platform.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tuner/arms.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return p5::fuzz::on(data, size, [](std::string_view text) {
    if (text.starts_with('['))
      p5::tuner::parse_knobs("x.json", text);
    else
      p5::topo::parse_platform("x.json", text);
  });
}
