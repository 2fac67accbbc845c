// p5bench-probe-libfabric: what libfabric offers on this host, as one line of JSON (topo::Libfabric). A program of its
// own: providers load drivers' libraries and may block or crash. libfabric is loaded at run time, from where the loader
// finds it or where the EFA installer puts it.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "topo/libfabric/abi.hpp"
#include "topo/topology.hpp"

namespace {

using namespace p5;

void* load() {
  std::string problem;
  for (const char* name :
       {"libfabric.so.1", "/opt/amazon/efa/lib64/libfabric.so.1", "/opt/amazon/efa/lib/libfabric.so.1"}) {
    if (void* const library = dlopen(name, RTLD_NOW)) return library;
    if (problem.empty()) problem = dlerror();
  }
  throw std::runtime_error(problem);
}

template <class Function>
Function find(void* library, const char* name) {
  void* const symbol = dlsym(library, name);
  if (!symbol) throw std::runtime_error(fmt::format("libfabric has no {}", name));
  return reinterpret_cast<Function>(symbol);
}

std::string text(const char* words) { return words ? words : ""; }

// "efa" of "efa;ofi_rxd": what is layered on a provider is no other device.
std::string base(const std::string& name, char separator) { return name.substr(0, name.find(separator)); }

topo::Libfabric::Domain describe(const ofi::Info& info) {
  topo::Libfabric::Domain told;
  told.name = text(info.domain ? info.domain->name : nullptr);
  told.provider = base(text(info.fabric ? info.fabric->provider : nullptr), ';');
  told.fabric = text(info.fabric ? info.fabric->name : nullptr);
  if (!info.nic) return told;
  if (info.nic->device) told.nic = text(info.nic->device->name);
  constexpr int pci = 1;
  if (const ofi::BusAttributes* bus = info.nic->bus; bus && bus->type == pci)
    told.pci = fmt::format("{:04x}:{:02x}:{:02x}.{}", bus->domain, bus->bus, bus->device, bus->function);
  if (const ofi::LinkAttributes* link = info.nic->link) {
    if (link->speed > 0) told.rate = GBps{static_cast<double>(link->speed) / 8e9};
    told.state = link->state == 2 ? "up" : link->state == 1 ? "down" : "";
  }
  return told;
}

// A device is listed once for each kind of endpoint and, with EFA, once more for its direct path.
void keep_devices(topo::Libfabric& told) {
  const auto is_efa = [](const topo::Libfabric::Domain& domain) { return domain.provider == "efa"; };
  const bool efa = std::ranges::any_of(told.domains, is_efa);
  std::vector<std::string> seen;
  std::erase_if(told.domains, [&](const topo::Libfabric::Domain& domain) {
    if (efa ? !is_efa(domain) : domain.nic.empty()) return true;
    const std::string device = domain.nic.empty() ? base(domain.name, '-') : domain.nic;
    if (std::ranges::find(seen, device) != seen.end()) return true;
    seen.push_back(device);
    return false;
  });
}

topo::Libfabric ask() {
  void* const library = load();
  topo::Libfabric told;
  const std::uint32_t version = find<ofi::Version>(library, "fi_version")();
  told.version = fmt::format("{}.{}", version >> 16, version & 0xffff);
  const auto get_info = find<ofi::GetInfo>(library, "fi_getinfo");
  Dl_info place{};
  if (dladdr(reinterpret_cast<void*>(get_info), &place) != 0) told.path = text(place.dli_fname);
  ofi::Info* found = nullptr;
  if (const int result = get_info(version, nullptr, nullptr, 0, nullptr, &found); result != 0)
    throw std::runtime_error(fmt::format("fi_getinfo found nothing (error {})", -result));
  for (const ofi::Info* info = found; info; info = info->next) {
    told.domains.push_back(describe(*info));
    const std::string& provider = told.domains.back().provider;
    if (std::ranges::find(told.providers, provider) == told.providers.end()) told.providers.push_back(provider);
  }
  keep_devices(told);
  return told;
}

// EFA's provider would start CUDA, on the first GPU and for seconds, to see whether it can register its memory.
void keep_gpus_asleep() {
  setenv("FI_HMEM", "system", 1);
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  // PSM, which libfabric loads, would leave a file in the working folder where a provider aborts.
  setenv("IPATH_NO_BACKTRACE", "1", 1);
}

}  // namespace

int main() {
  keep_gpus_asleep();
  topo::Libfabric told;
  try {
    told = ask();
  } catch (const std::exception& problem) {
    told.problem = problem.what();
  }
  constexpr auto replace = nlohmann::json::error_handler_t::replace;
  std::printf("%s\n", to_json(told).dump(-1, ' ', true, replace).c_str());
  std::fflush(stdout);
  _exit(0);  // providers' destructors are not needed
}
