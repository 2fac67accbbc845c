#include "bench/commands/tuning_stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace p5 {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

// NCCL counts for its tuners the whole message of the collectives that are measured here.
tuner::Cell cell_of(const Case& c) {
  return {.collective = std::string(c.collective->name), .bytes = c.bytes.count, .tuner_bytes = c.bytes.count};
}

tuner::Trial trial_of(const Trial& trial) {
  constexpr std::array outcomes{tuner::Trial::Outcome::measured, tuner::Trial::Outcome::failed,
                                tuner::Trial::Outcome::wrong_data, tuner::Trial::Outcome::skipped};
  return {outcomes.at(static_cast<std::size_t>(trial.outcome)), trial.time.count, trial.because};
}

}  // namespace

Extent extent_of(const std::string& mode) {
  if (mode == "full") return {{}, Bytes{8}, GiB(1), {3}, {90}, {1e-3}, 12, 4};
  return {{Bytes{8}, Bytes{128}, KiB(1)}, KiB(4), MiB(64), {0.7}, {6}, {0.5e-3}, 8, 2};
}

std::vector<tuner::Task> find_tasks(Trials& trials, std::vector<std::string>& remarks) {
  std::vector<tuner::Task> tasks;
  for (std::size_t at = 0; at < trials.cases().size(); ++at) {
    std::string problem;
    tuner::Task task{cell_of(trials.cases()[at]), {}};
    for (const Offer& offer : trials.offers({0, at}, problem))
      if (const auto setting = tuner::parse_setting(offer.setting))
        task.offers.push_back({*setting, offer.microseconds});
    if (!problem.empty())
      remarks.push_back(fmt::format("{} was left out: {}", describe(trials.cases()[at]), problem));
    else if (!task.offers.empty())
      tasks.push_back(std::move(task));
  }
  return tasks;
}

void burn_in(Trials& trials, const Extent& extent) {
  const auto start = Clock::now();
  do {
    for (std::size_t at = 0; at < trials.cases().size(); ++at) trials.block({0, at}, {"", ""}, extent.burst);
  } while (seconds_since(start) < extent.burn_in.count);
}

tuner::SearchResult search_with(Trials& trials, const std::vector<tuner::Task>& tasks, const Extent& extent,
                                const tuner::Constraints& constraints, std::uint64_t seed) {
  const auto at_of = [&](const tuner::Cell& cell) {
    const auto found = std::ranges::find_if(trials.cases(), [&](const Case& c) { return cell_of(c) == cell; });
    return static_cast<std::size_t>(found - trials.cases().begin());
  };
  const tuner::MeasureBlock measure = [&](const tuner::Cell& cell, const std::vector<tuner::Candidate>& candidates,
                                          int) {
    std::vector<std::string> settings;
    for (const tuner::Candidate& candidate : candidates)
      settings.push_back(candidate.is_default() ? "" : tuner::to_text(*candidate.setting));
    std::vector<tuner::Trial> outcomes;
    for (const Trial& trial : trials.block({0, at_of(cell)}, settings, extent.burst))
      outcomes.push_back(trial_of(trial));
    return outcomes;
  };
  const auto start = Clock::now();
  tuner::SearchRules rules;
  rules.seed = seed;
  // Inside a node more channels pay off with less: 4 x H200 (18 NVLinks, NVLS off, NCCL 2.28.3) gathered 32 KiB 8 %
  // faster with 8 channels.
  if (std::ranges::all_of(trials.cases(), [](const Case& c) { return c.nodes == 1; }))
    rules.candidates.bytes_per_channel = 4 << 10;
  return tuner::search(tasks, rules, constraints, measure, [&] { return extent.search.count - seconds_since(start); });
}

std::vector<tuner::Confirmation> confirm_with(Trials& trials, const Extent& extent) {
  constexpr std::size_t standard = 0, files = 1;
  std::vector<tuner::Confirmation> measured;
  for (const Case& c : trials.cases())
    measured.push_back({*tuner::parse_function(c.collective->name), c.bytes.count, {}, {}, {}});
  const std::vector<std::string> samples(static_cast<std::size_t>(extent.samples));
  for (int launch = 0; launch < extent.launches; ++launch)
    for (const std::size_t arm : {standard, files}) {
      if (launch > 0) trials.restart(arm);
      for (std::size_t at = 0; at < measured.size(); ++at) {
        auto& launches = (arm == files ? measured[at].tuned : measured[at].standard).emplace_back();
        for (const Trial& trial : trials.block({arm, at}, samples, extent.burst)) {
          if (trial.outcome == Trial::Outcome::measured) launches.push_back(trial.time.count);
          if (trial.outcome != Trial::Outcome::measured && arm == files) measured[at].failure = trial.because;
        }
      }
    }
  return measured;
}

}  // namespace p5
