#include "bench/job/trace.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"

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
    const bool are_numbered = std::ranges::all_of(processes, [&](const Process& process) {
      return std::ranges::all_of(process.executions,
                                 [&](const Execution& each) { return each.number >= 0 || kind_of(each)->pairwise; });
    });
    number_collectives();
    mend_records(are_numbered);
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
