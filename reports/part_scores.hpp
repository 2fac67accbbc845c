// The evidence that each part is faulty: log odds over the transfers that use it.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "reports/observations.hpp"

namespace p5::reports {

// For each TransferRecord of a run, true as long as no part that was found explains it.
using OpenTransfers = std::vector<char>;
// Indices of TransferRecords by their kind.
using TransfersOfPart = std::array<std::vector<std::size_t>, kinds_of_transfers>;

struct Score {
  double log_odds = 0;  // natural logarithm of the posterior odds of "this part is faulty" to "nothing is"
  std::set<Transfers> shows_in;
};

struct ScoredPart {
  Part part;
  Score score;
};

// Prior probability that a part is faulty.
inline constexpr double prior_of_fault = 1e-3;

class PartScores {
 public:
  using HealthyRates = std::array<double, kinds_of_transfers>;

  PartScores(std::span<const TransferRecord> records, const Paths& paths, Fault fault, const std::set<Part>& known);

  std::span<const TransferRecord> records() const { return records_; }
  Fault fault() const { return fault_; }
  const SampleCounts& trials(std::size_t i) const { return records_[i].*channel(); }
  SampleCounts trials_of_retest(std::size_t i) const;
  // Parts that transfers use, with these transfers.
  const std::map<Part, TransfersOfPart>& parts() const { return of_part_; }
  // Leaves a part out of all later scores.
  void forget(const Part& part) { of_part_.erase(part); }

  // Two estimates of the hit rates of healthy transfers, by kind; neither is below one slow sample in a hundred. The
  // first takes the open transfers that are slow in less than half of their samples. The second takes the tenth of all
  // transfers with the lowest rates, and all others whose hits are likely at the same rate. The rates of other faults
  // than slowness are fixed.
  HealthyRates rates_if_seldom_slow(const OpenTransfers& open) const;
  HealthyRates rates_if_slow_alike() const;
  // Rates by which parts are scored from now on.
  void set_healthy_rates(const HealthyRates& rates);
  const HealthyRates& healthy_rates() const { return healthy_share_; }
  // Logarithm of the posterior probability of these parts and of the rates, up to a constant.
  double log_probability(std::span<const ScoredPart> found) const;

  // Score at the most likely rate of hits.
  Score score(const Part& part, const OpenTransfers& open) const;
  // Log odds that a link between nodes is faulty, at the most likely rate of its events, each of which `events` counts
  // once.
  double log_odds_of_events(const SampleCounts& events) const;

  // Marks the transfers that the part explains: those in which it shows; for a node all that use it, because its own
  // parts cannot be distinguished.
  void explain(const ScoredPart& found, OpenTransfers& open) const;
  // Transfers that all of `found` but one part leave unexplained.
  OpenTransfers left_by_others(std::span<const ScoredPart> found, const Part& excluded) const;
  // True if an open transfer of the part has a hit; parts without one cannot be faulty.
  bool has_hits(const TransfersOfPart& its, const OpenTransfers& open) const;
  // Probability that the transfer does not use the link, or what joins sets of nodes.
  double bypass(const Part& part, std::size_t i) const { return bypass_probability(part, node_sets_[nodes_of_[i]]); }
  // True if the part's open transfers are not the same in both.
  bool differ_for(const Part& part, const OpenTransfers& one, const OpenTransfers& other) const;

 private:
  static constexpr std::array hit_rates{0.04, 0.06, 0.09, 0.14, 0.2,  0.3,  0.4,  0.5,
                                        0.6,  0.7,  0.8,  0.9,  0.96, 0.99, 0.999};
  using Gains = std::array<double, hit_rates.size()>;

  SampleCounts TransferRecord::*channel() const;
  void find_hardly_slow_nics();
  double outlier_probability(std::size_t i) const;
  template <class Rate>
  HealthyRates rates(const Rate& of_slow) const;
  double rate_if_seldom_slow(std::size_t kind, const OpenTransfers& open) const;
  double rate_if_slow_alike(std::size_t kind) const;
  template <class Likelihood>
  double over_independent_events(std::size_t i, const Likelihood& of) const;
  double log_healthy(std::size_t i) const;
  double log_faulty(std::size_t i, double rate) const;
  double healthy_share(std::size_t i) const { return healthy_share_[static_cast<std::size_t>(records_[i].kind)]; }
  Gains gains(const Part& part, const std::vector<std::size_t>& list, const OpenTransfers& open, double healthy) const;
  Gains log_ratios(const Part& part, const std::vector<std::size_t>& list, const OpenTransfers& open) const;
  const Gains& log_ratios(std::size_t i) const;
  double probability_to_show(const Part& part, Mode mode, std::size_t kind) const;
  double log_prior_of(const Part& part) const;

  std::span<const TransferRecord> records_;
  Fault fault_;
  std::set<Part> known_;  // parts that have another fault
  bool has_gpus_ = true;
  std::size_t nodes_ = 0;                    // of all transfers
  std::vector<std::vector<int>> node_sets_;  // the nodes of pairs, and of groups whose rings go from node to node
  std::vector<std::size_t> nodes_of_;        // index in node_sets_, for each transfer
  std::map<Part, TransfersOfPart> of_part_;
  std::set<Part> hardly_slow_;                          // NICs that hardly slow groups of nodes down
  std::array<bool, kinds_of_transfers> only_small_{};   // true: all messages of the kind are small
  std::array<bool, kinds_of_transfers> spares_nics_{};  // true: all transfers of the kind spare NICs
  HealthyRates healthy_share_{};
  std::vector<double> healthy_;                       // log likelihood of each transfer without a fault on its path
  mutable std::vector<std::optional<Gains>> ratios_;  // results of log_ratios() for transfers, kept
};

}  // namespace p5::reports
