// Preloaded by morning_test.py: reports an unlimited RLIMIT_MEMLOCK as on EC2, which a container for tests may lack. On
// host P5BENCH_LOCKED_HOST it reports the kernel's default, and takes CAP_IPC_LOCK away, which root has.
#include <dlfcn.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>

namespace {

bool is_locked_host() {
  const char* const locked = std::getenv("P5BENCH_LOCKED_HOST");
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return locked && std::string_view(locked) == name.data();
}

[[gnu::constructor]] void drop_capability() {
  if (!is_locked_host()) return;
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> sets{};
  if (syscall(SYS_capget, &header, sets.data()) != 0) return;
  sets[0].effective &= ~(1u << CAP_IPC_LOCK);
  syscall(SYS_capset, &header, sets.data());
}

}  // namespace

extern "C" int getrlimit(__rlimit_resource_t resource, rlimit* limit) noexcept {
  static const auto ask = reinterpret_cast<decltype(&getrlimit)>(dlsym(RTLD_NEXT, "getrlimit"));
  const int result = ask(resource, limit);
  if (resource != RLIMIT_MEMLOCK || result != 0) return result;
  constexpr rlim_t usual = 8 << 20;
  limit->rlim_cur = limit->rlim_max = is_locked_host() ? usual : RLIM_INFINITY;
  return 0;
}
