// libfabric: an endpoint on each NIC of a rank, that messages to all ranks go through (reliable datagrams, tagged). Man
// pages fi_getinfo(3), fi_endpoint(3), fi_tagged(3), fi_cq(3), fi_av(3).
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

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

// Of the best provider that there is (EFA before verbs before TCP; FI_PROVIDER says otherwise). NICs are divided among
// the ranks of their host in the order of their PCI addresses; where ranks are more, some share one. Where a provider
// shows interfaces instead, each rank takes all those that the seat names, and where it names none the first that is
// not the loopback's. Throws CaseError where there is none.
std::vector<Info> choose_nics(const protocol::Seat& seat);
std::string name_of_library(const fi_info& info);  // "libfabric 1.17, tcp;ofi_rxm"

// Memory that a NIC may read and write. Nothing where the provider does not ask for that.
class Registration {
 public:
  Registration() = default;
  Registration(fid_domain* domain, const fi_info& info, std::byte* memory, std::size_t bytes, std::uint64_t key);
  void* descriptor() const { return region_ ? fi_mr_desc(region_.get()) : nullptr; }

 private:
  Owned<fid_mr> region_;
};

class Endpoint {
 public:
  Endpoint(Info info, protocol::SharedPage& page);

  std::string address() const;  // hexadecimal
  std::string host() const;     // of the address, as people write it, without the port: "10.0.0.1", "fe80::1"
  // Addresses of all ranks, in their order.
  void connect(const std::vector<std::string>& addresses);
  Registration enlist(std::byte* memory, std::size_t bytes) {
    return {domain_.get(), *info_, memory, bytes, ++registrations_};
  }

  // Both return at once; `memory` is the library's until finish(). A message fits a receive of the same tag.
  void send(const std::byte* memory, std::size_t bytes, const Registration& registration, int to, std::uint64_t tag);
  void receive(std::byte* memory, std::size_t bytes, const Registration& registration, std::uint64_t tag);
  // Moves on what is under way. Throws CaseError on an error of the library.
  void progress();
  // All that began is done; from here on others are counted.
  bool is_done() const { return done_ == begun_; }
  void forget_done() { begun_ = done_ = 0; }

  const fi_info& info() const { return *info_; }

 private:
  std::vector<unsigned char> own_name() const;
  fi_context2* begin();
  template <class Post>
  void post(const Post& post_now, std::string_view call);

  Info info_;
  protocol::SharedPage* page_;
  Owned<fid_fabric> fabric_;
  Owned<fid_domain> domain_;
  Owned<fid_cq> completions_;
  Owned<fid_av> addresses_;
  Owned<fid_ep> endpoint_;
  std::vector<fi_addr_t> of_rank_;
  std::vector<std::unique_ptr<fi_context2>> contexts_;  // of what is under way; libfabric's own until then
  std::size_t begun_ = 0, done_ = 0;                    // since they were forgotten
  std::uint64_t registrations_ = 0;
};

// Throws GivenUp when the supervisor says so.
void look_up(const protocol::SharedPage& page);

// All NICs of a rank.
class Nics {
 public:
  Nics(std::vector<Info> infos, protocol::SharedPage& page);

  std::vector<std::string> names() const;
  const Endpoint& first() const { return endpoints_.front(); }
  std::size_t largest_message() const;  // of one NIC

  std::string addresses() const;
  // Of all ranks, in their order. The NICs of a number talk to each other; all ranks use as many as each of them has.
  void connect(const std::vector<std::string>& addresses);

  using Registrations = std::vector<Registration>;  // of a buffer, by NIC
  Registrations enlist(std::byte* memory, std::size_t bytes);

  // Through one NIC alone, or, with nullopt, in equal parts through all where each part is large enough to count, and
  // else through the first. Both sides say the same. Both return at once; `memory` is the library's until finish().
  void send(const std::byte* memory, std::size_t bytes, const Registrations& registrations, int to, std::uint64_t tag,
            std::optional<int> nic);
  void receive(std::byte* memory, std::size_t bytes, const Registrations& registrations, std::uint64_t tag,
               std::optional<int> nic);
  // Until all of them are done. Throws CaseError on an error of the library, GivenUp when told so.
  void finish();

 private:
  template <class Post>
  void divide(std::size_t bytes, std::optional<int> nic, const Post& post);

  protocol::SharedPage& page_;
  std::vector<Endpoint> endpoints_;
  std::size_t together_ = 1;
};

}  // namespace p5::ofi
