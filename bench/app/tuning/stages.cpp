#include "bench/app/tuning/stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "bench/base/environment.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "bench/measure/trials.hpp"
#include "bench/model/agreement.hpp"
#include "tuner/arms.hpp"

namespace p5 {

namespace {

// Expected seconds of one operation with the default, from the nearest searched size; longer messages scale linearly.
// For a case with works beside it they are those of a whole sample, since all samples take about the same time.
double expected_s(const tuner::SearchResult& search, const Case& c) {
  double seconds = 0, nearest = 0;
  for (const tuner::Record& record : search.records) {
    const std::vector<double> samples = tuner::samples_of(record, {});
    if (record.point.collective != c.collective->name || samples.empty()) continue;
    const double ratio =
        static_cast<double>(c.bytes.count) / static_cast<double>(std::max<std::uint64_t>(record.point.bytes, 1));
    const double distance = std::abs(std::log(std::max(ratio, 1e-9)));
    if (seconds > 0 && distance >= nearest) continue;
    nearest = distance;
    seconds = median(samples) * (record.operations.empty() ? std::max(1.0, ratio) : record.operations.front());
  }
  return seconds;
}

// Adds the failures of the default, which is the first side of the alternation at each point. A case that the library
// cannot perform is none.
void add_failures_of_default(const Alternation& alternation, const std::vector<tuner::SizePoint>& points,
                             std::vector<tuner::Failure>& failures) {
  for (std::size_t at = 0; at < points.size(); ++at)
    if (const SideSamples& found = alternation.at(at, 0);
        !found.failure.empty() && found.outcome != Trial::Outcome::skipped)
      failures.push_back({points[at], {}, found.outcome, found.failure});
}

std::vector<tuner::SizePoint> points_of(const std::vector<Case>& cases) {
  std::vector<tuner::SizePoint> points;
  for (const Case& c : cases) points.push_back(point_of(c));
  return points;
}

// Time for the ranks to agree on a sample; it is also part of the preparation of a repetition.
constexpr double agreement_s = 1e-3;

// True if another launch does not fit, where `began` was left at the start of the last one.
bool is_spent(const tuner::TimeLeft& left, double began) {
  constexpr double spare = 1.1;  // factor on the duration of the last launch
  return left() < spare * (began - left());
}

}  // namespace

tuner::SizePoint point_of(const Case& c) {
  return {.collective = std::string(c.collective->name), .bytes = c.bytes.count};
}

void run_on_leader(ControlPlane& control, Trials& trials, const std::function<void()>& lead) {
  if (!control.is_leader()) return trials.follow();
  try {
    lead();
  } catch (...) {
    trials.finish();
    throw;
  }
  trials.finish();
}

bool may_use_nvls(const std::vector<tuner::Record>& records, const tuner::Constraints& constraints) {
  constexpr std::array algorithms{tuner::Algorithm::nvls, tuner::Algorithm::nvls_tree};
  if (records.empty())
    return std::ranges::any_of(algorithms, [&](tuner::Algorithm algorithm) {
      return constraints.allows(tuner::Function::all_reduce, {.algorithm = algorithm});
    });
  const auto is_nvls = [&](const tuner::CostEntry& entry) {
    return std::ranges::find(algorithms, entry.setting.algorithm) != algorithms.end();
  };
  return std::ranges::any_of(records,
                             [&](const tuner::Record& record) { return std::ranges::any_of(record.offered, is_nvls); });
}

std::vector<tuner::Task> find_tasks(Trials& trials, std::vector<tuner::Failure>& failures) {
  std::vector<tuner::Task> tasks;
  for (std::size_t at = 0; at < trials.cases().size(); ++at) {
    std::string problem;
    tuner::Task task{point_of(trials.cases()[at]), {}};
    for (const Offer& offer : trials.cost_table({0, at}, problem))
      if (const auto setting = tuner::parse_setting(offer.setting))
        task.offered.push_back({*setting, offer.microseconds, offer.chosen});
    if (!problem.empty()) {
      failures.push_back({task.point, {}, Trial::Outcome::failed, std::move(problem)});
      break;
    }
    if (!task.offered.empty()) tasks.push_back(std::move(task));
  }
  return tasks;
}

std::string reason_for_no_tasks(const Trials& trials) {
  for (std::size_t at = 0; at < trials.cases().size(); ++at)
    if (const std::string why = trials.why_unavailable(at); !why.empty()) return why + ".";
  return "The library offers nothing to a tuner.";
}

void burn_in(Trials& trials, const TuningLimits& tuning_limits, std::vector<tuner::Failure>& failures) {
  const Burst burst{tuning_limits.burst, tuning_limits.beside ? Quantity::together : Quantity::device};
  const auto start = Clock::now();
  do {
    for (std::size_t at = 0; at < trials.cases().size(); ++at)
      for (const Trial& trial : trials.block({0, at}, {"", ""}, burst)) {
        if (trial.outcome == Trial::Outcome::failed || trial.outcome == Trial::Outcome::wrong_data)
          failures.push_back({point_of(trials.cases()[at]), {}, trial.outcome, trial.because});
        if (trial.outcome == Trial::Outcome::failed) return;
      }
  } while (since(start).count < tuning_limits.burn_in.count);
}

tuner::SearchResult search_with(Trials& trials, const std::vector<tuner::Task>& tasks,
                                const TuningLimits& tuning_limits, const tuner::Constraints& constraints,
                                std::uint64_t seed, const tuner::TimeLeft& time_left) {
  const auto at_of = [&](const tuner::SizePoint& point) {
    const auto found = std::ranges::find_if(trials.cases(), [&](const Case& c) { return point_of(c) == point; });
    return static_cast<std::size_t>(found - trials.cases().begin());
  };
  const tuner::MeasureBlock measure = [&](const tuner::SizePoint& point,
                                          const std::vector<tuner::Candidate>& candidates, tuner::Stage stage) {
    const bool bound = stage == tuner::Stage::bound;
    const Quantity quantity = tuning_limits.beside ? (bound ? Quantity::device : Quantity::together)
                                                   : (bound ? Quantity::throughput : Quantity::device);
    std::vector<std::string> settings;
    for (const tuner::Candidate& candidate : candidates)
      settings.push_back(candidate.is_default() ? "" : tuner::to_text(*candidate.setting));
    return trials.block({0, at_of(point)}, settings, {tuning_limits.burst, quantity});
  };
  tuner::SearchRules rules;
  rules.seed = seed;
  rules.exhaustive = tuning_limits.exhaustive;
  // Within an NVLink domain more channels pay off for smaller messages: 4 x H200 (18 NVLinks, NVLS off, NCCL 2.28.3)
  // gathered 32 KiB 8 % faster with 8 channels.
  if (std::ranges::all_of(trials.cases(), [](const Case& c) { return domains_of(c) == 1; }))
    rules.candidates.bytes_per_channel = 4 << 10;
  if (tuning_limits.beside) {
    constexpr int steps_to_least = 6;
    rules.beside = tuning_limits.beside;
    rules.candidates.channels = {tuner::channels_beside.begin(), tuner::channels_beside.end()};
    rules.channel_steps = steps_to_least;
  }
  tuner::SearchResult found = tuner::search(tasks, rules, constraints, measure, time_left);
  for (tuner::Record& record : found.records) record.operations = trials.operations_together(at_of(record.point));
  return found;
}

std::set<tuner::SizePoint> points_to_confirm(const tuner::Table& table, const std::vector<tuner::Record>& records) {
  std::set<tuner::SizePoint> points;
  std::map<std::string, std::set<tuner::SizePoint>> without_row;
  for (const tuner::Record& record : records) {
    const bool has_row = std::ranges::any_of(
        table.rows, [&](const tuner::Row& row) { return tuner::name_of(row.function) == record.point.collective; });
    if (has_row)
      points.insert(record.point);
    else if (!tuner::samples_of(record, {}).empty())
      without_row[record.point.collective].insert(record.point);
  }
  for (const auto& [collective, its] : without_row) {
    points.insert(*its.begin());
    points.insert(*std::next(its.begin(), static_cast<std::ptrdiff_t>(its.size() / 2)));
    points.insert(*its.rbegin());
  }
  const auto element = static_cast<std::uint64_t>(size_of(DataType::float32));
  for (const tuner::HeldOutSize& held :
       tuner::held_out_sizes(table.rows, element, element * static_cast<std::uint64_t>(table.ranks)))
    points.insert({std::string(tuner::name_of(held.function)), held.bytes});
  return points;
}

std::vector<tuner::Confirmation> confirm_with(Trials& trials, const TuningLimits& tuning_limits,
                                              const tuner::Table& table, const tuner::SearchResult& search,
                                              const tuner::TimeLeft& time_left, const tuner::TimeLeft& budget_left,
                                              std::vector<tuner::Failure>& failures) {
  constexpr std::size_t standard = 0, files = 1;
  constexpr int most_file_failures = 2;  // each may cost a timeout
  const double alone_loss = tuning_limits.beside ? tuning_limits.beside->alone_loss : 0;
  std::vector<tuner::Confirmation> measured;
  std::vector<tuner::SamplePlan> sizes;
  std::vector<AlternatedSize> alternated;
  for (std::size_t at = 0; at < trials.cases().size(); ++at) {
    const Case& c = trials.cases()[at];
    const tuner::Function function = *tuner::parse_function(c.collective->name);
    const double operation_s = expected_s(search, c);
    const bool host_counts = !tuning_limits.beside && operation_s < tuner::launch_counts_below_s;
    const bool two_quantities = host_counts || tuning_limits.beside;
    const double sample_s = std::max(operation_s, tuning_limits.burst.count) * (two_quantities ? 2 : 1) + agreement_s;
    // The same steps as Trials::prepare().
    const double preparation_s = 3 * operation_s + std::max(operation_s, tuning_limits.burst.count) + 5 * agreement_s;
    sizes.push_back({function, c.bytes.count, tuner::find_row(table, function, c.bytes.count) != nullptr, sample_s, 0,
                     preparation_s});
    const bool searched = std::ranges::any_of(search.records, [&](const tuner::Record& record) {
      return record.point.collective == c.collective->name && record.point.bytes == c.bytes.count;
    });
    measured.push_back({.function = function, .bytes = c.bytes.count, .device = {}, .held_out = !searched});
    alternated.push_back({.sides = {{standard, at}, {files, at}}});
    if (host_counts) alternated.back().quantities.push_back(Quantity::throughput);
    if (tuning_limits.beside) alternated.back().quantities = {Quantity::together, Quantity::device};
  }
  const double before = time_left();
  trials.prepare({standard, files});
  std::vector<Trial> first_uses;  // of the workers of each arm
  for (const std::size_t arm : {standard, files})
    first_uses.push_back(trials.block({arm, 0}, {""}, {tuning_limits.burst}).front());
  const double joining_s = (before - time_left()) / 2, processes = 2.0 * tuning_limits.planned_launches;
  tuner::allocate_samples(sizes, (time_left() - (processes - 2) * joining_s) / processes, tuning_limits.samples);
  for (std::size_t at = 0; at < sizes.size(); ++at) alternated[at].samples = sizes[at].samples;
  bool cut = false;  // the last launch is not whole: its times do not count
  const auto may_continue = [&](const Alternation& alternation) {
    return budget_left() > 0 && alternation.failures(standard) == 0 && alternation.failures(files) < most_file_failures;
  };
  Alternation alternation(trials, std::move(alternated),
                          {.burst = tuning_limits.burst, .turns = 1, .may_continue = [&] {
                             cut = !may_continue(alternation);
                             return !cut;
                           }});
  for (const std::size_t arm : {standard, files}) alternation.add_failure(0, arm, first_uses[arm]);
  const auto taken = [&](std::size_t at, Quantity quantity) {
    return tuner::BothSides{alternation.at(at, standard).of(quantity), alternation.at(at, files).of(quantity)};
  };
  int launches = 0;  // whole ones
  for (bool more = true; more;) {
    const double began = time_left(), budget_began = budget_left();
    alternation.launch();
    if (!cut) launches = alternation.launches();
    for (std::size_t at = 0; at < measured.size(); ++at) {
      if (!cut) {
        measured[at].device = taken(at, tuning_limits.beside ? Quantity::together : Quantity::device);
        measured[at].throughput = taken(at, Quantity::throughput);
        if (tuning_limits.beside) measured[at].alone = taken(at, Quantity::device);
      }
      measured[at].failure = alternation.at(at, files).failure;
      measured[at].outcome = alternation.at(at, files).outcome;
      measured[at].standard_failure = alternation.at(at, standard).failure;
    }
    const bool settled =
        launches >= tuning_limits.planned_launches && !tuner::confirm(table, measured, alone_loss).undecided;
    const bool spent = is_spent(time_left, began) || is_spent(budget_left, budget_began);
    more = may_continue(alternation) &&
           (launches < least_launches || (launches < tuning_limits.most_launches && !settled && !spent));
  }
  if (launches < least_launches)
    for (tuner::Confirmation& size : measured) size.device = size.throughput = size.alone = {};
  add_failures_of_default(alternation, points_of(trials.cases()), failures);
  std::erase_if(measured, [](const tuner::Confirmation& size) {
    return size.device.standard.empty() && size.standard_failure.empty() && size.failure.empty();
  });
  return measured;
}

StepConfirmation confirm_step_with(Trials& trials, const TuningLimits& tuning_limits,
                                   const tuner::TimeLeft& budget_left, std::vector<tuner::Failure>& failures) {
  constexpr std::size_t standard = 0, files = 1;
  constexpr int usual_launches = 3, most_launches = 7;
  const double launch_spread = band_of(trials.cases().front()).launch_spread;
  // Each side has the devices to itself, as the job has: its buffers may take most of their memory.
  Alternation alternation(
      trials,
      {{.sides = {{standard, 0}, {files, 0}}, .samples = tuning_limits.samples, .quantities = {Quantity::throughput}}},
      {.burst = tuning_limits.burst, .apart = true});
  StepConfirmation result;
  for (bool more = true; more;) {
    const double began = budget_left();
    alternation.launch();
    const tuner::BothSides both{alternation.at(0, standard).of(Quantity::throughput),
                                alternation.at(0, files).of(Quantity::throughput)};
    add_failures_of_default(alternation, points_of(trials.cases()), failures);
    for (const std::size_t side : {standard, files})
      if (const std::string& failure = alternation.at(0, side).failure; !failure.empty())
        return {.gain = std::nullopt, .failure = failure, .of_default = side == standard};
    if (!both.measured()) return {.gain = std::nullopt, .failure = "no time was left for it"};
    const Sides sides = both.sides();
    result.gain = tuner::gain_of(both, tuner::spread_of_processes({&sides, 1}, launch_spread));
    const bool clear = result.gain->interval.low > 0 || result.gain->interval.high < 0;
    more = alternation.launches() < least_launches
               ? budget_left() > 0
               : !is_spent(budget_left, began) && alternation.launches() < (clear ? usual_launches : most_launches);
  }
  if (alternation.launches() < least_launches) return {.gain = std::nullopt, .failure = "no time was left for it"};
  return result;
}

StepTime time_step_with(Trials& trials, const TuningLimits& tuning_limits, std::vector<tuner::Failure>& failures) {
  Alternation once(trials, {{.sides = {{0, 0}}, .samples = 1, .quantities = {Quantity::throughput}}},
                   {.burst = tuning_limits.burst});
  once.launch();
  add_failures_of_default(once, points_of(trials.cases()), failures);
  const SideSamples& found = once.at(0, 0);
  if (!found.failure.empty()) return {.other_samples = {0}, .failure = found.failure};
  const double sample_s = std::max(found.of(Quantity::throughput).front().median_s, tuning_limits.burst.count);
  return {.other_samples = {(tuning_limits.samples - 1) * sample_s}, .failure = ""};
}

namespace {

constexpr int samples_per_block = 4;
// The launches of a confirmation beyond the least, for which time is kept: the first number is made unless the time is
// spent, and the second is the maximum while more could change the result.
constexpr int planned_launches = 3, most_launches_of_arm = 6;

class ArmSearch {
 public:
  ArmSearch(ControlPlane& control, const Machine& machine, const ArmTrial& trial, const tuner::TimeLeft& time_left)
      : control_(control),
        machine_(machine),
        trial_(trial),
        time_left_(time_left),
        own_default_(trial.of_default.empty() ? nullptr : machine.backend->arm(trial.of_default)),
        size_points_(points_of(trial.cases)) {
    std::vector<tuner::Weight> unused;
    weights_ = tuner::weights_for(size_points_, trial.weights, &unused);
    for (const tuner::Weight& weight : unused)
      result_.remarks.push_back(
          fmt::format("the weight of {} counts nowhere: it is not among what is measured", weight.collective));
    if (trial.beside) rules_.alone_loss = trial.beside->alone_loss;
    std::vector<std::string> contradicting;
    for (const tuner::Knob& knob : tuner::knobs())
      if (tuner::applies(knob, trial.place) && !trial.constraints.operator_variables.contains(knob.name) &&
          !trial.constraints.allows_variable(knob.name))
        contradicting.push_back(knob.name);
    if (!contradicting.empty())
      result_.remarks.push_back(
          fmt::format("a variable that limits channels is set, so {} is not tried", join(contradicting, " or ")));
    counts_ = std::ranges::any_of(weights_, [](double weight) { return weight > 0; });
    if (!counts_) result_.remarks.push_back("no weight counts, so no variables are tried");
  }

