// efa.provider, efa.domains and efa.plugin: the software between NCCL and the EFA devices. Without any part of it NCCL
// falls back to TCP sockets and reports that in its log only.
#include "topo/checks/about.hpp"
#include "topo/checks/families.hpp"

namespace p5::topo {

namespace {

constexpr const char* fallback = "NCCL would go on over TCP sockets, at a tenth of the speed, without an error";

std::vector<const Nic*> efa_nics(const Host& host) {
  std::vector<const Nic*> nics;
  for (const Nic& nic : host.nics)
    if (nic.kind == "efa") nics.push_back(&nic);
  return nics;
}

bool offers_efa(const Libfabric& libfabric) {
  return std::ranges::any_of(libfabric.domains, [](const auto& domain) { return domain.provider == "efa"; });
}

}  // namespace

std::vector<Finding> absent_provider(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    if (!has_efa(host) || !host.libfabric || offers_efa(*host.libfabric)) continue;
    const Libfabric& libfabric = *host.libfabric;
    if (!libfabric.answered) continue;  // its providers are unknown
    std::vector<std::string> closed;
    for (const Nic& nic : host.nics)
      if (nic.kind != "efa" && nic.verbs_usable == false) closed.push_back(nic.name);
    findings.push_back(about_host(
        host, "efa.provider", Severity::error,
        fmt::format("{} EFA devices on {}, but libfabric{} offers none of them{}{}: {}", efa_nics(host).size(),
                    host.name, libfabric.version.empty() ? "" : " " + libfabric.version,
                    libfabric.problem.empty() ? "" : " (" + libfabric.problem + ")",
                    closed.empty() ? ""
                                   : ", as it does where devices of other drivers are there and cannot be opened (" +
                                         join(closed) + ")",
                    fallback),
        "see what fi_info -p efa says; install the EFA installer's libfabric and put it first in LD_LIBRARY_PATH; in a "
        "container pass only the EFA devices of /dev/infiniband"));
  }
  return findings;
}

std::vector<Finding> missing_domains(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts) {
    if (!host.libfabric || !offers_efa(*host.libfabric)) continue;
    std::vector<const Nic*> missing;
    for (const Nic* nic : efa_nics(host)) {
      const bool offered = std::ranges::any_of(host.libfabric->domains, [&](const Libfabric::Domain& domain) {
        return domain.nic == nic->name || (domain.nic.empty() && domain.name.starts_with(nic->name));
      });
      // Devices that are down or out of reach have findings of their own.
      if (!offered && nic->state == "up" && nic->verbs_usable != false) missing.push_back(nic);
    }
    if (!missing.empty())
      findings.push_back(about_nics(host, missing, "efa.domains", Severity::error, "not among what libfabric offers",
                                    "see what fi_info -p efa says, and FI_EFA_IFACE; reboot or replace the instance"));
  }
  return findings;
}

std::vector<Finding> absent_plugins(const Topology& topology) {
  std::vector<Finding> findings;
  for (const Host& host : topology.hosts)
    if (has_efa(host) && host.gpus > 0 && host.net_plugins && host.net_plugins->empty())
      findings.push_back(about_host(
          host, "efa.plugin", Severity::error,
          fmt::format("no libnccl-net*.so is where NCCL on {} would look for it: {}", host.name, fallback),
          "install aws-ofi-nccl (it comes with the EFA installer) and put its lib folder into LD_LIBRARY_PATH on all "
          "nodes; NCCL_NET=\"AWS Libfabric\" makes its absence an error"));
  return findings;
}

}  // namespace p5::topo
