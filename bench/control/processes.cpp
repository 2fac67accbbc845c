#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/base/error.hpp"
#include "bench/base/units.hpp"
#include "bench/control/control_planes.hpp"

namespace p5 {

namespace {

// Alarms of all, in memory that all share: a ring of epochs, 0 where there is none yet. The oldest make room; theirs is
// work that nobody does any more.
class AbortPage {
 public:
  AbortPage() {
    void* const mapped =
        ::mmap(nullptr, sizeof(Content), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, /*fd=*/-1, 0);
    if (mapped == MAP_FAILED) throw EnvironmentError(fmt::format("memory for processes: {}", std::strerror(errno)));
    content_ = static_cast<Content*>(mapped);  // all zero
  }
  ~AbortPage() { ::munmap(content_, sizeof(Content)); }
  AbortPage(const AbortPage&) = delete;
  AbortPage& operator=(const AbortPage&) = delete;

  void raise(std::uint32_t epoch) {
    if (!raised(epoch)) content_->epochs[content_->count.fetch_add(1) % content_->epochs.size()].store(epoch);
  }
  bool raised(std::uint32_t epoch) const {
    return std::ranges::any_of(content_->epochs, [&](const auto& each) { return each.load() == epoch; });
  }

 private:
  struct Content {
    std::array<std::atomic<std::uint32_t>, 255> epochs;
    std::atomic<std::uint32_t> count;
  };
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

  Content* content_ = nullptr;
};

// A message is its length and its bytes. False where the other side is gone.
bool send_message(int socket, const std::string& text) {
  const std::uint64_t length = text.size();
  std::string all(sizeof length, '\0');
  std::memcpy(all.data(), &length, sizeof length);
  all += text;
  for (std::size_t sent = 0; sent < all.size();) {
    const ssize_t now = ::send(socket, all.data() + sent, all.size() - sent, MSG_NOSIGNAL);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    sent += static_cast<std::size_t>(now);
  }
  return true;
}

// A message of which some may have come. Takes nothing of the next one.
class Incoming {
 public:
  enum class State { open, whole, gone };

  // Waits for something of it.
  State receive(int socket) {
    const std::size_t wanted = length_ ? *length_ : sizeof(std::uint64_t);
    std::array<char, 4096> piece{};
    if (text_.size() < wanted) {
      const ssize_t got = ::recv(socket, piece.data(), std::min(piece.size(), wanted - text_.size()), 0);
      if (got < 0 && errno == EINTR) return State::open;
      if (got <= 0) return State::gone;
      text_.append(piece.data(), static_cast<std::size_t>(got));
    }
    if (text_.size() < wanted) return State::open;
    if (length_) return State::whole;
    std::uint64_t length = 0;
    std::memcpy(&length, text_.data(), sizeof length);
    length_ = length;
    text_.clear();
    return length == 0 ? State::whole : State::open;
  }
  std::string take() { return std::move(text_); }

 private:
  std::optional<std::uint64_t> length_;
  std::string text_;  // until the length is known, what there is of that
};

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

// One end of the star. At the leader a socket for each other rank, elsewhere the one to the leader.
class ForkedRanks final : public ControlPlane {
 public:
  ForkedRanks(int ranks, Seconds teardown_limit) : teardown_limit_(teardown_limit), size_(ranks) {}
  // At the leader: waits for the others to end. What was said to them can still be heard.
  ~ForkedRanks() override {
    for (const Peer& peer : peers_) ::close(peer.socket);
    if (is_leader()) wait_for_ends();
  }
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  int ranks() const override { return size_; }
  const std::vector<int>& hosted() const override { return hosted_; }
  bool is_leader() const override { return hosted_.front() == 0; }
  int participants() const override { return size_; }
  int participant() const override { return hosted_.front(); }

  std::vector<std::string> gather(const std::string& mine) override {
    if (!is_leader()) {
      if (!send_message(peers_.front().socket, mine)) throw_leader_gone();
      return {};
    }
    std::vector<std::string> all(static_cast<std::size_t>(size_));
    all.front() = mine;
    std::vector<Incoming> parts(peers_.size());
    await([&](std::set<int>& awaited) {
      for (const Peer& peer : peers_) awaited.insert(peer.rank);
    });
    for (std::vector<int> left = missing_participants(); !left.empty(); left = missing_participants()) {
      std::vector<pollfd> waiting;
      for (const int rank : left) waiting.push_back({.fd = peer_of(rank).socket, .events = POLLIN, .revents = 0});
      if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
      for (std::size_t i = 0; i < left.size(); ++i) {
        if (waiting[i].revents == 0) continue;
        Incoming& part = parts[static_cast<std::size_t>(left[i]) - 1];
        const Incoming::State state = part.receive(waiting[i].fd);
        if (state == Incoming::State::gone) throw_gone(peer_of(left[i]));
        if (state == Incoming::State::open) continue;
        all[static_cast<std::size_t>(left[i])] = part.take();
        await([&](std::set<int>& awaited) { awaited.erase(left[i]); });
      }
    }
    return all;
  }

