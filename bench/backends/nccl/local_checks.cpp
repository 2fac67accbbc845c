#include "bench/backends/nccl/local_checks.hpp"

#ifdef P5BENCH_GOOGLE_BENCHMARK

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/backends/nccl/kernels.hpp"
#include "bench/base/clock.hpp"

namespace p5::nccl {

namespace {

constexpr std::size_t most_on_device = std::size_t{256} << 20, on_host = std::size_t{32} << 20;
constexpr int launches = 20, copies = 4;  // in a burst
constexpr int repetitions = 3;            // odd: one is in the middle
constexpr double repetition_s = 0.01;

// Keeps what would be printed.
class Collector final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs)
      if (run.run_type == Run::RT_Iteration && run.iterations > 0)
        seconds_[run.run_name.function_name].push_back(run.real_accumulated_time / static_cast<double>(run.iterations));
  }
  double median_of(const std::string& name) const {
    std::vector<double> sorted = seconds_.at(name);
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }

 private:
  std::map<std::string, std::vector<double>> seconds_;
};

// Benchmarks are registered in a list of the whole process.
class Bench {
 public:
  explicit Bench(Queue& queue) : queue_(queue) { benchmark::ClearRegisteredBenchmarks(); }
  ~Bench() { benchmark::ClearRegisteredBenchmarks(); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // `seconds_of_burst` is called until there is enough. An exception does not pass through the loop.
  void add(const char* name, std::function<double()> seconds_of_burst) {
    benchmark::RegisterBenchmark(name,
                                 [this, burst = std::move(seconds_of_burst)](benchmark::State& state) {
                                   for (auto _ : state) {
                                     try {
                                       if (problem_) throw AbortRequested{};
                                       state.SetIterationTime(burst());
                                     } catch (...) {
                                       if (!problem_) problem_ = std::current_exception();
                                       state.SkipWithError("an error before");
                                       return;
                                     }
                                   }
                                 })
        ->UseManualTime()
        ->MinTime(repetition_s)
        ->Repetitions(repetitions);
  }

  Collector run() {
    Collector collector;
    benchmark::RunSpecifiedBenchmarks(&collector, "all");
    if (problem_) std::rethrow_exception(problem_);
    return collector;
  }

  // Of the device's own clock.
  double copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    check(cudaEventRecord(start_.get(), queue_.stream()), "cudaEventRecord");
    for (int i = 0; i < copies; ++i) check(cudaMemcpyAsync(to, from, bytes, kind, queue_.stream()), "cudaMemcpyAsync");
    check(cudaEventRecord(stop_.get(), queue_.stream()), "cudaEventRecord");
    queue_.finish();
    float elapsed_ms = 0;
    check(cudaEventElapsedTime(&elapsed_ms, start_.get(), stop_.get()), "cudaEventElapsedTime");
    return elapsed_ms / 1e3;
  }

  double launch() {
    const auto start = Clock::now();
    for (int i = 0; i < launches; ++i) do_nothing(queue_.stream());
    queue_.finish(Waiting::alert);
    return since(start).count;
  }

 private:
  Queue& queue_;
  Event start_ = make_timing_event(), stop_ = make_timing_event();
  std::exception_ptr problem_;
};

// Of what the buffers and the library have left, a little: enough to be out of any cache.
std::size_t bytes_on_device() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return std::min(most_on_device, free / 64);
}

}  // namespace

LocalFigures check_locally(Queue& queue) {
  const std::size_t bytes = bytes_on_device(), through_link = std::min(bytes, on_host);
  const DeviceMemory first = make_device_memory(bytes), second = make_device_memory(bytes);
  const PinnedMemory host = make_pinned_memory(through_link);
  Bench bench(queue);
  bench.add("device_copy", [&] { return bench.copy(second.get(), first.get(), bytes, cudaMemcpyDeviceToDevice); });
  bench.add("host_to_device",
            [&] { return bench.copy(first.get(), host.get(), through_link, cudaMemcpyHostToDevice); });
  bench.add("device_to_host",
            [&] { return bench.copy(host.get(), first.get(), through_link, cudaMemcpyDeviceToHost); });
  bench.add("launch", [&] { return bench.launch(); });
  const Collector found = bench.run();
  const auto rate = [&](const char* name, std::size_t moved) {
    return static_cast<double>(moved) * copies / found.median_of(name) / 1e9;
  };
  return {{"device_copy_gb_per_s", rate("device_copy", 2 * bytes)},
          {"host_to_device_gb_per_s", rate("host_to_device", through_link)},
          {"device_to_host_gb_per_s", rate("device_to_host", through_link)},
          {"launch_us", 1e6 * found.median_of("launch") / launches}};
}

}  // namespace p5::nccl

#else

p5::LocalFigures p5::nccl::check_locally(Queue&) { return {}; }

#endif
