// The times of a session, refused where one is no time: figures, verdicts and JSON take only finite times above 0.
#pragma once

#include <vector>

#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"

namespace p5 {

// Session::sample() and sample_concurrently() on this participant, whose ranks are `hosted`. Throw CaseError with the
// rank where one of its times is not finite or not above 0, or is missing although the rank is in a group of the round.
Times sample_times(Session& session, const SampleRequest& request, const Round& groups, const std::vector<int>& hosted);
ConcurrentTimes sample_concurrent_times(Session& session, const ConcurrentRequest& request, const Round& groups,
                                        const std::vector<int>& hosted);

}  // namespace p5
