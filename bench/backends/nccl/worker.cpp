#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/backends/nccl/communicator_session.hpp"
#include "bench/backends/nccl/handles.hpp"
#include "bench/backends/nccl/kernels.hpp"
#include "bench/backends/nccl/local_checks.hpp"
#include "bench/backends/nccl/session.hpp"
#include "bench/backends/nccl/tuning_log.hpp"
#include "bench/backends/protocol.hpp"
#include "bench/backends/worker_program.hpp"
#include "bench/base/error.hpp"
#include "bench/base/names.hpp"

namespace p5::nccl {

// ---- The NCCL worker: one GPU, one communicator of all ranks, and their sessions.

// Makes GPU number local_rank, modulo the visible ones, current and binds this process to the cores near it.
int choose_device(int local_rank);
protocol::Identity identify_device(int device);

class Worker final : public WorkerProgram {
 public:
  explicit Worker(protocol::SharedPage& page) : page_(page) {}

  void abort() override;

 private:
  protocol::Identity identify(const protocol::LocalRank& local) override;
  std::string id() override;
  Environment join(const std::vector<std::string>& ids, int rank, int ranks) override;
  void form(const Formation& formation) override;
  void leave_groups() override { engine_->leave_groups(); }
  std::unique_ptr<Session> open(Case c, int round, std::optional<RankInGroup> place, std::uint64_t memory) override;
  void close() override;
  LocalChecks check_locally(Seconds burn) override;
  LocalFigures check_host_copies() override;
  std::string waits_for() const override { return session_ ? session_->unfinished() : ""; }
  bool is_idle_after_abort() noexcept override;

  protocol::SharedPage& page_;
  TuningLog log_;
  std::optional<int> device_;
  std::optional<Engine> engine_;
  NcclSession* session_ = nullptr;  // the open session; null also if it is of a communicator
};

namespace {

// The address in sysfs's format: lower case.
std::string pci_address_of(int device) {
  std::array<char, 32> text{};
  check(cudaDeviceGetPCIBusId(text.data(), text.size(), device), "cudaDeviceGetPCIBusId");
  return lower(text.data());
}

// The UUID in NVML's format.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

// The first driver for each major version of CUDA with which p5bench can be built (NVIDIA, CUDA Toolkit Release Notes,
// minor version compatibility).
constexpr std::array<std::pair<int, int>, 2> first_drivers{{{12, 525}, {13, 580}}};

std::string first_driver_for(int cuda) {
  const auto at = std::ranges::find(first_drivers, cuda, &std::pair<int, int>::first);
  return at == first_drivers.end() ? fmt::format("for CUDA {}", cuda) : fmt::format("{}", at->second);
}

// CUDA names a runtime that the driver is too old for, and otherwise only that it has no GPU to offer. `problem`:
// cudaSuccess where it counts none.
std::string why_no_devices(cudaError_t problem) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  const int have = driver / 1000, need = runtime / 1000;
  if (problem == cudaErrorInsufficientDriver && have > 0 && have < need)
    return fmt::format(
        "this p5bench is built with CUDA {}, and the NVIDIA driver here is for CUDA {}: {}install NVIDIA driver {} or "
        "later",
        version_text(runtime), version_text(driver),
        have < first_drivers.front().first ? "" : fmt::format("use the package that is built with CUDA {}, or ", have),
        first_driver_for(need));
  if (driver > 0 && (problem == cudaSuccess || problem == cudaErrorNoDevice))
    return "CUDA shows this process no GPU, though there is a driver: ask the scheduler for GPUs (Slurm: "
           "--gpus-per-node), pass them into the container, and look at CUDA_VISIBLE_DEVICES; where nvidia-smi shows "
           "none either, see dmesg; --backend mpi measures host memory without them";
  return fmt::format(
      "no NVIDIA driver works here ({}): see what nvidia-smi and dmesg say, load or install the driver, and in a "
      "container pass the GPUs in; --backend mpi measures host memory without it",
      driver == 0 ? "CUDA finds none" : cudaGetErrorString(problem));
}

// NCCL brings its own code for GPUs, so that without this question ranks would join, and each case would fail.
void check_device_code(const cudaDeviceProp& gpu) {
  const cudaError_t problem = device_code();
  if (problem == cudaSuccess) return;
  constexpr std::array without_code{cudaErrorNoKernelImageForDevice, cudaErrorInvalidDeviceFunction,
                                    cudaErrorUnsupportedPtxVersion, cudaErrorJitCompilerNotFound};
  if (std::ranges::find(without_code, problem) == without_code.end()) check(problem, "cudaFuncGetAttributes");
  cudaGetLastError();
  throw CaseError(fmt::format(
      "this p5bench has no code for GPUs of compute capability {0}.{1}, such as {2} ({3}): build it with -D "
      "CMAKE_CUDA_ARCHITECTURES={0}{1}, with a CUDA that still compiles for them",
      gpu.major, gpu.minor, gpu.name, cudaGetErrorString(problem)));
}

}  // namespace

