// The search for faulty parts is greedy, with corrections. A transfer is "open" as long as no found part explains it. A
// node, a link, a rail or the links between sets of nodes are accepted only if other parts do not explain the same
// transfers better: two slow NICs of eight make a node slow in a quarter of its transfers; where the links between two
// halves of the nodes are slow, each rail is slow in half of its pairs; any two slow links without a common node are
// links between two sets of nodes. Where parts show only in groups, a second search takes those first that show in
// pairs, and the likelier result counts. Then each found part is replaced by the part that best explains what
// the other found parts leave open, and dropped if that part scores too low. Links that end at a faulty node are
// dropped, because transfers between two slow nodes are slower than others.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "reports/alternatives.hpp"
#include "reports/part_names.hpp"
#include "reports/part_scores.hpp"

namespace p5::reports {

namespace {

using PartKind = Part::Kind;
constexpr std::size_t most_parts = 256;

class Localizer {
 public:
  Localizer(std::span<const TransferRecord> records, const Paths& paths, Fault fault, const std::set<Part>& known)
      : scores_(records, paths, fault, known), open_(records.size(), true) {}

  std::vector<FaultyPart> run(double least_log_odds) {
    bool any = false;
    for (std::size_t i = 0; i < scores_.records().size(); ++i) any = any || scores_.trials(i).hits > 0;
    if (!any) return {};
    find_healthy_rates(least_log_odds);
    std::vector<ScoredPart> found;
    do {
      found = search(least_log_odds);
      improve(found, least_log_odds);
    } while (forget_links_of_few_events(found));
    drop_links_of_nodes(found);
    std::vector<FaultyPart> faulty;
    for (const ScoredPart& each : found) faulty.push_back(describe(each, found));
    return faulty;
  }

 private:
  // Sets the healthy rates to the estimate under which rates and found parts are likelier: if all transfers are slow in
  // four of ten samples, as on a network with other users, one high rate is likelier than many faulty parts.
  void find_healthy_rates(double least) {
    const PartScores::HealthyRates alike = scores_.rates_if_slow_alike();
    scores_.set_healthy_rates(scores_.rates_if_seldom_slow(open_));
    const double if_seldom_slow = scores_.log_probability(search(least));
    const PartScores::HealthyRates without_found = scores_.rates_if_seldom_slow(open_);
    if (alike != scores_.healthy_rates()) {
      scores_.set_healthy_rates(alike);
      if (scores_.log_probability(search(least)) > if_seldom_slow) return;
    }
    // This estimate leaves out the transfers that the found parts explain.
    scores_.set_healthy_rates(without_found);
  }

  template <class Allowed>
  std::optional<ScoredPart> best_part(const OpenTransfers& open, const Allowed& allowed) const {
    std::optional<ScoredPart> best;
    for (const auto& [part, its] : scores_.parts()) {
      if (!scores_.has_hits(its, open)) continue;
      ScoredPart scored{part, scores_.score(part, open)};
      if (!scored.score.shows_in.empty() && (!best || scored.score.log_odds > best->score.log_odds) && allowed(scored))
        best = std::move(scored);
    }
    return best;
  }

  // A node, link or rail, or links between sets of nodes, may be slow in some of their transfers only. Returns the
  // first of the parts that together explain these transfers better (links, rails or parts of a node, each of which its
  // own transfers make likely), else the whole.
  ScoredPart parts_or_whole(const ScoredPart& whole, const OpenTransfers& open, double least) const {
    OpenTransfers its(open.size(), false);
    for (const std::vector<std::size_t>& list : scores_.parts().at(whole.part))
      for (const std::size_t i : list) its[i] = open[i];
    std::map<Part, double> likely;
    for (const auto& [part, list] : scores_.parts()) {
      if (!may_replace(whole.part, part) || !scores_.has_hits(list, its)) continue;
      // The parts and links of a node have no transfers beside the node's.
      const bool has_others = whole.part.kind != PartKind::node || part.kind == PartKind::rail;
      const double by_all = has_others ? scores_.score(part, open).log_odds : std::numeric_limits<double>::infinity();
      if (by_all >= std::max(least, 0.0)) likely.emplace(part, by_all);
    }
    const auto is_rail = [](const Part& part) { return part.kind == PartKind::rail; };
    ScoredPart best = whole;
    double log_odds = whole.score.log_odds;
    const auto try_with = [&](const auto& allowed) {
      double most = 0;  // parts explain no more together than the sum of what each explains alone
      for (const auto& [part, by_all] : likely) most += allowed(part) ? by_all : 0;
      if (most <= log_odds) return;
      const auto [first, together] = explain_by(likely, allowed, its, whole.part, least);
      if (first && together > log_odds) best = *first, log_odds = together;
    };
    if (whole.part.kind == PartKind::rail || whole.part.kind == PartKind::links) try_with(is_of_links);
    try_with(is_rail);
    try_with(
        [&](const Part& part) { return !is_rail(part) && (!is_of_links(part) || whole.part.kind == PartKind::node); });
    return best;
  }

