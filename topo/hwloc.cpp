// What hwloc knows: of this host, and of a file that lstopo wrote.
#include <fmt/format.h>
#include <hwloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "bench/base/error.hpp"
#include "topo/discover.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

// ---- A topology of hwloc that destroys itself. Internal to topo.

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

// ---- hwloc: packages, cores and hardware threads, which of them this process may use, and hwloc's own XML.

namespace {

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

// hwloc takes the root of a recorded machine from the environment only.
class RecordedRoot {
 public:
  explicit RecordedRoot(const std::string& root) : set_(!root.empty()) {
    if (set_) setenv("HWLOC_FSROOT", root.c_str(), 1);
  }
  ~RecordedRoot() {
    if (set_) unsetenv("HWLOC_FSROOT");
  }
  RecordedRoot(const RecordedRoot&) = delete;
  RecordedRoot& operator=(const RecordedRoot&) = delete;

 private:
  bool set_;
};

// Null when hwloc cannot load. Its GPU components are disabled, because they call drivers, and a hung driver blocks for
// minutes. So is pci, whose library leaks memory; the Linux component reads the same devices from /sys.
HwlocTopology load(const std::string& root, hwloc_type_filter_e devices) {
  const RecordedRoot recorded(root);
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  HwlocTopology topology(raw);
  for (const char* component : std::array{"cuda", "nvml", "opencl", "rsmi", "levelzero", "gl", "pci"})
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  // CPUID speaks of the processor that we run on.
  if (!root.empty()) hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  hwloc_topology_set_io_types_filter(raw, devices);
  if (hwloc_topology_load(raw) != 0) return nullptr;
  return topology;
}

int count(const HwlocTopology& topology, hwloc_obj_type_t type) {
  return std::max(0, hwloc_get_nbobjs_by_type(topology.get(), type));
}

std::string model_of(const HwlocTopology& topology) {
  const hwloc_obj_t package = hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_PACKAGE, 0);
  const char* model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : nullptr;
  return model ? model : "";
}

// Counted among the cores that we may use, as launchers count them.
std::map<int, std::vector<int>> cores_of_nodes(const HwlocTopology& topology) {
  std::map<int, std::vector<int>> cores;
  int number = 0;
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(topology.get(), HWLOC_OBJ_CORE, core));) {
    if (!hwloc_bitmap_intersects(core->cpuset, hwloc_topology_get_allowed_cpuset(topology.get()))) continue;
    if (hwloc_bitmap_weight(core->nodeset) == 1) cores[hwloc_bitmap_first(core->nodeset)].push_back(number);
    ++number;
  }
  return cores;
}

// True if a launcher bound this rank to its share of the host: its binding then does not describe the whole host.
bool bound_by_launcher() {
  for (const char* variable : {"OMPI_MCA_orte_bound_at_launch", "SLURM_CPU_BIND"})
    if (const char* value = std::getenv(variable); value && *value) return true;
  return false;
}

int allowed_threads(const HwlocTopology& topology, const std::string& root) {
  const Bitmap allowed(hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology.get())));
  const Bitmap bound(hwloc_bitmap_alloc());
  if (root.empty() && !bound_by_launcher() &&
      hwloc_get_cpubind(topology.get(), bound.get(), HWLOC_CPUBIND_PROCESS) == 0)
    hwloc_bitmap_and(allowed.get(), allowed.get(), bound.get());
  const int threads = std::max(0, hwloc_bitmap_weight(allowed.get()));
  const auto quota = processors_left_by_cgroup(root + "/");
  return quota ? std::min(threads, std::max(1, static_cast<int>(std::floor(*quota)))) : threads;
}

}  // namespace

Processors discover_processors(const std::string& root) {
  // hwloc assumes one processor without this folder, which would be a made-up fact of a recorded machine.
  if (!root.empty() && !present(root + "/sys/devices/system/cpu")) return {};
  const HwlocTopology topology = load(root, HWLOC_TYPE_FILTER_KEEP_NONE);
  if (!topology) return {};
  Processors processors;
  processors.packages = count(topology, HWLOC_OBJ_PACKAGE);
  processors.numa_nodes = count(topology, HWLOC_OBJ_NUMANODE);
  processors.cores = count(topology, HWLOC_OBJ_CORE);
  processors.threads = count(topology, HWLOC_OBJ_PU);
  processors.allowed_threads = allowed_threads(topology, root);
  processors.model = model_of(topology);
  processors.cores_of_node = cores_of_nodes(topology);
  return processors;
}

