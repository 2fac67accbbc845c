#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <functional>
#include <limits>
#include <list>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/thread.hpp"
#include "bench/base/units.hpp"
#include "bench/base/wire.hpp"
#include "bench/control/control_planes.hpp"
#include "bench/control/host_tree.hpp"
#include "bench/control/interfaces.hpp"
#include "bench/control/launcher.hpp"

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

// Control messages over a communicator of their own.
class MpiTransport final : public ControlTransport {
 public:
  MpiTransport() {
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
    check(MPI_Comm_size(comm_, &size_));
    check(MPI_Comm_rank(comm_, &rank_));
  }
  // Waits a limited time for unreceived messages.
  ~MpiTransport() override {
    const Clock::time_point start = Clock::now();
    while (!all_left() && since(start).count < teardown_limit.count) pause(start);
    for (PendingSend& each : pending_) MPI_Request_free(&each.request);
    MPI_Comm_free(&comm_);
  }
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int participants() const override { return size_; }
  int participant() const override { return rank_; }

  void send(int to, std::string text) override {
    if (text.size() > std::numeric_limits<int>::max())
      throw std::length_error(fmt::format("{} bytes for rank {}: MPI takes no more than 2 GiB", text.size(), to));
    PendingSend& message = pending_.emplace_back(PendingSend{std::move(text), MPI_REQUEST_NULL});
    check(MPI_Isend(message.text.data(), static_cast<int>(message.text.size()), MPI_CHAR, to, tag, comm_,
                    &message.request));
    all_left();
  }

  bool all_left() override {
    std::erase_if(pending_, [](PendingSend& each) {
      int done = 0;
      check(MPI_Test(&each.request, &done, MPI_STATUS_IGNORE));
      return done != 0;
    });
    return pending_.empty();
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

  // MPI's blocking calls keep a core busy, which workers and other ranks of this host may need: this one sleeps after a
  // while.
  void pause(Clock::time_point waiting_since) override {
    constexpr std::chrono::microseconds awake{200}, sleep{50};
    if (Clock::now() - waiting_since > awake)
      std::this_thread::sleep_for(sleep);
    else
      std::this_thread::yield();
  }

  // Positions by the kernel's host names, which are independent of containers and variables. Hosts with the same name
  // count as one, and their messages take a longer path. Each rank receives only its own position.
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
      for (const TreePosition& each : build_tree(number_hosts(names))) {
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
  std::list<PendingSend> pending_;
};

// Value of the first of these variables that is set.
template <std::size_t count>
int number_from(const std::array<const char*, count>& variables, int otherwise) {
  for (const char* variable : variables)
    if (const char* text = std::getenv(variable); text && *text) return std::atoi(text);
  return otherwise;
}

constexpr std::array size_variables{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};

// A launcher of another MPI library starts n processes that each believe to be alone: n wrong results. Each process
// reports it, because none knows the others. They exit without MPI_Finalize, which may run into threads that MPI_Init
// has just started.
void check_job_size(const LauncherInfo& launch, int ranks) {
  if (const std::string objection = job_mismatch(launch, ranks); !objection.empty()) throw UnreachableError(objection);
}

// A single task of srun needs no job: without this variable Open MPI ignores it.
void prepare_singleton(const LauncherInfo& launch, const Environment& environment) {
  if (!has_no_process_manager(environment)) return;
  check_job_size(launch, 1);
  if (environment.contains("SLURM_STEP_ID")) unsetenv("SLURM_NODELIST");
}

// True if the launcher reports a single host: interfaces are not used then, and none is chosen. Within a Slurm job,
// mpirun starts its daemons by srun, so that Slurm's step variables describe them and not the ranks.
bool all_on_one_host() {
  const int ranks = number_from(size_variables, 1);
  const bool by_mpirun = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  return number_from(std::array{"OMPI_COMM_WORLD_LOCAL_SIZE"}, 0) == ranks ||
         (!by_mpirun && number_from(std::array{"SLURM_STEP_NUM_NODES"}, 0) == 1) || !started_by_launcher();
}

// Open MPI's TCP needs a connection for each rank of another host that a rank communicates with, and hangs at the limit
// of open files. Returns "" or the error message.
std::string raise_limit_for_connections(int ranks) {
  if (all_on_one_host()) return "";
  const int here = number_from(std::array{"OMPI_COMM_WORLD_LOCAL_SIZE"}, 1);
  return raise_open_file_limit(static_cast<std::uint64_t>(std::max(0, ranks - here)));
}

// With data over MPI each rank may communicate with each other one; otherwise only rank 0 does, which was checked
// before, and `mine` is empty.
void check_connection_limits(ControlPlane& control, const std::string& mine) {
  const std::vector<std::string> all = control.gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) throw UnreachableError(fmt::format("rank {}: {}", rank, all[rank]));
}

// MPI parameters are set by environment variables before MPI_Init.
void set_default(const std::string& parameter, const std::string& value) {
  if (!value.empty()) setenv(("OMPI_MCA_" + parameter).c_str(), value.c_str(), /*overwrite=*/0);
}

// Chooses the interfaces of Open MPI's TCP unless the operator did; returns them as text for messages.
std::string choose_interfaces(const Environment& environment, const McaSettings& files, Traffic traffic) {
  const McaSettings variables = mca_variables(environment);
  for (const char* const name : {"btl_tcp_if_include", "btl_tcp_if_exclude"})
    for (const McaSettings* const settings : {&variables, &files})
      if (const auto found = settings->find(name); found != settings->end())
        return fmt::format("what was set ({}={})", name, found->second);
  if (all_on_one_host()) return "no network";
  const std::string chosen = tcp_interfaces(list_interfaces(), launcher_addresses(environment), traffic);
  if (chosen.empty()) return "all interfaces";
  set_default("btl_tcp_if_include", chosen);
  return fmt::format("{} on this host, as p5bench chose", chosen);
}

std::string choose_transport(bool control_plane_only) {
  const Environment environment = current_environment();
  const McaSettings files = mca_files(environment, mpi_library_folder(), read_file);
  if (control_plane_only) {
    set_default("pml", restrict_to_choice("ob1", value_or_empty(files, "pml")));
    set_default("btl", restrict_to_choice("tcp,vader,self", value_or_empty(files, "btl")));
  }
  return choose_interfaces(environment, files, control_plane_only ? Traffic::control : Traffic::measured);
}

}  // namespace

