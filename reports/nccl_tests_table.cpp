// A report in the columns of nccl-tests, each table below the nccl-tests command that reproduces it. Columns and
// options are those of nccl-tests 2.17 and later (README and src/common.cu).
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "bench/base/environment.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "reports/judge.hpp"
#include "reports/markup.hpp"
#include "reports/nccl_tests.hpp"
#include "reports/nccl_tests_text.hpp"
#include "reports/writer.hpp"
#include "topo/settings.hpp"

namespace p5::reports {

namespace {

constexpr int operations_of_a_burst = 20;  // nccl-tests' own default

// Measurements of one program of nccl-tests.
using Rows = std::vector<const Measurement*>;

// NCCL_TESTS_SPLIT: ranks of the same quotient ("DIV"), or the same remainder ("MOD"), are a group; "" for the whole
// job.
struct Split {
  std::string how;
  int by = 1;
  std::string text() const { return how.empty() ? "" : fmt::format("{} {}", how, by); }
  // Number of the rank's group, as nccl-tests prints it.
  int group_of(int rank) const { return how == "DIV" ? rank / by : rank % by; }
};

// Null if nccl-tests has no such split.
std::optional<Split> split_of(const Case& c, const RunInfo& run) {
  const auto split = [](const char* how, int by) { return Split{how, std::max(1, by)}; };
  if (c.group == "world") return Split{};
  if (c.group == "node") return split("DIV", c.ranks);
  if (c.group == "rail") return split("MOD", run.ranks / std::max(1, run.nodes));
  if (const std::string stride = "stride:"; c.group.starts_with(stride))
    return split("MOD", as_number<int>(c.group.substr(stride.size())).value_or(1));
  return std::nullopt;
}

// True if nccl-tests' groups are those of the run. A run whose ranks are not placed host by host, or whose hosts have
// unequal numbers of them, may have others.
bool has_groups_of_run(const Split& split, const Case& c, const std::vector<int>& host_of_rank) {
  if (c.group != "node" && c.group != "rail") return true;
  std::map<int, int> seen;          // ranks seen on each host
  std::map<int, int> ours, theirs;  // the run's group of each group of nccl-tests, and the reverse
  for (std::size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    const int host = host_of_rank[rank], place = seen[host]++;
    const int own = c.group == "node" ? host : place, its = split.group_of(static_cast<int>(rank));
    if (ours.try_emplace(its, own).first->second != own || theirs.try_emplace(own, its).first->second != its)
      return false;
  }
  return true;
}

// "-b 8 -e 1024 -f 2" for a geometric series of sizes, else one range per size.
std::vector<std::string> ranges_of(const Rows& rows) {
  std::set<std::uint64_t> sizes;
  for (const Measurement* m : rows) sizes.insert(m->measured_case.bytes.count);
  const std::uint64_t first = *sizes.begin(), last = *sizes.rbegin();
  if (sizes.size() > 1) {
    const std::uint64_t factor = std::max<std::uint64_t>(2, *std::next(sizes.begin()) / first);
    std::set<std::uint64_t> series;
    for (std::uint64_t size = first; size <= last; size *= factor) {
      series.insert(size);
      if (size > last / factor) break;  // the next one may be beyond 64 bits
    }
    if (series == sizes) return {fmt::format("-b {} -e {} -f {}", first, last, factor)};
  }
  std::vector<std::string> each;
  for (const std::uint64_t size : sizes) each.push_back(fmt::format("-b {} -e {}", size, size));
  return each;
}

// The user's variables that affect NCCL, without secrets.
std::string variables_of(const Report& report) {
  std::string text;
  for (const auto& [key, value] : report.context) {
    const std::string name = key.starts_with("env.") ? key.substr(4) : "";
    const bool matters = topo::shapes_transport(name) || name == "LD_LIBRARY_PATH";
    if (matters && !is_secret(name)) text += " -x " + shell_word(name + "=" + value);
  }
  return text;
}

bool none_was_checked(const Rows& rows) {
  return std::ranges::all_of(rows, [](const Measurement* each) { return each->data_checked == false; });
}

// Ranks and nodes of a program.
struct ProgramSize {
  int ranks = 1, nodes = 1;
};

// An import may have tables of several jobs, of which the run's ranks are those of the largest.
ProgramSize size_of_program(const Case& c, const Split& split, const Report& report) {
  const bool own = report.provenance == "imported" && split.how.empty();
  return {own ? c.ranks : report.run.ranks, std::max(1, own ? c.nodes : report.run.nodes)};
}

// The ranks of the report that a program's list has: all of its run, or as many of the first nodes as the program has.
// Null if those nodes have fewer.
std::optional<std::vector<std::size_t>> ranks_in_list(const Report& report, const ProgramSize& size) {
  const std::vector<int>& host_of_rank = report.topology.host_of_rank;
  const bool of_run = size.ranks == report.run.ranks && size.nodes == std::max(1, report.run.nodes);
  std::vector<std::size_t> listed;
  std::map<int, int> places, taken;  // by host: its place in the order of first ranks; listed ranks
  for (std::size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    const int host = host_of_rank[rank];
    const int place = places.try_emplace(host, static_cast<int>(places.size())).first->second;
    const int most = place < size.nodes ? size.ranks / size.nodes + (place < size.ranks % size.nodes) : 0;
    if (!of_run && taken[host] == most) continue;
    ++taken[host];
    listed.push_back(rank);
  }
  const bool all = of_run || host_of_rank.empty() || std::cmp_equal(listed.size(), size.ranks);
  return all ? std::optional(std::move(listed)) : std::nullopt;
}

// " -N 8"; "" where hosts have unequal numbers of ranks, which mpirun places by the slots of its hosts.
std::string ranks_on_each_host(const Report& report, const std::vector<std::size_t>& ranks, const ProgramSize& size) {
  std::map<int, int> on_host;
  for (const std::size_t rank : ranks) ++on_host[report.topology.host_of_rank[rank]];
  const int each = size.ranks / size.nodes;
  const bool equal = each * size.nodes == size.ranks &&
                     std::ranges::all_of(on_host, [&](const auto& host) { return host.second == each; });
  return equal ? fmt::format(" -N {}", each) : "";
}

std::string commands_of(const Report& report, const Rows& rows, const std::string& program, const Split& split,
                        const ProgramSize& size, const std::vector<std::size_t>& ranks) {
  const Case& c = rows.front()->measured_case;
  std::string options = fmt::format("-g 1 -d {}", nccl_tests::type_of(c.type));
  if (c.op) options += fmt::format(" -o {}", name_of(*c.op));
  if (c.root || c.every_root) options += fmt::format(" -r {}", c.root.value_or(-1));  // -1: all
  if (c.calls.registration == "local") options += " -R 1";
  if (c.calls.registration == "symmetric") options += " -R 2";
  options += fmt::format(" -n {}", std::max(1, operations_of_a_burst / c.calls.aggregate));
  if (report.provenance != "imported" || nccl_tests::is_import_with(nccl_tests::of_slowest_ranks, report) ||
      nccl_tests::is_import_with(nccl_tests::largest_over_ranks, report))
    options += " -a 3";
  if (none_was_checked(rows)) options += " -c 0";
  if (c.calls.aggregate > 1) options += fmt::format(" -m {}", c.calls.aggregate);
  if (const auto policy = std::ranges::find(cta_policies, c.calls.cta_policy); policy != cta_policies.begin())
    options += fmt::format(" -x {}", policy - cta_policies.begin());
  if (c.calls.unalign > 0) options += fmt::format(" -u {}", c.calls.unalign);
  if (c.calls.cuda_graph) options += fmt::format(" -G {}", operations_of_a_burst);
  const auto waited = report.context.find(std::string(nccl_tests::blocking_context));
  const bool blocking = waited != report.context.end() && waited->second == "yes";
  if (blocking) options += " -z 1";
  std::string text;
  for (const std::string& range : ranges_of(rows))
    text += format_printable(
        "# mpirun -np {}{}{}{} {} {} {}\n", size.ranks, ranks_on_each_host(report, ranks, size), variables_of(report),
        split.how.empty() ? "" : " -x " + shell_word("NCCL_TESTS_SPLIT=" + split.text()), program, range, options);
  if (blocking) text += "# Blocking Enabled\n";
  return text;
}

std::string devices_of(const Report& report, const Split& split, const std::vector<std::size_t>& ranks) {
  std::string text;
  std::map<int, int> seen;  // ranks seen on each host
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const int at = report.topology.host_of_rank[ranks[rank]];
    const topo::Host& host = report.topology.hosts.at(static_cast<std::size_t>(at));
    const auto local = static_cast<std::size_t>(seen[at]++);
    const topo::Gpu* gpu = local < host.gpu_devices.size() ? &host.gpu_devices[local] : nullptr;
    text += format_printable("#  Rank {:2} Group {:2} Pid      0 on {:>10} device {:2} [{}] {}\n", rank,
                             split.group_of(static_cast<int>(rank)), host.name, local, gpu ? gpu->pci.address : "",
                             gpu ? gpu->name : "");
  }
  return text;
}

bool was_checked(const Measurement& m) { return m.data_checked.value_or(true); }

std::string figures(const Measurement& m) {
  const Seconds median{m.throughput->summary.median};
  const double us = microseconds(median);
  const GBps busbw = bus_bandwidth(m.measured_case, median);
  // The algbw of nccl-tests' hypercube is its busbw.
  const GBps algbw = m.measured_case.collective == &hypercube ? busbw : algorithm_bandwidth(m.measured_case, median);
  return fmt::format("{:>8} {:>7.2f} {:>7.2f} {:>7}", us < 1e5 ? fmt::format("{:.2f}", us) : fmt::format("{:.0f}", us),
                     algbw.count, busbw.count, was_checked(m) ? std::to_string(m.wrong_elements) : "N/A");
}

std::string table_of(const Rows& rows) {
  constexpr std::string_view absent = "     N/A     N/A     N/A     N/A";
  std::string text = fmt::format(
      "#\n# {:>53}{:^31}  {:^31}\n#{:>11} {:>12} {:>9} {:>6} {:>6}  {:>8} {:>7} {:>7} {:>7}  {:>8} {:>7} {:>7} {:>7}\n"
      "#{:>11} {:>12} {:>9} {:>6} {:>6}  {:>8} {:>7} {:>7} {:>7}  {:>8} {:>7} {:>7} {:>7}\n",
      "", "out-of-place", "in-place", "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong",
      "time", "algbw", "busbw", "#wrong", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)",
      "(GB/s)", "(GB/s)", "");
  double sum = 0;
  std::uint64_t wrong = 0;
  for (const Measurement* m : rows) {
    const Case& c = m->measured_case;
    text += fmt::format("{:>12} {:>12} {:>9} {:>6} {:>6}  {}  {}\n", c.bytes.count, elements(c),
                        nccl_tests::type_of(c.type), c.op ? name_of(*c.op) : "none",
                        c.every_root ? slowest_root(*m).value_or(-1) : c.root.value_or(-1),
                        c.in_place ? absent : figures(*m), c.in_place ? figures(*m) : absent);
    sum += bus_bandwidth(c, {m->throughput->summary.median}).count;
    wrong += m->wrong_elements;
  }
  return text + fmt::format("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:.6g}\n#\n", wrong,
                            wrong ? "FAILED" : "OK", sum / static_cast<double>(rows.size()));
}

