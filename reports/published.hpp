// What others have published of healthy machines, beside what a run measured.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "reports/report.hpp"
#include "topo/finding.hpp"
#include "topo/platform.hpp"

namespace p5::reports {

inline constexpr std::string_view below_published_id = "speed.below_published";

// A published figure (with its size) as if this share of it had been measured, with the verdict on that. Where the
// algorithm is not told, NVLS is taken for it on fewer than four nodes that have it.
std::pair<Measurement, Verdict> as_measured(const topo::Platform& platform, const topo::Published& figure,
                                            double share = 1);

// One warning where the largest bandwidth of a collective lies well below what is published of such machines, though
// none is slow; nothing where something is slow or suspected.
std::vector<topo::Finding> below_published(const Report& report);

// For `list findings`.
std::vector<topo::FindingKind> published_finding_kinds();

}  // namespace p5::reports
