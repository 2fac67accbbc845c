#include "bench/job/trace.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/job/analysis.hpp"

namespace p5::job {

std::string some_of(std::vector<std::string> names) {
  constexpr std::size_t most = 4;
  const std::size_t more = names.size() - std::min(names.size(), most);
  names.resize(names.size() - more);
  return join(names) + (more > 0 ? fmt::format(" and {} more", more) : "");
}

std::uint32_t Trace::process(const std::string& name, const std::string& host, int rank, std::string_view device) {
  const auto [at, fresh] =
      process_of_name_.try_emplace(fmt::format("{} {}", name, device), static_cast<std::uint32_t>(processes.size()));
  if (fresh) processes.push_back({.name = name, .host = host, .rank = rank, .executions = {}});
  return at->second;
}

std::uint32_t Trace::communicator(const std::string& name, int size) {
  if (size < 1 || size > most_ranks)
    throw UsageError(
        fmt::format("communicator {} has {} ranks; 1 to {} can be read", in_quotes(name), size, most_ranks));
  const auto [at, fresh] = communicator_of_name_.try_emplace(name, static_cast<std::uint32_t>(communicators.size()));
  if (fresh) {
    const auto members = static_cast<std::size_t>(size);
    if ((members_ += members) > most_members)
      throw UsageError(fmt::format("the communicators have more than {} members together", most_members));
    communicators.push_back({name, size, std::vector<int>(members, -1), std::vector<int>(members, -1)});
  }
  if (communicators[at->second].size != size)
    throw UsageError(
        fmt::format("communicator {} has {} ranks here and {} in an earlier record: these are traces of "
                    "different jobs",
                    in_quotes(name), size, communicators[at->second].size));
  return at->second;
}

void Trace::set_size(int size) {
  if (stated_size_ > 0 && size != stated_size_)
    throw UsageError(fmt::format(
        "the job has {} ranks here and {} in an earlier file: these are traces of different jobs", size, stated_size_));
  stated_size_ = size;
  ranks = std::max(ranks, size);
}

void Trace::set_ranks(std::uint32_t communicator, const std::vector<int>& all, const std::string& group) {
  Communicator& known = communicators[communicator];
  if (std::cmp_not_equal(all.size(), known.size) || std::set<int>(all.begin(), all.end()).size() != all.size())
    throw UsageError(fmt::format("communicator {} has the same rank twice", in_quotes(known.name)));
  if (known.ranks == all) return;
  known.ranks = all;
  // Ranks that are not in it may have another group of this name, but no rank has two.
  std::unordered_map<int, std::uint32_t>& of_rank = communicator_of_rank_[group];
  for (const int rank : all)
    if (const std::uint32_t other = of_rank.try_emplace(rank, communicator).first->second; other != communicator) {
      remark(
          fmt::format("records contradict each other about process group {}: ranks {} in one, {} in another; both "
                      "count as groups of their own",
                      in_quotes(group), fmt::join(communicators[other].ranks, " "), fmt::join(all, " ")));
      return;
    }
}

void Trace::set_member(std::uint32_t communicator, int member, std::uint32_t process) {
  Communicator& known = communicators[communicator];
  if (member < 0 || member >= known.size)
    throw UsageError(
        fmt::format("rank {} is not one of the {} of communicator {}", member, known.size, in_quotes(known.name)));
  int& place = known.processes[static_cast<std::size_t>(member)];
  if (std::cmp_equal(place, process)) return;
  if (place >= 0)
    throw UsageError(fmt::format("rank {} of communicator {} was another process in an earlier record", member,
                                 in_quotes(known.name)));
  if (const int other = member_of_.try_emplace({process, communicator}, member).first->second; other != member)
    throw UsageError(fmt::format(
        "rank {} and rank {} of communicator {} have the same host name, process id and device as far as the record "
        "says, {}: give each container a host name of its own; record one process with several GPUs by NCCL's log, "
        "which names the device",
        other, member, in_quotes(known.name), processes[process].name));
  place = static_cast<int>(process);
}

std::uint32_t Trace::call(const Call& call) {
  const auto key = std::tuple(call.collective, call.bytes.count, call.type ? static_cast<int>(*call.type) : -1,
                              call.op ? static_cast<int>(*call.op) : -1, call.source, call.target);
  const auto [at, fresh] = index_of_call_.try_emplace(key, static_cast<std::uint32_t>(calls.size()));
  if (fresh) calls.push_back(call);
  return at->second;
}

std::uint32_t Trace::sent_bytes(std::vector<std::uint64_t> bytes) {
  constexpr std::size_t most = 16'000'000;  // 128 MB
  if ((sent_values_ += bytes.size()) > most) {
    remark("some sizes of all_to_allv are not kept: they are too many");
    return 0;
  }
  sent.push_back(std::move(bytes));
  return static_cast<std::uint32_t>(sent.size());
}

void Trace::add(std::uint32_t process, const Execution& execution) {
  if (++executions_ > most_executions)
    throw UsageError(
        fmt::format("more than {} calls of all ranks together; give a shorter part of the job, such as "
                    "ten steps",
                    most_executions));
  Process& of = processes[process];
  std::vector<Execution>& all = of.executions;
  if (const std::uint32_t before = std::exchange(of.file, file_); before != file_ && !all.empty())
    remark(fmt::format("calls of {} are in more than one file; if one is a copy, leave it out", of.name));
  of.place = executions_;
  all.push_back(execution);
  Execution& added = all.back();
  constexpr double latest = 1e12;  // seconds since whatever the clock counts from
  const bool wrong_time = added.seconds < shortest_call || added.seconds > longest_call,
             wrong_start = std::abs(added.start) > latest;
  if (wrong_time) added.seconds = std::numeric_limits<float>::quiet_NaN();
  if (wrong_start) added.start = std::numeric_limits<double>::quiet_NaN();
  if (wrong_time || wrong_start) remark("times that no call can take, below 1 ns or above 11 days, are left out");
}

void Trace::remark(const std::string& text) {
  constexpr std::size_t most = 40;
  const auto find = [&](std::string_view wanted) {
    return std::ranges::find(remarks_, wanted, &std::pair<std::string, int>::first);
  };
  auto found = find(text);
  if (found == remarks_.end() && remarks_.size() < most) found = remarks_.insert(found, {text, 0});
  constexpr std::string_view others = "there are more remarks of other kinds";
  if (found == remarks_.end()) found = find(others);
  if (found == remarks_.end()) found = remarks_.insert(found, {std::string(others), 0});
  ++found->second;
}

std::vector<std::string> Trace::remarks() const {
  std::vector<std::string> texts;
  for (const auto& [text, count] : remarks_)
    texts.push_back(count == 1 ? text : fmt::format("{} ({} times)", text, count));
  return texts;
}

namespace {

constexpr double no_start = -std::numeric_limits<double>::infinity();

// Processes that communicators connect, directly or not.
struct ConnectedPart {
  std::size_t first = 0, with_calls = 0;                    // processes
  double start = std::numeric_limits<double>::infinity();   // least of the processes' newest calls
  std::map<std::uint32_t, std::size_t> place_in_file = {};  // of the newest call
};

// Null: neither times nor the order within a file say it.
std::optional<bool> is_newer(const ConnectedPart& a, const ConnectedPart& b) {
  if (a.start > no_start && b.start > no_start) return a.start > b.start;
  for (const auto& [file, place] : a.place_in_file)
    if (const auto other = b.place_in_file.find(file); other != b.place_in_file.end()) return place > other->second;
  return std::nullopt;
}

}  // namespace

// Records that do not state ranks of the job (NCCL's) may be of several runs, which have no communicator in common: of
// a job that was restarted, or of another one beside it. Of those with most processes the newest is kept.
void Trace::keep_one_run() {
  if (std::ranges::none_of(processes, [](const Process& each) { return each.rank < 0; })) return;
  std::vector<std::size_t> parent(processes.size());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto first_of = [&](std::size_t p) {
    while (parent[p] != p) p = parent[p] = parent[parent[p]];
    return p;
  };
  for (const Communicator& each : communicators) {
    std::optional<std::size_t> before;
    for (const int process : each.processes)
      if (process >= 0) {
        const std::size_t p = first_of(static_cast<std::size_t>(process)), first = before ? first_of(*before) : p;
        parent[std::max(p, first)] = std::min(p, first);
        before = first;
      }
  }
  std::map<std::size_t, ConnectedPart> parts;
  for (std::size_t p = 0; p < processes.size(); ++p) {
    const Process& process = processes[p];
    if (process.executions.empty()) continue;
    ConnectedPart& its = parts[first_of(p)];
    if (++its.with_calls == 1) its.first = p;
    double newest = no_start;
    for (const Execution& each : process.executions)
      if (each.start > newest) newest = each.start;
    its.start = std::min(its.start, newest);
    std::size_t& place = its.place_in_file[process.file];
    place = std::max(place, process.place);
  }
  if (parts.size() < 2) return;
  const ConnectedPart* kept = nullptr;
  std::string undecided;
  for (const auto& [first, part] : parts) {
    const auto newer = kept && part.with_calls == kept->with_calls ? is_newer(part, *kept)
                                                                   : !kept || part.with_calls > kept->with_calls;
    if (!newer) undecided = fmt::format("{} and {}", processes[kept->first].name, processes[part.first].name);
    if (!newer || !*newer) continue;
    if (kept && part.with_calls > kept->with_calls) undecided.clear();
    kept = &part;
  }
  if (!undecided.empty())
    throw UsageError(fmt::format(
        "these are records of {} runs or jobs, which have no communicator in common, and neither times nor the order "
        "in a file say which is the newest: give the files of one of them; {} are of two of them",
        parts.size(), undecided));
  const std::size_t wanted = first_of(kept->first);
  remark(
      fmt::format("the records are of {} runs or jobs, which have no communicator in common; only the newest of "
                  "those with most processes counts, that of {}",
                  parts.size(), processes[kept->first].name));
  std::vector<int> place(processes.size(), -1);
  std::vector<Process> of_run;
  for (std::size_t p = 0; p < processes.size(); ++p)
    if (first_of(p) == wanted) {
      place[p] = static_cast<int>(of_run.size());
      of_run.push_back(std::move(processes[p]));
    }
  std::vector<std::uint32_t> index(communicators.size(), 0);
  std::vector<Communicator> its_communicators;
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    index[c] = static_cast<std::uint32_t>(its_communicators.size());
    for (int& process : communicators[c].processes)
      if (process >= 0) process = place[static_cast<std::size_t>(process)];
    if (std::ranges::any_of(communicators[c].processes, [](int process) { return process >= 0; }))
      its_communicators.push_back(std::move(communicators[c]));
  }
  processes = std::move(of_run);
  communicators = std::move(its_communicators);
  for (Process& process : processes)
    for (Execution& each : process.executions) each.communicator = index[each.communicator];
}

