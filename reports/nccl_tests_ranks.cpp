// The ranks and hosts of a table of nccl-tests: by its list of ranks, its sizes, its figures, or as given by the user.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "reports/markup.hpp"
#include "reports/nccl_tests_text.hpp"

namespace p5::reports::nccl_tests {

std::string place_of(const Table& table) {
  return table.line > 0 ? fmt::format("line {}", table.line) : "/config/devices";
}

namespace {

// False if the collective is the one that the user gave.
bool is_named(const Table& table) { return try_find_collective(table.program); }

// Numbers of ranks; 0 and 0 for none.
struct RankRange {
  int least = 0, most = 0;
  std::optional<int> only() const { return least > 0 && least == most ? std::optional(least) : std::nullopt; }
};

// Numbers of ranks that give the table's busbw by its algbw, given their rounding; null if no figure shows them, or
// rows contradict each other. A busbw of 0 is that of a single rank. Hypercube prints one bandwidth in both columns.
// A program that the table names may count otherwise where no number of ranks fits.
std::optional<RankRange> ranks_in_figures(const Table& table, const Collective& collective) {
  constexpr int most = 100000;
  constexpr double slack = 1e-9, unknown = 1e9;
  double low = 0, high = unknown;  // of busbw over algbw
  for (const ResultRow& row : table.rows)
    for (const std::optional<Timing>& t : {row.out_of_place, row.in_place}) {
      if (!t || t->algbw <= t->rounding.algbw || t->rounding.busbw <= 0) continue;
      low = std::max(low, (t->busbw - t->rounding.busbw) / (t->algbw + t->rounding.algbw));
      high = std::min(high, (t->busbw + t->rounding.busbw) / (t->algbw - t->rounding.algbw));
    }
  if (high == unknown || low > high + slack || &collective == &hypercube) return std::nullopt;
  RankRange found;
  for (int ranks = 1; ranks <= most; ++ranks) {
    const double each = collective.bus_factor(ranks);
    if (each < low - slack || each > high + slack) continue;
    if (found.least == 0) found.least = ranks;
    found.most = ranks;
  }
  if (found.most == 0 && is_named(table)) return std::nullopt;
  return found;
}

// The number of ranks as size over the bytes of the counted elements, in programs where each rank counts its own; null
// if it is unknown, 1, or not the same in all rows.
std::optional<int> ranks_in_sizes(const Table& table) {
  std::optional<int> found;
  for (const ResultRow& row : table.rows) {
    if (row.count == 0) continue;
    const std::optional<std::uint64_t> shares = shares_in(row);
    constexpr std::uint64_t most = 1'000'000;
    if (!shares || *shares < 2 || *shares > most || (found && static_cast<std::uint64_t>(*found) != *shares))
      return std::nullopt;
    found = static_cast<int>(*shares);
  }
  return found;
}

// "1, 2, 5 to 7"; long lists are truncated.
std::string ranks_in_words(const std::vector<int>& ranks) {
  constexpr std::size_t most = 10;
  std::vector<std::string> runs;
  const auto at = [&](std::size_t i) { return ranks.begin() + static_cast<std::ptrdiff_t>(i); };
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const std::size_t first = i;
    while (i + 1 < ranks.size() && ranks[i + 1] == ranks[i] + 1) ++i;
    for (const int each : i - first < 2 ? std::vector<int>(at(first), at(i + 1)) : std::vector<int>{})
      runs.push_back(fmt::format("{}", each));
    if (i - first >= 2) runs.push_back(fmt::format("{} to {}", ranks[first], ranks[i]));
  }
  if (runs.size() > most) {
    runs.resize(most);
    runs.emplace_back("others");
  }
  return join(runs);
}

// `fits`: the number of ranks that the table's figures are of.
std::string advice_on_ranks(const std::optional<int>& fits, const Collective& collective) {
  return fmt::format(
      "say them: --ranks {} --hosts N{}", fits ? fmt::format("{}", *fits) : "N",
      fits ? fmt::format(" (the figures are those of {} of {})", collective.name, counted(*fits, "rank")) : "");
}

// Throws UsageError if the table is surely of other numbers of ranks, which `fits` has; null if they are not known.
void require_ranks(int ranks, const std::optional<RankRange>& fits, const Table& table, const Collective& collective) {
  if (!fits || (fits->least <= ranks && ranks <= fits->most)) return;
  if (fits->most == 1)
    throw UsageError(
        fmt::format("{}: its bus bandwidth of 0 is that of {} of a single rank, not of {}: these are several programs "
                    "that know nothing of each other; build nccl-tests with MPI=1",
                    place_of(table), collective.name, ranks));
  const std::string numbers = fits->most == 0 ? "no number of"
                              : fits->only()  ? fmt::format("{}", fits->least)
                                              : fmt::format("{} to {}", fits->least, fits->most);
  throw UsageError(fmt::format("{}: its figures are those of {} of {} ranks, not of {}{}", place_of(table),
                               collective.name, numbers, ranks, is_named(table) ? "" : ": check --collective"));
}

// The largest set of ranks on one GPU of one host name; empty if each rank has a GPU of its own. NCCL refuses to share
// a GPU, so these ranks are on several hosts that share a name, or whose names nccl-tests cut off at the first dot.
std::vector<int> ranks_on_one_gpu(const Table& table) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> ranks;
  std::vector<int> largest;
  for (const Device& device : table.devices) {
    if (device.gpu.empty()) continue;
    std::vector<int>& here = ranks[{device.host, device.gpu}];
    here.push_back(device.rank);
    if (here.size() > std::max<std::size_t>(largest.size(), 1)) largest = here;
  }
  return largest;
}

}  // namespace

