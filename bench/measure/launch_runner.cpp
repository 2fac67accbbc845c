// Runs all cases of a plan, in one or several launches and arms: order of launches, budget, and arms that do not start.
// The leader decides and broadcasts each decision.
#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "bench/base/json_fields.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"
#include "bench/measure/launches.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/agreement.hpp"

namespace p5 {

namespace {

// A case that failed this often in an arm is not tried again: each attempt may cost a timeout.
constexpr int most_failures = 2;

// One launch: its repetitions in order, and the cases they belong to.
struct LaunchPlan {
  struct Step {
    Repetition repetition;
    bool first = true;   // first of its communicator batch
    bool forms = false;  // has to create communicators
    bool ran = false;    // was neither skipped nor deferred
  };
  std::vector<Step> steps;
  std::size_t at = 0;
  std::vector<std::optional<CaseRun>> runs;  // by case, from its first repetition to its last
  std::vector<bool> repeated;                // by case: at least one repetition ran

  const Step& step() const { return steps[at]; }
};

// Share of the budget for the next repetition, or why it is skipped.
struct Decision {
  std::string why_not = {};
  double share_s = 0;
};

void fields(auto& archive, Is<Decision> auto& decision) {
  archive.must("why_not", decision.why_not);
  archive.must("share_s", decision.share_s);
}

class LaunchRunner {
 public:
  LaunchRunner(ControlPlane& control, const std::vector<Arm>& arms, const std::vector<Case>& cases,
               const RunnerOptions& options, Observer& observer, std::vector<Measurement>* finished = nullptr)
      : control_(control),
        arms_(arms),
        cases_(cases),
        options_(options),
        observer_(observer),
        finished_(finished),
        order_(launch_order(arms.size(), soaks() ? 1 : options.launches)),
        rendezvous_(control, arms.size() == 1 ? options.hosts : RanksOnHosts{}, observer),
        progress_(arms.size()),
        failures_(arms.size() * cases.size()) {
    if (!options.done.empty())
      std::erase_if(order_, [&](const ArmLaunch& each_launch) { return is_done(each_launch); });
    if (!arms.front().backend->recovers()) watchdog_ = options.watchdog;
  }

  void run() {
    std::optional<std::size_t> previous;
    for (position_ = 0; position_ < order_.size(); ++position_) {
      if (soaks())
        order_.push_back({0, static_cast<int>(position_) + 1});  // a soak adds launches until its time is over
      const std::string word = several() ? from_leader(control_, [&] { return decide_launch(); }) : "run";
      if (word == "end") break;
      if (word == "pass") continue;
      if (previous) {
        arms_[*previous].backend->abandon();
        control_.barrier();  // all processes have exited before the first new one starts
      }
      previous = order_[position_].arm;
      launch();
    }
  }

 private:
  struct Progress {
    int started = 0, failures_in_a_row = 0;
    bool given_up = false;
  };

  bool soaks() const { return options_.soak.count > 0; }
  bool several() const { return soaks() || arms_.size() > 1 || options_.launches > 1; }
  Seconds left() const { return {(soaks() ? options_.soak : options_.budget).count - since(start_).count}; }

  // ---- at the leader

  // "run", "pass" (skip this arm) or "end".
  std::string decide_launch() {
    const std::size_t arm = order_[position_].arm;
    const bool new_block = position_ == 0 || order_[position_].launch != order_[position_ - 1].launch;
    if (new_block && position_ > 0) longest_block_ = std::max(longest_block_, since(block_start_).count);
    if (new_block) block_start_ = Clock::now();
    if (!options_.skip_all_because.empty() && new_block && position_ > 0) return "end";
    const bool some_given_up = std::ranges::any_of(progress_, &Progress::given_up);
    if (soaks() && some_given_up) return "end";
    if (progress_[arm].given_up || (some_given_up && progress_[arm].started > 0)) return "pass";
    if (!new_block || position_ == 0 || left().count >= longest_block_) return "run";
    if (soaks()) return "end";
    observer_.remark(fmt::format("{} of {} launches{} fit the budget: one takes {}", order_[position_].launch,
                                 options_.launches, arms_.size() > 1 ? " per arm" : "",
                                 to_text(Seconds{longest_block_ / static_cast<double>(arms_.size())})));
    return "end";
  }

