// Facts of a report from which the reason and the steps of a decision are made.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reports/report.hpp"

namespace p5::reports::decision {

// ---- results

inline bool was_measured(const Result& result) { return result.measurement.outcome == Outcome::measured; }

template <class Test>
std::size_t count_results(const Report& report, Test test) {
  return static_cast<std::size_t>(std::ranges::count_if(report.results, test));
}

std::size_t count_of(const Report& report, Grade grade);

bool is_pairwise(const Result& result);

// Only pairs tell a single GPU from the others of its node.
bool pairs_within_nodes_measured(const Report& report);

double judged_fraction(const Result& result);

// The slow measurement with the lowest fraction of its limit; of those on at most so many nodes.
const Result* slowest(const Report& report, int most_nodes = std::numeric_limits<int>::max());

// True if a failure names a rank. An end by a signal or by a full disk names none.
bool names_a_rank(const Report& report);

// True if the budget left out as much as was measured, or more.
bool most_lacked_time(const Report& report);

bool tuned_nothing(const Report& report);

// True if the run is rejected by a comparison with its baseline alone, which names no part and no host.
bool is_slower_than_baseline(const Report& report);

// True if a comparison with a baseline has no answer.
bool may_be_slower_than_baseline(const Report& report);

// ---- who is at fault

// Hosts that are slow by themselves, but for those against which there is a reason of their own.
std::set<std::string> rejected_as_slow_alone(const Report& report);

bool is_slow_gpu(const topo::Finding& finding);

// Cases of comparable pairs between nodes. Single NICs are left out: their short messages do not reach their limit.
std::vector<const Result*> pairs_between_nodes(const Report& report);

// Lowest fraction of its limit that pairs between nodes reach, among those that are compared with each other.
std::optional<double> fraction_of_pairs(const Report& report);

// Where even the fastest of the pairs between nodes that use no named part is slow: the fraction of its limit that it
// reaches. Named parts do not explain that.
std::optional<double> fraction_of_other_pairs(const Report& report);

// True if the run is slow, no part stands out, and the pairs between nodes show that all nodes are alike. What is
// measured of the whole job says nothing of its nodes: one slow part is enough to slow all of it.
bool all_are_slow(const Report& report);

// True if the slowest case is a collective and falls short of its limit by more than twice as much as the pairs do.
bool only_collectives_are_slow(const Report& report, const Result& worst);

// Errors of software, settings and host setup, which do not change the decision but have to be fixed. Where no
// rank ever joined, failures to join are left out, because about_joining() reports them.
std::vector<topo::Finding> errors_to_fix(const Report& report);

// The errors among these of rejected hosts that not all hosts of the job have: such an error may be why the host is
// slow although none of its parts is faulty. All of these where no host and no part is rejected and no arms are
// compared: each may be why all are slow.
std::vector<topo::Finding> errors_of_rejected(const Report& report);

// ---- words

inline constexpr std::size_t most_named = 3;

// The first names and the number of the others.
std::string shortened(const std::vector<std::string>& names);

void add_step(std::vector<std::string>& list, const std::string& text);

// ---- the parts of a decision

// The failures that no silent or corrupting part explains; "" if there are none. A slow part explains none.
std::string about_unexplained_failures(const Report& report);

// Why the decision is what it is, in a few clauses.
std::string reason_for(const Report& report, std::string_view word);

// The steps to take, the first first.
std::vector<std::string> steps(const Report& report, std::string_view word);

}  // namespace p5::reports::decision
