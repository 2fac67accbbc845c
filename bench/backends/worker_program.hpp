// Common part of all worker programs: the connection to the supervisor, and a dispatch table for the orders of
// bench/backends/protocol.hpp. A library's worker identifies its device, joins ranks and opens sessions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/backends/protocol.hpp"
#include "bench/base/environment.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/expected.hpp"

namespace p5 {

// Thrown out of a wait if the supervisor requested an abort.
struct AbortRequested {};

class WorkerProgram {
 public:
  virtual ~WorkerProgram() = default;

  // Never throws: an error is returned as the reply.
  nlohmann::json answer(const nlohmann::json& order) noexcept;
  // Aborts operations that other ranks wait for, so that they fail, too; ends the process if that takes long.
  virtual void abort() {}

 protected:
  virtual protocol::Identity identify(const protocol::LocalRank& local) = 0;
  // Identifier that other ranks connect with, as text.
  virtual std::string id() = 0;
  // `ids`: of all ranks, or only the first rank's. Returns the environment after the library's initialization.
  virtual Environment join(const std::vector<std::string>& ids, int rank, int ranks) = 0;
  // Creates communicators for groups, on all ranks together, after destroying earlier ones. Arguments are the same on
  // all ranks except `group`: this rank's, none if it pauses.
  struct Formation {
    std::optional<Group> group;
    bool alone = false;   // there is one group
    bool pauses = false;  // some rank of the job is in no group
    std::string cta_policy = CallOptions{}.cta_policy;
  };
  virtual void form(const Formation& /*formation*/) {}
  // Destroys the communicators of groups; the job's remains.
  virtual void leave_groups() {}
  // `place`: this rank's position in the round, none if it pauses. `memory` is the same on all ranks.
  virtual std::unique_ptr<Session> open(Case c, int round, std::optional<RankInGroup> place, std::uint64_t memory) = 0;
  // Closes the session together with the other ranks.
  virtual void close() {}
  virtual LocalChecks check_locally(Seconds /*burn*/) { return {}; }
  virtual LocalFigures check_host_copies() { return {}; }
  // Operations that are unfinished at an abort, as text, or "".
  virtual std::string waits_for() const { return ""; }
  // True if the device is idle after the library was aborted.
  virtual bool is_idle_after_abort() noexcept { return true; }

 private:
  using Json = nlohmann::json;

  Json act(const Json& order);
  Json identify_order(const Json& order);
  Json id_order(const Json& order);
  Json join_order(const Json& order);
  Json open_order(const Json& order);
  Json warm_up(const Json& order);
  Json sample(const Json& order);
  Json sample_concurrently(const Json& order);
  Json verify(const Json& order);
  Json selection(const Json& order);
  Json host_time(const Json& order);
  Json communicator_costs(const Json& order);
  Json cost_table(const Json& order);
  Json probe_nics(const Json& order);
  Json close_order(const Json& order);
  Json check_locally_order(const Json& order);
  Json check_host_copies_order(const Json& order);

  // Runs an action whose failure may leave operations on the device or other ranks waiting.
  template <class Action>
  auto risk(Action&& action);
  Session& session();

  std::unique_ptr<Session> session_;
  std::string unavailable_;  // why the open case cannot be measured
  int rank_ = 0;
  enum class State { started, identified, joined } state_ = State::started;
  // Set after such a failure: operations may hang forever, so further orders are refused.
  bool broken_ = false;
};

// Variables that the libraries under test and their plugins read and may have added to; no others leave the process.
std::map<std::string, std::string> library_variables();

// Replaces the launcher's binding by the allowed cores near these PCI devices ("0000:4f:00.0"); all allowed cores if
// those are unknown.
void bind_near(const std::vector<std::string>& pci_addresses);

// The main() of a worker: serves orders from the p5bench process that started it until "quit" or until that process
// ends. Returns early only if initialization failed.
int run_worker(const char* name,
               const std::function<std::unique_ptr<WorkerProgram>(protocol::SharedPage& page)>& make_program);

}  // namespace p5
