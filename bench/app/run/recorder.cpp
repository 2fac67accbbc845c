#include "bench/app/run/recorder.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <exception>
#include <filesystem>

#include "bench/app/run/comparing.hpp"
#include "bench/base/console.hpp"
#include "bench/base/text.hpp"
#include "bench/base/units.hpp"
#include "reports/journal.hpp"
#include "reports/judge.hpp"
#include "reports/nodes.hpp"
#include "reports/part_names.hpp"
#include "reports/reachability.hpp"
#include "reports/suspects.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace {

int columns_of_stderr() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// Rank of a result: wrong data and failures first, then slow ones, then those closest to slow; 0: not judged.
double how_bad(const reports::Result& result) {
  switch (result.verdict.grade) {
    case reports::Grade::wrong:
      return 4;
    case reports::Grade::failed:
      return 3;
    case reports::Grade::slow:
      return 3 - std::min(result.verdict.fraction.value_or(0), 1.0);
    case reports::Grade::ok:
      return 2 - std::min(result.verdict.fraction.value_or(0), 1.0);
    default:
      return 0;
  }
}

}  // namespace

ProgressLine::ProgressLine(bool wanted)
    : visible_(wanted && leads_to_terminal(STDERR_FILENO)), columns_(visible_ ? columns_of_stderr() : 0) {}

void ProgressLine::show(const Case& c, const RunProgress& standing) {
  if (visible_ && since(shown_).count > 0.2)
    print(fmt::format("{:>3} %  {} of {}, about {} left, {}{}", 100 * standing.index / standing.count,
                      standing.index + 1, standing.count, to_text(standing.left), describe(c), worst_));
}

void ProgressLine::finished(const reports::Result& result) {
  const double bad = how_bad(result);
  if (!visible_ || bad <= how_bad_) return;
  how_bad_ = bad;
  const reports::Verdict& v = result.verdict;
  const bool rate = v.fraction && (v.grade == reports::Grade::ok || v.grade == reports::Grade::slow);
  worst_ = fmt::format("; worst so far: {} {}", describe(result.measurement.measured_case),
                       rate ? fmt::format("{} of its limit, {}", reports::percent_beside(*v.fraction, v.least_fraction),
                                          name_of(v.grade))
                            : std::string(name_of(v.grade)));
}

void ProgressLine::clear() {
  if (visible_) print("");
}

// A longer line would wrap, and the wrapped part is never cleared.
void ProgressLine::print(const std::string& line) {
  const std::size_t fits = columns_ > 1 ? static_cast<std::size_t>(columns_ - 1) : line.size();
  print_stderr(fmt::format("\r\033[K{}", line.substr(0, fits)));
  shown_ = Clock::now();
}

namespace {

// Runs several actions, each whatever the others threw, and keeps the first problem; "" if none.
class FirstProblem {
 public:
  void operator()(const std::function<void()>& action) try { action(); } catch (const std::exception& problem) {
    if (first_.empty()) keep(problem);
  }
  const std::string& problem() const { return first_; }
  bool is_of_disk() const { return is_of_disk_; }

 private:
  void keep(const std::exception& problem) try {
    is_of_disk_ = dynamic_cast<const EnvironmentError*>(&problem) != nullptr;
    first_ = describe(problem);
  } catch (const std::bad_alloc&) {
    first_ = "no memory left";  // short enough to need none
  }

  std::string first_;
  bool is_of_disk_ = false;
};

// The same condition as --resume (run_options.cpp).
bool can_be_resumed(const Options& options) {
  return (options.command == "run" || options.command == "ab") && options.soak.count == 0;
}

// A folder that has no report, or was removed, is nothing to go on with.
std::string with_remedy(const std::string& problem, const Options& options, const std::filesystem::path& folder) {
  std::error_code unknown;
  const bool can_go_on = can_be_resumed(options) && std::filesystem::exists(folder / "report.json", unknown);
  return fmt::format("{}. {}{}; or name another --out", problem, disk_remedy,
                     can_go_on ? ", and continue with --resume" : "");
}

std::string with_remedy(const FirstProblem& first, const Options& options, const std::filesystem::path& folder) {
  return first.is_of_disk() ? with_remedy(first.problem(), options, folder) : first.problem();
}

// JSON on the console is read by programs, so no other line is added.
std::string report_location(const Options& options, const std::filesystem::path& folder) {
  return folder.empty() || options.prints_json() ? "" : fmt::format("Report: {}\n", folder.string());
}

// Adds the remedy to a disk error.
void with_disk_remedy(const Options& options, const std::filesystem::path& folder,
                      const std::function<void()>& action) {
  try {
    action();
  } catch (const EnvironmentError& problem) {
    throw EnvironmentError(with_remedy(problem.what(), options, folder));
  }
}

}  // namespace

