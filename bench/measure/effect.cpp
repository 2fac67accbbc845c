#include "bench/measure/effect.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <system_error>
#include <thread>

#include <nlohmann/json.hpp>

#include "bench/base/embedded.hpp"
#include "bench/base/statistics.hpp"

namespace p5 {

namespace {

// Replicates of a side that are drawn one after the other, before as many of the other side.
constexpr std::size_t replicates_at_once = 16;
using Replicates = std::array<float, replicates_at_once>;

constexpr std::size_t fewest_samples = 6;  // fewer samples give no estimate of the scatter within a launch

// Median; reorders `values`.
float median_in_place(std::span<float> values) {
  const auto half = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), half, values.end());
  if (values.size() % 2 == 1) return *half;
  return (*half + *std::max_element(values.begin(), half)) / 2;
}

// Resampled medians of the launches of one side, as logs over `unit`: [launch][draw]. The number of draws is a power of
// two, so that a few random bits select one.
struct Draws {
  std::size_t count = 1;
  std::vector<float> values;
  float at(std::size_t launch, std::uint64_t random) const { return values[launch * count + (random & (count - 1))]; }
};

// Blocks of samples that are drawn together: the cube root of their number, and longer where neighbours are more alike
// than a correlation of 0.41 makes them (Politis and White, Automatic block-length selection for the dependent
// bootstrap, Econometric Reviews 23, 2004, for autoregressive samples); at most half of them. Few long blocks differ
// less than the samples of as many launches do, so that what is drawn is widened.
struct Blocks {
  std::size_t length = 1;
  double widening = 1;
};
Blocks blocks_of(const std::vector<double>& samples) {
  const auto n = static_cast<double>(samples.size());
  const double alike = correlation_of_neighbours(samples), root = std::round(std::cbrt(n));
  const double factor = std::cbrt(std::pow(2 * alike / (1 - alike * alike), 2));
  const double length = std::max(root, std::min(std::floor(n / 2), std::round(std::cbrt(n) * factor)));
  return {static_cast<std::size_t>(length), std::sqrt((1 - root / n) / (1 - length / n))};
}

void draw_blocks(const Launch& launch, double unit, std::size_t count, Random& random, std::vector<float>& out) {
  const std::size_t n = launch.samples_s.size();
  const auto [block, widening] = blocks_of(launch.samples_s);
  std::vector<float> resampled(n);
  const double middle = median(launch.samples_s);
  // The medians' logs are drawn around the launch's own median, which may be that of more samples than were kept.
  for (std::size_t draw = 0; draw < count; ++draw) {
    for (std::size_t i = 0; i < n;) {
      const std::size_t from = random.below(n);
      for (std::size_t k = 0; k < block && i < n; ++k, ++i)
        resampled[i] = static_cast<float>(launch.samples_s[(from + k) % n] / middle);
    }
    const double log = widening * std::log(median_in_place(resampled));
    out.push_back(static_cast<float>(std::log(launch.median_s / unit) + log));
  }
}

// Draws from a normal distribution with the median's interval, where the samples are missing.
void draw_normal(const Launch& launch, double unit, std::size_t count, Random& random, std::vector<float>& out) {
  const double deviation = std::log(launch.interval->high / launch.interval->low) / (2 * 1.96);
  for (std::size_t draw = 0; draw < count; ++draw) {
    double sum = 0;  // sum of 12 uniform numbers: nearly normal, and the same on every machine
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random.next() >> 11) * 0x1p-53;
    out.push_back(static_cast<float>(std::log(launch.median_s / unit) + deviation * (sum - 6)));
  }
}

Draws draw_within(std::span<const Launch> launches, double unit, Random& random) {
  // Fewer draws per launch suffice with more launches, which are all drawn from together.
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

// [replicate][place]: index of the drawn launch.
std::vector<unsigned> choose_launches(std::size_t launches, const ResamplingRules& rules, Random& random) {
  std::vector<unsigned> chosen;
  chosen.reserve(launches * rules.rounds * replicates_at_once);
  for (std::size_t replicate = 0; replicate < rules.rounds * replicates_at_once; ++replicate)
    for (std::size_t i = 0; i < launches; ++i)
      chosen.push_back(static_cast<unsigned>(rules.draws_launches ? random.below(launches) : i));
  return chosen;
}

// The side's log medians in the replicates from `first` on.
Replicates replicates_of(const Draws& draws, std::span<const unsigned> chosen, std::size_t launches, std::size_t first,
                         Random& random) {
  Replicates medians{};
  std::vector<float> drawn(launches);
  for (std::size_t replicate = 0; replicate < medians.size(); ++replicate) {
    const auto of_replicate = chosen.subspan((first + replicate) * launches, launches);
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < launches; ++i) {
      if (i % 8 == 0) bits = random.next();
      drawn[i] = draws.at(of_replicate[i], bits);
      bits >>= 8;
    }
    medians[replicate] = median_in_place(drawn);
  }
  return medians;
}

