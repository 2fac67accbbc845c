#include "tuner/arms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <sstream>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "bench/model/collective.hpp"

namespace p5::tuner {

Arm arm_of(const Environment& environment) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : environment) parts.push_back(name + "=" + value);
  return {parts.empty() ? "default" : join(parts, ","), environment};
}

namespace {

const JudgedArm* find(std::span<const JudgedArm> judged, const Environment& environment) {
  const auto found =
      std::ranges::find_if(judged, [&](const JudgedArm& each) { return each.arm.environment == environment; });
  return found == judged.end() ? nullptr : &*found;
}

// Where the descent stands: the next arm that it wants judged, or the end.
struct CoordinateDescent {
  Environment best;
  std::optional<Arm> next;
};

struct Best {
  Environment environment;
  double speedup = 1;
};

bool better(const Objective& objective, const Best& best, const ArmRules& rules) {
  // Intervals are against the default, so one that reaches below the best arm's figure may be no gain over it.
  return objective.speedup >= best.speedup * (1 + rules.least_gain) && objective.interval.low > best.speedup;
}

CoordinateDescent descend(std::span<const Knob> knobs, const KnobScope& place, const Constraints& constraints,
                          std::span<const JudgedArm> judged, const ArmRules& rules) {
  Best best;
  int arms = 0;
  for (const Knob& knob : knobs) {
    if (knob.step > rules.deepest_step || !applies(knob, place) || !constraints.allows_variable(knob.name)) continue;
    Best improved = best;
    for (const std::string& value : values_to_try(knob)) {
      if (++arms > rules.most) return {improved.environment, std::nullopt};
      Environment environment = best.environment;
      environment[knob.name] = value;
      const JudgedArm* known = find(judged, environment);
      if (!known) return {improved.environment, arm_of(environment)};
      if (known->objective && better(*known->objective, best, rules) && known->objective->speedup > improved.speedup)
        improved = {environment, known->objective->speedup};
    }
    best = improved;
  }
  return {best.environment, std::nullopt};
}

double parse_share(const std::string& text, std::string_view where) {
  double share = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (problem != std::errc() || end != text.data() + text.size() || !std::isfinite(share) || share <= 0)
    throw UsageError(fmt::format("{}: share {} is not a number above zero", where, in_quotes(text)));
  return share;
}

Weight parse_weight(const std::string& line, const std::string& where) {
  std::istringstream words(line);
  std::string collective, bytes, share, more;
  if (!(words >> collective >> bytes >> share) || words >> more)
    throw UsageError(fmt::format("{}: {} is not 'collective bytes share'", where, in_quotes(line)));
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(Function::all_reduce); ++i)
    names.emplace_back(name_of(static_cast<Function>(i)));
  for (const std::string& name : collective_names())
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  if (std::ranges::find(names, collective) == names.end())
    throw UsageError(fmt::format("{}: {}", where, unknown_name("collective", collective, names)));
  try {
    return {collective, parse_bytes(bytes).count, parse_share(share, where)};
  } catch (const UsageError& problem) {
    if (std::string_view(problem.what()).starts_with(where)) throw;
    throw UsageError(fmt::format("{}: {}", where, problem.what()));
  }
}

double distance(std::uint64_t a, std::uint64_t b) {
  return std::abs(std::log(static_cast<double>(std::max<std::uint64_t>(a, 1))) -
                  std::log(static_cast<double>(std::max<std::uint64_t>(b, 1))));
}

}  // namespace

std::vector<Weight> parse_weights(std::string_view file, std::string_view text) {
  std::vector<Weight> weights;
  int number = 0;
  for (std::string line : split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (const std::size_t comment = line.find('#'); comment != std::string::npos) line.resize(comment);
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    weights.push_back(parse_weight(line, fmt::format("{} line {}", file, number)));
  }
  if (weights.empty()) throw UsageError(fmt::format("{}: it has no line 'collective bytes share'", file));
  return weights;
}

std::vector<double> weights_for(std::span<const SizePoint> size_points, std::span<const Weight> weights,
                                std::vector<Weight>* unused) {
  std::vector<double> result(size_points.size(), weights.empty() ? 1 : 0);
  for (const Weight& weight : weights) {
    std::optional<std::size_t> nearest;
    for (std::size_t i = 0; i < size_points.size(); ++i) {
      if (size_points[i].collective != weight.collective) continue;
      if (!nearest ||
          distance(size_points[i].bytes, weight.bytes) < distance(size_points[*nearest].bytes, weight.bytes))
        nearest = i;
    }
    if (nearest)
      result[*nearest] += weight.share;
    else if (unused)
      unused->push_back(weight);
  }
  return result;
}

std::optional<Objective> objective_of(std::span<const ArmSizePoint> size_points, std::span<const double> weights) {
  double sum = 0, total = 0, squares = 0;
  for (std::size_t i = 0; i < size_points.size(); ++i) {
    if (weights[i] <= 0 || !size_points[i].times.measured()) continue;
    const Effect effect = effect_of(size_points[i].times, band_of({size_points[i].point.bytes}).launch_spread);
    sum -= weights[i] * std::log(effect.ratio);
    total += weights[i];
    squares += std::pow(weights[i] * std::log(effect.interval.high / effect.interval.low) / 2, 2);
  }
  if (total <= 0) return std::nullopt;
  const double mean = sum / total, error = std::sqrt(squares) / total;
  return Objective{std::exp(mean), {std::exp(mean - error), std::exp(mean + error)}};
}

std::string band_that_loses(std::span<const ArmSizePoint> size_points) {
  std::map<std::pair<std::string, std::string>, std::vector<double>> logs;
  for (const ArmSizePoint& point : size_points)
    if (point.times.measured())
      logs[{point.point.collective, band_of({point.point.bytes}).sizes}].push_back(log_ratio(point.times.sides()));
  for (const auto& [part, all] : logs) {
    const double longer = std::expm1(std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size()));
    if (longer > tolerated_loss)
      return fmt::format("makes {} {} {:.1f} % slower", part.first, part.second, 100 * longer);
  }
  return "";
}

Arm best_arm(std::span<const Knob> knobs, const KnobScope& place, const Constraints& constraints,
             std::span<const JudgedArm> judged, const ArmRules& rules) {
  return arm_of(descend(knobs, place, constraints, judged, rules).best);
}

std::optional<Arm> next_arm(std::span<const Knob> knobs, const KnobScope& place, const Constraints& constraints,
                            std::span<const JudgedArm> judged, const ArmRules& rules) {
  return descend(knobs, place, constraints, judged, rules).next;
}

}  // namespace p5::tuner
