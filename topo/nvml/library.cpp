#include "topo/nvml/library.hpp"

#include <fmt/format.h>

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

}  // namespace p5::nvml
