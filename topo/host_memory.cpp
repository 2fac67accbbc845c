#include "topo/host_memory.hpp"

#include <algorithm>

#include "topo/tables.hpp"

namespace p5::topo {

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
