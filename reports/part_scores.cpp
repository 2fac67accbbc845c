// The model, a naive Bayes: each transfer has n trials (samples or rounds), of which k are hits: slow (longer than
// tolerated), silent (no progress before the timeout) or wrong (data).
//
//   healthy:        k ~ Binomial(n, e) with the hit rate e of healthy transfers of its kind; with a small probability
//                   (outlier_probability) a transfer has its own hit rate, uniform between 0 and 1
//   faulty part:    k ~ Binomial(n, p) with the hit rate p of that part and kind of transfers; with the same small
//                   probability a transfer has the rate of healthy ones, or its own hit rate: another part of its path
//                   may be faulty too
//
// A pair's route may be slow permanently, so its deviation is one event. A group has no route of its own: its deviation
// in the first measurement and that in the retest are two events, and a group that is slow both times is hardly
// healthy.
//
// In each kind of transfers the hit rate equals the part's p with a prior probability of one half; else it is
// uniformly distributed below p. With one slow NIC of four, a message over all four slows down less than a message over
// that NIC alone, so fewer of its samples count as slow.
//
// A faulty part need not show in all kinds of transfers that use it: a GPU may be slow in collectives and fast in
// pairs. A table has the probability that it shows, by kind of part and kind of transfers. The score of a part is the
// logarithm of the posterior odds of "this part is faulty" to "nothing is", over the transfers that no other part
// explains.
#include "reports/part_scores.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "bench/base/statistics.hpp"

