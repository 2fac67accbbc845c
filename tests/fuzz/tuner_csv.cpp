// nccl-tuner.csv, the name of a setting, and a file of weights.
#include <cstdlib>
#include <variant>

#include "tests/fuzz/fuzz.hpp"
#include "tuner/arms.hpp"
#include "tuner/table.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return p5::fuzz::on(data, size, [](std::string_view text) {
    using namespace p5::tuner;
    parse_setting(text);
    const auto parsed = parse_csv(text);
    if (const auto* const tables = std::get_if<std::vector<Table>>(&parsed)) {
      std::string again;
      for (const Table& table : *tables) again += to_csv(table, "");
      if (std::get<std::vector<Table>>(parse_csv(again)) != *tables) std::abort();
    }
    parse_weights("weights", text);
  });
}
