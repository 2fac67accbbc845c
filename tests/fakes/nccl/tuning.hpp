// How the fake chooses algorithm and protocol: by a model of times, which a tuner plugin may change. The data move in
// the same way whatever is chosen; faults and the log tell what was.
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

// Of one communicator. The plugin that NCCL_TUNER_PLUGIN names is loaded with the first one, for the whole process.
class Tuning {
 public:
  Tuning(int ranks, int nodes);
  // What the plugin's start returned; as in NCCL, on anything but success the communicator does not start.
  int started() const { return started_; }
  ~Tuning();
  Tuning(const Tuning&) = delete;
  Tuning& operator=(const Tuning&) = delete;

  // `function` as ncclFunc_t counts; bytes as tuners count them.
  Choice choose(int function, std::uint64_t bytes);

 private:
  int ranks_;
  int started_ = 0;
  void* context_ = nullptr;
};

inline constexpr int broadcast_function = 0, reduce_function = 1, all_gather_function = 2, reduce_scatter_function = 3,
                     all_reduce_function = 4;

}  // namespace p5::fake_nccl
