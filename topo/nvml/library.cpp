#include "topo/nvml/library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace p5::nvml {

Library::Library(Asking& asking) : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
  if (!library_) throw std::runtime_error(dlerror());
  Result result = call(asking, "nvmlInit_v2");
  if (result == no_such_function) result = call(asking, "nvmlInit");
  if (result != success) throw std::runtime_error(fmt::format("nvmlInit_v2: {}", words(result)));
}

std::string Library::words(Result result) const {
  if (result == no_such_function) return "this driver has no such function";
  using ErrorString = const char* (*)(Result);
  const auto error_string = reinterpret_cast<ErrorString>(dlsym(library_, "nvmlErrorString"));
  const char* const words = error_string ? error_string(result) : nullptr;
  return words ? fmt::format("{} (NVML error {})", words, result) : fmt::format("NVML error {}", result);
}

std::string pci_address(const PciInfo& info) {
  const char function = info.address[0] ? std::string(info.address.data()).back() : '0';
  return fmt::format("{:04x}:{:02x}:{:02x}.{}", info.domain, info.bus, info.device, function);
}

namespace {

constexpr unsigned most_links = 36;
// Fields of nvmlDeviceGetFieldValues.
constexpr unsigned field_link_speed = 164;  // MB/s of the link in the scope
constexpr unsigned field_common_link_speed = 90;
constexpr unsigned field_link_count = 91;
// From NVLink 5 on, in place of the counters of nvmlDeviceGetNvLinkErrorCounter; of the link in the scope.
constexpr unsigned field_link_recovered = 213, field_link_recovery_failed = 214;

template <class To, class From>
std::optional<To> as(const std::optional<From>& value) {
  if (!value) return std::nullopt;
  if constexpr (std::same_as<To, bool>)
    return *value != From{};
  else
    return static_cast<To>(*value);
}

std::optional<double> watts(const std::optional<unsigned>& milliwatts) {
  if (!milliwatts) return std::nullopt;
  return *milliwatts / 1000.0;
}

void add_identity(const Gpu& gpu, topo::Gpu& told) {
  told.uuid = gpu.text("nvmlDeviceGetUUID");
  told.name = gpu.text("nvmlDeviceGetName");
  told.serial = gpu.text("nvmlDeviceGetSerial");
  PciInfo pci;
  if (gpu.call("nvmlDeviceGetPciInfo_v3", &pci) == success) told.pci.address = pci_address(pci);
  if (const auto capability = gpu.two<int>("nvmlDeviceGetCudaComputeCapability"))
    told.architecture = capability->first * 10 + capability->second;
  MemoryInfo memory;
  if (gpu.call("nvmlDeviceGetMemoryInfo", &memory) == success) told.memory = Bytes{memory.total};
}

void add_modes(const Gpu& gpu, topo::Gpu& told) {
  told.persistence = as<bool>(gpu.number("nvmlDeviceGetPersistenceMode"));
  if (const auto mig = gpu.two("nvmlDeviceGetMigMode")) told.mig = mig->first != 0;
  if (const auto mode = gpu.number("nvmlDeviceGetComputeMode"))
    told.compute_mode = *mode == 0   ? "default"
                        : *mode == 2 ? "prohibited"
                        : *mode == 3 ? "exclusive process"
                                     : "exclusive thread";
}

// A process of another namespace has no name here.
std::string name_of_process(unsigned pid) {
  std::string name;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
  return name;
}

std::string words_about(unsigned pid) {
  const std::string name = name_of_process(pid);
  return "pid " + std::to_string(pid) + (name.empty() ? "" : ", " + name);
}

// The server of NVIDIA's Multi-Process Service stays on the GPUs without clients, and computes nothing by itself. The
// kernel keeps 15 characters of a name.
bool is_server_of_mps(unsigned pid) { return name_of_process(pid) == "nvidia-cuda-mps"; }

struct Processes {
  int count = 0;
  std::vector<unsigned> ids = {};  // none where there are more than NVML is asked for
};

// Null where the driver has none of these functions, or fails.
std::optional<Processes> processes_by(const Gpu& gpu, std::initializer_list<const char*> functions) {
  constexpr unsigned most_named = 16;
  for (const char* const function : functions) {
    std::array<ProcessInfo, most_named> list{};
    unsigned count = most_named;
    const Result result = gpu.call(function, &count, static_cast<void*>(list.data()));
    if (result == no_such_function) continue;
    if (result != success && result != insufficient_size) return std::nullopt;
    Processes found{.count = static_cast<int>(count)};
    if (result == success)
      for (unsigned i = 0; i < std::min(count, most_named); ++i) found.ids.push_back(list[i].pid);
    return found;
  }
  return std::nullopt;
}

void add_processes(const Gpu& gpu, topo::Gpu& told) {
  std::optional<Processes> all =
      processes_by(gpu, {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"});
  if (!all) {
    // Older drivers export only the older function. It returns the number of processes when the buffer cannot hold
    // them.
    unsigned count = 0;
    const Result result = gpu.call("nvmlDeviceGetComputeRunningProcesses", &count, static_cast<void*>(nullptr));
    if (result == success || result == insufficient_size) told.processes = static_cast<int>(count);
    return;
  }
  all->count -= static_cast<int>(std::erase_if(all->ids, is_server_of_mps));
  // The service's clients may be listed apart, or in both lists.
  if (const auto clients = processes_by(
          gpu, {"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"})) {
    if (clients->ids.empty()) all->count = std::max(all->count, clients->count);
    for (const unsigned id : clients->ids) {
      if (std::ranges::find(all->ids, id) != all->ids.end()) continue;
      all->ids.push_back(id);
      ++all->count;
    }
  }
  told.processes = all->count;
  for (const unsigned id : all->ids) told.used_by.push_back(words_about(id));
}

void add_pcie(const Gpu& gpu, topo::Gpu& told) {
  told.pcie = {.generation = as<int>(gpu.number("nvmlDeviceGetCurrPcieLinkGeneration")),
               .width = as<int>(gpu.number("nvmlDeviceGetCurrPcieLinkWidth")),
               .generation_max = as<int>(gpu.number("nvmlDeviceGetMaxPcieLinkGeneration")),
               .width_max = as<int>(gpu.number("nvmlDeviceGetMaxPcieLinkWidth"))};
  told.pcie_replays = as<std::uint64_t>(gpu.number("nvmlDeviceGetPcieReplayCounter"));
}

std::optional<GBps> link_rate(const Gpu& gpu, unsigned link) {
  for (const unsigned field : {field_link_speed, field_common_link_speed})
    if (const auto value = gpu.field(field, link); value && value->value.number > 0)
      return GBps{value->value.number / 1000.0};
  return std::nullopt;
}

topo::NvLink describe_link(const Gpu& gpu, unsigned link, bool active) {
  topo::NvLink told{.number = static_cast<int>(link), .active = active};
  if (active) told.rate_raw = link_rate(gpu, link);
  if (const auto kind = gpu.number<int>("nvmlDeviceGetNvLinkRemoteDeviceType", link))
    told.remote = *kind == 0 ? "gpu" : *kind == 2 ? "switch" : "";
  PciInfo remote;
  if (active && gpu.call("nvmlDeviceGetNvLinkRemotePciInfo_v2", link, &remote) == success)
    told.remote_pci = pci_address(remote);
  const std::array<const char*, 4> counters{"replay", "recovery", "crc_flit", "crc_data"};
  for (int which = 0; which < 4; ++which)
    if (const auto count = gpu.number<unsigned long long>("nvmlDeviceGetNvLinkErrorCounter", link, which);
        count && *count != std::numeric_limits<unsigned long long>::max())
      told.errors[counters[static_cast<std::size_t>(which)]] = *count;
  for (const auto& [field, counter] :
       {std::pair{field_link_recovered, "recovery"}, std::pair{field_link_recovery_failed, "recovery_failed"}})
    if (const auto count = gpu.field(field, link)) told.errors[counter] = count->value.number;
  return told;
}

void add_links(const Gpu& gpu, topo::Gpu& told) {
  for (unsigned link = 0; link < most_links; ++link) {
    const auto state = gpu.number<int>("nvmlDeviceGetNvLinkState", link);
    if (state) told.nvlinks.push_back(describe_link(gpu, link, *state == 1));
  }
  if (const auto count = gpu.field(field_link_count, 0)) told.links_possible = static_cast<int>(count->value.number);
  // An empty list means either no NVLinks or a driver that does not report them: only a link count of 0 is conclusive.
  if (told.nvlinks.empty() && told.links_possible != 0) return;
  const auto active = [](const topo::NvLink& link) { return link.active == true; };
  told.links = static_cast<int>(std::ranges::count_if(told.nvlinks, active));
  for (const topo::NvLink& link : told.nvlinks)
    if (link.rate_raw && (!told.link_rate_raw || *link.rate_raw < *told.link_rate_raw))
      told.link_rate_raw = link.rate_raw;
}

std::string fabric_state(unsigned char state) {
  constexpr std::array names{"not supported", "not started", "in progress", "completed"};
  return state < names.size() ? names[state] : "";
}

// A cluster of zeros: the GPU's NVLinks do not leave its host.
void add_domain(const std::array<unsigned char, 16>& cluster, unsigned clique, topo::Gpu& told) {
  if (std::ranges::all_of(cluster, [](unsigned char byte) { return byte == 0; })) return;
  constexpr std::string_view digits = "0123456789abcdef";
  for (const unsigned char byte : cluster) {
    told.fabric_cluster += digits[byte / digits.size()];
    told.fabric_cluster += digits[byte % digits.size()];
  }
  told.fabric_clique = static_cast<int>(clique);
}

void add_fabric(const Gpu& gpu, topo::Gpu& told) {
  FabricInfo info{.version = sizeof(FabricInfo) | (2u << 24)};
  if (gpu.call("nvmlDeviceGetGpuFabricInfoV", &info) == success) {
    told.fabric_state = fabric_state(info.state);
    told.fabric_status = info.status;
    add_domain(info.cluster, info.clique, told);
    if (info.health != 0) told.fabric_trouble = topo::fabric_troubles(info.health);
    return;
  }
  struct {  // before there were versions of it
    std::array<unsigned char, 16> cluster{};
    Result status = 0;
    unsigned clique = 0;
    unsigned char state = 0;
  } old;
  if (gpu.call("nvmlDeviceGetGpuFabricInfo", static_cast<void*>(&old)) != success) return;
  told.fabric_state = fabric_state(old.state);
  told.fabric_status = old.status;
  add_domain(old.cluster, old.clique, told);
}

void add_limits(const Gpu& gpu, topo::Gpu& told) {
  constexpr int sm_clock = 1, memory_clock = 2, slowdown = 1;
  told.sm_clock_max_mhz = as<int>(gpu.number("nvmlDeviceGetMaxClockInfo", sm_clock));
  told.memory_clock_max_mhz = as<int>(gpu.number("nvmlDeviceGetMaxClockInfo", memory_clock));
  told.power_cap_w = watts(gpu.number("nvmlDeviceGetEnforcedPowerLimit"));
  told.power_cap_default_w = watts(gpu.number("nvmlDeviceGetPowerManagementDefaultLimit"));
  told.slowdown_temperature_c = as<int>(gpu.number("nvmlDeviceGetTemperatureThreshold", slowdown));
}

}  // namespace

topo::GpuState state_of(const Gpu& gpu) {
  constexpr int sm_clock = 1, memory_clock = 2, core_sensor = 0;
  auto reasons = gpu.number<unsigned long long>("nvmlDeviceGetCurrentClocksEventReasons");
  if (!reasons) reasons = gpu.number<unsigned long long>("nvmlDeviceGetCurrentClocksThrottleReasons");
  return {.sm_clock_mhz = as<int>(gpu.number("nvmlDeviceGetClockInfo", sm_clock)),
          .memory_clock_mhz = as<int>(gpu.number("nvmlDeviceGetClockInfo", memory_clock)),
          .temperature_c = as<int>(gpu.number("nvmlDeviceGetTemperature", core_sensor)),
          .power_w = watts(gpu.number("nvmlDeviceGetPowerUsage")),
          .throttle_mask = as<std::uint64_t>(reasons)};
}

topo::GpuMemoryErrors errors_of(const Gpu& gpu) {
  topo::GpuMemoryErrors errors;
  if (const auto mode = gpu.two("nvmlDeviceGetEccMode")) errors.ecc = mode->first != 0;
  constexpr int corrected = 0, uncorrected = 1, since_load = 0, ever = 1;
  const auto total = [&](int kind, int when) {
    return as<std::uint64_t>(gpu.number<unsigned long long>("nvmlDeviceGetTotalEccErrors", kind, when));
  };
  errors.corrected = total(corrected, since_load);
  errors.uncorrected = total(uncorrected, since_load);
  errors.corrected_ever = total(corrected, ever);
  errors.uncorrected_ever = total(uncorrected, ever);
  for (const int cause : {0, 1}) {  // many single-bit errors; a double-bit error
    unsigned count = 0;
    const Result result = gpu.call("nvmlDeviceGetRetiredPages", cause, &count, static_cast<void*>(nullptr));
    if (result == success || result == insufficient_size)
      errors.retired_pages = errors.retired_pages.value_or(0) + static_cast<int>(count);
  }
  errors.retirement_pending = as<bool>(gpu.number("nvmlDeviceGetRetiredPagesPendingStatus"));
  unsigned remapped = 0, remapped_uncorrected = 0, pending = 0, failed = 0;
  if (gpu.call("nvmlDeviceGetRemappedRows", &remapped, &remapped_uncorrected, &pending, &failed) == success) {
    errors.remapped_corrected = static_cast<int>(remapped);
    errors.remapped_uncorrected = static_cast<int>(remapped_uncorrected);
    errors.remap_pending = pending != 0;
    errors.remap_failed = failed != 0;
  }
  return errors;
}

void describe(const Gpu& gpu, const std::function<void(const topo::Gpu&)>& publish) {
  topo::Gpu told;
  for (const auto add : {add_identity, add_pcie, add_modes, add_processes, add_links, add_fabric, add_limits}) {
    add(gpu, told);
    publish(told);
  }
  told.state = state_of(gpu);
  publish(told);
  told.errors = errors_of(gpu);
  publish(told);
}

}  // namespace p5::nvml
