// Shared memory and futexes. A fresh segment is all zeros, a valid initial state for all its members.
#include "tests/fakes/nccl/segment.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <system_error>

namespace p5::fake_nccl {

namespace {

constexpr char name_start[] = "/p5bench-fake-";

// Folder of segments, which processes of a communicator share in place of a network. Hosts without other shared memory
// use a folder of their own for it.
std::string fabric() {
  const char* const folder = std::getenv("P5BENCH_FAKE_FABRIC");
  return folder && *folder ? folder : "/dev/shm";
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  return syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

void remove_leftovers() {
  const std::string start = std::string(name_start).substr(1);
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(fabric(), ignored)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with(start)) continue;
    const pid_t maker = static_cast<pid_t>(std::strtol(file.c_str() + start.size(), nullptr, 10));
    if (maker > 0 && kill(maker, 0) != 0 && errno == ESRCH) ::unlink(entry.path().c_str());
  }
}

}  // namespace

std::uint64_t Pipe::write(const void* data, std::uint64_t bytes) {
  const std::uint64_t written = written_.load(std::memory_order_relaxed);
  bytes = std::min(bytes, capacity - (written - read_.load(std::memory_order_acquire)));
  const std::uint64_t at = written % capacity, first = std::min(bytes, capacity - at);
  std::memcpy(bytes_ + at, data, first);
  std::memcpy(bytes_, static_cast<const unsigned char*>(data) + first, bytes - first);
  written_.store(written + bytes, std::memory_order_release);
  return bytes;
}

std::uint64_t Pipe::read(void* data, std::uint64_t bytes) {
  const std::uint64_t read = read_.load(std::memory_order_relaxed);
  bytes = std::min(bytes, written_.load(std::memory_order_acquire) - read);
  const std::uint64_t at = read % capacity, first = std::min(bytes, capacity - at);
  std::memcpy(data, bytes_ + at, first);
  std::memcpy(static_cast<unsigned char*>(data) + first, bytes_, bytes - first);
  read_.store(read + bytes, std::memory_order_release);
  return bytes;
}

Segment::Segment(const std::string& name, int ranks) : name_(name), path_(fabric() + name), ranks_(ranks) {
  const auto count = static_cast<std::uint64_t>(ranks);
  bytes_ = sizeof(Header) + count * sizeof(Member) + count * count * sizeof(Pipe);
  const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) throw std::system_error(errno, std::generic_category(), "shared memory " + path_);
  // Another number of ranks would change the segment's size, and it must never shrink while mapped.
  const bool sized =
      lseek(file, 0, SEEK_END) >= static_cast<off_t>(bytes_) || ftruncate(file, static_cast<off_t>(bytes_)) == 0;
  memory_ = sized ? mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int error = errno;
  close(file);
  if (memory_ == MAP_FAILED) throw std::system_error(error, std::generic_category(), "shared memory " + path_);
  int others = 0;
  if (!header().ranks.compare_exchange_strong(others, ranks) && others != ranks) {
    munmap(memory_, bytes_);
    throw std::runtime_error("ranks disagree on their number: " + std::to_string(ranks) + " and " +
                             std::to_string(others));
  }
}

Segment::~Segment() { munmap(memory_, bytes_); }

Member& Segment::member(int rank) { return reinterpret_cast<Member*>(static_cast<Header*>(memory_) + 1)[rank]; }

Pipe& Segment::pipe(int from, int to) { return reinterpret_cast<Pipe*>(&member(ranks_))[from * ranks_ + to]; }

void Segment::unlink() { ::unlink(path_.c_str()); }

void Segment::ring(int rank) {
  member(rank).doorbell.fetch_add(1);
  futex(member(rank).doorbell, FUTEX_WAKE, INT_MAX);
}

void Segment::ring_all() {
  for (int rank = 0; rank < ranks_; ++rank) ring(rank);
}

void Segment::wait(int rank, std::uint32_t seen) { futex(member(rank).doorbell, FUTEX_WAIT, seen); }

std::string new_segment_name() {
  remove_leftovers();
  std::random_device random;
  return name_start + std::to_string(getpid()) + "-" + std::to_string(random()) + std::to_string(random());
}

}  // namespace p5::fake_nccl
