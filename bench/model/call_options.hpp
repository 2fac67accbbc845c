// How operations are called, beside what they do: options that cases, reports and workers share, and the table of them.
// A new one is a field, a row of the table, and a line in fields() of result_fields.hpp.
#pragma once

#include <array>
#include <compare>
#include <span>
#include <string>
#include <string_view>

namespace p5 {

struct CallOptions {
  bool cuda_graph = false;             // operations are launched as CUDA graphs
  std::string registration = "none";   // of the buffers with NCCL: none, local, symmetric; "register" in reports
  int aggregate = 1;                   // operations between ncclGroupStart and ncclGroupEnd, each on buffers of its own
  std::string cta_policy = "default";  // of the communicators (ncclConfig_t): default, efficiency, zero
  int unalign = 0;                     // elements by which all buffers begin after an aligned address
  friend auto operator<=>(const CallOptions&, const CallOptions&) = default;
};

inline constexpr std::array<std::string_view, 3> registration_kinds{"none", "local", "symmetric"};
// In the order of NCCL's numbers.
inline constexpr std::array<std::string_view, 3> cta_policies{"default", "efficiency", "zero"};
// Each operation of a group has a slot of buffers, of which all are checked at once.
inline constexpr int most_aggregate = 32;

// Guards of 512 bytes before each buffer, and of 8 bytes an element at most.
inline constexpr int most_unalign = 63;

struct CallOption {
  std::string_view name;    // in reports
  std::string_view option;  // on the command line
  std::string_view what;    // for messages: what a backend without it has not
  // For titles and for names with slashes; "{}" is the value.
  std::string_view words, path;
  std::string (*value)(const CallOptions& calls);  // "" if it is the default

  std::string text(std::string_view pattern, const CallOptions& calls) const;
};
// In the order in which texts name them.
std::span<const CallOption> call_options();
// "graph, 4 in a group" with ", " as separator; "" if all are defaults.
std::string describe(const CallOptions& calls, std::string_view separator);

}  // namespace p5
