// The address at which NCCL would listen for other ranks: of the first suitable interface of this host, which may be
// one that leads nowhere.
#pragma once

#include <string>

namespace p5::fake_nccl {

std::string own_host();

// An address, by NCCL_SOCKET_IFNAME, else by NCCL's own preference; "" if no interface matches.
std::string bootstrap_address();

// True for an address that is valid on its own link only.
bool is_link_local(const std::string& address);

}  // namespace p5::fake_nccl