// Records that do not state ranks of the job (NCCL's) have those of the largest communicator; processes outside of it
// come behind.
void Trace::give_ranks() {
  const auto unnumbered = [](const Process& each) { return each.rank < 0; };
  if (!std::ranges::any_of(processes, unnumbered)) return;
  const auto largest = std::ranges::max_element(communicators, {}, &Communicator::size);
  if (largest != communicators.end()) {
    ranks = std::max(ranks, largest->size);
    for (int member = 0; member < largest->size; ++member)
      if (const int process = largest->processes[static_cast<std::size_t>(member)]; process >= 0)
        processes[static_cast<std::size_t>(process)].rank = member;
  }
  std::set<int> taken;
  for (const Process& each : processes) taken.insert(each.rank);
  const auto left = std::ranges::count_if(processes, unnumbered);
  // One process without a rank and one rank without a process are the same: its record ends before its first call
  // there.
  const bool one_is_missing =
      largest != communicators.end() && left == 1 && std::ranges::count(largest->processes, -1) == 1;
  int next = one_is_missing ? 0 : std::max(ranks, 0);
  if (left > 0 && !one_is_missing)
    remark("some processes are in no communicator of the whole job; they are counted as ranks behind the others");
  for (Process& each : processes)
    if (unnumbered(each)) {
      while (taken.contains(next)) ++next;
      each.rank = next++;
    }
}