  ArmSearchResult run() {
    while (const std::optional<Environment> next = from_leader(control_, [&] { return next_arm(); })) {
      const double before = time_left_();
      const tuner::JudgedArm judged = judge(*next, false).arm;
      longest_arm_s_ = std::max(longest_arm_s_, before - time_left_());
      if (control_.is_leader() && result_.unavailable.empty()) result_.judged.push_back(judged);
    }
    const std::optional<Environment> best = from_leader(control_, [&] { return best_arm(); });
    if (best) confirm_winner(*best);
    if (own_default_) own_default_->abandon();
    return std::move(result_);
  }

 private:
  // At the leader.
  std::optional<Environment> next_arm() {
    if (!counts_ || !result_.unavailable.empty() || !result_.failures.empty()) return std::nullopt;
    const std::optional<tuner::Arm> next =
        tuner::next_arm(tuner::knobs(), trial_.place, trial_.constraints, result_.judged, rules_);
    if (!next) return std::nullopt;
    // The best arm must be confirmed within the same time.
    if (time_left_() > longest_arm_s_ * (1 + least_launches)) return next->environment;
    result_.remarks.push_back(fmt::format("no time left to try {} and what might follow", next->name));
    return std::nullopt;
  }

  // At the leader.
  std::optional<Environment> best_arm() const {
    if (!result_.failures.empty()) return std::nullopt;
    const Environment best =
        tuner::best_arm(tuner::knobs(), trial_.place, trial_.constraints, result_.judged, rules_).environment;
    return best.empty() ? std::nullopt : std::optional(best);
  }

