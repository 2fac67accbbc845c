// Import of nccl-tests: tables and JSON become a report. Each program is a launch; rows that repeat within one program
// (-N) are its samples.
#include "reports/nccl_tests.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <ranges>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/base/embedded.hpp"
#include "bench/base/environment.hpp"
#include "bench/base/input.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "reports/decision.hpp"
#include "reports/json_values.hpp"
#include "reports/judge.hpp"
#include "reports/markup.hpp"
#include "reports/nccl_tests_text.hpp"

namespace p5::reports::nccl_tests {

namespace {

const std::map<std::string, std::string> type_names{
    {"char", "int8"},           {"int", "int32"},          {"half", "float16"},       {"float", "float32"},
    {"double", "float64"},      {"f8e4m3", "float8_e4m3"}, {"f8e5m2", "float8_e5m2"}, {"fp8_e4m3", "float8_e4m3"},
    {"fp8_e5m2", "float8_e5m2"}};

// True if `table` has a name of a program that p5bench does not know, and `otherwise` is given instead.
bool is_renamed(const Table& table, const std::string& otherwise) {
  return !otherwise.empty() && !table.program.empty() && !try_find_collective(table.program);
}

// Null if p5bench does not know the collective, or the kernels (-D) that performed it: 1 and 2 load from and store into
// other GPUs' memory, above are multicast and GIN.
const Collective* collective_of(const Table& table, const std::string& otherwise) {
  if (is_renamed(table, otherwise)) return &find_collective(otherwise);
  if (!table.program.empty()) {
    const Collective* const found = try_find_collective(table.program);
    const std::string kernels = argument(table.arguments, "-D", "--device_implementation");
    if (!found || kernels.empty() || kernels == "0") return found;
    return kernels == "1" || kernels == "2" ? try_find_collective("lsa_" + std::string(found->name)) : nullptr;
  }
  if (otherwise.empty())
    throw UsageError(fmt::format("{}: nothing says which program printed this table; give --collective NAME",
                                 table.line > 0 ? place_of(table) : "/args"));
  return &find_collective(otherwise);
}

std::optional<DataType> data_type_from(const std::string& name) {
  const auto known = type_names.find(name);
  const std::string ours = known == type_names.end() ? name : known->second;
  const auto names = data_type_names();
  return std::ranges::find(names, ours) == names.end() ? std::nullopt : std::optional(parse_data_type(ours));
}

bool is_known_op(const std::string& name) {
  const auto names = reduce_op_names();
  return std::ranges::find(names, name) != names.end();
}

// Figures of a case in one program.
struct Launched {
  std::vector<double> times;       // one per cycle (-N)
  double rounding = 0;             // largest rounding of these times
  std::vector<double> iterations;  // -I
  std::uint64_t wrong = 0;
  const std::string* hosts = nullptr;  // in Importer::lists_; null: not known
  int line = 0;                        // of the table
};

// Identity of a case of nccl-tests.
using Key = std::tuple<std::string_view, std::uint64_t, DataType, std::optional<ReduceOp>, std::optional<int>, bool,
                       CallOptions, std::string, int, int>;
Key key_of(const Case& c) {
  return {c.collective->name, c.bytes.count, c.type, c.op, c.root, c.in_place, c.calls, c.group, c.ranks, c.nodes};
}

// "2.27.4" of "2.27.4+cuda12.9": what tables without the part behind the plus have too.
std::string release_of(const std::string& version) { return version.substr(0, version.find('+')); }

// A time and its rounding, in seconds.
struct RoundedTime {
  double time = 0, rounding = 0;
  double share() const { return rounding / time; }
};

// Uses the column with the most digits. From 2.17 on nccl-tests prints times of 10 s and more with two digits, and
// bandwidths with three. A bandwidth that contradicts the time, as hypercube's, which counts other bytes, is ignored.
RoundedTime time_of(const Timing& timing, const Case& c) {
  constexpr double enough = 0.005;  // three digits; negligible in any band
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

topo::Topology topology_of(const Table& table) {
  topo::Topology topology;
  topology.provenance = "imported";
  std::vector<Device> devices = table.devices;
  std::map<std::string, std::size_t> hosts;  // indices in topology.hosts
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

// Equal for copies of a table: the same processes, calls and figures.
std::string identity_of(const Table& table) {
  std::string identity = fmt::format("{} {} {} {} {}", table.program, describe(table.calls, " "), table.aggregated,
                                     table.graphs, table.blocking);
  for (const Device& device : table.devices)
    identity += fmt::format("|{} {} {} {}", device.rank, device.group, device.process, device.host);
  for (const ResultRow& row : table.rows) {
    identity += fmt::format("|{} {} {} {} {}", row.size, row.count, row.type, row.op, row.root);
    for (const std::optional<Timing>* each : {&row.out_of_place, &row.in_place})
      identity +=
          *each ? fmt::format(" {} {} {}", (*each)->time_us, (*each)->algbw, (*each)->wrong.value_or(0)) : " none";
  }
  return identity;
}

// The row's figures in place; null where nccl-tests has no data to check there, whether it checks (-c) or not: it runs
// these operations in place as it does out of place, and their data is none.
std::optional<Timing> in_place_of(const ResultRow& row, const Collective& collective) {
  const bool has_form = collective.in_place_offset && &collective != &hypercube;
  return !has_form && row.out_of_place && row.in_place && !row.in_place->checked ? std::nullopt : row.in_place;
}

std::uint64_t wrong_elements_of(const ResultRow& row) {
  const auto wrong = [](const std::optional<Timing>& each) { return each ? each->wrong.value_or(0) : 0; };
  return wrong(row.out_of_place) + wrong(row.in_place);
}

double deviation_of(const ResultRow& row) {
  const auto deviation = [](const std::optional<Timing>& each) { return each ? each->deviation : 0; };
  return std::max(deviation(row.out_of_place), deviation(row.in_place));
}

// Largest deviation of a row that is rounding. Where the line "Out of bounds values" is there, nccl-tests has compared
// the sums with its own bound: DeltaMaxValue for each rank but one (src/common.cu up to 2.12). Copies have no rounding.
double largest_rounding(const ResultRow& row, const Table& table, int ranks) {
  if (row.op.empty() || row.op == "none") return 0;
  if (table.bounds_told) return std::numeric_limits<double>::infinity();
  const int additions = std::max(1, ranks - 1);
  switch (data_type_from(row.type).value_or(DataType::float16)) {
    case DataType::float16:
    case DataType::bfloat16:
      return 1e-2 * additions;
    case DataType::float32:
      return 1e-5 * additions;
    case DataType::float64:
      return 1e-12 * additions;
    default:
      return 0;
  }
}

// Number of rows whose data is wrong by the deviation that is printed in place of wrong elements.
std::size_t deviating_rows(const Table& table, int ranks) {
  constexpr double least = 0.74;  // part of a printed figure that is there: it has one digit, and 1.5e-01 is "2e-01"
  return static_cast<std::size_t>(std::ranges::count_if(table.rows, [&](const ResultRow& row) {
    return least * deviation_of(row) > largest_rounding(row, table, ranks);
  }));
}

bool has_wrong_data(const Table& table, int ranks) {
  const auto has_any = [](const ResultRow& row) { return wrong_elements_of(row) > 0; };
  return table.out_of_bounds || std::ranges::any_of(table.rows, has_any) || deviating_rows(table, ranks) > 0;
}

// True if p5bench knows the row's type and operation.
bool is_row_known(const ResultRow& row, const Collective& collective) {
  return data_type_from(row.type) && (!collective.reduces || is_known_op(row.op));
}

// "a, b; c, d": hosts of several tables.
std::string lists_in_words(const std::set<std::string>& lists) {
  constexpr std::size_t most = 8, longest = 80;
  std::vector<std::string> named;
  for (const std::string& each : lists | std::views::take(most)) named.push_back(cut(printable(each), longest));
  if (lists.size() > most) named.push_back(fmt::format("{} others", lists.size() - most));
  return join(named, "; ");
}

// Throws UsageError naming the row if its reduction or root shows that it is of another collective.
void require_collective(const ResultRow& row, const Collective& collective) {
  const auto refuse = [&](const char* has, const std::string& but) {
    throw UsageError(fmt::format("{}: {} {}, and this row has {}: it is of another collective", place_of(row),
                                 collective.name, has, but));
  };
  // The program of send_recv prints a reduction although it reduces nothing.
  if (!collective.reduces && &collective != &send_recv && is_known_op(row.op))
    refuse("reduces nothing", "the reduction " + in_quotes(row.op));
  if (collective.reduces && (row.op.empty() || row.op == "none")) refuse("takes a reduction", "none");
  if (!collective.rooted && row.root >= 0) refuse("has no root", fmt::format("the root {}", row.root));
}

class Importer {
 public:
  // `bursts`: some tables are of operations that were not waited for one by one; `nameless`: nothing says of some which
  // program printed them.
  Importer(Report& report, std::string collective, const JobSize& job, bool bursts, bool nameless)
      : report_(report), collective_(std::move(collective)), job_(job), bursts_(bursts), nameless_(nameless) {}

  void add(const Table& table) {
    if (table.rows.empty())
      return leave_out(table,
                       fmt::format("{} was left out: it has no whole row, which begins with a size", in_words(table)));
    if (const auto [first, fresh] = tables_.try_emplace(identity_of(table), in_words(table)); !fresh)
      return remark(fmt::format("{} is a copy of {}: it counts once", in_words(table), first->second));
    // The option is for tables without a name where there are any.
    const std::string otherwise = nameless_ && !table.program.empty() ? "" : collective_;
    const Collective* collective = collective_of(table, otherwise);
    if (is_renamed(table, otherwise))
      remark(fmt::format("{} is read as {} (--collective)", in_quotes(table.program), collective->name));
    if (table.program.empty() || is_renamed(table, otherwise))
      used_collective_ = true;
    else if (!collective_.empty() && (!collective || collective->name != collective_) && other_program_.empty())
      other_program_ = fmt::format("{}: the file is of {}, not of {}: leave --collective out",
                                   table.line > 0 ? place_of(table) : "/args", printable(table.program), collective_);
    if (!collective) {
      const std::string kernels = argument(table.arguments, "-D", "--device_implementation");
      return leave_out(table, fmt::format("{} was left out: p5bench does not know it",
                                          in_quotes(table.program + (kernels.empty() ? "" : " -D " + kernels))));
    }
    if (table.blocking && bursts_)
      return leave_out(table, fmt::format("{} was left out: its operations were waited for one by one (-z), and those "
                                          "of other tables were not; import it alone",
                                          in_words(table)));
    const std::string nccl = release_of(table.nccl);
    if (const std::string first = release_of(nccl_); !nccl.empty() && !first.empty() && nccl != first)
      return leave_out(table,
                       fmt::format("{} was left out: it is of NCCL {}, and those before it of {}; import it alone",
                                   in_words(table), nccl, first));
    if (nccl_.empty()) nccl_ = table.nccl;
    for (const ResultRow& row : table.rows) check(row, *collective);
    const RanksOfTable ranks = ranks_of(table, *collective, job_);
    if (job_.ranks == 0) note_hosts(table);
    if (ranks.all_ranks > report_.run.ranks) {  // of several programs the largest
      report_.run.ranks = ranks.all_ranks;
      report_.run.nodes = ranks.all_nodes;
      if (job_.ranks == 0) report_.topology = topology_of(table);
    }
    if (ranks.split) remark("the ranks were split into groups (NCCL_TESTS_SPLIT): the figures are those of the first");
    if (ranks.ranks == 1)
      remark(
          "tables of a single rank show no communication: where nccl-tests was started on several GPUs, it was built "
          "without MPI=1, and each process printed a table of its own");
    if (table.blocking) remark("operations were waited for one by one (-z): not comparable with bursts");
    const auto is_left_out_and_wrong = [&](const ResultRow& row) {
      return wrong_elements_of(row) > 0 && !is_row_known(row, *collective);
    };
    if (table.out_of_bounds || std::ranges::any_of(table.rows, is_left_out_and_wrong) ||
        deviating_rows(table, all_ranks_of(table)) > 0)
      note_out_of_bounds(table);
    const auto has_any = [](const ResultRow& row) { return row.in_place.has_value(); };
    const auto in_place = std::ranges::count_if(
        table.rows, [&](const ResultRow& row) { return in_place_of(row, *collective).has_value(); });
    const auto without = std::ssize(table.rows) - in_place;
    if (std::ranges::any_of(table.rows, has_any) && without > 0)
      remark(fmt::format("{} of {} left out in place: the data was not checked there", counted(without, "row"),
                         in_words(table)));
    if (table.below_demanded)
      remark(
          fmt::format("{}: nccl-tests says that the average bandwidth is below what was demanded of it "
                      "(NCCL_TESTS_MIN_BW)",
                      in_words(table)));
    places_.clear();  // each table is a launch
    for (const ResultRow& row : table.rows) add(row, table, *collective, ranks);
  }

  std::vector<Result> finish() {
    for (std::size_t i = 0; i < report_.results.size(); ++i) finish(report_.results[i], i);
    if (std::ranges::any_of(report_.results, [](const Result& each) { return each.measurement.data_checked == false; }))
      remark("not all data was checked, or wrong elements were not counted: 0 wrong means nothing there");
    // The option may be for one table of several.
    if (!other_program_.empty() && !used_collective_) throw UsageError(other_program_);
    remark_on_hosts_of_cases();
    remark_on_launches();
    if (!nccl_.empty()) report_.context["nccl"] = nccl_;
    add_wrong_data_remarks();
    add_other_hosts();
    if (report_.results.empty() && report_.findings.empty())
      throw UsageError("nothing is left to import: " + join(report_.run.remarks, "; "));
    return std::move(journal_);
  }

 private:
  void remark(std::string text) {
    constexpr std::size_t most = 200;  // bounds the remarks of hostile files
    std::vector<std::string>& remarks = report_.run.remarks;
    if (remarks.size() < most && std::ranges::find(remarks, text) == remarks.end()) remarks.push_back(std::move(text));
  }

  // Ranks of the job, as far as its list or the user tells.
  int all_ranks_of(const Table& table) const { return std::max(static_cast<int>(table.devices.size()), job_.ranks); }

  // The figures of a table that is left out do not count; its wrong data does, with its hosts.
  void leave_out(const Table& table, std::string why) {
    remark(std::move(why));
    if (!has_wrong_data(table, all_ranks_of(table))) return;
    note_out_of_bounds(table);
    if (job_.ranks == 0 && !table.devices.empty()) note_hosts(table);
  }

  void note_hosts(const Table& table) {
    const topo::Topology listed = topology_of(table);
    std::set<std::string> names;
    for (const topo::Host& host : listed.hosts) {
      names.insert(host.name);
      if (known_hosts_.insert(host.name).second) hosts_.push_back(host);
    }
    list_ = &*lists_.insert(join(std::vector<std::string>(names.begin(), names.end()))).first;
    if (has_wrong_data(table, all_ranks_of(table))) wrong_lists_.insert(*list_);
  }

  // Hosts that only other tables list than that of the run's ranks. No rank of the run is on them.
  void add_other_hosts() {
    std::set<std::string> listed;
    for (const topo::Host& host : report_.topology.hosts) listed.insert(host.name);
    for (topo::Host& host : hosts_)
      if (!listed.contains(host.name)) report_.topology.hosts.push_back(std::move(host));
  }

  // Nothing in a case says which hosts it is of, so tables of several hosts are launches of one case.
  void remark_on_hosts_of_cases() {
    std::map<std::pair<int, int>, std::set<std::string>> lists;  // by ranks and nodes
    for (const auto& [place, launches] : launches_)
      for (const Launched& each : launches)
        if (const Case& c = report_.results[place].measurement.measured_case; each.hosts != launches.front().hosts)
          lists[{c.ranks, c.nodes}].insert({*launches.front().hosts, *each.hosts});
    for (const auto& [job, names] : lists)
      remark(fmt::format(
          "tables of {} on {} are of other hosts ({}) and launches of the same cases: a figure is the median "
          "of all of them; import each table alone to tell its hosts apart",
          counted(job.first, "rank"), counted(job.second, "node"), lists_in_words(names)));
  }

  // Tables may be of other settings, of which nccl-tests says nothing.
  void remark_on_launches() {
    const Case* widest = nullptr;
    double least = 1, most = 1;
    std::set<int> lines;
    for (const auto& [place, launches] : launches_) {
      if (launches.size() < 2) continue;
      for (const Launched& each : launches) lines.insert(each.line);
      std::vector<double> medians;
      for (const Launched& each : launches) medians.push_back(median(each.times));
      const auto [low, high] = std::ranges::minmax(medians);
      if (widest && high / low <= most / least) continue;
      widest = &report_.results[place].measurement.measured_case;
      least = low;
      most = high;
    }
    if (!widest) return;
    constexpr std::size_t most_named = 8;
    std::vector<std::string> named;
    for (const int line : lines | std::views::take(most_named)) named.push_back(fmt::format("{}", line));
    if (lines.size() > most_named) named.push_back(fmt::format("{} others", lines.size() - most_named));
    remark(fmt::format(
        "tables of lines {} are launches of the same cases: a figure is the median of theirs, which differ most at {} "
        "of {}: {:.4g} to {:.4g} us; import each alone if their settings are others",
        join(named), widest->collective->name, to_text(widest->bytes), least * 1e6, most * 1e6));
  }

  // Puts operations and sizes with wrong elements before all other remarks.
  void add_wrong_data_remarks() {
    std::set<std::pair<int, int>> jobs;  // ranks and nodes
    for (const Result& each : report_.results)
      jobs.emplace(each.measurement.measured_case.ranks, each.measurement.measured_case.nodes);
    std::map<std::string, std::vector<const Measurement*>> wrong;
    for (const Result& each : report_.results) {
      const Measurement& m = each.measurement;
      const Case& c = m.measured_case;
      if (m.wrong_elements == 0) continue;
      const std::string job = fmt::format(" of {} on {}", counted(c.ranks, "rank"), counted(c.nodes, "node"));
      wrong[fmt::format("{} {}{}", c.collective->name, c.in_place ? "in place" : "out of place",
                        jobs.size() > 1 ? job : "")]
          .push_back(&m);
    }
    std::vector<std::string> texts;
    for (const auto& [operation, all] : wrong) {
      constexpr std::size_t most = 20;
      std::vector<std::string> sizes;
      for (const Measurement* m : all)
        if (sizes.size() < most)
          sizes.push_back(fmt::format("{} of {}", m->wrong_elements, to_text(m->measured_case.bytes)));
      if (all.size() > most) sizes.push_back(fmt::format("and at {} more sizes", all.size() - most));
      texts.push_back(fmt::format("wrong data: {} has wrong elements at {}: {}", operation, counted(all.size(), "size"),
                                  join(sizes)));
    }
    if (texts.empty())
      for (const topo::Finding& finding : report_.findings) texts.push_back("wrong data: " + finding.evidence);
    if (lists_.size() > 1 && !wrong_lists_.empty() && !texts.empty())
      texts.push_back("wrong data: it is in the tables of " + lists_in_words(wrong_lists_));
    report_.run.remarks.insert(report_.run.remarks.begin(), texts.begin(), texts.end());
  }

  // Old versions print the largest deviation per row instead of a count, so the affected rows are unknown.
  void note_out_of_bounds(const Table& table) {
    const std::string count =
        table.values_out_of_bounds > 0 ? fmt::format("{}", table.values_out_of_bounds) : std::string("...");
    std::uint64_t counted_in_rows = 0;
    double deviation = 0;
    for (const ResultRow& row : table.rows) {
      counted_in_rows += wrong_elements_of(row);
      deviation = std::max(deviation, deviation_of(row));
    }
    const std::size_t rows = deviating_rows(table, all_ranks_of(table));
    const std::string says =
        table.out_of_bounds ? fmt::format("says 'Out of bounds values : {} FAILED'", count)
        : rows > 0          ? fmt::format("has an error of up to {:.0e} in {}", deviation, counted(rows, "row"))
                   : fmt::format("counted {} wrong {}", counted_in_rows, counted_in_rows == 1 ? "element" : "elements");
    report_.findings.push_back({.id = std::string(out_of_bounds),
                                .severity = topo::Severity::error,
                                .subject = {},
                                .evidence = fmt::format("nccl-tests {} of {}", says,
                                                        table.program.empty() ? collective_ : in_quotes(table.program)),
                                .action = "Measure again with p5bench, which says which rank has the wrong data.",
                                .about = topo::About::hardware});
  }

  void add(const ResultRow& row, const Table& table, const Collective& collective, const RanksOfTable& ranks) {
    const std::optional<DataType> type = data_type_from(row.type);
    if (row.size == 0) return remark("rows of 0 B were left out: nccl-tests rounds small messages down to nothing");
    if (!type)
      return remark(fmt::format("rows of the type {} were left out: p5bench does not know it", in_quotes(row.type)));
    if (collective.reduces && !is_known_op(row.op))
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
    c.calls = table.calls;
    // Kernels that load from other GPUs' memory always have symmetric buffers.
    if (collective.device_initiated) c.calls.registration = CallOptions{}.registration;
    c.calls.cuda_graph = table.graphs > 0;
    c.calls.aggregate = std::max(1, table.aggregated);
    if (ranks.split) c.group = "split";
    for (const bool in_place : {false, true}) {
      c.in_place = in_place;
      if (const std::optional<Timing> timing = in_place ? in_place_of(row, collective) : row.out_of_place)
        add(*timing, c, table);
    }
  }

  // Throws UsageError naming the row if it is surely of another collective, or has figures that cannot be.
  static void check(const ResultRow& row, const Collective& collective) {
    require_collective(row, collective);
    if (row.size == 0) return;
    for (const std::optional<Timing>* each : {&row.out_of_place, &row.in_place})
      if (*each) check(**each, row, collective);
  }

  // Throws UsageError naming the row if its time is none, or not that of its bandwidth. Hypercube counts other bytes.
  static void check(const Timing& timing, const ResultRow& row, const Collective& collective) {
    const std::string where = place_of(row);
    constexpr std::uint64_t most = std::uint64_t{1} << 60;
    if (row.size > most) throw UsageError(fmt::format("{}: {} B are no size of a message", where, row.size));
    for (const double time : timing.samples_us)
      if (time < times_us.least || time > times_us.most)
        throw UsageError(fmt::format("{}: {} us is no time of an iteration", where, time));
    if (timing.time_us <= 0) throw UsageError(fmt::format("{}: {} B in a time of 0", where, row.size));
    // The time may be computed from a bandwidth of two digits.
    if (timing.time_us < times_us.least || timing.time_us > times_us.most / 2)
      throw UsageError(fmt::format("{}: {} us is no time of an operation", where, timing.time_us));
    if (&collective != &hypercube && !fits_time(timing, static_cast<double>(row.size)))
      throw UsageError(fmt::format(
          "{}: {} B in {} us are {:.4g} GB/s, but its algbw is {}: one of them was changed, or its times "
          "are in another unit; import what nccl-tests printed",
          where, row.size, timing.time_us, static_cast<double>(row.size) * 1e-3 / timing.time_us, timing.algbw));
  }

  // Warns if busbw and algbw imply another number of ranks than the list. Hypercube counts other bytes.
  void check_bus_factor(const Timing& timing, const Case& c, const Table& table) {
    constexpr double enough_digits = 1, slack = 1e-9;
    if (timing.algbw < enough_digits || timing.rounding.busbw <= 0 || c.collective == &hypercube) return;
    const double given = timing.busbw / timing.algbw, wanted = c.collective->bus_factor(c.ranks);
    const double rounding = timing.rounding.busbw + wanted * timing.rounding.algbw;
    if (std::abs(timing.busbw - wanted * timing.algbw) > rounding + slack * timing.busbw)
      remark(
          fmt::format("{} says busbw = {:.3g} x algbw, but {} of {} ranks has {:.3g}: its figures are of another "
                      "number of ranks than its list, or of another program",
                      in_words(table), given, c.collective->name, c.ranks, wanted));
  }

  void add(const Timing& timing, const Case& c, const Table& table) {
    check_bus_factor(timing, c, table);
    const auto [known, fresh] = of_case_.try_emplace(key_of(c), report_.results.size());
    const std::size_t place = known->second;
    if (fresh) {
      Measurement& m = report_.results.emplace_back().measurement;
      m.measured_case = c;
      m.throughput = Series{};
      m.throughput->operations_per_sample = static_cast<int>(
          std::clamp(static_cast<double>(table.iterations) * table.aggregated * std::max(1, table.graphs), 1.0, 1e9));
    }
    // Cycles of one program (-N) are samples, not launches.
    const bool first_cycle = places_.insert(place).second;
    if (first_cycle) launches_[place].emplace_back();
    Launched& launch = launches_[place].back();
    if (first_cycle) {
      launch.hosts = list_;
      launch.line = table.line;
    }
    const RoundedTime time = time_of(timing, c);
    launch.times.push_back(time.time);
    launch.rounding = std::max(launch.rounding, time.rounding);
    for (const double sample : timing.samples_us) launch.iterations.push_back(sample * 1e-6);
    launch.wrong += timing.wrong.value_or(0);
    if (!timing.wrong) report_.results[place].measurement.data_checked = false;
  }

  // The median is the printed mean even if iterations are known, so that all imports are comparable.
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
    const Result of_case = result;  // without the launches, so that a line of the journal does not hold those before it
    for (const Launched& launch : launches_[place]) {
      Result& line = journal_.emplace_back(of_case);
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
  JobSize job_;
  bool bursts_, nameless_;
  std::map<std::string, std::string> tables_;              // names of the tables, by identity
  std::map<Key, std::size_t> of_case_;                     // indices of results
  std::map<std::size_t, std::vector<Launched>> launches_;  // by index of the result
  std::vector<Result> journal_;
  std::set<std::size_t> places_;                             // results that the current launch already has
  std::vector<topo::Host> hosts_;                            // of all tables, in their order
  std::set<std::string> known_hosts_, lists_, wrong_lists_;  // names; the hosts of a table, and of one with wrong data
  const std::string* list_ = nullptr;                        // of the current table
  std::string nccl_;                                         // version of the first table that has one
  bool used_collective_ = false;
  std::string other_program_;  // of the first table that is not of `collective_`
};

// True for '{"' or '{}': a log may begin with other braces.
bool begins_as_json(std::string_view text) {
  const auto next = [&](std::size_t from) {
    const std::size_t at = text.find_first_not_of(" \t\r\n", from);
    return at == std::string_view::npos ? '\0' : text[at];
  };
  if (next(0) != '{') return false;
  const char second = next(text.find('{') + 1);
  return second == '"' || second == '}';
}

// Other JSON may hold the lines of a table, as log collectors export them.
Log read(std::string_view text) {
  if (!begins_as_json(text) || are_lines_of_json(text)) return read_text(text);
  try {
    return read_json(text);
  } catch (const UsageError& of_json) {
    try {
      return read_text(text);
    } catch (const UsageError&) {
      throw of_json;
    }
  }
}

}  // namespace

std::string argument(const std::vector<std::string>& arguments, const std::string& brief, const std::string& full) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& each = arguments[i];
    if ((each == brief || each == full) && i + 1 < arguments.size()) return arguments[i + 1];
    if (each.starts_with(full + "=")) return each.substr(full.size() + 1);
    if (each.starts_with(brief) && each.size() > brief.size() && !each.starts_with("--"))
      return each.substr(brief.size());
  }
  return "";
}

std::string program_of(const Collective& collective) {
  const std::string_view name = name_in_nccl_tests(collective);
  return name.empty() ? "" : fmt::format("{}_perf", name);
}

std::string type_of(DataType type) {
  const auto known = std::ranges::find_if(type_names, [&](const auto& each) { return each.second == name_of(type); });
  return known == type_names.end() ? std::string(name_of(type)) : known->first;
}

// The time as reports have it, "2026-11-20T10:00:00Z", though of an unknown time zone; "" if it is none.
static std::string as_report_time(std::string text) {
  constexpr std::size_t space = 10;
  if (text.size() <= space || text[space] != ' ') return "";
  text[space] = 'T';
  text += 'Z';
  return parse_utc(text) ? text : "";
}

static std::string first_line_with(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  return at == std::string_view::npos ? "" : std::string(text.substr(at, text.find('\n', at) - at));
}

bool is_import_with(std::string_view remark, const Report& report) {
  return report.provenance == "imported" && std::ranges::find(report.run.remarks, remark) != report.run.remarks.end();
}

Imported import(std::string_view text, const std::string& collective, const std::string& cluster, const JobSize& job) {
  const Log log = read(text);
  Imported imported;
  Report& report = imported.report;
  report.status = log.ended_by.empty() ? "complete" : "partial";
  report.provenance = "imported";
  report.exit_code = log.ended_by.empty() ? ExitCode::ok : ExitCode::unfinished;
  report.context = log.context;
  report.topology.provenance = "imported";
  report.run.version = version();
  report.run.backend = "nccl";
  report.run.cluster = cluster;
  report.run.ended_by = log.ended_by;
  report.run.started = as_report_time(log.started);
  if (!log.started.empty()) report.context["nccl-tests.started"] = log.started + " (local time)";
  report.run.command = log.tables.front().arguments;
  report.run.remarks = log.remarks;
  const auto is_burst = [](const Table& table) { return !table.blocking && !table.rows.empty(); };
  const bool bursts = std::ranges::any_of(log.tables, is_burst);
  // Without its head a table does not say it.
  if (std::ranges::all_of(log.tables, [&](const Table& each) { return !is_burst(each) || each.iterations > 0; }))
    report.context[std::string(blocking_context)] = bursts ? "no" : "yes";
  const bool nameless =
      std::ranges::any_of(log.tables, [](const Table& each) { return each.program.empty() && !each.rows.empty(); });
  Importer importer(report, collective, job, bursts, nameless);
  for (const Table& table : log.tables) importer.add(table);
  imported.journal = importer.finish();
  const std::string own = first_line_with(text, "# Figures of p5bench ");
  const auto says = [&](std::string_view words) { return own.find(words) != std::string::npos; };
  const auto has_line = [&](std::string_view remark) {
    return !own.empty() && !first_line_with(text, fmt::format("# {}", remark)).empty();
  };
  if (says(", simulated in the columns of nccl-tests") || has_line(of_simulator))
    report.run.remarks.emplace_back(of_simulator);
  const bool of_import = says(", imported in the columns of nccl-tests") && !has_line(of_slowest_ranks);
  const bool largest = argument(report.run.command, "-a", "--average") == "3" || has_line(largest_over_ranks);
  report.run.remarks.emplace_back(largest                    ? largest_over_ranks
                                  : own.empty() || of_import ? means_over_ranks
                                                             : of_slowest_ranks);
  report.grade = overall(report);
  report.exit_code = worse(report.exit_code, exit_code(report));
  report.decision = decide(report);
  return imported;
}

std::vector<topo::FindingKind> import_finding_kinds() {
  return {{std::string(out_of_bounds), topo::About::hardware,
           "nccl-tests found wrong data, in an imported table that does not say where"}};
}

}  // namespace p5::reports::nccl_tests
