// The probability of a part is its share of the weight of all explanations. The other explanations replace one found
// part, or two at once, by other parts. Two at once are needed: if two nodes and two rails are slow in collectives, the
// faults may be NIC 1 of node 1 and NIC 2 of node 2, or NIC 2 of node 1 and NIC 1 of node 2. Replacing a single part
// does not lead from one explanation to the other.
#include "reports/alternatives.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace p5::reports {

namespace {

using PartKind = Part::Kind;

class Alternatives {
 public:
  Alternatives(const PartScores& scores, const std::vector<ScoredPart>& all) : scores_(scores), all_(all) {}

  void weigh(const ScoredPart& found, OpenTransfers open, FaultyPart& faulty) const {
    if (found.part.kind == PartKind::rail) close_groups_without_contrast(open);
    const double log_odds = scores_.score(found.part, open).log_odds;
    std::set<Part> taken;
    for (const ScoredPart& other : all_) taken.insert(other.part);
    std::map<Part, double> weight_of{{found.part, 1}};
    for (const Part& part : parts_with(faulty.observations))
      if (!taken.contains(part)) weight_of[part] += relative_weight(scores_.score(part, open).log_odds - log_odds);
    constexpr std::size_t most_exchanged = 12;  // the time of exchanges grows with the square of the parts
    for (const ScoredPart& other : all_)
      if (all_.size() <= most_exchanged && other.part != found.part && are_ambiguous_together(found, other)) {
        const Exchanges exchanges = weights_of_exchanges(found, other);
        for (const auto& [part, weight] : exchanges.of_both) weight_of[part] += weight;
        // This explanation was weighed above; here the other part may explain less than before.
        for (const auto& [part, weight] : exchanges.of_first) weight_of[part] = std::max(weight_of[part], weight);
      }
    const double by_chance = relative_weight(-log_odds);
    double weights = by_chance;
    for (const auto& [part, weight] : weight_of) weights += weight;
    std::vector<std::pair<Part, double>> others;
    for (const auto& [part, weight] : weight_of)
      if (part != found.part) others.emplace_back(part, weight);
    faulty.confidence = weight_of.at(found.part) / weights;
    join_nics(faulty.part, others, weights, faulty.confidence);
    std::ranges::sort(others, std::greater(), &std::pair<Part, double>::second);
    constexpr double worth_naming = 0.01;
    for (const auto& [part, weight] : others) {
      if (weight / weights < worth_naming) break;
      faulty.alternatives.emplace_back(part, weight / weights);
    }
  }

 private:
  // Times are compared within a kind of transfers, so if all groups of nodes are equally slow, none counts as slow.
  // With two slow rails every group may contain a slow NIC. The groups then say nothing about rails and are closed.
  void close_groups_without_contrast(OpenTransfers& open) const {
    const auto is_rail = [](const ScoredPart& each) { return each.part.kind == PartKind::rail; };
    if (std::ranges::count_if(all_, is_rail) < 2) return;
    const auto is_of_nodes = [&](std::size_t i) { return scores_.records()[i].kind == Transfers::node_subset; };
    for (std::size_t i = 0; i < open.size(); ++i)
      if (is_of_nodes(i) && scores_.trials(i).share() >= 0.5) return;
    for (std::size_t i = 0; i < open.size(); ++i)
      if (is_of_nodes(i)) open[i] = false;
  }

  // Parts with a hit among the observations.
  std::vector<Part> parts_with(const std::vector<const TransferRecord*>& observations) const {
    OpenTransfers its(scores_.records().size(), false);
    for (const TransferRecord* each : observations)
      its[static_cast<std::size_t>(each - scores_.records().data())] = true;
    std::vector<Part> parts;
    for (const auto& [part, list] : scores_.parts())
      if (scores_.has_hits(list, its)) parts.push_back(part);
    return parts;
  }

