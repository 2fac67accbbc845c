// PyTorch's two records, each of one rank. The flight recorder (torch/csrc/distributed/c10d/FlightRecorder*, versions
// 2.0 to 2.10, as JSON): {"version", "pg_config": {NAME: {"ranks": "[0, 1]"}}, "entries": [...]}. A trace of Kineto:
// {"distributedInfo": {"rank", "world_size", "pg_config"}, "traceEvents": [...]}, with an event "record_param_comms"
// for each call and the kernels that it started, which have the same external id. Its other kernels tell when the GPU
// computed. Events of the host are listed thread by thread, and autograd's thread is not that of the forward pass.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

#include "bench/base/text.hpp"
#include "bench/job/formats.hpp"

namespace p5::job {

namespace {

using nlohmann::json;

const Wanted pytorch_records{.lists = {"entries", "traceEvents"},
                             .members = {"distributedInfo", "pg_config", "rank", "schema"},
                             .fields = {"record_id",
                                        "process_group",
                                        "profiling_name",
                                        "collective_seq_id",
                                        "is_p2p",
                                        "time_created_ns",
                                        "duration_ms",
                                        "input_sizes",
                                        "input_dtypes",
                                        "output_sizes",
                                        "output_dtypes",
                                        "name",
                                        "cat",
                                        "ts",
                                        "dur",
                                        "args.Collective name",
                                        "args.External id",
                                        "args.dtype",
                                        "args.In msg nelems",
                                        "args.Out msg nelems",
                                        "args.In split size",
                                        "args.Group size",
                                        "args.Process Group Name",
                                        "args.Process Group Ranks",
                                        "args.Src Rank",
                                        "args.Dst Rank",
                                        "args.Seq",
                                        "args.Global rank start",
                                        "args.Global rank stride"}};

// All whole numbers in a text, such as "[[3,4],[5]]"; empty where it leaves some out ("[0, 1, ..., 31]").
std::vector<std::int64_t> numbers_in(std::string_view text) {
  std::vector<std::int64_t> numbers;
  if (text.find("...") != std::string_view::npos) return numbers;
  for (std::size_t at = 0; at < text.size();) {
    std::int64_t number = 0;
    const auto [end, problem] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (problem == std::errc()) numbers.push_back(number);
    at = problem == std::errc() ? static_cast<std::size_t>(end - text.data()) : at + 1;
  }
  return numbers;
}

// Elements of all tensors of "[[3,4],[5]],": 17.
std::uint64_t elements_in(std::string_view sizes) {
  std::uint64_t sum = 0;
  for (std::size_t at = sizes.find('[', 1); at < sizes.size(); at = sizes.find('[', at + 1)) {
    std::uint64_t product = 1;
    for (const std::int64_t each : numbers_in(sizes.substr(at, sizes.find(']', at) - at)))
      if (__builtin_mul_overflow(product, static_cast<std::uint64_t>(std::max<std::int64_t>(each, 0)), &product))
        return ~std::uint64_t{0};
    if (__builtin_add_overflow(sum, product, &sum)) return ~std::uint64_t{0};
  }
  return sum;
}

std::string_view first_line(std::string_view list) {
  if (list.starts_with('[')) list.remove_prefix(1);
  return list.substr(0, list.find('\n'));
}

std::vector<int> ranks_of(const json& value) {
  std::vector<std::int64_t> numbers;
  if (value.is_string()) numbers = numbers_in(value.get_ref<const std::string&>());
  if (value.is_array())
    for (const json& each : value)
      if (each.is_number_integer()) numbers.push_back(each.get<std::int64_t>());
  std::vector<int> ranks;
  for (const std::int64_t each : numbers) {
    if (each < 0 || each >= most_ranks) return {};
    ranks.push_back(static_cast<int>(each));
  }
  return ranks;
}

// A call as a record has it, before the groups of the file are known.
struct Recorded {
  const Collective* collective = nullptr;
  std::uint32_t group = 0;  // index in groups_
  std::optional<DataType> type;
  std::uint64_t input = 0, output = 0;  // bytes
  std::int64_t number = -1, external = -1;
  int peer = -1;             // p2p: the other one
  bool sends = false;        // p2p
  bool peer_of_job = false;  // `peer` is a rank of the job, not of the group
  // The order of the process's calls: the host's time in a trace, the number in a dump.
  double place = std::numeric_limits<double>::quiet_NaN();
  double start = std::numeric_limits<double>::quiet_NaN(), seconds = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::int64_t> splits = {};
};

// Microseconds, of the trace's clock.
struct Kernel {
  double start, end;
  std::uint32_t kind = 0;  // equal for kernels of equal name
  float rate = 1;          // work in a microsecond, as time that the kernel takes without communication beside it
  double time() const { return end - start; }
};

// The time in which at least one of some kernels runs, and the work that is done in it.
class BusyTime {
 public:
  struct Amount {
    double time = 0, work = 0;
  };

