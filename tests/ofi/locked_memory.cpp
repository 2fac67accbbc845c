// Preloaded by morning_test.py: reports an unlimited RLIMIT_MEMLOCK as on EC2, which a container for tests may lack. On
// host P5BENCH_LOCKED_HOST it reports the kernel's default.
#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>

extern "C" int getrlimit(__rlimit_resource_t resource, rlimit* limit) noexcept {
  static const auto ask = reinterpret_cast<decltype(&getrlimit)>(dlsym(RTLD_NEXT, "getrlimit"));
  const int result = ask(resource, limit);
  if (resource != RLIMIT_MEMLOCK || result != 0) return result;
  const char* const locked = std::getenv("P5BENCH_LOCKED_HOST");
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  constexpr rlim_t usual = 8 << 20;
  limit->rlim_cur = limit->rlim_max = locked && std::string_view(locked) == name.data() ? usual : RLIM_INFINITY;
  return 0;
}
