#include "bench/model/expected.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "bench/model/tokens.hpp"

namespace p5 {

namespace {

template <class T>
std::string as_text(T value) {
  if constexpr (is_small_float<T>)
    return fmt::format("{}", static_cast<float>(value));
  else
    return fmt::format("{}", value);
}

// Expected value of output element `i` of a segment and those that are added to it.
template <class T>
T expected_element(std::span<const Segment> segments, const Pattern& pattern, std::uint64_t i) {
  const Segment& first = segments.front();
  if (first.source == Segment::reduced) return reduced_element<T>(pattern, first.source_offset + i);
  T sum = input_element<T>(pattern, first.source, first.source_offset + i);
  for (const Segment& each : segments.subspan(1))
    sum = pattern::added(sum, input_element<T>(pattern, each.source, each.source_offset + i));
  return sum;
}

// Calls visit(segments, i, position in data) for each element of a window that the collective writes.
template <class Visitor>
void for_each_expected_element(const Case& c, const RankInGroup& place, std::uint64_t first, std::uint64_t count,
                               Visitor&& visit) {
  const std::vector<Segment> all = c.collective->result(c.shape, place.member, c.pattern);
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    for (end = begin + 1; end < all.size() && all[end].added;) ++end;
    const std::span<const Segment> segments(all.data() + begin, end - begin);
    const Segment& segment = segments.front();
    const std::uint64_t from = std::max(first, segment.output_offset);
    const std::uint64_t to = std::min(first + count, segment.output_offset + segment.elements);
    for (std::uint64_t at = from; at < to; ++at) visit(segments, at - segment.output_offset, at - first);
  }
}

}  // namespace

std::optional<RankInGroup> rank_in_group(const Round& round, int rank, int root) {
  for (const Group& group : round) {
    const auto found = std::ranges::find(group, rank);
    if (found == group.end()) continue;
    return RankInGroup{group, Member{static_cast<int>(found - group.begin()), static_cast<int>(group.size()), root}};
  }
  return std::nullopt;
}

void write_expected(const Case& c, const RankInGroup& place, const Pattern& pattern, std::byte* data,
                    std::uint64_t first, std::uint64_t count) {
  with_type(c.type, [&]<class T>() {
    for_each_expected_element(c, place, first, count,
                              [&](std::span<const Segment> segments, std::uint64_t i, std::uint64_t at) {
                                reinterpret_cast<T*>(data)[at] = expected_element<T>(segments, pattern, i);
                              });
  });
}

void check_output(const Case& c, const RankInGroup& place, const Pattern& pattern, const std::byte* data,
                  std::uint64_t first, std::uint64_t count, Verification& v) {
  with_type(c.type, [&]<class T>() {
    for_each_expected_element(c, place, first, count,
                              [&](std::span<const Segment> segments, std::uint64_t i, std::uint64_t at) {
                                const T wanted = expected_element<T>(segments, pattern, i);
                                const T got = reinterpret_cast<const T*>(data)[at];
                                if (distance_in_units(wanted, got) <= tolerance<T>(pattern)) return;
                                ++v.wrong_elements;
                                if (v.first) return;
                                v.first = WrongElement{.rank = place.group[static_cast<std::size_t>(place.member.rank)],
                                                       .offset = first + at,
                                                       .wanted = as_text(wanted),
                                                       .got = as_text(got)};
                              });
  });
}

Pattern pattern_for(const Case& c, const RankInGroup& place, int round, int slot, std::uint64_t fill) {
  std::uint64_t seed = pattern::hash(c.bytes.count, static_cast<std::uint64_t>(c.type), fill);
  seed = pattern::hash(seed, static_cast<std::uint64_t>(place.group.front()), static_cast<std::uint64_t>(round));
  seed = pattern::hash(seed, static_cast<std::uint64_t>(slot), 0);
  return {.seed = seed,
          .ranks = place.member.ranks,
          .reduces = c.collective->reduces,
          .op = c.op.value_or(ReduceOp::sum),
          .terms = most_terms(*c.collective, c.shape)};
}

}  // namespace p5
