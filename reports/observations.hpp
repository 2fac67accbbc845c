// Fault localization: the transfers of a run as evidence about its parts, and the smallest set of faulty parts that
// explains which transfers were slow, silent or wrong.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports {

// Location of a rank: its node, and its index among the ranks there, both from 0.
struct RankLocation {
  int node = 0, number = 0;
  auto operator<=>(const RankLocation&) const = default;
};
std::vector<RankLocation> places_of(const topo::Topology& topology);

// Numbers NICs as --fault does: the fabric's NICs in the host's order, then NICs that only ranks reported.
class NicNumbers {
 public:
  explicit NicNumbers(const topo::Topology& topology);
  static constexpr int lacking = -1;
  // NICs that the rank can address one by one, `lacking` for one that its host lacks; empty if the rank was not
  // queried.
  const std::vector<int>& of(RankLocation rank) const;
  // NICs near the rank's GPU, as its library uses them; empty if unknown. With fewer ranks than GPUs on a host, of()
  // has NICs of other GPUs too.
  std::vector<int> near(RankLocation rank) const;
  // True if a rank of the node has no other NIC near its GPU.
  bool is_only_one(int node, int number) const { return only_ones_.contains({node, number}); }
  // Device name; "" if unknown.
  std::string name(int node, int number) const;

 private:
  std::vector<int> numbers_of(const topo::Gpu* gpu, int node) const;

  const topo::Topology& topology_;
  std::map<int, std::vector<std::string>> names_of_;
  std::map<RankLocation, std::vector<int>> of_rank_, near_;
  std::set<std::pair<int, int>> only_ones_;
};

// Kinds of transfers by the parts they use. Times are compared within a kind only.
enum class Transfers {
  within_node,    // a pair of GPUs of one node
  within_domain,  // a pair of GPUs of two nodes in one NVLink domain
  between_nodes,  // a pair of ranks of two nodes in different domains, over all NICs that the library uses
  all_rails,      // between_nodes while every rank is busy, if rounds of pairs leave ranks idle
  single_nic,     // a pair of ranks of two nodes over one NIC each
  node_group,     // a collective of all ranks of one node
  node_half,      // a collective of half of the ranks of one node or domain
  rail_group,     // a collective of the i-th ranks of all nodes or domains
  node_subset,    // a collective of all ranks of some nodes or domains
  domain_group,   // a collective of all ranks of one domain of several nodes
};
inline constexpr std::size_t kinds_of_transfers = 10;

// Samples that were slow, or rounds that were silent or wrong (`hits`), out of `count`.
struct SampleCounts {
  int count = 0, hits = 0;
  SampleCounts& operator+=(const SampleCounts& its) {
    count += its.count, hits += its.hits;
    return *this;
  }
  double share() const { return count == 0 ? 0 : static_cast<double>(hits) / count; }
};

constexpr bool is_of_pairs(Transfers kind) {
  return kind == Transfers::within_node || kind == Transfers::within_domain || kind == Transfers::between_nodes ||
         kind == Transfers::all_rails || kind == Transfers::single_nic;
}

// nullopt: not evidence about parts, such as a collective of the whole job.
std::optional<Transfers> transfers_of(const Case& c);

struct TimedSample {
  std::uint64_t event = 0;  // samples of a round's groups at the same time are one event
  float ratio = 0;          // its time over the fast time of its class
  bool slow = false;
  bool again = false;                    // of the retest
  bool small = false;                    // of a message that bandwidth hardly matters to
  std::optional<bool> from_second = {};  // one way: true if the second rank sends; both ways: nullopt
};

struct TransferRecord {
  Transfers kind = Transfers::within_node;
  std::vector<RankLocation> ranks;        // pairs: two, ascending
  std::optional<int> nic;                 // single_nic: index among the NICs of its rank
  std::optional<int> other_nic;           // index of the second rank's NIC, where it is another
  bool small = false;                     // groups: no message is large enough to be bound by bandwidth
  bool spares_nics = false;               // groups: other parts limit the operation, so that slower NICs hardly show
  SampleCounts slow, silent, wrong;       // all samples or rounds
  SampleCounts slow_again, silent_again;  // those of the retest
  std::vector<TimedSample> samples = {};