  void note_start(const std::string& problem) {
    Progress& mine = progress_[order_[position_].arm];
    if (problem.empty()) {
      ++mine.started;
      mine.failures_in_a_row = 0;
      return;
    }
    observer_.launch_failed(arms_[order_[position_].arm], problem);
    // With several arms, one that has never started has an invalid configuration.
    const int most = arms_.size() > 1 && mine.started == 0 ? 1 : most_failures;
    mine.given_up = ++mine.failures_in_a_row >= most;
  }

  Seconds this_launch_budget(Seconds start) const {
    if (soaks()) return {std::min(options_.budget.count - start.count, left().count)};
    double least = 0;
    const CostModel cost = arms_[order_[position_].arm].backend->cost();
    for (std::size_t at = 0; at < cases_.size(); ++at)
      if (!is_done(order_[position_], at))
        least += predict_minimum_round(cases_[at], cost).count * static_cast<double>(cases_[at].rounds->size());
    return launch_budget(left(), start, {least}, static_cast<int>(order_.size() - position_) - 1);
  }

  double cost_of(const LaunchPlan::Step& step, const CostModel& cost) const {
    return predict_round(cases_[step.repetition.at], cost).count + (step.forms ? cost.communicator.count : 0);
  }

  Decision decide_repetition(const LaunchPlan& plan, Seconds remaining) const {
    const std::size_t at = plan.step().repetition.at;
    if (failures_[number_of(at)] >= most_failures)
      return {.why_not = fmt::format("failed in {} launches before", most_failures)};
    const CostModel cost = arms_[order_[position_].arm].backend->cost();
    double all = 0;
    for (std::size_t i = plan.at; i < plan.steps.size(); ++i) all += cost_of(plan.steps[i], cost);
    if (remaining.count < predict_minimum_round(cases_[at], cost).count || is_deferred(plan, cost, remaining))
      return {.why_not = "budget"};
    return {.share_s = remaining.count * cost_of(plan.step(), cost) / all};
  }

  bool is_deferred(const LaunchPlan& plan, const CostModel& cost, Seconds remaining) const {
    std::vector<CostedRepetition> repetitions;
    for (const LaunchPlan::Step& step : plan.steps)
      repetitions.push_back({step.repetition.at, cost_of(step, cost), step.ran});
    return p5::is_deferred(repetitions, plan.at, plan.repeated, since(cases_start_), remaining);
  }

  // Time until all repetitions of all launches are done, extrapolated from the pace of those that ran, because
  // predictions are only good for ratios.
  Seconds estimate_left(const LaunchPlan& plan) const {
    const CostModel cost = arms_.front().backend->cost();
    double whole = 0, open = 0, done = cost_of_ran_;
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      const double its = cost_of(plan.steps[i], cost);
      whole += its;
      if (i >= plan.at)
        open += its;
      else if (plan.steps[i].ran)
        done += its;
    }
    if (soaks()) return {std::max(left().count, 0.0)};
    open += whole * static_cast<double>(order_.size() - position_ - 1);
    if (done <= 0) return {std::min(open, left().count)};
    return {std::min(open * since(start_).count / done, std::max(left().count, 0.0))};
  }

  // ---- on all ranks

  std::size_t number_of(std::size_t at) const { return order_[position_].arm * cases_.size() + at; }

  Case case_in_arm(std::size_t at) const { return with_arm(cases_[at], arms_[order_[position_].arm]); }

  bool is_done(const ArmLaunch& each_launch, std::size_t at) const {
    return options_.done.contains({each_launch.arm, each_launch.launch, at});
  }
  bool is_done(const ArmLaunch& each_launch) const {
    for (std::size_t at = 0; at < cases_.size(); ++at)
      if (!is_done(each_launch, at)) return false;
    return true;
  }

