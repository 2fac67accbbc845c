#include "bench/job/analysis.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "bench/base/text.hpp"

namespace p5::job {

Period period_of(const std::vector<std::uint64_t>& sequence) {
  const std::size_t n = sequence.size();
  const auto at = [&](std::size_t i) { return sequence[n - 1 - i]; };  // from the end
  // z[i]: how long the reversed sequence agrees with itself, shifted by i.
  std::vector<std::size_t> z(n, 0);
  for (std::size_t i = 1, left = 0, right = 0; i < n; ++i) {
    if (i < right) z[i] = std::min(right - i, z[i - left]);
    while (i + z[i] < n && at(z[i]) == at(i + z[i])) ++z[i];
    if (i + z[i] > right) left = i, right = i + z[i];
  }
  for (std::size_t length = 1; length < n; ++length) {
    const std::size_t covers = z[length] + length;
    if (covers >= 2 * length && 2 * covers >= n) return {length, covers};
  }
  return {n, n};
}

namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

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

using Row = std::vector<std::uint64_t>;
using Sends = std::vector<Row>;

// Calls that are numbered together: those of a kind on a communicator, messages by sender and receiver.
using Stream = std::tuple<std::uint32_t, const Collective*, int, int>;
using Key = std::pair<Stream, std::int64_t>;

// The numbers of a process's calls in a stream.
struct Range {
  std::int64_t first = 0, last = 0;
  bool holds(std::int64_t number) const { return first <= number && number <= last; }
};

// "a, b, c, d and 3 more"
std::string some_of(std::vector<std::string> names) {
  constexpr std::size_t most = 4;
  const std::size_t more = names.size() - std::min(names.size(), most);
  names.resize(names.size() - more);
  return join(names) + (more > 0 ? fmt::format(" and {} more", more) : "");
}

class Analyser {
 public:
  Analyser(Trace trace, int hosts) : trace_(std::move(trace)) {
    ends_.resize(trace_.processes.size());
    windows_.resize(trace_.processes.size());
    result_.job.ranks = trace_.ranks;
    result_.job.remarks = trace_.remarks();
    set_nodes(hosts);
  }

  Analysis run() {
    settle_contradictions();
    leave_out_short_records();
    find_ranges();
    tell_gaps();
    cut_unfinished();
    cut_to_one_level();
    tell_cuts();
    find_windows();
    if (!merge()) {
      remark("the ranks' records contradict each other about the order; the step is that of " +
             trace_.processes[reference_].name + " alone");
      take_alone(reference_);
    }
    put_together();
    make_operations();
    make_traffic();
    set_step();
    return std::move(result_);
  }

 private:
  const std::vector<Execution>& executions(std::size_t p) const { return trace_.processes[p].executions; }
  const Call& call_of(const Execution& each) const { return trace_.calls[each.call]; }
  void remark(std::string text) { result_.job.remarks.push_back(std::move(text)); }

  void set_nodes(int hosts) {
    const auto ranks = static_cast<std::size_t>(trace_.ranks);
    std::vector<std::string> host_of_rank(ranks);
    for (const Process& each : trace_.processes) host_of_rank[static_cast<std::size_t>(each.rank)] = each.host;
    NodeOfRank& nodes = result_.job.node_of_rank;
    if (std::ranges::none_of(host_of_rank, &std::string::empty)) {
      std::map<std::string, int> number;
      for (const std::string& host : host_of_rank)
        nodes.push_back(number.try_emplace(host, static_cast<int>(number.size())).first->second);
    } else if (hosts > 0) {
      if (ranks % static_cast<std::size_t>(hosts) != 0)
        throw UsageError(fmt::format("--hosts {}: the job's {} ranks are not the same number on each", hosts, ranks));
      for (std::size_t rank = 0; rank < ranks; ++rank)
        nodes.push_back(static_cast<int>(rank / (ranks / static_cast<std::size_t>(hosts))));
    }
  }

  // ---- what all ranks recorded

