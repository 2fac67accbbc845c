// The libfabric worker program: one endpoint on each NIC of its rank, data in host or GPU memory.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "bench/backends/ofi/session.hpp"
#include "bench/backends/worker_program.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"

namespace p5::ofi {

namespace {

// MemAvailable of the kernel, in bytes.
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
    if (!nics_) open_nics(local);
    protocol::Identity identity;
    identity.memory = data_.name;
    identity.why_no_gpu = why_no_gpu_;
    if (gpus_) {
      identity.gpus = gpus_->pci();
      identity.driver = gpus_->version();
      identity.gpu_beside.assign(data_.beside.begin(), data_.beside.end());
    }
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
    return std::make_unique<OfiSession>(std::move(c), round, std::move(place), *nics_, data_, rank_, ranks_);
  }

  std::string waits_for() const override { return nics_ ? nics_->waits_for() : ""; }

  // EFA's provider initializes GPUs at the first libfabric call, so the GPU nearest to the NICs must be current, or
  // FI_HMEM disabled, before it.
  void open_nics(const protocol::LocalRank& local) {
    if (local.memory != "host") find_gpus(local);
    ::setenv("FI_HMEM", gpus_ ? "cuda" : "system", 0);
    if (gpus_) try_gpu_memory(local);
    if (nics_) return;
    nics_.emplace(choose_nics(local, false), page_, false);
    if (!gpus_) return;
    if (local.memory == "gpu") {
      data_.copied = true;
      data_.name = "GPU memory, copied through host memory";
      choose_gpus(local);
    } else {
      gpus_.reset();
    }
  }

  void find_gpus(const protocol::LocalRank& local) {
    try {
      gpus_.emplace();
      gpus_->at(first_gpu(local)).use();
    } catch (const CaseError& problem) {
      if (local.memory == "gpu") throw CaseError(std::string("no GPU memory: ") + problem.what());
      gpus_.reset();
      why_no_gpu_ = problem.what();
    }
  }

  // Uses GPU memory if all NICs can access it; each step may show that they cannot.
  void try_gpu_memory(const protocol::LocalRank& local) {
    constexpr std::size_t trial = 1 << 20;
    try {
      nics_.emplace(choose_nics(local, true), page_, true);
      choose_gpus(local);
      for (std::size_t nic = 0; nic < nics_->count(); ++nic) {
        const std::unique_ptr<GpuMemory> memory = gpus_->allocate(data_.beside[nic], trial);
        memory->gpu().use();
        nics_->at(static_cast<int>(nic)).enlist(memory->data(), trial, memory->gpu().number());
      }
      data_.name = memory_of_gpus;
    } catch (const CaseError& problem) {
      nics_.reset();
      data_ = {};
      why_no_gpu_ = problem.what();
    }
  }

  std::size_t first_gpu(const protocol::LocalRank& local) const {
    return static_cast<std::size_t>(local.local_rank) * gpus_->size() / static_cast<std::size_t>(local.local_ranks);
  }

  // GPUs are divided among ranks as NICs are, and those of a rank among its NICs.
  void choose_gpus(const protocol::LocalRank& local) {
    data_.gpus = &*gpus_;
    const std::size_t first = first_gpu(local), nics = nics_->count(),
                      last = static_cast<std::size_t>(local.local_rank + 1) * gpus_->size() /
                             static_cast<std::size_t>(local.local_ranks),
                      mine = std::max<std::size_t>(last - first, 1);
    for (std::size_t nic = 0; nic < nics; ++nic) data_.beside.push_back(first + nic * mine / nics);
  }

  protocol::SharedPage& page_;
  std::optional<Gpus> gpus_;  // declared first: GPUs must outlive registrations with the NICs
  DataPlace data_;
  std::string why_no_gpu_;
  std::optional<Nics> nics_;
  int rank_ = 0, ranks_ = 1;
};

}  // namespace

}  // namespace p5::ofi

int main() {
  return p5::run_worker("p5bench-worker-ofi",
                        [](p5::protocol::SharedPage& page) { return std::make_unique<p5::ofi::Worker>(page); });
}
