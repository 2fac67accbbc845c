// The step of a recorded job on one device: the operations of its groups in their order, and what is in their gaps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/backends/nccl/beside.hpp"
#include "bench/backends/nccl/engine.hpp"
#include "bench/backends/nccl/handles.hpp"
#include "bench/base/units.hpp"
#include "bench/model/job.hpp"

namespace p5::nccl {

class StepOnDevice {
 public:
  // `operations`: those of Replay::works, on the engine's stream. Throws CaseError.
  StepOnDevice(const Replay& replay, Engine& engine, const std::vector<std::unique_ptr<WorkBeside>>& operations);

  // Why the products in the gaps cannot run on this device, "" if they can.
  static std::string unavailable(const Replay& replay);

  // Steps that may be queued back to back.
  int most_steps() const;
  // Before steps are queued; with `poison` it also poisons what they write.
  void prepare(int steps, bool poison);
  // After the first step: performs steps until clocks have settled, then times a product again. Only the first call
  // does so, since all settings are measured with the same work. All ranks perform as many steps.
  void settle();
  // Queues one step. Each rank queues the operations of its groups, in an order that all ranks keep. Products have a
  // stream of their own, which waits for the operation before a gap unless the job computed beside that.
  void queue();
  // Null: the device waits in the gaps.
  WorkBeside* products() { return products_.get(); }

 private:
  void compute(Seconds time);
  void let_wait(cudaStream_t waiting, cudaStream_t other);
  Seconds time_of_product();

  const Replay& replay_;
  Engine& engine_;
  const std::vector<std::unique_ptr<WorkBeside>>& operations_;
  std::vector<int> uses_;  // of each operation in a step
  std::unique_ptr<WorkBeside> products_;
  Seconds product_{0};     // time of one of them alone
  bool computes_ = false;  // a gap was long enough for a product
  bool settled_ = false;
  Event start_, stop_, done_;
};

}  // namespace p5::nccl
