// The model, a naive Bayes: each observation has n trials (samples or rounds), of which k are hits: slow (longer than
// tolerated), silent (no progress before the timeout) or wrong (data).
//
//   healthy:        k ~ Binomial(n, e) with the hit rate e of healthy transfers of its kind; with a small probability
//                   (outlier_probability) a transfer has its own hit rate, uniform between 0 and 1
//   faulty part:    k ~ Binomial(n, p) with the hit rate p of that part and kind of transfers; with the same small
//                   probability it is distributed like a healthy one, or a transfer has its own hit rate: another part
//                   of its path may be faulty too
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
// logarithm of the posterior odds of "this part is faulty" to "nothing is", over the observations that no other part
// explains.
//
// The search is greedy, with corrections. An observation is "open" as long as no found part explains it. A node or rail
// is accepted only if other parts do not explain the same observations better: two slow NICs of eight make a node slow
// in a quarter of its transfers, and where the links between two halves of the nodes are slow, each rail is in half of
// them. Then each found part is replaced by the part that best explains what the other found parts
// leave open, and dropped if that part scores too low. Links that end at a faulty node are dropped, because transfers
// between two slow nodes are slower than others.
//
// The probability of a part is its share of the weight of all explanations. The others replace one found part, or two
// at once, by other parts. Two at once are needed: if two nodes and two rails are slow in collectives, the faults may
// be NIC 1 of node 1 and NIC 2 of node 2, or NIC 2 of node 1 and NIC 1 of node 2. Replacing a single part does not lead
// from one explanation to the other.
#include "reports/observations.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "bench/base/statistics.hpp"

namespace p5::reports {

namespace {

using PartKind = Part::Kind;
constexpr std::size_t most_parts = 256;

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

// Prior probability that a part is faulty, prior probability for a part that is known to have another fault, and the
// fraction of faults that show only with more than two ranks.
constexpr double prior = 1e-3, prior_of_known = 0.5, only_at_scale = 0.1;
// The same fraction of a rail: what its ranks share, such as a switch, has to carry all of them before it shows.
constexpr double rail_only_at_scale = 0.9;
// The same of all NICs of one number: less than of one NIC, which may explain the few pairs that were measured as well,
// and more than of several.
constexpr double prior_of_rail_of_nics = 3e-5;

struct Score {
  double log_odds = 0;
  std::set<Transfers> shows_in;
};

class Localizer {
 public:
  Localizer(std::span<const TransferRecord> observations, const Paths& paths, Fault fault, const std::set<Part>& known)
      : observations_(observations),
        fault_(fault),
        known_(known),
        has_gpus_(paths.gpus),
        healthy_(observations.size()),
        open_(observations.size(), true) {
    // Silent or wrong pairs cause silent or wrong collectives, which add no information then.
    const bool pairs_only = fault != Fault::slow && std::ranges::any_of(observations, [&](const TransferRecord& each) {
                              return each.is_pair() && (each.*channel()).hits > 0;
                            });
    for (std::size_t i = 0; i < observations.size(); ++i)
      if (trials(i).count > 0 && (!pairs_only || observations[i].is_pair()))
        for (const Part& part : parts_on(observations[i], paths))
          of_part_[part][static_cast<std::size_t>(observations[i].kind)].push_back(i);
    if (fault == Fault::slow) find_hardly_slow_nics();
    only_small_.fill(true);
    spares_nics_.fill(true);
    for (const TransferRecord& each : observations) {
      if (!each.small) only_small_[static_cast<std::size_t>(each.kind)] = false;
      if (!each.spares_nics) spares_nics_[static_cast<std::size_t>(each.kind)] = false;
      // NVLink domains of several nodes are entered and left by all their nodes.
      const std::vector<int> nodes =
          each.is_pair() || !paths.domain_of_node.empty() ? std::vector<int>() : reports::nodes_of(each);
      const auto known_set = std::ranges::find(node_sets_, nodes);
      nodes_of_.push_back(static_cast<std::size_t>(known_set - node_sets_.begin()));
      if (known_set == node_sets_.end()) node_sets_.push_back(nodes);
    }
  }

  static bool is_of_nics(const Part& part) { return is_nic(part) || part.kind == PartKind::only_nic; }

