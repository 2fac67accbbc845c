// The ranks of a job and their agreement: its processes or threads as participants, each of which hosts one rank (MPI,
// threads) or all of them (solo). Never timed. Every decision that changes how many operations run is the leader's, so
// that all ranks decide alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace p5 {

class ControlPlane {
 public:
  virtual ~ControlPlane() = default;

  virtual int ranks() const = 0;
  // Ranks hosted by this participant, ascending; participant 0 has the lowest ranks, and so on.
  virtual const std::vector<int>& hosted() const = 0;
  // True for exactly one participant, which decides, writes files and talks to the user.
  virtual bool is_leader() const { return participant() == 0; }
  virtual int participants() const { return ranks(); }
  virtual int participant() const { return hosted().front(); }

  // The texts of all participants in order, at the leader; empty elsewhere.
  virtual std::vector<std::string> gather(const std::string& mine) = 0;
  // The leader's text, at every participant.
  virtual std::string broadcast(const std::string& text_of_leader) = 0;

  // Sends all others an abort notice outside of the collective calls, for participants that wait for something else
  // than the control plane. `epoch` identifies the aborted work: each start of workers has an epoch of its own. Notices
  // are never taken back.
  virtual void notify_abort(std::uint32_t epoch) = 0;
  // True if another participant has aborted work of this epoch. Cheap enough to poll.
  virtual bool abort_notified(std::uint32_t epoch) = 0;
  // First epoch of a range that nobody else on this control plane counts in, for workers that are not stopped by each
  // other's failures. All participants call it in the same order.
  virtual std::uint32_t next_abort_range() { return abort_ranges_++ * epochs_of_range; }

  // At the leader, callable from any thread: participants whose parts of the current gather have not arrived; empty
  // where no gather is pending or this is unknown.
  virtual std::vector<int> missing_participants() const { return {}; }

  void barrier() { gather(""), broadcast(""); }

 private:
  static constexpr std::uint32_t epochs_of_range = 1u << 24;
  std::uint32_t abort_ranges_ = 0;
};

}  // namespace p5