  explicit BusyTime(std::vector<Kernel> kernels) : spans_(std::move(kernels)) {
    std::ranges::sort(spans_, {}, &Kernel::start);
    double end = -std::numeric_limits<double>::infinity();
    Amount before;
    for (Kernel& each : spans_) {
      each.start = std::max(each.start, end);  // from here on it is the only one that counts
      each.end = end = std::max(each.end, each.start);
      before_.push_back(before);
      before.time += each.time();
      before.work += each.time() * each.rate;
    }
  }

  Amount within(const Kernel& span) const {
    const Amount end = until(span.end), start = until(span.start);
    return {end.time - start.time, end.work - start.work};
  }

 private:
  Amount until(double time) const {
    const auto next = std::ranges::upper_bound(spans_, time, {}, &Kernel::start);
    if (next == spans_.begin()) return {};
    const Kernel& last = *(next - 1);
    const Amount& before = before_[static_cast<std::size_t>(next - spans_.begin()) - 1];
    const double within = std::min(time, last.end) - last.start;
    return {before.time + within, before.work + within * last.rate};
  }

  std::vector<Kernel> spans_;   // ascending, apart from each other
  std::vector<Amount> before_;  // sum of the spans before each
};

// Sets the rates of kernels that ran beside communication. A kernel is slower there, because NCCL's kernels take some
// of the multiprocessors and of the memory bandwidth. Its time alone is the median of those kernels of its kind that
// ran without communication and took between half of its time and its time: kinds do not tell the sizes of operands.
// Kernels without such a one have the rate of all others together.
void set_rates(std::vector<Kernel>& computing, const BusyTime& communicating) {
  constexpr double most_beside_alone = 0.01;  // of a kernel's time; clocks of streams differ a little
  std::unordered_map<std::uint32_t, std::vector<float>> alone;
  for (const Kernel& each : computing)
    if (communicating.within(each).time <= most_beside_alone * each.time())
      alone[each.kind].push_back(static_cast<float>(each.time()));
  for (auto& [kind, times] : alone) std::ranges::sort(times);
  double beside = 0, work = 0;
  std::vector<Kernel*> not_alone;
  for (Kernel& each : computing) {
    const double overlap = communicating.within(each).time;
    if (overlap <= most_beside_alone * each.time()) continue;
    const std::vector<float>& times = alone[each.kind];
    const auto first = std::ranges::lower_bound(times, static_cast<float>(each.time() / 2)),
               last = std::ranges::upper_bound(times, static_cast<float>(each.time()));
    if (first >= last) {
      not_alone.push_back(&each);
      continue;
    }
    const double lost = each.time() - first[(last - first) / 2];
    each.rate = static_cast<float>(std::clamp((overlap - lost) / overlap, 0.5, 1.0));
    beside += overlap;
    work += overlap * each.rate;
  }
  for (Kernel* each : not_alone) each->rate = beside > 0 ? static_cast<float>(work / beside) : 1;
}

class PytorchReader {
 public:
  PytorchReader(TraceFile& file, Trace& trace) : file_(file), trace_(trace) {}

  void read() {
    read_document(
        file_, pytorch_records, [&](const Record& record) { take(record); },
        [&](std::string_view name, const json& value) { take_member(name, value); });
    finish();
  }

 private:
  struct Group {
    std::string name;
    std::vector<int> ranks;
    int size = 0;  // 0: not recorded
  };
  void take(const Record& record) {
    if (record.find("profiling_name"))
      take_entry(record);
    else if (record.text("name") == "record_param_comms")
      take_event(record);
    else if (record.text("cat") == "kernel")
      take_kernel(record);
    else if (record.text("cat") == "user_annotation" && record.text("name").starts_with("nccl:"))
      is_annotated_ = true;
    if (recorded_.size() > most_executions) throw file_.refuse("it holds more calls than can be read");
  }

