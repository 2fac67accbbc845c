// Works that run beside a case's operation (--beside) on one device, each on a stream of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/backends/nccl/buffers.hpp"
#include "bench/backends/nccl/engine.hpp"
#include "bench/backends/nccl/handles.hpp"
#include "bench/model/backend.hpp"
#include "bench/model/case.hpp"
#include "bench/model/work.hpp"

namespace p5::nccl {

// Layouts of the buffers of a case, and of each collective beside it, in their order: all have about as many slots. The
// memory that other works take is left free.
std::vector<Layout> layouts_with_works(const Case& c, std::uint64_t usable_memory);

// One of works_of(). Failures name it.
class WorkBeside {
 public:
  virtual ~WorkBeside() = default;

  const std::string& name() const { return name_; }
  cudaStream_t stream() const { return stream_; }
  virtual bool takes_part() const { return true; }
  // Prepares this number of operations; with `poison` it also poisons their outputs, in the engine's stream.
  void prepare(int operations, bool poison);
  // Queues one operation on stream().
  void operate();
  // After a sample has ended: checks what the next sample overwrites, where that takes little time. The first wrong
  // result is kept for verify().
  void check_sample();
  // Drops the handles that belong to a communicator after it was aborted.
  virtual void forget() {}
  // Waits for the operations of the last prepare(), and checks their outputs unless an earlier check failed.
  Verification verify();

 protected:
  // `stream`: null: one of its own.
  WorkBeside(std::string name, cudaStream_t stream)
      : name_(std::move(name)),
        own_stream_(stream ? Stream() : make_stream()),
        stream_(stream ? stream : own_stream_.get()) {}

 private:
  virtual void do_prepare(int operations, bool poison) = 0;
  virtual void do_operate() = 0;
  virtual void do_check_sample() {}
  virtual Verification do_verify() = 0;

  std::string name_;
  Stream own_stream_;
  cudaStream_t stream_;
};

// Runs an action and puts the work's name in front of its errors.
void with_name(std::string_view work, const std::function<void()>& action);

// The last four arguments are used by collectives only. `communicator`: that of this rank's group. `memory`: as large
// as `layout` needs. `stream`: null if the work needs a stream of its own.
std::unique_ptr<WorkBeside> make_work_beside(const Work& work, Engine& engine, ncclComm_t communicator,
                                             const Layout& layout, std::byte* memory, cudaStream_t stream);

// Why the work cannot run on this device, "" if it can.
std::string unavailable_beside(const Work& work);

}  // namespace p5::nccl
