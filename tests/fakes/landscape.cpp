// The model of a simulated landscape.
//
// Time of a setting: alpha * (1 + per_channel * channels) + bytes / (rate * share(channels)), times a roughness of
// 0.3 %. share grows as channels / enough up to 1 and falls by 0.3 % for each channel beyond, so there is one best
// channel count. The constants of one node are fits by eye to sweeps on 4 H200 (ring: LL 8.4 us and 130 GB/s, LL128
// 10 us and 175 GB/s, Simple 26 us and 231 GB/s of an all-reduce; 6.9, 8, 25 us and 184, 303, 422 GB/s of an
// all-gather). Two nodes follow the same host with two pretended nodes over sockets, where tree beats ring by a factor
// of 1.1 to 1.8 up to 512 KiB. Many nodes are guessed. A lognormal factor of 10 % per landscape applies to all.
//
// NCCL's prediction is the true time with its own choice of channels, with a lognormal error for each algorithm and
// protocol (10 % on one node, 25 % on several). The default is the setting with the smallest prediction. So it is wrong
// if two settings are close, which agrees with the sweeps: no gain at most sizes, 3 to 25 % at a few; on two nodes
// 10 to 80 % at many.
//
// A sample is the true time, times
//   lognormal noise of 2.5 % up to 64 KiB, 1 % up to 4 MiB, 0.4 % above, all scaled by 0.5 to 1.5 per landscape;
//   an outlier in 1.5 % of the samples, a factor of 1.1 to 2;
//   offsets that last for one launch: 0.8 % for each size, 0.4 % for each setting at each size (times
//   `Processes::restless`);
//   drift: up to 2 % in 5000 samples, in either direction, and a wave of up to 0.5 % with a period of 700 samples.
// With its launch an operation takes at least the host's time for it: `Processes::host_us`, plus 0.07 us per channel
// (after one H200 host, where an all-gather of 64 and 128 KiB with 16 channels took 1.2 to 1.6 us longer in a loop of
// launches, though 0.6 us less on the device). Beyond the noise above, that time differs by 3 % between processes, and
// a share `Processes::lucky` of them needs 0.7 of it (on 2 x H200 of a shared host, a sixth of all pairs of processes
// took 7.4 us, the others 10.4 us).
// On flat landscapes all settings take as long as the default; where the default is best, the others take up to 10 %
// longer.
#include "tests/fakes/landscape.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

