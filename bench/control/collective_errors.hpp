// A ControlPlane with collective errors: an exception of one participant ends the current attempt with the same error
// on all.
//
// The others may wait for the failed one in a gather or in a broadcast, which it cannot know. So the two strictly
// alternate here: a call out of order is preceded by an empty one of the other kind. A failed participant sends its
// problem with its next gather, and all receive it in the leader's broadcast that follows.
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

// An exception as a value.
struct Problem {
  ExitCode code = ExitCode::unfinished;  // usage, environment, or unfinished
  std::string what;
  // Throws UsageError, EnvironmentError or std::runtime_error.
  [[noreturn]] void raise() const;
};

class CollectiveErrors final : public ControlPlane {
 public:
  // The watchdog is armed while this participant waits for others, unless it is armed already.
  explicit CollectiveErrors(ControlPlane& inner, Watchdog* watchdog = nullptr) : inner_(inner), watchdog_(watchdog) {}

  // Name of the following step, and the limit of each wait for other ranks in it.
  void begin_step(std::string step, Seconds longest_wait);

  // Runs `action` on all participants. When any of them throws, all get the same problem: the leader's, or that of the
  // lowest rank that has one. JobLost is rethrown on its own rank, and so are exceptions of the inner control plane but
  // UsageError and EnvironmentError.
  std::optional<Problem> attempt(const std::function<void()>& action);

  int ranks() const override { return inner_.ranks(); }
  const std::vector<int>& hosted() const override { return inner_.hosted(); }
  bool is_leader() const override { return inner_.is_leader(); }
  int participants() const override { return inner_.participants(); }
  int participant() const override { return inner_.participant(); }
  // Only within an attempt.
  std::vector<std::string> gather(const std::string& mine) override;
  std::string broadcast(const std::string& text_of_leader) override;
  void notify_abort(std::uint32_t epoch) override { inner_.notify_abort(epoch); }
  bool abort_notified(std::uint32_t epoch) override { return inner_.abort_notified(epoch); }
  std::uint32_t next_abort_range() override { return inner_.next_abort_range(); }
  std::vector<int> missing_participants() const override { return inner_.missing_participants(); }

 private:
  std::vector<std::string> exchange_gather(const std::string& message);
  std::string exchange_broadcast(const std::string& message);
  Problem distribute(const Problem& mine);

  ControlPlane& inner_;
  Watchdog* const watchdog_;
  std::string step_;
  Seconds longest_wait_{};
  bool gather_is_next_ = true;
  bool in_inner_call_ = false;       // in a call of the inner control plane, or it threw
  std::optional<Problem> received_;  // the problem that ended this attempt; no participant listens until the next one
};

}  // namespace p5
