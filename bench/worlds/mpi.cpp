#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "bench/base/clock.hpp"
#include "bench/base/error.hpp"
#include "bench/worlds/interfaces.hpp"
#include "bench/worlds/launcher.hpp"
#include "bench/worlds/mca_settings.hpp"
#include "bench/worlds/meeting.hpp"
#include "bench/worlds/mpi_check.hpp"
#include "bench/worlds/worlds.hpp"

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

class MpiWorld final : public World {
 public:
  MpiWorld() {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
    check(MPI_Comm_dup(comm_, &alarms_));
    check(MPI_Comm_size(comm_, &size_));
    int rank = 0;
    check(MPI_Comm_rank(comm_, &rank));
    hosted_ = {rank};
  }
  ~MpiWorld() override {
    MPI_Comm_free(&alarms_);
    MPI_Comm_free(&comm_);
  }
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  int ranks() const override { return size_; }
  const std::vector<int>& hosted() const override { return hosted_; }
  bool leads() const override { return hosted_[0] == 0; }
  int participants() const override { return size_; }
  int participant() const override { return hosted_[0]; }

  // From one rank to one, so that the leader knows whose part has come. A rank may be a gather ahead: they have tags.
  std::vector<std::string> gather(const std::string& mine) override {
    const int tag = gathers_++ % most_tags;
    if (!leads()) {
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Isend(mine.data(), static_cast<int>(mine.size()), MPI_CHAR, 0, tag, comm_, &request));
      finish(request);
      return {};
    }
    std::vector<std::string> blobs(static_cast<std::size_t>(size_));
    blobs[0] = mine;
    expect_all_others();
    for (int left = size_ - 1; left > 0; --left) {
      MPI_Status status{};
      wait_until([&] {
        int there = 0;
        check(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm_, &there, &status));
        return there != 0;
      });
      int length = 0;
      check(MPI_Get_count(&status, MPI_CHAR, &length));
      std::string& blob = blobs[static_cast<std::size_t>(status.MPI_SOURCE)];
      blob.resize(static_cast<std::size_t>(length));
      check(MPI_Recv(blob.data(), length, MPI_CHAR, status.MPI_SOURCE, tag, comm_, MPI_STATUS_IGNORE));
      const std::lock_guard lock(awaited_mutex_);
      awaited_.erase(status.MPI_SOURCE);
    }
    return blobs;
  }

  std::vector<int> awaited() const override {
    const std::lock_guard lock(awaited_mutex_);
    return {awaited_.begin(), awaited_.end()};
  }

  std::string broadcast(const std::string& leaders) override {
    int length = static_cast<int>(leaders.size());
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(&length, 1, MPI_INT, 0, comm_, &request));
    finish(request);
    std::string text = leads() ? leaders : std::string(static_cast<std::size_t>(length), '\0');
    check(MPI_Ibcast(text.data(), length, MPI_CHAR, 0, comm_, &request));
    finish(request);
    return text;
  }

  // Small enough to leave at once; nobody waits for it to arrive.
  void raise_alarm(std::uint32_t epoch) override {
    const std::uint32_t& sent = raised_.emplace_back(epoch);
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == hosted_[0]) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_Isend(&sent, 1, MPI_UINT32_T, rank, 0, alarms_, &request));
      check(MPI_Request_free(&request));
    }
  }

  bool alarmed(std::uint32_t epoch) override {
    for (;;) {
      int there = 0;
      MPI_Status status{};
      check(MPI_Iprobe(MPI_ANY_SOURCE, 0, alarms_, &there, &status));
      if (!there) return heard_.contains(epoch);
      std::uint32_t said = 0;
      check(MPI_Recv(&said, 1, MPI_UINT32_T, status.MPI_SOURCE, 0, alarms_, MPI_STATUS_IGNORE));
      heard_.insert(said);
    }
  }

 private:
  void expect_all_others() {
    const std::lock_guard lock(awaited_mutex_);
    for (int rank = 1; rank < size_; ++rank) awaited_.insert(awaited_.end(), rank);
  }

  // MPI's own waiting keeps a core busy, which workers and other ranks of this host may need: after a while it sleeps.
  template <class Condition>
  static void wait_until(const Condition& come_true) {
    const Clock::time_point start = Clock::now();
    while (!come_true()) {
      if (Clock::now() - start > awake)
        std::this_thread::sleep_for(sleep);
      else
        std::this_thread::yield();
    }
  }

  static void finish(MPI_Request& request) {
    wait_until([&] {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      return done != 0;
    });
  }

  static constexpr std::chrono::microseconds awake{200}, sleep{50};
  MPI_Comm alarms_ = MPI_COMM_NULL;
  std::deque<std::uint32_t> raised_;  // messages on their way refer to these
  std::set<std::uint32_t> heard_;
  static constexpr int most_tags = 32768;  // what MPI allows at least
  int gathers_ = 0;
  mutable std::mutex awaited_mutex_;
  std::set<int> awaited_;
  MPI_Comm comm_ = MPI_COMM_NULL;
  int size_ = 1;
  std::vector<int> hosted_;
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
// them say so: nobody knows who else is there. They leave without MPI's farewells: it has only just started threads,
// which a farewell now may run into.
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
  const Environment environment = own_environment();
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
  constexpr Seconds longest_meeting{60};
  const Environment environment = own_environment();
  const LaunchedAs launch = launched_as(environment);
  go_without_launcher(launch, environment);
  const std::string ways = choose_transport(control_plane_only);
  int provided = 0, ranks = 1;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  for (MPI_Comm each : {MPI_COMM_WORLD, MPI_COMM_SELF}) MPI_Comm_set_errhandler(each, MPI_ERRORS_RETURN);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  refuse_copies(launch, ranks);
  meet(longest_meeting,
       fmt::format(
           "Open MPI's TCP between ranks goes over {}. Name the interface by which all hosts reach each other, as "
           "in mpirun --mca btl_tcp_if_include eth0 (with srun: OMPI_MCA_btl_tcp_if_include=eth0), and let "
           "firewalls pass TCP between the hosts",
           ways));
  world_ = std::make_unique<MpiWorld>();
}

MpiJob::~MpiJob() {
  world_.reset();
  MPI_Finalize();
}

bool one_of_several() { return launched_as(own_environment()).of_several(); }

bool first_of_several() { return launched_as(own_environment()).rank == 0; }

bool started_by_launcher() {
  constexpr std::array more{"PMIX_RANK", "PMIX_NAMESPACE"};
  const auto set = [](const char* variable) { return std::getenv(variable) != nullptr; };
  return std::ranges::any_of(size_variables, set) || std::ranges::any_of(more, set);
}

}  // namespace p5
