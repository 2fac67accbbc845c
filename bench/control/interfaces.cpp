#include "bench/control/interfaces.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

#include "bench/base/names.hpp"

namespace p5 {

namespace {

std::optional<Ipv4> parse_ipv4(const std::string& text) {
  in_addr address{};
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return ntohl(address.s_addr);
}

bool within(Ipv4 address, const Subnet& subnet) {
  const Ipv4 mask = subnet.prefix == 0 ? 0 : ~Ipv4{0} << (32 - subnet.prefix);
  return ((address ^ subnet.address) & mask) == 0;
}

// Uses an ioctl rather than /sys, which may show another network namespace than this process's.
std::string driver_of(int socket, const std::string& name) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_data = reinterpret_cast<char*>(&info);
  if (ioctl(socket, SIOCETHTOOL, &request) != 0) return "";
  return {info.driver, strnlen(info.driver, sizeof info.driver)};
}

// Interfaces and metrics of the IPv4 default routes.
std::vector<std::pair<std::string, unsigned>> default_routes() {
  std::vector<std::pair<std::string, unsigned>> routes;
  std::ifstream table("/proc/self/net/route");
  std::string line;
  std::getline(table, line);  // the header line
  while (std::getline(table, line)) {
    std::istringstream row(line);
    std::string name, destination, gateway, flags, references, uses, mask;
    unsigned metric = 0;
    if (row >> name >> destination >> gateway >> flags >> references >> uses >> metric >> mask &&
        destination == "00000000" && mask == "00000000")
      routes.emplace_back(name, metric);
  }
  return routes;
}

void add_address(Interface& interface, const ifaddrs& entry) {
  if (entry.ifa_addr->sa_family == AF_INET && entry.ifa_netmask) {
    const auto* const address = reinterpret_cast<const sockaddr_in*>(entry.ifa_addr);
    const auto* const mask = reinterpret_cast<const sockaddr_in*>(entry.ifa_netmask);
    interface.addresses.push_back({ntohl(address->sin_addr.s_addr), std::popcount(mask->sin_addr.s_addr)});
  } else if (entry.ifa_addr->sa_family == AF_INET6) {
    const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr)->sin6_addr;
    (IN6_IS_ADDR_LINKLOCAL(&address) ? interface.local_ipv6 : interface.ipv6) = true;
  }
}

bool has_address(const Interface& interface) { return !interface.addresses.empty() || interface.ipv6; }

// True if all addresses are in 169.254.0.0/16: unconfigured, such as a management controller attached by USB.
bool is_link_local(const Interface& interface) {
  constexpr Subnet local{.address = 0xa9fe0000, .prefix = 16};
  return !interface.ipv6 &&
         std::ranges::all_of(interface.addresses, [&](const Subnet& each) { return within(each.address, local); });
}

// True if the launcher has this address although it runs on another host (it has others that are not here): then every
// host has this address.
bool is_on_every_host(const Interface& interface, const std::vector<Interface>& all,
                      const std::vector<Ipv4>& launcher) {
  const auto has = [](const Interface& each, Ipv4 address) {
    return std::ranges::find(each.addresses, address, &Subnet::address) != each.addresses.end();
  };
  const auto is_here = [&](Ipv4 address) {
    return std::ranges::any_of(all, [&](const Interface& each) { return has(each, address); });
  };
  return !std::ranges::all_of(launcher, is_here) &&
         std::ranges::any_of(launcher, [&](Ipv4 address) { return has(interface, address); });
}

std::size_t launcher_position(const Interface& interface, const std::vector<Ipv4>& launcher) {
  const auto found = std::ranges::find_if(launcher, [&](Ipv4 address) {
    return std::ranges::any_of(interface.addresses, [&](const Subnet& subnet) { return within(address, subnet); });
  });
  return static_cast<std::size_t>(found - launcher.begin());
}

bool starts_with_one_of(std::string_view name, std::initializer_list<std::string_view> starts) {
  return std::ranges::any_of(starts, [&](std::string_view start) { return name.starts_with(start); });
}

// Matches a value of NCCL_SOCKET_IFNAME: "eth,ib" (prefixes of names), "=eth0" (this name), with "^" in front of either
// all others.
bool matches_nccl_setting(std::string setting, const std::string& name) {
  const auto strip_prefix = [&](const char* mark) {
    const bool there = setting.starts_with(mark);
    if (there) setting.erase(0, 1);
    return there;
  };
  const bool others = strip_prefix("^"), exact = strip_prefix("=");
  std::istringstream parts(setting);
  for (std::string part; std::getline(parts, part, ',');)
    if (exact ? name == part : name.starts_with(part)) return !others;
  return others;
}

std::vector<std::string> names_of(const std::vector<Interface>& interfaces) {
  std::vector<std::string> names;
  for (const Interface& each : interfaces) names.push_back(each.name);
  return names;
}

}  // namespace