MpiJob::MpiJob(bool control_plane_only) {
  constexpr Seconds connectivity_limit{60};
  const Environment environment = current_environment();
  const LauncherInfo launch = detect_launcher(environment);
  prepare_singleton(launch, environment);
  const std::string interfaces = choose_transport(control_plane_only);
  int provided = 0, ranks = 1, rank = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  for (MPI_Comm each : {MPI_COMM_WORLD, MPI_COMM_SELF}) MPI_Comm_set_errhandler(each, MPI_ERRORS_RETURN);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  check_job_size(launch, ranks);
  const std::string limit_error = raise_limit_for_connections(ranks);
  if (rank == 0 && !limit_error.empty()) throw UnreachableError(limit_error);
  check_connectivity(
      connectivity_limit,
      fmt::format(
          "Open MPI's TCP between ranks goes over {}. Name the interface by which all hosts reach each other, as "
          "in mpirun --mca btl_tcp_if_include eth0 (with srun: OMPI_MCA_btl_tcp_if_include=eth0), and let "
          "firewalls pass TCP between the hosts",
          interfaces));
  auto transport = std::make_unique<MpiTransport>();
  TreePosition place = transport->place();
  control_ = make_host_tree(std::move(transport), std::move(place));
  check_connection_limits(*control_, control_plane_only ? "" : limit_error);
}

MpiJob::~MpiJob() {
  control_.reset();
  MPI_Finalize();
}

bool has_launched_peers() { return detect_launcher(current_environment()).has_peers(); }

bool is_first_launched() { return detect_launcher(current_environment()).rank == 0; }

