// What came out of a case, as plain values. Times are seconds per operation, the slowest rank's of each sample.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/base/statistics.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"

namespace p5 {

enum class Outcome { measured, skipped, failed };
enum class Phase { open, warm_up, sample, verify };
std::string_view name_of(Outcome outcome);
std::string_view name_of(Phase phase);

struct Series {
  int operations_per_sample = 1;
  std::vector<double> samples;  // in the order in which they were taken
  Summary summary;
  std::string stopped_because;  // "interval within 1 %", "share of the budget spent", "most samples"
  // Of imported times, which were printed with few digits: the median may be so much shorter or longer.
  std::optional<double> rounding_us = {};
};

// Of several groups that perform a case, at the same time or in rounds: one.
struct GroupResult {
  Group group;     // p2p: source and destination; of a report that was read, of a collective only the first rank
  Seconds median;  // throughput: per operation, p2p: per message
  // Samples of the throughput, seconds per operation; empty in reports that were read. Single precision is enough for
  // counting how many are slow, and there are millions on large clusters.
  std::vector<float> samples = {};
};

struct Measurement {
  Case measured_case;
  // The launch (fresh processes and communicators) that it is of, counted from 0: a line of the journal. Null: of all
  // launches together, as in the report, or the only one.
  std::optional<int> launch;
  Outcome outcome = Outcome::measured;
  std::string because;  // skipped or failed: why
  std::optional<Phase> failed_in;
  std::optional<int> failed_rank;
  FailureContext failure_context;  // of the first failure
  std::optional<Series> latency;   // of several groups: those of the slowest
  std::optional<Series> throughput;
  std::vector<GroupResult> groups;  // all of all rounds
  // In rounds that ended because nothing moved any more: groups that made no progress, and those that finished.
  std::vector<Group> silent_groups, finished_groups;
  std::vector<Group> wrong_groups;  // groups in which a rank received wrong elements
  Group slowest_group;
  std::optional<int> slowest_rank;
  std::vector<double> launches_s;          // throughput: median of each launch, in the order of the launches
  std::vector<double> latency_launches_s;  // the same of latency; empty where that was not measured
  std::uint64_t wrong_elements = 0;
  std::optional<WrongElement> first_wrong;
  std::optional<Selection> selection;
  double wall_s = 0;  // all phases of the case, without the time between its rounds
};

// Algorithm and bus bandwidth of a time per operation (definitions of nccl-tests).
GBps algorithm_bandwidth(const Case& c, Seconds time);
GBps bus_bandwidth(const Case& c, Seconds time);

}  // namespace p5
