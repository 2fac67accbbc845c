// From the records of all processes to one step of the job: what repeats, in an order that all ranks keep, with the
// groups that do the same at the same time put together.
#pragma once

#include <string>
#include <vector>

#include "bench/job/trace.hpp"
#include "bench/model/job.hpp"

namespace p5::job {

// Bytes that each member sends each other one in a step's all_to_allv, summed over its calls.
struct TrafficOfGroups {
  std::string name;   // that no others have: "world", "4 groups of 4 ranks", "4 groups of 4 ranks (2)"
  std::string group;  // as in JobOperation, with `groups`
  Round groups;
  std::vector<std::vector<std::uint64_t>> sent;  // of the first group whose ranks all recorded it; square
};

struct Analysis {
  Job job;
  std::vector<TrafficOfGroups> traffic;
};

// `hosts`: where the record does not say on which host a rank was, so many with the same number of ranks, in order; 0:
// not known. The trace has been finished.
Analysis analyse(Trace trace, int hosts);

// Length of what a sequence repeats at its end, and how many of its last elements repeat so. The length is the
// shortest that is there twice or more and covers half of the sequence or more; else the whole sequence, once.
struct Period {
  std::size_t length = 0, covers = 0;
};
Period period_of(const std::vector<std::uint64_t>& sequence);

// ---- What an analysis becomes for people and for p5bench's own options: files for --weights and --traffic.

// Lines "collective bytes share", for `tune --weights`: shares of the time that the job communicates, or of the bytes
// that it moves where times were not recorded.
std::string weights_of(const Job& job);

// A line for each sender with its bytes for each receiver, for --traffic.
std::string traffic_csv(const TrafficOfGroups& traffic);

}  // namespace p5::job
