#include "bench/backends/nccl/local_checks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/kernels.hpp"
#include "bench/backends/nccl/matrix_products.hpp"
#include "bench/base/error.hpp"
#include "bench/base/statistics.hpp"
#include "bench/base/units.hpp"

#ifdef P5BENCH_GOOGLE_BENCHMARK
#include <benchmark/benchmark.h>
#endif

namespace p5::nccl {

namespace {

constexpr int slices = 64;
// Each slice is written and read so many times, every other time with all bits inverted. The fastest read counts,
// because other work on the device can only slow a read down.
constexpr int passes = 4;
// Bytes left to others that use the device at the same time. If at most twice as many are free, a 64th is tested.
constexpr std::size_t spared = std::size_t{2} << 30;

// Tests of right data, which set P5BENCH_MOST_SAMPLES, need no rate.
double share_of_time() { return std::getenv("P5BENCH_MOST_SAMPLES") ? 0.1 : 1; }

DeviceMemory most_of_free_memory(std::size_t& bytes) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  bytes = free > 2 * spared ? free - spared : free / 64;
  for (;; bytes /= 2) {
    void* memory = nullptr;
    const cudaError_t result = cudaMalloc(&memory, bytes);
    if (result == cudaSuccess) return DeviceMemory(memory);
    if (result != cudaErrorMemoryAllocation || bytes < (std::size_t{1} << 20)) check(result, "cudaMalloc");
    cudaGetLastError();  // fragmented, or somebody took it meanwhile
  }
}

}  // namespace

MemoryCheck check_memory(Queue& queue) {
  std::size_t bytes = 0;
  const DeviceMemory memory = most_of_free_memory(bytes);
  const DeviceMemory found = make_device_memory(sizeof(Mismatches));
  const std::uint64_t words = bytes / sizeof(std::uint64_t) / slices;
  const Event start = make_timing_event(), stop = make_timing_event();
  const auto slice = [&](int i) {
    return static_cast<std::uint64_t*>(memory.get()) + static_cast<std::uint64_t>(i) * words;
  };
  MemoryCheck result;
  std::vector<double> rates(slices, 0);
  for (int round = 0; round < passes && result.corruption.empty(); ++round) {
    const auto seed_of = [&](int i) {
      const auto seed = static_cast<std::uint64_t>(i + 1) << 48;
      return round % 2 == 0 ? seed : ~seed;
    };
    for (int i = 0; i < slices; ++i) fill_memory_pattern(queue.stream(), slice(i), words, seed_of(i));
    for (int i = 0; i < slices && result.corruption.empty(); ++i) {
      Mismatches seen;
      check(cudaMemcpyAsync(found.get(), &seen, sizeof seen, cudaMemcpyHostToDevice, queue.stream()),
            "cudaMemcpyAsync");
      check(cudaEventRecord(start.get(), queue.stream()), "cudaEventRecord");
      check_memory_pattern(queue.stream(), slice(i), words, seed_of(i), static_cast<Mismatches*>(found.get()));
      check(cudaEventRecord(stop.get(), queue.stream()), "cudaEventRecord");
      check(cudaMemcpyAsync(&seen, found.get(), sizeof seen, cudaMemcpyDeviceToHost, queue.stream()),
            "cudaMemcpyAsync");
      queue.finish();
      float elapsed_ms = 0;
      check(cudaEventElapsedTime(&elapsed_ms, start.get(), stop.get()), "cudaEventElapsedTime");
      if (elapsed_ms > 0)
        rates[static_cast<std::size_t>(i)] =
            std::max(rates[static_cast<std::size_t>(i)], static_cast<double>(words) * 8 / (elapsed_ms / 1e3) / 1e9);
      if (seen.wrong == 0) continue;
      std::uint64_t got = 0;
      check(cudaMemcpyAsync(&got, slice(i) + seen.lowest, sizeof got, cudaMemcpyDeviceToHost, queue.stream()),
            "cudaMemcpyAsync");
      queue.finish();
      result.corruption = fmt::format(
          "memory at {:.2f} of {:.2f} GiB of the free memory held {:#018x} instead of {:#018x}, "
          "{} words of this slice differ",
          static_cast<double>((static_cast<std::uint64_t>(i) * words + seen.lowest) * 8) / (1 << 30),
          static_cast<double>(bytes) / (1 << 30), got, memory_pattern(seed_of(i), seen.lowest), seen.wrong);
    }
  }
  result.read_gb_per_s = median(rates);
  result.slowest_slice_share = result.read_gb_per_s > 0 ? std::ranges::min(rates) / result.read_gb_per_s : 0;
  return result;
}

