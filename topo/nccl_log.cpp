#include "topo/nccl_log.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <regex>
#include <utility>

#include "topo/checks/about.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

namespace {

// Where the line was written.
struct Place {
  const Host& host;
  const Platform* platform;

  bool efa() const { return has_efa(host) || (platform && platform->network == "efa"); }
  bool fabric() const {
    return efa() || std::ranges::any_of(host.nics, [](const Nic& nic) { return of_fabric(nic) && nic.state == "up"; });
  }
  bool direct() const { return platform && platform->gpu_direct_rdma; }
};

// Null: the line is of the rule's wording, but as it should be. Otherwise what is wrong, in words.
using Judgement = std::optional<std::string>;

struct Rule {
  std::string_view id, summary;
  Severity severity;
  About about;
  const char* wording;  // a regular expression
  Judgement (*judge)(const std::smatch& found, const Place& place);
  const char* action;
};

template <bool (Place::*applies)() const>
Judgement where(const std::smatch&, const Place& place) {
  return (place.*applies)() ? Judgement("") : std::nullopt;
}
Judgement always(const std::smatch&, const Place&) { return ""; }
Judgement with_nvls(const std::smatch&, const Place& place) {
  return place.platform && place.platform->nvls ? Judgement("") : std::nullopt;
}
// Of SENDRECV, which P4 uses, it is the ordinary case.
Judgement beyond_p4(const std::smatch&, const Place& place) {
  return place.platform && place.platform->nvls ? Judgement("latency of small messages suffers; ") : std::nullopt;
}

Judgement all_nics(const std::smatch& found, const Place& place) {
  const int seen = std::stoi(found[1]);
  if (!place.platform || place.platform->nics == 0 || seen == place.platform->nics) return std::nullopt;
  return fmt::format("{} NICs of {}: ", seen, place.platform->nics);
}

Judgement all_rails(const std::smatch& found, const Place& place) {
  const int seen = std::stoi(found[1]);
  const int expected = place.platform ? std::max(1, place.platform->nics / place.platform->gpus) : 0;
  if (seen >= expected) return std::nullopt;
  return fmt::format("{} of {} rails for a GPU: ", seen, expected);
}

constexpr const char* mend_plugin =
    "put the folders of aws-ofi-nccl and of the EFA installer's libfabric first in LD_LIBRARY_PATH on all nodes, built "
    "for "
    "this system; see what fi_info -p efa says; NCCL_NET=\"AWS Libfabric\" makes NCCL fail instead of going on";
constexpr const char* mend_direct =
    "check the EFA driver and efa_nv_peermem (or DMA-BUF: kernel 5.12 and the open NVIDIA driver), and that "
    "NCCL_NET_GDR_LEVEL and FI_EFA_USE_DEVICE_RDMA are not set";

// NICs that the kernel does not have either are the fabric's (nic.count, nic.down); those that only NCCL does not find
// were kept from the job.
//
// Sources: src/init.cc, src/plugin/net.cc, src/bootstrap.cc, src/graph/topo.cc and paths.cc, src/transport/nvls.cc and
// net.cc of NCCL; src/nccl_ofi_net.cpp, nccl_ofi_rdma.cpp, nccl_ofi_gdrcopy.cpp and platform-aws.cpp of aws-ofi-nccl;
// the EFA provider of libfabric.
const std::vector<Rule>& rules() {
  static const std::vector<Rule> all{
      {"nccl.sockets", "NCCL went back to TCP sockets although there is a fabric", Severity::error, About::software,
       R"(Using network Socket|Assigned NET plugin Socket to comm|via NET/Socket/)", where<&Place::fabric>,
       mend_plugin},
      {"nccl.not_efa", "NCCL uses InfiniBand verbs on an EFA instance", Severity::error, About::software,
       R"(Using network IB\b|Assigned NET plugin IB to comm|via NET/IB/)", where<&Place::efa>, mend_plugin},
      {"nccl.plugin_failed", "the network plugin was found, but did not start", Severity::error, About::software,
       R"(Failed to initialize NET plugin (?:AWS Libfabric|Libfabric|OFI)|NET/OFI Couldn't open CUDA)", always,
       mend_plugin},
      {"nccl.nic_count", "the plugin found fewer or more NICs than the instance type has", Severity::error, About::host,
       R"(Selected [Pp]rovider is efa.*\(found (\d+) nics\))", all_nics,
       "check the launch template, and in a container that all devices are passed in"},
      {"nccl.nic_counts_differ", "ranks with different numbers of NICs", Severity::error, About::host,
       R"(Detected mixed local Net device counts)", always,
       "find the node with fewer (nic.count); NCCL refuses to go on unless told to ignore it"},
      {"nccl.rails", "a GPU with fewer rails than the instance type gives it", Severity::error, About::host,
       R"(Created device with (\d+) rails)", all_rails,
       "look for NICs that are down or not passed into the container; reboot or replace the instance"},
      {"nccl.gdr_off", "traffic between GPU and NIC goes through the host (GPU Direct RDMA off)", Severity::error,
       About::software,
       R"(GDR disabled on GDR-supported instance|GPU Direct RDMA Disabled for HCA|\[send\] via NET/(?!Socket)[^/]+/\d+(?:/Shared)?(?!/)(?:\s|$))",
       where<&Place::direct>, mend_direct},
      {"nccl.emulated_write", "EFA emulates RDMA writes", Severity::warning, About::software,
       R"(FI_OPT_EFA_EMULATED_WRITE is true)", always, "install the current EFA driver; reboot after that"},
      {"nccl.simple_forced", "the plugin forbids NCCL's fast protocols for small messages", Severity::warning,
       About::software, R"(Need to force simple protocol)", beyond_p4, "install a current EFA driver and libfabric"},
      {"nccl.unreachable", "EFA devices that do not reach each other", Severity::error, About::fabric,
       R"(Unresponsive receiver|Unable to insert remote address|reachable by EFA device but handshake failed)", always,
       "let the security group allow all traffic to and from itself, in both directions: 0.0.0.0/0 is not enough for "
       "EFA; all nodes have to be in one subnet"},
      {"nccl.no_interface", "no interface for NCCL's own connections", Severity::error, About::settings,
       R"(no socket interface found|No interface found in the same subnet)", always,
       "name one that all nodes reach each other by: NCCL_SOCKET_IFNAME"},
      {"nccl.bootstrap", "NCCL's own connections go over an interface of this host alone", Severity::warning,
       About::settings, R"(Bootstrap ?: Using (?:docker|virbr|cni|br-|lo)\S*)", always,
       "name one that all nodes reach each other by: NCCL_SOCKET_IFNAME=^docker,lo,virbr,cni"},
      {"nccl.connect", "NCCL's own connections do not reach another host", Severity::error, About::settings,
       R"([Cc]onnect (?:to \S+ )?(?:returned|failed).*(?:exceeded error retry count|timed out|No route to host|unreachable)|socketStartConnect: exceeded retries)",
       always,
       "look at what that address is, and whether firewalls let all ports through between the hosts; name an interface "
       "that all nodes reach each other by: NCCL_SOCKET_IFNAME"},
      {"nccl.duplicate_gpu", "ranks of one host that share a GPU, which NCCL refuses", Severity::error, About::settings,
       R"(Duplicate GPU detected|Multiple Ranks are using the same GPU)", always,
       "start one rank a GPU; to pretend several nodes on one host, give the processes of each NCCL_HOSTID of its own"},
      {"nccl.nvls_failed", "reduction in the NVSwitch failed", Severity::error, About::fabric,
       R"(Failed to bind NVLink SHARP)", always,
       "look at nvidia-fabricmanager (state, log) and dmesg; reboot or replace the instance; NCCL_NVLS_ENABLE=0 goes "
       "on "
       "without, a quarter slower"},
      {"nccl.nvls_off", "no reduction in the NVSwitch where the platform has it", Severity::warning, About::fabric,
       R"(NVLS multicast support is not available)", with_nvls,
       "look at nvidia-fabricmanager and at the GPUs' fabric state (nvidia-smi -q); all_reduce on one node is a "
       "quarter "
       "slower without"},
      {"nccl.p2p_off", "GPUs joined by NVLink that do not use it", Severity::error, About::settings,
       R"(P2P is disabled between NVLINK connected GPUs)", always,
       "unset NCCL_P2P_DISABLE; let all ranks see all GPUs of the host; check nvidia-smi topo -p2p n"},
      {"nccl.cuda_not_ready", "CUDA does not start: the NVSwitch fabric is not ready", Severity::error, About::fabric,
       R"(system not yet initialized|[Cc]uda (?:error|failure) 802)", always,
       "start nvidia-fabricmanager, or wait for it, and run again"},
      {"nccl.numa_hidden", "NCCL does not see the processors' NUMA nodes", Severity::warning, About::host,
       R"(Attribute arch of node cpu not found)", always, "in a container do not hide /sys"},
      {"nccl.gdrcopy", "GDRCopy does not work", Severity::info, About::software,
       R"(Could not load libgdrapi|Failed to open gdr handle)", where<&Place::direct>,
       "install GDRCopy whose library and kernel module are of one version"},
      {"nccl.versions_differ", "ranks with different versions of NCCL", Severity::error, About::software,
       R"(Mismatched NCCL version detected)", always, "let all ranks load the same library"},
      {"nccl.libfabric_old", "a libfabric that the plugin refuses", Severity::error, About::software,
       R"(requires at least libfabric version)", always, "install a current EFA installer on all nodes"},
  };
  return all;
}

struct Wording {
  const Rule* rule;
  std::regex regex;
};

const std::vector<Wording>& wordings() {
  static const std::vector<Wording> all = [] {
    std::vector<Wording> made;
    for (const Rule& rule : rules()) made.push_back({&rule, std::regex(rule.wording, std::regex::optimize)});
    return made;
  }();
  return all;
}

// Without the host, process and thread in front, and not longer than a reader wants.
std::string essence(const std::string& line) {
  constexpr std::size_t longest = 200;
  std::string text = line;
  for (const char* mark : {"NCCL INFO ", "NCCL WARN "})
    if (const std::size_t at = text.find(mark); at != std::string::npos) text = text.substr(at + 10);
  text.erase(text.find_last_not_of(" \r") + 1);
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
}

}  // namespace

