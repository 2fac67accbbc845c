// The faults that P5BENCH_FAKE requests from the fake NCCL, and the recovery from them.
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstdint>

#include "tests/fakes/fakes_test.hpp"

namespace p5::fakes {
namespace {

// One all-reduce of `count` int32 that are all rank + 1, complete or not.
struct Sum {
  std::int32_t* input = nullptr;
  std::int32_t* output = nullptr;
  static constexpr std::uint64_t count = 100;

  explicit Sum(const Rank& self) {
    input = device_array<std::int32_t>(count, self.rank + 1);
    output = device_array<std::int32_t>(count, -1);
    enqueue(self);
  }
  void enqueue(const Rank& self) const {
    EXPECT_EQ(ncclAllReduce(input, output, count, ncclInt32, ncclSum, self.communicator, self.stream), ncclSuccess);
  }
  std::int64_t differing_from(std::int32_t value) const {
    return static_cast<std::int64_t>(count) - std::count(output, output + count, value);
  }
};

// Recovery from an operation that never completes.
void abort_and_leave(const Rank& self) {
  EXPECT_EQ(ncclCommAbort(self.communicator), ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
}

TEST(FakeNcclFaults, a_hang_ends_with_an_abort) {
  expect_all_well(3, {{"P5BENCH_FAKE", "hang:rank=1:operation=2"}}, [](Rank& self) {
    const Sum first(self);
    EXPECT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
    EXPECT_EQ(first.differing_from(6), 0);
    const Sum second(self);
    EXPECT_EQ(cudaStreamQuery(self.stream), cudaErrorNotReady);
    abort_and_leave(self);
  });
}

TEST(FakeNcclFaults, a_crash_is_a_segmentation_fault_and_the_others_wait) {
  const auto statuses = run_ranks(3, {{"P5BENCH_FAKE", "crash:rank=2:operation=1"}}, [](Rank& self) {
    const Sum sum(self);
    if (self.rank == 2) cudaStreamSynchronize(self.stream);
    EXPECT_EQ(cudaStreamQuery(self.stream), cudaErrorNotReady);
    abort_and_leave(self);
  });
  EXPECT_EQ(statuses.at(0), 0);
  EXPECT_EQ(statuses.at(1), 0);
  EXPECT_TRUE(WIFSIGNALED(statuses.at(2)) && WTERMSIG(statuses.at(2)) == SIGSEGV);
}

TEST(FakeNcclFaults, an_asynchronous_error_is_known_to_all) {
  expect_all_well(2, {{"P5BENCH_FAKE", "async:rank=0:operation=1"}}, [](Rank& self) {
    float* values = device_array<float>(10);
    const ncclResult_t result = ncclAllReduce(values, values, 10, ncclFloat32, ncclSum, self.communicator, self.stream);
    const bool known_already = self.rank == 1 && result == ncclRemoteError;
    EXPECT_TRUE(result == ncclSuccess || known_already) << result;
    ncclResult_t error = ncclSuccess;
    while (error == ncclSuccess) EXPECT_EQ(ncclCommGetAsyncError(self.communicator, &error), ncclSuccess);
    EXPECT_EQ(error, self.rank == 0 ? ncclSystemError : ncclRemoteError);
    EXPECT_EQ(cudaStreamQuery(self.stream), known_already ? cudaSuccess : cudaErrorNotReady);
    abort_and_leave(self);
  });
}

// Contents of rank 1's output, which held -1, after two correct operations (results 3, then 30) and a faulty third
// (300).
void check_wrong(const std::string& what, const std::function<void(const std::int32_t*)>& check) {
  expect_all_well(2, {{"P5BENCH_FAKE", "wrong:rank=1:operation=3+:what=" + what}}, [&](Rank& self) {
    const Sum sum(self);
    for (const int factor : {10, 100}) {
      EXPECT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
      std::fill_n(sum.input, Sum::count, factor * (self.rank + 1));
      std::fill_n(sum.output, Sum::count, -1);
      sum.enqueue(self);
    }
    EXPECT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
    if (self.rank == 1) return check(sum.output);
    EXPECT_EQ(sum.differing_from(300), 0);
  });
}

TEST(FakeNcclFaults, wrong_data_comes_in_four_kinds) {
  const auto holding = [](const std::int32_t* output, int value) {
    return std::count(output, output + Sum::count, value);
  };
  check_wrong("element", [&](const std::int32_t* output) { EXPECT_EQ(holding(output, 300), 99); });
  check_wrong("bit", [&](const std::int32_t* output) {
    EXPECT_EQ(holding(output, 300), 99);
    EXPECT_EQ(holding(output, 301), 1);
  });
  check_wrong("stale", [&](const std::int32_t* output) { EXPECT_EQ(holding(output, 30), 100); });
  check_wrong("nothing", [&](const std::int32_t* output) { EXPECT_EQ(holding(output, -1), 100); });
}

// Rank 0 sends 10, then 20 with a fault; `received` is the result in rank 1's buffer, which held -1.
void check_wrong_send(const std::string& what, std::int32_t received) {
  expect_all_well(2, {{"P5BENCH_FAKE", "wrong:rank=0:operation=2:what=" + what}}, [&](Rank& self) {
    std::int32_t* buffer = device_array<std::int32_t>(1);
    for (const std::int32_t value : {10, 20}) {
      *buffer = self.rank == 0 ? value : -1;
      EXPECT_EQ(self.rank == 0 ? ncclSend(buffer, 1, ncclInt32, 1, self.communicator, self.stream)
                               : ncclRecv(buffer, 1, ncclInt32, 0, self.communicator, self.stream),
                ncclSuccess);
      EXPECT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
      EXPECT_EQ(*buffer, self.rank == 1 && value == 20 ? received : value);
    }
  });
}

TEST(FakeNcclFaults, a_send_can_be_wrong_too) {
  check_wrong_send("element", 20 ^ 0x55555555);
  check_wrong_send("bit", 21);
  check_wrong_send("stale", 10);
  check_wrong_send("nothing", -1);
}

TEST(FakeNcclFaults, memory_runs_out_on_one_rank) {
  expect_all_well(2, {{"P5BENCH_FAKE", "oom:rank=1"}}, [](Rank& self) {
    void* address = nullptr;
    EXPECT_EQ(cudaMalloc(&address, 8), self.rank == 1 ? cudaErrorMemoryAllocation : cudaSuccess);
  });
}

// Milliseconds of two sums by the device's clock, with an event on another stream behind them if `elsewhere`.
float time_of_two_sums(Rank& self, bool elsewhere = false) {
  cudaEvent_t before = nullptr, between = nullptr, after = nullptr;
  for (cudaEvent_t* event : {&before, &between, &after}) EXPECT_EQ(cudaEventCreate(event), cudaSuccess);
  cudaStream_t last = self.stream;
  EXPECT_EQ(cudaEventRecord(before, self.stream), cudaSuccess);
  const Sum sum(self), again(self);
  if (elsewhere) {
    EXPECT_EQ(cudaStreamCreate(&last), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(between, self.stream), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(last, between, 0), cudaSuccess);
  }
  EXPECT_EQ(cudaEventRecord(after, last), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(after), cudaSuccess);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, before, after), cudaSuccess);
  EXPECT_EQ(sum.differing_from(3), 0);
  return milliseconds;
}

TEST(FakeNcclFaults, a_slow_rank_takes_longer_by_at_least_what_was_said) {
  expect_all_well(2, {{"P5BENCH_FAKE", "slow:rank=0:us=20000"}},
                  [](Rank& self) { EXPECT_GE(time_of_two_sums(self), self.rank == 0 ? 40 : 0); });
}

TEST(FakeNcclFaults, a_planted_clock_counts_what_was_said_and_no_more_on_all_streams) {
  expect_all_well(2, {{"P5BENCH_FAKE", "slow:rank=0:us=20000"}, {"P5BENCH_FAKE_CLOCK", "3000"}}, [](Rank& self) {
    for (const bool elsewhere : {false, true})
      EXPECT_FLOAT_EQ(time_of_two_sums(self, elsewhere), self.rank == 0 ? 46 : 6);
  });
}

TEST(FakeNcclFaults, a_join_can_crash_and_without_waiting_be_aborted) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const auto statuses = run_processes(3, {{"P5BENCH_FAKE", "join-crash:rank=1,join-hang:rank=2"}}, [&](int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t communicator = nullptr;
    EXPECT_EQ(ncclCommInitRankConfig(&communicator, 3, id, rank, &config), ncclInProgress);
    if (rank == 1) pause();
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(communicator, &state), ncclSuccess);
    EXPECT_EQ(state, ncclInProgress);
    EXPECT_EQ(ncclCommAbort(communicator), ncclSuccess);
  });
  EXPECT_EQ(statuses.at(0), 0);
  EXPECT_TRUE(WIFSIGNALED(statuses.at(1)) && WTERMSIG(statuses.at(1)) == SIGSEGV);
  EXPECT_EQ(statuses.at(2), 0);
  shm_unlink(id.internal);
}

TEST(FakeNcclFaults, a_fault_that_makes_no_sense_is_refused) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  for (const std::string fault :
       {"hang", "hang:rank=1", "hang:rank=x:operation=1", "dance:rank=0", "oom:rank=0:operation=1"})
    in_process({{"P5BENCH_FAKE", fault}}, [&] {
      ncclComm_t communicator = nullptr;
      EXPECT_EQ(ncclCommInitRank(&communicator, 1, id, 0), ncclInvalidUsage) << fault;
    });
}

}  // namespace
}  // namespace p5::fakes
