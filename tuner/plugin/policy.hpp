// The parts that the tuner of a communicator is made of: NCCL's log, NCCL's cost table, and the policy that decides on
// overrides. There are two policies, and a program is linked with one of them: the table of a file (library.cpp), and
// the session of p5bench's own worker (worker.cpp).
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tuner/plugin/abi.hpp"
#include "tuner/table.hpp"

namespace p5::tuner {

// Writes to NCCL's log.
class Log {
 public:
  explicit Log(abi::Logger nccl_logger) : logger_(nccl_logger) {}

  void inform(const std::string& text) const { write(abi::info, text); }
  void warn(const std::string& text) const { write(abi::warn, text); }
  // Warns once for each flag, because splits would repeat the warning on each rank.
  void warn_once(std::atomic_flag& warned, const std::string& text) const {
    if (!warned.test_and_set()) warn(text);
  }
  abi::Logger logger() const { return logger_; }

 private:
  void write(int level, const std::string& text) const {
    if (logger_) logger_(level, abi::init | abi::tuning, "p5bench", 0, "TUNER/p5bench: %s", text.c_str());
  }

  abi::Logger logger_;
};

inline std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "this host";
}

// The entries of a whole cost table, row by row.
using Costs = std::array<float, std::size_t{abi::algorithms} * abi::protocols>;
inline Costs no_costs() {
  Costs costs;
  costs.fill(abi::unavailable);
  return costs;
}

// A view of the cost table of one call.
class CostTable {
 public:
  CostTable(float* costs, int algorithms, int protocols)
      : costs_(costs), algorithms_(algorithms), protocols_(protocols) {}

  // Null where the table of this NCCL version has no such entry.
  float* at(Algorithm algorithm, Protocol protocol) const {
    const int row = static_cast<int>(algorithm), column = static_cast<int>(protocol);
    return row < algorithms_ && column < protocols_ ? costs_ + static_cast<std::ptrdiff_t>(row) * protocols_ + column
                                                    : nullptr;
  }
  // An unavailable setting must never run: it may hang or corrupt data.
  bool available(const Setting& setting) const {
    const float* cost = at(setting.algorithm, setting.protocol);
    return cost && *cost >= 0;
  }
  // True where NCCL multiplied the cost so that it takes the setting only for want of another: rings of more than 8
  // ranks for float8, by 1024, because a sum by so many roundings in turn loses precision. A tuner is not told the
  // type. Settings are searched among those predicted within 8 times the fastest.
  bool relegated(const Setting& setting) const {
    constexpr float least_factor = 256;
    const float* cost = at(setting.algorithm, setting.protocol);
    float lowest = 0;  // of all entries above 0
    for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(algorithms_) * protocols_; ++i)
      if (costs_[i] > 0 && (lowest <= 0 || costs_[i] < lowest)) lowest = costs_[i];
    return cost && *cost > 0 && *cost / lowest > least_factor;
  }
  // NCCL's choice: the lowest cost, the first among equals.
  std::optional<Setting> cheapest() const {
    std::optional<Setting> found;
    float lowest = 0;
    for_each([&](const Setting& setting, float& cost) {
      if (cost < 0 || (found && cost >= lowest)) return;
      found = setting;
      lowest = cost;
    });
    return found;
  }
  // Makes the setting NCCL's choice. Its cost stays realistic, because NCCL 2.31 compares it with kernels for symmetric
  // memory that are not in the table. `microseconds` 0: NCCL's own estimate.
  void prefer(const Setting& setting, double microseconds) const {
    constexpr double most = 1e9;  // NCCL ignores costs from 3.6e9 on
    float& preferred = *at(setting.algorithm, setting.protocol);
    preferred = static_cast<float>(std::min(microseconds > 0 ? microseconds : preferred, most));
    const float above = preferred * 1.01f + 0.01f;
    // All entries, also of algorithms that later versions of NCCL have.
    for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(algorithms_) * protocols_; ++i)
      if (float& cost = costs_[i]; &cost != &preferred && cost >= 0) cost = std::max(cost, above);
  }

  template <class Action>
  void for_each(const Action& action) const {
    for (int a = 0; a < std::min(algorithms_, abi::algorithms); ++a)
      for (int p = 0; p < std::min(protocols_, abi::protocols); ++p)
        action(Setting{static_cast<Algorithm>(a), static_cast<Protocol>(p)}, costs_[a * protocols_ + p]);
  }

 private:
  float* costs_;
  int algorithms_, protocols_;
};

// Properties that all ranks of a communicator share. A decision that depended on anything else would make ranks run
// different algorithms and hang.
struct Job {
  std::uint64_t ranks = 0, nodes = 0;
  bool registration_known = false;  // this version of the interface tells of registered buffers
};

// A call as its policy sees it. Ranks that lack one of the buffers see another `registered` than the root
// (has_both_buffers_everywhere).
struct Asked {
  Function function = Function::all_reduce;
  std::uint64_t bytes = 0;
  bool registered = false;  // NCCL says that both buffers are, or will be as those of a CUDA graph
};

struct Override {
  Setting setting;
  double microseconds = 0;  // measured; 0: not known
};

// A call and its outcome, for a policy that records calls.
struct TunedCall {
  Costs costs = no_costs();         // as NCCL offered them
  std::optional<Setting> cheapest;  // after tuning, with the channels that a tuner set for it
  bool granted = false;             // there was an override, and NCCL offered its setting
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Null: the chained tuner decides, or NCCL. Called from several threads.
  virtual std::optional<Override> override_of(const Asked& call) = 0;
  virtual void record_call(const TunedCall& /*call*/) {}
};

// The communicator must not start: NCCL fails its initialization with this result.
struct Refusal {
  abi::Result result;
};

// Makes the policy of one communicator; null where no call is overridden. Throws Refusal and std::bad_alloc.
std::unique_ptr<Policy> make_policy(const Job& job, const Log& log);

}  // namespace p5::tuner
