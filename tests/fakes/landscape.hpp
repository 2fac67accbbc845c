// Simulated machines for the tuner: the time of each setting at each size, NCCL's predictions, and measurement noise.
// Nothing here was measured; landscape.cpp describes the shapes and the noise.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tuner/search.hpp"

namespace p5::fakes {

enum class Terrain { one_node, two_nodes, many_nodes, flat, default_best };

// Differences between processes, and their launch cost.
struct Processes {
  double restless = 1;  // factor on the usual differences between processes
  double host_us = 0;   // host time of launching an operation on no channels, in us; 0: no launch cost at all
  double lucky = 0;     // share of processes whose host needs only 0.7 of that time
};

// Other work beside the operations, of which a sample takes as long alone as the default's operations do. While both
// run, each channel takes the share `occupancy` of the work's rate, and the operation takes longer by the share `drag`.
struct OtherWork {
  double occupancy = 0.015, drag = 0.15;
};

class Landscape {
 public:
  Landscape(Terrain terrain, std::uint64_t seed, Processes processes = {});

  // NCCL's offers for a size point, with its predictions.
  std::vector<tuner::CostEntry> offers(const tuner::SizePoint& point) const;
  // True time in seconds, without noise.
  double time(const tuner::SizePoint& point, const tuner::Candidate& candidate) const;
  double throughput_time(const tuner::SizePoint& point, const tuner::Candidate& candidate) const {
    return throughput_time(point, candidate, processes_.host_us);
  }

  // Until the operation and the other work are done.
  double time_beside(const OtherWork& work, const tuner::SizePoint& point, const tuner::Candidate& candidate) const;

  // Starts a fresh process: offsets that last for one process are redrawn.
  void launch();
  double sample(const tuner::SizePoint& point, const tuner::Candidate& candidate);
  double throughput_sample(const tuner::SizePoint& point, const tuner::Candidate& candidate);
  double sample_beside(const OtherWork& work, const tuner::SizePoint& point, const tuner::Candidate& candidate);
  int samples() const { return samples_; }

 private:
  struct Kind {
    tuner::Setting setting;
    double alpha_us = 0;     // per operation
    double gb_per_s = 0;     // at large messages with enough channels
    double enough = 24;      // fewest channels for the full rate
    double per_channel = 0;  // increase of alpha per channel, relative
    double bias = 0;         // log of predicted over true time
  };
  const std::vector<Kind>& kinds(const tuner::SizePoint& point) const;
  double true_us(const tuner::SizePoint& point, const Kind& kind, int channels) const;
  double predicted_us(const tuner::SizePoint& point, const Kind& kind) const;
  const Kind& chosen_by_nccl(const tuner::SizePoint& point) const;
  int channels_of_nccl(const tuner::SizePoint& point) const;
  int channels_of(const tuner::SizePoint& point, const tuner::Candidate& candidate) const;
  double throughput_time(const tuner::SizePoint& point, const tuner::Candidate& candidate, double host_us) const;
  double disturbance(const tuner::SizePoint& point, const tuner::Candidate& candidate);
  double normal(double deviation);
  double fixed_normal(const tuner::SizePoint& point, const tuner::Candidate& candidate, std::uint64_t salt) const;

  Terrain terrain_;
  std::uint64_t seed_ = 0, launch_ = 0;
  std::mt19937_64 random_;
  std::vector<Kind> all_reduce_, others_;
  Processes processes_;
  double noise_ = 1, drift_ = 0, wave_ = 0, bytes_per_channel_ = 0;
  int samples_ = 0;
};

}  // namespace p5::fakes