  std::string broadcast(const std::string& leaders) override {
    if (is_leader()) {
      for (Peer& peer : peers_)
        if (!send_message(peer.socket, leaders)) throw_gone(peer);
      return leaders;
    }
    Incoming message;
    for (;;) {
      const Incoming::State state = message.receive(peers_.front().socket);
      if (state == Incoming::State::gone) throw_leader_gone();
      if (state == Incoming::State::whole) return message.take();
    }
  }

  void notify_abort(std::uint32_t epoch) override { aborts_.raise(epoch); }
  bool abort_notified(std::uint32_t epoch) override { return aborts_.raised(epoch); }

  std::vector<int> missing_participants() const override {
    const std::lock_guard lock(mutex_);
    return {awaited_.begin(), awaited_.end()};
  }

  // A process more; in it, it is all that this one knows of the job.
  void fork_rank(int rank) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw EnvironmentError(fmt::format("a connection between processes: {}", std::strerror(errno)));
    const pid_t parent = ::getpid(), child = ::fork();
    if (child != 0) {
      ::close(ends[1]);
      if (child > 0) return peers_.push_back({rank, ends[0], child, std::nullopt});
      const int problem = errno;
      ::close(ends[0]);
      throw EnvironmentError(fmt::format("no process can be started: {}. Raise the limit of processes (ulimit -u)",
                                         std::strerror(problem)));
    }
    // A parent that went before this took effect is somebody else by now.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) std::_Exit(static_cast<int>(ExitCode::unfinished));
    ::close(ends[0]);
    for (const Peer& peer : peers_) ::close(peer.socket);
    hosted_ = {rank};
    peers_ = {{0, ends[1], parent, std::nullopt}};
  }

 private:
  struct Peer {
    int rank = 0;
    int socket = -1;
    pid_t process = -1;
    std::optional<int> status;  // once it has ended, as waitpid tells it
  };
  static constexpr Seconds to_be_gone{0.5};

  // Those that are still there after so long are killed.
  void wait_for_ends() {
    const auto start = Clock::now();
    for (bool killed = false;;) {
      const auto left = std::ranges::count_if(peers_, [](Peer& peer) { return !has_ended(peer); });
      if (left == 0 || since(start).count > teardown_limit_.count + to_be_gone.count) return;
      if (since(start).count > teardown_limit_.count && !std::exchange(killed, true))
        for (const Peer& peer : peers_)
          if (!peer.status) ::kill(peer.process, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  static bool has_ended(Peer& peer) {
    int status = 0;
    if (!peer.status && ::waitpid(peer.process, &status, WNOHANG) == peer.process) peer.status = status;
    return peer.status.has_value();
  }

  Peer& peer_of(int rank) { return peers_.at(static_cast<std::size_t>(rank) - 1); }

  template <class Change>
  void await(const Change& change) {
    const std::lock_guard lock(mutex_);
    change(awaited_);
  }

  // Its end of the socket is closed: it is about to end, unless it did that itself.
  [[noreturn]] void throw_gone(Peer& peer) {
    const auto start = Clock::now();
    while (!has_ended(peer) && since(start).count < to_be_gone.count)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    throw JobLost(fmt::format("rank {} ended before the job did (process {}, {})", peer.rank, peer.process,
                              peer.status ? how_it_ended(*peer.status) : "which is still there"));
  }

  [[noreturn]] static void throw_leader_gone() { throw JobLost("the leader ended before the job did"); }

  const Seconds teardown_limit_;
  AbortPage aborts_;  // forked with this, so that all have the same
  const int size_;
  std::vector<int> hosted_{0};
  std::vector<Peer> peers_;  // by rank
  mutable std::mutex mutex_;
  std::set<int> awaited_;
};

}  // namespace

ProcessJob::ProcessJob(int ranks, Seconds teardown_limit) {
  auto star = std::make_unique<ForkedRanks>(ranks, teardown_limit);
  for (int rank = 1; rank < ranks && star->is_leader(); ++rank) star->fork_rank(rank);
  control_ = std::move(star);
}

}  // namespace p5
