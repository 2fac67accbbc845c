// All cases of a plan, in one launch or in several and in one arm or in several: whose turn it is, what is left of the
// budget, and what becomes of an arm that does not start. The leader decides; its word makes all do the same.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include <fmt/format.h>

#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"
#include "bench/measure/agreement.hpp"
#include "bench/measure/launches.hpp"
#include "bench/measure/runner.hpp"

namespace p5 {

namespace {

using nlohmann::json;

// A case that failed so often in an arm is not tried again: it may cost a deadline each time.
constexpr int most_failures = 2;

Measurement not_measured(const Case& c, Outcome outcome, std::string because) {
  Measurement m;
  m.measured_case = c;
  m.outcome = outcome;
  m.because = std::move(because);
  return m;
}

// One launch: its repetitions in their order, and the cases that they belong to.
struct Program {
  struct Step {
    Repetition repetition;
    bool first = true;   // of those that have the same communicators
    bool forms = false;  // these communicators, which the job's is not
  };
  std::vector<Step> steps;
  std::size_t at = 0;
  std::vector<std::optional<CaseRun>> runs;  // by case, from its first repetition to its last
  std::vector<bool> repeated;                // by case: once at least

  const Step& step() const { return steps[at]; }
};

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
        turns_(turns_of(arms.size(), soaks() ? 1 : options.launches)),
        rendezvous_(control, arms.size() == 1 ? options.hosts : RanksOnHosts{}, observer),
        progress_(arms.size()),
        failures_(arms.size() * cases.size()) {
    if (!options.done.empty()) std::erase_if(turns_, [&](const Turn& turn) { return is_done(turn); });
    if (!arms.front().backend->recovers()) watchdog_ = options.watchdog;
  }

