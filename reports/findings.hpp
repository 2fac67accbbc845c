// Findings from the figures of a run: slow launches, and bandwidth below published figures.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/measure/launches.hpp"
#include "reports/report.hpp"
#include "topo/finding.hpp"
#include "topo/platform.hpp"

namespace p5::reports {

inline constexpr std::string_view slow_launch_id = "run.slow_launch";

// A warning for each launch in which a case exceeds the median of its launches by twice the threshold of its band
// (thresholds.json) and by 6 robust standard deviations of the launches; lists the cases, worst first. Each case is of
// one arm. `started` maps arm and launch to the UTC start, where known. Cases with fewer than 5 launches are skipped.
std::vector<topo::Finding> slow_launches(const std::vector<const CombinedLaunches*>& cases,
                                         const std::map<std::pair<std::string, int>, std::string>& started);

inline constexpr std::string_view cores_busy_id = "host.cores_busy";

inline constexpr double tolerated_waiting = 0.1;

// `shares`: of each rank, as Backend::share_of_waiting().
WaitingOfNode waiting_of_nodes(const topo::Topology& topology, const std::vector<std::optional<double>>& shares);

// Nodes with a larger share than tolerated_waiting.
std::set<int> busy_nodes(const WaitingOfNode& waiting);

// A warning for each host with a rank whose process waited for processor cores for more than tolerated_waiting: its
// parts look slow then.
std::vector<topo::Finding> busy_cores(const topo::Topology& topology, const std::vector<std::optional<double>>& shares);

// Makes errors of those of nodes where waiting explains what looks slow, and adds what that is: names of parts, and
// "3 measurements".
void explain_slow_parts(std::vector<topo::Finding>& busy_cores, const topo::Topology& topology,
                        const std::map<int, std::vector<std::string>>& slow_while_waiting);

// True if NCCL may have reduced a case in the switches of this platform, where its choice is not known: all_reduce on
// fewer than four NVLink domains, of a type and an operation that NVLS has.
bool may_reduce_in_switch(const topo::Platform& platform, const Case& c);

inline constexpr std::string_view below_published_id = "speed.below_published";

// A published figure (with its size) as if `share` of it had been measured, and its verdict. An unknown algorithm is
// assumed to be NVLS where that is possible.
std::pair<Measurement, Verdict> as_measured(const topo::Platform& platform, const topo::Published& figure,
                                            double share = 1);

// A warning if the largest bandwidth of a collective is well below published figures of such machines although nothing
// is slow; nothing if something is slow or suspected.
std::vector<topo::Finding> below_published(const Report& report);

// Kinds of all findings of reports, for `list findings`.
std::vector<topo::FindingKind> finding_kinds();

}  // namespace p5::reports