namespace {

using Sequence = std::vector<std::uint64_t>;

// The smallest shift of `later` against `whole` at which both are equal wherever they overlap.
std::size_t shift_of(const Sequence& later, const Sequence& whole) {
  std::vector<std::size_t> border(later.size(), 0);  // as of Knuth, Morris and Pratt
  const auto extend = [&](std::size_t length, std::uint64_t next) {
    while (length > 0 && later[length] != next) length = border[length - 1];
    return length + (later[length] == next ? 1 : 0);
  };
  for (std::size_t i = 1; i < later.size(); ++i) border[i] = extend(border[i - 1], later[i]);
  std::size_t length = 0;
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (length = extend(length, whole[i]); length == later.size()) return i + 1 - length;
  return whole.size() - length;
}

using Places = std::vector<std::size_t>;

std::size_t shared_by(const Places& places, const Sequence& reference) {
  return static_cast<std::size_t>(std::ranges::lower_bound(places, reference.size()) - places.begin());
}

// The places of a sequence's calls in `reference`, where both begin with the same call and the sequence lacks some of
// the others: where they differ, the fewest behind which more calls agree than are missing. Empty if a call has no such
// place, or if less than half of the calls have one within the reference.
Places places_of(const Sequence& sequence, const Sequence& reference) {
  constexpr std::size_t most_missing = 1000;  // at one place
  Places places;
  std::size_t at = 0;
  for (std::size_t i = 0; i < sequence.size(); ++i, ++at) {
    const auto agrees = [&](std::size_t missing) {
      const std::size_t overlap = std::min(missing + 1, sequence.size() - i);
      return at + missing + overlap <= reference.size() &&
             std::equal(sequence.begin() + static_cast<std::ptrdiff_t>(i),
                        sequence.begin() + static_cast<std::ptrdiff_t>(i + overlap),
                        reference.begin() + static_cast<std::ptrdiff_t>(at + missing));
    };
    if (at < reference.size() && sequence[i] != reference[at]) {
      std::size_t missing = 1;
      while (missing < most_missing && !agrees(missing)) ++missing;
      if (i == 0 || missing == most_missing) return {};
      at += missing;
    }
    places.push_back(at);
  }
  return 2 * shared_by(places, reference) < sequence.size() ? Places{} : places;
}

// The number of calls by which a sequence begins later than `reference`, if they agree wherever they overlap; negative
// if it begins earlier. Null if the overlap is less than half of the shorter sequence, or no longer than the shift:
// such an overlap may be a coincidence, of the last step of one rank with the first step of another. So may one be that
// is less than what both share if one of them lacks some calls.
std::optional<std::ptrdiff_t> alignment_of(const Sequence& sequence, const Sequence& reference) {
  const std::size_t later = shift_of(sequence, reference), earlier = shift_of(reference, sequence);
  const std::size_t overlap_of_later = std::min(reference.size() - later, sequence.size()),
                    overlap_of_earlier = std::min(sequence.size() - earlier, reference.size());
  const bool is_later = overlap_of_later >= overlap_of_earlier;
  const std::size_t overlap = is_later ? overlap_of_later : overlap_of_earlier, shift = is_later ? later : earlier;
  if (2 * overlap < std::min(sequence.size(), reference.size()) || overlap <= shift) return std::nullopt;
  const bool is_shorter = sequence.size() < reference.size();
  const Sequence &shorter = is_shorter ? sequence : reference, &longer = is_shorter ? reference : sequence;
  if (const Places places = shift == 0 ? Places{} : places_of(shorter, longer); shared_by(places, longer) > overlap)
    return std::nullopt;
  return is_later ? static_cast<std::ptrdiff_t>(shift) : -static_cast<std::ptrdiff_t>(shift);
}

// A call of a member under one of the ways to number the calls of its communicator.
struct NumberedCall {
  const Collective* kind = nullptr;
  std::int64_t number = 0;
  std::uint32_t process = 0, call = 0;
};

// How often a member lacks the call that most members have under a number, or has another one.
std::size_t disagreements_of(std::vector<NumberedCall> all) {
  std::set<std::uint32_t> members;
  for (const NumberedCall& each : all) members.insert(each.process);
  const auto place = [](const NumberedCall& each) { return std::tuple(each.kind, each.number, each.process); };
  std::ranges::stable_sort(all, {}, place);
  const auto copies = std::ranges::unique(all, {}, place);
  all.erase(copies.begin(), copies.end());
  std::size_t count = 0;
  for (std::size_t first = 0, end = 0; first < all.size(); first = end) {
    std::map<std::uint32_t, std::size_t> votes;
    while (end < all.size() && all[end].kind == all[first].kind && all[end].number == all[first].number)
      ++votes[all[end++].call];
    count += members.size() - std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; })->second;
  }
  return count;
}