  // Members of a collective record the same size and root; of those that do not, what most have is taken.
  void settle_contradictions() {
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
      if (at != calls.end() && at->first == each.number && !agree(trace_.calls[at->second], call_of(each)))
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
      if (example.empty() && !agree(mine, theirs))
        example = fmt::format("{} has {} of {} bytes, most others of its group have {} bytes or another root",
                              trace_.processes[p].name, mine.collective->name, mine.bytes.count, theirs.bytes.count);
      each.call = taken;
    });
    remark(fmt::format("the records contradict each other about the size or root of {} {}: {}; what most have counts",
                       contradicted.size(), contradicted.size() == 1 ? "call" : "calls", example));
  }
  static bool is_the_same_for_all(const Call& call) {
    return !call.collective->pairwise && counted_kind(call.collective) != &all_to_all;
  }
  static bool agree(const Call& a, const Call& b) { return a.bytes.count == b.bytes.count && a.source == b.source; }

  // A record that ends long before those of the others would leave little of theirs: it counts as not given. One that
  // begins later does not, since its numbers say so.
  void leave_out_short_records() {
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
                      "recorded: the records of {}",
                      some_of(std::move(names))));
    name_the_missing_member();
  }

  // NCCL's records name only members that have one. Where a single rank has none, it is the member that groups lack.
  void name_the_missing_member() {
    std::vector<int> without;
    for (int rank = 0; rank < trace_.ranks && without.size() < 2; ++rank)
      if (!is_active(rank)) without.push_back(rank);
    if (without.size() != 1) return;
    for (Communicator& each : trace_.communicators)
      if (std::ranges::count(each.ranks, -1) == 1 && std::ranges::find(each.ranks, without[0]) == each.ranks.end())
        *std::ranges::find(each.ranks, -1) = without[0];
  }

  std::map<Stream, Range> ranges_of(std::size_t p, std::size_t end) const {
    std::map<Stream, Range> ranges;
    for (std::size_t i = 0; i < end; ++i) {
      const std::int64_t number = executions(p)[i].number;
      Range& range = ranges.try_emplace(stream_of(executions(p)[i]), Range{number, number}).first->second;
      range = {std::min(range.first, number), std::max(range.last, number)};
    }
    return ranges;
  }

  // Messages have no numbers of the job but are counted: those of two records mean the same where the records begin
  // with the same collectives.
  void find_ranges() {
    for (const std::size_t p : active_)
      for (const auto& [stream, range] : ranges_of(p, ends_[p])) ranges_[stream][p] = range;
    messages_agree_ = std::ranges::all_of(ranges_, [](const auto& stream) {
      const auto other = [](const auto& a, const auto& b) { return a.second.first != b.second.first; };
      return std::get<1>(stream.first)->pairwise ||
             std::ranges::adjacent_find(stream.second, other) == stream.second.end();
    });
  }

  // Between the same numbers of a collective all members of its group have as many calls.
  void tell_gaps() {
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
    std::set<std::string> names;
    for (const auto& [stream, of_process] : counts) {
      std::vector<std::size_t> all;
      for (const auto& [p, count] : of_process) all.push_back(count);
      std::ranges::nth_element(all, all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2));
      const std::size_t usual = all[all.size() / 2];
      const bool is_told = all.size() > 2 || all[0] == all[1];  // which of the two is wrong
      for (const auto& [p, count] : of_process)
        if (count != usual || !is_told) names.insert(trace_.processes[p].name);
    }
    if (!names.empty())
      remark(
          fmt::format("some calls are missing within a record or are in it twice, as the numbers of calls show: in {}",
                      some_of({names.begin(), names.end()})));
  }

  bool is_counted(const Stream& stream) const { return messages_agree_ || !std::get<1>(stream)->pairwise; }
  // How many records hold a stream if none lacks it.
  int records_of(const Stream& stream) const {
    const auto& [communicator, kind, source, target] = stream;
    if (!kind->pairwise) return recorded_[communicator];
    return int{is_recorded(communicator, source)} + int{is_recorded(communicator, target)};
  }

  // Leaves out what some ranks had not called yet, or not recorded any more, when the records end.
  void cut_unfinished() {
    constexpr int most_passes = 16;
    for (int pass = 0; pass < most_passes; ++pass) {
      std::map<Stream, std::pair<std::int64_t, int>> last;  // least of the members' last
      for (const std::size_t p : active_)
        for (const auto& [stream, range] : ranges_of(p, ends_[p])) {
          const auto [at, fresh] = last.try_emplace(stream, range.last, 1);
          if (!fresh) at->second = {std::min(at->second.first, range.last), at->second.second + 1};
        }
      bool cut = false;
      for (const std::size_t p : active_)
        for (std::size_t i = 0; i < ends_[p]; ++i) {
          const Execution& each = executions(p)[i];
          const Stream stream = stream_of(each);
          if (!is_counted(stream)) continue;
          const auto& [number, members] = last.at(stream);
          const bool all = members >= records_of(stream);  // 0 where no record names the ranks
          if (all && each.number <= number) continue;
          // Some members never recorded it: at the beginning because their records begin later.
          if (!all && 2 * i < ends_[p]) continue;
          cut = true;
          ends_[p] = i;
        }
      if (!cut) return;
    }
  }

  // Ranks that wait for nobody that is behind have gone on, so that they end in another part of the step than others.
  // All end where the first one that is behind does, counted in operations that come after each other.
  void cut_to_one_level() {
    const std::vector<std::size_t> behind = processes_behind();
    if (behind.empty() || !find_levels()) return;
    const std::vector<std::size_t> part = connected_parts();
    std::map<std::size_t, int> least;
    const auto end_with = [&](std::size_t p) {
      const int level = ends_[p] == 0 ? 0 : levels_[p][ends_[p] - 1];
      int& known = least.try_emplace(part[p], level).first->second;
      known = std::min(known, level);
    };
    std::ranges::for_each(behind, end_with);
    // A message may be sent before that and received later.
    constexpr int most_passes = 16;
    for (int pass = 0; pass < most_passes; ++pass) {
      for (const std::size_t p : active_)
        if (const auto level = least.find(part[p]); level != least.end())
          ends_[p] =
              std::min(ends_[p], static_cast<std::size_t>(
                                     std::ranges::find_if(levels_[p], [&](int each) { return each > level->second; }) -
                                     levels_[p].begin()));
      const std::vector<std::size_t> before = ends_;
      cut_unfinished();
      if (ends_ == before) break;
      for (const std::size_t p : active_)
        if (ends_[p] < before[p]) end_with(p);
    }
    levels_.clear();
  }

  void tell_cuts() {
    std::size_t all = 0, left = 0;
    for (const std::size_t p : active_) all += executions(p).size(), left += ends_[p];
    if (2 * left < all)
      remark(
          fmt::format("only {} of {} calls count: the others come after the first call that not all ranks of its group "
                      "have recorded; give records of the same steps of all ranks",
                      left, all));
  }

  // Processes whose records end before a call that others recorded and that was left out.
  std::vector<std::size_t> processes_behind() const {
    std::set<std::size_t> behind;
    for (const std::size_t p : active_) {
      if (ends_[p] == executions(p).size()) continue;
      const Execution& next = executions(p)[ends_[p]];
      const Stream stream = stream_of(next);
      const auto& [communicator, kind, source, target] = stream;
      const std::map<std::size_t, Range>& ranges = ranges_.at(stream);
      const std::vector<int>& members = trace_.communicators[communicator].processes;
      for (std::size_t member = 0; member < members.size(); ++member) {
        if (members[member] < 0) continue;
        if (kind->pairwise && std::cmp_not_equal(member, source) && std::cmp_not_equal(member, target)) continue;
        const auto other = static_cast<std::size_t>(members[member]);
        const auto known = ranges.find(other);
        if (known == ranges.end() || known->second.last < next.number) behind.insert(other);
      }
    }
    return {behind.begin(), behind.end()};
  }

  // By process: the first one of those that communicators connect with it, directly or not.
  std::vector<std::size_t> connected_parts() const {
    std::vector<std::size_t> parent(trace_.processes.size());
    std::iota(parent.begin(), parent.end(), std::size_t{0});
    const auto first_of = [&](std::size_t p) {
      while (parent[p] != p) p = parent[p] = parent[parent[p]];
      return p;
    };
    for (const auto& [stream, ranges] : ranges_)
      for (const auto& [p, range] : ranges) {
        const std::size_t a = first_of(p), b = first_of(ranges.begin()->first);
        parent[std::max(a, b)] = std::min(a, b);
      }
    std::vector<std::size_t> part;
    for (std::size_t p = 0; p < parent.size(); ++p) part.push_back(first_of(p));
    return part;
  }

  // The level of each call that is left, from the beginning of the records. False where they contradict each other.
  bool find_levels() {
    ranges_of_rest_.clear();
    levels_.assign(trace_.processes.size(), {});
    for (const std::size_t p : active_) {
      levels_[p].assign(ends_[p], 0);
      windows_[p] = {0, ends_[p], 1};
      for (const auto& [stream, range] : ranges_of(p, ends_[p])) ranges_of_rest_[stream][p] = range;
    }
    const bool found = merge();
    if (!found) levels_.clear();
    instances_.clear();
    return found;
  }
  bool finds_levels() const { return !levels_.empty(); }

  // How many processes have to arrive at a collective; while levels are found, those whose records have begun.
  int needed(const Key& key) const {
    if (!finds_levels()) return recorded_[std::get<0>(key.first)];
    return static_cast<int>(std::ranges::count_if(ranges_of_rest_.at(key.first),
                                                  [&](const auto& each) { return each.second.holds(key.second); }));
  }
  bool will_send(const Key& key) const {
    const auto& [communicator, kind, source, target] = key.first;
    const int process = trace_.communicators[communicator].processes[static_cast<std::size_t>(source)];
    if (process < 0 || !finds_levels()) return process >= 0;
    const std::map<std::size_t, Range>& ranges = ranges_of_rest_.at(key.first);
    const auto sender = ranges.find(static_cast<std::size_t>(process));
    return sender != ranges.end() && sender->second.holds(key.second);
  }
  void set_level(std::size_t p, std::size_t index, int level) {
    if (finds_levels()) levels_[p][index] = level;
  }

  // ---- steps

  // Calls that are alike have the same number. Exchanges may differ between steps: in size and in whether they are
  // even, then also in type.
  enum class Alike { same_calls, same_kind_and_type, same_type, exchanges };
  static constexpr std::array all_degrees{Alike::same_calls, Alike::same_kind_and_type, Alike::same_type,
                                          Alike::exchanges};
  std::vector<std::uint32_t> numbers_of_calls(Alike degree) const {
    std::map<std::pair<const Collective*, std::optional<DataType>>, std::uint32_t> exchanges;
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t i = 0; i < trace_.calls.size(); ++i) {
      const Call& call = trace_.calls[i];
      if (degree == Alike::same_calls || counted_kind(call.collective) != &all_to_all) {
        numbers.push_back(i);
        continue;
      }
      const Collective* const kind = degree == Alike::same_kind_and_type ? call.collective : &all_to_all;
      const std::optional<DataType> type = degree == Alike::exchanges ? std::nullopt : call.type;
      numbers.push_back(exchanges.try_emplace({kind, type}, i).first->second);
    }
    return numbers;
  }

  // The period of a process's calls, with exchanges taken for alike only as far as it needs to repeat.
  Period find_period(std::size_t p) {
    Period found;
    for (const Alike degree : all_degrees) {
      std::vector<std::uint32_t>& numbers = numbers_of_calls_[static_cast<std::size_t>(degree)];
      if (numbers.empty()) numbers = numbers_of_calls(degree);
      std::vector<std::uint64_t> sequence;
      sequence.reserve(ends_[p]);
      for (std::size_t i = 0; i < ends_[p]; ++i)
        sequence.push_back(std::uint64_t{executions(p)[i].communicator} << 32 | numbers[executions(p)[i].call]);
      found = period_of(sequence);
      if (found.length < sequence.size()) break;
    }
    return found;
  }

  void find_windows() {
    std::vector<Period> periods(trace_.processes.size());
    for (const std::size_t p : active_) periods[p] = find_period(p);
    const auto by_length = [&](std::size_t a, std::size_t b) { return periods[a].length < periods[b].length; };
    std::set<std::size_t> left(active_.begin(), active_.end());
    bool first = true;
    // The ranks that a communicator connects, directly or not, take their step from the one with the longest.
    while (!left.empty()) {
      const std::size_t reference = *std::ranges::max_element(left, by_length);
      windows_[reference] = {ends_[reference] - periods[reference].length, ends_[reference], 1};
      if (std::exchange(first, false)) reference_ = reference;
      std::deque<std::size_t> next{reference};
      left.erase(reference);
      while (!next.empty()) {
        const std::size_t p = next.front();
        next.pop_front();
        for (const auto& [stream, number] : first_numbers(p))
          for (const int other : processes_of(stream))
            if (other >= 0 && left.erase(static_cast<std::size_t>(other)) > 0) {
              const auto o = static_cast<std::size_t>(other);
              windows_[o] = window_from(o, periods[o], p);
              next.push_back(o);
            }
      }
    }
    for (const std::size_t p : active_)
      if (windows_[p].length() > 0)
        windows_[p].steps = std::max<std::size_t>(1, periods[p].covers / windows_[p].length());
    result_.job.steps = static_cast<int>(windows_[reference_].steps);
    if (result_.job.steps == 1) remark("nothing repeats in the record: all of it counts as one step");
  }

  // The processes of a communicator, or of a message's sender and receiver; -1: without a record.
  std::vector<int> processes_of(const Stream& stream) const {
    const auto& [communicator, kind, source, target] = stream;
    const std::vector<int>& all = trace_.communicators[communicator].processes;
    if (!kind->pairwise) return all;
    return {all[static_cast<std::size_t>(source)], all[static_cast<std::size_t>(target)]};
  }

  // The number of the first call of each stream in a process's step.
  std::map<Stream, std::int64_t> first_numbers(std::size_t p) const {
    std::map<Stream, std::int64_t> numbers;
    for (std::size_t i = windows_[p].begin; i < windows_[p].end; ++i) {
      const Execution& each = executions(p)[i];
      numbers.try_emplace(stream_of(each), each.number);
    }
    return numbers;
  }

  // The step of a process that shares communicators with one whose step is known.
  Window window_from(std::size_t p, const Period& period, std::size_t known) const {
    const std::map<Stream, std::int64_t> numbers = first_numbers(known);
    std::size_t least = 0, most = ends_[p];  // of `begin`
    for (std::size_t i = 0; i < ends_[p]; ++i) {
      const Execution& each = executions(p)[i];
      const Stream stream = stream_of(each);
      const auto shared = numbers.find(stream);
      if (shared == numbers.end() || !is_counted(stream)) continue;
      if (each.number < shared->second)
        least = i + 1;
      else
        most = std::min(most, i);
    }
    if (most < least) return {least, ends_[p], 1};
    // Between the two, where whole repetitions are left.
    for (std::size_t begin = least; begin <= most; ++begin)
      if (period.length > 0 && begin < ends_[p] && (ends_[p] - begin) % period.length == 0) return {begin, ends_[p], 1};
    return {least, ends_[p], 1};
  }

  Stream stream_of(const Execution& each) const {
    const Call& call = call_of(each);
    const bool message = call.collective->pairwise;
    return {each.communicator, counted_kind(call.collective), message ? call.source : -1, message ? call.target : -1};
  }
  Key key_of(const Execution& each) const { return {stream_of(each), each.number}; }
  bool sends(std::size_t p, const Execution& each) const {
    const int process =
        trace_.communicators[each.communicator].processes[static_cast<std::size_t>(call_of(each).source)];
    return std::cmp_equal(process, p);
  }
  bool is_recorded(std::uint32_t communicator, int member) const {
    return trace_.communicators[communicator].processes[static_cast<std::size_t>(member)] >= 0;
  }

  // Performs the operations of all processes in an order that each of them keeps. False where there is none.
  bool merge() {
    std::vector<std::size_t> at(trace_.processes.size());
    std::vector<int> level(trace_.processes.size(), 0);
    for (const std::size_t p : active_) at[p] = windows_[p].begin;
    std::deque<std::size_t> ready(active_.begin(), active_.end());
    std::size_t unfinished = active_.size();
    while (true) {
      while (!ready.empty()) {
        const std::size_t p = ready.front();
        ready.pop_front();
        while (at[p] < windows_[p].end && perform(p, at, level, ready)) ++at[p];
        if (at[p] >= windows_[p].end) --unfinished;
      }
      if (unfinished == 0) return true;
      if (!send_ahead(at, level, ready)) return false;
    }
  }

  // False: the process waits, and will be ready again.
  bool perform(std::size_t p, std::vector<std::size_t>& at, std::vector<int>& level, std::deque<std::size_t>& ready) {
    const Execution& each = executions(p)[at[p]];
    const Call& call = call_of(each);
    const Key key = key_of(each);
    if (finds_levels() && levels_[p][at[p]] > 0) return true;  // sent ahead
    Instance& one = instances_[key];
    one.communicator = each.communicator;
    one.call = each.call;
    if (call.collective->pairwise) {
      if (sends(p, each)) {
        send(p, at[p], one, level, ready);
        return true;
      }
      if (!one.sent && will_send(key)) {
        one.waiting = {p};
        return false;
      }
      level[p] = std::max(level[p] + 1, one.level);
      one.level = level[p];
      one.done.emplace_back(p, at[p]);
      set_level(p, at[p], one.level);
      if (finds_levels()) instances_.erase(key);
      return true;
    }
    one.level = std::max(one.level, level[p] + 1);
    one.done.emplace_back(p, at[p]);
    if (++one.arrived < needed(key)) {
      one.waiting.push_back(p);
      return false;
    }
    level[p] = one.level;
    for (const auto& [other, index] : one.done) set_level(other, index, one.level);
    for (const std::size_t other : one.waiting) {
      level[other] = one.level;
      ++at[other];
      ready.push_back(other);
    }
    one.waiting.clear();
    if (finds_levels()) instances_.erase(key);
    return true;
  }

  void send(std::size_t p, std::size_t index, Instance& one, std::vector<int>& level, std::deque<std::size_t>& ready) {
    if (one.sent) return;  // ahead
    one.sent = true;
    one.level = ++level[p];
    one.done.emplace_back(p, index);
    set_level(p, index, one.level);
    for (const std::size_t other : one.waiting) ready.push_back(other);
    one.waiting.clear();
  }

  // Processes that wait for messages of each other have called sends and receives as one group: what comes next of
  // their messages is sent. False if there is none.
  bool send_ahead(const std::vector<std::size_t>& at, std::vector<int>& level, std::deque<std::size_t>& ready) {
    bool any = false;
    for (const std::size_t p : active_) {
      if (at[p] >= windows_[p].end || !call_of(executions(p)[at[p]]).collective->pairwise) continue;
      for (std::size_t i = at[p]; i < windows_[p].end && call_of(executions(p)[i]).collective->pairwise; ++i) {
        const Execution& each = executions(p)[i];
        Instance& one = instances_[key_of(each)];
        if (!sends(p, each) || one.sent) continue;
        one.communicator = each.communicator;
        one.call = each.call;
        send(p, i, one, level, ready);
        any = true;
      }
    }
    return any;
  }

  void take_alone(std::size_t p) {
    instances_.clear();
    int level = 0;
    for (std::size_t i = windows_[p].begin; i < windows_[p].end; ++i) {
      const Execution& each = executions(p)[i];
      Instance& one = instances_[key_of(each)];
      one = {.communicator = each.communicator, .call = each.call, .level = ++level, .waiting = {}, .done = {{p, i}}};
    }
  }

  // ---- operations

  // A group whose members have nothing else to do before a later level, at which other groups do the same, does it
  // with them: operations of some ranks only put these behind the others.
  void put_together() {
    const auto alike = [&](const Instance& one) {
      return std::pair(one.call, trace_.communicators[one.communicator].size);
    };
    std::map<std::pair<std::uint32_t, int>, std::map<int, int>> counts;  // of groups, by level
    std::vector<Instance*> ordered;
    for (auto& [key, one] : instances_) {
      ordered.push_back(&one);
      ++counts[alike(one)][one.level];
    }
    std::ranges::stable_sort(ordered, std::greater(), &Instance::level);
    std::vector<int> next(trace_.processes.size(), std::numeric_limits<int>::max());  // level
    for (Instance* const one : ordered) {
      if (!trace_.calls[one->call].collective->pairwise) {
        int least = std::numeric_limits<int>::max();
        for (const auto& [p, i] : one->done) least = std::min(least, next[p]);
        least = std::max(least, one->level + 1);  // a message that is received later may have this level as well
        std::map<int, int>& levels = counts[alike(*one)];
        if (const auto last = std::prev(levels.lower_bound(least)); last->first > one->level) {
          if (--levels[one->level] == 0) levels.erase(one->level);
          one->level = last->first;
          ++last->second;
        }
      }
      for (const auto& [p, i] : one->done) next[p] = std::min(next[p], one->level);
    }
  }

  // Groups of the same level that do the same are one operation.
  void make_operations() {
    std::vector<const Instance*> ordered;
    for (const auto& [key, one] : instances_) ordered.push_back(&one);
    std::ranges::stable_sort(ordered, {}, &Instance::level);
    for (std::size_t first = 0; first < ordered.size();) {
      std::size_t end = first;
      while (end < ordered.size() && ordered[end]->level == ordered[first]->level) ++end;
      add_level(
          {ordered.begin() + static_cast<std::ptrdiff_t>(first), ordered.begin() + static_cast<std::ptrdiff_t>(end)});
      first = end;
    }
    bool unknown_ranks = false;
    for (const JobOperation& each : result_.job.operations)
      unknown_ranks = unknown_ranks || (each.group.empty() && each.groups.empty());
    if (unknown_ranks) remark("the ranks of some groups are not in the record: give the files of all ranks");
    std::vector<std::string> missing;
    for (int rank = 0; rank < trace_.ranks; ++rank)
      if (!is_active(rank)) missing.push_back(std::to_string(rank));
    if (missing.empty()) return;
    const std::size_t count = missing.size();
    remark(fmt::format(
        "no calls of {} of {} ranks are recorded ({}){}", count, trace_.ranks, some_of(std::move(missing)),
        expanded_ ? ": ranks whose files were not given are taken to do what those do whose files were" : ""));
  }

  void add_level(const std::vector<const Instance*>& level) {
    struct Part {
      JobOperation operation;
      std::set<int> taken;
      std::vector<const Instance*> instances;
    };
    std::vector<Part> parts;
    for (const Instance* one : level) {
      const auto [operation, group] = operation_of(*one);
      const auto fits = [&, &operation = operation, &group = group](const Part& part) {
        return part.operation == operation && group.empty() == part.taken.empty() &&
               std::ranges::none_of(group, [&](int rank) { return part.taken.contains(rank); });
      };
      auto part = std::ranges::find_if(parts, fits);
      if (part == parts.end()) part = parts.insert(parts.end(), {operation, {}, {}});
      part->taken.insert(group.begin(), group.end());
      part->instances.push_back(one);
    }
    for (Part& part : parts) {
      for (const Instance* one : part.instances) {
        if (Group group = operation_of(*one).second; !group.empty()) part.operation.groups.push_back(std::move(group));
        if (part.operation.collective == &all_to_allv)
          part.operation.bytes = std::max(part.operation.bytes, busiest(*one));
      }
      if (part.operation.collective == &all_to_allv) set_sends(part.operation, part.instances);
      std::ranges::sort(part.operation.groups);
      name_groups(part.operation);
      set_times(part.operation, part.instances);
      of_operation_.push_back(part.instances);
      result_.job.operations.push_back(std::move(part.operation));
    }
  }

  // The operation without groups and times, and the ranks of its group: ascending, of a message the sender first. No
  // ranks if some are not known.
  std::pair<JobOperation, Group> operation_of(const Instance& one) const {
    const Call& call = trace_.calls[one.call];
    const Communicator& communicator = trace_.communicators[one.communicator];
    JobOperation operation{.collective = call.collective,
                           .bytes = call.bytes,
                           .type = call.type,
                           .op = call.op,
                           .root = {},
                           .group = {},
                           .groups = {},
                           .ranks = communicator.size,
                           .gap = {},
                           .time = {},
                           .fastest = {}};
    if (call.collective == &all_to_all && is_uneven(one)) operation.collective = &all_to_allv;
    if (operation.collective == &all_to_allv) operation.bytes = {0};
    if (call.collective->pairwise) {
      operation.ranks = 2;
      const int from = communicator.ranks[static_cast<std::size_t>(call.source)],
                to = communicator.ranks[static_cast<std::size_t>(call.target)];
      return {operation, from < 0 || to < 0 ? Group{} : Group{from, to}};
    }
    Group group = communicator.ranks;
    const int root = call.source >= 0 ? group[static_cast<std::size_t>(call.source)] : -1;
    std::ranges::sort(group);
    if (group.front() < 0) return {operation, {}};
    if (root >= 0) operation.root = static_cast<int>(std::ranges::find(group, root) - group.begin());
    return {operation, group};
  }

  // An exchange of which some members move more than others.
  bool is_uneven(const Instance& one) const {
    return std::ranges::any_of(one.done, [&](const auto& each) {
      const Call& call = call_of(executions(each.first)[each.second]);
      return call.collective == &all_to_allv || call.bytes != trace_.calls[one.call].bytes;
    });
  }

  // Of an uneven exchange: what the rank moves that sends or receives most, as far as sizes are known.
  Bytes busiest(const Instance& one) const {
    std::vector<std::uint64_t> received(static_cast<std::size_t>(trace_.communicators[one.communicator].size), 0);
    std::uint64_t most = 1;
    for (const auto& [p, i] : one.done) most = std::max(most, call_of(executions(p)[i]).bytes.count);
    for (const auto& [p, i] : one.done) {
      const std::uint32_t sent = executions(p)[i].sent;
      if (sent == 0) continue;
      std::uint64_t sum = 0;
      for (std::size_t member = 0; member < received.size(); ++member) {
        sum += trace_.sent[sent - 1][member];
        received[member] += trace_.sent[sent - 1][member];
      }
      most = std::max(most, sum);
    }
    return {std::max(most, *std::ranges::max_element(received))};
  }

  void name_groups(JobOperation& operation) {
    if (operation.groups.empty() || operation.collective->pairwise) return;
    const NodeOfRank& known = result_.job.node_of_rank;
    const NodeOfRank nodes = known.empty() ? NodeOfRank(static_cast<std::size_t>(trace_.ranks), 0) : known;
    std::vector<std::string> names{"world"};
    if (!known.empty()) names.insert(names.end(), {"node", "rail"});
    const Group& first = operation.groups.front();
    if (first.size() > 1) names.push_back(fmt::format("stride:{}", first[1] - first[0]));
    for (const std::string& name : names) {
      Round all = make_groups(name, nodes);
      for (Group& group : all) std::ranges::sort(group);
      std::ranges::sort(all);
      if (!std::ranges::includes(all, operation.groups)) continue;
      // The others are as well the same where nothing was recorded that says otherwise.
      std::vector<Group> others;
      std::ranges::set_difference(all, operation.groups, std::back_inserter(others));
      const auto has_record = [&](const Group& group) {
        return std::ranges::any_of(group, [&](int rank) { return is_active(rank); });
      };
      if (std::ranges::any_of(others, has_record)) continue;
      expanded_ = expanded_ || !others.empty();
      operation.group = name;
      operation.groups.clear();
      return;
    }
  }

  bool is_active(int rank) {
    if (active_ranks_.empty())
      for (const std::size_t p : active_) active_ranks_.insert(trace_.processes[p].rank);
    return active_ranks_.contains(rank);
  }

  // Over groups and over the steps before, where the same operation has the same place. The members of a group arrive
  // one after the other and end together, so that a rank's gap and its waiting for the last one are the time from the
  // end of its operation before until the last one's arrival; of different ends the latest counts.
  void set_times(JobOperation& operation, const std::vector<const Instance*>& instances) {
    constexpr double none = std::numeric_limits<double>::infinity();
    struct OfStep {
      double fastest = none, until_end = none;  // of the members: least time, least gap with the time
      double between_calls = none;              // where no member's time is recorded
    };
    std::vector<double> times, gaps, fastest;
    for (const Instance* one : instances) {
      std::map<std::size_t, OfStep> of_step;
      for (const auto& [p, i] : one->done)
        for (std::size_t step = 0; step < windows_[p].steps && step * windows_[p].length() <= i; ++step) {
          const std::size_t index = i - step * windows_[p].length();
          const double seconds = executions(p)[index].seconds, gap = gap_before(p, index);
          OfStep& its = of_step[step];
          if (std::isfinite(seconds)) {
            times.push_back(seconds);
            its.fastest = std::min(its.fastest, seconds);
          }
          double& least = std::isfinite(seconds) ? its.until_end : its.between_calls;
          if (std::isfinite(gap)) least = std::min(least, std::isfinite(seconds) ? gap + seconds : gap);
        }
      for (const auto& [step, its] : of_step) {
        if (its.fastest < none) fastest.push_back(its.fastest);
        if (its.until_end < none)
          gaps.push_back(std::clamp(its.until_end - its.fastest, 0.0, longest_call));
        else if (its.between_calls < none)
          gaps.push_back(its.between_calls);
      }
    }
    if (!times.empty()) operation.time = Seconds{median(times)};
    if (!fastest.empty()) operation.fastest = Seconds{median(fastest)};
    if (!gaps.empty()) operation.gap = Seconds{interquartile_mean(gaps)};
  }

  // Seconds from the end of all that the process did before until the start of its call. NaN: not known.
  double gap_before(std::size_t p, std::size_t index) {
    gaps_.resize(trace_.processes.size());
    std::vector<float>& gaps = gaps_[p];
    if (gaps.empty()) {
      double end = unknown;
      for (const Execution& each : executions(p)) {
        const double gap = each.start - end;
        gaps.push_back(static_cast<float>(gap <= longest_call ? std::max(0.0, gap) : unknown));
        const double its = each.start + (std::isfinite(each.seconds) ? static_cast<double>(each.seconds) : 0);
        if (std::isfinite(its)) end = std::fmax(end, its);
      }
    }
    return gaps[index];
  }

  void set_step() {
    const Window& window = windows_[reference_];
    std::vector<double> times;
    for (std::size_t i = window.begin; i < window.end; ++i)
      for (std::size_t step = 0; step + 1 < window.steps && (step + 1) * window.length() <= i; ++step) {
        const double time = executions(reference_)[i - step * window.length()].start -
                            executions(reference_)[i - (step + 1) * window.length()].start;
        if (time > 0 && time <= longest_call) times.push_back(time);
      }
    if (!times.empty()) result_.job.step = Seconds{interquartile_mean(times)};
  }

  // ---- traffic

  void make_traffic() {
    for (std::size_t i = 0; i < of_operation_.size(); ++i) {
      const JobOperation& operation = result_.job.operations[i];
      if (operation.collective != &all_to_allv) continue;
      for (const Instance* one : of_operation_[i])
        if (add_traffic(name_of_groups(operation), *one)) break;
    }
    for (const JobOperation& each : result_.job.operations)
      if (each.collective == &all_to_allv &&
          std::ranges::find(result_.traffic, name_of_groups(each), &TrafficOfGroups::group) == result_.traffic.end()) {
        remark(
            "the sizes of all_to_allv are not in the record of all ranks of a group: there is no traffic file of it");
        return;
      }
  }

  // Bytes from each member to each, in the order of their ranks; nothing if some members' sizes are not known.
  Sends sends_of(const Instance& one) const {
    const Communicator& communicator = trace_.communicators[one.communicator];
    const auto size = static_cast<std::size_t>(communicator.size);
    std::vector<std::size_t> order(size);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (communicator.ranks.size() == size)
      std::ranges::stable_sort(order, {}, [&](std::size_t member) { return communicator.ranks[member]; });
    std::vector<std::size_t> place(size);
    for (std::size_t i = 0; i < size; ++i) place[order[i]] = i;
    Sends rows(size);
    for (const auto& [p, i] : one.done) {
      const auto member = static_cast<std::size_t>(std::ranges::find(communicator.processes, static_cast<int>(p)) -
                                                   communicator.processes.begin());
      const std::uint32_t sent = executions(p)[i].sent;
      if (sent == 0 || member >= size || trace_.sent[sent - 1].size() != size) return {};
      rows[place[member]].resize(size);
      for (std::size_t to = 0; to < size; ++to) rows[place[member]][place[to]] = trace_.sent[sent - 1][to];
    }
    return std::ranges::any_of(rows, &Row::empty) ? Sends{} : rows;
  }

  void set_sends(JobOperation& operation, const std::vector<const Instance*>& instances) {
    constexpr std::size_t most = 4'000'000;  // numbers in a step, some 30 MB of its file
    const std::size_t numbers = static_cast<std::size_t>(operation.ranks) * static_cast<std::size_t>(operation.ranks);
    if (sends_ + numbers > most) return;
    for (const Instance* one : instances)
      if (operation.sends = sends_of(*one); !operation.sends.empty()) {
        sends_ += numbers;
        return;
      }
  }

  // False if some members' sizes are not known.
  bool add_traffic(const std::string& group, const Instance& one) {
    Sends rows = sends_of(one);
    if (rows.empty()) return false;
    const std::size_t size = rows.size();
    const auto known = std::ranges::find(result_.traffic, group, &TrafficOfGroups::group);
    if (known == result_.traffic.end()) {
      result_.traffic.push_back({group, std::move(rows)});
      return true;
    }
    for (std::size_t from = 0; from < size; ++from)
      for (std::size_t to = 0; to < size; ++to) known->sent[from][to] += rows[from][to];
    return true;
  }

  Trace trace_;
  std::vector<std::size_t> active_;  // processes that recorded something
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
  std::vector<std::vector<const Instance*>> of_operation_;
  std::set<int> active_ranks_;
  std::vector<std::vector<float>> gaps_;  // by process and call
  std::size_t sends_ = 0;                 // numbers in the operations' `sends`
  bool expanded_ = false;
  Analysis result_;
};

}  // namespace

Analysis analyse(Trace trace, int hosts) { return Analyser(std::move(trace), hosts).run(); }

}  // namespace p5::job
