// The simulated host behind the fake NVML: GPUs like those of the fake CUDA runtime, and their faults.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace p5::fake_nvml {

// One entry of P5BENCH_FAKE_NVML: "link-down:gpu=3:count=4".
struct Fault {
  std::string kind;
  std::map<std::string, std::string> values;
  long number(const std::string& key, long otherwise) const;
};

const std::vector<Fault>& faults();
int gpus();
// PCI bus from P5BENCH_FAKE_BUSES, hexadecimal numbers separated by commas; else 0x10, 0x20, and so on.
unsigned bus_of(int gpu);

// The fault of this kind on this GPU, or null. A fault without a GPU applies to all, one without
// a host on all hosts.
const Fault* fault(const std::string& kind, int gpu);

// Blocks forever if a fault requests it for this function on this GPU (-1: no GPU).
void maybe_block(const char* function, int gpu);

// Takes the time that a fault requests for this GPU's start; GPUs start one after the other.
void start_gpu(int gpu);

}  // namespace p5::fake_nvml
