// Derives the limit of an operation from the limits of a machine's parts: the slower of its path within NVLink domains
// and its path between them. Definitions of bus bandwidth: nccl-tests, doc/PERFORMANCE.md.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "topo/limits.hpp"

namespace p5::topo {

namespace {

Limit scaled(const Limit& part, double factor, const std::string& why) {
  Limit out = part;
  out.rate = part.rate * factor;
  out.because += fmt::format("; x {} = {} GB/s: {}", shown(factor), shown(out.rate.count), why);
  return out;
}

int ranks_per_node(const Operation& op) { return (op.ranks + op.nodes - 1) / op.nodes; }
int ranks_per_domain(const Operation& op) { return ranks_per_node(op) * op.nodes_per_domain; }

const char* domain_word(const Operation& op) { return op.domains == op.nodes ? "node" : "NVLink domain"; }
std::string domains_of(const Operation& op) {
  return fmt::format("{} {}{}", op.domains, domain_word(op), op.domains == 1 ? "" : "s");
}

// All-reduce in the switches of its domains. Algorithm bandwidth is link x g / (g + 1) whatever their number.
std::optional<Limit> within_switches(const Limits& parts, const Operation& op, Level level) {
  const Limit* const whole = find(parts, gpu_nvls, level);
  const Limit* const whole_wire = find(parts, gpu_nvls, Level::wire);
  const Limit* const link = find(parts, gpu_link, Level::wire);
  if (!whole || !whole_wire || !link) return std::nullopt;
  const double g = ranks_per_domain(op), n = op.ranks;
  const double wanted = link->rate.count * g / (g + 1) * 2 * (n - 1) / n;
  const double factor = wanted / whole_wire->rate.count;
  if (std::abs(factor - 1) < 1e-9) return *whole;
  return scaled(*whole, factor, fmt::format("{} ranks on {}", op.ranks, domains_of(op)));
}

std::optional<Limit> within_domains(const Limits& parts, const Operation& op, Level level) {
  if (op.nvls && op.route == Route::sums) return within_switches(parts, op, level);
  if (const Limit* link = find(parts, gpu_link, level)) {
    if (op.route != Route::uneven_exchange) return *link;
    return scaled(*link, (op.ranks - 1.0) / op.ranks, "no block stays with its rank, though bus bandwidth counts so");
  }
  // Rings may use all links of a mesh; a pair has as many as happen to join the two.
  if (const Limit* mesh = find(parts, gpu_mesh, level); mesh && (op.route == Route::rings || op.route == Route::sums))
    return *mesh;
  return std::nullopt;
}

// The NICs that a group has in one domain.
std::optional<Limit> nics_of_group(const Limits& parts, const Operation& op, Level level) {
  const Limit* const node = find(parts, node_nics, level);
  const Limit* const gpu = find(parts, op.alone ? gpu_nics_alone : gpu_nics, level);
  const int k = ranks_per_node(op), nodes = op.nodes_per_domain;
  const auto of_all_nodes = [&](const Limit& one) {
    return nodes == 1 ? one
                      : scaled(one, nodes,
                               fmt::format("{} nodes of {}", nodes,
                                           op.nodes == nodes * op.domains ? "each NVLink domain"
                                                                          : "the smallest NVLink domain"));
  };
  if (!node || !gpu) return node && k > 1 ? std::optional(of_all_nodes(*node)) : std::nullopt;
  if (k == 1) return of_all_nodes(*gpu);
  const double rate = k * gpu->rate.count;
  if (rate >= node->rate.count) return of_all_nodes(*node);
  return of_all_nodes(scaled(*gpu, k, fmt::format("{} GPUs of each node", k)));
}

// With few domains (N), each sends the sum of its GPUs (N - 1) / N times to reduce and as often to broadcast.
std::optional<Limit> sums_between(const Limit& nics, const Operation& op) {
  if (op.domains > few_domains) return nics;
  const double n = op.ranks, domains = op.domains;
  const double factor = domains * (n - 1) / ((domains - 1) * n);
  if (std::abs(factor - 1) < 1e-9) return nics;
  return scaled(nics, factor,
                fmt::format("of {} each sends only sums, {} GB for a message of 1 GB", domains_of(op),
                            shown(2 * (domains - 1) / domains)));
}

std::optional<Limit> between_domains(const Limits& parts, const Operation& op, Level level) {
  if (op.route == Route::neighbours) {
    // A ring of neighbours has one GPU of each domain sending to the next one; a pair has one rank on each.
    const bool alone = op.alone || ranks_per_domain(op) > 1;
    const Limit* own = alone ? find(parts, gpu_nics_alone, level) : nullptr;
    if (!own) own = find(parts, gpu_nics, level);
    return own ? std::optional(*own) : std::nullopt;
  }
  if (op.route == Route::exchange || op.route == Route::uneven_exchange || op.route == Route::star) {
    const Limit* nics = op.route == Route::star ? find(parts, gpu_nics_alone, level) : nullptr;
    if (!nics) nics = find(parts, gpu_nics, level);
    if (!nics) return std::nullopt;
    return exchange_limit(*nics, op);
  }
  std::optional<Limit> nics = nics_of_group(parts, op, level);
  if (!nics || op.route == Route::rings) return nics;
  return sums_between(*nics, op);
}

}  // namespace

Limit exchange_limit(const Limit& nics, const Operation& op) {
  const double n = op.ranks, here = ranks_per_domain(op);
  if (op.route == Route::uneven_exchange) {
    // The first rank of a domain has the others of its domain next to it, and the least for them.
    const double stays = here * (here - 1) / (n * (n - 1));
    return scaled(nics, (n - 1) / n / (1 - stays),
                  fmt::format("{} % of what a rank sends leave the {}, of which bus bandwidth counts {}/{}",
                              shown(100 * (1 - stays)), domain_word(op), op.ranks - 1, op.ranks));
  }
  const int leaving = op.ranks - ranks_per_domain(op);
  return scaled(nics, (n - 1) / leaving,
                fmt::format("{} of {} blocks leave the {}", leaving, op.ranks - 1, domain_word(op)));
}

std::optional<Limit> limit_of(const Limits& parts, const Operation& op, Level level) {
  if (op.ranks < 2) return std::nullopt;
  const bool one_gpu_each = op.domains == op.ranks;
  if (op.domains < 2) return within_domains(parts, op, level);
  std::optional<Limit> between = between_domains(parts, op, level);
  if (!between || one_gpu_each) return between;
  std::optional<Limit> within = within_domains(parts, op, level);
  if (!within) return std::nullopt;
  if (between->rate <= within->rate) return between;
  if (op.route == Route::sums && op.domains <= few_domains)
    within->because += fmt::format(
        "; the NICs could carry {} GB/s, so this does not test them: pairs, rails and "
        "all_gather do",
        shown(between->rate.count));
  return within;
}

Limits published_limits(const Platform& platform, int nodes) {
  std::map<std::string, const Published*> best;
  const std::vector<Published> all = published_of(platform);
  for (const Published& row : all) {
    if (!row.healthy || !row.busbw || row.nodes != nodes || row.gpus != platform.gpus || !row.pattern.empty()) continue;
    const std::string name = fmt::format("{}, {} {}{}", row.collective, nodes, nodes == 1 ? "node" : "nodes",
                                         row.algorithm.empty() ? "" : ", " + row.algorithm);
    const Published*& top = best[name];
    if (!top || *row.busbw > *top->busbw) top = &row;
  }
  Limits limits;
  for (const auto& [name, row] : best)
    limits.push_back(
        {name, Level::published, *row->busbw, "",
         fmt::format("{} GB/s{}{}{}: {}", shown(row->busbw->count), row->bytes ? " at " + to_text(*row->bytes) : "",
                     row->software.empty() ? "" : ", " + row->software, row->date.empty() ? "" : ", " + row->date,
                     row->source)});
  return limits;
}

}  // namespace p5::topo
