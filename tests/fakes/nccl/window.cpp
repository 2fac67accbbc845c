#include "tests/fakes/nccl/window.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace p5::fake_nccl {

namespace {

// Only NCCL's device API (2.28) has windows.
[[maybe_unused]] bool map_part(const WindowPart& part, char* at, std::uint64_t bytes) {
  const std::string path = "/proc/" + std::to_string(part.process) + "/fd/" + std::to_string(part.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  void* const mapped =
      mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(part.offset));
  close(file);
  return mapped != MAP_FAILED;
}

}  // namespace

Window::Window([[maybe_unused]] const std::vector<WindowPart>& parts, [[maybe_unused]] std::uint64_t bytes,
               [[maybe_unused]] int rank) {
#ifdef P5BENCH_FAKE_DEVICE_API
  constexpr std::uint64_t unit = std::uint64_t{1} << 32;  // of NCCL's distances
  const std::uint64_t distance = (bytes + unit - 1) / unit * unit;
  length_ = distance * parts.size();
  space_ = mmap(nullptr, length_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space_ == MAP_FAILED) return;
  char* const base = static_cast<char*>(space_);
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (!map_part(parts[i], base + i * distance, bytes)) return;
  read_by_devices_.lsaFlatBase = base;
  read_by_devices_.lsaRank = read_by_devices_.worldRank = rank;
  read_by_devices_.stride4G = static_cast<std::uint32_t>(distance / unit);
  handle_ = &read_by_devices_;
#endif
}

Window::~Window() {
  if (space_ != nullptr && space_ != MAP_FAILED) munmap(space_, length_);
}

}  // namespace p5::fake_nccl