// 95 % percentile interval; reorders `values`.
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

// Runs work(i) on all cores; the result does not depend on the assignment.
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
    // No more threads are available: the existing ones do the work.
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
  const std::size_t replicates = rules.rounds * replicates_at_once;
  Random random(rules.seed);
  const std::vector<unsigned> base_chosen = choose_launches(base_launches, rules, random);
  const std::vector<unsigned> new_chosen = choose_launches(new_launches, rules, random);
  Resampled result{.overall = {}, .each = std::vector<Interval>(cells.size())};
  // Fixed point, because the result must not depend on the order of the additions.
  std::vector<std::atomic<std::int64_t>> sums(replicates);
  constexpr double point = 0x1p40;
  for_each(cells.size(), [&](std::size_t c) {
    Random own(rules.seed + 0x5851f42d4c957f2d * (c + 1));
    const double unit = median_of(cells[c].base);
    const Draws base = draw_within(cells[c].base, unit, own), fresh = draw_within(cells[c].fresh, unit, own);
    std::vector<float> logs(replicates);
    for (std::size_t r = 0; r < replicates; r += replicates_at_once) {
      const Replicates divisors = replicates_of(base, base_chosen, base_launches, r, own);
      const Replicates dividends = replicates_of(fresh, new_chosen, new_launches, r, own);
      for (std::size_t i = 0; i < replicates_at_once; ++i) {
        const float log = logs[r + i] = dividends[i] - divisors[i];
        sums[r + i] += static_cast<std::int64_t>(static_cast<double>(log) * point / static_cast<double>(cells.size()));
      }
    }
    result.each[c] = percentiles(logs);
  });
  std::vector<float> overall(replicates);
  for (std::size_t r = 0; r < replicates; ++r)
    overall[r] = static_cast<float>(static_cast<double>(sums[r].load()) / point);
  result.overall = percentiles(overall);
  return result;
}

