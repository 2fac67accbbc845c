#include "bench/backends/nccl/replay.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "bench/backends/nccl/kernels.hpp"

namespace p5::nccl {

static void pause_for(cudaStream_t stream, Seconds time) {
  if (const auto ns = static_cast<std::uint64_t>(time.count * 1e9); ns > 0) pause(stream, ns);
}

StepOnDevice::StepOnDevice(const Replay& replay, Engine& engine,
                           const std::vector<std::unique_ptr<WorkBeside>>& operations)
    : replay_(replay),
      engine_(engine),
      operations_(operations),
      uses_(uses_of_works(replay)),
      products_(replay.products ? make_work_beside(*replay.products, engine, nullptr, {}, nullptr, nullptr) : nullptr),
      start_(make_timing_event()),
      stop_(make_timing_event()),
      done_(make_marker_event()) {}

std::string StepOnDevice::unavailable(const Replay& replay) {
  if (!replay.products) return "";
  const std::string why = unavailable_beside(*replay.products);
  return why.empty() ? "" : fmt::format("{}: {}", name_of(*replay.products), why);
}

// Back to back as in the job, so that starting and ending a sample does not count.
int StepOnDevice::most_steps() const {
  constexpr std::size_t most = 64, most_operations = 4096;
  return static_cast<int>(std::clamp<std::size_t>(most_operations / replay_.operations.size(), 1, most));
}

void StepOnDevice::prepare(int steps, bool poison) {
  for (std::size_t i = 0; i < operations_.size(); ++i)
    if (operations_[i]->takes_part()) operations_[i]->prepare(steps * uses_[i], poison);
  if (!products_) return;
  products_->prepare(1, poison && computes_);
  if (product_.count == 0) product_ = time_of_product();
}

// Power limits lower the clocks within some tenths of a second, for as long as products and messages take turns.
void StepOnDevice::settle() {
  if (!products_ || std::exchange(settled_, true)) return;
  constexpr double enough_s = 0.5;
  constexpr int most = 500;
  const double step_s = std::max(replay_.step.value_or(Seconds{0}).count, enough_s / most);
  for (int left = static_cast<int>(std::ceil(enough_s / step_s)); left > 0;) {
    const int steps = std::min(left, most_steps());
    prepare(steps, false);
    for (int i = 0; i < steps; ++i) queue();
    engine_.queue().mark(steps);
    engine_.queue().finish();
    left -= steps;
  }
  if (computes_) product_ = time_of_product();
}

void StepOnDevice::queue() {
  const cudaStream_t stream = engine_.stream();
  if (products_) let_wait(products_->stream(), stream);
  bool overlaps = true;
  for (const ReplayedOperation& each : replay_.operations) {
    WorkBeside& operation = *operations_[static_cast<std::size_t>(each.work)];
    if (!operation.takes_part()) continue;
    if (products_) {
      if (!overlaps) let_wait(products_->stream(), stream);
      compute(each.gap);
      let_wait(stream, products_->stream());
    } else {
      pause_for(stream, each.gap);
    }
    operation.operate();
    if (products_) compute(each.computed);
    overlaps = each.overlaps;
  }
  if (products_) let_wait(stream, products_->stream());
}

// Queues what the job computed in this time.
void StepOnDevice::compute(Seconds time) {
  const double products = std::floor(time.count / product_.count);
  for (int i = 0; i < static_cast<int>(products); ++i) products_->operate();
  computes_ = computes_ || products > 0;
  pause_for(products_->stream(), {time.count - products * product_.count});
}

// Lets a stream wait for what is queued on another one.
void StepOnDevice::let_wait(cudaStream_t waiting, cudaStream_t other) {
  check(cudaEventRecord(done_.get(), other), "cudaEventRecord");
  check(cudaStreamWaitEvent(waiting, done_.get(), 0), "cudaStreamWaitEvent");
}

// The products run back to back, long enough for clocks to settle.
Seconds StepOnDevice::time_of_product() {
  constexpr int few = 10, most = 10'000;
  constexpr double enough_s = 5e-3;
  const auto time_of = [&](int products) {
    products_->operate();  // the first one may load kernels
    check(cudaEventRecord(start_.get(), products_->stream()), "cudaEventRecord");
    for (int i = 0; i < products; ++i) products_->operate();
    check(cudaEventRecord(stop_.get(), products_->stream()), "cudaEventRecord");
    let_wait(engine_.stream(), products_->stream());
    engine_.queue().mark(products);
    engine_.queue().finish();
    float elapsed_ms = 0;
    check(cudaEventElapsedTime(&elapsed_ms, start_.get(), stop_.get()), "cudaEventElapsedTime");
    return std::max(elapsed_ms / 1e3 / products, 1e-6);
  };
  return {time_of(static_cast<int>(std::clamp(std::ceil(enough_s / time_of(few)), 1.0 * few, 1.0 * most)))};
}

}  // namespace p5::nccl
