// Network interfaces that lead to the other hosts. Hosts have others too: a bridge for containers has the same address
// on every host, so a connection to it reaches the host itself, and neither MPI nor NCCL always recognizes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/environment.hpp"

namespace p5 {

using Ipv4 = std::uint32_t;  // in host byte order

struct Subnet {
  Ipv4 address = 0;  // the interface's own address
  int prefix = 32;   // bits
  friend bool operator==(const Subnet&, const Subnet&) = default;
};

struct Interface {
  std::string name;
  std::vector<Subnet> addresses;          // IPv4
  bool ipv6 = false, local_ipv6 = false;  // has a routed one; has a link-local one
  std::string driver;                     // "bridge", "veth", "ena", ..., "" if unknown to the kernel
  bool loopback = false;
  bool running = true;                     // the link is up
  bool tunnel = false;                     // point-to-point or without ARP
  std::optional<unsigned> default_metric;  // metric of its default route; the lowest wins
};

// The interfaces that are up, in the kernel's order.
std::vector<Interface> list_interfaces();

// The launcher's addresses, in its order, the same on all hosts; empty if unknown.
std::vector<Ipv4> launcher_addresses(const Environment& environment);

// True for a bridge, a port of one, an overlay or a tunnel, which serve containers and virtual machines of this host.
// Missing hardware proves nothing: a container's only external interface has none either.
bool is_host_internal(const Interface& interface);

// Interfaces that lead to other hosts, the best first: those in the launcher's networks, in the launcher's order; then
// those with a default route. Host-internal interfaces are included only where no other exists, the loopback never.
std::vector<Interface> external_interfaces(const std::vector<Interface>& all, const std::vector<Ipv4>& launcher);

enum class Traffic { control, measured };

// Value of Open MPI's btl_tcp_if_include; "" where Open MPI's own choice is the same. Control messages need one
// interface that works; measured data gets all that Open MPI would use, except those that do not lead to other hosts.
std::string tcp_interfaces(const std::vector<Interface>& all, const std::vector<Ipv4>& launcher, Traffic traffic);

// Interfaces that NCCL uses; the first one for its bootstrap. `setting`: value of NCCL_SOCKET_IFNAME, "" for its own
// choice.
std::vector<Interface> nccl_interface_choice(const std::vector<Interface>& all, std::string setting);

// Value of NCCL_SOCKET_IFNAME, and the interfaces that NCCL would use wrongly without it: by default it excludes names
// that begin with docker, lo or virbr. Both empty where its default is right.
struct NcclInterfaces {
  std::string setting;
  std::vector<std::string> wrong;
};
NcclInterfaces nccl_interfaces(const std::vector<Interface>& all, const std::vector<Ipv4>& launcher);

}  // namespace p5
