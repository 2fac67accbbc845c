#include "bench/app/run/run_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "bench/base/error.hpp"
#include "bench/base/input.hpp"
#include "bench/base/units.hpp"
#include "reports/atomic_file.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;

constexpr const char* note_prefix = "lost-rank-";
constexpr Bytes largest_note = KiB(64);

// For files at the end of a run, when nothing else waits.
constexpr Seconds patience{60};

// `latest` is ours to move only where it is a link.
void refuse_in_the_way(const fs::path& link) {
  std::error_code problem;
  const fs::file_status status = fs::symlink_status(link, problem);
  if (fs::exists(status) && !fs::is_symlink(status))
    throw UsageError(
        fmt::format("'{}' is in the way of the link to the latest run; move it or name another --out", link.string()));
}

// The second in which a run began, and which of that second's it is: STAMP, STAMP-2, STAMP-3.
std::pair<std::string, int> place_in_time(const fs::path& run) {
  const std::string name = run.filename().string();
  const std::size_t dash = name.find('-');
  int number = 1;
  if (dash != std::string::npos) std::from_chars(name.data() + dash + 1, name.data() + name.size(), number);
  return {name.substr(0, dash), number};
}

// A lock that one process holds for folders of runs until it goes out of scope; none where the file system has no
// locks.
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

// A run of the same second and cluster that began after this one keeps the link. Runs of several clusters are not
// counted together, so of those the one that comes later has it.
void point_latest(const fs::path& link, const fs::path& target) {
  const FolderLock lock(link.parent_path());
  std::error_code problem;
  const fs::path before = fs::read_symlink(link, problem);
  const auto there = place_in_time(before), mine = place_in_time(target);
  if (before.parent_path() == target.parent_path() && there.first == mine.first && there.second > mine.second) return;
  reports::replace_link(link, target);
}

// A new folder named by the time; two runs within one second get different ones.
fs::path new_folder(const fs::path& parent) {
  refuse_in_the_way(parent / "latest");
  refuse_in_the_way(parent.parent_path() / "latest");
  reports::make_folder(parent);
  std::string stamp = utc_now();
  std::erase_if(stamp, [](char c) { return c == '-' || c == ':'; });
  for (int i = 1;; ++i) {
    const fs::path folder = parent / (i == 1 ? stamp : fmt::format("{}-{}", stamp, i));
    std::error_code problem;
    if (fs::create_directory(folder, problem)) return folder;
    if (problem) reports::make_folder(folder);  // says what is wrong
  }
}

}  // namespace

RunFolder::RunFolder(const fs::path& out, const std::string& cluster)
    : path_(new_folder(out / cluster)), files_(std::make_unique<FileWriter>()) {
  point_latest(path_.parent_path() / "latest", path_.filename());
  point_latest(out / "latest", fs::path(cluster) / path_.filename());
}

void RunFolder::write_report(const reports::Report& report, const std::vector<std::string>& formats) {
  if (!files_) return;
  for (const reports::Writer& writer : reports::writers()) {
    const bool wanted = writer.name == "json" || std::ranges::find(formats, writer.name) != formats.end();
    if (wanted && !writer.suffix.empty()) write(writer.file_name("report"), writer.render(report));
  }
}

void RunFolder::add_to_journal(const reports::Result& result) {
  if (!files_) return;
  files_->append(path_ / "measurements.jsonl",
                 to_json(result, true).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void RunFolder::flush() {
  if (files_) files_->flush(patience);
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
      continue;  // none of ours
    }
    fs::remove(entry.path(), problem);
  }
  return words;
}

void write_note_for_leader(const fs::path& folder, int rank, const std::string& why) try {
  reports::write_atomically(folder / fmt::format("{}{}", note_prefix, rank), why);
} catch (const std::exception&) {
  // The job ends all the same, with less said.
}

}  // namespace p5
