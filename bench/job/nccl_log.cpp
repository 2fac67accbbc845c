// Reads NCCL's log. The lines that NCCL_DEBUG_SUBSYS=INIT,COLL writes (src/init.cc and src/enqueue.cc of
// NVIDIA/nccl, 2.17 to 2.30):
//   HOST:PID:TID [DEV] NCCL INFO AllReduce: opCount 2a sendbuff 0x.. recvbuff 0x.. count 8 datatype 7 op 0 root 0
//     comm 0x.. [nranks=8] stream 0x..
//   HOST:PID:TID [DEV] NCCL INFO ncclCommInitRank comm 0x.. rank 3 nranks 8 ... commId 0x.. - Init COMPLETE
//   HOST:PID:TID [DEV] NCCL INFO ncclCommSplit comm 0x.. rank 0 nranks 2 ... parent 0x.. splitCount 1 color 7 key 0 -
//     Init COMPLETE
// Before NCCL 2.24 there is no splitCount, and before 2.23 a commId, which is the same for each split of a parent by
// one color.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "bench/job/formats.hpp"

namespace p5::job {

namespace {

constexpr std::string_view mark = " NCCL INFO ";

// The word behind a key; "" if the line does not have the key.
std::string_view word_after(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == std::string_view::npos) return "";
  line.remove_prefix(at + key.size());
  return line.substr(0, line.find_first_of(" ]\r"));
}

std::optional<std::int64_t> number_in(std::string_view word, int base = 10) {
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), number, base);
  if (problem != std::errc() || end != word.data() + word.size() || number < 0) return std::nullopt;
  return number;
}

// Seconds of "[2026-11-25 12:00:00.123456] " at the end of a text; null if it has no fraction of a second: whole
// seconds are too coarse.
std::optional<double> time_of(std::string_view text) {
  text.remove_prefix(std::min(text.rfind('['), text.size()));
  constexpr std::size_t whole = 20;
  if (text.size() < whole + 2 || text[0] != '[' || text[whole] != '.') return std::nullopt;
  const std::size_t end = text.find(']');
  if (end == std::string_view::npos) return std::nullopt;
  std::string day_and_time(text.substr(1, whole - 1));
  day_and_time[10] = 'T';
  const std::optional<double> seconds = parse_utc(day_and_time + "Z");
  double fraction = 0;
  const std::string digits = "0" + std::string(text.substr(whole, end - whole));
  const auto [stop, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), fraction);
  if (!seconds || problem != std::errc() || stop != digits.data() + digits.size()) return std::nullopt;
  return *seconds + fraction;
}

// ncclRedOp_t of nccl.h, by value.
constexpr std::array reductions{ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min, ReduceOp::avg};

class LogReader {
 public:
  LogReader(const TraceFile& file, Trace& trace) : file_(file), trace_(trace) {}

  void take(std::string_view raw) {
    if (raw.find(" NCCL ") == std::string_view::npos) return;
    for (const LogLine& line : log_lines(raw)) take(line);
  }

 private:
  using Origin = std::pair<std::string_view, std::string_view>;  // host, HOST:PID

  void take(const LogLine& line) {
    const std::size_t at = line.text.find(mark);
    if (at == std::string::npos) return;
    const std::optional<NcclOrigin> found = nccl_origin(std::string_view(line.text).substr(0, at + 1));
    if (!found) return;
    Origin origin(found->host, found->process);
    // In a line that stands directly behind another one, the host's name may have that one's last word in front of it.
    if (line.begins) {
      processes_.emplace(origin.second);
    } else {
      origin.second = known_end(origin.second, processes_);
      origin.first = origin.second.substr(0, origin.second.find(':'));
    }
    const std::string_view text = std::string_view(line.text).substr(at + mark.size());
    if (text.find("- Init ") != std::string_view::npos)
      take_communicator(text, origin);
    else if (text.find(": opCount ") != std::string_view::npos)
      take_call(text, origin, time_of(found->before));
  }

