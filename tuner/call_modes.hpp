// Call modes: ways of calling NCCL that need changes in the application. The tuning measures what they save; the report
// explains how a job gets them.
#pragma once

#include <array>
#include <string_view>

namespace p5::tuner {

struct CallMode {
  std::string_view name;
  bool cuda_graph = false;  // this and the next as in a case
  std::string_view registration = "none";
  int since = 0;         // first NCCL version, as ncclGetVersion counts
  std::string_view how;  // instructions for a job, first with PyTorch
};

// Sources: NCCL's user guide on buffer registration and on CUDA graphs; PyTorch's pull requests 112850 (the hook) and
// 150564 (FSDP2 and memory pools of the process group). PyTorch's ways have never been tried with p5bench itself.
inline constexpr std::array call_modes{
    CallMode{"registered buffers", false, "local", 21900,
             "PyTorch: TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK=1 registers what its allocator hands out; or a "
             "torch.cuda.MemPool of the process group's mem_allocator, registered with register_mem_pool(). C: "
             "ncclMemAlloc() and ncclCommRegister(). All ranks have to do it, or none"},
    CallMode{"symmetric windows", false, "symmetric", 22700,
             "C: ncclMemAlloc() and ncclCommWindowRegister() with NCCL_WIN_COLL_SYMMETRIC, by all ranks at the same "
             "offsets. PyTorch: a memory pool registered as symmetric, where the version offers that"},
    CallMode{"CUDA graph", true, "none", 0,
             "PyTorch: capture the step with torch.cuda.graph(), collectives included. C: stream capture around the "
             "calls. It saves what the host needs to launch, and NCCL registers the buffers that it finds in a graph "
             "(NCCL_GRAPH_REGISTER), which is what large messages gain from"},
};

}  // namespace p5::tuner
