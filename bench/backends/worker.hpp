// A backend whose operations run in worker programs (see bench/backends/protocol.hpp).
#pragma once

#include <cstdint>
#include <exception>
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
  Environment environment;  // variables added to this process's
  std::string host;         // for messages
  protocol::LocalRank local;
  Seconds timeout{30};  // for an answer, at least
  // Limit for starting a worker and for joining; beyond 1024 ranks it grows in proportion.
  Seconds join_limit = default_join_limit;
  // Time at which all waits end, whatever their own limits; after it no rank is queried any more.
  // The burn of check_locally() postpones it.
  std::optional<Clock::time_point> deadline = {};
  // Names of the library and the device in the report's context.
  std::string library = "nccl", device = "gpu.uuid";
  bool each_has_id = false;    // ranks connect with the ids of all ranks instead of rank 0's only
  std::string ras;             // address of NCCL's RAS service; "": none
  bool messages_only = false;  // supports messages between ranks only, no collectives
  CostModel cost = cost_on_gpus({10e-6}, {20}, 1);
};

class WorkerBackend final : public Backend {
 public:
  // `control` has one rank per participant, all of which make the same backends in the same order: only arms of a
  // backend share its abort notices.
  WorkerBackend(ControlPlane& control, WorkerOptions options);
  ~WorkerBackend() override;

  // Identity of this rank's worker; starts a worker if there is none. Throws CaseError.
  const protocol::Identity& identify();
  // Identity reported by the last worker; empty if none reported one.
  const protocol::Identity& identity() const { return identity_; }
  LibraryStart library_start() const override;
  std::vector<LocalChecks> check_locally(Seconds burn) override;
  std::vector<LocalFigures> check_host_copies() override;
  void postpone_limit(Seconds time) override;
  FailureContext failure_context() const override;
  std::optional<double> share_of_waiting() const override;

  // Number of ranks on the most shared device: each rank then takes only its share of the memory.
  void share_device(int ranks) { ranks_on_device_ = ranks; }

  std::unique_ptr<Session> open(const Case& c, int round) override;
  Bytes memory_per_rank(const Case& c) const override;
  CostModel cost() const override { return options_.cost; }
  bool performs(const Collective& collective) const override {
    return !options_.messages_only || collective.route == Route::point_to_point;
  }
  bool recovers() const override { return true; }
  bool joined() const override { return !together_.empty(); }
  void prepare() override;
  std::string advertise(const RendezvousGroups& rendezvous_groups) override;
  std::string negotiate(const RendezvousGroups& rendezvous_groups, const std::vector<std::string>& offers) override;
  void join(const RendezvousGroups& rendezvous_groups, const std::string& terms) override;
  void stop() override;
  void abandon() override;

  // Memory that buffers may take of a device's free memory.
  static Bytes usable(Bytes free_memory);

  // A backend with workers of its own that have other variables, on the same devices.
  std::unique_ptr<Backend> arm(const Environment& changes) const override;
  bool relaunches() const override { return true; }
  Environment context() const override;
  void share_memory(int backends) override { shared_->backends = backends; }

  // Numbers for its sessions, in which ranks are those of the job.
  int rank() const;
  int ranks() const { return static_cast<int>(together_.size()); }  // ranks that have joined
  Group numbers_of(const Group& ranks) const;                       // positions among the ranks that have joined
  Bytes agreed_memory() const { return agreed_memory_; }
  Seconds time_of_joining() const { return time_of_joining_; }
  Seconds rendezvous_limit() const override;
  Seconds longest_start() const override { return shared_->longest_start; }
  nlohmann::json ask(const nlohmann::json& order, Seconds limit);
  // Keeps a failure that cannot be reported to other ranks any more; the next order fails with it.
  void keep_for_next_step(std::exception_ptr failure) { kept_ = std::move(failure); }

 private:
  struct Shared;
  WorkerBackend(ControlPlane& control, WorkerOptions options, std::shared_ptr<Shared> shared);
  const protocol::Identity& identify(Seconds limit);
  void assign_abort_epoch();
  std::string where() const;
  std::string warnings(const std::string& told) const;
  void send(const nlohmann::json& order);
  nlohmann::json wait(Seconds limit);
  // Interrupts the waits of the other ranks of this one's group, which may wait for it.
  void notify_others();
  Seconds join_limit() const;
  Seconds limit_of(const RendezvousGroups& rendezvous_groups) const;

  ControlPlane& control_;
  WorkerOptions options_;
  std::unique_ptr<WorkerProcess> worker_;
  protocol::Identity identity_;
  LibraryStart library_start_;
  std::optional<double> longest_waiting_;  // of earlier workers that joined, as share_of_waiting()
  std::string log_of_failures_;            // logs of workers that did not join
  off_t order_began_ = 0;                  // offset in the worker's log
  Bytes agreed_memory_;
  Seconds time_of_joining_{0};  // of the last order to join, as this process saw it
  int ranks_on_device_ = 1;
  // State shared by all arms, because they are on the same devices.
  struct Shared {
    // Counts workers and groups that joined. The same on all ranks, since all agree on each failure. Arms continue the
    // count, so that each abort notice has one meaning.
    std::uint32_t last_abort_epoch = 0;
    bool stuck = false;  // the driver holds a worker
    int backends = 1;    // that hold memory at a time
    Bytes usable{0};     // at the leader: the most of a device that workers found, before others took of it
    Seconds longest_start{0};
  };
  std::shared_ptr<Shared> shared_;
  std::uint32_t abort_epoch_ = 0;  // an abort notice with this number interrupts all waits with the same number
  // Worker state: none; none, but its generation is counted; identify was sent; identified.
  enum class State { none, counted, asked, identified } state_ = State::none;
  std::exception_ptr kept_;       // failure of closing a session
  bool is_group_leader_ = false;  // reports for its group, so that only one rank queries NCCL RAS
  std::string library_status_;    // NCCL RAS status when an order hung
  std::string not_started_;       // reason why the worker could not be started
  Group together_;                // ranks that joined, in the workers' order; empty: none
  // Communicators besides the job's, the same on all ranks.
  struct Formed {
    Round groups = {};
    std::string cta_policy = CallOptions{}.cta_policy;
    bool operator==(const Formed&) const = default;
  };
  Formed formed_;
};

// ---- NCCL's RAS service (since 2.24), the status of NCCL's processes. One process per host listens on a TCP socket,
// NCCL_RAS_ADDR; https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html

// Address of the RAS service in p5bench's workers unless the user sets one. It differs from NCCL's default, where
// another job on this host may answer.
inline constexpr const char* ras_variable = "NCCL_RAS_ADDR";
inline constexpr const char* ras_address = "localhost:28128";

// Returns the service's answer within the limit, as printable ASCII; "" if there is none.
std::string query_ras(const std::string& address, Seconds limit);

}  // namespace p5