#ifdef P5BENCH_GOOGLE_BENCHMARK

namespace {

constexpr std::size_t most_on_device = std::size_t{512} << 20, on_host = std::size_t{32} << 20;
constexpr int launches = 20, copies = 4;  // in a burst
constexpr int device_copies = 16;         // in a burst, of 512 MiB as by nvbandwidth
constexpr int repetitions = 5;            // odd: one is in the middle
constexpr int repetitions_of_turn = 3;    // while the other GPUs of the host wait
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
  double fastest_of(const std::string& name) const { return std::ranges::min(seconds_.at(name)); }
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
  explicit Bench(Queue& queue, int repeated = repetitions) : queue_(queue), repetitions_(repeated) {
    benchmark::ClearRegisteredBenchmarks();
  }
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
        ->MinTime(repetition_s * share_of_time())
        ->Repetitions(repetitions_);
  }

  Collector run() {
    Collector collector;
    benchmark::RunSpecifiedBenchmarks(&collector, "all");
    if (problem_) std::rethrow_exception(problem_);
    return collector;
  }

  // Seconds by the device's own clock.
  double copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, int count = copies) {
    check(cudaEventRecord(start_.get(), queue_.stream()), "cudaEventRecord");
    for (int i = 0; i < count; ++i) check(cudaMemcpyAsync(to, from, bytes, kind, queue_.stream()), "cudaMemcpyAsync");
    check(cudaEventRecord(stop_.get(), queue_.stream()), "cudaEventRecord");
    queue_.finish();
    float elapsed_ms = 0;
    check(cudaEventElapsedTime(&elapsed_ms, start_.get(), stop_.get()), "cudaEventElapsedTime");
    return elapsed_ms / 1e3;
  }

  // Copies in both directions at once, the second one on a stream of its own.
  double copy_both_ways(void* to_device, void* from_device, void* host_in, void* host_out, std::size_t bytes) {
    check(cudaEventRecord(start_.get(), queue_.stream()), "cudaEventRecord");
    check(cudaStreamWaitEvent(second_.get(), start_.get(), 0), "cudaStreamWaitEvent");
    for (int i = 0; i < copies; ++i) {
      check(cudaMemcpyAsync(to_device, host_in, bytes, cudaMemcpyHostToDevice, queue_.stream()), "cudaMemcpyAsync");
      check(cudaMemcpyAsync(host_out, from_device, bytes, cudaMemcpyDeviceToHost, second_.get()), "cudaMemcpyAsync");
    }
    check(cudaEventRecord(second_done_.get(), second_.get()), "cudaEventRecord");
    check(cudaStreamWaitEvent(queue_.stream(), second_done_.get(), 0), "cudaStreamWaitEvent");
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
  int repetitions_;
  Stream second_ = make_stream();
  Event start_ = make_timing_event(), stop_ = make_timing_event(), second_done_ = make_marker_event();
  std::exception_ptr problem_;
};

// A small share of the free memory, large enough for no cache.
std::size_t bytes_on_device() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return std::min(most_on_device, free / 64);
}

// Whatever else uses a memory or a link only slows a copy, so the fastest counts.
double copied_gb_per_s(const Collector& found, const char* name, std::size_t bytes, int count = copies) {
  return static_cast<double>(bytes) * count / found.fastest_of(name) / 1e9;
}