  // True if the part has transfers in common with a node, link or rail, and may explain them in its place. A rail may
  // not if it is the only one, which all transfers use. Only single links may stand for links between sets of nodes.
  bool may_replace(const Part& whole, const Part& part) const {
    if (whole.kind == PartKind::links) return part.kind == PartKind::link && joins_nodes(whole, part.node, part.number);
    if (part.kind == PartKind::rail && whole.kind != PartKind::rail)
      return std::ranges::count_if(scores_.parts(),
                                   [](const auto& each) { return each.first.kind == PartKind::rail; }) > 1;
    if (whole.kind == PartKind::node && part.kind == PartKind::link) return nodes_of(part).contains(whole.node);
    if (whole.kind == PartKind::rail && is_of_links(part)) return true;
    const bool is_smaller = is_in_node(part) && part.kind != PartKind::node;
    return is_smaller && (whole.kind == PartKind::rail || nodes_of(whole).contains(part.node));
  }

  // The first of the parts that together explain the transfers `its`, and the sum of their log odds. `parts` has the
  // log odds of each part by all of its transfers. No part if nearly all GPUs of a node, or their NICs, would be
  // faulty: then what these share is at fault, even if they explain a little more.
  template <class Allowed>
  std::pair<std::optional<ScoredPart>, double> explain_by(const std::map<Part, double>& parts, const Allowed& allowed,
                                                          OpenTransfers its, const Part& whole, double least) const {
    constexpr auto fewest_gpus = 3;
    const auto gpus = std::ranges::count_if(scores_.parts(), [&](const auto& each) {
      return each.first.kind == PartKind::gpu && each.first.node == whole.node;
    });
    std::optional<ScoredPart> first;
    double together = 0;
    int faulty_gpus = 0;  // GPUs that are faulty, or all of whose NICs are
    for (std::size_t count = 0; count < most_parts; ++count) {
      std::optional<ScoredPart> next;
      for (const auto& [part, by_all] : parts) {
        if (!allowed(part) || !scores_.has_hits(scores_.parts().at(part), its)) continue;
        Score its_score = scores_.score(part, its);
        its_score.log_odds = std::min(its_score.log_odds, by_all);
        if (!its_score.shows_in.empty() && (!next || its_score.log_odds > next->score.log_odds))
          next = ScoredPart{part, std::move(its_score)};
      }
      if (!next || next->score.log_odds < std::max(least, 0.0)) break;
      if (!first) first = next;
      together += next->score.log_odds;
      faulty_gpus += next->part.kind == PartKind::gpu || next->part.kind == PartKind::nics ? 1 : 0;
      scores_.explain(*next, its);
    }
    if (whole.kind == PartKind::node && gpus >= fewest_gpus && 4 * faulty_gpus > 3 * gpus) return {};
    return {first, together};
  }

  static bool is_whole(const Part& part) {
    return part.kind == PartKind::node || is_of_links(part) || part.kind == PartKind::rail;
  }

  // The likelier of two searches. A link that happens to be in most of the slow groups explains more of them than each
  // of two slow links does, and then leaves these only their pairs: the other search takes parts first that show in
  // pairs.
  std::vector<ScoredPart> search(double least) {
    open_.assign(open_.size(), true);
    std::vector<ScoredPart> found;
    extend(found, open_, least, [](const ScoredPart&) { return true; });
    if (std::ranges::all_of(found, is_seen_in_pairs)) return found;
    OpenTransfers open(open_.size(), true);
    std::vector<ScoredPart> pairs_first;
    extend(pairs_first, open, least, is_seen_in_pairs);
    extend(pairs_first, open, least, [](const ScoredPart&) { return true; });
    if (scores_.log_probability(pairs_first) <= scores_.log_probability(found)) return found;
    open_ = std::move(open);
    return pairs_first;
  }

  static bool is_seen_in_pairs(const ScoredPart& each) { return std::ranges::any_of(each.score.shows_in, is_of_pairs); }

  template <class Allowed>
  void extend(std::vector<ScoredPart>& found, OpenTransfers& open, double least, const Allowed& allowed) const {
    while (found.size() < most_parts) {
      std::optional<ScoredPart> next = best_part(open, allowed);
      if (!next || next->score.log_odds < least) break;
      if (is_whole(next->part)) next = parts_or_whole(*next, open, least);
      scores_.explain(*next, open);
      found.push_back(std::move(*next));
    }
  }

