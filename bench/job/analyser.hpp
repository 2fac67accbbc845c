// The analysis of a trace, in steps: its members are in contradictions.cpp, levels.cpp and analysis.cpp. Internal to
// bench/job.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/job/analysis.hpp"

namespace p5::job {

// A process's executions that make up the last step: [begin, end).
struct Window {
  std::size_t begin = 0, end = 0, steps = 1;
  std::size_t length() const { return end - begin; }
};

// An operation of the step as all its members performed it.
struct Instance {
  std::uint32_t communicator = 0, call = 0;
  int arrived = 0;
  bool sent = false;
  int level = 0;                                          // how many operations at least come before it
  std::vector<std::size_t> waiting;                       // processes
  std::vector<std::pair<std::size_t, std::size_t>> done;  // process, index of its execution
};

// A call that some of its members lack at the end of their records.
struct Lacked {
  std::set<std::size_t> by;           // processes
  std::vector<std::size_t> recorded;  // those that have it, if it is the first that was left out of their records
};

using Row = std::vector<std::uint64_t>;
using Sends = std::vector<Row>;

using Key = std::pair<Stream, std::int64_t>;

// The numbers of a process's calls in a stream.
struct Range {
  std::int64_t first = 0, last = 0;
  bool holds(std::int64_t number) const { return first <= number && number <= last; }
};

class Analyser {
 public:
  Analyser(Trace trace, int hosts);
  Analysis run();

 private:
  const std::vector<Execution>& executions(std::size_t p) const { return trace_.processes[p].executions; }

  const Call& call_of(const Execution& each) const { return trace_.calls[each.call]; }

  void remark(std::string text) { result_.job.remarks.push_back(std::move(text)); }

  static bool is_the_same_for_all(const Call& call) {
    return !call.collective->pairwise && counted_kind(call.collective) != &all_to_all;
  }

  static bool match(const Call& a, const Call& b) { return a.bytes.count == b.bytes.count && a.source == b.source; }

  bool is_counted(const Stream& stream) const { return messages_agree_ || !std::get<1>(stream)->pairwise; }

  // How many records hold a stream if none lacks it.
  int records_of(const Stream& stream) const {
    const auto& [communicator, kind, source, target] = stream;
    if (!kind->pairwise) return recorded_[communicator];
    return int{is_recorded(communicator, source)} + int{is_recorded(communicator, target)};
  }

  bool finds_levels() const { return !levels_.empty(); }

  void set_level(std::size_t p, std::size_t index, int level) {
    if (finds_levels()) levels_[p][index] = level;
  }

  // The processes of a communicator, or of a message's sender and receiver; -1: without a record.
  std::vector<int> processes_of(const Stream& stream) const {
    const auto& [communicator, kind, source, target] = stream;
    const std::vector<int>& all = trace_.communicators[communicator].processes;
    if (!kind->pairwise) return all;
    return {all[static_cast<std::size_t>(source)], all[static_cast<std::size_t>(target)]};
  }

  Stream stream_of(const Execution& each) const { return trace_.stream_of(each); }

  Key key_of(const Execution& each) const { return {stream_of(each), each.number}; }

  bool sends(std::size_t p, const Execution& each) const {
    const int process =
        trace_.communicators[each.communicator].processes[static_cast<std::size_t>(call_of(each).source)];
    return std::cmp_equal(process, p);
  }

  bool is_recorded(std::uint32_t communicator, int member) const {
    return trace_.communicators[communicator].processes[static_cast<std::size_t>(member)] >= 0;
  }

  // An exchange of which some members move more than others.
  bool is_uneven(const Instance& one) const {
    return std::ranges::any_of(one.done, [&](const auto& each) {
      const Call& call = call_of(executions(each.first)[each.second]);
      return call.collective == &all_to_allv || call.bytes != trace_.calls[one.call].bytes;
    });
  }