bool started_by_launcher() {
  constexpr std::array more{"PMIX_RANK", "PMIX_NAMESPACE"};
  const auto set = [](const char* variable) { return std::getenv(variable) != nullptr; };
  // MPI sets some of these itself in a singleton, so the first result is kept; it is computed before MPI_Init.
  static const bool started = std::ranges::any_of(size_variables, set) || std::ranges::any_of(more, set);
  return started;
}

namespace {

using mpi::check;

// Above btl_tcp_eager_limit, so that MPI stripes it over all its connections.
constexpr int load_bytes = 256 << 10;
constexpr std::size_t max_hosts_named = 16;
// After this time without an answer, a rank publishes its host name where rank 0 finds it without TCP between ranks.
constexpr Seconds publish_after{5};
// The other ranks wait this much longer than rank 0, which reports first.
constexpr Seconds grace{15};

using Name = std::array<char, 256>;
enum Tag : int { name_tag, wanted_tag, load_tag };

Name own_name() {
  Name name{};
  gethostname(name.data(), name.size() - 1);
  return name;
}

// The launcher stores published names, without MPI connections.
std::string service_name(int rank) { return fmt::format("p5bench-host-of-rank-{}", rank); }

void publish_name(int rank) { MPI_Publish_name(service_name(rank).c_str(), MPI_INFO_NULL, own_name().data()); }

std::string published_name(int rank) {
  std::array<char, MPI_MAX_PORT_NAME> name{};
  if (MPI_Lookup_name(service_name(rank).c_str(), MPI_INFO_NULL, name.data()) != MPI_SUCCESS) return "";
  return name.data();
}

// Waits for requests with a common deadline. Completed ones become MPI_REQUEST_NULL.
class RequestDeadline {
 public:
  explicit RequestDeadline(Seconds limit) : limit_(limit) {}

  // Returns true if all completed. MPI_Wait would keep a core busy, which other ranks of this host may need.
  bool wait(std::vector<MPI_Request>& requests) {
    for (Clock::time_point begin = Clock::now();;) {
      bool all = true;
      for (MPI_Request& request : requests) {
        int done = 1;
        if (request != MPI_REQUEST_NULL) check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        all = all && done != 0;
      }
      if (all) return true;
      const double waited = since(start_).count;
      if (waited > limit_.count) return false;
      if (waited > publish_after.count && on_delay_) std::exchange(on_delay_, nullptr)();
      if (since(begin).count > awake.count)
        std::this_thread::sleep_for(sleep);
      else
        std::this_thread::yield();
    }
  }
  void on_delay(std::function<void()> action) { on_delay_ = std::move(action); }

 private:
  static constexpr Seconds awake{0.01};
  static constexpr std::chrono::milliseconds sleep{1};
  Clock::time_point start_ = Clock::now();
  Seconds limit_;
  std::function<void()> on_delay_;
};

MPI_Request receive(void* data, int bytes, int rank, Tag tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Irecv(data, bytes, MPI_CHAR, rank, tag, MPI_COMM_WORLD, &request));
  return request;
}

MPI_Request send(const void* data, int bytes, int rank, Tag tag) {
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(data, bytes, MPI_CHAR, rank, tag, MPI_COMM_WORLD, &request));
  return request;
}

// Rank 0's side of the connectivity check.
class ConnectivityLeader {
 public:
  ConnectivityLeader(int ranks, Seconds limit, std::string remedy)
      : ranks_(ranks), limit_(limit), remedy_(std::move(remedy)), deadline_(limit), names_(size()) {}

