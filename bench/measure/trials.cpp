#include "bench/measure/trials.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/statistics.hpp"
#include "bench/base/units.hpp"
#include "bench/measure/concurrent.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/agreement.hpp"

namespace p5 {

namespace {

// The slowest time of all hosted ranks of all participants.
double slowest(const std::vector<Times>& parts) {
  double worst = 0;
  for (const Times& part : parts)
    for (const std::vector<double>& times : part)
      for (const double time : times)
        if (!std::isnan(time)) worst = std::max(worst, time);
  return worst;
}

// Time of the slowest rank in the fastest sample.
double fastest(const std::vector<Times>& parts) {
  std::vector<double> of_samples;
  for (const Times& part : parts)
    for (const std::vector<double>& times : part) {
      of_samples.resize(std::max(of_samples.size(), times.size()), 0);
      for (std::size_t i = 0; i < times.size(); ++i)
        if (!std::isnan(times[i])) of_samples[i] = std::max(of_samples[i], times[i]);
    }
  return of_samples.empty() ? 0 : *std::ranges::min_element(of_samples);
}

// The name of a case in OperationsTogether, alike for all ways to call its operations.
std::string plain_name(Case c) {
  c.calls = {};
  return describe(c);
}

std::string text_of(const Verification& v) {
  if (v.wrong_elements == 0) return "";
  const WrongElement first = v.first.value_or(WrongElement{});
  return fmt::format("{} wrong elements, the first at rank {}, offset {}: {} instead of {}", v.wrong_elements,
                     first.rank, first.offset, first.got, first.wanted);
}

// A setting produced wrong results; thrown on all participants alike.
struct WrongData {
  std::string what;
};

// The library cannot perform the case, with any setting; thrown on all participants alike.
struct Unavailable {
  std::string why;
};

}  // namespace

struct TrialOrder {
  std::string what;  // cost_table, selection, block, prepare, restart, finish
  TrialTarget place;
  std::vector<std::string> settings;
  Burst burst;
  std::vector<std::size_t> arms = {};  // to prepare or restart
};

void fields(auto& archive, Is<TrialOrder> auto& order) {
  archive.must("what", order.what);
  archive.must("arm", order.place.arm);
  archive.must("at", order.place.at);
  archive.must("settings", order.settings);
  archive.must("burst", order.burst.lasts.count);
  archive.must("quantity", order.burst.quantity);
  archive.must("arms", order.arms);
}

Trials::Trials(ControlPlane& control, std::vector<Backend*> arms, std::vector<Case> cases, RunnerOptions options)
    : control_(control), arms_(std::move(arms)), cases_(std::move(cases)), options_(std::move(options)) {
  if (!options_.together) options_.together = std::make_shared<OperationsTogether>();
}

// ---- orders of the leader

void Trials::announce(const TrialOrder& order) { shared_by_leader(control_, order); }

void Trials::follow() {
  for (;;) {
    const auto order = shared_by_leader(control_, TrialOrder{});
    execute(order);
    if (order.what == "finish") return;
  }
}

void Trials::execute(const TrialOrder& order) {
  if (order.what == "block") run_block(order);
  if (order.what == "restart" || order.what == "finish") close_session();
  if (order.what == "restart") {
    for (const std::size_t arm : order.arms) arms_[arm]->stop();
    for (const std::size_t arm : order.arms) arms_[arm]->abandon();
  }
  for (const std::size_t arm : order.arms) arms_[arm]->prepare();
  try {
    if (order.what == "cost_table") query(order, &Session::cost_table);
    if (order.what == "selection") query(order, &Session::selection);
  } catch (const PhaseFailed&) {
    // The leader gets the same error.
  }
}

void Trials::give_order(const std::string& what, const std::vector<std::size_t>& arms) {
  const TrialOrder order{what, {}, {}, {}, arms};
  announce(order);
  execute(order);
}

std::vector<Offer> Trials::cost_table(TrialTarget place, std::string& problem) {
  return announce_and_query({"cost_table", place, {""}, {}}, &Session::cost_table, problem);
}

std::optional<Selection> Trials::selection(TrialTarget place, const std::string& setting, std::string& problem) {
  return announce_and_query({"selection", place, {setting}, {}}, &Session::selection, problem);
}

template <class Answer>
Answer Trials::announce_and_query(const TrialOrder& order, Answer (Session::*call)(), std::string& problem) {
  announce(order);
  try {
    return query(order, call);
  } catch (const PhaseFailed& failed) {
    problem = describe(failed);
    return {};
  }
}

std::vector<Trial> Trials::block(TrialTarget place, const std::vector<std::string>& settings, Burst burst) {
  const TrialOrder order{"block", place, settings, burst};
  announce(order);
  return run_block(order);
}

// ---- on all participants

void Trials::close_session() {
  session_.reset();
  place_.reset();
  operations_.clear();
}

// Workers end first: unfinished operations cannot be closed regularly.
void Trials::abandon_arm(std::size_t arm) {
  arms_[arm]->abandon();
  close_session();
}

void Trials::switch_to(TrialTarget place) {
  if (place_ == place && session_) return;
  close_session();
  place_ = place;
  Backend& backend = *arms_[place.arm];
  if (!backend.joined()) join(backend);
  const std::string why = step(
      Phase::open,
      [&] {
        session_ = backend.open(cases_.at(place.at), 0);
        return session_->unavailable();
      },
      first_told);
  if (why.empty()) return;
  close_session();
  unavailable_[place.at] = why;
  throw Unavailable{why};
}

std::string Trials::why_unavailable(std::size_t at) const {
  const auto found = unavailable_.find(at);
  return found == unavailable_.end() ? "" : found->second;
}

void Trials::join(Backend& backend) {
  const auto began = Clock::now();
  const auto report_time = [&] {
    if (options_.on_join) options_.on_join(since(began));
  };
  try {
    join_ranks(control_, backend);
  } catch (...) {
    report_time();
    throw;
  }
  report_time();
}

// Queries the session after one operation with the order's setting.
template <class Answer>
Answer Trials::query(const TrialOrder& order, Answer (Session::*call)()) try {
  switch_to(order.place);
  step(Phase::warm_up, [&] { session_->warm_up(1, order.settings.at(0)); });
  Answer answer{};
  step(Phase::warm_up, [&] { answer = (*session_.*call)(); });
  return answer;
} catch (const Unavailable&) {
  return {};
} catch (const PhaseFailed&) {
  abandon_arm(order.place.arm);
  throw;
}

// Warms up a setting, chooses the operations per burst, and verifies the results. Returns the verification error, or
// "".
std::string Trials::prepare(const std::string& setting, Burst burst) {
  const std::vector<int> together = has_works() ? fit_operations_together(burst) : std::vector<int>();
  step(Phase::warm_up, [&] { session_->warm_up(1, setting); });
  const SampleRequest one{.operations = 1, .samples = 2, .setting = setting};
  const int operations = step(
      Phase::warm_up, [&] { return times_of(one); },
      [&](const std::vector<Times>& parts) {
        const double fitting = std::ceil(burst.lasts.count / std::max(slowest(parts), 1e-9));
        return static_cast<int>(std::clamp(fitting, 1.0, static_cast<double>(session_->slots())));
      });
  const SampleRequest checked{.operations = operations, .samples = 1, .poison_last = true, .setting = setting};
  step(Phase::sample, [&] {
    if (together.empty())
      times_of(checked);
    else
      ends_of({.operations = together, .samples = 1, .poison_last = true, .setting = setting});
  });
  std::string wrong = step(
      Phase::verify, [&] { return text_of(session_->verify()); }, first_told);
  operations_[setting] = operations;
  return wrong;
}

Times Trials::times_of(const SampleRequest& request) {
  const Case& c = cases_.at(place_->at);
  if (!has_works()) return sample_times(*session_, request, c.rounds->front(), control_.hosted());
  ConcurrentRequest alone{.operations = std::vector<int>(1 + c.beside.size(), 0),
                          .samples = request.samples,
                          .poison_last = request.poison_last,
                          .setting = request.setting};
  alone.operations.front() = request.operations;
  Times times;
  for (const auto& of_rank : sample_concurrent_times(*session_, alone, c.rounds->front(), control_.hosted())) {
    std::vector<double>& its = times.emplace_back();
    for (const std::vector<double>& ends : of_rank) its.push_back(ends.front() / request.operations);
  }
  return times;
}

Times Trials::ends_of(const ConcurrentRequest& request) {
  const Round& groups = cases_.at(place_->at).rounds->front();
  Times ends;
  for (const auto& of_rank : sample_concurrent_times(*session_, request, groups, control_.hosted())) {
    std::vector<double>& its = ends.emplace_back();
    for (const std::vector<double>& of_works : of_rank) {
      its.push_back(0);
      for (const double end : of_works) its.back() = std::max(its.back(), std::isnan(end) ? 0 : end);
    }
  }
  return ends;
}

std::vector<int> Trials::operations_together(std::size_t at) const {
  const auto found = options_.together->find(plain_name(cases_.at(at)));
  return found == options_.together->end() ? std::vector<int>() : found->second;
}

std::vector<int> Trials::fit_operations_together(Burst burst) {
  const Case& c = cases_.at(place_->at);
  std::vector<int>& known = (*options_.together)[plain_name(c)];
  if (!known.empty()) return known;
  constexpr int samples_of_trial = 3;
  step(Phase::warm_up, [&] { session_->warm_up(1, ""); });
  std::vector<double> one_s;
  for (std::size_t part = 0; part <= c.beside.size(); ++part) {
    ConcurrentRequest request{.operations = std::vector<int>(1 + c.beside.size(), 0), .samples = samples_of_trial};
    request.operations[part] = 1;
    one_s.push_back(step(
        Phase::warm_up, [&] { return ends_of(request); }, fastest));
  }
  return known = operations_of_equal_time(one_s, burst.lasts);
}

Seconds Trials::sample(const std::string& setting, Burst burst) {
  if (!operations_.contains(setting))
    if (const std::string wrong = prepare(setting, burst); !wrong.empty()) throw WrongData{wrong};
  if (burst.quantity == Quantity::together) {
    const std::vector<int> together = operations_together(place_->at);
    const ConcurrentRequest request{.operations = together, .samples = 1, .setting = setting};
    const double all_done = step(
        Phase::sample, [&] { return ends_of(request); }, slowest);
    return {all_done / together.front()};
  }
  const int fitting = operations_.at(setting);
  const SampleRequest request{
      .quantity = burst.quantity,
      .operations = burst.quantity == Quantity::device ? std::min(fitting, most_queued) : fitting,
      .samples = 1,
      .setting = setting};
  return {step(
      Phase::sample, [&] { return times_of(request); }, slowest)};
}

std::vector<Trial> Trials::run_block(const TrialOrder& order) {
  std::vector<Trial> trials;
  for (const std::string& setting : order.settings) {
    try {
      switch_to(order.place);
      trials.push_back({.outcome = Trial::Outcome::measured, .time = sample(setting, order.burst), .because = {}});
    } catch (const WrongData& wrong) {
      trials.push_back({Trial::Outcome::wrong_data, {}, wrong.what});
      operations_.erase(setting);
    } catch (const Unavailable& unavailable) {
      trials.push_back({Trial::Outcome::skipped, {}, unavailable.why});
      break;
    } catch (const PhaseFailed& failed) {
      trials.push_back({Trial::Outcome::failed, {}, describe(failed)});
      abandon_arm(order.place.arm);
      break;
    }
  }
  trials.resize(order.settings.size(), {Trial::Outcome::skipped, {}, "an earlier setting of the block failed"});
  return trials;
}

void Alternation::launch() {
  if (launches_ > 0 && !rules_.apart) restart();
  for (int i = 0; i < rules_.turns; ++i) turn((launches_ + i) % 2 == 1);
  ++launches_;
}

bool Alternation::failed(std::size_t side) const {
  return std::ranges::any_of(samples_, [&](const std::vector<SideSamples>& size) {
    return !size[side].failure.empty() && size.front().outcome != Trial::Outcome::skipped;
  });
}

int Alternation::failures(std::size_t side) const {
  return static_cast<int>(std::ranges::count_if(
      samples_, [&](const std::vector<SideSamples>& size) { return size[side].outcome == Trial::Outcome::failed; }));
}

void Alternation::add_failure(std::size_t size, std::size_t side, const Trial& trial) {
  SideSamples& found = samples_[size][side];
  if (trial.outcome == Trial::Outcome::measured || !found.failure.empty()) return;
  found.failure = trial.because;
  found.outcome = trial.outcome;
}

void Alternation::restart() {
  std::set<std::size_t> arms;
  for (const AlternatedSize& size : sizes_)
    for (const TrialTarget& place : size.sides) arms.insert(place.arm);
  trials_.restart({arms.begin(), arms.end()});
}

void Alternation::turn(bool backwards) {
  for (std::size_t size = 0; size < sizes_.size(); ++size) {
    if (sizes_[size].samples == 0) continue;
    if (!rules_.may_continue()) return;
    const std::size_t sides = sizes_[size].sides.size();
    for (std::size_t i = 0; i < sides; ++i) measure(size, backwards ? sides - 1 - i : i);
  }
}

void Alternation::measure(std::size_t size, std::size_t side) {
  const AlternatedSize& what = sizes_[size];
  SideSamples& found = samples_[size][side];
  if (rules_.apart) restart();
  for (const Quantity quantity : what.quantities) {
    if (!found.failure.empty()) return;
    std::vector<double> times;
    for (const Trial& trial :
         trials_.block(what.sides[side], std::vector<std::string>(static_cast<std::size_t>(what.samples)),
                       {rules_.burst, quantity})) {
      if (trial.outcome == Trial::Outcome::measured) times.push_back(trial.time.count);
      add_failure(size, side, trial);
    }
    if (times.empty()) return;
    std::vector<Launch>& launches = found.launches[quantity];
    if (launches.empty() || launches.back().number != launches_) launches.emplace_back().number = launches_;
    Launch& launch = launches.back();
    launch.samples_s.insert(launch.samples_s.end(), times.begin(), times.end());
    launch.median_s = median(launch.samples_s);
  }
}

}  // namespace p5