const std::filesystem::path& Recorder::open(const Options& options, reports::Report report,
                                            std::optional<reports::Side> baseline) {
  const std::lock_guard lock(mutex_);
  RunFolder folder = options.out.empty() ? RunFolder() : RunFolder(options.out, report.run.cluster);
  report.run.folder = folder.within_out().string();
  parts_.emplace(Parts{.options = options,
                       .baseline = std::move(baseline),
                       .folder = std::move(folder),
                       .builder = ReportBuilder(options, std::move(report)),
                       .progress = ProgressLine(!options.quiet)});
  with_disk_remedy(options, parts_->folder.path(), [&] {
    parts_->write();
    parts_->folder.flush();
  });
  if (options.checks()) {  // its lines need no file
    parts_->folder.throw_only_in_flush();
    parts_->folder.limit_waits({1});
  }
  return parts_->folder.path();
}

void Recorder::become_latest() {
  on_disk([](Parts& parts) {
    parts.folder.flush();
    parts.folder.become_latest();
  });
}

void Recorder::with_parts(const std::function<void(Parts&)>& action) {
  const std::lock_guard lock(mutex_);
  if (parts_ && !ended_with_) action(*parts_);
}

void Recorder::on_disk(const std::function<void(Parts&)>& action) {
  with_parts([&](Parts& parts) {
    parts.on_disk([&] {
      parts.folder.check();
      action(parts);
    });
  });
}

// Once there are results, an error of the disk ends the run, and the results are kept. The lines of a check need no
// file.
void Recorder::Parts::on_disk(const std::function<void()>& action) {
  try {
    action();
  } catch (const EnvironmentError& problem) {
    if (options.checks()) {
      if (lost_on_disk.empty()) lost_on_disk = problem.what();
      return;
    }
    const std::string why = with_remedy(problem.what(), options, folder.path());
    if (builder.has_results()) throw JobLost(why);
    throw EnvironmentError(why);
  }
}

void Recorder::Parts::throw_lost_on_disk() const {
  if (!lost_on_disk.empty()) throw EnvironmentError(lost_on_disk);
}

// ---- to the report

void Recorder::repetition_started(const Case& c, const RunProgress& standing) {
  on_disk([&](Parts& parts) {
    parts.builder.repetition_started(c, standing);
    parts.progress.show(c, standing);
  });
}

void Recorder::case_finished(const Measurement& m, bool /*failed*/) {
  with_parts([&](Parts& parts) {
    const reports::Result line = parts.builder.case_finished(m);  // also where the disk is full since the last case
    parts.on_disk([&] {
      parts.folder.add_to_journal(line);
      parts.progress.finished(line);
      // Writing takes at most 1 % of the time: the report of a long run takes long to write.
      if (since(parts.written).count > std::max(2.0, 100 * parts.writing_s)) parts.write();
    });
  });
}

// Written at once, because the next attempt to join may take as long.
void Recorder::joining_failed(const JoinFailure& failure) {
  print_error(reports::join_message(failure));
  add([&](ReportBuilder& builder) { builder.add_findings(reports::join_findings(failure)); });
  write_report();
}

void Recorder::add(const std::function<void(ReportBuilder&)>& what) {
  with_parts([&](Parts& parts) { what(parts.builder); });
}

void Recorder::write_report() {
  on_disk([](Parts& parts) { parts.write(); });
}

void Recorder::add_unplanned(const std::vector<std::vector<std::string>>& nics_of_rank,
                             const std::vector<Measurement>& measured) {
  with_parts([&](Parts& parts) {
    const std::vector<reports::Result> lines = parts.builder.add_unplanned(nics_of_rank, measured);
    parts.on_disk([&] {
      for (const reports::Result& line : lines) parts.folder.add_to_journal(line);
      parts.write();
    });
  });
}