// Numbers become places among all numbers of their kind that members have.
void make_dense(std::vector<NumberedCall>& all) {
  std::map<const Collective*, std::vector<std::int64_t>> numbers;
  for (const NumberedCall& each : all) numbers[each.kind].push_back(each.number);
  for (auto& [kind, its] : numbers) {
    std::ranges::sort(its);
    const auto copies = std::ranges::unique(its);
    its.erase(copies.begin(), copies.end());
  }
  for (NumberedCall& each : all) {
    const std::vector<std::int64_t>& its = numbers[each.kind];
    each.number = std::ranges::lower_bound(its, each.number) - its.begin();
  }
}

// A member leaves out a number that another one has, has one twice, or has one behind a later one.
bool says_more_than_a_count(const std::vector<NumberedCall>& dense) {
  std::map<std::pair<std::uint32_t, const Collective*>, std::int64_t> next;
  return std::ranges::any_of(dense, [&](const NumberedCall& each) {
    return each.number != next.try_emplace({each.process, each.kind}, each.number).first->second++;
  });
}

}  // namespace

// NCCL's opCount moves on a rank when a launch of this rank has work for its proxy (NCCL 2.27.3 and later; before, at
// each launch): never over NVLink alone, and at small calls on the ranks alone that drive a NIC. Therefore it numbers
// the calls of a communicator only where it says more than their count does, such as that one is missing, and where
// members agree under it about what the calls are, no less than under their count. Where some calls have no such
// number, as messages have none, all calls are counted.
void Trace::settle_numbers_of_launches() {
  std::vector<std::vector<std::int64_t>> launches(processes.size());
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> calls_on(communicators.size());  // process, index
  std::vector<bool> is_numbered(communicators.size(), true);
  for (std::uint32_t p = 0; p < processes.size(); ++p)
    for (std::uint32_t i = 0; i < processes[p].executions.size(); ++i) {
      Execution& each = processes[p].executions[i];
      launches[p].push_back(std::exchange(each.number, -1));
      calls_on[each.communicator].emplace_back(p, i);
      if (launches[p].back() < 0) is_numbered[each.communicator] = false;
    }
  number_collectives();
  mend_records();
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    if (!is_numbered[c]) continue;
    std::vector<NumberedCall> launched, counted;
    for (const auto& [p, i] : calls_on[c]) {
      const Execution& each = processes[p].executions[i];
      launched.push_back({kind_of(each), launches[p][i], p, each.call});
    }
    make_dense(launched);
    if (!says_more_than_a_count(launched)) continue;
    for (const auto& [p, i] : calls_on[c])
      if (const Execution& each = processes[p].executions[i]; !copies_.contains(&each))
        counted.push_back({kind_of(each), each.number, p, each.call});
    for (const Missing& each : missing_)
      if (each.execution.communicator == c)
        counted.push_back({kind_of(each.execution), each.execution.number, each.process, each.execution.call});
    if (disagreements_of(launched) > disagreements_of(std::move(counted))) continue;
    for (std::size_t i = 0; i < launched.size(); ++i)
      processes[calls_on[c][i].first].executions[calls_on[c][i].second].number = launched[i].number;
    std::erase_if(missing_, [&](const Missing& each) { return each.execution.communicator == c; });
    std::erase_if(copies_, [&](const Execution* each) { return each->communicator == c; });
  }
}

