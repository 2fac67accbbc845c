// NCCL Inspector's JSON, as plugins/profiler/inspector of NVIDIA/nccl writes it (v4.0, NCCL 2.28 to 2.30). One line:
// {"header": {"id", "rank", "n_ranks", "nnodes"}, "metadata": {"hostname", "pid", ...}, "coll_perf" or "p2p_perf":
// {...}}. It writes in intervals: communicator by communicator, and of each the collectives before the messages. NCCL
// 2.30 keeps the newest 1024 calls of each communicator until it writes them, by default at the end of the job. NCCL
// 2.28 and 2.29 keep the newest one.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/base/text.hpp"
#include "bench/job/formats.hpp"

namespace p5::job {

namespace {

const std::vector<std::string_view> inspector_fields{"header.id",
                                                     "header.rank",
                                                     "header.n_ranks",
                                                     "metadata.hostname",
                                                     "metadata.pid",
                                                     "coll_perf.coll",
                                                     "coll_perf.coll_sn",
                                                     "coll_perf.coll_msg_size_bytes",
                                                     "coll_perf.coll_exec_time_us",
                                                     "coll_perf.event_trace_ts.coll_start_ts",
                                                     "p2p_perf.p2p",
                                                     "p2p_perf.p2p_sn",
                                                     "p2p_perf.p2p_peer",
                                                     "p2p_perf.p2p_msg_size_bytes",
                                                     "p2p_perf.p2p_exec_time_us",
                                                     "p2p_perf.event_trace_ts.p2p_start_ts"};

std::int64_t must(const TraceFile& file, const Record& record, std::string_view name, std::int64_t most) {
  const std::optional<std::int64_t> value = record.integer(name);
  if (!value || *value < 0 || *value > most)
    throw file.refuse(fmt::format("{} is not a whole number from 0 to {}", name, most));
  return *value;
}

// Collectives or messages of a communicator, of which Inspector keeps the newest.
using Kept = std::pair<std::uint32_t, bool>;  // communicator, messages

struct KeptCalls {
  std::size_t count = 0;
  std::set<std::string, std::less<>> kinds = {};
  bool begins_later = false;  // the first call of a kind is not the communicator's first
};

using KeptOfProcess = std::map<Kept, KeptCalls>;

// Adds what a line records, and its process to those that the file has.
void read_record(const TraceFile& file, const Record& record, Trace& trace,
                 std::map<std::uint32_t, KeptOfProcess>& of_file) {
  const bool collective = record.find("coll_perf.coll") != nullptr;
  const std::string_view name = record.text(collective ? "coll_perf.coll" : "p2p_perf.p2p");
  if (name.empty()) return;  // a record of another kind
  const int size = static_cast<int>(must(file, record, "header.n_ranks", most_ranks));
  const int member = static_cast<int>(must(file, record, "header.rank", most_ranks));
  const std::string host(record.text("metadata.hostname"));
  const std::uint32_t process =
      trace.process(fmt::format("{}:{}", host, must(file, record, "metadata.pid", std::int64_t{1} << 50)), host);
  const std::uint32_t communicator = trace.communicator(std::string(record.text("header.id")), size);
  trace.set_member(communicator, member, process);
  const Collective* const what = collective_of_nccl(name);
  if (!what) {
    trace.remark(fmt::format("{} is no operation that can be replayed; it is left out", in_quotes(name)));
    return;
  }
  const auto field = [&](std::string_view of_collective, std::string_view of_message) {
    return collective ? of_collective : of_message;
  };
  auto bytes = static_cast<std::uint64_t>(must(file, record,
                                               field("coll_perf.coll_msg_size_bytes", "p2p_perf.p2p_msg_size_bytes"),
                                               static_cast<std::int64_t>(most_bytes)));
  // The size is NCCL's count, which is one rank's share where ranks share the message.
  if (what == &all_gather || what == &reduce_scatter || what == &all_to_all || what == &gather || what == &scatter)
    bytes *= static_cast<std::uint64_t>(size);
  Call call{.collective = what, .bytes = {bytes}, .type = {}, .op = {}};
  if (what->pairwise) {
    const int peer = static_cast<int>(must(file, record, "p2p_perf.p2p_peer", size - 1));
    const bool sends = name == "Send";
    call.source = sends ? member : peer;
    call.target = sends ? peer : member;
  }
  Execution one{.communicator = communicator, .call = trace.call(call)};
  if (!what->pairwise) one.number = record.integer("coll_perf.coll_sn").value_or(-1);
  if (const auto time = record.number(field("coll_perf.coll_exec_time_us", "p2p_perf.p2p_exec_time_us"));
      time && *time != 0)
    one.seconds = static_cast<float>(*time * 1e-6);
  if (const auto start =
          record.number(field("coll_perf.event_trace_ts.coll_start_ts", "p2p_perf.event_trace_ts.p2p_start_ts"));
      start && *start > 0)
    one.start = *start * 1e-6;
  trace.add(process, one);
  KeptCalls& kept = of_file[process][{communicator, what->pairwise}];
  ++kept.count;
  if (kept.kinds.emplace(what->pairwise ? "" : name).second)
    kept.begins_later = kept.begins_later || record.integer(field("coll_perf.coll_sn", "p2p_perf.p2p_sn")) > 1;
}

// The calls of communicators with few calls reach further back than those of which Inspector did not keep all, which
// are as many as of any: what lies before the first of these is left out.
void leave_out_what_is_not_whole(std::uint32_t process, const KeptOfProcess& kept, Trace& trace) {
  std::vector<Execution>& all = trace.processes[process].executions;
  std::map<bool, std::size_t> most;
  for (const auto& [which, calls] : kept) most[which.second] = std::max(most[which.second], calls.count);
  auto first = all.begin();
  for (const auto& [which, calls] : kept)
    if (calls.begins_later && calls.count == most[which.second])
      first = std::max(first, std::ranges::find(all, which, [&](const Execution& each) {
                         return Kept(each.communicator, trace.calls[each.call].collective->pairwise);
                       }));
  if (first == all.begin()) return;
  all.erase(all.begin(), first);
  trace.remark(
      "calls before the first one that Inspector kept of some communicator are left out: it keeps the newest ones "
      "(NCCL_INSPECTOR_DUMP_COLL_RING_SIZE, NCCL_INSPECTOR_DUMP_P2P_RING_SIZE) until it writes them "
      "(NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS)");
}

// Puts the calls of a process in the order of their starts. Calls of one kind on one communicator are in it already.
void sort_calls(std::uint32_t process, const KeptOfProcess& kept, Trace& trace) {
  std::vector<Execution>& all = trace.processes[process].executions;
  const auto stream = [&](const Execution& each) {
    return std::pair(each.communicator, trace.calls[each.call].collective->pairwise);
  };
  if (std::ranges::none_of(all, [](const Execution& each) { return std::isnan(each.start); })) {
    std::ranges::stable_sort(all, {}, &Execution::start);
    leave_out_what_is_not_whole(process, kept, trace);
  } else if (std::ranges::adjacent_find(all, std::not_equal_to(), stream) != all.end()) {
    trace.remark(
        "calls without a start (NCCL_INSPECTOR_DUMP_VERBOSE=1 records it) are in the order of their file, in which "
        "Inspector writes communicator by communicator");
  }
}

}  // namespace

// Collectors write the members of a line in another order, or their own in front.
bool is_inspector(std::string_view beginning) {
  const auto holds = [&](std::string_view text) { return beginning.find(text) != std::string_view::npos; };
  return beginning.starts_with("{\"header\"") ||
         (beginning.starts_with('{') && (holds("\"coll_perf\"") || holds("\"p2p_perf\"")));
}

void read_inspector(TraceFile& file, Trace& trace) {
  Record record;
  std::unordered_set<std::size_t> seen;
  std::map<std::uint32_t, KeptOfProcess> of_file;
  while (const auto line = file.line()) {
    if (line->find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (!seen.insert(std::hash<std::string_view>()(*line)).second) {
      trace.remark("records that are in it twice count once");
      continue;
    }
    try {
      read_line(file, *line, inspector_fields, record);
    } catch (const UsageError&) {
      if (!file.may_be_cut()) throw;
      trace.remark(fmt::format("'{}': the last line is cut off and left out", file.name()));
      break;
    }
    read_record(file, record, trace, of_file);
  }
  for (const auto& [process, kept] : of_file) sort_calls(process, kept, trace);
}

}  // namespace p5::job
