// libnvidia-ml.so.1 of a simulated host with H100-like GPUs; only the calls of the probe exist.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/fakes/device_uuid.hpp"
#include "tests/fakes/nvml/machine.hpp"
#include "topo/nvml/library.hpp"

namespace {

using namespace p5::fake_nvml;
using p5::nvml::EventData;
using p5::nvml::FabricInfo;
using p5::nvml::FieldValue;
using p5::nvml::MemoryInfo;
using p5::nvml::PciInfo;
using p5::nvml::ProcessInfo;

constexpr int ok = 0, invalid = 2, unsupported = 3, lost = 15;
constexpr unsigned links = 18;

// A handle is the index plus one, so that it is never null.
int index_of(const void* device) { return static_cast<int>(reinterpret_cast<std::intptr_t>(device)) - 1; }
void* device_at(unsigned index) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(index) + 1); }

int print(char* text, unsigned size, const char* words) {
  std::snprintf(text, size, "%s", words);
  return ok;
}

void set_pci(PciInfo& info, unsigned domain, unsigned bus) {
  info.domain = domain, info.bus = bus, info.device = 0;
  std::snprintf(info.address.data(), info.address.size(), "%08X:%02X:00.0", domain, bus);
}

// Links that are down are the last ones of a GPU.
bool link_up(int gpu, unsigned link) {
  const Fault* const down = fault("link-down", gpu);
  return !down || link < links - static_cast<unsigned>(down->number("count", 1));
}

unsigned clock_of(int gpu, int type) {
  const Fault* const slow = fault("clock", gpu);
  if (type == 2) return 2619;
  return slow ? static_cast<unsigned>(slow->number("sm", 345)) : 1980;
}

// Appends this process' command line to the file that P5BENCH_FAKE_NVML_LOG names.
void log_start() {
  const char* const path = std::getenv("P5BENCH_FAKE_NVML_LOG");
  if (!path) return;
  std::ifstream words("/proc/self/cmdline");
  std::string line;
  for (std::string word; std::getline(words, word, '\0');) line += (line.empty() ? "" : " ") + word;
  std::ofstream(path, std::ios::app) << line + "\n";
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  log_start();
  maybe_block("nvmlInit_v2", -1);
  const Fault* const broken = fault("init", -1);
  return broken ? static_cast<int>(broken->number("error", 9)) : ok;
}

const char* nvmlErrorString(int result) {
  return result == 9      ? "Driver Not Loaded"
         : result == lost ? "GPU is lost"
         : result == ok   ? "Success"
                          : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  const Fault* const other = fault("driver", -1);
  return print(text, size, other ? other->values.at("version").c_str() : "580.00.fake");
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) { return *version = 13000, ok; }
int nvmlDeviceGetCount_v2(unsigned* count) { return *count = static_cast<unsigned>(gpus()), ok; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  maybe_block("nvmlDeviceGetHandleByIndex_v2", static_cast<int>(index));
  start_gpu(static_cast<int>(index));
  if (index >= static_cast<unsigned>(gpus())) return invalid;
  if (fault("lost", static_cast<int>(index))) return lost;
  return *device = device_at(index), ok;
}

// UUID text as in the fake CUDA runtime.
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  return print(text, size, p5::fake_uuid_text(index_of(device)).c_str());
}

int nvmlDeviceGetName(void*, char* text, unsigned size) { return print(text, size, "Fake GPU"); }
int nvmlDeviceGetSerial(void* device, char* text, unsigned size) {
  return print(text, size, ("17000" + std::to_string(index_of(device))).c_str());
}

int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) { return set_pci(*info, 0, bus_of(index_of(device))), ok; }

int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) { return *major = 9, *minor = 0, ok; }
int nvmlDeviceGetMemoryInfo(void*, MemoryInfo* info) {
  return *info = {.total = 80ull << 30, .free = 79ull << 30, .used = 1ull << 30}, ok;
}
int nvmlDeviceGetPersistenceMode(void*, unsigned* mode) { return *mode = 1, ok; }
int nvmlDeviceGetComputeMode(void*, unsigned* mode) { return *mode = 0, ok; }
int nvmlDeviceGetMigMode(void*, unsigned* now, unsigned* pending) { return *now = *pending = 0, ok; }

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, ProcessInfo* list) {
  const Fault* const busy = fault("busy", index_of(device));
  const unsigned room = *count;
  *count = busy ? static_cast<unsigned>(busy->number("processes", 1)) : 0;
  if (*count > room) return p5::nvml::insufficient_size;
  for (unsigned i = 0; i < *count; ++i) list[i].pid = static_cast<unsigned>(busy->number("pid", 1));
  return ok;
}

int nvmlDeviceGetMPSComputeRunningProcesses_v3(void* device, unsigned* count, ProcessInfo* list) {
  const Fault* const client = fault("mps", index_of(device));
  *count = client ? 1 : 0;
  if (client) list[0].pid = static_cast<unsigned>(client->number("pid", 1));
  return ok;
}

int nvmlDeviceGetCurrPcieLinkGeneration(void* device, unsigned* generation) {
  const Fault* const slow = fault("pcie", index_of(device));
  return *generation = slow ? static_cast<unsigned>(slow->number("generation", 5)) : 5, ok;
}
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* width) {
  const Fault* const narrow = fault("pcie", index_of(device));
  return *width = narrow ? static_cast<unsigned>(narrow->number("width", 16)) : 16, ok;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* generation) { return *generation = 5, ok; }
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* width) { return *width = 16, ok; }
int nvmlDeviceGetPcieReplayCounter(void*, unsigned* count) { return *count = 0, ok; }

