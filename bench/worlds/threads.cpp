#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

#include "bench/base/error.hpp"
#include "bench/worlds/worlds.hpp"

namespace p5 {

namespace {

// What the threads share. A meeting ends when all have arrived; a thread that left for good breaks it.
struct Meeting {
  explicit Meeting(int count) : expected(count), blobs(static_cast<std::size_t>(count)) {}

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
  std::set<std::uint32_t> alarms;
};

class ThreadWorld final : public World {
 public:
  ThreadWorld(Meeting& meeting, int rank) : meeting_(meeting), hosted_{rank} {}
  int ranks() const override { return meeting_.expected; }
  const std::vector<int>& hosted() const override { return hosted_; }
  bool leads() const override { return hosted_[0] == 0; }
  int participants() const override { return meeting_.expected; }
  int participant() const override { return hosted_[0]; }

  std::vector<std::string> gather(const std::string& mine) override {
    std::unique_lock lock(meeting_.mutex);
    meeting_.blobs[static_cast<std::size_t>(hosted_[0])] = mine;
    meeting_.arrive(lock);
    std::vector<std::string> all;
    if (leads()) all = meeting_.blobs;
    meeting_.arrive(lock);  // nobody writes the next blob before the leader has read this one
    return all;
  }

  std::string broadcast(const std::string& leaders) override {
    std::unique_lock lock(meeting_.mutex);
    if (leads()) meeting_.leaders = leaders;
    meeting_.arrive(lock);
    std::string text = meeting_.leaders;
    meeting_.arrive(lock);
    return text;
  }

  void raise_alarm(std::uint32_t epoch) override {
    const std::lock_guard lock(meeting_.mutex);
    meeting_.alarms.insert(epoch);
  }
  bool alarmed(std::uint32_t epoch) override {
    const std::lock_guard lock(meeting_.mutex);
    return meeting_.alarms.contains(epoch);
  }

 private:
  Meeting& meeting_;
  std::vector<int> hosted_;
};

}  // namespace

void run_threads(int ranks, const std::function<void(World&)>& body) {
  Meeting meeting(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadWorld world(meeting, rank);
      try {
        body(world);
      } catch (...) {
        const std::lock_guard lock(meeting.mutex);
        if (!meeting.first_problem) meeting.first_problem = std::current_exception();
        meeting.broken = true;
        meeting.changed.notify_all();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (meeting.first_problem) std::rethrow_exception(meeting.first_problem);
}

}  // namespace p5