  std::uint32_t group(std::string_view name) {
    constexpr std::size_t longest = 4096;
    if (name.size() > longest) throw file_.refuse("the name of a process group is longer than PyTorch's are");
    const auto [at, fresh] = group_of_name_.try_emplace(std::string(name), static_cast<std::uint32_t>(groups_.size()));
    if (fresh) groups_.push_back({std::string(name), {}, 0});
    return at->second;
  }

  // Null, with a remark, for what moves no data or cannot be read.
  const Collective* collective_in(std::string_view name) {
    const Collective* const what = collective_of_pytorch(name);
    const std::string_view bare = name.substr(name.find(':') == std::string_view::npos ? 0 : name.find(':') + 1);
    if (!what && bare != "wait" && bare != "init" && bare != "coalesced" && !bare.empty())
      trace_.remark(fmt::format("{} is no operation that can be replayed; it is left out", in_quotes(name)));
    return what;
  }

  bool set_sizes(Recorded& one, std::string_view type, std::uint64_t input, std::uint64_t output) {
    const std::optional<ElementType> element = element_type_of_pytorch(type);
    if (!element) {
      trace_.remark(fmt::format("calls with elements of type {} are left out: its size is not known", in_quotes(type)));
      return false;
    }
    if (input > most_bytes || output > most_bytes) throw file_.refuse("a tensor is larger than all memory");
    one.type = element->type;
    one.input = input * element->bytes;
    one.output = output * element->bytes;
    return true;
  }

  void take_entry(const Record& record) {
    const std::string_view name = record.text("profiling_name");
    Recorded one;
    one.collective = collective_in(name);
    if (!one.collective) return;
    one.group = group(first_line(record.text("process_group")));
    std::string_view type = first_line(record.text("input_dtypes"));
    if (type.starts_with(']')) type = first_line(record.text("output_dtypes"));
    if (!set_sizes(one, type, elements_in(record.text("input_sizes")), elements_in(record.text("output_sizes"))))
      return;
    if (one.collective->pairwise) {
      // "nccl:send 0->1", "nccl:recv 1<-0"; ranks of the group, the process itself first.
      const std::vector<std::int64_t> ranks =
          numbers_in(name.substr(name.find(' ') == std::string_view::npos ? name.size() : name.find(' ')));
      one.sends = name.find("->") != std::string_view::npos;
      if (ranks.size() != 2) {
        trace_.remark("messages whose receiver is not recorded are left out");
        return;
      }
      one.peer = static_cast<int>(std::clamp<std::int64_t>(std::abs(ranks[1]), 0, most_ranks));
    } else if (const auto sequence = record.integer("collective_seq_id");
               sequence && *sequence >= 0 && *sequence < (std::int64_t{1} << 50)) {
      one.number = *sequence;
    }
    one.place = record.number("record_id").value_or(static_cast<double>(recorded_.size()));
    if (const auto created = record.number("time_created_ns")) one.start = *created * 1e-9;
    if (const auto took = record.number("duration_ms"); took && *took != 0) one.seconds = *took * 1e-3;
    recorded_.push_back(std::move(one));
  }

  void take_event(const Record& record) {
    Recorded one;
    one.collective = collective_in(record.text("args.Collective name"));
    if (!one.collective) return;
    one.group = group(record.text("args.Process Group Name"));
    const auto elements = [&](std::string_view name) {
      return static_cast<std::uint64_t>(std::max<std::int64_t>(record.integer(name).value_or(0), 0));
    };
    if (!set_sizes(one, record.text("args.dtype"), elements("args.In msg nelems"), elements("args.Out msg nelems")))
      return;
    Group& of = groups_[one.group];
    if (of.size == 0) {
      of.size =
          static_cast<int>(std::clamp<std::int64_t>(record.integer("args.Group size").value_or(0), 0, most_ranks));
      for (const std::int64_t rank : numbers_in(record.text("args.Process Group Ranks")))
        of.ranks.push_back(static_cast<int>(std::clamp<std::int64_t>(rank, 0, most_ranks - 1)));
      const auto first = record.integer("args.Global rank start"), stride = record.integer("args.Global rank stride");
      if (of.ranks.empty() && first && stride && *first >= 0 && *stride > 0 && *first < most_ranks &&
          *stride < most_ranks)
        for (std::int64_t i = 0; i < of.size && *first + i * *stride < most_ranks; ++i)
          of.ranks.push_back(static_cast<int>(*first + i * *stride));
    }
    if (one.collective->pairwise) {
      one.sends = record.text("args.Collective name") == "send";
      const auto peer = record.integer(one.sends ? "args.Dst Rank" : "args.Src Rank");
      if (!peer || *peer < 0 || *peer >= most_ranks) {
        trace_.remark("messages whose receiver is not recorded are left out");
        return;
      }
      one.peer = static_cast<int>(*peer);
      one.peer_of_job = true;
    } else {
      one.number = record.integer("args.Seq").value_or(-1);
      if (one.number < 0 || one.number > (std::int64_t{1} << 50)) one.number = -1;
    }
    // Without splits it is even.
    if (one.collective == &all_to_allv && record.text("args.In split size") == "[]") one.collective = &all_to_all;
    if (one.collective == &all_to_allv) one.splits = numbers_in(record.text("args.In split size"));
    one.external = record.integer("args.External id").value_or(-1);
    if (const auto at = record.number("ts")) one.place = *at, one.start = *at * 1e-6;
    recorded_.push_back(std::move(one));
  }

