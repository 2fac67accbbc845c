#include "reports/compare/beside.hpp"

#include <map>
#include <string>
#include <unordered_map>

#include "reports/compare/comparing.hpp"

namespace p5::reports {

namespace {

std::string key_with_arm(const Case& c) { return c.arm + "|" + side_key(c); }

std::optional<double> median_time(const std::vector<Launch>& launches) {
  if (launches.empty()) return std::nullopt;
  std::vector<double> medians;
  for (const Launch& launch : launches) medians.push_back(launch.median_s);
  return median(std::move(medians));
}

}  // namespace

void add_samples(std::span<const Result> journal, Report& report) {
  // A case that was measured again replaces what it left before.
  std::unordered_map<std::string, std::map<int, const Measurement*>> lines;
  for (const Result& line : journal)
    lines[key_with_arm(line.measurement.measured_case)].insert_or_assign(line.measurement.launch.value_or(0),
                                                                         &line.measurement);
  for (Result& result : report.results) {
    Measurement& m = result.measurement;
    const auto found = lines.find(key_with_arm(m.measured_case));
    if (found == lines.end()) continue;
    for (const auto series : {&Measurement::latency, &Measurement::throughput}) {
      if (!(m.*series)) continue;
      std::vector<double>& samples = (m.*series)->samples;
      samples.clear();
      for (const auto& [launch, line] : found->second)
        if (const std::optional<Series>& part = line->*series)
          samples.insert(samples.end(), part->samples.begin(), part->samples.end());
    }
  }
}

void add_baseline(const Side& baseline, Report& report) {
  std::unordered_map<std::string, BaselineTimes> times;
  for (const Observation& observation : baseline.observations)
    times[side_key(observation.measured_case)] = {median_time(observation.latency),
                                                  median_time(observation.throughput)};
  for (Result& result : report.results) {
    const Case& c = result.measurement.measured_case;
    if (const auto found = times.find(side_key(c)); c.arm == "default" && found != times.end())
      result.baseline = found->second;
  }
}

}  // namespace p5::reports
