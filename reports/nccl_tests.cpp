// From what nccl-tests said to a report. Each program that ran is a launch; rows that come again within one are its
// samples.
#include "reports/nccl_tests.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/version.hpp"
#include "reports/decision.hpp"
#include "reports/judge.hpp"

namespace p5::reports::nccl_tests {

namespace {

const std::map<std::string, std::string> collective_names{
    {"all_reduce", "all_reduce"}, {"all_gather", "all_gather"}, {"reduce_scatter", "reduce_scatter"},
    {"broadcast", "broadcast"},   {"reduce", "reduce"},         {"alltoall", "all_to_all"},
    {"alltoallv", "all_to_allv"}, {"gather", "gather"},         {"scatter", "scatter"},
    {"sendrecv", "send_recv"},    {"hypercube", "hypercube"}};
const std::map<std::string, std::string> type_names{
    {"char", "int8"}, {"int", "int32"}, {"half", "float16"}, {"float", "float32"}, {"double", "float64"}};

const Collective* collective_called(const std::string& name) {
  const auto found = std::ranges::find(collectives(), name, [](const Collective* each) { return each->name; });
  return found == collectives().end() ? nullptr : *found;
}

// Null: p5bench does not know it.
const Collective* collective_of(const Table& table, const std::string& otherwise) {
  std::string name = table.program;
  if (name.ends_with("_mpi")) name.resize(name.size() - 4);
  if (name.ends_with("_perf")) name.resize(name.size() - 5);
  if (name.empty()) {
    if (otherwise.empty())
      throw UsageError(
          fmt::format("line {}: nothing says which program printed this table; give --collective NAME", table.line));
    return &find_collective(otherwise);
  }
  const auto known = collective_names.find(name);
  return collective_called(known == collective_names.end() ? name : known->second);
}

std::optional<DataType> our_type(const std::string& name) {
  const auto known = type_names.find(name);
  const std::string ours = known == type_names.end() ? name : known->second;
  const auto names = data_type_names();
  return std::ranges::find(names, ours) == names.end() ? std::nullopt : std::optional(parse_data_type(ours));
}

bool knows_op(const std::string& name) {
  const auto names = reduce_op_names();
  return std::ranges::find(names, name) != names.end();
}

struct Ranks {
  int ranks = 0, nodes = 0;
  bool split = false;
};

Ranks ranks_of(const Table& table) {
  if (table.devices.empty())
    throw UsageError(
        fmt::format("line {}: nothing says how many ranks this table is of: the lines '#  Rank  0 ... on HOST' are "
                    "missing",
                    table.line));
  // The table is that of the group of rank 0.
  const int group = table.devices.front().group;
  Ranks found;
  std::set<std::string> hosts;
  for (const Device& device : table.devices) {
    found.split = found.split || device.group != group;
    if (device.group != group) continue;
    ++found.ranks;
    hosts.insert(device.host);
  }
  found.nodes = static_cast<int>(hosts.size());
  return found;
}

// One program's rows of a case.
struct Launched {
  std::vector<double> times;       // of each cycle (-N)
  double rounding = 0;             // the largest of these times
  std::vector<double> iterations;  // -I
  std::uint64_t wrong = 0;
};

// What tells the cases of nccl-tests apart.
using Key = std::tuple<std::string_view, std::uint64_t, DataType, std::optional<ReduceOp>, std::optional<int>, bool,
                       bool, std::string, int, int>;
Key key_of(const Case& c) {
  return {c.collective->name, c.bytes.count, c.type, c.op, c.root, c.in_place, c.cuda_graph, c.group, c.ranks, c.nodes};
}

// A time and by how much it may be shorter or longer, in seconds.
struct RoundedTime {
  double time = 0, rounding = 0;
  double share() const { return rounding / time; }
};

// From the column that says most of it. From 2.17 on nccl-tests prints times of 10 s and more with two digits, where
// the bandwidth has three. A bandwidth that does not agree with the time is of something else (the hypercube's counts
// other bytes).
RoundedTime time_of(const Timing& timing, const Case& c) {
  constexpr double enough = 0.001;  // far below what is negligible in any band
  const RoundedTime printed{timing.time_us * 1e-6, timing.rounding.time_us * 1e-6};
  if (printed.share() <= enough) return printed;
  RoundedTime best = printed;
  const auto consider = [&](double bandwidth, double rounding, double factor) {
    if (bandwidth <= rounding || rounding <= 0) return;
    const double time = factor * static_cast<double>(c.bytes.count) / (bandwidth * 1e9);
    const RoundedTime other{time, time * rounding / bandwidth};
    if (other.share() < best.share() && std::abs(time - printed.time) <= printed.rounding + other.rounding)
      best = other;
  };
  consider(timing.algbw, timing.rounding.algbw, 1);
  consider(timing.busbw, timing.rounding.busbw, c.collective->bus_factor(c.ranks));
  return best;
}

class Importer {
 public:
  Importer(Report& report, std::string collective) : report_(report), collective_(std::move(collective)) {}

