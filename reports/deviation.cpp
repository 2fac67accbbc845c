#include "reports/deviation.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "bench/measure/effect.hpp"
#include "reports/compare/pairing.hpp"

namespace p5::reports {

namespace {

double median_of(const std::vector<const Times*>& runs, const std::string& row, const std::string& which) {
  std::vector<double> values;
  for (const Times* run : runs)
    if (const auto found = run->rows.find(row); found != run->rows.end())
      if (const auto time = found->second.find(which); time != found->second.end()) values.push_back(time->second);
  return median(std::move(values));
}

}  // namespace

std::string row_name(std::string_view collective, Quantity quantity, std::string_view band) {
  return fmt::format("{}, {}, {}", collective, name_of(quantity), band);
}

Times times_of(const Run& run) {
  Times times;
  for (const Observation& observation : make_side(run.name, {&run, 1}).observations)
    for (const auto& [quantity, launches] : {std::pair(Quantity::latency, &observation.latency),
                                             std::pair(Quantity::throughput, &observation.throughput)}) {
      if (launches->empty() || !decides(observation, quantity)) continue;
      const Case& c = observation.measured_case;
      const BandRule& band = band_of(c.bytes);
      const std::string row = row_name(label_of(c), quantity, band.name);
      std::vector<double> medians;
      for (const Launch& launch : *launches) medians.push_back(launch.median_s);
      const double time = median(std::move(medians));
      times.rows[row][identity_of(c)] = std::log(time);
      const double share = matters_at(band, time);
      times.matters[row] = std::max(times.matters[row], std::log1p(share));
      times.negligible[row] = std::max(times.negligible[row], std::log1p(band.negligible * share));
      times.shown[row] = row_name(label_of(c), quantity, meaning_of(band.name));
    }
  return times;
}

std::map<const Times*, double> deviations(const std::vector<const Times*>& runs, const std::string& row) {
  std::map<const Times*, double> all;
  for (const Times* run : runs) {
    const auto found = run->rows.find(row);
    if (found == run->rows.end()) continue;
    double sum = 0;
    for (const auto& [which, time] : found->second) sum += time - median_of(runs, row, which);
    all[run] = sum / static_cast<double>(found->second.size());
  }
  return all;
}

}  // namespace p5::reports
