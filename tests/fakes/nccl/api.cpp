// NCCL's API for communicators. Operations are in calls.cpp.
#include <nccl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/fakes/cuda/fake.hpp"
#include "tests/fakes/nccl/handles.hpp"

namespace {

using namespace p5::fake_nccl;

constexpr unsigned config_magic = 0xcafebeef;

// True for blocking calls; nothing if the configuration is invalid.
std::optional<bool> blocking_by(const ncclConfig_t* config, bool inherited) {
  if (config == nullptr) return inherited;
  if (config->magic != config_magic || config->size > sizeof(ncclConfig_t)) return std::nullopt;
  if (config->blocking == NCCL_CONFIG_UNDEF_INT) return inherited;
  return config->blocking != 0;
}

// The policy that a configuration asks for; 0 is the default.
int cta_policy_of([[maybe_unused]] const ncclConfig_t* config) {
#if NCCL_VERSION_CODE >= 22700
  if (config && config->CTAPolicy != NCCL_CONFIG_UNDEF_INT) return config->CTAPolicy;
#endif
  return 0;
}

ncclResult_t start_joining(ncclComm_t* handle, const std::shared_ptr<Communicator>& communicator,
                           const std::string& name) {
  *handle = add_handle(communicator);
  if (communicator->blocking) {
    const ncclResult_t result = communicator->join(name);
    if (result == ncclSuccess) return result;
    remove_handle(std::exchange(*handle, nullptr));
    return refuse(result, *communicator->words() ? communicator->words() : "the communicator did not come together");
  }
  std::thread([communicator, name] { communicator->join(name); }).detach();
  return ncclInProgress;
}

ncclResult_t init(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank, const ncclConfig_t* config) {
  if (handle == nullptr) return refuse(ncclInvalidArgument, "there is no place for the communicator");
  *handle = nullptr;
  if (!faults().problem.empty()) return refuse(ncclInvalidUsage, faults().problem);
  if (in_group()) return refuse(ncclInvalidUsage, "the fake makes no communicators inside a group");
  if (ranks < 1 || rank < 0 || rank >= ranks) return refuse(ncclInvalidArgument, "the rank is not below the ranks");
  if (id.internal[0] != '/' || id.internal[NCCL_UNIQUE_ID_BYTES - 1] != 0)
    return refuse(ncclInvalidArgument, "the unique id does not come from the fake's ncclGetUniqueId");
  const std::optional<bool> blocking = blocking_by(config, true);
  if (!blocking) return refuse(ncclInvalidArgument, "the configuration was not initialized");
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return refuse(ncclUnhandledCudaError, "there is no device");
  set_process_rank(rank);
  return start_joining(handle, std::make_shared<Communicator>(rank, ranks, device, *blocking), id.internal);
}

// NCCL has it where all GPUs reach each other's memory, unless a variable forbids it. Versions before 2.27 do not ask.
[[maybe_unused]] bool has_symmetric_memory([[maybe_unused]] Communicator& communicator) {
#ifdef P5BENCH_FAKE_DEVICE_API
  const char* const allowed = std::getenv("NCCL_WIN_ENABLE");
  return communicator.lsa_ranks() == communicator.ranks && !(allowed && std::atoi(allowed) == 0);
#else
  return false;
#endif
}

// The ranks of `votes` that have the color of `own`, in the order of the new communicator.
std::vector<int> members(const std::vector<Vote>& votes, int color) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < votes.size(); ++i)
    if (votes[i].color == color) ranks.push_back(static_cast<int>(i));
  std::stable_sort(ranks.begin(), ranks.end(), [&](int left, int right) {
    return votes[static_cast<std::size_t>(left)].key < votes[static_cast<std::size_t>(right)].key;
  });
  return ranks;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return refuse(ncclInvalidArgument, "there is no place for the version");
  const char* const other = std::getenv("P5BENCH_FAKE_NCCL_VERSION");
  *version = other ? std::atoi(other) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (fake)";
    case ncclSystemError:
      return "unhandled system error (fake)";
    case ncclInternalError:
      return "internal error (fake)";
    case ncclInvalidArgument:
      return "invalid argument (fake)";
    case ncclInvalidUsage:
      return "invalid usage (fake)";
    case ncclRemoteError:
      return "remote process exited or there was a network error (fake)";
    case ncclInProgress:
      return "in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t handle) {
  const auto communicator = find_handle(handle);
  return communicator && *communicator->words() != 0 ? communicator->words() : failure_context().c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return refuse(ncclInvalidArgument, "there is no place for the unique id");
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "%s", new_segment_name().c_str());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank) {
  return init(handle, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return init(handle, ranks, id, rank, config);
}

ncclResult_t ncclCommSplit(ncclComm_t parent_handle, int color, int key, ncclComm_t* handle, ncclConfig_t* config) {
  const auto parent = find_handle(parent_handle);
  if (!parent || handle == nullptr) return refuse(ncclInvalidArgument, "no communicator, or no place for a new one");
  *handle = nullptr;
  if (in_group()) return refuse(ncclInvalidUsage, "the fake makes no communicators inside a group");
  if (const ncclResult_t state = parent->state()) return refuse(usable(state), "the parent is not ready");
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR) return refuse(ncclInvalidArgument, "a color is not negative");
  const std::optional<bool> blocking = blocking_by(config, parent->blocking);
  if (!blocking) return refuse(ncclInvalidArgument, "the configuration was not initialized");
  if (const char* const wanted = std::getenv("P5BENCH_FAKE_CTA_POLICY");
      wanted && std::atoi(wanted) != cta_policy_of(config))
    return refuse(ncclInvalidUsage, "the communicator has not the CTA policy of P5BENCH_FAKE_CTA_POLICY");
  const auto votes = parent->vote({color, key});
  if (!votes) return refuse(ncclInternalError, "the parent was aborted");
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  const std::vector<int> ranks = members(*votes, color);
  const auto rank = std::find(ranks.begin(), ranks.end(), parent->rank) - ranks.begin();
  const std::string name = parent->name() + "-" + std::to_string(parent->splits()) + "." + std::to_string(color);
  return start_joining(
      handle,
      std::make_shared<Communicator>(static_cast<int>(rank), static_cast<int>(ranks.size()), parent->device, *blocking),
      name);
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  const auto communicator = find_handle(handle);
  if (!communicator) return refuse(ncclInvalidArgument, "no communicator");
  communicator->finalize();
  if (communicator->blocking) communicator->drain();
  return communicator->state();
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  const auto communicator = remove_handle(handle);
  if (!communicator) return refuse(ncclInvalidArgument, "no communicator");
  communicator->drain();
  communicator->take_time_to("destroy");
  const bool forgotten = communicator->holds_buffers();
  communicator->close();
  return forgotten ? refuse(ncclInvalidUsage, "buffers are still registered with the communicator") : ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  const auto communicator = remove_handle(handle);
  if (!communicator) return refuse(ncclInvalidArgument, "no communicator");
  communicator->abort();
  communicator->close();
  return ncclSuccess;
}

