// NVML, loaded at run time and called by name, so that neither its header nor a driver is needed to build or to start,
// and a function that an old or a new driver lacks is an answer like any other.
// Names, numbers and layouts: NVIDIA, NVML API Reference Guide; all are part of its stable interface.
#pragma once

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "topo/devices.hpp"

namespace p5::nvml {

using Device = struct nvmlDevice_st*;
using Result = int;

constexpr Result success = 0, insufficient_size = 7, no_such_function = 13, timed_out = 10;

struct FieldValue {
  unsigned field_id = 0, scope_id = 0;
  long long timestamp = 0, latency_us = 0;
  unsigned value_type = 0;
  Result result = 0;
  union {
    double real;
    unsigned number;
    unsigned long long wide;
  } value{};
};

struct PciInfo {
  std::array<char, 16> short_address{};
  unsigned domain = 0, bus = 0, device = 0, device_id = 0, subsystem_id = 0;
  std::array<char, 32> address{};
};

struct MemoryInfo {
  unsigned long long total = 0, free = 0, used = 0;
};

// Version 2 of nvmlGpuFabricInfoV_t.
struct FabricInfo {
  unsigned version = 0;
  std::array<unsigned char, 16> cluster{};
  Result status = 0;
  unsigned clique = 0;
  unsigned char state = 0;
  unsigned health = 0;
};

// nvmlProcessInfo_t, since version 2 of the function that lists them.
struct ProcessInfo {
  unsigned pid = 0;
  unsigned long long memory = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};

struct EventData {
  Device device = nullptr;
  unsigned long long type = 0, data = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};

// NVML call that the calling thread is in, for the thread that waits for it; the name has static storage duration.
using Asking = std::atomic<const char*>;

class Library {
 public:
  // Throws std::runtime_error with the loader's or NVML's error message.
  explicit Library(Asking& asking);
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  // no_such_function where this driver has none.
  template <class... Arguments>
  Result call(Asking& asking, const char* function, Arguments... arguments) const {
    void* const symbol = dlsym(library_, function);
    if (!symbol) return no_such_function;
    asking = function;
    const Result result = reinterpret_cast<Result (*)(Arguments...)>(symbol)(arguments...);
    asking = nullptr;
    return result;
  }
  // NVML's error string for a result.
  std::string words(Result result) const;

 private:
  void* library_;
};

// Calls about one GPU; each returns an absent value when NVML does not report it.
class Gpu {
 public:
  Gpu(const Library& library, Device device, Asking& asking) : library_(library), device_(device), asking_(asking) {}

  template <class Number = unsigned, class... Arguments>
  std::optional<Number> number(const char* function, Arguments... arguments) const {
    Number value{};
    if (call(function, arguments..., &value) != success) return std::nullopt;
    return value;
  }
  template <class Number = unsigned, class... Arguments>
  std::optional<std::pair<Number, Number>> two(const char* function, Arguments... arguments) const {
    Number first{}, second{};
    if (call(function, arguments..., &first, &second) != success) return std::nullopt;
    return std::pair{first, second};
  }
  std::string text(const char* function) const {
    std::array<char, 96> text{};
    return call(function, text.data(), unsigned{text.size()}) == success ? text.data() : "";
  }
  std::optional<FieldValue> field(unsigned id, unsigned scope) const {
    FieldValue value{.field_id = id, .scope_id = scope};
    if (call("nvmlDeviceGetFieldValues", 1, &value) != success || value.result != success) return std::nullopt;
    return value;
  }
  template <class... Arguments>
  Result call(const char* function, Arguments... arguments) const {
    return library_.call(asking_, function, device_, arguments...);
  }
  const Library& library() const { return library_; }

 private:
  const Library& library_;
  Device device_;
  Asking& asking_;
};

// PCI address in the format of sysfs, "0000:53:00.0"; NVML prints an eight-digit domain and upper-case letters.
std::string pci_address(const PciInfo& info);

// ---- Reads one GPU through NVML into the values of topo/devices.hpp.

// Hands over what is known so far after each group of calls, so that a call that blocks costs only what comes after it.
void describe(const Gpu& gpu, const std::function<void(const topo::Gpu&)>& publish);

topo::GpuState state_of(const Gpu& gpu);
topo::GpuMemoryErrors errors_of(const Gpu& gpu);

}  // namespace p5::nvml
