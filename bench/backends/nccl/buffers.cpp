#include "bench/backends/nccl/buffers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

namespace p5::nccl {

namespace {

constexpr std::uint64_t guard = 512;         // keeps the alignment of NCCL's fastest paths
constexpr std::uint64_t pool = 16ull << 30;  // what NVLink moves in the time of a burst
constexpr std::uint64_t most_slots = 20;

std::uint64_t stride_of(std::uint64_t bytes) { return (bytes + guard - 1) / guard * guard + 2 * guard; }

// Bytes that --unalign adds to the guard before each buffer.
std::uint64_t shift_of(const Case& c) { return static_cast<std::uint64_t>(c.calls.unalign) * size_of(c.type); }

}  // namespace

Layout layout_of(const Case& c, std::uint64_t usable_memory) {
  Layout layout;
  layout.input_bytes = c.shape.input_elements * size_of(c.type);
  layout.output_bytes = (c.in_place ? in_place_elements(c.shape) : c.shape.output_elements) * size_of(c.type);
  layout.front = guard + shift_of(c);
  layout.input_stride = c.in_place ? 0 : stride_of(layout.input_bytes + shift_of(c));
  layout.output_stride = stride_of(layout.output_bytes + shift_of(c));
  // The pool counts payload only, so that guards do not cost a slot at powers of two.
  const std::uint64_t moved = layout.output_bytes + (c.in_place ? 0 : layout.input_bytes);
  const std::uint64_t fitting =
      std::min(pool / std::max<std::uint64_t>(moved, 1), usable_memory / (layout.input_stride + layout.output_stride));
  // Whole groups of operations: no two operations of a group use the same buffers.
  const auto together = static_cast<std::uint64_t>(c.calls.aggregate);
  layout.slots = static_cast<int>(std::clamp(fitting, together, std::max(most_slots, together)) / together * together);
  return layout;
}

Buffers::Buffers(const Case& c, const Layout& layout, std::byte* memory, Queue& queue)
    : case_(c),
      layout_(layout),
      memory_(memory),
      queue_(queue),
      found_(make_device_memory(sizeof(Staging::found))),
      staging_(make_pinned_memory(sizeof(Staging))) {
  static_assert(most_slots + 2 <= Staging::most_slots && most_slots <= Outputs::most &&
                most_aggregate <= Outputs::most);
  new (staging_.get()) Staging;
}

GuardedBuffers Buffers::inputs() const {
  if (case_.in_place) return {.memory = memory_, .stride = 1};
  return {memory_, static_cast<std::uint64_t>(layout_.slots), layout_.input_stride, layout_.front, layout_.input_bytes};
}

GuardedBuffers Buffers::outputs() const {
  const auto slots = static_cast<std::uint64_t>(layout_.slots);
  return {memory_ + slots * layout_.input_stride, slots, layout_.output_stride, layout_.front, layout_.output_bytes};
}

std::byte* Buffers::output_memory(int slot) const {
  return outputs().memory + static_cast<std::uint64_t>(slot) * layout_.output_stride + layout_.front;
}

std::byte* Buffers::input(int slot, const RankInGroup& place) const {
  if (!case_.in_place) return memory_ + static_cast<std::uint64_t>(slot) * layout_.input_stride + layout_.front;
  return output_memory(slot) + case_.collective->in_place_offset(case_.shape, place.member).input * size_of(case_.type);
}

std::byte* Buffers::output(int slot, const RankInGroup& place) const {
  if (!case_.in_place) return output_memory(slot);
  return output_memory(slot) +
         case_.collective->in_place_offset(case_.shape, place.member).output * size_of(case_.type);
}

void Buffers::fill(const RankInGroup& place, int round, std::uint64_t fill, int count) {
  fill_guards(queue_.stream(), inputs());
  fill_guards(queue_.stream(), outputs());
  poison(0, count);
  for (int slot = 0; slot < count; ++slot)
    nccl::fill(queue_.stream(), case_.type, input(slot, place), case_.shape.input_elements,
               pattern_for(case_, place, round, slot, fill), place.member.rank);
}

void Buffers::poison(int first, int count) {
  for (int i = 0; i < count; ++i)
    nccl::check(
        cudaMemsetAsync(output_memory((first + i) % slots()), poison_value, layout_.output_bytes, queue_.stream()),
        "cudaMemsetAsync");
}

Verification Buffers::check(const RankInGroup& place, int round, std::uint64_t fill, int first, int count) {
  std::ranges::fill(staging().found, Mismatches{});
  nccl::check(
      cudaMemcpyAsync(found_.get(), staging().found, sizeof staging().found, cudaMemcpyHostToDevice, queue_.stream()),
      "cudaMemcpyAsync");
  auto* const found = static_cast<Mismatches*>(found_.get());
  check_guards(queue_.stream(), inputs(), found);
  check_guards(queue_.stream(), outputs(), found + 1);
  const auto pattern = [&](int i) { return pattern_for(case_, place, round, (first + i) % slots(), fill); };
  // Must outlive the kernels.
  const std::vector<NumberedSegment> segments =
      number_elements(case_.collective->result(case_.shape, place.member, case_.pattern));
  if (!segments.empty()) {
    Outputs outputs{.count = count};
    for (int i = 0; i < count; ++i) {
      outputs.data[static_cast<std::size_t>(i)] = output((first + i) % slots(), place);
      outputs.patterns[static_cast<std::size_t>(i)] = pattern(i);
    }
    outputs.segments = on_device(segments);
    outputs.segments_count = segments.size();
    outputs.elements = segments.back().begin + segments.back().segment.elements;
    compare(queue_.stream(), case_.type, outputs, found + 2);
  }
  nccl::check(
      cudaMemcpyAsync(staging().found, found_.get(), sizeof staging().found, cudaMemcpyDeviceToHost, queue_.stream()),
      "cudaMemcpyAsync");
  queue_.finish();
  Verification v;
  for (int i = 0; i < count; ++i) add_elements(v, place, pattern(i), (first + i) % slots(), staging().found[2 + i]);
  add_guards(v, place, inputs(), staging().found[0]);
  add_guards(v, place, outputs(), staging().found[1]);
  return v;
}

const NumberedSegment* Buffers::on_device(const std::vector<NumberedSegment>& segments) {
  const std::size_t bytes = segments.size() * sizeof(NumberedSegment);
  if (segments.size() > most_segments_) segments_ = make_device_memory(bytes), most_segments_ = segments.size();
  nccl::check(cudaMemcpyAsync(segments_.get(), segments.data(), bytes, cudaMemcpyHostToDevice, queue_.stream()),
              "cudaMemcpyAsync");
  return static_cast<const NumberedSegment*>(segments_.get());
}

const std::byte* Buffers::fetch(const std::byte* at, std::size_t bytes) {
  nccl::check(cudaMemcpyAsync(staging().element, at, bytes, cudaMemcpyDeviceToHost, queue_.stream()),
              "cudaMemcpyAsync");
  queue_.finish();
  return staging().element;
}

void Buffers::add_elements(Verification& v, const RankInGroup& place, const Pattern& pattern, int slot,
                           const Mismatches& found) {
  v.wrong_elements += found.wrong;
  if (found.wrong == 0 || v.first) return;
  const std::size_t size = size_of(case_.type);
  const std::byte* got = fetch(output(slot, place) + found.lowest * size, size);
  Verification one;
  check_output(case_, place, pattern, got, found.lowest, 1, one);
  if (!one.first)  // right on the host, wrong on the device: memory changed, or the device miscounted
    one.first = WrongElement{.rank = place.group[static_cast<std::size_t>(place.member.rank)],
                             .offset = found.lowest,
                             .wanted = "what the host finds there",
                             .got = "another value when the device compared"};
  v.first = one.first;
}

void Buffers::add_guards(Verification& v, const RankInGroup& place, const GuardedBuffers& buffers,
                         const Mismatches& found) {
  v.wrong_elements += found.wrong;
  if (found.wrong == 0 || v.first) return;
  const std::uint64_t position = buffers.position(found.lowest);
  const std::uint64_t within = position % buffers.stride;
  const std::byte got = *fetch(buffers.memory + position, 1);
  v.first = WrongElement{.rank = place.group[static_cast<std::size_t>(place.member.rank)],
                         .offset = within < buffers.front ? buffers.front - within : within - buffers.front,
                         .wanted = fmt::format("guard byte {:#04x}", guard_value),
                         .got = fmt::format("{:#04x}", std::to_integer<int>(got)),
                         .guard = true};
}

}  // namespace p5::nccl
