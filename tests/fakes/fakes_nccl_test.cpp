// The fake NCCL over two to four processes: results of all types and operations, groups, splits.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "bench/model/data_type.hpp"
#include "tests/fakes/fakes_test.hpp"

namespace p5::fakes {
namespace {

ncclDataType_t nccl_type(DataType type) {
  switch (type) {
    case DataType::int8:
      return ncclInt8;
    case DataType::uint8:
      return ncclUint8;
    case DataType::int32:
      return ncclInt32;
    case DataType::uint32:
      return ncclUint32;
    case DataType::int64:
      return ncclInt64;
    case DataType::uint64:
      return ncclUint64;
    case DataType::float16:
      return ncclFloat16;
    case DataType::bfloat16:
      return ncclBfloat16;
    case DataType::float8_e4m3:
      return ncclDataType_t(10);
    case DataType::float8_e5m2:
      return ncclDataType_t(11);
    case DataType::float32:
      return ncclFloat32;
    case DataType::float64:
      break;
  }
  return ncclFloat64;
}

constexpr DataType every_type[] = {DataType::int8,    DataType::uint8,  DataType::int32,   DataType::uint32,
                                   DataType::int64,   DataType::uint64, DataType::float16, DataType::bfloat16,
                                   DataType::float32, DataType::float64};

template <class T>
T element(int value) {
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
    return static_cast<T>(value);
  else
    return static_cast<T>(static_cast<float>(value));
}

// Small inputs, so that results are exact in every type.
int input_of(int rank, std::uint64_t i) { return static_cast<int>((i * 7 + static_cast<std::uint64_t>(rank) * 3) % 5); }

// The result over all ranks; averages are multiplied by 4, so that they are integers.
int expected(ncclRedOp_t operation, int ranks, std::uint64_t i) {
  int sum = 0, product = 1, least = 99, most = -99;
  for (int rank = 0; rank < ranks; ++rank) {
    const int value = input_of(rank, i);
    sum += value, product *= value, least = std::min(least, value), most = std::max(most, value);
  }
  if (operation == ncclProd) return product;
  if (operation == ncclMin) return least;
  return operation == ncclMax ? most : sum;
}

template <class T>
void check_reduction(const Rank& self, DataType type, ncclRedOp_t operation, std::uint64_t count, bool in_place) {
  T* input = device_array<T>(count);
  T* output = in_place ? input : device_array<T>(count);
  // An average is exact when every input is a multiple of the number of ranks.
  const int scale = operation == ncclAvg ? self.ranks : 1;
  for (std::uint64_t i = 0; i < count; ++i) input[i] = element<T>(scale * input_of(self.rank, i));
  EXPECT_EQ(ncclAllReduce(input, output, count, nccl_type(type), operation, self.communicator, self.stream),
            ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < count; ++i)
    if (!(output[i] == element<T>(expected(operation, self.ranks, i)))) ++wrong;
  EXPECT_EQ(wrong, 0u) << "type " << static_cast<int>(type) << ", operation " << static_cast<int>(operation) << ", "
                       << count << " elements over " << self.ranks << " ranks";
  EXPECT_EQ(cudaFree(input), cudaSuccess);
  EXPECT_EQ(cudaFree(in_place ? nullptr : output), cudaSuccess);
}

TEST(FakeNccl, says_what_it_is) {
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, NCCL_VERSION_CODE);
}

TEST(FakeNccl, reduces_every_type_with_every_operation) {
  for (const int ranks : {1, 2, 3, 4}) {
    expect_all_well(ranks, {}, [](Rank& self) {
      for (const DataType type : every_type) {
        for (const ncclRedOp_t operation : {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg}) {
          const bool whole = static_cast<int>(type) <= static_cast<int>(DataType::uint64);
          if (operation == ncclAvg && self.ranks == 3 && !whole) continue;  // a third has no exact representation
          with_type(type, [&]<class T>() {
            for (const std::uint64_t count : {1, 3, 1000}) check_reduction<T>(self, type, operation, count, count == 3);
          });
        }
      }
    });
  }
}

TEST(FakeNccl, averages_of_integers_drop_the_fraction_towards_zero) {
  expect_all_well(3, {}, [](Rank& self) {
    std::int32_t* values = device_array<std::int32_t>(2);
    values[0] = self.rank + 1 + (self.rank == 2 ? 2 : 0);  // 1, 2, 5
    values[1] = -values[0];
    EXPECT_EQ(ncclAllReduce(values, values, 2, ncclInt32, ncclAvg, self.communicator, self.stream), ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
    EXPECT_EQ(values[0], 2);
    EXPECT_EQ(values[1], -2);
  });
}

TEST(FakeNccl, reduces_messages_larger_than_what_passes_at_once) {
  expect_all_well(3, {}, [](Rank& self) {
    check_reduction<std::int32_t>(self, DataType::int32, ncclSum, 1'000'003, false);
    check_reduction<Bfloat16>(self, DataType::bfloat16, ncclMax, 1'000'003, true);
  });
}

TEST(FakeNccl, gathers_out_of_place_and_in_place) {
  for (const int ranks : {2, 4}) {
    expect_all_well(ranks, {}, [](Rank& self) {
      constexpr std::uint64_t count = 50'001;
      const auto all = static_cast<std::uint64_t>(self.ranks) * count;
      for (const bool in_place : {false, true}) {
        std::int64_t* output = device_array<std::int64_t>(all, -1);
        std::int64_t* input = in_place ? output + self.rank * count : device_array<std::int64_t>(count);
        for (std::uint64_t i = 0; i < count; ++i) input[i] = static_cast<std::int64_t>(i) + self.rank * 1'000'000;
        EXPECT_EQ(ncclAllGather(input, output, count, ncclInt64, self.communicator, self.stream), ncclSuccess);
        EXPECT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
        std::uint64_t wrong = 0;
        for (std::uint64_t i = 0; i < all; ++i)
          wrong += output[i] != static_cast<std::int64_t>(i % count + i / count * 1'000'000);
        EXPECT_EQ(wrong, 0u);
      }
    });
  }
}

TEST(FakeNccl, scatters_a_reduction_out_of_place_and_in_place) {
  expect_all_well(3, {}, [](Rank& self) {
    constexpr std::uint64_t share = 100'003;  // more than fits into one block
    for (const bool in_place : {false, true}) {
      std::int32_t* input = device_array<std::int32_t>(3 * share);
      std::int32_t* output = in_place ? input + self.rank * share : device_array<std::int32_t>(share, -1);
      for (std::uint64_t i = 0; i < 3 * share; ++i) input[i] = input_of(self.rank, i);
      EXPECT_EQ(ncclReduceScatter(input, output, share, ncclInt32, ncclMax, self.communicator, self.stream),
                ncclSuccess);
      EXPECT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
      std::uint64_t wrong = 0;
      for (std::uint64_t i = 0; i < share; ++i)
        wrong += output[i] != expected(ncclMax, 3, static_cast<std::uint64_t>(self.rank) * share + i);
      EXPECT_EQ(wrong, 0u);
    }
  });
}

TEST(FakeNccl, broadcasts_from_and_reduces_to_every_root) {
  expect_all_well(3, {}, [](Rank& self) {
    constexpr std::uint64_t count = 100'003;
    for (int root = 0; root < 3; ++root) {
      const bool at_root = self.rank == root;
      std::int32_t* input = device_array<std::int32_t>(count);
      std::int32_t* output = device_array<std::int32_t>(count, -1);
      for (std::uint64_t i = 0; i < count; ++i) input[i] = input_of(self.rank, i);
      std::uint64_t wrong = 0;
      EXPECT_EQ(ncclReduce(input, at_root ? output : nullptr, count, ncclInt32, ncclSum, root, self.communicator,
                           self.stream),
                ncclSuccess);
      EXPECT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
      for (std::uint64_t i = 0; i < count; ++i) wrong += output[i] != (at_root ? expected(ncclSum, 3, i) : -1);
      EXPECT_EQ(
          ncclBroadcast(at_root ? input : nullptr, output, count, ncclInt32, root, self.communicator, self.stream),
          ncclSuccess);
      EXPECT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
      for (std::uint64_t i = 0; i < count; ++i) wrong += output[i] != input_of(root, i);
      EXPECT_EQ(wrong, 0u) << "root " << root;
    }
  });
}

TEST(FakeNccl, sends_and_receives_of_a_group_run_at_the_same_time) {
  expect_all_well(4, {}, [](Rank& self) {
    constexpr std::uint64_t count = 200'000;  // more than a pipe holds: sequential transfers would deadlock
    std::vector<std::int32_t*> received;
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int peer = 0; peer < self.ranks; ++peer) {
      received.push_back(device_array<std::int32_t>(count));
      const std::int32_t* sent = device_array<std::int32_t>(count, 10 * self.rank + peer);
      EXPECT_EQ(ncclSend(sent, count, ncclInt32, peer, self.communicator, self.stream), ncclSuccess);
      EXPECT_EQ(ncclRecv(received.back(), count, ncclInt32, peer, self.communicator, self.stream), ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
    for (int peer = 0; peer < self.ranks; ++peer)
      EXPECT_EQ(std::count(received.at(static_cast<std::size_t>(peer)),
                           received.at(static_cast<std::size_t>(peer)) + count, 10 * peer + self.rank),
                static_cast<std::int64_t>(count));
  });
}

TEST(FakeNccl, operations_keep_their_order_across_streams) {
  expect_all_well(2, {}, [](Rank& self) {
    cudaStream_t other = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
    std::int32_t* value = device_array<std::int32_t>(1, 1);
    for (int i = 0; i < 10; ++i)
      EXPECT_EQ(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, self.communicator, i % 2 ? other : self.stream),
                ncclSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(*value, 1 << 10);
  });
}

TEST(FakeNccl, splits_by_color_and_orders_by_key) {
  expect_all_well(4, {}, [](Rank& self) {
    for (int again = 0; again < 3; ++again) {
      const int color = self.rank == 3 ? NCCL_SPLIT_NOCOLOR : self.rank % 2;
      ncclComm_t half = nullptr;
      EXPECT_EQ(ncclCommSplit(self.communicator, color, -self.rank, &half, nullptr), ncclSuccess);
      EXPECT_EQ(half == nullptr, self.rank == 3);
      if (half == nullptr) continue;
      int rank = -1, ranks = -1, device = -1;
      EXPECT_EQ(ncclCommUserRank(half, &rank), ncclSuccess);
      EXPECT_EQ(ncclCommCount(half, &ranks), ncclSuccess);
      EXPECT_EQ(ncclCommCuDevice(half, &device), ncclSuccess);
      EXPECT_EQ(rank, self.rank == 0 ? 1 : 0);  // ranks 2 and 0 in this order; rank 1 alone
      EXPECT_EQ(ranks, self.rank == 1 ? 1 : 2);
      EXPECT_EQ(device, self.rank);
      std::int32_t* value = device_array<std::int32_t>(1, self.rank + 1);
      EXPECT_EQ(ncclAllReduce(value, value, 1, ncclInt32, ncclSum, half, self.stream), ncclSuccess);
      EXPECT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
      EXPECT_EQ(*value, self.rank == 1 ? 2 : 4);
      EXPECT_EQ(ncclCommDestroy(half), ncclSuccess);
    }
  });
}

TEST(FakeNccl, takes_the_name_away_once_all_have_joined) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  const auto statuses = run_processes(3, {}, [&](int rank) {
    const Rank self(rank, 3, id);
    EXPECT_EQ(shm_open(id.internal, O_RDONLY, 0), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(ncclCommFinalize(self.communicator), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(self.communicator), ncclSuccess);
    int count = 0;
    EXPECT_EQ(ncclCommCount(self.communicator, &count), ncclInvalidArgument);
  });
  EXPECT_EQ(statuses, std::vector<int>(3, 0));
}

TEST(FakeNccl, refuses_memory_that_a_device_cannot_reach) {
  expect_all_well(1, {}, [](Rank& self) {
    std::vector<float> host(10);
    float* device = device_array<float>(10);
    EXPECT_EQ(ncclAllReduce(host.data(), device, 10, ncclFloat32, ncclSum, self.communicator, self.stream),
              ncclInvalidArgument);
    EXPECT_EQ(ncclAllReduce(device, device, 11, ncclFloat32, ncclSum, self.communicator, self.stream),
              ncclInvalidArgument);
  });
}

TEST(FakeNccl, finds_out_ranks_that_do_different_things) {
  expect_all_well(2, {}, [](Rank& self) {
    float* values = device_array<float>(10);
    const std::uint64_t count = self.rank == 0 ? 10 : 8;
    EXPECT_EQ(ncclAllReduce(values, values, count, ncclFloat32, ncclSum, self.communicator, self.stream), ncclSuccess);
    ncclResult_t error = ncclSuccess;
    while (error == ncclSuccess) EXPECT_EQ(ncclCommGetAsyncError(self.communicator, &error), ncclSuccess);
    EXPECT_EQ(error, ncclInvalidUsage);
    EXPECT_EQ(ncclCommAbort(self.communicator), ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(self.stream), cudaSuccess);
  });
}

}  // namespace
}  // namespace p5::fakes
