#include "tuner/plugin/communicator_tuner.hpp"

#include <cstdlib>

#include "tuner/plugin/cost_table.hpp"

namespace p5::tuner {

namespace {

Costs copy_of(const CostTable& table) {
  Costs costs = no_costs();
  table.for_each([&](const Setting& setting, const float& cost) {
    costs[static_cast<std::size_t>(setting.algorithm) * abi::protocols + static_cast<std::size_t>(setting.protocol)] =
        cost;
  });
  return costs;
}

// What NCCL 2.21, which shows no costs, can certainly run. Not LL128: whether the machine can do that without
// corrupting data is not told.
Costs certain_costs(Function function, bool collnet, bool nvls, std::uint64_t nodes) {
  Costs costs = no_costs();
  const CostTable table(costs.data(), abi::algorithms_without_pat, abi::protocols);
  const auto offer = [&](Algorithm algorithm, Protocol protocol) { *table.at(algorithm, protocol) = 1; };
  const bool all_reduce = function == Function::all_reduce;
  for (const Protocol protocol : {Protocol::ll, Protocol::simple}) {
    offer(Algorithm::ring, protocol);
    if (all_reduce) offer(Algorithm::tree, protocol);
  }
  if (collnet && all_reduce)
    for (const Algorithm algorithm : {Algorithm::collnet_direct, Algorithm::collnet_chain})
      offer(algorithm, Protocol::simple);
  const bool gathers = function == Function::all_gather || function == Function::reduce_scatter;
  if (nvls && (all_reduce || gathers) && (nodes == 1 || collnet)) offer(Algorithm::nvls, Protocol::simple);
  if (nvls && all_reduce && nodes > 1) offer(Algorithm::nvls_tree, Protocol::simple);
  return costs;
}

}  // namespace

CommunicatorTuner::CommunicatorTuner(const Start& start, abi::Logger logger)
    : start_(start),
      log_(logger),
      constrained_(std::getenv("NCCL_ALGO") || std::getenv("NCCL_PROTO")),
      policy_(make_policy({start.ranks, start.nodes}, log_)),
      chained_tuner_(start_chained_tuner(start, log_)) {}

std::optional<Override> CommunicatorTuner::override_for(int function, std::size_t bytes) const {
  if (!policy_ || function < 0 || function >= abi::functions) return std::nullopt;
  return policy_->override_of(static_cast<Function>(function), bytes);
}

void CommunicatorTuner::choose(const Call& call) {
  const CostTable table(call.costs, call.algorithms, call.protocols);
  const std::optional<Override> override_of = override_for(call.function, call.bytes);
  Seen seen{.costs = copy_of(table), .cheapest = {}, .granted = override_of && table.available(override_of->setting)};
  if (seen.granted) {
    table.prefer(override_of->setting, override_of->microseconds);
    if (override_of->setting.channels > 0) *call.channels = override_of->setting.channels;
    remember_chunk(call.function, override_of->setting);
  } else if (chained_tuner_) {
    chained_tuner_->choose(call);
  }
  seen.cheapest = table.cheapest();
  if (seen.cheapest) seen.cheapest->channels = *call.channels;
  if (!seen.granted && seen.cheapest) remember_chunk(call.function, *seen.cheapest);
  if (policy_) policy_->note(seen);
}

void CommunicatorTuner::choose_unseen(const UnseenCall& call) {
  const std::optional<Override> override_of = override_for(call.function, call.bytes);
  Seen seen;
  if (override_of && !constrained_) {  // NCCL 2.21 would not look at the operator's constraints any more
    Costs costs = certain_costs(static_cast<Function>(call.function), call.collnet_support > 0, call.nvls_support > 0,
                                start_.nodes);
    seen.granted = CostTable(costs.data(), abi::algorithms_without_pat, abi::protocols).available(override_of->setting);
  }
  if (seen.granted) {
    *call.algorithm = static_cast<int>(override_of->setting.algorithm);
    *call.protocol = static_cast<int>(override_of->setting.protocol);
    if (override_of->setting.channels > 0) *call.channels = override_of->setting.channels;
    seen.cheapest = override_of->setting;
  } else if (chained_tuner_) {
    chained_tuner_->choose_unseen(call);
  }
  if (policy_) policy_->note(seen);
}

void CommunicatorTuner::chunk(int function, std::size_t bytes, int algorithm, int protocol, int channels,
                              std::size_t* chunk) {
  const std::atomic<std::uint64_t>* const decided = chunk_of(function, algorithm, protocol);
  if (const std::uint64_t ours = decided ? decided->load() : 0)
    *chunk = ours;
  else if (chained_tuner_)
    chained_tuner_->chunk(function, bytes, algorithm, protocol, channels, chunk);
}

void CommunicatorTuner::remember_chunk(int function, const Setting& chosen) {
  if (auto* const decided = chunk_of(function, static_cast<int>(chosen.algorithm), static_cast<int>(chosen.protocol)))
    decided->store(chosen.chunk);
}

std::atomic<std::uint64_t>* CommunicatorTuner::chunk_of(int function, int algorithm, int protocol) {
  if (function < 0 || function >= abi::functions || algorithm < 0 || algorithm >= abi::algorithms || protocol < 0 ||
      protocol >= abi::protocols)
    return nullptr;
  const std::size_t row = static_cast<std::size_t>(function) * abi::algorithms + static_cast<std::size_t>(algorithm);
  return &chunks_[row * abi::protocols + static_cast<std::size_t>(protocol)];
}

}  // namespace p5::tuner
