// The counters of RDMA devices.
#include "topo/discover.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

namespace fs = std::filesystem;

namespace {

// Read as integers: as doubles, large counts would lose their last digits.
std::optional<std::uint64_t> count_in(const fs::path& file) {
  const auto text = read_text(file);
  if (!text || text->empty() || text->find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  try {
    return std::stoull(*text);
  } catch (const std::out_of_range&) {
    return std::nullopt;
  }
}

}  // namespace

std::map<std::string, std::uint64_t> nic_counters(const fs::path& root, const std::string& device) {
  std::map<std::string, std::uint64_t> counters;
  const fs::path port = root / "sys/class/infiniband" / device / "ports/1";
  for (const char* folder : {"counters", "hw_counters"})
    for (const std::string& name : names_in(port / folder))
      if (const auto count = name == "lifespan" ? std::nullopt : count_in(port / folder / name))
        counters[name] = *count;
  return counters;
}

}  // namespace p5::topo
