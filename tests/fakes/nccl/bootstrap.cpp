#include "tests/fakes/nccl/bootstrap.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <vector>

namespace p5::fake_nccl {

namespace {

struct Candidate {
  std::string interface, address;
};

std::vector<Candidate> candidates() {
  std::vector<Candidate> found;
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(raw, freeifaddrs);
  for (const ifaddrs* each = raw; each; each = each->ifa_next) {
    if (!each->ifa_addr || (each->ifa_flags & IFF_RUNNING) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    std::array<char, NI_MAXHOST> text{};
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    getnameinfo(each->ifa_addr, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
    if (std::string(text.data()) != "::1") found.push_back({each->ifa_name, text.data()});
  }
  return found;
}

// Syntax: "eth,ib" are prefixes of names, "=eth0" is an exact name, "^" before either excludes them.
bool fits(std::string wanted, const std::string& interface) {
  const bool others = wanted.starts_with("^");
  if (others) wanted.erase(0, 1);
  const bool exact = wanted.starts_with("=");
  if (exact) wanted.erase(0, 1);
  std::istringstream parts(wanted);
  for (std::string part; std::getline(parts, part, ',');)
    if (exact ? interface == part : interface.starts_with(part)) return !others;
  return others;
}

}  // namespace

std::string own_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string bootstrap_address() {
  const std::vector<Candidate> all = candidates();
  const char* const set = std::getenv("NCCL_SOCKET_IFNAME");
  std::vector<std::string> preferences{"ib", "^docker,lo,virbr", "docker", "lo", "virbr"};
  if (set && *set) preferences = {set};
  for (const std::string& wanted : preferences) {
    const auto found = std::ranges::find_if(all, [&](const Candidate& each) { return fits(wanted, each.interface); });
    if (found != all.end()) return found->address;
  }
  return "";
}

bool is_link_local(const std::string& address) { return address.starts_with("fe80:"); }

}  // namespace p5::fake_nccl