  // The winner was selected among several by its measurement, so it has to win again, in fresh workers and without
  // making a band of sizes slower, with its launches either.
  void confirm_winner(const Environment& best) {
    const Judged again = judge(best, true);
    if (!control_.is_leader()) return;
    const std::string why =
        tuner::reason_not_to_adopt(again.arm, again.failure, again.slower_band ? again.slower_band->text : "", rules_);
    if (why.empty())
      result_.best = again.arm;
    else
      result_.remarks.push_back(fmt::format("{} {}", again.arm.arm.name, why));
  }

  struct Judged {
    tuner::JudgedArm arm;
    std::string failure = {};  // of the arm, as a predicate
    std::optional<tuner::SlowerBand> slower_band = {};
  };

  // `confirms`: in several launches, which also tell whether a band of sizes is slower.
  Judged judge(const Environment& environment, bool confirms) {
    const std::unique_ptr<Backend> arm = machine_.backend->arm(with_changes(trial_.of_default, environment));
    Backend* const standard = own_default_ ? own_default_.get() : machine_.backend.get();
    Trials trials(control_, {standard, arm.get()}, trial_.cases, trial_.runner);
    Judged judged{{tuner::make_arm(environment), std::nullopt}};
    run_on_leader(control_, trials, [&] { alternate(trials, confirms, judged); });
    arm->abandon();
    return judged;
  }

