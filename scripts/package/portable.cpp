// What packages bring along so that programs built on a newer Debian run where glibc is 2.34 and nobody has libudev:
// their static libraries (libstdc++, hwloc) ask for these, and find them here. Compiled with hidden visibility, so that
// libraries of others do not.
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include <sys/random.h>

extern "C" {

// glibc 2.36; for std::random_device.
std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  while (getrandom(&number, sizeof number, 0) != sizeof number)
    if (errno != EINTR) std::abort();
  return number;
}

#ifdef __x86_64__
// glibc 2.35 has a new version of it, which differs in errno alone.
double hypot_of_all(double x, double y) noexcept;
__asm__(".symver hypot_of_all, hypot@GLIBC_2.2.5");
double hypot(double x, double y) noexcept { return hypot_of_all(x, y); }
#endif

// hwloc does without where there is none.
void* udev_new() { return nullptr; }
void* udev_unref(void*) { return nullptr; }
void* udev_device_new_from_subsystem_sysname(void*, const char*, const char*) { return nullptr; }
const char* udev_device_get_property_value(void*, const char*) { return nullptr; }
void* udev_device_unref(void*) { return nullptr; }
}
