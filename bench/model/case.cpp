#include "bench/model/case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/base/statistics.hpp"
#include "bench/model/communicator_steps.hpp"
#include "bench/model/job.hpp"
#include "bench/model/measurement.hpp"
#include "bench/model/traffic.hpp"

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

const std::vector<Work>& works_of(const Case& c) { return c.replay ? c.replay->works : c.beside; }

bool is_repeated(const Case& c) {
  return !c.for_parts && !c.every_root && c.rounds && c.rounds->size() > 1 &&
         std::ranges::all_of(*c.rounds, [&](const Round& round) { return round == c.rounds->front(); });
}

bool measures_latency(const Case& c) {
  return c.bytes <= latency_up_to || (c.shape.tokens > 0 && c.shape.tokens <= latency_up_to_tokens);
}

bool leaves_domain(const Case& c) { return c.pair == "other_node" || c.pair == "other_domain"; }

std::optional<int> nic_of(const Case& c, const Group& pair, int rank) {
  return c.other_nic && rank == std::ranges::max(pair) ? c.other_nic : c.nic;
}

std::uint64_t elements(const Case& c) { return c.bytes_per_rank.count / size_of(c.type); }

std::string root_text(const Case& c) { return c.every_root ? "all" : c.root ? std::to_string(*c.root) : ""; }

namespace {

std::string own_operation_of(const Case& c) {
  std::string text{c.collective->name};
  for (const std::string* part : {&c.pattern, &c.pair})
    if (!part->empty()) text += " " + *part;
  if (c.shape.traffic) text += " " + c.shape.traffic->name;
  if (c.replay) text += " " + c.replay->name;
  if (c.replay && c.replay->products) text += fmt::format(" with {} in its gaps", name_of(*c.replay->products));
  if (c.nic) text += fmt::format(" nic {}", *c.nic);
  if (c.other_nic) text += fmt::format(" to {}", *c.other_nic);
  if (c.gpu) text += fmt::format(" gpu +{}", *c.gpu);
  return text;
}

}  // namespace

std::string operation_of(const Case& c) {
  return own_operation_of(c) + (c.beside.empty() ? "" : " " + describe_beside(c.beside));
}

std::string describe_alone(const Case& c) {
  std::string text = own_operation_of(c);
  if (c.replay) return text;
  text += fmt::format(" {} {}", to_text(c.bytes), name_of(c.type));
  if (c.op) text += fmt::format(" {}", name_of(*c.op));
  if (const std::string root = root_text(c); !root.empty()) text += " root " + root;
  if (c.in_place) text += " in place";
  if (const std::string calls = describe(c.calls, " "); !calls.empty()) text += " " + calls;
  if (c.group != "world") text += " group " + c.group;
  return text;
}

std::string describe(const Case& c) {
  return describe_alone(c) + (c.beside.empty() ? "" : " " + describe_beside(c.beside));
}

std::string_view name_of(Outcome outcome) {
  return std::array<std::string_view, 3>{"measured", "skipped", "failed"}.at(static_cast<std::size_t>(outcome));
}

std::string_view name_of(Phase phase) {
  return std::array<std::string_view, 5>{"open", "warm_up", "sample", "verify", "close"}.at(
      static_cast<std::size_t>(phase));
}

double slowdown(const Series& alone, const Series& beside) { return beside.summary.median / alone.summary.median; }

Seconds sum_of(const Concurrency& c) {
  Seconds sum{0};
  for (const ConcurrentOperation& each : c.operations) sum.count += each.operations * each.alone.summary.median;
  return sum;
}

Seconds longest_of(const Concurrency& c) {
  Seconds longest{0};
  for (const ConcurrentOperation& each : c.operations)
    longest.count = std::max(longest.count, each.operations * each.alone.summary.median);
  return longest;
}

double overlap(const Concurrency& c) {
  const double sum = sum_of(c).count, longest = longest_of(c).count;
  return (sum - c.together.summary.median) / (sum - longest);
}

std::optional<int> slowest_root(const Measurement& m) {
  const auto slowest = std::ranges::max_element(m.roots, {}, [](const RootResult& each) { return each.median.count; });
  return slowest == m.roots.end() ? std::nullopt : std::optional(slowest->root);
}

GBps algorithm_bandwidth(const Case& c, Seconds time) { return c.bytes / time; }

GBps bus_bandwidth(const Case& c, Seconds time) {
  return algorithm_bandwidth(c, time) * c.collective->bus_factor(c.collective->pairwise ? 2 : c.ranks);
}

