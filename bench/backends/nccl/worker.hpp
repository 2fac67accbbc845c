// The NCCL worker: one GPU, one communicator of all ranks, and their sessions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/backends/nccl/session.hpp"
#include "bench/backends/nccl/tuning_log.hpp"
#include "bench/backends/protocol.hpp"
#include "bench/backends/worker_program.hpp"

namespace p5::nccl {

// Makes GPU number local_rank, modulo the visible ones, current and binds this process to the cores near it.
int choose_device(int local_rank);
protocol::Identity identify_device(int device);

// Replaces the launcher's binding by the allowed cores near a PCI device; all allowed cores if those are unknown.
void bind_near(const std::string& pci_address);
// Parses the kernel's list format, "0-3,8"; empty if malformed.
std::vector<int> parse_cpu_list(const std::string& text);

class Worker final : public WorkerProgram {
 public:
  explicit Worker(protocol::SharedPage& page) : page_(page) {}

  void abort() override;

 private:
  protocol::Identity identify(const protocol::LocalRank& local) override;
  std::string id() override;
  Environment join(const std::vector<std::string>& ids, int rank, int ranks) override;
  void form(const Formation& formation) override;
  void leave_groups() override { engine_->leave_groups(); }
  std::unique_ptr<Session> open(Case c, int round, std::optional<RankInGroup> place, std::uint64_t memory) override;
  void close() override;
  LocalChecks check_locally(Seconds burn) override;
  std::string waits_for() const override { return session_ ? session_->unfinished() : ""; }
  bool is_idle_after_abort() noexcept override;

  protocol::SharedPage& page_;
  TuningLog log_;
  std::optional<int> device_;
  std::optional<Engine> engine_;
  NcclSession* session_ = nullptr;  // the open session; null also if it is of a communicator
};

}  // namespace p5::nccl
