// Verdicts: a measurement compared with the limits of its machine, and with the fraction of them that healthy machines
// reach. A measurement without a limit, or without a bar or floor for it, is `unknown`.
#pragma once

#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bench/base/route.hpp"
#include "bench/base/units.hpp"
#include "reports/report.hpp"
#include "topo/limits.hpp"
#include "topo/topology.hpp"

namespace p5::reports {

// `comparable` is false when all figures are unfit for judging (ranks share cores); `why_not` is the reason.
struct Comparability {
  bool comparable = true;
  std::string why_not = {};
  // Numbers of the hosts whose GPUs other programs use too (`why_not`): groups with a rank there are not judged.
  std::set<int> shared_hosts = {};
};

Verdict judge(const Measurement& m, const topo::Limits& limits, const topo::Topology& topology,
              const Comparability& comparability);

// True where other programs used GPUs of the host, so that its groups were not judged.
bool is_not_judged_on(const Verdict& verdict, std::string_view host);
// True for a group with a rank on such a host.
bool is_not_judged(const Group& group, const Result& result, const Report& report);
// "76 %"; with as many decimals as tell the share from the other, with which a text compares it: "75.8 %" beside 0.76.
std::string percent_beside(double share, const std::optional<double>& other);

// True for a finding of wrong data.
bool tells_wrong_data(const topo::Finding& finding);

// True if its figures stand in reports: it was measured, or has wrong data. With several launches a case with wrong
// data may have failed in another one.
bool has_figures_to_show(const Measurement& m);

// True for a backend that moves data between GPUs.
bool uses_gpus(const Case& c);

// The index of the rank's host; null where the topology has none.
std::optional<std::size_t> host_of(const topo::Topology& topology, int rank);
// "rank 3 on HOST", without the host if it is unknown.
std::string name_of_rank(const topo::Topology& topology, int rank);

// Sets `ok` to `unknown` in measurements with fewer pairs than others of the same kind: being fast does not cover the
// pairs that were skipped.
void withdraw_sampled_pairs(std::vector<Result>& results);

// Sets `slow` to `unknown` where a rank of the slowest group is on one of these nodes, whose ranks waited for processor
// cores, and the fastest sample is not slow, unless other groups are slow too: the slowest without such ranks, or one
// with such ranks in its fastest sample. Returns the number of these measurements for each such node of their slowest
// groups (for all nodes where the group is unknown).
std::map<int, std::size_t> withdraw_slow_by_waiting(Report& report, const std::set<int>& nodes);

// True if a part is known to be at fault, even in unfinished runs.
bool is_at_fault(const Report& report);

// Failures of NCCL's own settings in a tuning, which say as much of the machine as failed measurements, by wrong data
// or otherwise. Failures of a setting that was tried are that setting's.
std::vector<const TuningFailure*> failures_of_default(const Report& report, bool wrong_data);

// Grade of the run, the first that applies: wrong, failed (both also of NCCL's own settings in a tuning), faulty (an
// error about hardware or fabric), slow (also with a suspect or an open question), ok; unknown when nothing was judged.
Grade overall(const Report& report);

// Exit code for a report whose plan was completed. With `wants_verdict` a run in which nothing was measured, or
// nothing could be judged on GPUs, ends with inconclusive.
ExitCode exit_code(const Report& report, bool wants_verdict = false);

// Bar: the fraction of a limit from which a measurement is `ok`. An empty list matches everything.
struct Bar {
  std::string binding, level, because;
  std::vector<std::string> collectives, gpus, platforms;
  int fewest_nodes = 1, most_nodes = std::numeric_limits<int>::max();
  int ranks = 1;  // at least
  Bytes from;
  double ok_from = 0;
};

// Floor: the lowest fraction of the achievable limit among published healthy machines, with a margin. It holds for
// every machine, but for exchanges only up to twice the ranks that were measured, since their blocks get smaller.
struct Floor {
  std::vector<Route> routes;
  int fewest_nodes = 1, most_nodes = 1;
  int ranks = 2;  // at least
  int most_ranks = std::numeric_limits<int>::max();
  Bytes from;
  double share = 0;
  // Basis of `share`: the lowest of `figures` figures from `platforms` platforms; `of` names that figure.
  double lowest = 0;
  int figures = 0, platforms = 0;
  std::string of;
};

const std::vector<Floor>& all_floors();

// Bytes that one rank moves of a message.
Bytes bytes_of_rank(const Case& c);
// A case whose pairs run one at a time.
bool is_alone(const Case& c);
// Most ranks of a host that use its NICs at the same time, or of a host in a domain where a group has `per_domain`; of
// pairs, the ranks of the host. Null if that is unknown, or nothing leaves an NVLink domain.
std::optional<int> ranks_at_once(const Case& c, const topo::Topology& topology, std::optional<int> per_domain = {});
// Limit of the operation, which is that of the case: the lowest of those by the ranks of each NVLink domain that may
// bind it. Null if one is unknown.
std::optional<topo::Limit> limit_over_domains(const Case& c, const topo::Topology& topology, const topo::Operation& op,
                                              const topo::Limits& limits, topo::Level level);

// Bars that match the case at any size, ascending by their smallest size.
std::vector<const Bar*> find_bars(const Case& c, const topo::Topology& topology);
// Floor that matches the case, or null. Floors cover groups, not single pairs; between nodes they cover whole nodes of
// known platforms.
const Floor* find_floor(const Case& c, const topo::Topology& topology);
// Lowest published fraction that converts a limit of this level and binding part into an achievable one; 0 if unknown.
double achievable_fraction(const topo::Limit& limit);

}  // namespace p5::reports
