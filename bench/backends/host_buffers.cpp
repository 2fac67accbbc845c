#include "bench/backends/host_buffers.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "bench/base/error.hpp"

namespace p5 {

namespace {

// Size of the guards at both ends of a buffer; equal to the alignment, so that the buffer stays aligned. Unaligned
// buffers take a part of the guard behind them, which is larger than any shift, to the one before them.
constexpr std::size_t guard_bytes = 4096;
constexpr std::byte guard_value{0xdb};
constexpr std::byte poison_value{0xa5};

std::size_t rounded_up(std::size_t bytes) { return (bytes + guard_bytes - 1) / guard_bytes * guard_bytes; }

template <class T>
void fill_input(std::byte* memory, std::uint64_t elements, const Pattern& pattern, int rank) {
  T* const data = reinterpret_cast<T*>(memory);
  for (std::uint64_t i = 0; i < elements; ++i) data[i] = input_element<T>(pattern, rank, i);
}

// Elements of an output buffer; in place, it also contains the input.
std::uint64_t output_elements(const Case& c) {
  return c.in_place ? in_place_elements(c.shape) : c.shape.output_elements;
}

}  // namespace

int slots_for(const Case& c, Bytes pool, int most) {
  const std::uint64_t one = (c.shape.input_elements + c.shape.output_elements) * size_of(c.type);
  return static_cast<int>(
      std::clamp<std::uint64_t>(pool.count / std::max<std::uint64_t>(one, 1), 1, static_cast<std::uint64_t>(most)));
}

Bytes host_memory(const Case& c, int slots) {
  const std::size_t input = rounded_up(c.shape.input_elements * size_of(c.type)) + 2 * guard_bytes;
  const std::size_t output = rounded_up(output_elements(c) * size_of(c.type)) + 2 * guard_bytes;
  return {static_cast<std::uint64_t>(slots) * (c.in_place ? output : input + output)};
}

HostBuffers::HostBuffers(const Case& c, int slots)
    : case_(c),
      slots_(slots),
      input_bytes_(c.shape.input_elements * size_of(c.type)),
      output_bytes_(output_elements(c) * size_of(c.type)),
      front_(guard_bytes + static_cast<std::size_t>(c.calls.unalign) * size_of(c.type)) {
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

std::byte* HostBuffers::input(int slot, const RankInGroup& place) const {
  if (!case_.in_place) return inputs_[static_cast<std::size_t>(slot)].get() + front_;
  return output_memory(slot) + case_.collective->in_place_offset(case_.shape, place.member).input * size_of(case_.type);
}

std::byte* HostBuffers::output(int slot, const RankInGroup& place) const {
  if (!case_.in_place) return output_memory(slot);
  return output_memory(slot) +
         case_.collective->in_place_offset(case_.shape, place.member).output * size_of(case_.type);
}

std::vector<std::span<std::byte>> HostBuffers::blocks() const {
  std::vector<std::span<std::byte>> all;
  for (const Block& block : inputs_) all.emplace_back(block.get(), rounded_up(input_bytes_) + 2 * guard_bytes);
  for (const Block& block : outputs_) all.emplace_back(block.get(), rounded_up(output_bytes_) + 2 * guard_bytes);
  return all;
}

std::byte* HostBuffers::output_memory(int slot) const {
  return outputs_[static_cast<std::size_t>(slot)].get() + front_;
}

void HostBuffers::fill(const RankInGroup& place, int round) {
  // Restarts in each round: a rank that pauses in a round fills less often than its next partner.
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
    std::memset(output_memory(slot), std::to_integer<int>(poison_value), output_bytes_);
}

Verification HostBuffers::check(const RankInGroup& place, int first, int count) const {
  Verification v;
  const int rank_in_job = place.group[static_cast<std::size_t>(place.member.rank)];
  for (int i = 0; i < count; ++i) {
    const int slot = (first + i) % slots_;
    check_output(case_, place, pattern_for(case_, place, round_, slot, fills_), output(slot, place), 0,
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
                               .offset = i < front_ ? front_ - i : i - front_,
                               .wanted = fmt::format("guard byte {:#04x}", std::to_integer<int>(guard_value)),
                               .got = fmt::format("{:#04x}", std::to_integer<int>(block.get()[i])),
                               .guard = true};
    }
  };
  look(0, front_);
  look(front_ + bytes, guard_bytes + rounded_up(bytes) + guard_bytes);
}

}  // namespace p5