// Parameters that are fixed within one program; all but the size.
auto program_key(const Case& c) {
  return std::tuple(c.collective->name, c.group, c.nodes, c.ranks, c.type, c.op, root_text(c), c.in_place, c.calls);
}

// A comment for each kind of measurement that failed, or had wrong data, and is in no table.
std::string bad_without_row(const Report& report, const std::set<const Measurement*>& with_row) {
  std::map<std::pair<std::string, std::string_view>, std::size_t> counts;  // by operation and by what it did
  for (const Result& result : report.results) {
    const Measurement& m = result.measurement;
    if (with_row.contains(&m)) continue;
    if (m.wrong_elements > 0)
      ++counts[{operation_of(m.measured_case), "gave wrong data"}];
    else if (m.outcome == Outcome::failed)
      ++counts[{operation_of(m.measured_case), "failed"}];
  }
  std::string text;
  for (const auto& [what, count] : counts)
    text += format_printable("# {}: {} {} and {} no row\n", what.first, counted(count, "measurement"), what.second,
                             count == 1 ? "has" : "have");
  return text;
}

}  // namespace

std::string render_nccl_tests(const Report& report) {
  std::vector<Rows> programs;
  std::set<std::string> skipped, device_initiated;
  std::set<const Measurement*> with_row;
  for (const Result* result : in_reading_order(report)) {
    const Measurement& m = result->measurement;
    const Case& c = m.measured_case;
    if (!has_figures_to_show(m) || !m.throughput) continue;
    if (c.collective->device_initiated) {
      device_initiated.insert(operation_of(c));
      continue;
    }
    if (c.shape.traffic && !nccl_tests::program_of(*c.collective).empty()) {
      skipped.insert(operation_of(c) + " without a matrix in a file (NCCL_TESTS_ALLTOALLV_MATRIX_FILE)");
      continue;
    }
    const std::optional<Split> split = split_of(c, report.run);
    if (nccl_tests::program_of(*c.collective).empty() || !split || c.arm != "default" || !c.beside.empty()) {
      skipped.insert(operation_of(c) + (c.arm == "default" ? "" : ", arm " + c.arm));
      continue;
    }
    if (!has_groups_of_run(*split, c, report.topology.host_of_rank)) {
      skipped.insert(fmt::format("{} group {} of ranks that are not placed host by host", operation_of(c), c.group));
      continue;
    }
    if (programs.empty() || program_key(programs.back().front()->measured_case) != program_key(c))
      programs.emplace_back();
    programs.back().push_back(&m);
  }
  std::string text =
      format_printable("# Figures of p5bench {}{} in the columns of nccl-tests; {}{}\n", report.run.version,
                       report.provenance == "measured" ? "" : ", " + report.provenance, report.run.cluster,
                       report.run.started.empty() ? "" : " of " + report.run.started);
  text += fmt::format("# The command above each table shows the same with nccl-tests built with MPI=1; times are {}.\n",
                      report.provenance == "imported" ? "as imported" : "the slowest rank's");
  for (const std::string_view remark : {nccl_tests::of_simulator, nccl_tests::means_over_ranks,
                                        nccl_tests::of_slowest_ranks, nccl_tests::largest_over_ranks})
    if (nccl_tests::is_import_with(remark, report)) text += fmt::format("# {}\n", remark);
  for (const Rows& rows : programs) {
    const Case& c = rows.front()->measured_case;
    const Split split = *split_of(c, report.run);
    const ProgramSize size = size_of_program(c, split, report);
    const std::optional<std::vector<std::size_t>> ranks = ranks_in_list(report, size);
    text += "#\n";
    if (ranks) {
      text += commands_of(report, rows, nccl_tests::program_of(*c.collective), split, size, *ranks) +
              devices_of(report, split, *ranks) + table_of(rows);
      with_row.insert(rows.begin(), rows.end());
    } else {
      text += format_printable("# {} of {} ranks on {}: no table, since the report does not list their hosts\n",
                               operation_of(c), size.ranks, counted(size.nodes, "node"));
    }
  }
  text += bad_without_row(report, with_row);
  if (!device_initiated.empty())
    text += format_printable("# nccl-tests has the like with -R 2 -D 1 or 2, whose tables do not say so: {}\n",
                             join(std::vector<std::string>(device_initiated.begin(), device_initiated.end())));
  if (!skipped.empty())
    text += format_printable("# nccl-tests has nothing like: {}\n",
                             join(std::vector<std::string>(skipped.begin(), skipped.end())));
  return text;
}

}  // namespace p5::reports