  void take_kernel(const Record& record) {
    const auto at = record.number("ts"), took = record.number("dur");
    if (!at || !took || *took < 0) return;
    if (record.text("args.Collective name").empty() && !record.text("name").starts_with("nccl")) {
      computing_.push_back(
          {*at, *at + *took, static_cast<std::uint32_t>(std::hash<std::string_view>{}(record.text("name")))});
      if (computing_.size() > most_executions) throw file_.refuse("it holds more kernels than can be read");
      return;
    }
    const auto id = record.integer("args.External id");
    if (!id) return;
    const auto [kernel, fresh] = kernels_.try_emplace(*id, Kernel{*at, *at + *took});
    if (kernels_.size() > most_executions) throw file_.refuse("it holds more kernels than can be read");
    if (fresh) return;
    kernel->second.start = std::min(kernel->second.start, *at);
    kernel->second.end = std::max(kernel->second.end, *at + *took);
  }

  void take_member(std::string_view name, const json& value) {
    if (name == "schema" && value.is_string() && value.get_ref<const std::string&>().starts_with("p5bench."))
      throw UsageError(
          fmt::format("'{}': it is no trace but p5bench's own ({}): --job takes a job, and `p5bench report` "
                      "a report",
                      file_.name(), printable(value.get_ref<const std::string&>())));
    if (name == "rank" && value.is_number_integer()) rank_ = rank_of(value);
    if (name == "pg_config" && value.is_object())
      for (const auto& [group_name, about] : value.items())
        if (about.is_object() && about.contains("ranks")) configure(group_name, about["ranks"]);
    if (name != "distributedInfo" || !value.is_object()) return;
    if (value.contains("rank")) rank_ = rank_of(value["rank"]);
    if (value.contains("world_size") && value["world_size"].is_number_integer())
      world_ = static_cast<int>(std::clamp<std::int64_t>(value["world_size"].get<std::int64_t>(), 0, most_ranks));
    if (value.contains("pg_config") && value["pg_config"].is_array())
      for (const json& each : value["pg_config"])
        if (each.is_object() && each.contains("pg_name") && each["pg_name"].is_string() && each.contains("ranks"))
          configure(each["pg_name"].get_ref<const std::string&>(), each["ranks"]);
  }
  static int rank_of(const json& value) {
    if (!value.is_number_integer()) return -1;
    return static_cast<int>(std::clamp<std::int64_t>(value.get<std::int64_t>(), -1, most_ranks - 1));
  }
  void configure(const std::string& name, const json& ranks) { configured_[name] = ranks_of(ranks); }

  // The number at the end of the file's name, without its suffixes: nccl_trace_rank_3.json.gz.
  int rank_in_name() const {
    std::string_view stem = std::string_view(file_.name()).substr(file_.name().find_last_of('/') + 1);
    for (const std::string_view suffix : {".gz", ".json"})
      if (stem.ends_with(suffix)) stem.remove_suffix(suffix.size());
    const std::size_t last = stem.find_last_not_of("0123456789");
    const std::vector<std::int64_t> numbers = numbers_in(stem.substr(last == std::string_view::npos ? 0 : last + 1));
    return numbers.size() == 1 && numbers[0] < most_ranks ? static_cast<int>(numbers[0]) : -1;
  }

