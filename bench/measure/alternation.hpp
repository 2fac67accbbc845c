// Sides in turns: short samples of two or more ways to run the same thing, at several sizes, in one launch after the
// other. At the leader, over Trials. Whole cases, with a series that ends when it is certain enough, are
// measured by run_launches (runner.hpp); both give launches to the one judge (effect.hpp).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/measure/resampling.hpp"
#include "bench/measure/trials.hpp"

namespace p5 {

struct AlternatedSize {
  std::vector<TrialTarget> sides;  // the first is what the others are compared with
  int samples = 0;                 // in a turn, of each quantity; 0: left out
  std::vector<Quantity> quantities{Quantity::device};
};

// What came of one side at one size.
struct SideSamples {
  std::map<Quantity, std::vector<Launch>> launches;
  std::string failure;  // why it gave no more samples; "" where it did not fail
  // Empty where none were measured.
  std::vector<Launch> of(Quantity quantity) const {
    const auto found = launches.find(quantity);
    return found == launches.end() ? std::vector<Launch>() : found->second;
  }
};

struct AlternationRules {
  Seconds burst;  // of one sample
  int turns = 1;  // in a launch: forwards and backwards through the sides, so that what drifts hits all alike
  // Asked before each size: whether there is time, and any use.
  std::function<bool()> go_on = [] { return true; };
};

class Alternation {
 public:
  Alternation(Trials& trials, std::vector<AlternatedSize> sizes, AlternationRules rules)
      : trials_(trials), sizes_(std::move(sizes)), rules_(std::move(rules)), samples_(sizes_.size()) {
    for (std::size_t i = 0; i < sizes_.size(); ++i) samples_[i].resize(sizes_[i].sides.size());
  }

  // One launch more of everything, in the workers that there are at first, then in new ones. A side that failed at a
  // size is not tried again there.
  void launch();
  int launches() const { return launches_; }

  const SideSamples& at(std::size_t size, std::size_t side) const { return samples_[size][side]; }
  bool failed(std::size_t side) const;

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
