// Report formats: a pure function each, from a Report to text. A new one is one file and a row in writers.cpp.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

struct Writer {
  std::string name;  // as in --format
  std::string summary;
  std::string file_name;  // in the run's folder; "" for the console's
  std::string (*render)(const Report& report) = nullptr;
};

std::span<const Writer> writers();
std::vector<std::string> format_names();
// Throws UsageError with the nearest name.
const Writer& find_writer(std::string_view name);

// One per file.
std::string render_json(const Report& report);
std::string render_html(const Report& report);
std::string render_console(const Report& report);

}  // namespace p5::reports
