// libfabric: one endpoint (reliable datagrams, tagged messages, RMA writes) on each NIC of a rank, connected to all
// ranks. Man pages fi_getinfo(3), fi_endpoint(3), fi_tagged(3), fi_rma(3), fi_mr(3), fi_cq(3), fi_av(3).
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "bench/backends/protocol.hpp"

namespace p5::ofi {

// Throws CaseError with the call and libfabric's error text if `result` is negative.
void check(std::int64_t result, std::string_view call);

struct Close {
  template <class Object>
  void operator()(Object* object) const {
    fi_close(&object->fid);
  }
};
template <class Object>
using Owned = std::unique_ptr<Object, Close>;

struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// NICs of a rank. Equal indices of ranks with equal local ranks are like NICs.
struct ChosenNics {
  std::vector<Info> infos = {};          // null: a NIC that this host lacks and others have
  std::vector<std::size_t> places = {};  // by index: place among all NICs of the host, from 0
  std::size_t count = 1;                 // places on the host
};

// The NICs of this rank at the best available provider (EFA, then verbs, then TCP; FI_PROVIDER overrides), or at the
// one that `local` names. The ranks of a host divide the places of its NICs, in the order that `local` has or in that
// of PCI addresses. A rank with no NIC at any of its places, as where there are more ranks than places, shares the one
// that is nearest. If a provider lists interfaces instead, each rank takes all those named in `local`, or by default
// the first that is not loopback. Throws CaseError if there is none, or, with `gpu_memory`, none that supports FI_HMEM.
ChosenNics choose_nics(const protocol::LocalRank& local, bool gpu_memory);
std::vector<std::string> pci_addresses(const ChosenNics& nics);  // "0000:4f:00.0"; none of providers without NICs
std::string name_of_library(const fi_info& info);                // "libfabric 2.3, asked for API 1.18, efa"

// Address and key of memory that another rank may write to.
struct Target {
  std::uint64_t address = 0, key = 0;
  bool operator==(const Target&) const = default;
};

// Memory of the host or of GPU `gpu`, registered so that a NIC may read and write it, and with `is_target` peers may
// write to it, which EFA grants to 2^20 pages at most. Empty if nothing of this requires a registration.
class Registration {
 public:
  Registration() = default;
  Registration(fid_domain* domain, const fi_info& info, std::byte* memory, std::size_t bytes, std::optional<int> gpu,
               bool is_target, std::uint64_t key);
  void* descriptor() const { return region_ ? fi_mr_desc(region_.get()) : nullptr; }
  // Target of a byte in this memory, for peers.
  Target target(const std::byte* at) const;

 private:
  Owned<fid_mr> region_;
  std::byte* begin_ = nullptr;  // origin of addresses; null: virtual addresses of this process
};

class Endpoint {
 public:
  // `gpu_memory`: the library must not call CUDA, so that samples time the NIC's own access to GPU memory.
  Endpoint(Info info, protocol::SharedPage& page, bool gpu_memory);

  std::string address() const;  // hexadecimal
  std::string host() const;     // the address without its port: "10.0.0.1", "fe80::1"
  // `addresses`: of all ranks, in rank order.
  void connect(const std::vector<std::string>& addresses);
  // Connects to one more endpoint of a rank. Returns its index for send() and write(), beyond those of the ranks.
  int add_peer(const std::string& address, int rank);
  Registration register_memory(std::byte* memory, std::size_t bytes, std::optional<int> gpu = {},
                               bool is_target = false) {
    return {domain_.get(), *info_, memory, bytes, gpu, is_target, ++registrations_};
  }
  // True if the provider supports RMA writes with completions at the receiver.
  bool writes() const;

  // send() and receive() return at once and increment `under_way`, which progress() decrements at completion; until
  // then the library owns `memory`. A message matches a receive with the same tag. `to`: a rank, or from add_peer().
  void send(const std::byte* memory, std::size_t bytes, const Registration& registration, int to, std::uint64_t tag,
            int& under_way);
  void receive(std::byte* memory, std::size_t bytes, const Registration& registration, std::uint64_t tag,
               int& under_way);
  // The same, or false if the library cannot take the message yet: call progress() and try again.
  bool try_send(const std::byte* memory, std::size_t bytes, const Registration& registration, int to, std::uint64_t tag,
                int& under_way);
  bool try_receive(std::byte* memory, std::size_t bytes, const Registration& registration, std::uint64_t tag,
                   int& under_way);
  // Writes to the memory of that peer; its endpoint then counts one arrival. `under_way` as above.
  void write(const std::byte* memory, std::size_t bytes, const Registration& registration, int to, const Target& target,
             int& under_way);
  // Adds to the number of writes of peers that is_done() waits for.
  void expect(int writes) { awaited_ += writes; }
  // Polls completions. Throws StalledError if a peer does not answer, CaseError on other errors of the library.
  void progress();
  // True if all operations since forget_completed() and all expected writes have completed.
  bool is_done() const { return under_way() == 0; }
  std::size_t under_way() const { return begun_ - done_ + static_cast<std::size_t>(std::max(awaited_, 0)); }
  void forget_completed() { begun_ = done_ = 0; }

  const fi_info& info() const { return *info_; }

 private:
  // An operation in flight.
  struct Context {
    fi_context2 library_context;  // the first member, so that the library's pointer to it is one to the whole
    int* under_way = nullptr;
  };

  void forbid_cuda();
  std::vector<unsigned char> own_name() const;
  std::string text_of_address(const std::vector<unsigned char>& name) const;
  fi_context2* begin(int& under_way);
  void make_room();
  template <class Post>
  bool try_post(const Post& post_now, std::string_view call, int& under_way);

