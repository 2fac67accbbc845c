// What all worker programs do alike: their way to the supervisor, and the orders of bench/backends/protocol.hpp as a
// table, answered one after the other. A library's worker says what it runs on, how ranks come together, and opens
// sessions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench//backends/protocol.hpp"
#include "bench/base/environment.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/expected.hpp"

namespace p5 {

// The supervisor said to give up; thrown out of a wait.
struct AbortRequested {};

class WorkerProgram {
 public:
  virtual ~WorkerProgram() = default;

  // Never throws: what goes wrong is the answer.
  nlohmann::json answer(const nlohmann::json& order) noexcept;
  // Gives up what others wait for, so that they hear of it; ends the process when that takes long.
  virtual void abort() {}

 protected:
  virtual protocol::Identity identify(const protocol::LocalRank& local) = 0;
  // What others need to find this rank, as text.
  virtual std::string id() = 0;
  // `ids`: of all ranks, or only the first one's. Returns what the environment is after the library's start.
  virtual Environment join(const std::vector<std::string>& ids, int rank, int ranks) = 0;
  // The groups of a round get communicators of their own, on all ranks together; those of an earlier round are left
  // first. Alike on all ranks but for `group`: this rank's, none where it pauses.
  struct Formation {
    std::optional<Group> group;
    bool alone = false;   // there is one group
    bool pauses = false;  // some rank of the job is in none
  };
  virtual void form(const Formation& /*formation*/) {}
  // Back to the job's communicator alone.
  virtual void leave_groups() {}
  // `place`: this rank's in the round, none where it pauses. `memory` is the same on all ranks.
  virtual std::unique_ptr<Session> open(Case c, int round, std::optional<RankInGroup> place, std::uint64_t memory) = 0;
  // Leaves the case in order, together with the other ranks.
  virtual void close() {}
  virtual LocalChecks check_locally(Seconds /*burn*/) { return {}; }
  // Told to give up: what is not finished yet, in words, or "".
  virtual std::string waits_for() const { return ""; }
  // Then whether nothing is left to do once the library was aborted.
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
  Json verify(const Json& order);
  Json selection(const Json& order);
  Json cost_table(const Json& order);
  Json close_order(const Json& order);
  Json check_locally_order(const Json& order);

  // Runs what may leave operations on the device, or other ranks waiting, when it fails.
  template <class Action>
  auto risk(Action&& action);
  Session& session();

  std::unique_ptr<Session> session_;
  int rank_ = 0;
  enum class State { started, identified, joined } state_ = State::started;
  // After such a failure operations may hang for ever: nothing more is asked of it.
  bool broken_ = false;
};

// Variables that libraries under test and their plugins see and may have added to; nothing else leaves the process.
std::map<std::string, std::string> library_variables();

// The whole of a worker's main(): takes orders from the p5bench that started it, until that one says so or is gone.
// Returns only where it could not begin.
int run_worker(const char* name,
               const std::function<std::unique_ptr<WorkerProgram>(protocol::SharedPage& page)>& make_program);

}  // namespace p5
