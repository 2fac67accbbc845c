#include "bench/model/call_options.hpp"

#include <fmt/format.h>

namespace p5 {

namespace {

constexpr std::array all_options{
    CallOption{.name = "cuda_graph",
               .option = "--cuda-graph",
               .what = "CUDA graphs",
               .words = "graph",
               .path = "graph",
               .value = [](const CallOptions& calls) -> std::string { return calls.cuda_graph ? "1" : ""; }},
    CallOption{
        .name = "register",
        .option = "--register",
        .what = "registered buffers",
        .words = "registered {}",
        .path = "register:{}",
        .value = [](const CallOptions& calls) { return calls.registration == "none" ? "" : calls.registration; }},
    CallOption{
        .name = "aggregate",
        .option = "--aggregate",
        .what = "groups of operations",
        .words = "{} in a group",
        .path = "aggregate:{}",
        .value = [](const CallOptions& calls) { return calls.aggregate == 1 ? "" : std::to_string(calls.aggregate); }},
    CallOption{.name = "cta_policy",
               .option = "--cta-policy",
               .what = "CTA policies",
               .words = "CTA policy {}",
               .path = "cta_policy:{}",
               .value = [](const CallOptions& calls) { return calls.cta_policy == "default" ? "" : calls.cta_policy; }},
    CallOption{
        .name = "unalign",
        .option = "--unalign",
        .what = "unaligned buffers",
        .words = "unaligned by {}",
        .path = "unalign:{}",
        .value = [](const CallOptions& calls) { return calls.unalign == 0 ? "" : std::to_string(calls.unalign); }},
};

}  // namespace

std::string CallOption::text(std::string_view pattern, const CallOptions& calls) const {
  const std::string its = value(calls);
  return its.empty() ? "" : fmt::format(fmt::runtime(pattern), its);
}

std::span<const CallOption> call_options() { return all_options; }

std::string describe(const CallOptions& calls, std::string_view separator) {
  std::string text;
  for (const CallOption& each : all_options)
    if (const std::string its = each.text(each.words, calls); !its.empty())
      text += (text.empty() ? std::string() : std::string(separator)) + its;
  return text;
}

}  // namespace p5