std::string hwloc_xml() {
  const HwlocTopology topology = load("", HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  char* buffer = nullptr;
  int length = 0;
  if (!topology || hwloc_topology_export_xmlbuffer(topology.get(), &buffer, &length, 0) != 0)
    throw EnvironmentError("hwloc cannot describe this machine; see what 'lstopo' says");
  std::string xml(buffer);
  hwloc_free_xmlbuffer(topology.get(), buffer);
  return xml;
}

// ---- A host out of a file that lstopo wrote: less than discovery finds, but the tree of processors, GPUs and NICs.

namespace {

using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

HwlocTopology load(const std::string& xml) {
  const bool newer = xml.find("<topology version=\"3") != std::string::npos;
  const UsageError unreadable(newer ? "it is XML of hwloc 3, which this hwloc does not read; "
                                      "'lstopo --export-xml-flags v2 --of xml FILE' of hwloc 3 writes what it reads"
                                    : "it is no XML of hwloc, which 'lstopo --of xml FILE' writes");
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw unreadable;
  HwlocTopology topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_set_xmlbuffer(raw, xml.c_str(), static_cast<int>(xml.size() + 1)) != 0 ||
      hwloc_topology_load(raw) != 0)
    throw unreadable;
  return topology;
}

std::string info(hwloc_obj_t object, const char* name) {
  const char* const value = hwloc_obj_get_info_by_name(object, name);
  return value ? value : "";
}

std::string address_of(const PciAttributes& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func);
}

PciPosition place_of(hwloc_obj_t device) {
  PciPosition place{.address = address_of(device->attr->pcidev)};
  for (hwloc_obj_t above = device->parent; above && above->type == HWLOC_OBJ_BRIDGE; above = above->parent) {
    const hwloc_obj_attr_u::hwloc_bridge_attr_s& bridge = above->attr->bridge;
    place.path.insert(place.path.begin(), bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI
                                              ? address_of(bridge.upstream.pci)
                                              : fmt::format("pci{:04x}:{:02x}", bridge.downstream.pci.domain,
                                                            bridge.downstream.pci.secondary_bus));
  }
  return place;
}

int numa_node_in(hwloc_topology_t topology, hwloc_obj_t device) {
  const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, device);
  return near && hwloc_bitmap_weight(near->nodeset) == 1 ? hwloc_bitmap_first(near->nodeset) : -1;
}

// EFA's vendor is Amazon.
Nic rdma_nic(hwloc_obj_t object, unsigned vendor) {
  const bool efa = vendor == 0x1d0f;
  Nic nic{.name = object->name, .kind = efa ? "efa" : "infiniband", .driver = efa ? "efa" : "", .state = "unknown"};
  if (const std::string state = info(object, "Port1State"); !state.empty()) nic.state = state == "4" ? "up" : "down";
  nic.hardware_address = info(object, "NodeGUID");
  return nic;
}

void add_nic(Host& host, hwloc_topology_t topology, hwloc_obj_t pci) {
  hwloc_obj_t network = nullptr, rdma = nullptr;
  for (hwloc_obj_t child = pci->io_first_child; child; child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE || !child->name) continue;
    if (child->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) rdma = child;
    if (child->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK) network = child;
  }
  if (!rdma && !network) return;
  Nic nic = rdma ? rdma_nic(rdma, pci->attr->pcidev.vendor_id)
                 : Nic{.name = network->name, .kind = "ethernet", .driver = "", .state = "unknown"};
  if (!rdma) nic.hardware_address = info(network, "Address");
  nic.pci = place_of(pci);
  nic.numa_node = numa_node_in(topology, pci);
  host.nics.push_back(std::move(nic));
}

