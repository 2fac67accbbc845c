// Expected outputs of a case at each rank: the segments of its collective, filled from the pattern of its inputs. Host
// code; device code uses the same functions of pattern.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"
#include "bench/model/pattern.hpp"

namespace p5 {

// A rank's group in a round and its place there; null when the rank is idle.
struct RankInGroup {
  Group group;
  Member member;
};
std::optional<RankInGroup> rank_in_group(const Round& round, int rank, int root);

// Writes the expected elements [first, first + count) of a rank's output to `data`, which starts at element `first`.
// Elements that the collective does not write at this rank are unchanged.
void write_expected(const Case& c, const RankInGroup& place, const Pattern& pattern, std::byte* data,
                    std::uint64_t first, std::uint64_t count);
// Compares the same elements and adds the wrong ones to `v`.
void check_output(const Case& c, const RankInGroup& place, const Pattern& pattern, const std::byte* data,
                  std::uint64_t first, std::uint64_t count, Verification& v);

// Pattern of slot `slot` of a group's buffers, the same on all its ranks; `fill` counts the fills.
Pattern pattern_for(const Case& c, const RankInGroup& place, int round, int slot, std::uint64_t fill);

}  // namespace p5
