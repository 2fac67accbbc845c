#include "bench/job/analysis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/statistics.hpp"
#include "bench/base/text.hpp"
#include "bench/job/analyser.hpp"

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

}  // namespace

Analyser::Analyser(Trace trace, int hosts) : trace_(std::move(trace)) {
  ends_.resize(trace_.processes.size());
  windows_.resize(trace_.processes.size());
  result_.job.ranks = trace_.ranks;
  result_.job.remarks = trace_.remarks();
  set_nodes(hosts);
}

Analysis Analyser::run() {
  settle_contradictions();
  leave_out_short_records();
  find_ranges();
  tell_gaps();
  cut_unfinished();
  cut_to_one_level();
  tell_cuts();
  find_windows();
  if (!merge() && !merge_with_gaps()) {
    remark("the ranks' records contradict each other about the order; the step is that of " +
           trace_.processes[reference_].name + " alone");
    take_alone(reference_);
  }
  const bool most_lack_calls = 2 * with_gaps_.size() > active_.size();
  if (instances_.empty() || (most_lack_calls && result_.job.steps == 1))
    throw UsageError(fmt::format("the records do not show a step of the job: {}{}", join(result_.job.remarks, "; "),
                                 most_lack_calls
                                     ? "; NCCL Inspector of NCCL 2.28 and 2.29 keeps only the newest call "
                                       "of a communicator: record with NCCL 2.30, or with PyTorch's profiler"
                                     : ""));
  put_together();
  make_operations();
  sum_traffic();
  set_step();
  return std::move(result_);
}

