// The queue behind a stream: tasks run one after another on a thread of its own, which starts with the first task.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace p5::fake_cuda {

// Something that happens once, at a time that can be asked for afterwards.
class Completion {
 public:
  void complete();
  void wait();
  bool done();
  bool done_within(std::chrono::microseconds limit);
  // Only when done.
  std::chrono::steady_clock::time_point time();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::chrono::steady_clock::time_point time_;
};

using Task = std::function<void()>;

class Queue {
 public:
  Queue();
  // Tasks that are still waiting are run all the same, as CUDA does with those of a destroyed stream.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Returns what is complete when the task has run.
  std::shared_ptr<Completion> submit(Task task);
  // The completion of the task submitted last; null when there was none.
  std::shared_ptr<Completion> tail();

 private:
  struct Inner;
  std::shared_ptr<Inner> inner_;
};

// Whether the calling thread is the thread of a queue, where CUDA forbids calls of its API.
bool on_queue_thread();

}  // namespace p5::fake_cuda