  // Finds the NICs whose slow samples in their rail are so little slower that groups of nodes have no gap between slow
  // and fast ones: groups reach 0.75 of their limit, so that a slowdown by s on the rail costs them only 0.75 s.
  void find_hardly_slow_nics() {
    constexpr double share_of_limit = 0.75;
    for (const auto& [part, lists] : of_part_) {
      if (!is_of_nics(part)) continue;
      std::vector<double> ratios;
      for (const std::size_t i : lists[static_cast<std::size_t>(Transfers::rail_group)])
        for (const TimedSample& sample : observations_[i].samples)
          if (sample.slow) ratios.push_back(sample.ratio);
      if (!ratios.empty() && (median(std::move(ratios)) - 1) * share_of_limit < gap_of_fault) hardly_slow_.insert(part);
    }
  }

  std::vector<FaultyPart> run(double least_log_odds) {
    if (std::ranges::none_of(observations_, [&](const TransferRecord& each) { return (each.*channel()).hits > 0; }))
      return {};
    find_healthy_rates(least_log_odds);
    std::vector<ScoredPart> found;
    do {
      std::ranges::fill(open_, true);
      found = search(least_log_odds);
      improve(found, least_log_odds);
    } while (forget_links_of_few_events(found));
    drop_links_of_nodes(found);
    std::vector<FaultyPart> faulty;
    for (const ScoredPart& each : found) faulty.push_back(describe(each, found));
    return faulty;
  }

 private:
  using TransferRecords = std::array<std::vector<std::size_t>, kinds_of_transfers>;
  using Mask = std::vector<char>;
  struct ScoredPart {
    Part part;
    Score score;
  };

  SampleCounts TransferRecord::*channel() const {
    return fault_ == Fault::slow     ? &TransferRecord::slow
           : fault_ == Fault::silent ? &TransferRecord::silent
                                     : &TransferRecord::wrong;
  }
  const SampleCounts& trials(std::size_t i) const { return observations_[i].*channel(); }
  SampleCounts trials_of_retest(std::size_t i) const {
    return fault_ == Fault::slow     ? observations_[i].slow_again
           : fault_ == Fault::silent ? observations_[i].silent_again
                                     : SampleCounts{};
  }

  // Probability that a transfer deviates from the model. A pair's time may depend on its route; a collective averages
  // many transfers. Silence and wrong data always have a cause.
  double outlier_probability(std::size_t i) const {
    if (fault_ != Fault::slow) return 1e-6;
    return observations_[i].is_pair() ? 1e-3 : 1e-5;
  }

  // The hit rate of the healthy transfers of a kind has two estimates, at least one slow sample in a hundred each.
  // Seldom slow: that of the transfers that are slow in less than half of their samples and that no found part
  // explains.
  double rate_if_seldom_slow(std::size_t kind) const {
    std::vector<SampleCounts> all;
    for (std::size_t i = 0; i < observations_.size(); ++i)
      if (static_cast<std::size_t>(observations_[i].kind) == kind && open_[i] && trials(i).share() < 0.5)
        all.push_back(trials(i));
    return std::min(pooled_rate(all, 100), 0.3);
  }