namespace {

enum class Direction { slower, either };

double log_of_time(const Launch& launch) { return std::log(launch.median_s); }

// Sum of squared deviations of one side, in which few launches far from the others do not count in full: those beyond
// three deviations of the inner seven eighths count as three. A mode with more than an eighth of the launches is
// scatter.
double bounded_sum_of_squares(const std::vector<double>& values) {
  constexpr double inner = 7.0 / 8, inner_deviations = 1.534;  // the normal distribution has 7/8 within 1.534
  if (values.size() < 8) return sum_of_squared_deviations(values);
  const double middle = median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  std::ranges::sort(distances);
  const auto within = static_cast<std::size_t>(std::ceil(inner * static_cast<double>(values.size())));
  const double most = 3 * distances[within - 1] / inner_deviations;
  double sum = 0;
  for (const double distance : distances) sum += std::pow(std::min(distance, most), 2);
  return sum;
}

// Scatter between launches, from observation and assumption.
struct Scatter {
  double deviation = 0;
  int degrees = 1;
};
Scatter scatter_of(const std::vector<double>& base, const std::vector<double>& fresh, double launch_spread) {
  const int weight = thresholds().weight;
  const int seen = static_cast<int>(base.size() + fresh.size()) - 2;
  const double sum =
      weight * launch_spread * launch_spread + bounded_sum_of_squares(base) + bounded_sum_of_squares(fresh);
  return {std::sqrt(sum / (weight + seen)), weight + seen};
}

// Largest error of the ratio of both sides by rounding of their times, as a log. All launches of a side may be rounded
// alike, so it does not shrink with their number.
double rounding_of(std::span<const Sides> sizes) {
  const auto largest = [](std::span<const Launch> launches) {
    double most = 0;
    for (const Launch& launch : launches) most = std::max(most, launch.rounding_s / launch.median_s);
    return most;
  };
  double sum = 0;
  for (const Sides& size : sizes) sum += std::log1p(largest(size.base)) + std::log1p(largest(size.fresh));
  return sum / static_cast<double>(sizes.size());
}

// Variance of the median of so many normal values, as a share of theirs, within 3 %.
double variance_of_median(std::size_t count) {
  constexpr double of_many = std::numbers::pi / 2;
  return of_many / (static_cast<double>(count) + (count % 2 == 1 ? 1 : 2) * (of_many - 1));
}

Interval widen(const Interval& logs, double by) { return {logs.low - by, logs.high + by}; }

// Effect with too few launches to resample: observed scatter within launches, assumed scatter between them.
Effect screen(double log_ratio, const Interval& logs, const std::vector<double>& base, const std::vector<double>& fresh,
              double launch_spread, Direction direction) {
  const Scatter scatter = scatter_of(base, fresh, launch_spread);
  const double share =
      std::sqrt(variance_of_median(base.size()) + variance_of_median(fresh.size())) * scatter.deviation;
  const double between = student_quantile(0.05, scatter.degrees) * share;
  const double error = std::hypot(share, (logs.high - logs.low) / (2 * 1.96));
  const double beyond = student_two_sided_p(log_ratio / error, scatter.degrees);
  const double slower = log_ratio > 0 ? beyond / 2 : 1 - beyond / 2;
  return effect_of(
      log_ratio,
      {log_ratio - std::hypot(between, log_ratio - logs.low), log_ratio + std::hypot(between, logs.high - log_ratio)},
      direction == Direction::slower ? slower : beyond);
}

// Variance between the runs of a side, by an analysis of variance of the launches of both sides: what the means of runs
// differ beyond what their launches do (Searle, Casella and McCulloch, Variance Components, 1992, 3.6). Launches of one
// run share its hosts, its day and its start, so that they say nothing of it.
struct RunScatter {
  double variance = 0;  // of a run
  double share = 0;     // of this in the variance of the ratio of both sides
  int degrees = 0;
};
RunScatter scatter_of_runs(std::span<const Sides> sizes) {
  double between = 0, within = 0, weight = 0, share = 0;
  int degrees = 0, degrees_within = 0;
  for (const bool base : {true, false}) {
    const std::span<const Launch> launches = base ? sizes.front().base : sizes.front().fresh;
    const std::vector<double> scores = scores_of(sizes, base, log_of_time);
    std::map<int, std::vector<double>> runs;
    for (std::size_t l = 0; l < launches.size(); ++l) runs[launches[l].run].push_back(scores[l]);
    const auto all = static_cast<double>(scores.size());
    const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / all;
    double squares = 0;
    for (const auto& [run, its] : runs) {
      const auto count = static_cast<double>(its.size());
      const double of_run = std::accumulate(its.begin(), its.end(), 0.0) / count;
      between += count * (of_run - mean) * (of_run - mean);
      within += sum_of_squared_deviations(its);
      squares += count * count;
    }
    degrees += static_cast<int>(runs.size()) - 1;
    degrees_within += static_cast<int>(scores.size() - runs.size());
    weight += all - squares / all;
    share += squares / (all * all);
  }
  if (degrees == 0 || degrees_within == 0) return {};
  return {std::max(0.0, (between / degrees - within / degrees_within) / (weight / degrees)), share, degrees};
}

// An effect that allows for the variance between runs. Its degrees of freedom are those of both variances together
// (Satterthwaite, Biometrics Bulletin 2, 1946).
Effect with_runs(const Effect& effect, const RunScatter& runs, std::size_t launches, Direction direction) {
  const double of_runs = runs.variance * runs.share;
  if (of_runs <= 0) return effect;
  const double log = std::log(effect.ratio), low = std::log(effect.interval.low), high = std::log(effect.interval.high),
               of_launches = std::pow((high - low) / (2 * 1.96), 2);
  const double all = of_runs + of_launches;
  const int degrees = static_cast<int>(all * all /
                                       (of_runs * of_runs / runs.degrees +
                                        of_launches * of_launches / std::max(1.0, static_cast<double>(launches) - 2)));
  const double more = student_quantile(0.05, std::max(1, degrees)) * std::sqrt(of_runs);
  const double beyond = student_two_sided_p(log / std::sqrt(all), std::max(1, degrees));
  const double p = direction == Direction::either ? beyond : log > 0 ? beyond / 2 : 1 - beyond / 2;
  return effect_of(log, {log - std::hypot(more, log - low), log + std::hypot(more, high - log)}, std::max(effect.p, p));
}

}  // namespace

Effect allowing_for_runs(const Effect& slower, const Sides& launches) {
  return with_runs(slower, scatter_of_runs({&launches, 1}), launches.base.size() + launches.fresh.size(),
                   Direction::slower);
}

std::vector<double> scores_of(std::span<const Sides> sizes, bool base, double (*value)(const Launch&)) {
  std::vector<double> means;
  for (const Sides& size : sizes) {
    const std::span<const Launch> launches = base ? size.base : size.fresh;
    means.resize(launches.size());
    for (std::size_t l = 0; l < launches.size(); ++l)
      means[l] += value(launches[l]) / static_cast<double>(sizes.size());
  }
  return means;
}

