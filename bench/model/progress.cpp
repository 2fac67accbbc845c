#include "bench/model/progress.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace p5 {

namespace {

double operations_done(const WorkProgress& work, double at) {
  double seconds_before = 0, done_before = 0;
  for (std::size_t i = 0; i < work.seconds.size(); ++i) {
    const double seconds = work.seconds[i], done = work.operations[i];
    if (at < seconds) return done_before + (done - done_before) * (at - seconds_before) / (seconds - seconds_before);
    seconds_before = seconds;
    done_before = done;
  }
  return done_before;
}

}  // namespace

std::vector<double> steady_seconds(const std::vector<WorkProgress>& works) {
  double end = std::numeric_limits<double>::infinity();
  for (const WorkProgress& work : works)
    if (!work.seconds.empty()) end = std::min(end, work.seconds.back());
  const double begin = left_out_of_steady * end;
  std::vector<double> each;
  for (const WorkProgress& work : works)
    each.push_back(work.seconds.empty() ? std::numeric_limits<double>::quiet_NaN()
                                        : (end - begin) / (operations_done(work, end) - operations_done(work, begin)));
  return each;
}

}  // namespace p5
