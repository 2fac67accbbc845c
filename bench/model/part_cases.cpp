// Cases that locate slow parts: single NICs, rails, and halves of nodes and of their ranks.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bench/model/case.hpp"
#include "bench/model/collective.hpp"
#include "bench/model/groups.hpp"
#include "bench/model/plan.hpp"

namespace p5 {

namespace {

// True if the rank has the NIC, and is the first one of its node that does.
bool measures_nic(const std::vector<std::vector<std::string>>& nics_of_rank, const NodeOfRank& node_of_rank,
                  std::size_t rank, std::size_t nic) {
  if (nic >= nics_of_rank[rank].size() || nics_of_rank[rank][nic].empty()) return false;
  for (std::size_t earlier = 0; earlier < rank; ++earlier)
    if (node_of_rank[earlier] == node_of_rank[rank] &&
        std::ranges::find(nics_of_rank[earlier], nics_of_rank[rank][nic]) != nics_of_rank[earlier].end())
      return false;
  return true;
}

// Splits the participating ranks into as few shifts as have at most `most` ranks of a node each. Neighbours, which
// share a socket of their host, are in different shifts; the i-th participants of all nodes are in the same.
std::vector<std::vector<bool>> split_into_shifts(const NodeOfRank& node_of_rank, const std::vector<bool>& takes_part,
                                                 std::optional<int> most) {
  std::map<int, int> of_node;
  for (std::size_t rank = 0; rank < takes_part.size(); ++rank)
    if (takes_part[rank]) ++of_node[node_of_rank[rank]];
  int most_ranks = 1;
  for (const auto& [node, count] : of_node) most_ranks = std::max(most_ranks, count);
  const int least = std::max(1, most.value_or(most_ranks));
  const auto count = static_cast<std::size_t>((most_ranks + least - 1) / least);
  std::vector<std::vector<bool>> shifts(count, std::vector<bool>(takes_part.size(), false));
  std::map<int, std::size_t> seen;
  for (std::size_t rank = 0; rank < takes_part.size(); ++rank)
    if (takes_part[rank]) shifts[seen[node_of_rank[rank]]++ % count][rank] = true;
  return shifts;
}

}  // namespace

void set_span(Case& c, const Group& widest, const Placement& placement) {
  c.nodes = spanned_by(widest, placement.node_of_rank);
  std::map<int, Group> domains;
  for (const int rank : widest) domains[placement.domain_of_rank[static_cast<std::size_t>(rank)]].push_back(rank);
  std::size_t fewest = widest.size();
  for (const auto& [domain, ranks] : domains) fewest = std::min(fewest, ranks.size());
  c.fewest_per_domain.reset();
  if (fewest * domains.size() != widest.size()) c.fewest_per_domain = static_cast<int>(fewest);
  if (!placement.has_wide_domains()) return;
  c.domains = static_cast<int>(domains.size());
  c.nodes_per_domain = c.nodes;
  for (const auto& [domain, ranks] : domains)
    c.nodes_per_domain = std::min(c.nodes_per_domain, spanned_by(ranks, placement.node_of_rank));
}

Case with_rounds(Case like, std::vector<Round> rounds) {
  if (std::exchange(like.every_root, false)) like.root = 0;
  like.rounds = std::make_shared<const std::vector<Round>>(std::move(rounds));
  like.communicators = nullptr;
  return like;
}

std::vector<Case> nic_cases(const std::string& backend_name, const JobFacts& job,
                            const std::vector<std::vector<std::string>>& nics_of_rank, Bytes bytes,
                            std::optional<Bytes> most_together, std::optional<int> at_once) {
  const std::size_t ranks = job.node_of_rank.size();
  // Up to a dozen nodes all pairs are measured; with thousands of ranks one round suffices to select the retests.
  const int most_rounds = std::clamp(4096 / static_cast<int>(std::max<std::size_t>(ranks, 1)), 1, 12);
  std::size_t most_nics = 0;
  for (const std::vector<std::string>& nics : nics_of_rank) most_nics = std::max(most_nics, nics.size());
  Case like;
  like.backend = backend_name;
  like.for_parts = true;
  like.collective = &find_collective("p2p");
  like.pattern = "one_way";  // providers may alternate directions where both sides send, but not always
  like.pair = "other_node";
  like.ranks = like.nodes = 2;
  std::vector<Case> cases;
  const auto add = [&](std::optional<int> nic, Bytes size, const std::vector<bool>& takes_part,
                       std::optional<int> most) {
    like.shape = like.collective->shape(size, false, size_of(like.type), like.ranks);
    like.bytes = like.shape.bytes;
    like.bytes_per_rank = like.shape.bytes_per_rank;
    const std::vector<std::vector<bool>> shifts = split_into_shifts(job.node_of_rank, takes_part, most);
    std::vector<Round> rounds;
    const int rounds_per_shift = std::max(1, most_rounds / static_cast<int>(shifts.size()));
    bool sampled = false;
    for (const std::vector<bool>& shift : shifts) {
      std::vector<Round> shift_rounds = pairs_between(job.node_of_rank, shift, rounds_per_shift, job.seed);
      sampled = sampled || std::cmp_greater_equal(shift_rounds.size(), rounds_per_shift);
      std::ranges::move(shift_rounds, std::back_inserter(rounds));
    }
    if (rounds.empty()) return;
    cases.push_back(with_rounds(like, both_directions(rounds)));
    cases.back().nic = nic;
    cases.back().pairs_sampled = sampled;
  };
  for (std::size_t nic = 0; nic < most_nics; ++nic) {
    std::vector<bool> takes_part;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      takes_part.push_back(measures_nic(nics_of_rank, job.node_of_rank, rank, nic));
    add(static_cast<int>(nic), bytes, takes_part, at_once);
  }
  const Bytes of_all{bytes.count * most_nics};
  if (most_together && most_nics > 0 && of_all.count <= most_together->count)
    add(std::nullopt, of_all, std::vector<bool>(ranks, true), std::nullopt);
  return cases;
}

std::vector<Case> group_cases(const std::string& backend_name, const JobFacts& job, Bytes bytes) {
  // Within a single domain no group of nodes uses a NIC.
  const Placement placement = job.placement();
  const bool within = count_nodes(placement.domain_of_rank) < 2;
  const NodeOfRank& sides = within ? placement.node_of_rank : placement.domain_of_rank;
  const Round nodes = make_groups("node", sides), rails = make_groups("rail", sides);
  const bool alike = std::ranges::all_of(nodes, [&](const Group& node) { return node.size() == rails.size(); });
  if (!alike) return {};
  std::vector<Case> cases;
  const auto add = [&](const char* collective, std::string_view group, std::vector<Round> rounds) {
    if (rounds.empty()) return;
    Case c;
    c.backend = backend_name;
    c.for_parts = true;
    c.collective = &find_collective(collective);
    if (c.collective->reduces) c.op = ReduceOp::sum;
    if (c.collective->pairwise)
      c.pattern = "both_ways", c.pair = placement.has_wide_domains() ? "other_domain" : "other_node";
    c.group = group;
    c.ranks = static_cast<int>(rounds.front().front().size());
    set_span(c, rounds.front().front(), placement);
    c.shape = c.collective->shape(bytes, false, size_of(c.type), c.ranks);
    c.bytes = c.shape.bytes;
    c.bytes_per_rank = c.shape.bytes_per_rank;
    cases.push_back(with_rounds(std::move(c), std::move(rounds)));
  };
  if (!within && rails.size() > 1) add("all_reduce", "rail", {rails, rails});  // two rounds, for comparison
  // An all-reduce of few nodes needs less than the rate of their NICs and hides the loss of one.
  add("all_gather", node_subset_group, node_halves(sides, job.seed));
  add("all_reduce", node_half_group, halves_of_each_node(placement.domain_of_rank, job.seed));
  if (!within) add("p2p", all_rails_group, pairs_on_all_rails(sides));
  return cases;
}

}  // namespace p5
