// Finds the smallest set of faulty parts that explains which transfers were slow, silent or wrong: Bayesian fault
// localization over observations, with a prior for each kind of part. Plain values in and out.
#pragma once

#include <set>
#include <span>
#include <utility>
#include <vector>

#include "reports/observations.hpp"

namespace p5::reports {

struct Part {
  // nics: the NICs beside one GPU together, where it is not known which of them. only_nic: the one that a GPU has
  // beside it, which all its messages pass. rail: the i-th ranks of all nodes.
  enum class Kind { node, gpu, nics, nic, only_nic, link, rail } kind = Kind::node;
  int node = 0;  // link: the lower one; rail: 0
  int number =
      0;         // gpu: of the rank on its node; nic, nics: of the (first) NIC of the node; link: the other node; rail
  int last = 0;  // nics: number of the last NIC
  auto operator<=>(const Part&) const = default;
};

enum class Fault { slow, silent, wrong };

struct FaultyPart {
  Part part;
  Fault fault = Fault::slow;
  // Posterior probability that it is this part, against each other single part that explains the same observations and
  // against chance.
  double confidence = 0;
  // Other parts that explain the same, each with its probability of 1 % or more; the likeliest first.
  std::vector<std::pair<Part, double>> alternatives = {};
  std::set<Transfers> shows_in = {};
  std::vector<const TransferRecord*> observations =
      {};                // those of shows_in that pass the part and nothing else explains
  double share = 0;      // of their samples or rounds that are slow, silent or wrong
  bool repeated = true;  // slow again in what was measured again; true where nothing of it was
};

// Parts whose messages share nothing with others: which NICs a rank uses.
struct Paths {
  const NicNumbers* nics = nullptr;
  bool gpus = true;  // whether messages come from GPUs
  bool own_nics =
      true;  // a rank's messages go through NICs beside it; those of MPI processes go through any of the host
};

// Posterior odds in favour of a part, as their natural logarithm, from which on it is returned.
inline constexpr double accepted_log_odds = 6, doubtful_log_odds = -4;

// Faulty parts, the one that explains most first. `least_log_odds`: accepted_log_odds to name parts, doubtful_log_odds
// for what is worth measuring again. The pointers in the result are into `observations`.
std::vector<FaultyPart> localize(std::span<const TransferRecord> observations, const Paths& paths, Fault fault,
                                 double least_log_odds);

}  // namespace p5::reports
