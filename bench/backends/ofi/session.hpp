// One round of a case over libfabric: host memory, messages between pairs or around a ring, timed with the steady
// clock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/backends/host_buffers.hpp"
#include "bench/backends/ofi/fabric.hpp"
#include "bench/model/backend.hpp"

namespace p5::ofi {

class OfiSession final : public Session {
 public:
  // Throws CaseError on anything but p2p and send_recv.
  OfiSession(Case c, int round, std::optional<RankInGroup> place, Nics& nics, int rank, int ranks);

  int slots() const override { return operations_; }
  void warm_up(int operations, const std::string& setting) override;
  Times sample(const SampleRequest& request) override;
  Verification verify() override;
  std::optional<Selection> selection() override;

 private:
  // What a tag says, so that a message is taken for no other: whether it belongs to a barrier, which burst or barrier
  // it is of, alike on all ranks because all count them, its number in that, and who sent it.
  static std::uint64_t tag(bool barrier, std::uint32_t burst, int number, int source);

  void enlist();
  void barrier();
  void operate(int first, int count);  // nothing where the rank pauses
  void move(int first, int count);
  void messages(int first, int count, int to, int from);
  void ping_pong(int first, int count);
  void send(int slot, int number, int to, int& under_way);
  void receive(int slot, int number, int from, int& under_way);

  Case case_;
  std::optional<RankInGroup> place_;
  Nics& nics_;
  int rank_ = 0, ranks_ = 1;
  HostBuffers buffers_;
  std::vector<Nics::Registrations> inputs_, outputs_;          // by slot
  Nics::Registrations unregistered_ = Nics::Registrations(1);  // of no bytes
  std::optional<Moved> moved_before_;
  int operations_ = 1;  // of a sample, at most
  std::uint32_t bursts_ = 0;
  int next_slot_ = 0, last_slot_ = 0, last_count_ = 0;
};

}  // namespace p5::ofi