// A process's collectives.
struct Trace::Record {
  std::uint32_t process = 0;
  std::vector<Execution*> executions;
  std::vector<std::uint64_t> sequence;  // their calls, whatever exchanges move, and sizes of communicators
};

const Collective* Trace::kind_of(const Execution& each) const { return counted_kind(calls[each.call].collective); }

std::vector<Trace::Record> Trace::records_of(const std::function<bool(const Execution&)>& is_in) {
  std::vector<Record> records;
  for (std::uint32_t p = 0; p < processes.size(); ++p) {
    Record its{.process = p, .executions = {}, .sequence = {}};
    for (Execution& each : processes[p].executions)
      if (is_in(each) && !kind_of(each)->pairwise) {
        its.executions.push_back(&each);
        its.sequence.push_back(static_cast<std::uint64_t>(communicators[each.communicator].size) << 32 |
                               (kind_of(each) == &all_to_all ? ~std::uint32_t{0} : each.call));
      }
    if (!its.sequence.empty()) records.push_back(std::move(its));
  }
  return records;
}

// Takes those out of `left` that agree from some call on, a kind after the other: `use` gets them with the one that
// begins first and their shift against it.
void Trace::take_kinds(std::vector<Record>& left,
                       const std::function<void(const Record&, std::ptrdiff_t, const Record&)>& use) {
  constexpr int most_kinds = 16;  // of processes, such as the first stage of a pipeline; each costs a pass over all
  const auto length = [](const Record& each) { return each.sequence.size(); };
  for (int kind = 0; kind < most_kinds && !left.empty(); ++kind) {
    auto first = std::ranges::max_element(left, {}, length);
    for (auto each = left.begin(); each != left.end(); ++each)
      if (alignment_of(each->sequence, first->sequence).value_or(0) < 0) first = each;
    const Record reference = *first;
    std::erase_if(left, [&](const Record& each) {
      const std::optional<std::ptrdiff_t> shift = alignment_of(each.sequence, reference.sequence);
      if (shift) use(reference, *shift, each);
      return shift.has_value();
    });
  }
}

// Calls that the record does not number are counted. Records may begin at different calls: among processes that do the
// same from some call on, the count begins with the record that begins first.
void Trace::number_collectives() {
  const auto number_from = [&](const Record& reference, std::ptrdiff_t shift, const Record& its) {
    const auto begin = static_cast<std::size_t>(std::max<std::ptrdiff_t>(shift, 0));
    std::map<std::uint32_t, std::uint32_t> same;  // its communicator by that of the reference
    for (std::size_t i = 0; i < its.executions.size() && begin + i < reference.executions.size(); ++i)
      same.emplace(reference.executions[begin + i]->communicator, its.executions[i]->communicator);
    std::map<std::pair<std::uint32_t, const Collective*>, std::int64_t> numbers;
    for (std::size_t i = 0; i < begin; ++i)
      if (const auto known = same.find(reference.executions[i]->communicator); known != same.end())
        ++numbers[{known->second, kind_of(*reference.executions[i])}];
    for (Execution* const each : its.executions) each->number = numbers[{each->communicator, kind_of(*each)}]++;
  };
  std::vector<Record> left = records_of([](const Execution& each) { return each.number < 0; });
  take_kinds(left, number_from);
  for (const Record& each : left) number_from(each, 0, each);
}