  void launch() {
    const auto launch_start = Clock::now();
    const std::string problem = several() && options_.skip_all_because.empty() ? start() : "";
    if (!problem.empty()) return record_failed_start(problem);
    const Seconds share = this_launch_budget(since(launch_start));
    cases_start_ = Clock::now();
    LaunchPlan plan = plan_launch();
    std::vector<PhaseFailed> failures;  // in the current communicator batch
    for (; plan.at < plan.steps.size(); ++plan.at) {
      const LaunchPlan::Step& step = plan.step();
      if (step.first) failures.clear();
      std::optional<CaseRun>& run = plan.runs[step.repetition.at];
      if (!run)
        run.emplace(control_, *arms_[order_[position_].arm].backend, rendezvous_, case_in_arm(step.repetition.at),
                    options_, watchdog_);
      if (control_.is_leader()) announce(plan);
      const std::size_t failed_before = failures.size();
      const bool of_pairs = run->measured_case().collective->pairwise;
      const double kept = of_pairs ? options_.kept_from_pairs.count : 0;
      run_repetition(*run, plan, failures, {share.count - kept - since(cases_start_).count});
      keep(*run, step.repetition.at, failures.size() > failed_before);
      if (run->complete()) run.reset();
    }
    for (const LaunchPlan::Step& step : plan.steps)
      cost_of_ran_ += step.ran ? cost_of(step, arms_.front().backend->cost()) : 0;
  }

  LaunchPlan plan_launch() const {
    LaunchPlan plan;
    plan.runs.resize(cases_.size());
    plan.repeated.resize(cases_.size());
    std::vector<CommunicatorBatch> batches = batches_of(cases_, control_.ranks());
    if (!options_.in_order) batches = shuffled(std::move(batches), options_.seed, order_[position_].launch);
    const CommunicatorBatch* before = nullptr;
    for (const CommunicatorBatch& batch : batches) {
      const bool forms = batch.forms_after(before);
      for (bool first = true; const Repetition& repetition : batch.repetitions) {
        if (is_done(order_[position_], repetition.at)) continue;
        plan.steps.push_back({repetition, first, first && forms});
        first = false;
        before = &batch;
      }
    }
    return plan;
  }

  void record_failed_start(const std::string& problem) {
    for (std::size_t at = 0; at < cases_.size(); ++at) {
      if (is_done(order_[position_], at)) continue;
      Measurement m;
      m.measured_case = case_in_arm(at);
      m.outcome = Outcome::failed;
      m.because = problem;
      m.failed_in = Phase::open;
      m.failed_rank = failed_rank_;
      if (control_.is_leader()) observer_.repetition_started(m.measured_case, progress_of(at, 0, 1, {}));
      finish(std::move(m), true);
    }
  }

  // Joins the ranks and collects their contexts. Returns why they cannot be measured, or "".
  std::string start() {
    const Arm& arm = arms_[order_[position_].arm];
    Backend& backend = *arm.backend;
    std::string problem;
    failed_rank_.reset();
    std::vector<Environment> contexts_of_ranks;
    try {
      rendezvous_.join_ranks(backend);
      problem = agree(
          control_, Phase::open, backend.recovers(), [&] { return backend.context(); },
          [&](const std::vector<Environment>& contexts) {
            contexts_of_ranks = contexts;
            return options_.objection ? options_.objection(arm, contexts_of_ranks) : std::string();
          });
    } catch (const PhaseFailed& failed) {
      failed_rank_ = failed.rank;
      problem = with_rank(failed.rank, failed.what);
    }
    if (!problem.empty()) {
      problem = "it did not start: " + problem;
      backend.abandon();
    }
    if (control_.is_leader()) {
      note_start(problem);
      if (problem.empty()) observer_.launch_started(arm, contexts_of_ranks);
    }
    return problem;
  }