LocalFigures device_copies_and_launches(Queue& queue) {
  const std::size_t bytes = bytes_on_device();
  const DeviceMemory first = make_device_memory(bytes), second = make_device_memory(bytes);
  Bench bench(queue);
  bench.add("device_copy",
            [&] { return bench.copy(second.get(), first.get(), bytes, cudaMemcpyDeviceToDevice, device_copies); });
  bench.add("launch", [&] { return bench.launch(); });
  const Collector found = bench.run();
  return {{"device_copy_gb_per_s", copied_gb_per_s(found, "device_copy", 2 * bytes, device_copies)},
          {"launch_us", 1e6 * found.median_of("launch") / launches}};
}

}  // namespace

LocalFigures check_host_copies(Queue& queue) {
  const std::size_t bytes = std::min(bytes_on_device(), on_host);
  const DeviceMemory first = make_device_memory(bytes), second = make_device_memory(bytes);
  const PinnedMemory host = make_pinned_memory(bytes), other = make_pinned_memory(bytes);
  Bench bench(queue, repetitions_of_turn);
  bench.add("host_to_device", [&] { return bench.copy(first.get(), host.get(), bytes, cudaMemcpyHostToDevice); });
  bench.add("device_to_host", [&] { return bench.copy(host.get(), first.get(), bytes, cudaMemcpyDeviceToHost); });
  bench.add("host_both_ways",
            [&] { return bench.copy_both_ways(first.get(), second.get(), host.get(), other.get(), bytes); });
  const Collector found = bench.run();
  return {{"host_to_device_gb_per_s", copied_gb_per_s(found, "host_to_device", bytes)},
          {"device_to_host_gb_per_s", copied_gb_per_s(found, "device_to_host", bytes)},
          {"host_both_ways_gb_per_s", copied_gb_per_s(found, "host_both_ways", 2 * bytes)}};
}

#else

static LocalFigures device_copies_and_launches(Queue&) { return {}; }

LocalFigures check_host_copies(Queue&) { return {}; }

#endif

namespace {

constexpr Seconds warming_up{0.3}, measured{0.5};
constexpr double burst_s = 0.03;
constexpr Seconds least_burn_window{1};
constexpr std::size_t memory_divisor_of_products = 16;  // products use a 16th of the free memory; others may use it

std::string describe(ProductType type, const WrongResult& wrong) {
  const std::uint64_t differing = wrong.wanted ^ wrong.got;
  return fmt::format(
      "{} matrix product {}: bit {} of the 8 bytes at byte {} of the result is {} instead of {} ({:#018x} for "
      "{:#018x}), "
      "{} of the words differ",
      name_of(type), wrong.product, std::countr_zero(differing), wrong.byte,
      wrong.got >> std::countr_zero(differing) & 1, wrong.wanted >> std::countr_zero(differing) & 1, wrong.got,
      wrong.wanted, wrong.words);
}

// Rates of bursts of products in TFLOP/s by the device's clock, with times since the first; each burst's last result is
// compared with the first one of all.
class ProductRun {
 public:
  ProductRun(Queue& queue, ProductType type, int size)
      : queue_(queue), type_(type), products_(queue, type, size, size) {
    burst();  // the number of products in a burst follows from the time of one
    const double one = product_s_;
    count_ = std::clamp(static_cast<int>(burst_s / std::max(one, 1e-6)), 1, 1000);
  }

  // Ends early at a wrong result.
  void run_for(Seconds time) {
    for (const auto start = Clock::now(); corruption_.empty() && since(start).count < time.count;) burst();
  }
  void forget_rates() { rates_.clear(), began_ = Clock::now(); }