  std::uint32_t communicator_of(Group& group) {
    if (const auto known = configured_.find(group.name); known != configured_.end() && !known->second.empty()) {
      if (!group.ranks.empty() && group.ranks != known->second)
        trace_.remark(fmt::format(
            "'{}' contradicts itself about process group {}: ranks {} at its calls, {} in its list "
            "of groups, which counts",
            file_.name(), in_quotes(group.name), fmt::join(group.ranks, " "), fmt::join(known->second, " ")));
      group.ranks = known->second;
    }
    if (!group.ranks.empty()) group.size = static_cast<int>(group.ranks.size());
    if (group.size == 0)
      throw UsageError(
          fmt::format("'{}': no record says which ranks are in process group {}", file_.name(), in_quotes(group.name)));
    if (group.ranks.empty() && group.size == world_) {
      group.ranks.resize(static_cast<std::size_t>(world_));
      std::iota(group.ranks.begin(), group.ranks.end(), 0);
    }
    check(group);
    // A name means other ranks on other processes.
    std::string name = group.name;
    for (const int each : group.ranks) name += fmt::format(" {}", each);
    if (group.ranks.empty()) name += fmt::format(" of rank {}", rank_);
    const std::uint32_t index = trace_.communicator(name, group.size);
    if (!group.ranks.empty()) trace_.set_ranks(index, group.ranks, group.name);
    return index;
  }

  // A process calls on the groups that it is in, and the job has no more ranks than the record says.
  void check(const Group& group) const {
    const auto refuse = [&](const std::string& why) { throw UsageError(fmt::format("'{}': {}", file_.name(), why)); };
    if (world_ > 0 && rank_ >= world_) refuse(fmt::format("it is of rank {}, but of a job of {} ranks", rank_, world_));
    if (group.ranks.empty()) return;
    if (const int last = std::ranges::max(group.ranks); world_ > 0 && last >= world_)
      refuse(
          fmt::format("process group {} has rank {}, but the job has {} ranks", in_quotes(group.name), last, world_));
    if (std::ranges::find(group.ranks, rank_) == group.ranks.end())
      refuse(fmt::format("rank {} is not in process group {} that it calls on (ranks {}){}", rank_,
                         in_quotes(group.name), fmt::join(group.ranks, " "),
                         rank_is_of_name_ ? ": the rank is the number at the end of the file's name, which counts from "
                                            "0; rename the files"
                                          : ""));
  }

  Bytes bytes_of(const Recorded& one, int size) const {
    const auto ranks = static_cast<std::uint64_t>(size);
    const Collective* const what = one.collective;
    if (what == &all_gather || what == &gather) return {std::max(one.output, one.input * ranks)};
    if (what == &reduce_scatter || what == &scatter) return {std::max(one.input, one.output * ranks)};
    return {std::max({one.input, one.output, std::uint64_t{1}})};
  }

  void finish() {
    if (recorded_.empty() && is_annotated_)
      trace_.remark(
          "a trace holds calls of NCCL, but not their collectives and sizes, which PyTorch's profiler records from "
          "PyTorch 2.2 on");
    rank_is_of_name_ = rank_ < 0;
    if (rank_ < 0) rank_ = rank_in_name();
    if (rank_ < 0 && recorded_.empty()) return;
    if (rank_ < 0)
      throw UsageError(
          fmt::format("'{}': it does not say of which rank it is; let the file's name end with the rank, as "
                      "in nccl_trace_rank_3.json",
                      file_.name()));
    const std::string name = fmt::format("rank {}", rank_);
    const std::uint32_t process = trace_.process(name, "", rank_);
    if (!trace_.processes[process].executions.empty())
      throw UsageError(fmt::format("'{}': {} is in an earlier file already", file_.name(), name));
    if (world_ > 0) trace_.set_size(world_);
    std::vector<std::uint32_t> communicators;
    std::vector<bool> used(groups_.size(), false);
    for (const Recorded& each : recorded_) used[each.group] = true;
    for (std::size_t i = 0; i < groups_.size(); ++i) communicators.push_back(used[i] ? communicator_of(groups_[i]) : 0);
    std::vector<Kernel> communicating;
    for (const auto& [id, kernel] : kernels_) communicating.push_back(kernel);
    set_rates(computing_, BusyTime(std::move(communicating)));
    const BusyTime computing(std::move(computing_));
    sort_calls();
    std::map<std::tuple<std::uint32_t, const Collective*, std::int64_t>, int> repeated;
    for (const Recorded& each : recorded_) {
      const Group& group = groups_[each.group];
      Call call{.collective = each.collective, .bytes = bytes_of(each, group.size), .type = each.type, .op = {}};
      if (call.collective == &all_to_all && each.input != each.output) call.collective = &all_to_allv;
      if (each.collective->pairwise && !set_pair(each, group, call)) continue;
      Execution one{
          .communicator = communicators[each.group], .start = each.start, .seconds = static_cast<float>(each.seconds)};
      one.call = trace_.call(call);
      // Calls that were coalesced have the same number.
      constexpr std::int64_t most_coalesced = 4096;
      if (each.number >= 0)
        one.number = each.number * most_coalesced +
                     std::min<std::int64_t>(repeated[{each.group, each.collective, each.number}]++, most_coalesced - 1);
      if (const auto kernel = kernels_.find(each.external); kernel != kernels_.end()) {
        one.start = kernel->second.start * 1e-6;
        one.seconds = static_cast<float>((kernel->second.end - kernel->second.start) * 1e-6);
        const BusyTime::Amount beside = computing.within(kernel->second);
        one.computed = static_cast<float>(beside.time * 1e-6);
        one.computed_alone = static_cast<float>(beside.work * 1e-6);
      }
      one.sent = sent_by(each, group.size);
      trace_.add(process, one);
    }
  }

