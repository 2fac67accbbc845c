// Who we are and how we agree: the processes or threads of a job as participants, each hosting one rank (MPI, threads)
// or all of them (solo). Never timed. Every decision that changes how many operations run goes through the leader, so
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
  // Ranks hosted by this participant, ascending. Those of participant 0 come first, and so on.
  virtual const std::vector<int>& hosted() const = 0;
  // True for exactly one participant: it decides, writes files and talks to the user.
  virtual bool is_leader() const = 0;
  virtual int participants() const = 0;
  virtual int participant() const = 0;

  // All participants' blobs in order, at the leader; empty elsewhere.
  virtual std::vector<std::string> gather(const std::string& mine) = 0;
  // The leader's blob, everywhere.
  virtual std::string broadcast(const std::string& leaders) = 0;

  // Out of turn: tells all others that this participant has given up, for those that wait for something else than the
  // world. epoch: of the work given up; no two generations of workers have the same.
  virtual void notify_abort(std::uint32_t epoch) = 0;
  // Whether another participant has given up work of this epoch. Cheap enough to poll.
  virtual bool abort_notified(std::uint32_t epoch) = 0;

  // At the leader, from any thread: the participants whose parts of the gather that it waits in have not come; none
  // where it waits in none, or cannot know.
  virtual std::vector<int> missing_participants() const { return {}; }

  void barrier() { gather(""), broadcast(""); }
};

}  // namespace p5