#ifdef NCCL_REVOKE_DEFAULT
// The fake has no operation in flight when it is called.
ncclResult_t ncclCommRevoke(ncclComm_t handle, int flags) {
  const auto communicator = find_handle(handle);
  if (!communicator || flags != NCCL_REVOKE_DEFAULT) return refuse(ncclInvalidArgument, "no communicator, or flags");
  communicator->drain();
  return ncclSuccess;
}
#endif

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  const auto communicator = find_handle(handle);
  if (!communicator || error == nullptr) return refuse(ncclInvalidArgument, "no communicator, or no place");
  *error = communicator->state();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int* count) {
  const auto communicator = find_handle(handle);
  if (!communicator || count == nullptr) return refuse(ncclInvalidArgument, "no communicator, or no place");
  *count = communicator->ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t handle, int* rank) {
  const auto communicator = find_handle(handle);
  if (!communicator || rank == nullptr) return refuse(ncclInvalidArgument, "no communicator, or no place");
  *rank = communicator->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t handle, int* device) {
  const auto communicator = find_handle(handle);
  if (!communicator || device == nullptr) return refuse(ncclInvalidArgument, "no communicator, or no place");
  *device = communicator->device;
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void** address, std::size_t bytes) {
  return p5bench_fake_malloc_shareable(address, bytes) == cudaSuccess ? ncclSuccess
                                                                      : refuse(ncclUnhandledCudaError, "out of memory");
}

