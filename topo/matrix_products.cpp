#include "topo/matrix_products.hpp"

#include <algorithm>

#include "topo/tables.hpp"

namespace p5::topo {

void fields(auto& archive, Is<PublishedProducts> auto& row) {
  archive.must("gpus", row.gpus);
  archive.must("bf16_tflop_per_s", row.bf16_tflop_per_s);
  archive.must("fp8_tflop_per_s", row.fp8_tflop_per_s);
  archive.must("source", row.source);
}

const PublishedProducts* published_products_of(std::string_view gpu_model) {
  static const auto rows = make_rows<PublishedProducts>("matrix_products.json");
  const auto at = std::ranges::find_if(
      rows, [&](const PublishedProducts& row) { return std::ranges::find(row.gpus, gpu_model) != row.gpus.end(); });
  return at == rows.end() ? nullptr : &*at;
}

}  // namespace p5::topo
