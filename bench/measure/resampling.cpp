#include "bench/measure/resampling.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <system_error>
#include <thread>

#include "bench/base/statistics.hpp"

namespace p5 {

namespace {

// Several replicates side by side, so that the compiler orders them all with the same instructions.
constexpr std::size_t lanes = 16;
using Lanes = std::array<float, lanes>;

constexpr std::size_t fewest_samples = 6;  // below, nothing can be said about what varies within

// Reorders `values`.
float middle_of(std::span<float> values) {
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  if (values.size() % 2 == 1) return *half;
  return (*half + *std::max_element(values.begin(), half)) / 2;
}

// What the medians of the launches of one side might have been, as logs over `unit`: [launch][draw]. A power of two of
// draws, so that a few random bits choose one.
struct Draws {
  std::size_t count = 1;
  std::vector<float> values;
  float at(std::size_t launch, std::uint64_t random) const { return values[launch * count + (random & (count - 1))]; }
};

void draw_blocks(const Launch& launch, double unit, std::size_t count, Random& random, std::vector<float>& out) {
  const std::size_t n = launch.samples_s.size();
  const auto block = static_cast<std::size_t>(std::max(1.0, std::round(std::cbrt(static_cast<double>(n)))));
  std::vector<float> resampled(n);
  const double middle = median(launch.samples_s);
  // The medians' logs are drawn around the launch's own median, which may be that of more than the samples kept.
  for (std::size_t draw = 0; draw < count; ++draw) {
    for (std::size_t i = 0; i < n;) {
      const std::size_t from = random.below(n);
      for (std::size_t k = 0; k < block && i < n; ++k, ++i)
        resampled[i] = static_cast<float>(launch.samples_s[(from + k) % n] / middle);
    }
    out.push_back(static_cast<float>(std::log(launch.median_s / unit) + std::log(middle_of(resampled))));
  }
}

// From the interval of the median alone, where the samples are gone: as if it were normal.
void draw_normal(const Launch& launch, double unit, std::size_t count, Random& random, std::vector<float>& out) {
  const double deviation = std::log(launch.interval->high / launch.interval->low) / (2 * 1.96);
  for (std::size_t draw = 0; draw < count; ++draw) {
    double sum = 0;  // of 12 uniform numbers: normal enough, and the same on every machine
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.next() >> 11) * 0x1p-53;
    out.push_back(static_cast<float>(std::log(launch.median_s / unit) + deviation * (sum - 6)));
  }
}

Draws draw_within(std::span<const Launch> launches, double unit, Random& random) {
  // The more launches, the less one needs: all of them together are drawn from.
  Draws draws{.count = launches.size() == 1 ? 256u : launches.size() < 8 ? 32u : 8u, .values = {}};
  draws.values.reserve(draws.count * launches.size());
  for (const Launch& launch : launches) {
    if (launch.samples_s.size() >= fewest_samples)
      draw_blocks(launch, unit, draws.count, random, draws.values);
    else if (launch.interval && launch.interval->low > 0)
      draw_normal(launch, unit, draws.count, random, draws.values);
    else
      draws.values.insert(draws.values.end(), draws.count, static_cast<float>(std::log(launch.median_s / unit)));
  }
  return draws;
}

// [replicate][launch]: which launch stands at each place.
std::vector<unsigned> choose_launches(std::size_t launches, const ResamplingRules& rules, Random& random) {
  std::vector<unsigned> chosen;
  chosen.reserve(launches * rules.rounds * lanes);
  for (std::size_t replicate = 0; replicate < rules.rounds * lanes; ++replicate)
    for (std::size_t i = 0; i < launches; ++i)
      chosen.push_back(static_cast<unsigned>(rules.draws_launches ? random.below(launches) : i));
  return chosen;
}

// Sorts each lane over the places: neighbours are exchanged, even and odd ones in turn, without branches.
void sort_lanes(std::span<Lanes> places) {
  for (std::size_t round = 0; round < places.size(); ++round)
    for (std::size_t i = round % 2; i + 1 < places.size(); i += 2) {
      Lanes &a = places[i], &b = places[i + 1];
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const float low = std::min(a[lane], b[lane]), high = std::max(a[lane], b[lane]);
        a[lane] = low;
        b[lane] = high;
      }
    }
}

// Beyond, the number of exchanges costs more than what it saves.
constexpr std::size_t most_sorted_by_exchange = 32;

