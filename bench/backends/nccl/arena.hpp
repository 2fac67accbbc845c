// The device memory that all cases of a worker use, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace p5::nccl {

class Arena {
 public:
  // At least so many bytes. What was there before is freed first: nothing may use it any more.
  std::byte* reserve(std::uint64_t bytes);

 private:
  std::unique_ptr<std::byte, void (*)(std::byte*)> memory_{nullptr, nullptr};
  std::uint64_t size_ = 0;
};

}  // namespace p5::nccl
