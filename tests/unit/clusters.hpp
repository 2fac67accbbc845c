// Reports of made-up clusters of which some pairs of ranks take longer than others.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "reports/suspects.hpp"
#include "topo/discover.hpp"
#include "topo/platform.hpp"

namespace p5::reports {

struct Cluster {
  std::string platform = "p5.48xlarge";
  int nodes = 4, gpus = 8;
  int most_shifts = 8;  // distances of paired indices on two nodes
  double noise = 0.02, outliers = 0.03;
  // Slowdown of a pair, by node and GPU of either end.
  std::function<double(int, int, int, int)> longer = [](int, int, int, int) { return 1.0; };
};

inline Report report_of(const Cluster& cluster, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  Report report;
  report.topology = topo::synthetic(topo::find_platform(cluster.platform), cluster.nodes);
  report.topology.host_of_rank.clear();
  for (int rank = 0; rank < cluster.nodes * cluster.gpus; ++rank)
    report.topology.host_of_rank.push_back(rank / cluster.gpus);
  report.run.ranks = cluster.nodes * cluster.gpus;
  report.run.nodes = cluster.nodes;
  const auto measured = [&](const std::string& kind, const std::string& pattern) -> Measurement& {
    Measurement& m = report.results.emplace_back().measurement;
    Case& c = m.measured_case;
    c.backend = "sim";
    c.collective = &p2p;
    c.pattern = pattern;
    c.pair = kind;
    c.bytes = MiB(256);
    c.ranks = 2;
    return m;
  };
  const auto add = [&](Measurement& m, int a, int b, double base) {
    const int g = cluster.gpus;
    const double blip = uniform(random) < cluster.outliers ? 1.4 : 1;
    const double time =
        base * cluster.longer(a / g, a % g, b / g, b % g) * std::exp(cluster.noise * normal(random)) * blip;
    m.groups.push_back({{a, b}, {time}});
  };
  for (const char* const pattern : {"one_way", "both_ways", "ping_pong"}) {
    Measurement& within = measured("same_node", pattern);
    for (int node = 0; node < cluster.nodes; ++node)
      for (int a = 0; a < cluster.gpus; ++a)
        for (int b = a + 1; b < cluster.gpus; ++b) add(within, node * cluster.gpus + a, node * cluster.gpus + b, 1e-3);
    if (cluster.nodes < 2) continue;
    Measurement& between = measured("other_node", pattern);
    for (int i = 0; i < cluster.nodes; ++i)
      for (int j = i + 1; j < cluster.nodes; ++j)
        for (int shift = 0; shift < std::min(cluster.most_shifts, cluster.gpus); ++shift)
          for (int g = 0; g < cluster.gpus; ++g)
            // Paths between rails are longer.
            add(between, i * cluster.gpus + g, j * cluster.gpus + (g + shift) % cluster.gpus, shift == 0 ? 6e-3 : 7e-3);
  }
  return report;
}

inline std::vector<std::string> names(const Cluster& cluster, unsigned seed = 1) {
  std::vector<std::string> all;
  for (const Suspect& suspect : diagnose(report_of(cluster, seed), {}).suspects)
    all.push_back(suspect.kind + " " + suspect.name);
  return all;
}

using Longer = std::function<double(int, int, int, int)>;
inline Longer slow_gpu(int node, int gpu, double times) {
  return
      [=](int a, int ga, int b, int gb) { return (a == node && ga == gpu) || (b == node && gb == gpu) ? times : 1.0; };
}
inline Longer slow_nic(int node, int gpu, double times) {
  return [=](int a, int ga, int b, int gb) { return a == b ? 1.0 : slow_gpu(node, gpu, times)(a, ga, b, gb); };
}
inline Longer slow_node(int node, double times) {
  return [=](int a, int, int b, int) { return a != b && (a == node || b == node) ? times : 1.0; };
}
inline Longer slow_link(int from, int to, double times) {
  return [=](int a, int, int b, int) { return std::minmax(a, b) == std::minmax(from, to) ? times : 1.0; };
}
inline Longer both(const Longer& one, const Longer& other) {
  return [=](int a, int ga, int b, int gb) { return one(a, ga, b, gb) * other(a, ga, b, gb); };
}

inline Longer slow_rails(int first, int last) {
  return [=](int a, int ga, int b, int gb) {
    const auto is_slow = [&](int gpu) { return first <= gpu && gpu <= last; };
    return a != b && (is_slow(ga) || is_slow(gb)) ? 2.0 : 1.0;
  };
}

}  // namespace p5::reports