  void run() {
    std::optional<std::size_t> previous;
    for (turn_ = 0; turn_ < turns_.size(); ++turn_) {
      if (soaks()) turns_.push_back({0, static_cast<int>(turn_) + 1});  // there is always one more, until time is over
      const std::string word = several() ? control_.broadcast(control_.is_leader() ? decide_turn() : "") : "run";
      if (word == "end") break;
      if (word == "pass") continue;
      if (previous) {
        arms_[*previous].backend->abandon();
        control_.barrier();  // the processes of all ranks are gone before the first new one starts
      }
      previous = turns_[turn_].arm;
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

  // "run", "pass" (this arm has no turn) or "end".
  std::string decide_turn() {
    const std::size_t arm = turns_[turn_].arm;
    const bool new_block = turn_ == 0 || turns_[turn_].launch != turns_[turn_ - 1].launch;
    if (new_block && turn_ > 0) longest_block_ = std::max(longest_block_, since(block_start_).count);
    if (new_block) block_start_ = Clock::now();
    if (!options_.hopeless.empty() && new_block && turn_ > 0) return "end";
    const bool some_given_up = std::ranges::any_of(progress_, &Progress::given_up);
    if (soaks() && some_given_up) return "end";
    if (progress_[arm].given_up || (some_given_up && progress_[arm].started > 0)) return "pass";
    if (!new_block || turn_ == 0 || left().count >= longest_block_) return "run";
    if (soaks()) return "end";
    observer_.remark(fmt::format("{} of {} launches{} fit the budget: one takes {}", turns_[turn_].launch,
                                 options_.launches, arms_.size() > 1 ? " an arm" : "",
                                 to_text(Seconds{longest_block_ / static_cast<double>(arms_.size())})));
    return "end";
  }

  void note_start(const std::string& problem) {
    Progress& mine = progress_[turns_[turn_].arm];
    if (problem.empty()) {
      ++mine.started;
      mine.failures_in_a_row = 0;
      return;
    }
    observer_.launch_failed(arms_[turns_[turn_].arm], problem);
    // Of several arms one that has never started is wrong, not unlucky.
    const int most = arms_.size() > 1 && mine.started == 0 ? 1 : most_failures;
    mine.given_up = ++mine.failures_in_a_row >= most;
  }

  Seconds share_of_this_launch(Seconds start) const {
    if (soaks()) return {std::min(options_.budget.count - start.count, left().count)};
    double least = 0;
    const CostModel cost = arms_[turns_[turn_].arm].backend->cost();
    for (std::size_t at = 0; at < cases_.size(); ++at)
      if (!is_done(turns_[turn_], at))
        least += predict_minimum_round(cases_[at], cost).count * static_cast<double>(cases_[at].rounds->size());
    return share_of_launch(left(), start, {least}, static_cast<int>(turns_.size() - turn_) - 1);
  }

  double cost_of(const Program::Step& step, const CostModel& cost) const {
    return predict_round(cases_[step.repetition.at], cost).count + (step.forms ? cost.communicator.count : 0);
  }

  // What the next repetition of the launch may take; why it is not made.
  struct Decision {
    std::string why_not;
    Seconds share;
  };
  Decision decide_repetition(const Program& program, Seconds remaining) const {
    const std::size_t at = program.step().repetition.at;
    if (failures_[number_of(at)] >= most_failures)
      return {fmt::format("failed in {} launches before", most_failures), {}};
    const CostModel cost = arms_[turns_[turn_].arm].backend->cost();
    double all = 0;
    for (std::size_t i = program.at; i < program.steps.size(); ++i) all += cost_of(program.steps[i], cost);
    if (remaining.count < predict_minimum_round(cases_[at], cost).count || is_deferred(program, cost, remaining))
      return {"budget", {}};
    return {"", {remaining.count * cost_of(program.step(), cost) / all}};
  }

  bool is_deferred(const Program& program, const CostModel& cost, Seconds remaining) const {
    std::vector<CostedRepetition> repetitions;
    for (const Program::Step& step : program.steps) repetitions.push_back({step.repetition.at, cost_of(step, cost)});
    return p5::is_deferred(repetitions, program.at, program.repeated, since(cases_start_), remaining);
  }

  // Time until all repetitions of all launches are made, from the pace so far: predictions are for dividing, not for
  // believing.
  Seconds estimate_left(const Program& program) const {
    const CostModel cost = arms_.front().backend->cost();
    double done = 0, open = 0;
    for (std::size_t i = 0; i < program.steps.size(); ++i)
      (i < program.at ? done : open) += cost_of(program.steps[i], cost);
    if (soaks()) return {std::max(left().count, 0.0)};
    const double whole = done + open;
    done += whole * static_cast<double>(turn_);
    open += whole * static_cast<double>(turns_.size() - turn_ - 1);
    if (done <= 0) return {std::min(open, left().count)};
    return {std::min(open * since(start_).count / done, std::max(left().count, 0.0))};
  }

  // ---- on all ranks

  std::size_t number_of(std::size_t at) const { return turns_[turn_].arm * cases_.size() + at; }

  Case case_of(std::size_t at) const { return in_arm(cases_[at], arms_[turns_[turn_].arm]); }

  bool is_done(const Turn& turn, std::size_t at) const { return options_.done.contains({turn.arm, turn.launch, at}); }
  bool is_done(const Turn& turn) const {
    for (std::size_t at = 0; at < cases_.size(); ++at)
      if (!is_done(turn, at)) return false;
    return true;
  }

  void launch() {
    const auto launch_start = Clock::now();
    const std::string problem = several() && options_.hopeless.empty() ? start() : "";
    if (!problem.empty()) return not_started(problem);
    const Seconds share = share_of_this_launch(since(launch_start));
    cases_start_ = Clock::now();
    Program program = plan_launch();
    std::vector<PhaseFailed> failures;  // of the repetitions that have the same communicators
    for (; program.at < program.steps.size(); ++program.at) {
      const Program::Step& step = program.step();
      if (step.first) failures.clear();
      std::optional<CaseRun>& run = program.runs[step.repetition.at];
      if (!run)
        run.emplace(control_, *arms_[turns_[turn_].arm].backend, rendezvous_, case_of(step.repetition.at), options_,
                    watchdog_);
      if (control_.is_leader()) announce(program);
      const std::size_t failed_before = failures.size();
      run_repetition(*run, program, failures, {share.count - since(cases_start_).count});
      keep(*run, step.repetition.at, failures.size() > failed_before);
      if (run->complete()) run.reset();
    }
  }

  Program plan_launch() const {
    Program program;
    program.runs.resize(cases_.size());
    program.repeated.resize(cases_.size());
    for (const CommunicatorBatch& batch : batches_of(cases_, control_.ranks(), options_.seed, turns_[turn_].launch))
      for (bool first = true; const Repetition& repetition : batch.repetitions) {
        if (is_done(turns_[turn_], repetition.at)) continue;
        program.steps.push_back({repetition, first, first && !batch.communicators.empty()});
        first = false;
      }
    return program;
  }

  void not_started(const std::string& problem) {
    for (std::size_t at = 0; at < cases_.size(); ++at) {
      if (is_done(turns_[turn_], at)) continue;
      Measurement m = not_measured(case_of(at), Outcome::failed, problem);
      m.failed_in = Phase::open;
      m.failed_rank = failed_rank_;
      if (control_.is_leader()) observer_.repetition_started(m.measured_case, standing_of(at, 0, 1, {}));
      finish(std::move(m), true);
    }
  }

  // The ranks come together and say what they run on. Returns why they cannot be measured.
  std::string start() {
    const Arm& arm = arms_[turns_[turn_].arm];
    Backend& backend = *arm.backend;
    std::string problem;
    failed_rank_.reset();
    std::vector<Environment> of_ranks;
    try {
      rendezvous_.join_ranks(backend);
      problem = agree(
          control_, Phase::open, backend.recovers(), [&] { return backend.context(); },
          [&](const std::vector<Environment>& contexts) {
            of_ranks = contexts;
            return options_.objection ? options_.objection(arm, of_ranks) : std::string();
          });
    } catch (const PhaseFailed& failed) {
      failed_rank_ = failed.rank;
      problem = failed.rank ? fmt::format("rank {}: {}", *failed.rank, failed.what) : failed.what;
    }
    if (!problem.empty()) {
      problem = "it did not start: " + problem;
      backend.abandon();
    }
    if (control_.is_leader()) {
      note_start(problem);
      if (problem.empty()) observer_.launch_started(arm, of_ranks);
    }
    return problem;
  }

  // Adds to `failures` when it fails; after most_failures it is not tried.
  void run_repetition(CaseRun& run, Program& program, std::vector<PhaseFailed>& failures, Seconds remaining) {
    for (const std::string& why : {options_.hopeless, rendezvous_.given_up()})
      if (!why.empty()) return run.leave_out(why);
    if (run.is_lost()) return run.leave_out("failed in an earlier repetition");
    if (failures.size() >= most_failures) {
      run.give_up(failures.back());
      failures.push_back(failures.back());
      return;
    }
    std::string decision;
    if (control_.is_leader()) {
      const Decision next = decide_repetition(program, remaining);
      decision = json{{"why_not", next.why_not}, {"share", next.share.count}}.dump();
    }
    if (watchdog_) watchdog_->arm("the start of " + describe(run.measured_case()), options_.timeout);
    const json agreed = json::parse(control_.broadcast(decision));
    const std::string why_not = agreed.at("why_not");
    program.repeated[program.step().repetition.at] = program.repeated[program.step().repetition.at] || why_not.empty();
    if (!why_not.empty()) {
      run.leave_out(why_not);
    } else if (std::optional<PhaseFailed> failed =
                   run.run_repetition(program.step().repetition.round, {agreed.at("share")})) {
      failures.push_back(*std::move(failed));
    }
    if (watchdog_) watchdog_->disarm();
  }

  RunProgress standing_of(std::size_t at, std::size_t index, std::size_t count, Seconds left) const {
    return {.number = number_of(at),
            .launch = turns_[turn_].launch,
            .several = several(),
            .index = static_cast<int>((soaks() ? 0 : turn_ * count) + index),
            .count = static_cast<int>((soaks() ? 1 : turns_.size()) * count),
            .left = left};
  }

  void announce(const Program& program) const {
    const std::size_t at = program.step().repetition.at;
    observer_.repetition_started(program.runs[at]->measured_case(),
                                 standing_of(at, program.at, program.steps.size(), estimate_left(program)));
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
    if (several()) m.launch = turns_[turn_].launch;
    return m;
  }

  ControlPlane& control_;
  const std::vector<Arm>& arms_;
  const std::vector<Case>& cases_;
  const RunnerOptions& options_;
  Observer& observer_;
  std::vector<Measurement>* finished_;  // where somebody wants them
  std::vector<Turn> turns_;
  Rendezvous rendezvous_;
  Watchdog* watchdog_ = nullptr;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point cases_start_ = start_;
  std::size_t turn_ = 0;
  std::vector<Progress> progress_;  // at the leader
  std::vector<int> failures_;       // by number of the case
  Clock::time_point block_start_ = Clock::now();
  double longest_block_ = 0;
  std::optional<int> failed_rank_;
};

}  // namespace

Case in_arm(Case c, const Arm& arm) {
  c.arm = arm.name;
  c.settings = arm.settings;
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
