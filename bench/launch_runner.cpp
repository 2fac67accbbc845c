// All cases of a plan, in one launch or in several and in one arm or in several: whose turn it is, what is left of the
// budget, and what becomes of an arm that does not start. The leader decides; its word makes all do the same.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include <fmt/format.h>

#include "bench/agreement.hpp"
#include "bench/clock.hpp"
#include "bench/launches.hpp"
#include "bench/runner.hpp"
#include "bench/watchdog.hpp"

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

// The cases of one launch, in its order.
struct Program {
  std::vector<std::size_t> order;
  std::size_t at = 0;
};

class LaunchRunner {
 public:
  LaunchRunner(World& world, const std::vector<Arm>& arms, const std::vector<Case>& cases, const RunnerOptions& options,
               Observer& observer)
      : world_(world),
        arms_(arms),
        cases_(cases),
        options_(options),
        observer_(observer),
        turns_(turns_of(arms.size(), soaks() ? 1 : options.launches)),
        joining_(world, arms.size() == 1 ? options.hosts : RanksOnHosts{}, observer),
        progress_(arms.size()),
        failures_(arms.size() * cases.size()) {
    if (!arms.front().backend->recovers() && options.on_hang) watchdog_.emplace(options.on_hang);
  }

  std::vector<Measurement> run() {
    std::optional<std::size_t> previous;
    for (turn_ = 0; turn_ < turns_.size(); ++turn_) {
      if (soaks()) turns_.push_back({0, static_cast<int>(turn_) + 1});  // there is always one more, until time is over
      const std::string word = several() ? world_.broadcast(world_.leads() ? decide_turn() : "") : "run";
      if (word == "end") break;
      if (word == "pass") continue;
      if (previous) {
        arms_[*previous].backend->abandon();
        world_.barrier();  // the processes of all ranks are gone before the first new one starts
      }
      previous = turns_[turn_].arm;
      launch();
    }
    return std::move(measurements_);
  }

 private:
  struct Progress {
    int started = 0, failures_in_a_row = 0;
    bool given_up = false;
  };

  bool soaks() const { return options_.soak.count > 0; }
  bool several() const { return soaks() || turns_.size() > 1; }
  Seconds left() const { return {(soaks() ? options_.soak : options_.budget).count - since(start_).count}; }

  // ---- at the leader

  // "run", "pass" (this arm has no turn) or "end".
  std::string decide_turn() {
    const std::size_t arm = turns_[turn_].arm;
    const bool new_block = turn_ % arms_.size() == 0;
    if (new_block && turn_ > 0) longest_block_ = std::max(longest_block_, since(block_start_).count);
    if (new_block) block_start_ = Clock::now();
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
    for (const Case& c : cases_) least += predict_least(c, cost).count;
    return share_of_launch(left(), start, {least}, static_cast<int>(turns_.size() - turn_) - 1);
  }

  // What the next case of the launch may take; why it is not run.
  struct Decision {
    std::string why_not;
    Seconds share;
  };
  Decision decide_case(const Program& program, Seconds remaining) const {
    if (failures_[number_of(program.order[program.at])] >= most_failures)
      return {fmt::format("failed in {} launches before", most_failures), {}};
    const CostModel cost = arms_[turns_[turn_].arm].backend->cost();
    double all = 0;
    for (std::size_t i = program.at; i < program.order.size(); ++i)
      all += predict(cases_[program.order[i]], cost).count;
    const Case& mine = cases_[program.order[program.at]];
    if (remaining.count < predict_least(mine, cost).count) return {"budget", {}};
    return {"", {remaining.count * predict(mine, cost).count / all}};
  }

  // Time until all cases of all launches have run, from the pace so far: predictions are for dividing, not for
  // believing.
  Seconds estimate_left(const Program& program) const {
    const CostModel cost = arms_.front().backend->cost();
    double done = 0, open = 0;
    for (std::size_t i = 0; i < program.order.size(); ++i)
      (i < program.at ? done : open) += predict(cases_[program.order[i]], cost).count;
    if (soaks()) return {std::max(left().count, 0.0)};
    const double whole = done + open;
    done += whole * static_cast<double>(turn_);
    open += whole * static_cast<double>(turns_.size() - turn_ - 1);
    if (done <= 0) return {std::min(open, left().count)};
    return {std::min(open * since(start_).count / done, std::max(left().count, 0.0))};
  }

  // ---- on all ranks

  std::size_t number_of(std::size_t at) const { return turns_[turn_].arm * cases_.size() + at; }

  Case case_of(std::size_t at) const {
    Case c = cases_[at];
    c.arm = arms_[turns_[turn_].arm].name;
    c.settings = arms_[turns_[turn_].arm].settings;
    return c;
  }

