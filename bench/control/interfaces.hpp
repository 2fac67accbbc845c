// Which network interfaces lead to the other hosts. Hosts have more than those: a bridge for containers has the same
// address on every host, so what connects to it reaches itself, and neither MPI nor NCCL always tells it apart.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/base/environment.hpp"

namespace p5 {

using Ipv4 = std::uint32_t;  // the first byte is the highest

struct Subnet {
  Ipv4 address = 0;  // the interface's own in it
  int prefix = 32;   // bits
  friend bool operator==(const Subnet&, const Subnet&) = default;
};

struct Interface {
  std::string name;
  std::vector<Subnet> addresses;          // IPv4
  bool ipv6 = false, local_ipv6 = false;  // has one that is routed; has one that is valid on its link only
  std::string driver;                     // "bridge", "veth", "ena", ..., "" where the kernel does not tell
  bool loopback = false;
  bool running = true;                     // something is at the other end
  bool tunnel = false;                     // point to point, or nobody there to ask for addresses
  std::optional<unsigned> default_metric;  // of the default route over it; the lowest counts
};

// Those that are up, in the kernel's order.
std::vector<Interface> own_interfaces();

// Where the launcher listens, in its order, the same on all hosts; empty where it does not tell.
std::vector<Ipv4> launcher_addresses(const Environment& environment);

// Made for what runs inside this host: a bridge, one of its ports, an overlay or a tunnel. Not told by what hardware is
// behind them, since a container's only way out has none either.
bool is_inner(const Interface& interface);

// Those that lead to other hosts, the best first: in the launcher's networks, in its order, since it got here; then by
// default routes. An inner one only counts where a default route leads over it or there is nothing else, the loopback
// never; so it is empty only where there is no other.
std::vector<Interface> leading_out(const std::vector<Interface>& all, const std::vector<Ipv4>& launcher);

enum class Traffic { control, measured };

// What to tell Open MPI's TCP (btl_tcp_if_include), "" where its own choice is the same. MessageContent between ranks
// need one way that is sure to be there; measured data has all that Open MPI would take, less those that do not lead
// out.
std::string tcp_interfaces(const std::vector<Interface>& all, const std::vector<Ipv4>& launcher, Traffic traffic);

// Those that NCCL takes, the first one for coming together. `setting`: of NCCL_SOCKET_IFNAME, "" where it chooses by
// itself.
std::vector<Interface> choice_of_nccl(const std::vector<Interface>& all, std::string setting);

// What to tell NCCL (NCCL_SOCKET_IFNAME) and what it would take wrongly otherwise: by its own choice it avoids names
// that begin with docker, lo or virbr, and takes all others. Both empty where that is right.
struct NcclInterfaces {
  std::string setting;
  std::vector<std::string> wrong;
};
NcclInterfaces nccl_interfaces(const std::vector<Interface>& all, const std::vector<Ipv4>& launcher);

}  // namespace p5
