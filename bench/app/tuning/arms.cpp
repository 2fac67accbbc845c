#include "bench/app/tuning/arms.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/app/tuning/stages.hpp"
#include "bench/measure/trials.hpp"
#include "tuner/arms.hpp"

namespace p5 {

namespace {

using nlohmann::json;

constexpr int samples_in_a_turn = 4;
constexpr int launches_to_believe = 2;

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

  ArmsTried run() {
    while (const std::optional<Environment> next = agree_on(next_arm())) {
      const double before = time_left_();
      const tuner::JudgedArm judged = judge(*next, 1, nullptr);
      longest_s_ = std::max(longest_s_, before - time_left_());
      if (control_.is_leader()) result_.judged.push_back(judged);
    }
    const std::optional<Environment> best = agree_on(best_arm());
    if (best) believe(*best);
    return std::move(result_);
  }

 private:
  // The leader's choice, known to all.
  std::optional<Environment> agree_on(const std::optional<Environment>& mine) {
    const json said = json::parse(control_.broadcast(mine ? json(*mine).dump() : "null"));
    if (said.is_null()) return std::nullopt;
    return said.get<Environment>();
  }

  std::optional<Environment> next_arm() {
    if (!control_.is_leader()) return std::nullopt;
    const std::optional<tuner::Arm> next =
        tuner::next_arm(tuner::knobs(), trial_.place, trial_.constraints, result_.judged, {});
    if (!next) return std::nullopt;
    // What was the best is to be believed in the same time.
    if (time_left_() > longest_s_ * (1 + launches_to_believe)) return next->environment;
    result_.remarks.push_back(fmt::format("no time left to try {} and what might follow", next->name));
    return std::nullopt;
  }

  std::optional<Environment> best_arm() const {
    if (!control_.is_leader()) return std::nullopt;
    const Environment best =
        tuner::best_arm(tuner::knobs(), trial_.place, trial_.constraints, result_.judged, {}).environment;
    return best.empty() ? std::nullopt : std::optional(best);
  }

  // A winner was chosen among several for how it looked: it has to win again, in fresh workers, and harm no band.
  void believe(const Environment& best) {
    std::string loses;
    const tuner::JudgedArm again = judge(best, launches_to_believe, &loses);
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

  // Empty where the arm failed, or gave wrong data.
  std::vector<tuner::ArmSizePoint> alternate(Trials& trials, int launches) const {
    constexpr std::size_t default_arm = 0, trial_arm = 1;
    // What is to be believed has to win as an application sees it, launches included.
    const Quantity quantity = launches > 1 ? Quantity::throughput : Quantity::device;
    std::vector<AlternatedSize> sizes;
    for (std::size_t at = 0; at < size_points_.size(); ++at)
      sizes.push_back(
          {.sides = {{default_arm, at}, {trial_arm, at}}, .samples = samples_in_a_turn, .quantities = {quantity}});
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
  double longest_s_ = 0;  // that an arm has taken
  ArmsTried result_;
};

}  // namespace

ArmsTried try_arms(ControlPlane& control, const Machine& machine, const ArmTrial& trial,
                   const tuner::TimeLeft& time_left) {
  return ArmSearch(control, machine, trial, time_left).run();
}

}  // namespace p5