std::vector<FindingKind> log_findings() {
  std::vector<FindingKind> all;
  for (const Rule& rule : rules()) all.push_back({std::string(rule.id), rule.about, std::string(rule.summary)});
  return all;
}

std::vector<Finding> findings_in_log(std::string_view log, const Host& host, const Platform* platform, int rank) {
  const Place place{host, platform};
  std::vector<Finding> findings;
  std::vector<const Rule*> found_before;
  for (const std::string& line : lines_of(log))
    for (const auto& [rule, regex] : wordings()) {
      std::smatch found;
      if (std::ranges::find(found_before, rule) != found_before.end() || !std::regex_search(line, found, regex))
        continue;
      const Judgement wrong = rule->judge(found, place);
      if (!wrong) continue;
      found_before.push_back(rule);
      findings.push_back(about_host(
          host, std::string(rule->id), rule->severity,
          fmt::format("{}NCCL's log of rank {} on {}: \"{}\"", *wrong, rank, host.name, essence(line)), rule->action));
      findings.back().about = rule->about;
    }
  return findings;
}

std::optional<Remedy> remedy_for(std::string_view text) {
  const std::string searched(text);
  for (const auto& [rule, regex] : wordings())
    if (rule->judge == always && rule->severity == Severity::error && std::regex_search(searched, regex))
      return Remedy{std::string(rule->id), rule->action};
  return std::nullopt;
}

std::vector<Finding> of_all_ranks(const std::vector<std::vector<Finding>>& of_rank) {
  std::vector<Finding> findings;
  std::map<std::pair<std::string, std::string>, std::pair<std::size_t, int>> seen;  // index, further ranks
  for (const std::vector<Finding>& one : of_rank)
    for (const Finding& each : one) {
      const auto [at, first] = seen.try_emplace({each.subject.host, each.id}, findings.size(), 0);
      if (first) {
        findings.push_back(each);
      } else {
        ++at->second.second;
      }
    }
  for (const auto& [key, where_and_more] : seen)
    if (const auto& [index, more] = where_and_more; more > 0)
      findings[index].evidence += fmt::format(" (and {} more {})", more, more == 1 ? "rank" : "ranks");
  std::ranges::stable_sort(findings, {}, &Finding::severity);
  return findings;
}

}  // namespace p5::topo