namespace p5::reports {

namespace {

using PartKind = Part::Kind;

double log_add(double a, double b) {
  const double low = std::min(a, b), high = std::max(a, b);
  if (high == -std::numeric_limits<double>::infinity()) return high;
  return high + std::log1p(std::exp(low - high));
}

// Logarithm of p^k (1 - p)^(n - k).
double log_binomial(const SampleCounts& trials, double p) {
  return trials.hits * std::log(p) + (trials.count - trials.hits) * std::log1p(-p);
}

// log_binomial() integrated over p uniform between 0 and 1.
double log_uniform(const SampleCounts& trials) {
  return std::lgamma(trials.hits + 1) + std::lgamma(trials.count - trials.hits + 1) - std::lgamma(trials.count + 2);
}

// Probability of as many hits or more, each with probability p.
double probability_of_hits(const SampleCounts& trials, double p) {
  double fewer = 0;
  const auto choose = [&](int hits) {
    return std::lgamma(trials.count + 1) - std::lgamma(hits + 1) - std::lgamma(trials.count - hits + 1);
  };
  for (int hits = 0; hits < trials.hits; ++hits)
    fewer += std::exp(choose(hits) + log_binomial({trials.count, hits}, p));
  return 1 - fewer;
}

// Prior probability for a part that is known to have another fault, and the fraction of faults that show only with more
// than two ranks.
constexpr double prior_of_known = 0.5, only_at_scale = 0.1;
// The same fraction of a rail: what its ranks share, such as a switch, has to carry all of them before it shows.
constexpr double rail_only_at_scale = 0.9;
// Prior probability that all NICs of one number are faulty: lower than that of one NIC, which may explain the few pairs
// that were measured equally well, and higher than that of several faulty NICs.
constexpr double prior_of_rail_of_nics = 3e-5;

bool is_of_nics(const Part& part) { return is_nic(part) || part.kind == PartKind::only_nic; }

constexpr double least_rate = 0.01;

// Rate of hits in these transfers and in `expected` more samples, of which 2 % are slow, as is usual.
double pooled_rate(std::span<const SampleCounts> transfers, double expected) {
  SampleCounts all;
  for (const SampleCounts& each : transfers) all += each;
  return std::clamp((all.hits + 0.02 * expected) / (all.count + expected), least_rate, 0.9);
}

}  // namespace

PartScores::PartScores(std::span<const TransferRecord> records, const Paths& paths, Fault fault,
                       const std::set<Part>& known)
    : records_(records), fault_(fault), known_(known), has_gpus_(paths.gpus), healthy_(records.size()) {
  // Silent or wrong pairs cause silent or wrong collectives, which add no information then.
  const bool pairs_only = fault != Fault::slow && std::ranges::any_of(records, [&](const TransferRecord& each) {
                            return each.is_pair() && (each.*channel()).hits > 0;
                          });
  Paths with_sets = paths;
  with_sets.sets = sets_of_nodes(records, channel(), paths.domain_of_node);
  for (std::size_t i = 0; i < records.size(); ++i)
    if (trials(i).count > 0 && (!pairs_only || records[i].is_pair()))
      for (const Part& part : parts_on(records[i], with_sets))
        of_part_[part][static_cast<std::size_t>(records[i].kind)].push_back(i);
  if (fault == Fault::slow) find_hardly_slow_nics();
  only_small_.fill(true);
  spares_nics_.fill(true);
  std::map<std::vector<int>, std::size_t> place;  // in node_sets_
  std::set<int> all_nodes;
  for (const TransferRecord& each : records) {
    if (!each.small) only_small_[static_cast<std::size_t>(each.kind)] = false;
    if (!each.spares_nics) spares_nics_[static_cast<std::size_t>(each.kind)] = false;
    // A ring enters and leaves an NVLink domain of several nodes at any of its nodes, not from node to node.
    const std::vector<int> nodes =
        each.is_pair() || paths.domain_of_node.empty() ? reports::nodes_of(each) : std::vector<int>();
    const auto [known_set, is_new] = place.emplace(nodes, node_sets_.size());
    nodes_of_.push_back(known_set->second);
    if (is_new) node_sets_.push_back(nodes);
    for (const RankLocation& rank : each.ranks) all_nodes.insert(rank.node);
  }
  nodes_ = all_nodes.size();
}

SampleCounts TransferRecord::*PartScores::channel() const {
  return fault_ == Fault::slow     ? &TransferRecord::slow
         : fault_ == Fault::silent ? &TransferRecord::silent
                                   : &TransferRecord::wrong;
}

SampleCounts PartScores::trials_of_retest(std::size_t i) const {
  return fault_ == Fault::slow     ? records_[i].slow_again
         : fault_ == Fault::silent ? records_[i].silent_again
                                   : SampleCounts{};
}

// Finds the NICs that slow their rail down so little that groups of nodes with them are hardly slower than others.
// Groups of nodes reach 75 % of their limit, so that they lose only three quarters of what the rail loses.
void PartScores::find_hardly_slow_nics() {
  constexpr double share_of_limit = 0.75;
  for (const auto& [part, lists] : of_part_) {
    if (!is_of_nics(part)) continue;
    std::vector<double> ratios;
    for (const std::size_t i : lists[static_cast<std::size_t>(Transfers::rail_group)])
      for (const TimedSample& sample : records_[i].samples)
        if (sample.slow) ratios.push_back(sample.ratio);
    if (!ratios.empty() && (median(std::move(ratios)) - 1) * share_of_limit < gap_of_fault) hardly_slow_.insert(part);
  }
}

// Probability that a transfer deviates from the model. A pair's time may depend on its route; a collective averages
// many transfers. Silence and wrong data always have a cause.
double PartScores::outlier_probability(std::size_t i) const {
  if (fault_ != Fault::slow) return 1e-6;
  return records_[i].is_pair() ? 1e-3 : 1e-5;
}

double PartScores::rate_if_seldom_slow(std::size_t kind, const OpenTransfers& open) const {
  std::vector<SampleCounts> all;
  for (std::size_t i = 0; i < records_.size(); ++i)
    if (static_cast<std::size_t>(records_[i].kind) == kind && open[i] && trials(i).share() < 0.5)
      all.push_back(trials(i));
  return std::min(pooled_rate(all, 100), 0.3);
}

double PartScores::rate_if_slow_alike(std::size_t kind) const {
  constexpr double unlikely = 0.01;
  std::vector<SampleCounts> all;
  for (std::size_t i = 0; i < records_.size(); ++i)
    if (static_cast<std::size_t>(records_[i].kind) == kind && trials(i).count > 0) all.push_back(trials(i));
  if (all.empty()) return least_rate;
  std::ranges::sort(all, {}, &SampleCounts::share);
  std::size_t before = 0, alike = all.size() / 10 + 1;
  double rate = 0;
  while (alike > before) {
    before = alike;
    rate = pooled_rate(std::span(all).first(alike), 20);
    while (alike < all.size() && probability_of_hits(all[alike], rate) >= unlikely) ++alike;
  }
  return rate;
}

template <class Rate>
PartScores::HealthyRates PartScores::rates(const Rate& of_slow) const {
  HealthyRates all{};
  for (std::size_t kind = 0; kind < all.size(); ++kind)
    // Stopped or ended processes make healthy transfers silent now and then. Healthy data is never wrong.
    all[kind] = fault_ == Fault::slow ? of_slow(kind) : fault_ == Fault::silent ? 1e-3 : 1e-6;
  return all;
}

PartScores::HealthyRates PartScores::rates_if_seldom_slow(const OpenTransfers& open) const {
  return rates([&](std::size_t kind) { return rate_if_seldom_slow(kind, open); });
}

PartScores::HealthyRates PartScores::rates_if_slow_alike() const {
  return rates([&](std::size_t kind) { return rate_if_slow_alike(kind); });
}

void PartScores::set_healthy_rates(const HealthyRates& rates) {
  healthy_share_ = rates;
  for (std::size_t i = 0; i < records_.size(); ++i) healthy_[i] = log_healthy(i);
  ratios_.assign(records_.size(), {});
}

double PartScores::log_probability(std::span<const ScoredPart> found) const {
  double sum = 0;
  for (const double each : healthy_) sum += each;
  for (const ScoredPart& each : found) sum += each.score.log_odds;
  return sum;
}

// Sum of log likelihoods over independent events: one for a pair, two for a group that was measured again.
template <class Likelihood>
double PartScores::over_independent_events(std::size_t i, const Likelihood& of) const {
  const SampleCounts all = trials(i), again = trials_of_retest(i);
  if (records_[i].is_pair() || again.count == 0) return of(all);
  return of(SampleCounts{all.count - again.count, all.hits - again.hits}) + of(again);
}

double PartScores::log_healthy(std::size_t i) const {
  const double outlier = outlier_probability(i);
  return over_independent_events(i, [&](const SampleCounts& its) {
    return log_add(std::log1p(-outlier) + log_binomial(its, healthy_share(i)), std::log(outlier) + log_uniform(its));
  });
}

double PartScores::log_faulty(std::size_t i, double share) const {
  const double outlier = outlier_probability(i);
  return over_independent_events(i, [&](const SampleCounts& its) {
    return log_add(std::log1p(-outlier) + log_binomial(its, share),
                   std::log(outlier) + log_add(log_binomial(its, healthy_share(i)), log_uniform(its)));
  });
}

// Log likelihood ratio (faulty to healthy) of one kind of transfers for each hit rate of the part. The kind has that
// rate or, with equal probability, any rate up to it.
PartScores::Gains PartScores::gains(const Part& part, const std::vector<std::size_t>& list, const OpenTransfers& open,
                                    double healthy) const {
  constexpr double least_difference = 0.03;  // above healthy transfers; smaller differences do not matter
  constexpr double minus_infinity = -std::numeric_limits<double>::infinity();
  const double half = std::log(0.5);
  Gains all{};
  double of_lower = minus_infinity;  // integrated over the rates up to this one
  const Gains ratios = log_ratios(part, list, open);
  for (std::size_t at = 0; at < hit_rates.size(); ++at) {
    const double same = hit_rates[at] >= healthy + least_difference ? ratios[at] : minus_infinity;
    const double above = at == 0 ? 0 : hit_rates[at - 1];
    of_lower = log_add(of_lower, same + std::log(hit_rates[at] - above));
    all[at] = same == minus_infinity ? minus_infinity : log_add(half + same, half + of_lower - std::log(hit_rates[at]));
  }
  return all;
}

// Log likelihood ratios of the open observations with a fault on their path, for each of `hit_rates`. Collectives of
// the same nodes have the same rings, and pairs of the same two nodes the same route, so that they all use a link, or
// what joins sets of nodes, or none of them does.
PartScores::Gains PartScores::log_ratios(const Part& part, const std::vector<std::size_t>& list,
                                         const OpenTransfers& open) const {
  Gains sum{};
  const auto add = [](Gains& to, const Gains& its) {
    for (std::size_t at = 0; at < hit_rates.size(); ++at) to[at] += its[at];
  };
  std::map<std::size_t, Gains> of_nodes;
  for (const std::size_t i : list)
    if (open[i]) add(is_of_links(part) ? of_nodes[nodes_of_[i]] : sum, log_ratios(i));
  for (auto& [nodes, its] : of_nodes) {
    const double bypass = bypass_probability(part, node_sets_[nodes]);
    for (double& each : its) each = log_add(std::log1p(-bypass) + each, std::log(bypass));
    add(sum, its);
  }
  return sum;
}

// The same for one observation. Computed once, because an exchange of two parts for two others asks for it some
// hundred thousand times.
const PartScores::Gains& PartScores::log_ratios(std::size_t i) const {
  std::optional<Gains>& its = ratios_[i];
  if (!its) {
    its.emplace();
    for (std::size_t at = 0; at < hit_rates.size(); ++at) (*its)[at] = log_faulty(i, hit_rates[at]) - healthy_[i];
  }
  return *its;
}

// Small messages hardly depend on bandwidth, and operations that something else limits hardly on NICs: a fault shows
// in them with a probability of one half at most, so that their lack of hits has little weight. The same holds for
// groups of nodes and a NIC in hardly_slow_: they lose too little to count as slow.
double PartScores::probability_to_show(const Part& part, Mode mode, std::size_t kind) const {
  constexpr double at_most_in_small = 0.5;
  const double probability = *show_probability(part.kind, mode, static_cast<Transfers>(kind));
  const bool hardly = only_small_[kind] || (spares_nics_[kind] && is_of_nics(part)) ||
                      (kind == static_cast<std::size_t>(Transfers::node_subset) && hardly_slow_.contains(part));
  return fault_ == Fault::slow && hardly ? std::min(probability, at_most_in_small) : probability;
}

// Each node might be in any one of the sets, or in none: sets that are chosen by the samples need more evidence.
double PartScores::log_prior_of(const Part& part) const {
  if (known_.contains(part)) return std::log(prior_of_known);
  if (part.kind == PartKind::rail && !has_gpus_) return std::log(prior_of_rail_of_nics);
  return std::log(prior_of_fault) -
         static_cast<double>(part.sets.empty() ? 0 : nodes_) * std::log(part.sets.size() + 1.0);
}

Score PartScores::score(const Part& part, const OpenTransfers& open) const {
  constexpr double minus_infinity = -std::numeric_limits<double>::infinity();
  using KindOfTransfers = std::pair<std::size_t, Gains>;
  std::vector<KindOfTransfers> kind_gains;
  const TransfersOfPart& its = of_part_.at(part);
  for (std::size_t kind = 0; kind < kinds_of_transfers; ++kind)
    if (std::ranges::any_of(its[kind], [&](std::size_t i) { return open[i]; }))
      kind_gains.emplace_back(kind, gains(part, its[kind], open, healthy_share_[kind]));
  Score best{minus_infinity, {}};
  for (std::size_t at = 0; at < hit_rates.size(); ++at) {
    const double at_scale = part.kind == PartKind::rail ? rail_only_at_scale : only_at_scale;
    std::array<Score, 2> modes{{{std::log1p(-at_scale), {}}, {std::log(at_scale), {}}}};
    for (const auto& [kind, its_gains] : kind_gains) {
      for (const Mode mode : {Mode::usual, Mode::at_scale}) {
        Score& of_mode = modes[static_cast<std::size_t>(mode)];
        const double probability = probability_to_show(part, mode, kind);
        const double with = std::log(probability) + its_gains[at], without = std::log1p(-probability);
        of_mode.log_odds += log_add(with, without);
        if (with > without) of_mode.shows_in.insert(static_cast<Transfers>(kind));
      }
    }
    // A fault that shows in no pair belongs to Mode::at_scale.
    Score& usual = modes[static_cast<std::size_t>(Mode::usual)];
    const auto has_pairs = [](const KindOfTransfers& each) { return is_of_pairs(static_cast<Transfers>(each.first)); };
    if (std::ranges::any_of(kind_gains, has_pairs) && std::ranges::none_of(usual.shows_in, is_of_pairs))
      usual = {minus_infinity, {}};
    const auto likelier = std::ranges::max_element(modes, {}, &Score::log_odds);
    const double log_odds = log_prior_of(part) + log_add(modes[0].log_odds, modes[1].log_odds);
    if (log_odds > best.log_odds) best = {log_odds, likelier->shows_in};
  }
  return best;
}

double PartScores::log_odds_of_events(const SampleCounts& events) const {
  const double healthy = log_binomial(events, healthy_share_[static_cast<std::size_t>(Transfers::between_nodes)]);
  double best = 0;
  for (const double share : hit_rates) best = std::max(best, log_binomial(events, share) - healthy);
  return std::log(prior_of_fault) + best;
}

void PartScores::explain(const ScoredPart& found, OpenTransfers& open) const {
  const TransfersOfPart& its = of_part_.at(found.part);
  for (std::size_t kind = 0; kind < kinds_of_transfers; ++kind)
    if (found.part.kind == PartKind::node || found.score.shows_in.contains(static_cast<Transfers>(kind)))
      for (const std::size_t i : its[kind]) open[i] = false;
}

OpenTransfers PartScores::left_by_others(std::span<const ScoredPart> found, const Part& excluded) const {
  OpenTransfers open(records_.size(), true);
  for (const ScoredPart& other : found)
    if (other.part != excluded) explain(other, open);
  return open;
}

bool PartScores::has_hits(const TransfersOfPart& its, const OpenTransfers& open) const {
  return std::ranges::any_of(its, [&](const std::vector<std::size_t>& list) {
    return std::ranges::any_of(list, [&](std::size_t i) { return open[i] && trials(i).hits > 0; });
  });
}

bool PartScores::differ_for(const Part& part, const OpenTransfers& one, const OpenTransfers& other) const {
  return std::ranges::any_of(of_part_.at(part), [&](const std::vector<std::size_t>& list) {
    return std::ranges::any_of(list, [&](std::size_t i) { return one[i] != other[i]; });
  });
}

}  // namespace p5::reports
