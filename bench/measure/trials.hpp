// Short samples on request, for what decides as it goes (a tuner). The leader asks, all others follow, and each step is
// an agreement as in a case: a setting that hangs or crashes costs one trial and new workers.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/measure/runner.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/measurement.hpp"

namespace p5 {

struct Burst {
  Seconds lasts;
  Quantity quantity = Quantity::throughput;  // or device
};

// A case of one round, in one arm: the index of a backend of its own.
struct TrialTarget {
  std::size_t arm = 0, at = 0;
  auto operator<=>(const TrialTarget&) const = default;
};

class Trials {
 public:
  // Alike on all participants. Each arm brings its own ranks together at its first use. `cases` are of one round each.
  Trials(ControlPlane& control, std::vector<Backend*> arms, std::vector<Case> cases, RunnerOptions options);

  // ---- at the leader

  const std::vector<Case>& cases() const { return cases_; }
  // What the library offers for a case; empty where it tells nothing, and `problem` then says what failed, if anything.
  std::vector<Offer> cost_table(TrialTarget place, std::string& problem);
  // What it takes for a case with a setting ("": by itself), where it says so.
  std::optional<Selection> selection(TrialTarget place, const std::string& setting, std::string& problem);
  // One sample of each setting, in this order, of as many operations as last for `burst`. In each repetition of a case
  // a setting is first warmed up, and its results are checked.
  std::vector<Trial> block(TrialTarget place, const std::vector<std::string>& settings, Burst burst);
  // The arms are to be used next: what they need to start begins at once, side by side.
  void prepare(const std::vector<std::size_t>& arms);
  // Ends the arms' workers and prepares new ones: their next use is a fresh launch.
  void restart(const std::vector<std::size_t>& arms);
  // Ends follow() on the others.
  void finish();

  // ---- elsewhere: takes part until the leader has finished.
  void follow();

 private:
  struct Order;
  void announce(const Order& order);
  void execute(const Order& order);

  void switch_to(TrialTarget place);
  void join(Backend& backend);
  void leave();
  void give_up(std::size_t arm);
  template <class Answer>
  Answer ask(const Order& order, Answer (Session::*question)());
  template <class Answer>
  Answer announce_and_ask(const Order& order, Answer (Session::*question)(), std::string& problem);
  std::vector<Trial> run_block(const Order& order);
  Seconds sample(const std::string& setting, Burst burst);
  std::string prepare(const std::string& setting, Burst burst);
  template <class... Parts>
  auto step(Phase phase, const Parts&... local_and_decide) {
    return agree(control_, phase, arms_[place_->arm]->recovers(), local_and_decide...);
  }

  ControlPlane& control_;
  std::vector<Backend*> arms_;
  std::vector<Case> cases_;
  RunnerOptions options_;
  std::optional<TrialTarget> place_;
  std::unique_ptr<Session> session_;
  std::map<std::string, int> operations_;  // of the settings that this repetition has prepared
};

}  // namespace p5
