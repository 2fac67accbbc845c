// What an analysis becomes for people and for p5bench's own options: files for --weights and --traffic.
#pragma once

#include <string>

#include "bench/job/analysis.hpp"
#include "bench/model/job.hpp"

namespace p5::job {

// Lines "collective bytes share", for `tune --weights`: shares of the time that the job communicates, or of the bytes
// that it moves where times were not recorded.
std::string weights_of(const Job& job);

// A line for each sender with its bytes for each receiver, for --traffic.
std::string traffic_csv(const TrafficOfGroups& traffic);

}  // namespace p5::job