  bool is_pair() const { return is_of_pairs(kind); }
  // Index of the NIC at ranks[end]; single_nic only.
  int nic_at(std::size_t end) const { return end == 1 ? other_nic.value_or(*nic) : *nic; }
};

// Tolerance for the difference between equal parts, relative to the fast time. If samples of fast transfers scatter
// more, the tolerance is three of their standard deviations.
inline constexpr double tolerated_difference = 0.05;
// A faulty part is slower by that much at least, relative.
inline constexpr double gap_of_fault = 0.075;

// Median of the fast transfers among comparable ones. With one slow node of three, two thirds of the pairs are slow.
double middle_of_fast(std::vector<double> times);

// Slow samples are counted at the largest size that was measured for all pairs and is bound by bandwidth: from 64 MiB
// between GPUs, 256 KiB elsewhere, any size for single NICs. Pairs that differ by design are skipped: GPUs of a node
// without NVSwitch that no NVLink joins, ranks that communicate through host memory, pretended nodes. Comparable pairs
// have equal paths: all pairs within nodes, without NVSwitch those joined by equally many NVLinks, all within NVLink
// domains; between nodes pairs with equal distance of their indices modulo the ranks of a node, and from four nodes on
// with equal indices; single NICs of one kind and rate. Silence and wrong data count at all sizes. Slow times do not
// count on hosts whose GPUs other programs used; silence and wrong data do. `again` holds retests of the same
// operations.
std::vector<TransferRecord> observe(const Report& report, const std::vector<Measurement>& again);

// Indices in report.results of the cases whose pairs are compared.
std::vector<std::size_t> cases_of_pairs(const Report& report);

struct Part {
  // nics: all NICs beside one GPU, if the faulty one is unknown. only_nic: the only NIC beside a GPU, which carries all
  // its messages. links: all links between sets of nodes. rail: the i-th ranks of all nodes, without GPUs the i-th
  // NICs. domain: the switches of an NVLink domain of several nodes.
  enum class Kind { node, gpu, nics, nic, only_nic, link, links, rail, domain } kind = Kind::node;
  int node = 0;  // link: the lower one; links, rail: 0; domain: its number
  // gpu: index of its rank on the node; nic: its number on the node; nics: the first one's, or -1 - (index of the GPU)
  // if they are not known; link: the other node; rail: the first GPU or NIC of each node
  int number = 0;
  int last = 0;                             // nics, rail: the last NIC or GPU
  std::vector<std::vector<int>> sets = {};  // links: the nodes of each set, ascending
  auto operator<=>(const Part&) const = default;
};
inline bool is_of_links(const Part& part) { return part.kind == Part::Kind::link || part.kind == Part::Kind::links; }
// In parts for which this is false, Part::node is an end of a link, nothing, or the number of a domain.
inline bool is_in_node(const Part& part) {
  return !is_of_links(part) && part.kind != Part::Kind::rail && part.kind != Part::Kind::domain;
}

// True if two links share a node.
inline bool have_a_common_end(const Part& one, const Part& other) {
  return one.node == other.node || one.node == other.number || one.number == other.node || one.number == other.number;
}
inline bool is_nic(const Part& part) { return part.kind == Part::Kind::nic || part.kind == Part::Kind::nics; }
// True if the second is one of these NICs of a node, or some of them.
inline bool holds(const Part& nics, const Part& nic) {
  return is_nic(nic) && nics.node == nic.node && nics.number <= nic.number &&
         (nic.kind == Part::Kind::nics ? nic.last : nic.number) <= nics.last;
}

enum class Fault { slow, silent, wrong };

struct FaultyPart {
  Part part;
  Fault fault = Fault::slow;
  // Posterior probability of this part against the other single parts and exchanges of two parts that explain the same
  // observations, and against chance.
  double confidence = 0;
  // Other explanations with a probability of 1 % or more, the likeliest first.
  std::vector<std::pair<Part, double>> alternatives = {};
  std::set<Transfers> shows_in = {};
  std::vector<const TransferRecord*> observations =
      {};                // observations in shows_in that use the part and that nothing else explains
  double share = 0;      // fraction of their samples or rounds that are slow, silent or wrong
  bool repeated = true;  // slow or silent again in the retest; true without a retest
};

