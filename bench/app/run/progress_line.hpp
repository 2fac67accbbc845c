// The line on a terminal that says how far a run is, and the worst so far.
#pragma once

#include <chrono>
#include <string>

#include "bench/measure/runner.hpp"
#include "reports/report.hpp"

namespace p5 {

class ProgressLine {
 public:
  // Only where it is wanted and stderr is a terminal.
  explicit ProgressLine(bool wanted);

  // The repetition that starts; not more often than one can read.
  void show(const Case& c, const RunProgress& standing);
  // The line has the worst of all that were judged.
  void finished(const reports::Result& result);
  void clear();

 private:
  void print(const std::string& line);

  bool visible_;
  int columns_ = 0;  // of the terminal; 0: not known
  std::string worst_;
  double how_bad_ = 0;  // of `worst_`: 0 for nothing judged, more for worse
  std::chrono::steady_clock::time_point shown_{};
};

}  // namespace p5