std::vector<Interface> list_interfaces() {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> list(raw, freeifaddrs);
  std::vector<Interface> interfaces;
  const auto routes = default_routes();
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  for (const ifaddrs* entry = raw; entry; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0 || !entry->ifa_addr) continue;
    const std::string name = std::string(entry->ifa_name).substr(0, std::strcspn(entry->ifa_name, ":"));  // eth0:1
    auto found = std::ranges::find(interfaces, name, &Interface::name);
    if (found == interfaces.end()) {
      Interface fresh;
      fresh.name = name;
      fresh.driver = driver_of(socket, name);
      fresh.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
      fresh.running = (entry->ifa_flags & IFF_RUNNING) != 0;
      fresh.tunnel = (entry->ifa_flags & (IFF_POINTOPOINT | IFF_NOARP)) != 0;
      for (const auto& [over, metric] : routes)
        if (over == name) fresh.default_metric = std::min(metric, fresh.default_metric.value_or(metric));
      found = interfaces.insert(interfaces.end(), std::move(fresh));
    }
    add_address(*found, *entry);
  }
  if (socket >= 0) close(socket);
  return interfaces;
}

std::vector<Ipv4> launcher_addresses(const Environment& environment) {
  std::vector<Ipv4> addresses;
  const auto add = [&](const std::string& text) {
    if (const std::optional<Ipv4> address = parse_ipv4(text)) addresses.push_back(*address);
  };
  // mpirun: "2746679296.0;tcp://10.0.0.1,172.17.0.1:36933;tcp6://..."
  const std::string uri = value_or_empty(environment, "OMPI_MCA_orte_hnp_uri");
  constexpr std::string_view start = "tcp://";
  if (const std::size_t at = uri.find(start); at != std::string::npos) {
    const std::size_t from = at + start.size();
    for (const std::string& each : split(uri.substr(from, uri.find_first_of(":;", from) - from))) add(each);
  }
  for (const char* const slurm_variable : {"SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST"})
    if (addresses.empty()) add(value_or_empty(environment, slurm_variable));
  return addresses;
}

bool is_host_internal(const Interface& interface) {
  constexpr std::array drivers{"bridge", "openvswitch", "vxlan", "geneve", "tun", "dummy", "ifb"};
  if (interface.tunnel || std::ranges::find(drivers, interface.driver) != drivers.end()) return true;
  // The container's end of a veth pair has a network or the default route; the host's end has no address, or one for
  // that link only.
  if (interface.driver == "veth")
    return !interface.ipv6 &&
           std::ranges::all_of(interface.addresses, [](const Subnet& each) { return each.prefix == 32; });
  // Sandboxes may hide the driver; the name decides then.
  return interface.driver.empty() &&
         starts_with_one_of(interface.name, {"docker", "virbr", "br-", "cni", "podman", "lxdbr", "lxcbr", "flannel",
                                             "cali", "cilium", "veth"});
}

std::vector<Interface> external_interfaces(const std::vector<Interface>& all, const std::vector<Ipv4>& launcher) {
  std::vector<Interface> out = all;
  std::erase_if(out, [](const Interface& each) { return each.loopback || !has_address(each); });
  const auto is_certain = [&](const Interface& each) {
    return (each.default_metric || !is_host_internal(each)) && !is_link_local(each) &&
           !is_on_every_host(each, all, launcher);
  };
  if (std::ranges::any_of(out, is_certain))
    std::erase_if(out, [&](const Interface& each) { return !is_certain(each); });
  std::ranges::stable_sort(out, {}, [&](const Interface& each) {
    return std::tuple(launcher_position(each, launcher), !each.default_metric, each.default_metric.value_or(0));
  });
  return out;
}

std::string tcp_interfaces(const std::vector<Interface>& all, const std::vector<Ipv4>& launcher, Traffic traffic) {
  std::vector<Interface> chosen = external_interfaces(all, launcher);
  if (traffic == Traffic::control && !chosen.empty()) chosen.resize(1);
  const auto candidates =
      std::ranges::count_if(all, [](const Interface& each) { return !each.loopback && has_address(each); });
  return static_cast<std::size_t>(candidates) == chosen.size() ? "" : join(names_of(chosen), ",");
}

// NCCL prefers "ib*" by default, else excludes names of container bridges; link-local addresses suffice. Source:
// ncclFindInterfaces() in src/misc/socket.cc of NCCL.
std::vector<Interface> nccl_interface_choice(const std::vector<Interface>& all, std::string setting) {
  std::vector<Interface> seen = all;
  std::erase_if(seen, [](const Interface& each) { return !each.running || !(has_address(each) || each.local_ipv6); });
  if (setting.empty())
    setting = std::ranges::any_of(seen, [](const Interface& each) { return matches_nccl_setting("ib", each.name); })
                  ? "ib"
                  : "^docker,lo,virbr";
  std::erase_if(seen, [&](const Interface& each) { return !matches_nccl_setting(setting, each.name); });
  return seen;
}

NcclInterfaces nccl_interfaces(const std::vector<Interface>& all, const std::vector<Ipv4>& launcher) {
  const std::vector<std::string> out = names_of(external_interfaces(all, launcher));
  const auto is_external = [&](const std::string& name) { return std::ranges::find(out, name) != out.end(); };
  std::vector<std::string> right;
  NcclInterfaces found;
  for (const Interface& each : nccl_interface_choice(all, "")) {
    if (is_external(each.name))
      right.push_back(each.name);
    else if (is_host_internal(each) || has_address(each))
      found.wrong.push_back(each.name);
  }
  if (right.empty()) right = out;
  if (found.wrong.empty() || right.empty()) return {};
  found.setting = "=" + join(right, ",");
  return found;
}

}  // namespace p5
