#include "bench/app/run/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "bench/app/run/closing.hpp"
#include "bench/base/clock.hpp"
#include "reports/joining.hpp"

namespace p5 {

const std::filesystem::path& Recorder::open(const Options& options, reports::Report report,
                                            std::optional<reports::Side> baseline) {
  const std::lock_guard lock(mutex_);
  RunFolder folder(options.out, report.run.cluster);
  parts_.emplace(Parts{.options = options,
                       .baseline = std::move(baseline),
                       .folder = std::move(folder),
                       .builder = ReportBuilder(options, std::move(report)),
                       .progress = ProgressLine(!options.quiet)});
  parts_->write();
  return parts_->folder.path();
}

void Recorder::with_parts(const std::function<void(Parts&)>& action) {
  const std::lock_guard lock(mutex_);
  if (parts_ && !ended_) action(*parts_);
}

// ---- to the report

void Recorder::visit_started(const Case& c, const RunProgress& standing) {
  with_parts([&](Parts& parts) {
    parts.builder.visit_started(c, standing);
    parts.progress.show(c, standing);
  });
}

void Recorder::case_finished(const Measurement& m, bool /*failed*/) {
  with_parts([&](Parts& parts) {
    parts.folder.add_to_journal(parts.builder.case_finished(m));
    // A hundredth of the time at most: the report of a long run takes a while to write.
    if (since(parts.written).count > std::max(2.0, 100 * parts.writing_s)) parts.write();
  });
}

// At once: what follows may take as long again.
void Recorder::joining_failed(const JoinFailure& failure) {
  fmt::print(stderr, "p5bench: {}\n", reports::join_message(failure));
  std::fflush(stderr);
  add([&](ReportBuilder& builder) { builder.add_findings(reports::join_findings(failure)); });
  write_report();
}

void Recorder::add(const std::function<void(ReportBuilder&)>& what) {
  with_parts([&](Parts& parts) { what(parts.builder); });
}

void Recorder::write_report() {
  with_parts([](Parts& parts) { parts.write(); });
}

void Recorder::add_file(const std::string& name, const std::string& text) {
  with_parts([&](Parts& parts) { parts.folder.write(name, text); });
}

void Recorder::Parts::write(const std::vector<std::string>& formats) {
  const auto began = Clock::now();
  folder.write_report(builder.report(), formats);
  written = Clock::now();
  writing_s = since(began).count;
}

// ---- the end

ExitCode Recorder::finish(ExitCode code) {
  with_parts([&](Parts& parts) {
    const Options& options = parts.options;
    const std::filesystem::path& folder = parts.folder.path();
    ReportBuilder& builder = parts.builder;
    ended_ = true;
    builder.close("");
    builder.count(code);
    parts.progress.clear();
    Compared arms, with_baseline;
    if (!builder.report().arms.empty()) arms = compare_own_arms(builder.report(), builder.launches(), options, folder);
    builder.count(arms.code);
    if (parts.baseline) {
      parts.write();  // the run is read like any other
      with_baseline = compare_with_baseline(*parts.baseline, builder.report(), options, folder);
      builder.count(with_baseline.code);
    }
    parts.write(options.formats);
    fmt::print("{}{}", closing_text(builder.report(), options, arms.text), with_baseline.text);
    fmt::print("Report: {}\n", folder.string());
    std::fflush(stdout);
    code = builder.report().exit_code;
  });
  return code;
}

void Recorder::end_early(const std::string& why) {
  with_parts([&](Parts& parts) {
    ended_ = true;
    const std::string notes = parts.folder.take_notes();
    const std::string reason = notes.empty() ? why : fmt::format("{} ({})", notes, why);
    std::string left = fmt::format("what was measured until then is in {}", parts.folder.path().string());
    try {
      for (const reports::Result& line : parts.builder.fail_unfinished(reason)) parts.folder.add_to_journal(line);
      parts.builder.close(reason);
      parts.progress.clear();
      parts.write(parts.options.formats);
    } catch (const std::exception& problem) {  // nobody up there can do anything about it
      left = problem.what();
    }
    fmt::print(stderr, "p5bench: {}; {}\n", reason, left);
    std::fflush(stderr);
  });
}

}  // namespace p5
