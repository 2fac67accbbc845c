// Output of nccl-tests: its table or its JSON.
#include <cstdlib>

#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "reports/nccl_tests.hpp"
#include "reports/writer.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return p5::fuzz::on(data, size, [](std::string_view text) {
    using namespace p5::reports;
    const std::string written = render_json(nccl_tests::import(text, "all_reduce", "cluster").report);
    // Every command can read it.
    try {
      report_from_json(p5::parse_json(written));
    } catch (const p5::UsageError&) {
      std::abort();
    }
  });
}
