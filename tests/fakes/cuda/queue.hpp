// The queue behind a stream: tasks run one after another on a thread of its own, which starts with the first task.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace p5::fake_cuda {

// The planted clock of the calling queue, which advances only by what tasks say that they take (`pass`) and by waiting
// for other queues; without P5BENCH_FAKE_CLOCK completions have the time of steady_clock instead.
bool clock_is_planted();
void pass(std::chrono::microseconds time);
void pass_until(std::chrono::steady_clock::time_point time);

// An event that occurs once and records its time.
class Completion {
 public:
  // Called by the queue.
  void complete();
  void wait();
  bool done();
  bool done_within(std::chrono::microseconds limit);
  // Valid only when done.
  std::chrono::steady_clock::time_point time();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::chrono::steady_clock::time_point time_;
};

// Makes the calling queue wait for another's completion.
void await(Completion& other);

using Task = std::function<void()>;

class Queue {
 public:
  Queue();
  // Runs tasks that still wait, as CUDA does for a destroyed stream.
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Returns the completion of the task.
  std::shared_ptr<Completion> submit(Task task);
  // The completion of the task submitted last; null without one.
  std::shared_ptr<Completion> tail();

 private:
  struct Inner;
  std::shared_ptr<Inner> inner_;
};

// True on the thread of a queue, where CUDA forbids API calls.
bool on_queue_thread();

}  // namespace p5::fake_cuda
