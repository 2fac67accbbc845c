#include "bench/job/formats.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/text.hpp"

namespace p5::job {

namespace {

constexpr std::array format_table{
    Format{"NCCL Inspector",
           "NCCL 2.30, NCCL_PROFILER_PLUGIN=.../libnccl-profiler-inspector.so NCCL_INSPECTOR_ENABLE=1 "
           "NCCL_INSPECTOR_DUMP_VERBOSE=1 NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES=0 "
           "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=100000",
           is_inspector, read_inspector},
    Format{"PyTorch", "torch.profiler's export_chrome_trace, or the flight recorder's dump as JSON", is_pytorch,
           read_pytorch},
    Format{"NCCL log", "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL", is_nccl_log, read_nccl_log},
};

// Python's pickle from protocol 2 on begins so.
bool is_pickle(std::string_view beginning) {
  return beginning.size() >= 2 && beginning[0] == '\x80' && beginning[1] >= 2 && beginning[1] <= 5;
}

}  // namespace

std::span<const Format> formats() { return format_table; }

const Format& read_trace(TraceFile& file, Trace& trace) {
  trace.begin_file();
  constexpr std::size_t enough = 4096;
  std::string_view beginning = file.ahead(enough);
  if (beginning.starts_with(byte_order_mark)) {
    for (std::size_t i = 0; i < byte_order_mark.size(); ++i) file.advance();
    beginning = file.ahead(enough);
  }
  if (beginning.empty()) trace.remark("a file is empty");
  beginning.remove_prefix(std::min(beginning.find_first_not_of(" \t\r\n"), beginning.size()));
  if (beginning.starts_with("\xff\xfe") || beginning.starts_with("\xfe\xff"))
    throw UsageError(fmt::format(
        "'{}': it is UTF-16, as PowerShell redirects output: iconv -f UTF-16 -t UTF-8 FILE > FILE.log", file.name()));
  if (is_pickle(beginning))
    throw UsageError(
        fmt::format("'{}': it is a pickle, which could run any program when read. Have PyTorch dump JSON "
                    "(torch._C._distributed_c10d._dump_nccl_trace_json()), or convert a file that you "
                    "trust: python3 -c 'import json, pickle, sys; "
                    "json.dump(pickle.load(open(sys.argv[1], \"rb\")), sys.stdout)' FILE > FILE.json",
                    file.name()));
  const auto found = std::ranges::find_if(format_table, [&](const Format& each) { return each.recognizes(beginning); });
  if (found == format_table.end()) {
    std::string known;
    for (const Format& each : format_table)
      known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", each.name, each.made_by);
    throw UsageError(fmt::format("'{}': it is no trace that can be read: {}", file.name(), known));
  }
  try {
    found->read(file, trace);
    if (const std::size_t count = file.lines_left_out(); count > 0)
      trace.remark(fmt::format("'{}': {} {} above {} MiB and left out", file.name(), count,
                               count == 1 ? "line is" : "lines are", longest_line >> 20));
  } catch (const UsageError& problem) {
    // What the trace itself refuses has no place yet.
    if (std::string_view(problem.what()).starts_with("'")) throw;
    throw file.refuse(problem.what());
  }
  return *found;
}

namespace {

// The messages of a process that may become one exchange.
class Exchange {
 public:
  Exchange(int ranks, std::optional<DataType> type)
      : type_(type), sent_(static_cast<std::size_t>(ranks)), received_(sent_.size()) {}

  // False for a message that does not belong to it.
  bool take(const Call& call, int self) {
    if (call.type != type_) return false;
    const int peer = call.source == self ? call.target : call.source;
    // A message of a rank to itself is recorded as sent and as received.
    const bool sends = call.source == self && !(peer == self && sent_[static_cast<std::size_t>(self)]);
    auto& side = sends ? sent_ : received_;
    if (side[static_cast<std::size_t>(peer)]) return false;
    side[static_cast<std::size_t>(peer)] = call.bytes.count;
    return true;
  }
  bool complete(int self) const {
    for (std::size_t member = 0; member < sent_.size(); ++member)
      if (std::cmp_not_equal(member, self) && (!sent_[member] || !received_[member])) return false;
    // Two ranks that exchange something may do so in a pipeline; with messages to themselves it is an exchange.
    return sent_.size() > 2 || (sent_.size() == 2 && sent_[static_cast<std::size_t>(self)]);
  }
  std::vector<std::uint64_t> sent() const {
    std::vector<std::uint64_t> bytes;
    for (const std::optional<std::uint64_t>& each : sent_) bytes.push_back(each.value_or(0));
    return bytes;
  }

 private:
  std::optional<DataType> type_;
  std::vector<std::optional<std::uint64_t>> sent_, received_;
};

}  // namespace

void join_messages(Trace& trace) {
  // The member that a process is of each communicator.
  std::vector<std::map<std::uint32_t, int>> member_of(trace.processes.size());
  for (std::uint32_t c = 0; c < trace.communicators.size(); ++c)
    for (std::size_t member = 0; member < trace.communicators[c].processes.size(); ++member)
      if (const int process = trace.communicators[c].processes[member]; process >= 0)
        member_of[static_cast<std::size_t>(process)][c] = static_cast<int>(member);
  for (std::size_t p = 0; p < trace.processes.size(); ++p) {
    std::vector<Execution>& all = trace.processes[p].executions;
    std::vector<Execution> kept;
    for (std::size_t i = 0; i < all.size();) {
      const Execution& first = all[i];
      const auto member = member_of[p].find(first.communicator);
      if (trace.calls[first.call].collective != &p2p || member == member_of[p].end()) {
        kept.push_back(all[i++]);
        continue;
      }
      const int self = member->second;
      Exchange exchange(trace.communicators[first.communicator].size, trace.calls[first.call].type);
      std::size_t end = i;
      while (end < all.size() && all[end].communicator == first.communicator &&
             trace.calls[all[end].call].collective == &p2p && exchange.take(trace.calls[all[end].call], self))
        ++end;
      if (!exchange.complete(self)) {
        const Call& alone = trace.calls[all[i].call];
        if (alone.source == alone.target)
          trace.remark("messages of a rank to itself, which are copies in its memory, are left out");
        else
          kept.push_back(all[i]);
        ++i;
        continue;
      }
      std::vector<std::uint64_t> sent = exchange.sent();
      const bool even = std::ranges::adjacent_find(sent, std::not_equal_to()) == sent.end();
      Execution one = first;
      one.number = -1;
      std::uint64_t total = 0;
      for (const std::uint64_t bytes : sent) total += bytes;
      one.call = trace.call({.collective = even ? &all_to_all : &all_to_allv,
                             .bytes = {total},
                             .type = trace.calls[first.call].type,
                             .op = {}});
      if (!even) one.sent = trace.sent_bytes(std::move(sent));
      const Execution& last = *std::ranges::max_element(all.begin() + static_cast<std::ptrdiff_t>(i),
                                                        all.begin() + static_cast<std::ptrdiff_t>(end), {},
                                                        [](const Execution& each) { return each.seconds; });
      one.seconds = last.seconds;
      kept.push_back(one);
      i = end;
    }
    all = std::move(kept);
  }
}

}  // namespace p5::job
