// Data files that are compiled into the program (scripts/cmake/Embed.cmake), and its version.
#pragma once

#include <span>
#include <string_view>

namespace p5::embedded {

struct File {
  std::string_view name;  // without folder
  std::string_view text;
};

std::span<const File> platform_files();   // topo/platforms/*.json
std::span<const File> table_files();      // topo/tables/*.json
std::span<const File> report_files();     // reports/bars.json and the page
std::span<const File> threshold_files();  // bench/measure/thresholds.json
std::span<const File> knob_files();       // tuner/knobs/*.json

}  // namespace p5::embedded

namespace p5 {

// Version of p5bench: "0.2.0".
std::string_view version();

}  // namespace p5
