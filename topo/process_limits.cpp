// Limits of this process on locked memory, open files and shared memory, and the addresses of its network devices.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <array>
#include <bit>
#include <memory>

#include <fmt/format.h>

#include "bench/base/thread.hpp"
#include "topo/discover.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

namespace {

std::optional<std::uint64_t> count_in(const char* file) {
  const auto number = read_number(file);
  return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
}

struct FreeAddresses {
  void operator()(ifaddrs* list) const { freeifaddrs(list); }
};

}  // namespace

ProcessLimits discover_process_limits() {
  ProcessLimits limits;
  rlimit limit{};
  static_assert(RLIM_INFINITY == ~std::uint64_t{0});  // "unlimited" is the largest Bytes there are
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) limits.locked_memory = Bytes{limit.rlim_cur};
  limits.open_files = initial_open_file_limit();
  struct statvfs shared {};
  if (statvfs("/dev/shm", &shared) == 0) {
    limits.shared_memory = Bytes{shared.f_blocks * shared.f_frsize};
    limits.shared_memory_free = Bytes{shared.f_bavail * shared.f_frsize};
  }
  limits.huge_pages = count_in("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
  limits.huge_pages_free = count_in("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  return limits;
}

std::map<std::string, std::vector<std::string>> interface_addresses() {
  std::map<std::string, std::vector<std::string>> addresses;
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return addresses;
  const std::unique_ptr<ifaddrs, FreeAddresses> list(raw);
  for (const ifaddrs* each = raw; each; each = each->ifa_next) {
    if (!each->ifa_addr || !each->ifa_netmask || each->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    const auto* mask = reinterpret_cast<const sockaddr_in*>(each->ifa_netmask);
    inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size());
    addresses[each->ifa_name].push_back(fmt::format("{}/{}", text.data(), std::popcount(mask->sin_addr.s_addr)));
  }
  return addresses;
}

}  // namespace p5::topo
