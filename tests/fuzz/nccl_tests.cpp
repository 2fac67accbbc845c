// Output of nccl-tests: its table or its JSON.
#include "reports/nccl_tests.hpp"
#include "reports/writer.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return p5::fuzz::on(data, size, [](std::string_view text) {
    p5::reports::render_json(p5::reports::nccl_tests::import(text, "all_reduce", "cluster").report);
  });
}
