// The table of checks: what is looked for, and findings as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/base/json_fields.hpp"
#include "topo/checks/families.hpp"
#include "topo/finding.hpp"
#include "topo/settings.hpp"

namespace p5::topo {

using nlohmann::json;

void fields(auto& archive, Is<Subject> auto& subject) {
  archive.must("host", subject.host);
  archive.must("instance", subject.instance);
  archive.must("gpu", subject.gpu);
  archive.must("nic", subject.nic);
  archive.some("xid", subject.xid);
}

void fields(auto& archive, Is<Finding> auto& finding) {
  archive.must("id", finding.id);
  archive.must("severity", json_fields::named(finding.severity, severity_from));
  archive.must("subject", finding.subject);
  archive.must("evidence", finding.evidence);
  archive.must("action", finding.action);
  archive.may("about", json_fields::named(finding.about, about_from));
  archive.some("hosts", finding.hosts);
}

namespace {

bool is_about_parts(const Finding& finding) {
  return finding.about == About::hardware || finding.about == About::fabric;
}

}  // namespace

bool condemns(const Finding& finding) { return finding.severity == Severity::error && is_about_parts(finding); }

bool is_notable(const Finding& finding) {
  return finding.severity == Severity::error || (finding.severity == Severity::warning && is_about_parts(finding));
}

bool is_of_silent_driver(const Finding& finding) {
  return finding.id == "gpu.nvml" && finding.severity == Severity::error;
}

std::span<const Check> checks() {
  static const std::vector<Check> rows{
      {"host.oversubscribed", About::host, "more ranks than hardware threads on a host", oversubscribed_hosts},
      {"host.name_shared", About::host, "several machines under one host name", shared_host_names},
      {"host.pretended", About::settings, "host names invented through NCCL_HOSTID", pretended_hosts},
      {"host.split", About::settings, "one machine that counts as several nodes, such as two pods on it",
       split_machines},
      {"host.mixed", About::hardware, "hosts that differ from the others", mixed_hosts},
      {"host.memlock", About::host, "a limit of locked memory that is too low for NICs", little_locked_memory},
      {"host.open_files", About::host, "a limit of open files that is too low for the ranks' connections",
       few_open_files},
      {"host.huge_pages", About::host, "no huge pages where EFA would use them", no_huge_pages},
      {"host.mtu", About::host, "hosts whose network has another MTU than the others'", odd_mtus},
      {"host.shared_memory", About::host, "too little free space in /dev/shm", little_shared_memory},
      {"host.gdrcopy", About::software, "GDRCopy's kernel module missing on EFA", without_gdrcopy},
      {"host.acs", About::host, "PCIe bridges that redirect traffic between devices", access_control},
      {"host.iommu", About::host, "an IOMMU that translates addresses of GPUs or NICs on bare metal", active_iommu},
      {"host.numa", About::host, "GPUs whose NUMA node is hidden", hidden_numa},
      {"host.placement", About::fabric, "hosts in another zone, VPC or placement group", scattered_hosts},
      {"version.mixed", About::software, "drivers and libraries that differ between hosts", mixed_versions},
      {"version.old", About::software,
       "software that is too old for what it works with: libfabric, plugin, driver, NCCL", old_software},
      {"version.fabric_manager", About::software, "a fabric manager whose version differs from the driver's",
       other_fabric_manager},
      {"fabric.manager", About::software, "NVSwitches without a running fabric manager", absent_fabric_manager},
      {"version.imex", About::software, "an IMEX daemon whose version differs from the driver's", other_imex},
      {"domain.clique", About::fabric, "hosts outside the NVLink clique of the others, or no two hosts in one clique",
       outside_clique},
      {"domain.plane", About::fabric, "NVLink domains in which the same NVLinks are missing at every GPU",
       missing_planes},
      {"domain.imex", About::software, "hosts that share an NVLink domain without a running IMEX daemon", without_imex},
      {"domain.imex_channel", About::host, "hosts that share an NVLink domain without an IMEX channel for the job",
       without_imex_channel},
      {"domain.imex_nodes", About::settings, "hosts of an NVLink domain with different lists of its nodes",
       other_imex_nodes},
      {"domain.off", About::settings, "variables that keep NCCL from using NVLink between hosts", domains_off},
      {"domain.order", About::settings, "ranks that are not ordered by NVLink domain", ranks_across_domains},
      {"gpu.fabric_health", About::fabric, "GPUs whose NVLink fabric NVML calls degraded", unhealthy_fabric},
      {"gpu.fabric", About::fabric, "GPUs that have not joined the NVSwitch fabric", unready_fabric},
      {"gpu.nvls", About::fabric, "GPUs without NVLS (reduction in the NVSwitch) on a platform that has it",
       without_nvls},
      {"gpu.count", About::hardware, "fewer or more GPUs than the platform has", wrong_gpu_counts},
      {"gpu.lost", About::hardware, "GPUs that do not answer, or that the driver cannot start", lost_gpus},
      {"gpu.unseen", About::host, "GPUs that PCI shows and NVML does not: not given to this job, or lost", unseen_gpus},
      {"gpu.nvml", About::software, "hosts whose GPUs NVML cannot query", silent_nvml},
      {"gpu.links", About::fabric, "GPUs with NVLinks missing or down", missing_links},
      {"gpu.link_rate", About::fabric, "NVLinks that run at a lower rate", slow_links},
      {"gpu.link_errors", About::fabric,
       "NVLinks that were retrained (recovery), or retransmitted more than 1000 times", link_errors},
      {"gpu.pcie", About::hardware, "GPUs with fewer PCIe lanes, or a lower generation, than they should have",
       narrow_gpus},
      {"gpu.throttled", About::hardware, "GPUs that are throttled: heat, power brake, low clocks", throttled_gpus},
      {"gpu.memory_errors", About::hardware, "uncorrected memory errors, pending or failed row remapping",
       memory_errors},
      {"gpu.xid_before", About::hardware,
       "GPUs with Xid errors, or NVSwitches with SXid errors, in the kernel's log from before the run", earlier_xids},
      {"gpu.ecc", About::settings, "GPUs with ECC off", without_ecc},
      {"gpu.power_cap", About::settings, "GPUs with a power limit below their default", capped_power},
      {"gpu.mig", About::settings, "GPUs with MIG on", mig_gpus},
      {"gpu.persistence", About::settings,
       "GPUs without persistence mode: the driver unloads their state while nothing runs", without_persistence},
      {"gpu.compute_mode", About::settings, "GPUs in compute mode 'prohibited'", prohibited_gpus},
      {"gpu.busy", About::host, "GPUs on which other programs compute", busy_gpus},
      {"gpu.hidden", About::settings, "ranks that cannot see all GPUs that the ranks of their host use", hidden_gpus},
      {"nic.down", About::fabric, "physical NICs that are not up", nics_down},
      {"nic.count", About::fabric, "fewer or more EFA devices than the instance type has", wrong_nic_counts},
      {"nic.launched", About::settings,
       "hosts that were launched with another number of EFA devices than their instance type has",
       nic_counts_at_launch},
      {"efa.driver", About::software, "EFA devices on PCI, none of which the EFA driver serves", without_efa_driver},
      {"nic.rate", About::fabric, "NICs that state a lower rate than they should", slow_nics},
      {"efa.driver_rate", About::software, "EFA drivers that state 100 Gb/s for every device, whatever its rate",
       old_efa_drivers},
      {"nic.pcie", About::hardware, "NICs with fewer PCIe lanes or of a lower generation than they support",
       narrow_nics},
      {"nic.gdr", About::software, "NICs without GPUDirect RDMA", without_gdr},
      {"nic.unusable", About::host, "NICs whose device files the job may not open", unusable_nics},
      {"nic.names", About::host, "a host whose NICs have other names or PCI addresses than the others'", renamed_nics},
      {"nic.mtu", About::settings, "InfiniBand or RoCE ports whose MTU differs from the others'", odd_nic_mtus},
      {"host.peermem", About::software, "nvidia_peermem missing where NICs need it for GPUDirect RDMA",
       without_peermem},
      {"settings.ib_hca", About::settings, "NCCL_IB_HCA names NICs that do not exist", absent_hcas},
      {"efa.provider", About::software, "EFA devices, none of which libfabric offers", absent_provider},
      {"efa.domains", About::software, "EFA devices, some of which libfabric does not offer", missing_domains},
      {"efa.plugin", About::software, "EFA devices, but NCCL finds no network plugin for them", absent_plugins},
  };
  return rows;
}

namespace {

// The topology without the NVLinks of GPUs in MIG mode. MIG takes them down, which the finding gpu.mig says already.
Topology without_links_of_mig(Topology topology) {
  for (Host& host : topology.hosts)
    for (Gpu& gpu : host.gpu_devices) {
      if (gpu.mig != true) continue;
      gpu.links.reset();
      gpu.nvlinks.clear();
      gpu.fabric_state.clear();
      gpu.fabric_status.reset();
    }
  return topology;
}

}  // namespace

std::vector<Finding> look(const Topology& topology) {
  std::vector<Finding> all;
  const Topology checked = without_links_of_mig(topology);
  for (const Check& check : checks())
    for (Finding& finding : check.look(checked)) {
      if (!finding.about) finding.about = check.about;
      all.push_back(std::move(finding));
    }
  std::ranges::move(stale_settings(topology), std::back_inserter(all));
  std::stable_sort(all.begin(), all.end(), [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return all;
}

json to_json(const std::vector<Finding>& findings) { return json_fields::written(findings); }

std::vector<Finding> findings_from_json(const json& j) { return json_fields::read_as<std::vector<Finding>>(j); }

}  // namespace p5::topo
