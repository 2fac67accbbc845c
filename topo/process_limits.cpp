// Limits of this process by its resources and its control groups, and the addresses of its network devices.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <memory>
#include <sstream>

#include "bench/base/names.hpp"
#include "bench/base/thread.hpp"
#include "topo/discover.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

namespace {

std::optional<std::uint64_t> count_in(const char* file) {
  const auto number = read_number(file);
  return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
}

constexpr std::uint64_t unlimited = ~std::uint64_t{0};

struct FreeAddresses {
  void operator()(ifaddrs* list) const { freeifaddrs(list); }
};

}  // namespace

// The kernel asks capable(CAP_IPC_LOCK), that is, in the first user namespace, before it refuses to keep a NIC's
// buffers in place (ib_umem_get). In that namespace each user id is mapped to itself.
bool locks_without_limit(const std::filesystem::path& root) {
  constexpr unsigned ipc_lock = 14;
  const std::string text = value_of(root / "proc/self/status", "CapEff:").value_or("");
  std::uint64_t capabilities = 0;
  std::from_chars(text.data(), text.data() + text.size(), capabilities, 16);
  if ((capabilities >> ipc_lock & 1) == 0) return false;
  const auto map = read_text(root / "proc/self/uid_map");
  if (!map) return true;  // a kernel without user namespaces
  std::istringstream words(*map);
  std::uint64_t inside = 1, outside = 1, count = 0;
  constexpr std::uint64_t all_ids = 4294967295;
  return words >> inside >> outside >> count && inside == 0 && outside == 0 && count == all_ids;
}

ProcessLimits discover_process_limits() {
  ProcessLimits limits;
  rlimit limit{};
  static_assert(RLIM_INFINITY == unlimited);  // the largest Bytes there are
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
    limits.locked_memory = Bytes{locks_without_limit("/") ? unlimited : limit.rlim_cur};
  limits.open_files = initial_open_file_limit();
  struct statvfs shared {};
  if (statvfs("/dev/shm", &shared) == 0) {
    limits.shared_memory = Bytes{shared.f_blocks * shared.f_frsize};
    limits.shared_memory_free = Bytes{shared.f_bavail * shared.f_frsize};
  }
  limits.huge_pages = count_in("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
  limits.huge_pages_free = count_in("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  // The kubelet leaves a pod none that did not request some, whatever the host has.
  if (const auto left = huge_pages_left_by_cgroup("/"); left && limits.huge_pages_free)
    limits.huge_pages_free = std::min(*limits.huge_pages_free, *left);
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

// ---- Limits of memory, huge pages and processors that the control groups of this process set, in cgroup v1 and v2.

namespace fs = std::filesystem;

namespace {

struct Group {
  fs::path folder;
  bool unified = false;  // version 2
};

// The group at `path` below `mount` and all groups around it: a limit holds for everything inside. A container may see
// a path that only exists outside of it; then just the mount itself is there, and it is the container's own group.
void add_levels(std::vector<Group>& groups, const fs::path& mount, fs::path path, bool unified) {
  if (path.string().find("..") != std::string::npos) path = "/";
  for (;; path = path.parent_path()) {
    const fs::path folder = mount / path.relative_path();
    if (present(folder)) groups.push_back({folder, unified});
    if (!path.has_relative_path()) return;
  }
}

std::vector<Group> groups_of(const fs::path& root, const std::string& controller) {
  std::vector<Group> groups;
  const fs::path mount = root / "sys/fs/cgroup";
  for (const std::string& line : lines_of(read_text(root / "proc/self/cgroup").value_or(""))) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::vector<std::string> controllers = split(line.substr(first + 1, second - first - 1));
    const fs::path path = line.substr(second + 1);
    if (controllers.size() == 1 && controllers[0].empty())
      add_levels(groups, mount, path, true);
    else if (std::find(controllers.begin(), controllers.end(), controller) != controllers.end())
      add_levels(groups, mount / controller, path, false);
  }
  return groups;
}

std::optional<double> memory_left(const Group& group) {
  // "max" (cgroup v2) is not a number; v1 reports 2^63 less a page for no limit, which exceeds any real memory.
  const auto limit = read_number(group.folder / (group.unified ? "memory.max" : "memory.limit_in_bytes"));
  const auto usage = read_number(group.folder / (group.unified ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !usage || *limit >= 0x1p62) return std::nullopt;
  // The page cache counts as used, but the kernel gives its inactive part back before it refuses anybody.
  const auto cache = value_of(group.folder / "memory.stat", group.unified ? "inactive_file " : "total_inactive_file ");
  const double used = std::max(0.0, *usage - (cache ? leading_number(*cache).value_or(0) : 0));
  return std::max(0.0, *limit - used);
}

std::optional<double> huge_bytes_left(const Group& group) {
  const auto limit = read_number(group.folder / (group.unified ? "hugetlb.2MB.max" : "hugetlb.2MB.limit_in_bytes"));
  const auto usage = read_number(group.folder / (group.unified ? "hugetlb.2MB.current" : "hugetlb.2MB.usage_in_bytes"));
  if (!limit || *limit >= 0x1p62) return std::nullopt;
  return std::max(0.0, *limit - usage.value_or(0));
}

std::optional<double> processors_left(const Group& group) {
  std::optional<double> quota, period;
  if (group.unified) {
    const std::vector<std::string> parts = split(read_text(group.folder / "cpu.max").value_or(""), ' ');
    if (parts.size() == 2) quota = leading_number(parts[0]), period = leading_number(parts[1]);
  } else {
    quota = read_number(group.folder / "cpu.cfs_quota_us");
    period = read_number(group.folder / "cpu.cfs_period_us");
  }
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
  return *quota / *period;
}

std::optional<double> least(const std::vector<Group>& groups, std::optional<double> (*left)(const Group& group)) {
  std::optional<double> result;
  for (const Group& group : groups)
    if (const auto here = left(group)) result = std::min(result.value_or(*here), *here);
  return result;
}

}  // namespace

std::optional<Bytes> memory_left_by_cgroup(const fs::path& root) {
  const auto left = least(groups_of(root, "memory"), memory_left);
  if (!left) return std::nullopt;
  return Bytes{static_cast<std::uint64_t>(*left)};
}

std::optional<std::uint64_t> huge_pages_left_by_cgroup(const fs::path& root) {
  const auto left = least(groups_of(root, "hugetlb"), huge_bytes_left);
  if (!left) return std::nullopt;
  return static_cast<std::uint64_t>(*left) / MiB(2).count;
}

std::optional<double> processors_left_by_cgroup(const fs::path& root) {
  return least(groups_of(root, "cpu"), processors_left);
}

}  // namespace p5::topo
