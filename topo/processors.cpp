// hwloc: packages, cores and hardware threads, which of them this process may use, and hwloc's own XML.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "bench/base/error.hpp"
#include "topo/discover.hpp"
#include "topo/hwloc_handle.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

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

}  // namespace p5::topo
