// The part of the records that all ranks share, and contradictions between them: sizes and roots, records that are
// short, missing calls.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/job/analyser.hpp"

namespace p5::job {

// Members of a collective record the same size and root; of those that do not, what most have is taken.
void Analyser::settle_contradictions() {
  std::map<Stream, std::vector<std::pair<std::int64_t, std::uint32_t>>> first_records;  // numbers, calls
  std::map<Stream, std::size_t> first_process;
  std::set<Key> contradicted;
  constexpr std::size_t most = 100'000;
  std::vector<bool> shared;
  for (const Communicator& each : trace_.communicators)
    shared.push_back(std::ranges::count_if(each.processes, [](int p) { return p >= 0; }) > 1);
  const auto visit = [&](const auto& use) {
    for (std::size_t p = 0; p < trace_.processes.size(); ++p)
      for (Execution& each : trace_.processes[p].executions)
        if (shared[each.communicator] && is_the_same_for_all(call_of(each))) use(p, each);
  };
  visit([&](std::size_t p, const Execution& each) {
    const Stream stream = stream_of(each);
    const auto [first, fresh] = first_process.try_emplace(stream, p);
    if (first->second == p) first_records[stream].emplace_back(each.number, each.call);
  });
  for (auto& [stream, calls] : first_records) std::ranges::sort(calls);
  visit([&](std::size_t p, const Execution& each) {
    const Stream stream = stream_of(each);
    if (first_process.at(stream) == p || contradicted.size() >= most) return;
    const auto& calls = first_records.at(stream);
    const auto at = std::ranges::lower_bound(calls, each.number, {}, &std::pair<std::int64_t, std::uint32_t>::first);
    if (at != calls.end() && at->first == each.number && !match(trace_.calls[at->second], call_of(each)))
      contradicted.emplace(stream, each.number);
  });
  if (contradicted.empty()) return;
  std::map<Key, std::map<std::uint32_t, int>> votes;
  visit([&](std::size_t, const Execution& each) {
    if (const Key key = key_of(each); contradicted.contains(key)) ++votes[key][each.call];
  });
  std::string example;
  visit([&](std::size_t p, Execution& each) {
    const auto known = votes.find(key_of(each));
    if (known == votes.end()) return;
    const std::uint32_t taken =
        std::ranges::max_element(known->second, {}, [](const auto& vote) { return vote.second; })->first;
    if (each.call == taken) return;
    const Call &mine = call_of(each), &theirs = trace_.calls[taken];
    if (example.empty() && !match(mine, theirs))
      example = fmt::format("{} has {} of {} bytes, most others of its group have {} bytes or another root",
                            trace_.processes[p].name, mine.collective->name, mine.bytes.count, theirs.bytes.count);
    each.call = taken;
  });
  remark(fmt::format("the records contradict each other about the size or root of {} {}: {}; what most have counts",
                     contradicted.size(), contradicted.size() == 1 ? "call" : "calls", example));
}

// A record that ends long before those of the others would leave little of theirs: it counts as not given. One that
// begins later does not, since its numbers say so.
void Analyser::leave_out_short_records() {
  std::map<Stream, std::vector<Range>> all;
  std::vector<std::map<Stream, Range>> of_process(trace_.processes.size());
  for (std::size_t p = 0; p < trace_.processes.size(); ++p)
    for (const auto& [stream, range] : of_process[p] = ranges_of(p, executions(p).size()))
      if (!std::get<1>(stream)->pairwise) all[stream].push_back(range);
  std::map<std::uint32_t, std::vector<std::pair<const Collective*, std::pair<std::int64_t, std::int64_t>>>> expected;
  for (auto& [stream, ranges] : all) {
    const std::int64_t first = std::ranges::min(ranges, {}, &Range::first).first;
    const auto middle = ranges.begin() + static_cast<std::ptrdiff_t>((ranges.size() - 1) / 2);
    std::ranges::nth_element(ranges, middle, {}, &Range::last);
    expected[std::get<0>(stream)].push_back({std::get<1>(stream), {first, middle->last}});
  }
  std::vector<double> has(trace_.processes.size(), 0), wants(trace_.processes.size(), 0);
  for (const auto& [communicator, streams] : expected)
    for (const int process : trace_.communicators[communicator].processes) {
      if (process < 0) continue;
      const auto p = static_cast<std::size_t>(process);
      for (const auto& [kind, numbers] : streams) {
        const auto& [first, last] = numbers;
        const auto mine = of_process[p].find(Stream(communicator, kind, -1, -1));
        const std::int64_t reached = mine == of_process[p].end() ? first - 1 : std::min(mine->second.last, last);
        wants[p] += static_cast<double>(last - first + 1);
        has[p] += static_cast<double>(reached - first + 1);
      }
    }
  std::vector<std::string> names;
  for (std::size_t p = 0; p < trace_.processes.size(); ++p) {
    if (2 * has[p] < wants[p])
      names.push_back(trace_.processes[p].name);
    else if (!executions(p).empty())
      active_.push_back(p);
  }
  if (active_.empty()) {  // they have nothing in common
    names.clear();
    for (std::size_t p = 0; p < trace_.processes.size(); ++p)
      if (!executions(p).empty()) active_.push_back(p);
  }
  for (const std::size_t p : active_) ends_[p] = executions(p).size();
  for (Communicator& each : trace_.communicators) {
    for (int& process : each.processes)
      if (process >= 0 && ends_[static_cast<std::size_t>(process)] == 0) process = -1;
    recorded_.push_back(static_cast<int>(std::ranges::count_if(each.processes, [](int p) { return p >= 0; })));
  }
  if (!names.empty())
    remark(
        fmt::format("left out, since they hold less than half of the calls that others of their groups "
                    "recorded: the records of {}; if the job hung, the others wait for these ranks",
                    some_of(std::move(names))));
  name_the_missing_member();
}

// NCCL's records name only members that have one. Where a single rank has none, it is the member that groups lack.
void Analyser::name_the_missing_member() {
  std::vector<int> without;
  for (int rank = 0; rank < trace_.ranks && without.size() < 2; ++rank)
    if (!is_active(rank)) without.push_back(rank);
  if (without.size() != 1) return;
  for (Communicator& each : trace_.communicators)
    if (std::ranges::count(each.ranks, -1) == 1 && std::ranges::find(each.ranks, without[0]) == each.ranks.end())
      *std::ranges::find(each.ranks, -1) = without[0];
}

// Messages have no numbers of the job but are counted: those of two records mean the same where the records begin
// with the same collectives.
void Analyser::find_ranges() {
  for (const std::size_t p : active_)
    for (const auto& [stream, range] : ranges_of(p, ends_[p])) ranges_[stream][p] = range;
  messages_agree_ = std::ranges::all_of(ranges_, [](const auto& stream) {
    const auto other = [](const auto& a, const auto& b) { return a.second.first != b.second.first; };
    return std::get<1>(stream.first)->pairwise ||
           std::ranges::adjacent_find(stream.second, other) == stream.second.end();
  });
}

// Between the same numbers of a collective all members of its group have as many calls.
void Analyser::tell_gaps() {
  std::map<Stream, Range> common;
  for (const auto& [stream, ranges] : ranges_)
    if (!std::get<1>(stream)->pairwise && ranges.size() > 1)
      for (const auto& [p, range] : ranges) {
        Range& known = common.try_emplace(stream, range).first->second;
        known = {std::max(known.first, range.first), std::min(known.last, range.last)};
      }
  std::map<Stream, std::map<std::size_t, std::size_t>> counts;
  for (const std::size_t p : active_)
    for (const Execution& each : executions(p)) {
      const Stream stream = stream_of(each);
      if (const auto range = common.find(stream); range != common.end() && range->second.holds(each.number))
        ++counts[stream][p];
    }
  for (const auto& [stream, of_process] : counts) {
    std::vector<std::size_t> all;
    for (const auto& [p, count] : of_process) all.push_back(count);
    std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
    const std::size_t usual = all[all.size() / 2];
    const bool is_told = all.size() > 2 || all[0] == all[1];  // which of the two is wrong
    for (const auto& [p, count] : of_process)
      if (count != usual || !is_told) with_gaps_.insert(p);
  }
  std::set<std::string> names;
  for (const std::size_t p : with_gaps_) names.insert(trace_.processes[p].name);
  if (!names.empty())
    remark(fmt::format("some calls are missing within a record or are in it twice, as the numbers of calls show: in {}",
                       some_of({names.begin(), names.end()})));
}

}  // namespace p5::job
