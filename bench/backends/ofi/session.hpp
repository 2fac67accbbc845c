// One round of a case over libfabric: data in host or GPU memory, sent as messages between pairs or around a ring, or
// written to the receiver, timed with the steady clock.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/backends/host_buffers.hpp"
#include "bench/backends/ofi/fabric.hpp"
#include "bench/backends/ofi/gpus.hpp"
#include "bench/model/backend.hpp"

namespace p5::ofi {

// Place of a worker's data.
struct DataPlace {
  Gpus* gpus = nullptr;               // null: data in host memory
  std::vector<std::size_t> beside{};  // by NIC: index of its nearest GPU
  bool copied = false;                // NICs cannot access GPU memory: data is copied through host memory
  std::string name = "host memory";   // label for reports
};

class OfiSession final : public Session {
 public:
  // Throws CaseError unless the case is p2p or send_recv.
  OfiSession(Case c, int round, std::optional<RankInGroup> place, Nics& nics, const DataPlace& data, int rank,
             int ranks);

  int slots() const override { return operations_; }
  void warm_up(int operations, const std::string& setting) override;
  Times sample(const SampleRequest& request) override;
  Verification verify() override;
  std::vector<std::string> probe_nics(Seconds limit) override;
  std::optional<Selection> selection() override;

 private:
  // Tag that is unique among messages in flight: barrier or data, number of the burst or barrier (the same on all ranks
  // because all count them), message number within it, and source rank.
  static std::uint64_t tag(bool barrier, std::uint32_t burst, int number, int source);

  std::size_t gpu_place() const;
  void enlist();
  bool is_source() const { return place_->member.rank == 0; }
  int peer() const { return place_->group[static_cast<std::size_t>(1 - place_->member.rank)]; }
  void barrier();
  void operate(int first, int count);  // does nothing if the rank pauses
  void move(int first, int count);
  void messages(int first, int count, int to, int from);
  void ping_pong(int first, int count);
  void learn_targets();
  void writes(int first, int count);
  std::byte* input(int slot) const;  // the buffer that the NIC accesses
  std::byte* output(int slot) const;
  const Nics::Registrations& registration_of(const std::vector<Nics::Registrations>& slots, int slot) const;
  void came(int slot);  // marks the message as received
  void send(int slot, int number, int to, int& under_way);
  void receive(int slot, int number, int from, int& under_way);

  Case case_;
  std::optional<RankInGroup> place_;
  Nics& nics_;
  int rank_ = 0, ranks_ = 1;
  const DataPlace& data_;
  HostBuffers buffers_;
  std::unique_ptr<GpuMirror> mirror_;                  // null: the data lies in host memory
  bool writes_ = false;                                // RMA writes to the receiver's memory instead of messages
  std::vector<Target> targets_;                        // by slot, after the receiver has sent them
  std::vector<Nics::Registrations> inputs_, outputs_;  // by slot; one for all slots if the data lies in GPU memory
  Nics::Registrations unregistered_ = Nics::Registrations(1);  // registrations of zero bytes, for barriers
  std::optional<Moved> moved_before_;
  int operations_ = 1;  // most operations of a sample
  std::uint32_t bursts_ = 0;
  int next_slot_ = 0, last_slot_ = 0, last_count_ = 0;
};

}  // namespace p5::ofi
