// Shared memory of one communicator: a pipe for each ordered pair of ranks, a doorbell for each rank. It has no locks,
// so a process that dies holds none.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace p5::fake_nccl {

// Bytes from one rank to another, with one writer and one reader.
class Pipe {
 public:
  // Both transfer the bytes that fit now and return their number.
  std::uint64_t write(const void* data, std::uint64_t bytes);
  std::uint64_t read(void* data, std::uint64_t bytes);

 private:
  static constexpr std::uint64_t capacity = 256 << 10;
  alignas(64) std::atomic<std::uint64_t> written_;
  alignas(64) std::atomic<std::uint64_t> read_;
  alignas(64) unsigned char bytes_[capacity];
};

// A rank's message to the others at a split. Two alternate, since no rank can be two splits ahead.
struct Vote {
  int color = 0;
  int key = 0;
};

struct Member {
  alignas(64) std::atomic<std::uint32_t> doorbell;
  std::atomic<std::uint32_t> joined;
  // Set before joining. node, host and address are hashes of the node's name, the host's name, and the address that its
  // NCCL would listen on; then the device's PCI bus.
  std::atomic<std::uint64_t> node, host, address;
  std::atomic<int> bus;
  std::atomic<std::uint64_t> votes_cast;
  Vote votes[2];
};

struct Header {
  alignas(64) std::atomic<int> ranks;
  std::atomic<int> joined;
  std::atomic<int> broken;  // one plus the rank whose connection is lost
};

class Segment {
 public:
  // Throws std::runtime_error, also if other processes have another number of ranks.
  Segment(const std::string& name, int ranks);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Header& header() { return *static_cast<Header*>(memory_); }
  Member& member(int rank);
  Pipe& pipe(int from, int to);
  int ranks() const { return ranks_; }
  const std::string& name() const { return name_; }

  // Removes the name; processes that have mapped the segment keep it.
  void unlink();
  void ring(int rank);
  void ring_all();
  // Sleeps unless the doorbell rang after `seen` was read.
  void wait(int rank, std::uint32_t seen);

 private:
  std::string name_, path_;
  int ranks_;
  std::uint64_t bytes_;
  void* memory_;
};

// A new unique name. Also removes names left by processes that have ended.
std::string new_segment_name();

}  // namespace p5::fake_nccl
