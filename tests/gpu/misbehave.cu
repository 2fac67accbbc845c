// Preloaded into workers by tests: at a chosen order of a chosen rank the process is killed, stopped, or its device
// gets a kernel that never ends. P5BENCH_MISBEHAVE: steps separated by commas, KIND@RANK:ORDER#N; KIND
// kill|stop|endless, or note, which only writes its note, or spoil; ORDER a name of bench/backends/shared_page.hpp, N
// counted from 1 over the worker's life. spoil changes the first word of each input of a device-initiated collective
// whose inputs and outputs have P5BENCH_SPOIL bytes, a multiple of 512. Each step ends all workers; their replacements
// take the next step: P5BENCH_MISBEHAVE_NOTES is a folder with one file for each step that has been taken.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <nccl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "bench/backends/nccl/peer_kernels.hpp"
#include "bench/backends/shared_page.hpp"

namespace {

using namespace p5::protocol;

struct Step {
  std::string kind;
  int rank = 0;
  std::uint32_t order = 0;
  int number = 0;
};

std::vector<Step> read_steps() {
  std::vector<Step> steps;
  std::istringstream text(std::getenv("P5BENCH_MISBEHAVE") ? std::getenv("P5BENCH_MISBEHAVE") : "");
  for (std::string each; std::getline(text, each, ',');) {
    const std::size_t at = each.find('@'), colon = each.find(':'), hash = each.find('#');
    const Step step{each.substr(0, at), std::atoi(each.c_str() + at + 1),
                    order_number(std::string_view(each).substr(colon + 1, hash - colon - 1)),
                    std::atoi(each.c_str() + hash + 1)};
    if (step.order == 0 || step.number == 0) {
      std::fprintf(stderr, "P5BENCH_MISBEHAVE: '%s' is no step such as kill@1:verify#1\n", each.c_str());
      std::abort();
    }
    steps.push_back(step);
  }
  return steps;
}

std::string note_of(std::size_t step) {
  const char* const folder = std::getenv("P5BENCH_MISBEHAVE_NOTES");
  return std::string(folder ? folder : "/nonexistent") + "/" + std::to_string(step);
}

__global__ void endless(const volatile int* never) {
  while (*never == 0) {
  }
}

void endless_on_host(void**, unsigned, unsigned) {
  for (;;) pause();
}

void launch_endless(cudaStream_t stream) {
  using RegisterTwin = void (*)(const void*, void (*)(void**, unsigned, unsigned), const unsigned*, unsigned);
  const unsigned size = sizeof(void*);
  if (const auto with = reinterpret_cast<RegisterTwin>(dlsym(RTLD_DEFAULT, "p5bench_fake_register_twin")))
    with(reinterpret_cast<const void*>(&endless), &endless_on_host, &size, 1);
  void* never = nullptr;
  cudaMallocHost(&never, sizeof(int));
  *static_cast<int*>(never) = 0;
  void* arguments[] = {&never};
  cudaLaunchKernel(reinterpret_cast<const void*>(&endless), dim3(1), dim3(1), arguments, 0, stream);
}

struct Window {
  std::byte* memory = nullptr;
  std::size_t bytes = 0;
};
Window last_window;

// The buffers lie as in bench/backends/nccl/buffers.cpp: guards around each, all inputs, then all outputs.
void spoil_inputs(cudaStream_t stream) {
  constexpr std::size_t guard = 512;
  const char* const text = std::getenv("P5BENCH_SPOIL");
  const std::size_t stride = (text ? std::strtoull(text, nullptr, 10) : 0) + 2 * guard;
  const std::size_t slots = (last_window.bytes - p5::nccl::peer_flags_bytes) / (2 * stride);
  for (std::size_t slot = 0; slot < slots; ++slot)
    cudaMemsetAsync(last_window.memory + p5::nccl::peer_flags_bytes + guard + slot * stride, 0x5a, sizeof(float),
                    stream);
}

std::size_t steps_taken() {
  std::size_t taken = 0;
  while (access(note_of(taken).c_str(), F_OK) == 0) ++taken;
  return taken;
}

// The step is chosen when the worker starts: a worker that begins late must not take the next step in the same case.
const std::size_t mine = steps_taken();

int my_rank = -1;

// The number of this order among all of its name; only the worker's one thread for orders comes here.
int number_of_order(const SharedPage& page, std::uint32_t order) {
  static int numbers[order_names.size()] = {};
  static std::uint64_t last = 0;
  if (page.orders.load() != last) ++numbers[order];
  last = page.orders.load();
  return numbers[order];
}

void misbehave_when_due(cudaStream_t stream) {
  static const std::vector<Step> steps = read_steps();
  static const auto* const page =
      static_cast<const SharedPage*>(mmap(nullptr, sizeof(SharedPage), PROT_READ, MAP_SHARED, page_descriptor, 0));
  static bool within = false;
  if (within || mine >= steps.size() || page == MAP_FAILED) return;
  const std::uint32_t order = page->order.load();
  const int number = number_of_order(*page, order);
  const Step& step = steps[mine];
  if (step.rank != my_rank || step.order != order || step.number != number) return;
  const int note = open(note_of(mine).c_str(), O_CREAT | O_EXCL | O_WRONLY, 0644);
  if (note < 0) return;
  close(note);
  within = true;
  if (step.kind == "endless") launch_endless(stream);
  if (step.kind == "spoil" && last_window.memory) spoil_inputs(stream);
  if (step.kind == "kill") raise(SIGKILL);
  if (step.kind == "stop") raise(SIGSTOP);
  within = false;
}

template <class Function>
Function* next_of(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ncclResult_t ncclCommInitRank(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank) {
  static auto* const next = next_of<decltype(ncclCommInitRank)>("ncclCommInitRank");
  my_rank = rank;
  return next(communicator, ranks, id, rank);
}

ncclResult_t ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t communicator, cudaStream_t stream) {
  static auto* const next = next_of<decltype(ncclAllReduce)>("ncclAllReduce");
  misbehave_when_due(stream);
  return next(input, output, count, type, operation, communicator, stream);
}

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  static auto* const next =
      next_of<cudaError_t(const void*, dim3, dim3, void**, size_t, cudaStream_t)>("cudaLaunchKernel");
  misbehave_when_due(stream);
  return next(kernel, grid, block, arguments, shared_bytes, stream);
}

#if NCCL_VERSION_CODE >= 22700
ncclResult_t ncclCommWindowRegister(ncclComm_t communicator, void* memory, size_t bytes, ncclWindow_t* window,
                                    int flags) {
  static auto* const next = next_of<decltype(ncclCommWindowRegister)>("ncclCommWindowRegister");
  last_window = {static_cast<std::byte*>(memory), bytes};
  return next(communicator, memory, bytes, window, flags);
}
#endif

// An order to close, with CUDA graphs.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  static auto* const next = next_of<decltype(cudaGraphExecDestroy)>("cudaGraphExecDestroy");
  misbehave_when_due(nullptr);
  return next(graph);
}

// An order to quit.
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  static auto* const next = next_of<decltype(ncclCommAbort)>("ncclCommAbort");
  misbehave_when_due(nullptr);
  return next(communicator);
}

}  // extern "C"
