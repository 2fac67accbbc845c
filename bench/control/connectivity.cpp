#include "bench/control/connectivity.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/names.hpp"
#include "bench/base/units.hpp"
#include "bench/control/mpi_check.hpp"

namespace p5 {

namespace {

using mpi::check;

// Beyond what TCP sends at once (btl_tcp_eager_limit), so that MPI spreads it over all its connections.
constexpr int load_bytes = 256 << 10;
constexpr std::size_t most_hosts_named = 16;
// A rank that is not answered leaves its host's name where rank 0 finds it without TCP between ranks.
constexpr Seconds uneasy{5};
// How much longer than rank 0 the others wait: it speaks first.
constexpr Seconds grace{15};

using Name = std::array<char, 256>;
enum Tag : int { name_tag, wanted_tag, load_tag };

Name own_name() {
  Name name{};
  gethostname(name.data(), name.size() - 1);
  return name;
}

// The launcher keeps what was published; MPI connections have no part in it.
std::string board_of(int rank) { return fmt::format("p5bench-host-of-rank-{}", rank); }

void publish_name(int rank) { MPI_Publish_name(board_of(rank).c_str(), MPI_INFO_NULL, own_name().data()); }

std::string published_name(int rank) {
  std::array<char, MPI_MAX_PORT_NAME> name{};
  if (MPI_Lookup_name(board_of(rank).c_str(), MPI_INFO_NULL, name.data()) != MPI_SUCCESS) return "";
  return name.data();
}

// Requests that have to end within a time. Completed ones become MPI_REQUEST_NULL.
class RequestDeadline {
 public:
  explicit RequestDeadline(Seconds limit) : limit_(limit) {}

  // Whether all ended. MPI's own waiting keeps a core busy, which other ranks of this host may need.
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
      if (waited > uneasy.count && when_uneasy_) std::exchange(when_uneasy_, nullptr)();
      if (since(begin).count > awake.count)
        std::this_thread::sleep_for(sleep);
      else
        std::this_thread::yield();
    }
  }
  void when_uneasy(std::function<void()> action) { when_uneasy_ = std::move(action); }

 private:
  static constexpr Seconds awake{0.01};
  static constexpr std::chrono::milliseconds sleep{1};
  Clock::time_point start_ = Clock::now();
  Seconds limit_;
  std::function<void()> when_uneasy_;
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
class Host {
 public:
  Host(int ranks, Seconds limit, std::string remedy)
      : ranks_(ranks), limit_(limit), remedy_(std::move(remedy)), patience_(limit), names_(size()) {}

  void meet() {
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
    if (!patience_.wait(barrier))
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

  // `requests` by rank.
  void wait(std::vector<MPI_Request>& requests) {
    if (patience_.wait(requests)) return;
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
  RequestDeadline patience_;
  std::vector<Name> names_;
};

void meet_as_guest(int rank, Seconds limit) {
  RequestDeadline patience({limit.count + grace.count});
  patience.when_uneasy([rank] { publish_name(rank); });
  const Name name = own_name();
  char wanted = 0;
  std::vector<MPI_Request> requests{send(name.data(), sizeof name, 0, name_tag), receive(&wanted, 1, 0, wanted_tag)};
  const std::vector<char> load(load_bytes);
  bool met = patience.wait(requests);
  if (met && wanted != 0) {
    requests = {send(load.data(), load_bytes, 0, load_tag)};
    met = patience.wait(requests);
  }
  if (met) {
    requests.assign(1, MPI_REQUEST_NULL);
    check(MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]));
    met = patience.wait(requests);
  }
  if (!met) throw UnreachableError("");
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
  if (texts.size() > most_hosts_named) {
    const std::size_t more = texts.size() - most_hosts_named;
    texts.resize(most_hosts_named);
    texts.push_back(fmt::format("and {} more", more));
  }
  return join(texts);
}

void meet(Seconds limit, const std::string& remedy) {
  int ranks = 1, rank = 0;
  check(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  if (rank == 0)
    Host(ranks, limit, remedy).meet();
  else
    meet_as_guest(rank, limit);
}

}  // namespace p5
