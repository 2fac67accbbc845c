#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tuner/plugin/policy.hpp"

namespace p5::tuner {

// ---- The tuner of one communicator, behind all versions of NCCL's interface, and the chained tuner behind it.

// NCCL's arguments to a tuner's initialization; null where the version has no such argument.
struct Start {
  int version = 2;
  std::uint64_t communicator = 0;
  std::size_t ranks = 0, nodes = 0;
  abi::NvlinkDomains* domains = nullptr;
  abi::Constants* constants = nullptr;
  abi::ConstantsV7* constants_v7 = nullptr;
};

// One call as NCCL describes it.
struct Call {
  int function = 0;
  std::size_t bytes = 0;
  int pipelined = 1;
  int registered = 0;  // 0 also where the version has no such argument
  float* costs = nullptr;
  int algorithms = 0, protocols = 0;
  int* channels = nullptr;
};

// One call in version 2, which has no cost table; the tuner names its choice.
struct CallV2 {
  int function = 0;
  std::size_t bytes = 0;
  int collnet_support = 0, nvls_support = 0, pipelined = 1;
  int *algorithm = nullptr, *protocol = nullptr, *channels = nullptr;
};

// The tuner that NCCL would have loaded without ours, because NCCL loads only one (on AWS, aws-ofi-nccl's). It gets the
// calls without an override. Its errors count as no answer: NCCL would fail the user's call.
class ChainedTuner {
 public:
  virtual ~ChainedTuner() = default;
  virtual void choose(const Call& call) = 0;
  virtual void choose_v2(const CallV2& call) = 0;
  virtual void chunk(int function, std::size_t bytes, int algorithm, int protocol, int channels,
                     std::size_t* chunk) = 0;
};

// Loads the library that P5BENCH_TUNER_CHAIN names and starts its tuner for one communicator, in the highest version
// that both it and this NCCL have, which NCCL itself would have used. Null when the variable is not set, or with a
// warning when the start fails.
std::unique_ptr<ChainedTuner> start_chained_tuner(const Start& start, const Log& log);

class CommunicatorTuner {
 public:
  CommunicatorTuner(const Start& start, abi::Logger logger);

  // Changes costs and channels of a call that has an override which NCCL offers. Other calls go to the chained tuner,
  // or stay as they are.
  void choose(const Call& call);
  void choose_v2(const CallV2& call);
  void chunk(int function, std::size_t bytes, int algorithm, int protocol, int channels, std::size_t* chunk);

 private:
  std::optional<Override> override_for(int function, std::size_t bytes, bool registered) const;
  void remember_chunk(int function, const Setting& chosen);
  std::atomic<std::uint64_t>* chunk_of(int function, int algorithm, int protocol);

  Start start_;
  Log log_;
  bool constrained_;  // the operator has set NCCL_ALGO or NCCL_PROTO
  std::unique_ptr<Policy> policy_;
  std::unique_ptr<ChainedTuner> chained_tuner_;
  // Chunk sizes of the last decisions for each function, algorithm and protocol; 0: none by us. NCCL queries chunk
  // sizes after choices, without naming the call. The last decision is the same on all ranks, since all make the same
  // calls.
  std::array<std::atomic<std::uint64_t>, std::size_t{abi::functions} * abi::algorithms * abi::protocols> chunks_{};
};

// True for the structures that this program or library exports.
bool is_own_tuner(const void* tuner);

namespace {

Costs copy_of(const CostTable& table) {
  Costs costs = no_costs();
  table.for_each([&](const Setting& setting, const float& cost) {
    costs[static_cast<std::size_t>(setting.algorithm) * abi::protocols + static_cast<std::size_t>(setting.protocol)] =
        cost;
  });
  return costs;
}

bool is_constrained_by(const char* name) {
  const char* const value = std::getenv(name);
  return value && *value;
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
      constrained_(is_constrained_by("NCCL_ALGO") || is_constrained_by("NCCL_PROTO")),
      policy_(make_policy({start.ranks, start.nodes, start.version >= first_interface_with_registration}, log_)),
      chained_tuner_(start_chained_tuner(start, log_)) {}

std::optional<Override> CommunicatorTuner::override_for(int function, std::size_t bytes, bool registered) const {
  if (!policy_ || function < 0 || function >= abi::functions) return std::nullopt;
  return policy_->override_of({static_cast<Function>(function), bytes, registered});
}

void CommunicatorTuner::choose(const Call& call) {
  const CostTable table(call.costs, call.algorithms, call.protocols);
  const std::optional<Override> found = override_for(call.function, call.bytes, call.registered != 0);
  TunedCall tuned{.costs = copy_of(table),
                  .cheapest = {},
                  .granted = found && table.available(found->setting) && !table.relegated(found->setting)};
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
  const std::optional<Override> found = override_for(call.function, call.bytes, false);
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

// ---- The chained tuner: loads the library that P5BENCH_TUNER_CHAIN names and adapts its version of the interface.

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
  log.inform("calls without a setting in the table are passed to " + std::string(tuner->name) + " (" + symbol + ")");
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
    const std::string text = "P5BENCH_TUNER_CHAIN: " + std::string(why ? why : name) + "; continuing without it";
    if (warned.test_and_set()) return nullptr;
    log.warn(text);
    // Few jobs enable NCCL's warnings, and another host may have the file.
    std::fprintf(stderr,
                 "libnccl-tuner-p5bench.so: on %s: %s. Ranks that have it choose other algorithms, and the job hangs: "
                 "have the same file on all hosts, or unset P5BENCH_TUNER_CHAIN on all ranks\n",
                 host_name().c_str(), text.c_str());
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
                              "; continuing without it");
  return chained_tuner;
}

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
