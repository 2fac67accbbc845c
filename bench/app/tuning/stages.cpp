#include "bench/app/tuning/stages.hpp"
#include "bench/base/clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

namespace p5 {

namespace {

tuner::Trial trial_of(const Trial& trial) {
  constexpr std::array outcomes{tuner::Trial::Outcome::measured, tuner::Trial::Outcome::failed,
                                tuner::Trial::Outcome::wrong_data, tuner::Trial::Outcome::skipped};
  return {outcomes.at(static_cast<std::size_t>(trial.outcome)), trial.time.count, trial.because};
}

// Seconds of one operation of the default: of the nearest size that was searched, longer with more bytes.
double expected_s(const tuner::SearchResult& search, const Case& c) {
  double seconds = 0, nearest = 0;
  for (const tuner::Record& record : search.records) {
    const std::vector<double> samples = tuner::samples_of(record, {});
    if (record.cell.collective != c.collective->name || samples.empty()) continue;
    const double ratio =
        static_cast<double>(c.bytes.count) / static_cast<double>(std::max<std::uint64_t>(record.cell.bytes, 1));
    const double distance = std::abs(std::log(std::max(ratio, 1e-9)));
    if (seconds > 0 && distance >= nearest) continue;
    nearest = distance;
    seconds = median(samples) * std::max(1.0, ratio);
  }
  return seconds;
}

// What the ranks need to agree on a sample, and its share of what a visit takes beforehand.
constexpr double agreeing_s = 1e-3;

}  // namespace

tuner::Cell cell_of(const Case& c) {
  return {.collective = std::string(c.collective->name), .bytes = c.bytes.count, .tuner_bytes = c.bytes.count};
}

void lead_together(World& world, Trials& trials, const std::function<void()>& lead) {
  if (!world.leads()) return trials.follow();
  try {
    lead();
  } catch (...) {
    trials.finish();
    throw;
  }
  trials.finish();
}

Extent extent_of(const std::string& mode) {
  if (mode == "quick")
    return {.small = {Bytes{8}, Bytes{128}, KiB(1)},
            .min = KiB(4),
            .max = MiB(64),
            .burn_in = {0.7},
            .search_end = {8.5},
            .again_end = {9.5},
            .arms_end = {9.5},
            .ways_end = {9.5},
            .end = {17},
            .burst = {0.5e-3},
            .samples = 8,
            .planned_launches = 2,
            .most_launches = 6};
  const bool exhaustive = mode == "exhaustive";
  const double most_s = exhaustive ? 1200 : 165;
  return {.small = {},
          .min = Bytes{8},
          .max = GiB(1),
          .burn_in = {3},
          .search_end = {0.45 * most_s},
          .again_end = {0.65 * most_s},
          .arms_end = {0.7 * most_s},
          .ways_end = {0.75 * most_s},
          .end = {most_s},
          .burst = {1e-3},
          .samples = 12,
          .planned_launches = 4,
          .most_launches = 12,
          .exhaustive = exhaustive};
}

bool on_efa(const topo::Topology& topology) {
  return std::ranges::any_of(topology.hosts, [](const topo::Host& host) {
    return std::ranges::any_of(host.nics, [](const topo::Nic& nic) { return nic.kind == "efa"; });
  });
}

std::string tuner_to_keep(const topo::Topology& topology) {
  if (!on_efa(topology)) return "";
  std::optional<std::string> found;
  for (const topo::Host& host : topology.hosts) {
    std::string here;
    std::set<std::string> folders;
    for (const std::string& path : host.net_plugins.value_or(std::vector<std::string>())) {
      folders.insert(path.substr(0, path.rfind('/')));
      if (here.empty() || path.ends_with("/libnccl-net-ofi.so")) here = path;
    }
    if (folders.size() != 1 || (found && *found != here)) return "";
    found = here;
  }
  return found.value_or("");
}

std::vector<tuner::Task> find_tasks(Trials& trials, std::vector<std::string>& remarks) {
  std::vector<tuner::Task> tasks;
  for (std::size_t at = 0; at < trials.cases().size(); ++at) {
    std::string problem;
    tuner::Task task{cell_of(trials.cases()[at]), {}};
    for (const Offer& offer : trials.offers({0, at}, problem))
      if (const auto setting = tuner::parse_setting(offer.setting))
        task.offers.push_back({*setting, offer.microseconds, offer.chosen});
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
    for (std::size_t at = 0; at < trials.cases().size(); ++at)
      trials.block({0, at}, {"", ""}, {extent.burst, Quantity::device});
  } while (since(start).count < extent.burn_in.count);
}

tuner::SearchResult search_with(Trials& trials, const std::vector<tuner::Task>& tasks, const Extent& extent,
                                const tuner::Constraints& constraints, std::uint64_t seed,
                                const tuner::TimeLeft& time_left, std::vector<tuner::Failure> failures) {
  const auto at_of = [&](const tuner::Cell& cell) {
    const auto found = std::ranges::find_if(trials.cases(), [&](const Case& c) { return cell_of(c) == cell; });
    return static_cast<std::size_t>(found - trials.cases().begin());
  };
  const tuner::MeasureBlock measure = [&](const tuner::Cell& cell, const std::vector<tuner::Candidate>& candidates,
                                          tuner::Visit visit) {
    const Quantity quantity = visit == tuner::Visit::launched ? Quantity::throughput : Quantity::device;
    std::vector<std::string> settings;
    for (const tuner::Candidate& candidate : candidates)
      settings.push_back(candidate.is_default() ? "" : tuner::to_text(*candidate.setting));
    std::vector<tuner::Trial> outcomes;
    for (const Trial& trial : trials.block({0, at_of(cell)}, settings, {extent.burst, quantity}))
      outcomes.push_back(trial_of(trial));
    return outcomes;
  };
  tuner::SearchRules rules;
  rules.seed = seed;
  rules.exhaustive = extent.exhaustive;
  // Inside a node more channels pay off with less: 4 x H200 (18 NVLinks, NVLS off, NCCL 2.28.3) gathered 32 KiB 8 %
  // faster with 8 channels.
  if (std::ranges::all_of(trials.cases(), [](const Case& c) { return c.nodes == 1; }))
    rules.candidates.bytes_per_channel = 4 << 10;
  return tuner::search(tasks, rules, constraints, measure, time_left, std::move(failures));
}

std::vector<tuner::Confirmation> confirm_with(Trials& trials, const Extent& extent, const tuner::Table& table,
                                              const tuner::SearchResult& search, const tuner::TimeLeft& time_left,
                                              const tuner::TimeLeft& budget_left) {
  constexpr std::size_t standard = 0, files = 1;
  constexpr int least_launches = 2, settling_launches = 4;  // where there is time
  constexpr double spare = 1.1;                             // of what a launch has taken
  std::vector<tuner::Confirmation> measured;
  std::vector<tuner::Measuring> sizes;
  std::vector<bool> launched;
  for (const Case& c : trials.cases()) {
    tuner::Confirmation& size = measured.emplace_back();
    size.function = *tuner::parse_function(c.collective->name);
    size.tuner_bytes = c.bytes.count;
    const double operation_s = expected_s(search, c);
    launched.push_back(operation_s < tuner::launches_count_s);
    const double sample_s = std::max(operation_s, extent.burst.count) * (launched.back() ? 2 : 1) + agreeing_s;
    // As Trials::prepare() does it.
    const double preparation_s = 3 * operation_s + std::max(operation_s, extent.burst.count) + 5 * agreeing_s;
    sizes.push_back({size.function, size.tuner_bytes,
                     tuner::find_row(table, size.function, size.tuner_bytes) != nullptr, sample_s, 0, preparation_s});
  }
  const auto before = time_left();
  trials.prepare({standard, files});
  for (const std::size_t arm : {standard, files}) trials.block({arm, 0}, {""}, {extent.burst});
  const double joining_s = (before - time_left()) / 2, processes = 2.0 * extent.planned_launches;
  tuner::share_time(sizes, (time_left() - (processes - 2) * joining_s) / processes, extent.samples);
  const auto measure = [&](TrialPlace place, Quantity quantity, std::vector<std::vector<double>>& launches,
                           std::string& failure) {
    const std::vector<std::string> samples(static_cast<std::size_t>(sizes[place.at].samples));
    std::vector<double>& times = launches.emplace_back();
    for (const Trial& trial : trials.block(place, samples, {extent.burst, quantity})) {
      if (trial.outcome == Trial::Outcome::measured) times.push_back(trial.time.count);
      if (trial.outcome != Trial::Outcome::measured && place.arm == files) failure = trial.because;
    }
  };
  const auto measure_all = [&](std::size_t arm) {
    for (std::size_t at = 0; at < measured.size(); ++at) {
      if (sizes[at].samples == 0) continue;
      tuner::Confirmation& size = measured[at];
      measure({arm, at}, Quantity::device, arm == files ? size.tuned : size.standard, size.failure);
      if (launched[at])
        measure({arm, at}, Quantity::throughput, arm == files ? size.launched_tuned : size.launched_standard,
                size.failure);
    }
  };
  for (int launch = 1; launch <= extent.most_launches; ++launch) {
    const double began = time_left(), budget_began = budget_left();
    if (launch > 1) trials.restart({standard, files});
    for (const std::size_t arm : {standard, files}) measure_all(arm);
    if (launch < least_launches) continue;
    const bool settled = launch >= settling_launches && !tuner::confirm(table, measured).undecided;
    const bool spent =
        time_left() < spare * (began - time_left()) || budget_left() < spare * (budget_began - budget_left());
    if (settled || spent) break;
  }
  std::erase_if(measured, [](const tuner::Confirmation& size) { return size.standard.empty(); });
  return measured;
}

}  // namespace p5
