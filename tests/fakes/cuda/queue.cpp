// Completions and the threads of queues. Threads are detached, so that one that hangs cannot keep a process from
// ending.
#include "tests/fakes/cuda/queue.hpp"

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <utility>

namespace p5::fake_cuda {

namespace {

std::chrono::steady_clock::time_point& planted_time() {
  thread_local std::chrono::steady_clock::time_point time;
  return time;
}

}  // namespace

bool clock_is_planted() {
  static const bool is = std::getenv("P5BENCH_FAKE_CLOCK") != nullptr;
  return is;
}

void pass(std::chrono::microseconds time) { planted_time() += time; }

void pass_until(std::chrono::steady_clock::time_point time) { planted_time() = std::max(planted_time(), time); }

// Threads are woken without the lock, for which they would wait again.
void Completion::complete() {
  {
    const std::scoped_lock lock(mutex_);
    time_ = clock_is_planted() ? planted_time() : std::chrono::steady_clock::now();
    done_ = true;
  }
  changed_.notify_all();
}

void Completion::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
}

bool Completion::done() {
  const std::scoped_lock lock(mutex_);
  return done_;
}

bool Completion::done_within(std::chrono::microseconds limit) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, limit, [this] { return done_; });
}

std::chrono::steady_clock::time_point Completion::time() {
  const std::scoped_lock lock(mutex_);
  return time_;
}

void await(Completion& other) {
  other.wait();
  if (clock_is_planted()) pass_until(other.time());
}

namespace {

bool& this_thread_is_a_queue() {
  thread_local bool is = false;
  return is;
}

}  // namespace

struct Queue::Inner {
  struct Entry {
    Task task;
    std::shared_ptr<Completion> completion;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Entry> entries;
  std::shared_ptr<Completion> tail;
  bool started = false;
  bool closed = false;

  void run() {
    this_thread_is_a_queue() = true;
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return closed || !entries.empty(); });
      if (entries.empty()) return;
      {
        const Entry entry = std::move(entries.front());
        entries.pop_front();
        lock.unlock();
        entry.task();
        entry.completion->complete();
      }
      lock.lock();
    }
  }
};

Queue::Queue() : inner_(std::make_shared<Inner>()) {}

Queue::~Queue() {
  const std::scoped_lock lock(inner_->mutex);
  inner_->closed = true;
  inner_->changed.notify_all();
}

std::shared_ptr<Completion> Queue::submit(Task task) {
  auto completion = std::make_shared<Completion>();
  {
    const std::scoped_lock lock(inner_->mutex);
    if (!inner_->started) {
      std::thread([inner = inner_] { inner->run(); }).detach();
      inner_->started = true;
    }
    inner_->tail = completion;
    inner_->entries.push_back({std::move(task), completion});
  }
  inner_->changed.notify_all();
  return completion;
}

std::shared_ptr<Completion> Queue::tail() {
  const std::scoped_lock lock(inner_->mutex);
  return inner_->tail;
}

bool on_queue_thread() { return this_thread_is_a_queue(); }

}  // namespace p5::fake_cuda
