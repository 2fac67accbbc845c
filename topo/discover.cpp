// This host as a value, put together from the parts of discovery. Nothing here fails for a missing file.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "topo/discover.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

namespace fs = std::filesystem;

namespace {

std::string kernel_host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

Bytes kilobytes_of(const fs::path& meminfo, std::string_view key) {
  const auto value = value_of(meminfo, key);
  return KiB(value ? static_cast<std::uint64_t>(leading_number(*value).value_or(0)) : 0);
}

// The VBIOS and the driver play no part in what PCI says, so a GPU with a broken driver still counts.
int count_gpus(const fs::path& root) {
  const fs::path devices = root / "sys/bus/pci/devices";
  const std::vector<std::string> names = names_in(devices);
  return static_cast<int>(std::count_if(names.begin(), names.end(), [&](const std::string& name) {
    const std::string kind = read_text(devices / name / "class").value_or("");
    return read_text(devices / name / "vendor") == "0x10de" &&
           (kind.starts_with("0x0300") || kind.starts_with("0x0302"));
  }));
}

// Only EC2 puts the instance type into the product name and the instance id into the asset tag.
void add_instance(Host& host, const fs::path& root) {
  const fs::path dmi = root / "sys/class/dmi/id";
  if (read_text(dmi / "sys_vendor") != "Amazon EC2") return;
  host.instance_type = read_text(dmi / "product_name").value_or("");
  const std::string tag = read_text(dmi / "board_asset_tag").value_or("");
  if (tag.starts_with("i-")) host.instance = tag;
}

void add_memory(Host& host, const fs::path& root) {
  const fs::path meminfo = root / "proc/meminfo";
  host.memory = kilobytes_of(meminfo, "MemTotal:");
  host.memory_available = kilobytes_of(meminfo, "MemAvailable:");
  if (const auto left = memory_left_by_cgroup(root)) host.memory_available = std::min(host.memory_available, *left);
}

void add_processors(Host& host, const std::string& root) {
  const Processors processors = discover_processors(root);
  host.packages = processors.packages;
  host.numa_nodes = processors.numa_nodes;
  host.cores = processors.cores;
  host.threads = processors.threads;
  host.allowed_threads = processors.allowed_threads;
  host.cpu_model = processors.model;
  if (!host.cpu_model.empty()) return;
  const std::string model = value_of(fs::path(root + "/") / "proc/cpuinfo", "model name").value_or("");
  host.cpu_model = trimmed(model.substr(std::min(model.size(), model.find(':') + 1)));
}

}  // namespace

HostName host_name() {
  if (const char* id = std::getenv("NCCL_HOSTID"); id && *id) return {id, true};
  return {kernel_host_name(), false};
}

Host discover_host(const std::string& root) {
  const fs::path files = root + "/";
  Host host;
  host.host_name = root.empty() ? kernel_host_name() : read_text(files / "proc/sys/kernel/hostname").value_or("");
  // NCCL_HOSTID names the machine that we run on, not one that was recorded.
  const HostName name = root.empty() ? host_name() : HostName{host.host_name, false};
  host.name = name.name;
  host.pretended = name.pretended;
  host.boot_id = read_text(files / "proc/sys/kernel/random/boot_id").value_or("");
  host.kernel = read_text(files / "proc/sys/kernel/osrelease").value_or("");
  add_instance(host, files);
  add_processors(host, root);
  host.gpus = count_gpus(files);
  add_memory(host, files);
  host.nics = discover_nics(files);
  return host;
}

}  // namespace p5::topo
