// A symmetric window as kernels use it: the memory of all ranks, mapped at equal distances, and what NCCL's device
// functions read of it.
#pragma once

#include <nccl.h>
#include <sys/types.h>

#include <cstdint>
#include <vector>

#if NCCL_VERSION_CODE >= 22800 && __has_include(<nccl_device.h>)
#include <nccl_device.h>
#define P5BENCH_FAKE_DEVICE_API
#endif

namespace p5::fake_nccl {

// Where a rank's memory is: a file that its process has open.
struct WindowPart {
  pid_t process = 0;
  int file = -1;
  std::uint64_t offset = 0;
};

class Window {
 public:
  Window(const std::vector<WindowPart>& parts, std::uint64_t bytes, int rank);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // Null if a part cannot be mapped, or NCCL's header has no device API.
  void* handle() { return handle_; }

 private:
  void* space_ = nullptr;
  std::uint64_t length_ = 0;
  void* handle_ = nullptr;
#ifdef P5BENCH_FAKE_DEVICE_API
  ncclWindow_vidmem read_by_devices_{};
#endif
};

}  // namespace p5::fake_nccl
