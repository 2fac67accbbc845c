// A run in a few rows: of each operation its smallest message, and its largest or the largest that is slow or wrong.
#pragma once

#include <string>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

struct SummaryRow {
  std::string operation;
  int ranks = 0;
  std::string latency;  // "18.1 us (8 B)"; "" where it was not measured
  std::string size;     // of the largest message, and of that the rest
  double busbw = 0;     // GB/s
  std::string of_limit;
  Grade grade = Grade::unknown;
  bool for_parts = false;  // measured beside the plan
};

// In reading order.
std::vector<SummaryRow> summary_of(const Report& report);

// For people: "not judged" for unknown.
std::string_view shown(Grade grade);

}  // namespace p5::reports
