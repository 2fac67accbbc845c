// Processes for the tests of the fakes. The test program itself starts no thread, so that it may fork.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace p5::fakes {

using Environment = std::map<std::string, std::string>;

// Runs `body(rank)` in a process per rank and returns the wait statuses. A failed EXPECT is printed by its process and
// makes its status non-zero.
inline std::vector<int> run_processes(int processes, const Environment& environment,
                                      const std::function<void(int rank)>& body) {
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (int rank = 0; rank < processes; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      body(rank);
      std::fflush(nullptr);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  std::vector<int> statuses;
  for (const pid_t child : children) waitpid(child, &statuses.emplace_back(), 0);
  return statuses;
}

// Runs `body` in one process with this environment.
inline void in_process(const Environment& environment, const std::function<void()>& body) {
  EXPECT_EQ(run_processes(1, environment, [&](int) { body(); }), std::vector<int>(1, 0));
}

// One rank of a communicator on its own device, with a stream.
struct Rank {
  int rank = 0;
  int ranks = 1;
  ncclComm_t communicator = nullptr;
  cudaStream_t stream = nullptr;

  Rank(int rank_, int ranks_, const ncclUniqueId& id) : rank(rank_), ranks(ranks_) {
    EXPECT_EQ(cudaSetDevice(rank), cudaSuccess);
    EXPECT_EQ(ncclCommInitRank(&communicator, ranks, id, rank), ncclSuccess);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  }
};

inline std::vector<int> run_ranks(int ranks, const Environment& environment, const std::function<void(Rank&)>& body) {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  return run_processes(ranks, environment, [&](int rank) {
    Rank self(rank, ranks, id);
    body(self);
  });
}

inline void expect_all_well(int ranks, const Environment& environment, const std::function<void(Rank&)>& body) {
  EXPECT_EQ(run_ranks(ranks, environment, body), std::vector<int>(static_cast<std::size_t>(ranks), 0));
}

// Device memory, which tests may access since the fake devices are the host. It is never freed.
template <class T>
T* device_array(std::size_t count, T value = T{}) {
  void* address = nullptr;
  EXPECT_EQ(cudaMalloc(&address, count * sizeof(T)), cudaSuccess);
  for (std::size_t i = 0; i < count; ++i) static_cast<T*>(address)[i] = value;
  return static_cast<T*>(address);
}

}  // namespace p5::fakes
