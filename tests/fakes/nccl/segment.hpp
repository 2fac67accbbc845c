// The shared memory of one communicator: a pipe for each ordered pair of ranks, a doorbell for each rank. There are no
// locks in it, so that a process that dies holds nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace p5::fake_nccl {

// Bytes from one rank to another, with one writer and one reader.
class Pipe {
 public:
  // Both move what fits now and return how much that was.
  std::uint64_t write(const void* data, std::uint64_t bytes);
  std::uint64_t read(void* data, std::uint64_t bytes);

 private:
  static constexpr std::uint64_t capacity = 64 << 10;
  alignas(64) std::atomic<std::uint64_t> written_;
  alignas(64) std::atomic<std::uint64_t> read_;
  alignas(64) unsigned char bytes_[capacity];
};

// What a rank tells the others when a communicator is split. Two in turn: nobody can be two splits ahead.
struct Vote {
  int color = 0;
  int key = 0;
};

struct Member {
  alignas(64) std::atomic<std::uint32_t> doorbell;
  std::atomic<std::uint32_t> joined;
  // Set before joined. Hashes: of the node's name, and of the host's and of the address that its NCCL would listen at;
  // the device's PCI bus.
  std::atomic<std::uint64_t> node, host, address;
  std::atomic<int> bus;
  std::atomic<std::uint64_t> votes_cast;
  Vote votes[2];
};

struct Header {
  alignas(64) std::atomic<int> ranks;
  std::atomic<int> joined;
  std::atomic<int> broken;  // the rank whose connection is gone, plus one
};

class Segment {
 public:
  // Throws std::runtime_error, also when others have another number of ranks.
  Segment(const std::string& name, int ranks);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  Header& header() { return *static_cast<Header*>(memory_); }
  Member& member(int rank);
  Pipe& pipe(int from, int to);
  int ranks() const { return ranks_; }
  const std::string& name() const { return name_; }

  // Takes the name away; whoever has the segment keeps it.
  void unlink();
  void ring(int rank);
  void ring_all();
  // Sleeps unless the doorbell has rung since `seen`.
  void wait(int rank, std::uint32_t seen);

 private:
  std::string name_, path_;
  int ranks_;
  std::uint64_t bytes_;
  void* memory_;
};

// A new name, unique where it is used. Names left over by processes that are gone are removed on this occasion.
std::string new_segment_name();

}  // namespace p5::fake_nccl
