// CaseMonitor GPUs and NICs while others measure: a line of JSON a second on standard output, until standard input
// closes.
//   {"gpus": [{"uuid", "state": GpuState, "corrected", "uncorrected", "replays"}], "nics": {NAME: {COUNTER: value}},
//    "xids": [{"uuid", "code"}]}, the last line may be shorter.
#pragma once

namespace p5::nvml {

// Works without NVML too: then it reports NICs only. Returns the exit status.
int watch();

}  // namespace p5::nvml
