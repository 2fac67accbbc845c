#include "tuner/arms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/base/embedded.hpp"
#include "bench/base/error.hpp"
#include "bench/base/json_fields.hpp"
#include "bench/base/names.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "bench/model/collective.hpp"

namespace p5::tuner {

// ---- knobs

namespace {

constexpr std::array<std::string_view, 4> transports{"any", "net", "efa", "nvls"};

std::vector<Knob> load_all() {
  std::vector<Knob> all;
  for (const embedded::File& file : embedded::knob_files()) {
    const std::vector<Knob> some = parse_knobs(file.name, file.text);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

}  // namespace

void fields(auto& archive, Is<Knob> auto& knob) {
  archive.must("name", knob.name);
  archive.must("since", knob.since);
  archive.must("step", json_fields::between(2, 4, knob.step));
  archive.must("values", knob.values);
  archive.must("default", knob.standard);
  archive.may("beside", knob.beside);
  archive.must("summary", knob.summary);
  archive.must("platforms", knob.platforms);
  archive.must("least_nodes", json_fields::at_least(1, knob.least_nodes));
  archive.must("transport", json_fields::one_of(knob.transport, transports));
  archive.must("collectives", knob.collectives);
  archive.must("risk", knob.risk);
  archive.must("source", knob.source);
}

std::vector<Knob> parse_knobs(std::string_view file, std::string_view text) try {
  return json_fields::read_as<std::vector<Knob>>(nlohmann::json::parse(text));
} catch (const std::exception& problem) {
  throw UsageError(fmt::format("knob file {}: {}", file, problem.what()));
}

const std::vector<Knob>& knobs() {
  static const std::vector<Knob> all = load_all();
  return all;
}

std::vector<std::string> risks_of(const Environment& environment) {
  std::vector<std::string> risks;
  for (const Knob& knob : knobs())
    if (environment.contains(knob.name) && knob.risk != "none known")
      risks.push_back(fmt::format("{}: {}", knob.name, knob.risk));
  return risks;
}

bool applies(const Knob& knob, const KnobScope& scope) {
  if (scope.nodes < knob.least_nodes || (knob.beside && !scope.beside)) return false;
  if (!knob.since.empty() && scope.nccl_version < parse_nccl_version(knob.since)) return false;
  if (knob.transport == "efa" && !scope.efa) return false;
  if (knob.transport == "nvls" && !scope.nvls) return false;
  if (knob.transport == "net" && scope.nodes < 2) return false;
  const auto measured = [&](const std::string& each) {
    return std::ranges::find(scope.collectives, each) != scope.collectives.end();
  };
  if (!knob.collectives.empty() && !scope.collectives.empty() && std::ranges::none_of(knob.collectives, measured))
    return false;
  return knob.platforms.empty() || std::ranges::any_of(knob.platforms, [&](const std::string& prefix) {
           return scope.platform.starts_with(prefix);
         });
}

std::vector<std::string> values_to_try(const Knob& knob) {
  // NCCL and its plugins ignore the case of values.
  const std::string standard = lower(knob.standard);
  std::vector<std::string> values;
  for (const std::string& value : knob.values)
    if (lower(value) != standard) values.push_back(value);
  return values;
}

int parse_nccl_version(std::string_view text) {
  std::array<int, 3> parts{};
  std::size_t count = 0;
  for (const std::string& part : split(text, '.')) {
    if (count == parts.size()) return 0;
    const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), parts[count++]);
    if (problem != std::errc() || end != part.data() + part.size()) return 0;
  }
  const auto [major, minor, patch] = parts;
  if (count < 2 || major < 1 || minor < 0 || minor > 99 || patch < 0 || patch > 99) return 0;
  return major == 2 && minor <= 8 ? major * 1000 + minor * 100 + patch : major * 10000 + minor * 100 + patch;
}

// ---- arms and weights

Arm make_arm(const Environment& environment) {
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

}  // namespace

bool loses_alone(const JudgedArm& judged, const ArmRules& rules, bool unless_certain) {
  if (!judged.alone) return false;
  return (unless_certain ? judged.alone->interval.low : judged.alone->speedup) < 1 / (1 + rules.alone_loss);
}

std::string reason_not_to_adopt(const JudgedArm& again, const std::string& failure, const std::string& slower,
                                const ArmRules& rules) {
  if (!failure.empty()) return failure;
  if (!again.objective) return "was not measured in fresh processes";
  const Objective& found = *again.objective;
  if (found.interval.low <= 1 || found.speedup < 1 + rules.least_gain)
    return fmt::format("was {:.3f} times as fast in fresh processes ({:.3f} to {:.3f}): too little, or chance",
                       found.speedup, found.interval.low, found.interval.high);
  if (!slower.empty()) return slower;
  if (loses_alone(again, rules, true))
    return fmt::format("may make operations alone slower by more than {:g} %", 100 * rules.alone_loss);
  return "";
}

bool is_undecided(const JudgedArm& again, const std::optional<SlowerBand>& slower, const ArmRules& rules) {
  if (!again.objective || again.objective->interval.high < 1 + rules.least_gain) return false;
  if (again.objective->interval.low <= 1 || again.objective->speedup < 1 + rules.least_gain) return true;
  if (slower) return !slower->certain;
  return loses_alone(again, rules, true) && again.alone->interval.high >= 1 / (1 + rules.alone_loss);
}

namespace {

// The state of the descent: the best environment so far, and the arm to try next; null at the end.
struct CoordinateDescent {
  Environment best;
  std::optional<Arm> next;
};

struct Best {
  Environment environment;
  double speedup = 1;
};

bool is_better(const Objective& objective, const Best& best, const ArmRules& rules) {
  // Intervals are relative to the default, so the lower end has to exceed the best arm's speedup.
  return objective.speedup >= best.speedup * (1 + rules.least_gain) && objective.interval.low > best.speedup;
}

// Knobs of later steps are never tried: step 4 has the variables of the network plugin, which are only listed.
constexpr int deepest_step = 3;

CoordinateDescent descend(std::span<const Knob> knobs, const KnobScope& scope, const Constraints& constraints,
                          std::span<const JudgedArm> judged, const ArmRules& rules) {
  Best best;
  int tried = 0;
  for (const Knob& knob : knobs) {
    if (knob.step > deepest_step || !applies(knob, scope) || !constraints.allows_variable(knob.name)) continue;
    Best improved = best;
    for (const std::string& value : values_to_try(knob)) {
      if (++tried > rules.most) return {improved.environment, std::nullopt};
      Environment environment = best.environment;
      environment[knob.name] = value;
      const JudgedArm* known = find(judged, environment);
      if (!known) return {improved.environment, make_arm(environment)};
      if (known->objective && !loses_alone(*known, rules) && is_better(*known->objective, best, rules) &&
          known->objective->speedup > improved.speedup)
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
  std::string with_blanks = line;
  std::ranges::replace(with_blanks, ',', ' ');
  std::istringstream words(with_blanks);
  std::string collective, bytes, share, more;
  if (!(words >> collective >> bytes >> share) || words >> more)
    throw UsageError(fmt::format("{}: {} is not 'collective bytes share'", where, in_quotes(line)));
  std::vector<std::string> names;
  for (const Function function : all_functions) names.emplace_back(name_of(function));
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

double log_distance(std::uint64_t a, std::uint64_t b) {
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
    weights.push_back(parse_weight(line, fmt::format("{} line {}", printable(file), number)));
  }
  if (weights.empty()) throw UsageError(fmt::format("{}: it has no line 'collective bytes share'", printable(file)));
  return weights;
}

std::vector<double> weights_for(std::span<const SizePoint> size_points, std::span<const Weight> weights,
                                std::vector<Weight>* unused) {
  std::vector<double> result(size_points.size(), weights.empty() ? 1 : 0);
  // Shares count relative to the largest, so that no sum of them is infinite.
  double largest = 0;
  for (const Weight& weight : weights) largest = std::max(largest, weight.share);
  for (const Weight& weight : weights) {
    std::optional<std::size_t> nearest;
    for (std::size_t i = 0; i < size_points.size(); ++i) {
      if (size_points[i].collective != weight.collective) continue;
      if (!nearest ||
          log_distance(size_points[i].bytes, weight.bytes) < log_distance(size_points[*nearest].bytes, weight.bytes))
        nearest = i;
    }
    if (nearest)
      result[*nearest] += weight.share / largest;
    else if (unused)
      unused->push_back(weight);
  }
  return result;
}

std::optional<Objective> objective_of(std::span<const ArmSizePoint> size_points, std::span<const double> weights) {
  // For each process of the default (`standard`) and of the arm (`tuned`): the weighted sum of the logarithms of its
  // median times, over the size points that all processes measured.
  std::vector<double> standard, tuned;
  for (std::size_t i = 0; i < size_points.size(); ++i) {
    if (weights[i] <= 0) continue;
    standard.resize(std::max(standard.size(), size_points[i].times.standard.size()));
    tuned.resize(std::max(tuned.size(), size_points[i].times.tuned.size()));
  }
  ResamplingRules within_processes;
  within_processes.draws_launches = false;
  double total = 0, squares = 0;
  for (std::size_t i = 0; i < size_points.size(); ++i) {
    const BothSides& times = size_points[i].times;
    if (weights[i] <= 0 || !times.measured() || times.standard.size() < standard.size() ||
        times.tuned.size() < tuned.size())
      continue;
    for (std::size_t l = 0; l < standard.size(); ++l) standard[l] += weights[i] * std::log(times.standard[l].median_s);
    for (std::size_t l = 0; l < tuned.size(); ++l) tuned[l] += weights[i] * std::log(times.tuned[l].median_s);
    total += weights[i];
    const Sides sides = times.sides();
    const Interval samples = resample({&sides, 1}, within_processes).overall;
    squares += std::pow(weights[i] * (samples.high - samples.low) / 2, 2);
  }
  if (total <= 0) return std::nullopt;
  const auto as_launches = [&](const std::vector<double>& sums) {
    std::vector<Launch> launches;
    for (const double sum : sums) {
      launches.emplace_back().number = static_cast<int>(launches.size());
      launches.back().median_s = std::exp(sum / total);
    }
    return launches;
  };
  const BothSides means{as_launches(tuned), as_launches(standard)};  // exchanged, so that the ratio is default / arm
  const Sides sides = means.sides();
  const Effect effect = effect_of(means, spread_of_processes({&sides, 1}, process_spread));
  const double mean = std::log(effect.ratio), error = std::sqrt(squares) / total;
  return Objective{effect.ratio,
                   {std::exp(mean - std::hypot(mean - std::log(effect.interval.low), error)),
                    std::exp(mean + std::hypot(std::log(effect.interval.high) - mean, error))}};
}

std::optional<SlowerBand> find_slower_band(std::span<const ArmSizePoint> size_points, double tolerable,
                                           std::string_view what) {
  std::map<std::pair<std::string, std::string>, std::vector<const ArmSizePoint*>> bands;
  for (const ArmSizePoint& point : size_points)
    if (point.times.measured()) bands[{point.point.collective, band_of({point.point.bytes}).sizes}].push_back(&point);
  std::optional<SlowerBand> found;
  for (const auto& [part, points] : bands) {
    std::vector<Sides> sides;
    double logs = 0;
    for (const ArmSizePoint* point : points) {
      logs += log_ratio(point->times.sides()) / static_cast<double>(points.size());
      const Sides each = point->times.sides();
      if (sides.empty() ||
          (each.base.size() == sides.front().base.size() && each.fresh.size() == sides.front().fresh.size()))
        sides.push_back(each);
    }
    const double longer = std::expm1(logs);
    if (longer <= tolerable) continue;
    const double spread = spread_of_processes(sides, band_of({points.front()->point.bytes}).launch_spread);
    const Interval interval = EffectJudge(1, 1).judge(sides, spread).overall.interval;
    if (interval.low > 1)
      return SlowerBand{fmt::format("makes {} {} {:.1f} % slower{}", part.first, part.second, 100 * longer, what),
                        true};
    if (!found)
      found = SlowerBand{
          fmt::format("may make {} {} {:.1f} % slower{} ({:.1f} to {:.1f} %): processes differ too much to exclude it",
                      part.first, part.second, 100 * longer, what, 100 * (interval.low - 1), 100 * (interval.high - 1)),
          false};
  }
  return found;
}

Arm best_arm(std::span<const Knob> knobs, const KnobScope& scope, const Constraints& constraints,
             std::span<const JudgedArm> judged, const ArmRules& rules) {
  return make_arm(descend(knobs, scope, constraints, judged, rules).best);
}

std::optional<Arm> next_arm(std::span<const Knob> knobs, const KnobScope& scope, const Constraints& constraints,
                            std::span<const JudgedArm> judged, const ArmRules& rules) {
  return descend(knobs, scope, constraints, judged, rules).next;
}

}  // namespace p5::tuner
