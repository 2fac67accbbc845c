// A command line, an argument a line.
#include "bench/app/command_line.hpp"
#include "bench/base/names.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return p5::fuzz::on(data, size, [](std::string_view text) { p5::parse_options(p5::split(text, '\n')); });
}