  // Medians of the rates between two times; of all.
  double rate(double from_s, double to_s) const {
    std::vector<double> some;
    for (const TimedRate& each : rates_)
      if (each.end >= from_s && each.end <= to_s) some.push_back(each.rate);
    return some.empty() ? 0 : median(some);
  }
  double rate() const { return rate(0, end_s()); }
  double least_rate(Seconds window) const { return slowest_window(rates_, window.count); }
  double end_s() const { return rates_.empty() ? 0 : rates_.back().end; }
  const std::string& corruption() const { return corruption_; }
  std::string digest() { return products_.digest(); }

 private:
  void burst() {
    check(cudaEventRecord(start_.get(), queue_.stream()), "cudaEventRecord");
    products_.multiply(count_);
    check(cudaEventRecord(stop_.get(), queue_.stream()), "cudaEventRecord");
    queue_.finish();
    float elapsed_ms = 0;
    check(cudaEventElapsedTime(&elapsed_ms, start_.get(), stop_.get()), "cudaEventElapsedTime");
    product_s_ = elapsed_ms / 1e3 / count_;
    if (product_s_ > 0)
      rates_.push_back({since(began_).count, elapsed_ms / 1e3, products_.operations() / product_s_ / 1e12});
    if (const auto wrong = products_.compare()) corruption_ = describe(type_, *wrong);
  }

  Queue& queue_;
  ProductType type_;
  MatrixProducts products_;
  Event start_ = make_timing_event(), stop_ = make_timing_event();
  Clock::time_point began_ = Clock::now();
  int count_ = 1;
  double product_s_ = 0;
  std::vector<TimedRate> rates_;
  std::string corruption_;
};

void add_burn(ProductRun& run, Seconds burn, LocalFigures& figures) {
  run.forget_rates();
  run.run_for(burn);
  const double window = std::min(60.0, run.end_s() / 2);
  figures["burn_first_tflop_per_s"] = run.rate(0, window);
  figures["burn_last_tflop_per_s"] = run.rate(run.end_s() - window, run.end_s());
  figures["burn_least_tflop_per_s"] = run.least_rate(least_burn_window);
}

void add_products(Queue& queue, Seconds burn, LocalChecks& checks) {
  ComputeCheck& compute = checks.compute;
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  for (const ProductType type : {ProductType::bf16, ProductType::fp8}) {
    const std::string why_not = MatrixProducts::unavailable(type);
    const int size = MatrixProducts::size_that_fits(type, free / memory_divisor_of_products);
    if (!why_not.empty() || size == 0) {
      if (type == ProductType::bf16) compute.not_measured = why_not.empty() ? "too little memory is free" : why_not;
      continue;
    }
    std::optional<ProductRun> made;
    try {
      made.emplace(queue, type, size);
    } catch (const ProductUnavailable& problem) {
      (type == ProductType::bf16 ? compute.not_measured : compute.fp8_not_measured) = problem.what();
      continue;
    }
    ProductRun& run = *made;
    compute.library = MatrixProducts::library();
    compute.digests[fmt::format("{} {}", name_of(type), size)] = run.digest();
    run.run_for({warming_up.count * share_of_time()});
    run.forget_rates();
    run.run_for({measured.count * share_of_time()});
    checks.figures[fmt::format("{}_tflop_per_s", name_of(type))] = run.rate();
    if (type == ProductType::bf16 && burn.count > 0) add_burn(run, burn, checks.figures);
    if (compute.corruption.empty()) compute.corruption = run.corruption();
  }
}

}  // namespace

LocalChecks check_locally(Queue& queue, Seconds burn) {
  LocalChecks checks{.figures = device_copies_and_launches(queue)};
  const MemoryCheck memory = check_memory(queue);
  checks.figures["memory_read_gb_per_s"] = memory.read_gb_per_s;
  checks.figures["slowest_slice_share"] = memory.slowest_slice_share;
  checks.compute.corruption = memory.corruption;
  add_products(queue, burn, checks);
  std::erase_if(checks.figures, [](const auto& figure) { return !(figure.second > 0); });
  return checks;
}

}  // namespace p5::nccl
