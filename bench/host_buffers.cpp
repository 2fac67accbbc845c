#include "bench/host_buffers.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "bench/error.hpp"

namespace p5 {

namespace {

// Before and behind each buffer; as large as the alignment, so that the buffer itself stays aligned.
constexpr std::size_t guard_bytes = 4096;
constexpr std::byte guard_value{0xdb};
constexpr std::byte poison_value{0xa5};

std::size_t rounded_up(std::size_t bytes) { return (bytes + guard_bytes - 1) / guard_bytes * guard_bytes; }

template <class T>
std::string as_text(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>)
    return fmt::format("{}", static_cast<float>(value));
  else
    return fmt::format("{}", value);
}

template <class T>
void fill_input(std::byte* memory, std::uint64_t elements, const Pattern& pattern, int rank) {
  T* const data = reinterpret_cast<T*>(memory);
  for (std::uint64_t i = 0; i < elements; ++i) data[i] = input_element<T>(pattern, rank, i);
}

// The value that an output element has to have: element `i` of a segment.
template <class T>
T expected_element(const Segment& segment, const Pattern& pattern, std::uint64_t i) {
  if (segment.source == Segment::reduced) return reduced_element<T>(pattern, segment.source_offset + i);
  return input_element<T>(pattern, segment.source, segment.source_offset + i);
}

// Calls visit(segment, i, position in data) for the elements of a window that the collective writes.
template <class Visit>
void each_expected(const Case& c, const Place& place, std::uint64_t first, std::uint64_t count, Visit&& visit) {
  for (const Segment& segment : c.collective->result(c.shape, place.member, c.pattern)) {
    const std::uint64_t from = std::max(first, segment.output_offset);
    const std::uint64_t to = std::min(first + count, segment.output_offset + segment.elements);
    for (std::uint64_t at = from; at < to; ++at) visit(segment, at - segment.output_offset, at - first);
  }
}

}  // namespace

int slots_for(const Case& c, Bytes pool, int most) {
  const std::uint64_t one = (c.shape.input_elements + c.shape.output_elements) * size_of(c.type);
  return static_cast<int>(
      std::clamp<std::uint64_t>(pool.count / std::max<std::uint64_t>(one, 1), 1, static_cast<std::uint64_t>(most)));
}

Bytes host_memory(const Case& c, int slots) {
  const std::size_t input = rounded_up(c.shape.input_elements * size_of(c.type)) + 2 * guard_bytes;
  const std::size_t output = rounded_up(c.shape.output_elements * size_of(c.type)) + 2 * guard_bytes;
  return {static_cast<std::uint64_t>(slots) * (c.in_place ? output : input + output)};
}

std::optional<Place> place_in(const Round& round, int rank, int root) {
  for (const Group& group : round) {
    const auto found = std::ranges::find(group, rank);
    if (found == group.end()) continue;
    return Place{group, Member{static_cast<int>(found - group.begin()), static_cast<int>(group.size()), root}};
  }
  return std::nullopt;
}

void write_expected(const Case& c, const Place& place, const Pattern& pattern, std::byte* data, std::uint64_t first,
                    std::uint64_t count) {
  with_type(c.type, [&]<class T>() {
    each_expected(c, place, first, count, [&](const Segment& segment, std::uint64_t i, std::uint64_t at) {
      reinterpret_cast<T*>(data)[at] = expected_element<T>(segment, pattern, i);
    });
  });
}