  void add(const Table& table) {
    const Collective* collective = collective_of(table, collective_);
    if (!collective) {
      remark(fmt::format("{} was left out: p5bench does not know it", in_quotes(table.program)));
      return;
    }
    const Ranks ranks = ranks_of(table);
    if (ranks.split) remark("the ranks were split into groups (NCCL_TESTS_SPLIT): the figures are those of the first");
    if (table.blocking) remark("operations were waited for one by one (-z): not comparable with bursts");
    if (table.out_of_bounds && !table.rows.empty()) note_out_of_bounds(table);
    places_.clear();  // another launch
    for (const Row& row : table.rows) add(row, table, *collective, ranks);
  }

  std::vector<Result> finish() {
    for (std::size_t i = 0; i < report_.results.size(); ++i) finish(report_.results[i], i);
    if (unchecked_) remark("not all data was checked, or wrong elements were not counted: 0 wrong means nothing there");
    if (wrong_somewhere_) report_.exit_code = ExitCode::wrong_data;
    if (report_.results.empty()) throw UsageError("nothing is left to import: " + join(report_.run.remarks, "; "));
    return std::move(journal_);
  }

 private:
  void remark(std::string text) {
    constexpr std::size_t most = 50;  // a file may hold anything
    std::vector<std::string>& remarks = report_.run.remarks;
    if (remarks.size() < most && std::ranges::find(remarks, text) == remarks.end()) remarks.push_back(std::move(text));
  }

  // Old versions print the largest deviation of each row instead of a count, so only the whole is known to be wrong.
  void note_out_of_bounds(const Table& table) {
    report_.findings.push_back(
        {.id = "import.out_of_bounds",
         .severity = topo::Severity::error,
         .subject = {},
         .evidence = fmt::format("nccl-tests says 'Out of bounds values ... FAILED' of {}", in_quotes(table.program)),
         .action = "Measure again with p5bench, which says which rank has the wrong data.",
         .about = topo::About::hardware});
    wrong_somewhere_ = true;
  }

  void add(const Row& row, const Table& table, const Collective& collective, const Ranks& ranks) {
    const std::optional<DataType> type = our_type(row.type);
    if (row.size == 0) return remark("rows of 0 B were left out: nccl-tests rounds small messages down to nothing");
    for (const std::optional<Timing>* each : {&row.out_of_place, &row.in_place})
      if (*each && (*each)->time_us <= 0)
        throw UsageError(fmt::format("line {}: {} B in a time of 0", row.line, row.size));
    if (!type)
      return remark(fmt::format("rows of the type {} were left out: p5bench does not know it", in_quotes(row.type)));
    if (collective.reduces && !knows_op(row.op))
      return remark(fmt::format("rows of the operation {} were left out: p5bench does not know it", in_quotes(row.op)));
    Case c;
    c.backend = "nccl";
    c.collective = &collective;
    c.type = *type;
    c.ranks = ranks.ranks;
    c.nodes = ranks.nodes;
    c.bytes = {row.size};
    c.bytes_per_rank = collective.shape({row.size}, false, size_of(*type), ranks.ranks).bytes_per_rank;
    if (collective.reduces) c.op = parse_reduce_op(row.op);
    if (row.root >= 0) c.root = row.root;
    c.cuda_graph = table.graphs > 0;
    if (ranks.split) c.group = "split";
    for (const bool in_place : {false, true}) {
      c.in_place = in_place;
      if (const std::optional<Timing>& timing = in_place ? row.in_place : row.out_of_place) add(*timing, c, table);
    }
  }

  // Bus bandwidth follows from the time and the number of ranks, so both have to tell of the same job.
  void doubt(const Timing& timing, const Case& c, const Table& table) {
    constexpr double enough_digits = 1, rounding = 0.02;
    if (timing.algbw < enough_digits || timing.busbw < enough_digits) return;
    const double said = timing.busbw / timing.algbw, wanted = c.collective->bus_factor(c.ranks);
    if (std::abs(said / wanted - 1) > rounding)
      remark(
          fmt::format("the table of line {} says busbw = {:.3g} x algbw, but {} of {} ranks has {:.3g}: its figures "
                      "are of another number of ranks than its list, or of another program",
                      table.line, said, c.collective->name, c.ranks, wanted));
  }

  void add(const Timing& timing, const Case& c, const Table& table) {
    doubt(timing, c, table);
    const auto [known, fresh] = of_case_.try_emplace(key_of(c), report_.results.size());
    const std::size_t place = known->second;
    if (fresh) {
      Measurement& m = report_.results.emplace_back().measurement;
      m.measured_case = c;
      m.throughput = Series{};
      m.throughput->operations_per_sample = static_cast<int>(
          std::clamp(static_cast<double>(table.iterations) * table.aggregated * std::max(1, table.graphs), 1.0, 1e9));
    }
    // Cycles of one program (-N) are no launches of their own.
    if (places_.insert(place).second) launches_[place].emplace_back();
    Launched& launch = launches_[place].back();
    const RoundedTime time = time_of(timing, c);
    launch.times.push_back(time.time);
    launch.rounding = std::max(launch.rounding, time.rounding);
    for (const double sample : timing.samples_us) launch.iterations.push_back(sample * 1e-6);
    launch.wrong += timing.wrong.value_or(0);
    unchecked_ = unchecked_ || !timing.wrong;
  }