void Recorder::add_file(const std::string& name, const std::string& text) {
  on_disk([](Parts&) {});
  with_parts([&](Parts& parts) {
    parts.folder.write(name, text);
    if (parts.options.checks()) return;  // its end waits for all files
    with_disk_remedy(parts.options, parts.folder.path(), [&] { parts.folder.flush(); });
  });
}

void Recorder::Parts::write(const std::vector<std::string>& formats) {
  const auto began = Clock::now();
  folder.write_report(builder.report());
  folder.write_formats(builder.report(), formats);
  written = Clock::now();
  writing_s = since(began).count;
}

// Adds samples for the HTML page. Journals above 64 MiB are skipped: the page would load too slowly. It is complete
// without samples.
void Recorder::Parts::add_samples() {
  constexpr std::uintmax_t most = 64 << 20;
  const std::filesystem::path journal = folder.path() / reports::journal_name;
  if (folder.path().empty() || !options.wants("html")) return;
  folder.flush();
  try {
    if (std::filesystem::file_size(journal) <= most) builder.add_samples(reports::read_journal(journal));
  } catch (const std::exception&) {
    // No case was measured, or the journal is too large to read.
  }
}

// Writes hosts.healthy and support.txt if something is wrong, with the machine or the order of its hosts.
void Recorder::Parts::write_handover_files() {
  const std::pair<const char*, std::string> files[] = {{"hosts.healthy", reports::healthy_hosts(builder.report())},
                                                       {"support.txt", reports::support_text(builder.report())}};
  for (const auto& [name, text] : files)
    if (!text.empty()) folder.write(name, text);
}

// ---- the end

ExitCode Recorder::finish(ExitCode code) {
  with_parts([&](Parts& parts) {
    const Options& options = parts.options;
    const std::filesystem::path& folder = parts.folder.path();
    ReportBuilder& builder = parts.builder;
    parts.folder.throw_only_in_flush();  // each file is tried, whatever became of those before it
    FirstProblem attempt;
    attempt([&] { parts.throw_lost_on_disk(); });
    std::string lost;  // notes of ranks that aborted while this one was blocked
    attempt([&] { lost = parts.folder.take_notes(); });
    builder.close(lost);
    builder.add_exit_code(code);
    if (options.checks()) builder.apply_check_exit_code();
    attempt([&] { parts.write_handover_files(); });
    parts.progress.clear();
    ComparisonOutput arms, with_baseline;
    if (!builder.report().arms.empty()) arms = compare_own_arms(builder.report(), builder.launches(), options, folder);
    builder.add_comparison(arms.headline);
    builder.add_exit_code(arms.code);
    if (parts.baseline) {
      builder.add_baseline(*parts.baseline);
      attempt([&] { parts.folder.flush(); });  // the comparison reads the journal from disk
      with_baseline = compare_with_baseline(*parts.baseline, builder.report(), options, folder);
      builder.add_comparison(with_baseline.headline);
      builder.apply_baseline_exit_code(with_baseline.code);
    }
    attempt([&] { parts.add_samples(); });
    const reports::Report& report = builder.report();  // once, because it takes the time of the run
    attempt([&] { parts.folder.write_formats(report, options.formats); });
    attempt([&] { parts.folder.flush(); });
    std::string text;
    FirstProblem last;
    // Where the report cannot be written, all figures are printed.
    const auto render = [&](bool is_lost) {
      const std::string own = is_lost && !options.checks() ? reports::render_table(report) + arms.text
                                                           : closing_text(report, options, arms.text);
      const bool is_there = !options.checks() || last.problem().empty();
      text = reports::coloured_for_terminal(
          printable_lines(own + with_baseline.text + (is_there ? report_location(options, folder) : "")));
    };
    attempt([&] { render(false); });
    // A node is not unfit because a file cannot be written. The earlier report says that the check did not finish.
    const auto end_incomplete = [&](const FirstProblem& first) {
      if (options.checks() && first.is_of_disk()) return parts.folder.rewrite_report(report);
      builder.end_incomplete(with_remedy(first, options, folder));
      parts.folder.rewrite_formats(report, options.formats);  // all formats say the same
    };
    if (!attempt.problem().empty()) attempt([&] { end_incomplete(attempt); });
    // report.json is written last and says `partial` until then: if another file cannot be written, the exit code in
    // the report is still that of the process.
    last([&] { parts.folder.write_report(report); });
    last([&] { parts.folder.flush(); });
    if (attempt.problem().empty() && !last.problem().empty()) {
      last([&] { end_incomplete(last); });
      last([&] { parts.folder.flush(); });
    }
    const bool incomplete = !attempt.problem().empty() || !last.problem().empty();
    const FirstProblem first = attempt.problem().empty() ? last : attempt;
    const bool only_files_are_lost = options.checks() && first.is_of_disk();
    // Where the report is there, its exit code is that of the process, whatever other file is lost.
    const ExitCode of_files = !only_files_are_lost     ? ExitCode::unfinished
                              : last.problem().empty() ? ExitCode::ok
                                                       : ExitCode::environment;
    code = incomplete ? worse(report.exit_code, of_files) : report.exit_code;
    ended_with_ = code;
    finished_ = true;
    if (incomplete) {
      last([&] { print_error(with_remedy(first, options, folder) + ". The result is printed nevertheless"); });
      last([&] { render(true); });
    }
    // A check without a folder leaves nothing but its text.
    if (options.checks() && folder.empty())
      code = print_result_for(code, text);
    else
      print_result(text);
    ended_with_ = code;
  });
  if (!parts_) finished_ = true;
  return code;
}

