#include "tests/ofi/standin/wire.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <stdexcept>

namespace standin {

bool Mailbox::has_room() const {
  const std::uint64_t place = next_write.load();
  return all[place % cells].turn.load(std::memory_order_acquire) >= place / cells * 2;
}

bool Mailbox::put(const Header& header, const void* data) {
  std::uint64_t place = next_write.load();
  for (;;) {
    Cell& cell = all[place % cells];
    const std::uint64_t turn = cell.turn.load(std::memory_order_acquire);
    const std::uint64_t free = place / cells * 2;  // zero-initialized cells are free for the first round
    if (turn < free) return false;
    if (turn > free) {
      place = next_write.load();
      continue;
    }
    if (next_write.compare_exchange_weak(place, place + 1)) {
      cell.header = header;
      if (header.bytes > 0) std::memcpy(cell.data.data(), data, header.bytes);
      cell.turn.store(free + 1, std::memory_order_release);
      return true;
    }
  }
}

const Cell* Mailbox::front() const {
  const Cell& cell = all[next_read % cells];
  return cell.turn.load(std::memory_order_acquire) == next_read / cells * 2 + 1 ? &cell : nullptr;
}

void Mailbox::pop() {
  Cell& cell = all[next_read % cells];
  cell.turn.store(next_read / cells * 2 + 2, std::memory_order_release);
  ++next_read;
}

void* map_file(const std::string& folder, const std::string& name, std::size_t bytes) {
  static std::map<std::string, void*> known;
  const std::string path = folder + "/" + name;
  if (const auto found = known.find(path); found != known.end()) return found->second;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0)
    throw std::runtime_error(path + ": " + std::strerror(errno));
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (mapped == MAP_FAILED) throw std::runtime_error(path + ": " + std::strerror(errno));
  return known[path] = mapped;
}

std::string hexadecimal(const void* bytes, std::size_t count) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    const auto byte = static_cast<const std::uint8_t*>(bytes)[i];
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace standin