void Analyser::set_nodes(int hosts) {
  const auto ranks = static_cast<std::size_t>(trace_.ranks);
  std::vector<std::string> host_of_rank(ranks);
  for (const Process& each : trace_.processes) host_of_rank[static_cast<std::size_t>(each.rank)] = each.host;
  // NCCL refuses to share a GPU, so the names of hosts on which it seems shared say nothing.
  std::map<std::pair<std::string, std::string>, int> rank_of_gpu;
  for (const Process& each : trace_.processes) {
    if (each.gpu.empty() || each.host.empty()) continue;
    const auto [known, fresh] = rank_of_gpu.try_emplace({each.host, each.gpu}, each.rank);
    if (fresh || known->second == each.rank) continue;
    remark(fmt::format(
        "ranks {} and {} are both on a GPU of '{}' ({}), which NCCL refuses: hosts share this name, so "
        "their number is unknown{}",
        known->second, each.rank, printable(each.host), printable(each.gpu), hosts > 0 ? "" : "; give --hosts N"));
    host_of_rank.assign(ranks, "");
    break;
  }
  NodeOfRank& nodes = result_.job.node_of_rank;
  const bool all_known = std::ranges::none_of(host_of_rank, &std::string::empty);
  std::set<std::string> known(host_of_rank.begin(), host_of_rank.end());
  known.erase("");
  const int recorded = static_cast<int>(known.size());
  if (hosts > 0 && (all_known ? recorded != hosts : recorded > hosts))
    throw UsageError(fmt::format("--hosts {}: the records name {} host{}: leave --hosts out", hosts, recorded,
                                 recorded == 1 ? "" : "s"));
  if (all_known) {
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

std::map<Stream, Range> Analyser::ranges_of(std::size_t p, std::size_t end) const {
  std::map<Stream, Range> ranges;
  for (std::size_t i = 0; i < end; ++i) {
    const std::int64_t number = executions(p)[i].number;
    Range& range = ranges.try_emplace(stream_of(executions(p)[i]), Range{number, number}).first->second;
    range = {std::min(range.first, number), std::max(range.last, number)};
  }
  return ranges;
}

// ---- steps

std::vector<std::uint32_t> Analyser::numbers_of_calls(Alike degree) const {
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

Period Analyser::find_period(std::size_t p) {
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

void Analyser::find_windows() {
  std::vector<Period> periods(trace_.processes.size());
  for (const std::size_t p : active_) periods[p] = find_period(p);
  // Repetitions in a record in which calls are missing are no step.
  const auto by_length = [&](std::size_t a, std::size_t b) {
    const auto key = [&](std::size_t p) { return std::pair(!with_gaps_.contains(p), periods[p].length); };
    return key(a) < key(b);
  };
  std::set<std::size_t> left(active_.begin(), active_.end());
  bool first = true;
  // The ranks that a communicator connects, directly or not, take their step from the one with the longest.
  while (!left.empty()) {
    const std::size_t reference = *std::ranges::max_element(left, by_length);
    windows_[reference] = {ends_[reference] - periods[reference].length, ends_[reference], 1};
    if (std::exchange(first, false)) reference_ = reference;
    std::deque<std::size_t> next{reference}, later;  // later: without a period of their own
    std::map<Stream, std::int64_t> known;
    left.erase(reference);
    while (!next.empty() || !later.empty()) {
      if (next.empty()) {
        next.push_back(later.front());
        later.pop_front();
        windows_[next.front()] = window_from(next.front(), {}, known);
      }
      const std::map<Stream, std::int64_t> numbers = first_numbers(next.front());
      next.pop_front();
      known.insert(numbers.begin(), numbers.end());
      for (const auto& [stream, number] : numbers)
        for (const int other : processes_of(stream))
          if (other >= 0 && left.erase(static_cast<std::size_t>(other)) > 0) {
            const auto o = static_cast<std::size_t>(other);
            const bool has_gaps = with_gaps_.contains(o);
            if (!has_gaps) windows_[o] = window_from(o, periods[o], numbers);
            (has_gaps ? later : next).push_back(o);
          }
    }
  }
  for (const std::size_t p : active_)
    if (windows_[p].length() > 0)
      windows_[p].steps = std::max<std::size_t>(1, periods[p].covers / windows_[p].length());
  result_.job.steps = static_cast<int>(windows_[reference_].steps);
  if (result_.job.steps == 1) remark("nothing repeats in the record: all of it counts as one step");
}

// The number of the first call of each stream in a process's step.
std::map<Stream, std::int64_t> Analyser::first_numbers(std::size_t p) const {
  std::map<Stream, std::int64_t> numbers;
  for (std::size_t i = windows_[p].begin; i < windows_[p].end; ++i) {
    const Execution& each = executions(p)[i];
    numbers.try_emplace(stream_of(each), each.number);
  }
  return numbers;
}

// The step of a process that shares communicators with others, in whose step the calls of each begin with `numbers`.
Window Analyser::window_from(std::size_t p, const Period& period, const std::map<Stream, std::int64_t>& numbers) const {
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

// ---- operations

// Moves the operation of a group to a later level at which other groups perform the same operation, if its members have
// no other operation before that level. Without this, groups that act at the same time would count as separate
// operations wherever some ranks have an additional operation before it.
void Analyser::put_together() {
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
void Analyser::make_operations() {
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

void Analyser::add_level(const std::vector<const Instance*>& level) {
  struct Part {
    JobOperation operation;
    std::set<int> taken;
    std::vector<const Instance*> instances;
    Round groups;
  };
  std::vector<Part> parts;
  for (const Instance* one : level) {
    const auto [operation, group] = operation_of(*one);
    const auto fits = [&, &operation = operation, &group = group](const Part& part) {
      return part.operation == operation && group.empty() == part.taken.empty() &&
             std::ranges::none_of(group, [&](int rank) { return part.taken.contains(rank); });
    };
    auto part = std::ranges::find_if(parts, fits);
    if (part == parts.end()) part = parts.insert(parts.end(), {operation, {}, {}, {}});
    part->taken.insert(group.begin(), group.end());
    part->instances.push_back(one);
    if (!group.empty()) part->groups.push_back(group);
  }
  for (Part& part : parts) {
    if (part.operation.collective == &all_to_allv) {
      for (const Instance* one : part.instances) part.operation.bytes = std::max(part.operation.bytes, busiest(*one));
      set_sends(part.operation, part.instances);
    }
    part.operation.groups = std::move(part.groups);
    std::ranges::sort(part.operation.groups);
    name_groups(part.operation);
    set_times(part.operation, part.instances);
    of_operation_.push_back(part.instances);
    result_.job.operations.push_back(std::move(part.operation));
  }
}

// The operation without groups and times, and the ranks of its group: ascending, of a message the sender first. No
// ranks if some are not known.
std::pair<JobOperation, Group> Analyser::operation_of(const Instance& one) const {
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
                         .fastest = {},
                         .computed = {},
                         .computed_alone = {}};
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

// The bytes of the rank that sends or receives most in an uneven exchange, as far as sizes are known.
Bytes Analyser::busiest(const Instance& one) const {
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

void Analyser::name_groups(JobOperation& operation) {
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
    // Groups without any recorded rank are assumed to perform the same operation.
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

// Times over all groups and over all steps, in which the operation has the same position. The members of a group arrive
// one after the other and end together. So the sum of a rank's gap and its waiting time is the time from the end of its
// previous operation to the arrival of the last member; the smallest sum over the members counts.
void Analyser::set_times(JobOperation& operation, const std::vector<const Instance*>& instances) {
  constexpr double none = std::numeric_limits<double>::infinity();
  struct OfStep {
    double fastest = none, until_end = none;              // of the members: least time, least gap with the time
    double between_calls = none;                          // where no member's time is recorded
    double computed = unknown, computed_alone = unknown;  // of the member with the least time
  };
  std::vector<double> times, gaps, fastest, computed, computed_alone;
  for (const Instance* one : instances) {
    std::map<std::size_t, OfStep> of_step;
    for (const auto& [p, i] : one->done)
      for (std::size_t step = 0; step < windows_[p].steps && step * windows_[p].length() <= i; ++step) {
        const std::size_t index = i - step * windows_[p].length();
        const double seconds = executions(p)[index].seconds, gap = gap_before(p, index);
        OfStep& its = of_step[step];
        if (std::isfinite(seconds)) {
          times.push_back(seconds);
          if (seconds < its.fastest) {
            its.computed = executions(p)[index].computed;
            its.computed_alone = executions(p)[index].computed_alone;
          }
          its.fastest = std::min(its.fastest, seconds);
        }
        double& least = std::isfinite(seconds) ? its.until_end : its.between_calls;
        if (std::isfinite(gap)) least = std::min(least, std::isfinite(seconds) ? gap + seconds : gap);
      }
    for (const auto& [step, its] : of_step) {
      if (its.fastest < none) fastest.push_back(its.fastest);
      if (std::isfinite(its.computed)) computed.push_back(its.computed);
      if (std::isfinite(its.computed_alone)) computed_alone.push_back(its.computed_alone);
      if (its.until_end < none)
        gaps.push_back(std::clamp(its.until_end - its.fastest, 0.0, longest_call));
      else if (its.between_calls < none)
        gaps.push_back(its.between_calls);
    }
  }
  if (!times.empty()) operation.time = Seconds{median(times)};
  if (!fastest.empty()) operation.fastest = Seconds{median(fastest)};
  if (!computed.empty()) operation.computed = Seconds{interquartile_mean(computed)};
  if (!computed_alone.empty()) operation.computed_alone = Seconds{interquartile_mean(computed_alone)};
  if (!gaps.empty()) operation.gap = Seconds{interquartile_mean(gaps)};
}

// Seconds from the end of all that the process did before until the start of its call. NaN: not known.
double Analyser::gap_before(std::size_t p, std::size_t index) {
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

void Analyser::set_step() {
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

void Analyser::sum_traffic() {
  for (std::size_t i = 0; i < of_operation_.size(); ++i) {
    const JobOperation& operation = result_.job.operations[i];
    if (operation.collective != &all_to_allv) continue;
    for (const Instance* one : of_operation_[i])
      if (add_traffic(operation, *one)) break;
  }
  for (const JobOperation& each : result_.job.operations)
    if (each.collective == &all_to_allv && !traffic_of(each)) {
      remark("the sizes of all_to_allv are not in the record of all ranks of a group: there is no traffic file of it");
      return;
    }
}

// Bytes from each member to each, in the order of their ranks; nothing if some members' sizes are not known.
Sends Analyser::sends_of(const Instance& one) const {
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

void Analyser::set_sends(JobOperation& operation, const std::vector<const Instance*>& instances) {
  constexpr std::size_t most = 4'000'000;  // numbers in a step, some 30 MB of its file
  const std::size_t numbers = static_cast<std::size_t>(operation.ranks) * static_cast<std::size_t>(operation.ranks);
  if (sends_ + numbers > most) return;
  for (const Instance* one : instances)
    if (operation.sends = sends_of(*one); !operation.sends.empty()) {
      sends_ += numbers;
      return;
    }
}

// Null where none is known yet.
TrafficOfGroups* Analyser::traffic_of(const JobOperation& operation) {
  const auto known = std::ranges::find_if(result_.traffic, [&](const TrafficOfGroups& each) {
    return each.group == operation.group && each.groups == operation.groups &&
           std::cmp_equal(each.sent.size(), operation.ranks);
  });
  return known == result_.traffic.end() ? nullptr : &*known;
}

// False if some members' sizes are not known.
bool Analyser::add_traffic(const JobOperation& operation, const Instance& one) {
  Sends rows = sends_of(one);
  if (rows.empty()) return false;
  const std::size_t size = rows.size();
  TrafficOfGroups* const known = traffic_of(operation);
  if (!known) {
    const std::string name = name_of_groups(operation);
    const auto same = std::ranges::count_if(result_.traffic, [&](const TrafficOfGroups& each) {
      return each.name == name || each.name.starts_with(name + " (");
    });
    result_.traffic.push_back({same == 0 ? name : fmt::format("{} ({})", name, same + 1), operation.group,
                               operation.groups, std::move(rows)});
    return true;
  }
  for (std::size_t from = 0; from < size; ++from)
    for (std::size_t to = 0; to < size; ++to) known->sent[from][to] += rows[from][to];
  return true;
}

Analysis analyse(Trace trace, int hosts) { return Analyser(std::move(trace), hosts).run(); }

std::string weights_of(const Job& job) {
  const std::vector<JobUse> uses = uses_of(job);
  const bool timed = std::ranges::all_of(uses, [](const JobUse& use) { return use.time.has_value(); });
  std::string text =
      fmt::format("# One step of a job of {} ranks: collective, bytes, share of the {}\n", job.ranks,
                  timed ? "time that it communicates" : "bytes that links carry (no times were recorded)");
  double total = 0;
  const auto part_of = [&](const JobUse& use) {
    const JobOperation& each = use.operation;
    return timed ? use.time->count
                 : static_cast<double>(each.bytes.count) * use.count * each.collective->bus_factor(each.ranks);
  };
  for (const JobUse& use : uses) total += part_of(use);
  for (const JobUse& use : uses)
    if (const double part = part_of(use); part > 0 && use.operation.bytes.count > 0)
      text += fmt::format("{} {} {:.6g}\n", use.operation.collective->name, use.operation.bytes.count, part / total);
  return text;
}

std::string traffic_csv(const TrafficOfGroups& traffic) {
  constexpr std::size_t most_shown = 8;
  std::string groups = traffic.name;
  if (!traffic.groups.empty()) {
    const Group& first = traffic.groups.front();
    groups += fmt::format(
        "; the first has ranks {}{}",
        fmt::join(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(std::min(first.size(), most_shown)), " "),
        first.size() > most_shown ? " ..." : "");
  }
  std::string text = fmt::format(
      "# all_to_allv of one step in a group ({}): a line for each sender, bytes for each receiver\n", groups);
  for (const std::vector<std::uint64_t>& row : traffic.sent) text += fmt::format("{}\n", fmt::join(row, ","));
  return text;
}

}  // namespace p5::job
