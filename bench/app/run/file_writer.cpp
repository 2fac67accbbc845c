#include "bench/app/run/file_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/thread.hpp"
#include "reports/atomic_file.hpp"

namespace p5 {

struct FileWriter::State {
  struct Task {
    std::filesystem::path path;
    std::string text;
    bool appends = false;
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Task> waiting;
  std::string writing;  // the file that is being written
  std::string problem;  // nobody was told of yet
  bool done = false;

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return done || !waiting.empty(); });
      if (done) return;
      const Task task = std::move(waiting.front());
      waiting.pop_front();
      writing = task.path.string();
      lock.unlock();
      const std::string why_not = perform(task);
      lock.lock();
      writing.clear();
      if (problem.empty()) problem = why_not;
      changed.notify_all();
    }
  }

  static std::string perform(const Task& task) try {
    if (task.appends)
      reports::append_line(task.path, task.text);
    else
      reports::write_atomically(task.path, task.text);
    return "";
  } catch (const std::exception& failure) {
    return failure.what();
  }

  // With the lock held.
  void tell() {
    if (!problem.empty()) throw EnvironmentError(std::exchange(problem, ""));
  }
};

FileWriter::FileWriter() : state_(std::make_shared<State>()) {
  start_thread([state = state_] { state->run(); }).detach();
}

FileWriter::~FileWriter() {
  const std::lock_guard lock(state_->mutex);
  state_->done = true;
  state_->changed.notify_all();
}

void FileWriter::write(const std::filesystem::path& path, std::string text) {
  const std::lock_guard lock(state_->mutex);
  const auto same = std::ranges::find_if(state_->waiting, [&](const State::Task& task) { return task.path == path; });
  if (same != state_->waiting.end() && !same->appends)
    same->text = std::move(text);
  else
    state_->waiting.push_back({path, std::move(text)});
  state_->changed.notify_all();
  state_->tell();
}

void FileWriter::append(const std::filesystem::path& path, std::string line) {
  const std::lock_guard lock(state_->mutex);
  state_->waiting.push_back({path, std::move(line), true});
  state_->changed.notify_all();
  state_->tell();
}

void FileWriter::flush(Seconds patience) {
  std::unique_lock lock(state_->mutex);
  const bool idle = state_->changed.wait_for(lock, std::chrono::duration<double>(patience.count),
                                             [&] { return state_->waiting.empty() && state_->writing.empty(); });
  if (!idle)
    throw EnvironmentError(fmt::format("'{}' is not written after {}: its file system does not answer", state_->writing,
                                       to_text(patience)));
  state_->tell();
}

void FileWriter::check() {
  const std::lock_guard lock(state_->mutex);
  state_->tell();
}

}  // namespace p5