  // Replaces each part by the one that explains best what the other parts leave, and drops it if none scores enough.
  void improve(std::vector<ScoredPart>& found, double least) const {
    constexpr int most_rounds = 4;
    bool changed = true;
    for (int round = 0; changed && round < most_rounds; ++round) {
      changed = false;
      for (std::size_t at = 0; at < found.size(); ++at) {
        const OpenTransfers open = scores_.left_by_others(found, found[at].part);
        std::optional<ScoredPart> best = best_part(open, [&](const ScoredPart& each) {
          return each.part == found[at].part || std::ranges::find(found, each.part, &ScoredPart::part) == found.end();
        });
        if (!best || best->score.log_odds < least) {
          found.erase(found.begin() + static_cast<std::ptrdiff_t>(at--));
          changed = true;
          continue;
        }
        if (is_whole(best->part)) best = parts_or_whole(*best, open, least);
        if (best->part != found[at].part) {
          const bool is_there = std::ranges::find(found, best->part, &ScoredPart::part) != found.end();
          if (is_there || best->score.log_odds <= scores_.score(found[at].part, open).log_odds) continue;
          changed = true;
        }
        found[at] = std::move(*best);
      }
    }
  }

  // Pairs of the same two nodes in the same round are disturbed together: eight of them that are slow in one sample are
  // one event, not eight. A link that is slow in less than half of its events must therefore also be likely from its
  // events alone. Otherwise a node that is slow in a few of a hundred samples would be mistaken for the links whose
  // pairs ran in those samples. Returns true if a link was forgotten.
  bool forget_links_of_few_events(const std::vector<ScoredPart>& found) {
    std::vector<Part> forgotten;
    for (const ScoredPart& each : found) {
      if (scores_.fault() != Fault::slow || each.part.kind != PartKind::link) continue;
      if (!std::ranges::all_of(each.score.shows_in, is_of_pairs)) continue;
      const SampleCounts events = events_of(each, scores_.left_by_others(found, each.part));
      // A further faulty link of the same node is another fault, so the events have to outweigh the prior twice.
      const bool is_one_of_several = std::ranges::any_of(found, [&](const ScoredPart& other) {
        return other.part != each.part && other.part.kind == PartKind::link && have_a_common_end(other.part, each.part);
      });
      const double least = is_one_of_several ? -std::log(prior_of_fault) : 0;
      if (events.count == 0 || events.share() >= 0.5 || scores_.log_odds_of_events(events) >= least) continue;
      forgotten.push_back(each.part);
    }
    for (const Part& part : forgotten) scores_.forget(part);
    return !forgotten.empty();
  }

  // Events of a part's open pairs. A hit is an event in which at least half of the pairs in it are slow.
  SampleCounts events_of(const ScoredPart& found, const OpenTransfers& open) const {
    std::map<std::uint64_t, SampleCounts> pairs_of;
    for (const Transfers kind : found.score.shows_in)
      for (const std::size_t i : scores_.parts().at(found.part)[static_cast<std::size_t>(kind)]) {
        const TransferRecord& its = scores_.records()[i];
        if (!open[i]) continue;
        for (const TimedSample& sample : its.samples) pairs_of[sample.event] += {1, sample.slow ? 1 : 0};
      }
    SampleCounts events;
    for (const auto& [event, pairs] : pairs_of) events += {1, pairs.share() >= 0.5 ? 1 : 0};
    return events;
  }

  static void drop_links_of_nodes(std::vector<ScoredPart>& found) {
    // Transfers between two faulty nodes are slower than those with one, which does not prove a faulty link.
    std::set<int> faulty_nodes;
    for (const ScoredPart& each : found)
      if (each.part.kind == PartKind::node) faulty_nodes.insert(each.part.node);
    std::erase_if(found, [&](const ScoredPart& each) {
      return each.part.kind == PartKind::link &&
             (faulty_nodes.contains(each.part.node) || faulty_nodes.contains(each.part.number));
    });
  }

  FaultyPart describe(const ScoredPart& found, const std::vector<ScoredPart>& all) const {
    const OpenTransfers open = scores_.left_by_others(all, found.part);
    FaultyPart faulty{.part = found.part, .fault = scores_.fault(), .shows_in = found.score.shows_in};
    SampleCounts counts_of_part, again;
    for (const Transfers kind : faulty.shows_in)
      for (const std::size_t i : scores_.parts().at(found.part)[static_cast<std::size_t>(kind)]) {
        const SampleCounts& trials = scores_.trials(i);
        // A fast group whose ring seldom uses the part says nothing about it.
        if (!open[i] || (trials.hits == 0 && scores_.bypass(found.part, i) > 0.5)) continue;
        faulty.observations.push_back(&scores_.records()[i]);
        counts_of_part += trials;
        if (trials.hits > 0) again += scores_.trials_of_retest(i);
      }
    faulty.share = counts_of_part.share();
    faulty.repeated = again.count == 0 || again.share() > faulty.share / 2;
    weigh_alternatives(scores_, found, all, open, faulty);
    return faulty;
  }

  PartScores scores_;
  OpenTransfers open_;  // transfers without an explanation so far
};

}  // namespace

std::vector<FaultyPart> localize(std::span<const TransferRecord> observations, const Paths& paths, Fault fault,
                                 double least_log_odds, const std::set<Part>& known) {
  return Localizer(observations, paths, fault, known).run(least_log_odds);
}

}  // namespace p5::reports
