#include "bench/app/tuning/alternatives.hpp"

#include <fmt/format.h>
#include <algorithm>

#include "bench/app/tuning/stages.hpp"
#include "bench/measure/trials.hpp"
#include "bench/model/agreement.hpp"
#include "tuner/arms.hpp"

namespace p5 {

namespace {

constexpr int samples_per_block = 4;
constexpr int confirmation_launches = 2;

class ArmSearch {
 public:
  ArmSearch(ControlPlane& control, const Machine& machine, const ArmTrial& trial, const tuner::TimeLeft& time_left)
      : control_(control), machine_(machine), trial_(trial), time_left_(time_left) {
    for (const Case& c : trial.cases) size_points_.push_back(point_of(c));
    std::vector<tuner::Weight> unused;
    weights_ = tuner::weights_for(size_points_, trial.weights, &unused);
    for (const tuner::Weight& weight : unused)
      result_.remarks.push_back(
          fmt::format("the weight of {} counts nowhere: it is not among what is measured", weight.collective));
  }

  ArmSearchResult run() {
    while (const std::optional<Environment> next = from_leader(control_, [&] { return next_arm(); })) {
      const double before = time_left_();
      const tuner::JudgedArm judged = judge(*next, 1, nullptr);
      longest_arm_s_ = std::max(longest_arm_s_, before - time_left_());
      if (control_.is_leader()) result_.judged.push_back(judged);
    }
    const std::optional<Environment> best = from_leader(control_, [&] { return best_arm(); });
    if (best) confirm_winner(*best);
    return std::move(result_);
  }

 private:
  // At the leader.
  std::optional<Environment> next_arm() {
    const std::optional<tuner::Arm> next =
        tuner::next_arm(tuner::knobs(), trial_.place, trial_.constraints, result_.judged, {});
    if (!next) return std::nullopt;
    // The best arm must be confirmed within the same time.
    if (time_left_() > longest_arm_s_ * (1 + confirmation_launches)) return next->environment;
    result_.remarks.push_back(fmt::format("no time left to try {} and what might follow", next->name));
    return std::nullopt;
  }

  // At the leader.
  std::optional<Environment> best_arm() const {
    const Environment best =
        tuner::best_arm(tuner::knobs(), trial_.place, trial_.constraints, result_.judged, {}).environment;
    return best.empty() ? std::nullopt : std::optional(best);
  }

  // The winner was selected among several by its measurement, so it has to win again, in fresh workers and without
  // making a band of sizes slower.
  void confirm_winner(const Environment& best) {
    std::string loses;
    const tuner::JudgedArm again = judge(best, confirmation_launches, &loses);
    if (!control_.is_leader()) return;
    const bool gains = again.objective && again.objective->interval.low > 1 &&
                       again.objective->speedup >= 1 + tuner::ArmRules{}.least_gain;
    if (gains && loses.empty())
      result_.best = best;
    else
      result_.remarks.push_back(
          fmt::format("{} {}", again.arm.name, gains ? loses : "was no faster in fresh processes"));
  }

  tuner::JudgedArm judge(const Environment& environment, int launches, std::string* loses) {
    const std::unique_ptr<Backend> arm = machine_.backend->arm(environment);
    Trials trials(control_, {machine_.backend.get(), arm.get()}, trial_.cases, trial_.runner);
    tuner::JudgedArm judged{tuner::make_arm(environment), std::nullopt};
    run_on_leader(control_, trials, [&] {
      const std::vector<tuner::ArmSizePoint> size_points = alternate(trials, launches);
      if (size_points.empty()) return;
      judged.objective = tuner::objective_of(size_points, weights_);
      if (loses) *loses = tuner::describe_slower_band(size_points);
    });
    arm->abandon();
    return judged;
  }

