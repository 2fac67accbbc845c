// Results of a case, as plain values. Times are seconds per operation; each sample is the slowest rank's time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/base/statistics.hpp"
#include "bench/base/units.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"

namespace p5 {

enum class Outcome { measured, skipped, failed };
enum class Phase { open, warm_up, sample, verify, close };
std::string_view name_of(Outcome outcome);
std::string_view name_of(Phase phase);

struct Series {
  int operations_per_sample = 1;
  std::vector<double> samples;  // in the order in which they were taken
  Summary summary;
  std::string stopped_because;  // "interval within 1 %", "share of the budget spent", "most samples"
  // Imported times have few printed digits: the largest rounding error of the median.
  std::optional<double> rounding_us = {};
};

// Result of one of several groups that perform a case, at the same time or in rounds.
struct GroupResult {
  Group group;     // p2p: source and destination; for a collective in a report that was read, only the first rank
  Seconds median;  // throughput: per operation, p2p: per message
  // Throughput samples, seconds per operation; empty in reports that were read. Single precision suffices for counting
  // slow samples, of which large clusters have millions.
  std::vector<float> samples = {};
};

// An operation that ran at the same time as others: that of the case, or of one of the works beside it.
struct ConcurrentOperation {
  std::string name;      // operation without size, or name_of(Work)
  Series alone, beside;  // seconds per operation, while nothing else runs, and while all others run
  // With more than two operations: beside each other one alone, in their order; else empty.
  struct BesideOne {
    std::string name;
    Series times;
  };
  std::vector<BesideOne> beside_each;
  // False where fewer than two of its operations ended while all ran: then it waits for the others, and is slowed by
  // more than `beside` says.
  bool covered = true;
  int operations = 1;  // in Concurrency::together, where each takes about the same time alone
};

struct Concurrency {
  std::vector<ConcurrentOperation> operations;  // the case's own first
  Series together;                              // seconds until all operations of all works are done
};

// Time per operation beside the others, relative to that alone: 1 if they do not slow it.
double slowdown(const Series& alone, const Series& beside);
// Times of all operations of Concurrency::together one after the other, and of the longest alone.
Seconds sum_of(const Concurrency& c);
Seconds longest_of(const Concurrency& c);
// 1 if all are done when the longest would be alone, 0 if they take as long as one after the other, below 0 if longer.
double overlap(const Concurrency& c);

// Calls action(series) for each series, in an order that depends on the number of operations alone.
template <class Action>
void for_each_series(auto& concurrency, const Action& action) {
  for (auto& each : concurrency.operations) {
    action(each.alone);
    action(each.beside);
    for (auto& one : each.beside_each) action(one.times);
  }
  action(concurrency.together);
}

// A case with every root: result of one of them, of the slowest group.
struct RootResult {
  int root = 0;    // within the group
  Seconds median;  // throughput, per operation
};

struct Measurement {
  Case measured_case;
  // Index of the launch (fresh processes and communicators) of a journal line. Null: all launches combined, as in the
  // report, or the only launch.
  std::optional<int> launch;
  int run = 0;  // of a baseline's journal line: which of its runs made the launch, counted from 0
  Outcome outcome = Outcome::measured;
  std::string because;  // skipped or failed: the reason
  std::optional<Phase> failed_in;
  std::optional<int> failed_rank;
  FailureContext failure_context;  // context of the first failure
  std::optional<Series> latency;   // with several groups, that of the slowest
  std::optional<Series> throughput;
  std::optional<Concurrency> concurrency;  // of a case with works beside it, whose `throughput` is beside them
  std::vector<GroupResult> groups;         // all groups of all rounds; with every root the slowest round of each group
  std::vector<RootResult> roots;           // by root; empty unless the case has every root
  // Groups without progress in rounds that ended by a stall, and those that finished.
  std::vector<Group> silent_groups, finished_groups;
  std::vector<Group> wrong_groups;  // groups in which a rank received wrong elements
  Group slowest_group;
  std::optional<int> slowest_rank;
  std::vector<double> launches_s;          // throughput: median of each launch, in order
  std::vector<double> latency_launches_s;  // the same for latency; empty where it was not measured
  // The runs that made each of these launches, counted as `run`, in a baseline of several runs; else empty.
  std::vector<int> launch_runs, latency_launch_runs;
  // Time of the calls on the host, per operation: the largest of the medians of all ranks and rounds; of several
  // launches the median. Null where calls last until the operation ends.
  std::optional<double> host_s;
  std::uint64_t wrong_elements = 0;
  std::optional<bool> data_checked = {};  // false: the program of an imported figure did not check all; else null
  std::optional<WrongElement> first_wrong;
  std::optional<Selection> selection;
  // Of communicators: the largest of all ranks; of several launches the median.
  CommunicatorCosts communicator_costs;
  double wall_s = 0;  // all phases of the case, without the time between its rounds
};

// The root with the largest median; null where each case has one root.
std::optional<int> slowest_root(const Measurement& m);

// Algorithm and bus bandwidth for a time per operation, as nccl-tests defines them.
GBps algorithm_bandwidth(const Case& c, Seconds time);
GBps bus_bandwidth(const Case& c, Seconds time);

struct Trial {
  enum class Outcome { measured, failed, wrong_data, skipped };  // skipped: an earlier trial of the block failed
  Outcome outcome = Outcome::measured;
  Seconds time{};            // per operation, of the slowest rank
  std::string because = {};  // reason, unless measured
};

}  // namespace p5