  void take_communicator(std::string_view text, const Origin& origin) {
    const std::optional<std::int64_t> rank = number_in(word_after(text, " rank ")),
                                      size = number_in(word_after(text, " nranks "));
    const std::string_view comm = word_after(text, "comm ");
    if (!rank || !size || comm.empty() || *size > most_ranks || *rank >= *size) return;
    const std::uint32_t process =
        trace_.process(std::string(origin.second), std::string(origin.first), -1, word_after(text, " cudaDev "));
    const std::string_view bus_id = word_after(text, " busId "), device = word_after(text, " nvmlDev ");
    if (!bus_id.empty() && !device.empty())
      trace_.processes[process].gpu = fmt::format("busId {}, nvmlDev {}", bus_id, device);
    std::string name = name_of(text, origin);
    if (name.empty()) return;
    // Before NCCL 2.24 several communicators that were split from one parent may have the same name. All of their ranks
    // make them in the same order.
    const bool is_split = text.find(" parent ") != std::string_view::npos;
    if (is_split) {
      name += fmt::format(", {} ranks", *size);
      std::vector<std::string>& addresses = addresses_[fmt::format("{} {}", process, name)];
      const auto place = std::ranges::find(addresses, comm) - addresses.begin();
      if (std::cmp_equal(place, addresses.size())) addresses.emplace_back(comm);
      if (place > 0) name += fmt::format(", number {}", place + 1);
    }
    const std::uint32_t communicator = trace_.communicator(name, static_cast<int>(*size));
    const int before = trace_.communicators[communicator].processes[static_cast<std::size_t>(*rank)];
    if (is_split && word_after(text, " splitCount ").empty() && before >= 0 && std::cmp_not_equal(before, process))
      throw UsageError(
          "groups of equal sizes and colors that were split from one communicator, such as the rows and columns of a "
          "grid of ranks, cannot be told apart before NCCL 2.24: record with NCCL 2.24 or later, or with PyTorch's "
          "profiler");
    trace_.set_member(communicator, static_cast<int>(*rank), process);
    Known& known = communicators_[fmt::format("{} {}", origin.second, comm)];
    if (known.member < 0 || known.communicator != communicator || known.process != process)
      known = {.communicator = communicator, .process = process, .member = static_cast<int>(*rank)};
    if (text.find("- Init START") == std::string_view::npos) return;
    if (std::exchange(known.started, true)) {
      trace_.remark(known.calls > 0
                        ? "communicators start twice in it, with the same id: as many calls behind the second "
                          "start as were before it are left out as copies"
                        : "communicators start twice in it, with the same id: if it has lines twice, remove "
                          "the copies, which count as calls");
      known.copies = known.calls;
    }
  }

  // Name of a communicator: its id or, if it was split from another one, the name of that one with the number of the
  // split and the color. "" if the line has neither.
  std::string name_of(std::string_view text, const Origin& origin) const {
    if (const std::string_view id = word_after(text, " commId "); !id.empty()) return std::string(id);
    const auto parent = communicators_.find(fmt::format("{} {}", origin.second, word_after(text, " parent ")));
    const std::string_view color = word_after(text, " color ");
    if (parent == communicators_.end() || color.empty()) return "";
    return fmt::format("{}, split {}, color {}", trace_.communicators[parent->second.communicator].name,
                       word_after(text, " splitCount "), color);
  }