int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active) {
  maybe_block("nvmlDeviceGetNvLinkState", index_of(device));
  if (link >= links) return invalid;
  return *active = link_up(index_of(device), link) ? 1 : 0, ok;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void*, unsigned, int* type) { return *type = 2, ok; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void*, unsigned link, PciInfo* info) {
  return set_pci(*info, 0, 0xc0 + link % 4), ok;
}
int nvmlDeviceGetNvLinkErrorCounter(void* device, unsigned, int, unsigned long long* count) {
  return fault("nvlink5", index_of(device)) ? unsupported : (*count = 0, ok);
}

int nvmlDeviceGetFieldValues(void* device, int count, FieldValue* values) {
  const Fault* const later = fault("nvlink5", index_of(device));
  for (int i = 0; i < count; ++i) {
    values[i].result = ok;
    if (values[i].field_id == 164)
      values[i].value.number = 26562;
    else if (values[i].field_id == 91)
      values[i].value.number = links;
    else if (later && values[i].field_id == 213)
      values[i].value.number =
          later->number("link", 0) == values[i].scope_id ? static_cast<unsigned>(later->number("recovered", 0)) : 0;
    else if (later && values[i].field_id == 214)
      values[i].value.number =
          later->number("link", 0) == values[i].scope_id ? static_cast<unsigned>(later->number("failed", 0)) : 0;
    else
      values[i].result = unsupported;
  }
  return ok;
}

int nvmlDeviceGetGpuFabricInfoV(void* device, FabricInfo* info) {
  maybe_block("nvmlDeviceGetGpuFabricInfoV", index_of(device));
  const Fault* const unready = fault("fabric", index_of(device));
  if (const Fault* const clique = fault("clique", index_of(device))) {
    const long cluster = clique->number("cluster", 1);
    for (std::size_t i = 0; i < sizeof cluster; ++i)
      info->cluster[15 - i] = static_cast<unsigned char>(cluster >> 8 * i);
    info->clique = static_cast<unsigned>(clique->number("id", 0));
    info->health = static_cast<unsigned>(clique->number("health", 0));
  }
  info->state = unready ? static_cast<unsigned char>(unready->number("state", 2)) : 3;
  info->status = unready ? static_cast<int>(unready->number("status", 0)) : ok;
  return ok;
}

int nvmlDeviceGetMaxClockInfo(void*, int type, unsigned* clock) { return *clock = type == 2 ? 2619 : 1980, ok; }
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* clock) {
  return *clock = clock_of(index_of(device), type), ok;
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* limit) { return *limit = 700'000, ok; }
int nvmlDeviceGetPowerManagementDefaultLimit(void*, unsigned* limit) { return *limit = 700'000, ok; }
int nvmlDeviceGetTemperatureThreshold(void*, int, unsigned* threshold) { return *threshold = 87, ok; }
int nvmlDeviceGetTemperature(void* device, int, unsigned* temperature) {
  return *temperature = fault("throttle", index_of(device)) ? 90 : 34, ok;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* power) { return *power = 71'500, ok; }
int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* mask) {
  const Fault* const throttled = fault("throttle", index_of(device));
  return *mask = throttled ? static_cast<unsigned long long>(throttled->number("mask", 0x40)) : 1, ok;
}

int nvmlDeviceGetEccMode(void*, unsigned* now, unsigned* pending) { return *now = *pending = 1, ok; }
int nvmlDeviceGetTotalEccErrors(void* device, int kind, int, unsigned long long* count) {
  const Fault* const errors = fault("ecc", index_of(device));
  *count = errors ? static_cast<unsigned long long>(errors->number(kind == 0 ? "corrected" : "uncorrected", 0)) : 0;
  return ok;
}
int nvmlDeviceGetRetiredPages(void*, int, unsigned*, void*) { return unsupported; }
int nvmlDeviceGetRetiredPagesPendingStatus(void*, unsigned*) { return unsupported; }
int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  const Fault* const rows = fault("remapped", index_of(device));
  *corrected = 0;
  *uncorrected = rows ? static_cast<unsigned>(rows->number("rows", 1)) : 0;
  *pending = rows ? static_cast<unsigned>(rows->number("pending", 0)) : 0;
  *failed = rows ? static_cast<unsigned>(rows->number("failed", 0)) : 0;
  return ok;
}

int nvmlEventSetCreate(void** set) { return *set = device_at(0), ok; }
int nvmlDeviceRegisterEvents(void*, unsigned long long, void*) { return ok; }

// Returns one Xid; later calls wait until the timeout.
int nvmlEventSetWait_v2(void*, EventData* event, unsigned timeout_ms) {
  static bool told = false;
  if (!told)
    for (const Fault& one : faults())
      if (one.kind == "xid") {
        told = true;
        event->device = static_cast<p5::nvml::Device>(device_at(static_cast<unsigned>(one.number("gpu", 0))));
        event->type = 8;
        event->data = static_cast<unsigned long long>(one.number("code", 79));
        return ok;
      }
  ::usleep(timeout_ms * 1000);
  return p5::nvml::timed_out;
}

}  // extern "C"
