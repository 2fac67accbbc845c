// An endpoint of the stand-in: tagged messages, which progress only while the completion queue is read.
#pragma once

#include <rdma/fi_eq.h>

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/ofi/standin/machines.hpp"
#include "tests/ofi/standin/wire.hpp"

namespace standin {

struct Done {
  void* context = nullptr;
  std::uint64_t flags = 0, data = 0;
};

// Entries of a completion queue; errors have a queue of their own.
struct Completions {
  std::deque<Done> done;
  std::deque<fi_cq_err_entry> errors;
  std::string last_error;  // target of err_data of the latest error
};

class Endpoint {
 public:
  // `device_rdma`: the receiver's device reads messages from 1 MiB on.
  Endpoint(const Device& device, int number, bool device_rdma);

  const Address& address() const { return address_; }
  void bind(Completions* completions) { completions_ = completions; }
  // Calls return 0 or a negative error, as fi_tsend and fi_trecv do. `gpu`: number of the GPU that holds the data,
  // negative for the host; pointers are host addresses of the simulated memory.
  long send(const Address& to, const void* data, std::size_t bytes, std::uint64_t tag, int gpu, void* context);
  // RMA write as by fi_writedata: `said` is the immediate data in the receiver's completion.
  long write(const Address& to, const void* data, std::size_t bytes, std::uint64_t address, std::uint64_t key,
             std::uint64_t said, int gpu, void* context);
  long receive(void* data, std::size_t bytes, std::uint64_t tag, std::uint64_t ignore, void* context);
  void progress();

 private:
  struct Peer {
    Mailbox* mailbox = nullptr;
    NicState* nic = nullptr;
    HostState* host = nullptr;
    bool same_host = false;
  };
  struct Sending {
    Address to;
    Peer* peer = nullptr;
    const std::byte* data = nullptr;
    std::size_t bytes = 0, moved = 0;
    std::uint64_t tag = 0, number = 0, receiver = 0;
    std::uint64_t key = 0, address = 0;  // target of a write
    bool writes = false;
    int gpu = -1;
    void* context = nullptr;
    enum { queued, requested, granted, waits } state = queued;
    std::int64_t since = 0;      // last progress
    std::int64_t ready = 0;      // when a NIC could begin with it: posted, or granted by the receiver
    std::int64_t waited_at = 0;  // when another part last kept it waiting; 0: not since its last part
    std::int64_t due = 0;        // when the part that is next has passed; 0: it has not begun
    std::vector<std::byte> lie;  // corrupted data that is sent instead
  };
  struct Receiving {
    std::byte* data = nullptr;
    std::size_t bytes = 0, arrived = 0, total = 0;
    std::uint64_t tag = 0, ignore = 0;
    void* context = nullptr;
  };
  struct Unexpected {
    Header header;
    std::vector<std::byte> data;
  };

  Peer& peer_of(const Address& address);
  void take_in();
  void take(const Header& header, const std::byte* data);
  void match(const Header& header, const std::byte* data, const Receiving& receiving);
  void say(const Address& to, const Header& header);
  void push_out();
  bool push(Sending& sending);  // true: complete, no further call needed
  // True if a device of either side moves the data, false if processors copy it.
  bool by_device(const Sending& sending) const;
  bool passes(Sending& sending, std::size_t bytes);
  double share_of_path(int gpu) const;
  Sending& begin(const Address& to, Peer& peer, const void* data, std::size_t bytes, int gpu, void* context);
  void take_write(const Header& header, const std::byte* data);
  void count(Counter counter, std::uint64_t bytes);
  void fail(const Sending& sending, int error, int code, const std::string& why);
  bool reads(std::size_t bytes) const;

  const Device& device_;
  int number_ = 0;
  bool device_rdma_ = false, silent_ = false, lies_ = false;
  double rate_ = 0, memory_rate_ = 0;  // bytes/ns; 0: unlimited
  Address address_;
  Mailbox* mailbox_ = nullptr;
  NicState* nic_ = nullptr;
  HostState* host_ = nullptr;
  Completions* completions_ = nullptr;
  std::map<std::string, std::unique_ptr<Peer>> peers_;
  std::list<Sending> sending_;
  std::list<Receiving> posted_;
  std::map<std::uint64_t, Receiving> arriving_;  // by the number that their senders received
  std::deque<Unexpected> unexpected_;
  std::deque<std::pair<Address, Header>> words_;  // grants and ends that await room in the mailbox
  std::uint64_t numbers_ = 0;
};

}  // namespace standin