  void launch() {
    const auto launch_start = Clock::now();
    const std::string problem = several() ? start() : "";
    const Seconds share = share_of_this_launch(since(launch_start));
    const auto cases_start = Clock::now();
    Program program{order_of_cases(cases_.size(), options_.seed, turns_[turn_].launch)};
    for (; program.at < program.order.size(); ++program.at) {
      const Case c = case_of(program.order[program.at]);
      if (world_.leads()) announce(c, program);
      keep(problem.empty() ? run_one(c, program, {share.count - since(cases_start).count}) : not_started(c, problem));
      if (problem.empty() && measurements_.back().outcome == Outcome::failed)
        ++failures_[number_of(program.order[program.at])];
    }
  }

  Measurement not_started(const Case& c, const std::string& problem) const {
    Measurement m = not_measured(c, Outcome::failed, problem);
    m.failed_in = Phase::open;
    m.failed_rank = failed_rank_;
    return m;
  }

  // The ranks come together and say what they run on. Returns why they cannot be measured.
  std::string start() {
    const Arm& arm = arms_[turns_[turn_].arm];
    Backend& backend = *arm.backend;
    std::string problem;
    failed_rank_.reset();
    std::vector<Backend::Variables> of_ranks;
    try {
      joining_.bring_together(backend);
      problem = agree(
          world_, Phase::open, backend.recovers(),
          [&] { return json(backend.context()).dump(-1, ' ', true, json::error_handler_t::replace); },
          [&](const std::vector<std::string>& contexts) {
            for (const std::string& each : contexts) of_ranks.push_back(json::parse(each).get<Backend::Variables>());
            return options_.objection ? options_.objection(arm, of_ranks) : "";
          });
    } catch (const PhaseFailed& failed) {
      failed_rank_ = failed.rank;
      problem = failed.rank ? fmt::format("rank {}: {}", *failed.rank, failed.what) : failed.what;
    }
    if (!problem.empty()) {
      problem = "it did not start: " + problem;
      backend.abandon();
    }
    if (world_.leads()) {
      note_start(problem);
      if (problem.empty()) observer_.launch_started(arm, of_ranks);
    }
    return problem;
  }

  Measurement run_one(const Case& c, const Program& program, Seconds remaining) {
    if (!joining_.given_up().empty()) return not_measured(c, Outcome::skipped, joining_.given_up());
    std::string decision;
    if (world_.leads()) {
      const Decision next = decide_case(program, remaining);
      decision = json{{"why_not", next.why_not}, {"share", next.share.count}}.dump();
    }
    if (watchdog_) watchdog_->expect("the start of " + describe(c), options_.timeout);
    const json agreed = json::parse(world_.broadcast(decision));
    const std::string why_not = agreed.at("why_not");
    Measurement m = why_not.empty() ? run_case(world_, *arms_[turns_[turn_].arm].backend, joining_, c, options_,
                                               {agreed.at("share")}, watchdog_ ? &*watchdog_ : nullptr)
                                    : not_measured(c, Outcome::skipped, why_not);
    if (watchdog_) watchdog_->rest();
    return m;
  }

  void announce(const Case& c, const Program& program) const {
    observer_.case_started(c, {.number = number_of(program.order[program.at]),
                               .launch = turns_[turn_].launch,
                               .several = several(),
                               .index = static_cast<int>((soaks() ? 0 : turn_ * cases_.size()) + program.at),
                               .count = static_cast<int>((soaks() ? 1 : turns_.size()) * cases_.size()),
                               .left = estimate_left(program)});
  }

  void keep(Measurement m) {
    if (several()) m.launch = turns_[turn_].launch;
    if (world_.leads()) observer_.case_finished(m);
    measurements_.push_back(std::move(m));
  }

  World& world_;
  const std::vector<Arm>& arms_;
  const std::vector<Case>& cases_;
  const RunnerOptions& options_;
  Observer& observer_;
  std::vector<Turn> turns_;
  Joining joining_;
  std::optional<Watchdog> watchdog_;
  const Clock::time_point start_ = Clock::now();
  std::size_t turn_ = 0;
  std::vector<Progress> progress_;  // at the leader
  std::vector<int> failures_;       // by number of the case
  Clock::time_point block_start_ = Clock::now();
  double longest_block_ = 0;
  std::optional<int> failed_rank_;
  std::vector<Measurement> measurements_;
};

}  // namespace

std::vector<Measurement> run_launches(World& world, const std::vector<Arm>& arms, const std::vector<Case>& cases,
                                      const RunnerOptions& options, Observer& observer) {
  return LaunchRunner(world, arms, cases, options, observer).run();
}

std::vector<Measurement> run_cases(World& world, Backend& backend, const std::vector<Case>& cases,
                                   const RunnerOptions& options, Observer& observer) {
  return run_launches(world, {Arm{.backend = &backend}}, cases, options, observer);
}

}  // namespace p5