ncclResult_t ncclMemFree(void* address) {
  return cudaFree(address) == cudaSuccess ? ncclSuccess : refuse(ncclUnhandledCudaError, "not an allocation");
}

ncclResult_t ncclCommRegister(const ncclComm_t handle, void* memory, std::size_t bytes, void** registered) {
  const auto communicator = find_handle(handle);
  if (!communicator || registered == nullptr) return refuse(ncclInvalidArgument, "no communicator, or no place");
  *registered = communicator->register_buffer(memory, bytes);
  return *registered ? ncclSuccess : refuse(ncclInvalidArgument, "the device cannot reach the buffer");
}

ncclResult_t ncclCommDeregister(const ncclComm_t handle, void* registered) {
  const auto communicator = find_handle(handle);
  if (!communicator) return refuse(ncclInvalidArgument, "no communicator");
  return communicator->deregister_buffer(registered) ? ncclSuccess : refuse(ncclInvalidArgument, "no such buffer");
}

#if NCCL_VERSION_CODE >= 22700
// Of the ranks that are left, all of which call it.
ncclResult_t ncclCommShrink(ncclComm_t parent_handle, int* excluded, int count, ncclComm_t* handle,
                            ncclConfig_t* config, int flags) {
  const auto parent = find_handle(parent_handle);
  if (!parent || handle == nullptr || excluded == nullptr || count < 1 || flags != NCCL_SHRINK_DEFAULT)
    return refuse(ncclInvalidArgument, "no communicator, no place, nobody to leave out, or other flags");
  *handle = nullptr;
  if (const ncclResult_t state = parent->state()) return refuse(usable(state), "the parent is not ready");
  const std::optional<bool> blocking = blocking_by(config, parent->blocking);
  if (!blocking) return refuse(ncclInvalidArgument, "the configuration was not initialized");
  int rank = 0, ranks = 0;
  for (int each = 0; each < parent->ranks; ++each) {
    if (std::find(excluded, excluded + count, each) != excluded + count) {
      if (each == parent->rank) return refuse(ncclInvalidArgument, "a rank that is left out may not call it");
      continue;
    }
    if (each == parent->rank) rank = ranks;
    ++ranks;
  }
  return start_joining(handle, std::make_shared<Communicator>(rank, ranks, parent->device, *blocking),
                       parent->name() + "-shrunk");
}

// NCCL 2.29, whose headers need not be there: an id that a communicator has for those that it takes in.
extern "C" ncclResult_t ncclCommGetUniqueId(ncclComm_t handle, ncclUniqueId* id) {
  if (!find_handle(handle)) return refuse(ncclInvalidArgument, "no communicator");
  return ncclGetUniqueId(id);
}

// The members of a communicator keep their ranks; the first one has the id, as those have that are taken in.
extern "C" ncclResult_t ncclCommGrow(ncclComm_t parent_handle, int ranks, const ncclUniqueId* id, int rank,
                                     ncclComm_t* handle, ncclConfig_t* config) {
  if (handle == nullptr) return refuse(ncclInvalidArgument, "there is no place for the communicator");
  *handle = nullptr;
  if (!parent_handle) {
    if (!id) return refuse(ncclInvalidArgument, "a rank that is taken in needs the id");
    return init(handle, ranks, *id, rank, config);
  }
  const auto parent = find_handle(parent_handle);
  if (!parent || rank != -1 || ranks <= parent->ranks || (parent->rank == 0) != (id != nullptr))
    return refuse(ncclInvalidArgument, "no communicator, a rank of its own, no more ranks, or the id at another rank");
  // The first member's id reaches the others as votes, four bytes at a time.
  ncclUniqueId agreed{};
  for (std::size_t at = 0; at < sizeof agreed.internal; at += sizeof(int)) {
    int part = 0;
    if (id) std::memcpy(&part, id->internal + at, sizeof part);
    const auto votes = parent->vote({part, 0});
    if (!votes) return refuse(ncclInternalError, "the parent was aborted");
    std::memcpy(agreed.internal + at, &votes->front().color, sizeof part);
  }
  return init(handle, ranks, agreed, parent->rank, config);
}