  // Empty if the arm failed or gave wrong data.
  std::vector<tuner::ArmSizePoint> alternate(Trials& trials, int launches) const {
    constexpr std::size_t default_arm = 0, trial_arm = 1;
    // A confirmation counts what an application sees, kernel launches included.
    const Quantity quantity = launches > 1 ? Quantity::throughput : Quantity::device;
    std::vector<AlternatedSize> sizes;
    for (std::size_t at = 0; at < size_points_.size(); ++at)
      sizes.push_back(
          {.sides = {{default_arm, at}, {trial_arm, at}}, .samples = samples_per_block, .quantities = {quantity}});
    bool failed = false;
    Alternation alternation(trials, std::move(sizes), {.burst = trial_.burst, .turns = 2, .may_continue = [&] {
                                                         return !(failed = alternation.failed(trial_arm));
                                                       }});
    for (int launch = 0; launch < launches && !failed; ++launch) alternation.launch();
    if (alternation.failed(trial_arm)) return {};
    std::vector<tuner::ArmSizePoint> size_points;
    for (std::size_t at = 0; at < size_points_.size(); ++at)
      size_points.push_back(
          {size_points_[at],
           {alternation.at(at, default_arm).of(quantity), alternation.at(at, trial_arm).of(quantity)}});
    return size_points;
  }

  ControlPlane& control_;
  const Machine& machine_;
  const ArmTrial& trial_;
  const tuner::TimeLeft& time_left_;
  std::vector<tuner::SizePoint> size_points_;
  std::vector<double> weights_;
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

CallModeSize call_mode_size(const tuner::SizePoint& point, const SideSamples& plain, const SideSamples& way) {
  CallModeSize size{
      .point = point, .gain = std::nullopt, .because = plain.failure.empty() ? way.failure : plain.failure};
  if (!size.because.empty()) return size;
  const tuner::BothSides both{plain.of(Quantity::throughput), way.of(Quantity::throughput)};
  const auto enough = [](const std::vector<Launch>& launches) {
    return !launches.empty() && launches.front().samples_s.size() >= min_samples;
  };
  if (enough(both.standard) && enough(both.tuned))
    size.gain = tuner::gain_of(both, band_of({point.bytes}).launch_spread);
  else
    size.because = "no time was left to measure it";
  return size;
}

}  // namespace

std::vector<CallModeResult> try_call_modes(ControlPlane& control, Backend& workers, const std::vector<Case>& cases,
                                           const RunnerOptions& runner, int nccl_version, Seconds burst,
                                           const tuner::TimeLeft& time_left) {
  std::vector<CallModeResult> tried;
  for (const tuner::CallMode& way : tuner::call_modes)
    if (way.since <= nccl_version) tried.push_back({way, {}});
  const std::size_t stride = 1 + tried.size();
  std::vector<Case> all;
  for (const Case& plain : cases) {
    all.push_back(plain);
    for (const CallModeResult& each : tried) {
      Case& c = all.emplace_back(plain);
      c.calls.cuda_graph = each.way.cuda_graph;
      c.calls.registration = each.way.registration;
    }
  }
  Trials trials(control, {&workers}, all, runner);
  run_on_leader(control, trials, [&] {
    std::vector<AlternatedSize> sizes(cases.size());
    for (std::size_t at = 0; at < cases.size(); ++at) {
      sizes[at].samples = mode_samples_per_block;
      sizes[at].quantities = {Quantity::throughput};
      for (std::size_t way = 0; way < stride; ++way) sizes[at].sides.push_back({0, at * stride + way});
    }
    Alternation alternation(trials, std::move(sizes),
                            {.burst = burst, .turns = turns, .may_continue = [&] { return time_left() > 0; }});
    alternation.launch();
    for (std::size_t way = 0; way < tried.size(); ++way)
      for (std::size_t at = 0; at < cases.size(); ++at)
        tried[way].sizes.push_back(
            call_mode_size(point_of(cases[at]), alternation.at(at, 0), alternation.at(at, 1 + way)));
  });
  return tried;
}

}  // namespace p5
