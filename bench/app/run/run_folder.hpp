// A run's folder, OUT/CLUSTER/STAMP, and its files. The leader writes it; other ranks leave notes there.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/base/units.hpp"
#include "reports/report.hpp"

namespace p5 {

// Writes files on a thread of its own, so that a slow file system delays neither the leader nor the ranks that wait for
// it. A failure is thrown once, as an EnvironmentError that names the file, by the next call of any kind; later files
// are still tried.
class FileWriter {
 public:
  FileWriter();
  // Discards what is not written yet.
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Replaces the file; a newer text replaces one that still waits.
  void write(const std::filesystem::path& path, std::string text);
  // Appends a line.
  void append(const std::filesystem::path& path, std::string line);
  // Waits until everything is written. Throws EnvironmentError also after `timeout`.
  void flush(Seconds timeout);
  void check();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this if it blocks in a file system
};

// The remedy in messages about a folder that cannot be written any more, by which --resume knows what it interrupted.
inline constexpr std::string_view disk_remedy = "Make room, or make the folder writable";

class RunFolder {
 public:
  // No folder: nothing is written.
  RunFolder() = default;
  // Creates the folder and points both `latest` links to it. Throws UsageError if it cannot be written.
  RunFolder(const std::filesystem::path& out, const std::string& cluster);

  // Empty if there is no folder.
  const std::filesystem::path& path() const { return path_; }

  // These return at once; a failure is thrown by a later call, as for FileWriter.
  void write(const std::string& name, std::string text) {
    if (files_) files_->write(path_ / name, std::move(text));
  }
  // Writes report.json; those of the other formats that are files.
  void write_report(const reports::Report& report);
  void write_formats(const reports::Report& report, const std::vector<std::string>& formats);
  // Appends a line with samples to the journal.
  void add_to_journal(const reports::Result& result);

  void check() {
    if (files_) files_->check();
  }
  // Waits until everything is written.
  void flush();

  // Notes that lost ranks left; removes them.
  std::string take_notes() const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<FileWriter> files_;
};

// Writes a note of a rank that aborts, for the leader, on a shared file system.
void write_note_for_leader(const std::filesystem::path& folder, int rank, const std::string& why);

}  // namespace p5
