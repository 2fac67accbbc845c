// Names of published figures in tests.
#pragma once

#include <fmt/format.h>

#include <string>

#include "topo/platform.hpp"

namespace p5::published {

inline std::string text_of(const topo::Platform& platform, const topo::Published& row) {
  return fmt::format("{} {} x {} {} {} {} GB/s {} ({})", platform.name, row.nodes, row.gpus, row.collective,
                     row.bytes ? to_text(*row.bytes) : "", row.busbw->count, row.algorithm, row.source);
}

}  // namespace p5::published
