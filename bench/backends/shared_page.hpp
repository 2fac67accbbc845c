// What a worker shows while it does not answer: one page of memory that its supervisor reads, and by which that tells
// it to give up.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace p5::protocol {

// The worker finds its end of the socket pair and the shared page at these descriptors. What it writes to its standard
// output, NCCL's log above all, goes to a file in memory of its supervisor, which thus has it whatever becomes of the
// worker.
inline constexpr int log_descriptor = 1;
inline constexpr int socket_descriptor = 3;
inline constexpr int page_descriptor = 4;

// Zero at the start.
struct SharedPage {
  std::atomic<std::uint64_t> completed;           // operations that the device has finished, over the worker's life
  std::atomic<std::uint64_t> last_completion_ns;  // steady clock, of the latest of them
  std::atomic<std::uint64_t> orders;              // taken from the socket
  std::atomic<std::uint32_t> order;               // the one being carried out: an index into order_names, 0 between two
  std::atomic<std::uint32_t> give_up;  // 1, set by the supervisor: abort, see whether the device comes to rest, answer
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::array<std::string_view, 13> order_names{
    "",       "identify",  "unique_id",  "join",  "open",          "warm_up", "sample",
    "verify", "selection", "cost_table", "close", "check_locally", "quit"};

// 0 for a name that is none of them.
constexpr std::uint32_t order_number(std::string_view name) {
  const auto* const found = std::find(order_names.begin(), order_names.end(), name);
  return found == order_names.end() ? 0 : static_cast<std::uint32_t>(found - order_names.begin());
}

}  // namespace p5::protocol
