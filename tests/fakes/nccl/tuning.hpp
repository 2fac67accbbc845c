// Choice of algorithm and protocol in the fake: by a model of times, which a tuner plugin may change. Data moves in the
// same way for all choices; faults and the log depend on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace p5::fake_nccl {

struct Choice {
  std::string algorithm, protocol;  // "ring", "ll128"
  int channels = 1;
  std::size_t chunk = 0;

  std::string setting() const { return algorithm + "/" + protocol; }
};

// Tuning of one communicator. The first one loads the plugin named in NCCL_TUNER_PLUGIN, for the whole process.
class Tuning {
 public:
  Tuning(int ranks, int nodes);
  // The result of the plugin's init; as in NCCL, the communicator fails to initialize unless it is success.
  int started() const { return started_; }
  ~Tuning();
  Tuning(const Tuning&) = delete;
  Tuning& operator=(const Tuning&) = delete;

  // `function` counts as ncclFunc_t, `bytes` and `registered` as in tuner plugins.
  Choice choose(int function, std::uint64_t bytes, bool registered);

 private:
  int ranks_;
  int started_ = 0;
  void* context_ = nullptr;
};

inline constexpr int broadcast_function = 0, reduce_function = 1, all_gather_function = 2, reduce_scatter_function = 3,
                     all_reduce_function = 4;

}  // namespace p5::fake_nccl
