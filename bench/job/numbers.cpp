// Numbers of calls: NCCL's opCount, or a count. Calls of several ranks that have the same number are one operation.
// Calls that a record lacks, or has twice, are found here too.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "bench/base/text.hpp"
#include "bench/job/analysis.hpp"
#include "bench/job/trace.hpp"

namespace p5::job {

namespace {

using Sequence = std::vector<std::uint64_t>;

// The smallest shift of `later` against `whole` at which both are equal wherever they overlap.
std::size_t shift_of(const Sequence& later, const Sequence& whole) {
  std::vector<std::size_t> border(later.size(), 0);  // as in the search of Knuth, Morris and Pratt
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

// The number of places that lie within `reference`.
std::size_t shared_by(const Places& places, const Sequence& reference) {
  return static_cast<std::size_t>(std::ranges::lower_bound(places, reference.size()) - places.begin());
}

// The place of each of a sequence's calls in `reference`, if the sequence lacks some of its calls, the first ones too.
// As few calls as possible count as missing where they differ, such that more calls agree behind them than are missing.
// Empty if a call has no such place, or if less than half of the calls have one within the reference.
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
      if (missing == most_missing) return {};
      at += missing;
    }
    places.push_back(at);
  }
  return 2 * shared_by(places, reference) < sequence.size() ? Places{} : places;
}

// The number of calls by which a sequence begins later than `reference`, if they agree wherever they overlap; negative
// if it begins earlier. Null if the overlap is less than half of the shorter sequence, or no longer than the shift: the
// last step of one rank may agree with the first step of another by coincidence. Null, too, if more calls agree under
// the assumption that the shorter sequence lacks some calls.
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

// A call of a member, with its number by opCount or by count.
struct NumberedCall {
  const Collective* kind = nullptr;
  std::int64_t number = 0;
  std::uint32_t process = 0, call = 0;
};

// The number of times that a member lacks the call that most members have under a number, or has another one.
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

// Replaces each number by its place among all numbers that members have for calls of the same kind.
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

}  // namespace

// Before NCCL 2.27.3, opCount goes up at each launch, and numbers all calls. Since then, it goes up on a rank only if a
// launch has work for the rank's proxy: never if all goes over NVLink, and for small calls only on ranks that use a
// NIC. opCount numbers all calls of the job if each call has an opCount of its own, and members agree under it about
// what the calls are at least as much as under their count. Else all calls are counted, such as beside messages, which
// have no opCount here.
void Trace::settle_numbers_of_launches() {
  std::vector<std::vector<std::int64_t>> launches(processes.size());
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> calls_on(communicators.size());  // process, index
  bool are_all_numbered = true;
  for (std::uint32_t p = 0; p < processes.size(); ++p)
    for (std::uint32_t i = 0; i < processes[p].executions.size(); ++i) {
      Execution& each = processes[p].executions[i];
      launches[p].push_back(std::exchange(each.number, -1));
      calls_on[each.communicator].emplace_back(p, i);
      are_all_numbered = are_all_numbered && launches[p].back() >= 0 && launches[p].back() % most_in_launch == 0;
    }
  number_collectives();
  const auto launched_on = [&](std::size_t c) {
    std::vector<NumberedCall> launched;
    for (const auto& [p, i] : calls_on[c]) {
      const Execution& each = processes[p].executions[i];
      launched.push_back({kind_of(each), launches[p][i], p, each.call});
    }
    make_dense(launched);
    return launched;
  };
  for (std::size_t c = 0; c < communicators.size() && are_all_numbered; ++c) {
    std::vector<NumberedCall> counted;
    for (const auto& [p, i] : calls_on[c]) {
      const Execution& each = processes[p].executions[i];
      counted.push_back({kind_of(each), each.number, p, each.call});
    }
    are_all_numbered = disagreements_of(launched_on(c)) <= disagreements_of(std::move(counted));
  }
  for (std::size_t c = 0; c < communicators.size() && are_all_numbered; ++c) {
    const std::vector<NumberedCall> launched = launched_on(c);
    for (std::size_t i = 0; i < launched.size(); ++i)
      processes[calls_on[c][i].first].executions[calls_on[c][i].second].number = launched[i].number;
  }
  mend_records(are_all_numbered);
}

// The collectives that a process recorded.
struct Trace::Record {
  std::uint32_t process = 0;
  std::vector<Execution*> executions;
  std::vector<std::uint64_t> calls;     // call and size of the communicator of each; all exchanges are one call
  std::vector<std::uint64_t> sequence;  // the same, with the number of each if records are compared by numbers
};

const Collective* Trace::kind_of(const Execution& each) const { return counted_kind(calls[each.call].collective); }

Stream Trace::stream_of(const Execution& each) const {
  const Call& call = calls[each.call];
  const bool is_message = call.collective->pairwise;
  return {each.communicator, kind_of(each), is_message ? call.source : -1, is_message ? call.target : -1};
}

std::vector<Trace::Record> Trace::records_of(const std::function<bool(const Execution&)>& is_in, bool by_number) {
  constexpr std::uint64_t spread = 0x9E3779B97F4A7C15;  // odd, so that each number changes the call in another way
  std::vector<Record> records;
  for (std::uint32_t p = 0; p < processes.size(); ++p) {
    Record its{.process = p, .executions = {}, .calls = {}, .sequence = {}};
    for (Execution& each : processes[p].executions)
      if (is_in(each) && !kind_of(each)->pairwise) {
        its.executions.push_back(&each);
        its.calls.push_back(static_cast<std::uint64_t>(communicators[each.communicator].size) << 32 |
                            (kind_of(each) == &all_to_all ? ~std::uint32_t{0} : each.call));
        its.sequence.push_back(its.calls.back() ^
                               (by_number ? (static_cast<std::uint64_t>(each.number) + 1) * spread : 0));
      }
    if (!its.sequence.empty()) records.push_back(std::move(its));
  }
  return records;
}

