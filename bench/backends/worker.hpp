// A backend whose operations run in worker programs (see bench/backends/protocol.hpp).
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/backends/worker_process.hpp"
#include "bench/base/units.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/control_plane.hpp"

namespace p5 {

inline constexpr Seconds default_join_limit{120};

struct WorkerOptions {
  std::string program;      // path of the worker
  Environment environment;  // over this process's
  std::string host;         // for messages
  protocol::LocalRank local;
  Seconds timeout{30};  // for an answer, at least
  // For starting, and for coming together; of more than 1024 ranks in proportion.
  Seconds join_limit = default_join_limit;
  // When all waiting ends, whatever its own limit; then nobody is left to be asked for more than that either.
  std::optional<Clock::time_point> deadline = {};
  // How a report's context calls the library and the device.
  std::string library = "nccl", device = "gpu.uuid";
  bool each_has_id = false;    // ranks find each other by all their ids, not by the first one's
  std::string ras;             // where NCCL's RAS service answers; "": there is none
  bool messages_only = false;  // between ranks: no operations of groups
  // Backends that are no arms of each other but in one world need abort notices of their own: they count from here.
  std::uint32_t abort_epochs_from = 0;
  CostModel cost = cost_on_gpus({10e-6}, {20});
};

class WorkerBackend final : public Backend {
 public:
  // `world` has one rank a participant.
  WorkerBackend(ControlPlane& control, WorkerOptions options);
  ~WorkerBackend() override;

  // What this rank's worker runs on; starts it when there is none. Throws CaseError.
  const protocol::Identity& identify();
  // What its last worker said; empty where none did.
  const protocol::Identity& identity() const { return identity_; }
  LibraryStart library_start() const override;
  std::vector<LocalChecks> check_locally(Seconds burn) override;
  FailureContext failure_context() const override;

  // How many ranks have the fullest device: each then takes its part of the memory only.
  void share_device(int ranks) { ranks_on_device_ = ranks; }

  std::unique_ptr<Session> open(const Case& c, int round) override;
  Bytes memory_per_rank(const Case& c) const override;
  CostModel cost() const override { return options_.cost; }
  bool performs(const Collective& collective) const override {
    return !options_.messages_only || collective.route == Route::neighbours;
  }
  bool recovers() const override { return true; }
  bool joined() const override { return !together_.empty(); }
  void prepare() override;
  std::string advertise(const RendezvousGroups& rendezvous_groups) override;
  std::string negotiate(const RendezvousGroups& rendezvous_groups, const std::vector<std::string>& offers) override;
  void join(const RendezvousGroups& rendezvous_groups, const std::string& terms) override;
  void stop() override;
  void abandon() override;

  // Of a device's free memory, what buffers may take.
  static Bytes usable(Bytes free_memory);

  // Workers of their own with other variables, on the same devices.
  std::unique_ptr<Backend> arm(const Environment& changes) const override;
  bool relaunches() const override { return true; }
  Environment context() const override;

  // For its sessions, where ranks are those of the job.
  int rank() const;
  int ranks() const { return static_cast<int>(together_.size()); }  // that are together
  Group numbers_of(const Group& ranks) const;                       // among those that are together
  Bytes agreed_memory() const { return agreed_memory_; }
  Seconds rendezvous_limit() const override;
  nlohmann::json ask(const nlohmann::json& order, Seconds limit);
  // Where nobody can be told of a failure any more: whoever asks next fails of it.
  void keep_for_next_step(std::exception_ptr failure) { kept_ = std::move(failure); }

 private:
  const protocol::Identity& identify(Seconds limit);
  void count_generation();
  std::string where() const;
  std::string warnings(const std::string& told) const;
  void send(const nlohmann::json& order);
  nlohmann::json wait(Seconds limit);
  Seconds join_limit() const;
  Seconds limit_of(const RendezvousGroups& rendezvous_groups) const;

  ControlPlane& control_;
  WorkerOptions options_;
  std::unique_ptr<WorkerProcess> worker_;
  protocol::Identity identity_;
  LibraryStart library_start_;
  std::string log_of_failures_;  // of workers that did not join
  off_t order_began_ = 0;        // in the worker's log
  Bytes agreed_memory_;
  int ranks_on_device_ = 1;
  // Of all arms, because they follow each other on one device.
  struct Shared {
    // Of workers, and of groups that meet. Alike on all ranks: each failure is agreed on by all. Arms count on from
    // each other, so that an abort notice means one.
    std::uint32_t generations = 0;
    bool stuck = false;  // the driver holds a worker
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::uint32_t abort_epoch_ = 0;  // who gives up by this number ends the waiting of all that have the same
  // Of the worker: none; none, but its generation is counted; asked what it runs on; it said so.
  enum class State { none, counted, asked, identified } state_ = State::none;
  std::exception_ptr kept_;     // what closing a session failed of
  bool speaks_ = false;         // for the ranks of its group, so that one of them asks NCCL
  std::string library_status_;  // what NCCL told when an order hung
  std::string not_started_;     // why there is none, though it was to be
  Group together_;              // the ranks that joined, in the order in which workers count them; empty: none
  Round formed_;                // what communicators there are beside the job's, alike on all ranks
};

}  // namespace p5
