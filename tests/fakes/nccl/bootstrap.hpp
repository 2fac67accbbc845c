// Where NCCL would listen for other ranks: of the interfaces of this host it takes the first that it thinks fit, which
// may be one that leads nowhere.
#pragma once

#include <string>

namespace p5::fake_nccl {

std::string own_host();

// An address, "" where no interface fits. By NCCL_SOCKET_IFNAME, else by NCCL's own preference.
std::string bootstrap_address();

// An address that means something on its own link only.
bool is_link_local(const std::string& address);

}  // namespace p5::fake_nccl