namespace {

// Samples of an undisturbed round, and its untimed operations: warm-up, choice of the burst, filling and checking. For
// predictions.
constexpr int usual_samples = 14, usual_untimed = 6;
// Samples of a step of a communicator, of which each takes long.
constexpr int usual_steps = 12;

int usual_samples_of(const Case& c) {
  if (!c.collective->moves_data) return usual_steps;
  return is_repeated(c) ? StoppingRule{}.least : usual_samples;
}

double predicted_operation(const Case& c, const CostModel& cost) {
  return cost.latency.count * c.collective->steps(c.ranks) +
         static_cast<double>(c.bytes.count) * c.collective->bus_factor(c.ranks) / (cost.bandwidth.count * 1e9);
}

// A guess at one operation of work on a rank's own device, for predictions.
constexpr double usual_local_operation = 2e-3;

double predicted_step(const Replay& replay, int ranks, const CostModel& cost) {
  double seconds = longest_gaps(replay, ranks).count;
  for (const ReplayedOperation& each : replay.operations)
    seconds += std::max(predicted_operation(*replay.works[static_cast<std::size_t>(each.work)].planned, cost),
                        each.computed.count);
  return seconds;
}

double predicted_work(const Work& work, const CostModel& cost) {
  return work.planned ? predicted_operation(*work.planned, cost) : usual_local_operation;
}

// The time that the operations of one kind take alone in a burst.
double predicted_burst_beside(const Case& c, const CostModel& cost) {
  double longest = predicted_operation(c, cost);
  for (const Work& work : c.beside) longest = std::max(longest, predicted_work(work, cost));
  return std::max(cost.burst.count, least_operations_beside * longest);
}

// Each of n operations that run at the same time is measured alone, each with steady_bursts beside each other one and
// beside all, and all together. See measure/concurrent.hpp.
double predict_concurrent_round(const Case& c, const CostModel& cost) {
  const auto works = static_cast<double>(c.beside.size() + 1);
  const double pairs = works > 2 ? works * (works - 1) / 2 : 0;
  const double bursts_per_sample = works + steady_bursts * (2 * pairs + works) + works;
  return cost.repetition.count * bursts_per_sample +
         (usual_samples + usual_untimed) * predicted_burst_beside(c, cost) * bursts_per_sample;
}

// Each sample makes and destroys a communicator of its own.
Seconds predict_communicator(const Case& c, int samples, const CostModel& cost) {
  const double sample = cost.communicator.count > 0 ? model_of_sample(*step_of(c), c.ranks).count : 0;
  return {cost.repetition.count + samples * sample};
}

Seconds predict_replay(double step_s, const CostModel& cost) {
  return {cost.repetition.count + (usual_samples + usual_untimed) * step_s};
}

}  // namespace

// The time in which the job performed its step is better than a guess that is longer.
Seconds predict_round(const Case& c, const CostModel& cost) {
  if (step_of(c)) return predict_communicator(c, usual_steps, cost);
  if (!c.beside.empty()) return {predict_concurrent_round(c, cost)};
  if (c.replay) {
    const double by_bytes = predicted_step(*c.replay, c.ranks, cost);
    return predict_replay(std::min(by_bytes, c.replay->step.value_or(Seconds{by_bytes}).count), cost);
  }
  constexpr double usual_slots = 20;
  const double one = c.calls.aggregate * predicted_operation(c, cost);  // a group of operations
  const double burst = one * std::clamp(std::ceil(cost.burst.count / one), 1.0,
                                        std::max(1.0, std::floor(usual_slots / c.calls.aggregate)));
  const bool both = measures_latency(c);
  return {cost.repetition.count + usual_samples_of(c) * (burst + (both ? one : 0)) + usual_untimed * one};
}

// The machine of the record may have been faster.
Seconds predict_step(const Case& c, const CostModel& cost) {
  if (step_of(c)) return predict_communicator(c, 1, cost);
  if (c.replay) return predict_replay(predicted_step(*c.replay, c.ranks, cost), cost);
  if (c.beside.empty()) return predict_round(c, cost);
  const auto works = static_cast<double>(c.beside.size() + 1);
  return {(usual_samples + usual_untimed) * steady_bursts * works * predicted_burst_beside(c, cost)};
}

Seconds limit_of_request(const Case& c, const CostModel& cost, Seconds timeout) {
  return {std::max(timeout.count, 10 * predict_step(c, cost).count)};
}

int most_samples_within(Seconds limit, double each_s) {
  constexpr double share_of_limit = 0.5, most = 1e6;
  return static_cast<int>(std::clamp(std::floor(share_of_limit * limit.count / std::max(each_s, 1e-9)), 1.0, most));
}

Seconds predict_minimum_round(const Case& c, const CostModel& cost) {
  return {predict_round(c, cost).count * StoppingRule{}.least / usual_samples_of(c)};
}

}  // namespace p5
