// The table of checks: what is looked for, and findings as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/error.hpp"
#include "topo/checks/families.hpp"
#include "topo/finding.hpp"

namespace p5::topo {

using nlohmann::json;

namespace {

constexpr std::array<std::pair<Severity, std::string_view>, 3> severity_names{
    {{Severity::error, "error"}, {Severity::warning, "warning"}, {Severity::info, "info"}}};

Severity severity_from(const std::string& name) {
  for (const auto& [severity, text] : severity_names)
    if (text == name) return severity;
  throw UsageError(fmt::format("findings: unknown severity '{}'; known are error, warning, info", name));
}

template <class Value>
json or_null(const std::optional<Value>& value) {
  return value ? json(*value) : json();
}

template <class Value>
std::optional<Value> optional_from(const json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<Value>();
}

Finding finding_from_json(const json& j) {
  const json& subject = j.at("subject");
  return {j.at("id"),
          severity_from(j.at("severity")),
          {subject.at("host"), subject.at("instance"), optional_from<int>(subject.at("gpu")),
           optional_from<std::string>(subject.at("nic"))},
          j.at("evidence"),
          j.at("action")};
}

}  // namespace

std::string_view name_of(Severity severity) { return severity_names[static_cast<std::size_t>(severity)].second; }

std::span<const Check> checks() {
  static const std::array<Check, 40> rows{{
      {"host.oversubscribed", "more ranks than hardware threads on a host", oversubscribed_hosts},
      {"host.name_shared", "several machines under one host name", shared_host_names},
      {"host.pretended", "host names that NCCL_HOSTID made up", pretended_hosts},
      {"host.mixed", "hosts that differ from the others", mixed_hosts},
      {"host.memlock", "too little memory that may be locked for NICs", little_locked_memory},
      {"host.shared_memory", "too little free in /dev/shm", little_shared_memory},
      {"host.gdrcopy", "GDRCopy's kernel module missing on EFA", without_gdrcopy},
      {"host.acs", "PCIe bridges that redirect traffic between devices", access_control},
      {"host.iommu", "an IOMMU at work on bare metal", busy_iommu},
      {"host.numa", "GPUs whose place among the processors is hidden", hidden_numa},
      {"host.placement", "hosts in another zone or placement group", scattered_hosts},
      {"version.mixed", "drivers and libraries that differ between hosts", mixed_versions},
      {"version.old", "a libfabric that aws-ofi-nccl refuses", old_libfabric},
      {"version.fabric_manager", "a fabric manager of another version than the driver", other_fabric_manager},
      {"fabric.manager", "NVSwitches without a running fabric manager", absent_fabric_manager},
      {"gpu.fabric", "GPUs that have not joined the NVSwitch fabric", unready_fabric},
      {"gpu.count", "fewer or more GPUs than the platform has", wrong_gpu_counts},
      {"gpu.lost", "GPUs that PCI shows and NVML does not, or that do not answer", lost_gpus},
      {"gpu.nvml", "hosts whose GPUs could not be asked about", silent_nvml},
      {"gpu.links", "GPUs with NVLinks missing or down", missing_links},
      {"gpu.link_rate", "NVLinks that were trained to a lower rate", slow_links},
      {"gpu.link_errors", "NVLinks that were trained again (recovery), or sent more than 1000 times again",
       link_errors},
      {"gpu.pcie", "GPUs with fewer PCIe lanes than they should have", narrow_gpus},
      {"gpu.throttled", "GPUs that are held back: heat, power brake, low clocks", throttled_gpus},
      {"gpu.memory_errors", "uncorrected memory errors, rows that wait for or failed remapping", memory_errors},
      {"gpu.ecc", "GPUs whose error correction is off", without_ecc},
      {"gpu.power_cap", "GPUs with less power than their default", capped_power},
      {"gpu.mig", "GPUs that are split into instances", split_gpus},
      {"gpu.compute_mode", "GPUs on which nobody may compute", forbidden_gpus},
      {"gpu.busy", "GPUs on which other programs compute", busy_gpus},
      {"gpu.hidden", "ranks that may not see the GPUs of their neighbours", hidden_gpus},
      {"nic.down", "physical NICs that are not up", nics_down},
      {"nic.count", "fewer or more EFA devices than the instance type has", wrong_nic_counts},
      {"nic.rate", "NICs that state a lower rate than they should", slow_nics},
      {"nic.pcie", "NICs with fewer PCIe lanes than they have", narrow_nics},
      {"nic.gdr", "NICs that do not reach GPU memory (GPU Direct RDMA)", without_gdr},
      {"nic.unusable", "NICs whose devices the job may not open", unusable_nics},
      {"efa.provider", "EFA devices, but a libfabric that offers none", absent_provider},
      {"efa.domains", "EFA devices that libfabric leaves out", missing_domains},
      {"efa.plugin", "EFA devices, but no network plugin where NCCL looks", absent_plugins},
  }};
  return rows;
}

std::vector<Finding> look(const Topology& topology) {
  std::vector<Finding> all;
  for (const Check& check : checks())
    for (Finding& finding : check.look(topology)) all.push_back(std::move(finding));
  std::stable_sort(all.begin(), all.end(), [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return all;
}

json to_json(const std::vector<Finding>& findings) {
  json list = json::array();
  for (const Finding& finding : findings)
    list.push_back({{"id", finding.id},
                    {"severity", name_of(finding.severity)},
                    {"subject",
                     {{"host", finding.subject.host},
                      {"instance", finding.subject.instance},
                      {"gpu", or_null(finding.subject.gpu)},
                      {"nic", or_null(finding.subject.nic)}}},
                    {"evidence", finding.evidence},
                    {"action", finding.action}});
  return list;
}

std::vector<Finding> findings_from_json(const json& j) try {
  std::vector<Finding> findings;
  for (const json& one : j) findings.push_back(finding_from_json(one));
  return findings;
} catch (const json::exception& problem) {
  throw UsageError(fmt::format("findings are not in the form that this version writes: {}; run again", problem.what()));
}

}  // namespace p5::topo
