// A run's folder, OUT/CLUSTER/STAMP, and the files in it. It is the leader's; other ranks leave notes there.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/app/run/file_writer.hpp"
#include "reports/report.hpp"

namespace p5 {

class RunFolder {
 public:
  // None: nothing is written.
  RunFolder() = default;
  // Makes it, and both links `latest` point to it. Throws UsageError when it cannot be written.
  RunFolder(const std::filesystem::path& out, const std::string& cluster);

  // "" where there is none.
  const std::filesystem::path& path() const { return path_; }

  // These return at once; what goes wrong is thrown by a later call, as FileWriter says.
  void write(const std::string& name, std::string text) {
    if (files_) files_->write(path_ / name, std::move(text));
  }
  // report.json, and of these formats those that are files.
  void write_report(const reports::Report& report, const std::vector<std::string>& formats);
  // A line of the journal, with samples.
  void add_to_journal(const reports::Result& result);

  void check() {
    if (files_) files_->check();
  }
  // Until all that was given is in its file.
  void flush();

  // What lost ranks left word of, which is then removed.
  std::string take_notes() const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<FileWriter> files_;
};

// Where a rank that cannot go on leaves word for the leader, on a shared file system.
void write_note_for_leader(const std::filesystem::path& folder, int rank, const std::string& why);

}  // namespace p5
