// A run's folder, OUT/CLUSTER/STAMP, and its files. The leader writes it; other ranks leave notes there.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/base/units.hpp"
#include "bench/measure/runner.hpp"
#include "bench/model/case.hpp"
#include "bench/model/options.hpp"
#include "reports/report.hpp"

namespace p5 {

// Writes files on a thread of its own, so that a slow file system delays neither the leader nor the ranks that wait for
// it. A failure is thrown once, as an EnvironmentError that names the file, by the next call of any kind; later files
// are still tried.
class FileWriter {
 public:
  // perform: writes or appends; null: to the file system.
  using Perform = std::function<void(const std::filesystem::path& path, const std::string& text, bool appends)>;
  explicit FileWriter(Perform perform = {});
  // Discards what is not written yet.
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // Replaces the file; a newer text replaces one that still waits.
  void write(const std::filesystem::path& path, std::string text);
  // Appends a line.
  void append(const std::filesystem::path& path, std::string line);
  // Removes a regular file.
  void remove(const std::filesystem::path& path);
  // Waits until everything is written. Throws EnvironmentError also after `timeout`, and soon if an earlier call did
  // and no file was written since.
  void flush(Seconds timeout);
  void check();
  // From now on a failure is kept for flush().
  void throw_only_in_flush();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this if it blocks in a file system
};

// The remedy in messages about a folder that cannot be written. --resume finds this text in the results of cases that
// such an end interrupted, and measures them again.
inline constexpr std::string_view disk_remedy = "Make room, or make the folder writable";

class RunFolder {
 public:
  // No folder: nothing is written.
  RunFolder() = default;
  // Creates the folder. Throws UsageError if it cannot be written.
  RunFolder(const std::filesystem::path& out, const std::string& cluster);
  // Points both `latest` links to it. Before it has a report, they stay where they lead.
  void become_latest();

  // Empty if there is no folder.
  const std::filesystem::path& path() const { return path_; }
  // CLUSTER/STAMP; empty if there is no folder.
  std::filesystem::path within_out() const { return path_.parent_path().filename() / path_.filename(); }

  // These return at once; a failure is thrown by a later call, as for FileWriter.
  void write(const std::string& name, std::string text) {
    if (files_) files_->write(path_ / name, std::move(text));
  }
  // Writes report.json; those of the other formats that are files.
  void write_report(const reports::Report& report);
  void write_formats(const reports::Report& report, const std::vector<std::string>& formats);
  // The same after the answer changed: a file that cannot be written again is removed, since it has the earlier one.
  void rewrite_report(const reports::Report& report);
  void rewrite_formats(const reports::Report& report, const std::vector<std::string>& formats);
  // Appends a line with samples to the journal.
  void add_to_journal(const reports::Result& result);

  void check() {
    if (files_) files_->check();
  }
  // Waits until everything is written.
  void flush();
  void throw_only_in_flush() {
    if (files_) files_->throw_only_in_flush();
  }
  // From now on no wait for the file system is longer than this.
  void limit_waits(Seconds longest) { flush_timeout_ = take_notes_timeout_ = longest; }

  // Notes that ranks left, each text once; removes them. "" where the file system does not answer.
  std::string take_notes() const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<FileWriter> files_;
  // The timeouts of flush() and of take_notes(). Other ranks wait for the sum of both.
  Seconds flush_timeout_{60}, take_notes_timeout_{10};
};

// Throws UsageError if the file that the option names is one of a run, which has its journal beside it. Other commands
// replace none of these.
void require_no_file_of_run(std::string_view option, const std::filesystem::path& file);

// Writes a note of a rank that aborts, or knows which rank is stopped, for the leader, on a shared file system.
void write_note_for_leader(const std::filesystem::path& folder, int rank, const std::string& why);
void remove_note_for_leader(const std::filesystem::path& folder, int rank);

// ---- `run --resume`: continues a run that ended early. Its journal has its results launch by launch; its report has
// its configuration. At the leader only.

struct EarlierRun {
  std::filesystem::path folder;
  reports::Report report;  // may lack results that only the journal has
};

// The newest run in --out that this job made and has results to keep: with the same options, but for time, formats and
// folder, and the same first host. Without one the newest interrupted one that has none, or that has other options and
// results, then a complete one, at last what `latest` leads to, with --cluster of that cluster. Throws UsageError if
// there is none to continue.
EarlierRun find_earlier_run(const Options& options, const std::vector<std::string>& arguments);

// True if --resume keeps this result of a run that ended so: failed cases are kept, and wrong data always; only skipped
// cases and those interrupted by a signal or by a full disk are measured again.
bool can_be_kept(const Measurement& m, const std::string& ended_by);

// A journal line of an earlier run that is kept.
struct KeptLine {
  CaseInLaunch place;
  reports::Result result;
  std::string text;
  bool beside = false;  // not in the plan, so without a place
};

// Results kept of an earlier run: measured and failed cases, and all with wrong data, also beside the plan. Skipped
// cases and those that a signal interrupted are measured again. Where there are results to keep, throws UsageError,
// naming the difference, if `fresh` (the report at the start of this run) is of another job or machine, if `planned` in
// these arms lacks a measured case, or if the journal cannot be read; and if the run was complete. If there are none,
// and `fresh` is of another job or machine, `earlier` loses its tuning, the context of its arms, and the findings about
// hosts that are not in this job or have another instance or other GPUs now.
std::vector<KeptLine> keep_results(EarlierRun& earlier, const reports::Report& fresh, const std::vector<Case>& planned,
                                   const std::vector<Arm>& arms);

}  // namespace p5
