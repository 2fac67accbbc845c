#include "bench/job/text.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace p5::job {

std::string weights_of(const Job& job) {
  const std::vector<JobUse> uses = uses_of(job);
  const bool timed = std::ranges::all_of(uses, [](const JobUse& use) { return use.time.has_value(); });
  std::string text =
      fmt::format("# One step of a job of {} ranks: collective, bytes, share of the {}\n", job.ranks,
                  timed ? "time that it communicates" : "bytes that links carry (no times were recorded)");
  double total = 0;
  const auto part_of = [&](const JobUse& use) {
    const JobOperation& each = use.operation;
    return timed ? use.time->count
                 : static_cast<double>(each.bytes.count) * use.count * each.collective->bus_factor(each.ranks);
  };
  for (const JobUse& use : uses) total += part_of(use);
  for (const JobUse& use : uses)
    if (const double part = part_of(use); part > 0 && use.operation.bytes.count > 0)
      text += fmt::format("{} {} {:.6g}\n", use.operation.collective->name, use.operation.bytes.count, part / total);
  return text;
}

std::string traffic_csv(const TrafficOfGroups& traffic) {
  std::string text = fmt::format(
      "# all_to_allv of one step in a group ({}): a line for each sender, bytes for each receiver\n", traffic.group);
  for (const std::vector<std::uint64_t>& row : traffic.sent) text += fmt::format("{}\n", fmt::join(row, ","));
  return text;
}

}  // namespace p5::job
