// libfabric: an endpoint on each NIC of a rank, that messages to all ranks go through (reliable datagrams, tagged), and
// writes into their memory. Man pages fi_getinfo(3), fi_endpoint(3), fi_tagged(3), fi_rma(3), fi_mr(3), fi_cq(3),
// fi_av(3).
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/backends/protocol.hpp"

namespace p5::ofi {

// Throws CaseError with the call and libfabric's text. Calls return a negative error.
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

// The NICs of this rank at the best provider that there is (EFA before verbs before TCP; FI_PROVIDER says otherwise),
// or at the one that the seat names. NICs are divided among the ranks of their host in the order of their PCI
// addresses; where ranks are more, some share one. Where a provider shows interfaces instead, each rank takes all those
// that the seat names, and where it names none the first that is not the loopback's. Throws CaseError where there is
// none, or with `gpu_memory` none that takes such memory.
std::vector<Info> choose_nics(const protocol::LocalRank& local, bool gpu_memory);
std::string name_of_library(const fi_info& info);  // "libfabric 2.3, asked for API 1.18, efa"

// Where another rank may write.
struct Target {
  std::uint64_t address = 0, key = 0;
  bool operator==(const Target&) const = default;
};

// Memory that a NIC may read and write, of the GPU of this number or of the host. Nothing where the provider asks for
// that neither itself nor for writes of others.
class Registration {
 public:
  Registration() = default;
  Registration(fid_domain* domain, const fi_info& info, std::byte* memory, std::size_t bytes, std::optional<int> gpu,
               std::uint64_t key);
  void* descriptor() const { return region_ ? fi_mr_desc(region_.get()) : nullptr; }
  // Of a byte in it, for others.
  Target target(const std::byte* at) const;

 private:
  Owned<fid_mr> region_;
  std::byte* begin_ = nullptr;  // that addresses count from; null: they are those of this process
};

class Endpoint {
 public:
  // `gpu_memory`: the library shall not call CUDA, so that what is timed is the NIC's own way to the GPU.
  Endpoint(Info info, protocol::SharedPage& page, bool gpu_memory);

  std::string address() const;  // hexadecimal
  std::string host() const;     // of the address, as people write it, without the port: "10.0.0.1", "fe80::1"
  // Addresses of all ranks, in their order.
  void connect(const std::vector<std::string>& addresses);
  Registration enlist(std::byte* memory, std::size_t bytes, std::optional<int> gpu = {}) {
    return {domain_.get(), *info_, memory, bytes, gpu, ++registrations_};
  }
  // Whether it can write into the memory of other ranks so that they hear of it.
  bool writes() const;

  // Both return at once and count up `under_way`, which progress() counts down when the message is done; `memory` is
  // the library's until then. A message fits a receive of the same tag.
  void send(const std::byte* memory, std::size_t bytes, const Registration& registration, int to, std::uint64_t tag,
            int& under_way);
  void receive(std::byte* memory, std::size_t bytes, const Registration& registration, std::uint64_t tag,
               int& under_way);
  // Into the memory of that rank, whose endpoint counts one arrival then; `under_way` as above.
  void write(const std::byte* memory, std::size_t bytes, const Registration& registration, int to, const Target& target,
             int& under_way);
  // So many more writes of others are waited for as if they were under way here.
  void expect(int writes) { awaited_ += writes; }
  // Moves on what is under way. Throws CaseError on an error of the library.
  void progress();
  // All that began is done; from here on others are counted.
  bool is_done() const { return under_way() == 0; }
  std::size_t under_way() const { return begun_ - done_ + static_cast<std::size_t>(std::max(awaited_, 0)); }
  void forget_done() { begun_ = done_ = 0; }

  const fi_info& info() const { return *info_; }

 private:
  // A message that is under way.
  struct Context {
    fi_context2 librarys;  // the first member, so that the library's pointer to it is one to the whole
    int* under_way = nullptr;
  };

  std::vector<unsigned char> own_name() const;
  std::string text_of_address(const std::vector<unsigned char>& name) const;
  fi_context2* begin(int& under_way);
  template <class Post>
  void post(const Post& post_now, std::string_view call, int& under_way);

  Info info_;
  protocol::SharedPage* page_;
  Owned<fid_fabric> fabric_;
  Owned<fid_domain> domain_;
  Owned<fid_cq> completions_;
  Owned<fid_av> addresses_;
  Owned<fid_ep> endpoint_;
  std::vector<fi_addr_t> of_rank_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::size_t begun_ = 0, done_ = 0;  // since they were forgotten
  int awaited_ = 0;  // writes that were expected and have not come; below 0: that came before they were
  std::uint64_t registrations_ = 0;
};

// Throws AbortRequested when the supervisor says so.
void look_up(const protocol::SharedPage& page);

// Bytes by the way that they took, both directions, as devices count them.
struct Moved {
  std::uint64_t read = 0, written = 0;  // by the device, out of and into the other host's memory
  std::uint64_t packets = 0;            // that processors copied
};

// All NICs of a rank.
class Nics {
 public:
  Nics(std::vector<Info> infos, protocol::SharedPage& page, bool gpu_memory);

  std::vector<std::string> names() const;  // as the kernel calls them
  const Endpoint& first() const { return endpoints_.front(); }
  std::size_t largest_message() const;  // of one NIC

  std::string addresses() const;
  // Of all ranks, in their order. The NICs of a number talk to each other; all ranks use as many as each of them has.
  void connect(const std::vector<std::string>& addresses);

  std::size_t count() const { return endpoints_.size(); }
  Endpoint& at(int nic) { return endpoints_.at(static_cast<std::size_t>(nic)); }

  using Registrations = std::vector<Registration>;  // of a buffer, by NIC
  Registrations enlist(std::byte* memory, std::size_t bytes, std::optional<int> gpu = {});

  // Through one NIC alone, or, with nullopt, in equal parts through all where each part is large enough to count, and
  // else through the first. Both sides say the same. Both return at once; `under_way` counts parts as of an Endpoint.
  void send(const std::byte* memory, std::size_t bytes, const Registrations& registrations, int to, std::uint64_t tag,
            std::optional<int> nic, int& under_way);
  void receive(std::byte* memory, std::size_t bytes, const Registrations& registrations, std::uint64_t tag,
               std::optional<int> nic, int& under_way);
  // Throws CaseError on an error of the library, AbortRequested when told so.
  void progress();
  // Until all of them are done; throws as progress().
  void finish();
  // Shows the supervisor that one more of the steps is over that all ranks take alike, so that of ranks that hang those
  // with the fewest are known, which the others wait for.
  void count_step();
  std::string waits_for() const;  // what is under way, by NIC; "" for nothing
  // Since the driver's start; nullopt where the kernel does not count it.
  std::optional<Moved> moved() const;

 private:
  template <class Post>
  void divide(std::size_t bytes, std::optional<int> nic, const Post& post);

  protocol::SharedPage& page_;
  std::vector<Endpoint> endpoints_;
  std::size_t together_ = 1;
  std::uint64_t looks_ = 0;
};

}  // namespace p5::ofi
