// The order in which one thread launches the operations of works that run at the same time.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace p5::nccl {

// A launch waits while the queue of its stream is full (about 1,024 commands), and with it all launches behind it:
// works whose operations are launched by their share would then be as fast as the slowest of them, and the device would
// have nothing to do of the others. So each work has few operations that are launched and not finished.
class LaunchOrder {
 public:
  static constexpr int most_unfinished = 64;

  struct Part {
    int operations = 0;
    // Operations of NCCL's communicators are launched by all ranks in the same order, whatever has finished where.
    bool ordered = false;
  };

  explicit LaunchOrder(const std::vector<Part>& parts) {
    for (const Part& part : parts) parts_.push_back({part, 0, 0});
  }

  // The part whose next operation is to be launched: the one that has launched the smallest share. Null: none can be
  // before some have finished, or all are launched.
  std::optional<std::size_t> next() const {
    const std::optional<std::size_t> ordered = least([](const State& each) { return each.part.ordered; });
    const bool waits = ordered && full(parts_[*ordered]);
    const std::optional<std::size_t> free = least([](const State& each) { return !each.part.ordered && !full(each); });
    if (!ordered || waits) return free;
    if (!free) return ordered;
    return share(parts_[*free]) < share(parts_[*ordered]) ? free : ordered;
  }

  void launched(std::size_t part) { ++parts_[part].launched; }
  void finished(std::size_t part, int operations) { parts_[part].finished = operations; }
  int launched_of(std::size_t part) const { return parts_[part].launched; }
  bool all_launched() const {
    for (const State& each : parts_)
      if (each.launched < each.part.operations) return false;
    return true;
  }

 private:
  struct State {
    Part part;
    int launched = 0, finished = 0;
  };
  static bool full(const State& each) { return each.launched - each.finished >= most_unfinished; }
  static double share(const State& each) { return (each.launched + 1.0) / each.part.operations; }

  template <typename Condition>
  std::optional<std::size_t> least(const Condition& takes_part) const {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (parts_[i].launched < parts_[i].part.operations && takes_part(parts_[i]) &&
          (!best || share(parts_[i]) < share(parts_[*best])))
        best = i;
    return best;
  }

  std::vector<State> parts_;
};

}  // namespace p5::nccl
