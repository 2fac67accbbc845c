#include "bench/backends/nccl/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "bench/backends/nccl/handles.hpp"

namespace p5::nccl {

namespace {

template <class Call>
void look_up(Call& call, const char* name) {
  call = reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

const OptionalCalls& optional_calls() {
  static const OptionalCalls calls = [] {
    OptionalCalls found;
    look_up(found.get_last_error, "ncclGetLastError");
    look_up(found.mem_alloc, "ncclMemAlloc");
    look_up(found.mem_free, "ncclMemFree");
    look_up(found.comm_register, "ncclCommRegister");
    look_up(found.comm_deregister, "ncclCommDeregister");
    look_up(found.window_register, "ncclCommWindowRegister");
    look_up(found.window_deregister, "ncclCommWindowDeregister");
    return found;
  }();
  return calls;
}

std::string library_version() {
  int code = 0;
  check(ncclGetVersion(&code), "ncclGetVersion");
  return fmt::format("NCCL {}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

std::string library_path() {
  Dl_info info{};
  const bool found = dladdr(reinterpret_cast<const void*>(&ncclGetUniqueId), &info) != 0;
  return found && info.dli_fname ? info.dli_fname : "";
}

}  // namespace p5::nccl
