// Page of shared memory through which a worker shows its progress while it does not reply, and its supervisor requests
// an abort.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace p5::protocol {

// Descriptors at which the worker finds its end of the socket pair and the shared page. Its standard output, mainly
// NCCL's log, goes to an in-memory file of the supervisor, which outlives the worker.
inline constexpr int log_descriptor = 1;
inline constexpr int socket_descriptor = 3;
inline constexpr int page_descriptor = 4;

// Zero-initialized.
struct SharedPage {
  std::atomic<std::uint64_t> completed;           // operations that the device has completed in the worker's lifetime
  std::atomic<std::uint64_t> last_completion_ns;  // steady clock, of the latest completion
  std::atomic<std::uint64_t> orders;              // number of orders received from the socket
  std::atomic<std::uint32_t> order;               // the order in progress, an index into order_names; 0 between orders
  std::atomic<std::uint32_t> give_up;             // 1: the supervisor requests that the worker abort its operations
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::array<std::string_view, 18> order_names{
    "",           "identify",         "unique_id", "join",
    "open",       "warm_up",          "sample",    "sample_concurrently",
    "verify",     "selection",        "host_time", "communicator_costs",
    "cost_table", "probe_nics",       "close",     "check_locally",
    "quit",       "check_host_copies"};

// 0 for an unknown name.
constexpr std::uint32_t order_number(std::string_view name) {
  const auto* const found = std::find(order_names.begin(), order_names.end(), name);
  return found == order_names.end() ? 0 : static_cast<std::uint32_t>(found - order_names.begin());
}

}  // namespace p5::protocol
