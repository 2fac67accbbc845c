// Short samples on request, for tuning, which decides what to measure next. The leader sends orders, all others follow,
// and each step is an agreement: a setting that hangs or crashes costs one trial and new workers. Alternation measures
// two or more sides this way in turns; whole cases are measured by run_launches() (runner.hpp).
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure/effect.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"
#include "bench/model/control_plane.hpp"
#include "bench/model/measurement.hpp"

namespace p5 {

struct Burst {
  Seconds lasts;
  // throughput, device, or together. Of a case with works beside it both throughput and device are the time of its own
  // operations alone, on the device.
  Quantity quantity = Quantity::throughput;
};

// A case of one round, in one arm (index of a backend).
struct TrialTarget {
  std::size_t arm = 0, at = 0;
  auto operator<=>(const TrialTarget&) const = default;
};

struct TrialOrder;

class Trials {
 public:
  // All participants pass the same. Each arm joins its own ranks at its first use. `cases` have one round each.
  Trials(ControlPlane& control, std::vector<Backend*> arms, std::vector<Case> cases, RunnerOptions options);

  // ---- at the leader

  const std::vector<Case>& cases() const { return cases_; }
  // The library's cost table for a case; empty where it has none or cannot perform the case, or on a failure, which
  // `problem` then describes.
  std::vector<Offer> cost_table(TrialTarget place, std::string& problem);
  // The library's selection for a case with a setting ("": its own choice), where it is known.
  std::optional<Selection> selection(TrialTarget place, const std::string& setting, std::string& problem);
  // Takes one sample of each setting, in this order, with as many operations as last for `burst`. A setting is warmed
  // up and its results are verified once for each open session. Samples of a case that the library cannot perform are
  // skipped. Samples of Quantity::together have the same numbers of operations for all settings and arms: those that
  // take the same time alone with the library's choice.
  std::vector<Trial> block(TrialTarget place, const std::vector<std::string>& settings, Burst burst);
  // The reason that the library cannot perform a case that was to be measured; "" without one.
  std::string why_unavailable(std::size_t at) const;
  // Operations of a sample of Quantity::together: the case's own, then those of each work; empty before the first one.
  std::vector<int> operations_together(std::size_t at) const;
  // Starts the workers of the arms that are used next, all at the same time.
  void prepare(const std::vector<std::size_t>& arms) { give_order("prepare", arms); }
  // Ends the arms' workers and prepares new ones: their next use is a new launch.
  void restart(const std::vector<std::size_t>& arms) { give_order("restart", arms); }
  // Ends follow() on the other participants.
  void finish() { give_order("finish", {}); }

  // ---- at all others: executes the leader's orders until finish().
  void follow();

 private:
  void give_order(const std::string& what, const std::vector<std::size_t>& arms);
  void announce(const TrialOrder& order);
  void execute(const TrialOrder& order);

  void switch_to(TrialTarget place);
  void join(Backend& backend);
  void close_session();
  void abandon_arm(std::size_t arm);
  template <class Answer>
  Answer query(const TrialOrder& order, Answer (Session::*call)());
  template <class Answer>
  Answer announce_and_query(const TrialOrder& order, Answer (Session::*call)(), std::string& problem);
  std::vector<Trial> run_block(const TrialOrder& order);
  bool has_works() const { return !cases_.at(place_->at).beside.empty(); }
  Times times_of(const SampleRequest& request);
  // The end of all operations of a request on each hosted rank; 0 where a rank takes no part.
  Times ends_of(const ConcurrentRequest& request);
  // Measures them at the first use.
  std::vector<int> fit_operations_together(Burst burst);
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
  std::map<std::size_t, std::string> unavailable_;  // reasons, by case
  std::map<std::string, int> operations_;           // operations per burst, by setting prepared in this session
};

struct AlternatedSize {
  std::vector<TrialTarget> sides;  // the others are compared with the first
  int samples = 0;                 // per turn and quantity; 0: skipped
  std::vector<Quantity> quantities{Quantity::device};
};

// Result of one side at one size.
struct SideSamples {
  std::map<Quantity, std::vector<Launch>> launches;
  std::string failure;                                // the reason for the end of its samples; "" without failure
  Trial::Outcome outcome = Trial::Outcome::measured;  // of the trial that failed
  // Empty where none were measured.
  std::vector<Launch> of(Quantity quantity) const {
    const auto found = launches.find(quantity);
    return found == launches.end() ? std::vector<Launch>() : found->second;
  }
};

struct AlternationRules {
  Seconds burst;       // duration of one sample
  int turns = 1;       // per launch, forwards and backwards through the sides, so that drift affects all alike
  bool apart = false;  // each side's workers are new and alone: none of other sides hold memory of the devices
  // Called before each size; false stops for lack of time or use.
  std::function<bool()> may_continue = [] { return true; };
};

class Alternation {
 public:
  Alternation(Trials& trials, std::vector<AlternatedSize> sizes, AlternationRules rules)
      : trials_(trials), sizes_(std::move(sizes)), rules_(std::move(rules)), samples_(sizes_.size()) {
    for (std::size_t i = 0; i < sizes_.size(); ++i) samples_[i].resize(sizes_[i].sides.size());
  }

  // Measures everything in one more launch, first in the existing workers, then in new ones. A side that failed at a
  // size is not tried there again.
  void launch();
  int launches() const { return launches_; }

  const SideSamples& at(std::size_t size, std::size_t side) const { return samples_[size][side]; }
  // True where the side failed at a size that the first one could perform.
  bool failed(std::size_t side) const;
  // Sizes at which the side failed without giving wrong data: each may have cost a timeout and new workers.
  int failures(std::size_t side) const;
  // Counts a trial from outside the launches, such as the first use of workers: a failure ends the side's samples.
  void add_failure(std::size_t size, std::size_t side, const Trial& trial);

 private:
  void restart();
  void turn(bool backwards);
  void measure(std::size_t size, std::size_t side);

  Trials& trials_;
  std::vector<AlternatedSize> sizes_;
  AlternationRules rules_;
  std::vector<std::vector<SideSamples>> samples_;  // [size][side]
  int launches_ = 0;
};

}  // namespace p5
