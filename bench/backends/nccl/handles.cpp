#include "bench/backends/nccl/handles.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "bench/base/error.hpp"

namespace p5::nccl {

namespace {

template <class Call>
void look_up(Call& call, const char* name) {
  call = reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

const OptionalCalls& optional_calls() {
  static const OptionalCalls calls = [] {
    OptionalCalls found;
    look_up(found.get_last_error, "ncclGetLastError");
    look_up(found.mem_alloc, "ncclMemAlloc");
    look_up(found.mem_free, "ncclMemFree");
    look_up(found.comm_register, "ncclCommRegister");
    look_up(found.comm_deregister, "ncclCommDeregister");
    look_up(found.window_register, "ncclCommWindowRegister");
    look_up(found.window_deregister, "ncclCommWindowDeregister");
    look_up(found.comm_shrink, "ncclCommShrink");
    look_up(found.comm_revoke, "ncclCommRevoke");
    look_up(found.comm_get_unique_id, "ncclCommGetUniqueId");
    look_up(found.comm_grow, "ncclCommGrow");
    return found;
  }();
  return calls;
}

int library_number() {
  int code = 0;
  check(ncclGetVersion(&code), "ncclGetVersion");
  return code;
}

int compute_capability() {
  int device = 0, major = 0, minor = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "cudaDeviceGetAttribute");
  return 10 * major + minor;
}

std::string library_version() {
  const int code = library_number();
  return fmt::format("NCCL {}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

namespace {

// `header`: the first one that has it, since the worker sets a member of NCCL's structure.
struct CtaPolicySince {
  std::string_view name;
  int number, version;
  std::string_view written;
};
constexpr std::array cta_policies_since{CtaPolicySince{"efficiency", 1, 22700, "2.27"},
                                        CtaPolicySince{"zero", 2, 22800, "2.28"}};

const CtaPolicySince* find_cta_policy(const std::string& policy) {
  const auto* const found = std::ranges::find(cta_policies_since, policy, &CtaPolicySince::name);
  return found == cta_policies_since.end() ? nullptr : found;
}

}  // namespace

std::string no_cta_policy(const std::string& policy) {
  const CtaPolicySince* const wanted = find_cta_policy(policy);
  if (!wanted) return "";
  if (NCCL_VERSION_CODE < 22700)
    return fmt::format(
        "CTA policy {} needs a worker that is built with NCCL 2.27 or later; this one is built with {}.{}", policy,
        NCCL_MAJOR, NCCL_MINOR);
  if (library_number() < wanted->version)
    return fmt::format("CTA policy {} needs NCCL {}; this is {}", policy, wanted->written, library_version());
  return "";
}

bool set_cta_policy([[maybe_unused]] ncclConfig_t& config, const std::string& policy) {
  const CtaPolicySince* const wanted = find_cta_policy(policy);
  if (!wanted || !no_cta_policy(policy).empty()) return false;
#if NCCL_VERSION_CODE >= 22700
  config.CTAPolicy = wanted->number;
#endif
  return true;
}

std::string library_path() {
  Dl_info info{};
  const bool found = dladdr(reinterpret_cast<const void*>(&ncclGetUniqueId), &info) != 0;
  return found && info.dli_fname ? info.dli_fname : "";
}

void check(cudaError_t result, std::string_view call) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // clears the error, which the next call would report again
  throw CaseError(fmt::format("{}: {} ({}, {})", call, cudaGetErrorString(result), cudaGetErrorName(result),
                              static_cast<int>(result)));
}

void check(ncclResult_t result, std::string_view call) {
  if (result == ncclSuccess) return;
  std::string text = fmt::format("{}: {} ({})", call, ncclGetErrorString(result), static_cast<int>(result));
  if (const auto last_error = optional_calls().get_last_error)
    if (const char* noted = last_error(nullptr); noted && *noted) text += fmt::format(": {}", noted);
  // The cause is at another rank, which reports more.
  if (result == ncclRemoteError) throw StalledError(text);
  throw CaseError(text);
}

bool has_ended(cudaError_t state, std::string_view call) {
  if (state == cudaErrorNotReady) return false;
  check(state, call);
  return true;
}

Stream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return Stream(stream);
}

Event make_timing_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  return Event(event);
}

Event make_marker_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return Event(event);
}

GraphLaunch capture(cudaStream_t stream, const std::function<void()>& queue) {
  using Graph = Owned<cudaGraph_t, cudaGraphDestroy>;
  // Other threads, such as NCCL's, may use CUDA during the capture.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  cudaGraph_t captured = nullptr;
  try {
    queue();
  } catch (...) {
    cudaStreamEndCapture(stream, &captured);
    const Graph discarded(captured);
    cudaGetLastError();
    throw;
  }
  check(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture");
  const Graph graph(captured);
  cudaGraphExec_t launch = nullptr;
  check(cudaGraphInstantiateWithFlags(&launch, captured, 0), "cudaGraphInstantiateWithFlags");
  return GraphLaunch(launch);
}

DeviceMemory make_device_memory(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), fmt::format("cudaMalloc of {} bytes", bytes));
  return DeviceMemory(memory);
}

PinnedMemory make_pinned_memory(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped), fmt::format("cudaHostAlloc of {} bytes", bytes));
  return PinnedMemory(memory);
}

void leave(std::vector<Communicator> communicators) {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  std::vector<ncclResult_t> results(communicators.size(), ncclSuccess);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < communicators.size(); ++i)
      threads.emplace_back([&result = results[i], handle = communicators[i].release(), device] {
        cudaSetDevice(device);
        result = ncclCommDestroy(handle);
      });
  }
  for (const ncclResult_t result : results) check(result, "ncclCommDestroy");
}

}  // namespace p5::nccl