// Takes records that agree from some call on out of `left`, one kind of processes after the other. Calls `use` for each
// of them, with the record of its kind that begins first, its shift against that record, and itself.
void Trace::take_kinds(std::vector<Record>& left,
                       const std::function<void(const Record&, std::ptrdiff_t, const Record&)>& use) {
  constexpr int most_kinds = 16;  // such as the first stage of a pipeline; each costs a pass over all records
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

// Counts the calls that have no number. Records may begin at different calls: among processes that do the same from
// some call on, the count begins with the record that begins first.
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
  std::vector<Record> left = records_of([](const Execution& each) { return each.number < 0; }, false);
  take_kinds(left, number_from);
  for (const Record& each : left) number_from(each, 0, each);
}

// A record that agrees with few others may lack calls, or have some twice. It is compared with kinds of as many records
// or more, and with the nearest one it is mended: it gets the calls that it lacks, or loses those that it has twice.
// The mend is kept if each such call ends a disagreement between members of the record's communicators. `are_numbered`:
// the numbers of calls are those of the records. Then they say which calls are missing, and a copy has the number of
// another call. Without them, between kinds of equally many records, the one that repeats over less of its length is
// mended.
void Trace::mend_records(bool are_numbered) {
  std::vector<Record> references, all = records_of([](const Execution&) { return true; }, are_numbered), left = all;
  std::map<std::uint32_t, std::uint32_t> kind_of_record;  // by process, the process of the reference
  std::map<std::uint32_t, std::size_t> records_of_kind;
  take_kinds(left, [&](const Record& reference, std::ptrdiff_t, const Record& its) {
    if (++records_of_kind[reference.process] == 1) references.push_back(reference);
    kind_of_record[its.process] = reference.process;
  });
  const auto without_repetition = [](const Record& each) {
    const Period found = period_of(each.calls);
    return found.length == each.calls.size() ? found.length : each.calls.size() - found.covers;
  };
  const auto lacks_calls = [&](const Record& its, const Record& reference) {
    return are_numbered || reference.sequence.size() > its.sequence.size();
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
    std::pair<bool, std::size_t> least;
    Places places;  // of the calls of the one that lacks some in the other one
    for (const Record& reference : references) {
      const std::size_t others = records_of_kind[reference.process];
      if (reference.process == kind->second || others < alike) continue;
      Places some = lacks_calls(its, reference) ? places_of(its.sequence, reference.sequence)
                                                : places_of(reference.sequence, its.sequence);
      if (some.empty() || others_between(some) == 0 ||
          (!are_numbered && others == alike && without_repetition(reference) >= without_repetition(its)))
        continue;
      // A kind of equally many records may lack the same calls, so that a larger one is preferred.
      const std::pair distance(others == alike, others_between(some));
      if (nearest && distance >= least) continue;
      least = distance;
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
    if (lacks_calls(its, *nearest))
      fill_in(its, *nearest, places, are_numbered);
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

// Adds the calls of `reference` that a record lacks to `missing_`, and numbers the record's own calls anew unless they
// are numbered.
void Trace::fill_in(const Record& its, const Record& reference, const std::vector<std::size_t>& places,
                    bool are_numbered) {
  std::map<std::uint32_t, std::uint32_t> same;  // its communicator by that of the reference
  for (std::size_t i = 0; i < places.size() && places[i] < reference.executions.size(); ++i)
    same.emplace(reference.executions[places[i]]->communicator, its.executions[i]->communicator);
  using Counter = std::pair<std::uint32_t, const Collective*>;
  std::map<Counter, std::int64_t> first, in_front, numbers;
  std::vector<Missing> added;
  std::size_t at = are_numbered ? places.front() : 0;  // numbers say how much later the record begins
  for (std::size_t i = 0; i < its.executions.size(); ++i, ++at) {
    for (; at < std::min(places[i], reference.executions.size()); ++at)
      if (const auto known = same.find(reference.executions[at]->communicator); known != same.end()) {
        const Execution& lacked = *reference.executions[at];
        added.push_back({its.process, its.executions[i], {known->second, lacked.call, lacked.number}});
        if (const Counter counter(known->second, kind_of(lacked)); !first.contains(counter)) ++in_front[counter];
      }
    first.emplace(Counter(its.executions[i]->communicator, kind_of(*its.executions[i])), its.executions[i]->number);
  }
  if (!are_numbered) {
    for (const auto& [counter, number] : first)
      numbers[counter] = std::max(number - in_front[counter], std::int64_t{0});
    auto next = added.begin();
    for (Execution* const each : its.executions) {
      for (; next != added.end() && next->next == each; ++next)
        next->execution.number = numbers[{next->execution.communicator, kind_of(next->execution)}]++;
      each->number = numbers[{each->communicator, kind_of(*each)}]++;
    }
  }
  missing_.insert(missing_.end(), added.begin(), added.end());
}

// Adds the calls that a record has twice to `copies_`, and numbers its other calls anew. `places` are the places in the
// record of the calls of another one; a call between them is a copy if other members of its communicator have records.
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

// The number of disagreements between the members of each of these communicators.
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

// Leaves out calls whose number came before in the same record: the log has their lines twice.
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
    std::map<Stream, std::int64_t> counts;
    for (Execution& each : process.executions) {
      std::int64_t& count = counts[stream_of(each)];
      if (each.number < 0) each.number = count;
      ++count;
    }
  }
}

}  // namespace p5::job
