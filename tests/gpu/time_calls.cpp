// The gain of a table's settings as settings of single calls (NCCL 2.31 on), against plain calls: one process, a thread
// for each GPU. Prints medians of device time in microseconds, of the slowest rank. Judges nothing.
//
//     time_calls nccl-tuner.csv         # both ways, at both ends and the middle of each row of all_reduce, all_gather
//     time_calls nccl-tuner.csv plain   # with nccl.env.sh loaded, NCCL_GRAPH_REGISTER=0: plain calls with the plugin
//
// By hand, with the headers and the library of one NCCL:
//
//     g++ -std=c++20 -O2 -I. -I$NCCL/include -I$CUDA/include tests/gpu/time_calls.cpp tuner/table.cpp
//         -o time_calls -L$NCCL/lib -lnccl -L$CUDA/lib64 -lcudart -Wl,-rpath,$NCCL/lib:$CUDA/lib64
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "tuner/table.hpp"

namespace {

using namespace p5::tuner;

constexpr int operations = 20, rounds = 41;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "time_calls: %s\n", what.c_str());
  std::exit(1);
}
void check(cudaError_t result, const char* call) {
  if (result != cudaSuccess) fail(std::string(call) + ": " + cudaGetErrorString(result));
}
void check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) fail(std::string(call) + ": " + ncclGetErrorString(result));
}

struct Point {
  Function function;
  std::uint64_t bytes;  // as the table counts them
  Setting setting;
};

std::vector<Point> confirmed_size_points(const Table& table, std::uint64_t step) {
  std::vector<Point> points;
  for (const Row& row : table.rows) {
    if (row.function != Function::all_reduce && row.function != Function::all_gather) continue;
    const double middle = std::sqrt(static_cast<double>(row.from) * static_cast<double>(row.to));
    for (const std::uint64_t bytes : {row.from, static_cast<std::uint64_t>(middle), row.to})
      points.push_back({row.function, std::max(bytes / step, std::uint64_t{1}) * step, row.setting});
  }
  return points;
}

// The setting as far as this NCCL's structure can express it: 2.31.0 has bounds for channels, 2.31.2 algorithms too.
ncclCollConfig_t config_of(const Setting& setting) {
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
#if NCCL_VERSION_CODE >= 23102
  static thread_local std::string selection;
  selection = alg_selection(setting);
  config.algSelection = selection.c_str();
#endif
  if (setting.channels > 0) config.minCTAs = config.maxCTAs = setting.channels;
  return config;
}

class Rank {
 public:
  Rank(int device, int ranks, ncclComm_t communicator, std::uint64_t most)
      : device_(device), ranks_(ranks), communicator_(communicator) {
    check(cudaSetDevice(device_), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    for (cudaEvent_t* event : {&start_, &stop_}) check(cudaEventCreate(event), "cudaEventCreate");
    for (float** buffer : {&input_, &output_}) check(cudaMalloc(buffer, most), "cudaMalloc");
    const std::vector<float> ones(most / sizeof(float), 1);
    check(cudaMemcpy(input_, ones.data(), most, cudaMemcpyHostToDevice), "cudaMemcpy");
  }

  // The operations of one graph, so that the host's time is excluded.
  cudaGraphExec_t capture(const Point& point, bool with_config) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t launch = nullptr;
    check(cudaSetDevice(device_), "cudaSetDevice");
    operate(point, with_config);  // connects, and loads the kernel
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    for (int i = 0; i < operations; ++i) operate(point, with_config);
    check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    check(cudaGraphInstantiateWithFlags(&launch, graph, 0), "cudaGraphInstantiateWithFlags");
    check(cudaGraphDestroy(graph), "cudaGraphDestroy");
    return launch;
  }

  double microseconds(cudaGraphExec_t launch) {
    float elapsed_ms = 0;
    check(cudaEventRecord(start_, stream_), "cudaEventRecord");
    check(cudaGraphLaunch(launch, stream_), "cudaGraphLaunch");
    check(cudaEventRecord(stop_, stream_), "cudaEventRecord");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    check(cudaEventElapsedTime(&elapsed_ms, start_, stop_), "cudaEventElapsedTime");
    return 1e3 * elapsed_ms / operations;
  }

  bool right(const Point& point) const {
    float last = 0;
    check(cudaMemcpy(&last, output_ + point.bytes / sizeof(float) - 1, sizeof last, cudaMemcpyDeviceToHost),
          "cudaMemcpy");
    return last == (point.function == Function::all_reduce ? static_cast<float>(ranks_) : 1);
  }

