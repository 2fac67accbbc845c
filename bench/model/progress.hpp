// Seconds of an operation of works that run at the same time, from the times at which some of their operations ended.
#pragma once

#include <vector>

namespace p5 {

// Ends of operations of one work, in a sample in which all works start at 0. Empty: it does not run.
struct WorkProgress {
  std::vector<double> seconds;  // ascending
  std::vector<int> operations;  // done at that time; of the last one all
};

// The share of the time until the first work has ended that is left out at its beginning.
inline constexpr double left_out_of_steady = 1.0 / 3;

// Seconds of an operation of each work, from that time on until the first work has ended. Between two known times an
// operation proceeds evenly. NaN for a work that does not run.
std::vector<double> steady_seconds(const std::vector<WorkProgress>& works);

}  // namespace p5