  void take_call(std::string_view text, const Origin& origin, std::optional<double> start) {
    const std::string_view name = text.substr(0, text.find(':'));
    const Collective* const what = collective_of_nccl(name);
    const auto known = communicators_.find(fmt::format("{} {}", origin.second, word_after(text, " comm ")));
    if (!what) {
      trace_.remark(fmt::format("{} is no operation that can be replayed; it is left out", in_quotes(name)));
      return;
    }
    if (known == communicators_.end()) {
      trace_.remark(
          "calls on communicators whose start is not in the log are left out: log INIT beside COLL, from the "
          "start of the job, with NCCL 2.17 or later");
      return;
    }
    const auto count = number_in(word_after(text, " count ")), type = number_in(word_after(text, " datatype ")),
               op = number_in(word_after(text, " op ")), root = number_in(word_after(text, " root "));
    const auto element = type && *type < 256 ? element_type_of_nccl(static_cast<int>(*type)) : std::nullopt;
    if (known->second.copies > 0) {
      --known->second.copies;
      return;
    }
    ++known->second.calls;
    const std::uint32_t communicator = known->second.communicator;
    const int member = known->second.member;
    const int size = trace_.communicators[communicator].size;
    constexpr std::int64_t most = std::int64_t{1} << 46;
    if (!count || *count > most || !element || !op || !root || *root >= size)
      throw file_.refuse(fmt::format("the line of {} does not have NCCL's form", in_quotes(name)));
    // NCCL counts the elements of one share of these.
    const bool counts_share =
        what == &all_gather || what == &reduce_scatter || what == &all_to_all || what == &gather || what == &scatter;
    Call call{.collective = what,
              .bytes = {static_cast<std::uint64_t>(*count) * element->bytes *
                        static_cast<std::uint64_t>(counts_share ? size : 1)},
              .type = element->type,
              .op = {}};
    if (what->reduces && std::cmp_less(*op, reductions.size())) call.op = reductions[static_cast<std::size_t>(*op)];
    if (what->rooted) call.source = static_cast<int>(*root);
    if (what->pairwise) {
      const bool sends = name == "Send";
      call.source = sends ? member : static_cast<int>(*root);
      call.target = sends ? static_cast<int>(*root) : member;
    }
    Execution one{.communicator = communicator, .call = trace_.call(call)};
    if (!what->pairwise) one.number = number_of(known->second, *what, word_after(text, ": opCount "));
    trace_.are_numbers_of_launches = true;
    if (start) one.start = *start;
    trace_.add(known->second.process, one);
  }

  const TraceFile& file_;
  Trace& trace_;
  // State of a communicator that a process names by its address, 0xCOMM.
  struct Known {
    std::uint32_t communicator = 0, process = 0;
    int member = -1;
    bool started = false;
    std::size_t calls = 0, copies = 0;                         // calls that were read; copies that are still to come
    std::int64_t newest = -1;                                  // the largest opCount so far
    std::map<const Collective*, std::int64_t> of_newest = {};  // number of calls with it
  };

  // The number of a call: its opCount and, because the calls of one group have the same opCount, how many calls of its
  // kind had that one before. -1 if that is not known.
  static std::int64_t number_of(Known& known, const Collective& what, std::string_view word) {
    constexpr std::int64_t most = std::int64_t{1} << 46;
    const std::optional<std::int64_t> count = number_in(word, 16);
    if (!count || *count > most) return -1;
    if (*count < known.newest) return *count * most_in_launch;
    if (std::exchange(known.newest, *count) != *count) known.of_newest.clear();
    const std::int64_t before = known.of_newest[counted_kind(&what)]++;
    return before < most_in_launch ? *count * most_in_launch + before : -1;
  }

  std::unordered_map<std::string, Known> communicators_;  // by "HOST:PID 0xCOMM"
  // Addresses of the splits that a process has under one name, by process and name.
  std::unordered_map<std::string, std::vector<std::string>> addresses_;
  std::set<std::string, std::less<>> processes_;  // HOST:PID of those that began a line
};

}  // namespace

// True for any text that is neither PyTorch's nor a list of JSON objects: a job may print anything before NCCL's lines.
bool is_nccl_log(std::string_view beginning) {
  return beginning.find('\0') == std::string_view::npos && !is_pytorch(beginning) &&
         !beginning.starts_with('[' + std::string("{"));
}

void read_nccl_log(TraceFile& file, Trace& trace) {
  LogReader reader(file, trace);
  while (const auto line = file.line()) reader.take(*line);
}

}  // namespace p5::job
