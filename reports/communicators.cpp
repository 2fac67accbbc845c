#include "reports/communicators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "bench/base/names.hpp"
#include "bench/base/units.hpp"
#include "reports/writer.hpp"

namespace p5::reports {

namespace {

// Results of communicators that have a time, in the order of the steps.
std::vector<const Measurement*> steps_in(const Report& report) {
  std::vector<const Measurement*> found;
  for (const Result* const result : in_reading_order(report))
    if (const Measurement& m = result->measurement; step_of(m.measured_case) && m.latency) found.push_back(&m);
  std::ranges::stable_sort(found, {}, [](const Measurement* m) { return step_of(m->measured_case); });
  return found;
}

std::string costs_text(const CommunicatorCosts& costs) {
  struct Cost {
    std::string_view name, of;
    double unit;
  };
  constexpr std::array shown{Cost{"gpu_memory_bytes", "MiB of GPU memory", 1 << 20},
                             Cost{"host_memory_bytes", "MiB of host memory", 1 << 20},
                             Cost{"file_descriptors", "file descriptors", 1}, Cost{"connections", "connections", 1}};
  constexpr std::string_view begin = "init_", end = "_s";
  std::vector<std::string> words;
  for (const Cost& cost : shown)
    if (const auto at = costs.find(std::string(cost.name)); at != costs.end() && at->second >= 0.5 * cost.unit)
      words.push_back(fmt::format("{:.0f} {}", at->second / cost.unit, cost.of));
  for (const auto& [name, seconds] : costs)
    if (name.starts_with(begin) && name.ends_with(end) && seconds > 0)
      words.push_back(fmt::format("{} {}", name.substr(begin.size(), name.size() - begin.size() - end.size()),
                                  to_text(Seconds{seconds})));
  return words.empty() ? "" : fmt::format(" ({})", join(words));
}

std::string of_arm(const std::string& arm) { return arm == "default" ? "" : fmt::format(" of arm {}", arm); }

}  // namespace

std::vector<StepGrowth> growth_of_steps(const Report& report) {
  std::map<std::pair<std::string, const CommunicatorStep*>, std::map<int, const Measurement*>> by_ranks;
  for (const Measurement* const m : steps_in(report)) {
    const Case& c = m->measured_case;
    if (c.group != "world" && !c.group.starts_with("first:")) continue;
    by_ranks[{c.arm, step_of(c)}].try_emplace(c.ranks, m);  // the smallest operation comes first
  }
  std::vector<StepGrowth> all;
  for (const auto& [which, measured] : by_ranks) {
    constexpr std::size_t least = 3;
    if (measured.size() < least) continue;
    std::vector<TimeOfRanks> times;
    for (const auto& [ranks, m] : measured) times.push_back({ranks, m->latency->summary.median});
    all.push_back({which.second, which.first, times.front().ranks, times.back().ranks, fit_growth(times)});
  }
  return all;
}

std::vector<std::string> communicator_sentences(const Report& report) {
  std::map<std::string, std::vector<std::string>> by_arm;
  for (const Measurement* const m : steps_in(report)) {
    const Case& c = m->measured_case;
    if (c.group.starts_with("first:")) continue;
    const bool makes_one = c.pattern == "init" || c.pattern == "split";
    by_arm[c.arm].push_back(
        fmt::format("{}{} {}{}", step_of(c)->shown, c.bytes.count > 0 ? " of " + to_text(c.bytes) : "",
                    to_text(Seconds{m->latency->summary.median}), makes_one ? costs_text(m->communicator_costs) : ""));
  }
  std::vector<std::string> sentences;
  for (const auto& [arm, words] : by_arm)
    sentences.push_back(fmt::format("Communicators{}: {}", of_arm(arm), join(words)));
  for (const StepGrowth& growth : growth_of_steps(report))
    sentences.push_back(fmt::format("{}{}: {:.3g} ms and {:.3g} ms more for each rank, from {} to {} ranks",
                                    growth.step->shown, of_arm(growth.arm), 1e3 * growth.fit.fixed_s,
                                    1e3 * growth.fit.per_rank_s, growth.least_ranks, growth.most_ranks));
  return sentences;
}

}  // namespace p5::reports