// The samples by which a slow part was named, and those of them that were repeated.
struct SlowSamples {
  SampleCounts first_and_again, again;

  void add(const TimedSample& sample) {
    const SampleCounts its{1, sample.slow ? 1 : 0};
    first_and_again += its;
    if (sample.again) again += its;
  }
};

// All samples; or, if the part is slow in one direction, those in which it sends or those in which it receives.
struct DirectedSamples {
  SlowSamples samples;
  std::optional<bool> receives;  // nullopt: both directions, or not known
};
DirectedSamples directed_samples_of(const FaultyPart& faulty);

// Slowdown of the fastest sample of each transfer by which a slow part was named, in the direction in which it is slow,
// against the fastest samples of fast ones of the other transfers of these kinds among `all`. A steady fault shows in
// the fastest samples as in the others. Waiting for a processor core makes samples longer, never shorter, and seldom
// all.
double slowdown_of_fastest(const FaultyPart& faulty, std::span<const TransferRecord> all);

// Paths of messages: the NICs that each rank uses.
struct Paths {
  const NicNumbers* nics = nullptr;
  bool gpus = true;      // messages are in GPU memory
  bool own_nics = true;  // messages use the NICs beside their rank; those of MPI processes use any NIC of the host
  std::vector<int> domain_of_node = {};  // NVLink domains; empty: each node is one
  // Sets of two nodes or more, ascending, that may have a fault between them; empty without such sets.
  std::vector<std::vector<int>> sets = {};
};

// Paths::sets by the rates of slow (silent, wrong) samples of pairs of nodes: of all partitions on the way of joining
// the sets with the lowest rate between them (average linkage), from single nodes and from NVLink domains, the
// likeliest with one rate between sets and a lower one within them. Each kind of transfers has its own rates. A node
// that is fast with all others, or was not measured with another set, is in none. `domain_of_node`: as in Paths.
std::vector<std::vector<int>> sets_of_nodes(std::span<const TransferRecord> observations,
                                            SampleCounts TransferRecord::*trials,
                                            const std::vector<int>& domain_of_node);

// `usual` faults show in pairs and perhaps in collectives; `at_scale` faults in collectives only.
enum class Mode { usual, at_scale };

// Probability that a faulty part shows in transfers of a kind; nullopt: such transfers do not use such parts.
std::optional<double> show_probability(Part::Kind part, Mode mode, Transfers kind);

// The rail of a rank. GPUs that share NICs belong to one rail.
Part rail_of(RankLocation rank, const Paths& paths);

// Parts that a transfer may use, ascending.
std::vector<Part> parts_on(const TransferRecord& transfer, const Paths& paths);

// Nodes of a transfer, ascending.
std::vector<int> nodes_of(const TransferRecord& transfer);

// True if this is the link of two nodes, or the links between sets and the nodes are of different ones.
bool joins_nodes(const Part& links, int one, int other);

// Probability that no transfer of these nodes uses the part. Rings, such as those of an all-gather, join nodes in the
// order of their ranks, so that a link, or what joins sets of nodes, is used if it joins neighbours in this order;
// another order, or a tree, is possible. Two nodes of different sets seldom have a route that avoids what joins the
// sets: one fast pair of nodes counts about as much as one faulty link more.
double bypass_probability(const Part& part, const std::vector<int>& nodes);

// Natural logarithm of the posterior odds from which a part is returned.
inline constexpr double accepted_log_odds = 6, doubtful_log_odds = -4;

// Faulty parts, the one that explains most first. `least_log_odds` is accepted_log_odds to name parts and
// doubtful_log_odds to choose retests. `known` are parts that have another fault, which makes this one likelier.
// Pointers in the result refer to `observations`.
std::vector<FaultyPart> localize(std::span<const TransferRecord> observations, const Paths& paths, Fault fault,
                                 double least_log_odds, const std::set<Part>& known = {});

}  // namespace p5::reports