  void sort_calls() {
    if (std::ranges::any_of(recorded_, [](const Recorded& each) { return std::isnan(each.place); }))
      trace_.remark("calls without a time are in the order of their file, in which PyTorch lists thread by thread");
    else
      std::ranges::stable_sort(recorded_, {}, &Recorded::place);
  }

  bool set_pair(const Recorded& one, const Group& group, Call& call) {
    const auto member_of = [&](int rank) {
      const auto at = std::ranges::find(group.ranks, rank);
      return at == group.ranks.end() ? -1 : static_cast<int>(at - group.ranks.begin());
    };
    const int self = member_of(rank_);
    const int peer = one.peer_of_job ? member_of(one.peer) : one.peer;
    if (self < 0 || peer < 0 || peer >= group.size || peer == self) {
      trace_.remark("messages between ranks that are not in their process group are left out");
      return false;
    }
    call.source = one.sends ? self : peer;
    call.target = one.sends ? peer : self;
    return true;
  }

  std::uint32_t sent_by(const Recorded& one, int size) {
    if (one.collective != &all_to_allv || std::cmp_not_equal(one.splits.size(), size)) return 0;
    std::uint64_t sum = 0;
    for (const std::int64_t each : one.splits) sum += static_cast<std::uint64_t>(std::max<std::int64_t>(each, 0));
    if (sum == 0) return trace_.sent_bytes(std::vector<std::uint64_t>(one.splits.size(), 0));
    std::vector<std::uint64_t> bytes;
    for (const std::int64_t each : one.splits)
      bytes.push_back(static_cast<std::uint64_t>(static_cast<double>(one.input) *
                                                 static_cast<double>(std::max<std::int64_t>(each, 0)) /
                                                 static_cast<double>(sum)));
    return trace_.sent_bytes(std::move(bytes));
  }

  TraceFile& file_;
  Trace& trace_;
  std::unordered_map<std::string, std::uint32_t> group_of_name_;
  std::vector<Group> groups_;
  std::map<std::string, std::vector<int>> configured_;
  std::vector<Recorded> recorded_;
  std::unordered_map<std::int64_t, Kernel> kernels_;  // NCCL's, by external id
  std::vector<Kernel> computing_;                     // all others
  int rank_ = -1, world_ = 0;
  bool rank_is_of_name_ = false;
  bool is_annotated_ = false;  // holds names of NCCL's calls, as the traces of all versions do
};

}  // namespace

// Lines of log collectors are objects, too; but several, or with NCCL's lines in them.
bool is_pytorch(std::string_view beginning) {
  if (!beginning.starts_with('{')) return false;
  const std::size_t first = beginning.find_first_not_of(" \t\r\n", 1);
  const auto holds = [&](std::string_view text) { return beginning.find(text) != std::string_view::npos; };
  return first != std::string_view::npos && (beginning[first] == '"' || beginning[first] == '}') &&
         !holds(" NCCL INFO ") && !holds("}\n{") && !holds("}\r\n{");
}

void read_pytorch(TraceFile& file, Trace& trace) { PytorchReader(file, trace).read(); }

}  // namespace p5::job
