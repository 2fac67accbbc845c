// The binary interface between NCCL and tuner plugins, versions 2 to 7. NCCL 2.21 to 2.32 fix the layout in memory, so
// nothing here may change (tests/tuner/abi_test.cpp). NCCL installs no header for it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace p5::tuner::abi {

// ncclResult_t
using Result = int;
inline constexpr Result success = 0;
inline constexpr Result system_error = 2, internal_error = 3, invalid_usage = 5;

// ncclDebugLogger_t; `format` is printf's.
using Logger = void (*)(int level, unsigned long subsystems, const char* file, int line, const char* format, ...);
inline constexpr int warn = 2, info = 3;                   // levels
inline constexpr unsigned long init = 0x1, tuning = 0x40;  // subsystems

// The number of ncclFunc_t values that NCCL queries tuners about: broadcast to all-reduce.
inline constexpr int functions = 5;
// Rows and columns of the cost table. Up to NCCL 2.22 it has no row for PAT.
inline constexpr int algorithms = 7, algorithms_without_pat = 6, protocols = 3;
inline constexpr int undefined = -1;
inline constexpr float unavailable = -1;  // in the cost table, whose other entries are microseconds

// The constants of NCCL's performance model, for plugins that correct them.
template <int compute_capabilities>
struct ConstantsFor {
  double base_latencies[algorithms][protocols];
  double link_latencies[3][algorithms][protocols];
  double bandwidths[5][compute_capabilities][3];  // five kinds, by compute capability and number of nodes
};
using Constants = ConstantsFor<4>;    // versions 5 and 6: Volta to Blackwell
using ConstantsV7 = ConstantsFor<5>;  // and its successor
struct NvlinkDomains {
  int domains, least_ranks, most_ranks;
};

// Common to all versions: NCCL calls `init` for each communicator, before its first call and again for splits. `choose`
// (getCollInfo) may change the cost table, from which NCCL takes the lowest entry that is not negative, and the number
// of channels, which is 0 before. When one of these returns an error, NCCL fails the user's call; after `init` that is
// the call which makes the communicator.
struct TunerV2 {
  const char* name;
  Result (*init)(std::size_t ranks, std::size_t nodes, Logger logger, void** context);
  Result (*choose)(void* context, int function, std::size_t bytes, int collnet_support, int nvls_support, int pipelined,
                   int* algorithm, int* protocol, int* channels);
  Result (*finalize)(void* context);
};

// `costs` is float[algorithms][protocols], in spite of its type.
struct TunerV3 {
  const char* name;
  Result (*init)(std::size_t ranks, std::size_t nodes, Logger logger, void** context);
  Result (*choose)(void* context, int function, std::size_t bytes, int pipelined, float** costs, int algorithms,
                   int protocols, int* channels);
  Result (*finalize)(void* context);
};

struct TunerV4 {
  const char* name;
  Result (*init)(std::size_t ranks, std::size_t nodes, Logger logger, void** context);
  Result (*choose)(void* context, int function, std::size_t bytes, int pipelined, float** costs, int algorithms,
                   int protocols, int registered, int* channels);
  Result (*finalize)(void* context);
};

struct TunerV5 {
  const char* name;
  Result (*init)(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes, Logger logger,
                 NvlinkDomains* domains, Constants* constants);
  Result (*choose)(void* context, int function, std::size_t bytes, int pipelined, float** costs, int algorithms,
                   int protocols, int registered, int* channels);
  Result (*finalize)(void* context);
};

// `chunk` (getChunkSize) may be null. For rings and trees its `bytes` are one channel's part and its channels are 1, so
// they do not identify the call (NCCL 2.30.7, scheduleCollTasksToPlan).
struct TunerV6 {
  const char* name;
  Result (*init)(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes, Logger logger,
                 NvlinkDomains* domains, Constants* constants);
  Result (*choose)(void* context, int function, std::size_t bytes, int pipelined, float** costs, int algorithms,
                   int protocols, int registered, int* channels);
  Result (*finalize)(void* context);
  Result (*chunk)(void* context, int function, std::size_t bytes, int algorithm, int protocol, int channels,
                  std::size_t* chunk);
};

struct TunerV7 {
  const char* name;
  Result (*init)(void** context, std::uint64_t communicator, std::size_t ranks, std::size_t nodes, Logger logger,
                 NvlinkDomains* domains, ConstantsV7* constants);
  Result (*choose)(void* context, int function, std::size_t bytes, int pipelined, float** costs, int algorithms,
                   int protocols, int registered, int* channels);
  Result (*finalize)(void* context);
  Result (*chunk)(void* context, int function, std::size_t bytes, int algorithm, int protocol, int channels,
                  std::size_t* chunk);
};

}  // namespace p5::tuner::abi
