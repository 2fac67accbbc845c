// The worker program for libfabric: one NIC, one endpoint, host memory.
#include <dlfcn.h>

#include <fstream>
#include <optional>
#include <string>

#include "bench/backends/ofi/session.hpp"
#include "bench/backends/worker_program.hpp"

namespace p5::ofi {

namespace {

// What the kernel says programs may take, in bytes.
std::uint64_t memory_available() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kibibytes = 0;
  while (file >> name >> kibibytes && name != "MemAvailable:") file.ignore(80, '\n');
  return kibibytes << 10;
}

class Worker final : public WorkerProgram {
 public:
  explicit Worker(protocol::SharedPage& page) : page_(page) {}

 private:
  protocol::Identity identify(int local_rank) override {
    if (!endpoint_) endpoint_.emplace(choose_nic(local_rank), page_);
    const fi_info& info = endpoint_->info();
    protocol::Identity identity;
    identity.device_uuid = identity.device_name = info.domain_attr->name;
    identity.library = name_of_library(info);
    identity.address = endpoint_->host();
    Dl_info place{};
    if (dladdr(reinterpret_cast<void*>(&fi_getinfo), &place) != 0 && place.dli_fname)
      identity.library_path = place.dli_fname;
    identity.free_memory = identity.total_memory = memory_available();
    return identity;
  }

  std::string id() override { return endpoint_.value().address(); }

  Environment join(const std::vector<std::string>& ids, int rank, int ranks) override {
    rank_ = rank;
    ranks_ = ranks;
    endpoint_->connect(ids);
    return library_variables();
  }

  std::unique_ptr<Session> open(Case c, int round, std::optional<Place> place, std::uint64_t) override {
    return std::make_unique<OfiSession>(std::move(c), round, std::move(place), *endpoint_, rank_, ranks_);
  }

  protocol::SharedPage& page_;
  std::optional<Endpoint> endpoint_;
  int rank_ = 0, ranks_ = 1;
};

}  // namespace

}  // namespace p5::ofi

int main() {
  return p5::run_worker("p5bench-worker-ofi",
                        [](p5::protocol::SharedPage& page) { return std::make_unique<p5::ofi::Worker>(page); });
}