  Info info_;
  protocol::SharedPage* page_;
  Owned<fid_fabric> fabric_;
  Owned<fid_domain> domain_;
  Owned<fid_cq> completions_;
  Owned<fid_av> addresses_;
  Owned<fid_ep> endpoint_;
  std::vector<fi_addr_t> peers_;  // all ranks, then those of add_peer()
  std::vector<std::unique_ptr<Context>> contexts_;
  std::size_t begun_ = 0, done_ = 0;  // since the last reset
  int awaited_ = 0;  // expected writes that have not arrived; negative: writes that arrived before expect()
  std::uint64_t registrations_ = 0;
};

// Throws AbortRequested if the supervisor requested an abort.
void throw_if_abort_requested(const protocol::SharedPage& page);

// Bytes in both directions by method, from the counters of the devices.
struct Moved {
  std::uint64_t read = 0, written = 0;  // by RDMA of the device, from and to the peer's memory
  std::uint64_t packets = 0;            // in packets, copied by processors
  bool counts_writes = true;            // false: the kernel has no counters of writes, and `written` is 0
};

// All NICs of a rank.
class Nics {
 public:
  Nics(std::vector<Info> infos, protocol::SharedPage& page, bool gpu_memory);

  std::vector<std::string> names() const;  // the kernel's device names; "" for a NIC that the host lacks
  const Endpoint& first() const { return *endpoints_.at(first_); }
  std::size_t largest_message() const;  // bytes, through one NIC

  std::string addresses() const;
  // `addresses`: of all ranks, in rank order. NICs of equal number connect to each other, and messages are divided
  // among those that all ranks have. A NIC whose like a rank lacks connects to that rank's first one.
  void connect(const std::vector<std::string>& addresses);

  std::size_t count() const { return endpoints_.size(); }
  bool has(std::size_t nic) const { return endpoints_.at(nic).has_value(); }
  Endpoint& at(int nic) { return endpoints_.at(static_cast<std::size_t>(nic)).value(); }
  // Index, for messages through NIC `nic`, of the peer's NIC `of_peer`. Ranks are the indices of their NICs of equal
  // number.
  int peer_at(int nic, int rank, int of_peer);

  using Registrations = std::vector<Registration>;  // registrations of one buffer, by NIC
  Registrations register_memory(std::byte* memory, std::size_t bytes, std::optional<int> gpu = {},
                                bool is_target = false);

  // Number of NICs that a message of that size is divided among, equal on all ranks.
  std::size_t parts_of(std::size_t bytes, std::optional<int> nic) const;
  // Through NIC `nic` alone. With nullopt, in equal parts through the NICs that all ranks have if the parts are large
  // enough for RDMA, else through the first of them. Sender and receiver must use the same `nic`. Both calls return at
  // once; `under_way` counts parts as for an Endpoint.
  void send(const std::byte* memory, std::size_t bytes, const Registrations& registrations, int to, std::uint64_t tag,
            std::optional<int> nic, int& under_way);
  void receive(std::byte* memory, std::size_t bytes, const Registrations& registrations, int from, std::uint64_t tag,
               std::optional<int> nic, int& under_way);
  // As Session::probe_nics(). `tag_out`: of this rank's messages, `tag_in`: of the peer's. Called once.
  std::vector<std::string> probe(int peer, std::uint64_t tag_out, std::uint64_t tag_in, Seconds limit);
  // Throws CaseError on an error of the library, AbortRequested if the supervisor requested an abort.
  void progress();
  // Waits until all operations have completed; throws as progress() does.
  void finish();
  // Reports to the supervisor that this rank finished another step. All ranks take the same steps, so in a hang the
  // ranks with the fewest steps are those that others wait for.
  void count_step();
  std::string waits_for() const;  // operations in flight, by NIC; "" if there are none
  // Bytes since the driver was loaded; nullopt if the kernel has no counters.
  std::optional<Moved> moved() const;

 private:
  template <class Post>
  void divide(std::size_t bytes, int peer, std::optional<int> nic, const Post& post);
  std::size_t first_common_nic(int peer) const;
  // The endpoints that exist.
  auto endpoints() const {
    return endpoints_ | std::views::filter([](const auto& each) { return each.has_value(); }) |
           std::views::transform([](const auto& each) -> const Endpoint& { return *each; });
  }
  auto endpoints() {
    return endpoints_ | std::views::filter([](const auto& each) { return each.has_value(); }) |
           std::views::transform([](auto& each) -> Endpoint& { return *each; });
  }

  // A message each way through one NIC.
  struct Probe {
    std::uint64_t out = 0, in = 0;
    Registration out_registration = {}, in_registration = {};
    bool receives = false, sends = false;  // the library took the operation
    int under_way = 0;
    std::string failure = {};
    bool passed() const { return receives && sends && under_way == 0; }
  };

  protocol::SharedPage& page_;
  std::vector<std::unique_ptr<Probe>> probes_;      // memory of operations in flight, which must outlive the endpoints
  std::vector<std::optional<Endpoint>> endpoints_;  // null: the host lacks this NIC
  std::size_t first_ = 0;                           // the first that exists
  std::vector<std::vector<std::string>> of_ranks_;  // addresses by rank and number; "" for a NIC that the rank lacks
  std::map<std::array<int, 3>, int> peers_;         // results of peer_at(), by its arguments
  std::size_t most_nics_ = 1;                       // NICs of the rank with the most
  std::vector<std::size_t> common_;                 // numbers of the NICs that all ranks have
  std::uint64_t looks_ = 0;
};

}  // namespace p5::ofi