int choose_device(int local_rank) {
  int devices = 0;
  if (const cudaError_t problem = cudaGetDeviceCount(&devices); problem != cudaSuccess || devices == 0)
    throw CaseError(why_no_devices(problem));
  if (local_rank < 0) throw CaseError(fmt::format("local rank {} is not a rank", local_rank));
  const int device = local_rank % devices;
  bind_near({pci_address_of(device)});  // before the context, so that the driver's threads inherit it
  check(cudaSetDevice(device), "cudaSetDevice");
  check(cudaFree(nullptr), "cudaFree, the first call on the device");
  return device;
}

protocol::Identity identify_device(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  check_device_code(properties);
  std::size_t free_memory = 0, total_memory = 0;
  check(cudaMemGetInfo(&free_memory, &total_memory), "cudaMemGetInfo");
  int driver = 0, runtime = 0, visible = 0;
  check(cudaGetDeviceCount(&visible), "cudaGetDeviceCount");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return {.device_uuid = uuid_text(properties.uuid),
          .device_name = properties.name,
          .pci_address = pci_address_of(device),
          .free_memory = free_memory,
          .total_memory = total_memory,
          .visible_devices = visible,
          .library = library_version(),
          .library_path = library_path(),
          .driver = version_text(driver),
          .runtime = version_text(runtime)};
}

namespace {

std::string to_hex(const ncclUniqueId& id) {
  std::string text;
  for (const char each : id.internal) text += fmt::format("{:02x}", static_cast<unsigned char>(each));
  return text;
}

ncclUniqueId id_from_hex(const std::string& text) {
  ncclUniqueId id{};
  if (text.size() != 2 * sizeof id.internal)
    throw CaseError(fmt::format("a unique id of {} hexadecimal digits, not {}", text.size(), 2 * sizeof id.internal));
  for (std::size_t i = 0; i < sizeof id.internal; ++i)
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

}  // namespace

protocol::Identity Worker::identify(const protocol::LocalRank& local) {
  if (!device_) device_ = choose_device(local.local_rank);
  return identify_device(*device_);
}

std::string Worker::id() {
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return to_hex(id);
}

Environment Worker::join(const std::vector<std::string>& ids, int rank, int ranks) {
  const ncclUniqueId first = id_from_hex(ids.at(0));
  engine_.emplace(*device_, page_, log_, first, rank, ranks);
  log_.log_warnings_only();
  Environment environment = library_variables();
  log_.restore(environment);
  return environment;
}

// Ranks that pause use their devices for nothing, not even waiting.
void Worker::form(const Formation& formation) {
  using Aligned = Engine::Aligned;
  const Aligned beginners = !formation.pauses ? Aligned::job : formation.alone ? Aligned::group : Aligned::members;
  engine_->form(formation.group, beginners, formation.cta_policy);
}

std::unique_ptr<Session> Worker::open(Case c, int round, std::optional<RankInGroup> place, std::uint64_t memory) {
  if (!c.collective->moves_data) return std::make_unique<CommunicatorSession>(c, std::move(place), *engine_);
  auto session = std::make_unique<NcclSession>(std::move(c), round, std::move(place), *engine_, memory);
  session_ = session.get();
  return session;
}

void Worker::close() {
  if (NcclSession* const session = std::exchange(session_, nullptr)) session->close();
}

LocalChecks Worker::check_locally(Seconds burn) { return nccl::check_locally(engine_->queue(), burn); }

LocalFigures Worker::check_host_copies() { return nccl::check_host_copies(engine_->queue()); }

// NCCL's kernels end after an abort; a kernel that does not is another one, and the reason that peers wait.
bool Worker::is_idle_after_abort() noexcept {
  constexpr Seconds patience{1};
  // Aborted while joining: NCCL was aborted and memory freed, for which the device had to become idle.
  if (!engine_) return true;
  if (session_) session_->abort();
  engine_->abort();
  return engine_->queue().idle_within(patience);
}

void Worker::abort() {
  std::signal(SIGALRM, [](int) { _exit(0); });
  alarm(2);
  if (session_) session_->abort();
  if (engine_) engine_->abort();
}

}  // namespace p5::nccl

int main() {
  return p5::run_worker("p5bench-worker-nccl", [](p5::protocol::SharedPage& page) {
    p5::nccl::register_twins();
    return std::make_unique<p5::nccl::Worker>(page);
  });
}
