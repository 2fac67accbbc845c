// The chained tuner: loads the library that P5BENCH_TUNER_CHAIN names and adapts its version of the interface.
#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "tuner/plugin/communicator_tuner.hpp"

namespace p5::tuner {

namespace {

struct CloseLibrary {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, CloseLibrary>;

// Restores the call where the tuner returns an error.
void choose_or_restore(const Call& call, const auto& choose) {
  const std::vector<float> before(call.costs,
                                  call.costs + static_cast<std::ptrdiff_t>(call.algorithms) * call.protocols);
  const int channels = *call.channels;
  if (choose(call) == abi::success) return;
  std::ranges::copy(before, call.costs);
  *call.channels = channels;
}

abi::Result choose_in_v2(const abi::TunerV2& tuner, void* context, const CallV2& call) {
  return tuner.choose(context, call.function, call.bytes, call.collnet_support, call.nvls_support, call.pipelined,
                      call.algorithm, call.protocol, call.channels);
}

// Translates a cost table for version 2, as NCCL versions with later interfaces do.
abi::Result choose_with(const abi::TunerV2& tuner, void* context, const Call& call) {
  const CostTable costs(call.costs, call.algorithms, call.protocols);
  const auto offered = [&](Algorithm algorithm) { return costs.available({algorithm, Protocol::simple}); };
  int algorithm = abi::undefined, protocol = abi::undefined;
  const abi::Result result = choose_in_v2(tuner, context,
                                          {.function = call.function,
                                           .bytes = call.bytes,
                                           .collnet_support = offered(Algorithm::collnet_chain),
                                           .nvls_support = offered(Algorithm::nvls) || offered(Algorithm::nvls_tree),
                                           .pipelined = call.pipelined,
                                           .algorithm = &algorithm,
                                           .protocol = &protocol,
                                           .channels = call.channels});
  if (algorithm < 0 || protocol < 0) return result;
  float* cost = costs.at(static_cast<Algorithm>(algorithm), static_cast<Protocol>(protocol));
  if (cost && *cost >= 0) *cost = 0;
  return result;
}

abi::Result choose_with(const abi::TunerV3& tuner, void* context, const Call& call) {
  return tuner.choose(context, call.function, call.bytes, call.pipelined, reinterpret_cast<float**>(call.costs),
                      call.algorithms, call.protocols, call.channels);
}

abi::Result choose_with(const auto& tuner, void* context, const Call& call) {
  return tuner.choose(context, call.function, call.bytes, call.pipelined, reinterpret_cast<float**>(call.costs),
                      call.algorithms, call.protocols, call.registered, call.channels);
}

// Copies the constants that both versions have.
void copy_constants(const auto& from, auto& to) {
  std::ranges::copy(as_bytes(std::span(from.base_latencies)), as_writable_bytes(std::span(to.base_latencies)).begin());
  std::ranges::copy(as_bytes(std::span(from.link_latencies)), as_writable_bytes(std::span(to.link_latencies)).begin());
  const std::size_t capabilities = std::min(std::size(from.bandwidths[0]), std::size(to.bandwidths[0]));
  for (std::size_t kind = 0; kind < std::size(from.bandwidths); ++kind)
    for (std::size_t capability = 0; capability < capabilities; ++capability)
      std::ranges::copy(from.bandwidths[kind][capability], to.bandwidths[kind][capability]);
}

// Starts a tuner without the newest compute capability. Its corrections of constants still reach NCCL.
abi::Result start_v5_or_v6(const auto& tuner, void** context, const Start& s, abi::Logger logger) {
  if (!s.constants_v7) return tuner.init(context, s.communicator, s.ranks, s.nodes, logger, s.domains, s.constants);
  abi::Constants constants{};
  copy_constants(*s.constants_v7, constants);
  const abi::Result result = tuner.init(context, s.communicator, s.ranks, s.nodes, logger, s.domains, &constants);
  if (result == abi::success) copy_constants(constants, *s.constants_v7);
  return result;
}

template <class Tuner, int version>
class LoadedTuner final : public ChainedTuner {
 public:
  LoadedTuner(Library library, const Tuner& tuner) : library_(std::move(library)), tuner_(tuner) {}
  ~LoadedTuner() override {
    if (started_ && tuner_.finalize) tuner_.finalize(context_);
  }
  LoadedTuner(const LoadedTuner&) = delete;
  LoadedTuner& operator=(const LoadedTuner&) = delete;