  // The first failure of a side as a predicate; "" without one.
  std::string failure_of(const Alternation& alternation, std::size_t side) const {
    for (std::size_t at = 0; at < size_points_.size(); ++at)
      if (const SideSamples& found = alternation.at(at, side);
          !found.failure.empty() && alternation.at(at, 0).outcome != Trial::Outcome::skipped)
        return fmt::format("{} in fresh processes at {} {}: {}",
                           found.outcome == Trial::Outcome::wrong_data ? "gave wrong data" : "failed",
                           size_points_[at].collective, to_text(Bytes{size_points_[at].bytes}), found.failure);
    return "";
  }

  // At the leader.
  void alternate(Trials& trials, bool confirms, Judged& judged) {
    constexpr std::size_t default_arm = 0, trial_arm = 1;
    // The first one decides: processes differ much more in how fast the host launches than by the device's own time.
    std::vector<Quantity> quantities{trial_.beside ? Quantity::together : Quantity::device};
    if (trial_.beside)
      quantities.push_back(Quantity::device);
    else if (confirms)  // what an application sees, kernel launches included
      quantities.push_back(Quantity::throughput);
    std::vector<AlternatedSize> sizes;
    for (std::size_t at = 0; at < size_points_.size(); ++at)
      sizes.push_back(
          {.sides = {{default_arm, at}, {trial_arm, at}}, .samples = samples_per_block, .quantities = quantities});
    const auto may_continue = [&](const Alternation& alternation) {
      return !alternation.failed(trial_arm) && alternation.failures(default_arm) == 0;
    };
    Alternation alternation(trials, std::move(sizes), {.burst = trial_.burst, .turns = 2, .may_continue = [&] {
                                                         return may_continue(alternation);
                                                       }});
    for (bool more = true; more && may_continue(alternation);) {
      const double began = time_left_();
      alternation.launch();
      if (!may_continue(alternation)) break;
      judge_times(alternation, quantities, confirms, judged);
      const bool undecided =
          alternation.launches() < planned_launches || (alternation.launches() < most_launches_of_arm &&
                                                        tuner::is_undecided(judged.arm, judged.slower_band, rules_));
      more = confirms && (alternation.launches() < least_launches || (undecided && !is_spent(time_left_, began)));
    }
    add_failures_of_default(alternation, size_points_, result_.failures);
    bool any = false;  // a size that counts can be performed
    for (std::size_t at = 0; at < size_points_.size(); ++at)
      any |= weights_[at] > 0 && alternation.at(at, default_arm).outcome != Trial::Outcome::skipped;
    if (!any) result_.unavailable = reason_for_no_tasks(trials);
    if (may_continue(alternation)) return;
    judged.arm.objective = judged.arm.alone = std::nullopt;
    judged.failure = failure_of(alternation, trial_arm);
  }

