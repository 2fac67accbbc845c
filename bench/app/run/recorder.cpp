#include "bench/app/run/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>

#include "bench/app/run/closing.hpp"
#include "bench/base/console.hpp"
#include "bench/base/text.hpp"
#include "reports/journal.hpp"
#include "reports/reachability.hpp"
#include "reports/suspects.hpp"
#include "reports/writer.hpp"

namespace p5 {

namespace {

// The first problem of several attempts, of which none keeps the next from being made; "": there was none.
class FirstProblem {
 public:
  void operator()(const std::function<void()>& action) try { action(); } catch (const std::exception& problem) {
    if (first_.empty()) first_ = problem.what();
  }
  const std::string& problem() const { return first_; }

 private:
  std::string first_;
};

// As --resume itself has it (run_options.cpp).
bool can_be_resumed(const Options& options) {
  return (options.command == "run" || options.command == "ab") && options.soak.count == 0;
}

std::string with_remedy(const std::string& problem, const Options& options) {
  return fmt::format("{}. Make room, or make the folder writable{}; or name another --out", problem,
                     can_be_resumed(options) ? ", and go on with --resume" : "");
}

// JSON on the console is for programs.
std::string where_it_is(const Options& options, const std::filesystem::path& folder) {
  const bool for_programs = options.checks() && options.formats.front() == "json";
  return folder.empty() || for_programs ? "" : fmt::format("Report: {}\n", folder.string());
}

// What is wrong with the disk is said with what to do.
void do_on_disk(const Options& options, const std::function<void()>& action) {
  try {
    action();
  } catch (const EnvironmentError& problem) {
    throw EnvironmentError(with_remedy(problem.what(), options));
  }
}

}  // namespace

const std::filesystem::path& Recorder::open(const Options& options, reports::Report report,
                                            std::optional<reports::Side> baseline) {
  const std::lock_guard lock(mutex_);
  RunFolder folder = options.out.empty() ? RunFolder() : RunFolder(options.out, report.run.cluster);
  parts_.emplace(Parts{.options = options,
                       .baseline = std::move(baseline),
                       .folder = std::move(folder),
                       .builder = ReportBuilder(options, std::move(report)),
                       .progress = ProgressLine(!options.quiet)});
  do_on_disk(options, [&] {
    parts_->write();
    parts_->folder.flush();
  });
  return parts_->folder.path();
}

void Recorder::with_parts(const std::function<void(Parts&)>& action) {
  const std::lock_guard lock(mutex_);
  if (parts_ && !ended_with_) action(*parts_);
}

void Recorder::on_disk(const std::function<void(Parts&)>& action) {
  with_parts([&](Parts& parts) {
    try {
      do_on_disk(parts.options, [&] {
        parts.folder.check();
        action(parts);
      });
    } catch (const EnvironmentError& problem) {
      if (parts.builder.has_results()) throw JobLost(problem.what());
      throw;
    }
  });
}

// ---- to the report

void Recorder::repetition_started(const Case& c, const RunProgress& standing) {
  on_disk([&](Parts& parts) {
    parts.builder.repetition_started(c, standing);
    parts.progress.show(c, standing);
  });
}

void Recorder::case_finished(const Measurement& m, bool /*failed*/) {
  on_disk([&](Parts& parts) {
    const reports::Result line = parts.builder.case_finished(m);
    parts.folder.add_to_journal(line);
    parts.progress.finished(line);
    // A hundredth of the time at most: the report of a long run takes a while to write.
    if (since(parts.written).count > std::max(2.0, 100 * parts.writing_s)) parts.write();
  });
}

// At once: what follows may take as long again.
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

void Recorder::add_beside(const std::vector<std::vector<std::string>>& nics_of_rank,
                          const std::vector<Measurement>& measured) {
  on_disk([&](Parts& parts) {
    for (const reports::Result& line : parts.builder.add_beside(nics_of_rank, measured))
      parts.folder.add_to_journal(line);
    parts.write();
  });
}

void Recorder::add_file(const std::string& name, const std::string& text) {
  on_disk([](Parts&) {});
  with_parts([&](Parts& parts) {
    parts.folder.write(name, text);
    do_on_disk(parts.options, [&] { parts.folder.flush(); });  // who asked for the file may do without
  });
}

void Recorder::Parts::write(const std::vector<std::string>& formats) {
  const auto began = Clock::now();
  folder.write_report(builder.report(), formats);
  written = Clock::now();
  writing_s = since(began).count;
}

// For the page, which shows them; the samples of a long run would take longer to read than its reader waits. A page
// without them is whole too.
void Recorder::Parts::add_samples() {
  constexpr std::uintmax_t most = 64 << 20;
  const std::filesystem::path journal = folder.path() / reports::journal_name;
  if (folder.path().empty() || std::ranges::find(options.formats, "html") == options.formats.end()) return;
  folder.flush();
  try {
    if (std::filesystem::file_size(journal) <= most) builder.add_samples(reports::read_journal(journal));
  } catch (const std::exception&) {
    // No case was measured, or more launches than a journal is read for.
  }
}

// For the next job and for support, where something is wrong.
void Recorder::Parts::write_for_others() {
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
    FirstProblem attempt;
    std::string lost;  // what ranks left word of that gave up, as while this one stood still
    attempt([&] { lost = parts.folder.take_notes(); });
    builder.close(lost);
    builder.count(code);
    if (options.checks()) builder.count_as_check();
    attempt([&] { parts.write_for_others(); });
    parts.progress.clear();
    ComparisonOutput arms, with_baseline;
    if (!builder.report().arms.empty()) arms = compare_own_arms(builder.report(), builder.launches(), options, folder);
    builder.count(arms.code);
    if (parts.baseline) {
      builder.add_baseline(*parts.baseline);
      attempt([&] { parts.write(); });
      attempt([&] { parts.folder.flush(); });  // the run is read like any other
      with_baseline = compare_with_baseline(*parts.baseline, builder.report(), options, folder);
      builder.count_baseline(with_baseline.code);
    }
    attempt([&] { parts.add_samples(); });
    attempt([&] { parts.write(options.formats); });
    attempt([&] { parts.folder.flush(); });
    if (!attempt.problem().empty()) {
      builder.remark(with_remedy(attempt.problem(), options));
      builder.count(ExitCode::unfinished);
      FirstProblem once_more;
      once_more([&] { parts.write(); });
      once_more([&] { parts.folder.flush(); });
      print_error(with_remedy(attempt.problem(), options) + ". The result is printed all the same");
    }
    print_result(reports::coloured_for_terminal(printable_lines(closing_text(builder.report(), options, arms.text) +
                                                       with_baseline.text + where_it_is(options, folder))));
    code = builder.report().exit_code;
    ended_with_ = code;
    came_to_its_end_ = true;
  });
  if (!parts_) came_to_its_end_ = true;
  return code;
}

bool Recorder::came_to_its_end() const { return came_to_its_end_; }

ExitCode Recorder::end_early(const std::string& why, ExitCode code) {
  with_parts([&](Parts& parts) {
    FirstProblem attempt;
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
      if (parts.options.checks()) parts.builder.count_as_check();
      parts.progress.clear();
    });
    attempt([&] { parts.write_for_others(); });
    attempt([&] { parts.write(parts.options.formats); });
    attempt([&] { parts.folder.flush(); });
    const reports::Report& report = parts.builder.report();
    std::string left;
    if (!attempt.problem().empty())
      left = fmt::format("; {}; what was measured until then is printed", attempt.problem());
    else if (!parts.folder.path().empty())
      left = fmt::format("; what was measured until then is in {}", parts.folder.path().string());
    if (parts.options.checks())
      attempt([&] { print_result(printable_lines(closing_text(report, parts.options, ""))); });
    else if (!attempt.problem().empty())
      attempt([&] { print_result(reports::render_console(report)); });
    print_error(reason + left);
    ended_with_ = parts.builder.report().exit_code;
  });
  const std::lock_guard lock(mutex_);
  return ended_with_.value_or(code);
}

}  // namespace p5