  void check_all() {
    std::vector<MPI_Request> requests(size(), MPI_REQUEST_NULL);
    for (int rank = 1; rank < ranks_; ++rank)
      requests[at(rank)] = receive(&names_[at(rank)], sizeof(Name), rank, name_tag);
    wait(requests);

    const std::set<int> first = first_of_hosts();
    std::vector<char> wanted(size(), 0);
    std::vector<std::vector<char>> loads(size());
    for (int rank = 1; rank < ranks_; ++rank) {
      wanted[at(rank)] = first.contains(rank) ? 1 : 0;
      requests[at(rank)] = send(&wanted[at(rank)], 1, rank, wanted_tag);
    }
    wait(requests);
    for (const int rank : first) {
      loads[at(rank)].resize(load_bytes);
      requests[at(rank)] = receive(loads[at(rank)].data(), load_bytes, rank, load_tag);
    }
    wait(requests);

    std::vector<MPI_Request> barrier(1);
    check(MPI_Ibarrier(MPI_COMM_WORLD, &barrier[0]));
    if (!deadline_.wait(barrier))
      throw UnreachableError(
          fmt::format("all hosts were heard of over MPI here, but within {:.0f} s not all by each other. {}",
                      limit_.count, remedy_));
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(ranks_); }
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }
  std::string name(int rank) const { return names_[at(rank)].data(); }

  std::set<int> first_of_hosts() const {
    std::set<int> first;
    std::set<std::string> hosts{own_name().data()};
    for (int rank = 1; rank < ranks_; ++rank)
      if (hosts.insert(name(rank)).second) first.insert(rank);
    return first;
  }

  // `requests` are indexed by rank.
  void wait(std::vector<MPI_Request>& requests) {
    if (deadline_.wait(requests)) return;
    std::vector<UnreachableRank> unreachable;
    for (int rank = 1; rank < ranks_; ++rank)
      if (requests[at(rank)] != MPI_REQUEST_NULL)
        unreachable.push_back({rank, *names_[at(rank)].data() ? name(rank) : published_name(rank)});
    throw UnreachableError(
        fmt::format("not heard of over MPI within {:.0f} s: {}. {}", limit_.count, describe(unreachable), remedy_));
  }

  int ranks_;
  Seconds limit_;
  std::string remedy_;
  RequestDeadline deadline_;
  std::vector<Name> names_;
};

void check_as_peer(int rank, Seconds limit) {
  RequestDeadline deadline({limit.count + grace.count});
  deadline.on_delay([rank] { publish_name(rank); });
  const Name name = own_name();
  char wanted = 0;
  std::vector<MPI_Request> requests{send(name.data(), sizeof name, 0, name_tag), receive(&wanted, 1, 0, wanted_tag)};
  const std::vector<char> load(load_bytes);
  bool connected = deadline.wait(requests);
  if (connected && wanted != 0) {
    requests = {send(load.data(), load_bytes, 0, load_tag)};
    connected = deadline.wait(requests);
  }
  if (connected) {
    requests.assign(1, MPI_REQUEST_NULL);
    check(MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]));
    connected = deadline.wait(requests);
  }
  if (!connected) throw UnreachableError("");
}

}  // namespace

std::string describe(const std::vector<UnreachableRank>& unreachable) {
  std::vector<std::pair<std::string, std::vector<std::string>>> hosts;
  for (const auto& [rank, host] : unreachable) {
    auto found = std::ranges::find(hosts, host, [](const auto& each) { return each.first; });
    if (found == hosts.end()) found = hosts.insert(hosts.end(), {host, {}});
    found->second.push_back(std::to_string(rank));
  }
  std::vector<std::string> texts;
  for (const auto& [host, ranks] : hosts) {
    const std::string of_ranks = fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", join(ranks));
    texts.push_back(host.empty() ? of_ranks : fmt::format("{} ({})", host, of_ranks));
  }
  if (texts.size() > max_hosts_named) {
    const std::size_t more = texts.size() - max_hosts_named;
    texts.resize(max_hosts_named);
    texts.push_back(fmt::format("and {} more", more));
  }
  return join(texts);
}

// Open MPI's shared memory takes address space. Ranks of one host for which it fails may not reach each other.
static std::string remedy_for_memory_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format(
      ". A process here may take only {} KiB of memory (ulimit -v), Open MPI's shared memory included: raise that "
      "limit",
      limit.rlim_cur / 1024);
}

void check_connectivity(Seconds limit, const std::string& remedy) {
  int ranks = 1, rank = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  if (rank == 0)
    ConnectivityLeader(ranks, limit, remedy + remedy_for_memory_limit()).check_all();
  else
    check_as_peer(rank, limit);
}

}  // namespace p5
