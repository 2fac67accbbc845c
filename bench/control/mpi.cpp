#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <limits>
#include <list>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"
#include "bench/base/wire.hpp"
#include "bench/control/connectivity.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/control/host_tree.hpp"
#include "bench/control/interfaces.hpp"
#include "bench/control/launcher.hpp"
#include "bench/control/mca_settings.hpp"
#include "bench/control/mpi_check.hpp"

namespace p5 {

namespace mpi {

void check(int result, std::source_location where) {
  if (result == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(result, text.data(), &length);
  throw CaseError(fmt::format("MPI: {} (in {}, line {})",
                              std::string_view(text.data(), static_cast<std::size_t>(length)), where.function_name(),
                              where.line()));
}

}  // namespace mpi

namespace {

using mpi::check;

// Letters over a communicator of their own, so that they meet no others.
class MpiTransport final : public ControlTransport {
 public:
  MpiTransport() {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
    check(MPI_Comm_size(comm_, &size_));
    check(MPI_Comm_rank(comm_, &rank_));
  }
  // Letters that nobody takes any more do not hold up the end.
  ~MpiTransport() override {
    const Clock::time_point start = Clock::now();
    while (!all_left() && since(start).count < teardown_limit.count) pause(start);
    for (PendingSend& each : leaving_) MPI_Request_free(&each.request);
    MPI_Comm_free(&comm_);
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int participants() const override { return size_; }
  int participant() const override { return rank_; }

  void send(int to, std::string text) override {
    if (text.size() > std::numeric_limits<int>::max())
      throw std::length_error(fmt::format("{} bytes for rank {}: MPI takes no more than 2 GiB", text.size(), to));
    PendingSend& message = leaving_.emplace_back(PendingSend{std::move(text), MPI_REQUEST_NULL});
    check(MPI_Isend(message.text.data(), static_cast<int>(message.text.size()), MPI_CHAR, to, tag, comm_,
                    &message.request));
    all_left();
  }

  bool all_left() override {
    std::erase_if(leaving_, [](PendingSend& each) {
      int done = 0;
      check(MPI_Test(&each.request, &done, MPI_STATUS_IGNORE));
      return done != 0;
    });
    return leaving_.empty();
  }

  std::optional<ControlMessage> receive() override {
    int there = 0, length = 0;
    MPI_Status status{};
    check(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_, &there, &status));
    if (!there) return std::nullopt;
    check(MPI_Get_count(&status, MPI_CHAR, &length));
    ControlMessage message{status.MPI_SOURCE, std::string(static_cast<std::size_t>(length), '\0')};
    check(MPI_Recv(message.text.data(), length, MPI_CHAR, message.from, tag, comm_, MPI_STATUS_IGNORE));
    return message;
  }

  // MPI's own waiting keeps a core busy, which workers and other ranks of this host may need: after a while this one
  // sleeps.
  void pause(Clock::time_point waiting_since) override {
    constexpr std::chrono::microseconds awake{200}, sleep{50};
    if (Clock::now() - waiting_since > awake)
      std::this_thread::sleep_for(sleep);
    else
      std::this_thread::yield();
  }

  // By the kernel's names of the hosts, which are there whatever else containers and variables pretend; where two have
  // the same one the ranks of both are taken together, and their messages go a longer way. Each rank gets its own place
  // only.
  TreePosition place() const {
    std::array<char, HOST_NAME_MAX + 1> name{};
    gethostname(name.data(), name.size() - 1);
    std::vector<char> all(rank_ == 0 ? name.size() * static_cast<std::size_t>(size_) : 0);
    const int length = static_cast<int>(name.size());
    check(MPI_Gather(name.data(), length, MPI_CHAR, all.data(), length, MPI_CHAR, 0, comm_));
    std::vector<int> sizes, starts;
    std::string places;
    if (rank_ == 0) {
      std::vector<std::string> names;
      for (std::size_t at = 0; at < all.size(); at += name.size()) names.emplace_back(&all[at]);
      for (const TreePosition& each : tree_of(number_hosts(names))) {
        const std::string blob = wire::serialize(each);
        sizes.push_back(static_cast<int>(blob.size()));
        starts.push_back(static_cast<int>(places.size()));
        places += blob;
      }
    }
    int size = 0;
    check(MPI_Scatter(sizes.data(), 1, MPI_INT, &size, 1, MPI_INT, 0, comm_));
    std::string mine(static_cast<std::size_t>(size), '\0');
    check(MPI_Scatterv(places.data(), sizes.data(), starts.data(), MPI_CHAR, mine.data(), size, MPI_CHAR, 0, comm_));
    return wire::deserialize<TreePosition>(mine);
  }

 private:
  struct PendingSend {
    std::string text;
    MPI_Request request;
  };
  static constexpr int tag = 0;
  static constexpr Seconds teardown_limit{5};