  // The time is the mean that nccl-tests prints, also where its iterations are known: what is compared has to be the
  // same thing in all files.
  static Series series_of(const Launched& launch, int operations) {
    Series series;
    series.operations_per_sample = launch.iterations.empty() ? operations : 1;
    series.samples = launch.iterations.empty() ? launch.times : launch.iterations;
    series.summary = summarize(series.samples);
    series.summary.median = median(launch.times);
    if (launch.rounding > 0) series.rounding_us = launch.rounding * 1e6;
    if (!launch.iterations.empty()) series.summary.interval.reset();
    series.stopped_because =
        launch.iterations.empty() ? "imported: means of nccl-tests" : "imported: iterations of nccl-tests (-I)";
    return series;
  }

  void finish(Result& result, std::size_t place) {
    Measurement& m = result.measurement;
    const int operations = m.throughput->operations_per_sample;
    Launched all;
    for (const Launched& launch : launches_[place]) {
      Result& line = journal_.emplace_back(result);
      line.measurement.throughput = series_of(launch, operations);
      line.measurement.launch = static_cast<int>(m.launches_s.size());
      line.measurement.launches_s = {line.measurement.throughput->summary.median};
      m.launches_s.push_back(line.measurement.launches_s.front());
      line.measurement.wrong_elements = launch.wrong;
      m.wrong_elements += launch.wrong;
      all.times.insert(all.times.end(), launch.times.begin(), launch.times.end());
      all.rounding = std::max(all.rounding, launch.rounding);
      all.iterations.insert(all.iterations.end(), launch.iterations.begin(), launch.iterations.end());
    }
    m.throughput = series_of(all, operations);
    m.throughput->summary.median = median(m.launches_s);
    m.throughput->samples.clear();
    result.verdict.because = "imported: the limits of that machine are not known";
    if (m.wrong_elements == 0) return;
    result.verdict.grade = Grade::wrong;
    result.verdict.because = fmt::format("nccl-tests counted {} wrong elements", m.wrong_elements);
  }

  Report& report_;
  std::string collective_;
  std::map<Key, std::size_t> of_case_;                     // places of results
  std::map<std::size_t, std::vector<Launched>> launches_;  // of a result
  std::vector<Result> journal_;
  std::set<std::size_t> places_;  // results that the present launch has already
  bool unchecked_ = false, wrong_somewhere_ = false;
};

topo::Topology topology_of(const Table& table) {
  topo::Topology topology;
  topology.provenance = "imported";
  std::vector<Device> devices = table.devices;
  std::map<std::string, std::size_t> hosts;  // places
  std::ranges::sort(devices, {}, &Device::rank);
  for (const Device& device : devices) {
    const auto [known, fresh] = hosts.try_emplace(device.host, topology.hosts.size());
    if (fresh) topology.hosts.emplace_back();
    topo::Host& host = topology.hosts[known->second];
    host.name = host.host_name = device.host;
    ++host.gpus;
    host.gpu_devices.emplace_back().name = device.name;
    topology.host_of_rank.push_back(static_cast<int>(known->second));
  }
  return topology;
}

}  // namespace

std::string program_of(const Collective& collective) {
  const auto known =
      std::ranges::find_if(collective_names, [&](const auto& each) { return each.second == collective.name; });
  return known == collective_names.end() ? "" : known->first + "_perf";
}

std::string type_of(DataType type) {
  const auto known = std::ranges::find_if(type_names, [&](const auto& each) { return each.second == name_of(type); });
  return known == type_names.end() ? std::string(name_of(type)) : known->first;
}

Imported import(std::string_view text, const std::string& collective, const std::string& cluster) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && text[first] == '{';
  const Log log = is_json ? read_json(text) : read_text(text);
  Imported imported;
  Report& report = imported.report;
  report.status = "complete";
  report.provenance = "imported";
  report.exit_code = ExitCode::ok;
  report.context = log.context;
  report.run.version = version();
  report.run.backend = "nccl";
  report.run.cluster = cluster;
  report.run.command = log.tables.front().arguments;
  report.run.remarks = {"times are nccl-tests' means over ranks unless it ran with -a 3, not the slowest rank's"};
  Importer importer(report, collective);
  for (const Table& table : log.tables) importer.add(table);
  imported.journal = importer.finish();
  const Ranks ranks = ranks_of(log.tables.front());
  report.run.ranks = ranks.ranks;
  report.run.nodes = ranks.nodes;
  report.topology = topology_of(log.tables.front());
  report.grade = overall(report);
  report.exit_code = worse(report.exit_code, exit_code(report));
  report.decision = decide(report);
  return imported;
}

}  // namespace p5::reports::nccl_tests
