#include "bench/measure/alternation.hpp"

#include <algorithm>
#include <set>

#include "bench/base/statistics.hpp"

namespace p5 {

void Alternation::launch() {
  if (launches_ > 0) restart();
  for (int i = 0; i < rules_.turns; ++i) turn((launches_ + i) % 2 == 1);
  ++launches_;
}

bool Alternation::failed(std::size_t side) const {
  return std::ranges::any_of(samples_,
                             [&](const std::vector<SideSamples>& size) { return !size[side].failure.empty(); });
}

void Alternation::restart() {
  std::set<std::size_t> arms;
  for (const AlternatedSize& size : sizes_)
    for (const TrialTarget& place : size.sides) arms.insert(place.arm);
  trials_.restart({arms.begin(), arms.end()});
}

void Alternation::turn(bool backwards) {
  for (std::size_t size = 0; size < sizes_.size(); ++size) {
    if (sizes_[size].samples == 0) continue;
    if (!rules_.go_on()) return;
    const std::size_t sides = sizes_[size].sides.size();
    for (std::size_t i = 0; i < sides; ++i) measure(size, backwards ? sides - 1 - i : i);
  }
}

void Alternation::measure(std::size_t size, std::size_t side) {
  const AlternatedSize& what = sizes_[size];
  SideSamples& found = samples_[size][side];
  for (const Quantity quantity : what.quantities) {
    if (!found.failure.empty()) return;
    std::vector<double> times;
    for (const Trial& trial :
         trials_.block(what.sides[side], std::vector<std::string>(static_cast<std::size_t>(what.samples)),
                       {rules_.burst, quantity})) {
      if (trial.outcome == Trial::Outcome::measured)
        times.push_back(trial.time.count);
      else if (found.failure.empty())
        found.failure = trial.because;
    }
    if (times.empty()) return;
    std::vector<Launch>& launches = found.launches[quantity];
    if (launches.empty() || launches.back().number != launches_) launches.emplace_back().number = launches_;
    Launch& launch = launches.back();
    launch.samples_s.insert(launch.samples_s.end(), times.begin(), times.end());
    launch.median_s = median(launch.samples_s);
  }
}

}  // namespace p5
