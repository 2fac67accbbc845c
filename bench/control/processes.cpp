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
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
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

// Abort notices of all ranks in shared memory: a ring of epochs, 0 for unused entries. New epochs overwrite the oldest,
// whose work is over.
class AbortPage {
 public:
  AbortPage() {
    void* const mapped =
        ::mmap(nullptr, sizeof(Content), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, /*fd=*/-1, 0);
    if (mapped == MAP_FAILED) throw EnvironmentError(fmt::format("memory for processes: {}", std::strerror(errno)));
    content_ = static_cast<Content*>(mapped);  // zero-initialized
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

// Sends length and bytes. Returns false if the peer is gone.
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

// A partially received message. Reads nothing of the next one.
class Incoming {
 public:
  enum class State { partial, complete, closed };

  // Blocks until more of it arrives.
  State receive(int socket) {
    const std::size_t wanted = length_ ? *length_ : sizeof(std::uint64_t);
    std::array<char, 4096> piece{};
    if (text_.size() < wanted) {
      const ssize_t got = ::recv(socket, piece.data(), std::min(piece.size(), wanted - text_.size()), 0);
      if (got < 0 && errno == EINTR) return State::partial;
      if (got <= 0) return State::closed;
      text_.append(piece.data(), static_cast<std::size_t>(got));
    }
    if (text_.size() < wanted) return State::partial;
    if (length_) return State::complete;
    std::uint64_t length = 0;
    std::memcpy(&length, text_.data(), sizeof length);
    length_ = length;
    text_.clear();
    return length == 0 ? State::complete : State::partial;
  }
  std::string take() { return std::move(text_); }

 private:
  std::optional<std::uint64_t> length_;
  std::string text_;  // holds the length until it is complete
};

std::string describe_exit(int status) {
  if (WIFSIGNALED(status)) return fmt::format("ended by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

// One end of a star of sockets: the leader has one to each other rank, the others have one to the leader.
class ForkedRanks final : public ControlPlane {
 public:
  ForkedRanks(int ranks, Seconds teardown_limit) : teardown_limit_(teardown_limit), size_(ranks) {}
  // The leader waits for the others to end. Messages already sent to them can still be received.
  ~ForkedRanks() override {
    for (const Peer& peer : peers_) ::close(peer.socket);
    if (is_leader()) reap_children();
  }
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  int ranks() const override { return size_; }
  const std::vector<int>& hosted() const override { return hosted_; }

  std::vector<std::string> gather(const std::string& mine) override {
    if (!is_leader()) {
      if (!send_message(peers_.front().socket, mine)) throw_leader_gone();
      return {};
    }
    std::vector<std::string> all(static_cast<std::size_t>(size_));
    all.front() = mine;
    std::vector<Incoming> parts(peers_.size());
    update_awaited([&](std::set<int>& awaited) {
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
        if (state == Incoming::State::closed) throw_peer_gone(peer_of(left[i]));
        if (state == Incoming::State::partial) continue;
        all[static_cast<std::size_t>(left[i])] = part.take();
        update_awaited([&](std::set<int>& awaited) { awaited.erase(left[i]); });
      }
    }
    return all;
  }

  std::string broadcast(const std::string& text_of_leader) override {
    if (is_leader()) {
      for (Peer& peer : peers_)
        if (!send_message(peer.socket, text_of_leader)) throw_peer_gone(peer);
      return text_of_leader;
    }
    Incoming message;
    for (;;) {
      const Incoming::State state = message.receive(peers_.front().socket);
      if (state == Incoming::State::closed) throw_leader_gone();
      if (state == Incoming::State::complete) return message.take();
    }
  }

  void notify_abort(std::uint32_t epoch) override { aborts_.raise(epoch); }
  bool abort_notified(std::uint32_t epoch) override { return aborts_.raised(epoch); }

  std::vector<int> missing_participants() const override {
    const std::lock_guard lock(mutex_);
    return {awaited_.begin(), awaited_.end()};
  }

  // Forks a process; the child keeps only its own rank and connection.
  void fork_rank(int rank) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw EnvironmentError(fmt::format("a connection between processes: {}", describe_errno(errno)));
    const pid_t parent = ::getpid(), child = ::fork();
    if (child != 0) {
      ::close(ends[1]);
      if (child > 0) return peers_.push_back({rank, ends[0], child, std::nullopt});
      const int problem = errno;
      ::close(ends[0]);
      throw EnvironmentError(fmt::format("no process can be started: {}. Raise the limit of processes (ulimit -u)",
                                         std::strerror(problem)));
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::raise(SIGKILL);  // the parent ended before prctl took effect
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
    std::optional<int> status;  // exit status as of waitpid
  };
  static constexpr Seconds exit_grace{0.5};

  // Waits for all children; kills the rest after the limit.
  void reap_children() {
    const auto start = Clock::now();
    for (bool killed = false;;) {
      const auto left = std::ranges::count_if(peers_, [](Peer& peer) { return !has_ended(peer); });
      if (left == 0 || since(start).count > teardown_limit_.count + exit_grace.count) return;
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
  void update_awaited(const Change& change) {
    const std::lock_guard lock(mutex_);
    change(awaited_);
  }

  // A peer whose socket is closed has ended or is about to.
  [[noreturn]] void throw_peer_gone(Peer& peer) {
    const auto start = Clock::now();
    while (!has_ended(peer) && since(start).count < exit_grace.count)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    throw JobLost(fmt::format("rank {} ended before the job did (process {}, {})", peer.rank, peer.process,
                              peer.status ? describe_exit(*peer.status) : "which is still there"));
  }

  [[noreturn]] static void throw_leader_gone() { throw JobLost("the leader ended before the job did"); }

  const Seconds teardown_limit_;
  AbortPage aborts_;  // shared with the forked processes
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

namespace {

// State shared by the threads. A barrier ends when all have arrived; a thread that failed breaks it.
struct SharedBarrier {
  explicit SharedBarrier(int count) : expected(count) {
    for (std::vector<std::string>& each : texts) each.resize(static_cast<std::size_t>(count));
  }

  void arrive(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t mine = generation;
    if (++arrived == expected) {
      arrived = 0;
      ++generation;
      lock.unlock();  // for which those that wake would wait again
      changed.notify_all();
      lock.lock();
      return;
    }
    changed.wait(lock, [&] { return generation != mine || broken; });
    if (generation == mine) throw JobLost("another rank ended before the job did");
  }

  std::mutex mutex;
  std::condition_variable changed;
  const int expected;
  int arrived = 0;
  std::uint64_t generation = 0;
  bool broken = false;
  std::exception_ptr first_problem;
  // Two steps, the current one and the next, suffice: each has a barrier, so that no rank is two steps ahead.
  std::array<std::vector<std::string>, 2> texts;
  std::array<std::string, 2> text_of_leader;
  std::set<std::uint32_t> aborts;
};

class ThreadControlPlane final : public ControlPlane {
 public:
  ThreadControlPlane(SharedBarrier& barrier_state, int rank) : barrier_(barrier_state), hosted_{rank} {}
  int ranks() const override { return barrier_.expected; }
  const std::vector<int>& hosted() const override { return hosted_; }

  std::vector<std::string> gather(const std::string& mine) override {
    std::unique_lock lock(barrier_.mutex);
    std::vector<std::string>& texts = barrier_.texts[step_++ % 2];
    texts[static_cast<std::size_t>(hosted_[0])] = mine;
    barrier_.arrive(lock);
    return is_leader() ? texts : std::vector<std::string>{};
  }

  std::string broadcast(const std::string& text_of_leader) override {
    std::unique_lock lock(barrier_.mutex);
    std::string& text = barrier_.text_of_leader[step_++ % 2];
    if (is_leader()) text = text_of_leader;
    barrier_.arrive(lock);
    return text;
  }

  void notify_abort(std::uint32_t epoch) override {
    const std::lock_guard lock(barrier_.mutex);
    barrier_.aborts.insert(epoch);
  }
  bool abort_notified(std::uint32_t epoch) override {
    const std::lock_guard lock(barrier_.mutex);
    return barrier_.aborts.contains(epoch);
  }

 private:
  SharedBarrier& barrier_;
  std::vector<int> hosted_;
  std::size_t step_ = 0;
};

}  // namespace

void run_threads(int ranks, const std::function<void(ControlPlane&)>& body) {
  SharedBarrier barrier_state(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadControlPlane control(barrier_state, rank);
      try {
        body(control);
      } catch (...) {
        const std::lock_guard lock(barrier_state.mutex);
        if (!barrier_state.first_problem) barrier_state.first_problem = std::current_exception();
        barrier_state.broken = true;
        barrier_state.changed.notify_all();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (barrier_state.first_problem) std::rethrow_exception(barrier_state.first_problem);
}

namespace {

class SoloControlPlane final : public ControlPlane {
 public:
  explicit SoloControlPlane(int ranks) : hosted_(static_cast<std::size_t>(ranks)) {
    std::iota(hosted_.begin(), hosted_.end(), 0);
  }
  int ranks() const override { return static_cast<int>(hosted_.size()); }
  const std::vector<int>& hosted() const override { return hosted_; }
  int participants() const override { return 1; }
  std::vector<std::string> gather(const std::string& mine) override { return {mine}; }
  std::string broadcast(const std::string& text_of_leader) override { return text_of_leader; }

  void notify_abort(std::uint32_t) override {}
  bool abort_notified(std::uint32_t) override { return false; }

 private:
  std::vector<int> hosted_;
};

}  // namespace

std::unique_ptr<ControlPlane> make_solo_control_plane(int ranks) { return std::make_unique<SoloControlPlane>(ranks); }

}  // namespace p5
