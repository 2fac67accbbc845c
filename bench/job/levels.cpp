// An order of all ranks' calls that each rank keeps, and by it where the records end together.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "bench/job/analyser.hpp"

namespace p5::job {

// Leaves out what some ranks had not called yet, or not recorded any more, when the records end.
void Analyser::cut_unfinished() {
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

// Ranks that did not wait for a rank whose record ends early have recorded more of the step than others, and a rank
// that lacks a call may have recorded later ones of other groups. All records are cut at the level (the number of
// operations that come before) at which the first of the short records ends, or in front of the first call that some
// member lacks.
void Analyser::cut_to_one_level() {
  const std::map<Key, Lacked> lacked = lacked_calls();
  if (lacked.empty() || !find_levels()) return;
  int least = std::numeric_limits<int>::max();
  const auto level_at_end = [&](std::size_t p) { return ends_[p] == 0 ? 0 : levels_[p][ends_[p] - 1]; };
  for (const auto& [key, one] : lacked) {
    for (const std::size_t p : one.by) least = std::min(least, level_at_end(p));
    int before = 0;
    for (const std::size_t p : one.recorded) before = std::max(before, level_at_end(p));
    least = std::min(least, before);
  }
  // A message may be sent before the cut and received after it, so a cut may cause further ones.
  constexpr int most_passes = 16;
  for (int pass = 0; pass < most_passes; ++pass) {
    for (const std::size_t p : active_) {
      const auto end = std::ranges::find_if(levels_[p], [&](int level) { return level > least; });
      ends_[p] = std::min(ends_[p], static_cast<std::size_t>(end - levels_[p].begin()));
    }
    const std::vector<std::size_t> before = ends_;
    cut_unfinished();
    if (ends_ == before) break;
    for (const std::size_t p : active_)
      if (ends_[p] < before[p]) least = std::min(least, level_at_end(p));
  }
  levels_.clear();
}

void Analyser::tell_cuts() {
  std::size_t all = 0, left = 0;
  for (const std::size_t p : active_) all += executions(p).size(), left += ends_[p];
  if (2 * left < all)
    remark(
        fmt::format("only {} of {} calls count: the others come after the first call that not all ranks of its group "
                    "have recorded; give records of the same steps of all ranks",
                    left, all));
}

// The first call of each record that was left out because other members of its group did not record it.
std::map<Key, Lacked> Analyser::lacked_calls() const {
  std::map<Key, Lacked> lacked;
  for (const std::size_t p : active_) {
    if (ends_[p] == executions(p).size()) continue;
    const Key key = key_of(executions(p)[ends_[p]]);
    const auto& [stream, number] = key;
    const std::map<std::size_t, Range>& ranges = ranges_.at(stream);
    std::set<std::size_t> by;
    for (const int process : processes_of(stream)) {
      if (process < 0) continue;
      const auto known = ranges.find(static_cast<std::size_t>(process));
      if (known == ranges.end() || known->second.last < number) by.insert(static_cast<std::size_t>(process));
    }
    if (by.empty()) continue;
    Lacked& one = lacked[key];
    one.by = std::move(by);
    one.recorded.push_back(p);
  }
  return lacked;
}

// The level of each call that is left, from the beginning of the records. False where they contradict each other.
bool Analyser::find_levels() {
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

// How many processes have to arrive at a collective; while levels are found, those whose records have begun.
int Analyser::needed(const Key& key) const {
  if (!holders_.empty()) return holders_.at(key);
  if (!finds_levels()) return recorded_[std::get<0>(key.first)];
  return static_cast<int>(std::ranges::count_if(ranges_of_rest_.at(key.first),
                                                [&](const auto& each) { return each.second.holds(key.second); }));
}

bool Analyser::will_send(const Key& key) const {
  const auto& [communicator, kind, source, target] = key.first;
  const int process = trace_.communicators[communicator].processes[static_cast<std::size_t>(source)];
  if (process < 0 || !finds_levels()) return process >= 0;
  const std::map<std::size_t, Range>& ranges = ranges_of_rest_.at(key.first);
  const auto sender = ranges.find(static_cast<std::size_t>(process));
  return sender != ranges.end() && sender->second.holds(key.second);
}

// Performs the operations of all processes in an order that each of them keeps. False where there is none.
bool Analyser::merge() {
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

// Calls that at least half of their group's records have count, where some are missing or twice in the step of a
// record.
bool Analyser::merge_with_gaps() {
  if (with_gaps_.empty()) return false;
  for (const std::size_t p : active_)
    for (std::size_t i = windows_[p].begin; i < windows_[p].end; ++i) ++holders_[key_of(executions(p)[i])];
  instances_.clear();
  const bool merged = merge();
  std::erase_if(instances_, [&](const auto& each) {
    const auto& [stream, number] = each.first;
    return !std::get<1>(stream)->pairwise && 2 * holders_.at(each.first) < recorded_[std::get<0>(stream)];
  });
  holders_.clear();
  return merged;
}

// False: the process waits, and will be ready again.
bool Analyser::perform(std::size_t p, std::vector<std::size_t>& at, std::vector<int>& level,
                       std::deque<std::size_t>& ready) {
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

void Analyser::send(std::size_t p, std::size_t index, Instance& one, std::vector<int>& level,
                    std::deque<std::size_t>& ready) {
  if (one.sent) return;  // ahead
  one.sent = true;
  one.level = ++level[p];
  one.done.emplace_back(p, index);
  set_level(p, index, one.level);
  for (const std::size_t other : one.waiting) ready.push_back(other);
  one.waiting.clear();
}

// Processes that wait for messages from each other have called sends and receives in one group (ncclGroupStart). So the
// messages that each of them sends next count as sent. False if there is none.
bool Analyser::send_ahead(const std::vector<std::size_t>& at, std::vector<int>& level, std::deque<std::size_t>& ready) {
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

void Analyser::take_alone(std::size_t p) {
  instances_.clear();
  int level = 0;
  for (std::size_t i = windows_[p].begin; i < windows_[p].end; ++i) {
    const Execution& each = executions(p)[i];
    Instance& one = instances_[key_of(each)];
    one = {.communicator = each.communicator, .call = each.call, .level = ++level, .waiting = {}, .done = {{p, i}}};
  }
}

}  // namespace p5::job