  // Slow alike: that of the tenth with the lowest rates, and of all whose hits are likely at the same rate.
  double rate_if_slow_alike(std::size_t kind) const {
    constexpr double unlikely = 0.01;
    std::vector<SampleCounts> all;
    for (std::size_t i = 0; i < observations_.size(); ++i)
      if (static_cast<std::size_t>(observations_[i].kind) == kind && trials(i).count > 0) all.push_back(trials(i));
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

  static constexpr double least_rate = 0.01;
  // `expected`: samples of transfers as they usually are, of which 2 % are slow.
  static double pooled_rate(std::span<const SampleCounts> transfers, double expected) {
    double hits = 0.02 * expected, count = expected;
    for (const SampleCounts& each : transfers) hits += each.hits, count += each.count;
    return std::clamp(hits / count, least_rate, 0.9);
  }

  template <class Rate>
  std::array<double, kinds_of_transfers> healthy_rates(const Rate& of_slow) const {
    std::array<double, kinds_of_transfers> rates{};
    for (std::size_t kind = 0; kind < rates.size(); ++kind)
      // Stopped or ended processes make healthy transfers silent now and then. Healthy data is never wrong.
      rates[kind] = fault_ == Fault::slow ? of_slow(kind) : fault_ == Fault::silent ? 1e-3 : 1e-6;
    return rates;
  }

  void set_healthy_rates(const std::array<double, kinds_of_transfers>& rates) {
    healthy_share_ = rates;
    for (std::size_t i = 0; i < observations_.size(); ++i) healthy_[i] = log_healthy(i);
    ratios_.assign(observations_.size(), {});
  }

  // Logarithm of the posterior probability of these parts and rates, up to a constant.
  double log_probability(const std::vector<ScoredPart>& found) const {
    double sum = 0;
    for (const double each : healthy_) sum += each;
    for (const ScoredPart& each : found) sum += each.score.log_odds;
    return sum;
  }

  // Finds the parts with the likelier of the two estimates: if all transfers are slow in four of ten samples, as on a
  // network with other users, one rate for all is likelier than many faulty parts.
  void find_healthy_rates(double least) {
    const auto seldom_slow = [&](std::size_t kind) { return rate_if_seldom_slow(kind); };
    std::ranges::fill(open_, true);
    const auto alike = healthy_rates([&](std::size_t kind) { return rate_if_slow_alike(kind); });
    set_healthy_rates(healthy_rates(seldom_slow));
    const double if_seldom_slow = log_probability(search(least));
    const auto without_found = healthy_rates(seldom_slow);
    if (alike != healthy_share_) {
      std::ranges::fill(open_, true);
      set_healthy_rates(alike);
      if (log_probability(search(least)) > if_seldom_slow) return;
    }
    // The transfers of faulty parts are left out.
    set_healthy_rates(without_found);
  }

  // Sum of log likelihoods over independent events: one for a pair, two for a group that was measured again.
  template <class Likelihood>
  double over_independent_events(std::size_t i, const Likelihood& of) const {
    const SampleCounts all = trials(i), again = trials_of_retest(i);
    if (observations_[i].is_pair() || again.count == 0) return of(all);
    return of(SampleCounts{all.count - again.count, all.hits - again.hits}) + of(again);
  }

  double log_healthy(std::size_t i) const {
    const double outlier = outlier_probability(i);
    return over_independent_events(i, [&](const SampleCounts& its) {
      return log_add(std::log1p(-outlier) + log_binomial(its, healthy_share(i)), std::log(outlier) + log_uniform(its));
    });
  }
  double healthy_share(std::size_t i) const { return healthy_share_[static_cast<std::size_t>(observations_[i].kind)]; }

  double log_faulty(std::size_t i, double share) const {
    const double outlier = outlier_probability(i);
    return over_independent_events(i, [&](const SampleCounts& its) {
      return log_add(std::log1p(-outlier) + log_binomial(its, share),
                     std::log(outlier) + log_add(log_binomial(its, healthy_share(i)), log_uniform(its)));
    });
  }

  static constexpr std::array shares{0.04, 0.06, 0.09, 0.14, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.96, 0.99, 0.999};
  using Gains = std::array<double, shares.size()>;

  // Log likelihood ratio (faulty to healthy) of one kind of transfers for each hit rate of the part. The kind has that
  // rate or, with equal probability, any rate up to it.
  Gains gains(const Part& part, const std::vector<std::size_t>& list, const Mask& open, double healthy) const {
    constexpr double least_difference = 0.03;  // above healthy transfers; smaller differences do not matter
    constexpr double minus_infinity = -std::numeric_limits<double>::infinity();
    const double half = std::log(0.5);
    Gains all{};
    double of_lower = minus_infinity;  // integrated over the rates up to this one
    const Gains ratios = log_ratios(part, list, open);
    for (std::size_t at = 0; at < shares.size(); ++at) {
      const double same = shares[at] >= healthy + least_difference ? ratios[at] : minus_infinity;
      const double above = at == 0 ? 0 : shares[at - 1];
      of_lower = log_add(of_lower, same + std::log(shares[at] - above));
      all[at] = same == minus_infinity ? minus_infinity : log_add(half + same, half + of_lower - std::log(shares[at]));
    }
    return all;
  }

  // Log likelihood ratios of the open observations with a fault on their path, for each of `shares`. Collectives of the
  // same nodes have the same rings, so that they all use a link or none of them does.
  Gains log_ratios(const Part& part, const std::vector<std::size_t>& list, const Mask& open) const {
    Gains sum{};
    const auto add = [](Gains& to, const Gains& its) {
      for (std::size_t at = 0; at < shares.size(); ++at) to[at] += its[at];
    };
    std::map<std::size_t, Gains> of_nodes;
    for (const std::size_t i : list)
      if (open[i]) add(part.kind == PartKind::link ? of_nodes[nodes_of_[i]] : sum, log_ratios(i));
    for (auto& [nodes, its] : of_nodes) {
      const double bypass = bypass_probability(part, node_sets_[nodes]);
      for (double& each : its) each = log_add(std::log1p(-bypass) + each, std::log(bypass));
      add(sum, its);
    }
    return sum;
  }

  // The same of one observation. Computed once, because an exchange of two parts for two others asks for it some
  // hundred thousand times.
  const Gains& log_ratios(std::size_t i) const {
    std::optional<Gains>& its = ratios_[i];
    if (!its) {
      its.emplace();
      for (std::size_t at = 0; at < shares.size(); ++at) (*its)[at] = log_faulty(i, shares[at]) - healthy_[i];
    }
    return *its;
  }

  // Small messages hardly depend on bandwidth, and operations that something else limits hardly on NICs: a fault shows
  // in them with a probability of one half at most, so that their lack of hits has little weight. The same holds of
  // groups of nodes for a NIC that is little slower in its rail: those lose less, and what they lose is no gap.
  double probability_to_show(const Part& part, Mode mode, std::size_t kind) const {
    constexpr double at_most_in_small = 0.5;
    const double probability = *show_probability(part.kind, mode, static_cast<Transfers>(kind));
    const bool hardly = only_small_[kind] || (spares_nics_[kind] && is_of_nics(part)) ||
                        (kind == static_cast<std::size_t>(Transfers::node_subset) && hardly_slow_.contains(part));
    return fault_ == Fault::slow && hardly ? std::min(probability, at_most_in_small) : probability;
  }

  double prior_of(const Part& part) const {
    if (known_.contains(part)) return prior_of_known;
    return part.kind == PartKind::rail && !has_gpus_ ? prior_of_rail_of_nics : prior;
  }

  // Score at the most likely share of hits.
  Score score(const Part& part, const Mask& open) const {
    constexpr double minus_infinity = -std::numeric_limits<double>::infinity();
    using KindOfTransfers = std::pair<std::size_t, Gains>;
    std::vector<KindOfTransfers> kind_gains;
    const TransferRecords& its = of_part_.at(part);
    for (std::size_t kind = 0; kind < kinds_of_transfers; ++kind)
      if (std::ranges::any_of(its[kind], [&](std::size_t i) { return open[i]; }))
        kind_gains.emplace_back(kind, gains(part, its[kind], open, healthy_share_[kind]));
    Score best{minus_infinity, {}};
    for (std::size_t at = 0; at < shares.size(); ++at) {
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
      const auto is_of_pairs = [](std::size_t kind) { return p5::reports::is_of_pairs(static_cast<Transfers>(kind)); };
      if (std::ranges::any_of(kind_gains, is_of_pairs, &KindOfTransfers::first) &&
          std::ranges::none_of(usual.shows_in, [](Transfers kind) { return p5::reports::is_of_pairs(kind); }))
        usual = {minus_infinity, {}};
      const auto likelier = std::ranges::max_element(modes, {}, &Score::log_odds);
      const double log_odds = std::log(prior_of(part)) + log_add(modes[0].log_odds, modes[1].log_odds);
      if (log_odds > best.log_odds) best = {log_odds, likelier->shows_in};
    }
    return best;
  }

  // Marks the transfers that the part explains: those in which it shows; for a node all that use it, because its own
  // parts cannot be distinguished.
  void explain(const ScoredPart& found, Mask& open) const {
    const TransferRecords& its = of_part_.at(found.part);
    for (std::size_t kind = 0; kind < kinds_of_transfers; ++kind)
      if (found.part.kind == PartKind::node || found.score.shows_in.contains(static_cast<Transfers>(kind)))
        for (const std::size_t i : its[kind]) open[i] = false;
  }

  // True if an open observation of the part has a hit; parts without one cannot be faulty.
  bool has_hits(const TransferRecords& its, const Mask& open) const {
    return std::ranges::any_of(its, [&](const std::vector<std::size_t>& list) {
      return std::ranges::any_of(list, [&](std::size_t i) { return open[i] && trials(i).hits > 0; });
    });
  }

  // True if the part's open observations are not the same in both.
  bool differ_for(const Part& part, const Mask& one, const Mask& other) const {
    return std::ranges::any_of(of_part_.at(part), [&](const std::vector<std::size_t>& list) {
      return std::ranges::any_of(list, [&](std::size_t i) { return one[i] != other[i]; });
    });
  }

  template <class Allowed>
  std::optional<ScoredPart> best_part(const Mask& open, const Allowed& allowed) const {
    std::optional<ScoredPart> best;
    for (const auto& [part, its] : of_part_) {
      if (!allowed(part) || !has_hits(its, open)) continue;
      Score its_score = score(part, open);
      if (!its_score.shows_in.empty() && (!best || its_score.log_odds > best->score.log_odds))
        best = ScoredPart{part, std::move(its_score)};
    }
    return best;
  }

  // Replaces a node or rail, which may be slow in some of its transfers only, by the first of the parts that together
  // explain its transfers better: links, rails or the parts of a node, of which each is likely by all of its transfers.
  ScoredPart parts_or_whole(const ScoredPart& whole, const Mask& open, double least) const {
    Mask its(open.size(), false);
    for (const std::vector<std::size_t>& list : of_part_.at(whole.part))
      for (const std::size_t i : list) its[i] = open[i];
    std::map<Part, double> likely;
    for (const auto& [part, list] : of_part_) {
      if (!may_replace(whole.part, part) || !has_hits(list, its)) continue;
      // A node's own parts and links have no other transfers.
      const bool has_others = whole.part.kind == PartKind::rail || part.kind == PartKind::rail;
      const double by_all = has_others ? score(part, open).log_odds : std::numeric_limits<double>::infinity();
      if (by_all >= std::max(least, 0.0)) likely.emplace(part, by_all);
    }
    const auto is_link = [](const Part& part) { return part.kind == PartKind::link; };
    const auto is_rail = [](const Part& part) { return part.kind == PartKind::rail; };
    ScoredPart best = whole;
    double log_odds = whole.score.log_odds;
    const auto try_with = [&](const auto& allowed) {
      const auto [first, together] = explain_by(likely, allowed, its, whole.part, least);
      if (first && together > log_odds) best = *first, log_odds = together;
    };
    if (whole.part.kind == PartKind::rail) try_with(is_link);
    try_with(is_rail);
    try_with([&](const Part& part) { return !is_rail(part) && (!is_link(part) || whole.part.kind == PartKind::node); });
    return best;
  }

  // Parts that have transfers in common with a node or rail, and may explain them in its place. An only rail has all.
  bool may_replace(const Part& whole, const Part& part) const {
    if (whole.kind == PartKind::rail) return part.kind == PartKind::link || (is_in_node(part) && !is_whole(part));
    if (part.kind == PartKind::link) return part.node == whole.node || part.number == whole.node;
    if (part.kind == PartKind::rail)
      return std::ranges::count_if(of_part_, [](const auto& each) { return each.first.kind == PartKind::rail; }) > 1;
    return is_in_node(part) && !is_whole(part) && part.node == whole.node;
  }

  // The first of the parts (with their log odds by all of their transfers) that explain these transfers, and the sum of
  // their log odds. None if they are at nearly all GPUs of a node: what these share is at fault, even where each of
  // them fits a little better by itself.
  template <class Allowed>
  std::pair<std::optional<ScoredPart>, double> explain_by(const std::map<Part, double>& parts, const Allowed& allowed,
                                                          Mask its, const Part& whole, double least) const {
    constexpr auto fewest_gpus = 3;
    const auto gpus = std::ranges::count_if(
        of_part_, [&](const auto& each) { return each.first.kind == PartKind::gpu && each.first.node == whole.node; });
    std::optional<ScoredPart> first;
    double together = 0;
    int faulty_gpus = 0;  // or their NICs
    for (std::size_t count = 0; count < most_parts; ++count) {
      std::optional<ScoredPart> next;
      for (const auto& [part, by_all] : parts) {
        if (!allowed(part) || !has_hits(of_part_.at(part), its)) continue;
        Score its_score = score(part, its);
        its_score.log_odds = std::min(its_score.log_odds, by_all);
        if (!its_score.shows_in.empty() && (!next || its_score.log_odds > next->score.log_odds))
          next = ScoredPart{part, std::move(its_score)};
      }
      if (!next || next->score.log_odds < std::max(least, 0.0)) break;
      if (!first) first = next;
      together += next->score.log_odds;
      faulty_gpus += next->part.kind == PartKind::gpu || next->part.kind == PartKind::nics ? 1 : 0;
      explain(*next, its);
    }
    if (whole.kind == PartKind::node && gpus >= fewest_gpus && 4 * faulty_gpus > 3 * gpus) return {};
    return {first, together};
  }

  static bool is_whole(const Part& part) { return part.kind == PartKind::node || part.kind == PartKind::rail; }

  std::vector<ScoredPart> search(double least) {
    std::vector<ScoredPart> found;
    while (found.size() < most_parts) {
      std::optional<ScoredPart> next = best_part(open_, [](const Part&) { return true; });
      if (!next || next->score.log_odds < least) break;
      if (is_whole(next->part)) next = parts_or_whole(*next, open_, least);
      explain(*next, open_);
      found.push_back(std::move(*next));
    }
    return found;
  }

  // Marks what all but one part leave unexplained.
  Mask left_by_others(const std::vector<ScoredPart>& found, const Part& excluded) const {
    Mask open(open_.size(), true);
    for (const ScoredPart& other : found)
      if (other.part != excluded) explain(other, open);
    return open;
  }

  // Exchanges each part for the one that explains best what the others leave, and drops it if that is too little.
  void improve(std::vector<ScoredPart>& found, double least) const {
    constexpr int most_rounds = 4;
    bool changed = true;
    for (int round = 0; changed && round < most_rounds; ++round) {
      changed = false;
      for (std::size_t at = 0; at < found.size(); ++at) {
        const Mask open = left_by_others(found, found[at].part);
        std::optional<ScoredPart> best = best_part(open, [&](const Part& part) {
          return part == found[at].part || std::ranges::find(found, part, &ScoredPart::part) == found.end();
        });
        if (!best || best->score.log_odds < least) {
          found.erase(found.begin() + static_cast<std::ptrdiff_t>(at--));
          changed = true;
          continue;
        }
        if (is_whole(best->part)) best = parts_or_whole(*best, open, least);
        if (best->part != found[at].part) {
          const bool is_there = std::ranges::find(found, best->part, &ScoredPart::part) != found.end();
          if (is_there || best->score.log_odds <= score(found[at].part, open).log_odds) continue;
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
      if (fault_ != Fault::slow || each.part.kind != PartKind::link) continue;
      const auto shows_in_pairs = [](Transfers kind) { return p5::reports::is_of_pairs(kind); };
      if (!std::ranges::all_of(each.score.shows_in, shows_in_pairs)) continue;
      const SampleCounts events = events_of(each, left_by_others(found, each.part));
      // A further faulty link of the same node is another fault, so the events have to outweigh the prior twice.
      const bool is_one_of_several = std::ranges::any_of(found, [&](const ScoredPart& other) {
        return other.part != each.part && other.part.kind == PartKind::link && have_a_common_end(other.part, each.part);
      });
      const double least = is_one_of_several ? -std::log(prior) : 0;
      if (events.count == 0 || events.share() >= 0.5 || log_odds_of_events(events) >= least) continue;
      forgotten.push_back(each.part);
    }
    for (const Part& part : forgotten) of_part_.erase(part);
    return !forgotten.empty();
  }

  // Events of a part's open pairs; a hit is one in which half of the pairs that take part or more are slow.
  SampleCounts events_of(const ScoredPart& found, const Mask& open) const {
    std::map<std::uint64_t, SampleCounts> pairs_of;
    for (const Transfers kind : found.score.shows_in)
      for (const std::size_t i : of_part_.at(found.part)[static_cast<std::size_t>(kind)]) {
        const TransferRecord& its = observations_[i];
        if (!open[i]) continue;
        for (const TimedSample& sample : its.samples) {
          SampleCounts& pairs = pairs_of[sample.event];
          ++pairs.count;
          pairs.hits += sample.slow ? 1 : 0;
        }
      }
    SampleCounts events;
    for (const auto& [event, pairs] : pairs_of) {
      ++events.count;
      events.hits += pairs.share() >= 0.5 ? 1 : 0;
    }
    return events;
  }

  double log_odds_of_events(const SampleCounts& events) const {
    const double healthy = log_binomial(events, healthy_share_[static_cast<std::size_t>(Transfers::between_nodes)]);
    double best = 0;
    for (const double share : shares) best = std::max(best, log_binomial(events, share) - healthy);
    return std::log(prior) + best;
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
    const Mask open = left_by_others(all, found.part);
    FaultyPart faulty{.part = found.part, .fault = fault_, .shows_in = found.score.shows_in};
    SampleCounts counts_of_part, again;
    for (const Transfers kind : faulty.shows_in)
      for (const std::size_t i : of_part_.at(found.part)[static_cast<std::size_t>(kind)]) {
        if (!open[i]) continue;
        const TransferRecord& observation = observations_[i];
        faulty.observations.push_back(&observation);
        counts_of_part.count += trials(i).count;
        counts_of_part.hits += trials(i).hits;
        if (trials(i).hits == 0 || fault_ == Fault::wrong) continue;
        const SampleCounts& repeated = fault_ == Fault::slow ? observation.slow_again : observation.silent_again;
        again.count += repeated.count;
        again.hits += repeated.hits;
      }
    faulty.share = counts_of_part.share();
    faulty.repeated = again.count == 0 || again.share() > faulty.share / 2;
    weigh_alternatives(found, all, open, faulty);
    return faulty;
  }

  // Times are compared within a kind of transfers, so if all groups of nodes are equally slow, none counts as slow.
  // With two slow rails every group may contain a slow NIC. The groups then say nothing about rails and are closed.
  void close_groups_without_contrast(const std::vector<ScoredPart>& all, Mask& open) const {
    const auto is_rail = [](const ScoredPart& each) { return each.part.kind == PartKind::rail; };
    if (std::ranges::count_if(all, is_rail) < 2) return;
    const auto is_of_nodes = [&](std::size_t i) { return observations_[i].kind == Transfers::node_subset; };
    for (std::size_t i = 0; i < open.size(); ++i)
      if (is_of_nodes(i) && trials(i).share() >= 0.5) return;
    for (std::size_t i = 0; i < open.size(); ++i)
      if (is_of_nodes(i)) open[i] = false;
  }

  void weigh_alternatives(const ScoredPart& found, const std::vector<ScoredPart>& all, Mask open,
                          FaultyPart& faulty) const {
    if (found.part.kind == PartKind::rail) close_groups_without_contrast(all, open);
    const double log_odds = score(found.part, open).log_odds;
    std::set<Part> taken;
    for (const ScoredPart& other : all) taken.insert(other.part);
    std::map<Part, double> weight_of{{found.part, 1}};
    for (const Part& part : parts_with(faulty.observations))
      if (!taken.contains(part)) weight_of[part] += relative_weight(score(part, open).log_odds - log_odds);
    constexpr std::size_t most_exchanged = 12;  // the time of exchanges grows with the square of the parts
    for (const ScoredPart& other : all)
      if (all.size() <= most_exchanged && other.part != found.part && are_ambiguous_together(found, other)) {
        const Exchanges exchanges = weights_of_exchanges(found, other, all);
        for (const auto& [part, weight] : exchanges.of_both) weight_of[part] += weight;
        // The same explanation as above, unless the other part explains less beside this one.
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
    constexpr double worth_naming = 0.01, most_unnamed = 0.1;
    constexpr std::size_t most_unlikely = 8;
    double unnamed = 1 - faulty.confidence - by_chance / weights;
    for (const auto& [part, weight] : others) {
      const bool is_likely = weight / weights >= worth_naming;
      if (!is_likely && (unnamed < most_unnamed || faulty.alternatives.size() >= most_unlikely)) break;
      faulty.alternatives.emplace_back(part, weight / weights);
      unnamed -= weight / weights;
    }
  }

  // Parts with a hit among the observations.
  std::vector<Part> parts_with(const std::vector<const TransferRecord*>& observations) const {
    Mask its(open_.size(), false);
    for (const TransferRecord* each : observations) its[static_cast<std::size_t>(each - observations_.data())] = true;
    std::vector<Part> parts;
    for (const auto& [part, list] : of_part_)
      if (has_hits(list, its)) parts.push_back(part);
    return parts;
  }

  // Pairs tell the ends of each transfer; only groups leave open which parts of several are at fault.
  static bool are_ambiguous_together(const ScoredPart& a, const ScoredPart& b) {
    const auto shows_in_groups = [](const ScoredPart& each) {
      return std::ranges::any_of(each.score.shows_in, [](Transfers kind) { return !p5::reports::is_of_pairs(kind); });
    };
    return shows_in_groups(a) && shows_in_groups(b);
  }

  // Weights of explanations that replace two parts by two others, or only the first one while the second may explain
  // less than before, relative to the two.
  struct Exchanges {
    // The key is the part that replaces the first one: of both new parts the one on its node, else the one with more of
    // its hits.
    std::map<Part, double> of_both;
    std::map<Part, double> of_first;
  };
  Exchanges weights_of_exchanges(const ScoredPart& first, const ScoredPart& second,
                                 const std::vector<ScoredPart>& all) const {
    constexpr std::size_t most = 48;     // likeliest parts that are tried
    constexpr double negligible = 12.0;  // natural logarithm
    Mask open(open_.size(), true);
    for (const ScoredPart& other : all)
      if (other.part != first.part && other.part != second.part) explain(other, open);
    Mask of_either(open_.size(), false);
    for (const ScoredPart* const each : {&first, &second})
      for (std::size_t kind = 0; kind < kinds_of_transfers; ++kind)
        for (const std::size_t i : of_part_.at(each->part)[kind]) {
          // Kinds of transfers in which a faulty node does not show are left out of the scores of its parts too.
          if (each->part.kind == PartKind::node && !each->score.shows_in.contains(static_cast<Transfers>(kind)))
            open[i] = false;
          of_either[i] = open[i];
        }
    std::vector<ScoredPart> candidates;
    for (const auto& [part, list] : of_part_) {
      const bool is_other = std::ranges::any_of(
          all, [&](const ScoredPart& each) { return each.part == part && part != first.part && part != second.part; });
      if (!is_other && has_hits(list, of_either)) candidates.push_back({part, score(part, open)});
    }
    const std::map<Part, double> merged_weight = keep_one_nic_of_each_gpu(candidates, {first.part, second.part});
    const std::size_t kept = std::min(most, candidates.size());
    std::ranges::partial_sort(candidates, candidates.begin() + static_cast<std::ptrdiff_t>(kept), std::greater(),
                              [](const ScoredPart& each) { return each.score.log_odds; });
    candidates.resize(kept);
    std::map<std::pair<Part, Part>, double> totals;
    for (const ScoredPart& one : candidates) {
      Mask left = open;
      explain(one, left);
      for (const ScoredPart& other : candidates) {
        if (other.part == one.part) continue;
        const double left_for_other =
            differ_for(other.part, open, left) ? score(other.part, left).log_odds : other.score.log_odds;
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
        weights.of_both[stands_for(first, a, b, open)] += weight;
    }
    return weights;
  }

  // Keeps one candidate for the NICs of each GPU, alone and together: one of `preferred` if there is one, else the
  // likeliest. Returns the sum of the weights that it replaces, relative to its own; 1 for other parts.
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

  // Finite even where another explanation is better by far.
  static double relative_weight(double log_odds) {
    constexpr double most = 200;
    return std::exp(std::min(log_odds, most));
  }

  Part stands_for(const ScoredPart& replaced, const Part& a, const Part& b, const Mask& open) const {
    if (a == replaced.part || b == replaced.part) return replaced.part;
    const auto is_near = [&](const Part& part) { return is_in_node(part) && part.node == replaced.part.node; };
    if (is_near(a) != is_near(b)) return is_near(a) ? a : b;
    Mask its(open.size(), false);
    for (const std::vector<std::size_t>& list : of_part_.at(replaced.part))
      for (const std::size_t i : list) its[i] = open[i] && trials(i).hits > 0;
    const auto shared = [&](const Part& part) {
      int count = 0;
      for (const std::vector<std::size_t>& list : of_part_.at(part))
        for (const std::size_t i : list) count += its[i] ? trials(i).hits : 0;
      return count;
    };
    return shared(b) > shared(a) ? b : a;
  }

  std::optional<Part> nics_with(const Part& nic) const {
    for (const auto& [nics, records] : of_part_)
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
    // The same among the other explanations: the likeliest of the NICs stands alone only if it is much likelier.
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

  std::span<const TransferRecord> observations_;
  Fault fault_;
  std::set<Part> known_;  // have another fault
  bool has_gpus_ = true;
  std::vector<std::vector<int>> node_sets_;  // of groups whose rings join node by node
  std::vector<std::size_t> nodes_of_;        // of each observation, its set
  std::map<Part, TransferRecords> of_part_;
  std::set<Part> hardly_slow_;                          // NICs
  std::array<bool, kinds_of_transfers> only_small_{};   // all messages of the kind
  std::array<bool, kinds_of_transfers> spares_nics_{};  // all transfers of the kind
  std::array<double, kinds_of_transfers> healthy_share_{};
  std::vector<double> healthy_;                       // log likelihood of each observation without a fault on its path
  mutable std::vector<std::optional<Gains>> ratios_;  // log_ratios() of each observation that was asked for
  Mask open_;                                         // observations without an explanation so far
};

}  // namespace

std::vector<FaultyPart> localize(std::span<const TransferRecord> observations, const Paths& paths, Fault fault,
                                 double least_log_odds, const std::set<Part>& known) {
  return Localizer(observations, paths, fault, known).run(least_log_odds);
}

}  // namespace p5::reports