  bool start(const Start& s, abi::Logger logger) {
    if constexpr (version < 5)
      started_ = tuner_.init(s.ranks, s.nodes, logger, &context_) == abi::success;
    else if constexpr (version < 7)
      started_ = start_v5_or_v6(tuner_, &context_, s, logger) == abi::success;
    else
      started_ =
          tuner_.init(&context_, s.communicator, s.ranks, s.nodes, logger, s.domains, s.constants_v7) == abi::success;
    return started_;
  }

  void choose(const Call& call) override {
    choose_or_restore(call, [&](const Call& c) { return choose_with(tuner_, context_, c); });
  }

  void choose_v2(const CallV2& call) override {
    if constexpr (version == 2) {
      const int channels = *call.channels;
      if (choose_in_v2(tuner_, context_, call) == abi::success) return;
      *call.algorithm = *call.protocol = abi::undefined;
      *call.channels = channels;
    }
  }

  void chunk(int function, std::size_t bytes, int algorithm, int protocol, int channels, std::size_t* chunk) override {
    if constexpr (version >= 6) {
      const std::size_t before = *chunk;
      if (tuner_.chunk && tuner_.chunk(context_, function, bytes, algorithm, protocol, channels, chunk) != abi::success)
        *chunk = before;
    }
  }

 private:
  Library library_;  // keeps the code loaded that the other members point to
  const Tuner& tuner_;
  void* context_ = nullptr;
  bool started_ = false;
};

// Starts the tuner of this version. `found` is set where the library has it and this NCCL knows it; then older versions
// are not tried.
template <class Tuner, int version>
std::unique_ptr<ChainedTuner> start_as(Library& library, const Start& start, const Log& log, bool& found) {
  if (found || version > start.version) return nullptr;
  const std::string symbol = "ncclTunerPlugin_v" + std::to_string(version);
  const auto* tuner = static_cast<const Tuner*>(dlsym(library.get(), symbol.c_str()));
  if (!tuner || is_own_tuner(tuner)) return nullptr;
  found = true;
  auto chained_tuner = std::make_unique<LoadedTuner<Tuner, version>>(std::move(library), *tuner);
  if (!chained_tuner->start(start, log.logger())) return nullptr;
  log.inform("calls without a setting of ours go on to " + std::string(tuner->name) + " (" + symbol + ")");
  return chained_tuner;
}

}  // namespace

std::unique_ptr<ChainedTuner> start_chained_tuner(const Start& start, const Log& log) {
  const char* name = std::getenv("P5BENCH_TUNER_CHAIN");
  if (!name || !*name) return nullptr;
  static std::atomic_flag warned;
  Library library(dlopen(name, RTLD_NOW | RTLD_LOCAL));
  if (!library) {
    const char* why = dlerror();
    log.warn_once(warned, "P5BENCH_TUNER_CHAIN: " + std::string(why ? why : name) + "; going on without it");
    return nullptr;
  }
  bool found = false;
  std::unique_ptr<ChainedTuner> chained_tuner = start_as<abi::TunerV7, 7>(library, start, log, found);
  if (!found) chained_tuner = start_as<abi::TunerV6, 6>(library, start, log, found);
  if (!found) chained_tuner = start_as<abi::TunerV5, 5>(library, start, log, found);
  if (!found) chained_tuner = start_as<abi::TunerV4, 4>(library, start, log, found);
  if (!found) chained_tuner = start_as<abi::TunerV3, 3>(library, start, log, found);
  if (!found) chained_tuner = start_as<abi::TunerV2, 2>(library, start, log, found);
  if (!chained_tuner)
    log.warn_once(warned, "P5BENCH_TUNER_CHAIN: " + std::string(name) +
                              (found ? " does not start"
                                     : " has no other tuner of version 2 to " + std::to_string(start.version)) +
                              "; going on without it");
  return chained_tuner;
}

}  // namespace p5::tuner
