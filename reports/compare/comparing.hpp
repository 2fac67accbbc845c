// The steps of compare(): cases of both sides are paired, pairs become rows by band, rows become figures, and all of it
// a conclusion.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/measure/effect.hpp"
#include "reports/compare/comparison.hpp"

namespace p5::reports {

// Identity of a case within its own side, without arm and settings.
std::string side_key(const Case& c);

// Differences between the sides, hardware first. A fact that one side does not know is no difference.
std::vector<Difference> differences_of(std::span<const Report> base, std::span<const Report> fresh);

// Hardware in which the sides are not of one machine, as "nodes: 3 and 4": what it is, whatever its state, so that a
// NIC that is down or an NVLink that is not active is no difference. GPUs, NVLinks and NICs of a run that found its
// machine faulty do not count. "" if there is none.
std::string other_hardware(std::span<const Report> base, std::span<const Report> fresh,
                           std::string_view between = " and ");

// The reason for which figures of two runs are of other quantities: nccl-tests waited for each operation (-z) in one of
// them only. "" if they are not, or one does not say it.
std::string other_waiting(const Report& base, const Report& fresh);

// Order of rows: regressions first, the largest at the top, then inconclusive rows.
bool precedes(const BandRow& one, const BandRow& other);
// The collective of a row, with the sizes of a row of its own: "all_reduce (1 GiB, 2 GiB)".
std::string shown_name(const BandRow& row);
// A suspect as "NIC n1r5".
std::string text_of(const Suspect& suspect);
// Sets answer, exit code and headline from all other members.
void conclude(Comparison& comparison);

// A case and quantity measured on both sides.
struct Pair {
  const Observation* base = nullptr;
  const Observation* fresh = nullptr;
  Quantity quantity = Quantity::throughput;
  Sides sides() const;
};

// A row to judge: the sizes of one band that were measured in the same launches, which can be resampled together.
struct BandPairs {
  std::string collective;
  Quantity quantity = Quantity::throughput;
  const BandRule* band = nullptr;
  std::vector<std::size_t> pairs;
  bool apart = false;  // the band has a row of more sizes, which other launches measured
};

struct Matched {
  bool in_common = false;  // both sides planned some case
  // BASE's case of each case of NEW that has one.
  std::unordered_map<const Observation*, const Observation*> base_of;
  std::size_t ambiguous = 0;  // cases of NEW without a pair, for which a side has several in other backends or on other
                              // numbers of ranks or nodes
  std::vector<std::pair<const Observation*, const Observation*>> both;
  std::vector<std::string> only_in_base, only_in_new;  // measured there alone
  // Cases of BASE that NEW skipped, and those that failed there and that NEW measured.
  std::vector<const Observation*> skipped_in_new, failed_in_base;
};

// Row of a case. Reduction operations and types share a row because they move the same bytes; other variants have their
// own.
std::string label_of(const Case& c);

// Names of rows: label_of(), with ranks and nodes where a side has cases of that label on several, as an import of
// several jobs has. A case's row is that of its own job.
class RowLabels {
 public:
  RowLabels(const Side& base, const Side& fresh);
  // Labels of a history: its last run is compared with those before it.
  RowLabels(std::span<const Run> runs, std::string_view arm);
  std::string of(const Case& c) const;

 private:
  using Jobs = std::map<std::string, std::pair<int, int>>;  // ranks and nodes, by label
  void add(const Case& c, Jobs& jobs);

  std::set<std::string> several_;  // labels
};

// Identity of a case between the sides. With `across_hardware` it ignores backend, ranks and nodes.
std::string identity_of(const Case& c, bool across_hardware = false);

// True if a case was planned and skipped in all runs of the side.
bool is_skipped(const Observation& each);
// Pairs the same cases. With `across_hardware` also those that differ in backend, ranks and nodes, if each side has one
// of them only.
Matched match(const Side& base, const Side& fresh, bool across_hardware);
// True if the quantity decides a row. The throughput of small messages depends more on the launching host than on the
// network; if their latency was measured too, their throughput appears only in the map of sizes.
bool decides(const Observation& observation, Quantity quantity);

// Sorted by size.
std::vector<Pair> pairs_of(const Matched& matched);
// Names of the rows of these cases of BASE that are in no pair.
std::vector<std::string> rows_without_pairs(const std::vector<const Observation*>& of_base,
                                            const std::vector<Pair>& pairs, const RowLabels& labels);
// "p2p one_way >= 64 MiB"
std::string name_of_row(std::string_view label, std::string_view band);
std::vector<BandPairs> make_rows(const std::vector<Pair>& pairs, const RowLabels& labels);

class BandJudge {
 public:
  // The pairs must outlive the object; `rows` is the number of rows to judge.
  BandJudge(const std::vector<Pair>& pairs, std::size_t rows, std::uint64_t seed)
      : pairs_(pairs), seed_(seed), judge_(rows, seed), sizes_(pairs.size()) {}

  // All members except the answer and the adjusted p.
  BandRow judge(const BandPairs& row);
  // Effect of a pair whose row was judged.
  const Effect& size(std::size_t pair) const { return sizes_[pair]; }

 private:
  std::vector<Sides> sides_of(const std::vector<std::size_t>& pairs) const;
  void judge_mean(const std::vector<Sides>& sizes, const BandRule& band, std::uint64_t salt, BandRow& out);
  void judge_spread(const std::vector<Sides>& sizes, BandRow& out);

  const std::vector<Pair>& pairs_;
  std::uint64_t seed_;
  EffectJudge judge_;
  std::vector<Effect> sizes_;
};

}  // namespace p5::reports
