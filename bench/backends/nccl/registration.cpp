#include "bench/backends/nccl/registration.hpp"

#include <fmt/format.h>

#include <utility>

#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/library.hpp"
#include "bench/base/error.hpp"

namespace p5::nccl {

namespace {

constexpr int symmetric_window = 1;  // NCCL_WIN_COLL_SYMMETRIC, which headers before 2.27 lack

}  // namespace

Registration::Registration(const std::string& kind, ncclComm_t communicator, std::byte* memory, std::uint64_t bytes)
    : communicator_(communicator), window_(kind == "symmetric") {
  if (kind == "none") return;
  const OptionalCalls& calls = optional_calls();
  if (window_ ? !calls.window_register || !calls.window_deregister : !calls.comm_register || !calls.comm_deregister)
    throw CaseError(fmt::format("{} registration of buffers needs NCCL {}; this is {}", kind, window_ ? "2.27" : "2.19",
                                library_version()));
  check(window_ ? calls.window_register(communicator, memory, bytes, &handle_, symmetric_window)
                : calls.comm_register(communicator, memory, bytes, &handle_),
        window_ ? "ncclCommWindowRegister" : "ncclCommRegister");
}

Registration::~Registration() {
  if (!handle_) return;
  if (window_)
    optional_calls().window_deregister(communicator_, handle_);
  else
    optional_calls().comm_deregister(communicator_, handle_);
}

Registration::Registration(Registration&& other) noexcept
    : communicator_(other.communicator_), handle_(std::exchange(other.handle_, nullptr)), window_(other.window_) {}

Registration& Registration::operator=(Registration&& other) noexcept {
  std::swap(communicator_, other.communicator_);
  std::swap(handle_, other.handle_);
  std::swap(window_, other.window_);
  return *this;
}

}  // namespace p5::nccl
