// Transport between the stand-in's endpoints: files in a folder that all hosts share, mapped by all. Each endpoint has
// a mailbox of cells; NICs and hosts have clocks with the time until which they are busy.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace standin {

// Address as in EFA: GID, queue pair number, queue key.
struct Address {
  std::array<std::uint8_t, 16> gid{};  // fe80::, zone, host (4 bytes), device
  std::uint16_t qpn = 0, pad = 0;
  std::uint32_t qkey = 0;
  std::uint64_t pointer = 0;
  bool operator==(const Address&) const = default;
};
static_assert(sizeof(Address) == 32);

inline constexpr std::size_t cell_bytes = 64u << 10;

enum class Kind : std::uint32_t { whole, request, grant, data, done, write, refused };

struct Header {
  Kind kind{};
  std::uint32_t bytes = 0;           // data in this cell
  std::uint64_t tag = 0, total = 0;  // the message's tag and length in bytes
  std::uint64_t offset = 0;
  std::uint64_t sender = 0, receiver = 0;  // message numbers of the two sides; of a write, receiver is its address
  std::uint64_t key = 0;                   // target region of a write
  Address from{};
};

struct Cell {
  std::atomic<std::uint64_t> turn;
  Header header;
  std::array<std::byte, cell_bytes> data;
};

// A multi-producer, single-consumer queue: a cell is the writer's if its turn equals the position, the reader's one
// later.
struct Mailbox {
  static constexpr std::size_t cells = 32;
  std::atomic<std::uint32_t> made, listening;  // listening: the completion queue has been read
  std::atomic<std::uint64_t> next_write;
  std::uint64_t next_read;
  std::array<Cell, cells> all;

  bool has_room() const;
  // False if the mailbox is full.
  bool put(const Header& header, const void* data);
  const Cell* front() const;  // null: empty
  void pop();
};

// Time until which a resource is busy, in ns of the steady clock.
struct Busy {
  std::atomic<std::int64_t> until;
};

enum Counter {
  tx_bytes,
  rx_bytes,
  send_bytes,
  recv_bytes,
  rdma_read_bytes,
  rdma_read_resp_bytes,
  rdma_write_bytes,
  rdma_write_recv_bytes,
  counters
};

struct NicState {
  Busy sends, receives;
  std::atomic<std::uint32_t> queue_pairs;
  std::array<std::atomic<std::uint64_t>, counters> counted;
  std::atomic<std::uint64_t> most_under_way;            // most messages longer than a cell in flight at once
  std::array<std::atomic<std::uint64_t>, 16> from_gpu;  // bytes sent from the memory of each GPU
};

struct HostState {
  Busy memory;
};

// Maps FOLDER/NAME, created with zeros if absent; never unmapped. Throws std::runtime_error.
void* map_file(const std::string& folder, const std::string& name, std::size_t bytes);
template <class State>
State* shared(const std::string& folder, const std::string& name) {
  return static_cast<State*>(map_file(folder, name, sizeof(State)));
}

std::string hexadecimal(const void* bytes, std::size_t count);
std::int64_t now_ns();

}  // namespace standin
