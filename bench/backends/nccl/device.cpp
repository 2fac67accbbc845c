#include "bench/backends/nccl/device.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <sstream>

#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/library.hpp"
#include "bench/base/error.hpp"

namespace p5::nccl {

namespace {

// As sysfs writes it: lower case.
std::string pci_address_of(int device) {
  std::array<char, 32> text{};
  check(cudaDeviceGetPCIBusId(text.data(), text.size(), device), "cudaDeviceGetPCIBusId");
  std::string address = text.data();
  std::ranges::transform(address, address.begin(), [](unsigned char c) { return std::tolower(c); });
  return address;
}

// As NVML and nvidia-smi write it.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream ranges(text);
  for (std::string range; std::getline(ranges, range, ',');) {
    int first = 0, last = 0;
    char dash = 0;
    std::istringstream parts(range);
    if (!(parts >> first)) return {};
    last = first;
    if (parts >> dash && (dash != '-' || !(parts >> last))) return {};
    if (first < 0 || last < first || last >= CPU_SETSIZE) return {};
    for (int each = first; each <= last; ++each) numbers.push_back(each);
  }
  return numbers;
}

void bind_near(const std::string& pci_address) {
  // The kernel keeps a process within its cpuset, whatever it asks for: asking for all tells what is allowed.
  cpu_set_t all, allowed, near;
  CPU_ZERO(&all);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &all);
  sched_setaffinity(0, sizeof all, &all);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  std::ifstream file("/sys/bus/pci/devices/" + pci_address + "/local_cpulist");
  std::string text;
  std::getline(file, text);
  CPU_ZERO(&near);
  for (const int cpu : parse_cpu_list(text))
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &near);
  if (CPU_COUNT(&near) > 0) sched_setaffinity(0, sizeof near, &near);
}

int choose_device(int local_rank) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  if (devices == 0) throw CaseError("cudaGetDeviceCount: this process sees no GPU; look at CUDA_VISIBLE_DEVICES");
  if (local_rank < 0) throw CaseError(fmt::format("local rank {} is not a rank", local_rank));
  const int device = local_rank % devices;
  bind_near(pci_address_of(device));  // before the context: the driver's threads inherit it
  check(cudaSetDevice(device), "cudaSetDevice");
  check(cudaFree(nullptr), "cudaFree, the first call on the device");
  return device;
}

protocol::Identity identify_device(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::size_t free_memory = 0, total_memory = 0;
  check(cudaMemGetInfo(&free_memory, &total_memory), "cudaMemGetInfo");
  int driver = 0, runtime = 0, visible = 0;
  check(cudaGetDeviceCount(&visible), "cudaGetDeviceCount");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return {.device_uuid = uuid_text(properties.uuid),
          .device_name = properties.name,
          .pci_address = pci_address_of(device),
          .free_memory = free_memory,
          .total_memory = total_memory,
          .visible_devices = visible,
          .library = library_version(),
          .library_path = library_path(),
          .driver = version_text(driver),
          .runtime = version_text(runtime)};
}

}  // namespace p5::nccl