Lanes medians_of(std::span<Lanes> places) {
  Lanes medians{};
  const std::size_t half = places.size() / 2;
  if (places.size() > most_sorted_by_exchange) {
    std::vector<float> one(places.size());
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      for (std::size_t i = 0; i < places.size(); ++i) one[i] = places[i][lane];
      medians[lane] = middle_of(one);
    }
    return medians;
  }
  sort_lanes(places);
  for (std::size_t lane = 0; lane < lanes; ++lane)
    medians[lane] = places.size() % 2 == 1 ? places[half][lane] : (places[half - 1][lane] + places[half][lane]) / 2;
  return medians;
}

// The side's log median in as many replicates, from the `first` on.
Lanes replicates_of(const Draws& draws, std::span<const unsigned> chosen, std::size_t launches, std::size_t first,
                    Random& random, std::vector<Lanes>& places) {
  places.resize(launches);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    const auto of_replicate = chosen.subspan((first + lane) * launches, launches);
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < launches; ++i) {
      if (i % 8 == 0) bits = random.next();
      places[i][lane] = draws.at(of_replicate[i], bits);
      bits >>= 8;
    }
  }
  return medians_of(places);
}

// Reorders `values`.
Interval percentiles(std::span<float> values) {
  constexpr double beyond = 0.025;
  const auto last = static_cast<double>(values.size() - 1);
  const auto at = [&](double place) {
    const auto index = static_cast<std::ptrdiff_t>(place);
    std::nth_element(values.begin(), values.begin() + index, values.end());
    return static_cast<double>(values[static_cast<std::size_t>(index)]);
  };
  return {at(std::floor(last * beyond)), at(std::ceil(last * (1 - beyond)))};
}

// One after the other on each core; which core does which changes nothing.
template <class Work>
void for_each(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next = 0;
  const auto loop = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  const std::size_t helpers = count < 64 ? 0 : std::min(15u, std::max(1u, std::thread::hardware_concurrency()) - 1);
  std::vector<std::jthread> threads;
  try {
    for (std::size_t i = 0; i < helpers; ++i) threads.emplace_back(loop);
  } catch (const std::system_error&) {
    // No more threads are to be had: those that are there do it.
  }
  loop();
}

}  // namespace

double median_of(std::span<const Launch> launches) {
  std::vector<double> medians;
  for (const Launch& launch : launches) medians.push_back(launch.median_s);
  return median(std::move(medians));
}

double log_ratio(const Sides& cell) { return std::log(median_of(cell.fresh) / median_of(cell.base)); }

Resampled resample(std::span<const Sides> cells, const ResamplingRules& rules) {
  const std::size_t base_launches = cells.front().base.size(), new_launches = cells.front().fresh.size();
  const std::size_t replicates = rules.rounds * lanes;
  Random random(rules.seed);
  const std::vector<unsigned> base_chosen = choose_launches(base_launches, rules, random);
  const std::vector<unsigned> new_chosen = choose_launches(new_launches, rules, random);
  Resampled result{.together = {}, .each = std::vector<Interval>(cells.size())};
  // In fixed point, because the order in which cores add up must not show.
  std::vector<std::atomic<std::int64_t>> sums(replicates);
  constexpr double point = 0x1p40;
  for_each(cells.size(), [&](std::size_t c) {
    Random own(rules.seed + 0x5851f42d4c957f2d * (c + 1));
    const double unit = median_of(cells[c].base);
    const Draws base = draw_within(cells[c].base, unit, own), fresh = draw_within(cells[c].fresh, unit, own);
    std::vector<float> logs(replicates);
    std::vector<Lanes> places;
    for (std::size_t r = 0; r < replicates; r += lanes) {
      const Lanes divisors = replicates_of(base, base_chosen, base_launches, r, own, places);
      const Lanes dividends = replicates_of(fresh, new_chosen, new_launches, r, own, places);
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const float log = logs[r + lane] = dividends[lane] - divisors[lane];
        sums[r + lane] +=
            static_cast<std::int64_t>(static_cast<double>(log) * point / static_cast<double>(cells.size()));
      }
    }
    result.each[c] = percentiles(logs);
  });
  std::vector<float> together(replicates);
  for (std::size_t r = 0; r < replicates; ++r)
    together[r] = static_cast<float>(static_cast<double>(sums[r].load()) / point);
  result.together = percentiles(together);
  return result;
}

}  // namespace p5
