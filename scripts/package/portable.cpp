// Functions for programs that are built on a newer Debian and run with glibc 2.34 and without libudev: the static
// libraries (libstdc++, hwloc) need them and find them here. Compiled with hidden visibility, so that other libraries
// do not.
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include <sys/random.h>

extern "C" {

// glibc 2.36; std::random_device calls it.
std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number)
    if (errno != EINTR) std::abort();
  return number;
}

// glibc 2.35 has a new version, which differs only in errno; before it is that of glibc's first release for the
// architecture.
double hypot_of_all(double x, double y) noexcept;
#if defined(__x86_64__)
__asm__(".symver hypot_of_all, hypot@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver hypot_of_all, hypot@GLIBC_2.17");
#else
#error "the first glibc of this architecture is not known"
#endif
double hypot(double x, double y) noexcept { return hypot_of_all(x, y); }

// hwloc works without libudev.
void* udev_new() { return nullptr; }
void* udev_unref(void*) { return nullptr; }
void* udev_device_new_from_subsystem_sysname(void*, const char*, const char*) { return nullptr; }
const char* udev_device_get_property_value(void*, const char*) { return nullptr; }
void* udev_device_unref(void*) { return nullptr; }
}
