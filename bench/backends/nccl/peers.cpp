#include "bench/backends/nccl/operations.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#ifdef P5BENCH_NCCL_DEVICE_API
#include <nccl_device.h>
#endif

#include <array>
#include <atomic>
#include <cstring>
#include <new>

#include "bench/base/error.hpp"

namespace p5::nccl {

namespace {

#ifdef P5BENCH_NCCL_DEVICE_API

template <class Call>
Call* found(const char* name) {
  return reinterpret_cast<Call*>(dlsym(RTLD_DEFAULT, name));
}

// NCCL from 2.29 on accepts programs that were built with an earlier version; 2.28 accepts only its own.
bool serves(int library, int header) {
  constexpr int first_lasting = 22900;
  return header < first_lasting ? library / 100 == header / 100 : library >= header;
}

// A device communicator without resources of its own, which NCCL makes wherever it has symmetric memory.
ncclResult_t try_device_communicator(ncclComm_t communicator) {
  // Large enough for the structures of all NCCL 2.28.x, which grew from release to release.
  struct Storage {
    union {
      ncclDevComm made;
      ncclDevCommRequirements wanted;
    };
    std::array<std::byte, 4096> more;
  };
  Storage made, wanted;
  std::memset(&made, 0, sizeof made);
  std::memset(&wanted, 0, sizeof wanted);
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER
  wanted.wanted = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#endif
  const ncclResult_t result =
      found<decltype(ncclDevCommCreate)>("ncclDevCommCreate")(communicator, &wanted.wanted, &made.made);
  if (result == ncclSuccess)
    check(found<decltype(ncclDevCommDestroy)>("ncclDevCommDestroy")(communicator, &made.made), "ncclDevCommDestroy");
  return result;
}

#endif

}  // namespace

std::string Peers::unavailable([[maybe_unused]] ncclComm_t communicator) {
#ifdef P5BENCH_NCCL_DEVICE_API
  const int library = library_number();
  if (library < 22800) return fmt::format("NCCL's device API is of 2.28; this is {}", library_version());
  if (!serves(library, NCCL_VERSION_CODE))
    return fmt::format(
        "NCCL's device API of {} is not that of {}.{}, with which this worker is built; build it with the NCCL that it "
        "runs with",
        library_version(), NCCL_MAJOR, NCCL_MINOR);
  const auto team_of = found<decltype(ncclTeamLsa(ncclComm_t{}))(ncclComm_t)>("ncclTeamLsa");
  if (!team_of || !found<void>("ncclDevCommCreate") || !found<void>("ncclDevCommDestroy"))
    return fmt::format("this {} has no device API", library_version());
  int ranks = 0;
  check(ncclCommCount(communicator, &ranks), "ncclCommCount");
  if (ranks > PeerMemory::most)
    return fmt::format("groups of at most {} ranks perform it; this one has {}", PeerMemory::most, ranks);
  if (const int near = team_of(communicator).nRanks; near != ranks)
    return fmt::format("of the {} ranks of a group only {} reach each other's memory by loads and stores", ranks, near);
  const ncclResult_t result = try_device_communicator(communicator);
  if (result == ncclInvalidUsage)
    return "NCCL has no symmetric memory here: it needs all GPUs of the group to reach each other over NVLink or PCIe, "
           "and none of NCCL_P2P_DISABLE=1, NCCL_CUMEM_ENABLE=0 and NCCL_WIN_ENABLE=0";
  check(result, "ncclDevCommCreate");
  return "";
#else
  return fmt::format("it needs a worker that is built with NCCL 2.28 or later; this one is built with {}.{}",
                     NCCL_MAJOR, NCCL_MINOR);
#endif
}

Peers::Peers(ncclComm_t communicator, const Member& self, std::byte* memory, std::uint64_t bytes, Queue& queue)
    : communicator_(communicator), memory_(memory), stop_(make_pinned_memory(sizeof(unsigned))) {
  new (stop_.get()) unsigned(0);
  peers_.rank = self.rank;
  peers_.ranks = self.ranks;
  void* stop_there = nullptr;
  check(cudaHostGetDevicePointer(&stop_there, stop_.get(), 0), "cudaHostGetDevicePointer");
  peers_.stop = static_cast<const unsigned*>(stop_there);
  // Done before any rank knows the others' memory.
  check(cudaMemsetAsync(memory, 0, peer_flags_bytes, queue.stream()), "cudaMemsetAsync");
  queue.finish();
  check(optional_calls().window_register(communicator, memory, bytes, &window_, symmetric_window),
        "ncclCommWindowRegister");
  const DeviceMemory at = make_device_memory(sizeof peers_.at);
  find_peers(queue.stream(), window_, self.ranks, static_cast<std::byte**>(at.get()));
  check(cudaMemcpyAsync(peers_.at.data(), at.get(), static_cast<std::size_t>(self.ranks) * sizeof peers_.at[0],
                        cudaMemcpyDeviceToHost, queue.stream()),
        "cudaMemcpyAsync");
  queue.finish();
}

Peers::~Peers() {
  if (window_) optional_calls().window_deregister(communicator_, window_);
}

PeerBuffers Peers::buffers(const void* input, const void* output) const {
  const auto offset = [&](const void* at) {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(at) - memory_);
  };
  return {offset(input), offset(output)};
}

void Peers::abandon() {
  std::atomic_ref(*static_cast<unsigned*>(stop_.get())).store(1);
  window_ = nullptr;
}

}  // namespace p5::nccl
