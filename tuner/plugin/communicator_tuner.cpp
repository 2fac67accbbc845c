#include "tuner/plugin/communicator_tuner.hpp"

#include <algorithm>
#include <cstdlib>

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

// A cost table of the settings that NCCL 2.21, which has none, can run on any machine. LL128 is not among them, because
// it corrupts data on some machines.
Costs safe_costs(Function function, bool collnet, bool nvls, std::uint64_t nodes) {
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
  const std::optional<Override> found = override_for(call.function, call.bytes);
  TunedCall tuned{.costs = copy_of(table), .cheapest = {}, .granted = found && table.available(found->setting)};
  if (tuned.granted) {
    table.prefer(found->setting, found->microseconds);
    if (found->setting.channels > 0) *call.channels = found->setting.channels;
    remember_chunk(call.function, found->setting);
  } else if (chained_tuner_) {
    chained_tuner_->choose(call);
  }
  tuned.cheapest = table.cheapest();
  if (tuned.cheapest) tuned.cheapest->channels = *call.channels;
  if (!tuned.granted && tuned.cheapest) remember_chunk(call.function, *tuned.cheapest);
  if (policy_) policy_->record_call(tuned);
}

void CommunicatorTuner::choose_v2(const CallV2& call) {
  const std::optional<Override> found = override_for(call.function, call.bytes);
  TunedCall tuned;
  if (found && !constrained_) {  // NCCL 2.21 does not apply the operator's constraints to a tuner's choice
    Costs costs =
        safe_costs(static_cast<Function>(call.function), call.collnet_support > 0, call.nvls_support > 0, start_.nodes);
    tuned.granted = CostTable(costs.data(), abi::algorithms_without_pat, abi::protocols).available(found->setting);
  }
  if (tuned.granted) {
    *call.algorithm = static_cast<int>(found->setting.algorithm);
    *call.protocol = static_cast<int>(found->setting.protocol);
    if (found->setting.channels > 0) *call.channels = found->setting.channels;
    tuned.cheapest = found->setting;
  } else if (chained_tuner_) {
    chained_tuner_->choose_v2(call);
  }
  if (policy_) policy_->record_call(tuned);
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

// ---- exports

namespace {

constexpr const char* plugin_name = "p5bench";

// A context is null where its start failed; NCCL then decides alone.
CommunicatorTuner* tuner_of(void* context) { return static_cast<CommunicatorTuner*>(context); }

// Returns success whatever happens, because NCCL fails the user's call on an error, unless the start is refused.
abi::Result contain_errors(const auto& action) noexcept {
  try {
    action();
  } catch (const Refusal& refusal) {
    return refusal.result;
  } catch (...) {
    // Out of memory; no argument has been changed partly.
  }
  return abi::success;
}

void start_tuner(void** context, const Start& start, abi::Logger logger) {
  *context = nullptr;
  *context = std::make_unique<CommunicatorTuner>(start, logger).release();
}

template <int version>
abi::Result init_v2_to_v4(std::size_t ranks, std::size_t nodes, abi::Logger logger, void** context) {
  return contain_errors([&] { start_tuner(context, {.version = version, .ranks = ranks, .nodes = nodes}, logger); });
}

template <int version>
abi::Result init_v5_or_v6(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes,
                          abi::Logger logger, abi::NvlinkDomains* domains, abi::Constants* constants) {
  return contain_errors([&] {
    start_tuner(context, {version, communicator, ranks, nodes, domains, constants, nullptr}, logger);
  });
}

abi::Result init_v7(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes,
                    abi::Logger logger, abi::NvlinkDomains* domains, abi::ConstantsV7* constants) {
  return contain_errors([&] {
    start_tuner(context, {7, communicator, ranks, nodes, domains, nullptr, constants}, logger);
  });
}

abi::Result choose_v2(void* context, int function, std::size_t bytes, int collnet_support, int nvls_support,
                      int pipelined, int* algorithm, int* protocol, int* channels) {
  return contain_errors([&] {
    if (auto* const tuner = tuner_of(context))
      tuner->choose_v2({function, bytes, collnet_support, nvls_support, pipelined, algorithm, protocol, channels});
  });
}

abi::Result choose(void* context, int function, std::size_t bytes, int pipelined, float** costs, int algorithms,
                   int protocols, int registered, int* channels) {
  return contain_errors([&] {
    if (auto* const tuner = tuner_of(context))
      tuner->choose(
          {function, bytes, pipelined, registered, reinterpret_cast<float*>(costs), algorithms, protocols, channels});
  });
}

abi::Result choose_v3(void* context, int function, std::size_t bytes, int pipelined, float** costs, int algorithms,
                      int protocols, int* channels) {
  return choose(context, function, bytes, pipelined, costs, algorithms, protocols, 0, channels);
}

abi::Result chunk(void* context, int function, std::size_t bytes, int algorithm, int protocol, int channels,
                  std::size_t* size) {
  return contain_errors([&] {
    if (auto* const tuner = tuner_of(context)) tuner->chunk(function, bytes, algorithm, protocol, channels, size);
  });
}

abi::Result finalize(void* context) {
  return contain_errors([&] { std::unique_ptr<CommunicatorTuner>(tuner_of(context)).reset(); });
}

}  // namespace

}  // namespace p5::tuner

namespace abi = p5::tuner::abi;

#pragma GCC visibility push(default)
extern "C" {
extern const abi::TunerV2 ncclTunerPlugin_v2;
extern const abi::TunerV3 ncclTunerPlugin_v3;
extern const abi::TunerV4 ncclTunerPlugin_v4;
extern const abi::TunerV5 ncclTunerPlugin_v5;
extern const abi::TunerV6 ncclTunerPlugin_v6;
extern const abi::TunerV7 ncclTunerPlugin_v7;
}
#pragma GCC visibility pop

const abi::TunerV2 ncclTunerPlugin_v2{p5::tuner::plugin_name, p5::tuner::init_v2_to_v4<2>, p5::tuner::choose_v2,
                                      p5::tuner::finalize};
const abi::TunerV3 ncclTunerPlugin_v3{p5::tuner::plugin_name, p5::tuner::init_v2_to_v4<3>, p5::tuner::choose_v3,
                                      p5::tuner::finalize};
const abi::TunerV4 ncclTunerPlugin_v4{p5::tuner::plugin_name, p5::tuner::init_v2_to_v4<4>, p5::tuner::choose,
                                      p5::tuner::finalize};
const abi::TunerV5 ncclTunerPlugin_v5{p5::tuner::plugin_name, p5::tuner::init_v5_or_v6<5>, p5::tuner::choose,
                                      p5::tuner::finalize};
const abi::TunerV6 ncclTunerPlugin_v6{p5::tuner::plugin_name, p5::tuner::init_v5_or_v6<6>, p5::tuner::choose,
                                      p5::tuner::finalize, p5::tuner::chunk};
const abi::TunerV7 ncclTunerPlugin_v7{p5::tuner::plugin_name, p5::tuner::init_v7, p5::tuner::choose,
                                      p5::tuner::finalize, p5::tuner::chunk};

bool p5::tuner::is_own_tuner(const void* tuner) {
  const std::array<const void*, 6> all{&ncclTunerPlugin_v2, &ncclTunerPlugin_v3, &ncclTunerPlugin_v4,
                                       &ncclTunerPlugin_v5, &ncclTunerPlugin_v6, &ncclTunerPlugin_v7};
  return std::ranges::find(all, tuner) != all.end();
}