RanksOfTable ranks_of(const Table& table, const Collective& collective, const JobSize& job) {
  const std::optional<RankRange> in_figures = ranks_in_figures(table, collective);
  const std::optional<int> in_sizes = ranks_in_sizes(table),
                           fits = in_sizes || !in_figures ? in_sizes : in_figures->only();
  // The table belongs to the group of rank 0.
  RanksOfTable found;
  std::set<std::string> hosts, all_hosts;
  for (const Device& device : table.devices) {
    all_hosts.insert(device.host);
    if (device.group != table.devices.front().group) {
      found.split = true;
      continue;
    }
    ++found.ranks;
    hosts.insert(device.host);
  }
  found.nodes = static_cast<int>(hosts.size());
  found.all_ranks = static_cast<int>(table.devices.size());
  found.all_nodes = static_cast<int>(all_hosts.size());
  const bool is_given = job.ranks > 0 && job.hosts > 0;
  const auto as_given = [&] {
    if (job.hosts < found.all_nodes)
      throw UsageError(fmt::format("{}: the file lists {} hosts, not {}", place_of(table), found.all_nodes, job.hosts));
    if (in_sizes) require_ranks(job.ranks, RankRange{*in_sizes, *in_sizes}, table, collective);
    require_ranks(job.ranks, in_figures, table, collective);
    return RanksOfTable{.ranks = job.ranks, .nodes = job.hosts, .all_ranks = job.ranks, .all_nodes = job.hosts};
  };
  if (table.devices.empty()) {
    if (is_given) return as_given();
    throw UsageError(fmt::format(
        "{}: nothing says how many ranks and hosts this table is of: {} missing; {}", place_of(table),
        table.line > 0 ? "the lines '#  Rank  0 ... on HOST' are" : "the list is", advice_on_ranks(fits, collective)));
  }
  const int end = std::max(*table.ranks.rbegin() + 1, found.split ? 0 : fits.value_or(0));
  std::vector<int> missing;
  constexpr std::size_t enough = 1000;
  for (int rank = 0; rank < end && missing.size() < enough; ++rank)
    if (!table.ranks.contains(rank)) missing.push_back(rank);
  if (!missing.empty()) {
    if (is_given && job.ranks >= end) return as_given();
    throw UsageError(fmt::format("{}: the list of ranks is not whole: {} of {} {} missing ({}); {}", place_of(table),
                                 missing.size(), end, missing.size() == 1 ? "is" : "are", ranks_in_words(missing),
                                 advice_on_ranks(fits, collective)));
  }
  if (const std::vector<int> same = ranks_on_one_gpu(table); !same.empty()) {
    const Device& device = *std::ranges::find(table.devices, same.front(), &Device::rank);
    const bool has_address = !device.gpu.ends_with(']');
    if (is_given && !found.split && job.ranks == found.ranks &&
        (!has_address || std::cmp_greater_equal(job.hosts, same.size())))
      return as_given();
    throw UsageError(fmt::format(
        "{}: ranks {} are all on GPU {} of '{}', {}; {}", place_of(table), ranks_in_words(same), printable(device.gpu),
        printable(device.host),
        has_address ? fmt::format("which NCCL refuses: {} hosts or more share this name", same.size())
                    : "so several hosts share this name, or several GPUs this bus",
        found.split ? "give each a name of its own" : fmt::format("say --ranks {} --hosts N", found.ranks)));
  }
  if ((job.ranks > 0 && job.ranks != found.ranks) || (job.hosts > 0 && job.hosts != found.nodes))
    throw UsageError(fmt::format("{}: the file lists {} ranks on {} hosts: leave --ranks and --hosts out",
                                 place_of(table), found.ranks, found.nodes));
  require_ranks(found.ranks, in_figures, table, collective);
  return found;
}

}  // namespace p5::reports::nccl_tests