  // Appends a failure to `failures`; skips the repetition after most_failures.
  void run_repetition(CaseRun& run, LaunchPlan& plan, std::vector<PhaseFailed>& failures, Seconds remaining) {
    for (const std::string& why : {options_.skip_all_because, rendezvous_.given_up()})
      if (!why.empty()) return run.skip(why);
    if (run.skips_other_repetitions()) return run.skip("failed in an earlier repetition");
    if (failures.size() >= most_failures) {
      run.fail_like(failures.back());
      failures.push_back(failures.back());
      return;
    }
    if (watchdog_) watchdog_->arm("the start of " + describe(run.measured_case()), options_.timeout);
    const auto [why_not, share_s] = from_leader(control_, [&] { return decide_repetition(plan, remaining); });
    plan.repeated[plan.step().repetition.at] = plan.repeated[plan.step().repetition.at] || why_not.empty();
    if (!why_not.empty()) {
      run.skip(why_not);
    } else {
      const int skipped = run.rounds_skipped();
      if (std::optional<PhaseFailed> failed = run.run_repetition(plan.step().repetition.round, {share_s}))
        failures.push_back(*std::move(failed));
      plan.steps[plan.at].ran = run.rounds_skipped() == skipped;
    }
    if (watchdog_) watchdog_->disarm();
  }

  RunProgress progress_of(std::size_t at, std::size_t index, std::size_t count, Seconds left) const {
    return {.number = number_of(at),
            .launch = order_[position_].launch,
            .several = several(),
            .index = static_cast<int>((soaks() ? 0 : position_ * count) + index),
            .count = static_cast<int>((soaks() ? 1 : order_.size()) * count),
            .left = left};
  }

  void announce(const LaunchPlan& plan) const {
    const std::size_t at = plan.step().repetition.at;
    observer_.repetition_started(plan.runs[at]->measured_case(),
                                 progress_of(at, plan.at, plan.steps.size(), estimate_left(plan)));
  }

  void keep(const CaseRun& run, std::size_t at, bool failed) {
    if (!run.complete()) {
      if (control_.is_leader()) observer_.repetition_finished(of_this_launch(run.result()), failed);
      return;
    }
    Measurement m = run.result();
    if (m.outcome == Outcome::failed) ++failures_[number_of(at)];
    finish(std::move(m), failed);
  }

  void finish(Measurement m, bool failed) {
    m = of_this_launch(std::move(m));
    if (control_.is_leader()) observer_.case_finished(m, failed);
    if (finished_) finished_->push_back(std::move(m));
  }

  Measurement of_this_launch(Measurement m) const {
    if (several()) m.launch = order_[position_].launch;
    return m;
  }

  ControlPlane& control_;
  const std::vector<Arm>& arms_;
  const std::vector<Case>& cases_;
  const RunnerOptions& options_;
  Observer& observer_;
  std::vector<Measurement>* finished_;  // null: not kept
  std::vector<ArmLaunch> order_;
  Rendezvous rendezvous_;
  Watchdog* watchdog_ = nullptr;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point cases_start_ = start_;
  std::size_t position_ = 0;
  std::vector<Progress> progress_;  // at the leader
  std::vector<int> failures_;       // by number of the case
  Clock::time_point block_start_ = Clock::now();
  double longest_block_ = 0;
  double cost_of_ran_ = 0;  // of the launches before this one
  std::optional<int> failed_rank_;
};

}  // namespace

Case with_arm(Case c, const Arm& arm) {
  c.arm = arm.name;
  c.settings = arm.settings;
  // Without NVLink between hosts each node is a domain.
  const auto nvlink = arm.settings.find("NCCL_MNNVL_ENABLE");
  if (c.domains && nvlink != arm.settings.end() && nvlink->second == "0") {
    c.domains = c.nodes;
    c.nodes_per_domain = 1;
    c.fewest_per_domain.reset();
  }
  return c;
}

void run_launches(ControlPlane& control, const std::vector<Arm>& arms, const std::vector<Case>& cases,
                  const RunnerOptions& options, Observer& observer) {
  LaunchRunner(control, arms, cases, options, observer).run();
}

std::vector<Measurement> run_cases(ControlPlane& control, Backend& backend, const std::vector<Case>& cases,
                                   const RunnerOptions& options, Observer& observer) {
  std::vector<Measurement> finished;
  LaunchRunner(control, {Arm{.backend = &backend}}, cases, options, observer, &finished).run();
  return finished;
}

}  // namespace p5
