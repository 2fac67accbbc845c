// The GPU that a worker runs on: choosing it, what it is, and the cores near it.
#pragma once

#include <string>
#include <vector>

#include "bench/backends/protocol.hpp"

namespace p5::nccl {

// Chooses GPU number local_rank, modulo those that are visible, makes it current and binds this process to the cores
// near it.
int choose_device(int local_rank);
protocol::Identity identify_device(int device);

// Undoes the binding that the launcher gave to the parent and binds to the cores near a PCI device, as far as the
// machine lets us use them. Where that cannot be known it leaves all cores.
void bind_near(const std::string& pci_address);
// The numbers in a list as the kernel writes it, "0-3,8": empty when it is not one.
std::vector<int> parse_cpu_list(const std::string& text);

}  // namespace p5::nccl
