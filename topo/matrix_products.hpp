// What somebody has measured of matrix products on a model of GPU, the best of many shapes: information, no bar. The
// table is matrix_products.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace p5::topo {

struct PublishedProducts {
  std::vector<std::string> gpus;                            // models as platforms name them: "H100"
  std::optional<double> bf16_tflop_per_s, fp8_tflop_per_s;  // dense; null: unknown
  std::string source;
};

// Null: nothing is known of the model.
const PublishedProducts* published_products_of(std::string_view gpu_model);

}  // namespace p5::topo
