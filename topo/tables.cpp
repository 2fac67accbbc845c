#include "topo/tables.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/base/embedded.hpp"
#include "bench/base/names.hpp"

namespace p5::topo {

nlohmann::json table(std::string_view file) {
  for (const embedded::File& each : embedded::table_files())
    if (each.name == file) return nlohmann::json::parse(each.text);
  throw std::logic_error("no table is called " + std::string(file));
}

namespace {

std::vector<int> numbers(const std::string& version) {
  std::vector<int> parts;
  std::istringstream text(version);
  for (int part; text >> part; text.ignore(1)) parts.push_back(part);
  return parts;
}

}  // namespace

bool contains(const VersionRange& range, const std::string& version) {
  const std::vector<int> known = numbers(version);
  if (known.empty()) return false;
  return (range.from.empty() || known >= numbers(range.from)) && (range.below.empty() || known < numbers(range.below));
}

void fields(auto& archive, Is<XidClass> auto& row) {
  archive.must("class", row.name);
  archive.may("of_switch", row.of_switch);
  archive.must("codes", row.codes);
  archive.must("says", row.says);
  archive.must("severity", json_fields::named(row.severity, severity_from));
  archive.must("action", row.action);
  archive.must("source", row.source);
}

// Matches the text after the last " to " only: "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot
// Required)" names the required action there.
const XidClass& class_of_xid(int code, std::string_view text) {
  static const auto rows = make_rows<XidClass>("xids.json");
  constexpr std::string_view change = " to ";
  const std::size_t at = text.rfind(change);
  const std::string told = lower(at == std::string_view::npos ? text : text.substr(at + change.size()));
  const auto fits = [&](const XidClass& row) {
    return row.of_switch == is_of_switch(code) &&
           (row.codes.empty() || std::ranges::find(row.codes, code) != row.codes.end()) &&
           (row.says.empty() || std::ranges::any_of(row.says, [&](const std::string& word) {
              return told.find(word) != std::string::npos;
            }));
  };
  return *std::ranges::find_if(rows, fits);  // the last row of each kind matches every code
}

void fields(auto& archive, Is<PublishedProducts> auto& row) {
  archive.must("gpus", row.gpus);
  archive.must("bf16_tflop_per_s", row.bf16_tflop_per_s);
  archive.must("fp8_tflop_per_s", row.fp8_tflop_per_s);
  archive.must("source", row.source);
}

const PublishedProducts* published_products_of(std::string_view gpu_model) {
  static const auto rows = make_rows<PublishedProducts>("matrix_products.json");
  const auto at = std::ranges::find_if(
      rows, [&](const PublishedProducts& row) { return std::ranges::find(row.gpus, gpu_model) != row.gpus.end(); });
  return at == rows.end() ? nullptr : &*at;
}

void fields(auto& archive, Is<HostMemoryRate> auto& row) {
  archive.must("platforms", row.platforms);
  archive.must("read_gb_per_s", row.read);
  archive.must("source", row.source);
}

const HostMemoryRate* host_memory_of(const Platform& platform) {
  static const auto rows = make_rows<HostMemoryRate>("host_memory.json");
  const auto at = std::ranges::find_if(rows, [&](const HostMemoryRate& row) {
    return std::ranges::find(row.platforms, platform.name) != row.platforms.end();
  });
  return at == rows.end() ? nullptr : &*at;
}

std::optional<int> nics_fed_by_host_memory(const Platform& platform) {
  constexpr double share = 0.8;
  const HostMemoryRate* const known = host_memory_of(platform);
  if (!known || !(platform.nic_rate.count > 0)) return std::nullopt;
  return std::max(1, static_cast<int>(known->read * share / platform.nic_rate.count));
}

}  // namespace p5::topo