  // True if exchanging both parts may give another explanation. A slow pair shows at which ends the fault is; only a
  // slow group leaves open which of its parts are at fault.
  static bool are_ambiguous_together(const ScoredPart& a, const ScoredPart& b) {
    return !std::ranges::all_of(a.score.shows_in, is_of_pairs) && !std::ranges::all_of(b.score.shows_in, is_of_pairs);
  }

  // Weights of explanations that replace two parts by two others, or only the first one while the second may explain
  // less than before, relative to the weight of the explanation by these two.
  struct Exchanges {
    // The key is the part that replaces the first one: of both new parts one on its node if there is one.
    std::map<Part, double> of_both;
    std::map<Part, double> of_first;
  };
  Exchanges weights_of_exchanges(const ScoredPart& first, const ScoredPart& second) const {
    constexpr std::size_t most = 48;     // likeliest parts that are tried
    constexpr double negligible = 12.0;  // natural logarithm
    OpenTransfers open(scores_.records().size(), true);
    for (const ScoredPart& other : all_)
      if (other.part != first.part && other.part != second.part) scores_.explain(other, open);
    OpenTransfers of_either(scores_.records().size(), false);
    for (const ScoredPart* const each : {&first, &second})
      for (std::size_t kind = 0; kind < kinds_of_transfers; ++kind)
        for (const std::size_t i : scores_.parts().at(each->part)[kind]) {
          // Kinds of transfers in which a faulty node does not show are left out of the scores of its parts too.
          if (each->part.kind == PartKind::node && !each->score.shows_in.contains(static_cast<Transfers>(kind)))
            open[i] = false;
          of_either[i] = open[i];
        }
    std::vector<ScoredPart> candidates;
    for (const auto& [part, list] : scores_.parts()) {
      const bool is_other = std::ranges::any_of(
          all_, [&](const ScoredPart& each) { return each.part == part && part != first.part && part != second.part; });
      if (!is_other && scores_.has_hits(list, of_either)) candidates.push_back({part, scores_.score(part, open)});
    }
    const std::map<Part, double> merged_weight = keep_one_nic_of_each_gpu(candidates, {first.part, second.part});
    const std::size_t kept = std::min(most, candidates.size());
    std::ranges::partial_sort(candidates, candidates.begin() + static_cast<std::ptrdiff_t>(kept), std::greater(),
                              [](const ScoredPart& each) { return each.score.log_odds; });
    candidates.resize(kept);
    std::map<std::pair<Part, Part>, double> totals;
    for (const ScoredPart& one : candidates) {
      OpenTransfers left = open;
      scores_.explain(one, left);
      for (const ScoredPart& other : candidates) {
        if (other.part == one.part) continue;
        const double left_for_other = scores_.differ_for(other.part, open, left)
                                          ? scores_.score(other.part, left).log_odds
                                          : other.score.log_odds;
        const double total = one.score.log_odds + left_for_other;
        const auto [at, fresh] = totals.try_emplace(std::minmax(one.part, other.part), total);
        at->second = std::max(at->second, total);
      }
    }
    Exchanges weights;
    const auto of_found = totals.find(std::minmax(first.part, second.part));
    if (of_found == totals.end()) return weights;
    for (const auto& [two, total] : totals) {
      const auto& [a, b] = two;
      if (two == of_found->first || total < of_found->second - negligible) continue;
      const double weight = merged_weight.at(a) * merged_weight.at(b) * relative_weight(total - of_found->second);
      if (a == second.part || b == second.part)
        weights.of_first[a == second.part ? b : a] = weight;
      else
        weights.of_both[stands_for(first, a, b)] += weight;
    }
    return weights;
  }