void check_output(const Case& c, const Place& place, const Pattern& pattern, const std::byte* data, std::uint64_t first,
                  std::uint64_t count, Verification& v) {
  with_type(c.type, [&]<class T>() {
    each_expected(c, place, first, count, [&](const Segment& segment, std::uint64_t i, std::uint64_t at) {
      const T wanted = expected_element<T>(segment, pattern, i);
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

Pattern pattern_for(const Case& c, const Place& place, int round, int slot, std::uint64_t fill) {
  std::uint64_t seed = pattern::hash(c.bytes.count, static_cast<std::uint64_t>(c.type), fill);
  seed = pattern::hash(seed, static_cast<std::uint64_t>(place.group.front()), static_cast<std::uint64_t>(round));
  seed = pattern::hash(seed, static_cast<std::uint64_t>(slot), 0);
  return {
      .seed = seed, .ranks = place.member.ranks, .reduces = c.collective->reduces, .op = c.op.value_or(ReduceOp::sum)};
}

HostBuffers::HostBuffers(const Case& c, int slots)
    : case_(c),
      slots_(slots),
      input_bytes_(c.shape.input_elements * size_of(c.type)),
      output_bytes_(c.shape.output_elements * size_of(c.type)) {
  const auto allocate = [](std::size_t bytes) {
    Block block(static_cast<std::byte*>(std::aligned_alloc(guard_bytes, rounded_up(bytes) + 2 * guard_bytes)));
    if (!block) throw CaseError(fmt::format("out of memory for a buffer of {}", to_text(Bytes{bytes})));
    std::memset(block.get(), std::to_integer<int>(guard_value), rounded_up(bytes) + 2 * guard_bytes);
    return block;
  };
  for (int slot = 0; slot < slots; ++slot) {
    if (!c.in_place) inputs_.push_back(allocate(input_bytes_));
    outputs_.push_back(allocate(output_bytes_));
  }
}

std::byte* HostBuffers::input(int slot, const Place& place) const {
  if (!case_.in_place) return inputs_[static_cast<std::size_t>(slot)].get() + guard_bytes;
  return output(slot) + case_.collective->in_place_offset(case_.shape, place.member) * size_of(case_.type);
}

std::byte* HostBuffers::output(int slot) const { return outputs_[static_cast<std::size_t>(slot)].get() + guard_bytes; }

void HostBuffers::fill(const Place& place, int round) {
  // Counted anew in each round: a rank that pauses in one fills less often than its next partner.
  fills_ = round == round_ ? fills_ + 1 : 1;
  round_ = round;
  poison_outputs();
  with_type(case_.type, [&]<class T>() {
    for (int slot = 0; slot < slots_; ++slot)
      fill_input<T>(input(slot, place), case_.shape.input_elements, pattern_for(case_, place, round_, slot, fills_),
                    place.member.rank);
  });
}

void HostBuffers::poison_outputs() {
  for (int slot = 0; slot < slots_; ++slot)
    std::memset(output(slot), std::to_integer<int>(poison_value), output_bytes_);
}

Verification HostBuffers::check(const Place& place, int first, int count) const {
  Verification v;
  const int rank_in_job = place.group[static_cast<std::size_t>(place.member.rank)];
  for (int i = 0; i < count; ++i) {
    const int slot = (first + i) % slots_;
    check_output(case_, place, pattern_for(case_, place, round_, slot, fills_), output(slot), 0,
                 case_.shape.output_elements, v);
  }
  for (const Block& block : inputs_) check_guards(block, input_bytes_, rank_in_job, v);
  for (const Block& block : outputs_) check_guards(block, output_bytes_, rank_in_job, v);
  return v;
}

void HostBuffers::check_guards(const Block& block, std::size_t bytes, int rank, Verification& v) const {
  const auto look = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      if (block.get()[i] == guard_value) continue;
      ++v.wrong_elements;
      if (!v.first)
        v.first = WrongElement{.rank = rank,
                               .offset = i < guard_bytes ? guard_bytes - i : i - guard_bytes,
                               .wanted = fmt::format("guard byte {:#04x}", std::to_integer<int>(guard_value)),
                               .got = fmt::format("{:#04x}", std::to_integer<int>(block.get()[i])),
                               .guard = true};
    }
  };
  look(0, guard_bytes);
  look(guard_bytes + bytes, guard_bytes + rounded_up(bytes) + guard_bytes);
}

}  // namespace p5
