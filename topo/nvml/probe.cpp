// p5bench-probe-nvml: prints what NVML says of this host's GPUs as JSON. A program of its own, because NVML may block
// for minutes on a sick driver: whoever starts it can end it. NVML is loaded at run time; its header is not needed to
// build.
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace {

using nlohmann::json;

// The part of NVML's stable interface that is used here (NVIDIA, NVML API Reference Guide).
using Device = struct nvmlDevice_st*;
struct FieldValue {
  unsigned field_id = 0, scope_id = 0;
  long long timestamp = 0, latency_us = 0;
  unsigned value_type = 0;
  int result = 0;
  union {
    double real;
    unsigned number;
    unsigned long long wide;
  } value{};
};
constexpr unsigned field_link_speed = 164;  // MB/s of the link in scope_id
constexpr unsigned field_common_link_speed = 90;
constexpr unsigned most_links = 36;

class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW)) {
    if (!library_) throw std::runtime_error(dlerror());
    check(find<int (*)()>("nvmlInit_v2")(), "nvmlInit");
  }
  ~Nvml() { find<int (*)()>("nvmlShutdown")(); }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  unsigned count() const {
    unsigned count = 0;
    check(find<int (*)(unsigned*)>("nvmlDeviceGetCount_v2")(&count), "nvmlDeviceGetCount");
    return count;
  }
  Device device(unsigned index) const {
    Device device = nullptr;
    check(find<int (*)(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2")(index, &device),
          "nvmlDeviceGetHandleByIndex");
    return device;
  }
  std::string text(const char* function, Device device) const {
    std::array<char, 96> text{};
    check(find<int (*)(Device, char*, unsigned)>(function)(device, text.data(), text.size()), function);
    return text.data();
  }
  std::string driver() const {
    std::array<char, 96> text{};
    check(find<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion")(text.data(), text.size()),
          "nvmlSystemGetDriverVersion");
    return text.data();
  }
  // null where this GPU or driver does not know.
  json number(const char* function, Device device) const {
    unsigned value = 0;
    return find<int (*)(Device, unsigned*)>(function)(device, &value) == 0 ? json(value) : json(nullptr);
  }
  json architecture(Device device) const {
    int major = 0, minor = 0;
    if (find<int (*)(Device, int*, int*)>("nvmlDeviceGetCudaComputeCapability")(device, &major, &minor) != 0)
      return nullptr;
    return major * 10 + minor;
  }
  int active_links(Device device) const {
    const auto state = find<int (*)(Device, unsigned, int*)>("nvmlDeviceGetNvLinkState");
    int active = 0;
    for (unsigned link = 0; link < most_links; ++link) {
      int enabled = 0;
      if (state(device, link, &enabled) == 0 && enabled == 1) ++active;
    }
    return active;
  }
  json link_speed_mb_per_s(Device device) const {
    const auto get = find<int (*)(Device, int, FieldValue*)>("nvmlDeviceGetFieldValues");
    for (unsigned field : {field_link_speed, field_common_link_speed}) {
      FieldValue value{.field_id = field};
      if (get(device, 1, &value) == 0 && value.result == 0 && value.value.number > 0) return value.value.number;
    }
    return nullptr;
  }
  // Programs that compute on the GPU now; NVML writes how many there are even when it has no room to list them.
  json processes(Device device) const {
    unsigned count = 0;
    constexpr int no_room = 7;
    const int result =
        find<int (*)(Device, unsigned*, void*)>("nvmlDeviceGetComputeRunningProcesses_v3")(device, &count, nullptr);
    return result == 0 || result == no_room ? json(count) : json(nullptr);
  }

 private:
  template <class Function>
  Function find(const char* name) const {
    void* const symbol = dlsym(library_, name);
    if (!symbol) throw std::runtime_error(std::string(name) + " is not in this NVML");
    return reinterpret_cast<Function>(symbol);
  }
  static void check(int result, const char* what) {
    if (result != 0) throw std::runtime_error(std::string(what) + ": NVML error " + std::to_string(result));
  }
  void* library_;
};

json describe(const Nvml& nvml, unsigned index) {
  const Device device = nvml.device(index);
  return {{"uuid", nvml.text("nvmlDeviceGetUUID", device)},
          {"name", nvml.text("nvmlDeviceGetName", device)},
          {"architecture", nvml.architecture(device)},
          {"links", nvml.active_links(device)},
          {"link_speed_mb_per_s", nvml.link_speed_mb_per_s(device)},
          {"pcie_generation", nvml.number("nvmlDeviceGetMaxPcieLinkGeneration", device)},
          {"pcie_width", nvml.number("nvmlDeviceGetMaxPcieLinkWidth", device)},
          {"processes", nvml.processes(device)}};
}

}  // namespace

int main() {
  try {
    const Nvml nvml;
    json gpus = json::array();
    for (unsigned i = 0; i < nvml.count(); ++i) gpus.push_back(describe(nvml, i));
    std::printf("%s\n", json{{"driver", nvml.driver()}, {"gpus", gpus}}.dump().c_str());
    return 0;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}