namespace p5::fakes {

using tuner::Algorithm;
using tuner::Candidate;
using tuner::CostEntry;
using tuner::Protocol;
using tuner::Setting;
using tuner::SizePoint;

namespace {

constexpr double roughness = 0.003;
constexpr double host_us_per_channel = 0.07, host_offset = 0.03, lucky_share = 0.7;

double uniform(std::mt19937_64& random) { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; }

double normal_of(std::mt19937_64& random) {
  return std::sqrt(-2 * std::log(uniform(random))) * std::cos(2 * std::numbers::pi * uniform(random));
}

double base_noise(std::uint64_t bytes) {
  if (bytes <= 64 << 10) return 0.025;
  return bytes <= 4 << 20 ? 0.01 : 0.004;
}

}  // namespace

Landscape::Landscape(Terrain terrain, std::uint64_t seed, Processes processes)
    : terrain_(terrain), seed_(seed), random_(seed), processes_(processes) {
  const auto set = [](Algorithm a, Protocol p) { return Setting{a, p, 0, 0}; };
  const Setting ring_ll = set(Algorithm::ring, Protocol::ll), ring_ll128 = set(Algorithm::ring, Protocol::ll128),
                ring = set(Algorithm::ring, Protocol::simple), tree_ll = set(Algorithm::tree, Protocol::ll),
                tree_ll128 = set(Algorithm::tree, Protocol::ll128), tree = set(Algorithm::tree, Protocol::simple),
                nvls = set(Algorithm::nvls, Protocol::simple), nvls_tree = set(Algorithm::nvls_tree, Protocol::simple),
                pat = set(Algorithm::pat, Protocol::simple);
  double mistaken = 0.25;
  if (terrain == Terrain::two_nodes) {
    all_reduce_ = {{ring_ll, 36, 3.2},    {ring_ll128, 44, 4.5}, {ring, 60, 5.4},   {tree_ll, 21, 2.6},
                   {tree_ll128, 30, 3.9}, {tree, 52, 4.6},       {nvls_tree, 70, 5}};
    others_ = {{ring_ll, 24, 5}, {ring_ll128, 30, 8}, {ring, 45, 10}};
  } else if (terrain == Terrain::many_nodes) {
    all_reduce_ = {{ring_ll, 400, 30},     {ring_ll128, 450, 150}, {ring, 700, 185},     {tree_ll, 90, 25},
                   {tree_ll128, 110, 120}, {tree, 160, 140},       {nvls_tree, 170, 160}};
    others_ = {{ring_ll, 200, 60}, {ring_ll128, 220, 280}, {ring, 350, 360}, {pat, 120, 200}};
  } else {
    mistaken = 0.1;
    all_reduce_ = {{ring_ll, 8.4, 130},   {ring_ll128, 10, 175}, {ring, 26, 231}, {tree_ll, 9.5, 90},
                   {tree_ll128, 13, 150}, {tree, 30, 170},       {nvls, 24, 290}};
    others_ = {{ring_ll, 6.9, 184}, {ring_ll128, 8, 303}, {ring, 25, 422}, {nvls, 26, 350}};
  }
  for (std::vector<Kind>* list : {&all_reduce_, &others_})
    for (Kind& kind : *list) {
      kind.alpha_us *= std::exp(normal(0.1));
      kind.gb_per_s *= std::exp(normal(0.1));
      kind.enough = 12 + 16 * uniform(random_);
      kind.per_channel = 0.001 + 0.003 * uniform(random_);
      kind.bias = normal(mistaken);
    }
  noise_ = 0.5 + uniform(random_);
  drift_ = 0.04 * (uniform(random_) - 0.5);
  wave_ = 0.005 * uniform(random_);
  bytes_per_channel_ = 8192 * std::exp2(uniform(random_));
  launch();
}

void Landscape::launch() { launch_ = random_(); }

const std::vector<Landscape::Kind>& Landscape::kinds(const SizePoint& point) const {
  return point.collective == "all_reduce" ? all_reduce_ : others_;
}

double Landscape::true_us(const SizePoint& point, const Kind& kind, int channels) const {
  const double beyond = std::max(0.0, channels - kind.enough);
  const double share = std::min(1.0, channels / kind.enough) * (1 - 0.003 * beyond);
  return kind.alpha_us * (1 + kind.per_channel * channels) +
         static_cast<double>(point.bytes) / (kind.gb_per_s * share * 1e3);
}

int Landscape::channels_of_nccl(const SizePoint& point) const {
  return static_cast<int>(std::clamp(static_cast<double>(point.bytes) / bytes_per_channel_, 1.0, 24.0));
}

double Landscape::predicted_us(const SizePoint& point, const Kind& kind) const {
  return true_us(point, kind, channels_of_nccl(point)) * std::exp(kind.bias);
}

const Landscape::Kind& Landscape::chosen_by_nccl(const SizePoint& point) const {
  return *std::ranges::min_element(kinds(point), {}, [&](const Kind& kind) { return predicted_us(point, kind); });
}

std::vector<CostEntry> Landscape::offers(const SizePoint& point) const {
  std::vector<CostEntry> result;
  const Kind& chosen = chosen_by_nccl(point);
  for (const Kind& kind : kinds(point)) result.push_back({kind.setting, predicted_us(point, kind), &kind == &chosen});
  return result;
}

int Landscape::channels_of(const SizePoint& point, const Candidate& candidate) const {
  return candidate.setting && candidate.setting->channels > 0 ? candidate.setting->channels : channels_of_nccl(point);
}

double Landscape::throughput_time(const SizePoint& point, const Candidate& candidate, double host_us) const {
  const double device = time(point, candidate);
  if (host_us <= 0) return device;
  return std::max(device, 1e-6 * (host_us + host_us_per_channel * channels_of(point, candidate)));
}

double Landscape::time(const SizePoint& point, const Candidate& candidate) const {
  const Kind* kind = &chosen_by_nccl(point);
  int channels = channels_of_nccl(point);
  if (candidate.setting && terrain_ != Terrain::flat && terrain_ != Terrain::default_best) {
    kind = &*std::ranges::find_if(kinds(point), [&](const Kind& each) {
      return each.setting.algorithm == candidate.setting->algorithm &&
             each.setting.protocol == candidate.setting->protocol;
    });
    channels = channels_of(point, candidate);
  }
  // The default equals one of the settings, including its roughness.
  Setting same = kind->setting;
  same.channels = channels;
  const double normal = fixed_normal(point, {same}, 1);
  double rough = roughness * normal;
  if (terrain_ == Terrain::flat) rough = 0;
  if (terrain_ == Terrain::default_best) rough = candidate.is_default() ? 0 : std::min(0.1, 0.05 * std::abs(normal));
  return 1e-6 * true_us(point, *kind, channels) * std::exp(rough);
}

double Landscape::time_beside(const OtherWork& work, const SizePoint& point, const Candidate& candidate) const {
  const double rate = std::max(0.05, 1 - work.occupancy * channels_of(point, candidate));
  const double operation = time(point, candidate) * (1 + work.drag), other = time(point, {}) / rate;
  // The rest of the longer one runs alone.
  if (operation < other) return operation + (other - operation) * rate;
  return other + (operation - other) / (1 + work.drag);
}

double Landscape::sample_beside(const OtherWork& work, const SizePoint& point, const Candidate& candidate) {
  return time_beside(work, point, candidate) * std::exp(disturbance(point, candidate));
}

double Landscape::sample(const SizePoint& point, const Candidate& candidate) {
  return time(point, candidate) * std::exp(disturbance(point, candidate));
}

double Landscape::throughput_sample(const SizePoint& point, const Candidate& candidate) {
  if (processes_.host_us <= 0) return sample(point, candidate);
  std::mt19937_64 process(launch_);
  const double host_us = processes_.host_us * (uniform(process) < processes_.lucky ? lucky_share : 1);
  const double of_process = host_offset * fixed_normal({}, {}, launch_ + 2);
  return throughput_time(point, candidate, host_us) * std::exp(disturbance(point, candidate) + of_process);
}

// Log of the factor by which a sample exceeds the true time.
double Landscape::disturbance(const SizePoint& point, const Candidate& candidate) {
  const double when = samples_++;
  double factor = normal(noise_ * base_noise(point.bytes));
  factor += processes_.restless * 0.008 * fixed_normal(point, {}, launch_) + drift_ * when / 5000;
  factor += wave_ * std::sin(2 * std::numbers::pi * when / 700);
  // The default is a candidate of its own here and does not share the offset of the setting that it equals.
  factor += processes_.restless * 0.004 * fixed_normal(point, candidate, launch_ + 1);
  if (uniform(random_) < 0.015) factor += std::log(1.1 + 0.9 * uniform(random_));
  return factor;
}

double Landscape::normal(double deviation) { return deviation * normal_of(random_); }

double Landscape::fixed_normal(const SizePoint& point, const Candidate& candidate, std::uint64_t salt) const {
  const std::string name = point.collective + " " + std::to_string(point.bytes) + " " + tuner::to_text(candidate);
  std::mt19937_64 random(std::hash<std::string>()(name) ^ seed_ * 0x9e3779b97f4a7c15 ^ salt);
  return normal_of(random);
}

}  // namespace p5::fakes