 private:
  void operate(const Point& point, bool with_config) {
    const ncclCollConfig_t config = config_of(point.setting);
    const ncclCollConfig_t* const used = with_config ? &config : nullptr;
    const std::size_t count = point.bytes / sizeof(float);
    if (point.function == Function::all_reduce)
      check(ncclAllReduceConfig(input_, output_, count, ncclFloat32, ncclSum, communicator_, stream_, used),
            "ncclAllReduceConfig");
    else
      check(ncclAllGatherConfig(input_, output_, count / static_cast<std::size_t>(ranks_), ncclFloat32, communicator_,
                                stream_, used),
            "ncclAllGatherConfig");
  }

  int device_, ranks_;
  ncclComm_t communicator_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  float *input_ = nullptr, *output_ = nullptr;
};

}  // namespace

int main(int count, char** arguments) {
  if (count < 2 || count > 3 || (count == 3 && std::string_view(arguments[2]) != "plain"))
    fail("time_calls nccl-tuner.csv [plain]");
  std::ifstream file(arguments[1]);
  const auto parsed = parse_csv(std::string{std::istreambuf_iterator<char>(file), {}});
  if (const auto* const problem = std::get_if<std::string>(&parsed)) fail(std::string(arguments[1]) + ": " + *problem);
  int ranks = 0, version = 0;
  check(cudaGetDeviceCount(&ranks), "cudaGetDeviceCount");
  check(ncclGetVersion(&version), "ncclGetVersion");
  const auto all = static_cast<std::size_t>(ranks);
  const Table* const table = find_table(std::get<std::vector<Table>>(parsed), version, all, 1);
  if (!table) fail("no table for NCCL " + version_text(version) + ", " + std::to_string(ranks) + " ranks on 1 node");
  const std::vector<Point> points = confirmed_size_points(*table, all * sizeof(float));
  if (points.empty()) fail("no rows for all_reduce or all_gather");
  const std::size_t modes = count == 3 ? 1 : 2;  // plain, and with the setting
  const std::uint64_t most = std::ranges::max_element(points, {}, &Point::bytes)->bytes;
  std::vector<ncclComm_t> communicators(all);
  check(ncclCommInitAll(communicators.data(), ranks, nullptr), "ncclCommInitAll");
  std::vector<std::vector<double>> times(all, std::vector<double>(modes));
  std::vector<std::vector<double>> slowest(modes);
  std::barrier together(ranks);
  std::printf("# NCCL %s, %d GPUs, %d operations a graph, medians of %d rounds, in us\n", version_text(version).c_str(),
              ranks, operations, rounds);
  const auto run = [&](int number) {
    Rank rank(number, ranks, communicators[static_cast<std::size_t>(number)], most);
    for (const Point& point : points) {
      std::vector<cudaGraphExec_t> launches;
      for (std::size_t mode = 0; mode < modes; ++mode) launches.push_back(rank.capture(point, mode == 1));
      if (number == 0) slowest.assign(modes, {});
      for (int round = -3; round < rounds; ++round)
        for (std::size_t mode = 0; mode < modes; ++mode) {
          together.arrive_and_wait();
          times[static_cast<std::size_t>(number)][mode] = rank.microseconds(launches[mode]);
          together.arrive_and_wait();
          if (number != 0 || round < 0) continue;  // the first ones warm up
          double worst = 0;
          for (const std::vector<double>& of_rank : times) worst = std::max(worst, of_rank[mode]);
          slowest[mode].push_back(worst);
        }
      for (const cudaGraphExec_t launch : launches) check(cudaGraphExecDestroy(launch), "cudaGraphExecDestroy");
      if (!rank.right(point)) fail("wrong data at rank " + std::to_string(number));
      if (number != 0) continue;
      std::printf("%-10s %12llu  %-20s", std::string(name_of(point.function)).c_str(),
                  static_cast<unsigned long long>(point.bytes), to_text(point.setting).c_str());
      for (std::vector<double>& each : slowest) {
        std::ranges::nth_element(each, each.begin() + rounds / 2);
        std::printf("  %s %9.2f", &each == &slowest.front() ? "plain" : "call", each[rounds / 2]);
      }
      std::printf("\n");
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int number = 0; number < ranks; ++number) threads.emplace_back(run, number);
  }
  for (ncclComm_t each : communicators) check(ncclCommDestroy(each), "ncclCommDestroy");
}
