// The line on a terminal that says how far a run is.
#pragma once

#include <chrono>

#include "bench/measure/runner.hpp"

namespace p5 {

class ProgressLine {
 public:
  // Only where it is wanted and stderr is a terminal.
  explicit ProgressLine(bool wanted);

  // The visit that starts; not more often than one can read.
  void show(const Case& c, const RunProgress& standing);
  void clear();

 private:
  void print(const std::string& line);

  bool visible_;
  std::chrono::steady_clock::time_point shown_{};
};

}  // namespace p5
