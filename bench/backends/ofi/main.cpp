// The worker program for libfabric: an endpoint on each NIC of its rank, host memory.
#include <dlfcn.h>

#include <fstream>
#include <optional>
#include <string>

#include "bench/backends/ofi/session.hpp"
#include "bench/backends/worker_program.hpp"
#include "bench/base/names.hpp"

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
  protocol::Identity identify(const protocol::LocalRank& local) override {
    if (!nics_) nics_.emplace(choose_nics(local), page_);
    protocol::Identity identity;
    identity.devices = nics_->names();
    identity.device_uuid = identity.device_name = p5::join(identity.devices);
    identity.library = name_of_library(nics_->first().info());
    identity.address = nics_->first().host();
    Dl_info place{};
    if (dladdr(reinterpret_cast<void*>(&fi_getinfo), &place) != 0 && place.dli_fname)
      identity.library_path = place.dli_fname;
    identity.free_memory = identity.total_memory = memory_available();
    return identity;
  }

  std::string id() override { return nics_.value().addresses(); }

  Environment join(const std::vector<std::string>& ids, int rank, int ranks) override {
    rank_ = rank;
    ranks_ = ranks;
    nics_->connect(ids);
    return library_variables();
  }

  std::unique_ptr<Session> open(Case c, int round, std::optional<RankInGroup> place, std::uint64_t) override {
    return std::make_unique<OfiSession>(std::move(c), round, std::move(place), *nics_, rank_, ranks_);
  }

  std::string waits_for() const override { return nics_ ? nics_->waits_for() : ""; }

  protocol::SharedPage& page_;
  std::optional<Nics> nics_;
  int rank_ = 0, ranks_ = 1;
};

}  // namespace

}  // namespace p5::ofi

int main() {
  return p5::run_worker("p5bench-worker-ofi",
                        [](p5::protocol::SharedPage& page) { return std::make_unique<p5::ofi::Worker>(page); });
}