// A record that is like few others may lack calls, or have some twice. Where it is like more of them but for those, it
// counts as they do, if each call that it gets or loses ends a disagreement between the members of its communicators
// about what their calls are. Of two that are like as many others, the one that repeats over less of its length is
// wrong.
void Trace::mend_records() {
  std::vector<Record> references, all = records_of([](const Execution&) { return true; }), left = all;
  std::map<std::uint32_t, std::uint32_t> kind_of_record;  // by process, the process of the reference
  std::map<std::uint32_t, std::size_t> records_of_kind;
  take_kinds(left, [&](const Record& reference, std::ptrdiff_t, const Record& its) {
    if (++records_of_kind[reference.process] == 1) references.push_back(reference);
    kind_of_record[its.process] = reference.process;
  });
  const auto without_repetition = [](const Record& each) {
    const Period found = period_of(each.sequence);
    return found.length == each.sequence.size() ? found.length : each.sequence.size() - found.covers;
  };
  const auto others_between = [](const Places& places) { return places.back() + 1 - places.size(); };
  const auto communicators_of = [](const std::vector<Record>& records) {
    std::set<std::uint32_t> found;
    for (const Record& record : records)
      for (const Execution* const each : record.executions) found.insert(each->communicator);
    return found;
  };
  std::map<std::uint32_t, std::size_t> disagreements;  // by communicator
  constexpr int most_tried = 64;                       // each costs a pass over all calls
  int tried = 0;
  for (const Record& its : all) {
    const auto kind = kind_of_record.find(its.process);
    if (kind == kind_of_record.end() || tried >= most_tried) continue;
    const std::size_t alike = records_of_kind[kind->second];
    const Record* nearest = nullptr;
    Places places;  // of the calls of the shorter one in the longer one
    for (const Record& reference : references) {
      const std::size_t others = records_of_kind[reference.process];
      if (reference.process == kind->second || others < alike) continue;
      Places some = reference.sequence.size() > its.sequence.size() ? places_of(its.sequence, reference.sequence)
                                                                    : places_of(reference.sequence, its.sequence);
      if (some.empty() || others_between(some) == 0 || (nearest && others_between(some) >= others_between(places)) ||
          (others == alike && without_repetition(reference) >= without_repetition(its)))
        continue;
      nearest = &reference;
      places = std::move(some);
    }
    if (!nearest) continue;
    if (disagreements.empty()) disagreements = disagreements_on(communicators_of(all));
    const std::set<std::uint32_t> its_communicators = communicators_of({its});
    std::size_t before = 0, after = 0;
    for (const std::uint32_t each : its_communicators) before += disagreements[each];
    if (before == 0) continue;
    ++tried;
    std::vector<std::int64_t> numbers;
    for (const Execution* const each : its.executions) numbers.push_back(each->number);
    const auto missing = missing_;
    const auto copies = copies_;
    if (nearest->sequence.size() > its.sequence.size())
      fill_in(its, *nearest, places);
    else
      leave_out(its, places);
    const std::map<std::uint32_t, std::size_t> mended = disagreements_on(its_communicators);
    for (const auto& [communicator, count] : mended) after += count;
    const std::size_t mends = missing_.size() + copies_.size() - missing.size() - copies.size();
    if (mends > 0 && after + mends <= before) {
      for (const auto& [communicator, count] : mended) disagreements[communicator] = count;
    } else {
      missing_ = missing;
      copies_ = copies;
      for (std::size_t i = 0; i < numbers.size(); ++i) its.executions[i]->number = numbers[i];
    }
  }
}

// Takes the calls that a record lacks of `reference`, and numbers its own ones anew.
void Trace::fill_in(const Record& its, const Record& reference, const std::vector<std::size_t>& places) {
  std::map<std::uint32_t, std::uint32_t> same;  // its communicator by that of the reference
  for (std::size_t i = 0; i < places.size() && places[i] < reference.executions.size(); ++i)
    same.emplace(reference.executions[places[i]]->communicator, its.executions[i]->communicator);
  using Counter = std::pair<std::uint32_t, const Collective*>;
  std::map<Counter, std::int64_t> first, in_front, numbers;
  std::vector<Missing> added;
  std::size_t at = 0;
  for (std::size_t i = 0; i < its.executions.size(); ++i, ++at) {
    for (; at < std::min(places[i], reference.executions.size()); ++at)
      if (const auto known = same.find(reference.executions[at]->communicator); known != same.end()) {
        added.push_back({its.process, its.executions[i], {known->second, reference.executions[at]->call}});
        if (const Counter counter(known->second, kind_of(*reference.executions[at])); !first.contains(counter))
          ++in_front[counter];
      }
    first.emplace(Counter(its.executions[i]->communicator, kind_of(*its.executions[i])), its.executions[i]->number);
  }
  for (const auto& [counter, number] : first) numbers[counter] = std::max(number - in_front[counter], std::int64_t{0});
  auto next = added.begin();
  for (Execution* const each : its.executions) {
    for (; next != added.end() && next->next == each; ++next)
      next->execution.number = numbers[{next->execution.communicator, kind_of(next->execution)}]++;
    each->number = numbers[{each->communicator, kind_of(*each)}]++;
  }
  missing_.insert(missing_.end(), added.begin(), added.end());
}

// Leaves out the calls that a record has between `places`, those of another one in it, where others recorded calls of
// the same communicator, and numbers the rest anew.
void Trace::leave_out(const Record& its, const std::vector<std::size_t>& places) {
  std::map<std::pair<std::uint32_t, const Collective*>, std::int64_t> numbers;
  for (std::size_t i = 0; i < its.executions.size(); ++i) {
    Execution& each = *its.executions[i];
    const std::vector<int>& members = communicators[each.communicator].processes;
    if (i < places.back() && !std::ranges::binary_search(places, i) &&
        std::ranges::count_if(members, [](int process) { return process >= 0; }) > 1)
      copies_.insert(&each);
    else
      each.number = numbers.try_emplace({each.communicator, kind_of(each)}, each.number).first->second++;
  }
}

// Those of the members of communicators.
std::map<std::uint32_t, std::size_t> Trace::disagreements_on(const std::set<std::uint32_t>& some) const {
  std::map<std::uint32_t, std::vector<NumberedCall>> all;
  for (const std::uint32_t each : some) all[each];
  const auto take = [&](std::uint32_t process, const Execution& each) {
    const Collective* const kind = kind_of(each);
    if (const auto known = all.find(each.communicator); known != all.end() && !kind->pairwise)
      known->second.push_back({kind, each.number, process, kind == &all_to_all ? 0 : each.call});
  };
  for (std::uint32_t p = 0; p < processes.size(); ++p)
    for (const Execution& each : processes[p].executions)
      if (!copies_.contains(&each)) take(p, each);
  for (const Missing& each : missing_) take(each.process, each.execution);
  std::map<std::uint32_t, std::size_t> counts;
  for (auto& [communicator, its] : all) counts[communicator] = disagreements_of(std::move(its));
  return counts;
}