  MPI_Comm comm_ = MPI_COMM_NULL;
  int size_ = 1, rank_ = 0;
  std::list<PendingSend> leaving_;
};

// Value of the first of these variables that is set to a whole number.
template <std::size_t count>
int number_from(const std::array<const char*, count>& variables, int otherwise) {
  for (const char* variable : variables)
    if (const char* text = std::getenv(variable); text && *text) return std::atoi(text);
  return otherwise;
}

constexpr std::array size_variables{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};

// A launcher that does not belong to our MPI starts n processes that each believe to be alone: n wrong results. All of
// them say so: nobody knows who else is there. They leave without MPI's teardown: it has only just started threads,
// which a teardown now may run into.
void refuse_copies(const LaunchedAs& launch, int ranks) {
  if (const std::string objection = objection_to(launch, ranks); !objection.empty()) throw UnreachableError(objection);
}

// One task of srun alone needs no job: Open MPI does not notice it then.
void go_without_launcher(const LaunchedAs& launch, const Environment& environment) {
  if (!nobody_to_ask(environment)) return;
  refuse_copies(launch, 1);
  if (environment.contains("SLURM_STEP_ID")) unsetenv("SLURM_NODELIST");
}

// Whether the launcher says so: then nothing goes over interfaces, and none is chosen. Within a job of Slurm, mpirun
// starts its own daemons by srun, so that Slurm's step is theirs and not that of the ranks.
bool all_on_one_host() {
  const int ranks = number_from(size_variables, 1);
  const bool by_mpirun = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  return number_from(std::array{"OMPI_COMM_WORLD_LOCAL_SIZE"}, 0) == ranks ||
         (!by_mpirun && number_from(std::array{"SLURM_STEP_NUM_NODES"}, 0) == 1) || !started_by_launcher();
}

// Open MPI's TCP takes a connection for each rank of another host that a rank speaks with. Open MPI hangs where it can
// open no more. "": there are enough.
std::string room_for_connections(int ranks) {
  if (all_on_one_host()) return "";
  const int here = number_from(std::array{"OMPI_COMM_WORLD_LOCAL_SIZE"}, 1);
  return raise_open_file_limit(static_cast<std::uint64_t>(std::max(0, ranks - here)));
}

// Where data go over MPI, each rank may speak with each; else only the first does, and was asked before all met.
void refuse_little_room(ControlPlane& control, const std::string& mine) {
  const std::vector<std::string> all = control.gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) throw UnreachableError(fmt::format("rank {}: {}", rank, all[rank]));
}

// For MPI's parameters the environment of the process is the place, until MPI_Init.
void set_default(const std::string& parameter, const std::string& value) {
  if (!value.empty()) setenv(("OMPI_MCA_" + parameter).c_str(), value.c_str(), /*overwrite=*/0);
}

// What Open MPI's TCP goes over, in words; chosen here unless the operator did.
std::string choose_interfaces(const Environment& environment, const McaSettings& files, Traffic traffic) {
  const McaSettings variables = mca_variables(environment);
  for (const char* const name : {"btl_tcp_if_include", "btl_tcp_if_exclude"})
    for (const McaSettings* const settings : {&variables, &files})
      if (const auto found = settings->find(name); found != settings->end())
        return fmt::format("what was set ({}={})", name, found->second);
  if (all_on_one_host()) return "no network";
  const std::string chosen = tcp_interfaces(own_interfaces(), launcher_addresses(environment), traffic);
  if (chosen.empty()) return "all interfaces";
  set_default("btl_tcp_if_include", chosen);
  return fmt::format("{} on this host, as p5bench chose", chosen);
}

std::string choose_transport(bool control_plane_only) {
  const Environment environment = current_environment();
  const McaSettings files = mca_files(environment, folder_of_mpi(), read_file);
  if (control_plane_only) {
    const auto in_files = [&](const char* parameter) {
      const auto found = files.find(parameter);
      return found == files.end() ? std::string() : found->second;
    };
    set_default("pml", within_choice("ob1", in_files("pml")));
    set_default("btl", within_choice("tcp,vader,self", in_files("btl")));
  }
  return choose_interfaces(environment, files, control_plane_only ? Traffic::control : Traffic::measured);
}

}  // namespace

MpiJob::MpiJob(bool control_plane_only) {
  constexpr Seconds connectivity_limit{60};
  const Environment environment = current_environment();
  const LaunchedAs launch = launched_as(environment);
  go_without_launcher(launch, environment);
  const std::string ways = choose_transport(control_plane_only);
  int provided = 0, ranks = 1, rank = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  for (MPI_Comm each : {MPI_COMM_WORLD, MPI_COMM_SELF}) MPI_Comm_set_errhandler(each, MPI_ERRORS_RETURN);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  refuse_copies(launch, ranks);
  const std::string no_room = room_for_connections(ranks);
  if (rank == 0 && !no_room.empty()) throw UnreachableError(no_room);
  meet(connectivity_limit,
       fmt::format(
           "Open MPI's TCP between ranks goes over {}. Name the interface by which all hosts reach each other, as "
           "in mpirun --mca btl_tcp_if_include eth0 (with srun: OMPI_MCA_btl_tcp_if_include=eth0), and let "
           "firewalls pass TCP between the hosts",
           ways));
  auto post = std::make_unique<MpiTransport>();
  TreePosition place = post->place();
  control_ = make_world_by_host(std::move(post), std::move(place));
  if (!control_plane_only) refuse_little_room(*control_, no_room);
}

MpiJob::~MpiJob() {
  control_.reset();
  MPI_Finalize();
}

bool one_of_several() { return launched_as(current_environment()).of_several(); }

bool first_of_several() { return launched_as(current_environment()).rank == 0; }

bool started_by_launcher() {
  constexpr std::array more{"PMIX_RANK", "PMIX_NAMESPACE"};
  const auto set = [](const char* variable) { return std::getenv(variable) != nullptr; };
  // MPI sets some of these itself in a process that is alone, so the first answer stands; it is asked for before MPI.
  static const bool started = std::ranges::any_of(size_variables, set) || std::ranges::any_of(more, set);
  return started;
}

}  // namespace p5
