// One round of a case over libfabric: memory of the host or of a GPU, messages between pairs or around a ring, or
// writes from one to the other, timed with the steady clock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/backends/host_buffers.hpp"
#include "bench/backends/ofi/fabric.hpp"
#include "bench/backends/ofi/gpus.hpp"
#include "bench/model/backend.hpp"

namespace p5::ofi {

// Where the data of a worker lies.
struct DataPlace {
  Gpus* gpus = nullptr;               // null: in host memory
  std::vector<std::size_t> beside{};  // by NIC: the place among the GPUs of the one beside it
  bool copied = false;                // NICs do not reach GPU memory: through host memory
  std::string name = "host memory";   // for reports
};

class OfiSession final : public Session {
 public:
  // Throws CaseError on anything but p2p and send_recv.
  OfiSession(Case c, int round, std::optional<RankInGroup> place, Nics& nics, const DataPlace& data, int rank,
             int ranks);

  int slots() const override { return operations_; }
  void warm_up(int operations, const std::string& setting) override;
  Times sample(const SampleRequest& request) override;
  Verification verify() override;
  std::optional<Selection> selection() override;

 private:
  // What a tag says, so that a message is taken for no other: whether it belongs to a barrier, which burst or barrier
  // it is of, alike on all ranks because all count them, its number in that, and who sent it.
  static std::uint64_t tag(bool barrier, std::uint32_t burst, int number, int source);

  std::size_t gpu_place() const;
  void enlist();
  bool is_source() const { return place_->member.rank == 0; }
  int peer() const { return place_->group[static_cast<std::size_t>(1 - place_->member.rank)]; }
  void barrier();
  void operate(int first, int count);  // nothing where the rank pauses
  void move(int first, int count);
  void messages(int first, int count, int to, int from);
  void ping_pong(int first, int count);
  void learn_targets();
  void writes(int first, int count);
  std::byte* input(int slot) const;  // as the NIC takes it
  std::byte* output(int slot) const;
  const Nics::Registrations& registration_of(const std::vector<Nics::Registrations>& slots, int slot) const;
  void came(int slot);  // a message, for good
  void send(int slot, int number, int to, int& under_way);
  void receive(int slot, int number, int from, int& under_way);

  Case case_;
  std::optional<RankInGroup> place_;
  Nics& nics_;
  int rank_ = 0, ranks_ = 1;
  const DataPlace& data_;
  HostBuffers buffers_;
  std::unique_ptr<GpuMirror> mirror_;                  // null: the data lies in host memory
  bool writes_ = false;                                // into the memory of the receiver, instead of messages to it
  std::vector<Target> targets_;                        // by slot, once the receiver has said them
  std::vector<Nics::Registrations> inputs_, outputs_;  // by slot; one for all where it is a GPU's
  Nics::Registrations unregistered_ = Nics::Registrations(1);  // of no bytes
  std::optional<Moved> moved_before_;
  int operations_ = 1;  // of a sample, at most
  std::uint32_t bursts_ = 0;
  int next_slot_ = 0, last_slot_ = 0, last_count_ = 0;
};

}  // namespace p5::ofi
