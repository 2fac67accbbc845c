#include "bench/measure/session_times.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "bench/base/error.hpp"

namespace p5 {

namespace {

bool takes_part(const Round& groups, int rank) {
  return std::ranges::any_of(groups, [&](const Group& group) { return std::ranges::find(group, rank) != group.end(); });
}

// Reports hold times between a millionth of a microsecond and thirty years.
constexpr double least_s = 1e-12, most_s = 1e9;

// may_lack: NaN stands for a rank that takes no part.
void require_time(double seconds, bool may_lack, int rank) {
  if ((may_lack && std::isnan(seconds)) || (seconds >= least_s && seconds <= most_s)) return;
  throw CaseError(fmt::format("the backend measured {} s, which is no time", seconds), rank);
}

}  // namespace

Times sample_times(Session& session, const SampleRequest& request, const Round& groups,
                   const std::vector<int>& hosted) {
  Times times = session.sample(request);
  for (std::size_t i = 0; i < std::min(times.size(), hosted.size()); ++i) {
    const bool may_lack = !takes_part(groups, hosted[i]);
    for (const double time : times[i]) require_time(time, may_lack, hosted[i]);
  }
  return times;
}

ConcurrentTimes sample_concurrent_times(Session& session, const ConcurrentRequest& request, const Round& groups,
                                        const std::vector<int>& hosted) {
  ConcurrentTimes times = session.sample_concurrently(request);
  for (std::size_t i = 0; i < std::min(times.size(), hosted.size()); ++i) {
    const bool runs = request.operations.front() > 0 && takes_part(groups, hosted[i]);
    for (const std::vector<double>& sample : times[i])
      for (std::size_t work = 0; work < sample.size(); ++work) require_time(sample[work], work > 0 || !runs, hosted[i]);
  }
  return times;
}

}  // namespace p5
