// libfabric: one endpoint of one NIC, that messages to all ranks go through (reliable datagrams, tagged). Man pages
// fi_getinfo(3), fi_endpoint(3), fi_tagged(3), fi_cq(3), fi_av(3).
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/backends/shared_page.hpp"

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

// The NICs of the best provider that there is (EFA before verbs before TCP; FI_PROVIDER says otherwise), in the order
// of their PCI addresses: a rank takes number local_rank, modulo their number. Where a provider shows no NICs, all
// ranks take the first interface that is not the loopback's. Throws CaseError where there is none.
Info choose_nic(int local_rank);
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
  // Until all of them are done. Throws CaseError on an error of the library, GivenUp when told so.
  void finish();

  const fi_info& info() const { return *info_; }

 private:
  std::vector<unsigned char> own_name() const;
  fi_context2* begin();
  void progress();
  void look_up();
  template <class Post>
  void post(const Post& post_now, std::string_view call);

  Info info_;
  protocol::SharedPage& page_;
  Owned<fid_fabric> fabric_;
  Owned<fid_domain> domain_;
  Owned<fid_cq> completions_;
  Owned<fid_av> addresses_;
  Owned<fid_ep> endpoint_;
  std::vector<fi_addr_t> of_rank_;
  std::vector<std::unique_ptr<fi_context2>> contexts_;  // of what is under way; libfabric's own until then
  std::size_t begun_ = 0, done_ = 0;                    // since the last finish()
  std::uint64_t registrations_ = 0;
};

}  // namespace p5::ofi
