// What has to come out of a case at each rank: the segments of its collective filled in from the pattern of its inputs.
// On the host; device code uses the same functions of pattern.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"
#include "bench/model/pattern.hpp"

namespace p5 {

// Where a rank stands in its group of a round; none when it pauses.
struct RankInGroup {
  Group group;
  Member member;
};
std::optional<RankInGroup> rank_in_group(const Round& round, int rank, int root);

// Writes what has to be in elements [first, first + count) of a rank's output to `data`, whose start is element
// `first`. Elements that the collective does not write at this rank are left alone.
void write_expected(const Case& c, const RankInGroup& place, const Pattern& pattern, std::byte* data,
                    std::uint64_t first, std::uint64_t count);
// Compares the same elements; adds what is wrong to `v`.
void check_output(const Case& c, const RankInGroup& place, const Pattern& pattern, const std::byte* data,
                  std::uint64_t first, std::uint64_t count, Verification& v);

// What fills slot `slot` of a group's buffers, alike in all its ranks; `fill` counts the fills.
Pattern pattern_for(const Case& c, const RankInGroup& place, int round, int slot, std::uint64_t fill);

}  // namespace p5
