#include "bench/app/run/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "bench/base/thread.hpp"
#include "reports/atomic_file.hpp"
#include "reports/writer.hpp"

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
  std::filesystem::path writing;  // the file being written
  std::string problem;            // not thrown yet
  bool done = false;

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return done || !waiting.empty(); });
      if (done) return;
      Task task = std::move(waiting.front());
      waiting.pop_front();
      writing = std::move(task.path);
      lock.unlock();
      const std::string why_not = perform(writing, task);
      lock.lock();
      writing.clear();
      if (problem.empty()) problem = why_not;
      changed.notify_all();
    }
  }

  static std::string perform(const std::filesystem::path& path, const Task& task) try {
    if (task.appends)
      reports::append_line(path, task.text);
    else
      reports::write_atomically(path, task.text);
    return "";
  } catch (const std::exception& failure) {
    return failure.what();
  }

  // Requires the lock.
  void throw_problem() {
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
  state_->throw_problem();
}

void FileWriter::append(const std::filesystem::path& path, std::string line) {
  const std::lock_guard lock(state_->mutex);
  state_->waiting.push_back({path, std::move(line), true});
  state_->changed.notify_all();
  state_->throw_problem();
}

void FileWriter::flush(Seconds timeout) {
  std::unique_lock lock(state_->mutex);
  const bool idle = state_->changed.wait_for(lock, std::chrono::duration<double>(timeout.count),
                                             [&] { return state_->waiting.empty() && state_->writing.empty(); });
  if (!idle)
    throw EnvironmentError(fmt::format("'{}' is not written after {}: its file system does not answer",
                                       state_->writing.string(), to_text(timeout)));
  state_->throw_problem();
}

void FileWriter::check() {
  const std::lock_guard lock(state_->mutex);
  state_->throw_problem();
}

namespace {

namespace fs = std::filesystem;

constexpr const char* note_prefix = "lost-rank-";
constexpr Bytes largest_note = KiB(64);

// Timeout for writing the files at the end of a run.
constexpr Seconds flush_timeout{60};

// `latest` may be replaced only if it is a link.
void require_link_or_nothing(const fs::path& link) {
  std::error_code problem;
  const fs::file_status status = fs::symlink_status(link, problem);
  if (fs::exists(status) && !fs::is_symlink(status))
    throw UsageError(
        fmt::format("'{}' is in the way of the link to the latest run; move it or name another --out", link.string()));
}

// Start second of a run and its number within that second: STAMP, STAMP-2, STAMP-3.
std::pair<std::string, int> parse_stamp(const fs::path& run) {
  const std::string name = run.filename().string();
  const std::size_t dash = name.find('-');
  int number = 1;
  if (dash != std::string::npos) std::from_chars(name.data() + dash + 1, name.data() + name.size(), number);
  return {name.substr(0, dash), number};
}

// Exclusive lock on a folder of runs; no lock if the file system has none.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ >= 0) (void)::flock(fd_, LOCK_EX);
  }
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_;
};

// A run that started later in the same second in the same cluster keeps the link. Numbers of different clusters do not
// compare, so the last writer wins there.
void point_latest(const fs::path& link, const fs::path& target) {
  const FolderLock lock(link.parent_path());
  std::error_code problem;
  const fs::path before = fs::read_symlink(link, problem);
  const auto there = parse_stamp(before), mine = parse_stamp(target);
  if (before.parent_path() == target.parent_path() && there.first == mine.first && there.second > mine.second) return;
  reports::replace_link(link, target);
}

// Creates a folder named by the time; runs within one second get different names.
fs::path new_folder(const fs::path& parent) {
  require_link_or_nothing(parent / "latest");
  require_link_or_nothing(parent.parent_path() / "latest");
  reports::make_folder(parent);
  std::string stamp = utc_now();
  std::erase_if(stamp, [](char c) { return c == '-' || c == ':'; });
  for (int i = 1;; ++i) {
    const fs::path folder = parent / (i == 1 ? stamp : fmt::format("{}-{}", stamp, i));
    std::error_code problem;
    if (fs::create_directory(folder, problem)) return folder;
    if (problem) reports::make_folder(folder);  // throws with the reason
  }
}

}  // namespace

RunFolder::RunFolder(const fs::path& out, const std::string& cluster)
    : path_(new_folder(out / cluster)), files_(std::make_unique<FileWriter>()) {
  point_latest(path_.parent_path() / "latest", path_.filename());
  point_latest(out / "latest", fs::path(cluster) / path_.filename());
}

void RunFolder::write_formats(const reports::Report& report, const std::vector<std::string>& formats) {
  if (!files_) return;
  for (const reports::Writer& writer : reports::writers()) {
    const bool wanted = writer.name != "json" && std::ranges::find(formats, writer.name) != formats.end();
    if (wanted && !writer.suffix.empty()) write(writer.file_name("report"), writer.render(report));
  }
}

void RunFolder::write_report(const reports::Report& report) {
  if (!files_) return;
  const reports::Writer& json = reports::find_writer("json");
  write(json.file_name("report"), json.render(report));
}

void RunFolder::add_to_journal(const reports::Result& result) {
  if (!files_) return;
  files_->append(path_ / "measurements.jsonl",
                 to_json(result, true).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void RunFolder::flush() {
  if (files_) files_->flush(flush_timeout);
}

std::string RunFolder::take_notes() const {
  std::string words;
  if (!files_) return words;
  std::error_code problem;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, problem)) {
    if (!entry.path().filename().string().starts_with(note_prefix)) continue;
    try {
      const std::string text = read_input(entry.path(), largest_note, "");
      words += (words.empty() ? "" : "; ") + text;
    } catch (const UsageError&) {
      continue;  // not a note of this program
    }
    fs::remove(entry.path(), problem);
  }
  return words;
}

void write_note_for_leader(const fs::path& folder, int rank, const std::string& why) try {
  reports::write_atomically(folder / fmt::format("{}{}", note_prefix, rank), why);
} catch (const std::exception&) {
  // The job ends anyway, without the reason.
}

}  // namespace p5