// Records get the calls that they lack, and lose those that they have twice.
void Trace::apply_mends() {
  std::map<const Execution*, std::vector<Execution>> in_front;
  std::set<std::string> lacking, with_copies;
  for (const Missing& each : missing_) {
    in_front[each.next].push_back(each.execution);
    lacking.insert(processes[each.process].name);
  }
  for (Process& process : processes) {
    std::vector<Execution> whole;
    std::size_t changes = 0;
    const auto is_changed = [&](const Execution& each) { return in_front.contains(&each) || copies_.contains(&each); };
    if (std::ranges::none_of(process.executions, is_changed)) continue;
    for (const Execution& each : process.executions) {
      if (const auto known = in_front.find(&each); known != in_front.end())
        whole.insert(whole.end(), known->second.begin(), known->second.end());
      if (copies_.contains(&each))
        ++changes;
      else
        whole.push_back(each);
    }
    if (changes > 0) with_copies.insert(process.name);
    process.executions = std::move(whole);
  }
  const auto tell = [&](const std::set<std::string>& names, std::size_t count, std::string_view what) {
    if (!names.empty())
      remark(fmt::format("some calls {}, as the records of other ranks show: {} in {}", what, count,
                         some_of({names.begin(), names.end()})));
  };
  tell(lacking, missing_.size(), "are missing within a record and count as made");
  tell(with_copies, copies_.size(), "are in a record twice and count once");
  missing_.clear();
  copies_.clear();
}

// Lines that are in a log once more, behind later ones.
void Trace::leave_out_numbers_that_are_there_twice() {
  for (Process& process : processes) {
    std::set<std::tuple<std::uint32_t, const Collective*, std::int64_t>> seen;
    const std::size_t copies = std::erase_if(process.executions, [&](const Execution& each) {
      return each.number >= 0 && !seen.emplace(each.communicator, kind_of(each), each.number).second;
    });
    if (copies > 0) remark("calls that are in the log twice, with one number (opCount), count once");
  }
}

void Trace::number_executions() {
  for (Process& process : processes) {
    std::map<std::tuple<std::uint32_t, const Collective*, int, int>, std::int64_t> counts;
    for (Execution& each : process.executions) {
      const Call& call = calls[each.call];
      const bool message = call.collective->pairwise;
      std::int64_t& count = counts[{each.communicator, counted_kind(call.collective), message ? call.source : -1,
                                    message ? call.target : -1}];
      if (each.number < 0) each.number = count;
      ++count;
    }
  }
}

const Collective* counted_kind(const Collective* kind) { return kind == &all_to_allv ? &all_to_all : kind; }

void Trace::finish() {
  std::size_t executions = 0;
  for (const Process& each : processes) executions += each.executions.size();
  if (executions == 0)
    throw UsageError("no communication in it: " + (remarks_.empty() ? "no record of any call" : join(remarks(), "; ")));
  keep_one_run();
  give_ranks();
  std::map<int, int> process_of_rank;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    process_of_rank[processes[i].rank] = static_cast<int>(i);
    ranks = std::max(ranks, processes[i].rank + 1);
  }
  for (Communicator& each : communicators) {
    ranks = std::max(ranks, each.size);
    for (std::size_t member = 0; member < each.ranks.size(); ++member) {
      int& rank = each.ranks[member];
      int& process = each.processes[member];
      if (process >= 0) rank = processes[static_cast<std::size_t>(process)].rank;
      if (rank >= 0 && process < 0)
        if (const auto at = process_of_rank.find(rank); at != process_of_rank.end()) process = at->second;
      ranks = std::max(ranks, rank + 1);
    }
  }
  // A communicator as large as the job is the job.
  for (Communicator& each : communicators)
    if (each.size == ranks && std::ranges::any_of(each.ranks, [](int rank) { return rank < 0; }))
      std::iota(each.ranks.begin(), each.ranks.end(), 0);
  if (are_numbers_of_launches) {
    settle_numbers_of_launches();
  } else {
    number_collectives();
    mend_records();
  }
  apply_mends();
  if (are_numbers_of_launches) leave_out_numbers_that_are_there_twice();
  number_executions();
}

// ---- names

