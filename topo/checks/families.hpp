// The families of findings, one file each beside this one; the table of them is checks.cpp.
#pragma once

#include <vector>

#include "topo/finding.hpp"

namespace p5::topo {

std::vector<Finding> oversubscribed_hosts(const Topology& topology);
std::vector<Finding> shared_host_names(const Topology& topology);
std::vector<Finding> pretended_hosts(const Topology& topology);
std::vector<Finding> split_machines(const Topology& topology);
std::vector<Finding> mixed_hosts(const Topology& topology);

std::vector<Finding> wrong_gpu_counts(const Topology& topology);
std::vector<Finding> lost_gpus(const Topology& topology);
std::vector<Finding> unseen_gpus(const Topology& topology);
std::vector<Finding> silent_nvml(const Topology& topology);
std::vector<Finding> busy_gpus(const Topology& topology);
std::vector<Finding> hidden_gpus(const Topology& topology);
std::vector<Finding> throttled_gpus(const Topology& topology);
std::vector<Finding> memory_errors(const Topology& topology);
std::vector<Finding> earlier_xids(const Topology& topology);
std::vector<Finding> without_ecc(const Topology& topology);
std::vector<Finding> capped_power(const Topology& topology);
std::vector<Finding> narrow_gpus(const Topology& topology);
std::vector<Finding> split_gpus(const Topology& topology);
std::vector<Finding> forgetful_gpus(const Topology& topology);
std::vector<Finding> forbidden_gpus(const Topology& topology);

std::vector<Finding> missing_links(const Topology& topology);
std::vector<Finding> missing_planes(const Topology& topology);
std::vector<Finding> slow_links(const Topology& topology);
std::vector<Finding> link_errors(const Topology& topology);
std::vector<Finding> unready_fabric(const Topology& topology);
std::vector<Finding> without_nvls(const Topology& topology);
std::vector<Finding> absent_fabric_manager(const Topology& topology);

std::vector<Finding> outside_clique(const Topology& topology);
std::vector<Finding> without_imex(const Topology& topology);
std::vector<Finding> without_imex_channel(const Topology& topology);
std::vector<Finding> other_imex_nodes(const Topology& topology);
std::vector<Finding> domains_off(const Topology& topology);
std::vector<Finding> ranks_across_domains(const Topology& topology);
std::vector<Finding> unhealthy_fabric(const Topology& topology);
std::vector<Finding> other_imex(const Topology& topology);

std::vector<Finding> nics_down(const Topology& topology);
std::vector<Finding> wrong_nic_counts(const Topology& topology);
std::vector<Finding> slow_nics(const Topology& topology);
std::vector<Finding> old_efa_drivers(const Topology& topology);
std::vector<Finding> narrow_nics(const Topology& topology);
std::vector<Finding> without_gdr(const Topology& topology);
std::vector<Finding> unusable_nics(const Topology& topology);
std::vector<Finding> nics_elsewhere(const Topology& topology);
std::vector<Finding> odd_nic_mtus(const Topology& topology);
std::vector<Finding> without_peermem(const Topology& topology);
std::vector<Finding> absent_hcas(const Topology& topology);

std::vector<Finding> absent_provider(const Topology& topology);
std::vector<Finding> missing_domains(const Topology& topology);
std::vector<Finding> absent_plugins(const Topology& topology);

std::vector<Finding> mixed_versions(const Topology& topology);
std::vector<Finding> old_software(const Topology& topology);
std::vector<Finding> other_fabric_manager(const Topology& topology);

std::vector<Finding> little_locked_memory(const Topology& topology);
std::vector<Finding> few_open_files(const Topology& topology);
std::vector<Finding> no_huge_pages(const Topology& topology);
std::vector<Finding> odd_mtus(const Topology& topology);
std::vector<Finding> little_shared_memory(const Topology& topology);
std::vector<Finding> without_gdrcopy(const Topology& topology);
std::vector<Finding> access_control(const Topology& topology);
std::vector<Finding> busy_iommu(const Topology& topology);
std::vector<Finding> hidden_numa(const Topology& topology);
std::vector<Finding> scattered_hosts(const Topology& topology);

}  // namespace p5::topo
