// Merges the NVML probe's report with the GPUs on PCI.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/base/error.hpp"
#include "topo/discover.hpp"
#include "topo/system_files.hpp"

namespace p5::topo {

NvmlAnswer ask_nvml(const std::string& program, Seconds limit) {
  // The program enforces the limit itself and then prints its partial results; only an overloaded machine delays it.
  constexpr double to_tell = 1;
  const ProbeAnswer answer = ask_probe({program, fmt::format("{}", limit.count)}, {limit.count + to_tell});
  NvmlAnswer told;
  told.problem = answer.problem;
  told.asked = answer.started;
  if (answer.json.empty()) return told;
  try {
    const nlohmann::json j = nlohmann::json::parse(answer.json);
    j.at("driver").get_to(told.driver);
    j.at("cuda").get_to(told.cuda);
    j.at("problem").get_to(told.problem);
    j.at("answered").get_to(told.answered);
    told.asked = j.value("asked", true);
    for (const nlohmann::json& gpu : j.at("gpus")) told.gpus.push_back(gpu_from_json(gpu));
  } catch (const nlohmann::json::exception& problem) {
    told.problem = fmt::format("the probe's answer is not understood: {}", problem.what());
  } catch (const UsageError& problem) {
    told.problem = fmt::format("the probe's answer is not understood: {}", problem.what());
  }
  return told;
}

void merge_gpus(Host& host, NvmlAnswer told, std::vector<Gpu> on_pci) {
  host.gpu_driver = told.driver;
  // A missing driver is no problem on a host that shows no sign of a GPU.
  const bool expected = !told.answered || !on_pci.empty() || !told.gpus.empty() || has_driver("/dev/nvidiactl");
  host.gpu_problem = expected ? told.problem : "";
  if (!told.driver.empty()) host.versions["nvidia driver"] = told.driver;
  if (!told.cuda.empty()) host.versions["cuda driver"] = told.cuda;
  host.gpu_devices = std::move(told.gpus);
  for (Gpu& gpu : host.gpu_devices) {
    const auto at =
        std::ranges::find_if(on_pci, [&](const Gpu& other) { return other.pci.address == gpu.pci.address; });
    if (at == on_pci.end()) continue;
    gpu.pci = at->pci;
    gpu.numa_node = at->numa_node;
    if (!gpu.pcie.generation && !gpu.pcie.width) gpu.pcie = at->pcie;
    on_pci.erase(at);
  }
  std::ranges::move(on_pci, std::back_inserter(host.gpu_devices));
}

}  // namespace p5::topo
