#include "bench/backends/footprint.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace p5 {

CommunicatorCosts footprint() {
  namespace fs = std::filesystem;
  CommunicatorCosts found;
  std::uint64_t size = 0, resident = 0;  // pages
  if (std::ifstream statm("/proc/self/statm"); statm >> size >> resident)
    found["host_memory_bytes"] = static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
  std::error_code problem;
  double descriptors = 0, sockets = 0;
  for (fs::directory_iterator each("/proc/self/fd", problem), end; !problem && each != end; each.increment(problem)) {
    std::error_code gone;
    ++descriptors;
    if (fs::read_symlink(each->path(), gone).native().starts_with("socket:")) ++sockets;
  }
  if (!problem) found["file_descriptors"] = descriptors, found["connections"] = sockets;
  return found;
}

CommunicatorCosts grown(const CommunicatorCosts& before, const CommunicatorCosts& after) {
  CommunicatorCosts more;
  for (const auto& [name, value] : after)
    if (const auto its = before.find(name); its != before.end()) more[name] = std::max(0.0, value - its->second);
  return more;
}

}  // namespace p5