// A collective call on all ranks, as in NCCL.
ncclResult_t ncclCommWindowRegister(ncclComm_t handle, void* memory, std::size_t bytes, ncclWindow_t* window,
                                    int flags) {
  const auto communicator = find_handle(handle);
  if (!communicator || window == nullptr || flags != NCCL_WIN_COLL_SYMMETRIC)
    return refuse(ncclInvalidArgument, "no communicator, no place, or other flags than the fake knows");
  const auto votes = communicator->vote({static_cast<int>(bytes >> 32), static_cast<int>(bytes & 0x7fffffff)});
  if (!votes) return refuse(ncclInternalError, "the communicator was aborted");
  for (const Vote& vote : *votes)
    if (vote.color != votes->front().color || vote.key != votes->front().key)
      return refuse(ncclInvalidUsage, "ranks register windows of different sizes");
  *window = reinterpret_cast<ncclWindow_t>(has_symmetric_memory(*communicator)
                                               ? communicator->add_window(memory, bytes)
                                               : communicator->register_buffer(memory, bytes));
  return *window ? ncclSuccess : refuse(ncclInvalidArgument, "the device, or another one, cannot reach the buffer");
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t handle, ncclWindow_t window) {
  const auto communicator = find_handle(handle);
  return communicator && communicator->remove_window(window) ? ncclSuccess : ncclCommDeregister(handle, window);
}
#endif

#ifdef P5BENCH_FAKE_DEVICE_API
ncclTeam_t ncclTeamLsa(ncclComm_t handle) {
  const auto communicator = find_handle(handle);
  if (!communicator) return {};
  const int ranks = communicator->lsa_ranks();
  return {.nRanks = ranks, .rank = communicator->rank % ranks, .stride = 1};
}

// A template, since NCCL 2.28.3 has no `barrierCount`, unlike 2.28.9.
template <typename Requirements>
static bool wants_barriers(const Requirements& wanted) {
  if constexpr (requires { wanted.barrierCount; }) return wanted.lsaBarrierCount != 0 || wanted.barrierCount != 0;
  return wanted.lsaBarrierCount != 0;
}

// A collective call on all ranks, as in NCCL. It has no resources.
ncclResult_t ncclDevCommCreate(ncclComm_t handle, const ncclDevCommRequirements_t* wanted, ncclDevComm_t* made) {
  const auto communicator = find_handle(handle);
  if (!communicator || wanted == nullptr || made == nullptr)
    return refuse(ncclInvalidArgument, "no communicator, no requirements, or no place");
  if (!has_symmetric_memory(*communicator))
    return refuse(ncclInvalidUsage, "Communicator does not support symmetric memory!");
  if (wants_barriers(*wanted) || wanted->lsaMultimem)
    return refuse(ncclInvalidUsage, "the fake makes no resources of device communicators");
  if (!communicator->vote({0, 0})) return refuse(ncclInternalError, "the communicator was aborted");
  *made = {};
  made->rank = communicator->rank;
  made->nRanks = made->lsaSize = communicator->ranks;
  made->lsaRank = communicator->rank;
  return ncclSuccess;
}

ncclResult_t ncclDevCommDestroy(ncclComm_t handle, const ncclDevComm_t* made) {
  return find_handle(handle) && made ? ncclSuccess
                                     : refuse(ncclInvalidArgument, "no communicator, or none for devices");
}
#endif
