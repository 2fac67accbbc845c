// Who says how a call is to run. There are two: the table of a file (library.cpp), and the session of p5bench's own
// worker (worker.cpp); a program is linked with one of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "tuner/plugin/cost_table.hpp"
#include "tuner/plugin/log.hpp"
#include "tuner/table.hpp"

namespace p5::tuner {

// What all ranks of a communicator share. Nothing else may decide, or ranks would run different algorithms and hang.
struct Job {
  std::uint64_t ranks = 0, nodes = 0;
};

struct Override {
  Setting setting;
  double microseconds = 0;  // measured; 0: not known
};

// One call, for whoever watches.
struct Seen {
  Costs costs = no_costs();         // as NCCL offered them
  std::optional<Setting> cheapest;  // in the end, with the channels that a tuner set for it
  bool granted = false;             // the wish was available
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Nothing: NCCL, or the chained tuner decides. Called from several threads.
  virtual std::optional<Override> override_of(Function function, std::uint64_t bytes) = 0;
  virtual void note(const Seen& /*seen*/) {}
};

// The communicator must not come together: NCCL fails its start with this result.
struct Refusal {
  abi::Result result;
};

// For one communicator; null where no call of it is wanted otherwise. Throws Refusal, and for want of memory.
std::unique_ptr<Policy> make_policy(const Job& job, const Log& log);

}  // namespace p5::tuner
