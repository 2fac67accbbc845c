// What NCCL looks for in a tuner plugin: one structure for each version of the interface, all of the same tuner. Their
// functions say success, because NCCL fails the user's call on anything else: but for a start that is to fail.
#include <algorithm>
#include <array>

#include "tuner/plugin/communicator_tuner.hpp"

namespace p5::tuner {

namespace {

constexpr const char* plugin_name = "p5bench";

// A context may be null: then its start failed, and NCCL goes its own ways.
CommunicatorTuner* tuner_of(void* context) { return static_cast<CommunicatorTuner*>(context); }

abi::Result contain(const auto& action) noexcept {
  try {
    action();
  } catch (const Refusal& refusal) {
    return refusal.result;
  } catch (...) {
    // For want of memory; nothing that was handed in has been changed halfway.
  }
  return abi::success;
}

void start_tuner(void** context, const Start& start, abi::Logger logger) {
  *context = nullptr;
  *context = std::make_unique<CommunicatorTuner>(start, logger).release();
}

template <int version>
abi::Result start_plain(std::size_t ranks, std::size_t nodes, abi::Logger logger, void** context) {
  return contain([&] { start_tuner(context, {.version = version, .ranks = ranks, .nodes = nodes}, logger); });
}

template <int version>
abi::Result start_named(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes,
                        abi::Logger logger, abi::NvlinkDomains* domains, abi::Constants* constants) {
  return contain([&] {
    start_tuner(context, {version, communicator, ranks, nodes, domains, constants, nullptr}, logger);
  });
}

abi::Result start_v7(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes,
                     abi::Logger logger, abi::NvlinkDomains* domains, abi::ConstantsV7* constants) {
  return contain([&] { start_tuner(context, {7, communicator, ranks, nodes, domains, nullptr, constants}, logger); });
}

abi::Result choose_unseen(void* context, int function, std::size_t bytes, int collnet_support, int nvls_support,
                          int pipelined, int* algorithm, int* protocol, int* channels) {
  return contain([&] {
    if (auto* const tuner = tuner_of(context))
      tuner->choose_unseen({function, bytes, collnet_support, nvls_support, pipelined, algorithm, protocol, channels});
  });
}

abi::Result choose(void* context, int function, std::size_t bytes, int pipelined, float** costs, int algorithms,
                   int protocols, int registered, int* channels) {
  return contain([&] {
    if (auto* const tuner = tuner_of(context))
      tuner->choose(
          {function, bytes, pipelined, registered, reinterpret_cast<float*>(costs), algorithms, protocols, channels});
  });
}

abi::Result choose_unregistered(void* context, int function, std::size_t bytes, int pipelined, float** costs,
                                int algorithms, int protocols, int* channels) {
  return choose(context, function, bytes, pipelined, costs, algorithms, protocols, 0, channels);
}

abi::Result chunk(void* context, int function, std::size_t bytes, int algorithm, int protocol, int channels,
                  std::size_t* size) {
  return contain([&] {
    if (auto* const tuner = tuner_of(context)) tuner->chunk(function, bytes, algorithm, protocol, channels, size);
  });
}

abi::Result finalize(void* context) {
  return contain([&] { std::unique_ptr<CommunicatorTuner>(tuner_of(context)).reset(); });
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

const abi::TunerV2 ncclTunerPlugin_v2{p5::tuner::plugin_name, p5::tuner::start_plain<2>, p5::tuner::choose_unseen,
                                      p5::tuner::finalize};
const abi::TunerV3 ncclTunerPlugin_v3{p5::tuner::plugin_name, p5::tuner::start_plain<3>, p5::tuner::choose_unregistered,
                                      p5::tuner::finalize};
const abi::TunerV4 ncclTunerPlugin_v4{p5::tuner::plugin_name, p5::tuner::start_plain<4>, p5::tuner::choose,
                                      p5::tuner::finalize};
const abi::TunerV5 ncclTunerPlugin_v5{p5::tuner::plugin_name, p5::tuner::start_named<5>, p5::tuner::choose,
                                      p5::tuner::finalize};
const abi::TunerV6 ncclTunerPlugin_v6{p5::tuner::plugin_name, p5::tuner::start_named<6>, p5::tuner::choose,
                                      p5::tuner::finalize, p5::tuner::chunk};
const abi::TunerV7 ncclTunerPlugin_v7{p5::tuner::plugin_name, p5::tuner::start_v7, p5::tuner::choose,
                                      p5::tuner::finalize, p5::tuner::chunk};

bool p5::tuner::is_ours(const void* tuner) {
  const std::array<const void*, 6> all{&ncclTunerPlugin_v2, &ncclTunerPlugin_v3, &ncclTunerPlugin_v4,
                                       &ncclTunerPlugin_v5, &ncclTunerPlugin_v6, &ncclTunerPlugin_v7};
  return std::ranges::find(all, tuner) != all.end();
}
