// A ControlPlane whose participants share their fate: what one of them throws ends what all do together, on all alike.
//
// Others then wait for it in a gather or a broadcast, and it cannot know in which. So the two take turns here: what is
// called out of turn is preceded by an empty one of the other kind. Whoever fails sends its problem with its next
// gather, and all learn of it in the leader's broadcast that follows.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/error.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"
#include "bench/model/control_plane.hpp"

namespace p5 {

// What an exception says, as a value.
struct Problem {
  ExitCode code = ExitCode::unfinished;  // usage, environment, or this
  std::string what;
  // UsageError, EnvironmentError or another exception, as it was.
  [[noreturn]] void raise() const;
};

class CollectiveErrors final : public ControlPlane {
 public:
  // The watchdog is told while this participant waits for others, unless it is told of something else.
  explicit CollectiveErrors(ControlPlane& inner, Watchdog* watchdog = nullptr) : inner_(inner), watchdog_(watchdog) {}

  // What all do from now on, and how long they may wait for each other in it.
  void begin_step(std::string step, Seconds longest_wait);

  // On all participants together. When any of them throws, all get the same: the leader's problem, or that of the first
  // rank that has one. JobLost stays its own, and so does what the inner world throws.
  std::optional<Problem> attempt(const std::function<void()>& action);

  int ranks() const override { return inner_.ranks(); }
  const std::vector<int>& hosted() const override { return inner_.hosted(); }
  bool is_leader() const override { return inner_.is_leader(); }
  int participants() const override { return inner_.participants(); }
  int participant() const override { return inner_.participant(); }
  // Within an attempt only.
  std::vector<std::string> gather(const std::string& mine) override;
  std::string broadcast(const std::string& leaders) override;
  void notify_abort(std::uint32_t epoch) override { inner_.notify_abort(epoch); }
  bool abort_notified(std::uint32_t epoch) override { return inner_.abort_notified(epoch); }
  std::vector<int> missing_participants() const override { return inner_.missing_participants(); }

 private:
  std::vector<std::string> take_turn_gathering(const std::string& message);
  std::string take_turn_broadcasting(const std::string& message);
  Problem share(const Problem& mine);

  ControlPlane& inner_;
  Watchdog* const watchdog_;
  std::string step_;
  Seconds longest_wait_{};
  bool gather_is_next_ = true;
  bool inside_ = false;          // the inner world, or it threw
  std::optional<Problem> told_;  // what ended this attempt: until the next one nobody listens
};

}  // namespace p5
