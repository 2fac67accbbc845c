// Handles are looked up and not dereferenced, so that a destroyed communicator is rejected.
#include "tests/fakes/nccl/handles.hpp"

#include <cstdio>
#include <map>
#include <mutex>

namespace p5::fake_nccl {

namespace {

struct Handles {
  std::mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<Communicator>> all;
};

// Never destroyed, since streams' threads outlast main().
Handles& handles() {
  static Handles& the = *new Handles;
  return the;
}

}  // namespace

ncclComm_t add_handle(const std::shared_ptr<Communicator>& communicator) {
  const auto handle = reinterpret_cast<ncclComm_t>(communicator.get());
  const std::scoped_lock lock(handles().mutex);
  handles().all[handle] = communicator;
  return handle;
}

std::shared_ptr<Communicator> find_handle(ncclComm_t handle) {
  const std::scoped_lock lock(handles().mutex);
  const auto found = handles().all.find(handle);
  return found == handles().all.end() ? nullptr : found->second;
}

std::shared_ptr<Communicator> remove_handle(ncclComm_t handle) {
  const std::scoped_lock lock(handles().mutex);
  const auto found = handles().all.find(handle);
  if (found == handles().all.end()) return nullptr;
  std::shared_ptr<Communicator> communicator = found->second;
  handles().all.erase(found);
  return communicator;
}

std::string& failure_context() {
  thread_local std::string words;
  return words;
}

ncclResult_t refuse(ncclResult_t result, const std::string& words) {
  failure_context() = words;
  std::fprintf(stderr, "fake libnccl: %s\n", words.c_str());
  return result;
}

}  // namespace p5::fake_nccl
