#include "bench/model/load_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace p5 {

namespace {

constexpr std::size_t products_part = 0, links_part = 1, nics_part = 2, copies_part = 3;  // in load_parts
// A message takes longer than a product. The kernels of a shorter one wait until a product leaves multiprocessors free,
// so that its rate would be one message a product, whatever the links could do (2 x H200, NVLink 18 links, NVLS off,
// NCCL 2.28.9, 2026-11-26: 26 instead of 225 GB/s with 32 MiB).
constexpr Bytes link_message = MiB(512), nic_message = MiB(128);
constexpr std::uint64_t share_of_messages = 64, share_of_products = 16;  // of the memory that a rank may take
constexpr int largest_side = 8192, side_step = 256, least_side = 256;

// Each of a ring meets both neighbours in two turns; of an odd number one is idle in each turn, and there are three.
std::size_t turns_of(std::size_t count) { return count < 3 ? 1 : count % 2 == 0 ? 2 : 3; }

// Pairs of neighbours of a ring of `count`: those that begin at an even place, at an odd one, and the ends of an odd
// number. An even number, whose two turns are over, pairs its halves in a third one, since a rank whose domain is idle
// in one turn of NICs has to meet two over its links in the others.
std::vector<std::pair<std::size_t, std::size_t>> partners(std::size_t count, std::size_t turn) {
  const bool odd = count % 2 == 1;
  if (count < 3) turn = 0;
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  if (odd ? turn == 2 : turn == 1) pairs.emplace_back(0, count - 1);
  if (turn < 2)
    for (std::size_t i = turn; i + 1 < count; i += 2) pairs.emplace_back(i, i + 1);
  else
    for (std::size_t i = 0; !odd && i < count / 2; ++i) pairs.emplace_back(i, i + count / 2);
  return pairs;
}

using Domains = std::vector<Group>;  // the ranks of each NVLink domain

Domains domains_of(const DomainOfRank& domain_of_rank) {
  Domains domains;
  for (std::size_t rank = 0; rank < domain_of_rank.size(); ++rank) {
    domains.resize(std::max(domains.size(), static_cast<std::size_t>(domain_of_rank[rank]) + 1));
    domains[static_cast<std::size_t>(domain_of_rank[rank])].push_back(static_cast<int>(rank));
  }
  return domains;
}

Round pairs_within(const Domains& domains, std::size_t turn) {
  Round pairs;
  for (const Group& ranks : domains)
    for (const auto& [a, b] : partners(ranks.size(), turn)) pairs.push_back({ranks[a], ranks[b]});
  return pairs;
}

Round pairs_across(const Domains& domains, std::size_t turn) {
  Round pairs;
  for (const auto& [a, b] : partners(domains.size(), turn))
    for (std::size_t i = 0; i < std::min(domains[a].size(), domains[b].size()); ++i)
      pairs.push_back({std::min(domains[a][i], domains[b][i]), std::max(domains[a][i], domains[b][i])});
  return pairs;
}

int side_of_products(std::optional<Bytes> memory) {
  int side = largest_side;
  const auto takes = [](int n) { return device_memory({.kind = Work::Kind::gemm, .n = n, .k = n, .type = "bf16"}); };
  while (memory && side > least_side && takes(side).count > memory->count / share_of_products) side -= side_step;
  return side;
}

class LoadBuilder {
 public:
  LoadBuilder(const std::string& backend_name, const JobFacts& job)
      : backend_(backend_name),
        most_bytes_(job.memory_of_rank ? job.memory_of_rank->count / share_of_messages : link_message.count),
        side_(side_of_products(job.memory_of_rank)) {}

  // Pairs, which have no part where there are none. Their name differs where they do: communicators are kept by it.
  struct Pairs {
    const Round& pairs;
    const std::string& name;
  };
  LoadCase build(const Pairs& own_links, const Pairs& own_nics) const {
    LoadCase made;
    const auto add = [&](Case c, std::optional<std::size_t> part) {
      made.parts.push_back(part);
      made.amounts.push_back(static_cast<double>(c.bytes.count));
      if (made.parts.size() == 1) {
        made.all = std::move(c);
        return;
      }
      Work work{.kind = Work::Kind::collective, .collective = c.collective, .group = c.group, .bytes = c.bytes};
      work.planned = std::make_shared<const Case>(std::move(c));
      made.all.beside.push_back(std::move(work));
    };
    if (!own_links.pairs.empty()) add(exchange(own_links.pairs, own_links.name, 1, link_message), links_part);
    if (!own_nics.pairs.empty()) add(exchange(own_nics.pairs, own_nics.name, 2, nic_message), nics_part);
    if (made.parts.empty()) {
      // Nothing but the GPU itself: it sends to itself, and copies to the host.
      add(exchange({{0}}, "world", 1, link_message), std::nullopt);
      made.all.beside.push_back({.kind = Work::Kind::d2h});
      made.parts.emplace_back(copies_part);
      made.amounts.push_back(static_cast<double>(d2h_bytes.count));
    }
    made.all.beside.push_back({.kind = Work::Kind::gemm, .n = side_, .k = side_, .type = "bf16"});
    made.parts.emplace_back(products_part);
    made.amounts.push_back(2.0 * side_ * side_ * side_);
    return made;
  }

 private:
  Case exchange(Round pairs, std::string group, int nodes, Bytes message) const {
    Case c;
    c.backend = backend_;
    c.for_parts = true;
    c.collective = &find_collective("send_recv");
    c.group = std::move(group);
    c.ranks = static_cast<int>(pairs.front().size());
    c.nodes = nodes;
    const std::uint64_t bytes = std::max<std::uint64_t>(std::min(message.count, most_bytes_), size_of(c.type));
    c.shape = c.collective->shape({bytes}, false, size_of(c.type), c.ranks);
    c.bytes = c.shape.bytes;
    c.bytes_per_rank = c.shape.bytes_per_rank;
    return with_rounds(std::move(c), std::vector<Round>{std::move(pairs)});
  }

  std::string backend_;
  std::uint64_t most_bytes_;
  int side_;
};

}  // namespace

std::vector<LoadCase> load_cases(const std::string& backend_name, const JobFacts& job) {
  const Domains domains = domains_of(job.placement().domain_of_rank);
  const LoadBuilder builder(backend_name, job);
  struct Turn {
    Round links, nics;
    std::string name_of_links, name_of_nics;
  };
  std::vector<Turn> made;
  std::size_t turns = turns_of(domains.size());
  for (const Group& ranks : domains) turns = std::max(turns, turns_of(ranks.size()));
  for (std::size_t turn = 0; turn < turns; ++turn) {
    Turn next{pairs_within(domains, turn), pairs_across(domains, turn), "links", "nics"};
    if (turn > 0) {
      const bool other_links = next.links != made.front().links, other_nics = next.nics != made.front().nics;
      if (!other_links && !other_nics) continue;
      if (other_links) next.name_of_links += fmt::format(" {}", turn + 1);
      if (other_nics) next.name_of_nics += fmt::format(" {}", turn + 1);
    }
    made.push_back(std::move(next));
  }
  std::vector<LoadCase> cases;
  for (const Turn& turn : made)
    cases.push_back(builder.build({turn.links, turn.name_of_links}, {turn.nics, turn.name_of_nics}));
  return cases;
}

}  // namespace p5
