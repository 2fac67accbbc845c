// measurements.jsonl.
#include "reports/journal.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return p5::fuzz::on(data, size, [](std::string_view text) { p5::reports::journal_in(text, "measurements.jsonl"); });
}