  void judge_times(const Alternation& alternation, const std::vector<Quantity>& quantities, bool confirms,
                   Judged& judged) const {
    const auto times_of = [&](Quantity which) {
      std::vector<tuner::ArmSizePoint> size_points;
      for (std::size_t at = 0; at < size_points_.size(); ++at)
        size_points.push_back({size_points_[at], {alternation.at(at, 0).of(which), alternation.at(at, 1).of(which)}});
      return size_points;
    };
    const std::vector<tuner::ArmSizePoint> size_points = times_of(quantities.front());
    judged.arm.objective = tuner::objective_of(size_points, weights_);
    if (trial_.beside) judged.arm.alone = tuner::objective_of(times_of(Quantity::device), weights_);
    if (!confirms) return;
    judged.slower_band = tuner::find_slower_band(size_points);
    if (judged.slower_band && judged.slower_band->certain) return;
    const std::optional<tuner::SlowerBand> second =
        trial_.beside ? tuner::find_slower_band(times_of(Quantity::device), rules_.alone_loss, " alone")
                      : tuner::find_slower_band(times_of(Quantity::throughput), 2 * tuner::tolerated_loss,
                                                " with the time to launch them");
    if (second && (second->certain || !judged.slower_band)) judged.slower_band = second;
  }

  ControlPlane& control_;
  const Machine& machine_;
  const ArmTrial& trial_;
  const tuner::TimeLeft& time_left_;
  std::unique_ptr<Backend> own_default_;  // null: the machine's
  std::vector<tuner::SizePoint> size_points_;
  std::vector<double> weights_;
  tuner::ArmRules rules_;
  bool counts_ = false;       // a size point has a weight
  double longest_arm_s_ = 0;  // longest time of an arm so far
  ArmSearchResult result_;
};

}  // namespace

ArmSearchResult try_arms(ControlPlane& control, const Machine& machine, const ArmTrial& trial,
                         const tuner::TimeLeft& time_left) {
  return ArmSearch(control, machine, trial, time_left).run();
}

namespace {

constexpr int turns = 8, mode_samples_per_block = 3;
// Minimum for a useful median.
constexpr std::size_t min_samples = 6;

// The first quantity decides; the second, if there is one, is that of operations alone.
CallModeSize call_mode_size(const tuner::SizePoint& point, const std::vector<Quantity>& quantities,
                            const SideSamples& plain, const SideSamples& way) {
  CallModeSize size{
      .point = point, .gain = std::nullopt, .because = plain.failure.empty() ? way.failure : plain.failure};
  if (!size.because.empty()) return size;
  const auto gain = [&](Quantity quantity) -> std::optional<tuner::Gain> {
    const tuner::BothSides both{plain.of(quantity), way.of(quantity)};
    for (const std::vector<Launch>* launches : {&both.standard, &both.tuned})
      if (launches->empty() || launches->front().samples_s.size() < min_samples) return std::nullopt;
    return tuner::gain_of(both, band_of({point.bytes}).launch_spread);
  };
  size.gain = gain(quantities.front());
  if (quantities.size() > 1) size.alone = gain(quantities.back());
  if (!size.gain) size.because = "no time was left to measure it";
  return size;
}

}  // namespace

std::vector<CallModeResult> try_call_modes(ControlPlane& control, Backend& workers, const std::vector<Case>& cases,
                                           const RunnerOptions& runner, int nccl_version, Seconds burst,
                                           const tuner::TimeLeft& time_left, std::vector<tuner::Failure>& failures) {
  const bool beside = !cases.front().beside.empty();
  const std::vector<Quantity> quantities =
      beside ? std::vector{Quantity::together, Quantity::device} : std::vector{Quantity::throughput};
  std::vector<CallModeResult> tried;
  for (const tuner::CallMode& way : tuner::call_modes) {
    const bool fits = beside ? !way.cuda_graph : way.cta_policy == CallOptions{}.cta_policy;
    if (fits && way.since <= nccl_version) tried.push_back({way, {}});
  }
  const std::size_t stride = 1 + tried.size();
  std::vector<Case> all;
  for (const Case& plain : cases) {
    all.push_back(plain);
    for (const CallModeResult& each : tried) {
      Case& c = all.emplace_back(plain);
      c.calls.cuda_graph = each.way.cuda_graph;
      c.calls.registration = each.way.registration;
      c.calls.cta_policy = each.way.cta_policy;
    }
  }
  Trials trials(control, {&workers}, all, runner);
  run_on_leader(control, trials, [&] {
    std::vector<AlternatedSize> sizes(cases.size());
    for (std::size_t at = 0; at < cases.size(); ++at) {
      sizes[at].samples = mode_samples_per_block;
      sizes[at].quantities = quantities;
      for (std::size_t way = 0; way < stride; ++way) sizes[at].sides.push_back({0, at * stride + way});
    }
    Alternation alternation(trials, std::move(sizes),
                            {.burst = burst, .turns = turns, .may_continue = [&] { return time_left() > 0; }});
    alternation.launch();
    add_failures_of_default(alternation, points_of(cases), failures);
    for (std::size_t way = 0; way < tried.size(); ++way)
      for (std::size_t at = 0; at < cases.size(); ++at)
        tried[way].sizes.push_back(
            call_mode_size(point_of(cases[at]), quantities, alternation.at(at, 0), alternation.at(at, 1 + way)));
  });
  return tried;
}

}  // namespace p5