bool Recorder::finished() const { return finished_; }

ExitCode Recorder::end_early(const std::string& why, ExitCode code) {
  with_parts([&](Parts& parts) {
    parts.folder.throw_only_in_flush();  // each file is tried, whatever became of those before it
    FirstProblem attempt;
    attempt([&] { parts.throw_lost_on_disk(); });
    std::string reason = why;
    attempt([&] {
      const std::string notes = parts.folder.take_notes();
      if (!notes.empty()) reason = fmt::format("{} ({})", notes, why);
    });
    std::vector<reports::Result> lines;
    attempt([&] { lines = parts.builder.fail_unfinished(reason); });
    for (const reports::Result& line : lines) attempt([&] { parts.folder.add_to_journal(line); });
    attempt([&] {
      parts.builder.close(reason, code);
      if (parts.options.checks()) parts.builder.apply_check_exit_code();
      parts.progress.clear();
    });
    const reports::Report& report = parts.builder.report();
    // The report of a run that is unfinished whatever becomes of other files comes first: launchers kill soon after a
    // signal.
    if (worse(report.exit_code, ExitCode::unfinished) == report.exit_code)
      attempt([&] { parts.folder.write_report(report); });
    attempt([&] { parts.write_handover_files(); });
    attempt([&] { parts.folder.write_formats(report, parts.options.formats); });
    attempt([&] { parts.folder.flush(); });
    // A report that cannot be written again stays as it was, which is unfinished; so it is written last. That of a
    // check is removed, because a check may end otherwise all the same.
    const auto stay_unfinished = [&] {
      if (attempt.problem().empty()) return;
      if (parts.options.checks()) return parts.folder.rewrite_report(report);
      parts.builder.add_exit_code(ExitCode::unfinished);
      parts.folder.rewrite_formats(report, parts.options.formats);
    };
    attempt(stay_unfinished);
    attempt([&] { parts.folder.write_report(report); });
    attempt([&] { parts.folder.flush(); });
    attempt(stay_unfinished);
    attempt([&] { parts.folder.flush(); });
    std::string left;
    if (!attempt.problem().empty())
      left = fmt::format("; {}; what was measured until then is printed", attempt.problem());
    else if (!parts.folder.path().empty())
      left = fmt::format("; what was measured until then is in {}", parts.folder.path().string());
    const bool lost = !attempt.problem().empty(), checks = parts.options.checks();
    attempt([&] {
      print_result(reports::coloured_for_terminal(
          printable_lines((lost && !checks ? reports::render_table(report) : closing_text(report, parts.options, "")) +
                          (lost && checks ? "" : report_location(parts.options, parts.folder.path())))));
    });
    print_error(reason + left);
    attempt([&] { (void)parts.folder.take_notes(); });  // a rank that gave up since says the same
    ended_with_ = parts.builder.report().exit_code;
  });
  const std::lock_guard lock(mutex_);
  return ended_with_.value_or(code);
}

}  // namespace p5
