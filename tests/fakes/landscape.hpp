// Simulated machines for the tuner: how long each setting takes at each size, what NCCL believes about it, and the
// noise of measuring it. Nothing here was measured; how the shapes and the noise are made stands in landscape.cpp.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tuner/search.hpp"

namespace p5::fakes {

enum class Terrain { one_node, two_nodes, many_nodes, flat, default_best };

// What processes differ by, and how fast they launch.
struct Processes {
  double restless = 1;  // how much more they differ than usual
  double host_us = 0;   // what the host takes to launch an operation on no channels; 0: nothing, whatever it is
  double lucky = 0;     // share of processes whose host takes 0.7 of that
};

class Landscape {
 public:
  Landscape(Terrain terrain, std::uint64_t seed, Processes processes = {});

  // What NCCL would offer for a cell, with its predictions.
  std::vector<tuner::CostEntry> offers(const tuner::SizePoint& point) const;
  // Seconds without any noise.
  double time(const tuner::SizePoint& point, const tuner::Candidate& candidate) const;
  double throughput_time(const tuner::SizePoint& point, const tuner::Candidate& candidate) const {
    return throughput_time(point, candidate, processes_.host_us);
  }

  // A fresh process: the offsets that last as long as it does are drawn anew.
  void launch();
  double sample(const tuner::SizePoint& point, const tuner::Candidate& candidate);
  double throughput_sample(const tuner::SizePoint& point, const tuner::Candidate& candidate);
  int samples() const { return samples_; }

 private:
  struct Kind {
    tuner::Setting setting;
    double alpha_us = 0;     // per operation
    double gb_per_s = 0;     // of large messages with enough channels
    double enough = 24;      // channels that reach it
    double per_channel = 0;  // of alpha, for each channel
    double bias = 0;         // log of predicted over true
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
