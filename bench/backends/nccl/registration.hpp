// A case's buffers made known to NCCL beforehand, so that it moves data without copies of its own where it can.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace p5::nccl {

class Registration {
 public:
  Registration() = default;
  // kind: "none", "local" (ncclCommRegister, NCCL 2.19) or "symmetric" (ncclCommWindowRegister, NCCL 2.27; all members
  // of the communicator at the same time, with buffers laid out alike). Throws CaseError where the library lacks it.
  Registration(const std::string& kind, ncclComm_t communicator, std::byte* memory, std::uint64_t bytes);
  ~Registration();
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;

  // Its communicator is no more, and the registration with it.
  void forget() { handle_ = nullptr; }

 private:
  ncclComm_t communicator_ = nullptr;
  void* handle_ = nullptr;
  bool window_ = false;
};

}  // namespace p5::nccl
