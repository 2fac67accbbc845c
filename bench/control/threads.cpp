#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

#include "bench/base/error.hpp"
#include "bench/control/control_planes.hpp"

namespace p5 {

namespace {

// What the threads share. A connectivity check ends when all have arrived; a thread that left for good breaks it.
struct SharedBarrier {
  explicit SharedBarrier(int count) : expected(count), blobs(static_cast<std::size_t>(count)) {}

  void arrive(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t mine = generation;
    if (++arrived == expected) {
      arrived = 0;
      ++generation;
      changed.notify_all();
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
  std::vector<std::string> blobs;
  std::string leaders;
  std::set<std::uint32_t> aborts;
};

class ThreadControlPlane final : public ControlPlane {
 public:
  ThreadControlPlane(SharedBarrier& barrier_state, int rank) : barrier_(barrier_state), hosted_{rank} {}
  int ranks() const override { return barrier_.expected; }
  const std::vector<int>& hosted() const override { return hosted_; }
  bool is_leader() const override { return hosted_[0] == 0; }
  int participants() const override { return barrier_.expected; }
  int participant() const override { return hosted_[0]; }

  std::vector<std::string> gather(const std::string& mine) override {
    std::unique_lock lock(barrier_.mutex);
    barrier_.blobs[static_cast<std::size_t>(hosted_[0])] = mine;
    barrier_.arrive(lock);
    std::vector<std::string> all;
    if (is_leader()) all = barrier_.blobs;
    barrier_.arrive(lock);  // nobody writes the next blob before the leader has read this one
    return all;
  }

  std::string broadcast(const std::string& leaders) override {
    std::unique_lock lock(barrier_.mutex);
    if (is_leader()) barrier_.leaders = leaders;
    barrier_.arrive(lock);
    std::string text = barrier_.leaders;
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

}  // namespace p5
