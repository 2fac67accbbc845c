// The families of findings, one file each beside this one; the table of them is checks.cpp.
#pragma once

#include <vector>

#include "topo/finding.hpp"

namespace p5::topo {

std::vector<Finding> oversubscribed_hosts(const Topology& topology);
std::vector<Finding> shared_host_names(const Topology& topology);
std::vector<Finding> pretended_hosts(const Topology& topology);
std::vector<Finding> mixed_hosts(const Topology& topology);
std::vector<Finding> missing_links(const Topology& topology);
std::vector<Finding> busy_gpus(const Topology& topology);
std::vector<Finding> hidden_gpus(const Topology& topology);
std::vector<Finding> silent_nvml(const Topology& topology);
std::vector<Finding> nics_down(const Topology& topology);
std::vector<Finding> wrong_nic_counts(const Topology& topology);

}  // namespace p5::topo
