// The worker program for NCCL.
#include "bench/backends/nccl/kernels.hpp"
#include "bench/backends/nccl/worker.hpp"

int main() {
  return p5::run_worker("p5bench-worker-nccl", [](p5::protocol::SharedPage& page) {
    p5::nccl::register_twins();
    return std::make_unique<p5::nccl::Worker>(page);
  });
}
