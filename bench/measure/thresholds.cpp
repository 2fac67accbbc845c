#include "bench/measure/thresholds.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/base/embedded.hpp"

namespace p5 {

namespace {

BandRule band_from(const nlohmann::json& j) {
  BandRule band;
  band.name = j.at("band");
  band.sizes = j.at("sizes");
  band.last = !j.contains("up_to");
  if (!band.last) band.up_to = parse_bytes(j.at("up_to").get<std::string>());
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
    // "up to 64 KiB" and "from 64 MiB on": the largest band begins where the one before it ends.
    if (!band.last && (&band == &bands.front() ? size <= band.up_to : size < band.up_to)) return band;
  return bands.back();
}

double matters_at(const BandRule& band, double time_s) { return std::max(band.matters, band.matters_s / time_s); }

}  // namespace p5