Effect effect_of(double log_ratio, const Interval& logs, double p) {
  return {std::exp(log_ratio), {std::exp(logs.low), std::exp(logs.high)}, p, p};
}

bool EffectJudge::can_test(const Sides& sides) const {
  return RankTest::least_p(sides.base.size(), sides.fresh.size()) * static_cast<double>(rows_) <= chance_;
}

bool EffectJudge::needs_screening(const Sides& sides) const {
  return std::min(sides.base.size(), sides.fresh.size()) < fewest_resampled || !can_test(sides);
}

double EffectJudge::slower_p(std::span<const Sides> sizes) {
  return one_sided_p(scores_of(sizes, true, log_of_time), scores_of(sizes, false, log_of_time));
}

Effects EffectJudge::judge(std::span<const Sides> sizes, double launch_spread, std::uint64_t salt) {
  Effects effects;
  effects.screening = needs_screening(sizes.front());
  const Resampled drawn = resample(sizes, {.seed = seed_ + salt, .draws_launches = !effects.screening});
  const auto judge_launches = [&](std::span<const Sides> which, double log, const Interval& logs, Direction direction) {
    const std::vector<double> base = scores_of(which, true, log_of_time), fresh = scores_of(which, false, log_of_time);
    const auto tested = [&] {
      return direction == Direction::slower ? ranks_.one_sided_p(base, fresh) : ranks_.two_sided_p(base, fresh);
    };
    Effect of_launches =
        effects.screening ? screen(log, logs, base, fresh, launch_spread, direction) : effect_of(log, logs, 1);
    if (can_test(sizes.front())) of_launches.p = of_launches.p_adjusted = tested();
    return of_launches;
  };
  const std::size_t launches = sizes.front().base.size() + sizes.front().fresh.size();
  double sum = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double log = log_ratio(sizes[i]);
    sum += log;
    const auto size = sizes.subspan(i, 1);
    const Effect of_launches = judge_launches(size, log, widen(drawn.each[i], rounding_of(size)), Direction::either);
    effects.each.push_back(with_runs(of_launches, scatter_of_runs(size), launches, Direction::either));
  }
  const RunScatter runs = scatter_of_runs(sizes);
  const double rounding = rounding_of(sizes);
  const Effect of_launches =
      judge_launches(sizes, sum / static_cast<double>(sizes.size()), widen(drawn.overall, rounding), Direction::slower);
  effects.overall = with_runs(of_launches, runs, launches, Direction::slower);
  effects.runs_differ = std::sqrt(runs.variance);
  const double half = std::log(of_launches.interval.high / of_launches.interval.low) / 2;
  effects.parts = {.launches = std::max(0.0, half - rounding),
                   .rounding = rounding,
                   .run_deviation = std::sqrt(runs.variance * runs.share),
                   .run_degrees = runs.degrees,
                   .runs = runs.share > 0 ? 2 / runs.share : 1};
  return effects;
}

namespace {

BandRule band_from(const nlohmann::json& j) {
  BandRule band;
  band.name = j.at("band");
  band.sizes = j.at("sizes");
  band.steps = j.value("steps", false);
  band.last = !band.steps && !j.contains("up_to");
  if (j.contains("up_to")) band.up_to = parse_bytes(j.at("up_to").get<std::string>());
  band.matters = j.at("matters");
  band.matters_s = j.value("matters_us", 0.0) * 1e-6;
  band.negligible = j.at("negligible");
  band.launch_spread = j.at("launch_spread");
  band.because = j.at("because");
  return band;
}

Thresholds read() {
  Thresholds all;
  const nlohmann::json j = nlohmann::json::parse(embedded::threshold_files().front().text);
  for (const nlohmann::json& band : j.at("bands")) all.bands.push_back(band_from(band));
  const nlohmann::json& spread = j.at("spread");
  all.spread = {spread.at("matters"), spread.at("negligible"), spread.at("least")};
  all.weight = j.at("weight");
  return all;
}

}  // namespace

const Thresholds& thresholds() {
  static const Thresholds all = read();
  return all;
}

const BandRule& band_of(Bytes size) {
  const std::vector<BandRule>& bands = thresholds().bands;
  for (const BandRule& band : bands)
    // "up to 64 KiB" and "from 64 MiB on": the largest band begins where the previous one ends.
    if (band.last || (&band == &bands.front() ? size <= band.up_to : size < band.up_to)) return band;
  return bands.front();  // not reached: one is the last
}

const BandRule& band_of(const Case& c) {
  return c.collective->moves_data ? band_of(c.bytes) : *std::ranges::find(thresholds().bands, true, &BandRule::steps);
}

double matters_at(const BandRule& band, double time_s) { return std::max(band.matters, band.matters_s / time_s); }

}  // namespace p5