void add_gpu(Host& host, hwloc_topology_t topology, hwloc_obj_t pci) {
  Gpu gpu;
  gpu.pci = place_of(pci);
  gpu.numa_node = numa_node_in(topology, pci);
  for (hwloc_obj_t child = pci->io_first_child; child; child = child->next_sibling)
    for (const auto& [fact, key] :
         {std::pair(&gpu.name, "GPUModel"), std::pair(&gpu.uuid, "NVIDIAUUID"), std::pair(&gpu.serial, "NVIDIASerial")})
      if (fact->empty()) *fact = info(child, key);  // of NVML, CUDA or OpenCL
  host.gpu_devices.push_back(std::move(gpu));
}

void add_identity(Host& host, hwloc_obj_t machine) {
  host.name = host.host_name = info(machine, "HostName");
  host.kernel = info(machine, "OSRelease");
  host.cpu_model = info(machine, "CPUModel");
  host.memory = Bytes{machine->total_memory};
  if (info(machine, "DMISysVendor") == "Amazon EC2") host.instance_type = info(machine, "DMIProductName");
}

std::string list_of(hwloc_bitmap_t set) {
  char* text = nullptr;
  if (hwloc_bitmap_list_asprintf(&text, set) < 0) return "";
  const std::unique_ptr<char, void (*)(void*)> owned(text, std::free);
  return text;
}

// hwloc without libxml reads no comment, and no blank in front.
std::string without_comments(std::string_view xml) {
  std::string kept;
  while (true) {
    const std::size_t comment = xml.find("<!--");
    kept += xml.substr(0, comment);
    const std::size_t end = comment == std::string_view::npos ? comment : xml.find("-->", comment);
    if (end == std::string_view::npos) break;
    xml.remove_prefix(end + 3);
  }
  return kept.erase(0, kept.find_first_not_of(" \t\r\n"));
}

// hwloc trusts its files: one that is not as hwloc writes it may crash it, or keep it busy. So a process of its own
// reads the text first.
void try_in_a_process(const std::string& xml) {
  const pid_t child = ::fork();
  if (child < 0) throw EnvironmentError(fmt::format("no process can be started: {}", std::strerror(errno)));
  if (child == 0) {
    constexpr unsigned patience_s = 60;
    ::signal(SIGSEGV, SIG_DFL);
    ::signal(SIGALRM, SIG_DFL);
    sigset_t blocked;  // by the process that takes signals on a thread of its own
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGALRM);
    ::sigprocmask(SIG_UNBLOCK, &blocked, nullptr);
    ::alarm(patience_s);
    try {
      load(xml);
    } catch (const UsageError&) {  // the parent process reports it
    }
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw UsageError("it ends hwloc, which reads it: it is not as hwloc wrote it; 'lstopo --of xml FILE' writes one");
}

}  // namespace

Host host_from_hwloc_xml(const std::string& text, const std::string& name) {
  const std::string xml = without_comments(text);
  try_in_a_process(xml);
  const HwlocTopology owned = load(xml);
  const hwloc_topology_t topology = owned.get();
  Host host;
  add_identity(host, hwloc_get_root_obj(topology));
  if (host.name.empty()) host.name = host.host_name = name;
  const auto count = [&](hwloc_obj_type_t type) { return std::max(0, hwloc_get_nbobjs_by_type(topology, type)); };
  host.packages = count(HWLOC_OBJ_PACKAGE);
  host.numa_nodes = count(HWLOC_OBJ_NUMANODE);
  host.cores = count(HWLOC_OBJ_CORE);
  host.threads = count(HWLOC_OBJ_PU);
  for (hwloc_obj_t node = nullptr; (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node));)
    host.numa.push_back(
        {static_cast<int>(node->os_index), list_of(node->cpuset), {}, Bytes{node->attr->numanode.local_memory}});
  for (hwloc_obj_t pci = nullptr; (pci = hwloc_get_next_pcidev(topology, pci));) {
    const PciAttributes& device = pci->attr->pcidev;
    constexpr unsigned nvidia = 0x10de;
    if (device.vendor_id == nvidia && (device.class_id == 0x0300 || device.class_id == 0x0302))
      add_gpu(host, topology, pci);
    else
      add_nic(host, topology, pci);
  }
  host.gpus = static_cast<int>(host.gpu_devices.size());
  find_rails(host);
  return host;
}

}  // namespace p5::topo
