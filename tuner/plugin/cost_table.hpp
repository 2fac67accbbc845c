// A view of the costs that NCCL hands to a tuner for one call.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>

#include "tuner/plugin/abi.hpp"
#include "tuner/table.hpp"

namespace p5::tuner {

// The entries of a whole table, row by row.
using Costs = std::array<float, std::size_t{abi::algorithms} * abi::protocols>;
inline Costs no_costs() {
  Costs costs;
  costs.fill(abi::unavailable);
  return costs;
}

class CostTable {
 public:
  CostTable(float* costs, int algorithms, int protocols)
      : costs_(costs), algorithms_(algorithms), protocols_(protocols) {}

  // Null where this NCCL's table has no such entry.
  float* at(Algorithm algorithm, Protocol protocol) const {
    const int row = static_cast<int>(algorithm), column = static_cast<int>(protocol);
    return row < algorithms_ && column < protocols_ ? costs_ + static_cast<std::ptrdiff_t>(row) * protocols_ + column
                                                    : nullptr;
  }
  // What NCCL marks as unavailable must never run: it may hang or corrupt data.
  bool available(const Setting& setting) const {
    const float* cost = at(setting.algorithm, setting.protocol);
    return cost && *cost >= 0;
  }
  // What NCCL will take: the lowest, of equals the first.
  std::optional<Setting> cheapest() const {
    std::optional<Setting> found;
    float lowest = 0;
    for_each([&](const Setting& setting, float& cost) {
      if (cost < 0 || (found && cost >= lowest)) return;
      found = setting;
      lowest = cost;
    });
    return found;
  }
  // Makes NCCL take this one, at a cost that is true enough to be compared with what is not in this table (NCCL 2.31
  // compares with its kernels for symmetric memory). `microseconds` 0: NCCL's own estimate.
  void prefer(const Setting& setting, double microseconds) const {
    constexpr double most = 1e9;  // NCCL takes nothing from 3.6e9 on
    float& preferred = *at(setting.algorithm, setting.protocol);
    preferred = static_cast<float>(std::min(microseconds > 0 ? microseconds : preferred, most));
    const float above = preferred * 1.01f + 0.01f;
    for_each([&](const Setting&, float& cost) {
      if (&cost != &preferred && cost >= 0) cost = std::max(cost, above);
    });
  }

  template <class Action>
  void for_each(const Action& action) const {
    for (int a = 0; a < std::min(algorithms_, abi::algorithms); ++a)
      for (int p = 0; p < std::min(protocols_, abi::protocols); ++p)
        action(Setting{static_cast<Algorithm>(a), static_cast<Protocol>(p)}, costs_[a * protocols_ + p]);
  }

 private:
  float* costs_;
  int algorithms_, protocols_;
};

}  // namespace p5::tuner
