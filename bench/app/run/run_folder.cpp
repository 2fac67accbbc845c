#include "bench/app/run/run_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/base/clock.hpp"
#include "bench/base/error.hpp"
#include "reports/atomic_file.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace {

namespace fs = std::filesystem;

constexpr const char* note_prefix = "lost-rank-";

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
  reports::point_link(path_.parent_path() / "latest", path_.filename());
  reports::point_link(out / "latest", fs::path(cluster) / path_.filename());
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
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    words += (words.empty() ? "" : "; ") + text.str();
    fs::remove(entry.path(), problem);
  }
  return words;
}

void leave_note(const fs::path& folder, int rank, const std::string& why) {
  std::ofstream(folder / fmt::format("{}{}", note_prefix, rank)) << why;
}

}  // namespace p5
