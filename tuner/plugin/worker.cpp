// The plugin within p5bench's own worker: it wants what the session at hand wants, and tells it what NCCL offered.
#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "bench/backends/nccl/tuner_control.hpp"
#include "bench/base/error.hpp"
#include "tuner/plugin/policy.hpp"

namespace p5::tuner {

namespace {

class Control final : public nccl::TunerControl {
 public:
  bool loaded() const override { return loaded_; }

  void force(const std::string& setting) override {
    const auto parsed = parse_setting(setting);
    if (!parsed) throw CaseError("'" + setting + "' is no setting such as ring/ll128/16");
    const std::scoped_lock lock(mutex_);
    forced_ = parsed;
  }

  void release() noexcept override {
    const std::scoped_lock lock(mutex_);
    forced_.reset();
  }

  nccl::TunerCall last_call() const override {
    const std::scoped_lock lock(mutex_);
    nccl::TunerCall call{.number = calls_, .granted = seen_.granted, .offers = {}};
    Costs costs = seen_.costs;
    CostTable(costs.data(), abi::algorithms, abi::protocols).for_each([&](const Setting& setting, float cost) {
      const bool chosen = seen_.cheapest && same_kind(*seen_.cheapest, setting);
      if (cost >= 0) call.offers.push_back({to_text(chosen ? *seen_.cheapest : setting), cost, chosen});
    });
    return call;
  }

  void load() { loaded_ = true; }

  std::optional<Override> override_of() const {
    const std::scoped_lock lock(mutex_);
    if (!forced_) return std::nullopt;
    return Override{*forced_, 0};
  }

  void note(const Seen& seen) {
    const std::scoped_lock lock(mutex_);
    seen_ = seen;
    ++calls_;
  }

 private:
  mutable std::mutex mutex_;  // NCCL may ask from threads of its own
  std::atomic<bool> loaded_ = false;
  std::optional<Setting> forced_;
  Seen seen_;
  std::uint64_t calls_ = 0;
};

// NCCL finds the plugin by its symbols and hands it nothing of ours: the state has to be where both sides find it.
Control& control() {
  static Control the;
  return the;
}

class ControlledPolicy final : public Policy {
 public:
  std::optional<Override> override_of(Function, std::uint64_t) override { return control().override_of(); }
  void note(const Seen& seen) override { control().note(seen); }
};

}  // namespace

std::unique_ptr<Policy> make_policy(const Job&, const Log&) {
  control().load();
  return std::make_unique<ControlledPolicy>();
}

}  // namespace p5::tuner

p5::nccl::TunerControl& p5::nccl::tuner_control() { return tuner::control(); }