  // Keeps one of the candidates that are NICs beside the same GPU, each alone or all together: one of `preferred` if
  // there is one, else the likeliest. Returns, for each candidate that is kept, the weight of all that it stands for,
  // relative to its own; 1 for parts that are no NICs.
  std::map<Part, double> keep_one_nic_of_each_gpu(std::vector<ScoredPart>& candidates,
                                                  const std::set<Part>& preferred) const {
    std::map<Part, double> merged_weight;
    std::map<Part, std::vector<ScoredPart>> by_gpu;
    std::vector<ScoredPart> kept;
    for (ScoredPart& each : candidates) {
      const std::optional<Part> nics = is_nic(each.part) ? nics_with(each.part) : std::nullopt;
      if (nics)
        by_gpu[*nics].push_back(std::move(each));
      else
        merged_weight[kept.emplace_back(std::move(each)).part] = 1;
    }
    for (auto& [nics, its] : by_gpu) {
      const auto best = std::ranges::max_element(its, {}, [&](const ScoredPart& each) {
        return std::pair(preferred.contains(each.part), each.score.log_odds);
      });
      double sum = 0;
      for (const ScoredPart& each : its) sum += relative_weight(each.score.log_odds - best->score.log_odds);
      merged_weight[best->part] = sum;
      kept.push_back(std::move(*best));
    }
    candidates = std::move(kept);
    return merged_weight;
  }

  // Weight relative to the found explanation; limited, so that it is finite if another explanation is better by far.
  static double relative_weight(double log_odds) {
    constexpr double most = 200;
    return std::exp(std::min(log_odds, most));
  }

  static Part stands_for(const ScoredPart& replaced, const Part& a, const Part& b) {
    if (a == replaced.part || b == replaced.part) return replaced.part;
    const auto is_near = [&](const Part& part) { return is_in_node(part) && part.node == replaced.part.node; };
    return is_near(b) && !is_near(a) ? b : a;
  }

  std::optional<Part> nics_with(const Part& nic) const {
    for (const auto& [nics, records] : scores_.parts())
      if (nics.kind == PartKind::nics && holds(nics, nic)) return nics;
    return std::nullopt;
  }

  // Reports all NICs beside a GPU as one part if several of them, or what they share, may be faulty.
  void join_nics(Part& part, std::vector<std::pair<Part, double>>& others, double weights, double& confidence) const {
    constexpr double matters = 0.1;
    if (const std::optional<Part> nics = is_nic(part) ? nics_with(part) : std::nullopt) {
      double sum = 0;
      for (const auto& [other, weight] : others)
        if (holds(*nics, other)) sum += weight / weights;
      if (part.kind == PartKind::nics || sum >= matters) {
        std::erase_if(others, [&](const std::pair<Part, double>& each) { return holds(*nics, each.first); });
        confidence += sum;
        part = *nics;
      }
    }
    // NICs among the other explanations: the likeliest beside a GPU stands alone only if it is much likelier.
    std::map<Part, std::vector<std::pair<Part, double>>> by_gpu;
    std::vector<std::pair<Part, double>> joined;
    for (const auto& each : others) {
      const std::optional<Part> nics = is_nic(each.first) ? nics_with(each.first) : std::nullopt;
      if (nics && !holds(*nics, part))
        by_gpu[*nics].push_back(each);
      else
        joined.push_back(each);
    }
    for (const auto& [nics, its] : by_gpu) {
      double sum = 0;
      for (const auto& [nic, weight] : its) sum += weight;
      const auto likeliest = std::ranges::max_element(its, {}, &std::pair<Part, double>::second);
      const bool alone = sum - likeliest->second < matters * sum;
      joined.emplace_back(alone ? likeliest->first : nics, sum);
    }
    others = std::move(joined);
  }

  const PartScores& scores_;
  const std::vector<ScoredPart>& all_;
};

}  // namespace

void weigh_alternatives(const PartScores& scores, const ScoredPart& found, const std::vector<ScoredPart>& all,
                        OpenTransfers open, FaultyPart& faulty) {
  Alternatives(scores, all).weigh(found, std::move(open), faulty);
}

}  // namespace p5::reports