namespace {

struct NamedType {
  std::string_view name;
  ElementType type;
};
// c10/core/ScalarType.h of PyTorch.
constexpr std::array pytorch_types{
    NamedType{"Float", {4, DataType::float32}},      NamedType{"Double", {8, DataType::float64}},
    NamedType{"Half", {2, DataType::float16}},       NamedType{"BFloat16", {2, DataType::bfloat16}},
    NamedType{"Int", {4, DataType::int32}},          NamedType{"Long", {8, DataType::int64}},
    NamedType{"Char", {1, DataType::int8}},          NamedType{"Byte", {1, DataType::uint8}},
    NamedType{"Bool", {1, DataType::uint8}},         NamedType{"UInt32", {4, DataType::uint32}},
    NamedType{"UInt64", {8, DataType::uint64}},      NamedType{"Short", {2, std::nullopt}},
    NamedType{"UInt16", {2, std::nullopt}},          NamedType{"Float8_e4m3fn", {1, std::nullopt}},
    NamedType{"Float8_e5m2", {1, std::nullopt}},     NamedType{"Float8_e4m3fnuz", {1, std::nullopt}},
    NamedType{"Float8_e5m2fnuz", {1, std::nullopt}}, NamedType{"ComplexFloat", {8, std::nullopt}},
    NamedType{"ComplexDouble", {16, std::nullopt}},
};

// ncclDataType_t of nccl.h, by value.
constexpr std::array nccl_types{
    ElementType{1, DataType::int8},     ElementType{1, DataType::uint8},   ElementType{4, DataType::int32},
    ElementType{4, DataType::uint32},   ElementType{8, DataType::int64},   ElementType{8, DataType::uint64},
    ElementType{2, DataType::float16},  ElementType{4, DataType::float32}, ElementType{8, DataType::float64},
    ElementType{2, DataType::bfloat16}, ElementType{1, std::nullopt},      ElementType{1, std::nullopt},
};

struct NamedCollective {
  std::string_view name;
  const Collective* collective;
};
// Names of ProcessGroupNCCL.cpp, with those of other versions; without its prefix "nccl:".
constexpr std::array pytorch_collectives{
    NamedCollective{"all_reduce", &all_reduce},
    NamedCollective{"allreduce", &all_reduce},
    NamedCollective{"allreduce_coalesced", &all_reduce},
    NamedCollective{"all_reduce_coalesced", &all_reduce},
    NamedCollective{"all_reduce_barrier", &all_reduce},
    NamedCollective{"barrier", &all_reduce},
    NamedCollective{"all_gather", &all_gather},
    NamedCollective{"allgather", &all_gather},
    NamedCollective{"_all_gather_base", &all_gather},
    NamedCollective{"_allgather_base", &all_gather},
    NamedCollective{"all_gather_into_tensor_coalesced", &all_gather},
    NamedCollective{"allgather_into_tensor_coalesced", &all_gather},
    NamedCollective{"reduce_scatter", &reduce_scatter},
    NamedCollective{"_reduce_scatter_base", &reduce_scatter},
    NamedCollective{"reduce_scatter_tensor_coalesced", &reduce_scatter},
    NamedCollective{"broadcast", &broadcast},
    NamedCollective{"_broadcast_oop", &broadcast},
    NamedCollective{"reduce", &reduce},
    NamedCollective{"_reduce_oop", &reduce},
    NamedCollective{"all_to_all", &all_to_all},
    NamedCollective{"alltoall", &all_to_all},
    NamedCollective{"alltoall_base", &all_to_all},
    NamedCollective{"all_to_allv", &all_to_allv},
    NamedCollective{"alltoallv", &all_to_allv},
    NamedCollective{"gather", &gather},
    NamedCollective{"scatter", &scatter},
    NamedCollective{"send", &p2p},
    NamedCollective{"recv", &p2p},
};

constexpr std::array nccl_collectives{
    NamedCollective{"AllReduce", &all_reduce},
    NamedCollective{"AllGather", &all_gather},
    NamedCollective{"ReduceScatter", &reduce_scatter},
    NamedCollective{"Broadcast", &broadcast},
    NamedCollective{"Reduce", &reduce},
    NamedCollective{"AlltoAll", &all_to_all},
    NamedCollective{"AllToAll", &all_to_all},
    NamedCollective{"Gather", &gather},
    NamedCollective{"Scatter", &scatter},
    NamedCollective{"Send", &p2p},
    NamedCollective{"Recv", &p2p},
};

const Collective* find_in(const auto& table, std::string_view name) {
  const auto found = std::ranges::find(table, name, &NamedCollective::name);
  return found == table.end() ? nullptr : found->collective;
}

}  // namespace

std::optional<ElementType> element_type_of_pytorch(std::string_view name) {
  const auto found = std::ranges::find(pytorch_types, name, &NamedType::name);
  return found == pytorch_types.end() ? std::nullopt : std::optional(found->type);
}

std::optional<ElementType> element_type_of_nccl(int code) {
  return code >= 0 && std::cmp_less(code, nccl_types.size()) ? std::optional(nccl_types[static_cast<std::size_t>(code)])
                                                             : std::nullopt;
}

const Collective* collective_of_pytorch(std::string_view name) {
  if (const std::size_t colon = name.find(':'); colon != std::string_view::npos) name.remove_prefix(colon + 1);
  return find_in(pytorch_collectives, name.substr(0, name.find(' ')));
}

const Collective* collective_of_nccl(std::string_view name) { return find_in(nccl_collectives, name); }

}  // namespace p5::job