  bool is_active(int rank) {
    if (active_ranks_.empty())
      for (const std::size_t p : active_) active_ranks_.insert(trace_.processes[p].rank);
    return active_ranks_.contains(rank);
  }

  // ---- contradictions.cpp

  void settle_contradictions();
  void leave_out_short_records();
  void name_the_missing_member();
  void find_ranges();
  void tell_gaps();

  // ---- levels.cpp

  void cut_unfinished();
  void cut_to_one_level();
  void tell_cuts();
  std::map<Key, Lacked> lacked_calls() const;
  bool find_levels();
  int needed(const Key& key) const;
  bool will_send(const Key& key) const;
  bool merge();
  bool merge_with_gaps();
  bool perform(std::size_t p, std::vector<std::size_t>& at, std::vector<int>& level, std::deque<std::size_t>& ready);
  void send(std::size_t p, std::size_t index, Instance& one, std::vector<int>& level, std::deque<std::size_t>& ready);
  bool send_ahead(const std::vector<std::size_t>& at, std::vector<int>& level, std::deque<std::size_t>& ready);
  void take_alone(std::size_t p);

  // ---- analysis.cpp

  void set_nodes(int hosts);
  std::map<Stream, Range> ranges_of(std::size_t p, std::size_t end) const;
  // Calls that are alike have the same number. Exchanges may differ between steps: in size and in whether they are
  // even, then also in type.
  enum class Alike { same_calls, same_kind_and_type, same_type, exchanges };
  static constexpr std::array all_degrees{Alike::same_calls, Alike::same_kind_and_type, Alike::same_type,
                                          Alike::exchanges};
  std::vector<std::uint32_t> numbers_of_calls(Alike degree) const;
  // The period of a process's calls, by the strictest degree of likeness by which they repeat.
  Period find_period(std::size_t p);
  void find_windows();
  std::map<Stream, std::int64_t> first_numbers(std::size_t p) const;
  Window window_from(std::size_t p, const Period& period, const std::map<Stream, std::int64_t>& numbers) const;
  void put_together();
  void make_operations();
  void add_level(const std::vector<const Instance*>& level);
  std::pair<JobOperation, Group> operation_of(const Instance& one) const;
  Bytes busiest(const Instance& one) const;
  void name_groups(JobOperation& operation);
  void set_times(JobOperation& operation, const std::vector<const Instance*>& instances);
  double gap_before(std::size_t p, std::size_t index);
  void set_step();
  void sum_traffic();
  Sends sends_of(const Instance& one) const;
  void set_sends(JobOperation& operation, const std::vector<const Instance*>& instances);
  bool add_traffic(const JobOperation& operation, const Instance& one);
  TrafficOfGroups* traffic_of(const JobOperation& operation);

  Trace trace_;
  std::vector<std::size_t> active_;  // processes that recorded something
  std::set<std::size_t> with_gaps_;  // of them, those in whose records calls are missing or twice
  std::vector<int> recorded_;        // members of each communicator that did
  std::vector<std::size_t> ends_;
  std::vector<Window> windows_;
  std::array<std::vector<std::uint32_t>, all_degrees.size()> numbers_of_calls_;
  std::size_t reference_ = 0;
  std::map<Stream, std::map<std::size_t, Range>> ranges_;          // by process
  std::map<Stream, std::map<std::size_t, Range>> ranges_of_rest_;  // of what was not left out
  bool messages_agree_ = true;
  std::vector<std::vector<int>> levels_;  // by process and call, while they are found
  std::map<Key, Instance> instances_;
  std::map<Key, int> holders_;  // how many steps have a call, while some may lack it
  std::vector<std::vector<const Instance*>> of_operation_;
  std::set<int> active_ranks_;
  std::vector<std::vector<float>> gaps_;  // by process and call
  std::size_t sends_ = 0;                 // numbers in the operations' `sends`
  bool expanded_ = false;
  Analysis result_;
};

}  // namespace p5::job
