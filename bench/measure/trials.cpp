#include "bench/measure/trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/units.hpp"
#include "bench/measure/agreement.hpp"

namespace p5 {

namespace {

using nlohmann::json;

// Of all hosted ranks of all participants.
double slowest(const std::vector<Times>& parts) {
  double worst = 0;
  for (const Times& part : parts)
    for (const std::vector<double>& times : part)
      for (const double time : times)
        if (!std::isnan(time)) worst = std::max(worst, time);
  return worst;
}

std::string text_of(const Verification& v) {
  if (v.wrong_elements == 0) return "";
  const WrongElement first = v.first.value_or(WrongElement{});
  return fmt::format("{} wrong elements, the first at rank {}, offset {}: {} instead of {}", v.wrong_elements,
                     first.rank, first.offset, first.got, first.wanted);
}

// A setting's results are wrong; thrown on all participants alike.
struct WrongData {
  std::string what;
};

std::string failure_text(const PhaseFailed& failed) {
  return fmt::format("{}{}: {}", failed.rank ? fmt::format("rank {} in ", *failed.rank) : "", name_of(failed.phase),
                     failed.what);
}

}  // namespace

struct Trials::Order {
  std::string what;  // offers, selection, block, prepare, restart, finish
  TrialTarget place;
  std::vector<std::string> settings;
  Burst burst;
  std::vector<std::size_t> arms = {};  // to prepare or restart
};

Trials::Trials(ControlPlane& control, std::vector<Backend*> arms, std::vector<Case> cases, RunnerOptions options)
    : control_(control), arms_(std::move(arms)), cases_(std::move(cases)), options_(std::move(options)) {}

// ---- the leader's word

void Trials::announce(const Order& order) {
  control_.broadcast(json{
      {"what", order.what},
      {"arm", order.place.arm},
      {"at", order.place.at},
      {"settings", order.settings},
      {"burst", order.burst.lasts.count},
      {"quantity", order.burst.quantity},
      {"arms",
       order.arms}}.dump());
}

void Trials::follow() {
  for (;;) {
    const json said = json::parse(control_.broadcast(""));
    const Order order{said.at("what"),
                      {said.at("arm"), said.at("at")},
                      said.at("settings"),
                      {{said.at("burst")}, said.at("quantity")},
                      said.at("arms")};
    if (order.what == "finish") return leave();
    execute(order);
  }
}

void Trials::execute(const Order& order) {
  if (order.what == "block") run_block(order);
  if (order.what == "restart") {
    leave();
    for (const std::size_t arm : order.arms) arms_[arm]->stop();
    for (const std::size_t arm : order.arms) arms_[arm]->abandon();
  }
  for (const std::size_t arm : order.arms) arms_[arm]->prepare();
  try {
    if (order.what == "cost_table") ask(order, &Session::cost_table);
    if (order.what == "selection") ask(order, &Session::selection);
  } catch (const PhaseFailed&) {
    // The leader has heard the same.
  }
}

void Trials::prepare(const std::vector<std::size_t>& arms) {
  const Order order{"prepare", {}, {}, {}, arms};
  announce(order);
  execute(order);
}

void Trials::restart(const std::vector<std::size_t>& arms) {
  const Order order{"restart", {}, {}, {}, arms};
  announce(order);
  execute(order);
}

void Trials::finish() {
  announce({"finish", {}, {}, {}});
  leave();
}

std::vector<Offer> Trials::cost_table(TrialTarget place, std::string& problem) {
  return announce_and_ask({"cost_table", place, {""}, {}}, &Session::cost_table, problem);
}

std::optional<Selection> Trials::selection(TrialTarget place, const std::string& setting, std::string& problem) {
  return announce_and_ask({"selection", place, {setting}, {}}, &Session::selection, problem);
}

template <class Answer>
Answer Trials::announce_and_ask(const Order& order, Answer (Session::*question)(), std::string& problem) {
  announce(order);
  try {
    return ask(order, question);
  } catch (const PhaseFailed& failed) {
    problem = failure_text(failed);
    return {};
  }
}

std::vector<Trial> Trials::block(TrialTarget place, const std::vector<std::string>& settings, Burst burst) {
  const Order order{"block", place, settings, burst};
  announce(order);
  return run_block(order);
}

// ---- on all participants

void Trials::leave() {
  session_.reset();
  place_.reset();
  operations_.clear();
}

// The workers first: what they did not finish cannot be closed in order.
void Trials::give_up(std::size_t arm) {
  arms_[arm]->abandon();
  leave();
}

void Trials::switch_to(TrialTarget place) {
  if (place_ == place && session_) return;
  leave();
  place_ = place;
  Backend& backend = *arms_[place.arm];
  if (!backend.joined()) join(backend);
  step(Phase::open, [&] { session_ = backend.open(cases_.at(place.at), 0); });
}

void Trials::join(Backend& backend) {
  const auto began = Clock::now();
  const auto tell = [&] {
    if (options_.on_join) options_.on_join(since(began));
  };
  try {
    join_ranks(control_, backend);
  } catch (...) {
    tell();
    throw;
  }
  tell();
}

// After an operation with the order's setting.
template <class Answer>
Answer Trials::ask(const Order& order, Answer (Session::*question)()) try {
  switch_to(order.place);
  step(Phase::warm_up, [&] { session_->warm_up(1, order.settings.at(0)); });
  Answer answer{};
  step(Phase::warm_up, [&] { answer = (*session_.*question)(); });
  return answer;
} catch (const PhaseFailed&) {
  give_up(order.place.arm);
  throw;
}

// Warms the setting up, finds how many operations make a burst, and checks what comes out. Returns what is wrong.
std::string Trials::prepare(const std::string& setting, Burst burst) {
  step(Phase::warm_up, [&] { session_->warm_up(1, setting); });
  const SampleRequest one{.operations = 1, .samples = 2, .setting = setting};
  const int operations = step(
      Phase::warm_up, [&] { return session_->sample(one); },
      [&](const std::vector<Times>& parts) {
        const double fitting = std::ceil(burst.lasts.count / std::max(slowest(parts), 1e-9));
        return static_cast<int>(std::clamp(fitting, 1.0, static_cast<double>(session_->slots())));
      });
  const SampleRequest checked{.operations = operations, .samples = 1, .poison_last = true, .setting = setting};
  step(Phase::sample, [&] { session_->sample(checked); });
  std::string wrong = step(
      Phase::verify, [&] { return text_of(session_->verify()); },
      [](const std::vector<std::string>& parts) {
        const auto found = std::ranges::find_if(parts, [](const std::string& part) { return !part.empty(); });
        return found == parts.end() ? std::string() : *found;
      });
  operations_[setting] = operations;
  return wrong;
}

Seconds Trials::sample(const std::string& setting, Burst burst) {
  if (!operations_.contains(setting))
    if (const std::string wrong = prepare(setting, burst); !wrong.empty()) throw WrongData{wrong};
  const int fitting = operations_.at(setting);
  const SampleRequest request{
      .quantity = burst.quantity,
      .operations = burst.quantity == Quantity::device ? std::min(fitting, most_queued) : fitting,
      .samples = 1,
      .setting = setting};
  return {step(
      Phase::sample, [&] { return session_->sample(request); }, slowest)};
}

std::vector<Trial> Trials::run_block(const Order& order) {
  std::vector<Trial> trials;
  for (const std::string& setting : order.settings) {
    try {
      switch_to(order.place);
      trials.push_back({.outcome = Trial::Outcome::measured, .time = sample(setting, order.burst), .because = {}});
    } catch (const WrongData& wrong) {
      trials.push_back({Trial::Outcome::wrong_data, {}, wrong.what});
      operations_.erase(setting);
    } catch (const PhaseFailed& failed) {
      trials.push_back({Trial::Outcome::failed, {}, failure_text(failed)});
      give_up(order.place.arm);
      break;
    }
  }
  trials.resize(order.settings.size(), {Trial::Outcome::skipped, {}, "an earlier setting of the block failed"});
  return trials;
}

}  // namespace p5
