// How far each rank came, by the lines of all ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "topo/nccl_log/parts.hpp"

namespace p5::topo {

namespace {

// "7(TENSOR_MODEL_PARALLEL_GROUP)" of "[PG ID 3 PG GUID 7(TENSOR_MODEL_PARALLEL_GROUP) Rank 0]", and "0 (default_pg)"
// of "[PG 0 (default_pg) Rank 3]" of PyTorch 2.4.
std::string process_group_in(const std::string& line) {
  static const std::regex form("\\[PG (?:ID \\d+ PG GUID )?([^\\]]{1,80}) Rank \\d+\\]");
  const std::size_t at = line.find("[PG ");
  if (at == std::string::npos) return "";
  const auto caught = caught_by(form, line, at);
  return caught ? caught->front() : "";
}

// Seconds in the stamp of PyTorch 2.4 and later, "[rank3]:[E909 09:55:46.996672294 ", which has no year; NaN: there is
// none.
double stamp_of_pytorch(const std::string& line) {
  constexpr std::size_t mark_length = 4, longest = 40;
  const std::size_t at = line.rfind("]:[");
  if (at == std::string::npos || at + mark_length > line.size()) return no_time;
  std::string stamp = line.substr(at + mark_length, longest);
  if (stamp.find(' ') == 3) stamp.insert(0, "0");
  std::tm parts{};
  parts.tm_year = 2000 - 1900;  // a leap year
  const char* const fraction = strptime(stamp.c_str(), "%m%d %H:%M:%S", &parts);
  return fraction ? static_cast<double>(timegm(&parts)) + std::atof(fraction) : no_time;
}

}  // namespace

std::optional<Waiting> waiting_in(const std::string& line, const std::vector<std::string>& caught) {
  if (caught.size() < 2) return std::nullopt;
  const auto rank = as_number<int>(caught[0]);
  const auto number = as_number<std::uint64_t>(caught[1]);
  if (!rank || !number) return std::nullopt;
  const double until = stamp_of_pytorch(line);
  const std::string milliseconds = word_after(line, " ran for ");
  return Waiting{process_group_in(line),
                 *rank,
                 *number,
                 caught.size() > 2 ? caught[2] : "",
                 milliseconds.empty() ? no_time : until - 1e-3 * std::atof(milliseconds.c_str()),
                 until};
}

namespace {

// Number and name of the collective that each rank waits in, by rank.
using Steps = std::map<int, std::pair<std::uint64_t, std::string>>;
// By process group, as PyTorch names it; "": it does not. Each counts its collectives on its own.
using Progress = std::map<std::string, Steps>;

// Lines before the newest attempt of a job are left out: a rank that began to wait after a line of its own was started
// again in between. Of the other lines the lowest number of each rank in a group counts: it has not come further.
Progress progress_of(const std::vector<Waiting>& lines) {
  std::map<int, double> first;  // time of each rank's first line
  for (const Waiting& each : lines) {
    double& known = first.try_emplace(each.rank, each.until).first->second;
    known = std::fmin(known, each.until);
  }
  double begin = -std::numeric_limits<double>::infinity();
  for (const Waiting& each : lines)
    if (each.since > first.at(each.rank)) begin = std::max(begin, each.since);
  Progress progress;
  for (const Waiting& each : lines) {
    if (each.until < begin) continue;
    const std::pair at(each.number, each.operation);
    auto& lowest = progress[each.group].try_emplace(each.rank, at).first->second;
    if (each.number < lowest.first || (each.number == lowest.first && lowest.second.empty())) lowest = at;
  }
  return progress;
}

std::string named_ranks(const std::vector<int>& ranks) {
  constexpr std::size_t most_named = 4;
  return ranks.size() > most_named ? fmt::format("{} ranks", ranks.size())
                                   : fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

// "rank 7 at ALLREDUCE number 64088, 6 ranks at ALLREDUCE number 96117", the rank that is behind first.
std::string steps_text(const Steps& steps) {
  constexpr std::size_t most_named = 4;
  std::map<std::pair<std::uint64_t, std::string>, std::vector<int>> at;
  for (const auto& [rank, work] : steps) at[work].push_back(rank);
  std::vector<std::string> parts;
  std::size_t told = 0;
  for (const auto& [work, ranks] : at) {
    if (parts.size() == most_named) break;
    parts.push_back(
        fmt::format("{} at {}number {}", named_ranks(ranks), work.second.empty() ? "" : work.second + " ", work.first));
    told += ranks.size();
  }
  if (told < steps.size())
    parts.push_back(fmt::format("{} more up to number {}", steps.size() - told, at.rbegin()->first.first));
  return join(parts);
}

}  // namespace

std::string progress_text(const std::vector<Waiting>& lines) {
  constexpr std::size_t most_named = 4;
  const Progress progress = progress_of(lines);
  std::vector<const Progress::value_type*> groups;
  std::set<int> ranks;
  for (const Progress::value_type& group : progress) {
    groups.push_back(&group);
    for (const auto& [rank, work] : group.second) ranks.insert(rank);
  }
  std::ranges::stable_partition(groups, [](const Progress::value_type* group) {
    const Steps& steps = group->second;
    return std::ranges::any_of(steps, [&](const auto& each) { return each.second != steps.begin()->second; });
  });
  std::vector<std::string> parts;
  for (const Progress::value_type* group : groups) {
    if (parts.size() == most_named) break;
    const bool is_named = groups.size() > 1 && !group->first.empty();
    parts.push_back((is_named ? "in " + group->first + " " : "") + steps_text(group->second));
  }
  if (parts.size() < groups.size()) parts.push_back(fmt::format("{} more groups", groups.size() - parts.size()));
  std::vector<int> missing;
  for (std::int64_t next = 0; const int rank : ranks) {
    for (; next < rank && missing.size() <= ranks.size(); ++next) missing.push_back(static_cast<int>(next));
    next = std::int64_t{rank} + 1;
  }
  // Logs of few of the ranks say nothing of the others.
  if (!missing.empty() && missing.size() <= ranks.size())
    parts.push_back(fmt::format("no such line of {} (if {} given)", named_ranks(missing),
                                missing.size() == 1 ? "its log is" : "their logs are"));
  return join(parts, "; ");
}

}  // namespace p5::topo
