// The policy within p5bench's own worker: it overrides calls as the session demands, and records NCCL's offers for it.
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
    nccl::TunerCall call{.number = calls_, .granted = last_.granted, .offers = {}};
    Costs costs = last_.costs;
    CostTable(costs.data(), abi::algorithms, abi::protocols).for_each([&](const Setting& setting, float cost) {
      const bool chosen = last_.cheapest && same_kind(*last_.cheapest, setting);
      if (cost >= 0) call.offers.push_back({to_text(chosen ? *last_.cheapest : setting), cost, chosen});
    });
    return call;
  }

  void load() { loaded_ = true; }

  std::optional<Override> override_of() const {
    const std::scoped_lock lock(mutex_);
    if (!forced_) return std::nullopt;
    return Override{*forced_, 0};
  }

  void record_call(const TunedCall& call) {
    const std::scoped_lock lock(mutex_);
    last_ = call;
    ++calls_;
  }

 private:
  mutable std::mutex mutex_;  // NCCL may query from threads of its own
  std::atomic<bool> loaded_ = false;
  std::optional<Setting> forced_;
  TunedCall last_;
  std::uint64_t calls_ = 0;
};

// NCCL finds the plugin by its symbols and passes no argument of ours, so plugin and session share a global.
Control& control() {
  static Control the;
  return the;
}

class ControlledPolicy final : public Policy {
 public:
  std::optional<Override> override_of(const Asked&) override { return control().override_of(); }
  void record_call(const TunedCall& call) override { control().record_call(call); }
};

}  // namespace

std::unique_ptr<Policy> make_policy(const Job&, const Log&) {
  control().load();
  return std::make_unique<ControlledPolicy>();
}

}  // namespace p5::tuner

p5::nccl::TunerControl& p5::nccl::tuner_control() { return tuner::control(); }
